"""Evidence from the results of groups, one by one and all together, for bad blocks of leaves and bad nodes.

Noise is heavy-tailed, so that no answer is trusted alone; each possibility has its weight after all answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

import numpy as np

#: Minimum effect of a fault on the value; smaller ones are not searched for.
EFFECT = 0.2
#: Evidence in nats at which nodes count as good or bad during the search, at which contradictions show, and before a
#: node is named.
WAY, NAMED = 3.0, 7.0
#: Maximum number of blocks of leaves that are bad at the same time, and weight below which a set is excluded.
MOST_BAD_BLOCKS, _OUT_OF_THE_QUESTION = 5, 1e-10
#: Probability of this many bad nodes at which jobs are spent on them.
ENOUGH = 0.9
#: Up to this number of nodes, pairs are weighed as well; up to this number, triples: otherwise three bad nodes behind
#: one switch resemble a bad switch.
_PAIRED, _IN_THREES = 128, 40
#: Prior probabilities of a bad node, of a bad leaf, and of a fault that appears only if all nodes run together.
NODE, LEAF, TOGETHER = 1 / 300, 1 / 100, 1e-4
#: Weights at which a possibility is accepted, at which it is accepted once nothing more can be measured, at which no
#: node counts as bad, and at which a node counts as certainly bad.
_DECIDED, NEARLY, _NOBODY, _CERTAIN = 0.999, 0.98, 0.995, 0.995
#: Weight above which no further test is run, although jobs are left.
_PROVED = 0.9999
#: Maximum evidence of one result for a good and for a bad group: other work can slow down a job, which a few results
#: cannot show.
_ONE_GOOD, _ONE_BAD = 6.0, 4.5
#: A value this many scales below a bad group, with no other near it, is a disturbed job rather than a larger fault.
_ALONE, _ONE_ALONE = 4.0, 2.5
#: While more bits than this are open, two or three tests of a slow group run concurrently: rounds cost more than jobs.
_BITS_FOR_TWO, _BITS_FOR_THREE = 1.5, 7.0
#: Rounds that are needed when little remains open.
_ROUNDS_TO_PROVE = 3
#: Fractions of the probability of being bad at which nodes are divided for a test.
_SHARES = np.array([0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875])
#: Number of single nodes of a leaf that must be slow to prove a bad leaf.
_OF_A_LEAF = 2
#: Smaller differences count as equal, in nats of a probability and in bits of a test, and the lowest index wins.
#: Equally informative answers make many probabilities equal, and processors round them differently.
_ALIKE, _ALIKE_BITS = 1e-4, 1e-6
#: Rounding error of a sum of probabilities, so that a bound that is met exactly is met.
_ROUNDING = 1e-9
#: Maximum repetitions of one test.
_PATIENCE = 6
#: Maximum number of rounds of a search.
MAX_ROUNDS = 14


@dataclass
class Question:
    """Whether one of `nodes` is bad: the evidence in nats, and the evidence that either decision requires."""

    nodes: tuple[int, ...]
    good_at: float = WAY
    bad_at: float = WAY
    evidence: float = 0.0
    asked: int = 0
    answers: list[float] = field(default_factory=list)
    #: For each result, the probability that one of the good nodes that filled up the group is bad.
    doubts: list[float] = field(default_factory=list)
    #: Maximum evidence of one clear result: a larger one would need many results if the noise is large.
    clearest: float = math.inf
    #: One result is sufficient: the caller weighs it.
    once: bool = False
    #: Evidence from elsewhere.
    known: float = 0.0
    #: No nodes were free for it.
    dropped: bool = False

    @property
    def settled(self) -> bool:
        enough = (
            self.once
            or self.evidence >= self._within(self.bad_at)
            or self.evidence <= -self._within(self.good_at)
            or self.asked >= _PATIENCE
        )
        return self.dropped or (self.asked > 0 and enough)

    def _within(self, limit: float) -> float:
        return min(limit, max(WAY, 0.75 * self.clearest)) if limit < NAMED else limit

    @property
    def bad(self) -> bool:
        return self.evidence > 0

    def take(self, answer: float | None, doubt: float) -> None:
        """The result of a job; None: it left none."""
        self.asked += 1
        if answer is not None:
            self.answers.append(answer)
            self.doubts.append(doubt)

    def weigh(self, level: Level) -> float:
        """Evidence of all results."""
        return sum(beside(level.evidence(x), doubt) for x, doubt in zip(self.answers, self.doubts, strict=True))


def beside(evidence: float, chance: float) -> float:
    """Evidence of a result for one part of a group, if the rest is bad with this probability."""
    return evidence - math.log(chance * math.exp(evidence) + 1 - chance)


def ranked(chance: np.ndarray) -> np.ndarray:
    """Indices in descending order of probability; of those that differ only by rounding, the lowest index is first."""
    nats = np.log(np.maximum(chance, np.finfo(float).tiny))
    return np.argsort(-np.round(nats / _ALIKE), kind="stable")


def _most(bits: np.ndarray) -> int:
    """Index of the largest; of those that differ only by rounding, the lowest."""
    return int(np.round(bits / _ALIKE_BITS).argmax())


class Level:
    """The value of a good group and its noise, estimated from all results: the good ones are the upper cluster."""

    def __init__(self) -> None:
        self.answers: list[float] = []
        self._known: tuple[int, tuple[float, float]] = (0, (1.0, 1.0))
        self._logs = np.empty(0)

    def evidence(self, value: float) -> float:
        """Evidence in nats for a bad group (a value lower by EFFECT) against a good one, by Student's t with 3 degrees
        of freedom. A value below that of a bad group counts as equally bad; a value far above that of a good group
        indicates large noise."""
        centre, scale = self.good()
        off, bad = math.log(max(value, 1e-9 * centre) / centre), math.log(1 - EFFECT)
        from_good, from_bad = off, max(off - bad, 0.0)
        found = 2 * (math.log1p((from_good / scale) ** 2 / 3) - math.log1p((from_bad / scale) ** 2 / 3))
        alone = off <= bad - _ALONE * scale and self._near(math.log(centre) + off, _ALONE * scale) < 2
        most = _ONE_ALONE if alone else _ONE_BAD
        return min(max(found, -_ONE_GOOD), most)

    def _near(self, log: float, distance: float) -> int:
        """Number of results whose logarithm is within the distance."""
        self.good()
        first, last = np.searchsorted(self._logs, [log - distance, log + distance])
        return int(last - first)

    def clearest(self) -> float:
        """Evidence of a result without noise."""
        return 2 * math.log1p((math.log(1 - EFFECT) / self.good()[1]) ** 2 / 3)

    def good(self) -> tuple[float, float]:
        """Value of good groups, and its relative scale."""
        if self._known[0] != len(self.answers):
            self._known = len(self.answers), self._learn()
        return self._known[1]

    def _learn(self) -> tuple[float, float]:
        logs = self._logs = np.sort(np.log(np.maximum(self.answers, 1e-300)))
        half = -math.log(1 - EFFECT) / 2
        counts = np.searchsorted(logs, logs + half, "right") - np.searchsorted(logs, logs - half)
        # the highest level that many results share: there may be as many bad groups, but a lucky answer is isolated
        centre = float(logs[np.flatnonzero(counts >= 0.45 * counts.max())[-1]])
        for _ in range(4):
            near = logs[np.abs(logs - centre) <= half]
            centre = float(np.median(near))
        # at least a hundredth, since a few results may agree by chance
        return math.exp(centre), max(1.4826 * float(np.median(np.abs(near - centre))) / 1.13, 0.01)


@cache
def _sets(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For this many blocks: all sets of up to MOST_BAD_BLOCKS as bits, the sets in which two blocks are slow only
    together, and the sets as an array (sets, blocks)."""
    ones = np.left_shift(np.uint64(1), np.arange(count, dtype=np.uint64))
    sets = [np.zeros(1, dtype=np.uint64)]
    last = np.full(1, -1)
    for _ in range(min(MOST_BAD_BLOCKS, count)):
        # each set is extended by one block after its last member
        grown = [sets[-1][last < i] | ones[i] for i in range(count)]
        last = np.concatenate([np.full(len(g), i) for i, g in enumerate(grown)])
        sets.append(np.concatenate(grown))
    bad = np.concatenate(sets)
    # in addition, faults that appear only if two blocks run together, with no bad block or one
    both = np.array([ones[i] | ones[j] for i in range(count) for j in range(i)], dtype=np.uint64)
    few = bad[: count + 1]
    whole = np.concatenate([bad, np.repeat(few, len(both))])
    holds = np.array([whole & one > 0 for one in ones]).reshape(count, -1).T
    return whole, np.concatenate([np.zeros(len(bad), np.uint64), np.tile(both, len(few))]), holds


class Blocks:
    """Which leaves contain bad nodes: each set of up to five of them, weighed by all results together. If there are
    many leaves, several make one block."""

    def __init__(self, blocks: Sequence[tuple[int, ...]], leaves: Sequence[int], level: Level) -> None:
        self.blocks, self.level = blocks, level
        self.place = {n: i for i, block in enumerate(blocks) for n in block}
        chance = np.array([min(len(b) * NODE + n * LEAF, 0.5) for b, n in zip(blocks, leaves, strict=True)])
        self.odds = np.log(chance) - np.log1p(-chance)
        self.bad, self.both, self.holds = _sets(len(blocks))
        together = math.log(TOGETHER / max(len(blocks) * (len(blocks) - 1) // 2, 1))
        self.prior = np.where(self.both > 0, together, 0.0)
        for odds, inside in zip(self.odds, self.holds.T, strict=True):
            self.prior += odds * inside
        #: The answer to each mask, with the probability that something else in the group is bad; without a probability
        #: it is evidence from elsewhere.
        self.said: list[tuple[int, float, float | None]] = []
        self.hits = np.zeros((0, len(self.bad)), dtype=bool)

    def mask(self, nodes: Sequence[int]) -> int:
        return sum(1 << block for block in {self.place[n] for n in nodes})

    def take(self, mask: int, said: float, doubt: float | None = 0.0) -> None:
        """A test of blocks and its answer; `doubt`: the probability that something else in the group is bad. None:
        `said` is evidence."""
        self.said.append((mask, said, doubt))

    def weigh(self) -> None:
        """Weighs all sets by all results; excluded sets are ignored from then on."""
        new = [np.uint64(mask) for mask, _, _ in self.said[len(self.hits) :]]
        hit = [(self.bad & one > 0) | ((self.both > 0) & (self.both & ~one == 0)) for one in new]
        self.hits = np.vstack([self.hits, *hit])
        weight = self.prior.copy()
        # one after the other: the order of additions in a matrix product depends on the processor
        for (_, x, doubt), slow in zip(self.said, self.hits, strict=True):
            weight += (x if doubt is None else beside(self.level.evidence(x), doubt)) * slow
        weight = np.exp(weight - weight.max())
        live = weight > _OUT_OF_THE_QUESTION
        if live.mean() < 0.5:
            self.bad, self.both, self.prior = self.bad[live], self.both[live], self.prior[live]
            self.holds, self.hits, weight = self.holds[live], self.hits[:, live], weight[live]
        self.weight = weight / weight.sum()
        self.chance = self.weight @ self.holds

    def good_answers(self, block: int) -> int:
        """Results that are clearly those of a good group containing this block."""
        of = [value for mask, value, doubt in self.said if doubt is not None and mask >> block & 1]
        return sum(self.level.evidence(value) <= -WAY for value in of)

    def any_of(self, mask: int) -> float:
        """Probability that one of these is bad."""
        return float(self.weight[self.bad & np.uint64(mask) > 0].sum())

    def at_least(self, sure: float = ENOUGH) -> int:
        """Number of bad blocks, with its certainty."""
        count = np.bincount(self.holds.sum(axis=1).astype(int), self.weight, MOST_BAD_BLOCKS + 2)
        return int((np.cumsum(count[::-1])[::-1] >= sure).sum()) - 1

    def together(self) -> float:
        """Probability of a fault that appears only with two blocks together."""
        return float(self.weight[self.both > 0].sum())

    def pair(self) -> tuple[int, ...]:
        """Nodes of the blocks that are most likely slow together."""
        row = int(ranked(np.where(self.both > 0, self.weight, 0))[0])
        return tuple(n for i, b in enumerate(self.blocks) if int(self.both[row]) >> i & 1 for n in b)


@cache
def _threes(count: int) -> tuple[np.ndarray, ...]:
    """All triples of this many, as three columns."""
    sets = np.array(list(combinations(range(count), 3)), dtype=int).reshape(-1, 3)
    return tuple(sets.T)


class Suspects:
    """What may be wrong among the nodes of one slow group, each possibility with its weight after all answers: no node,
    one, two, three if there are few, a leaf, a leaf and a node, two leaves, or a fault that appears only with all nodes
    together. Nearly certain nodes (`sure`) belong to every possibility from then on, so that others are found too."""

    def __init__(
        self, whole: Question, leaf_of: Callable[[int], int], leaves: Mapping[int, Sequence[int]], level: Level
    ) -> None:
        self.nodes, self.level = whole.nodes, level
        self.place = {n: i for i, n in enumerate(whole.nodes)}
        members = {leaf: leaves[leaf] for leaf in dict.fromkeys(leaf_of(n) for n in whole.nodes)}
        #: Leaves that may be bad: those with several nodes, all of which are here.
        self.leaves = {leaf: own for leaf, own in members.items() if len(own) >= 4 and set(own) <= set(whole.nodes)}
        self.members = members
        self.inside = np.zeros((len(self.leaves), len(whole.nodes)), dtype=bool)
        for row, own in enumerate(self.leaves.values()):
            self.inside[row, [self.place[n] for n in own]] = True
        self.sure = np.zeros(len(whole.nodes), dtype=bool)
        self.sure_leaves = np.zeros(len(self.leaves), dtype=bool)
        self.tests = [whole]
        self.certain = _CERTAIN
        self._possibilities()

    def _possibilities(self) -> None:
        """Which nodes and leaves each possibility considers bad. Row 0 has only the certain ones; row 1 is a fault that
        appears only with all nodes together."""
        free = np.flatnonzero(~(self.sure | self.inside[self.sure_leaves].any(axis=0)))
        open_leaves = np.flatnonzero(~self.sure_leaves)
        pairs = np.triu_indices(len(free), 1) if len(free) <= _PAIRED else (np.empty(0, int),) * 2
        threes = _threes(len(free)) if len(free) <= _IN_THREES else (np.empty(0, int),) * 3
        beside = np.nonzero(~self.inside[open_leaves][:, free])
        both = np.triu_indices(len(open_leaves), 1)
        #: Columns of nodes, columns of leaves, and the prior probability of each kind of possibility.
        kinds: list[tuple[list[np.ndarray], list[np.ndarray], float]] = [
            ([], [], 1.0), ([], [], TOGETHER), ([free], [], NODE), ([free[pairs[0]], free[pairs[1]]], [], NODE**2),
            ([free[column] for column in threes], [], NODE**3), ([], [open_leaves], LEAF),
            ([free[beside[1]]], [open_leaves[beside[0]]], LEAF * NODE),
            ([], [open_leaves[both[0]], open_leaves[both[1]]], LEAF**2),
        ]  # fmt: skip
        alone, of_leaves, prior = [], [], []
        for nodes, leaves, chance in kinds:
            count = len([*nodes, *leaves][0]) if nodes or leaves else 1
            alone.append(np.zeros((count, len(self.nodes)), dtype=bool))
            of_leaves.append(np.zeros((count, len(self.leaves)), dtype=bool))
            for columns, into in ((nodes, alone[-1]), (leaves, of_leaves[-1])):
                for column in columns:
                    into[np.arange(count), column] = True
            prior.append(np.full(count, math.log(chance)))
        self.alone = np.concatenate(alone) | self.sure
        self.of_leaves = np.concatenate(of_leaves) | self.sure_leaves
        self.bad = self.alone | (self.of_leaves.astype(int) @ self.inside > 0)
        self.prior = np.concatenate(prior)
        if self.sure.any() or self.sure_leaves.any():
            self.prior[1] = -np.inf
        self.hits = np.column_stack([self._hit(test.nodes) for test in self.tests])
        self._weigh()

    def _hit(self, nodes: Sequence[int]) -> np.ndarray:
        """Which possibilities make a group with these nodes slow."""
        found: np.ndarray = np.any(self.bad[:, [self.place[n] for n in nodes]], axis=1)
        found[1] |= len(nodes) == len(self.nodes)
        return found

    def _weigh(self) -> None:
        said = np.array([test.known + test.weigh(self.level) for test in self.tests])
        weight = self.prior + self.hits @ said
        weight = np.exp(weight - weight.max())
        self.weight = weight / weight.sum()

    def take(self, questions: Sequence[Question]) -> None:
        """Weighs the results of new tests."""
        self.tests += questions
        self.hits = np.column_stack([self.hits, *(self._hit(q.nodes) for q in questions)])
        self._weigh()
        while not self.decided:
            nodes = (self.weight @ self.alone >= self.certain) & ~self.sure
            leaves = (self.weight @ self.of_leaves >= self.certain) & ~self.sure_leaves
            if not nodes.any() and not leaves.any():
                return
            self.sure |= nodes
            self.sure_leaves |= leaves
            self._possibilities()

    def reopen(self) -> None:
        """Weighs again whether the nearly certain ones are bad, before further tests prove it. With three or more, not
        all possibilities can be kept."""
        self.certain = _PROVED
        if self.sure.sum() + self.sure_leaves.sum() <= 2:
            self.sure[:], self.sure_leaves[:] = False, False
            self._possibilities()

    def slow(self, nodes: Sequence[int]) -> float:
        """Probability that a group with these nodes is slow."""
        return float(self.weight[self._hit(nodes)].sum())

    @property
    def decided(self) -> bool:
        return bool(self.weight.max() >= (_NOBODY if self.nobody else _DECIDED))

    @property
    def proved(self) -> bool:
        """Whether more than one result would have to be wrong. Each bad node was slow without the others, and so were
        single nodes of each bad leaf: three bad nodes resemble a leaf until another of its nodes is tested.
        """
        nodes, leaves = self.best()
        alone = self._slow_alone()
        of_leaves = all(len(alone.intersection(self.members[leaf])) >= _OF_A_LEAF for leaf in leaves)
        return bool(self.weight.max() >= _PROVED and alone.issuperset(nodes) and of_leaves)

    def _slow_alone(self) -> set[int]:
        return {test.nodes[0] for test in self.tests if len(test.nodes) == 1 and test.weigh(self.level) > 0}

    @property
    def nobody(self) -> bool:
        """Whether it is most likely that no node is bad."""
        return int(self.weight.argmax()) == 0 and not self.sure.any() and not self.sure_leaves.any()

    @property
    def doubtful(self) -> bool:
        """Whether it is still open that any node is bad."""
        return bool(self.weight[0] > 1 - NEARLY) and not self.sure.any() and not self.sure_leaves.any()

    @property
    def only_together(self) -> bool:
        return int(self.weight.argmax()) == 1

    def best(self) -> tuple[list[int], list[int]]:
        """Bad nodes and bad leaves of the most likely possibility."""
        row = int(self.weight.argmax())
        nodes = [n for n, is_bad in zip(self.nodes, self.alone[row], strict=True) if is_bad]
        return nodes, [leaf for leaf, is_bad in zip(self.leaves, self.of_leaves[row], strict=True) if is_bad]

    def open_bits(self) -> float:
        """The remaining uncertainty in bits."""
        return float(_bits(self.weight).sum())

    def at_least(self, sure: float = ENOUGH) -> int:
        """Number of bad nodes and leaves, with its certainty."""
        count = np.bincount(self.alone.sum(axis=1) + self.of_leaves.sum(axis=1), self.weight)
        return int((np.cumsum(count[::-1])[::-1] >= sure).sum()) - 1

    def next_tests(self, rounds: int = MAX_ROUNDS, share: float = 1.0) -> list[tuple[int, ...]]:
        """The group with the most informative result and, while much is open, others that share no node with it.
        `share`: jobs that may be spent in each of the `rounds` that are left."""
        live = np.flatnonzero(self.weight > 1e-5)
        weight, bad = self.weight[live], self.bad[live]
        candidates = self._candidates(weight @ bad)
        hit = (bad.astype(np.float32) @ candidates.T.astype(np.float32)) > 0
        hit[live == 1] |= candidates.all(axis=1)
        first = _most(_told(weight @ hit))
        chosen = [candidates[first]]
        left = self.open_bits()
        # when few rounds are left, more jobs are used
        scarce = rounds < left + _ROUNDS_TO_PROVE
        more = max(int(left > _BITS_FOR_TWO) + int(left > _BITS_FOR_THREE) + 2 * int(scarce), round(share) - 1)
        for _ in range(more):
            # the most informative one in addition to the first, among those that share no node with the selected ones
            apart = np.flatnonzero(~(candidates & np.any(chosen, axis=0)).any(axis=1))
            if not len(apart):
                break
            both = weight @ (hit[:, apart] & hit[:, [first]])
            p, q = float(weight @ hit[:, first]), weight @ hit[:, apart]
            told = sum((_bits(x) for x in (both, q - both, p - both, 1 - p - q + both)), np.zeros(len(apart)))
            chosen.append(candidates[apart[_most(told)]])
        return [tuple(n for n, inside in zip(self.nodes, one, strict=True) if inside) for one in chosen]

    def proof(self) -> list[tuple[int, ...]]:
        """Tests of the decision: each bad node alone, single nodes of each bad leaf, and all others of the group."""
        nodes, leaves = self.best()
        alone = self._slow_alone()
        singles: list[int] = []
        for leaf in leaves:
            # those with the fewest tests so far: earlier slow answers do not depend on them
            often = Counter(n for test in self.tests for n in test.nodes)
            left = sorted(set(self.members[leaf]) - alone, key=lambda n: often[n])
            singles += left[: max(_OF_A_LEAF - len(alone.intersection(self.members[leaf])), 0)]
        if singles:
            return [(n,) for n in singles]
        if leaves or self.only_together:
            return self.next_tests()
        others = tuple(n for n in self.nodes if n not in nodes)
        return [*((n,) for n in nodes), *([others] if others else [])]

    def _candidates(self, chance: np.ndarray) -> np.ndarray:
        """(candidates, nodes): nodes that together hold a fraction of the probability of being bad, and their
        complements; chosen from all nodes, the most doubtful ones, each leaf and the unknown rest."""
        every = np.ones(len(self.nodes), dtype=bool)
        known = self.sure | self.inside[self.sure_leaves].any(axis=0)
        likely = ranked(chance)
        doubtful = ranked(chance * (1 - chance))
        found = [np.eye(len(self.nodes), dtype=bool)[doubtful[:8]]]
        within = [every, every & ~known, *(np.isin(self.nodes, own) for own in self.members.values())]
        for part in within:
            if not part.any():
                continue
            heads: list[np.ndarray] = [part]
            for order in (np.arange(len(self.nodes)), likely):
                rank = np.argsort(order)
                total = np.cumsum(np.where(part, chance, 0.0)[order])[rank]
                heads += [part & (total <= share * total.max() * (1 + _ROUNDING)) for share in _SHARES]
            rows = np.array(heads)
            found += [rows, part & ~rows]
        rows = np.unique(np.concatenate(found), axis=0)
        return rows[rows.any(axis=1)]


def _bits(chance: np.ndarray) -> np.ndarray:
    kept = np.clip(chance, 1e-12, 1.0)
    return -kept * np.log2(kept)


def _told(chance: np.ndarray) -> np.ndarray:
    """Information in bits of a test that is slow with this probability, if one result in a hundred is wrong."""
    slow = 0.99 * chance + 0.01 * (1 - chance)
    return _bits(slow) + _bits(1 - slow)
