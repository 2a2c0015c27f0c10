"""The checks of the memory system on captured documents: the H200's, and those of a simulated GPU with pageable
access."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.model.catalogue import load_catalogue
from tenken.model.judgement import Judgement
from tenken.model.result import parse
from tenken.report import plots
from tenken.report.rows import rows_of
from tenken.report.session import Case
from tests.support.documents import around, gpu_document, health_sample
from tests.support.documents import metric as make_metric
from tests.support.judging import on_system

CAPTURED = Path(__file__).parent / "captured"


def captured(name: str) -> dict[str, Any]:
    return json.loads((CAPTURED / f"{name}.json").read_text(encoding="utf-8"))


def judged(raw: dict[str, Any], system_name: str, metrics: tuple[str, ...] | None = None) -> Judgement:
    # the simulated GPU has another name
    raw = copy.deepcopy(raw)
    raw["command"][0] = raw["program"]
    # its clock is made up: rates are constant, and no GPU health is read
    for i, one in enumerate(raw["metrics"]):
        if one["count"] >= 5:
            samples = around(one["median"], one["count"], 1e-4 + 1e-6 * i)
            fresh = make_metric(one["name"], one["subject"], samples, direction=one["direction"])
            one.update({key: fresh[key] for key in ("value", "best", "median", "p5", "p95", "samples")})
    captured_devices = raw["devices"]
    card = gpu_document()["devices"][0]
    raw["devices"] = [{**card, **{k: v for k, v in d.items() if v is not None}} for d in raw["devices"]]
    top = captured_devices[0].get("memory_clock_mhz") or 2619
    for one in raw["devices"]:
        one.update({k: card[k] for k in ("ecc_enabled", "integrated")}, memory_clock_mhz=top, memory_clock_max_mhz=top)
    reading = health_sample(memory_clock_mhz=top)
    of_card = {"before": reading, "worst": reading, "after": reading, "samples": 9}
    raw["health"] = {"available": True, "devices": [{"index": d["index"], **of_card} for d in raw["devices"]]}
    return on_system(raw, system_name, ("gpu",), metrics=metrics, gpus=1, ranks=1,
                     parameters={"backend": "cuda"}, any_card=True)  # fmt: skip


def as_published(raw: dict[str, Any], bytes_: int, cpu: dict[str, float]) -> dict[str, Any]:
    """The simulated GPU's document with the published size, and with the CPU's rates of a GH200 in place of this
    host's."""
    changed = copy.deepcopy(raw)
    changed["parameters"]["bytes"] = bytes_
    for i, one in enumerate(changed["metrics"]):
        if one["name"] in cpu:
            samples = (
                around(cpu[one["name"]], one["count"], 0.001 + 1e-5 * i) if one["count"] > 1 else [cpu[one["name"]]]
            )
            changed["metrics"][i] = {
                **make_metric(one["name"], one["subject"], samples, at=one.get("at")), "clock": one["clock"],
            }  # fmt: skip
        elif one["name"] == "plateau" and one.get("at", {}).get("phase") == "cpu":
            changed["metrics"][i] = make_metric(
                "plateau", one["subject"], around(270.0, one["count"]) if one["count"] > 1 else [270.0], at=one["at"]
            )
    return changed


GH200 = {"host_by_cpu": 340.0, "remote_by_cpu": 440.0, "device_by_cpu": 290.0, "cpu": 290.0}


@pytest.mark.parametrize("name", ["access_patterns_managed_prefetch", "access_patterns_managed_advise"])
def test_what_an_h200_measured_with_managed_memory_passes(name: str) -> None:
    judgement = judged(captured(f"h200/{name}"), "h200")
    assert judgement.verdict == "PASS", judgement.message()
    relative = judgement.judged["relative.gpu0.pattern=8"]
    assert relative.criterion and relative.criterion.kind == "floor" and relative.value > 0.95


def test_explicit_memory_has_no_cpu_on_the_device() -> None:
    raw = captured("h200/access_patterns_explicit")
    judgement = judged(raw, "h200", ("host_by_cpu", "remote_by_gpu", "device_by_gpu", "device_copy", "relative"))
    assert judgement.verdict == "PASS", judgement.message()
    assert "remote_by_cpu" not in {m["name"] for m in raw["metrics"]}


def test_an_h200_waives_sam_by_name_and_a_machine_that_claims_it_fails() -> None:
    raw = captured("h200/access_patterns_sam")
    judgement = judged(raw, "h200")
    assert judgement.verdict == "WAIVED"
    assert "no pageable memory access: cudaDevAttrPageableMemoryAccess is 0" in judgement.message()
    assert raw["devices"][0]["pageable_memory_access"] is False
    refused = judged(raw, "miyabi")
    assert refused.verdict == "FAIL" and "claims 'sam'" in refused.message()


@pytest.mark.parametrize("name", ["access_patterns_sam", "migration_sam"])
def test_a_double_with_pageable_access_meets_the_published_figures(name: str) -> None:
    raw = as_published(captured(f"double/{name}"), 4_000_000_000, GH200)
    assert raw["devices"][0]["pageable_memory_access"] is True
    needed = None if name.startswith("access") else ("gpu_first", "cpu", "gpu_last", "ramp", "plateau", "new_ramp")
    judgement = judged(raw, "miyabi", needed)
    assert judgement.verdict == "PASS", judgement.message()
    against = {i for i, one in judgement.judged.items() if one.criterion and one.criterion.kind == "reference"}
    if name.startswith("access"):
        assert {"ramp.gpu0.pattern=6", "plateau.gpu0.pattern=5", "host_by_cpu.gpu0.pattern=1"} <= against
    else:
        assert {"ramp.gpu0.phase=last", "gpu_last.gpu0.trial=1"} <= against


def test_a_slow_pattern_and_a_new_ramp_are_named() -> None:
    slow = as_published(captured("double/access_patterns_sam"), 4_000_000_000, {**GH200, "remote_by_cpu": 60.0})
    message = judged(slow, "miyabi").message()
    assert "remote_by_cpu.gpu0.pattern=2 = 60 GB/s (median) is below 360 GB/s" in message
    again = as_published(captured("double/migration_sam"), 4_000_000_000, GH200)
    for one in again["metrics"]:
        if one["id"] == "ramp.gpu0.phase=last":
            one.update({k: 51.0 for k in ("value", "best", "median", "p5", "p95")}, samples=[51.0] * one["count"])
    assert "ramp.gpu0.phase=last = 51 1 (median) is above 5" in judged(again, "miyabi").message()


def rows(raw: dict[str, Any], system: str) -> list[Any]:
    judgement = judged(raw, system)
    record = SimpleNamespace(result=parse(json.dumps(raw), "captured"), judgement=judgement)
    case = Case("Captured", "Captured", system, "gpu", "cuda", ["node1"], judgement.verdict, record=record)  # type: ignore[arg-type]
    return rows_of(case, load_catalogue())


def test_the_small_multiples_and_the_migration_plot_are_drawn_with_the_published_values() -> None:
    raw = as_published(captured("double/access_patterns_sam"), 4_000_000_000, GH200)
    patterns = [row for row in rows(raw, "miyabi") if row.group == "patterns"]
    assert len(patterns) == 8 and all(row.reference for row in patterns if row.name != "remote_by_gpu")
    svg, caption = plots.draw(patterns, "patterns")
    assert "every sample in the order measured" in caption
    assert svg.count("reference") >= 1
    for number in range(1, 9):
        assert f"pattern {number}" in svg
    phases = [
        row for row in rows(as_published(captured("double/migration_sam"), 4_000_000_000, GH200), "miyabi")
        if row.group == "phases"
    ]  # fmt: skip
    assert len(phases) == 9, "three phases of three trials"
    svg, _ = plots.draw(phases, "phases")
    assert all(f"by the {who}" in svg for who in ("GPU", "CPU"))
