"""How the job script reads its host and GPUs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tenken.reframe import joblines


@pytest.mark.parametrize(("online", "cpus"), [
    ("0", 1), ("0-15", 16), ("0-3,8,10-11", 7), ("", None), ("all", None), ("0-", None), ("3-1000000000", None),
])  # fmt: skip
def test_cpus_are_those_that_the_kernel_has_online(online: str, cpus: int | None) -> None:
    host = f"TENKEN-HOST machine=m kernel=k online={online} memory_kib=8 cpu=c"
    reading = joblines.report(f"TENKEN-BEGIN token=t node=n time=1 job=none\n{host}\n").host
    assert reading.logical_cpus == cpus and reading.memory_bytes == 8192


SMI = """#!/bin/sh
case $1 in
-L) sleep 0.2; echo "GPU 0: NVIDIA H200 (UUID: GPU-1a)"; echo "GPU 1: NVIDIA H200 (UUID: GPU-2b)" ;;
*) echo "GPU-1a, 580.1, 00000000:1B:00.0, 96.00, Disabled, Enabled"
  echo "GPU-2b, 580.1, 00000000:2B:00.0, 96.00, [N/A], [N/A]" ;;
esac
"""  # fmt: skip


def run_script(folder: Path) -> joblines.JobReport:
    begin = joblines.begin(gpus=True, token="t", folder=str(folder))
    lines = ["sleep 60 > /dev/null & child=$!", *begin, "kill $child"]
    done = subprocess.run(
        ["sh", "-c", "\n".join(lines)], cwd=folder, capture_output=True, text=True, timeout=50, check=True,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
    )  # fmt: skip
    return joblines.report(done.stdout)


def test_all_gpus_are_read_before_the_command_begins(tmp_path: Path) -> None:
    """Both readings of nvidia-smi are awaited, but no other child of the job."""
    (tmp_path / "nvidia-smi").write_text(SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    read = run_script(tmp_path)
    assert len(read.gpus) == 2
    assert [(card.uuid, card.mig_enabled, card.ecc_enabled) for card in read.cards] == [
        ("GPU-1a", False, True), ("GPU-2b", None, None),
    ]  # fmt: skip


def test_a_failing_nvidia_smi_reads_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text('#!/bin/sh\necho "NVIDIA-SMI has failed"\nexit 9\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert run_script(tmp_path).cards == ()
