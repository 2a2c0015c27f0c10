"""`tenken jobs`: jobs whose session was killed; their results are archived, the others are listed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tenken.paths import ROOT, archive_root
from tenken.reframe import joblines, orphans
from tenken.reframe.schedulers.command import CommandError, run
from tenken.reframe.schedulers.ledger import FILE, Entry, entries
from tenken.reframe.schedulers.polling import Patient, hms

_TIMEOUT_S = 30
#: The command that queries one job, by the command that cancels it.
_ASK = {"scancel": ["squeue", "-h", "-o", "%T|%j|%k", "-j"], "qdel": ["qstat"]}


@dataclass(frozen=True)
class Orphan:
    """A job without a session. `state`: ended, queued or running, gone, or unknown."""

    entry: Entry
    state: str

    def line(self) -> str:
        age = hms(time.time() - self.entry.submitted)
        return (
            f"{self.entry.job_id}  {self.state}  {self.entry.case}  session {self.entry.session} "
            f"(process {self.entry.pid} on {self.entry.host}), submitted {age} ago  {self.entry.folder}"
        )


def find(stage: Path, ask: Callable[[list[str]], str] | None = None) -> list[Orphan]:
    """Jobs below `stage` whose session does not run on this host. Sessions of other hosts are left to those hosts."""
    ask = ask or (lambda words: run(words, _TIMEOUT_S))
    return [Orphan(entry, _state(entry, ask)) for entry in entries(stage) if entry.session_lives is False]


def _state(entry: Entry, ask: Callable[[list[str]], str]) -> str:
    output = entry.folder / entry.stdout
    text = output.read_text(encoding="utf-8", errors="replace") if output.is_file() else ""
    if entry.token and joblines.end_status(text, entry.token) is not None:
        return "ended"
    if entry.cancel not in _ASK:
        return "unknown"
    try:
        said = ask([*_ASK[entry.cancel], entry.job_id]).strip()
    except CommandError as error:
        return "gone" if _needless(error.said) else "unknown"
    if entry.cancel == "qdel" and _needless(said):
        return "gone"  # NQSV answers so, with status 0
    if entry.cancel == "scancel" and said and not _is_of(entry, said):
        return "gone"  # the controller lost this job and reused its number for another one
    return "queued or running" if said else "gone"


def _is_of(entry: Entry, said: str) -> bool:
    """From squeue: by the job's mark, otherwise (a site may replace the mark) by its name."""
    _, name, mark = [*said.split("|", 2), "", ""][:3]
    return mark == entry.mark if mark.startswith("tenken/") else name == entry.case


def _needless(said: str) -> bool:
    return any(words in said.lower() for words in Patient.cancel_needless)


def cancel(lost: Iterable[Orphan], ask: Callable[[list[str]], str] | None = None) -> list[str]:
    """Cancels orphans and forgets those that are gone; returns a line for each that could not be cancelled."""
    ask = ask or (lambda words: run(words, _TIMEOUT_S))
    failed = []
    for orphan in lost:
        entry = orphan.entry
        if orphan.state in ("queued or running", "unknown") and entry.cancel in _ASK:
            try:
                ask([entry.cancel, entry.job_id])
            except CommandError as error:
                if not _needless(error.said):
                    failed.append(f"job {entry.job_id} of {entry.case}: {error}")
                    continue
        (entry.folder / FILE).unlink(missing_ok=True)
    return failed


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("jobs", help="handle jobs left by a killed session: adopt results, cancel the rest")
    parser.add_argument("--cancel", action="store_true", help="cancel them")
    parser.add_argument("--stage", type=Path, default=ROOT / "stage", help="stage folder (default: %(default)s)")
    parser.set_defaults(func=main)


def main(arguments: argparse.Namespace) -> int:
    """0; 1 if one could not be cancelled."""
    for line in orphans.adopt(arguments.stage, archive_root()):
        print(f"adopted: {line}")
    found = find(arguments.stage)
    for orphan in found:
        print(orphan.line())
    if not found:
        print(f"no orphaned job below {arguments.stage}")
        return 0
    if not arguments.cancel:
        print(f"{len(found)} orphaned; `tenken jobs --cancel` cancels them")
        return 0
    failed = cancel(found)
    for line in failed:
        print(f"not cancelled: {line}")
    print(f"{len(found) - len(failed)} cancelled or ended, {len(failed)} not")
    return int(bool(failed))
