"""Limits, criteria and verdicts as records state them, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tenken.counters import Change
from tenken.judge import verdict
from tenken.judge.bounds import LIMITED_BY_OPERATOR, NOTE, UNSTEADY
from tenken.model import judgement as model
from tenken.model.judgement import Criterion, Finding, JudgedMetric, Judgement, Limit
from tenken.model.subject import Subject


@pytest.mark.parametrize(("raw", "limit"), [
    ({"unknown": "no sheet"}, Limit(None, unknown="no sheet")),
    ({"unknown": "x", "value": None}, Limit(None, unknown="x")),
    ({"value": 5, "unit": "s", "basis": "text"}, Limit(5.0, "s", "text", "result")),
    ({"value": 5, "unit": "s", "basis": "data sheet: H200"}, Limit(5.0, "s", "data sheet: H200", "data sheet")),
    ({"value": 5, "unit": "s", "basis": "attribute: x", "said_by": "result"}, Limit(5.0, "s", "attribute: x",
     "device's own claim")),
    ({"value": 5, "unit": "s", "basis": "driver: x"}, Limit(5.0, "s", "driver: x", "device's own claim")),
    ({"value": 5, "unit": "s", "basis": "measured: x"}, Limit(5.0, "s", "measured: x", "same run")),
    ({"value": 5, "unit": "s", "basis": "measured: x", "said_by": "data sheet"}, Limit(5.0, "s", "measured: x",
     "data sheet")),
    ({"value": 5, "unit": "s", "basis": "x", "unknown": "y"}, Limit(5.0, "s", "x", "result")),
])  # fmt: skip
def test_a_limit_has_the_source_that_its_basis_begins_with(
    raw: Any, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_LIMITS", {})
    assert Limit.of(raw) == limit and Limit.of(dict(raw)) is Limit.of(raw)
    assert Limit.of(limit.as_json()) == limit
    assert Limit(None).as_json() == {"unknown": "no reason given"}


def test_so_many_limits_are_remembered_and_none_by_what_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_LIMITS", {})
    monkeypatch.setattr(model, "_REMEMBERED", 2)
    for value in (1, 2, 3):
        Limit.of({"value": value, "unit": "s", "basis": "x"})
    Limit.of({"value": True, "unit": "s", "basis": "y"})
    assert sorted(limit.value or 0 for limit in model._LIMITS.values()) == [1.0, 2.0]
    monkeypatch.setattr(model, "_LIMITS", {})
    # 1, 1.0 and True are equal as keys
    assert (
        Limit.of({"value": 1, "unit": 1, "basis": "x"}).unit == "1"
        and Limit.of({"value": True, "unit": "s", "basis": "x"}).value == 1.0
    )
    assert model._LIMITS == {}
    assert Limit.of({"value": "5", "unit": "s", "basis": ["x"]}).basis == "['x']" and model._LIMITS == {}


CRITERION = {"kind": "floor", "value": 5, "low": 1, "high": None, "unit": "s", "statistic": "best", "source": "x"}
JUDGED = {
    "verdict": "PASS", "value": 4, "unit": "s", "direction": "lower", "statistic": "best", "criterion": CRITERION,
    "limit": {"value": 5, "unit": "s", "basis": "measured: x"}, "efficiency": 0.8, "bounds": [1, None],
}  # fmt: skip


@pytest.mark.parametrize("change", [
    {"bounds": ["1", 2]}, {"bounds": [1, "2"]}, {"efficiency": "0.8"}, {"verdict": "GOOD"},
    {"bounds": [1]}, {"value": "x"},
    {"criterion": {**CRITERION, "low": "1"}}, {"criterion": {**CRITERION, "high": "1"}},
    {"criterion": {"kind": "floor"}},
])  # fmt: skip
def test_what_is_malformed_in_a_judged_value_is_refused(change: Any) -> None:
    made = JudgedMetric.of(JUDGED)
    assert made.bounds == (1, None) and made.as_json() == {
        **JUDGED,
        "limit": {**JUDGED["limit"], "said_by": "same run"},
    }  # type: ignore[dict-item]
    with pytest.raises((TypeError, ValueError, KeyError)):
        JudgedMetric.of({**JUDGED, **change})


@pytest.mark.parametrize(("kind", "said_by", "absolute"), [
    ("", "", False), ("relation", "data sheet", False), ("floor", "same run", False), ("floor", "data sheet", True),
    ("reference", "same run", True), ("contract", "same run", True), ("kind", "same run", True),
])  # fmt: skip
def test_a_criterion_within_the_run_is_not_absolute(kind: str, said_by: str, absolute: bool) -> None:
    criterion = Criterion(kind, 1.0, 1.0, None, "s", "best", "x") if kind else None
    assert (
        JudgedMetric(
            "PASS", 1.0, "s", "higher", "best", criterion, Limit(1.0, "s", "x", said_by), None, (None, None)
        ).absolute
        == absolute
    )


def test_a_finding_is_one_line_and_says_what_it_is_about() -> None:
    one = Finding("FAIL", "a\nb\x1b[31m", "m", Subject("gpu", 3), "n", 1.0, "s", 2.0, 0.5, "floor")
    assert "\n" not in one.message and "\x1b" not in one.message and one.message.startswith("a b")
    assert one.as_json()["subject"] == {"gpu": 3} and Finding.of(one.as_json()) == one
    assert Finding.of({"verdict": "FAIL", "message": "x"}) == Finding("FAIL", "x")
    whole = Judgement("FAIL", (Finding("RECORDED", "note"), Finding("FAIL", "one"), Finding("FAIL", "two")))
    assert whole.message() == "one; two"


# ---- the verdict of a run


def judged(verdict: str, absolute: bool = True) -> JudgedMetric:
    criterion = Criterion("reference" if absolute else "relation", 1.0, 1.0, None, "s", "best", "x")
    return JudgedMetric(verdict, 1.0, "s", "higher", "best", criterion, Limit(None), None, (None, None))


@pytest.mark.parametrize(("found", "misses", "values", "expected"), [
    ([], [], ["PASS"], "PASS"), ([], [], ["PASS", "RECORDED"], "PASS"), ([], [], ["RECORDED"], "RECORDED"),
    ([], [], [], "RECORDED"),
    ([("FAIL", "")], [("INVALID", "")], ["PASS"], "FAIL"), ([("INVALID", "")], [("FAIL", "")], ["PASS"], "INVALID"),
    ([], [("FAIL", ""), ("INVALID", UNSTEADY)], ["PASS"], "FAIL"), ([], [("INVALID", UNSTEADY)], ["PASS"], "INVALID"),
    ([("INVALID", UNSTEADY)], [], ["PASS"], "PASS"), ([], [("RECORDED", "")], ["PASS"], "RECORDED"),
    ([("RECORDED", NOTE)], [], ["PASS"], "PASS"), ([("RECORDED", LIMITED_BY_OPERATOR)], [], ["PASS"], "RECORDED"),
])  # fmt: skip
def test_faults_decide_before_conditions_and_these_before_values(found, misses, values, expected) -> None:
    made = [[Finding(verdict, "x", kind=kind) for verdict, kind in part] for part in (found, misses)]
    assert verdict._verdict(*made, {str(i): judged(one) for i, one in enumerate(values)}) == expected
    if values == ["PASS"] and expected == "PASS":
        assert verdict._verdict(*made, {"a": judged("PASS", absolute=False)}) == "RECORDED", (
            "only consistent with itself"
        )


@pytest.mark.parametrize(("before", "further", "after"), [
    ("PASS", [("FAIL", "")], "FAIL"), ("PASS", [("FAIL", NOTE)], "PASS"), ("FAIL", [("INVALID", "")], "FAIL"),
    ("PASS", [("INVALID", "")], "INVALID"), ("WAIVED", [("FAIL", "")], "WAIVED"), ("PASS", [], "PASS"),
    ("RECORDED", [("RECORDED", NOTE)], "RECORDED"),
])  # fmt: skip
def test_further_findings_can_only_worsen_a_verdict(before: str, further: Any, after: str) -> None:
    first = Judgement(before, (Finding(before, "first"),))
    made = verdict.extended(first, [Finding(one, "more", kind=kind) for one, kind in further])
    assert made.verdict == after and [one.message for one in made.findings] == ["first", *["more"] * len(further)]


def test_a_result_without_its_request_cannot_pass() -> None:
    for before in ("FAIL", "INVALID", "RECORDED", "WAIVED"):
        one = Judgement(before, (Finding(before, "x"),))
        assert verdict.unrequested(one) is one
    made = verdict.unrequested(Judgement("PASS", (Finding("RECORDED", "x", kind=NOTE),)))
    assert made.verdict == "RECORDED" and [f.message.split(":")[0] for f in made.findings] == [
        "x",
        "judged without its request",
    ]


@pytest.mark.parametrize(("value", "low", "high", "within"), [
    (1.0, 1.0, 2.0, True), (2.0, 1.0, 2.0, True), (0.9, 1.0, None, False), (2.1, None, 2.0, False),
    (5.0, None, None, True),
])  # fmt: skip
def test_a_bound_that_is_met_exactly_is_met(value: float, low: Any, high: Any, within: bool) -> None:
    assert verdict._within(value, Criterion("relation", 1.0, low, high, "s", "best", "x")) == within


def test_ports_that_tell_nothing_are_notes_and_names_of_many_are_counted() -> None:
    def port(number: int, **also: Any) -> Change:
        return Change(f"n{number}", "p", "infiniband", 400.0, 1.0, also.pop("errors", {}), {}, **also)

    known = [port(1, errors={"link_downed": 2}), port(2, errors={"link_downed": None})]
    unknown = [port(number, optics={"why": "not_root"}) for number in (3, 4, 5)]
    found = list(verdict.of_ports([*known, *unknown], unread=True))
    assert [(one.verdict, one.node, one.kind) for one in found] == [
        ("FAIL", "n1", "ports"), ("RECORDED", "n2", NOTE), ("RECORDED", "", NOTE), ("RECORDED", "", NOTE),
    ]  # fmt: skip
    assert found[1].message == "n2: port p: unknown (missing, saturated or reset): link_downed"
    assert found[2].message == "ports: optics and corrected errors of n3 p, n4 p and 1 more: not known: not root"
    assert found[3].message.startswith("ports: not read by a rank")


def test_a_metric_of_which_no_reference_applies_is_noted_once() -> None:
    metrics = [
        SimpleNamespace(id=f"m{i}", name=name, kind="gpu") for i, name in enumerate(("triad", "triad", "copy", "add"))
    ]
    result: Any = SimpleNamespace(metrics=metrics, node="n1")
    machine: Any = SimpleNamespace(unmatched=lambda result, metric: "" if metric.name == "add" else "has another size")
    reference, relation = judged("PASS"), judged("PASS", absolute=False)
    found = verdict._unmatched(result, machine, {"m0": relation, "m1": relation, "m2": relation, "m3": relation})
    assert [one.message for one in found] == ["n1: no reference of triad (gpu), copy (gpu) has another size"]
    found = verdict._unmatched(result, machine, {"m0": relation, "m1": reference, "m2": relation, "m3": relation})
    assert [one.message for one in found] == ["n1: no reference of copy (gpu) has another size"]
