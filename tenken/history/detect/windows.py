"""The distance of the newest values of a series from its level: a few windows, of the newest 2 to 14 values.

A window is reduced to one number that no single value, however bad, can determine: the best of its values (`min`), or
their mean with the worst one clipped to REACH deviations beyond the second worst (`mean`). Each is stated as a
distance, in units of its standard deviation when nothing has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tenken.history.detect.order import BEFORE, LASTED, MANY, RECENT, WEEKS
from tenken.history.detect.settings import Settings

#: (kind, number of values); `slow` is a level that follows within about five values, compared with the level as many
#: values before, for drifts that the level follows.
WINDOWS: tuple[tuple[str, int], ...] = (
    ("min", 2), ("mean", 2), ("min", 3), ("mean", 3), ("mean", RECENT), ("mean", MANY),
    ("slow", 2 * Settings.min_baseline), ("slow", 70),
)  # fmt: skip
#: Number of values between two stored levels of slow windows; and how many levels are stored.
STRIDE = RECENT
SLOW_KEPT = max(length for _, length in WINDOWS) // STRIDE + 1
#: Number of values stored: the longest slow window and three weeks.
LONG = STRIDE * SLOW_KEPT + WEEKS
LONGEST = max(length for kind, length in WINDOWS if kind != "slow")
#: Standard deviations beyond the second worst to which the worst value of a `mean` window is clipped.
REACH = 1.0
#: Steps of this distance in sums over distributions.
FINE = 20
_CHOSEN = 4.0
#: Number of values after which a level that moved is used as one that did not.
SETTLED = 3
#: Indices of the slow windows.
SLOW_ONES = tuple(index for index, window in enumerate(WINDOWS) if window[0] == "slow")
#: Values stored for each series: those of `order.precedence` and the value before them.
KEPT = LASTED + BEFORE + 1


def _normal(kind: str, length: int) -> tuple[float, float]:
    """Mean and standard deviation of a window of independent normal values of deviation 1.

    Of the worst of them by its density; of their mean less the part of the distance of the worst from the second that
    is clipped, which is independent of the mean; of a level with the fastest weight by its variance.
    """
    if kind == "slow":
        weight = Settings.level_weights[-1]
        return 0.0, float(np.sqrt(weight / (2 - weight)))
    step, end = REACH / FINE, 2 * Settings.threshold
    x = np.arange(-end, end, step)
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    below = np.vectorize(NormalDist().cdf)
    if kind == "min":
        chance = length * density * below(-x) ** (length - 1) * step
        mean = float((chance * x).sum())
        return mean, float(np.sqrt((chance * x**2).sum() - mean**2))
    beyond = np.arange(step / 2, end, step)  # of the distance of the two, over REACH
    apart = [length * (density * below(x - REACH - one) ** (length - 1)).sum() * step**2 for one in beyond]
    cut, square = float(np.sum(apart)), float(2 * (beyond * apart).sum())
    return -cut / length, float(np.sqrt(length + square - cut**2) / length)


NORMAL = tuple(_normal(*window) for window in WINDOWS)


@dataclass(frozen=True)
class Distances:
    """Shape (series, windows), for a change for the worse and for the better; -inf where a window may not be used."""

    worse: np.ndarray
    better: np.ndarray
    #: change of the level that the window reports, in cost; positive is worse
    shift_worse: np.ndarray
    shift_better: np.ndarray


def span(window: int) -> int:
    """Number of newest values that a window compares: all of them must be newer than the last change of level."""
    kind, length = WINDOWS[window]
    return length + STRIDE if kind == "slow" else length


def spread_of_mean(memory: np.ndarray) -> np.ndarray:
    """Standard deviation of the mean of 1, 2, ... LONGEST values with known predecessor, shape (series, LONGEST).

    For values of deviation 1 with autocorrelation `memory` (series,): the mean of k of them is a sum of innovations
    with weights (1 - memory^l) / (1 - memory) / k, l = 1..k.
    """
    powers = np.cumprod(np.broadcast_to(memory[:, None], (len(memory), LONGEST)), axis=1)
    weights = (1 - powers) / (1 - memory[:, None])
    total = np.cumsum(weights**2, axis=1) * (1 - memory[:, None] ** 2)
    return np.sqrt(total) / np.arange(1, LONGEST + 1)


def distances(
    values: np.ndarray,
    levels: np.ndarray,
    anchors: np.ndarray,
    held: np.ndarray,
    usable: np.ndarray,
    deviation: np.ndarray,
    memory: np.ndarray,
    slow: np.ndarray,
    recent: np.ndarray,
) -> Distances:
    """Distances of all windows.

    `values` (series, KEPT) are costs, the newest last; `levels` (series, KEPT) the level as it was known after each of
    them; `held` (series,) the number of values since the level moved or before it moved, `anchors` (series,) the number
    of these in the level, and `usable` (series,) how many of the newest values may be in a window. `slow` (series,
    SLOW_KEPT) is the level at every STRIDE-th value, the newest last, and `recent` (series,) the level that follows
    quickly.
    """
    series, kept = values.shape
    shape = (series, len(WINDOWS))
    worse, better = np.full(shape, -np.inf), np.full(shape, -np.inf)
    shift_worse, shift_better = np.zeros(shape), np.zeros(shape)
    spread = spread_of_mean(memory)
    total = np.zeros(series)
    high = [np.full(series, -np.inf), np.full(series, -np.inf)]  # the two largest so far
    low = [np.full(series, np.inf), np.full(series, np.inf)]
    doubt = (1 + memory) / (1 - memory)  # the mean of autocorrelated values is less certain
    columns, known = np.ascontiguousarray(values.T), np.ascontiguousarray(levels.T)
    halfway = np.median(values[:, kept - RECENT :], axis=1)
    ends = {}
    for length in range(1, LONGEST + 1):
        one = columns[kept - length]
        total = total + one
        high[1] = np.maximum(high[1], np.minimum(high[0], one))
        high[0] = np.maximum(high[0], one)
        low[1] = np.minimum(low[1], np.maximum(low[0], one))
        low[0] = np.minimum(low[0], one)
        ends[length] = (total, high[0], high[1], low[0], low[1])
    for index, ((kind, length), (mean, unit)) in enumerate(zip(WINDOWS, NORMAL, strict=True)):
        if kind == "slow":
            level, echo, own = slow[:, SLOW_KEPT - length // STRIDE], 0.0, unit * np.sqrt(doubt)
            up = down = middle = recent
        else:
            level = known[kept - length - 1]
            reach = Settings.clip * deviation
            before = np.clip(columns[kept - length - 1] - level, -reach, reach)
            echo = before * memory * (1 - memory**length) / (1 - memory) / length
            own = unit * spread[:, length - 1] * np.sqrt(length)
            sum_, first, second, least, next_least = ends[length]
            up, down, middle = least, first, sum_ / length
        if kind == "mean":
            up = (sum_ - first + np.minimum(first, second + REACH * deviation)) / length
            down = (sum_ - least + np.maximum(least, next_least - REACH * deviation)) / length
        up, down, middle = up - level - echo, down - level - echo, middle - level - echo
        anchor = np.clip(held - length, 1, anchors)
        # a level set from the few values that revealed it is less certain than one from as many other values
        scale = deviation * np.sqrt(own**2 + np.minimum(doubt / anchor * (1 + _CHOSEN / anchor), 1))
        fits = (usable >= span(index)) & (held - length >= SETTLED)
        worse[:, index] = np.where(fits, (up - mean * deviation) / scale, -np.inf)
        better[:, index] = np.where(fits, (-down - mean * deviation) / scale, -np.inf)
        if length >= RECENT:  # most of the newest values must confirm it: a spike or two are not a change of level
            gone = (halfway - level) * np.sign(middle)
            middle = np.where(2 * gone >= np.abs(middle), middle, 0.0)
        shift_worse[:, index] = np.minimum(middle, up - mean * deviation)
        shift_better[:, index] = np.maximum(middle, down + mean * deviation)
    return Distances(worse, better, shift_worse, shift_better)
