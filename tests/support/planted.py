"""Planted faults: a kept run, the fault in it, and the words with which its refusal must name it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenken.model.judgement import Judgement
from tests.support import honest
from tests.support.documents import metric as made

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Fault:
    """A fault in a kept run. `change` alters its JSON in place, or returns another document."""

    of: str
    name: str
    says: str
    change: Change
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.of}: {self.name}"

    def judged(self) -> Judgement:
        run = honest.run(self.of)
        raw = run.raw()
        given = self.change(raw)
        return run.judged(given if isinstance(given, (str, list)) else raw, **self.beside)


def seen(judgement: Judgement, says: str, name: str = "") -> None:
    """Asserts that a fault was found, and is named."""
    said = " ".join(f.message for f in judgement.findings)
    assert judgement.verdict in ("FAIL", "INVALID"), f"{name}: {judgement.verdict}"
    assert "cannot be judged" not in said and re.search(says, said, re.I), f"{name}: {said[:300]}"


# ---- how faults are planted -----------------------------------------------------------------------------------


def put(path: str, value: Any) -> Change:
    """Sets a field: "devices.0.uuid"; a callable gets the former value."""

    def change(raw: Any) -> None:
        place, key = _place(raw, path)
        place[key] = value(place.get(key) if isinstance(place, dict) else place[key]) if callable(value) else value

    return change


def without(path: str) -> Change:
    def change(raw: Any) -> None:
        place, key = _place(raw, path)
        del place[key]

    return change


def _place(raw: Any, path: str) -> tuple[Any, Any]:
    *way, last = path.split(".")
    for step in way:
        raw = raw[int(step)] if isinstance(raw, list) else raw[step]
    return raw, int(last) if isinstance(raw, list) else last


def both(*changes: Change) -> Change:
    def change(raw: Any) -> None:
        for one in changes:
            one(raw)

    return change


def drop(which: Callable[[Any], bool]) -> Change:
    """Removes metrics and their limits."""

    def change(raw: Any) -> None:
        gone = [m["id"] for m in raw["metrics"] if which(m)]
        assert gone, "nothing to take away"
        raw["metrics"] = [m for m in raw["metrics"] if m["id"] not in gone]
        for ident in gone:
            del raw["limits"][ident]

    return change


def first(name: str) -> Callable[[Any], bool]:
    """The first metric of that name."""
    seen_ones: list[str] = []

    def which(metric: Any) -> bool:
        if metric["name"] == name:
            seen_ones.append(metric["id"])
        return metric["name"] == name and seen_ones[0] == metric["id"]

    return which


def remade(metric: Any, samples: list[float]) -> None:
    """New samples, and all statistics computed from them."""
    fresh = made(
        metric["name"], metric["subject"], samples, statistic=metric["statistic"], direction=metric["direction"]
    )
    metric.update({k: fresh[k] for k in ("value", "best", "median", "p5", "p95", "count", "samples")})
    if metric["statistic"] == "mean":
        metric["value"] = sum(samples) / len(samples)


def samples(name: str, change: Callable[[list[float]], list[float]]) -> Change:
    """Other samples of the metrics of a name ("": of all); everything else is recomputed."""

    def spoil(raw: Any) -> None:
        found = [m for m in raw["metrics"] if name in ("", m["name"])]
        assert found, name
        for metric in found:
            remade(metric, change(list(metric["samples"])))

    return spoil


def scaled(name: str, factor: float) -> Change:
    return samples(name, lambda values: [factor * v for v in values])


def check(number: int, **fields: Any) -> Change:
    return lambda raw: raw["verification"]["checks"][number].update(fields)


def health(gpu: int = 0, part: str | None = None, **fields: Any) -> Change:
    """Fields of a GPU's health: of its entry, or of `before`, `worst`, `after`."""

    def change(raw: Any) -> None:
        entry = raw["health"]["devices"][gpu]
        (entry if part is None else entry[part]).update(fields)

    return change
