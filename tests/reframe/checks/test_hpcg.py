"""The parser of HPCG reports, and the verdicts that follow from them.

The lines are made up in the format of HPCG 3.1 (src/ReportResults.cpp, src/OutputFile.cpp); the figures are
invented."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tenken.model import result as document
from tenken.model import verdicts as verdict
from tenken.model.catalogue import program
from tenken.parsers import hpcg as xhpcg
from tenken.reframe import locks
from tests.support.judging import Expectation, judge

REPORT = f"""\
Start of application (a launcher's line)
HPCG-Benchmark
version=3.1
Release date=March 28, 2019
Machine Summary=
Machine Summary::Distributed Processes=2
Machine Summary::Threads per processes=8
Local Domain Dimensions=
Local Domain Dimensions::nx=256
Local Domain Dimensions::ny=256
Local Domain Dimensions::nz=128
Setup Information::Setup Time=0.5
Spectral Convergence Tests::Result=PASSED
{xhpcg.SYMMETRY}=
{xhpcg.SYMMETRY}::Result=PASSED
{xhpcg.SYMMETRY}::Departure for SpMV=4.2e-10
Iteration Count Information::Result=PASSED
Iteration Count Information::Optimized CG iterations per set=53
Reproducibility Information::Result=PASSED
Benchmark Time Summary::Optimization phase=0.25
Benchmark Time Summary::Total=61.5
GFLOP/s Summary::Raw SpMV=200.5
GFLOP/s Summary::Raw MG=240
GFLOP/s Summary::Raw Total=230
GFLOP/s Summary::Total with convergence and optimization phase overhead=210
Final Summary=
{xhpcg.VALID}=210
Final Summary::Results are valid but execution time (sec) is=61.5
"""


def made(text: str) -> dict:
    return xhpcg.document(xhpcg.parse(text), "nid001", ["nid001"], "xhpcg", {"implementation": "xhpcg"})


@pytest.mark.parametrize(("rating", "iterations", "read"), [(230, 50, 1), (231, 50, 0), (255, 45, 1), (256, 45, 0)])
def test_a_rating_above_what_raw_performance_allows_is_refused(rating: int, iterations: int, read: int) -> None:
    """45 iterations instead of 50 raise 230 GFLOP/s to 255.6."""
    text = REPORT.replace("=210", f"={rating}").replace("per set=53", f"per set={iterations}")
    if read:
        assert made(text)["status"] == "ok"
        return
    with pytest.raises(xhpcg.HpcgFormatError, match=r"above the .* that the raw performance allows"):
        made(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no report of HPCG"),
        ("mpirun: xhpcg: not found", "it begins 'mpirun: xhpcg: not found'"),
        ("HPCG-Benchmark version: V3.0\nMachine Summary: \n", "cut short before its Final Summary"),
        ("HPCG-Benchmark version: V2.4\nFinal Summary: \n  HPCG result is: INVALID.\n", "a report of version 2.4"),
        (REPORT.replace("Raw SpMV=200.5", "Raw SpMV=fast"), "Raw SpMV=fast: not a number"),
        (REPORT.replace("Reproducibility Information::Result=PASSED\n", ""), "Reproducibility Information::Result"),
    ],
)
def test_what_is_no_report_is_refused(text: str, says: str) -> None:
    with pytest.raises(xhpcg.HpcgFormatError) as raised:
        made(text)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "HPCG-Benchmark_3.1_2026-03-02_10-00-00.txt", "HPCG-Benchmark-3.0_2026.03.02.10.00.00.yaml",
        "n104-4p-1t-V3.0_2026.03.02.10.00.00.yaml", "n104-4p-1t_V3.1_2026-03-02_10-00-00.txt",
    ],
)  # fmt: skip
def test_the_job_prints_the_report_that_a_binary_wrote(tmp_path: Path, name: str) -> None:
    """By each name that HPCG and Intel's give it, and not its log."""
    run = f"tenken_run() {{ echo lines > {name}; echo log > hpcg20260302T100000.txt; }}"
    shell = f'{locks.functions("hpcg", "t")}\n{run}; tenken_xhpcg ./xhpcg "104 104 104" 60'
    done = subprocess.run(["sh", "-uc", shell], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, "TENKEN-XHPCG-REPORT\nlines\n"), done.stderr


def test_a_machine_without_a_binary_is_waived() -> None:
    asked = {"implementation": "xhpcg", "nx": 256, "ranks": 2}
    read = document.validate(xhpcg.waived(["nid001"], 2, asked), "result.json")
    expect = Expectation(subjects=("ranks",), ranks=2, metrics=tuple(xhpcg.METRICS), parameters=asked)
    found = judge(read, program("hpcg"), expect, lambda metric: None, 3)
    assert found.verdict == verdict.WAIVED and "library missing" in found.message()
