"""Builds of src/ for tests. Imports nothing that only tests need: scripts/test.sh starts the host build before that is
installed.

    python -m tests.support.builds    the host build; the tests that wait for it report a failure
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tenken.model import headers
from tenken.paths import PROGRAMS, ROOT


def tool(name: str) -> str:
    """Path of a program that pip installed next to this Python, or that is on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise AssertionError(f"{name} is needed by these tests and was not found beside Python nor on PATH")
    return found


def host_build() -> Path:
    """The folder of that build, created at the first call of a session.

    Kept in .cache/ between sessions, so that only changes are compiled; a lock keeps parallel builds apart. The second
    one finds everything built. TENKEN_TEST_TARGETS names the programs if not all are needed (tools/mutants).
    """
    folder = Path(os.environ.get("TENKEN_TEST_BUILD", ROOT / ".cache" / "tests-src-build"))
    with locked(folder):
        configure(folder, "-DTENKEN_WERROR=ON", "-DTENKEN_OPENACC=ON", "-DTENKEN_TESTS=ON")
        build(folder, *os.environ.get("TENKEN_TEST_TARGETS", "").split())
    return folder


def after_host_build() -> None:
    """With ccache, the host build runs first: in parallel, the same sources would be compiled twice."""
    if "CCACHE_DIR" in os.environ:
        host_build()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds `folder`/.lock: while one worker configures, CMake's cache is temporarily missing for all others."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def in_venv(root: Path, mpi: dict[str, str]) -> dict[str, str]:
    """The environment of a copy of the MPI of wheels in `root`/.venv, where `make run` installs it: ccache keeps
    objects of other include folders apart, and the compiler names the folder that it is in."""
    folder, installed = root / ".venv" / "mpi", mpi.get("OPAL_PREFIX")
    if installed is None:
        return mpi
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(installed, part, symlinks=True)
        part.rename(folder)
    return {name: value.replace(installed, str(folder)) for name, value in mpi.items()}


def configure(folder: Path, *options: str, source: Path = ROOT / "src") -> None:
    command = [tool("cmake"), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    # named as in a system file: ccache keeps objects of compilers with different names apart
    compiler = os.environ.get("CXX", "g++")
    command += [f"-DCMAKE_CXX_COMPILER={compiler}", f"-DTENKEN_PYTHON={sys.executable}"]
    cache = folder / "CMakeCache.txt"
    if cache.exists() and f"/{Path(compiler).name}\n" not in cache.read_text():
        # CMake would start over, and forget the other options
        cache.unlink()
        shutil.rmtree(folder / "CMakeFiles", ignore_errors=True)
    if source.resolve() == ROOT / "src":
        # next to the build folder, as in `make run`: ccache keeps objects of other include folders apart
        entries = (ROOT / ".cache" if source == ROOT / "src" else folder.parent) / "catalogue"
        with locked(entries):
            headers.write(PROGRAMS, entries)
        command.append(f"-DTENKEN_CATALOGUE={entries}")
    checked([*command, "-S", str(source), "-B", str(folder), *options])


def build(folder: Path, *targets: str) -> str:
    """Builds all, or some targets, and refuses every warning, also one that ccache replays from a build in which it was
    not an error."""
    only = ["--target", *targets] if targets else []
    output = checked([tool("cmake"), "--build", str(folder), "-j", "2", *only])
    if "warning:" in output:
        # so that no part of it counts as built the next time
        shutil.rmtree(folder)
        raise AssertionError(f"warnings:\n{output[-6000:]}")
    return output


def checked(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


if __name__ == "__main__":
    with contextlib.suppress(AssertionError):
        host_build()
