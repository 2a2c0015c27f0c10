"""Group testing: the bad node, leaf switch or pair among many that passed alone, with few jobs between nodes.

A job over a group of nodes is as slow as its worst member. Groups are split where they are slow; each answer is
weighed, not believed: noise is heavy-tailed, so that an answer in the middle is asked again. All groups of one round
run at once and share no node. Small groups are filled up with nodes that were found good, of other leaves first: so all
jobs are of one size (noise and figure depend on it), and each crosses the leaf switch of the nodes in question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

#: Gives the figure of each group of a round, larger is better; None: the job left none.
Ask = Callable[[list[tuple[int, ...]]], Sequence["float | None"]]
Leaf = Callable[[int], int]

#: What a fault takes off the figure, at least: smaller ones are not looked for.
EFFECT = 0.2
#: Evidence in nats by which nodes count as good or bad: in the first round, where a bad one that is missed stays so; on
#: the way down, where contradictions show; and before anything is named.
_FIRST, _WAY, _NAMED = 5.0, 3.0, 7.0
_FIRST_GROUPS = 16
#: Groups of more nodes are halved before the possibilities among them are weighed, up to so many of them in pairs too.
_WEIGHED, _PAIRED = 96, 128
#: Chances of a bad node, of a bad leaf, and of what shows only where all are together, before any answer.
_NODE, _LEAF, _TOGETHER = 1 / 300, 1 / 100, 1e-4
#: Weight at which a possibility is taken for true, also when no more can be asked, nobody for bad, and a node for
#: certainly one of the bad.
_DECIDED, _NEARLY, _NOBODY, _CERTAIN = 0.999, 0.98, 0.995, 0.995
#: What one answer says at most for a good and for a bad group: jobs that other work slowed down lie far below the rest,
#: in a way that no few answers teach.
_ONE_GOOD, _ONE_BAD = 6.0, 4.5
#: Tests of one slow group, at most.
_MOST_TESTS = 60
#: While more bits than this are open two or three tests of a slow group run at once: rounds are dearer than jobs then.
_BITS_FOR_TWO, _BITS_FOR_THREE = 1.5, 7.0
#: Shares of the chance of being bad at which nodes are parted for a test.
_SHARES = np.array([0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875])
MAX_ROUNDS = 14
#: Times that one question is asked at most.
_PATIENCE = 6


def allowed_jobs(bad: int) -> int:
    """Jobs that may be spent where so many are bad."""
    return 12 * bad + 24


@dataclass
class Question:
    """Whether there is a bad one among `nodes`: evidence for it in nats, and what is needed either way."""

    nodes: tuple[int, ...]
    good_at: float = _WAY
    bad_at: float = _WAY
    evidence: float = 0.0
    asked: int = 0
    answers: list[float] = field(default_factory=list)
    #: What one clear answer says at most: where noise is large, no more can be asked for without many answers.
    clearest: float = math.inf
    #: One answer is enough: whoever asks weighs it.
    once: bool = False

    @property
    def settled(self) -> bool:
        return self.asked > 0 and (
            self.once
            or self.evidence >= self._within(self.bad_at)
            or self.evidence <= -self._within(self.good_at)
            or self.asked >= _PATIENCE
        )

    def _within(self, limit: float) -> float:
        return min(limit, max(_WAY, 0.75 * self.clearest)) if limit < _NAMED else limit

    @property
    def bad(self) -> bool:
        return self.evidence > 0


@dataclass
class Found:
    """`nodes`, `leaves`: bad ones. `unexplained`: groups that are slow although their parts are not: a pair, or a fault
    that comes and goes. `whole`: no question was left open."""

    nodes: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    unexplained: list[tuple[int, ...]] = field(default_factory=list)
    good: set[int] = field(default_factory=set)
    jobs: int = 0
    rounds: int = 0
    whole: bool = True


class Level:
    """The figure of a good group and its noise, learnt from all answers: the good ones are the upper cluster."""

    def __init__(self) -> None:
        self.answers: list[float] = []
        self._known: tuple[int, tuple[float, float]] = (0, (1.0, 1.0))

    def evidence(self, value: float) -> float:
        """Nats for a bad group (a figure less by EFFECT) against a good one, by Student's t of 3 degrees. A figure
        below that of a bad group is no less bad; one far above that of a good group tells that noise is large."""
        centre, scale = self.good()
        off, bad = math.log(max(value, 1e-9 * centre) / centre), math.log(1 - EFFECT)
        from_good, from_bad = off, max(off - bad, 0.0)
        found = 2 * (math.log1p((from_good / scale) ** 2 / 3) - math.log1p((from_bad / scale) ** 2 / 3))
        return min(max(found, -_ONE_GOOD), _ONE_BAD)

    def clearest(self) -> float:
        """Evidence of an answer without noise."""
        return 2 * math.log1p((math.log(1 - EFFECT) / self.good()[1]) ** 2 / 3)

    def good(self) -> tuple[float, float]:
        """Figure of good groups, and its relative scale."""
        if self._known[0] != len(self.answers):
            self._known = len(self.answers), self._learn()
        return self._known[1]

    def _learn(self) -> tuple[float, float]:
        logs = np.sort(np.log(np.maximum(self.answers, 1e-300)))
        half = -math.log(1 - EFFECT) / 2
        counts = np.searchsorted(logs, logs + half, "right") - np.searchsorted(logs, logs - half)
        # the highest level that many agree on: of bad groups there may be as many, a lucky answer stands alone
        centre = float(logs[np.flatnonzero(counts >= 0.45 * counts.max())[-1]])
        for _ in range(4):
            near = logs[np.abs(logs - centre) <= half]
            centre = float(np.median(near))
        # never less than a hundredth, which a few answers that happen to agree would say
        return math.exp(centre), max(1.4826 * float(np.median(np.abs(near - centre))) / 1.13, 0.01)


_Hunt = Generator[list[Question], None, list["_Hunt"]]


def search(nodes: Sequence[int], leaf_of: Leaf, ask: Ask, seed: int = 0, max_rounds: int = MAX_ROUNDS) -> Found:
    """Looks for bad nodes and leaves among `nodes`, which passed alone. At least two leaves' worth make sense."""
    rng = np.random.default_rng(seed)
    found, level = Found(), Level()
    leaves: dict[int, list[int]] = {}
    for node in nodes:
        leaves.setdefault(leaf_of(node), []).append(node)
    order = [list(leaves)[i] for i in rng.permutation(len(leaves))]
    blocks = [b for b in np.array_split(np.arange(len(order)), min(_FIRST_GROUPS, len(order))) if len(b)]
    first = [Question(tuple(n for i in block for n in leaves[order[i]]), _FIRST, _FIRST) for block in blocks]
    size = max(len(q.nodes) for q in first)

    def begin() -> _Hunt:
        yield first
        for question in first:
            if not question.bad:
                found.good.update(question.nodes)
        return [_hunt(q, leaf_of, leaves, found, level, max_rounds) for q in first if q.bad]

    hunts: list[tuple[_Hunt, list[Question]]] = []

    def advance(hunt: _Hunt) -> None:
        try:
            hunts.append((hunt, next(hunt)))
        except StopIteration as over:
            for one in over.value or ():
                advance(one)

    advance(begin())
    while hunts and found.rounds < max_rounds:
        groups, asked = [], []
        used: set[int] = set()
        waiting = [q for _, questions in hunts for q in questions if not q.settled]
        kept = {n for q in waiting for n in q.nodes}
        fillers = [int(n) for n in rng.permutation(sorted(found.good - kept))]
        for question in waiting:
            if used.isdisjoint(question.nodes):
                group = _filled(question.nodes, size, fillers, used, leaf_of)
                groups.append(group)
                asked.append(question)
                used.update(group)
        answers = ask(groups)
        found.rounds += 1
        found.jobs += len(groups)
        level.answers += [float(value) for value in answers if value is not None]
        for question, value in zip(asked, answers, strict=True):
            if value is not None:
                question.answers.append(float(value))
        for question in waiting:  # with each round the level of good groups is known better
            question.asked, question.clearest = len(question.answers), level.clearest()
            question.evidence = sum(level.evidence(value) for value in question.answers)
        over = [hunt for hunt, questions in hunts if all(q.settled for q in questions)]
        hunts = [one for one in hunts if one[0] not in over]
        for hunt in over:
            advance(hunt)
    found.whole &= not hunts
    found.unexplained += [q.nodes for _, questions in hunts for q in questions if q.bad or not q.settled]
    return found


def _filled(
    nodes: tuple[int, ...], size: int, fillers: Sequence[int], used: set[int], leaf_of: Leaf
) -> tuple[int, ...]:
    own = {leaf_of(n) for n in nodes}
    free = [n for n in fillers if n not in used]
    free.sort(key=lambda n: leaf_of(n) in own)
    return (*nodes, *free[: max(size - len(nodes), 0)])


def _halves(nodes: tuple[int, ...], leaf_of: Leaf) -> list[tuple[int, ...]]:
    """Of leaves where there are several, else of nodes."""
    kept = list(dict.fromkeys(leaf_of(n) for n in nodes))
    if len(kept) > 1:
        first = set(kept[: len(kept) // 2])
        return [tuple(n for n in nodes if (leaf_of(n) in first) == side) for side in (True, False)]
    middle = len(nodes) // 2
    return [nodes[:middle], nodes[middle:]]


def _hunt(
    whole: Question, leaf_of: Leaf, leaves: dict[int, list[int]], found: Found, level: Level, max_rounds: int
) -> _Hunt:
    """Finds the bad ones of nodes among which there seems to be one; ends with hunts in their parts."""
    if len(whole.nodes) > _WEIGHED and len({leaf_of(n) for n in whole.nodes}) > 1:
        halves = [Question(half) for half in _halves(whole.nodes, leaf_of)]
        yield halves
        if not any(q.bad for q in halves):
            again = Question(whole.nodes, _NAMED, _NAMED)
            yield [again]
            if again.bad:  # bad only together, or one of the halves after all
                halves = [Question(q.nodes, _NAMED, _WAY) for q in halves]
                yield halves
                if not any(q.bad for q in halves):
                    found.unexplained.append(whole.nodes)
                    return []
        for question in halves:
            if not question.bad:
                found.good.update(question.nodes)
        return [_hunt(q, leaf_of, leaves, found, level, max_rounds) for q in halves if q.bad]
    suspects = _Suspects(whole, leaf_of, leaves, level)
    while not suspects.decided:
        last = found.rounds >= max_rounds or len(suspects.tests) >= _MOST_TESTS
        if last and suspects.weight.max() < _NEARLY:
            found.unexplained.append(whole.nodes)
            found.whole = False
            return []
        if last:
            break
        questions = [Question(nodes, once=True) for nodes in suspects.next_tests()]
        yield questions
        suspects.take(questions)
    nodes, bad_leaves = suspects.best()
    if suspects.only_together:
        found.unexplained.append(whole.nodes)
        return []
    found.nodes += nodes
    found.leaves += bad_leaves
    named = {*nodes, *(n for leaf in bad_leaves for n in leaves[leaf])}
    found.good.update(n for n in whole.nodes if n not in named)
    return []


class _Suspects:
    """What may be wrong among the nodes of one slow group, each possibility with its weight after all answers: nobody,
    one node, two, a leaf, a leaf and a node, two leaves, or what shows only where all are together. Nodes that are all
    but certain (`sure`) are part of every possibility from then on, so that three and more are found."""

    def __init__(self, whole: Question, leaf_of: Leaf, leaves: dict[int, list[int]], level: Level) -> None:
        self.nodes, self.level = whole.nodes, level
        self.place = {n: i for i, n in enumerate(whole.nodes)}
        members = {leaf: leaves[leaf] for leaf in dict.fromkeys(leaf_of(n) for n in whole.nodes)}
        #: Leaves that may be bad: those of several nodes, all of which are here.
        self.leaves = {leaf: own for leaf, own in members.items() if len(own) >= 4 and set(own) <= set(whole.nodes)}
        self.members = members
        self.inside = np.zeros((len(self.leaves), len(whole.nodes)), dtype=bool)
        for row, own in enumerate(self.leaves.values()):
            self.inside[row, [self.place[n] for n in own]] = True
        self.sure = np.zeros(len(whole.nodes), dtype=bool)
        self.sure_leaves = np.zeros(len(self.leaves), dtype=bool)
        self.tests = [whole]
        self._possibilities()

    def _possibilities(self) -> None:
        """Which nodes and which leaves each possibility holds for bad; 0 is nobody else than the sure ones, 1 what
        shows only where all are together."""
        free = np.flatnonzero(~(self.sure | self.inside[self.sure_leaves].any(axis=0)))
        open_leaves = np.flatnonzero(~self.sure_leaves)
        pairs = np.triu_indices(len(free), 1) if len(free) <= _PAIRED else (np.empty(0, int),) * 2
        beside = np.nonzero(~self.inside[open_leaves][:, free])
        both = np.triu_indices(len(open_leaves), 1)
        #: Columns of nodes, columns of leaves, and the chance of each kind of possibility.
        kinds: list[tuple[list[np.ndarray], list[np.ndarray], float]] = [
            ([], [], 1.0), ([], [], _TOGETHER), ([free], [], _NODE), ([free[pairs[0]], free[pairs[1]]], [], _NODE**2),
            ([], [open_leaves], _LEAF), ([free[beside[1]]], [open_leaves[beside[0]]], _LEAF * _NODE),
            ([], [open_leaves[both[0]], open_leaves[both[1]]], _LEAF**2),
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
        said = np.array([sum(map(self.level.evidence, test.answers)) for test in self.tests])
        weight = self.prior + self.hits @ said
        weight = np.exp(weight - weight.max())
        self.weight = weight / weight.sum()

    def take(self, questions: Sequence[Question]) -> None:
        """Weighs the answers of new tests."""
        self.tests += questions
        self.hits = np.column_stack([self.hits, *(self._hit(q.nodes) for q in questions)])
        self._weigh()
        while not self.decided:
            nodes = (self.weight @ self.alone >= _CERTAIN) & ~self.sure
            leaves = (self.weight @ self.of_leaves >= _CERTAIN) & ~self.sure_leaves
            if not nodes.any() and not leaves.any():
                return
            self.sure |= nodes
            self.sure_leaves |= leaves
            self._possibilities()

    @property
    def decided(self) -> bool:
        best = int(self.weight.argmax())
        nobody = best == 0 and not self.sure.any() and not self.sure_leaves.any()
        return bool(self.weight[best] >= (_NOBODY if nobody else _DECIDED))

    @property
    def only_together(self) -> bool:
        return int(self.weight.argmax()) == 1

    def best(self) -> tuple[list[int], list[int]]:
        """Bad nodes and bad leaves of the likeliest possibility."""
        row = int(self.weight.argmax())
        nodes = [n for n, is_bad in zip(self.nodes, self.alone[row], strict=True) if is_bad]
        return nodes, [leaf for leaf, is_bad in zip(self.leaves, self.of_leaves[row], strict=True) if is_bad]

    def open_bits(self) -> float:
        """What is not known yet."""
        return float(_bits(self.weight).sum())

    def next_tests(self) -> list[tuple[int, ...]]:
        """The group whose answer tells most, and while much is open others that share no node with it."""
        live = np.flatnonzero(self.weight > 1e-5)
        weight, bad = self.weight[live], self.bad[live]
        candidates = self._candidates(weight @ bad)
        hit = (bad.astype(np.float32) @ candidates.T.astype(np.float32)) > 0
        hit[live == 1] |= candidates.all(axis=1)
        first = int(_told(weight @ hit).argmax())
        chosen = [candidates[first]]
        left = self.open_bits()
        more = int(left > _BITS_FOR_TWO) + int(left > _BITS_FOR_THREE)
        for _ in range(more):
            # the one that tells most beside the first, of those that share no node with what is chosen
            apart = np.flatnonzero(~(candidates & np.any(chosen, axis=0)).any(axis=1))
            if not len(apart):
                break
            both = weight @ (hit[:, apart] & hit[:, [first]])
            p, q = float(weight @ hit[:, first]), weight @ hit[:, apart]
            told = sum(_bits(x) for x in (both, q - both, p - both, 1 - p - q + both))
            chosen.append(candidates[apart[int(np.argmax(told))]])
        return [tuple(n for n, inside in zip(self.nodes, one, strict=True) if inside) for one in chosen]

    def _candidates(self, chance: np.ndarray) -> np.ndarray:
        """(candidates, nodes): the most doubtful nodes, all, and of all, of each leaf and of what is not yet known
        for bad parts that hold a share of the chance, with what is left of them."""
        every = np.ones(len(self.nodes), dtype=bool)
        known = self.sure | self.inside[self.sure_leaves].any(axis=0)
        likely = np.argsort(-chance, kind="stable")
        doubtful = np.argsort(-chance * (1 - chance), kind="stable")
        found = [np.eye(len(self.nodes), dtype=bool)[doubtful[:8]]]
        within = [every, every & ~known, *(np.isin(self.nodes, own) for own in self.members.values())]
        for part in within:
            if not part.any():
                continue
            heads: list[np.ndarray] = [part]
            for order in (np.arange(len(self.nodes)), likely):
                rank = np.argsort(order)
                total = np.cumsum(np.where(part, chance, 0.0)[order])[rank]
                heads += [part & (total <= share * total.max()) for share in _SHARES]
            rows = np.array(heads)
            found += [rows, part & ~rows]
        rows = np.unique(np.concatenate(found), axis=0)
        return rows[rows.any(axis=1)]


def _bits(chance: np.ndarray) -> np.ndarray:
    kept = np.clip(chance, 1e-12, 1.0)
    return -kept * np.log2(kept)


def _told(chance: np.ndarray) -> np.ndarray:
    """Bits that a test tells which is slow with this chance, of answers of which one in a hundred is wrong."""
    slow = 0.99 * chance + 0.01 * (1 - chance)
    return _bits(slow) + _bits(1 - slow)


# ---- pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """What a tournament covered: leaf pairs that met, of how many, and bad pairs of leaves."""

    rounds: int
    jobs: int
    covered: float
    bad: tuple[tuple[int, int], ...]
    #: Chance that a fault between two leaves, of those that met, was missed in all its answers.
    missed: float


def tournament(leaves: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Rounds in which each leaf meets another one, every pair once (the circle method); an odd one rests."""
    ring: list[int | None] = [*leaves, *([None] if len(leaves) % 2 else [])]
    rounds = []
    for _ in range(len(ring) - 1):
        pairs = [(ring[i], ring[-1 - i]) for i in range(len(ring) // 2)]
        rounds.append([(a, b) for a, b in pairs if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def pairs(members: Mapping[int, Sequence[int]], ask: Ask, rounds: int) -> Pairs:
    """Leaves against leaves in so many rounds; those that are slow together are asked until it is sure."""
    level, jobs, spent, met = Level(), 0, 0, 0
    bad: list[tuple[int, int]] = []
    schedule = tournament(sorted(members))
    for meeting in schedule[:rounds]:
        open_ones = {pair: Question((*members[pair[0]], *members[pair[1]]), _FIRST, _NAMED) for pair in meeting}
        met += len(open_ones)
        while any(not q.settled for q in open_ones.values()):
            asked = [q for q in open_ones.values() if not q.settled]
            answers = ask([q.nodes for q in asked])
            spent, jobs = spent + 1, jobs + len(asked)
            level.answers += [float(v) for v in answers if v is not None]
            for question, value in zip(asked, answers, strict=True):
                question.asked += 1
                question.evidence += 0.0 if value is None else level.evidence(float(value))
        bad += [pair for pair, q in open_ones.items() if q.evidence >= _NAMED]
    total = len(members) * (len(members) - 1) // 2
    return Pairs(spent, jobs, met / total if total else 1.0, tuple(bad), math.exp(-_FIRST))


def narrow(
    left: Sequence[int], right: Sequence[int], fillers: Sequence[int], ask: Ask, most: int = 60
) -> tuple[int, int] | None:
    """The pair of one node of each side that is slow together: by halves of one side, then of the other; proved by the
    two among good nodes and by all but the two. `fillers`: good nodes of other leaves, as many as both sides, with
    which all jobs are of one size. None: it could not be shown in `most` jobs."""
    level, size, jobs = Level(), len(left) + len(right), 0

    def figure(nodes: Sequence[int]) -> float | None:
        nonlocal jobs
        jobs += 1
        (value,) = ask([(*nodes, *fillers[: max(size - len(nodes), 0)])])
        if value is not None:
            level.answers.append(float(value))
        return value

    def is_bad(nodes: Sequence[int], sure: float = _WAY) -> bool:
        question = Question(tuple(nodes), sure, sure)
        while not question.settled and jobs < most:
            value = figure(nodes)
            question.answers += [] if value is None else [float(value)]
            question.asked += 1
            question.evidence = sum(level.evidence(v) for v in question.answers)
        return question.bad

    for _ in range(4):  # what good nodes give
        figure(())
    sides = [list(left), list(right)]
    for side in (0, 1):
        while len(sides[side]) > 1:
            half = sides[side][: len(sides[side]) // 2]
            slow = is_bad((*half, *sides[1 - side]))
            sides[side] = half if slow else sides[side][len(half) :]
    (a, *_), (b, *_) = sides
    without = [n for n in (*left, *right) if n not in (a, b)]
    proved = is_bad((a, b), _NAMED) and not is_bad(without, _NAMED)
    return (a, b) if proved and jobs < most else None
