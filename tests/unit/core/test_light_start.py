"""Commands that `make run` starts must work without the packages of the reports: a kit may leave them out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tenken import cli

HEAVY = ("numpy", "matplotlib", "duckdb", "pandas")

SCRIPT = """
import importlib.abc, sys

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
from tenken import cli
import tenken.reframe.configuration, tenken.reframe.base, tenken.reframe.plan
try:
    cli.main({arguments!r})
except SystemExit as left:
    sys.exit(left.code)
"""


def without(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(heavy=HEAVY, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_commands_start_without_the_packages_of_the_reports():
    done = without("--help")
    assert done.returncode == 0, done.stderr
    # each command registers itself while tenken starts: one that needs more would break them all
    assert all(name in done.stdout for name in ("judge", "gate", "campaign", "accept", "drill", "new"))


def test_a_command_that_needs_them_names_what_is_missing():
    done = without("gate", "run")
    assert done.returncode not in (0, None)


def test_one_command_imports_no_other():
    """`tenken report` does not need ReFrame, whose import takes longer than the start of the page."""
    script = "import sys; from tenken import cli; cli.build_parser({}); print('reframe' in sys.modules)"
    for of, there in (("'report'", "False"), ("'checks'", "True"), ("'no-such-command'", "True")):
        done = subprocess.run([sys.executable, "-c", script.format(of)], capture_output=True, text=True)
        assert done.stdout.strip() == there, (of, done.stderr)


def test_all_commands_are_offered_where_none_is_named(capsys):
    with pytest.raises(SystemExit):
        cli.main(["no-such-command"])
    offered = capsys.readouterr().err
    assert all(name in offered for name in ("no-such-command", "report", "gate", "checks"))
