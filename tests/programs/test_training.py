"""training: its counts and derived values; and on the host with PyTorch: identical bits, and flipped ones detected."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tenken.judge import completeness, relations, verdict
from tenken.model import catalogue, engine, result
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.verdicts import FAIL, RECORDED, WAIVED
from tenken.paths import ROOT
from tests.support import pytorch as support
from tests.support.documents import gpu_document

FOLDER = ROOT / "src" / "programs" / "training"
KEPT = ROOT / "tests" / "data" / "training"


def module(name: str) -> ModuleType:
    """A file of the program that needs no PyTorch."""
    spec = importlib.util.spec_from_file_location(f"training_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look their module up
    spec.loader.exec_module(found)
    return found


SHAPES = module("shapes").SHAPES


def test_parameters_and_operations_by_hand() -> None:
    # width 64, 2 layers, gated width 160, 256 words, 32 tokens: a block multiplies 3 x 64 x 64 (q, k, v), 64 x 64 (out)
    # 2 x 64 x 160 (gate, up) and 160 x 64 (down), and has two norms of 64
    tiny = SHAPES["tiny"]
    block = 12288 + 4096 + 20480 + 10240
    assert tiny.multiplied == 2 * block + 256 * 64 == 110_592
    assert tiny.parameters == 110_592 + 5 * 64
    # attention of a token: on average half of 32 keys, q k and p v, 2 x 64 operations each, 3 times, 2 layers
    assert tiny.operations_a_token == 6 * 110_592 + 2 * 3 * (16 * 2 * 64 * 2) == 688_128
    assert SHAPES["1b"].parameters == 1_006_692_352 and SHAPES["50m"].parameters == 50_342_400


def test_a_larger_batch_needs_more_memory_and_a_compiled_step_less() -> None:
    one = SHAPES["1b"]
    assert 16 * one.parameters < one.bytes_needed(1, True) < one.bytes_needed(8, True) < one.bytes_needed(8, False)
    assert one.bytes_needed(8, False, 1) - one.bytes_needed(8, False) == 4 * one.parameters
    # an H100 of 80 GB trains 8 sequences, also without compilation and with buckets besides the sums of micro-batches
    assert one.bytes_needed(8, False, 2) < 0.85 * 84e9


def kept(name: str) -> dict[str, Any]:
    """A result of the host: `host` (60 flips), or of two processes: `data`, `tensor`; of two H200: `repeats`."""
    document: dict[str, Any] = json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))
    return document


def values(document: dict[str, Any]) -> dict[str, float]:
    read = result.validate(document, "training.json")
    return {one.id: one.value for one in engine.completed(read, catalogue.program("training")).metrics}


def incomplete(document: dict[str, Any]) -> list[str]:
    program = catalogue.program("training")
    found = engine.completed(result.validate(document, "x"), program)
    return completeness.of(found, program, Request(None, "training", subjects=(found.metrics[0].kind,)))


def with_steps(document: dict[str, Any], milliseconds: list[float]) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    for one in changed["series"]:
        if one["metric"] == "step":
            one["seconds"] = [number / 1e3 for number in milliseconds]
    return changed


@pytest.mark.parametrize("name", ["host", "data", "tensor", "repeats"])
def test_kept_results_are_complete(name: str) -> None:
    assert incomplete(kept(name)) == []
    assert [*relations.fingerprints(result.validate(kept(name), name))] == []


def test_twenty_repetitions_on_two_gpus_gave_the_same_bits() -> None:
    document = kept("repeats")
    assert [one["error"] for one in document["verification"] if one["name"] == "repeats"] == [0, 0]
    assert [len(one["seconds"]) for one in document["series"] if one["metric"] == "deterministic"] == [40, 40]
    first, second = document["provenance"]["fingerprints"]
    assert first["device"] != second["device"] and len(first["prints"]) == 374
    assert first["prints"] == second["prints"]


def test_what_follows_from_steps_by_hand() -> None:
    # 2 sequences of 32 tokens of 688,128 operations; 100 steps, of which one is longer, and the last fifth is slower
    found = values(with_steps(kept("host"), [10.0] * 79 + [30.0] + [12.5] * 20))
    assert found["step.host"] == 10.0 and found["worst.host"] == 30.0
    assert found["p99.host"] == pytest.approx(12.5 + 0.01 * 17.5)
    assert found["tokens.host"] == pytest.approx(6400) and found["drift.host"] == pytest.approx(0.8)
    assert found["rate.host"] == pytest.approx(64 * 688_128 / 0.01 * 1e-12)
    assert found["of_product.host"] == pytest.approx(found["rate.host"] / found["product.host"])


def test_what_ranks_lose_to_exchange_by_hand() -> None:
    document = with_steps(kept("data"), [10.0] * 20)
    for one in document["series"]:
        if one["metric"] == "alone":
            one["seconds"] = [0.008 if one["at"]["rank"] == 0 else 0.009] * 10
    found = values(document)
    assert found["exposed.ranks2"] == pytest.approx(1.0) and found["scaling.ranks2"] == pytest.approx(1.7)
    assert found["imbalance.ranks2"] == pytest.approx(9 / 8.5)
    # each rank has its own tokens; with tensor parallelism they share them
    assert found["tokens.ranks2"] == pytest.approx(2 * 64 / 0.01)
    shared = values(with_steps(kept("tensor"), [10.0] * 20))
    assert shared["tokens.ranks2"] == pytest.approx(64 / 0.01) and "scaling.ranks2" not in shared


def on_gpus(count: int) -> dict[str, Any]:
    """The kept result as two H200 would have written it, each with its own model."""
    document, model = kept("host"), gpu_document(gpus=count)
    for key in ("devices", "health"):
        document[key] = model[key]
    for key in ("series", "verification"):
        document[key] = [{**one, "subject": {"gpu": gpu}} for gpu in range(count) for one in document[key]]
    for one in document["series"]:
        one["clock"] = "device"
        if "seconds" in one:  # equal samples of two GPUs would not be measurements
            one["seconds"] = [number * (1 + 0.001 * one["subject"]["gpu"]) for number in one["seconds"]]
    said = document["provenance"]["fingerprints"]
    document["provenance"]["fingerprints"] = [
        {**said[0], "kind": "NVIDIA H200", "device": one["uuid"], "gpu": one["index"]} for one in model["devices"]
    ]
    document["parameters"]["backend"] = "cuda"
    return document


def test_on_gpus_the_limit_is_that_of_their_attributes_and_the_minority_is_named() -> None:
    document = on_gpus(3)
    read, program = result.validate(document, "x"), catalogue.program("training")
    completed = engine.completed(read, program)
    # 132 multiprocessors at 1.98 GHz, 4096 operations per cycle
    assert completed.limits["rate.gpu0"].value == pytest.approx(132 * 1.98e9 * 4096 * 1e-12)
    asked = Request(None, "training", subjects=("gpu",), gpus=3, foreign=True)
    assert verdict.judge(read, program, asked, Machine(frozenset()), 0).verdict == RECORDED
    prints = copy.deepcopy(document["provenance"]["fingerprints"][1]["prints"])
    prints[7][2] = "0"
    document["provenance"]["fingerprints"][1]["prints"] = prints
    judged = verdict.judge(result.validate(document, "x"), program, asked, Machine(frozenset()), 0)
    assert (
        judged.verdict == FAIL and "gpu1 (GPU-00000000-0000-0000-0000-000000000002): first differs" in judged.message()
    )


def test_utilisation_by_hand() -> None:
    document = with_steps(kept("host"), [10.0] * 20)
    assert "mfu.host" not in values(document)
    document["parameters"]["sheet_tflops"] = 0.01
    # 64 x 688,128 operations in 10 ms at 10^10 per second
    assert values(document)["mfu.host"] == pytest.approx(100 * 64 * 688_128 / 0.01 / 1e10)


def test_power_and_energy_of_a_token_by_hand() -> None:
    document = with_steps(kept("host"), [10.0] * 20)
    document["series"].append({"metric": "power", "subject": {"host": 0}, "clock": "host", "values": [320.0]})
    # 3.2 J per step of 64 tokens
    assert values(document)["energy.host"] == pytest.approx(50.0)


@pytest.mark.parametrize("name", ["step", "deterministic", "phase", "product"])
def test_a_series_that_is_missing_is_noticed(name: str) -> None:
    document = kept("host")
    document["series"] = [one for one in document["series"] if one["metric"] != name]
    assert any(name in text and "is missing" in text for text in incomplete(document))


@pytest.mark.parametrize("name", ["first_loss", "learns", "repeats", "flips"])
def test_a_verification_that_is_missing_or_fails_is_noticed(name: str) -> None:
    document = kept("host")
    without = {**document, "verification": [one for one in document["verification"] if one["name"] != name]}
    assert any("is missing" in text for text in incomplete(without))
    for one in document["verification"]:
        if one["name"] == name:
            one["error"] = 1.0
    read = engine.completed(result.validate(document, "x"), catalogue.program("training"))
    assert not read.verification.passed


def test_ranks_of_which_one_has_another_bit_are_named() -> None:
    document = kept("data")
    said = document["provenance"]["fingerprints"]
    place = next(i for i, (step, name, _) in enumerate(said[1]["prints"]) if (step, name) == (2, "blocks.1.qkv"))
    for step in range(place, len(said[1]["prints"])):
        said[1]["prints"][step][2] = "0" * 16
    found = [*relations.fingerprints(result.validate(document, "x"))]
    assert len(found) == 2 and all(one.verdict == FAIL for one in found)
    assert "process 1" in found[1].message and "first differs at step 2, blocks.1.qkv" in found[1].message


# ---- health ----


class Library:
    """NVML with one GPU; `wrong`: functions that it lacks or that fail."""

    def __init__(self, *wrong: str, energy: int = 5000) -> None:
        self.wrong, self.energy = wrong, energy

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.wrong:
            raise AttributeError(name)
        numbers = {
            "nvmlDeviceGetTotalEnergyConsumption": self.energy, "nvmlDeviceGetPowerUsage": 650_000,
            "nvmlDeviceGetCurrentClocksEventReasons": 0b100, "nvmlDeviceGetMigMode": 0,
        }  # fmt: skip

        def function(*arguments: Any) -> int:
            out = getattr(arguments[-1] if arguments else None, "_obj", None)
            if out is not None and hasattr(out, "value"):
                out.value = numbers.get(name, 1)
            return 0

        return function


def test_a_gpu_is_read_in_the_units_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = module("nvml")
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _: Library())
    gpu = nvml.Gpu("GPU-1")
    read = gpu.read(set())
    assert gpu.joules() == 5.0 and read["power_w"] == 650.0 and read["reasons"] == ["sw_power_cap"]
    assert gpu.describe()["mig_enabled"] is False and gpu.describe()["nvlinks_active"] == 18
    # what the driver does not report is absent, and no NVML is a reason
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _: Library("nvmlDeviceGetTotalEnergyConsumption"))
    assert nvml.Gpu("GPU-1").joules() is None
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _: Library("nvmlInit_v2"))
    watch = nvml.Watch("GPU-1")
    assert "not NVML" in watch.why and watch.health(0) is None


def test_work_of_others_is_read_once_own_work_has_left_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = module("nvml")
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(nvml.time, "sleep", lambda _: None)
    watch = nvml.Watch("GPU-1")
    readings = iter([(0, 100), (1, 100), (1, 3), (1, 40), (1, 2)])
    monkeypatch.setattr(
        watch._gpu, "read",
        lambda own: dict(zip(("other_processes", "utilization_percent"), next(readings), strict=True)),
    )  # fmt: skip
    assert "others_percent" not in watch.health(0)
    assert watch.health(0)["others_percent"] == 40


def test_health_is_the_worst_of_all_readings() -> None:
    folded = module("nvml").folded
    first = {"sm_clock_mhz": 1900, "power_w": 500.0, "reasons": ["gpu_idle"], "ecc_corrected": None}
    second = {"sm_clock_mhz": 1500, "power_w": 690.0, "reasons": ["sw_power_cap"], "ecc_corrected": 2}
    worst = {"sm_clock_mhz": 1500, "power_w": 690.0, "reasons": ["gpu_idle", "sw_power_cap"], "ecc_corrected": 2}
    assert folded(folded(None, first), second) == worst == folded(worst, first | {"reasons": []})


def test_a_run_is_watched_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = module("nvml")
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _: Library())
    watch = nvml.Watch("GPU-1")
    with watch.watching():
        pass
    health = watch.health(3)
    assert (
        health is not None and health["index"] == 3 and health["samples"] == 1 and health["worst"]["power_w"] == 650.0
    )


# ---- with PyTorch, on the host ----

together = pytest.mark.xdist_group("training")


@pytest.fixture(scope="module")
def pytorch() -> Path:
    return support.python()


def run(python: Path, folder: Path, *options: str, nodes: int = 1) -> dict[str, Any]:
    """The result of a run; with several nodes each is started as srun does it."""
    words = [python, FOLDER / "training.py", "--backend", "cpu", "--model", "tiny", "--batch", "2", "--seconds", "0.2"]
    started = [
        subprocess.Popen(
            [*words, *options, "--nodes", str(nodes)], cwd=folder, env={**os.environ, "SLURM_PROCID": str(node)},
            stderr=subprocess.PIPE, text=True,
        )
        for node in range(nodes)
    ]  # fmt: skip
    for one in started:
        _, told = one.communicate(timeout=300)
        assert one.returncode == 0, told
    document: dict[str, Any] = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return document


@together
def test_flipped_bits_are_found(pytorch: Path, tmp_path: Path) -> None:
    document = run(pytorch, tmp_path, "--flips", "60")
    assert incomplete(document) == []
    counted = {key: n for key, n in document["provenance"].items() if key.startswith("flips.")}
    assert sum(counted.values()) == 60
    assert all(number == 0 for key, number in counted.items() if key.endswith(".missed"))
    assert sum(number for key, number in counted.items() if key.endswith(".found")) >= 50


@together
def test_a_planted_bit_fails_and_both_parallel_forms_agree(pytorch: Path, tmp_path: Path) -> None:
    data = run(pytorch, tmp_path, "--parallel", "data", "--processes", "2", "--inject-fault", "gradient")
    wrong = {one["name"]: one for one in data["verification"]}["repeats"]
    assert wrong["error"] > 0 and wrong["first_wrong"]["rank"] == 1
    named = [one.message for one in relations.fingerprints(result.validate(data, "x"))]
    assert any("process 1" in text and "gradient of" not in text for text in named)
    tensor = run(pytorch, tmp_path, "--parallel", "tensor", nodes=2)
    assert tensor["placement"]["ranks"] == 2
    assert incomplete(tensor) == [] and [*relations.fingerprints(result.validate(tensor, "x"))] == []
    # rank 0 of the data-parallel run has the tokens of the divided one, and the same initial weights
    first = data["provenance"]["loss_first"]
    assert tensor["provenance"]["loss_first"] == pytest.approx(first, rel=1e-3)


@together
def test_each_micro_batch_of_each_step_and_rank_has_tokens_of_its_own(pytorch: Path) -> None:
    """Steps that repeat each other's tokens would learn them by heart; a divided model needs the same on all ranks."""
    script = """
import torch
from shapes import SHAPES
from trainer import Trainer
trainer = Trainer(SHAPES["tiny"], 4, 1, torch.device("cpu"), micro_batches=3)
def drawn(parallel):
    trainer.parallel, found = parallel, []
    for trainer.rank in range(2):
        for trainer.number in range(4):
            for trainer.micro_batch in range(3):
                tokens, following = trainer.data()
                assert torch.equal(tokens[:, 1:], following[:, :-1])
                found.append(tuple(tokens.flatten().tolist()))
    return found
assert len(set(drawn("data"))) == 2 * 4 * 3
tensor = drawn("tensor")
assert tensor[:12] == tensor[12:] == drawn("data")[:12]
"""
    subprocess.run([pytorch, "-c", script], cwd=FOLDER, check=True, timeout=120)


@together
def test_micro_batches_are_one_batch_in_parts_that_is_exchanged_once(pytorch: Path, tmp_path: Path) -> None:
    script = """
import torch
from shapes import SHAPES
from trainer import Trainer
found = {}
for batch, micro_batches in ((4, 1), (2, 2)):
    trainer = Trainer(SHAPES["tiny"], batch, 1, torch.device("cpu"), micro_batches=micro_batches)
    tokens = torch.arange(4 * 33).view(4, 33) * 7 % 256
    def data():
        part = tokens[trainer.micro_batch * batch : (trainer.micro_batch + 1) * batch]
        return part[:, :-1].contiguous(), part[:, 1:].contiguous()
    trainer.data = data
    gradients = []
    trainer.before_optimiser = lambda: gradients.extend(p.grad.clone() for p in trainer.model.parameters())
    moments = []
    loss = trainer.step(moments)
    assert len(moments) == len(trainer.parts) == 2 * micro_batches + 1
    assert trainer.tokens_a_step == 4 * 32
    found[micro_batches] = [loss.view(1), *(one.flatten() for one in gradients)]
for whole, parts in zip(found[1], found[2]):
    assert float((whole - parts).norm() / whole.norm()) < 0.02, (whole, parts)
"""
    subprocess.run([pytorch, "-c", script], cwd=FOLDER, check=True, timeout=120)
    document = run(pytorch, tmp_path, "--parallel", "data", "--processes", "2", "--micro-batches", "2")
    assert incomplete(document) == [] and [*relations.fingerprints(result.validate(document, "x"))] == []
    assert {one["counts"]["tokens"] for one in document["series"] if one["metric"] == "step"} == {2 * 2 * 2 * 32}
    (first, _) = document["provenance"]["fingerprints"]
    assert [name for step, name, _ in first["prints"] if step == 0][:4] == [
        f"block {block} of micro-batch {number} of rank 0" for number in (0, 1) for block in (0, 1)
    ]


@together
def test_a_checksum_sees_every_bit_and_the_order(pytorch: Path) -> None:
    script = """
import torch
from digest import checksum, flip, text
for dtype in (torch.float32, torch.bfloat16, torch.float64):
    x = torch.arange(1, 8).to(dtype)
    clean = int(checksum(x))
    for element in range(7):
        for bit in range(8 * x.element_size()):
            flip(x, element, bit)
            assert int(checksum(x)) != clean, (dtype, element, bit)
            flip(x, element, bit)
    assert int(checksum(x)) == clean and int(checksum(x.flip(0))) != clean
# by hand: words 3 and 5 times 1 and the odd number for 1, modulo 2^64
two = torch.tensor([3, 5], dtype=torch.int64)
assert text(int(checksum(two))) == f"{(3 + 5 * 0x9E3779B97F4A7C15) % 2**64:016x}"
"""
    subprocess.run([pytorch, "-c", script], cwd=FOLDER, check=True, timeout=120)


@together
def test_products_of_fp8_are_those_of_bf16_but_for_rounding(pytorch: Path) -> None:
    script = """
import torch
from model import linear
x = torch.randn(2, 32, 64, dtype=torch.bfloat16, requires_grad=True)
w = (torch.randn(96, 64) * 0.05).requires_grad_()
g = torch.randn(2, 32, 96).bfloat16()
found = []
for fp8 in (False, True):
    x.grad = w.grad = None
    y = linear(x, w, fp8)
    y.backward(g)
    found.append([one.float().clone() for one in (y.detach(), x.grad, w.grad)])
for a, b in zip(*found):
    # three bits of mantissa of values, two of gradients: 4 to 6 %
    assert 1e-4 < float((a - b).norm() / a.norm()) < 0.1
"""
    subprocess.run([pytorch, "-c", script], cwd=FOLDER, check=True, timeout=120)


@together
def test_the_optimiser_is_that_of_pytorch_bit_by_bit(pytorch: Path) -> None:
    script = """
import torch
from trainer import BETAS, LEARNING_RATE, AdamW
torch.manual_seed(1)
ours, theirs = ([one.requires_grad_() for one in (torch.arange(7.0), torch.full((33, 5), 0.1))] for _ in range(2))
own = AdamW(ours)
plain = torch.optim.AdamW(theirs, lr=LEARNING_RATE, betas=BETAS, fused=True)
for step in range(5):
    for a, b in zip(ours[step % 2 :], theirs[step % 2 :]):  # the first one has no gradient at every other step
        a.grad = torch.randn(a.shape)
        b.grad = a.grad.clone()
    own.step(), plain.step()
    own.clear(), plain.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs)) and ours[0].grad is None
    for a, b in zip(ours, theirs):
        assert all(torch.equal(own.state[a][name], plain.state[b][name]) for name in own.state[a])
"""
    subprocess.run([pytorch, "-c", script], cwd=FOLDER, check=True, timeout=120)


@together
def test_the_compiler_is_not_imported_where_nothing_is_compiled(pytorch: Path, tmp_path: Path) -> None:
    """It takes longer than the rest of PyTorch to import."""
    words = [pytorch, FOLDER / "training.py", "--backend", "cpu", "--model", "tiny", "--batch", "2", "--seconds", "0.1"]
    told = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}, capture_output=True, text=True,
        check=True, timeout=120,
    ).stderr  # fmt: skip
    assert "| torch\n" in told and "torch._dynamo" not in told


def test_without_pytorch_it_is_waived(tmp_path: Path) -> None:
    words = [sys.executable, "-S", FOLDER / "training.py", "--backend", "cpu", "--model", "tiny"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=60).returncode == 3
    read = result.load(tmp_path / "training.json")
    assert read.status == "waived" and read.reason.startswith("library missing: PyTorch (")
    asked = Request(None, "training", subjects=("host",), foreign=True)
    judged = verdict.judge(read, catalogue.program("training"), asked, Machine(frozenset()), 3)
    assert judged.verdict == WAIVED


@pytest.mark.parametrize(
    "options, why",
    [
        (["--steps", "5"], "--steps 5 is invalid; allowed: multiples of --every 3"),
        (["--processes", "0"], "--processes 0 is invalid; allowed: 1 to 1024"),
        (["--flips", "3", "--parallel", "data"], "--flips is invalid here; allowed: with --parallel none"),
        (["--model", "2b"], "invalid choice: '2b'"),
    ],
)
def test_wrong_arguments_are_one_line(options: list[str], why: str) -> None:
    words = [sys.executable, FOLDER / "training.py", *options]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2 and why in ended.stderr
