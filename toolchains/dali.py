"""NVIDIA DALI and the imports of its readers, from wheels: ``python -m toolchains.dali 13 FOLDER`` prints TENKEN_DALI.

The folder must precede others in PYTHONPATH; nothing is installed. nvImageCodec and nvCOMP, which only its decoders
need, are left out. A finished folder is used again.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from toolchains import processes, wheels
from toolchains.processes import ToolchainError
from toolchains.wheels import Target

LOCK = Path(__file__).with_name("dali.lock")
#: Major versions of CUDA that there are wheels for; the CPU reader runs without a driver.
CUDA_MAJORS = ("12", "13")
#: Imports of DALI's Python modules.
IMPORTED = (
    "numpy", "astunparse", "gast", "libcst", "makefun", "nvtx", "optree", "packaging", "pyyaml", "six",
    "typing-extensions",
)  # fmt: skip


def make(cuda: str, folder: Path) -> Path:
    """Unpack DALI for CUDA ``cuda`` and the Python that runs this; returns the folder for PYTHONPATH.

    Raises ToolchainError.
    """
    if cuda not in CUDA_MAJORS:
        raise ToolchainError(f"CUDA {cuda} has no DALI here; allowed: {', '.join(CUDA_MAJORS)}")
    target = Target(platform.machine(), f"3.{sys.version_info.minor}")
    place = folder / f"cuda-{cuda}-python-{target.python}"
    place.mkdir(parents=True, exist_ok=True)
    done = place / ".complete"
    with processes.only_one(place / ".lock"):
        if not done.is_file():
            known = wheels.read_lock(LOCK)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                for names, at_once in ((IMPORTED, len(IMPORTED)), ((f"nvidia-dali-cuda{cuda}0",), 1)):
                    pins = wheels.select(known, names, target)
                    for wheel in wheels.fetch(pins, target, Path(scratch), at_once):
                        wheels.unpack(wheel, place)
            done.touch()
    return place


def main(arguments: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").splitlines()[0]
    return wheels.command("toolchains.dali", summary, CUDA_MAJORS, "TENKEN_DALI=", make, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
