"""From histories to findings: each series is monitored value by value, relative to its own past and to the fleet's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tenken.history.detect import dating, order, volatility
from tenken.history.detect.excursions import SHORT, Excursions
from tenken.history.detect.findings import Event, Findings, Noise, State
from tenken.history.detect.model import Model
from tenken.history.detect.order import Z_95
from tenken.history.detect.settings import Settings
from tenken.history.detect.volatility import Volatility
from tenken.history.detect.windows import (
    KEPT,
    LONG,
    LONGEST,
    SETTLED,
    SLOW_KEPT,
    SLOW_ONES,
    STRIDE,
    WINDOWS,
    distances,
    span,
    spread_of_mean,
)

_UNSURE = volatility.WINDOWS[0] // 2  # values: nine of ten series became noisy at most this long before it is detected
_SLOW_LAG = SLOW_KEPT - order.MANY  # entry of the slow levels, 10 strides ago: whether a series wandered


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


class Detector(Model):
    """The same, one night at a time: with a stored `state` only the new night is judged.

    `alone_among=n` assumes a fleet of n series, whatever the actual number; for benchmarks with many independent
    histories.
    """

    def __init__(
        self,
        higher_is_better: np.ndarray,
        settings: Settings | None = None,
        first_night: int = 0,
        alone_among: int | None = None,
    ) -> None:
        super().__init__(higher_is_better, settings)
        count = self.series
        self.night = first_night  # the next one
        self._alone_among = alone_among
        self._told = np.zeros((2, count), int)  # values since the last reported change, for the worse and the better
        self._excursions = tuple(Excursions(count, self.settings) for _ in range(2))
        self._distance = np.zeros(count)  # largest distance tonight for the worse, as a fraction of its limit
        self._judged = 0
        self._events: list[Event] = []
        self._formers: list[float] = []  # the level before each of them
        self._standing: dict[int, list[int]] = {}  # regressions that have not recovered, by series
        self._last_event = np.full(count, -1)
        self._open = np.full(count, -1)  # index of the event of the open regression
        #: the former level of the last event of each series
        self._former = np.full(count, np.nan)
        self._former_anchor = np.zeros(count)
        self._back = np.zeros(count)  # evidence for the return to the former level
        self._back_nights = np.zeros(count, int)
        self._volatility = Volatility(count, self.settings)
        self._noisy = np.full(count, -1)  # index of the event since which a series is noisy
        self._spiked = np.zeros(count, bool)

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

    def _begin(self, rows: np.ndarray) -> np.ndarray:
        """... and adds the first values, as distances from the level."""
        off = super()._begin(rows)
        self._told[:, rows] = off.shape[1]
        for excursions, sign in zip(self._excursions, (1, -1), strict=True):
            excursions.single(sign * off.ravel(), np.repeat(self._deviation[rows], off.shape[1]))
        self._volatility.begin(rows, off, self._deviation[rows], self.night)
        return off

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
        self._spiked = known & (cost - self._level > self.settings.threshold * self._deviation)

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
        for side, (distance, shift) in enumerate(((away.worse, away.shift_worse), (away.better, -away.shift_better))):
            excursions = self._excursions[side]
            plain = distance
            tellable = shift >= settings.smallest
            # slow changes are normal for a wandering level
            far = shift[:, SLOW_ONES] >= settings.slow * settings.smallest
            tellable[:, SLOW_ONES] = far & ~self._slow_wanders[:, _SLOW_LAG, None]
            limit = self._limits(side, among, shift)
            part = np.where(tellable, plain / limit, 0.0)
            excursions.advance(
                np.where(np.isfinite(plain), np.where(SHORT, plain / self._youth(), plain), 0),
                shift,
                known,
                tellable,
            )
            excursions.single(alone if side == 0 else -alone, self._past_deviation[still, 0])
            self._not_again(part, 1 if side == 0 else -1)
            limits.append(limit)
            ratio.append(part.max(axis=1))
            best.append(part.argmax(axis=1))
        self._distance = np.where(known, ratio[0], self._distance)
        self._recoveries(rows, cost)
        found: list[Event | None] = []
        worse = ratio[0] >= ratio[1]
        loudest = np.maximum(ratio[0], ratio[1])
        plain = self._plain(judged)
        for row in np.flatnonzero(judged & ((loudest > 1) | (plain > 0))).tolist():
            side = 0 if worse[row] else 1
            window = int(best[side][row])
            if not plain[row] and loudest[row] <= self._scattered(row, window):
                continue
            if not plain[row] and self._since[row] < span(window):
                continue  # the level returned tonight, after the distance from the previous one had been computed
            bound = float(limits[side][row, window])
            found.append(self._open_event(row, side, window, float(loudest[row]), bound, int(plain[row])))
        found += self._noises(rows, cost)
        self._follow(rows, cost)
        for row in [row for row in rows[self._number[rows] % STRIDE == 0].tolist() if row in self._standing]:
            self._mended(row)
        return [event for event in found if event is not None]

    def _not_again(self, part: np.ndarray, sign: int) -> None:
        """Clears in `part` (series, windows) what windows report about a level that the series already had within three
        weeks."""
        for window in range(len(WINDOWS)):
            rows = np.flatnonzero(part[:, window] > 1)
            if len(rows):
                level, deviation = sign * self._before_window(rows, window), self._past_deviation[rows, 0]
                part[rows, window] *= order.unreached(sign * self._long[rows], level, deviation, WINDOWS[window][1])

    def _before_window(self, rows: np.ndarray, window: int) -> np.ndarray:
        """The level that a window is compared with."""
        kind, length = WINDOWS[window]
        slow = kind == "slow"
        return self._slow[rows, SLOW_KEPT - length // STRIDE] if slow else self._levels[rows, KEPT - length - 1]

    def _plain(self, judged: np.ndarray) -> np.ndarray:
        """Number of values of an obvious and lasting change of each series; 0 if there is none."""
        settings, deviation = self.settings, self._past_deviation[:, 0]
        change, plain = np.zeros(self.series), np.zeros(self.series, int)
        for sign, told in zip((1.0, -1.0), self._told, strict=True):
            shift = order.precedence(sign * self._kept, told)
            found = judged & (shift >= settings.plain) & (plain == 0)
            change[found], plain[found] = shift[found], order.LASTED
        # an improvement is not urgent
        shift = order.gap(self._long, np.where(judged, self._told[0], 0), together=self._alone_among is None)
        found = judged & (shift >= settings.large) & (plain == 0)
        change[found], plain[found] = shift[found], 2
        # autocorrelated noise stays on one side for long: if it has grown, the order of values is weak evidence of a
        # small change, but still good evidence of a large one
        rows = np.flatnonzero((plain > 0) & (self._noisy >= 0) & (self._past_memory[:, 0] > 0))
        memory = self._past_memory[rows, 0]
        own = spread_of_mean(memory)[np.arange(len(rows)), plain[rows] - 1] * deviation[rows]
        plain[rows] *= change[rows] >= np.minimum(settings.threshold * own, settings.certain)
        return plain

    def _limits(self, side: int, among: int, shift: np.ndarray) -> np.ndarray:
        """Distance at which each window of each series reports.

        At least the threshold. If a change, `shift` (series, windows), has a size that occurs in excursions of the
        fleet, at least the distance of those.
        """
        settings = self.settings
        excursions = self._excursions[side]
        young = self._youth()
        least, distance, change = excursions.thresholds(among)
        own = least * young
        own[:, SLOW_ONES] *= settings.slow
        return np.where(shift >= change, own, np.maximum(own, distance * young))

    # -- events

    def _open_event(self, row: int, side: int, window: int, loudness: float, limit: float, plain: int) -> Event | None:
        """Records a change and the level after it; `plain`: number of values if the change is a lasting one."""
        if plain:
            side = 0 if np.median(self._kept[row, -plain:]) > np.median(self._kept[row, -2 * plain : -plain]) else 1
        slow = not plain and WINDOWS[window][0] == "slow"
        length = plain or WINDOWS[window][1]
        sudden = False
        if slow:
            former = float(self._slow[row, SLOW_KEPT - length // STRIDE])
            own = self._long[row, LONG - length - STRIDE :]
            new, former, sudden = dating.slow(own, former, self.settings.clip * self._deviation[row])
            began = int(self._long_nights[row, LONG - new])
            length = min(new, KEPT - 2) if sudden else dating.RECENT
        else:
            length = self._begun(row, length, plain or 2)
            former, began = self._levels[row, KEPT - length - 1], int(self._nights[row, KEPT - length])
        worse = side == 0
        distance = max(loudness, 1.0) * limit
        anchor = self._anchor[row] - length
        shift = float(np.median(self._kept[row, KEPT - length :])) - former
        if (shift if worse else -shift) < self.settings.smallest:
            return None  # a few outlying values among normal ones
        count = int(min(self._since[row], KEPT - 1))
        before = self._kept[row, KEPT - count :] - self._levels[row, KEPT - count]
        kind = "drift" if (slow and not sudden) or dating.is_slope(before, length) else "step"
        self._size_last(row)
        self._move(row, length)
        self._told[side, row] = length
        self._former[row], self._former_anchor[row] = former, max(anchor, 1)
        self._back[row], self._back_nights[row] = 0.0, 0
        nats = distance**2 / 2
        p_value = float(np.exp(-nats))
        event = Event(row, kind, worse, began, self.night, 0.0, 0.0, 0.0, float(nats), p_value)
        event = self._sized(event)
        self._last_event[row] = len(self._events)
        self._events.append(event)
        self._formers.append(float(former))
        was = self._open[row]
        if worse:
            self._open[row] = len(self._events) - 1
            self._standing.setdefault(row, []).append(len(self._events) - 1)
        elif was >= 0 and 2 * self._way(event) >= self._way(self._events[was]):  # it reverts half of the regression
            self._close(row, was, event.change_night)
        for excursions in self._excursions:
            excursions.take_out(row)
        return event

    def _noises(self, rows: np.ndarray, cost: np.ndarray) -> list[Event | None]:
        """Series that became noisy, and those that are quiet again."""
        off = self._kept[rows, -1] - self._levels[rows, -1]
        jump = self._kept[rows, -1] - self._kept[rows, -2]
        noisy = self._volatility.advance(rows, off, jump, self.night, self._alone_among or self.series)
        ill = rows[self._noisy[rows] >= 0]
        for row in self._volatility.quiet(ill).tolist():
            index = int(self._noisy[row])
            self._events[index] = replace(self._events[index], recovered_night=self.night, ended_night=self.night)
            self._noisy[row] = -1
            self._scatter(row, self._volatility.calm(row))
        found: list[Event | None] = []
        for row in noisy.tolist():
            length, ratio, low, high = self._volatility.moved(row)
            began = self._volatility.night(row, length)
            self._scatter(row, ratio)
            self._withdraw(row, began)
            index = int(self._noisy[row])
            if index >= 0:  # noisier still: the same finding
                was = 1 + self._events[index].size
                self._events[index] = replace(
                    self._events[index], size=was * ratio - 1, low=was * low - 1, high=was * high - 1
                )
                continue
            nats = self.settings.noisy**2 / 2
            event = Event(
                row, "noisy", True, began, self.night, ratio - 1, low - 1, high - 1, nats, float(np.exp(-nats))
            )
            self._noisy[row] = len(self._events)
            self._events.append(event)
            self._formers.append(float(self._level[row]))
            found.append(event)
        return found

    def _withdraw(self, row: int, night: int) -> None:
        """Withdraws the changes since a series became noisy, on `night`, that its scatter explains: no level moved.

        The mean of the values since such a change is as close to the former level as this scatter allows. The series
        returns to that level, so that a change that is too small to be seen yet is found later.
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
            off = np.clip(new - self._formers[index], -dating.SCATTER_CLIP * unit, dating.SCATTER_CLIP * unit)
            # a change that came and went is the most extreme of many means
            within = self.settings.clip if end is None else self.settings.threshold
            if abs(off.mean()) < within * unit * np.sqrt(doubt / len(off)):
                gone.append(index)
                self._events[index] = replace(event, recovered_night=self.night, withdrawn=True, ended_night=self.night)
        if not gone:
            return
        if self._open[row] in gone:
            self._open[row] = -1
        if self._last_event[row] in gone:
            count = int((nights >= self._events[gone[0]].change_night).sum())
            self._former[row] = np.nan
            self._level[row] = self._formers[gone[0]]
            self._anchor[row] = self._former_anchor[row]
            self._since[row] = min(count, KEPT)
            self._place(row, KEPT)

    def _begun(self, row: int, length: int, least: int = 2) -> int:
        """Number of values since a change that the newest `length` revealed."""
        own = self._kept[row] - self._levels[row, KEPT - length - 1]
        longest = int(min(self._since[row], KEPT - 2, self._anchor[row] - 2))
        return dating.beginning(own, length, least, longest, self.settings.clip * self._deviation[row])

    def _scattered(self, row: int, window: int) -> float:
        """Scatter of the newest values about the change that a window found, relative to the usual scatter; 1 unless
        certain.

        It is always 1 while a regression is open: the level lags behind a drift, and the lag would look like scatter.
        """
        if self._open[row] >= 0 and self._open[row] == self._last_event[row]:
            return 1.0
        kind, length = WINDOWS[window]
        length = self._begun(row, dating.RECENT if kind == "slow" else length)
        count = int(min(self._since[row], KEPT - 1))
        off = self._kept[row, KEPT - count :] - self._levels[row, KEPT - count - 1 : KEPT - 1]
        return dating.scatter(off, length, self._past_memory[row, 0], self._past_deviation[row, 0])

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
        error = Z_95 * self._deviation[row] * np.sqrt(doubt * (1 / anchor + 1 / self._former_anchor[row]))
        ends = sorted(self._size(row, shift + way * error) for way in (-1, 1))
        return replace(event, size=self._size(row, shift), low=ends[0], high=ends[1])

    def _recoveries(self, rows: np.ndarray, cost: np.ndarray) -> None:
        """Recovered changes, by the likelihood of the former level relative to the current one."""
        settings = self.settings
        # a persistent improvement is not an excursion: its loss is a regression
        small = np.abs(self._level[rows] - self._former[rows]) < settings.plain
        young = self._since[rows] <= np.where(small, settings.excursion, order.LASTED)
        young |= self._open[rows] == self._last_event[rows]
        watched = rows[(self._last_event[rows] >= 0) & np.isfinite(self._former[rows]) & young]
        if not len(watched):
            return
        deviation = self._deviation[watched]
        fewer = (1 - self._memory[watched]) / (1 + self._memory[watched])
        level = self._levels[watched, KEPT - SETTLED - 1]
        level = np.where(self._since[watched] > SETTLED, level, self._level[watched])
        gain = (cost[watched] - level) ** 2 - (cost[watched] - self._former[watched]) ** 2
        enough = settings.threshold**2 / 2  # the evidence of a finding; a single value has at most half of it
        gain = np.clip(fewer * gain / (2 * deviation**2), -enough / 2, enough / 2)
        total = np.maximum(self._back[watched] + gain, 0)
        self._back_nights[watched] = np.where(total > 0, self._back_nights[watched] + 1, 0)
        self._back[watched] = total
        back = total >= enough
        for row in watched[back].tolist():
            self._return(row)

    def _mended(self, row: int) -> None:
        """Closes regressions whose level returned to the former one or beyond, slowly or in steps."""
        level = max(self._level[row], self._tracks[0, row])
        standing = []
        for index in self._standing[row]:
            event = self._events[index]
            if event.recovered_night is not None:
                continue
            if level - self._formers[index] > self.settings.smallest / 2:
                standing.append(index)
                continue
            self._events[index] = replace(event, recovered_night=self.night, ended_night=self.night)
            if self._open[row] == index:
                self._open[row] = -1
        self._standing[row] = standing
        if not standing:
            del self._standing[row]
        elif self._open[row] < 0:
            self._open[row] = standing[-1]

    def _return(self, row: int) -> None:
        """The former level is restored from the beginning of the evidence for it."""
        length = int(min(self._back_nights[row], KEPT - 1))
        night = int(self._nights[row, KEPT - length])
        self._size_last(row)
        index = self._last_event[row]
        self._close(row, index, night)
        self._level[row] = self._former[row]
        self._anchor[row] = self._former_anchor[row] + length - 1
        self._since[row] = length
        self._place(row, KEPT)
        self._former[row] = np.nan

    def _way(self, event: Event) -> float:
        """How far an event moved the level, in cost."""
        return float(abs(event.size if self._linear[event.series] else np.log1p(event.size)))

    def _close(self, row: int, index: int, night: int) -> None:
        """A change that has ended; a short one was an excursion, and is added to the fleet's statistics."""
        self._events[index] = replace(self._events[index], recovered_night=night, ended_night=self.night)
        if self._open[row] == index:
            self._open[row] = -1
        if self.night - self._events[index].found_night <= self.settings.excursion:
            for excursions in self._excursions:
                excursions.put_back(row)

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
        evidence = np.where(known, (np.maximum(self._distance, 0) * self.settings.threshold) ** 2 / 2, 0.0)
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
