"""Pairs of nodes: every node with partners on its own leaf switch and on others, in isolation and all at once.

Three kinds of rounds, whose values are never compared with each other: `within` (disjoint pairs of one leaf: no link is
shared), `across` (isolated: at most `crossing` pairs of a leaf use its uplinks at a time) and `loaded` (all nodes of
two leaves at once, in all pairs of leaves). On a tapered fabric, only the first two can name a node.

A job runs the pairs of one meeting, each as a separate launch with a time limit: a dead, slow or hanging pair costs
only itself. From the answers, `accuse` determines the faulty part: a bad node is slow with all its partners, a bad
cable between two switches with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

WITHIN, ACROSS, LOADED = "within", "across", "loaded"
#: Partners of each node.
PARTNERS = 2
#: A pair is slow if it is this far below the better half of its kind, and beyond this many of its standard deviations.
SLOW, SIGMAS = {"bandwidth": 0.10, "latency": 0.20}, 6.0
#: For a normal distribution, in standard deviations: distance between the median of the better half and that of all,
#: and the distance from the former that covers half of the better half.
_BETTER, _NEAR = 0.674, 0.40
#: Minimum number of slow pairs of a node, with partners that are not named, for the node to be named.
_LEAST, _SHARE = 2, 0.75
#: Minimum share of a leaf's nodes that are named, for the leaf to be named.
_LEAF = 0.5

Pair = tuple[str, str]


@dataclass(frozen=True)
class Meeting:
    """One job: nodes of one or two leaves; the pairs of a step run at once, one step after another."""

    kind: str
    leaves: tuple[str, ...]
    nodes: tuple[str, ...]
    steps: tuple[tuple[Pair, ...], ...]


def plan(leaf_of: Mapping[str, str], partners: int = PARTNERS, crossing: int = 1) -> list[list[Meeting]]:
    """Rounds of meetings that share no node; each node meets about `partners` others of its leaf and of other leaves.

    `crossing`: pairs of a leaf that may use its uplinks at once in isolated rounds. One is always right. With more than
    the uplinks carry (a leaf's nodes over the tapering), or with static routes that collide, healthy pairs are slow.
    """
    leaves: dict[str, list[str]] = {}
    for node, leaf in leaf_of.items():
        leaves.setdefault(leaf, []).append(node)
    rounds = [[m for leaf, nodes in sorted(leaves.items()) if (m := _inside(leaf, nodes, partners)) is not None]]
    names = sorted(leaves)
    meetings = circle(range(len(names)))
    # with an odd number one leaf rests in each round; with few leaves the same two meet again, in other pairs
    most = min(partners + len(names) % 2, len(meetings) * max(map(len, leaves.values())))
    for number in range(most if meetings else 0):
        pairs = meetings[number % len(meetings)]
        rounds.append(
            [_across(names[a], leaves[names[a]], names[b], leaves[names[b]], number, crossing) for a, b in pairs]
        )
    for number, pairs in enumerate(meetings[:1]):
        rounds.append([_loaded(names[a], leaves[names[a]], names[b], leaves[names[b]], number) for a, b in pairs])
    return [one for one in rounds if one]


def circle(leaves: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Rounds in which each leaf meets another one, every pair once (the circle method); if their number is odd, one
    rests."""
    ring: list[int | None] = [*leaves, *([None] if len(leaves) % 2 else [])]
    rounds = []
    for _ in range(len(ring) - 1):
        pairs = [(ring[i], ring[-1 - i]) for i in range(len(ring) // 2)]
        rounds.append([(a, b) for a, b in pairs if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def _inside(leaf: str, nodes: Sequence[str], partners: int) -> Meeting | None:
    steps = circle(range(len(nodes)))[: partners + len(nodes) % 2]
    pairs = tuple(tuple((nodes[a], nodes[b]) for a, b in step) for step in steps if step)
    return Meeting(WITHIN, (leaf,), tuple(nodes), pairs) if pairs else None


def _across(a: str, left: Sequence[str], b: str, right: Sequence[str], shift: int, crossing: int) -> Meeting:
    if len(left) < len(right):
        a, b, left, right = b, a, right, left
    # nodes of the smaller leaf meet several others; pairs are disjoint if a step is no longer than that leaf
    pairs = [(node, right[(i + shift) % len(right)]) for i, node in enumerate(left)]
    step = min(crossing, len(right))
    steps = tuple(tuple(pairs[i : i + step]) for i in range(0, len(pairs), step))
    return Meeting(ACROSS, (a, b), (*left, *right), steps)


def _loaded(a: str, left: Sequence[str], b: str, right: Sequence[str], shift: int) -> Meeting:
    many = min(len(left), len(right))
    pairs = tuple((left[i], right[(i + shift + 1) % many]) for i in range(many))
    return Meeting(LOADED, (a, b), (*left, *right), (pairs,))


@dataclass(frozen=True)
class Answer:
    """What one pair gave: GB/s, and us of the smallest message; None with the reason if it failed."""

    kind: str
    pair: Pair
    bandwidth: float | None
    latency: float | None = None
    why: str = ""


@dataclass
class Verdict:
    """`nodes`, `pairs`: named ones with the evidence against them; `leaves`: those most of whose nodes are named."""

    nodes: dict[str, str] = field(default_factory=dict)
    pairs: dict[Pair, str] = field(default_factory=dict)
    leaves: list[str] = field(default_factory=list)
    #: Median in GB/s and number of pairs with a figure, by kind.
    levels: dict[str, tuple[float, int]] = field(default_factory=dict)


def slow(answers: Iterable[Answer], references: Mapping[str, float] | None = None) -> dict[Answer, str]:
    """Isolated answers that are missing or below their kind, with the reason. `references`: GB/s by kind, from the
    system file, used instead of what the better half of this tournament reached; latency is always compared with that
    half."""
    found: dict[Answer, str] = {}
    by_kind: dict[str, list[Answer]] = {}
    for one in answers:
        if one.kind != LOADED:
            by_kind.setdefault(one.kind, []).append(one)
    for kind, some in by_kind.items():
        for name, unit in (("bandwidth", "GB/s"), ("latency", "us")):
            values = [v for one in some if (v := getattr(one, name)) is not None]
            if not values:
                continue
            better, sigma = usual(values, higher=name == "bandwidth")
            reference = (references or {}).get(kind) if name == "bandwidth" else None
            level, said = (reference, "its reference") if reference else (better, "the better half of its kind")
            allowed = max(SLOW[name], (SIGMAS + _BETTER) * sigma / better)
            for one in some:
                value = getattr(one, name)
                if value is None or one in found:
                    continue
                miss = 1 - value / level if name == "bandwidth" else value / level - 1
                if miss > allowed:
                    word = "below" if name == "bandwidth" else "above"
                    found[one] = f"{value:.4g} {unit}, {100 * miss:.0f} % {word} {said} {level:.4g}"
        found |= {one: one.why or "no figure" for one in some if one.bandwidth is None}
    return found


def usual(values: Sequence[float], higher: bool) -> tuple[float, float]:
    """What healthy pairs reach, and their standard deviation: median of the better half, and the distances from it. In
    a fabric of few nodes, the faulty node may be in half of the pairs."""
    ranked = sorted(values, reverse=higher)
    half = ranked[: (len(ranked) + 1) // 2]
    level = median(half)
    return level, median(abs(value - level) for value in half) / _NEAR


def repeated(
    answers: Sequence[Answer], leaf_of: Mapping[str, str], references: Mapping[str, float] | None = None,
    crossing: int = 1,
) -> list[Meeting]:  # fmt: skip
    """One job for each kind, which measures its slow pairs once more, as isolated as before."""
    found = []
    bad = slow(answers, references)
    for kind in dict.fromkeys(one.kind for one in bad):
        steps: list[list[Pair]] = []
        for pair in dict.fromkeys(one.pair for one in bad if one.kind == kind):
            free = (step for step in steps if _fits(pair, step, leaf_of, crossing if kind == ACROSS else None))
            step = next(free, None)
            if step is None:
                steps.append(step := [])
            step.append(pair)
        nodes = tuple(dict.fromkeys(node for step in steps for pair in step for node in pair))
        leaves = tuple(dict.fromkeys(leaf_of[node] for node in nodes))
        found.append(Meeting(kind, leaves, nodes, tuple(map(tuple, steps))))
    return found


def _fits(pair: Pair, step: Sequence[Pair], leaf_of: Mapping[str, str], crossing: int | None) -> bool:
    busy = [node for other in step for node in other]
    return not set(pair) & set(busy) and (
        crossing is None or all([leaf_of[n] for n in busy].count(leaf_of[node]) < crossing for node in pair)
    )


def better(first: Sequence[Answer], second: Iterable[Answer]) -> list[Answer]:
    """The answers, with the better figures of pairs that were measured twice."""
    again = {(one.kind, one.pair): one for one in second}
    found = []
    for one in first:
        two = again.get((one.kind, one.pair))
        if two is not None:
            rates = [one.bandwidth or 0.0, two.bandwidth or 0.0]
            times = [us for us in (one.latency, two.latency) if us is not None]
            why = "" if max(rates) else f"{one.why}; again: {two.why}"
            one = replace(one, bandwidth=max(rates) or None, latency=min(times, default=None), why=why)
        found.append(one)
    return found


def accuse(
    answers: Sequence[Answer], leaf_of: Mapping[str, str], references: Mapping[str, float] | None = None
) -> Verdict:
    """Which nodes explain the slow pairs. The node with most slow pairs comes first: no other node is named for pairs
    that it explains."""
    bad = slow(answers, references)
    verdict = Verdict(levels=dict(_levels(answers)))
    of_node: dict[str, list[Answer]] = {}
    for one in answers:
        if one.kind != LOADED:
            for node in one.pair:
                of_node.setdefault(node, []).append(one)
    open_ones = set(bad)
    while True:
        counted = [(n, *_against(n, of_node[n], open_ones, verdict.nodes)) for n in of_node]
        guilty = [(count, share, n) for n, count, share in counted if count >= _LEAST and share >= _SHARE]
        if not guilty:
            break
        _, _, node = max(guilty)
        mine = [one for one in of_node[node] if one in open_ones]
        verdict.nodes[node] = f"{len(mine)} of {len(of_node[node])} pairs: {_other(mine[0], node)}: {bad[mine[0]]}"
        open_ones -= set(mine)
    for one in sorted(open_ones, key=lambda a: (a.kind, a.pair)):
        verdict.pairs[one.pair] = f"{one.kind}: {bad[one]}"
    members: dict[str, list[str]] = {}
    for node in of_node:
        members.setdefault(leaf_of[node], []).append(node)
    verdict.leaves = sorted(
        leaf for leaf, nodes in members.items()
        if len(nodes) > 2 and sum(n in verdict.nodes for n in nodes) >= _LEAF * len(nodes)
    )  # fmt: skip
    return verdict


def _against(node: str, mine: Sequence[Answer], bad: set[Answer], named: Mapping[str, str]) -> tuple[int, float]:
    """Number and share of a node's slow pairs, counting only partners that are not named."""
    fair = [one for one in mine if not any(n in named for n in one.pair if n != node)]
    count = sum(one in bad for one in fair)
    return count, count / len(fair) if fair else 0.0


def _other(one: Answer, node: str) -> str:
    return f"with {next(n for n in one.pair if n != node)} {one.kind}"


def _levels(answers: Iterable[Answer]) -> Iterator[tuple[str, tuple[float, int]]]:
    for kind in (WITHIN, ACROSS, LOADED):
        values = [one.bandwidth for one in answers if one.kind == kind and one.bandwidth is not None]
        if values:
            yield kind, (median(values), len(values))
