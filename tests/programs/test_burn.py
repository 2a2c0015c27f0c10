"""Specific to burn: phases whose every result is verified, injected faults, a hung and a killed process."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tenken.paths import PROGRAMS
from tests.programs.conftest import Outcome
from tests.programs.test_hpl_mxp import sensors
from tests.support.judging import incomplete

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
CHAINS = ["stencil", "sparse"]
PRODUCTS = ["gemm_fp64", "gemm_tf32", "gemm_fp16", "gemm_bf16", "gemm_fp8", "gemm_int8", "own_fp16"]
MEMORY = ["inversions", "walking", "random", "rows"]
OF_PRODUCTS = (
    "one-bit", "several-bits", "aligned-run", "input-bit", "accumulator-bit", "stuck-sm", "stuck-operand", "lost-tile",
    "stale-tile",
)  # fmt: skip
OF_CHAINS = ("one-bit", "several-bits", "aligned-run", "lost-tile", "stuck-operand")
OF_MEMORY = ("one-bit", "several-bits", "aligned-run", "stuck-bit", "lost-tile", "stale-tile", "wrong-copy")
SMALL = (
    "--backend", "host", "--seconds", "0", "--visit-seconds", "0.001", "--host-bytes", "16Mi", "--host-order", "128",
)  # fmt: skip


def series(folder: Path) -> list[dict[str, Any]]:
    """As the program wrote them: with what one sample counts."""
    read: list[dict[str, Any]] = json.loads((folder / "document.json").read_text())["series"]
    return read


def values(document: dict[str, Any], name: str) -> dict[str, float]:
    """Of each phase."""
    return {m["at"]["phase"]: m["median"] for m in document["metrics"] if m["name"] == name}


def test_every_phase_is_checked_and_counted(run: Run, tmp_path: Path) -> None:
    document = run("burn", *SMALL).document
    assert document is not None and document["status"] == "ok", document
    assert values(document, "checked") == dict.fromkeys([*PRODUCTS, "power_steps", *CHAINS, *MEMORY, "copies"], 1.0)
    counts = {(s["metric"], s.get("at", {}).get("phase")): s.get("counts") for s in series(tmp_path)}
    for phase in PRODUCTS:
        assert counts["rate", phase] == {"operations": 2 * 128**3}
    for phase in CHAINS:  # two words of 8 bytes and eight entries of 12 in a quarter of 16 MiB; 2 x 16 steps
        assert counts["updates", phase] == {"cells": 32 * 2**15}
    for phase in MEMORY:  # the last MiB has the log; read and written
        assert counts["memory", phase] == {"bytes": 2 * 15 * 2**20}
    (clean, copy, after) = (
        m["median"] for name in ("clean", "copy", "copy_after") for m in document["metrics"] if m["name"] == name
    )
    assert 0 < clean < 60 and copy != after, "two measurements"
    assert incomplete(document) == []


def test_each_phase_runs_three_times_in_the_time_asked_for(run: Run) -> None:
    few = ("--backend", "host", "--seconds", "0.12", "--phases", "gemm_int8,random", *SMALL[6:])
    document = run("burn", *few).document
    assert document is not None and document["parameters"]["visit_seconds"] == pytest.approx(0.12 / 3 / 2)


def test_fingerprints_follow_from_the_seed_alone(run: Run) -> None:
    few = ("--phases", "gemm_int8,own_fp16")
    prints = []
    for seed in ("1", "1", "2"):
        document = run("burn", *SMALL, *few, "--seed", seed).document
        assert document is not None
        (trace,) = document["path"]["fingerprints"]
        assert [(place, phase) for place, phase, _ in trace["prints"]] == [(5, "gemm_int8"), (6, "own_fp16")]
        prints.append([digest for _, _, digest in trace["prints"]])
    assert prints[0] == prints[1]
    assert not set(prints[0]) & set(prints[2])


@pytest.mark.parametrize(
    ("fault", "phase", "told"),
    [
        *((fault, "gemm_fp16", "output|first operand") for fault in OF_PRODUCTS),
        ("one-bit", "gemm_fp64", "output"), ("one-bit", "gemm_int8", "output"),
        *((fault, "random", "memory") for fault in OF_MEMORY),
        *((fault, "sparse", "word of a chain") for fault in OF_CHAINS), ("one-bit", "power_steps", "output"),
        ("stuck-operand", "stencil", "word of a chain"),
        ("wrong-copy", "copies", "copy"), ("stale-tile", "copies", "copy"), ("element", "own_fp16", "output"),
    ],
)  # fmt: skip
def test_an_injected_fault_is_found_and_described(run: Run, fault: str, phase: str, told: str) -> None:
    outcome = run("burn", *SMALL, "--phases", phase, "--inject-fault", fault)
    assert outcome.code == 1 and outcome.document is not None
    document = outcome.document
    assert document["reason"].startswith(f"verification: results.host.phase={phase}: error")
    first = document["path"]["wrong"][0]
    assert re.fullmatch(told, first["kind"]) and first["phase"] == phase and first["visit"] == 0
    assert int(first["expected"], 16) ^ int(first["found"], 16) == int(first["flipped"], 16) != 0
    if fault in ("one-bit", "element") and phase != "sparse":
        assert bin(int(first["flipped"], 16)).count("1") == 1
    if fault in ("one-bit", "lost-tile", "accumulator-bit") and first["kind"] in ("output", "memory"):
        assert first["again"].startswith("transient")
    if fault == "input-bit":
        assert "sticky" in " ".join(one["again"] for one in document["path"]["wrong"])
    assert "burn: WRONG: subject host" in outcome.stdout


def test_each_class_is_found_in_each_phase_where_it_has_a_meaning(run: Run, tmp_path: Path) -> None:
    document = run("burn", *SMALL, "--injections", "12").document
    assert document is not None and document["status"] == "ok", document["reason"] if document else ""
    injected, masked, found = (
        {(s["at"]["phase"], s["at"]["fault"]): s["values"][0] for s in series(tmp_path) if s["metric"] == name}
        for name in ("injected", "masked", "found")
    )
    pairs = {(phase, fault) for phase in PRODUCTS for fault in OF_PRODUCTS}
    pairs |= {(phase, fault) for phase in MEMORY for fault in OF_MEMORY} - {("walking", "wrong-copy")}
    pairs |= {(phase, fault) for phase in CHAINS for fault in OF_CHAINS}
    pairs |= {("copies", fault) for fault in OF_MEMORY if fault != "stuck-bit"}
    assert set(injected) == pairs
    for pair in pairs:
        assert injected[pair] - masked[pair] >= 12 and found[pair] == injected[pair] - masked[pair], pair
    assert {check["error"] for check in document["verification"]["checks"]} == {0}
    assert len(document["verification"]["checks"]) == 2 * len(pairs)
    # a bit stuck at its correct value is not a fault; a flip of a stored bit always is one
    assert masked["random", "stuck-bit"] > 0 and masked["gemm_fp16", "one-bit"] == 0
    assert incomplete(document) == []


@pytest.mark.parametrize(("lost", "wrong"), [("missed:2", 2), ("missed:1", None), ("no_false_alarm", 2**-12)])
def test_a_fault_that_is_missed_and_an_alarm_without_one_fail(
    run: Run, monkeypatch: pytest.MonkeyPatch, lost: str, wrong: float | None
) -> None:
    """One fault of 5000 may be missed, and none may be told where there is none."""
    monkeypatch.setenv("TENKEN_TEST_SPOILED", lost)
    few = ("--phases", "copies", "--injections", "1", "--inject-fault", "element")
    document = run("burn", *SMALL, *few).document
    assert document is not None
    errors = {check["error"] for check in document["verification"]["checks"] if not check["passed"]}
    assert errors == ({wrong} if wrong else set())
    assert document["reason"].startswith(f"verification: {lost.split(':')[0]}." if wrong else "the fault injected by")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang", r"hung: no sign of life for \d s: host gemm_int8, \d+ steps, 0 wrong"),
        ("killed", r"ended by signal 9 \(Killed\): \d s; host gemm_int8, \d+ steps, 0 wrong"),
        ("no-memory", r".*(memory|available).*"),
    ],
)
def test_a_run_that_does_not_come_to_its_end_has_a_result(run: Run, fault: str, reason: str) -> None:
    outcome = run("burn", *SMALL, "--phases", "gemm_int8", "--silent-seconds", "1", "--inject-fault", fault)
    assert outcome.code == 1 and outcome.document is not None and outcome.document["status"] == "failed"
    assert re.fullmatch(reason, outcome.document["reason"]), outcome.document["reason"]


def test_a_stopped_run_leaves_how_far_it_was(build_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    arguments = ["--phases", "random", "--seconds", "60", "--report-seconds", "0.05", "--json", str(file)]
    command = [str(build_dir / "bin" / "burn"), *SMALL[:2], *SMALL[4:], *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = ""
        deadline = time.monotonic() + 30
        while not re.match(r"burn: \d+ s; host random, [1-9]\d* steps, 0 wrong", line) and time.monotonic() < deadline:
            line = running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
        assert running.wait(30) == 1
    assert "burn: failed: ended by signal 15 (Terminated)" in rest
    assert '"progress"' in file.read_text()


def test_a_run_continues_where_it_was(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "progress"
    arguments = (*SMALL, "--phases", "gemm_int8", "--progress", str(file))
    file.write_text("tenken-burn/1 7 3600 0\n")
    document = run("burn", *arguments, "--seconds", "3600.02").document
    assert document is not None and document["status"] == "ok"
    (clean,) = (m["median"] for m in document["metrics"] if m["name"] == "clean")
    assert 3600 < clean < 3610 and document["path"]["continued_after_rounds"] == 7
    assert file.read_text().startswith("tenken-burn/1 ") and int(file.read_text().split()[1]) > 7
    file.write_text("tenken-burn/1 7 3600 2\n")
    document = run("burn", *arguments).document
    assert document is not None
    assert document["reason"] == "2 wrong results in the rounds before it was continued"
    _, rounds, seconds, wrong = file.read_text().split()
    assert (rounds, wrong) == ("8", "2") and float(seconds) >= 3600
    file.write_text("another file\n")
    document = run("burn", *arguments).document
    assert document is not None and "is not the progress of a burn" in document["reason"]


def test_power_is_measured_after_the_heat(run: Run, tmp_path: Path) -> None:
    seconds = ("--phases", "gemm_fp16", "--heat-seconds", "2", "--power-seconds", "0.2")
    document = run("burn", *SMALL, *seconds, env={**os.environ, **sensors(tmp_path)}).document
    assert document is not None and document["status"] == "ok", document
    assert next(m["value"] for m in document["metrics"] if m["name"] == "power") == pytest.approx(300)
    assert 0.2 <= document["path"]["power.host.duration"] < 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--phases", "gemm"), "--phases 'gemm' is invalid; allowed: "),
        (("--host-order", "200"), "--host-order '200' is invalid; allowed: multiples of 128"),
        (("--power-seconds", "1", "--hot-phase", "cold"), "--hot-phase 'cold' is invalid; allowed: one of --phases"),
        (("--host-bytes", "900T"), "--host-bytes '900T' is invalid; allowed: at most nine tenths"),
    ],
)
def test_bad_arguments(run: Run, arguments: tuple[str, ...], told: str) -> None:
    outcome = run("burn", "--backend", "host", *arguments)
    assert outcome.code == 2 and outcome.stderr.startswith(f"burn: {told}"), outcome.stderr


def derived() -> ModuleType:
    spec = importlib.util.spec_from_file_location("burn_derived", PROGRAMS / "burn" / "derived.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lower_bound_is_that_of_clopper_and_pearson() -> None:
    lower_bound = derived().lower_bound
    # all found: 0.05^(1/n); half of two: the square root, of 1 - (1 - p)^2 = 0.05
    assert lower_bound(5000, 5000) == pytest.approx(0.05 ** (1 / 5000))
    assert lower_bound(2, 1) == pytest.approx(1 - 0.95**0.5)
    assert lower_bound(5000, 4999) > 0.999 > lower_bound(5000, 4998)
    assert lower_bound(0, 0) == 0


def test_steady_compares_the_last_minutes_with_the_first() -> None:
    """Two phases, each run for 30 s at a time: five visits of a phase in five minutes, sixty in an hour."""
    falling = [100.0] * 5 + [99.0] * 140 + [90.0] * 5
    metrics = {
        "rate": [SimpleNamespace(subject="gpu0", at={"phase": "gemm_fp16"}, samples=falling)],
        "memory": [SimpleNamespace(subject="gpu0", at={"phase": "random"}, samples=[3.0])],
    }
    run = SimpleNamespace(
        result=SimpleNamespace(parameters={"visit_seconds": 30}), of=lambda name: metrics.get(name, [])
    )
    assert list(derived().steady(run)) == [("gpu0", {"phase": "gemm_fp16"}, [0.9])]
    assert list(derived().steady_hour(run)) == [("gpu0", {"phase": "gemm_fp16"}, [1.0])]
    metrics["rate"][0].samples = falling[:100]
    assert list(derived().steady_hour(run)) == []
