"""The output of `make run` while ReFrame runs: one line per check, progress, and the end."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.model.judgement import FLOOR, Criterion, Finding, JudgedMetric, Limit
from tenken.reframe import plan, terminal
from tenken.reframe.build import BuildPrograms
from tenken.reframe.terminal import Durations, Progress, key_figure

LIMIT = Limit(20.0, "GB/s", "data sheet: none")


def floor(low: float | None = None, high: float | None = None) -> Criterion:
    return Criterion(FLOOR, 20.0, low, high, "GB/s", "median", "a share")


def metric(value: float, criterion: Criterion | None, verdict: str = "PASS") -> JudgedMetric:
    return JudgedMetric(verdict, value, "GB/s", "higher", "median", criterion, LIMIT, None, (None, None))


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        (floor(10.0), "triad.host 12.50 GB/s, at least 10.00 by floor"),
        (floor(None, 14.0), "triad.host 12.50 GB/s, at most 14.00 by floor"),
        (floor(10.0, 14.0), "triad.host 12.50 GB/s, 10.00 to 14.00 allowed by floor"),
        (None, "triad.host 12.50 GB/s, no criterion"),
    ],
)
def test_a_figure_is_told_with_unit_and_criterion(criterion, words):
    assert key_figure({"triad.host": metric(12.5, criterion)}, "PASS") == words


def test_the_figure_is_the_one_that_the_verdict_hangs_on():
    judged = {
        "far": metric(20.0, floor(10.0)),
        "near": metric(10.1, floor(10.0)),
        "free": metric(1.0, None, "RECORDED"),
        "missed": metric(4.0, floor(10.0), "FAIL"),
    }
    assert key_figure(judged, "FAIL").startswith("missed 4.000 GB/s")
    assert key_figure(judged, "PASS").startswith("near ")
    assert key_figure(judged, "RECORDED").startswith("free ")
    assert key_figure({}, "PASS") == ""


def test_the_first_figure_of_a_run_is_a_key_figure():
    assert terminal._metrics_of(SimpleNamespace(program="stream"))[0] == "triad"
    assert terminal._metrics_of(SimpleNamespace(program="hpcg"))[:2] == ["rating", "raw"]
    assert terminal._metrics_of(SimpleNamespace(program="nothing")) == []


def test_a_ratio_has_no_unit():
    assert (
        key_figure({"of_best.gpu0": replace(metric(0.99, None), unit="1")}, "PASS")
        == "of_best.gpu0 0.9900, no criterion"
    )


def test_the_first_reason_is_told_whole_and_the_others_are_counted(clock, tmp_path):
    """Two reasons in one line were cut in the middle of the second."""
    why = [Finding("FAIL", f"{'x' * 60} {n}") for n in range(3)]
    seen = SimpleNamespace(judged={}, findings=(Finding("INVALID", "shared"), *why))
    run = progress([one := case("A", tenken_verdict="FAIL", judged=seen)], clock, tmp_path)
    run.on_task_failure(Task(one, "FAIL: all"))
    assert f" {'x' * 60} 0 (and 2 more on the page)  " in lines(run)[0]
    assert terminal._cut("a " * 200).endswith("a ...") and len(terminal._cut("a " * 200)) <= terminal.LONGEST
    long = SimpleNamespace(judged=SimpleNamespace(findings=2 * [Finding("FAIL", "a " * 200)]))
    said = terminal._first(long, "FAIL")
    assert said.endswith("a ... (and 1 more on the page)") and terminal.LONGEST - 4 < len(said) <= terminal.LONGEST


def test_without_a_criterion_it_is_the_best_of_the_first_rate():
    judged = {
        "phase.host": replace(metric(99.0, None), unit="ms", direction="lower"),
        "dot.host": metric(50.0, None),
        "raw.host.n=1": metric(2.0, None),
        "raw.host.n=2": metric(3.0, None),
    }
    assert key_figure(judged, "PASS", ["phase", "raw", "dot"]) == "raw.host.n=2 3.000 GB/s, no criterion"
    assert key_figure({"phase.host": judged["phase.host"]}, "PASS").startswith("phase.host 99.00 ms")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def case(name: str, **check: Any) -> SimpleNamespace:
    seen = SimpleNamespace(display_name=name, tenken_verdict="none", tenken_mode="quick", judged=None)
    vars(seen).update(check)
    return SimpleNamespace(
        check=seen, partition=SimpleNamespace(fullname="local:node"), environ=SimpleNamespace(name="host")
    )


class Task:
    """The state of one of ReFrame's tasks that a listener sees."""

    def __init__(self, one: SimpleNamespace, error: str = "", failed_deps: bool = False) -> None:
        self.testcase, self.check = one, one.check
        self.exc_info = (None, Exception(error) if error else None, None)
        self.failed_deps = failed_deps


def progress(cases, clock, tmp_path, known=None) -> Progress:
    durations = Durations(tmp_path / "durations.json")
    durations.known.update(known or {})
    return Progress(cases, durations, io.StringIO(), clock)


def lines(run: Progress) -> list[str]:
    return run.stream.getvalue().splitlines()


def judged(verdict: str, **metrics: JudgedMetric) -> dict[str, Any]:
    return {"tenken_verdict": verdict, "judged": SimpleNamespace(judged=metrics)}


def test_each_check_has_one_line_with_its_share_of_time(clock, tmp_path):
    cases = [
        case("StreamHost", **judged("PASS", triad=metric(12.5, floor(10.0)))),
        case("Daxpy", **judged("INVALID", daxpy=metric(9.0, None))),
        case("SnapshotHost"),
        case("Gemm %gpus_at=at_once"),
    ]
    run = progress(cases, clock, tmp_path)
    tasks = [Task(cases[0]), Task(cases[1], "INVALID: spread 30 % is above 10 %\nsecond line"),
             Task(cases[2], "WAIVED: no libhdf5"), Task(cases[3], "cannot start")]  # fmt: skip
    told = (run.on_task_success, run.on_task_failure, run.on_task_skip, run.on_task_failure)
    for task, tell in zip(tasks, told, strict=True):
        run.on_task_run(task)
        clock.now += 4
        tell(task)
    run.end()
    found = lines(run)
    assert len(found) == 5
    assert found[0].split()[:2] == ["PASS", "StreamHost"] and "12.50 GB/s, at least 10.00 by floor  4 s" in found[0]
    assert found[1].startswith("INVALID ") and "spread 30 % is above 10 % second line" in found[1]
    assert found[2].startswith("WAIVED ") and "no libhdf5" in found[2]
    assert found[3].startswith("FAIL ") and "Gemm at_once" in found[3] and "[4/4]" in found[3]
    assert found[4] == "4 of 4 checks in 16 s: 1 FAIL, 1 INVALID, 1 PASS, 1 WAIVED"


def test_a_second_attempt_replaces_the_count_of_the_first(clock, tmp_path):
    cases = [case("A", **judged("INVALID")), case("B", **judged("INVALID")), case("C", **judged("PASS"))]
    run = progress(cases, clock, tmp_path)
    for one in cases:
        run.on_task_run(task := Task(one, "INVALID: shared" * (one is not cases[2])))
        (run.on_task_success if one is cases[2] else run.on_task_failure)(task)
    run.on_again([Task(cases[0]), Task(cases[1])])
    again = Task(case("A", **judged("PASS")))
    run.on_task_run(again)
    run.on_task_success(again)
    run.on_task_run(stopped := Task(cases[1]))
    run.on_task_abort(stopped)
    run.end()
    assert lines(run)[3] == "again     2 INVALID checks are measured once more"
    assert lines(run)[-1].endswith("3 of 3 checks in 0 s: 1 INVALID, 2 PASS")


def test_what_is_left_is_told_by_what_each_check_took_last_time(clock, tmp_path):
    cases = [case(name) for name in ("A", "B", "C")]
    known = {f"{name} @local:node+host quick": seconds for name, seconds in (("A", 5), ("B", 20), ("C", 100))}
    run = progress(cases, clock, tmp_path, known)
    run.on_task_run(task := Task(cases[0]))
    clock.now += 7
    run.on_task_success(task)
    assert "[1/3, about 2 min 00 s left]" in lines(run)[0]
    run.end()
    assert Durations(tmp_path / "durations.json").known["A @local:node+host quick"] == 7


def test_a_check_that_outlasts_its_estimate_is_said_to_do_so(clock, tmp_path):
    """Ten trials of 4 GB took 5 minutes, with "about 8 s left" shown all the time."""
    cases = [case("A"), case("B")]
    run = progress(cases, clock, tmp_path, {"A @local:node+host quick": 8, "B @local:node+host quick": 20})
    run.on_task_run(Task(cases[0]))
    clock.now += 30
    run.tick()
    assert lines(run)[-1].endswith("[0/2, about 20 s left]")
    run.on_task_run(Task(cases[1]))
    clock.now += 30
    run.tick()
    assert lines(run)[-1].endswith("[0/2, longer than expected]")


def test_nothing_is_expected_of_a_check_that_never_ran_and_has_no_share(clock, tmp_path):
    cases = [case("A"), case("B")]
    run = progress(cases, clock, tmp_path, {"A @local:node+host quick": 8})
    for one in cases:
        run.on_task_run(Task(one))
    clock.now += 300
    run.tick()
    assert lines(run)[-1].endswith(" [0/2]")


def test_the_first_check_is_no_measure_of_all_others(clock, tmp_path):
    """StreamHost takes three times as long as an average check, and comes first."""
    here = case("A")
    build = SimpleNamespace(check=object.__new__(BuildPrograms), partition=here.partition, environ=here.environ)
    run = progress([build, *(case(f"Check{i}") for i in range(46))], clock, tmp_path)
    run.on_task_compile(building := Task(build))
    run.on_task_run(first := Task(case("Check0")))
    clock.now += 19
    run.on_task_success(first)
    assert "[1/46, about 5 min 23 s left after the build]" in lines(run)[0]  # 45 x (10 x 6 s + 19 s) / 11
    run.on_task_success(building)
    run.on_task_run(second := Task(case("Check1")))
    clock.now += 1
    run.on_task_success(second)
    assert lines(run)[-1].endswith("[2/46, about 4 min 53 s left]")  # 44 x (10 x 6 s + 20 s) / 12


@pytest.mark.parametrize("text", ["", "[1]", '{"a": "b"}', '{"a": -1}', "{"])
def test_damaged_durations_cost_the_estimate_alone(tmp_path, text):
    (tmp_path / "durations.json").write_text(text)
    assert Durations(tmp_path / "durations.json").of("A") == terminal.GUESS


@pytest.mark.parametrize(("took", "late"), [(29, False), (31, True)])
def test_a_check_that_takes_more_than_its_share_is_marked(clock, tmp_path, took, late):
    one = case("A")
    run = progress([one], clock, tmp_path)
    run.on_task_run(task := Task(one))
    clock.now += took
    run.on_task_success(task)
    assert ("more than its 30 s" in lines(run)[0]) is late


def test_a_failed_build_is_told_once_and_its_checks_are_counted(clock, tmp_path):
    cases = [case(f"Check{i}") for i in range(5)]
    build = SimpleNamespace(check=object.__new__(BuildPrograms), partition=cases[0].partition, environ=cases[0].environ)
    run = progress([build, *cases], clock, tmp_path)
    run.on_task_compile(task := Task(build, "the build failed with exit status 2: fatal error: no such file"))
    clock.now += 3
    run.on_task_failure(task)
    for one in cases:
        run.on_task_skip(Task(one, "dependencies failed", failed_deps=True))
    run.end()
    found = lines(run)
    assert len(found) == 2
    assert found[0].startswith("FAIL ") and "build for host" in found[0] and "no such file" in found[0]
    assert found[1].endswith("none ended; 5 were not run")


def test_builds_that_go_on_together_have_one_line(clock, tmp_path):
    here = case("A")
    builds = [
        SimpleNamespace(check=object.__new__(BuildPrograms), partition=here.partition, environ=here.environ)
        for _ in range(2)
    ]
    run = progress([*builds, here], clock, tmp_path)
    tasks = [Task(build) for build in builds]
    for task in tasks:
        run.on_task_compile(task)
    clock.now += 5
    run.on_task_success(tasks[0])
    assert lines(run) == []
    clock.now += 70
    run.on_task_success(tasks[1])
    assert len(lines(run)) == 1 and "build for host" in lines(run)[0] and "75 s" in lines(run)[0]


def test_a_run_that_was_stopped_says_what_was_not_run(clock, tmp_path):
    cases = [case("A"), case("B"), case("C")]
    run = progress(cases, clock, tmp_path)
    run.on_task_success(Task(cases[0]))
    run.on_task_abort(Task(cases[1]))
    run.end()
    assert lines(run)[-1].startswith("1 of 3 checks") and lines(run)[-1].endswith("1 PASS; 2 were not run")


def test_long_work_says_what_is_going_on(clock, tmp_path):
    one = case("HpcgHost")
    run = progress([one], clock, tmp_path, {"HpcgHost @local:node+host quick": 60})
    run.on_task_run(Task(one))
    clock.now += terminal.SILENCE - 1
    run.tick()
    assert lines(run) == []
    clock.now += 2
    run.tick()
    run.tick()
    assert len(lines(run)) == 1 and "HpcgHost running for 26 s" in lines(run)[0] and "[0/1, about 34 s" in lines(run)[0]


@pytest.mark.parametrize(
    ("printed", "share"),
    [("[1/130] x\n[42/130] Building CXX\n", " 42 of 130 files"), ("[ 42%] Building CXX", " 42 %"), ("-- Found", "")],
)
def test_a_build_tells_how_far_it_is(tmp_path, printed, share):
    (tmp_path / "build.out").write_text(printed)
    check = SimpleNamespace(stagedir=str(tmp_path), build_job=SimpleNamespace(stdout="build.out"))
    assert terminal._share_built(check) == share


LISTED = """\
[33mWARNING: skipping test 'Overlap': type error: failed to set variable 'valid_systems': '['* +x']' is not of type
| base.py:257
|             self.valid_systems = ['* +x']
WARNING: skipping test 'Overlap': type error: failed to set variable 'valid_systems': '['* +x']' is not of type
WARNING: skipping test file 'checks/io.py': reframe syntax error: 'place' already defined (rerun with '-v')
- Daxpy /5a220f53
"""


def test_what_reframe_passes_over_is_an_error_of_the_plan(monkeypatch):
    printed = {"--describe": '[{"display_name": "Daxpy"}]', "--list": LISTED}
    monkeypatch.setattr(plan, "_reframe", lambda path, mode, action: SimpleNamespace(stdout=printed[action], stderr=""))
    checks, errors = plan.describe_checks(None)
    assert [one["display_name"] for one in checks] == ["Daxpy"]
    assert [error.split(": ")[:2] for error in errors] == [
        ["check Overlap", "type error"],
        ["checks/io.py", "reframe syntax error"],
    ]


def test_what_the_other_checks_need_is_told_in_one_line():
    """A check of another mode lacks the mode, whatever else it needs; three lines had named it by its nodes."""
    needs = [("2 nodes",), ("2 nodes",), ("4 nodes", "mode published"), ("64 nodes", "mode published"), ("cuda",)]
    others = tuple(plan.NotApplicable(f"Check{n}", "", one) for n, one in enumerate(needs))
    made = plan.Plan("local", "quick", ("Daxpy",), others, ())
    assert list(plan.in_brief(made, SimpleNamespace(name="local", notes=()))) == [
        "1 checks apply to local in mode quick",
        "5 do not: 2 need 2 nodes, 2 need mode published, 1 needs cuda; "
        "all with reasons: tenken checks --system local --mode quick",
    ]


def test_reframe_itself_keeps_its_own_lines(monkeypatch):
    from tenken.reframe.configuration import _logging

    monkeypatch.setattr("sys.argv", ["reframe", "-r"])
    monkeypatch.delenv(terminal.VARIABLE, raising=False)
    assert _logging()["handlers$"][0]["level"] == "info"
    monkeypatch.setenv(terminal.VARIABLE, terminal.BRIEF)
    assert _logging()["handlers$"][0]["level"] == "warning"
    assert _logging()["handlers"][0]["level"] == "debug2"
    # lists and descriptions of checks are parsed by other programs
    monkeypatch.setattr("sys.argv", ["reframe", "--describe"])
    assert _logging()["handlers$"][0]["level"] == "info"
