"""The node check as Prolog, Epilog and HealthCheckProgram of a real Slurm, with the installed hooks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import nodecheck
from tests.cluster.conftest import MiniSlurm
from tests.cluster.nodecheck import Wired
from tests.examples.test_node import NODE

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

NODES = [f"nid{number}" for number in range(1, 5)]
_CONF = """\
Prolog={hooks}/slurm-prolog
PrologFlags=Alloc
Epilog={hooks}/slurm-epilog
HealthCheckProgram={hooks}/slurm-health
HealthCheckInterval={seconds}
"""
#: A long interval, so that the health check runs only when a node's daemon starts.
SELDOM, OFTEN = 3000, 2


class Cluster:
    """The tests' Slurm with the hooks installed."""

    def __init__(self, slurm: MiniSlurm, folder: Path) -> None:
        self.slurm, self.nodes = slurm, Wired(folder)
        self.before = slurm.conf.read_text()
        self.hooks = folder / "hooks"

    def wire(self) -> None:
        """As install.sh does it, below another folder."""
        self.hooks.mkdir(parents=True)
        python = self.hooks / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -I {nodecheck.__file__} {self.nodes.folder} "$@"\n')
        python.chmod(0o755)
        for name in ("node-check", "slurm-prolog", "slurm-epilog", "slurm-health"):
            text = (NODE / name).read_text().replace("/opt/tenken/bin/python", str(python))
            (self.hooks / name).write_text(text.replace("/opt/tenken/hooks", str(self.hooks)))
            (self.hooks / name).chmod(0o755)
        self.nodes.create(NODES, self.slurm.conf, share=0.25)
        self.restart(_CONF.format(hooks=self.hooks, seconds=SELDOM))

    def restart(self, added: str) -> None:
        """Restarts all daemons, with lines added to the configuration."""
        self.slurm.stop_controller(signal.SIGTERM)
        self.slurm.conf.write_text(self.before + added)
        self.slurm.start_controller()
        for name in NODES:
            self.slurm.restart_node(name)
        wait(lambda: self.slurm.idle() == len(NODES), lambda: self.slurm.slurm("sinfo", "-N", "-l"))

    def submit(self, node: str, command: str = "true") -> str:
        """The number of a job with all GPUs of a node."""
        said = self.slurm.slurm(
            "sbatch", "--parsable", "-p", "gpu", "-w", node, "--gres=gpu:4", "-o", "/dev/null", "--wrap", command
        )
        assert said.isdigit(), said
        return said

    def job(self, number: str) -> str:
        """State and reason of a job."""
        return self.slurm.slurm("squeue", "-h", "-j", number, "-t", "all", "-o", "%T %r")

    def ends(self, number: str, state: str = "COMPLETED") -> None:
        wait(lambda: self.job(number).startswith(state), lambda: f"{self.job(number)}: {self.drained()}")

    def drained(self) -> dict[str, str]:
        """Nodes that take no jobs, with the reason."""
        lines = self.slurm.slurm("sinfo", "-h", "-N", "-p", "gpu", "-O", "NodeHost:20,StateLong:20,Reason:200")
        found = [(line[:20].strip(), line[20:40], line[40:].strip()) for line in lines.splitlines()]
        return {name: reason for name, state, reason in found if "drain" in state}

    def repaired(self, node: str) -> str:
        """What `node return` prints; its last line is executed if it contains "resume"."""
        done = subprocess.run(
            [self.hooks / "python", "-I", "-m", "tenken.node", "return", node],
            capture_output=True, text=True, check=False, env={},
        )  # fmt: skip
        if done.returncode == 0:
            command = done.stdout.rpartition("resume with: ")[2].split()
            assert self.slurm.slurm(*command) == ""
        return done.stdout + done.stderr


def wait(is_so: Callable[[], bool], otherwise: Callable[[], str], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, otherwise()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(started: MiniSlurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started.reset()
    found = Cluster(started, tmp_path_factory.mktemp("node") / "opt")
    try:
        found.wire()
        yield found
    finally:
        started.slurm("scontrol", "update", f"nodename={','.join(NODES)}", "state=resume")
        found.restart("")


def test_bad_nodes_are_drained_with_the_reason_repaired_and_returned(cluster: Cluster) -> None:
    nodes = cluster.nodes
    # each daemon's start ran a health check, whose readings are the good state
    assert all(status == 0 and "--drain" in words for name in NODES for words, status in nodes.calls(name))

    # the first job: prolog and epilog with the GPUs and the number from Slurm
    job = cluster.submit("nid1")
    cluster.ends(job)
    wait(lambda: len(nodes.calls("nid1")) == 3, lambda: str(nodes.calls("nid1")))
    (_, (prolog, _), (epilog, _)) = nodes.calls("nid1")
    for words in (prolog, epilog):
        assert words[words.index("--gpus") + 1] == "0,1,2,3" and words[words.index("--job") + 1] == job
    assert "--no-measure" in epilog and "--no-measure" not in prolog

    # an unknown state drains no node, and the job runs
    nodes.plant("nid2", driver="590.10")
    cluster.ends(cluster.submit("nid2"))
    assert {status for _, status in nodes.calls("nid2")} == {0, 2} and cluster.drained() == {}

    # prolog: the node is drained with our reason, the job is held and not lost
    nodes.plant("nid1", status=15)
    job = cluster.submit("nid1")
    wait(lambda: "nid1" in cluster.drained(), lambda: str(nodes.calls("nid1")))
    assert cluster.drained() == {"nid1": "tenken: gpu 3: lost: it does not answer the driver"}
    cluster.ends(job, "PENDING")
    # neither a restart of the daemon nor a check before the repair resumes it
    cluster.slurm.restart_node("nid1")
    wait(lambda: len(nodes.calls("nid1")) == 6, lambda: str(nodes.calls("nid1")))
    assert "1 of 3: tenken: gpu 3: lost" in cluster.repaired("nid1") and "nid1" in cluster.drained()
    nodes.plant("nid1")
    said = cluster.repaired("nid1")
    assert "good 3 times: resume with: scontrol update NodeName=nid1 State=RESUME" in said
    # Slurm starts a requeued job two minutes later
    cluster.slurm.slurm("scontrol", "release", job)
    cluster.slurm.slurm("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.ends(job)

    # epilog: processes left by a job
    job = cluster.submit("nid3", f"sed -i 's/{{}}/{{\"compute\":[4711]}}/' {nodes.folder}/nid3/plant.json")
    wait(lambda: "nid3" in cluster.drained(), lambda: str(nodes.calls("nid3")))
    assert cluster.drained() == {"nid3": "tenken: gpu 3: process 4711 left on it"}
    cluster.ends(job)
    nodes.plant("nid3")
    assert "resume with" in cluster.repaired("nid3")
    assert cluster.drained() == {}


def test_the_health_check_drains_a_full_disk_and_no_more_than_the_share(cluster: Cluster) -> None:
    nodes, slurm = cluster.nodes, cluster.slurm
    for name in NODES:
        nodes.plant(name)
    inside = ["nsenter", "--target", str(slurm._pid(slurm.dir / "pid" / "slurmd-nid4")), "--mount"]
    inside += [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    scratch = nodes.folder / "nid4" / "root" / "scratch"
    fill = f"mount -t tmpfs -o size=64k none {scratch} && cat /dev/zero > {scratch}/fill"
    done = subprocess.run([*inside, "sh", "-c", fill], capture_output=True, text=True, check=False)
    assert "No space left" in done.stderr, done
    every = _CONF.format(hooks=cluster.hooks, seconds=OFTEN)
    slurm.conf.write_text(cluster.before + every)
    slurm.slurm("scontrol", "reconfigure")
    wait(lambda: bool(cluster.drained()), lambda: str(nodes.calls("nid4")))
    assert cluster.drained() == {"nid4": "tenken: /scratch: 0.0 GiB free, expected 0"}

    # every node becomes bad, as after a bad update: the share of 4 nodes is one, which is already drained
    for name in NODES[:3]:
        nodes.plant(name, ecc=0, status=15)
    before = {name: len(nodes.calls(name)) for name in NODES}
    wait(lambda: all(len(nodes.calls(n)) > before[n] + 1 for n in NODES), lambda: str(before))
    assert list(cluster.drained()) == ["nid4"]
    job = cluster.submit("nid2")  # and the prolog drains none either
    cluster.ends(job)
    assert list(cluster.drained()) == ["nid4"]

    # a broken check drains no node
    (cluster.hooks / "python").write_text("#!/bin/sh\nexit 1\n")
    cluster.ends(cluster.submit("nid1"))
    assert list(cluster.drained()) == ["nid4"]
    assert not re.search("error", slurm.slurm("scontrol", "ping"))
