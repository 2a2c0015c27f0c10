"""Verdicts: one pure judgement over a result document, what was asked for, and what is known of the machine.

Nothing here reads a file or knows ReFrame; checks call `judge`, archive what it returns, and raise from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tenken.catalogue import Metric, Program
from tenken.document import WAIVER_REASONS, Document, MetricValue, quantile

PASS, FAIL, INVALID, WAIVED = "PASS", "FAIL", "INVALID", "WAIVED"

#: A value this much above a physical limit means cached data or miscounted bytes: wrong, not fast.
LIMIT_HEADROOM = 1.02

#: Clock event reasons that void a measurement. A software power cap is normal under compute-bound load.
SLOWDOWN_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")

#: A memory clock below this fraction of the maximum during the timed part is a wrong clock.
MEMORY_CLOCK_FLOOR = 0.98


@dataclass(frozen=True)
class Bounds:
    """A reference as the judgement needs it: `low` and `high` in `unit`, None where it sets no bound.

    `statistic` is the one the reference was taken by (best, median, ...); the run's same statistic is held
    against it. `value` is the reference itself, `source` where it comes from.
    """

    value: float
    low: float | None
    high: float | None
    unit: str
    statistic: str
    source: str


@dataclass(frozen=True)
class Limit:
    """A physical limit known from outside the document (a data sheet); `basis` says from where."""

    value: float
    unit: str
    basis: str


@dataclass(frozen=True)
class Expectation:
    """What was asked of the run and what the system file promises.

    `subjects` are the kinds (host, gpu, pair, ranks) for which metrics must come. `gpus`, `cores` and `ranks`
    are counts, None where nothing is promised. `metrics` restricts the program's metrics (None: all that are
    not optional). `parameters` must stand in the document with these values. `limits` are the data sheets' figures by
    what they bound and for which subject: ("memory", "gpu").
    """

    subjects: tuple[str, ...]
    gpus: int | None = None
    cores: int | None = None
    ranks: int | None = None
    metrics: tuple[str, ...] | None = None
    promises: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[tuple[str, str], Limit] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be. `miss` is a fraction of the bound (0.05: missed by 5 %)."""

    verdict: str
    message: str
    metric: str | None = None
    subject: str | None = None
    value: float | None = None
    unit: str | None = None
    bound: float | None = None
    miss: float | None = None


@dataclass(frozen=True)
class JudgedMetric:
    """A metric beside everything it was held against. `bounds` are absolute, None where there is none."""

    verdict: str
    value: float
    unit: str
    direction: str
    statistic: str
    reference: Mapping[str, Any] | None
    limit: Mapping[str, Any]
    efficiency: float | None
    bounds: tuple[float | None, float | None]
    basis: str


@dataclass(frozen=True)
class Judgement:
    """The verdict of a run with its reasons. `structural` findings void the run whatever its numbers say."""

    verdict: str
    findings: tuple[Finding, ...]
    structural: tuple[Finding, ...]
    judged: Mapping[str, JudgedMetric]

    def message(self) -> str:
        """All findings of the decisive verdict in one line, worst first."""
        return "; ".join(f.message for f in self.findings if f.verdict == self.verdict)

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "findings": [asdict(f) for f in self.findings],
            "judged": {name: asdict(j) for name, j in self.judged.items()},
        }


ReferenceLookup = Callable[[MetricValue], "Bounds | None"]


def failed(message: str, subject: str | None = None) -> Judgement:
    """The judgement of a run that left nothing to judge."""
    finding = Finding(FAIL, message, subject=subject)
    return Judgement(FAIL, (finding,), (finding,), {})


def waived(reason: str, subject: str) -> Judgement:
    """The judgement of what was not run because `subject` cannot do it: a reason of the closed list, a colon, details.

    ValueError for another reason.
    """
    if reason.split(":")[0] not in WAIVER_REASONS:
        raise ValueError(f"{reason!r} is no reason for a waiver; allowed are {', '.join(WAIVER_REASONS)}")
    return Judgement(WAIVED, (Finding(WAIVED, f"{subject}: {reason}", subject=subject),), (), {})


def judge(
    document: Document,
    program: Program,
    expect: Expectation,
    reference: ReferenceLookup,
    exit_status: int | None,
) -> Judgement:
    """Judge one run.

    Order of precedence: what makes the numbers meaningless (wrong program, failed verification, missing metric,
    wrong unit, not finite, statistics that do not follow from the samples) is FAIL; conditions that void the
    measurement are INVALID and never counted as a regression; a number outside its reference, below its floor
    or above 1.02 of its limit is FAIL; a waiver of what the system file promises is FAIL.
    """
    node = document.node
    structural = [Finding(FAIL, f"{node}: {text}", subject=node) for text in _structure(document, program, expect)]
    structural += [Finding(FAIL, f"{node}: {text}", subject=node) for text in _exit(document, exit_status)]
    if structural:
        return Judgement(FAIL, tuple(structural), tuple(structural), {})
    if document.status == "waived":
        return _waiver(document, expect)

    void = _conditions(document, expect) + _samples(document, program, expect)
    judged: dict[str, JudgedMetric] = {}
    misses: list[Finding] = []
    for metric in document.metrics:
        one, findings = _hold(document, metric, program.metrics[metric.name], expect, reference)
        judged[metric.id] = one
        misses += findings
    behind = _behind_siblings(document, program)
    for finding in behind:
        assert finding.metric is not None
        judged[finding.metric] = replace(judged[finding.metric], verdict=FAIL)
    misses += behind
    verdict = INVALID if void else FAIL if any(f.verdict == FAIL for f in misses) else PASS
    return Judgement(verdict, tuple(void + misses), (), judged)


def extended(judgement: Judgement, further: Sequence[Finding]) -> Judgement:
    """A judgement with findings of a check's own beside those of `judge`; a run that is void or waived stays so."""
    if judgement.structural or judgement.verdict == WAIVED or not further:
        return judgement
    judged = dict(judgement.judged)
    for finding in further:
        if finding.verdict == FAIL and finding.metric in judged:
            judged[finding.metric] = replace(judged[finding.metric], verdict=FAIL)
    findings = (*judgement.findings, *further)
    void = any(finding.verdict == INVALID for finding in findings)
    return Judgement(INVALID if void else FAIL, findings, (), judged)


def _structure(document: Document, program: Program, expect: Expectation) -> list[str]:
    """What makes the document unusable whatever its numbers are."""
    if document.program != program.name:
        return [f"the document is of program {document.program!r}; expected {program.name!r}"]
    if document.status == "failed":
        return [f"{program.name} failed: {document.reason or 'no reason given'}"]
    wrong = [
        f"parameter {key} is {document.parameters.get(key)!r}; asked for {value!r}"
        for key, value in expect.parameters.items()
        if document.parameters.get(key) != value
    ]
    if expect.ranks is not None and document.raw["placement"]["ranks"] != expect.ranks:
        wrong.append(f"ran on {document.raw['placement']['ranks']} ranks; asked for {expect.ranks}")
    if document.status == "waived":
        return wrong
    wrong += _verification(document)
    for metric in document.metrics:
        wrong += _metric_structure(metric, program)
    return wrong + _missing(document, program, expect)


def _verification(document: Document) -> list[str]:
    verification = document.raw["verification"]
    if not verification["checks"]:
        return ["the program verified nothing"]
    wrong = [c for c in verification["checks"] if not c["passed"] or c["error"] is None or c["error"] > c["tolerance"]]
    if not wrong and not verification["passed"]:
        return ["verification is marked as failed"]
    return [
        f"verification of {c['what']} failed: error {c['error']}, tolerance {c['tolerance']:g}"
        + (f" ({c['detail']})" if c.get("detail") else "")
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
        wrong.append(f"{metric.id}: comes for {metric.kind}; expected {', '.join(declared.per)}")
    numbers = (metric.value, metric.best, metric.median, metric.p5, metric.p95, *metric.samples)
    bad = next((n for n in numbers if not math.isfinite(n)), None)
    if bad is not None:
        wrong.append(f"{metric.id} of {metric.place} holds {bad}, which is not finite")
    elif (
        min(numbers) <= 0
        and declared.direction == "higher"  # one of which less is better is a difference of two
        and declared.unit in ("GB/s", "GFLOP/s", "TFLOP/s", "Gcell/s", "messages/s")
    ):
        wrong.append(f"{metric.id} of {metric.place} holds {min(numbers):g} {metric.unit}; a rate is above 0")
    else:
        wrong += [f"{metric.id}: {text}" for text in metric.inconsistencies()]
    return wrong


def _missing(document: Document, program: Program, expect: Expectation) -> list[str]:
    """Declared metrics that did not come, for each GPU where they come per GPU."""
    wanted = expect.metrics if expect.metrics is not None else tuple(
        name for name, m in program.metrics.items() if not m.optional and set(m.per) & set(expect.subjects)
    )  # fmt: skip
    have: dict[str, set[tuple[str, int | None]]] = {}
    for metric in document.metrics:
        have.setdefault(metric.name, set()).add((metric.kind, metric.subject.get("gpu")))
    wrong = []
    for name in wanted:
        declared = program.metrics[name]
        for kind in expect.subjects:
            if kind not in declared.per:
                continue
            if kind == "gpu":
                indices = [d["index"] for d in document.devices]
                wrong += [
                    f"metric {name} of GPU {i} is missing" for i in indices if ("gpu", i) not in have.get(name, set())
                ]
                if not indices:
                    wrong.append(f"metric {name} is missing: the document lists no GPU")
            elif not any(k == kind for k, _ in have.get(name, set())):
                wrong.append(f"metric {name} of {kind} is missing")
    if not wanted and not document.metrics:
        wrong.append("the document holds no metric")
    return wrong


def _exit(document: Document, exit_status: int | None) -> list[str]:
    expected = {"ok": 0, "failed": 1, "waived": 3}[document.status]
    if exit_status is not None and exit_status != expected:
        return [f"{document.program} exited with {exit_status} although its document says {document.status!r}"]
    return []


def _waiver(document: Document, expect: Expectation) -> Judgement:
    reason = document.reason.split(":", 1)[0].strip()
    node = document.node
    if reason not in WAIVER_REASONS:
        allowed = ", ".join(WAIVER_REASONS)
        return failed(f"{node}: waived for {document.reason!r}, which is no known reason; allowed: {allowed}", node)
    promise = WAIVER_REASONS[reason]
    if promise == "two_gpus" and expect.gpus is not None and expect.gpus >= 2:
        return failed(f"{node}: {document.reason}, but the system file promises {expect.gpus} GPUs", node)
    if promise in expect.promises:
        return failed(f"{node}: {document.reason}, but the system file promises {promise!r}", node)
    finding = Finding(WAIVED, f"{node}: {document.reason}", subject=node)
    return Judgement(WAIVED, (finding,), (), {})


def _conditions(document: Document, expect: Expectation) -> list[Finding]:
    """Conditions of the run that void its numbers."""
    node = document.node
    found: list[Finding] = []

    def void(place: str, text: str) -> None:
        subject = f"{node} {place}".strip()
        found.append(Finding(INVALID, f"{subject}: {text}", subject=subject))

    placement = document.raw["placement"]
    cores = placement.get("allowed_cores") or len(placement["allowed_cpus"])
    if expect.cores is not None and cores < expect.cores:
        void("", f"bound to {cores} cores; the system file promises {expect.cores}")
    if expect.gpus is not None and len(document.devices) < expect.gpus:
        void("", f"{len(document.devices)} GPUs found; expected {expect.gpus}")
    health = document.raw["health"]
    if document.devices and not health["available"] and not all(d.get("integrated") for d in document.devices):
        void("", f"the health of the GPUs could not be read: {health.get('reason', 'no reason given')}")
    devices = {d["index"]: d for d in document.devices}
    for entry in health["devices"]:
        for text in _health_of(entry, devices.get(entry["index"], {})):
            void(f"GPU {entry['index']}", text)
    return found


def _health_of(entry: Mapping[str, Any], device: Mapping[str, Any]) -> list[str]:
    worst, before, after = entry["worst"], entry["before"], entry["after"]
    texts = []
    slow = [r for r in worst.get("reasons", []) if r in SLOWDOWN_REASONS]
    if slow:
        texts.append(f"throttled during the timed part: {', '.join(slow)}")
    clock, top = worst.get("memory_clock_mhz"), device.get("memory_clock_max_mhz")
    if clock and top and clock < MEMORY_CLOCK_FLOOR * top:
        texts.append(f"memory clock {clock:g} MHz during the timed part; the maximum is {top:g} MHz")
    for kind in ("ecc_corrected", "ecc_uncorrected"):
        first, last = before.get(kind), after.get(kind)
        if first is not None and last is not None and last > first:
            texts.append(f"{last - first} {kind.removeprefix('ecc_')} ECC errors during the run")
    if entry.get("xids"):
        texts.append(f"XID {', '.join(str(x) for x in entry['xids'])} during the run")
    if (worst.get("other_processes") or 0) > 0:
        texts.append(f"shared with {worst['other_processes']} other processes")
    for key, name in (("pcie_generation", "generation"), ("pcie_width", "width")):
        now, most = worst.get(key), device.get(f"{key}_max")
        if now is not None and most is not None and now < most:
            texts.append(f"PCIe {name} {now} under load; at most {most}")
    return texts


def _samples(document: Document, program: Program, expect: Expectation) -> list[Finding]:
    found = []
    for metric in document.metrics:
        declared = program.metrics[metric.name]
        subject = f"{document.node} {metric.place}"
        if metric.count < declared.min_count:
            text = f"{subject}: {metric.id} has {metric.count} samples; at least {declared.min_count} are needed"
            found.append(Finding(INVALID, text, metric.id, subject))
        spread = declared.max_spread.get(metric.kind)
        if spread is not None and metric.spread > spread:
            text = (
                f"{subject}: {metric.id} is spread too wide: median {metric.median:.6g}, best {metric.best:.6g} "
                f"{metric.unit}, {100 * metric.spread:.1f} % apart; at most {100 * spread:.1f} %"
            )
            found.append(Finding(INVALID, text, metric.id, subject))
    return found


def _limit_of(document: Document, metric: MetricValue, declared: Metric, expect: Expectation) -> Mapping[str, Any]:
    """The document's own limit; where it is unknown, what the data sheet says, if the metric names it."""
    limit = document.raw["limits"][metric.id]
    sheet = expect.limits.get((declared.data_sheet or "", metric.kind))
    if "unknown" in limit and sheet is not None:
        return asdict(sheet)
    return limit


def _hold(
    document: Document, metric: MetricValue, declared: Metric, expect: Expectation, reference: ReferenceLookup
) -> tuple[JudgedMetric, list[Finding]]:
    """Hold one metric against its physical limit and its reference (or the floor where there is none)."""
    subject = f"{document.node} {metric.place}"
    limit = _limit_of(document, metric, declared, expect)
    known = reference(metric)
    for other, name in ((limit.get("unit", metric.unit), "limit"), (known.unit if known else metric.unit, "reference")):
        if other != metric.unit:
            text = f"{subject}: {metric.id} is in {metric.unit} but its {name} in {other}"
            judged = _judged(FAIL, metric, metric.value, metric.statistic, None, {"unknown": text}, (None, None), "")
            return judged, [Finding(FAIL, text, metric.id, subject)]

    higher = metric.direction == "higher"
    beyond = _beyond(limit, higher)
    number, statistic = metric.value, metric.statistic
    low: float | None = None
    high: float | None = None
    basis, held = "unreferenced", ""
    floor = declared.floor.get(metric.kind)
    if known is not None:
        number, statistic = metric.statistic_named(known.statistic), known.statistic
        low, high, basis = known.low, known.high, "reference"
        held = f"reference {known.value:.6g} {known.unit}, {known.source}"
    elif beyond is not None and floor:
        low, high = (limit["value"] * floor, None) if higher else (None, limit["value"] / floor)
        basis = "limit floor"
        held = f"{100 * floor:.0f} % of the limit {limit['value']:.6g} {metric.unit}, {limit['basis']}"

    findings: list[Finding] = []
    if beyond is not None and ((metric.value > beyond) if higher else (metric.value < beyond)):
        text = (
            f"{subject}: {metric.id} = {metric.value:.6g} {metric.unit} is beyond {LIMIT_HEADROOM} of the physical "
            f"limit {limit['value']:.6g} {limit['unit']} ({limit['basis']}): cached data or miscounted bytes"
        )
        findings.append(_miss(text, metric, metric.value, subject, beyond))
    elif low is not None and number < low:
        findings.append(_out(subject, metric, number, statistic, "below", low, held))
    elif high is not None and number > high:
        findings.append(_out(subject, metric, number, statistic, "above", high, held))
    if beyond is not None:
        low, high = (low, min(high or beyond, beyond)) if higher else (max(low or beyond, beyond), high)
    verdict = FAIL if findings else PASS
    return _judged(verdict, metric, number, statistic, known, limit, (low, high), basis), findings


def _behind_siblings(document: Document, program: Program) -> list[Finding]:
    """GPUs that stay behind the median of the others of the same run by more than metric and noise allow."""
    groups: dict[tuple[str, str], list[MetricValue]] = {}
    for metric in document.metrics:
        if metric.kind == "gpu" and program.metrics[metric.name].siblings is not None:
            groups.setdefault((metric.name, str(sorted(metric.at.items()))), []).append(metric)
    found = []
    for (name, _), group in groups.items():
        allowed = program.metrics[name].siblings or 0.0
        for metric in group:
            others = sorted(m.value for m in group if m is not metric)
            if not others:
                continue
            typical = quantile(others, 0.5)
            lag = 1 - metric.value / typical if metric.direction == "higher" else metric.value / typical - 1
            bound = max(allowed, 3 * metric.spread)
            if lag > bound:
                subject = f"{document.node} {metric.place}"
                text = (
                    f"{subject}: {metric.id} = {metric.value:.6g} {metric.unit} is {100 * lag:.1f} % behind the other "
                    f"GPUs of the node (median {typical:.6g} {metric.unit}); at most {100 * bound:.1f} %"
                )
                found.append(_miss(text, metric, metric.value, subject, typical))
    return found


def _beyond(limit: Mapping[str, Any], higher: bool) -> float | None:
    """The value past which a figure is impossible; None where no limit is known."""
    if "value" not in limit:
        return None
    return limit["value"] * LIMIT_HEADROOM if higher else limit["value"] / LIMIT_HEADROOM


def _judged(
    verdict: str,
    metric: MetricValue,
    number: float,
    statistic: str,
    known: Bounds | None,
    limit: Mapping[str, Any],
    bounds: tuple[float | None, float | None],
    basis: str,
) -> JudgedMetric:
    efficiency = None
    if "value" in limit:
        efficiency = metric.value / limit["value"] if metric.direction == "higher" else limit["value"] / metric.value
    return JudgedMetric(
        verdict=verdict,
        value=number,
        unit=metric.unit,
        direction=metric.direction,
        statistic=statistic,
        reference=asdict(known) if known is not None else None,
        limit=dict(limit),
        efficiency=efficiency,
        bounds=bounds,
        basis=basis,
    )


def _miss(text: str, metric: MetricValue, number: float, subject: str, bound: float) -> Finding:
    return Finding(FAIL, text, metric.id, subject, number, metric.unit, bound, abs(number - bound) / abs(bound))


def _out(
    subject: str, metric: MetricValue, number: float, statistic: str, side: str, bound: float, held: str
) -> Finding:
    miss = abs(number - bound) / abs(bound)
    text = (
        f"{subject}: {metric.id} = {number:.6g} {metric.unit} ({statistic}) is {side} {bound:.6g} {metric.unit} "
        f"by {100 * miss:.1f} % ({held})"
    )
    return _miss(text, metric, number, subject, bound)


def reframe_reference(judged: JudgedMetric) -> tuple[float, float | None, float | None, str]:
    """The same bounds as ReFrame's tuple (reference, lower, upper, unit); an unreferenced metric has 0, None, None.

    ReFrame takes a fraction in [-1, 0] below and from 0 above, so the anchor is the reference, else the limit.
    """
    low, high = judged.bounds
    if low is None and high is None:
        return (0, None, None, judged.unit)
    anchor = judged.reference["value"] if judged.reference else judged.limit["value"]
    lower = None if low is None else min(low / anchor - 1, 0.0)
    upper = None if high is None else max(high / anchor - 1, 0.0)
    return (anchor, lower, upper, judged.unit)


def worst(verdicts: Sequence[str]) -> str:
    """The verdict of several: FAIL before INVALID before PASS before WAIVED; PASS needs at least one of them."""
    for verdict in (FAIL, INVALID, PASS, WAIVED):
        if verdict in verdicts:
            return verdict
    return FAIL
