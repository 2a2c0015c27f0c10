"""Samples that equal those of another metric: a copy, unless one is the ratio of the other to exactly 1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tenken.judge import judging
from tenken.model.verdicts import INVALID

RATES = tuple(5.0 + 0.1 * i for i in range(judging.TRAIN))


def _metric(name: str, unit: str) -> Any:
    return SimpleNamespace(
        name=name, unit=unit, samples=RATES, id=f"{name}.gpu0", place="GPU 0", subject=None, clock="host"
    )


def _findings(*metrics: Any) -> list[Any]:
    declared = {one.name: SimpleNamespace(sign="positive", best_of=()) for one in metrics}
    result: Any = SimpleNamespace(metrics=metrics, node="n1")
    program: Any = SimpleNamespace(metrics=declared, relations=(), chosen={})
    return judging._trains(result, program)


def test_a_ratio_to_exactly_one_may_have_the_samples_of_its_rate() -> None:
    assert _findings(_metric("write", "GB/s"), _metric("write_over_map", "1")) == []


def test_two_rates_with_the_same_samples_are_a_copy(monkeypatch: Any) -> None:
    monkeypatch.setattr(judging, "_one_is_the_other", lambda *_: False)
    for unit in ("GB/s", "1"):
        (found,) = _findings(_metric("write", unit), _metric("read", unit))
        assert found.verdict == INVALID
        assert "write.gpu0" in found.message
