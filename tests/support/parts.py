"""The parts of `make test-all`: what each installs and tests. `make test` is all other tests.

    python -m tests.support.parts            what each part installs and shows
    python -m tests.support.parts --files    the files that contain a test of a part

A test belongs to a part by its mark (`pytest.mark.slurm`), or because it uses a fixture of the part.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tenken.paths import ROOT


@dataclass(frozen=True)
class Part:
    """`installs` names what comes from elsewhere; `fixtures` install it: a test that uses one belongs to the part."""

    installs: str
    shows: str
    fixtures: tuple[str, ...] = ()


NOTHING = "nothing"
PARTS = {
    "browser": Part("Debian's Chromium, poppler-utils and a font",
        "pages in a browser: scripts, print, accessibility, time to load", ("browser",)),
    "containers": Part("Debian's podman, runc and conmon", "checks in a container that a real engine starts",
        ("engine",)),
    "cuda": Part(
        "NVIDIA's wheels of CUDA 12.4 and 13.0, Debian's nvcc of 12.4, KvikIO",
        "every CUDA source compiled by 12.4, and compiled or read by 13.0; what programs count, with a double for GPUs",
    ),
    "dali": Part("the wheels of NVIDIA DALI", "its reader of samples, on the host"),
    "disks": Part(NOTHING, "sessions and nights on a disk that is full, in a mount namespace", ("small_disks",)),
    "foreign": Part("Debian's fio, stress-ng and hpcc; mpi4py's source", "programs of others, run by their checks",
        ("hpcc", "ports")),
    "fuzz": Part(NOTHING, "10,000 malformed inputs of every parser; C++ readers under sanitizers"),
    "hdf5": Part("Debian's source of HDF5, compiled", "snapshots past the page cache", ("direct_hdf5",)),
    "kit": Part("the wheels of a kit", "the kit, installed without a network"),
    "mpi": Part("an MPI of wheels, where there is none", "programs of several ranks", ("mpi", "mpi_build")),
    "nights": Part(NOTHING, "months of made-up nights, from the archive to the mail"),
    "plain": Part(NOTHING, "the programs without OpenMP and optimization, and a new folder among them"),
    "processors": Part(NOTHING, "what is statistical, as other processors round it"),
    "published": Part(NOTHING, "every published figure is of a job that its machine selects"),
    "release": Part("the tools of requirements-release.lock",
        "sdist, wheel and SBOM; the wheel in an empty environment"),
    "run": Part("a separate virtual environment", "a clone and its `make run`, from nothing"),
    "schedulers": Part(NOTHING, "faults of PBS, NQSV and Grid Engine, by stand-ins"),
    "sessions": Part(NOTHING,
        "ReFrame's own sessions: a first contact, job scripts of further systems, others' binaries by stand-ins"),
    "site": Part(NOTHING, "the documentation, built as a site"),
    "slurm": Part("Debian's Slurm, MariaDB, MUNGE and Open MPI", "a real Slurm of four nodes, and its faults",
        ("started",)),
    "training": Part("the wheels of PyTorch, with those of CUDA",
        "training steps on the host: fingerprints, and bits flipped in them", ("pytorch",)),
}  # fmt: skip

_OF_FIXTURE = {fixture: name for name, part in PARTS.items() for fixture in part.fixtures}


def of(marks: Iterable[str], fixtures: Iterable[str]) -> set[str]:
    """The parts of a test with these marks and fixtures; empty: it belongs to `make test`."""
    return {name for name in marks if name in PARTS} | {_OF_FIXTURE[name] for name in fixtures if name in _OF_FIXTURE}


def files() -> list[Path]:
    """The files that may contain a test of a part: `make test-all` imports no other."""
    fixtures = sorted({fixture for part in PARTS.values() for fixture in part.fixtures} | {"run_ranks"})
    words = re.compile(rf"\bmark\.(?:{'|'.join(PARTS)})\b|[(, \"](?:{'|'.join(fixtures)})[:,)\"]")
    return [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if words.search(file.read_text("utf-8"))]


def table() -> str:
    rows = [f"| `{name}` | {part.installs} | {part.shows} |" for name, part in PARTS.items()]
    return "\n".join(["| part | installs | shows |", "|---|---|---|", *rows])


if __name__ == "__main__":
    if sys.argv[1:] == ["--files"]:
        print("\n".join(str(file.relative_to(ROOT)) for file in files()))
    else:
        print(table())
