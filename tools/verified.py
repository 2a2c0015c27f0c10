"""docs/verified.md: what ran where, from the kept sessions in tests/data. ``python -m tools.verified`` writes it.

The page ends with a digest of these archives and of this file, so that a test sees in milliseconds that it is current.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tenken.archive import packed, records
from tenken.model.catalogue import load_catalogue
from tenken.model.verdicts import VERDICTS
from tenken.paths import ROOT
from tenken.report import scorecard, session
from tenken.report.formatting import number
from tenken.report.rows import rows_of

PAGE = ROOT / "docs" / "verified.md"
DATA = ROOT / "tests" / "data"
#: Parts of a command line that do not distinguish runs: ReFrame's path, and common options.
_LEFT_OUT = {"-c", "checks", "-r"}

HEAD = """\
# Verified: what ran where

What this suite has measured on real machines, from the sessions kept in `tests/data`. `python -m tools.verified` writes
this page. Verdicts are those of the time of the run. `tests/data/reviewed-verdicts.yaml` lists those that today's rules
would change, [captured runs](../tests/data/README.md) describes the machines.
"""


@dataclass
class Seen:
    """One kept session: where, how, its verdicts, and the key figures by (title, unit)."""

    name: str
    date: str
    archive: str
    system: str
    gpus: str
    command: str
    seconds: float | None
    counts: dict[str, int]
    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Two archives may hold the same session; an exported one has lost its name."""
        return self.date, self.name if re.match(r"\d{8}T", self.name) else f"{self.archive} {self.name}"


def archives(folder: Path = DATA) -> list[Path]:
    return sorted(folder.glob("*.tar.xz"))


def digest(files: Iterable[Path]) -> str:
    """SHA-256 of the names and bytes of files, in this order."""
    found = hashlib.sha256()
    for file in files:
        found.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def sources() -> list[Path]:
    return [*archives(), Path(__file__)]


def sessions_of(archive: Path) -> Iterator[Seen]:
    """The sessions of a packed archive, in the order of their names."""
    folder = packed.folder_of(archive)
    names = {record.session for record in records.records(folder, figures_only=True)}
    catalogue = load_catalogue()
    for name in sorted(names):
        found = session.load(folder, name)
        rows = {id(case): rows_of(case, catalogue) for case in found.cases}
        seen = _seen(archive, name, found)
        for one in scorecard.scores(found, rows):
            if one.verdict not in ("FAIL", "INVALID"):
                seen.figures.setdefault((one.figure, one.unit), []).append(one.value)
        yield seen


def _seen(archive: Path, name: str, found: session.Session) -> Seen:
    results = [case.result for case in found.counted if case.result is not None]
    devices: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for device in result.devices:
            devices[device.name].add(device.uuid or "")
    gpus = ", ".join(f"{len(uuids)} {model}" for model, uuids in sorted(devices.items()))
    info: Any = found.run.get("session_info") or {}
    systems = sorted({case.record.system for case in found.counted if case.record is not None})
    date = min(case.record.time for case in found.counted if case.record is not None)[:10]
    packed_as = archive.name.removesuffix(packed.SUFFIX)
    command, seconds = _command(info.get("cmdline", "")), info.get("time_elapsed")
    return Seen(name, date, packed_as, ", ".join(systems), gpus or "host", command, seconds, found.counts)


def _command(line: str) -> str:
    """The options of a run that distinguish it."""
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        words = line.split()[1:]
    kept = [word for word in words if word not in _LEFT_OUT]
    while "--system" in kept:
        at = kept.index("--system")
        del kept[at : at + 2]
    return " ".join(kept)


def in_table(seen: Seen) -> str:
    took = f"{seen.seconds:.0f} s" if seen.seconds else ""
    command = seen.command if len(seen.command) <= 60 else seen.command[:57] + "..."
    shown = "`" + command.replace("|", "\\|") + "`" if command else ""
    counts = " | ".join(str(seen.counts[verdict] or "") for verdict in VERDICTS)
    return f"| {seen.date} | {seen.key[1]} | {seen.system} | {seen.gpus} | {shown} | {took} | {counts} |"


def figures(all_of_them: Iterable[Seen]) -> Iterator[str]:
    """Rows: GPUs, figure, sessions, lowest, median and highest value of a session's median."""
    by: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for seen in all_of_them:
        if seen.gpus != "host" and "," not in seen.gpus:
            for (title, unit), values in seen.figures.items():
                by[seen.gpus, title, unit].append(median(values))
    order = {figure.title: at for at, figure in enumerate(scorecard.FIGURES)}
    for (gpus, title, unit), values in sorted(by.items(), key=lambda one: (one[0][0], order[one[0][1]])):
        low, middle, high = (number(v) for v in (min(values), median(values), max(values)))
        yield f"| {gpus} | {title} | {unit} | {len(values)} | {low} | {middle} | {high} |"


def text() -> str:
    found = {seen.key: seen for archive in archives() for seen in sessions_of(archive)}
    unique = [found[key] for key in sorted(found)]
    verdicts = " | ".join(VERDICTS)
    lines = [
        HEAD,
        "## Key figures\n",
        "The median over the GPUs or links of each session in which the figure is not FAIL or INVALID.\n",
        "| GPUs | figure | unit | sessions | minimum | median | maximum |",
        "|---|---|---|---:|---:|---:|---:|",
        *figures(unique),
        "\n## Sessions\n",
        f"| date | session | system | GPUs | options of `reframe -c checks -r` | time | {verdicts} |",
        "|---|---|---|---|---|---:|" + "---:|" * len(VERDICTS),
        *map(in_table, unique),
        f"\n<!-- digest {digest(sources())} -->",
    ]
    return "\n".join(re.sub("\u202f", "", line) for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(PAGE)
