"""What metrics.yaml declares of values, and what records of version 1 stated, read by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.errors import CatalogueError
from tenken.model import contract, derivation, engine, expectation
from tenken.model import record as records
from tenken.model.contract import Counted, Listed, Sweep, With
from tenken.model.formula import Formula

FUNCTIONS = {"steps": lambda run, one: (1, 2)}
PER = ("gpu", "pair")


def one(**raw: Any) -> expectation.Expectation:
    (found,) = expectation.expectations([{"source": "s", **raw}], PER, "here", FUNCTIONS.get)
    return found


def texts(formulas: tuple[Formula, ...]) -> list[str]:
    return [formula.text for formula in formulas]


def test_an_expectation_has_what_it_states_and_otherwise_what_is_usual() -> None:
    plain = one(at_least="0.9 * a")
    assert (texts(plain.low), plain.high, plain.source, plain.of, plain.verdict) == (["0.9 * a"], (), "s", PER, "FAIL")
    assert (plain.function, plain.sweep, plain.times, plain.value) == (None, "", 1.0, None)
    assert (plain.where, plain.only, plain.claimed, plain.not_in, plain.proof) == ({}, "", "", (), "")
    full = one(
        at_most=["b", 5], at_least="a", value="provenance.x", of=["gpu"], where={"n": 4, "kind": ["x", "y"]},
        only="bytes", claimed="peer", not_in=["quick"], verdict="RECORDED", proof="rounds",
    )  # fmt: skip
    assert (texts(full.high), texts(full.low), full.value and full.value.text) == (["b", "5"], ["a"], "provenance.x")
    assert (full.of, full.where, full.only, full.claimed) == (
        ("gpu",),
        {"n": (4,), "kind": ("x", "y")},
        "bytes",
        "peer",
    )
    assert (full.not_in, full.verdict, full.proof) == (("quick",), "RECORDED", "rounds")
    assert one(function="steps").function is FUNCTIONS["steps"]
    sweep = one(between={"of": "bytes", "times": 1.25}, verdict="INVALID", proof="pairs")
    assert (sweep.sweep, sweep.times, sweep.verdict, sweep.proof) == ("bytes", 1.25, "INVALID", "pairs")


@pytest.mark.parametrize(("raw", "says"), [
    ({"at_least": 1, "extra": 1}, "allowed: a map of at_least, at_most"),
    ({"at_least": 1, "source": ""}, "source is missing"),
    ({"at_least": 1, "source": None}, "source is missing"),
    ({"value": "a"}, "one of at_least, at_most, function, between is required"),
    ({"at_least": 1, "verdict": "PASS"}, "verdict is 'PASS'; allowed: FAIL, INVALID, RECORDED"),
    ({"at_least": 1, "proof": "all"}, "proof is 'all'; allowed: pairs, rounds"),
    ({"at_least": 1, "of": ["host"]}, r"of is \['host'\]; the metric is reported for gpu, pair"),
    ({"between": {"of": "bytes", "times": 1}}, "between is .*; allowed: a map of of"),
    ({"between": {"of": "bytes"}}, "between is"), ({"between": "bytes"}, "between is 'bytes'"),
    ({"between": {"of": "b", "times": 2, "x": 1}}, "between is"), ({"at_least": "a +"}, r"'a \+' is not a formula"),
])  # fmt: skip
def test_an_expectation_that_cannot_be_read_is_refused(raw: Any, says: str) -> None:
    with pytest.raises(CatalogueError, match=rf"^here: expect: .*{says}"):
        one(**raw)


@pytest.mark.parametrize("raw", ["a", {"at_least": 1}, None])
def test_expectations_are_a_list_of_maps(raw: Any) -> None:
    with pytest.raises(CatalogueError, match="here: expect is"):
        expectation.expectations(raw, PER, "here", FUNCTIONS.get)
    with pytest.raises(CatalogueError, match=r"here: expect: 'a'; allowed: a map of"):
        expectation.expectations(["a"], PER, "here", FUNCTIONS.get)


def test_a_sample_counts_what_is_declared_within_a_hundredth() -> None:
    found = list(expectation.counting({"bytes": "2 * a", "operations": "a"}, PER, "here"))
    assert [(texts(x.low), texts(x.high), x.value and x.value.text) for x in found] == [
        (["(2 * a) * 0.99"], ["(2 * a) * 1.01"], "count.bytes"), (["(a) * 0.99"], ["(a) * 1.01"], "count.operations"),
    ]  # fmt: skip
    assert found[0].of == PER and found[0].source == "a sample counts 2 * a bytes: the program miscounts"
    for raw, says in (
        ([], "work is"),
        ({"bytes": 2}, "work is"),
        ({"words": "a"}, "work names 'words'; allowed: bytes"),
    ):
        with pytest.raises(CatalogueError, match=says):
            list(expectation.counting(raw, PER, "here"))


# ---- derived values and limits


@pytest.mark.parametrize(("raw", "over", "formula", "where", "without", "samples"), [
    ("a / b", "a", "a / b", {}, (), False), ({"formula": "1 / b(n=2)", "over": "c"}, "c", "1 / b(n=2)", {}, (), False),
    ({"formula": "b", "where": {"n": [1, 2], "k": "x"}, "without": ["n"], "each": "samples"}, "b", "b", {"n": (1, 2),
     "k": ("x",)},
     ("n",), True), (5, None, None, None, None, None),
])  # fmt: skip
def test_a_value_is_derived_where_its_first_metric_is(raw, over, formula, where, without, samples) -> None:
    if over is None:
        with pytest.raises(CatalogueError, match="names no metric; over states where it is formed"):
            derivation.derivation(raw, "x", None, "here")
        return
    found = derivation.derivation(raw, "x", None, "here")
    assert found is not None and found.formula is not None
    assert (found.over, found.formula.text, found.where, found.without, found.of_samples) == (
        over,
        formula,
        where,
        without,
        samples,
    )


@pytest.mark.parametrize("raw", [{"over": "a"}, {"formula": "a", "extra": 1}, {"formula": "a", "each": "run"}])
def test_a_derivation_that_cannot_be_read_is_refused(raw: Any) -> None:
    with pytest.raises(CatalogueError, match=r"derive is .*; allowed: a formula, function, or formula, over"):
        derivation.derivation(raw, "x", None, "here")
    assert derivation.derivation(None, "x", None, "here") is None


def test_functions_are_those_of_derived_py(tmp_path: Path) -> None:
    folder = tmp_path / "prog"
    folder.mkdir()
    with pytest.raises(CatalogueError, match=r"there is no derived\.py next to it"):
        derivation.derivation("function", "x", folder, "here")
    (folder / "derived.py").write_text("def x(run): return 7\ndef limit_x(run, one): return [9]\nother = 3\n")
    made = derivation.derivation("function", "x", folder, "here")
    assert made is not None and made.function is not None and made.function(None) == 7  # type: ignore[call-arg]
    rules, _ = derivation.limit_rules({"value": "function", "basis": "b"}, ("gpu",), {}, "here", "x", folder)
    assert rules["gpu"].function is not None and list(rules["gpu"].function(None, None)) == [9]
    for name in ("other", "none"):
        with pytest.raises(CatalogueError, match=rf"prog/derived\.py has no function {name}"):
            derivation.named_function(folder, name, "here")
    with pytest.raises(CatalogueError, match=r"allowed only next to a metrics\.yaml"):
        derivation.named_function(None, "x", "here")


def test_limits_are_rules_by_subject_or_the_reason_for_none() -> None:
    common = {"peak": {"value": ["a", "b"], "basis": "sheet", "by": "same run", "unknown": "no sheet"}}
    rules, why = derivation.limit_rules("peak", PER, common, "here")
    assert [texts(rules[kind].values) for kind in PER] == [["a", "b"], ["a", "b"]]
    assert why == {"gpu": "no sheet", "pair": "no sheet"} and rules["gpu"].basis == "sheet"
    rules, why = derivation.limit_rules({"gpu": {"value": "a", "basis": "x"}}, PER, common, "here")
    assert list(rules) == ["gpu"] and why == {"gpu": "what it follows from is not known", "pair": "none is known"}
    assert derivation.limit_rules("none: it is a count", PER, common, "here") == (
        {},
        dict.fromkeys(PER, "it is a count"),
    )
    assert derivation.limit_rules("none", PER, common, "here") == ({}, dict.fromkeys(PER, "none"))
    for raw, says in (("top", "limit is 'top'; allowed: none and why, or one of peak"), ({"value": "a"}, "limit is"),
                      ({"value": "a", "basis": "x", "by": "me"}, "by is 'me'; allowed: "),
                      ({"value": "a", "basis": "x", "z": 1}, "limit is")):  # fmt: skip
        with pytest.raises(CatalogueError, match=says):
            derivation.limit_rules(raw, PER, common, "here")


# ---- records of version 1


@pytest.mark.parametrize(("raw", "subject", "node"), [
    ({"subject": "node1 GPU 0"}, {"gpu": 0}, "node1"), ({"subject": "node1 GPU 0->3"}, {"from": 0, "to": 3}, "node1"),
    ({"subject": "n host"}, {"host": 0}, "n"), ({"subject": "n 8 ranks"}, {"ranks": 8}, "n"),
    ({"subject": "node1"}, None, "node1"),
    ({"subject": None}, None, ""), ({"subject": "n host", "metric": "triad.gpu2"}, {"gpu": 2}, "n"),
])  # fmt: skip
def test_a_finding_of_version_1_has_its_node_and_subject(raw: Any, subject: Any, node: str) -> None:
    found = records._old_finding(raw)
    assert (found["subject"], found["node"]) == (subject, node)


@pytest.mark.parametrize(("raw", "kind", "verdict", "bounds"), [
    ({"basis": "reference", "reference": {"value": 5, "unit": "s", "source": "x"}}, "reference", "PASS", (1, 2)),
    ({"basis": "reference", "reference": None}, None, "RECORDED", None),
    ({"basis": "other", "reference": {"value": 5, "unit": "s", "source": "x"}}, None, "RECORDED", None),
    ({"basis": "limit floor", "limit": {"value": 9, "basis": "sheet"}}, "floor", "PASS", (1, None)),
    ({"basis": "limit floor", "limit": {"value": 9, "basis": "sheet"}, "direction": "lower"}, "floor", "PASS", (None,
     2)),
    ({"basis": "limit floor"}, None, "RECORDED", None), ({"basis": None, "verdict": "FAIL"}, None, "FAIL", None),
])  # fmt: skip
def test_a_judged_value_of_version_1_has_its_criterion(raw: Any, kind: Any, verdict: str, bounds: Any) -> None:
    whole = {"verdict": "PASS", "direction": "higher", "unit": "s", "statistic": "median", "bounds": [1, 2], **raw}
    found = records._old_judged(whole)
    assert (found["verdict"], found["bounds"]) == (verdict, (1, 2))
    assert (found["criterion"] and found["criterion"]["kind"]) == kind
    if kind:
        assert (found["criterion"]["low"], found["criterion"]["high"], found["criterion"]["statistic"]) == (
            *bounds,
            "median",
        )
    assert found["limit"] == raw.get("limit", {"unknown": "not archived"})


# ---- where values are reported


@pytest.mark.parametrize(("values", "stated", "required"), [
    (None, {}, None), ((1, "a"), {}, {1.0, "a"}), (Sweep(8, 64, 2), {}, {8.0, 16.0, 32.0, 64.0}),
    (Sweep(8, 50, 2), {}, {8.0, 16.0, 32.0, 50.0}), (Sweep("low", "high", 4), {"low": 2, "high": 8}, {2.0, 8.0}),
    (Sweep(8, 8, 2), {}, {8.0}), (Sweep(8, 64, 1), {}, None), (Sweep(0, 64, 2), {}, None),
    (Sweep("n", 64, 2), {"n": "all"}, None),
    (Sweep("n", 64, 2), {}, set()), (Listed("k"), {"k": "a, 2,b"}, {"a", 2.0, "b"}),
    (Listed("k"), {"k": "a,all"}, None),
    (Listed("k", ("own",)), {"k": "all"}, {"all"}), (Listed("k"), {}, set()), (With((1,)), {}, None),
    (Counted("n"), {"n": 3}, {1.0, 2.0, 3.0}), (Counted("n"), {}, set()), (Counted("n"), {"n": 0}, set()),
    (Counted("n"), {"n": 10_001}, set()),
])  # fmt: skip
def test_coordinates_are_required_by_parameters(values: Any, stated: Any, required: Any) -> None:
    assert contract.required(values, stated) == required


@pytest.mark.parametrize(("raw", "values"), [
    (contract.OWN, None), ([1, 2], (1, 2)), ("sizes", Listed("sizes")),
    ({"from": 1, "to": "n", "by": 2}, Sweep(1, "n", 2)),
    ({"with": [4]}, With((4,))), ({"each": "n"}, Counted("n")),
])  # fmt: skip
def test_coordinates_are_declared_in_one_of_six_ways(raw: Any, values: Any) -> None:
    assert contract._values(raw, "here") == values


@pytest.mark.parametrize("raw", [5, {"from": 1, "to": 2}, {"each": 3}, {"each": "n", "with": []}, {"with": 4}, {}])
def test_coordinates_that_cannot_be_read_are_refused(raw: Any) -> None:
    with pytest.raises(CatalogueError, match=r"^here"):
        contract._values(raw, "here")


def run_of(**rules: Any) -> engine.Run:
    """A run without values, of a program with the metric `triad` in GB/s."""
    declared = SimpleNamespace(unit="GB/s", limit_rules=rules, no_limit={"host": "nobody knows"})
    made = object.__new__(engine.Run)
    made.program = SimpleNamespace(metrics={"triad": declared})  # type: ignore[assignment]
    made.result = SimpleNamespace(limits={"stated": "as stated"})  # type: ignore[assignment]
    return made


def value(name: str = "triad", kind: str = "gpu", ident: str = "x") -> Any:
    return SimpleNamespace(name=name, kind=kind, id=ident)


@pytest.mark.parametrize(
    ("values", "found"),
    [([5.0, 7.0], 5.0), ([None, 7.0], 7.0), ([0.0, -1.0, 7.0], 7.0), ([None, 0.0], None), ([], None)],
)
def test_a_limit_is_the_first_that_has_a_value_above_0(values: list[Any], found: float | None) -> None:
    formulas = tuple(SimpleNamespace(value=lambda place, x=x: x) for x in values)
    rule = derivation.LimitRule(formulas, "sheet", "the device", "no sheet")  # type: ignore[arg-type]
    limit = run_of(gpu=rule).limit(value())
    assert (limit.value, limit.unknown) == (found, "" if found else "no sheet") and (
        found is None or limit.basis == "sheet"
    )
    by_function = derivation.LimitRule((), "sheet", "the device", "no sheet", lambda run, one: values)
    assert run_of(gpu=by_function).limit(value()).value == found
    if found is None:
        assert run_of(gpu=rule).limit(value(ident="stated")) == "as stated"


def test_a_value_without_a_rule_says_why() -> None:
    run = run_of()
    assert run.limit(value(kind="host")).unknown == "nobody knows"
    assert run.limit(value(kind="pair")).unknown == run.limit(value("other")).unknown == "the metric is not declared"
    assert run.limit(value(kind="host", ident="stated")) == "as stated"
