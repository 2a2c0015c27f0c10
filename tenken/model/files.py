"""Reading files left by another program or person: a regular file of bounded size, or a clear reason.

A pipe would block, a device never end, and a link may lead anywhere, so each is rejected before a byte is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from tenken.errors import TenkenError

#: Bytes that are read at a time
_PIECE = 1 << 20


class FileError(TenkenError):
    """Why a file cannot be read, without its name; `line` (from 1) if known."""

    line: int | None = None


class NoFile(FileError):
    """The file does not exist."""


def open_regular(path: Path, links: bool = False) -> tuple[BinaryIO, os.stat_result]:
    """A regular file and its status; `links`: also through a symbolic link. Raises FileError."""
    descriptor, facts = _opened(path, links)
    return os.fdopen(descriptor, "rb"), facts


def _opened(path: Path | str, links: bool) -> tuple[int, os.stat_result]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW))
    except FileNotFoundError:
        raise NoFile("there is no such file") from None
    except OSError as error:
        link = not links and os.path.islink(path)
        raise FileError("is a symbolic link" if link else f"cannot be read: {error.strerror}") from None
    except ValueError:  # a NUL in the name
        raise FileError("cannot be read: its name contains a NUL character") from None
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        raise FileError("is not a regular file")
    return descriptor, facts


def read_text(path: Path | str, most: int, links: bool = False) -> str:
    """The UTF-8 text of a regular file of at most `most` bytes. Raises FileError."""
    descriptor, facts = _opened(path, links)
    try:
        if facts.st_size > most:
            raise FileError(f"has {facts.st_size} bytes; at most {most} are accepted")
        try:
            content = _up_to(descriptor, facts.st_size + 1)
            if len(content) > facts.st_size:  # it grew meanwhile; a buffer of `most` bytes is slower
                content += _up_to(descriptor, most + 1 - len(content))
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise FileError(f"grew beyond {most} bytes while being read")
    return decoded(content)


def _up_to(descriptor: int, count: int) -> bytes:
    """The next `count` bytes, or all that remain."""
    pieces, missing = [], count
    while missing and (piece := os.read(descriptor, min(missing, _PIECE))):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def decoded(content: bytes) -> str:
    """UTF-8 text without a byte order mark. Raises FileError, which names the encoding if it can be recognised."""
    for mark, name in ((b"\xef\xbb\xbf", "UTF-8 with a byte order mark"), (b"\xff\xfe", "UTF-16 or UTF-32"),
                       (b"\xfe\xff", "UTF-16"), (b"\x00\x00\xfe\xff", "UTF-32")):  # fmt: skip
        if content.startswith(mark):
            raise FileError(f"is {name}; write it as plain UTF-8")
    if b"\x00" in content[:64]:
        raise FileError("contains zero bytes: it is binary, UTF-16 or UTF-32; write it as plain UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = FileError(f"is not UTF-8 text: byte {content[error.start]:#04x} in line {line}")
        wrong.line = line
        raise wrong from None
