"""A detector on disk: a digest of what follows, one line of JSON, then its arrays in memory layout. The content is data
and never executed.

    <digest>
    {"mark": "...", "nights": 61, "night": 61, "events": [...], ...}
    <the arrays: bytes>

Names, types and shapes of the arrays are those of a new detector with the same number of series, and `mark` is also of
its code: what has the digest and the mark is what this code wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
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


class StateError(TenkenError):
    """The reason why a file is not a usable state."""


def write(path: Path, mark: str, nights: int, detector: Detector) -> None:
    """Store a detector after this many nights, readable and writable only by this user. Raises OSError."""
    worse, better = detector._excursions
    head = {
        "mark": mark, "nights": nights, "night": int(detector.night), "judged": int(detector._judged),
        "exposed": float(worse._exposed), "exposed_better": float(better._exposed),
        "watched": int(worse.nights), "watched_better": int(better.nights),
        "events": [astuple(event) for event in detector._events], "formers": detector._formers,
    }  # fmt: skip
    parts = [json.dumps(head).encode() + b"\n", *(array.tobytes() for _, _, array in _arrays(detector))]
    descriptor, temporary = tempfile.mkstemp(prefix=f".tmp-{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_digest(*parts) + b"\n")
            stream.writelines(parts)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


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
        if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StateError("it is writable by other users")
        digest, content = stream.readline().rstrip(), stream.read()
    if digest != _digest(content):
        raise StateError("is damaged, or of an earlier release")
    end = content.index(b"\n") + 1
    head = json.loads(content[:end])
    if head["nights"] > most or head["mark"] != mark(head["nights"]):
        return None
    for owner, name, array in list(_arrays(fresh)):
        setattr(owner, name, np.frombuffer(content, array.dtype, array.size, end).reshape(array.shape).copy())
        end += array.nbytes
    _restore(fresh, head)
    return int(head["nights"])


def _arrays(detector: Detector) -> Iterator[tuple[Any, str, np.ndarray]]:
    """(owner, name, array) of everything that changes from night to night, in a fixed order."""
    owners: list[Detector | Excursions | Volatility] = [detector, *detector._excursions, detector._volatility]
    for owner in owners:
        for name, value in sorted(vars(owner).items()):
            if isinstance(value, np.ndarray) and name not in ("_sign", "_lasting"):
                yield owner, name, value


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b()
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()


def _restore(detector: Detector, head: dict[str, Any]) -> None:
    detector.night, detector._judged = head["night"], head["judged"]
    for excursions, side in zip(detector._excursions, ("", "_better"), strict=True):
        excursions._exposed, excursions.nights = head[f"exposed{side}"], head[f"watched{side}"]
    detector._events = [Event(*one) for one in head["events"]]
    detector._formers = head["formers"]
    detector._standing = {}
    for index, event in enumerate(detector._events):
        if event.worse and event.recovered_night is None and event.kind != "noisy":
            detector._standing.setdefault(event.series, []).append(index)
