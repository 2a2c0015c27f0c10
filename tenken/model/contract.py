"""What a result must contain, declared next to the metrics: points of sweeps, verifications, choices.

Each of these is a section of metrics.yaml. `read` reads it, and tenken/judge/completeness.py compares it with a result:

    defaults: {operations: all}          values of parameters that are not requested
    defaults_if_stated: {die: "no"}      the same for parameters that not every build or back end states
    libraries: [NCCL]                    libraries that may be missing: a waiver names one of them
    points:                              where metrics are reported; those of one entry at the same points
      - metrics: [all_reduce, all_reduce_time]
        at: {bytes: {from: min_bytes, to: max_bytes, by: factor}}
    verifications:                       what is verified; {x} is a coordinate, {metric}, {subject} or {pair}
      - {name: elements, what: "{metric}, {bytes}, every element, exact", of: [all_reduce], tolerance: 0}
      - {name: words, what: "{metric} by {way}", of: [write], others: true, tolerance: 0}   others too
    paths:                               choices that a setting of the machine can change, and those that are allowed
      fp64_emulation: ["off"]
      cufile: {allowed: [GPUDirect Storage], claimed: gds}      only where the system file claims it
      far: {allowed: [], verdict: INVALID, unless: stay}        every key far.*, unless requested
    counts: [parts]                      parameters that count what the subject `ranks` is of
    by_compiler: {backend: openacc}      runs whose GPU kernels the compiler makes: no floors, the spread of a host
    on_gpu: {openacc_device: device}     of these, what they report where the kernels ran on a GPU
    watched_by: first rank               the GPUs of other ranks are read before and after the run alone
    timed: true                          its samples make up most of the timed part: too short ones are wrong
    timed: 0.1                           the same, and this share of a run on the host
    lasts: seconds                       the parameter with the requested seconds of a run; its check has the variable
                                         PROGRAM_seconds
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tenken.errors import CatalogueError
from tenken.model.quantities import plain
from tenken.model.verdicts import FAIL, INVALID
from tenken.model.verification import Check

#: Values of a coordinate that the program determines itself: matrices by available memory, formats that the GPU
#: supports.
OWN = "own"
#: Separates coordinates whose values are given as one text with an x between them.
JOINED = "_x_"
#: The parameter with which a test injects a fault.
INJECTED = "inject_fault"


@dataclass(frozen=True)
class Sweep:
    """From one size to another by a factor, each a number or the name of a parameter; the last size is included."""

    start: str | float
    end: str | float
    factor: str | float

    def required(self, stated: Mapping[str, Any]) -> set[Any] | None:
        start, end, factor = (
            plain(stated[one] if isinstance(one, str) else one) for one in (self.start, self.end, self.factor)
        )
        if not all(isinstance(one, float) for one in (start, end, factor)) or factor <= 1 or start <= 0:
            return None
        sizes: list[float] = []
        while start < end and len(sizes) < 1000:
            sizes.append(start)
            start *= factor
        return {*sizes, end}


@dataclass(frozen=True)
class Listed:
    """The comma-separated values of a parameter; a word of `own` (all, auto) leaves the choice to the program."""

    parameter: str
    own: tuple[str, ...] = ("all", "auto")

    def required(self, stated: Mapping[str, Any]) -> set[Any] | None:
        words = {word.strip() for word in str(stated[self.parameter]).split(",")}
        return None if words & set(self.own) else {plain(word) for word in words}


@dataclass(frozen=True)
class With:
    """Chosen by the program, but including these."""

    values: tuple[Any, ...]

    def required(self, stated: Mapping[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class Counted:
    """From 1 to the value of a parameter. If the parameter is 1 or absent, the coordinate is absent too."""

    parameter: str

    def required(self, stated: Mapping[str, Any]) -> set[Any] | None:
        return {float(i) for i in range(1, (count(stated, self.parameter) or 0) + 1)}


def count(stated: Mapping[str, Any], name: str) -> int | None:
    """A parameter as a count; None if it is absent or not a plausible count."""
    found = plain(stated.get(name))
    return int(found) if isinstance(found, float) and 1 <= found <= 10_000 else None


Values = tuple[Any, ...] | Sweep | Listed | With | Counted | None
"""Values of a coordinate: listed, a sweep, a parameter's list or count, or determined by the program (None, or
including some)."""


def required(values: Values, stated: Mapping[str, Any]) -> set[Any] | None:
    """The required values of a coordinate for a run's parameters; None if the program determines them."""
    if values is None or isinstance(values, tuple):
        return None if values is None else {plain(value) for value in values}
    try:
        return values.required(stated)
    except KeyError:
        return set()


@dataclass(frozen=True)
class Points:
    """Where some metrics are reported. `subjects`: each (all of a kind), first (one of them) or some; `together`: if
    one of the metrics is reported, all must be, so that a dropped one is detected.
    """

    metrics: tuple[str, ...]
    at: Mapping[str, Values]
    subjects: str = "each"
    ragged: bool = False
    together: bool = False


@dataclass(frozen=True)
class Verified:
    """A required verification: one for each point of the metrics `of`, or at least one.

    `name` is what results state since version 2. `what` is its description, and its name in version 1. `each` maps a
    placeholder to the parameter that counts it: {repetition} from 1 to `repetitions`. `where`: parameters with which it
    is required, each with its permitted values; `subject`: the kinds of subject for which some metric must be reported.
    `count`: how many for each point (0: once for all points).
    """

    name: str
    what: str
    tolerance: float
    of: tuple[str, ...] = ()
    each: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    count: int = 1
    #: Others are allowed too, for results that are not metrics.
    others: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.what)
        text = "".join(re.escape(part) if i % 2 == 0 else f"(?P<{part}>.+?)" for i, part in enumerate(parts))
        return re.compile(text, re.S)

    def text(self, where: Mapping[str, Any]) -> str:
        """`what` with the coordinates of one comparison filled in; unknown placeholders are left."""
        return re.sub(r"\{(\w+)\}", lambda m: str(where.get(m[1], m[0])), self.what)


@dataclass(frozen=True)
class Choice:
    """What a program may have chosen, if the system file claims `claimed` and the option `unless` is not given."""

    allowed: tuple[Any, ...]
    claimed: str = ""
    unless: str = ""
    verdict: str = FAIL


@dataclass(frozen=True)
class Contract:
    """All requirements on a program's results other than values."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    defaults_if_stated: Mapping[str, Any] = field(default_factory=dict)
    #: Former names of options, parameters and coordinates -> current names.
    was_options: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    points: tuple[Points, ...] = ()
    verifications: tuple[Verified, ...] = ()
    paths: Mapping[str, Choice] = field(default_factory=dict)
    #: Parameters with which the compiler generates the GPU kernels. Their metrics have the maximum spread of a host
    #: and no floor, since floors were measured with this suite's kernels.
    by_compiler: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    #: Parameters that give the number of ranks for the subject `ranks`.
    counts: tuple[str, ...] = ()
    #: What a program reports if a compiler's kernels ran on a GPU that it does not list.
    on_gpu: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    #: "first rank": the GPUs of other ranks are read only before and after the run.
    watched_by: str = ""
    #: Whether the samples must make up most of the timed part; far shorter ones are wrong.
    timed: bool = False
    #: Minimum share of the samples in a run on the host; 0: warm-up and set-up may take nearly all of it.
    least: float = 0.0
    #: The parameter with the seconds that a run lasts, of a program that runs as long as requested.
    lasts: str = ""

    @cached_property
    def _named(self) -> dict[str, int]:
        return {one.name: number for number, one in enumerate(self.verifications)}

    def find(self, check: Check) -> tuple[int, Mapping[str, Any]] | None:
        """Finds the declared verification and coordinates of a comparison: by its name, or in version 1 by its text.
        None: not declared."""
        if check.name:
            number = self._named.get(check.name)
            if number is None:
                return None
            subject, where = check.subject, dict(check.at)
            if subject is not None:
                where |= {"subject": subject.id, "from": subject.first, "to": subject.second}
                where["pair"] = f"GPU {subject.first} -> GPU {subject.second}"
            for name in self.verifications[number].pattern.groupindex:
                parts = name.split(JOINED)
                where.setdefault(name, "x".join(str(check.at[part]) for part in parts if part in check.at))
            return number, {name: where[name] for name in self.verifications[number].pattern.groupindex}
        matches = ((number, one.pattern.fullmatch(check.what)) for number, one in enumerate(self.verifications))
        return next(((number, found.groupdict()) for number, found in matches if found), None)


KEYS = (
    "defaults", "defaults_if_stated", "libraries", "points", "verifications", "paths", "by_compiler", "counts",
    "on_gpu", "watched_by", "timed", "lasts",
)  # fmt: skip


def read(
    raw: Mapping[str, Any], metrics: Mapping[str, Any], was: Mapping[str, tuple[str, ...]], where: str
) -> Contract:
    """The sections of a metrics.yaml; `was` is its section of former names. Raises CatalogueError with section, key
    and allowed values.
    """
    return Contract(
        dict(_a(dict, raw.get("defaults") or {}, f"{where}: defaults")),
        dict(_a(dict, raw.get("defaults_if_stated") or {}, f"{where}: defaults_if_stated")),
        {former: now for now, formers in was.items() for former in formers},
        tuple(map(str, _a(list, raw.get("libraries") or [], f"{where}: libraries"))),
        tuple(_points(one, metrics, f"{where}: points") for one in _a(list, raw.get("points") or [], where)),
        tuple(
            _verified(one, metrics, f"{where}: verifications")
            for one in _a(list, raw.get("verifications") or [], f"{where}: verifications")
        ),
        {
            str(key): _choice(allowed, f"{where}: paths: {key}")
            for key, allowed in _a(dict, raw.get("paths") or {}, f"{where}: paths").items()
        },
        _values_by_name(_a(dict, raw.get("by_compiler") or {}, f"{where}: by_compiler")),
        tuple(map(str, _a(list, raw.get("counts") or [], f"{where}: counts"))),
        _values_by_name(_a(dict, raw.get("on_gpu") or {}, f"{where}: on_gpu")),
        str(raw.get("watched_by", "")),
        bool(raw.get("timed", False)),
        _share(raw.get("timed", False), f"{where}: timed"),
        str(raw.get("lasts", "")),
    )


def _share(raw: Any, where: str) -> float:
    if isinstance(raw, bool):
        return 0.0
    if not isinstance(raw, float) or not 0 < raw < 1:
        raise CatalogueError(f"{where} is {raw!r}; allowed: true, false, or a share above 0 and below 1")
    return raw


def _a(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise CatalogueError(f"{where} is {value!r}; expected a {'map' if kind is dict else 'list'}")
    return value


def _only(raw: Any, allowed: tuple[str, ...], where: str) -> Mapping[str, Any]:
    unknown = set(_a(dict, raw, where)) - set(allowed)
    if unknown:
        raise CatalogueError(f"{where}: unknown key {sorted(unknown)[0]!r}; allowed: {', '.join(allowed)}")
    found: Mapping[str, Any] = raw
    return found


def _named(names: Any, metrics: Mapping[str, Any], where: str) -> tuple[str, ...]:
    unknown = [name for name in _a(list, names, where) if name not in metrics]
    if unknown:
        raise CatalogueError(f"{where}: {unknown[0]!r} is not a metric of the program")
    return tuple(names)


def _points(raw: Any, metrics: Mapping[str, Any], where: str) -> Points:
    _only(raw, ("metrics", "at", "subjects", "ragged", "together"), where)
    subjects = raw.get("subjects", "each")
    if subjects not in ("each", "first", "some"):
        raise CatalogueError(f"{where}: subjects is {subjects!r}; allowed: each, first, some")
    at = {str(k): _values(v, f"{where}: {k}") for k, v in _a(dict, raw.get("at") or {}, where).items()}
    names = _named(raw.get("metrics", []), metrics, where)
    return Points(names, at, subjects, bool(raw.get("ragged", False)), bool(raw.get("together", False)))


def _values(raw: Any, where: str) -> Values:
    if raw == OWN:
        return None
    if isinstance(raw, list):
        return tuple(raw)
    if isinstance(raw, str):
        return Listed(raw)
    if isinstance(raw, dict) and set(raw) == {"from", "to", "by"}:
        return Sweep(raw["from"], raw["to"], raw["by"])
    if isinstance(raw, dict) and set(raw) == {"with"}:
        return With(tuple(_a(list, raw["with"], where)))
    if isinstance(raw, dict) and set(raw) == {"each"} and isinstance(raw["each"], str):
        return Counted(raw["each"])
    raise CatalogueError(
        f"{where} is {raw!r}; allowed: own, a list of values, a parameter's name, a map of with or of each, or one of "
        "from, to and by"
    )


def _choice(raw: Any, where: str) -> Choice:
    said = raw if isinstance(raw, dict) else {"allowed": raw}
    _only(said, ("allowed", "claimed", "unless", "verdict"), where)
    verdict = said.get("verdict", FAIL)
    if verdict not in (FAIL, INVALID):
        raise CatalogueError(f"{where}: verdict is {verdict!r}; allowed: {FAIL}, {INVALID}")
    allowed = tuple(_a(list, said.get("allowed"), f"{where}: allowed"))
    return Choice(allowed, str(said.get("claimed", "")), str(said.get("unless", "")), verdict)


def _where(raw: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return _values_by_name(raw.get("where") or {})


def _values_by_name(raw: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {k: tuple(v) if isinstance(v, list) else (v,) for k, v in raw.items()}


def _verified(raw: Any, metrics: Mapping[str, Any], where: str) -> Verified:
    _only(raw, ("name", "what", "tolerance", "of", "each", "optional", "where", "count", "others"), where)
    if not isinstance(raw.get("what"), str) or not isinstance(raw.get("tolerance"), (int, float)):
        raise CatalogueError(f"{where}: each has a text `what` and a number `tolerance`")
    if not raw["tolerance"] >= 0:
        raise CatalogueError(f"{where}: tolerance is {raw['tolerance']}; allowed: 0 or above")
    name = str(raw.get("name", raw["what"]))
    return Verified(
        name,
        raw["what"],
        float(raw["tolerance"]),
        _named(raw.get("of", []), metrics, where),
        dict(raw.get("each") or {}),
        bool(raw.get("optional", False)),
        _where(raw),
        int(raw.get("count", 1)),
        bool(raw.get("others", False)),
    )  # fmt: skip
