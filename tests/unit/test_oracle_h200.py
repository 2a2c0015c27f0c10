"""Results of H200, checked for consistency: limits from the GPUs' attributes, figures from the times next to them."""

from __future__ import annotations

import json
import math
from statistics import median
from typing import Any

import pytest

from tenken.model import catalogue
from tests.support import kept
from tests.support.oracles import close, figure, figures, ramp, statistics_follow

KEPT: list[tuple[str, dict[str, Any]]] = [
    (f"{record.session}-{record.check}", document)
    for record in kept.all_records()
    if (document := json.loads(record.path.read_text()).get("document")) and document["status"] == "ok"
]
#: 3201 MHz, twice a clock, 6016 bits.
MEMORY_GBS = 2 * 3.201 * 6016 / 8
#: PCIe 5 of 16 lanes: 32 GT/s, 128 bits of 130.
PCIE_GBS = 32 * 128 / 130 * 16 / 8
#: 18 links of 26.562 GB/s as the driver reports (the data sheet has 25).
NVLINK_GBS = 18 * 26.562
#: 132 multiprocessors at 1980 MHz with tensor cores of 256 FP64 operations per cycle.
FP64_TFLOPS = 132 * 1.980e-3 * 256


def of(program: str, metric: str | None = None) -> list[Any]:
    """Parameters for a test: the kept results of a program, if it measured that."""
    kept = [(name, document) for name, document in KEPT if document["program"] == program]
    found = [
        pytest.param(document, id=name)
        for name, document in kept
        if metric is None or any(one["name"] == metric for one in document["metrics"])
    ]
    assert found, f"nothing of {program} is kept"
    return found


@pytest.mark.parametrize("document", [pytest.param(document, id=name) for name, document in KEPT])
def test_statistics_and_limits(document: dict[str, Any]) -> None:
    statistics_follow(document)
    for metric in document["metrics"]:
        limit = document["limits"][metric["id"]]
        if "value" not in limit:
            continue
        assert limit["unit"] == metric["unit"]
        expected = {
            "attribute: memory clock x bus width": MEMORY_GBS,
            "attribute: PCIe generation 5 x16": PCIE_GBS,
            "attribute: PCIe generation 5 x16, both directions": 2 * PCIE_GBS,
            "driver: the narrower PCIe of the two": PCIE_GBS,
            "driver: 18 active NVLinks at 26.56 GB/s": NVLINK_GBS,
            "driver: 18 active NVLinks at 26.56 GB/s, both ways": 2 * NVLINK_GBS,
            "attribute: multiprocessors x highest clock x 256 FP64 operations a cycle": FP64_TFLOPS,
        }.get(limit["basis"])
        if expected is None:
            assert limit["basis"].startswith("measured: "), limit["basis"]
        else:
            close(limit["value"], expected)
        # nothing exceeds its limit; values compared with a figure of the same run have its scatter
        assert metric["value"] <= 1.02 * limit["value"], metric["id"]


@pytest.mark.parametrize("name", sorted({document["program"] for _, document in KEPT}))
def test_a_card_at_60_percent_of_this_one_misses_every_floor(name: str) -> None:
    """This one misses none: a floor that nothing misses is not a criterion."""
    metrics = catalogue.program(name).metrics
    for document in [document for _, document in KEPT if document["program"] == name]:
        for metric in document["metrics"]:
            limit = document["limits"][metric["id"]].get("value")
            kind = "pair" if "from" in metric["subject"] else next(iter(metric["subject"]))
            floor = metrics[metric["name"]].floor.get(kind)
            if limit is None or not floor:
                continue
            reached = metric["value"] / limit if metric["direction"] == "higher" else limit / metric["value"]
            assert 0.6 * reached < floor <= reached, metric["id"]


@pytest.mark.parametrize("document", [pytest.param(d, id=name) for name, d in KEPT if d["health"]["devices"]])
def test_power_is_in_watts(document: dict[str, Any]) -> None:
    """An H200 SXM idles at some 70 W and takes 700 W at most."""
    powers = [
        power
        for device in document["health"]["devices"]
        for when in ("before", "worst", "after")
        if (power := device[when].get("power_w")) is not None
    ]
    assert powers and all(40 < power <= 735 for power in powers)


@pytest.mark.parametrize("document", of("nccl"))
def test_nccl(document: dict[str, Any]) -> None:
    """Bus bandwidth by nccl-tests' PERFORMANCE.md: for two ranks 1, 1/2 and 1 of the bytes over the time."""
    for name, factor in {"all_reduce": 1.0, "all_gather": 0.5, "sendrecv": 1.0}.items():
        for rate in figures(document, name):
            time = figure(document, f"{name}_time", bytes=rate["at"]["bytes"])
            expected = [factor * rate["at"]["bytes"] / us / 1e3 for us in time["samples"]]
            assert rate["samples"] == pytest.approx(expected)


@pytest.mark.parametrize("document", of("p2p"))
def test_p2p(document: dict[str, Any]) -> None:
    for name in ("peer", "read", "write", "driver_staged", "host_staged"):
        for rate in figures(document, f"{name}_by_size"):
            time = figure(document, f"{name}_time", bytes=rate["at"]["bytes"])
            assert rate["samples"] == pytest.approx([rate["at"]["bytes"] / us / 1e3 for us in time["samples"]])


@pytest.mark.parametrize("document", of("himeno"))
def test_himeno(document: dict[str, Any]) -> None:
    sizes = {"S": 62 * 62 * 126, "M": 126 * 126 * 254, "L": 254 * 254 * 510, "XL": 510 * 510 * 1022}
    operations = 34 * sizes[document["parameters"]["size"]] / 1e9
    for total in figures(document, "total"):
        memory = total["at"]["memory"]
        iterations = document["path"][f"iterations.{memory}"]
        one = next(
            m for m in figures(document, "iteration") if m["subject"] == total["subject"] and m["at"] == total["at"]
        )
        # the times of samples, scaled to all iterations, equal the whole time except its end
        told = sum(operations / rate for rate in one["samples"])
        stride = iterations // one["count"]
        whole = iterations * operations / total["value"]
        assert 0.9 < told * stride / whole <= 1.02
        limit = document["limits"][one["id"]]
        if "value" in limit:
            (dot,) = [m for m in figures(document, "dot") if m["subject"] == total["subject"]]
            close(limit["value"], dot["median"] / 56 * 34)


@pytest.mark.parametrize("document", of("hpcg"))
def test_hpcg(document: dict[str, Any]) -> None:
    path, parameters = document["path"], document["parameters"]
    local = [parameters["nx"], parameters["ny"] or parameters["nx"], parameters["nz"] or parameters["nx"]]
    shape = [int(text) for text in path["rank_grid"].split(" x ")]
    rows = math.prod(a * b for a, b in zip(local, shape, strict=True))
    entries = [math.prod(3 * a * b // 2**level - 2 for a, b in zip(local, shape, strict=True)) for level in range(4)]
    sets, iterations = path["sets"], path["iterations_of_set"]
    product = (iterations + 1) * sets * 2 * entries[0]
    cycle = iterations * sets * (10 * sum(entries[:3]) + 4 * entries[3])
    every = (3 * iterations + 1) * sets * 4 * rows + product + cycle
    seconds = [every / sets / rate / 1e9 for rate in figure(document, "set")["samples"]]
    close(figure(document, "raw")["value"], every / sum(seconds) / 1e9)
    close(figure(document, "spmv")["value"], product / path["phase_seconds.product"] / 1e9)
    close(figure(document, "mg")["value"], cycle / path["phase_seconds.cycle"] / 1e9)
    overhead = (figure(document, "setup")["value"] + figure(document, "optimise")["value"]) / 1e4
    close(figure(document, "rating")["value"], every * 50 / iterations / (sum(seconds) + sets * overhead) / 1e9)
    phases = sum(path[f"phase_seconds.{name}"] for name in ("dot", "vectors", "product", "cycle"))
    assert phases <= 1.02 * sum(seconds)
    limit = document["limits"][figure(document, "raw")["id"]]
    moved = sum(path[f"bytes_of_iteration.{name}"] for name in ("vectors", "product", "cycle"))
    if "value" in limit:
        ranks = math.prod(shape)
        close(limit["value"], figure(document, "dot")["median"] * every / (iterations * sets) / (ranks * moved), 1e-6)


@pytest.mark.parametrize("document", of("spmv"))
def test_spmv(document: dict[str, Any]) -> None:
    real = {"double": 8, "single": 4}[document["parameters"]["precision"]]
    dots = {str(m["subject"]): max(m["samples"]) for m in figures(document, "dot")}
    for metric in figures(document, "spmv"):
        dot = dots[str(metric["subject"])]
        matrix, variant, nnz = (metric["at"][key] for key in ("matrix", "variant", "nnz"))
        rows = int(document["path"][f"rows.{matrix}"].split()[0])
        limit = document["limits"][metric["id"]]
        if variant.startswith("csr") and "value" in limit:
            # CSR moves a value and a column of 4 bytes per entry, an offset of 4, x and y per row; the dot product was
            # measured before and after: the document has the first, the limit the better one
            by_first = dot * 2 * nnz / ((real + 4) * nnz + 4 * (rows + 1) + 2 * real * rows)
            assert by_first * (1 - 1e-9) <= limit["value"] <= 1.02 * by_first
    for best in figures(document, "best"):
        rivals = figures(document, "spmv", matrix=best["at"]["matrix"])
        close(best["median"], max(m["median"] for m in rivals if m["subject"] == best["subject"]))


@pytest.mark.parametrize("document", of("stencil", "cells"))
def test_stencil(document: dict[str, Any]) -> None:
    parameters, path = document["parameters"], document["path"]
    planes = parameters["nz"] * (path["slabs"] if parameters["scaling"] == "weak" else 1)
    cells = (parameters["nx"] - 2) * (parameters["ny"] - 2) * (planes - 2)
    flops = {27: 53, 7: 13}[parameters["points"]]
    element = 8 if parameters["precision"] == "double" else 4
    for rate in figures(document, "cells"):
        exchange = rate["at"]["exchange"]
        close(path[f"gflops.{exchange}"], flops * rate["median"])
        # the time of many consecutive steps, which is another measurement, by the host's clock
        seconds = figure(document, "total", exchange=exchange)["value"]
        assert 0.6 < cells * parameters["steps"] / seconds / 1e9 / rate["median"] < 1.4
    for alone in [m for m in document["metrics"] if m["name"] in ("alone", "fused")]:
        limit = document["limits"][alone["id"]]
        if "value" not in limit:
            continue
        copy = next(m for m in figures(document, "copy") if m["subject"] == alone["subject"])
        close(limit["value"], copy["median"] / (2 * element / alone["at"]["steps_a_pass"]))


@pytest.mark.parametrize("document", of("hpl"))
def test_hpl(document: dict[str, Any]) -> None:
    for rate in figures(document, "hpl"):
        at = rate["at"]
        same = [m for m in document["metrics"] if m.get("at") == at]
        for product in (m for m in same if m["name"] == "dgemm"):
            close(document["limits"][rate["id"]]["value"], product["median"])
        phases = {
            m["at"]["part"]: m["value"]
            for m in document["metrics"]
            if m["name"] == "phase" and at.items() <= m["at"].items()
        }
        if not phases:
            continue
        # exposed time is within the duration of the operations at the reported rate
        n = at["n"]
        seconds = (2 * n**3 / 3 + 3 * n**2 / 2) / (min(rate["samples"]) * 1e12)
        assert phases["update"] + phases["exposed"] <= 1.05 * seconds
        assert phases["update"] > 0.4 * seconds or n < 30000


@pytest.mark.parametrize("document", of("overlap"))
def test_overlap(document: dict[str, Any]) -> None:
    loops = {m["at"]["mode"]: m["samples"] for m in figures(document, "loop")}
    snapshots = document["parameters"]["steps"] // document["parameters"]["every"]
    for cost in figures(document, "snapshot_cost"):
        mode = cost["at"]["mode"]
        assert cost["samples"] == pytest.approx(
            [(a - b) / snapshots * 1e3 for a, b in zip(loops[mode], loops["none"], strict=True)]
        )
    for gain in figures(document, "gain"):
        mode = gain["at"]["mode"]
        assert gain["samples"] == pytest.approx([a / b for a, b in zip(loops["serial"], loops[mode], strict=True)])


@pytest.mark.parametrize("document", of("access_patterns"))
def test_access_patterns(document: dict[str, Any]) -> None:
    by_device = [m for m in document["metrics"] if m["name"].endswith("_by_gpu") and m["name"] != "device_by_gpu"]
    for metric in by_device:
        number = metric["at"]["pattern"]
        begin, before, plateau = ramp(metric["samples"])
        trial = metric["at"].get("trial", 1) - 1
        assert figure(document, "ramp", pattern=number)["samples"][trial] == begin
        close(figure(document, "before", pattern=number)["samples"][trial], before)
        close(figure(document, "plateau", pattern=number)["samples"][trial], plateau)
    for relative in [m for m in document["metrics"] if m["name"] == "relative"]:
        plateaus = figure(document, "plateau", pattern=relative["at"]["pattern"])["samples"]
        copied = median(figure(document, "device_copy")["samples"])
        assert relative["samples"] == pytest.approx([p / copied for p in plateaus])


@pytest.mark.parametrize("document", of("transpose"))
def test_transpose(document: dict[str, Any]) -> None:
    for total in [m for m in document["metrics"] if m["name"] == "total"]:
        parts = [
            m["samples"]
            for m in document["metrics"]
            if m.get("at") == total["at"] and m["unit"] == "ms" and m["name"] != "total"
        ]
        assert total["samples"] == pytest.approx([sum(one) for one in zip(*parts, strict=True)])
