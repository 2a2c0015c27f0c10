"""mpi4py for tests: its wheel, and its demo programs, which only its source package has."""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tenken.paths import ROOT
from toolchains import wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Pin, Target

TARGET = Target(platform.machine(), f"3.{sys.version_info.minor}")


def pin(lock: str, name: str) -> Pin:
    (found,) = wheels.select(wheels.read_lock(ROOT / "toolchains" / lock), [name], TARGET)
    return found


def pythonpath(folder: Path) -> str:
    """PYTHONPATH with mpi4py from its wheel, which uses the MPI of LD_LIBRARY_PATH or of the system."""
    for wheel in wheels.fetch([pin("mpi4py.lock", "mpi4py")], TARGET, folder / "wheels"):
        wheels.unpack(wheel, folder / "site")
    return os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])


def demos() -> Path:
    """The folder demo of mpi4py's source package, fetched once into .cache.

    pip queries a source package for its metadata, for which the pinned setuptools is unpacked next to it: in an
    isolated environment pip would fetch one without a hash.
    """
    mpi4py = pin("mpi4py.lock", "mpi4py")
    place = ROOT / ".cache" / f"tests-mpi4py-{mpi4py.version}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock, tempfile.TemporaryDirectory(dir=place) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "demo").is_dir():
            work = Path(scratch)
            for wheel in wheels.fetch([pin("kit.lock", "setuptools")], TARGET, work / "wheels"):
                wheels.unpack(wheel, work / "site")
            (work / "pins.txt").write_text(mpi4py.requirement() + "\n")
            options = ["--no-deps", "--no-build-isolation", "--no-binary", "mpi4py", "--require-hashes", "--quiet"]
            done = subprocess.run(
                [*wheels.find_pip(), "download", *options, "-r", "pins.txt", "-d", "."],
                cwd=work, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(work / "site")},
            )  # fmt: skip
            if done.returncode != 0:
                raise ToolchainError(f"cannot fetch the source package of mpi4py: {done.stderr[-500:]}")
            (archive,) = work.glob("mpi4py-*.tar.gz")
            with tarfile.open(archive) as source:
                if hasattr(tarfile, "data_filter"):
                    source.extractall(work / "source", filter="data")
                else:  # Python 3.10.11, 3.11.3 and older
                    source.extractall(work / "source")
            (unpacked,) = (work / "source").glob("*/demo")
            unpacked.rename(place / "demo")
    return place / "demo"
