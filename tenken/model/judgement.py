"""The findings of comparing a result with its request, its machine and its own figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from tenken.errors import printable
from tenken.model import verdicts
from tenken.model.subject import Subject

#: Kinds of criteria: a target agreed with a vendor, the machine's own reference, what other devices of the model
#: reached, a share of the physical limit. The ceiling (a little above the physical limit) guards against wrong counting
#: and is not a criterion.
CONTRACT, REFERENCE, KIND, FLOOR, CEILING = "contract", "reference", "kind", "floor", "ceiling"
#: What a value must reach compared with others of the same run; not enough for a PASS.
RELATION = "relation"
CRITERIA = (CONTRACT, REFERENCE, KIND, FLOOR, RELATION)

#: The sources of a limit.
DATA_SHEET, DEVICE, SAME_RUN, RESULT = "data sheet", "device's own claim", "same run", "result"

_OPTIONAL = frozenset({int, float, NoneType})

#: How the basis of a limit in a result begins, and its source (docs/result-format.md).
_SAYS = (
    ("data sheet:", DATA_SHEET), ("attribute:", DEVICE), ("driver:", DEVICE), ("measured:", SAME_RUN),
    ("the best of the library's algorithms", SAME_RUN),
)  # fmt: skip


def says(basis: str, other: str) -> str:
    """The origin of a limit, by the beginning of its basis; `other` if not stated."""
    for begin, who in _SAYS:
        if basis.startswith(begin):
            return who
    return other


@dataclass(frozen=True)
class Limit:
    """A physical limit in `unit`, its basis and its origin; `value` None: unknown, with the reason."""

    value: float | None
    unit: str = ""
    basis: str = ""
    said_by: str = RESULT
    unknown: str = ""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Limit:
        """From an entry in the `limits` of a result or a record."""
        entries = tuple(raw.items())
        try:
            return _LIMITS[entries]
        except (KeyError, TypeError):  # a list cannot be searched for
            found = cls._of(raw)
        texts = all(type(one) is str for key, one in entries if key != "value")
        if texts and type(raw.get("value")) in _OPTIONAL and len(_LIMITS) < _REMEMBERED:
            _LIMITS[entries] = found
        return found

    @classmethod
    def _of(cls, raw: Mapping[str, Any]) -> Limit:
        if "unknown" in raw and raw.get("value") is None:
            return cls(None, unknown=str(raw["unknown"]))
        basis, said_by = str(raw["basis"]), str(raw.get("said_by") or RESULT)
        if said_by == RESULT:
            said_by = says(basis, RESULT)
        return cls(float(raw["value"]), str(raw["unit"]), basis, said_by)

    def as_json(self) -> dict[str, Any]:
        if self.value is None:
            return {"unknown": self.unknown or "no reason given"}
        return {"value": self.value, "unit": self.unit, "basis": self.basis, "said_by": self.said_by}


#: By their entries in a file: an archive has millions of values with the same few limits.
_LIMITS: dict[tuple[tuple[str, Any], ...], Limit] = {}
_REMEMBERED = 4096


@dataclass(frozen=True)
class Criterion:
    """The criterion of a value: `low` and `high` in `unit`, None without a bound. `value` is the reference or limit
    that it is derived from, `statistic` the one that is compared, `source` its origin.
    """

    kind: str
    value: float
    low: float | None
    high: float | None
    unit: str
    statistic: str
    source: str

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Criterion:
        low, high = raw["low"], raw["high"]
        if not (type(low) in _OPTIONAL and type(high) in _OPTIONAL):
            raise TypeError(f"criterion is from {low!r} to {high!r}; allowed: numbers, null")
        return cls(
            str(raw["kind"]), float(raw["value"]), low, high, str(raw["unit"]), str(raw["statistic"]),
            str(raw["source"]),
        )  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One deviation from what is required; `message` describes it in one sentence. `metric` is the id of the value
    concerned, `subject` and `node` what it belongs to, `kind` the kind of the missed bound. `miss` is a fraction of
    the bound (0.05: missed by 5 %).
    """

    verdict: str
    message: str
    metric: str | None = None
    subject: Subject | None = None
    node: str = ""
    value: float | None = None
    unit: str | None = None
    bound: float | None = None
    miss: float | None = None
    kind: str = ""

    def __post_init__(self) -> None:
        """One line without control characters: it is printed by ReFrame, the gate and on pages."""
        object.__setattr__(self, "message", printable(" ".join(self.message.split("\n"))))

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Finding:
        subject = raw.get("subject")
        return cls(
            verdicts.known(raw["verdict"]), str(raw["message"]), raw.get("metric"),
            Subject.of(subject) if isinstance(subject, Mapping) else None, str(raw.get("node") or ""),
            raw.get("value"), raw.get("unit"), raw.get("bound"), raw.get("miss"), str(raw.get("kind") or ""),
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict, "message": self.message, "metric": self.metric,
            "subject": None if self.subject is None else self.subject.as_json(), "node": self.node,
            "value": self.value, "unit": self.unit, "bound": self.bound, "miss": self.miss, "kind": self.kind,
        }  # fmt: skip


@dataclass(frozen=True)
class JudgedMetric:
    """A value with everything it was compared with. `bounds` are absolute and include the ceiling."""

    verdict: str
    value: float
    unit: str
    direction: str
    statistic: str
    criterion: Criterion | None
    limit: Limit
    efficiency: float | None
    bounds: tuple[float | None, float | None]

    @property
    def absolute(self) -> bool:
        """Whether it has a criterion other than consistency within the run."""
        criterion = self.criterion
        if criterion is None or criterion.kind == RELATION:
            return False
        return criterion.kind != FLOOR or self.limit.said_by != SAME_RUN

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> JudgedMetric:
        criterion, efficiency = raw["criterion"], raw["efficiency"]
        low, high = raw["bounds"]
        if not (type(low) in _OPTIONAL and type(high) in _OPTIONAL and type(efficiency) in _OPTIONAL):
            raise TypeError(f"judged has efficiency {efficiency!r}, bounds {low!r} to {high!r}; allowed: numbers, null")
        return cls(
            verdicts.known(raw["verdict"]), float(raw["value"]), str(raw["unit"]), str(raw["direction"]),
            str(raw["statistic"]),
            None if criterion is None else Criterion.of(criterion), Limit.of(raw["limit"]), efficiency, (low, high),
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict, "value": self.value, "unit": self.unit, "direction": self.direction,
            "statistic": self.statistic, "criterion": None if self.criterion is None else vars(self.criterion),
            "limit": self.limit.as_json(), "efficiency": self.efficiency, "bounds": list(self.bounds),
        }  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """The verdict of a run with its reasons. `structural` findings invalidate the run whatever its values are."""

    verdict: str
    findings: tuple[Finding, ...] = ()
    structural: tuple[Finding, ...] = ()
    judged: Mapping[str, JudgedMetric] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Judgement:
        """From a record. Raises KeyError, TypeError or ValueError if it is malformed."""
        verdict = verdicts.known(raw["verdict"])
        findings = tuple(Finding.of(f) for f in raw["findings"])
        return cls(verdict, findings, (), {k: JudgedMetric.of(j) for k, j in raw["judged"].items()})

    def message(self) -> str:
        """All findings of the decisive verdict in one line."""
        return "; ".join(f.message for f in self.findings if f.verdict == self.verdict)

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "findings": [f.as_json() for f in self.findings],
            "judged": {name: j.as_json() for name, j in self.judged.items()},
        }
