"""`make format` and `make golden`: generated and formatted files that a contributor need not write by hand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.reframe.config import golden

FILES = {
    "Makefile": None, "pyproject.toml": None, ".clang-format": None,
    "tools/messy.py": "import os,sys\nprint( os.sep,sys.path )\n",
    "src/messy.cpp": "int   main( ){return 0 ;}\n",
    "src/messy.cuh": "void  f( );\n",
    "tests/unit.h": "void  g( );\n",
}  # fmt: skip


def make(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`make` of a checkout with the virtual environment of these tests."""
    return subprocess.run(
        ["make", "-o", ".venv/.stamp-dev", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, **env},
    )  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text() if text is None else text)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    return tmp_path


def is_formatted(folder: Path) -> list[bool]:
    """What scripts/lint.sh requires of formatting: Python, then C++."""
    sources = [str(path) for path in folder.rglob("*") if path.suffix in (".cpp", ".cuh", ".h")]
    commands = [["ruff", "format", "--check", "."], ["clang-format", "--dry-run", "--Werror", *sources]]
    return [subprocess.run(one, cwd=folder, capture_output=True, check=False).returncode == 0 for one in commands]


def test_make_format_writes_what_the_linters_ask_for(checkout: Path) -> None:
    assert is_formatted(checkout) == [False, False]
    done = make(checkout, "format")
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_formatted(checkout) == [True, True]
    assert (checkout / "tools" / "messy.py").read_text().startswith("import os\nimport sys\n")


def test_make_format_says_what_no_formatter_can_mend(checkout: Path) -> None:
    (checkout / "tools" / "messy.py").write_text("def f(:\n")
    assert make(checkout, "format").returncode != 0


def test_make_dev_installs_what_the_tests_need(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements-dev.lock", ".venv/.stamp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    done = subprocess.run(
        ["make", "-n", "-o", ".venv/.stamp", "dev"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "sh scripts/install.sh .venv requirements-dev.lock" in done.stdout
    assert re.search(r"^pytest==", (ROOT / "requirements-dev.lock").read_text(), re.M)


def test_make_golden_asks_for_all_systems_or_for_one(checkout: Path) -> None:
    command = "python -m tests.reframe.config.golden"
    assert f"{command} h200\n" in make(checkout, "-n", "golden", "ONLY=h200").stdout
    # `make -n` inside another make adds its own lines
    assert command in [line.rstrip() for line in re.split(r"\n|&& ", make(checkout, "-n", "golden").stdout)]


def test_golden_scripts_are_those_of_shipped_systems_and_of_one_that_is_named(tmp_path, monkeypatch, capsys) -> None:
    """Systems added by a site are only validated by `tenken systems validate`, until it requests golden scripts."""
    shipped = {path.stem for path in (ROOT / "systems").glob("*.yaml")} - {"hardware"}
    known = {path.name for path in golden.FOLDER.iterdir() if path.is_dir()}
    assert set(golden.SYSTEMS) == known & shipped
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    monkeypatch.setattr(golden, "scripts", lambda name, folder: [golden.Script("one", "echo\n", (f"{name}: one",))])
    golden.write("site-of-mine")
    assert sorted(path.name for path in (tmp_path / "site-of-mine").iterdir()) == ["commands.txt", "scripts.txt"]
    assert "site-of-mine" in capsys.readouterr().out
    assert shutil.which("make")
