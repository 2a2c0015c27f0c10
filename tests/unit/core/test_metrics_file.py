"""An error in a program's metrics.yaml is one line: file, key, what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenken.errors import CatalogueError
from tenken.model.catalogue import load_program, read_metric
from tenken.paths import PROGRAMS

MISTAKES = {
    "unit": ("unit: GB/s", "unit: GBps", "metric daxpy: unit is 'GBps'; allowed: "),
    "direction": ("direction: higher", "direction: up", "metric daxpy: direction is 'up'; allowed: higher, lower"),
    "subject": ("per: [host]", "per: [node]", "metric daxpy: per is 'node'; allowed: host, gpu, pair, ranks"),
    "name of a metric": ("  daxpy:\n", "  DAXPY rate:\n", "metric DAXPY rate: the name must be lower case letters"),
    "share of a run": ("timed: 0.1", "timed: 2.0", "timed is 2.0; allowed: true, false, or a share above 0"),
    **{f"version {v}": ("version: 1", f"version: {v}", f"version is {v!r}; allowed: an int") for v in (0, True, 1.5)},
    **{f"key {v}": ("key: [daxpy]", f"key: {v}", "allowed: ") for v in ("daxpy", "[daxpy, daxpy]", "[other]")},
    "key of 13": ("key: [daxpy]", f"key: [{', '.join('abcdefghijklm')}]", "allowed: a list of at most 12 distinct"),
    "identity": ("identity: [elements]", "identity: elements", "identity is 'elements'; allowed: a list of"),
    "identity by number": ("identity: [elements]", "identity: [7]", "identity is {7: None}; allowed: a list of"),
    "former names": ("timed: 0.1", "was: {daxpy: old}", "was is {'daxpy': 'old'}; allowed: a map of names to lists"),
    "limit": ('limit: "none: the', 'limit: "memry" # ', "limit is 'memry'; allowed: none and why, or one of"),
    "tolerance": ("tolerance: 0", "tolerance: -1", "verifications: tolerance is -1; allowed: 0 or above"),
    "tolerance that nothing meets": (
        "tolerance: 0",
        "tolerance: .nan",
        "verifications: tolerance is nan; allowed: 0 or",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line(case: str, tmp_path: Path) -> None:
    old, new, said = MISTAKES[case]
    text = (PROGRAMS / "daxpy" / "metrics.yaml").read_text()
    file = tmp_path / "daxpy" / "metrics.yaml"
    file.parent.mkdir()
    file.write_text(text)
    assert load_program(file).name == "daxpy"
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(CatalogueError) as caught:
        load_program(file)
    assert said in str(caught.value) and "\n" not in str(caught.value)


RULE = {"value": "1", "basis": "x"}
BOUND = {"at_least": 1, "source": "x"}
#: Of each key of a metric: values that are refused, and values at the end of what is allowed.
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "per": (["host", [], ["node"]], [["host", "gpu"]]),
    "siblings": ([0.0, 1.0, 1, "0.1 if"], [1e-9, 1 - 1e-9, "0.1 if at.n else 0.2", None]),
    "across": (["no", 1], [False]),
    "min_count": ([0, True, 1.5, {"gpu": 1}, {"host": 1, "gpu": 1}], [1, {"host": 1}]),
    "max_spread": ([-1e-9, 1 + 1e-9, "x", {"gpu": 0.1}], [0, 1, None, {"host": 1}]),
    "floor": ([1 + 1e-9, *({"host": one} for one in ({"of": "memory", "time": 1}, {"of": "x"}, {"times": 1},
                                                    {"of": "memory", "times": None}))],
              [1, {"host": {"of": "memory"}}, {"host": {"of": "memory", "times": "2 * parameter.x"}}]),
    "of_run": ([7, {"metric": "a"}, {"metric": "a", "times": "b"}], ["a", {"metric": "a", "times": 2}]),
    "clock": (["sundial", {"gpu": "host"}], ["device", {"host": "host"}]),
    "sign": (["negative"], ["any", "zero"]),
    "precision": (["a b", "other.x"], ["fp64", "at.precision", "parameter.x"]),
    "required_if": ([7, {}, {"a": 1}], []),
    "work": (["bytes", {"byte": "1"}, {"bytes": 1}, ["bytes"]], [{"bytes": "1"}]),
    "limit": ([{"value": "1"}, {**RULE, "by": "guess"}, {**RULE, "more": 1}, {**RULE, "value": "function"}],
              [RULE, {"host": RULE}, {**RULE, "by": "same run", "unknown": "x"}]),
    "derive": ([{"over": "a"}, {"formula": "1"}, {"formula": "a", "each": "x"}, {"formula": "a", "more": 1},
                "function"],
               ["a", {"formula": "1", "over": "a", "each": "samples"}]),
    "max_spread_at": (
        [7, [7], [{"at": {"b": 1}}], [{"spread": 0.1}],
         *([{"at": at, "spread": 0.1}] for at in ({}, 7, {"b": {}}, {"b": {"mid": 1}}, {"b": {"min": 2, "max": 1}},
                                                  {"b": {"min": True}}, {"b": {"max": "x"}})),
         [{"at": {"b": 1}, "spread": {"gpu": 0.1}}], [{"at": {"b": 1}, "spread": 2}]],
        [[{"at": {"b": [1, 2], "c": {"min": 1, "max": 1}}, "spread": {"host": 1}}]]),
    "expect": (
        [7, [7], [{"at_least": 1}], [{"source": "x"}], [{**BOUND, "verdict": "PASS"}], [{**BOUND, "proof": "x"}],
         [{**BOUND, "of": ["gpu"]}], [{**BOUND, "more": 1}],
         *([{"source": "x", "between": of}] for of in (7, {"of": "b"}, {"of": "b", "times": 1}, {"of": "b", "times": 2,
                                                                                              "more": 1}))],
        [[BOUND], [{**BOUND, "of": ["host"], "verdict": "INVALID", "proof": "pairs"}],
         [{"source": "x", "between": {"of": "b", "times": 1.001}}]]),
}  # fmt: skip


@pytest.mark.parametrize("key", VALUES)
def test_each_key_of_a_metric_takes_what_is_allowed_and_no_more(key: str) -> None:
    raw = {"title": "x", "unit": "GB/s", "direction": "higher", "statistic": "median", "per": ["host"], "plot": "bars",
           "limit": "none: x"}  # fmt: skip
    for wrong in VALUES[key][0]:
        with pytest.raises(CatalogueError, match=rf"^x: ({key}|function)"):
            read_metric("one", {**raw, key: wrong}, "x")
            pytest.fail(f"{wrong} was taken")
    for good in VALUES[key][1]:
        assert read_metric("one", {**raw, key: good}, "x").name == "one"
