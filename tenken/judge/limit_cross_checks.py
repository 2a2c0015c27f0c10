"""Limits claimed by a result, compared with its own measurements and lists.

A data sheet has priority (tenken/judge/criteria.py). Without one a limit is the result's own claim: a rate
measured in the same run over the bytes of an operation, or properties reported by the device. Both are recomputed
here. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tenken.judge.criteria import CLAIM_APART
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL

#: Maximum ratio of a GPU's maximum clock to the boost clock of its data sheet, on which the peak is based.
CLOCKS_APART = 0.25
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


def of(result: Result, machine: Machine) -> list[Finding]:
    """Claimed limits that differ from what their own basis implies."""
    formed = BY_PROGRAM.get(result.program)
    if formed is None or "implementation" in result.parameters:
        return []
    found = []
    for metric, limit, apart, basis in formed(result, machine):
        claim = result.limits[metric.id]
        if claim.value is not None and limit > 0 and abs(claim.value - limit) > apart * limit:
            text = (
                f"{result.node} {metric.place}: {metric.id}: its limit is given as {claim.value:.6g} {claim.unit}; "
                f"{limit:.6g} by {basis}: more than {100 * apart:g} % apart"
            )
            found.append(Finding(FAIL, text, metric.id, metric.subject, result.node, kind="limit"))
    return found


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
    "transpose": _transpose,
    "gemm": _products,
    "hpl": _products,
}
