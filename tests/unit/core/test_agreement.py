"""All metrics of a result are compared with their samples at once: never more is accepted than one by one."""

from __future__ import annotations

import dataclasses
import random
import statistics
from typing import Any

import pytest

from tenken.model import agreement
from tenken.model.agreement import agreeing
from tenken.model.numbers import quantiles
from tenken.model.result import MetricValue
from tenken.model.subject import Coordinates, Subject

pytest.importorskip("numpy")


def metric(name: str, samples: list[float], direction: str, statistic: str) -> MetricValue:
    """Honest figures of these samples."""
    ordered = sorted(samples)
    median, p5, p95 = quantiles(ordered, (0.5, 0.05, 0.95))
    figures = {"best": ordered[-1] if direction == "higher" else ordered[0], "median": median, "p5": p5, "p95": p95}
    value = {**figures, "mean": statistics.fmean(samples), "total": statistics.fmean(samples[:2])}[statistic]
    return MetricValue(
        name, name, Subject("host"), Coordinates(), "GB/s", direction, statistic, value, *figures.values(),
        len(samples), tuple(samples),
    )  # fmt: skip


def some(rng: random.Random) -> list[MetricValue]:
    """Metrics of every direction and statistic, of two sizes, one of them of equal and one of zero samples."""
    found = []
    for direction in ("higher", "lower"):
        for statistic in ("best", "median", "p5", "p95", "mean", "total"):
            size = rng.choice((20, 101))
            samples = [rng.gauss(100, 5) for _ in range(size)]
            found.append(metric(f"{direction}_{statistic}", samples, direction, statistic))
    return [*found, metric("equal", [7.0] * 20, "higher", "median"), metric("zero", [0.0] * 20, "lower", "best")]


def test_honest_metrics_all_agree() -> None:
    metrics = some(random.Random(1))
    assert all(not one.inconsistencies() for one in metrics)
    assert agreeing(metrics) == {one.id for one in metrics}


@pytest.mark.parametrize("field", ["best", "median", "p5", "p95", "value", "count", "samples"])
def test_what_differs_one_by_one_differs_at_once(field: str) -> None:
    rng = random.Random(field)
    refused = 0
    for _ in range(60):
        metrics = some(rng)
        number = rng.randrange(len(metrics))
        said: Any = getattr(metrics[number], field)
        factor = 1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-8, -1)
        if field == "count":
            said += rng.choice((-1, 1, 20))
        elif field == "samples":
            place = rng.randrange(len(said))
            said = (*said[:place], said[place] * 2 + 300, *said[place + 1 :])
        else:
            said = said * factor
        metrics[number] = dataclasses.replace(metrics[number], **{field: said})
        differs = {one.id for one in metrics if one.inconsistencies()}
        assert not agreeing(metrics) & differs
        assert {one.id for one in metrics} - agreeing(metrics) <= {metrics[number].id}
        refused += bool(differs)
    assert refused > 10


def test_without_numpy_and_of_few_samples_none_is_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = some(random.Random(1))
    assert not agreeing([dataclasses.replace(metrics[0], samples=metrics[0].samples[:5], count=5)])
    monkeypatch.setattr(agreement, "numpy", lambda: None)
    assert not agreeing(metrics)


def test_a_metric_without_samples_is_left_to_the_single_comparison() -> None:
    metrics = some(random.Random(1))
    pruned = dataclasses.replace(metrics[0], samples=(), count=0)
    assert agreeing([pruned, *metrics[1:]]) == {one.id for one in metrics[1:]}
