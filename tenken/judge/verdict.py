"""Verdicts: one pure judgement of a result, its request, and the data on the machine.

Nothing here reads a file or depends on ReFrame; checks call `judge`, archive its result, and raise accordingly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tenken import counters
from tenken.counters import Change
from tenken.judge import attempt, bounds, completeness, conditions, relations, waivers
from tenken.judge.bounds import HOST_LINK, LIMITED_BY_OPERATOR, NOTE, UNSTEADY, say
from tenken.model import engine
from tenken.model.catalogue import RATE, Program
from tenken.model.job import JobAccount
from tenken.model.judgement import REFERENCE, Criterion, Finding, JudgedMetric, Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import WAIVER_REASONS, MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, WAIVED, of_criteria, worst


def alone(verdict: str, message: str, node: str = "") -> Judgement:
    """A judgement with one finding."""
    finding = Finding(verdict, message, node=node)
    return Judgement(verdict, (finding,), (finding,))


#: The judgement of a run without a result, or of one that measured nothing for a reason unrelated to the machine.
failed, invalid = partial(alone, FAIL), partial(alone, INVALID)


def waived(reason: str, node: str) -> Judgement:
    """The judgement of a check that was not run because `node` does not support it: a reason from the closed list, a
    colon, details. ValueError for another reason.
    """
    if reason.split(":")[0] not in WAIVER_REASONS:
        raise ValueError(f"{reason!r} is not a valid reason for a waiver; allowed: {', '.join(WAIVER_REASONS)}")
    return Judgement(WAIVED, (Finding(WAIVED, f"{node}: {reason}", node=node),))


def judge(
    result: Result, program: Program, request: Request, machine: Machine, exit_status: int | None,
    job: JobAccount | None = None,
) -> Judgement:  # fmt: skip
    """Judge one run. Total: every result leads to a judgement.

    Order of precedence. What makes the numbers meaningless is FAIL: another attempt's token, wrong program, failed
    verification, missing metric, wrong unit, not finite, statistics that do not follow from the samples. Hardware at
    fault is FAIL. Conditions that void the measurement are INVALID and never counted as a regression. A number outside
    its criterion or above 1.02 of its limit is FAIL. A waiver of a claimed capability is FAIL.
    """
    if result.series and not result.metrics:
        result = engine.completed(result, program)
    try:
        return _judge(result, program, request, machine, exit_status, job)
    except Exception as error:
        return failed(f"{result.node}: cannot be judged: {type(error).__name__}: {error}", result.node)


def _judge(
    result: Result, program: Program, request: Request, machine: Machine, exit_status: int | None,
    job: JobAccount | None,
) -> Judgement:  # fmt: skip
    wrong = [*_structure(result, program, request, machine, job), *attempt.ended(result, exit_status)]
    alone = conditions.gave_up(result)
    asked = result.program == program.name and request.token in (None, result.token)
    if alone is not None and asked and exit_status in (None, 1):
        return Judgement(INVALID, (alone,), (alone,))
    if structural := tuple(say(FAIL, result, text) for text in wrong):
        return Judgement(FAIL, structural, structural)
    if result.status == "waived":
        return waivers.judge(result, program, request, machine)

    found = [
        *conditions.of(result, program, request, machine),
        *completeness.choices(result, program, request, machine),
        *conditions.samples(result, program),
        *relations.fingerprints(result),
    ]
    judged: dict[str, JudgedMetric] = {}
    misses: list[Finding] = []
    run = engine.Run(result, program, again=False)
    compiled = completeness.by_compiler(result, program)
    names = {device.index: device.name for device in result.devices}
    for metric in result.metrics:
        known, declared = machine.criterion(result, metric), program.metrics[metric.name]
        reach = bounds.yardstick(result, metric, program, machine.limits)
        floor = None if compiled else bounds.floor_of(run, metric, declared, machine)
        others = None if compiled or bounds.limited(run, metric, declared, machine) else machine.kind(result, metric)
        model = names.get(metric.subject.first, "")
        kind = others.criterion(metric, model) if others else None
        judged[metric.id], findings = bounds.hold(result, metric, declared, machine.limits, known, reach, floor, kind)
        found += bounds.below_kind(others, result, metric, model) if known is None else []
        misses += findings
    related, floors = relations.of(run, request, machine)
    misses += related
    judged |= _in_run(judged, floors, misses)
    found += bounds.notes(run, machine, judged)
    found += conditions.named(result, [*found, *misses])
    for finding in misses:
        if finding.metric in judged and finding.verdict == FAIL:
            judged[finding.metric] = replace(judged[finding.metric], verdict=FAIL)
    unmatched = _unmatched(result, machine, judged)
    # where the link to the host or a plain product is not what is measured (files, training), it may fail a run and
    # passes none
    beside = {name for name, one in program.metrics.items() if one.data_sheet in (HOST_LINK, RATE)} - {*program.key}
    own = {name: one for name, one in judged.items() if name.partition(".")[0] not in beside}
    verdict = _verdict(found, misses, own)
    if verdict == INVALID:  # its values cannot miss
        misses = [replace(one, verdict=RECORDED, kind=NOTE) if one.verdict == FAIL else one for one in misses]
        judged = {name: replace(one, verdict=INVALID) if one.verdict == FAIL else one for name, one in judged.items()}
    return Judgement(verdict, (*found, *misses, *unmatched), (), judged)


def _in_run(
    judged: Mapping[str, JudgedMetric], floors: Mapping[str, Criterion], misses: Sequence[Finding]
) -> dict[str, JudgedMetric]:
    """Values that are compared only with others of the same run; one below its bound without proof keeps its
    verdict."""
    proven = {finding.metric for finding in misses if finding.verdict == FAIL}
    return {
        name: replace(judged[name], criterion=floor, verdict=PASS)
        for name, floor in floors.items()
        if judged[name].verdict == RECORDED and (name in proven or _within(judged[name].value, floor))
    }


def _within(value: float, criterion: Criterion) -> bool:
    low, high = criterion.low, criterion.high
    return (low is None or value >= low) and (high is None or value <= high)


def _unmatched(result: Result, machine: Machine, judged: Mapping[str, JudgedMetric]) -> list[Finding]:
    """Metrics for which the machine has references, but none that applies to the value; reported because such
    references have no effect."""
    first: dict[tuple[str, str], MetricValue] = {}
    for metric in result.metrics:
        first.setdefault((metric.name, metric.kind), metric)
    for metric in result.metrics:
        criterion = judged[metric.id].criterion
        if criterion is not None and criterion.kind == REFERENCE:
            first.pop((metric.name, metric.kind), None)
    by_text: dict[str, list[str]] = {}
    for metric in first.values():
        if text := machine.unmatched(result, metric):
            by_text.setdefault(text, []).append(f"{metric.name} ({metric.kind})")
    return [
        say(RECORDED, result, f"no reference of {', '.join(names)} {text}", kind="reference")
        for text, names in by_text.items()
    ]


def _verdict(found: Sequence[Finding], misses: Sequence[Finding], judged: Mapping[str, JudgedMetric]) -> str:
    """Hardware faults decide first, then conditions, since values of an invalid run cannot miss."""
    if any(f.verdict == FAIL for f in found):
        return FAIL
    # a value that varies too much does not excuse the misses of others
    if any(f.verdict == INVALID and f.kind != UNSTEADY for f in (*found, *misses)):
        return INVALID
    if misses:
        return worst(f.verdict for f in misses)
    verdict = of_criteria(j.verdict for j in judged.values())
    absolute = any(one.verdict == PASS and one.absolute for one in judged.values())
    limited = any(finding.kind == LIMITED_BY_OPERATOR for finding in found)
    return verdict if verdict != PASS or (absolute and not limited) else RECORDED


def extended(judgement: Judgement, further: Sequence[Finding]) -> Judgement:
    """A judgement with further findings; notes do not change the verdict, and a run that failed or was waived remains
    so."""
    if not further:
        return judgement
    verdict = judgement.verdict
    if verdict != WAIVED:
        verdict = worst([verdict, *(f.verdict for f in further if f.kind != NOTE)])
    return replace(judgement, verdict=verdict, findings=(*judgement.findings, *further))


def of_ports(changes: Iterable[Change], unread: bool = False) -> Iterator[Finding]:
    """Errors that the ports of a job's nodes counted during the run are FAIL. Counters that are missing, were reset or
    are at their maximum are a note. `unread`: why the job could not read them at some point."""
    waived: dict[str, list[str]] = {}
    for one in changes:
        place = f"{one.node}: port {one.port}"
        if why := one.optics.get("why"):
            waived.setdefault(why.replace("_", " "), []).append(f"{one.node} {one.port}")
        if faults := one.faults():
            text = f"{place}: hardware: {'; '.join(faults)} while it ran"
            yield Finding(FAIL, text, node=one.node, kind="ports")
        if unknown := one.unknown():
            text = f"{place}: unknown (missing, saturated or reset): {', '.join(unknown)}"
            yield Finding(RECORDED, text, node=one.node, kind=NOTE)
    for why, places in waived.items():
        more = f" and {len(places) - 2} more" if len(places) > 2 else ""
        text = f"optics and corrected errors of {', '.join(places[:2])}{more}: not known: {why}"
        yield Finding(RECORDED, f"ports: {text}", kind=NOTE)
    if unread:
        text = "not read by a rank (no python3 on its node, or its launcher failed): link errors are unknown"
        yield Finding(RECORDED, f"ports: {text}", kind=NOTE)


def of_path(result: Result, changes: Iterable[Change]) -> Iterator[Finding]:
    """Whether the messages between the nodes of a result took the ports, and the rail, that they should."""
    for one in counters.paths(changes, counters.sent(result.path), str(result.path.get("net_devices") or "")):
        text = f"{one.node}: {one.text}"
        if one.wrong:
            yield Finding(FAIL, text, node=one.node, kind="path")
        else:
            yield Finding(RECORDED, text, node=one.node, kind=NOTE)


def unrequested(judgement: Judgement) -> Judgement:
    """A result without its request is judged by itself; it may not be the requested one, so it cannot be PASS."""
    if judgement.verdict != PASS:
        return judgement
    finding = Finding(RECORDED, "judged without its request: completeness and attempt cannot be verified")
    return replace(judgement, verdict=RECORDED, findings=(*judgement.findings, finding))


def _structure(
    result: Result, program: Program, request: Request, machine: Machine, job: JobAccount | None
) -> list[str]:
    """Reasons why the result is unusable, whatever its numbers."""
    wrong = attempt.another(result, program, request)
    if wrong:
        return wrong
    wrong = [
        *completeness.parameters(result, request),
        *completeness.arguments(result, program, request),
        *attempt.wrong(result, request, machine, job),
    ]
    if result.status != "waived":
        wrong += [*attempt.injected(result, program, request), *completeness.of(result, program, request)]
    return [*dict.fromkeys(wrong)]
