"""What a lie is: an honest run, what is changed of it, and the field that its refusal must name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tenken.model.judgement import Judgement
from tests.lies import honest
from tests.support.documents import metric as made

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Lie:
    """A doctored run. `change` spoils the JSON in place, or gives another value (a text is parsed as it is)."""

    of: str
    name: str
    names: str
    change: Change
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.of}: {self.name}"

    def told(self) -> Judgement:
        run = honest.run(self.of)
        raw = run.raw()
        given = self.change(raw)
        return run.judged(given if isinstance(given, (str, list)) else raw, **self.beside)

    def accepted(self) -> str:
        """Why the lie was not refused as it must be; empty where it was."""
        judgement = self.told()
        if judgement.verdict not in ("FAIL", "INVALID"):
            return f"{self.id}: {judgement.verdict}"
        said = " ".join(f.message for f in judgement.findings)
        if "cannot be judged" in said:
            return f"{self.id}: an exception: {said}"
        return (
            ""
            if re.search(self.names, said, re.I)
            else f"{self.id}: refused without naming {self.names!r}: {said[:300]}"
        )


# ---- how documents are spoiled --------------------------------------------------------------------------------


def put(path: str, value: Any) -> Change:
    """Sets a field: "devices.0.uuid"; a callable gets what was there."""

    def change(raw: Any) -> None:
        *way, last = path.split(".")
        place = raw
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        key: Any = int(last) if isinstance(place, list) else last
        place[key] = value(place.get(key) if isinstance(place, dict) else place[key]) if callable(value) else value

    return change


def both(*changes: Change) -> Change:
    def change(raw: Any) -> None:
        for one in changes:
            one(raw)

    return change


def without(path: str) -> Change:
    def change(raw: Any) -> None:
        *way, last = path.split(".")
        place = raw
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        del place[int(last) if isinstance(place, list) else last]

    return change


def drop(which: Callable[[Any], bool]) -> Change:
    """Takes metrics and their limits away."""

    def change(raw: Any) -> None:
        gone = [m["id"] for m in raw["metrics"] if which(m)]
        assert gone, "nothing to take away"
        raw["metrics"] = [m for m in raw["metrics"] if m["id"] not in gone]
        for ident in gone:
            del raw["limits"][ident]

    return change


def nth(name: str, number: int = 0) -> Callable[[Any], bool]:
    """The metric of that name that comes as the `number`th."""
    seen: list[str] = []

    def which(metric: Any) -> bool:
        if metric["name"] != name:
            return False
        seen.append(metric["id"])
        return len(seen) - 1 == number

    return which


def named(*names: str) -> Callable[[Any], bool]:
    return lambda metric: metric["name"] in names


def remade(raw: Any, metric: Any, samples: list[float]) -> None:
    """New samples, and all statistics that follow from them."""
    fresh = made(
        metric["name"], metric["subject"], samples, statistic=metric["statistic"], direction=metric["direction"]
    )
    metric.update({k: fresh[k] for k in ("value", "best", "median", "p5", "p95", "count", "samples")})
    if metric["statistic"] == "mean":
        metric["value"] = sum(samples) / len(samples)


def samples(name: str, change: Callable[[list[float]], list[float]], every: bool = True) -> Change:
    """Changes the samples of the metrics of a name; everything else follows."""

    def spoil(raw: Any) -> None:
        found = [m for m in raw["metrics"] if m["name"] == name]
        assert found, name
        for metric in found if every else found[:1]:
            remade(raw, metric, change(list(metric["samples"])))

    return spoil


def times(factor: float) -> Callable[[list[float]], list[float]]:
    return lambda values: [factor * v for v in values]


def check(number: int, **fields: Any) -> Change:
    return lambda raw: raw["verification"]["checks"][number].update(fields)


def health(gpu: int = 0, part: str | None = None, **fields: Any) -> Change:
    """Fields of a GPU's health: of its entry, or of `before`, `worst`, `after`."""

    def change(raw: Any) -> None:
        entry = raw["health"]["devices"][gpu]
        (entry if part is None else entry[part]).update(fields)

    return change


def each(of: str, *told: tuple[str, str, Change]) -> Iterator[Lie]:
    """Several lies about one run: name, field, change."""
    for name, names, change in told:
        yield Lie(of, name, names, change)
