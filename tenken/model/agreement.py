"""Comparison of the stated statistics of all metrics of a result with their samples, at once where numpy is loaded.

A record of an archive has a dozen metrics of a hundred samples; sorting each by itself takes as long as reading it.
"""

from __future__ import annotations

import itertools
import math
import struct
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tenken.model.numbers import places

if TYPE_CHECKING:
    from tenken.model.result import MetricValue

#: Relative and absolute difference between a stated statistic and that of the samples: programs print nine digits.
RELATIVE, ABSOLUTE = 1e-6, 1e-12
#: Of fewer samples each metric is compared by itself in less time.
_FEW = 200
_QUANTILES = (0.5, 0.05, 0.95, 0.0, 1.0)
_MEDIAN, _P5, _P95, _FIRST, _LAST = range(5)


def numpy() -> Any:
    """numpy where it is loaded, as in the history; loading it takes as long as a thousand records."""
    return sys.modules.get("numpy")


def agreeing(metrics: Sequence[MetricValue]) -> frozenset[str]:
    """Ids of metrics whose statistics and count certainly agree with their samples; of the others
    `MetricValue.inconsistencies` finds out whether, and what, differs.
    """
    if numpy() is None or sum(len(metric.samples) for metric in metrics) < _FEW:
        return frozenset()
    sizes: dict[int, list[MetricValue]] = {}
    for metric in metrics:
        if metric.count == len(metric.samples) > 0:
            sizes.setdefault(metric.count, []).append(metric)
    return frozenset(itertools.chain.from_iterable(_of_size(count, some) for count, some in sizes.items()))


def _of_size(count: int, metrics: list[MetricValue]) -> Iterable[str]:
    """Of metrics with `count` samples each the ids of those that agree."""
    np = numpy()
    flat = struct.pack(f"{count * len(metrics)}d", *itertools.chain.from_iterable(m.samples for m in metrics))
    ordered = np.sort(np.frombuffer(flat).reshape(len(metrics), count), axis=1)
    low, high, part = _places(count)
    found = ordered[:, low]
    found += (ordered[:, high] - found) * part
    compared = [_compared(metric.direction, metric.statistic) for metric in metrics]
    found = found[np.arange(len(metrics))[:, None], compared]
    stated = np.array([(m.best, m.median, m.p5, m.p95, m.value) for m in metrics])
    for row, metric in enumerate(metrics):
        if metric.statistic == "mean":
            found[row, -1] = math.fsum(metric.samples) / count
        elif metric.statistic == "total":
            found[row, -1] = min(max(metric.value, min(metric.samples)), max(metric.samples))
    # a little less than `inconsistencies` allows
    good = (abs(stated - found) <= abs(found * RELATIVE)).all(axis=1)
    return itertools.compress([metric.id for metric in metrics], good.tolist())


@lru_cache(maxsize=1024)
def _places(count: int) -> tuple[list[int], list[int], list[float]]:
    """The lower and the upper neighbour of each quantile, and the part of the way from one to the other."""
    low, high, part = zip(*places(count, _QUANTILES), strict=True)
    return list(low), list(high), list(part)


@lru_cache(maxsize=64)
def _compared(direction: str, statistic: str) -> tuple[int, ...]:
    """The quantile with which each of best, median, p5, p95 and value is compared."""
    best = _LAST if direction == "higher" else _FIRST
    value = {"best": best, "p5": _P5, "p95": _P95}.get(statistic, _MEDIAN)
    return best, _MEDIAN, _P5, _P95, value
