"""Whether the files of a session agree: its records with each other, with ReFrame's run report and with the plan.

What does not agree was changed, or belongs to another session: it is named, and the page does not end with PASS.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from tenken.errors import CatalogueError
from tenken.judge import anew
from tenken.model import belief
from tenken.model.catalogue import program as catalogue_program
from tenken.model.judgement import Finding
from tenken.model.record import Record
from tenken.model.verdicts import FAIL, INVALID, VERDICTS, WAIVED

#: The results of a test case in ReFrame's run report.
RESULTS = ("pass", "xpass", "xfail", "skip", "fail", "fail_deps", "abort")
_FAILED = ("fail", "xpass", "fail_deps", "abort")
#: Records and run report are written by one host, whose clock a time server may step.
CLOCK = timedelta(minutes=1)
#: A record may be this far ahead of the clock of the host that reads it: an unset clock, a wrong time zone.
AHEAD = timedelta(days=1)
#: Options of ReFrame after which not every check of the plan runs.
_CHOOSE = re.compile(
    r"-[nxtTEgp].*|--(name|exclude|tag|exclude-tag|filter-expr|gpu-only|cpu-only|prgenv|failed|restore-session|"
    r"maxfail|max-failures|exec-order|duration|repeat|distribute|timeout|ci-generate|rerun-failed)(=.*)?"
)
_NAMED = 5


def judged_anew(record: Record) -> list[Finding]:
    """What speaks against a good verdict when the record is judged again, by the references with which it was judged;
    empty for a record that lacks its samples or its request, or whose figures mean something else since.

    FAIL refuses the record. INVALID does not: conditions of measuring become stricter with what is learnt.
    """
    result = record.result
    if record.verdict not in belief.GOOD or result is None or record.request is None:
        return []
    if any(metric.count and not metric.samples for metric in result.metrics):
        return []
    try:
        declared = catalogue_program(result.program)
    except CatalogueError:
        return []
    if declared.version != record.program_version:
        return []
    found = anew.of_record(record)
    if found.verdict not in (FAIL, INVALID):
        return []
    said = f"verdict is {record.verdict}; judged again it is {found.verdict}: "
    return [replace(one, message=f"{said}{one.message}") for one in found.findings if one.verdict == found.verdict]


def with_testcase(record: Record, testcase: Mapping[str, Any]) -> Iterator[Finding]:
    """How a record differs from its test case in the run report."""
    result, verdict = testcase.get("result"), testcase.get("tenken_verdict")
    if result not in RESULTS:
        yield _finding(record, f"result is {result!r} in the run report; allowed: {', '.join(RESULTS)}")
    elif (result == "skip") != (record.verdict == WAIVED) and result not in _FAILED:
        yield _finding(record, f"verdict is {record.verdict}; result is {result!r} in the run report")
    if verdict in (None, "", "none"):  # not judged by a check: waived when it was set up
        pass
    elif verdict not in VERDICTS:
        yield _finding(record, f"tenken_verdict is {verdict!r} in the run report; allowed: {', '.join(VERDICTS)}")
    elif verdict != record.verdict and result not in _FAILED:  # a full archive took the record later
        yield _finding(record, f"verdict is {record.verdict}; the run report has {verdict}")
    job = testcase.get("jobid")
    if job and record.job.id and str(job) != record.job.id:
        yield _finding(record, f"job id is {record.job.id!r}; the run report has {str(job)!r}")


def within_run(record: Record, run: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether a record was written while the run that reports it lasted."""
    begin, end = (_since_1970(_object(run, "session_info").get(f"time_{name}_unix")) for name in ("start", "end"))
    written = belief.moment(record.time)
    if written is None:
        return
    if begin is not None and begin - written > CLOCK:
        yield _finding(record, f"time is {record.time}, before the run began at {begin:%Y-%m-%dT%H:%M:%SZ}")
    if end is not None and written - end > CLOCK:
        yield _finding(record, f"time is {record.time}, after the run ended at {end:%Y-%m-%dT%H:%M:%SZ}")


def of_record(record: Record, begun: datetime | None, plan: Mapping[str, Any], now: datetime) -> Iterator[Finding]:
    """Whether a record belongs to its session. An adopted one has the time of another clock, that of its node."""
    written = belief.moment(record.time)
    adopted = record.job.facts.get("adopted")
    if written is not None and begun is not None and begun - written > CLOCK and not adopted:
        yield _finding(record, f"time is {record.time}, before the session began at {begun:%Y-%m-%dT%H:%M:%SZ}")
    if written is not None and written - now > AHEAD:
        yield _finding(record, f"time is {record.time}; it is {now:%Y-%m-%dT%H:%M:%SZ}: it lies in the future")
    planned = plan.get("system")
    if planned and record.system != planned:
        yield _finding(record, f"system is {record.system!r}; the plan of the session has {planned!r}")


def begun(notes: Sequence[Mapping[str, Any]]) -> datetime | None:
    """When the first run of a session began, by its notes; None: there is none."""
    found = [belief.moment(str(note.get("begun"))) for note in notes]
    return min((one for one in found if one is not None), default=None)


def attempt_of(record: Record) -> str:
    """What no two runs have in common: the token, or of a result without one its times, host and values."""
    result = record.result
    if record.request is not None and record.request.token:
        return record.request.token
    if result is None or not result.metrics:
        return ""
    return repr(
        (result.program, result.started, result.finished, result.host.name, hash(result.metrics), record.job.id)
    )


def counts(run: Mapping[str, Any], recorded: int) -> Iterator[str]:
    """What is missing in a run report by its own counts."""
    runs = run.get("runs")
    if not isinstance(runs, list):
        yield f"ReFrame's run report has {type(runs).__name__} as its runs; expected: a list."
        return
    listed = [one.get("testcases") if isinstance(one, dict) else None for one in runs]
    if recorded and not any(listed):
        yield f"ReFrame's run report lists no test case; the session has {recorded} records."
    for one, testcases in zip(runs, listed, strict=True):
        if not isinstance(testcases, list):
            yield "ReFrame's run report has a run without a list of test cases."
            continue
        said = one.get("num_cases")
        if said is not None and said != len(testcases):
            yield f"ReFrame's run report has num_cases {said!r}, and lists {len(testcases)} test cases."
        failed = sum(t.get("result") in _FAILED for t in testcases if isinstance(t, dict))
        numbers = [one.get(name) for name in ("num_failures", "num_aborted")]
        if all(isinstance(n, int) for n in numbers) and sum(numbers) > failed:
            yield f"ReFrame's run report has {sum(numbers)} failed test cases by its counts, and lists {failed}."
    first = runs[0].get("num_cases") if runs and isinstance(runs[0], dict) else None
    said = _object(run, "session_info").get("num_cases")
    if said is not None and first is not None and said != first:
        yield f"ReFrame's run report has num_cases {said!r} of the session, and {first!r} of its first run."


def never_ran(plan: Mapping[str, Any], run: Mapping[str, Any], names: set[str]) -> Iterator[str]:
    """Checks of the plan without a record and without a test case, where the command line chose none of them."""
    line = _object(run, "session_info").get("cmdline")
    if not isinstance(line, str):
        return
    try:
        words = shlex.split(line)
    except ValueError:
        return
    if any(_CHOOSE.fullmatch(word) for word in words) or not _as_planned(words, plan):
        return
    planned = plan.get("applicable")
    entries = planned if isinstance(planned, list) else []
    wanted = [str((one.get("check") or one.get("name")) if isinstance(one, dict) else one) for one in entries]
    missing = [name for name in wanted if name not in names]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        yield (
            f"{len(missing)} of {len(wanted)} checks of the plan never ran: neither a record nor the run report has "
            f"{', '.join(missing[:_NAMED])}{more}."
        )


def _as_planned(words: Sequence[str], plan: Mapping[str, Any]) -> bool:
    """Whether a command line of ReFrame has the folder of checks, the system and the mode of the plan."""
    said: dict[str, list[str]] = {"path": [], "system": [], "mode": []}
    names = {"-c": "path", "--checkpath": "path", "--system": "system", "--mode": "mode"}
    for word, after in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option in names:
            said[names[option]].append(value if equals else after)
        elif re.fullmatch("-c[^-].*", word):
            said["path"].append(word[2:])
    return (
        all(path.rstrip("/").rpartition("/")[2] == "checks" for path in said["path"])
        and set(said["system"]) <= {plan.get("system")}
        and set(said["mode"][-1:]) <= {plan.get("mode")}
    )


def _finding(record: Record, text: str) -> Finding:
    return Finding(FAIL, f"the record cannot be believed: {text}", node=record.where)


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _since_1970(value: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(value, timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
