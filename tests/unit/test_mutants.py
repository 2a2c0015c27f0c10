"""The tool that inserts mistakes: its list matches the sources, and it reports the outcome of each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tools.mutants import mutant as mutants
from tools.mutants import runner, scratch


def write(folder: Path, tests: str = "test_thing.py", **more: str) -> Path:
    fields = {"name": "half", "file": "thing.py", "old": "return 2", "new": "return 1", "why": "two are two", **more}
    lines = [f"- name: {fields['name']}"] + [f"  {key}: {value!r}" for key, value in fields.items() if key != "name"]
    (folder / "list.yaml").write_text("\n".join([*lines, f"  tests: ['{tests}']"]) + "\n")
    return folder


def test_the_list_fits_the_sources() -> None:
    listed = mutants.load()
    assert mutants.check(listed, ROOT) == []
    groups = {
        "archive",
        "common",
        "detector",
        "judging",
        "machines",
        "parsers",
        "programs",
        "relations",
        "schedulers",
    }
    assert len(listed) >= 300 and {one.group for one in listed} >= groups
    programs = {path.parent.name for path in (ROOT / "src" / "programs").glob("*/metrics.yaml")}
    for program in programs:
        counted = [one for one in listed if one.group in ("programs", program) and f"/programs/{program}/" in one.file]
        # the common parts contain the counting of the copy programs, the snapshots and the dense solvers
        shares = {
            "access_patterns": "copy_program",
            "migration": "copy_program",
            "snapshot_io": "particles",
            "hpl_mxp": "lib/lu/",
        }
        shared = [one for one in listed if shares.get(program, "nothing shared") in one.file]
        assert len(counted) + len(shared) >= 2, f"{program}: at least two mistakes where it counts"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"old": "return 3"}, "thing.py contains 'return 3' 0 times"),
        ({"old": "return"}, "thing.py contains 'return' 2 times"),
        ({"file": "nothing.py"}, "nothing.py: No such file"),
        ({"new": "return 2)"}, "thing.py is no longer valid Python: line 2"),
        ({"tests": "test_nothing.py"}, "there is no test_nothing.py"),
        ({"tests": "test_empty.py"}, "there is no test_empty.py"),
        ({"tests": "test_thing.py::test_tw"}, "there is no test_thing.py::test_tw"),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(tmp_path: Path, more: dict[str, str], says: str) -> None:
    (tmp_path / "thing.py").write_text("def two():\n    return 2\n\n\ndef four():\n    return 4\n")
    (tmp_path / "test_thing.py").write_text("def test_two():\n    pass\n")
    (tmp_path / "test_empty.py").write_text("def not_a_test():\n    pass\n")
    for tests in ("test_thing.py", "test_thing.py::test_two", "test_thing.py::test_two[a-b]"):
        assert mutants.check(mutants.load(write(tmp_path, tests)), tmp_path) == []
    (found,) = mutants.check(mutants.load(write(tmp_path, **more)), tmp_path)
    assert found.startswith("half: ") and says in found


@pytest.mark.parametrize(
    ("more", "says"),
    [({"new": "return 2"}, "the same as new"), ({"speed": "x"}, "keys must be"), ({"old": ""}, "empty")],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, more: dict[str, str], says: str) -> None:
    with pytest.raises(mutants.MutantError, match=says):
        mutants.load(write(tmp_path, **more))


@pytest.mark.parametrize(
    ("new", "fate"), [("return 1", runner.CAUGHT), ("return 3 - 1", runner.SURVIVED), ("return )", runner.BROKEN)]
)
def test_what_becomes_of_a_mutant(tmp_path: Path, new: str, fate: str) -> None:
    (tmp_path / "thing.py").write_text("def two():\n    return 2\n")
    (tmp_path / "test_thing.py").write_text("import thing\n\n\ndef test_two():\n    assert thing.two() == 2\n")
    (one,) = mutants.load(write(tmp_path, new=new))
    outcome = runner.try_one(one, tmp_path, scratch.environment(tmp_path), 60)
    assert outcome.fate == fate, outcome.by
    assert (tmp_path / "thing.py").read_text() == "def two():\n    return 2\n", "it is taken back"
    assert outcome.by.startswith("test_thing.py::test_two") == (fate == runner.CAUGHT)


def test_tests_that_do_not_end_judge_nothing(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text("def two():\n    return 2\n")
    (tmp_path / "test_thing.py").write_text("import time\n\n\ndef test_two():\n    time.sleep(60)\n")
    (one,) = mutants.load(write(tmp_path))
    assert runner.try_one(one, tmp_path, scratch.environment(tmp_path), 2).fate == runner.BROKEN


def test_programs_are_built_as_for_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other options give other steps, which are no mistake of a mutant."""
    monkeypatch.delenv("TENKEN_TEST_CUDA_ARCHITECTURES", raising=False)
    chosen = scratch.environment(tmp_path).keys() - os.environ.keys()
    assert not [name for name in chosen if name.startswith("TENKEN_TEST_")]
