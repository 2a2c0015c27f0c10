"""From histories to findings: each series is monitored value by value, relative to its own past and the fleet's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from tenken.history.detect import order
from tenken.history.detect.excursions import SHORT, Excursions
from tenken.history.detect.settings import Settings
from tenken.history.detect.unrest import Unrest
from tenken.history.detect.windows import (
    KEPT,
    LONG,
    LONGEST,
    SLOW,
    SLOW_KEPT,
    SLOW_ONES,
    STRIDE,
    WINDOWS,
    distances,
    span,
    spread_of_mean,
)

_LEAST_MEMORY = 0.1  # autocorrelation that may be chance; from twice this value on it counts in full
_MOST_MEMORY = 0.9
_QUANTILE_80 = 1.2816  # of the magnitude of a normal variable
_CLIPPED = 0.973  # deviation of a normal variable that is drawn in to 2.5 (of which the square is its variance)
_SPREAD_FROM = 20  # initial weight of a window's own spread in values, so that it adapts slowly
_SPREAD_CLIP = 3.0
_SPREAD_AT_LEAST = 0.85
#: Part of a window's own spread, beyond 1, that counts: a hundred values have only some fifteen separate means of seven
_SPREAD_COUNTS = np.array([0.5 if kind == "mean" and length > 5 else 1.0 for kind, length, _, _ in WINDOWS])
_RECENT = 5  # values that determine the end point of a drift
_PAST = 2.5  # standard deviations, and ...
_OVERSHOT = 0.35  # fraction of the recovery beyond which values have passed the former level
_NOTHING_LEFT = 0.2  # fraction of the smallest finding that no longer counts as a regression
_SUDDEN = 0.6  # minimum fraction of a slow change in one step, for it to be reported as that step
_SAME = (0.5, 1.5)  # factor in size within which a subsequent regression is the same
_FORECAST = 3  # number of values whose mean a level predicts
_SLOW_LAG = SLOW_KEPT - 10  # ... and of the slow windows by this many strides: a drift takes long
_FORGIVES = 0.1  # times as slowly nights of fewer samples become the usual ones
_LAG = 6  # delay of the noise estimate relative to the level, in values
_IN_LEARNING = 6.0  # distance at which a level that is being learned is moved
_QUIET = 4  # delay of the loudness estimate in values, so that a change is not mistaken for it
_QUICK = 1 / 8  # weight of the newest value in it
_LOUDER = 1.5  # factor above the usual loudness from which distances are in units of the recent deviation
#: Deviations at which values that may tell scatter are drawn in, and the evidence that it takes.
_SCATTER_CLIP, _SCATTER_NATS = 3.0, 3.0
_UNSURE = 10  # values: nine of ten series became noisy at most this long before their restlessness says
_SCATTERED = 2.5  # standard deviations of a mean, within which no level moved if the series became noisy
_PLAIN = 4.0  # standard deviations of the mean of its values that a change must be that has lasted
_SPIKE = 4.0  # a value so far from the level is a spike


class State(Enum):
    """Of a series on its last night."""

    LEARNING = "learning"  # too few values
    STEADY = "steady"
    SPIKE = "spike"  # this night is abnormal, but the only one so far: no finding
    REGRESSED = "regressed"  # a finding is open
    IMPROVED = "improved"  # better than the level it was learned at


@dataclass(frozen=True)
class Event:
    """A change of level of one series."""

    series: int
    kind: str  # step | drift | noisy
    worse: bool
    change_night: int  # first night of the new behaviour, best estimate
    found_night: int
    #: level now / level before - 1: -0.05 is a bandwidth that fell by 5 %; of a noisy one, the same of its deviation
    size: float
    low: float  # 95 % interval of the size
    high: float
    evidence: float  # nats
    p_value: float  # probability of this evidence on one night of one series without any change
    recovered_night: int | None = None
    #: its end, `recovered_night`, is that of the finding alone: the series became noisy, and no level had moved
    withdrawn: bool = False


@dataclass(frozen=True)
class Noise:
    """The normal behaviour of a series; one entry per series, in cost."""

    level: np.ndarray
    deviation: np.ndarray
    memory: np.ndarray  # autocorrelation from value to value, 0 if not significant
    values: np.ndarray  # number of values in the estimate
    remembered: np.ndarray  # ... effective number for the level
    #: distance at which a window reports, and its spread, shape (series, windows)
    limit: np.ndarray
    spread: np.ndarray
    smallest: np.ndarray  # minimum change that is reported

    def take(self, rows: np.ndarray) -> Noise:
        """The same for some of the series."""
        return Noise(
            self.level[rows], self.deviation[rows], self.memory[rows], self.values[rows],
            self.remembered[rows], self.limit[rows],
            self.spread[rows], self.smallest[rows],
        )  # fmt: skip


@dataclass(frozen=True)
class Findings:
    """The state after the last night; arrays have one entry per series."""

    events: tuple[Event, ...]  # in the order of detection
    state: tuple[State, ...]
    level: np.ndarray  # current normal value
    band: tuple[np.ndarray, np.ndarray]  # approximate range of 95 % of normal nights
    memory: np.ndarray  # estimated autocorrelation from value to value
    evidence: np.ndarray  # nats for an ongoing change for the worse
    p_value: np.ndarray
    nights: np.ndarray  # number of values in level and noise, 0 while learning
    judged: int  # series that were judged on the last night
    noise: Noise = field(repr=False)  # for `power`

    def open_events(self) -> tuple[Event, ...]:
        """Regressions that have not recovered."""
        return tuple(event for event in self.events if event.worse and event.recovered_night is None)


def detect(
    values: np.ndarray,
    higher_is_better: np.ndarray,
    settings: Settings | None = None,
    first_night: int = 0,
    alone_among: int | None = None,
    errors: np.ndarray | None = None,
) -> Findings:
    """Judge every series on every night, with the data available on that night.

    `values` has shape (series, nights), in any unit, NaN where there is no valid value; `higher_is_better` (series,)
    is the direction; `errors`, if given, is the relative standard error of each value from within its own night.
    `first_night` is the number of the first column.  For `alone_among` see `Detector`.  ValueError if shapes disagree.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 2:
        raise ValueError(f"values: {values.ndim} dimensions, expected (series, nights)")
    if errors is not None and np.shape(errors) != values.shape:
        raise ValueError(f"errors: shape {np.shape(errors)}, expected the shape of the values, {values.shape}")
    detector = Detector(higher_is_better, settings, first_night, alone_among)
    if len(values) != detector.series:
        raise ValueError(f"values: {len(values)} series, but {detector.series} directions")
    for night in range(values.shape[1]):
        detector.advance(values[:, night], None if errors is None else errors[:, night])
    return detector.findings()


class Detector:
    """The same, one night at a time: with a stored `state` only the new night is judged.

    `alone_among=n` assumes a fleet of n series, whatever the number given, for benchmarks with many independent
    histories.
    """

    def __init__(
        self,
        higher_is_better: np.ndarray,
        settings: Settings | None = None,
        first_night: int = 0,
        alone_among: int | None = None,
    ) -> None:
        higher = np.asarray(higher_is_better)
        if higher.ndim != 1 or higher.dtype != bool:
            raise ValueError("higher_is_better: expected a vector of booleans, one per series")
        self.settings = settings or Settings()
        count = self.series = len(higher)
        self.night = first_night  # the next one
        self._alone_among = alone_among
        self._sign = np.where(higher, -1.0, 1.0)
        self._learned = np.full((count, self.settings.min_baseline), np.nan)  # the first values
        self._number = np.zeros(count, int)  # values so far
        self._linear = np.zeros(count, bool)  # judged by difference, not by ratio
        self._reference = np.full(count, np.nan)
        ways = len(self.settings.level_weights)
        #: level, deviation, product of neighbouring deviations and error of forecast, for each way to follow the level
        self._tracks = np.full((ways, count), np.nan)
        self._track_levels = np.zeros((ways, count, KEPT))
        self._track_deviation = np.full((ways, count), np.nan)
        self._track_product = np.zeros((ways, count))
        self._track_error = np.ones((ways, count))
        self._choice = np.zeros(count, int)  # the method in use, to which the next four belong
        self._level = np.full(count, np.nan)
        self._anchor = np.zeros(count)  # values in the level
        self._since = np.zeros(count, int)  # values since the level moved
        self._told = np.zeros((2, count), int)  # values since the last reported change, for the worse and the better
        self._deviation = np.full(count, np.nan)
        self._product = np.zeros(count)  # of neighbouring deviations, for the memory
        self._memory = np.zeros(count)
        self._error = np.zeros(count)  # usual standard error within a night
        shape = (count, KEPT)
        self._kept = np.zeros(shape)
        self._levels = np.zeros(shape)
        self._slow = np.zeros((count, SLOW_KEPT))
        self._slow_wanders = np.ones((count, SLOW_KEPT), bool)  # whether the slowest method was not the best
        self._slow_spread = np.ones((SLOW_KEPT, 2, count, len(SLOW_ONES)))
        self._nights = np.full(shape, -1)
        self._long = np.zeros((count, LONG))
        self._long_nights = np.full((count, LONG), -1)
        self._spread = np.ones((2, count, len(WINDOWS)))
        #: deviation, memory and spread some values ago: an ongoing change must not hide itself
        self._past_deviation = np.full((count, _LAG), np.nan)
        self._past_memory = np.zeros((count, _LAG))
        self._past_spread = np.ones((_LAG, 2, count, len(WINDOWS)))
        self._excursions = tuple(Excursions(count, self.settings) for _ in range(2))
        self._distance = np.zeros(count)  # largest tonight for the worse, as a fraction of its limit
        self._judged = 0
        self._events: list[Event] = []
        self._formers: list[float] = []  # the level before each of them
        self._standing: dict[int, list[int]] = {}  # regressions that have not recovered, by series
        self._last_event = np.full(count, -1)
        self._open = np.full(count, -1)  # index of the open regression
        self._returned = np.full(count, -1)  # ... and of the last persistent one from which the series recovered
        #: the former level of the last event of each series
        self._former = np.full(count, np.nan)
        self._former_anchor = np.zeros(count)
        self._back = np.zeros(count)  # evidence for the former level
        self._back_nights = np.zeros(count, int)
        self._unrest = Unrest(count, self.settings)
        self._noisy = np.full(count, -1)  # index of the open event of a series that became noisy
        self._peaks: dict[int, tuple] = {}  # excursions as which they would count, by series
        self._spiked = np.zeros(count, bool)
        #: squared differences of adjacent values: recent, usual, and the loudness of the series _QUIET values ago
        self._quick = np.ones(count)
        self._usual = np.ones(count)
        self._loud = np.ones((count, _QUIET))

    # -- one night

    def advance(self, values: np.ndarray, errors: np.ndarray | None = None) -> list[Event]:
        """Judge one more night, shape (series,); returns the events detected on it."""
        values = np.asarray(values, dtype=float)
        there = np.isfinite(values)
        known = there & (self._number >= self.settings.min_baseline)
        self._learn_first(values, there & ~known)
        found = self._judge(values, known, errors) if known.any() else []
        self._number += there
        fresh = np.flatnonzero(there & (self._number == self.settings.min_baseline))
        if len(fresh):
            self._begin(fresh)
        self.night += 1
        return found

    def _learn_first(self, values: np.ndarray, rows: np.ndarray) -> None:
        at = np.flatnonzero(rows)
        self._learned[at, self._number[at]] = values[at]
        for nights in (self._nights, self._long_nights):
            nights[at, :-1] = nights[at, 1:]
            nights[at, -1] = self.night

    def _begin(self, rows: np.ndarray) -> None:
        """Select the model for series with enough values, and set level and noise."""
        first = self._learned[rows]
        self._linear[rows] = ~(first.min(axis=1) > 0)
        typical = np.median(np.abs(first), axis=1)
        middle = np.median(first, axis=1)
        self._reference[rows] = np.where(self._linear[rows], np.where(typical > 0, typical, 1.0), middle)
        cost = self._costs(first.T, rows).T
        level = np.median(cost, axis=1)
        floor = self._floor(rows)
        near = 1.4826 * np.median(np.abs(cost - level[:, None]), axis=1)
        # where modes are far apart most values lie in one of them, but neighbours often do not
        apart = np.quantile(np.abs(np.diff(cost, axis=1)), 0.8, axis=1) / (_QUANTILE_80 * 2**0.5)
        rough = np.maximum(np.maximum(near, apart), floor)[:, None]
        drawn = np.clip(cost - level[:, None], -3 * rough, 3 * rough)
        level = level + drawn.mean(axis=1)
        drawn = np.clip(cost - level[:, None], -3 * rough, 3 * rough)
        self._level[rows] = level
        self._deviation[rows] = np.maximum(np.sqrt((drawn**2).sum(axis=1) / (drawn.shape[1] - 1)), floor)
        self._product[rows] = (drawn[:, 1:] * drawn[:, :-1]).mean(axis=1)
        self._anchor[rows] = cost.shape[1]
        self._since[rows] = cost.shape[1]
        self._told[:, rows] = cost.shape[1]
        self._kept[rows] = cost[:, -KEPT:]
        self._long[rows, -cost.shape[1] :] = cost
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
        alone = (cost - level[:, None]).ravel()
        for side, excursions in enumerate(self._excursions):
            deviation = np.repeat(self._deviation[rows], cost.shape[1])
            excursions.single(-alone if side else alone, deviation)
        self._unrest.begin(rows, cost - level[:, None], self._deviation[rows], self.night)
        half = np.clip(np.diff(cost, axis=1), -4 * rough, 4 * rough) ** 2 / 2
        self._usual[rows] = self._quick[rows] = np.maximum(half.mean(axis=1), floor**2)

    def _costs(self, values: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        """Logarithm of the value, or its difference from the reference, such that more is worse."""
        reference, linear = self._reference[rows], self._linear[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(np.maximum(values, 1e-6 * np.abs(reference)))
            return self._sign[rows] * np.where(linear, values / reference, ratio)

    def _floor(self, rows: np.ndarray | slice) -> np.ndarray:
        absolute = self.settings.absolute_floor / np.abs(self._reference[rows])
        return np.maximum(self.settings.relative_floor, absolute)

    def _remember(self, rows: np.ndarray | slice) -> None:
        """The autocorrelation of series, 0 unless significant, corrected for its bias (Kendall 1954)."""
        number = np.minimum(np.maximum(self._number[rows], 20), 2 / self.settings.noise_weight)
        memory = self._product[rows] / np.maximum(self._deviation[rows] ** 2, np.finfo(float).tiny)
        memory = memory + (1 + 3 * memory) / number
        stands_out = np.clip((memory - _LEAST_MEMORY) / _LEAST_MEMORY, 0, 1)
        self._memory[rows] = np.clip(memory * stands_out, 0, _MOST_MEMORY)

    def _all_or(self, rows: np.ndarray) -> np.ndarray | slice:
        """The same rows, as a slice where they are all: views, no copies."""
        return slice(None) if len(rows) == self.series else rows

    # -- judging

    def _judge(self, values: np.ndarray, known: np.ndarray, errors: np.ndarray | None) -> list[Event]:
        settings = self.settings
        cost = self._costs(np.where(known, values, 1.0), slice(None))
        cost = self._weighed(cost, known, errors)
        rows = np.flatnonzero(known)
        at = self._all_or(rows)
        for kept, new in (
            (self._kept, cost),
            (self._long, cost),
            (self._long_nights, np.full(len(cost), self.night)),
            (self._levels, self._level),
            (self._nights, np.full(len(cost), self.night)),
        ):
            kept[at, :-1] = kept[at, 1:]
            kept[at, -1] = new[at]
        self._track_levels[:, at, :-1] = self._track_levels[:, at, 1:]
        self._track_levels[:, at, -1] = self._tracks[:, at]
        self._since[at] += 1
        self._told[:, at] += 1
        self._spiked = known & (cost - self._level > _SPIKE * self._deviation)

        away = distances(
            self._kept, self._levels, self._remembered(), self._anchor + 1, self._since, self._past_deviation[:, 0],
            self._past_memory[:, 0], self._slow, self._tracks[-1],
        )  # fmt: skip
        judged = known & (self._number >= settings.judged_from)
        self._judged = int(np.count_nonzero(judged))
        among = self._alone_among or self.series
        # values are counted once it is certain that the level did not move with them
        counted = self._number > settings.min_baseline + LONGEST
        still = np.flatnonzero(known & counted & (self._since >= KEPT - 1))
        alone = self._kept[still, KEPT - 1 - LONGEST] - self._levels[still, KEPT - 2 - LONGEST]
        ratio, best, limits = [], [], []
        loud = self._loudness()
        for side, (distance, shift) in enumerate(((away.worse, away.shift_worse), (away.better, -away.shift_better))):
            excursions = self._excursions[side]
            spread = self._past_spread[0, side].copy()
            spread[:, SLOW_ONES] = self._slow_spread[_SLOW_LAG, side]
            plain = distance / _deviations(spread) / loud
            tellable = shift >= settings.smallest
            # slow changes are normal for a wandering level
            tellable[:, SLOW_ONES] = (shift[:, SLOW_ONES] >= settings.smallest_slow) & ~self._slow_wanders[
                :, _SLOW_LAG, None
            ]
            limit = self._limits(side, among, shift)
            part = np.where(tellable, plain / limit, 0.0)
            excursions.advance(
                np.where(np.isfinite(plain), np.where(SHORT, plain / self._youth(), plain), 0),
                shift,
                known,
                tellable,
            )
            excursions.single(alone if side == 0 else -alone, self._past_deviation[still, 0])
            self._widen(side, distance, known)
            limits.append(limit)
            ratio.append(part.max(axis=1))
            best.append(part.argmax(axis=1))
        self._distance = np.where(known, ratio[0], self._distance)
        found = self._recoveries(rows, cost)
        worse = ratio[0] >= ratio[1]
        loudest = np.maximum(ratio[0], ratio[1])
        plain = self._plain(judged)
        for row in np.flatnonzero(judged & ((loudest > 1) | (plain > 0))).tolist():
            side = 0 if worse[row] else 1
            window = int(best[side][row])
            if not plain[row] and loudest[row] <= self._scattered(row, window, float(loud[row, window])):
                continue
            if not plain[row] and self._since[row] < span(window):
                continue  # the level has returned tonight, after the distance from the one before was computed
            if not plain[row] and loudest[row] <= settings.slowest and self._wanders(row, window):
                continue
            found.append(
                self._open_event(
                    int(row),
                    side,
                    window,
                    float(loudest[row]),
                    float(limits[side][row, window]),
                    int(plain[row]),
                )
            )
        found += self._noises(rows, cost)
        young = np.flatnonzero(known & ~judged & (np.maximum(away.worse, away.better).max(axis=1) > _IN_LEARNING))
        for row in young:
            window = int(np.maximum(away.worse[row], away.better[row]).argmax())
            self._move(int(row), WINDOWS[window][1])
        self._follow(rows, cost)
        return [event for event in found if event is not None]

    def _wanders(self, row: int, window: int) -> bool:
        """Whether a level may have wandered as far as the slowest window says: no step, nor too fast for it."""
        fast = self._choice[row] == len(self._tracks) - 1
        return window == SLOW_ONES[-1] and not fast and not self._lately(row, WINDOWS[window][1])

    def _plain(self, judged: np.ndarray) -> np.ndarray:
        """Number of values of an obvious and persistent change of each series, 0 without one."""
        settings, deviation = self.settings, self._past_deviation[:, 0]
        change, plain = np.zeros(self.series), np.zeros(self.series, int)
        for sign, told in zip((1.0, -1.0), self._told, strict=True):
            shift = order.precedence(sign * self._kept, told)
            found = judged & (shift >= settings.plain) & (plain == 0)
            change[found], plain[found] = shift[found], order.LASTED
        # an improvement is no hurry
        shift = order.ratio(self._long, self._told[0])
        found = judged & (shift >= settings.large) & (plain == 0)
        change[found], plain[found] = shift[found], 2
        # noise that remembers itself lies on one side for long: where it has grown, the order of values tells little
        # of a small change; it does not stay beyond a large one
        rows = np.flatnonzero((plain > 0) & (self._noisy >= 0) & (self._past_memory[:, 0] > 0))
        memory = self._past_memory[rows, 0]
        own = spread_of_mean(memory)[np.arange(len(rows)), plain[rows] - 1] * deviation[rows]
        plain[rows] *= change[rows] >= np.minimum(_PLAIN * own, settings.certain)
        return plain

    def _weighed(self, cost: np.ndarray, known: np.ndarray, errors: np.ndarray | None) -> np.ndarray:
        """Costs of nights with fewer samples than usual, drawn towards the level by their additional noise."""
        if errors is None:
            return cost
        error = np.where(known & np.isfinite(errors), errors, self._error)
        new = np.where(self._error > 0, self._error, error)
        extra = np.maximum(error**2 - new**2, 0)
        factor = np.sqrt(self._deviation**2 / (self._deviation**2 + extra))
        # what is usual follows better nights: the deviation, which follows what is left, rests on it
        weight = self.settings.noise_weight * np.where(error > new, _FORGIVES, 1.0)
        self._error = np.where(known, new + (error - new) * weight, self._error)
        return np.where(known, self._level + (cost - self._level) * factor, cost)

    def _limits(self, side: int, among: int, shift: np.ndarray) -> np.ndarray:
        """Distance at which each window of each series reports.

        Beyond the threshold and the series' own excursions; and, if the change, `shift` (series, windows), is of a size
        that occurs in excursions of the fleet, also beyond their distance.
        """
        settings = self.settings
        excursions = self._excursions[side]
        fleet = np.where(SHORT, settings.young_fleet, settings.young_fleet_long)
        young = self._youth() * (1 + (fleet / np.maximum(excursions.nights, fleet)) ** 2)
        own = np.maximum(excursions.least(), settings.habit * excursions.habit()) * young
        own[:, SLOW_ONES] *= settings.slow
        distance, change = excursions.thresholds(among)
        return np.where(shift >= change, own, np.maximum(own, distance * young))

    def _youth(self) -> np.ndarray:
        """Factor for the uncertainty of a deviation estimated from few values, shape (series, 1)."""
        number = np.maximum(self._number, self.settings.min_baseline)[:, None]
        return 1 + self.settings.youth / np.minimum(number, 2 / self.settings.noise_weight)

    def _loudness(self) -> np.ndarray:
        """Factor by which each series has become louder, 1 if it has not, shape (series, windows).

        The step into a window is the change that the window looks for: it is left out.
        """
        loud = np.repeat(self._loud[:, :1], len(WINDOWS), axis=1)
        reach = 4 * np.sqrt(self._usual)
        for index, (kind, length, _, _) in enumerate(WINDOWS):
            if kind != "slow" and length > _QUIET:  # shorter ones begin after the values of the loudness
                step = np.clip(self._kept[:, -length] - self._kept[:, -length - 1], -reach, reach)
                part = _QUICK * (1 - _QUICK) ** (length - 1 - _QUIET) * (step**2 / 2 / self._usual - 1)
                loud[:, index] = np.sqrt(np.maximum(loud[:, index] ** 2 - np.maximum(part, 0), 0))
        return np.where(loud > _LOUDER, loud, 1.0)

    def _widen(self, side: int, distance: np.ndarray, known: np.ndarray) -> None:
        """Track the actual spread of the windows of a series."""
        there = known[:, None] & np.isfinite(distance)
        square = np.clip(np.where(there, distance, 0), -_SPREAD_CLIP, _SPREAD_CLIP) ** 2
        number = np.minimum(np.maximum(self._number, _SPREAD_FROM), 1 / self.settings.noise_weight)[:, None]
        self._spread[side] = np.where(
            there, self._spread[side] + (square - self._spread[side]) / number, self._spread[side]
        )

    def _follow(self, rows: np.ndarray, cost: np.ndarray) -> None:
        """Update level, noise and autocorrelation with a value; distant ones are drawn in."""
        settings = self.settings
        at = self._all_or(rows)
        self._anchor[at] += 1
        weight = np.maximum(1 / np.maximum(self._number[at], 1), settings.noise_weight)
        settled = self._since[at] > 3
        own = self._kept[at]
        for way, fastest in enumerate(settings.level_weights):
            level, deviation = self._tracks[way, at], self._track_deviation[way, at]
            reach = settings.clip * deviation
            drawn = np.clip(own[:, -1] - level, -reach, reach)
            before = np.clip(own[:, -2] - self._track_levels[way, at, -2], -reach, reach)
            square = np.where(settled, drawn**2 / _CLIPPED**2, deviation**2)
            variance = deviation**2 + weight * (square - deviation**2)
            self._track_deviation[way, at] = np.maximum(np.sqrt(variance), self._floor(at))
            product = np.where(settled, drawn * before, self._track_product[way, at])
            self._track_product[way, at] += weight * (product - self._track_product[way, at])
            error = own[:, -_FORECAST:].mean(axis=1) - self._track_levels[way, at, -_FORECAST - 1]
            error = np.where(self._since[at] > _FORECAST, np.clip(error, -reach, reach) ** 2, np.nan)
            old = self._track_error[way, at]
            self._track_error[way, at] = np.where(np.isnan(error), old, old + weight * (error - old))
            self._tracks[way, at] = level + drawn * np.maximum(1 / self._anchor[at], fastest)
        self._track_levels[:, at, -1] = self._tracks[:, at]
        reach = 4 * np.sqrt(self._usual[at])
        half = np.clip(own[:, -1] - own[:, -2], -reach, reach) ** 2 / 2
        self._quick[at] += _QUICK * (half - self._quick[at])
        self._usual[at] = np.maximum(self._usual[at] + weight * (half - self._usual[at]), self._floor(at) ** 2)
        self._loud[at, :-1] = self._loud[at, 1:]
        self._loud[at, -1] = np.sqrt(self._quick[at] / self._usual[at])
        self._choose(rows)
        self._remember(at)
        due = rows[self._number[rows] % STRIDE == 0]
        for row in [row for row in due.tolist() if row in self._standing]:
            self._mended(row)
        self._slow[due, :-1] = self._slow[due, 1:]
        self._slow[due, -1] = self._tracks[0, due]
        self._slow_wanders[due, :-1] = self._slow_wanders[due, 1:]
        self._slow_wanders[due, -1] = self._choice[due] > 0
        self._slow_spread[:-1, :, due] = self._slow_spread[1:, :, due]
        self._slow_spread[-1, :, due] = self._spread[:, due][:, :, SLOW_ONES].transpose(1, 0, 2)
        for past, now in ((self._past_deviation, self._deviation), (self._past_memory, self._memory)):
            past[at, :-1] = past[at, 1:]
            past[at, -1] = now[at]
        self._past_spread[:-1, :, at] = self._past_spread[1:, :, at]
        if isinstance(at, slice):
            self._past_spread[-1] = self._spread
        else:
            self._past_spread[-1, :, at] = self._spread[:, at].transpose(1, 0, 2)

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

    # -- events

    def _open_event(self, row: int, side: int, window: int, loudness: float, limit: float, plain: int) -> Event | None:
        """Record a change and the level after it; `plain` is the number of values of a persistent one."""
        if plain:
            side = 0 if np.median(self._kept[row, -plain:]) > np.median(self._kept[row, -2 * plain : -plain]) else 1
        slow = not plain and WINDOWS[window][0] == "slow"
        length = plain or WINDOWS[window][1]
        lately = self._lately(row, length) if slow else 0
        sudden = lately > 0
        if slow and not lately:
            new, former, sudden = self._slowly(row, length)
            began = int(self._long_nights[row, LONG - new])
            length = min(new, KEPT - 2) if sudden else _RECENT
        else:
            length = self._beginning(row, lately or length, plain or 2)
            former, began = self._levels[row, KEPT - length - 1], int(self._nights[row, KEPT - length])
        worse = side == 0
        distance = max(loudness, 1.0) * limit
        anchor = self._anchor[row] - length
        shift = float(np.median(self._kept[row, KEPT - length :])) - former
        if (shift if worse else -shift) < max(self.settings.smallest, self._floor(slice(row, row + 1))[0]):
            return None  # a few loud values among normal ones
        kind = "drift" if slow and not sudden else self._kind(row, length)
        self._size_last(row)
        again = int(self._returned[row]) if worse else -1
        if again >= 0 and not self._same(row, again, shift, length):
            again = -1
        self._returned[row] = -1
        self._move(row, length)
        self._told[side, row] = length
        self._former[row], self._former_anchor[row] = former, max(anchor, 1)
        self._back[row], self._back_nights[row] = 0.0, 0
        earlier = self._peaks.pop(row, None)
        self._peaks[row] = (self._excursions[0].take_out(row), self._excursions[1].take_out(row))
        if again >= 0:  # it was absent for only a few values: no new finding, the old one remains
            self._events[again] = self._sized(replace(self._events[again], recovered_night=None))
            self._last_event[row] = self._open[row] = again
            self._standing.setdefault(row, []).append(again)
            return None
        nats = 0.5 * distance**2
        event = Event(
            series=row,
            kind=kind,
            worse=worse,
            change_night=began,
            found_night=self.night,
            size=0.0,
            low=0.0,
            high=0.0,
            evidence=float(nats),
            p_value=float(np.exp(-nats)),
        )
        event = self._sized(event)
        self._last_event[row] = len(self._events)
        self._events.append(event)
        self._formers.append(float(former))
        was = self._open[row]
        if worse:
            self._open[row] = len(self._events) - 1
            self._standing.setdefault(row, []).append(len(self._events) - 1)
        elif was >= 0 and self._way(event) >= self.settings.taken_back * self._way(self._events[was]):
            self._recover(row, event.change_night)
            self._was_excursion(row, was, earlier)
        return event

    def _noises(self, rows: np.ndarray, cost: np.ndarray) -> list[Event | None]:
        """Series that became noisy, and those that are quiet again."""
        off = self._kept[rows, -1] - self._levels[rows, -1]
        jump = self._kept[rows, -1] - self._kept[rows, -2]
        noisy = self._unrest.advance(rows, off, jump, self.night, self._alone_among or self.series)
        ill = rows[self._noisy[rows] >= 0]
        for row in self._unrest.quiet(ill).tolist():
            index = int(self._noisy[row])
            self._events[index] = replace(self._events[index], recovered_night=self.night)
            self._noisy[row] = -1
            self._scatter(row, self._unrest.calm(row))
        found: list[Event | None] = []
        for row in noisy.tolist():
            length, ratio, low, high = self._unrest.moved(row)
            began = self._unrest.night(row, length)
            self._scatter(row, ratio)
            self._withdraw(row, began)
            index = int(self._noisy[row])
            if index >= 0:  # even noisier: the same finding
                was = 1 + self._events[index].size
                self._events[index] = replace(
                    self._events[index], size=was * ratio - 1, low=was * low - 1, high=was * high - 1
                )
                continue
            nats = 0.5 * self.settings.noisy**2
            event = Event(
                row, "noisy", True, began, self.night, ratio - 1, low - 1, high - 1, nats, float(np.exp(-nats))
            )
            self._noisy[row] = len(self._events)
            self._events.append(event)
            self._formers.append(float(self._level[row]))
            found.append(event)
        return found

    def _scatter(self, row: int, ratio: float) -> None:
        """The factor by which the scatter of a series has increased."""
        floor = self._floor(slice(row, row + 1))[0]
        for deviation in (self._track_deviation[:, row], self._past_deviation[row]):
            deviation *= ratio
            np.maximum(deviation, floor, out=deviation)
        self._track_product[:, row] *= ratio**2
        self._deviation[row] = self._track_deviation[self._choice[row], row]
        self._product[row] = self._track_product[self._choice[row], row]
        self._usual[row] = max(self._usual[row] * ratio**2, floor**2)
        self._loud[row] = 1.0

    def _withdraw(self, row: int, night: int) -> None:
        """Withdraw the changes since a series became noisy, on `night`, that its scatter explains: no level moved.

        The mean of the values since such a change lies as near the level before it as this scatter allows. The series
        returns to that level, so that a change too small to be distinguished yet is found later.
        """
        unit = self._deviation[row]
        doubt = (1 + self._memory[row]) / (1 - self._memory[row])
        own, nights = self._long[row], self._long_nights[row]
        first = int(nights[max(LONG - int((nights >= night).sum()) - _UNSURE, 0)])
        gone = []
        for index, event in enumerate(self._events):
            end = event.recovered_night
            if event.series != row or event.kind == "noisy" or event.withdrawn:
                continue
            if event.change_night < first or (end is not None and end <= first):
                continue
            new = own[(nights >= event.change_night) & (nights < (self.night + 1 if end is None else end))]
            off = np.clip(new - self._formers[index], -_SCATTER_CLIP * unit, _SCATTER_CLIP * unit)
            # a change that came and went is the most distant of many means
            within = _SCATTERED if end is None else self.settings.threshold
            if abs(off.mean()) < within * unit * np.sqrt(doubt / len(off)):
                gone.append(index)
                self._events[index] = replace(event, recovered_night=self.night, withdrawn=True)
        if not gone:
            return
        if self._open[row] in gone:
            self._open[row] = -1
        if self._last_event[row] in gone:
            count = int((nights >= self._events[gone[0]].change_night).sum())
            self._peaks.pop(row, None)
            self._returned[row] = -1
            self._former[row] = np.nan
            self._level[row] = self._formers[gone[0]]
            self._anchor[row] = self._former_anchor[row]
            self._since[row] = min(count, KEPT)
            self._place(row, KEPT)

    def _lately(self, row: int, length: int) -> int:
        """Number of newest values since a step that is the major part of a slow window's change; 0 without one."""
        at = SLOW_KEPT - (length + SLOW[length]) // STRIDE
        count = int(min(self._since[row], KEPT))
        own = self._kept[row, KEPT - count :]
        sides = range(2, count - _RECENT + 1)
        steps = [float(np.median(own[-new:]) - np.median(own[:-new])) for new in sides]
        total = float(np.median(own[-_RECENT:])) - float(self._slow[row, at])
        if not steps or total == 0:
            return 0
        best = int(np.argmax(np.array(steps) * np.sign(total)))
        return sides[best] if steps[best] / total >= _SUDDEN else 0

    def _slowly(self, row: int, length: int) -> tuple[int, float, bool]:
        """A change detected by a slow window: (values since its beginning, level before, whether it was sudden).

        It was sudden if one step is the major part of it and fits better than a slope; a slower change is dated to the
        beginning of its slope, or to the largest step of a staircase.
        """
        former = float(self._slow[row, SLOW_KEPT - (length + SLOW[length]) // STRIDE])
        count = length + SLOW[length] + STRIDE
        own = self._long[row, LONG - count :]
        total = float(np.median(own[-_RECENT:])) - former
        reach = self.settings.clip * self._deviation[row]
        own = np.clip(own, min(former, former + total) - reach, max(former, former + total) + reach)
        number = np.arange(1, count)
        sums = np.cumsum(own)[:-1]
        before, after = sums / number, (own.sum() - sums) / (count - number)
        left = ((own - own.mean()) ** 2).sum()
        steps = left - (before - after) ** 2 * number * (count - number) / count  # the residual of a step there
        at = _RECENT - 1 + int(steps[_RECENT - 1 : -1].argmin())
        best, slope = np.inf, 0
        for begin in range(count - 2 * _RECENT):  # a change over fewer values is a step
            x = np.maximum(np.arange(count) - begin, 0.0)
            x -= x.mean()
            over = left - float((own * x).sum()) ** 2 / float((x**2).sum())
            if over < best:
                best, slope = over, begin
        new = count - at - 1 if steps[at] <= best else count - slope - 1
        size = float(np.median(own[count - new :]) - np.median(own[: count - new]))
        sudden = steps[at] <= best and total != 0 and size / total >= _SUDDEN
        return new, float(np.median(own[: count - new])) if sudden else former, bool(sudden)

    def _beginning(self, row: int, length: int, at_least: int = 2) -> int:
        """Number of newest values that best fit a new level: maximum likelihood of a step."""
        own = self._kept[row] - self._levels[row, KEPT - length - 1]
        longest = int(min(self._since[row], KEPT - 2, self._anchor[row] - 2))
        best, most = max(length, at_least), -np.inf
        reach = self.settings.clip * self._deviation[row]
        target = np.median(own[KEPT - length :])
        for count in range(at_least, max(longest, at_least) + 1):
            window = own[KEPT - count :]
            gain = np.clip(window**2, 0, (np.abs(target) + reach) ** 2) - (window - target) ** 2
            total = float(gain.sum())
            if total > most:
                best, most = count, total
        return best

    def _scattered(self, row: int, window: int, loud: float) -> float:
        """How many times as far as usual the newest values scatter about the change that a window saw; 1 unless sure.

        In a loud spell the usual is that of the spell, `loud` times as far: the distance is expressed in it already.

        About the level before the change and about the new one after it: what is left tells a change of scatter from
        a change of level. The likelihood of such a scatter, since any of the newest values, must be great. While a
        regression is open it is always 1: the level lags behind a drift, which would seem to scatter about it.
        """
        last = self._last_event[row]
        if last >= 0 and self._events[last].worse and self._events[last].recovered_night is None:
            return 1.0
        kind, length, _, _ = WINDOWS[window]
        length = self._beginning(row, _RECENT if kind == "slow" else length)
        count = int(min(self._since[row], KEPT - 1))
        if count - length < 2:
            return 1.0
        off = self._kept[row, KEPT - count :] - self._levels[row, KEPT - count - 1 : KEPT - 1]
        new = self._kept[row, KEPT - length :]
        off[count - length :] = new - (np.median(new) if length > 2 else new.mean())
        memory = self._past_memory[row, 0]
        off[1:] -= memory * off[:-1]
        off[1:] /= np.sqrt(1 - memory**2)
        unit = self._past_deviation[row, 0] * loud
        square = np.minimum((off[::-1] / unit) ** 2, _SCATTER_CLIP**2)
        total = np.cumsum(square)[length:]
        free = np.arange(length, count)  # values less the one that the new level took
        ratio = np.maximum(total / free, 1.0)
        nats = 0.5 * free * (ratio - 1 - np.log(ratio))
        at = int(nats.argmax())
        return float(np.sqrt(ratio[at])) if nats[at] >= _SCATTER_NATS else 1.0

    def _kind(self, row: int, length: int) -> str:
        """A drift if a slope from before the beginning fits the newest values better than a step."""
        count = int(min(self._since[row], KEPT - 1))
        if count < 8:
            return "step"
        own = self._kept[row, KEPT - count :] - self._levels[row, KEPT - count]
        x = np.arange(count) - count / 2
        step = own.copy()
        step[: count - length] -= np.mean(own[: count - length]) if count > length else 0
        step[count - length :] -= np.mean(own[count - length :])
        slope = float((own * (x - x.mean())).sum() / ((x - x.mean()) ** 2).sum())
        line = own - own.mean() - slope * (x - x.mean())
        return "drift" if (line**2).sum() < (step**2).sum() else "step"

    def _move(self, row: int, length: int) -> None:
        """Set the level to that of the newest `length` values."""
        own = self._kept[row, KEPT - length :]
        self._deviation[row] = self._past_deviation[row, 0]
        self._past_deviation[row] = self._deviation[row]
        self._past_memory[row] = self._past_memory[row, 0]
        self._product[row] = self._past_memory[row, 0] * self._deviation[row] ** 2
        self._track_deviation[self._choice[row], row] = self._deviation[row]
        self._track_product[self._choice[row], row] = self._product[row]
        self._spread[:, row] = self._past_spread[0, :, row]
        self._past_spread[:, :, row] = self._spread[:, row]
        self._level[row] = np.median(own) if length > 2 else own.mean()
        self._anchor[row] = length - 1  # the last of them is counted when it updates the level
        self._since[row] = length
        self._place(row, length)

    def _place(self, row: int, length: int) -> None:
        """Set the level in all tracking methods, for the newest `length` values."""
        self._levels[row, KEPT - length :] = self._level[row]
        self._tracks[:, row] = self._level[row]
        self._track_levels[:, row, KEPT - length :] = self._level[row]
        self._slow[row] = self._level[row]

    def _size_last(self, row: int) -> None:
        """Update the size of the last change of a series while it is open."""
        index = self._last_event[row]
        if index >= 0 and self._events[index].recovered_night is None and np.isfinite(self._former[row]):
            self._events[index] = self._sized(self._events[index])

    def _sized(self, event: Event) -> Event:
        """The event with its current size."""
        row = event.series
        shift = self._level[row] - self._former[row]
        anchor = max(min(self._anchor[row], self._remembered()[row]), 2)
        doubt = (1 + self._memory[row]) / (1 - self._memory[row])
        error = 1.96 * self._deviation[row] * np.sqrt(doubt * (1 / anchor + 1 / self._former_anchor[row]))
        ends = sorted(self._size(row, shift + way * error) for way in (-1, 1))
        return replace(event, size=self._size(row, shift), low=ends[0], high=ends[1])

    def _size(self, row: int, shift: float) -> float:
        signed = self._sign[row] * shift
        return float(signed if self._linear[row] else np.expm1(signed))

    def _recoveries(self, rows: np.ndarray, cost: np.ndarray) -> list[Event | None]:
        """Recovered changes, by the likelihood of the former level relative to the current one."""
        settings = self.settings
        # a persistent improvement is not an excursion: losing it is a regression
        small = np.abs(self._level[rows] - self._former[rows]) < settings.plain
        young = self._since[rows] <= np.where(small, settings.excursion, order.LASTED)
        young |= self._open[rows] == self._last_event[rows]
        watched = rows[(self._last_event[rows] >= 0) & np.isfinite(self._former[rows]) & young]
        if not len(watched):
            return []
        deviation = self._deviation[watched]
        fewer = (1 - self._memory[watched]) / (1 + self._memory[watched])
        level = self._levels[watched, KEPT - 4]
        level = np.where(self._since[watched] > 3, level, self._level[watched])
        gain = (cost[watched] - level) ** 2 - (cost[watched] - self._former[watched]) ** 2
        gain = np.clip(fewer * gain / (2 * deviation**2), -settings.night_maximum, settings.night_maximum)
        total = np.maximum(self._back[watched] + gain, 0)
        self._back_nights[watched] = np.where(total > 0, self._back_nights[watched] + 1, 0)
        self._back[watched] = total
        back = total >= settings.recovered
        for row, at in zip(watched[back].tolist(), level[back].tolist(), strict=True):
            if not self._beyond(row, at):
                self._return(row)
        return []

    def _mended(self, row: int) -> None:
        """Close regressions whose level returned, slowly or in steps, to the former one or beyond."""
        level = max(self._level[row], self._tracks[0, row])
        standing = []
        for index in self._standing[row]:
            event = self._events[index]
            if event.recovered_night is not None:
                continue
            if level - self._formers[index] > _NOTHING_LEFT * self.settings.smallest:
                standing.append(index)
                continue
            self._events[index] = replace(event, recovered_night=self.night)
            if self._open[row] == index:
                self._open[row] = -1
        self._standing[row] = standing
        if not standing:
            del self._standing[row]
        elif self._open[row] < 0:
            self._open[row] = standing[-1]

    def _beyond(self, row: int, level: float) -> bool:
        """Whether the newest values passed the former level for the worse: a loss, not a recovery."""
        past = self._kept[row] - self._former[row]
        part = _OVERSHOT * abs(self._former[row] - level)
        lately = int(min(self._back_nights[row], _RECENT))
        return any(
            np.median(past[KEPT - count :]) > max(part, _PAST * self._deviation[row] / np.sqrt(count))
            for count in (1, lately)
        )

    def _return(self, row: int) -> None:
        """The former level is restored from the beginning of the evidence for it."""
        length = int(min(self._back_nights[row], KEPT - 1))
        night = int(self._nights[row, KEPT - length])
        self._size_last(row)
        index = self._last_event[row]
        self._events[index] = replace(self._events[index], recovered_night=night)
        lasted_long = self._since[row] - length > self.settings.excursion
        self._returned[row] = index if self._events[index].worse and lasted_long else -1
        if self._open[row] == index:
            self._open[row] = -1
        self._was_excursion(row, index, self._peaks.pop(row, None))
        self._level[row] = self._former[row]
        self._anchor[row] = self._former_anchor[row] + length - 1
        self._since[row] = length
        self._place(row, KEPT)
        self._former[row] = np.nan

    def _way(self, event: Event) -> float:
        """How far an event moved the level, in cost."""
        return float(abs(event.size if self._linear[event.series] else np.log1p(event.size)))

    def _same(self, row: int, index: int, shift: float, length: int) -> bool:
        """Whether a change is a persistent regression that was absent for at most order.LASTED values."""
        before = self._way(self._events[index])
        return bool(self._since[row] - length <= order.LASTED and _SAME[0] * before <= shift <= _SAME[1] * before)

    def _was_excursion(self, row: int, index: int, peaks: tuple | None) -> None:
        """Learn from a short-lived change."""
        if peaks is not None and self.night - self._events[index].found_night <= self.settings.excursion:
            for excursions, one in zip(self._excursions, peaks, strict=True):
                excursions.put_back(row, one)

    def _recover(self, row: int, night: int) -> None:
        index = self._open[row]
        self._events[index] = replace(self._events[index], recovered_night=night)
        self._open[row] = -1

    # -- state

    def noise(self) -> Noise:
        """The state of each series; NaN levels if unknown."""
        known = self._number >= self.settings.min_baseline
        limit = self._limits(0, self._alone_among or self.series, np.zeros((self.series, len(WINDOWS))))
        return Noise(
            level=np.where(known, self._level, np.nan),
            deviation=np.where(known, self._deviation, np.nan),
            memory=self._memory.copy(),
            values=np.where(known, self._number, 0),
            remembered=np.maximum(np.minimum(self._anchor, self._remembered()), 1),
            limit=limit,
            spread=_deviations(self._spread[0]),
            smallest=np.full(self.series, self.settings.smallest),
        )

    def findings(self) -> Findings:
        """The state after the nights so far."""
        for row in np.flatnonzero(self._last_event >= 0).tolist():
            self._size_last(row)
        ready = self._number >= self.settings.judged_from
        known = self._number >= self.settings.min_baseline
        reach = 2 * self._deviation
        ends = (self._values(self._level - reach), self._values(self._level + reach))
        evidence = np.where(known, 0.5 * (np.maximum(self._distance, 0) * self.settings.threshold) ** 2, 0.0)
        return Findings(
            events=tuple(self._events),
            state=tuple(self._state(row, bool(ready[row])) for row in range(self.series)),
            level=np.where(known, self._values(self._level), np.nan),
            band=(np.where(known, np.minimum(*ends), np.nan), np.where(known, np.maximum(*ends), np.nan)),
            memory=self._memory.copy(),
            evidence=evidence,
            p_value=np.exp(-evidence),
            nights=np.where(ready, self._number, 0),
            judged=int(np.count_nonzero(ready)),
            noise=self.noise(),
        )

    def _values(self, cost: np.ndarray) -> np.ndarray:
        signed = self._sign * cost
        with np.errstate(over="ignore", invalid="ignore"):  # inf is equivalent for a series that fell to 0
            return np.where(self._linear, signed * self._reference, np.exp(np.where(self._linear, 0, signed)))

    def _state(self, row: int, ready: bool) -> State:
        if not ready:
            return State.LEARNING
        if self._open[row] >= 0 or self._noisy[row] >= 0:
            return State.REGRESSED
        if self._spiked[row]:
            return State.SPIKE
        last = self._last_event[row]
        if last >= 0 and not self._events[last].worse and self._events[last].recovered_night is None:
            return State.IMPROVED
        return State.STEADY


def _deviations(spread: np.ndarray) -> np.ndarray:
    """Deviation of the distances of each window, from the mean of their squares; both of shape (series, windows)."""
    return np.sqrt(np.maximum(1 + _SPREAD_COUNTS * (spread - 1), _SPREAD_AT_LEAST))
