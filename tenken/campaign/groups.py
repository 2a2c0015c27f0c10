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
#: halves of leaves, where one would have nodes of a bad leaf accused; on the way down, where contradictions show; and
#: before anything is named.
_FIRST, _HALF, _WAY, _NAMED = 5.0, 3.2, 3.0, 7.0
_FIRST_GROUPS = 16
#: Up to so many nodes one half is asked about and the other one follows.
_SMALL = 8
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

    @property
    def settled(self) -> bool:
        return self.asked > 0 and (
            self.evidence >= self._within(self.bad_at)
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

    def evidence(self, value: float) -> float:
        """Nats for a bad group (a figure less by EFFECT) against a good one, by Student's t of 3 degrees. A figure
        below that of a bad group is no less bad; one far above that of a good group tells that noise is large."""
        centre, scale = self.good()
        off, bad = math.log(max(value, 1e-9 * centre) / centre), math.log(1 - EFFECT)
        from_good, from_bad = off, max(off - bad, 0.0)
        return 2 * (math.log1p((from_good / scale) ** 2 / 3) - math.log1p((from_bad / scale) ** 2 / 3))

    def clearest(self) -> float:
        """Evidence of an answer without noise."""
        return 2 * math.log1p((math.log(1 - EFFECT) / self.good()[1]) ** 2 / 3)

    def good(self) -> tuple[float, float]:
        """Figure of good groups, and its relative scale."""
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
    first = [Question(tuple(n for i in block for n in leaves[order[i]]), _FIRST, _WAY) for block in blocks]
    size = max(len(q.nodes) for q in first)

    def begin() -> _Hunt:
        yield first
        for question in first:
            if not question.bad:
                found.good.update(question.nodes)
        return [_hunt(q, leaf_of, leaves, found) for q in first if q.bad]

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
    found.whole = not hunts
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


def _hunt(whole: Question, leaf_of: Leaf, leaves: dict[int, list[int]], found: Found) -> _Hunt:
    """Finds the bad ones of nodes among which there is one; ends with hunts in their parts."""
    if len(whole.nodes) <= _SMALL:
        return (yield from _corner(whole, leaf_of, leaves, found))
    kept = list(dict.fromkeys(leaf_of(n) for n in whole.nodes))
    full = [leaf for leaf in kept if set(leaves[leaf]) <= set(whole.nodes)]
    if len(kept) <= 2 and full == kept and all(len(leaves[leaf]) >= 4 for leaf in kept):
        # halves of one leaf or of two at once: a round less. A half of a bad leaf that is taken for good would have
        # single nodes of the other half accused
        halves = [Question(half, _HALF) for leaf in kept for half in _halves(tuple(leaves[leaf]), leaf_of)]
    else:
        halves = [Question(half) for half in _halves(whole.nodes, leaf_of)]
    yield halves
    if not any(q.bad for q in halves):
        again = yield from _doubt(whole, halves, found)
        return [_hunt(again, leaf_of, leaves, found)] if again else []
    left: list[Question] = []
    doubtful: dict[int, list[Question]] = {}
    for question in halves:
        leaf = leaf_of(question.nodes[0])
        if full == kept and len(kept) <= 2 and {leaf_of(n) for n in question.nodes} == {leaf}:
            doubtful.setdefault(leaf, []).append(question)
        else:
            left.append(question)
    quarters: dict[int, list[Question]] = {}
    for leaf, both in doubtful.items():
        if len(both) == 2 and all(q.bad for q in both):
            quarters[leaf] = [Question(part) for q in both for part in _halves(q.nodes, leaf_of)]
        else:
            left += both
    if quarters:
        yield [q for four in quarters.values() for q in four]
        for leaf, four in quarters.items():
            if sum(q.bad for q in four) == len(four) - 1:
                (odd,) = [q for q in four if not q.bad]
                odd.good_at = _NAMED  # three bad nodes in one leaf, or one answer that flatters
                yield [odd]
            if all(q.bad for q in four):
                found.leaves.append(leaf)
            else:
                left += four
    for question in left:
        if not question.bad:
            found.good.update(question.nodes)
    return [_hunt(q, leaf_of, leaves, found) for q in left if q.bad]


def _corner(whole: Question, leaf_of: Leaf, leaves: dict[int, list[int]], found: Found) -> _Hunt:
    """The bad one of a few: by one half at a time, then proved against all others of the few."""
    left = whole.nodes
    while len(left) > 1:
        half = Question(left[: len(left) // 2])
        yield [half]
        left = half.nodes if half.bad else left[len(half.nodes) :]
    rest = Question(tuple(n for n in whole.nodes if n not in left))
    one = Question(left, _WAY, _NAMED)
    yield [one, rest] if rest.nodes else [one]
    if one.bad:
        found.nodes.append(left[0])
        if rest.bad:
            return [_hunt(rest, leaf_of, leaves, found)]
        found.good.update(rest.nodes)
        return []
    if rest.bad:  # a wrong turn
        found.good.update(left)
        return [_hunt(rest, leaf_of, leaves, found)]
    again = yield from _doubt(whole, [one, rest], found)
    return [_hunt(again, leaf_of, leaves, found)] if again else []


def _doubt(whole: Question, parts: list[Question], found: Found) -> Generator[list[Question], None, Question | None]:
    """A bad group of good parts: asked again. Good after all, or bad only together (a pair), or its parts once more."""
    again = Question(whole.nodes, _NAMED, _NAMED, 0.0)
    yield [again]
    if not again.bad:
        found.good.update(whole.nodes)
        return None
    surer = [Question(q.nodes, _NAMED, _WAY) for q in parts if q.nodes]
    yield surer
    if any(q.bad for q in surer):
        bad = tuple(n for q in surer if q.bad for n in q.nodes)
        found.good.update(n for q in surer if not q.bad for n in q.nodes)
        return Question(bad, evidence=_WAY, asked=1)
    found.unexplained.append(whole.nodes)
    return None


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
