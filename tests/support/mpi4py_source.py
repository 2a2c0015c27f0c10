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
from tests.support.builds import checked
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

    pip queries a source package for its metadata: here in an environment with the pinned setuptools, as pip would fetch
    one without a hash into its own.
    """
    mpi4py = pin("mpi4py.lock", "mpi4py")
    place = ROOT / ".cache" / f"tests-mpi4py-{mpi4py.version}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock, tempfile.TemporaryDirectory(dir=place) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "demo").is_dir():
            work = Path(scratch)
            checked([sys.executable, "-m", "venv", "--without-pip", str(work / "env")])
            (packages,) = (work / "env" / "lib").glob("python*/site-packages")
            for wheel in wheels.fetch([pin("kit.lock", "setuptools")], TARGET, work / "wheels"):
                wheels.unpack(wheel, packages)
            version = checked([*wheels.find_pip(), "--version"])  # pip 26.1 from FOLDER (python 3.13)
            pip = version.partition(" from ")[2].rpartition(" (")[0]
            (work / "pins.txt").write_text(mpi4py.requirement() + "\n")
            options = ["--no-deps", "--no-build-isolation", "--no-binary", "mpi4py", "--require-hashes", "--quiet"]
            done = subprocess.run(
                [str(work / "env" / "bin" / "python"), pip, "download", *options, "-r", "pins.txt", "-d", "."],
                cwd=work, capture_output=True, text=True,
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
