"""Values that made judging itself fail: whatever comes in, a judgement comes out that names the field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lies.lie import Lie, put, without

#: Values that no field takes.
ODD: tuple[Any, ...] = (10**19, -1, "", [], {}, "NaN", "🙂", 1e308)
FIELDS = (
    ("devices.0.index", "index|GPU"),
    ("devices.0.memory_bytes", "memory_bytes"),
    ("devices.0.compute_capability", "compute_capability"),
    ("placement.ranks", "ranks"),
    ("placement.allowed_cores", "allowed_cores|cores|placement"),
    ("health.devices", "health"),
    ("health.devices.0.samples", "samples"),
    ("metrics.0.count", "count"),
    ("metrics.0.value", "value|physical limit|beyond|must be"),
    ("started", "started"),
    ("verification.checks.0.error", "error"),
    ("verification.checks.0.tolerance", "tolerance"),
    ("limits", "limits"),
    ("command", "command"),
    ("host", "host"),
    ("build", "build"),
)
#: What a field takes after all: a tolerance is held against the declared one.
TAKEN = [("verification.checks.0.tolerance", "NaN")]


def lies() -> Iterator[Lie]:
    for path, names in FIELDS:
        for value in ODD:
            if (path, value) not in TAKEN:
                yield Lie("stream", f"{path} is {str(value)[:24]!r} ({type(value).__name__})", names, put(path, value))
    for path, names in (
        ("schema", "schema"),
        ("program", "program"),
        ("status", "status"),
        ("metrics", "metrics"),
        ("verification", "verification"),
        ("health", "health"),
        ("limits", "limits"),
        ("path", "path"),
        ("parameters", "parameters"),
        ("devices", "devices"),
        ("placement", "placement"),
    ):
        yield Lie("gemm", f"without {path}", names, without(path))
    for text, names in (
        ("[]", "top level"),
        ("null", "top level"),
        ("0", "top level"),
        ('""', "top level"),
        ("", "empty"),
    ):
        yield Lie("daxpy", f"the document is {text!r}", names, lambda raw, text=text: text)
    yield Lie(
        "hpcg",
        "iterations is 0",
        "must be|iterations",
        lambda raw: (
            [
                m.update(value=0, best=0, median=0, p5=0, p95=0, samples=[0])
                for m in raw["metrics"]
                if m["name"] == "iterations"
            ]
            and None
        ),
    )
