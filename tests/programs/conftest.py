"""Builds src/ once per session, and runs its programs."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenken.paths import ROOT
from tests.support.builds import after_host_build, build, checked, configure, host_build, in_venv, locked
from tests.support.documents import completed
from tests.support.oracles import Clocked, compiled, small_caches


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """A build with everything that needs no GPU: OpenACC on the host, unit tests, warnings as errors."""
    return host_build()


@dataclass
class Outcome:
    """The result of one run of a program."""

    code: int
    stdout: str
    stderr: str
    document: dict[str, Any] | None


@pytest.fixture(scope="session")
def small_cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which programs find caches of 24 MiB."""
    return small_caches(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def with_small_caches(small_cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No array of these tests is larger than necessary."""
    for name, value in small_cache.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def run(build_dir: Path, tmp_path: Path) -> Callable[..., Outcome]:
    """run("stream", "--repetitions", "3") runs a program with --json; its result must be readable."""
    return runner(build_dir / "bin", tmp_path)


def runner(programs: Path, folder: Path) -> Callable[..., Outcome]:
    """Like the fixture `run`, for programs of any folder."""

    def run_program(program: str, *arguments: str, **options: Any) -> Outcome:
        file = folder / "document.json"
        file.unlink(missing_ok=True)
        command = [str(programs / program), "--json", str(file), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
        assert not (folder / "document.json.tmp").exists()
        document = None
        if file.exists():
            text = file.read_text()
            json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
            document = completed(text)
        return Outcome(done.returncode, done.stdout, done.stderr, document)

    return run_program


@pytest.fixture(scope="session")
def clock_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that records every clock reading of a program."""
    return compiled(tmp_path_factory.mktemp("clock"), "recorder.c")


@pytest.fixture
def clocked(build_dir: Path, clock_log: Path, tmp_path: Path) -> Clocked:
    """clocked("stream", "--repetitions", "3") runs a program: its document, and the clock readings behind it."""
    return Clocked(build_dir / "bin", clock_log, tmp_path)


@pytest.fixture(scope="session")
def mpi() -> dict[str, str]:
    """The environment with an MPI: an installed one, else the wheel's, fetched once into .cache."""
    if (
        subprocess.run(
            ["sh", "-c", ". scripts/mpi.sh; tenken_has_mpi"], cwd=ROOT, env={**os.environ, "TENKEN_NO_MPI": "1"}
        ).returncode
        == 0
    ):
        return dict(os.environ)
    venv = ROOT / ".cache" / "tests-mpi"
    file = venv / "bin" / "tenken-mpi.env"
    venv.mkdir(parents=True, exist_ok=True)
    with (venv / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.is_file():
            (venv / "bin").mkdir(exist_ok=True)
            checked([sys.executable, "-m", "toolchains.mpi", str(venv)])
    told = subprocess.run(["sh", "-c", f". '{file}'; env -0"], capture_output=True, text=True, check=True).stdout
    return dict(entry.split("=", 1) for entry in told.split("\0") if "=" in entry)


@pytest.fixture(scope="session")
def mpi_build(mpi: dict[str, str]) -> Path:
    """A build with only that MPI; the lock keeps parallel workers apart."""
    after_host_build()
    # the folders of a checkout, so that ccache has its objects for a checkout with that MPI
    root = ROOT / ".cache" / "tests-mpi-build"
    folder = root / ".build" / "host"
    with locked(root), pytest.MonkeyPatch.context() as patch:
        for name, value in in_venv(root, mpi).items():
            patch.setenv(name, value)
        (root / "src").unlink(missing_ok=True)
        (root / "src").symlink_to(ROOT / "src")
        options = ("-DTENKEN_WERROR=ON", "-DTENKEN_MPI=ON", "-DTENKEN_TESTS=OFF")
        configure(folder, *options, source=root / "src")
        build(folder, *os.environ.get("TENKEN_TEST_TARGETS", "").split())
    return folder


@pytest.fixture(scope="session")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with which a rank that waits sleeps."""
    return compiled(tmp_path_factory.mktemp("patient"), "patient.c")


@pytest.fixture
def run_ranks(mpi_build: Path, mpi: dict[str, str], patient: Path, tmp_path: Path) -> Callable[..., Outcome]:
    """run_ranks("mpi_p2p", 4, "--tests", "latency") runs a program on 4 ranks."""

    def run_program(program: str, ranks: int, *arguments: str, **more: str) -> Outcome:
        file = tmp_path / "document.json"
        file.unlink(missing_ok=True)
        env = {**mpi, "OMP_NUM_THREADS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        env |= {
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            **more,
            "LD_PRELOAD": f"{more.get('LD_PRELOAD', '')} {patient}",
        }
        command = ["mpirun", "-n", str(ranks), str(mpi_build / "bin" / program), "--json", str(file), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
        document = completed(file.read_text()) if file.exists() else None
        return Outcome(done.returncode, done.stdout, done.stderr, document)

    return run_program
