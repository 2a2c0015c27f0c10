"""Tables of a page by hand: which values, verdicts and records it shows, in which order, and what it leaves out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.model.judgement import Finding
from tenken.report import page
from tests.unit.reports.test_plot_data import row


def case(check: str = "Triad", verdict: str = "PASS", **also: Any) -> Any:
    return SimpleNamespace(**{
        "check": check, "base_check": check, "verdict": verdict, "where": "n1", "place": "p", "build": False,
        "superseded": False, "findings": [], "decisive": [], "record": None, "result": None, "testcase": None,
        "nodes": ("n1",), "system": "h200", "partition": "gpu", "environ": "cuda", **also,
    })  # fmt: skip


def session(*cases: Any, **also: Any) -> Any:
    return SimpleNamespace(**{"cases": list(cases), "counted": list(cases), "plan": {}, "run": {}, **also})


@pytest.mark.parametrize(("count", "median"), [(1, 3.0), (2, 2.0), (3, 2.0), (4, 4.0)])
def test_a_summary_has_the_lowest_the_median_and_the_highest_with_their_places(count: int, median: float) -> None:
    values = [3.0, 1.0, 2.0, 9.0] if count < 4 else [3.0, 1.0, 5.0, 9.0]
    rows = [row(v, f"GPU {i}", node=f"n{i}") for i, v in enumerate(values[:count])]
    extra = [row(None), row(100.0, at={"bytes": 8}), row(7.0, title="Copy", verdict="FAIL")]
    found, copy = page._summaries([*rows, *extra])
    lowest, highest = min(rows, key=lambda r: r.value or 0), max(rows, key=lambda r: r.value or 0)
    assert (found.label, found.unit, found.count, found.verdict) == ("Triad", "GB/s", count, "PASS")
    assert (found.lowest, found.median, found.highest) == (lowest.value, median, highest.value)
    assert (found.lowest_at, found.highest_at) == (
        f"{lowest.node} {lowest.subject}",
        f"{highest.node} {highest.subject}",
    )
    assert (copy.label, copy.count, copy.verdict) == ("Copy", 1, "FAIL")


def test_a_verdict_stands_with_the_value_that_it_is_about() -> None:
    rows = [
        row(1.0, efficiency=0.5, verdict="PASS"), row(2.0, efficiency=0.7, verdict="FAIL", title="Copy", limit=3.0),
        row(3.0, efficiency=0.9, verdict="FAIL", title="Add", attainable=4.0), row(4.0),
    ]  # fmt: skip
    findings = [Finding("FAIL", "first"), Finding("FAIL", "second")]
    found = page._verdict_row("GPU 0", "FAIL", rows, findings)
    assert found == {
        "subject": "GPU 0", "verdict": "FAIL", "efficiency": 0.7, "lowest": "Copy, of peak", "message": "first",
        "more": 1,
    }  # fmt: skip
    assert page._verdict_row("GPU 0", "INVALID", rows, [])["lowest"] == "Triad, of peak", "no value of this verdict"
    assert page._verdict_row("GPU 0", "FAIL", rows[2:], [])["lowest"] == "Add, of attainable"
    none = page._verdict_row("all", "PASS", rows[3:], [])
    assert (none["efficiency"], none["lowest"], none["message"], none["more"]) == (None, "", "", 0)


@pytest.mark.parametrize(("verdict", "findings", "shown"), [
    ("PASS", [], [("GPU 2", "PASS", ""), ("GPU 10", "PASS", "")]),
    ("FAIL", [Finding("FAIL", "slow", "b")], [("GPU 2", "PASS", ""), ("GPU 10", "FAIL", "slow")]),
    ("FAIL", [Finding("FAIL", "lost")], [("all", "FAIL", "lost"), ("GPU 2", "PASS", ""), ("GPU 10", "PASS", "")]),
    ("FAIL", [], [("all", "FAIL", ""), ("GPU 2", "PASS", ""), ("GPU 10", "PASS", "")]),
    ("PASS", [Finding("INVALID", "hot", "b")], [("GPU 2", "PASS", ""), ("GPU 10", "INVALID", "hot")]),
])  # fmt: skip
def test_each_subject_has_a_row_and_what_is_about_none_has_the_first(verdict: str, findings: Any, shown: Any) -> None:
    rows = [row(1.0, "GPU 10", id="b"), row(2.0, "GPU 2", id="a")]
    found = page._subjects(case(verdict=verdict, findings=findings), rows)
    if verdict == "PASS" and findings:
        found = [one for one in found if one["subject"] != "all"]
    assert [(one["subject"], one["verdict"], one["message"]) for one in found] == shown


def test_a_build_and_a_case_without_values_have_one_row() -> None:
    rows = [row(1.0)]
    found = page._subjects(case(verdict="FAIL", build=True, findings=[Finding("FAIL", "no compiler")]), rows)
    assert [(one["subject"], one["message"]) for one in found] == [("build", "no compiler")]
    assert [one["subject"] for one in page._subjects(case(verdict="FAIL"), [])] == ["all"]


def verdicts_of(*cases: Any, rows: Any) -> list[tuple[str, str, Any]]:
    table = page._verdict_rows(session(*cases), {id(c): r for c, r in zip(cases, rows, strict=True)}, {})
    return [(one["check"], one["subject"], one["efficiency"]) for one in table]


def gpus(count: int, verdict: str = "PASS", arrow: str = "GPU {}") -> list[Any]:
    return [row(1.0, arrow.format(i), efficiency=0.9 - 0.01 * i, verdict=verdict) for i in range(count)]


def test_nine_passing_subjects_share_a_row_with_the_lowest_efficiency() -> None:
    one = case()
    assert len(verdicts_of(one, rows=[gpus(8)])) == 8
    assert verdicts_of(one, rows=[gpus(9)]) == [("Triad", "all 9 subjects", pytest.approx(0.82))]
    assert verdicts_of(one, rows=[gpus(9, arrow="0 → {}")]) == [("Triad", "all 9 pairs", pytest.approx(0.82))]
    failed = case(verdict="FAIL")
    mixed = [*gpus(9), row(0.1, "GPU 9", verdict="FAIL", efficiency=0.1)]
    assert verdicts_of(failed, rows=[mixed]) == [
        ("Triad", "GPU 9", 0.1), ("Triad", "the other 9 subjects", pytest.approx(0.82)),
    ]  # fmt: skip
    without = [row(1.0, f"GPU {i}") for i in range(9)]
    assert verdicts_of(one, rows=[without]) == [("Triad", "all 9 subjects", None)]


def test_builds_are_last_and_a_long_table_begins_with_the_worst() -> None:
    build, one = case("build", build=True), case()
    assert [check for check, *_ in verdicts_of(build, one, rows=[[], gpus(1)])] == ["Triad", "build"]
    many = [case(f"c{i}", "FAIL" if i == 50 else "PASS") for i in range(60)]
    rows = [gpus(1, one.verdict) for one in many]
    assert [c for c, *_ in verdicts_of(*many, rows=rows)] == [one.check for one in many]
    more, invalid = case("last", "FAIL"), case("c60", "INVALID")
    ordered = [c for c, *_ in verdicts_of(*many, invalid, more, rows=[*rows, gpus(1, "INVALID"), gpus(1, "FAIL")])]
    assert ordered[:3] == ["c50", "last", "c60"] and len(ordered) == 62


def test_of_more_than_400_rows_passing_subjects_share_one() -> None:
    many = [case(f"c{i}") for i in range(51)]
    assert len(verdicts_of(*many[:50], rows=[gpus(8)] * 50)) == 400
    assert len(verdicts_of(*many, rows=[gpus(8)] * 51)) == 51


def test_what_needs_attention_is_every_finding_of_failures_and_then_of_invalid_ones(monkeypatch: Any) -> None:
    monkeypatch.setattr(page, "not_run", lambda one: "not run: no node" if one.check == "skipped" else "")
    cases = [
        case("hot", "INVALID", decisive=[Finding("INVALID", "hot", "x")]), case("fine"),
        case("slow", "FAIL", decisive=[Finding("FAIL", "slow", "m"), Finding("FAIL", "lost")]),
        case("mute", "FAIL"), case("skipped", "INVALID"), case("skipped", "INVALID"),
    ]  # fmt: skip
    anchors = {id(one): f"a{i}" for i, one in enumerate(cases)}
    rows = {id(one): [row(1.0, id="m", anchor="v1"), row(1.0, id="x")] for one in cases}
    found = page._attention(session(*cases), anchors, rows)
    assert [(one["verdict"], one["check"], one["message"], one["anchor"]) for one in found] == [
        ("INVALID", "skipped", "2 test cases were not run: no node", "a4"), ("FAIL", "slow", "slow", "v1"),
        ("FAIL", "slow", "lost", "a2"), ("FAIL", "mute", "no finding states a reason", "a3"),
        ("INVALID", "hot", "hot", "a0"),
    ]  # fmt: skip
    (one,) = page._attention(session(cases[4]), anchors, rows)
    assert one["message"] == "1 test case was not run: no node"


def test_plots_are_drawn_up_to_a_number_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenken.report import plots

    def draw(rows: Any, ident: str) -> tuple[str, str]:
        if rows[0].title == "bad":
            raise ValueError("broken")
        return f"svg {ident} {len(rows)}", "caption"

    monkeypatch.setattr(plots, "draw", draw)
    pictures = page.Pictures(2)
    groups = [row(1.0, group="a"), row(2.0, group="a"), row(None, group="n"), row(1.0, group="", unit="s", title="bad"),
              row(1.0, group="c"), row(1.0, group="d")]  # fmt: skip
    found = pictures.draw(groups)
    assert [(one.svg, one.missing) for one in found] == [("svg p1 2", ""), ("", "No plot of bad: ValueError: broken")]
    assert (pictures.drawn, pictures.left_out) == (2, 2)
    assert pictures.draw([row(None)]) == [] and pictures.left_out == 2


@pytest.mark.parametrize(("run", "times", "when"), [
    ({"time_start_unix": 1_700_000_000}, ["2020-01-01T00:00:00Z"], "2023-11-14 22:13 UTC"),
    ({"time_start_unix": 0}, ["2026-03-02T11:00:00Z", "2026-03-02T10:05:59Z", ""], "2026-03-02 10:05 UTC"),
    ({"time_start_unix": "x"}, [], "unknown"), ({"time_start_unix": 1e12}, [], "unknown"), ({}, [], "unknown"),
])  # fmt: skip
def test_a_session_began_when_reframe_says_or_with_its_first_record(run: Any, times: list[str], when: str) -> None:
    cases = [case(record=SimpleNamespace(time=time)) for time in times]
    assert page._when(session(*cases, case()), run) == when


def test_the_head_counts_each_gpu_once_and_names_what_ran() -> None:
    def result(*names: str) -> Any:
        return SimpleNamespace(version="v1", devices=[SimpleNamespace(index=i, name=n) for i, n in enumerate(names)])

    cases = [
        case(result=result("H200", "H200"), record=SimpleNamespace(mode="quick"), nodes=("n10",)),
        case(result=result("H200"), nodes=("n10",)), case(result=result("H100"), nodes=("n2", "n3")),
    ]  # fmt: skip
    run = {"session_info": {"time_elapsed": 5, "cmdline": "reframe -r", "version": "4.8", "time_start_unix": 1e9}}
    found = page._head(session(*cases, run=run, plan={"system": "other", "mode": "nightly"}))
    assert found["devices"] == [("H100", 1), ("H200", 2)] and found["nodes"] == ["n2", "n3", "n10"]
    assert (found["systems"], found["modes"], found["versions"]) == (["h200", "other"], ["quick"], ["v1"])
    assert (found["elapsed"], found["command"], found["reframe"]) == (5, "reframe -r", "4.8")
    empty = page._head(session(run={"session_info": "damaged"}, plan={"mode": "nightly"}))
    assert (empty["systems"], empty["modes"], empty["elapsed"], empty["command"]) == (
        ["unknown machine"],
        ["nightly"],
        None,
        "",
    )


@pytest.mark.parametrize(("numbers", "text"), [
    ([0, 1, 2, 5], "0-2, 5"), ([3], "3"), ([1, 0], "1, 0"), ([0, 2, 3], "0, 2-3"), ([], ""), ([7, 8], "7-8"),
])  # fmt: skip
def test_runs_of_numbers_are_joined(numbers: list[int], text: str) -> None:
    assert page._ranges(numbers) == text


@pytest.mark.parametrize(("key", "value", "text"), [
    ("array_bytes", 4096, "4\u202fKiB (4096)"), ("array_bytes", 1024, "1\u202fKiB (1024)"),
    ("array_bytes", 512, "512\u202fB"),
    ("on", True, "yes"), ("on", False, "no"), ("cpus", [0, 1, 2, 9], "0-2, 9"), ("names", ["a", "b"], '["a", "b"]'),
    ("n", 7, "7"), ("name", "é", "é"), ("part", {"é": 1}, '{"é": 1}'),
])  # fmt: skip
def test_an_object_is_written_as_text(key: str, value: Any, text: str) -> None:
    assert page._pairs({key: value, "none": None, "empty": [], "blank": ""}) == [(key.replace("_", " "), text)]


def test_notes_name_their_metrics_unless_they_are_about_all() -> None:
    rows = [
        row(title="A", reference_source="s", criterion="floor"),
        row(title="B", limit=1.0, limit_basis="sheet", criterion="floor"),
        row(title="C", attainable=1.0, limit_basis="run"),
        row(title="A", criterion="floor", notes=["n"]),
    ]
    assert page._notes(rows) == [
        ("Reference", "s (A)"), ("Peak", "sheet (B)"), ("Attainable", "run (C)"),
        ("No criterion", "recorded only: no contract, reference or floor (C)"), ("Note", "n (A)"),
    ]  # fmt: skip
    assert page._notes([row(title=t, criterion="floor", notes=["n"]) for t in "AB"]) == [("Note", "n")]
    many = [row(title=f"t{i}", criterion="floor", notes=["n"] if i < 9 else []) for i in range(10)]
    assert page._notes(many) == [("Note", f"n ({', '.join(f't{i}' for i in range(8))}, …)")]


def test_a_long_table_keeps_failures_and_the_last_point_of_a_sweep() -> None:
    rows = [row(float(n), at={"bytes": n, "way": way}, id=f"{way}{n}") for way in "ab" for n in range(13)]
    rows[3].verdict = "FAIL"
    one = case(findings=[Finding("FAIL", "x", "a3"), Finding("FAIL", "y", "b0")])
    detail = page._detail(one, rows, "r1", None)
    assert [r.id for r in detail.rows] == ["a3", "a12", "b12"] and len(detail.folded) == 23 and detail.left_out == 0
    assert [r.anchor for r in rows if r.anchor] == ["r1-v3", "r1-v13"] and detail.plots == []
    assert len(page._detail(case(), rows[:24], "r1", None).rows) == 24
    links = [row(1.0, f"{i}", plot="matrix", id=f"l{i}") for i in range(9)]
    links[4].verdict = "INVALID"
    assert [r.id for r in page._detail(case(), links, "r", None).rows] == ["l4"], "a heat map has the others"
    assert len(page._detail(case(), links[:8], "r", None).rows) == 8
    many = [row(1.0, f"{i}", id=f"m{i}", verdict="INVALID" if i == 129 else "PASS") for i in range(130)]
    long = page._detail(case(findings=[Finding("FAIL", "x", "m128"), Finding("FAIL", "x", "m60")]), many, "r", None)
    assert (long.rows[0].id, len(long.rows), len(long.folded), long.left_out) == ("m129", 60, 60, 10)
    assert many[60].anchor == "r-v60" and many[128].anchor == "", "what is left out has no anchor"


def test_samples_of_failures_are_shown_first_and_in_full() -> None:
    rows = [row(1.0, "GPU 0", samples=[1.0] * 12), row(1.0, "GPU 1", samples=[2.0] * 401, verdict="FAIL"),
            row(1.0, "GPU 2", samples=[3.0])]  # fmt: skip
    detail = page._detail(case(), rows, "r", None)
    (first, failed), (second, passed) = detail.samples
    assert (first, second) == ("Triad, GPU 1, GB/s", "Triad, GPU 0, GB/s")
    assert failed == " ".join(["2.000"] * 400) + " … 1 more in the archive"
    assert passed == " ".join(["1.000"] * 10) + " … 2 more in the archive" and detail.unsampled == 0
    assert page._detail(case(), [row(1.0, f"{i}", samples=[1.0, 2.0]) for i in range(22)], "r", None).unsampled == 2


def test_where_a_case_ran_is_told_by_its_record_or_else_by_reframe() -> None:
    testcase = {"scheduler": "local", "jobid": 7, "job_exitcode": 1, "build_stderr": "b.err", "stagedir": "/s"}
    assert dict(page._said(page._facts(case(testcase=testcase)))) == {
        "Node": "n1", "Partition": "gpu", "Environment": "cuda", "Scheduler": "local", "Job": "7", "Exit status": "1",
        "Standard error": "b.err", "Stage folder": "/s",
    }  # fmt: skip
    record = SimpleNamespace(
        job=SimpleNamespace(scheduler="slurm", id="9", state="COMPLETED", exit_code=0), path=Path("/a/b/c/d/e/f.json")
    )
    result = SimpleNamespace(program="stream", command=["a", "b"], started="S", finished="F")
    assert dict(page._said(page._facts(case(record=record, result=result, testcase={"job_stderr": "j.err"})))) == {
        "Node": "n1", "Partition": "gpu", "Environment": "cuda", "Program": "stream", "Command": "a b",
        "Started, finished": "S to F", "Scheduler": "slurm", "Job": "9", "Job state": "COMPLETED", "Exit status": "0",
        "Standard error": "j.err", "Archive file": "b/c/d/e/f.json",
    }  # fmt: skip


def test_what_did_not_run_is_sorted_as_people_count() -> None:
    plan = {"not_applicable": [{"check": "c10", "lacks": ["b", "a"], "text": "t"}, "c2", {"check": "c1", "lacks": "x"}]}
    assert page._not_applicable(plan) == [
        {"check": "c1", "text": "", "lacks": "x"}, {"check": "c2", "text": "", "lacks": ""},
        {"check": "c10", "text": "t", "lacks": "b, a"},
    ]  # fmt: skip
    assert page._not_applicable({"not_applicable": "x"}) == []
    made = session(
        case("Ran %n=1", base_check="Ran"), case("B"), plan={"applicable": ["c10", "Ran %n=2", "c2", "B", "c2"]}
    )
    assert page._not_selected(made) == ["c2", "c10"] and page._not_selected(session(plan={"applicable": 3})) == []


def test_what_records_share_is_shown_by_the_first() -> None:
    shown = page.Shown()
    assert [shown.elsewhere("build", content, anchor) for content, anchor in (
        ([1], "a"), ([1], "b"), ([2], "b"), ([1], "a"), ([2], "c"),
    )] == ["", "a", "", "", "b"]  # fmt: skip
    assert shown.elsewhere("devices", [1], "b") == ""
