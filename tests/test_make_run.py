"""From clone to verdict: the commands of a newcomer, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.support.builds import after_host_build
from tests.support.oracles import small_caches

pytestmark = [pytest.mark.run, pytest.mark.slow, pytest.mark.build, pytest.mark.xdist_group("make run")]


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment of a user who has not activated anything."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_", "VIRTUAL_ENV", "PYTHON"))}
    venv = str(ROOT / ".venv")
    path = os.pathsep.join(p for p in kept.get("PATH", "").split(os.pathsep) if not p.startswith(venv))
    return {**kept, "PATH": path, "TENKEN_LOCKS": os.environ["TENKEN_LOCKS"], **changes}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    after_host_build()
    folder = tmp_path_factory.mktemp("newcomer") / "tenken"
    subprocess.run(["git", "clone", "-q", f"file://{ROOT}", str(folder)], check=True)
    return folder


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # ccache's objects of this checkout serve the clone, if both have the same base
    there = {"CCACHE_BASEDIR": str(clone)} if "CCACHE_DIR" in os.environ else {}
    # arrays no larger than for a machine with caches of 24 MiB
    there |= small_caches(clone.parent)
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=clean_environment(**there), capture_output=True, text=True, check=False,
        timeout=1800,  # limit for a run that hangs: the normal duration depends on other load
    )  # fmt: skip


def test_make_run_ends_with_verdicts_and_a_page(clone):
    done = make(clone, "run")
    output = done.stdout + done.stderr
    # a shared machine may void a measurement, and one that hides its memory channels has no limit for STREAM: those are
    # verdicts too, never a failure of the suite
    assert done.returncode in (0, 1, 2), output
    assert not re.search(r"^FAIL ", output, re.M), output  # from the table of verdicts: ReFrame reports INVALID as FAIL
    assert re.search(r"^(PASS|RECORDED|INVALID) +StreamHost ", output, re.M), output
    assert re.search(r"^(PASS|RECORDED|INVALID) +Daxpy ", output, re.M), output
    # one line per check, and the table: messages about slow work depend on the machine
    lines = [line for line in output.splitlines() if not line.startswith("... ")]
    assert len(lines) <= 60, output
    first = next(line for line in lines if re.match(r"(PASS|RECORDED|INVALID|WAIVED) ", line))
    assert "StreamHost" in first, output
    page = Path(re.search(r"^Page: (\S+)$", output, re.M)[1])
    text = page.read_text()
    assert "StreamHost" in text and "Host memory, triad" in text
    assert not re.search(r'(src|href)="https?://', text)


def test_selecting_nothing_is_not_green(clone):
    done = make(clone, "run", "RFMARGS=-n NoSuchCheck")
    assert done.returncode != 0, done.stdout + done.stderr
    assert "nothing was run" in (done.stdout + done.stderr).lower()


def test_a_check_file_that_does_not_import_is_not_green(clone):
    broken = clone / "checks" / "broken.py"
    broken.write_text("import reframe as rfm\nimport no_such_module\n\n\n@rfm.simple_test\nclass Broken:\n    pass\n")
    try:
        done = make(clone, "run", "RFMARGS=-n HimenoHost")
    finally:
        broken.unlink()
    assert done.returncode != 0
    assert "check file does not import" in done.stdout + done.stderr


@pytest.mark.parametrize(("lacking", "package"), [("g++", "g++"), ("git", "git"), ("flock", "util-linux")])
def test_what_a_machine_lacks_is_named_with_its_package(tmp_path, lacking, package):
    for tool in ("sh", "env", "g++", "git", "flock", "printf"):
        found = shutil.which(tool)
        if found and tool != lacking:
            (tmp_path / tool).symlink_to(found)
    done = subprocess.run(
        [str(tmp_path / "sh"), "scripts/need.sh", "python3", "build"], cwd=ROOT, env={"PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{lacking}: install the package {package}" in done.stderr


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_compiler_that_cxx_names_is_not_required(tmp_path, compiler):
    """A module sets CXX to `icpx` or `ccache g++`; the description of this machine takes g++, else clang++."""
    for tool in ("sh", "env", "git", "flock", "printf"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    (tmp_path / compiler).symlink_to("/bin/true")
    done = subprocess.run(
        [str(tmp_path / "sh"), "scripts/need.sh", "no-python", "build"], cwd=ROOT, capture_output=True, text=True,
        env={"PATH": str(tmp_path), "CXX": "ccache g++"}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
