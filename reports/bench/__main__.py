"""All tables of the gate, as the docs have them: what it finds beside its rivals, and what it costs.

    python -m reports.bench [OPTIONS OF reports.bench.detection]

Exit status 1 if a figure is worse than what is asked.
"""

from __future__ import annotations

import sys

from reports import speed
from reports.bench import detection


def main(arguments: list[str]) -> int:
    missed = detection.main(arguments)
    print("\nspeed\n")
    return max(missed, speed.main([]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
