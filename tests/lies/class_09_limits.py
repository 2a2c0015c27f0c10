"""Limits that a result claims: beside the data sheet, beside what its own basis gives, with and without its values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tenken.model.judgement import DATA_SHEET, DEVICE, Limit
from tenken.model.machine import Machine
from tests.lies import honest
from tests.lies.lie import Change, Lie, both, put, remade

#: What a machine of no known card is judged by: nothing but what the result itself lists.
BARE = {"machine": Machine()}


def limit(name: str, factor: float = 1.0, **fields: Any) -> Change:
    """The limits of the metrics of a name."""

    def change(raw: Any) -> None:
        found = [m["id"] for m in raw["metrics"] if m["name"] == name and "value" in raw["limits"][m["id"]]]
        assert found, name
        for one in found:
            raw["limits"][one]["value"] *= factor
            raw["limits"][one].update(fields)

    return change


def values(name: str, factor: float) -> Change:
    """Values of a name, with all that follows from the samples."""

    def change(raw: Any) -> None:
        for metric in [m for m in raw["metrics"] if m["name"] == name]:
            remade(raw, metric, [factor * value for value in metric["samples"]])

    return change


def unknown(name: str) -> Change:
    def change(raw: Any) -> None:
        for metric in raw["metrics"]:
            if metric["name"] == name:
                raw["limits"][metric["id"]] = {"unknown": "the GPU does not report"}

    return change


def first(change: Any) -> Change:
    """The limit of the first metric: a value in its place, or None to take it away."""

    def spoil(raw: Any) -> None:
        ident = raw["metrics"][0]["id"]
        if change is None:
            del raw["limits"][ident]
        else:
            raw["limits"][ident] = change

    return spoil


#: Runs and metrics whose limit a data sheet gives.
OF_SHEET = (
    ("stream", "triad"), ("stream_two", "dot"), ("memcopy", "kernel"), ("access_patterns", "device_copy"),
    ("transfer", "dtod"), ("transfer", "htod_pinned"), ("spmv", "dot"), ("hpcg", "dot"), ("migration", "gpu_first"),
    ("transpose", "device_copy"), ("p2p", "peer"), ("hpl", "dgemm"),
)  # fmt: skip
#: Runs and metrics whose limit was measured in the same run, or that the listed device gives.
OF_RUN = (
    ("himeno", "iteration"), ("hpl", "hpl"), ("hpl_mxp", "hpl_mxp"), ("stencil", "alone"), ("stencil", "fused"),
    ("stencil_gpus", "alone"), ("transpose", "padded_bandwidth"), ("hpcg_gpus", "raw"), ("hpcg_gpus", "rating"),
    ("hpl", "dgemm"),
)  # fmt: skip


def lies() -> Iterator[Lie]:
    for of, name in OF_SHEET:
        yield Lie(of, f"limit of {name} x10", f"{name}.*limit", limit(name, 10))
        yield Lie(of, f"limit of {name} halved", f"{name}.*limit|beyond", limit(name, 0.5))
        yield Lie(of, f"value and limit of {name} x10", f"{name}", both(limit(name, 10), values(name, 10)))
        yield Lie(of, f"value and limit of {name} halved", f"{name}", both(limit(name, 0.5), values(name, 0.5)))
    for of, name in OF_SHEET[:-1]:
        yield Lie(of, f"no limit of {name}, value x10", f"{name}", both(unknown(name), values(name, 10)))
    for of, name in OF_RUN:
        yield Lie(of, f"claim for {name} x10", f"{name}.*limit", limit(name, 10))
        yield Lie(of, f"claim for {name} and its value halved", f"{name}", both(limit(name, 0.5), values(name, 0.5)))
    for of, name in (
        ("stencil", "alone"),
        ("transpose", "padded_bandwidth"),
        ("hpl", "dgemm"),
        ("himeno", "iteration"),
    ):
        yield Lie(of, f"on a machine of no known card, claim for {name} x10", f"{name}.*limit", limit(name, 10), BARE)
    for of, name in (("stream", "triad"), ("memcopy", "memcpy"), ("access_patterns", "device_copy")):
        yield Lie(of, f"on a machine of no known card, limit of {name} x10", f"{name}.*limit", limit(name, 10), BARE)
        yield Lie(of, f"... halved, and its value, {name}", f"{name}", both(limit(name, 0.5), values(name, 0.5)), BARE)
    for factor in (1.03, 0.97):
        yield Lie("stream", f"limit of triad x{factor}", "triad.*limit", limit("triad", factor))
    for name, names, change in (
        ("another unit", "unit|triad", limit("triad", unit="MB/s")),
        ("a sheet of its own", "triad.*limit", limit("triad", 2, basis="data sheet: mine")),
        ("an attribute of another name", "triad.*limit", limit("triad", 2, basis="attribute: trust me")),
        ("no basis", "basis", limit("triad", basis="")),
        ("0", "limits|limit", first({"value": 0, "unit": "GB/s", "basis": "attribute: memory clock x bus width"})),
        (
            "below 0",
            "limits|limit",
            first({"value": -1, "unit": "GB/s", "basis": "attribute: memory clock x bus width"}),
        ),
        ("a word", "limits", first({"value": "much", "unit": "GB/s", "basis": "x"})),
        ("null", "limits", first({"value": None, "unit": "GB/s", "basis": "x"})),
        ("nothing", "limits", first({})),
        ("left out", "limits", first(None)),
        ("both known and unknown", "limits", first({"value": 4814.3, "unit": "GB/s", "basis": "x", "unknown": "y"})),
        ("of a metric that did not come", "limits", put("limits.x", {"unknown": "none"})),
    ):
        yield Lie("stream", f"the limit is {name}", names, change)
    for name, path in (("memory clock", "memory_clock_max_mhz"), ("bus", "memory_bus_bits")):
        yield Lie(
            "stream", f"limit and {name} of the listed GPU x10", "limit|memory_clock|memory_bus",
            both(*(limit(m, 10) for m in ("copy", "scale", "add", "triad", "dot")),
                 put(f"devices.0.{path}", lambda v: v * 10)),
        )  # fmt: skip
    for name, path in (("multiprocessors", "multiprocessors"), ("clock", "sm_clock_max_mhz")):
        yield Lie(
            "hpl", f"limit and {name} of the listed GPU x10", "limit|multiprocessors",
            both(limit("dgemm", 10), put(f"devices.0.{path}", lambda v: v * 10)),
        )  # fmt: skip


def twins() -> Iterator[tuple[str, str, str]]:
    """Claims within 2 %, of a driver's signalling rate, and of machines that no sheet knows."""
    for of, name, factor in (("stream", "triad", 1.015), ("stream", "dot", 0.985), ("p2p", "peer", 1.0),
                             ("transfer", "htod_pinned", 1.01), ("hpl", "dgemm", 1.01)):  # fmt: skip
        run = honest.run(of)
        raw = run.raw()
        limit(name, factor)(raw)
        yield f"{of}: limit of {name} x{factor}", run.judged(raw).verdict, run.verdict
    run = honest.run("stream")
    raw = run.raw()
    unknown("triad")(raw)
    yield "a program that knows no limit, beside a data sheet", run.judged(raw).verdict, run.verdict
    for of in ("stream", "transpose", "stencil", "memcopy", "hpl"):
        run = honest.run(of)
        yield f"{of} on a machine of no known card", run.judged(run.raw(), **BARE).verdict, "PASS"
    key = ("memory", "gpu")
    sheet = run.machine.limits[key]
    assert sheet.said_by == DATA_SHEET and sheet.value is not None
    run = honest.run("stream")
    told = Limit(sheet.value, sheet.unit, "attribute: 2 x memory clock x bus width, as the driver reports them", DEVICE)
    own = replace(run.machine, limits={**run.machine.limits, key: told})
    judged = run.judged(run.raw(), machine=own)
    assert {one.limit.said_by for one in judged.judged.values()} == {DEVICE}
    yield "what NVML tells, where there is no sheet", judged.verdict, run.verdict
