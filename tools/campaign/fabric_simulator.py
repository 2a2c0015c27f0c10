"""A simulated fabric with planted faults, which answers like jobs over groups of nodes, for the tables of `bench`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAF = 32
#: For the logarithm of a figure. Outliers: one job in twenty is ten times as noisy. Growing: with the square root of
#: the group. Drifting: the level of all, from round to round. Two lots: half of the nodes are 5 % slower.
NOISES = ("t(3)", "normal", "lognormal", "Laplace", "outliers", "growing", "drifting", "two lots")


@dataclass
class Fabric:
    """Nodes 0 to `count` - 1, LEAF of them on a leaf. A larger group has a lower figure and more noise."""

    count: int
    bad: frozenset[int] = frozenset()
    bad_leaf: int | None = None
    bad_pair: tuple[int, int] | None = None
    effect: float = 0.2
    scale: float = 0.003
    noise: str = "t(3)"
    seed: int = 0

    def __post_init__(self) -> None:
        # other draws for other faults: seeds are independent of each other, whatever is planted
        faults = [*sorted(self.bad), 0 if self.bad_leaf is None else self.bad_leaf + 1]
        self._rng = np.random.default_rng([self.seed, 7, *faults])
        self._slower_lot = self._rng.random(self.count) < 0.5 if self.noise == "two lots" else np.zeros(0)
        self._drift = 1.0

    @classmethod
    def with_faults(cls, seed: int, bad: int, leaf: bool = False, count: int = 1024, noise: str = "t(3)") -> Fabric:
        """The given number of faults, optionally with a leaf."""
        rng = np.random.default_rng([seed, bad, leaf])
        bad_leaf = int(rng.integers(count // LEAF)) if leaf and bad else None
        others = [n for n in rng.permutation(count) if n // LEAF != bad_leaf]
        nodes = frozenset(int(n) for n in others[: bad - (bad_leaf is not None)])
        return cls(count, nodes, bad_leaf, noise=noise, seed=seed)

    @staticmethod
    def leaf_of(node: int) -> int:
        return node // LEAF

    def ask(self, groups: Sequence[tuple[int, ...]]) -> list[float | None]:
        """The figures of one round. ValueError if two groups share a node."""
        if len({n for g in groups for n in g}) != sum(map(len, groups)):
            raise ValueError("two groups of one round share a node")
        if self.noise == "drifting":
            self._drift *= math.exp(0.01 * self._rng.standard_normal())
        return [self._drift * self._figure(group) for group in groups]

    def _figure(self, group: tuple[int, ...]) -> float:
        figure = 100 * len(group) ** -0.05
        together = self.bad_pair is not None and set(self.bad_pair) <= set(group)
        if together or any(n in self.bad or n // LEAF == self.bad_leaf for n in group):
            figure *= 1 - self.effect
        if self.noise == "two lots" and self._slower_lot[list(group)].any():
            figure *= 0.95
        scale = self.scale * math.log2(max(len(group), 2))
        if self.noise == "growing":
            scale = 0.0025 * math.sqrt(len(group))
        return figure * math.exp(scale * self._drawn())

    def _drawn(self) -> float:
        rng = self._rng
        if self.noise == "normal":
            return 1.5 * float(rng.standard_normal())
        if self.noise == "lognormal":
            return 1.65 - math.exp(rng.standard_normal())
        if self.noise == "Laplace":
            return float(rng.laplace(0, 1.2))
        if self.noise == "outliers":
            return float(rng.standard_normal()) * (10 if rng.random() < 0.05 else 1)
        return float(rng.standard_t(3))
