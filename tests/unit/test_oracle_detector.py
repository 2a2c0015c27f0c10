"""The detector on histories with known truth: what must be found, when and how large, and what must not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tenken.history.detect import Event, Findings, State, detect, fleet_outliers, group_events, power

NIGHTS, STEP = 130, 100


def steady(series: int, nights: int = NIGHTS, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    """Normal noise about 1000."""
    return 1000 * np.exp(np.random.default_rng(seed).normal(0, noise, (series, nights)))


def higher(values: np.ndarray) -> np.ndarray:
    return np.ones(len(values), bool)


@cache
def quiet_fleet() -> Findings:
    return detect(steady(400), higher(steady(400)))


@cache
def stepped_fleet(factor: float) -> Findings:
    values = steady(40, seed=1)
    values[:, STEP:] *= factor
    return detect(values, higher(values), alone_among=200)


def test_a_fleet_without_a_change_has_about_one_false_finding_a_month() -> None:
    """110 nights are monitored: at most 3.7 are expected, whatever the fleet's size."""
    assert len(quiet_fleet().events) <= 8


def test_heavy_tails_have_few_false_findings() -> None:
    """Student's t with three degrees of freedom: spikes of ten standard deviations are ordinary there."""
    noise = np.random.default_rng(11).standard_t(3, (300, 200)) / np.sqrt(3)
    values = 1000 * np.exp(0.02 * noise)
    assert len(detect(values, higher(values)).events) <= 25


@pytest.mark.parametrize(("factor", "found"), [(0.99, 0), (0.98, 20)])
def test_one_percent_of_one_series_is_no_finding_however_quiet_it_is(factor: float, found: int) -> None:
    values = steady(20, noise=0.001, seed=8)
    values[:, STEP:] *= factor
    assert len(detect(values, higher(values), alone_among=200).open_events()) == found


def test_a_step_of_5_percent_is_found_within_nights_with_its_night_and_size() -> None:
    found = stepped_fleet(0.95)
    first = {event.series: event for event in reversed(found.events) if event.worse and event.found_night >= STEP}
    assert len(first) == 40, "each of them"
    assert np.median([event.found_night for event in first.values()]) <= STEP + 2
    assert all(event.found_night <= STEP + 5 for event in first.values())
    assert abs(np.median([event.change_night for event in first.values()]) - STEP) <= 0.5
    assert np.median([event.size for event in first.values()]) == pytest.approx(-0.05, abs=0.004)
    assert all(event.kind == "step" and event.p_value < 2e-4 for event in first.values())
    assert np.mean([event.low < -0.05 < event.high for event in first.values()]) >= 0.9


def test_the_night_is_told_on_the_night_of_the_finding() -> None:
    values = steady(40, nights=STEP + 2, seed=1)
    values[:, STEP:] *= 0.9
    found = [event for event in detect(values, higher(values), alone_among=200).events if event.found_night >= STEP]
    assert len(found) >= 30 and np.median([event.change_night for event in found]) == STEP


def test_a_size_is_the_new_level_over_the_old_less_one() -> None:
    """Not its logarithm, which is -0.357."""
    found = stepped_fleet(0.7)
    sizes = [event.size for event in found.events if event.worse and event.found_night >= STEP]
    assert np.median(sizes) == pytest.approx(-0.30, abs=0.01)


@pytest.mark.parametrize(
    ("of_rates", "factor", "worse"),
    [(True, 0.93, True), (True, 1.07, False), (False, 1.07, True), (False, 0.93, False)],
)
def test_of_a_rate_less_is_worse_and_of_a_time_more(of_rates: bool, factor: float, worse: bool) -> None:
    values = steady(1, seed=2)
    values[:, STEP:] *= factor
    found = detect(values, np.array([of_rates]))
    (event,) = found.events
    assert event.worse is worse and event.size == pytest.approx(factor - 1, abs=0.015)
    assert found.state == (State.REGRESSED if worse else State.IMPROVED,)
    assert len(found.open_events()) == int(worse)


def test_one_bad_night_is_no_finding() -> None:
    values = steady(20, nights=121, seed=3)
    values[:, 120] *= 0.5
    found = detect(values, higher(values))
    assert [event for event in found.events if event.found_night == 120] == []
    assert found.state.count(State.SPIKE) >= 19, "but for one that regressed before"


def test_what_came_back_is_no_open_regression() -> None:
    values = steady(5, nights=190, seed=4)
    values[:, 100:150] *= 0.9
    found = detect(values, higher(values), alone_among=200)
    assert found.open_events() == ()
    assert State.REGRESSED not in found.state
    assert all(event.worse for event in found.events), "what it was before is no improvement"
    regressions = [event for event in found.events if event.worse]
    assert len(regressions) >= 5
    assert all(event.recovered_night is not None and 148 <= event.recovered_night <= 156 for event in regressions)


@pytest.mark.parametrize(("nights", "expected"), [(15, State.LEARNING), (40, State.STEADY)])
def test_twenty_nights_are_learned_first(nights: int, expected: State) -> None:
    found = detect(steady(10, nights=nights, seed=5), higher(steady(10)))
    assert set(found.state) == {expected}


def test_less_than_a_five_hundredth_is_no_change() -> None:
    values = np.full((1, 150), 42.0)
    values[:, 100:] *= 0.999
    assert detect(values, higher(values)).events == ()
    values[:, 100:] = 42.0 * 0.985
    assert len(detect(values, higher(values)).open_events()) == 1


def test_the_band_holds_95_percent_of_ordinary_nights() -> None:
    """Two standard deviations of 1 % about 1000."""
    low, high = quiet_fleet().band
    assert np.median(high / low) == pytest.approx(np.exp(4 * 0.01), rel=0.006)
    assert np.median(quiet_fleet().level) == pytest.approx(1000, rel=0.002)


def test_what_is_found_nearly_always_is_larger_than_what_is_found_sometimes() -> None:
    noise = quiet_fleet().noise
    often, sometimes = (power(noise, 5, chance=chance) for chance in (0.9, 0.1))
    assert np.all(often > sometimes)
    assert np.median(often) == pytest.approx(0.035, abs=0.015), "a few per cent in five nights of 1 % noise"


def test_the_worst_sibling_stands_out_and_the_best_does_not() -> None:
    values = steady(16, nights=1, seed=6)[:, 0]
    values[3] *= 0.9
    values[7] *= 1.1
    assert fleet_outliers(values, higher_is_better=True).order.tolist() == [3]
    assert fleet_outliers(values, higher_is_better=False).order.tolist() == [7]


@pytest.mark.parametrize(("siblings", "enough"), [(2, False), (4, False), (5, True)])
def test_fewer_than_five_siblings_cannot_tell(siblings: int, enough: bool) -> None:
    assert fleet_outliers(np.full(siblings, 100.0), True).enough is enough


def test_the_scale_of_siblings_is_their_standard_deviation() -> None:
    values = steady(2000, nights=1, noise=0.02, seed=7)[:, 0]
    assert fleet_outliers(values, True).scale == pytest.approx(20, rel=0.05)


def event(series: int, night: int) -> Event:
    return Event(series, "step", True, night, night + 1, -0.05, -0.06, -0.04, 9.0, 1e-4)


NODES = {"node": [f"n{series // 8}" for series in range(64)]}


@pytest.mark.parametrize(("apart", "groups"), [(0, 1), (2, 1), (4, 2), (20, 2)])
def test_one_cause_has_one_night(apart: int, groups: int) -> None:
    events = [event(series, 100) for series in range(4)] + [event(series, 100 + apart) for series in range(4, 8)]
    assert len(group_events(events, NODES)) == groups


@pytest.mark.parametrize(("moved", "label"), [(4, "node"), (3, "series"), (2, "series")])
def test_half_of_what_carries_a_label_moved(moved: int, label: str) -> None:
    found = group_events([event(series, 100) for series in range(moved)], NODES)
    assert {group.label for group in found} == {label}
