"""The published results that the suite reproduces, row by row: `data/publications.yaml` as typed objects.

load()               -> Publications; PublicationError names row, key and what is allowed
row.references(system)   the references of the machine that hold it
fact(system, "node.gpu.memory_gbs")   what the machine's file says there
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError
from tenken.machines.model import Reference, System
from tenken.model import cache

FILE = Path(__file__).with_name("data") / "publications.yaml"

_ROW = {
    "publication", "system", "row", "place", "value", "what", "metric", "at", "run", "fact", "number", "reason", "note",
}  # fmt: skip
_ALWAYS = ("publication", "system", "row", "place", "value", "what")
_RUN = {"check", "asked", "nodes", "ranks"}


class PublicationError(TenkenError):
    """The list of published results is invalid."""


@dataclass(frozen=True)
class Run:
    """How a row is reproduced: the class of a check, the values requested from its jobs, and their layout. A list in
    `asked` requires one job per value.
    """

    name: str
    check: str
    asked: Mapping[str, Any]
    nodes: int = 1
    ranks: int = 1


@dataclass(frozen=True)
class Row:
    """One published result."""

    publication: str
    system: str
    """The machine's system file."""
    row: str
    """The group that references and metrics name: T1."""
    place: str
    value: str
    """As printed."""
    what: str
    metric: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of its references; a list names several references."""
    run: Run | None = None
    fact: str | None = None
    number: float | None = None
    reason: str | None = None
    """A key of `Publications.reasons`: why it cannot be reproduced."""
    note: str | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.row} ({self.place}: {self.what})"

    def references(self, system: System) -> list[Reference]:
        """The references that the row gives its machine."""
        return [
            reference
            for reference in system.references
            if reference.published == self.row
            and f"{reference.program}.{reference.metric}" == self.metric
            and all(_among(reference.parameters.get(key), wanted) for key, wanted in self.at.items())
        ]


@dataclass(frozen=True)
class Publications:
    """All rows and what they refer to: publications by key (how they are cited, their titles), reasons, runs."""

    rows: tuple[Row, ...]
    cited: Mapping[str, str]
    titles: Mapping[str, str]
    reasons: Mapping[str, str]
    runs: Mapping[str, Run]


def _among(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


@lru_cache(maxsize=2)
def load(file: Path = FILE) -> Publications:
    """Read and validate the list. Raises PublicationError with row, key and allowed values."""
    from ruamel.yaml.error import YAMLError

    try:
        raw = cache.yaml(file, file.read_text(encoding="utf-8"))
    except (OSError, YAMLError) as error:
        raise PublicationError(f"{file.name}: {' '.join(str(error).split())}") from error
    keys = {"publications", "reasons", "runs", "rows"}
    if not isinstance(raw, dict) or set(raw) != keys:
        raise PublicationError(f"{file.name}: keys must be {', '.join(sorted(keys))}")
    runs = {}
    for name, one in raw["runs"].items():
        unknown = set(one) - _RUN
        if unknown or "check" not in one or "asked" not in one:
            allowed = ", ".join(sorted(_RUN))
            raise PublicationError(f"{file.name}: run {name}: needs check and asked; allowed: {allowed}")
        runs[name] = Run(name, **one)
    rows = tuple(_row(f"{file.name}: row {at}", one, raw, runs) for at, one in enumerate(raw["rows"], 1))
    unused = set(runs) - {row.run.name for row in rows if row.run}
    unused |= set(raw["reasons"]) - {row.reason for row in rows}
    if unused:
        raise PublicationError(f"{file.name}: no row names {', '.join(sorted(unused))}")
    publications = raw["publications"]
    return Publications(
        rows,
        {key: one["cite"] for key, one in publications.items()},
        {key: one["title"] for key, one in publications.items()},
        dict(raw["reasons"]),
        runs,
    )


def _row(where: str, raw: Mapping[str, Any], whole: Mapping[str, Any], runs: Mapping[str, Run]) -> Row:
    where = f"{where} ({raw.get('row')}, {raw.get('what')})"
    missing = [key for key in _ALWAYS if key not in raw]
    unknown = set(raw) - _ROW
    if missing or unknown:
        wrong = f"missing key '{missing[0]}'" if missing else f"unknown key '{sorted(unknown)[0]}'"
        raise PublicationError(f"{where}: {wrong}; allowed: {', '.join(sorted(_ROW))}")
    for key, known in (("publication", whole["publications"]), ("run", runs), ("reason", whole["reasons"])):
        if key in raw and raw[key] not in known:
            raise PublicationError(f"{where}: {key} is '{raw[key]}'; allowed: {', '.join(known)}")
    kinds = [key for key in ("run", "fact", "reason") if key in raw]
    if len(kinds) != 1:
        raise PublicationError(f"{where}: must have exactly one of run, fact and reason")
    if "run" in raw and "metric" not in raw and "note" not in raw:
        raise PublicationError(f"{where}: without a metric, a note must state why there is no reference")
    if ("metric" in raw or "at" in raw) and "run" not in raw:
        raise PublicationError(f"{where}: metric and at require run")
    if ("fact" in raw) != ("number" in raw):
        raise PublicationError(f"{where}: fact and number go together")
    return Row(**{**raw, "run": runs[raw["run"]] if "run" in raw else None})


def fact(system: System, path: str) -> float:
    """A value in the file of a machine: `node.gpu.memory_gbs` of its first partition. Raises PublicationError."""
    found: Any = next(iter(system.partitions.values()))
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise PublicationError(f"system '{system.name}' does not define {path}")
    return float(found)
