"""What the classes of all checks do without a session: what a job is given, what its size is, and what is refused."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import PerformanceError, ReframeError, SanityError, SkipTestError
from reframe.utility.sanity import evaluate

from checks.hpl import HplNode
from checks.hpl_mxp import HplMxpOther
from tenken.errors import ArchiveError
from tenken.reframe import base, build, foreign, hpl, locks
from tenken.reframe.base import JudgedCheck
from tenken.reframe.foreign import Figure, ForeignCheck, NamedProgram
from tenken.reframe.hpl import OtherHpl
from tenken.reframe.outcome import Outcome


class Stand:
    """What a method of a check looks up, and its skipping."""

    tags: frozenset[str] = frozenset()
    name = unique_name = "Check"

    def __init__(self, **known: Any) -> None:
        vars(self).update(known)

    def is_dry_run(self) -> bool:
        return False

    def waive(self, why: str) -> None:
        raise SkipTestError(why)

    skip = waive

    def where(self) -> str:
        return "n1"


def test_programs_of_others_are_given_the_functions_that_hold_the_machine(tmp_path: Path) -> None:
    for ours in (True, False):
        stage = tmp_path / str(ours)
        stage.mkdir()
        check = Stand(stagedir=str(stage), ours=ours, program="fio", token="t0", is_dry_run=lambda: True)
        check.request = lambda: SimpleNamespace(text=lambda: "asked")
        JudgedCheck.write_request(check)
        assert (stage / base.REQUEST_FILE).read_text() == "asked"
        functions = stage / locks.FUNCTIONS_FILE
        assert functions.exists() != ours
        if not ours:  # what the script reads with `. ./FILE` before it calls them
            assert f". ./{functions.name}; " in locks.around_rank() and functions.name in locks.hold(False)[0]
            assert "tenken_token=t0" in functions.read_text()


@pytest.mark.parametrize(
    ("ranks", "each", "slots", "fits"),
    [(8, 4, 4, (8, 4)), (8, 4, None, (8, 4)), (8, 4, 3, (4, 2)), (16, 8, 2, (4, 2)), (0, 8, 4, (0, 4))],
)
def test_ranks_are_halved_until_they_fit_on_each_node(
    ranks: int, each: int, slots: int | None, fits: tuple[int, int]
) -> None:
    check = Stand(num_tasks=ranks, num_tasks_per_node=each, machine=SimpleNamespace(slots=slots))
    JudgedCheck.fit_ranks(check)
    assert (check.num_tasks, check.num_tasks_per_node) == fits


def test_a_node_with_one_cpu_runs_no_ranks() -> None:
    check = Stand(num_tasks=2, num_tasks_per_node=2, machine=SimpleNamespace(slots=1))
    with pytest.raises(SkipTestError, match=r"needs more ranks: .* 1 CPU"):
        JudgedCheck.fit_ranks(check)


@pytest.mark.parametrize(("asked", "longest", "given"), [
    (1800, None, 1800), (1800, "00:10:00", 600), (300, "00:10:00", 300), (None, "00:10:00", 600),
])  # fmt: skip
def test_a_job_asks_for_no_more_time_than_its_queue_has(asked: int | None, longest: str | None, given: int) -> None:
    partition = SimpleNamespace(time_limit=longest)
    check = Stand(time_limit=asked, machine=SimpleNamespace(partition=partition))
    JudgedCheck.keep_to_the_queues_limit(check)
    assert check.time_limit == given


@pytest.mark.parametrize(("ranks", "there", "runs"), [(0, 8, 8), (-8, 8, 8), (-8, 4, None), (0, 2, None), (3, 8, 3)])
def test_flexible_ranks_are_counted_and_too_few_are_refused(ranks: int, there: int, runs: int | None) -> None:
    job = SimpleNamespace(guess_num_tasks=lambda: there)
    check = Stand(num_tasks=ranks, num_tasks_per_node=4, job=job)
    if runs is None:
        with pytest.raises(ReframeError, match=f"^{there} ranks fit on the available nodes; {-ranks or 4} are needed"):
            JudgedCheck.count_flexible_ranks(check)
        return
    JudgedCheck.count_flexible_ranks(check)
    assert check.num_tasks == runs
    assert ranks > 0 or job.num_tasks_per_node == 4


@pytest.mark.parametrize(("ours", "size", "fault", "given"), [
    (True, "full", "", {}), (True, "quick", "", {"warmup-seconds": base.QUICK_WARMUP}), (False, "quick", "", {}),
    (True, "full", "bit", {"inject-fault": "bit"}),
])  # fmt: skip
def test_only_our_programs_get_the_short_warm_up_and_the_fault_of_a_drill(
    ours: bool, size: str, fault: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENKEN_DRILL", fault or "")
    check = Stand(ours=ours, size_mode=size, arguments={"n": 3})
    check.fault = JudgedCheck.fault.fget(check)
    assert JudgedCheck.given.fget(check) == {"n": 3, **given}
    monkeypatch.setenv("TENKEN_DRILL", "bit")
    assert JudgedCheck.fault.fget(Stand(ours=False)) == ""


def test_options_of_a_command_line() -> None:
    assert base.command_line({"n": 0, "all": True, "not": False, "none": None, "file": "a b"}) == [
        "--n", "0", "--all", "--file", "'a b'",
    ]  # fmt: skip


def test_nothing_runs_where_its_record_could_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ArchiveError("no space")

    monkeypatch.setattr(base.archive, "check_writable", full)
    check = Stand()
    with pytest.raises(ReframeError, match=r"^INVALID: no part of a run could be archived: no space"):
        JudgedCheck.refuse_a_broken_archive(check)
    assert check.tenken_verdict == "INVALID"
    JudgedCheck.refuse_a_broken_archive(Stand(is_dry_run=lambda: True))


def judged(verdict: str, structural: bool = False) -> Any:
    return SimpleNamespace(verdict=verdict, structural=structural, message=lambda: "because")


@pytest.mark.parametrize(("judgement", "error", "says"), [
    (judged("WAIVED"), SkipTestError, "WAIVED: because"), (judged("INVALID"), SanityError, "INVALID: because"),
    (judged("FAIL", structural=True), SanityError, "FAIL: because"), (judged("FAIL"), None, ""),
    (judged("PASS"), None, ""),
])  # fmt: skip
def test_what_reframe_is_told_of_a_verdict_after_the_record_is_written(judgement: Any, error: Any, says: str) -> None:
    archived: list[Any] = []
    check = Stand(judgement=lambda: (judgement, "result", None, ""), archive_record=lambda *of: archived.append(of))
    if error is None:
        assert evaluate(JudgedCheck.judge_run(check))
        assert check.result == "result"
    else:
        with pytest.raises(error, match=f"^{says}$"):
            evaluate(JudgedCheck.judge_run(check))
    assert check.tenken_verdict == judgement.verdict and [of[0] for of in archived] == [judgement]


@pytest.mark.parametrize(("verdict", "logged", "says"), [
    ("PASS", "ab", ""), ("RECORDED", "ab", ""), ("FAIL", "ab", "FAIL: because"), ("INVALID", "ab", "INVALID: because"),
    ("PASS", "a", "FAIL: n1: ReFrame did not log b"),
])  # fmt: skip
def test_a_verdict_that_is_no_pass_and_a_value_that_is_not_logged_fail(verdict: str, logged: str, says: str) -> None:
    check = Stand(judged=judged(verdict), perfvalues={f"local:node:{name}": 1 for name in logged})
    check.metrics_of_result = lambda: tuple(SimpleNamespace(id=name) for name in "ab")
    if not says:
        JudgedCheck.raise_misses(check)
        return
    with pytest.raises(PerformanceError, match=f"^{says}$"):
        JudgedCheck.raise_misses(check)
    JudgedCheck.raise_misses(Stand(**vars(check) | {"is_dry_run": lambda: True}))


def test_reframe_is_told_each_value_with_its_unit_and_its_bounds() -> None:
    one = SimpleNamespace(value=4.0, unit="GB/s", bounds=(3.0, None), criterion=SimpleNamespace(value=4.0))
    check = Stand(current_partition=SimpleNamespace(fullname="h200:gpu"), judged=SimpleNamespace(judged={"rate": one}))
    JudgedCheck.declare_metrics(check)
    assert {name: (evaluate(told), told.unit) for name, told in check.perf_variables.items()} == {"rate": (4.0, "GB/s")}
    assert check.reference == {"h200:gpu": {"rate": (4.0, -0.25, None, "GB/s")}}


def test_a_run_is_judged_by_its_own_files_and_by_what_its_scheduler_says() -> None:
    job = SimpleNamespace(
        stdout="job.out", stderr="job.err", state="COMPLETED", exitcode=3, scheduler_facts={"run_count": 2},
        may_run_again=True, nodelist=["n1.site"], pin_nodes=["n2.site"],
    )  # fmt: skip
    partition = SimpleNamespace(name="gpu", scheduler=SimpleNamespace(registered_name="slurm"))
    known: dict[str, Any] = {"stagedir": "/s", "token": "t", "uses_mpi": True, "current_partition": partition}
    check = Stand(job=job, pinned_nodes=tuple, unnamed_nodes=lambda of: f"any of {of}", **known)
    assert JudgedCheck.outcome(check) == Outcome(
        folder=Path("/s"), stdout="job.out", stderr="job.err", token="t", uses_mpi=True, state="COMPLETED",
        exit_code=3, facts={"run_count": 2}, may_run_again=True, known=("n1",), pinned=("n2",), place="any of gpu",
    )  # fmt: skip
    job.state, job.scheduler_facts = None, None
    assert (JudgedCheck.outcome(check).state, JudgedCheck.outcome(check).facts) == ("", {})


@dataclass(frozen=True)
class Kept:
    """A record, with what is added to it."""

    judgement: Any
    nodes: tuple[str, ...] = ()
    request: Any = None
    result: Any = None
    result_error: Any = None
    result_text: str = ""

    @property
    def job(self) -> Any:
        return SimpleNamespace(facts={})


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A case whose job has ended, an archive, and what was written where."""
    seen: list[tuple[str, Any]] = []
    monkeypatch.setattr(base.archive, "write", lambda record, *_: seen.append(("archive", record)))
    monkeypatch.setattr(base.orphans, "keep", lambda record, _: seen.append(("kept", record)) or "; kept")
    monkeypatch.setattr(base.ledger, "close", lambda job: seen.append(("closed", job)))
    monkeypatch.setattr(base, "known_nodes", lambda *_: ("n1",))
    monkeypatch.setattr(base, "archive_root", lambda: tmp_path)
    monkeypatch.setattr(base, "captured", lambda *_: None)
    return Stand(
        seen=seen, stagedir=str(tmp_path), job=SimpleNamespace(completed=True), pinned_nodes=tuple, request=dict,
        record=lambda judgement, *_: Kept(judgement), current_partition=SimpleNamespace(name="gpu"),
        current_environ=None, current_system=SimpleNamespace(name="h200"),
    )  # fmt: skip


def no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ArchiveError("no space")

    monkeypatch.setattr(base.archive, "write", full)


@pytest.mark.parametrize(("reason", "verdict", "says"), [
    ("the job was cancelled", "FAIL", "n1: the job was cancelled"), ("INVALID: no disk", "INVALID", "n1: no disk"),
    ("sanity: INVALID: no disk", "INVALID", "n1: sanity: no disk"), ("INVALIDATED", "FAIL", "n1: INVALIDATED"),
])  # fmt: skip
def test_a_case_that_was_not_judged_has_one_record_with_the_reason(
    reason: str, verdict: str, says: str, case: Any
) -> None:
    for _ in range(2):
        JudgedCheck.record_failure(case, case.current_partition, None, reason)
    (_, record), (what, _) = case.seen
    assert what == "closed" and record.judgement.verdict == verdict
    assert [one.message for one in record.judgement.findings] == [says]
    assert (record.nodes, record.result_error) == (("n1",), reason)


def test_a_job_that_may_still_run_is_not_closed(case: Any) -> None:
    case.job.completed = False
    JudgedCheck.record_failure(case, case.current_partition, None, "the session was killed")
    assert [what for what, _ in case.seen] == ["archive"]


def test_a_record_of_a_failure_is_kept_where_the_archive_is_full(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    no_archive(monkeypatch)
    JudgedCheck.record_failure(case, case.current_partition, None, "the job was cancelled")
    assert [what for what, _ in case.seen] == ["kept", "closed"]
    case.recorded, case.stagedir = False, None
    with pytest.raises(ArchiveError):
        JudgedCheck.record_failure(case, case.current_partition, None, "the job was cancelled")


def test_a_run_that_cannot_be_archived_does_not_pass(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    JudgedCheck.archive_record(case, judged("PASS"), "result", None, "text")
    (_, record), (what, _) = case.seen
    assert (record.result, record.result_text, what) == ("result", "text", "closed") and case.recorded
    case.recorded = False
    no_archive(monkeypatch)
    with pytest.raises(SanityError, match=r"^INVALID: n1: no space; kept$"):
        JudgedCheck.archive_record(case, judged("PASS"), "result", None, "text")
    assert case.tenken_verdict == "INVALID" and case.recorded, "it has its record, which is kept"
    assert [what for what, _ in case.seen[2:]] == ["kept"]


def test_a_waiver_of_set_up_is_archived_before_the_check_is_skipped(case: Any) -> None:
    archived: list[Any] = []
    case.archive_record = lambda *of: archived.append(of)
    with pytest.raises(SkipTestError, match=r"^WAIVED: library missing: no fio$"):
        JudgedCheck.waive(case, "library missing: no fio")
    assert [of[0].verdict for of in archived] == ["WAIVED"]
    case.is_dry_run = lambda: True
    with pytest.raises(SkipTestError):
        JudgedCheck.waive(case, "library missing: no fio")
    assert len(archived) == 1


def test_a_request_counts_the_gpus_that_a_rank_lists_and_names_the_fault_of_a_drill() -> None:
    known: dict[str, Any] = {
        "token": "t", "program": "stream", "display_name": "Check", "subjects": ["gpu"], "metrics": None, "cores": 8,
        "expected_parameters": {"n": 3}, "lists_gpus": True, "num_tasks": 8, "given": {"n": 3}, "tenken_mode": "quick",
        "fault": "", "revision_built": lambda: "r1", "num_tasks_per_node": 2, "gpus": 4,
    }  # fmt: skip

    def asked(**changes: Any) -> Any:
        return JudgedCheck.request(Stand(**{**known, "uses_mpi": False, "ours": True, **changes}))

    assert [asked(uses_mpi=mpi).gpus for mpi in (True, False)] == [2, 4]
    assert asked(uses_mpi=True, ours=False).gpus == 4
    assert asked(gpus=0).gpus is None and asked(lists_gpus=False).gpus is None
    assert asked().parameters == {"n": 3} and asked(fault="bit").parameters == {"n": 3, "inject_fault": "bit"}
    assert asked().arguments == ("--n", "3") and asked(ours=False).arguments == ()
    assert asked().sections and not asked(revision_built=lambda: None).sections


def test_an_output_that_is_no_result_is_written_as_what_is_wrong_with_it(tmp_path: Path) -> None:
    known: dict[str, Any] = {"stagedir": str(tmp_path), "nodes": list, "stamp": lambda made: {**made, "token": "t"}}
    assert JudgedCheck.write_result(Stand(**known), lambda nodes: {"nodes": nodes}) is None
    assert json.loads((tmp_path / base.RESULT_FILE).read_text()) == {"nodes": ["unknown"], "token": "t"}

    def made(_: object) -> dict[str, Any]:
        raise foreign.ForeignOutputError("no rate")

    assert str(JudgedCheck.write_result(Stand(**known), made)) == "no rate"
    assert (tmp_path / base.RESULT_FILE).read_text() == "no rate"


def test_which_checks_use_gpus_and_how_many_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SimpleNamespace(cores=8, gpus=4, require_variables=lambda: None)
    monkeypatch.setattr(base.Machine, "of", lambda *_: machine)

    def found(**known: Any) -> tuple[Any, ...]:
        asked = {"subjects": ["host"], "on_gpus": False, "cores": None, "gpus": None, "uses_mpi": False, **known}
        check = Stand(**asked, current_partition=None, current_environ=None)
        check.uses_gpus, check.fitted = JudgedCheck.uses_gpus.fget(check), False
        check.fit_ranks = lambda: vars(check).update(fitted=True)
        JudgedCheck.find_machine(check)
        return check.cores, check.gpus, check.fitted

    assert found() == (8, 0, False)
    assert found(subjects=["gpu"]) == found(subjects=["pair"]) == found(on_gpus=True) == (8, 4, False)
    assert found(subjects=["gpu"], gpus=1, cores=0) == (0, 1, False)
    # a rank on each GPU is not moved: only ranks of the host are
    assert found(uses_mpi=True) == (8, 0, True) and found(uses_mpi=True, on_gpus=True) == (8, 4, False)


def test_the_result_of_another_program_lasts_from_its_first_begin_to_its_last_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stamped(*times: tuple[float | None, float | None]) -> dict[str, Any]:
        commands = [SimpleNamespace(begin=begin, end=end) for begin, end in times]
        told = SimpleNamespace(commands=commands, token="t")
        check = Stand(told=lambda: told, output_text=str, stagedir=str(tmp_path))
        return JudgedCheck.stamp(check, {"program": "fio"})

    monkeypatch.setattr(base.locks, "told", lambda _: None)
    monkeypatch.setattr(base.locks, "load", lambda _: {"begin": 1.0})
    said = {"program": "fio", "token": "t", "load": {"begin": 1.0}}
    begin, end = "1970-01-01T00:00:01.000000Z", "1970-01-01T00:00:04.500000Z"
    assert stamped((1.0, 2.0), (3.0, 4.5)) == {**said, "started": begin, "finished": end}
    assert stamped((None, None), (1.0, None)) == {**said, "started": begin}


@pytest.mark.parametrize(("ranks", "each", "says"), [(1, 1, "any node"), (8, 4, "any 2 nodes"), (9, 4, "any 3 nodes"),
                                                     (0, None, "any node")])  # fmt: skip
def test_nodes_that_nobody_named(ranks: int, each: int | None, says: str) -> None:
    check = Stand(num_tasks=ranks, num_tasks_per_node=each)
    assert JudgedCheck.unnamed_nodes(check, "gpu") == f"{says} of partition gpu"


# -- programs of others --


class Foreign(Stand):
    """A check of a program of others: its figures, and what its output is."""

    subjects, num_tasks = ["host"], 1
    required_lines, forbidden_lines, failure_words, own_verifications = (), (), True, ()
    version_command, version_pattern, image = "", r"v(\d+)", ""
    figures = {"rate": Figure("the rate", "GB/s", "higher", r"rate (\S+)")}
    said = "rate 3\nv7"

    def __getattr__(self, name: str) -> Any:
        found = getattr(ForeignCheck, name)
        return found.__get__(self) if callable(found) else found

    def output(self) -> str:
        return self.said

    def document_of(self, metrics: Any, checks: Any) -> dict[str, Any]:
        return {"metrics": metrics, "checks": checks}


def failing(**known: Any) -> list[str]:
    return [one["what"] for one in Foreign(**known).made()["checks"] if not one["passed"]]


def test_each_verification_of_a_programs_output_can_fail_alone() -> None:
    known: dict[str, Any] = {
        "required_lines": ("^done",), "forbidden_lines": ("^late",), "own_verifications": ["sums"],
        "wrong": lambda output: {"sums": "2 is not 3"} if "sum 2" in output else {},
    }  # fmt: skip
    assert failing(said="rate 3\ndone", **known) == []
    assert failing(said="rate 3", **known) == ["a line of the output matches ^done"]
    assert failing(said="rate 3\ndone\nlate", **known) == ["no line of the output matches ^late"]
    words = "no line of the output states failed, invalid or faulty"
    assert failing(said="rate 3\ndone\ntest FAILED", **known) == [words]
    assert failing(said="rate 3\ndone\ntest FAILED", failure_words=False, **known) == []
    assert failing(said="rate 3\ndone\nsum 2", **known) == ["sums"]
    made = Foreign(said="rate 3\ndone\nsum 2\ntest FAILED", **known).made()["checks"]
    assert {one["what"]: one["detail"] for one in made if "detail" in one} == {
        words: "test FAILED", "sums": "2 is not 3",
    }  # fmt: skip


def test_a_value_comes_from_parse_or_from_its_pattern_and_an_optional_one_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def values(**known: Any) -> dict[str, Any]:
        return {one["name"]: one["samples"] for one in Foreign(**known).made()["metrics"]}

    assert values() == {"rate": [3.0]}
    assert values(parse=lambda _: {"rate": 4}) == {"rate": [4.0]}
    assert values(parse=lambda _: {"rate": [4, 5]}) == {"rate": [4.0, 5.0]}
    optional = {"more": Figure("more", "GB/s", "higher", r"more (\S+)", optional=True)}
    assert values(figures={**Foreign.figures, **optional}) == {"rate": [3.0]}
    for name in ("declare", "remember"):
        monkeypatch.setattr(foreign.catalogue, name, lambda *of: None)
    check = Foreign(figures={**Foreign.figures, **optional}, mistakes=lambda: (), declared=dict)
    foreign.ForeignCheck.declare_figures(check)
    assert check.metrics == ["rate"], "what must come back"
    with pytest.raises(foreign.ForeignOutputError, match=r"^metric rate: "):
        values(said="nothing")
    with pytest.raises(foreign.ForeignOutputError, match=r"^parse returns 'other'; declared: rate"):
        values(parse=lambda _: {"other": 4})
    bare = {"bare": Figure("from parse", "GB/s", "higher")}
    with pytest.raises(foreign.ForeignOutputError, match=r"^metric bare: no pattern is declared"):
        values(figures=bare)


@pytest.mark.parametrize(("said", "version"), [
    ("v7", "7"), ("", "unknown"), ("v 7\t8", "unknown"),
])  # fmt: skip
def test_the_version_is_what_the_output_states(said: str, version: str) -> None:
    assert Foreign(said=said).version() == version
    assert Foreign(said="v\t1 2", version_pattern="v.*").version() == "v 1 2"


def test_a_foreign_check_that_cannot_be_is_refused() -> None:
    with pytest.raises(ReframeError, match=r"subjects is \['gpu'\]; allowed"):
        ForeignCheck.declare_figures(Foreign(subjects=["gpu"]))
    with pytest.raises(ReframeError, match="Check: wrong so"):
        ForeignCheck.declare_figures(Foreign(mistakes=lambda: iter(["wrong so"])))
    with pytest.raises(ReframeError, match="repetitions is 0; allowed: 1 or above"):
        ForeignCheck.expect_command(Foreign(repetitions=0))


@pytest.mark.parametrize(("status", "said", "written"), [
    (0, "", "finished"), (3, "{missing}", "waived for fio"), (1, "", None), (1, "{missing}", None),
])  # fmt: skip
def test_a_result_is_made_of_a_run_that_ended_well_and_a_waiver_of_a_missing_command(
    status: int, said: str, written: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    check = ForeignCheck.__new__(ForeignCheck)
    monkeypatch.setattr(JudgedCheck, "judgement", lambda self: "judged")
    for name, value in {
        "exit_status": lambda self: (status, None), "write_result": lambda self, made: found.append(made([])),
        "output_text": lambda self: said.format(missing="TENKEN-FOREIGN-MISSING fio"),
        "waived_document": lambda self, first: f"waived for {first}", "finished_document": lambda self: "finished",
    }.items():  # fmt: skip
        monkeypatch.setattr(ForeignCheck, name, value)
    assert check.judgement() == "judged" and found == ([written] if written else [])


@pytest.mark.parametrize(("option", "of_system", "exported", "named"), [
    ("", None, None, "fio"), ("", None, "/usr/b", "/usr/b"), ("", "/site/c", "/usr/b", "/site/c"),
    ("/own/d", "/site/c", "/usr/b", "/own/d"), ("/own/", None, None, "/own/fio"),
])  # fmt: skip
def test_which_of_the_names_of_a_program_is_taken(
    option: str, of_system: str | None, exported: str | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SITE_FIO", raising=False)
    if exported:
        monkeypatch.setenv("SITE_FIO", exported)
    system = SimpleNamespace(values=lambda _: {"SITE_FIO": of_system} if of_system else {})
    known = {"machine": SimpleNamespace(system=system), "named_by": "SITE_FIO", "usual_command": "fio"}
    assert NamedProgram.program_named(Stand(named_command=option, **known)) == named
    if not option.endswith("/"):
        assert OtherHpl.command(Stand(hpl_command=option, **known)) == named


@pytest.mark.parametrize(("p", "q", "each", "ranks"), [
    (2, 3, 3, (6, 3)), (2, 3, 0, (6, 6)), (1, 1, 0, (1, 1)), (2, 3, 4, None),
])  # fmt: skip
def test_an_hpl_of_others_has_a_rank_for_each_place_of_its_grid(
    p: int, q: int, each: int, ranks: tuple[int, int] | None
) -> None:
    check = Stand(hpl_p=p, hpl_q=q, hpl_ranks_per_node=each, implementation="xhpl", n=100, nb=10)
    if ranks is None:
        with pytest.raises(ReframeError, match="hpl_ranks_per_node 4: allowed: divisors of the 6 ranks"):
            OtherHpl.ask_for_repetitions(check)
        return
    OtherHpl.ask_for_repetitions(check)
    assert (check.num_tasks, check.num_tasks_per_node, check.uses_mpi) == (*ranks, p * q > 1)
    assert check.expected_parameters["grid"] == f"{p}x{q}" and check.expected_parameters["ranks"] == p * q


@pytest.mark.parametrize("check", [OtherHpl, HplMxpOther])
def test_the_document_of_an_hpl_of_others_is_of_the_problem_that_was_asked(check: Any) -> None:
    asked = Stand(hpl_p=2, hpl_q=3, n=1000, nb=100, num_tasks=6, implementation="xhpl", command=lambda: "xhpl a")
    made = check.made_of(asked, None, ["n1", "n2"])
    asked_for = {"n": 1000, "nb": 100, "grid": "2x3"}
    assert {key: made["parameters"][key] for key in asked_for} == asked_for
    assert (made["command"], made["host"]["name"], made["placement"]["nodes"]) == (["xhpl a"], "n1", ["n1", "n2"])
    assert made["placement"]["ranks"] == 6 and not made["metrics"]


@pytest.mark.parametrize(("command", "word", "refused"), [
    ("xhpl", "xhpl", ""), ("'/a b/xhpl' -x", "/a b/xhpl", ""), ("", "", "no command$"), ("'x", "", "no command line: "),
])  # fmt: skip
def test_the_program_that_a_command_starts(command: str, word: str, refused: str) -> None:
    if refused:
        with pytest.raises(ReframeError, match=f"^XHPL={command!r}: {refused}"):
            hpl.first_word(command, "XHPL")
    else:
        assert hpl.first_word(command, "XHPL") == word


@pytest.mark.parametrize(("missing", "wrong", "cut", "expected"), [
    (False, False, None, "judged"), (True, False, None, "judged"), (False, True, None, "FAIL"),
    (False, True, "the job was cut short", "judged"),
])  # fmt: skip
def test_an_output_of_hpl_that_is_none_fails_unless_the_job_was_cut_short(
    missing: bool, wrong: bool, cut: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[dict[str, Any]] = []

    def write_result(_: Any, made: Any) -> Any:
        found.append(made(["n1"]))
        return foreign.ForeignOutputError("no table") if wrong else None

    check = OtherHpl.__new__(OtherHpl)
    monkeypatch.setattr(JudgedCheck, "judgement", lambda self: "judged")
    for name, value in {
        "output_text": lambda self: "TENKEN-HPL-MISSING xhpl" if missing else "table", "write_result": write_result,
        "made_of": lambda self, text, nodes: {"text": text}, "printed": lambda self, text: text,
        "exit_status": lambda self: (0, cut), "where": lambda self: "n1", "command": lambda self: "xhpl",
    }.items():  # fmt: skip
        monkeypatch.setattr(OtherHpl, name, value)
    vars(check)["named_by"] = "XHPL"
    said = check.judgement()
    if expected == "FAIL":
        judgement, result, error, text = said
        assert (judgement.verdict, result, error, text) == ("FAIL", None, "no table", "table")
        assert judgement.message() == "n1: xhpl: no table"
    else:
        assert said == expected
    reason = {"status": "waived", "reason": "library missing: no xhpl (XHPL may name one)"}
    assert found == [{"text": None, **reason} if missing else {"text": "table"}]


def test_the_output_of_hpl_is_its_file_or_what_it_prints(tmp_path: Path) -> None:
    assert OtherHpl.printed(Stand(output_file=None), "said") == "said"
    check = Stand(output_file="HPL.out", stagedir=str(tmp_path))
    assert OtherHpl.printed(check, "said") == "", "what is printed besides is no result"
    (tmp_path / "HPL.out").write_text("table")
    assert OtherHpl.printed(check, "said") == "table"


def test_the_size_of_hpl_is_the_one_asked_for_or_that_of_the_mode() -> None:
    def size(asked: int, mode: str) -> int:
        return OtherHpl.n.fget(Stand(hpl_n=asked, tenken_mode=mode))

    assert size(0, "quick") < size(0, "nightly") == size(0, "acceptance")
    assert size(123, "quick") == size(123, "nightly") == 123
    assert OtherHpl.nb.fget(Stand(hpl_nb=64)) == 64


def test_a_rank_gets_its_share_of_the_cores_and_a_node_its_gpus() -> None:
    def placed(of: Any, **known: Any) -> tuple[Any, Any]:
        machine = SimpleNamespace(cores=known.get("cores", 8), gpus=4, gpu_resource=known.pop("resource", "gpu"))
        check = Stand(**{"cores": 8, "gpus": 4, "num_tasks_per_node": 2, "env_vars": {}, "machine": machine,
                         "uses_gpus": True, "on_gpus": True, "num_cpus_per_task": 1, "num_gpus_per_node": None,
                         **known})  # fmt: skip
        of(check)
        return check.num_cpus_per_task, check.num_gpus_per_node

    for of in (JudgedCheck.place_on_node, ForeignCheck.place_on_whole_node):
        assert placed(of) == (4, 4)
        assert placed(of, num_tasks_per_node=None) == (8, 4)
        assert placed(of, num_tasks_per_node=16) == (1, 4), "not none"
        assert placed(of, cores=0) == (1, 4), "as the scheduler gives them"
        assert placed(of, resource="") == (4, None)
        assert placed(of, uses_gpus=False, on_gpus=False) == (4, None)


def test_a_program_in_an_image_needs_a_partition_with_containers() -> None:
    machine = SimpleNamespace(partition=SimpleNamespace(containers=()))
    check = Foreign(machine=machine, image="fio.sif", current_partition=SimpleNamespace(name="gpu"))
    with pytest.raises(SkipTestError, match=r"^library missing: partition gpu has no `containers:` for fio\.sif$"):
        ForeignCheck.container(check)


def test_a_waived_result_names_the_command_that_is_missing_and_its_image() -> None:
    known: dict[str, Any] = {"program": "fio", "command": "fio x", "nodes": list, "expected_parameters": {}}
    known |= {"told": lambda: SimpleNamespace(commands=[]), "version": lambda: "7"}
    for image in ("", "fio.sif"):
        check = Foreign(image=image, **known)
        check.document_of = lambda *of, check=check: ForeignCheck.document_of(check, *of)
        made = ForeignCheck.waived_document(check, "fio")
        assert (made["status"], made["reason"]) == ("waived", "library missing: no command fio on the node")
        assert made.get("path", {}).get("image", "") == image
        check.needs = "python3 -c 'import x'"
        assert ForeignCheck.waived_document(check, check.needs)["reason"] == (
            "library missing: python3 -c 'import x' fails on the node"
        )
        check.waived_because = lambda _: "needs more GPUs: 1"
        assert check.finished_document()["reason"] == "needs more GPUs: 1"
        check.waived_because = lambda _: ""
        assert check.finished_document().get("status") != "waived"


@pytest.mark.parametrize(
    ("platform", "starts", "gpus"), [("Docker", "docker", False), ("Apptainer", "apptainer", True)]
)
def test_a_program_in_an_image_and_its_version_are_run_by_the_container_platform(
    platform: str, starts: str, gpus: bool
) -> None:
    offered = SimpleNamespace(platform=platform, options=["--net=host"], modules=["engine"])
    check = Foreign(
        machine=SimpleNamespace(partition=SimpleNamespace(containers=(offered,))), image="fio.sif", command="fio 'a b'",
        version_command="fio -v", repetitions=2, uses_mpi=gpus, on_gpus=gpus, stagedir="/s", modules=["mine"],
        prerun_cmds=["mine"], ranks_by_function=lambda: "mpirun -n 4",
    )  # fmt: skip
    check.platform = ForeignCheck.container(check)
    ForeignCheck.set_foreign_command(check)
    function, first, version, times, *words = shlex.split(check.executable)
    assert (function, first, times) == ("tenken_foreign", starts, "2") and check.modules == ["mine", "engine"]
    assert (words[:3] == ["mpirun", "-n", "4"]) == gpus and words[-3:] == ["sh", "-c", "fio 'a b'"]
    for run in (shlex.split(version), words):
        assert run[-4] == "fio.sif" and "--net=host" in run and ("--nv" in run) == gpus
    assert shlex.split(version)[-3:] == ["sh", "-c", "fio -v"]
    pulls = ["docker image inspect fio.sif > /dev/null 2>&1 || docker pull fio.sif"]
    assert check.prerun_cmds == ["mine", *([] if gpus else pulls)]
    check.version_command = ""
    ForeignCheck.set_foreign_command(check)
    assert shlex.split(check.executable)[2] == "true"


@pytest.mark.parametrize(("ranks", "command", "status", "said"), [
    (True, "./xhpl", 0, "launched\nroot may /v/mpi -x N"), (False, "./xhpl", 0, "root may none -x N"),
    (False, "./none", 3, "TENKEN-HPL-MISSING ./none"),
])  # fmt: skip
def test_another_hpl_is_run_or_named_as_missing(
    ranks: bool, command: str, status: int, said: str, tmp_path: Path
) -> None:
    program = tmp_path / "xhpl"
    program.write_text('echo "root ${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:+may} ${OPAL_PREFIX:-none} $1 $(cat HPL.dat)"\n')
    program.chmod(0o755)
    check = Stand(
        command=lambda: command, named_by="XHPL", options=lambda: "-x", input_file="HPL.dat", problem=lambda: "N",
        stagedir=str(tmp_path), uses_mpi=ranks, prerun_cmds=["launch() { echo launched; sh \"$@\"; }"],
        ranks_by_function=lambda: "launch",
    )  # fmt: skip
    OtherHpl.set_other_command(check)
    script = "\n".join([*check.prerun_cmds, check.executable])
    env = {"PATH": os.environ["PATH"], "VIRTUAL_ENV": "/v", "OPAL_PREFIX": "/v/mpi"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (status, said), done.stderr


# -- the build --


def test_programs_of_an_image_are_copied_out_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "image" / "bin").mkdir(parents=True)
    monkeypatch.setattr(build, "IMAGE_BUILT", str(tmp_path / "image"))
    for there in (True, False):
        made = tmp_path / str(there)
        made.mkdir()
        machine = SimpleNamespace(
            partition=SimpleNamespace(image="x"), image_modules=["engine"],
            in_image=lambda taken, *_, there=there: taken if there else f"false {taken}",
        )  # fmt: skip
        check = Stand(machine=machine, modules=["mine"], stagedir=str(made), build_system=SimpleNamespace())
        check.take_out_of_image = lambda check=check: build.BuildPrograms.take_out_of_image(check)
        build.BuildPrograms.set_commands(check)
        script = "\n".join(check.build_system.commands)
        done = subprocess.run(["sh", "-c", script], cwd=made, capture_output=True, text=True)
        assert (done.stdout, (made / "bin").is_dir()) == (f"{build._END} {0 if there else 1}\n", there)
        assert check.modules == ["mine", "engine"]


@pytest.mark.parametrize(("said", "installed", "says"), [
    ("{end} 0", True, ""), ("{end} 0", False, "the build installed no program"),
    ("{end} 2", True, "the build failed with exit status 2: last words"), ("", True, "the build was cut short: last"),
    (None, True, "the build did not run: lost"),
])  # fmt: skip
def test_a_build_is_good_by_its_own_exit_status_and_its_programs(
    said: str | None, installed: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    if installed:
        (tmp_path / "bin" / "stream").touch()
    outcome = SimpleNamespace(unseen="lost" if said is None else None, text=lambda: (said or "").format(end=build._END))
    monkeypatch.setattr(build, "Outcome", lambda *of, **known: outcome)
    monkeypatch.setattr(build, "known_nodes", lambda *of: ())
    check = Stand(build_job=SimpleNamespace(stdout="", stderr=""), stagedir=str(tmp_path), current_partition=None)
    check.last_words = lambda status: "last words"
    if not says:
        assert evaluate(build.BuildPrograms.programs_are_there(check))
        return
    with pytest.raises(SanityError, match=f"^{says}"):
        assert evaluate(build.BuildPrograms.programs_are_there(check))


@pytest.mark.parametrize(("mode", "n", "peaks", "times", "limit"), [
    # 2/3 n^3 at 60 % of eight GPUs' 67 TFLOP/s: 37.3 s each, and 100 s are there
    ("acceptance", 262_144, (34, 67), 2, "60m"), ("acceptance", 262_144, (34, None), 1, "60m"),
    ("acceptance", 100_000, (67, None), 5, "60m"), ("nightly", 262_144, (34, 67), 5, "60m"),
    ("acceptance", 1_000_000, (None, 67), 1, "104m"), ("acceptance", 1_000_000, None, 5, "60m"),
])  # fmt: skip
def test_hpl_on_all_gpus_is_solved_as_often_as_its_share_of_time_permits(
    mode: str, n: int, peaks: tuple[float | None, float | None] | None, times: int, limit: str
) -> None:
    sheet = peaks and SimpleNamespace(fp64_tflops=peaks[0], fp64_tensor_tflops=peaks[1])
    machine = SimpleNamespace(partition=SimpleNamespace(node=SimpleNamespace(gpu=sheet)))
    check = Stand(machine=machine, num_tasks=8, tenken_mode=mode, share_seconds=100.0, arguments={"repetitions": 5})
    check.expected_parameters = {"repetitions": 5}
    HplNode.solve_as_often_as_fits(check, n)
    assert check.arguments == check.expected_parameters == {"repetitions": times} and check.time_limit == limit


def asked(**changes: Any) -> Any:
    """The request of a check of this suite on four GPUs."""
    known = {
        "token": "t", "program": "stream", "display_name": "Stream %a=1", "subjects": ["gpu"], "metrics": None,
        "expected_parameters": {"n": 1}, "fault": "", "uses_mpi": False, "ours": True, "gpus": 4, "num_tasks": 8,
        "num_tasks_per_node": 2, "lists_gpus": True, "cores": 16, "given": {"n": 1}, "tenken_mode": "nightly",
        "revision_built": lambda: "abc", **changes,
    }  # fmt: skip
    return JudgedCheck.request(Stand(**known))


@pytest.mark.parametrize(("changes", "field", "value"), [
    ({}, "gpus", 4), ({"uses_mpi": True}, "gpus", 2), ({"uses_mpi": True, "num_tasks_per_node": None}, "gpus", 1),
    ({"uses_mpi": True, "gpus": None}, "gpus", None), ({"uses_mpi": True, "ours": False}, "gpus", 4),
    ({"lists_gpus": False}, "gpus", None), ({"gpus": 0}, "gpus", None), ({}, "cores", 16),
    ({"cores": 0}, "cores", None),
    ({}, "ranks", 8), ({}, "arguments", ("--n", "1")), ({"ours": False}, "arguments", ()),
    ({"ours": False}, "foreign", True),
    ({}, "foreign", False), ({}, "mode", "nightly"), ({}, "sections", ("locks", "load")), ({}, "revision", "abc"),
    ({"revision_built": lambda: None}, "sections", ()), ({}, "metrics", None), ({"metrics": ["a"]}, "metrics", ("a",)),
    ({}, "parameters", {"n": 1}), ({"fault": "bit"}, "parameters", {"n": 1, "inject_fault": "bit"}),
    ({}, "check", "Stream %a=1"), ({}, "subjects", ("gpu",)), ({}, "token", "t"), ({}, "program", "stream"),
])  # fmt: skip
def test_a_request_states_what_a_result_must_have(changes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(asked(**changes), field) == value


def case_of(job: Any, told: str = "", **more: Any) -> Any:
    """The record of a case on a partition with a scheduler."""
    check = Stand(
        job=job, tenken_mode="quick", display_name="Stream %a=1", program="stream", subjects=["gpu"],
        output_text=lambda: "TENKEN-ROOT mpirun runs as root: x\n" * (told == "root"), pinned_nodes=lambda: ("n7",),
        told=lambda: base.joblines.report(told), nodes=lambda: ["n1", "n2"], own_parameters=lambda: {"a": 1},
        program_version=lambda: 3, **more,
    )  # fmt: skip
    check.outcome = lambda: SimpleNamespace(own_facts=lambda: {"attempts": 2}, digests=lambda: {"unsealed": "x"})
    partition = SimpleNamespace(
        fullname="sys:gpu", name="gpu", scheduler=SimpleNamespace(registered_name="tenken-slurm"), access=[]
    )
    return JudgedCheck.record(check, base.verdict.failed("no"), partition, SimpleNamespace(name="cuda"))


def test_a_record_has_what_is_known_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEN_SESSION", "night")
    job = SimpleNamespace(jobid=7, state="COMPLETED", exitcode=3, scheduler_facts={"run_count": 1})
    found = case_of(job, "root")
    assert (found.session, found.system, found.partition, found.environ, found.mode) == (
        "night",
        "sys",
        "gpu",
        "cuda",
        "quick",
    )
    assert (found.check, found.base_check, found.program, found.program_version) == (
        "Stream %a=1",
        "Stand",
        "stream",
        3,
    )
    assert (found.nodes, found.subjects, found.parameters) == (("n1", "n2"), ("gpu",), {"a": 1})
    assert (found.job.scheduler, found.job.id, found.job.state, found.job.exit_code) == (
        "tenken-slurm",
        "7",
        "COMPLETED",
        3,
    )
    assert found.job.facts == {"run_count": 1, "ran_as_root": True, "attempts": 2, "unsealed": "x"}
    plain = case_of(SimpleNamespace(jobid=7, state=None, exitcode=None))
    assert plain.job.facts == {"attempts": 2, "unsealed": "x"} and plain.job.state is None
    monkeypatch.delenv("TENKEN_SESSION")
    never = case_of(SimpleNamespace(jobid=None, state=None, exitcode=None, nodelist=None, pin_nodes=[], sched_access=[],
                                    options=[], cli_options=[], scheduler_facts={"x": 1}), "root")  # fmt: skip
    assert (never.session, never.job.id, never.job.facts, never.nodes) == ("none", None, {}, ("n7",))
    none = case_of(None)
    assert (none.job.id, none.job.state, none.job.exit_code, none.nodes) == (None, None, None, ("n7",))


def test_a_session_is_begun_once_and_a_full_archive_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(base.archive, "check_writable", lambda root: None)
    monkeypatch.setattr(base.archive, "begin_session", lambda root, session, errors: begun.append(session))
    monkeypatch.setattr(base, "_BEGUN", set())
    for session in ("", "a", "a", "b"):
        monkeypatch.setenv("TENKEN_SESSION", session)
        JudgedCheck.refuse_a_broken_archive(Stand())
    assert begun == ["a", "b"]


@pytest.mark.parametrize(("subjects", "arguments", "one_by_one"), [
    (["gpu"], {"gpus": "all"}, True), (["gpu"], {"gpus": "all", "at-once": True}, False),
    (["gpu"], {"gpus": "0"}, False),
    (["host"], {"gpus": "all"}, False), (["gpu"], {}, False),
])  # fmt: skip
def test_gpus_are_measured_one_by_one_unless_all_are_at_once(subjects: Any, arguments: Any, one_by_one: bool) -> None:
    assert JudgedCheck.one_by_one.fget(Stand(subjects=subjects, arguments=arguments)) == one_by_one


@pytest.mark.parametrize(("mode", "at_once", "systems"), [
    ("quick", True, ["+gpus2", "+cuda +gpus2"]), ("quick", False, ["* -gpus2", "+cuda -gpus2"]),
    ("acceptance", False, ["* -gpus2", "+cuda -gpus2"]), ("nightly", False, ["*", "+cuda"]),
    ("nightly", True, ["+gpus2", "+cuda +gpus2"]),
])  # fmt: skip
def test_short_modes_measure_all_gpus_at_once(mode: str, at_once: bool, systems: list[str]) -> None:
    check = Stand(tenken_mode=mode, valid_systems=["*", "+cuda"])
    JudgedCheck.one_by_one_or_at_once(check, at_once)
    assert check.valid_systems == systems


@pytest.mark.parametrize(("minutes", "gpus", "mode", "by", "size"), [
    (0, 8, "acceptance", 1.0, "acceptance"), (22.5, 8, "acceptance", 0.5, "acceptance"),
    (22, 8, "acceptance", 22 / 45, "quick"),
    (15, 2, "acceptance", 0.5, "acceptance"), (14, None, "acceptance", 14 / 30, "quick"), (1, 2, "quick", 1.0, "quick"),
])  # fmt: skip
def test_less_than_half_of_the_time_takes_problems_of_mode_quick(minutes, gpus, mode, by, size) -> None:
    check = Stand(tenken_mode=mode, tenken_minutes=minutes, machine=SimpleNamespace(gpus=gpus))
    check.of_usual_time = JudgedCheck.of_usual_time.fget(check)
    assert check.of_usual_time == pytest.approx(by) and JudgedCheck.size_mode.fget(check) == size
    assert JudgedCheck.shortened.fget(check) == (by < 1)
