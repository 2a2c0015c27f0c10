"""Consistency that every run of a program must have, over all kept results: errors of our own programs, which are the
same on every machine, are found here and not checked elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

from tenken.model import catalogue
from tenken.model.result import MetricValue, Result
from tests.support import kept

#: Parts of an LU that run alongside others, or belong to another one.
BESIDE = ("panel", "ahead", "broadcast", "refine_residuals", "refine_corrections")


@cache
def results() -> tuple[Result, ...]:
    """Kept results of our own programs in the form since tokens were introduced."""
    found = (record.result for record in (*kept.first_runs(), *kept.two_quick(), *kept.openacc()))
    return tuple(r for r in found if r and r.status == "ok" and r.token and "implementation" not in r.parameters)


def number(result: Result, key: str) -> float:
    said = result.path.get(key)
    return float(said) if isinstance(said, (int, float)) else math.nan


def of(result: Result, *names: str) -> list[MetricValue]:
    return [metric for metric in result.metrics if metric.name in names]


def ids(result: Result) -> Iterator[bool]:
    """An id consists of name, subject and the names of the coordinates."""
    for metric in result.metrics:
        keys = [part.partition("=")[0] for part in metric.id.split(".") if "=" in part]
        yield metric.id.startswith(f"{metric.name}.{metric.subject.id}") and keys == list(metric.at)


def clocks(result: Result) -> Iterator[bool]:
    """A metric is timed by the clock that metrics.yaml declares."""
    for metric in result.metrics:
        declared = catalogue.program(result.program).metrics[metric.name]
        clock = declared.clock_of(metric.kind, result.parameters.get("backend"))
        if clock is not None and metric.clock is not None:
            yield metric.clock == clock


def energies(result: Result) -> Iterator[bool]:
    """Watts x seconds are joules, except for rounding."""
    for key in result.path:
        if key.startswith("energy.") and key.endswith(".joules"):
            place = key.removesuffix(".joules")
            product = number(result, f"{place}.watts") * number(result, f"{place}.duration")
            yield math.isnan(product) or math.isclose(number(result, key), product, rel_tol=0.01)


def parts_of_lu(result: Result) -> Iterator[bool]:
    """Consecutive parts of the last repetition take as long as it: 0.94 to 1.00 in 68 results."""
    for metric in of(result, "hpl", "hpl_mxp") if result.program in ("hpl", "hpl_mxp") else ():
        n = metric.at["n"]
        parts = {
            m.at["part"]: m.value
            for m in of(result, "phase")
            if m.subject == metric.subject and all(m.at.get(key) == value for key, value in metric.at.items())
        }
        if metric.kind != "gpu" or "exposed" not in parts or not isinstance(n, int) or not metric.samples:
            continue
        last = (2 / 3 * n**3 + 1.5 * n**2) / metric.samples[-1] / 1e12
        yield 0.70 * last <= sum(value for part, value in parts.items() if part not in BESIDE) <= 1.02 * last


def phases_of_hpcg(result: Result) -> Iterator[bool]:
    """The phases together last as long as the counted operations at the raw rate."""
    counts = [number(result, key) for key in ("sets", "iterations_of_set", "operations_of_iteration")]
    seconds = sum(number(result, f"phase_seconds.{part}") for part in ("dot", "vectors", "product", "cycle"))
    for raw in of(result, "raw") if result.program == "hpcg" else ():
        reached = result.placement.ranks * math.prod(counts) / seconds / 1e9
        yield 0.90 * reached <= raw.value <= 1.02 * reached


def slabs(result: Result) -> Iterator[bool]:
    """A slab has its share of the planes."""
    count, planes, height = number(result, "slabs"), number(result, "slab_planes"), result.parameters.get("nz")
    if result.program == "stencil" and isinstance(height, int):
        each = height / count if result.parameters.get("scaling") == "strong" else height
        yield math.floor(each) <= planes <= math.ceil(each)


#: Each relation, and the minimum number of times it is found.
CONTRACTS = {ids: 2000, clocks: 2000, energies: 10, parts_of_lu: 5, phases_of_hpcg: 5, slabs: 10}


def test_results_agree_with_themselves() -> None:
    held: Counter[str] = Counter()
    for result in results():
        for contract in CONTRACTS:
            good = list(contract(result))
            assert all(good), f"{contract.__name__}: {result.program} {result.started}: {good.count(False)}"
            held[contract.__name__] += len(good)
    assert all(held[contract.__name__] >= least for contract, least in CONTRACTS.items()), held
