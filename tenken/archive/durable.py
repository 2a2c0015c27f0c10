"""Writes that survive a power cut: a file's content reaches the disk before its name, and a line before whatever
follows it.

Records, manifests and the journals of campaigns are written by these functions alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

#: How the name of an unfinished file begins.
TEMPORARY = ".tmp-"


def temporary(path: Path, content: bytes) -> Path:
    """Writes a temporary file next to `path` and syncs it; nothing remains if it cannot be written. Raises OSError."""
    found = path.parent / f"{TEMPORARY}{path.name[:80]}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with found.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            found.unlink(missing_ok=True)
        raise
    return found


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that new names in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def appended(descriptor: int, lines: bytes) -> Iterator[None]:
    """Appends lines to an open file and syncs it; the lines are removed again if they, or what follows, cannot be
    written. Raises OSError."""
    before = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, lines) != len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
        raise
