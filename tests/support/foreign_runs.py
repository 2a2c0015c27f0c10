"""Runs of third-party programs, as their adapters write them: OSU, HPL and HPCG outputs, each in its own format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenken.model.request import Request
from tenken.parsers import hpcg, hpl, nccl_tests, osu
from tests.support import nccl_tests as told

TOKEN = "0123456789abcdef0123456789abcdef"

OSU = """\
TENKEN-OSU osu_latency
# OSU MPI Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)        Validation
1                       0.31              Pass
2                       0.32              Pass
4                       0.32              Pass
1024                    0.66              Pass
4194304               520.25              Pass
TENKEN-OSU osu_bw
# OSU MPI Bandwidth Test v7.4
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)        Validation
1                       3.50              Pass
2                       7.10              Pass
4                      14.20              Pass
1024                 2900.00              Pass
4194304             12000.00              Pass
"""

HPL = """\
================================================================================
HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
================================================================================
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR11C2R4        8000   192     2     2               3.02             1.1307e+02
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.12345e-03 ...... PASSED
================================================================================

Finished      1 tests with the following results:
              1 tests completed and passed residual checks,
              0 tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
"""

HPCG = """\
HPCG-Benchmark
version=3.1
Release date=March 28, 2019
Machine Summary=
Machine Summary::Distributed Processes=2
Machine Summary::Threads per processes=1
Global Problem Dimensions=
Global Problem Dimensions::Global nx=208
Global Problem Dimensions::Global ny=104
Global Problem Dimensions::Global nz=104
Processor Dimensions=
Processor Dimensions::npx=2
Processor Dimensions::npy=1
Processor Dimensions::npz=1
Local Domain Dimensions=
Local Domain Dimensions::nx=104
Local Domain Dimensions::ny=104
Local Domain Dimensions::Lower ipz=0
Local Domain Dimensions::Upper ipz=0
Local Domain Dimensions::nz=104
Setup Information=
Setup Information::Setup Time=0.61
Multigrid Information=
Multigrid Information::Coarse Grids=
Multigrid Information::Coarse Grids::Grid Level=1
Multigrid Information::Coarse Grids::Number of Equations=281216
Multigrid Information::Coarse Grids::Grid Level=2
Multigrid Information::Coarse Grids::Number of Equations=35152
Memory Use Information=
Memory Use Information::Coarse Grids=
Memory Use Information::Coarse Grids::Grid Level=1
Memory Use Information::Coarse Grids::Memory used=0.17
Memory Use Information::Coarse Grids::Grid Level=2
Memory Use Information::Coarse Grids::Memory used=0.02
Spectral Convergence Tests=
Spectral Convergence Tests::Result=PASSED
Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon=
Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon::Result=PASSED
Iteration Count Information=
Iteration Count Information::Result=PASSED
Iteration Count Information::Reference CG iterations per set=50
Iteration Count Information::Optimized CG iterations per set=50
Reproducibility Information=
Reproducibility Information::Result=PASSED
Reproducibility Information::Scaled residual mean=1.2e-09
Reproducibility Information::Scaled residual variance=0
Benchmark Time Summary=
Benchmark Time Summary::Optimization phase=0.01
Benchmark Time Summary::SpMV=10
Benchmark Time Summary::Total=61.2
Floating Point Operations Summary=
Floating Point Operations Summary::Raw SpMV=2.9e+10
Floating Point Operations Summary::Total=1.836e+11
GFLOP/s Summary=
GFLOP/s Summary::Raw SpMV=2.9
GFLOP/s Summary::Raw MG=3.1
GFLOP/s Summary::Raw Total=3.0
GFLOP/s Summary::Total with convergence overhead=3.0
GFLOP/s Summary::Total with convergence and optimization phase overhead=2.98
Final Summary=
Final Summary::HPCG result is VALID with a GFLOP/s rating of=2.98
Final Summary::HPCG 2.4 rating for historical reasons is=2.99
"""


NCCL_TESTS = told.job("all_reduce_perf", "sendrecv_perf")


def _asked(program: str, metrics: tuple[str, ...], ranks: int, **parameters: Any) -> Request:
    return Request(
        TOKEN,
        program,
        program,
        ("ranks",),
        metrics,
        {**parameters, "ranks": ranks},
        ranks=ranks,
        foreign=True,
        mode="acceptance",
    )


def osu_run(text: str = OSU) -> tuple[dict[str, Any], Request]:
    made = osu.document(osu.parse_all(text), "node1", 2, ["node1"], "host")
    return {**made, "token": TOKEN}, _asked(
        "mpi_p2p", ("osu_latency", "osu_bandwidth"), 2, implementation="osu", buffers="host"
    )


def hpl_run(text: str = HPL) -> tuple[dict[str, Any], Request]:
    made = hpl.document(hpl.parse(text), "xhpl", ["xhpl"], "node1", ["node1"], 4, 8000, 192, 2, 2)
    asked = _asked("hpl", ("hpl", "residual"), 4, implementation="xhpl", n=8000, nb=192)
    return {**made, "token": TOKEN}, asked


def hpcg_run(text: str = HPCG) -> tuple[dict[str, Any], Request]:
    made = hpcg.document(hpcg.parse(text), "node1", ["node1"], "xhpcg", {"implementation": "xhpcg"})
    asked = _asked("hpcg", tuple(hpcg.METRICS), 2, implementation="xhpcg", nx=104, ny=104, nz=104)
    return {**made, "token": TOKEN}, asked


def nccl_tests_run(text: str = NCCL_TESTS) -> tuple[dict[str, Any], Request]:
    made = nccl_tests.document(nccl_tests.parse_all(text), "node1", ["node1"], 4)
    sweep: dict[str, Any] = {"min_bytes": 1024, "max_bytes": 4194304, "factor": 64, "iterations": 100, "gpus": 4}
    sweep |= {"implementation": "nccl-tests", "operations_each": 1}
    asked = _asked("nccl", ("perf_all_reduce", "perf_sendrecv"), 1)
    return {**made, "token": TOKEN}, replace(asked, parameters=sweep)


RUNS: dict[str, Callable[[], tuple[dict[str, Any], Request]]] = {
    "osu": osu_run,
    "xhpl": hpl_run,
    "xhpcg": hpcg_run,
    "nccl_tests": nccl_tests_run,
}
