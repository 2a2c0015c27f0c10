"""What programs count, compared with the raw times of their clock and numbers written by hand
(tests/support/oracles.py)."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import pytest

from tenken.model.units import UNITS
from tests.programs.test_file_io import hdf5_library
from tests.programs.test_hpl import blas as blas  # a fixture
from tests.support.documents import completed
from tests.support.oracles import (
    ADVISED,
    SYNCED,
    TIMES,
    Clock,
    Clocked,
    Timed,
    close,
    figure,
    figures,
    ramp,
    rises,
    seconds,
    spans,
    tolerances,
)
from tests.support.recorder import OTHER, READ

pytestmark = pytest.mark.build

FEW = ("--repetitions", "4", "--warmup-seconds", "0")


def last_level_cache(document: dict[str, Any]) -> int:
    return int(document["host"]["last_level_cache_bytes"] or 0)


def test_stream(clocked: Clocked) -> None:
    document, clock = clocked("stream", *FEW)
    elements = document["parameters"]["array_bytes"] / 8
    bytes_of_element = {"copy": 16, "scale": 16, "add": 24, "triad": 24, "dot": 16}
    ends = []
    for name, count in bytes_of_element.items():
        ends.append(clock.places(spans(figure(document, name), count * elements)))
    # a cycle runs them in this order: copy's time is not dot's
    for cycle in zip(*ends, strict=True):
        assert list(cycle) == sorted(cycle)
    tolerances(document, {"array": 1e-11, "dot of every": 1e-6})


def test_daxpy(clocked: Clocked) -> None:
    document, clock = clocked("daxpy", *FEW, "--elements", "1000000")
    clock.places(spans(figure(document, "daxpy"), 24_000_000))
    tolerances(document, {"y, every element": 0})


def test_memcopy(clocked: Clocked) -> None:
    from_help, _ = clocked("daxpy", *FEW, "--elements", "1000")
    array = max(4 * last_level_cache(from_help), 1 << 24)
    document, clock = clocked("memcopy", *FEW, "--trials", "2", "--bytes", str(array))
    for name in ("host_pageable", "host_pageable_unoptimised"):
        after = 0
        for trial in (1, 2):
            after = rises(clock.places(spans(figure(document, name, trial=trial), 2 * array), after))
    tolerances(document, {"every element, exact": 0})


def test_transfer(clocked: Clocked) -> None:
    document, clock = clocked("transfer", *FEW, "--sweep-max-bytes", "4Mi")
    sizes = {m["at"]["bytes"]: m for m in figures(document, "host_sweep")}
    assert set(sizes) == {1024 * 4**i for i in range(7)}
    after = 0
    for size in sorted(sizes):
        # small copies are repeated up to one MiB; each byte counts once
        after = rises(clock.places(spans(sizes[size], max(size, 1 << 20)), after))
    tolerances(document, {"every element, exact": 0})


def test_access_patterns(clocked: Clocked) -> None:
    document, clock = clocked("access_patterns", *FEW, "--bytes", "8000000")
    clock.places(spans(figure(document, "host_by_cpu"), 2 * 8_000_000))


def test_migration(clocked: Clocked) -> None:
    document, clock = clocked("migration", *FEW, "--bytes", "8000000")
    after = 0
    for phase in ("cpu_first", "cpu", "cpu_last"):
        after = rises(clock.places(spans(figure(document, phase), 2 * 8_000_000), after))


SAM = ("--backend", "cuda", "--placement", "sam", "--bytes", "80k", "--warmup-seconds", "0")


def test_access_patterns_of_a_double(clocked: Clocked) -> None:
    """The simulated GPU copies at 3200 GB/s within the device, and at 400, 450, ... 3000 GB/s if a page is on the
    host."""
    document, clock = clocked("access_patterns_double", *SAM, "--repetitions", "200")
    within = figure(document, "device_copy")
    assert within["samples"] == pytest.approx([3200.0] * 100)
    # 2 transfers per clock of 2619 MHz on 6144 bits
    close(document["limits"][within["id"]]["value"], 2 * 2619e6 * 6144 / 8 / 1e9)
    for number in (5, 6, 7, 8):
        by_gpu = [m for m in document["metrics"] if m.get("at", {}).get("pattern") == number and m["count"] == 200]
        (rates,) = [m for m in by_gpu if m["clock"] == "device"]
        begin, before, plateau = ramp(rates["samples"])
        close(figure(document, "ramp", pattern=number)["value"], begin)
        close(figure(document, "before", pattern=number)["value"], before)
        close(figure(document, "plateau", pattern=number)["value"], plateau)
    # in the order of (source, destination); a GPU that reaches pages of the host makes them its own
    for number, places in enumerate(2 * [("host", "host"), ("host", "device"), ("device", "host"), ("device",) * 2], 1):
        for end, place in zip(("source", "destination"), places, strict=True):
            first, last = document["path"][f"pages.gpu0.pattern={number}.trial=1.{end}"].split(" -> ")
            assert f"{place} 100 %" in first and f"{'device' if number > 4 else place} 100 %" in last
    names = {m["at"]["pattern"]: m["name"] for m in document["metrics"] if m["count"] == 200}
    of_cpu, of_gpu = ["host_by_cpu", "remote_by_cpu", "remote_by_cpu", "device_by_cpu"], ["remote_by_gpu"] * 3
    assert names == dict(enumerate([*of_cpu, *of_gpu, "device_by_gpu"], 1))
    (relative,) = figures(document, "relative")
    close(relative["value"], figure(document, "plateau", pattern=8)["value"] / median(within["samples"]))
    by_cpu = [m for m in document["metrics"] if m["clock"] == "host" and m["unit"] == "GB/s" and m["count"] == 200]
    assert by_cpu
    for metric in by_cpu:
        clock.places(spans(metric, 2 * 80_000))


def test_a_slower_plateau_is_relative_to_the_device(clocked: Clocked) -> None:
    """For pages on the host the plateau is 3000 of the 3200 GB/s within the device."""
    document, _ = clocked("access_patterns_double", *SAM, "--repetitions", "200")
    begin, before, plateau = 50, median(400 + 50 * i for i in range(49)), 3000
    ramps = {m["at"]["pattern"]: m for m in figures(document, "ramp")}
    slow = [number for number, metric in ramps.items() if metric["value"] == begin]
    assert slow, "no pattern touches the host's pages first"
    for number in slow:
        close(figure(document, "before", pattern=number)["value"], before)
        close(figure(document, "plateau", pattern=number)["value"], plateau)


def test_migration_of_a_double(clocked: Clocked) -> None:
    document, clock = clocked("migration_double", *SAM, "--repetitions", "100", "--trials", "2")
    for phase, name in (("first", "gpu_first"), ("cpu", "cpu"), ("last", "gpu_last")):
        ramps = [ramp(m["samples"]) for m in figures(document, name)]
        assert figure(document, "ramp", phase=phase)["samples"] == [begin for begin, _, _ in ramps]
        assert figure(document, "plateau", phase=phase)["samples"] == pytest.approx([p for _, _, p in ramps])
    assert {m["clock"] for m in figures(document, "gpu_first") + figures(document, "gpu_last")} == {"device"}
    pages = {key: told for key, told in document["path"].items() if key.startswith("pages.gpu0.trial=2.")}
    assert pages == {
        "pages.gpu0.trial=2.source": "host 100 %, device 0 % -> host 0 %, device 100 %",
        "pages.gpu0.trial=2.destination": "host 0 %, device 100 % -> host 0 %, device 100 %",
    }
    last = [ramp(m["samples"]) for m in figures(document, "gpu_last")]
    assert figure(document, "new_ramp")["samples"] == [1.0 if begin > 1 else 0.0 for begin, _, _ in last] == [0.0, 0.0]
    after = 0
    for metric in figures(document, "cpu"):
        after = rises(clock.places(spans(metric, 2 * 80_000), after))


def test_transpose(clocked: Clocked) -> None:
    document, clock = clocked("transpose", *FEW, "--sizes", "500,64x1000")
    after = 0
    for n, elements in ((500, 250_000), ("64x1000", 64_000)):
        for kernel in ("naive", "tile"):
            # floats of 4 bytes, read once and written once
            metric = figure(document, "host_bandwidth", n=n, kernel=kernel)
            after = rises(clock.places(spans(metric, 8 * elements), after))
    tolerances(document, {"every element, exact": 0})


#: Number of cells of size XS that change: (32 - 2) x (32 - 2) x (64 - 2).
HIMENO_CELLS = 55_800


def test_himeno(clocked: Clocked) -> None:
    document, clock = clocked("himeno", *FEW, "--size", "XS")
    iterations = clock.places(spans(figure(document, "iteration"), 34 * HIMENO_CELLS))
    assert len(iterations) == 4
    (total,) = spans(figure(document, "total"), 34 * HIMENO_CELLS * 4)
    times = clock.told[0]
    # from the beginning of the first iteration to the reading after the end of the last one
    assert times[iterations[-1][2] + 1] - times[iterations[0][1]] == pytest.approx(total, abs=1)
    of_cells = {"every cell, relative error": 2e-5, "gosa of the first iterations": 1e-4}
    tolerances(document, {**of_cells, "is finite": sys.float_info.max})


def test_himeno_classic(clocked: Clocked) -> None:
    """Three iterations are tried, and then as many as take the requested seconds."""
    document, clock = clocked("himeno", "--size", "XS", "--timing", "classic", "--target-seconds", "0.2")
    iterations = document["path"]["iterations.host"]
    stride = -(-iterations // 3000)
    timed = clock.places(spans(figure(document, "iteration"), stride * 34 * HIMENO_CELLS))
    (total,) = spans(figure(document, "total"), 34 * HIMENO_CELLS * iterations)
    times = clock.told[0]
    assert times[timed[-1][2] + 1] - times[timed[0][1]] == pytest.approx(total, abs=1)
    # begin, three iterations and the end: before the timed ones
    tried = [times[i + 4] - times[i] for i in range(timed[0][1] - 3)]
    assert any(iterations == int(3 * 0.2e9 / span) for span in tried)


def test_himeno_in_strides(clocked: Clocked) -> None:
    """At most 3000 samples are kept: with 3001 iterations each sample has two."""
    document, clock = clocked("himeno", "--repetitions", "3001", "--size", "XS", OMP_NUM_THREADS="1")
    metric = figure(document, "iteration")
    assert metric["count"] == 1500
    clock.places(spans(metric, 2 * 34 * HIMENO_CELLS))


def poisson27_entries(side: int) -> int:
    """Entries of the 27-point stencil on a cube: in each direction 3 for inner points, 2 at both ends."""
    return (3 * side - 2) ** 3


def test_spmv(clocked: Clocked) -> None:
    sides = (10, 20, 30)
    matrices = ",".join(f"poisson27:{side}" for side in sides)
    document, clock = clocked("spmv", *FEW, "--matrices", matrices, "--variant-warmup-seconds", "0")
    cache = last_level_cache(document)
    clock.places(spans(figure(document, "dot"), 2 * max(2 * cache, 64 << 20)))
    after = 0
    best: dict[int, float] = {}
    for side in sides:
        nnz, rows = poisson27_entries(side), side**3
        of_side = [m for m in figures(document, "spmv") if m["at"]["nnz"] == nnz]
        assert of_side
        for metric in of_side:
            after = rises(clock.places(spans(metric, 2 * nnz), after))
            matrix, variant = metric["at"]["matrix"], metric["at"]["variant"]
            traffic = metric["counts"]["bytes"]
            if "csr" in variant:
                # values of 8 and columns of 4 bytes, offsets of 4, x read and y written
                close(traffic, 12 * nnz + 4 * (rows + 1) + 8 * rows + 8 * rows)
            else:
                # sliced ELL of 8 rows: padded entries of 12 bytes, an offset of 8 for each slice
                places = document["path"][f"places_an_entry.{variant}.{matrix}.host"] * nnz
                close(traffic, 12 * places + 8 * (rows / 8 + 1) + 16 * rows, 1e-3)
            clock.anywhere(spans(figure(document, "prepare", matrix=matrix, variant=variant), 1))
            bounded = cache > 0 and traffic >= 4 * cache
            assert ("value" in document["limits"][metric["id"]]) is bounded, "a matrix in the cache has no limit"
        (leading,) = [m for m in figures(document, "best") if m["at"]["nnz"] == nnz]
        close(leading["median"], max(m["median"] for m in of_side))
        best[nnz] = leading["median"]
    close(figure(document, "worst")["value"], min(best.values()))
    close(figure(document, "geomean")["value"], math.prod(best.values()) ** (1 / 3))
    for decade in figures(document, "geomean_by_size"):
        within = [rate for nnz, rate in best.items() if len(str(nnz)) - 1 == decade["at"]["nnz_decade"]]
        close(decade["value"], math.prod(within) ** (1 / len(within)))


def test_spmv_limit(clocked: Clocked) -> None:
    """The limit is the operations of the minimum traffic at the best rate of a dot product."""
    least, _ = clocked("daxpy", *FEW, "--elements", "1000")
    # banded: as many entries as fill 5 caches, so that memory and not the cache is the limit
    rows = 5 * last_level_cache(least) // (12 * 129 + 20) + 1000
    if last_level_cache(least) == 0:
        pytest.skip("this machine does not report its caches")
    document, _ = clocked(
        "spmv", *FEW, "--matrices", f"banded:{rows}:64", "--variants", "csr", "--variant-warmup-seconds", "0"
    )
    metric = figure(document, "spmv")
    nnz = metric["at"]["nnz"]
    traffic = 12 * nnz + 4 * (rows + 1) + 16 * rows
    limit = document["limits"][metric["id"]]
    # the dot product ran before and after; its document has the first time
    best = document["path"]["best_dot_gbs.host"]
    assert best >= figure(document, "dot")["best"] * (1 - 1e-9)
    close(limit["value"], best * 2 * nnz / traffic)


HPCG = ("--nx", "16", "--target-seconds", "0.05", "--warmup-seconds", "0", "--repetitions", "4")


def hpcg_operations(sides: list[int], iterations: float, sets: float) -> dict[str, float]:
    """As HPCG 3.1 counts (src/ReportResults.cpp): by hand, for cubes of these sides, the finest first."""
    rows = sides[0] ** 3
    entries = [poisson27_entries(side) for side in sides]
    return {
        "dot": (3 * iterations + sets) * 2 * rows,
        "vectors": (3 * iterations + sets) * 2 * rows,
        "product": (iterations + sets) * 2 * entries[0],
        # pre- and post-smoothing of 4 operations per entry each, a residual of 2; one sweep on the coarsest level
        "cycle": iterations * (10 * (entries[0] + entries[1] + entries[2]) + 4 * entries[3]),
    }


def hpcg_traffic(sides: list[int], iterations: float, sets: float) -> tuple[float, float]:
    """Bytes read and written by HPCG 3.1's model: 8 of a number, 4 of an index."""
    rows, entries = [side**3 for side in sides], [poisson27_entries(side) for side in sides]
    vectors, products = 3 * iterations + sets, iterations + sets
    sweeps = [2 * 12 * e + 8 * r for e, r in zip(entries, rows, strict=True)]
    read = vectors * 32 * rows[0] + products * (12 * entries[0] + 8 * rows[0]) + iterations * sweeps[3]
    written = vectors * (8 + 8 * rows[0]) + products * 8 * rows[0] + iterations * 8 * rows[3]
    for sweep, entry, row in list(zip(sweeps, entries, rows, strict=True))[:3]:
        read += iterations * (2 * sweep + 12 * entry + 8 * row)
        written += iterations * 8 * (row + 2 * entry)
    return read, written


@pytest.mark.parametrize("side", [16, 24])
def test_hpcg(clocked: Clocked, tmp_path: Path, side: int) -> None:
    """The second one needs more than the 50 iterations of the reference in a set: no factor is 1."""
    report = tmp_path / "report.txt"
    document, clock = clocked("hpcg", "--nx", str(side), *HPCG[2:], "--hpcg-file", str(report))
    path = document["path"]
    assert (path["iterations_of_set"] > 50) == (side == 24)
    sets, iterations = path["sets"], path["iterations_of_set"]
    sides = [side, side // 2, side // 4, side // 8]
    one = hpcg_operations(sides, iterations, 1)
    every = hpcg_operations(sides, iterations * sets, sets)
    clock.places(spans(figure(document, "dot"), 2 * max(2 * last_level_cache(document), 64 << 20)))
    timed = seconds(figure(document, "set"), sum(one.values()))
    clock.places([1e9 * span for span in timed], next_to=False)
    total = sum(timed)
    close(figure(document, "raw")["value"], sum(every.values()) / total / 1e9)
    close(figure(document, "spmv")["value"], every["product"] / path["phase_seconds.product"] / 1e9)
    close(figure(document, "mg")["value"], every["cycle"] / path["phase_seconds.cycle"] / 1e9)
    overhead = (figure(document, "optimise")["value"] + figure(document, "setup")["value"]) / 1e3 / 10
    rating = sum(every.values()) * 50 / iterations / (total + sets * overhead) / 1e9
    close(figure(document, "rating")["value"], rating)
    for name in ("optimise", "setup"):
        clock.places(spans(figure(document, name), 1), next_to=False)
    # HPCG reads at least 4.70 bytes per operation, by its own model
    close(
        figure(document, "of_dot")["value"],
        sum(every.values()) / total / 1e9 / (figure(document, "dot")["median"] / 4.70),
    )
    close(path["operations_of_iteration"], sum(one.values()) / iterations)
    if last_level_cache(document) > 1 << 20:  # the matrix has 97336 entries of 12 bytes
        assert all("value" not in document["limits"][figure(document, n)["id"]] for n in ("set", "raw", "spmv", "mg"))
    # the report in HPCG's own form, six digits of everything
    lines = dict(line.split("=", 1) for line in report.read_text().splitlines() if "=" in line)
    read, written = hpcg_traffic(sides, iterations * sets, sets)
    optimised = figure(document, "optimise")["value"] / 1e3
    every_line = {
        "Floating Point Operations Summary::Raw DDOT": every["dot"],
        "Floating Point Operations Summary::Raw WAXPBY": every["vectors"],
        "Floating Point Operations Summary::Raw SpMV": every["product"],
        "Floating Point Operations Summary::Raw MG": every["cycle"],
        "Floating Point Operations Summary::Total": sum(every.values()),
        "Floating Point Operations Summary::Total with convergence overhead": sum(every.values()) * 50 / iterations,
        "GB/s Summary::Raw Read B/W": read / total / 1e9,
        "GB/s Summary::Raw Write B/W": written / total / 1e9,
        "GB/s Summary::Raw Total B/W": (read + written) / total / 1e9,
        "GB/s Summary::Total with convergence and optimization phase overhead": (read + written)
        * 50
        / iterations
        / (total + sets * overhead)
        / 1e9,
        "GFLOP/s Summary::Raw DDOT": every["dot"] / path["phase_seconds.dot"] / 1e9,
        "GFLOP/s Summary::Raw WAXPBY": every["vectors"] / path["phase_seconds.vectors"] / 1e9,
        "GFLOP/s Summary::Raw SpMV": every["product"] / path["phase_seconds.product"] / 1e9,
        "GFLOP/s Summary::Raw MG": every["cycle"] / path["phase_seconds.cycle"] / 1e9,
        "GFLOP/s Summary::Raw Total": sum(every.values()) / total / 1e9,
        "GFLOP/s Summary::Total with convergence overhead": sum(every.values()) * 50 / iterations / total / 1e9,
        "GFLOP/s Summary::Total with convergence and optimization phase overhead": rating,
        "Benchmark Time Summary::Optimization phase": optimised,
        "Benchmark Time Summary::DDOT": path["phase_seconds.dot"],
        "Benchmark Time Summary::WAXPBY": path["phase_seconds.vectors"],
        "Benchmark Time Summary::SpMV": path["phase_seconds.product"],
        "Benchmark Time Summary::MG": path["phase_seconds.cycle"],
        "Benchmark Time Summary::Total": total,
    }
    for key, expected in every_line.items():
        close(float(lines[key]), expected, 1e-5)
    measured = ("Benchmark Time", "Floating", "GB/s", "GFLOP/s")
    assert set(every_line) == {key for key, value in lines.items() if key.startswith(measured) and value}
    tolerances(
        document,
        {
            "without multigrid": 12, "with multigrid": 2, "symmetry of the matrix": 1, "symmetry of the multigrid": 1,
            "variance": 1e-6, "iterations to the residual": 500, "residual b - A x": 1e-9, "solution against 1": 1e6,
        },
    )  # fmt: skip


def hpl_operations(n: int) -> float:
    """(2/3) N^3 + (3/2) N^2, by the rules of the benchmark."""
    return 2 * n**3 / 3 + 3 * n**2 / 2


@pytest.mark.parametrize("algorithm", ["lapack", "blocks"])
def test_hpl(clocked: Clocked, blas: str, algorithm: str) -> None:
    n, nb = 600, 64
    options = ("--algorithm", algorithm, "--n", str(n), "--nb", str(nb), "--backend", "host")
    document, clock = clocked("hpl", *FEW, *options, TENKEN_BLAS=blas, OMP_NUM_THREADS="2")
    rate = figure(document, "hpl")
    places = clock.places(spans(rate, hpl_operations(n)), next_to=False)
    assert len(places) == 4
    # the first update: A without the first block of columns and rows, with b next to it
    dgemm = figure(document, "dgemm")
    clock.places(spans(dgemm, 2 * (n - nb) * (n + 1 - nb) * nb))
    limit = document["limits"][rate["id"]]
    assert limit.get("value") == (dgemm["median"] if algorithm == "blocks" else None), "LAPACK has blocks of its own"
    printed = [float(line.split()[6]) for line in clocked.stdout.splitlines() if re.match(r"W[CR]\d", line)]
    assert printed == pytest.approx([1e3 * sample for sample in rate["samples"]], rel=1e-4)


def test_every_repetition_of_hpl_begins_after_products(clocked: Clocked, blas: str) -> None:
    """A GPU at its power limit would be faster after the pause in which a solution is verified."""
    options = ("--repetitions", "3", "--warmup-seconds", "0.2", "--n", "600", "--nb", "64", "--backend", "host")
    document, clock = clocked("hpl", *options, TENKEN_BLAS=blas, OMP_NUM_THREADS="2")
    places = clock.places(spans(figure(document, "hpl"), hpl_operations(600)), next_to=False)
    (times,) = clock.told
    assert len(places) == 3
    for begin, end in zip((first for _, first, _ in places), (0, *(last for _, _, last in places)), strict=False):
        assert times[begin] - times[end] >= 200_000_000


def test_hpl_phases(clocked: Clocked, blas: str) -> None:
    """The phases are the sums of what each step printed, to a thousandth of a ms per step."""
    options = ("--algorithm", "blocks", "--n", "400", "--nb", "32", "--backend", "host", "--steps")
    document, _ = clocked("hpl", "--repetitions", "1", "--warmup-seconds", "0", *options, TENKEN_BLAS=blas)
    lines = clocked.stdout.splitlines()
    names = next(line for line in lines if "ahead_ms" in line).split()
    steps = [line.split() for line in lines if re.match(r"\s*\d+\s+\d+(\s+[\d.]+){8}$", line)]
    assert sum(int(step[names.index("width")]) for step in steps) == 400
    for part, column in {"ahead": "ahead_ms", "swap": "swap_ms", "solve": "solve_ms", "update": "update_ms"}.items():
        told = sum(float(step[names.index(column)]) for step in steps)
        assert 1e3 * figure(document, "phase", part=part)["value"] == pytest.approx(told, abs=0.001 * len(steps))
    # the update multiplies what is below and to the right of the panel; the columns of the next panel come earlier
    operations = told = 0.0
    for step, following in itertools.pairwise(steps):
        begin, width = int(step[names.index("column")]), int(step[names.index("width")])
        below = 400 - begin - width
        operations += 2 * below * (below - int(following[names.index("width")])) * width
        told += float(step[names.index("update_ms")]) / 1e3 * float(step[names.index("TFLOP/s")]) * 1e12
    # times are printed to the microsecond
    assert told == pytest.approx(operations, rel=0.05)


def test_hpl_residual(clocked: Clocked, blas: str) -> None:
    document, _ = clocked("hpl", *FEW, "--n", "300", "--nb", "32", "--backend", "host", TENKEN_BLAS=blas)
    for check, norms in zip(document["verification"]["checks"], document["path"]["norms"], strict=True):
        close(check["error"], norms["r"] / (2.0**-53 * (norms["a"] * norms["x"] + norms["b"]) * 300), 1e-12)
        assert check["tolerance"] == 16


def test_gemm(clocked: Clocked) -> None:
    cases = {"int8:32x48x64x5": 2 * 32 * 48 * 64 * 5, "fp64:64x64x128": 2 * 64 * 64 * 128}
    document, clock = clocked(
        "gemm", "--backend", "host", "--sustained-seconds", "0.05", "--cases", ",".join(cases), "--warmup-seconds", "0"
    )
    for case, operations in cases.items():
        rate = figure(document, "gemm", precision=case.split(":")[0])
        clock.places(spans(rate, operations))


def test_hpl_mxp(clocked: Clocked) -> None:
    n, nb = 512, 64
    document, clock = clocked("hpl_mxp", *FEW, "--backend", "host", "--n", str(n), "--nb", str(nb), OMP_NUM_THREADS="2")
    solved = clock.places(spans(figure(document, "hpl_mxp"), hpl_operations(n)), next_to=False)
    product = figure(document, "product")
    clock.places(spans(product, 2 * (n - nb) * (n - nb) * nb))
    close(document["limits"][figure(document, "hpl_mxp")["id"]]["value"], product["median"])
    parts = {m["at"]["part"]: m["value"] for m in figures(document, "phase")}
    # generation, factorisation and refinement add up to the whole of the last solution
    last = hpl_operations(n) / (figure(document, "hpl_mxp")["samples"][-1] * 1e12)
    assert parts["convert"] + parts["refine"] < last
    assert parts["refine_residuals"] + parts["refine_corrections"] <= parts["refine"] * (1 + 1e-9)
    (made,) = clock.places([1e9 * parts["convert"]], solved[-1][1], next_to=False)
    (refined,) = clock.places([1e9 * parts["refine"]], made[2], next_to=False)
    assert (made[1], refined[2]) == solved[-1][1:], "from generating the matrix to the end of refining"
    tolerances(
        document,
        {"||Ax-b||": 16, "what FP64 leaves": 1, "error over bound": 1, "zero or subnormal": 0.01, "beyond the": 0},
    )


def test_hpl_mxp_loses_small_numbers_in_fp8(clocked: Clocked) -> None:
    document, _ = clocked("hpl_mxp", *FEW, "--backend", "host", "--n", "256", "--nb", "64", "--low", "fp8")
    (small,) = {c["error"] for c in document["verification"]["checks"] if "subnormal" in c["what"]}
    assert 1e-5 < small < 0.01
    close(figure(document, "small_share")["value"], 100 * small)


#: 38 x 28 x 39 of 40 x 30 x 41 cells change.
STENCIL = ("--nx", "40", "--ny", "30", "--nz", "41", "--steps", "10", "--phase-blocks", "2", "--scaling", "strong")
STENCIL_CELLS = 38 * 28 * 39


def test_stencil(clocked: Clocked) -> None:
    document, clock = clocked("stencil", *FEW, *STENCIL, "--bt", "1")
    clock.places(spans(figure(document, "cells"), STENCIL_CELLS))
    clock.places(spans(figure(document, "alone"), STENCIL_CELLS))
    clock.places(spans(figure(document, "total"), 1), next_to=False)
    rate = figure(document, "cells")
    # 27 products and 26 sums
    assert document["path"]["flops_of_cell"] == 53
    alone = figure(document, "alone")["median"]
    assert figure(document, "efficiency")["samples"] == pytest.approx([100 * s / alone for s in rate["samples"]])
    tolerances(document, {"bit for bit": 0})


def test_stencil_of_several_steps(clocked: Clocked) -> None:
    document, clock = clocked("stencil", *FEW, *STENCIL, "--bt", "3", "--points", "7", "--parts", "2")
    # two slabs are timed in turn, the slower one counts
    clock.places(spans(figure(document, "cells"), 3 * STENCIL_CELLS), next_to=False)
    # the first of two slabs by itself: 21 of the 41 planes, of which its two outermost are fixed
    clock.places(spans(figure(document, "alone"), 3 * 38 * 28 * 19))
    assert document["path"]["flops_of_cell"] == 13
    phases = [figure(document, name) for name in ("compute", "pack", "halo_node", "halo_net", "sync")]
    whole = [sum(p["samples"][i] for p in phases) for i in range(2)]
    for phase in phases:
        share = figure(document, "share", phase=phase["name"])
        assert share["samples"] == pytest.approx([100 * s / w for s, w in zip(phase["samples"], whole, strict=True)])
    # each part begins where the previous one ended: together they are one span, which begins with the computation
    blocks = clock.places([1e6 * one for one in whole], next_to=False)
    computed = clock.places(spans(phases[0], 1))
    assert [first for _, first, _ in computed] == [first for _, first, _ in blocks]


def test_the_slower_of_two_slabs_counts(clocked: Clocked) -> None:
    """Both read the clock after each repetition in turn; the first reading may be of either sample."""
    two = ("--bt", "1", "--parts", "2", "--repetitions", "16", "--warmup-seconds", "0")
    document, clock = clocked("stencil", *STENCIL, *two)
    places = clock.places(spans(figure(document, "cells"), STENCIL_CELLS), next_to=False)
    times = clock.told[0]
    assert {last - first for _, first, last in places} == {2}
    earliest = min(first - 2 * i for i, (_, first, _) in enumerate(places))

    def slower(begin: int) -> bool:
        """Whether each sample is the larger of both spans, if the readings begin there."""
        both = [[times[at + 2] - times[at] for at in (begin + 2 * i, begin + 2 * i + 1)] for i in range(len(places))]
        return all(times[last] - times[first] == max(two) for two, (_, first, last) in zip(both, places, strict=True))

    assert slower(earliest) or slower(earliest - 1)


@pytest.mark.parametrize("form", ["sequential", "openmp", "shared", "openacc"])
def test_stencil_forms(clocked: Clocked, form: str) -> None:
    document, clock = clocked(
        "stencil_forms", *FEW, "--form", form, "--nx", "40", "--ny", "30", "--nz", "41", "--steps", "5"
    )
    clock.places(spans(figure(document, "cells"), 5 * STENCIL_CELLS))
    tolerances(document, {"bit for bit": 0})


@pytest.fixture
def files(clocked: Clocked, tmp_path: Path) -> Callable[..., Timed]:
    """files("overlap", ...) works in its own folder."""
    place = tmp_path / "place"
    place.mkdir()

    none: Mapping[int, int] = MappingProxyType({})

    def run(program: str, *arguments: str, costs: Mapping[int, int] = none, syncs: Mapping[int, int] = none) -> Timed:
        """`costs`: seconds of a read or write of so many bytes, besides what it takes; `syncs`: of its fsync."""
        more = {"TENKEN_HDF5": hdf5_library(), "OMP_WAIT_POLICY": "passive"}
        for name, by_size in (("TENKEN_TEST_COSTS", costs), ("TENKEN_TEST_SYNC_COSTS", syncs)):
            more[name] = " ".join(f"{size}:{cost}000000000" for size, cost in by_size.items())
        return clocked(program, *FEW, "--path", str(place), *arguments, **more)

    return run


#: Four floats of position and mass, two and one of velocity, a number of 64 bits.
SNAPSHOT_BYTES = 4 * 4 + 2 * 4 + 1 * 4 + 8
ONE_SIZE = ("--min-particles", "20000", "--max-particles", "20000", "--seconds", "0", "--decide-seconds", "0")


def test_snapshot_io(files: Callable[..., Timed]) -> None:
    document, clock = files("snapshot_io", *ONE_SIZE, "--methods", "posix,hdf5_sec2", "--threads", "1")
    for name in ("write", "read"):
        for metric in figures(document, name):
            around = spans(figure(document, f"{name}_around", **metric["at"]), 1)

            def fits(number: int, times: Sequence[int], first: int, last: int, around: list[float] = around) -> bool:
                """Opening ends where the transfer begins, closing begins where it ends."""
                found = times[first] - times[first - 1] + times[last + 1] - times[last]
                return abs(found - around[number]) < 1

            clock.places(spans(metric, SNAPSHOT_BYTES * 20_000), fits=fits)
    for metric in figures(document, "write_hyperslab_over_asis") + figures(document, "read_hyperslab_over_asis"):
        name = metric["name"].split("_")[0]
        one, other = (figure(document, name, method=metric["at"]["method"], layout=x) for x in ("hyperslab", "asis"))
        expected = [a / b for a, b in zip(one["samples"], other["samples"], strict=True)]
        assert metric["samples"] == pytest.approx(expected)


@pytest.mark.parametrize("synced", [(), ("--synced", "--directions", "write")], ids=["transfer", "fsync"])
@pytest.mark.parametrize(("slow", "samples"), [(320_000, 4), (240_000, 16)], ids=["as is", "hyperslab"])
def test_a_layout_is_measured_until_it_is_known_to_be_slower(
    files: Callable[..., Timed], slow: int, samples: int, synced: Sequence[str]
) -> None:
    """The first dataset has 16 or 12 bytes of a particle. Fifteen pairs prove that a layout is slower: of what looks
    like it after four rounds, there are twelve more, the second time that one looks."""
    some = ("--min-particles", "20000", "--max-particles", "20000", "--methods", "posix", "--threads", "1", *synced)
    slower = {"syncs" if synced else "costs": {slow: 10}}
    document, _ = files("snapshot_io", *some, "--seconds", "0", "--decide-seconds", "3600", **slower)
    counts = {m["count"] for m in document["metrics"] if m["name"] in ("write", "read")}
    assert counts == {samples}


def test_snapshot_io_synced(files: Callable[..., Timed]) -> None:
    """For a synced write two readings count together: the transfer, and flushing it to the device."""
    document, clock = files(
        "snapshot_io", *ONE_SIZE, "--methods", "posix", "--directions", "write", "--synced", "--threads", "1"
    )
    for metric in figures(document, "write"):
        two = spans(metric, SNAPSHOT_BYTES * 20_000)
        clock.places(two, next_to=False, fits=lambda _, times, first, last: last == first + 2)
    ratio = figure(document, "write_hyperslab_over_asis")
    slabs, whole = (figure(document, "write", layout=layout)["samples"] for layout in ("hyperslab", "asis"))
    assert ratio["samples"] == pytest.approx([one / other for one, other in zip(slabs, whole, strict=True)])


def test_storage_map(files: Callable[..., Timed], tmp_path: Path) -> None:
    written = tmp_path / "map.txt"
    size = ("--min-bytes", "256Ki", "--max-bytes", "256Ki", "--seconds", "0", "--decide-seconds", "0")
    ways = (
        "--candidates",
        "posix_4ki_1,posix_256ki_1,posix_64ki_1",
        "--threads",
        "1",
        "--situations",
        "write,read_cached",
    )
    document, clock = files("storage_map", *size, *ways, "--map", str(written))
    lines = [line.split() for line in written.read_text().splitlines() if not line.startswith("#")]
    for situation in ("write", "read_cached"):
        by_way = {m["at"]["io_config"]: m for m in figures(document, situation)}
        assert len(by_way) == 3
        for metric in by_way.values():
            clock.places(spans(metric, 262_144))
        best = figure(document, f"best_{situation}")
        assert best["samples"] == by_way[best["at"]["io_config"]]["samples"]
        (entry,) = [line for line in lines if line[0] == situation]
        assert int(entry[1]) == 262_144
        # the map may keep the configuration of the previous size, within 2 %. The median of times, not of rates: the
        # same except for an even number of samples; six digits are written
        close(float(entry[3]), 262_144 / median(spans(by_way[entry[2]], 262_144)), 1e-5)


#: Seconds of a call of 4 and of 64 KiB; of one of 256 KiB, and what is then the fastest at 64 KiB, 256 KiB, 1 and 4 MiB
#: by the map: four calls of 64 KiB take 4000 s, and less than 2 % more is no reason to change.
CALLS = {4096: 1000, 65536: 1000}
FASTEST = {
    3970: ("posix_64ki_1", "posix_64ki_1", "posix_64ki_1", "posix_64ki_1"),
    3900: ("posix_64ki_1", "posix_256ki_1", "posix_256ki_1", "posix_256ki_1"),
    1000: ("posix_64ki_1", "posix_256ki_1", "posix_256ki_1", "posix_256ki_1"),
}
KIB = (64, 256, 1024, 4096)
ONE_THREAD = ("--threads", "1", "--seconds", "0", "--decide-seconds", "0")


@pytest.mark.parametrize("call", FASTEST)
def test_a_map_names_the_fastest_and_tries_the_hopeless_twice(
    files: Callable[..., Timed], tmp_path: Path, call: int
) -> None:
    written = tmp_path / "map.txt"
    sweep = ("--min-bytes", "64Ki", "--max-bytes", "4Mi", "--situations", "read_cached", "--map", str(written))
    few = ("--candidates", "posix_4ki_1,posix_64ki_1,posix_256ki_1", *ONE_THREAD)
    document, _ = files("storage_map", *sweep, *few, costs={**CALLS, 262_144: call})
    ways = {(m["at"]["bytes"] >> 10, m["at"]["io_config"]): m for m in figures(document, "read_cached")}
    # 16 times as long as the best at two sizes; four times as long, or as long
    tried = {(kib, way) for kib in KIB[:2] for way in ("posix_4ki_1", "posix_64ki_1")}
    tried |= {(1024, "posix_64ki_1")} | {(kib, "posix_256ki_1") for kib in KIB[1:]}
    assert set(ways) == (tried if call == 1000 else tried | {(4096, "posix_64ki_1")})
    rows = [line.split() for line in written.read_text().splitlines() if not line.startswith("#")]
    assert [row[:3] for row in rows] == [
        ["read_cached", str(kib << 10), way] for kib, way in zip(KIB, FASTEST[call], strict=True)
    ]
    seconds_of = {"posix_64ki_1": 1000 / 64, "posix_256ki_1": call / 256}  # of a KiB
    for kib, row in zip(KIB, rows, strict=True):
        close(float(row[3]), (kib << 10) / (kib * seconds_of[row[2]]) / 1e9, 1e-4)


@pytest.mark.parametrize("least", [256, 1024])
def test_a_choice_that_is_no_candidate_is_held_against_them(
    files: Callable[..., Timed], tmp_path: Path, least: int
) -> None:
    """The map names calls of 16 KiB for 256 KiB, of which 16 take as long as 16 calls of 256 KiB."""
    earlier = tmp_path / "map.txt"
    earlier.write_text("# tenken storage map 1\nread_cached 262144 posix_16ki_1 2.5\n")
    size = ("--min-bytes", f"{least}Ki", "--max-bytes", "1Mi", "--factor", "4", "--situations", "read_cached")
    few = ("--use-map", str(earlier), "--candidates", "posix_64ki_1,posix_256ki_1", *ONE_THREAD)
    document, _ = files("storage_map", *size, *few, costs=dict.fromkeys((16_384, 65_536, 262_144), 1000))
    assert {m["at"]["io_config"] for m in figures(document, "read_cached")} == {"posix_64ki_1", "posix_256ki_1"}
    ratios = [round(one, 5) for m in figures(document, "adaptive_over_best") for one in m["samples"]]
    assert set(ratios) == {1 / 16}
    for adaptive in figures(document, "adaptive"):
        close(adaptive["median"], 16_384 / 1000 / 1e9, 1e-4)
    # the map states a rate of one size alone
    told = [m["at"]["bytes"] for m in document["metrics"] if m["name"] == "adaptive_over_map"]
    assert told == [262_144] * (least == 256)


def test_cold_reads_are_of_files_that_were_written_back_and_dropped(files: Callable[..., Timed]) -> None:
    """Each of them: fsync, then POSIX_FADV_DONTNEED, then the timed read, with no other timed read between."""
    size = ("--min-bytes", "256Ki", "--max-bytes", "256Ki", "--seconds", "0", "--decide-seconds", "0")
    only = ("--candidates", "posix_256ki_1", "--threads", "1", "--situations", "read_cold")
    document, clock = files("storage_map", *size, *only)
    places = clock.places(spans(figure(document, "read_cold", io_config="posix_256ki_1"), 262_144))
    assert len(places) >= 3
    before = 0
    for _, first, last in places:
        advised = [at for at, advice in clock.events[ADVISED] if advice == os.POSIX_FADV_DONTNEED]
        dropped = [at for at in advised if before <= at <= first]
        assert dropped, "what was read before would be timed out of memory"
        assert any(before <= at <= dropped[-1] for at, _ in clock.events[SYNCED]), "what is dirty cannot be dropped"
        before = last


@pytest.mark.parametrize("method", ["posix", "hdf5_sec2"])
def test_each_snapshot_of_a_synced_run_is_on_the_disk(files: Callable[..., Timed], method: str) -> None:
    one = (*ONE_SIZE, "--methods", method, "--layouts", "asis", "--threads", "1")
    synced = [len(files("snapshot_io", *one, *more)[1].events[SYNCED]) for more in ((), ("--synced",))]
    assert synced[1] - synced[0] >= 4  # repetitions


def test_the_progress_of_a_burn_is_on_the_disk_before_it_has_its_name(clocked: Clocked, tmp_path: Path) -> None:
    """After a power cut the file would be empty, which the next start refuses."""
    one = ("--backend", "host", "--phases", "copies", "--seconds", "0", "--visit-seconds", "0.001")
    some = (*one, "--host-bytes", "16Mi", "--host-order", "128")
    progress = ("--progress", str(tmp_path / "progress"))
    synced = [len(clocked("burn", *some, *more)[1].events[SYNCED]) for more in ((), progress)]
    assert synced[1] > synced[0]


FILE_BYTES = ("--min-bytes", "64Ki", "--max-bytes", "64Ki", "--candidates", "posix_64ki_1", "--threads", "1")
FEW_PARTICLES = ("--min-particles", "2000", "--max-particles", "2000", "--methods", "posix", "--layouts", "asis")
SAMPLES = ("--kinds", "8ki", "--batch", "2", "--batches", "2", "--step-ms", "1", "--ways", "posix_1mi_1")
OF_FILES: list[tuple[str, tuple[str, ...], str]] = [
    ("storage_map", (*FILE_BYTES, "--situations", "read_cached,read_cold"), "read"),
    ("storage_map", (*FILE_BYTES, "--situations", "write,write_synced"), "write"),
    ("snapshot_io", FEW_PARTICLES, "read"),
    ("snapshot_io", FEW_PARTICLES, "write"),
    ("data_loading", SAMPLES, "read"),
    ("overlap", ("--bytes", "64Ki", "--step-ms", "1", "--steps", "4", "--every", "2", "--modes", "serial"), "write"),
]


@pytest.mark.parametrize(("program", "arguments", "lost"), OF_FILES)
def test_reads_and_writes_that_move_nothing_fail(
    run: Callable[..., Any], clock_log: Path, tmp_path: Path, program: str, arguments: tuple[str, ...], lost: str
) -> None:
    """Neither a memory nor a file contains what is expected before it was moved there."""
    place, clock = tmp_path / "place", str(tmp_path / "clock")
    place.mkdir()
    brief = () if program == "overlap" else ("--seconds", "0")
    env = {**os.environ, "LD_PRELOAD": f"{clock_log} {os.environ['LD_PRELOAD']}", "TENKEN_TEST_CLOCK": clock}
    env["TENKEN_HDF5"] = hdf5_library()
    command = (program, *FEW, "--path", str(place), *arguments, *brief)
    whole = run(*command, env=env)
    assert whole.code == 0, whole.stdout + whole.stderr
    document = run(*command, env={**env, "TENKEN_TEST_LOST": lost}).document
    assert document["status"] == "failed"
    one, other = (
        {json.dumps([check["what"], check.get("at")]): check["error"] for check in found["verification"]["checks"]}
        for found in (whole.document, document)
    )
    of_content = {check: error for check, error in other.items() if "differ" in check}
    assert all(error > 0 for error in of_content.values()), document["verification"]
    # what was not written may end a run before anything is compared
    assert lost == "write" or set(of_content) == {check for check in one if "differ" in check} != set()


def test_samples_of_every_repetition_are_compared(run: Callable[..., Any], clock_log: Path, tmp_path: Path) -> None:
    """Not only in the first round, in which nothing is timed: skipped reads in the second half are noticed."""
    (place := tmp_path / "place").mkdir()
    command = ("data_loading", *FEW, "--path", str(place), *SAMPLES, "--seconds", "0")
    env = {**os.environ, "LD_PRELOAD": f"{clock_log} {os.environ['LD_PRELOAD']}", "TENKEN_HDF5": hdf5_library()}
    whole = run(*command, env={**env, "TENKEN_TEST_CLOCK": str(tmp_path / "clock")})
    assert whole.code == 0, whole.stdout + whole.stderr
    events = Clock.read(tmp_path / "clock").events
    reads = [size for kind in (READ, READ - OTHER) for _, size in events.get(kind, []) if size >= 4096]
    half = run(*command, env={**env, "TENKEN_TEST_LOST": "read", "TENKEN_TEST_LOST_AFTER": str(len(reads) // 2)})
    assert [check["what"] for check in half.document["verification"]["checks"] if check["error"] > 0]


def test_each_variant_of_spmv_is_warm_before_its_first_sample(clocked: Clocked) -> None:
    """Two variants, 200 ms of warm-up each: during that time before its first sample no other one was measured."""
    warm = ("--warmup-seconds", "0.2", "--repetitions", "4", "--variant-warmup-seconds", "0.2")
    document, clock = clocked("spmv", *warm, "--matrices", "poisson27:20")
    before = 0
    for metric in sorted(figures(document, "spmv"), key=lambda m: ["csr", "sell"].index(m["at"]["variant"])):
        places = clock.places(spans(metric, 2 * poisson27_entries(20)), before)
        process, first, _ = places[0]
        assert clock.told[process][first] - clock.told[process][before] >= 200_000_000
        before = places[-1][2]


def test_storage_map_of_an_earlier_run(files: Callable[..., Timed], tmp_path: Path) -> None:
    earlier = tmp_path / "map.txt"
    earlier.write_text("# tenken storage map 1\nread_cached 262144 posix_256ki_1 2.5\n")
    size = ("--min-bytes", "256Ki", "--max-bytes", "256Ki", "--seconds", "0", "--decide-seconds", "0")
    only = ("--candidates", "posix_256ki_1", "--threads", "1", "--situations", "read_cached")
    document, clock = files("storage_map", *size, *only, "--use-map", str(earlier))
    adaptive = figure(document, "adaptive")
    clock.places(spans(adaptive, 262_144))
    since = figure(document, "adaptive_over_map")
    assert since["samples"] == pytest.approx([rate / 2.5 for rate in adaptive["samples"]])
    # there is no other way
    assert set(figure(document, "adaptive_over_best")["samples"]) == {1.0}


def test_overlap(files: Callable[..., Timed]) -> None:
    """Seven steps, of which the third and the sixth are written: two snapshots, however long they take."""
    size = ("--bytes", "256Ki", "--step-ms", "1", "--steps", "7", "--every", "3")
    document, clock = files("overlap", *size, "--modes", "none,serial,writer", costs={262_144: 10})
    loops = {m["at"]["mode"]: m["samples"] for m in figures(document, "loop")}
    assert {len(samples) for samples in loops.values()} == {4}
    assert len(clock.events[SYNCED]) == 1, "the result, and no snapshot without --synced"
    for mode in loops:
        clock.places(spans(figure(document, "loop", mode=mode), 1), next_to=False)
    for mode in ("serial", "writer"):
        cost = [(a - b) / 2 * 1e3 for a, b in zip(loops[mode], loops["none"], strict=True)]
        assert figure(document, "snapshot_cost", mode=mode)["samples"] == pytest.approx(cost)
    rounds = list(zip(loops["none"], loops["serial"], loops["writer"], strict=True))
    hidden = [1 - (writer - none) / (serial - none) for none, serial, writer in rounds]
    assert figure(document, "hidden", mode="writer")["samples"] == pytest.approx(hidden)
    gain = [serial / writer for _, serial, writer in rounds]
    assert figure(document, "gain", mode="writer")["samples"] == pytest.approx(gain)


def test_data_loading(files: Callable[..., Timed]) -> None:
    """Three batches of four samples of 8 KiB, twice: 24; the step waits from its end to the next batch."""
    size = ("--kinds", "8ki", "--batch", "4", "--batches", "3", "--step-ms", "1", "--seconds", "600")
    ways = ("--ways", "posix_1mi_1,direct_4ki_1", "--threads", "1")
    document, clock = files("data_loading", *size, *ways, costs={4096: 1})
    for part in ("step", "checksum"):  # three of them were timed
        clock.anywhere([3e6 * document["path"][f"{part}_ms.8ki.host"]])
    for rate in figures(document, "samples"):
        assert rate["count"] == 4, "however slow it is"
        waits = figure(document, "waits", **rate["at"])

        def fits(number: int, times: Sequence[int], first: int, last: int, waits: Any = waits) -> bool:
            """The clock is read at the beginning, and for each of six batches on arrival and on consumption."""
            if last != first + 12:
                return False
            waited = sum(times[first + i + 1] - times[first + i] for i in range(0, 12, 2))
            return math.isclose(waits["samples"][number], 100 * waited / (times[last] - times[first]), rel_tol=1e-9)

        clock.places(spans(rate, 24), next_to=False, fits=fits)
        speed = figure(document, "rate", **rate["at"])
        assert speed["samples"] == pytest.approx([one * 8192 / 1e9 for one in rate["samples"]])
    for gain in figures(document, "gain"):
        way = gain["at"]["io_config"]
        ahead, serial = (figure(document, "samples", io_config=way, prefetch=p)["samples"] for p in (2, 0))
        assert gain["samples"] == pytest.approx([a / b for a, b in zip(ahead, serial, strict=True)])


def test_statistics_follow_from_the_samples(clocked: Clocked) -> None:
    """All runs here are checked this way; this one has statistics of every kind and both directions."""
    document, _ = clocked("hpcg", *HPCG)
    assert {m["statistic"] for m in document["metrics"]} >= {"median", "total"}
    document, _ = clocked("migration_double", *SAM, "--repetitions", "21", "--trials", "3")
    assert {m["statistic"] for m in document["metrics"]} >= {"median", "mean"}
    assert {m["direction"] for m in document["metrics"]} == {"higher", "lower"}


def stream_amounts(document: dict[str, Any]) -> dict[str, float]:
    size = document["parameters"]["array_bytes"]
    return {"copy": 2 * size, "scale": 2 * size, "add": 3 * size, "triad": 3 * size, "dot": 2 * size}


@pytest.mark.parametrize(
    ("program", "arguments", "amounts"),
    [
        ("stream", ["--repetitions", "40"], stream_amounts),
        ("daxpy", ["--elements", "4000000"], {"daxpy": 24 * 4_000_000}),
        ("himeno", ["--size", "S"], {"iteration": 34 * 62 * 62 * 126}),
        ("transpose", ["--sizes", "2000", "--kernels", "naive"], {"host_bandwidth": 8 * 2000 * 2000}),
        ("access_patterns", ["--bytes", "32000000"], {"host_by_cpu": 2 * 32_000_000}),
    ],
)
def test_the_timed_part_is_the_work(
    build_dir: Path, tmp_path: Path, program: str, arguments: list[str], amounts: Any
) -> None:
    """The samples together take most of a run's elapsed time, and never more than it."""
    result = tmp_path / "result.json"
    command = [str(build_dir / "bin" / program), "--repetitions", "60", *arguments]
    begin = time.monotonic()
    subprocess.run([*command, "--warmup-seconds", "0", "--json", str(result)], check=True, capture_output=True)
    taken = time.monotonic() - begin
    document = completed(result.read_text())
    by_name = amounts(document) if callable(amounts) else amounts
    told = sum(sum(seconds(figure(document, name), amount)) for name, amount in by_name.items())
    assert 0.2 * taken < told < taken, f"samples of {told} s in a run of {taken} s"


def test_the_clock_tells_no_span_twice(clocked: Clocked) -> None:
    """Of several hundred readings, many of them back to back."""
    _, clock = clocked("hpl_mxp", *FEW, "--backend", "host", "--n", "256", "--nb", "32")
    (times,) = clock.told
    assert len(times) > 300
    every = [later - time for time, later in itertools.combinations(times, 2)]
    assert min(every) > 0 and len(every) == len(set(every))


def test_no_reading_follows_the_one_before_by_a_span_of_earlier(clock_log: Path, tmp_path: Path) -> None:
    """Of 8,000, some 20 us apart, of which the first 2,048 are kept apart from each other."""
    library = "import ctypes, sys\nnow = ctypes.CDLL(sys.argv[1])._ZNSt6chrono3_V212steady_clock3nowEv\n"
    command = [sys.executable, "-c", f"{library}for _ in range(8000): now(), sum(range(2000))", str(clock_log)]
    subprocess.run(command, check=True, env={**os.environ, "TENKEN_TEST_CLOCK": str(tmp_path / "clock")})
    (times,) = Clock.read(tmp_path / "clock").told
    steps = [later - time for time, later in itertools.pairwise(times)]
    assert len(steps) == 7_999 and min(steps) > 0
    assert len(steps) == len(set(steps))


def test_a_span_is_found_at_its_one_place_or_not_at_all() -> None:
    clock = Clock([[0, 5, 12, 17, 30]])
    assert clock.places([7, 13]) == [(0, 1, 2), (0, 3, 4)]
    assert clock.places([25], next_to=False) == [(0, 1, 4)]
    assert clock.places([7, 5]) == [(0, 1, 2), (0, 2, 3)], "the other 5 ns precede"
    for spans_, next_to in (([5], True), ([5, 13], False)):
        with pytest.raises(AssertionError, match=rf"{len(spans_)} spans lie at 2 places: \[\(0, 1\), \(2, 3\)\]"):
            clock.places(spans_, next_to=next_to)
    for spans_, why in (([13, 7], "in the other order"), ([25], "with readings within"), ([6], "that is none")):
        with pytest.raises(AssertionError, match="was never measured"):
            assert clock.places(spans_) is None, why
    with pytest.raises(AssertionError, match="2 processes measured all of"):
        Clock([[0, 5], [1, 6]]).places([5])


def test_every_unit_of_time_has_its_nanoseconds() -> None:
    assert {unit for unit in UNITS if unit.endswith("s") and "/" not in unit} == set(TIMES)
    with pytest.raises(AssertionError, match=r"'furlong' is neither .*tests/support/oracles\.py"):
        spans({"unit": "furlong", "samples": [1.0]}, 1)
