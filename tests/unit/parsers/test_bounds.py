"""Documents of third-party programs by hand, and each parser's bounds at both sides."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tenken.errors import TenkenError
from tenken.parsers import foreign, gpu_burn, hpl, ior, nccl_tests, nvbandwidth, perftest, stream
from tests.support.nccl_tests import output
from tests.unit.parsers.test_outputs import kept
from tests.unit.parsers.test_programs import GPU_BURN, IOR, NVBANDWIDTH, PERFTEST, STREAM


@pytest.mark.parametrize(("direction", "statistic", "value", "best"), [
    ("higher", "median", 3.0, 9.0), ("lower", "median", 3.0, 1.0), ("higher", "mean", 4.0, 9.0),
    ("lower", "best", 1.0, 1.0), ("higher", "best", 9.0, 9.0), ("higher", "p5", 1.2, 9.0), ("higher", "p95", 8.2, 9.0),
])  # fmt: skip
def test_figures_of_a_metric_follow_from_its_samples(direction: str, statistic: str, value: float, best: float) -> None:
    """1, 2, 3, 5 and 9; a twentieth lies a fifth of the way from the first to the second."""
    found = foreign.metric("triad", {"host": 0}, "GB/s", direction, [9.0, 1.0, 3.0, 5.0, 2.0], statistic)
    assert found == {
        "id": "triad.host", "name": "triad", "subject": {"host": 0}, "unit": "GB/s", "direction": direction,
        "statistic": statistic, "value": pytest.approx(value), "best": best, "median": 3.0, "p5": pytest.approx(1.2),
        "p95": pytest.approx(8.2), "count": 5, "clock": "host", "samples": [9.0, 1.0, 3.0, 5.0, 2.0],
    }  # fmt: skip


def test_a_metric_is_named_by_its_subject_and_sorted_coordinates() -> None:
    found = foreign.metric("busbw", {"ranks": 4}, "GB/s", "higher", [7.0], "total", place="in", bytes=8)
    assert (found["id"], found["at"], found["value"]) == (
        "busbw.ranks4.bytes=8.place=in",
        {"place": "in", "bytes": 8},
        7.0,
    )
    with pytest.raises(TenkenError, match="a total is one value, not 2"):
        foreign.metric("x", {"gpu": 1}, "s", "lower", [1.0, 2.0], "total")
    for bad in (float("nan"), float("inf")):
        with pytest.raises(TenkenError, match=r"x\.gpu1: a sample is not finite"):
            foreign.metric("x", {"gpu": 1}, "s", "lower", [1.0, bad], "median")


@pytest.mark.parametrize(("rate", "said"), [
    (10.0, ""), (9.99, ""), (10.1, "10.1 GB/s is impossible: no device exceeds 10"),
])  # fmt: skip
def test_a_rate_above_that_of_every_device_is_impossible(rate: float, said: str) -> None:
    assert foreign.beyond(rate, 10.0) == said


@pytest.mark.parametrize(
    ("checks", "passed"), [([True, True], True), ([True, False], False), ([False], False), ([], False)]
)
def test_a_document_is_verified_if_all_its_comparisons_passed(checks: list[bool], passed: bool) -> None:
    metric = foreign.metric("triad", {"host": 0}, "GB/s", "higher", [1.0], "best")
    found = foreign.document(
        "stream", "site", "STREAM 5.10", ["s"], "n1", ["n1", "n2"], 8, {"size": 1}, [metric],
        [{"what": "x", "passed": one} for one in checks], "none known",
    )  # fmt: skip
    assert found["verification"]["passed"] is passed and found["status"] == "ok"
    assert found["limits"] == {"triad.host": {"unknown": "none known"}}
    assert found["parameters"] == {"implementation": "site", "ranks": 8, "size": 1}
    assert (found["placement"]["ranks"], found["placement"]["nodes"]) == (8, ["n1", "n2"])
    assert found["health"]["available"] is False and found["devices"] == [] and found["host"]["name"] == "n1"
    assert found["started"] == found["finished"] and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["started"])


# ---- nccl-tests


@pytest.mark.parametrize(("benchmark", "two", "four", "eight"), [
    ("all_reduce_perf", 1.0, 1.5, 1.75), ("all_gather_perf", 0.5, 0.75, 0.875),
    ("reduce_scatter_perf", 0.5, 0.75, 0.875),
    ("alltoall_perf", 0.5, 0.75, 0.875), ("broadcast_perf", 1.0, 1.0, 1.0), ("reduce_perf", 1.0, 1.0, 1.0),
    ("gather_perf", 0.5, 0.75, 0.875), ("scatter_perf", 0.5, 0.75, 0.875), ("hypercube_perf", 1.0, 1.0, 1.0),
    ("sendrecv_perf", 1.0, 1.0, 1.0),
])  # fmt: skip
def test_bus_bandwidth_follows_from_the_algorithm(benchmark: str, two: float, four: float, eight: float) -> None:
    name, factor = nccl_tests.BENCHMARKS[benchmark]
    assert name == f"perf_{benchmark.removesuffix('_perf')}"
    assert [factor(ranks) for ranks in (2, 4, 8)] == pytest.approx([two, four, eight])


@pytest.mark.parametrize(("word", "low", "high"), [
    ("12.50", 12.495, 12.505), ("7", 6.5, 7.5), ("0.00", 0.0, 0.005), ("1.5e+02", 145.0, 155.0),
    ("2e3", 1500.0, 2500.0),
    ("3.00e-01", 0.2995, 0.3005),
])  # fmt: skip
def test_printed_numbers_are_intervals(word: str, low: float, high: float) -> None:
    assert nccl_tests._span(word) == pytest.approx((low, high))


def test_a_rate_is_that_of_a_size_and_a_printed_time() -> None:
    assert nccl_tests._rate(1e6, "10.0") == pytest.approx((1e3 / 10.05, 1e3 / 9.95))
    assert nccl_tests._rate(1e6, "0.0") == (pytest.approx(1e3 / 0.05), float("inf"))


@pytest.mark.parametrize(("word", "agrees"), [("10.04", True), ("10.06", False), ("8.96", True), ("8.94", False)])
def test_a_number_follows_from_its_origin_within_its_digits(word: str, agrees: bool) -> None:
    """8.965 to 10.035, and half of the last digit of the number itself."""
    if agrees:
        nccl_tests._follows("busbw", word, (8.965, 10.035), "time")
        return
    with pytest.raises(TenkenError, match=rf"busbw is {word}; time gives 8\.965 to 10\.035"):
        nccl_tests._follows("busbw", word, (8.965, 10.035), "time")


@pytest.mark.parametrize(("first", "last", "step", "sizes", "says"), [
    (8, 128, "4(factor)", [8, 32, 128], None), (8, 128, "60(bytes)", [8, 68, 128], None),
    (8, 128, "4(factor)", [8, 32], "2 lines of results; its first line announces 3 sizes from 8 to 128 bytes"),
    (8, 128, "4(factor)", [8, 32, 128, 512], "4 lines of results; its first line announces 3 sizes"),
    (8, 128, "1(factor)", [8], r"sizes from 8 by 1\(factor\) never end"),
    (8, 128, "0(bytes)", [8], "never end"), (0, 128, "4(factor)", [0], "never end"),
    (8, 128, "4(factor)", [0, 0, 120], None),
    (8, 128, "4(factor)", [8, 32, 129], "the size of line 3 is 129; announced: 128"),
    (8, 128, "4(factor)", [8, 8, 128], "the size 8 follows 8"), (65536, 131072, "2(factor)", [1, 65537], None),
    (65536, 131072, "2(factor)", [1, 65535], "the size of line 2 is 65535; announced: 131072"),
])  # fmt: skip
def test_every_announced_size_occurs_once(first: int, last: int, step: str, sizes: list[int], says: str | None) -> None:
    line = f"# nThread 1 nGpus 4 minBytes {first} maxBytes {last} step: {step} warmup iters: 5 iters: 20 validation: 1"
    asked: Any = nccl_tests._ASKED.search(line)
    if says is None:
        nccl_tests._all_sizes("all_reduce_perf", asked, last, sizes)
        return
    with pytest.raises(TenkenError, match=says):
        nccl_tests._all_sizes("all_reduce_perf", asked, last, sizes)


@pytest.mark.parametrize(("said", "fits"), [
    ("15", True), ("15.005", True), ("14.995", True), ("15.0054", False), ("14.9946", False), ("nan", False),
    ("x", False),
])  # fmt: skip
def test_the_mean_is_that_of_all_lines(said: str, fits: bool) -> None:
    """10.00 and 20.00 with half a digit each, and six digits of the mean."""
    if fits:
        nccl_tests._mean("all_reduce_perf", said, ["10.00", "20.00"])
        return
    with pytest.raises(TenkenError, match="mean bus bandwidth"):
        nccl_tests._mean("all_reduce_perf", said, ["10.00", "20.00"])


def test_a_mean_below_what_its_caller_set_and_wrong_values_without_a_verdict_are_told() -> None:
    text = re.sub(r"(Avg bus bandwidth    : \S+) ", r"\1 FAILED", output())
    with pytest.raises(TenkenError, match=r"the mean bus bandwidth [\d.]+ is below the minimum that its caller set"):
        nccl_tests.parse("all_reduce_perf", text)
    with pytest.raises(TenkenError, match="0 wrong values in its lines, and 'Out of bounds values : 3 OK'"):
        nccl_tests.parse("all_reduce_perf", output().replace("values : 0 OK", "values : 3 OK"))
    found = nccl_tests.parse("all_reduce_perf", output(wrong={1024: 2}))
    assert found.out_of_bounds == 2 and [point.wrong for point in found.points[:2]] == [2, 0]
    assert nccl_tests.parse("all_reduce_perf", output(version="")).version == "nccl-tests"


# ---- HPL


def test_hpl_is_named_by_its_title() -> None:
    assert [hpl.parse(kept(f"hpl-{name}")).version for name in ("netlib", "nvidia")] == [
        "HPLinpack 2.3", "HPL-NVIDIA 24.3.0",
    ]  # fmt: skip


@pytest.mark.parametrize(("seconds", "rate", "fits"), [
    ("61.37", "6.9528e+02", True), ("61.37", "7.090e+02", True),
    ("61.37", "7.100e+02", False), ("61.37", "6.820e+02", True), ("61.37", "6.800e+02", False),
    ("6.137e+01", "6.9528e+02", True), ("61.37", "695.28", True), ("0.00", "6.9528e+02", False),
    ("61.37", "0.0e+00", False),
    ("61.37", "nan", False), ("6.137e+01", "695.28", False),
])  # fmt: skip
def test_the_rate_of_hpl_is_its_operations_in_its_time(seconds: str, rate: str, fits: bool) -> None:
    """40,000^3 x 2 / 3 and 40,000^2 x 1.5 operations in 61.37 s are 695.28 GFLOP/s."""
    text = kept("hpl-netlib").replace("61.37         6.9528e+02", f"{seconds}         {rate}")
    if fits:
        assert hpl.parse(text).results[0].gflops == float(rate)
        return
    with pytest.raises(TenkenError):
        hpl.parse(text)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("              0 tests skipped", "              1 tests skipped",
     "the summary counts 1 tests skipped, the results show 0"),
    ("1 tests completed and passed", "0 tests completed and passed", "counts 0 tests passed, the results show 1"),
    ("0 tests completed and failed", "1 tests completed and failed", "counts 1 tests failed, the results show 0"),
    ("Finished      1", "Finished      2", "1 results but 'Finished 2 tests'"),
    ("||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   2.41190000e-03 ...... PASSED\n", "",
     "the output is cut short"),
])  # fmt: skip
def test_the_summary_of_hpl_counts_its_results(old: str, new: str, says: str) -> None:
    assert old in kept("hpl-netlib")
    with pytest.raises(TenkenError, match=re.escape(says)):
        hpl.parse(kept("hpl-netlib").replace(old, new))


@pytest.mark.parametrize("wrong", ["40.0 ...... FAILED", "0.01 ...... FAILED", "-0.01 ...... PASSED"])
def test_each_of_the_residuals_of_hpl_1_must_pass(wrong: str) -> None:
    line = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   2.41190000e-03 ...... PASSED\n"
    for at in range(3):
        three = [line] * 3
        three[at] = f"{line[: line.index('=')]}= {wrong}\n"
        text = (
            kept("hpl-netlib")
            .replace(line, "".join(three))
            .replace("1 tests completed and p", "0 tests completed and p")
        )
        (one,) = hpl.parse(text.replace("0 tests completed and f", "1 tests completed and f")).results
        assert not one.passed, at


def test_inputs_of_hpl_and_hpcc_have_the_requested_problem() -> None:
    lines = hpl.dat(40000, 256, 2, 4).splitlines()
    assert [lines[at].split()[0] for at in (4, 5, 6, 7, 9, 10, 11, 12)] == [
        "1",
        "40000",
        "1",
        "256",
        "1",
        "2",
        "4",
        "16.0",
    ]
    of_hpcc = hpl.hpcc_input(40000, 256, 2, 4).splitlines()
    assert of_hpcc[:31] == lines and of_hpcc[31].startswith("##### This line (no. 32)")
    assert [line.split()[0] for line in of_hpcc[32:]] == ["0", "1200", "0", "40"]


# ---- STREAM


def stream_of(**changes: str) -> str:
    """Triad: 1.92 GB in 7.072 ms are 271.493 GB/s."""
    row = {"rate": "271493.0", "mean": "0.007150", "least": "0.007072", "most": "0.007400", **changes}
    return re.sub(r"Triad: .*", "Triad:  {rate}  {mean}  {least}  {most}".format(**row), STREAM)


@pytest.mark.parametrize(("changes", "says"), [
    ({}, None), ({"rate": "271780.0"}, None), ({"rate": "271840.0"}, "are 271493"),
    ({"rate": "271140.0"}, "are 271493"),
    ({"mean": "0.007072"}, None), ({"mean": "0.007071"}, "the mean 0.007071 s is outside of 0.007072 to 0.0074 s"),
    ({"mean": "0.0074"}, None), ({"mean": "0.007401"}, "is outside of"), ({"most": "0"}, "finite numbers above 0"),
    ({"least": "-0.007072"}, "finite numbers above 0"), ({"rate": "inf"}, "finite numbers above 0"),
])  # fmt: skip
def test_rates_of_stream_follow_from_its_least_time(changes: dict[str, str], says: str | None) -> None:
    if says is None:
        assert stream.parse(stream_of(**changes)).rates["triad"] == float(changes.get("rate", "271493.0")) / 1e3
        return
    with pytest.raises(TenkenError, match=says):
        stream.parse(stream_of(**changes))


def test_stream_without_a_size_is_bounded_by_every_device() -> None:
    text = STREAM.replace("Array size = 80000000 (elements), Offset", "Arrays, Offset")
    assert stream.parse(text.replace("271500.0", "543000.0")).rates["triad"] == 543.0
    assert stream.parse(text.replace("271500.0", "50000000.0")).rates["triad"] == 50_000.0
    with pytest.raises(TenkenError, match=r"Triad: 50000\.1 GB/s is impossible"):
        stream.parse(text.replace("271500.0", "50000100.0"))
    assert (
        stream.parse(STREAM.replace("uses 8 bytes", "uses few bytes").replace("271500.0", "543000.0")).rates["triad"]
        == 543.0
    )


# ---- perftest and IOR


@pytest.mark.parametrize(("old", "new", "fits"), [
    ("0.743970", "0.744700", True), ("0.743970", "0.744750", False), ("0.743970", "0.743240", True),
    ("0.743970", "0.743200", False), ("0.743970", "0.743", True), ("0.743970", "0.742", False),
    ("0.005865", "0.0059", True), ("0.005865", "0.005900", False),
])  # fmt: skip
def test_a_bandwidth_is_that_of_its_messages_within_a_thousandth(old: str, new: str, fits: bool) -> None:
    """0.743970 million messages of 64 KiB and 46,498.11 MiB/s are 48.757 GB/s; half a digit more of either."""
    if fits:
        perftest.parse("RDMA_Write BW", PERFTEST.replace(old, new))
        return
    with pytest.raises(TenkenError, match="its messages a second are"):
        perftest.parse("RDMA_Write BW", PERFTEST.replace(old, new))


@pytest.mark.parametrize(("figures", "fits"), [
    ([1.0, 3.0, 2.0], True), ([1.0, 3.0, 1.0], True), ([1.0, 3.0, 3.0], True), ([1.0, 3.0, 0.9], False),
    ([1.0, 3.0, 3.1], False), ([0.0, 3.0, 2.0], False), ([1.0, 3.0, 2.0, 2.5, 0.1], True),
    ([1.0, 3.0, 2.0, 3.1, 0.1], False),
    ([1.0, 3.0, 2.0, 0.9, 0.1], False),
])  # fmt: skip
def test_typical_and_mean_latency_lie_between_least_and_longest(figures: list[float], fits: bool) -> None:
    if fits:
        assert perftest._latency("x", figures) == figures[2]
        return
    with pytest.raises(TenkenError, match="outside of least and longest"):
        perftest._latency("x", figures)


@pytest.mark.parametrize(
    ("seconds", "fits"), [(1.0, True), (1.0099, True), (0.9901, True), (1.0102, False), (0.9898, False)]
)
def test_rate_and_time_of_ior_are_its_size_within_a_hundredth(seconds: float, fits: bool) -> None:
    """Four blocks of 256 MiB at 1,024 MiB/s."""
    columns = ["access", "bw(MiB/s)", "block(KiB)", "total(s)"]
    text = f"write 1024.00 262144 {seconds}\nSummary of all tests:\nwrite 1 1 1"
    if fits:
        assert ior._rows(text, columns, 4) == [("write", 2**30, pytest.approx(1.073741824))]
        return
    with pytest.raises(TenkenError, match="in its time 4 blocks moved"):
        ior._rows(text, columns, 4)


def test_tasks_of_ior_are_rounded_up_to_nodes() -> None:
    text = IOR.replace("nodes               : 1\n", "")
    assert ior.parse(text.replace("clients per node    : 4", "clients per node    : 3")).nodes == 2
    (mib,) = {round(rate / ior._GB, 2) for rate in ior.parse(IOR).write[:1]}
    assert mib == 349.49


# ---- nvbandwidth and gpu-burn


@pytest.mark.parametrize(("rows", "total", "square", "expected"), [
    ([["1.50", "2.50"]], "4.00", False, (1.5, 2.5)), ([["0.00", "2.50"], ["3.50", "0.00"]], "6.00", True, (2.5, 3.5)),
    ([["N/A", "2.50"], ["3.50", "N/A"]], "6.00", True, (2.5, 3.5)), ([["1.50", "2.50"]], "4.02", False, None),
    ([["1.50", "0.00"], ["3.50", "1.00"]], "6.00", True, None), ([["0.00"]], "0.00", False, None),
    ([], "0", False, None),
    ([["1", "2"], ["3"]], "6", True, None), ([["N/A"]], "0.00", False, None), ([["-1.00"]], "-1.00", False, None),
    ([["60000.00"]], "60000.00", False, None), ([["1.00"]], "x", False, None),
])  # fmt: skip
def test_a_matrix_has_the_sum_that_is_printed(rows: Any, total: str, square: bool, expected: Any) -> None:
    if expected:
        assert nvbandwidth._values("device_local_copy", rows, total, square) == expected
        return
    with pytest.raises(TenkenError, match="device_local_copy: "):
        nvbandwidth._values("device_local_copy", rows, total, square)


def test_of_three_matrices_of_json_the_last_is_that_of_both_directions() -> None:
    import json

    def of(matrix: Any, total: float) -> Any:
        case = {"name": "device_to_device_bidirectional_memcpy_read_ce", "status": "Passed", "bandwidth_matrix": matrix}
        document = {"nvbandwidth": {"version": "v0.8", "testcases": [{**case, "sum": total}]}}
        return nvbandwidth.parse(json.dumps(document)).tests["device_to_device_bidirectional_memcpy_read_ce"]

    one, other, both = ([["N/A", f"{x}.0"], [f"{x}.0", "N/A"]] for x in (1, 2, 3))
    assert of([*one, *other, *both], 6.0) == (3.0, 3.0) and of(one, 2.0) == (1.0, 1.0)
    assert of([["5.0", "6.0"]], 11.0) == (5.0, 6.0), "of the host"
    with pytest.raises(TenkenError, match="no bandwidth_matrix"):
        of([], 0.0)
    text = NVBANDWIDTH.replace("SUM device_local_copy 2612.50", "SUM device_local_copy_other 2612.50")
    with pytest.raises(TenkenError, match="SUM device_local_copy_other in the part of device_local_copy"):
        nvbandwidth.parse(text)


@pytest.mark.parametrize(("products", "rate", "seconds"), [
    (0, 0.0, 80), (1496, 49_800.0, 30), (1497, 49_800.0, None), (0, 100_000.0, 20),
])  # fmt: skip
def test_a_run_must_be_long_enough_for_two_batches(products: int, rate: float, seconds: int | None) -> None:
    """499 products of 8192 rows are 549 TFLOP; twice of it at 49.8 TFLOP/s takes 22 s."""
    text = GPU_BURN.replace("performing 281", "performing 499")
    said = gpu_burn._short(text, products, rate)
    assert (f"; {seconds} s suffice" in said) if seconds else said == ""
    assert gpu_burn._short(text.replace("performing 499", "x"), products, rate) == ""


def test_a_run_without_a_report_is_advised_to_be_longer() -> None:
    """25 products take 8 s at 3.4 TFLOP/s, and at the assumed 14 they do not."""
    text = "Burning for 10 seconds.\nResults are 268435456 bytes each, thus performing 25 iterations\n"
    assert "; 20 s suffice" in gpu_burn._short(text, 0, 0.0)
    assert "; 10 s suffice" in gpu_burn._short(text.replace("for 10", "for 5"), 0, 0.0)
