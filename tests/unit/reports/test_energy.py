"""Energy in the gate: GPUs are compared by `per_watt` only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tenken.history import causes
from tenken.history.nights import History
from tenken.model.catalogue import CatalogueError, of_suite, read_metric
from tests.unit.reports.test_gate import history

NIGHTS = 130


def cards(metric: str, direction: str, seed: int = 3) -> History:
    """Sixteen GPUs of hpl_mxp below their cap, whose readings scatter by 0.5 %."""
    h = history(nodes=16, nights=NIGHTS)
    series = [replace(s, program="hpl_mxp", metric=metric, direction=direction, unit="J") for s in h.series]
    values = 3600 * np.exp(np.random.default_rng(seed).normal(0, 0.005, (16, NIGHTS)))
    return replace(h, series=series, values=values)


@pytest.mark.parametrize(
    ("metric", "direction", "named"),
    [("per_watt", "higher", True), ("energy", "lower", False), ("power", "lower", False)],
)
def test_cards_are_held_against_each_other_by_operations_per_joule_alone(
    metric: str, direction: str, named: bool
) -> None:
    """A GPU that draws 10 % more is not an outlier for that: only its performance per watt counts."""
    h = cards(metric, direction)
    h.values[5] *= 1.1 if direction == "lower" else 1 / 1.1
    assert [f.rows for f in causes.outliers(h)] == ([[5]] if named else [])


def test_every_power_and_energy_of_the_catalogue_says_so() -> None:
    metrics = [m for program in of_suite().values() for m in program.metrics.values()]
    # for a burn-in also the state of each GPU, and how many of its injected faults were detected
    of_burn = {"draw", "temperature", "clock", "injected", "found", "masked", "detected"}
    assert {m.name for m in metrics if not m.across} == {"power", "energy", *of_burn}
    assert all(not m.across for m in metrics if m.unit in ("W", "J"))


def test_across_is_true_or_false() -> None:
    raw = {
        "title": "t", "unit": "W", "direction": "lower", "statistic": "total", "per": ["gpu"], "limit": "none",
        "plot": "bars",
    }  # fmt: skip
    assert read_metric("power", raw, "x").across and not read_metric("power", {**raw, "across": False}, "x").across
    with pytest.raises(CatalogueError, match="x: across is 'no'; allowed: true, false"):
        read_metric("power", {**raw, "across": "no"}, "x")
