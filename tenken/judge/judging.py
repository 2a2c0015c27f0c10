"""Verdicts: one pure judgement over a result, its request, and what is known of the machine.

Nothing here reads a file or knows ReFrame; checks call `judge`, archive what it returns, and raise from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenken.judge import cross_checks
from tenken.judge.criteria import behind_siblings, hold
from tenken.judge.health import conditions
from tenken.model.catalogue import NOTHING, Program
from tenken.model.judgement import Finding, JudgedMetric, Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import WAIVER_REASONS, MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, WAIVED, of_criteria, worst

#: Units of rates: what is measured in them is above 0.
RATES = ("GB/s", "GFLOP/s", "TFLOP/s", "Gcell/s", "messages/s")


def failed(message: str, node: str = "") -> Judgement:
    """The judgement of a run that left nothing to judge."""
    finding = Finding(FAIL, message, node=node)
    return Judgement(FAIL, (finding,), (finding,))


def waived(reason: str, node: str) -> Judgement:
    """The judgement of what was not run because `node` cannot do it: a reason of the closed list, a colon, details.

    ValueError for another reason.
    """
    if reason.split(":")[0] not in WAIVER_REASONS:
        raise ValueError(f"{reason!r} is no reason for a waiver; allowed are {', '.join(WAIVER_REASONS)}")
    return Judgement(WAIVED, (Finding(WAIVED, f"{node}: {reason}", node=node),))


def judge(result: Result, program: Program, request: Request, machine: Machine, exit_status: int | None) -> Judgement:
    """Judge one run. Total: whatever the result holds, a judgement comes out.

    Order of precedence: what makes the numbers meaningless (another attempt's token, wrong program, failed
    verification, missing metric, wrong unit, not finite, statistics that do not follow from the samples) is FAIL;
    hardware at fault is FAIL; conditions that void the measurement are INVALID and never counted as a regression; a
    number outside its criterion or above 1.02 of its limit is FAIL; a waiver of a claimed capability is FAIL.
    """
    try:
        return _judge(result, program, request, machine, exit_status)
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return failed(f"{result.node}: cannot be judged: {type(error).__name__}: {error}", result.node)


def _judge(result: Result, program: Program, request: Request, machine: Machine, exit_status: int | None) -> Judgement:
    node = result.node
    structural = [Finding(FAIL, f"{node}: {text}", node=node) for text in _structure(result, program, request)]
    structural += [Finding(FAIL, f"{node}: {text}", node=node) for text in _exit(result, exit_status)]
    if structural:
        return Judgement(FAIL, tuple(structural), tuple(structural))
    if result.status == "waived":
        return _waiver(result, request, machine)

    found = conditions(result, request) + _samples(result, program)
    judged: dict[str, JudgedMetric] = {}
    misses: list[Finding] = []
    for metric in result.metrics:
        known = machine.criterion(result, metric)
        one, findings = hold(result, metric, program.metrics[metric.name], machine.limits, known)
        judged[metric.id] = one
        misses += findings
    misses += behind_siblings(result, program)
    misses += cross_checks.of(result, request, machine)
    judgement = Judgement(PASS, (*found, *misses), (), judged)
    for finding in misses:
        if finding.metric is not None and finding.verdict == FAIL:
            judgement = judgement.failed_metric(finding.metric)
    return replace(judgement, verdict=_verdict(found, misses, judgement.judged))


def _verdict(found: Sequence[Finding], misses: Sequence[Finding], judged: Mapping[str, JudgedMetric]) -> str:
    """Hardware at fault decides first, then what voids the run: the numbers of a void run are no misses."""
    if any(f.verdict == FAIL for f in found):
        return FAIL
    if any(f.verdict == INVALID for f in (*found, *misses)):
        return INVALID
    if misses:
        return worst(f.verdict for f in misses)
    return of_criteria(j.verdict for j in judged.values())


def extended(judgement: Judgement, further: Sequence[Finding]) -> Judgement:
    """A judgement with what was found of the job beside it; a run that failed or was waived stays so."""
    if not further:
        return judgement
    verdict = judgement.verdict
    if verdict != WAIVED:
        verdict = worst([verdict, *(f.verdict for f in further)])
    return replace(judgement, verdict=verdict, findings=(*judgement.findings, *further))


def unrequested(judgement: Judgement) -> Judgement:
    """A result without its request is judged by itself: nothing shows that it is what was asked, so no PASS."""
    if judgement.verdict != PASS:
        return judgement
    finding = Finding(RECORDED, "judged without its request: nothing shows that it is complete, or of this attempt")
    return replace(judgement, verdict=RECORDED, findings=(*judgement.findings, finding))


def _structure(result: Result, program: Program, request: Request) -> list[str]:
    """What makes the result unusable whatever its numbers are."""
    if result.program != program.name:
        return [f"the result is of program {result.program!r}; expected {program.name!r}"]
    if request.token is not None and result.token != request.token:
        said = "none" if result.token is None else repr(result.token)
        return [f"the result's token is {said}; this attempt's is {request.token!r}: it is of another attempt"]
    if result.status == "failed":
        return [f"{program.name} failed: {result.reason or 'no reason given'}"]
    wrong = [
        f"parameter {key} is {result.parameters.get(key)!r}; asked for {value!r}"
        for key, value in request.parameters.items()
        if not _same(result.parameters.get(key), value)
    ]
    if request.ranks is not None and result.placement.ranks != request.ranks:
        wrong.append(f"ran on {result.placement.ranks} ranks; asked for {request.ranks}")
    if result.status == "waived":
        return wrong
    if result.reason:
        wrong.append(f"status is ok, but the reason says {result.reason[:200]!r}")
    fault = program.parameters_today(result.parameters).get("inject_fault")
    if fault not in NOTHING and "inject_fault" not in request.parameters:
        wrong.append(f"parameter inject_fault is {fault!r}: a fault was injected that nobody asked for")
    wrong += _devices(result) + _verification(result)
    for metric in result.metrics:
        wrong += _metric_structure(metric, program)
    return wrong + _missing(result, program, request)


def _same(said: object, asked: object) -> bool:
    """Equal, and of one kind: True is not 1."""
    return said == asked and isinstance(said, bool) == isinstance(asked, bool)


def _devices(result: Result) -> list[str]:
    indices = [d.index for d in result.devices]
    wrong = [f"GPU {i} is listed twice" for i in sorted({i for i in indices if indices.count(i) > 1})]
    uuids = [d.uuid for d in result.devices if d.uuid]
    wrong += [f"two GPUs have the UUID {u}" for u in sorted({u for u in uuids if uuids.count(u) > 1})]
    known = set(indices)
    if known:
        wrong += [
            f"{metric.id} is of GPU {gpu}, which the result does not list"
            for metric in result.metrics
            for gpu in metric.subject.gpus
            if gpu not in known
        ]
    return wrong


def _verification(result: Result) -> list[str]:
    checks = result.verification.checks
    if not checks:
        return ["the program verified nothing"]
    wrong = [c for c in checks if not c.passed or c.error is None or not 0 <= c.error <= c.tolerance]
    if not wrong and not result.verification.passed:
        return ["verification is marked as failed"]
    return [
        f"verification of {c.what} failed: error {c.error}, tolerance {c.tolerance:g}"
        + (f" ({c.detail})" if c.detail else "")
        for c in wrong
    ]


def _metric_structure(metric: MetricValue, program: Program) -> list[str]:
    declared = program.metrics.get(metric.name)
    if declared is None:
        return [f"metric {metric.id} is not in {program.name}'s metrics.yaml; allowed: {', '.join(program.metrics)}"]
    wrong = [
        f"{metric.id}: {key} is {said!r}; expected {want!r}"
        for key, said, want in (
            ("unit", metric.unit, declared.unit),
            ("direction", metric.direction, declared.direction),
            ("statistic", metric.statistic, declared.statistic),
        )
        if said != want
    ]
    expected_id = f"{metric.name}.{metric.subject.id}{metric.at.id}"
    if metric.id.lower() != expected_id.lower() and not _same_id(metric):
        wrong.append(f"{metric.id}: name, subject and coordinates say {expected_id}")
    if metric.kind not in declared.per:
        wrong.append(f"{metric.id}: comes for {metric.kind}; expected {', '.join(declared.per)}")
    numbers = (metric.value, metric.best, metric.median, metric.p5, metric.p95, *metric.samples)
    bad = next((n for n in numbers if not math.isfinite(n)), None)
    if bad is not None:
        wrong.append(f"{metric.id} of {metric.place} holds {bad}, which is not finite")
    elif (
        min(numbers) <= 0
        and declared.direction == "higher"  # one of which less is better is a difference of two
        and declared.unit in RATES
    ):
        wrong.append(f"{metric.id} of {metric.place} holds {min(numbers):g} {metric.unit}; a rate is above 0")
    else:
        wrong += [f"{metric.id}: {text}" for text in metric.inconsistencies()]
    return wrong


def _same_id(metric: MetricValue) -> bool:
    """Ids write the values of coordinates in their own form (a fraction, a name in lower case): compare the keys."""
    parts = metric.id.split(".")
    keys = [p.partition("=")[0] for p in parts if "=" in p]
    return parts[0] == metric.name and parts[1] == metric.subject.id and keys == list(metric.at)


def _missing(result: Result, program: Program, request: Request) -> list[str]:
    """Declared metrics that did not come, for each GPU where they come per GPU; points that were asked for."""
    wanted = request.metrics if request.metrics is not None else tuple(
        name for name, m in program.metrics.items() if not m.optional and set(m.per) & set(request.subjects)
    )  # fmt: skip
    have: dict[str, set[tuple[str, int | None]]] = {}
    for metric in result.metrics:
        gpu = metric.subject.first if metric.kind == "gpu" else None
        have.setdefault(metric.name, set()).add((metric.kind, gpu))
    wrong = []
    for name in wanted:
        declared = program.metrics[name]
        for kind in request.subjects:
            if kind not in declared.per:
                continue
            if kind == "gpu":
                indices = [d.index for d in result.devices]
                wrong += [
                    f"metric {name} of GPU {i} is missing" for i in indices if ("gpu", i) not in have.get(name, set())
                ]
                if not indices:
                    wrong.append(f"metric {name} is missing: the result lists no GPU")
            elif not any(k == kind for k, _ in have.get(name, set())):
                wrong.append(f"metric {name} of {kind} is missing")
    for name, kind, at in request.points:
        if not any(
            m.name == name and m.kind == kind and all(_same(m.at.get(k), v) for k, v in at.items())
            for m in result.metrics
        ):
            place = ", ".join(f"{k}={v}" for k, v in sorted(at.items()))
            wrong.append(f"metric {name} of {kind} at {place} is missing")
    if not wanted and not result.metrics:
        wrong.append("the result holds no metric")
    return wrong


def _exit(result: Result, exit_status: int | None) -> list[str]:
    expected = {"ok": 0, "failed": 1, "waived": 3}[result.status]
    if exit_status is not None and exit_status != expected:
        return [f"{result.program} exited with {exit_status} although its result says {result.status!r}"]
    return []


def _waiver(result: Result, request: Request, machine: Machine) -> Judgement:
    reason = result.reason.split(":", 1)[0].strip()
    node = result.node
    if reason not in WAIVER_REASONS:
        allowed = ", ".join(WAIVER_REASONS)
        return failed(f"{node}: waived for {result.reason!r}, which is no known reason; allowed: {allowed}", node)
    denied = WAIVER_REASONS[reason]
    if denied == "two_gpus" and request.gpus is not None and request.gpus >= 2:
        return failed(f"{node}: {result.reason}, but the system file claims {request.gpus} GPUs", node)
    if denied in machine.capabilities:
        return failed(f"{node}: {result.reason}, but the system file claims {denied!r}", node)
    return Judgement(WAIVED, (Finding(WAIVED, f"{node}: {result.reason}", node=node),))


def _samples(result: Result, program: Program) -> list[Finding]:
    """Values of too few samples, or of samples that are spread too wide."""
    found = []
    for metric in result.metrics:
        declared = program.metrics[metric.name]
        where = f"{result.node} {metric.place}"
        text = ""
        if metric.count < declared.min_count:
            text = f"{where}: {metric.id} has {metric.count} samples; at least {declared.min_count} are required"
            found.append(Finding(INVALID, text, metric.id, metric.subject, result.node))
        spread = declared.max_spread.get(metric.kind)
        if spread is not None and metric.spread > spread:
            text = (
                f"{where}: {metric.id} is spread too wide: median {metric.median:.6g}, best {metric.best:.6g} "
                f"{metric.unit}, {100 * metric.spread:.1f} % apart; at most {100 * spread:.1f} %"
            )
            found.append(Finding(INVALID, text, metric.id, metric.subject, result.node))
    return found
