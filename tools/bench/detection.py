"""Performance of the detection: false findings and detection of planted changes, compared with other methods.

    python -m tools.bench.detection                 # our method, tuning and held-out seeds
    python -m tools.bench.detection --rivals        # and the rules in common use, and the oracles
    python -m tools.bench.detection --otava FILE    # and what tools.bench.otava_detect wrote (repeatable)

False findings are counted on whole fleets, as they would be reported, and detection on series that move alone in a
fleet of 200. Every percentage comes with its standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tenken.history.detect import Settings, detect
from tools.bench import real, rivals
from tools.bench.rows import (
    FALSE_AT_MOST,
    RESTLESS_AT_MOST,
    ROWS,
    SEEDS,
    SERIES_NIGHTS_A_MONTH,
    Row,
    last_night,
    planted,
)
from tools.bench.simulate import (
    AWKWARD,
    CHANGE_NIGHT,
    FAMILIES,
    NIGHTS,
    RESTLESS,
    SERIES,
    SHAPES,
    TUNED,
    histories,
)

UP = np.ones(SERIES, bool)
OF_LEVELS = [row for row in ROWS if row.change.scatter == 1]
_ASKED = {family.name: FALSE_AT_MOST for family in TUNED + SHAPES}
_ASKED |= {family.name: RESTLESS_AT_MOST for family in RESTLESS + AWKWARD}
# no requirement for the held-out family, which shows the limits of the method


@dataclass(frozen=True)
class Share:
    """`hits` of `trials`, as a percentage with its standard error."""

    hits: int
    trials: int

    def __str__(self) -> str:
        p = self.hits / self.trials
        error = (max(p * (1 - p), 0.25 / self.trials) / self.trials) ** 0.5
        return f"{100 * p:.1f} ± {100 * error:.1f}"


@dataclass(frozen=True)
class Rate:
    """Findings of a fleet per month, with the standard error of a count."""

    findings: int
    months: float

    def __str__(self) -> str:
        error = max(self.findings, 1) ** 0.5 / self.months
        return f"{self.findings / self.months:.2f} ± {error:.2f}"


@dataclass(frozen=True)
class Column:
    """A detector's results: by family, and by row and number of nights."""

    title: str
    false: dict[str, Rate]
    found: dict[tuple[str, int], Share]


def first_finding(row: Row, seeds: tuple[int, ...], settings: Settings) -> np.ndarray:
    """Number of values of each series from the change to its first finding of the row's kind; very large if there is
    none."""
    values = _planted(row, seeds)
    errors = _errors(row.family, *values.shape)
    findings = detect(values, np.ones(len(values), bool), settings, alone_among=SERIES, errors=errors)
    since = _since(values)
    first = np.full(len(values), np.iinfo(int).max)
    for event in findings.events:
        if row.left and event.withdrawn:
            continue
        if event.worse and event.found_night >= CHANGE_NIGHT and (event.kind == "noisy") == row.noisy:
            first[event.series] = min(first[event.series], since[event.series, event.found_night])
    return first


def _since(values: np.ndarray) -> np.ndarray:
    """Values of each series from the change to each night."""
    there = ~np.isnan(values)
    there[:, :CHANGE_NIGHT] = False
    return np.cumsum(there, axis=1)


def _errors(family: str, series: int, nights: int) -> np.ndarray | None:
    """The standard error that the nights of a family state, if they state one."""
    errors = FAMILIES[family].errors
    return errors(series, nights) if errors is not None else None


def ours(seeds: tuple[int, ...], settings: Settings) -> Column:
    least = settings.judged_from  # nights before which no series is judged
    false = {}
    for name, family in FAMILIES.items():
        count = 0
        for seed in seeds:
            findings = detect(histories(family, seed), UP, settings, errors=_errors(name, SERIES, NIGHTS))
            count += sum(event.worse for event in findings.events)
        false[name] = Rate(count, len(seeds) * SERIES * (NIGHTS - least) / SERIES_NIGHTS_A_MONTH)
    found = {}
    for row in ROWS:
        first = first_finding(row, seeds, settings)
        for nights in row.targets:
            found[row.name, nights] = Share(int(np.count_nonzero(first <= nights)), len(first))
    return Column("ours", false, found)


def _planted(row: Row, seeds: tuple[int, ...]) -> np.ndarray:
    family, nights = FAMILIES[row.family], last_night(row)
    return np.concatenate([histories(family, planted(seed), row.change, nights=nights) for seed in seeds])


def _costs(name: str, seeds: tuple[int, ...], row: Row | None = None) -> np.ndarray:
    if row is None:
        values = np.concatenate([histories(FAMILIES[name], seed) for seed in seeds])
    else:
        values = _planted(row, seeds)
    with np.errstate(divide="ignore"):  # a value of 0
        return -np.log(values / 1000.0)


def _months(series: int) -> float:
    return series * (NIGHTS - rivals.FIRST_NIGHT) / SERIES_NIGHTS_A_MONTH


def _share(alarms: np.ndarray, costs: np.ndarray, nights: int) -> Share:
    since = _since(costs)
    hits = np.count_nonzero((alarms & (since > 0) & (since <= nights)).any(axis=1))
    return Share(int(hits), len(alarms))


def rule(title: str, seeds: tuple[int, ...], alarm: rivals.Rule) -> Column:
    """A rule with one setting for all families."""
    false, found = {}, {}
    for name in FAMILIES:
        costs = _costs(name, seeds)
        false[name] = Rate(rivals.openings(alarm(costs)), _months(len(costs)))
    for row in OF_LEVELS:
        costs = _costs(row.family, seeds, row)
        alarms = alarm(costs)
        for nights in row.targets:
            found[row.name, nights] = _share(alarms, costs, nights)
    return Column(title, false, found)


def told(title: str, seeds: tuple[int, ...], evidence_for: Callable[[Row], rivals.Evidence]) -> Column:
    """A detector that knows the family: its threshold is the lowest that keeps the permitted false rate there."""
    false: dict[str, Rate] = {}
    found = {}
    silent: dict[tuple, np.ndarray] = {}
    for row in OF_LEVELS:
        evidence = evidence_for(row)
        key = (row.family, evidence.name)
        if key not in silent:
            silent[key] = evidence.of(_costs(row.family, seeds))
            silent[key][:, : rivals.FIRST_NIGHT] = -np.inf
        months = _months(len(silent[key]))
        limit = rivals.threshold_for(silent[key], FALSE_AT_MOST * months)
        false.setdefault(row.family, Rate(rivals.openings(silent[key] > limit), months))
        costs = _costs(row.family, seeds, row)
        alarms = evidence.of(costs) > limit
        for nights in row.targets:
            found[row.name, nights] = _share(alarms, costs, nights)
    return Column(title, false, found)


def rival_columns(seeds: tuple[int, ...]) -> list[Column]:
    columns = [
        rule("3 % below reference", seeds, lambda costs: rivals.fixed_threshold(costs, 0.03)),
        rule("5 % below reference", seeds, lambda costs: rivals.fixed_threshold(costs, 0.05)),
        rule("z > 3 of last 10", seeds, rivals.z_score),
        rule("three nights 3 % below trailing median", seeds, real.three_nights),
        rule("EWMA", seeds, real.ewma),
    ]
    for k in (2, 3, 4):
        columns.append(told(f"{k} of {k}, reported", seeds, lambda row, k=k: rivals.k_of_k(k)))  # type: ignore[misc]
    return columns


def otava_column(path: str) -> tuple[str, Column]:
    with open(path, encoding="utf-8") as stream:
        document = json.load(stream)
    false = {name: Rate(one["findings"], one["months"]) for name, one in document["false"].items()}
    found = {}
    for row in ROWS:
        if row.name in document["found"]:
            one = document["found"][row.name]
            for nights in row.targets:
                found[row.name, nights] = Share(one["within"][nights - 1], one["series"])
    return document["set"], Column(f"Otava, p = {document['p']:g}", false, found)


def table(columns: list[Column]) -> str:
    """Markdown: first the false findings per month of each family, then the detection of each row."""
    lines = ["| case | required | " + " | ".join(column.title for column in columns) + " |"]
    lines.append("|---|---|" + "---|" * len(columns))
    for name in FAMILIES:
        cells = [str(column.false.get(name, "")) for column in columns]
        asked = f"<= {_ASKED[name]:g}" if name in _ASKED else ""
        lines.append(f"| false findings per month, {name} | {asked} | " + " | ".join(cells) + " |")
    for row in ROWS:
        for nights in row.targets:
            cells = [str(column.found.get((row.name, nights), "")) for column in columns]
            when = "after" if row.left else "within"
            lines.append(f"| {row.name}, {when} {nights} nights, % | {row.required(nights)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def misses(column: Column) -> list[str]:
    """Rows with a value worse than required."""
    out = [
        f"{name}: {rate} false findings per month"
        for name, rate in column.false.items()
        if name in _ASKED and rate.findings / rate.months > _ASKED[name]
    ]
    for row in ROWS:
        for nights in row.targets:
            share = column.found[row.name, nights]
            if row.missed(nights, 100 * share.hits / share.trials):
                out.append(f"{row.name}, within {nights} nights: {share} %, required {row.required(nights)}")
    return out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="fleets of 200 series per value, 1 to 20")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--otava", action="append", default=[], metavar="FILE")
    parser.add_argument("--set", choices=sorted(SEEDS), action="append", help="default: both")
    given = parser.parse_args(arguments)
    if not 1 <= given.seeds <= 20:
        parser.error("--seeds: 1 to 20")
    otava: dict[str, list[Column]] = {}
    for path in given.otava:
        which, column = otava_column(path)
        otava.setdefault(which, []).append(column)
    missed = False
    for which in given.set or sorted(SEEDS, reverse=True):
        seeds = SEEDS[which][: given.seeds]
        columns = [ours(seeds, Settings())]
        if given.rivals:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "All-NaN slice|Mean of empty slice|Degrees of freedom|invalid value")
                columns += rival_columns(seeds)
        columns += otava.get(which, [])
        print(f"\n{which} seeds, {len(seeds)} fleets of {SERIES} series\n\n{table(columns)}\n", flush=True)
        for line in misses(columns[0]):
            missed = True
            print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
