"""A cluster without a description: `tenken systems new`, and what then runs between its nodes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.paths import ROOT
from tests.cluster.checkout import Checkout
from tests.cluster.minislurm import MiniSlurm
from tests.programs.conftest import mpi, mpi_build  # noqa: F401 -- fixtures
from tests.support.builds import in_venv

pytestmark = [pytest.mark.slurm, pytest.mark.build, pytest.mark.xdist_group("slurm builds")]


@pytest.fixture
def site(slurm: MiniSlurm, mpi: dict[str, str], mpi_build: Path) -> Iterator[Checkout]:  # noqa: F811
    """Below the checkout, with the folders of `mpi_build`, so that ccache has its objects."""
    root = ROOT / ".cache" / f"tests-described-{os.getpid()}"
    root.mkdir(parents=True)
    checkout = Checkout(root, slurm.environment, in_venv(root, mpi))
    # more ranks than cores, next to other tests: a waiting rank must not hold a core
    checkout.environment |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    yield checkout
    shutil.rmtree(root)


def test_a_cluster_that_is_described_by_looking_is_measured_between_its_nodes(site):
    """Nothing is edited by hand except a name."""
    done = site("tenken", "systems", "new", "four", "--scheduler", "slurm")
    assert done.returncode == 0 and "found: partition gpu: 4 nodes, 16 cores" in done.stdout, done.stdout + done.stderr
    assert site("tenken", "systems", "validate", "four").stdout.startswith("systems/four.yaml: ok")
    quick = ("--system", "four:gpu", "--mode", "quick")
    listed = site("reframe", "-c", "checks", "-l", *quick).stdout
    assert all(f"- {check} /" in listed for check in ("MpiHostBetweenNodes", "MpiHost", "HpcgHost")), listed
    # the session reads one file of checks
    done = site("reframe", "-c", "checks/links.py", "-r", *quick, "-n", "^MpiHostBetweenNodes$")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = archive.records(site.root / "perflogs")
    assert (record.verdict, len(set(record.nodes))) == ("RECORDED", 2), record.findings
    assert record.result.parameters["nodes"] == 2
    assert {name.split(".")[0] for name in record.judgement.judged} >= {"latency", "bandwidth", "allreduce"}
    assert set(record.result.placement.nodes) == set(record.nodes)
