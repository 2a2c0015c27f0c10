"""Whether a series became noisy: the scatter of its newest values compared with the usual one.

A value's restlessness is the logarithm of its distance from the level or from the previous value, whichever is nearer:
changes of level, a wandering level and modes do not affect it, and a spike of any size weighs little more than an
ordinary value. Its mean over the newest 20 and 40 values is compared with that of the values before them, and with the
distances that the means of this series and of the fleet have strayed before returning.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from tenken.history.detect.dating import SCATTER_CLIP
from tenken.history.detect.excursions import BIN, BINS, COUNTED, OVER, USUAL, beyond, skewed
from tenken.history.detect.order import MANY, RECENT, Z_95
from tenken.history.detect.settings import Settings

#: Number of values of a window; each half of it must be noisier by itself.
WINDOWS = (Settings.min_baseline, 2 * Settings.min_baseline)
#: Number of values that define the usual scatter: minimum for counting excursions, and for judging a series.
USUAL_FROM, JUDGED_FROM, _WEIGHT = WINDOWS[0], WINDOWS[-1] + MANY, Settings.noise_weight
_LONGEST = WINDOWS[-1]
#: Neighbouring values are assumed to be correlated by this factor of the variance of their mean.
_DEPENDENT = 1.2
#: Part of the squared deviation that is added before the logarithm is taken, so that all near values are equal.
_NEAR = 0.3
_FAR = SCATTER_CLIP  # deviations beyond which all values are equal: one spike must not count like twenty values


class Volatility:
    """State of all series; `rows` are those that have a value tonight."""

    def __init__(self, series: int, settings: Settings) -> None:
        self._settings = settings
        self._kept = np.zeros((series, _LONGEST))
        self._nights = np.full((series, _LONGEST), -1)
        self._number = np.zeros(series, int)  # values since the noise moved
        self._unit = np.ones(series)  # deviation that is the unit of the distances
        self._mean = np.zeros(series)  # mean of the values before the longest window
        self._square = np.full(series, _LEAST**2)
        self._rested = np.zeros(series, int)  # number of values that it is computed from
        self._former = np.full(series, np.nan)  # mean before the series became noisy
        self._peak = np.zeros((series, len(WINDOWS)))
        self._count = np.zeros((len(WINDOWS), BINS))
        self._exposed = np.zeros(1)
        self._cubes = np.zeros(2)  # sum of the cubes of the distances of single values, and their number

    def begin(self, rows: np.ndarray, off: np.ndarray, deviation: np.ndarray, night: int) -> None:
        """The first values of series, (rows, values): their distances from their level."""
        self._unit[rows] = deviation
        for near, jump in zip(off[:, 1:].T, np.diff(off, axis=1).T, strict=True):
            self._take(rows, near, jump, night)

    def advance(self, rows: np.ndarray, off: np.ndarray, jump: np.ndarray, night: int, among: int) -> np.ndarray:
        """Adds tonight's distances from the level and from the previous value; returns the rows that became noisy.

        They are judged as part of a fleet of `among` series.
        """
        self._take(rows, off, jump, night)
        known = rows[self._rested[rows] >= USUAL_FROM]
        self._exposed += len(known)
        if not len(known):
            return known
        distance, ratio = self._distances(known)
        limit = self._limits(among)
        noisy = (distance > limit) & (ratio >= self._settings.noisier)
        noisy &= self._unit[known, None] * ratio * _noise(self._mean[known])[:, None] >= self._settings.smallest / 2
        noisy = noisy.any(axis=1) & (self._rested[known] >= JUDGED_FROM)
        self._excursions(known, distance)
        return known[noisy]

    def _take(self, rows: np.ndarray, off: np.ndarray, jump: np.ndarray, night: int) -> None:
        near = np.minimum(np.abs(off), np.abs(jump) / sqrt(2)) / self._unit[rows]
        fresh = np.log(_NEAR + np.minimum(near, _FAR) ** 2)
        leaving = self._kept[rows, 0]
        old = self._number[rows] >= _LONGEST
        self._learn(rows[old], leaving[old])
        self._kept[rows, :-1] = self._kept[rows, 1:]
        self._kept[rows, -1] = fresh
        self._nights[rows, :-1] = self._nights[rows, 1:]
        self._nights[rows, -1] = night
        self._number[rows] += 1

    def _learn(self, rows: np.ndarray, values: np.ndarray) -> None:
        self._rested[rows] += 1
        weight = np.maximum(1 / self._rested[rows], _WEIGHT)
        change = values - self._mean[rows]
        known = self._rested[rows] >= USUAL_FROM
        far = np.minimum(change[known] / self._deviation(rows[known]), self._settings.threshold)
        self._cubes += (float((far**3).sum()), float(len(far)))
        self._mean[rows] += weight * change
        started = np.maximum(self._rested[rows], RECENT)  # the deviation begins as that of normal noise
        self._square[rows] += np.maximum(1 / started, _WEIGHT) * (change**2 - self._square[rows])

    def _deviation(self, rows: np.ndarray) -> np.ndarray:
        return np.maximum(np.sqrt(self._square[rows]), _LEAST)

    def _distances(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distance of each window's mean, in its standard deviations, and the noise of its halves relative to the
        usual."""
        total = np.cumsum(self._kept[rows, ::-1], axis=1)
        usual = np.minimum(self._rested[rows], 2 / _WEIGHT)
        off = np.stack([total[:, length - 1] / length - self._mean[rows] for length in WINDOWS], axis=1)
        own = np.sqrt(_DEPENDENT * (1 / np.array(WINDOWS)[None, :] + 1 / usual[:, None]))
        newer = np.stack([total[:, length // 2 - 1] / (length // 2) for length in WINDOWS], axis=1)
        older = 2 * (off + self._mean[rows, None]) - newer
        ratio = _noise(np.minimum(newer, older)) / _noise(self._mean[rows])[:, None]
        return off / (own * self._deviation(rows)[:, None]), ratio

    def _limits(self, series: int) -> np.ndarray:
        settings = self._settings
        allowed = settings.false_noisy / max(series, settings.fleet) / len(WINDOWS)
        skewness = self._cubes[0] / max(self._cubes[1], 1.0)
        least = settings.noisy + skewed(settings.noisy, skewness, np.array(WINDOWS))
        fleet = np.array(
            [beyond(count, BIN, USUAL, float(one), allowed, float(self._exposed[0]), settings.largest)
             for count, one in zip(self._count, least, strict=True)]
        )  # fmt: skip
        return fleet

    def _excursions(self, rows: np.ndarray, distance: np.ndarray) -> None:
        """Means that strayed and returned: the fleet's usual behaviour."""
        self._count *= self._settings.forgetting
        self._exposed *= self._settings.forgetting
        peak = self._peak[rows]
        over = (distance < OVER) & (peak > 0)
        ended = np.where(over, peak, 0)
        row, window = np.nonzero(over)
        np.add.at(self._count, (window, np.clip((ended[row, window] / BIN).astype(int), 0, BINS - 1)), 1.0)
        higher = (distance > peak) & (distance >= COUNTED)
        self._peak[rows] = np.where(over, 0, np.where(higher, distance, peak))

    def moved(self, row: int) -> tuple[int, float, float, float]:
        """A series that became noisy: (values since, ratio of the deviations, its 95 % ends).

        From now on the newest values define the usual scatter.
        """
        own = self._kept[row] - self._mean[row]
        totals = np.cumsum(own[::-1])
        counts = np.arange(1, _LONGEST + 1)
        # where a step of the mean is most likely
        gain = np.where(totals > 0, totals**2 / counts, 0)
        length = int(gain[RECENT - 1 :].argmax()) + RECENT
        mean = float(totals[length - 1] / length)
        error = Z_95 * sqrt(_DEPENDENT * (1 / length + 1 / min(self._rested[row], 2 / _WEIGHT)))
        error *= float(self._deviation(np.array([row]))[0])
        usual, now, low, high = _noise(self._mean[row] + np.array([0, mean, mean - error, mean + error]))
        if np.isnan(self._former[row]):
            self._former[row] = self._mean[row]
        self._mean[row] += mean
        self._rested[row] = USUAL_FROM
        self._number[row] = length
        self._peak[row] = 0
        return length, float(now / usual), float(low / usual), float(high / usual)

    def night(self, row: int, length: int) -> int:
        """The night of the value that is `length` values old."""
        return int(self._nights[row, _LONGEST - length])

    def quiet(self, rows: np.ndarray) -> np.ndarray:
        """Those of the noisy series whose newest values, as many as in the shorter window, are no noisier than chance
        makes values of the former noise."""
        length = WINDOWS[0]
        more = self._kept[rows, -length:].mean(axis=1) - self._former[rows]
        chance = Z_95 * self._deviation(rows) * sqrt(_DEPENDENT / length)
        return rows[(self._number[rows] > length) & (more <= chance)]

    def calm(self, row: int) -> float:
        """A series is as quiet as before it became noisy; returns the ratio of its former deviation to the present
        one."""
        ratio = float(_noise(self._former[row]) / _noise(self._mean[row]))
        self._mean[row], self._former[row] = self._former[row], np.nan
        self._number[row] = WINDOWS[0]
        self._kept[row, : -WINDOWS[0]] = self._mean[row]  # noise that is over is not found again
        return ratio


def _restlessness() -> tuple[np.ndarray, float]:
    """Of normal noise: the mean for each deviation of `_NOISES`, and the standard deviation for a deviation of 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_FINE)
    near = np.minimum(np.abs(nodes[:, None]), np.abs(nodes[:, None] - nodes[None, :]) / sqrt(2))
    weight = weights[:, None] * weights[None, :] / (2 * np.pi)
    of = [np.log(_NEAR + np.minimum(noise * near, _FAR) ** 2) for noise in (*_NOISES, 1)]
    means = np.array([(weight * one).sum() for one in of])
    return means[:-1], float(np.sqrt((weight * of[-1] ** 2).sum() - means[-1] ** 2))


_FINE = 100  # nodes of the integrals, and entries of the table of deviations, up to this many usual ones
_NOISES = np.geomspace(1 / _FINE, _FINE, _FINE)
_MEANS, _LEAST = _restlessness()


def _noise(mean: np.ndarray) -> np.ndarray:
    """The deviation of normal noise with this mean restlessness."""
    return np.interp(mean, _MEANS, _NOISES)
