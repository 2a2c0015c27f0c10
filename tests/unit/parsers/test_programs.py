"""nvbandwidth, gpu-burn, dcgmi diag, perftest, STREAM: what they print, and what must come out of it.

The texts have the lines of the programs' own print statements; the figures are nobody's.
"""

from __future__ import annotations

import json

import pytest

from tenken.errors import TenkenError
from tenken.parsers import gpu_burn, nvbandwidth
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
    # on one GPU nothing is between two
    one = NVBANDWIDTH.replace("N/A    720.60", "N/A").replace("720.60       N/A", "N/A")
    with pytest.raises(TenkenError):
        nvbandwidth.parse(one)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("54.98", "0.00", "allowed: numbers above 0"),
    ("54.98", "nan", "allowed: finite numbers"),
    ("54.98", "fast", "'fast' in its matrix is not a number"),
    ("54.98", "64.98", "SUM 110.23; that of its matrix is 120.23"),
    ("SUM device_local_copy 2612.50", "", "device_local_copy: no line 'SUM"),
    ("NOTE: The reported", "The reported", "did not run to its end"),
    ("Running device_local_copy", "Running device_to_host_memcpy_ce", "printed twice"),
    ("Waived: \n", "Error: Error in checking pattern\n", "it tells of an error"),
    ("Waived: \n", " Invalid value when checking the pattern at 0x7f\n", "it tells of an error"),
    ("Waived: \n", "[CUDA_ERROR_OUT_OF_MEMORY] out of memory in expression cuMemAlloc()\n", "it tells of an error"),
])  # fmt: skip
def test_nvbandwidth_that_is_wrong_is_refused(old: str, new: str, says: str) -> None:
    assert old in NVBANDWIDTH
    with pytest.raises(TenkenError, match=says):
        nvbandwidth.parse(NVBANDWIDTH.replace(old, new))


@pytest.mark.parametrize(("old", "new", "says"), [
    ('"status": "Passed"', '"status": "Error"', "status Error; allowed: Passed, Waived"),
    ('"status": "Passed"', '"status": "Running"', "status Running; allowed"),
    ('"version": "v0.8",', '"version": "v0.8", "error": "no GPU",', "it tells of an error: 'no GPU'"),
    ('"54.98"', '"nan"', "allowed: finite numbers"),
    ('"sum": 110.23', '"sum": 210.23', "SUM 210.23"),
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
Burning for 10 seconds.
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


def test_gpu_burn_gives_rates_states_and_errors_of_each_gpu() -> None:
    found = gpu_burn.parse(GPU_BURN)
    assert (found.states, found.rates, found.errors) == (("OK", "OK"), (49850.0, 50200.0), (0, 0))
    bad = GPU_BURN.replace("errors: 0 - 0   temps: 58", "errors: 0 - 12  (WARNING!)  temps: 58").replace(
        "GPU 1: OK", "GPU 1: FAULTY"
    )
    found = gpu_burn.parse(bad)
    assert (found.states, found.errors) == (("OK", "FAULTY"), (0, 12))
    died = bad.replace("- 1124 (50300 Gflop/s)", "- -1 (0 Gflop/s)").replace("12  (WARNING!)", "-1  (DIED!)")
    assert gpu_burn.parse(died).errors == (0, 1)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("Tested 2 GPUs:", "", "did not run to its end"),
    ("\tGPU 1: OK\n", "", "1 lines 'GPU i: OK' of 2 GPUs"),
    ("(49900 Gflop/s)", "(nan Gflop/s)", "nan Gflop/s is not a number"),
    ("Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK", "Tested 1 GPUs:\n\tGPU 0: OK", "a line of progress of 2 GPUs"),
    ("Tested 2 GPUs", "Tested 0 GPUs", "of 0 GPUs"),
    ("100.0%", "50.0%", "50 % follows 55 %"),
])  # fmt: skip
def test_gpu_burn_that_is_cut_or_contradicts_itself_is_refused(old: str, new: str, says: str) -> None:
    assert old in GPU_BURN
    with pytest.raises(TenkenError, match=says):
        gpu_burn.parse(GPU_BURN.replace(old, new))


def test_a_gpu_that_computed_nothing_is_not_ok() -> None:
    idle = GPU_BURN.replace("562 (50100", "0 (0").replace("1124 (50300", "0 (0")
    with pytest.raises(TenkenError, match="GPU 1 is OK, but no report has a rate of it above 0"):
        gpu_burn.parse(idle)
    with pytest.raises(TenkenError, match="two runs in one|2 lines"):
        gpu_burn.parse(GPU_BURN + GPU_BURN)
