"""What programs count over several ranks, compared with the raw times of their clocks and numbers written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.programs.conftest import Outcome
from tests.programs.test_hpl import blas as blas  # a fixture
from tests.programs.test_oracles import hpl_operations
from tests.support.oracles import Clock, close, figure, figures, seconds, spans, statistics_follow

pytestmark = pytest.mark.build

Timed = tuple[dict[str, Any], Clock]
FEW = ("--repetitions", "4", "--warmup-seconds", "0")


@pytest.fixture
def clocked(run_ranks: Callable[..., Outcome], clock_log: Path, tmp_path: Path) -> Callable[..., Timed]:
    """clocked("hpl", 4, ...) runs a program on 4 ranks: its document, and the clock readings of every rank."""

    def run(program: str, ranks: int, *arguments: str, **more: str) -> Timed:
        env = {"LD_PRELOAD": str(clock_log), "TENKEN_TEST_CLOCK": str(tmp_path / "clock"), **more}
        outcome = run_ranks(program, ranks, *arguments, **env)
        assert outcome.code == 0 and outcome.document is not None, outcome.stdout + outcome.stderr
        statistics_follow(outcome.document)
        clock = Clock.read(tmp_path / "clock")
        assert len(clock.told) >= ranks
        return outcome.document, clock

    return run


def test_mpi_p2p(clocked: Callable[..., Timed]) -> None:
    """Messages so large that a repetition is one operation: a window of 8, or one message."""
    size, window = 4 << 20, 8
    sizes = ("--min-bytes", str(size), "--max-bytes", str(size), "--window", str(window))
    document, clock = clocked("mpi_p2p", 2, *FEW, *sizes, "--max-collective-bytes", str(size))
    clock.anywhere(spans(figure(document, "latency"), 2))  # there and back
    clock.anywhere(spans(figure(document, "bandwidth"), window * size))
    clock.anywhere(spans(figure(document, "bidirectional"), 2 * window * size))
    clock.anywhere(spans(figure(document, "message_rate"), window))
    for name in ("allreduce", "alltoall", "bcast"):
        clock.anywhere(spans(figure(document, name), 1))


def test_mpi_p2p_of_the_slowest_rank(clocked: Callable[..., Timed]) -> None:
    """Collectives and messages of many senders take as long as the slowest rank, a pair as long as its first rank."""
    size, window = 4 << 20, 8
    sizes = ("--min-bytes", str(size), "--max-bytes", str(size), "--window", str(window))
    tests = ("--tests", "latency,bandwidth,message_rate,allreduce,alltoall,bcast")
    more = ("--max-collective-bytes", str(size))
    document, clock = clocked("mpi_p2p", 2, *FEW, *sizes, *tests, *more, TENKEN_TEST_SLOW_RANK="1")
    slow, first = clock.of_rank(1), clock.of_rank(0)
    for name, amount in {"allreduce": 1, "alltoall": 1, "bcast": 1, "message_rate": window}.items():
        found = spans(figure(document, name), amount)
        clock.anywhere(found)
        # a busy machine may occasionally delay the other rank by more than its clock is slower
        assert any(slow.holds([span]) for span in found), f"{name}: no span is of the rank whose clock is faster"
    first.anywhere(spans(figure(document, "latency"), 2))
    first.anywhere(spans(figure(document, "bandwidth"), window * size))


def test_mpi_p2p_of_small_messages(clocked: Callable[..., Timed]) -> None:
    """Several operations per repetition: every sample times an integer gives a span. Collectives have whole doubles,
    and of 1 KiB in flight each message takes 256 bytes."""
    sizes = ("--min-bytes", "3", "--max-bytes", "192", "--factor", "4", "--max-collective-bytes", "48")
    some = ("--tests", "latency,bandwidth,bcast", "--window-bytes", "1Ki")
    document, clock = clocked("mpi_p2p", 2, *FEW, *sizes, *some)
    found = {name: {m["at"]["bytes"]: m for m in figures(document, name)} for name in ("latency", "bandwidth", "bcast")}
    assert {name: list(each) for name, each in found.items()} == {
        "latency": [3, 12, 48, 192], "bandwidth": [3, 12, 48, 192], "bcast": [48]
    }  # fmt: skip
    assert [m["counts"]["bytes"] / size for size, m in found["bandwidth"].items()] == [4] * 4
    times_of_one = [(m, 2) for m in found["latency"].values()] + [(m, 1) for m in found["bcast"].values()]
    for metric, each in times_of_one:
        fitting = [times for times in range(1, 1001) if clock.holds(spans(metric, each * times))]
        assert fitting, metric["id"]


def test_hpl(clocked: Callable[..., Timed], blas: str) -> None:
    n, nb = 400, 32
    options = ("--n", str(n), "--nb", str(nb), "--grid", "2x2", "--backend", "host")
    document, clock = clocked("hpl", 4, *FEW, *options, TENKEN_BLAS=blas)
    clock.anywhere(spans(figure(document, "hpl"), hpl_operations(n)))
    clock.anywhere(spans(figure(document, "dgemm"), 2 * (n - nb) * (n + 1 - nb) * nb))


def test_hpl_of_the_slowest_rank(clocked: Callable[..., Timed], blas: str) -> None:
    """Also of the probes by which its block is chosen: each of a whole factorisation."""
    n = 400
    options = ("--n", str(n), "--grid", "2x1", "--backend", "host")
    more = {"TENKEN_BLAS": blas, "TENKEN_TEST_SLOW_RANK": "1"}
    document, clock = clocked("hpl", 2, *FEW, *options, **more)
    slow = clock.of_rank(1)
    slow.anywhere(spans(figure(document, "hpl"), hpl_operations(n)))
    probed = [rate for key, rate in document["path"].items() if key.startswith("probed_tflops.")]
    assert len(probed) == 2
    for rate in probed:
        slow.anywhere([hpl_operations(n) / rate / 1e3])


@pytest.mark.parametrize("slow", ["0", "1"])
def test_stencil(clocked: Callable[..., Timed], slow: str) -> None:
    """Two slabs of 40 x 30 x 41 cells on one rank each; 38 x 28 x 80 cells change."""
    grid = ("--nx", "40", "--ny", "30", "--nz", "41", "--scaling", "weak", "--bt", "2")
    more = ("--steps", "10", "--phase-blocks", "2", "--exchange", "mpi")
    document, clock = clocked("stencil", 2, *FEW, *grid, *more, TENKEN_TEST_SLOW_RANK=slow)
    rate = figure(document, "cells")
    clock.anywhere(spans(rate, 2 * 38 * 28 * 80))
    alone = figure(document, "alone")
    clock.anywhere(spans(alone, 2 * 38 * 28 * 39))
    efficiency = figure(document, "efficiency")["samples"]
    # 100 % are two slabs at the rate of the faster one alone
    (best, *more) = [100 * s / (2 * e) for s, e in zip(rate["samples"], efficiency, strict=True)]
    assert more == pytest.approx([best] * len(more))
    if best != pytest.approx(alone["median"], rel=1e-9):
        # it is the other rank's, which the document does not have: the median of as many spans in turn of its clock
        assert best > alone["median"]
        measured = [sliding_window_view(np.diff(times), 4) for times in clock.told]
        rates = np.concatenate([np.median(2 * 38 * 28 * 39 / each, axis=1) for each in measured])
        assert np.isclose(rates, best, rtol=1e-9, atol=0).any(), f"no slab alone had {best} Gcell/s"


def test_hpcg(clocked: Callable[..., Timed]) -> None:
    """Two adjacent cubes of side 16."""
    document, clock = clocked("hpcg", 2, *FEW, "--nx", "16", "--target-seconds", "0.05")
    path = document["path"]
    sets, iterations = path["sets"], path["iterations_of_set"]
    assert path["rank_grid"] in ("2 x 1 x 1", "1 x 2 x 1", "1 x 1 x 2")
    entries = [(3 * 2 * side - 2) * (3 * side - 2) ** 2 for side in (16, 8, 4, 2)]
    rows = 2 * 16**3
    one = (3 * iterations + 1) * 4 * rows + (iterations + 1) * 2 * entries[0]
    one += iterations * (10 * sum(entries[:3]) + 4 * entries[3])
    timed = seconds(figure(document, "set"), one)
    clock.anywhere([1e9 * span for span in timed])
    whole = (3 * iterations * sets + sets) * 4 * rows + (iterations * sets + sets) * 2 * entries[0]
    whole += iterations * sets * (10 * sum(entries[:3]) + 4 * entries[3])
    close(figure(document, "raw")["value"], whole / sum(timed) / 1e9)


def test_hpcg_of_the_slowest_rank(clocked: Callable[..., Timed]) -> None:
    """The clock of rank 1 is much faster: its spans are the longest, for the sets and for what precedes them."""
    more = ("--nx", "16", "--target-seconds", "0.05")
    document, clock = clocked("hpcg", 2, *FEW, *more, TENKEN_TEST_SLOW_RANK="1")
    iterations = document["path"]["iterations_of_set"]
    entries = [(3 * 2 * side - 2) * (3 * side - 2) ** 2 for side in (16, 8, 4, 2)]
    one = (3 * iterations + 1) * 4 * 2 * 16**3 + (iterations + 1) * 2 * entries[0]
    one += iterations * (10 * sum(entries[:3]) + 4 * entries[3])
    slow = clock.of_rank(1)
    slow.anywhere(spans(figure(document, "set"), one))
    for name in ("setup", "optimise"):
        slow.anywhere(spans(figure(document, name), 1))
