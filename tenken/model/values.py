"""Numbers of a run: a series of samples as measured, and a value with its statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tenken.model.subject import Coordinates, Subject

#: How to get each statistic of a value.
_FIELD_OF = {"best": "best", "median": "median", "p5": "p5", "p95": "p95", "total": "value"}


@dataclass(frozen=True)
class Series:
    """Samples of one metric at one place, in the order measured: seconds, with what one sample counts (bytes,
    operations, cells, samples), or numbers in the unit of the catalogue. `clock`: host, device or both. `calls` among
    the counts: a sample is the mean of this many.
    """

    name: str
    subject: Subject
    at: Coordinates
    samples: tuple[float, ...]
    clock: str = ""
    seconds: bool = False
    counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """name.subject[.key=value...], keys in alphabetical order."""
        return f"{self.name}.{self.subject.id}{self.at.id}"

    @property
    def duration(self) -> float:
        """Seconds of all samples of seconds."""
        return sum(self.samples) * self.counts.get("calls", 1)


@dataclass(frozen=True)
class MetricValue:
    """One value of a run: *the* value is the statistic named, in `unit`; samples in the order measured, empty if they
    were pruned. `counts`: what one sample counts. `derived`: computed from other values of the run.
    """

    id: str
    name: str
    subject: Subject
    at: Coordinates
    unit: str
    direction: str
    statistic: str
    value: float
    best: float
    median: float
    p5: float
    p95: float
    count: int
    samples: tuple[float, ...]
    clock: str = ""
    counts: Mapping[str, float] = field(default_factory=dict, compare=False)
    derived: bool = field(default=False, compare=False)

    @property
    def kind(self) -> str:
        """host, gpu, pair or ranks."""
        return self.subject.kind

    @property
    def place(self) -> str:
        """The subject in words, without the node: "host", "GPU 0", "GPU 0 → 1", "4 ranks"."""
        return self.subject.place

    @property
    def spread(self) -> float:
        """Distance of the median from the best as a fraction of the best; 0 when best is 0."""
        return abs(self.best - self.median) / abs(self.best) if self.best else 0.0

    def statistic_named(self, statistic: str) -> float:
        """best, median, p5, p95 or mean of the samples; the value for `total`."""
        if statistic == "mean":
            if not self.samples:  # pruned
                return self.value if self.statistic == "mean" else math.nan
            return math.fsum(self.samples) / len(self.samples)
        figure: float = getattr(self, _FIELD_OF[statistic])
        return figure
