"""Formulas, sentences and times of results, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tenken.errors import CatalogueError, ResultError
from tenken.model import formula
from tenken.model import result as results
from tenken.model.formula import Formula, Unknown


class Scope:
    """a is 3, b is 4, its best 9; b at n = 2 is 40; device.x is 5; row t of k is 7; anything else is unknown."""

    def metric(self, name: str, changed: Any, statistic: str = "") -> Any:
        known = {("a", "", ""): 3.0, ("b", "", ""): 4.0, ("b", "", "best"): 9.0, ("b", "n=2", ""): 40.0}
        found = known.get((name, ",".join(f"{k}={v}" for k, v in changed.items()), statistic))
        if found is None:
            raise Unknown
        return found

    def attribute(self, owner: str, name: str) -> Any:
        if name == "x":
            return 5.0
        raise Unknown

    def row(self, table: str, *keys: Any) -> float:
        if (table, *keys) == ("t", 3.0, "k"):
            return 7.0
        raise Unknown


OWNER = formula.OWNERS[0]


@pytest.mark.parametrize(("text", "value"), [
    ("a + b * 2", 11), ("(a + b) * 2", 14), ("b - a", 1), ("a / b", 0.75), ("b // a", 1), ("b % a", 1), ("b ** a", 64),
    ("-a", -3), ("+a", 3), ("b.best", 9), ("b(n=2)", 40), (f"{OWNER}.x", 5), ("row('t', a, 'k')", 7), ("min(a, b)", 3),
    ("max(a, b)", 4), ("sqrt(b)", 2), ("floor(3.7)", 3), ("int(3.7)", 3), ("log(exp(a))", 3),
    ("pcie(5, 16)", pytest.approx(63.015, rel=1e-3)),
    ("a if a < b else b", 3), ("a if a > b else b", 4), ("1 if a <= 3 <= b else 0", 1), ("1 if a < 3 < b else 0", 0),
    ("1 if a < b < a else 0", 0), ("1 if a == 3 and b == 3 else 0", 0), ("1 if a == 3 or b == 3 else 0", 1),
    ("1 if not a == 3 else 0", 0), ("1 if a in (1, 3) else 0", 1), ("1 if a not in (1, 3) else 0", 0),
    ("1 if a != b else 0", 1),
    ("1 if a >= 3 else 0", 1), ("a / 0", None), ("unknown", None), ("a + unknown", None), (f"{OWNER}.y", None),
    ("'text'", None),
    ("None", None), ("sqrt(-1)", None), ("1e308 * 10", None), ("a + 'x'", None), ("row('t', 'k')", None),
    ("b(n=3)", None),
    ("pcie(9, 16)", None), ("True", 1),
])  # fmt: skip
def test_a_formula_has_a_value_or_a_part_of_it_is_unknown(text: str, value: Any) -> None:
    found = Formula(text, "here").value(Scope())  # type: ignore[arg-type]
    assert found == value and (found is None or isinstance(found, float))


@pytest.mark.parametrize(("text", "metrics", "own"), [
    ("a + b.best", ("a", "b"), ("a", "b")), ("b(n=2) * a", ("b", "a"), ("a",)), (f"{OWNER}.x", (), ()),
    (f"{formula.ITSELF} / {formula.LIMIT}", (), ()), ("row('t', a)", ("a",), ("a",)),
])  # fmt: skip
def test_a_formula_names_its_metrics(text: str, metrics: tuple[str, ...], own: tuple[str, ...]) -> None:
    made = Formula(text, "here")
    assert (made.metrics, made.own) == (metrics, own)


@pytest.mark.parametrize("text", [
    "a +", "a @ b", "a is b", "lambda: 1", "[1]", "a.b.c", "other.x", "other.thing(1)", "f(1)", "min(a, key=1)",
    "f(**a)", "b'x'", "1j", "a << 1", "f'{a}'", "a[0]", f"{OWNER}.x.best",
])  # fmt: skip
def test_what_is_no_part_of_a_formula_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(CatalogueError, match=r"^here: "):
        Formula(text, "here")


@pytest.mark.parametrize(("changes", "text"), [
    ({}, "other processes used 0.50 CPUs for 10.0 s"),
    ({"others": ((7, "make", 3.25),
    (9, "cc", 1.0))}, "other processes used 0.50 CPUs for 10.0 s (pid 7 make 3.2 s, pid 9 cc 1.0 s)"),
    ({"steal_cpu_seconds": 0.1},
     "other processes used 0.50 CPUs for 10.0 s; the hypervisor gave 0.1 CPU seconds to other guests"),
    ({"steal_cpu_seconds": 0.09}, "other processes used 0.50 CPUs for 10.0 s"),
    ({"load_average_before": 9.0, "load_average_after": 1.25},
     "other processes used 0.50 CPUs for 10.0 s; load average 1.25"),
    ({"seconds": 0.0, "steal_cpu_seconds": 5.0}, "other processes used 0.00 CPUs for 0.0 s"),
])  # fmt: skip
def test_the_load_of_a_host_is_told_in_a_clause(changes: Any, text: str) -> None:
    plain = {"seconds": 10.0, "load_average_before": None, "load_average_after": None, "own_cpu_seconds": 70.0,
             "others_cpu_seconds": 5.0, **changes}  # fmt: skip
    assert results.Load(**plain).text() == text


@pytest.mark.parametrize(("text", "seconds"), [
    ("2023-11-14T22:13:20Z", 1_700_000_000.0), ("2023-11-14T22:13:20.25Z", 1_700_000_000.25),
    ("2023-11-14T22:13:20", 1_700_000_000.0),
    ("soon", None), ("2023-11-14T22:13:20.xZ", None), ("", None),
])  # fmt: skip
def test_a_moment_has_its_fraction(text: str, seconds: float | None) -> None:
    assert results._moment(text) == seconds


@pytest.mark.parametrize(("error", "said"), [
    ("Expected `int` - at `$.metrics[0].count`", "metrics[0].count: Expected `int`"),
    ("Expected `object`", "top level: Expected `object`"),
    ("Expected `str` - at `$`", "top level: Expected `str`"),
])  # fmt: skip
def test_what_is_misshapen_is_told_with_its_place(error: str, said: str) -> None:
    assert results._misshapen(error) == said


def test_a_text_longer_than_allowed_is_not_read() -> None:
    assert results.decode("[1]", 3) == [1]
    for text, says in (
        ("[10]", "has 4 characters; at most 3 are accepted"),
        ("  ", "is empty"),
        ("[1", "truncated or not JSON"),
    ):
        with pytest.raises(ResultError, match=says):
            results.decode(text, 3)
    with pytest.raises(ResultError, match=r"^x: .*schema is 'other'; allowed: tenken-result/1"):
        results.parse('{"schema": "other"}', "x")
    with pytest.raises(ResultError, match=r"schema is 'list'; allowed: tenken-result/1"):
        results.typed([])
