"""What contradicts a waiver, and what a record is judged by again: exact sentences, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import rejudge, waivers
from tenken.model.job import JobAccount
from tenken.model.judgement import Criterion, Finding, JudgedMetric, Judgement, Limit
from tenken.model.machine import Machine
from tests.unit.judge.test_healthy import kept_runs

NO_DEVICE = "not supported by the device: no device"
FP8 = "not supported by the device: FP8"
FILES = "not supported by the file system: O_DIRECT"
NAMELESS = "the result does not name the file system"


def gpus(*managed: bool) -> list[Any]:
    return [SimpleNamespace(index=i, managed_memory=one, pageable_memory_access=None) for i, one in enumerate(managed)]


@pytest.mark.parametrize(("reason", "changes", "says"), [
    ("no managed memory: 0", {"devices": gpus(True, True)}, "managed_memory of GPU 0, GPU 1 is true"),
    ("no managed memory: 0", {"devices": gpus(True, False)}, ""), ("no managed memory: 0", {"devices": []}, ""),
    ("needs two GPUs: 1", {"devices": gpus(False, False)}, "the result lists 2 GPUs"),
    ("needs two GPUs: 1", {"devices": gpus(False)}, ""),
    ("needs two GPUs: 1", {"gpus": 2}, "the system file claims 2 GPUs"), ("needs two GPUs: 1", {"gpus": 1}, ""),
    ("needs more ranks: 4 needed, 2 given", {}, ""),
    ("needs more ranks: 4 needed, 4 given", {}, "4 are available and 4 are needed"),
    ("needs more ranks: 4 needed", {}, "it does not state the number needed and the number available"),
    ("library missing: x", {}, "the program prog can be waived only for a lack of: nothing"),
    ("library missing: LibFoo.so.1", {"libraries": ["libfoo", "libbar"]}, ""),
    ("library missing: x", {"libraries": ["libfoo", "libbar"]},
     "the program prog can be waived only for a lack of: libfoo, libbar"),
    (NO_DEVICE, {}, ""), (NO_DEVICE, {"features": {"cuda"}}, "the system file claims 'cuda'"),
    (NO_DEVICE, {"gpus": 3}, "3 GPUs are requested"),
    ("not supported by the device: there is No GPU", {"gpus": 3}, "3 GPUs are requested"),
    (FP8, {}, ""), (FP8, {"features": {"cuda"}}, "the result lists no GPU to which it could apply"),
    (FP8, {"gpus": 1}, "the result lists no GPU to which it could apply"),
    (FP8, {"gpus": 1, "devices": gpus(True)}, ""),
    (FILES, {}, NAMELESS), (FILES, {"file_system": "ext4"}, ""),
    (FP8, {"metrics": [1, 2]}, "the result contains 2 metrics: it was measured"),
])  # fmt: skip
def test_a_waiver_is_contradicted_by_what_is_there(reason: str, changes: dict[str, Any], says: str) -> None:
    result: Any = SimpleNamespace(**{
        "reason": reason, "devices": [], "metrics": [], "path": {}, "file_system": "", "node": "n1",
        **{key: changes[key] for key in ("devices", "metrics", "file_system") if key in changes},
    })  # fmt: skip
    program: Any = SimpleNamespace(name="prog", contract=SimpleNamespace(libraries=changes.get("libraries", [])))
    request: Any = SimpleNamespace(gpus=changes.get("gpus"))
    machine = Machine(features=frozenset(changes.get("features", ())))
    assert waivers._against(result, program, request, machine) == (f"{reason}, but {says}" if says else "")
    made = waivers.judge(result, program, request, machine)
    assert made.verdict == ("FAIL" if says else "WAIVED") and len(made.structural) == bool(says)
    assert [one.kind for one in made.findings] == ["waiver" if says else ""]


def test_what_a_program_did_contradicts_that_it_cannot() -> None:
    found = [(reason, key, said) for reason, keys in waivers.EVIDENCE.items() for key, said in keys]
    assert found
    for reason, key, said in found:
        detail = key if reason == "not supported by the file system" else "x"
        result: Any = SimpleNamespace(
            reason=f"{reason}: {detail}", devices=[], metrics=[], path={f"{key}.gpu0": said}, file_system="ext4"
        )
        program: Any = SimpleNamespace(name="prog", contract=SimpleNamespace(libraries=["x"]))
        request: Any = SimpleNamespace(gpus=None)
        shown = str(said).lower() if isinstance(said, bool) else said
        proof = waivers._proof(reason, detail, result, program, request, Machine())
        assert proof == f"path {key}.gpu0 is {shown}", (reason, key)
        result.path = {f"{key}.gpu0": "something else"}
        assert waivers._proof(reason, detail, result, program, request, Machine()) == ""


# ---- judging again


RECORD = kept_runs()["Daxpy"]


def again_of(facts: rejudge.JobFacts | None = None, **changes: Any) -> tuple[str, str]:
    found = rejudge.of_record(replace(RECORD, **changes), job=facts)
    return found.verdict, found.message()


def facts(**found: Any) -> Any:
    return replace(RECORD.job, facts=found)


def test_a_record_without_a_usable_job_is_judged_by_what_its_job_left() -> None:
    node = RECORD.nodes[0]
    kind, said = again_of(rejudge.JobFacts(state="TIMEOUT", nodes=("a", "b")))
    assert (kind, said) == ("FAIL", "a,b: the job did not run to its end: state TIMEOUT")
    kind, said = again_of(job=facts(lost="crash"))
    assert kind == "INVALID" and said.startswith(f"{node}: the scheduler lost the job")
    kind, said = again_of(result=None, result_error="no file")
    assert (kind, said) == ("FAIL", f"{node}: daxpy: no file")
    assert again_of(result=None, result_error=None)[1] == f"{node}: daxpy: the run left no result"


@pytest.mark.parametrize(("reason", "verdict", "expected"), [
    ("needs two GPUs: 1", "WAIVED", "WAIVED"), ("needs two GPUs: 1", "FAIL", "FAIL"),
    ("did not feel like it", "WAIVED", "FAIL"),
])  # fmt: skip
def test_a_check_that_was_waived_at_set_up_stays_waived_for_a_listed_reason(
    reason: str, verdict: str, expected: str
) -> None:
    judgement = Judgement(verdict, (Finding(verdict, f"n1: {reason}"),))
    assert again_of(result=None, result_error=None, judgement=judgement)[0] == expected


def test_names_of_a_job_are_those_of_its_nodes_and_hosts() -> None:
    job = rejudge.job_of(replace(RECORD, nodes=("n1.site",), job=facts(hosts=["Host-a.x"])))
    assert (job.nodes, job.hosts) == (("n1.site",), ("Host-a.x",))
    held = job.held()
    assert held is not None and held.nodes == {"n1", "host-a"}
    assert (
        rejudge.job_of(replace(RECORD, job=facts(hosts="x"))).hosts == ()
        and rejudge.JobFacts(hosts=("x",)).held() is None
    )
    account = JobAccount(frozenset({"z"}))
    assert rejudge.JobFacts(nodes=("n1",), account=account).held() is account


def test_a_record_is_compared_with_what_it_was_archived_with() -> None:
    assert RECORD.result is not None
    one = RECORD.result.metrics[0]
    other = replace(one, id="other")
    archived = replace(RECORD, result=replace(RECORD.result, metrics=(one, other)))
    reference = Criterion("reference", 5.0, 4.0, None, one.unit, "best", "x")
    sheet, run = (Limit(9.0, one.unit, basis, "result") for basis in ("data sheet: H100", "measured: here"))

    def judged(criterion: Any, limit: Limit) -> JudgedMetric:
        return JudgedMetric("PASS", 1.0, one.unit, "higher", "best", criterion, limit, None, (None, None))

    def machine(**values: JudgedMetric) -> Machine:
        named = {metric.id: values[name] for name, metric in (("one", one), ("other", other)) if name in values}
        return rejudge.as_archived(replace(archived, judgement=Judgement("PASS", judged=named)))

    made = machine(one=judged(reference, sheet), other=judged(replace(reference, kind="floor"), run))
    assert [(limit.value, limit.said_by) for limit in made.limits.values()] == [(9.0, "data sheet")]
    assert made.criterion(RECORD.result, one) == reference and made.criterion(RECORD.result, other) is None
    assert machine(one=judged(None, run)).limits == {} == machine(one=judged(None, Limit(None, unknown="x"))).limits
    unknown = replace(archived, program="removed", judgement=Judgement("PASS", judged={one.id: judged(None, sheet)}))
    assert list(rejudge.as_archived(unknown).limits) == [("", one.kind)]


def test_a_record_without_a_request_is_held_against_what_it_states() -> None:
    assert RECORD.result is not None
    names, kinds = ({getattr(m, key) for m in RECORD.result.metrics} for key in ("name", "kind"))
    request = rejudge._request_of(replace(RECORD, version="tenken-record/1", subjects=(), mode="quick"), RECORD.result)
    assert (request.program, request.check, request.mode, request.token) == ("daxpy", RECORD.check, "quick", None)
    assert set(request.metrics or ()) == names and set(request.subjects) == kinds
    stated = rejudge._request_of(
        replace(RECORD, version="tenken-record/2", subjects=("host",), program=""), RECORD.result
    )
    assert (stated.metrics, stated.subjects, stated.program) == (None, ("host",), "daxpy")
    failed = rejudge._request_of(replace(RECORD, version="tenken-record/1"), replace(RECORD.result, status="failed"))
    assert failed.metrics is None


def test_the_request_of_a_record_is_what_its_result_must_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a request is held against the record; a bare result against its own command."""
    seen: list[Any] = []
    passed = Judgement("PASS")
    monkeypatch.setattr(rejudge.verdict, "judge", lambda result, declared, request, *of: seen.append(request) or passed)
    assert RECORD.result is not None
    result = replace(RECORD.result, command=("daxpy", "--n", "8", "--json", "f"))
    asked = rejudge.Request("t", "daxpy", "Daxpy", ("host",))
    for request in (asked, None):
        rejudge.of_record(replace(RECORD, result=result, request=request, check="Mine"))
    assert seen[0] is asked and (seen[1].check, seen[1].arguments) == ("Mine", ("--n", "8"))
    bare = rejudge.of_result(result, None, Machine(), rejudge.JobFacts())
    assert bare.verdict == "RECORDED" and (seen[2].token, seen[2].arguments, seen[2].check) == (None, ("--n", "8"), "")
    assert rejudge.of_result(result, asked, Machine(), rejudge.JobFacts()).verdict == "PASS"
    for marked, says in ((None, "its result has 0"), (1, "its end mark has 1")):
        found = rejudge.of_result(result, asked, Machine(), rejudge.JobFacts("FAILED", 7, marked=marked))
        assert found.verdict == "FAIL" and found.message().endswith(says)
