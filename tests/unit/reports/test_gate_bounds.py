"""What is missing, judged, or enough for a reference: each condition at both of its ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken.history import acknowledged, causes, detect, gate, nights, propose
from tenken.history.ingest import Ingested
from tests.unit.reports.test_gate import history


def nightly(*rows: str, **changes: Any) -> Any:
    """A history with a series for each row: a letter for each night, `.` without a run, `x` if it was invalid, `v` if a
    second one was valid."""
    h = history(nodes=len(rows), nights=len(rows[0]))
    for at, row in enumerate(rows):
        h.values[at, [one in ".x" for one in row]] = np.nan
        h.invalid[at, [one in "xv" for one in row]] = True
        h.fingerprints[at, [one == "." for one in row]] = -1
        h.fingerprints[at, [one == "b" for one in row]] = 1
    return replace(h, series=[replace(s, **{k: v[at] for k, v in changes.items()}) for at, s in enumerate(h.series)])


@pytest.mark.parametrize(
    ("ran", "overdue"),
    [
        # nightly: one night without it; every second night: two; five runs are an inventory
        ("aaaaa", False), ("aaaaa.", True), ("aaaa.", False), ("a.a.a.a.a", False), ("a.a.a.a.a.", False),
        ("a.a.a.a.a..", False), ("a.a.a.a.a...", True), ("a..a..a..a..a....", False), ("a..a..a..a..a.....", True),
        # the usual gap is that of the last 20 runs
        ("a......" * 6 + "a" * 21 + ".", True), ("a......" * 30 + "a" * 20 + ".", True),
        (21 * "a" + "......a" * 20 + ".", False),
    ],
)  # fmt: skip
def test_a_series_is_overdue_by_its_usual_gap(ran: str, overdue: bool) -> None:
    assert gate._overdue(np.array([one == "a" for one in ran])) is overdue


@pytest.mark.parametrize(
    ("last", "listed"),
    [("aa", ""), ("a.", "missing"), ("ax", "void"), ("av", ""), ("xa", ""), ("x.", "missing"), (".x", "void")],
)
def test_a_series_is_missing_or_void_by_its_last_night_alone(last: str, listed: str) -> None:
    """A second attempt that was valid, of an INVALID one, is the night's value. What is retired is neither."""
    h = nightly("aaaaaaaa", f"aaaaaa{last}")
    gone: Any = SimpleNamespace(covers=lambda _, row: row == 1)
    for retired, names in ((), ("missing", "void")), ((gone,), ("", "")):
        one = gate.system(h, nights.judge(h, detect.Settings()), detect.Settings(), retired)
        assert (one.missing, one.void) == tuple([1] if listed and listed == name else [] for name in names)


@pytest.mark.parametrize(
    ("rows", "retired", "said"),
    [
        (["aaaaaa", "aaaa.."], [], ["node n1: silent since 2025-09-05 (1 series)"]),
        (["aaaaaa", "aaaa..", "aaaa.."], [], ["2 nodes (n1, n2): silent since 2025-09-05 (2 series)"]),
        (["aaaaaa", "aaaa..", "aaa..."], [], ["node n2: silent since 2025-09-04 (1 series)",
                                              "node n1: silent since 2025-09-05 (1 series)"]),
        (["aaaaaa", "aaaaa.", "aaaaax"], [], ["node n1: silent since 2025-09-06 (1 series)"]),
        (["aaaaaa", "aaaa..", "aaaa.."], [2], ["node n1: silent since 2025-09-05 (1 series)"]),
        # both series of a node: since the last of them; what is retired there says nothing about the node
        (["aaaaaa", "aaaa..", "aa....:n1"], [], ["node n1: silent since 2025-09-05 (2 series)"]),
        (["aaaaaa", "aa....", "aaaa..:n1"], [], ["node n1: silent since 2025-09-05 (2 series)"]),
        (["aaaaaa", "aaaa..", "aaaaaa:n1"], [], ["Stream triad: missing on node n1 since 2025-09-05 (1 series)"]),
        (["aaaaaa", "aaaa..", "aaaaaa:n1"], [2], ["node n1: silent since 2025-09-05 (1 series)"]),
        (["aaaa..:z", "aaaa..:b", "aaaa..:"], [], ["3 nodes (b, unknown, z): silent since 2025-09-05 (3 series)"]),
    ],
)  # fmt: skip
def test_silent_nodes_are_listed_by_their_last_night(rows: list[str], retired: list[int], said: list[str]) -> None:
    nodes = [row.partition(":")[2] if ":" in row else f"n{at}" for at, row in enumerate(rows)]
    rows = [row.partition(":")[0] for row in rows]
    h = nightly(*rows, node=nodes)
    missing = [at for at, row in enumerate(rows) if row[-1] == "." and at not in retired]
    one: Any = SimpleNamespace(history=h, missing=missing, retired=retired)
    text = ": repair it, or retire it in reports/acknowledged.yaml"
    assert gate._missing(one) == [f"m: {line}{text}" for line in said]


@pytest.mark.parametrize(
    ("others", "said"),
    [(["aaaabb"], ", since the update of driver 580.1 → 580.2"), (["aaaaaa"], ""), (["aaaabb"] * 4 + ["aaaaaa"], "+"),
     (["aaaabb"] * 3 + ["aaaaaa"], "")],
)  # fmt: skip
def test_a_measurement_that_stopped_with_an_update_says_so(others: list[str], said: str) -> None:
    """One node; the update is one of at least four of five of its series that still run."""
    rows = ["aaaa..", "aaaa..", *others]
    h = nightly(*rows, node=["n0"] * len(rows), metric=["x", "w", *(f"y{n}" for n in range(len(others)))])
    one: Any = SimpleNamespace(history=h, missing=[0, 1], retired=[])
    (line,) = gate._missing(one)
    update = ", since the update of driver 580.1 → 580.2" if said else ""
    text = f"m: Stream w, Stream x: missing on node n0 since 2025-09-05 (2 series){update}: repair it"
    assert line.startswith(text), line


@pytest.mark.parametrize(
    ("rows", "gpu", "silent"),
    [
        (["aaaaaaaaaa", "aaa......."], ["", ""], ["n1"]), (["aaaaaaaaaa", "aaaa......"], ["", ""], []),
        (["aaaaaaaaaa", "aaa......x"], ["", ""], []), (["aaa.......", "aaa......."], ["GPU-a", ""], ["n1"]),
        (["aaaaaaaaaa", "aaa......."], ["", "GPU-a"], []),
    ],
)  # fmt: skip
def test_a_node_is_silent_after_seven_nights(rows: list[str], gpu: list[str], silent: list[str]) -> None:
    told = [f"node {name} has not run for at least 7 nights" for name in silent]
    assert gate._renamed(nightly(*rows, gpu=gpu)) == told
    turned = nightly(*(["aaa......."] * 3), gpu=["", "", ""], node=["z", "a", "m"])
    assert [line.split()[1] for line in gate._renamed(turned)] == ["a", "m", "z"]
    both = nightly(*rows, gpu=["", ""], node=["n1", "n1"])
    assert gate._renamed(both) == (["node n1 has not run for at least 7 nights"] if rows[0][-1] == "." else [])


@pytest.mark.parametrize(
    ("ran", "values", "together", "learns"),
    [
        ("a" + "." * 13, 0, False, True),
        ("a" + "." * 14, 0, False, False),
        ("a", 1, False, False),
        ("a", 0, True, False),
    ],
)
def test_a_series_that_ran_within_fourteen_nights_learns(ran: str, values: int, together: bool, learns: bool) -> None:
    found: Any = SimpleNamespace(nights=np.array([values]))
    one = gate.Judged(nightly(ran), found, [], together=frozenset({0} if together else ()))
    assert one.learning == ([0] if learns else [])
    assert one.share == f"{int(values > 0 or together)} of 1 series judged"
    assert replace(one, retired=[0]).share == "0 of 0 series judged"


@pytest.mark.parametrize(
    ("least", "power"),
    [
        # sorted and without those that are never detected: half of the series, and 95 %
        ([5, 1, np.nan, 3, 2, 4], (3, 5)), (range(40, 0, -1), (20, 39)), (range(1, 21), (10, 20)), ([7], (7, 7)),
        ([np.nan] * 3, None), ([2, 1], (1, 2)),
    ],
)  # fmt: skip
def test_the_smallest_drop_that_is_detected(least: Any, power: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half of the series, and in 95 %; series that are not judged have none."""
    asked: list[list[int]] = []

    def known(some: Any, nights: int) -> Any:
        asked.append(list(some))
        return np.array(list(least), float) * 10 / nights

    h = nightly("aaaa", "aaaa", "aaaa", "aaaa", "aaaa", "aaaa")
    found: Any = SimpleNamespace(judged=True, nights=np.array([1, 0, 2, 3, 4, 5]), noise=np.arange(6) * 1.0)
    monkeypatch.setattr(detect, "power", known)
    monkeypatch.setattr(causes, "findings", lambda *of: [])
    one = gate.system(h, found, detect.Settings())
    expected = {n: (power[0] * 10 / n, power[1] * 10 / n) for n in (2, 3, 5, 10)} if power else {}
    assert one.power == pytest.approx(expected) and asked == [[0, 2, 3, 4, 5]] * 4
    asked.clear()
    monkeypatch.setattr(gate, "POWER_OF", 2)
    gate.system(h, found, detect.Settings())
    assert asked == [[0, 3, 5]] * 4, "about as many, evenly spaced"
    assert gate.system(h, SimpleNamespace(judged=0), detect.Settings()).power == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(("learning", "retired", "little"), [(2, 0, False), (3, 0, True), (2, 1, True)])
def test_at_least_half_of_the_series_are_judged(learning: int, retired: int, little: bool) -> None:
    now = (datetime.now(timezone.utc) - timedelta(hours=12)).date()
    h: Any = SimpleNamespace(system="m", nights=[now - timedelta(days=2)], series=[0] * 4)
    one: Any = SimpleNamespace(
        history=h, found=SimpleNamespace(judged=True), learning=[0] * learning, retired=[0] * retired, void=[],
        night=h.nights[-1], share="some", missing=[],
    )  # fmt: skip
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "_missing", lambda one: [])
        for age in (0, 1, 2):
            lines = gate._incomplete(one, 30, age)
            assert sum("2 days ago: no run since" in line for line in lines) == (age == 1)
            assert sum("only some" in line for line in lines) == little


def proposal(h: Any, good: list[int] | None = None, last: int = 30) -> propose.Proposal:
    every = list(range(len(h.series)))
    window = slice(max(0, len(h.nights) - last), None)
    return propose._proposal(h, every, every if good is None else good, window, np)


def test_the_figures_of_a_proposal() -> None:
    """Two series of ten nights: values of the last six, without the driver before, and one value far outside."""
    tolerances = []
    for scatter in (0.001, 0.02):
        h = nightly("aaaaaabbbb", "aaaabbbbbb")
        h.values[:] = 400 * (1 + scatter * (np.arange(20).reshape(2, 10) % 7))
        h.values[1, 8] = 4000
        one = proposal(h, last=6)
        known = np.concatenate([h.values[0, 6:], h.values[1, 4:]])
        kept = known[known < 1000]
        middle = float(np.median(known))
        assert one.value == middle and one.count == len(kept) == 9 and one.driver == "580.2" and one.refused == ""
        robust, spread = 1.4826 * np.median(np.abs(known - middle)) / middle, np.std(kept, ddof=1) / middle
        assert one.spread == pytest.approx(spread)
        assert one.tolerance == round(max(0.02, 4 * max(robust, spread)), 3)
        assert (one.first, one.last, one.left_out) == (h.nights[4], h.nights[9], 0)
        assert proposal(h, [1], last=6).left_out == 1
        tolerances.append((one.tolerance > 0.02, robust > spread))
    assert tolerances == [(False, True), (True, True)]
    late = proposal(nightly("..aaaaa.."))
    assert (late.first, late.last) == (h.nights[2], h.nights[6])
    h.values[:, :] = 400
    h.values[0, 6] = 402
    one = proposal(h, last=6)
    assert one.tolerance == 0.02 and one.spread > 0


@pytest.mark.parametrize(
    ("rows", "good", "driver", "refused"),
    [
        (["aaaaa"], None, "580.1", ""), (["aaaa."], None, "580.1", "4 valid nights with driver 580.1; at least 5"),
        (["aaaaa"], [], "", "all of its series regressed or are outlying"),
        # the driver of most series on the last night on which any ran
        (["aaaaab", "aaaaaa", "aaaaaa"], None, "580.1", ""), (["aabbbbb.", "aabbbbb.", "aaaaaaa."], None, "580.2", ""),
        (["aaaaab."], None, "580.2", "1 valid nights with driver 580.2; at least 5"),
        (["aaaaab"], None, "580.2", "1 valid nights with driver 580.2; at least 5"),
        (["aaa..", "..aaa"], None, "580.1", ""),
    ],
)  # fmt: skip
def test_five_nights_with_the_last_driver_make_a_proposal(
    rows: list[str], good: list[int] | None, driver: str, refused: str
) -> None:
    one = proposal(nightly(*rows), good)
    assert one.driver == driver and one.refused.startswith(refused) and bool(one.refused) == bool(refused)
    assert one.too_few_nights == ("valid nights" in refused)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([[400.0, 404.0, 396.0]], ""), ([[400.0, 404.0]], "there are 2"), ([[400.0] * 3, [400.0] * 2], "there are 2"),
        ([], "there are 0"), ([[100.0, 400.0, 700.0]], "its 3 runs of a day spread by 75 %"), ([[0.0] * 3], "few"),
    ],
)  # fmt: skip
def test_three_runs_of_each_series_make_a_provisional_one(runs: list[list[float]], said: str) -> None:
    h = history()
    few = replace(proposal(h), too_few_nights=True, refused="few", group=("g",))
    one = propose._or_provisional(few, {("g",): runs, ("other",): [[1.0] * 9]}, h)
    assert said in one.refused and one.provisional == (not said) and bool(one.refused) == bool(said)
    if not said:
        known = np.array(runs).ravel()
        spread, robust = np.std(known, ddof=1) / 400, 1.4826 * 4 / 400
        assert (one.value, one.count, one.first, one.last) == (400.0, 3, h.nights[-1], h.nights[-1])
        assert one.tolerance == round(8 * max(spread, robust), 3) and one.spread == pytest.approx(spread)
        scattered = propose._or_provisional(few, {("g",): [[400.0] * 9 + [420.0]]}, h)
        assert scattered.tolerance == round(8 * np.std([400.0] * 9 + [420.0], ddof=1) / 400, 3) > 0.05
        assert propose._or_provisional(few, {("g",): [[400.0, 400.0, 400.1]]}, h).tolerance == 0.05
    whole = proposal(h)
    assert propose._or_provisional(whole, {("g",): runs}, h) is whole


@pytest.mark.parametrize(("direction", "bounds"), [("higher", (-0.03, None)), ("lower", (None, 0.03))])
def test_the_entry_of_a_proposal_is_bounded_on_its_bad_side(direction: str, bounds: tuple[float | None, ...]) -> None:
    one = replace(proposal(history()), direction=direction, tolerance=0.03, value=123.456789, spread=0.00456789)
    entry = one.entry
    assert (entry["lower"], entry["upper"]) == bounds
    assert (entry["value"], entry["spread"], entry["count"]) == (123.46, 0.0046, one.count)
    assert "driver" not in replace(one, driver="").entry
    assert replace(one, provisional=True).entry["provisional"] is True
    assert replace(one, parameters={"n": 1}).entry["parameters"] == {"n": 1}
    assert entry["driver"] == "580.1" and "provisional" not in entry and "parameters" not in entry


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True), ({"metric": "stream.copy"}, False), ({"subject": "gpu"}, False), ({"partition": "cpu"}, False),
        ({"environ": ["gnu"]}, False), ({"environ": None}, True), ({"parameters": {"n": 2}}, False),
        ({"published": 1}, False), ({"value": 1}, True),
    ],
)  # fmt: skip
def test_a_proposal_replaces_what_it_measures(change: dict[str, Any], same: bool) -> None:
    entry = {**proposal(history()).entry, "parameters": {"n": 1}}
    assert propose._same({**entry, **change}, entry) is same


def test_series_of_a_host_a_gpu_or_a_pair_make_one_proposal_for_all_that_are_good(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows 0 to 3 are siblings: one has an open alarm, one an accepted level since night 4."""
    rows = ["a" * 10] * 9
    h = nightly(
        *rows, metric=["m"] * 4 + ["g", "p", "r", "sweep", "none"],
        kind=["host"] * 4 + ["gpu", "pair", "ranks", "host", "host"],
        coordinates=[""] * 7 + ["n=1", ""], program=["stream"] * 8 + [""],
        parameters=['{"n": 1, "x": "", "seed": 2, "list": [1], "y": 0.5, "z": true}'] * 4 + ["{}"] * 5,
    )  # fmt: skip
    h.values[:] = np.array([[400.0, 300.0, 500.0, 100.0, 1, 1, 1, 1, 1]]).T
    h.values[2, :4] = 900.0
    found = [
        SimpleNamespace(alarming=True, acknowledged="", kind="step", rows=[3], night=8),
        SimpleNamespace(alarming=False, acknowledged="known", kind="step", rows=[2], night=4),
        SimpleNamespace(alarming=False, acknowledged="known", kind="outlier", rows=[1], night=9),
        SimpleNamespace(alarming=False, acknowledged="", kind="step", rows=[0], night=9),
    ]
    monkeypatch.setattr(nights, "judge", lambda *of: None)
    monkeypatch.setattr(causes, "findings", lambda *of: found)
    read: list[Path] = []
    monkeypatch.setattr(acknowledged, "read_all", lambda file: read.append(file))
    monkeypatch.setattr(acknowledged, "apply", lambda *of: None)
    one, gpu, pair = propose.propose(h, 7, tmp_path)
    assert propose.propose(h)[0].first == h.nights[0] and read == [tmp_path, acknowledged.FILE]
    assert [(p.metric, p.subject, p.value) for p in (one, gpu, pair)] == [
        ("m", "host", 400.0), ("g", "gpu", 1), ("p", "pair", 1),
    ]  # fmt: skip
    # seven nights of two series, and six of the third, which begins with its accepted level
    assert (one.count, one.left_out, one.first, one.last) == (20, 1, h.nights[3], h.nights[9])
    assert one.parameters == {"n": 1, "y": 0.5, "z": True}
    assert not propose.propose(replace(h, values=h.values * np.nan), 7)[0].provisional


def test_a_reference_is_renewed_in_its_place_and_others_follow_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(propose.difflib, "unified_diff", lambda before, after, *names: after)
    base = "    subject: host\n    partition: gpu\n    environ: [cuda]\n"
    a, b, c = (f"  - metric: stream.{name}\n{base}    value: {n}\n" for n, name in enumerate("abb", 1))
    file = tmp_path / "m.yaml"
    file.write_text(f"title: x\nreferences:\n  # first\n{a}\n  # second\n{b}{c}# end\n\nnotes: []")
    some = [replace(proposal(history()), metric=name, value=400.0 + n) for n, name in enumerate("bcad")]
    new_b, new_c, new_a, new_d = (propose._rendered(one.entry) for one in some)
    assert propose.patch(file, some) == (
        f"title: x\nreferences:\n  # first\n{new_a}\n  # second\n{new_b}{c}# end\n\n{new_c}{new_d}notes: []\n"
    )
    file.write_text("title: x")
    assert propose.patch(file, some[:1]) == f"title: x\n\nreferences:\n{new_b}"


@pytest.mark.parametrize(
    ("alarms", "incomplete", "verdict"),
    [(1, [], ("FAIL", 1)), (1, ["x"], ("FAIL", 1)), (0, ["x"], ("INVALID", 3)), (0, [], ("PASS", 0))],
)
def test_an_alarm_comes_before_what_is_incomplete(alarms: int, incomplete: list[str], verdict: tuple[str, int]) -> None:
    one: Any = SimpleNamespace(alarms=[0] * alarms, history=SimpleNamespace(system="m"), share="1 of 1")
    judged = gate.Gate(Path(), [one], Ingested(), 30, incomplete)
    assert (judged.verdict, judged.exit_code) == verdict and judged.headline == f"{verdict[0]} (m: 1 of 1)"
    assert gate._listed([*"abcde"]) == "a, b, c, d, e" and gate._listed([*"abcdefg"]) == "a, b, c, d, e and 2 more"
