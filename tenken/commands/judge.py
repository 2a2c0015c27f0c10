"""`tenken judge FILE...`: judges archived records or bare results again, without ReFrame and without a GPU."""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenken.errors import RecordError, ResultError, TenkenError
from tenken.judge import rejudge, verdict
from tenken.machines import loader
from tenken.machines.errors import SystemFileError, UnknownSystemError
from tenken.machines.facts import facts
from tenken.model import record as records
from tenken.model import result as results
from tenken.model.judgement import Judgement
from tenken.model.machine import Machine
from tenken.model.record import Record
from tenken.model.verdicts import EXIT_CODES, worst
from tenken.reframe import joblines

JOB_KEYS = ("state", "exit_code", "nodes", "output")


class JudgeError(TenkenError):
    """An invalid command line; one line with the allowed values."""


def register(subparsers: Any) -> None:
    """Adds the subcommand `judge` to the `tenken` command."""
    parser = subparsers.add_parser(
        "judge",
        help="judge archived records or bare results again",
        description="Judges each FILE (a record of the archive, or a result that a program wrote) as the suite "
        "would. Exit status, the worst of all files: 0 PASS, 1 FAIL, 2 usage error, 3 INVALID, 4 WAIVED, 5 RECORDED. "
        "A bare result "
        "has no request, and is at most RECORDED.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument(
        "--system",
        metavar="NAME[:PARTITION[+ENVIRON]]",
        help="the machine (default: the record's own; a bare result is not compared with a machine)",
    )
    parser.add_argument(
        "--check", metavar="NAME", help="the check that the result belongs to, if the file does not name it"
    )
    parser.add_argument(
        "--job",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"job data missing in the file: {', '.join(JOB_KEYS)} (nodes: comma-separated; output: a file)",
    )
    parser.add_argument("--json", action="store_true", help="the judgements as JSON, one object per file")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """The exit status of the worst verdict."""
    said = _job(arguments.job)
    found = []
    for file in arguments.files:
        judgement = judge_file(file, arguments.system, said, arguments.check)
        found.append(judgement.verdict)
        if arguments.json:
            print(json.dumps({"file": str(file), **judgement.as_json()}))
        else:
            print("\n".join(_lines(file, judgement)))
    return EXIT_CODES[worst(found)]


def _lines(file: Path, judgement: Judgement) -> list[str]:
    held = sum(j.criterion is not None for j in judgement.judged.values())
    values = f" ({held} of {len(judgement.judged)} values had a criterion)" if judgement.judged else ""
    return [f"{judgement.verdict} {file}{values}", *(f"  {f.verdict}: {f.message}" for f in judgement.findings)]


def _job(parts: list[str]) -> dict[str, str]:
    found = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in JOB_KEYS or not equals:
            raise JudgeError(f"--job {part!r}: expected KEY=VALUE; allowed keys: {', '.join(JOB_KEYS)}")
        found[key] = value
    if not re.fullmatch("-?[0-9]{1,9}", found.get("exit_code", "0")):
        raise JudgeError(f"--job exit_code={found['exit_code']!r}: expected an integer")
    return found


def judge_file(file: Path, system: str | None, said: dict[str, str], check: str | None = None) -> Judgement:
    """The judgement of one file. Raises JudgeError if it cannot be opened; any content is judged."""
    if not file.exists():
        raise JudgeError(f"{file}: no such file")
    try:
        text = results.read_text(file)
        if '"record":"tenken-record/' in text[:100].replace(" ", ""):
            record = records.parse(text, file, figures_only=True)
            return rejudge.of_record(record, machine_of(system, record), _facts(said, record))
        result = results.parse(text, file.name)
    except (ResultError, RecordError) as error:
        return verdict.failed(f"{file.name}: {error}".replace(f"{file.name}: {file.name}: ", f"{file.name}: "))
    machine = Machine() if system is None else machine_of(system, None)
    assert machine is not None
    return rejudge.of_result(result, None, machine, _facts(said, None))


def _facts(said: dict[str, str], record: Record | None) -> rejudge.JobFacts:
    """The job data of the file; those of the command line take precedence."""
    job = rejudge.JobFacts() if record is None else rejudge.job_of(record)
    if "nodes" in said:
        job = replace(job, nodes=tuple(said["nodes"].split(",")), hosts=())
    if "exit_code" in said:
        job = replace(job, exit_code=int(said["exit_code"]))
    job = replace(job, state=said.get("state", job.state))
    if "output" not in said:
        return job
    try:
        text = Path(said["output"]).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise JudgeError(f"--job output={said['output']}: {error.strerror}") from None
    told = joblines.report(text, record.request.token if record is not None and record.request else None)
    if told.status is None:
        return rejudge.JobFacts("CANCELLED (no end mark in its output)", None, job.nodes)
    if len(told.ends) > 1:
        return rejudge.JobFacts(f"CANCELLED ({told.fault()})", None, job.nodes)
    return replace(job, marked=told.status, account=joblines.account(told))


def machine_of(system: str | None, record: Record | None) -> Machine | None:
    """The machine of that name, otherwise that of the record; None if its file is missing: then the limits in the
    record apply. Raises JudgeError if a requested system does not exist.
    """
    name, _, place = (system or (record.system if record else "")).partition(":")
    partition, _, environ = place.partition("+")
    if system is None and name == loader.LOCAL:
        return None
    try:
        found = loader.load(name).expand(os.environ, strict=False)
    except (SystemFileError, UnknownSystemError) as error:
        if system is None:
            return None
        raise JudgeError(str(error)) from None
    partition = partition or (record.partition if record else next(iter(found.partitions)))
    if partition not in found.partitions:
        if system is None:
            return None
        raise JudgeError(f"system {name!r} has no partition {partition!r}; allowed: {', '.join(found.partitions)}")
    described = found.partitions[partition]
    environ = environ or (record.environ if record else described.environments[0])
    if environ not in found.environments:
        if system is None:
            return None
        raise JudgeError(f"system {name!r} has no environment {environ!r}; allowed: {', '.join(found.environments)}")
    return facts(found, described, found.environments[environ])
