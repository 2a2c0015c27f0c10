"""Apache Otava's detector, run night by night on the same histories; prints JSON.

It pins numpy, so it has a separate environment and uses only the simulator of this repository:

    python -m venv otava && otava/bin/pip install apache-otava==0.8.0
    PYTHONPATH=. otava/bin/python -m tools.bench.otava_detect --set tuning > otava-tuning.json
    python -m tools.bench.detection --otava otava-tuning.json

A finding is a change point for the worse that no earlier night reported within `NEAR` nights of it.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
from otava.analysis import compute_change_points

from tools.bench import rows
from tools.bench.simulate import CHANGE_NIGHT, FAMILIES, histories

NEAR = 3
FIRST_NIGHT = 44


def worse_points(history: np.ndarray, p: float) -> list[int]:
    """Nights on which the mean drops, detected in a history without gaps."""
    points, _ = compute_change_points(list(history[~np.isnan(history)]), max_pvalue=p)
    return [point.index for point in points if point.stats.mean_2 < point.stats.mean_1]


def false_findings(values: np.ndarray, p: float) -> int:
    count = 0
    for series in values:
        reported: list[int] = []
        for night in range(FIRST_NIGHT, len(series)):
            for point in worse_points(series[: night + 1], p):
                if all(abs(point - old) > NEAR for old in reported):
                    count += 1
                    reported.append(point)
    return count


def found_within(values: np.ndarray, p: float, nights: int) -> list[int]:
    """Series detected by each of the first `nights` nights of the change."""
    count = [0] * nights
    for series in values:
        found = False
        for after in range(nights):
            missing = np.count_nonzero(np.isnan(series[:CHANGE_NIGHT]))
            points = worse_points(series[: CHANGE_NIGHT + 1 + after], p)
            found = found or any(abs(point + missing - CHANGE_NIGHT) <= NEAR for point in points)
            count[after] += found
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=sorted(rows.SEEDS), default="tuning")
    parser.add_argument("--p", type=float, default=1e-5)
    parser.add_argument("--null-series", type=int, default=40, help="series of each family for false findings")
    parser.add_argument("--step-series", type=int, default=400, help="series of each row for detection")
    given = parser.parse_args()
    seed = rows.SEEDS[given.set][0]
    out: dict = {"detector": "apache-otava 0.8.0", "p": given.p, "set": given.set, "false": {}, "found": {}}
    for name, family in FAMILIES.items():
        values = histories(family, seed, None, given.null_series)
        months = values.shape[0] * (values.shape[1] - FIRST_NIGHT) / rows.SERIES_NIGHTS_A_MONTH
        out["false"][name] = {"findings": false_findings(values, given.p), "months": months}
        print(name, out["false"][name], file=sys.stderr, flush=True)
    for row in rows.ROWS:
        if row.change.slope:
            continue
        values = histories(
            FAMILIES[row.family], rows.planted(seed), row.change, given.step_series, rows.last_night(row)
        )
        out["found"][row.name] = {
            "series": given.step_series,
            "within": found_within(values, given.p, rows.last_night(row) - CHANGE_NIGHT),
        }
        print(row.name, out["found"][row.name], file=sys.stderr, flush=True)
    json.dump(out, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
