"""The archive: every run's record with its document and samples, append-only.

A record is one JSON file, `<archive>/<system>/<partition>/<date>/<check>/<time>-<session>-<random>.json`; the output of
third-party programs is next to it, as `<time>-<session>-<random>.<file>`. Each is written next to its final name,
synced and renamed, so a kill, a full disk or two concurrent runs can lose at most the record being written and damage
none. Names that begin with `.tmp-` are leftovers of this and never read. The session's manifest lists them (seal.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

from tenken.archive import disk, durable, seal
from tenken.errors import ArchiveError, RecordError
from tenken.model import files
from tenken.model.record import MAX_RECORD_BYTES, Record, parse

#: Part of the names of sessions in which every check must fail.
DRILL = "drill"
SESSIONS = seal.SESSIONS
#: Names of the notes about started runs, in the folder of their session.
BEGUN = "begun-"
#: The name of a record's file. An exported record has a number in place of the time, and no random part.
_NAME = re.compile(r"(?P<time>\d{6})-(?P<session>.+)-[0-9a-f]{8}\.json")


@dataclass(frozen=True)
class Damaged:
    """A file in the archive that is not a record, and the reason."""

    path: Path
    reason: str


def new_session() -> str:
    """A name for one run of the suite: UTC time and a random part, so that concurrent runs differ."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


@lru_cache(maxsize=4096)
def safe_name(text: str) -> str:
    """`text` as a file name: letters, digits and ._=+- are retained, runs of other characters become one underscore."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "_", text).strip("_.")[:120] or "unnamed"


def write_file(path: Path, text: str) -> None:
    """Write `path` completely or not at all. On a full disk it is retried for some seconds. Raises ArchiveError with
    folder and bytes, and leaves nothing behind.
    """
    content = text.encode("utf-8")
    _patiently(lambda: _write_once(path, content), path, len(content))


def _patiently(write: Callable[[], None], path: Path, size: int) -> None:
    try:
        disk.patiently(write, path.parent)
    except OSError as error:
        lost = f"{size} bytes of {path.name} were not written"
        raise ArchiveError(f"{path.parent}: cannot write to the archive: {error.strerror}: {lost}") from error


def _write_once(path: Path, content: bytes) -> None:
    temporary = durable.temporary(path, content)
    try:
        os.rename(temporary, path)
        durable.sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def put(root: Path, session: str, path: Path, content: bytes, instead_of: bytes | None = None) -> None:
    """Write a file of a session below `root` and its line in the session's manifest: both or neither. A full disk is
    retried as in `write_file`. `instead_of`: the content that is replaced.
    """
    _patiently(lambda: seal.put(root, safe_name(session), path, content, instead_of), path, len(content))


def folder_of(record: Record, archive: Path) -> Path:
    """The folder of a record."""
    day = record.time[:10]
    return archive.joinpath(safe_name(record.system), safe_name(record.partition), day, safe_name(record.check))


def write(record: Record, archive: Path, beside: Mapping[str, bytes] | None = None, text: str = "") -> Path:
    """Archive one record and return its path. `beside`: files to keep next to it, by name; `text`: the record as stored
    elsewhere. Raises ArchiveError naming the folder if it cannot be written.
    """
    time = datetime.fromisoformat(record.time.replace("Z", "+00:00"))
    stem = f"{time:%H%M%S}-{safe_name(record.session)}-{secrets.token_hex(4)}"
    folder = folder_of(record, archive)
    for name, content in (beside or {}).items():
        # a name that ends with .json would be read as a record
        put(archive, record.session, folder / f"{stem}.{safe_name(name).removesuffix('.json')}", content)
    path = folder / f"{stem}.json"
    put(archive, record.session, path, (text or record.text()).encode())
    return path


def check_writable(archive: Path) -> None:
    """Raise ArchiveError unless a small file can be written and renamed in `archive`; called before a run starts."""
    probe = archive / SESSIONS / f".probe-{secrets.token_hex(4)}"
    try:
        write_file(probe, "x" * 65536)
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def read(path: Path, figures_only: bool = False) -> Record:
    """One record; `figures_only`: leaves out the text of the result. Raises ArchiveError with what is wrong with the
    file.
    """
    try:
        return parse(files.read_text(path, MAX_RECORD_BYTES), path, figures_only)
    except (files.FileError, RecordError) as error:
        raise ArchiveError(f"{path}: {error}") from None


def paths(archive: Path, system: str | None = None) -> Iterator[Path]:
    """Paths of all records, oldest date first within a partition; temporary files and the sessions are left out."""
    yield from (path for path in all_files(archive, system) if path.suffix == ".json")


def all_files(archive: Path, system: str | None = None) -> Iterator[Path]:
    """Paths of all records and of the files next to them."""
    for path in sorted(archive.glob(f"{safe_name(system) if system else '*'}/*/*/*/*")):
        if not path.name.startswith(".") and SESSIONS not in path.parts:
            yield path


def records(
    archive: Path,
    session: str | None = None,
    system: str | None = None,
    damaged: list[Damaged] | None = None,
    figures_only: bool = False,
) -> Iterator[Record]:
    """All records, optionally of one session or system; `figures_only`: leaves out the texts of their results. Files
    that are not records are appended to `damaged` and skipped.
    """
    part = f"-{safe_name(session)}" if session else ""
    for path in paths(archive, system):
        if part not in path.name:
            continue
        try:
            record = read(path, figures_only)
            if why := misplaced(record, path.parts[:-1], path.name):
                raise ArchiveError(f"{path}: cannot be believed: {why}")
        except ArchiveError as error:
            if damaged is not None and (session is None or _session_in(path.name) in ("", safe_name(session))):
                damaged.append(Damaged(path, str(error)))
            continue
        if session is None or record.session == session:
            yield record


def misplaced(record: Record, folders: Sequence[str], name: str) -> str:
    """Why a record does not belong in this file, whose folders and name repeat its fields; empty if it does.

    Files that were put there by hand, or exported without names, are not checked.
    """
    named = _NAME.fullmatch(name)
    if named is None:
        return ""
    system, partition, day, check = folders[-4:]
    for field, said, place in (
        ("session", safe_name(record.session), named["session"]),
        ("system", safe_name(record.system), system),
        ("partition", safe_name(record.partition), partition),
        ("check", safe_name(record.check), check),
        ("time", record.time[:10], day),
        ("time", record.time[11:19].replace(":", ""), named["time"]),
    ):
        if said != place:
            return f"{field} is {said!r}; its place in the archive has {place!r}"
    return ""


def _session_in(name: str) -> str:
    """The session in the name of a record's file; empty if the suite does not write such names."""
    named = _NAME.fullmatch(name)
    return named["session"] if named else ""


def session_folder(archive: Path, session: str) -> Path:
    """The folder of a session's plan and ReFrame's run report."""
    return archive / SESSIONS / safe_name(session)


def begin_session(archive: Path, session: str, load_errors: Iterable[str]) -> Path:
    """Begin the manifest of a session; note that a run started, and which check files it could not load. Raises
    ArchiveError.
    """
    manifest = session_folder(archive, session) / seal.MANIFEST
    _patiently(lambda: seal.begin(archive, safe_name(session)), manifest, 0)
    content = {"begun": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}", "load_errors": list(load_errors)}
    path = session_folder(archive, session) / f"{BEGUN}{secrets.token_hex(4)}.json"
    write_file(path, json.dumps(content) + "\n")
    return path


def last_session(archive: Path, system: str | None = None) -> str | None:
    """The most recent session, optionally with a record of a system; None if there is none. Drills (`tenken drill`)
    are ignored. Sessions are named by their time; for one with another name the time of its folder is used.
    """
    known = [p for p in (archive / SESSIONS).glob("*") if f"-{DRILL}" not in p.name]
    if system:
        measured = {seal.session_of(path.name) for path in paths(archive, system)}
        known = [p for p in known if p.name in measured]
    return max((p for p in known if p.is_dir()), key=_began, default=Path()).name or None


def _began(folder: Path) -> tuple[str, str]:
    named = re.match(r"\d{8}T\d{6}", folder.name)
    if named:
        return named[0], folder.name
    begun = min((p.stat().st_mtime for p in folder.glob(f"{BEGUN}*.json")), default=folder.stat().st_mtime)
    return f"{datetime.fromtimestamp(begun, timezone.utc):%Y%m%dT%H%M%S}", folder.name
