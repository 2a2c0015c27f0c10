"""The metric catalogue: what each benchmark program declares in src/programs/<program>/metrics.yaml.

Checks derive their metrics from it, system files are validated against it, and reports are drawn from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tenken.errors import CatalogueError
from tenken.model import cache, contract, files, units
from tenken.model.derivation import Derivation, LimitRule, derivation, limit_rules, named_function
from tenken.model.expectation import Expectation, counting, expectations
from tenken.model.formula import Formula
from tenken.paths import PROGRAMS, archive_root

DIRECTIONS = ("higher", "lower")
STATISTICS = ("median", "best", "p5", "p95", "mean", "total")
SUBJECTS = ("host", "gpu", "pair", "ranks")
SIGNS = ("positive", "zero", "any")
PLOTS = ("bars", "series", "sweep", "matrix", "phases")
#: Limits of a data sheet, for programs that cannot determine them: peak of the memory, the host link or the GPU-GPU
#: link.
DATA_SHEETS = ("memory", "host_link", "gpu_link", "rate")
#: The figure of a data sheet that bounds a product, of its precision.
RATE = "rate"
#: Values by which an old option states nothing. If the option became a value of another one, they mean "not this
#: value".
NOTHING = (None, "", "none", "no", False)

#: A larger metrics.yaml is refused.
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class SpreadAt:
    """The permitted spread at some coordinates. `at`: for each coordinate its values, or (minimum, maximum)."""

    at: Mapping[str, tuple[Any, ...] | tuple[float, float]]
    ranges: frozenset[str]
    """Coordinates of `at` that are a range."""
    spread: Mapping[str, float | None]

    def holds(self, kind: str, at: Mapping[str, Any]) -> bool:
        """Whether it applies to a value of that subject at these coordinates."""
        return kind in self.spread and all(self._within(name, at.get(name)) for name in self.at)

    def _within(self, name: str, value: Any) -> bool:
        if name not in self.ranges:
            return value in self.at[name]
        low, high = self.at[name]
        return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high


@dataclass(frozen=True)
class Floor:
    """A minimum efficiency that is not a single number: `times` is the share that healthy devices attain of a figure of
    the data sheet (`of`), or a formula (with `of`, its factor); if the formula gives None there is no floor."""

    of: str = ""
    times: float = 1.0
    formula: Formula | None = None


@dataclass(frozen=True)
class Metric:
    """One metric of a program.

    `floor` and `max_spread` map a subject to a fraction, or to None (not judged): the minimum efficiency relative to
    the physical limit that passes without a reference, and the maximum (best - value) / best of a valid measurement.
    `max_spread_at` has other spreads for some coordinates, since small sizes scatter more; the first match counts.
    `min_count` is the minimum number of samples by subject: a kernel on the host takes a hundred times as long as on a
    GPU. `data_sheet` names the figure of the machine's data sheet that limits it if the program states no limit; a rate
    is that of `precision`, in which the value is computed (`at.precision`, `parameter.low`, or the precision itself).
    `siblings` is the maximum fraction, or a formula of it, by which a GPU may be slower than the others of the run, or
    a pair of GPUs slower than its other direction and similar pairs (None: not compared). A metric with larger scatter
    may differ by three times that scatter. `was` are former names of the metric: its series continues. `sign` of its
    values: positive, zero (0 or above: an error, a share, a count) or any (a difference). `of_run`: the metric of the
    same run from which its limit is derived, and the factor (None: the program's own). `chosen_of`: the metrics of
    which one becomes this metric, with its samples. `maximum`: a larger value (of a residual) is wrong by the program's
    own rules. `required_if`: parameters with which an optional metric is required, each with alternatives: an equal
    value, a word of a list, or `all`; a tuple requires all of its words. `across`: whether GPUs and nodes are compared
    by it. Power and energy are not: at the power cap all GPUs draw the same power, and `per_watt` shows the
    performance. `clock` maps a subject to the clock that times it: device, host, or backend (the device's with cuda).
    """

    name: str
    title: str
    unit: str
    direction: str
    statistic: str
    per: tuple[str, ...]
    limit: str
    floor: Mapping[str, float | None]
    min_count: Mapping[str, int]
    max_spread: Mapping[str, float | None]
    plot: str
    group: str
    published: tuple[str, ...] = ()
    optional: bool = False
    required_if: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    data_sheet: str | None = None
    precision: str = ""
    siblings: float | Formula | None = None
    was: tuple[str, ...] = ()
    sign: str = "positive"
    of_run: tuple[str, float | None] | None = None
    chosen_of: tuple[str, ...] = ()
    maximum: float | None = None
    across: bool = True
    max_spread_at: tuple[SpreadAt, ...] = ()
    clock: Mapping[str, str] = field(default_factory=dict)
    #: How it is derived from other metrics of the run; None: measured.
    derive: Derivation | None = None
    #: Its physical limit by subject, and the reason for other subjects.
    limit_rules: Mapping[str, LimitRule] = field(default_factory=dict)
    no_limit: Mapping[str, str] = field(default_factory=dict)
    #: Floors that are not one number, by subject.
    floors: Mapping[str, Floor] = field(default_factory=dict)
    #: Limited by the GPU's power; a GPU whose power or clock is limited has no floor for it.
    by_power: bool = False
    #: What it must reach compared with others of the run.
    expect: tuple[Expectation, ...] = ()

    def sheet_key(self, at: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
        """What bounds a value in the limits of a machine: "memory", or "rate fp16"; empty: no figure."""
        return self.rate_of(at, parameters) if self.data_sheet == RATE else self.data_sheet or ""

    def rate_of(self, at: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
        """The rate of a GPU that a value depends on: "rate fp16"; empty: none is known."""
        owner, _, name = self.precision.rpartition(".")
        precision = {"at": at, "parameter": parameters}[owner].get(name) if owner else name
        return rate_key(str(precision)) if precision else ""

    @property
    def crosses_pcie(self) -> bool:
        """Whether it moves data between the host and a GPU."""
        return self.data_sheet == "host_link" or any(
            "pcie(" in formula.text and "link.count" not in rule.values[0].text
            for rule in self.limit_rules.values()
            for formula in rule.values
        )

    def clock_of(self, kind: str, backend: object) -> str | None:
        """The clock that times it for that subject and back end; None: not declared."""
        said = self.clock.get(kind)
        return said if said != BACKEND else "device" if backend == "cuda" else "host"

    def allowed_spread(self, kind: str, at: Mapping[str, Any]) -> float | None:
        """The maximum spread of a value of that subject at those coordinates; None: not judged."""
        special = next((one for one in self.max_spread_at if one.holds(kind, at)), None)
        return (special.spread if special else self.max_spread).get(kind)


@dataclass(frozen=True)
class Program:
    """A benchmark program and its metrics by name.

    `version` is raised when the meaning of its figures changes. `identity` are the parameters that, with a metric's
    coordinates, define the quantity, each with the value for records that lack it (None: no record does). All other
    parameters are conditions. `key` names the metrics of a contract. `was` maps parameters and coordinates to their
    former names. `contract` is what a result must contain in addition to values.
    """

    name: str
    title: str
    section: str
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    version: int = 1
    identity: Mapping[str, Any] = field(default_factory=dict)
    was: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    contract: contract.Contract = field(default_factory=contract.Contract)
    #: Hardware figures by their names in common.yaml, for formulas.
    tables: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """What its build depends on: version, names and units of metrics, tolerances of verifications."""
        units = {name: metric.unit for name, metric in self.metrics.items()}
        tolerances = {one.name: one.tolerance for one in self.contract.verifications}
        stated = json.dumps([self.name, self.version, units, tolerances], sort_keys=True)
        return hashlib.sha256(stated.encode()).hexdigest()[:16]

    @property
    def most_required(self) -> int:
        """The minimum number of samples of each of its metrics."""
        return max((count for one in self.metrics.values() for count in one.min_count.values()), default=1)

    def metric_named(self, name: str) -> Metric | None:
        """A metric by its name or a former one; None if there is none."""
        return self.metrics.get(name) or next((m for m in self.metrics.values() if name in m.was), None)

    def parameter(self, parameters: Mapping[str, Any], name: str) -> Any:
        """A parameter by its name or a former one; otherwise the value of records that lack it."""
        there = [parameters[known] for known in (name, *self.was.get(name, ())) if known in parameters]
        # Several options may have become one; the one that was set counts.
        return next((value for value in there if value not in NOTHING), (*there, self.identity.get(name))[0])

    def parameters_today(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of a result of any release, under their current names."""
        names = dict.fromkeys(map(self.current_name, parameters))
        return {name: self.parameter(parameters, name) for name in names}

    def current_name(self, name: str) -> str:
        """The current name of a parameter or coordinate."""
        return next((now for now, before in self.was.items() if name in before), name)


_PROGRAM_KEYS = {"program", "title", "section", "version", "identity", "metrics"}
_OPTIONAL_PROGRAM_KEYS = {"was", "key", "every", "limits", "tables", *contract.KEYS}
#: Next to the programs' folders: what they share.
COMMON = "common.yaml"
#: Maximum number of key metrics of a program.
MOST_KEY = 12
_METRIC_KEYS = {
    "title", "unit", "direction", "statistic", "per", "limit", "floor", "min_count", "max_spread", "plot", "group",
    "published", "optional", "required_if", "data_sheet", "siblings", "was", "sign", "of_run", "chosen_of", "maximum",
    "across",
    "max_spread_at", "clock", "derive", "expect", "work", "by_power", "precision",
}  # fmt: skip


#: Precisions that data sheets give another name.
_SHEETS_NAME = {"double": "fp64", "single": "fp32", "mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}
#: Clocks of a metric; BACKEND: the device's if the parameter backend is cuda.
BACKEND = "backend"
CLOCKS = ("device", "host", BACKEND)


def _unit(value: Any, where: str) -> str:
    if not units.known(value):
        raise CatalogueError(f"{where}: unit is {value!r}; allowed: {units.allowed()}")
    return str(value)


def _one_of(value: Any, allowed: tuple[str, ...], where: str, key: str) -> str:
    if value not in allowed:
        raise CatalogueError(f"{where}: {key} is {value!r}; allowed: {', '.join(allowed)}")
    return str(value)


def _by_subject(value: Any, per: tuple[str, ...], where: str, key: str) -> dict[str, float | None]:
    """A number for all subjects or a map of subjects; each a fraction in [0, 1] or null."""
    if not isinstance(value, dict):
        value = dict.fromkeys(per, value)
    unknown = set(value) - set(per)
    if unknown:
        raise CatalogueError(f"{where}: {key} names {sorted(unknown)}; the metric is reported for {', '.join(per)}")
    for subject, number in value.items():
        good = number is None or (isinstance(number, (int, float)) and 0 <= number <= 1)
        if not good:
            raise CatalogueError(f"{where}: {key} of {subject} is {number!r}; allowed: 0 to 1, or null")
    return {subject: value.get(subject) for subject in per}


def _samples_by_subject(value: Any, per: tuple[str, ...], where: str) -> dict[str, int]:
    """`100` or `{gpu: 100, host: 30}` -> the minimum number of samples for each subject in `per`."""
    counts = value if isinstance(value, dict) else dict.fromkeys(per, value)
    for subject in sorted({*per, *counts}):
        if subject not in per or subject not in counts:
            raise CatalogueError(f"{where}: min_count has the subjects {', '.join(counts)}; required: {', '.join(per)}")
        if not isinstance(counts[subject], int) or isinstance(counts[subject], bool) or counts[subject] < 1:
            raise CatalogueError(f"{where}: min_count is {counts[subject]!r}; allowed: an integer, 1 or above")
    return dict(counts)


def read_metric(
    name: str, raw: Any, where: str, folder: Path | None = None, limits: Mapping[str, Any] | None = None
) -> Metric:
    """One metric as declared in a metrics.yaml, in `folder`, or by the check of a third-party program; `limits` are
    those of common.yaml. Raises CatalogueError."""
    if not isinstance(raw, dict):
        raise CatalogueError(f"{where}: not a mapping")
    unknown = set(raw) - _METRIC_KEYS
    if unknown:
        raise CatalogueError(f"{where}: unknown key {sorted(unknown)[0]!r}; allowed: {', '.join(sorted(_METRIC_KEYS))}")
    for key in ("title", "unit", "direction", "statistic", "per", "limit", "plot"):
        if key not in raw:
            raise CatalogueError(f"{where}: key {key!r} is missing")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CatalogueError(f"{where}: the name must be lower case letters, digits and _, starting with a letter")
    if not isinstance(raw["per"], list) or not raw["per"]:
        raise CatalogueError(f"{where}: per is {raw['per']!r}; allowed: a list of {', '.join(SUBJECTS)}")
    per = tuple(_one_of(s, SUBJECTS, where, "per") for s in raw["per"])
    siblings = raw.get("siblings")
    if isinstance(siblings, str):
        siblings = Formula(siblings, f"{where}: siblings")
    elif siblings is not None and not (isinstance(siblings, float) and 0 < siblings < 1):
        raise CatalogueError(f"{where}: siblings is {siblings!r}; allowed: above 0 and below 1, a formula, or null")
    if not isinstance(raw.get("across", True), bool):
        raise CatalogueError(f"{where}: across is {raw['across']!r}; allowed: true, false")
    numbers, floors = _floors(raw.get("floor"), per, where)
    rules, no_limit = limit_rules(raw["limit"], per, limits or {}, where, name, folder)
    return Metric(
        name=name,
        title=str(raw["title"]),
        unit=_unit(raw["unit"], where),
        direction=_one_of(raw["direction"], DIRECTIONS, where, "direction"),
        statistic=_one_of(raw["statistic"], STATISTICS, where, "statistic"),
        per=per,
        limit="; ".join(dict.fromkeys([rule.basis for rule in rules.values()] or no_limit.values())),
        floor=_by_subject(numbers, per, where, "floor"),
        floors=floors,
        by_power=bool(raw.get("by_power", False)),
        min_count=_samples_by_subject(raw.get("min_count", 1), per, where),
        max_spread=_by_subject(raw.get("max_spread"), per, where, "max_spread"),
        plot=_one_of(raw["plot"], PLOTS, where, "plot"),
        group=str(raw.get("group", name)),
        published=tuple(str(row) for row in raw.get("published", ())),
        optional=bool(raw.get("optional", False)),
        required_if=_required_if(raw, where),
        data_sheet=_one_of(raw["data_sheet"], DATA_SHEETS, where, "data_sheet") if raw.get("data_sheet") else None,
        precision=_precision(raw, where),
        siblings=siblings,
        was=tuple(str(name) for name in raw.get("was", ())),
        sign=_one_of(raw.get("sign", "positive"), SIGNS, where, "sign"),
        of_run=_of_run(raw.get("of_run"), where),
        max_spread_at=_spread_at(raw.get("max_spread_at") or [], per, where),
        maximum=None if raw.get("maximum") is None else float(raw["maximum"]),
        chosen_of=tuple(str(name) for name in raw.get("chosen_of", ())),
        across=raw.get("across", True),
        clock=_clock(raw.get("clock"), per, where),
        derive=derivation(raw.get("derive"), name, folder, where),
        limit_rules=rules,
        no_limit=no_limit,
        expect=(
            *expectations(raw.get("expect") or [], per, where, lambda one: named_function(folder, one, where)),
            *counting(raw.get("work") or {}, per, where),
        ),
    )


def rate_key(precision: str) -> str:
    """The key of a product's rate: "rate fp8" of fp8_e4m3, "rate fp4" of nvfp4; FP64 by tensor cores has its own."""
    kind = precision if precision == "fp64_tensor" else precision.partition("_")[0]
    return f"{RATE} {_SHEETS_NAME.get(kind, kind)}"


def _precision(raw: Mapping[str, Any], where: str) -> str:
    text = str(raw.get("precision", ""))
    if not re.fullmatch(r"((at\.|parameter\.)?\w+)?", text) or (raw.get("data_sheet") == RATE and not text):
        raise CatalogueError(f"{where}: precision is {text!r}; allowed: at.NAME, parameter.NAME, or one as fp64")
    return text


def _floors(raw: Any, per: tuple[str, ...], where: str) -> tuple[Any, dict[str, Floor]]:
    """`0.8`, or by subject a number, a formula, or {of: memory, times: 0.97}, whose `times` may be a formula."""
    if not isinstance(raw, dict):
        return raw, {}
    found: dict[str, Floor] = {}
    for subject, one in raw.items():
        if isinstance(one, str):
            found[subject] = Floor(formula=Formula(one, f"{where}: floor"))
        elif isinstance(one, dict):
            times = one.get("times", 1.0)
            if (
                set(one) - {"of", "times"}
                or one.get("of") not in DATA_SHEETS
                or not isinstance(times, (int, float, str))
            ):
                raise CatalogueError(f"{where}: floor is {one!r}; allowed: of ({', '.join(DATA_SHEETS)}) and times")
            formula = Formula(times, f"{where}: floor") if isinstance(times, str) else None
            found[subject] = Floor(one["of"], 1.0 if isinstance(times, str) else float(times), formula)
    return {subject: None if subject in found else one for subject, one in raw.items()}, found


def _clock(value: Any, per: tuple[str, ...], where: str) -> dict[str, str]:
    """`device`, or a map of subjects to their clocks."""
    clocks = value if isinstance(value, dict) else {} if value is None else dict.fromkeys(per, value)
    if unknown := sorted(set(clocks) - set(per)):
        raise CatalogueError(f"{where}: clock names {unknown}; the metric is reported for {', '.join(per)}")
    return {subject: _one_of(clock, CLOCKS, where, "clock") for subject, clock in clocks.items()}


def _required_if(raw: Mapping[str, Any], where: str) -> dict[str, tuple[Any, ...]]:
    """`{backend: cuda, memory: [[pageable, pinned]]}`: a value, alternatives, or words that are all required."""
    given = raw.get("required_if", {})
    if not isinstance(given, dict) or ("required_if" in raw and not (given and raw.get("optional"))):
        raise CatalogueError(
            f"{where}: required_if is {given!r}; allowed: a map of parameters to values, of an optional metric"
        )
    return {
        str(name): tuple(tuple(one) if isinstance(one, list) else one for one in values)
        if isinstance(values, list)
        else (values,)
        for name, values in given.items()
    }


def _spread_at(raw: Any, per: tuple[str, ...], where: str) -> tuple[SpreadAt, ...]:
    """[{at: {bytes: {max: 65536}, kind: [a, b]}, spread: 0.5}]: a coordinate's value, values, or {min, max}."""
    allowed = "allowed: a list of maps of at (a coordinate's value, a list of values, or min and max) and spread"
    if not isinstance(raw, list):
        raise CatalogueError(f"{where}: max_spread_at is {raw!r}; {allowed}")
    found = []
    for one in raw:
        if (
            not isinstance(one, dict)
            or set(one) != {"at", "spread"}
            or not isinstance(one["at"], dict)
            or not one["at"]
        ):
            raise CatalogueError(f"{where}: max_spread_at has {one!r}; {allowed}")
        at: dict[str, tuple[Any, ...]] = {}
        ranges = set()
        for name, values in one["at"].items():
            if isinstance(values, dict):
                ends = [values.get("min", float("-inf")), values.get("max", float("inf"))]
                numbers = all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends)
                if not values or set(values) - {"min", "max"} or not numbers or ends[0] > ends[1]:
                    raise CatalogueError(f"{where}: max_spread_at: {name} is {values!r}; {allowed}")
                ranges.add(str(name))
                at[str(name)] = (ends[0], ends[1])
            else:
                at[str(name)] = tuple(values) if isinstance(values, list) else (values,)
        spread = one["spread"]
        shares = _by_subject(spread, per, where, "max_spread_at")
        shares = {s: shares[s] for s in per if not isinstance(spread, dict) or s in spread}
        found.append(SpreadAt(at, frozenset(ranges), shares))
    return tuple(found)


def _of_run(raw: Any, where: str) -> tuple[str, float | None] | None:
    """`dot`, or {metric: dot, times: 0.6071}."""
    if raw is None:
        return None
    if isinstance(raw, str):
        return raw, None
    if isinstance(raw, dict) and set(raw) == {"metric", "times"} and isinstance(raw["times"], (int, float)):
        return str(raw["metric"]), float(raw["times"])
    raise CatalogueError(f"{where}: of_run is {raw!r}; allowed: a metric, or a map of metric and times")


def load_program(path: Path) -> Program:
    """Read one metrics.yaml. Raises CatalogueError with file, metric, key and allowed values."""
    where = f"{path.parent.name}/{path.name}"
    try:
        raw = cache.yaml(path, files.read_text(path, MAX_BYTES, links=True))
    except Exception as error:  # FileError, YAMLError, and errors of the reader itself for unforeseen texts
        raise CatalogueError(f"{where}: {' '.join(str(error).split())}") from error
    try:
        return _program(raw, path.parent.name, where, path.parent, _common(path.parent.parent))
    except (TypeError, ValueError, AttributeError) as error:  # for example a list instead of a map
        raise CatalogueError(f"{where}: malformed: {error}") from None


@lru_cache(maxsize=4)
def _common(src: Path) -> Mapping[str, Any]:
    """common.yaml next to the programs' folders, otherwise the suite's: limits, tables, metrics of several
    programs, keys that metrics inherit."""
    path = next((folder / COMMON for folder in (src, PROGRAMS) if (folder / COMMON).is_file()), None)
    if path is None:
        return {}
    try:
        raw = cache.yaml(path, files.read_text(path, MAX_BYTES, links=True))
    except Exception as error:
        raise CatalogueError(f"{COMMON}: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict) or set(raw) - {"limits", "tables", "every", "metrics"}:
        raise CatalogueError(f"{COMMON}: allowed keys: limits, tables, every, metrics")
    return raw


def _inherited(raw: Mapping[str, Any], common: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The metrics of a file with all their keys: those of `every` in common.yaml, of `every` in the file, and of the
    metric that one is `like` (except its title and what was published about it), or is in common.yaml. Raises
    CatalogueError."""
    every = {**(common.get("every") or {}), **(raw.get("every") or {})}
    shared = _inherited({"metrics": common["metrics"], "every": every}, {}, COMMON) if "metrics" in common else {}
    found: dict[str, dict[str, Any]] = {}
    for name, own in raw["metrics"].items():
        if not isinstance(own, dict):
            raise CatalogueError(f"{where}: metric {name}: not a mapping")
        base = every
        if "like" in own:
            if own["like"] not in {**shared, **found}:
                allowed = ", ".join((*found, *shared))
                raise CatalogueError(f"{where}: metric {name}: like is {own['like']!r}; allowed: {allowed}")
            base = shared.get(own["like"], {})
            if own["like"] in found:
                base = {k: v for k, v in found[own["like"]].items() if k not in ("title", "published", "was")}
        found[str(name)] = {**base, **{k: v for k, v in own.items() if k != "like"}}
    return found


def _program(
    raw: Any, name: str, where: str, folder: Path | None = None, common: Mapping[str, Any] | None = None
) -> Program:
    if not isinstance(raw, dict) or not _PROGRAM_KEYS <= set(raw) <= _PROGRAM_KEYS | _OPTIONAL_PROGRAM_KEYS:
        optional = ", ".join(sorted(_OPTIONAL_PROGRAM_KEYS))
        raise CatalogueError(f"{where}: keys must be {', '.join(sorted(_PROGRAM_KEYS))}; also allowed: {optional}")
    if raw["program"] != name:
        raise CatalogueError(f"{where}: program is {raw['program']!r}; it must be the folder's name")
    common = common or {}
    limits = {**(common.get("limits") or {}), **(raw.get("limits") or {})}
    metrics = {
        one: read_metric(one, keys, f"{where}: metric {one}", folder, limits)
        for one, keys in _inherited(raw, common, where).items()
    }
    version = raw["version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CatalogueError(f"{where}: version is {version!r}; allowed: an integer, 1 or above")
    identity, was = _identity(raw["identity"], where), _was(raw.get("was") or {}, where)
    key = _key(raw.get("key") or [], metrics, where)
    agreed = contract.read(raw, metrics, was, where)
    return Program(
        str(raw["program"]), str(raw["title"]), str(raw["section"]), metrics, version, identity, was, key, agreed,
        {**(common.get("tables") or {}), **(raw.get("tables") or {})},
    )  # fmt: skip


def _key(raw: Any, metrics: Mapping[str, Metric], where: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or len(raw) > MOST_KEY or len(set(map(str, raw))) != len(raw):
        raise CatalogueError(f"{where}: key is {raw!r}; allowed: a list of at most {MOST_KEY} distinct metrics")
    for name in raw:
        if name not in metrics:
            raise CatalogueError(f"{where}: key names {name!r}; allowed: {', '.join(metrics)}")
    return tuple(raw)


def _identity(raw: Any, where: str) -> dict[str, Any]:
    """A list of parameters, or a map from them to the value of records that predate the parameter."""
    if isinstance(raw, list):
        raw = dict.fromkeys(raw)
    if not isinstance(raw, dict) or not all(isinstance(name, str) for name in raw):
        raise CatalogueError(f"{where}: identity is {raw!r}; allowed: a list of parameters, or a map to their defaults")
    return dict(raw)


def _was(raw: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(raw, dict) or not all(isinstance(names, list) for names in raw.values()):
        raise CatalogueError(f"{where}: was is {raw!r}; allowed: a map of names to lists of their former names")
    return {str(now): tuple(map(str, names)) for now, names in raw.items()}


#: Programs that are not part of this suite, by name: declared by their checks, or by archived records.
_declared: dict[str, Program] = {}
#: Folder of the archive with the declarations of third-party programs.
REMEMBERED = ".declared"


def declare(raw: Any, where: str) -> Program:
    """Add a third-party program to the catalogue; `raw` is the content of its metrics.yaml. Raises CatalogueError for
    an invalid one, and for the name of a program of this suite.
    """
    name = raw.get("program") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CatalogueError(
            f"{where}: program is {name!r}; allowed: lower case letters, digits and _, starting with a letter"
        )
    if (PROGRAMS / name / "metrics.yaml").is_file():
        raise CatalogueError(f"{where}: {name} is a program of this suite; choose another name")
    try:
        _declared[name] = _program(raw, name, where)
    except (TypeError, ValueError, AttributeError) as error:
        raise CatalogueError(f"{where}: malformed: {error}") from None
    return _declared[name]


def declare_of_record(raw: Any) -> None:
    """Add the declaration contained in a record; the declaration of a program of this suite takes precedence. Raises
    ValueError for an invalid one.
    """
    name = raw.get("program") if isinstance(raw, dict) else None
    if isinstance(name, str) and (PROGRAMS / name / "metrics.yaml").is_file():
        return
    try:
        declare(raw, "declared")
    except CatalogueError as error:
        raise ValueError(str(error)) from None


def load_catalogue(src: Path = PROGRAMS) -> Mapping[str, Program]:
    """All programs below `src` by name, and those declared (`remember`), now or later. Raises CatalogueError."""
    if src != PROGRAMS:
        return _below(src)
    return ChainMap(dict(_below(src)), _declared, dict(_remembered()))


def of_suite(src: Path = PROGRAMS) -> Mapping[str, Program]:
    """The programs below `src` alone. Raises CatalogueError."""
    return _below(src)


def remember(raw: Mapping[str, Any]) -> None:
    """Stores the declaration of a third-party program in the archive, for commands that load no checks, since system
    files and contracts name its metrics. Nothing is stored without an archive, or if it cannot be written.
    """
    root = archive_root()
    file = root / REMEMBERED / f"{raw['program']}.json"
    text = json.dumps(raw, sort_keys=True, indent=1)
    with contextlib.suppress(OSError):
        if root.is_dir() and not (file.is_file() and file.read_text(encoding="utf-8") == text):
            file.parent.mkdir(exist_ok=True)
            temporary = file.with_name(f".{file.name}.{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, file)


def _remembered() -> dict[str, Program]:
    folder = archive_root() / REMEMBERED
    try:
        return _kept(folder, folder.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _kept(folder: Path, changed: int) -> dict[str, Program]:
    """The stored declarations; unreadable or malformed files are left out."""
    found = {}
    for file in sorted(folder.glob("[a-z]*.json")):
        with contextlib.suppress(OSError, TypeError, ValueError, AttributeError, CatalogueError):
            raw = json.loads(file.read_text(encoding="utf-8"))
            if raw["program"] == file.stem and not (PROGRAMS / file.stem / "metrics.yaml").is_file():
                found[file.stem] = _program(raw, file.stem, file.name)
    return found


@lru_cache(maxsize=4)
def _below(src: Path) -> Mapping[str, Program]:
    return {path.parent.name: load_program(path) for path in sorted(src.glob("*/metrics.yaml"))}


def of_record(name: str, raw: Any) -> Program:
    """The program of a record: as the record itself declares it (`raw`, None: it does not), which may differ from what
    another record declared, otherwise the catalogue's. Raises CatalogueError."""
    if not isinstance(raw, dict) or raw.get("program") != name or (PROGRAMS / name / "metrics.yaml").is_file():
        return program(name)
    try:
        return _program(raw, name, "declared")
    except (TypeError, ValueError, AttributeError) as error:
        raise CatalogueError(f"declared: malformed: {error}") from None


def has(name: str, src: Path = PROGRAMS) -> bool:
    """Whether the catalogue has a program, without reading a file."""
    return (src == PROGRAMS and name in _declared) or (src / name / "metrics.yaml").is_file()


def program(name: str, src: Path = PROGRAMS) -> Program:
    """One program of the catalogue. Raises CatalogueError with the names of the existing programs."""
    return _declared[name] if name in _declared and src == PROGRAMS else _in_folder(name, src)


@lru_cache(maxsize=64)
def _in_folder(name: str, src: Path) -> Program:
    path = src / name / "metrics.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.parent.name for p in src.glob("*/metrics.yaml")))
        raise CatalogueError(f"{name}: no such program in src/{src.name}/; allowed: {known}")
    return load_program(path)
