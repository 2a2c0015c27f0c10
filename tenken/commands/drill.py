"""`tenken drill`: a session in which every check must fail."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken import paths
from tenken.archive import records as archive
from tenken.campaign.alive import Alive
from tenken.errors import TenkenError
from tenken.report import drill

#: Exit status; 2 is a wrong command line.
ALL_NOTICED, SOMETHING_MISSED, SHOWS_NOTHING = 0, 1, 3
#: Variables that the checks of a run read (tenken.reframe.base).
VARIABLE = "TENKEN_DRILL"
#: Seconds between two lines of progress.
SILENCE_S = 10.0
_ENDED = re.compile(r"^\[.{0,20}(?:OK|FAIL|SKIP|ABORT)\b.{0,8}\] \( *(\d+)/(\d+)\)", re.M)


class DrillError(TenkenError):
    """A drill that cannot be carried out; one line."""


def register(subparsers: Any) -> None:
    """Adds the subcommand `drill` to the `tenken` command."""
    parser = subparsers.add_parser(
        "drill",
        help="run every check with an injected fault, which it must detect",
        description="Runs the checks of a system with one bit of the output flipped (--inject-fault element) and "
        "reports which of them detected it. Pass the session to `tenken accept` with those of the acceptance: the "
        "report then includes it. Exit status: 0 all detected, 1 at least one not detected, 2 usage error, 3 no run "
        "is conclusive.",
    )
    parser.add_argument("--system", default="local", help="default: local")
    parser.add_argument("--mode", default="quick", help="quick, acceptance or nightly (default: quick)")
    parser.add_argument(
        "-n", "--name", action="append", default=[], metavar="CHECK", help="only these, as ReFrame's -n"
    )
    parser.add_argument("--checks", type=Path, default=Path("checks"), metavar="DIR", help="default: checks")
    parser.add_argument("--session", metavar="ID", help="report an archived drill again, without running anything")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken drill`; returns its exit status."""
    root = paths.archive_root()
    session = arguments.session
    if session is None:
        now = datetime.now(timezone.utc)
        session = f"{now:%Y%m%dT%H%M%SZ}-{archive.DRILL}{secrets.token_hex(3)}"
        folder = paths.ROOT / "output" / "drill"
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{session}.log"
        print(f"Every check must fail now; the output of ReFrame is in {log}", flush=True)
        rehearse(arguments.system, arguments.mode, arguments.name, arguments.checks, session, log)
    found = drill.of(archive.records(root, session))
    if not found:
        raise DrillError(f"no run with a fault in session {session} of {root}: is there a check that applies?")
    print("\n".join(lines(found, session)))
    return status(found)


def rehearse(system: str, mode: str, names: Sequence[str], checks: Path, session: str, log: Path) -> None:
    """Run ReFrame with a fault injected into every program. Its exit status 1 is expected; the archive has the
    reasons."""
    command = ["reframe", "-c", str(checks), "-r", "--system", system, "--mode", mode]
    command += [word for name in names for word in ("-n", name)]
    environment = {
        **os.environ, VARIABLE: drill.ELEMENT, "TENKEN_SESSION": session,
        "RFM_CONFIG_PATH": os.environ.get("RFM_CONFIG_PATH", "config"),
    }  # fmt: skip

    def say(text: str) -> None:
        print(f"{text}{ended(log)}", flush=True)

    try:
        with log.open("w") as out, Alive(say, "running the checks", SILENCE_S):
            subprocess.run(command, cwd=paths.ROOT, env=environment, stdout=out, stderr=out, check=False)
    except OSError as error:
        raise DrillError(f"{' '.join(command)}: {error.strerror or error}") from None


def ended(log: Path) -> str:
    """`, 3 of 18 ended` from ReFrame's output so far; empty at the beginning."""
    with contextlib.suppress(OSError):
        found = list(_ENDED.finditer(log.read_text(encoding="utf-8", errors="replace")))
        if found:
            return f", {found[-1][1]} of {found[-1][2]} ended"
    return ""


def status(found: Sequence[drill.Drilled]) -> int:
    outcomes = {one.outcome for one in found}
    if drill.MISSED in outcomes:
        return SOMETHING_MISSED
    return ALL_NOTICED if drill.NOTICED in outcomes else SHOWS_NOTHING


def lines(found: Sequence[drill.Drilled], session: str) -> Iterator[str]:
    """Print the answer."""
    from tabulate import tabulate

    rows = [[one.outcome, one.check, one.environ, one.fault, one.verdict, one.why[:100]] for one in found]
    heads = ["Fault", "Check", "Environment", "Kind", "Verdict", "Detected by"]
    yield tabulate(rows, headers=heads, tablefmt="simple", disable_numparse=True)
    count = {outcome: sum(one.outcome == outcome for one in found) for outcome in (drill.NOTICED, drill.MISSED)}
    yield (
        f"\nSession {session}: {count[drill.NOTICED]} faults detected, {count[drill.MISSED]} not, "
        f"{len(found) - sum(count.values())} runs without evidence (WAIVED or INVALID)"
    )
