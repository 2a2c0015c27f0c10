"""Samples that equal those of another metric: a copy, unless one is a ratio of exactly 1 to the other."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from tenken.judge import conditions
from tenken.model.verdicts import INVALID

RATES = tuple(5.0 + 0.1 * i for i in range(conditions.TRAIN))


#: Five events of a kernel of 5.952 us on an H100, in steps of 32 ns: two metrics had the same ones.
STEPS = (5.952, 5.952, 5.952, 5.92, 5.952)


def _metric(name: str, unit: str, samples: tuple[float, ...] = RATES, clock: str = "host") -> Any:
    return SimpleNamespace(
        name=name, unit=unit, samples=samples, id=f"{name}.gpu0", place="GPU 0", subject=None, clock=clock
    )


def _findings(*metrics: Any) -> list[Any]:
    declared = {one.name: SimpleNamespace(sign="positive", best_of=()) for one in metrics}
    result: Any = SimpleNamespace(metrics=metrics, node="n1")
    program: Any = SimpleNamespace(metrics=declared, relations=(), chosen={})
    return conditions._trains(result, program)


def test_a_ratio_to_exactly_one_may_have_the_samples_of_its_rate() -> None:
    assert _findings(_metric("write", "GB/s"), _metric("write_over_map", "1")) == []


def test_two_rates_with_the_same_samples_are_a_copy(monkeypatch: Any) -> None:
    monkeypatch.setattr(conditions, "_one_is_the_other", lambda *_: False)
    for unit in ("GB/s", "1"):
        (found,) = _findings(_metric("write", unit), _metric("read", unit))
        assert found.verdict == INVALID
        assert "write.gpu0" in found.message


def test_a_few_events_of_short_kernels_may_fall_on_the_same_steps(monkeypatch: Any) -> None:
    monkeypatch.setattr(conditions, "_one_is_the_other", lambda *_: False)
    both = [_metric(name, "us", STEPS, "device") for name in ("pinned", "pageable")]
    assert _findings(*both) == []
    # a train in two halves
    assert _findings(_metric("pinned", "us", STEPS * 2, "device")) == []


def test_what_steps_do_not_explain_is_a_copy(monkeypatch: Any) -> None:
    monkeypatch.setattr(conditions, "_one_is_the_other", lambda *_: False)
    for samples, clock in (
        (STEPS, "host"),  # a clock of nanoseconds
        (RATES, "device"),  # no two alike
        ((*STEPS, 5.984, 5.888) * 3, "device"),  # too many
    ):
        found = _findings(*(_metric(name, "us", samples, clock) for name in ("pinned", "pageable")))
        assert found
        assert re.search(r"samples equal those of pinned\.gpu0|repeated in the same order", found[-1].message)
    (found,) = _findings(_metric("pinned", "us", RATES * 2, "device"))
    assert "repeated in the same order" in found.message
