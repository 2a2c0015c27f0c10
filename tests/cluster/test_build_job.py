"""`build: job`: programs are compiled in a job on a compute node, and the checks run what it built."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.paths import ROOT
from tests.cluster.checkout import Checkout
from tests.cluster.minislurm import MiniSlurm
from tests.cluster.standins.cluster import Cluster
from tests.support.builds import after_host_build
from tests.support.oracles import small_caches

pytestmark = [pytest.mark.slurm, pytest.mark.build, pytest.mark.xdist_group("slurm builds")]

SYSTEM = """\
title: A cluster that compiles on its nodes
status: test
environments:
  # all nodes are this host, where another test may measure for minutes beside compilers
  host: {{features: [openmp], cc: gcc, cxx: {cxx}, prepare: ["export TENKEN_LOCK_SECONDS=300 {small}"]}}
partitions:
  cpu:
    scheduler: {scheduler}
    launcher: local
    access: {access}
    environments: [host]
    build: job
    patience: {{pending: 00:02:00, blocked: 00:00:10, silence: 00:00:30, output: 00:00:10}}
    node: {{architecture: {architecture}, count: 4}}
"""
ACCESS = {
    "slurm": '["--partition=gpu", "--account=test"]',
    "pbs": '["-q regular-g", "-W group_list=gz00", "-j oe"]\n    select: "mpiprocs={num_tasks_per_node}"',
}


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Callable[..., Checkout]]:
    root = ROOT / ".cache" / f"tests-build-job-{os.getpid()}"
    root.mkdir(parents=True)
    after_host_build()
    small = " ".join(f"{name}={value}" for name, value in small_caches(tmp_path).items())

    def make(scheduler: str, cluster: dict[str, str], cxx: str = "g++") -> Checkout:
        made = Checkout(root, cluster, {**os.environ, **cluster})
        text = SYSTEM.format(
            scheduler=scheduler, access=ACCESS[scheduler], cxx=cxx, architecture=os.uname().machine, small=small
        )  # fmt: skip
        (root / "systems" / "nodes.yaml").write_text(text)
        done = made("tenken", "systems", "validate", "nodes")
        assert done.stdout.startswith("systems/nodes.yaml: ok"), done.stdout + done.stderr
        return made

    yield make
    shutil.rmtree(root)


#: A small program, and one that comes first and is built by a separate job.
BOTH = ("checks", "-n", "^(Daxpy|StreamHost)$")


def session(site: Checkout, *checks: str) -> tuple[list[archive.Record], str]:
    """Its archived records, and its output."""
    done = site("reframe", "-r", "--system", "nodes", "--mode", "quick", "-c", *checks)
    return list(archive.records(site.root / "perflogs")), done.stdout + done.stderr


def test_slurm_compiles_on_a_node_what_the_checks_run(checkout, slurm: MiniSlurm):
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    site = checkout("slurm", slurm.environment)
    records, said = session(site, *BOTH)
    # next to other tests a measurement may be INVALID and repeated; its program ran and was verified either way
    assert {one.check for one in records} == {"Daxpy", "StreamHost"}, said
    assert {one.verdict for one in records} <= {"PASS", "RECORDED", "INVALID"}, said
    assert all(one.result and one.result.status == "ok" and one.nodes[0].startswith("nid") for one in records), said
    told = slurm.slurm("sacct", "-n", "-X", "-P", "-o", "JobName%60,NodeList,State", "-S", since).splitlines()
    jobs = {
        name.split("_")[2]: (node, state)
        for name, node, state in (line.split("|") for line in told if "_build_" in line)
    }
    assert jobs.keys() == {"BuildFirst", "BuildPrograms"}, told
    assert all(node.startswith("nid") and state == "COMPLETED" for node, state in jobs.values()), told


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_a_compiler_that_nodes_lack_is_named(checkout, scheduler, request, tmp_path):
    """On PBS standard output and error of the job are one file."""
    if scheduler == "slurm":
        cluster = request.getfixturevalue("slurm").environment
    else:
        cluster = Cluster(tmp_path / "cluster").create("pbs", ("qsub", "qstat", "qdel", "pbsnodes"))
    records, said = session(checkout(scheduler, cluster, cxx="/opt/nowhere/g++"), "checks/daxpy.py")
    assert [(one.check, one.verdict) for one in records] == [("Daxpy", "FAIL")], said
    (reason,) = re.findall(r"Reason: (.*)", said)
    assert "the build failed with exit status 1: " in reason and "/opt/nowhere/g++" in reason, reason


def test_a_node_that_does_not_see_the_stage_folder_builds_nothing_and_is_named(checkout, tmp_path):
    cluster = Cluster(tmp_path / "cluster").create("pbs", ("qsub", "qstat", "qdel", "pbsnodes"), unseen="lost")
    records, said = session(checkout("pbs", cluster), "checks/daxpy.py")
    assert [(one.check, one.verdict) for one in records] == [("Daxpy", "FAIL")], said
    assert re.search(r"the build did not run: node mg0001 does not see /\S+BuildPrograms", said), said
