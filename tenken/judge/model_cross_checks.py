"""Values compared with a model of the same run: sweeps by latency and bandwidth, overlapping loops by their parts.

All functions are pure. `tools/criteria.py` counts the values that they cover; docs/criteria.md has the number of kept
values on which they were tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from tenken.judge.criteria import UNSTEADY, miss
from tenken.model.judgement import FLOOR, Criterion, Finding
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import INVALID

#: Metrics whose time grows with a size by one latency and one bandwidth: copies by one path. Metrics with a
#: size-dependent protocol (staging through the host, MPI, NCCL, small copies to a GPU) are up to twice the line: none.
LINES = {
    "p2p": ("peer_by_size", "peer_time", "read_by_size", "read_time", "write_by_size", "write_time"),
    "transfer": ("dtoh_sweep",),
}
#: Maximum excess of a point over the line through the two adjacent sizes: at most 5 % on H200.
ABOVE_LINE = 1.25
#: Tolerance of the time of the loop without snapshots relative to steps x step time: 0.993 to 1.002 on H200.
ABOVE_STEPS = 1.10
#: The same below: the steps of a GPU were calibrated in the same run.
BELOW_STEPS = 0.85
#: Minimum gain of a loop with overlapped snapshots over the one that waits: 0.99 to 1.52 on H200 and H100.
OF_SERIAL = 0.90


def held(result: Result) -> Iterator[tuple[MetricValue, Criterion]]:
    """Values and the requirements of their run's model."""
    yield from _lines(result)
    if result.program == "overlap":
        yield from _loops(result)


def of(result: Result) -> list[Finding]:
    """Values that miss the model of their own run."""
    found = []
    for metric, required in held(result):
        low, high = required.low, required.high
        bound = low if low is not None and metric.value < low else high
        if bound is None or (bound == high and metric.value <= bound):
            continue
        text = (
            f"{result.node} {metric.place}: {metric.id} = {metric.value:.4g} {metric.unit}: {required.source}; at "
            f"{'least' if bound == low else 'most'} {bound:.4g} {metric.unit} is required"
        )
        found.append(_of_noise(metric, bound, miss(result, metric, text, metric.value, bound, "cross-check")))
    return found


def _of_noise(metric: MetricValue, bound: float, finding: Finding) -> Finding:
    """INVALID in place of a loop with snapshots that some of its rounds prove as fast as required: the rate of a file
    system decides it, and three rounds on a healthy machine with one H200 took 0.34, 0.40 and 0.43 s.
    """
    good = [sample for sample in metric.samples if (sample <= bound) == (metric.direction == "lower")]
    if metric.name not in ("loop", "gain") or metric.at.get("mode") == "none" or not good:
        return finding
    text = f"{finding.message}; undecided: {len(good)} of {metric.count} rounds reach it, the file system varies"
    return replace(finding, verdict=INVALID, message=text, kind=UNSTEADY)


def floors(result: Result) -> dict[str, Criterion]:
    """The criteria of `held` by the ids of the values."""
    return {metric.id: required for metric, required in held(result)}


def _lines(result: Result) -> Iterator[tuple[MetricValue, Criterion]]:
    """Each inner point of a sweep, with the line through the adjacent sizes."""
    sweeps: dict[tuple[object, ...], dict[int, MetricValue]] = {}
    for metric in result.metrics:
        size = metric.at.get("bytes")
        if metric.name in LINES.get(result.program, ()) and isinstance(size, int) and size > 0 and metric.value > 0:
            rest = tuple(sorted((key, str(value)) for key, value in metric.at.items() if key != "bytes"))
            sweeps.setdefault((metric.name, metric.subject, rest), {})[size] = metric
    for sweep in sweeps.values():
        sizes = sorted(sweep)
        for (before, size), after in zip(pairwise(sizes), sizes[2:], strict=False):
            first, metric, last = sweep[before], sweep[size], sweep[after]
            part = (size - before) / (after - before)
            seconds = _time(first, before) * (1 - part) + _time(last, after) * part
            line = size / seconds if metric.unit == "GB/s" else seconds
            text = f"latency and bandwidth between {before} and {after} bytes of this run give {line:.4g} {metric.unit}"
            if metric.direction == "higher":
                yield metric, _criterion(metric, line, line / ABOVE_LINE, None, text)
            else:
                yield metric, _criterion(metric, line, None, line * ABOVE_LINE, text)


def _time(metric: MetricValue, size: int) -> float:
    return size / metric.value if metric.unit == "GB/s" else metric.value


def _loops(result: Result) -> Iterator[tuple[MetricValue, Criterion]]:
    """Loops of a GPU's steps: without snapshots as long as their steps, with overlap no longer than without."""
    steps, step_ms = (result.parameters.get(name) for name in ("steps", "step_ms"))
    loops = {(m.subject, m.at.get("mode")): m for m in result.metrics if m.name == "loop" and m.kind == "gpu"}
    for (subject, mode), metric in loops.items():
        serial = loops.get((subject, "serial"))
        if mode == "none" and isinstance(steps, int) and isinstance(step_ms, (int, float)) and steps * step_ms > 0:
            whole = steps * step_ms / 1e3
            text = f"{steps} steps of {step_ms:g} ms"
            fewer, more = _rounded(result.path.get(f"passes_of_a_step.{subject.id}"))
            high = None if more is None else whole * more * ABOVE_STEPS
            yield metric, _criterion(metric, whole, whole * fewer * BELOW_STEPS, high, text)
        elif mode not in ("none", "serial") and serial is not None:
            text = f"the loop that waits for its snapshots takes {serial.value:.4g} {serial.unit}"
            yield metric, _criterion(metric, serial.value, None, serial.value / OF_SERIAL, text)
    for metric in result.metrics:
        if metric.name == "gain" and metric.kind == "gpu":
            text = "1 is the loop that waits for its snapshots"
            yield metric, _criterion(metric, 1.0, OF_SERIAL, None, text)


def _rounded(passes: object) -> tuple[float, float | None]:
    """Shortest and longest step relative to the requested one if it is formed of so many whole passes; None: one pass
    may take longer than any step.
    """
    if not isinstance(passes, int) or passes < 1:
        return 1.0, 1.0
    return passes / (passes + 0.5), passes / (passes - 0.5) if passes > 1 else None


def _criterion(metric: MetricValue, value: float, low: float | None, high: float | None, text: str) -> Criterion:
    return Criterion(FLOOR, value, low, high, metric.unit, metric.statistic, text)
