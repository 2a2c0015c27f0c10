"""`make test` and `make test-all` together are all tests, and each part states what it installs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tenken.paths import ROOT
from tests.conftest import in_order
from tests.support import parts


def test_a_test_is_of_the_parts_of_its_marks_and_of_its_fixtures() -> None:
    assert parts.of(["slow", "xdist_group"], ["tmp_path"]) == set()
    assert parts.of(["cuda"], ["tmp_path"]) == {"cuda"}
    assert parts.of(["build"], ["run_ranks", "mpi_build", "started", "slurm"]) == {"mpi", "slurm"}


def test_the_table_has_every_part_in_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", parts.table(), re.M) == sorted(parts.PARTS)


def test_every_part_has_a_test() -> None:
    text = "\n".join(file.read_text() for file in parts.files())
    for name, part in parts.PARTS.items():
        fixtures = "|".join(part.fixtures) or "no such fixture"
        assert re.search(rf"mark\.{name}\b|def test_\w+\([^)]*\b(?:{fixtures})[:,)]", text), name


def test_the_commands_and_ci_leave_no_test_out() -> None:
    script = (ROOT / "scripts" / "test.sh").read_text()
    assert '-m "not part"' in script and '-m "${parts:-part}"' in script
    assert re.findall(r"make test\S*", (ROOT / ".ci" / "run").read_text()) == ["make test", "make test-all"]
    assert "run: .ci/run" in (ROOT / ".github" / "workflows" / "tests.yml").read_text()


def test_groups_that_wait_for_the_host_build_are_last_and_large_ones_first() -> None:
    def item(name: str, group: str, *fixtures: str) -> Any:
        mark = SimpleNamespace(args=(group,)) if group else None
        return SimpleNamespace(nodeid=name, fixturenames=fixtures, get_closest_marker=lambda _: mark)

    items = [item("a", "programs"), item("b", ""), item("c", "pure"), item("d", "programs", "run", "build_dir"),
             item("e", "programs"), item("f", "pure")]  # fmt: skip
    in_order(items, waiting=True)
    assert [one.nodeid for one in items] == ["c", "f", "b", "a", "d", "e"]
    assert "--no-loadscope-reorder" in (ROOT / "scripts" / "test.sh").read_text(), "xdist would sort them again"


MODULE = """
import pytest


@pytest.mark.{name}
def test_marked():
    pass


@pytest.fixture
def started():
    pass


def test_by_its_fixture(started):
    pass


def test_of_none():
    pass
"""


NAMED = """
import pytest


@pytest.mark.parametrize("started", [1, 2])
def test_of_a_number(started):
    pass
"""


#: In one process: pytest's start is most of what each selection costs.
SELECT = "import sys, pytest; sys.exit(max(pytest.main([*sys.argv[1:], '-m', one]) for one in {!r}))"
SELECTED = {"part": 2, "not part": 1, "slurm": 1, "cuda": 1}


def select(folder: Path, module: str, selections: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(module)
    hooks = "from tests.conftest import pytest_collection_modifyitems, pytest_configure\n"
    (folder / "conftest.py").write_text(hooks)
    return subprocess.run(
        [sys.executable, "-c", SELECT.format(selections), "-q", "-p", "no:cacheprovider", "--strict-markers",
         "--rootdir", str(folder), str(folder)],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_each_test_is_in_one_of_both(tmp_path: Path) -> None:
    done = select(tmp_path, MODULE.format(name="cuda"), [*SELECTED])
    counts = [f"{tests} passed, {3 - tests} deselected" for tests in SELECTED.values()]
    assert re.findall(r"\d passed, \d deselected", done.stdout) == counts, done.stdout + done.stderr


def test_an_argument_with_the_name_of_a_fixture_of_a_part_is_refused(tmp_path: Path) -> None:
    """It would move a test of `make test` into the part, without a word."""
    done = select(tmp_path, NAMED, ["not part"])
    assert done.returncode != 0
    assert "an argument has the name of a fixture of slurm" in done.stdout + done.stderr
