"""The distance of the newest values of a series from its level: a few windows, of the newest 2 to 14 values.

A window is reduced to one number that no single value, however bad, can determine: the best of its values (`min`), or
their mean with the worst one clipped to REACH deviations beyond the second worst (`mean`). Each is stated as a
distance, in units of its standard deviation when nothing has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenken.history.detect.order import RECENT, WEEKS

#: (kind, number of values, mean and standard deviation of it for independent normal values of deviation 1; from
#: 10^6 windows). `slow` is a level that follows within about five values, compared with the level some time before
#: (SLOW), for drifts that the level follows.
WINDOWS: tuple[tuple[str, int, float, float], ...] = (
    ("min", 2, -0.5635, 0.8249),
    ("mean", 2, -0.1056, 0.7447),
    ("min", 3, -0.8457, 0.7486),
    ("mean", 3, -0.0701, 0.5937),
    ("mean", 5, -0.0231, 0.4507),
    ("mean", 10, -0.0058, 0.3170),
    ("slow", 10, 0.0, 0.3333),
    ("slow", 14, 0.0, 0.3333),
)
#: Number of values between a slow window and the level it is compared with, by its length; and how often that level is
#: stored.
SLOW = {10: 30, 14: 60}
STRIDE = 5
SLOW_KEPT = 16
#: Number of values stored: the longest slow window, the time before it and three weeks.
LONG = 14 + SLOW[14] + WEEKS
LONGEST = 14
_CHOSEN = 4.0
#: Standard deviations beyond the second worst to which the worst value of a `mean` window is clipped, by its length.
REACH = {2: 1.5}
USUAL_REACH = 1.0
#: Indices of the slow windows.
SLOW_ONES = tuple(index for index, window in enumerate(WINDOWS) if window[0] == "slow")
#: Values stored for each series: the longest window and the value before it.
KEPT = 18


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
    kind, length, _, _ = WINDOWS[window]
    return length + SLOW[length] + STRIDE if kind == "slow" else length


def age(window: int) -> int:
    """Number of values since the level that a window compares with: its own, and for a slow one those before it."""
    kind, length, _, _ = WINDOWS[window]
    return length + SLOW[length] if kind == "slow" else length


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
    for index, (kind, length, mean, unit) in enumerate(WINDOWS):
        level = known[kept - length - 1]
        before = np.clip(columns[kept - length - 1] - level, -2.5 * deviation, 2.5 * deviation)
        echo = before * memory * (1 - memory**length) / (1 - memory) / length
        sum_, first, second, least, next_least = ends[length]
        if kind == "slow":
            level = slow[:, SLOW_KEPT - (length + SLOW[length]) // STRIDE]
            echo = 0.0
            up = down = recent
        elif kind == "min":
            up, down = least, first
        else:
            reach = REACH.get(length, USUAL_REACH) * deviation
            up = (sum_ - first + np.minimum(first, second + reach)) / length
            down = (sum_ - least + np.maximum(least, next_least - reach)) / length
        anchor = np.clip(held - length, 1, anchors)
        own = unit * np.sqrt(doubt) if kind == "slow" else unit * spread[:, length - 1] * np.sqrt(length)
        # a level set from the few values that revealed it is less certain than one from as many other values
        scale = deviation * np.sqrt(own**2 + np.minimum(doubt / anchor * (1 + _CHOSEN / anchor), 1))
        fits = (usable >= span(index)) & (held - length >= 3)
        up, down = up - level - echo, down - level - echo
        worse[:, index] = np.where(fits, (up - mean * deviation) / scale, -np.inf)
        better[:, index] = np.where(fits, (-down - mean * deviation) / scale, -np.inf)
        middle = up if kind == "slow" else sum_ / length - level - echo
        if length >= RECENT:  # most of the newest values must confirm it: a spike or two are no change of level
            gone = (halfway - level) * np.sign(middle)
            middle = np.where(2 * gone >= np.abs(middle), middle, 0.0)
        shift_worse[:, index] = np.minimum(middle, up - mean * deviation)
        shift_better[:, index] = np.maximum(middle, down + mean * deviation)
    return Distances(worse, better, shift_worse, shift_better)
