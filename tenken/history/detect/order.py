"""Tests on the order of values, which depend on no other series and on no model of the noise.

Two are for changes of a size that any reader would recognise: `precedence` for lasting changes, `gap` for values far
outside the range of three weeks. `unreached` is required of every change of level. `unstepped` is for the first values.
"""

from __future__ import annotations

from math import comb
from statistics import NormalDist

import numpy as np

from tenken.history.detect.settings import Settings

#: Probability of chance in an interval and in a choice between two descriptions of the same values.
CHANCE = 0.05
#: Standard deviations of normal noise in its median absolute deviation, and in half of its 95 % interval.
MAD, Z_95 = 1 / NormalDist().inv_cdf(0.75), NormalDist().inv_cdf(1 - CHANCE / 2)
#: Number of newest values whose median stands for a longer window, and number of values of a long one.
RECENT, MANY = Settings.recent, 2 * Settings.recent
#: Number of newest values that must all be beyond all but one of this many before them.
LASTED, BEFORE = 7, MANY
#: Number of values before the newest two that they are compared with.
WEEKS = 21
#: Number of series that must move at once, and half of how many times the number expected by chance.
AT_ONCE = 5
#: Number of values within three weeks that may be as bad as the new ones: spikes; one more for windows of MANY values
#: (table in docs/statistics.md).
SPARED = 2


def precedence(values: np.ndarray, since: np.ndarray) -> np.ndarray:
    """Change of level of series whose newest LASTED values are all beyond the values before them, (series,); else 0.

    `values` (series, at least LASTED + BEFORE) are costs, the newest last; the newest `since` (series,) may be used. A
    precedence test (Nelson 1963): one of the BEFORE values may be anywhere, so that a spike does not hide a loss. For
    independent values the probability is 8 / C(17, 7) = 1 in 2431. Since a reported change there are fewer, from RECENT
    on, of which none is spared: at most 1 / C(12, 7) = 1 in 792.
    """
    out = np.zeros(len(values))
    new, old = values[:, -LASTED:], values[:, -LASTED - BEFORE : -LASTED]
    least = new.min(axis=1)
    # few reach this point: at most one of the two before them is not below
    rows = np.flatnonzero((least > old[:, -2:].min(axis=1)) & (since >= LASTED + RECENT))
    number = np.minimum(since[rows] - LASTED, BEFORE)
    own = np.where(np.arange(BEFORE) >= (BEFORE - number)[:, None], old[rows], np.nan)
    ordered = np.sort(np.where(np.isnan(own), -np.inf, own), axis=1)
    beyond = least[rows] > np.where(number == BEFORE, ordered[:, -2], ordered[:, -1])
    rows = rows[beyond]
    out[rows] = np.median(new[rows], axis=1) - np.nanmedian(own[beyond], axis=1) if len(rows) else 0
    return out


def gap(values: np.ndarray, since: np.ndarray, together: bool = True) -> np.ndarray:
    """Change of level of series whose newest two values are apart from the WEEKS before them, (series,); else 0.

    `values` (series, at least WEEKS + 2) and `since` as for `precedence`. As in the tests of Dixon (1950) the gap
    between the two and the farthest of the others is compared with a range: it must be larger than the distance of the
    two from each other plus a deviation (MAD) of the others, since values of one level are alike and those of a
    disturbance are not. None of the others may be nearer to the two than to their median. For independent values of any
    distribution the probability that both are beyond all others is 1 in C(23, 2) = 253.

    If it is true of many series at once, `together`, with changes of Settings.large, a gap wider than the deviation is
    enough. Of at least AT_ONCE, and ten times as many as by chance, this happens to independent series at most on 2
    nights in 10,000.
    """
    out = np.zeros(len(values))
    old, near = values[:, -WEEKS - 2 : -2], values[:, -2:].min(axis=1)
    rows = np.flatnonzero((near > old.max(axis=1)) & (since >= WEEKS + 2))
    if len(rows):
        level, spread = _level(old[rows])
        new, farthest = near[rows], old[rows].max(axis=1)
        apart = values[rows, -2:].max(axis=1) - new
        clear = (farthest < _nearer(new, level, spread)) & (new - farthest > apart + spread)
        moved = np.count_nonzero(new - level >= Settings.large)
        if together and moved >= AT_ONCE * max(1, 2 * len(values) / comb(WEEKS + 2, 2)):
            clear |= new - farthest > spread
        out[rows] = np.where(clear, new - level, 0)
    return out


def unstepped(values: np.ndarray) -> np.ndarray:
    """Values (series, values) on the level of the newest: where all since one of them are beyond all before it, on
    either side, those before are moved by the difference of the medians.

    At least RECENT are on each side. For 20 independent values the probability is at most 5 in 10,000.
    """
    out = values.copy()
    count = values.shape[1]
    for length in range(count - RECENT, RECENT - 1, -1):
        old, new = values[:, : count - length], values[:, count - length :]
        apart = (new.min(axis=1) > old.max(axis=1)) | (new.max(axis=1) < old.min(axis=1))
        shift = np.median(new, axis=1) - np.median(old, axis=1)
        out[apart] = values[apart]
        out[apart, : count - length] += shift[apart, None]
    return out


def _level(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median, and deviation by the median absolute deviation, of each row."""
    level = np.median(values, axis=1)
    return level, MAD * np.median(np.abs(values - level[:, None]), axis=1)


def unreached(values: np.ndarray, level: np.ndarray, deviation: np.ndarray, length: int) -> np.ndarray:
    """Whether the newest values lie beyond all but a few of the WEEKS before them, (series,).

    `values` (series, at least WEEKS + length) are costs, the newest last; the newest `length` are compared with
    `level`, and `deviation` is the usual one, both (series,). In a window of two or three values all are compared; in a
    longer one the median of the newest RECENT. A level that a series had within three weeks, such as that of a mode or
    of a recurring disturbance, is not new because the newest values are at it. A value beyond the noise that is nearer
    to the new level than to the former one had reached it.
    """
    new = values[:, -length:].min(axis=1) if length < RECENT else np.median(values[:, -RECENT:], axis=1)
    end = values.shape[1] - length
    bad = values[:, end - WEEKS : end] >= _nearer(new, level, deviation)[:, None]
    return np.asarray(bad.sum(axis=1) <= SPARED + (length >= MANY))


def _nearer(new: np.ndarray, level: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The value from which others are nearer to a new level than to a former one, and beyond the threshold of noise."""
    return np.minimum(new, level + np.maximum((new - level) / 2, Settings.threshold * deviation))
