"""Kills writers of the archive at random times: records announced as written must exist, and none may be damaged.

    python -m tools.kills [COUNT] [--seed N]

Two writers at once write records to one archive and are killed with SIGKILL after up to 20 ms, until COUNT (default:
1000) were. Exit status 1 if a record is lost or damaged. Linux only: a record is synced before it is announced.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tenken.archive import records as archive
from tenken.paths import ROOT

#: Writes one kept record repeatedly, each time with another number, and announces each one.
_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from tenken.archive import packed, records as archive
kept = packed.folder_of(Path("tests/data/h200-first-runs.tar.xz"))
first = replace(next(one for one in archive.records(kept) if one.result), session=sys.argv[2])
print("ready", flush=True)
n = 0
while True:
    archive.write(replace(first, parameters={"number": n}), Path(sys.argv[1]))
    n += 1
    print(n, flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome for the records of the killed writers."""

    kills: int
    announced: int
    read: int
    lost: tuple[str, ...]
    damaged: tuple[str, ...]


def kill(folder: Path, count: int, seed: int) -> Outcome:
    """Kill `count` writers of the archive `folder`, two at a time, and read the archive."""
    rng = random.Random(seed)
    announced: dict[str, int] = {}
    for number in range((count + 1) // 2):
        names = [f"20261121T000000Z-{number:04d}{side}" for side in "ab"]
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", _WRITER, str(folder), name], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            for name in names
        ]
        for writer in writers:
            assert writer.stdout is not None
            if writer.stdout.readline() != "ready\n":
                raise RuntimeError("a writer did not begin")
        time.sleep(rng.uniform(0.0, 0.02))
        for writer, name in zip(writers, names, strict=True):
            os.kill(writer.pid, signal.SIGKILL)
            output = writer.communicate()[0].split()
            announced[name] = int(output[-1]) if output else 0
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
