"""Ends what a job on this machine leaves running.

ReFrame kills the process group of a local job as soon as its script has ended. Open MPI, `timeout` and ninja put their
children into a separate group. These would keep running, hold the machine's locks and disturb the next measurement.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from reframe.core.schedulers.local import LocalJobScheduler


def of_session(leader: int) -> list[int]:
    """Processes of the session that a job's script leads; they remain in it when the script has ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # pid (name) state ppid pgrp session ...: the name may contain anything
            if int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[3]) == leader:
                found.append(int(folder.name))
    return found


def register() -> None:
    """Makes ReFrame's local scheduler kill the whole session of a job that has ended or is cancelled."""
    kill_group = LocalJobScheduler._kill_all

    def kill_session(self: Any, job: Any) -> None:
        for pid in of_session(job._jobid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        kill_group(self, job)

    LocalJobScheduler._kill_all = kill_session
