"""The store: one DuckDB file with one row per metric value, derived from the archive and reproducible at any time.

The store is an index of the archive: samples remain there, and a lost store is recreated by
`tenken ingest`. One process writes at a time (a lock next to the file; others wait), in transactions, so that a kill
loses nothing that was committed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenken.errors import TenkenError
from tenken.history.record_parser import FINGERPRINT, Parsed, Point, Run, SeriesKey
from tenken.paths import ROOT

if TYPE_CHECKING:
    import pandas

#: Version of the tables below; a store with a higher one was written by a newer tenken.
VERSION = 4
#: A night is named by the UTC date on which it began; runs from noon to noon belong to it.
NIGHT = "CAST(time - INTERVAL 12 HOUR AS DATE)"
#: Memory limit of DuckDB; Python needs some hundred MB in addition
MEMORY, THREADS = "1GB", 2

_TABLES = f"""
CREATE TABLE meta (key VARCHAR, value VARCHAR);
CREATE TABLE runs (run BIGINT, kind VARCHAR, time TIMESTAMP, session VARCHAR, system VARCHAR, partition VARCHAR,
    environ VARCHAR, "check" VARCHAR, base_check VARCHAR, mode VARCHAR, program VARCHAR, nodes VARCHAR, job_id VARCHAR,
    verdict VARCHAR, reason VARCHAR, file VARCHAR);
CREATE TABLE series (series INTEGER, system VARCHAR, partition VARCHAR, environ VARCHAR, "check" VARCHAR,
    program VARCHAR, version INTEGER, parameters VARCHAR, metric VARCHAR, coordinates VARCHAR, kind VARCHAR,
    node VARCHAR, gpu VARCHAR, peer VARCHAR, unit VARCHAR, direction VARCHAR, statistic VARCHAR);
CREATE TABLE fingerprints (fingerprint INTEGER, {", ".join(f"{f} VARCHAR" for f in FINGERPRINT)});
CREATE TABLE points (run BIGINT, series INTEGER, fingerprint INTEGER, time TIMESTAMP, id VARCHAR, node VARCHAR,
    place VARCHAR, value DOUBLE, best DOUBLE, p5 DOUBLE, p95 DOUBLE, count INTEGER, verdict VARCHAR, valid BOOLEAN);
CREATE TABLE refused (run BIGINT, series INTEGER, time TIMESTAMP, file VARCHAR, id VARCHAR, reason VARCHAR);
CREATE TABLE files (folder VARCHAR, name VARCHAR, status VARCHAR, reason VARCHAR, size BIGINT, mtime BIGINT);
CREATE TABLE folders (folder VARCHAR, mtime BIGINT);
CREATE TABLE logs (path VARCHAR, inode BIGINT, head VARCHAR, "offset" BIGINT, line BIGINT, bad BIGINT, reason VARCHAR);
CREATE VIEW history AS SELECT p.time, {NIGHT.replace("time", "p.time")} AS night, s.system, s.partition, s.environ,
    s."check", s.program, s.version, s.parameters, s.metric, s.coordinates, s.kind, p.node, p.place, s.gpu, s.peer,
    p.value, s.unit, s.direction, s.statistic, p.best, p.p5, p.p95, p.count,
    r.verdict AS run_verdict, p.verdict, p.valid,
    r.session, r.mode, {", ".join(f"f.{field}" for field in FINGERPRINT)}, p.id, r.file, p.series, p.run
    FROM points p JOIN series s USING (series) JOIN runs r USING (run) JOIN fingerprints f USING (fingerprint);
CREATE VIEW series_with_predecessor AS SELECT s.*, (SELECT arg_max(b.series, b.version) FROM series b
    WHERE b.version < s.version AND b.system = s.system AND b.partition = s.partition AND b.environ = s.environ
    AND b."check" = s."check" AND b.program = s.program AND b.parameters = s.parameters AND b.metric = s.metric
    AND b.coordinates = s.coordinates AND b.kind = s.kind AND b.node = s.node AND b.gpu = s.gpu AND b.peer = s.peer)
    AS predecessor FROM series s;
"""


#: numpy's type for values of a column. Integers that a column cannot hold are left to DuckDB, which refuses them.
_ARRAYS = {
    "VARCHAR": "object", "BIGINT": "int64", "INTEGER": "int64", "DOUBLE": "float64", "TIMESTAMP": "datetime64[us]",
    "BOOLEAN": "bool",
}  # fmt: skip
_PACKED = {"int64": "q", "float64": "d"}
_EPOCH = datetime(1970, 1, 1)


class StoreError(TenkenError):
    """The store cannot be read or written; one line states the reason and the remedy."""


def default_path(archive: Path) -> Path:
    """Location of an archive's store: in the checkout, named by the archive's path, never inside the archive."""
    resolved = archive.resolve()
    mark = hashlib.blake2b(str(resolved).encode(), digest_size=4).hexdigest()
    return ROOT / "output" / "history" / f"{resolved.name}-{mark}.duckdb"


@contextlib.contextmanager
def locked(path: Path, wait: float = 600.0) -> Iterator[None]:
    """Hold the store's lock. Raises StoreError if another process holds it for `wait` seconds."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(path.with_name(path.name + ".lock"), "a")  # noqa: SIM115
    except OSError as error:
        raise StoreError(f"{path}: cannot write the store: {error.strerror}; choose another with --store") from error
    with handle:
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StoreError(f"{path}: another process has held the store for {wait:.0f} s") from None
                time.sleep(0.2)
            except OSError as error:
                raise StoreError(
                    f"{path}: this file system does not support locks ({error.strerror}); put the store elsewhere "
                    f"with --store"
                ) from error
        yield


class Store:
    """An open store. Use `open_store`, which locks it."""

    def __init__(self, connection: Any, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.series: dict[SeriesKey, tuple[int, str, str, str]] = {}
        self.fingerprints: dict[tuple[str, ...], int] = {}
        self._new_series: list[tuple[Any, ...]] = []
        self._new_fingerprints: list[tuple[Any, ...]] = []
        #: name and numpy's type of each column of a table
        self._kinds: dict[str, list[tuple[str, str]]] = {}

    # -- caches

    def load_keys(self) -> None:
        """Load series and fingerprints into memory, for a writer."""
        columns = ", ".join(f'"{name}"' for name in SeriesKey._fields)
        for row in self.rows(f"SELECT series, unit, direction, statistic, {columns} FROM series"):
            self.series[SeriesKey(*row[4:])] = (row[0], row[1], row[2], row[3])
        for row in self.rows("SELECT * FROM fingerprints"):
            self.fingerprints[tuple(row[1:])] = row[0]

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer to a query. Raises StoreError."""
        with _errors(self.path):
            return self.connection.execute(query, list(parameters)).fetchall()

    def frame(self, query: str, parameters: Sequence[Any] = ()) -> pandas.DataFrame:
        """The answer to a query as a pandas frame. Raises StoreError."""
        with _errors(self.path):
            return self.connection.execute(query, list(parameters)).df()

    def columns(self, query: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """The answer to a query as numpy arrays by column (masked where there are NULLs)."""
        with _errors(self.path):
            return self.connection.execute(query, list(parameters)).fetchnumpy()

    # -- writing

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; this includes the caches in memory. Raises StoreError (such as for a full disk)."""
        with _errors(self.path):
            self.connection.execute("BEGIN")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):
                    self.connection.execute("ROLLBACK")
                raise

    def series_of(self, key: SeriesKey, unit: str, direction: str, statistic: str) -> tuple[int, str]:
        """Number of a series, and why a value in this unit cannot be added to it (empty if it can)."""
        known = self.series.get(key)
        if known is None:
            number = len(self.series)
            self.series[key] = (number, unit, direction, statistic)
            self._new_series.append((number, *key, unit, direction, statistic))
            return number, ""
        number, *was = known
        stated = [unit, direction, statistic]
        if was == stated:
            return number, ""
        names = ("unit", "direction", "statistic")
        changed = [
            f"{n} is {b!r} where the series has {a!r}" for n, a, b in zip(names, was, stated, strict=True) if a != b
        ]
        return number, "; ".join(changed) + ": not mixed; give the metric another name"

    def fingerprint_of(self, values: tuple[str, ...]) -> int:
        """Number of a fingerprint."""
        known = self.fingerprints.get(values)
        if known is None:
            known = self.fingerprints[values] = len(self.fingerprints)
            self._new_fingerprints.append((known, *values))
        return known

    def insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Append rows, in the table's order of columns."""
        if rows:
            self.connection.register("incoming", self._arrays(table, rows))
            self.connection.execute(f"INSERT INTO {table} SELECT * FROM incoming")
            self.connection.unregister("incoming")

    def _arrays(self, table: str, rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
        """Rows as one array for each column of a table. DuckDB reads them without pandas, whose import alone takes as
        long as some hundred records.
        """
        kinds = self._kinds.get(table)
        if kinds is None:
            found = self.connection.execute(f"DESCRIBE {table}").fetchall()
            kinds = self._kinds[table] = [(row[0], _ARRAYS[row[1]]) for row in found]
        columns = zip(*rows, strict=True)
        return {name: _array(values, kind) for (name, kind), values in zip(kinds, columns, strict=True)}

    def flush_keys(self) -> None:
        """Write new series and fingerprints; to be called within the transaction that uses them."""
        self.insert("series", self._new_series)
        self.insert("fingerprints", self._new_fingerprints)
        self._new_series, self._new_fingerprints = [], []

    def insert_records(self, parsed: Sequence[tuple[Parsed, str]]) -> set[int]:
        """Add runs with their points; returns the indices of those that already existed (duplicates)."""
        duplicate = self._known_runs([p.run.run for p, _ in parsed])
        refused: list[tuple[Any, ...]] = []
        points: list[tuple[Any, ...]] = []
        runs, seen, double = [], set(), set()
        for index, (one, file) in enumerate(parsed):
            if one.run.run in duplicate or one.run.run in seen:
                double.add(index)
                continue
            seen.add(one.run.run)
            runs.append((*one.run, file))
            refused += [(one.run.run, None, one.run.time, file, metric, why) for metric, why in one.refused]
            for point in one.points:
                self._add(one.run, point, file, points, refused)
        self.flush_keys()
        self.insert("runs", runs)
        self.insert("points", points)
        self.insert("refused", refused)
        # Log lines of these runs, added before their records, are duplicates.
        sessions = sorted({r[3] for r in runs if r[3]})
        if sessions:
            self.drop_logged_twice(sessions)
        return double

    def _add(
        self, run: Run, point: Point, file: str, points: list[tuple[Any, ...]], refused: list[tuple[Any, ...]]
    ) -> None:
        """Append the row of a value to `points`, or to `refused` if its series is in another unit."""
        (
            key, unit, direction, statistic, id_, node, place, value, best, p5, p95, count, verdict, valid, mark,
        ) = point  # fmt: skip
        number, why = self.series_of(key, unit, direction, statistic)
        if why:
            refused.append((run.run, number, run.time, file, id_, why))
            return
        fingerprint = self.fingerprint_of(mark)
        points.append(
            (run.run, number, fingerprint, run.time, id_, node, place, value, best, p5, p95, count, verdict, valid)
        )

    def _known_runs(self, runs: list[int]) -> set[int]:
        self.connection.register("incoming", {"run": _array(runs, "int64")})
        found = self.connection.execute("SELECT run FROM runs SEMI JOIN incoming USING (run)").fetchall()
        self.connection.unregister("incoming")
        return {row[0] for row in found}

    def insert_logged(self, rows: list[tuple[Run, Point]], file: str) -> int:
        """Add lines of a performance log that are not yet stored, from it or as a record; returns their number."""
        runs: dict[int, tuple[Any, ...]] = {}
        points: list[tuple[Any, ...]] = []
        refused: list[tuple[Any, ...]] = []
        for run, point in rows:
            if run.run not in runs:
                runs[run.run] = (*run, file)
            self._add(run, point, file, points, refused)
        self.flush_keys()
        if not runs:
            return 0
        execute = self.connection.execute
        self.connection.register("found_runs", self._arrays("runs", runs.values()))
        execute(
            "CREATE OR REPLACE TEMP TABLE fresh AS SELECT * FROM found_runs ANTI JOIN (SELECT session, system, "
            "partition, environ, \"check\" FROM runs WHERE kind = 'record' AND session <> '') "
            'USING (session, system, partition, environ, "check")'
        )
        self.connection.unregister("found_runs")
        added = 0
        if points:
            self.connection.register("found", self._arrays("points", points))
            added = execute(
                "INSERT INTO points SELECT DISTINCT ON (run, series) found.* FROM found SEMI JOIN fresh USING (run) "
                "ANTI JOIN (SELECT run, series FROM points SEMI JOIN fresh USING (run)) old USING (run, series)"
            ).fetchone()[0]
            self.connection.unregister("found")
        if refused:
            self.connection.register("found", self._arrays("refused", refused))
            execute(
                "INSERT INTO refused SELECT DISTINCT ON (run, id) found.* FROM found SEMI JOIN fresh USING (run) "
                "ANTI JOIN (SELECT run, id FROM refused) old USING (run, id)"
            )
            self.connection.unregister("found")
        execute("INSERT INTO runs SELECT fresh.* FROM fresh ANTI JOIN (SELECT run FROM runs) old USING (run)")
        return int(added)

    def drop_logged_twice(self, sessions: Sequence[str]) -> None:
        """Remove lines of performance logs whose run is stored as a record."""
        twice = (
            'SELECT l.run FROM runs l JOIN runs r USING (session, system, partition, environ, "check") '
            "WHERE l.kind = 'perflog' AND r.kind = 'record' AND session IN (SELECT unnest(?))"
        )
        found = [row[0] for row in self.connection.execute(twice, [list(sessions)]).fetchall()]
        if found:
            for table in ("points", "refused", "runs"):
                self.connection.execute(f"DELETE FROM {table} WHERE run IN (SELECT unnest(?))", [found])

    # -- export

    def export(self, target: Path) -> int:
        """Write the view `history` to a .parquet or .csv file; returns the number of rows. Raises StoreError."""
        formats = {".parquet": "(FORMAT parquet, COMPRESSION zstd)", ".csv": "(FORMAT csv, HEADER)"}
        if target.suffix not in formats:
            raise StoreError(f"{target}: cannot export to '{target.suffix}'; allowed: {', '.join(formats)}")
        temporary = target.with_name(f".tmp-{target.name}")
        name = str(temporary).replace("'", "''")
        with _errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            count = self.connection.execute(
                f"COPY (SELECT * FROM history ORDER BY time, series) TO '{name}' {formats[target.suffix]}"
            ).fetchone()[0]
            temporary.replace(target)
        return int(count)


def _array(values: Sequence[Any], kind: str) -> Any:
    """Values of a column as a numpy array, masked where they are None; numpy itself takes five times as long for
    numbers and times.
    """
    import numpy as np

    if kind in _PACKED:
        with contextlib.suppress(struct.error):  # None, or beyond 64 bits
            return np.frombuffer(struct.pack(f"{len(values)}{_PACKED[kind]}", *values), kind)
    if kind == "datetime64[us]":
        since = {time: (time - _EPOCH) // timedelta(microseconds=1) for time in set(values)}
        return np.array([since[time] for time in values], dtype="int64").view(kind)
    if kind == "object" or None not in values:
        return np.array(values, dtype=kind)
    none = [value is None for value in values]
    return np.ma.masked_array(np.array([0 if value is None else value for value in values], dtype=kind), none)


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise StoreError(f"{path}: {' '.join(str(error).split())[:300]}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


@contextlib.contextmanager
def open_store(path: Path, archive: Path, wait: float = 600.0) -> Iterator[Store]:
    """The store at `path` of the archive, created if missing, locked while it is open.

    Raises StoreError: locked for `wait` seconds, written by a newer tenken, damaged, of another archive.
    """
    try:
        import duckdb
    except ImportError as error:
        raise StoreError(f"the history needs DuckDB ({error}); install tenken[reports]") from None
    with locked(path, wait):
        new = not path.exists()
        try:
            with _errors(path):
                connection = duckdb.connect(str(path), config={"memory_limit": MEMORY, "threads": THREADS})
        except StoreError:  # on a full disk: what was begun is no store, and no later night could open it
            if new:
                path.unlink(missing_ok=True)
            raise
        try:
            with _errors(path):
                connection.execute("SET preserve_insertion_order = false")
                _prepare(connection, path, archive.resolve())
            yield Store(connection, path)
        finally:
            with _errors(path):
                connection.close()


def _prepare(connection: Any, path: Path, archive: Path) -> None:
    import duckdb

    try:
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    except duckdb.CatalogException:  # a new file; a list of its tables would take a third of the time to open it
        connection.execute("BEGIN")
        connection.execute(_TABLES)
        connection.execute("INSERT INTO meta VALUES ('version', ?), ('archive', ?)", [str(VERSION), str(archive)])
        connection.execute("COMMIT")
        return
    version = int(meta.get("version", 0))
    if version > VERSION:
        raise StoreError(
            f"{path}: written by a newer tenken (store version {version}, this one reads {VERSION}): "
            "update tenken, or choose another store with --store"
        )
    if version < VERSION:  # an index of the archive: created again
        connection.execute("BEGIN")
        for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
            connection.execute(f"DROP VIEW {name}")
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"DROP TABLE {name}")
        connection.execute(_TABLES)
        connection.execute("INSERT INTO meta VALUES ('version', ?), ('archive', ?)", [str(VERSION), str(archive)])
        connection.execute("COMMIT")
        return
    if meta.get("archive") != str(archive):
        raise StoreError(
            f"{path}: is the store of {meta.get('archive')}, not of {archive}; choose another with --store, or "
            f"delete it"
        )
