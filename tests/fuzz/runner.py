"""Passes broken inputs to the parsers and reports what must never happen: an unexpected error, or more than two
seconds."""

from __future__ import annotations

import faulthandler
import hashlib
import random
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import Target

#: CPU seconds that one input may take, and elapsed seconds after which the process itself is abandoned.
MOST_SECONDS, LOST_SECONDS = 2.0, 600.0


class Hang(BaseException):
    """An input took too long."""


@dataclass
class Tally:
    """The outcome of the inputs of one parser."""

    name: str
    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    largest: int = 0
    #: (number of the input, what happened)
    failures: list[tuple[int, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return (
            f"{self.name:13} {self.inputs:7} inputs, {self.refused:7} refused, slowest {self.slowest * 1e3:6.0f} ms, "
            f"largest {self.largest:6} bytes, {len(self.failures)} failures"
        )


def input_of(target: Target, seed: int, number: int) -> bytes:
    """Input `number` of a target: the same for the same seed."""
    name = int.from_bytes(hashlib.blake2b(target.name.encode(), digest_size=4).digest(), "big")
    return mutated(target.corpus, random.Random((seed << 64) + (name << 32) + number), target.structured)


def give(target: Target, content: bytes, tally: Tally, number: int) -> None:
    """One input; a violation is added to the tally."""
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 2 * MOST_SECONDS)
    what = ""
    try:
        target.read(content)
    except target.errors as error:
        tally.refused += 1
        if not str(error).strip() or any(not (c.isprintable() or c in "\n\t") and ord(c) < 32 for c in str(error)):
            what = f"refused with {str(error)!r}: no clear line"
    except Hang:
        pass
    except Exception as error:
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else "nowhere"
        what = f"{type(error).__name__}: {str(error)[:200]} at {where}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent = time.process_time() - begin
    if spent > MOST_SECONDS:
        what = f"took {spent:.1f} s"
    tally.inputs += 1
    tally.slowest, tally.largest = max(tally.slowest, spent), max(tally.largest, len(content))
    if what:
        tally.failures.append((number, what))


def run(
    targets: Iterable[Target], seed: int, first: int, counts: Callable[[Target], int], until: float | None = None
) -> list[Tally]:
    """Inputs from `first` on for each target; `until` (monotonic seconds) ends it early."""

    def too_long(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, too_long)
    tallies = []
    try:
        for target in targets:
            tally = Tally(target.name)
            tallies.append(tally)
            for number in range(first, first + counts(target)):
                if until is not None and time.monotonic() > until:
                    break
                faulthandler.dump_traceback_later(LOST_SECONDS, exit=True)
                give(target, input_of(target, seed, number), tally, number)
            faulthandler.cancel_dump_traceback_later()
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)
    return tallies
