"""A session of many nodes: all nodes and verdicts are in the grid, and time and memory stay bounded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from lxml import html

from tenken.report import cli, fleet, session
from tests.unit.reports import builder
from tests.unit.reports.test_page import well_formed


def records(nodes, checks=3, gpus=4):
    """STREAM and similar programs on every node; node 7 fails one check on GPU 2, node 3 is INVALID in another."""
    made = []
    for node in range(nodes):
        name = f"nid{node:04d}"
        for number in range(checks):
            slow = {(7, 1, 2, "triad"): 900}
            metrics = [
                builder.metric(m, {"gpu": g}, [4000.0 + node + g - slow.get((node, number, g, m), 0)] * 5)
                for m in ("copy", "triad", "dot")
                for g in range(gpus)
            ]
            doc = builder.document("stream", metrics, gpus)
            verdict = {(7, 1): "FAIL", (3, 2): "INVALID"}.get((node, number), "PASS")
            said = (
                []
                if verdict == "PASS"
                else [builder.finding(verdict, f"{name} GPU 2", f"{name}: <not> as it should", "triad.gpu2")]
            )
            held = 4000 if number else None
            judged = {m["id"]: builder.judgement(m, {"unknown": "?"}, held) for m in metrics[-gpus:]}
            check = f"Stream{number} %.nid={name}"
            made.append(builder.record(check, doc, verdict, judged, findings=said, nodes=(name,)))
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    archive = builder.write_session(folder / "perflogs", records(12))
    catalogue = {"stream": replace(builder.CATALOGUE["stream"], key=("triad",))}
    found, index = fleet.write(archive, "last", catalogue, folder / "pages" / "index.html", "now")
    return archive, found, index


def test_the_grid_has_every_node_and_check_worst_first(written):
    _, found, index = written
    tree = well_formed(index.read_text())
    grid = tree.xpath("//table[@class='grid']")[0]
    assert grid.xpath("./thead/tr/th/text()") == ["Node", "Stream0", "Stream1", "Stream2"]
    rows = grid.xpath("./tbody/tr")
    names = [r.xpath("string(./th)") for r in rows]
    assert names[:3] == ["nid0007", "nid0003", "nid0000"] and len(set(names)) == 12
    assert rows[0].xpath("./td/@title") == ["PASS", "FAIL", "PASS"]
    assert rows[1].xpath("./td/@title") == ["PASS", "PASS", "INVALID"]
    assert found.verdict == "FAIL" and found.exit_code == 1
    said = [
        p.text_content()
        for p in html.document_fromstring(index.read_text()).xpath("//section[@class='attention']//li//p[1]")
    ]
    assert said == ["nid0007: <not> as it should", "nid0003: <not> as it should"]
    assert "34 of 36 checks passed; 96 of 432 values had a criterion; 0 contract" in tree.xpath("string(//header)")


def test_a_key_figure_has_its_worst_and_best_node_and_the_largest_spread_comes_first(written):
    """Of 48 values each, 4000 to 4014; one of the second check is 900 less."""
    _, _, index = written
    rows = well_formed(index.read_text()).xpath("//table[@class='sortable']/tbody/tr")
    told = [[*row.xpath("./th/text()"), *row.xpath("./td/text()")] for row in rows]
    usual = ["Triad", "48", "4000", "nid0000 GPU 0", "4007", "4014", "nid0011 GPU 3", "GB/s", "0.35\u202f%"]
    slow = ["Triad", "48", "3109", "nid0007 GPU 2", "4007", "4014", "nid0011 GPU 3", "GB/s", "22.59\u202f%"]
    assert told == [["Stream1", *slow], ["Stream0", *usual], ["Stream2", *usual]]


def test_each_node_has_a_page_with_its_values_and_every_link_leads_somewhere(written):
    _, _, index = written
    for link in html.document_fromstring(index.read_text()).xpath("//a/@href"):
        if not link.startswith("#"):
            assert (index.parent / link).is_file(), link
    page = (index.with_suffix("") / "nid0007.html").read_text()
    well_formed(page)
    text = html.document_fromstring(page).text_content()
    assert "3109" in text and "nid0007: <not> as it should" in text and "./stream --backend cuda" in text
    assert sorted(p.suffix for p in index.with_suffix("").iterdir()) == [".css", *[".html"] * 12]


def test_every_page_loads_nothing_from_outside(written):
    _, _, index = written
    rule = re.compile(r'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; ([^"]*)">')
    found = rule.search(index.read_text())
    script = re.search(r"<script>(.*?)</script>", index.read_text(), re.S)
    assert found and script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'; style-src 'unsafe-inline';" in found[1]
    for page in index.with_suffix("").glob("*.html"):
        said = rule.search(page.read_text())
        assert said and "script-src 'none'; style-src 'self' file: 'unsafe-inline';" in said[1], page.name


def test_it_says_the_same_as_the_page_of_a_few_nodes(written):
    archive, found, _ = written
    whole = session.load(archive, "last")
    assert (found.verdict, found.counts, found.exit_code) == (whole.verdict, whole.counts, whole.exit_code)
    assert [(c.check, c.verdict, c.attempt) for c in found.cases] == [
        (c.check, c.verdict, c.attempt) for c in whole.cases
    ]
    assert all(c.record.result is None for c in found.cases if c.record)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("S %.nid=n1", "S"),
        ("S %$nid=n1", "S"),
        ("S %nid=n1", "S"),
        ("S %a=1 %.part=gpu %.nid=n1", "S %a=1"),
        ("S %a=n %nids=2", "S %a=n %nids=2"),
    ],
)
def test_a_name_loses_what_only_distributes_it(name, said):
    case = session.Case(name, "S", "s", "p", "e", [], "PASS")
    assert fleet.check_name(case) == said


def test_what_came_to_no_node_stands_where_it_was_to_run(tmp_path):
    """Never placed, with and without a separate node; without a record; a build."""
    never = "the job did not run to its end: state CANCELLED (blocked in the queue: PartitionDown)"
    made = [
        builder.record(check, None, "FAIL", findings=[builder.finding("FAIL", "", f"{where}: {never}")], nodes=nodes)
        for check, where, nodes in (("StreamA", "any node of partition gpu", ()), ("StreamD", "nid3", ("nid3",)))
    ]
    cases = [
        builder.testcase("StreamB %.part=m:gpu %.nid=nid5", "fail", "killed", "run_wait", job_nodelist=[]),
        builder.testcase("StreamC", "fail", "killed", "run_wait", job_nodelist=[]),
        builder.testcase("Build", "fail", "no compiler", "compile", fixture=True, job_nodelist=[]),
    ]
    archive = builder.write_session(tmp_path / "perflogs", made, cases)
    found = {case.check.split()[0]: set() for case in session.load(archive, "last").cases}
    for case in session.load(archive, "last").cases:
        found[case.check.split()[0]].add(case.where)
    assert found == {
        "StreamA": {"any node of partition gpu"}, "StreamD": {"nid3"},
        "StreamB": {"nid5"}, "StreamC": {"any node of partition gpu"}, "Build": {"no node"},
    }  # fmt: skip
    _, index = fleet.write(archive, "last", builder.CATALOGUE, tmp_path / "pages" / "index.html", "now")
    said = index.read_text()
    for place in set().union(*found.values()) - {"no node"}:
        assert place in said, place
    assert "no node<" not in said


def test_two_nodes_never_share_a_page(tmp_path):
    made = [builder.record("S", builder.document("stream", []), "FAIL", nodes=(n,)) for n in ("a/b", "a_b", "a:b", "")]
    archive = builder.write_session(tmp_path / "perflogs", made)
    _, index = fleet.write(archive, "last", builder.CATALOGUE, tmp_path / "i.html", "")
    assert len(list(index.with_suffix("").glob("*.html"))) == 4


def test_what_goes_wrong_leaves_nothing(tmp_path):
    with pytest.raises(session.NoSession):
        fleet.write(
            builder.write_session(tmp_path / "perflogs", []), "other", builder.CATALOGUE, tmp_path / "o" / "i.html", ""
        )
    assert list((tmp_path / "o").iterdir()) == []


def test_the_command_makes_a_grid_of_many_records(tmp_path, monkeypatch, capsys):
    import argparse

    archive = builder.write_session(tmp_path / "perflogs", records(4, 1, 1))
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers())
    monkeypatch.setattr(cli, "MANY", 4)
    options = parser.parse_args(["report", "--archive", str(archive), "--output", str(tmp_path / "p.html")])
    assert options.func(options) == 0
    assert (tmp_path / "p" / "nid0002.html").is_file()
    assert "pages of nodes: " in capsys.readouterr().out


MEASURED = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from tenken.report import fleet
from tenken.model.catalogue import load_catalogue
_, index = fleet.write(Path(sys.argv[1]), "last", load_catalogue(), Path(sys.argv[2]), "now")
# of this process alone: ru_maxrss keeps what the process had that started this one
status = Path("/proc/self/status").read_text()
most = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps([most, index.stat().st_size]))
"""


def test_a_tenth_of_a_thousand_nodes_is_within_a_tenth_of_the_bars(tmp_path):
    """1 GB and an index of 1 MB are the limits for 1,000 nodes x 12 checks."""
    archive = builder.write_session(tmp_path / "perflogs", records(100, 12))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, archive, tmp_path / "i.html"], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    mib, size = json.loads(done.stdout)
    assert size < 100_000 + 60_000  # style and script occur once
    assert mib < 300


def test_nodes_findings_and_values_are_in_the_order_of_their_urgency():
    def case(where, check, verdict, *findings):
        said = [SimpleNamespace(verdict=of, message=message) for of, message in findings]
        return SimpleNamespace(where=where, check=check, verdict=verdict, findings=said)

    one = case("n1", "A", "FAIL", ("FAIL", "slow"), ("RECORDED", "a note"), ("INVALID", "throttled"))
    tests = [one, case("n1", "B", "PASS"), *(case("n2", c, "FAIL") for c in "AB"), case("n0", "A", "INVALID"),
             *(case("n3", c, v) for c, v in (("A", "FAIL"), ("A", "PASS"), ("B", "INVALID")))]  # fmt: skip
    found, pages = SimpleNamespace(tests=tests, counted=tests), SimpleNamespace(files={})
    assert [row["node"] for row in fleet._grid(found, pages)] == ["n2", "n3", "n1", "n0"]
    told = [(row["node"], row["message"]) for row in fleet._findings(found, pages)]
    reason = "no finding states a reason"
    assert told == [("n1", "slow"), ("n2", reason), ("n2", reason), ("n3", reason), ("n0", reason), ("n3", reason)]
    rows = [SimpleNamespace(verdict=v, at=at) for v, at in (("PASS", {}), ("FAIL", {"n": 1}), ("FAIL", {}), ("?", {}))]
    assert sorted(rows, key=fleet._urgency) == [rows[2], rows[3], rows[1], rows[0]]
