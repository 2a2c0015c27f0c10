"""One cause, one finding: a common change on several nodes, sizes and benchmarks is reported once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tenken.history import acknowledged, causes
from tenken.history.acknowledged import Decisions, Entry
from tenken.history.causes import Cause, Finding
from tenken.report import sentences
from tests.unit.reports.test_gate import history
from tools.bench import causes as bench

NODES, SIZES, CHECKS = 4, 3, ("Memcopy", "Stream", "Hpl", "Himeno")
DRIVER = Cause("driver", "580.1", "580.2", ("n0",))


def machine(nodes: int = NODES):
    """Four benchmarks of three sizes on each node: rows are in the order of benchmarks, sizes and nodes."""
    h = history(nodes=len(CHECKS) * SIZES * nodes, nights=60)
    series = [
        replace(
            one, check=CHECKS[row // (SIZES * nodes)], program=CHECKS[row // (SIZES * nodes)].lower(),
            metric=f"m{row // nodes % SIZES}", node=f"n{row % nodes}",
        )
        for row, one in enumerate(h.series)
    ]  # fmt: skip
    return replace(h, series=series)


def rows(h, check: str = "", node: str = "", metric: str = "") -> list[int]:
    return [
        row
        for row, s in enumerate(h.series)
        if check in ("", s.check) and node in ("", s.node) and metric in ("", s.metric)
    ]


def shift(some: Sequence[int], night: int = 50, size: float = -0.05, **changes) -> Finding:
    one = Finding("step", "x", "x", True, night, night + 1, size, size, size, 9.0, 1e-4, list(some), len(some))
    return replace(one, **changes)


def test_sizes_of_a_benchmark_on_the_same_nodes_are_one_finding() -> None:
    h = machine()
    parts = [shift(rows(h, "Stream", metric=f"m{n}"), night=49 + n, size=-0.03 - n / 100) for n in range(2)]
    (one,) = causes.joined(h, parts)
    assert (one.label, one.what) == ("check", "Stream on partition gpu")
    assert one.rows == sorted(parts[0].rows + parts[1].rows) and one.of == len(one.rows) == 8
    assert one.largest == -0.04 and one.size in (-0.03, -0.04) and one.night in (49, 50)
    text = sentences.sentence(h, one)
    assert text.startswith("Stream on partition gpu: 2 metrics (8 series) ") and " less " in text


def test_benchmarks_on_the_same_nodes_are_the_partition_and_some_nodes_are_counted() -> None:
    h = machine()
    (one,) = causes.joined(h, [shift(rows(h, check)) for check in CHECKS[:3]])
    assert (one.label, one.what, len(one.rows)) == ("partition", "partition gpu", 36)
    half = [row for row in rows(h, "Stream") if h.series[row].node in ("n0", "n1")]
    (one,) = causes.joined(h, [shift(half[:2]), shift(half[2:4])])
    assert one.what == "Stream on partition gpu (2 of 4 nodes)"


def test_what_changed_with_one_driver_is_one_finding_that_names_it() -> None:
    """Also if the benchmarks have few nodes in common, and for any size of the change of each."""
    h = machine()
    on = [[row for row in rows(h, c) if h.series[row].node in n] for c, n in (("Hpl", "n0n1"), ("Stream", "n2n3"))]
    apart = [shift(on[0], size=-0.3), shift(on[1])]
    assert len(causes.joined(h, apart)) == 2
    (one,) = causes.joined(h, [replace(f, causes=[DRIVER]) for f in apart])
    assert one.what == "Hpl, Stream on partition gpu" and one.causes == [DRIVER] and one.largest == -0.3


def test_a_part_of_the_sizes_on_one_node_is_one_finding() -> None:
    h = machine()
    (one,) = causes.joined(h, [shift([row], night=48 + n) for n, row in enumerate(rows(h, "Stream", "n1")[:2])])
    assert (one.label, one.what, one.of) == ("program", "node n1", 12)
    (one,) = causes.joined(h, [shift(rows(h, "Stream", "n1")[:1]), shift(rows(h, "Hpl", "n1")[:1])])
    assert (one.label, one.what) == ("node", "node n1")


@pytest.mark.parametrize(
    "change",
    [
        {"night": 54}, {"worse": False}, {"recovered": 55}, {"withdrawn": True}, {"kind": "noisy"},
        {"kind": "outlier"}, {"kind": "flapping"}, {"acknowledged": "known"},
    ],
)  # fmt: skip
def test_what_differs_in_night_direction_state_or_kind_remains_apart(change) -> None:
    h = machine()
    first, second = rows(h, "Stream", metric="m0"), rows(h, "Stream", metric="m1")
    assert len(causes.joined(h, [shift(first), shift(second, night=52)])) == 1
    apart = causes.joined(h, [shift(first), shift(second, **change)])
    assert sorted(f.rows for f in apart) == sorted([first, second])


def test_two_causes_on_one_night_remain_two() -> None:
    h = machine(nodes=8)
    one_node = shift(rows(h, "Hpl", "n7"))
    assert len(causes.joined(h, [shift(rows(h, "Stream")), one_node])) == 2, "another benchmark, on one node"
    own = shift(rows(h, "Stream", "n7")[:1], size=-0.30)
    assert len(causes.joined(h, [shift(rows(h, "Stream", metric="m1")), own])) == 2, "six times what all lost"
    assert len(causes.joined(h, [shift(rows(h, "Hpl", "n3")), shift(rows(h, "Hpl", "n5"))])) == 2, "2 of 8 nodes"
    assert len(causes.joined(machine(2), [shift(rows(machine(2), "Hpl", n)) for n in ("n0", "n1")])) == 1, "2 of 2"


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        # (checks, nodes) of each, of four benchmarks and four nodes; then what one node lost, by its size
        (("Hpl", "0123"), ("Stream", "0123"), True), (("Hpl", "0123"), ("Stream", "01"), True),
        (("Hpl", "01"), ("Stream", "23"), False), (("Hpl", "012"), ("Stream", "23"), False),
        (("Hpl", "0123"), ("Hpl", "23"), True), (("Hpl", "012"), ("Hpl", "23"), True),
        (("Hpl", "01"), ("Hpl", "23"), True), (("Hpl", "01"), ("Stream", "12"), False),
        (("Hpl", "0123"), ("Hpl", "1"), True), (("Hpl", "0123"), ("Stream", "1"), False),
        (("Hpl Memcopy", "0123"), ("Stream", "1"), True), (("Hpl Memcopy", "0123"), ("Stream", "1", -0.097), True),
        (("Hpl Memcopy", "0123"), ("Stream", "1", -0.098), False), (("Hpl", "0123"), ("Hpl", "1", -0.098), False),
        (("Hpl", "1"), ("Stream", "1"), True), (("Hpl", "1"), ("Stream", "2"), False),
    ],
)  # fmt: skip
def test_what_began_together_has_one_cause_by_its_nodes_and_benchmarks(first, second, one) -> None:
    h = machine()
    checks, where = {"gpu": set(CHECKS)}, {s.measure: {f"n{n}" for n in range(NODES)} for s in h.series}
    groups = []
    for names, nodes, *size in (first, second):
        some = [
            row for row, s in enumerate(h.series)
            if s.check in names.split() and s.node[1:] in nodes and (s.metric == "m0" or len(nodes) == 1)
        ]  # fmt: skip
        groups.append(causes._Group.of(h, shift(some, size=size[0] if size else -0.05)))
    assert groups[0].one_cause(groups[1], checks, where) is one


def test_a_node_that_drifts_or_becomes_noisy_is_one_finding() -> None:
    h = machine()
    node = rows(h, node="n1")
    stages = [shift(node, night=40), shift(node[:3], night=49), shift(node[4:5], night=51)]
    assert len(causes.joined(h, stages)) == 1
    assert len(causes.joined(h, [*stages, shift(node[:3], night=53)])) == 2
    noisy = [shift([row], night=40 + 2 * n, kind="noisy", size=1.5) for n, row in enumerate(node[:6])]
    (one,) = causes.joined(h, noisy)
    assert one.kind == "noisy" and one.what == "node n1" and len(one.rows) == 6


def test_the_entry_of_a_joined_finding_silences_its_parts_and_nothing_larger() -> None:
    h = machine()
    parts = [shift(rows(h, "Hpl"), night=49, size=-0.03), shift(rows(h, "Stream", metric="m0"), size=-0.2)]
    (one,) = causes.joined(h, parts)
    assert one.size == -0.03, "that of most"
    fields = dict(line.strip(" -").split(": ") for line in acknowledged.snippet(h, one).splitlines())
    assert fields["size"] == "-0.200" and "check" not in fields
    entry = Entry("m", "known", "me", h.nights[one.night], fields["kind"], float(fields["size"]))

    def silent(findings: list[Finding]) -> list[str]:
        acknowledged.apply(Decisions((entry,)), h, findings)
        again = causes.joined(h, findings)
        acknowledged.apply(Decisions((entry,)), h, again)
        return [f.what for f in again if f.alarming]

    assert silent([replace(part) for part in parts]) == []
    assert silent([replace(parts[0], kind="drift"), replace(parts[1])]) == [], "step or drift: the same shift"
    assert silent([replace(parts[0]), replace(parts[1], size=-0.23)]) == ["x"]
    assert silent([replace(one, largest=-0.23)]) == ["Hpl, Stream on partition gpu"]
    later = shift(rows(h, "Himeno"), night=56)
    assert silent([*(replace(part) for part in parts), later]) == ["x"], "a later loss is reported alone"


@pytest.mark.parametrize("cause", bench.REQUIRED)
def test_planted_causes_raise_one_alarm(cause: str) -> None:
    planted = bench.plant(cause, 4)
    (soon,) = bench.alarms(planted, [5])
    own = [f for f in soon if planted.rows & set(f.rows)]
    assert len(own) == (cause != "nothing") or (cause == "a GPU drifts" and not own)
    if cause in bench.DRIVERS:
        assert [(c.field, c.before, c.after) for c in own[0].causes] == [("driver", "x", "y")]
        assert len(own[0].causes[0].nodes) == len({planted.history.series[row].node for row in planted.rows})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [-1.0, -1.5, -40.0])
def test_a_series_with_zeros_may_lose_more_than_its_usual_size(size: float) -> None:
    h = machine(nodes=8)
    own = shift(rows(h, "Stream", "n7")[:1], size=size)
    assert len(causes.joined(h, [shift(rows(h, "Stream", metric="m1")), own])) == 2
    (one,) = causes.joined(h, [shift(rows(h, "Stream", "n1")[:2]), shift(rows(h, "Hpl", "n1")[:1], size=size)])
    assert one.largest == size and one.size == -0.05 and f"size: {size:.3f}" in acknowledged.snippet(h, one)


def test_a_thousand_separate_findings_are_compared_in_seconds() -> None:
    h = machine(nodes=100)
    rng = np.random.default_rng(1)
    some = [shift([int(row)], night=int(rng.integers(20, 58))) for row in rng.permutation(len(h.series))[:1000]]
    found = causes.joined(h, some)
    assert sorted(row for f in found for row in f.rows) == sorted(f.rows[0] for f in some), "nothing is lost"
