"""The store as arrays: one row per series, one column per night, with the environment of each value."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path

import numpy as np

from tenken.history.detect import Detector, Findings, Settings, state
from tenken.history.record_parser import FINGERPRINT, known_program
from tenken.history.store import NIGHT, Store
from tenken.model.quantities import coordinate


@dataclass(frozen=True)
class Series:
    """One metric of one machine with its parameters, by node or by GPU; `node` and `place` are the last known.

    The fields are columns of the store's table `series`, which SeriesKey defines.
    """

    number: int
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
    place: str
    unit: str
    direction: str
    statistic: str

    @property
    def measure(self) -> str:
        """The measurement without its location; siblings share it."""
        at = ", ".join(f"{k} {v}" for k, v in _pairs(self.coordinates))
        return f"{self.check} {self.metric}" + (f" ({at})" if at else "")

    @property
    def across(self) -> bool:
        """Whether siblings are compared by this metric; yes for an unknown program."""
        known = known_program(self.program)
        about = known.metrics.get(self.metric) if known else None
        return about is None or about.across

    @property
    def where(self) -> str:
        """Node and GPU."""
        place = "" if self.place in ("host", "") else f" {self.place}"
        return f"{self.node or 'any node'}{place}"

    @property
    def siblings(self) -> tuple[str, ...]:
        """Series for which these are the same should have equal values."""
        return (
            self.partition, self.environ, self.check, self.program, str(self.version), self.parameters, self.metric,
            self.coordinates, self.kind, self.unit,
        )  # fmt: skip


def _pairs(coordinates: str) -> list[tuple[str, str]]:
    import json

    return [(k, coordinate(k, v)) for k, v in json.loads(coordinates).items()] if coordinates else []


@dataclass(frozen=True)
class History:
    """All series of one system: arrays have shape (series, nights).

    `values` is the median of a night's valid values, NaN if there is none; `fingerprints`: the index of the last
    fingerprint of a night, -1 if there is none; `invalid` whether a night had invalid values.
    """

    system: str
    series: list[Series]
    nights: list[date]
    values: np.ndarray
    fingerprints: np.ndarray
    invalid: np.ndarray
    environments: dict[int, tuple[str, ...]]
    #: relative standard error of each value from its own samples, NaN if unknown
    errors: np.ndarray | None = None
    #: by factor (switch, rack), the group of a node
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def higher(self) -> np.ndarray:
        """Direction of each series."""
        return np.array([s.direction == "higher" for s in self.series], dtype=bool)

    def fingerprint(self, row: int, night: int) -> dict[str, str]:
        """The environment of a series on a night by field; empty without a run."""
        number = int(self.fingerprints[row, night])
        return dict(zip(FINGERPRINT, self.environments.get(number, ()), strict=False))


#: Standard error of a median, 1.2533 s / sqrt(n), with s from the middle nine tenths of the samples, relative to the
#: value.
_ERROR = "CASE WHEN count > 1 AND value <> 0 THEN 1.2533 * (p95 - p5) / 3.29 / sqrt(count) / abs(value) END"


def systems(store: Store) -> list[str]:
    """Systems that have values, sorted."""
    return [r[0] for r in store.rows("SELECT DISTINCT system FROM series SEMI JOIN points USING (series) ORDER BY 1")]


def load(store: Store, system: str, until: date | None = None) -> History:
    """The history of a system up to a night. Raises StoreError."""
    condition = f"series IN (SELECT series FROM series WHERE system = ?) AND {NIGHT} <= ?"
    arguments = [system, until or date(9999, 1, 1)]
    last_known = {"number": "series", "node": "coalesce(nullif(p.node, ''), s.node)", "place": "p.place"}
    columns = ", ".join(last_known.get(f.name, f's."{f.name}"') for f in fields(Series))
    rows = store.rows(
        f"SELECT {columns} FROM series s JOIN "
        "(SELECT series, arg_max(node, time) AS node, arg_max(place, time) AS place FROM points "
        f"WHERE {condition} GROUP BY series) p USING (series) ORDER BY series",
        arguments,
    )
    series = [Series(*row) for row in rows]
    found = store.columns(
        f"SELECT series, {NIGHT} AS night, median(value) FILTER (valid) AS value, bool_or(NOT valid) AS invalid, "
        f"median({_ERROR}) FILTER (valid) AS error, "
        f"arg_max(fingerprint, time) AS fingerprint FROM points WHERE {condition} GROUP BY ALL",
        arguments,
    )
    when = np.asarray(found["night"]).astype("datetime64[D]")
    every, column = np.unique(when, return_inverse=True)
    row = np.searchsorted([s.number for s in series], np.asarray(found["series"]))
    shape = (len(series), len(every))
    values, fingerprints, invalid = np.full(shape, np.nan), np.full(shape, -1), np.zeros(shape, bool)
    errors = np.full(shape, np.nan)
    errors[row, column] = np.ma.filled(np.ma.asarray(found["error"], dtype=float), np.nan)
    values[row, column] = np.ma.filled(np.ma.asarray(found["value"], dtype=float), np.nan)
    fingerprints[row, column] = found["fingerprint"]
    invalid[row, column] = found["invalid"]
    known = {r[0]: tuple(r[1:]) for r in store.rows("SELECT * FROM fingerprints")}
    return History(system, series, every.tolist(), values, fingerprints, invalid, known, errors)


def judge(history: History, settings: Settings, kept: Path | None = None, notices: list[str] | None = None) -> Findings:
    """Judges every night of every series; with `kept`, only those that are newer than the state stored there.

    The state is that before the last night, so that an unfinished night is judged again. A file is not used if it is
    for other series, other nights or another version of the detector. Nor is one that is damaged or writable by others;
    `notices` reports those.
    """
    last = len(history.nights) - 1
    detector, done = _recall(history, settings, kept, last, [] if notices is None else notices)
    for night in range(done, last):
        detector.advance(history.values[:, night], _errors(history, night))
    if kept is not None and done < last:
        with contextlib.suppress(OSError):  # without a stored state the next run only takes longer
            state.write(kept, _mark(history, settings, last), last, detector)
    if last >= 0:
        detector.advance(history.values[:, last], _errors(history, last))
    return detector.findings()


def _errors(history: History, night: int) -> np.ndarray | None:
    return None if history.errors is None else history.errors[:, night]


def _recall(
    history: History, settings: Settings, kept: Path | None, last: int, notices: list[str]
) -> tuple[Detector, int]:
    if kept is not None:
        detector = Detector(history.higher, settings)
        try:
            done = state.read(kept, detector, last, lambda nights: _mark(history, settings, nights))
        except state.StateError as error:
            notices.append(f"{kept} {error}: all nights are judged again, and it is rewritten")
        else:
            if done is not None:
                return detector, done
    return Detector(history.higher, settings), 0


def _mark(history: History, settings: Settings, nights: int) -> str:
    """A digest of everything that determines the state after this many nights."""
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=16)
    digest.update(_code())
    digest.update(np.array([s.number for s in history.series]).tobytes())
    digest.update(repr(history.nights[:nights]).encode())
    digest.update(np.ascontiguousarray(history.values[:, :nights]).tobytes())
    if history.errors is not None:
        digest.update(np.ascontiguousarray(history.errors[:, :nights]).tobytes())
    return digest.hexdigest()


def _code() -> bytes:
    folder = Path(inspect.getfile(Detector)).parent
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))
