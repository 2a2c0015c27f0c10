"""The stencil on the host for real: slabs of one process, and of MPI ranks, for any number of planes and block
length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.programs.conftest import Outcome

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--repetitions", "3", "--warmup-seconds", "0", "--phase-blocks", "2", "--steps", "10", "--ny", "30")
SMALL = (*QUICK, "--nx", "40", "--scaling", "strong")
PHASES = ["compute", "pack", "halo_node", "halo_net", "sync"]


def ok(outcome: Outcome) -> dict[str, Any]:
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    document = outcome.document
    assert document is not None and document["status"] == "ok"
    assert len(document["verification"]["checks"]) > 0
    return document


def test_a_run_is_whole(run: Run) -> None:
    document = ok(run("stencil", *SMALL, "--nz", "41", "--parts", "3", "--bt", "3"))
    names = [metric["name"] for metric in document["metrics"]]
    assert names == ["alone", "cells", "total", *PHASES, "efficiency", *["share"] * len(PHASES)]
    values = {metric["id"]: metric["value"] for metric in document["metrics"]}
    shares = [values[f"share.ranks3.exchange=host.phase={phase}"] for phase in PHASES]
    assert sum(shares) == pytest.approx(100, abs=5), "medians of shares"
    assert {metric["count"] for metric in document["metrics"] if metric["name"] in PHASES} == {2}
    assert document["path"]["flops_of_cell"] == 53
    (first, second) = document["verification"]["checks"]
    assert first["what"].startswith("7 steps of a small grid") and first["tolerance"] == 0
    assert second["what"].startswith("every cell one step after those before")


@pytest.mark.parametrize("points", ["27", "7"])
@pytest.mark.parametrize("parts", ["1", "2", "3", "4"])
def test_every_block_length_and_uneven_slabs_are_right(run: Run, parts: str, points: str) -> None:
    # 25 planes make slabs too thin to overlap from some bt on, 87 thick ones
    for bt in "12345":
        for planes in ("25", "87"):
            ok(run("stencil", *SMALL, "--nz", planes, "--parts", parts, "--bt", bt, "--points", points))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_do_what_slabs_of_one_process_do(run_ranks: Run, ranks: int) -> None:
    for bt, planes in (("1", "25"), ("2", "41"), ("3", "87"), ("4", "25"), ("5", "87")):
        document = ok(run_ranks("stencil", ranks, *SMALL, "--nz", planes, "--exchange", "mpi", "--bt", bt))
        assert document["placement"]["ranks"] == ranks
        assert document["path"]["slabs"] == ranks


def test_single_precision_and_padded_rows(run: Run) -> None:
    ok(run("stencil", *QUICK, "--nx", "37", "--nz", "12", "--parts", "2", "--bt", "2", "--precision", "single"))
    ok(run("stencil", *QUICK, "--nx", "131", "--nz", "12", "--exchange", "none"))


@pytest.mark.parametrize("fault", ["halo-stale", "halo-short", "halo-swapped", "cell-nan"])
@pytest.mark.parametrize("parts", ["2", "3"])
@pytest.mark.parametrize("bt", ["1", "3"])
def test_wrong_halos_are_seen(run: Run, fault: str, parts: str, bt: str) -> None:
    outcome = run("stencil", *SMALL, "--nz", "25", "--parts", parts, "--bt", bt, "--inject-fault", fault)
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: small.")


@pytest.mark.parametrize("fault", ["halo-stale", "halo-short", "halo-swapped", "cell-nan"])
def test_wrong_halos_between_ranks_are_seen(run_ranks: Run, fault: str) -> None:
    outcome = run_ranks("stencil", 3, *SMALL, "--nz", "40", "--exchange", "mpi", "--bt", "2", "--inject-fault", fault)
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: ")


def test_one_flipped_bit_is_seen(run: Run) -> None:
    outcome = run("stencil", *SMALL, "--nz", "25", "--parts", "2", "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert "error 0.000" in outcome.document["reason"]


@pytest.mark.parametrize(("arguments", "message"), [
        (("--points", "9"), "--points '9' is invalid; allowed: 7 or 27"),
    (("--bt", "13", "--nz", "25", "--parts", "2"),
        "--bt '13' is invalid; allowed: at most 12, the planes of the thinnest of 2"),
        (("--bt", "0"), "--bt '0' is invalid; allowed: 1 to 64"),
    (("--nz", "5", "--parts", "2", "--bt", "1"), "--nz '5' is invalid; allowed: at least 3 planes per slab, 6 in all"),
        (("--exchange", "p2p"), "--exchange 'p2p' is invalid; allowed: host, mpi or none with --backend host"),
    (("--exchange", "pigeon"), "--exchange 'pigeon' is invalid; allowed: distinct values of none,host,p2p,mpi,nccl"),
        (("--exchange", "host,none"), "--exchange 'host,none' is invalid; allowed: none by itself"),
    (("--temporal-block", "2"), "--temporal-block '2' is invalid; allowed: 0 to 1 with these points and this back end"),
        (("--nx", "400000", "--ny", "400000"), "allowed: one whose slabs fit: requested "),
])  # fmt: skip
def test_wrong_arguments_are_one_line_and_exit_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    outcome = run("stencil", *SMALL, *arguments)
    assert outcome.code == 2 and outcome.document is None
    assert message in outcome.stderr and outcome.stderr.count("\n") == 1


def test_a_launcher_that_starts_fewer_ranks_fails(run_ranks: Run) -> None:
    outcome = run_ranks("stencil", 2, *SMALL, "--nz", "25", "--exchange", "mpi", "--ranks", "4")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"] == "requested 4 ranks, started 2"
    nodes = run_ranks("stencil", 2, *SMALL, "--nz", "25", "--exchange", "mpi", "--nodes", "2")
    assert nodes.document is not None and nodes.document["reason"] == "requested 2 nodes, the ranks run on 1"
