"""Limits claimed by a result, compared with its own measurements and lists.

A data sheet has priority (tenken/judge/criteria.py). Without one a limit is the result's own claim: a rate
measured in the same run over the bytes of an operation, or properties reported by the device. Both are recomputed
here. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from tenken.judge.criteria import CLAIM_APART
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.result import Device, MetricValue, Result
from tenken.model.verdicts import FAIL

#: Maximum ratio of a GPU's maximum clock to the boost clock of its data sheet, on which the peak is based.
CLOCKS_APART = 0.25
#: How much more than its entries a format stores, at most.
PADDED = 4.0
#: The slowest copy of the GPUs represents all of them.
CELLS_APART = 0.10
#: Bytes of a number.
BYTES = {"single": 4, "double": 8}
#: Operations of a multiprocessor in a cycle by compute capability and format: CUDA C++ Programming Guide, throughput of
#: arithmetic instructions, and the tensor cores' rates in NVIDIA's architecture papers of A100 and H100.
A_CYCLE: Mapping[str, Mapping[str, int]] = {
    "8.0": {"fp64_tensor": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096},
    "9.0": {"fp64_tensor": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "int8": 8192, "fp8_e4m3": 8192},
}

Expected = Iterator[tuple[MetricValue, float, float, str]]
"""Metric, its recomputed limit, how far a claim may differ from it, and what it was computed from."""


def of(result: Result, machine: Machine, built: bool) -> list[Finding]:
    """Claimed limits that differ from what their own basis implies, and of a program that was `built`, other bases."""
    if "implementation" in result.parameters:
        return []
    formed = BY_PROGRAM.get(result.program)
    found = []
    for metric, limit, apart, basis in [*(formed(result, machine) if formed else ()), *_by_basis(result)]:
        claim = result.limits[metric.id]
        if claim.value is not None and limit > 0 and abs(claim.value - limit) > apart * limit:
            text = (
                f"{result.node} {metric.place}: {metric.id}: its limit is given as {claim.value:.6g} {claim.unit}; "
                f"{limit:.6g} by {basis}: more than {100 * apart:g} % apart"
            )
            found.append(Finding(FAIL, text, metric.id, metric.subject, result.node, kind="limit"))
    return [*found, *(_unknown_bases(result) if built else [])]


# ---- what a basis represents -------------------------------------------------------------------------------------

#: Giga-transfers per second of a PCIe lane by generation, and the share of its bits that is payload.
_PCIE = {1: (2.5, 0.8), 2: (5, 0.8), 3: (8, 128 / 130), 4: (16, 128 / 130), 5: (32, 128 / 130), 6: (64, 242 / 256)}


def pcie_gbs(generation: int, width: int) -> float | None:
    """GB/s of a PCIe link in one direction; None for an unknown generation."""
    rate = _PCIE.get(generation)
    return None if rate is None else rate[0] * rate[1] * width / 8


def _devices_of(result: Result, metric: MetricValue) -> list[Device]:
    """The GPUs that a metric is of; of ranks, all that are listed."""
    if metric.kind not in ("gpu", "pair", "ranks"):
        return []
    wanted = metric.subject.gpus if metric.kind != "ranks" else [device.index for device in result.devices]
    return [device for device in result.devices if device.index in wanted]


def _of_memory(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    bounds = [
        2e-3 * device.memory_clock_max_mhz * device.memory_bus_bits / 8
        for device in _devices_of(result, metric)
        if device.memory_clock_max_mhz and device.memory_bus_bits
    ]
    return min(bounds, default=None)


def _of_pcie(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    rates = [
        pcie_gbs(device.pcie_generation_max, device.pcie_width_max)
        for device in _devices_of(result, metric)
        if device.pcie_generation_max and device.pcie_width_max
    ]
    known = [rate for rate in rates if rate is not None]
    return min(known) * (2 if said[1] else 1) if known else None


def _of_nvlink(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    """As many links as are active, at the rate that their GPU's driver reports."""
    count, directions = int(said[1]), 2 if said[3] else 1
    devices = _devices_of(result, metric)
    rates = [device.nvlink_gbs_per_link for device in devices if device.nvlink_gbs_per_link]
    active = [device.nvlinks_active for device in devices if device.nvlinks_active is not None]
    if not rates:
        return None
    return directions * min(count, *active) * min(rates) if active else directions * count * min(rates)


def _of_units(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    device = next(iter(_devices_of(result, metric)), None)
    if device is None or not device.multiprocessors or not device.sm_clock_max_mhz:
        return None
    return device.multiprocessors * device.sm_clock_max_mhz * 1e6 * int(said[1]) / 1e12


def _of_copy(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    if metric.unit == "1":
        return 1.0
    copy = _at(result, "device_copy", metric)
    return None if copy is None else copy.value


def _of_cells(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    """Himeno: 56 B are moved per cell, or 64 where the pressure is copied back; 34 operations."""
    dot = _at(result, "dot", metric)
    return None if dot is None or int(said[1]) not in (56, 64) else dot.value * 34 / int(said[1])


def _of_lu(name: str) -> Callable[[Result, MetricValue, re.Match[str]], float | None]:
    def formed(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
        product = next(
            (m for m in _of(result, name) if m.subject == metric.subject and m.at.text == metric.at.text), None
        )
        return None if product is None else product.median

    return formed


def _one(result: Result, metric: MetricValue, said: re.Match[str]) -> float | None:
    return 1.0


Formed = Callable[[Result, MetricValue, "re.Match[str]"], "float | None"]

#: Bases of limits as the programs of this suite write them, and the limit that each of them represents in a result;
#: None: it cannot be formed from the result.
BASES: tuple[tuple[re.Pattern[str], Formed], ...] = tuple(
    (re.compile(pattern), formed)
    for pattern, formed in (
        (r"attribute: memory clock x bus width", _of_memory),
        (r"attribute: memory clock x bus width, operands and C once", lambda *_: None),
        (r"attribute: PCIe generation \d+ x\d+(, both directions)?", _of_pcie),
        (r"driver: the narrower PCIe of the two(, both ways)?", _of_pcie),
        (r"driver: (\d+) active NVLinks at ([\d.]+) GB/s(, both ways)?", _of_nvlink),
        (r"attribute: multiprocessors x highest clock x (\d+) (?:FP64 )?operations a cycle", _of_units),
        (r"measured: device_copy in this run", _of_copy),
        (r"measured: dot bandwidth in this run over (\d+) B (?:per|a) cell, 34 operations", _of_cells),
        (r"measured: DGEMM with K = NB in this run", _of_lu("dgemm")),
        (r"measured: low-precision products with K = NB in this run", _of_lu("product")),
        (r"the best of the library's algorithms(, in turns with it)?", _one),
        (r"measured: dot bandwidth in this run", lambda *_: None),
        (r"measured: dot bandwidth in this run over [\d.]+ B a counted operation", lambda *_: None),
        (r"measured: copy bandwidth in this run over \d+ B (?:per|a) cell and pass", lambda *_: None),
        (r"measured: copy bandwidth in this run over the bytes of a cell, all GPUs", lambda *_: None),
    )
)
#: Programs whose limits rest on these alone; others are a site's own.
OURS = (
    "access_patterns", "data_loading", "daxpy", "gemm", "himeno", "hpcg", "hpl", "hpl_mxp", "memcopy", "migration",
    "mpi_p2p", "nccl", "overlap", "p2p", "snapshot_io", "spmv", "stencil", "storage_map", "stream", "transfer",
    "transpose",
)  # fmt: skip


def _by_basis(result: Result) -> Expected:
    for metric in result.metrics:
        claim = result.limits[metric.id]
        if claim.value is None:
            continue
        for pattern, formed in BASES:
            said = pattern.fullmatch(claim.basis)
            limit = formed(result, metric, said) if said else None
            if limit is not None:
                yield metric, limit, CLAIM_APART, f"its basis {claim.basis!r}"


def _unknown_bases(result: Result) -> list[Finding]:
    """Limits that rest on something which no program of this suite writes, or are in no unit."""
    found = []
    for metric in result.metrics if result.program in OURS and result.token is not None else ():
        claim = result.limits[metric.id]
        if claim.value is None:
            continue
        text = ""
        if not claim.unit:
            text = f"the unit of its limit is empty; expected {metric.unit}"
        elif not any(pattern.fullmatch(claim.basis) for pattern, _ in BASES):
            text = f"its limit has the basis {claim.basis[:100]!r}, which {result.program} does not use"
        if text:
            message = f"{result.node} {metric.place}: {metric.id}: {text}"
            found.append(Finding(FAIL, message, metric.id, metric.subject, result.node, kind="limit"))
    return found


def _spmv(result: Result, machine: Machine) -> Expected:
    """A product reads each entry with its column once, a row's start and the vectors at least once."""
    size = BYTES.get(str(result.parameters.get("precision")))
    for metric in _of(result, "spmv", "best") if size else ():
        dot, entries = _at(result, "dot", metric), metric.at.get("nnz")
        rows = re.match(r"(\d+) x (\d+),", str(result.path.get(f"rows.{metric.at.get('matrix')}")))
        if dot is None or not isinstance(entries, int) or entries <= 0 or rows is None or size is None:
            continue
        most = dot.best * 2 / size  # entries of a block share a column
        whole = PADDED * (size + 4) * entries + (2 * size + 4) * (int(rows[1]) + int(rows[2]))
        least = dot.value * 2 * entries / whole
        claim = result.limits[metric.id].value
        if claim is not None and not least <= claim <= most * (1 + CLAIM_APART):
            bound = most if claim > most else least
            yield metric, bound, CLAIM_APART, f"{dot.id} and the bytes of {entries} entries"


def _cells(result: Result) -> Expected:
    """All parts of a stencil together, each as fast as the best limit of one GPU alone."""
    alone = [result.limits[metric.id].value for metric in _of(result, "alone", "fused") if metric.kind == "gpu"]
    best = max((value for value in alone if value is not None), default=None)
    for metric in _of(result, "cells") if best else ():
        yield (
            metric,
            metric.subject.first * (best or 0.0),
            CELLS_APART,
            f"{metric.subject.first} x the limit of one GPU",
        )


def _of(result: Result, *names: str) -> list[MetricValue]:
    return [metric for metric in result.metrics if metric.name in names]


def _at(result: Result, name: str, metric: MetricValue) -> MetricValue | None:
    """The metric of that name for the same subject, at its own coordinates."""
    fitting = (
        m for m in _of(result, name)
        if m.subject == metric.subject and all(metric.at.get(k) == v for k, v in m.at.items())
    )  # fmt: skip
    return next(fitting, None)


def _stencil(result: Result, machine: Machine) -> Expected:
    """A cell is read and written once per pass."""
    size = BYTES.get(str(result.parameters.get("precision")))
    if size is None:
        return
    for metric in _of(result, "alone", "fused"):
        copy = _at(result, "copy", metric)
        steps = metric.at.get("temporal_block", metric.at.get("steps_a_pass", 1))
        if copy is not None and isinstance(steps, int):
            yield metric, copy.value / (2 * size) * steps, CLAIM_APART, f"{copy.id} over {2 * size} B per cell and pass"
    yield from _cells(result)


def _hpcg(result: Result, machine: Machine) -> Expected:
    """All bytes of an iteration at the bandwidth of the dot product."""
    said = [result.path.get(f"bytes_of_iteration.{part}") for part in ("vectors", "product", "cycle")]
    counted = result.path.get("operations_of_iteration")
    moved = [float(one) for one in said if isinstance(one, (int, float))]
    if len(moved) < len(said) or not isinstance(counted, (int, float)) or not sum(moved):
        return
    for metric in _of(result, "raw", "set", "rating"):
        dot = _at(result, "dot", metric)
        if dot is not None:
            yield metric, dot.value * counted / sum(moved), CLAIM_APART, f"{dot.id} and bytes_of_iteration of path"


def _transpose(result: Result, machine: Machine) -> Expected:
    for metric in result.metrics:
        copy = _at(result, "device_copy", metric)
        if metric.name.endswith("_bandwidth") and copy is not None:
            yield metric, copy.value, CLAIM_APART, f"{copy.id} of the same run"


def _products(result: Result, machine: Machine) -> Expected:
    """Peaks of dense products: FP64 by data sheet, else multiprocessors x maximum clock x operations per cycle."""
    sheet = machine.limits.get(("fp64_tensor", "gpu"))
    for metric in _of(result, "gemm", "dgemm"):
        device = result.device(metric.subject.first) if metric.kind == "gpu" else None
        sides = [metric.at.get(side) for side in ("m", "n", "k")]
        # a flat one is limited by its memory traffic
        flat = metric.name == "gemm" and (len(set(sides)) > 1 or not isinstance(sides[0], int) or sides[0] < 4096)
        if device is None or flat:
            continue
        precision = "fp64_tensor" if metric.name == "dgemm" else str(metric.at.get("precision"))
        if precision == "fp64_tensor" and sheet is not None and sheet.value is not None:
            yield metric, sheet.value, CLOCKS_APART, sheet.basis
        a_cycle = A_CYCLE.get(device.compute_capability, {}).get(precision)
        if a_cycle is not None and device.multiprocessors and device.sm_clock_max_mhz:
            limit = device.multiprocessors * device.sm_clock_max_mhz * 1e6 * a_cycle / 1e12
            basis = f"multiprocessors x sm_clock_max_mhz of GPU {device.index} x {a_cycle} operations per cycle"
            yield metric, limit, CLAIM_APART, basis


BY_PROGRAM: Mapping[str, Callable[[Result, Machine], Expected]] = {
    "stencil": _stencil,
    "hpcg": _hpcg,
    "spmv": _spmv,
    "transpose": _transpose,
    "gemm": _products,
    "hpl": _products,
}
