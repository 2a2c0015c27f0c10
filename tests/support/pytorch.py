"""A Python that has PyTorch: that of TENKEN_PYTORCH, otherwise one below `.cache`, made of PyPI's wheels.

PyPI has no build for hosts alone: with the libraries of CUDA it takes 4.5 GB and, on two cores, 50 s."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tenken.paths import ROOT

VERSION = "2.11.0"


def python() -> Path:
    named = os.environ.get("TENKEN_PYTORCH")
    if named:
        return Path(named)
    place = ROOT / ".cache" / "pytorch" / f"{VERSION}-{sys.version_info.major}.{sys.version_info.minor}"
    place.mkdir(parents=True, exist_ok=True)
    done = place / ".complete"
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_file():
            shutil.rmtree(place / "venv", ignore_errors=True)
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "-q", "--python", sys.executable, place / "venv"], check=True)
            to = ["--python", place / "venv" / "bin" / "python"]
            subprocess.run([*uv, "pip", "install", "-q", "--no-cache", *to, f"torch=={VERSION}"], check=True)
            done.touch()
    return place / "venv" / "bin" / "python"
