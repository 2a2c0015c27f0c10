"""Values compared with others of the same run, as metrics.yaml expects (tenken/model/expectation.py): the engine.

It knows no program. GPUs and pairs are compared with their siblings, sweeps with the line through neighbours, and
everything else with a formula or function of the catalogue.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tenken.errors import ResultError
from tenken.judge.bounds import LIMITED, NOTE, locked, miss, say
from tenken.model.engine import Run
from tenken.model.expectation import BEST, Bounds, Expectation
from tenken.model.fingerprint import Comparison, Key, by_key, compare, stated
from tenken.model.formula import Formula
from tenken.model.judgement import RELATION, Criterion, Finding
from tenken.model.machine import Machine
from tenken.model.numbers import enough, interval, quantile, surely_below
from tenken.model.request import Request
from tenken.model.result import Link, MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID, RECORDED

#: The median of the pairs is beyond either end of the reported interval with this probability.
OPEN = 0.005
#: Minimum number of pairs in a class for comparison with its median.
CLASS = 3
#: The other direction of a pair is a closer comparison than other pairs: it may be ahead by this share of their
#: tolerance. In kept runs the two directions differ by 0.1 % (peer copies) to 0.8 % (staged by the driver).
DIRECTION, OPPOSITE = 0.6, "the other direction"


def of(run: Run, request: Request, machine: Machine) -> tuple[list[Finding], dict[str, Criterion]]:
    """Findings, and the bounds of the compared values by their ids. For a value that misses several bounds, only proven
    findings are reported."""
    findings = _siblings(run)
    criteria: dict[str, Criterion] = {}
    for declared in run.program.metrics.values():
        for expected in declared.expect:
            if request.mode in expected.not_in:
                continue
            if expected.claimed and expected.claimed not in machine.capabilities:
                continue
            for metric, low, high in _held(run, run.of(declared.name), expected):
                found = _missed(run, metric, expected, low, high)
                findings += found
                provable = expected.proof != "pairs" or enough(metric.samples)
                if expected.value is None and expected.verdict == FAIL and provable:
                    bound = next(one for one in (low, high) if one is not None)
                    kind = (metric.unit, metric.statistic, f"{expected.source}, same run")
                    criteria.setdefault(metric.id, Criterion(RELATION, bound, low, high, *kind))
    proven = {finding.metric for finding in findings if finding.verdict == FAIL}
    return [f for f in findings if f.verdict == FAIL or f.metric not in proven], criteria


Held = tuple[MetricValue, "float | None", "float | None"]
"""A value with its lower and upper bound."""


def _held(run: Run, metrics: Sequence[MetricValue], expected: Expectation) -> Iterator[Held]:
    """Values that an expectation applies to, and their bounds."""
    where = expected.where.items()
    chosen = [m for m in metrics if m.kind in expected.of and all(m.at.get(key) in allowed for key, allowed in where)]
    if expected.sweep:
        yield from _between(chosen, expected)
        return
    for metric in _only(chosen, expected.only):
        bounds: Bounds | None
        if expected.function is not None:
            bounds = expected.function(run, metric)
        else:
            bounds = run.first(expected.low, metric), run.first(expected.high, metric)
        if bounds is not None and bounds != (None, None):
            yield metric, *bounds


def _only(metrics: Iterable[MetricValue], only: str) -> Iterable[MetricValue]:
    """All values, the best of each subject, or those of each subject at the largest value of a coordinate."""
    if not only:
        return metrics
    found: dict[tuple[object, ...], tuple[float, MetricValue]] = {}
    for metric in metrics:
        if only == BEST:
            place: tuple[object, ...] = (metric.subject,)
            rank = metric.value if metric.direction == "higher" else -metric.value
        else:
            rest = sorted((key, str(value)) for key, value in metric.at.items() if key != only)
            place, rank = (metric.subject, *rest), metric.at.get(only, -math.inf)
        if place not in found or rank > found[place][0]:
            found[place] = (rank, metric)
    return [metric for _, metric in found.values()]


def _between(metrics: Iterable[MetricValue], expected: Expectation) -> Iterator[Held]:
    """Each inner point of a sweep, compared with the line through the adjacent sizes: the time is one latency plus the
    size over one bandwidth."""
    sweeps: dict[tuple[object, ...], dict[float, MetricValue]] = {}
    for metric in metrics:
        size = metric.at.get(expected.sweep)
        if isinstance(size, (int, float)) and size > 0 and metric.value > 0:
            rest = tuple(sorted((key, str(value)) for key, value in metric.at.items() if key != expected.sweep))
            sweeps.setdefault((metric.name, metric.subject, rest), {})[size] = metric
    for sweep in sweeps.values():
        sizes = sorted(sweep)
        for (before, size), after in zip(pairwise(sizes), sizes[2:], strict=False):
            part = (size - before) / (after - before)
            seconds = _time(sweep[before], before) * (1 - part) + _time(sweep[after], after) * part
            if sweep[size].direction == "higher":
                yield sweep[size], size / seconds / expected.times, None
            else:
                yield sweep[size], None, seconds * expected.times


def _time(metric: MetricValue, size: float) -> float:
    return size / metric.value if metric.direction == "higher" else metric.value


# ---- misses ----------------------------------------------------------------------------------------------------


def _missed(
    run: Run, metric: MetricValue, expected: Expectation, low: float | None, high: float | None
) -> list[Finding]:
    value, name, unit = metric.value, metric.id, f" {metric.unit}"
    if expected.value is not None:
        compared = run.first((expected.value,), metric)
        if compared is None:
            return []
        value, name, unit = compared, f"{metric.id}: {expected.value.text}", ""
    if low is not None and value < low:
        side, bound, least = "least", low, True
    elif high is not None and value > high:
        side, bound, least = "most", high, False
    else:
        return []
    text = f"{name} = {value:.6g}{unit}; at {side} {bound:.6g} is required: {expected.source}"
    found = miss(run.result, metric, text, value, bound, RELATION)
    if expected.verdict != FAIL:
        return [replace(found, verdict=expected.verdict, kind=RELATION if expected.verdict == INVALID else NOTE)]
    open_ = _undecided(metric, expected, bound, least)
    return [replace(found, verdict=RECORDED, message=f"{found.message}; {open_}", kind=NOTE)] if open_ else [found]


def _undecided(metric: MetricValue, expected: Expectation, bound: float, least: bool) -> str:
    """Why the samples do not prove a miss; empty if they do. Noise neither passes nor fails."""
    if expected.proof == "rounds":
        good = sum((sample >= bound) if least else (sample <= bound) for sample in metric.samples)
        return f"undecided: {good} of {metric.count} rounds reach it" if good else ""
    if expected.proof == "pairs":
        signed = metric.samples if least else [-one for one in metric.samples]
        if not surely_below(signed, bound if least else -bound):
            low, high = interval(metric.samples, OPEN)
            return (
                f"undecided, too noisy for so few rounds (in {metric.count} rounds, with 99 % confidence {low:.3g} to "
                f"{high:.3g})"
            )
    return ""


# ---- siblings --------------------------------------------------------------------------------------------------


def _siblings(run: Run) -> list[Finding]:
    """Finds GPUs that are slower than the others of the run, and pairs slower than their other direction or class, by
    more than noise."""
    found: list[Finding] = []
    links = {(one.first, one.second): one for one in run.result.links}
    for name, declared in run.program.metrics.items():
        if declared.siblings is None:
            continue
        classes: dict[object, list[MetricValue]] = {}
        opposite: dict[object, MetricValue] = {}
        for metric in run.of(name):
            if metric.kind in ("gpu", "pair"):
                classes.setdefault((metric.at.text, _class(run, metric, links)), []).append(metric)
                opposite[metric.at.text, metric.subject.second, metric.subject.first] = metric
        for alike in classes.values():
            values = sorted(m.value for m in alike)
            for metric in alike:
                if metric.kind == "gpu" and not declared.crosses_pcie and (less := _less(run, metric, alike)):
                    text = f"{metric.id} is compared with no other GPU, as {less}"
                    found.append(say(RECORDED, run.result, text, metric.subject))
                    continue
                other = opposite.get((metric.at.text, metric.subject.first, metric.subject.second))
                rule = declared.siblings
                allowed = run.first((rule,), metric) if isinstance(rule, Formula) else rule
                found += _behind(run, metric, values, other, allowed) if allowed else ()
    return found


def _less(run: Run, metric: MetricValue, alike: Iterable[MetricValue]) -> str:
    """How the operator limits a GPU below others of its model; empty if not."""
    result = run.result
    entries = {entry.index: entry for entry in result.health.devices}
    devices = {one.index: one for other in alike if (one := result.device(other.subject.first)) is not None}
    power = {index: one.power_limit_w or 0.0 for index, one in devices.items()}
    clock = {
        index: (index in entries and locked(entries[index], one)) or one.sm_clock_max_mhz or 0.0
        for index, one in devices.items()
    }
    for what, of in (("its power is limited to {:g} W", power), ("its clock is locked at {:g} MHz", clock)):
        own, most = of.get(metric.subject.first), max(of.values(), default=0.0)
        if own and own < LIMITED * most:
            return f"{what.format(own)}, that of another at {most:g}"
    return ""


def _behind(
    run: Run, metric: MetricValue, alike: list[float], other: MetricValue | None, allowed: float
) -> Iterator[Finding]:
    """`alike`: sorted values of its class, including its own; `other`: the other direction of the pair."""
    if metric.kind == "gpu":
        own = bisect_left(alike, metric.value)
        compared = {"the other GPUs of the node": [*alike[:own], *alike[own + 1 :]]}
    else:
        compared = {
            OPPOSITE: [] if other is None else [other.value],
            f"the {len(alike)} pairs joined alike": alike if len(alike) >= CLASS else [],
        }
    for what, others in compared.items():
        if not others:
            continue
        typical = quantile(others, 0.5)
        lag = 1 - metric.value / typical if metric.direction == "higher" else metric.value / typical - 1
        bound = max(allowed * (DIRECTION if what == OPPOSITE else 1), 3 * metric.spread)
        if lag > bound:
            text = (
                f"{metric.id} = {metric.value:.6g} {metric.unit} is {100 * lag:.1f} % behind {what} (median "
                f"{typical:.6g} {metric.unit}); at most {100 * bound:.1f} %"
            )
            yield miss(run.result, metric, text, metric.value, typical, "siblings")


def _class(run: Run, metric: MetricValue, links: Mapping[tuple[int, int], Link]) -> object:
    """What makes GPUs or pairs comparable: model, kind and number of links, whether both are on one NUMA node."""
    first = run.result.device(metric.subject.first)
    model = None if first is None else (first.name, first.mig_enabled)
    if metric.kind == "gpu":
        return model
    link = links.get((metric.subject.first, metric.subject.second or 0))
    second = run.result.device(metric.subject.second or 0)
    nodes = {device.numa_node for device in (first, second) if device is not None}
    return (model, None if link is None else (link.kind, link.count), len(nodes))


# ---- fingerprints ----------------------------------------------------------------------------------------------


def fingerprints(result: Result) -> Iterator[Finding]:
    """With the same seed, devices of one kind must give the same bits, or one of them is wrong. A note names those that
    cannot be compared."""
    try:
        groups = by_key(stated(result.path))
    except ResultError as error:
        yield say(FAIL, result, str(error))
        return
    versions: dict[object, list[Key]] = {}
    for key, members in groups:
        versions.setdefault(key.but_versions, []).append(key)
        # in one step devices may state different tensors, their own shards; a device that stopped early lacks a whole
        # step
        steps = {step for one in members for step, _, _ in one.prints}
        for one in members:
            if lacking := sorted(steps - {step for step, _, _ in one.prints}):
                text = f"{one.trace.text()} has no fingerprint of {key.algorithm} at step {lacking[0]}"
                where = one.node or result.node
                yield Finding(FAIL, f"{where}: {text}; another device of this run has", node=where)
        yield from differing(key, compare([one.trace for one in members]))
    for keys in versions.values():
        if len(keys) > 1:
            text = "; ".join(key.versions_text() for key in keys)
            what = f"fingerprints of {keys[0].algorithm} are not compared between versions"
            yield say(RECORDED, result, f"{what}: {text}")


def differing(key: Key, comparison: Comparison) -> list[Finding]:
    """A finding for each device of this run that differs, or that may be wrong if there is no majority; archived
    devices may be wrong too. An archived device in the minority was wrong then."""
    what = f"fingerprints of {key.algorithm}, seed {key.seed}, differ between devices of the kind {key.kind}"
    return [
        Finding(FAIL, f"{one.trace.node}: {what}: {one.text()}", node=one.trace.node)
        for one in comparison.deviations
        if not one.trace.since
    ]
