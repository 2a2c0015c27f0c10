"""Tournaments of pairs: the plan, the name for a bad node, cable, leaf or hung pair, and clean runs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tenken.campaign.tournament import ACROSS, LOADED, WITHIN, Answer, accuse, better, plan, repeated, slow, usual


def leaves(count: int, each: int = 32) -> dict[str, str]:
    return {f"n{i:04d}": f"leaf{i // each:02d}" for i in range(count)}


@pytest.mark.parametrize(
    ("count", "each", "crossing"), [(1024, 32, 1), (1024, 32, 16), (90, 30, 4), (7, 2, 1), (50, 16, 8)]
)
def test_no_leafs_uplinks_are_overloaded_and_everybody_meets_somebody(count: int, each: int, crossing: int) -> None:
    of = leaves(count, each)
    rounds = plan(of, crossing=crossing)
    met: Counter[tuple[str, str]] = Counter()
    for meetings in rounds:
        nodes = [node for one in meetings for node in one.nodes]
        assert len(nodes) == len(set(nodes)), "meetings of a round share no node"
        for one in meetings:
            for step in one.steps:
                busy = [node for pair in step for node in pair]
                assert len(busy) == len(set(busy)), "pairs of a step are disjoint"
                for a, b in step:
                    met[one.kind, a] += 1
                    met[one.kind, b] += 1
                    assert (of[a] == of[b]) == (one.kind == WITHIN)
                # of isolated rounds
                uplinks = Counter(of[node] for pair in step for node in pair if one.kind == ACROSS)
                assert max(uplinks.values(), default=0) <= crossing
    for node, leaf in of.items():
        alone = Counter(of.values())[leaf] == 1
        assert met[ACROSS, node] >= 2 and (met[WITHIN, node] >= 1 or alone)
    assert sum(kind == LOADED for kind, _ in met) >= 0.5 * count


@pytest.mark.parametrize(("crossing", "steps"), [(1, ["a1b1", "a2b2", "a3b1"]), (5, ["a1b1 a2b2", "a3b1"])])
def test_a_plan_of_two_leaves_pair_by_pair(crossing: int, steps: list[str]) -> None:
    """Each within its leaf; each node of the larger leaf with the others in turn; all at once with the next one."""
    of = {"b1": "B", "a1": "A", "a2": "A", "a3": "A", "b2": "B"}
    told = [
        [(m.kind, *m.leaves, [" ".join("".join(pair) for pair in step) for step in m.steps]) for m in meetings]
        for meetings in plan(of, partners=3, crossing=crossing)
    ]
    other = [one.replace("b1", "x").replace("b2", "b1").replace("x", "b2") for one in steps]
    assert told == [
        [(WITHIN, "A", ["a2a3", "a1a3", "a1a2"]), (WITHIN, "B", ["b1b2"])],
        *([(ACROSS, "A", "B", one)] for one in (steps, other, steps)), [(LOADED, "A", "B", ["a1b2 a2b1"])],
    ]  # fmt: skip
    alone = plan({"a": "A", "b": "B"})
    assert [[one.kind for one in meetings] for meetings in alone] == [[ACROSS], [LOADED]]


@pytest.mark.parametrize(("crossing", "across"), [(1, ["a0b0", "a1c0", "a2d0"]), (2, ["a0b0 a1c0", "a2d0"])])
def test_as_many_slow_pairs_of_a_leaf_as_its_uplinks_carry_are_measured_again_at_once(
    crossing: int, across: list[str]
) -> None:
    slow_ones = {ACROSS: ("a0b0", "a1c0", "a2d0"), WITHIN: ("a0a1", "a2a3", "a1a2")}
    told = [Answer(kind, (one[:2], one[2:]), 10.0) for kind, some in slow_ones.items() for one in some]
    well = [Answer(kind, (f"x{at}", f"y{at}"), 20.0) for at in range(9) for kind in slow_ones]
    of = {node: node[0] for one in [*told, *well] for node in one.pair}
    again = [
        (m.kind, "".join(m.leaves), " ".join(m.nodes), [" ".join("".join(pair) for pair in step) for step in m.steps])
        for m in repeated([*told, *well], of, crossing=crossing)
    ]
    nodes = "a0 b0 a1 c0 a2 d0"
    assert again == [(ACROSS, "abcd", nodes, across), (WITHIN, "a", "a0 a1 a2 a3", ["a0a1 a2a3", "a1a2"])]


def test_levels_are_medians_of_what_was_measured_and_a_pair_without_a_figure_is_told() -> None:
    rates = {WITHIN: (20.0, 19.0, None, 21.0), LOADED: (5.0, 7.0)}
    flat = [(kind, f"{kind}{at}", rate) for kind, some in rates.items() for at, rate in enumerate(some)]
    told = [Answer(kind, (node, f"x{node}"), rate) for kind, node, rate in flat]
    found = accuse(told, {node: node for one in told for node in one.pair})
    assert found.levels == {WITHIN: (20.0, 3), LOADED: (6.0, 2)}
    assert found.pairs == {(f"{WITHIN}2", f"x{WITHIN}2"): f"{WITHIN}: no figure"}


def answers(of: dict[str, str], seed: int, bad: dict[str, float], cables: dict[frozenset[str], float] | None = None,
            dead: tuple[str, ...] = ()) -> list[Answer]:  # fmt: skip
    """Simulated: 1 % of noise, other levels within, across and loaded; `bad`: nodes at a share of their speed."""
    rng = random.Random(seed)
    level = {WITHIN: 48.0, ACROSS: 45.0, LOADED: 20.0}
    found = []
    for meetings in plan(of):
        for one in meetings:
            for pair in (pair for step in one.steps for pair in step):
                value = level[one.kind] * rng.gauss(1, 0.01) * min(bad.get(n, 1.0) for n in pair)
                value *= (cables or {}).get(frozenset(of[n] for n in pair), 1.0)
                gone = any(n in dead for n in pair)
                us = 2 * rng.gauss(1, 0.02)
                found.append(
                    Answer(one.kind, pair, None if gone else value, None if gone else us, "hung" if gone else "")
                )
    return found


def test_a_slow_node_a_dead_node_and_a_leaf_are_named() -> None:
    of = leaves(256)
    found = accuse(answers(of, 1, {"n0003": 0.8, "n0100": 0.85}, dead=("n0200",)), of)
    assert set(found.nodes) == {"n0003", "n0100", "n0200"} and not found.pairs and not found.leaves
    assert "below the better half of its kind" in found.nodes["n0003"] and "hung" in found.nodes["n0200"]
    behind = {f"n{i:04d}": 0.5 for i in range(64, 96)}
    assert accuse(answers(of, 2, behind), of).leaves == ["leaf02"]


def test_the_better_half_of_an_odd_number_has_the_middle_one() -> None:
    assert usual([1.0, 3.0, 2.0], higher=True) == (2.5, pytest.approx(0.5 / 0.40))
    assert usual([1.0, 3.0, 2.0], higher=False) == (1.5, pytest.approx(0.5 / 0.40))


def test_one_slow_pair_accuses_no_node() -> None:
    of = leaves(128)
    told = answers(of, 3, {})
    place = next(i for i, one in enumerate(told) if one.kind == ACROSS)
    told[place] = Answer(ACROSS, told[place].pair, None, None, "killed by signal 9")
    found = accuse(told, of)
    assert not found.nodes and found.pairs == {told[place].pair: "across: killed by signal 9"}


def test_loaded_figures_accuse_nobody_on_a_tapered_fabric() -> None:
    of = leaves(128)
    told = [
        Answer(a.kind, a.pair, 1.0 if a.kind == LOADED and i % 3 else a.bandwidth)
        for i, a in enumerate(answers(of, 4, {}))
    ]
    found = accuse(told, of)
    assert not found.nodes and not found.pairs


def test_all_are_below_the_reference_of_the_system_file() -> None:
    of = leaves(64)
    told = answers(of, 5, {})
    assert not accuse(told, of, {WITHIN: 49.0, ACROSS: 46.0}).nodes
    assert len(accuse(told, of, {WITHIN: 60.0, ACROSS: 46.0}).pairs | accuse(told, of, {WITHIN: 60.0}).nodes) > 20


def test_latency_alone_names_a_node() -> None:
    of = leaves(64)
    told = [
        Answer(a.kind, a.pair, a.bandwidth, (a.latency or 0) * (3 if "n0009" in a.pair else 1))
        for a in answers(of, 6, {})
    ]
    assert set(accuse(told, of).nodes) == {"n0009"}


def test_slow_pairs_are_measured_again_as_isolated_and_noise_accuses_nobody() -> None:
    of = leaves(64, 16)
    healthy = answers(of, 8, {})
    noisy = [Answer(a.kind, a.pair, 30.0) if a.kind != LOADED and i % 10 == 0 else a for i, a in enumerate(healthy)]
    again = repeated(noisy, of)
    pairs = {(one.kind, pair) for one in again for step in one.steps for pair in step}
    assert pairs == {(a.kind, a.pair) for a in noisy if a.bandwidth == 30.0} and {one.kind for one in again} == {
        WITHIN, ACROSS,
    }  # fmt: skip
    for one in again:
        for step in one.steps:
            busy = [node for pair in step for node in pair]
            assert len(busy) == len(set(busy)) and set(busy) <= set(one.nodes)
            assert one.kind == WITHIN or max(Counter(of[node] for node in busy).values()) == 1
    assert accuse(noisy, of).pairs or accuse(noisy, of).nodes
    by_pair = {(a.kind, a.pair): a for a in healthy}
    found = accuse(better(noisy, [by_pair[one] for one in sorted(pairs)]), of)
    assert not found.nodes and not found.pairs
    # one that is dead twice stays so; one that was dead once has a figure
    dead = Answer(WITHIN, ("a", "b"), None, None, "hung")
    assert better([dead], [dead]) == [Answer(WITHIN, ("a", "b"), None, None, "hung; again: hung")]
    alive = [Answer(WITHIN, ("a", "b"), *figures) for figures in ((5.0, 2.0), (4.0, 1.0))]
    assert better([dead], alive[:1]) == alive[:1]
    # of either figure the better one, whichever run it is of
    assert better(alive[:1], alive[1:]) == better(alive[1:], alive[:1]) == [Answer(WITHIN, ("a", "b"), 5.0, 1.0)]
    assert repeated(healthy, of) == []
    # a kind that was not measured has no level
    assert not accuse([one for one in healthy if one.kind == WITHIN], of).nodes


@pytest.mark.parametrize("bad", ["n0000", "n0003"])
def test_one_of_four_nodes_is_named_though_it_is_in_half_of_the_pairs(bad: str) -> None:
    found = accuse(answers(leaves(4, 2), 7, {bad: 0.5}), leaves(4, 2))
    assert set(found.nodes) == {bad} and not found.pairs


@pytest.mark.parametrize("seed", range(50))
def test_a_clean_fabric_names_nobody(seed: int) -> None:
    of = leaves(64, 16)
    found = accuse(answers(of, seed, {}), of)
    assert not found.nodes and not found.pairs and not found.leaves


@pytest.mark.parametrize(("good", "bad"), [((100.0, 2.0), (80.0, 2.0)), ((100.0, 2.0), (100.0, 3.0))])
def test_pairs_are_held_against_the_better_half_of_their_kind(
    good: tuple[float, float], bad: tuple[float, float]
) -> None:
    """With a bad node in half of the pairs, whether it lacks bandwidth or answers late."""
    fine = [Answer(WITHIN, (f"n{i}", f"n{i + 1}"), *good) for i in range(0, 10, 2)]
    poor = [Answer(WITHIN, ("bad", f"m{i}"), *bad) for i in range(5)]
    assert set(slow([*poor, *fine])) == set(poor)
    assert not slow(fine)


def answered(slow_pairs: set[tuple[str, str]], pairs: list[tuple[str, str]], rate: float = 10.0) -> list[Answer]:
    return [Answer(WITHIN, pair, rate if pair in slow_pairs else 20.0, 2.0) for pair in pairs]


@pytest.mark.parametrize(("partners", "slow_ones", "named"), [(2, 2, True), (2, 1, False), (4, 3, True), (3, 2, False)])
def test_a_node_is_named_for_two_slow_pairs_and_three_quarters_of_its_own(
    partners: int, slow_ones: int, named: bool
) -> None:
    mine = [("a", f"b{at}") for at in range(partners)]
    others = [(f"b{at}", f"c{at}") for at in range(partners)] + [(f"c{at}", f"d{at}") for at in range(8)]
    nodes = {node: "x" for pair in [*mine, *others] for node in pair}
    found = accuse(answered(set(mine[:slow_ones]), [*mine, *others]), nodes)
    assert (set(found.nodes), set(found.pairs)) == (({"a"}, set()) if named else (set(), set(mine[:slow_ones])))
    why = f"{slow_ones} of {partners} pairs: with b0 within: 10 GB/s, 50 % below the better half of its kind 20"
    assert found.nodes.get("a", why) == why


def test_the_node_of_most_slow_pairs_is_named_before_one_whose_pairs_all_are_slow_with_it() -> None:
    """`q` met nobody else, so its two slow pairs are no evidence against it."""
    of_bad = [("bad", "q"), ("q", "bad"), *(("bad", f"b{at}") for at in range(4))]
    pairs = [*of_bad, ("bad", "c0"), ("bad", "c1"), *((f"b{at}", f"c{at}") for at in range(8))]
    found = accuse(answered(set(of_bad), pairs), {node: "x" for pair in pairs for node in pair})
    assert set(found.nodes) == {"bad"} and not found.pairs


@pytest.mark.parametrize(("slow_ones", "named"), [(3, {"bad", "e"}), (2, {"bad"})])
def test_pairs_with_a_node_that_is_named_speak_neither_for_nor_against_another(slow_ones: int, named: set[str]) -> None:
    """`e` met the worse node four times: of its three others, all or two are slow."""
    of_bad = [("bad", f"b{at}") for at in range(8)] + [("bad", "e"), ("e", "bad")] * 2
    own = [("e", f"c{at}") for at in range(3)]
    pairs = [*of_bad, *own, *((f"c{at}", f"d{at}") for at in range(20))]
    found = accuse(answered({*of_bad, *own[:slow_ones]}, pairs), {node: "x" for pair in pairs for node in pair})
    assert set(found.nodes) == named and set(found.pairs) == (set() if "e" in named else set(own[:2]))


def test_of_two_nodes_with_the_same_evidence_the_same_is_named_whatever_the_order() -> None:
    pairs = [("a", "b"), ("b", "a"), *((f"c{at}", f"d{at}") for at in range(8))]
    told = answered({("a", "b"), ("b", "a")}, pairs)
    for some in (told, told[::-1]):
        assert set(accuse(some, {node: "x" for pair in pairs for node in pair}).nodes) == {"b"}


@pytest.mark.parametrize(
    ("nodes", "bad", "named"), [(4, 2, True), (4, 1, False), (3, 2, True), (2, 2, False), (5, 2, False)]
)
def test_a_leaf_is_named_for_half_of_at_least_three_nodes(nodes: int, bad: int, named: bool) -> None:
    members, rest = [f"a{at}" for at in range(nodes)], [f"b{at}" for at in range(40)]
    pairs = [(one, rest[3 * at + k]) for at, one in enumerate(members) for k in range(3)]
    pairs += [(rest[at], rest[at + 1]) for at in range(0, 39)]
    of = {**dict.fromkeys(members, "a"), **{one: f"b{at // 4}" for at, one in enumerate(rest)}}
    found = accuse(answered({pair for pair in pairs if pair[0] in members[:bad]}, pairs), of)
    assert set(found.nodes) == set(members[:bad]) and (found.leaves == ["a"]) is named


@pytest.mark.parametrize(("rate", "us", "why"), [
    (18.01, 2.0, ""), (17.99, 2.0, "below the better half"), (20.0, 2.39, ""), (20.0, 2.41, "above the better half"),
])  # fmt: skip
def test_a_pair_is_slow_from_a_tenth_of_the_rate_or_a_fifth_of_the_latency(rate: float, us: float, why: str) -> None:
    ones = [Answer(WITHIN, (f"a{at}", f"b{at}"), 20.0, 2.0) for at in range(9)]
    odd = Answer(WITHIN, ("a", "b"), rate, us)
    found = slow([*ones, odd])
    assert set(found) == ({odd} if why else set()) and why in found.get(odd, why)
    # a reference of the system file replaces the better half, for the rate alone
    assert bool(slow([*ones, odd], {WITHIN: rate / 0.91})) is (us > 2.4)
    assert "its reference" in slow([*ones, odd], {WITHIN: rate / 0.89})[odd]
