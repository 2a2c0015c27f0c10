"""The behaviour of a fleet without lasting changes: how far its series stray from their levels before they return.

An excursion is a run of values at a distance of one or more; its peak is the largest distance. The peaks of all series,
by window and direction, determine the distance at which the fleet would raise false alarms at the permitted rate.
Lasting changes are not excursions: they are removed when they are found.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from tenken.history.detect.order import MANY, RECENT
from tenken.history.detect.settings import Settings
from tenken.history.detect.windows import FINE, NORMAL, REACH, STRIDE, WINDOWS

#: Width of the bins of distances, in deviations (two of the steps of sums), and of changes, in cost (half of the least
#: noise of a night); bins: up to 300, and up to a factor of 20.
BIN, _FAR_BIN, BINS = 2 * REACH / FINE, Settings.relative_floor / 2, 3000
#: An excursion ends below this distance; peaks below the second number contain no information about the tail.
OVER, COUNTED = 1.0, 2.0
#: Distance and change over which the frequency of peaks is assumed to fall to 1/e, unless as many peaks as
#: _USUAL_WEIGHT show otherwise: that of normal noise at the threshold, and the least noise of a night.
USUAL, _FAR_USUAL, _USUAL_WEIGHT = 1 / Settings.threshold, Settings.relative_floor, MANY
#: Windows of two and three values may report closer to the level, at this part of the threshold, and have this part of
#: the permitted rate: no other window can find a step as soon (docs/statistics.md has the table).
SHORT = np.array([length < RECENT for _, length in WINDOWS])
_NEARER, _SHARE = 0.8, np.where(SHORT, 2.0, 1.0)
#: Windows of this many values are not short, and not long enough for their means to be normal if the values are skewed.
#: Values beyond the threshold contain no information about it, and two of them at once are counted separately.
_SKEWED = np.array([kind == "mean" and RECENT <= length < MANY for kind, length in WINDOWS])
_FAR_SHARE = 0.01  # of single values: bins that show in which series they stray far


def _allowed(settings: Settings, among: int = 0) -> np.ndarray:
    """Share of nights on which one window of one series of a fleet may report by chance, (windows,)."""
    return np.asarray(settings.false_findings / max(among, settings.fleet) / len(WINDOWS) * 2 * _SHARE)


def _filled(count: np.ndarray) -> np.ndarray:
    """The bins up to the last one that is not empty: the rest is long and empty."""
    return count[: len(count) - int((count[::-1] > 0).argmax())]


def _pairs(share: np.ndarray, reach: float) -> np.ndarray:
    """Probability that the mean of two independent values, the larger clipped to `reach` bins beyond the other, is
    beyond each bin; `share` is the probability of one."""
    chance = share**2
    one = share - np.append(share[1:], 0.0)
    for apart in range(1, min(int(reach / 2), len(share) - 1) + 1):
        # one that is this many bins below the mean, and one at least as many above it
        chance[apart:-apart] += 2 * one[: -2 * apart] * share[2 * apart :]
    return chance


def beyond(
    count: np.ndarray, width: float, usual: float, least: float, allowed: float, exposed: float, largest: int
) -> float:
    """The height that peaks exceed on the share `allowed` of series-nights, at least `least`.

    `count` are the peaks by height in bins of `width`, from `exposed` series-nights. Beyond the height that `largest`
    of them exceed, their frequency is assumed to decay exponentially (peaks over threshold; Pickands 1975); `usual` is
    the decay while few are known.
    """
    count = _filled(count)
    above = np.cumsum(count[::-1])[::-1]
    if exposed <= 0 or above[0] < 1:
        return least
    # the height that `largest` peaks exceed; all of them if there are fewer
    at = int(np.flatnonzero(above >= min(largest, above[0]))[-1])
    height = np.arange(len(count)) * width
    # half a bin: a peak is anywhere in its bin
    excess = (count[at:] * (height[at:] - height[at] + width / 2)).sum()
    excess = (excess + usual * _USUAL_WEIGHT) / (above[at] + _USUAL_WEIGHT)
    rate = above[at] / exposed
    return max(least, float(height[at] + excess * np.log(max(rate / allowed, 1.0))))


def skewed(threshold: float, skewness: float, lengths: np.ndarray) -> np.ndarray:
    """Addition to a threshold, so that means of this many values of this skewness exceed it as rarely as normal ones.

    The first term of the expansion of Cornish and Fisher (1938).
    """
    return np.asarray((threshold**2 - 1) / 6 * max(float(skewness), 0.0) / np.sqrt(lengths))


class Excursions:
    """Of one direction."""

    def __init__(self, series: int, settings: Settings) -> None:
        self._settings = settings
        windows = len(WINDOWS)
        self._count = np.zeros((windows, BINS))  # of peaks by distance
        self._far_count = np.zeros((windows, BINS))  # ... and by change of the level
        #: single values, by distance from their level and by change: the evidence of two or three such at once
        self._single = np.zeros(BINS)
        self._far_single = np.zeros(BINS)
        self._watched = np.zeros(1)  # number of them
        self._cubes = np.zeros(1)  # sum of the cubes of their distances
        self._exposed = 0.0  # series-nights that the counts come from
        self.nights = 0  # nights on which anything was monitored
        self._peak = np.zeros((series, windows))  # of the current excursion
        self._far = np.zeros((series, windows))
        self._age = np.zeros((series, windows), int)  # its values so far
        #: values after which an excursion is a lasting change
        self._lasting = np.array([settings.min_baseline + length for _, length in WINDOWS])
        #: reported changes, in case they recover
        self._found_peak = np.zeros((series, windows))
        self._found_far = np.zeros((series, windows))
        self._limits = np.zeros((3, windows))

    def thresholds(self, among: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each of shape (windows,): minimum distance at which a window may report a change of any size; and distance
        and change of the level that a fleet of this many series exceeds at the permitted rate, by its excursions, and
        by its single values as if they were independent.
        """
        if self.nights % STRIDE == 0:
            # nearer by half once the tail is known: of so many values MANY are as far as two at once may be by chance
            needed = MANY / sqrt(float(_allowed(self._settings)[0]))
            known = float(self._watched[0] / (self._watched[0] + needed))
            least = self._settings.threshold * np.where(SHORT, 1 - (1 - _NEARER) * known, 1.0)
            least = np.where(_SKEWED, least + self._skewed(), least)
            self._limits = np.stack([least, self._limit(among, least, True), self._limit(among, least, False)])
        return self._limits[0], self._limits[1], self._limits[2]

    def _skewed(self) -> np.ndarray:
        """Addition to the threshold, (windows,), so that means of this fleet's values exceed it as rarely as means of
        normal values."""
        lengths = np.array([length for _, length in WINDOWS])
        return skewed(self._settings.threshold, self._cubes[0] / max(self._watched[0], 1.0), lengths)

    def _limit(self, among: int, least: np.ndarray, scaled: bool) -> np.ndarray:
        settings = self._settings
        width, usual = (BIN, USUAL) if scaled else (_FAR_BIN, _FAR_USUAL)
        least = least if scaled else np.full(len(WINDOWS), settings.smallest)
        allowed = _allowed(settings, among)
        counts = self._count if scaled else self._far_count
        peaks = [
            beyond(count, width, usual, float(at_least), float(share), self._exposed, settings.largest)
            for count, at_least, share in zip(counts, least, allowed, strict=True)
        ]
        return np.maximum(peaks, self._at_once(scaled, allowed)) if self._watched[0] > 0 else np.array(peaks)

    def _at_once(self, scaled: bool, allowed: np.ndarray) -> np.ndarray:
        """The distance that windows exceed by chance if values are independent: the probability of as many far values
        at once as a window needs.

        For two values both count, the larger clipped to a reach beyond the other; for the change of a window
        (`windows.distances`) the reach is longer by twice the mean that is subtracted. For more values, all of a `min`
        window and two of a `mean` window.
        """
        single, width = (self._single, BIN) if scaled else (self._far_single, _FAR_BIN)
        share = np.cumsum(_filled(single)[::-1])[::-1] / self._watched[0]  # of values beyond the beginning of each bin
        out = np.zeros(len(WINDOWS))
        for index, ((kind, length), (mean, unit)) in enumerate(zip(WINDOWS, NORMAL, strict=True)):
            if kind == "slow":
                continue
            if length == 2:
                reach = REACH if kind == "mean" else 0.0
                bins = (reach if scaled else (reach - 2 * mean) * self._unit()) / width
                step = max(round(bins / FINE), 1)  # as exact as necessary, at the same cost for every noise
                far = np.count_nonzero(_pairs(share[::step], bins / step) > allowed[index]) * width * step
            elif kind == "min":
                far = np.count_nonzero(share > allowed[index] ** (1 / length)) * width
            else:
                far = np.count_nonzero(share > np.sqrt(2 * allowed[index] / (length * (length - 1)))) * width
                far = (2 * far + (REACH if scaled else 0.0)) / length
            out[index] = (far - mean) / unit if scaled else far
        return out

    def _unit(self) -> float:
        """Deviation, in cost, of the series with far values: their distance in cost over their distance in
        deviations."""
        far = [
            np.count_nonzero(np.cumsum(_filled(single)[::-1])[::-1] > _FAR_SHARE * self._watched[0]) * width
            for single, width in ((self._far_single, _FAR_BIN), (self._single, BIN))
        ]
        return float(far[0] / max(far[1], BIN))

    def single(self, change: np.ndarray, deviation: np.ndarray) -> None:
        """Adds single values of series whose level has not changed since, as distances from the level at that time."""
        self._watched[0] += len(change)
        self._cubes[0] += (np.clip(change / deviation, -self._settings.threshold, self._settings.threshold) ** 3).sum()
        for counts, value, width in ((self._single, change / deviation, BIN), (self._far_single, change, _FAR_BIN)):
            bins = np.clip((value / width).astype(int), 0, BINS - 1)[value > 0]
            counts += np.bincount(bins, minlength=BINS)

    def advance(self, distance: np.ndarray, change: np.ndarray, there: np.ndarray, tellable: np.ndarray) -> None:
        """Adds one night's distances and changes, shape (series, windows); rows that are not `there` are unchanged.

        Only changes large enough to be reported, `tellable` (series, windows), count for the fleet.
        """
        forgetting = self._settings.forgetting
        self.nights += 1
        for counts in (self._count, self._far_count, self._single, self._far_single, self._watched, self._cubes):
            counts *= forgetting
        self._exposed = self._exposed * forgetting + np.count_nonzero(there)
        rows = there[:, None]
        self._age[there] += self._peak[there] > 0
        self._settle(rows & (distance < OVER) & (self._peak > 0))
        higher = rows & tellable & (distance > self._peak) & (distance >= COUNTED)
        np.copyto(self._peak, distance, where=higher)
        np.maximum(change, self._far, out=self._far, where=higher)

    def _settle(self, over: np.ndarray) -> None:
        """Excursions that have ended: those that returned soon count, those that lasted were changes."""
        self._add(over & (self._age <= self._lasting[None, :]), self._peak, self._far)
        for one in (self._peak, self._far, self._age):
            one[over] = 0

    def _add(self, which: np.ndarray, peak: np.ndarray, far: np.ndarray) -> None:
        row, window = np.nonzero(which)
        for count, value, width in ((self._count, peak, BIN), (self._far_count, far, _FAR_BIN)):
            np.add.at(count, (window, np.clip((value[row, window] / width).astype(int), 0, BINS - 1)), 1.0)

    def take_out(self, row: int) -> None:
        """The current excursion of a series is a change that was found."""
        self._found_peak[row], self._found_far[row] = self._peak[row], self._far[row]
        for one in (self._peak, self._far, self._age):
            one[row] = 0

    def put_back(self, row: int) -> None:
        """The change that was found recovered soon: it was an excursion."""
        peak, far = self._found_peak[row : row + 1], self._found_far[row : row + 1]
        self._add(peak >= COUNTED, peak, far)
        peak[:] = 0
