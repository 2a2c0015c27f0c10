"""How metrics.yaml derives figures: a formula or a function for derived metrics, and rules for limits."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tenken.errors import CatalogueError
from tenken.model.formula import Formula
from tenken.model.judgement import DEVICE, SAME_RUN

#: A function of derived.py: takes the run (tenken.model.engine.Run), yields subject, coordinates and samples.
Function = Callable[[Any], Iterable[tuple[Any, Mapping[str, Any], Any]]]

_SOURCES = {"device": DEVICE, "same run": SAME_RUN}


@dataclass(frozen=True)
class Derivation:
    """How a metric follows from others of the same run.

    `formula` is evaluated wherever the metric `over` has a value, at coordinates that `where` allows; the result has
    the same coordinates, except those in `without`. `of_samples`: computed sample by sample instead of from the values.
    `function`: of derived.py, instead of a formula.
    """

    over: str = ""
    formula: Formula | None = None
    function: Function | None = None
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    of_samples: bool = False


@dataclass(frozen=True)
class LimitRule:
    """The physical limit of a metric: the first formula that gives a value counts. `unknown` states why there may be
    none."""

    values: tuple[Formula, ...]
    basis: str
    said_by: str
    unknown: str
    function: Callable[[Any, Any], Iterable[float]] | None = None

    @classmethod
    def of(cls, raw: Any, where: str, name: str = "", folder: Path | None = None) -> LimitRule:
        """{value: formula, list of formulas, or function, basis: text, by: device or same run, unknown: text}; the
        function is limit_<metric> of derived.py. Raises CatalogueError."""
        keys = ("value", "basis", "by", "unknown")
        if not isinstance(raw, dict) or not {"value", "basis"} <= set(raw) <= set(keys):
            raise CatalogueError(f"{where}: limit is {raw!r}; allowed: a name of common.yaml, or {', '.join(keys)}")
        by = raw.get("by", "device")
        if by not in _SOURCES:
            raise CatalogueError(f"{where}: by is {by!r}; allowed: {', '.join(_SOURCES)}")
        values = raw["value"] if isinstance(raw["value"], list) else [raw["value"]]
        basis, unknown = str(raw["basis"]), str(raw.get("unknown", "what it follows from is not known"))
        if values == ["function"]:
            return cls((), basis, _SOURCES[by], unknown, _function(_beside(folder, where), f"limit_{name}"))
        return cls(tuple(Formula(str(one), where) for one in values), basis, _SOURCES[by], unknown)


def derivation(raw: Any, name: str, folder: Path | None, where: str) -> Derivation | None:
    """A formula, `function`, or {formula, over, where, without, each: samples}. Raises CatalogueError."""
    if raw is None:
        return None
    if raw == "function":
        return Derivation(function=_function(_beside(folder, where), name))
    said = raw if isinstance(raw, dict) else {"formula": raw}
    keys = ("formula", "over", "where", "without", "each")
    if "formula" not in said or set(said) - set(keys) or said.get("each", "samples") != "samples":
        raise CatalogueError(f"{where}: derive is {raw!r}; allowed: a formula, function, or {', '.join(keys)}")
    formula = Formula(str(said["formula"]), f"{where}: derive")
    over = said.get("over") or next(iter(formula.own), "")
    if not over:
        raise CatalogueError(f"{where}: derive: {formula.text!r} names no metric; over states where it is formed")
    allowed = {k: tuple(v) if isinstance(v, list) else (v,) for k, v in (said.get("where") or {}).items()}
    without = tuple(map(str, said.get("without") or ()))
    return Derivation(str(over), formula, None, allowed, without, "each" in said)


def limit_rules(
    raw: Any, per: tuple[str, ...], common: Mapping[str, Any], where: str, name: str = "", folder: Path | None = None
) -> tuple[dict[str, LimitRule], dict[str, str]]:
    """Rules by subject, and for the other subjects the reason for having none. `raw`: a sentence, the name of a limit
    of common.yaml, a rule, or a map of subjects to these. Raises CatalogueError."""
    if isinstance(raw, dict) and set(raw) <= set(per):
        rules: dict[str, LimitRule] = {}
        reasons = dict.fromkeys(per, "none is known")
        for kind, one in raw.items():
            found, why = limit_rules(one, (kind,), common, where, name, folder)
            rules |= found
            reasons |= why
        return rules, reasons
    if isinstance(raw, dict) or (isinstance(raw, str) and raw in common):
        rule = LimitRule.of(common[raw] if isinstance(raw, str) else raw, f"{where}: limit", name, folder)
        return dict.fromkeys(per, rule), dict.fromkeys(per, rule.unknown)
    text = str(raw)
    if common and " " not in text and text != "none":
        raise CatalogueError(f"{where}: limit is {text!r}; allowed: none and why, or one of {', '.join(common)}")
    return {}, dict.fromkeys(per, text.removeprefix("none: "))


def named_function(folder: Path | None, name: str, where: str) -> Any:
    """A function of the derived.py in a program's folder. Raises CatalogueError."""
    return _function(_beside(folder, where), name)


def _beside(folder: Path | None, where: str) -> Path:
    if folder is None:
        raise CatalogueError(f"{where}: function is allowed only next to a metrics.yaml")
    return folder


def _function(folder: Path, name: str) -> Any:
    found = getattr(_module_of(folder), name, None)
    if not callable(found):
        raise CatalogueError(f"{folder.name}/derived.py has no function {name}")
    return found


@lru_cache(maxsize=64)
def _module_of(folder: Path) -> ModuleType:
    """The derived.py of a program's folder: pure functions, part of the suite or of a site's own programs. Raises
    CatalogueError."""
    path = folder / "derived.py"
    spec = importlib.util.spec_from_file_location(f"tenken_derived_{folder.name}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise CatalogueError(f"{folder.name}/metrics.yaml: derive: function, but there is no {path.name} next to it")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
