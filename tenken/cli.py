"""The command `tenken`: a dispatcher. Each package registers its own subcommands by entry point."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points, version
from typing import Any

from tenken.errors import TenkenError, printable

GROUP = "tenken.commands"


class _Printable:
    """A stream on which names and words out of the archive cannot steer the terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(printable(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of all subcommands; with the name of one, of this one alone: the others are not imported."""
    parser = argparse.ArgumentParser(
        prog="tenken",
        description="Describe machines, list checks, judge and report results. The checks are run by ReFrame.",
    )
    parser.add_argument("--version", action="version", version=f"tenken {version('tenken')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    entries = sorted(entry_points(group=GROUP), key=lambda e: e.name)
    for entry in [e for e in entries if e.name == command] or entries:
        entry.load()(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 2 for what the user can mend, with one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows another one, and continues
            stream.reconfigure(errors="replace")
    with contextlib.redirect_stdout(_Printable(sys.stdout)), contextlib.redirect_stderr(_Printable(sys.stderr)):
        return _run(argv)


def _run(argv: list[str] | None) -> int:
    given = sys.argv[1:] if argv is None else argv
    arguments = build_parser(*given[:1]).parse_args(given)
    try:
        return int(arguments.func(arguments) or 0)
    except TenkenError as error:
        print(f"tenken: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
