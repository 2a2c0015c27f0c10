"""Records: one archived run, typed. Records of earlier versions are read here, once, into the same types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tenken.errors import RecordError, ResultError
from tenken.model import catalogue, engine, verdicts
from tenken.model import result as results
from tenken.model.job import short
from tenken.model.judgement import FLOOR, REFERENCE, Criterion, Finding, JudgedMetric, Judgement, Limit
from tenken.model.request import Request
from tenken.model.result import MAX_BYTES, Result
from tenken.model.subject import Coordinates, Subject, split_metric_id
from tenken.model.values import MetricValue, Series

RECORD = "tenken-record/3"
#: A larger file is rejected unread; a record is a result and its judgement.
MAX_RECORD_BYTES = 2 * MAX_BYTES
#: Key of the length of the result, which forms the last bytes of a record before the closing brace.
RESULT_BYTES = "result_bytes"
FIRST, SECOND = "tenken-record/1", "tenken-record/2"
#: Versions that are read.
READABLE = (FIRST, SECOND, RECORD)
#: The largest count or version: the history has columns of 32 bits for them.
MAX_INTEGER = 2**31 - 1


@dataclass(frozen=True)
class Job:
    """What the scheduler reported about the job; None if nothing. `facts` are its own terms (substate, comment)."""

    scheduler: str = ""
    id: str | None = None
    state: str | None = None
    exit_code: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


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
    #: `version` is that of the program in the catalogue when it ran: raised when a figure's meaning changes.
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
        """The nodes on which it ran; if unknown, those requested."""
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
            "verdict": self.verdict, "findings": [finding.as_json() for finding in self.findings],
            **_written(self.result.metrics if self.result else (), self.judgement.judged),
            "result_error": self.result_error, "result_text": self.result_text,
            **({} if self.result is None else {RESULT_BYTES: len(result.encode())}),
        }  # fmt: skip
        body = json.dumps(head, allow_nan=False, separators=(",", ":"))
        return f'{body[:-1]},"result":{result}}}'


# ---- what was computed, as it is stored -----------------------------------------------------------------------

#: Statistics that a value has anyway; if the value is one of these, it is not stored twice.
_NAMED = ("median", "best", "p5", "p95")


class _Value(msgspec.Struct, omit_defaults=True):
    """A value with everything computed for it; the numbers in `limits` and `criteria` are indices into the record's
    lists.

    A single sample is stored as `value`; several as their statistics, with `value` for a mean or a total. `statistic`
    is that of the criterion if it differs.
    """

    metric: str
    subject: dict[str, int]
    verdict: str
    count: int
    at: dict[str, str | int | float | bool | None] = {}
    value: float | None = None
    best: float | None = None
    median: float | None = None
    p5: float | None = None
    p95: float | None = None
    limit: int | None = None
    criterion: int | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    statistic: str = ""
    clock: str = ""
    derived: bool = False


def _written(metrics: tuple[MetricValue, ...], judged: Mapping[str, JudgedMetric]) -> dict[str, Any]:
    """All values of a record: `values` by id; `units` (unit, direction, statistic by metric), `limits` and `criteria`
    are stored once each."""
    units: dict[str, list[str]] = {}
    limits: dict[str, int] = {}
    criteria: dict[str, int] = {}

    def place(found: dict[str, int], entry: dict[str, Any]) -> int:
        return found.setdefault(json.dumps(entry, allow_nan=False, separators=(",", ":")), len(found))

    values = {}
    for one in metrics:
        units.setdefault(one.name, [one.unit, one.direction, one.statistic])
        about = judged.get(one.id)
        entry = _Value(one.name, one.subject.as_json(), about.verdict if about else "", one.count, dict(one.at))
        entry.clock, entry.derived = one.clock, one.derived
        if one.count == 1 or one.statistic not in _NAMED:
            entry.value = one.value
        if one.count != 1:
            entry.best, entry.median, entry.p5, entry.p95 = one.best, one.median, one.p5, one.p95
        if about is not None:
            entry.limit = place(limits, about.limit.as_json())
            entry.criterion = None if about.criterion is None else place(criteria, dict(vars(about.criterion)))
            entry.bounds = about.bounds
            entry.statistic = about.statistic if about.statistic != one.statistic else ""
        values[one.id] = msgspec.to_builtins(entry)
    return {
        "values": values, "units": units, "limits": [json.loads(one) for one in limits],
        "criteria": [json.loads(one) for one in criteria],
    }  # fmt: skip


# ---- the border ------------------------------------------------------------------------------------------------


class _Job(msgspec.Struct):
    scheduler: str | None = None
    id: str | None = None
    state: str | None = None
    exit_code: int | None = None
    facts: dict[str, Any] | None = None


class _Head(msgspec.Struct, kw_only=True):
    """What records of all versions have."""

    session: str
    time: str
    system: str
    partition: str
    environ: str
    check: str
    base_check: str | None = None
    parameters: dict[str, Any] | None = None
    mode: str | None = None
    program: str | None = None
    program_version: int
    subjects: list[str] | None = None
    nodes: list[Any] | None = None
    job: _Job
    request: dict[str, Any] | None
    verdict: str
    findings: list[dict[str, Any]]
    result_error: str | None = None
    result_text: str | None = None
    result: msgspec.Raw

    def record(self, result: Result | None, judged: Mapping[str, JudgedMetric], path: Path, version: str) -> Record:
        if not self.check:
            raise ValueError("the check has no name")
        if not 1 <= self.program_version <= MAX_INTEGER:
            raise ValueError(f"program_version is {self.program_version!r}; allowed: 1 to {MAX_INTEGER}")
        program = self.program or (result.program if result else "")
        findings = tuple(Finding.of(finding) for finding in self.findings)
        return Record(
            self.session, self.time, self.system, self.partition, self.environ, self.check,
            self.base_check or self.check, self.parameters or {}, self.mode or "", program, self.program_version,
            tuple(self.subjects or ()), tuple(short(str(node)) for node in self.nodes or ()),
            Job(self.job.scheduler or "", self.job.id, self.job.state, self.job.exit_code, self.job.facts or {}),
            Judgement(verdicts.known(self.verdict), findings, (), judged),
            None if self.request is None else Request.of(self.request), result, self.result_error,
            self.result_text or "", path, version,
        )  # fmt: skip

    def read_result(self, figures_only: bool) -> Result | None:
        if self.request is not None and self.request.get("declared") is not None:
            catalogue.declare_of_record(self.request["declared"])
        text = bytes(self.result).decode()
        return None if text.strip() == "null" else results.parse(text, "result", figures_only)


class _Judged(msgspec.Struct):
    verdict: str
    value: float
    unit: str
    limit: dict[str, Any]
    criterion: dict[str, Any] | None
    bounds: tuple[float | None, float | None]
    direction: str = ""
    statistic: str = ""
    efficiency: float | None = None


class _Before(_Head, kw_only=True):
    """A record of version 2, or one of version 1 converted to it: the result states the values, which are kept as
    stated."""

    judged: dict[str, _Judged]

    def typed(self, path: Path, version: str, figures_only: bool) -> Record:
        result = self.read_result(figures_only)
        judged = {
            name: JudgedMetric(
                verdicts.known(one.verdict), one.value, one.unit, one.direction, one.statistic,
                None if one.criterion is None else Criterion.of(one.criterion), Limit.of(one.limit), one.efficiency,
                one.bounds,
            )
            for name, one in self.judged.items()
        }  # fmt: skip
        return self.record(_completed(result), judged, path, version)


class _Now(_Head, kw_only=True):
    """A record of this version."""

    values: dict[str, _Value]
    units: dict[str, tuple[str, str, str]]
    limits: list[dict[str, Any]]
    criteria: list[dict[str, Any]]

    def typed(self, path: Path, version: str, figures_only: bool) -> Record:
        result = self.read_result(figures_only)
        limits, criteria = [Limit.of(one) for one in self.limits], [Criterion.of(one) for one in self.criteria]
        series = {one.id: one for one in result.series} if result else {}
        stated = {one.id: one for one in result.metrics} if result else {}
        metrics, judged = [], {}
        for name, one in self.values.items():
            metric = self._metric(name, one, series.get(name), stated.get(name))
            metrics.append(metric)
            if one.limit is None:
                continue
            limit = limits[one.limit]
            efficiency = None
            if limit.value and metric.value:
                higher = metric.direction == "higher"
                efficiency = metric.value / limit.value if higher else limit.value / metric.value
            statistic = one.statistic or metric.statistic
            judged[name] = JudgedMetric(
                verdicts.known(one.verdict), metric.statistic_named(statistic), metric.unit, metric.direction,
                statistic, None if one.criterion is None else criteria[one.criterion], limit, efficiency, one.bounds,
            )  # fmt: skip
        if result is not None:
            of_values = {**result.limits, **{name: one.limit for name, one in judged.items()}}
            result = results.with_values(result, tuple(metrics), of_values)
            if catalogue.has(result.program):
                verification = engine.verified(result, catalogue.program(result.program))
                result = replace(result, verification=verification)
        return self.record(result, judged, path, version)

    def _metric(self, name: str, one: _Value, series: Series | None, stated: MetricValue | None) -> MetricValue:
        unit, direction, statistic = self.units[one.metric]
        samples = stated.samples if stated else engine.in_unit(series, unit) if series and series.samples else ()
        best, median, p5, p95 = (one.value if x is None else x for x in (one.best, one.median, one.p5, one.p95))
        if best is None or median is None or p5 is None or p95 is None:
            raise ValueError(f"values/{name[:80]} lacks a statistic")
        value = one.value
        if value is None:
            value = {"best": best, "median": median, "p5": p5, "p95": p95}[statistic]
        return MetricValue(
            name, one.metric, Subject.of(one.subject), Coordinates.of(one.at), unit, direction, statistic, value, best,
            median, p5, p95, one.count, samples, one.clock, series.counts if series else {}, one.derived,
        )  # fmt: skip


class _Version(msgspec.Struct):
    record: str = ""


_VERSION, _ANY = msgspec.json.Decoder(_Version), msgspec.json.Decoder()
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    SECOND: msgspec.json.Decoder(_Before),
    RECORD: msgspec.json.Decoder(_Now),
}


def parse(text: str, path: Path = Path(), figures_only: bool = False) -> Record:
    """A record from its JSON text, of any version; `figures_only`: without the text of its result; such a record cannot
    be archived again. Raises RecordError with the reason.
    """
    try:
        version = results.decoded(_VERSION, text, MAX_RECORD_BYTES).record
        if version not in READABLE:
            raise RecordError(f"not a {RECORD} file but {version[:40]!r}; this version reads {', '.join(READABLE)}")
        if version == FIRST:
            raw = _migrated(results.decoded(_ANY, text, MAX_RECORD_BYTES))
            found = msgspec.convert({**raw, "result": msgspec.Raw(msgspec.json.encode(raw["result"]))}, _Before)
        else:
            found = results.decoded(_DECODERS[version], text, MAX_RECORD_BYTES)
        return found.typed(path, version, figures_only)
    except ResultError as error:
        text = str(error)
        of_file = text.startswith(("is ", "has ", "cannot be read"))
        raise RecordError(text.removeprefix("is ") if of_file else f"misshapen: {text}") from None
    except (KeyError, TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RecordError(f"misshapen: {what}") from None


def _completed(result: Result | None) -> Result | None:
    """A version 2 result with everything computed from it; version 1 states that itself."""
    if result is None or result.schema != results.SCHEMA or not catalogue.has(result.program):
        return result
    return engine.completed(result, catalogue.program(result.program))


# ---- records of version 1 ------------------------------------------------------------------------------------

_PLACE = re.compile(r"(?P<node>.*?) ?(?P<place>host|GPU \d+(?:->\d+)?|\d+ ranks)?$")


def _migrated(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a record of version 1; its verdict is unchanged."""
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
