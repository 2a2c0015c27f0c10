"""Kept archives whose records and files of a session were changed: told to page, acceptance and store."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from tenken.archive import packed
from tenken.commands import accept
from tenken.errors import ArchiveError
from tenken.history import record_parser
from tenken.model.judgement import Finding, Judgement
from tenken.report import session
from tests.lies.lie import Lie
from tests.support import kept

NAME = "20261123T015311Z-bcadd0"
#: A PASS by floors, one of several GPUs, a RECORDED and a WAIVED run of it.
COPY, HPCG, DAXPY, WAIVER = "MemcopyGpu %array_bytes=4000000000", "HpcgCuda", "Daxpy", "MpiDevice"
CHOSEN = (COPY, HPCG, DAXPY, WAIVER)
#: By which the store measures the future.
NOW = datetime(2026, 12, 1)


@dataclass
class Kept:
    """A session of an archive as JSON: records by their path, and the files beside them."""

    records: dict[str, Any]
    run: Any
    plan: Any
    begun: Any = None

    def path(self, check: str) -> str:
        return next(path for path, record in self.records.items() if record["check"] == check)

    def record(self, check: str) -> Any:
        return self.records[self.path(check)]

    def case(self, check: str) -> Any:
        return next(case for case in self.run["runs"][0]["testcases"] if case["display_name"] == check)

    def write(self, root: Path) -> Path:
        folder = root / ".sessions" / NAME
        folder.mkdir(parents=True)
        for name, content in (("run-report", self.run), ("plan", self.plan), ("begun-5b67183b", self.begun)):
            if content is not None:
                (folder / f"{name}.json").write_text(json.dumps(content))
        for path, record in self.records.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(json.dumps(record, separators=(",", ":")))
        return root


@cache
def _whole() -> Kept:
    """Four checks of a kept session, as if no others had been planned."""
    root = packed.folder_of(kept.TWO_CLEAN)
    found = {str(path.relative_to(root)): path for path in sorted(root.glob(f"local/*/*/*/*-{NAME}-*.json"))}
    records = {name: json.loads(path.read_text()) for name, path in found.items()}
    folder = root / ".sessions" / NAME
    run, plan = (json.loads((folder / f"{name}.json").read_text()) for name in ("run-report", "plan"))
    cases = [case for case in run["runs"][0]["testcases"] if case["display_name"] in CHOSEN]
    run["runs"] = [{"num_cases": len(cases), "num_failures": 0, "num_aborted": 0, "num_skipped": 1, "testcases": cases}]
    run["session_info"] = {**run["session_info"], "num_cases": len(cases), "num_failures": 0}
    begun = json.loads(next(folder.glob("begun-*.json")).read_text())
    return Kept(
        {name: record for name, record in records.items() if record["check"] in CHOSEN},
        run, {**plan, "applicable": list(CHOSEN), "where": {}}, begun,
    )  # fmt: skip


def honest() -> Kept:
    """The session, to be changed."""
    return copy.deepcopy(_whole())


Change = Callable[[Kept], Any]


def page(root: Path) -> Judgement:
    """The verdict of the page of the session, with all that it says."""
    found = session.load(root, NAME)
    said = [
        *(f for one in found.counted for f in one.findings),
        *(Finding("INVALID", text) for text in found.incomplete),
    ]
    said += [Finding("INVALID", f"{path} {why}") for path, why in found.damaged]
    return Judgement("PASS" if found.exit_code == 0 else "FAIL" if found.exit_code == 1 else "INVALID", tuple(said))


def acceptance(root: Path) -> Judgement:
    """Whether the acceptance counts every record."""
    files = accept.files_of(root, (NAME,))
    records = [record for _, record in accept.records_of(files)]
    lost, unread = session.without_records(root, (NAME,), records)
    said = [*files.damaged, *unread, *(f.message for case in lost for f in case.findings if case.verdict == "FAIL")]
    return Judgement("FAIL" if said else "PASS", tuple(Finding("FAIL", text) for text in said))


def store(root: Path) -> Judgement:
    """Whether the store takes every record."""
    said = []
    for path in sorted(root.glob("*/*/*/*/*.json")):
        try:
            record_parser.record(path.read_text(), NOW, "/".join(path.parts[-5:-1]), path.name)
        except (record_parser.Unreadable, ArchiveError) as error:
            said.append(Finding("FAIL", str(error)))
    return Judgement("FAIL" if said else "PASS", tuple(said))


READERS = {"page": page, "acceptance": acceptance, "store": store}


def told(change: Change, reader: str = "page") -> Judgement:
    with tempfile.TemporaryDirectory() as place:
        changed = honest()
        change(changed)
        return READERS[reader](changed.write(Path(place)))


@dataclass(frozen=True)
class ArchiveLie(Lie):
    archive: Change = field(default=lambda one: None)

    def told(self) -> Judgement:
        return told(self.archive, self.of)


# ---- how an archive is changed -------------------------------------------------------------------------------


def at(check: str, path: str, value: Any) -> Change:
    """A field of a record: "job/exit_code"; a callable gets what was there."""

    def change(one: Kept) -> None:
        _put(one.record(check), path, value)

    return change


def _put(raw: Any, path: str, value: Any) -> None:
    *way, last = path.split("/")
    for step in way:
        raw = raw[int(step)] if isinstance(raw, list) else raw[step]
    key: Any = int(last) if isinstance(raw, list) else last
    raw[key] = value(raw[key]) if callable(value) else value


def all_of(*changes: Change) -> Change:
    def change(one: Kept) -> None:
        for each in changes:
            each(one)

    return change


def judged(check: str, field_name: str, value: Any, number: int = 0) -> Change:
    """A field of a judged value, the first that has a criterion."""

    def change(one: Kept) -> None:
        values = one.record(check)["judged"]
        held = [name for name in values if values[name]["criterion"]] or list(values)
        _put(values[held[number]], field_name, value)

    return change


def metric(check: str, **fields: Any) -> Change:
    """Fields of the first metric of the result; a callable gets what was there."""

    def change(one: Kept) -> None:
        first = one.record(check)["result"]["metrics"][0]
        first.update({name: value(first[name]) if callable(value) else value for name, value in fields.items()})

    return change


def moved(check: str, path: Callable[[str], str], copied: bool = False, **fields: Any) -> Change:
    """A record in another file; a copy leaves the first one."""

    def change(one: Kept) -> None:
        here = one.path(check)
        record = copy.deepcopy(one.records[here]) if copied else one.records.pop(here)
        one.records[path(here)] = {**record, **fields}

    return change


def retimed(check: str, time: str) -> Change:
    """A record of another time, in the file of that time."""

    def change(one: Kept) -> None:
        record = one.records.pop(here := one.path(check))
        day, clock = record["time"][:10], record["time"][11:19].replace(":", "")
        new = here.replace(f"/{day}/", f"/{time[:10]}/").replace(f"/{clock}-", f"/{time[11:19].replace(':', '')}-")
        one.records[new] = {**record, "time": time}

    return change


def case(check: str, **fields: Any) -> Change:
    """Fields of a test case in the run report."""
    return lambda one: one.case(check).update(fields)


def without(check: str, record: bool = True, listed: bool = True, counted: bool = False) -> Change:
    """A check that vanishes: its record, its test case, the count of test cases."""

    def change(one: Kept) -> None:
        if record:
            del one.records[one.path(check)]
        run = one.run["runs"][0]
        if listed:
            run["testcases"].remove(one.case(check))
        if counted:
            run["num_cases"] -= 1
            one.run["session_info"]["num_cases"] -= 1

    return change


def on_two_nodes(one: Kept) -> None:
    """The record of one node as that of a second one, of which the run report does not know."""
    record = copy.deepcopy(one.record(COPY))
    record["nodes"] = ["node2"]
    record["result"]["host"]["name"] = "node2"
    one.records[one.path(COPY).replace(".json", "")[:-8] + "0123abcd.json"] = record


OF_JOB = {
    "its exit code is 137": (at(COPY, "job/exit_code", 137), "exited with 137"),
    "its exit code is 1": (at(COPY, "job/exit_code", 1), "exited with 1"),
    "its exit code is that of a signal": (at(COPY, "job/exit_code", 9), "exited with 9"),
    "its exit code is 3": (at(DAXPY, "job/exit_code", 3), "exited with 3"),
    "a waived one ended with 0": (at(WAIVER, "job/exit_code", 0), "exited with 0"),
    "its job failed": (at(COPY, "job/state", "FAILED"), "state is FAILED"),
    "its job ended with a failure": (at(COPY, "job/state", "FAILURE"), "FAILURE"),
    "its job is still running": (at(HPCG, "job/state", "RUNNING"), "RUNNING"),
    "its job's time was over": (at(COPY, "job/state", "TIMEOUT"), "TIMEOUT"),
    "its job had no memory": (at(DAXPY, "job/state", "OUT_OF_MEMORY"), "OUT_OF_MEMORY"),
    "its node failed": (at(DAXPY, "job/state", "NODE_FAIL"), "NODE_FAIL"),
    "its job was cancelled": (at(DAXPY, "job/state", "CANCELLED by 0"), "CANCELLED"),
    "its job was lost": (at(COPY, "job/facts", {"lost": "no longer listed"}), "lost the job"),
    "its job ran twice": (at(COPY, "job/facts", {"run_count": 2}), "ran twice"),
    "its job was suspended": (at(COPY, "job/facts", {"suspended": True}), "suspended"),
}
OF_NODES = {
    "it has no nodes": (at(COPY, "nodes", []), "nodes is empty"),
    "its nodes are null": (at(DAXPY, "nodes", None), "nodes is empty"),
    "its node is empty": (at(DAXPY, "nodes", [""]), "nodes is empty"),
}
OF_TIMES = {
    "its result is of the year 2099": (at(COPY, "result/finished", "2099-01-01T00:00:00Z"), "finished is 2099"),
    "its result is of month 13": (at(COPY, "result/started", "2026-13-01T00:00:00Z"), "started is '2026-13"),
    "its result is of 30 February": (at(COPY, "result/finished", "2026-02-30T00:00:00Z"), "finished is '2026-02-30"),
    "its result ended before it began": (
        at(COPY, "result/finished", "2026-11-23T00:00:00Z"), "before started"),
    "its result is of last year": (
        all_of(at(COPY, "result/started", "2025-11-23T01:00:00Z"), at(COPY, "result/finished", "2025-11-23T01:00:09Z")),
        "finished is 2025",
    ),
    "it is of month 13": (at(COPY, "time", "2026-13-23T01:53:11Z"), "time is '2026-13"),
    "it is of the year 2099": (at(COPY, "time", "2099-11-23T01:53:11Z"), "written at 2099"),
    "its time is a word": (at(COPY, "time", "yesterday"), "time is 'yesterday'"),
}  # fmt: skip
OF_WORDS = {
    "its verdict is PASSED": (at(COPY, "verdict", "PASSED"), "unknown verdict 'PASSED'; allowed"),
    "its verdict is ok": (at(COPY, "verdict", "ok"), "unknown verdict 'ok'"),
    "its verdict is of small letters": (at(COPY, "verdict", "pass"), "unknown verdict 'pass'"),
    "a finding is ok": (
        at(COPY, "findings", [{"verdict": "ok", "message": "x"}]), "findings/0/verdict is 'ok'; allowed"),
    "a value is PASSED": (judged(COPY, "verdict", "PASSED"), "verdict is 'PASSED'; allowed"),
    "a criterion is a wish": (judged(COPY, "criterion/kind", "wish"), "criterion/kind is 'wish'; allowed"),
    "a limit is said by a friend": (judged(COPY, "limit/said_by", "friend"), "said_by is 'friend'; allowed"),
    "a direction is upwards": (judged(COPY, "direction", "up"), "direction is 'up'; allowed"),
    "a statistic is the mode": (judged(COPY, "statistic", "mode"), "statistic is 'mode'; allowed"),
}  # fmt: skip
OF_VERDICTS = {
    "RECORDED became PASS": (at(DAXPY, "verdict", "PASS"), "no value met a criterion"),
    "PASS became WAIVED": (at(COPY, "verdict", "WAIVED"), "status of its result is ok"),
    "WAIVED became PASS": (at(WAIVER, "verdict", "PASS"), "status of its result is waived"),
    "WAIVED became RECORDED": (at(WAIVER, "verdict", "RECORDED"), "status of its result is waived"),
    "a finding of it is FAIL": (
        at(COPY, "findings", [{"verdict": "FAIL", "message": "too slow"}]), "a finding is FAIL: too slow"),
    "a finding of it is INVALID": (
        at(DAXPY, "findings", [{"verdict": "INVALID", "message": "throttled"}]), "a finding is INVALID: throttled"),
    "it has no result": (at(COPY, "result", None), "PASS without a result"),
    "a recorded one has no result": (at(DAXPY, "result", None), "RECORDED without a result"),
    "it is waived without a reason": (
        all_of(at(DAXPY, "result", None), at(DAXPY, "verdict", "WAIVED")), "no finding gives a reason of"),
    "its result could not be read": (at(COPY, "result_error", "truncated"), "result_error is 'truncated'"),
    "a value of it is FAIL": (judged(COPY, "verdict", "FAIL"), "is FAIL"),
    "its verification failed": (at(COPY, "result/verification/passed", False), "verification of its result failed"),
}  # fmt: skip
OF_VALUES = {
    "its value is doubled": (metric(COPY, value=lambda v: 2 * v), "value is .* but the samples give"),
    "all its statistics are doubled": (
        metric(COPY, **dict.fromkeys(("value", "best", "median", "p5", "p95"), lambda v: 2 * v)), "the samples give"),
    "its samples are halved": (metric(COPY, samples=lambda s: [v / 2 for v in s]), "the samples give"),
    "all figures of its result are doubled": (
        metric(COPY, samples=lambda s: [2 * v for v in s],
               **dict.fromkeys(("value", "best", "median", "p5", "p95"), lambda v: 2 * v)),
        "judged/.*/value is .* of its result is"),
    "a sample is gone": (metric(COPY, samples=lambda s: s[1:]), "count is|the samples give"),
    "its judged value is doubled": (judged(COPY, "value", lambda v: 2 * v), "judged/.*/value is .* of its result is"),
    "its floor lies above the value": (judged(COPY, "criterion/low", 1e9), "criterion/low is|allows from"),
    "its floor is a tenth": (judged(COPY, "criterion/low", lambda v: v / 10), "criterion/low is .* its bounds have"),
    "its ceiling lies below the value": (judged(COPY, "bounds", lambda b: [b[0], 1.0]), "bounds allow up to 1"),
    "its floor is gone": (judged(COPY, "criterion", None), "PASS without a criterion"),
    "a value with a floor is RECORDED": (judged(COPY, "verdict", "RECORDED"), "it has a criterion"),
    "its efficiency is 1": (judged(COPY, "efficiency", 1.0), "efficiency is 1; value and limit give"),
    "its unit is another": (judged(COPY, "unit", "TB/s"), "unit is 'TB/s'"),
    "a metric of it is gone": (lambda one: one.record(COPY)["result"]["metrics"].pop(), "is not in its result"),
    "a judged value of it is gone": (lambda one: one.record(COPY)["judged"].popitem(), "is not in judged"),
    "nothing of it was judged": (at(DAXPY, "judged", {}), "is not in judged"),
}  # fmt: skip
OF_REQUESTS = {
    "its result has the token of another attempt": (at(COPY, "result/token", "0" * 32), "token is '0000"),
    "its request has another token": (at(COPY, "request/token", "1" * 32), "its request's is '1111"),
    "its request is of another check": (at(COPY, "request/check", "StreamCuda"), "its request is of 'StreamCuda'"),
    "its request is of another program": (at(COPY, "request/program", "stream"), "its request is of 'stream'"),
    "it is of another mode": (at(COPY, "mode", "acceptance"), "mode is 'acceptance'; its request is of 'quick'"),
}
OF_PLACE = {
    "it lies in the folder of another check": (
        moved(COPY, lambda path: path.replace("MemcopyGpu_array_bytes=4000000000", "Stream")), "check is .*'Stream'"),
    "it lies in the folder of another system": (
        moved(COPY, lambda path: path.replace("local/", "h200/", 1)), "system is 'local'; its place .* 'h200'"),
    "it is of another session": (at(COPY, "session", "20261123T015840Z-cdee79"), "session is .*cdee79"),
    "it is of another system": (at(COPY, "system", "h200"), "system is 'h200'; its place"),
    "it is of another partition": (at(COPY, "partition", "gpu"), "partition is 'gpu'; its place"),
    "it is another check": (
        all_of(at(COPY, "request/check", "StreamCuda"), at(COPY, "check", "StreamCuda")), "check is 'StreamCuda'"),
    "it is a minute older": (at(COPY, "time", lambda t: t.replace("T01:", "T00:")), "time is '00"),
}  # fmt: skip
#: What only the files of a session show.
OF_SESSION = {
    "a copy is of a second node": (on_two_nodes, "records are of one attempt|are of one attempt"),
    "it was copied": (
        moved(COPY, lambda path: path[:-13] + "0123abcd.json", copied=True), "2 records are of one attempt"),
    "it was written before the session": (retimed(COPY, "2026-11-23T01:20:00.000000Z"), "before the session began"),
    "it was written after the run": (retimed(COPY, "2026-11-23T03:20:00.000000Z"), "after the run ended"),
    "it lies in the year 2099": (
        all_of(retimed(COPY, "2099-11-23T02:00:00.000000Z"), at(COPY, "result/started", "2099-11-23T01:59:00Z"),
               at(COPY, "result/finished", "2099-11-23T01:59:59Z")), "lies in the future"),
}  # fmt: skip
#: What only judging again shows.
OF_RESULTS = {
    "its node is another": (at(COPY, "nodes", ["node7"]), "host.name is 'node1'; the job ran on node7"),
    "a tolerance was missed": (
        at(COPY, "result/verification/checks/0/error", 1.0), "judged again it is FAIL.*verification"),
    "a GPU is listed twice": (
        lambda one: one.record(HPCG)["result"]["devices"].append(one.record(HPCG)["result"]["devices"][0]),
        "judged again it is FAIL.*listed twice"),
    "a parameter is not the requested one": (
        at(COPY, "result/parameters/repetitions", 5), "judged again it is FAIL.*repetitions"),
    "its program was built for debugging": (at(COPY, "result/build/type", "Debug"), "judged again it is FAIL"),
}  # fmt: skip
OF_RUN_REPORT = {
    "it has no runs": (lambda one: one.run.update(runs=[]), "lists no test case"),
    "its runs are a text": (lambda one: one.run.update(runs="all"), "runs; expected: a list"),
    "its runs are gone": (lambda one: one.run.pop("runs"), "runs; expected: a list"),
    "its run lists nothing": (
        lambda one: one.run["runs"][0].update(testcases=[], num_cases=0), "lists no test case|num_cases"),
    "its run has no test cases": (lambda one: one.run["runs"][0].pop("testcases"), "without a list of test cases"),
    "a test case is gone": (without(COPY, record=False), "num_cases 4, and lists 3"),
    "a check is gone": (without(COPY), "num_cases 4, and lists 3"),
    "a failed test case is gone": (
        lambda one: one.run["runs"][0].update(num_failures=1), "1 failed test cases by its counts, and lists 0"),
    "the session had more test cases": (
        lambda one: one.run["session_info"].update(num_cases=9), "num_cases 9 of the session, and 4"),
    "a result is PASSED": (case(COPY, result="PASSED"), "result is 'PASSED' in the run report; allowed: pass"),
    "a result is ok": (case(COPY, result="ok"), "result is 'ok'"),
    "a result is null": (case(DAXPY, result=None), "result is None"),
    "a result is a list": (case(DAXPY, result=["pass"]), r"result is \['pass'\]"),
    "a measured check was skipped": (case(COPY, result="skip"), "verdict is PASS; result is 'skip'"),
    "a waived check passed": (case(WAIVER, result="pass"), "verdict is WAIVED; result is 'pass'"),
    "its verdict is FAIL": (case(COPY, tenken_verdict="FAIL"), "verdict is PASS; the run report has FAIL"),
    "its verdict is RECORDED": (case(COPY, tenken_verdict="RECORDED"), "the run report has RECORDED"),
    "its verdict is another word": (case(COPY, tenken_verdict="fine"), "tenken_verdict is 'fine' .*allowed"),
    "its job is another": (case(COPY, jobid="1"), "job id is '7989'; the run report has '1'"),
    "the record's job is another": (at(COPY, "job/id", "1"), "job id is '1'; the run report has '7989'"),
}  # fmt: skip
OF_PLAN = {
    "a check is gone everywhere but there": (
        without(COPY, counted=True), "1 of 4 checks of the plan never ran.*MemcopyGpu"),
    "two more checks": (
        lambda one: one.plan["applicable"].extend(["GemmHost", "Transfer"]), "2 of 6 checks .*GemmHost, Transfer"),
    "it is of another system": (lambda one: one.plan.update(system="h200"), "the plan of the session has 'h200'"),
    "a check could not be loaded": (lambda one: one.plan.update(applicable=[*CHOSEN, {"check": "Hpl"}]), "Hpl"),
}  # fmt: skip
#: What every reader of a record sees.
OF_RECORDS = {
    "job": OF_JOB, "nodes": OF_NODES, "times": OF_TIMES, "words": OF_WORDS, "verdict": OF_VERDICTS,
    "values": OF_VALUES, "request": OF_REQUESTS, "place": OF_PLACE,
}  # fmt: skip
OF_SESSIONS = {"session": OF_SESSION, "run report": OF_RUN_REPORT, "plan": OF_PLAN, "result": OF_RESULTS}
#: What the acceptance sees too: which checks must have run is said by its contract, not by the plan.
OF_ACCEPTANCE = {
    **OF_RECORDS, "session": OF_SESSION, "run report": OF_RUN_REPORT, "result": OF_RESULTS,
    "plan": {name: one for name, one in OF_PLAN.items() if name.startswith("it is of another")},
}  # fmt: skip


def lies() -> Iterator[Lie]:
    for reader, groups in (
        ("page", {**OF_RECORDS, **OF_SESSIONS}),
        ("acceptance", OF_ACCEPTANCE),
        ("store", OF_RECORDS),
    ):
        for mechanism, found in groups.items():
            for name, (change, names) in found.items():
                yield ArchiveLie(reader, f"{mechanism}: {name}", names, lambda raw: None, archive=change)


def _clocks_apart(one: Kept) -> None:
    """A node whose clock is 30 s ahead of the host that writes the records."""
    ahead = datetime.fromisoformat(one.record(HPCG)["time"].rstrip("Z")) + timedelta(seconds=30)
    one.record(HPCG)["result"]["finished"] = f"{ahead:%Y-%m-%dT%H:%M:%S}Z"


def _killed(one: Kept) -> None:
    """A job that was killed, as the suite records it."""
    said = {"verdict": "FAIL", "message": "node1: the job did not run to its end: state TIMEOUT"}
    one.record(COPY).update(verdict="FAIL", findings=[said], judged={}, result=None, result_error="no result.json")
    one.record(COPY)["job"].update(state="TIMEOUT", exit_code=0)
    one.case(COPY).update(result="fail", tenken_verdict="FAIL", fail_reason="INVALID", fail_phase="sanity")
    one.run["runs"][0]["num_failures"] = 1


def _by_name(one: Kept) -> None:
    """`-n`: most of the plan does not run."""
    one.run["session_info"]["cmdline"] += " -n 'Copy|Hpcg|Daxpy|Mpi'"
    one.plan["applicable"].append("GemmHost")


def twins() -> Iterator[tuple[str, str, str]]:
    """Sessions that are as good, or as bad, as they look."""
    for reader in READERS:
        yield f"{reader}: as kept", told(lambda one: None, reader).verdict, "PASS"
        yield f"{reader}: clocks 30 s apart", told(_clocks_apart, reader).verdict, "PASS"
    for what, change in (
        ("checks chosen by name", _by_name),
        ("no plan", lambda one: setattr(one, "plan", None)),
        ("a result without a verdict of its own, as a waiver at set-up", case(WAIVER, tenken_verdict="none")),
        ("a scheduler that does not state how a job ended", at(COPY, "job", {
            "scheduler": "pbs", "id": "7989", "state": "COMPLETED (no longer listed)", "exit_code": None})),
    ):  # fmt: skip
        yield what, told(change).verdict, "PASS"
    full = case(DAXPY, tenken_verdict="INVALID", result="fail", fail_reason="sanity error: INVALID: n1: no space")
    yield "a record that the full archive took later", told(full).verdict, "INVALID"
    yield "a killed job is a FAIL", told(_killed).verdict, "FAIL"
    yield "a killed job is a record", told(_killed, "acceptance").verdict, "PASS"
