"""The seal of an archive: each session has a manifest with one line per archived file.

    <archive>/.sessions/<session>/manifest.sha256

    # tenken-manifest/1 SESSION
    # continues SESSION BYTES SHA256     the first BYTES of another session's manifest, as they were when this began
    # unsealed PATH                      was in the archive before this manifest
    SHA256  PATH                         as sha256sum writes it; PATH is below the archive
    # pruned SHA256  PATH                what the file was until now; the next line says what it is

A manifest only grows. A file is written in three steps, each synced before the next: its content under a temporary
name, its line in the manifest, its final name. After a kill between the last two, the line identifies the temporary
file, and whoever opens the manifest next renames it. In the opposite order, a kill would leave a record that looks as
if somebody had added it. The lock is held from writing the line to renaming the file, so only the last line of a
manifest can lack its file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tenken.archive import durable
from tenken.errors import ArchiveError

MANIFEST = "manifest.sha256"
SESSIONS = ".sessions"
_HEAD = "# tenken-manifest/1 "
_CONTINUES = re.compile(r"# continues (\S+) (\d{1,15}) ([0-9a-f]{64})")
_UNSEALED = re.compile(r"# unsealed (\S+)")
_PRUNED = re.compile(r"# pruned ([0-9a-f]{64})  (\S+)")
_FILE = re.compile(r"([0-9a-f]{64})  (\S+)")
#: Maximum length of a line in bytes.
_LONGEST = 4096


@dataclass(frozen=True)
class Manifest:
    """A manifest as read. `files`: digest by path below the archive; `continues`: session, bytes and digest; `faults`:
    lines that the suite does not write.
    """

    session: str
    files: Mapping[str, str] = field(default_factory=dict)
    unsealed: frozenset[str] = frozenset()
    continues: tuple[tuple[str, int, str], ...] = ()
    faults: tuple[str, ...] = ()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def session_of(name: str) -> str:
    """The session in the name of a file that the suite archived; empty for another name."""
    found = re.fullmatch(r"\d{6}-(.+)-[0-9a-f]{8}\..+", name)
    return found[1] if found else ""


def manifests(root: Path) -> dict[str, Path]:
    """The manifests of an archive by session."""
    return {path.parent.name: path for path in sorted(root.glob(f"{SESSIONS}/*/{MANIFEST}"))}


def read(content: bytes, session: str) -> Manifest:
    """A manifest's content. A last line without a line end was cut short by a crash, and is ignored."""
    files: dict[str, str] = {}
    unsealed, continues, faults = set(), [], []
    pruned: tuple[str, str] | None = None
    for number, line in enumerate(whole(content).decode("utf-8", "replace").splitlines(), 1):
        listed, before = _FILE.fullmatch(line), pruned
        pruned = None
        if number == 1:
            good = line == _HEAD + session
        elif listed is not None:
            digest, path = listed.groups()
            good = _belongs(path, session) and (path in files) == (before is not None and before[1] == path)
            files[path] = digest
        elif (old := _PRUNED.fullmatch(line)) is not None:
            pruned = old[1], old[2]
            good = files.get(old[2]) == old[1]
        elif (other := _CONTINUES.fullmatch(line)) is not None:
            continues.append((other[1], int(other[2]), other[3]))
            good = True
        else:
            there = _UNSEALED.fullmatch(line)
            good = there is not None and _belongs(there[1], session)
            unsealed |= {there[1]} if there else set()
        if not good:
            faults.append(f"line {number} is not one of this manifest: {line[:120]!r}")
    return Manifest(session, files, frozenset(unsealed), tuple(continues), tuple(faults))


def _belongs(path: str, session: str) -> bool:
    parts = path.split("/")
    return len(parts) == 5 and not any(part.startswith(".") for part in parts) and session_of(parts[-1]) == session


def whole(content: bytes) -> bytes:
    """The text without a last line that was cut short."""
    return content[: content.rfind(b"\n") + 1]


# -- writing --


def begin(root: Path, session: str) -> None:
    """Starts the manifest of a session that has none, after finishing what kills left in others. `session`: name of the
    session's folder. Raises OSError.
    """
    for other, path in manifests(root).items():
        if any(pending(root, path.read_bytes())):
            with contextlib.suppress(OSError):  # another user's
                finish(root, other)
    with _opened(root, session):
        pass


def finish(root: Path, session: str) -> None:
    """Gives the last file of a session its final name if a kill prevented that. Raises OSError."""
    if (root / SESSIONS / session / MANIFEST).is_file():
        with _opened(root, session):
            pass


def put(root: Path, session: str, path: Path, content: bytes, instead_of: bytes | None = None) -> None:
    """Write a file below `root` and its line in the manifest of its session: both, or neither. `instead_of`: the
    content that is replaced. Raises OSError; ArchiveError if the file has changed since it was listed, or its name
    belongs to no session.
    """
    below = path.relative_to(root).as_posix()
    if not _belongs(below, session):
        raise ArchiveError(f"{path}: is not a place for a file of session {session}")
    lines = f"{sha256(content)}  {below}\n"
    temporary = durable.temporary(path, content)
    try:
        durable.sync_folder(path.parent)
        with _opened(root, session) as manifest:
            if instead_of is not None:
                if path.read_bytes() != instead_of:
                    raise ArchiveError(f"{path}: was changed a moment ago")
                lines = f"# pruned {sha256(instead_of)}  {below}\n{lines}"
            with durable.appended(manifest, lines.encode()):
                os.rename(temporary, path)
            durable.sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(root: Path, session: str) -> Iterator[int]:
    """A descriptor of a session's manifest, locked; created if it is new, and with its last file renamed if
    necessary."""
    path = root / SESSIONS / session / MANIFEST
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        durable.lock(descriptor, path)
        size = os.fstat(descriptor).st_size
        end = os.pread(descriptor, _LONGEST, max(0, size - _LONGEST))
        if len(whole(end)) < len(end):
            os.ftruncate(descriptor, size - len(end) + len(whole(end)))  # cut short, so it does not count
        if not whole(end):
            with durable.appended(descriptor, _heading(root, session).encode()):
                durable.sync_folder(path.parent)
        for temporary, target in pending(root, end):
            os.rename(temporary, target)
            durable.sync_folder(target.parent)
        yield descriptor
    finally:
        os.close(descriptor)


def _heading(root: Path, session: str) -> str:
    """The first lines: which manifests this one continues, and which files of its session were already in the
    archive."""
    there = [path for path in root.glob(f"*/*/*/*/*-{session}-*") if session_of(path.name) == session]
    lines = [
        _HEAD + session,
        *(f"# continues {name} {len(one)} {sha256(one)}" for name, one in _to_continue(root, session).items()),
        *(f"# unsealed {path.relative_to(root).as_posix()}" for path in sorted(there)),
    ]
    return "\n".join([*lines, ""])


def _to_continue(root: Path, session: str) -> dict[str, bytes]:
    """Manifests of other sessions, by session, whose present state no manifest names yet."""
    texts = {name: whole(path.read_bytes()) for name, path in manifests(root).items() if name != session}
    named: dict[str, int] = {}
    for content in texts.values():
        for line in content.decode("utf-8", "replace").splitlines()[1:]:
            other = _CONTINUES.fullmatch(line)
            if other is None:  # these lines are at the beginning
                break
            named[other[1]] = max(int(other[2]), named.get(other[1], 0))
    return {name: content for name, content in texts.items() if len(content) > named.get(name, 0)}


def pending(root: Path, content: bytes) -> Iterator[tuple[Path, Path]]:
    """Temporary and final name of the last listed file, if a kill prevented its renaming."""
    before, last = ["", "", *whole(content[-_LONGEST:]).decode("utf-8", "replace").splitlines()][-2:]
    listed = _FILE.fullmatch(last)
    if listed is None or ".." in listed[2].split("/"):
        return
    target = root / listed[2]
    if target.exists() and not _PRUNED.fullmatch(before):
        return
    start = f"{durable.TEMPORARY}{target.name[:80]}."
    for one in sorted(target.parent.iterdir()) if target.parent.is_dir() else ():
        if one.name.startswith(start) and one.is_file() and sha256(one.read_bytes()) == listed[1]:
            yield one, target
            return
