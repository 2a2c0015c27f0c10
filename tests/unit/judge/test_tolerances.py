"""At its bound a value passes, and just beyond it fails: each verification, sign, maximum, limit and criterion."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import bounds, completeness
from tenken.model import catalogue
from tenken.model import result as results
from tenken.model.catalogue import Program
from tenken.model.judgement import CEILING, DEVICE, FLOOR, REFERENCE, SAME_RUN, Criterion, Limit
from tenken.model.kinds import NEAREST, Known
from tenken.model.machine import Machine
from tenken.model.result import MetricValue, Result
from tenken.model.subject import Subject
from tests.support import honest

#: Relative difference of two errors that the judge must distinguish.
NEXT = 1e-8


def parsed(name: str) -> tuple[Result, Program]:
    run = honest.run(name)
    return results.parse(run.text, "result.json"), catalogue.program(run.request.program)


def with_error(result: Result, number: int, error: float) -> Result:
    checks = list(result.verification.checks)
    checks[number] = replace(checks[number], error=error)
    return replace(result, verification=replace(result.verification, checks=tuple(checks)))


def refused(result: Result, program: Program) -> list[str]:
    return [one for one in completeness.verifications(result, program) if "failed: error" in one]


def first_of_each(result: Result, program: Program) -> Iterator[tuple[int, float]]:
    """One check of each declared verification, and its declared tolerance."""
    seen = set()
    for number, check in enumerate(result.verification.checks):
        found = program.contract.find(check)
        if found is not None and found[0] not in seen:
            seen.add(found[0])
            yield number, program.contract.verifications[found[0]].tolerance


@pytest.mark.parametrize("name", sorted(honest.CHOSEN))
def test_an_error_just_above_is_refused_and_one_just_below_passes(name: str) -> None:
    result, program = parsed(name)
    tried = 0
    for number, tolerance in first_of_each(result, program):
        if tolerance > 1e300:
            continue  # anything finite
        above = tolerance * (1 + NEXT) if tolerance else math.ulp(0.0)
        assert refused(with_error(result, number, above), program), result.verification.checks[number]
        assert not refused(with_error(result, number, tolerance * (1 - NEXT)), program)
        tried += 1
    assert tried or not result.verification.checks


@pytest.mark.parametrize("name", sorted(catalogue.of_suite()))
def test_each_value_is_held_at_its_ends(name: str) -> None:
    program, one = catalogue.program(name), parsed("stream")[0].metrics[0]
    for key, declared in program.metrics.items():
        least = {"any": -1.0, "positive": 5e-324}.get(declared.sign, 0.0)
        most = declared.maximum if declared.maximum is not None else 1e300
        for value, wrong in ((least, 0), (most, 0), (-5e-324, least >= 0), (0.0, least > 0), (2 * most, most < 1e300)):
            said = (declared.unit, declared.direction, declared.statistic)
            numbers = dict.fromkeys(("value", "best", "median", "p5", "p95"), value)
            metric = replace(one, name=key, unit=said[0], direction=said[1], statistic=said[2], samples=(value,),
                             subject=Subject(declared.per[0], 0, 1), **numbers)  # fmt: skip
            assert bool(completeness._metric_structure(metric, program)) == wrong, (key, value)


def valued(value: float, direction: str = "higher", **changed: Any) -> tuple[Result, MetricValue]:
    """A run whose only metric has this value in all of its samples, and the limit 100."""
    result = parsed("stream")[0]
    numbers: dict[str, Any] = dict.fromkeys(("value", "best", "median", "p5", "p95"), value)
    one = replace(result.metrics[0], direction=direction, **{**numbers, "samples": (value,) * 9, **changed})
    limit = Limit(100.0, one.unit, "device", DEVICE)
    return replace(result, metrics=(one,), limits={one.id: limit}), one


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize(
    ("kind", "higher", "lower"), [(FLOOR, 50, 200), (REFERENCE, 80, 125), (CEILING, 102, 100 / 1.02)]
)
def test_each_criterion_is_held_at_its_end(kind: str, higher: float, lower: float, direction: str) -> None:
    bound = higher if direction == "higher" else lower
    beyond = 1 if (direction == "higher") == (kind == CEILING) else -1
    declared: Any = SimpleNamespace(sheet_key=lambda *_: "", data_sheet="", allowed_spread=lambda *_: None)
    for share, expected in ((-NEXT, []), (0.0, []), (NEXT, [kind])):
        result, one = valued(bound * (1 + beyond * share), direction)
        low, high = (bound, 101) if direction == "higher" else (99, bound)  # a reference has two ends
        known = Criterion(REFERENCE, 100, low, high, one.unit, "median", "x") if kind == REFERENCE else None
        judged, found = bounds.hold(result, one, declared, {}, known, floor=(0.5, "") if kind == FLOOR else None)
        assert [f.kind for f in found] == expected, share
        assert judged.verdict == ("FAIL" if expected else "RECORDED" if kind == CEILING else "PASS")
        ends = (None, 102) if direction == "higher" else (100 / 1.02, None)
        held = (low, high) if known else tuple(bound if kind == FLOOR and end is None else end for end in ends)
        assert judged.bounds == pytest.approx(held)
        # a ratio to a slow copy may exceed its limit by what the copy could have reached
        if kind == CEILING and direction == "higher":
            result, one = valued(1.25 * bound * (1 + share))
            assert [f.kind for f in bounds.hold(result, one, declared, {}, None, 1.25)[1]] == expected, share


@pytest.mark.parametrize(("low", "held"), [(49.0, FLOOR), (50.0, FLOOR), (51.0, "kind"), (None, FLOOR)])
def test_what_other_devices_reach_counts_if_it_is_stricter_than_the_floor(low: float | None, held: str) -> None:
    result, one = valued(60)
    declared: Any = SimpleNamespace(sheet_key=lambda *_: "", data_sheet="", allowed_spread=lambda *_: None)
    kind = Criterion("kind", 60, low, None, one.unit, "median", "x")
    known = Criterion(REFERENCE, 60, 1.0, None, one.unit, "median", "x")
    for floor, of, expected in (((0.5, ""), None, held), (None, None, "kind"), ((0.5, ""), known, REFERENCE)):
        judged, _ = bounds.hold(result, one, declared, {}, of, floor=floor, kind=kind)
        assert judged.criterion is not None and judged.criterion.kind == expected
    for wrong in (replace(known, unit="TB/s"), None):  # in another unit, nothing is compared
        limit = Limit(100.0, "TB/s" if wrong is None else one.unit, "device", DEVICE)
        judged, found = bounds.hold(replace(result, limits={one.id: limit}), one, declared, {}, wrong)
        assert judged.verdict == "FAIL" and "GB/s but its" in found[0].message


def test_a_value_below_all_known_devices_is_a_note() -> None:
    few = Known("GB/s", ((100.0,), (110.0,)), 1)
    for value, noted in ((100 * (1 - NEAREST), False), (100 * (1 - NEAREST) * (1 - NEXT), True)):
        result, one = valued(value)
        assert bool(bounds.below_kind(few, result, one, "x")) is noted
        assert bounds.below_kind(None, result, one, "x") == []


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("good", "bad", "near", "best", "verdict"), [
    (2, 6, 0.0, 1.0, "INVALID"), (1, 7, 0.0, 1.0, "FAIL"), (2, 7, 0.0, 1.0, "FAIL"), (2, 5, 0.0, 1.0, "FAIL"),
    (2, 6, -NEXT, 1.0, "FAIL"), (2, 6, 0.0, NEXT, "INVALID"), (2, 6, 0.0, 0.0, "FAIL"),
])  # fmt: skip
def test_a_quarter_of_eight_samples_or_more_near_the_reference_is_noise(
    good: int, bad: int, near: float, best: float, verdict: str, sign: int
) -> None:
    """The reference is 64, a quarter less or more its bound; the median is a quarter from the best."""
    middle, top = (45.0, 60.0) if sign == 1 else (85.0, 68.0)
    samples = (64 - 4 * sign + sign * near,) * good + (middle,) * bad
    result, one = valued(middle, "higher" if sign == 1 else "lower", samples=samples, best=top + sign * best)
    low, high = (48.0, None) if sign == 1 else (None, 80.0)
    criterion = Criterion(REFERENCE, 64.0, low, high, one.unit, "median", "x")
    (found,) = bounds._held(result, one, criterion, one.value, "median")
    said = bounds._unless_unsteady(found, one, criterion, "median")
    assert said.verdict == verdict
    if verdict == "INVALID":
        assert f"{good} of {good + bad} samples reach 6" in said.message
        assert f"are {100 * one.spread:.1f} % apart, more than the 25.0 % permitted" in said.message


@pytest.mark.parametrize(("claim", "changed", "yardstick", "ceiling"), [
    (75.0, {}, 75, 100), (74.99, {}, 100, 100), (125.0, {}, 100, 125), (125.01, {}, 100, 100),
    (125.0, {"direction": "lower"}, 125, 100), (None, {}, 100, 100), (90.0, {"said_by": SAME_RUN}, 100, 100),
    (50.0, {"data_sheet": bounds.HOST_LINK}, 50, 100), (90.0, {"unit": "TB/s"}, 90, 90),
    # of products the attributes count, below the sheet too, unless the maker holds the rate down
    (125.0, {"data_sheet": bounds.RATE}, 125, 125), (125.01, {"data_sheet": bounds.RATE}, 100, 125.01),
    (80.0, {"data_sheet": bounds.RATE}, 80, 80), (None, {"data_sheet": bounds.RATE}, None, None),
])  # fmt: skip
def test_of_sheet_and_device_which_is_the_yardstick(
    claim: float | None, changed: dict[str, str], yardstick: float | None, ceiling: float | None
) -> None:
    result, one = valued(1.0, changed.get("direction", "higher"))
    said = Limit(claim, changed.get("unit", one.unit), "device", changed.get("said_by", DEVICE))
    declared: Any = SimpleNamespace(sheet_key=lambda *_: "x", data_sheet=changed.get("data_sheet", "memory"))
    sheets = {("x", one.kind): Limit(100.0, one.unit, "sheet")}
    found, highest = bounds._limits(replace(result, limits={one.id: said}), one, declared, sheets)
    assert (found.value, highest) == (yardstick, ceiling)


@pytest.mark.parametrize(("clock", "is_set"), [(0.98, False), (0.9799, True), (0.3001, True), (0.3, False)])
def test_a_clock_is_set_between_three_tenths_and_all_but_two_per_cent(clock: float, is_set: bool) -> None:
    entry, device = parsed("stream")[0].health.devices[0], parsed("stream")[0].devices[0]
    top = 1000.0
    low = replace(entry.worst, sm_clock_mhz=clock * top, reasons=("applications_clocks_setting",))
    assert (bounds._set(replace(entry, worst=low), top) is not None) is is_set
    assert bounds._set(replace(entry, worst=replace(low, sm_clock_mhz=None)), top) is None, "the clock was not read"
    entry, device = replace(entry, before=low, worst=low, after=low), replace(device, sm_clock_max_mhz=top)
    assert (bounds.locked(entry, device) is not None) is is_set
    assert bounds.locked(entry, replace(device, sm_clock_max_mhz=None)) is None, "nor its maximum"
    for at in ("before", "worst", "after"):  # all three, and within two per cent of each other
        for other in (None, clock * top * 0.979):
            one = replace(entry, **{at: replace(low, sm_clock_mhz=other)})
            assert bounds.locked(one, device) is None, (at, other)


@pytest.mark.parametrize(
    ("links", "share", "source"),
    [
        ([], 0.30, "; of a pair"),
        (["NVLink"], 0.45, "; of a bridge"),
        (["NVLink through a switch", "NVLink"], 0.45, "; of a bridge"),
        (["PCIe"], 0.30, "; of a pair"),
        (["NVLink", "PCIe"], 0.30, "; of a pair"),
    ],
)
def test_a_pair_has_the_share_of_what_joins_it(links: list[str], share: float, source: str) -> None:
    """Half of what healthy pairs attain: 0.9 by NVLink, 0.6 otherwise."""
    attained = {("gpu_link", "NVLink"): (0.9, "of a bridge"), ("gpu_link", "pair"): (0.6, "of a pair")}
    metric: Any = SimpleNamespace(kind="pair", subject=Subject("pair", 1, 0))
    declared: Any = SimpleNamespace(floors={"pair": SimpleNamespace(of="gpu_link", times=0.5, formula=None)}, floor={})
    joined = [SimpleNamespace(first=0, second=1, kind=one) for one in links]
    joined.append(SimpleNamespace(first=0, second=2, kind="NVLink"))
    result = SimpleNamespace(links=joined, device=lambda gpu: None)
    run: Any = SimpleNamespace(result=result, program=SimpleNamespace(tables={"attained": {"gpu_link": 0.1}}))
    assert bounds._share(run, metric, declared, Machine(attained=attained)) == (pytest.approx(share), source)
    assert bounds._share(run, metric, declared, Machine()) == (pytest.approx(0.05), "")
