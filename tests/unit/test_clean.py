"""Files that `make clean` and `make uninstall` remove, and those that they leave."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT

LEFT_BY_RUNS = (".build/x", ".cache/x", "stage/x", "output/reframe.log", "output/dry-run/x")
KEPT = ("perflogs/x", "output/pages/page.html", "systems/mine.yaml")


@pytest.mark.parametrize(("target", "venv"), [("clean", True), ("uninstall", False)])
def test_the_archive_and_the_pages_stay(target: str, venv: bool, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (*LEFT_BY_RUNS, *KEPT, ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    done = subprocess.run(["make", target], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not [name for name in LEFT_BY_RUNS if (tmp_path / name).exists()]
    assert all((tmp_path / name).exists() for name in KEPT)
    assert (tmp_path / ".venv").exists() == venv
    assert ("~/.reframe" in done.stdout) == (target == "uninstall")
