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
from dataclasses import dataclass, field
from statistics import median

from tenken.campaign.groups import tournament

WITHIN, ACROSS, LOADED = "within", "across", "loaded"
#: Partners of each node.
PARTNERS = 2
#: A pair is slow if it is this far below the median of its kind, or beyond this many robust standard deviations.
SLOW, SIGMAS = 0.10, 6.0
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

    `crossing`: pairs of a leaf that may use its uplinks at once in isolated rounds. One is always right; with more than
    the uplinks carry (a leaf's nodes over the tapering), or with static routes that collide, healthy pairs are slow.
    """
    leaves: dict[str, list[str]] = {}
    for node, leaf in leaf_of.items():
        leaves.setdefault(leaf, []).append(node)
    rounds = [[m for leaf, nodes in sorted(leaves.items()) if (m := _inside(leaf, nodes, partners)) is not None]]
    names = sorted(leaves)
    meetings = tournament(range(len(names)))
    # with an odd number, one leaf rests in each round
    for number, pairs in enumerate(meetings[: partners + len(names) % 2]):
        rounds.append(
            [_across(names[a], leaves[names[a]], names[b], leaves[names[b]], number, crossing) for a, b in pairs]
        )
    for number, pairs in enumerate(meetings[:1]):
        rounds.append([_loaded(names[a], leaves[names[a]], names[b], leaves[names[b]], number) for a, b in pairs])
    return [one for one in rounds if one]


def _inside(leaf: str, nodes: Sequence[str], partners: int) -> Meeting | None:
    steps = tournament(range(len(nodes)))[: partners + len(nodes) % 2]
    pairs = tuple(tuple((nodes[a], nodes[b]) for a, b in step) for step in steps if step)
    return Meeting(WITHIN, (leaf,), tuple(nodes), pairs) if pairs else None


def _across(a: str, left: Sequence[str], b: str, right: Sequence[str], shift: int, crossing: int) -> Meeting:
    if len(left) < len(right):
        a, b, left, right = b, a, right, left
    # nodes of the smaller leaf meet several; pairs are disjoint as long as a step is not longer than that leaf
    pairs = [(node, right[(i + shift) % len(right)]) for i, node in enumerate(left)]
    step = max(1, min(crossing, len(right)))
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
    """Isolated answers that are missing or below their kind, with the reason. `references`: Expected GB/s by kind from
    the system file, used in place of the median of this tournament; latency is compared only with the median."""
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
            middle = median(values)
            spread = 1.4826 * median(abs(v - middle) for v in values) / middle
            reference = (references or {}).get(kind) if name == "bandwidth" else None
            level, said = (reference, "its reference") if reference else (middle, "the median of its kind")
            allowed = max(SLOW, SIGMAS * spread) if name == "bandwidth" else max(2 * SLOW, SIGMAS * spread)
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


def accuse(
    answers: Sequence[Answer], leaf_of: Mapping[str, str], references: Mapping[str, float] | None = None
) -> Verdict:
    """Which nodes explain the slow pairs. The node with most of them comes first: no other node is named for pairs that
    it explains."""
    bad = slow(answers, references)
    verdict = Verdict(levels=dict(_levels(answers)))
    of_node: dict[str, list[Answer]] = {}
    for one in answers:
        if one.kind != LOADED:
            for node in one.pair:
                of_node.setdefault(node, []).append(one)
    open_ones = set(bad)
    while True:
        counted = [(n, *_against(n, of_node[n], open_ones, verdict.nodes)) for n in of_node if n not in verdict.nodes]
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
    """Number and share of a node's pairs with partners that are not named that are slow."""
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
