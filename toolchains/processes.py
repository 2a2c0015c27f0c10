"""Commands and locks of these tools: each has a bound, and states what is waited for."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Seconds after which a line states what is waited for, and again, and after which it is given up.
SAID_S, GIVEN_UP_S = 30.0, 3600.0
#: Seconds between two tries of a lock.
_PAUSE_S = 0.5


class ToolchainError(Exception):
    """An error that a user can act on; the text is one line: what, where, what to do."""


def run(
    command: Sequence[str], text: str | None = None, what: str = "", **more: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a command with its output captured. Raises ToolchainError if it does not end, OSError if it does not start.

    `text` is its input, `what` names it in the line that states that it still runs.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip
    began = time.monotonic()
    with process:
        while True:
            try:
                output, errors = process.communicate(text, timeout=SAID_S)
                return subprocess.CompletedProcess(list(command), process.returncode, output, errors)
            except subprocess.TimeoutExpired:
                text = None  # it is being written
                _say_or_give_up(what or Path(command[0]).name, time.monotonic() - began, process.kill)
            except BaseException:
                process.kill()
                raise


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Two processes that need the same folder create it once: the second waits for the first. Raises ToolchainError."""
    with lock.open("w") as stream:
        began = said = time.monotonic()
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if said == began or time.monotonic() - said >= SAID_S:
                    said = time.monotonic()
                    _say_or_give_up(f"another process, which holds {lock},", said - began)
                time.sleep(_PAUSE_S)
            except OSError:  # a file system without locks
                break
        yield


def _say_or_give_up(what: str, seconds: float, end: Callable[[], None] = lambda: None) -> None:
    if seconds < GIVEN_UP_S:
        print(f"{what} still runs after {seconds:.0f} s; given up after {GIVEN_UP_S / 60:.0f} min", file=sys.stderr)
        return
    end()
    raise ToolchainError(f"{what} still ran after {seconds / 60:.0f} min: given up")
