"""nvbandwidth, gpu-burn, dcgmi diag, perftest, STREAM: their output, and the correct result.

The texts have the lines of the programs' own print statements; the figures are invented.
"""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from tenken.errors import TenkenError
from tenken.parsers import dcgm, gpu_burn, ior, nvbandwidth, perftest, stream
from tests.unit.parsers.test_outputs import kept

NVBANDWIDTH = kept("nvbandwidth-two-gpus")


def as_json(text: str) -> str:
    """The same as `-j` prints it."""
    cases: list[dict[str, object]] = []
    for part in text.split("Running ")[1:]:
        name, _, rest = part.partition(".\n")
        cases.append({"name": name, "status": "Running"})
        rows = [line.split()[1:] for line in rest.splitlines() if line[:2].strip().isdecimal() and "." in line]
        total = float(rest.rpartition("SUM ")[2].split()[1])
        cases[-1] |= {"status": "Passed", "bandwidth_matrix": rows, "sum": total}
        cases += [{"name": "device_to_device_latency_sm", "status": "Waived"}] if "Waived" in rest else []
    return json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": cases}}, indent=3) + "\n"


def test_nvbandwidth_gives_the_slowest_gpu_or_pair() -> None:
    found = nvbandwidth.parse(NVBANDWIDTH)
    assert found.worst() == {
        "host_to_device_memcpy_ce": 54.98, "device_to_host_memcpy_ce": 55.60, "device_local_copy": 1302.50,
        "device_to_device_bidirectional_memcpy_read_ce": 720.60, "host_device_latency_sm": 641.90,
    }  # fmt: skip
    assert found.version == "0.8"
    of_json = nvbandwidth.parse("Build of node1\n" + as_json(NVBANDWIDTH))
    assert (of_json.worst(), of_json.waived) == (found.worst(), ("device_to_device_latency_sm",))
    # with one GPU there is no pair to measure
    one = NVBANDWIDTH.replace("N/A    720.60", "N/A").replace("720.60       N/A", "N/A")
    with pytest.raises(TenkenError):
        nvbandwidth.parse(one)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("54.98", "0.00", "allowed: numbers above 0"),
    ("54.98", "nan", "allowed: finite numbers"),
    ("54.98", "fast", "'fast' in its matrix is not a number"),
    ("(column) bandwidth (GB/s)", "(column) bandwidth (MB/s)", r"its title .* required: \(GB/s\)"),
    ("(column) (ns)", "(column) (us)", r"host_device_latency_sm: its title .* required: \(ns\)"),
    ("54.98", "64.98", "SUM 110.23; that of its matrix is 120.23"),
    ("SUM device_local_copy 2612.50", "", "device_local_copy: no line 'SUM"),
    ("NOTE: The reported", "The reported", "did not run to its end"),
    ("Running device_local_copy", "Running device_to_host_memcpy_ce", "printed twice"),
    ("Waived: \n", "Error: Error in checking pattern\n", "it reports an error"),
    ("Waived: \n", " Invalid value when checking the pattern at 0x7f\n", "it reports an error"),
    ("Waived: \n", "[CUDA_ERROR_OUT_OF_MEMORY] out of memory in expression cuMemAlloc()\n", "it reports an error"),
])  # fmt: skip
def test_nvbandwidth_that_is_wrong_is_refused(old: str, new: str, says: str) -> None:
    assert old in NVBANDWIDTH
    with pytest.raises(TenkenError, match=says):
        nvbandwidth.parse(NVBANDWIDTH.replace(old, new))


def test_a_library_that_the_loader_ignores_is_no_error_and_no_cause() -> None:
    line = (
        "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored."
    )
    assert nvbandwidth.parse(f"{line}\n{NVBANDWIDTH}") == nvbandwidth.parse(NVBANDWIDTH)
    with pytest.raises(TenkenError, match=r"did not run to its end$"):
        nvbandwidth.parse(f"{line}\n{NVBANDWIDTH.partition('NOTE: ')[0]}")


def test_sums_of_nvbandwidth_belong_to_their_test() -> None:
    for lost, says in (
        ("Running host_device_latency_sm.\n", r"device_local_copy: its title .*; required: \(GB/s\)"),
        ("Running device_to_host_memcpy_ce.\n", "SUM device_to_host_memcpy_ce in the part of host_to_device_memcpy_ce"),
        ("Running host_to_device_memcpy_ce.\n", "SUM host_to_device_memcpy_ce in the part of no test"),
        ("SUM device_to_device_bidirectional_memcpy_read_ce_total 1441.20\n", "no line 'SUM"),
    ):
        with pytest.raises(TenkenError, match=says):
            nvbandwidth.parse(NVBANDWIDTH.replace(lost, ""))
    twice = "SUM device_local_copy 2612.50\n"
    with pytest.raises(TenkenError, match="two lines 'SUM'"):
        nvbandwidth.parse(NVBANDWIDTH.replace(twice, twice * 2))


def test_nvbandwidth_of_2026_has_more_test_cases_and_a_line_of_variation() -> None:
    text = NVBANDWIDTH.replace("v0.8", "v0.10.0").replace("(row)", "(row)").replace(
        "SUM device_local_copy 2612.50\n",
        "SUM device_local_copy 2612.50\nCOEFFICIENT_OF_VARIATION device_local_copy 0.00\n",
    )  # fmt: skip
    latency = (
        "Running device_to_device_latency_tma.\nmemory latency TMA GPU(row) <-> GPU(column) (ns)\n"
        "           0         1\n 0       N/A    801.50\n 1    799.00       N/A\n\n"
        "SUM device_to_device_latency_tma 1600.50\nCOEFFICIENT_OF_VARIATION device_to_device_latency_tma 0.01\n\n"
    )
    found = nvbandwidth.parse(text.replace("Waived: \n", latency)).worst()
    assert (found["device_local_copy"], found["device_to_device_latency_tma"]) == (1302.50, 801.50)
    assert set(found) <= {*nvbandwidth.HOST_TESTS, *nvbandwidth.PAIR_TESTS}


@pytest.mark.parametrize(("old", "new", "says"), [
    ('"status": "Passed"', '"status": "Error"', "status Error; allowed: Passed, Waived"),
    ('"status": "Passed"', '"status": "Running"', "status Running; allowed"),
    ('"version": "v0.8",', '"version": "v0.8", "error": "no GPU",', "it reports an error: 'no GPU'"),
    ('"54.98"', '"nan"', "allowed: finite numbers"),
    ('"status": "Passed",', '"status": "Passed", "bandwidth_description": "copy (MB/s)",', r"required: \(GB/s\)"),
    ('"sum": 110.23', '"sum": 210.23', "SUM 210.23"),
    ('"name": "host_to_device_memcpy_ce"', '"name": ""', "a test case without a name"),
    ("]\n   }\n}\n", "", "cannot be read, or is cut short"),
])  # fmt: skip
def test_json_of_nvbandwidth_that_is_wrong_is_refused(old: str, new: str, says: str) -> None:
    text = as_json(NVBANDWIDTH)
    assert old in text
    with pytest.raises(TenkenError, match=says):
        nvbandwidth.parse(text.replace(old, new))


GPU_BURN = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
Using compare file: compare.fatbin
Burning for 23 seconds.
Initialized device 0 with 81089 MB of memory (80502 MB available, using 72452 MB of it), using FLOATS
Results are 268435456 bytes each, thus performing 281 iterations
\r10.0%  proc'd: 0 (0 Gflop/s) - 0 (0 Gflop/s)   errors: 0 - 0   temps: 41 C - 40 C \
\r55.0%  proc'd: 562 (49800 Gflop/s) - 562 (50100 Gflop/s)   errors: 0 - 0   temps: 55 C - 54 C
\tSummary at:   Mon Mar  2 10:00:10 UTC 2026

\r100.0%  proc'd: 1124 (49900 Gflop/s) - 1124 (50300 Gflop/s)   errors: 0 - 0   temps: 58 C - 57 C
Killing processes with SIGTERM (soft kill)
done

Tested 2 GPUs:
\tGPU 0: OK
\tGPU 1: OK
"""


def test_two_batches_of_gpu_burn_read_at_once_are_no_impossible_rate() -> None:
    """gpu_burn-drv.cpp divides by the time since the previous read, which may be a few us."""
    late = "\r70.0%  proc'd: 843 (98000000000 Gflop/s) - 843 (50200 Gflop/s)   errors: 0 - 0   temps: 56 C - 55 C \n"
    found = gpu_burn.parse(GPU_BURN.replace("\r100.0%", f"{late}\r100.0%"))
    assert found.rates == (49900, 50200)


def test_a_rate_of_gpu_burn_counts_once_until_the_next_report() -> None:
    """As on a K80 (wilicc/gpu-burn#8), whose first report was printed twice; of several GPUs each line repeats all."""
    again = "\r70.0%  proc'd: 562 (49800 Gflop/s) - 843 (50200 Gflop/s)   errors: 0 - 0   temps: 56 C - 55 C \n"
    assert gpu_burn.parse(GPU_BURN.replace("\r100.0%", f"{again}\r100.0%")).rates == (49850.0, 50200.0)


def test_gpu_burn_gives_rates_states_and_errors_of_each_gpu() -> None:
    found = gpu_burn.parse(GPU_BURN)
    assert (found.states, found.rates, found.errors) == (("OK", "OK"), (49850.0, 50200.0), (0, 0))
    bad = GPU_BURN.replace("errors: 0 - 0   temps: 58", "errors: 0 - 12  (WARNING!)  temps: 58").replace(
        "GPU 1: OK", "GPU 1: FAULTY"
    )
    found = gpu_burn.parse(bad)
    assert (found.states, found.errors) == (("OK", "FAULTY"), (0, 12))
    # a report counts the errors since the previous one
    assert gpu_burn.parse(bad.replace("errors: 0 - 0   temps: 55", "errors: 0 - 40  (WARNING!)  temps: 55")).errors == (
        0,
        40,
    )
    died = bad.replace("- 1124 (50300 Gflop/s)", "- -1 (0 Gflop/s)").replace("12  (WARNING!)", "-1  (DIED!)")
    assert gpu_burn.parse(died).errors == (0, 1)
    # if a GPU died, the number is arbitrary; after a note the blank before the hyphen is missing
    first = GPU_BURN.replace("errors: 0 - 0   temps: 58", "errors: 0  (DIED!)- -524288000  (WARNING!)  temps: --")
    assert gpu_burn.parse(first).errors == (1, 524288000)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("Tested 2 GPUs:", "", "did not run to its end"),
    ("\tGPU 1: OK\n", "", "1 lines 'GPU i: OK' of 2 GPUs"),
    ("(49900 Gflop/s)", "(nan Gflop/s)", "nan Gflop/s; allowed: whole numbers"),
    ("Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK", "Tested 1 GPUs:\n\tGPU 0: OK", "a line of progress of 2 GPUs"),
    ("Tested 2 GPUs", "Tested 0 GPUs", "of 0 GPUs"),
    ("100.0%", "50.0%", "50 % follows 55 %"),
    ("100.0%", "100000.0%", "3 reports of progress, 2 can be read"),
    ("54 C\n", "54 C 60.0%  proc'd: 562 (0 Gflop/s) - 1 (0 Gflop/s)", "4 reports of progress, 3 can be read"),
    ("100.0%", "101.0%", "101 %; allowed: 0 to 100"),
    ("1124 (49900", "-1124 (49900", "GPU 0: -1124 products after 562"),
    # rates in another unit, or of a GPU that claims twice its work: the products do not take the time that passed
    ("49800 Gflop/s) - 562 (50100", "49 Gflop/s) - 562 (50", "GPU 0: its 1124 products .* take .* s; they"),
    ("562 (49800 Gflop/s) - 562", "2562 (49800 Gflop/s) - 562", "GPU 0: 1124 products after 2562"),
    ("49900 Gflop/s) - 1124 (50300", "499000 Gflop/s) - 1124 (503000", "GPU 0: its 1124 products at the rates"),
])  # fmt: skip
def test_gpu_burn_that_is_cut_or_contradicts_itself_is_refused(old: str, new: str, says: str) -> None:
    assert old in GPU_BURN
    with pytest.raises(TenkenError, match=says):
        gpu_burn.parse(GPU_BURN.replace(old, new))


def test_a_run_too_short_for_a_report_says_how_long_it_must_be() -> None:
    # as on two H200: GPU 1 reported its first batch just before the end of 10 s, GPU 0 did not
    short = GPU_BURN.replace("performing 281", "performing 499")
    head, _, rest = short.partition("\r10.0%")
    tail = rest[rest.index("Killing") :]
    one = "\r100.0%  proc'd: 0 (0 Gflop/s) - 499 (49800 Gflop/s)   errors: 0 - 0   temps: 41 C - 40 C \n"
    said = "GPU 0 is OK, but no report .*the run was too short, since a GPU reports only after 499 products .*; 30 s s"
    with pytest.raises(TenkenError, match=said):
        gpu_burn.parse(head + one + tail)
    with pytest.raises(TenkenError, match=r"no line of progress .*too short.*; 80 s suffice"):
        gpu_burn.parse(head + tail)


def test_a_gpu_that_computed_nothing_is_not_ok() -> None:
    idle = GPU_BURN.replace("562 (50100", "0 (0").replace("1124 (50300", "0 (0")
    with pytest.raises(TenkenError, match="GPU 1 is OK, but no report has a rate of it above 0: it computed nothing"):
        gpu_burn.parse(idle)
    with pytest.raises(TenkenError, match=r"two runs in one|2 lines"):
        gpu_burn.parse(GPU_BURN + GPU_BURN)


# ---- dcgmi diag


def of_dcgm3(**status: str) -> str:
    """The JSON of DCGM 3: tests by category, some with GPUs."""
    tests = {"Denylist": "Pass", "PCIe": "Pass", "GPU Memory": "Pass", "Targeted Stress": "Skip", **status}

    def result(name: str) -> dict[str, object]:
        bad = {"error_id": 12, "warnings": "GPU 1's memory has a pending page retirement"}
        return {"gpu_ids": "1", "status": tests[name], **(bad if tests[name] in ("Fail", "Warn") else {})}

    whole = {
        "DCGM GPU Diagnostic": {
            "test_categories": [
                {"category": "Deployment", "tests": [{"name": "Denylist", "results": [{"status": tests["Denylist"]}]}]},
                {"category": "Hardware", "tests": [{"name": one, "results": [result(one)]} for one in [*tests][1:]]},
            ]
        },
        "version": "3.3.5",
    }
    return "Successfully ran diagnostic\n" + json.dumps(whole, indent=1) + "\n"


def of_dcgm4(**status: str) -> str:
    """The JSON of DCGM 4: entities, warnings as objects, a summary of each test."""
    tests = {"software": "Pass", "pcie": "Pass", "memory": "Pass", "targeted_stress": "Skip", **status}

    def result(name: str) -> dict[str, object]:
        bad = [{"error_category": 7, "error_id": 12, "error_severity": 2, "warning": "memory of GPU 1 is bad"}]
        one = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 1, "status": tests[name]}
        return one | ({"warnings": bad} if tests[name] in ("Fail", "Warn") else {})

    listed = [{"name": one, "results": [result(one)], "test_summary": {"status": tests[one]}} for one in tests]
    categories = [{"category": "Hardware", "tests": listed}]
    whole = {"DCGM Diagnostic": {"test_categories": categories}, "metadata": {"version": "4.2.3"}}
    return json.dumps(whole, indent=1)


@pytest.mark.parametrize(("text", "version", "failed"), [
    (of_dcgm3(), "3.3.5", []),
    (of_dcgm4(), "4.2.3", []),
    (of_dcgm3(**{"GPU Memory": "Fail"}), "3.3.5",
     ["GPU Memory GPU 1: Fail, error 12: GPU 1's memory has a pending page retirement"]),
    (of_dcgm4(memory="Fail"), "4.2.3", ["memory GPU 1: Fail, error 12: memory of GPU 1 is bad"]),
])  # fmt: skip
def test_each_test_of_dcgmi_diag_has_a_state_and_the_vendors_code(text: str, version: str, failed: list[str]) -> None:
    found = dcgm.parse(text)
    assert (found.version, [test.told() for test in found.of("Fail")]) == (version, failed)
    assert len(found.of("Skip")) == 1 and len(found.tests) == 4


def test_what_was_not_run_and_errors_of_passed_tests_of_dcgmi_diag_are_told() -> None:
    """As DCGM 3 writes Deployment (`null` between tests, a warning called `warnings`), and GPUs that did not run."""
    deployment = json.dumps([
        {"name": "Denylist", "results": [{"gpu_ids": "0,1", "status": "PASS"}]}, None,
        {"name": "Persistence Mode", "results": [
            {"status": "Fail", "gpu_id": 0, "warnings": [{"error_id": 29, "warnings": "Persistence mode is off"}]}]},
        {"name": "PCIe", "results": [None, {"gpu_id": "1", "status": "Pass", "info": ["GPU to Host: 55 GB/s"]}]},
    ])  # fmt: skip
    found = dcgm.parse(
        '{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": ' + deployment + "}]}}"
    )
    assert [test.told() for test in found.tests] == [
        "Denylist GPU 0,1: Pass", "Persistence Mode GPU 0: Fail, error 29: Persistence mode is off",
        "PCIe: Skip", "PCIe GPU 1: Pass: GPU to Host: 55 GB/s",
    ]  # fmt: skip
    # DCGM 4: a name alone was not run; an error of no entity is in the summary; a test that passed has an error
    error = {"error_id": 3, "warning": "no memory allocated"}
    tests = [
        {"name": "eud"}, {"name": "memory", "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}],
                          "test_summary": {"status": "Pass", "warnings": [error]}},
    ]  # fmt: skip
    found = dcgm.parse(json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}))
    assert [test.told() for test in found.tests] == [
        "eud: Skip", "memory GPU 0: Pass", "memory: Warn, error 3: no memory allocated",
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), [
    ("Error: unable to establish a connection to the specified host: localhost", "no JSON"),
    (of_dcgm4()[:200], "cannot be read, or is cut short"),
    (of_dcgm4() + "\n" + of_dcgm4(), "two documents"),
    (of_dcgm4(memory="Maybe"), "status 'Maybe'; allowed: Fail, Pass, Skip, Warn"),
    ('{"DCGM Diagnostic": {"runtime_error": "no GPU", "test_categories": []}}', "it reports an error: 'no GPU'"),
    ('{"DCGM Diagnostic": {"test_categories": []}}', "no test has a result"),
    ('{"DCGM Diagnostic": {"test_categories": 7}}', "test_categories is not a list"),
    ('{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory", "results": []}]}]}}', "no result"),
    (of_dcgm4().replace('"entity_id": 1', '"entity_id": -1', 1), "GPU '-1'; allowed: whole numbers, 0 or above"),
    (of_dcgm3().replace('"gpu_ids": "1"', '"gpu_ids": "nan"', 1), "GPU 'nan'; allowed: whole numbers, 0 or above"),
    ('{"other": 1}', "has no DCGM GPU Diagnostic or DCGM Diagnostic"),
])  # fmt: skip
def test_what_is_no_diagnostic_is_refused(text: str, says: str) -> None:
    with pytest.raises(TenkenError, match=says):
        dcgm.parse(text)


# ---- perftest


PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
 Number of qps   : 1            Transport type : IB
---------------------------------------------------------------------------------------
 local address: LID 0x01 QPN 0x0127 PSN 0x5f1c2d RKey 0x1fffbd VAddr 0x007f
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 2          5000             8.01               7.95                   4.168089
 65536      5000             46512.20           46498.11               0.743970
 8388608    5000             46920.10           46918.55               0.005865
---------------------------------------------------------------------------------------
"""
IN_GBITS = PERFTEST.replace("MiB/sec", "Gb/sec").replace("46512.20           46498.11", "390.20             390.05")
IN_GBITS = IN_GBITS.replace("8.01               7.95 ", "0.067              0.066689").replace(
    "46920.10           46918.55", "393.60             393.58  "
)
LATENCIES = """\
                    RDMA_Read Latency Test
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile
 2       1000          1.62           5.10         1.68                1.69           0.05            1.90
 4096    1000          2.31           6.20         2.40                2.41           0.06            2.70
---------------------------------------------------------------------------------------
"""
writes = partial(perftest.parse, "RDMA_Write BW")
latencies = partial(perftest.parse, "RDMA_Read Latency")


def test_perftest_gives_means_and_typical_latencies() -> None:
    assert [point.value for point in writes(PERFTEST)][1:] == [
        pytest.approx(46498.11 * 2**20 / 1e9), pytest.approx(46918.55 * 2**20 / 1e9),
    ]  # fmt: skip
    assert writes(IN_GBITS)[1].value == pytest.approx(390.05 / 8)
    assert [(point.bytes, point.value) for point in latencies(LATENCIES)] == [(2, 1.68), (4096, 2.40)]
    # before 2016 without means; two decimals of Gb/s, lines of its clock among them, no peak (-D)
    old = re.sub(r"    t_avg.*|(1\.68|2\.40) .*", r"\1", LATENCIES)
    assert "t_avg" not in old and latencies(old) == latencies(LATENCIES)
    timed = "RDMA_Write BW Test\n"
    timed += " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n{}" + "-" * 87 + "\n"
    clock = " Conflicting CPU frequency values detected: 1496.133000 != 1529.788000. CPU Frequency is not max.\n"
    rows = " 8          224958464        0.00               0.48   \t\t   7.498617\n"
    assert writes(timed.format(clock + rows))[0].value == pytest.approx(0.06)
    slow = " 2          5000             0.00               0.00   \t\t   0.250000\n"
    assert writes(timed.format(slow))[0].value == pytest.approx(0.0005)


@pytest.mark.parametrize(("title", "found"), [
    ("RDMA_Write Bidirectional BW Test", "RDMA_Write Bidirectional BW"), ("Send BW Test", "Send BW"),
    ("RDMA_Read BW Test", "RDMA_Read BW"), ("Atomic FETCH_AND_ADD BW Test", "Atomic FETCH_AND_ADD BW"), ("", "missing"),
    ("RDMA_Write BW Test\n RDMA_Read BW Test", "RDMA_Write BW, RDMA_Read BW"),
])  # fmt: skip
def test_another_test_of_perftest_is_refused(title: str, found: str) -> None:
    """In both directions at once, or of another verb, a rate is not that of writes from one node to another."""
    with pytest.raises(TenkenError, match=f"title {found}; required: RDMA_Write BW Test"):
        writes(PERFTEST.replace("RDMA_Write BW Test", title))
    with pytest.raises(TenkenError, match="title RDMA_Write BW; required: RDMA_Read Latency Test"):
        latencies(PERFTEST)
    assert writes(PERFTEST.replace("Write BW", "Write Post List BW")) == writes(PERFTEST)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("46498.11", "nan", "finite numbers of every column"),
    (" 2          5000", " NaN        5000", "sizes and iterations must be finite"),
    (" 2          5000", " 2          inf", "sizes and iterations must be finite"),
    ("46498.11", "93498.11", "its messages a second are"),
    ("46498.11", "0.00", "its messages a second are 48.76 GB/s, printed: 0"),
    ("7.95                   4.168089", "0.00                   0.000000", "must be above 0"),
    (" 8388608 ", " 4096 ", "sizes must rise"),
    (" 8388608 ", " 8388608.5 ", "sizes must rise"),
    (" 65536      5000", " 65536      0", "sizes must rise"),
    ("0.743970", "", "finite numbers of every column"),
    (" #bytes     #iterations", " #bytes", "0 lines '#bytes"),
    (" local address", " Couldn't connect to node1:18515\n local address", "it reports an error"),
    ("Dual-port       : OFF", "Dual-port       : ON ", "those of two ports"),
    (" local address", " Completion with error at client\n local address", "it reports an error"),
])  # fmt: skip
def test_perftest_that_is_wrong_is_refused(old: str, new: str, says: str) -> None:
    assert old in PERFTEST
    with pytest.raises(TenkenError, match=says):
        writes(PERFTEST.replace(old, new))
    with pytest.raises(TenkenError, match=r"1 is required|no ruler"):
        writes(PERFTEST.rsplit("\n---", 1)[0])


def test_the_rulers_of_open_mpi_do_not_end_perftests_results() -> None:
    whole = LATENCIES.rstrip().rpartition("\n")[0]
    for ruler in ("", f"{'-' * 74}\nmpirun noticed that process rank 1 exited\n{'-' * 74}\n"):
        with pytest.raises(TenkenError, match="no ruler after the results"):
            latencies(f"{whole}\n{ruler}")


@pytest.mark.parametrize("line", [
    " Couldn't allocate MR", " Failed to modify QP 0x1a2 to RTR", " Unable to init the socket connection",
    " Completion with error at server", " Event mode is not supported on this device", " Problem in pp_connect_ctx",
    " Did not detect devices",
])  # fmt: skip
def test_each_way_in_which_perftest_gives_up_is_told(line: str) -> None:
    with pytest.raises(TenkenError, match="it reports an error"):
        writes(PERFTEST.replace(" local address", f"{line}\n local address", 1))


@pytest.mark.parametrize("said", [
    "FAILED (client) - 3 error(s), first at QP 0, Chunk 1, Offset 64 (expected 0x01, got 0x02)",
    "ERROR - not initialized", "WARNING - no data validated",
])  # fmt: skip
def test_data_that_perftest_found_wrong_are_told(said: str) -> None:
    """With --data_validation (2026), after the results; its exit status may be 0 (src/write_bw.c)."""
    assert writes(f"{PERFTEST}VALIDATION: PASSED (client) - 24 chunks, 201326592 bytes\n") == writes(PERFTEST)
    with pytest.raises(TenkenError, match=f"it reports an error: 'VALIDATION: {said[:6]}"):
        writes(f"{PERFTEST}VALIDATION: {said}\n")


@pytest.mark.parametrize("line", [
    " new post send flow is not supported, falling back to ibv_post_send",
    "Warning: Failed to migrate memory to node 1", "Warning: Blueflame is not supported in the system",
    "Scatter2CQE (size <= 64) is not supported with device memory send tests: setting MLX5_SCATTER_TO_CQE=0",
])  # fmt: skip
def test_what_perftest_warns_of_or_replaces_is_no_error(line: str) -> None:
    assert writes(PERFTEST.replace(" local address", f"{line}\n local address", 1)) == writes(PERFTEST)


@pytest.mark.parametrize("line", [
    "WARNING: Incorrect data on read (2 errors found).", "ior WARNING: incorrect data on write (4 errors found).",
    "FAILED comparison of buffer containing 8-byte ints:", "WARNING: inconsistent file size by different tasks.",
    "WARNING: Expected aggregate file size       = 1073741824.",
])  # fmt: skip
def test_each_way_in_which_ior_finds_wrong_data_is_told(line: str) -> None:
    text = kept("ior-two-tests")
    assert ior.parse(text).wrong == ""
    told = ior.parse(text.replace("Finished  ", f"{line}\nFinished  ", 1))
    assert told.wrong == " ".join(line.split())


# ---- STREAM


STREAM = """\
-------------------------------------------------------------
STREAM version $Revision: 5.10 $
-------------------------------------------------------------
This system uses 8 bytes per array element.
-------------------------------------------------------------
Array size = 80000000 (elements), Offset = 0 (elements)
Number of Threads counted = 64
-------------------------------------------------------------
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:          256000.0     0.005100     0.005000     0.005300
Scale:         250000.0     0.005200     0.005120     0.005400
Add:           270000.0     0.007200     0.007111     0.007400
Triad:         271500.0     0.007150     0.007072     0.007400
-------------------------------------------------------------
Solution Validates: avg error less than 1.000000e-13 on all three arrays
-------------------------------------------------------------
"""


def test_stream_gives_best_rates_of_right_arrays() -> None:
    found = stream.parse(STREAM)
    assert found.rates == {"copy": 256.0, "scale": 250.0, "add": 270.0, "triad": 271.5}
    assert found.version == "5.10"


def test_stream_59_prints_fewer_decimals_and_no_error() -> None:
    old = re.sub(r"(\d\.\d{4})\d\d", r"\1", STREAM).replace("5.10", "5.9").replace(" (elements)", "")
    old = old.replace("array element", "DOUBLE PRECISION word").replace("Best Rate MB/s", "Rate (MB/s)  ")
    old = re.sub("Validates:.*", "Validates", old)
    assert stream.parse(old).rates == stream.parse(STREAM).rates
    for wrong in (old.replace("271500.0", "281500.0"), old[: old.index("Validates") + 9]):
        with pytest.raises(stream.StreamFormatError):
            stream.parse(wrong)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("Best Rate MB/s", "Best Rate GB/s", "required: a rate in MB/s"),
    ("Solution Validates: avg", "Failed Validation on array a[], AvgRelAbsErr > epsilon\navg", "its arrays are wrong"),
    ("Solution Validates", "Solution", "not checked"),
    ("Triad: ", "Quad: ", "rows of Copy, Scale, Add"),
    ("271500.0", "543000.0", "Triad: 543000 MB/s"),
    ("271500.0", "nan", "allowed: finite numbers above 0"),
    ("0.007150", "0.001150", "the mean 0.00115 s is outside of"),
    ("271500.0", "271,500.0", "not numbers"),
    ("STREAM version $Revision: 5.10 $", "STREAM", "0 lines 'STREAM version"),
    ("STREAM version", "CUDA_STREAM based on STREAM version", "0 lines 'STREAM version"),
    ("5.10 $", "5.10 $ (port)", "0 lines 'STREAM version"),
])  # fmt: skip
def test_stream_that_is_wrong_is_refused(old: str, new: str, says: str) -> None:
    assert old in STREAM
    with pytest.raises(TenkenError, match=says):
        stream.parse(STREAM.replace(old, new))
    with pytest.raises(TenkenError, match="2 lines 'STREAM version"):
        stream.parse(STREAM + STREAM)


IOR = kept("ior-two-tests")


def test_ior_gives_every_repetition_of_all_tasks_together() -> None:
    """64 MiB in 0.183126 s are 0.36647 GB/s; the verified read is not a sample."""
    found = ior.parse(IOR)
    assert (found.version, found.nodes, found.tasks, found.bytes) == ("4.1.0+dev", 1, 4, 67108864)
    assert found.write == pytest.approx((0.36647, 0.57840, 1.19856), rel=1e-4)
    assert found.read == pytest.approx((3.36081, 6.22854, 4.21318), rel=1e-4)


def test_a_task_of_ior_has_a_block_in_each_segment() -> None:
    """As in outputs of IO500 (IO500/submission-data), whose IOR writes 132000 segments of 47008 bytes."""
    text = re.sub(r"segments            : 1$", "segments            : 4", IOR, flags=re.M)
    found = ior.parse(re.sub(r" 16384 ", " 4096  ", text))
    assert (found.bytes, found.write) == (67108864, ior.parse(IOR).write)
    with pytest.raises(TenkenError, match="in its time 16 blocks moved"):
        ior.parse(text)


def test_ior_3_2_states_the_tasks_of_a_node_and_not_the_nodes() -> None:
    text = IOR.replace("nodes               : 1\n", "")
    assert ior.parse(text).nodes == 1
    assert ior.parse(text.replace("clients per node    : 4", "clients per node    : 2")).nodes == 2
    with pytest.raises(TenkenError, match="the same number of nodes"):
        ior.parse(text.replace("clients per node    : 4", "clients per node    : 0"))
    with pytest.raises(TenkenError, match="the same number of nodes"):
        ior.parse(IOR.replace("nodes               : 1\n", "", 1))


@pytest.mark.parametrize(("old", "new", "says"), [
    ("IOR-4.1.0+dev:", "IOR-3.3.0:", None),
    ("IOR-4.1.0+dev: MPI", "IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O\nIOR-4.1.0+dev: MPI", "2 lines 'IOR-"),
    ("tasks               : 4\n", "", "the same number of nodes, tasks and segments"),
    ("read      2285.14", "remove    2285.14", "0 rows in the second test; 1 of reading"),
    ("read      5940 ", "write     5940 ", "4 rows of writing and 2 of reading"),
    ("0.055991   2", "0.155991   2", "in its time 4 blocks moved"),
    # the product of rate and time is right
    ("349.49     94.53      0.042314    16384      4096       0.007146   0.169255   0.002688   0.183126",
     "-349.49    94.53      0.042314    16384      4096       0.007146   0.169255   0.002688   -0.183126", "above 0"),
    ("16384      4096       0.007146", "32768      4096       0.007146", "in its time 4 blocks moved"),
    ("349.49     94.53      0.042314    16384", "698.98     94.53      0.042314    32768", "of 2 sizes"),
    ("read      3205.12    ", "read      ", "numbers under the columns"),
    ("Finished   ", "Killed     ", "no line 'Finished'"),
])  # fmt: skip
def test_ior_that_is_wrong_is_refused(old: str, new: str, says: str | None) -> None:
    assert old in IOR
    text = IOR.replace(old, new, 1)
    if says is None:
        assert ior.parse(text).version == "3.3.0"
        return
    with pytest.raises(TenkenError, match=says):
        ior.parse(text)


@pytest.mark.parametrize("line", [
    "WARNING: Incorrect data on read (2 errors found).",
    "[1] FAILED comparison of buffer containing 8-byte ints:",
    "WARNING: Expected aggregate file size       = 67108864",
])  # fmt: skip
def test_data_that_ior_found_wrong_are_said(line: str) -> None:
    assert ior.parse(IOR.replace("read      2285.14", f"{line}\nread      2285.14")).wrong == " ".join(line.split())
