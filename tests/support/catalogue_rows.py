"""The declarations of the catalogue in short rows, with inherited keys and without texts for readers:
tests/data/catalogue.txt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from tenken.model.catalogue import Metric, Program
from tenken.model.formula import Formula
from tenken.reframe.foreign import Figure

#: Left out: texts for readers, fields with separate rows, and what nearly all have.
_BUT = {
    Program: {"name", "title", "section", "metrics", "tables", "contract"},
    Metric: {"name", "title", "unit", "direction", "statistic", "plot", "group", "published", "limit", "no_limit"},
    Figure: {"unit", "direction", "statistic"},
}
_WORDS = {"basis", "unknown", "source", "what", "verifications", "said_by"}


def of_program(program: Program) -> Iterator[str]:
    """The identity of quantities, the contract of results, each metric, each verification."""
    yield f"[{program.name}] {_parts(program)}".strip()
    yield f"contract {_parts(program.contract)}".strip()
    for one in program.metrics.values():
        yield f"{one.name}: {one.unit} {one.direction} {one.statistic} {_parts(one)}"
    for each in program.contract.verifications:
        yield f"verified {_parts(each)}"


def figure(one: Figure) -> str:
    """What the check of a third-party program declares about a figure."""
    return f"{one.unit} {one.direction} {one.statistic} {_parts(one)}".strip()


def of_file(raw: Any, place: str) -> Iterator[str]:
    """Each value of a file with its place."""
    if isinstance(raw, list) and any(isinstance(one, Mapping) for one in raw):
        raw = dict(enumerate(raw))
    if isinstance(raw, Mapping):
        for key, one in raw.items():
            if key not in {"basis", "unknown", "differs"}:
                yield from of_file(one, f"{place} {key}")
    else:
        yield f"{place} = {raw}"


def _parts(one: Any) -> str:
    found = []
    for part in fields(one):
        value = getattr(one, part.name)
        usual = part.default_factory() if part.default_factory is not MISSING else part.default
        if part.name not in _WORDS | _BUT.get(type(one), set()) and value not in (usual, None) and not _empty(value):
            found.append(f"{part.name}={_said(value)}")
    return " ".join(found)


def _said(one: Any) -> str:
    if isinstance(one, Formula):
        return f"`{one.text}`"
    if is_dataclass(one):
        return f"({_parts(one)})"
    if isinstance(one, Mapping):
        return "{" + " ".join(f"{key}:{_said(value)}" for key, value in one.items() if value is not None) + "}"
    if isinstance(one, (tuple, list, frozenset)):
        return "[" + " ".join(map(_said, sorted(one) if isinstance(one, frozenset) else one)) + "]"
    return one.__name__ if callable(one) else str(one)


def _empty(value: Any) -> bool:
    return isinstance(value, Mapping) and all(one is None for one in value.values())
