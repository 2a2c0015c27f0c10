"""Coverage of the interval of an acceptance report: it must contain the true median in 93 to 97 % of all cases.

    python -m tools.bench.intervals [--rounds N]

Simulated runs with five distributions of noise, and runs drawn from 60 launches on one H200 (h200_run_to_run.csv),
whose median then counts as the true one. For comparison common alternatives: Student's interval of the mean, and
samples within one run treated as runs. Exit status 1 if a coverage is not within 93 to 97 %.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tenken.report.intervals import median_interval

LOW, HIGH = 0.93, 0.97
SIZES = (5, 6, 8, 12, 20)
FILE = Path(__file__).with_name("h200_run_to_run.csv")

#: Two-sided 95 % quantiles of Student's t by degrees of freedom (any table of statistics).
STUDENT = {4: 2.776, 5: 2.571, 7: 2.365, 11: 2.201, 19: 2.093}

Law = Callable[[np.random.Generator, tuple[int, ...]], "np.ndarray"]

#: Distributions of runs: draws of a shape; relative to a true level of 100.
LAWS: dict[str, Law] = {
    "normal, CV 1 %": lambda source, shape: source.normal(100, 1, shape),
    "lognormal, CV 5 %": lambda source, shape: 100 * np.exp(source.normal(0, 0.05, shape)),
    "below a ceiling": lambda source, shape: 100 - source.exponential(1, shape),
    "one in twenty 10 % slow": lambda source, shape: (
        source.normal(100, 0.5, shape) * np.where(source.random(shape) < 0.05, 0.9, 1.0)
    ),
    "two modes, 3 % apart": lambda source, shape: (
        source.normal(100, 0.3, shape) - np.where(source.random(shape) < 0.3, 3.0, 0.0)
    ),
}


def launches() -> dict[str, np.ndarray]:
    """The values of 60 launches, by name."""
    with FILE.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {name: np.array([float(r[name]) for r in rows]) for name in rows[0] if name != "run"}


def coverage(draws: np.ndarray, truth: float) -> float:
    """Fraction of the rows of `draws` (rounds x runs) whose interval contains the true value."""
    inside = 0
    for row in draws:
        interval = median_interval(row.tolist())
        inside += interval.low <= truth <= interval.high
    return inside / len(draws)


def student(draws: np.ndarray, truth: float) -> float:
    """The same for Student's interval of the mean."""
    runs = draws.shape[1]
    half = STUDENT[runs - 1] * draws.std(axis=1, ddof=1) / np.sqrt(runs)
    return float(np.mean(np.abs(draws.mean(axis=1) - truth) <= half))


def simulated(rounds: int, seed: int) -> dict[tuple[str, int], tuple[float, float]]:
    """Coverage of this interval and of Student's by distribution and number of runs."""
    source = np.random.default_rng(seed)
    found = {}
    for name, law in LAWS.items():
        many = law(source, (2_000_000,))
        median, mean = float(np.median(many)), float(np.mean(many))
        for runs in SIZES:
            draws = law(source, (rounds, runs))
            found[name, runs] = (coverage(draws, median), student(draws, mean))
    return found


def resampled(rounds: int, seed: int) -> dict[tuple[str, int], tuple[float, float]]:
    """The same for runs drawn with replacement from real launches."""
    source = np.random.default_rng(seed)
    found = {}
    for name, values in launches().items():
        for runs in SIZES:
            draws = source.choice(values, (rounds, runs))
            found[name, runs] = (
                coverage(draws, float(np.median(values))),
                student(draws, float(np.mean(values))),
            )
    return found


def samples_as_runs(rounds: int, seed: int) -> float:
    """Coverage if 5 runs of 20 samples each, correlated within a run, are treated as 100 runs."""
    source = np.random.default_rng(seed)
    runs = source.normal(100, 1, (rounds, 5, 1)) + source.normal(0, 0.1, (rounds, 5, 20))
    return coverage(runs.reshape(rounds, 100), 100.0)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    rounds = parser.parse_args(arguments).rounds
    missed = 0
    print("| runs scatter like | runs | median, % | Student's mean, % |\n|---|---|---|---|")
    for table in (simulated(rounds, 1), resampled(rounds, 2)):
        for (name, runs), (ours, students) in table.items():
            wrong = "" if LOW <= ours <= HIGH else " MISSED"
            missed += bool(wrong)
            print(f"| {name} | {runs} | {100 * ours:.1f}{wrong} | {100 * students:.1f} |")
    print(f"| 5 runs of 20 samples, taken for 100 runs | | {100 * samples_as_runs(rounds // 4, 3):.1f} | |")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
