"""The level and the noise of each series: the best of three exponential filters, deviation, memory."""

from __future__ import annotations

from math import exp, pi, sqrt
from statistics import NormalDist

import numpy as np

from tenken.history.detect import order
from tenken.history.detect.dating import SCATTER_CLIP
from tenken.history.detect.order import MAD, RECENT
from tenken.history.detect.settings import Settings
from tenken.history.detect.windows import KEPT, LONG, SETTLED, SLOW_KEPT, STRIDE

_LEAST_MEMORY = 0.1  # autocorrelation that may be chance; from twice this value on it counts in full
_MOST_MEMORY = 1 - _LEAST_MEMORY
_MOST = 0.8  # part of the distances between neighbours that are within one mode
_FORGIVES = 0.1  # factor by which the usual level follows nights of fewer samples more slowly
#: Variance of a normal variable of deviation 1 that is clipped.
_BEYOND, _AT = 2 * NormalDist().cdf(-Settings.clip), exp(-(Settings.clip**2) / 2) / sqrt(2 * pi)
_CLIPPED = 1 - _BEYOND - 2 * Settings.clip * _AT + Settings.clip**2 * _BEYOND
_OF_MOST = NormalDist().inv_cdf((1 + _MOST) / 2) * sqrt(2)  # that part of them, for normal noise of deviation 1
_LAG = RECENT  # delay of the noise estimate relative to the level, in values


class Model:
    """State of all series; `rows` are indices of some of them, or all as a slice."""

    def __init__(self, higher_is_better: np.ndarray, settings: Settings | None = None) -> None:
        higher = np.asarray(higher_is_better)
        if higher.ndim != 1 or higher.dtype != bool:
            raise ValueError("higher_is_better: expected a vector of booleans, one per series")
        self.settings = settings or Settings()
        count = self.series = len(higher)
        self._sign = np.where(higher, -1.0, 1.0)
        self._learned = np.full((count, self.settings.min_baseline), np.nan)  # the first values
        self._number = np.zeros(count, int)  # values so far
        self._linear = np.zeros(count, bool)  # judged by difference, not by ratio
        self._reference = np.full(count, np.nan)
        ways = len(self.settings.level_weights)
        #: level, deviation, product of neighbouring deviations and forecast error, for each tracking method of the
        #: level
        self._tracks = np.full((ways, count), np.nan)
        self._track_levels = np.zeros((ways, count, KEPT))
        self._track_deviation = np.full((ways, count), np.nan)
        self._track_product = np.zeros((ways, count))
        self._track_error = np.ones((ways, count))
        self._choice = np.zeros(count, int)  # the method in use; the next four are its values
        self._level = np.full(count, np.nan)
        self._anchor = np.zeros(count)  # values in the level
        self._since = np.zeros(count, int)  # values since the level moved
        self._deviation = np.full(count, np.nan)
        self._product = np.zeros(count)  # mean product of neighbouring deviations, for the memory
        self._memory = np.zeros(count)
        self._error = np.zeros(count)  # usual standard error within a night
        shape = (count, KEPT)
        self._kept = np.zeros(shape)
        self._levels = np.zeros(shape)
        self._slow = np.zeros((count, SLOW_KEPT))
        self._slow_wanders = np.ones((count, SLOW_KEPT), bool)  # whether the slowest method was not the best
        self._nights = np.full(shape, -1)
        self._long = np.zeros((count, LONG))
        self._long_nights = np.full((count, LONG), -1)
        #: deviation and memory some values ago, so that a change in progress does not hide itself
        self._past_deviation = np.full((count, _LAG), np.nan)
        self._past_memory = np.zeros((count, _LAG))

    def _begin(self, rows: np.ndarray) -> np.ndarray:
        """Select the model for series with enough values, and set level and noise."""
        first = self._learned[rows]
        self._linear[rows] = ~(first.min(axis=1) > 0)
        typical = np.median(np.abs(first), axis=1)
        middle = np.median(first, axis=1)
        self._reference[rows] = np.where(self._linear[rows], np.where(typical > 0, typical, 1.0), middle)
        raw = self._costs(first.T, rows).T
        cost = order.unstepped(raw)
        level = np.median(cost, axis=1)
        floor = self.settings.relative_floor
        near = MAD * np.median(np.abs(cost - level[:, None]), axis=1)
        # if modes are far apart, most values are in one of them, but neighbours often are not
        apart = np.quantile(np.abs(np.diff(cost, axis=1)), _MOST, axis=1) / _OF_MOST
        reach = SCATTER_CLIP * np.maximum(np.maximum(near, apart), floor)[:, None]
        drawn = np.clip(cost - level[:, None], -reach, reach)
        level = level + drawn.mean(axis=1)
        drawn = np.clip(cost - level[:, None], -reach, reach)
        self._level[rows] = level
        self._deviation[rows] = np.maximum(np.sqrt((drawn**2).sum(axis=1) / (drawn.shape[1] - 1)), floor)
        self._product[rows] = (drawn[:, 1:] * drawn[:, :-1]).mean(axis=1)
        self._anchor[rows] = cost.shape[1]
        self._since[rows] = cost.shape[1]
        self._kept[rows] = raw[:, -KEPT:]
        self._long[rows, -cost.shape[1] :] = raw
        self._tracks[:, rows] = level
        self._track_levels[:, rows] = level[:, None]
        self._track_deviation[:, rows] = self._deviation[rows]
        self._track_product[:, rows] = self._product[rows]
        self._track_error[:, rows] = self._deviation[rows] ** 2 / 2
        self._levels[rows] = level[:, None]
        self._slow[rows] = level[:, None]
        self._remember(rows)
        self._past_deviation[rows] = self._deviation[rows, None]
        self._past_memory[rows] = self._memory[rows, None]
        return cost - level[:, None]

    def _costs(self, values: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        """Logarithm of the value, or its difference from the reference, such that more is worse."""
        reference, linear = self._reference[rows], self._linear[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(np.maximum(values, np.finfo(float).eps * np.abs(reference)))
            return self._sign[rows] * np.where(linear, values / reference, ratio)

    def _remember(self, rows: np.ndarray | slice) -> None:
        """The autocorrelation of series, 0 unless significant, corrected for its bias (Kendall 1954)."""
        number = np.minimum(np.maximum(self._number[rows], self.settings.min_baseline), 2 / self.settings.noise_weight)
        memory = self._product[rows] / np.maximum(self._deviation[rows] ** 2, np.finfo(float).tiny)
        memory = memory + (1 + 3 * memory) / number
        stands_out = np.clip((memory - _LEAST_MEMORY) / _LEAST_MEMORY, 0, 1)
        self._memory[rows] = np.clip(memory * stands_out, 0, _MOST_MEMORY)

    def _all_or(self, rows: np.ndarray) -> np.ndarray | slice:
        """The same rows, as a slice if they are all: views instead of copies."""
        return slice(None) if len(rows) == self.series else rows

    def _weighed(self, cost: np.ndarray, known: np.ndarray, errors: np.ndarray | None) -> np.ndarray:
        """Costs of nights with fewer samples than usual, pulled towards the level by their additional noise."""
        if errors is None:
            return cost
        error = np.where(known & np.isfinite(errors), errors, self._error)
        new = np.where(self._error > 0, self._error, error)
        extra = np.maximum(error**2 - new**2, 0)
        factor = np.sqrt(self._deviation**2 / (self._deviation**2 + extra))
        # the usual level follows better nights: the deviation of the residuals depends on it
        weight = self.settings.noise_weight * np.where(error > new, _FORGIVES, 1.0)
        self._error = np.where(known, new + (error - new) * weight, self._error)
        return np.where(known, self._level + (cost - self._level) * factor, cost)

    def _youth(self) -> np.ndarray:
        """Factor for the uncertainty of a deviation estimated from few values, shape (series, 1).

        The first term of the expansion of Student's quantile in its degrees of freedom (Fisher 1926).
        """
        number = np.maximum(self._number, self.settings.min_baseline)[:, None]
        return 1 + (self.settings.threshold**2 + 1) / 4 / np.minimum(number, 2 / self.settings.noise_weight)

    def _follow(self, rows: np.ndarray, cost: np.ndarray) -> None:
        """Update level, noise and autocorrelation with a value; distant ones are clipped."""
        settings = self.settings
        at = self._all_or(rows)
        self._anchor[at] += 1
        weight = np.maximum(1 / np.maximum(self._number[at], 1), settings.noise_weight)
        settled = self._since[at] > SETTLED
        own = self._kept[at]
        for way, fastest in enumerate(settings.level_weights):
            level, deviation = self._tracks[way, at], self._track_deviation[way, at]
            reach = settings.clip * deviation
            drawn = np.clip(own[:, -1] - level, -reach, reach)
            before = np.clip(own[:, -2] - self._track_levels[way, at, -2], -reach, reach)
            square = np.where(settled, drawn**2 / _CLIPPED, deviation**2)
            variance = deviation**2 + weight * (square - deviation**2)
            self._track_deviation[way, at] = np.maximum(np.sqrt(variance), self.settings.relative_floor)
            product = np.where(settled, drawn * before, self._track_product[way, at])
            self._track_product[way, at] += weight * (product - self._track_product[way, at])
            error = own[:, -SETTLED:].mean(axis=1) - self._track_levels[way, at, -SETTLED - 1]
            error = np.where(self._since[at] > SETTLED, np.clip(error, -reach, reach) ** 2, np.nan)
            old = self._track_error[way, at]
            self._track_error[way, at] = np.where(np.isnan(error), old, old + weight * (error - old))
            self._tracks[way, at] = level + drawn * np.maximum(1 / self._anchor[at], fastest)
        self._track_levels[:, at, -1] = self._tracks[:, at]
        self._choose(rows)
        self._remember(at)
        due = rows[self._number[rows] % STRIDE == 0]
        self._slow[due, :-1] = self._slow[due, 1:]
        self._slow[due, -1] = self._tracks[0, due]
        self._slow_wanders[due, :-1] = self._slow_wanders[due, 1:]
        self._slow_wanders[due, -1] = self._choice[due] > 0
        for past, now in ((self._past_deviation, self._deviation), (self._past_memory, self._memory)):
            past[at, :-1] = past[at, 1:]
            past[at, -1] = now[at]

    def _choose(self, rows: np.ndarray) -> None:
        """Select the method of tracking the level with the best predictions."""
        handicap = self.settings.better_by ** np.arange(len(self._tracks))
        choice = (self._track_error[:, rows] / handicap[:, None]).argmin(axis=0)
        self._choice[rows] = choice
        self._level[rows] = self._tracks[choice, rows]
        self._levels[rows] = self._track_levels[choice, rows]
        self._deviation[rows] = self._track_deviation[choice, rows]
        self._product[rows] = self._track_product[choice, rows]

    def _remembered(self) -> np.ndarray:
        """Effective number of values of an exponentially weighted level."""
        return 2 / np.array(self.settings.level_weights)[self._choice] - 1

    def _scatter(self, row: int, ratio: float) -> None:
        """The factor by which the scatter of a series has increased."""
        for deviation in (self._track_deviation[:, row], self._past_deviation[row]):
            deviation *= ratio
            np.maximum(deviation, self.settings.relative_floor, out=deviation)
        self._track_product[:, row] *= ratio**2
        self._deviation[row] = self._track_deviation[self._choice[row], row]
        self._product[row] = self._track_product[self._choice[row], row]

    def _move(self, row: int, length: int) -> None:
        """Set the level to that of the newest `length` values."""
        own = self._kept[row, KEPT - length :]
        self._deviation[row] = self._past_deviation[row, 0]
        self._past_deviation[row] = self._deviation[row]
        self._past_memory[row] = self._past_memory[row, 0]
        self._product[row] = self._past_memory[row, 0] * self._deviation[row] ** 2
        self._track_deviation[self._choice[row], row] = self._deviation[row]
        self._track_product[self._choice[row], row] = self._product[row]
        # of two, the one nearer to the level before: the first value of a loss is often the worst
        off = np.abs(own - self._levels[row, KEPT - length - 1])
        self._level[row] = np.median(own) if length > 2 else own[off.argmin()]
        self._anchor[row] = length - 1  # the last of them is counted when it updates the level
        self._since[row] = length
        self._place(row, length)

    def _place(self, row: int, length: int) -> None:
        """Set the level in all tracking methods, for the newest `length` values."""
        self._levels[row, KEPT - length :] = self._level[row]
        self._tracks[:, row] = self._level[row]
        self._track_levels[:, row, KEPT - length :] = self._level[row]
        self._slow[row] = self._level[row]

    def _size(self, row: int, shift: float) -> float:
        signed = self._sign[row] * shift
        return float(signed if self._linear[row] else np.expm1(signed))

    def _values(self, cost: np.ndarray) -> np.ndarray:
        signed = self._sign * cost
        with np.errstate(over="ignore", invalid="ignore"):  # inf is equivalent for a series that fell to 0
            return np.where(self._linear, signed * self._reference, np.exp(np.where(self._linear, 0, signed)))
