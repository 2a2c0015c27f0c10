"""Values compared with a model of the same run: a point 30 % slower is named, healthy ones are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenken.commands.judge import machine_of
from tenken.judge import rejudge
from tenken.judge import verdict as judging
from tenken.machines import loader
from tenken.machines.facts import facts
from tenken.model.catalogue import program as catalogue
from tenken.model.judgement import Finding
from tenken.model.record import Record
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, PASS, RECORDED
from tests.support import kept
from tests.support.judging import related
from tools.criteria import slower


def sessions() -> Iterator[Record]:
    """Read when a test is run, not by each process that lists the tests."""
    for read in (
        kept.all_records, kept.first_runs, kept.user_run, kept.two_cards, kept.quick_run, kept.acceptance,
        kept.two_quick, kept.one_card, kept.two_clean,
    ):  # fmt: skip
        yield from read()


def one_of(program: str, name: str, session: str = "") -> Result:
    return next(
        r.result for r in sessions()
        if r.program == program and r.result is not None and session in r.session
        and any(m.name == name and m.kind != "host" for m in r.result.metrics)
    )  # fmt: skip


def with_one(result: Result, changed: MetricValue) -> Result:
    return replace(result, metrics=tuple(changed if m.id == changed.id else m for m in result.metrics))


def of(result: Result) -> list[Finding]:
    return related(result)[0]


def held(result: Result, name: str) -> list[MetricValue]:
    bounds = related(result)[1]
    return [m for m in result.metrics if m.name == name and m.id in bounds]


def test_no_value_of_a_healthy_run_misses_its_model() -> None:
    """Of 1,000 values of file benchmarks one is undecided."""
    runs = [r.result for r in sessions() if r.result is not None and r.verdict in (PASS, RECORDED)]
    both = [related(result, "quick") for result in runs]
    assert sum(len(bounds) for _, bounds in both) >= 400
    assert not [f.message for found, _ in both for f in found if f.verdict == FAIL]


@pytest.mark.parametrize(
    ("program", "name"), [("transfer", "dtoh_sweep"), ("p2p", "peer_by_size"), ("p2p", "read_time")]
)
def test_a_slow_point_between_healthy_ones_is_named_alone(program: str, name: str) -> None:
    result = one_of(program, name)
    inner = held(result, name)
    assert len(inner) >= 4
    for metric in inner:
        (finding,) = of(with_one(result, slower(metric)))
        assert (finding.verdict, finding.metric) == (FAIL, metric.id)
        assert "time grows by one latency and one bandwidth" in finding.message and "is required" in finding.message


def test_the_ends_of_a_sweep_and_sweeps_that_change_their_protocol_are_not_held() -> None:
    result = one_of("p2p", "peer_by_size")
    sweep = sorted((m for m in result.metrics if m.name == "peer_by_size"), key=lambda m: int(m.at["bytes"]))
    assert {metric.id for metric in held(result, "peer_by_size")} == {m.id for m in sweep[1:-1]}
    assert not held(one_of("mpi_p2p", "latency"), "latency")


def test_sizes_of_a_transfer_are_held_but_for_those_of_two_rates() -> None:
    """Of copies of 16 MiB to the GPU half of the samples are slower by a third in some healthy runs."""
    result = one_of("transfer", "dtoh_sweep")
    for name, below in (("dtoh_sweep", 2**40), ("htod_sweep", 2**23)):
        sizes = {m.id for m in result.metrics if m.name == name and int(m.at["bytes"]) < below}
        assert len(sizes) >= 6 and {m.id for m in held(result, name)} == sizes


@pytest.mark.parametrize(("mode", "why"), [("none", "steps x step time"), ("writer", "waits for its snapshots")])
def test_a_loop_is_held_by_its_steps_and_by_the_loop_that_waits(mode: str, why: str) -> None:
    result = one_of("overlap", "loop")
    loop = next(m for m in result.metrics if m.name == "loop" and m.at["mode"] == mode)
    factor = 1.12 if mode == "none" else 2.0
    longer = replace(loop, value=loop.value * factor, samples=tuple(factor * one for one in loop.samples))
    (finding,) = of(with_one(result, longer))
    assert finding.metric == loop.id and why in finding.message
    assert not of(with_one(result, replace(loop, value=loop.value * 1.05)))


@pytest.mark.parametrize(
    ("passes", "factor", "named"),
    [(1, 3.0, False), (1, 0.7, False), (1, 0.5, True), (2, 1.4, False), (2, 1.5, True), (2, 0.72, False)],
)
def test_a_step_of_few_passes_may_be_longer_or_shorter_than_requested(passes: int, factor: float, named: bool) -> None:
    """A slow GPU makes one or two passes over the state per step: whole passes are rounded."""
    result = one_of("overlap", "loop")
    loop = next(m for m in result.metrics if m.name == "loop" and m.at["mode"] == "none")
    path = {**result.path, f"passes_of_a_step.{loop.subject.id}": passes}
    steps, step_ms = (float(result.parameters[name]) for name in ("steps", "step_ms"))
    run = replace(result, path=path, metrics=(replace(loop, value=factor * steps * step_ms / 1e3),))
    assert [f.metric for f in of(run)] == ([loop.id] if named else [])


@pytest.mark.parametrize(("gain", "named"), [(0.89, True), (0.91, False)])
def test_overlapping_that_is_slower_than_waiting_fails_on_a_gpu(gain: float, named: bool) -> None:
    result = one_of("overlap", "gain")
    metric = next(m for m in result.metrics if m.name == "gain" and m.kind == "gpu")
    found = of(with_one(result, replace(metric, value=gain, samples=(gain,))))
    assert [f.metric for f in found] == ([metric.id] if named else [])
    host = next(r.result for r in sessions() if r.check == "OverlapHost" and r.result is not None)
    slow = replace(next(m for m in host.metrics if m.name == "gain"), value=0.5)
    assert not of(with_one(host, slow))  # those of a host depend on its load


@pytest.mark.parametrize("name", ["loop", "gain"])
@pytest.mark.parametrize(("rounds", "verdict"), [((0.4, 0.5, 0.6), FAIL), ((0.4, 0.5, 1.1), RECORDED)])
def test_overlapping_that_some_rounds_prove_fast_enough_is_undecided(
    name: str, rounds: tuple[float, ...], verdict: str
) -> None:
    """The rate of a file system varies more between three rounds than the bound permits. `rounds`: gains."""
    result = one_of("overlap", "gain")
    serial = next(m for m in result.metrics if m.name == "loop" and m.at["mode"] == "serial").value
    metric = next(m for m in result.metrics if m.name == name and m.at["mode"] == "writer" and m.kind == "gpu")
    samples = rounds if name == "gain" else tuple(serial / gain for gain in rounds)
    changed = replace(metric, value=samples[1], median=samples[1], samples=samples, count=3)
    (finding,) = of(with_one(result, changed))
    assert (finding.verdict, finding.metric) == (verdict, metric.id)
    assert ("undecided: 1 of 3 rounds" in finding.message) == (verdict == RECORDED)


def test_the_judgement_shows_the_model_as_criterion_and_fails_by_it() -> None:
    record = next(r for r in sessions() if r.check == "OverlapCuda" and r.mode == "quick" and r.request is not None)
    assert rejudge.of_record(record, machine_of(None, record)).verdict == RECORDED
    system = loader.load("h200").expand({}, strict=False)
    machine = facts(system, system.partitions["gpu"], system.environments["cuda"])
    assert record.result is not None and record.request is not None
    gain = next(m for m in record.result.metrics if m.name == "gain")
    for share, expected in ((1.0, PASS), (0.6, FAIL)):
        changed = replace(
            gain, value=gain.value * share, best=gain.best * share, median=gain.median * share, p5=gain.p5 * share,
            p95=gain.p95 * share, samples=tuple(one * share for one in gain.samples),
        )  # fmt: skip
        judged = judging.judge(
            with_one(record.result, changed), catalogue("overlap"), record.request, machine, None
        )  # fmt: skip
        assert judged.judged[gain.id].verdict == expected
        criterion = judged.judged[gain.id].criterion
        assert criterion is not None and (criterion.kind, criterion.low) == ("relation", 0.9)
