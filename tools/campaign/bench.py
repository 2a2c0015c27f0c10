"""The tables of docs/measured.md: faults found, false reports, cost.

    python -m tools.campaign.bench [TABLE ...] [--seeds N] [--first SEED] [--nodes N]

Exit status 1 if a figure is worse than required.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from tenken.campaign import findings, groups, runner, screening
from tenken.campaign.configuration import conformity as configured
from tenken.campaign.file import Campaign
from tenken.campaign.journal import Chosen, State
from tools.campaign import standin, synthetic
from tools.campaign.fabric_simulator import LEAF, NOISES, Fabric

#: A table's rows are text; a value that misses its requirement is a row that begins with this.
MISSED = "MISSED: "


def named_in(one: synthetic.Synthetic) -> set[tuple[str, str]]:
    """(kind, name) of everything that a campaign of a synthetic fleet reports: two runs, configuration, missing
    results.
    """
    named: set[tuple[str, str]] = set()
    for fleet, which in ((one.gpus, "gpu"), (one.hosts, "host")):
        first = screening.screen(fleet, one.run(which))
        if first.suspects:
            # suspects are run again, twice; the mean of the two runs counts
            runs = [one.run(which) for _ in range(2)]
            again = {
                f.name: np.mean([next(g.values for g in run if g.name == f.name) for run in runs], axis=0)
                for f in runs[0]
            }
            for suspect in screening.confirm(first.suspects, first, again)[0]:
                kind = "node" if which == "host" and suspect.kind == "device" else suspect.kind.split(",")[0]
                named.add((kind, suspect.name))
    names = [screening.device_name(one.gpus, i) for i in range(len(one.gpus))]
    odd, _ = configured(names, [{"VBIOS": v} for v in one.vbios])
    named |= {("device", o.name) for o in odd}
    return named | {("device", names[i]) for i in one.dead}


def planted(seeds: int, first: int, nodes: int) -> Iterator[str]:
    """Faults among nodes x 8 GPUs: all of them reported, and no other."""
    good = 0
    for seed in range(first, first + seeds):
        one = synthetic.fleet(seed, "normal", nodes, planted=True)
        named = named_in(one)
        if named == one.truth:
            good += 1
        else:
            missed, wrong = sorted(one.truth - named), sorted(named - one.truth)
            yield f"  seed {seed}: not reported: {missed}; reported although healthy: {wrong}"
    yield f"faults among {nodes} nodes x 8 GPUs: all reported and no others in {good} of {seeds} seeds (required: 99 %)"
    if good < 0.99 * seeds - 1e-9:
        yield f"{MISSED}planted faults"


def healthy(seeds: int, first: int, nodes: int) -> Iterator[str]:
    """Healthy fleets: campaigns with a false report."""
    for family in synthetic.FAMILIES:
        accused, suspected = 0, 0
        for seed in range(first, first + seeds):
            one = synthetic.fleet(seed, family, nodes)
            screened = [screening.screen(f, one.run(w)) for f, w in ((one.gpus, "gpu"), (one.hosts, "host"))]
            suspected += any(s.suspects for s in screened)
            accused += any(s.suspects for s in screened) and bool(named_in(synthetic.fleet(seed, family, nodes)))
        yield (
            f"healthy, {family}: {accused} of {seeds} campaigns report a node, "
            f"{suspected} measure a suspect again (required: 1 %)"
        )
        if accused > max(0.01 * seeds, 0):
            yield f"{MISSED}healthy fleets, {family}"


def group_testing(seeds: int, first: int, nodes: int) -> Iterator[str]:
    """Unknown bad nodes and leaves among 1,024."""
    count = max(nodes // LEAF, 8) * LEAF
    for noise, leaf in product(NOISES, (False, True)):
        right = of = wrong = healthy_of = healthy_wrong = healthy_over = 0
        for bad in range(1 if leaf else 0, 6):
            jobs, rounds = [], []
            for seed in range(first, first + seeds):
                fabric = Fabric.with_faults(seed, bad, leaf, count, noise)
                found = groups.search(range(count), fabric.leaf_of, fabric.ask, seed)
                leaves = [] if fabric.bad_leaf is None else [fabric.bad_leaf]
                exact = set(found.nodes) == fabric.bad and found.leaves == leaves
                within = found.jobs <= groups.allowed_jobs(bad) and found.rounds <= groups.MAX_ROUNDS
                accused = bool(set(found.nodes) - fabric.bad or set(found.leaves) - set(leaves))
                jobs.append(found.jobs)
                rounds.append(found.rounds)
                if bad:
                    right, of, wrong = right + (exact and within), of + 1, wrong + accused
                else:
                    healthy_of, healthy_wrong = healthy_of + 1, healthy_wrong + accused
                    healthy_over += not within
            yield (
                f"  {count} nodes, noise {noise}, {bad} bad{', one a leaf' if leaf else ''}: jobs {np.mean(jobs):.1f} "
                f"(99 %: {np.quantile(jobs, 0.99):.0f}, "
                f"allowed {groups.allowed_jobs(bad)}), rounds {np.mean(rounds):.1f} "
                f"(up to {max(rounds)})"
            )
        share = 100 * right / of
        yield (
            f"groups, noise {noise}{', with a leaf' if leaf else ''}: found within the permitted jobs and rounds in "
            f"{share:.1f} % of "
            f"{of}, a healthy node reported in {wrong} (required: 99 %)"
        )
        if share < 99:
            yield f"{MISSED}group testing, {noise}"
        if healthy_of:
            yield (
                f"groups, noise {noise}: reports in {healthy_wrong} of {healthy_of} healthy fleets, more than "
                f"{groups.allowed_jobs(0)} jobs in {healthy_over} (required: 1 %)"
            )
            if max(healthy_wrong, healthy_over) > 0.01 * healthy_of:
                yield f"{MISSED}group testing of healthy fleets, {noise}"


def crowded(seeds: int, first: int, nodes: int) -> Iterator[str]:
    """Three to five bad nodes, three of them behind one leaf switch: they resemble a bad leaf."""
    count = max(nodes // LEAF, 8) * LEAF
    for noise in ("t(3)", "lognormal", "drifting"):
        right = wrong = unsaid = 0
        for seed in range(first, first + seeds):
            rng = np.random.default_rng([seed, 99])
            leaf = int(rng.integers(count // LEAF))
            inside = rng.choice(LEAF, 3, replace=False) + LEAF * leaf
            outside = [n for n in rng.permutation(count) if n // LEAF != leaf][: seed % 3]
            bad = frozenset(int(n) for n in (*inside, *outside))
            fabric = Fabric(count, bad, noise=noise, seed=seed)
            found = groups.search(range(count), fabric.leaf_of, fabric.ask, seed)
            exact = set(found.nodes) == bad and not found.leaves
            right += exact and found.jobs <= groups.allowed_jobs(len(bad)) and found.rounds <= groups.MAX_ROUNDS
            wrong += bool(set(found.nodes) - bad or found.leaves)
            unsaid += not exact and found.whole
        yield (
            f"crowded, noise {noise}: three of 3 to 5 bad among {count} behind one leaf: found within the permitted "
            f"jobs and rounds in {right} of {seeds}, a healthy node or leaf reported in {wrong}, a miss not stated in "
            f"{unsaid} (required: 1 %)"
        )
        if max(wrong, unsaid) > 0.01 * seeds:
            yield f"{MISSED}crowded, {noise}"


def pair_faults(seeds: int, first: int, nodes: int) -> Iterator[str]:
    """A pair of nodes that is slow only in combination: tournaments of leaves, then bisection."""
    count = max(nodes // LEAF, 8) * LEAF
    leaves = {leaf: range(leaf * LEAF, (leaf + 1) * LEAF) for leaf in range(count // LEAF)}
    met = right = wrong = jobs = 0
    rounds = len(leaves) - 1
    for seed in range(first, first + seeds):
        rng = np.random.default_rng([seed, 3])
        one, other = (int(x) for x in rng.choice(count // LEAF, 2, replace=False))
        pair = (one * LEAF + int(rng.integers(LEAF)), other * LEAF + int(rng.integers(LEAF)))
        fabric = Fabric(count, bad_pair=pair, seed=seed)
        found = groups.pairs(leaves, fabric.ask, rounds)
        jobs += found.jobs
        met += any(set(p) == {one, other} for p in found.bad)
        for a, b in found.bad:
            good = [n for n in range(count) if n // LEAF not in (a, b)]
            named = groups.narrow(leaves[a], leaves[b], good, fabric.ask)
            right += named is not None and set(named) == set(pair)
            wrong += named is not None and set(named) != set(pair)
    yield (
        f"pairs among {count} nodes, all leaves met in {rounds} meetings ({jobs / seeds:.0f} jobs, coverage 100 %): "
        f"leaves found in {met} of {seeds}, the pair reported in {right}, a different one in {wrong}"
    )
    if right < 0.95 * seeds or wrong > 0.01 * seeds:
        yield f"{MISSED}pairs"


def cost(seeds: int, first: int, nodes: int) -> Iterator[str]:
    """The submitting host's CPU and memory from start to report; 12 checks, 8 GPUs."""
    names = tuple(f"n{i:05d}" for i in range(nodes))
    for seed in range(first, first + seeds):
        bad = (names[nodes // 3], seed % 8)

        def factor(node: str, gpu: int, figure: str, bad: tuple[str, int] = bad) -> float:
            return 0.9 if (node, gpu) == bad else 1.0

        world = standin.StandIn(names, seed=seed, factor=factor)
        one = Campaign("cost", "standin", "gpu", names, 600.0, concurrency=500)
        with tempfile.TemporaryDirectory(prefix="tenken-cost-") as name:
            folder = Path(name)

            def suspects(state: State, one: Campaign = one, folder: Path = folder) -> Chosen:
                return findings.suspects(findings.read(state, folder / "archive", one)[0], one)

            clock: list[float] = []

            def say(line: str, clock: list[float] = clock) -> None:
                clock.append(time.monotonic())

            began, since = time.process_time(), time.monotonic()
            run = runner.Runner(
                one, folder / "c", folder / "archive", world, say, suspects, clock=world.clock, sleep=world.pass_time,
                poll=5, late=60,
            )  # fmt: skip
            run.run()
            table, found = findings.read(run.state, folder / "archive", one)
            findings.judge(table, found, one)
            spent = time.process_time() - began - world.nodes_cpu_s
        silent = max(b - a for a, b in pairwise([since, *clock]))
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        named = {s.name for s in found.named}
        asked = 240 * max(nodes / 1000, 0.01)
        yield (
            f"cost of {nodes} nodes x 12 checks: {spent:.1f} CPU-s (required: {asked:g}), {most:.2f} GiB at most, "
            f"{world.submissions} jobs, {found.tested} nodes tested, named: {', '.join(sorted(named)) or 'no node'}; "
            f"longest time without output {silent:.1f} s (nodes' own work included)"
        )
        if spent > asked or named != {f"{bad[0]} GPU {bad[1]}"} or found.tested != nodes:
            yield f"{MISSED}cost"


Table = Callable[[int, int, int], Iterator[str]]
#: By name: the function that prints the table, and the seeds and nodes used for docs/measured.md.
TABLES: dict[str, tuple[Table, int, int]] = {
    "planted": (planted, 100, 1000),
    "healthy": (healthy, 300, 1000),
    "groups": (group_testing, 100, 1024),
    "crowded": (crowded, 30, 1024),
    "pairs": (pair_faults, 50, 1024),
    "cost": (cost, 1, 1000),
}


def main(arguments: list[str]) -> int:
    """Prints the requested tables (default: all). Returns 1 if one misses its requirement."""
    parser = argparse.ArgumentParser(prog="python -m tools.campaign.bench", description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)} (default: all)")
    parser.add_argument("--seeds", type=int, help="campaigns of each kind")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default 0)")
    parser.add_argument("--nodes", type=int, help="nodes of a fleet")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.tables) - set(TABLES))
    if unknown:
        parser.error(f"unknown table '{unknown[0]}'; allowed: {', '.join(TABLES)}")
    missed = 0
    for name in given.tables or TABLES:
        table, seeds, nodes = TABLES[name]
        began = time.process_time()
        for line in table(given.seeds or seeds, given.first, given.nodes or nodes):
            missed += line.startswith(MISSED)
            print(line, flush=True)
        print(f"  {time.process_time() - began:.1f} CPU-s\n", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
