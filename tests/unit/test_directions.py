"""Which is worse, best, behind: every comparison is made once with rates and once with times, and gives the same
answer.

The times are the inverse of the rates, so both must name the same. If a comparison cannot be called by itself, its
entry states why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tenken.campaign import screening
from tenken.history import nights, propose, record_parser, siblings
from tenken.history.detect import detector, fleet
from tenken.judge import bounds, relations
from tenken.model import engine
from tenken.model.judgement import Limit
from tenken.model.subject import Coordinates, Subject
from tenken.parsers import foreign
from tenken.paths import ROOT
from tenken.reframe import terminal
from tenken.report import acceptance, compare, contracts, plots, rows, side_by_side, trends
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


def best_sample(direction: str) -> int:
    declared: Any = SimpleNamespace(direction=direction, statistic="best", unit=UNIT[direction])
    found = engine.value_of("x", Subject.of({"host": 0}), Coordinates.of({}), of(direction), declared)
    return of(direction).index(found.value)


def requirement(direction: str) -> acceptance.Requirement:
    clause: Any = SimpleNamespace(direction=direction, rule=contracts.VALUE, bound=of(direction)[0])
    parts: Any = [
        SimpleNamespace(values=[value], median=value, low=value, high=value, part=SimpleNamespace(name=str(n)))
        for n, value in enumerate(of(direction))
    ]
    return acceptance.Requirement(clause, parts=parts)


def worst_part(direction: str) -> tuple[int, list[int]]:
    asked = requirement(direction)
    assert asked.worst is not None
    return int(asked.worst.part.name), [n for n, part in enumerate(asked.parts) if asked.missed_by(part)]


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


def row_of(direction: str) -> tuple[str, str]:
    figure = pages.Figure("c", "l", UNIT[direction], direction == HIGHER)
    figure.values = [(value, str(n), "") for n, value in enumerate(of(direction))]
    row = figure.row()
    return row["worst"][1], row["best"][1]


def beside(direction: str) -> bool:
    one, other = of(direction)[BEST], of(direction)[WORST]
    return side_by_side.Beside("", "", "", "", one, other, "", "", direction == HIGHER).ratio > 1


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
    result: Any = SimpleNamespace(limits={"x": Limit(hard, UNIT[direction], "device", said_by=bounds.DEVICE)})
    metric: Any = SimpleNamespace(id="x", kind="gpu", direction=direction)
    sheet = {("memory", "gpu"): Limit(easy, UNIT[direction], "sheet")}
    declared: Any = SimpleNamespace(data_sheet="memory")
    limit, highest = bounds._limits(result, metric, declared, sheet)
    return limit.value == easy, highest == hard


def share(direction: str) -> float | None:
    row: Any = SimpleNamespace(value=of(direction)[WORST], direction=direction)
    return rows.Row.share_of(row, of(direction)[0])


#: File and function: what it returns for values of a direction, and what that must be.
COMPARED: dict[str, tuple[Callable[[str], Any], Any]] = {
    "tenken/model/engine.py value_of": (best_sample, BEST),
    "tenken/campaign/screening.py losses": (
        lambda d: int(np.argmax(screening.losses(screening.Figure("x", np.array(of(d)), d == HIGHER)))), WORST),
    "tenken/history/detect/fleet.py fleet_outliers": (
        lambda d: fleet.fleet_outliers(np.array(of(d)), d == HIGHER).order.tolist(), [WORST]),
    "tenken/history/detect/fleet.py deviation": (
        lambda d: (fleet.fleet_outliers(np.array(of(d)), d == HIGHER).deviation[WORST] > 0) == (d == LOWER), True),
    "tenken/history/detect/model.py Detector": (lambda d: (lost(d)[WORST], lost(d)[BEST]), (True, False)),
    "tenken/history/nights.py higher": (
        lambda d: nights.History.higher.fget(history(d)).tolist() == [d == HIGHER] * len(RATES), True),  # type: ignore[attr-defined]
    "tenken/history/siblings.py _cost": (lambda d: int(np.argmax(siblings._cost(history(d))[:, 1])), WORST),
    "tenken/history/propose.py entry": (proposed, True),
    "tenken/history/record_parser.py _direction": (lambda d: record_parser._direction(UNIT[d], "", "") == d, True),
    "tenken/judge/relations.py _only": (lambda d: [m.at["trial"] for m in relations._only(metrics(d), "best")], [BEST]),
    "tenken/judge/relations.py _time": (
        lambda d: int(np.argmax([relations._time(m, 1e4) for m in metrics(d)])), WORST),
    "tenken/judge/bounds.py _limits": (stricter, (True, True)),
    "tenken/parsers/foreign.py sampled_metric": (
        lambda d: of(d).index(foreign.sampled_metric("x", {"host": 0}, UNIT[d], d, of(d), "median")["best"]), BEST),
    "tenken/reframe/terminal.py _headline": (named, BEST),
    "tenken/report/acceptance.py worst, missed_by": (worst_part, (WORST, [1, WORST, 6])),
    "tenken/report/compare.py answer": (
        lambda d: compare.answer(of(d)[WORST] / of(d)[0], of(d)[WORST] / of(d)[0], d == HIGHER, 0.02), "slower"),
    "tenken/report/contracts.py bound, sign": (clause, (True, True)),
    "tenken/report/fleet.py row": (row_of, (str(WORST), str(BEST))),
    "tenken/report/plots.py _with_best": (
        lambda d: plots._with_best(range(8), 1, lambda n: [SimpleNamespace(  # type: ignore[list-item]
            value=of(d)[n], direction=d, verdict="PASS")]), [BEST]),
    "tenken/report/rows.py share_of": (
        share, 0.6),
    "tenken/report/side_by_side.py ratio": (beside, True),
    "tenken/report/trends.py _move": (
        lambda d: trends._move(history(d), WORST, 1) < 0 < trends._move(history(d), BEST, 1), True),
}  # fmt: skip


@pytest.mark.parametrize("direction", [HIGHER, LOWER])
@pytest.mark.parametrize("what", COMPARED)
def test_a_comparison_names_the_same_one_of_rates_and_of_times(what: str, direction: str) -> None:
    compared, expected = COMPARED[what]
    found = compared(direction)
    assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected


#: Functions without a comparison of their own, or compared in a test of more than one function.
ELSEWHERE = {
    "tenken/campaign/findings.py": "passes it to screening.losses",
    "tenken/history/causes.py": "passes it to fleet_outliers",
    "tenken/model/kinds.py": "only rates have a figure of their kind",
    "tenken/model/record.py": "tests/unit/core/test_record.py",
    "tenken/report/ratios.py": "tests/unit/reports/test_ratio.py",
    "tenken/report/remaining.py": "the best there can be, by the side of the bound",
}


def test_every_comparison_of_directions_is_here() -> None:
    """A new one is added with its answers for rates and for times."""
    written = re.compile(r"direction (?:==|!=) \"(?:higher|lower)\"|if \w*\.?higher(?:_is_better)?\b|_LOWER_IS_BETTER")
    files = {str(f.relative_to(ROOT)) for f in (ROOT / "tenken").rglob("*.py") if written.search(f.read_text())}
    here = {what.split(" ")[0] for what in COMPARED}
    assert sorted(files - here - set(ELSEWHERE)) == []
    assert sorted((here | set(ELSEWHERE)) - files) == []
