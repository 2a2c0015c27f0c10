"""Healthy checks of a node of eight GPUs, one after another, with the noise of real machines.

Measured values are drawn from 100 processes of the short triad on one H100 (tests/data/h100-short-triads.txt) and 60
of the rest on one H200 (tools/bench/h200_run_to_run.csv), each as a share of their median, around a separate level for
each GPU; the host's triad from checks on three nodes. Readings move as on two H100: temperatures, clocks and links of
idle GPUs, one to three CRC errors of each NVLink between two checks, single replays and corrected errors, traffic of
ports.
"""

from __future__ import annotations

import copy
import csv
import random
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from tenken.node.verdict import BAD, ENOUGH, KEPT, UNSURE, Seen, findings, low
from tenken.paths import ROOT
from tests.unit.node.fakes import Node

GPUS = 8
#: Column of the kept runs by the values whose noise it provides; PAIRS: one peer copy per GPU.
COLUMNS = {"stream.triad": "", "transfer.htod_pinned": "h2d_median", "transfer.dtoh_pinned": "d2h_median",
           "p2p.peer": "p2p_median", "gemm.gemm": "dgemm_median_tf"}  # fmt: skip
TRIADS = ROOT / "tests" / "data" / "h100-short-triads.txt"
#: GB/s of the host's triad in the checks of one node each: virtual machines with two H100, one H100 and two H200.
HOSTS = (
    (173.8, 174.9, 176.2, 177.5, 178.1, 179.4, 180.6, 182.0),
    (115.0, 117.3, 123.4, 109.9, 102.6, 121.5, 121.0, 123.0),
    (116.6, 155.4, 159.7, 161.4),
)


def noise(of_host: int) -> dict[str, list[float]]:
    """Shares of the median, by program and metric; the host's on one of the nodes."""
    with (ROOT / "tools" / "bench" / "h200_run_to_run.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    found = {name: [float(row[column]) for row in rows] for name, column in COLUMNS.items() if column}
    found["stream.triad"] = [float(word) for word in TRIADS.read_text().split()]
    shares = {name: [value / median(values) for value in values] for name, values in found.items()}
    host = HOSTS[of_host % len(HOSTS)]
    return shares | {"stream.triad.": [value / median(host) for value in host]}


def values(random_: random.Random, of: Mapping[str, list[float]]) -> dict[str, float]:
    """What one check measures."""
    result = {}
    for name, shares in of.items():
        for gpu in range(GPUS if name in COLUMNS else 1):
            subject = f"gpu{gpu}-gpu{(gpu + 4) % GPUS}" if name == "p2p.peer" else f"gpu{gpu}"
            key = f"{name}.{subject}" if name in COLUMNS else f"{name}host"
            result[key] = (1000 + 2 * gpu) * random_.choice(shares)
    return result


def history(random_: random.Random, of: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """The first good checks of a node."""
    checks = [values(random_, of) for _ in range(KEPT)]
    return {name: [check[name] for check in checks] for name in checks[0]}


def alarms(node: Node, count: int, seed: int, lost: Mapping[str, float] | None = None) -> Iterator[tuple[int, str]]:
    """Number and line of each check that would not have ended with 0; a low value is measured twice. `lost`: shares
    that values really fell to."""
    chance, of = random.Random(seed), noise(seed)
    known = {name: of_name[: chance.randint(ENOUGH, KEPT)] for name, of_name in history(chance, of).items()}
    answers = node.read()
    gpus = [part for name, part in answers["gpus"].parts.items() if name != "driver"]
    before = [(dict(gpu["nvlink_errors"]), gpu["pcie_replay"], gpu["ecc_corrected"]) for gpu in gpus]
    port: dict[str, Any] = answers["host"].value["ports"]["mlx5_0/1"]["counters"]
    rest, kept = random.Random(-seed), copy.deepcopy(node.last)
    assert kept is not None
    for number in range(count):
        for gpu, was, (links, replays, corrected) in zip(gpus, kept["gpus"], before, strict=True):
            idle = chance.random() < 0.5
            # the check before found it in any state too
            was |= {name: gpu[name] for name in ("pstate", "pcie_generation", "clock_mhz")}
            crc = {f"crc_flit.{link}": links[f"crc_flit.{link}"] + int(4 * chance.random()) for link in range(0, 18, 6)}
            gpu |= {
                "temperature_c": 24 + int(37 * chance.random()), "pstate": 8 if idle else 0,
                "pcie_generation": rest.choice((1, 3, 5)) if idle else 5, "clock_mhz": 345 if idle else 1980,
                "pcie_replay": replays + int(4 * chance.random()), "slowdowns": [],
                "memory_used_bytes": int(64 * chance.random()) << 20,
                "ecc_corrected": corrected + int(3 * chance.random()), "nvlink_errors": links | crc,
            }  # fmt: skip
        port["symbol_error"] = int(6 * chance.random())
        port["port_xmit_discards"] = 9 + int(500 * chance.random())
        seen = Seen(node.expect, kept, answers, node.last_time + 300, node.mine, node.waited, node.root_user)
        yield from ((number, one.line) for one in findings(seen) if one.severity in (BAD, UNSURE))
        measured = values(chance, of)
        measured |= {name: measured[name] * share for name, share in (lost or {}).items()}
        if slow := dict(low(measured, {}, known)):
            again = values(chance, of)
            again |= {name: again[name] * share for name, share in (lost or {}).items()}
            yield from ((number, f"{name} {why}") for name, why in low(again, {}, known) if name in slow)
