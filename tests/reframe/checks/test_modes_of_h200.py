"""Runs of an H200 in modes other than quick: healthy ones are judged as healthy."""

from __future__ import annotations

from dataclasses import replace

from tenken.judge import rejudge
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED
from tests.support import kept


def test_no_healthy_run_of_any_mode_fails() -> None:
    records = kept.modes()
    judged = {(r.session, r.check): rejudge.of_record(r).verdict for r in records}
    assert len(judged) >= 110
    assert not {key for key, verdict in judged.items() if verdict in (FAIL, INVALID)}


def test_openacc_on_a_gpu_is_judged_as_kernels_of_the_compiler() -> None:
    """Neither floors nor spreads of our own kernels hold for those that gcc makes, but the peak of the memory does."""
    found = {r.check: r for r in kept.openacc() if r.session.endswith("0acc02")}
    assert {rejudge.of_record(r).verdict for r in kept.openacc() if "OpenACC" in r.check} == {RECORDED}
    stream = found["StreamOpenACC"]
    assert stream.verdict == FAIL and stream.result is not None
    for metric in stream.result.metrics:
        assert metric.kind == "gpu"
        (limit,) = {rejudge.of_record(stream).judged[metric.id].limit.value}
        assert limit == 4800
    faster = [replace(m, samples=tuple(1.6 * one for one in m.samples)) for m in stream.result.metrics]
    result = replace(stream.result, metrics=tuple(faster))
    assert rejudge.of_record(replace(stream, result=result)).verdict == FAIL


def test_make_run_as_user_and_as_root_stays_healthy() -> None:
    verdicts = [rejudge.of_record(r).verdict for r in kept.one_user()]
    assert len(verdicts) == 96 and set(verdicts) == {PASS, RECORDED, "WAIVED"}


def test_ten_trials_and_pinned_memory_are_judged_by_their_values() -> None:
    once = {r.check: r for r in kept.modes() if r.verdict == FAIL}
    assert len(once) == 3
    for check, record in once.items():
        assert rejudge.of_record(record).verdict == (PASS if "MemcopyGpu" in check else RECORDED)
