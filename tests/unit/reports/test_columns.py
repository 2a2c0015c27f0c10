"""Peak and attainable are two columns, efficiency is the lowest, truncation is stated, nothing is quadratic."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from lxml import html

from tenken.report import page, plots, session
from tests.unit.reports import builder
from tests.unit.reports.test_page import build

PEAK = {"value": 4000.0, "unit": "GB/s", "basis": "attribute: memory clock x bus width"}
SHOWN = {"value": 2000.0, "unit": "GB/s", "basis": "measured: dot bandwidth in this run"}


def one_of_each(tmp_path):
    peak = builder.metric("copy", {"gpu": 0}, [3000.0] * 5)
    shown = builder.metric("dot", {"gpu": 0}, [1500.0] * 5)
    doc = builder.document("stream", [peak, shown], 1)
    doc["limits"] = {"copy.gpu0": PEAK, "dot.gpu0": SHOWN}
    judged = {m["id"]: builder.judgement(m, doc["limits"][m["id"]]) for m in doc["metrics"]}
    return build(tmp_path, [builder.record("stream", doc, judged=judged)])


def test_peak_and_attainable_are_never_one_under_the_name_of_the_other(tmp_path):
    tree = html.document_fromstring(one_of_each(tmp_path))
    table = tree.xpath("//table[contains(@class,'metrics')]")[0]
    heads = [h.text_content() for h in table.xpath("./thead//th")]
    cells = {
        row.xpath("./th")[0].text_content(): dict(zip(heads, [c.text_content() for c in row], strict=True))
        for row in table.xpath("./tbody/tr")
    }
    assert cells["Copy"]["Peak"] == "400075.0\u202f%" and cells["Copy"]["Attainable"] == "–"
    assert cells["Dot"]["Attainable"] == "200075.0\u202f%" and cells["Dot"]["Peak"] == "–"
    notes = [n.text_content() for n in tree.xpath("//ul[@class='notes']/li")]
    assert any(n.startswith("Attainable measured: dot") for n in notes)
    assert any(n.startswith("Peak attribute: memory clock") for n in notes)


def test_efficiency_is_the_lowest_over_all_coordinates_and_says_which(tmp_path):
    points = [
        builder.metric("htod", {"gpu": 0}, [v] * 5, at={"bytes": b}) for b, v in ((4096, 40.0), (1 << 30, 3900.0))
    ]
    doc = builder.document("transfer", [*points, builder.metric("pageable", {"gpu": 0}, [3000.0] * 5)], 1, PEAK)
    tree = html.document_fromstring(build(tmp_path, [builder.record("transfer", doc)]))
    cell = tree.xpath("//table[contains(@class,'verdicts')]/tbody/tr/td[4]")[0].text_content()
    assert cell == "1.0\u202f%HtoD pinned, 4\u202fKiB, of peak"


def test_each_value_has_its_own_verdict(tmp_path):
    peak = builder.metric("copy", {"gpu": 0}, [3000.0] * 5)
    none = builder.metric("dot", {"gpu": 0}, [1500.0] * 5)
    doc = builder.document("stream", [peak, none], 1)
    judged = {"copy.gpu0": builder.judgement(peak, PEAK), "dot.gpu0": builder.judgement(none, {"unknown": "x"})}
    doc["limits"]["copy.gpu0"] = PEAK
    text = build(tmp_path, [builder.record("stream", doc, judged=judged), builder.record("p2p", None, "FAIL")])
    badges = html.document_fromstring(text).xpath("//table[contains(@class,'metrics')]/tbody/tr/td[last()]")
    assert sorted(re.sub(r"\W", "", b.text_content()) for b in badges) == ["PASS", "RECORDED"]


def sweep(gpus, lines, sizes=20):
    metrics = [
        builder.metric("htod", {"gpu": g}, [100.0 + line + g] * 3, at={"bytes": 1 << s, "way": f"w{line}"})
        for g in range(gpus)
        for line in range(lines)
        for s in range(10, 10 + sizes)
    ]
    doc = builder.document("transfer", metrics, gpus, PEAK)
    return [builder.record("transfer", doc)]


def rows_of(tmp_path, records):
    loaded = session.load(builder.write_session(tmp_path, records), "last")
    return page._rows(loaded.cases[0], builder.CATALOGUE)


def test_lines_that_are_cut_are_said_and_the_best_is_none_of_them(tmp_path):
    rows = rows_of(tmp_path, sweep(1, plots.MAX_LINES + 5, 4))
    svg, caption = plots.draw(rows, "p1")
    assert "5 more lines left out" in caption
    assert f"w{plots.MAX_LINES + 4}" in svg, "the best line"
    failed = [replace(r, verdict="FAIL") if r.at["way"] == f"w{plots.MAX_LINES + 1}" else r for r in rows]
    assert f"w{plots.MAX_LINES + 1}" in plots.draw(failed, "p1")[0]
    _, whole = plots.draw(rows_of(tmp_path / "b", sweep(1, 3, 4)), "p1")
    assert "left out" not in whole


def test_four_times_the_rows_take_four_times_as_long(tmp_path):
    """Code that scans all rows for every row takes sixteen times as long."""

    def seconds(lines, folder):
        rows = rows_of(tmp_path / folder, sweep(8, lines))
        plots.draw(rows, "p1")
        start = time.process_time()
        plots.draw(rows, "p1")
        return time.process_time() - start, len(rows)

    (small, few), (large, many) = seconds(4, "a"), seconds(16, "b")
    assert many == 4 * few
    assert large < 8 * small + 0.5
