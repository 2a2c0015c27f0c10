"""The floor of an LU refers to the products of its run, or to its panels if these take longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.commands.judge import machine_of
from tenken.judge import rejudge
from tenken.model import engine
from tenken.model.catalogue import program as catalogue
from tenken.model.lu import permitted
from tests.support import kept

#: `make run` on an H200 that no system file describes: N = 65536, products at 658.8 TFLOP/s, panels of 348.3 ms.
RECORD = next(r for r in kept.one_user() if r.base_check == "HplMxp")


def judged(rate: float | None = None, **parts: float):
    """The record's value and findings with another rate in TFLOP/s, and other parts in seconds, except those on their
    agreement.
    """
    metrics = []
    for metric in RECORD.result.metrics:
        value = {"hpl_mxp": rate, "phase": parts.get(metric.at.get("part"))}.get(metric.name)
        if value is not None:
            metric = replace(metric, value=value, median=value, best=value, p5=value, p95=value, samples=(value,))
        metrics.append(metric)
    record = replace(RECORD, result=replace(RECORD.result, metrics=tuple(metrics)))
    judgement = rejudge.of_record(record, machine_of(None, RECORD))
    one = next(value for ident, value in judgement.judged.items() if ident.startswith("hpl_mxp."))
    return one, [f for f in judgement.findings if f.kind in ("floor", "relation")]


def of_panels(result, rate):
    return permitted(engine.Run(result, catalogue(result.program), again=False), rate, "panel")


def product() -> float:
    return next(m.value for m in RECORD.result.metrics if m.name == "product")


def test_what_panels_permit_is_the_operations_over_their_time():
    rate = next(m for m in RECORD.result.metrics if m.name == "hpl_mxp")
    panel = next(m.value for m in RECORD.result.metrics if m.name == "phase" and m.at.get("part") == "panel")
    # (2/3) 65536^3 + (3/2) 65536^2 = 187,656,426,924,714.67 operations
    assert of_panels(RECORD.result, rate) == pytest.approx(187.65642692471467 / panel, rel=1e-12)


def test_a_healthy_run_of_panels_is_compared_with_them():
    one, findings = judged()
    assert one.verdict == "PASS" and not findings
    assert one.criterion.low < 0.6 * product()
    assert "what the panels permit where they take longer" in one.criterion.source


def with_refinement(rate: float) -> float:
    """The rate with the time beside the LU: converting the matrix, and refining."""
    beside = sum(
        m.value for m in RECORD.result.metrics if m.name == "phase" and m.at.get("part") in ("convert", "refine")
    )
    assert 0.04 < beside < 0.08  # s, of 0.46
    return 187.65642692471467 / (187.65642692471467 / rate + beside)


def test_hidden_panels_leave_the_products():
    one, _ = judged(panel=0.1)
    assert one.criterion.low == pytest.approx(0.6 * with_refinement(product()))


@pytest.mark.parametrize(("panel", "share"), [(0.1, 1), (0.35, 0.8)])
def test_a_slow_run_fails_whatever_its_panels(panel, share):
    one, findings = judged(rate=0.59 * with_refinement(share * product()), panel=panel)
    assert one.verdict == "FAIL" and any("at least" in f.message for f in findings)


def test_a_slow_refinement_fails():
    """Ten times as long, as by a solver that repeats it, which the products do not show."""
    found = {m.at.get("part"): m.value for m in RECORD.result.metrics if m.name == "phase"}
    rate = next(m.value for m in RECORD.result.metrics if m.name == "hpl_mxp")
    operations = 187.65642692471467
    one, findings = judged(rate=operations / (operations / rate + 9 * found["refine"]), refine=10 * found["refine"])
    assert one.verdict == "FAIL" and any("at least" in f.message for f in findings)


def test_a_run_of_panels_alone_is_not_held_against_products():
    permitted = 0.69 * product()
    one, _ = judged(panel=187.65642692471467 / permitted)
    assert one.criterion is None and one.verdict == "RECORDED"


def test_slow_updates_fail_however_slow_the_panels_are():
    """All parts twice as long: no floor applies to the rate, but the updates are products."""
    parts = {m.at["part"]: m.value for m in RECORD.result.metrics if m.name == "phase"}
    rate = next(m.value for m in RECORD.result.metrics if m.name == "hpl_mxp")
    one, findings = judged(rate=rate / 2, panel=2 * parts["panel"], update=2 * parts["update"])
    assert one.criterion is None and one.verdict == "FAIL"
    assert [f.verdict for f in findings] == ["FAIL"] and "its updates are products" in findings[0].message
    assert not judged(panel=2 * parts["panel"])[1]


def test_without_phases_nothing_is_known_of_panels():
    metrics = tuple(m for m in RECORD.result.metrics if m.name != "phase")
    rate = next(m for m in metrics if m.name == "hpl_mxp")
    assert of_panels(replace(RECORD.result, metrics=metrics), rate) is None
