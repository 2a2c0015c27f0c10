"""GPUs that their operator limits: no fault of theirs, no PASS, and what the limit does not explain is still a fault.

Rates at a lower power limit: an H100 at half the power does 0.69 of the products (PCIe over SXM board).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest

from tenken.model.catalogue import program
from tenken.model.judgement import FLOOR, Judgement
from tenken.model.result import Result
from tenken.paths import ROOT
from tests.support import kept
from tests.unit.judge.test_healthy import Change, both, gpus, health, kept_runs, slower
from tools import sensitivity

#: Of the capability of an H100, without a data sheet; its board takes 700 W.
UNKNOWN = gpus(name="NVIDIA H100 of next year")
PRODUCTS = ("Gemm", "Hpl", "HplMxp", "HplNode", "HplMxpNode")


@cache
def of_all_gpus() -> dict[str, Any]:
    """HPL and HPL-MxP on two H200 together, in runs that last long enough for slower solutions."""
    twelve = kept._of(ROOT / "tests" / "data" / "h200-two-twelve.tar.xz")
    return {
        one.base_check: replace(one, result=longer(one.result, 300))
        for one in twelve
        if one.base_check in ("HplNode", "HplMxpNode")
    }


def longer(result: Result, more: float) -> Result:
    """A run that ends this many seconds later."""
    finished = datetime.fromisoformat(result.finished.replace("Z", "+00:00")) + timedelta(seconds=more)
    entries = tuple(replace(one, seconds=one.seconds and one.seconds + more) for one in result.health.devices)
    return replace(
        result, health=replace(result.health, devices=entries), finished=finished.isoformat().replace("+00:00", "Z")
    )


def found(check: str, *changes: Change) -> Judgement:
    record = (of_all_gpus() if check.endswith("Node") else kept_runs())[check]
    assert record.result is not None
    return sensitivity.judgement(record, both(*changes)(record.result))


def capped(watts: float, clock: float) -> Change:
    """A lower power limit: the driver says so, and the clock falls under load."""
    busy = health("worst", power_w=watts, sm_clock_mhz=clock, reasons=("sw_power_cap",))
    return both(gpus(power_limit_w=watts), busy)


def alone(change: Change, index: int = 1) -> Change:
    """A change of one GPU's attributes and health."""

    def changed(result: Result) -> Result:
        whole = change(result)
        both_of = zip(result.devices, whole.devices, strict=True)
        devices = tuple(new if new.index == index else old for old, new in both_of)
        entries = zip(result.health.devices, whole.health.devices, strict=True)
        read = tuple(new if new.index == index else old for old, new in entries)
        return replace(result, devices=devices, health=replace(result.health, devices=read))

    return changed


def second_slower(factor: float) -> Change:
    return lambda result: sensitivity.slowed(result, factor, sensitivity.second)


LOCKED = health(sm_clock_mhz=1100, reasons=())
#: An application's clocks: idle before and after the run.
SET = both(
    health("before after", sm_clock_mhz=345, reasons=("gpu_idle",)),
    health("worst", sm_clock_mhz=1200, reasons=("applications_clocks_setting",)),
)


@pytest.mark.parametrize("check", PRODUCTS)
@pytest.mark.parametrize("board", [UNKNOWN, gpus()], ids=["no data sheet", "data sheet"])
@pytest.mark.parametrize(("watts", "clock", "rate"), [(400, 1000, 0.75), (300, 800, 0.62), (200, 510, 0.4)])
def test_a_lower_power_limit_is_no_fault_and_no_pass(
    check: str, board: Change, watts: float, clock: float, rate: float
) -> None:
    judged = found(check, board, capped(watts, clock), slower(rate))
    assert judged.verdict == "RECORDED", judged.message()
    assert any(f"the power is limited to {watts} of 700 W" in one.message for one in judged.findings)


@pytest.mark.parametrize("check", PRODUCTS)
@pytest.mark.parametrize("board", [UNKNOWN, gpus()], ids=["no data sheet", "data sheet"])
@pytest.mark.parametrize(
    ("limit", "rate"), [(gpus(), 1), (capped(400, 1000), 0.75), (LOCKED, 0.6), (SET, 0.65)],
    ids=["full power", "400 W", "locked", "set"],
)  # fmt: skip
def test_a_tensor_core_of_half_the_speed_fails_at_any_of_them(
    check: str, board: Change, limit: Change, rate: float
) -> None:
    assert found(check, board, limit, slower(rate * 0.5)).verdict == "FAIL"


@pytest.mark.parametrize("check", PRODUCTS)
@pytest.mark.parametrize("limit", [LOCKED, SET], ids=["locked", "set"])
def test_a_lower_clock_is_no_fault_and_no_pass(check: str, limit: Change) -> None:
    judged = found(check, limit, slower(0.65))
    assert judged.verdict == "RECORDED", judged.message()


def test_a_chip_whose_highest_clock_is_lower_is_held_by_it() -> None:
    lower = both(gpus(sm_clock_max_mhz=1500), health("before worst after", sm_clock_mhz=1500))
    for check in PRODUCTS:
        assert found(check, lower, slower(0.76)).verdict == "PASS"
        assert found(check, lower, slower(0.38)).verdict == "FAIL"


def test_full_power_passes_without_a_data_sheet_and_a_set_clock_where_the_floor_is_met() -> None:
    for check in PRODUCTS:
        assert found(check, UNKNOWN).verdict == "PASS"
        assert found(check, SET).verdict == "PASS"  # the default of P100 and V100
        # a limit that a data sheet does not know is not called lowered, but nothing passes by it
        assert found(check, UNKNOWN, gpus(power_limit_w=680)).verdict == "RECORDED"
        assert found(check, UNKNOWN, gpus(power_limit_w=900)).verdict == "PASS"


def test_a_link_has_its_own_clock() -> None:
    links = found("Transfer", gpus(power_limit_w=400)).judged
    assert {one.verdict for name, one in links.items() if name.startswith("htod_pinned")} == {"PASS"}


@pytest.mark.parametrize("check", ["Gemm", "StreamCuda"])
@pytest.mark.parametrize("limit", [gpus(power_limit_w=400), LOCKED], ids=["400 W", "locked"])
def test_one_gpu_of_two_that_is_limited_is_not_compared_with_the_other(check: str, limit: Change) -> None:
    judged = found(check, alone(limit), second_slower(0.85))
    assert judged.verdict == "RECORDED", judged.message()
    assert any("is compared with no other GPU" in one.message for one in judged.findings)


@pytest.mark.parametrize("limit", [gpus(power_limit_w=400), LOCKED], ids=["400 W", "locked"])
def test_gpus_that_are_limited_alike_are_compared(limit: Change) -> None:
    judged = found("Gemm", limit, second_slower(0.8))
    assert judged.verdict == "FAIL" and any(one.kind == "siblings" for one in judged.findings)
    # and one that is not limited with one that is
    slow = found("StreamCuda", alone(limit, 0), second_slower(0.9))
    assert slow.verdict == "FAIL" and any(one.kind == "siblings" for one in slow.findings)
    # whose limit excuses only itself
    slow = found("Gemm", alone(limit, 0), second_slower(0.5))
    assert any(one.verdict == "FAIL" and one.kind == FLOOR for one in slow.findings)


H20 = gpus(
    name="NVIDIA H20", multiprocessors=78, memory_bus_bits=6144, memory_clock_mhz=2619, memory_clock_max_mhz=2619,
    memory_bytes=int(95.6 * 2**30), power_limit_w=500, l2_bytes=60 * 2**20,
)  # fmt: skip
H800 = gpus(
    name="NVIDIA H800", memory_bus_bits=5120, memory_clock_mhz=2619, memory_clock_max_mhz=2619,
    memory_bytes=int(79.6 * 2**30),
)  # fmt: skip


def slower_metrics(factor: float, *names: str, precision: str | None = None) -> Change:
    """Of these metrics, in a run that lasts as much longer."""

    def chosen(one: Any) -> bool:
        return one.name in names and precision in (None, one.at.get("precision"))

    def changed(result: Result) -> Result:
        slow = sensitivity.slowed(result, factor)
        metrics = tuple(b if chosen(a) else a for a, b in zip(result.metrics, slow.metrics, strict=True))
        series = tuple(b if chosen(a) else a for a, b in zip(result.series, slow.series, strict=True))
        more = sum(sum(b.samples) - sum(a.samples) for a, b in zip(result.series, series, strict=True) if a.seconds)
        return replace(longer(result, more), metrics=metrics, series=series)

    return changed


NVL = gpus(
    name="NVIDIA H100 NVL", sm_clock_max_mhz=1785, memory_bus_bits=6016, memory_clock_mhz=2619,
    memory_clock_max_mhz=2619, memory_bytes=int(93.1 * 2**30), power_limit_w=400,
)  # fmt: skip
A100 = gpus(
    name="NVIDIA A100-PCIE-40GB", compute_capability="8.0", multiprocessors=108, sm_clock_max_mhz=1410,
    memory_bus_bits=5120, memory_clock_mhz=1215, memory_clock_max_mhz=1215, memory_bytes=int(39.4 * 2**30),
    power_limit_w=250, l2_bytes=40 * 2**20,
)  # fmt: skip

#: TFLOP/s that they reach: H20 in FP16 as published (zzc0721/torch-performance-test-data), otherwise 0.95 of the sheet
HELD_DOWN = {
    "H20": (H20, {"fp16": 141.7 / 701, "fp8_e4m3": 280 / 1300, "fp64_tensor": 0.95 / 55.6}),
    "H800": (H800, {"fp64_tensor": 0.95 / 55.6}),
}
#: Boards with little power for each multiprocessor: H100 NVL in BF16 (mag-/gpu_benchmark), its FP64 as that of H100
#: PCIe; A100 at 250 W (bewantbe/busy-gemm-benchmark).
REACHED = {
    **HELD_DOWN,
    "H100 NVL": (NVL, {"fp16": 488.5 / 701, "fp8_e4m3": 488.5 / 701, "fp64_tensor": 0.69}),
    "A100 PCIe": (A100, {"fp16": 153 / 701, "fp64_tensor": 13.3 / 55.6}),
}


@pytest.mark.parametrize("model", REACHED)
def test_boards_whose_units_or_power_are_held_down_are_held_by_what_they_reach(model: str) -> None:
    board, rates = REACHED[model]
    changes = {
        "Gemm": [slower_metrics(rate, "gemm", precision=precision) for precision, rate in rates.items()],
        "Hpl": [slower_metrics(rates["fp64_tensor"], "dgemm", "hpl")],
        "HplMxp": [slower_metrics(rates.get("fp16", 1.0), "product", "hpl_mxp", "phase")],
        "HplNode": [slower_metrics(rates["fp64_tensor"], "dgemm", "hpl")],
        "HplMxpNode": [slower_metrics(rates.get("fp16", 1.0), "product", "hpl_mxp", "phase")],
    }
    for check, reached in changes.items():
        judged = found(check, board, *reached)
        assert judged.verdict == "PASS", judged.message()
        half = "gemm" if check == "Gemm" else "product" if "Mxp" in check else "dgemm"
        judged = found(check, board, *reached, slower_metrics(0.5, half))
        assert judged.verdict == "FAIL" and "below" in judged.message(), judged.message()


@pytest.mark.parametrize(
    ("check", "lu", "product"), [("HplNode", "hpl", "dgemm"), ("HplMxpNode", "hpl_mxp", "product")]
)
def test_an_lu_on_all_gpus_of_a_node_has_the_bounds_of_one(check: str, lu: str, product: str) -> None:
    assert found(check).verdict == "PASS"
    # all of them wait for one at half speed
    slow = found(check, slower_metrics(0.5, lu, product, "phase"))
    assert slow.verdict == "FAIL", slow.message()
    assert product in slow.message(), slow.message()
    # products at full speed, of which the whole reaches half
    slow = found(check, slower_metrics(0.5, lu))
    assert slow.verdict == "FAIL" and f"{lu}.ranks2" in slow.message(), slow.message()

    def part(name: str, times: float) -> Change:
        def longer(one: Any) -> Any:
            mine = one.name == "phase" and one.at["part"] == name
            return replace(one, samples=tuple(times * sample for sample in one.samples)) if mine else one

        return lambda result: replace(result, series=tuple(map(longer, result.series)), metrics=())

    # which broadcasts over slow links explain; they are judged by P2P
    assert found(check, part("broadcast", 40), slower_metrics(0.5, lu)).verdict != "FAIL"
    # networks between nodes are not judged
    two = found(
        check, lambda one: replace(one, placement=replace(one.placement, nodes=("a", "b"))), slower_metrics(0.5, lu)
    )
    assert f"{lu}.ranks2" not in two.message()


@pytest.mark.parametrize("archive", ["h100-hpcg-neighbour", "h200-burn-training"])
def test_data_parallel_training_in_a_node_has_the_floor_of_one_gpu(archive: str) -> None:
    found = kept._of(ROOT / "tests" / "data" / f"{archive}.tar.xz")
    record = next(one for one in found if one.check == "TrainingParallel %divided=data")
    result = longer(record.result, 300)
    between = replace(result, parameters={**result.parameters, "nodes": 2})
    small = gpus(power_limit_w=400)(result)  # of boards without NVLink
    for run, rate, bounded in ((result, 1, False), (result, 0.65, True), (between, 0.65, False), (small, 0.65, False)):
        judged = sensitivity.judgement(record, sensitivity.slowed(run, rate))
        assert ("rate.ranks2 = " in judged.message()) == bounded, judged.message()
    assert sensitivity.judgement(record, result).verdict == "PASS"


@pytest.mark.parametrize("archive", ["h100-four-quick", "h100-one-acceptance", "h200-two-whole", "h200-burn-training"])
def test_a_training_step_is_held_to_the_products_of_its_job_and_these_to_the_peak(archive: str) -> None:
    found = kept._of(ROOT / "tests" / "data" / f"{archive}.tar.xz")
    record = next(one for one in found if one.check == "TrainingStep %precision=bf16" and one.result.status == "ok")
    result = longer(record.result, 300)

    def judged(*changes: Change) -> Judgement:
        return sensitivity.judgement(record, both(*changes)(result))

    assert judged().verdict == "PASS"
    step = judged(slower_metrics(0.72, "step", "deterministic", "plain", "phase"))
    assert step.verdict == "FAIL" and "of_product.gpu0" in step.message(), step.message()
    product = judged(slower_metrics(0.72, "product"))
    assert product.verdict == "FAIL" and " product.gpu0" in product.message()
    # less power slows products, which are not held to the peak then, more than the whole step
    capped = judged(gpus(power_limit_w=600), slower_metrics(0.8, "product"), slower_metrics(0.85, "step"))
    assert capped.verdict == "RECORDED", capped.message()


@pytest.mark.parametrize("check", ["TrainingFlips", "TrainingStep %precision=fp8", "TrainingParallel %divided=tensor"])
def test_products_beside_a_training_step_fail_it_and_pass_none(check: str) -> None:
    found = kept._of(ROOT / "tests" / "data" / "h200-burn-training.tar.xz")
    record = next(one for one in found if one.check == check)
    assert sensitivity.judged(record, record.result) == "RECORDED"
    slow = sensitivity.judgement(record, slower_metrics(0.72, "product")(longer(record.result, 300)))
    assert slow.verdict == "FAIL" and "product." in slow.message(), slow.message()


@pytest.mark.parametrize("model", HELD_DOWN)
def test_what_their_fp64_bounds_has_no_floor_by_the_memory(model: str) -> None:
    judged = found("StencilGpus", HELD_DOWN[model][0], slower_metrics(0.06, "alone", "fused", "cells"))
    assert judged.verdict == "RECORDED", judged.message()
    assert any("TFLOP/s of FP64 by its attributes: no floor applies" in one.message for one in judged.findings)
    # single precision is not held down
    slow = found("Stencil", HELD_DOWN[model][0], slower_metrics(0.06, "alone", "fused"))
    assert slow.verdict == "FAIL", slow.message()
    assert found("StencilGpus", slower_metrics(0.06, "alone", "fused", "cells")).verdict == "FAIL"


def test_cudamemcpy_of_a_hopper_with_few_multiprocessors_is_held_by_them() -> None:
    """3005 GB/s of the kept H100, whose kernels copy 3064; 2.0 TB/s published of H20, whose kernels copy 3.3."""
    kernels = slower_metrics(3300 / 3064, "copy", "scale", "add", "triad", "dot")
    copied = found("StreamCuda", H20, kernels, slower_metrics(2000 / 3005, "memcpy"))
    assert copied.verdict == "PASS", copied.message()
    slow = found("StreamCuda", H20, kernels, slower_metrics(1700 / 3005, "memcpy"))
    assert slow.verdict == "FAIL" and "memcpy" in slow.message()
    # with all of them the memory alone counts
    assert found("StreamCuda", slower_metrics(0.8, "memcpy")).verdict == "FAIL"


def test_boards_of_the_data_sheets_take_what_the_chip_is_said_to() -> None:
    """`board_w` of common.yaml by the multiprocessors of each chip: 56, 80, 108, 132 and 148."""
    from tenken.machines import hardware

    boards = {"6.0": (56, "P100-SXM2-16GB"), "7.0": (80, "V100-SXM2-16GB"), "8.0": (108, "A100-SXM-80GB"),
              "9.0": (132, "H100-SXM-80GB"), "10.0": (148, "B200-SXM-180GB")}  # fmt: skip
    known = program("gemm").tables["board_w"]
    assert set(known) == set(boards)
    for capability, (count, sheet) in boards.items():
        assert known[capability] * count == pytest.approx(hardware.sheet(sheet).power_w, rel=0.005)
