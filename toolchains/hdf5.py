"""Build HDF5 with its direct driver (O_DIRECT), which neither Debian's package nor the wheel of h5py has.

``python3 -m toolchains.hdf5 FOLDER`` fetches Debian's source of HDF5, builds the C library alone and prints the path of
it, for TENKEN_HDF5. It takes a C compiler, make and about 90 seconds of one core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from toolchains import debian, processes
from toolchains.processes import ToolchainError

LOCK = Path(__file__).with_name("debian.lock")
#: The library alone; without compression nothing else is needed to load it.
OPTIONS = (
    "--enable-direct-vfd",
    "--enable-shared",
    "--disable-static",
    "--disable-tests",
    "--disable-tools",
    "--disable-hl",
    "--disable-fortran",
    "--disable-cxx",
    "--without-zlib",
    "--without-szlib",
    "--enable-build-mode=production",
    "--disable-dependency-tracking",
)
#: The library from HDF5's own list of objects. Libtool, a shell script, takes as long for each as the compiler.
RULES = """\
include Makefile
AM_CFLAGS = -std=c99
LTCOMPILE = $(COMPILE) -fPIC
libtenken.so: $(libhdf5_la_OBJECTS)
\t$(CC) -shared -Wl,-soname,libhdf5.so -o $@ $^ $(LIBS)
"""


def make(folder: Path, optimization: str = "-O1") -> Path:
    """Build HDF5 into ``folder``, unless it is there; returns the path of the library. Raises ToolchainError."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libhdf5.so"
    with processes.only_one(folder / ".lock"):
        if not library.is_file():
            pin = debian.read_debian_lock(LOCK, "hdf5", "source")
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                fetched = debian.fetch_source(pin, Path(scratch) / "fetched")
                built = _build(fetched, Path(scratch) / "source", optimization)
                part = folder / ".libhdf5.so.part"
                shutil.copyfile(built, part)
                part.rename(library)
    return library


def _build(archive: Path, source: Path, optimization: str) -> Path:
    source.mkdir()
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "tar_filter"):
            packed.extractall(source, filter="tar")
        else:  # Python 3.10.11, 3.11.3 and older
            packed.extractall(source)
    (top,) = source.iterdir()
    _run(["./configure", "--quiet", *OPTIONS, f"CFLAGS={optimization} -w"], top)
    (top / "src" / "library.mk").write_text(RULES)
    _run(["make", "-C", "src", "-f", "library.mk", f"-j{len(os.sched_getaffinity(0))}", "libtenken.so"], top)
    return top / "src" / "libtenken.so"


def _run(command: list[str], folder: Path) -> None:
    done = processes.run(command, what=f"{command[0]} of HDF5", cwd=folder)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "not a word").splitlines()[-1]
        raise ToolchainError(f"HDF5: {command[0]} failed: {last}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m toolchains.hdf5", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    try:
        print(make(given.folder.resolve()))
    except (ToolchainError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
