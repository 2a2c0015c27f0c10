"""What devices of one model reached: figures of known devices, with which others of the model are compared.

A publication can be the source of a floor, never of these figures: it states neither the number of devices nor their
scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev

from tenken.model.catalogue import Program
from tenken.model.judgement import KIND, Criterion
from tenken.model.numbers import student_quantile
from tenken.model.result import MetricValue, Result

#: Probability that a healthy device is below the bound, per value.
CHANCE = 1e-5
#: Minimum number of devices and sites for a criterion; with fewer, a value below the bound has a note.
DEVICES, SITES = 20, 2
#: The bound is never closer to the mean than this: kept healthy devices reach 0.987 of it in memory and links.
NEAREST = 0.02
#: The clock of what a device executes.
DEVICE_CLOCK = "device"
#: Minimum number of devices for a spread.
FEWEST = 3


@dataclass(frozen=True)
class Known:
    """A figure of the devices of one model, in `unit`: the values by machine, and the number of sites."""

    unit: str
    machines: tuple[tuple[float, ...], ...]
    sites: int

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value for machine in self.machines for value in machine)

    @property
    def middle(self) -> float:
        return median(self.values)

    @property
    def decides(self) -> bool:
        """Whether a value beyond the bound is a FAIL."""
        return len(self.values) >= DEVICES and self.sites >= SITES

    @property
    def bound(self) -> float | None:
        """The minimum of a further device; None: too few are known, or they scatter too much.

        The lower end of the prediction interval, mean - t(n - 1, CHANCE) s sqrt(1 + 1/n): Student's t, for one further
        value of a normal distribution whose mean and deviation are estimated (Hahn and Meeker, Statistical Intervals,
        1991).
        """
        values = self.values
        if len(values) < FEWEST:
            return None
        mean = fmean(values)
        apart = student_quantile(1 - CHANCE, len(values) - 1) * stdev(values) * sqrt(1 + 1 / len(values))
        return mean - max(apart, NEAREST * mean) if apart < mean else None

    def criterion(self, metric: MetricValue, model: str) -> Criterion | None:
        """That value, if there are enough devices of enough sites."""
        if not self.decides or self.bound is None:
            return None
        of = f"{len(self.values)} {model}, {len(self.machines)} machines, {self.sites} sites"
        source = f"prediction interval of {of}"
        return Criterion(KIND, self.middle, self.bound, None, metric.unit, metric.statistic, source)


def of_device(program: Program, metric: MetricValue) -> bool:
    """Whether a value is a rate of the device alone, independent of its host, files and links."""
    declared = program.metrics[metric.name]
    return (
        metric.name in program.key and declared.across and not declared.crosses_pcie and not metric.derived
        and metric.clock == DEVICE_CLOCK and metric.direction == "higher" and metric.unit.endswith("/s")
    )  # fmt: skip


def figure(result: Result, program: Program, metric: MetricValue) -> str:
    """The name under which a value is compared: program and version, metric and subject, coordinates, and identity
    parameters that differ from the defaults, so that a parameter added later changes no name."""
    found = {name: program.parameter(result.parameters, name) for name in program.identity}
    identity = " ".join(f"{name}={value}" for name, value in sorted(found.items()) if value is not None)
    name = f"{result.program}/{program.version} {metric.name}.{metric.kind}{metric.at.id} {identity}".rstrip()
    return without_defaults(name, program)


def without_defaults(name: str, program: Program) -> str:
    """The name of a figure of this or an earlier release, without the identity's defaults."""
    defaults = {f"{key}={value}" for key, value in program.identity.items() if value is not None}
    return " ".join(part for part in name.split(" ") if part not in defaults)
