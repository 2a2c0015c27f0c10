"""Judges an archived record or a bare result again, as the suite would: without ReFrame and without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tenken import counters
from tenken.errors import CatalogueError
from tenken.judge import attempt, verdict
from tenken.judge.bounds import say
from tenken.model import catalogue, engine, job_exit, verdicts
from tenken.model.job import JobAccount, short
from tenken.model.judgement import DATA_SHEET, REFERENCE, Criterion, Finding, Judgement, Limit
from tenken.model.machine import Machine
from tenken.model.record import RECORD, Record
from tenken.model.request import Request
from tenken.model.result import WAIVER_REASONS, MetricValue, Result


@dataclass(frozen=True)
class JobFacts:
    """Data on the job in addition to the result; None or empty: unknown.

    `state` and `exit_code` come from the scheduler, `marked` is the exit status at the end of the job's own output, and
    `account` the scheduler's other data. `nodes` are named by the scheduler, `hosts` are other names for them.
    """

    state: str | None = None
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    marked: int | None = None
    account: JobAccount | None = None

    def held(self) -> JobAccount | None:
        """The data with which the result's nodes, devices and build are compared."""
        if self.account is not None:
            return self.account
        return JobAccount(frozenset(map(short, (*self.nodes, *self.hosts)))) if self.nodes else None


def job_of(record: Record) -> JobFacts:
    """The job data in a record: its nodes, and the names by which the job knew them."""
    hosts = record.job.facts.get("hosts")
    also = tuple(map(str, hosts)) if isinstance(hosts, (list, tuple)) else ()
    return JobFacts(record.job.state, record.job.exit_code, record.nodes, also)


def of_record(record: Record, machine: Machine | None = None, job: JobFacts | None = None) -> Judgement:
    """Judge a record again. `machine` None: uses the limits and references that were used when it was archived."""
    job = job or job_of(record)
    where = ",".join(job.nodes) or record.where
    if how := job_exit.lost(record.job.facts):
        return verdict.invalid(f"{where}: {how}", where)
    if cut := job_exit.killed(job.state):
        return verdict.failed(f"{where}: {cut}", where)
    if record.result is None:
        # a check that was waived at set-up, for a listed reason, has no job and no result
        waived = record.verdict == verdicts.WAIVED
        if waived and any(f": {known}" in f": {record.judgement.message()}" for known in WAIVER_REASONS):
            return Judgement(verdicts.WAIVED, record.findings)
        why = record.result_error or "the run left no result"
        return verdict.failed(f"{where}: {record.program}: {why}", where)
    if record.version == RECORD and not (job.nodes or job.account):
        return verdict.failed(f"{where}: nodes is empty: the record names no node on which its job ran", where)
    request = record.request or _request_of(record, record.result)
    judgement = of_result(record.result, request, machine or as_archived(record), job)
    changes = counters.read(record.job.facts)
    further = [*verdict.of_ports(changes), *verdict.of_path(record.result, changes)]
    if how := job_exit.disturbed(record.job.facts):
        further.append(Finding(verdicts.INVALID, f"{where}: {how}", node=where))
    return verdict.extended(judgement, further)


def of_result(result: Result, request: Request | None, machine: Machine, job: JobFacts) -> Judgement:
    """Judge a result again; without a request it is at most RECORDED."""
    says = "its result" if job.marked is None else "its end mark"
    cut = job_exit.fault(
        job.state, job.exit_code, job_exit.EXPECTED[result.status] if job.marked is None else job.marked, says
    )
    if cut:
        return verdict.failed(f"{result.node}: {cut}", result.node)
    try:
        declared = catalogue.of_record(result.program, request.declared if request else None)
    except CatalogueError as error:
        return verdict.failed(f"{result.node}: {error}", result.node)
    result = engine.completed(result, declared)
    bare = Request(None, result.program, subjects=_kinds(result), arguments=attempt.without_files(result.command[1:]))
    judgement = verdict.judge(result, declared, request or bare, machine, job.marked, job.held())
    judgement = judgement if request is not None else verdict.unrequested(judgement)
    # it was built with another catalogue, as were the programs of all older records
    stale = engine.stale(result, declared)
    return verdict.extended(judgement, [say(verdicts.RECORDED, result, stale)] if stale else [])


def _kinds(result: Result) -> tuple[str, ...]:
    return tuple(dict.fromkeys(metric.kind for metric in result.metrics))


def _request_of(record: Record, result: Result) -> Request:
    """The request of a record that predates requests: what the record itself states."""
    metrics = None
    if record.version != "tenken-record/2" and result.status == "ok":
        metrics = tuple(dict.fromkeys(m.name for m in result.metrics))
    arguments, subjects = attempt.without_files(result.command[1:]), record.subjects or _kinds(result)
    name = record.program or result.program
    return Request(None, name, record.check, subjects, metrics, arguments=arguments, mode=record.mode)


def as_archived(record: Record) -> Machine:
    """Limits by data sheet and references with which the record's values were compared."""
    judged = record.judgement.judged
    limits: dict[tuple[str, str], Limit] = {}
    try:
        declared = catalogue.of_record(record.program, record.request.declared if record.request else None).metrics
    except CatalogueError:
        declared = {}
    for metric in record.result.metrics if record.result else ():
        one, of = judged.get(metric.id), declared.get(metric.name)
        if one is not None and one.limit.value is not None and one.limit.basis.startswith("data sheet: "):
            # which figure of the data sheet applies: a GPU's metrics are compared with its memory, its link to the host
            # or its peaks
            sheet = of.sheet_key(metric.at, record.result.parameters) if of and record.result else ""
            limits.setdefault((sheet, metric.kind), replace(one.limit, said_by=DATA_SHEET))

    def criterion(result: Result, metric: MetricValue) -> Criterion | None:
        one = judged.get(metric.id)
        return one.criterion if one and one.criterion and one.criterion.kind == REFERENCE else None

    return Machine(limits=limits, criterion=criterion)
