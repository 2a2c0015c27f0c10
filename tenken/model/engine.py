"""What is computed from a result: statistics, derived metrics and limits, as metrics.yaml declares.

A program states samples and what it did; this module computes the rest and knows no program by name. Values are in the
catalogue's unit; seconds with a count per sample become the rate that the unit requires.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenken.model.catalogue import Metric, Program
from tenken.model.derivation import Derivation
from tenken.model.formula import ITSELF, LIMIT, Formula, Unknown
from tenken.model.judgement import Limit
from tenken.model.numbers import quantiles
from tenken.model.result import SCHEMA, Result
from tenken.model.subject import Coordinates, Subject
from tenken.model.values import MetricValue, Series
from tenken.model.verification import Verification

#: What a unit counts, and the factor: "GB/s" are 10^9 bytes a second.
_RATES: Mapping[str, tuple[str, float]] = {
    "GB/s": ("bytes", 1e9), "GFLOP/s": ("operations", 1e9), "TFLOP/s": ("operations", 1e12), "Gcell/s": ("cells", 1e9),
    "samples/s": ("samples", 1.0), "tokens/s": ("tokens", 1.0), "messages/s": ("messages", 1.0),
}  # fmt: skip
_TIMES: Mapping[str, float] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def in_unit(series: Series, unit: str) -> tuple[float, ...]:
    """Samples of a series in `unit`. Raises ValueError if it has seconds but not the count that the unit needs."""
    if not series.seconds:
        return series.samples
    if unit in _TIMES:
        return tuple(one * _TIMES[unit] for one in series.samples)
    what, many = _RATES.get(unit, ("", 1.0))
    count = series.counts.get(what)
    if count is None:
        raise ValueError(f"{series.id} has seconds without {what or 'a count'}; its unit is {unit}")
    return tuple(count / many / one if one else math.inf for one in series.samples)


def value_of(
    name: str, subject: Subject, at: Coordinates, samples: Sequence[float], declared: Metric, clock: str = "",
    counts: Mapping[str, float] | None = None, derived: bool = False,
) -> MetricValue:  # fmt: skip
    """A value with its statistics (quantiles by linear interpolation), with declared unit, direction and statistic."""
    ordered = sorted(samples)
    median, p5, p95 = quantiles(ordered, (0.5, 0.05, 0.95))
    best = ordered[-1] if declared.direction == "higher" else ordered[0]
    total = math.fsum(ordered) / len(ordered) if declared.statistic in ("mean", "total") else 0.0
    value = {"median": median, "best": best, "p5": p5, "p95": p95}.get(declared.statistic, total)
    return MetricValue(
        f"{name}.{subject.id}{at.id}", name, subject, at, declared.unit, declared.direction, declared.statistic, value,
        best, median, p5, p95, len(ordered), tuple(samples), clock, counts or {}, derived,
    )  # fmt: skip


def completed(result: Result, program: Program) -> Result:
    """The same result with all values: statistics, what is derived from them, and the limit of each.

    What a version 1 result states itself is recomputed if its inputs exist: statistics from samples, derived values
    from their parts, limits from attributes. Otherwise it is kept as stated.
    """
    run = Run(result, program)
    for metric in program.metrics.values():
        for one in run.derived(metric):
            run.add(one)
    limits = {one.id: run.limit(one) for one in run.metrics}
    return replace(result, metrics=run.metrics, limits=limits, verification=verified(result, program))


def stale(result: Result, program: Program) -> str | None:
    """Why the result's program counts as built with another catalogue; None: it was not, or it does not state a digest
    (older results, third-party programs)."""
    if not result.catalogue or result.catalogue == program.digest:
        return None
    return (
        f"stale build: {program.name} was built with the catalogue {result.catalogue[:40]}, this is {program.digest} "
        "(names, units, tolerances, version)"
    )


def verified(result: Result, program: Program) -> Verification:
    """The comparisons of a version 2 result with the catalogue's text and tolerance; an undeclared one has no tolerance
    and does not pass."""
    if result.schema != SCHEMA:
        return result.verification
    checks = []
    for check in result.verification.checks:
        found = program.contract.find(check)
        if found is None:
            checks.append(check)
            continue
        declared = program.contract.verifications[found[0]]
        what = declared.text(found[1]) if check.name else check.what
        passed = check.error is not None and check.error <= declared.tolerance
        checks.append(replace(check, what=what, tolerance=declared.tolerance, passed=passed))
    return Verification(bool(checks) and all(check.passed for check in checks), tuple(checks))


Formed = tuple[Subject, Mapping[str, Any], Sequence[float]]
"""For a derived metric: subject, coordinates, samples."""


class Run:
    """The values of one result by name and place, in which formulas and functions of derived.py look them up."""

    def __init__(self, result: Result, program: Program, again: bool = True) -> None:
        """`again`: statistics are recomputed from the samples; otherwise the values are kept."""
        self.result, self.program = result, program
        self._by_id: dict[str, MetricValue] = {}
        self._by_name: dict[str, list[MetricValue]] = {}
        self._exact: dict[tuple[str, str, frozenset[tuple[str, Any]]], MetricValue] = {}
        for stated in result.metrics:
            self.add(_again(stated, program.metrics.get(stated.name)) if again else stated)
        for series in result.series if again else ():
            declared = program.metrics.get(series.name)
            if declared is not None and series.samples:
                samples = in_unit(series, declared.unit)
                self.add(
                    value_of(series.name, series.subject, series.at, samples, declared, series.clock, series.counts)
                )

    @property
    def metrics(self) -> tuple[MetricValue, ...]:
        return tuple(self._by_id.values())

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.result.parameters

    def add(self, one: MetricValue) -> None:
        """Adds a value, or replaces the one at the same place."""
        key = (one.name, one.subject.id, frozenset(one.at.items()))
        before = self._exact.get(key)
        self._exact[key] = one
        among = self._by_name.setdefault(one.name, [])
        if before is None:
            among.append(one)
            self._by_id[one.id] = one
        else:
            among[among.index(before)] = one
            self._by_id[before.id] = one if one.id == before.id else replace(one, id=before.id)

    def of(self, *names: str) -> list[MetricValue]:
        """All values of these metrics, in the order measured."""
        return [one for name in names for one in self._by_name.get(name, ())]

    def at(self, name: str, subject: Subject, at: Mapping[str, Any], **changed: Any) -> MetricValue | None:
        """The metric of that name and subject at the coordinates that it shares; those in `changed` must have the given
        value, or be absent if it is None."""
        where = {**at, **changed}
        wanted = {key: value for key, value in where.items() if value is not None}
        exact = self._exact.get((name, subject.id, frozenset(wanted.items())))
        if exact is not None:
            return exact
        required = {key for key, value in changed.items() if value is not None}
        for one in self._by_name.get(name, ()):
            same = one.subject == subject and required <= set(one.at)
            if same and all(wanted.get(key) == value for key, value in one.at.items()):
                return one
        return None

    # ---- derived metrics ----

    def derived(self, metric: Metric) -> Iterator[MetricValue]:
        """The values of a derived metric; none for one that is measured."""
        how = metric.derive
        if how is None:
            return
        formed = how.function(self) if how.function is not None else self._by_formula(metric.name, how)
        for subject, at, samples in formed:
            if samples and all(map(math.isfinite, samples)) and subject.kind in metric.per:
                yield value_of(
                    metric.name, subject, Coordinates.of(at), samples, metric,
                    metric.clock_of(subject.kind, self.parameters.get("backend")) or "", derived=True,
                )  # fmt: skip

    def _by_formula(self, name: str, how: Derivation) -> Iterator[Formed]:
        assert how.formula is not None
        for base in self.of(how.over):
            if any(base.at.get(key) not in allowed for key, allowed in how.where.items()):
                continue
            at = {key: value for key, value in base.at.items() if key not in how.without}
            count = self._rounds(how.formula, base) if how.of_samples else 1
            samples = []
            for number in range(count):
                value = how.formula.value(_Place(self, base, number if how.of_samples else None))
                if value is None:
                    break
                samples.append(value)
            else:
                yield base.subject, at, samples

    def _rounds(self, formula: Formula, base: MetricValue) -> int:
        """The minimum number of samples of the metrics involved; those with more took part in further rounds."""
        place = _Place(self, base, None)
        formula.value(place)
        return min((len(one.samples) for one in place.seen), default=0)

    # ---- limits and expectations ----

    def first(self, formulas: Iterable[Formula], one: MetricValue) -> float | None:
        """The first of several formulas that has a value for `one`."""
        place = _Place(self, one, None)
        return next((value for formula in formulas if (value := formula.value(place)) is not None), None)

    def limit(self, one: MetricValue) -> Limit:
        """The physical limit of a value: by the rule of its metric, otherwise as the result states it."""
        stated = self.result.limits.get(one.id)
        declared = self.program.metrics.get(one.name)
        rule = declared.limit_rules.get(one.kind) if declared else None
        if declared is None or rule is None:
            reasons = declared.no_limit if declared else {}
            return stated or Limit(None, unknown=reasons.get(one.kind, "the metric is not declared"))
        place = _Place(self, one, None)
        values: Iterable[float | None] = (formula.value(place) for formula in rule.values)
        for value in values if rule.function is None else rule.function(self, one):
            if value is not None and value > 0:
                return Limit(value, declared.unit, rule.basis, rule.said_by)
        return stated or Limit(None, unknown=rule.unknown)


def _again(stated: MetricValue, declared: Metric | None) -> MetricValue:
    """A value as stated, with statistics from its samples if these were kept in the declared unit."""
    if declared is None or not stated.samples or stated.unit != declared.unit:
        return stated
    # NaN and the like have no statistics; the judge reports them
    if not all(map(math.isfinite, stated.samples)):
        return stated
    again = value_of(stated.name, stated.subject, stated.at, stated.samples, declared, stated.clock)
    value = stated.value if declared.statistic == "total" else again.value
    return replace(again, id=stated.id, value=value)


class _Place:
    """Evaluates names at one value of a run, or at one of its samples (None: the values)."""

    def __init__(self, run: Run, base: MetricValue, sample: int | None) -> None:
        self._run, self._base, self._sample = run, base, sample
        self.seen: list[MetricValue] = []

    def metric(self, name: str, changed: Mapping[str, Any], statistic: str = "") -> float:
        base = self._base
        if name == LIMIT:
            limit = self._run.limit(base).value
            if limit is None:
                raise Unknown
            return limit
        found = (
            base
            if name in (base.name, ITSELF) and not changed
            else self._run.at(name, base.subject, base.at, **changed)
        )
        if found is None:
            raise Unknown
        self.seen.append(found)
        if statistic:
            return found.statistic_named(statistic)
        return found.value if self._sample is None else found.samples[self._sample]

    def attribute(self, owner: str, name: str) -> Any:
        base, result = self._base, self._run.result
        if owner == "at":
            return base.at.get(name)
        if owner == "count":
            return base.counts.get(name)
        if owner == "parameter":
            return self._run.program.parameter(result.parameters, name)
        if owner == "provenance":
            places = (name, f"{name}.{base.subject.id}", f"{name}.{base.id}")
            return next((result.path[place] for place in places if place in result.path), None)
        if owner in ("placement", "host", "subject"):
            return getattr(base.subject if owner == "subject" else getattr(result, owner), name)
        if owner == "link":
            return getattr(_link(result, base.subject), name)
        gpus = base.subject.gpus or tuple(device.index for device in result.devices)
        place = 0 if owner == "gpu" else 1
        device = result.device(gpus[place]) if len(gpus) > place else None
        return getattr(device, name) if device is not None else None

    def row(self, table: str, *keys: Any) -> float:
        found: Any = self._run.program.tables.get(table)
        for key in keys:
            found = found.get(str(key)) if isinstance(found, Mapping) else None
        if not isinstance(found, (int, float)):
            raise Unknown
        return found


@dataclass(frozen=True)
class _Linked:
    count: int | None = None
    kind: str | None = None


def _link(result: Result, subject: Subject) -> _Linked:
    """Active links of a pair. For one GPU, or the first of several, the links that can be used at once: links to
    different GPUs add up, links to a switch are shared by all. None if they lead to half of the others at most
    (cards bridged in twos or fours), so that PCIe joins the rest; GPUs linked to more than half all reach each other.
    """
    if subject.kind == "pair":
        ends = {subject.first, subject.second}
        found = [one for one in result.links if (one.first, one.second) == (subject.first, subject.second)]
        found = found or [one for one in result.links if {one.first, one.second} == ends]
        return _Linked(found[0].count, found[0].kind) if found else _Linked()
    first = subject.first if subject.kind == "gpu" else next((d.index for d in result.devices), 0)
    own = [one for one in result.links if one.first == first and one.count is not None]
    joined = sum(bool(one.count) for one in own)
    if not own or 0 < 2 * joined <= len(own):
        return _Linked()
    device = result.device(first)
    direct = sum(one.count or 0 for one in own if one.kind == "NVLink")
    shared = max((one.count or 0 for one in own if one.kind not in ("NVLink", "PCIe")), default=0)
    count = direct + shared
    if device is not None and device.nvlinks_active is not None:
        count = min(count, device.nvlinks_active)
    return _Linked(count, own[0].kind)
