"""Debian packages that some tests need, installed if root may.

    python -m tests.support.debian slurm|hpcc|foreign|browser|engine

installs one of the sets below.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tenken.paths import ROOT

#: A real Slurm with accounting, and an MPI that its launcher starts.
SLURM = (
    "slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "munge",
    "libpmix2", "mariadb-server", "mariadb-client", "openmpi-bin",
)  # fmt: skip
HPCC = ("hpcc",)
#: Third-party programs that examples/foreign measures.
FOREIGN = ("fio", "stress-ng")
#: A container engine that starts without a daemon.
ENGINE = ("podman", "runc", "conmon")
BROWSER = ("chromium", "fonts-dejavu-core", "poppler-utils")


def need(*packages: str) -> None:
    """Install what is missing of `packages`. Without root the test is skipped; in CI (and as root) it fails."""
    done = subprocess.run(["sh", "scripts/debian.sh", *packages], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and os.geteuid() and not {"CI", "TENKEN_CI"} & os.environ.keys():
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    sets = {"slurm": SLURM, "hpcc": HPCC, "foreign": FOREIGN, "browser": BROWSER, "engine": ENGINE}
    if len(sys.argv) != 2 or sys.argv[1] not in sets:
        sys.exit(f"usage: python -m tests.support.debian {'|'.join(sets)}")
    sys.exit(subprocess.run(["sh", "scripts/debian.sh", *sets[sys.argv[1]]], cwd=ROOT, check=False).returncode)
