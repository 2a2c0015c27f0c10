"""A ratio to a copy of the same run may exceed 1, and is impossible only above what the copy itself could reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.judge.bounds import hold, yardstick
from tenken.model.catalogue import load_catalogue
from tests.support import kept

RECORD = next(r for r in kept.first_runs() if r.base_check == "AccessPatternsQuick" and r.verdict == "PASS")
PROGRAM = load_catalogue()["access_patterns"]
#: 3201 MHz, twice a clock, 6016 bits
PEAK = 2 * 3.201 * 6016 / 8


def ratio(value, copied=None):
    """The verdict on a ratio of `value` to a copy that ran at `copied` GB/s (None: as it did)."""
    result = RECORD.result
    if copied is not None:
        parts = [replace(m, value=copied) if m.name == "device_copy" else m for m in result.metrics]
        result = replace(result, metrics=tuple(parts))
    metric = next(m for m in result.metrics if m.name == "relative")
    metric = replace(metric, value=value, median=value, best=value, p5=value, p95=value, samples=(value,))
    reach = yardstick(result, metric, PROGRAM, {})
    one, findings = hold(result, metric, PROGRAM.metrics["relative"], {}, None, reach, (0.95, ""))
    return one.verdict, " ".join(f.message for f in findings)


@pytest.mark.parametrize("value", [0.96, 1.0, 1.021, 1.05])
def test_another_place_in_memory_is_no_miscounted_byte(value):
    assert ratio(value, copied=4109.0) == ("PASS", "")


@pytest.mark.parametrize(
    ("value", "copied", "said"),
    [
        (0.94, 4109.0, "below 0.95"),
        (1.02 * PEAK / 4109.0 + 0.01, 4109.0, "physical limit 1.17"),
        (2.0, 4109.0, "miscounted bytes"),
        (1.05, 4800.0, "physical limit 1.00"),
        (1.03, 5200.0, "physical limit 1 "),  # a copy beyond its own limit leaves no margin for the ratio
    ],
)
def test_what_the_copy_itself_could_not_reach_is_impossible(value, copied, said):
    verdict, text = ratio(value, copied)
    assert verdict == "FAIL"
    assert said in text


def test_a_limit_that_is_the_rate_of_a_part_has_no_such_reach():
    himeno = load_catalogue()["himeno"]
    record = next(r for r in kept.first_runs() if r.base_check == "Himeno" and r.verdict == "PASS")
    metric = next(m for m in record.result.metrics if m.name == "iteration")
    assert yardstick(record.result, metric, himeno, {}) == 1.0
