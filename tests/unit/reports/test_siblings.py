"""Siblings together: a small loss of all, a loss of those with a new driver, and nodes that take turns."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken.history import causes, siblings
from tenken.history.detect import Event, Settings, detect
from tests.unit.reports.test_gate import history

NIGHTS, CHANGE = 130, 100


def made(nodes: int, changed: slice, loss: float, nights: int = NIGHTS, seed: int = 1):
    """Nodes with 1 % of noise; the driver of some changes on a night, and costs them this much."""
    rng = np.random.default_rng(seed)
    h = history(nodes=nodes, nights=nights)
    values = 400 * np.exp(rng.normal(0, 0.01, (nodes, nights)) + rng.normal(0, 0.02, (nodes, 1)))
    values[changed, CHANGE:] *= 1 - loss
    marks = np.zeros((nodes, nights), int)
    marks[changed, CHANGE:] = 1
    return replace(h, values=values, fingerprints=marks, invalid=np.zeros((nodes, nights), bool))


def told(h, nights: int) -> list[causes.Finding]:
    h = replace(h, values=h.values[:, :nights], fingerprints=h.fingerprints[:, :nights], nights=h.nights[:nights])
    found = detect(h.values, h.higher)
    return [f for f in causes.findings(h, found, siblings.pooled(h, Settings()).found) if f.worse]


def test_a_driver_that_costs_1_percent_on_32_is_one_finding_within_three_nights() -> None:
    h = made(32, slice(0, 32), 0.01)
    assert told(h, CHANGE) == []
    (finding,) = told(h, CHANGE + 3)
    assert finding.label == "measure" and len(finding.rows) >= 20 and -0.015 < finding.size < -0.006
    assert [(c.field, c.before, c.after) for c in finding.causes] == [("driver", "580.1", "580.2")]
    assert len(told(h, NIGHTS)) == 1, "and it is told once"


def test_of_a_latency_more_is_a_loss_and_less_is_none() -> None:
    """The same change of values, once of a rate and once of a time, for which lower is better."""
    h = made(32, slice(0, 32), 0.01)
    slower = replace(h, series=[replace(one, direction="lower") for one in h.series])
    assert not [f for f in told(slower, NIGHTS) if len(f.rows) > 1], "a time that fell by 1 % is no loss"
    (finding,) = told(replace(slower, values=4e4 / h.values), NIGHTS)
    assert len(finding.rows) >= 20 and 0.006 < finding.size < 0.015


def test_a_driver_on_half_of_them_is_told_of_that_half() -> None:
    (finding,) = told(made(32, slice(0, 16), 0.015), CHANGE + 4)
    assert set(finding.rows) <= set(range(16)) and len(finding.rows) >= 10
    assert [c.after for c in finding.causes] == ["580.2"]


def test_severalthat_moved_by_half_since_the_night_are_of_the_change() -> None:
    """A change of 10 % on night 40, from the values of 30 nights before it and of 10 since."""
    night, step = 40, float(np.log1p(0.1))
    off = np.zeros((7, 60))
    off[0, night:] = step
    off[1, :] = step  # it was there before
    off[2, night:], off[3, night:] = 0.49 * step, 0.51 * step
    off[4, :night], off[4, night:] = np.nan, step
    off[5, night:] = np.nan
    off[6, : night - 30], off[6, night + 10 :] = step, -step  # too long ago, and later
    off[6, night : night + 10] = step
    event: Any = SimpleNamespace(size=0.1, change_night=night)
    assert siblings._moved(off, tuple(range(7)), event) == (0, 3, 4, 6)
    assert siblings._moved(off, (1, 6), event) == (6,)
    assert siblings._moved(off, (0,), SimpleNamespace(size=0.0, change_night=night)) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(("direction", "size"), [("lower", float(np.expm1(0.1))), ("higher", float(np.expm1(-0.1)))])
def test_a_drift_is_as_large_as_its_last_nights_are_off_its_first_ones(direction: str, size: float) -> None:
    """Half a unit off its siblings from the start; from night 85 to 105 it gets 0.1 worse, and ends at night 130."""
    nights = np.arange(150)
    own = 0.5 + np.clip((nights - 85) / 200, 0, 0.1)
    h: Any = SimpleNamespace(series=[SimpleNamespace(direction=direction)])
    behind, error = np.full(150, 0.1), np.full(150, 0.01)
    found = siblings._drift(h, 0, own, 110, behind, error)
    assert found.size == pytest.approx(size) and found.low < size < found.high and found.recovered_night is None
    way = 1 if direction == "lower" else -1
    assert sorted(np.log1p([found.low, found.high])) == pytest.approx(sorted([way * 0.0804, way * 0.1196]))
    assert (found.kind, found.worse, found.evidence) == ("drift", True, pytest.approx(50))
    assert found.p_value == pytest.approx(np.exp(-50))
    own[130:] = 0.5
    ended = siblings._drift(h, 0, own, 110, behind, error)
    # the median of ten nights has returned by half of what is called a drift
    assert ended.recovered_night == ended.ended_night == 135 and ended.found_night == 110


def test_levels_that_wander_are_apart_by_more_than_their_noise() -> None:
    off = np.array([0.0, 0.01, -0.01, 0.02, -0.02])
    own = np.zeros((5, 60))
    own[:, 50:] = off[:, None]
    behind, error = siblings._behind(own)
    assert behind[:, -1] == pytest.approx(off)
    assert error[:, -1] == pytest.approx(np.full(5, 1.4826 * 0.01))


def test_a_sibling_moved_by_its_thirty_nights_before_and_ten_since() -> None:
    """Ten nights before the change are up already, or ten after it down again; what was earlier does not count."""
    off = np.array([[0.0] * 20 + [1.0] * 30, [0.0] * 30 + [1.0] * 10 + [0.0] * 10, [0.0] * 50])
    off = np.hstack([[[1.0] * 40, [1.0] * 40, [-1.0] * 40], off])
    event: Any = SimpleNamespace(size=np.e - 1, change_night=70)
    assert siblings._moved(off, (0, 1, 2), event) == (0, 1)


@pytest.mark.parametrize(("nodes", "found"), [(4, []), (5, [0])])
def test_a_drift_is_told_among_five_siblings(nodes: int, found: list[int]) -> None:
    h = made(nodes, slice(0, 0), 0.0)
    h.values[0] *= np.exp(-np.clip((np.arange(NIGHTS) - 60) / 400, 0, 0.1))
    events = siblings.drifts(h)
    assert [event.series for event in events] == found
    # on the first night on which it is sure
    assert all(event.found_night < 100 for event in events)


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        # letters are environments by night, `.` without a run; two of another measure come first
        (["aaaa"] * 3, ["012"]), (["aaaa"] * 2, []), (["aabb"] * 3 + ["aaaa"], ["012", "0123"]),
        (["aabb"] * 4, ["0123"]), (["aabb"] * 2 + ["aaaa"] * 2, ["0123"]),
        (["aabb"] * 3 + ["abbb"] * 3, ["012", "012345", "345"]), (["aabb"] * 2 + ["a.bb", "aaaa"], ["012", "0123"]),
        (["aaab"] * 2 + ["aa.b", "aaa."], ["012", "0123"]), (["aaab"] * 2 + ["aab.", "aaaa"], ["0123"]),
        (["abab"] * 3 + ["aaaa"], ["012", "0123"]), ([".bbb"] * 3 + ["aaaa"], ["0123"]),
        (["aaaa"] + ["aabb"] * 3, ["0123", "123"]),
    ],
)  # fmt: skip
def test_severalare_grouped_by_the_night_of_a_change(marks: list[str], found: list[str]) -> None:
    h = history(nodes=len(marks) + 2, nights=4)
    for at, row in enumerate(marks):
        h.fingerprints[at + 2] = [".ab".index(one) - 1 for one in row]
    series = [replace(one, metric="other" if at < 2 else "triad") for at, one in enumerate(h.series)]
    expected = [tuple(int(row) + 2 for row in rows) for rows in found]
    assert siblings.groups(replace(h, series=series)) == expected


@pytest.mark.parametrize(
    ("several", "moved", "kind", "told"),
    [(6, 3, "step", True), (7, 3, "step", False), (8, 4, "step", True), (8, 3, "step", False), (4, 2, "step", False),
     (3, 3, "drift", True), (6, 6, "noisy", False)],
)  # fmt: skip
def test_at_least_half_of_the_severaland_three_have_moved(
    several: int, moved: int, kind: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = Event(0, kind, True, 5, 6, 0.25, 0.2, 0.3, 9.0, 1e-4)

    class Double:
        def __init__(self, *_: Any) -> None:
            pass

        def advance(self, values: Any) -> None:
            pass

        def findings(self) -> Any:
            return SimpleNamespace(events=[event], nights=[1])

    monkeypatch.setattr(siblings, "Detector", Double)
    monkeypatch.setattr(siblings, "_moved", lambda off, rows, event: tuple(rows[:moved]))
    found = siblings.pooled(history(nodes=several, nights=10), Settings()).found
    assert [one.rows for one in found] == [tuple(range(moved))] * told
    if told:  # a rate: costs that are 25 % higher are values that are 20 % lower
        assert (found[0].event.size, found[0].event.low, found[0].event.high) == pytest.approx((-0.2, 1 / 1.3 - 1,
                                                                                              1 / 1.2 - 1))  # fmt: skip


def test_one_bad_sibling_is_not_all_of_them() -> None:
    h = made(8, slice(2, 3), 0.2)
    (finding,) = told(h, NIGHTS)
    assert finding.rows == [2]


def test_nodes_that_take_turns_are_judged_together() -> None:
    """One of 16 nodes per night: after 200 nights each has 12 values, and a loss of 10 % on all is detected at once."""
    h = made(16, slice(0, 16), 0.1, nights=200)
    values = h.values.copy()
    turn = (np.arange(200)[None, :] % 16) != np.arange(16)[:, None]
    values[turn] = np.nan
    values[:, CHANGE:180] /= 0.9
    h = replace(h, values=values)
    pool = siblings.pooled(h, Settings())
    assert pool.judged == set(range(16))
    (one,) = [t for t in pool.found if t.event.worse]
    assert one.event.change_night in (179, 180, 181) and one.event.found_night <= 184
    assert -0.13 < one.event.size < -0.07


def test_what_moved_by_half_of_a_change_moved_with_it() -> None:
    """Costs as logarithms, 10 nights before and after a change of 10 %: all of it, half, less, none, and unknown."""
    size = np.log(1.1)
    after = (size, 0.51 * size, 0.49 * size, 0.0, np.nan, -size)
    off = np.array([[0.0] * 10 + [one] * 10 for one in after])
    event: Any = SimpleNamespace(size=0.1, change_night=10)
    assert siblings._moved(off, tuple(range(6)), event) == (0, 1)
    assert siblings._moved(off, (5, 1, 3), event) == (1,)


def some(rows: int, nights: int, seed: int) -> Any:
    """Values of which a third is missing, and a night and a row without any."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((rows, nights)) < 1 / 3, np.nan, rng.normal(0, 0.01, (rows, nights)))
    values[:, 3] = np.nan
    values[0] = np.nan if rows > 2 else values[0]
    return values


def known(values: Any) -> list[float]:
    return sorted(float(value) for value in values if not np.isnan(value))


@pytest.mark.parametrize("rows", range(1, 9))
def test_the_figures_of_a_night_are_those_of_its_values(rows: int) -> None:
    values = some(rows, 130, rows)
    for column, median, middle in zip(values.T, siblings._median(values), siblings._middle(values), strict=True):
        there = known(column)
        inner = there[len(there) // 4 : len(there) - len(there) // 4]
        assert median == pytest.approx(np.median(there) if there else np.nan, nan_ok=True)
        assert middle == pytest.approx(np.mean(inner) if there else np.nan, nan_ok=True)


def test_how_far_the_newest_nights_are_behind_is_what_its_definition_says() -> None:
    own = some(4, 130, 3)
    behind, error = siblings._behind(own)
    for night in range(130):
        expected: list[float] = []
        for row in own:
            new, base = known(row[max(0, night - 9) : night + 1]), known(row[max(0, night - 84) : max(0, night - 24)])
            expected.append(float(np.mean(new) - np.mean(base)) if len(new) >= 5 and len(base) >= 10 else np.nan)
            if not np.isnan(expected[-1]):
                least = np.sqrt(max(np.var(base), 0.001**2) * (1 / len(new) + 1 / (len(base) - 1)))
                assert error[len(expected) - 1, night] >= 0.999999 * least
        assert behind[:, night] == pytest.approx(expected, nan_ok=True)


def test_what_a_series_is_off_is_from_its_own_level_of_fifteen_nights_before() -> None:
    h = history(nodes=2, nights=60)
    h = replace(h, series=[h.series[0], replace(h.series[1], direction="lower")], values=np.exp(some(2, 60, 4)))
    off, cost = siblings._off(h), siblings._cost(h)
    assert np.allclose(cost, np.array([[-1.0], [1.0]]) * np.log(h.values), equal_nan=True)
    for begin, end, until in ((1, 21, 1), (21, 41, 6), (41, 60, 26)):
        levels = [np.median(known(row)) if known(row) else np.nan for row in cost[:, :until]]
        assert np.allclose(off[:, begin:end], cost[:, begin:end] - np.array(levels)[:, None], equal_nan=True), begin


@pytest.mark.parametrize(
    ("newest", "base", "known"), [(10, 60, True), (5, 60, True), (4, 60, False), (5, 10, True), (5, 9, False)]
)
def test_five_of_ten_nights_and_ten_before_make_a_level_known(newest: int, base: int, known: bool) -> None:
    """The newest 10 nights against the 60 that end 25 nights earlier: 0.03 behind."""
    own = np.full((1, 85), np.nan)
    own[0, 60 - base : 60] = 0.0
    own[0, 85 - newest :] = 0.03
    behind, error = siblings._behind(own)
    assert np.isfinite(behind[0, -1]) == known
    assert not known or behind[0, -1] == pytest.approx(0.03)
    # the standard error of both means by the least deviation that is assumed, 0.001
    expected = 0.001 * (1 / newest + 1 / (base - 1)) ** 0.5
    assert not known or error[0, -1] == pytest.approx(expected)


@pytest.mark.parametrize("bad", [0, 8])
def test_severalwith_two_modes_are_no_outliers_and_those_that_stay_behind_are(bad: int) -> None:
    """A quarter of the values of 48 siblings is 6 % lower: every night had about seven outliers on two of three nights.
    `bad` siblings are 6 % behind since ten nights, as those of a leaf may be."""
    h = made(48, slice(0, 0), 0.0, nights=60)
    rng = np.random.default_rng(5)
    values = 400 * np.exp(rng.normal(0, 0.004, (48, 60)))
    if not bad:
        values *= np.where(rng.random((48, 60)) < 0.25, 0.94, 1)
    values[:bad, 50:] *= 0.94

    def named(until: int) -> list[int]:
        seen = replace(h, values=values[:, :until], nights=h.nights[:until])
        return sorted(row for finding in causes.outliers(seen) for row in finding.rows)

    if bad:
        assert named(51) == [] and named(52) == list(range(bad)) == named(60)
    else:
        assert sum(len(named(until)) for until in range(40, 60)) <= 1
