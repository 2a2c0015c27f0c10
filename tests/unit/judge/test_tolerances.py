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
