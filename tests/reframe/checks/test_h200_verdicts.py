"""Every verdict, from documents that an H200 wrote and that are doctored here."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from tenken.model import verdicts as verdict
from tenken.model.judgement import Judgement
from tenken.model.subject import Subject
from tenken.paths import ROOT
from tests.support.documents import spoiled
from tests.support.judging import on_system

CAPTURED = ROOT / "tests" / "data" / "h200"


def captured(name: str) -> dict[str, Any]:
    """The document of a captured record."""
    return json.loads((CAPTURED / f"{name}.json").read_text())["document"]


def node_of(count: int) -> dict[str, Any]:
    """The captured stream document as a node with `count` such GPUs would write it."""
    one = captured("stream-one-gpu")
    whole = copy.deepcopy(one)
    for key in ("metrics", "devices"):
        whole[key] = []
    whole["health"]["devices"], whole["limits"] = [], {}
    for gpu in range(count):
        text = json.dumps(one).replace(".gpu0", f".gpu{gpu}").replace('"gpu": 0', f'"gpu": {gpu}')
        text = text.replace('"index": 0', f'"index": {gpu}').replace("-000000000001", f"-{gpu + 1:012d}")
        moved = json.loads(text)
        moved["devices"][0]["pci_bus_id"] = f"00000000:{gpu + 1:02x}:00.0"
        for metric in moved["metrics"]:  # no two GPUs have the same samples
            for key in ("value", "best", "median", "p5", "p95"):
                metric[key] *= 1 + 1e-6 * gpu
            metric["samples"] = [sample * (1 + 1e-6 * gpu) for sample in metric["samples"]]
        whole["metrics"] += moved["metrics"]
        whole["limits"] |= moved["limits"]
        whole["devices"] += moved["devices"]
        whole["health"]["devices"] += moved["health"]["devices"]
    return whole


def judge(raw: dict[str, Any], gpus: int = 1, subjects: tuple[str, ...] = ("gpu",), **more: Any) -> Judgement:
    """Judged as on the system h200 with `gpus` GPUs."""
    return on_system(raw, "h200", subjects, gpus=gpus, ranks=1, **more)


def worst(gpu: int, **values: Any):
    return lambda d: d["health"]["devices"][gpu]["worst"].update(values)


def slower(gpu: int, factor: float):
    def change(raw: dict[str, Any]) -> None:
        for metric in raw["metrics"]:
            if metric["subject"] == {"gpu": gpu}:
                for key in ("value", "best", "median", "p5", "p95"):
                    metric[key] *= factor
                metric["samples"] = [s * factor for s in metric["samples"]]

    return change


@pytest.mark.parametrize("name", ["stream-one-gpu", "memcopy-gpu-8gb"])
def test_what_the_h200_wrote_passes(name):
    found = judge(captured(name))
    assert found.verdict == verdict.PASS, found.message()
    assert all(j.efficiency and 0.85 < j.efficiency < 1 for j in found.judged.values())


def test_a_waiver_of_two_gpus_is_one_only_where_there_is_one_card():
    assert judge(captured("stream-waived"), gpus=1).verdict == verdict.WAIVED
    assert judge(captured("stream-waived"), gpus=2).verdict == verdict.FAIL


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (worst(1, reasons=["hw_thermal_slowdown"]), "GPU 1: throttled during the timed part: hw_thermal_slowdown"),
        (worst(1, other_processes=1), "GPU 1: shared with 1 other processes"),
        (worst(0, memory_clock_mhz=2619), "GPU 0: memory clock 2619 MHz"),
        (lambda d: d["health"]["devices"][1]["after"].update(ecc_uncorrected=1), "GPU 1: 1 uncorrected ECC errors"),
        (lambda d: d["health"]["devices"][1].update(xids=[94]), "GPU 1: hardware: XID 94 (contained memory error)"),
    ],
)
def test_void_conditions_name_the_gpu(change, says):
    found = judge(spoiled(node_of(2), change), gpus=2)
    assert found.verdict == (verdict.FAIL if "uncorrected" in says or "hardware" in says else verdict.INVALID)
    assert says in found.message()


def test_a_missing_gpu_is_hardware_at_fault():
    found = judge(node_of(3), gpus=4)
    assert (found.verdict, "3 GPUs found; expected 4" in found.message()) == (verdict.FAIL, True)


@pytest.mark.parametrize("cards", [2, 4])
def test_one_gpu_5_percent_slow_is_named(cards):
    found = judge(spoiled(node_of(cards), slower(1, 0.95)), gpus=cards)
    assert found.verdict == verdict.FAIL
    assert {f.subject for f in found.findings if f.subject} == {Subject("gpu", 1)}
    assert re.search(r"triad.gpu1 = \d+\.?\d* GB/s is 5\.0 % behind the other GPUs", found.message())


def test_half_again_the_limit_is_wrong_not_fast():
    found = judge(spoiled(node_of(1), slower(0, 1.5)))
    assert found.verdict == verdict.FAIL
    assert "beyond 1.02 of the physical limit" in found.message()
