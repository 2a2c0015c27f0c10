"""What devices of one model reached: figures of known devices, with which one of the same model is compared.

A publication forms a floor, never one of these: it states neither how many devices there were nor how they scattered.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev

from tenken.model.catalogue import Program
from tenken.model.judgement import KIND, Criterion
from tenken.model.numbers import student_quantile
from tenken.model.result import MetricValue, Result

#: Chance that a healthy device is below the bound, of each value.
CHANCE = 1e-5
#: Devices and sites from which the bound is a criterion; with fewer, a value below it has a note.
DEVICES, SITES = 20, 2
#: No bound is nearer to the mean than this: kept healthy devices reach 0.987 of it in memory and links.
NEAREST = 0.02
#: The clock of what a device itself did.
DEVICE_CLOCK = "device"
#: Devices from which their spread is known at all.
FEWEST = 3


@dataclass(frozen=True)
class Known:
    """A figure of the devices of one model, in `unit`: by machine its devices' values, and how many sites gave them."""

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
        """The least value of a further device; None: too few are known, or their scatter permits none.

        The lower end of the prediction interval, mean - t(n - 1, CHANCE) s sqrt(1 + 1/n): Student's t, for one value
        more of a normal distribution whose mean and deviation are estimated (Hahn and Meeker, Statistical Intervals,
        1991).
        """
        values = self.values
        if len(values) < FEWEST:
            return None
        mean = fmean(values)
        apart = student_quantile(1 - CHANCE, len(values) - 1) * stdev(values) * sqrt(1 + 1 / len(values))
        return mean - max(apart, NEAREST * mean) if apart < mean else None

    def criterion(self, metric: MetricValue, model: str) -> Criterion | None:
        """That value, where enough devices of enough sites are known."""
        if not self.decides or self.bound is None:
            return None
        of = f"{len(self.values)} {model}, {len(self.machines)} machines, {self.sites} sites"
        source = f"prediction interval of {of}"
        return Criterion(KIND, self.middle, self.bound, None, metric.unit, metric.statistic, source)


def of_device(program: Program, metric: MetricValue) -> bool:
    """Whether a value is a rate of the device alone: its host, files and links to them have no part in it."""
    declared = program.metrics[metric.name]
    return (
        metric.name in program.key and declared.across and not declared.crosses_pcie and not metric.derived
        and metric.clock == DEVICE_CLOCK and metric.direction == "higher" and metric.unit.endswith("/s")
    )  # fmt: skip


def figure(result: Result, program: Program, metric: MetricValue) -> str:
    """The name under which a value is compared: program and version, metric and subject, coordinates, and the identity
    where it is not the default: a parameter that a later release adds changes no name."""
    found = {name: program.parameter(result.parameters, name) for name in program.identity}
    identity = " ".join(f"{name}={value}" for name, value in sorted(found.items()) if value is not None)
    name = f"{result.program}/{program.version} {metric.name}.{metric.kind}{metric.at.id} {identity}".rstrip()
    return without_defaults(name, program)


def without_defaults(name: str, program: Program) -> str:
    """The name of a figure, of this release or one before, without the identity's defaults."""
    defaults = {f"{key}={value}" for key, value in program.identity.items() if value is not None}
    return " ".join(part for part in name.split(" ") if part not in defaults)
