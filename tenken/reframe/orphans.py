"""Results without a session: from jobs that ended after their session was killed, and from full archives.

A check writes the data for a later session into its stage folder (`tenken-case.json`) before its job is submitted. The
next session, and `tenken jobs`, judge the result of such a job as its own session would have done, and archive it for
that session.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import reframe.core.runtime as runtime
from reframe.frontend.executors import Runner

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.errors import ArchiveError, RecordError, TenkenError
from tenken.judge import verdict
from tenken.model import verdicts
from tenken.model.judgement import Finding, Judgement
from tenken.model.record import Job, Record, parse
from tenken.paths import archive_root
from tenken.reframe import joblines
from tenken.reframe.machine import Machine
from tenken.reframe.outcome import Outcome, captured
from tenken.reframe.schedulers import ledger

CASE = "tenken-case.json"
#: A record that could not be archived.
KEPT = "tenken-record.json"

_STATE = "COMPLETED (by its own end mark; its session had ended earlier)"


def leave(case: dict[str, Any], folder: Path) -> None:
    """Write the data for a later session. `case`: the record in its present state, and how the job was started."""
    (folder / CASE).write_text(json.dumps(case), encoding="utf-8")


def keep(record: Record, folder: Path) -> str:
    """Saves a record that could not be archived in its stage folder; returns the place, or that it is lost."""
    try:
        archive.write_file(folder / KEPT, record.text())
    except ArchiveError:
        return "; it is lost"
    return f"; saved as {folder / KEPT} and archived by the next session"


def adopt(stage: Path, root: Path) -> Iterator[str]:
    """Archives the results that sessions left below `stage`; yields a line for each."""
    for path in sorted(stage.rglob(KEPT)):
        with contextlib.suppress(OSError, RecordError), _alone(path) as mine:
            if mine:
                text = path.read_bytes().decode()
                yield _archive(parse(text, path), root, path.parent, text)
                path.unlink()
    for entry in ledger.entries(stage):
        if entry.session_lives is not False:
            continue
        path = entry.folder / ledger.FILE
        with contextlib.suppress(OSError), _alone(path) as mine:
            if not mine:
                continue
            try:
                found = judged(entry)
                if found is not None:
                    yield _archive(found, root, entry.folder)
                    path.unlink()
            except (TenkenError, ValueError, KeyError, TypeError) as error:
                why = " ".join(str(error).split())
                yield f"job {entry.job_id} of {entry.case}: its result cannot be adopted: {why}"


def judged(entry: ledger.Entry) -> Record | None:
    """The record of a job that ran to its end; None: its output shows that it did not."""
    case = json.loads((entry.folder / CASE).read_text(encoding="utf-8"))
    so_far = parse(case["record"], entry.folder / CASE)
    if so_far.request is None or so_far.request.token != entry.token:
        raise ValueError(f"{CASE} belongs to another attempt")
    outcome = Outcome(
        entry.folder, case["stdout"], case["stderr"], entry.token, case["uses_mpi"], _STATE,
        may_run_again=case["may_run_again"], known=so_far.nodes,
    )  # fmt: skip
    told = outcome.told
    if told.status is None:
        return None
    machine = Machine.named(so_far.system, so_far.partition, so_far.environ).facts()
    judgement, result, error, text = outcome.judgement(so_far.request, machine)
    if case["own_judgement"] and judgement.verdict != verdicts.FAIL:
        more = f"{so_far.check} cannot be judged from its result alone, and its session had ended: run it again"
        said = f"{outcome.where}: {more}"
        judgement = verdict.extended(judgement, [Finding(verdicts.INVALID, said, node=outcome.where)])
    known = outcome.own_facts() | outcome.digests()
    known |= {"hosts": hosts} if (hosts := joblines.other_names(told)) else {}
    ended = datetime.fromtimestamp(told.end or entry.submitted, timezone.utc)
    return replace(
        so_far, time=f"{ended:%Y-%m-%dT%H:%M:%S.%fZ}", nodes=outcome.nodes, judgement=judgement, result=result,
        result_error=error, result_text=text,
        job=Job(so_far.job.scheduler, entry.job_id, _STATE, told.status, {"adopted": True, **known}),
    )  # fmt: skip


def nothing_yet() -> Judgement:
    """The state of a case whose job has not ended."""
    return verdict.failed("the session ended before its job")


def _archive(record: Record, root: Path, stage: Path, text: str = "") -> str:
    """Not if it already exists: its session may have been killed right after archiving it, or even before the record
    had its name. `text`: the record as stored.
    """
    seal.finish(root, archive.safe_name(record.session))
    token = record.request.token if record.request else None
    where = f"{record.check} on {','.join(record.nodes) or record.partition} of session {record.session}"
    for path in archive.folder_of(record, root).glob(f"*-{archive.safe_name(record.session)}-*.json"):
        if token and token in path.read_text(encoding="utf-8", errors="replace"):
            return f"{where}: already archived"
    archive.write(record, root, captured(stage, record.job.facts), text)
    return f"{where}: {record.verdict}, archived"


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether no other session is processing this file, and it still exists."""
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield path.exists()


def stage_of_sessions() -> Path:
    """The folder that contains the stage folders of all sessions; only this session's own if there is no such
    folder."""
    here = Path(runtime.runtime().stage_prefix)
    return here.parent if here.name == os.environ.get("TENKEN_SESSION") else here


def register() -> None:
    """Makes each session start with the jobs left by earlier ones."""
    runall = Runner.runall

    def beginning(self, testcases, *arguments, **options):
        if not any(case.check.is_dry_run() for case in testcases):
            _tell(stage_of_sessions())
        return runall(self, testcases, *arguments, **options)

    Runner.runall = beginning


def _tell(stage: Path) -> None:
    with contextlib.suppress(OSError, ArchiveError):
        for line in adopt(stage, archive_root()):
            print(f"tenken: left by an earlier session: {line}", file=sys.stderr)
        left = [entry for entry in ledger.entries(stage) if entry.session_lives is False]
        if left:
            print(
                f"tenken: {len(left)} jobs of sessions that were killed are not accounted for: `tenken jobs` lists "
                f"them, `tenken jobs --cancel` cancels them",
                file=sys.stderr,
            )
