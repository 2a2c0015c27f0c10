"""Bounds on the rate of an LU from its parts: products limit it, or at a small N its panels."""

from __future__ import annotations

from typing import Any

#: Minimum rate of an LU relative to the products of its run with inner dimension NB, which are all of an LU
#: except for panels, swaps and solve: 0.66 to 0.93 on H100 and H200 in every mode, on two and four 0.87 to 0.95.
OF_PRODUCTS = 0.60
#: What HPL-MxP does beside its LU: traffic of memory in proportion to N^2. At N = 92160 on two H200 it took 0.089 of
#: 0.689 s: 0.595 of the products with it, 0.72 without. It counts up to this share of the time of the LU alone: 0.04 to
#: 0.225 in 53 kept runs.
BESIDE_LU, BESIDE_AT_MOST = ("convert", "refine"), 0.30
#: Panels may reduce that rate to this share of it; further below, panels limit the rate, and it is not judged. In mode
#: quick: 0.81 to 0.95 on H200, 0.74 and 0.79 on H100.
PANELS_PERMIT = 0.70


def operations(n: int) -> float:
    """Operations of HPL and HPL-MxP for a matrix of order n: (2/3) n^3 + (3/2) n^2."""
    return 2 / 3 * n**3 + 1.5 * n**2


def permitted(run: Any, one: Any, part: str) -> float | None:
    """All operations over the time of one part of the last repetition, in TFLOP/s; None: not reported.

    With look-ahead a panel runs during an update, but panels run one after another: an LU takes at least the time of
    all panels. Their time grows with N^2, that of the updates with N^3, so at a small N on a fast GPU the panels
    decide.
    """
    seconds = run.at("phase", one.subject, one.at, part=part)
    return operations(one.at["n"]) / seconds.value / 1e12 if seconds is not None and seconds.value > 0 else None


def of_products(run: Any, one: Any, products: str) -> tuple[float | None, float | None] | None:
    """The minimum rate of an LU: a share of the rate of its products, or of what its panels permit, and between the
    ranks of one node what their broadcasts and swaps do; refinement is allowed its time. Networks between nodes
    are not judged by it."""
    found = run.at(products, one.subject, one.at)
    if found is None or found.value <= 0 or len(set(run.result.placement.nodes)) > 1:
        return None
    parts = ("panel", "broadcast", "swap") if one.subject.kind == "ranks" else ("panel",)
    rates = [permitted(run, one, part) for part in parts]
    rate = min([found.value, *(rate for rate in rates if rate is not None)])
    if rate < PANELS_PERMIT * found.value:
        return None
    beside = sum(1 / both for part in BESIDE_LU if (both := permitted(run, one, part)) is not None)
    return OF_PRODUCTS * rate / (1 + min(rate * beside, BESIDE_AT_MOST)), None


def of_all(run: Any, one: Any, operations_a_cycle: Any) -> float | None:
    """TFLOP/s of all ranks, which the slowest of their GPUs delays; `operations_a_cycle`: of a device."""
    rates = [
        a_cycle * device.multiprocessors * device.sm_clock_max_mhz * 1e-6
        for device in run.result.devices
        if (a_cycle := operations_a_cycle(device)) and device.multiprocessors and device.sm_clock_max_mhz
    ]
    return one.subject.first * min(rates) if rates and len(rates) == len(run.result.devices) else None
