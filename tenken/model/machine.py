"""What a judgement knows about the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tenken.model.judgement import Criterion, Limit
from tenken.model.kinds import Known
from tenken.model.result import MetricValue, Result

CriterionLookup = Callable[[Result, MetricValue], "Criterion | None"]


def no_criterion(result: Result, metric: MetricValue) -> Criterion | None:
    """For a machine without references."""
    return None


def none_unmatched(result: Result, metric: MetricValue) -> str:
    """For a machine without references."""
    return ""


def none_known(result: Result, metric: MetricValue) -> Known | None:
    """For a machine with no data on its devices."""
    return None


@dataclass(frozen=True)
class Machine:
    """Capabilities that the machine's file claims, limits by data sheet, and its references.

    `limits` are keyed by what they bound and the kind of subject: ("memory", "gpu"). `links_per_pair` is the number of
    NVLinks between each pair of GPUs, None if it is unknown or the pairs differ. `gpu` is the data sheet of the GPUs,
    `gpu_names` regular expressions for their driver's names, `features` those of the partition and environment (cuda,
    mpi, ...). `unmatched` states how the references of a metric differ from it if none applies; empty if it has none.
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
    gpu_l2_bytes: float | None = None
    #: Minimum share of a limit that healthy devices reach, with its source, by the same keys as `limits`.
    attained: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    #: Cores of the sockets whose memory bounds values of the host; None: unknown.
    host_cores: int | None = None
    #: Power limit of the GPUs as delivered, in W.
    gpu_power_w: float | None = None
    unmatched: Callable[[Result, MetricValue], str] = none_unmatched
    #: Why a limit is unknown, by the same keys; a value without a criterion for that reason gets a note.
    unknown: Mapping[tuple[str, str], str] = field(default_factory=dict)
    #: What other devices of the same model as a value's GPUs reached.
    kind: Callable[[Result, MetricValue], Known | None] = none_known
