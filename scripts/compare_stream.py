"""Our host STREAM compared with LIKWID's assembly kernels on the same cores, in alternating rounds of one run.

    apt-get install likwid; make run; . .venv/bin/activate
    python scripts/compare_stream.py --rounds 9 --stream .build/local-node-host/bin/stream

Neighbours of a virtual machine share its memory, so only rounds of one run are compared. Each round runs every LIKWID
kernel and stream once, and the ratio is taken within the round. Prints, per kernel, the median and the best of both
over the rounds, in GB/s, and the median ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

#: LIKWID kernels that do what a STREAM kernel does, with non-temporal stores; the best of them counts.
KERNELS = {
    "copy": ("copy_mem_avx512", "copy_mem_avx", "copy_mem"),
    "triad": ("stream_mem_avx512", "stream_mem_avx_fma", "stream_mem_avx"),
    "dot": ("ddot_avx512", "ddot_avx"),
}


def likwid(kernel: str, megabytes: int, cores: int) -> float:
    """GB/s of one LIKWID kernel over `megabytes` MB of arrays in all; 0 if this CPU cannot run it."""
    command = ["likwid-bench", "-t", kernel, "-w", f"N:{megabytes}MB:{cores}", "-i", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"MByte/s:\s+([0-9.]+)", done.stdout)
    return float(found[1]) / 1000 if done.returncode == 0 and found else 0.0


def ours(stream: Path) -> dict[str, float]:
    """Medians in GB/s by metric."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [str(stream), "--repetitions", "100", "--warmup-seconds", "0.3", "--json", str(result)]
        env = {**os.environ, "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
        subprocess.run(command, check=True, capture_output=True, env=env)
        return {m["name"]: m["median"] for m in json.loads(result.read_text())["metrics"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stream", type=Path, required=True, help="the built program")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=384, help="of all arrays of a LIKWID kernel (default 384)")
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in KERNELS}
    for _ in range(arguments.rounds):
        theirs = {name: max(likwid(k, arguments.megabytes, cores) for k in ks) for name, ks in KERNELS.items()}
        mine = ours(arguments.stream)
        for name in KERNELS:
            rounds[name].append((mine[name], theirs[name]))
    print(f"{'kernel':8}{'stream median':>15}{'best':>8}{'LIKWID median':>16}{'best':>8}{'ratio':>8}")
    for name, pairs in rounds.items():
        a, b = [p[0] for p in pairs], [p[1] for p in pairs]
        ratio = statistics.median(x / y for x, y in pairs if y)
        print(f"{name:8}{statistics.median(a):15.1f}{max(a):8.1f}{statistics.median(b):16.1f}{max(b):8.1f}{ratio:8.3f}")


if __name__ == "__main__":
    main()
