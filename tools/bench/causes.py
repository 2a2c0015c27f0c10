"""Findings per cause: `python -m tools.bench.causes [--seeds N]` prints how many alarms one cause raises.

Each machine has 1 to 32 nodes of 1 to 8 GPUs, some of six benchmarks with up to 12 sizes, and one of five types of
noise; one cause is planted on night NIGHT. An alarm that contains a series of the cause is one of its findings; all
others are false. Exit status 1 if a value is worse than required.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np

from tenken.history import causes, gate
from tenken.history.causes import Finding
from tenken.history.detect import Detector, Settings
from tenken.history.nights import History, Series
from tenken.history.record_parser import FINGERPRINT

NIGHT, NIGHTS = 80, 100
#: Nights after the beginning of a cause on which its findings are counted.
AFTER = (5, 20)
SIZES = (0.03, 0.05, 0.1, 0.3)
#: benchmark, program, metrics, sizes in bytes, direction, subject
BENCHMARKS = (
    ("Stream", "stream", ("copy", "triad"), (None,), "higher", "gpu"),
    ("Memcopy", "memcopy", ("d2d",), tuple(2**k for k in range(10, 22)), "higher", "gpu"),
    ("P2p", "p2p", ("latency",), tuple(2**k for k in range(3, 9)), "lower", "gpu"),
    ("MpiP2p", "mpi_p2p", ("bandwidth",), tuple(2**k for k in range(10, 22)), "higher", "host"),
    ("Hpl", "hpl", ("hpl",), (None,), "higher", "host"),
    ("Stencil", "stencil", ("rate", "time"), (None,), "lower", "host"),
)
#: Noise of one night, in cost.
NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: 0.01 * rng.standard_normal(shape),
    "quiet": lambda rng, shape: 0.004 * rng.standard_normal(shape),
    "student": lambda rng, shape: 0.006 * rng.standard_t(4, shape),
    "gamma": lambda rng, shape: 0.008 * (rng.gamma(2, 2**-0.5, shape) - 2**0.5),
    "mixed": lambda rng, shape: 0.01 * rng.standard_normal(shape) * rng.uniform(0.4, 1.6, (shape[0], 1)),
}
#: Maximum mean number of findings AFTER[0] and AFTER[1] nights after the beginning of each cause.
REQUIRED = {
    "nothing": (0.0, 0.0),
    "a node loses": (1.1, 1.3),
    "a GPU loses": (1.1, 1.3),
    "a benchmark on a node loses": (1.1, 1.3),
    "some sizes on a node lose": (1.1, 1.3),
    "a metric loses everywhere": (1.1, 1.3),
    "a benchmark loses with a driver": (1.1, 1.3),
    "... on half of the nodes": (1.1, 1.3),
    "two benchmarks lose with a driver": (1.1, 1.3),
    "everything loses": (1.1, 1.3),
    "a GPU drifts": (1.5, 3.0),
    "a node becomes noisy": (1.5, 3.0),
}
DRIVERS = ("a benchmark loses with a driver", "... on half of the nodes", "two benchmarks lose with a driver")


@dataclass(frozen=True)
class Planted:
    """A machine with its nights, and the rows of the series that the cause concerns."""

    history: History
    rows: frozenset[int]
    size: float


def machine(rng: np.random.Generator) -> list[Series]:
    """All series of a machine."""
    nodes, gpus = int(rng.choice([1, 2, 4, 8, 16, 32])), int(rng.choice([1, 2, 4, 8]))
    gpus = 2 if nodes * gpus > 128 else gpus
    some = sorted(rng.choice(len(BENCHMARKS), size=int(rng.integers(2, len(BENCHMARKS) + 1)), replace=False))
    out: list[Series] = []
    for check, program, metrics, sizes, direction, kind in (BENCHMARKS[one] for one in some):
        for metric, size in ((m, s) for m in metrics for s in sizes):
            at = "" if size is None else json.dumps({"bytes": size})
            for node in range(nodes):
                for gpu in range(gpus if kind == "gpu" else 1):
                    uuid, place = (f"GPU-{node:04d}-{gpu}", f"GPU {gpu}") if kind == "gpu" else ("", "host")
                    out.append(
                        Series(len(out) + 1, "m", "gpu", "cuda", check, program, 1, "{}", metric, at, kind,
                               f"n{node:02d}", uuid, "", place, "GB/s", direction, "median")
                    )  # fmt: skip
    return out


def plant(cause: str, seed: int) -> Planted:
    """A machine on which `cause`, a key of REQUIRED, begins on night NIGHT."""
    rng = np.random.default_rng([seed, list(REQUIRED).index(cause)])
    series = machine(rng)
    size, shape = float(rng.choice(SIZES)), (len(series), NIGHTS)
    cost = NOISE[str(rng.choice(sorted(NOISE)))](rng, shape)
    marks = np.zeros(shape, int)
    nodes = sorted({s.node for s in series})
    checks = sorted({s.check for s in series})
    one, check = series[int(rng.integers(len(series)))], str(rng.choice(checks))
    new = set(nodes[::2]) if cause == "... on half of the nodes" else set(nodes)
    chosen: dict[str, Callable[[Series], bool]] = {
        "nothing": lambda s: False,
        "a node loses": lambda s: s.node == one.node,
        "a node becomes noisy": lambda s: s.node == one.node,
        "a GPU loses": lambda s: (s.node, s.gpu) == (one.node, one.gpu),
        "a GPU drifts": lambda s: (s.node, s.gpu) == (one.node, one.gpu),
        "a benchmark on a node loses": lambda s: (s.node, s.check) == (one.node, one.check),
        "some sizes on a node lose": lambda s: (s.node, s.check) == (one.node, one.check) and s.number % 3 == 0,
        "a metric loses everywhere": lambda s: s.measure == one.measure,
        "a benchmark loses with a driver": lambda s: s.check == check,
        "... on half of the nodes": lambda s: s.check == check and s.node in new,
        "two benchmarks lose with a driver": lambda s: s.check in checks[:2],
        "everything loses": lambda s: True,
    }
    rows = [row for row, s in enumerate(series) if chosen[cause](s)]
    loss = np.full(NIGHTS - NIGHT, np.log1p(size))
    if cause == "a node becomes noisy":
        cost[rows, NIGHT:] *= 4
    elif cause == "a GPU drifts":
        cost[rows, NIGHT:] += loss * np.linspace(0, 1, len(loss))
    else:
        cost[rows, NIGHT:] += loss
    if cause in DRIVERS:
        marks[[row for row, s in enumerate(series) if s.node in new], NIGHT:] = 1
    sign = np.array([-1.0 if s.direction == "higher" else 1.0 for s in series])[:, None]
    level = {measure: rng.uniform(3, 8) for measure in sorted({s.measure for s in series})}
    usual = np.array([level[s.measure] for s in series]) + 0.005 * rng.standard_normal(len(series))
    values = np.exp(usual[:, None] + sign * cost)
    environment = dict.fromkeys(FINGERPRINT, "x")
    environments = {0: tuple(environment.values()), 1: tuple({**environment, "driver": "y"}.values())}
    nights = [date(2026, 1, 1) + timedelta(days=night) for night in range(NIGHTS)]
    return Planted(
        History("m", series, nights, values, marks, np.zeros(shape, bool), environments), frozenset(rows), size
    )


def alarms(planted: Planted, after: Sequence[int] = AFTER) -> list[list[Finding]]:
    """All alarms, each number of nights after the beginning of the cause."""
    whole, settings, out = planted.history, Settings(), []
    detector, done = Detector(whole.higher, settings), 0
    for end in (NIGHT + nights for nights in after):
        for night in range(done, end):
            detector.advance(whole.values[:, night])
        done = end
        seen = replace(
            whole, nights=whole.nights[:end], values=whole.values[:, :end], fingerprints=whole.fingerprints[:, :end],
            invalid=whole.invalid[:, :end],
        )  # fmt: skip
        judged = gate.system(seen, detector.findings(), settings)
        out.append([f for f in causes.joined(seen, judged.findings) if f.alarming])
    return out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="machines per cause (default: 20)")
    given = parser.parse_args(arguments)
    heads = [f"{what} after {nights} nights" for nights in AFTER for what in ("found", "findings", "required")]
    print(f"| cause | {' | '.join(heads)} | driver named | false |\n|---|{'---|' * (len(heads) + 2)}")
    bad = False
    for cause, required in REQUIRED.items():
        own: list[list[list[Finding]]] = [[] for _ in AFTER]
        false = 0
        for seed in range(given.seeds):
            planted = plant(cause, seed)
            for index, found in enumerate(alarms(planted)):
                own[index].append([f for f in found if planted.rows & set(f.rows)])
                false += len(found) - len(own[index][-1]) if index == 0 else 0
        cells, last = [], [found for found in own[-1] if found]
        for counted, most in zip(own, required, strict=True):
            seen = [len(found) for found in counted if found]
            mean = float(np.mean(seen)) if seen else 0.0
            cells += [f"{100 * len(seen) / given.seeds:.0f} %", f"{mean:.2f}", f"{most:g}" if most else ""]
            bad |= mean > most
        named = sum(any(c.field == "driver" for f in found for c in f.causes) for found in last)
        driver = f"{named} of {len(last)}" if cause in DRIVERS else ""
        bad |= cause in DRIVERS and named < 0.95 * len(last)
        print(f"| {cause} | {' | '.join(cells)} | {driver} | {false} |", flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
