"""Full disks: writes are retried for some seconds before they fail."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Pauses between the tries of one write, in seconds.
PAUSES = (0.2, 1.0, 3.0)
#: For this many seconds a full disk gets one try per write: a session on a full disk must end.
GIVEN_UP_S = 60.0
#: With fewer free bytes a job can no longer write its output.
_TOO_FEW = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT)

_given_up: dict[int, float] = {}


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, means that a disk or a quota is full."""
    return fullness(error) is not None


def fullness(error: BaseException | None) -> OSError | None:
    """The error itself, or the cause in its chain that means a full disk or quota."""
    seen: list[BaseException] = []  # an error can be a cause of itself: raised again while another one was handled
    while error is not None and error not in seen:
        if isinstance(error, OSError) and error.errno in _FULL:
            return error
        seen.append(error)
        error = error.__cause__ or error.__context__
    return None


def patiently(write: Callable[[], T], place: Path | str, sleep: Callable[[float], None] | None = None) -> T:
    """The return value of `write`, which writes below `place`. Retries while the disk is full, then raises the last
    exception.
    """
    disk = _disk(Path(place))
    again = time.monotonic() >= _given_up.get(disk, 0.0)
    for pause in PAUSES if again else ():
        try:
            return write()
        except OSError as error:
            if not is_full(error):
                raise
            (sleep or time.sleep)(pause)
    try:
        return write()
    except OSError as error:
        if is_full(error):
            _given_up[disk] = time.monotonic() + GIVEN_UP_S
        raise


def room(place: Path | str, too_few: int = _TOO_FEW) -> str:
    """`; the disk of PLACE is full (0 bytes are free)` if fewer bytes are free, else empty."""
    with contextlib.suppress(OSError):
        found = os.statvfs(place)
        free = found.f_bavail * found.f_frsize
        if free < too_few:
            return f"; the disk of {place} is full ({free} bytes are free)"
        if found.f_files and not found.f_favail:
            return f"; the disk of {place} is full (no file can be added)"
    return ""


def _disk(place: Path) -> int:
    """The device of a path that may not exist yet; -1: unknown."""
    for one in (place, *place.parents):
        with contextlib.suppress(OSError):
            return os.stat(one).st_dev
    return -1
