"""A detector on disk: a digest of what follows, one line of JSON, then its arrays in memory layout. The content is data
and never executed.

    <digest>
    {"mark": "...", "nights": 61, "night": 61, ...}
    <the arrays, the events: bytes>

Names, types and shapes of the arrays are those of a new detector with the same number of series, and `mark` is also of
its code: what has the digest and the mark is what this code wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from tenken.errors import TenkenError
from tenken.history.detect.detector import Detector
from tenken.history.detect.excursions import Excursions
from tenken.history.detect.findings import Event
from tenken.history.detect.volatility import Volatility
from tenken.model import files

_EVENT = np.dtype(
    [("series", "<i8"), ("kind", "S8"), ("worse", "?"), ("change_night", "<i8"), ("found_night", "<i8"),
     ("size", "<f8"), ("low", "<f8"), ("high", "<f8"), ("evidence", "<f8"), ("p_value", "<f8"), ("recovered", "<i8"),
     ("withdrawn", "?"), ("ended", "<i8"), ("former", "<f8")]
)  # fmt: skip


class StateError(TenkenError):
    """The reason why a file is not a usable state."""


def write(path: Path, mark: str, nights: int, detector: Detector) -> None:
    """Store a detector after this many nights, readable and writable only by this user. Raises OSError."""
    events = np.array(
        [(e.series, e.kind.encode(), *astuple(e)[2:-3], -1 if e.recovered_night is None else e.recovered_night,
          e.withdrawn, -1 if e.ended_night is None else e.ended_night, former)
         for e, former in zip(detector._events, detector._formers, strict=True)],
        dtype=_EVENT,
    )  # fmt: skip
    worse, better = detector._excursions
    head = {
        "mark": mark, "nights": nights, "night": int(detector.night), "judged": int(detector._judged),
        "exposed": float(worse._exposed), "exposed_better": float(better._exposed),
        "watched": int(worse.nights), "watched_better": int(better.nights),
    }  # fmt: skip
    parts = [
        json.dumps(head).encode() + b"\n",
        *(array.tobytes() for _, _, array in _arrays(detector)),
        events.tobytes(),
    ]
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_digest(*parts) + b"\n")
            stream.writelines(parts)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, fresh: Detector, most: int, mark: Callable[[int], str]) -> int | None:
    """Load a new detector from `path`; returns the number of its nights, at most `most`.

    None if there is no file, or if it is of another history than `mark` after this many nights. Raises StateError for a
    file that is damaged or writable by others.
    """
    try:
        stream, facts = files.open_regular(path)
    except files.NoFile:
        return None
    except files.FileError as error:
        raise StateError(str(error)) from None
    with stream:
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise StateError("it is writable by other users")
        digest, content = stream.readline(64).rstrip(), stream.read()
    if digest != _digest(content):
        raise StateError("is damaged, or of an earlier release")
    end = content.index(b"\n") + 1
    head = json.loads(content[:end])
    if head["nights"] > most or head["mark"] != mark(head["nights"]):
        return None
    for owner, name, array in list(_arrays(fresh)):
        setattr(owner, name, np.frombuffer(content, array.dtype, array.size, end).reshape(array.shape).copy())
        end += array.nbytes
    _restore(fresh, head, np.frombuffer(content[end:], _EVENT))
    return int(head["nights"])


def _arrays(detector: Detector) -> Iterator[tuple[Any, str, np.ndarray]]:
    """(owner, name, array) of everything that changes from night to night, in a fixed order."""
    owners: list[Detector | Excursions | Volatility] = [detector, *detector._excursions, detector._volatility]
    for owner in owners:
        for name, value in sorted(vars(owner).items()):
            if isinstance(value, np.ndarray) and name not in ("_sign", "_lasting"):
                yield owner, name, value


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()


def _night(stored: int) -> int | None:
    return None if stored < 0 else stored


def _restore(detector: Detector, head: dict[str, Any], events: np.ndarray) -> None:
    detector.night, detector._judged = head["night"], head["judged"]
    for excursions, side in zip(detector._excursions, ("", "_better"), strict=True):
        excursions._exposed, excursions.nights = head[f"exposed{side}"], head[f"watched{side}"]
    told: list[list[Any]] = [list(one) for one in events.tolist()]
    detector._events = [
        Event(one[0], one[1].decode(), *one[2:-4], _night(one[-4]), one[-3], _night(one[-2]))  # type: ignore[call-arg]
        for one in told
    ]
    detector._formers = [one[-1] for one in told]
    detector._standing = {}
    for index, event in enumerate(detector._events):
        if event.worse and event.recovered_night is None and event.kind != "noisy":
            detector._standing.setdefault(event.series, []).append(index)
