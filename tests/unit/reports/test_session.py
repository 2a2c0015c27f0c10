import json
import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.commands import accept
from tenken.history import record_parser
from tenken.report import cli, page, session
from tests.unit.reports import builder


def load(tmp_path, records, *rest, **options):
    return session.load(builder.write_session(tmp_path, records, *rest, **options), "last")


def simple(check="stream", verdict="PASS", **changes):
    return builder.record(
        check,
        builder.document("stream", [builder.metric("triad", {"host": 0}, [1.0, 2.0])]),
        verdict,
        **changes,
    )


@pytest.mark.parametrize(
    "verdicts, overall, code",
    [
        (["PASS"], "PASS", 0),
        (["PASS", "WAIVED"], "PASS", 0),
        (["WAIVED"], "WAIVED", 0),
        (["PASS", "INVALID"], "INVALID", 3),
        (["INVALID", "FAIL", "PASS"], "FAIL", 1),
    ],
)
def test_overall_verdict_and_exit_code(tmp_path, verdicts, overall, code):
    found = load(tmp_path, [simple(f"c{i}", v) for i, v in enumerate(verdicts)])
    assert (found.verdict, found.exit_code) == (overall, code)
    assert not any(case.findings for case in found.cases), "a record without findings has none to show"


@pytest.mark.parametrize(
    "testcase, words",
    [
        (builder.testcase("hpl", "fail", "job killed", "run_wait"), "job killed"),
        (builder.testcase("hpl", "abort", None, "run"), "aborted: ReFrame gives no reason (in submission)"),
        (
            builder.testcase("hpl", "abort", "aborted due to ForceExitError", "run"),
            "aborted: ReFrame was terminated by a signal (in submission)",
        ),
        (builder.testcase("hpl", "abort", "aborted due to OddError", "run"), "aborted: OddError (in submission)"),
        (builder.testcase("hpl", "skip"), "would have left a record"),
        (builder.testcase("hpl", "pass"), "no record of a measurement"),
        (builder.testcase("hpl", "fail_deps"), "a dependency failed: ReFrame does not say what"),
        (builder.testcase("hpl", "fail", "no space", "compile_wait"), "no space (in build)"),
        (builder.testcase("hpl", "fail", "no space in build", "compile"), "no space in build"),
        (builder.testcase("hpl", "fail", "wrong", "sanity"), "wrong (in sanity)"),
        (builder.testcase("hpl", "fail", "lost", None), "lost"),
        (builder.testcase("hpl", "something new"), "ReFrame gives no reason"),
    ],
)
def test_a_case_without_record_fails_with_the_reason(tmp_path, testcase, words):
    found = load(tmp_path, [simple()], [builder.testcase("stream"), testcase])
    case = next(c for c in found.cases if c.check == "hpl")
    # a session that somebody, or TENKEN_LIMIT, ended found no fault
    verdict, code = ("INVALID", 3) if testcase["result"] == "abort" else ("FAIL", 1)
    assert case.verdict == verdict and case.findings[0].message.endswith(words)
    assert found.exit_code == code


def test_a_failed_build_is_named_by_what_needed_it(tmp_path):
    records, cases, plan = builder.every_kind()
    found = load(tmp_path, records, cases, plan)
    case = next(c for c in found.cases if c.check == "stream %backend=openacc")
    assert "build ~h200:gpu+nvhpc: build error: build job failed with exit code: 2" in case.findings[0].message
    assert [c.check for c in found.cases if c.build and c.verdict == "PASS"] == ["build ~h200:gpu+cuda"]


def test_invalid_of_reframe_stays_invalid(tmp_path):
    found = load(tmp_path, [], [builder.testcase("hpl", "fail", "sanity error: INVALID: throttled", "sanity")])
    assert (found.cases[0].verdict, found.exit_code) == ("INVALID", 3)


def test_reframe_outvotes_a_record_that_passed(tmp_path):
    found = load(tmp_path, [simple()], [builder.testcase("stream", "fail", "cleanup error: disk full", "cleanup")])
    assert found.cases[0].verdict == "FAIL" and "disk full" in found.cases[0].findings[0].message


def test_zero_tests_is_no_success(tmp_path):
    found = load(tmp_path, [], [])
    assert found.nothing_was_run and (found.verdict, found.exit_code) == ("FAIL", 3)


def test_load_errors_fail_a_green_run(tmp_path):
    found = load(tmp_path, [simple()], plan={**builder.PLAN, "load_errors": ["checks/hpl.py: SyntaxError: line 3"]})
    assert (found.verdict, found.exit_code) == ("FAIL", 1)
    assert found.load_errors == ["checks/hpl.py: SyntaxError: line 3"]
    errors = ["a", {"file": "f", "text": "t"}, {"path": "p", "error": "e"}, {"reason": "r"}, {"message": "m"}, "a",
              {"file": "f"}, {"odd": 1}]  # fmt: skip
    found = load(tmp_path, [simple()], plan={**builder.PLAN, "load_errors": errors})
    assert found.load_errors == ["a", "f: t", "p: e", "r", "m", "f", "{'odd': 1}"], "each once"


def test_damaged_files_are_listed_and_stop_nothing(tmp_path):
    records = [simple("good"), simple("bad"), simple("odd", verdict="MAYBE"), simple("empty"), simple("other")]
    root = builder.write_session(tmp_path, records)
    for check, change in (("bad", lambda text: text[:100]), ("empty", lambda text: ""),
                          ("other", lambda text: text.replace("tenken-record/", "other/"))):  # fmt: skip
        path = next(root.glob(f"h200/gpu/*/{check}/*.json"))
        path.write_text(change(path.read_text()))
    found = session.load(root, "last")
    bad = dict.fromkeys(("bad", "odd", "empty", "other"), "FAIL")
    assert {c.check: c.verdict for c in found.cases} == {"good": "PASS", **bad}
    assert len(found.damaged) == 4
    assert any("bad/030010" in p for p, _ in found.damaged)
    assert any("MAYBE" in reason for _, reason in found.damaged)


def test_a_damaged_record_alone_is_incomplete(tmp_path):
    root = builder.write_session(tmp_path, [simple("good")])
    stray = next(root.glob("h200/gpu/*/good/*.json")).with_name(f"040000-{builder.NAME}-ffffffff.json")
    stray.write_text("")
    found = session.load(root, "last")
    assert (found.verdict, found.exit_code) == ("INVALID", 3)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_an_interrupted_session_is_incomplete(tmp_path, content):
    root = builder.write_session(tmp_path, [simple()])
    report = root / ".sessions" / builder.NAME / "run-report.json"
    report.unlink()
    if content is not None:
        report.write_text(content)
    found = session.load(root, "last")
    assert found.exit_code == 3 and [c.check for c in found.cases] == ["stream"]
    assert "run report is missing" in found.incomplete[0]
    assert [why.split(":")[0] for _, why in found.damaged] == {
        None: [], "{": ["cannot be read"], "[]": ["is not a JSON object"],
    }[content]  # fmt: skip


@pytest.mark.parametrize(("first", "last"), [("FAIL", "PASS"), ("PASS", "FAIL"), ("PASS", "INVALID")])
def test_only_the_last_attempt_counts(tmp_path, first, last):
    one = simple(verdict=first, time="2026-11-21T03:00:00Z")
    other = simple(verdict=last, time="2026-11-21T03:05:00Z")
    found = load(tmp_path, [one, other], [builder.testcase("stream")])
    assert [(c.verdict, c.attempt, c.superseded) for c in found.cases] == [(first, 1, True), (last, 2, False)]
    assert (found.verdict, found.counts[first]) == (last, 0)


@pytest.mark.parametrize("verdict", ["FAIL", "INVALID"])
@pytest.mark.parametrize(("field", "names"), [("environ", ("gnu", "nvhpc")), ("partition", ("cpu", "gpu"))])
def test_the_same_check_at_two_places_is_two_cases(tmp_path, field, names, verdict):
    first, second = names
    for number, (one, other) in enumerate((("PASS", verdict), (verdict, "PASS"))):
        found = load(tmp_path / str(number), [simple(verdict=one, **{field: first}),
                                              simple(verdict=other, **{field: second})])  # fmt: skip
        assert [(getattr(c, field), c.verdict) for c in found.cases] == [(first, one), (second, other)]
        assert found.verdict == verdict and found.exit_code


def test_a_check_without_time_that_ran_later_or_failed_leaves_nothing_incomplete(tmp_path):
    when, why = "2026-11-21T03:00:00Z", "nid001: no time left: the 12 minutes are used up"
    said = [builder.finding(verdict, "nid001", why) for verdict in ("WAIVED", "FAIL")]
    late, failed = (builder.record("X", None, one["verdict"], findings=[one], time=when) for one in said)
    assert load(tmp_path / "only", [late]).incomplete == ["No time was left for 1 check: X."]
    later = simple("X", time="2026-11-21T03:05:00Z")
    assert load(tmp_path / "later", [late, later], [builder.testcase("X")]).incomplete == []
    assert load(tmp_path / "failed", [failed]).incomplete == []


@pytest.mark.parametrize("name", ["last", "nosuch", "../etc", ".sessions", ""])
def test_no_session(tmp_path, name):
    (tmp_path / "perflogs").mkdir()
    with pytest.raises(session.NoSession):
        session.load(tmp_path / "perflogs", name)
    with pytest.raises(session.NoSession, match="no archive"):
        session.load(tmp_path / "nosuch", name)


def test_a_session_of_which_only_a_damaged_record_is_left_is_shown(tmp_path):
    root = builder.write_session(tmp_path, [simple()])
    (record,) = archive.paths(root)
    record.write_text(record.read_text()[:-40])
    shutil.rmtree(root / archive.SESSIONS / builder.NAME)
    assert len(session.load(root, builder.NAME).damaged) == 1


def test_an_unknown_session_names_the_known(tmp_path):
    names = [f"2026112{number}T000000Z-s" for number in (3, 1, 7, 5, 2, 4, 6)]
    for name in names:
        builder.write_session(tmp_path, [simple()], name=name)
    with pytest.raises(session.NoSession, match=f"most recent: {', '.join(sorted(names)[2:])}$"):
        session.load(tmp_path, "nosuch")


def test_run_report_shape_is_reframes(tmp_path):
    """A session with records only, and a report without any runs, counts as a run of nothing."""
    root = builder.write_session(tmp_path, [])
    (root / ".sessions" / builder.NAME / "run-report.json").write_text(json.dumps({"session_info": {}, "runs": []}))
    assert session.load(root, "last").nothing_was_run


def without_plan(root):
    folder = root / ".sessions" / builder.NAME
    (folder / "plan.json").unlink()
    return folder


def test_a_plain_reframe_run_has_no_plan_and_is_no_worse_for_it(tmp_path):
    root = builder.write_session(tmp_path, [simple()])
    without_plan(root)
    note = archive.begin_session(root, builder.NAME, [])
    note.write_text(json.dumps({"begun": "2026-11-21T03:00:00Z", "load_errors": []}))
    found = session.load(root, "last")
    assert found.exit_code == 0 and "no plan" in found.notes[0]


def test_without_plan_and_note_of_its_beginning_nothing_tells_what_never_ran(tmp_path):
    root = builder.write_session(tmp_path, [simple()])
    without_plan(root)
    found = session.load(root, "last")
    assert (found.verdict, found.exit_code) == ("INVALID", 3) and "never ran would be hidden" in found.incomplete[0]


def test_a_run_without_plan_tells_what_did_not_load(tmp_path):
    root = builder.write_session(tmp_path, [simple()])
    without_plan(root)
    for errors in ([], ["checks/hpl.py: SyntaxError: line 3"], ["checks/hpl.py: SyntaxError: line 3"]):
        archive.begin_session(root, builder.NAME, errors)
    found = session.load(root, "last")
    assert (found.verdict, found.exit_code) == ("FAIL", 1)
    assert found.load_errors == ["checks/hpl.py: SyntaxError: line 3"]


def on(node, verdict="PASS", minute=0, **changes):
    return simple(verdict=verdict, nodes=[node], time=f"2026-11-21T03:{minute:02}:00Z", **changes)


def test_the_same_check_on_many_nodes_is_as_many_cases(tmp_path):
    for which, verdict, code in ((17, "FAIL", 1), (0, "INVALID", 3)):
        records = [on(f"n{i:03}", verdict if i == which else "PASS", i % 60) for i in range(100)]
        found = load(tmp_path / verdict, records, [{**builder.testcase("stream"), "job_nodelist": ["n099"]}])
        assert len(found.counted) == 100 and found.counts[verdict] == 1
        assert (found.verdict, found.exit_code) == (verdict, code)
        (bad,) = [c for c in found.counted if c.verdict == verdict]
        assert (bad.nodes, bad.attempts) == ([f"n{which:03}"], 1)


def test_attempts_are_of_one_node_however_long_its_name_is_told(tmp_path):
    records = [on("n1", "FAIL"), on("N1.cluster.site", minute=5), on("n2", "FAIL", 1), on("n2", "FAIL", 6)]
    found = load(tmp_path, records, [{**builder.testcase("stream"), "job_nodelist": ["n1"]}])
    assert sorted((c.nodes[0], c.verdict, c.attempt, c.superseded) for c in found.cases) == [
        ("n1", "FAIL", 1, True),
        ("n1", "PASS", 2, False),
        ("n2", "FAIL", 1, True),
        ("n2", "FAIL", 2, False),
    ]
    assert found.verdict == "FAIL"
    # neither is one the beginning of another, nor is the domain the node
    for number, (one, other) in enumerate((("n1", "n10"), ("n2.a", "n3.a"))):
        case = {**builder.testcase("stream"), "job_nodelist": [other.split(".")[0]]}
        found = load(tmp_path / str(number), [on(one, "FAIL"), on(other, minute=1)], [case])
        told = sorted((c.nodes[0], c.verdict) for c in found.counted)
        assert told == [(one.split(".")[0], "FAIL"), (other.split(".")[0], "PASS")]


def test_an_attempt_that_came_to_no_node_belongs_to_the_only_place(tmp_path):
    nowhere = simple(verdict="FAIL", nodes=[], time="2026-11-21T03:00:00Z")
    assert load(tmp_path / "one", [nowhere, on("n1", minute=5)], [builder.testcase("stream")]).verdict == "PASS"
    unplaced = {**builder.testcase("stream"), "job_nodelist": []}
    two = load(tmp_path / "two", [nowhere, on("n1", minute=5), on("n2", minute=6)], [unplaced])
    assert two.counts["FAIL"] == 1 and len(two.counted) == 3


def test_several_nodes_are_one_place_in_any_order(tmp_path):
    both = [simple(nodes=["n1", "n2"], verdict="FAIL"), simple(nodes=["n2", "n1"], time="2026-11-21T04:00:00Z")]
    assert [c.superseded for c in load(tmp_path, both, [builder.testcase("stream")]).cases] == [True, False]


def test_reframes_own_failure_is_held_against_the_node_that_it_names(tmp_path):
    failed = {**builder.testcase("stream", "fail", "job killed", "run_wait"), "job_nodelist": ["n2"]}
    found = load(tmp_path / "a", [on("n1"), on("n2"), on("n3")], [failed])
    assert {c.nodes[0]: c.verdict for c in found.counted} == {"n1": "PASS", "n2": "FAIL", "n3": "PASS"}
    lost = {**failed, "job_nodelist": ["n4"]}
    found = load(tmp_path / "b", [on("n1"), on("n2")], [lost])
    assert found.counts == {**found.counts, "PASS": 2, "FAIL": 1} and found.verdict == "FAIL"


def test_a_run_that_was_killed_before_its_report_is_the_last_one(tmp_path):
    """A plain ReFrame that dies after its first test began has left no plan, no run report and no record."""
    root = builder.write_session(tmp_path, [simple()])
    assert session.load(root, "last").verdict == "PASS"
    archive.begin_session(root, "20261122T030000Z-aaaaaa", [])
    found = session.load(root, "last")
    assert (found.name, found.verdict, found.exit_code) == ("20261122T030000Z-aaaaaa", "FAIL", 3)
    assert found.nothing_was_run and "run report is missing" in found.incomplete[0]


def test_the_last_session_is_told_by_time_whatever_its_name(tmp_path):
    root = builder.write_session(tmp_path, [simple()])
    odd = archive.begin_session(root, "zz-by-hand", [])
    os.utime(odd, (1_000_000_000, 1_000_000_000))
    assert session.load(root, "last").name == builder.NAME
    os.utime(odd, (4_000_000_000, 4_000_000_000))
    assert session.load(root, "last").name == "zz-by-hand"


@pytest.mark.parametrize("name", ["plan.json", "run-report.json", "begun-0.json"])
def test_a_damaged_file_of_a_session_is_listed_and_not_waited_for(tmp_path, name):
    root = builder.write_session(tmp_path, [simple()])
    path = root / ".sessions" / builder.NAME / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    found = session.load(root, "last")
    assert [p for p, _ in found.damaged] == [f".sessions/{builder.NAME}/{name}"] and found.exit_code == 3
    path.unlink()
    path.write_text('{"runs": [], "runs"')
    assert "truncated" in session.load(root, "last").damaged[0][1]


def test_what_a_failed_build_kept_from_running_is_one_line_with_a_count(tmp_path):
    build = builder.testcase(
        "build ~h200:gpu+cuda", "fail", "the build failed: no module cuda/99", "compile_wait", True,
        unique_name="build_cuda", job_nodelist=[],
    )  # fmt: skip
    kept = [
        builder.testcase(
            f"check{i}", "fail_deps", job_nodelist=[], dependencies_actual=[["build_cuda", "h200:gpu", "cuda"]]
        )
        for i in range(63)
    ]
    found = load(tmp_path, [], [build, *kept])
    text = cli.table(found)
    assert len([line for line in text.splitlines() if "dependency failed" in line]) == 1
    assert "63 test cases" in text and "no module cuda/99" in text and "check17" not in text
    shown = page.render(found, {}, "now")
    attention = shown.split("Findings")[1].split("</section>")[0]
    assert attention.count("<li") == 2 and "63 test cases were not run, because a dependency failed" in attention


def test_a_run_that_saw_none_of_the_machine_s_gpus_is_incomplete(tmp_path):
    hidden = "this machine has 4 NVIDIA GPUs, and this process sees none of them: CUDA_VISIBLE_DEVICES is empty"
    found = load(tmp_path, [simple()], [builder.testcase("stream")], {"system": "local", "hidden_gpus": hidden})
    assert (found.exit_code, hidden in cli.table(found)) == (3, True)
    assert hidden in page.render(found, {}, "now")


@pytest.mark.parametrize(("old", "new", "says"), [
    ("/stream/", "/gemm/", "check is"), ("2026-11-21", "2026-11-20", "time is"), ("/030010-", "/040000-", "time is"),
])  # fmt: skip
def test_a_record_at_another_place_is_listed_by_every_reader(tmp_path, old, new, says):
    root = builder.write_session(tmp_path, [simple()])
    (path,) = root.glob("h200/gpu/*/*/*.json")
    moved = Path(str(path).replace(old, new))
    assert moved != path
    moved.parent.mkdir(parents=True, exist_ok=True)
    path.rename(moved)
    (damaged,) = session.load(root, "last").damaged
    files = accept.files_of(root, (builder.NAME,))
    assert list(accept.records_of(files)) == [] and len(files.damaged) == 1
    with pytest.raises(record_parser.Unreadable, match=says):
        folder = moved.parent.relative_to(root).as_posix()
        record_parser.record(moved.read_text(), datetime(2027, 1, 1), folder, moved.name)
    assert says in damaged[1] and says in files.damaged[0]
