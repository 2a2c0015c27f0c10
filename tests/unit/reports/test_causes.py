"""Each condition by which events become findings, at both of its ends: one row of a table for each."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken.history import causes
from tenken.history.detect import Event, Group
from tenken.history.siblings import Together
from tests.unit.reports.test_gate import history
from tests.unit.reports.test_joined import machine, rows, shift

LOSS = Event(0, "step", True, 40, 42, -0.05, -0.06, -0.04, 9.0, 1e-4)


def test_the_order_of_findings() -> None:
    """Open before over; of these losses first; then by the number of series, then the largest loss first."""
    order = [
        shift([0], recovered=None if is_open else 55, worse=worse, size=size) if one else
        shift([1, 2], recovered=None if is_open else 55, worse=worse, size=size)
        for is_open in (True, False) for worse in (True, False) for one in (False, True) for size in (-0.2, -0.1, 0.1)
    ]  # fmt: skip
    mixed = list(order)
    random.Random(1).shuffle(mixed)
    assert causes._ordered(mixed) == order


@pytest.mark.parametrize(
    ("other", "known"),
    [
        ({}, True), ({"series": 1}, False), ({"worse": False}, False), ({"kind": "noisy"}, False),
        ({"kind": "drift"}, True), ({"withdrawn": True}, False),
        # known when the drift was, and not over before it began
        ({"found_night": 45}, True), ({"found_night": 46}, False),
        ({"recovered_night": 41}, True), ({"recovered_night": 40}, False),
    ],
)  # fmt: skip
def test_a_drift_is_known_by_a_loss_of_the_same_series(other: dict[str, Any], known: bool) -> None:
    drift = replace(LOSS, kind="drift", change_night=41, found_night=45)
    assert causes._known(drift, replace(LOSS, **other)) == known


@pytest.mark.parametrize(
    ("other", "over", "stage"),
    [
        ({}, None, True), ({}, 60, False), ({"series": 1}, None, False), ({"worse": False}, None, False),
        ({"kind": "noisy"}, None, False), ({"change_night": 37}, None, True), ({"change_night": 36}, None, False),
        ({"size": -0.1}, None, True), ({"size": -0.1001}, None, False),
    ],
)  # fmt: skip
def test_a_later_loss_is_a_stage_of_a_drift(other: dict[str, Any], over: int | None, stage: bool) -> None:
    drift = replace(LOSS, kind="drift", recovered_night=over)
    assert causes._stage(drift, replace(LOSS, **other)) == stage


@pytest.mark.parametrize(
    ("finding", "label", "outlier", "same"),
    [
        ([0], "fleet", [0, 1], True),  # a common series
        ([0], "node", [4], True),  # another size of the same program on the same node
        ([0], "node", [1], False), ([0], "node", [12], False), ([0], "node", [4, 1], False),
        ([0], "fleet", [4], False), ([0], "partition", [4], False), ([0], "measure", [4], False),
    ],
)  # fmt: skip
def test_an_outlier_is_told_by_a_finding_on_its_node(
    finding: list[int], label: str, outlier: list[int], same: bool
) -> None:
    assert causes._same_thing(machine(), shift(finding, label=label), shift(outlier)) == same


@pytest.mark.parametrize(("bad", "middle"), [(4, 1), (5, 2)])
def test_the_figures_of_a_group_are_those_of_its_events(bad: int, middle: int) -> None:
    """Of `bad` that moved, the size of the middle one, the first night found, the greatest evidence."""
    h = history(nodes=6, nights=60)
    events = tuple(
        replace(
            LOSS, series=n, kind="drift" if n < 3 else "step", found_night=42 + (n + 2) % bad,
            evidence=9.0 - abs(n - 1), p_value=1e-4 * (1 + abs(n - 2)),
            size=-0.01 * (2 * n + 1), low=-0.02 * (n + 1), high=-0.001 * (n + 1),
            recovered_night=50 + n if n < 3 else None, ended_night=51 + n if n < 3 else None, withdrawn=n > 0,
        )
        for n in range(bad)
    )  # fmt: skip
    one = causes._shift(h, Group("node", "x", 40, True, events[::-1], 12))
    assert (one.size, one.low, one.high) == (events[middle].size, events[middle].low, events[middle].high)
    assert (one.kind, one.night, one.found, one.evidence, one.p_value, one.of) == ("drift", 40, 42, 9.0, 1e-4, 12)
    # of 4 three have recovered, of 5 as well: the majority; known when the middle one was
    assert (one.recovered, one.ended) == (52, 53) and not one.withdrawn
    two = causes._shift(h, Group("node", "x", 40, True, events[1:], 12))
    assert (two.recovered, two.ended) == ((52, 53) if bad == 4 else (None, None)) and two.withdrawn


@pytest.mark.parametrize(
    ("first", "second", "near"),
    [
        ({}, {}, True), ({}, {"kind": "noisy"}, False), ({"kind": "noisy"}, {"kind": "noisy"}, True),
        ({}, {"kind": "drift"}, True), ({}, {"worse": False}, False), ({}, {"withdrawn": True}, False),
        ({}, {"recovered": 3}, False), ({"recovered": 3}, {}, False),
        ({"recovered": 55}, {"recovered": 58}, True), ({"recovered": 55}, {"recovered": 59}, False),
        ({"recovered": 55}, {"recovered": 52}, True), ({"recovered": 55}, {"recovered": 51}, False),
        # 3 nights later or earlier; 12 earlier if it was found when the first began
        ({}, {"night": 53}, True), ({}, {"night": 54}, False),
        ({}, {"night": 38, "found": 50}, True), ({}, {"night": 37, "found": 50}, False),
        ({}, {"night": 47, "found": 49}, True), ({}, {"night": 46, "found": 49}, False),
    ],
)  # fmt: skip
def test_two_findings_are_near(first: dict[str, Any], second: dict[str, Any], near: bool) -> None:
    h = machine()
    stream = rows(h, "Stream", metric="m0")
    one, other = (causes._Group.of(h, shift(stream, **some)) for some in (first, second))
    assert one.near(other) == near


@pytest.mark.parametrize(
    ("other", "kind", "night", "near"),
    [
        ("m0", "step", 62, True), ("m0", "step", 63, False), ("m0", "step", 38, True), ("m0", "step", 37, False),
        ("m1", "step", 53, True), ("m1", "step", 54, False), ("m1", "drift", 62, True), ("m1", "drift", 63, False),
    ],
)  # fmt: skip
def test_steps_on_one_node_are_near_if_they_are_of_the_same_series_or_gradual(
    other: str, kind: str, night: int, near: bool
) -> None:
    h = machine()
    first = causes._Group.of(h, shift(rows(h, "Stream", "n1", "m0")))
    assert first.near(causes._Group.of(h, shift(rows(h, "Stream", "n1", other), night=night, kind=kind))) == near


@pytest.mark.parametrize(
    ("first", "second", "again"),
    [
        ([1, 5, 9], [1, 5, 9], True), ([1, 5, 9], [1, 5], True), ([1, 5, 9], [1], False), ([1, 5], [1], True),
        ([1, 5], [1, 13], False), ([1, 2], [1], False), ([1, 2], [1, 2], True),
    ],
)  # fmt: skip
def test_half_of_the_series_of_a_node_move_again(first: list[int], second: list[int], again: bool) -> None:
    assert causes._moves_again(machine(), shift(first), shift(second)) == again


def test_a_second_step_of_a_component_makes_it_a_drift() -> None:
    h = machine()
    steps = [shift([1, 5], evidence=9.0), shift([1, 5], night=54, size=-0.1, evidence=11.0, p_value=1e-6)]
    (one,) = causes._merged(h, steps[::-1])
    assert (one.kind, one.times, one.night, one.evidence, one.p_value) == ("drift", 2, 50, 11.0, 1e-6)
    assert [one.size, one.low, one.high] == pytest.approx([0.95 * 0.9 - 1] * 3)
    apart: list[dict[str, Any]] = [
        {"worse": False},
        {"recovered": 58},
        {"causes": [causes.Cause("driver", "1", "2", ())]},
    ]
    for change in apart:
        assert len(causes._merged(h, [shift([1, 5]), shift([1, 5], night=54, **change)])) == 2
    assert len(causes._merged(h, [shift([1, 5], recovered=52), shift([1, 5], night=54)])) == 2


@pytest.mark.parametrize(
    ("nights", "over", "change", "flapping"),
    [
        ((40, 50), (45, 55), {}, True), ((40, 50), (45, None), {}, True), ((40, 50), (None, None), {}, False),
        ((50,), (55,), {}, False), ((40, 45, 50), (41, None, None), {}, False),
        ((30, 50), (45, 55), {}, True), ((29, 50), (45, 55), {}, False),
        ((40, 50), (45, 55), {"kind": "noisy"}, False), ((40, 50), (45, 55), {"worse": False}, False),
        ((40, 50), (45, 55), {"series": 1}, False),
    ],
)  # fmt: skip
def test_two_losses_in_thirty_nights_of_which_one_stands_are_flapping(
    nights: tuple[int, ...], over: tuple[int | None, ...], change: dict[str, Any], flapping: bool
) -> None:
    events = [replace(LOSS, change_night=n, recovered_night=r) for n, r in zip(nights, over, strict=True)]
    events[-1] = replace(events[-1], **change)
    assert causes._flapping(events[-1], events, 60) == flapping


def test_what_flaps_is_one_finding_of_a_program_on_a_node_with_the_figures_of_the_worst() -> None:
    h = machine()
    losses = [
        (1, 40, -0.05),
        (1, 50, -0.3),
        (5, 52, -0.2),
        (5, 54, -0.02),
        (5, 56, -0.01),
        (2, 45, -0.1),
        (13, 45, -0.1),
    ]
    events = [
        replace(LOSS, series=s, change_night=n, found_night=n + 1, size=size, low=size - 0.01, high=size + 0.01,
                evidence=float(n), p_value=1 / n)
        for s, n, size in losses
    ]  # fmt: skip
    found = causes._flapping_findings(h, events)
    assert [f.rows for f in found] == [[1, 5], [2], [13]]
    one = found[0]
    assert (one.size, one.low, one.high) == (-0.3, -0.3 - 0.01, -0.3 + 0.01)
    assert (one.night, one.found, one.times, one.of, one.evidence, one.p_value) == (40, 41, 3, 2, 56.0, 1 / 56)


@pytest.mark.parametrize(
    ("slow", "nights", "since"),
    [
        # two of the last three nights on which it ran; the first night of an unbroken row
        ({7: range(58, 60)}, 60, 58), ({7: [59]}, 60, None), ({7: [57, 59]}, 60, 57), ({7: [57, 58]}, 60, 57),
        ({7: [56, 59]}, 60, None), ({7: range(50, 60)}, 60, 50), ({7: [40, *range(50, 60)]}, 60, 50),
        ({7: range(3)}, 3, 0), ({7: range(2)}, 2, 0),
        # three nights without end it, also where a sibling has been one for longer
        ({7: [55, 57, 58, 59]}, 60, 55), ({6: range(40, 60), 7: [53, 54, *range(57, 60)]}, 60, 57),
        # returned after every second of 30 nights: 14 of 8 x 29, so three nights in a row are needed
        ({7: [*range(30, 57, 2), 58, 59]}, 60, None), ({7: [*range(30, 57, 2), *range(57, 60)]}, 60, 30),
    ],
)  # fmt: skip
def test_an_outlier_has_been_one_since_its_first_night(slow: dict[int, Any], nights: int, since: int | None) -> None:
    h = history(nodes=8, nights=nights)
    values = 400 * np.exp(np.random.default_rng(1).normal(0, 0.004, (8, nights)))
    for row, some in slow.items():
        values[row, list(some)] *= 0.8
    found = causes.outliers(replace(h, values=values))
    if since is None:
        assert found == []
        return
    assert len(found) == len(slow)
    (one,) = (f for f in found if f.rows == [7])
    assert (one.night, one.of, one.kind) == (since, 8, "outlier")
    assert one.size == pytest.approx(-0.2, abs=0.02) and one.high == -one.low > 0
    silent = values.copy()
    silent[7, -1] = np.nan
    assert len(causes.outliers(replace(h, values=silent))) == len(slow) - 1, "it did not run on the last night"


@pytest.mark.parametrize(
    ("change", "alone"),
    [({}, False), ({"series": 3}, True), ({"worse": False}, True), ({"recovered_night": 55}, True),
     ({"kind": "noisy"}, False)],
)  # fmt: skip
def test_an_outlier_with_an_open_loss_is_a_note_of_it(change: dict[str, Any], alone: bool) -> None:
    h = history(nodes=8, nights=60)
    values = 400 * np.exp(np.random.default_rng(1).normal(0, 0.004, (8, 60)))
    values[7, 58:] *= 0.8
    event: Any = replace(LOSS, **{"series": 7, **change})
    found = causes.findings(replace(h, values=values), SimpleNamespace(events=[event]))  # type: ignore[arg-type]
    assert [f.rows for f in found if f.kind == "outlier"] == ([[7]] if alone else [])
    (standing,) = (f for f in found if f.kind != "outlier")
    assert len(standing.notes) == (not alone)
    assert all(note.startswith("now -2") and note.endswith(" % from its siblings") for note in standing.notes)


def test_the_worst_outlier_comes_first() -> None:
    h = history(nodes=16, nights=6)
    values = 400 * np.exp(np.random.default_rng(1).normal(0, 0.004, (16, 6)))
    values[3, 3:] *= 0.9
    values[5, 3:] *= 0.7
    values[9, 3:] *= 0.8
    assert [f.rows for f in causes.outliers(replace(h, values=values))] == [[5], [9], [3]]


def test_findings_of_one_cause_have_the_figures_of_their_members() -> None:
    """Each in both orders: the size of the median series, the greatest evidence, the last end."""
    h = machine()
    parts = [
        shift(rows(h, "Stream", metric="m0"), kind="drift", size=-0.2, found=53, evidence=5.0, p_value=1e-3, times=3,
              recovered=55, ended=57, notes=["a"]),
        shift(rows(h, "Stream", metric="m1")[1:], size=-0.1, found=52, evidence=9.0, p_value=1e-4, times=2,
              recovered=56, ended=56, notes=["b", "a"]),
        shift(rows(h, "Stream", metric="m2")[:2], size=-0.05, found=51, evidence=7.0, p_value=1e-5,
              recovered=54, ended=55),
    ]  # fmt: skip
    for order in (parts, [parts[0], parts[2], parts[1]]):
        one = causes._as_one(h, order)
        assert (one.size, one.low, one.high, one.largest) == (-0.1, -0.1, -0.1, -0.2)
        assert (one.kind, one.night, one.found, one.evidence, one.p_value) == ("step", 50, 51, 9.0, 1e-5)
        assert (one.recovered, one.ended, one.times, one.of) == (56, 57, 3, 12)
        assert sorted(one.notes) == ["a", "b"] and len(one.rows) == 9
    assert causes._as_one(h, [replace(f, recovered=None, ended=None) for f in parts]).ended is None
    one = causes._as_one(h, [replace(parts[0], withdrawn=True, largest=-0.1), replace(parts[1], largest=-0.3)])
    assert (one.largest, one.withdrawn) == (-0.3, True)


@pytest.mark.parametrize(
    ("nights", "aligned"),
    [
        ([40, 45, 50], [40, 40, 40]), ([40, 46], [40, 46]), ([46, 40], [40, 46]), ([40, 45, 51, 52], [40, 40, 51, 51]),
        ([3, 9], [3, 9]),
    ],
)  # fmt: skip
def test_noise_within_five_nights_began_with_the_first(nights: list[int], aligned: list[int]) -> None:
    assert [e.change_night for e in causes._aligned([replace(LOSS, change_night=n) for n in nights])] == aligned


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True), ({"series": 3}, False), ({"kind": "noisy"}, False), ({"worse": False}, False),
        ({"change_night": 37}, True), ({"change_night": 36}, False), ({"change_night": 52}, True),
        ({"change_night": 53}, False), ({"size": -0.1}, True), ({"size": 0.1001}, False),
    ],
)  # fmt: skip
def test_a_change_of_siblings_includes_those_of_its_members(change: dict[str, Any], taken: bool) -> None:
    h, event = history(nodes=4, nights=60), replace(LOSS, **change)
    found, ids = causes._together(h, [Together((0, 1, 2), LOSS)], [event])
    assert ids == ({id(event)} if taken else set())
    assert [(f.rows, f.of, f.night) for f in found] == [([0, 1, 2], 4, 40)]


@pytest.mark.parametrize(
    ("event", "some", "told"),
    [
        # the full loss of half of them first; the same series within 12 nights are told already
        ({"size": -0.2}, (0, 1), [[0, 1]]), ({"size": -0.01}, (0, 1, 2, 3), [[0, 1, 2]]), ({}, (3,), [[0, 1, 2], [3]]),
        ({"worse": False}, (0,), [[0, 1, 2], [0]]), ({"change_night": 52}, (0,), [[0, 1, 2]]),
        ({"change_night": 53}, (0,), [[0, 1, 2], [0]]), ({"change_night": 28}, (0,), [[0, 1, 2]]),
        ({"change_night": 27}, (0,), [[0, 1, 2], [0]]),
    ],
)  # fmt: skip
def test_a_change_of_some_siblings_is_told_once(
    event: dict[str, Any], some: tuple[int, ...], told: list[list[int]]
) -> None:
    two = [Together((0, 1, 2), LOSS), Together(some, replace(LOSS, **event))]
    for order in (two, two[::-1]):
        assert [f.rows for f in causes._together(history(nodes=4, nights=60), order, [])[0]] == told


@pytest.mark.parametrize(
    ("saw", "cause"), [([0, 1], True), ([0, 1, 2], True), ([0, 1, 2, 3], True), ([0, 1, 2, 3, 4], False)]
)
def test_half_of_the_siblings_with_a_change_must_have_moved(saw: list[int], cause: bool) -> None:
    h = history(nodes=6)
    h.fingerprints[saw, 5:] = 2
    found = causes.causes(h, [1, 0], 6)
    assert [c.field for c in found] == (["driver", "kernel"] if cause else [])
    assert all(c.nodes == ("n0", "n1") for c in found)


@pytest.mark.parametrize(
    ("moved", "flapping"), [(1, [[0], [1]]), (2, [[0, 1]]), (3, [[0, 1, 2]])], ids=["of 2", "of 3", "of 4"]
)
def test_half_of_those_that_moved_must_be_intermittent(moved: int, flapping: list[list[int]]) -> None:
    """One series lost some before; with it one to three others move: half of two, and less of more."""
    before = replace(LOSS, recovered_night=46)
    now = [replace(LOSS, series=n, change_night=55, found_night=56) for n in range(moved + 1)]
    flaps = causes._flaps(history(nodes=4, nights=60), [before, *now])
    assert ([e.series for e in flaps] == [0, 0]) == (moved == 1)


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([("n0", "a")], [[0]]), ([("n0", "a"), ("n0", "b")], [[0], [1]]),
        ([("n0", "a"), ("n0", "b"), ("n0", "c")], [[0, 1, 2]]), ([("n0", "a"), ("n1", "e")], [[0], [1]]),
        ([("n1", "e")], [[0]]), ([("n2", "f"), ("n2", "g")], [[0, 1]]),
    ],
)  # fmt: skip
def test_more_than_half_of_the_gpus_of_a_node_are_the_node(
    places: list[tuple[str, str]], found: list[list[int]]
) -> None:
    """Four GPUs on one node, one on another, three on a third, whose host is no GPU."""
    h = history(nodes=9)
    gpus = [("n0", "a"), ("n0", "b"), ("n0", "c"), ("n0", "d"), ("n1", "e"), *(("n2", g) for g in ("f", "g", "h", ""))]
    h = replace(h, series=[replace(s, node=n, gpu=g) for s, (n, g) in zip(h.series, gpus, strict=True)])
    assert causes._whole_nodes(h, {place: [row] for row, place in enumerate(places)}) == found


@pytest.mark.parametrize(
    ("past", "nights"),
    [
        # outliers by night, the newest first; of 10 siblings
        ([[], [], []], 2), ([[1], [1], [1]], 2), ([[1], [1], []], 2),
        # one of 10 returned in two steps: 0.05; 0.01 / 10 by powers of 0.05
        ([[], [1], [1]], 3), ([[1], [], [1]], 3), ([[], [1, 2], [3]], 4),
        # most return every night: at most a half
        ([[], [*range(10)], []], 10),
    ],
)  # fmt: skip
def test_how_many_nights_in_a_row_chance_seldom_reaches(past: list[list[int]], nights: int) -> None:
    assert causes._in_a_row([dict.fromkeys(some, (0.0, 0.0)) for some in past], 10, 0.01) == nights


@pytest.mark.parametrize(("nights", "newest"), [("110", 2), ("1-10", 2), ("-11", 2), ("011", 0), ("11", 2), ("1", 1)])
def test_nights_without_a_run_do_not_end_a_row(nights: str, newest: int) -> None:
    """The newest first; - is a night on which it did not run."""
    h = history(nodes=2, nights=len(nights))
    for back, one in enumerate(nights):
        h.values[0, len(nights) - 1 - back] = np.nan if one == "-" else 1
    past = [{0: (0.0, 0.0)} if one == "1" else {} for one in nights]
    assert causes._newest(h, past, 0) == newest


def test_a_cause_names_the_nodes_that_had_the_change() -> None:
    h = history(nodes=6, nights=60)
    h.fingerprints[:4, 40:] = 1
    (cause,) = causes.causes(h, [0, 1, 2, 3, 4], 40)
    assert cause == causes.Cause("driver", "580.1", "580.2", ("n0", "n1", "n2", "n3"))
    assert cause.text == "driver 580.1 → 580.2 on all of 4 nodes"
    few = replace(cause, before="", after="", nodes=("n0", "n1", "n2"))
    assert few.text == "driver unknown → unknown on n0, n1, n2"
    assert causes.causes(h, [0, 1, 2, 4], 40) == [], "three of four"


def test_a_change_two_nights_before_or_after_is_near() -> None:
    h = history(nodes=1)
    h.fingerprints[0, 5:] = 1
    assert [night for night in range(10) if causes.changes(h, 0, night)] == [3, 4, 5, 6, 7]


def test_an_environment_that_was_unknown_is_no_change() -> None:
    for before, after in (("", "580.2"), ("580.1", ""), ("580.1", "580.1")):
        h = history(nodes=1)
        h.environments.update({0: (before, *h.environments[0][1:]), 1: (after, *h.environments[0][1:])})
        h.fingerprints[0, 5:] = 1
        assert causes.changes(h, 0, 5) == set()
    cause = causes.Cause("driver", "1", "2", tuple(f"n{n}" for n in range(4)))
    assert (cause.text, replace(cause, nodes=cause.nodes[:3]).text) == (
        "driver 1 → 2 on all of 4 nodes", "driver 1 → 2 on n0, n1, n2",
    )  # fmt: skip
