"""Siblings together: a change too small to be detected on one GPU is obvious on thirty-two, and a check that runs on a
different node each night is still one measurement.

The siblings of a measurement, and those of them whose environment changed on the same night, are each combined into
one series: the mean of the middle half of their deviations from their own levels.  It is judged like any series.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from tenken.history.detect import Detector, Event, Settings
from tenken.history.nights import History

#: Fewer siblings than this are not combined: one of them would dominate.
AT_LEAST = 3
#: A series' own level among its siblings is updated every this many nights, from values at least LAG nights old.
ANEW, LAG = 20, 15
#: Minimum reported change of the combined series, and its minimum noise.
SMALLEST, FLOOR = 0.006, 0.001
#: A few combined series show little of their usual behaviour: their changes must be larger by this factor.
FARTHER = 1.07
#: Minimum fraction of the siblings that must have moved (by half of the whole) for a common change.
SHARE = 0.5
#: Nights after a change that determine which siblings moved.
AFTER = 10


@dataclass(frozen=True)
class Together:
    """Changes of siblings: `rows` of the history, and the event of their common series."""

    rows: tuple[int, ...]
    event: Event


@dataclass(frozen=True)
class Pooled:
    """`found` are the changes; `judged` rows belong to siblings that were judged together."""

    found: tuple[Together, ...]
    judged: frozenset[int]


def groups(history: History) -> list[tuple[int, ...]]:
    """Rows of siblings, and of those among them whose environment changed on one night while others' did not."""
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
        settings, smallest=SMALLEST, smallest_slow=2 * SMALLEST, relative_floor=FLOOR,
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
            continue  # that of the members is reported
        moved = _moved(off, members[event.series], event)
        if len(moved) >= SHARE * len(members[event.series]) and len(moved) >= AT_LEAST:
            found.append(Together(moved, _signed(history, moved, event)))
    return Pooled(tuple(found), judged)


def _off(history: History) -> np.ndarray:
    """Cost of each value over the series' own previous level, shape (series, nights); more is worse."""
    positive = np.where(history.values > 0, history.values, np.nan)
    cost = np.where(history.higher[:, None], -1.0, 1.0) * np.log(positive)
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
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
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
