"""`tenken --help` begins with the commands that people need first; the help of every command has a valid example."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tenken import cli
from tenken.paths import ROOT
from tests.docs import commands
from tests.docs.pages import Text


def parsers(parser: argparse.ArgumentParser, name: str = "tenken") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    found = cli._commands(parser)
    for word, one in (found.choices if found else {}).items():
        yield f"{name} {word}", one
        yield from parsers(one, f"{name} {word}")


def test_the_help_lists_six_commands_first_and_all_others_once() -> None:
    parser = commands._tenken_parser()
    first, _, more = parser.format_help().partition("commands:\n")[2].partition("more:\n")
    listed = [line.split()[0] for line in first.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    assert len(cli.FIRST) == 6 and listed == list(cli.FIRST)
    others = {name.split()[1] for name, _ in parsers(parser) if name.count(" ") == 1} - set(cli.FIRST)
    assert others and all(more.count(f"\n  {name} ") + more.startswith(f"  {name} ") == 1 for name in others)


def test_every_command_has_an_example() -> None:
    missing = [name for name, one in parsers(commands._tenken_parser()) if "example: tenken" not in one.format_help()]
    assert not missing


def test_every_example_can_be_given() -> None:
    given = cli.EXAMPLES.strip().splitlines()
    places = (Text(ROOT / "README.md", 1, line, "sh") for line in given)
    found = [one for place in places for one in commands.simple_commands(place)]
    wrong = [f"{one}: {said}" for one in found if (said := commands.problem(one))]
    assert not wrong, "\n".join(wrong)
    assert len(given) > 30
