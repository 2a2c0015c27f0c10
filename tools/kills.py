"""Kills writers of the archive at random times: records announced as written must exist, and none may be damaged.

    python -m tools.kills [COUNT] [--seed N]

Two writers at a time write records to one archive and are killed with SIGKILL within 20 ms, until COUNT (default: 1000)
have been. Exit status 1 if a record is lost or damaged. Linux only: a record is synced before it is announced.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import random
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from tenken.archive import packed
from tenken.archive import records as archive
from tenken.model.record import Record
from tenken.paths import ROOT

_KEPT = ROOT / "tests" / "data" / "h200-first-runs.tar.xz"


@dataclass(frozen=True)
class Outcome:
    """The outcome for the records of the killed writers."""

    kills: int
    announced: int
    read: int
    lost: tuple[str, ...]
    damaged: tuple[str, ...]


def write(folder: Path, first: Record, ready: Connection) -> None:
    """Write a record to the archive repeatedly, each time with another number, and announce each one."""
    ready.send(0)
    for number in itertools.count(1):
        archive.write(replace(first, parameters={"number": number - 1}), folder)
        ready.send(number)


def kill(folder: Path, count: int, seed: int) -> Outcome:
    """Kill `count` writers of the archive `folder`, two at a time, and read the archive.

    In every second round both have announced a record before the countdown to the kill begins; in the others they have
    only started.
    """
    rng = random.Random(seed)
    first = next(one for one in archive.records(packed.folder_of(_KEPT)) if one.result)
    # its server has imported everything once, and has no threads
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tenken.archive.packed", "tenken.archive.records"])
    announced: dict[str, int] = {}
    for number in range((count + 1) // 2):
        writers = {}
        for side in "ab":
            name = f"20261121T000000Z-{number:04d}{side}"
            told, tells = context.Pipe(duplex=False)
            writers[name] = context.Process(target=write, args=(folder, replace(first, session=name), tells)), told
            writers[name][0].start()
            tells.close()
        for name, (_, told) in writers.items():
            for wanted in range(1 + number % 2):
                if not told.poll(60):
                    raise RuntimeError("a writer did not begin")
                announced[name] = told.recv()
                assert announced[name] == wanted
        time.sleep(rng.uniform(0.0, 0.02))
        for name, (writer, told) in writers.items():
            writer.kill()
            writer.join()
            with contextlib.suppress(EOFError, OSError):
                while told.poll():
                    announced[name] = told.recv()
    damaged: list[archive.Damaged] = []
    found: dict[str, set[int]] = {}
    for read in archive.records(folder, damaged=damaged):
        found.setdefault(read.session, set()).add(read.parameters["number"])
    lost = tuple(
        f"{name}: record {n}"
        for name, count_of in announced.items()
        for n in range(count_of)
        if n not in found.get(name, set())
    )
    total = sum(len(numbers) for numbers in found.values())
    return Outcome(
        2 * ((count + 1) // 2), sum(announced.values()), total, lost, tuple(str(one.path) for one in damaged)
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=9)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill(Path(folder), given.count, given.seed)
    print(
        f"{outcome.kills} writers killed (seed {given.seed}): {outcome.announced} records announced, {outcome.read} "
        f"read, {len(outcome.lost)} lost, {len(outcome.damaged)} damaged"
    )
    return int(bool(outcome.lost or outcome.damaged))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
