"""From histories to findings: each series is watched night by night, and the fleet decides what is reported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from reports.detect.evidence import Bank, Evidence
from reports.detect.noise import Noise, cell, estimate_shift, fit, row_median
from reports.detect.settings import Settings

_RECENT = 5  # nights that tell where a drift has come to
_HINDSIGHT = 2  # nights after a finding on which its beginning is told anew
_SPARE = 100  # columns by which the kept history may grow before the oldest are dropped
_KNOWN = 60  # nights after which a new level is as well known as it need be
_RETURNED = 0.65  # a regression that loses this much of its size is over


class State(Enum):
    """Of a series on its last night."""

    LEARNING = "learning"  # too few nights of baseline
    STEADY = "steady"
    SPIKE = "spike"  # this night is beyond the ordinary, alone so far: no finding
    REGRESSED = "regressed"  # a finding is open
    IMPROVED = "improved"  # better than the level it was learned at


@dataclass(frozen=True)
class Event:
    """A change of level of one series."""

    series: int
    kind: str  # step | drift
    worse: bool
    change_night: int  # first night of the new behaviour, as best told
    found_night: int
    size: float  # new level / old level - 1: -0.05 is a bandwidth that fell by 5 %
    low: float  # 95 % interval of the size
    high: float
    evidence: float  # nats
    p_value: float  # chance of so much evidence on one night of one series without any change
    recovered_night: int | None = None


@dataclass(frozen=True)
class Findings:
    """What is known after the last night; arrays have one entry a series."""

    events: tuple[Event, ...]  # in the order in which they were found
    state: tuple[State, ...]
    level: np.ndarray  # ordinary value now
    band: tuple[np.ndarray, np.ndarray]  # values between which 95 % of ordinary nights lie, about
    memory: np.ndarray  # autocorrelation from night to night that was found
    evidence: np.ndarray  # nats for a change for the worse that is under way
    p_value: np.ndarray
    nights: np.ndarray  # nights of baseline
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
) -> Findings:
    """Judge every series on every night, as it would have been judged that night.

    `values` has shape (series, nights), in any unit, NaN where there is no valid value; `higher_is_better` (series,)
    is the direction.  `first_night` is the number of the first column: histories whose oldest nights were cut off
    are judged alike if it counts on.  For `alone_among` see `Detector`.  ValueError where shapes disagree.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 2:
        raise ValueError(f"values: {values.ndim} dimensions, expected (series, nights)")
    detector = Detector(higher_is_better, settings, first_night, alone_among)
    if len(values) != detector.series:
        raise ValueError(f"values: {len(values)} series, but {detector.series} directions")
    for night in range(values.shape[1]):
        detector.advance(values[:, night])
    return detector.findings()


class Detector:
    """The same, a night at a time: keep it (it pickles) and only the new night need be judged.

    `alone_among=n` judges each series as the only one that moves in a fleet of n, whatever the others do: what a
    bench of many independent histories needs.
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
            raise ValueError("higher_is_better: expected a vector of booleans, one a series")
        self.settings = settings or Settings()
        self.series = len(higher)
        self.night = first_night  # the next one
        self._alone_among = alone_among
        self._sign = np.where(higher, -1.0, 1.0)
        self._origin = first_night  # night of column 0 of the kept history
        capacity = self.settings.baseline + self.settings.lag + _SPARE
        self._cost = np.full((self.series, capacity), np.nan)
        self._plain = np.full((self.series, capacity), np.nan)  # cost with known shifts taken out
        self._first = np.full(self.series, -1)  # first night with a value
        self._linear = np.zeros(self.series, bool)  # judged by difference, not by ratio
        self._reference = np.full(self.series, np.nan)
        self._ready = np.zeros(self.series, bool)
        self._offset = np.zeros(self.series)
        self._segment = np.full(self.series, -1)  # first night of the present level, -1 for the first
        self._settled = np.zeros(self.series, int)  # watched again from this night on
        self._former = np.zeros(self.series)  # offset before the last event
        self._last_event = np.full(self.series, -1)
        self._open = np.full(self.series, -1)  # index of the open regression
        self._noise: Noise | None = None
        self._mirror: Noise | None = None
        self._worse = Bank(self.series, self.settings)
        self._better = Bank(self.series, self.settings)
        self._events: list[Event] = []
        self._last: Evidence | None = None

    def advance(self, values: np.ndarray) -> list[Event]:
        """Judge one more night, shape (series,); returns the events found on it."""
        night = self.night
        self._make_room()
        column = night - self._origin
        cost = self._costs(np.asarray(values, dtype=float))
        self._cost[:, column] = cost
        self._plain[:, column] = cost - self._offset
        self._first = np.where((self._first < 0) & ~np.isnan(cost), night, self._first)
        if night % self.settings.refresh == 0:
            self._learn()
        found: list[Event] = []
        if self._noise is not None and self._mirror is not None:
            self._follow_new_levels(night)
            watched = self._ready & (night >= self._settled)
            now = np.where(watched, self._plain[:, column], np.nan)
            worse = self._worse.advance(night, now, self._noise)
            better = self._better.advance(night, -now, self._mirror)
            self._last = worse
            judged = int(np.count_nonzero(watched))
            for evidence, is_worse in ((worse, True), (better, False)):
                for row in self._report(evidence, judged):
                    event = self._open_event(int(row), night, evidence, is_worse)
                    if event is not None:
                        found.append(event)
        self.night += 1
        return found

    # -- costs

    def _costs(self, values: np.ndarray) -> np.ndarray:
        """Logarithm of the value, or its difference to the reference, such that more is worse."""
        values = np.where(np.isfinite(values), values, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.where(np.isnan(self._reference), np.finfo(float).tiny, 1e-6 * np.abs(self._reference))
            ratio = np.log(np.maximum(values, least))
            difference = values / self._reference
        raw = np.where(self._ready, np.where(self._linear, difference, ratio), values)
        return self._sign * raw

    def _begin(self, rows: np.ndarray) -> None:
        """Choose how series that have nights enough are judged, and restate what was kept of them."""
        values = self._sign[rows, None] * self._cost[rows]
        middle = row_median(values)
        typical = row_median(np.abs(values))
        self._linear[rows] = ~(np.nanmin(values, axis=1) > 0)
        unit = np.where(typical > 0, typical, 1.0)
        self._reference[rows] = np.where(self._linear[rows], unit, middle)
        self._ready[rows] = True
        for row, kept in zip(rows, values, strict=True):
            linear = kept / self._reference[row]
            restated = linear if self._linear[row] else np.log(kept)
            self._cost[row] = self._sign[row] * restated
            self._plain[row] = self._cost[row]

    def _floor(self, rows: np.ndarray) -> np.ndarray:
        absolute = self.settings.absolute_floor / np.abs(self._reference[rows])
        return np.maximum(self.settings.relative_floor, absolute)

    def _make_room(self) -> None:
        column = self.night - self._origin
        if column == self._cost.shape[1]:
            for kept in (self._cost, self._plain):
                kept[:, :-_SPARE] = kept[:, _SPARE:]
                kept[:, -_SPARE:] = np.nan
            self._origin += _SPARE

    # -- noise

    def _learn(self) -> None:
        """Estimate the noise anew from the nights up to `lag` ago."""
        settings = self.settings
        night = self.night
        column = night - self._origin
        age = np.where(self._first < 0, 0, night - self._first)
        lag = np.maximum(np.minimum(settings.lag, age // 3), 1)
        begin = max(0, column - settings.baseline - settings.lag)
        window = self._plain[:, begin:column].copy()
        nights = np.arange(begin, column)
        window[nights[None, :] >= (column - lag)[:, None]] = np.nan
        enough = np.count_nonzero(~np.isnan(window), axis=1) >= settings.least_baseline
        new = np.flatnonzero(enough & ~self._ready)
        if len(new):
            self._begin(new)
            fresh = self._plain[new, begin:column].copy()
            fresh[np.isnan(window[new])] = np.nan
            window[new] = fresh
        rows = np.flatnonzero(self._ready & enough & (night >= self._settled))
        if not len(rows):
            return
        if self._noise is None or len(rows) == self.series:
            floor = np.where(self._ready, self._floor(np.arange(self.series)), settings.relative_floor)
            self._noise = fit(window, floor, settings)
            self._mirror = self._noise.mirrored()
        else:
            part = fit(window[rows], self._floor(rows), settings)
            self._noise.put(rows, part)
            assert self._mirror is not None
            self._mirror.put(rows, part.mirrored())
        self._anchor(rows)

    def _anchor(self, rows: np.ndarray) -> None:
        """Levels that came with an event rest on the nights since, as long as these are few."""
        assert self._noise is not None and self._mirror is not None
        since = self.night - self._segment[rows]
        moved = rows[(self._segment[rows] >= 0) & (since < _KNOWN + self.settings.lag)]
        for row in moved:
            own = self._cost[row, max(0, self._segment[row] - self._origin) : self.night - self._origin]
            count = np.count_nonzero(~np.isnan(own))
            self._noise.anchor[row] = min(self._noise.anchor[row], max(count, 1))
            self._mirror.anchor[row] = self._noise.anchor[row]

    # -- events

    def _log_p(self, total: np.ndarray) -> np.ndarray:
        """Chance of so much evidence on one night without change, fitted to the worst of the simulated noises."""
        settings = self.settings
        beyond = total - settings.threshold
        slope = np.where(beyond > 0, settings.decay, settings.decay_below)
        log_p = np.log(1 / (30.0 * settings.fleet)) - slope * beyond
        return np.where(total > 0, np.minimum(log_p, 0), 0.0)

    def _report(self, evidence: Evidence, judged: int) -> np.ndarray:
        """Series to report tonight: Benjamini and Hochberg (1995) over all that were judged.

        The level is the expected number of false findings a night, which bounds them whatever the fleet's size;
        fleets smaller than `fleet` are judged as if they were that large.
        """
        settings = self.settings
        level = settings.false_findings_per_month / 30.0
        log_p = self._log_p(evidence.total)
        if self._alone_among is not None:
            among = max(self._alone_among, settings.fleet)
            return np.flatnonzero(log_p <= np.log(level / among) + 1e-9)
        among = max(judged, settings.fleet)
        order = np.argsort(log_p, kind="stable")
        rank = np.arange(1, len(order) + 1)
        passed = np.flatnonzero(log_p[order] <= np.log(level * rank / among) + 1e-9)
        return np.sort(order[: passed[-1] + 1]) if len(passed) else np.empty(0, int)

    def _open_event(self, row: int, night: int, evidence: Evidence, worse: bool) -> Event | None:
        """Take note of a change and of the level after it; None for one that is smaller than the floor."""
        assert self._noise is not None
        drift = int(evidence.hypothesis[row]) >= len(self.settings.steps)
        start = max(int(evidence.start[row]), self._origin)
        begin = max(start, night - _RECENT + 1) if drift else start
        first, column = begin - self._origin, night - self._origin
        one = np.array([row])
        self._worse.forget(one)
        self._better.forget(one)
        noise = self._noise.take(one)
        index = int(evidence.hypothesis[row]) - len(self.settings.steps)
        deviations = self.settings.slopes[index] * evidence.nights[row] if drift else self.settings.steps[index]
        if deviations * (noise.spread * noise.scale)[0] < self._floor(one)[0]:
            return None
        self._plain[row, start - self._origin : first] = np.nan
        before = self._offset[row]
        self._former[row] = before
        self._segment[row] = begin
        self._settled[row] = night + self.settings.settle + 1
        size, low, high = self._relocate(one, first, column)
        total = float(evidence.total[row])
        event = Event(
            series=row,
            kind="drift" if drift else "step",
            worse=worse,
            change_night=start,
            found_night=night,
            size=float(size[0]),
            low=float(low[0]),
            high=float(high[0]),
            evidence=total,
            p_value=float(np.exp(self._log_p(np.array([total]))[0])),
        )
        self._last_event[row] = len(self._events)
        self._events.append(event)
        is_open = self._open[row]
        if worse:
            self._open[row] = len(self._events) - 1
        elif is_open >= 0 and abs(np.log1p(event.size)) >= _RETURNED * abs(np.log1p(self._events[is_open].size)):
            self._recover(row, begin)
        return event

    def _recover(self, row: int, night: int) -> None:
        index = self._open[row]
        self._events[index] = replace(self._events[index], recovered_night=night)
        self._open[row] = -1

    def _relocate(self, rows: np.ndarray, first: int, column: int) -> tuple[list[float], list[float], list[float]]:
        """Place the present level of series by their nights in columns first..column; returns sizes of the shift."""
        assert self._noise is not None
        noise = self._noise.take(rows)
        nights = self._cost[rows, first : column + 1] - self._former[rows, None]
        shift, low, high = estimate_shift(noise, nights)
        self._offset[rows] = self._former[rows] + shift
        self._plain[rows, first : column + 1] = self._cost[rows, first : column + 1] - self._offset[rows, None]
        low_size, high_size = self._sizes(rows, low), self._sizes(rows, high)
        return (
            list(self._sizes(rows, shift)),
            list(np.minimum(low_size, high_size)),
            list(np.maximum(low_size, high_size)),
        )

    def _sizes(self, rows: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Relative change of the value that a shift of the cost means."""
        signed = self._sign[rows] * shift
        return np.where(self._linear[rows], signed, np.expm1(signed))

    def _follow_new_levels(self, night: int) -> None:
        """Where a level is new: place it better each night, and see whether it was left at once."""
        assert self._noise is not None
        column = night - self._origin
        rows = np.flatnonzero(
            (night < self._settled)
            | ((self._segment >= 0) & (night - self._segment < _KNOWN) & (night % self.settings.refresh == 0))
        )
        for row in rows.tolist():
            first = max(0, self._segment[row] - self._origin)
            if np.isnan(self._cost[row, column]):
                continue
            unsettled = night < self._settled[row]
            if unsettled and self._has_returned(row, column):
                self._return(row, night)
                continue
            if unsettled and night == self._events[self._last_event[row]].found_night + _HINDSIGHT:
                self._tell_beginning_anew(row, column)
            last = column if unsettled else max(first + self.settings.settle, column - self.settings.lag)
            size, low, high = self._relocate(np.array([row]), first, min(last, column))
            if not unsettled:
                later = slice(first, column + 1)
                self._plain[row, later] = self._cost[row, later] - self._offset[row]
            index = self._last_event[row]
            event = self._events[index]
            if event.recovered_night is None:
                self._events[index] = replace(event, size=size[0], low=low[0], high=high[0])

    def _tell_beginning_anew(self, row: int, column: int) -> None:
        """With a few nights more it is plainer when a step began: the night from which the new level fits best.

        Only what is told changes: the level goes on from the nights on which the finding rests.
        """
        assert self._noise is not None
        index = self._last_event[row]
        event = self._events[index]
        if event.kind != "step":
            return
        begin = max(0, self._segment[row] - self._origin)
        noise = self._noise.take(np.array([row]))
        window = np.arange(max(0, begin - _HINDSIGHT), column - _HINDSIGHT + 1)
        value = self._cost[row, window] - self._former[row] - noise.level[0]
        missing = np.isnan(value)
        value = np.where(missing, 0, value)
        moved = value - (self._offset[row] - self._former[row])
        table = noise.log_density[0]
        gain = table[cell(moved / noise.scale[0])] - table[cell(value / noise.scale[0])]
        since = np.cumsum(np.where(missing, 0, gain)[::-1])[::-1]
        self._events[index] = replace(event, change_night=int(window[np.argmax(since)]) + self._origin)

    def _has_returned(self, row: int, column: int) -> bool:
        """Two nights running nearer to the former level than to the new one."""
        assert self._noise is not None
        own = self._cost[row, max(0, self._segment[row] - self._origin) : column + 1]
        own = own[~np.isnan(own)]
        found = self._events[self._last_event[row]].found_night
        if len(own) < 3 or self.night < found + 2:
            return False
        level = self._noise.level[row]
        off_former = np.abs(own[-2:] - self._former[row] - level)
        off_new = np.abs(own[-2:] - self._offset[row] - level)
        return bool(np.all(off_former < off_new))

    def _return(self, row: int, night: int) -> None:
        column = night - self._origin
        own = self._cost[row]
        there = np.flatnonzero(~np.isnan(own[: column + 1]))
        again = there[-2]
        first = max(0, self._segment[row] - self._origin)
        self._plain[row, first:again] = np.nan
        self._offset[row] = self._former[row]
        self._plain[row, again : column + 1] = own[again : column + 1] - self._offset[row]
        self._settled[row] = night
        self._segment[row] = -1
        index = self._last_event[row]
        if self._open[row] == index:
            self._open[row] = -1
        self._events[index] = replace(self._events[index], recovered_night=int(again + self._origin))

    # -- what is known

    def findings(self) -> Findings:
        """What is known after the nights so far.  RuntimeError before any series has nights enough."""
        nothing = np.full(self.series, np.nan)
        if self._noise is None or self._last is None:
            empty = fit(np.full((self.series, 1), np.nan), np.ones(self.series), self.settings)
            states = (State.LEARNING,) * self.series
            zero = np.zeros(self.series)
            return Findings((), states, nothing, (nothing, nothing), zero, zero, np.ones(self.series), zero, 0, empty)
        noise = self._noise
        level = noise.level + self._offset
        reach = 2 * noise.scale * noise.spread
        ends = (self._values(level - reach), self._values(level + reach))
        return Findings(
            events=tuple(self._events),
            state=tuple(self._state(row) for row in range(self.series)),
            level=np.where(self._ready, self._values(level), np.nan),
            band=(np.minimum(*ends), np.maximum(*ends)),
            memory=noise.memory.copy(),
            evidence=self._last.total.astype(float),
            p_value=np.exp(self._log_p(self._last.total)),
            nights=np.where(self._ready, noise.nights, 0),
            judged=int(np.count_nonzero(self._ready)),
            noise=noise,
        )

    def _values(self, cost: np.ndarray) -> np.ndarray:
        signed = self._sign * cost
        with np.errstate(over="ignore"):  # inf says as much of a series that fell to nothing
            return np.where(self._linear, signed * self._reference, np.exp(np.where(self._linear, 0, signed)))

    def _state(self, row: int) -> State:
        assert self._last is not None
        if not self._ready[row]:
            return State.LEARNING
        if self._open[row] >= 0:
            return State.REGRESSED
        if self._last.alone[row]:
            return State.SPIKE
        last = self._last_event[row]
        if last >= 0 and not self._events[last].worse and self._events[last].recovered_night is None:
            return State.IMPROVED
        return State.STEADY
