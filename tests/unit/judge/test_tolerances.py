"""For every verification of the kept runs: an error just above its tolerance is FAIL, one just below passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenken.judge import completeness
from tenken.model import catalogue
from tenken.model import result as results
from tenken.model.catalogue import Program
from tenken.model.result import Result
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
