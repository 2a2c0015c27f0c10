"""Judges siblings together: a change too small to be detected on one GPU is obvious on thirty-two, and a check that
runs on another node each night is still one measurement.

The siblings of a measurement are combined into one series, and so are those whose environment changed on the same
night: the mean of the middle half of their deviations from their own levels. It is judged like any other series. Each
sibling is also compared with their median, night by night, so that a change of all of them cancels: a level that falls
behind a little every night is a drift.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from tenken.history.detect import Detector, Event, Settings, dating
from tenken.history.detect.fleet import LEAST_SIBLINGS
from tenken.history.nights import History

#: Fewer siblings than this are not combined: one of them would dominate.
AT_LEAST = 3
#: A series' own level among its siblings is updated every this many nights, from values at least LAG nights old.
ANEW, LAG = 20, 15
#: Minimum reported change of the combined series, and its minimum noise.
SMALLEST, FLOOR = 0.006, 0.001
#: A few combined series show little of their usual behaviour, so their changes must be larger by this factor.
FARTHER = 1.07
#: For a common change, at least this fraction of the siblings must have moved by half of the combined change.
SHARE = 0.5
#: Number of nights after a change that determine which siblings moved.
AFTER = 10
#: A sibling drifts if the mean of its newest RECENT nights is below that of FROM to BASE nights that are older than
#: BACK, by SLOW and by FAR standard deviations of the difference. With fewer siblings than LEAST_SIBLINGS their median
#: is not reliable.
RECENT, BACK, FROM, BASE, SLOW, FAR = 10, 25, 10, 60, 0.015, 4.5


@dataclass(frozen=True)
class Together:
    """Changes of siblings: `rows` of the history, and the event of their combined series."""

    rows: tuple[int, ...]
    event: Event


@dataclass(frozen=True)
class Pooled:
    """`found` are the changes; `judged` are the rows of siblings that were judged together; `drifts` concern one row
    each."""

    found: tuple[Together, ...]
    judged: frozenset[int]
    drifts: tuple[Event, ...] = ()


def groups(history: History) -> list[tuple[int, ...]]:
    """Rows of siblings, and of each subset whose environment changed on one night while that of the others did not."""
    by_measure: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, series in enumerate(history.series):
        by_measure[series.siblings].append(row)
    out: list[tuple[int, ...]] = []
    for rows in by_measure.values():
        if len(rows) < AT_LEAST:
            continue
        out.append(tuple(rows))
        changed: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            marks = history.fingerprints[row]
            ran = np.flatnonzero(marks >= 0)
            for night in ran[1:][marks[ran][1:] != marks[ran][:-1]]:
                changed[int(night)].append(row)
        out += [tuple(some) for some in changed.values() if AT_LEAST <= len(some) < len(rows)]
    return sorted(set(out))


def pooled(history: History, settings: Settings) -> Pooled:
    """Judge all siblings together, night by night."""
    members = groups(history)
    if not members or not history.nights:
        return Pooled((), frozenset())
    off = _off(history)
    together = np.array([_middle(off[list(rows)]) for rows in members])
    own = replace(
        settings, smallest=SMALLEST, relative_floor=FLOOR,
        threshold=FARTHER * settings.threshold,
    )  # fmt: skip
    detector = Detector(np.zeros(len(members), bool), own)
    for night in range(together.shape[1]):
        detector.advance(np.exp(together[:, night]))
    findings = detector.findings()
    judged = frozenset(row for rows, number in zip(members, findings.nights, strict=True) if number for row in rows)
    found = []
    for event in findings.events:
        if event.kind == "noisy":
            continue  # the change of the narrower group is reported
        moved = _moved(off, members[event.series], event)
        if len(moved) >= SHARE * len(members[event.series]) and len(moved) >= AT_LEAST:
            found.append(Together(moved, _signed(history, moved, event)))
    return Pooled(tuple(found), judged, tuple(drifts(history)))


def drifts(history: History) -> list[Event]:
    """Siblings that gradually fell behind the others, each with the night on which this was detectable."""
    by_measure: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, series in enumerate(history.series):
        if series.across:
            by_measure[series.siblings].append(row)
    cost = _cost(history)
    out: list[Event] = []
    for rows in by_measure.values():
        if len(rows) < LEAST_SIBLINGS:
            continue
        own = cost[rows]
        own = own - _median(own)
        behind, error = _behind(own)
        far = (behind >= SLOW) & (behind > FAR * error)
        for index in np.flatnonzero(far.any(axis=1)).tolist():
            nights = np.flatnonzero(far[index])
            # most of the newest nights must confirm it: a single far one moves the mean
            sure = [n for n in nights.tolist() if 2 * _middle_of(own[index], behind[index], n) >= behind[index, n]]
            if sure:
                out.append(_drift(history, rows[index], own[index], sure[0], behind[index], error[index]))
    return out


def _median(values: np.ndarray) -> np.ndarray:
    """Median of each column without NaN, which sort to the end; NaN if a column has no values."""
    ordered, count = np.sort(values, axis=0), np.count_nonzero(~np.isnan(values), axis=0)
    ends = [np.maximum(at, 0)[None, :] for at in ((count - 1) // 2, count // 2)]
    low, high = (np.take_along_axis(ordered, np.minimum(at, len(values) - 1), axis=0)[0] for at in ends)
    return np.asarray(np.where(count > 0, (low + high) / 2, np.nan))


def _behind(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By night, how far the newest nights are behind the base, and the standard error; NaN where unknown."""
    there = ~np.isnan(own)
    sums = [
        np.cumsum(np.hstack([np.zeros((len(own), 1)), np.where(there, part, 0)]), axis=1)
        for part in (there, own, own**2)
    ]
    end = np.arange(1, own.shape[1] + 1)

    def between(begin: np.ndarray, end: np.ndarray) -> list[np.ndarray]:
        return [one[:, end] - one[:, begin] for one in sums]

    number, new, _ = between(np.maximum(end - RECENT, 0), end)
    base = np.maximum(end - BACK, 0)
    count, total, square = between(np.maximum(base - BASE, 0), base)
    with np.errstate(all="ignore"):
        mean = total / count
        variance = np.maximum(square / count - mean**2, FLOOR**2)
        error = np.sqrt(variance * (1 / number + 1 / (count - 1)))
        behind = new / number - mean
        known = (number >= RECENT / 2) & (count >= FROM)
        behind = np.where(known, behind, np.nan)
        # wandering levels differ by more than their noise suggests
        apart = 1.4826 * _median(np.abs(behind - _median(behind)))
        return behind, np.maximum(error, apart)


def _middle_of(own: np.ndarray, behind: np.ndarray, night: int) -> float:
    """How far the median of the newest nights is behind the base; `behind` is the same for the mean."""
    newest = own[max(night + 1 - RECENT, 0) : night + 1]
    return float(np.nanmedian(newest) - np.nanmean(newest) + behind[night])


def _drift(history: History, row: int, own: np.ndarray, found: int, behind: np.ndarray, error: np.ndarray) -> Event:
    """The drift that was detectable on the night `found`."""
    begin = max(found + 1 - BACK - BASE, 0)
    columns = begin + np.flatnonzero(~np.isnan(own[begin : found + 1]))
    former = float(np.mean(own[columns[columns <= found - BACK]]))
    since, _ = dating.slope(own[columns])
    now = np.flatnonzero(~np.isnan(own))[-RECENT:]
    shift = float(np.mean(own[now])) - former
    ran = [night for night in np.flatnonzero(~np.isnan(own)).tolist() if night > found]
    back = [night for night in ran if np.nanmedian(own[night + 1 - RECENT : night + 1]) - former < SLOW / 2]
    sign = -1.0 if history.series[row].direction == "higher" else 1.0
    ends = sorted(float(np.expm1(sign * (shift + way * 1.96 * error[found]))) for way in (-1, 1))
    nats = float(0.5 * (behind[found] / error[found]) ** 2)
    return Event(
        row, "drift", True, int(columns[-since]), found, float(np.expm1(sign * shift)), ends[0], ends[1], nats,
        float(np.exp(-nats)), back[0] if back else None, ended_night=back[0] if back else None,
    )  # fmt: skip


def _cost(history: History) -> np.ndarray:
    """Logarithms of the values, negated for rates: more is worse. NaN without a value, shape (series, nights)."""
    positive = np.where(history.values > 0, history.values, np.nan)
    cost: np.ndarray = np.where(history.higher[:, None], -1.0, 1.0) * np.log(positive)
    return cost


def _off(history: History) -> np.ndarray:
    """Cost of each value over the series' own previous level, shape (series, nights); more is worse."""
    cost = _cost(history)
    out = np.full(cost.shape, np.nan)
    nights = cost.shape[1]
    with np.errstate(all="ignore"):
        for begin in range(1, nights, ANEW):
            before = cost[:, : max(begin - LAG, 1)]
            known = ~np.isnan(before).all(axis=1)
            level = np.full(len(cost), np.nan)
            if known.any():
                level[known] = np.nanmedian(before[known][:, -200:], axis=1)
            out[:, begin : begin + ANEW] = cost[:, begin : begin + ANEW] - level[:, None]
    return out


def _middle(off: np.ndarray) -> np.ndarray:
    """Mean of the middle half of each night's values, NaN if there is none."""
    ordered = np.sort(off, axis=0)
    count = np.count_nonzero(~np.isnan(ordered), axis=0)
    place = np.arange(len(ordered))[:, None]
    cut = count // 4
    middle = (place >= cut) & (place < count - cut)
    return np.where(count > 0, np.where(middle, ordered, 0).sum(axis=0) / np.maximum(count - 2 * cut, 1), np.nan)


def _moved(off: np.ndarray, rows: tuple[int, ...], event: Event) -> tuple[int, ...]:
    """Siblings that moved by at least half of the change, by their values just before and since."""
    shift = np.log1p(event.size)
    night = event.change_night
    own = off[list(rows)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        after = np.nanmedian(own[:, night : night + AFTER], axis=1)
        before = np.nanmedian(own[:, max(0, night - 3 * AFTER) : night], axis=1)
    way = (after - np.nan_to_num(before)) / shift if shift else np.zeros(len(rows))
    return tuple(row for row, part in zip(rows, way, strict=True) if np.isfinite(part) and part >= 0.5)


def _signed(history: History, rows: tuple[int, ...], event: Event) -> Event:
    """The event in the siblings' own direction: the combined series is a cost."""
    if history.series[rows[0]].direction != "higher":
        return event
    size, low, high = (1 / (1 + one) - 1 for one in (event.size, event.high, event.low))
    return replace(event, size=size, low=low, high=high)
