"""Boards with GDDR memory, by what PyTorch's products of up to 10240 cubed reached on them (zzc0721/
torch-performance-test-data): none is refused, and one that has lost most of its rate is.
"""

from __future__ import annotations

import pytest

from tenken.machines import hardware
from tenken.model.catalogue import program
from tenken.model.judgement import Judgement
from tests.unit.judge.test_healthy import both, gpus, health, kept_runs
from tests.unit.machines.test_sheets import CORES, GEFORCE
from tools import sensitivity

#: Capability, multiprocessors, highest clock in MHz, W, TFLOP/s of FP16 with sums in FP32.
BOARDS = {
    "NVIDIA GeForce RTX 3050 Laptop GPU": ("8.6", 16, 2100, 60, 15.17),
    "NVIDIA GeForce RTX 3060 Ti": ("8.6", 38, 2100, 200, 36.47),
    "NVIDIA GeForce RTX 3090": ("8.6", 82, 2100, 350, 75.48),
    "NVIDIA RTX A2000 12GB": ("8.6", 26, 2100, 70, 35.99),
    "NVIDIA RTX A4000": ("8.6", 48, 2100, 140, 62.78),
    "NVIDIA RTX A6000": ("8.6", 84, 2100, 300, 120.49),
    "NVIDIA A40": ("8.6", 84, 1740, 300, 119.18),
    "NVIDIA GeForce RTX 4060": ("8.9", 24, 3105, 115, 31.21),
    "NVIDIA GeForce RTX 4080 Laptop GPU": ("8.9", 58, 3105, 150, 49.11),
    "NVIDIA GeForce RTX 4090": ("8.9", 128, 3105, 450, 158.93),
    "NVIDIA L4": ("8.9", 58, 2040, 72, 68.83),
    "NVIDIA L20": ("8.9", 92, 2520, 275, 113.26),  # its maker holds FP32 sums down as on a GeForce
    "NVIDIA L40S": ("8.9", 142, 2520, 350, 264.02),
    "NVIDIA GeForce RTX 5060 Ti": ("12.0", 36, 3090, 180, 47.87),
    "NVIDIA GeForce RTX 5090": ("12.0", 170, 3090, 575, 220.90),
    "NVIDIA GeForce RTX 5090 Laptop GPU": ("12.0", 82, 3090, 150, 83.78),
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": ("12.0", 188, 3090, 600, 312.78),
}


def products(name: str, share: float) -> Judgement:
    """A kept run of Gemm as one of that board, at this share of its public FP16 rate."""
    capability, count, clock, watts, rate = BOARDS[name]
    record = kept_runs()["Gemm"]
    assert record.result is not None
    # of another name: its data sheet would hold memory and cache of the kept run, too
    board = both(gpus(name=f"{name} OEM", compute_capability=capability, multiprocessors=count, sm_clock_max_mhz=clock,
                      power_limit_w=watts))  # fmt: skip
    fast = max(one.value for one in record.result.metrics if one.name == "gemm" and one.at["precision"] == "fp16")
    return sensitivity.judgement(record, board(sensitivity.slowed_at(
        record.result, share * rate / fast, "precision", "fp16")))  # fmt: skip


def test_a_t4_is_held_to_the_shares_of_other_boards_with_gddr() -> None:
    """41.9 TFLOP/s of FP16 in three entries; 22.2, the floor of SXM boards at such a power, would leave little for the
    lower clock of a warm one."""
    record, sheet = kept_runs()["Gemm"], hardware.sheet("T4-16GB")
    assert record.result is not None
    fast = max(one.value for one in record.result.metrics if one.name == "gemm" and one.at["precision"] == "fp16")
    board = both(
        gpus(name="Tesla T4", compute_capability="7.5", multiprocessors=40, sm_clock_max_mhz=1590, power_limit_w=70,
             memory_bytes=int(0.95 * sheet.memory_bytes), l2_bytes=sheet.l2_bytes, memory_bus_bits=256,
             memory_clock_max_mhz=5001, memory_clock_mhz=5001),
        health(memory_clock_mhz=5001),
    )  # fmt: skip

    def at(rate: float) -> set[str]:
        return of_fp16(sensitivity.judgement(record, board(sensitivity.slowed_at(
            record.result, rate / fast, "precision", "fp16"))))  # fmt: skip

    assert at(41.9) == at(19) == {"PASS"} and at(18) == {"FAIL"}


def of_fp16(judged: Judgement) -> set[str]:
    return {one.verdict for key, one in judged.judged.items() if key.startswith("gemm.") and key.endswith("=fp16")}


@pytest.mark.parametrize("name", BOARDS)
def test_products_of_a_board_as_published_pass_and_at_three_tenths_fail(name: str) -> None:
    healthy = products(name, 1)
    assert of_fp16(healthy) == {"PASS"}, healthy.message()
    assert of_fp16(products(name, 0.3)) == {"FAIL"}


def test_operations_a_cycle_are_twice_the_multiply_adds_of_the_sheets() -> None:
    known = program("gemm").tables["operations_per_cycle"]
    both_ways = {"8.9": CORES["8.9"], "8.9 GeForce": GEFORCE, "8.0": CORES["8.0"], "9.0": CORES["9.0"]}
    for chip, units in both_ways.items():
        for precision, rate in units.items():
            if precision in known[chip]:
                # a product in FP32 takes the CUDA cores alone
                assert known[chip][precision] == 2 * rate, (chip, precision)
    for chip in ("8.6", "8.6 GeForce", "12.0", "12.0 GeForce"):
        assert known[chip] == known["8.9" + chip[len(chip.split()[0]) :]]
