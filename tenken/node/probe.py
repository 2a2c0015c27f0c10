"""Children that read, and a parent that never exceeds its deadline.

A process in state D (a hanging driver, a file system whose server is gone) cannot be killed and must not be waited for.
So whatever may hang is read by a forked child, which writes its readings to a pipe, one JSON line at a time. The parent
reads the pipes until the deadline, kills the remaining children and continues. The child keeps none of our descriptors
open: a scheduler that waits for the end of our output would wait for the child too.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Tells the parent what is read next, so that the place of a hang is known, and passes on the parts already read.
Say = Callable[..., None]
Probe = Callable[[Say], Any]


@dataclass
class Answer:
    """The outcome of a probe."""

    value: Any = None
    error: str = ""
    """The exception that the probe raised."""
    hung: bool = False
    """It had not ended by the deadline."""
    at: str = ""
    """What it was about to read last."""
    parts: dict[str, Any] = field(default_factory=dict)
    """What it had read until then."""
    ended: bool = False


def run(probes: Mapping[str, Probe], seconds: float) -> dict[str, Answer]:
    """Runs all probes concurrently, each in its own child; ends within `seconds` plus a few hundredths."""
    until = time.monotonic() + seconds
    answers = {name: Answer() for name in probes}
    children: dict[int, tuple[str, int, bytearray]] = {}
    with selectors.DefaultSelector() as selector:
        for name, probe in probes.items():
            reading, pid = _start(probe)
            children[reading] = (name, pid, bytearray())
            selector.register(reading, selectors.EVENT_READ)
        while children and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                name, pid, buffer = children[key.fd]
                chunk = os.read(key.fd, 1 << 16)
                buffer += chunk
                if not chunk:
                    _take(answers[name], buffer)
                    if not answers[name].ended:  # killed, for example by the kernel for lack of memory
                        answers[name].error = "ended without an answer"
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del children[key.fd]
                    _reap(pid)
        for reading, (name, pid, buffer) in children.items():
            _take(answers[name], buffer)
            answers[name].hung = not answers[name].ended
            os.close(reading)
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            _reap(pid)
    return answers


def _start(probe: Probe) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # both sides call this: the first one counts
        return reading, pid
    try:
        _child(probe, writing)
    finally:
        os._exit(0)


def _child(probe: Probe, writing: int) -> None:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    os.dup2(writing, 3)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(4, 4096)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def write(**line: Any) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(3, data) :]

    def say(at: str, part: Any = None) -> None:
        write(at=at) if part is None else write(part=[at, part])

    try:
        write(value=probe(say))
    except Exception as error:  # any exception is reported, and the others continue
        write(error=f"{type(error).__name__}: {error}")


def _take(answer: Answer, buffer: bytearray) -> None:
    for line in bytes(buffer).split(b"\n")[:-1]:  # an incomplete line is dropped
        said = json.loads(line)
        if "part" in said:
            name, value = said["part"]
            answer.parts[name] = value
        elif "at" in said:
            answer.at = said["at"]
        elif "error" in said:
            answer.error, answer.ended = said["error"], True
        else:
            answer.value, answer.ended = said["value"], True


def _reap(pid: int) -> None:
    """Does not wait: a child that cannot die is adopted by init when we end."""
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)
