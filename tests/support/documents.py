"""Result documents for tests: valid ones, and functions that spoil them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from tenken.model import catalogue, engine
from tenken.model import result as results
from tenken.model.numbers import quantile
from tenken.model.subject import Subject
from tests.support.judging import refused


def metric(
    name: str,
    subject: dict[str, int],
    samples: Sequence[float],
    unit: str = "GB/s",
    direction: str = "higher",
    statistic: str = "median",
    at: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A metric object whose statistics follow from its samples."""
    ordered = sorted(samples)
    place = Subject.of(subject).id
    coordinates = "".join(f".{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in sorted((at or {}).items()))
    found: dict[str, Any] = {
        "best": ordered[-1] if direction == "higher" else ordered[0],
        "median": quantile(ordered, 0.5),
        "p5": quantile(ordered, 0.05),
        "p95": quantile(ordered, 0.95),
    }
    return {
        "id": f"{name}.{place}{coordinates}",
        "name": name,
        "subject": subject,
        **({"at": at} if at else {}),
        "unit": unit,
        "direction": direction,
        "statistic": statistic,
        "value": found.get(statistic, ordered[0]),
        **found,
        "count": len(samples),
        "clock": "host",
        "samples": list(samples),
    }


def around(value: float, count: int = 100, spread: float = 0.002) -> list[float]:
    """`count` samples with median `value` and extremes `spread` away."""
    return [value * (1 + spread * (2 * i / (count - 1) - 1)) for i in range(count)]


def host_document(program: str = "daxpy", values: dict[str, float] | None = None, **changes: Any) -> dict[str, Any]:
    """A valid document of a host program; `values` maps metric to its median in GB/s."""
    metrics = [
        metric(name, {"host": 0}, around(value, spread=0.002 + 1e-5 * i))
        for i, (name, value) in enumerate((values or {"daxpy": 20.0}).items())
    ]
    document: dict[str, Any] = {
        "schema": "tenken-result/1",
        "program": program,
        "version": "0123abc",
        "command": [program, "--json", "result.json"],
        "started": "2026-11-20T01:02:03Z",
        "finished": "2026-11-20T01:02:09Z",
        "host": {
            "name": "nid001", "os": "Debian GNU/Linux 12", "kernel": "6.1.0", "architecture": "x86_64",
            "cpu": "test cpu",
            "sockets": 1, "cores": 64, "logical_cpus": 128, "numa_nodes": 1, "memory_bytes": 2**36,
            "last_level_cache_bytes": 2**25, "virtual_machine": None, "firmware": None,
        },
        "build": {"compiler": "GNU 12.2.0", "flags": "-O3", "type": "Release", "backends": ["host"],
                  "cuda_compiler": None, "cuda_architectures": None, "mpi": None, "libraries": {}},
        "status": "ok",
        "reason": "",
        "parameters": {
            "array_bytes": 2**28, "elements": 2**24, "repetitions": 100, "backend": "host", "inject_fault": "none",
        },
        "placement": {
            "threads": 64, "allowed_cpus": list(range(128)), "allowed_cores": 64, "thread_cpus": list(range(64)),
            "binding": "close", "places": "cores (64 places)", "numa_nodes_of_memory": [0], "ranks": 1,
        },
        "devices": [],
        "metrics": metrics,
        "limits": {m["id"]: {"unknown": "the host does not report its memory speed"} for m in metrics},
        "verification": {
            "passed": True,
            "checks": [
                {"what": "y, every element, against runs x a x", "error": 0.0, "tolerance": 0.0, "passed": True}
                if program == "daxpy"
                else {"what": "array y", "error": 0.0, "tolerance": 1e-12, "passed": True}
            ],
        },
        "path": {"backend": "host"},
        "health": {"available": False, "reason": "no GPU", "devices": []},
    }  # fmt: skip
    document.update(changes)
    return document


def health_sample(**changes: Any) -> dict[str, Any]:
    """A working, healthy GPU."""
    return {
        "sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_w": 500.0, "temperature_c": 45, "reasons": [],
        "ecc_corrected": 0, "ecc_uncorrected": 0, "pcie_generation": 5, "pcie_width": 16, "nvlinks_active": 18,
        "other_processes": 0, "memory_temperature_c": 50, "remapped_rows_correctable": 0,
        "remapped_rows_uncorrectable": 0, "remapping_pending": False, "remapping_failed": False,
        "memory_used_bytes": 2**30, "utilization_percent": 90, **changes,
    }  # fmt: skip


def gpu_document(program: str = "stream", values: dict[str, float] | None = None, gpus: int = 1, **changes: Any) -> Any:
    """A valid document of a program on `gpus` H200; limits are 4814 GB/s by attributes."""
    document = host_document(program, {"copy": 1.0}, **changes)
    values = values or {"copy": 4250.0, "scale": 4250.0, "add": 4390.0, "triad": 4395.0, "dot": 4530.0}
    document["metrics"] = [
        # no two series have equal samples, which would be a finding
        metric(name, {"gpu": g}, around(value, spread=0.002 + 1e-5 * (len(values) * g + i)))
        for g in range(gpus)
        for i, (name, value) in enumerate(values.items())
    ]
    basis = {"value": 4814.3, "unit": "GB/s", "basis": "attribute: memory clock x bus width"}
    document["limits"] = {m["id"]: dict(basis) for m in document["metrics"]}
    document["devices"] = [
        {
            "index": g, "uuid": f"GPU-00000000-0000-0000-0000-{g + 1:012d}", "name": "NVIDIA H200",
            "compute_capability": "9.0", "memory_bytes": 150_000_000_000, "l2_bytes": 60 * 2**20,
            "memory_bus_bits": 6016, "memory_clock_mhz": 3201, "memory_clock_max_mhz": 3201, "driver": "580.0",
            "pcie_generation_max": 5, "pcie_width_max": 16, "nvlinks_active": 18, "nvlinks_total": 18,
            "ecc_enabled": True, "integrated": False, "mig_enabled": False, "pci_bus_id": f"00000000:{g + 1:02x}:00.0",
            "multiprocessors": 132, "memory_free_bytes": 149_000_000_000, "sm_clock_max_mhz": 1980,
            "cuda_driver": "13.0", "cuda_runtime": "13.0", "vbios": "96.00", "nvlink_gbs_per_link": 26.56,
            "numa_node": None, "managed_memory": False, "concurrent_managed_access": False,
            "pageable_memory_access": False, "pageable_uses_host_page_tables": False,
        }
        for g in range(gpus)
    ]  # fmt: skip
    document["health"] = {
        "available": True,
        "devices": [
            {
                "index": g,
                "before": health_sample(),
                "after": health_sample(),
                "worst": health_sample(),
                "samples": 20,
                "xids": [],
            }
            for g in range(gpus)
        ],
    }
    return document


def spoiled(document: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A deep copy of a document after `change` has been applied to it."""
    copied = copy.deepcopy(document)
    change(copied)
    return copied


def completed(text: str) -> dict[str, Any]:
    """A result's JSON with all derived values, as `tenken show` prints it: values with their statistics, limits, and
    verifications with their tolerances. In the form of version 1, which stated all of it.
    """
    raw = json.loads(text)
    result = results.parse(text, "result")
    if catalogue.has(result.program):
        program = catalogue.program(result.program)
        # a series that is not declared has no unit, and is left out
        assert {one["metric"] for one in raw.get("series", ())} <= set(program.metrics)
        result = engine.completed(result, program)
        # the doubles of GPUs and their links have sizes that no check asks for
        assert raw.get("devices") or not (wrong := refused(result, program)), wrong
    values = [
        {
            "id": one.id, "name": one.name, "subject": one.subject.as_json(),
            **({"at": dict(one.at)} if one.at else {}),
            "unit": one.unit, "direction": one.direction, "statistic": one.statistic, "value": one.value,
            "best": one.best, "median": one.median, "p5": one.p5, "p95": one.p95, "count": one.count,
            "clock": one.clock, "samples": list(one.samples), "counts": dict(one.counts), "derived": one.derived,
        }
        for one in result.metrics
    ]  # fmt: skip
    checks = [
        {"what": c.what, "error": c.error, "tolerance": c.tolerance, "passed": c.passed, "detail": c.detail}
        for c in result.verification.checks
    ]
    limits = {name: limit.as_json() for name, limit in result.limits.items()}
    verification = {"passed": result.verification.passed, "checks": checks}
    stated = {key: value for key, value in raw.items() if key not in ("series", "provenance", "links", "catalogue")}
    whole = {"metrics": values, "limits": limits, "verification": verification, "path": dict(result.path)}
    return {**stated, **whole, "schema": results.FIRST}
