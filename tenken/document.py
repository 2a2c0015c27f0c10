"""Result documents: the one place that reads what a benchmark program wrote.

`src/result.schema.json` describes them; `load` refuses everything else with one line that says what and where.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenken.errors import DocumentError
from tenken.paths import SRC

#: Reasons for which a program may say that this machine cannot do it; the detail stands after a colon.
#: Each names the promise of the system file that such a waiver would break (None: nothing is promised).
WAIVER_REASONS: Mapping[str, str | None] = {
    "no peer access": "peer",
    "no managed memory": "managed",
    "no pageable memory access": "sam",
    "no device-buffer MPI": "device_mpi",
    "no GPUDirect Storage": "gds",
    "needs two GPUs": "two_gpus",
    "needs more ranks": None,
    "library missing": None,
    "not supported by the device": None,
    "not supported by the file system": None,
}

EXIT_OK, EXIT_FAILED, EXIT_BAD_ARGUMENTS, EXIT_WAIVED = 0, 1, 2, 3


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """Quantile of an ascending sequence by linear interpolation between order statistics (numpy's default)."""
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@dataclass(frozen=True)
class MetricValue:
    """One metric of a document: *the* value is the statistic named, in `unit`; samples in the order measured."""

    id: str
    name: str
    subject: Mapping[str, int]
    at: Mapping[str, Any]
    unit: str
    direction: str
    statistic: str
    value: float
    best: float
    median: float
    p5: float
    p95: float
    count: int
    samples: tuple[float, ...]

    @property
    def kind(self) -> str:
        """host, gpu, pair or ranks."""
        return "pair" if "from" in self.subject else next(iter(self.subject))

    @property
    def place(self) -> str:
        """The subject in words, without the node: "host", "GPU 0", "GPU 0->1", "4 ranks"."""
        if self.kind == "pair":
            return f"GPU {self.subject['from']}->{self.subject['to']}"
        if self.kind == "gpu":
            return f"GPU {self.subject['gpu']}"
        return f"{self.subject['ranks']} ranks" if self.kind == "ranks" else "host"

    @property
    def spread(self) -> float:
        """Distance of the median from the best as a fraction of the best; 0 when best is 0."""
        return abs(self.best - self.median) / abs(self.best) if self.best else 0.0

    def statistic_named(self, statistic: str) -> float:
        """best, median, p5, p95 or mean of the samples; the value for `total`."""
        if statistic == "mean":
            return math.fsum(self.samples) / len(self.samples)
        return {"best": self.best, "median": self.median, "p5": self.p5, "p95": self.p95, "total": self.value}[
            statistic
        ]

    def inconsistencies(self) -> list[str]:
        """What the stated statistics say against the samples: empty when they agree to a millionth."""
        ordered = sorted(self.samples)
        stated = {
            "best": (self.best, ordered[-1] if self.direction == "higher" else ordered[0]),
            "median": (self.median, quantile(ordered, 0.5)),
            "p5": (self.p5, quantile(ordered, 0.05)),
            "p95": (self.p95, quantile(ordered, 0.95)),
        }
        if self.statistic in ("median", "best", "p5", "p95"):
            stated["value"] = (self.value, stated[self.statistic][1])
        elif self.statistic == "mean":
            stated["value"] = (self.value, math.fsum(ordered) / len(ordered))
        wrong = [
            f"{name} is {said:.9g} but the samples give {found:.9g}"
            for name, (said, found) in stated.items()
            if not math.isclose(said, found, rel_tol=1e-6, abs_tol=1e-12)
        ]
        if self.count != len(self.samples):
            wrong.append(f"count is {self.count} but there are {len(self.samples)} samples")
        return wrong


@dataclass(frozen=True)
class Document:
    """A schema-valid result document. `raw` is the JSON object as read."""

    raw: Mapping[str, Any]
    metrics: tuple[MetricValue, ...]

    @property
    def program(self) -> str:
        return str(self.raw["program"])

    @property
    def status(self) -> str:
        return str(self.raw["status"])

    @property
    def reason(self) -> str:
        return str(self.raw["reason"])

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.raw["parameters"]

    @property
    def devices(self) -> Sequence[Mapping[str, Any]]:
        return self.raw["devices"]

    @property
    def node(self) -> str:
        """Name of the host that wrote the document."""
        return str(self.raw["host"]["name"])


@lru_cache(maxsize=1)
def _validator() -> Any:
    import jsonschema

    schema = json.loads((SRC / "result.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _refuse_constant(name: str) -> float:
    raise DocumentError(f"holds {name}, which is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise DocumentError(f"holds {text}, which is not finite")
    return number


def metric_from_json(raw: Mapping[str, Any]) -> MetricValue:
    """A metric object of the schema as a MetricValue."""
    return MetricValue(
        id=raw["id"], name=raw["name"], subject=raw["subject"], at=raw.get("at", {}), unit=raw["unit"],
        direction=raw["direction"], statistic=raw["statistic"], value=float(raw["value"]), best=float(raw["best"]),
        median=float(raw["median"]), p5=float(raw["p5"]), p95=float(raw["p95"]), count=raw["count"],
        samples=tuple(float(s) for s in raw["samples"]),
    )  # fmt: skip


def parse(text: str, where: str) -> Document:
    """A document out of its JSON text. Raises DocumentError; `where` begins the message."""
    try:
        raw = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except DocumentError as error:
        raise DocumentError(f"{where}: {error}") from None
    except ValueError as error:
        what = "is empty" if not text.strip() else f"is truncated or not JSON ({error})"
        raise DocumentError(f"{where}: {what}") from None
    return validate(raw, where)


def validate(raw: Any, where: str) -> Document:
    """A document out of a JSON object. Raises DocumentError naming the first thing that is not of the schema."""
    import jsonschema

    error = jsonschema.exceptions.best_match(_validator().iter_errors(raw))
    if error is not None:
        place = "/".join(str(p) for p in error.absolute_path) or "top level"
        raise DocumentError(f"{where}: not a tenken-result/1 document: {place}: {error.message[:300]}")
    metrics = tuple(metric_from_json(m) for m in raw["metrics"])
    seen: set[str] = set()
    for metric in metrics:
        if metric.id in seen:
            raise DocumentError(f"{where}: metric {metric.id} appears twice")
        seen.add(metric.id)
        if metric.id not in raw["limits"]:
            raise DocumentError(f"{where}: metric {metric.id} has no entry in limits")
    return Document(raw, metrics)


def load(path: Path) -> Document:
    """Read a document from a file. Raises DocumentError; a missing file is one too."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(f"{path.name}: the program wrote no result document") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path.name}: cannot be read: {error}") from None
    return parse(text, path.name)
