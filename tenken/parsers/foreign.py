"""Result documents of third-party programs: the output of a site's or a vendor's binary in the same form."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from tenken.errors import TenkenError
from tenken.model.numbers import quantile

#: What no device reaches, GB/s and GFLOP/s; the largest known in 2026 (NVIDIA Rubin's and AMD MI300X's data sheets):
#: NVLink 6 with 3,600 GB/s both ways, HBM4 with 22,000 GB/s, FP64 163 TFLOP/s on one of eight GPUs of a rank, FP8
#: 17,500 TFLOP/s.
LINK, MEMORY, FP64, LOW_PRECISION = 10_000.0, 50_000.0, 2e6, 5e7
#: Shortest time in us of a message between two cores: some tens of ns pass for one line of cache.
SHORTEST = 0.02


def beyond(rate: float, most: float, unit: str = "GB/s") -> str:
    """Why a rate is impossible, for a refusal; empty if it is possible."""
    return f"{rate:.6g} {unit} is impossible: no device exceeds {most:g}" if rate > most else ""


class ForeignOutputError(TenkenError):
    """The output does not contain what the check declares, or a value that cannot be one."""


def metric(name: str, subject: Mapping[str, int], unit: str, direction: str, samples: Sequence[float], statistic: str,
           **at: Any) -> dict[str, Any]:  # fmt: skip
    """A metric of the document with samples in printed order. ForeignOutputError for a statistic that cannot be
    computed from them, or a sample that is not finite."""
    kind, number = next(iter(subject.items()))
    where = "host" if kind == "host" else f"{kind}{number}"
    ident = ".".join([name, where, *(f"{key}={at[key]}" for key in sorted(at))])
    if not all(math.isfinite(sample) for sample in samples):
        raise ForeignOutputError(f"{ident}: a sample is not finite")
    ordered = sorted(samples)
    figures = {
        "best": ordered[-1] if direction == "higher" else ordered[0], "median": quantile(ordered, 0.5),
        "p5": quantile(ordered, 0.05), "p95": quantile(ordered, 0.95),
    }  # fmt: skip
    mean = math.fsum(ordered) / len(ordered)
    if statistic == "total" and len(ordered) > 1:
        raise ForeignOutputError(f"{ident}: a total is one value, not {len(ordered)}")
    return {
        "id": ident, "name": name, "subject": dict(subject), **({"at": at} if at else {}), "unit": unit,
        "direction": direction, "statistic": statistic,
        "value": {**figures, "mean": mean, "total": mean}[statistic], **figures, "count": len(samples), "clock": "host",
        "samples": list(samples),
    }  # fmt: skip


def document(
    program: str, implementation: str, version: str, command: list[str], node: str, nodes: list[str], ranks: int,
    parameters: Mapping[str, Any], metrics: list[dict[str, Any]], checks: list[dict[str, Any]], no_limit: str,
) -> dict[str, Any]:  # fmt: skip
    """A result document of `program` with its implementation; without a comparison nothing is verified.

    `implementation` is a short name (osu, xhpl), `version` the one it reports, `no_limit` why no metric has a limit.
    """
    now = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "schema": "tenken-result/1",
        "program": program,
        "version": version,
        "command": command,
        "started": now,
        "finished": now,
        "host": {
            "name": node, "os": "", "kernel": "", "architecture": platform.machine(), "cpu": "", "sockets": None,
            "cores": None, "logical_cpus": 1, "numa_nodes": None, "memory_bytes": 1, "last_level_cache_bytes": None,
            "virtual_machine": None,
        },
        "build": {"compiler": "the site's", "flags": "", "type": "binary", "backends": [implementation]},
        "status": "ok",
        "reason": "",
        "parameters": {"implementation": implementation, "ranks": ranks, **parameters},
        "placement": {
            "threads": 1, "allowed_cpus": [], "binding": "none", "places": "", "numa_nodes_of_memory": [],
            "ranks": ranks, "nodes": nodes,
        },
        "devices": [],
        "metrics": metrics,
        "limits": {m["id"]: {"unknown": no_limit} for m in metrics},
        "verification": {"passed": bool(checks) and all(c["passed"] for c in checks), "checks": checks},
        "path": {"implementation": version},
        "health": {"available": False, "reason": f"{implementation} does not watch the GPUs", "devices": []},
    }  # fmt: skip
