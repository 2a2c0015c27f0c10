"""The C++ readers, of .mtx files and HPL.dat, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.sanitized import HARNESSES, build


@pytest.mark.fuzz
@pytest.mark.build
@pytest.mark.parametrize("name", HARNESSES)
def test_broken_files_under_sanitizers(tmp_path: Path, name: str) -> None:
    done = subprocess.run([build(name, tmp_path), "2000", "20261122"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"2000 files, \d+ of them good", done.stdout) and not done.stderr


@pytest.mark.fuzz
@pytest.mark.build
def test_the_sanitizers_are_there(tmp_path: Path) -> None:
    """A harness that reads past its end must fail, which shows that the sanitizer works."""
    (tmp_path / "bad.cpp").write_text(
        "int main(int n, char**) { volatile int a[2] = {n, n}; volatile int at = n + 1; return a[at] == 7; }\n"
    )
    program = build(str(tmp_path / "bad.cpp"), tmp_path, [])
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "out of bounds" in done.stderr
