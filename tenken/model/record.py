"""Records: one archived run, typed. Records of earlier versions are migrated here, once, when they are read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.errors import RecordError, ResultError
from tenken.model import belief, catalogue, verdicts
from tenken.model.judgement import FLOOR, REFERENCE, Finding, Judgement
from tenken.model.quick import quick
from tenken.model.request import Request
from tenken.model.result import MAX_BYTES, Result, decode, typed
from tenken.model.shape import checked
from tenken.model.subject import Subject, split_metric_id

RECORD = "tenken-record/2"
#: A larger file is refused unread: a result, and what was judged of it.
MAX_RECORD_BYTES = 2 * MAX_BYTES
#: Key of the length of the result, which are the last bytes of a record before its brace.
RESULT_BYTES = "result_bytes"
#: Versions that are read.
READABLE = ("tenken-record/1", RECORD)
#: The largest count or version: the history has columns of 32 bits for them.
MAX_INTEGER = 2**31 - 1


@dataclass(frozen=True)
class Job:
    """What the scheduler reported about the job; None if nothing. `facts` are its own terms (substate,
    comment, ...).
    """

    scheduler: str = ""
    id: str | None = None
    state: str | None = None
    exit_code: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@quick
@dataclass(frozen=True)
class Record:
    """One archived run of one check: its request, its result and the judgement.

    `time` is in UTC as ISO 8601. `result` is None if there was none; then `result_error` gives the reason and
    `result_text` the beginning of the output.
    """

    session: str
    time: str
    system: str
    partition: str
    environ: str
    check: str
    base_check: str
    parameters: Mapping[str, Any]
    mode: str
    program: str
    #: `version` of the program in the catalogue when it ran: raised when a figure's meaning changes.
    program_version: int
    subjects: tuple[str, ...]
    nodes: tuple[str, ...]
    job: Job
    judgement: Judgement
    request: Request | None = None
    result: Result | None = None
    result_error: str | None = None
    result_text: str = ""
    path: Path = Path()
    version: str = RECORD

    @property
    def verdict(self) -> str:
        return self.judgement.verdict

    @property
    def where(self) -> str:
        """The nodes on which it ran or was requested to run; otherwise what was requested."""
        told = next((finding.node for finding in self.findings if finding.node), "")
        return ",".join(self.nodes) or told or f"any node of partition {self.partition}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.judgement.findings

    def text(self) -> str:
        """As archived: compact JSON that ends with the result, byte by byte as it was written, and a brace. Raises
        ValueError if only the figures of a record were read.
        """
        result = "null" if self.result is None else self.result.text
        if not result:
            raise ValueError(f"{self.path}: only the figures of this record were read, not the text of its result")
        head = {
            "record": RECORD, "session": self.session, "time": self.time, "system": self.system,
            "partition": self.partition, "environ": self.environ, "check": self.check,
            "base_check": self.base_check, "parameters": dict(self.parameters), "mode": self.mode,
            "program": self.program, "program_version": self.program_version, "subjects": list(self.subjects),
            "nodes": list(self.nodes),
            "job": {**vars(self.job), "facts": dict(self.job.facts)},
            "request": None if self.request is None else self.request.as_json(),
            **self.judgement.as_json(),
            "result_error": self.result_error, "result_text": self.result_text,
            **({} if self.result is None else {RESULT_BYTES: len(result.encode())}),
        }  # fmt: skip
        body = json.dumps(head, allow_nan=False, separators=(",", ":"))
        return f'{body[:-1]},"result":{result}}}'


def parse(text: str, path: Path = Path(), figures_only: bool = False) -> Record:
    """A record from its JSON text, migrated if written by an earlier version; `figures_only`: without the text of its
    result, which takes as long as all else. Raises RecordError with the reason.
    """
    try:
        raw = decode(text, MAX_RECORD_BYTES)
    except ResultError as error:
        raise RecordError(str(error).removeprefix("is ")) from None
    if half := _half_a_character(text, raw):
        raise RecordError(f"contains U+{ord(half):04X}, half of a character, which no file can hold")
    version = raw.get("record") if isinstance(raw, dict) else type(raw).__name__
    if version not in READABLE:
        raise RecordError(f"not a {RECORD} file but {version!r}; this version reads {', '.join(READABLE)}")
    try:
        record = checked(_typed(raw if version == RECORD else _migrated(raw), path, str(version), figures_only))
        doubt = belief.doubt(record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ResultError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RecordError(f"misshapen: {what}") from None
    if doubt:
        raise RecordError(f"cannot be believed: {doubt}")
    return record


def _half_a_character(text: str, raw: Any) -> str:
    """The first surrogate that stands alone, which JSON can have by its number only; empty if there is none."""
    # a backslash alone is found in a tenth of the time
    if "\\" not in text or ("\\ud" not in text and "\\uD" not in text):
        return ""
    try:
        json.dumps(raw, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return str(error.object[error.start])
    return ""


def _typed(raw: Mapping[str, Any], path: Path, version: str, figures_only: bool) -> Record:
    job, result, request = raw["job"], raw["result"], raw["request"]
    if request is not None and request.get("declared") is not None:
        catalogue.declare_of_record(request["declared"])
    for key in ("session", "time", "system", "partition", "environ", "check"):
        if not isinstance(raw[key], str):
            raise ValueError(f"{key} is {raw[key]!r}; expected a text")
    if not raw["check"]:
        raise ValueError("the check has no name")
    if type(raw["program_version"]) is not int or not 1 <= raw["program_version"] <= MAX_INTEGER:
        raise ValueError(f"program_version is {raw['program_version']!r}; allowed: 1 to {MAX_INTEGER}")
    return Record(
        session=raw["session"], time=raw["time"], system=raw["system"], partition=raw["partition"],
        environ=raw["environ"], check=raw["check"], base_check=raw["base_check"] or raw["check"],
        parameters=raw["parameters"] or {}, mode=raw["mode"] or "",
        program=raw["program"] or (result or {}).get("program") or "", program_version=raw["program_version"],
        subjects=tuple(raw["subjects"] or ()), nodes=tuple(map(str, raw["nodes"] or ())),
        job=Job(job["scheduler"] or "", job["id"], job["state"], job["exit_code"], job.get("facts") or {}),
        judgement=Judgement.of(raw), request=None if request is None else Request.of(request),
        result=None if result is None else typed(result, "" if figures_only else None),
        result_error=raw["result_error"], result_text=raw["result_text"] or "", path=path, version=version,
    )  # fmt: skip


# ---- records of version 1 ------------------------------------------------------------------------------------

_PLACE = re.compile(r"(?P<node>.*?) ?(?P<place>host|GPU \d+(?:->\d+)?|\d+ ranks)?$")


def _migrated(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A record of version 1 in the current form; its verdict remains as archived."""
    return {
        **{k: raw.get(k) for k in ("session", "time", "system", "partition", "environ", "check", "base_check",
                                   "parameters", "mode", "program", "subjects", "nodes", "verdict")},
        "job": {"scheduler": raw.get("scheduler"), "id": raw.get("job_id"), "state": raw.get("job_state"),
                "exit_code": raw.get("exit_code")},
        "request": None,
        "program_version": 1,
        "findings": [_old_finding(f) for f in raw["findings"] or ()],
        "judged": {name: _old_judged(j) for name, j in (raw["judged"] or {}).items()},
        "result": raw["document"],
        "result_error": raw.get("document_error"),
        "result_text": raw.get("document_text"),
    }  # fmt: skip


def _old_finding(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Version 1 stored node and subject as one text: "node1 GPU 0"."""
    metric = raw.get("metric")
    split = _PLACE.fullmatch(str(raw.get("subject") or ""))
    place = (split["place"] if split else "") or ""
    of_metric = Subject.in_id(split_metric_id(metric)[1]) if metric else None
    numbers = [int(n) for n in re.findall(r"\d+", place)]
    subject = of_metric
    if subject is None and place.startswith("GPU"):
        subject = Subject("pair", *numbers) if len(numbers) == 2 else Subject("gpu", numbers[0])
    elif subject is None and place:
        subject = Subject("host") if place == "host" else Subject("ranks", numbers[0])
    return {**raw, "subject": None if subject is None else subject.as_json(), "node": split["node"] if split else ""}


def _old_judged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Version 1 marked a value without a criterion by `basis`, and called it PASS."""
    basis, reference = raw.get("basis"), raw.get("reference")
    limit = raw.get("limit") or {"unknown": "not archived"}
    low, high = raw.get("bounds") or (None, None)
    criterion: dict[str, Any] | None = None
    if basis == "reference" and reference:
        criterion = {
            "kind": REFERENCE, "value": reference["value"], "low": reference.get("low", low),
            "high": reference.get("high", high), "unit": reference["unit"],
            "statistic": reference.get("statistic", raw.get("statistic")), "source": reference["source"],
        }  # fmt: skip
    elif basis == "limit floor" and "value" in limit:
        higher = raw["direction"] == "higher"
        criterion = {
            "kind": FLOOR, "value": limit["value"], "low": low if higher else None, "high": None if higher else high,
            "unit": raw["unit"], "statistic": raw["statistic"], "source": limit["basis"],
        }  # fmt: skip
    verdict = raw["verdict"]
    if criterion is None and verdict == verdicts.PASS:
        verdict = verdicts.RECORDED
    return {
        "direction": "", "statistic": "", "efficiency": None, **raw, "limit": limit, "bounds": (low, high),
        "criterion": criterion, "verdict": verdict,
    }  # fmt: skip
