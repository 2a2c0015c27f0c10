"""The parser and the check of nccl-tests, with lines made up in the format of its sources."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tenken.parsers import nccl_tests
from tenken.reframe import locks
from tests.support.nccl_tests import output
from tests.support.reframe import reframe


def test_a_whole_output() -> None:
    found = nccl_tests.parse("all_reduce_perf", "srun: job 1 queued\n" + output())
    assert (found.version, found.ranks, found.hosts) == ("nccl-tests 2.17.1, NCCL 22703", 4, ("node1",))
    assert dict(found.asked) == {
        "min_bytes": 1024, "max_bytes": 4194304, "factor": 64, "iterations": 100, "operations_each": 1,
    }  # fmt: skip
    last = found.points[-2:]
    # 4 MiB in 23.98 us, and three quarters of twice that over each link
    assert [(p.bytes, p.place, p.microseconds, p.busbw, p.wrong) for p in last] == [
        (4194304, "out", 23.98, 262.36, 0), (4194304, "in", 24.46, 257.21, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("benchmark", "ways"), [("all_reduce_perf", {"out", "in"}), ("all_gather_perf", {"out", "in"}),
                            ("sendrecv_perf", {"out"}), ("alltoall_perf", {"out"})],
)  # fmt: skip
def test_what_has_no_way_in_place_has_none(benchmark: str, ways: set[str]) -> None:
    assert {point.place for point in nccl_tests.parse(benchmark, output(benchmark)).points} == ways


def test_sizes_that_are_shared_out_are_rounded_down_and_0_is_left_out() -> None:
    """Eight bytes on four ranks are less than 16 per rank: an all-gather of nothing."""
    text = output("all_gather_perf", sizes=(8, 8192, 1024))
    lines = text.splitlines()
    (row,) = (i for i, line in enumerate(lines) if line.split()[:1] == ["8"])
    way = "     6.10    0.00    0.00       0"
    lines[row] = f"           0             0     float    none      -1{way}{way}"
    lines = [f"# Avg bus bandwidth    : {mean_of(lines):g}" if "Avg bus" in line else line for line in lines]
    found = nccl_tests.parse("all_gather_perf", "\n".join(lines))
    assert {point.bytes for point in found.points} == {8192}


def mean_of(lines: list[str]) -> float:
    rows = [line.split() for line in lines if line[:1] == " "]
    told = [float(row[-column]) for row in rows for column in (6, 2)]
    return sum(told) / len(told)


@pytest.mark.parametrize(
    ("benchmark", "text", "says"),
    [
        ("all_reduce_perf", "", "no line '# nThread"),
        ("all_reduce_perf", output().split("# Out of bounds")[0], "did not run to its end"),
        ("alltoallv_perf", output(), "no parser for it; allowed: all_reduce_perf"),
        ("all_reduce_perf", output(ranks=1), "1 lines '# Rank N ... on HOST device'"),
        ("all_reduce_perf", output().replace("float     sum      -1", ""), "has 10 columns; allowed: 11 to 13"),
    ],
)
def test_what_is_no_whole_output_is_refused(benchmark: str, text: str, says: str) -> None:
    with pytest.raises(nccl_tests.NcclTestsFormatError) as raised:
        nccl_tests.parse(benchmark, text)
    assert says in str(raised.value)


def test_operation_and_root_may_be_blank() -> None:
    assert nccl_tests.parse("all_reduce_perf", output().replace("     sum      -1", "")).ranks == 4


@pytest.mark.sessions
def test_the_job_runs_the_binaries_of_a_site_or_says_which_is_missing(tmp_path: Path) -> None:
    outcome = reframe(
        "--dry-run", "--system", "h200", "-n", "^NcclTests$", folder=tmp_path, checks="checks/nccl_tests.py"
    )
    assert outcome.code == 0, outcome.output
    (script,) = (file for file in (tmp_path / "stage").rglob("rfm_*.sh") if "NcclTests" in str(file))
    text = script.read_text()
    own = [line for line in text.splitlines() if line.startswith(("tenken_run() ", "tenken_each "))]
    shell = "\n".join([locks.functions("nccl", "t"), *own])
    folder = tmp_path / "a folder" / "build"
    environment = {"PATH": "/usr/bin:/bin", "TENKEN_NCCL_TESTS": str(folder.parent)}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-uc", shell], capture_output=True, text=True, env=environment, check=False)

    done = run()
    assert (done.returncode, done.stdout) == (3, "TENKEN-NCCL-TESTS-MISSING all_reduce_perf\n")
    folder.mkdir(parents=True)
    for name in ("all_reduce_perf", "all_gather_perf", "sendrecv_perf"):
        (folder / name).write_text('#!/bin/sh\necho "$@"\n')
        (folder / name).chmod(0o755)
    done = run()
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:2] == ["TENKEN-NCCL-TESTS all_reduce_perf", said[1]] and len(said) == 6
    assert said[1].startswith("-b 1024 -e 1073741824 -f 4 -g ") and said[1].endswith(" -n 100 -w 20 -c 1")
