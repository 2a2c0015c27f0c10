"""The record of a tournament, and the clauses of a contract on 64 nodes that it decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tenken import counters
from tenken.archive import records as archive
from tenken.campaign import fabric
from tenken.campaign.tournament import ACROSS, LOADED, WITHIN, Answer, plan
from tenken.counters import Change
from tenken.model.catalogue import load_catalogue
from tenken.report import acceptance as accept
from tenken.report import contracts, remaining
from tests.unit.reports import builder

NODES = [f"n{i:02d}" for i in range(64)]
LEAF_OF = {node: f"leaf{i // 16}" for i, node in enumerate(NODES)}
#: A counter that names no port.
NOTED = next(name for name, one in counters.COUNTERS.items() if one.rise == counters.NOTED)
SESSION = "20261121T000000Z-a-ffffff"
CONTRACT = """\
title: "64 nodes"
system: h200
parties: {customer: "a", supplier: "b"}
allow_unsealed: true
repetitions: 1
rule: value
clauses:
  - {id: W, source: "offer", metric: fabric.pair_share, subject: ranks, at: {kind: within}, over: worst, nodes: 64,
     target: 90, unit: "%"}
  - {id: A, source: "offer", metric: fabric.pair_share, subject: ranks, at: {kind: across}, over: worst, nodes: 64,
     target: 90, unit: "%"}
  - {id: E, source: "offer", metric: fabric.port_errors, subject: ranks, over: worst, nodes: 64, hours: 24,
     target: 1, unit: "1"}
"""


def told(slow: tuple[str, ...] = (), dead: tuple[str, ...] = ()) -> list[Answer]:
    level = {WITHIN: 48.0, ACROSS: 45.0, LOADED: 20.0}
    found = []
    for meetings in plan(LEAF_OF):
        for one in meetings:
            for pair in (pair for step in one.steps for pair in step):
                value = None if set(pair) & set(dead) else level[one.kind] * (0.85 if set(pair) & set(slow) else 1.0)
                found.append(Answer(one.kind, pair, value, 2.0))
    return found


def ports(hours: float, **errors: int | None) -> list[Change]:
    quiet = [Change(n, "mlx5_0/1", "infiniband", 400.0, 3600 * hours, {"link_downed": 0}, {}) for n in NODES]
    return [replace(one, errors={"link_downed": errors[one.node]}) if one.node in errors else one for one in quiet]


def test_a_share_is_relative_to_the_better_half_of_its_kind() -> None:
    rates = {WITHIN: (20.0, 10.0, None, 20.0), LOADED: (5.0,), ACROSS: (None,)}
    answers = [Answer(kind, (f"{at}", "x"), rate) for kind, some in rates.items() for at, rate in enumerate(some)]
    assert fabric.shares(answers) == {
        (WITHIN, ("0", "x")): 1.0, (WITHIN, ("1", "x")): 0.5, (WITHIN, ("2", "x")): 0.0, (WITHIN, ("3", "x")): 1.0,
        (ACROSS, ("0", "x")): 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(("hours", "errors", "found"), [
    (1, {"link_downed": 4, "symbol_error": 1}, 5), (24, {"link_downed": 4}, 4), (48, {"link_downed": 4}, 2),
    (48, {}, 0), (1, {"link_downed": None, "symbol_error": 1}, None),
    (1, {"link_downed": 1, NOTED: 7}, 1), (1, {NOTED: None}, 0),
])  # fmt: skip
def test_errors_that_name_a_port_are_those_of_a_day(hours: int, errors: dict[str, int | None], found: int) -> None:
    change = Change("n", "p", "infiniband", 400.0, 3600 * hours, errors, {})
    assert fabric.errors_in_a_day(change) == found


def decided(tmp_path: Path, answers: list[Answer], changes: list[Change]) -> dict[str, str]:
    doc = builder.document("burn", [builder.metric("clean", {"gpu": 0}, [60.0], "s")], 1)
    builder.write_session(
        tmp_path / "archive", [builder.record("BurnNode", doc, nodes=("n00",), session=SESSION)], name=SESSION
    )
    like = next(archive.records(tmp_path / "archive", session=SESSION))
    made = fabric.archived(tmp_path / "archive", SESSION, like, NODES, answers, changes)
    assert made.verdict == "RECORDED", made.findings
    (tmp_path / "deal.yaml").write_text(CONTRACT)
    agreed = contracts.load(str(tmp_path / "deal.yaml"), load_catalogue(), ["h200"])
    kept = [(one.check, one) for one in archive.records(tmp_path / "archive", session=SESSION)]
    found = accept.accept(agreed, kept, load_catalogue(), (SESSION,))
    assert not found.wrong and not found.failed
    if "E" in remaining.open_clauses(found):
        assert "E (1 more, by `tenken campaign pairs`)" in remaining.progress(found)
    return {one.clause.id: one.result for one in found.requirements}


@pytest.mark.parametrize(
    ("answers", "changes", "missed", "open_"),
    [
        (told(), ports(24.5), "", ""),
        (told(slow=("n05",)), ports(24.5), "WA", ""),
        (told(dead=("n05",)), ports(24.5), "WA", ""),
        (told(), ports(24.5, n07=3), "E", ""),
        # three in three days: one in 24 h
        (told(), ports(72, n07=3), "", ""),
        (told(), ports(2), "", "E"),
        # an unknown counter proves nothing about its port, and does not void the others
        (told(), ports(24.5, n07=None, n08=9), "E", ""),
    ],
)
def test_clauses_over_64_nodes_are_decided(tmp_path: Path, answers, changes, missed: str, open_: str) -> None:
    found = decided(tmp_path, answers, changes)
    assert {name for name, result in found.items() if result == "NOT MET"} == set(missed), found
    assert {name for name, result in found.items() if result not in ("MET", "NOT MET")} == set(open_), found


def test_readings_of_several_tournaments_are_added_up_and_a_reset_is_unknown() -> None:
    def line(when: str, time: float, down: int, data: int) -> str:
        return (
            f"TENKEN-PORT when={when} node=a port=mlx5_0/1 kind=infiniband gbit_s=400 time={time} "
            f"e.link_downed={down} e.symbol_error=0 t.sent_bytes={data}"
        )

    first = [line("idle", 0, 0, 0), line("before", 1, 1, 10), line("after", 60, 1, 20)]
    (day,) = counters.since([*first, line("before", 86400, 3, 20), line("after", 86461, 4, 90)])
    assert (day.seconds, day.errors, day.traffic) == (86460, {"link_downed": 3, "symbol_error": 0}, {"sent_bytes": 80})
    assert fabric.errors_in_a_day(day) == pytest.approx(3 * 86400 / 86460)
    (reset,) = counters.since([*first, line("before", 86400, 0, 20), line("after", 86461, 4, 90)])
    assert reset.errors["link_downed"] is None and fabric.errors_in_a_day(reset) is None
    assert counters.since(first[:2]) == []


@pytest.mark.parametrize(
    ("hours", "count", "expected"), [(1, 3, 3.0), (24, 3, 3.0), (48, 6, 3.0), (96, 3, 0.75), (1, None, None)]
)
def test_errors_of_a_shorter_time_are_not_multiplied(hours: int, count: int | None, expected: float | None) -> None:
    name = next(one for one, counter in counters.COUNTERS.items() if counter.rise != counters.NOTED)
    change = Change("n1", "mlx5_0", "infiniband", 400.0, 3600.0 * hours, {name: count}, {})
    assert fabric.errors_in_a_day(change) == expected
