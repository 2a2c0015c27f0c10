"""Tests on the order of values, which depend on no other series and on no model of the noise.

Two are for changes of a size that any reader would recognise: `precedence` for lasting changes, `ratio` for values far
outside the range of three weeks. `unreached` is required of every change of level.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from tenken.history.detect.settings import Settings

#: Standard deviations of normal noise in its median absolute deviation, and in half of its 95 % interval.
MAD, Z_95 = 1 / NormalDist().inv_cdf(0.75), NormalDist().inv_cdf(0.975)
#: Number of newest values that must all be beyond all but one of this many before them.
LASTED, BEFORE = 7, 10
#: The newest two values are compared with this many before them; minimum ratio of their distance from the median to
#: that of the farthest of these.
WEEKS, TIMES = 21, 2
#: Number of values within three weeks that may be as bad as the new ones: spikes; one more for windows of MANY values
#: (table in docs/statistics.md).
SPARED, MANY = 2, 10
#: Number of newest values whose median stands for a longer window: one or two spikes are no change of level.
RECENT = 5


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


def ratio(values: np.ndarray, since: np.ndarray) -> np.ndarray:
    """Change of level of series whose newest two values are far beyond the WEEKS before them, (series,); else 0.

    `values` (series, at least WEEKS + 2) and `since` as for `precedence`. The nearer of the two must be TIMES as far
    from the median of the others as the farthest of these, as in the ratio tests of Dixon (1950), and `threshold` of
    their deviations (MAD); the farther at most TIMES as far as the nearer, which holds for values of one level but not
    for disturbances. For independent values of any distribution the probability that both are beyond all others is 1 in
    C(23, 2) = 253.
    """
    out = np.zeros(len(values))
    old, near = values[:, -WEEKS - 2 : -2], values[:, -2:].min(axis=1)
    rows = np.flatnonzero((near > old.max(axis=1)) & (since >= WEEKS + 2))
    if len(rows):
        own = old[rows] - np.median(old[rows], axis=1)[:, None]
        far = near[rows] - np.median(old[rows], axis=1)
        spread = MAD * np.median(np.abs(own), axis=1)
        alike = values[rows, -2:].max(axis=1) - values[rows, -2:].min(axis=1) <= (TIMES - 1) * far
        clear = (far > TIMES * own.max(axis=1)) & (far > Settings.threshold * spread)
        out[rows] = np.where(clear & alike, far, 0)
    return out


def unreached(values: np.ndarray, length: int) -> np.ndarray:
    """Whether the newest values lie beyond all but a few of the WEEKS before them, (series,).

    `values` (series, at least WEEKS + length) are costs, the newest last. In a window of two or three values all are
    compared; in a longer one the median of the newest RECENT. A level that a series had within three weeks, such as
    that of a mode or of a recurring disturbance, is not new because the newest values are at it. For independent values
    the probability is 6 / C(23, 2) = 1 in 42 for two values, 10 / C(24, 3) = 1 in 202 for three, and 2206 / C(26, 5) =
    1 in 30 for a median of five, or 4106 = 1 in 16 with three spared.
    """
    new = values[:, -length:].min(axis=1) if length < RECENT else np.median(values[:, -RECENT:], axis=1)
    end = values.shape[1] - length
    return np.asarray((values[:, end - WEEKS : end] >= new[:, None]).sum(axis=1) <= SPARED + (length >= MANY))
