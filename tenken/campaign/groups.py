"""Group testing: finds the bad node, leaf switch or pair among many nodes that passed alone, with few jobs between
nodes.

A job over a group of nodes is as slow as its worst member. Each leaf is in two groups, with different leaves each time;
all answers together determine which leaves contain bad nodes, and doubtful ones are measured again. Then the most
informative groups of nodes of a bad leaf are measured. All groups of one round run at once and share no node. Small
groups are filled up with good nodes, of other leaves first. So all jobs have the same size, which noise and value
depend on, and each crosses the leaf switch of the nodes in question. The remaining jobs confirm what was found good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tenken.campaign.posterior import ENOUGH, MAX_ROUNDS, NAMED, NEARLY, WAY, Blocks, Level, Question, Suspects, ranked
from tenken.campaign.tournament import circle

#: Returns the figure of each group of a round, larger is better; None: the job left none.
Ask = Callable[[list[tuple[int, ...]]], Sequence["float | None"]]
Leaf = Callable[[int], int]

#: Evidence in nats at which two leaves that met in a tournament count as good.
_FIRST = 5.0
#: Number of leaves, or of blocks of several leaves if there are more, whose subsets are weighed.
_MOST_BLOCKS = 32
#: Probabilities at which a block is searched, is doubtful, may fill up other groups, is not measured again, and is
#: reported as open.
_BAD_BLOCK, _DOUBTFUL, _FILLER, _CLEAR, _OPEN = 0.9, 0.1, 0.02, 0.003, 0.03
#: When the jobs run out: further jobs are spent only on a number of bad nodes with at least this probability.
_LIKELIER = 0.5
#: Difference in probability below which good blocks are interchangeable.
_CERTAIN = 1e-6
#: Blocks are measured together as long as the probability that one of them is bad is at most this.
_AS_LIKELY = 0.45
#: Jobs reserved for each search in a block before others are spent on improbable blocks.
_TESTS_OF_A_HUNT = 6
#: Groups of a round, if there are enough leaves for two in each.
_AT_ONCE = 8
#: Total number of jobs of each search.
_JOBS_OF_A_HUNT = 12
#: With this number of jobs left a search first tests whether there is anything to find.
_LAST_JOBS = 4
#: Good answers that a block needs while jobs are left; a single one may be luck if other faults explain the slow ones.
_GOOD_ANSWERS = 2
#: Larger groups are halved before the possibilities within them are weighed.
_WEIGHED = 96
#: Maximum number of tests of one slow group.
_MOST_TESTS = 60


def allowed_jobs(bad: int) -> int:
    """Jobs that may be spent if there are this many bad nodes."""
    return 12 * bad + 24


@dataclass
class Found:
    """`nodes`, `leaves`: bad ones. `unexplained`: groups that are slow although their parts are not: a pair, or an
    intermittent fault. `whole`: no question was left open."""

    nodes: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    unexplained: list[tuple[int, ...]] = field(default_factory=list)
    good: set[int] = field(default_factory=set)
    jobs: int = 0
    rounds: int = 0
    whole: bool = True


_Hunt = Generator[tuple[list[Question], Suspects | None], None, list["_Hunt"]]


def search(nodes: Sequence[int], leaf_of: Leaf, ask: Ask, seed: int = 0, max_rounds: int = MAX_ROUNDS) -> Found:
    """Searches for bad nodes and leaves among `nodes`, which passed alone. At least two leaves are required. Uses at
    most allowed_jobs jobs for the bad ones, in up to `max_rounds` rounds."""
    return _Search(nodes, leaf_of, ask, seed, max_rounds).run()


@dataclass
class _Running:
    """A search in a block: its tests, and the weighing of their answers."""

    hunt: _Hunt
    block: int
    questions: list[Question] = field(default_factory=list)
    suspects: Suspects | None = None

    def bad(self, sure: float) -> int:
        """Minimum number of bad nodes or leaves that it finds with this certainty."""
        return self.suspects.at_least(sure) if self.suspects else 1


class _Search:
    def __init__(self, nodes: Sequence[int], leaf_of: Leaf, ask: Ask, seed: int, max_rounds: int) -> None:
        self.rng, self.leaf_of, self.ask, self.max_rounds = np.random.default_rng(seed), leaf_of, ask, max_rounds
        self.found, self.level = Found(), Level()
        self.leaves: dict[int, list[int]] = {}
        for node in nodes:
            self.leaves.setdefault(leaf_of(node), []).append(node)
        order = [list(self.leaves)[i] for i in self.rng.permutation(len(self.leaves))]
        parts = [[order[i] for i in p] for p in np.array_split(np.arange(len(order)), min(_MOST_BLOCKS, len(order)))]
        self.blocks = Blocks(
            [tuple(n for leaf in part for n in self.leaves[leaf]) for part in parts if part],
            [sum(len(self.leaves[leaf]) >= 4 for leaf in part) for part in parts if part], self.level,
        )  # fmt: skip
        count = len(parts)
        # large groups are more informative at first; with fewer than eight at once, searches in five blocks exceed the
        # number of rounds
        self.each = max(min(round(math.sqrt(count / 2)), max(count // _AT_ONCE, 2)), 1)
        per = -(-count // self.each)
        first = [range(i * self.each, min((i + 1) * self.each, count)) for i in range(per)]
        # the second time each block is combined with other ones
        crossed = sorted(range(count), key=lambda i: (i % self.each, i // self.each))
        second = [crossed[i * self.each : (i + 1) * self.each] for i in range(per)]
        self.plan = [[tuple(n for i in p for n in self.blocks.blocks[i]) for p in part] for part in (first, second)]
        self.size = max(len(group) for group in self.plan[0])
        self.most = max(len(nodes) // self.size, 1)
        self.hunts: list[_Running] = []
        #: Whether everything is decided, so that the remaining jobs can confirm it.
        self.proving = False
        #: What is known about a block in which a search runs or has run.
        self.whole: dict[int, Question] = {}

    def run(self) -> Found:
        found, blocks = self.found, self.blocks
        while found.rounds < self.max_rounds:
            groups, questions = self._round()
            if not groups and not self.proving:
                # nothing is open any more: the remaining jobs confirm the result
                self.proving = True
                self._settle()
                groups, questions = self._round()
            if not groups:
                break
            answers = self.ask(groups)
            found.rounds += 1
            found.jobs += len(groups)
            self.level.answers += [float(value) for value in answers if value is not None]
            for group, question, value in zip(groups, questions, answers, strict=True):
                if question is not None:
                    self._take(group, question, value)
                elif value is not None:
                    blocks.take(blocks.mask(group), float(value))
            self._settle()
        self._end()
        return found

    def _take(self, group: tuple[int, ...], question: Question, value: float | None) -> None:
        """The answer to a test of a search; it is also evidence about the good nodes in the group."""
        blocks = self.blocks
        inside = set(group) - set(question.nodes)
        places = {blocks.place[n] for n in inside} - {one.block for one in self.hunts} - self._done()
        question.take(value, blocks.any_of(sum(1 << i for i in places)))
        whole = sum(1 << i for i in places if inside.issuperset(blocks.blocks[i]))
        if value is not None and whole:
            blocks.take(whole, value, self._slow(question))

    def _slow(self, question: Question) -> float:
        """Probability that the nodes of a test are slow, as far as it is known."""
        for one in self.hunts:
            if one.suspects is not None and any(q is question for q in one.questions):
                return one.suspects.slow(question.nodes)
        return 0.5

    def _round(self) -> tuple[list[tuple[int, ...]], list[Question | None]]:
        """The next tests: groups that share no node, and the search of each; None: tests of blocks."""
        found = self.found
        if found.rounds < len(self.plan):
            plan = self.plan[found.rounds]
            return plan, [None] * len(plan)
        allowed = self._allowed()
        most = max(min(self.most, allowed), 0)
        hunted = {one.block for one in self.hunts}
        pending = [[q for q in one.questions if not q.settled] for one in self.hunts]
        wanted = [group[i] for i in range(max(map(len, pending), default=0)) for group in pending if i < len(group)]
        first = [group[0] for group in pending if group]
        pools = self._pools(hunted, max(most - len(first), 0), allowed)
        chosen: list[tuple[tuple[int, ...], Question | None]] = [(q.nodes, q) for q in first[:most]]
        chosen += [(pool, None) for pool in pools]
        later = [q for q in wanted if q not in first]
        spare = allowed - len(chosen) - min(_TESTS_OF_A_HUNT, self.max_rounds - found.rounds - 1) * len(first)
        used: set[int] = {n for nodes, _ in chosen for n in nodes}
        for question in later:
            if len(chosen) < most and spare > 0 and used.isdisjoint(question.nodes):
                chosen.append((question.nodes, question))
                used |= set(question.nodes)
                spare -= 1
            elif question.once:
                question.dropped = True
        kept = {n for nodes in (*(q.nodes for g in pending for q in g), *pools) for n in nodes}
        fillers = [n for n in self._fillers(hunted) if n not in kept]
        groups = []
        used = set()
        for nodes, asked in chosen:
            group = nodes if asked is None else _filled(nodes, self.size, fillers, used, self.leaf_of)
            groups.append(group)
            used.update(group)
        return groups, [question for _, question in chosen]

    def _fillers(self, hunted: set[int]) -> list[int]:
        """Good nodes to fill up groups with, block by block, the most certain ones first."""
        chance = self.blocks.chance
        good = [i for i in range(len(self.blocks.blocks)) if i not in hunted and chance[i] < _FILLER]
        # equally certain ones in random order
        order = sorted(good, key=lambda i: (round(math.log10(max(chance[i], _CERTAIN))), self.rng.random()))
        whole = [n for i in order for n in self.blocks.blocks[i]]
        return [*whole, *sorted(self.found.good.difference(whole))]

    def _bad_by_now(self, sure: float = ENOUGH) -> int:
        """Bad nodes and leaves whose number is known with this certainty."""
        named = len(self.found.nodes) + len(self.found.leaves)
        blocks = self._done() | {one.block for one in self.hunts}
        hunted = sum(one.bad(sure) for one in self.hunts)
        return named + hunted + max(self.blocks.at_least(sure) - len(blocks), 0)

    def _allowed(self) -> int:
        """Number of jobs that may still be spent. If they run out in the middle of a search, the more probable answer
        counts."""
        left = allowed_jobs(self._bad_by_now()) - self.found.jobs
        return left if left > 0 else allowed_jobs(self._bad_by_now(_LIKELIER)) - self.found.jobs

    def _done(self) -> set[int]:
        place = self.blocks.place
        return {place[n] for n in self.found.nodes} | {
            place[n] for leaf in self.found.leaves for n in self.leaves[leaf]
        }

    def _pools(self, hunted: set[int], most: int, allowed: int) -> list[tuple[int, ...]]:
        """Groups of blocks whose answers are most informative about further bad blocks."""
        blocks = self.blocks
        done = self._done()
        free = [i for i in range(len(blocks.blocks)) if i not in hunted | done]
        if not free or blocks.together() > 0.9:
            return []
        free = [free[i] for i in ranked(blocks.chance[free])]
        clear = blocks.any_of(sum(1 << i for i in free)) < _CLEAR
        doubtful = [] if clear else [i for i in free if blocks.chance[i] > _CLEAR / 8]
        # while a search runs, rounds pass anyway
        if self.proving or (self.hunts and allowed > _JOBS_OF_A_HUNT * len(self.hunts)):
            doubtful += [i for i in free if i not in doubtful and blocks.good_answers(i) < _GOOD_ANSWERS]
        rest = [i for i in reversed(free)]
        pools: list[list[int]] = []
        taken: set[int] = set()
        for i in doubtful:
            if i in taken or len(pools) >= most:
                continue
            if blocks.chance[i] < _DOUBTFUL and allowed - len(pools) <= _TESTS_OF_A_HUNT * len(self.hunts):
                break
            pool = [i]
            for j in doubtful:
                fits = len(pool) < self.each and j not in taken and j not in pool
                if fits and blocks.any_of(sum(1 << x for x in (*pool, j))) <= _AS_LIKELY:
                    pool.append(j)
            taken |= set(pool)
            pools.append(pool)
        # all jobs have the same size: good nodes are added
        for pool in pools:
            for j in rest:
                if len(pool) < self.each and j not in taken and blocks.chance[j] < _FILLER:
                    pool.append(j)
                    taken.add(j)
        return [tuple(n for i in pool for n in blocks.blocks[i]) for pool in pools]

    def _settle(self) -> None:
        """Weighs the answers, starts searches in bad blocks, and continues those whose tests are answered."""
        blocks = self.blocks
        if self.found.rounds < len(self.plan):
            return
        blocks.weigh()
        for block, whole in self.whole.items():
            whole.known = self._known(block)
        for one in self.hunts:  # with each round the level of good groups is known more precisely
            for question in one.questions:
                question.clearest = self.level.clearest()
                question.evidence = question.weigh(self.level)
        over = [one for one in self.hunts if all(q.settled for q in one.questions)]
        self.hunts = [one for one in self.hunts if not all(q.settled for q in one.questions)]
        for one in over:
            self._advance(one)
        blocks.weigh()
        for block in map(int, ranked(blocks.chance)):
            if blocks.chance[block] >= _BAD_BLOCK and block not in self.whole:
                self._begin(block)

    def _begin(self, block: int) -> None:
        """Starts a search in a block."""
        self.whole[block] = Question(self.blocks.blocks[block], known=self._known(block))
        hunt = _hunt(
            self.whole[block], self.leaf_of, self.leaves, self.found, self.level, self.max_rounds, self._may_prove,
            self._short, self._share,
        )  # fmt: skip
        self._advance(_Running(hunt, block))

    def _may_prove(self) -> bool:
        return self.proving and allowed_jobs(self._bad_by_now()) > self.found.jobs

    def _short(self) -> bool:
        """Whether the jobs would run out if one of the suspicions is wrong."""
        return allowed_jobs(max(self._bad_by_now() - 1, 0)) - self.found.jobs <= _LAST_JOBS

    def _share(self) -> float:
        """Jobs that each search may spend in a round, if the remaining ones are spent evenly."""
        left = self._allowed()
        return left / max(self.max_rounds - self.found.rounds, 1) / max(len(self.hunts), 1)

    def _known(self, block: int) -> float:
        chance = float(np.clip(self.blocks.chance[block], 1e-6, 0.9999))
        return math.log(chance) - math.log1p(-chance) - float(self.blocks.odds[block])

    def _advance(self, one: _Running) -> None:
        try:
            one.questions, one.suspects = next(one.hunt)
            self.hunts.append(one)
            return
        except StopIteration as over:
            for part in over.value or ():
                self._advance(_Running(part, one.block))
        if any(other.block == one.block for other in self.hunts):
            return
        unexplained = {self.blocks.place[nodes[0]] for nodes in self.found.unexplained}
        explained = one.block in self._done() | unexplained
        self.blocks.take(1 << one.block, NAMED if explained else -NAMED, doubt=None)
        if not explained:
            del self.whole[one.block]

    def _end(self) -> None:
        found, blocks = self.found, self.blocks
        if found.rounds < len(self.plan):
            found.whole = False
            return
        blocks.weigh()
        hunted = {one.block for one in self.hunts}
        for one in self.hunts:
            # no more jobs were left
            if one.suspects is None or one.suspects.weight.max() < NEARLY or one.suspects.nobody:
                found.whole = False
                found.unexplained.append(one.suspects.nodes if one.suspects else blocks.blocks[one.block])
            else:
                _name(one.suspects, self.leaves, found)
        if blocks.together() > 0.9:
            found.unexplained.append(blocks.pair())
        named = self._done()
        free = [i for i in range(len(blocks.blocks)) if i not in hunted | named]
        for i in free:
            if blocks.chance[i] < _FILLER:
                found.good.update(blocks.blocks[i])
            elif blocks.together() <= 0.9:
                found.unexplained.append(blocks.blocks[i])
        found.whole &= not free or blocks.any_of(sum(1 << i for i in free)) < _OPEN


def _filled(
    nodes: tuple[int, ...], size: int, fillers: Sequence[int], used: set[int], leaf_of: Leaf
) -> tuple[int, ...]:
    own = {leaf_of(n) for n in nodes}
    free = [n for n in fillers if n not in used]
    free.sort(key=lambda n: leaf_of(n) in own)
    return (*nodes, *free[: max(size - len(nodes), 0)])


def _halves(nodes: tuple[int, ...], leaf_of: Leaf) -> list[tuple[int, ...]]:
    """Halves of the leaves if there are several, else of the nodes."""
    kept = list(dict.fromkeys(leaf_of(n) for n in nodes))
    if len(kept) > 1:
        first = set(kept[: len(kept) // 2])
        return [tuple(n for n in nodes if (leaf_of(n) in first) == side) for side in (True, False)]
    middle = len(nodes) // 2
    return [nodes[:middle], nodes[middle:]]


def _hunt(
    whole: Question, leaf_of: Leaf, leaves: dict[int, list[int]], found: Found, level: Level, max_rounds: int,
    may_prove: Callable[[], bool], short: Callable[[], bool], share: Callable[[], float],
) -> _Hunt:  # fmt: skip
    """Finds the bad ones among nodes that seem to contain one; ends with hunts in their parts."""
    if len(whole.nodes) > _WEIGHED and len({leaf_of(n) for n in whole.nodes}) > 1:
        halves = [Question(half) for half in _halves(whole.nodes, leaf_of)]
        yield halves, None
        if not any(q.bad for q in halves):
            again = Question(whole.nodes, NAMED, NAMED)
            yield [again], None
            if again.bad:  # slow only together, or one of the halves is bad after all
                halves = [Question(q.nodes, NAMED, WAY) for q in halves]
                yield halves, None
                if not any(q.bad for q in halves):
                    found.unexplained.append(whole.nodes)
                    return []
        for question in halves:
            if not question.bad:
                found.good.update(question.nodes)
        return [_hunt(q, leaf_of, leaves, found, level, max_rounds, may_prove, short, share) for q in halves if q.bad]
    suspects = Suspects(whole, leaf_of, leaves, level)
    while not suspects.decided or not (suspects.nobody or suspects.proved):
        if suspects.decided and not may_prove():
            yield [], suspects
            if may_prove():
                suspects.reopen()
            continue
        last = found.rounds >= max_rounds or len(suspects.tests) >= _MOST_TESTS
        if last and suspects.weight.max() < NEARLY:
            found.unexplained.append(whole.nodes)
            found.whole = False
            return []
        if last:
            break
        if suspects.decided:
            tests = suspects.proof()
        elif short() and suspects.doubtful:
            tests = [suspects.nodes]  # first test whether there is a bad one at all; if so, the jobs suffice to find it
        else:
            tests = suspects.next_tests(max_rounds - found.rounds, share())
        questions = [Question(nodes, once=True) for nodes in tests]
        yield questions, suspects
        suspects.take(questions)
    _name(suspects, leaves, found)
    return []


def _name(suspects: Suspects, leaves: Mapping[int, Sequence[int]], found: Found) -> None:
    nodes, bad_leaves = suspects.best()
    if suspects.only_together:
        found.unexplained.append(suspects.nodes)
        return
    found.nodes += nodes
    found.leaves += bad_leaves
    named = {*nodes, *(n for leaf in bad_leaves for n in leaves[leaf])}
    found.good.update(n for n in suspects.nodes if n not in named)


# ---- pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Coverage of a tournament: pairs of leaves that met, pairs in all, and bad pairs."""

    rounds: int
    jobs: int
    covered: float
    bad: tuple[tuple[int, int], ...]
    #: Probability that a fault between two leaves that met was missed in all its answers.
    missed: float


def pairs(members: Mapping[int, Sequence[int]], ask: Ask, rounds: int) -> Pairs:
    """Leaves against leaves for this many rounds; pairs that are slow are measured until the result is certain."""
    level, jobs, spent, met = Level(), 0, 0, 0
    bad: list[tuple[int, int]] = []
    schedule = circle(sorted(members))
    for meeting in schedule[:rounds]:
        open_ones = {pair: Question((*members[pair[0]], *members[pair[1]]), _FIRST, NAMED) for pair in meeting}
        met += len(open_ones)
        while any(not q.settled for q in open_ones.values()):
            asked = [q for q in open_ones.values() if not q.settled]
            answers = ask([q.nodes for q in asked])
            spent, jobs = spent + 1, jobs + len(asked)
            level.answers += [float(v) for v in answers if v is not None]
            for question, value in zip(asked, answers, strict=True):
                question.asked += 1
                question.evidence += 0.0 if value is None else level.evidence(float(value))
        bad += [pair for pair, q in open_ones.items() if q.evidence >= NAMED]
    total = len(members) * (len(members) - 1) // 2
    return Pairs(spent, jobs, met / total if total else 1.0, tuple(bad), math.exp(-_FIRST))


def narrow(
    left: Sequence[int], right: Sequence[int], fillers: Sequence[int], ask: Ask, most: int = 60
) -> tuple[int, int] | None:
    """Finds the two nodes, one of each side, that are slow together: halves one side, then the other. Confirmed by
    testing the two among good nodes, and all others without the two. `fillers`: good nodes of other leaves, as many as
    both sides, so that all jobs have the same size. None: it could not be shown in `most` jobs."""
    level, size, jobs = Level(), len(left) + len(right), 0

    def figure(nodes: Sequence[int]) -> float | None:
        nonlocal jobs
        jobs += 1
        (value,) = ask([(*nodes, *fillers[: max(size - len(nodes), 0)])])
        if value is not None:
            level.answers.append(float(value))
        return value

    def is_bad(nodes: Sequence[int], sure: float = WAY) -> bool:
        question = Question(tuple(nodes), sure, sure)
        while not question.settled and jobs < most:
            value = figure(nodes)
            question.take(value, 0.0)
            question.evidence = question.weigh(level)
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
    proved = is_bad((a, b), NAMED) and not is_bad(without, NAMED)
    return (a, b) if proved and jobs < most else None
