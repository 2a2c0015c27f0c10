"""What a fleet does when nothing lasting happens: how far its series stray from their levels and come back.

An excursion is a run of values at a distance of one or more; its peak is the largest distance.  The peaks of all
series, by window and direction, tell at which distance the fleet would cry wolf as often as is allowed; the two
largest of each series tell what is a habit of its own.  Changes that last are no excursions: they are taken out when
they are found, and put back if they turn out to come and go.
"""

from __future__ import annotations

import numpy as np

from tenken.history.detect.settings import Settings
from tenken.history.detect.windows import REACH, SLOW, USUAL_REACH, WINDOWS

_BIN = 0.1
_FAR_BIN = 0.001
_BINS = 3000  # distances up to 300, changes up to a factor of 20
_COUNTED = 2.0  # lower peaks tell nothing of the tail
_OVER = 1.0  # an excursion ends below this distance
_HABIT_FADES = 0.997  # of a series' own excursions, a value
_LASTING = 20  # an excursion of more values than this and the window's own is a change that lasts
_USUAL, _USUAL_WEIGHT = (
    0.25,
    10.0,
)  # distance by which the frequency of peaks falls to 1/e, unless as many say otherwise
_FAR_USUAL = 0.002
#: Of what is allowed, the parts of the windows that can speak first, for (distances, changes): where the fleet's tail
#: is that of normal values, whose limits are hardly ever met, and from _HEAVY factors e on.  Of heavy tails the better
#: of two values says more than their mean, and the change more than the distance: a deviation is known badly there.
_SHARES = {
    ("min", 2): ((2.6, 2.6), (0.5, 3.3)),
    ("mean", 2): ((4.0, 4.0), (0.5, 0.5)),
    ("mean", 3): ((4.2, 4.2), (1.0, 1.0)),
}
_HEAVY = 1.1
_SKEW_CLIP = 4.0  # values beyond it tell no skewness: two of them at once are counted for themselves
_SKEWED = 1.0
#: Windows of two and three values may speak nearer, at this part of the threshold: there are few habits so short.  The
#: heavier the fleet's tail, the less: by so much per factor e by which more values than normal lie beyond _TAIL
#: deviations.
SHORT = np.array([length <= 3 for _, length, _, _ in WINDOWS])
_NEARER, _PER_TAIL = 0.85, 0.07
_FINE = 20  # bins of a reach at which pairs of values are counted
_FAR_SHARE = 0.01  # of single values: those that tell in which series they go far
_TAIL, _NORMAL_TAIL = 2.5, 0.00621
_ASSUMED, _ASSUMED_FROM = 4.0, 2000.0  # a heavy tail, known from so many values, until the fleet's own have been seen


def _filled(count: np.ndarray) -> np.ndarray:
    """The bins up to the last that holds any: the rest is long and empty."""
    return count[: len(count) - int((count[::-1] > 0).argmax())]


def _pairs(share: np.ndarray, reach: float) -> np.ndarray:
    """Chance that the mean of two independent values, the larger drawn in to `reach` bins beyond the other, lies beyond
    each bin; `share` is the chance of one."""
    chance = share**2
    one = share - np.append(share[1:], 0.0)
    for apart in range(1, min(int(reach / 2), len(share) - 1) + 1):
        # one that is so many bins below the mean, and one at least as many above it
        chance[apart:-apart] += 2 * one[: -2 * apart] * share[2 * apart :]
    return chance


def beyond(
    count: np.ndarray, width: float, usual: float, least: float, allowed: float, exposed: float, largest: int
) -> float:
    """The height that peaks exceed on the share `allowed` of series-nights, at least `least`.

    `count` are the peaks by height in bins of `width`, seen on so many `exposed` series-nights.  Those beyond the one
    that `largest` of them exceed are taken to fall off exponentially; `usual` is their decay while few are known.
    """
    count = _filled(count)
    above = np.cumsum(count[::-1])[::-1]
    if exposed <= 0 or above[0] < 1:
        return least
    # the one that `largest` peaks exceed; all of them where there are fewer
    at = int(np.flatnonzero(above >= min(largest, above[0]))[-1])
    height = np.arange(len(count)) * width
    # half a bin: a peak lies anywhere in its own
    excess = (count[at:] * (height[at:] - height[at] + width / 2)).sum()
    excess = (excess + usual * _USUAL_WEIGHT) / (above[at] + _USUAL_WEIGHT)
    rate = above[at] / exposed
    return max(least, float(height[at] + excess * np.log(max(rate / allowed, 1.0))))


class Excursions:
    """Of one direction."""

    def __init__(self, series: int, settings: Settings) -> None:
        self._settings = settings
        windows = len(WINDOWS)
        self._count = np.zeros((windows, _BINS))  # of peaks by distance
        self._far_count = np.zeros((windows, _BINS))  # ... and by change of the level
        #: single values, by distance from their level and by change: what two or three such at once are worth
        self._single = np.zeros((1, _BINS))
        self._far_single = np.zeros((1, _BINS))
        self._watched = np.zeros(1)  # number of them
        self._cubes = np.zeros(1)  # sum of the cubes of their distances
        self._exposed = 0.0  # series-nights that the counts rest on
        self.nights = 0  # on which anything was watched
        self._peak = np.zeros((series, windows))  # of the excursion under way
        self._far = np.zeros((series, windows))
        self._age = np.zeros((series, windows), int)  # its values so far
        self._lasting = np.array(
            [_LASTING + length + SLOW.get(length, 0) * (kind == "slow") for kind, length, _, _ in WINDOWS]
        )
        self._largest = np.zeros((series, windows))
        self._second = np.zeros((series, windows))

    def habit(self) -> np.ndarray:
        """Distance, shape (series, windows), that a series goes to and comes back from by habit."""
        return np.maximum(self._second, np.minimum(self._largest, self._peak))

    def _heaviness(self) -> float:
        """How many factors e more of the fleet's values than of normal ones lie beyond _TAIL deviations; at least 0."""
        far = float(self._single[0, round(_TAIL / _BIN) :].sum()) / _NORMAL_TAIL
        return float(np.log(max((far + _ASSUMED * _ASSUMED_FROM) / (self._watched[0] + _ASSUMED_FROM), 1.0)))

    def nearer(self) -> np.ndarray:
        """Part of the threshold at which each window may speak, shape (windows,)."""
        return np.where(SHORT, np.minimum(_NEARER + _PER_TAIL * self._heaviness(), 1.0), 1.0)

    def least(self) -> np.ndarray:
        """Minimum distance at which each window may speak, shape (windows,), whatever the size of the change.

        Means of up to three values are judged by the single ones, and those of ten and more find drifts.
        """
        least = self._settings.threshold * self.nearer()
        for index, (kind, length, _, _) in enumerate(WINDOWS):
            if kind == "mean" and 3 < length < 10:
                least[index] += self._skewed(length)
        return least

    def _share(self, window: int, scaled: bool) -> float:
        """Of the allowed false findings, the part of a window, by distance (`scaled`) or by change."""
        shares = _SHARES.get(WINDOWS[window][:2])
        if shares is None:
            return 1.0
        normal, heavy = (one[0 if scaled else 1] for one in shares)
        return normal + (heavy - normal) * min(self._heaviness() / _HEAVY, 1.0)

    def thresholds(self, among: int) -> tuple[np.ndarray, np.ndarray]:
        """Distance and change of the level, each of shape (windows,), beyond which a fleet of so many series strays as
        often as is allowed.

        The peaks beyond the one that `largest` of them exceed are taken to fall off exponentially (peaks over
        threshold; Pickands 1975).
        """
        settings = self._settings
        least, smallest = settings.threshold * self.nearer(), np.full(len(WINDOWS), settings.smallest)
        distance = self._beyond(self._count, _BIN, _USUAL, least, among)
        change = self._beyond(self._far_count, _FAR_BIN, _FAR_USUAL, smallest, among)
        if self._watched[0] > 0:
            distance = np.maximum(distance, self._at_once(self._single[0], _BIN, True, among, least))
            change = np.maximum(change, self._at_once(self._far_single[0], _FAR_BIN, False, among, smallest))
        return distance, change

    def _wanted(self, among: int) -> float:
        """Share of nights on which one window of one series may speak by chance."""
        settings = self._settings
        return settings.false_findings_per_month / 30 / max(among, settings.fleet) / len(WINDOWS) * 2

    def _at_once(self, single: np.ndarray, width: float, scaled: bool, among: int, least: np.ndarray) -> np.ndarray:
        """How far windows come by chance where values are independent: by as many far values at once as it takes.

        Of two values both count, of which the larger is drawn in to a reach beyond the other; for the change that a
        window speaks of (`windows.distances`) the reach is longer by twice the mean that is taken off.  Of more, all of
        a `min` window and two of a `mean` window.
        """
        share = np.cumsum(_filled(single)[::-1])[::-1] / self._watched[0]  # of values beyond the beginning of each bin
        out = np.zeros(len(WINDOWS))
        for index, (kind, length, mean, unit) in enumerate(WINDOWS):
            if kind == "slow":
                continue
            if length == 2:
                reach = REACH[2] if kind == "mean" else 0.0
                bins = (reach if scaled else (reach - 2 * mean) * self._unit()) / width
                step = max(round(bins / _FINE), 1)  # as exact as need be, at the same cost for every noise
                pairs = _pairs(share[::step], bins / step)
                far = np.count_nonzero(pairs > self._share(index, scaled) * self._wanted(among)) * width * step
                out[index] = (far - mean) / unit if scaled else far
                continue
            if kind == "min":
                each = (self._share(index, scaled) * self._wanted(among)) ** (1 / length)
            else:
                each = (2 * self._wanted(among) / (length * (length - 1))) ** 0.5
            far = np.count_nonzero(share > each) * width
            reach = REACH.get(length, USUAL_REACH) if scaled else 0.0
            far = far if kind == "min" else (2 * far + reach) / length
            out[index] = (far - mean) / unit if scaled else far
            if scaled and kind == "mean" and length > 2:
                out[index] = max(out[index], least[index] + self._skewed(length))
        return out

    def _unit(self) -> float:
        """Deviation, in cost, of the series of which values go far: how far in cost over how far in deviations."""
        far = [
            np.count_nonzero(np.cumsum(_filled(single)[::-1])[::-1] > _FAR_SHARE * self._watched[0]) * width
            for single, width in ((self._far_single[0], _FAR_BIN), (self._single[0], _BIN))
        ]
        return float(far[0] / max(far[1], _BIN))

    def _skewed(self, length: int) -> float:
        """What a mean of so many of this fleet's values needs beyond the threshold, to be as rare as of normal ones."""
        usual, skewness = self._settings.threshold, max(self._cubes[0] / max(self._watched[0], 1.0), 0.0)
        return float(_SKEWED * (usual**2 - 1) / 6 * skewness / length**0.5)

    def _beyond(self, count: np.ndarray, width: float, usual: float, least: np.ndarray, among: int) -> np.ndarray:
        wanted, largest = self._wanted(among), self._settings.largest
        allowed = [wanted * self._share(window, width == _BIN) for window in range(len(WINDOWS))]
        return np.array(
            [beyond(peaks, width, usual, float(least[window]), allowed[window], self._exposed, largest)
             for window, peaks in enumerate(count)]
        )  # fmt: skip

    def single(self, change: np.ndarray, deviation: np.ndarray) -> None:
        """Add single values of series whose level has not changed since, as distances from the level at that time."""
        self._watched[0] += len(change)
        cubes = np.clip(change / deviation, -_SKEW_CLIP, _SKEW_CLIP) ** 3
        self._cubes[0] += cubes.sum()
        for counts, value, width in ((self._single, change / deviation, _BIN), (self._far_single, change, _FAR_BIN)):
            bins = np.clip((value / width).astype(int), 0, _BINS - 1)[value > 0]
            counts[0] += np.bincount(bins, minlength=_BINS)

    def advance(self, distance: np.ndarray, change: np.ndarray, there: np.ndarray, tellable: np.ndarray) -> None:
        """Take in one night's distances and changes, shape (series, windows); rows that are not `there` are left alone.

        Only what is large enough to be told, `tellable` (series, windows), counts for the fleet.
        """
        settings = self._settings
        self.nights += 1
        for counts in (self._count, self._far_count, self._single, self._far_single, self._watched, self._cubes):
            counts *= settings.forgetting
        self._exposed = self._exposed * settings.forgetting + np.count_nonzero(there)
        rows = there[:, None]
        fades = np.where(there, _HABIT_FADES, 1.0)[:, None]
        self._largest *= fades
        self._second *= fades
        self._age[there] += self._peak[there] > 0
        over = rows & (distance < _OVER) & (self._peak > 0)
        self._settle(over)
        higher = rows & tellable & (distance > self._peak) & (distance >= _COUNTED)
        np.copyto(self._peak, distance, where=higher)
        np.maximum(change, self._far, out=self._far, where=higher)

    def _settle(self, over: np.ndarray) -> None:
        """Excursions that have ended: those that came back soon count, those that lasted were changes."""
        if not over.any():
            return
        came_back = over & (self._age <= self._lasting[None, :])
        peak = np.where(came_back, self._peak, 0)
        self._second = np.maximum(self._second, np.minimum(self._largest, peak))
        self._largest = np.maximum(self._largest, peak)
        row, window = np.nonzero(came_back)
        self._add(window, self._peak[row, window], self._far[row, window])
        for one in (self._peak, self._far, self._age):
            np.copyto(one, 0, where=over)

    def _add(self, window: np.ndarray, peak: np.ndarray, far: np.ndarray) -> None:
        for count, value, width in ((self._count, peak, _BIN), (self._far_count, far, _FAR_BIN)):
            np.add.at(count, (window, np.clip((value / width).astype(int), 0, _BINS - 1)), 1.0)

    def take_out(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The excursion of a series under way is a change that was found: its peaks, for `put_back`."""
        peaks = self._peak[row].copy(), self._far[row].copy()
        self._peak[row] = 0
        self._far[row] = 0
        self._age[row] = 0
        return peaks

    def put_back(self, row: int, peaks: tuple[np.ndarray, np.ndarray]) -> None:
        """The change came back: it was an excursion."""
        peak, far = peaks
        window = np.flatnonzero(peak >= _COUNTED)
        self._add(window, peak[window], far[window])
        self._second[row] = np.maximum(self._second[row], np.minimum(self._largest[row], peak))
        self._largest[row] = np.maximum(self._largest[row], peak)
