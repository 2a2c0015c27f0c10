"""A fabric with planted faults that answers as jobs over groups of nodes would, for the tables of `bench`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAF = 32
NOISES = ("t(3)", "normal", "lognormal")


@dataclass
class Fabric:
    """Nodes 0 to `count` - 1, LEAF of them on a leaf; the figure of a group falls with its size, its noise grows."""

    count: int
    bad: frozenset[int] = frozenset()
    bad_leaf: int | None = None
    bad_pair: tuple[int, int] | None = None
    effect: float = 0.2
    scale: float = 0.003
    noise: str = "t(3)"
    seed: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng([self.seed, 7])

    @classmethod
    def with_faults(cls, seed: int, bad: int, leaf: bool = False, count: int = 1024, noise: str = "t(3)") -> Fabric:
        """So many faults, one of them a leaf if asked for."""
        rng = np.random.default_rng([seed, bad, leaf])
        bad_leaf = int(rng.integers(count // LEAF)) if leaf and bad else None
        others = [n for n in rng.permutation(count) if n // LEAF != bad_leaf]
        nodes = frozenset(int(n) for n in others[: bad - (bad_leaf is not None)])
        return cls(count, nodes, bad_leaf, noise=noise, seed=seed)

    @staticmethod
    def leaf_of(node: int) -> int:
        return node // LEAF

    def ask(self, groups: Sequence[tuple[int, ...]]) -> list[float | None]:
        """The figures of one round. ValueError where two groups share a node."""
        if len({n for g in groups for n in g}) != sum(map(len, groups)):
            raise ValueError("two groups of one round share a node")
        return [self._figure(group) for group in groups]

    def _figure(self, group: tuple[int, ...]) -> float:
        figure = 100 * len(group) ** -0.05
        together = self.bad_pair is not None and set(self.bad_pair) <= set(group)
        if together or any(n in self.bad or n // LEAF == self.bad_leaf for n in group):
            figure *= 1 - self.effect
        scale = self.scale * math.log2(max(len(group), 2))
        drawn = {
            "t(3)": lambda: self._rng.standard_t(3),
            "normal": lambda: 1.5 * self._rng.standard_normal(),
            "lognormal": lambda: 1.65 - math.exp(self._rng.standard_normal()),
        }[self.noise]()
        return figure * math.exp(scale * drawn)
