"""Programs for tests, so that they do not change when a real metrics.yaml does."""

from __future__ import annotations

from typing import Any

from tenken.model.catalogue import SUBJECTS, Metric, Program, load_catalogue


def make_metric(name: str, **changes: Any) -> Metric:
    """A bandwidth metric like those of STREAM."""
    options: dict[str, Any] = {
        "title": name,
        "unit": "GB/s",
        "direction": "higher",
        "statistic": "median",
        "per": ("host", "gpu"),
        "limit": "memory",
        "floor": {"host": None, "gpu": 0.8},
        "min_count": 100,
        "max_spread": {"host": 0.2, "gpu": 0.05},
        "plot": "bars",
        "group": "kernel",
        "data_sheet": "memory",
        **changes,
    }
    if isinstance(options["min_count"], int):
        options["min_count"] = dict.fromkeys(SUBJECTS, options["min_count"])
    return Metric(name=name, **options)


def make_program(name: str = "stream", *metrics: str, **changes: Any) -> Program:
    """A program whose metrics are all like STREAM's."""
    names = metrics or ("copy", "scale", "add", "triad", "dot")
    return Program(name, name, f"docs/{name}.md", {m: make_metric(m, **changes) for m in names})


def declared_metrics(program: str) -> dict[str, dict[str, Any]]:
    """The metrics of a program of the suite, with their keys, inherited ones included."""
    return {name: dict(vars(metric)) for name, metric in load_catalogue()[program].metrics.items()}
