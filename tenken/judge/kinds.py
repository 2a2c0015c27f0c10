"""A value held against what other devices of the same model reached."""

from __future__ import annotations

from tenken.judge.bounds import NOTE
from tenken.model.judgement import KIND, Criterion, Finding
from tenken.model.kinds import NEAREST, Known
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import RECORDED


def criterion(known: Known | None, metric: MetricValue, name: str) -> Criterion | None:
    """The least value of a further device, where enough devices of enough sites are known. `name`: of the model."""
    if known is None or not known.decides or known.bound is None:
        return None
    source = f"prediction interval of {_of(known, name)}, {len(known.machines)} machines, {known.sites} sites"
    return Criterion(KIND, known.middle, known.bound, None, metric.unit, metric.statistic, source)


def note(known: Known | None, result: Result, metric: MetricValue, name: str) -> Finding | None:
    """Of a value below all known devices, where they are too few for a criterion."""
    if known is None or known.decides or not metric.value < (1 - NEAREST) * min(known.values):
        return None
    below = 100 * (1 - metric.value / known.middle)
    text = (
        f"{result.node} {metric.place}: {metric.id} = {metric.value:.6g} {metric.unit} is {below:.1f} % below the "
        f"{_of(known, name)} known, whose middle is {known.middle:.6g} and whose least is {min(known.values):.6g}"
    )
    return Finding(RECORDED, text, metric.id, metric.subject, result.node, kind=NOTE)


def _of(known: Known, name: str) -> str:
    return f"{len(known.values)} {name}"
