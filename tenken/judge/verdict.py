"""Verdicts: one pure judgement of a result, its request, and the data on the machine.

Nothing here reads a file or depends on ReFrame; checks call `judge`, archive its result, and raise accordingly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenken.judge import attempt, completeness, conditions, fingerprints, kinds, relations, waivers
from tenken.judge.bounds import (
    LIMITED_BY_OPERATOR,
    UNSTEADY,
    differing,
    floor_of,
    hold,
    limited,
    limits_set,
    unlimited,
    yardstick,
)
from tenken.model import engine
from tenken.model.catalogue import Program
from tenken.model.job import JobAccount
from tenken.model.judgement import REFERENCE, Criterion, Finding, JudgedMetric, Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import WAIVER_REASONS, MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, WAIVED, of_criteria, worst


def failed(message: str, node: str = "") -> Judgement:
    """The judgement of a run without a result."""
    finding = Finding(FAIL, message, node=node)
    return Judgement(FAIL, (finding,), (finding,))


def invalid(message: str, node: str = "") -> Judgement:
    """The judgement of a run that measured nothing for a reason unrelated to the machine: run it again."""
    finding = Finding(INVALID, message, node=node)
    return Judgement(INVALID, (finding,), (finding,))


def waived(reason: str, node: str) -> Judgement:
    """The judgement of a check that was not run because `node` does not support it: a reason from the closed list, a
    colon, details. ValueError for another reason.
    """
    if reason.split(":")[0] not in WAIVER_REASONS:
        raise ValueError(f"{reason!r} is not a valid reason for a waiver; allowed: {', '.join(WAIVER_REASONS)}")
    return Judgement(WAIVED, (Finding(WAIVED, f"{node}: {reason}", node=node),))


def judge(
    result: Result,
    program: Program,
    request: Request,
    machine: Machine,
    exit_status: int | None,
    job: JobAccount | None = None,
) -> Judgement:
    """Judge one run. Total: any result leads to a judgement.

    Order of precedence: what makes the numbers meaningless (another attempt's token, wrong program, failed
    verification, missing metric, wrong unit, not finite, statistics that do not follow from the samples) is FAIL;
    hardware at fault is FAIL; conditions that void the measurement are INVALID and never counted as a regression; a
    number outside its criterion or above 1.02 of its limit is FAIL; a waiver of a claimed capability is FAIL.
    """
    if result.series and not result.metrics:
        result = engine.completed(result, program)
    try:
        return _judge(result, program, request, machine, exit_status, job)
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        AssertionError,
    ) as error:
        return failed(f"{result.node}: cannot be judged: {type(error).__name__}: {error}", result.node)


def _judge(
    result: Result,
    program: Program,
    request: Request,
    machine: Machine,
    exit_status: int | None,
    job: JobAccount | None,
) -> Judgement:
    node = result.node
    structural = [
        Finding(FAIL, f"{node}: {text}", node=node) for text in _structure(result, program, request, machine, job)
    ]
    structural += [Finding(FAIL, f"{node}: {text}", node=node) for text in attempt.ended(result, exit_status)]
    asked = result.program == program.name and request.token in (None, result.token)
    alone = conditions.gave_up(result)
    if alone is not None and asked and exit_status in (None, 1):
        return Judgement(INVALID, (alone,), (alone,))
    if structural:
        return Judgement(FAIL, tuple(structural), tuple(structural))
    if result.status == "waived":
        return waivers.judge(result, program, request, machine)

    found = [
        *conditions.of(result, program, request, machine),
        *completeness.choices(result, program, request, machine),
        *conditions.samples(result, program),
        *fingerprints.of(result),
    ]
    judged: dict[str, JudgedMetric] = {}
    misses: list[Finding] = []
    run = engine.Run(result, program, again=False)
    compiled = completeness.by_compiler(result, program)
    names = {device.index: device.name for device in result.devices}
    notes: list[Finding | None] = []
    for metric in result.metrics:
        known = machine.criterion(result, metric)
        reach = yardstick(result, metric, program, machine.limits)
        declared = program.metrics[metric.name]
        floor = None if compiled else floor_of(run, metric, declared, machine)
        others = None if compiled or limited(result, metric, declared, machine) else machine.kind(result, metric)
        kind = kinds.criterion(others, metric, names.get(metric.subject.first, ""))
        one, findings = hold(result, metric, declared, machine.limits, known, reach, floor, kind)
        notes += [kinds.note(others, result, metric, names.get(metric.subject.first, ""))] if known is None else []
        judged[metric.id] = one
        misses += findings
    related, bounds = relations.of(run, request, machine)
    misses += related
    judged |= _in_run(judged, bounds, misses)
    found += [*differing(result, program, machine.limits), *limits_set(result, program, machine)]
    found += [one for one in notes if one is not None]
    found += unlimited(result, program, machine, {name for name, one in judged.items() if one.criterion is None})
    found += conditions.named(result, [*found, *misses])
    judgement = Judgement(PASS, (*found, *misses), (), judged)
    for finding in misses:
        if finding.metric is not None and finding.verdict == FAIL:
            judgement = judgement.failed_metric(finding.metric)
    judgement = replace(judgement, verdict=_verdict(found, misses, judgement.judged))
    return replace(judgement, findings=(*judgement.findings, *_unmatched(result, machine, judged)))


def _in_run(
    judged: Mapping[str, JudgedMetric], floors: Mapping[str, Criterion], misses: Sequence[Finding]
) -> dict[str, JudgedMetric]:
    """Values without another criterion that are compared with others of the same run; below the bound without proof
    one stays as it is."""
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
    """Metrics with references of the machine, none of which applies to a value: reported, as they have no effect."""
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
        Finding(
            RECORDED, f"{result.node}: no reference of {', '.join(names)} {text}", node=result.node, kind="reference"
        )
        for text, names in by_text.items()
    ]


def _verdict(found: Sequence[Finding], misses: Sequence[Finding], judged: Mapping[str, JudgedMetric]) -> str:
    """Hardware faults decide first, then invalid conditions: the numbers of an invalid run are not misses."""
    if any(f.verdict == FAIL for f in found):
        return FAIL
    # a value that varies too much does not invalidate the misses of others
    if any(f.verdict == INVALID and f.kind != UNSTEADY for f in (*found, *misses)):
        return INVALID
    if misses:
        return worst(f.verdict for f in misses)
    verdict = of_criteria(j.verdict for j in judged.values())
    absolute = any(one.verdict == PASS and one.absolute for one in judged.values())
    limited = any(finding.kind == LIMITED_BY_OPERATOR for finding in found)
    return verdict if verdict != PASS or (absolute and not limited) else RECORDED


def extended(judgement: Judgement, further: Sequence[Finding]) -> Judgement:
    """A judgement with the findings on the job; a run that failed or was waived stays so."""
    if not further:
        return judgement
    verdict = judgement.verdict
    if verdict != WAIVED:
        verdict = worst([verdict, *(f.verdict for f in further)])
    return replace(judgement, verdict=verdict, findings=(*judgement.findings, *further))


def unrequested(judgement: Judgement) -> Judgement:
    """A result without its request is judged by itself: it may not be the requested one, so it cannot be PASS."""
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
