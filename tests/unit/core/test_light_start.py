"""What `make run` starts must do without the packages of the reports: a kit may leave them out."""

from __future__ import annotations

import subprocess
import sys

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
    # each command adds itself while tenken starts: one that needs more would end them all
    assert all(name in done.stdout for name in ("judge", "gate", "campaign", "accept", "drill", "new"))


def test_a_command_that_needs_them_names_what_is_missing():
    done = without("gate", "run")
    assert done.returncode not in (0, None)
