"""A cluster that nobody has described: `tenken systems new`, and what then runs between its nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import records as archive
from tenken.paths import ROOT
from tests.cluster.minislurm import MiniSlurm
from tests.programs.conftest import mpi, mpi_build  # noqa: F401 -- fixtures

pytestmark = [pytest.mark.slurm, pytest.mark.build, pytest.mark.xdist_group("slurm")]


class Site:
    """A checkout that knows no machine, on a login node with an MPI."""

    def __init__(self, root: Path, slurm: MiniSlurm, mpi_env: dict[str, str]) -> None:
        self.root = root
        for name in ("src", "checks", "config", "scripts", "tenken", "pyproject.toml"):
            (root / name).symlink_to(ROOT / name)
        (root / "systems").mkdir()
        (root / "systems" / "hardware.yaml").symlink_to(ROOT / "systems" / "hardware.yaml")
        kept = {k: v for k, v in mpi_env.items() if not k.startswith(("TENKEN_", "RFM_", "SLURM_"))}
        path = [str(Path(sys.executable).parent), mpi_env["PATH"], "/usr/sbin"]
        self.environment = {
            **kept, **slurm.environment, "PATH": os.pathsep.join(path), "TENKEN_ROOT": str(root),
            "TENKEN_ARCHIVE": str(root / "perflogs"), "TENKEN_LOCKS": os.environ["TENKEN_LOCKS"],
            "RFM_CONFIG_PATH": "config", "RFM_COLORIZE": "n",
            # more ranks than cores, beside other tests: one that waits for another must not hold a core
            "OMPI_MCA_pml": "ob1", "OMPI_MCA_mpi_yield_when_idle": "1",
        }  # fmt: skip

    def __call__(self, *words: str) -> subprocess.CompletedProcess[Any]:
        return subprocess.run(
            words, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False, timeout=600
        )


@pytest.fixture
def site(slurm: MiniSlurm, mpi: dict[str, str], mpi_build: Path) -> Iterator[Site]:  # noqa: F811
    """Below the checkout, as deep as `mpi_build`: what that has compiled comes out of the cache."""
    root = ROOT / ".cache" / f"tests-described-{os.getpid()}"
    root.mkdir(parents=True)
    yield Site(root, slurm, mpi)
    shutil.rmtree(root)


def test_a_cluster_that_is_described_by_looking_is_measured_between_its_nodes(site):
    """No hand edit but a name."""
    done = site("tenken", "systems", "new", "four", "--scheduler", "slurm")
    assert done.returncode == 0 and "seen: partition gpu: 4 nodes, 16 cores" in done.stdout, done.stdout + done.stderr
    assert site("tenken", "systems", "validate", "four").stdout.startswith("systems/four.yaml: ok")
    listed = site("reframe", "-c", "checks", "-l", "--system", "four:gpu", "--mode", "quick").stdout
    assert all(f"- {check} /" in listed for check in ("MpiHostBetweenNodes", "MpiHost", "HpcgHostRanks")), listed
    done = site(
        "reframe", "-c", "checks", "-r", "--system", "four:gpu", "--mode", "quick", "-n", "^MpiHostBetweenNodes$"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = archive.records(site.root / "perflogs")
    assert (record.verdict, len(set(record.nodes))) == ("RECORDED", 2), record.findings
    assert record.result.parameters["nodes"] == 2
    assert {name.split(".")[0] for name in record.judgement.judged} >= {"latency", "bandwidth", "allreduce"}
    assert set(record.result.placement.nodes) == set(record.nodes)
