"""The metric rows of one record: the values of its result, their judgement, and their plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenken.model.catalogue import Metric, Program
from tenken.model.judgement import SAME_RUN, JudgedMetric, Limit
from tenken.model.result import MetricValue
from tenken.model.subject import Coordinates, Subject, split_metric_id
from tenken.model.verdicts import RECORDED
from tenken.report import formatting
from tenken.report.session import Case

PLOT_KINDS = ("bars", "series", "sweep", "matrix", "phases")


@dataclass
class Row:
    """One value of one subject. All values are in `unit`; efficiency and spread are fractions."""

    id: str
    name: str
    title: str
    group: str
    plot: str
    subject: str
    ends: tuple[int, int] | None
    at: dict[str, Any]
    unit: str
    direction: str
    statistic: str
    value: float | None
    best: float | None
    median: float | None
    p5: float | None
    p95: float | None
    count: int | None
    samples: list[float]
    verdict: str
    reference: float | None = None
    reference_source: str = ""
    bounds: tuple[float | None, float | None] = (None, None)
    #: maximum of the hardware, by data sheet or as reported by the device
    limit: float | None = None
    limit_basis: str = ""
    #: attainable value of the same run; never confused with the peak
    attainable: float | None = None
    #: relative to the peak if known, otherwise to the attainable value, as stated by `of_attainable`
    efficiency: float | None = None
    #: kind of the criterion: contract, reference or floor; empty for none
    criterion: str = ""
    #: if several nodes share a plot
    node: str = ""
    #: its id on the page, the target of links from findings
    anchor: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def spread(self) -> float | None:
        """(best - median) / best, the quantity that max_spread limits; a fraction, None if either is missing."""
        if not self.best or self.median is None:
            return None
        return abs(self.best - self.median) / abs(self.best)

    def share_of(self, limit: float | None) -> float | None:
        """The value as a fraction of a limit, inverted for metrics for which lower is better."""
        if not limit or not self.value:
            return None
        return self.value / limit if self.direction == "higher" else limit / self.value

    @property
    def ceiling(self) -> float | None:
        """The mark in a plot: the peak, otherwise the attainable value."""
        return self.limit if self.limit is not None else self.attainable

    @property
    def of_attainable(self) -> bool:
        """Whether the efficiency is relative to what the same run attained, because no peak is known."""
        return self.limit is None and self.attainable is not None

    @property
    def at_words(self) -> str:
        return ", ".join(formatting.coordinate(k, v) for k, v in sorted(self.at.items()))

    @property
    def label(self) -> str:
        """Title with the coordinates, without the subject."""
        return f"{self.title}, {self.at_words}" if self.at else self.title


def rows_of(case: Case, catalogue: Mapping[str, Program]) -> list[Row]:
    """Rows of a case in the result's order, then judged metrics that the result does not have."""
    result = case.result
    judged = case.record.judgement.judged if case.record is not None else {}
    program = catalogue.get(result.program) if result is not None else None
    rows, seen = [], set()
    for metric in result.metrics if result is not None else ():
        seen.add(metric.id)
        about = program.metric_named(metric.name) if program else None
        limit = result.limits.get(metric.id) if result is not None else None
        rows.append(_row(metric, judged.get(metric.id), about, limit, case))
    rows += [_judged_alone(metric_id, one, case) for metric_id, one in judged.items() if metric_id not in seen]
    return rows


def _row(
    metric: MetricValue, judged: JudgedMetric | None, about: Metric | None, limit: Limit | None, case: Case
) -> Row:
    plot = about.plot if about else "bars"
    row = Row(
        id=metric.id, name=metric.name, title=about.title if about else metric.name.replace("_", " "),
        group=about.group if about else "", plot=plot if plot in PLOT_KINDS else "bars",
        subject=metric.place,
        ends=(metric.subject.first, metric.subject.second) if metric.subject.second is not None else None,
        at=dict(metric.at), unit=metric.unit, direction=metric.direction, statistic=metric.statistic,
        value=metric.value if judged is None else judged.value, best=metric.best, median=metric.median, p5=metric.p5,
        p95=metric.p95, count=metric.count, samples=list(metric.samples), verdict="",
        node=", ".join(case.nodes),
    )  # fmt: skip
    _judge(row, judged, limit)
    return row


def _judged_alone(metric_id: str, judged: JudgedMetric, case: Case) -> Row:
    """A row for a judged value whose result was not kept."""
    name, subject_id, at = split_metric_id(metric_id)
    subject = Subject.in_id(subject_id)
    row = Row(
        id=metric_id, name=name, title=name.replace("_", " "), group="", plot="bars",
        subject=subject.place if subject else subject_id or "host", ends=None, at=dict(Coordinates.of(at)),
        unit=judged.unit, direction=judged.direction or "higher", statistic=judged.statistic, value=judged.value,
        best=None, median=None, p5=None, p95=None, count=None, samples=[], verdict="", node=", ".join(case.nodes),
    )  # fmt: skip
    _judge(row, judged, None)
    return row


def _judge(row: Row, judged: JudgedMetric | None, limit: Limit | None) -> None:
    if judged is None:
        # A value that was not judged must not look green; the page says so in words.
        row.notes.append("not judged")
        row.verdict = RECORDED
    else:
        row.verdict, row.bounds, limit = judged.verdict, judged.bounds, judged.limit
        row.efficiency = judged.efficiency
        if judged.criterion is not None:
            row.criterion = judged.criterion.kind
            if judged.criterion.kind != "floor":
                row.reference, row.reference_source = judged.criterion.value, judged.criterion.source
    if limit is not None:
        row.limit_basis = limit.basis if limit.value is not None else f"unknown: {limit.unknown}"
        if limit.said_by == SAME_RUN:
            row.attainable = limit.value
        else:
            row.limit = limit.value
    against = row.limit or row.attainable
    if row.efficiency is None and against and row.value:
        row.efficiency = row.value / against if row.direction == "higher" else against / row.value
