"""Inserts small mistakes into a copy of the sources, one at a time, and runs the tests that must detect them.

    python -m tools.mutants [--only PATTERN]... [--list] [--check]

Exit status 1 if a mutant survived or could not be judged, 2 if the list does not match the sources."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.mutants import mutant as mutants
from tools.mutants import runner, scratch

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="names, groups or files (with * and ?)"
    )
    parser.add_argument("--list", action="store_true", help="list them with their meaning, without running them")
    parser.add_argument("--check", action="store_true", help="only check that the list matches the sources")
    parser.add_argument(
        "--limit", type=float, default=300, metavar="S", help="time limit per mutant in seconds (default: 300)"
    )
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / ".cache" / "mutants", metavar="DIR",
        help="folder of the copy, which is kept for the next run (default: .cache/mutants)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        chosen = mutants.chosen(mutants.load(), options.only)
    except mutants.MutantError as error:
        return _refuse([str(error)])
    if options.list:
        for one in chosen:
            print(f"{one.name:44} {one.file:44} {one.why}")
        print(f"{len(chosen)} mutants")
        return 0
    wrong = mutants.check(chosen, ROOT)
    if wrong or options.check:
        return _refuse(wrong)
    with scratch.copy_of(ROOT, options.scratch.resolve()) as tree:
        return _run(chosen, tree, options.limit)


def _refuse(wrong: Sequence[str]) -> int:
    for line in wrong:
        print(f"mutants: {line}", file=sys.stderr)
    return 2 if wrong else 0


def _run(chosen: Sequence[mutants.Mutant], tree: Path, limit: float) -> int:
    env = scratch.environment(tree)
    tests = list(dict.fromkeys(test for one in chosen for test in one.tests))
    begin = time.monotonic()
    print(f"the {len(tests)} tests concerned, on the unmodified sources ...", flush=True)
    code, output = runner.pytest(tree, env, tests, 10 * limit)
    if code != 0:
        print("\n".join(output.splitlines()[-40:]))
        return _refuse(["the tests must pass on the unmodified sources"])
    outcomes = []
    for number, one in enumerate(chosen, start=1):
        outcome = runner.try_one(one, tree, env, limit)
        outcomes.append(outcome)
        print(
            f"{number:3}/{len(chosen)} {outcome.fate:8} {outcome.seconds:5.1f} s  {one.name}  {outcome.by}", flush=True
        )
    print()
    print("\n".join(runner.table(outcomes)))
    left = [outcome for outcome in outcomes if outcome.fate != runner.CAUGHT]
    minutes = (time.monotonic() - begin) / 60
    print(f"\n{len(outcomes)} mutants, {len(outcomes) - len(left)} caught, in {minutes:.1f} minutes")
    for outcome in left:
        print(
            f"{outcome.fate}: {outcome.mutant.name}: {outcome.mutant.why}" + (f" ({outcome.by})" if outcome.by else "")
        )
    print("none survived" if not left else f"{len(left)} not caught")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
