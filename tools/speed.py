"""Speed of ingesting and judging an archive: `python -m tools.speed [--documents N] [--rows N]` prints a table, and
fails if it exceeds the limits for a large machine.

Documents are records of four GPUs with 12 metrics of 100 samples each (about 40 kB), one folder per check and night;
perflog rows have this suite's own format. Both are first generated in a temporary folder, untimed.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tools import synthetic

DOCUMENTS_A_SECOND = 20_000 / 60
ROWS_A_SECOND = 1_000_000 / 60
MOST_GIB = 2.0
START = 5.0  # maximum seconds of the smallest case

_HEADER = (
    "result|job_completion_time|system|partition|environ|display_name|hashcode|jobid|job_nodelist|tenken_session|"
    "tenken_verdict|perf_var|perf_value|perf_unit|perf_ref|perf_lower_thres|perf_upper_thres|fail_phase"
)


def write_documents(archive: Path, count: int) -> None:
    """`count` different records, as in an archive of 64 nodes."""
    start = datetime(2025, 1, 1, 18)
    rng = random.Random(1)
    values = {name: 3000.0 + 100 * i for i, name in enumerate(("copy", "scale", "triad"))}
    for number in range(count):
        time_ = start + timedelta(days=number // 640, seconds=number % 640)
        node = f"n{number % 64:02d}"
        metrics = [
            synthetic.metric(name, {"gpu": gpu}, [value * rng.gauss(1, 0.01) for _ in range(100)])
            for name, value in values.items()
            for gpu in range(4)
        ]
        record = synthetic.record(
            "bench", node, time_, f"Stream{number // 64 % 10}", "stream", metrics, synthetic.devices(node, 4)
        )
        synthetic.write(archive, record, number)


def write_perflog(archive: Path, rows: int, nodes: int = 64, first: int = 0) -> None:
    """One log of `rows` lines: 50 metrics per run with a noise of 1 %, `nodes` runs per night from night `first` on."""
    path = archive / "bench" / "gpu" / "Plain.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    start = datetime(2025, 1, 1, 18)
    rng = random.Random(first)
    fresh = not path.exists()
    with path.open("a") as stream:
        if fresh:
            stream.write(_HEADER + "\n")
        for number in range(rows):
            run = number // 50 + first * nodes
            when = (start + timedelta(days=run // nodes, seconds=run % nodes)).isoformat()
            stream.write(
                f"pass|{when}+00:00|bench|gpu|cuda|Plain|f5fa858e|{run}|n{run % nodes:03d}||null|"
                f"m{number % 50}|{1000 * rng.gauss(1, 0.01):.3f}|GB/s|0|null|null|null\n"
            )


def _timed(archive: Path, store: Path, *command: str) -> tuple[float, float, float]:
    """Elapsed and CPU seconds, and GiB (maximum resident set), of one `tenken` command."""
    begin = time.monotonic()
    code = (
        "import resource, sys; from tenken.cli import main; rc = main(sys.argv[1:]); "
        "r = resource.getrusage(resource.RUSAGE_SELF); print(r.ru_utime + r.ru_stime, r.ru_maxrss); sys.exit(rc)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *(command or ("ingest",)), "--archive", str(archive), "--store", str(store)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(done.stderr)
    cpu, memory = done.stdout.split()[-2:]
    return time.monotonic() - begin, float(cpu), int(memory) / 2**20


@dataclass(frozen=True)
class Cost:
    """The cost of one case, and its limits in seconds (None: no limit) and GiB on two cores."""

    case: str
    seconds: float
    processor: float
    memory: float
    at_most: float | None

    def __str__(self) -> str:
        asked = "" if self.at_most is None else f"{self.at_most:g}"
        return f"| {self.case} | {asked} | {self.seconds:.1f} | {self.processor:.1f} | {self.memory:.2f} |"

    @property
    def missed(self) -> bool:
        return self.memory > MOST_GIB or (self.at_most is not None and self.seconds > self.at_most)


def costs(documents: int, rows: int, nights: int, folder: Path) -> Iterator[Cost]:
    """Each case in turn; the archives are in `folder`."""
    for title, write, count, at_most in (
        ("documents", write_documents, documents, max(START, documents / DOCUMENTS_A_SECOND)),
        ("perflog rows", write_perflog, rows, max(START, rows / ROWS_A_SECOND)),
    ):
        archive, store = folder / title.split()[0], folder / f"{title.split()[0]}.duckdb"
        write(archive, count)
        yield Cost(f"{count} {title}", *_timed(archive, store), at_most)
        yield Cost("the same again, nothing new", *_timed(archive, store), None)
    if nights:
        archive, store = folder / "fleet", folder / "fleet.duckdb"
        write_perflog(archive, 10_000 * nights, 200)
        _timed(archive, store)
        gate = ("gate", "--no-ingest", "--max-age", "0", "--output", str(folder / "out"))
        yield Cost(f"gate over 10000 series x {nights} nights", *_timed(archive, store, *gate), 60.0)
        write_perflog(archive, 10_000, 200, nights)
        _timed(archive, store)
        yield Cost("gate again with one new night", *_timed(archive, store, *gate), 10.0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--nights", type=int, default=200, help="nights of the gate's fleet; 0: no gate (default: 200)")
    parser.add_argument("--folder", type=Path, help="where to make the archives (default: a temporary folder)")
    options = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("| case | at most, s | seconds | of processor | memory GiB |\n|---|---|---|---|---|")
    missed = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for cost in costs(options.documents, options.rows, options.nights, Path(name)):
            print(cost, flush=True)
            missed += [cost] if cost.missed else []
    for cost in missed:
        print(f"missed: {cost.case}: {cost.seconds:.1f} s, {cost.memory:.2f} GiB (at most {MOST_GIB:g})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
