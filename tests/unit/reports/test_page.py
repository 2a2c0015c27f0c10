import argparse
import random
import re
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import pytest
from lxml import etree, html

from tenken.model import result as results
from tenken.model.catalogue import PROGRAMS
from tenken.report import cli, formatting, page, plots, session
from tenken.report.rows import Row
from tests.support import documents
from tests.unit.reports import builder

pytestmark = pytest.mark.xdist_group("page")  # one worker creates the files that this module shares


def build(tmp_path, *parts):
    return page.render(session.load(builder.write_session(tmp_path, *parts), "last"), builder.CATALOGUE)


def test_a_summary_has_the_least_the_middle_and_the_most_with_their_places():
    def row(value, at=None, label="triad", verdict="PASS"):
        of = {"label": label, "unit": "GB/s", "at": at or {}, "node": f"n{value}", "subject": "GPU 0"}
        return SimpleNamespace(value=value, verdict=verdict, **of)

    four = page._summaries([row(4.0), row(1.0), row(3.0, verdict="FAIL"), row(2.0), row(9.0, {"n": 1}), row(None)])
    three = page._summaries([row(5.0), row(1.0), row(2.0), row(7.0, label="copy")])
    keys = ("count", "lowest", "median", "highest", "lowest_at", "highest_at", "verdict")
    assert [tuple(getattr(one, key) for key in keys) for one in (*four, *three)] == [
        (4, 1.0, 2.5, 4.0, "n1.0 GPU 0", "n4.0 GPU 0", "FAIL"), (3, 1.0, 2.0, 5.0, "n1.0 GPU 0", "n5.0 GPU 0", "PASS"),
        (1, 7.0, 7.0, 7.0, "n7.0 GPU 0", "n7.0 GPU 0", "PASS"),
    ]  # fmt: skip


def test_readings_that_changed_are_rows_and_those_that_did_not_one_line():
    raw = documents.gpu_document(gpus=2)
    health = raw["health"]["devices"]
    health[1]["worst"].update(sm_clock_mhz=1500, reasons=["sw_power_cap"])
    health[1]["after"].update(power_w=None)
    health[1]["xids"] = [63, 94]
    detail = page.Detail(None, "x")
    page._describe_result(detail, results.validate(raw, "x"))
    first, second = detail.health
    assert first["table"] == [] and (second["title"], second["samples"], second["xids"]) == ("GPU 1", 20, "63, 94")
    assert "SM clock 1980" in first["steady"].replace("\u202f", "") and "SM clock" not in second["steady"]
    rows = {title: [cell.replace("\u202f", "") for cell in cells] for title, *cells in second["table"]}
    assert [cell.split("MHz")[0].strip() for cell in rows["SM clock"]] == ["1980", "1500", "1980"]
    assert rows["Power"][2] == "" and rows["Power"][0] and rows["Clock events"][0] != rows["Clock events"][1]
    assert set(rows) == {"SM clock", "Power", "Clock events"}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return build(tmp_path_factory.mktemp("perflogs"), *builder.every_kind())


def text_of(markup):
    return re.sub(r"\s+", " ", html.document_fromstring(markup).text_content())


def well_formed(markup):
    """lxml's HTML parser, and no error except about tags that are newer than libxml2's HTML 4."""
    parser = etree.HTMLParser(recover=True)
    tree = etree.fromstring(markup, parser)
    errors = [e for e in parser.error_log if e.type_name != "HTML_UNKNOWN_TAG"]
    assert not errors, errors
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids)), "ids repeat"
    missing = [h for h in tree.xpath("//@href") if h.startswith("#") and h[1:] not in ids]
    assert not missing, missing
    return tree


def self_contained(markup):
    assert not re.search(r"(?:https?|ftp):|//[a-z]+\.|@import|url\((?!#)", markup)
    assert not re.search(r"<(?:link|img|iframe|object|embed|script[^>]+src)", markup)


def test_page_is_well_formed_and_self_contained(everything):
    well_formed(everything)
    self_contained(everything)


def test_every_case_verdict_and_reason_is_there(everything):
    text = text_of(everything)
    for words in (
        "5 of 11 checks failed",
        "build ~h200:gpu+nvhpc",
        "build ~h200:gpu+cuda",
        "Invalid account",
        "below the lower bound 4313 GB/s",
        "hardware thermal slowdown",
        "GPU 1 → 3",
        "no pageable memory access",
        "archive, 60 launches",
        "memory clock x bus width",
        "v0.1.0-12-gabc1234",
        "acceptance",
        "4 × NVIDIA H200",
        "nvcc 13.0.48",
        "-O3 -fopenmp",
        "580.95.05",
    ):
        assert words in text, words


def test_every_plot_kind_is_drawn(everything):
    captions = html.document_fromstring(everything).xpath("//figcaption/text()")
    for words in (
        "by metric and subject",
        "in the order measured",
        "against size",
        "from row to column",
        "stacked phases",
    ):
        assert any(words in c for c in captions), words
    assert not html.document_fromstring(everything).xpath("//*[contains(@class, 'missing')]")


def test_failures_are_shown_before_the_machine(everything):
    heads = html.document_fromstring(everything).xpath("//main//h2/@id")
    assert heads[:5] == ["attention", "scorecard", "next", "machine", "verdicts"]


def test_what_does_not_apply_names_what_it_lacks(everything):
    text = text_of(everything)
    assert "mpi_p2p" in text and "gds" in text and "GPUDirect Storage" in text
    assert "1 apply, but were not selected" in text and "himeno" in text


def test_nothing_was_run_is_loud(tmp_path):
    markup = build(tmp_path, [], [])
    well_formed(markup)
    assert "Nothing was run" in markup and "header class=FAIL" in markup


def test_load_errors_are_loud(tmp_path):
    record = builder.record("stream", builder.document("stream", []))
    plan = {**builder.PLAN, "load_errors": [{"file": "checks/hpl.py", "error": "SyntaxError: <line 3>"}]}
    markup = build(tmp_path, [record], None, plan)
    assert "checks/hpl.py: SyntaxError: &lt;line 3&gt;" in markup and "<title>FAIL" in markup


EVIL = "<script>alert(1)</script>\"'&$x^{"


def test_everything_is_escaped(tmp_path):
    entry = builder.metric("triad", {"gpu": 0}, [1.0, 2.0, 3.0], at={"kind": EVIL, "bytes": 8})
    entry["unit"] = EVIL
    doc = builder.document(
        EVIL, [entry], 1, {"value": 4.0, "unit": EVIL, "basis": EVIL}, version=EVIL, path={EVIL: EVIL}
    )
    doc["command"], doc["parameters"], doc["host"]["name"] = [EVIL], {EVIL: EVIL}, EVIL
    doc["health"]["devices"][0]["worst"]["reasons"] = [EVIL]
    doc["verification"]["checks"][0]["what"] = EVIL
    record = builder.record(
        "evil " + EVIL,
        doc,
        "FAIL",
        findings=[builder.finding("FAIL", EVIL, EVIL)],
        nodes=(EVIL,),
        base_check="evil",
        mode=EVIL,
        job_id=EVIL,
    )
    plan = {
        "system": EVIL,
        "applicable": [EVIL],
        "not_applicable": [{"check": EVIL, "lacks": [EVIL], "text": EVIL}],
        "load_errors": [EVIL],
    }
    markup = build(
        tmp_path,
        [record],
        [builder.testcase("evil " + EVIL, "fail", EVIL), builder.testcase("other " + EVIL, "fail", EVIL)],
        plan,
    )
    tree = well_formed(markup)
    assert len(tree.xpath("//script")) == 1 and "<script>alert" not in markup
    assert "alert(1)" in text_of(markup)


@pytest.mark.parametrize(
    "doc",
    [
        {"metrics": "none"},
        {"metrics": [1, {"id": "x.gpu0", "value": "fast", "samples": ["a", None]}]},
        {"program": "stream", "devices": [1], "health": [], "host": "nid001"},
        {"health": {"devices": [{}]}},
        {},
    ],
)
def test_a_document_of_any_shape_costs_only_itself(tmp_path, doc):
    bad = builder.record("bad", None, "FAIL", document=doc)
    markup = build(tmp_path, [bad, builder.record("good", builder.document("stream", []))])
    well_formed(markup)
    assert "misshapen: " in markup and "good" in markup


def test_a_metric_that_nobody_judged_does_not_look_green(tmp_path):
    doc = builder.document("stream", [builder.metric("triad", {"host": 0}, [1.0, 2.0])])
    assert "not judged" in build(tmp_path, [builder.record("stream", doc, "FAIL", judged={})])


def fleet(nodes=200, gpus=8):
    hbm = {"value": 4814.0, "unit": "GB/s", "basis": "attribute: memory clock x bus width"}
    source, records = random.Random(7), []
    for node in range(nodes):
        name = f"nid{node:04d}"
        metrics = [
            builder.metric(n, {"gpu": g}, [v * source.gauss(1, 0.002)] * 3)
            for n, v in (("copy", 4253), ("triad", 4401))
            for g in range(gpus)
        ]
        findings, verdict = [], "PASS"
        doc = builder.document("stream", metrics, gpus, hbm)
        judged = {m["id"]: builder.judgement(m, hbm, tolerance=0.02) for m in metrics}
        if node % 50 == 3:
            metrics[gpus + 3]["value"] *= 0.93
            judged[metrics[gpus + 3]["id"]] = builder.judgement(metrics[gpus + 3], hbm, verdict="FAIL")
            verdict = "FAIL"
            findings = [builder.finding("FAIL", f"{name} GPU 3", f"{name} GPU 3: slow", metrics[gpus + 3]["id"])]
        records.append(builder.record("stream", doc, verdict, judged, findings, (name,), partition=f"gpu{node}"))
    return records


def test_a_large_session_stays_small_and_complete(tmp_path):
    markup = build(tmp_path, fleet())
    assert len(markup.encode()) < 3_000_000
    well_formed(markup)
    assert "4 of 200 checks failed" in text_of(markup)
    for node in range(200):
        assert f"nid{node:04d}" in markup


def test_many_samples_stay_small(tmp_path):
    metrics = [builder.metric("kernel", {"gpu": g}, builder.noisy(4000, 20_000, seed=g)) for g in range(8)]
    markup = build(tmp_path, [builder.record("memcopy", builder.document("memcopy", metrics, 8))])
    assert len(markup.encode()) < 600_000 and "19990 more in the archive" in markup


def test_every_cut_of_a_record_is_stated_and_what_failed_is_never_cut(tmp_path):
    metrics = [builder.metric("kernel", {"gpu": 0}, [4000.0 + n, 4001.0 + n, 4002.0 + n]) for n in range(90)]
    metrics = [{**m, "id": f"{m['id']}.bytes={n + 1}", "at": {"bytes": n + 1}} for n, m in enumerate(metrics)]
    document = builder.document("memcopy", metrics, 1)
    passed = {"what": "x", "passed": True, "error": 0, "tolerance": 0}
    checks = [{**passed, "what": f"part {n}"} for n in range(40)]
    document["verification"]["checks"] = [*checks, {**passed, "what": "the wrong one", "passed": False, "error": 1}]
    text = html.document_fromstring(build(tmp_path, [builder.record("memcopy", document, "FAIL")])).text_content()
    assert "the wrong one" in text and "part 11" in text and "part 12" not in text and "28 more passed" in text
    assert "the samples of 70 more values in the archive" in text and "29 more in the archive" in text


def test_devices_and_build_are_shown_once_and_linked_from_the_others(tmp_path):
    metrics = [builder.metric("kernel", {"gpu": 0}, [4000.0, 4001.0, 4002.0])]
    other = builder.document("memcopy", metrics, 1)
    other["devices"][0]["name"] = "Another GPU"
    records = [builder.record(f"Copy{n}", builder.document("memcopy", metrics, 1)) for n in range(3)]
    page = html.document_fromstring(build(tmp_path, [*records, builder.record("Other", other)]))
    folds = page.xpath("//details[summary='Devices']")
    linked = [fold.xpath(".//a/@href") for fold in folds]
    shown = [fold.text_content() for fold, link in zip(folds, linked, strict=True) if not link]
    assert len(folds) == 4 and len(shown) == 2 and sum("Another GPU" in text for text in shown) == 1
    assert all(page.get_element_by_id(link[0][1:]) is not None for link in linked if link)
    assert page.text_content().count("Compiler") == 1


def test_thinning_loses_no_dip():
    values = [100.0] * 5000
    values[3333] = 1.0
    places, kept = plots.thin(values)
    assert len(kept) <= plots.MAX_POINTS and min(kept) == 1.0 and 3333 in places
    assert plots.thin([1.0, 2.0]) == ([0, 1], [1.0, 2.0])


def row(**changes):
    plain = {
        "id": "x.gpu0",
        "name": "x",
        "title": "X",
        "group": "",
        "plot": "bars",
        "subject": "GPU 0",
        "ends": None,
        "at": {},
        "unit": "GB/s",
        "direction": "higher",
        "statistic": "median",
        "value": 1.0,
        "best": 1.0,
        "median": 1.0,
        "p5": 1.0,
        "p95": 1.0,
        "count": 1,
        "samples": [1.0],
        "verdict": "PASS",
    }
    return Row(**{**plain, **changes})


@pytest.mark.parametrize(
    "rows",
    [
        [row()],
        [row(value=0.0, best=0.0)],
        [row(value=-3.0, unit="%")],
        [row(unit="us"), row(unit="GB/s")],
        [row(plot="series")],
        [row(plot="series", samples=[0.0] * 3, median=0.0)],
        [row(plot="sweep", at={"bytes": 0}), row(plot="sweep", at={"bytes": 2**40}, value=0.0)],
        [row(plot="sweep", at={"bytes": 1024}, unit=u) for u in ("GB/s", "us")],
        [row(plot="matrix", ends=(0, 0))],
        [row(plot="matrix", ends=(a, b), value=float(a + b)) for a in range(16) for b in range(16)],
        [row(plot="phases", at={"kernel": "tile"}), row(plot="phases", title="Y", at={"kernel": "tile"})],
        [row(subject=f"GPU {i}", node=f"n{i}") for i in range(60)],
    ],
    ids=range(12),
)
def test_odd_rows_are_drawn(rows):
    svg, caption = plots.draw(rows, "p1")
    ElementTree.fromstring(svg)
    assert caption and "#0101" not in svg and "http" not in svg


@pytest.mark.parametrize("plot", ["bars", "phases", "matrix"])
def test_figures_in_a_plot_keep_their_digits(plot):
    svg, _ = plots.draw([row(plot=plot, value=0.59914, ends=(0, 1), at={"kernel": "tile"})], "p1")
    assert "0.5991<" in svg


@pytest.mark.parametrize("kind", ["matrix", "sweep", "series"])
def test_rows_without_what_a_kind_needs_are_refused(kind):
    with pytest.raises(ValueError):
        plots.draw([row(plot=kind, samples=[])], "p1")


def labels(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_long_label_beside_a_bar_is_broken_not_cut():
    svg, _ = plots.draw(
        [row(title="cudaMemcpy device to device (to compare GPUs with each other)"), row(title="Y")], "p1"
    )
    assert "with each other)" in labels(svg) and not any("…" in text for text in labels(svg))


def test_bars_of_one_metric_are_named_by_what_differs():
    rows = [row(title="SpMV", at={"matrix": "fem_9", "variant": v}) for v in ("csr", "sell")]
    assert {"csr", "sell"} <= set(labels(plots.draw(rows, "p1")[0]))
    assert "SpMV" in labels(plots.draw(rows[:1], "p1")[0])


def test_a_sweep_over_one_place_is_drawn_as_bars():
    rows = [row(plot="sweep", at={"nnz": 131096512, "variant": v}, p5=0.9) for v in ("csr", "sell")]
    svg, caption = plots.draw(rows, "p1")
    assert {"csr", "sell"} <= set(labels(svg)) and caption == "X: value by metric and subject"


def test_lines_of_a_sweep_are_told_apart_by_what_differs():
    long = "Setup (conversion, analysis, transfer)"
    rows = [
        row(plot="sweep", title=long, at={"nnz": n, "matrix": f"m{n}", "variant": v}, value=float(len(v)))
        for n in (100_000_000, 200_000_000)
        for v in ("csr", "sell")
    ]
    shown = labels(plots.draw(rows, "p1")[0])
    assert {"csr", "sell"} <= set(shown) and not any("Making" in text for text in shown)
    assert any(re.fullmatch(r"\d+\sM", text) for text in shown) and "1e8" not in shown


def test_a_value_of_one_sample_stands_alone(tmp_path):
    once = builder.metric("once", {"gpu": 0}, [7.5])
    often = builder.metric("often", {"gpu": 0}, [2.5, 3.5, 4.5])
    markup = build(tmp_path, [builder.record("x", builder.document("stream", [once, often]))])
    cells = html.document_fromstring(markup).xpath("//table[contains(@class, 'metrics')]//td/text()")
    assert cells.count("7.500") == 1 and cells.count("3.500") == 2  # of three samples: value and median


def arguments(*words):
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers())
    return parser.parse_args(["report", *map(str, words)])


def test_command_prints_the_table_and_the_path(tmp_path, capsys):
    records, cases, plan = builder.every_kind()
    root = builder.write_session(tmp_path / "perflogs", [r for r in records if r["check"] == "p2p"], cases, plan)
    target = tmp_path / "deep" / "page.html"
    given = arguments("--archive", root, "--output", target)
    assert given.func(given) == 1
    out = capsys.readouterr().out
    assert re.search(r"FAIL\s+p2p\s+gpu\+cuda\s+nid001\s+nid001 GPU 1 → 3", out)
    assert out.rstrip().endswith(f"Page: {target}")
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert not list(target.parent.glob(".tmp-*"))


def test_command_on_an_empty_archive_is_incomplete(tmp_path, capsys):
    given = arguments("--archive", tmp_path, "--output", tmp_path / "p.html")
    assert given.func(given) == 3
    assert "contains no session" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_still_gives_the_table(tmp_path, capsys):
    root = builder.write_session(tmp_path / "perflogs", [builder.record("stream", builder.document("stream", []))])
    (tmp_path / "file").write_text("")
    given = arguments("--archive", root, "--output", tmp_path / "file" / "p.html")
    assert given.func(given) == 3
    captured = capsys.readouterr()
    assert "stream" in captured.out and "cannot write the page" in captured.err


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    root = builder.write_session(tmp_path, [], [builder.testcase("hpl", "fail", "bad\x1b[31m\nnode")])
    assert "\x1b" not in cli.table(session.load(root, "last"))


def test_a_page_reads_the_metrics_of_its_own_programs_alone(tmp_path, capsys):
    for name, text in (("daxpy", (PROGRAMS / "daxpy/metrics.yaml").read_text()), ("broken", "[")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.yaml").write_text(text)
    assert list(cli._catalogue(tmp_path, ["absent", "daxpy"])) == ["daxpy"] and not capsys.readouterr().err
    assert cli._catalogue(tmp_path, ["broken", "daxpy"]) == {} and "broken/metrics.yaml" in capsys.readouterr().err


def test_sentences_of_the_terminal_have_their_commands_as_code():
    assert formatting.code("run `tenken <b>` & see") == "run <code>tenken &lt;b&gt;</code> &amp; see"


def test_builds_are_counted_apart_from_checks(everything):
    tree = html.document_fromstring(everything)
    (counts,) = tree.xpath("//p[@class='counts']")
    assert " ".join(counts.text_content().split()) == "5 FAIL 1 INVALID 4 PASS 1 WAIVED of 11 checks"
