"""The files that a check of root trusts: what the node should be, and what it was when it was last good.

A file is trusted if it and its folder belong to root (or to the user who runs the check), are no links, and nobody else
may write them. All else is refused with one line: a job could have put it there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError

#: No state is larger, and none is read further.
MOST_BYTES = 4 << 20


class StateError(TenkenError):
    """A file is refused or is not what it should be."""


def refused(found: os.stat_result, path: Path, kind: str = "file") -> str | None:
    """One line that says why a file or a folder is not trusted."""
    right = stat.S_ISDIR(found.st_mode) if kind == "folder" else stat.S_ISREG(found.st_mode)
    if not right:
        return f"{path}: not a {kind}" + (" but a link" if stat.S_ISLNK(found.st_mode) else "")
    if found.st_uid not in (0, os.geteuid()):
        return f"{path}: belongs to user {found.st_uid}; allowed: root" + (f", {os.geteuid()}" if os.geteuid() else "")
    if found.st_mode & 0o022:
        return f"{path}: mode {stat.S_IMODE(found.st_mode):o} lets others write; allowed: 755, 644 and less"
    return None


def read(path: Path) -> Any | None:
    """The JSON in a trusted file; None where there is none. Raises StateError."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "a link is not followed" if path.is_symlink() else error.strerror
        raise StateError(f"{path}: {why}") from None
    with os.fdopen(opened, "rb") as file:
        why = refused(os.lstat(path.parent), path.parent, "folder") or refused(os.fstat(opened), path)
        if why:
            raise StateError(why)
        try:
            return json.loads(file.read(MOST_BYTES))
        except ValueError as error:
            raise StateError(f"{path}: not JSON: {error}") from None


def write(path: Path, content: Any) -> None:
    """Replaces a file in a trusted folder, so that a reader finds the old one or the new one. Raises StateError."""
    write_text(path, json.dumps(content, separators=(",", ":")))


def write_text(path: Path, content: str) -> None:
    """The same for text."""
    try:
        why = refused(os.lstat(path.parent), path.parent, "folder")
        if why:
            raise StateError(why)
        made, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(made, "w", encoding="utf-8") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None


@contextlib.contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Whether no other check of this node is running: a prolog and a health check may meet. Never waits."""
    try:
        held = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(held)
