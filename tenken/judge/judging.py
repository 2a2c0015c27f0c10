"""Verdicts: one pure judgement of a result, its request, and the data on the machine.

Nothing here reads a file or depends on ReFrame; checks call `judge`, archive its result, and raise accordingly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenken.judge import completeness, cross_checks, identity, sharing, waivers
from tenken.judge import solver_cross_checks as solvers
from tenken.judge.criteria import UNSTEADY, behind_siblings, differing, hold, yardstick
from tenken.judge.health import conditions
from tenken.model import ending, engine
from tenken.model.catalogue import NOTHING, Program
from tenken.model.job import JobAccount
from tenken.model.judgement import REFERENCE, Criterion, Finding, JudgedMetric, Judgement
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import WAIVER_REASONS, MetricValue, Result
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, WAIVED, of_criteria, worst

#: This many samples that are all equal, or repeated in the same order, were not measured.
TRAIN = 5
#: A GPU's events come in steps of 32 ns and are good to 0.5 us (cudaEventElapsedTime): below this many seconds a few
#: samples may be equal (measured: five of 8.864 us), this many may not.
SHORT_SECONDS, LONG_TRAIN = 50e-6, 20
#: Samples of a GPU's events are copies if this many results, or fewer, would contain such equal ones by chance.
BY_CHANCE = 1e-4


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
    structural += [Finding(FAIL, f"{node}: {text}", node=node) for text in _exit(result, exit_status)]
    asked = result.program == program.name and request.token in (None, result.token)
    alone = sharing.gave_up(result)
    if alone is not None and asked and exit_status in (None, 1):
        return Judgement(INVALID, (alone,), (alone,))
    if structural:
        return Judgement(FAIL, tuple(structural), tuple(structural))
    if result.status == "waived":
        return waivers.judge(result, program, request, machine)

    found = [
        *conditions(result, request),
        *sharing.conditions(result, request),
        *_samples(result, program),
    ]
    judged: dict[str, JudgedMetric] = {}
    misses: list[Finding] = []
    floors = not completeness.by_compiler(result, program)
    for metric in result.metrics:
        known = machine.criterion(result, metric)
        reach = yardstick(result, metric, program, machine.limits)
        panels = solvers.of_panels(result, metric)
        one, findings = hold(result, metric, program.metrics[metric.name], machine.limits, known, reach, floors, panels)
        judged[metric.id] = one
        misses += findings
    misses += behind_siblings(result, program)
    misses += cross_checks.of(result, request, machine)
    judged |= _in_run(judged, cross_checks.floors(result, request), misses)
    found += differing(result, program, machine.limits)
    found += sharing.named(result, [*found, *misses])
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
    return of_criteria(j.verdict for j in judged.values())


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
    if result.program != program.name:
        return [f"the result is of program {result.program!r}; expected {program.name!r}"]
    if request.token is not None and result.token != request.token:
        said = "none" if result.token is None else repr(result.token)
        return [f"the result's token is {said}; this attempt's is {request.token!r}: it belongs to another attempt"]
    if result.status == "failed":
        return [f"{program.name} failed: {result.reason or 'no reason given'}"]
    wrong = [
        f"parameter {key} is {result.parameters.get(key)!r}; requested: {value!r}"
        for key, value in request.parameters.items()
        if not _same(result.parameters.get(key), value)
    ]
    wrong += completeness.arguments(result, program, request)
    wrong += identity.wrong(result, request, machine, job)
    if request.ranks is not None and result.placement.ranks != request.ranks:
        wrong.append(f"ran on {result.placement.ranks} ranks; requested: {request.ranks}")
    if result.status == "waived":
        return wrong
    fault = program.parameters_today(result.parameters).get("inject_fault")
    if fault not in NOTHING and "inject_fault" not in request.parameters:
        wrong.append(f"parameter inject_fault is {fault!r}: a fault was injected that was not requested")
    wrong += _devices(result) + _verification(result)
    for metric in result.metrics:
        wrong += _metric_structure(metric, program)
    wrong += _missing(result, program, request)
    wrong += completeness.points(result, program, request)
    wrong += completeness.verifications(result, program)
    return [*dict.fromkeys([*wrong, *completeness.choices(result, program)])]


def _same(said: object, asked: object) -> bool:
    """Equal, and of the same type: True is not 1."""
    return said == asked and isinstance(said, bool) == isinstance(asked, bool)


def _devices(result: Result) -> list[str]:
    """Ranks that share a GPU are each as slow as it is, and none of them is the GPU that was asked for."""
    indices = [d.index for d in result.devices]
    wrong = [f"GPU {i} is listed twice" for i in sorted({i for i in indices if indices.count(i) > 1})]
    for name, known in (
        ("UUID", [d.uuid for d in result.devices if d.uuid]),
        # of a GPU whose UUID its driver keeps back; parts of one GPU have the same address
        ("PCI address", [d.pci_bus_id.lower() for d in result.devices if d.pci_bus_id and not d.mig_enabled]),
    ):
        wrong += [f"two GPUs have the {name} {one}" for one in sorted({one for one in known if known.count(one) > 1})]
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
    if metric.kind not in declared.per:
        wrong.append(f"{metric.id}: is reported for {metric.kind}; expected {', '.join(declared.per)}")
    numbers = (metric.value, metric.best, metric.median, metric.p5, metric.p95, *metric.samples)
    bad = next((n for n in numbers if not math.isfinite(n)), None)
    if bad is not None:
        wrong.append(f"{metric.id} of {metric.place} contains {bad}, which is not finite")
    elif declared.sign != "any" and (min(numbers) < 0 or (min(numbers) == 0 and declared.sign == "positive")):
        least = "above 0" if declared.sign == "positive" else "0 or above"
        wrong.append(f"{metric.id} of {metric.place} contains {min(numbers):g} {metric.unit}; it must be {least}")
    elif declared.maximum is not None and max(numbers) > declared.maximum:
        wrong.append(f"{metric.id} of {metric.place} is {max(numbers):g}; maximum: {declared.maximum:g}")
    return wrong


def _missing(result: Result, program: Program, request: Request) -> list[str]:
    """Missing declared metrics, for each GPU if they are per GPU; requested points."""
    # OpenACC lists no GPU, and whether gcc offloads is known where the program was built
    by_openacc = result.path.get("openacc_device") == "device"
    kinds = tuple("gpu" if by_openacc and kind == "host" else kind for kind in request.subjects)
    declared_ones = (name for name, m in program.metrics.items() if not m.optional and set(m.per) & set(kinds))
    named = request.metrics if request.metrics is not None else declared_ones
    its_gpus = sorted({m.subject.first for m in result.metrics if m.kind == "gpu"}) or [0]
    wanted = dict.fromkeys([*named, *completeness.must_come(result, program)])
    have: dict[str, set[tuple[str, int | None]]] = {}
    for metric in result.metrics:
        gpu = metric.subject.first if metric.kind == "gpu" else None
        have.setdefault(metric.name, set()).add((metric.kind, gpu))
    wrong = []
    for name in wanted:
        declared = program.metrics[name]
        for kind in kinds:
            if kind not in declared.per:
                continue
            if kind == "gpu":
                indices = its_gpus if by_openacc else [d.index for d in result.devices]
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
        wrong.append("the result contains no metric")
    return wrong


def _exit(result: Result, exit_status: int | None) -> list[str]:
    expected = ending.EXPECTED[result.status]
    if exit_status is not None and exit_status != expected:
        return [f"{result.program} exited with {exit_status} although the status of its result is {result.status!r}"]
    return []


def _samples(result: Result, program: Program) -> list[Finding]:
    """Values with too few samples, or with too large a spread."""
    found = []
    by_compiler = completeness.by_compiler(result, program)
    for metric in result.metrics:
        declared = program.metrics[metric.name]
        where = f"{result.node} {metric.place}"
        text = ""
        needed = declared.min_count.get(metric.kind, 1)
        if metric.count < needed:
            text = f"{where}: {metric.id} has {metric.count} samples; at least {needed} are required"
            found.append(Finding(INVALID, text, metric.id, metric.subject, result.node))
        spread = declared.allowed_spread("host" if by_compiler else metric.kind, metric.at)
        if spread is not None and metric.spread > spread:
            text = (
                f"{where}: {metric.id} varies too much: median {metric.median:.6g}, best {metric.best:.6g} "
                f"{metric.unit}, {100 * metric.spread:.1f} % apart; at most {100 * spread:.1f} %"
            )
            found.append(Finding(INVALID, text, metric.id, metric.subject, result.node))
    return found + _trains(result, program)


def _trains(result: Result, program: Program) -> list[Finding]:
    """Samples that were not measured: all equal, two equal halves, or those of another metric."""
    found: list[Finding] = []
    # a ratio of exactly 1 to a rate has the samples of the other rate
    seen: dict[tuple[tuple[float, ...], bool], MetricValue] = {}
    for metric in result.metrics:
        samples, text = metric.samples, ""
        if len(samples) < TRAIN or program.metrics[metric.name].sign != "positive":
            continue
        first, second = samples[: len(samples) // 2], samples[len(samples) // 2 :]
        twin = seen.setdefault((samples, metric.unit == "1"), metric)
        if len(set(samples)) == 1:
            if metric.unit != "1" and not _may_be_alike(metric):
                text = f"all {len(samples)} samples are {samples[0]:g} {metric.unit}"
        elif len(first) >= TRAIN and first == second[: len(first)] and not _by_chance(metric, first, result):
            text = f"its first {len(first)} samples are repeated in the same order"
        elif twin is metric or _one_is_the_other(twin, metric, program) or _by_chance(metric, samples, result):
            pass
        else:
            text = f"its {len(samples)} samples equal those of {twin.id}"
        if text:
            where = f"{result.node} {metric.place}"
            message = f"{where}: {metric.id}: {text}: they were not measured"
            found.append(Finding(INVALID, message, metric.id, metric.subject, result.node))
    return found


def _may_be_alike(metric: MetricValue) -> bool:
    seconds = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}.get(metric.unit)
    short = seconds is not None and metric.samples[0] * seconds < SHORT_SECONDS
    return short and metric.clock == "device" and len(metric.samples) < LONG_TRAIN


def _by_chance(metric: MetricValue, samples: tuple[float, ...], result: Result) -> bool:
    """Whether others may equal these `samples` of a metric by chance: of a short kernel an event's steps leave few
    values. Measured: two kernels of 5.952 us, five samples each, all but the fourth on the same step.
    """
    if metric.clock != "device":
        return False
    size = len(samples)
    pairs = sum(number * (number - 1) for number in Counter(samples).values())
    alike = pairs / (size * (size - 1))  # the chance that two samples are equal
    expected: float = len(result.metrics) * alike**size
    return expected > BY_CHANCE


def _one_is_the_other(one: MetricValue, other: MetricValue, program: Program) -> bool:
    """Whether a metric is selected from others of the same subject (the best of several methods)."""
    names = {one.name, other.name}
    chosen = any(
        program.metrics[name].chosen_of and names - {name} <= set(program.metrics[name].chosen_of) for name in names
    )
    return one.subject == other.subject and chosen
