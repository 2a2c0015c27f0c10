"""Which is worse, best, behind: a comparison is made once with rates and once with times, and gives the same answer,
unless another test does so.

The times are the inverse of the rates, so both must name the same. If a comparison cannot be called by itself, its
entry states why.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from tenken.campaign import fabric, tournament
from tenken.history import propose, record_parser, siblings
from tenken.history.detect import detector, fleet
from tenken.judge import bounds, relations
from tenken.model.judgement import Limit
from tenken.parsers import foreign
from tenken.paths import ROOT
from tenken.reframe import terminal
from tenken.report import (
    acceptance,
    contracts,
    nightly,
    page,
    plots,
    rows,
    side_by_side,
    signed,
    trends,
)
from tenken.report import fleet as pages

#: Of eight devices the fourth is the worst and the fifth the best.
RATES = (100.0, 99.0, 101.0, 60.0, 130.0, 100.5, 99.5, 100.2)
WORST, BEST = 3, 4
HIGHER, LOWER = "higher", "lower"
UNIT = {HIGHER: "GB/s", LOWER: "us"}


def of(direction: str) -> tuple[float, ...]:
    return RATES if direction == HIGHER else tuple(1e4 / rate for rate in RATES)


def metrics(direction: str) -> list[Any]:
    return [
        SimpleNamespace(direction=direction, value=value, subject="all", at={"trial": n}, unit=UNIT[direction])
        for n, value in enumerate(of(direction))
    ]


def history(direction: str) -> Any:
    """Each device on a night; in the second half it differs from the first half by its figure."""
    values = np.array([[of(direction)[0], one] for one in of(direction)])
    series = [SimpleNamespace(direction=direction)] * len(values)
    return SimpleNamespace(values=values, series=series, higher=np.array([direction == HIGHER] * len(values)))


def requirement(direction: str) -> acceptance.Requirement:
    clause: Any = SimpleNamespace(direction=direction, rule=contracts.VALUE, bound=of(direction)[0])
    parts: Any = [
        SimpleNamespace(values=[value], median=value, low=value, high=value, part=SimpleNamespace(name=str(n)))
        for n, value in enumerate(of(direction))
    ]
    return acceptance.Requirement(clause, parts=parts)


def worst_part(direction: str) -> tuple[int, list[int], bool, float | None]:
    asked = requirement(direction)
    assert asked.worst is not None and asked.margin is not None
    missed = [n for n, part in enumerate(asked.parts) if asked.missed_by(part)]
    return (
        int(asked.worst.part.name),
        missed,
        asked.margin < 0,
        asked.share_of(Limit(of(direction)[0], UNIT[direction])),
    )


def worse_end(direction: str) -> bool:
    """The end of the interval that is compared with the bound, also in words."""
    clause: Any = SimpleNamespace(direction=direction, rule=contracts.INTERVAL, share=1, sign="")
    low_end = "lower" in contracts.Clause.rule_in_words(clause, 0.95)
    measured: Any = SimpleNamespace(low=1.0, high=2.0)
    return low_end == (acceptance.Requirement(clause).decisive(measured) == 1.0) == (direction == HIGHER)


def drafted(direction: str) -> tuple[float, float | None]:
    """Among equal points the worst counts for the clause; of a reference, the bound on the worse side."""
    points: Any = [contracts.Drafted("p.m", "gpu", target, "", "", "") for target in (100.0, 99.0)]
    (one,) = contracts._as_one(points, 2, direction)
    reference: Any = SimpleNamespace(program="p", metric="m", bounds=(95.0, 105.0), subject="gpu", unit="", source="",
                                     partition="", environ=(), statistic="median")  # fmt: skip
    metric: Any = SimpleNamespace(direction=direction, statistic="median")
    catalogue: Any = {"p": SimpleNamespace(metrics={"m": metric})}
    told = contracts._of_reference(reference, catalogue)
    return one.target, told.target if told else None


def judged_row(direction: str) -> float:
    row: Any = SimpleNamespace(value=of(direction)[WORST], direction=direction, limit=None, attainable=None,
                               efficiency=None, notes=[])  # fmt: skip
    rows._judge(row, None, Limit(of(direction)[0], UNIT[direction]))
    return float(row.efficiency)


def counting(direction: str) -> list[int]:
    """The worst, or the best, of several subjects side by side."""
    result = SimpleNamespace(parameters={})
    some: Any = [(SimpleNamespace(result=result, number=n), SimpleNamespace(at={}, value=value, direction=direction))
                 for n, value in enumerate(of(direction))]  # fmt: skip
    return [side_by_side._grouped({"over": over}, some, {})[()][0].number for over in ("worst", "best")]  # type: ignore[attr-defined]


def darkest(direction: str) -> int:
    """The best of the links of a matrix."""
    axis = MagicMock()
    links: Any = [
        SimpleNamespace(ends=(f"{n}", "x"), value=value, direction=direction, verdict="PASS", label="", unit="")
        for n, value in enumerate(of(direction))
    ]
    plots._matrix_panel(axis, links)
    return int(np.argmax([call.args[0].get_alpha() for call in axis.add_patch.call_args_list]))


def named(direction: str) -> int:
    judged: Any = {f"x.gpu{n}": SimpleNamespace(value=v, direction=direction, unit=UNIT[direction])
                   for n, v in enumerate(of(direction))}  # fmt: skip
    return int(terminal._headline(judged, ["x"])[0].removeprefix("x.gpu"))


def lost(direction: str) -> list[bool]:
    """Which became permanently worse, by nights before and after."""
    values = np.array([[of(direction)[0] * (1 + 0.001 * (-1) ** n)] * 30 + [one] * 30
                       for n, one in enumerate(of(direction))])  # fmt: skip
    wobble = 1 + 0.001 * np.sin(np.arange(values.size)).reshape(values.shape)
    events = detector.detect(values * wobble, np.array([direction == HIGHER] * len(values))).events
    return [any(event.worse for event in events if event.series == n) for n in range(len(values))]


def row_of(direction: str) -> tuple[str, str, bool]:
    figure = pages.Figure("c", "l", UNIT[direction], direction == HIGHER)
    figure.values = [(value, str(n), "") for n, value in enumerate(of(direction))]
    row = figure.row()
    spread = (max(of(direction)) - min(of(direction))) / np.median(of(direction))
    return row["worst"][1], row["best"][1], row["spread"] == pytest.approx(spread)


def clause(direction: str) -> tuple[bool, bool]:
    """Whether the target less its tolerance is easier, and the sign."""
    one = contracts.Clause(
        "1", "p", "m", "gpu", of(direction)[0], UNIT[direction], direction, "median", "s", tolerance=0.1
    )
    return (one.bound < one.target) == (direction == HIGHER), (one.sign == "≥") == (direction == HIGHER)


def proposed(direction: str) -> bool:
    """Only the worse side has a bound."""
    one: Any = SimpleNamespace(**dict.fromkeys(propose.Proposal.__annotations__, 0), source="")
    one.direction, one.tolerance, one.parameters, one.value = direction, 0.05, {}, of(direction)[0]
    entry = propose.Proposal.entry.fget(one)  # type: ignore[attr-defined]
    return (entry["lower"] is not None, entry["upper"] is not None) == (direction == HIGHER, direction == LOWER)


def stricter(direction: str) -> tuple[bool, bool]:
    """If a data sheet and a device differ, the yardstick is the lower, the ceiling the other one."""
    easy, hard = (95.0, 100.0) if direction == HIGHER else (100.0, 95.0)
    claim = Limit(hard, UNIT[direction], "device", said_by=bounds.DEVICE)
    result: Any = SimpleNamespace(limits={"x": claim}, parameters={})
    metric: Any = SimpleNamespace(id="x", kind="gpu", direction=direction, at={})
    sheet = {("memory", "gpu"): Limit(easy, UNIT[direction], "sheet")}
    declared: Any = SimpleNamespace(data_sheet="memory", sheet_key=lambda *of: "memory")
    limit, highest = bounds._limits(result, metric, declared, sheet)
    return limit.value == easy, highest == hard


def share(direction: str) -> float | None:
    row: Any = SimpleNamespace(value=of(direction)[WORST], direction=direction)
    return rows.Row.share_of(row, of(direction)[0])


def drift(direction: str) -> bool:
    """A cost that rises since the thirtieth night: a rate falls."""
    cost = np.maximum(0.0, np.arange(60) - 30.0) * 0.01
    event = siblings._drift(history(direction), 0, cost, 59, np.full(60, 0.1), np.full(60, 0.01))
    return (event.size < 0) == (event.low < event.high < 0) == (direction == HIGHER)


def closest(direction: str) -> int:
    """Of two requirements, each on one part, the one that is missed."""
    asked = [requirement(direction) for _ in (WORST, BEST)]
    for one, n in zip(asked, (WORST, BEST), strict=True):
        one.parts = [one.parts[n]]
    found: Any = SimpleNamespace(requirements=asked)
    return asked.index(signed._closest(found))  # type: ignore[arg-type]


def row_of_page(direction: str) -> float:
    """The share that a page shows for a subject: the lowest of its figures."""
    shares = [value / of(direction)[0] if direction == HIGHER else of(direction)[0] / value for value in of(direction)]
    some: Any = [SimpleNamespace(efficiency=one, verdict="PASS", label="", of_attainable=False) for one in shares]
    return float(page._verdict_row("GPU 0", "PASS", some, [])["efficiency"])


def night(direction: str) -> tuple[str, str]:
    """Where a measure in the report of a night is lowest and highest: by value, not by rank."""
    values = np.array([[value, value] for value in of(direction)])
    series = [SimpleNamespace(siblings=("x",), partition="p", measure="m", unit="", where=f"{n}", name="m")
              for n in range(len(values))]  # fmt: skip
    kept = SimpleNamespace(values=values, series=series, system="s")
    found = SimpleNamespace(level=values[:, 0])
    judged: Any = SimpleNamespace(history=kept, found=found, alarms=[])
    (measure,) = nightly._measures(judged)
    return measure.lowest_at, measure.highest_at


def answers(direction: str) -> list[tournament.Answer]:
    """Answers of pairs that differ in bandwidth, or in latency."""
    steady = [100.0] * len(RATES)
    both = (of(HIGHER), steady) if direction == HIGHER else (steady, of(LOWER))
    return [
        tournament.Answer(tournament.WITHIN, (f"{n}", "x"), bandwidth, latency)
        for n, (bandwidth, latency) in enumerate(zip(*both, strict=True))
    ]


#: File and function: what it returns for values of a direction, and what that must be.
COMPARED: dict[str, tuple[Callable[[str], Any], Any]] = {
    "tenken/campaign/tournament.py slow": (
        lambda d: [one.pair[0] for one in tournament.slow(answers(d))], [f"{WORST}"]),
    # a share is one of bandwidth
    "tenken/campaign/fabric.py shares": (
        lambda _: min(fabric.shares(answers(HIGHER)).values()), 60 / 100.75),
    "tenken/history/detect/fleet.py fleet_outliers": (
        lambda d: fleet.fleet_outliers(np.array(of(d)), d == HIGHER).order.tolist(), [WORST]),
    "tenken/history/detect/fleet.py deviation": (
        lambda d: (fleet.fleet_outliers(np.array(of(d)), d == HIGHER).deviation[WORST] > 0) == (d == LOWER), True),
    "tenken/history/detect/model.py Detector": (lambda d: (lost(d)[WORST], lost(d)[BEST]), (True, False)),
    "tenken/history/siblings.py _cost": (lambda d: int(np.argmax(siblings._cost(history(d))[:, 1])), WORST),
    "tenken/history/propose.py entry": (proposed, True),
    "tenken/history/record_parser.py _direction": (lambda d: record_parser._direction(UNIT[d], "", "") == d, True),
    "tenken/judge/relations.py _only": (lambda d: [m.at["trial"] for m in relations._only(metrics(d), "best")], [BEST]),
    "tenken/judge/relations.py _time": (
        lambda d: int(np.argmax([relations._time(m, 1e4) for m in metrics(d)])), WORST),
    "tenken/judge/bounds.py _limits": (stricter, (True, True)),
    "tenken/parsers/foreign.py metric": (
        lambda d: of(d).index(foreign.metric("x", {"host": 0}, UNIT[d], d, of(d), "median")["best"]), BEST),
    "tenken/reframe/terminal.py _headline": (named, BEST),
    "tenken/report/acceptance.py worst, missed_by, margin, share_of": (
        lambda d: (*worst_part(d)[:3], round(worst_part(d)[3] or 0, 9)), (WORST, [1, WORST, 6], True, 0.6)),
    "tenken/report/acceptance.py decisive": (worse_end, True),
    "tenken/report/contracts.py rule_in_words": (worse_end, True),
    "tenken/report/contracts.py _as_one, _of_reference": (
        lambda d: drafted(d) == ((99.0, 95.0) if d == HIGHER else (100.0, 105.0)), True),
    "tenken/report/rows.py _judge": (judged_row, 0.6),
    "tenken/report/side_by_side.py _grouped": (counting, [WORST, BEST]),
    "tenken/history/siblings.py _drift": (drift, True),
    "tenken/report/signed.py _closest": (closest, 0),
    "tenken/report/page.py _verdict_row": (lambda d: round(row_of_page(d), 9), 0.6),
    "tenken/report/nightly.py _measures": (
        lambda d: night(d) == ((f"{WORST}", f"{BEST}") if d == HIGHER else (f"{BEST}", f"{WORST}")), True),
    "tenken/report/contracts.py bound, sign": (clause, (True, True)),
    "tenken/report/fleet.py row": (row_of, (str(WORST), str(BEST), True)),
    "tenken/report/plots.py _with_best": (
        lambda d: plots._with_best(range(8), 1, lambda n: [SimpleNamespace(  # type: ignore[list-item]
            value=of(d)[n], direction=d, verdict="PASS")]), [BEST]),
    "tenken/report/plots.py _matrix_panel": (darkest, BEST),
    "tenken/report/rows.py share_of": (
        share, 0.6),
    "tenken/report/trends.py _move": (
        lambda d: trends._move(history(d), WORST, 1) < 0 < trends._move(history(d), BEST, 1), True),
}  # fmt: skip


@pytest.mark.parametrize("direction", [HIGHER, LOWER])
@pytest.mark.parametrize("what", COMPARED)
def test_a_comparison_names_the_same_one_of_rates_and_of_times(what: str, direction: str) -> None:
    compared, expected = COMPARED[what]
    found = compared(direction)
    assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected


#: Functions without a comparison of their own, or the tests that fail if theirs is turned round, or made that of rates
#: for times too.
ONLY_RATES = "only rates have such a figure"
PASSED_ON = "passes the direction on"
ELSEWHERE = {
    "tenken/campaign/findings.py take": PASSED_ON,
    "tenken/campaign/screening.py losses": "tests/unit/campaign/test_statistics.py",
    "tenken/campaign/tournament.py usual": "tests/unit/campaign/test_tournament.py",
    "tenken/history/causes.py outliers": PASSED_ON,
    "tenken/history/detect/model.py __init__": PASSED_ON,
    "tenken/history/nights.py higher": "tests/unit/reports/test_energy.py",
    "tenken/history/siblings.py _signed": "tests/unit/reports/test_siblings.py",
    "tenken/judge/bounds.py hold": "tests/unit/test_oracle_judging.py",
    "tenken/judge/bounds.py _judged": "tests/unit/judge/test_complaints.py",
    "tenken/judge/relations.py _between": "tests/unit/judge/test_relations.py",
    "tenken/judge/relations.py _behind": "tests/unit/judge/test_relations.py",
    "tenken/model/engine.py value_of": "tests/unit/model/test_engine.py",
    "tenken/model/kinds.py of_device": ONLY_RATES,
    "tenken/model/record.py typed": "tests/unit/core/test_record.py",
    "tenken/model/record.py _old_judged": "tests/unit/core/test_record.py",
    "tenken/report/acceptance.py _measure": "tests/unit/reports/test_acceptance.py",
    "tenken/report/acceptance.py decide_requirement": "tests/unit/reports/test_acceptance.py",
    "tenken/report/acceptance.py _hold_stable": "tests/unit/reports/test_acceptance.py",
    "tenken/report/compare.py answer": "tests/unit/reports/test_gate.py",
    "tenken/report/contracts.py _check_length": ONLY_RATES,
    "tenken/report/contracts.py _undecidable": ONLY_RATES,
    "tenken/report/contracts.py _of_records": "tests/unit/reports/test_contract.py",
    "tenken/report/contracts.py _worth_a_proposal": ONLY_RATES,
    "tenken/report/fleet.py take": PASSED_ON,
    "tenken/report/plots.py _strip": "which label is kept where they overlap",
    "tenken/report/ratios.py pair": "tests/unit/reports/test_ratio.py",
    "tenken/report/ratios.py values": "tests/unit/reports/test_ratio.py",
    "tenken/report/remaining.py _at_best": "tests/unit/reports/test_remaining.py",
    "tenken/report/side_by_side.py _compared": PASSED_ON,
    "tenken/report/side_by_side.py ratio": "tests/unit/reports/test_side_by_side.py",
}


def comparing() -> set[str]:
    """File and function of every line that compares with a direction."""
    written = re.compile(
        r"direction\)? (?:==|!=) \"(?:higher|lower)\"|if \w*\.?higher(?:_is_better)?\b|_LOWER_IS_BETTER\."
        r"|\bhigher=|reverse=\w*higher"
    )
    found = set()
    for file in (ROOT / "tenken").rglob("*.py"):
        lines = file.read_text().splitlines()
        if not any(map(written.search, lines)):
            continue
        inside = [""] * (len(lines) + 1)
        for node in ast.walk(ast.parse("\n".join(lines))):
            # functions come before those that they contain; the outer one counts
            if isinstance(node, ast.FunctionDef):
                for n in range(node.lineno, (node.end_lineno or 0) + 1):
                    inside[n] = inside[n] or node.name
        found |= {f"{file.relative_to(ROOT)} {inside[n]}" for n, line in enumerate(lines, 1)
                  if written.search(line) and not line.lstrip().startswith("#")}  # fmt: skip
    return found


def test_every_comparison_of_directions_is_here() -> None:
    """A new one is added with its answers for rates and for times."""
    here = {f"{what.split(' ')[0]} {name}" for what in COMPARED for name in what.partition(" ")[2].split(", ")}
    assert sorted(comparing() - here - set(ELSEWHERE)) == []
    assert sorted(set(ELSEWHERE) - comparing()) == []
    for where in ELSEWHERE.values():
        assert not where.startswith("tests/") or (ROOT / where).is_file()
