"""One session for a page: the archive's records joined with ReFrame's run report and the plan.

A test case of the run report without a record is a FAIL with ReFrame's reason. If a record and ReFrame's result differ,
the worse one counts. An unreadable file is listed and does not stop the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.errors import ResultError
from tenken.model import job_exit
from tenken.model.files import FileError, NoFile, read_text
from tenken.model.job import short
from tenken.model.judgement import Finding
from tenken.model.record import MAX_RECORD_BYTES, Record
from tenken.model.result import Result, decode
from tenken.model.verdicts import FAIL, HEALTHY, INVALID, PASS, VERDICTS, WAIVED, worst


class NoSession(Exception):
    """There is nothing to report on: the archive or the session in it does not exist."""


#: In a test's name, the node for which ReFrame's --distribute generated it.
_PINNED = re.compile(r"%[.$]?nid=([\w.-]+)")


#: ReFrame's result of a case that was not finished when the session was ended.
ABORTED = "abort"


@dataclass
class Case:
    """One test case of the session; `record` is None if the run has none (build failure, kill)."""

    check: str
    base_check: str
    system: str
    partition: str
    environ: str
    nodes: list[str]
    verdict: str
    findings: list[Finding] = field(default_factory=list)
    record: Record | None = None
    testcase: dict[str, Any] | None = None
    build: bool = False
    #: number of this attempt (ReFrame's --max-retries) and of all; only the last one counts.
    attempt: int = 1
    attempts: int = 1

    @property
    def decisive(self) -> list[Finding]:
        """The findings that made the verdict; all findings if none did."""
        return [finding for finding in self.findings if finding.verdict == self.verdict] or self.findings

    @property
    def ended(self) -> bool:
        """Whether the session was ended before its result."""
        return (self.testcase or {}).get("result") == ABORTED

    @property
    def superseded(self) -> bool:
        return self.attempt < self.attempts

    @property
    def place(self) -> str:
        return f"{self.partition}+{self.environ}" if self.environ else self.partition

    @property
    def where(self) -> str:
        """The nodes on which it ran or was to run; for a job that never started the requested ones."""
        if self.nodes:
            return ", ".join(self.nodes)
        if self.record is not None:
            return self.record.where
        pinned = _PINNED.search(self.check)
        if pinned:
            return pinned[1]
        return f"any node of partition {self.partition}" if self.partition and not self.build else "no node"

    @property
    def result(self) -> Result | None:
        """The result, if the run has one."""
        return self.record.result if self.record is not None else None


@dataclass
class Session:
    """Everything that one page shows, judged."""

    name: str
    cases: list[Case]
    damaged: list[tuple[str, str]]
    plan: dict[str, Any]
    run: dict[str, Any]
    #: missing parts of the page, one sentence each
    incomplete: list[str]
    #: check files that did not load: a FAIL in any case
    load_errors: list[str]
    #: information for the reader that does not affect the verdict
    notes: list[str] = field(default_factory=list)

    @property
    def counted(self) -> list[Case]:
        """Cases that count for the verdict: the last attempt of each."""
        return [c for c in self.cases if not c.superseded]

    @property
    def tests(self) -> list[Case]:
        """The counted cases that are not builds."""
        return [c for c in self.counted if not c.build]

    @property
    def told(self) -> list[Case]:
        """What counts: checks, and builds that failed."""
        return [c for c in self.counted if not (c.build and c.verdict == PASS)]

    @property
    def counts(self) -> dict[str, int]:
        return {v: sum(c.verdict == v for c in self.told) for v in VERDICTS}

    @property
    def nothing_was_run(self) -> bool:
        return not self.tests

    @property
    def verdict(self) -> str:
        verdicts = [c.verdict for c in self.counted]
        if self.load_errors or self.nothing_was_run:
            verdicts.append(FAIL)
        if self.incomplete or self.damaged:
            verdicts.append(INVALID)
        return worst(verdicts)

    @property
    def exit_code(self) -> int:
        """0: all PASS, RECORDED or WAIVED; 1: any FAIL; 3: any INVALID, something missing, or nothing run."""
        if self.load_errors or any(c.verdict == FAIL for c in self.counted):
            return 1
        return 0 if self.verdict in HEALTHY else 3


def came_too_late(case: Case) -> bool:
    """Whether a check was left out because the time of the run was used up."""
    return case.verdict == WAIVED and any(job_exit.NO_TIME in finding.message for finding in case.findings)


def not_run(case: Case) -> str | None:
    """Why a case was not run, if a dependency failed: one reason for many cases."""
    message = case.findings[0].message if case.findings else ""
    at = message.find(job_exit.NOT_RUN)
    return message[at:] if at >= 0 else None


def load(perflogs: Path, name: str, each: Callable[[Case], None] | None = None) -> Session:
    """Reads session `name` from the archive `perflogs`; raises NoSession if it does not exist.

    With `each`, every case is passed on as its record is read, and its samples and values are then dropped, so that
    memory use is small for a session of any size.
    """
    if not perflogs.is_dir():
        raise NoSession(f"no archive at {perflogs}: name the folder of the archive with --archive")
    if name == "last":
        last = archive.last_session(perflogs)
        if not last:
            raise NoSession(f"the archive {perflogs} contains no session yet: run `reframe -c checks -r` first")
        name = str(last)
    elif Path(name).name != name or name.startswith("."):
        raise NoSession(
            f"'{name}' is not a session name: allowed: 'last' or the name of a folder in {perflogs / archive.SESSIONS}"
        )

    folder = archive.session_folder(perflogs, name)
    damaged: list[tuple[str, str]] = []
    plan = _read_object(folder / "plan.json", damaged)
    run = _read_object(folder / "run-report.json", damaged)

    begun = [_read_object(path, damaged) for path in sorted(folder.glob(f"{archive.BEGUN}*.json"))]
    recorded: list[Case] = []
    unread: list[archive.Damaged] = []
    for record in archive.records(perflogs, session=name, damaged=unread, figures_only=True):
        case = _case_of_record(record)
        if each is not None:
            each(case)
            case.record = replace(record, request=None, result=None, judgement=replace(record.judgement, judged={}))
        recorded.append(case)
    damaged += [(_shown(d.path, perflogs), d.reason.removeprefix(f"{d.path}: ")) for d in unread]

    if not folder.is_dir() and not recorded and not damaged:
        known = sorted(p.name for p in (perflogs / archive.SESSIONS).glob("*") if p.is_dir())[-5:]
        raise NoSession(f"no session '{name}' in {perflogs}; most recent: {', '.join(known) or 'none'}")

    load_errors = [_error_text(e) for one in (plan, *begun) for e in _list(one.get("load_errors"))]
    load_errors = list(dict.fromkeys(load_errors))
    incomplete = []
    if not run:
        incomplete.append(
            "ReFrame's run report is missing: the run was interrupted or has not ended. "
            "Test cases without a record cannot be shown."
        )
    if plan.get("hidden_gpus"):
        incomplete.append(f"No GPU was measured: {plan['hidden_gpus']}.")
    notes = []
    if not plan and not begun:
        incomplete.append(
            "This session has no plan and no start note: check files that did not load are not recorded, "
            "so checks that never ran would be hidden."
        )
    elif not plan:
        # A plain `reframe` run writes no plan; its results are equally valid.
        notes.append(
            "This session has no plan, which `make run` writes: checks that do not apply to the machine are not listed "
            "here (`tenken checks --system NAME` lists them)."
        )
    cases = _join(recorded, run)
    if late := [case.check for case in cases if not case.superseded and came_too_late(case)]:
        incomplete.append(f"No time was left for {len(late)} check{'s' if len(late) > 1 else ''}: {', '.join(late)}.")
    return Session(name, cases, damaged, plan, run, incomplete, load_errors, notes)


def records_of(perflogs: Path, name: str) -> int:
    """Number of record files of a session, by their names only."""
    chosen = archive.last_session(perflogs) if name == "last" else name
    own = archive.safe_name(chosen) if chosen else None
    return sum(seal.session_of(path.name) == own for path in archive.paths(perflogs))


def _shown(path: Path, root: Path) -> str:
    try:
        return str(path.relative_to(root))
    except ValueError:
        return str(path)


def _read_object(path: Path, damaged: list[tuple[str, str]]) -> dict[str, Any]:
    """The JSON object in `path`; an empty one if there is none (a damaged one is noted)."""
    try:
        value = decode(read_text(path, MAX_RECORD_BYTES), MAX_RECORD_BYTES)
    except NoFile:
        return {}
    except (FileError, ResultError) as error:
        damaged.append((f"{archive.SESSIONS}/{path.parent.name}/{path.name}", f"cannot be read: {error}"))
        return {}
    if not isinstance(value, dict):
        damaged.append((f"{archive.SESSIONS}/{path.parent.name}/{path.name}", "is not a JSON object"))
        return {}
    return value


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _error_text(error: Any) -> str:
    """A load error of the plan as one line: a string, or an object with file and reason."""
    if isinstance(error, Mapping):
        where = error.get("file") or error.get("path") or ""
        why = error.get("text") or error.get("error") or error.get("reason") or error.get("message") or ""
        return f"{where}: {why}" if where and why else str(where or why or dict(error))
    return str(error)


def _case_of_record(record: Record) -> Case:
    findings = list(record.findings)
    said = record.result_error or ""
    if said and not any(said in f.message for f in findings):
        findings.append(Finding(record.verdict, f"result: {said}"))
    return Case(
        record.check,
        record.base_check,
        record.system,
        record.partition,
        record.environ,
        list(record.nodes),
        record.verdict,
        findings,
        record,
    )


def _testcases(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The test cases of ReFrame's run report, each once as it last ran (retries repeat it), in run order."""
    last: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in _list(run.get("runs")):
        for testcase in _list(one.get("testcases") if isinstance(one, dict) else None):
            if isinstance(testcase, dict):
                last[_keys(testcase)[0]] = testcase
    yield from last.values()


def _keys(testcase: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Possible names of the record of this test case: display name first."""
    place = str(testcase.get("partition") or ""), str(testcase.get("environ") or "")
    names = (testcase.get(k) for k in ("display_name", "name", "unique_name"))
    return [(str(n), *place) for n in names if n] or [("?", *place)]


def _join(recorded: list[Case], run: Mapping[str, Any]) -> list[Case]:
    by_key: dict[tuple[str, str, str], dict[frozenset[str], list[Case]]] = {}
    for case in recorded:
        places = by_key.setdefault((case.check, case.partition, case.environ), {})
        # a run on other nodes is another case, not an attempt
        places.setdefault(frozenset(case.nodes), []).append(case)
    for places in by_key.values():
        # an attempt without a node belongs to the location where the check ran, if there is only one
        if frozenset() in places and len(places) == 2:
            nowhere = places.pop(frozenset())
            next(iter(places.values())).extend(nowhere)
        for group in places.values():
            group.sort(key=lambda c: c.record.time if c.record else "")
            for number, case in enumerate(group, 1):
                case.attempt, case.attempts = number, len(group)

    testcases = list(_testcases(run))
    by_unique_name = {str(t.get("unique_name")): t for t in testcases}
    cases: list[Case] = []
    for testcase in testcases:
        key = next((k for k in _keys(testcase) if by_key.get(k)), None)
        attempts = None if key is None else _attempts_of(testcase, by_key[key])
        if key is None or attempts is None:
            cases.append(_case_without_record(testcase, by_unique_name))
            continue
        attempts[-1].testcase = testcase
        _hold_against_reframe(attempts[-1], testcase)
        cases += attempts
        by_key[key] = {place: others for place, others in by_key[key].items() if others is not attempts}
    # Cases unknown to the run report (interrupted, or of another process) have their records.
    for places in by_key.values():
        for group in places.values():
            cases += group
    return cases


def _attempts_of(testcase: Mapping[str, Any], places: Mapping[frozenset[str], list[Case]]) -> list[Case] | None:
    """The attempts that precede a test case of the run report; None: it left no record on the node where it ran."""
    if len(places) == 1:
        return next(iter(places.values()))
    where = frozenset(str(n) for n in _list(testcase.get("job_nodelist")))
    if where:
        return places.get(where)
    return max(places.values(), key=lambda attempts: attempts[-1].record.time if attempts[-1].record else "")


def reason_of(testcase: Mapping[str, Any]) -> str:
    """ReFrame's reason, with the failing phase, as one line."""
    phase = str(testcase.get("fail_phase") or "")
    reason = str(testcase.get("fail_reason") or "").strip() or "ReFrame gives no reason"
    where = {
        "setup": "set-up",
        "compile": "build",
        "compile_wait": "build",
        "run": "submission",
        "run_wait": "job",
        "run_complete": "job",
    }.get(phase, phase)
    return f"{reason} (in {where})" if where and where not in reason else reason


#: What ended ReFrame, by the exception that it names.
_ENDED_BY = {
    "ForceExitError": "ReFrame was terminated by a signal",
    "KeyboardInterrupt": "ReFrame was interrupted from the keyboard",
    "FailureLimitError": "the maximum number of failures was reached",
    "RunSessionTimeout": "the time limit of the session was reached",
}


def _aborted(reason: str) -> str:
    """Why a case was not finished, for the reader who does not know ReFrame's exceptions."""
    named = re.match(r"aborted due to '?(\w+)'?", reason)
    if named is None:
        return f"aborted: {reason}"
    return f"aborted: {_ENDED_BY.get(named[1], named[1])}{reason[named.end() :]}"


def _hold_against_reframe(case: Case, testcase: Mapping[str, Any]) -> None:
    """A record with PASS does not override a failure that ReFrame reports afterwards."""
    result = testcase.get("result")
    if result not in ("fail", ABORTED) or case.verdict in (FAIL, INVALID):
        return
    reason = reason_of(testcase)
    case.verdict = INVALID if result == ABORTED else _verdict_of(reason)
    case.findings.insert(0, Finding(case.verdict, f"ReFrame failed this case after its record was written: {reason}"))


def _verdict_of(reason: str) -> str:
    """ReFrame has only FAIL: the suite's own exceptions begin with their verdict."""
    return INVALID if re.search(r"(^|error: )INVALID:", reason) else FAIL


def _case_without_record(testcase: Mapping[str, Any], by_unique_name: Mapping[str, Mapping[str, Any]]) -> Case:
    result = str(testcase.get("result") or "")
    build = bool(testcase.get("fixture"))
    findings: list[Finding] = []
    if result in ("pass", "xfail") and build:
        verdict = PASS
    else:
        verdict = FAIL
        if result == "fail_deps":
            failed = []
            for dependency in _list(testcase.get("dependencies_actual")):
                other = by_unique_name.get(str((_list(dependency) or [""])[0]), {})
                if other.get("result") not in ("pass", None):
                    failed.append(f"{other.get('display_name')}: {reason_of(other)}")
            message = f"{job_exit.NOT_RUN}: {'; '.join(failed) or 'ReFrame does not say what'}"
        elif result == "skip":
            message = "skipped by ReFrame before anything was archived; a waiver would have left a record"
        elif result == ABORTED:
            # nothing follows for the machine from a session that was ended
            message, verdict = _aborted(reason_of(testcase)), INVALID
        elif result in ("pass", "xfail", "xpass"):
            message = "ReFrame passed it, but the archive contains no record of a measurement"
        else:
            message = reason_of(testcase)
            verdict = _verdict_of(message)
        findings.append(Finding(verdict, message))
    name = str(testcase.get("display_name") or testcase.get("name") or testcase.get("unique_name") or "?")
    base = re.split(r"\s[%~]", name, maxsplit=1)[0]
    nodes = [short(str(n)) for n in _list(testcase.get("job_nodelist"))]
    return Case(
        name,
        base,
        str(testcase.get("system") or ""),
        str(testcase.get("partition") or ""),
        str(testcase.get("environ") or ""),
        nodes,
        verdict,
        findings,
        None,
        dict(testcase),
        build,
    )


def without_records(perflogs: Path, sessions: Iterable[str], records: Iterable[Record]) -> tuple[list[Case], list[str]]:
    """Failed cases in the sessions' run reports without a record among `records`, and files that cannot be read."""
    found = list(records)
    kept = {(r.session, r.check, r.partition, r.environ) for r in found}
    lost: list[Case] = []
    damaged: list[tuple[str, str]] = []
    for name in sessions:
        folder = archive.session_folder(perflogs, name)
        run = _read_object(folder / "run-report.json", damaged)
        for path in (folder / "plan.json", *sorted(folder.glob(f"{archive.BEGUN}*.json"))):
            _read_object(path, damaged)
        testcases = list(_testcases(run))
        by_unique_name = {str(t.get("unique_name")): t for t in testcases}
        for testcase in testcases:
            if not any((name, *key) in kept for key in _keys(testcase)):
                case = _case_without_record(testcase, by_unique_name)
                if case.verdict != PASS:
                    lost.append(case)
    return lost, [f"{file}: {reason}" for file, reason in damaged]
