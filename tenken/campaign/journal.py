"""The progress of a campaign: one line per event, synced before the next step, read again after any kill.

{"event": "campaign", ...}                        the file as it was when the campaign began
{"event": "intent", "token", "unit", "attempt"}   before a job is submitted
{"event": "submitted", "token", "job"}            the scheduler took it
{"event": "ended", "token", "why"}                it will leave nothing (more)
{"event": "gathered", "token", ...}               its records are in the archive
{"event": "phase", ...}                           suspects were chosen for their second run
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.archive import disk, durable
from tenken.campaign.file import CampaignError

FILE = "journal.jsonl"


@dataclass(frozen=True)
class Unit:
    """A unit of work: one run of all checks on a node. `purpose`: round or retest."""

    node: str
    purpose: str = "round"
    number: int = 1

    @property
    def id(self) -> str:
        return f"{self.node}/{self.purpose}/{self.number}"

    @classmethod
    def of(cls, text: str) -> Unit:
        node, purpose, number = text.rsplit("/", 2)
        return cls(node, purpose, int(number))


@dataclass
class Attempt:
    """A job of a unit. `ended`: why it will produce nothing; `gathered`: which of its results were gathered."""

    token: str
    unit: Unit
    number: int
    job: str | None = None
    ended: str | None = None
    gathered: Mapping[str, Any] | None = None
    submitted: float = 0.0

    @property
    def open(self) -> bool:
        return self.ended is None and self.gathered is None


@dataclass(frozen=True)
class Chosen:
    """Nodes to be run a second time, with the checks that caused it (none: all of them). `void`: a measurement was
    INVALID, so its repetition is the first one that can be compared with other nodes.
    """

    checks: Mapping[str, Sequence[str]]
    void: bool = False


@dataclass
class State:
    """All attempts by token, in order."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    begun: dict[str, Any] = field(default_factory=dict)
    retests: list[Unit] = field(default_factory=list)
    #: Checks to which a second run is limited, if any.
    only: dict[Unit, tuple[str, ...]] = field(default_factory=dict)
    phases: list[dict[str, Any]] = field(default_factory=list)

    by_unit: dict[Unit, list[Attempt]] = field(default_factory=dict)
    #: Number of events read, and seconds that nodes spent on gathered results.
    version: int = 0
    seconds: float = 0.0
    _open: dict[str, Attempt] = field(default_factory=dict)

    def open(self) -> list[Attempt]:
        """Attempts that may still leave something, in order."""
        return list(self._open.values())

    def tried(self, unit: Unit) -> list[Attempt]:
        """All attempts of a unit."""
        return self.by_unit.get(unit, [])

    def done(self, unit: Unit) -> bool:
        """Whether it has its result."""
        return any(a.gathered is not None for a in self.tried(unit))

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("event")
        self.version += 1
        if kind == "campaign":
            self.begun = dict(event)
        elif kind == "intent":
            unit = Unit.of(event["unit"])
            attempt = Attempt(event["token"], unit, event["attempt"], submitted=event["time"])
            self.attempts[attempt.token] = self._open[attempt.token] = attempt
            self.by_unit.setdefault(unit, []).append(attempt)
        elif kind == "phase":
            self.phases.append(dict(event))
            self.retests += [Unit.of(text) for text in event["units"]]
            self.only |= {Unit.of(text): tuple(checks) for text, checks in event.get("only", {}).items()}
        elif event.get("token") in self.attempts:
            attempt = self.attempts[event["token"]]
            if kind == "submitted":
                attempt.job = event["job"]
            elif kind == "ended":
                attempt.ended = event["why"]
                self._open.pop(attempt.token, None)
            elif kind == "gathered":
                if attempt.gathered is None:
                    self.seconds += float(event.get("seconds", 0.0))
                attempt.gathered = dict(event)
                self._open.pop(attempt.token, None)


class Journal:
    """The journal of one campaign, held by one process at a time."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.clock = clock
        self.state = State()
        self._stream: Any = None

    def open(self) -> None:
        """Reads the existing journal and locks it. Raises CampaignError if another process holds it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stream = self.path.open("ab")
        durable.sync_folder(self.folder)
        try:
            durable.lock(self._stream.fileno(), self.path, 0.0)
        except TimeoutError:
            self._stream.close()
            raise CampaignError(f"{self.path}: another process is running this campaign") from None
        self.state = read(self.folder)
        whole = _whole(self.path)
        if whole < self.path.stat().st_size:  # the last line was being written when the process was killed
            os.truncate(self.path, whole)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def note(self, event: str, **words: Any) -> None:
        """Appends one event and syncs it before returning. Raises CampaignError if the disk is full."""
        line = {"event": event, "time": round(self.clock(), 3), **words}
        text = (json.dumps(line, separators=(",", ":")) + "\n").encode()

        def write() -> None:
            with durable.appended(self._stream.fileno(), text):
                pass

        try:
            disk.patiently(write, self.folder)
        except OSError as error:
            raise CampaignError(
                f"{self.path}: cannot be written: {error.strerror}; `resume` continues from here"
            ) from None
        self.state.take(line)


def read(folder: Path) -> State:
    """The contents of a journal, without locking it; an incomplete last line is left out. Raises CampaignError."""
    state = State()
    for number, line in enumerate(_lines(folder / FILE), 1):
        try:
            state.take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CampaignError(f"{folder / FILE}:{number}: not a line of a campaign journal") from None
    return state


def _lines(path: Path) -> Iterator[bytes]:
    with contextlib.suppress(FileNotFoundError):
        content = path.read_bytes()
        yield from content[: content.rfind(b"\n") + 1].splitlines()


def _whole(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1
