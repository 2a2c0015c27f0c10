"""Minimal result documents of mpi_p2p over nodes: what group jobs and pairs of a campaign leave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

FRAME: dict[str, Any] = {
    "schema": "tenken-result/2", "program": "mpi_p2p", "version": "3ef8a3a", "command": ["mpi_p2p"],
    "started": "2026-11-26T01:27:36.940Z", "finished": "2026-11-26T01:28:25.157Z", "host": {"name": "a"}, "build": {},
    "status": "ok", "reason": "", "parameters": {}, "devices": [], "provenance": {},
    "health": {"available": False, "reason": "no GPU is used", "devices": []},
}  # fmt: skip


def series(metric: str, size: int, seconds: float, ranks: int, moved: int | None = None) -> dict[str, Any]:
    """`moved`: bytes of a sample if the metric is a rate; without it, a time."""
    counts = {} if moved is None else {"counts": {"bytes": moved}}
    at = {"buffers": "host", "bytes": size}
    return {
        "metric": metric,
        "subject": {"ranks": ranks},
        "at": at,
        "clock": "host",
        **counts,
        "seconds": [seconds] * 5,
    }


def document(nodes: Sequence[str], measured: Sequence[dict[str, Any]], error: float = 0, **more: Any) -> str:
    """Every message arrived with this error."""
    verified = [
        {
            "name": f"host buffers, {one['metric']}, {one['at']['bytes']} B, every message in all ranks, exact",
            "error": error,
        }
        for one in measured
    ]
    where = {"placement": {"ranks": len(nodes), "nodes": list(nodes)}}
    return json.dumps({**FRAME, **where, "series": list(measured), "verification": verified, **more})


def alltoall(nodes: Sequence[str], us: float = 100.0, **more: Any) -> str:
    return document(nodes, [series("alltoall", 262144, us * 1e-6, max(len(nodes), 2))], **more)


def pair(nodes: Sequence[str], gbs: float = 20.0, us: float = 2.0, **more: Any) -> str:
    size = 4 << 20
    found = [series("latency", 8, us * 1e-6, 2), series("latency", size, 1e-4, 2)]
    found += [series("bandwidth", 8, 1e-3, 2, 512), series("bandwidth", size, 16 * size / gbs / 1e9, 2, 16 * size)]
    return document(nodes, found, **more)
