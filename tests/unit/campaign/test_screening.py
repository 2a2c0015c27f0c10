"""What is subtracted from a fleet's values and which limit remains, in numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tenken.campaign import extreme_value, screening
from tenken.campaign.screening import Figure, Fleet, Screened, Suspect

NAN = math.nan


@pytest.mark.parametrize(("values", "higher", "expected"), [
    ([100, 50, NAN], True, [-4.60517, -3.91202, NAN]),
    ([1, math.e, 1 / math.e], False, [0, 1, -1]),
    ([-2, -1, -4], False, [-1, -0.5, -2]),
    ([-2, -1, -4], True, [1, 0.5, 2]),
    ([0, 4, 2, NAN], False, [0, 2, 1, NAN]),
    ([0, 0, 3], False, [0, 0, 3]),
    ([NAN, NAN], True, [NAN, NAN]),
])  # fmt: skip
def test_losses_are_logarithms_and_relative_to_the_median_unless_all_values_are_positive(values, higher, expected):
    found = screening.losses(Figure("x", np.array(values), higher))
    assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_lost_fractions_are_those_of_the_logarithms():
    one = Suspect("device", "n1", "triad", -math.log(0.98), -math.log(0.95), (1,))
    assert (one.worse, one.within) == pytest.approx((0.02, 0.05))


@pytest.mark.parametrize(("sample", "scale"), [
    ([], 0), ([5], 0), ([1, 2], 0.7413), ([1, 2, 3, 4, 50], 1.4826), ([0, 0, 0, 0, 4], 1.6 / 3),
])  # fmt: skip
def test_the_scale_is_that_of_the_middle_half_and_of_what_differs_if_most_are_alike(sample, scale):
    assert screening._scale(np.array(sample, dtype=float)) == pytest.approx(scale)


@pytest.mark.parametrize(("values", "spread"), [
    ([2, 4], 1.4826 / 3), ([-2, -4], 1.4826 / 3), ([0, 0, 0], 0), ([-1, 0, 1], 0), ([7, 7, 7], 0),
])  # fmt: skip
def test_a_spread_is_relative_to_the_median(values, spread):
    assert screening.spread_of(np.array(values, dtype=float)) == pytest.approx(spread)


@pytest.mark.parametrize(("chance", "degrees", "expected"), [
    (0.01, 1, 31.821), (0.001, 4, 7.173), (0.0001, 4, 13.034), (0.001, 10, 4.144), (0.001, 20, 3.552),
])  # fmt: skip
def test_distances_are_those_of_tables_of_students_distribution(chance, degrees, expected):
    assert screening._student(chance, degrees) == pytest.approx(expected, rel=0.002)


@pytest.mark.parametrize("order", [1, -1])
def test_a_steady_drift_is_removed_entirely(order):
    """Of the first and the last runs too; a device without a value has none."""
    rest = np.r_[np.arange(100.0)[::order], NAN]
    found = screening.drift(rest, np.r_[np.arange(100.0)[::order] * 60, 7])
    assert found == pytest.approx(np.r_[rest[:100], 0])


def test_a_drift_is_extrapolated_from_the_nearest_two_stretches():
    """Stretches of 25 runs around 12, 37, 62 and 87: flat, rising by 25, rising by 50."""
    rest = np.array([0.0] * 50 + [25.0] * 25 + [75.0] * 25)
    found = screening.drift(rest, np.arange(100.0))
    assert found[[0, 12, 37, 62, 87, 99]] == pytest.approx([0, 0, 0, 25, 75, 99])
    falling = screening.drift(rest[::-1], np.arange(100.0))
    assert falling[[0, 12, 37, 62, 87, 99]] == pytest.approx([99, 75, 25, 0, 0, 0])


@pytest.mark.parametrize(("devices", "times", "found"), [(48, True, True), (47, True, False), (48, False, False)])
def test_fewer_than_48_runs_have_no_drift(devices, times, found):
    rest = np.arange(float(devices))
    assert screening.drift(rest, rest if times else None).any() == found


@pytest.mark.parametrize(("step", "found"), [(1.0, True), (0.5, False)])
def test_a_step_that_chance_explains_is_left(step, found):
    """Stretches of 25 runs scatter by 1 around 0, 0, step, step. Four standard errors: 0.59 of the larger step, 0.89
    of the smaller one."""
    rest = np.concatenate([level + np.array([-1.0, 1.0] * 12 + [0.0]) for level in (0, 0, step, step)])
    assert screening.drift(rest, np.arange(100.0)).any() == found


@pytest.mark.parametrize(
    ("devices", "covariates", "found"), [(21, 1, True), (20, 1, False), (31, 2, True), (30, 2, False)]
)
def test_more_than_ten_devices_explain_each_number_of_a_line(devices, covariates, found):
    """0.5 and 0.01 for each of them; of fewer devices not even a constant is subtracted."""
    of = [np.arange(float(devices)), np.arange(float(devices)) % 7][:covariates]
    rest = 0.5 + 0.01 * np.sum(of, axis=0)
    assert screening.explained(rest, of) == pytest.approx(rest if found else 0 * rest)


def test_a_line_is_of_the_devices_that_have_all_values_and_of_covariates_that_vary():
    heat, rest = np.arange(40.0), 0.01 * np.arange(40.0)
    heat[3], rest[5] = NAN, NAN
    found = screening.explained(rest, [heat])
    assert (found[3], found[5]) == (0, 0)
    others = np.setdiff1d(np.arange(40), [3, 5])
    assert found[others] == pytest.approx(rest[others])
    assert screening.explained(np.full(40, 0.3), [np.full(40, 60.0)]) == pytest.approx(np.zeros(40))
    assert screening.explained(np.full(40, 0.3), []) == pytest.approx(np.zeros(40))


@pytest.mark.parametrize("side", [1, -1])
def test_a_device_far_from_all_others_does_not_move_the_line(side):
    """In the covariate it counts as four scales (4 x 14.8 K) away from the median, in the loss it counts little."""
    heat, rest = np.arange(41.0), 0.01 * np.arange(41.0)
    heat[0], rest[0] = side * 1e6, 0.2 + side * 0.593
    assert screening.explained(rest, [heat])[1:] == pytest.approx(rest[1:], abs=0.012)
    loss = 0.01 * np.arange(41.0) + 1e-4 * (-1.0) ** np.arange(41)
    loss[40] = 10
    assert screening.explained(loss, [np.arange(41.0)])[:40] == pytest.approx(loss[:40], abs=0.001)


def test_groups_of_eight_have_a_median_each_and_offsets_from_the_median_group():
    codes = np.repeat([0, 1, 2, 3], [8, 9, 8, 8])
    rest = np.r_[np.full(8, 0.1), np.full(9, 0.2), np.full(7, 9.0), NAN, np.full(8, 0.6)]
    of = screening._Medians.of("rack", np.array(["a", "b", "c", "d"]), codes, rest)
    assert (of.groups.tolist(), of.sizes.tolist()) == ([0, 1, 3], [8, 9, 8]), "c has seven values"
    assert of.offsets == pytest.approx([-0.1, 0.0, 0.4])
    assert of.members(2, rest).tolist() == list(range(25, 33))
    of.take_off(rest)
    assert rest == pytest.approx(np.r_[np.full(17, 0.2), np.full(7, 9.0), NAN, np.full(8, 0.2)], nan_ok=True)
    none = screening._Medians.of("rack", np.array(["a"]), np.zeros(7, int), np.ones(7))
    assert len(none.offsets) == 0


def medians(offsets, sizes):
    groups = np.arange(len(offsets))
    return screening._Medians(
        "rack", np.char.add("r", groups.astype(str)), groups, groups, np.array(sizes), np.array(offsets)
    )


@pytest.mark.parametrize(("size", "spread"), [(16, 1.40794), (1, 0.0)])
def test_what_groups_differ_by_is_told_without_the_noise_of_their_medians(size, spread):
    """The MAD of members and of groups is 1, hence their scale 1.4826; a median of 16 has the noise 0.46453."""
    result = Screened([], [], {}, {}, {}, {}, {})
    screening._tell(
        Figure("triad", np.zeros(3)), medians([-1.0, 0.0, 1.0], [size] * 3), np.array([-1, 0, 1, NAN]), result
    )
    (effect,) = result.effects
    assert (effect.factor, effect.figure, effect.losses) == ("rack", "triad", {"r0": -1, "r1": 0, "r2": 1})
    assert effect.spread == pytest.approx(spread, abs=1e-4)


@pytest.mark.parametrize(("chance", "stated", "noise", "sizes", "limit"), [
    (0.008, 0.001, 0.0, [16] * 8, 7.173 * 1.4826),
    (0.0008, 0.001, 0.0, [16] * 8, 13.034 * 1.4826),
    (0.008, 10.0, 0.0, [16] * 8, 15.0),
    (0.0008, 16.0, 0.0, [16] * 8, 13.034 * 2),
    (0.008, 0.001, 4.0, [16] * 5 + [4] * 3, 7.173 * 1.2533 * 1.4826 * 4 / 4),
    (0.008, 0.001, 4.0, [16] * 3 + [4] * 5, 7.173 * 1.2533 * 1.4826 * 4 / 2),
])  # fmt: skip
def test_the_worst_of_eight_groups_is_odd_beyond_a_quantile_of_four_degrees_of_freedom(
    chance, stated, noise, sizes, limit
):
    """The scale of the other groups is 1.4826; 7.173 and 13.034 are exceeded once in 1,000 and 10,000."""
    figure = Figure("triad", np.zeros(3), spread=stated)
    rest = noise * np.array([-1, 0, 1, NAN])
    for worst, odd in ((1.01 * limit, True), (0.99 * limit, False)):
        of = medians([-2.0, -1, worst, -1, 0, 0, 1, 1], sizes)
        found = screening._oddest(figure, of, rest, chance)
        assert (found is not None) == odd
        if found:
            assert found == (of, 2, pytest.approx(limit, rel=0.002))


@pytest.mark.parametrize(("devices", "named"), [
    ([0.021] * 4, True), ([0.019] * 4, False), ([0.03, 0.03, 0.03, 0], True), ([0.03, 0.03, 0, 0], False),
    ([0.06, 0.06, 0.02, 0.02], False), ([0.06, 0.06, 0.02, 0.021], True), ([0.03, NAN, 0.03, 0.03], True),
    ([0.03, NAN, NAN, NAN], False), ([-0.03] * 4, False),
])  # fmt: skip
def test_a_node_is_named_if_three_quarters_of_its_devices_lose_half_of_its_loss(devices, named):
    """Nine nodes, of which eight are alike: the limit is twice the stated 0.01."""
    fleet = Fleet(np.repeat([f"n{i}" for i in range(9)], 4), slots=np.tile(["0", "1", "2", "3"], 9))
    rest = np.zeros(36)
    rest[8:12] = devices
    result = Screened([], [], {}, {}, {}, {}, {})
    found = screening._nodes(fleet, Figure("triad", rest, spread=0.01), rest, 1, result)
    assert found == ({8, 9, 10, 11} if named else set())
    assert [(s.kind, s.name, s.devices) for s in result.suspects] == ([("node", "n2", (8, 9, 10, 11))] if named else [])
    if named:
        (one,) = result.suspects
        assert (one.limit, one.loss) == pytest.approx((0.02, np.nanmedian(devices)))
    assert screening._nodes(Fleet(fleet.nodes), Figure("triad", rest, spread=0.01), rest, 1, result) == set()


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(("lost", "named"), [(0.031, True), (0.029, False), (-0.031, False)])
def test_a_device_is_named_beyond_three_stated_spreads(higher, lost, named):
    values = np.full(40, 100.0)
    values[7] *= math.exp(-lost if higher else lost)
    fleet = Fleet(np.repeat([f"n{i}" for i in range(20)], 2), slots=np.tile(["GPU 0", "GPU 1"], 20))
    found = screening.screen(fleet, [Figure("triad", values, higher, spread=0.01)])
    assert [(s.kind, s.name, s.devices) for s in found.suspects] == ([("device", "n3 GPU 1", (7,))] if named else [])
    assert found.limits == {"triad": pytest.approx(0.03)} and found.higher == {"triad": higher}
    assert found.residuals["triad"][[0, 7]] == pytest.approx([0, lost])
    assert found.taken_off["triad"] == pytest.approx((-1 if higher else 1) * math.log(100))


@pytest.mark.parametrize(("values", "limits"), [([1, 2, NAN], {}), ([1, 2, 3], {"triad": math.inf})])
def test_two_values_are_not_compared(values, limits):
    assert (
        screening.screen(Fleet(np.array(["a", "b", "c"])), [Figure("triad", np.array(values, float))]).limits == limits
    )


def test_what_two_racks_differ_by_is_subtracted_from_both_and_the_rest_is_centred():
    """Eight devices of rack a lose nothing, sixteen of rack b 0.1."""
    values = np.r_[np.full(8, 100.0), np.full(16, 100 * math.exp(-0.1))]
    fleet = Fleet(np.arange(24).astype(str), {"rack": np.repeat(["a", "b"], [8, 16])})
    found = screening.screen(fleet, [Figure("triad", values)])
    assert found.residuals["triad"] == pytest.approx(np.zeros(24), abs=1e-12)
    assert found.taken_off["triad"] == pytest.approx(-np.log(values))
    (effect,) = found.effects
    assert effect.losses == pytest.approx({"a": -0.05, "b": 0.05}) and found.suspects == []


def test_factors_are_the_same_if_their_groups_are():
    factors = {"rack": ["x", "x", "y"], "switch": ["2", "1", "1"], "pdu": ["q", "q", "p"], "slot": ["a", "b", "c"]}
    found = screening._told_apart({name: np.array(labels) for name, labels in factors.items()})
    assert [(name, labels.tolist()) for name, labels in found] == [
        ("rack, pdu", ["x", "x", "y"]), ("switch", ["2", "1", "1"]), ("slot", ["a", "b", "c"]),
    ]  # fmt: skip


@pytest.mark.parametrize(("total", "sizes", "chance"), [
    (12, [6, 6], 1 / 36), (11, [6, 6], 3 / 36), (2, [6, 6], 1), (5, [2, 3], 1 / 6), (4, [2, 3], 3 / 6), (3, [3], 1 / 3),
])  # fmt: skip
def test_sums_of_ranks_are_as_likely_as_those_of_dice(total, sizes, chance):
    assert screening._at_least(total, np.array(sizes)) == pytest.approx(chance)


def test_a_node_has_the_median_of_its_values_and_none_without_any():
    figures = np.array([[1.0, 2.0, NAN, 4.0], [5.0, 9.0, NAN, NAN]])
    found = screening._by_node(figures, np.array([0, 0, 1, 2]), 4)
    assert found == pytest.approx([3.5, NAN, 4.0, NAN], nan_ok=True)


@pytest.mark.parametrize(("nodes", "checks", "lost", "again", "found"), [
    (3, 8, 0.11, 0.11, (1, 0)), (3, 7, 0.11, 0.11, (0, 0)), (40, 3, 0.11, 0.11, (1, 0)), (40, 2, 0.11, 0.11, (0, 0)),
    (41, 9, 0.11, 0.11, (0, 0)), (3, 8, 0.09, 0.11, (0, 0)), (3, 8, 0.11, 0.065, (1, 0)), (3, 8, 0.11, 0.06, (0, 1)),
    (2, 20, 0.11, 0.11, (0, 0)), (3, 8, -0.11, -0.11, (0, 0)), (3, 8, 0.11, NAN, (0, 1)),
])  # fmt: skip
def test_a_node_that_is_always_the_last_is_named_if_chance_makes_it_so_once_in_a_thousand(
    nodes, checks, lost, again, found
):
    """Of three nodes one is the last in eight checks with 3 x 3^-8 = 0.0005, in seven with 0.0014; of forty one is in
    three with 0.0006, in two with 0.025. It has to lose a tenth, and six tenths of this again."""
    first, second, check_of = [], {}, {}
    for check in range(checks):
        values = np.roll(100 + np.linspace(0.0, 0.2, nodes), check)
        values[1] = 100.1 * (1 - lost)
        first.append(Figure(f"f{check}", values))
        second[f"f{check}"], check_of[f"f{check}"] = values.copy(), f"c{check}"
        second[f"f{check}"][1] = 100.1 * (1 - again)
    got = screening.slow_in_general(Fleet(np.array([f"n{i:02}" for i in range(nodes)])), first, second, check_of)
    assert tuple(map(len, got)) == found
    for one in [*got[0], *got[1]]:
        assert (one.kind, one.name, one.devices, one.figure) == ("node", "n01", (1,), f"the median of {checks} checks")
        assert one.limit == pytest.approx(-math.log(0.9)) and one.worse == pytest.approx(lost, abs=0.002)


@pytest.mark.parametrize(("kind", "again", "named"), [
    ("device", [-0.061, 0], True), ("device", [-0.059, 0], False), ("device", [0.061, 0], False),
    ("device", [NAN, 0], False),
    ("node", [-0.1, -0.03], True), ("node", [-0.1, -0.01], False), ("node", [NAN, -0.07], True),
    ("rack", [0.02, -0.01], True), ("rack", [0.08, 0.04], False),
])  # fmt: skip
def test_a_suspect_is_confirmed_by_six_tenths_of_its_limit(kind, again, named):
    """The limit is 0.1. In the first run, losses of 0.2 were explained. A rack lost 0.1, which is already subtracted
    from its members."""
    values = 100 * np.exp(np.array([*again, 0.0]) - 0.2)
    off = np.full(3, -math.log(100) + 0.2)
    first = Screened([], [], {}, {}, {}, {"triad": off}, {"triad": True})
    one = Suspect(kind, "x", "triad", 0.1, 0.1, (0,) if kind == "device" else (0, 1))
    found = screening.confirm([one], first, {"triad": values})
    assert found == (([one], []) if named else ([], [one]))
    assert screening.confirm([one], first, {"other": values}) == ([], [one])
    first.higher["triad"], first.taken_off["triad"] = False, np.full(3, math.log(100) + 0.2)
    assert screening.confirm([one], first, {"triad": 1e4 / values}) == found


def test_the_probability_of_a_report_is_shared_by_devices_and_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.0025 for all devices, 0.001 for all nodes, of all metrics together."""
    asked: list[float] = []
    monkeypatch.setattr(screening.extreme_value, "limit", lambda sample, chance: asked.append(chance) or 1.0)
    values = np.arange(1.0, 13.0)
    values[0] = NAN
    fleet = Fleet(np.repeat([f"n{i}" for i in range(6)], 2), slots=np.tile(["0", "1"], 6))
    screening.screen(fleet, [Figure(f"f{i}", values) for i in range(4)])
    assert asked == pytest.approx([0.001 / 4 / 6, 0.0025 / 4 / 11] * 4), "six nodes, eleven devices with a value"


def racks(count: int, *slow: int) -> tuple[Fleet, np.ndarray]:
    """Racks of eight devices, which scatter by 0.1 %; slow ones lose 10 % and more."""
    scatter = np.tile([-0.001, 0.001, 0.0, -0.0005, 0.0005, 0.0002, -0.0002, 0.0], count)
    loss = scatter + np.repeat([0.1 + 0.01 * rack if rack in slow else 0.0001 * rack for rack in range(count)], 8)
    labels = np.repeat([f"r{rack:02}" for rack in range(count)], 8)
    return Fleet(np.arange(8 * count).astype(str), {"rack": labels}), 100 * np.exp(-loss)


@pytest.mark.parametrize(
    ("count", "slow", "named"), [(7, (3,), []), (8, (3,), ["r03"]), (30, (3, 9, 20), ["r20", "r09", "r03"])]
)
def test_of_eight_groups_each_odd_one_is_named_the_worst_first(
    count: int, slow: tuple[int, ...], named: list[str]
) -> None:
    fleet, values = racks(count, *slow)
    found = screening.screen(fleet, [Figure("triad", values)])
    assert [(one.kind, one.name) for one in found.suspects] == [("rack", name) for name in named]
    assert found.residuals["triad"] == pytest.approx(np.zeros(8 * count), abs=0.0025), "its devices are not"


def test_at_most_eight_groups_of_a_metric_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, values = racks(100, *range(0, 90, 9))
    monkeypatch.setattr(screening, "_oddest", lambda figure, of, rest, chance: (of, int(of.offsets.argmax()), 0.01))
    found = screening.screen(fleet, [Figure("triad", values)])
    assert [one.name for one in found.suspects if one.kind == "rack"] == [f"r{rack}" for rack in range(81, 17, -9)]


def cauchy(count: int) -> np.ndarray:
    """The quantiles of the heaviest tail, in a fixed order."""
    return np.tan(np.pi * ((np.arange(count) + 0.5) / count - 0.5))


@pytest.mark.parametrize(("count", "exponent"), [(399, 0.34), (400, 1.0), (5000, 1.0)])
def test_few_devices_have_no_tail_heavier_than_three_degrees_of_freedom(count: int, exponent: float) -> None:
    """A hundredth of a probability is so many times farther out: 100 to the power of one over degrees of freedom."""
    far, near = (extreme_value.limit(cauchy(count), chance) for chance in (1e-6, 1e-4))
    assert far / near == pytest.approx(100**exponent, rel=0.03)


def test_of_40_devices_only_the_worse_side_counts() -> None:
    """Gains of up to 30 % and losses of up to 1 %."""

    def of(count: int) -> float:
        half = np.linspace(0.0005, 0.01, count // 2)
        return extreme_value.limit(np.r_[half, -30 * half, np.zeros(count % 2)], 1e-4)

    assert of(39) > 2 * of(40)


def test_devices_that_may_be_defective_count_only_as_outside() -> None:
    """Ten of 4,000, however far out they are; twenty are not so few."""
    normal = np.array([extreme_value.quantile(1 - p if p > 0.5 else p, 0) * (1 if p > 0.5 else -1)
                       for p in (np.arange(4000) + 0.5) / 4000])  # fmt: skip
    normal = np.sort(normal)
    plain = extreme_value.limit(normal, 1e-6)
    assert 4.75 < plain < 6.5, "a normal distribution exceeds 4.75 once in a million"
    hidden = np.r_[normal[:-10], np.full(10, 50.0)]
    assert extreme_value.limit(hidden, 1e-6) == pytest.approx(plain, rel=0.05)
    assert extreme_value.limit(3 * normal, 1e-6) == pytest.approx(3 * plain)
    assert extreme_value.limit(normal, 1e-8) > plain > extreme_value.limit(normal, 1e-4)
