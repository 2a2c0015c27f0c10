"""Accepted level shifts: a committed file with author and reason. They are not reported until the level moves again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from tenken.archive.records import write_file
from tenken.errors import TenkenError
from tenken.history.causes import LATER, SHIFTS, Finding
from tenken.history.nights import History
from tenken.history.parts import shared
from tenken.machines import yamlfile
from tenken.machines.errors import SystemFileError
from tenken.model import files
from tenken.model.job import short
from tenken.paths import REPORTS

FILE = REPORTS / "acknowledged.yaml"
#: A shift within this many nights of an acknowledged one is that shift.
_NEAR = timedelta(days=3)
#: ... and the night on which a series became noisy is an estimate.
_NEAR_NOISE = timedelta(days=LATER)
#: An outlier or a level that exceeds the accepted one by this factor has moved again.
_AGAIN = 0.02


class AcknowledgedError(TenkenError):
    """The file of acknowledged shifts is invalid: file, line, error, allowed values."""


@dataclass(frozen=True, kw_only=True)
class _Named:
    """What an entry concerns; None matches all. A GPU matches at either end of a link, and `peer` at the other."""

    node: str | None = None
    gpu: str | None = None
    peer: str | None = None
    leaf: str | None = None
    program: str | None = None
    check: str | None = None
    metric: str | None = None

    def names(self, history: History, row: int) -> bool:
        """Whether a series matches all keys that are set."""
        series = history.series[row]
        if any(gpu not in (None, series.gpu, series.peer) for gpu in (self.gpu, self.peer)):
            return False
        if self.leaf and self.leaf not in {f"{factor} {of.get(series.node)}" for factor, of in history.groups.items()}:
            return False
        if self.node is not None and short(self.node) != series.node:
            return False
        return all(getattr(self, k) in (None, getattr(series, k)) for k in ("program", "check", "metric"))


#: Keys of an entry that select a part.
PARTS = tuple(f.name for f in fields(_Named))


@dataclass(frozen=True)
class Entry(_Named):
    """One accepted shift."""

    system: str
    reason: str
    owner: str
    night: date | None = None
    kind: str | None = None
    size: float | None = None
    until: date | None = None

    def covers(self, history: History, finding: Finding) -> bool:
        """Whether a finding is this accepted shift, with no further move since."""
        if self.until is not None and history.nights[-1] > self.until:
            return False
        same = self.kind in (None, finding.kind) or {self.kind, finding.kind} == set(SHIFTS)
        if self.system != history.system or not same:
            return False
        near = _NEAR_NOISE if self.kind == finding.kind == "noisy" else _NEAR
        if self.night is not None and abs(self.night - history.nights[finding.night]) > near:
            return False
        size = finding.size if finding.largest is None else finding.largest
        if self.size is not None and abs(size) > abs(self.size) + _AGAIN:
            return False
        return all(self.names(history, row) for row in finding.rows)


@dataclass(frozen=True)
class Retired(_Named):
    """A node, GPU, check or metric removed from the inventory, which is no longer expected to run."""

    system: str
    reason: str
    owner: str

    def covers(self, history: History, row: int) -> bool:
        """Whether a series is retired."""
        return self.system == history.system and self.names(history, row)


@dataclass(frozen=True)
class Rebase(_Named):
    """A planned change of a machine (driver, power limit): level shifts on its first night become the new baseline."""

    system: str
    reason: str
    owner: str
    start: date

    def covers(self, history: History, finding: Finding) -> bool:
        """Whether a finding is a level shift of this change; outliers among siblings and noise are never part of
        one."""
        if self.system != history.system or finding.kind in ("outlier", "noisy"):
            return False
        if abs(self.start - history.nights[finding.night]) > _NEAR:
            return False
        return all(self.names(history, row) for row in finding.rows)


@dataclass(frozen=True)
class Decisions:
    """Decisions of the staff about a machine's history."""

    accepted: tuple[Entry, ...] = ()
    retired: tuple[Retired, ...] = ()
    rebased: tuple[Rebase, ...] = ()


def read_all(path: Path = FILE) -> Decisions:
    """Accepted shifts, planned changes and retired series; empty without a file. Raises AcknowledgedError."""
    from ruamel.yaml import YAML

    try:
        text = files.read_text(path, yamlfile.MAX_BYTES, links=True)
        yamlfile.bounded(text, str(path))
        raw = YAML(typ="rt", pure=True).load(text)
    except files.NoFile:
        return Decisions()
    except files.FileError as error:
        raise AcknowledgedError(f"{path}: {error}") from None
    except SystemFileError as error:
        raise AcknowledgedError(str(error)) from None
    except Exception as error:  # YAMLError, and the reader's own errors for malformed texts
        raise AcknowledgedError(f"{path}: {' '.join(str(error).split())}") from error
    lists: Any = raw if isinstance(raw, dict) else {}
    makers = {"acknowledged": _entry, "retired": _retired, "rebased": _rebase}
    if raw and (not lists or set(raw) - set(makers)):
        raise AcknowledgedError(f"{path}: must contain lists; allowed: {', '.join(f'`{name}`' for name in makers)}")
    out: dict[str, tuple[Any, ...]] = {}
    for name, make in makers.items():
        entries: Any = lists.get(name) or []
        if not isinstance(entries, list):
            raise AcknowledgedError(f"{path}: `{name}` must be a list")
        place: Any = entries  # ruamel's list, which stores the lines of its items
        out[name] = tuple(make(one, f"{path}:{place.lc.item(i)[0] + 1}") for i, one in enumerate(entries))
    return Decisions(out["acknowledged"], out["retired"], out["rebased"])


def _rebase(raw: Any, where: str) -> Rebase:
    _checked(raw, where, ["from", *(f.name for f in fields(Rebase) if f.name != "start")])
    if not isinstance(raw.get("from"), date):
        raise AcknowledgedError(f"{where}: from is {raw.get('from')!r}; allowed: a date like 2026-11-21")
    return Rebase(start=raw["from"], **{k: str(v) for k, v in raw.items() if k != "from" and v is not None})


def add_rebase(path: Path, entry: Rebase) -> None:
    """Append a planned change to the file, by rename; comments are kept. Raises AcknowledgedError, OSError."""
    from ruamel.yaml import YAML

    read_all(path)  # an invalid file is reported, not repaired
    yaml = YAML(typ="rt", pure=True)
    yaml.indent(mapping=2, sequence=4, offset=2)
    raw: Any = (yaml.load(path.read_text(encoding="utf-8")) if path.exists() else None) or {}
    shown = {"system": entry.system, "from": entry.start}
    shown |= {k: v for k in (*PARTS, "reason", "owner") if (v := getattr(entry, k)) is not None}
    raw["rebased"] = [*(raw.get("rebased") or []), shown]
    text = StringIO()
    yaml.dump(raw, text)
    write_file(path, text.getvalue())
    read_all(path)


def _retired(raw: Any, where: str) -> Retired:
    _checked(raw, where, [f.name for f in fields(Retired)])
    if not any(raw.get(key) for key in PARTS):
        raise AcknowledgedError(f"{where}: needs {', '.join(PARTS)}, otherwise it would retire the whole system")
    return Retired(**{key: str(value) for key, value in raw.items() if value is not None})


def _checked(raw: Any, where: str, allowed: list[str]) -> None:
    if not isinstance(raw, dict):
        raise AcknowledgedError(f"{where}: not a mapping")
    for key in raw:
        if key not in allowed:
            raise AcknowledgedError(f"{where}: unknown key {key!r}; allowed: {', '.join(allowed)}")
    for key in ("system", "reason", "owner"):
        if not str(raw.get(key) or "").strip():
            raise AcknowledgedError(f"{where}: {key} is missing")


def _entry(raw: Any, where: str) -> Entry:
    allowed = [f.name for f in fields(Entry) if f.name not in PARTS] + list(PARTS)
    _checked(raw, where, allowed)
    for key in ("night", "until"):
        if raw.get(key) is not None and not isinstance(raw[key], date):
            raise AcknowledgedError(f"{where}: {key} is {raw[key]!r}; allowed: a date like 2026-11-21")
    night = raw.get("night")
    if night is None and raw.get("size") is None:
        raise AcknowledgedError(
            f"{where}: needs `night` (a shift) or `size` (an outlier), otherwise it would hide all later findings"
        )
    size = raw.get("size")
    if size is not None and not (isinstance(size, (int, float)) and -1 < size < 10):
        raise AcknowledgedError(f"{where}: size is {size!r}; allowed: a relative change like -0.05")
    text = {k: str(raw[k]) for k in allowed if k not in ("night", "size", "until") and raw.get(k) is not None}
    return Entry(**text, night=night, until=raw.get("until"), size=None if size is None else float(size))


def apply(decisions: Decisions, history: History, findings: Sequence[Finding]) -> None:
    """Mark the accepted findings."""
    entries: tuple[Entry | Rebase, ...] = (*decisions.accepted, *decisions.rebased)
    for finding in findings:
        entry = next((e for e in entries if e.covers(history, finding)), None)
        if isinstance(entry, Rebase):
            finding.acknowledged = f"planned change from {entry.start}: {entry.reason} ({entry.owner})"
        elif entry is not None:
            finding.acknowledged = f"{entry.reason} ({entry.owner})"


def snippet(history: History, finding: Finding) -> str:
    """The entry that accepts a finding, with the part that the sentence names."""
    first, keys = history.series[finding.rows[0]], dict(shared(history, finding.rows).keys)
    lines = [f"system: {history.system}", f"kind: {finding.kind}"]
    if finding.kind != "outlier":
        lines.append(f"night: {history.nights[finding.night]}")
    lines.append(f"size: {finding.size if finding.largest is None else finding.largest:.3f}")
    for key in ("check", "metric"):
        if len({getattr(history.series[row], key) for row in finding.rows}) == 1:
            keys[key] = getattr(first, key)
    lines += [f"{key}: {value}" for key, value in keys.items()]
    lines += ["reason: ...", "owner: ..."]
    return "  - " + "\n    ".join(lines)
