"""The tests of order, on values written by hand, with chances counted by hand; and the findings they make."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tenken.history.detect import Detector, Settings, detect, order

UP = np.array([True])
CALM = [0.00, 0.01, -0.01] * 7  # three weeks, median 0, farthest 0.01


@pytest.mark.parametrize(
    ("old", "new", "since", "shift"),
    [
        ([0.0] * 10, [0.1] * 7, 99, 0.1),
        ([0.0] * 10, [0.1] * 6 + [-0.01], 99, 0.0),  # one of seven is back
        ([0.0] * 4 + [0.3] + [0.0] * 5, [0.1] * 7, 99, 0.1),  # one spike of ten hides nothing
        ([0.0] * 9 + [0.3], [0.1] * 7, 99, 0.1),
        ([0.0] * 8 + [0.3, 0.3], [0.1] * 7, 99, 0.0),  # two are not one
        ([0.0] * 4 + [0.3, 0.3] + [0.0] * 4, [0.1] * 7, 99, 0.0),
        ([9.0] * 5 + [0.0] * 5, [0.1] * 7, 12, 0.1),  # five before, since a reported change
        ([9.0] + [0.0] * 8 + [0.3], [0.1] * 7, 16, 0.0),  # of nine, none is spared
        ([9.0] * 6 + [0.0] * 4, [0.1] * 7, 11, 0.0),  # four are too few
    ],
)
def test_precedence(old, new, since, shift):
    values, told = np.array([old + new]), np.array([since])
    assert order.precedence(values, told) == pytest.approx([shift])
    assert order.precedence(values + 5, told) == pytest.approx([shift]), "whatever the level"


@pytest.mark.parametrize(
    ("old", "new", "since", "shift"),
    [
        (CALM, [0.06, 0.09], 99, 0.06),
        (CALM, [0.06, 0.119], 99, 0.06),
        (CALM, [0.06, 0.121], 99, 0.0),  # more than twice as far: a disturbance, not a level
        (CALM, [0.09, 0.061], 99, 0.061),
        (CALM, [0.09, 0.01], 99, 0.0),  # one night
        (CALM, [0.059, 0.9], 99, 0.0),  # 4 MAD are 0.0593
        ([*CALM[:-1], 0.04], [0.079, 0.09], 99, 0.0),  # less than twice as far as the farthest
        ([*CALM[:-1], 0.04], [0.081, 0.09], 99, 0.081),
        ([*CALM[:-1], -0.4], [0.07, 0.09], 99, 0.07),  # a better value is no evidence
        (CALM, [0.07, 0.09], 22, 0.0),  # three weeks since a reported change
        ([0.0] * 21, [0.06, 0.06], 23, 0.06),
        ([0.07, *CALM], [0.06, 0.06], 99, 0.06),  # as bad, but more than three weeks ago
    ],
)
def test_ratio(old, new, since, shift):
    values, told = np.array([old + new]), np.array([since])
    assert order.ratio(values, told) == pytest.approx([shift])
    assert order.ratio(values - 5, told) == pytest.approx([shift])


@pytest.mark.parametrize(
    ("old", "new", "unreached"),
    [
        (CALM, [0.06, 0.09], True),
        (CALM, [0.06, 0.01], False),  # as bad as seven before
        ([0.06, 0.07, *CALM[2:]], [0.06, 0.09], True),  # two spikes
        ([0.06, 0.07, *CALM[2:-1], 0.08], [0.06, 0.09], False),  # three: a mode
        ([0.06, 0.07, *CALM[2:-1], 0.05], [0.06, 0.09], True),
        ([0.06, 0.07, 0.08, *CALM], [0.06, 0.09], True),  # more than three weeks ago
        ([0.06, 0.07, *CALM[2:]], [0.09, 0.06, 0.06], True),
        ([0.06, 0.07, *CALM[2:-1], 0.08], [0.09, 0.06, 0.06], False),
        (CALM, [0.00, 0.06, 0.06, 0.00, 0.06], True),  # the median of five
        (CALM, [0.00, 0.06, 0.06, 0.00, 0.00], False),
        (CALM, [0.00] * 5 + [0.06, 0.06, 0.00, 0.06, 0.00], True),  # the median of the newest five of ten
        ([0.06, 0.07, *CALM[2:-1], 0.08], [0.06] * 5, False),
    ],
)
def test_unreached(old, new, unreached):
    assert order.unreached(np.array([old + new]), len(new)).tolist() == [unreached]


def test_a_slow_window_is_unreached_from_before_its_first_value():
    for bad, unreached in ((2, True), (3, True), (4, False)):
        old = [*CALM[bad:], *[0.09] * bad, *[0.09] * 35, *[0.06] * 5]
        assert order.unreached(np.array([old]), 40).tolist() == [unreached]


@pytest.mark.parametrize(("length", "chances"), [(2, 6), (3, 10), (5, 2206)])
def test_the_chance_of_unreached_is_counted(length, chances):
    """All C(21 + n, n) places that the newest values can have in the order of all."""
    count = order.WEEKS + length
    places = list(itertools.combinations(range(count), length))
    ranks = np.array([[*sorted(set(range(count)) - set(new)), *new] for new in places], float)
    assert len(ranks) == math.comb(count, length) and order.unreached(ranks, length).sum() == chances


def test_the_return_from_a_better_mode_is_seldom_a_finding():
    """A quarter faster on some nights: 25 findings when only windows of two and three values asked for a new level."""
    rng = np.random.default_rng(1)
    cost = rng.normal(0, 0.004, (40, 200))
    drawn, mode = rng.random((20, 200)) < 0.1, np.zeros((20, 200), bool)
    for night in range(1, 200):
        mode[:, night] = np.where(rng.random(20) < 0.6, mode[:, night - 1], drawn[:, night])
    cost[:20] -= 0.3 * mode
    events = detect(1000 * np.exp(-cost), np.ones(40, bool)).events
    assert len([e for e in events if e.worse and e.kind != "noisy"]) <= 12


@pytest.mark.parametrize(("spikes", "found"), [((83, 93), [101]), ((83, 88, 93), [])])
def test_two_values_at_a_level_of_these_weeks_are_no_finding(spikes, found):
    """As bad three times within three weeks: the series does this occasionally. Twice: spikes, which hide no loss."""
    cost = np.random.default_rng(6).normal(0, 0.004, (40, 102))
    cost[0, [*spikes, 100, 101]] += 0.1
    cost[0, list(spikes)] += 0.02
    events = detect(1000 * np.exp(-cost), np.ones(40, bool)).events
    assert [e.found_night for e in events] == found


def test_the_chance_of_precedence_is_counted():
    """All C(n + 7, 7) positions that the newest seven can have in the order of all values."""
    for before, chances in ((5, 1), (9, 1), (10, 8)):  # the largest of ten may be anywhere, on either side of the seven
        places = itertools.combinations(range(before + order.LASTED), order.LASTED)
        ranks = np.array([[*sorted(set(range(before + order.LASTED)) - set(new)), *new] for new in places], float)
        padded = np.hstack([np.full((len(ranks), order.BEFORE - before), 99.0), ranks])
        found = order.precedence(padded, np.full(len(ranks), before + order.LASTED)) != 0
        assert len(ranks) == math.comb(before + 7, 7) and np.count_nonzero(found) == chances


@pytest.mark.parametrize(("shift", "values"), [(0.03, 0), (0.041, 7)])
def test_what_has_lasted_is_a_finding_from_4_percent_on(shift, values):
    detector = Detector(UP)
    detector._kept[:] = [0.0] * 5 + [0.9] + [0.0] * 5 + [shift] * 7
    detector._told[:] = 18
    assert detector._plain(np.ones(1, bool)).tolist() == [values]
    detector._kept *= -1
    assert detector._plain(np.ones(1, bool)).tolist() == [values], "an improvement as well"


def test_what_is_far_beyond_three_weeks_is_a_finding_from_5_percent_on_the_second_night():
    for size, found in ((0.055, [101]), (0.045, [106])):
        rng = np.random.default_rng(4)
        values = 1000 * np.exp(-rng.normal(0, 0.004, (40, 120)))
        for row in range(1, 40):  # a fleet that occasionally strays by a third for two nights
            for start in rng.choice(np.arange(35, 115, 8), 5, replace=False):
                values[row, start : start + 2] *= 0.67
        values[0, 100:] *= np.exp(-size)
        told = [e.found_night for e in detect(values, np.ones(40, bool), Settings()).events if e.series == 0]
        assert told == found
