"""Whether a machine meets its contract: every run of the given sessions compared with every clause. Pure, no output.

The unit of repetition is the run: samples within one are not independent. An INVALID run does not count as a value, but
is listed. A run below a reference or a floor is a value like any other. A run with a wrong result counts against the
machine, however often it was repeated. No decision is based on a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any

from tenken.model.catalogue import Program
from tenken.model.judgement import CONTRACT, DATA_SHEET, DEVICE, FLOOR, REFERENCE, RELATION, SAME_RUN, Limit
from tenken.model.record import RECORD, Record
from tenken.model.result import Device, MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, WAIVED
from tenken.report import drill
from tenken.report.contracts import BEST, ESSENTIAL, INTERVAL, Clause, Contract, Exclusion, excluded
from tenken.report.intervals import median_interval
from tenken.report.session import Case

ACCEPTED, EXCEPTIONS, REJECTED, INCONCLUSIVE = "ACCEPTED", "ACCEPTED WITH EXCEPTIONS", "REJECTED", "INCONCLUSIVE"
MET, NOT_MET, NOT_TESTED = "MET", "NOT MET", "NOT TESTED"
NOT_RECORDED = "not recorded"

#: Findings of a FAIL that do not affect the value: it was measured, and it is too low.
_OF_SPEED = (CONTRACT, REFERENCE, FLOOR, RELATION, "siblings")


@dataclass(frozen=True)
class Part:
    """A device of the machine: a GPU by UUID and slot, a pair, the ranks or the host of a node."""

    node: str
    place: str
    uuid: str = ""
    slot: str = ""
    serial: str = ""

    @property
    def name(self) -> str:
        return f"{self.node} {self.place}"


@dataclass(frozen=True)
class Value:
    """The value of one run for one part, and its file in the archive."""

    value: float
    session: str
    time: str
    file: str
    metric: str


@dataclass
class Measured:
    """A part's runs for one requirement; `low` and `high` enclose its median with probability `confidence`."""

    part: Part
    values: list[Value] = field(default_factory=list)
    invalid: list[Value] = field(default_factory=list)
    median: float = 0.0
    low: float = 0.0
    high: float = 0.0
    confidence: float = 0.0
    result: str = NOT_TESTED
    why: str = ""


@dataclass
class Requirement:
    """A clause for one check in one environment: the measured value of each part, and whether it is met."""

    clause: Clause
    check: str = ""
    environ: str = ""
    parts: list[Measured] = field(default_factory=list)
    #: Parts that were exchanged later: shown, not counted.
    before: list[Measured] = field(default_factory=list)
    result: str = NOT_TESTED
    why: str = "not measured in any run of these sessions"
    peak: Limit | None = None
    attainable: Limit | None = None
    command: str = ""

    @property
    def worst(self) -> Measured | None:
        """The part with the smallest margin, or the largest deficit."""
        tested = [m for m in self.parts if m.values]
        if not tested:
            return None
        pick = min if self.clause.direction == "higher" else max
        return pick(tested, key=lambda m: (self.decisive(m), m.part.name))

    def decisive(self, measured: Measured) -> float:
        """The value that the rule compares with the bound."""
        if self.clause.rule != INTERVAL:
            return measured.median
        return measured.low if self.clause.direction == "higher" else measured.high

    def missed_by(self, measured: Measured) -> bool:
        """Whether a part's decisive value is on the wrong side of the bound, for any number of runs."""
        figure = self.decisive(measured)
        return figure < self.clause.bound if self.clause.direction == "higher" else figure > self.clause.bound

    @property
    def margin(self) -> float | None:
        """Margin of the worst part's decisive value relative to the bound: a fraction of the bound."""
        if self.worst is None:
            return None
        distance = self.decisive(self.worst) - self.clause.bound
        return (distance if self.clause.direction == "higher" else -distance) / self.clause.bound

    def share_of(self, limit: Limit | None) -> float | None:
        """The worst part's median as a fraction of a limit."""
        if limit is None or not limit.value or self.worst is None or not self.worst.median:
            return None
        if self.clause.direction == "higher":
            return self.worst.median / limit.value
        return limit.value / self.worst.median

    @property
    def uniformity(self) -> tuple[float, float, float] | None:
        """Minimum, median and maximum of the parts' medians, if there are two or more."""
        medians = sorted(m.median for m in self.parts if m.values)
        if len(medians) < 2:
            return None
        return medians[0], median_interval(medians).median, medians[-1]


@dataclass(frozen=True)
class Counted:
    """A run without a value: the reason, and its location."""

    check: str
    node: str
    session: str
    time: str
    file: str
    why: str


@dataclass
class Acceptance:
    """The complete decision."""

    contract: Contract
    sessions: tuple[str, ...]
    statement: str = INCONCLUSIVE
    reasons: list[str] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    records: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    wrong: list[Counted] = field(default_factory=list)
    failed: list[Counted] = field(default_factory=list)
    invalid: list[Counted] = field(default_factory=list)
    excluded: list[tuple[Exclusion, Counted]] = field(default_factory=list)
    #: Runs that failed because of a GPU that was exchanged later.
    before_repair: list[Counted] = field(default_factory=list)
    #: Items of the punch list that a repair closed.
    repaired: list[str] = field(default_factory=list)
    other_modes: int = 0
    drilled: list[drill.Drilled] = field(default_factory=list)
    verifications: int = 0
    damaged: list[str] = field(default_factory=list)
    #: Records that no manifest lists, or whose job computed no digest; None: a decision from before there were seals.
    unsealed: list[str] | None = None
    parts: list[Part] = field(default_factory=list)
    missing_parts: list[str] = field(default_factory=list)
    unlisted_parts: list[str] = field(default_factory=list)
    conditions: dict[str, dict[str, int]] = field(default_factory=dict)
    first: str = ""
    last: str = ""
    stability: str = ""
    stability_why: str = ""

    def count(self, result: str) -> int:
        return sum(r.result == result for r in self.requirements)

    @property
    def rehearsal(self) -> str:
        """The result of a drill among the sessions, in one sentence."""
        if not self.drilled:
            return "These sessions include no drill (tenken drill): it is not shown that a fault would be detected"
        count = {
            outcome: sum(one.outcome == outcome for one in self.drilled) for outcome in (drill.NOTICED, drill.MISSED)
        }
        rest = len(self.drilled) - sum(count.values())
        checks = len({one.check for one in self.drilled if one.outcome == drill.NOTICED})
        return (
            f"Drill: {len(self.drilled)} runs with an injected fault; {count[drill.NOTICED]} detected by the "
            f"verification of {checks} checks, {count[drill.MISSED]} not detected, {rest} without evidence"
        )


def accept(
    contract: Contract,
    records: Iterable[tuple[str, Record]],
    catalogue: Mapping[str, Program],
    sessions: Sequence[str],
    damaged: Sequence[str] = (),
    lost: Sequence[Case] = (),
    unsealed: Collection[str] | None = None,
) -> Acceptance:
    """Compares the records of some sessions with a contract; each with its name in the archive, in any order.

    `damaged` are files of the archive that are not records; with any of these, nothing can be accepted. `lost` are
    cases that failed without a record; `unsealed` are records that no manifest lists; None: seals are not required.
    """
    found = Acceptance(contract, tuple(sessions), damaged=list(damaged))
    found.unsealed = None if unsealed is None else sorted(unsealed)
    groups: dict[str, dict[tuple[str, ...], Requirement]] = {c.id: {} for c in contract.clauses}
    measured: dict[tuple[int, Part], Measured] = {}
    seen: dict[str, str] = {}
    parts: dict[Part, None] = {}
    elsewhere: dict[str, dict[str, None]] = {c.id: {} for c in contract.clauses}
    for file, record in sorted(records, key=lambda pair: (pair[1].time, pair[0])):
        found.records += 1
        if record.system != contract.system:
            found.damaged.append(f"{file}: is of system {record.system}; the contract covers {contract.system}")
            continue
        if record.session not in found.sessions:
            continue
        if unsealed is not None and file not in unsealed and record.result and not record.job.facts.get("sha256"):
            found.unsealed = sorted([*(found.unsealed or ()), file])
        if drill.fault_of(record):
            found.drilled.append(drill.drilled(record))
            continue
        found.verdicts[record.verdict] = found.verdicts.get(record.verdict, 0) + 1
        found.first, found.last = min(found.first or record.time, record.time), max(found.last, record.time)
        if contract.modes and record.mode not in contract.modes:
            found.other_modes += 1
            continue
        digest = ""
        if record.result is not None and record.result.metrics:
            if not record.result.text:
                raise ValueError(f"{file}: read without the text of its result, which is needed to detect copies")
            digest = hashlib.sha256(record.result.text.encode()).hexdigest()
        if digest and digest in seen:
            found.damaged.append(f"{file}: contains the same result as {seen[digest]}: one run, archived twice")
            continue
        seen[digest or file] = file
        _take(found, groups, measured, parts, file, record, catalogue)
        for clause in contract.clauses:
            elsewhere[clause.id] |= dict.fromkeys(_at_other_points(clause, record))
    for case in lost:
        why = "; ".join(f.message for f in case.findings) or "left no record"
        # an INVALID run is repeated, as one with a record
        kind = found.invalid if case.verdict == INVALID else found.failed
        kind.append(Counted(case.check, case.where, "", "", "", why))
    for clause in contract.clauses:
        for requirement in groups[clause.id].values():
            decide_requirement(requirement, contract.confidence)
        found.requirements += list(groups[clause.id].values()) or [_untested(clause, list(elsewhere[clause.id]))]
    _scope(found, list(parts))
    _hold_stable(found)
    _state(found)
    return found


# ---- one record ------------------------------------------------------------------------------------------


def _take(
    found: Acceptance,
    groups: dict[str, dict[tuple[str, ...], Requirement]],
    measured: dict[tuple[int, Part], Measured],
    parts: dict[Part, None],
    file: str,
    record: Record,
    catalogue: Mapping[str, Program],
) -> None:
    contract, result = found.contract, record.result
    node = result.node if result is not None else ", ".join(record.nodes)
    clauses = [c for c in contract.clauses if _concerns(c, record) and _long_enough(c, record, catalogue)]
    about = Counted(record.check, node, record.session, record.time, file, "")
    uuids = [d.uuid for d in result.devices if d.uuid] if result is not None else []
    agreed = [excluded(contract, c.id, node, uuids, record.session) for c in clauses]
    general = excluded(contract, "", node, uuids, record.session)
    if general is not None:
        found.excluded.append((general, about))
        return
    for one in dict.fromkeys(e for e in agreed if e is not None):
        found.excluded.append((one, about))
    clauses = [c for c, e in zip(clauses, agreed, strict=True) if e is None]
    if result is not None:
        found.verifications += len(result.verification.checks)
        _note_conditions(found, result)
        for device in result.devices:
            parts.setdefault(_gpu(found.contract, result, device))

    if record.verdict == WAIVED:
        return
    reason = (
        "; ".join(f.message for f in record.findings if f.verdict == record.verdict) or "no finding states a reason"
    )
    if record.verdict == FAIL and _never_begun(record):
        found.invalid.append(replace(about, why=reason))
        return
    if record.verdict == FAIL and not _only_too_slow(record):
        if _of_replaced(contract, record):
            found.before_repair.append(replace(about, why=reason))
        elif clauses or (result is not None and not result.verification.passed):
            found.wrong.append(replace(about, why=reason))
        else:
            found.failed.append(replace(about, why=reason))
        return
    if record.verdict == FAIL and (outside := _outside(record, clauses)):
        found.failed.append(replace(about, why=outside))
    if record.verdict == INVALID:
        found.invalid.append(replace(about, why=reason))
    if result is None:
        if record.verdict in (PASS, RECORDED):
            found.wrong.append(replace(about, why=f"{record.verdict} without a result"))
        return
    if record.verdict == INVALID and not result.metrics and not result.verification.checks:
        return  # it gave up before it measured, for example on a shared host: nothing was wrong
    if not result.verification.passed:
        found.wrong.append(replace(about, why="its verification did not pass"))
        return
    for clause in clauses:
        _measure(found, clause, groups[clause.id], measured, file, record, result, catalogue)


def _never_begun(record: Record) -> bool:
    """Whether a case failed before anything ran on the machine (its programs could not be built): it has no request."""
    return record.result is None and record.request is None and record.version == RECORD


def _old(contract: Contract, result: Result | None) -> set[int]:
    """Indices of the GPUs of a run that were exchanged since."""
    gone = {one.uuid for one in contract.replaced}
    return {d.index for d in result.devices if d.uuid in gone} if result is not None and gone else set()


def _of_replaced(contract: Contract, record: Record) -> bool:
    """Whether each failure of a run is that of a GPU, or of a link of one, that was exchanged since."""
    old = _old(contract, record.result)
    failures = [f for f in record.findings if f.verdict == FAIL]
    return bool(failures) and all(f.subject is not None and _touches(f.subject, old) for f in failures)


def _touches(subject: Subject, old: set[int]) -> bool:
    return (subject.kind == "gpu" and subject.first in old) or (
        subject.kind == "pair" and (subject.first in old or subject.second in old)
    )


def _concerns(clause: Clause, record: Record) -> bool:
    program = record.result.program if record.result is not None else record.program
    return (
        program == clause.program
        and clause.check in (None, record.check, record.base_check)
        and clause.environ in (None, record.environ)
        and clause.partition in (None, record.partition)
        and clause.nodes in (None, _together(record))
        and (record.result is None or any(_is_of(clause, m) for m in record.result.metrics))
    )


def _long_enough(clause: Clause, record: Record, catalogue: Mapping[str, Program]) -> bool:
    """Whether a run was meant to last the hours of a clause. A run without a result counts, whatever it was meant to
    be."""
    if clause.hours is None:
        return True
    stated = record.result.parameters if record.result is not None else {}
    asked = record.request.parameters if record.request is not None else {}
    seconds = {**asked, **stated}.get(catalogue[clause.program].contract.lasts)
    return record.result is None if seconds is None else float(seconds) >= 3600 * clause.hours * (1 - 1e-9)


def _together(record: Record) -> int:
    """Number of nodes of a run: those that its ranks named, else those of its job."""
    ranks = record.result.placement.nodes if record.result is not None and record.result.placement else ()
    return len(set(ranks)) or len(record.nodes) or 1


def _is_of(clause: Clause, metric: MetricValue) -> bool:
    return (
        metric.name == clause.metric
        and metric.kind == clause.subject
        and all(metric.at.get(k) == v for k, v in clause.at.items())
    )


def _at_other_points(clause: Clause, record: Record) -> Iterator[str]:
    """Where a run measured the metric of a clause, if not at the clause's coordinates."""
    result = record.result
    if result is None or result.program != clause.program:
        return
    if clause.check not in (None, record.check, record.base_check):
        return
    for metric in result.metrics:
        if (metric.name, metric.kind) == (clause.metric, clause.subject) and not _is_of(clause, metric):
            yield ", ".join(f"{key}={metric.at.get(key, 'none')}" for key in clause.at)


def _untested(clause: Clause, others: Sequence[str]) -> Requirement:
    if not others:
        return Requirement(clause)
    asked = ", ".join(f"{key}={value}" for key, value in clause.at.items())
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return Requirement(clause, why=f"the clause is at {asked}; these sessions measured at {others[0]}{more}")


def _outside(record: Record, clauses: Sequence[Clause]) -> str:
    """What a FAIL states about values that no clause measures; empty if clauses decide on all of them. Where a check
    has clauses, the site's own references are not among the bounds: the clauses were agreed in their place.
    """
    within = {clause.metric for clause in clauses}
    missed = [f for f in record.findings if f.verdict == FAIL and not (clauses and f.kind == REFERENCE)]
    return "; ".join(f.message for f in missed if str(f.metric).partition(".")[0] not in within)


def _only_too_slow(record: Record) -> bool:
    """Whether all findings of a FAIL are missed bounds: the values were then measured, and count."""
    failures = [f for f in record.findings if f.verdict == FAIL]
    return bool(failures) and all(f.kind in _OF_SPEED and f.metric for f in failures)


def _measure(
    found: Acceptance,
    clause: Clause,
    group: dict[tuple[str, ...], Requirement],
    measured: dict[tuple[int, Part], Measured],
    file: str,
    record: Record,
    result: Result,
    catalogue: Mapping[str, Program],
) -> None:
    program = catalogue[clause.program]
    identity = tuple(f"{name}={program.parameter(result.parameters, name)}" for name in program.identity)
    key = (record.partition, record.environ, record.check, *identity)
    counted: dict[Part, tuple[float, MetricValue]] = {}
    old = _old(contract := found.contract, result)
    gone = {one.uuid for one in contract.replaced}
    for metric in result.metrics:
        if not _is_of(clause, metric):
            continue
        # values that involved the exchanged GPU do not describe the present machine
        if old and (metric.kind == "ranks" or (metric.kind == "pair" and _touches(metric.subject, old))):
            continue
        if metric.unit != clause.unit or metric.direction != clause.direction:
            said = f"its unit is {metric.unit}; better: {metric.direction}"
            found.wrong.append(Counted(record.check, result.node, record.session, record.time, file,
                                       f"{metric.id}: {said}"))  # fmt: skip
            return
        value = metric.statistic_named(clause.statistic)
        part = part_of(found.contract, result, metric.subject)
        before = counted.get(part)
        # of several points of a sweep in the same clause, the worst counts, or the best if the clause says so
        if before is None or ((value < before[0]) if (clause.direction == "higher") != (clause.over == BEST) else
                              (value > before[0])):  # fmt: skip
            counted[part] = (value, metric)
    for part, (value, metric) in counted.items():
        requirement = group.setdefault(key, Requirement(clause, record.check, record.environ))
        requirement.command = requirement.command or " ".join(result.command)
        _limits(requirement, record, result, metric)
        one = measured.get((id(requirement), part))
        if one is None:
            one = measured[(id(requirement), part)] = Measured(part)
            (requirement.before if part.uuid in gone else requirement.parts).append(one)
        entry = Value(value, record.session, record.time, file, metric.id)
        (one.invalid if record.verdict == INVALID else one.values).append(entry)


def _limits(requirement: Requirement, record: Record, result: Result, metric: MetricValue) -> None:
    """The peak by data sheet or driver, and the attainable value of the same run, which are never confused."""
    judged = record.judgement.judged.get(metric.id)
    for limit in (judged.limit if judged is not None else None, result.limits.get(metric.id)):
        if limit is None or limit.value is None or (limit.unit and limit.unit != metric.unit):
            continue
        if limit.said_by == SAME_RUN:
            requirement.attainable = requirement.attainable or limit
        elif limit.said_by in (DATA_SHEET, DEVICE):
            requirement.peak = requirement.peak or limit


def _gpu(contract: Contract, result: Result, device: Device) -> Part:
    listed = next((d for d in contract.delivered if d.uuid == device.uuid), None)
    serial = device.serial or (listed.serial if listed else "")
    slot = device.pci_bus_id or (listed.slot if listed else "")
    return Part(result.node, f"GPU {device.index}", device.uuid or "", slot, serial)


def part_of(contract: Contract, result: Result, subject: Subject) -> Part:
    """The part of the machine that a result's subject corresponds to."""
    device = result.device(subject.first) if subject.kind == "gpu" else None
    return _gpu(contract, result, device) if device is not None else Part(result.node, subject.place)


#: Fields of the device: (title, field of a result's device); fields that a driver does not report are "not recorded".
_DEVICE_CONDITIONS = (
    ("GPU", "name"), ("Driver", "driver"), ("CUDA runtime", "cuda_runtime"), ("VBIOS", "vbios"),
    ("Power limit, W", "power_limit_w"), ("Maximum SM clock, MHz", "sm_clock_max_mhz"),
    ("Maximum memory clock, MHz", "memory_clock_max_mhz"), ("ECC", "ecc_enabled"), ("MIG", "mig_enabled"),
    ("Persistence mode", "persistence_mode"), ("PCIe generation", "pcie_generation_max"),
    ("PCIe lanes", "pcie_width_max"),
)  # fmt: skip


def _note_conditions(found: Acceptance, result: Result) -> None:
    def note(title: str, value: Any) -> None:
        value = f"{value:.10g}" if isinstance(value, float) else value
        word = NOT_RECORDED if value in (None, "") else "on" if value is True else "off" if value is False else value
        counts = found.conditions.setdefault(title, {})
        counts[str(word)] = counts.get(str(word), 0) + 1

    for title, key in _DEVICE_CONDITIONS:
        for device in result.devices:
            note(title, getattr(device, key, None))
    host, build = result.host, result.build
    note("Operating system", " / ".join(x for x in (host.os, host.kernel) if x))
    note("Processor", host.cpu)
    note("Firmware of the host", host.firmware)
    note("Virtual machine", host.virtual_machine or "none seen")
    note("Compiler", build.compiler)
    note("CUDA compiler", build.cuda_compiler or "none")
    note("Compiler flags", build.flags)
    note("Revision of the programs", result.version)


# ---- deciding --------------------------------------------------------------------------------------------


def decide_requirement(requirement: Requirement, confidence: float) -> None:
    """Sets the result of each part and of the whole from their runs."""
    clause = requirement.clause
    higher = clause.direction == "higher"
    for one in [*requirement.parts, *requirement.before]:
        if not one.values:
            one.why = f"all {len(one.invalid)} runs are INVALID"
            one.result = INCONCLUSIVE
            continue
        interval = median_interval([v.value for v in one.values], confidence)
        one.median, one.low, one.high, one.confidence = (
            interval.median,
            interval.low,
            interval.high,
            interval.confidence,
        )
        good, bad = (one.low, one.high) if higher else (one.high, one.low)
        if clause.rule != INTERVAL:
            good = bad = one.median
        if len(one.values) < clause.repetitions:
            one.result = INCONCLUSIVE
            one.why = f"{len(one.values)} of {clause.repetitions} runs"
        elif clause.retests is not None and len(one.invalid) > clause.retests:
            one.result = INCONCLUSIVE
            one.why = f"{len(one.invalid)} INVALID runs; at most {clause.retests} may be run again"
        elif (good >= clause.bound) if higher else (good <= clause.bound):
            one.result = MET
        elif (bad < clause.bound) if higher else (bad > clause.bound):
            one.result, one.why = NOT_MET, "the bound is missed"
        else:
            one.result, one.why = INCONCLUSIVE, "the interval contains the bound"
    count = len(requirement.parts)
    needed = ceil(clause.share * count - 1e-9)
    met = sum(m.result == MET for m in requirement.parts)
    missed = sum(m.result == NOT_MET for m in requirement.parts)
    open_ = [m for m in requirement.parts if m.result == INCONCLUSIVE]
    if met >= needed:
        requirement.result = MET
    elif missed > count - needed:
        requirement.result = NOT_MET
    else:
        requirement.result = INCONCLUSIVE
    requirement.why = f"met on {met} of {count} devices" + (f", needed on {needed}" if needed < count else "")
    if requirement.result == INCONCLUSIVE and open_:
        requirement.why += f"; {open_[0].part.name}: {open_[0].why}"


def _scope(found: Acceptance, parts: list[Part]) -> None:
    contract = found.contract
    found.parts = sorted(parts, key=lambda p: (p.node, p.slot, p.place, p.uuid))
    gone = {one.uuid for one in contract.replaced}
    parts = [p for p in parts if p.uuid not in gone]
    present = gone | {p.uuid for p in parts if p.uuid}
    found.missing_parts = [
        f"delivered GPU {d.serial or d.uuid} ({d.uuid}) was not measured"
        for d in contract.delivered
        if d.uuid not in present
    ]
    tested = {m.part.node for r in found.requirements for m in r.parts}
    found.missing_parts += [
        f"GPU {one.by}, which replaced {one.uuid}, was not measured"
        for one in contract.replaced
        if one.by not in present
    ]
    if contract.nodes is not None and len(tested) != contract.nodes:
        found.missing_parts.append(f"{len(tested)} nodes were measured; the contract covers {contract.nodes}")
    if contract.gpus_per_node is not None:
        for node in sorted(tested):
            there = len({(p.uuid or p.place) for p in parts if p.node == node})
            if there != contract.gpus_per_node:
                found.missing_parts.append(
                    f"{node}: {there} GPUs were measured; the contract covers {contract.gpus_per_node} per node"
                )
    if contract.delivered:
        listed = gone | {d.uuid for d in contract.delivered} | {one.by for one in contract.replaced}
        found.unlisted_parts = [
            f"{p.name} ({p.uuid or 'no UUID'}) is not among the delivered GPUs"
            for p in found.parts
            if p.uuid not in listed
        ]


def _hold_stable(found: Acceptance) -> None:
    """Whether the last session reproduces the values of the first, and is late enough."""
    rule = found.contract.stability
    if rule is None:
        return
    hours = _hours(found.first, found.last)
    if hours < rule.hours:
        found.stability = INCONCLUSIVE
        found.stability_why = f"the runs span {hours:.1f} h; {rule.hours:g} h are required"
        return
    lowest: tuple[float, str] | None = None
    alone = ""
    for requirement in found.requirements:
        # a run of hours shows by itself what a later session would show
        for one in requirement.parts if requirement.clause.hours is None else ():
            by_session: dict[str, list[float]] = {}
            for value in one.values:
                by_session.setdefault(value.session, []).append(value.value)
            if len(by_session) < 2:
                alone = alone or f"{requirement.clause.id} on {one.part.name} was measured in one session only"
                continue
            order = list(by_session)
            first, last = (median_interval(by_session[s]).median for s in (order[0], order[-1]))
            ratio = last / first if requirement.clause.direction == "higher" else first / last
            if lowest is None or ratio < lowest[0]:
                lowest = (ratio, f"{requirement.clause.id} on {one.part.name}")
    if lowest is not None and lowest[0] < rule.least:
        found.stability = NOT_MET
    elif lowest is None or alone:
        found.stability = INCONCLUSIVE
    else:
        found.stability = MET
    kept = (
        f"lowest ratio of last to first session {lowest[0]:.4f} ({lowest[1]})"
        if lowest
        else "no measurement was repeated"
    )
    found.stability_why = f"{kept}; at least {rule.least:g} over {hours:.1f} h" + (f"; {alone}" if alone else "")


def _hours(first: str, last: str) -> float:
    if not first or not last:
        return 0.0
    ends = (datetime.fromisoformat(t.replace("Z", "+00:00")) for t in (last, first))
    return (next(ends) - next(ends)).total_seconds() / 3600


def _state(found: Acceptance) -> None:
    """The statement and its reasons, most serious first."""
    essential = [r for r in found.requirements if r.clause.severity == ESSENTIAL]
    against = _by_clause(r for r in essential if r.result == NOT_MET)
    against += [f"{len(found.wrong)} runs with a wrong or missing result"] if found.wrong else []
    against += [f"stability: {found.stability_why}"] if found.stability == NOT_MET else []
    unclear = _by_clause(r for r in essential if r.result in (INCONCLUSIVE, NOT_TESTED))
    unclear += found.missing_parts
    unclear += [f"stability: {found.stability_why}"] if found.stability == INCONCLUSIVE else []
    unclear += [f"the archive is damaged: {text}" for text in found.damaged[:3]]
    if found.unsealed and not found.contract.allow_unsealed:
        unclear.append(f"{len(found.unsealed)} records are unsealed, such as {found.unsealed[0]}")
    missed = [one.check for one in found.drilled if one.outcome == drill.MISSED]
    if missed:
        unclear.append(f"an injected fault was not noticed by {', '.join(dict.fromkeys(missed))}")
    if not essential:
        unclear.append("the contract has no essential clause")
    exceptions = _by_clause(r for r in found.requirements if r.clause.severity != ESSENTIAL and r.result != MET)
    exceptions += [f"{len(found.failed)} runs failed outside the clauses"] if found.failed else []
    exceptions += found.unlisted_parts
    found.repaired = _repaired(found)
    still = [i for i in found.contract.punch_list if i.open and i.id not in found.repaired]
    exceptions += [f"punch list {i.id}: {i.what}" for i in still]
    exceptions += [f"{len(found.excluded)} runs were excluded by agreement"] if found.excluded else []
    for statement, reasons in ((REJECTED, against), (INCONCLUSIVE, unclear), (EXCEPTIONS, exceptions)):
        if reasons:
            found.statement = statement
            found.reasons = [*against, *unclear, *exceptions]
            return
    found.statement = ACCEPTED


def _repaired(found: Acceptance) -> list[str]:
    """Items of the punch list whose GPU was replaced by one that meets every clause measured on the old GPU."""
    items: dict[str, bool] = {}
    for one in found.contract.replaced:
        results = [m.result for r in found.requirements for m in r.parts if m.part.uuid == one.by]
        if one.item:
            items[one.item] = items.get(one.item, True) and bool(results) and set(results) == {MET}
    return [item for item, good in items.items() if good]


def _by_clause(requirements: Iterable[Requirement]) -> list[str]:
    """One line per clause and result: with its check, or with the number of checks."""
    groups: dict[tuple[str, str], list[Requirement]] = {}
    for requirement in requirements:
        groups.setdefault((requirement.clause.id, requirement.result), []).append(requirement)
    lines = []
    for group in groups.values():
        clause, first = group[0].clause, group[0]
        minor = "" if clause.severity == ESSENTIAL else ", minor"
        where = f" by {first.check}" if len(group) == 1 and first.check else ""
        many = f" in {len(group)} checks; {first.check}:" if len(group) > 1 else ""
        name = f"{clause.id} {clause.program}.{clause.metric}{where}{minor}"
        lines.append(f"{name}: {first.result}{many} ({first.why})")
    return lines


# ---- as data ---------------------------------------------------------------------------------------------


def as_json(found: Acceptance) -> dict[str, Any]:
    """Every value of the report with its source. The report is drawn from it, and `--verify` recomputes it."""

    def limit(one: Limit | None) -> dict[str, Any] | None:
        return None if one is None else one.as_json()

    return {
        "contract": found.contract.name,
        "system": found.contract.system,
        "sessions": list(found.sessions),
        "statement": found.statement,
        "reasons": found.reasons,
        "records": found.records,
        "verdicts": dict(sorted(found.verdicts.items())),
        "first": found.first,
        "last": found.last,
        "requirements": [
            {
                "clause": r.clause.id, "metric": f"{r.clause.program}.{r.clause.metric}", "subject": r.clause.subject,
                "check": r.check, "environ": r.environ, "target": r.clause.target, "bound": r.clause.bound,
                "unit": r.clause.unit, "result": r.result, "why": r.why, "margin": r.margin,
                "peak": limit(r.peak), "attainable": limit(r.attainable),
                "of_peak": r.share_of(r.peak), "of_attainable": r.share_of(r.attainable),
                "worst": None if r.worst is None else r.worst.part.name,
                "parts": [
                    {
                        "part": vars(m.part), "median": m.median, "low": m.low, "high": m.high,
                        "confidence": m.confidence, "result": m.result, "why": m.why,
                        "values": [vars(v) for v in m.values], "invalid": [vars(v) for v in m.invalid],
                    }
                    for m in r.parts
                ],
            }
            for r in found.requirements
        ],
        "wrong": [vars(c) for c in found.wrong],
        "failed": [vars(c) for c in found.failed],
        "invalid": [vars(c) for c in found.invalid],
        "excluded": [{"exclusion": e.id, **vars(c)} for e, c in found.excluded],
        **(
            {
                "before_repair": [vars(c) for c in found.before_repair],
                "repaired": found.repaired,
                "replaced": [
                    {"clause": r.clause.id, "part": vars(m.part), "median": m.median, "result": m.result}
                    for r in found.requirements
                    for m in r.before
                ],
            }
            if found.contract.replaced
            else {}
        ),
        "other_modes": found.other_modes,
        "drilled": [vars(one) for one in found.drilled],
        "verifications": found.verifications,
        "damaged": found.damaged,
        **({} if found.unsealed is None else {"unsealed": found.unsealed}),
        "parts": [vars(p) for p in found.parts],
        "missing": found.missing_parts,
        "unlisted": found.unlisted_parts,
        "conditions": found.conditions,
        "stability": found.stability,
        "stability_why": found.stability_why,
    }  # fmt: skip
