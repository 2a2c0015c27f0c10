"""`python -m tests.fuzz [--count N | --seconds S] [--seed X] [--only NAME,...] [--show N]`: docs/fuzzing.md."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.runner import Tally, input_of, run
from tests.fuzz.targets import targets

#: Number of inputs of a parser before the next one's turn, if a time is given.
TURN = 200


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="throw broken inputs at every parser")
    parser.add_argument("--count", type=int, default=1000, help="inputs per parser (default: 1000)")
    parser.add_argument("--seconds", type=float, help="run for this many seconds, parser by parser, instead")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--only", default="", help="parsers, with commas")
    parser.add_argument("--show", type=int, help="print that input of the parser and end")
    options = parser.parse_args()
    chosen = [one for one in targets() if not options.only or one.name in options.only.split(",")]
    if not chosen:
        print(f"--only {options.only}: no such parser; allowed: {', '.join(one.name for one in targets())}")
        return 2
    if options.show is not None:
        sys.stdout.buffer.write(input_of(chosen[0], options.seed, options.show))
        return 0
    print(f"seed {options.seed}", flush=True)
    bad = False
    totals = {one.name: Tally(one.name) for one in chosen}
    end = None if options.seconds is None else time.monotonic() + options.seconds
    first, count = 0, options.count if end is None else TURN
    while True:
        for tally in run(chosen, options.seed, first, lambda one: count, end):
            total = totals[tally.name]
            total.inputs += tally.inputs
            total.refused += tally.refused
            total.slowest, total.largest = max(total.slowest, tally.slowest), max(total.largest, tally.largest)
            total.failures += tally.failures
            for number, what in tally.failures[:10]:
                print(f"FAIL {tally.name} --seed {options.seed} --show {number}: {what}", flush=True)
                bad = True
        first += count
        if end is None or time.monotonic() > end:
            break
    print("\n".join(total.text for total in totals.values()))
    print(f"{sum(t.inputs for t in totals.values())} inputs, {sum(len(t.failures) for t in totals.values())} failures")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
