"""Results of the gate and of simple rules on public histories from `python -m tools.histories`.

    python -m tools.bench.real FILE... [--series N] [--entries N] [--days] [--rivals]

A clean step: seven entries that are all worse than the 21 before them, with medians more than 5 % apart. It is detected
within this many entries if the gate opens a finding of this series by then that begins near it. A finding is noise if
the medians of the ten and of the five entries since its beginning differ by less than 2 % from that of the ten before.
It is short if only the median of the ten does. All are counted on entries at which a series could be judged; noise and
short ones per month (30 entries) and 100 series. Series that became noisy are counted separately: their level did not
move.

An entry counts as a night. Projects measure the commits of a day one after another, in one session on one machine, and
a disturbance of that machine affects the whole session. With --days each series has one value per day, the median of
its entries.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tenken.history.detect import Findings, Settings, detect
from tools import histories
from tools.bench.rivals import row_median

#: Number of entries before and after a clean step; entries compared on either side of a finding, and after a short one;
#: size of a clean and of a large step; largest difference that counts as no change.
BEFORE, SINCE, SIDE, SHORT, PLAIN, LARGE, NOTHING = 21, 7, 10, 5, 0.05, 0.20, 0.02
#: Entries within which a step, and a large one, must be reported.
SOON, LATE = 2, 7
#: Entries of learning before a step, and entries within which its beginning must be detected.
LEARNING, NEAR = 30, 5
#: ... or before it, if the step is largest an entry or two after its beginning.
EARLY = 2
DAY = 86400  # seconds


@dataclass(frozen=True)
class Step:
    """A clean step of one series; `size` is the relative loss."""

    series: int
    entry: int
    size: float


def dense(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The existing entries of a series, and their columns."""
    columns = np.flatnonzero(~np.isnan(costs))
    return costs[columns], columns


def clean_steps(costs: np.ndarray) -> list[Step]:
    """Clean steps in costs (series, entries), logarithms where more is worse; the first of overlapping ones."""
    out = []
    for series, row in enumerate(costs):
        own, columns = dense(row)
        last = -BEFORE
        for at in range(LEARNING, len(own) - SINCE + 1):
            before, after = own[at - BEFORE : at], own[at : at + SINCE]
            # the level before a step is taken from the previous step on
            size = float(np.expm1(np.median(after) - np.median(before[max(BEFORE - (at - last), 0) :])))
            if at - last >= SIDE and after.min() > before.max() and size > PLAIN:
                out.append(Step(series, int(columns[at]), size))
                last = at
    return out


@dataclass(frozen=True)
class Told:
    """A report on one series: the beginning of a change and the entry on which it was reported."""

    series: int
    began: int
    said: int


def _losses(found: Findings) -> list[Told]:
    return [Told(e.series, e.change_night, e.found_night) for e in found.events if e.worse and e.kind != "noisy"]


def from_rule(alarms: np.ndarray) -> list[Told]:
    """The beginnings of a rule's alarms."""
    out = []
    for series, row in enumerate(alarms):
        on = np.flatnonzero(row & ~np.concatenate([[False], row[:-1]]))
        out += [Told(series, int(night), int(night)) for night in on]
    return out


def three_nights(costs: np.ndarray, loss: float = 0.03, window: int = 30) -> np.ndarray:
    """Three nights in a row worse by `loss` than the trailing median of the nights before."""
    out = np.zeros(costs.shape, bool)
    for night in range(LEARNING + 3, costs.shape[1]):
        median = row_median(costs[:, max(0, night - 2 - window) : night - 2])
        out[:, night] = (costs[:, night - 2 : night + 1] > median[:, None] + loss).all(axis=1)
    return out


def ewma(costs: np.ndarray, weight: float = 0.2, limit: float = 4.0) -> np.ndarray:
    """An exponentially weighted mean beyond `limit` of its standard deviations, learned on the last 100 nights."""
    out = np.zeros(costs.shape, bool)
    state = np.zeros(len(costs))
    for night in range(LEARNING, costs.shape[1]):
        before = costs[:, max(0, night - 100) : night]
        level = row_median(before)
        scale = 1.4826 * row_median(np.abs(before - level[:, None]))
        there = ~np.isnan(costs[:, night])
        moved = np.where(there, costs[:, night] - level, 0)
        state = np.where(there, (1 - weight) * state + weight * moved, state)
        out[:, night] = state > limit * scale * np.sqrt(weight / (2 - weight)) + 1e-9
    return out


@dataclass(frozen=True)
class Score:
    """Detected steps, within SOON and LATE entries, and findings without one."""

    steps: int
    soon: int
    late: int
    large: int
    large_told: int
    findings: int
    noise: int
    short: int
    months: float  # of 100 series
    missed: tuple[Step, ...] = ()

    @property
    def row(self) -> str:
        shares = (f"{one} ({100 * one / max(self.steps, 1):.0f} %)" for one in (self.soon, self.late))
        large = f"{self.large_told} of {self.large}"
        rates = (f"{one / self.months:.2f}" for one in (self.noise, self.short))
        return f"{self.steps} | {' | '.join(shares)} | {large} | {self.findings} | {' | '.join(rates)}"


def hits(costs: np.ndarray, steps: list[Step], told: list[Told], within: int) -> list[bool]:
    """Whether each step was reported within a number of entries."""
    rows = [dense(row)[1] for row in costs]
    by_series: dict[int, list[Told]] = {}
    for one in told:
        by_series.setdefault(one.series, []).append(one)
    out = []
    for step in steps:
        columns = rows[step.series]
        at = int(np.searchsorted(columns, step.entry))
        hit = False
        for one in by_series.get(step.series, []):
            began, said = int(np.searchsorted(columns, one.began)), int(np.searchsorted(columns, one.said))
            hit |= at - EARLY <= said < at + within and abs(began - at) <= max(NEAR, said - at)
        out.append(hit)
    return out


def score(costs: np.ndarray, steps: list[Step], told: list[Told]) -> Score:
    """Reports for clean steps, and reports without one."""
    rows = [dense(row) for row in costs]
    soon, late, told_at_all = (hits(costs, steps, told, within) for within in (SOON, LATE, SIDE))
    noise = short = 0
    for one in told:
        own, columns = rows[one.series]
        at = int(np.searchsorted(columns, one.began))
        if at < SIDE or at + SIDE > len(own):
            continue
        before = np.median(own[at - SIDE : at])
        if np.expm1(np.median(own[at : at + SIDE]) - before) < NOTHING:
            moved = np.expm1(np.median(own[at : at + SHORT]) - before) >= NOTHING
            short, noise = short + bool(moved), noise + (not moved)
    months = sum(max(0, len(own) - LEARNING - SIDE) for own, _ in rows) / (100 * 30)
    large = [hit for step, hit in zip(steps, told_at_all, strict=True) if step.size > LARGE]
    missed = tuple(step for step, hit in zip(steps, late, strict=True) if not hit)
    return Score(len(steps), sum(soon), sum(late), len(large), sum(large), len(told), noise, short, months, missed)


def costs_of(values: np.ndarray, higher: np.ndarray) -> np.ndarray:
    """Logarithms such that more is worse."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(higher[:, None], -1, 1) * np.log(values)


def chosen(public: histories.Public, count: int) -> np.ndarray:
    """Every k-th series, so that about `count` remain."""
    return np.arange(0, len(public.values), max(1, -(-len(public.values) // count)))


def by_day(values: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Medians of the entries of each day, (series, days); `entries` in seconds, NaN where a day has none."""
    day = entries // DAY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.stack([np.nanmedian(values[:, day == one], axis=1) for one in np.unique(day)], axis=1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--series", type=int, default=600, help="take about N per file, evenly spaced (default: 600)")
    parser.add_argument("--entries", type=int, help="take the newest N per file (default: all)")
    parser.add_argument("--days", action="store_true", help="one value per day: the median of its entries")
    parser.add_argument("--rivals", action="store_true", help="also EWMA and the three-night rule")
    parser.add_argument("--missed", action="store_true", help="list the steps that were not reported")
    given = parser.parse_args(arguments)
    try:
        read = {file: histories.load(file) for file in given.files}
    except histories.HistoriesError as error:
        print(f"tools.bench.real: {error}", file=sys.stderr)
        return 2
    print("| history | method | clean steps | within 2 | within 7 | > 20 % | findings | noise | short |")
    print("|---|---|---|---|---|---|---|---|---|")
    bad = False
    for file, public in read.items():
        rows = chosen(public, given.series)
        newest = slice(-given.entries if given.entries else None, None)
        values, higher, entries = public.values[rows, newest], public.higher[rows], public.entries[newest]
        values = by_day(values, entries) if given.days else values
        costs = costs_of(values, higher)
        steps = clean_steps(costs)
        events = detect(values, higher, Settings())
        methods = {"gate": _losses(events)}
        if given.rivals:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                methods["three nights, 3 %"] = from_rule(three_nights(costs))
                methods["EWMA"] = from_rule(ewma(costs))
        for name, told in methods.items():
            found = score(costs, steps, told)
            print(f"| {file.stem} | {name} | {found.row} |", flush=True)
            if name == "gate":
                became = sum(e.kind == "noisy" for e in events.events)
                print(f"    became noisy: {became} findings ({became / found.months:.2f} per month and 100 series)")
                bad |= found.late < 0.95 * found.steps or found.large_told < found.large
                bad |= found.noise > found.months
                if given.missed:
                    for step in found.missed:
                        print(f"    {public.names[rows[step.series]]} entry {step.entry}: {100 * step.size:.1f} %")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
