"""Outputs of third-party programs: wrong, cut, mixed or of another run. Those that can be parsed are judged; the others
are refused by their adapter, in which the check fails.

Further ones, for the parsers alone, are in tests/unit/test_foreign_tampering.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenken.errors import TenkenError
from tenken.judge import verdict
from tenken.model.judgement import Judgement
from tenken.parsers import osu
from tests.support import foreign_runs as foreign
from tests.support import honest
from tests.support import nccl_tests as told
from tests.support.planted import seen

#: hpcc's file around the same problem.
HPCC = (
    "This is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012\nBegin of HPL section.\n"
    f"{foreign.HPL}End of HPL section.\nBegin of Summary section.\nVersionMajor=1\nSuccess=1\n"
)
#: Further outputs of OSU: messages, and a collective with -f and with percentiles.
MESSAGES = """\
# OSU MPI Multiple Bandwidth / Message Rate Test v7.4
# [ pairs: 1 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                       2.53        2531234.56
8                      20.00        2500000.00
4194304             11999.99           2861.02
"""
IN_FULL = """\
# OSU MPI Allreduce Latency Test v7.4
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       2.50              1.20              4.10        1000
8                       2.40              2.40              2.40        1000
"""
PERCENTILES = """\
# OSU MPI Allreduce Latency Test v7.4
# Size       Avg Latency(us)   P50 Tail Lat(us)  P90 Tail Lat(us)
4                       9.50              1.20              4.10
"""
TEXTS = {"osu": foreign.OSU, "xhpl": foreign.HPL, "xhpcg": foreign.HPCG, "hpcc": HPCC, "nccl_tests": foreign.NCCL_TESTS}
MADE: dict[str, Callable[[str], Any]] = {**foreign.RUNS, "hpcc": foreign.hpl_run}


def judged(of: str, text: str) -> Judgement:
    """The result for an output."""
    run = honest.run("xhpl" if of == "hpcc" else of)
    try:
        raw, _ = MADE[of](text)
    except TenkenError as error:
        return verdict.failed(f"node1: {error}", "node1")
    keep = {key: run.raw()[key] for key in ("started", "finished")}
    return run.judged({**raw, **keep})


#: Output, what is replaced, by what, and what the refusal names. An empty old text: it is appended.
REPLACED = (
    ("osu", "2                       0.32              Pass", "2 10.0.0.1", "10.0.0.1"),
    ("osu", "4                       0.32              Pass", "4 -nan Fail", "-nan"),
    ("osu", "1024                    0.66              Pass", "1024 0.66 Fail", "osu_latency|verification|1024"),
    ("osu", "1024                    0.66              Pass", "1024 0.66", "1024"),
    ("osu", "520.25", "0.00", "above 0"),
    ("osu", "520.25", "-520.25", "-520.25"),
    ("osu", "520.25", "1e999", "finite"),
    ("osu", "4194304             12000.00", "4194304             12000,00", "12000,00"),
    ("osu", "4194304             12000.00", "4MB 12000.00", "4MB"),
    ("osu", "TENKEN-OSU osu_bw\n", "", "size 1 follows|two outputs|osu_bandwidth"),
    ("osu", "TENKEN-OSU osu_bw", "TENKEN-OSU osu_latency", "2 times"),
    ("osu", "TENKEN-OSU osu_bw", "TENKEN-OSU osu_made_up", "osu_made_up"),
    ("osu", "# OSU MPI Bandwidth Test v7.4\n", "", "no title"),
    ("osu", "", "1 0.1 Pass\n", "size 1 follows"),
    ("osu", "              Pass", "", "verified nothing|verification"),
    ("osu", "4194304             12000.00              Pass\n", "", "bytes=4194304|osu_bandwidth|4194304"),
    ("xhpl", "3.12345e-03 ...... PASSED", "3.12345e+03 ...... FAILED", "residual|verification|failed"),
    ("xhpl", "3.12345e-03 ...... PASSED", "3.12345e+03 ...... PASSED", "residual|verification|failed"),
    ("xhpl", "3.12345e-03 ...... PASSED", "nan ...... PASSED", "residual|verification|failed"),
    ("xhpl", "3.12345e-03 ...... PASSED", "-3.12345e-03 ...... PASSED", "residual"),
    ("xhpl", "0 tests completed and failed", "1 tests completed and failed", "1 tests failed"),
    ("xhpl", "1 tests completed and passed", "0 tests completed and passed", "0 tests passed"),
    ("xhpl", "0 tests skipped", "1 tests skipped", "skipped"),
    ("xhpl", "3.02             1.1307e+02", "0.00             5.0000e+09", "0.00 s"),
    ("xhpl", "1.1307e+02", "2.2614e+02", "are printed"),
    ("xhpl", "3.02 ", "0.30 ", "are printed"),
    ("xhpl", "8000   192     2     2", "16000   192     2     2", "are printed|another problem"),
    ("xhpl", "8000   192     2     2", "8000   128     2     2", "another problem"),
    ("xhpl", "8000   192     2     2", "8000   192     1     4", "another problem"),
    ("xhpl", "HPLinpack 2.3  --", "LINPACK --", "no title"),
    ("xhpl", "Finished      1 tests", "Done          1 tests", "Finished"),
    ("xhpl", "", foreign.HPL, "2 results"),
    ("hpcc", "Success=1", "Success=0", "Success=0"),
    ("hpcc", "End of HPL section.\n", "", "no HPL section"),
    ("hpcc", "3.12345e-03 ...... PASSED", "3.12345e+03 ...... FAILED", "residual|verification|failed"),
    ("hpcc", "Begin of Summary", f"Begin of HPL section.\n{foreign.HPL}End of HPL section.\nBegin of Sum", "2 results"),
    ("xhpcg", "Spectral Convergence Tests::Result=PASSED", "Spectral Convergence Tests::Result=FAILED", "spectral"),
    ("xhpcg", "epsilon::Result=PASSED", "epsilon::Result=FAILED", "symmetry"),
    ("xhpcg", "Reproducibility Information::Result=PASSED", "Reproducibility Information::Result=FAILED", "variance"),
    ("xhpcg", "Iteration Count Information::Result=PASSED", "Iteration Count Information::Result=maybe", "iterations"),
    ("xhpcg", "is VALID with", "is INVALID with", "verdict"),
    ("xhpcg", "Final Summary::HPCG result is VALID with a GFLOP/s rating of=2.98\n", "", "verdict"),
    ("xhpcg", "rating of=2.98", "rating of=298", "rating"),
    ("xhpcg", "rating of=2.98", "rating of=nan", "nan"),
    ("xhpcg", "Raw Total=3.0", "Raw Total=-3.0", "-3.0"),
    ("xhpcg", "Raw Total=3.0\n", "Raw Total=3.0\nGFLOP/s Summary::Raw Total=30.0\n", "two lines"),
    ("xhpcg", "", foreign.HPCG, "two lines"),
    ("xhpcg", "version=3.1", "version=2.4", "2.4"),
    ("xhpcg", "HPCG-Benchmark\n", "", "no title"),
    ("xhpcg", "Distributed Processes=2", "Distributed Processes=1", "Distributed Processes=1"),
    ("xhpcg", "Distributed Processes=2", "Distributed Processes=0", "Distributed Processes"),
    ("xhpcg", "Local Domain Dimensions::nx=104", "Local Domain Dimensions::nx=16", "nx"),
    ("xhpcg", "Final Summary=\nFinal Summary::", "Final::", "Final Summary|verdict"),
    ("xhpcg", "Benchmark Time Summary::Total=61.2\n", "", "Total"),
    ("xhpcg", "Optimized CG iterations per set=50", "Optimized CG iterations per set=0", "iterations"),
    ("xhpcg", "Raw Total=3.0\n", "Raw Total=3.6\n", "Raw Total=3.6; 1.836e"),
    ("xhpcg", "Raw SpMV=2.9\n", "Raw SpMV=29\n", "Raw SpMV=29"),
    ("xhpcg", "Summary::Total=61.2", "Summary::Total=6.12", "Raw Total=3"),
    ("xhpcg", "Summary::SpMV=10", "Summary::SpMV=1.0e1e1", "SpMV"),
    ("xhpcg", "Operations Summary::Total=1.836e+11", "Operations Summary::Total=1.836e+12", "Raw Total=3"),
    ("xhpcg", "npx=2", "npx=4", "Distributed Processes=2; npx"),
    ("osu", "", f"TENKEN-OSU osu_mbw_mr\n{MESSAGES.replace('2500000.00', '25000000.00')}", "messages/s of 8 B"),
    ("osu", "", f"TENKEN-OSU osu_mbw_mr\n{MESSAGES.replace('20.00', '2.00')}", "messages/s of 8 B"),
    ("osu", "", f"TENKEN-OSU osu_allreduce\n{IN_FULL.replace('2.50', '9.50')}", "the average 9.5 us is outside"),
    ("osu", "", f"TENKEN-OSU osu_allreduce\n{IN_FULL.replace('2.50', '0.50')}", "the average 0.5 us is outside"),
    ("nccl_tests", "174.91  262.36       0", "174.91  262.36      12", "12 wrong values"),
    ("nccl_tests", "174.91  262.36       0", "174.91  262.36      -1", "-1"),
    ("nccl_tests", "174.91  262.36       0", "174.91  262.36     N/A", "was not checked"),
    ("nccl_tests", "174.91  262.36       0", "174.91  262.36     0.5", "0.5"),
    ("nccl_tests", "Out of bounds values : 0 OK", "Out of bounds values : 7 FAILED", "verification.*error 7"),
    ("nccl_tests", "Out of bounds values : 0 OK", "Out of bounds values : 7 OK", "Out of bounds"),
    ("nccl_tests", "# Out of bounds values : 0 OK\n", "", "Out of bounds values"),
    ("nccl_tests", "# Avg bus bandwidth", "# mean bus bandwidth", "Avg bus bandwidth"),
    ("nccl_tests", "bandwidth    : 89.8223", "bandwidth    : 898.223", "mean bus bandwidth is 898.223"),
    ("nccl_tests", "bandwidth    : 89.8223", "bandwidth    : nan", "nan"),
    ("nccl_tests", "bandwidth    : 89.8223", "bandwidth    : -89.8", "-89.8"),
    ("nccl_tests", "bandwidth    : 89.8223 ", "bandwidth    : 89.8223 FAILED", "below the minimum that its caller set"),
    ("nccl_tests", "174.91  262.36", "174.91  362.36", "busbw is 362.36"),
    ("nccl_tests", "174.91  262.36", "274.91  412.36", "algbw is 274.91"),
    ("nccl_tests", "23.98  174.91", "2.398  174.91", "algbw is 174.91"),
    ("nccl_tests", "23.98  174.91", "0.00  174.91", "above 0"),
    ("nccl_tests", "23.98  174.91", "nan  174.91", "nan"),
    ("nccl_tests", "23.98  174.91", "1e999  174.91", "1e999"),
    ("nccl_tests", "23.98  174.91", "23,98  174.91", "23,98"),
    ("nccl_tests", "     4194304       1048576", "     8388608       1048576", "algbw|8388608"),
    ("nccl_tests", "     4194304       1048576", "          4M       1048576", "4M"),
    ("nccl_tests", "#  Rank  3", "#  Bank  3", "lines '# Rank"),
    ("nccl_tests", "#  Rank  3", "#  Rank  2", "lines '# Rank"),
    ("nccl_tests", "maxBytes 4194304", "maxBytes 268435456", "announces"),
    ("nccl_tests", "minBytes 1024 maxBytes 4194304", "minBytes 65536 maxBytes 4194304", "announces"),
    ("nccl_tests", "step: 64(factor)", "step: 1(factor)", "never end"),
    ("nccl_tests", "# nThread 1", "# nthread 1", "nThread"),
    ("nccl_tests", "TENKEN-NCCL-TESTS sendrecv_perf\n", "", "all_reduce_perf: its output is that of sendrecv_perf"),
    ("nccl_tests", "TENKEN-NCCL-TESTS sendrecv_perf", "TENKEN-NCCL-TESTS all_reduce_perf", "2 times"),
    ("nccl_tests", "TENKEN-NCCL-TESTS sendrecv_perf", "TENKEN-NCCL-TESTS made_up_perf", "made_up_perf"),
    ("nccl_tests", "TENKEN-NCCL-TESTS all_reduce_perf", "TENKEN-NCCL-TESTS all_gather_perf", "is that of all_reduce"),
    ("nccl_tests", "", "node1: Test NCCL failure all_reduce.cu:44 'unhandled cuda error'\n", "unhandled cuda error"),
    ("nccl_tests", "# Using devices", "node1: Test CUDA failure common.cu:294 'out of memory'", "out of memory"),
    ("nccl_tests", "iters: 100", "iters: 1", "iterations"),
)  # fmt: skip


@pytest.mark.parametrize(("of", "old", "new", "says"), REPLACED)
def test_an_output_that_is_wrong_is_no_pass(of: str, old: str, new: str, says: str) -> None:
    whole = TEXTS[of]
    assert old in whole
    seen(judged(of, whole.replace(old, new) if old else whole + new), says)


@pytest.mark.parametrize("of", TEXTS)
def test_an_output_that_is_none_is_no_pass(of: str) -> None:
    whole = TEXTS[of]
    for text in ("", whole[: len(whole) // 2], TEXTS["osu" if of != "osu" else "xhpl"]):
        seen(judged(of, text), ".")


def test_what_launchers_and_other_versions_print_is_no_fault() -> None:
    found = list(twins())
    wrong = [f"{what}: {verdict}; it is {known}" for what, verdict, known in found if verdict != known]
    assert len(found) > 20 and not wrong, "\n".join(wrong)


def twins() -> Iterator[tuple[str, str, str]]:
    """What launchers, other versions and other implementations also print."""
    around = "srun: job 17 queued\n[n1:2] UCX WARN a warning\n2026-11-22 03:00:00 container up\n"
    for of, whole in TEXTS.items():
        expected = honest.run("xhpl" if of == "hpcc" else of).verdict
        yield f"{of}: as it is", judged(of, whole).verdict, expected
        yield (
            f"{of}: lines of a launcher around it",
            judged(of, around + whole + "\nslurmstepd: done\n").verdict,
            expected,
        )
        yield f"{of}: carriage returns", judged(of, whole.replace("\n", "\r\n")).verdict, expected
    other = foreign.OSU.replace("v7.4", "v6.2")
    yield "osu: an older version", judged("osu", other).verdict, honest.run("osu").verdict
    expected = honest.run("nccl_tests").verdict
    for name, text in (
        ("before it told its version", told.job("all_reduce_perf", "sendrecv_perf", version="")),
        ("#wrong of five columns", foreign.NCCL_TESTS.replace("       0\n", "      0\n")),
        ("a word behind the mean", foreign.NCCL_TESTS.replace("89.8223 ", "89.8223 OK")),
    ):
        yield f"nccl_tests: {name}", judged("nccl_tests", text).verdict, expected
    for name, text in (("osu_mbw_mr", MESSAGES), ("osu_allreduce", IN_FULL), ("osu_allreduce", PERCENTILES)):
        yield f"osu: {text.splitlines()[-1]}", str(len(osu.parse(name, text).points) > 0), "True"
    without = "".join(line for line in foreign.HPCG.splitlines(keepends=True) if "Operations" not in line)
    yield (
        "xhpcg: an implementation that counts no operations",
        judged("xhpcg", without).verdict,
        honest.run("xhpcg").verdict,
    )
    vendor = foreign.HPL.replace("HPLinpack 2.3", "HPL-NVIDIA 24.03.0")
    yield "xhpl: NVIDIA's", judged("xhpl", vendor).verdict, honest.run("xhpl").verdict
