"""`tenken report`: one session of the archive as a table on the terminal and an HTML page."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken.archive import packed
from tenken.model.verdicts import FAIL, VERDICTS
from tenken.report.writing import write

#: Set to "brief" by `make run`, where each check had its line while it ran and the scorecard follows.
BRIEF = "TENKEN_TERMINAL"
#: Number of records from which the page of a session is a grid, with a page per node.
MANY = 600


def register(subparsers: Any) -> None:
    """Adds the subcommand `report` to the `tenken` command."""
    parser = subparsers.add_parser(
        "report",
        help="write the page of one session and print its verdicts",
        description="Reads one session from the archive, prints a table of verdicts and writes one "
        "self-contained HTML page. Exit status: 0 all PASS, RECORDED or WAIVED, 1 any FAIL, 3 any INVALID, "
        "incomplete, or nothing run.",
    )
    parser.add_argument("--session", default="last", metavar="ID", help="session to report on (default: last)")
    parser.add_argument(
        "--archive",
        type=packed.argument,
        metavar="DIR",
        help="archive to read, a folder or a .tar.xz of one (default: $TENKEN_ARCHIVE, else perflogs/)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="page to write (default: output/pages/<session>.html)"
    )
    parser.add_argument(
        "--by-node", action="store_true",
        help=f"write a grid of nodes and checks with a page per node; the default from {MANY} records",
    )  # fmt: skip
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken report`; returns its exit status."""
    from tenken import paths
    from tenken.report import page, session

    perflogs = arguments.archive or paths.archive_root()
    if arguments.by_node or session.records_of(perflogs, arguments.session) >= MANY:
        return _by_node(arguments, perflogs)
    try:
        found = session.load(perflogs, arguments.session)
    except session.NoSession as error:
        print(f"tenken report: {error}", file=sys.stderr)
        return 3
    written = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    named = sorted({case.result.program for case in found.cases if case.result is not None})
    catalogue = _catalogue(paths.PROGRAMS, named)
    target = arguments.output or paths.ROOT / "output" / "pages" / f"{found.name}.html"
    beside = target.with_suffix(f".records{target.suffix}")
    try:
        for path, text in zip((target, beside), page.pages(found, catalogue, written, beside.name), strict=True):
            write(path, text)
    except OSError as error:
        print(table(found))
        print(f"tenken report: cannot write the page {target}: {error.strerror}", file=sys.stderr)
        return found.exit_code or 3
    print(table(found) if os.environ.get(BRIEF) != "brief" else page.on_terminal(found, catalogue))
    print(f"Page: {target}")
    return found.exit_code


def _by_node(arguments: argparse.Namespace, perflogs: Path) -> int:
    """The index next to a folder with a page per node."""
    from tenken import paths
    from tenken.report import fleet, session

    written = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    target = arguments.output
    try:
        found, target = fleet.write(perflogs, arguments.session, _catalogue(paths.PROGRAMS), target, written)
    except session.NoSession as error:
        print(f"tenken report: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"tenken report: cannot write the pages: {error.strerror or error}", file=sys.stderr)
        return 3
    print(table(found))
    print(f"\nPage: {target}; pages of nodes: {target.with_suffix('')}")
    return found.exit_code


def _catalogue(src: Path, named: Iterable[str] | None = None) -> Mapping[str, Any]:
    """Titles and plot kinds of the programs `named` (default: all); if they cannot be read the page has no titles."""
    try:
        from tenken.model import catalogue

        if named is None:
            return catalogue.load_catalogue(src)
        return {name: catalogue.program(name, src) for name in named if catalogue.has(name, src)}
    except Exception as error:
        print(
            f"tenken report: the metric catalogue in {src} cannot be read, metrics are shown by name only: {error}",
            file=sys.stderr,
        )
        return {}


def table(session: Any, most: int = 60) -> str:
    """Verdicts as aligned plain text, worst first if there are more than `most`; then what is missing."""
    from tabulate import tabulate

    from tenken.report.formatting import natural
    from tenken.report.session import not_run

    cases = session.told
    kept = Counter(why for case in cases if (why := not_run(case)))
    cases = [case for case in cases if not not_run(case)]
    left_out = max(0, len(cases) - most)
    if left_out:
        cases = sorted(cases, key=lambda c: VERDICTS.index(c.verdict))[:most]
    lines = []
    for why, count in kept.items():
        lines.append([FAIL, f"{count} test case{'s' if count > 1 else ''}", "", "", _line(why, 200)])
    for case in cases:
        # the node has a column of its own
        place = f"{', '.join(case.nodes[:3]) or case.where}: "
        why = next((f.message for f in case.findings), "").removeprefix(place)
        lines.append(
            [
                case.verdict,
                _line(case.check),
                _line(case.place),
                _line(", ".join(case.nodes[:3]) or case.where),
                _line(why, 160),
            ]
        )
    parts = []
    if lines:
        parts.append(
            tabulate(
                lines,
                headers=["Verdict", "Check", "Where", "Node", "Why"],
                tablefmt="plain",
                disable_numparse=True,
            )
        )
    if left_out:
        parts.append(f"... and {left_out} more, none worse than the last one above")
    if session.nothing_was_run:
        parts.append("FAIL: nothing was run")
    parts += [f"FAIL: a check file did not load: {_line(e, 200)}" for e in session.load_errors]
    parts += [f"INCOMPLETE: {text}" for text in session.incomplete]
    parts += [f"Note: {text}" for text in session.notes]
    parts += [f"DAMAGED: {path}: {_line(reason, 160)}" for path, reason in session.damaged[:20]]
    counts = ", ".join(f"{count} {v}" for v, count in session.counts.items() if count)
    nodes = sorted({node for case in session.cases if case.result is not None for node in case.nodes}, key=natural)
    if nodes:
        parts.append(f"Measured on {len(nodes)} node{'s' if len(nodes) > 1 else ''}: {_line(', '.join(nodes), 200)}")
    parts.append(f"Session {session.name}: {session.verdict}" + (f" ({counts})" if counts else ""))
    return "\n".join(parts)


def _line(text: str, width: int = 60) -> str:
    """One printable line: names come from the archive and may contain anything."""
    flat = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"
