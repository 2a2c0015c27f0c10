"""Figures of files held against each other: what a document of snapshot_io or storage_map says without a reference.

All functions are pure; each returns findings that name the node, the place and what it was held against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tenken.judge.criteria import miss
from tenken.model.judgement import FLOOR, Criterion, Finding
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID

#: The hyperslab layout, packed by a kernel of the GPU, reaches so much of the layout as it is, by the same method.
OF_ASIS = 0.90
#: What a map of an earlier run chooses reaches so much of the best single way, for every size and situation.
OF_BEST = 0.95
#: A cached file reaches the GPU at so much of the slower of the link and the same threads without the GPU.
OF_SLOWER_HALF = 0.80
#: The median of the pairs lies beyond either end of the interval that is told with this probability.
OPEN = 0.005
#: A failure is proven when it lies beyond the bound with less than this: many ways, sizes and looks have a chance to be
#: beyond it by luck.
SURELY = 0.00005


def _short(result: Result, metric: MetricValue, text: str, bound: float) -> Finding:
    where = f"{result.node} {metric.place}"
    at = ", ".join(f"{key} {value}" for key, value in sorted(metric.at.items()))
    message = f"{where}: {metric.name} ({at}) = {metric.value:.3g}: {text}; at least {bound} is required"
    return miss(result, metric, message, metric.value, bound, "cross-check")


def interval(samples: Sequence[float], beyond: float) -> tuple[float, float]:
    """Where the median lies, by signs alone: beyond either end with a probability of at most `beyond` (exact binomial).

    Of so few samples that this cannot be the least and the largest.
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
    """Whether so many samples can prove that their median is below a bound: fifteen can."""
    return 0.5 ** len(samples) <= SURELY


def surely_below(samples: Sequence[float], bound: float) -> bool:
    """Whether the median surely is below a bound. Fewer than fifteen samples never are enough."""
    return enough(samples) and interval(samples, SURELY)[1] < bound


def _behind(result: Result, metric: MetricValue, bound: float, what: str) -> list[Finding]:
    """Nothing where the median of the pairs reaches the bound. Else a failure where they prove that the true one does
    not, and an invalid measurement where their noise leaves it open: that is no proof, but no pass either.
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
    """What is proven stands, whatever noise has left open beside it."""
    return [finding for finding in findings if finding.verdict == FAIL] or findings


def slow_layouts(result: Result) -> list[Finding]:
    """Methods by which the hyperslab layout of a GPU's particles stays behind the layout as it is."""
    return [
        finding
        for metric in result.metrics
        if metric.name.endswith("_hyperslab_over_asis") and metric.kind == "gpu"
        for finding in _behind(result, metric, OF_ASIS, "the hyperslab layout is slower than the layout as is")
    ]


def bad_choices(result: Result) -> list[Finding]:
    """Sizes and situations in which the choice by a map is behind a single way.

    A choice that is behind because it is itself slower than when the map was made proves no bad map, but a machine that
    is not the same: invalid.
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
    """GPUs to which no way through page-locked buffers brings a cached file as fast as the slower of its halves."""
    return [
        _short(result, metric, "of the slower of link and page cache, by the fastest method", OF_SLOWER_HALF)
        for metric in _fastest_reads(result)
        if metric.value < OF_SLOWER_HALF
    ]


def _fastest_reads(result: Result) -> Iterable[MetricValue]:
    """Of each GPU the way by which a cached file comes nearest to the slower of its halves."""
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
    """GPUDirect Storage that the system file claims and cuFile does not do: a bounce through the host is no GDS."""
    path = result.path
    how = path.get("cufile")
    if not claimed or how is None or how == "GPUDirect Storage":
        return []
    probe = path.get("cufile_probe", "not probed")
    message = f"{result.node}: cuFile: {how} ({probe}), but the system file claims 'gds'"
    return [Finding(FAIL, message, node=result.node, kind="cross-check")]
