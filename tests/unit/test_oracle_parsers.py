"""The output of third-party programs, and the correct figures in the suite's own units."""

from __future__ import annotations

from typing import Any

import pytest

from tenken.parsers import hpcg, hpl, nccl_tests, osu
from tests.reframe.checks.test_hpcg import REPORT
from tests.reframe.checks.test_osu import BANDWIDTH, FULL, LATENCY, RATE
from tests.reframe.checks.test_xhpl import NETLIB


def metric(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [m for m in document["metrics"] if m["name"] == name]
    return found


def of_osu(*outputs: tuple[str, str]) -> dict[str, Any]:
    text = "".join(f"TENKEN-OSU {benchmark}\n{printed}" for benchmark, printed in outputs)
    return osu.document(osu.parse_all(text), "nid001", 2, ["nid001", "nid002"], "host")


def test_osu_counts_millions_of_bytes_and_microseconds() -> None:
    made = of_osu(("osu_bw", BANDWIDTH), ("osu_mbw_mr", RATE), ("osu_allreduce", FULL))
    rates = {m["at"]["bytes"]: m["value"] for m in made["metrics"] if m["name"] == "osu_bandwidth"}
    assert rates == {1: pytest.approx(0.0035), 4194304: pytest.approx(12.0)}  # 3.50 and 12000.00 MB/s
    assert (metric(made, "osu_message_rate")["value"], metric(made, "osu_message_rate")["unit"]) == (4e6, "messages/s")
    assert (metric(made, "osu_allreduce")["value"], metric(made, "osu_allreduce")["unit"]) == (3.0, "us")


@pytest.mark.parametrize(("word", "expected"), [("Pass", True), ("Fail", False)])
def test_osu_validates_by_a_word(word: str, expected: bool) -> None:
    made = of_osu(("osu_latency", LATENCY.replace("520.25              Pass", f"520.25              {word}")))
    assert made["verification"]["passed"] is expected
    assert [check["passed"] for check in made["verification"]["checks"]] == [expected]


def of_hpl(text: str, **other: int) -> dict[str, Any]:
    asked = {"n": 29184, "nb": 192, "p": 2, "q": 2, **other}
    return hpl.document(hpl.parse(text), "xhpl", ["xhpl"], "nid001", ["nid001"], 4, **asked)


def test_hpl_prints_gflops_behind_the_time() -> None:
    made = of_hpl(NETLIB)
    assert (metric(made, "hpl")["value"], metric(made, "hpl")["unit"]) == (pytest.approx(0.43797), "TFLOP/s")
    # what it printed: (2/3) N^3 + (3/2) N^2 operations in 37.85 s
    assert metric(made, "hpl")["value"] == pytest.approx((2 / 3 * 29184**3 + 1.5 * 29184**2) / 37.85 / 1e12, rel=1e-3)
    assert hpl.parse(NETLIB).results[0].seconds == 37.85


@pytest.mark.parametrize(
    ("n", "seconds", "gflops", "fits"),
    [
        # 2 n^3 / 3 + 3 n^2 / 2 operations: 437.86 Gflops, printed with two digits or more, in a time of two decimals
        (29184, "37.85", 437.8 * 1.018, True), (29184, "37.85", 437.8 * 1.022, False),
        (29184, "37.85", 437.8 * 0.982, True), (29184, "37.85", 437.8 * 0.978, False),
        # 0.668 Gflop in 0.004 to 0.016 s
        (1000, "0.01", 41, True), (1000, "0.01", 40.9 * 0.99, False), (1000, "0.01", 170, True),
        (1000, "0.01", 172, False), (1000, "0.00", 100, False),
    ],
)  # fmt: skip
def test_the_time_and_the_rate_of_hpl_are_of_its_problem(n: int, seconds: str, gflops: float, fits: bool) -> None:
    text = NETLIB.replace("29184  ", f"{n}  ").replace(
        "37.85             4.3797e+02", f"{seconds}             {gflops:.4e}"
    )
    if fits:
        assert hpl.parse(text).results[0].gflops == pytest.approx(gflops, rel=1e-4)
        return
    with pytest.raises(hpl.HplFormatError, match="too short" if seconds == "0.00" else "Gflops, but .* are printed"):
        hpl.parse(text)


def test_no_rank_of_hpl_is_faster_than_a_gpu() -> None:
    """437.97 Gflops of four ranks: 109.5 each."""
    assert hpl.section(NETLIB, 110)[0].gflops == 437.97
    with pytest.raises(hpl.HplFormatError, match="Gflops per rank"):
        hpl.section(NETLIB, 109)


def test_hpl_prints_p_before_q() -> None:
    wide = NETLIB.replace("   192     2     2 ", "   192     1     4 ")
    (one,) = hpl.parse(wide).results
    assert (one.n, one.nb, one.p, one.q) == (29184, 192, 1, 4)
    assert metric(of_hpl(wide, p=1, q=4), "hpl")["at"]["grid"] == "1x4"
    with pytest.raises(hpl.HplFormatError, match="another problem was solved"):
        of_hpl(wide, p=4, q=1)


@pytest.mark.parametrize(
    ("residual", "word", "expected"),
    [("15.9", "PASSED", True), ("16.1", "PASSED", False), ("3.2e-03", "FAILED", False), ("159", "FAILED", False)],
)
def test_hpl_passes_by_word_and_number(residual: str, word: str, expected: bool) -> None:
    made = of_hpl(NETLIB.replace("3.21445012e-03 ...... PASSED", f"{residual} ...... {word}"))
    (check,) = made["verification"]["checks"]
    assert (check["passed"], check["tolerance"]) == (expected, 16.0)


@pytest.mark.parametrize("tests", [0, 2, 3])
def test_hpl_with_fewer_or_more_results_than_tests_is_cut_short(tests: int) -> None:
    with pytest.raises(hpl.HplFormatError, match="cut short"):
        hpl.parse(NETLIB.replace("Finished      1", f"Finished      {tests}"))


def test_results_of_hpl_without_the_line_that_counts_them_are_cut_short():
    with pytest.raises(hpl.HplFormatError, match=r"no line 'Finished \.\.\. tests': the output is cut short"):
        hpl.parse(NETLIB.partition("Finished ")[0])


def of_hpcg(text: str) -> dict[str, Any]:
    return hpcg.document(hpcg.parse(text), "nid001", ["nid001"], "xhpcg", {"implementation": "xhpcg"})


def test_hpcg_figures_have_lines_of_their_own() -> None:
    made = of_hpcg(REPORT)
    found = {m["name"]: (m["value"], m["unit"]) for m in made["metrics"]}
    assert found == {
        "raw": (230, "GFLOP/s"),
        "rating": (210, "GFLOP/s"),
        "spmv": (200.5, "GFLOP/s"),
        "mg": (240, "GFLOP/s"),
        "setup": (500, "ms"),
        "optimise": (250, "ms"),
        "iterations": (53, "1"),
    }


@pytest.mark.parametrize(("seconds", "expected"), [(1799.9, "no"), (1800, "yes"), (1200, "no")])
def test_an_official_run_takes_1800_seconds(seconds: float, expected: str) -> None:
    made = of_hpcg(REPORT.replace("Total=61.5", f"Total={seconds}"))
    assert made["path"]["official_time"].split(":")[0] == expected


def test_a_report_that_is_not_valid_fails() -> None:
    made = of_hpcg(REPORT.replace(f"{hpcg.VALID}=210", "Final Summary::HPCG result is=INVALID."))
    assert made["status"] == "failed" and made["verification"]["passed"] is False
    assert "rating" not in {m["name"] for m in made["metrics"]}


#: Of 8 ranks with 7/8 of the data: by NCCL's own document, an all-reduce moves it twice, a broadcast all of it once.
BUS = {
    "all_reduce_perf": 1.75, "all_gather_perf": 0.875, "reduce_scatter_perf": 0.875, "alltoall_perf": 0.875,
    "broadcast_perf": 1, "reduce_perf": 1, "gather_perf": 0.875, "scatter_perf": 0.875, "hypercube_perf": 1,
    "sendrecv_perf": 1,
}  # fmt: skip


def test_bus_bandwidth_over_that_of_the_algorithm() -> None:
    assert {name: factor(8) for name, (_, factor) in nccl_tests.BENCHMARKS.items()} == BUS
    assert {name: factor(8) for name, factor in nccl_tests._MOVED.items()} == {"hypercube_perf": 0.875}


def test_wrong_values_of_all_sizes_add_up() -> None:
    points = tuple(nccl_tests.Point(size, "out", 1.0, 1.0, wrong) for size, wrong in ((8, 2), (16, 3)))
    output = nccl_tests.Output("all_reduce_perf", "2.17", 2, ("n1",), (), 0, points)
    (check,) = nccl_tests.document([output], "n1", ["n1"], 2)["verification"]["checks"]
    assert (check["error"], check["passed"]) == (5.0, False)
