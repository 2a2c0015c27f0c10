"""From files of the archive to rows of the store: records with their documents, and ReFrame's performance logs.

Pure of the database: each function takes text and gives rows, or raises `Unreadable` with the reason in words.
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

from reports import words
from tenken.archive import RECORD

DOCUMENT = "tenken-result/1"
#: Fields of the environment that a change of a metric may be put down to; an empty one is not known.
FINGERPRINT = ("driver", "cuda", "kernel", "firmware", "clocks", "revision", "compiler")

#: A record may not be older than its session's name says, nor much younger: else a clock jumped.
_BEFORE_SESSION, _AFTER_SESSION = timedelta(hours=1), timedelta(days=14)
_FIRST_YEAR = 2010
#: A time further ahead than this is no time
_AHEAD = timedelta(days=1)
_LOWER_IS_BETTER = re.compile(r"(?i)^(?:[munp]?s|sec|secs|seconds?|minutes?|hours?|[mun]sec|cycles?|J|W|°?C)(?:/|$)")


class Unreadable(Exception):
    """A file or a line that is no row, and why."""


class SeriesKey(NamedTuple):
    """What makes two values comparable: metric x machine x parameters, by node or by GPU.

    A GPU that has a UUID is itself wherever it sits, so its series name no node; a renamed node keeps them.
    """

    system: str
    partition: str
    environ: str
    check: str
    program: str
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
    """One test case of one session: the columns of the table `runs` but for its file."""

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
    """A run with its points, and what of it could not be taken."""

    run: Run
    points: list[Point]
    refused: list[tuple[str, str]]


def identity(*parts: object) -> int:
    """A 63-bit number for a run: the same parts give the same number, on any machine."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


# ---- records ---------------------------------------------------------------------------------------------


def record(text: str, now: datetime) -> Parsed:
    """One record of the archive. Raises Unreadable; `now` (UTC, naive) bounds what can be a time."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"truncated or not JSON ({error})" if text.strip() else "empty") from None
    if not isinstance(raw, dict) or raw.get("record") != RECORD:
        said = raw.get("record") if isinstance(raw, dict) else type(raw).__name__
        raise Unreadable(f"not a {RECORD} file but {said!r}")
    try:
        return _parsed(raw, now)
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"lacks or misshapes {error}") from None


def _parsed(raw: Mapping[str, Any], now: datetime) -> Parsed:
    time = moment(raw["time"], now)
    session = str(raw["session"])
    _hold_against_session(time, session)
    document = raw["document"]
    if document is not None and document.get("schema") != DOCUMENT:
        raise Unreadable(f"its document is {document.get('schema')!r}; this version reads {DOCUMENT}")
    nodes = [str(n) for n in raw.get("nodes") or ()]
    findings = raw["findings"] or ()
    verdict = str(raw["verdict"])
    if verdict not in words.VERDICTS:
        raise Unreadable(f"unknown verdict {verdict!r}; allowed: {', '.join(words.VERDICTS)}")
    check = str(raw["check"])
    run = Run(
        identity(
            "record", session, raw["system"], raw["partition"], raw["environ"], check, raw["time"],
            raw.get("job_id"), ",".join(nodes), (document or {}).get("started"),
        ),
        "record", time, session, str(raw["system"]), str(raw["partition"]), str(raw["environ"]), check,
        str(raw.get("base_check") or check), str(raw.get("mode") or ""),
        str(raw.get("program") or (document or {}).get("program") or ""), ",".join(nodes),
        str(raw.get("job_id") or ""), verdict,
        str(next((f.get("message") for f in findings if f.get("message")), "") or raw.get("document_error") or ""),
    )  # fmt: skip
    if document is None:
        return Parsed(run, [], [])
    points, refused = _points(raw, run, document, nodes)
    return Parsed(run, points, refused)


def _points(
    raw: Mapping[str, Any], run: Run, document: Mapping[str, Any], nodes: Sequence[str]
) -> tuple[list[Point], list[tuple[str, str]]]:
    sound = (
        run.verdict != "INVALID"
        and document["status"] == "ok"
        and bool((document.get("verification") or {}).get("passed", True))
    )
    devices = {d["index"]: d for d in document.get("devices") or ()}
    marks = {index: _fingerprint(document, [device]) for index, device in devices.items()}
    whole = _fingerprint(document, list(devices.values()))
    parameters = _parameters(raw, document)
    judged = raw["judged"] or {}
    host = str((document.get("host") or {}).get("name") or "")
    node = (nodes[0] if nodes else host) if len(nodes) < 2 else f"{len(nodes)} nodes"
    points, refused = [], []
    for metric in document["metrics"]:
        verdict = str((judged.get(metric["id"]) or {}).get("verdict") or "")
        value = metric["value"]
        if not words.is_number(value):
            refused.append((metric["id"], f"value {value!r} is no finite number"))
            continue
        subject = metric["subject"]
        first = subject.get("gpu", subject.get("from"))
        gpu, own, mark = "", node, whole
        peer = ""
        if first is not None:
            gpu = _gpu(devices, first)
            peer = _gpu(devices, subject["to"]) if "to" in subject else ""
            mark = marks.get(first, whole)
            if gpu.startswith("GPU-") and (not peer or peer.startswith("GPU-")):
                own = ""
        kind = "pair" if "from" in subject else next(iter(subject))
        at = metric.get("at")
        key = SeriesKey(
            run.system, run.partition, run.environ, run.base_check, run.program, parameters, metric["name"],
            json.dumps(at, sort_keys=True, separators=(",", ":")) if at else "",
            f"{subject['ranks']} ranks" if kind == "ranks" else kind, own, gpu, peer,
        )  # fmt: skip
        points.append(
            Point(
                key, metric["unit"], metric["direction"], metric["statistic"], metric["id"], node,
                words.subject_words(subject), float(value), metric.get("best"), metric.get("p5"), metric.get("p95"),
                metric.get("count"), verdict, sound and verdict != "INVALID", mark,
            )
        )  # fmt: skip
    return points, refused


def _gpu(devices: Mapping[int, Mapping[str, Any]], index: int) -> str:
    """The UUID of a GPU; its index where it has none."""
    return str((devices.get(index) or {}).get("uuid") or f"index {index}")


def _parameters(raw: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Parameters of the test and of the program as one text; what names a path differs each time and is left out."""
    both = {**(document.get("parameters") or {}), **(raw.get("parameters") or {})}
    kept = {k: v for k, v in both.items() if not (isinstance(v, str) and "/" in v)}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


_DEVICE_MARKS = ("driver", "cuda_runtime", "vbios", "memory_clock_max_mhz", "sm_clock_max_mhz")


def _fingerprint(document: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Values of FINGERPRINT, of some devices of a document; an empty text where the document does not tell."""
    host, build = document.get("host") or {}, document.get("build") or {}
    return _named(
        str(host.get("kernel") or ""),
        str(host.get("firmware") or ""),
        str(document.get("version") or ""),
        str(build.get("compiler") or ""),
        tuple({tuple(d.get(k) for k in _DEVICE_MARKS): None for d in devices}),
    )


@lru_cache(maxsize=4096)
def _named(
    kernel: str, firmware: str, revision: str, compiler: str, devices: tuple[tuple[Any, ...], ...]
) -> tuple[str, ...]:
    driver, cuda, vbios, memory, sm = (
        "/".join(dict.fromkeys(str(d[i]) for d in devices if d[i] is not None)) for i in range(len(_DEVICE_MARKS))
    )
    clocks = [f"{title} {mhz} MHz" for title, mhz in (("memory", memory), ("SM", sm)) if mhz]
    parts = [firmware] * bool(firmware) + [f"VBIOS {vbios}"] * bool(vbios)
    return (driver, cuda, kernel, ", ".join(parts), ", ".join(clocks), revision, compiler)


def moment(text: str, now: datetime) -> datetime:
    """A time in UTC, naive. Without a zone it is taken as UTC. Raises Unreadable for what cannot be one."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, AttributeError):
        raise Unreadable(f"time {text!r} is none") from None
    if time.tzinfo is not None:
        time = time.astimezone(timezone.utc).replace(tzinfo=None)
    if time.year < _FIRST_YEAR:
        raise Unreadable(f"time {text} is before {_FIRST_YEAR}: a clock was not set")
    if time > now + _AHEAD:
        raise Unreadable(f"time {text} is in the future: a clock is wrong")
    return time


def _hold_against_session(time: datetime, session: str) -> None:
    """Sessions are named by their time: a record long before its own session was stamped by a clock that jumped."""
    found = re.match(r"(\d{8}T\d{6})Z-", session)
    if not found:
        return
    begun = datetime.strptime(found[1], "%Y%m%dT%H%M%S")
    if not begun - _BEFORE_SESSION <= time <= begun + _AFTER_SESSION:
        raise Unreadable(f"time {time:%Y-%m-%d %H:%M} does not fit its session {session}: a clock jumped")


# ---- performance logs ------------------------------------------------------------------------------------


_VALUE = ("value", "unit", "lower_thres", "upper_thres")
_NOTHING = ("null", "None", "")
_UNKNOWN = ("",) * len(FINGERPRINT)


@dataclass(frozen=True)
class Header:
    """The first line of a performance log: what each column is."""

    text: str
    delimiter: str
    columns: tuple[str, ...]
    #: one metric a line (False) or all of a run on one line, as `<name>_value|<name>_unit|...` (True)
    wide: tuple[str, ...]

    @property
    def has_values(self) -> bool:
        """Whether there are metrics at all: a log of builds, or of tests that failed before, has none."""
        return bool(self.wide) or "perf_value" in self.columns

    def index(self, *names: str) -> int:
        """Column of the first of `names` that there is; -1 for none."""
        return next((self.columns.index(n) for n in names if n in self.columns), -1)


def header(line: str) -> Header:
    """Understands the header of a performance log. Raises Unreadable where it has no value or no time."""
    line = line.rstrip("\r\n")
    delimiter = max("|,;\t", key=line.count)
    # A format of several metrics may leave a delimiter at the end of each line.
    columns = tuple(c.strip().removeprefix("check_") for c in line.rstrip(delimiter).split(delimiter))
    wide = () if "perf_value" in columns else tuple(c[:-6] for c in columns if c.endswith("_value") and len(c) > 6)
    out = Header(line, delimiter, columns, wide)
    if ("perf_value" in columns) != ("perf_var" in columns):
        raise Unreadable(f"header has only one of perf_var and perf_value: {line[:120]!r}")
    if out.index("job_completion_time", "job_completion_time_unix") < 0:
        raise Unreadable(f"header has no job_completion_time: {line[:120]!r}")
    return out


class LogReader:
    """Turns lines of one log into (run, point); keeps what repeats from line to line."""

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
        # by what a series hangs on: (name, unit, bounds) -> (series, place, unit, direction)
        self._series: dict[tuple[str, ...], dict[tuple[str, ...], tuple[SeriesKey, str, str, str]]] = {}

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
            raise Unreadable(f"value {text[:40]!r} of {name} is no number") from None
        if not math.isfinite(number):
            raise Unreadable(f"value {text} of {name} is not finite")
        run, sound = self._run(cells)
        mark = (
            name,
            cells[unit] if unit >= 0 else "",
            cells[low] if low >= 0 else "",
            cells[high] if high >= 0 else "",
        )
        of_place = self._series.setdefault((*run[4:9], run.nodes), {})
        found = of_place.get(mark)
        if found is None:
            found = of_place[mark] = self._describe(run, name, *(_cell(cells, c) for c in (unit, low, high)))
        key, place, unit_text, direction = found
        return run, Point(
            key, unit_text, direction, "", name, key.node or run.nodes, place, number, None, None, None, None,
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
                raise Unreadable(f"time {when[:40]!r} is none") from None
        else:
            text = when
        time = moment(text, self.now)
        check = check or self._name
        system, partition = system or self._where[0], partition or self._where[1]
        failed = result.lower() not in ("pass", "p", "")
        verdict = verdict if verdict in words.VERDICTS else ("FAIL" if failed else "PASS")
        # A figure outside of its bounds is a figure; one of a run that went wrong before is none.
        sound = verdict != "INVALID" and not (failed and not self._own and phase not in ("", "performance"))
        run = Run(
            identity("perflog", system, partition, environ, check, when, job, nodes, session),
            "perflog", time, session, system, partition, environ, check, base_name(check), "", "", nodes, job,
            verdict, phase,
        )  # fmt: skip
        self._last = (raw, run, sound)
        return run, sound

    def _describe(self, run: Run, name: str, unit: str, low: str, high: str) -> tuple[SeriesKey, str, str, str]:
        metric, place, at, kind, gpu = name, "", "", "host", ""
        if self._own:
            metric, subject, coordinates = words.split_metric_id(name)
            place = words.subject_words(subject)
            at = json.dumps(coordinates, sort_keys=True, separators=(",", ":")) if coordinates else ""
            if place.startswith("GPU"):
                kind, gpu = ("pair" if "→" in place else "gpu"), subject
        node = run.nodes if not re.search(r"[,\[]", run.nodes) else "several nodes"
        parameters = run.check.partition(" ")[2] if " %" in run.check else ""
        key = SeriesKey(
            run.system, run.partition, run.environ, run.base_check, "", plain_parameters(parameters), metric, at,
            kind, node, gpu, "",
        )  # fmt: skip
        return key, place, unit, _direction(unit, low, high)


def _getter(columns: Sequence[int]) -> Callable[[list[str]], Any]:
    """The cells of those columns that there are, to see whether a line is of the same run as the one before."""
    there = [c for c in columns if c >= 0]
    return operator.itemgetter(*there)


def _cell(cells: Sequence[str], column: int) -> str:
    text = cells[column].strip() if column >= 0 else ""
    return "" if text in _NOTHING else text


def base_name(check: str) -> str:
    """A check's name without its parameters: what `--repeat` and `--distribute` append are parameters too."""
    return check.split(" ")[0]


def plain_parameters(text: str) -> str:
    """ReFrame's `%a=1 %$nid=n1` without those that only repeat or distribute."""
    parts = [p for p in text.split() if p.startswith("%") and not re.match(r"%(?:[.$]|nodelist|repeat)", p)]
    return " ".join(sorted(parts))


def _direction(unit: str, low: str, high: str) -> str:
    """A plain log does not say what is better: one bound alone tells, else the unit (times fall)."""
    if low and not high:
        return "higher"
    if high and not low:
        return "lower"
    return "lower" if _LOWER_IS_BETTER.match(unit) else "higher"
