"""In CI only listed reasons may be skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.support import skips

MODULE = """
import pytest

from tests.conftest import pytest_runtest_makereport


def test_lacking():
    pytest.skip("no mount namespace here")


@pytest.mark.skipif(True, reason="this machine has a driver")
def test_elsewhere():
    pass


@pytest.fixture
def lacking():
    pytest.skip("no mount namespace here")


def test_of_a_fixture(lacking):
    pass


@pytest.mark.xfail
def test_expected():
    raise ValueError
"""


@pytest.mark.parametrize(("ci", "counts"), [(True, "2 failed, 2 errors"), (False, "3 skipped, 1 xfailed")])
def test_a_skip_that_is_not_listed_fails_where_ci_runs(ci: bool, counts: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MODULE)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_makereport\n")
    env = {k: v for k, v in os.environ.items() if k not in ("CI", "TENKEN_CI")} | ({"TENKEN_CI": "1"} if ci else {})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{counts} in " in done.stdout, done.stdout + done.stderr
    assert ("is skipped in CI: no mount namespace here; make it run, or add it" in done.stdout) is ci


def test_what_is_listed_may_be_skipped_for_that_reason_alone() -> None:
    assert skips.refused("tests/programs/test_cuda.py::test_x", "this machine has a driver") is None
    assert skips.refused("tests/test_environments.py::test_x[3.10]", "no Python 3.10 here") is None
    assert skips.refused("tests/programs/test_cuda.py::test_x", "no driver") is not None
    assert skips.refused("tests/cluster/test_slurm.py::test_x", "this machine has a driver") is not None


def test_every_skip_that_is_listed_is_one_that_a_test_has() -> None:
    """A reason that no test gives any more must be removed."""
    for one in skips.ALLOWED:
        files = [ROOT / one.where.split("::")[0]]
        text = "".join(file.read_text() for path in files for file in ([path] if path.is_file() else path.glob("*.py")))
        said = re.sub(r"\{\w+\}", "3.10", text)
        assert re.search(f'"{one.reason}"', said), one
