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

#: What people need first, in this order; `--help` lists all others under "more".
FIRST = ("systems", "checks", "report", "gate", "acceptance", "node")
#: Examples, shown below the `--help` of the command that each line names, and of its parent commands that have none.
EXAMPLES = """
tenken systems describe
tenken systems list
tenken systems new my-cluster --scheduler slurm
tenken systems validate my-cluster
tenken systems check my-cluster --here --partition gpu
tenken systems tonight my-cluster --nodes 2 --kept my-cluster.nodes
tenken checks --system my-cluster
tenken report --session last
tenken gate --system my-cluster
tenken gate rebase --system my-cluster --from 2026-11-20 --why "driver 580"
tenken acceptance run lot1 --hours 8
tenken node check --gpus 0,1 --seconds 3
tenken node accept
tenken node return node17
tenken node expect --system my-cluster --partition gpu
tenken accept --contract lot1 --sessions last
tenken accept --verify output/acceptance/lot1/lot1.tar
tenken archive verify
tenken archive prune --days 365 --dry-run
tenken archive export vendor.tar.xz --sessions 20261123T015311Z-bcadd0
tenken campaign plan hall-a
tenken campaign run hall-a
tenken campaign resume hall-a
tenken campaign status hall-a
tenken campaign stop hall-a
tenken campaign groups hall-a
tenken campaign pairs hall-a
tenken campaign together hall-a
tenken campaign hardware hall-a
tenken campaign report hall-a
tenken campaign retest hall-a n0117,n0410
tenken clean --days 14 --dry-run
tenken compare night=2026-11-01 night=2026-11-09
tenken contract new lot1 --from local --session last
tenken contract validate lot1
tenken contract list
tenken drill --system h200
tenken ingest --export history.parquet
tenken jobs --cancel
tenken judge result.json
tenken kinds list
tenken kinds add --site "our site"
tenken matrices select --least 1000000
tenken matrices fetch HB/bcsstk01
tenken matrices list
tenken new benchmark my_latency
tenken propose my-cluster
tenken publications --system pegasus
tenken ratio h200.json v100.json --over nnz
tenken show result.json
"""


class _Printable:
    """A stream on which text from the archive cannot control the terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(printable(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Parser(argparse.ArgumentParser):
    """Formatter of `tenken` itself: its help lists the commands that people need first separately from the others."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        listed = {one.dest: one for one in _commands(self)._choices_actions}
        first = [listed[name] for name in FIRST if name in listed]
        more = [one for one in listed.values() if one not in first]
        options = [one for one in self._actions if one.option_strings]
        for title, actions in (("commands", first), ("more", more), ("options", options)):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text("`tenken COMMAND --help` shows an example of each.")
        return formatter.format_help()


def _commands(parser: argparse.ArgumentParser) -> Any:
    """The subcommands of a parser, None if it has none."""
    return next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)


def _show_examples(parser: argparse.ArgumentParser) -> None:
    """Adds each example to the help of its command, and of parent commands that have none yet."""
    for line in EXAMPLES.strip().splitlines():
        of = []
        here = parser
        for word in line.split()[1:]:
            commands = _commands(here)
            if commands is None or word not in commands.choices:
                break
            here = commands.choices[word]
            of.append(here)
        # the last word is the command itself
        for one in [*of[-1:], *(above for above in of[:-1] if "example: " not in (above.epilog or ""))]:
            if line in (one.epilog or ""):
                continue
            shown = line if "example: " in (one.epilog or "") else f"example: {line}"
            one.epilog = f"{one.epilog}; {shown}" if one.epilog else shown


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of all subcommands, or of the named one alone, without importing the others."""
    parser = _Parser(
        prog="tenken",
        description="Describe machines, list checks, judge and report results. The checks are run by ReFrame.",
    )
    parser.add_argument("--version", action="version", version=f"tenken {version('tenken')}")
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    entries = sorted(entry_points(group=GROUP), key=lambda e: e.name)
    for entry in [e for e in entries if e.name == command] or entries:
        entry.load()(subparsers)
    _show_examples(parser)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code: 2 for what the user can fix, with one line on stderr."""
    for name in ("stdout", "stderr"):  # None if it was closed (`>&-`)
        setattr(sys, name, getattr(sys, name) or open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows a substitute
            stream.reconfigure(errors="replace")
    with contextlib.redirect_stdout(_Printable(sys.stdout)), contextlib.redirect_stderr(_Printable(sys.stderr)):
        return _run(argv)


def _run(argv: list[str] | None) -> int:
    given = sys.argv[1:] if argv is None else argv
    try:
        parser = build_parser(*given[:1])
    except ModuleNotFoundError as error:
        if (error.name or "tenken").split(".")[0] == "tenken":
            raise
        print(
            f"tenken: Python has no module {error.name}: in a checkout, `make venv` installs it; an installation for "
            "the check of a node has `tenken node` alone",
            file=sys.stderr,
        )
        return 2
    arguments = parser.parse_args(given)
    try:
        status = int(arguments.func(arguments) or 0)
        sys.stdout.flush()  # a reader that has gone (`| head`) is noticed here, not while Python ends
        return status
    except TenkenError as error:
        print(f"tenken: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tenken: interrupted; jobs that it submitted go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
