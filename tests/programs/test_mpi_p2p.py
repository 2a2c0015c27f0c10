"""mpi_p2p for real: ranks on this machine, buffers on the host, by the MPI that the suite brings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tenken.reframe import joblines
from tests.programs.conftest import Outcome

pytestmark = pytest.mark.build

QUICK = ("--repetitions", "5", "--warmup-seconds", "0", "--max-bytes", "4Ki", "--factor", "16")
TESTS = ["latency", "bandwidth", "bidirectional", "message_rate", "allreduce", "alltoall", "bcast"]


@pytest.fixture
def run(run_ranks: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """run(4, "--tests", "latency") on 4 ranks."""
    return partial(run_ranks, "mpi_p2p")


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_exchanges_between_real_ranks(run: Callable[..., Outcome], ranks: int) -> None:
    outcome = run(ranks, *QUICK, "--ranks", str(ranks))
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    document = outcome.document
    assert document is not None and document["status"] == "ok"
    assert document["placement"]["ranks"] == ranks == len(document["placement"]["nodes"])
    assert {metric["name"] for metric in document["metrics"]} == set(TESTS)
    assert all(metric["subject"] == {"ranks": ranks} and metric["count"] == 5 for metric in document["metrics"])
    assert {m["at"]["bytes"] for m in document["metrics"] if m["name"] == "latency"} == {1, 16, 256, 4096}
    assert all(check["passed"] for check in document["verification"]["checks"])
    assert len(document["verification"]["checks"]) == len(document["metrics"])
    assert document["build"]["mpi"] and document["path"]["rank1"].startswith(document["host"]["name"])
    assert outcome.stdout.count("mpi_p2p: ok") == 1, "one rank speaks"


@pytest.mark.parametrize("test", TESTS)
def test_one_flipped_bit_in_one_rank_is_seen(run: Callable[..., Outcome], test: str) -> None:
    outcome = run(3, *QUICK, "--tests", test, "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["status"] == "failed"
    assert outcome.document["reason"].startswith("verification: messages.ranks3.buffers=host.bytes=")
    assert f".metric={test}: error " in outcome.document["reason"]


def test_a_launcher_that_starts_fewer_ranks_fails(run: Callable[..., Outcome]) -> None:
    outcome = run(2, *QUICK, "--ranks", "4")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"] == "requested 4 ranks, MPI_Comm_size is 2"
    single = run(1, *QUICK, "--ranks", "4")
    assert single.document is not None and "does not match" in single.document["reason"]
    nodes = run(2, *QUICK, "--nodes", "2")
    assert nodes.document is not None and nodes.document["reason"] == "requested 2 nodes, the ranks run on 1"


def test_one_rank_is_waived(run: Callable[..., Outcome]) -> None:
    outcome = run(1, *QUICK)
    assert outcome.code == 3 and outcome.document is not None
    assert outcome.document["reason"].startswith("needs more ranks: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--window", "0"), "--window '0' is invalid; allowed: 1 to 4096"),
        (("--tests", "ping"), "--tests 'ping' is invalid; allowed: all, or distinct values of latency,"),
        (("--tests", "latency,latency"), "--tests 'latency,latency' is invalid; allowed: all"),
        (("--buffers", "device"), "--buffers 'device' is invalid; allowed: host in this build, which has no CUDA"),
        (("--buffers", "paper"), "--buffers 'paper' is invalid; allowed: a list of host, device, managed"),
        (("--partner", "2"), "--partner '2' is invalid; allowed: -1, or 1 to 1 with these ranks"),
        (("--window-bytes", "60G", "--max-bytes", "1Gi"), "--window-bytes '60G' is invalid; allowed: what fits"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(
    run: Callable[..., Outcome], arguments: tuple[str, ...], message: str
) -> None:
    outcome = run(2, *arguments)
    assert outcome.code == 2 and outcome.document is None
    assert f"mpi_p2p: {message}" in outcome.stderr
    assert outcome.stdout.count("mpi_p2p: ") == 0


def test_every_rank_is_told_by_its_place(run: Callable[..., Outcome]) -> None:
    outcome = run(2, *QUICK, "--tests", "latency", UCX_NET_DEVICES="all")
    assert outcome.document is not None
    assert not [key for key in outcome.document["path"] if key.startswith("far.")]


def test_mpirun_starts_ranks_where_no_remote_shell_is(mpi: dict[str, str], tmp_path: Path) -> None:
    """Without these lines Open MPI ends with "plm_rsh_agent was set to a path that could not be found"."""
    places = [*mpi.get("PATH", os.environ["PATH"]).split(os.pathsep)]
    for tool in (tool for place in places if Path(place).is_dir() for tool in Path(place).iterdir()):
        if tool.name not in ("ssh", "rsh") and not (tmp_path / tool.name).exists():
            (tmp_path / tool.name).symlink_to(tool)
    lines = [*joblines.allow_root(), *joblines.without_ssh(), "mpirun --oversubscribe -np 2 echo started"]
    env = {**mpi, "PATH": str(tmp_path), "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    done = subprocess.run(["bash", "-c", "\n".join(lines)], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines().count("started") == 2, done.stdout + done.stderr


PATTERNS = ("--repetitions", "5", "--warmup-seconds", "0", "--tests", "none", "--pattern-bytes", "4Ki")


def test_patterns_of_all_ranks(run: Callable[..., Outcome], tmp_path: Path) -> None:
    """On one node each rank counts as a node: 0 meets 2 and 1 meets 3, then 0 meets 1 and 2 meets 3."""
    outcome = run(4, *PATTERNS, "--patterns", "all", "--window", "9", "--halves", "opposite,neighbours,7")
    document = outcome.document
    assert outcome.code == 0 and document is not None, outcome.stdout + outcome.stderr
    found = {(m["name"], m["at"].get("halves") or m["at"].get("load") or ""): m for m in document["metrics"]}
    assert list(found) == [
        ("bisection", "opposite"), ("bisection", "neighbours"), ("bisection", "random7"), ("incast", ""),
        ("victim", "none"), ("victim", "incast"), ("arrival", ""),
    ]  # fmt: skip
    # two pairs, both directions, a window of nine messages; three from each of three senders
    assert found["bisection", "opposite"]["counts"] == {"bytes": 2 * 2 * 9 * 4096}
    assert found["incast", ""]["counts"] == {"bytes": 3 * 3 * 4096}
    assert len(document["verification"]["checks"]) == len(found)


@pytest.mark.parametrize("pattern", ["bisection", "incast", "victim", "arrival"])
def test_one_flipped_bit_of_a_pattern_is_seen(run: Callable[..., Outcome], pattern: str) -> None:
    outcome = run(4, *PATTERNS, "--patterns", pattern, "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert f".metric={pattern}: error " in outcome.document["reason"]


def test_a_late_rank_is_seen_and_repetitions_last_as_long_as_asked(run: Callable[..., Outcome]) -> None:
    late = run(2, *PATTERNS, "--patterns", "arrival", "--inject-fault", "rank-late").document
    kept = run(2, *PATTERNS, "--patterns", "incast", "--repetition-seconds", "0.05").document
    assert late is not None and min(late["metrics"][0]["samples"]) > 5000  # us
    assert kept is not None
    seconds = [float(kept[key][14:16]) * 60 + float(kept[key][17:-1]) for key in ("started", "finished")]
    assert (seconds[1] - seconds[0]) % 3600 >= 5 * 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--patterns", "storm"), "--patterns 'storm' is invalid; allowed: all, or distinct values of bisection,"),
        (("--patterns", "victim"), "--patterns 'victim' is invalid; allowed: victim with four or more ranks"),
        (("--patterns", "bisection", "--halves", "-3"), "--halves '-3' is invalid; allowed: a list of opposite"),
    ],
)
def test_wrong_patterns_are_one_line(run: Callable[..., Outcome], arguments: tuple[str, ...], message: str) -> None:
    outcome = run(2, *PATTERNS, *arguments)
    assert outcome.code == 2 and message in outcome.stderr
