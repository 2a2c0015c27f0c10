"""Cost of judging: parses and judges every kept record of the H200 again, in CPU time.

    python -m tools.judging_speed

Exit status 1 if a record takes longer than the limit, scaled to its size above 200 KB.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time

from tenken.archive import packed
from tenken.archive import records as archive
from tenken.commands.judge import machine_of
from tenken.judge import rejudge
from tenken.model import record as records
from tenken.model.catalogue import load_catalogue
from tenken.paths import ROOT

KEPT = ("h200-archive.tar.xz", "h200-first-runs.tar.xz")
#: Milliseconds for a record of up to this many bytes; a larger one may take proportionally longer.
ASKED_MS, OF_BYTES = 50.0, 200_000
TIMES = 3


def main() -> int:
    load_catalogue()
    taken = []
    for name in KEPT:
        for path in archive.paths(packed.folder_of(ROOT / "tests" / "data" / name)):
            text = path.read_text(encoding="utf-8")
            machine = machine_of(None, records.parse(text, path))
            best = float("inf")
            for _ in range(TIMES):
                gc.collect()
                begin = time.process_time()
                rejudge.of_record(records.parse(text, path, figures_only=True), machine)
                best = min(best, 1e3 * (time.process_time() - begin))
            taken.append((best / max(1.0, len(text) / OF_BYTES), best, len(text), path.parent.name))
    worst = max(taken)
    print(f"{len(taken)} records parsed and judged, ms by the CPU's clock, best of {TIMES}:")
    print(f"  median {statistics.median(one[1] for one in taken):.1f}, longest {max(one[1] for one in taken):.1f}")
    print(
        f"  for {OF_BYTES // 1000} KB at most {worst[0]:.1f}: {worst[3]}, {worst[2] / 1e3:.0f} KB in {worst[1]:.1f}; "
        f"asked: {ASKED_MS:g}"
    )
    return int(worst[0] > ASKED_MS)


if __name__ == "__main__":
    sys.exit(main())
