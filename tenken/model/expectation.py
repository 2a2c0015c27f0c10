"""What metrics.yaml expects of a value relative to others of the same run: the section `expect` of a metric, a list of

- at_least: 0.98 * memcpy_peer      a formula (tenken/model/formula.py), or several: the first that has a value
  source: where the bound comes from, and why it is justified
  at_most: ...                      the same above
  function: steps                   instead of both: steps(run, value) of derived.py gives (low, high), None: none
  between: {of: bytes, times: 1.25} instead: the line through the neighbours of a sweep, by latency and bandwidth
  value: provenance.x               what is compared instead of the value
  of: [gpu]                         subjects; all of the metric's by default
  where: {layout: hyperslab}        coordinates
  only: best, or bytes              of a subject's values the best, or that of the largest coordinate
  claimed: peer                     only where the system file claims this
  not_in: [quick]                   modes without it
  verdict: INVALID, or RECORDED     instead of FAIL: the measurement was disturbed; no fault, a note
  proof: pairs, or rounds           FAIL where the samples prove it, otherwise undecided: a note
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenken.errors import CatalogueError
from tenken.model.formula import Formula
from tenken.model.verdicts import FAIL, INVALID, RECORDED

Bounds = tuple["float | None", "float | None"]
PROOFS = ("pairs", "rounds")
#: What a sample counts (`work` of a metric); sizes are rounded to whole elements, less than this share.
COUNTED, ROUNDED = ("bytes", "operations", "cells", "samples", "messages"), 0.01
#: The best of a subject's values; any other word is a coordinate.
BEST = "best"


@dataclass(frozen=True)
class Expectation:
    """One relation of a value to others of its run; see above."""

    source: str
    low: tuple[Formula, ...] = ()
    high: tuple[Formula, ...] = ()
    function: Callable[[Any, Any], Bounds | None] | None = None
    sweep: str = ""
    times: float = 1.0
    value: Formula | None = None
    of: tuple[str, ...] = ()
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    only: str = ""
    claimed: str = ""
    not_in: tuple[str, ...] = ()
    verdict: str = FAIL
    proof: str = ""


_KEYS = (
    "at_least", "at_most", "function", "between", "value", "of", "where", "only", "claimed", "not_in", "verdict",
    "proof", "source",
)  # fmt: skip


def expectations(raw: Any, per: tuple[str, ...], where: str, function: Callable[[str], Any]) -> tuple[Expectation, ...]:
    """The section of one metric; `function` finds one of derived.py. Raises CatalogueError with key and allowed
    values."""
    if not isinstance(raw, list):
        raise CatalogueError(f"{where}: expect is {raw!r}; allowed: a list of maps of {', '.join(_KEYS)}")
    return tuple(_one(one, per, f"{where}: expect", function) for one in raw)


def _one(raw: Any, per: tuple[str, ...], where: str, function: Callable[[str], Any]) -> Expectation:
    if not isinstance(raw, dict) or set(raw) - set(_KEYS):
        raise CatalogueError(f"{where}: {raw!r}; allowed: a map of {', '.join(_KEYS)}")
    if not str(raw.get("source") or ""):
        raise CatalogueError(f"{where}: source is missing: where the bound comes from")
    if not {"at_least", "at_most", "function", "between"} & set(raw):
        raise CatalogueError(f"{where}: one of at_least, at_most, function, between is required")
    for key, allowed in (("verdict", (FAIL, INVALID, RECORDED)), ("proof", PROOFS)):
        if raw.get(key, allowed[0]) not in allowed:
            raise CatalogueError(f"{where}: {key} is {raw[key]!r}; allowed: {', '.join(allowed)}")
    of = tuple(raw.get("of", per))
    if not set(of) <= set(per):
        raise CatalogueError(f"{where}: of is {list(of)}; the metric is reported for {', '.join(per)}")
    sweep = raw.get("between") or {}
    if sweep and not (isinstance(sweep, dict) and set(sweep) == {"of", "times"} and sweep["times"] > 1):
        raise CatalogueError(f"{where}: between is {sweep!r}; allowed: a map of of (a coordinate) and times (above 1)")
    return Expectation(
        str(raw["source"]),
        _formulas(raw.get("at_least"), where),
        _formulas(raw.get("at_most"), where),
        function(str(raw["function"])) if "function" in raw else None,
        str(sweep.get("of", "")),
        float(sweep.get("times", 1.0)),
        Formula(str(raw["value"]), where) if "value" in raw else None,
        of,
        {k: tuple(v) if isinstance(v, list) else (v,) for k, v in (raw.get("where") or {}).items()},
        str(raw.get("only", "")),
        str(raw.get("claimed", "")),
        tuple(map(str, raw.get("not_in", ()))),
        str(raw.get("verdict", FAIL)),
        str(raw.get("proof", "")),
    )


def counting(raw: Any, per: tuple[str, ...], where: str) -> Iterator[Expectation]:
    """What one sample counts: `work: {bytes: 2 * parameter.bytes}` of a metric."""
    if not isinstance(raw, dict) or not all(isinstance(one, str) for one in (*raw, *raw.values())):
        raise CatalogueError(f"{where}: work is {raw!r}; allowed: a map of {', '.join(COUNTED)} to a formula")
    for what, text in raw.items():
        if what not in COUNTED:
            raise CatalogueError(f"{where}: work names {what!r}; allowed: {', '.join(COUNTED)}")
        low, high = (_formulas(f"({text}) * {1 + share:g}", where) for share in (-ROUNDED, ROUNDED))
        source = f"a sample counts {text} {what}: the program miscounts"
        yield Expectation(source, low, high, value=Formula(f"count.{what}", where), of=per)


def _formulas(raw: Any, where: str) -> tuple[Formula, ...]:
    if raw is None:
        return ()
    return tuple(Formula(str(one), where) for one in (raw if isinstance(raw, list) else [raw]))
