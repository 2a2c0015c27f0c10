"""The metric rows of one record: its document's figures, their judgement, and how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reports import words
from reports.session import Case, field_of

PLOT_KINDS = ("bars", "series", "sweep", "matrix", "phases")


@dataclass
class Row:
    """One metric of one subject. All figures are in `unit`; efficiency and spread are fractions."""

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
    limit: float | None = None
    limit_basis: str = ""
    efficiency: float | None = None
    basis: str = ""
    #: where several nodes share a plot
    node: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def spread(self) -> float | None:
        """(best - median) / best, the figure that max_spread bounds; a fraction, None without both."""
        if not self.best or self.median is None:
            return None
        return abs(self.best - self.median) / abs(self.best)

    @property
    def at_words(self) -> str:
        return ", ".join(words.coordinate(k, v) for k, v in sorted(self.at.items()))

    @property
    def label(self) -> str:
        """Title with the coordinates, without the subject."""
        return f"{self.title}, {self.at_words}" if self.at else self.title


def rows_of(case: Case, catalogue: Mapping[str, Any]) -> list[Row]:
    """Rows of a case in the document's order, then judged metrics that the document does not have."""
    document = case.document
    judged: Mapping[str, Any] = case.record.judged or {} if case.record is not None else {}
    program = catalogue.get(str(document.get("program") or ""))
    described = _by_name(field_of(program, "metrics"))
    limits = document.get("limits")
    rows, seen = [], set()
    metrics = document.get("metrics")
    for metric in metrics if isinstance(metrics, list) else []:
        if isinstance(metric, dict) and isinstance(metric.get("id"), str):
            seen.add(metric["id"])
            limit = limits.get(metric["id"]) if isinstance(limits, dict) else None
            rows.append(_row(metric, judged.get(metric["id"]), described, limit, case))
    for metric_id, judgement in judged.items():
        if metric_id not in seen:
            rows.append(_row({"id": str(metric_id)}, judgement, described, None, case))
    return rows


def _by_name(metrics: Any) -> Mapping[str, Any]:
    """A program's metrics by name, whether the catalogue holds them as a mapping or as a sequence."""
    if isinstance(metrics, Mapping):
        return metrics
    return {str(field_of(m, "name")): m for m in metrics or ()}


def _finite(value: Any) -> float | None:
    return float(value) if words.is_number(value) else None


def _row(
    metric: Mapping[str, Any], judgement: Any, described: Mapping[str, Any], document_limit: Any, case: Case
) -> Row:
    name, subject_id, at_id = words.split_metric_id(metric["id"])
    name = str(metric.get("name") or name)
    about = described.get(name)
    subject = metric.get("subject")
    ends = None
    if isinstance(subject, dict) and isinstance(subject.get("from"), int) and isinstance(subject.get("to"), int):
        ends = (subject["from"], subject["to"])
    at = metric.get("at")
    unit = str(metric.get("unit") or field_of(judgement, "unit") or field_of(about, "unit") or "")
    samples = [float(s) for s in metric.get("samples") or [] if words.is_number(s)]
    plot = str(field_of(about, "plot") or "bars")
    value = _finite(field_of(judgement, "value"))
    row = Row(
        id=metric["id"],
        name=name,
        title=str(field_of(about, "title") or name.replace("_", " ")),
        group=str(field_of(about, "group") or ""),
        plot=plot if plot in PLOT_KINDS else "bars",
        subject=words.subject_words(subject if isinstance(subject, dict) else subject_id),
        ends=ends,
        at=dict(at) if isinstance(at, dict) else dict(at_id),
        unit=unit,
        direction=str(metric.get("direction") or field_of(judgement, "direction") or "higher"),
        statistic=str(metric.get("statistic") or field_of(judgement, "statistic") or ""),
        value=value if value is not None else _finite(metric.get("value")),
        best=_finite(metric.get("best")),
        median=_finite(metric.get("median")),
        p5=_finite(metric.get("p5")),
        p95=_finite(metric.get("p95")),
        count=metric.get("count") if isinstance(metric.get("count"), int) else None,
        samples=samples,
        verdict=str(field_of(judgement, "verdict") or ""),
        node=", ".join(case.nodes),
    )
    _judge(row, judgement, document_limit)
    return row


def _judge(row: Row, judgement: Any, document_limit: Any) -> None:
    reference = field_of(judgement, "reference")
    row.reference = _finite(field_of(reference, "value"))
    row.reference_source = str(field_of(reference, "source") or "")
    row.basis = str(field_of(judgement, "basis") or "")
    bounds = field_of(judgement, "bounds")
    if isinstance(bounds, (list, tuple)) and len(bounds) == 2:
        row.bounds = (_finite(bounds[0]), _finite(bounds[1]))
    limit = field_of(judgement, "limit") or document_limit
    row.limit = _finite(field_of(limit, "value"))
    unknown = field_of(limit, "unknown")
    row.limit_basis = f"unknown: {unknown}" if unknown else str(field_of(limit, "basis") or "")
    row.efficiency = _finite(field_of(judgement, "efficiency"))
    if row.efficiency is None and row.limit and row.value:
        row.efficiency = row.value / row.limit if row.direction == "higher" else row.limit / row.value
    if not row.verdict:
        # A metric that nobody judged must not look green; the page says so in words.
        row.notes.append("not judged")
