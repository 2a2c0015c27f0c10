"""Cost of the pages of large sessions: `python -m tools.bench.pages [--nodes N]` prints a table.

1,000 nodes x 12 checks as a grid, and eight GPUs with sweeps of all pairs as one page, each in a separate process.
Exit status 1 if a session exceeds the limits of time, memory or size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tenken.archive.records import SESSIONS
from tools import synthetic

#: Maximum seconds of CPU, MiB of memory and bytes of the index.
GRID = (60.0, 1024.0, 1_000_000)
EIGHT = (20.0, 1024.0, 3_000_000)
START = datetime(2026, 1, 1, 18)

_MEASURED = """
import json, resource, sys, time
from pathlib import Path
from tenken.model.catalogue import load_catalogue
from tenken.report import fleet, page, session
start, target = time.process_time(), Path(sys.argv[2])
if sys.argv[3] == "grid":
    fleet.write(Path(sys.argv[1]), "last", load_catalogue(), target, "")
else:
    target.write_text(page.render(session.load(Path(sys.argv[1]), "last"), load_catalogue()))
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([time.process_time() - start, most, target.stat().st_size]))
"""


def nodes_of(archive: Path, nodes: int, checks: int = 12) -> None:
    """STREAM of four GPUs, `checks` times on each node; one GPU in a thousand is slow and failed."""
    for number in range(nodes * checks):
        node, check = divmod(number, checks)
        name = f"n{node:04d}"
        metrics = [
            synthetic.metric(kernel, {"gpu": gpu}, [4000.0 + gpu + node % 7] * 5)
            for kernel in ("copy", "scale", "add", "triad", "dot")
            for gpu in range(4)
        ]
        _write(archive, name, f"Stream{check}", "stream", metrics, 4, number, number % 4000 == 17)


def eight_gpus(archive: Path, sizes: int = 20) -> None:
    """Sweeps between all pairs of eight GPUs, by three methods and with times, and STREAM of each."""
    number = 0
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    for way in ("peer", "read", "write"):
        metrics: list[dict[str, Any]] = []
        for a, b in pairs:
            for power in range(10, 10 + sizes):
                rate = 400.0 * 2**power / (2**power + 3e6)
                one = synthetic.metric(f"{way}_by_size", {"from": a, "to": b}, [rate, rate * 0.99, rate * 1.01])
                metrics.append({**one, "id": f"{one['id']}.bytes={2**power}", "at": {"bytes": 2**power}})
        _write(archive, "n0", f"P2P{way}", "p2p", metrics, 8, number)
        number += 1
    stream = [synthetic.metric(k, {"gpu": g}, [4000.0 + g] * 100) for k in ("copy", "triad", "dot") for g in range(8)]
    _write(archive, "n0", "StreamCuda", "stream", stream, 8, number)


def _write(
    archive: Path, node: str, check: str, program: str, metrics: Any, gpus: int, number: int, bad: bool = False
) -> None:
    session = "20260101T180000Z-bench0"
    said = {"verdict": "FAIL", "metric": metrics[0]["id"], "subject": f"{node} GPU 0", "message": f"{node}: slow",
            "value": None, "unit": None, "bound": None, "miss": None}  # fmt: skip
    changes = {"verdict": "FAIL", "findings": [said]} if bad else {}
    record = synthetic.record(
        "bench", node, START + timedelta(seconds=number), check, program, metrics, synthetic.devices(node, gpus),
        **changes,
    )  # fmt: skip
    synthetic.write(archive, {**record, "session": session}, number)
    (archive / SESSIONS / session).mkdir(parents=True, exist_ok=True)


def measure(kind: str, archive: Path, target: Path) -> tuple[float, float, int]:
    """Seconds of CPU, MiB and bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, archive, target, kind], capture_output=True, text=True, check=True
    )
    seconds, most, size = json.loads(done.stdout)
    return seconds, most, size


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    options = parser.parse_args(arguments)
    missed = 0
    print("| session | CPU, s | memory, MiB | index, bytes |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="tenken-bench-") as folder:
        root = Path(folder)
        nodes_of(root / "many", options.nodes)
        eight_gpus(root / "eight")
        for kind, name, asked in (
            ("grid", f"{options.nodes} nodes x 12 checks", GRID),
            ("page", "8 GPUs, sweeps of all pairs", EIGHT),
        ):
            found = measure(kind, root / ("many" if kind == "grid" else "eight"), root / f"{kind}.html")
            wrong = any(a > b for a, b in zip(found, asked, strict=True))
            missed += wrong
            print(f"| {name} | {found[0]:.1f} | {found[1]:.0f} | {found[2]} |{' MISSED' if wrong else ''}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
