"""KvikIO and its dependencies, from wheels: ``python -m toolchains.kvikio 12 FOLDER`` prints the CMake option.

The wheels contain headers, libraries and CMake's own files; CMake 4.0 or newer reads these. A finished folder is used
again.
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

LOCK = Path(__file__).with_name("kvikio.lock")
#: Major versions of CUDA that there are wheels for.
CUDA_MAJORS = ("12", "13")


def make(cuda: str, folder: Path) -> str:
    """Unpack KvikIO for CUDA ``cuda`` into ``folder``; returns the value of CMake's option TENKEN_KVIKIO_ROOT.

    Raises ToolchainError.
    """
    if cuda not in CUDA_MAJORS:
        raise ToolchainError(f"CUDA {cuda} has no KvikIO here; allowed: {', '.join(CUDA_MAJORS)}")
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f".cuda-{cuda}"
    with processes.only_one(folder / ".lock"):
        if not done.is_file():
            target = Target(platform.machine(), f"3.{max(11, sys.version_info.minor)}")
            pins = wheels.select(wheels.read_lock(LOCK), [f"libkvikio-cu{cuda}", "rapids-logger"], target)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                for wheel in wheels.fetch(pins, target, Path(scratch)):
                    wheels.unpack(wheel, folder)
            done.touch()
    return f"{folder / 'libkvikio'};{folder / 'rapids_logger'}"


def main(arguments: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").splitlines()[0]
    return wheels.command("toolchains.kvikio", summary, CUDA_MAJORS, "-DTENKEN_KVIKIO_ROOT=", make, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
