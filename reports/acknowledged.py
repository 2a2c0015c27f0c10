"""Known level shifts: a committed file of who accepts which one, and why. They stay silent until they move again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from reports.causes import Finding
from reports.nights import History
from tenken.errors import TenkenError

FILE = Path(__file__).parent / "acknowledged.yaml"
#: A shift that lies this near an acknowledged night is that shift.
_NEAR = timedelta(days=3)
#: An outlier or a level that came to lie this far beyond what was accepted has moved again.
_AGAIN = 0.02


class AcknowledgedError(TenkenError):
    """The file of acknowledged shifts is wrong: file, line, what, allowed values."""


@dataclass(frozen=True)
class Entry:
    """One accepted shift; what is None is not asked for."""

    system: str
    reason: str
    owner: str
    night: date | None = None
    kind: str | None = None
    size: float | None = None
    node: str | None = None
    gpu: str | None = None
    check: str | None = None
    metric: str | None = None

    def covers(self, history: History, finding: Finding) -> bool:
        """Whether a finding is this shift, and did not move on since."""
        if self.system != history.system or (self.kind and self.kind != finding.kind):
            return False
        if self.night is not None and abs(self.night - history.nights[finding.night]) > _NEAR:
            return False
        if self.size is not None and abs(finding.size) > abs(self.size) + _AGAIN:
            return False
        named = {"node": self.node, "gpu": self.gpu, "check": self.check, "metric": self.metric}
        return all(
            value is None or all(getattr(history.series[row], key) == value for row in finding.rows)
            for key, value in named.items()
        )


def read(path: Path = FILE) -> list[Entry]:
    """Entries of the file, none where there is no file. Raises AcknowledgedError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        raw = YAML(typ="rt", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, YAMLError) as error:
        raise AcknowledgedError(f"{path}: {' '.join(str(error).split())}") from error
    entries: Any = (raw or {}).get("acknowledged") if isinstance(raw or {}, dict) else None
    if raw and (set(raw) != {"acknowledged"} or not isinstance(entries or [], list)):
        raise AcknowledgedError(f"{path}: must hold one list, `acknowledged`")
    return [_entry(one, f"{path}:{entries.lc.item(i)[0] + 1}") for i, one in enumerate(entries or [])]


def _entry(raw: Any, where: str) -> Entry:
    allowed = [f.name for f in fields(Entry)]
    if not isinstance(raw, dict):
        raise AcknowledgedError(f"{where}: not a mapping")
    for key in raw:
        if key not in allowed:
            raise AcknowledgedError(f"{where}: unknown key {key!r}; allowed: {', '.join(allowed)}")
    for key in ("system", "reason", "owner"):
        if not str(raw.get(key) or "").strip():
            raise AcknowledgedError(f"{where}: {key} is missing")
    night = raw.get("night")
    if night is None and raw.get("size") is None:
        raise AcknowledgedError(
            f"{where}: needs `night` (a shift) or `size` (an outlier), else it would hide all to come"
        )
    if night is not None and not isinstance(night, date):
        raise AcknowledgedError(f"{where}: night is {night!r}; allowed: a date like 2026-11-21")
    size = raw.get("size")
    if size is not None and not (isinstance(size, (int, float)) and -1 < size < 10):
        raise AcknowledgedError(f"{where}: size is {size!r}; allowed: a relative change like -0.05")
    text = {k: str(raw[k]) for k in allowed if k not in ("night", "size") and raw.get(k) is not None}
    return Entry(**text, night=night, size=None if size is None else float(size))


def apply(entries: Sequence[Entry], history: History, findings: Sequence[Finding]) -> None:
    """Mark the findings that somebody has accepted."""
    for finding in findings:
        entry = next((e for e in entries if e.covers(history, finding)), None)
        if entry is not None:
            finding.acknowledged = f"{entry.reason} ({entry.owner})"


def snippet(history: History, finding: Finding) -> str:
    """What to put into the file to accept a finding."""
    first = history.series[finding.rows[0]]
    lines = [f"system: {history.system}", f"kind: {finding.kind}"]
    if finding.kind == "outlier":
        lines.append(f"size: {finding.size:.3f}")
    else:
        lines += [f"night: {history.nights[finding.night]}", f"size: {finding.size:.3f}"]
    for key in ("node", "gpu", "check", "metric"):
        values = {getattr(history.series[row], key) for row in finding.rows}
        if len(values) == 1 and getattr(first, key):
            lines.append(f"{key}: {getattr(first, key)}")
    lines += ["reason: ...", "owner: ..."]
    return "  - " + "\n    ".join(lines)
