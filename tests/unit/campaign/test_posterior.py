"""Evidence of results of groups and the weight of each possibility, in numbers worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken.campaign import posterior
from tenken.campaign.posterior import Blocks, Level, Question, Suspects


def level(*answers):
    found = Level()
    found.answers = list(answers)
    return found


def noisy(*others):
    """Good groups have 100; half of them are off by 0.05 of a logarithm, which is a scale of 0.0656."""
    return level(*(100 * math.exp(off) for off in (-0.05, -0.05, 0, 0.05, 0.05)), *others)


def question(**others):
    return Question((1, 2), **{"good_at": 5.0, "bad_at": 6.0, "asked": 1, **others})


@pytest.mark.parametrize(("state", "settled"), [
    ({}, False), ({"asked": 0, "evidence": 9}, False), ({"asked": 0, "once": True}, False), ({"once": True}, True),
    ({"asked": 0, "dropped": True}, True), ({"asked": 6}, True), ({"asked": 5}, False),
    ({"evidence": 6}, True), ({"evidence": 5.9}, False), ({"evidence": -5}, True), ({"evidence": -4.9}, False),
    ({"evidence": 4.5, "clearest": 6}, True), ({"evidence": 4.4, "clearest": 6}, False),
    ({"evidence": 3, "clearest": 1}, True), ({"evidence": 2.9, "clearest": 1}, False),
    ({"evidence": -4.5, "clearest": 6}, True), ({"evidence": -3, "clearest": 1}, True),
    ({"evidence": 6.9, "bad_at": 7.0, "clearest": 1}, False), ({"evidence": 7, "bad_at": 7.0, "clearest": 1}, True),
    ({"evidence": 2, "bad_at": 2.0, "clearest": 1}, True),
])  # fmt: skip
def test_a_question_is_settled_by_its_evidence_less_of_which_suffices_if_the_noise_is_large(state, settled):
    """Three quarters of the clearest result, but not less than 3; a node is named with 7 whatever the noise."""
    assert question(**state).settled == settled


def test_a_question_counts_lost_results_and_weighs_the_others():
    """100 is a good result (-6), 80 a bad one (4.5, or with an even chance of another bad node 0.68)."""
    one = Question((1, 2))
    for answer, doubt in ((100.0, 0.0), (None, 0.3), (80.0, 0.5)):
        one.take(answer, doubt)
    assert (one.asked, one.answers, one.doubts) == (3, [100, 80], [0, 0.5])
    assert one.weigh(level(*[100] * 9)) == pytest.approx(-6 + 0.6821, abs=1e-4)
    assert [Question((1,), evidence=x).bad for x in (-1.0, 0.0, 1.0)] == [False, False, True]


@pytest.mark.parametrize(("evidence", "chance", "left"), [
    (math.log(3), 0.0, math.log(3)), (math.log(3), 0.5, math.log(1.5)), (math.log(3), 1.0, 0.0),
    (math.log(1 / 3), 0.5, math.log(0.5)), (math.log(3), 0.25, math.log(2)),
])  # fmt: skip
def test_a_result_says_less_of_a_part_if_the_rest_may_be_bad(evidence, chance, left):
    assert posterior.beside(evidence, chance) == pytest.approx(left)


@pytest.mark.parametrize(("answers", "centre", "scale"), [
    ([100] * 9, 100, 0.01), ([95.123, 95.123, 100, 105.127, 105.127], 100, 0.0656),
    ([100] * 5 + [80] * 5 + [130], 100, 0.01),
    ([100] * 5 + [130] * 3, 130, 0.01), ([100] * 5 + [130] * 2, 100, 0.01), ([100] * 5 + [0.0], 100, 0.01),
    ([98, 99, 100, 101, 102], 100, 0.013186), ([100] * 5 + [89] * 4, 100, 0.01),
    ([90] * 5 + [100] * 4, 90, 0.01), ([89] * 5 + [100] * 4, 100, 0.01),
])  # fmt: skip
def test_the_good_level_is_the_highest_that_many_results_share(answers, centre, scale):
    """Half of an effect, 0.11 of a logarithm, to either side; 45 % as many results as at the most frequent level."""
    assert level(*answers).good() == pytest.approx((centre, scale), rel=0.001)


@pytest.mark.parametrize(("value", "evidence"), [
    (100, -3.1606), (80, 3.1606), (100 * 0.8**0.5, 0), (85, 1.7266), (62, 4.5), (61, 2.5), (0, 2.5), (125, -2.4374),
    (1000, -0.3692),
])  # fmt: skip
def test_evidence_is_that_of_a_heavy_tailed_noise_and_bounded(value, evidence):
    """A bad group is 3.4014 scales below a good one. More than four scales below a bad one, at 61.5, it is a disturbed
    job."""
    assert noisy().evidence(value) == pytest.approx(evidence, abs=1e-3)


@pytest.mark.parametrize(("others", "evidence"), [
    ([], 2.5), ([20], 2.5), ([20, 25], 4.5), ([20, 27], 2.5), ([16, 20], 4.5), ([15, 20], 2.5),
])  # fmt: skip
def test_two_results_far_below_a_bad_group_are_no_disturbed_jobs(others, evidence):
    """Two within four scales, 0.26 of a logarithm, of each other."""
    assert noisy(*others).evidence(20) == evidence


def test_a_result_without_noise_is_as_clear_as_the_scale_allows():
    assert noisy().clearest() == pytest.approx(3.1606, abs=1e-3)
    assert level(*[100] * 9).clearest() == pytest.approx(2 * math.log(1 + 22.3144**2 / 3))
    one = level(*[100] * 9)
    assert one.good()[0] == pytest.approx(100)
    one.answers += [150] * 9
    assert one.good()[0] == pytest.approx(150), "learned anew"


def test_sets_of_blocks_are_single_ones_together_and_with_a_pair_that_is_slow_together():
    bad, both, holds = posterior._sets(3)
    assert bad.tolist() == [0, 1, 2, 4, 3, 5, 6, 7, 0, 0, 0, 1, 1, 1, 2, 2, 2, 4, 4, 4]
    assert both.tolist() == [0] * 8 + [3, 5, 6] * 4
    assert holds.astype(int).tolist() == [[one & 1, one >> 1 & 1, one >> 2 & 1] for one in bad.tolist()]
    many, pairs, _ = posterior._sets(7)
    assert len(many) == 1 + 7 + 21 + 35 + 35 + 21 + 8 * 21 and (pairs > 0).sum() == 8 * 21
    assert {int(one).bit_count() for one in many} == {0, 1, 2, 3, 4, 5}


def blocks(leaves=(1, 1)):
    """A node of these has a chance of 1/300 to be bad, a leaf of 1/100: 1/60 for either block, odds of 1 to 59."""
    return Blocks([(0, 1), (2, 3)], leaves, level(*[100] * 9))


def test_blocks_have_the_weight_of_their_nodes_and_leaves_and_of_faults_together():
    """Weights 1 + 1/59 + 1/59 + 1/3481, and 1e-4 of it without the last for both together."""
    one = blocks()
    one.weigh()
    total = 1 + 2 / 59 + 1 / 3481 + 1e-4 * (1 + 2 / 59)
    assert one.chance == pytest.approx([(1 / 59 + 1 / 3481 + 1e-4 / 59) / total] * 2)
    assert one.any_of(0b11) == pytest.approx((2 / 59 + 1 / 3481 + 2e-4 / 59) / total)
    assert one.together() == pytest.approx(1e-4 * (1 + 2 / 59) / total)
    assert Blocks([tuple(range(200)), (200,)], [1, 0], level(100)).odds == pytest.approx([0, -math.log(299)])
    three = Blocks([(0,), (1,), (2,)], [0] * 3, level(100))
    three.weigh()
    assert three.together() == pytest.approx(1e-4, rel=1e-3), "shared by its three pairs"


@pytest.mark.parametrize(("answers", "chance", "bad", "together"), [
    ([(1, 80), (2, 100)], (0.6, 0), 0, 0), ([(1, 80), (1, 80), (2, 100)], (1, 0), 1, 0),
    ([(3, 80), (1, 100), (2, 100)], (0, 0), 0, 0.01), ([(3, 80)] * 3 + [(1, 100), (2, 100)] * 2, (0, 0), 0, 0.98),
    ([(1, 80), (1, 80), (2, 80), (2, 80)], (1, 1), 2, 0),
])  # fmt: skip
def test_results_of_blocks_tell_bad_ones_and_faults_together(answers, chance, bad, together):
    one = blocks()
    for mask, value in answers:
        one.take(mask, value)
    one.weigh()
    assert one.chance == pytest.approx(chance, abs=0.01)
    assert one.at_least() == bad and one.at_least(0.5) == round(sum(chance))
    assert one.together() == pytest.approx(together, abs=0.01)
    assert one.pair() == (0, 1, 2, 3)


def test_evidence_from_elsewhere_counts_as_it_is_and_is_no_result():
    one = blocks()
    one.take(0b01, math.log(59), None)
    one.weigh()
    assert one.chance == pytest.approx([0.5, 1 / 60], abs=1e-3)
    for mask, value in ((0b01, 100), (0b01, 80), (0b10, 100), (0b11, 100)):
        one.take(mask, value)
    one.take(0b01, -9.0, None)
    assert (one.good_answers(0), one.good_answers(1)) == (2, 2)
    assert (one.mask([0, 1]), one.mask([3]), one.mask([1, 2])) == (0b01, 0b10, 0b11)
    one.weigh()
    one.take(0b10, 3.0, None)
    one.weigh()
    assert one.hits.shape[0] == len(one.said) == 7


def suspects(nodes=8, evidence=9.0):
    """Leaves of four nodes; a slow group of all of them."""
    leaves = {leaf: list(range(4 * leaf, 4 * leaf + 4)) for leaf in range((nodes + 3) // 4)}
    whole = Question(tuple(range(nodes)), known=evidence)
    return Suspects(whole, lambda node: node // 4, leaves, level(*[100] * 9))


def test_possibilities_of_a_slow_group_are_its_nodes_and_leaves_by_their_prior():
    """Nobody, all together, 8 nodes, 28 pairs, 56 triples, 2 leaves, a node beside either leaf, both leaves."""
    one = suspects()
    counts = {0: 1, math.log(1e-4): 1, -math.log(300): 8, -2 * math.log(300): 28, -3 * math.log(300): 56,
              -math.log(100): 2, -math.log(100 * 300): 8, -2 * math.log(100): 1}  # fmt: skip
    found = sorted(one.prior.tolist())
    assert found == pytest.approx(sorted(prior for prior, count in counts.items() for _ in range(count)))
    assert len({(a.tobytes(), b.tobytes()) for a, b in zip(one.alone, one.of_leaves, strict=True)}) == 105 - 1
    assert one.bad.sum(axis=1).tolist() == [0, 0] + [1] * 8 + [2] * 28 + [3] * 56 + [4] * 2 + [5] * 8 + [8]
    assert one.hits[:, 0].tolist() == [False] + [True] * 104
    weights = {0: 1.0, 1: math.exp(9) * 1e-4}
    assert one.weight[1] / one.weight[0] == pytest.approx(weights[1])
    assert suspects(7).of_leaves.shape[1] == 1, "a leaf of which not all nodes are here cannot be told"


def single(node, value):
    return Question((node,), answers=[value], doubts=[0.0], asked=1)


def test_single_nodes_of_a_slow_group_prove_who_is_bad():
    one = suspects()
    assert not one.decided and one.best() == ([], [0]), "a leaf is the likeliest, 1 in 100"
    assert one.slow([4, 5, 6, 7]) == pytest.approx(one.slow([0, 1, 2, 3]))
    assert one.slow(range(8)) == pytest.approx(1 - one.weight[0])
    one.take([single(5, 80.0), single(5, 80.0)])
    assert one.best() == ([], [1])
    one.take(
        [single(6, 100.0), single(4, 100.0), single(7, 100.0), Question((0, 1, 2, 3), answers=[100.0], doubts=[0.0])]
    )
    assert one.best() == ([5], []) and one.decided and one.at_least() == 1
    assert not (one.nobody or one.only_together or one.doubtful)
    assert one.proved and one.open_bits() < 0.05 and one._slow_alone() == {5}
    assert one.proof() == [(5,), (0, 1, 2, 3, 4, 6, 7)]


def test_a_leaf_is_bad_if_two_of_its_nodes_are_slow_alone():
    one = suspects()
    one.take([single(4, 80.0), single(4, 80.0), Question((0, 1, 2, 3), answers=[100.0], doubts=[0.0])])
    assert one.best() == ([], [1]) and not one.proved
    assert one.proof() == [(5,)], "4 was slow alone; a second one is missing"
    one.take([single(node, 80.0) for node in (5, 6, 7)] + [single(node, 80.0) for node in (5, 6, 7)])
    assert one.best() == ([], [1]) and one.proved and one.at_least() == 1


def test_a_group_without_a_bad_node_is_slow_together_or_not_at_all():
    halves = [Question(half, answers=[100.0], doubts=[0.0]) for half in ((0, 1, 2, 3), (4, 5, 6, 7))]
    together, nobody = suspects(evidence=20.0), suspects(evidence=-9.0)
    for one in (together, nobody):
        one.take(halves)
    assert together.only_together and not together.nobody and not together.doubtful
    assert nobody.nobody and nobody.doubtful and nobody.decided and not nobody.only_together
    assert (together.best(), nobody.best()) == (([], []), ([], []))
    assert together.proof() == together.next_tests() != []
    assert nobody.proof() == [tuple(range(8))]


def test_nearly_certain_nodes_belong_to_each_possibility_until_they_are_weighed_again():
    one = suspects(12)
    one.certain = 0.5
    one.take([single(0, 80.0), single(0, 80.0), single(1, 100.0), single(2, 100.0), single(3, 100.0)])
    assert np.flatnonzero(one.sure).tolist() == [0] and one.alone[:, 0].all()
    assert one.prior[1] == -math.inf and not (one.nobody or one.doubtful)
    assert one.prior[[0, 2]] == pytest.approx([0, -math.log(300)])
    free = one.alone[2:13].astype(int).tolist()
    assert free == [[1] + [int(i == node) for i in range(1, 12)] for node in range(1, 12)]
    one.reopen()
    assert not one.sure.any() and one.certain == 0.9999 and np.isfinite(one.prior).all()
    three = suspects(12)
    three.sure[:3] = True
    three.reopen()
    assert three.sure.sum() == 3, "too many possibilities"


def test_what_is_sure_forbids_that_only_all_together_are_slow():
    for name in ("sure", "sure_leaves"):
        one = suspects()
        getattr(one, name)[0] = True
        one._possibilities()
        assert one.prior[1] == -math.inf and one.weight[1] == 0


@pytest.mark.parametrize(("left", "rounds", "share", "tests"), [
    (1.4, 14, 1, 1), (1.6, 14, 1, 2), (6.9, 14, 1, 2), (7.1, 14, 1, 3), (1.4, 14, 3.4, 3), (7.1, 14, 2, 3),
    (1.4, 4.3, 1, 3), (1.4, 4.5, 1, 1), (1.6, 4, 1, 4), (7.1, 10, 1, 5),
])  # fmt: skip
def test_more_is_asked_at_once_while_much_is_open_and_few_rounds_are_left(monkeypatch, left, rounds, share, tests):
    """None of the tests shares a node with another one."""
    one = suspects(36)
    monkeypatch.setattr(one, "open_bits", lambda: left)
    asked = one.next_tests(rounds, share)
    assert len(asked) == tests
    nodes = [node for test in asked for node in test]
    assert len(nodes) == len(set(nodes)) and set(nodes) <= set(range(36))


def test_of_two_nodes_one_is_asked():
    whole = Question((3, 8), known=9.0)
    one = Suspects(whole, lambda node: node, {3: [3], 8: [8]}, level(*[100] * 9))
    assert one.next_tests() == [(8,)]
    assert one.leaves == {}


@pytest.mark.parametrize(("best", "expected"), [
    (([2], []), [(2,), (0, 1, 3)]), (([], []), [(0, 1, 2, 3)]), (([0, 1, 2, 3], []), [(0,), (1,), (2,), (3,)]),
])  # fmt: skip
def test_a_decision_is_proved_by_bad_nodes_alone_and_all_others(best, expected):
    one: Any = SimpleNamespace(
        nodes=(0, 1, 2, 3), best=lambda: best, _slow_alone=lambda: {2}, members={}, tests=[], only_together=False
    )
    assert Suspects.proof(one) == expected


@pytest.mark.parametrize(("chance", "told"), [(0.5, 1.0), (0.0, 0.0808), (1.0, 0.0808), (0.25, 0.8191)])
def test_a_test_that_may_go_either_way_tells_most(chance, told):
    """0.25 is slow in 0.255 of all cases, since one result in a hundred is wrong."""
    assert posterior._told(np.array([chance])) == pytest.approx([told], abs=2e-3)
    assert posterior._bits(np.array([0.5, 0.25, 0.0, 1.0])) == pytest.approx([0.5, 0.5, 0, 0], abs=1e-9)


@pytest.mark.parametrize(("weight", "nobody", "decided"), [
    (0.995, True, True), (0.9949, True, False), (0.999, False, True), (0.9989, False, False),
])  # fmt: skip
def test_a_possibility_is_accepted_with_999_thousandths_and_nobody_with_995(weight, nobody, decided) -> None:
    one: Any = SimpleNamespace(weight=np.array([weight, 1 - weight]), nobody=nobody)
    assert Suspects.decided.fget(one) is decided  # type: ignore[attr-defined]


@pytest.mark.parametrize(("weight", "sure", "doubtful"), [(0.021, 0, True), (0.019, 0, False), (0.9, 1, False)])
def test_a_bad_node_is_doubtful_while_nobody_has_two_hundredths(weight: float, sure: int, doubtful: bool) -> None:
    none = np.zeros(2, bool)
    one: Any = SimpleNamespace(weight=np.array([weight, 1 - weight]), sure=np.array([sure, 0], bool), sure_leaves=none)
    assert Suspects.doubtful.fget(one) is doubtful  # type: ignore[attr-defined]
    other: Any = SimpleNamespace(weight=one.weight, sure=none, sure_leaves=one.sure)
    assert Suspects.doubtful.fget(other) is doubtful  # type: ignore[attr-defined]


@pytest.mark.parametrize(("weight", "alone", "proved"), [
    (0.9999, {3, 4, 5}, True), (0.99989, {3, 4, 5}, False), (0.9999, {3, 4}, False), (0.9999, {4, 5}, False),
    (0.9999, {3, 4, 5, 6}, True),
])  # fmt: skip
def test_a_decision_is_proved_by_each_node_and_two_of_each_leaf_alone(weight, alone, proved) -> None:
    one: Any = SimpleNamespace(
        weight=np.array([weight]), best=lambda: ([3], [1]), _slow_alone=lambda: alone, members={1: [4, 5, 6, 7]}
    )
    assert Suspects.proved.fget(one) is proved  # type: ignore[attr-defined]


@pytest.mark.parametrize(("chance", "sure"), [(0.9951, True), (0.9949, False)])
def test_a_node_is_certain_with_995_thousandths(chance: float, sure: bool) -> None:
    one = suspects()
    assert one.certain == 0.995
    one.alone[:] = False
    one.alone[2, 3] = True
    one.weight = np.full(105, (1 - chance) / 104)
    one.weight[2] = chance
    weighed = []
    one._weigh = lambda: None  # type: ignore[method-assign]
    one._possibilities = lambda: weighed.append(one.sure.copy()) or setattr(one, "weight", np.r_[1.0, np.zeros(104)])  # type: ignore[method-assign, func-returns-value]
    one.take([])
    assert [list(np.flatnonzero(w)) for w in weighed] == ([[3]] if sure else [])
