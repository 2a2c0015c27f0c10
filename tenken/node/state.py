"""The files that a check run by root trusts: the expectation, and the last good state.

A file is trusted if it and its folder belong to root (or to the user who runs the check), are not links, and no other
user may write them. Anything else is rejected with one line, since a job could have put it there. For root, the same
holds for every folder and link on the path, for programs and commands, and for the files that Python itself was loaded
from.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError

#: Maximum size of a state file.
MOST_BYTES = 4 << 20
#: Variables that make the loader take code from elsewhere: lists of files and of folders.
LOADER = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH")
#: What Linux follows too.
MOST_LINKS = 40


class StateError(TenkenError):
    """A file is refused or malformed."""


def refused(found: os.stat_result, path: Path, kind: str = "file") -> str | None:
    """One line that states why a file or a folder is not trusted."""
    right = stat.S_ISDIR(found.st_mode) if kind == "folder" else stat.S_ISREG(found.st_mode)
    if not right:
        return f"{path}: not a {kind}" + (" but a link" if stat.S_ISLNK(found.st_mode) else "")
    if found.st_uid not in (0, os.geteuid()):
        return f"{path}: belongs to user {found.st_uid}; allowed: root" + (f", {os.geteuid()}" if os.geteuid() else "")
    if found.st_mode & 0o022:
        return f"{path}: mode {stat.S_IMODE(found.st_mode):o} lets others write; allowed: 755, 644 and less"
    return None


def replaceable(path: Path) -> str | None:
    """One line that states who other than root could put another file at this path: each folder and link on the path
    must be root's, and no other user may write there. A folder such as /tmp is allowed on the path: its sticky bit
    keeps others from renaming root's files. None for any other user."""
    if os.geteuid() != 0:
        return None
    at, parts, links = Path("/"), list(reversed(path.parts[1:])), 0
    while True:
        found = os.lstat(at)
        if found.st_uid != 0:
            return f"{at}: belongs to user {found.st_uid}; allowed: root"
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MOST_LINKS:
                return f"{at}: a link to itself"
            target = Path(os.readlink(at))
            parts += [part for part in reversed(target.parts) if part != "/"]
            at = Path("/") if target.is_absolute() else at.parent
            continue
        following = at / parts.pop() if parts else None
        passed = following is not None and found.st_mode & stat.S_ISVTX and os.path.lexists(following)
        if found.st_mode & 0o022 and not passed:
            return f"{at}: mode {stat.S_IMODE(found.st_mode):o} lets others write; allowed: 755, 644 and less"
        if following is None or not os.path.lexists(following):
            return None
        at = following


def process(environment: Mapping[str, str], path: Sequence[str]) -> str | None:
    """Why root must not continue in this process: part of its code belongs to another user. `path`: sys.path, which
    contains a checkout, a user's environment and PYTHONPATH."""
    # an editable installation is a named hook on the path, not a folder
    folders = [place for place in path if not place.endswith("__path_hook__")]
    places = [("Python's path", place) for place in (*folders, sys.executable, os.path.abspath(__file__))]
    for name in LOADER:
        # a library's name without a folder is searched in all of them
        found = re.split("[: ]" if name != "LD_LIBRARY_PATH" else ":", environment.get(name) or "/")
        places += [(name, place) for place in found if "/" in place or name == "LD_LIBRARY_PATH"]
    for name, place in places:
        if not os.path.isabs(place):
            return f"{name} contains the current folder: start it as /opt/tenken/hooks/node-check does"
        if why := replaceable(Path(place)):
            return f"{name}: {why}"
    return None


def read(path: Path) -> Any | None:
    """The JSON in a trusted file; None if there is none. Raises StateError."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "a link is not followed" if path.is_symlink() else error.strerror
        raise StateError(f"{path}: {why}") from None
    with os.fdopen(opened, "rb") as file:
        if why := _refused_folder(path) or refused(os.fstat(opened), path):
            raise StateError(why)
        try:
            return json.loads(file.read(MOST_BYTES))
        except ValueError as error:
            raise StateError(f"{path}: not JSON: {error}") from None


def _refused_folder(path: Path) -> str | None:
    return refused(os.lstat(path.parent), path.parent, "folder") or replaceable(path.parent)


def write(path: Path, content: Any) -> None:
    """Replaces a file in a trusted folder atomically. Raises StateError."""
    write_text(path, json.dumps(content, separators=(",", ":")))


def write_text(path: Path, content: str) -> None:
    """The same for text."""
    try:
        if why := _refused_folder(path):
            raise StateError(why)
        made, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(made, "w", encoding="utf-8") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except FileNotFoundError:
        raise StateError(f"{path}: cannot be written: there is no folder {path.parent}") from None
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None


@contextlib.contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Whether no other check of this node is running, since a prolog and a health check may coincide. Never waits. The
    locked file cannot be opened by others, who could otherwise block writing the state."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        held = os.open(path.parent / f".{path.name}.lock", flags, 0o600)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError as error:  # other errors: this file system has no locks
            free = not isinstance(error, BlockingIOError)
        yield free
    finally:
        os.close(held)
