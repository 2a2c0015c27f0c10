"""A detector on disk: one line of JSON, then its arrays in memory layout. The content is data and never executed.

    {"format": "tenken-state/12", "mark": "...", "nights": 61, "events": 3, ..., "digest": "..."}
    <the arrays, the events: bytes>

Names, types and shapes of the arrays are those of a new detector with the same number of series: a file cannot
request others, and its length is known before it is read.
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

FORMAT = "tenken-state/12"
#: Maximum length of the first line in bytes.
_HEAD = 4096
#: Maximum of a number: beyond it JSON is not exact.
_MOST = 2**53
_NUMBERS: dict[str, type] = {
    "night": int, "judged": int, "exposed": float, "exposed_better": float, "watched": int, "watched_better": int,
}  # fmt: skip
_EVENT = np.dtype(
    [("series", "<i8"), ("kind", "S8"), ("worse", "?"), ("change_night", "<i8"), ("found_night", "<i8"),
     ("size", "<f8"), ("low", "<f8"), ("high", "<f8"), ("evidence", "<f8"), ("p_value", "<f8"), ("recovered", "<i8"),
     ("withdrawn", "?"), ("ended", "<i8"), ("former", "<f8")]
)  # fmt: skip
_KINDS = (b"step", b"drift", b"noisy")


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
    body = [array.tobytes() for _, _, array in _arrays(detector)] + [events.tobytes()]
    worse, better = detector._excursions
    head = {
        "format": FORMAT, "mark": mark, "nights": nights, "events": len(events),
        "night": int(detector.night), "judged": int(detector._judged), "exposed": float(worse._exposed),
        "exposed_better": float(better._exposed), "watched": int(worse.nights), "watched_better": int(better.nights),
        "digest": _digest(body),
    }  # fmt: skip
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(json.dumps(head).encode() + b"\n")
            stream.writelines(body)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, fresh: Detector, most: int, mark: Callable[[int], str]) -> int | None:
    """Load a new detector from `path`; returns the number of its nights, at most `most`.

    None if there is no file, or if it is of another history than `mark` after this many nights. Raises StateError for a
    file that is damaged, of another version, or writable by others.
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
        line = stream.readline(_HEAD)
        head = _head(line)
        if head["nights"] > most or head["mark"] != mark(head["nights"]):
            return None
        arrays = list(_arrays(fresh))
        sizes = [*(array.nbytes for _, _, array in arrays), head["events"] * _EVENT.itemsize]
        if sum(sizes) != facts.st_size - len(line):
            raise StateError(f"has {facts.st_size - len(line)} bytes where {sum(sizes)} are expected")
        body = [stream.read(size) for size in sizes]
    if _digest(body) != head["digest"]:
        raise StateError("is damaged: its digest does not match")
    for (owner, name, array), content in zip(arrays, body, strict=False):
        setattr(owner, name, np.frombuffer(content, array.dtype).reshape(array.shape).copy())
    _restore(fresh, head, np.frombuffer(body[-1], _EVENT))
    return int(head["nights"])


def _arrays(detector: Detector) -> Iterator[tuple[Any, str, np.ndarray]]:
    """(owner, name, array) of everything that changes from night to night, in a fixed order."""
    owners: list[Detector | Excursions | Volatility] = [detector, *detector._excursions, detector._volatility]
    for owner in owners:
        for name, value in sorted(vars(owner).items()):
            if isinstance(value, np.ndarray) and name not in ("_sign", "_lasting"):
                yield owner, name, value


def _digest(body: list[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in body:
        digest.update(part)
    return digest.hexdigest()


def _head(line: bytes) -> dict[str, Any]:
    if line[:1] == b"\x80":
        raise StateError("was written by an earlier version")
    try:
        head = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or not str(head.get("format")).startswith("tenken-state/"):
        raise StateError("is damaged: not the header of a state file")
    if head["format"] != FORMAT:
        raise StateError("was written by another version")
    kinds: dict[str, type] = {"mark": str, "digest": str, "nights": int, "events": int, **_NUMBERS}
    for name, kind in kinds.items():
        value: Any = head.get(name)
        if type(value) is not kind or (isinstance(value, (int, float)) and not 0 <= value < _MOST):
            raise StateError(f"is damaged: '{name}' is {repr(value)[:40]}")
    return head


def _night(stored: int) -> int | None:
    return None if stored < 0 else stored


def _restore(detector: Detector, head: dict[str, Any], events: np.ndarray) -> None:
    """The remaining data; indices are validated."""
    indices: list[tuple[str, int, int]] = [
        ("_choice", 0, len(detector.settings.level_weights)), ("_last_event", -1, len(events)),
        ("_open", -1, len(events)), ("_number", 0, _MOST), ("_since", 0, _MOST), ("_told", 0, _MOST),
        ("_back_nights", 0, _MOST), ("_noisy", -1, len(events)),
    ]  # fmt: skip
    for name, least, end in indices:
        array = getattr(detector, name)
        if len(array) and not (array.min() >= least and array.max() < end):
            raise StateError(f"is damaged: {name.strip('_')} out of range")
    rows = events["series"]
    if len(rows) and not (rows.min() >= 0 and rows.max() < detector.series):
        raise StateError("is damaged: an event of an unknown series")
    if not set(events["kind"].tolist()) <= set(_KINDS):
        raise StateError("is damaged: an event of an unknown kind")
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
