"""Writes that survive a power cut: a file's content reaches the disk before its name, and a line before whatever
follows it.

Records, manifests and the journals of campaigns are written by these functions alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

#: How the name of an unfinished file begins.
TEMPORARY = ".tmp-"
#: Seconds to wait for a lock, and to wait before saying so.
LOCK_S, LOCK_SAID_S = 600.0, 10.0
#: Errors of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def lock(descriptor: int, path: Path, seconds: float = LOCK_S) -> None:
    """Lock an open file against other processes; on a file system without locks this does nothing. Raises TimeoutError
    if another process holds it for `seconds`, and other OSErrors.
    """
    began, said, pause = time.monotonic(), False, 0.005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            waited = time.monotonic() - began
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return
            raise
        if waited >= seconds:
            raise TimeoutError(errno.ETIMEDOUT, f"another process has held the lock of {path} for {seconds:.0f} s")
        if waited >= LOCK_SAID_S and not said:
            said = True
            text = f"tenken: another process holds the lock of {path}; it is given up after {seconds:.0f} s"
            print(text, file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


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
    """Syncs a folder, so that new names in it survive a power cut; some file systems sync files alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def appended(descriptor: int, lines: bytes) -> Iterator[None]:
    """Appends lines to an open file and syncs it; if they, or what follows, cannot be written, the lines are removed
    again. Raises OSError."""
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
