"""Fleets with spreads of the kind that real ones have, healthy or with planted faults, for the tables of `bench`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tenken.campaign.screening import Figure, Fleet

FAMILIES = ("normal", "lognormal", "t(3)", "two lots", "slowly warming")
#: Figures of a GPU: name, spread between healthy devices, kind. Two more for a host.
GPU_FIGURES = (
    ("triad", 0.003, "memory"), ("copy", 0.003, "memory"), ("gather", 0.004, "memory"), ("spmv", 0.004, "memory"),
    ("dgemm", 0.03, "power"), ("sgemm", 0.03, "power"), ("h2d", 0.002, "link"), ("d2h", 0.002, "link"),
    ("peer", 0.002, "link"), ("launch", 0.01, "time"),
)  # fmt: skip
HOST_FIGURES = (("host triad", 0.003, "memory"), ("host copy", 0.003, "memory"), ("host dgemm", 0.008, "power"))


@dataclass
class Synthetic:
    """Figures of the GPUs and hosts of a campaign; `run` draws another, independent run of all of them."""

    gpus: Fleet
    hosts: Fleet
    rng: np.random.Generator
    levels: dict[str, np.ndarray]
    covariates: dict[str, np.ndarray]
    noise: dict[str, float]
    family: str
    warming: float = 0.0
    dead: tuple[int, ...] = ()
    flapping: tuple[int, ...] = ()
    vbios: np.ndarray = field(default_factory=lambda: np.empty(0))
    #: (kind, name) of everything that is faulty.
    truth: set[tuple[str, str]] = field(default_factory=set)

    def run(self, which: str = "gpu") -> list[Figure]:
        fleet = self.gpus if which == "gpu" else self.hosts
        count = len(fleet)
        of_node = self.rng.permutation(len(self.hosts)).astype(float)
        times = np.repeat(of_node, 8) if which == "gpu" else of_node
        found = []
        for name, spread, kind in GPU_FIGURES if which == "gpu" else HOST_FIGURES:
            loss = self.levels[name] + self.noise[name] * self._draw(count)
            loss = loss + self.warming * times / times.max()
            values = 100 * np.exp(loss if kind == "time" else -loss)
            if which == "gpu":
                values[list(self.dead)] = np.nan
            covariates = (self.covariates["leakage"], self.covariates["inlet"]) if name in ("dgemm", "sgemm") else ()
            found.append(Figure(name, values, kind != "time", spread, covariates, times))
        if which == "gpu":
            # distance of the slowest of a run's ten repetitions from their median
            for name in ("triad", "peer"):
                reps = np.abs(self._draw((10, count))).max(axis=0) * 0.002
                for one in self.flapping:
                    if (self.rng.random(10) < 0.35).any():
                        reps[one] = 0.2
                reps[list(self.dead)] = np.nan
                found.append(Figure(f"{name} unsteadiness", reps + 1e-4, False, 0.05, (), times))
        return found

    def _draw(self, shape: int | tuple[int, ...]) -> np.ndarray:
        return draw(self.rng, self.family, shape)


def draw(rng: np.random.Generator, family: str, shape: int | tuple[int, ...]) -> np.ndarray:
    """Of unit scale about zero."""
    if family == "t(3)":
        return rng.standard_t(3, shape) / np.sqrt(3)
    if family == "lognormal":
        sigma = 0.5
        found = np.exp(sigma * rng.standard_normal(shape))
        return (found - np.exp(sigma**2 / 2)) / np.sqrt((np.exp(sigma**2) - 1) * np.exp(sigma**2))
    return rng.standard_normal(shape)


def fleet(seed: int, family: str = "normal", nodes: int = 1000, per_node: int = 8, planted: bool = False) -> Synthetic:
    """A fleet of `nodes` nodes in racks of 32 on as many switches of 64."""
    rng = np.random.default_rng(seed)
    rack = np.arange(nodes) // 32
    names = np.array([f"n{i:05d}" for i in range(nodes)])
    lot_of_node = (rng.random(nodes) < 0.5).astype(int)
    host_factors = {
        "lot": np.array([f"lot{i}" for i in lot_of_node]), "switch": np.array([f"s{i // 2:03d}" for i in rack]),
        "rack": np.array([f"r{i:03d}" for i in rack]),
    }  # fmt: skip
    spread_out = {key: np.repeat(labels, per_node) for key, labels in host_factors.items()}
    slot = np.tile(np.arange(per_node), nodes)
    slots = np.array([f"GPU {i}" for i in slot])
    gpus = Fleet(np.repeat(names, per_node), {**spread_out, "slot": slots}, slots)
    hosts = Fleet(names, host_factors)
    count = len(gpus)
    inlet = rng.normal(0, 1, rack.max() + 1)[rack].repeat(per_node) + 0.3 * rng.standard_normal(count)
    leakage = rng.standard_normal(count)
    levels, noise = {}, {}
    for name, spread, kind in GPU_FIGURES:
        lots = (0.012 if family == "two lots" else 0.4 * spread) * np.repeat(lot_of_node, per_node)
        shared = 0.25 * spread * rng.standard_normal(rack.max() + 1)[rack].repeat(per_node)
        level = lots + shared + 0.25 * spread * rng.standard_normal(per_node)[slot]
        # under a power cap leakage and inlet temperature cause most of the differences between GPUs
        own = 0.3 if kind == "power" else 0.6
        level += own * spread * draw(rng, family, count)
        if kind == "power":
            level += 0.8 * spread * leakage + 0.4 * spread * inlet
        levels[name], noise[name] = level, 0.3 * spread if kind != "power" else 0.1 * spread
    for name, spread, _ in HOST_FIGURES:
        lots = (0.012 if family == "two lots" else 0.3 * spread) * lot_of_node
        shared = 0.25 * spread * rng.standard_normal(rack.max() + 1)[rack]
        levels[name], noise[name] = lots + shared + 0.6 * spread * draw(rng, family, nodes), 0.3 * spread
    found = Synthetic(
        gpus, hosts, rng, levels, {"leakage": leakage, "inlet": inlet}, noise, family,
        0.03 if family == "slowly warming" else 0.0, vbios=np.full(count, "96.00.61", dtype=object),
    )  # fmt: skip
    if planted:
        _plant(found, rng, rack, per_node)
    return found


def _plant(one: Synthetic, rng: np.random.Generator, rack: np.ndarray, per_node: int) -> None:
    nodes = len(one.hosts)
    chosen = rng.choice(nodes, 8, replace=False)
    picks = [int(n) * per_node + int(rng.integers(per_node)) for n in chosen]
    slow, capped, dead, flapping, vbios = picks[:3], picks[3], picks[4], picks[5], picks[6]
    slow_nodes = [int(n) for n in rng.choice([n for n in range(nodes) if n not in chosen], 2, replace=False)]
    whole = [r for r in range(rack.max() + 1) if (rack == r).sum() >= 16]
    bad_rack = int(rng.choice(whole))
    for name, _, kind in GPU_FIGURES:
        if kind == "memory":
            one.levels[name][slow] += -np.log(0.98)
            one.levels[name][np.repeat(rack == bad_rack, per_node)] += -np.log(0.99)
        if kind == "power":
            one.levels[name][capped] += -np.log(0.9)
    for name in ("host triad", "host copy"):
        one.levels[name][slow_nodes] += -np.log(0.95)
    one.dead, one.flapping = (dead,), (flapping,)
    one.vbios[vbios] = "96.00.5E"
    one.truth = {
        *(("device", _name(one, i)) for i in (*slow, capped, dead, flapping, vbios)),
        *(("node", str(one.hosts.nodes[n])) for n in slow_nodes), ("rack", f"r{bad_rack:03d}"),
    }  # fmt: skip


def _name(one: Synthetic, index: int) -> str:
    assert one.gpus.slots is not None
    return f"{one.gpus.nodes[index]} {one.gpus.slots[index]}"
