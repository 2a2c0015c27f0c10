"""All tables of the gate in the documentation: detection compared with other methods, and cost.

    python -m tools.bench [OPTIONS OF tools.bench.detection] [--public FILE]...

FILE is a public history written by `python -m tools.histories`.

Exit status 1 if a value is worse than required.
"""

from __future__ import annotations

import argparse
import sys

from tools import judging_speed, speed
from tools.bench import causes, detection, intervals, pages, real


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--public", action="append", default=[], metavar="FILE")
    given, rest = parser.parse_known_args(arguments)
    missed = detection.main(rest)
    if given.public:
        print("\npublic histories\n")
        missed = max(missed, real.main([*given.public, "--rivals"]))
    print("\nfindings per cause\n")
    missed = max(missed, causes.main([]))
    print("\nintervals of an acceptance\n")
    missed = max(missed, intervals.main([]))
    print("\npages\n")
    missed = max(missed, pages.main([]))
    print("\njudging\n")
    missed = max(missed, judging_speed.main())
    print("\nspeed\n")
    return max(missed, speed.main([]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
