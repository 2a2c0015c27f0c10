"""A synthetic cluster with known faults: `python -m tools.synthetic DIR` writes the archive of its nights.

64 nodes of two GPUs, 60 nights, seeded: run-to-run noise as measured on real GPUs, a driver that changed for all,
missing nights, occasional throttled runs. Four faults are planted (see FAULTS); everything else is noise, and a gate
that reports anything else is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tenken.model.numbers import quantile

SYSTEM, PARTITION, NODES, GPUS, NIGHTS, SEED = "synthetic", "gpu", 64, 2, 60, 20261121
FIRST = datetime(2025, 9, 1, 18, 0, 0)
#: Night from which all nodes have the new driver
NEW_DRIVER = 52
DRIVERS = ("580.95.05", "580.126.09")


@dataclass(frozen=True)
class Fault:
    """The planted faults: series, loss and nights."""

    name: str
    metric: str
    node: int | None
    gpu: int | None

    def loss(self, night: int) -> float:
        """Fraction of the value that is lost on a night."""
        if self.name == "slow GPU":
            return 0.06
        if self.name == "driver regression":
            return 0.04 if night >= NEW_DRIVER else 0.0
        if self.name == "drifting link":
            return 0.0025 * max(0, night - 35)
        # flapping: three nights down, four nights up
        return 0.10 if night >= 38 and (night - 38) % 7 < 3 else 0.0


FAULTS = (
    Fault("slow GPU", "triad", 17, 1),
    Fault("driver regression", "h2d", None, None),
    Fault("drifting link", "peer", 42, 0),
    Fault("flapping node", "host_triad", 5, None),
)


def node_name(node: int) -> str:
    """n00, n01, ..."""
    return f"n{node:02d}"


def uuid(node: str, gpu: int) -> str:
    """The UUID of a GPU: the same for the same node and index."""
    rng = random.Random(f"{node}/{gpu}")
    text = f"{rng.getrandbits(128):032x}"
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def devices(node: str, count: int = GPUS, driver: str = DRIVERS[0]) -> list[dict[str, Any]]:
    """The devices of a node as in its documents."""
    return [
        {
            "index": gpu, "uuid": uuid(node, gpu), "name": "Synthetic GPU", "compute_capability": "9.0",
            "memory_bytes": 141 * 2**30, "memory_clock_max_mhz": 3201, "sm_clock_max_mhz": 1980, "driver": driver,
            "cuda_driver": "13.0", "cuda_runtime": "13.0", "vbios": "96.00.CF.00.01",
        }
        for gpu in range(count)
    ]  # fmt: skip


def metric(
    name: str, subject: dict[str, int], samples: Sequence[float], unit: str = "GB/s", direction: str = "higher"
) -> dict[str, Any]:
    """A metric of a document from its samples."""
    ordered = sorted(samples)
    where = "host" if "host" in subject else "-".join(f"gpu{v}" for v in subject.values())
    return {
        "id": f"{name}.{where}", "name": name, "subject": subject, "unit": unit, "direction": direction,
        "statistic": "median", "value": quantile(ordered, 0.5),
        "best": ordered[-1] if direction == "higher" else ordered[0], "median": quantile(ordered, 0.5),
        "p5": quantile(ordered, 0.05), "p95": quantile(ordered, 0.95), "count": len(ordered), "samples": list(samples),
    }  # fmt: skip


def record(
    system: str,
    node: str,
    time: datetime,
    check: str,
    program: str,
    metrics: list[dict[str, Any]],
    gpus: list[dict[str, Any]],
    **changes: Any,
) -> dict[str, Any]:
    """A record as a check archives it; `changes` replace its keys."""
    night = time - timedelta(hours=12)
    stamp = f"{time:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "record": "tenken-record/1", "session": f"{night:%Y%m%d}T180000Z-5eed00", "time": stamp, "system": system,
        "partition": PARTITION, "environ": "cuda", "check": f"{check} %nid={node}", "base_check": check,
        "parameters": {}, "mode": "nightly", "program": program, "nodes": [node], "scheduler": "slurm",
        "job_id": f"{int(time.timestamp())}", "job_state": "COMPLETED", "exit_code": 0, "verdict": "PASS",
        "findings": [],
        "judged": {m["id"]: {"verdict": "PASS", "value": m["value"], "unit": m["unit"]} for m in metrics},
        "document": {
            "schema": "tenken-result/1", "program": program, "version": "0000000", "command": [program],
            "started": stamp, "finished": stamp,
            "host": {
                "name": node, "os": "Synthetic Linux 1", "kernel": "6.12.0", "architecture": "x86_64", "cpu": "CPU",
                "sockets": 2, "cores": 96, "logical_cpus": 192, "numa_nodes": 2, "memory_bytes": 2**40,
                "last_level_cache_bytes": 2**28, "virtual_machine": None, "firmware": "1.4",
            },
            "build": {"compiler": "GNU 13.2.0", "flags": "-O3", "type": "Release", "backends": ["host", "cuda"]},
            "status": "ok", "reason": "", "parameters": {"array_bytes": 2**30, "repetitions": 100},
            "placement": {"threads": 96, "allowed_cpus": [], "binding": "close", "numa_nodes_of_memory": [0, 1],
                          "ranks": 1},
            "devices": gpus, "metrics": metrics, "limits": {m["id"]: {"unknown": "synthetic"} for m in metrics},
            "verification": {"passed": True, "checks": []}, "path": {},
            "health": {"available": False, "reason": "synthetic", "devices": []},
        },
        "document_error": None, **changes,
    }  # fmt: skip


def write(archive: Path, record: dict[str, Any], number: int) -> Path:
    """Archive one record under the name that the suite would use; not synced, because it can be generated again."""
    day, clock = record["time"][:10], record["time"][11:19].replace(":", "")
    check = record["check"].replace(" %", "_").replace("=", "=")
    folder = archive / record["system"] / record["partition"] / day / check
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{clock}-{record['session']}-{number:08x}.json"
    path.write_text(json.dumps(record, separators=(",", ":")))
    return path


#: metric -> (program, check, subjects, level GB/s, noise between nights, noise between nodes or GPUs)
_METRICS: dict[str, tuple[str, str, tuple[dict[str, int], ...], float, float, float]] = {
    "triad": ("stream", "Stream", ({"gpu": 0}, {"gpu": 1}), 4360.0, 0.003, 0.003),
    "h2d": ("transfer", "Transfer", ({"gpu": 0}, {"gpu": 1}), 55.4, 0.004, 0.003),
    "peer": ("transfer", "Transfer", ({"from": 0, "to": 1},), 395.0, 0.003, 0.003),
    "host_triad": ("stream", "Stream", ({"host": 0},), 380.0, 0.010, 0.010),
}


def generate(archive: Path, nodes: int = NODES, nights: int = NIGHTS, seed: int = SEED, first: int = 0) -> int:
    """Write the nights from `first` on; returns the number of records. The same seed gives the same cluster."""
    number = 0
    for night in range(first, nights):
        for node in range(nodes):
            rng = random.Random(f"{seed}/{night}/{node}")
            if rng.random() < 0.01:
                continue  # drained that night
            time = FIRST + timedelta(days=night, minutes=rng.randrange(240))
            name = node_name(node)
            gpus = devices(name, GPUS, DRIVERS[night >= NEW_DRIVER])
            for program, check in (("stream", "Stream"), ("transfer", "Transfer")):
                found = []
                throttled = rng.random() < 0.002
                for metric_name, (of, _, subjects, level, noise, spread) in _METRICS.items():
                    if of != program:
                        continue
                    for subject in subjects:
                        value = _value(rng, metric_name, subject, node, night, level, noise, spread, seed)
                        value *= 0.7 if throttled else 1.0
                        found.append(metric(metric_name, subject, [value * rng.gauss(1, 0.001) for _ in range(9)]))
                changes: dict[str, Any] = {}
                if throttled:
                    text = f"{name} GPU 0: hardware thermal slowdown during the timed part"
                    finding = {"verdict": "INVALID", "message": text, "metric": None, "subject": f"{name} GPU 0"}
                    changes = {"verdict": "INVALID", "findings": [finding]}
                write(archive, record(SYSTEM, name, time, check, program, found, gpus, **changes), number)
                number += 1
                time += timedelta(minutes=7)
    return number


def _value(
    rng: random.Random,
    name: str,
    subject: dict[str, int],
    node: int,
    night: int,
    level: float,
    noise: float,
    spread: float,
    seed: int,
) -> float:
    own = random.Random(f"{seed}/{name}/{sorted(subject.items())}/{node}")
    value = level * own.gauss(1, spread) * rng.gauss(1, noise)
    first = subject.get("gpu", subject.get("from"))
    for fault in FAULTS:
        if fault.metric == name and fault.node in (None, node) and fault.gpu in (None, first):
            value *= 1 - fault.loss(night)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    count = generate(options.archive, options.nodes, options.nights, options.seed)
    print(f"{count} records of {options.nodes} nodes and {options.nights} nights in {options.archive}")


if __name__ == "__main__":
    main()
