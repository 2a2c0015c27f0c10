"""A toolkit that the driver cannot run is refused before anything is built; a missing one is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT


def tool(folder: Path, name: str, output: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    path.chmod(0o755)


def script(name: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", f"scripts/{name}"], cwd=ROOT, env={"PATH": f"{folder}:/usr/bin:/bin", **env}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def machine(folder: Path, driver: str, able: str, toolkit: str | None) -> None:
    tool(folder, "nvidia-smi", f"GPU 0: NVIDIA H200\n| Driver Version: {driver}   CUDA Version: {able} |")
    if toolkit:
        tool(folder, "nvcc", f"Cuda compilation tools, release {toolkit}, V{toolkit}.1")


@pytest.mark.parametrize(
    ("able", "toolkit", "refused"),
    [
        ("13.0", "13.0", False), ("13.0", "12.4", False), ("12.2", "12.9", False), ("12.2", "13.0", True),
        ("10.1", "10.2", True), ("10.2", "10.2", False), ("11.4", "12.4", True),
    ],
)  # fmt: skip
def test_a_toolkit_newer_than_the_driver_is_refused_naming_both(tmp_path, able, toolkit, refused):
    machine(tmp_path, "470.57.02", able, toolkit)
    done = script("driver.sh", tmp_path)
    assert done.returncode == int(refused), done.stderr
    if refused:
        assert f"driver 470.57.02 runs CUDA up to {able}, the toolkit is CUDA {toolkit}" in done.stderr


def test_a_toolkit_that_is_only_in_cuda_home_is_compared_too(tmp_path):
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    machine(tmp_path, "470.57.02", "12.2", None)
    tool(home / "bin", "nvcc", "Cuda compilation tools, release 13.0, V13.0.1")
    done = script("driver.sh", tmp_path, CUDA_HOME=str(home))
    assert done.returncode == 1 and f"the toolkit is CUDA 13.0 ({home}/bin/nvcc)" in done.stderr


def test_without_driver_or_compiler_nothing_is_said(tmp_path):
    assert script("driver.sh", tmp_path).returncode == 0
    assert script("nvcc.sh", tmp_path).stdout == ""


@pytest.mark.parametrize(("able", "release"), [("13.0", "13.0"), ("12.4", "12.4"), ("11.4", "12.4")])
def test_a_gpu_without_compiler_gets_the_release_of_its_driver(tmp_path, able, release):
    machine(tmp_path, "550.1", able, None)
    tool(tmp_path, "python", "unused")
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    done = script("nvcc.sh", tmp_path)
    assert done.stdout.strip() == f"-m toolchains.cuda_home {release} --components all"


def test_a_gpu_without_compiler_and_network_is_no_green_run(tmp_path):
    """The remedy is named; leaving the GPUs out must be requested."""
    machine(tmp_path, "580.1", "13.0", None)
    (tmp_path / "python").write_text("#!/bin/sh\necho 'cannot fetch nvidia-cuda-nvcc' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    done = script("nvcc.sh", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot fetch nvidia-cuda-nvcc" in done.stderr
    assert "install a CUDA toolkit (nvcc; Debian's package nvidia-cuda-toolkit)" in done.stderr
    assert "TENKEN_NO_CUDA=1" in done.stderr.splitlines()[-1]
    left_out = script("nvcc.sh", tmp_path, TENKEN_NO_CUDA="1")
    assert (left_out.returncode, left_out.stdout, left_out.stderr) == (0, "", "")


def test_a_gpu_with_compiler_is_left_alone(tmp_path):
    machine(tmp_path, "580.1", "13.0", "12.9")
    assert script("nvcc.sh", tmp_path).stdout == ""
