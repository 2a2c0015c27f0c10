"""What a judgement knows of the machine that ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tenken.model.judgement import Criterion, Limit
from tenken.model.result import MetricValue, Result

CriterionLookup = Callable[[Result, MetricValue], "Criterion | None"]


def no_criterion(result: Result, metric: MetricValue) -> Criterion | None:
    """Of a machine without references."""
    return None


def none_unmatched(result: Result, metric: MetricValue) -> str:
    """Of a machine without references."""
    return ""


@dataclass(frozen=True)
class Machine:
    """Capabilities that the machine's file claims, limits by data sheet, and its references.

    `limits` are by what they bound and for which kind of subject: ("memory", "gpu"). `links_per_pair` is the number of
    NVLinks that join each pair of GPUs, None where they are joined otherwise or it is not known. `gpu` is the data
    sheet of the GPUs, `gpu_names` the regular expressions of what their driver calls them, `features` what its
    partition and environment have (cuda, mpi, ...). `unmatched` says how the references of a metric that none of them
    fits differ from it; empty where there are none.
    """

    capabilities: frozenset[str] = frozenset()
    limits: Mapping[tuple[str, str], Limit] = field(default_factory=dict)
    criterion: CriterionLookup = no_criterion
    links_per_pair: int | None = None
    features: frozenset[str] = frozenset()
    gpu: str = ""
    gpu_names: tuple[str, ...] = ()
    compute_capability: str = ""
    gpu_memory_bytes: float | None = None
    unmatched: Callable[[Result, MetricValue], str] = none_unmatched
