"""Values of files compared with each other: criteria for snapshot_io and storage_map without a reference.

All functions are pure; each returns findings with the node, the location and the basis of comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tenken.judge.criteria import miss
from tenken.model.judgement import FLOOR, Criterion, Finding
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID

#: Minimum rate of the hyperslab layout, packed by a GPU kernel, relative to the layout as is, by the same method.
OF_ASIS = 0.90
#: Minimum rate of a choice by a map of an earlier run relative to the best single method, per size and situation.
OF_BEST = 0.95
#: Minimum rate of a cached file to the GPU relative to the slower of the link and the same threads without the GPU.
OF_SLOWER_HALF = 0.80
#: The median of the pairs is beyond either end of the reported interval with this probability.
OPEN = 0.005
#: A failure is proven if its probability is below this: with many methods, sizes and evaluations some exceed the bound
#: by chance.
SURELY = 0.00005


def _short(result: Result, metric: MetricValue, text: str, bound: float) -> Finding:
    where = f"{result.node} {metric.place}"
    at = ", ".join(f"{key} {value}" for key, value in sorted(metric.at.items()))
    message = f"{where}: {metric.name} ({at}) = {metric.value:.3g}: {text}; at least {bound} is required"
    return miss(result, metric, message, metric.value, bound, "cross-check")


def interval(samples: Sequence[float], beyond: float) -> tuple[float, float]:
    """The interval of the median, by signs only: beyond either end with at most probability `beyond` (exact binomial).

    If there are too few samples for that, the minimum and the maximum.
    """
    ordered = sorted(samples)
    count = len(ordered)
    tail, each = 0, 0
    while 2 * (each + 1) <= count:
        tail += math.comb(count, each)
        if tail > beyond * 2**count:
            break
        each += 1
    from_end = max(each, 1) - 1
    return ordered[from_end], ordered[count - 1 - from_end]


def enough(samples: Sequence[float]) -> bool:
    """Whether this many samples can prove that their median is below a bound: fifteen can."""
    return 0.5 ** len(samples) <= SURELY


def surely_below(samples: Sequence[float], bound: float) -> bool:
    """Whether the median is below a bound with confidence. Fewer than fifteen samples are never sufficient."""
    return enough(samples) and interval(samples, SURELY)[1] < bound


def _behind(result: Result, metric: MetricValue, bound: float, what: str) -> list[Finding]:
    """Nothing if the median of the pairs reaches the bound. Otherwise a failure if they prove that the true one does
    not, and an invalid measurement if their noise leaves it open: neither a proof nor a pass.
    """
    if metric.value >= bound:
        return []
    low, high = interval(metric.samples, OPEN)
    rounds = f"in {metric.count} rounds, with 99 % confidence {low:.3g} to {high:.3g}"
    if surely_below(metric.samples, bound):
        return [_short(result, metric, f"{what} ({rounds})", bound)]
    found = _short(result, metric, f"undecided, the disk is too noisy for so few rounds ({rounds})", bound)
    return [replace(found, verdict=INVALID)]


def decisive(findings: list[Finding]) -> list[Finding]:
    """Proven failures remain, whatever else is undecided by noise."""
    return [finding for finding in findings if finding.verdict == FAIL] or findings


def slow_layouts(result: Result) -> list[Finding]:
    """Methods for which the hyperslab layout of a GPU's particles is slower than the layout as is."""
    return [
        finding
        for metric in result.metrics
        if metric.name.endswith("_hyperslab_over_asis") and metric.kind == "gpu"
        for finding in _behind(result, metric, OF_ASIS, "the hyperslab layout is slower than the layout as is")
    ]


def bad_choices(result: Result) -> list[Finding]:
    """Sizes and situations in which the choice by a map is slower than a single method.

    A choice that is slower than when the map was written does not prove a bad map, but a changed machine:
    invalid.
    """
    since = {
        (metric.place, *sorted(metric.at.items())): metric.value
        for metric in result.metrics
        if metric.name == "adaptive_over_map"
    }
    found = []
    for metric in result.metrics:
        if metric.name != "adaptive_over_best":
            continue
        of_map = since.get((metric.place, *sorted(metric.at.items())), 1.0)
        for finding in _behind(result, metric, OF_BEST, "the choice by the map is slower than the best single method"):
            if finding.verdict == FAIL and metric.value >= OF_BEST * of_map:
                changed = f"; it reaches {of_map:.3g} of its rate when the map was made: the machine has changed"
                finding = replace(finding, verdict=INVALID, message=finding.message + changed)
            found.append(finding)
    return found


def slow_reads(result: Result) -> list[Finding]:
    """GPUs to which no method through page-locked buffers reads a cached file as fast as the slower of its halves."""
    return [
        _short(result, metric, "of the slower of link and page cache, by the fastest method", OF_SLOWER_HALF)
        for metric in _fastest_reads(result)
        if metric.value < OF_SLOWER_HALF
    ]


def _fastest_reads(result: Result) -> Iterable[MetricValue]:
    """For each GPU the method by which a cached file comes nearest to the slower of its halves."""
    best: dict[int, MetricValue] = {}
    for metric in result.metrics:
        if metric.name == "pinned_read_over_least":
            gpu = metric.subject.first
            if gpu not in best or metric.value > best[gpu].value:
                best[gpu] = metric
    return best.values()


def layout_floors(result: Result) -> dict[str, Criterion]:
    """What `slow_layouts` requires of each ratio that has enough pairs to be proven below it."""
    return {
        metric.id: _floor(metric, OF_ASIS, "the layout as is, by the same method")
        for metric in result.metrics
        if metric.name.endswith("_hyperslab_over_asis") and metric.kind == "gpu" and enough(metric.samples)
    }


def choice_floors(result: Result) -> dict[str, Criterion]:
    """What `bad_choices` requires of each ratio that has enough pairs to be proven below it."""
    return {
        metric.id: _floor(metric, OF_BEST, "the best single method")
        for metric in result.metrics
        if metric.name == "adaptive_over_best" and enough(metric.samples)
    }


def read_floors(result: Result) -> dict[str, Criterion]:
    """What `slow_reads` requires of the fastest method of each GPU."""
    return {
        metric.id: _floor(metric, OF_SLOWER_HALF, "the slower of link and page cache, by the fastest method")
        for metric in _fastest_reads(result)
    }


def _floor(metric: MetricValue, bound: float, of: str) -> Criterion:
    return Criterion(FLOOR, 1.0, bound, None, metric.unit, metric.statistic, f"{100 * bound:.0f} % of {of}, same run")


def claimed_gds(result: Result, claimed: bool) -> list[Finding]:
    """GPUDirect Storage claimed by the system file but not used by cuFile: staging through the host is not GDS."""
    path = result.path
    how = path.get("cufile")
    if not claimed or how is None or how == "GPUDirect Storage":
        return []
    probe = path.get("cufile_probe", "not probed")
    message = f"{result.node}: cuFile: {how} ({probe}), but the system file claims 'gds'"
    return [Finding(FAIL, message, node=result.node, kind="cross-check")]
