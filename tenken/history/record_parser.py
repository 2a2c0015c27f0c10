"""Converts files of the archive to rows of the store: records with their documents, and ReFrame's performance logs.

Independent of the database: each function converts text to rows, or raises `Unreadable` with the reason.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple

from tenken.archive.records import misplaced
from tenken.errors import CatalogueError, RecordError
from tenken.model.catalogue import NOTHING, Program, program
from tenken.model.job import short
from tenken.model.record import MAX_INTEGER, Record, parse
from tenken.model.result import MetricValue, Result
from tenken.model.subject import Coordinates, Subject, split_metric_id
from tenken.model.verdicts import INVALID, VERDICTS

#: Fields of the environment that can explain a change of a metric; an empty one is unknown.
FINGERPRINT = ("driver", "cuda", "kernel", "firmware", "clocks", "revision", "compiler", "device", "options")

#: A record must not be older than the time in its session's name, nor much newer: otherwise a clock jumped.
_BEFORE_SESSION, _AFTER_SESSION = timedelta(hours=1), timedelta(days=14)
_FIRST_YEAR = 2010
#: A time further in the future than this is invalid
_AHEAD = timedelta(days=1)
_LOWER_IS_BETTER = re.compile(r"(?i)^(?:[munp]?s|sec|secs|seconds?|minutes?|hours?|[mun]sec|cycles?|J|W|°?C)(?:/|$)")


_compact = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class Unreadable(Exception):
    """The reason why a file or a line is not a row."""


class SeriesKey(NamedTuple):
    """The identity of a series: metric x machine x identity, by slot.

    `version` is the program's in the catalogue, `parameters` those of its identity. A slot is a node and, for a GPU or
    a pair, its index. A replaced GPU is a mark on the series (`device` of the fingerprint).
    """

    system: str
    partition: str
    environ: str
    check: str
    program: str
    version: int
    parameters: str
    metric: str
    coordinates: str
    kind: str
    node: str
    gpu: str
    peer: str


class Point(NamedTuple):
    """One value of one metric of one run, in `unit`."""

    series: SeriesKey
    unit: str
    direction: str
    statistic: str
    id: str
    node: str
    place: str
    value: float
    best: float | None
    p5: float | None
    p95: float | None
    samples: int | None
    verdict: str
    valid: bool
    fingerprint: tuple[str, ...]


class Run(NamedTuple):
    """One test case of one session: the columns of the table `runs` except its file."""

    run: int
    kind: str
    time: datetime
    session: str
    system: str
    partition: str
    environ: str
    check: str
    base_check: str
    mode: str
    program: str
    nodes: str
    job_id: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Parsed:
    """A run with its points, and its rejected values."""

    run: Run
    points: list[Point]
    refused: list[tuple[str, str]]


def identity(*parts: object) -> int:
    """A 63-bit number for a run: the same parts give the same number, on any machine."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


# ---- records ---------------------------------------------------------------------------------------------


def record(text: str, now: datetime, folder: str, name: str) -> Parsed:
    """One record of the archive: the file `name` in `folder`, which is <system>/<partition>/<date>/<check>. Raises
    Unreadable; `now` (UTC, naive): the latest valid time.
    """
    try:
        found = parse(text, figures_only=True)
    except RecordError as error:
        raise Unreadable(str(error)) from None
    if why := misplaced(found, folder.split("/"), name):
        raise Unreadable(f"cannot be believed: {why}")
    return parsed(found, now)


def parsed(found: Record, now: datetime) -> Parsed:
    """Rows of one record. Raises Unreadable for an impossible time."""
    time = moment(found.time, now)
    _hold_against_session(time, found.session)
    run = Run(
        identity(
            "record", found.session, found.system, found.partition, found.environ, found.check, found.time,
            found.job.id, ",".join(found.nodes), found.result.started if found.result else None,
        ),
        "record", time, found.session, found.system, found.partition, found.environ, found.check, found.base_check,
        found.mode, found.program, ",".join(found.nodes), found.job.id or "", found.verdict,
        next((f.message for f in found.findings if f.message), "") or found.result_error or "",
    )  # fmt: skip
    if found.result is None:
        return Parsed(run, [], [])
    return Parsed(run, *_points(found, run, found.result))


def _points(found: Record, run: Run, result: Result) -> tuple[list[Point], list[tuple[str, str]]]:
    program = known_program(result.program)
    injected, conditions, parameters = _of_parameters(result, program)
    sound = run.verdict != INVALID and result.status == "ok" and result.verification.passed and not injected
    marks, whole = _fingerprints(result, conditions)
    one = found.nodes[0] if found.nodes else result.node
    node = one if len(found.nodes) < 2 else f"{len(found.nodes)} nodes"
    of_run = (
        run.system, run.partition, run.environ, run.base_check, result.program, found.program_version, parameters,
    )  # fmt: skip
    points, refused = [], []
    # the same for all metrics of a GPU, and for all values of a metric
    slots: dict[tuple[str, int, int | None], tuple[str, str, str, str, tuple[str, ...]]] = {}
    names: dict[str, str] = {}
    for metric in result.metrics:
        if why := _refused(metric):
            refused.append((metric.id, why))
            continue
        judged = found.judgement.judged.get(metric.id)
        verdict = judged.verdict if judged else ""
        subject = metric.subject
        slot = slots.get((subject.kind, subject.first, subject.second))
        if slot is None:
            slot = _slot(subject, marks, whole)
            slots[subject.kind, subject.first, subject.second] = slot
        kind, place, gpu, peer, mark = slot
        name = names.get(metric.name)
        if name is None:
            declared = program.metric_named(metric.name) if program else None
            name = names[metric.name] = declared.name if declared else metric.name
        at = _coordinates(metric.at, program) if metric.at.items_ else ""
        key = SeriesKey(*of_run, name, at, kind, node, gpu, peer)
        points.append(
            Point(
                key, metric.unit, metric.direction, metric.statistic, metric.id, node, place, metric.value,
                metric.best, metric.p5, metric.p95, metric.count, verdict, sound and verdict != INVALID, mark,
            )
        )  # fmt: skip
    return points, refused


def _refused(metric: MetricValue) -> str:
    """Why a value cannot be a row; empty if it can. A value that does not fit its column would block all others."""
    if not math.isfinite(metric.value):
        return f"value {metric.value!r} is not a finite number"
    if not 1 <= metric.count <= MAX_INTEGER:
        return f"count is {metric.count}; allowed: 1 to {MAX_INTEGER}"
    return ""


def _slot(
    subject: Subject, marks: Mapping[int, tuple[str, ...]], whole: tuple[str, ...]
) -> tuple[str, str, str, str, tuple[str, ...]]:
    """For a series: its kind, place, GPU and peer, and the fingerprint of its values."""
    kind, place, gpus = subject.kind, subject.place, subject.gpus
    gpu, peer = (*map(str, gpus), "", "")[:2]
    return place if kind == "ranks" else kind, place, gpu, peer, marks.get(subject.first, whole) if gpus else whole


@lru_cache(maxsize=64)
def known_program(name: str) -> Program | None:
    """A program of the catalogue; None for an unknown one (of another suite, or removed)."""
    try:
        return program(name)
    except CatalogueError:
        return None


def _coordinates(at: Coordinates, program: Program | None) -> str:
    if not program or not program.was:
        return at.text
    return Coordinates.of({program.current_name(k): v for k, v in at.items()}).text


#: Cached by program and text of the parameters, which a check repeats every night: the program, whether a fault was
#: injected, conditions and identity.
_PARAMETERS: dict[tuple[str, str], tuple[Program, bool, str, str]] = {}
_REMEMBERED = 4096


def _of_parameters(result: Result, program: Program | None) -> tuple[bool, str, str]:
    """Whether a fault was injected, with the conditions and the identity."""
    key = (result.program, repr(result.parameters))  # 1, 1.0 and true are equal in Python, but not as texts
    known = _PARAMETERS.get(key)
    if known is not None and known[0] is program:
        return known[1:]
    today = program.parameters_today(result.parameters) if program else result.parameters
    found = today.get("inject_fault") not in NOTHING, _conditions(today, program), _identity(result, program)
    if program is not None and len(_PARAMETERS) < _REMEMBERED:
        _PARAMETERS[key] = (program, *found)
    return found


def _identity(result: Result, program: Program | None) -> str:
    """The identifying parameters, as compact JSON; for an unknown program all except paths."""
    if program is None:
        kept = {k: v for k, v in result.parameters.items() if not _is_path(v)}
    else:
        found = {name: program.parameter(result.parameters, name) for name in program.identity}
        kept = {k: v for k, v in found.items() if v is not None and v != program.identity[k]}
    return _compact(kept)


def _conditions(today: Mapping[str, Any], program: Program | None) -> str:
    """All other parameters, as compact JSON: a changed one is a mark on the series. Paths are left out: they differ in
    every run."""
    if program is None:
        return ""
    kept = {k: v for k, v in today.items() if k not in program.identity and not _is_path(v)}
    return _compact(kept)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and "/" in value


def _fingerprints(result: Result, conditions: str) -> tuple[Mapping[int, tuple[str, ...]], tuple[str, ...]]:
    """Values of FINGERPRINT for each device of a result, by its index, and for all together; empty if not reported."""
    return _of_devices(
        result.host.kernel, result.host.firmware or "", result.version, result.build.compiler, conditions,
        tuple([
            (d.index, d.driver, d.cuda_runtime, d.vbios, d.memory_clock_max_mhz, d.sm_clock_max_mhz, d.uuid)
            for d in result.devices
        ]),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _of_devices(
    kernel: str, firmware: str, revision: str, compiler: str, conditions: str, devices: tuple[tuple[Any, ...], ...]
) -> tuple[Mapping[int, tuple[str, ...]], tuple[str, ...]]:
    def named(devices: Sequence[tuple[Any, ...]]) -> tuple[str, ...]:
        driver, cuda, vbios, memory, sm, uuid = (
            "/".join(dict.fromkeys(str(d[i]) for d in devices if d[i] is not None)) for i in range(1, 7)
        )
        clocks = [f"{title} {mhz} MHz" for title, mhz in (("memory", memory), ("SM", sm)) if mhz]
        parts = [firmware] * bool(firmware) + [f"VBIOS {vbios}"] * bool(vbios)
        return (
            driver, cuda, kernel, ", ".join(parts), ", ".join(clocks), revision, compiler, uuid, conditions,
        )  # fmt: skip

    return {device[0]: named([device]) for device in devices}, named(devices)


def moment(text: str, now: datetime) -> datetime:
    """A time in UTC, naive. Without a zone UTC is assumed. Raises Unreadable for an invalid one."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, AttributeError):
        raise Unreadable(f"time {text!r} is invalid") from None
    if time.tzinfo is not None:
        time = time.astimezone(timezone.utc).replace(tzinfo=None)
    if time.year < _FIRST_YEAR:
        raise Unreadable(f"time {text} is before {_FIRST_YEAR}: a clock was not set")
    if time > now + _AHEAD:
        raise Unreadable(f"time {text} is in the future: a clock is wrong")
    return time


def _hold_against_session(time: datetime, session: str) -> None:
    """Sessions are named by their time; a record from long before its own session was stamped by a clock that
    jumped."""
    begun = _begun(session)
    if begun is not None and not begun - _BEFORE_SESSION <= time <= begun + _AFTER_SESSION:
        raise Unreadable(f"time {time:%Y-%m-%d %H:%M} does not fit its session {session}: a clock jumped")


@lru_cache(maxsize=256)
def _begun(session: str) -> datetime | None:
    """The time in a session's name, None for one with another name. Raises Unreadable for an impossible time."""
    found = re.match(r"(\d{8}T\d{6})Z-", session, re.ASCII)
    try:
        return datetime.strptime(found[1], "%Y%m%dT%H%M%S") if found else None
    except ValueError:
        raise Unreadable(f"session {session[:60]!r} has an impossible time in its name") from None


# ---- performance logs ------------------------------------------------------------------------------------


_VALUE = ("value", "unit", "lower_thres", "upper_thres")
#: A time, or ReFrame's own version, instead of column names.
_NO_HEADER = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:|[^\n]{0,200}?[|,;\t]\s*reframe \d")
_NOTHING = ("null", "None", "")
_UNKNOWN = ("",) * len(FINGERPRINT)


@dataclass(frozen=True)
class Header:
    """The first line of a performance log: the meaning of each column."""

    text: str
    delimiter: str
    columns: tuple[str, ...]
    #: one metric per line (False) or all of a run on one line, as `<name>_value|<name>_unit|...` (True)
    wide: tuple[str, ...]

    @property
    def has_values(self) -> bool:
        """Whether there are any metrics: a log of builds, or of tests that failed earlier, has none."""
        return bool(self.wide) or "perf_value" in self.columns

    def index(self, *names: str) -> int:
        """Column of the first of `names` that exists; -1 for none."""
        return next((self.columns.index(n) for n in names if n in self.columns), -1)


def header(line: str) -> Header:
    """Parses the header of a performance log. Raises Unreadable if it has no value or no time."""
    line = line.rstrip("\r\n")
    if _NO_HEADER.match(line):
        raise Unreadable(
            "begins with a value instead of a header, as logs of ReFrame 3 do: docs/history.md (Logs of ReFrame 3) "
            "has the command that inserts a header"
        )
    delimiter = max("|,;\t", key=line.count)
    # A format with several metrics may have a delimiter at the end of each line.
    columns = tuple(c.strip().removeprefix("check_") for c in line.rstrip(delimiter).split(delimiter))
    wide = () if "perf_value" in columns else tuple(c[:-6] for c in columns if c.endswith("_value") and len(c) > 6)
    out = Header(line, delimiter, columns, wide)
    if ("perf_value" in columns) != ("perf_var" in columns):
        raise Unreadable(f"header has only one of perf_var and perf_value: {line[:120]!r}")
    if out.index("job_completion_time", "job_completion_time_unix") < 0:
        raise Unreadable(f"header has no job_completion_time: {line[:120]!r}")
    return out


class LogReader:
    """Converts lines of one log to (run, point); caches data that repeats from line to line."""

    def __init__(self, head: Header, system: str, partition: str, name: str, now: datetime) -> None:
        self.head, self.now = head, now
        self._where = (system, partition)
        self._name = name
        column = head.index
        self._time = column("job_completion_time", "job_completion_time_unix")
        self._unix = head.columns[self._time] == "job_completion_time_unix"
        self._ids = [
            column("system"), column("partition"), column("environ"), column("display_name", "name", "info"),
            column("jobid"), column("job_nodelist", "nodelist"), column("tenken_session"), column("tenken_verdict"),
            column("result"), column("fail_phase"),
        ]  # fmt: skip
        self._own = column("tenken_session") >= 0
        self._of_run = _getter([self._time, *self._ids])
        self._metric = [column(f"perf_{c}") for c in ("var", *_VALUE)]
        self._wide = [(name, [column(f"{name}_{c}") for c in _VALUE]) for name in head.wide]
        self._last: tuple[Any, Run, bool] | None = None
        # by the key of a series: (name, unit, bounds) -> (series, place, unit, direction)
        self._series: dict[tuple[str, ...], dict[tuple[str, str, str, str], tuple[SeriesKey, str, str, str]]] = {}

    def line(self, text: str) -> list[tuple[Run, Point]]:
        """Rows of one line; none for a line without a value (a build, a failure). Raises Unreadable."""
        cells = text.split(self.head.delimiter)
        expected = len(self.head.columns)
        if len(cells) != expected:
            while len(cells) > expected and not cells[-1].strip():
                cells.pop()
            if len(cells) != expected:
                raise Unreadable(f"{len(cells)} columns where the header has {expected}")
        if self._wide:
            rows = [self._row(cells, name, *columns) for name, columns in self._wide]
            return [row for row in rows if row is not None]
        if not self.head.has_values:
            return []
        row = self._row(cells, cells[self._metric[0]], *self._metric[1:])
        return [] if row is None else [row]

    def _row(self, cells: list[str], name: str, value: int, unit: int, low: int, high: int) -> tuple[Run, Point] | None:
        text = cells[value]
        if text in _NOTHING or name in _NOTHING:
            return None
        try:
            number = float(text)
        except ValueError:
            raise Unreadable(f"value {text[:40]!r} of {name} is not a number") from None
        if not math.isfinite(number):
            raise Unreadable(f"value {text} of {name} is not finite")
        run, sound = self._run(cells)
        mark = (name, _cell(cells, unit), _cell(cells, low), _cell(cells, high))
        of_place = self._series.setdefault((*run[4:9], run.nodes), {})
        found = of_place.get(mark)
        if found is None:
            found = of_place[mark] = self._describe(run, *mark)
        key, place, unit_text, direction = found
        return run, Point(
            key, unit_text, direction, "", name, key.node, place, number, None, None, None, None,
            run.verdict, sound, _UNKNOWN,
        )  # fmt: skip

    def _run(self, cells: list[str]) -> tuple[Run, bool]:
        raw = self._of_run(cells)
        if self._last is not None and self._last[0] == raw:
            return self._last[1], self._last[2]
        when = cells[self._time]
        system, partition, environ, check, job, nodes, session, verdict, result, phase = (
            _cell(cells, c) for c in self._ids
        )
        if self._unix:
            try:
                text = datetime.fromtimestamp(float(when), timezone.utc).isoformat()
            except (ValueError, OverflowError, OSError):
                raise Unreadable(f"time {when[:40]!r} is invalid") from None
        else:
            text = when
        time = moment(text, self.now)
        check = check or self._name
        system, partition = system or self._where[0], partition or self._where[1]
        failed = result.lower() not in ("pass", "p", "")
        verdict = verdict if verdict in VERDICTS else ("FAIL" if failed else "PASS")
        # A value outside its bounds counts; a value of a run that failed before it does not.
        sound = verdict != "INVALID" and not (failed and not self._own and phase not in ("", "performance"))
        run = Run(
            identity("perflog", system, partition, environ, check, when, job, nodes, session),
            "perflog", time, session, system, partition, environ, check, base_name(check), "", "", nodes, job,
            verdict, phase,
        )  # fmt: skip
        self._last = (raw, run, sound)
        return run, sound

    def _describe(self, run: Run, name: str, unit: str, low: str, high: str) -> tuple[SeriesKey, str, str, str]:
        metric, place, at, kind, gpu, peer = name, "", "", "host", "", ""
        if self._own:
            metric, text, coordinates = split_metric_id(name)
            subject = Subject.in_id(text)
            at = _compact(coordinates) if coordinates else ""
            place = subject.place if subject else text or "host"
            if subject is not None and subject.gpus:
                kind, (gpu, peer) = subject.kind, [*map(str, subject.gpus), ""][:2]
        node = short(run.nodes) if not re.search(r"[,\[]", run.nodes) else "several nodes"
        parameters = run.check.partition(" ")[2] if " %" in run.check else ""
        key = SeriesKey(
            run.system, run.partition, run.environ, run.base_check, "", 1, plain_parameters(parameters), metric,
            at, kind, node, gpu, peer,
        )  # fmt: skip
        return key, place, unit, _direction(unit, low, high)


def _getter(columns: Sequence[int]) -> Callable[[list[str]], Any]:
    """Cells of those columns that show whether a line belongs to the same run as the previous line."""
    there = [c for c in columns if c >= 0]
    return operator.itemgetter(*there)


def _cell(cells: Sequence[str], column: int) -> str:
    text = cells[column].strip() if column >= 0 else ""
    return "" if text in _NOTHING else text


def base_name(check: str) -> str:
    """A check's name without its parameters, which include the suffixes of `--repeat` and `--distribute`."""
    return check.split(" ")[0]


def plain_parameters(text: str) -> str:
    """ReFrame's `%a=1 %$nid=n1` without parameters that only repeat or distribute."""
    parts = [p for p in text.split() if p.startswith("%") and not re.match(r"%(?:[.$]|nodelist|repeat)", p)]
    return " ".join(sorted(parts))


def _direction(unit: str, low: str, high: str) -> str:
    """A plain log does not state the direction. A single bound determines it, otherwise the unit (for times, lower is
    better)."""
    if low and not high:
        return "higher"
    if high and not low:
        return "lower"
    return "lower" if _LOWER_IS_BETTER.match(unit) else "higher"
