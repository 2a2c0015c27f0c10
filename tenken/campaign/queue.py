"""What a campaign needs from a scheduler; `tenken.commands.campaign_queues` implements it for each one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Seen:
    """The present state of a job. `dead`: it waits and will never run; `blocked`: it waits for its node, which accepts
    no jobs; `held`: it waits for something else that somebody must fix, such as its partition; `why`: the scheduler's
    reason.
    """

    running: bool = False
    ended: bool = False
    dead: bool = False
    why: str = ""
    blocked: bool = False
    held: bool = False


@dataclass(frozen=True)
class Limits:
    """Number of jobs that the scheduler accepts at once; None: it has no such limit, or does not report it."""

    queued: int | None = None
    says: str = ""


@dataclass(frozen=True)
class JobScript:
    """The resources that a node job requests; `nodes`: all of them, if there are several."""

    name: str
    tag: str
    node: str
    seconds: float
    output: Path
    commands: Sequence[str]
    nodes: tuple[str, ...] = ()


class Refused(Exception):
    """The scheduler refused a job, or gave no answer: one line. `later`: it may be accepted another time."""

    def __init__(self, why: str, later: bool = True) -> None:
        super().__init__(why)
        self.later = later


class Queue(Protocol):
    """One scheduler's queue. All but `script` may raise Refused."""

    def script(self, job: JobScript) -> str:
        """The whole text of a job script."""
        ...

    def submit(self, path: Path) -> str:
        """The job's id."""
        ...

    def states(self, jobs: Sequence[str]) -> dict[str, Seen | None]:
        """By id; None: no answer; missing: no longer listed."""
        ...

    def tagged(self, tag: str) -> dict[str, str]:
        """Our waiting and running jobs: id by the part of their tag after `tag`."""
        ...

    def cancel(self, job: str) -> None: ...

    def limits(self) -> Limits: ...

    def exclusion(self, node: str, reason: str) -> str:
        """The command that takes a node out of service, for a person to read and run."""
        ...
