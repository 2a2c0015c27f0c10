"""Figures of files held against each other: what a document of snapshot_io or storage_map says without a reference.

All functions are pure; each returns findings that name the node, the place and what it was held against.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tenken.document import Document, MetricValue
from tenken.verdict import FAIL, Finding

#: The hyperslab layout, packed by a kernel of the GPU, reaches so much of the layout as it is, by the same method.
OF_ASIS = 0.90
#: What a map of an earlier run chooses reaches so much of the best single way, for every size and situation.
OF_BEST = 0.95
#: A cached file reaches the GPU at so much of the slower of the link and the same threads without the GPU.
OF_SLOWER_HALF = 0.80


def _short(document: Document, metric: MetricValue, text: str, bound: float) -> Finding:
    where = f"{document.node} {metric.place}"
    at = ", ".join(f"{key} {value}" for key, value in sorted(metric.at.items()))
    message = f"{where}: {metric.name} ({at}) = {metric.value:.3g}: {text}; at least {bound} is wanted"
    return Finding(FAIL, message, metric.id, where, metric.value, metric.unit, bound, (bound - metric.value) / bound)


def surely_at_most(samples: Sequence[float]) -> float:
    """The upper end of the 95 % confidence interval of the median, by order statistics (normal approximation).

    Files share their device with whatever else runs: a median of few rounds below a bound proves nothing by itself.
    """
    ordered = sorted(samples)
    rank = math.ceil(len(ordered) / 2 + 1.96 * math.sqrt(len(ordered)) / 2)
    return ordered[min(rank, len(ordered) - 1)]


def _behind(document: Document, metric: MetricValue, bound: float, what: str) -> list[Finding]:
    most = surely_at_most(metric.samples)
    if metric.value >= bound or most >= bound:
        return []
    return [_short(document, metric, f"{what} (in {metric.count} rounds, surely at most {most:.3g})", bound)]


def slow_layouts(document: Document) -> list[Finding]:
    """Methods by which the hyperslab layout of a GPU's particles stays behind the layout as it is."""
    return [
        finding
        for metric in document.metrics
        if metric.name.endswith("_hyperslab_over_asis") and metric.kind == "gpu"
        for finding in _behind(document, metric, OF_ASIS, "the hyperslab layout is behind the layout as it is")
    ]


def bad_choices(document: Document) -> list[Finding]:
    """Sizes and situations in which the choice by a map is behind a single way."""
    return [
        finding
        for metric in document.metrics
        if metric.name == "adaptive_over_best"
        for finding in _behind(document, metric, OF_BEST, "the choice by the map is behind the best single way")
    ]


def slow_reads(document: Document) -> list[Finding]:
    """GPUs to which no way through page-locked buffers brings a cached file as fast as the slower of its halves."""
    best: dict[int, MetricValue] = {}
    for metric in document.metrics:
        if metric.name == "pinned_read_over_least":
            gpu = metric.subject["gpu"]
            if gpu not in best or metric.value > best[gpu].value:
                best[gpu] = metric
    return [
        _short(document, metric, "of the slower of link and page cache, by the fastest way", OF_SLOWER_HALF)
        for metric in best.values()
        if metric.value < OF_SLOWER_HALF
    ]


def claimed_gds(document: Document, promised: bool) -> list[Finding]:
    """GPUDirect Storage that the system file promises and cuFile does not do: a bounce through the host is no GDS."""
    path: Mapping[str, Any] = document.raw["path"]
    how = path.get("cufile")
    if not promised or how is None or how == "GPUDirect Storage":
        return []
    probe = path.get("cufile_probe", "not probed")
    message = f"{document.node}: cuFile: {how} ({probe}), but the system file promises 'gds'"
    return [Finding(FAIL, message, subject=document.node)]
