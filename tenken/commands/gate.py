"""`tenken gate`: verdicts from history. Exit status 0: no regression, 1: a regression, 3: incomplete or invalid."""

from __future__ import annotations

import argparse
import getpass
import sys
from datetime import date
from pathlib import Path
from typing import Any

from tenken.history.gate import judge
from tenken.history.ingest import NoArchive, add_archive
from tenken.history.store import StoreError
from tenken.model.node_groups import GroupsError
from tenken.paths import ROOT


def register(subparsers: Any) -> None:
    """Adds the subcommand `gate` to the `tenken` command."""
    parser = subparsers.add_parser(
        "gate",
        help="report what has regressed since the previous nights, and why",
        description="Ingests the archive, judges every series by its own history, and writes "
        "findings.json, junit.xml, summary.md, tenken.prom and nightly.html. Exit status: 0 no regression, 1 an "
        "unacknowledged regression, 3 incomplete or invalid.",
    )
    add_archive(parser)
    parser.add_argument("--system", help="judge this system only (default: all that have history)")
    parser.add_argument(
        "--night", type=date.fromisoformat, metavar="DATE", help="judge as of that night (default: last)"
    )
    parser.add_argument(
        "--max-age", type=int, default=2, metavar="DAYS",
        help="the result is incomplete if the last night is older than this many days (default: 2; 0: any age; no "
        "effect with --night)",
    )  # fmt: skip
    parser.add_argument(
        "--no-ingest", action="store_true", help="judge what is already in the store, without ingesting"
    )
    parser.add_argument(
        "--acknowledged", type=Path, metavar="FILE", help="accepted shifts (default: reports/acknowledged.yaml)"
    )
    parser.add_argument(
        "--groups", type=Path, metavar="FILE",
        help="CSV with a column 'node' and one for each of switch, rack, ...: names the leaf whose nodes moved",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write (default: output/gate)")
    parser.set_defaults(func=run)
    actions = parser.add_subparsers(title="actions", metavar="")
    rebase = actions.add_parser(
        "rebase",
        help="accept the level shifts of a planned change as the new baseline",
        description="Records a planned change of a system in reports/acknowledged.yaml. Level shifts within three "
        "nights of its first night, in either direction, become the new baseline; later shifts are reported as usual.",
    )
    rebase.add_argument("--system", required=True, help="the system that was changed")
    rebase.add_argument(
        "--from", dest="start", type=date.fromisoformat, required=True, metavar="DATE", help="first night after it"
    )
    rebase.add_argument("--why", required=True, metavar="TEXT", help="what was changed, and why")
    rebase.add_argument("--owner", metavar="NAME", help="who is responsible (default: the current user)")
    for name in ("node", "gpu", "check", "metric"):
        rebase.add_argument(f"--{name}", metavar="NAME", help=f"only series of this {name}")
    rebase.add_argument(
        "--acknowledged", type=Path, metavar="FILE", help="the file to write (default: reports/acknowledged.yaml)"
    )
    rebase.set_defaults(func=run_rebase)


def run_rebase(arguments: argparse.Namespace) -> int:
    """Runs `tenken gate rebase`; returns 0, or 2 if the entry would be invalid or cannot be written."""
    from tenken.history import acknowledged  # needs numpy, which a kit without reports lacks

    named = {key: getattr(arguments, key) for key in ("node", "gpu", "check", "metric")}
    try:
        owner = arguments.owner or getpass.getuser()
    except (KeyError, OSError):  # in a container a user may have no name
        print("tenken gate rebase: --owner is needed: this user has no name", file=sys.stderr)
        return 2
    path = arguments.acknowledged or acknowledged.FILE
    if not arguments.why.strip():
        print("tenken gate rebase: --why is empty; allowed: what was changed, and why", file=sys.stderr)
        return 2
    try:
        acknowledged.add_rebase(
            path, acknowledged.Rebase(arguments.system, arguments.why, owner, arguments.start, **named)
        )
    except OSError as error:
        print(f"tenken gate rebase: cannot write {path}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{path}: {arguments.system} is rebased from {arguments.start} on; commit it")
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken gate`; returns its exit status. Whatever prevents judging gives 3, never 0."""
    from tenken.report import notices  # draws plots, and takes time to load

    try:
        gate = judge(arguments)
    except (NoArchive, StoreError, GroupsError) as error:
        print(f"tenken gate: INCOMPLETE: {error}", file=sys.stderr)
        return 3
    target = arguments.output or ROOT / "output" / "gate"
    print(notices.text(gate))
    try:
        notices.write_all(gate, target)
        print(f"\nPage: {target / 'nightly.html'}")
    except OSError as error:
        print(f"tenken gate: cannot write to {target}: {error.strerror}", file=sys.stderr)
        return gate.exit_code or 3
    return gate.exit_code
