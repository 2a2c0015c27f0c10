"""Figures that do not follow from samples, cannot be, or are nobody's: value, statistics, samples, id and name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lies.lie import Change, Lie, each, put, samples, times

WHERE = ("stream", "gemm", "hpl", "hpcg", "nccl", "mpi_p2p_host", "transfer", "spmv_host", "daxpy", "stencil", "himeno")


def first(**fields: Any) -> Change:
    def change(raw: Any) -> None:
        metric = raw["metrics"][0]
        metric.update({k: v(metric[k]) if callable(v) else v for k, v in fields.items()})

    return change


def copied(raw: Any) -> None:
    """The samples of one metric in the place of another's of the same unit."""
    one = raw["metrics"][0]
    other = next(m for m in raw["metrics"][1:] if m["unit"] == one["unit"] and m["direction"] == one["direction"])
    for key in ("samples", "value", "best", "median", "p5", "p95", "count"):
        other[key] = one[key]


def part(name: str, factor: float) -> Change:
    """The time of one part of a solver, or of all."""

    def change(raw: Any) -> None:
        for metric in raw["metrics"]:
            if metric["name"] == "phase" and name in metric["at"]["part"]:
                for key in ("value", "best", "median", "p5", "p95"):
                    metric[key] *= factor
                metric["samples"] = [factor * v for v in metric["samples"]]

    return change


def lies() -> Iterator[Lie]:
    for of in WHERE:
        yield Lie(of, "a better value", "value|samples", first(value=lambda v: 1.5 * v))
        yield Lie(of, "a better best", "best", first(best=lambda v: 1.2 * v))
        yield Lie(of, "a median of its own", "median", first(median=lambda v: 1.01 * v))
        yield Lie(of, "more samples than came", "count", first(count=lambda v: v + 900))
        yield Lie(of, "another unit", "unit", first(unit="MB/s"))
        yield Lie(
            of, "another direction", "direction", first(direction=lambda d: "lower" if d == "higher" else "higher")
        )
        yield Lie(of, "another statistic", "statistic", first(statistic=lambda s: "best" if s != "best" else "p95"))
        yield Lie(of, "another name in its id", "xX".lower() + "|in limits", first(id=lambda i: "x" + i))
    for of, name in (
        ("mpi_p2p_host", "latency"),
        ("p2p", "latency"),
        ("nccl", "all_reduce_time"),
        ("transfer", "htod_latency"),
        ("hpl", "phase"),
        ("stream", "triad"),
        ("hpcg", "rating"),
        ("gemm", "of_best"),
        ("transpose", "kernel"),
        ("hpl", "residual"),
        ("hpcg", "iterations"),
        ("spmv_host", "prepare"),
        ("stencil_gpus", "share"),
    ):
        yield Lie(of, f"{name} below 0", "must be", samples(name, times(-1)))
    for of, name in (("mpi_p2p_host", "latency"), ("stream", "copy"), ("hpcg", "raw"), ("transfer", "dtod")):
        yield Lie(of, f"{name} is 0", "must be above 0", samples(name, times(0)))
    for of, name in (("stream", "triad"), ("nccl", "all_reduce"), ("mpi_p2p_host", "latency"), ("daxpy", "daxpy")):
        yield Lie(of, f"{name} constant", "were not measured", samples(name, lambda v: [v[0]] * len(v)))
        yield Lie(
            of,
            f"{name} in two like halves",
            "are repeated",
            samples(name, lambda v: [*v[: len(v) // 2], *v[: len(v) // 2]]),
        )
        yield Lie(of, f"{name} of one sample", "samples", samples(name, lambda v: v[:1]))
    for of in ("stream", "nccl", "transfer", "transpose"):
        yield Lie(of, "one metric's samples for another's", "samples equal those of", copied)
    yield from each(
        "stream",
        ("p5 of its own", "p5", first(p5=lambda v: 1.01 * v)),
        ("p95 of its own", "p95", first(p95=lambda v: 1.01 * v)),
        ("a sample that is not a number", "samples", put("metrics.0.samples", ["4000"])),
        ("no samples", "samples", put("metrics.0.samples", [])),
        ("true as a sample", "samples", put("metrics.0.samples", [True])),
        ("of another GPU than its id", "gpu1|GPU 1", put("metrics.0.subject", {"gpu": 1})),
        ("of no subject", "subject", put("metrics.0.subject", {})),
        ("of two subjects", "metrics/0|subject", put("metrics.0.subject", {"gpu": 0, "host": 0})),
        ("a name that is none", "not in stream", put("metrics.0.name", "fourad")),
    )
    yield from each(
        "nccl",
        ("coordinates and id differ", "bytes", put("metrics.0.at", {"bytes": 999})),
        ("no coordinates", "bytes|coordinates", put("metrics.0.at", {})),
        ("one more coordinate", "coordinates|id", put("metrics.0.at", {"bytes": 1024, "ways": 2})),
    )
    # a rate beside the parts that its time is made of
    for of, name in (("hpl", "hpl"), ("hpl_node", "hpl"), ("hpl_mxp", "hpl_mxp")):
        yield Lie(of, f"{name} faster than its parts", f"{name}.*phase|limit", samples(name, times(1.25)))
        yield Lie(of, f"{name} slower than its parts", f"{name}.*phase|below", samples(name, times(0.1)))
        yield Lie(of, f"a part of {name} is longer than all of it", "phase", part("update", 2))
        yield Lie(of, f"the parts of {name} are a tenth", "phase", part("", 0.1))
    yield Lie("hpl_large", "over_library of other values", "over_library", samples("over_library", times(1.2)))
