"""A file that a submitted job leaves next to its script, so that it can be found after its session was killed.

`tenken-job.json` in the stage folder: written when the job is submitted, removed when its record is archived. If it
exists while its session is dead, it belongs to an orphan (`tenken jobs`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "tenken-job.json"


@dataclass(frozen=True)
class Entry:
    """One job. `folder`: its stage folder; `submitted` in seconds since 1970; `pid`, `host`: of its session."""

    folder: Path
    job_id: str
    session: str
    case: str
    token: str | None
    scheduler: str
    cancel: str
    stdout: str
    pid: int
    host: str
    submitted: float

    @property
    def mark(self) -> str:
        """The mark with which the job is found in the queue."""
        return mark(self.session, self.token)

    @property
    def session_lives(self) -> bool | None:
        """Whether its session still runs; None: it was started on another host."""
        if self.host != socket.gethostname():
            return None
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False
        return b"reframe" in command


def mark(session: str, token: str | None) -> str:
    """`tenken/SESSION/TOKEN`; for a build, `build`."""
    return f"tenken/{session}/{token or 'build'}"


def write(job: Any, scheduler: str, cancel: str) -> None:
    """Record a submitted job. On a full disk the job is not lost, only harder to find."""
    words = {
        "job_id": str(job.jobid), "session": os.environ.get("TENKEN_SESSION", "none"), "case": job.name,
        "token": job.token, "scheduler": scheduler, "cancel": cancel, "stdout": job.stdout, "pid": os.getpid(),
        "host": socket.gethostname(), "submitted": time.time(),
    }  # fmt: skip
    path = Path(job.workdir, FILE)
    with contextlib.suppress(OSError):
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(words, indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)


def close(job: Any) -> None:
    """Removes the entry of a job whose end is known."""
    with contextlib.suppress(OSError):
        Path(job.workdir, FILE).unlink(missing_ok=True)


def read(path: Path) -> Entry | None:
    """An entry; None if it does not exist or cannot be read."""
    try:
        return Entry(folder=path.parent, **json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def entries(stage: Path) -> Iterator[Entry]:
    """All entries below a stage folder."""
    for path in sorted(stage.rglob(FILE)):
        entry = read(path)
        if entry is not None:
            yield entry
