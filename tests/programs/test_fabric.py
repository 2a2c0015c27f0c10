"""Pairs of nodes, measured by the lines of a campaign's jobs with mpi_p2p over TCP between four nodes with a network
each: in a healthy fabric no node is named, and each planted fault is named with its node and port.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenken.campaign import groupjobs, tournament
from tenken.campaign.file import Between, Campaign
from tenken.campaign.queue import JobScript, Limits, Queue, Seen
from tenken.commands import campaign_queues
from tenken.machines import loader
from tests.cluster.conftest import slurm, started  # noqa: F401
from tests.cluster.minislurm import MiniSlurm
from tests.support.fabric import Fabric

pytestmark = [pytest.mark.build, pytest.mark.slow]

LEAVES = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
PORT = "sys/class/infiniband/mlx5_0/ports/1"


class Here:
    """A queue that runs each job at once, in a shell of this host."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.number = 0

    def script(self, job: JobScript) -> str:
        return "\n".join(job.commands)

    def submit(self, path: Path) -> str:
        self.number += 1
        with path.with_suffix(".out").open("w") as out:
            subprocess.run(["bash", str(path)], stdout=out, stderr=subprocess.STDOUT, env=self.environment, timeout=120)
        return str(self.number)

    def states(self, jobs: list[str]) -> dict[str, Seen]:
        return {job: Seen(ended=True) for job in jobs}

    def tagged(self, _: str) -> dict[str, str]:
        return {}

    def cancel(self, _: str) -> None: ...

    def limits(self) -> Limits:
        return Limits()


def counts(fabric: Fabric, node: str, **counted: int) -> None:
    """The port of a node, with these counters."""
    files = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    files |= {f"counters/{name}": "0" for name in ("link_downed", "symbol_error", "port_rcv_errors")}
    files |= {f"counters/{name}": str(value) for name, value in counted.items()}
    for name, value in files.items():
        file = fabric.sysfs(node) / PORT / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with Fabric(tmp_path_factory.mktemp("fabric"), LEAVES) as one:
        for node in LEAVES:
            counts(one, node)
        yield one


Play = Callable[..., tuple[tournament.Verdict, groupjobs.PairJobs]]


@pytest.fixture
def play(fabric: Fabric, mpi_build: Path, mpi: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """One tournament: who is named, and the jobs that ran."""
    return player(fabric, mpi_build, mpi, tmp_path, monkeypatch)


def player(
    fabric: Fabric, mpi_build: Path, mpi: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    cluster: MiniSlurm | None = None,
) -> Play:  # fmt: skip
    environment = {**mpi, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    environment["OMPI_MCA_mpi_yield_when_idle"] = "1"  # there are fewer cores than ranks
    monkeypatch.setattr(groupjobs, "PAIR_BYTES", "16Ki" if not fabric.rails else "256Ki")
    for window in ("WINDOW_BYTES", "PAIR_WINDOW"):
        monkeypatch.setattr(groupjobs, window, "32Ki" if not fabric.rails else "512Ki")
    # on a host with a load of 12, healthy links of this emulation differ by 40 % in bandwidth, and twice in latency;
    # what is planted is a fifth, and twenty times; rails have no relay, so the host's scheduling is their latency
    monkeypatch.setattr(tournament, "SLOW", {"bandwidth": 0.6, "latency": 6.0 if not fabric.rails else 1e3})
    monkeypatch.setattr(tournament, "SIGMAS", 0.0)

    def run(
        repetitions: int = 10, rail: str = "", ucx: bool = False, references: dict[str, float] | None = None
    ) -> tuple[tournament.Verdict, groupjobs.PairJobs]:
        launch, launch_pair = fabric.launchers(ucx)
        between = Between("leaf", program=str(mpi_build / "bin/mpi_p2p"), repetitions=repetitions)
        leaves = fabric.leaf_of
        campaign = Campaign("c", "minislurm" if cluster else "local", "gpu", tuple(leaves), 60.0, between=between)
        queue: Queue = Here(environment)
        if cluster:
            for name, value in {**cluster.environment, **environment}.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("PATH", "/usr/sbin", prepend=os.pathsep)
            queue = campaign_queues.of(campaign, loader.load("minislurm").expand(os.environ).partition("gpu"))
        jobs = groupjobs.PairJobs(
            campaign, tmp_path / str(time.monotonic_ns()), queue, launch, print, late=0.0, poll=0.3,
            sleep=time.sleep if cluster else lambda s: None, launch_pair=launch_pair, rail=rail,
        )  # fmt: skip
        # the round of all nodes at once names no node, and is left out
        isolated = [one for one in tournament.plan(leaves) if one[0].kind != tournament.LOADED]
        answers = [answer for one in isolated for answer in jobs.play(one)]
        for meeting in tournament.repeated(answers, leaves, references):
            answers = tournament.better(answers, jobs.play([meeting]))
        return tournament.accuse(answers, leaves, references), jobs

    return run


def expected(fabric: Fabric) -> dict[str, float]:
    """GB/s of a link by its rate, as a site's system file has them: of two pairs of a leaf, a host under load may slow
    down the healthy one too, and the better half of two is one."""
    return dict.fromkeys(("within", "across"), fabric.healthy / 8e3)


def test_a_healthy_fabric_names_nobody_and_all_nodes_at_once_are_measured(play: Play) -> None:
    found, jobs = play()
    assert (found.nodes, found.pairs, found.leaves) == ({}, {}, [])
    assert not [one.faults() for one in jobs.changes() if one.faults()]
    assert set(found.levels) == {"within", "across"}
    together = jobs.all_at_once(LEAVES)
    assert set(together.bisection) == {"opposite", "neighbours", "random1", "random2"}
    # whether the load delays them is left to real links: here all share two cores
    assert together.incast and set(together.victim) == {"none", "incast"} and min(together.victim.values()) > 0


@contextlib.contextmanager
def meanwhile(act: Callable[[int], None], period: float = 0.05) -> Iterator[None]:
    """Calls `act(0)`, `act(1)`, ... until the block ends."""
    over = threading.Event()

    def run() -> None:
        number = 0
        while not over.wait(period):
            act(number)
            number += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_link_at_a_fifth_of_its_rate_and_a_port_that_counts_errors_are_named(play: Play, fabric: Fabric) -> None:
    fabric.rate("n3", fabric.healthy / 5)
    try:
        with meanwhile(lambda number: counts(fabric, "n2", link_downed=number), 0.2):
            found, jobs = play(references=expected(fabric))
    finally:
        fabric.heal("n3")
        counts(fabric, "n2")
    assert set(found.nodes) == {"n3"} and not found.pairs, (found.nodes, found.pairs)
    bad = {(one.node, one.port) for one in jobs.changes() if one.faults()}
    assert bad == {("n2", "mlx5_0/1")}


@pytest.mark.xdist_group("slurm")
def test_on_slurm_a_slow_link_and_a_port_that_counts_errors_are_named(
    slurm: MiniSlurm,  # noqa: F811
    mpi_build: Path,
    mpi: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The jobs of a tournament in Slurm's queue, on its four nodes, each with a network of its own."""
    leaves = {f"nid{i}": LEAVES[f"n{i}"] for i in range(1, 5)}
    (folder := tmp_path / "fabric").mkdir()
    with Fabric(folder, leaves) as fabric:
        fabric.rate("nid3", fabric.healthy / 5)
        with meanwhile(lambda number: counts(fabric, "nid2", link_downed=number), 0.2):
            found, jobs = player(fabric, mpi_build, mpi, tmp_path, monkeypatch, slurm)(references=expected(fabric))
    assert set(found.nodes) == {"nid3"} and not found.pairs, (found.nodes, found.pairs)
    bad = {(one.node, one.port) for one in jobs.changes() if one.faults()}
    assert bad == {("nid2", "mlx5_0/1")}


def test_a_killed_and_a_stopped_rank_cost_their_pairs_alone(
    play: Play, fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that they run: n1 and n2 lose one rank, and one rank of n3 and n4 stops."""
    monkeypatch.setattr(groupjobs, "PAIR_S", 15)
    monkeypatch.setattr(tournament, "repeated", lambda *_: [])
    within: list[int] = []

    def act(_: int) -> None:
        # the pairs within leaves come first, both at once
        for node, number in (("n2", signal.SIGKILL), ("n4", signal.SIGSTOP)):
            for pid in fabric.ranks(node, "mpi_p2p") if len(within) < 2 else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                within.append(pid)

    with meanwhile(act):
        found, _ = play()
    assert not found.nodes, found.nodes
    assert set(found.pairs) == {("n1", "n2"), ("n3", "n4")}
    assert "ended with status" in found.pairs["n1", "n2"] and "hung: no answer in 15 s" in found.pairs["n3", "n4"]
    assert found.levels["across"][1] == 4


@pytest.mark.parametrize("planted", [{"delay_ms": 60}, {"loss": 0.3}], ids=["delay", "loss"])
def test_a_late_link_and_one_that_loses_packets_are_named(
    planted: dict[str, float], play: Play, fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a pair whose connection waits for ever longer has failed, too; one that is late ends, on a loaded host as well
    monkeypatch.setattr(groupjobs, "PAIR_S", 15 if "loss" in planted else 60)
    monkeypatch.setattr(tournament, "repeated", lambda *_: [])
    fabric.relay("n2", **planted)
    try:
        for _ in range(1 if "loss" in planted else 4):
            found, _ = play(repetitions=5)
            assert found.nodes or found.pairs
            assert set(found.nodes) <= {"n2"} and all("n2" in pair for pair in found.pairs), (found.nodes, found.pairs)
            # on a loaded host another pair may be late as well, and then those of the node are not slow enough
            if found.nodes:
                return
    finally:
        fabric.heal("n2")
    assert "loss" in planted, "what is lost differs by pair, but each is late"


def test_each_rail_is_measured_alone_and_the_ports_prove_which_one(
    mpi_build: Path, mpi: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two interfaces of each node, chosen by UCX_NET_DEVICES."""
    with Fabric(tmp_path, LEAVES, rate=40, rails=["eth1", "eth2"]) as fabric:
        run = player(fabric, mpi_build, mpi, tmp_path, monkeypatch)
        fabric.rate("n3", 8, "eth2")
        for rail, named in (("eth1", set()), ("eth2", {"n3"})):
            found, jobs = run(repetitions=3, rail=rail, ucx=True, references=expected(fabric))
            assert set(found.nodes) == named and not found.pairs, (rail, found.nodes, found.pairs)
            assert not jobs.carried(), [one.text for one in jobs.carried()]
            on = {one.port: one.traffic["sent_bytes"] for one in jobs.changes() if one.node == "n1"}
            assert on[rail] > 9 * sum(size for port, size in on.items() if port != rail), on
        fabric.heal("n3")
        # an MPI without UCX ignores the choice
        monkeypatch.setattr(
            tournament, "plan", lambda _: [[tournament.Meeting("within", ("leaf1",), ("n1", "n2"), ((("n1", "n2"),),))]]
        )
        _, jobs = run(repetitions=3, rail="eth1", ucx=False)
        wrong = {one.node: one.text for one in jobs.carried()}
        assert set(wrong) == {"n1", "n2"}, wrong
        # a query for an address is some 10 bytes
        assert all(
            re.search(r"rail eth1 was chosen; it carried (0|\de-0[89]) GB; eth0", one) for one in wrong.values()
        ), wrong
