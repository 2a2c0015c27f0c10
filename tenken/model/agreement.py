"""Comparison of the stated statistics of all metrics of a result with their samples, at once where numpy is loaded.

A record of an archive has a dozen metrics of a hundred samples; sorting each by itself takes as long as reading it.
"""

from __future__ import annotations

import itertools
import math
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
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
    flat = b"".join([packed(count)(*metric.samples) for metric in metrics])
    ordered = np.sort(np.frombuffer(flat).reshape(len(metrics), count), axis=1)
    low, high, part = _places(count)
    found = ordered.take(low, axis=1)
    found += (ordered.take(high, axis=1) - found) * part
    found = found[_compared(tuple([(metric.direction, metric.statistic) for metric in metrics]))]
    stated = np.array([(m.best, m.median, m.p5, m.p95, m.value) for m in metrics])
    for row, metric in enumerate(metrics):
        if metric.statistic == "mean":
            found[row, -1] = math.fsum(metric.samples) / count
        elif metric.statistic == "total":
            found[row, -1] = min(max(metric.value, min(metric.samples)), max(metric.samples))
    # a little less than `inconsistencies` allows
    good = abs(stated - found) <= abs(found) * RELATIVE
    ids = [metric.id for metric in metrics]
    return ids if good.all() else itertools.compress(ids, good.all(axis=1).tolist())


@lru_cache(maxsize=1024)
def packed(count: int) -> Callable[..., bytes]:
    """What packs `count` numbers as doubles. Raises struct.error for anything else; truth values are numbers."""
    return struct.Struct(f"{count}d").pack


@lru_cache(maxsize=1024)
def _places(count: int) -> tuple[Any, Any, Any]:
    """The lower and the upper neighbour of each quantile, and the part of the way from one to the other."""
    low, high, part = map(numpy().array, zip(*places(count, _QUANTILES), strict=True))
    return low, high, part


@lru_cache(maxsize=1024)
def _compared(directions_and_statistics: tuple[tuple[str, str], ...]) -> tuple[Any, Any]:
    """Where an array of quantiles has, for each metric in turn, those that are compared with best, median, p5, p95 and
    value.
    """
    np = numpy()
    columns = []
    for direction, statistic in directions_and_statistics:
        best = _LAST if direction == "higher" else _FIRST
        value = {"best": best, "p5": _P5, "p95": _P95}.get(statistic, _MEDIAN)
        columns.append((best, _MEDIAN, _P5, _P95, value))
    return np.arange(len(columns))[:, None], np.array(columns)
