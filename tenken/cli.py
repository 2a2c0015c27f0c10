"""The command `tenken`: a dispatcher. Each package registers its own subcommands by entry point."""

from __future__ import annotations

import argparse
import io
import os
import sys
from importlib.metadata import entry_points

from tenken.errors import TenkenError

GROUP = "tenken.commands"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tenken", description="Beside ReFrame: describe machines, list checks, report on the archive."
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        entry.load()(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 2 for what the user can mend, with one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without a character shows another, and goes on
            stream.reconfigure(errors="replace")
    arguments = build_parser().parse_args(argv)
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
