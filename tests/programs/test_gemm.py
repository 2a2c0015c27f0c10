"""gemm for real: every format emulated on the host, its bounds, and the faults that they must detect."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tenken.paths import ROOT
from tests.programs.conftest import Outcome
from tests.support.catalogue import declared_metrics

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--backend", "host", "--sustained-seconds", "0.05")
PRECISIONS = [
    "fp64", "fp64_tensor", "fp32", "tf32", "fp16", "fp16_c32", "bf16", "bf16_c32", "int8", "fp8_e4m3", "fp8_e4m3_fast",
    "fp8_e5m2", "fp8_e5m2_fast", "fp8_c32", "fp8_blocks", "mxfp8", "nvfp4", "mxfp4",
]  # fmt: skip


def checks(outcome: Outcome) -> dict[str, dict]:
    assert outcome.document is not None, outcome.stdout + outcome.stderr
    return {c["what"].split(":")[0]: c for c in outcome.document["verification"]["checks"]}


def test_every_precision_stays_within_its_bound(run: Run) -> None:
    outcome = run("gemm", *QUICK, "--cases", "all")
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    found = checks(outcome)
    assert list(found) == PRECISIONS and all(c["tolerance"] == 1 for c in found.values())
    # formats of 16 bits and fewer come close to their bound: it is not a loose one
    rounded = ["fp16", "bf16", "fp8_e4m3", "fp8_e4m3_fast", "fp8_e5m2", "mxfp8", "nvfp4"]
    assert all(0.3 < found[name]["error"] <= 1 for name in rounded)
    assert found["int8"]["error"] == 0


def test_the_first_algorithm_alone_is_verified_and_compared_with_none(run: Run) -> None:
    outcome = run("gemm", *QUICK, "--cases", "bf16", "--algorithms", "first")
    assert outcome.code == 0 and outcome.document is not None, outcome.stdout + outcome.stderr
    assert {m["name"] for m in outcome.document["metrics"]} == {"gemm"}
    wrong = run("gemm", *QUICK, "--cases", "bf16", "--algorithms", "first", "--inject-fault", "element")
    assert wrong.code == 1 and "gemm: failed: verification: product.host." in wrong.stdout


def test_the_smallest_error_that_must_be_found_is_found_in_every_precision(run: Run) -> None:
    """One element wrong by a little more than twice its bound; an integer wrong by one."""
    outcome = run("gemm", *QUICK, "--cases", "all", "--inject-fault", "element")
    assert outcome.code == 1
    found = checks(outcome)
    assert list(found) == PRECISIONS
    for name, check in found.items():
        assert not check["passed"] and 1 < check["error"] < 3.1, (name, check)
        assert "element 16383, value " in check["detail"]


@pytest.mark.parametrize("case", ["fp16:48x16x512", "int8:16x32x64x3", "fp8_e4m3_fast:32x32x1024", "fp64:16x16x16x2"])
def test_flat_and_batched_problems(run: Run, case: str) -> None:
    outcome = run("gemm", *QUICK, "--cases", case)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    outcome = run("gemm", *QUICK, "--cases", case, "--inject-fault", "element")
    assert outcome.code == 1 and "gemm: failed: verification: product.host." in outcome.stdout


def test_operations_are_two_for_each_term(run: Run) -> None:
    """2 m n k, for each problem of a batch: the rate times the seconds of a sample, with numbers written by hand."""
    outcome = run("gemm", *QUICK, "--cases", "int8:32x48x64x5")
    assert outcome.document is not None
    (rate,) = [m for m in outcome.document["metrics"] if m["name"] == "gemm"]
    assert rate["unit"] == "TFLOP/s" and rate["at"] == {
        "precision": "int8", "m": 32, "n": 48, "k": 64, "batch": 5, "data": "random", "phase": "sustained",
    }  # fmt: skip
    # every sample is 983,040 operations (2 x 32 x 48 x 64 x 5) over seconds that add up to about the requested time
    seconds = [983_040 / (sample * 1e12) for sample in rate["samples"]]
    assert 0.04 < sum(seconds) < 5


def test_zeros_are_a_coordinate_of_their_own(run: Run) -> None:
    outcome = run("gemm", *QUICK, "--cases", "fp16", "--data", "both")
    assert outcome.code == 0 and outcome.document is not None
    data = [m["at"]["data"] for m in outcome.document["metrics"] if m["name"] == "gemm"]
    assert data == ["random", "zeros"]
    outcome = run("gemm", *QUICK, "--cases", "fp16", "--data", "zeros")
    assert outcome.code == 0  # the verified product uses random numbers all the same


@pytest.mark.parametrize(
    ("cases", "allowed"),
    [
        ("fp7", "PRECISION"), ("fp16:17", "PRECISION"), ("fp16:16x16", "PRECISION"), ("fp16:16x", "PRECISION"),
        ("fp16:16x16x16x0", "PRECISION"), ("fp16,fp16", "each case once; listed twice: fp16"),
        ("", "non-empty text"),
    ],
)  # fmt: skip
def test_wrong_cases_are_refused_in_one_line(run: Run, cases: str, allowed: str) -> None:
    outcome = run("gemm", *QUICK, "--cases", cases)
    assert outcome.code == 2
    assert (
        outcome.stderr.startswith(f"gemm: --cases '{cases}' is invalid; allowed: ") and outcome.stderr.count("\n") == 1
    )
    assert allowed in outcome.stderr


def test_metrics_are_those_of_metrics_yaml(run: Run) -> None:
    declared = declared_metrics("gemm")
    outcome = run("gemm", *QUICK, "--cases", "fp16")
    assert outcome.document is not None
    names = {m["name"] for m in outcome.document["metrics"]}
    assert names == {name for name, metric in declared.items() if not metric["optional"]}


def waits_locked(text: str) -> list[str]:
    """Lines that wait for the other GPUs of a run within the scope of a lock."""
    found, locks, depth = [], [], 0
    for line in text.splitlines():
        code = line.partition("//")[0]
        if re.search(r"\b(lock_guard|unique_lock)<", code):
            locks.append(depth)
        if locks and re.search(r"worker\.synchronize\(|wait_with_others\(worker", code):
            found.append(line.strip())
        depth += code.count("{") - code.count("}")
        locks = [one for one in locks if depth >= one]
    return found


def test_nobody_waits_for_other_gpus_with_a_lock_that_they_need() -> None:
    """On two H100 the first precision that Hopper lacks stopped both threads for ever."""
    assert waits_locked("{\n  const std::lock_guard<std::mutex> lock(m);\n  wait_with_others(worker);\n}") != []
    assert waits_locked("{\n  {\n    const std::lock_guard<std::mutex> lock(m);\n  }\n  worker.synchronize();\n}") == []
    sources = [*(ROOT / "src").rglob("*.cpp"), *(ROOT / "src").rglob("*.cu"), *(ROOT / "src").rglob("*.h")]
    assert sum("worker.synchronize(" in one.read_text() for one in sources) == 3
    assert {one.name: waits_locked(one.read_text()) for one in sources if waits_locked(one.read_text())} == {}
