"""Rows of a page for quantities that a session measured both by a program of this suite and by a third-party one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tenken.model.catalogue import PROGRAMS
from tenken.model.result import Result
from tenken.model.verdicts import HEALTHY
from tenken.report import formatting
from tenken.report.rows import Row
from tenken.report.session import Case, Session

FILE = PROGRAMS / "side_by_side.yaml"
#: Maximum rows of one pair of metrics: the smallest, the middle and the largest common point.
MOST = 3


@dataclass(frozen=True)
class Beside:
    """One quantity from both: values in `unit`; `ratio` is ours over theirs, above 1 if ours is better."""

    title: str
    at: str
    our_check: str
    their_check: str
    ours: float
    theirs: float
    unit: str
    differs: str
    #: True if higher is better
    higher: bool

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.higher else self.theirs / self.ours


@cache
def pairs() -> tuple[Mapping[str, Any], ...]:
    """The pairs of metrics in src/programs/side_by_side.yaml."""
    from ruamel.yaml import YAML

    return tuple(YAML(typ="safe", pure=True).load(FILE.read_text(encoding="utf-8")))


def found(session: Session, rows: Mapping[int, list[Row]]) -> list[Beside]:
    """Rows of a session whose measurements are valid; `rows` by the id of each case."""
    by_metric: dict[tuple[str, bool], list[tuple[Case, Row]]] = {}
    for case in session.tests:
        if case.result is None or case.record is None or case.verdict not in HEALTHY:
            continue
        for row in rows.get(id(case), ()):
            if row.value:
                request = case.record.request
                key = f"{case.result.program}.{row.name}", request is not None and request.foreign
                by_metric.setdefault(key, []).append((case, row))
    return [
        row
        for pair in pairs()
        for row in _compared(pair, by_metric.get((pair["ours"], False), []), by_metric.get((pair["theirs"], True), []))
    ]


def _compared(
    pair: Mapping[str, Any], ours: list[tuple[Case, Row]], theirs: list[tuple[Case, Row]]
) -> Iterator[Beside]:
    ours = [(case, row) for case, row in ours if pair.get("backend") in (None, _result(case).parameters.get("backend"))]
    theirs = [(case, row) for case, row in theirs if re.match(pair.get("by", ""), _result(case).version)]
    own, other = _grouped(pair, ours, {}), _grouped(pair, theirs, pair.get("at", {}))
    common = sorted(own.keys() & other.keys(), key=lambda key: tuple((str(type(k)), k) for k in key))
    if len(common) > MOST:
        common = [common[0], common[len(common) // 2], common[-1]]
    names = pair.get("same", [])
    for key in common:
        (case, row), (their_case, their_row) = own[key], other[key]
        if row.unit != their_row.unit:
            continue
        assert row.value and their_row.value
        at = [formatting.coordinate(name, value) for name, value in zip(names, key, strict=False)]
        yield Beside(
            row.title, ", ".join([*at, *([f"{key[-1]} ranks"] if pair.get("ranks") else [])]), case.base_check,
            their_case.base_check, row.value * pair.get("factor", 1), their_row.value, row.unit, pair["differs"],
            row.direction == "higher",
        )  # fmt: skip


def _grouped(
    pair: Mapping[str, Any], some: list[tuple[Case, Row]], at: Mapping[str, Any]
) -> dict[tuple[Any, ...], tuple[Case, Row]]:
    """The value that counts for each combination of what must be equal; of several subjects, the worst or the best."""
    result: dict[tuple[Any, ...], tuple[Case, Row]] = {}
    worst = pair.get("over", "worst") == "worst"
    for case, row in some:
        if any(row.at.get(name) != value for name, value in at.items()):
            continue
        # a parameter such as `n` may be a word on one side and a number on the other
        same = [row.at.get(name, _result(case).parameters.get(name)) for name in pair.get("same", [])]
        if None in same:
            continue
        key = tuple(int(str(value)) if str(value).isdecimal() else value for value in same)
        if pair.get("ranks"):
            key += (_ranks(row),)
        if key in result:
            now = result[key][1].value or 0
            better = (row.value or 0) > now if row.direction == "higher" else (row.value or 0) < now
            if better is worst:
                continue
        result[key] = case, row
    return result


def _result(case: Case) -> Result:
    assert case.result is not None
    return case.result


def _ranks(row: Row) -> int:
    """GPUs or ranks that produced the value together."""
    return int(row.subject.split()[0]) if row.subject.endswith(" ranks") else 1
