"""Limits of any method, by likelihood ratio: losses reported when only the noise tripled, and steps found in two
nights.

    python -m tools.bench.floor [--draws N]

A method that finds a given share of all steps within k nights must report at least the printed share of series whose
noise triples, on the first k nights alone. Among all regions of k values with this share of steps, the one with the
largest likelihood ratio of a step to the noise has the smallest share of the noise (Neyman and Pearson 1933). Values
are normal and independent, and level and noise before the change are known. The last column is what the gate reports
within k nights. A method does not know on which night a step begins, and chance has another opportunity on each night,
so this limit cannot be reached.

The second table has the maximum share of steps of 5 % that two values can show at a given rate of false findings, for a
method that knows the noise, the level and the size of the step.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from tenken.history.detect import Settings
from tools.bench import detection
from tools.bench.rows import ROWS, SEEDS, SERIES_NIGHTS_A_MONTH

#: Sizes of the step in deviations, equally probable; nights; percentage of steps found.
CASES: tuple[tuple[tuple[float, ...], int, float], ...] = (
    ((3.0,), 3, 80.0),
    ((5.0,), 2, 98.5),
    ((5.0,), 3, 99.8),
    ((3.0, 4.0, 5.0, 6.0, 8.0, 10.0), 2, 90.0),
    ((3.0, 4.0, 5.0, 6.0, 8.0, 10.0), 3, 98.0),
)
TIMES = 3.0
FLEETS = 5
STEP = 0.05
#: False findings per month of a fleet that are caused by two values alone.
RATES = (0.8, 0.2, 0.1)


def floor(sizes: tuple[float, ...], nights: int, share: float, draws: int, seed: int = 1) -> tuple[float, float]:
    """Minimum percentage reported of series whose noise triples, and its standard error.

    Of steps of these sizes, `share` % are reported within this many nights.
    """
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(draws, nights))
    steps = normal + rng.choice(sizes, draws)[:, None]
    limit = np.quantile(_ratio(steps, sizes), 1 - share / 100)
    found = float((_ratio(TIMES * normal, sizes) >= limit).mean())
    return 100 * found, 100 * (found * (1 - found) / draws) ** 0.5


def _ratio(values: np.ndarray, sizes: tuple[float, ...]) -> np.ndarray:
    """Log-likelihood ratio of a step to tripled noise, without its constant; the sizes are equally probable."""
    total, nights = values.sum(axis=1), values.shape[1]
    step = np.logaddexp.reduce([size * total - nights * size**2 / 2 for size in sizes], axis=0)
    return np.asarray(step - (values**2).sum(axis=1) * (1 - 1 / TIMES**2) / 2)


def _gamma(rng: np.random.Generator, draws: int) -> np.ndarray:
    scale = 0.01 / np.sqrt(2.0)
    value = rng.gamma(2.0, 1.0, (draws, 2))
    return np.asarray((np.log1p(STEP / scale / value) - STEP / scale).sum(axis=1))


def _mixed(rng: np.random.Generator, draws: int) -> np.ndarray:
    size = STEP / rng.choice([0.003, 0.01, 0.015], (draws, 1))
    return np.asarray((-size * rng.normal(size=(draws, 2)) - size**2 / 2).sum(axis=1))


#: Log-likelihood ratio of no change to the step, for pairs of values after the step, by family of `simulate`.
PAIRS = {"gamma": _gamma, "mixed": _mixed}


def found_by_two(family: str, rate: float, draws: int, seed: int = 1) -> float:
    """Maximum percentage of steps found by two values at `rate` false findings per month of a fleet."""
    weight = np.sort(np.exp(PAIRS[family](np.random.default_rng(seed), draws)))
    # what chance produces as often as this number of most likely pairs: Neyman and Pearson, by importance sampling
    return 100 * float((np.cumsum(weight) / draws <= rate / SERIES_NIGHTS_A_MONTH).mean())


def gate() -> dict[int, float]:
    """The gate on series whose normal noise tripled: percentage reported as a loss, by number of nights."""
    row = next(row for row in ROWS if row.name == "scatter x 3, lognormal, a loss")
    first = detection.first_finding(row, SEEDS["held-out"][:FLEETS], Settings())
    return {nights: 100 * float((first <= nights).mean()) for nights in (2, 3)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    if given.draws < 1:
        parser.error("--draws: at least 1")
    ours = gate()
    print("| step, deviations | within nights | found, % | noise x 3 reported as a loss, %: minimum | gate |")
    print("|---|---|---|---|---|")
    for sizes, nights, share in CASES:
        least, error = floor(sizes, nights, share, given.draws)
        told = " to ".join(f"{size:g}" for size in sorted({min(sizes), max(sizes)}))
        print(f"| {told} | {nights} | {share:g} | {least:.2f} ± {error:.2f} | {ours[nights]:.1f} |")
    print("\n| false findings per month | " + " | ".join(f"5 % step, {name}, found, %" for name in PAIRS) + " |")
    print("|---|" + "---|" * len(PAIRS))
    for rate in RATES:
        cells = [f"{found_by_two(name, rate, given.draws):.1f}" for name in PAIRS]
        print(f"| {rate:g} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
