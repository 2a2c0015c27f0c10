"""`tenken ingest`: adds new records of the archive to the store; unreadable files are listed and do not stop it.

Nothing is read twice: a folder whose modification time is known has nothing new, folders of old dates are skipped, and
reading of a performance log continues at the last position.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tenken.archive import packed
from tenken.archive.records import SESSIONS
from tenken.errors import TenkenError
from tenken.history import record_parser as reading
from tenken.history.store import Store, default_path, open_store
from tenken.model.files import FileError, read_text
from tenken.model.record import MAX_RECORD_BYTES
from tenken.paths import archive_root

#: Number of documents and log lines per transaction
BATCH, LINES = 2000, 50_000
#: Folders older than the newest date by more than this are not examined, unless they changed themselves.
OPEN_DAYS = 31
#: A folder that changed within this many nanoseconds may change again with the same modification time.
_TICK = 2_000_000_000
_SHOWN = 20
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}$")
_LOG = re.compile(r"(.+)\.log(?:\.h\d+)?$")


class NoArchive(TenkenError):
    """There is nothing to read."""


@dataclass
class Ingested:
    """The result of one pass. `bad` has (file, reason) of new unreadable files, `known_bad` of all of them."""

    records: int = 0
    points: int = 0
    lines: int = 0
    duplicates: int = 0
    folders: int = 0
    seconds: float = 0.0
    bad: list[tuple[str, str]] = field(default_factory=list)
    known_bad: int = 0
    refused: int = 0

    @property
    def text(self) -> str:
        """One line for display."""
        parts = [f"{self.records} records", f"{self.lines} log lines", f"{self.points} new values"]
        if self.duplicates:
            parts.append(f"{self.duplicates} duplicates")
        if self.known_bad:
            parts.append(f"{self.known_bad} files or lines that cannot be read")
        if self.refused:
            parts.append(f"{self.refused} values refused")
        return f"{', '.join(parts)} in {self.seconds:.1f} s"


def register(subparsers: Any) -> None:
    """Adds the subcommand `ingest` to the `tenken` command."""
    parser = subparsers.add_parser(
        "ingest",
        help="ingest what is new in the archive into the history store",
        description="Reads new records and performance logs (also rotated ones and those of other ReFrame suites) into "
        "one DuckDB file. Exit status: 0; 3 if there is no archive or something in it cannot be read.",
    )
    add_archive(parser)
    parser.add_argument(
        "--all", action="store_true", help=f"also search folders whose date is older than {OPEN_DAYS} days"
    )
    parser.add_argument("--export", type=Path, metavar="FILE", help="write all values to FILE.parquet or FILE.csv")
    parser.set_defaults(func=run)


def add_archive(parser: argparse.ArgumentParser) -> None:
    """The options common to all commands on the history: archive and store."""
    parser.add_argument(
        "--archive",
        type=packed.argument,
        metavar="DIR",
        help="archive to read, a folder or a .tar.xz of one (default: $TENKEN_ARCHIVE, else perflogs/)",
    )
    parser.add_argument(
        "--store", type=Path, metavar="FILE", help="the store (default: output/history/<archive>.duckdb)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken ingest`; returns its exit status."""
    archive = arguments.archive or archive_root()
    try:
        with open_store(store_of(arguments), require(archive)) as store:
            found = ingest(store, archive, every=arguments.all)
            exported = store.export(arguments.export) if arguments.export else None
    except NoArchive as error:
        print(f"tenken ingest: {error}")
        return 3
    print(f"Ingested {archive}: {found.text}")
    for file, reason in found.bad[:_SHOWN]:
        print(f"BAD: {file}: {reason}")
    if len(found.bad) > _SHOWN:
        print(f"... and {len(found.bad) - _SHOWN} more; the store's table `files` has them all")
    if exported is not None:
        print(f"Exported {exported} values to {arguments.export}")
    return 3 if found.bad else 0


def store_of(arguments: argparse.Namespace) -> Path:
    """The store given by the options."""
    return arguments.store or default_path(arguments.archive or archive_root())


def require(archive: Path) -> Path:
    """The archive. Raises NoArchive if it is not a directory."""
    if not archive.is_dir():
        raise NoArchive(f"no archive at {archive}: name the folder of the archive with --archive")
    return archive


def ingest(store: Store, archive: Path, every: bool = False, now: datetime | None = None) -> Ingested:
    """Add new records to the store. Raises StoreError if it cannot be written; invalid input raises nothing."""
    begin = time.monotonic()
    pass_ = _Pass(store, archive, now or datetime.now(timezone.utc).replace(tzinfo=None))
    pass_.folders(every)
    pass_.logs()
    out = pass_.out
    bad_files, bad_lines, refused = store.rows(
        "SELECT (SELECT count(*) FROM files WHERE status = 'bad'), (SELECT coalesce(sum(bad), 0) FROM logs), "
        "(SELECT count(*) FROM refused)"
    )[0]
    out.known_bad, out.refused = int(bad_files) + int(bad_lines), int(refused)
    out.seconds = time.monotonic() - begin
    return out


class _Pass:
    def __init__(self, store: Store, archive: Path, now: datetime) -> None:
        self.store, self.archive, self.now = store, archive, now
        self.out = Ingested()
        store.load_keys()
        self._marks = dict(store.rows("SELECT folder, mtime FROM folders"))
        self._unmarked: dict[str, set[str]] = {}
        for folder, name in store.rows("SELECT folder, name FROM files ANTI JOIN folders USING (folder)"):
            self._unmarked.setdefault(folder, set()).add(name)
        self._waiting: list[tuple[str, str, os.stat_result]] = []
        self._done: list[tuple[str, int]] = []

    # -- records

    def folders(self, every: bool) -> None:
        """Records of all changed folders, and of unreadable files that have been replaced."""
        self._bad_again()
        for relative, mtime in self._changed(every):
            self.out.folders += 1
            known = self._known(relative)
            try:
                with os.scandir(self.archive / relative) as entries:
                    for entry in entries:
                        if entry.name.endswith(".json") and not entry.name.startswith(".") and entry.name not in known:
                            self._waiting.append((relative, entry.name, entry.stat(follow_symlinks=False)))
            except OSError as error:
                self.out.bad.append((relative, f"cannot be listed: {error.strerror}"))
                continue
            self._done.append((relative, mtime))
            if len(self._waiting) >= BATCH:
                self._flush()
        self._flush()

    def _known(self, folder: str) -> set[str]:
        """Names in a folder that were read before; queried for a folder without a mark only after an interrupted
        pass."""
        if folder in self._marks:
            return {row[0] for row in self.store.rows("SELECT name FROM files WHERE folder = ?", [folder])}
        return self._unmarked.get(folder, set())

    def _changed(self, every: bool) -> Iterator[tuple[str, int]]:
        """Folders <system>/<partition>/<date>/<check> that may contain new files, with their modification times."""
        listed = time.time_ns()
        for place in self._places():
            dates = [e for e in _folders(self.archive / place) if _DATE.match(e.name)]
            newest = max((e.name for e in dates), default="")
            for entry in sorted(dates, key=lambda e: e.name):
                relative = f"{place}/{entry.name}"
                mtime = entry.stat().st_mtime_ns
                if not every and self._marks.get(relative) == mtime and _older(entry.name, newest):
                    continue
                for check in _folders(entry):
                    inner = f"{relative}/{check.name}"
                    changed = check.stat().st_mtime_ns
                    if self._marks.get(inner) != changed:
                        yield inner, changed if changed < listed - _TICK else -1
                self._done.append((relative, mtime if mtime < listed - _TICK else -1))

    def _places(self) -> list[str]:
        return [
            f"{system.name}/{partition.name}"
            for system in _folders(self.archive)
            if system.name != SESSIONS
            for partition in _folders(system)
        ]

    def _bad_again(self) -> None:
        """Replacing an unreadable file in place does not change its folder's time, so each such file is examined."""
        gone = []
        for folder, name, size, mtime in self.store.rows(
            "SELECT folder, name, size, mtime FROM files WHERE status = 'bad'"
        ):
            try:
                stat = os.lstat(self.archive / folder / name)
            except OSError:
                gone.append((folder, name))
                continue
            if (stat.st_size, stat.st_mtime_ns) != (size, mtime):
                gone.append((folder, name))
                self._waiting.append((folder, name, stat))
        with self.store.transaction():
            for folder, name in gone:
                self.store.connection.execute("DELETE FROM files WHERE folder = ? AND name = ?", [folder, name])

    def _flush(self) -> None:
        """Read the pending files and commit them with the marks of the completed folders."""
        for first in range(0, len(self._waiting), BATCH):
            self._commit(self._waiting[first : first + BATCH])
        with self.store.transaction():
            if self._done:
                execute = self.store.connection.execute
                execute("DELETE FROM folders WHERE folder IN (SELECT unnest(?))", [[f for f, _ in self._done]])
                self.store.insert("folders", list(dict(self._done).items()))
        self._waiting, self._done = [], []

    def _commit(self, files: list[tuple[str, str, os.stat_result]]) -> None:
        import numpy  # noqa: F401  (the store needs it)

        with _no_cycles():
            self._commit_parsed(files)

    def _commit_parsed(self, files: list[tuple[str, str, os.stat_result]]) -> None:
        parsed, rows = [], []
        root = os.fspath(self.archive)
        for folder, name, stat in files:
            shown = f"{folder}/{name}"
            try:
                text = read_text(f"{root}/{shown}", MAX_RECORD_BYTES)
                parsed.append((reading.record(text, self.now, folder, name), shown))
                rows.append([folder, name, "ok", "", stat.st_size, stat.st_mtime_ns])
            except (reading.Unreadable, FileError) as error:
                rows.append([folder, name, "bad", str(error), stat.st_size, stat.st_mtime_ns])
                self.out.bad.append((shown, str(error)))
        good = [row for row in rows if row[2] == "ok"]
        with self.store.transaction():
            double = self.store.insert_records(parsed)
            for index in double:
                good[index][2:4] = ["duplicate", "this run is already stored"]
            self.store.insert("files", [tuple(row) for row in rows])
        self.out.records += len(parsed) - len(double)
        self.out.duplicates += len(double)
        self.out.points += sum(len(one.points) for i, (one, _) in enumerate(parsed) if i not in double)

    # -- performance logs

    def logs(self) -> None:
        """New lines of the performance logs, current and rotated."""
        marks = {row[0]: row[1:] for row in self.store.rows("SELECT * FROM logs")}
        moved = {mark[:2]: mark for mark in marks.values()}
        for path in self._log_files():
            try:
                self._log(path, marks, moved)
            except OSError as error:
                self.out.bad.append((path, f"cannot be read: {error.strerror}"))

    def _log_files(self) -> list[str]:
        found = []
        for folder in ("", *(s.name for s in _folders(self.archive) if s.name != SESSIONS), *self._places()):
            with os.scandir(self.archive / folder) as entries:
                found += [f"{folder}/{e.name}".lstrip("/") for e in entries if _LOG.match(e.name) and e.is_file()]
        # rotated logs first: they are older
        return sorted(found, key=lambda name: (name.endswith(".log"), name))

    def _log(self, relative: str, marks: dict[str, Any], moved: dict[Any, Any]) -> None:
        path = self.archive / relative
        size = path.stat().st_size
        mark = marks.get(relative)
        if mark is not None and mark[0] == path.stat().st_ino and mark[2] == size:
            return
        with path.open("rb") as stream:
            first = stream.readline()
            if not first.endswith(b"\n"):
                return  # currently being written
            head = hashlib.blake2b(first + stream.readline(), digest_size=8).hexdigest()
            inode = os.fstat(stream.fileno()).st_ino
            if mark is None or mark[:2] != (inode, head):
                mark = moved.get((inode, head))  # renamed
            if mark is not None and mark[2] > size:
                mark = None  # written anew
            offset, line, before, reason = mark[2:] if mark is not None else (len(first), 1, 0, "")
            stream.seek(offset)
            bad: list[str] = []
            try:
                reader = self._reader(first.decode(), relative)
            except (reading.Unreadable, UnicodeDecodeError) as error:
                self._mark(relative, inode, head, size, 1, 1, str(error))
                self.out.bad.append((relative, str(error)))
                return
            while True:
                lines = stream.readlines(LINES * 150)
                complete = [x for x in lines if x.endswith(b"\n")]
                rows = []
                for text in complete:
                    line += 1
                    try:
                        rows += reader.line(text.decode().rstrip("\r\n"))
                    except (reading.Unreadable, UnicodeDecodeError) as error:
                        bad.append(f"line {line}: {error}")
                offset += sum(map(len, complete))
                if len(complete) < len(lines) and not relative.endswith(".log"):
                    bad.append(f"line {line + 1}: truncated")
                    offset += len(lines[-1])
                reason = "; ".join(bad[:3]) or reason
                with self.store.transaction():
                    self.out.points += self.store.insert_logged(rows, relative)
                    self._mark(relative, inode, head, offset, line, before + len(bad), reason, own=False)
                self.out.lines += len(complete)
                if not complete:
                    break
        self.out.bad += [(relative, text) for text in bad[:_SHOWN]]
        if len(bad) > _SHOWN:
            self.out.bad.append((relative, f"and {len(bad) - _SHOWN} more lines"))

    def _reader(self, first: str, relative: str) -> reading.LogReader:
        parts = relative.split("/")
        found = _LOG.match(parts[-1])
        assert found is not None
        system = parts[0] if len(parts) > 1 else ""
        partition = parts[1] if len(parts) > 2 else ""
        return reading.LogReader(reading.header(first), system, partition, found[1], self.now)

    def _mark(
        self, relative: str, inode: int, head: str, offset: int, line: int, bad: int, reason: str, own: bool = True
    ) -> None:
        rows = [(relative, inode, head, offset, line, bad, reason)]
        if own:
            with self.store.transaction():
                self._mark(relative, inode, head, offset, line, bad, reason, own=False)
            return
        self.store.connection.execute("DELETE FROM logs WHERE path = ?", [relative])
        self.store.insert("logs", rows)


@contextlib.contextmanager
def _no_cycles() -> Iterator[None]:
    """Runs without the cyclic garbage collector: records contain no cycles, and it would scan everything that was read.
    It took ten times as long with it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _folders(path: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Subfolders, without hidden ones; none if it is no longer a directory."""
    try:
        with os.scandir(path) as entries:
            return sorted((e for e in entries if not e.name.startswith(".") and e.is_dir()), key=lambda e: e.name)
    except OSError:
        return []


def _older(name: str, newest: str) -> bool:
    """Whether a folder's date is so old that nothing more is expected there."""
    try:
        return date.fromisoformat(name) < date.fromisoformat(newest) - timedelta(days=OPEN_DAYS)
    except ValueError:
        return False
