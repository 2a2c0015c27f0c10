"""Rates of slabs compared with a single slab."""

from __future__ import annotations

from tenken.model.judgement import Finding
from tenken.model.result import Result
from tenken.model.verdicts import INVALID

#: In percent of the same number of single slabs. Clocks under a power cap change a ratio of two medians by 4, caches
#: with thinner slabs by more.
MAX_EFFICIENCY = 125.0


def ahead_of_alone(result: Result) -> list[Finding]:
    """Slabs that together are far faster than a single one permits: the single-slab run was disturbed."""
    return [
        Finding(
            INVALID,
            f"{result.node}: {metric.id} = {metric.value:.4g} %: slabs together cannot be that much faster than one "
            f"alone (at most {MAX_EFFICIENCY:g} %): the single-slab run was disturbed, repeat it on an idle node",
            metric.id,
            metric.subject,
            result.node,
            metric.value,
            "%",
            MAX_EFFICIENCY,
            kind="cross-check",
        )
        for metric in result.metrics
        if metric.name == "efficiency" and metric.value > MAX_EFFICIENCY
    ]
