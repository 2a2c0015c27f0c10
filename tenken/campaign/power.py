"""The power that nodes draw while their checks run, read from their BMCs, as a record of each node.

The series is a file of lines, one for each node and reading. Readings are assigned to checks by the checks' times, so
that a clause can limit the power of a node during one check: metric `bmc.power`, at {during: CHECK}.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken.archive import records as archive
from tenken.archive import seal
from tenken.campaign import redfish
from tenken.judge import rejudge
from tenken.model import catalogue, result
from tenken.model.job import short
from tenken.model.record import Job, Record
from tenken.model.request import Request
from tenken.parsers.foreign import document, metric

PROGRAM, METRIC, CHECK, DURING = "bmc", "power", "NodePower", "during"
#: With fewer readings of a node during a check, its power is unknown.
LEAST = 3
#: Seconds between two readings of a node, and maximum duration of one.
PERIOD_S, ONE_S = 10.0, 20.0
_AT_ONCE = 32
_NO_LIMIT = "none: power supplies are redundant; what a node may draw is agreed"
_READ = f"at least {LEAST} readings during each check"

#: Its meaning, as in a metrics.yaml.
DECLARED: Mapping[str, Any] = {
    "program": PROGRAM, "title": "What the BMC of a node reports", "section": "docs/campaign.md", "version": 1,
    "identity": [], "key": [METRIC],
    "metrics": {METRIC: {
        "title": "Power of the node", "unit": "W", "direction": "lower", "statistic": "p95", "per": ["host"],
        "limit": _NO_LIMIT, "plot": "bars", "min_count": LEAST, "across": False,
    }},
    "points": [{"metrics": [METRIC], "at": {DURING: "own"}}],
    "verifications": [{"what": _READ, "of": [METRIC], "tolerance": 0, "count": 0}],
}  # fmt: skip
catalogue.declare(DECLARED, CHECK)


class Watch:
    """Reads the power of `nodes()` every `period` seconds, in a thread, and appends lines to `file`.

    `bmc` makes the connection to a node's BMC. What cannot be read is left out: without readings a clause is not
    tested. `said` is called once with the first failure.
    """

    def __init__(
        self, nodes: Callable[[], Iterable[str]], bmc: Callable[[str], redfish.Bmc], file: Path,
        said: Callable[[str], None], period: float = PERIOD_S,
    ) -> None:  # fmt: skip
        self.nodes, self.bmc, self.file, self.said, self.period = nodes, bmc, file, said, period
        self.places: dict[str, tuple[str, ...]] = {}
        self._complained = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(2 * ONE_S)

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while not self._over.is_set():
                begin = time.monotonic()
                with contextlib.suppress(RuntimeError):  # the nodes changed while they were listed
                    self._note([line for line in pool.map(self._read, list(self.nodes())) if line])
                self._over.wait(max(0.0, begin + self.period - time.monotonic()))

    def _read(self, node: str) -> str:
        if self._over.is_set():
            return ""
        try:
            watts, self.places[node] = redfish.power(self.bmc(node), self.places.get(node, ()))
        except redfish.BmcError as error:
            self._complain(f"{node}: {error}")
            return ""
        moment = datetime.now(timezone.utc)
        return json.dumps({"time": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "node": node, "power_w": watts})

    def _note(self, lines: Sequence[str]) -> None:
        if lines:
            try:
                with self.file.open("a", encoding="utf-8") as stream:
                    stream.write("".join(f"{line}\n" for line in lines))
            except OSError as error:
                self._complain(f"{self.file}: {error.strerror}")

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            self.said(f"the power of nodes is not read: {what}")


def series(file: Path) -> dict[str, list[tuple[float, float]]]:
    """The readings by node (its short name): seconds since 1970 and W. Lines that are not readings are left out."""
    found: dict[str, list[tuple[float, float]]] = {}
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            one = json.loads(line)
            if "power_w" in one:
                found.setdefault(short(one["node"]), []).append((_seconds(one["time"]), float(one["power_w"])))
    return found


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def archived(root: Path, sessions: Iterable[str], file: Path) -> int:
    """Archive a record of each node that was read during a check of these sessions and has none yet; returns the number
    of records.

    Raises ArchiveError where the archive cannot be written.
    """
    read = series(file)
    count = 0
    for name in dict.fromkeys(sessions) if read else ():
        kept = list(archive.records(root, session=name, figures_only=True))
        done = {node for one in kept if one.program == PROGRAM for node in one.nodes}
        for record in _of_session([one for one in kept if one.program != PROGRAM], read, done):
            archive.write(record, root)
            count += 1
    return count


def _of_session(
    kept: Sequence[Record], read: Mapping[str, list[tuple[float, float]]], done: set[str]
) -> Iterator[Record]:
    """A record of each node that is not in `done` and was read during a check; the checks' results give the times."""
    during: dict[str, dict[str, list[float]]] = {}
    of: dict[str, tuple[str, Record]] = {}
    for one in kept:
        if one.result is None:
            continue
        begin, end = (moment or math.nan for moment in one.result.moments)
        for node in one.nodes or (one.result.node,):
            if node in done:
                continue
            inside = [watts for moment, watts in read.get(node, ()) if begin <= moment <= end]
            during.setdefault(node, {}).setdefault(one.base_check, []).extend(inside)
            # the node's name in its other records
            of[node] = (one.result.node if len(one.nodes) < 2 else node, one)
    for node, checks in during.items():
        enough = {check: watts for check, watts in checks.items() if len(watts) >= LEAST}
        if enough:
            yield _record(*of[node], enough)


def _record(node: str, last: Record, checks: Mapping[str, Sequence[float]]) -> Record:
    metrics = [
        metric(METRIC, {"host": 0}, "W", "lower", watts, "p95", **{DURING: check})
        for check, watts in sorted(checks.items())
    ]
    verified = [{"what": _READ, "error": 0.0, "tolerance": 0.0, "passed": True}]
    made = document(PROGRAM, "redfish", "1", ["Redfish"], node, [node], 1, {}, metrics, verified, _NO_LIMIT)
    found = result.parse(json.dumps(made), CHECK)
    request = Request(None, PROGRAM, CHECK, ("host",), (METRIC,), foreign=True, mode=last.mode, declared=DECLARED)
    record = Record(
        session=last.session, time=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}", system=last.system,
        partition=last.partition, environ=last.environ, check=CHECK, base_check=CHECK, parameters={}, mode=last.mode,
        program=PROGRAM, program_version=1, subjects=("host",), nodes=(node,),
        job=Job(facts={"sha256": {"result.json": seal.sha256(found.text.encode())}}),
        judgement=last.judgement, request=request, result=found,
    )  # fmt: skip
    return Record(**{**vars(record), "judgement": rejudge.of_record(record)})
