"""The log of a node's checks: one line per check in the form of a performance log, each with a seal.

A node is checked hundreds of times a day, and each check gives a few numbers; one record per check would be far larger
than what it holds. So a line has time, verdict, reason and values (some hundred bytes). Its last column is the SHA-256
of the previous line (for the first, of the header) and of its own text, so a changed, removed or inserted line breaks
all seals after it. Uses the standard library alone, as the check itself does.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from tenken.archive import durable
from tenken.errors import ArchiveError

DELIMITER, SEAL = "|", "seal"
#: The value of a metric that was not measured is empty.
VALUE = "_value"
#: No line is longer.
MOST_BYTES = 1 << 16


def append(path: Path, about: Mapping[str, str], values: Mapping[str, float]) -> None:
    """Add a line. `about`: columns that every line has; `values`: in the unit of their metric. A metric without a
    column starts a new log: the old one is renamed as ReFrame does (`.h0`, `.h1`, ...). Raises OSError; ArchiveError if
    the file is not such a log.
    """
    opened, header = _open(path)
    try:
        known = [name.removesuffix(VALUE) for name in header.split(DELIMITER) if name.endswith(VALUE)]
        names = [*known, *(name for name in values if name not in known)]
        wanted = DELIMITER.join([*about, *(name + VALUE for name in names), SEAL])
        if header and header != wanted:
            _rename(path)
            os.close(opened)
            opened, header = _open(path)
        size = os.fstat(opened).st_size
        end = os.pread(opened, MOST_BYTES, max(0, size - MOST_BYTES))
        if not end.endswith(b"\n"):  # cut short by a crash, so it does not count
            os.ftruncate(opened, size - len(end.rpartition(b"\n")[2]))
        before = end.rpartition(b"\n")[0].rpartition(b"\n")[2] if header else wanted.encode()
        cells = [re.sub(r"[|\r\n]", " ", text) for text in about.values()]
        line = DELIMITER.join([*cells, *(f"{values[name]:.5g}" if name in values else "" for name in names)])
        text = f"{'' if header else wanted + chr(10)}{line}{DELIMITER}{sealed(before, line)}\n"
        with durable.appended(opened, text.encode()):
            pass
    finally:
        os.close(opened)


def _open(path: Path) -> tuple[int, str]:
    """The log, locked, and its header; empty for a new one."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(path, flags, 0o644)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise ArchiveError(f"{path}: not a file of one name")
        durable.lock(opened, path)
        header, whole, _ = os.pread(opened, MOST_BYTES, 0).partition(b"\n")
        if found.st_size and not (whole and header.endswith(f"{DELIMITER}{SEAL}".encode())):
            raise ArchiveError(f"{path}: not a log of node checks")
        return opened, header.decode("utf-8", "replace")
    except BaseException:
        os.close(opened)
        raise


def sealed(before: bytes, line: str) -> str:
    """The seal of a line, given its text without the seal and the whole line before it."""
    return hashlib.sha256(before + b"\n" + line.encode()).hexdigest()


def _rename(path: Path) -> None:
    taken = [one.name.rpartition(".h")[2] for one in path.parent.glob(f"{path.name}.h*")]
    number = max((int(one) for one in taken if one.isdigit()), default=-1) + 1
    os.rename(path, path.with_name(f"{path.name}.h{number}"))
    durable.sync_folder(path.parent)


def is_one(path: Path) -> bool:
    """Whether a file is such a log, by its header."""
    with path.open("rb") as stream:
        return stream.readline(MOST_BYTES).endswith(f"{DELIMITER}{SEAL}\n".encode())


def faults(path: Path) -> Iterator[str]:
    """What is wrong with the first line whose seal does not match its text and the line before it."""
    with path.open("rb") as stream:
        before = stream.readline().rstrip(b"\n")
        for number, text in enumerate(stream, 2):
            line, _, seal = text.rstrip(b"\n").rpartition(DELIMITER.encode())
            if not text.endswith(b"\n"):
                return  # cut short: the next check removes it
            if sealed(before, line.decode("utf-8", "replace")).encode() != seal:
                yield f"line {number} is not what was sealed, or one before it is missing"
                return
            before = text.rstrip(b"\n")
