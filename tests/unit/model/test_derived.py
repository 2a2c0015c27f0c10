"""Functions of derived.py, with numbers written by hand: what a run says, and what follows from it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.model import derivation
from tenken.model.subject import Subject
from tenken.paths import PROGRAMS

GPU = Subject.of({"gpu": 0})


def value(name: str, *samples: float, subject: Any = GPU, counts: dict[str, float] | None = None, **at: Any) -> Any:
    ordered = sorted(samples)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    numbers = {"samples": samples, "median": middle, "value": middle, "best": ordered[-1], "counts": counts or {}}
    return SimpleNamespace(name=name, subject=subject, kind=subject.kind, at=at, count=len(samples), **numbers)


class Run:
    """What engine.Run offers to them."""

    def __init__(self, *values: Any, parameters: dict[str, Any] | None = None, **result: Any) -> None:
        self.values, self.parameters = values, parameters or {}
        self.result = SimpleNamespace(parameters=self.parameters, path={}, **result)
        self.program: Any = None

    def of(self, *names: str) -> list[Any]:
        return [one for one in self.values if one.name in names]

    def at(self, name: str, subject: Any, at: Any, **changed: Any) -> Any:
        where = {**at, **changed}
        return next((one for one in self.of(name) if one.subject == subject and one.at == where), None)


def of(program: str) -> Any:
    return derivation._module_of(PROGRAMS / program)


@pytest.mark.parametrize(
    ("trials", "found", "share"),
    [(0, 0, 0.0), (10, 0, 0.0), (10, 10, 0.05**0.1), (1, 1, 0.05), (100, 100, 0.05**0.01), (2, 1, 1 - 0.95**0.5)],
)  # fmt: skip
def test_the_share_of_faults_that_was_surely_found(trials: int, found: int, share: float) -> None:
    """All of n found: the share whose n-th power is 0.05; one of two: neither was missed with 0.95."""
    assert of("burn").lower_bound(trials, found) == pytest.approx(share, abs=1e-9)


def test_masked_faults_are_no_trials() -> None:
    run = Run(value("injected", 14.0, kind="bit"), value("masked", 4.0, kind="bit"), value("found", 10.0, kind="bit"))
    assert list(of("burn").detected(run)) == [(GPU, {"kind": "bit"}, [pytest.approx(0.05 ** (1 / 10))])]
    assert not list(of("burn").detected(Run(value("injected", 14.0), value("masked", 4.0))))


def test_a_rate_is_steady_by_its_first_and_last_five_minutes() -> None:
    """Two phases of 30 s in turn: five visits of one are five minutes."""
    rates = [100.0] * 5 + [50.0] * 50 + [90.0] * 5
    run = Run(value("rate", *rates), value("updates", 1.0, 1.0), parameters={"visit_seconds": 30})
    assert dict((tuple(s), s) for _, _, s in of("burn").steady(run)).keys() == {(0.9,), (1.0,)}
    assert not list(of("burn").steady_hour(run)), "an hour at each end does not fit"
    hours = Run(value("rate", *[100.0] * 120, *[90.0] * 120), parameters={"visit_seconds": 30})
    assert [s for _, _, s in of("burn").steady_hour(hours)] == [[0.9]]
    assert not list(of("burn").steady(Run(value("rate", 1.0), parameters={"visit_seconds": 30})))
    # at most half of the visits; those of another GPU are at the same time
    few = [value("rate", 100.0, 80.0, 80.0, 90.0, 90.0, 90.0, subject=Subject.of({"gpu": gpu})) for gpu in (0, 1)]
    assert [s for _, _, s in of("burn").steady(Run(*few, parameters={"visit_seconds": 60}))] == [[90 / 80]] * 2


@pytest.mark.parametrize(
    ("passes", "least", "most"),
    [(None, 0.85 * 2, 1.10 * 2), (1, 0.85 * 2 / 1.5, None), (2, 0.85 * 2 * 2 / 2.5, 1.10 * 2 * 2 / 1.5),
     (5, 0.85 * 2 * 5 / 5.5, 1.10 * 2 * 5 / 4.5)],
)  # fmt: skip
def test_a_loop_takes_as_long_as_its_steps_of_whole_passes(
    passes: int | None, least: float, most: float | None
) -> None:
    """20 steps of 100 ms, off by half a pass each; the host may add a tenth."""
    run = Run(parameters={"steps": 20, "step_ms": 100})
    run.result.path = {} if passes is None else {f"passes_of_a_step.{GPU.id}": passes}
    assert of("overlap").steps(run, value("loop", 2.0, mode="none")) == pytest.approx((least, most))
    assert of("overlap").steps(run, value("loop", 2.0, mode="serial")) is None


def test_the_mean_of_matrices_is_geometric() -> None:
    best = [value("best", 2.0, nnz=10**6, matrix="a"), value("best", 8.0, nnz=9 * 10**6, matrix="b")]
    best.append(value("best", 32.0, nnz=10**7, matrix="c"))
    by_size = {at["nnz_decade"]: samples for _, at, samples in of("spmv").geomean_by_size(Run(*best))}
    assert by_size == {6: [pytest.approx(4.0)], 7: [pytest.approx(32.0)]}


@pytest.mark.parametrize(("moved", "limited"), [(399.0, False), (400.0, True), (450.0, True)])
def test_a_matrix_beyond_four_caches_is_limited_by_the_dot_product(moved: float, limited: bool) -> None:
    device = SimpleNamespace(l2_bytes=100)
    one = value("spmv", 1.0, counts={"bytes": moved, "operations": 200.0})
    run = Run(value("dot", 1000.0, 1100.0), device=lambda index: device)
    assert list(of("spmv").limit_spmv(run, one)) == ([pytest.approx(1100 * 200 / moved)] if limited else [])
    run.result.path["best_dot_gbs.gpu0"] = 2000.0
    assert list(of("spmv").limit_spmv(run, one)) == ([pytest.approx(2000 * 200 / moved)] if limited else [])


@pytest.mark.parametrize(
    ("precision", "moved"),
    [
        ("fp64", (2 * 4 + 4 * 3) * 8 + 2 * 3 * 8),
        ("fp16", (2 * 4 + 4 * 3) * 2 + 2 * 3 * 2),
        ("fp16_c32", (2 * 4 + 4 * 3) * 2 + 2 * (2 * 3 * 4)),
        ("int8", (2 * 4 + 4 * 3) * 1 + 2 * 3 * 4),
        ("nvfp4", (2 * 4 + 4 * 3) // 2 + 2 * 3 * 2),
    ],
)
def test_bytes_of_a_product(precision: str, moved: int) -> None:
    """A of 2 x 4, B of 4 x 3, C of 2 x 3; with accumulation in FP32 it is read too. Twice as many of two."""
    shape = {"m": 2, "n": 3, "k": 4}
    assert of("gemm")._traffic(shape, precision) == (moved, 2 * 2 * 3 * 4)
    assert of("gemm")._traffic({**shape, "batch": 5}, precision) == (5 * moved, 5 * 2 * 2 * 3 * 4)


def test_a_step_beside_the_same_ranks_alone() -> None:
    """Alone 10 and 14 ms (as one value each); together 15, 16 and 20 ms."""
    own = [value("alone", 10.0), value("alone", 14.0)]
    run = Run(value("step", 15.0, 16.0, 20.0), *own, parameters={"parallel": "data"})
    training = of("training")
    assert [s for *_, s in training.exposed(run)] == [[2.0]]
    assert [s for *_, s in training.scaling(run)] == [[1.5]]
    assert [s for *_, s in training.imbalance(run)] == [[pytest.approx(14 / 12)]]
    run.parameters["parallel"] = "pipeline"
    assert not list(training.scaling(run)) and not list(training.imbalance(Run(value("step", 1.0))))


def test_late_messages_are_later_than_half_of_the_ranks() -> None:
    ones = [value("arrival", rate, buffers="host") for rate in (1.0, 2.0, 3.0, 50.0)]
    run = Run(*ones, value("arrival", 900.0, buffers="device"))
    low, high = of("mpi_p2p").arrival(run, ones[0])
    assert (low, high) == (None, 1.5 * 2.0)


def of_gpu(name: str, rate: float, config: str, size: int) -> Any:
    return value(name, rate, bytes=size, io_config=config)


def test_copies_relative_to_the_fastest_of_cufile() -> None:
    rates = {"posix_4ki_1": 6.0, "posix_1mi_8": 50.0, "cufile_1mi_1": 2.0, "gds_1mi_1": 3.0, "gds_1mi_8": 1.5}
    ones = [of_gpu("write", rate, config, 1 << 20) for config, rate in rates.items()]
    other = of_gpu("read_cold", 9.0, "posix_4ki_1", 1 << 20)
    found = list(of("storage_map").copy_over_cufile(Run(*ones, other)))
    assert found == [(GPU, {"situation": "write", "bytes": 1 << 20}, [2.0])]
    assert not list(of("storage_map").copy_over_cufile(Run(*ones[1:]))), "without the copy"


def test_the_method_of_table_1_relative_to_the_best_of_its_four() -> None:
    """Table 1 of the JHPCN report: on a local disk a copy up to 2.25 MiB, then GPUDirect with blocks of 4 MiB; on
    Lustre the copy up to 9 MiB, and reads by GPUDirect."""
    named = of("storage_map").named_over_best
    ways = {"posix_4ki_1": 4.0, "gds_1mi_1": 5.0, "gds_other": 90.0}

    def share(system: str, name: str, size: int, **rates: float) -> list[Any]:
        run = Run(*(of_gpu(name, rate, way, size) for way, rate in (rates or ways).items()))
        run.result.path["file_system"] = system
        return list(named(run))

    # of 1 MiB no block is larger than the file: the three of GPUDirect are one
    assert share("ext4", "write", 1 << 20) == [(GPU, {"situation": "write", "bytes": 1 << 20}, [0.8])]
    assert share("lustre", "read_cached", 1 << 20)[0][2] == [1.0]
    assert (
        share("ext4", "write", 589_823) == []
        and len(share("ext4", "write", 589_824, posix_4ki_1=1, gds_576ki_1=2)) == 1
    )
    assert share("nfs", "write", 1 << 20) == [] and share("ext4", "write", 1 << 20, posix_4ki_1=4.0) == []
    last = {"posix_4ki_1": 4.0, "gds_2304ki_1": 5.0}
    assert share("xfs", "write", 2_359_296, **last)[0][2] == [0.8]
    above = {"posix_4ki_1": 4.0, "gds_2308ki_1": 5.0}
    assert share("xfs", "write", 2_359_297, **above)[0][2] == [1.0]
    assert share("lustre", "write", 2_359_297, **above)[0][2] == [0.8]
    # the named one was dropped because it was this many times slower
    assert share("ext4", "write", 1 << 20, gds_1mi_1=5.0)[0][2] == [1 / 2.5]


@pytest.mark.parametrize(("way", "size", "name"), [
    (("posix", 4, 1), 1 << 20, "posix_4ki_1"), (("gds", 4096, 1), 1 << 30, "gds_4mi_1"),
    (("gds", 16384, 8), 40 << 20, "gds_16mi_3"), (("gds", 16384, 8), 1 << 30, "gds_16mi_8"),
    (("gds", 4096, 1), 5000, "gds_8ki_1"), (("gds", 4096, 1), 4096, "gds_4ki_1"),
])  # fmt: skip
def test_no_block_is_larger_than_the_file_and_no_thread_is_without_one(way: Any, size: int, name: str) -> None:
    assert of("storage_map")._fitted(way, size) == name


@pytest.mark.parametrize(("limits", "expected"), [((None, 5.0), [10.0]), ((4.0, 5.0), [10.0]), ((None, None), [])])
def test_several_parts_have_the_limit_of_the_fastest_one_that_is_known(
    limits: tuple[float | None, ...], expected: list[float]
) -> None:
    alone, fused = value("alone", 1.0), value("fused", 1.0)
    run = Run(alone, fused)
    run.limit = lambda one: SimpleNamespace(value=limits[one.name == "fused"])
    cells = value("cells", 2.0, subject=Subject.of({"ranks": 2}))
    assert list(of("stencil").limit_cells(run, cells)) == expected
    # of several processes one may have a faster GPU than those of this document
    run.values = (alone, fused, value("copy", 4.0), value("copy", 8.0))
    run.result.path["fastest_copy_gbs"] = 12.0
    assert list(of("stencil").limit_cells(run, cells)) == [1.5 * limit for limit in expected]


MI, TWO_RANKS = 1 << 20, Subject.of({"ranks": 2})
#: The median of times of the first is that of a rate of 1.8, though its median rate is 5.
CONFIGURATIONS = [(5, (1.0, 9.0), "a"), (5, (2.0, 2.0), "b"), (6, (4.0,), "a")]
RAMPS = [(10, [2.0] * 8), (2, [1.0, 1.0, *[4.0] * 8])]
STEPS = value("step", *[1.0, 1.0, 3.0, 3.0], *[9.0] * 12, *[4.0] * 4)
#: Two blocks of each phase of a stencil.
PHASES = [
    ("compute", 1.0, 2.0),
    ("pack", 0.0, 0.0),
    ("halo_node", 1.0, 0.0),
    ("halo_net", 1.0, 1.0),
    ("sync", 1.0, 1.0),
]
TRANSFERS = [
    value(name, ms, kernel=kernel, memory=memory, n=n)
    for kernel, times in {"tile": 1.0, "naive": 100.0}.items()
    for name, memory, n, ms in [
        ("htod", "pageable", 64, 6 * times), ("dtoh", "pageable", 64, 4 * times), ("htod", "pageable", 32, 2 * times),
        ("dtoh", "pageable", 32, 3 * times), ("htod", "pinned", 64, 5 * times), ("dtoh", "pinned", 64, 3.0),
        ("htod", "pinned", 32, times), ("dtoh", "pinned", 32, times),
    ]
]  # fmt: skip
MATRICES = [
    value("spmv", rate, variant=variant, matrix=matrix)
    for matrix, variant, rate in [("a", "sell", 2.0), ("a", "csr", 3.0), ("a", "cusparse_a", 4.0),
                                  ("a", "cusparse_b", 1.0), ("b", "csr", 5.0)]
]  # fmt: skip
#: Program, function, values, parameters; what follows: coordinates and samples.
FOLLOWS: list[tuple[str, str, list[Any], dict[str, Any], list[tuple[dict[str, Any], list[float]]]]] = [
    *(
        ("storage_map", f"best_{name}", [value(name, *rates, bytes=size, io_config=one)
                                         for size, rates, one in CONFIGURATIONS], {},
         [({"bytes": 5, "io_config": "b"}, [2.0, 2.0]), ({"bytes": 6, "io_config": "a"}, [4.0])])
        for name in ("write", "write_synced", "read_cached", "read_cold")
    ),
    ("data_loading", "best", [value("samples", *rates, kind=kind, way=way) for kind, rates, way in CONFIGURATIONS], {},
     [({"kind": 5, "way": "b"}, [2.0, 2.0]), ({"kind": 6, "way": "a"}, [4.0])]),
    *(
        ("storage_map", "pinned_read_over_least",
         [value("pinned_read", 6.0, bytes=1), value("cached_read", 12.0, bytes=1), value("link_to_gpu", link)], {},
         [({"bytes": 1}, [share])])
        for link, share in ((8.0, 0.75), (20.0, 0.5))
    ),
    # what is read from the disk is another situation
    ("storage_map", "most_over_cufile", [value("adaptive_over_cufile", gain, situation=name) for name, gain in
                                         [("write", 1.5), ("read_cached", 1.2), ("read_cold", 9.0)]], {},
     [({}, [1.5])]),
    ("storage_map", "adaptive_over_map", [value("adaptive", 3.0, 6.0, counts={"map_gbs": 2.0}), value("adaptive", 3.0),
                                          value("adaptive", 3.0, counts={"map_gbs": float("inf")})], {},
     [({}, [1.5, 3.0])]),
    ("transpose", "htod_speedup", TRANSFERS, {"kernels": "tile,naive"}, [({"n": 64}, [1.2]), ({"n": 32}, [2.0])]),
    ("transpose", "dtoh_speedup", TRANSFERS, {"kernels": "tile,naive"}, [({"n": 64}, [4 / 3]), ({"n": 32}, [3.0])]),
    ("transpose", "transfer_growth_ratio", TRANSFERS, {"kernels": "tile,naive"}, [({"n": 64}, [2 / 4])]),
    # half of an odd side is none
    ("transpose", "kernel_growth", [value("kernel", ms, n=n) for n, ms in
                                    [(64, 8.0), (32, 2.0), (65, 9.0), ("8x6", 3.0), ("4x3", 1.0)]], {},
     [({"n": 64}, [4.0]), ({"n": "8x6"}, [3.0])]),
    ("spmv", "best", MATRICES, {}, [({"matrix": "a"}, [4.0]), ({"matrix": "b"}, [5.0])]),
    ("spmv", "own_over_vendor", MATRICES, {}, [({"matrix": "a"}, [3 / 4])]),
    ("spmv", "geomean", [value("best", 8.0), value("best", 2.0)], {}, [({}, [4.0])]),
    ("spmv", "worst", [value("best", 8.0), value("best", 2.0)], {}, [({}, [2.0])]),
    *(("spmv", name, [value("best", 8.0)], {}, []) for name in ("geomean", "worst")),
    # in the order of the numbers of trials
    *(
        ("access_patterns", name, [value("remote_by_gpu", *rates, trial=trial) for trial, rates in RAMPS], {},
         [({}, found)])
        for name, found in {"ramp": [3, 1], "before": [1, 2], "plateau": [4, 2]}.items()
    ),
    ("access_patterns", "relative", [value("plateau", 4.0, 2.0, pattern=pattern) for pattern in (7, 8, 9)]
     + [value("device_copy", 8.0)], {}, [({"pattern": 8}, [0.5, 0.25])]),
    *(
        ("migration", name, [value("gpu_last", *rates, trial=trial) for trial, rates in RAMPS], {}, [(at, found)])
        for name, at, found in [("ramp", {"phase": "last"}, [3, 1]), ("plateau", {"phase": "last"}, [4, 2]),
                                ("new_ramp", {}, [1, 0])]
    ),
    ("training", "p99", [value("step", *map(float, range(1, 102)))], {}, [({}, [100.0])]),
    ("training", "worst", [STEPS], {}, [({}, [9.0])]),
    # a fifth of 20 steps: 2 over 4
    ("training", "drift", [STEPS], {}, [({}, [0.5])]),
    ("training", "mfu", [value("rate", 50.0), value("rate", 50.0, subject=TWO_RANKS)], {"sheet_tflops": 100},
     [({}, [50.0]), ({}, [25.0])]),
    ("training", "of_product", [value("rate", 6.0), value("product", 4.0), value("product", 8.0)], {}, [({}, [0.5])]),
    ("stencil", "share", [value(name, *seconds) for name, *seconds in PHASES], {},
     [({"phase": name}, [100 * first / 4, 100 * second / 4]) for name, first, second in PHASES]),
    # a phase that was not measured as often
    ("stencil", "share", [value(name, *seconds[: 1 + (name != "pack")]) for name, *seconds in PHASES], {}, []),
    ("stencil", "efficiency", [value("alone", 2.0), value("fused", 3.0),
                               value("cells", 3.0, 6.0, subject=TWO_RANKS)], {}, [({}, [50.0, 100.0])]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "name", "values", "parameters", "expected"), FOLLOWS, ids=[f"{one[0]} {one[1]}" for one in FOLLOWS]
)
def test_what_follows_from_a_run(
    program: str, name: str, values: list[Any], parameters: dict[str, Any], expected: list[Any]
) -> None:
    found = list(getattr(of(program), name)(Run(*values, parameters=parameters)))
    assert [at for _, at, _ in found] == [at for at, _ in expected]
    for (_, _, samples), (_, numbers) in zip(found, expected, strict=True):
        assert samples == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("nodes", "matrix", "sides", "limited"),
    [
        # three ranks on each of two nodes share a cache of 100 bytes
        (["a", "b"] * 3, 132, {}, True), (["a", "b"] * 3, 131, {}, False), ([], 400, {}, True),
        ([], 399, {}, False), ([], 400, dict.fromkeys(["nx", "ny", "nz"], 192), True),
        ([], 399, dict.fromkeys(["nx", "ny", "nz"], 192), False),
        ([], 400, {"nx": 192, "ny": 192, "nz": 184}, False),
    ],
)  # fmt: skip
def test_hpcg_has_a_limit_where_its_matrix_is_four_times_the_cache(
    nodes: list[str], matrix: int, sides: dict[str, int], limited: bool
) -> None:
    cached = {"host": SimpleNamespace(last_level_cache_bytes=100), "devices": [SimpleNamespace(l2_bytes=100)]}
    parameters = {"backend": "cuda", **sides} if sides else {}
    run = Run(value("dot", 10.0), parameters=parameters, placement=SimpleNamespace(nodes=nodes), **cached)
    bytes_of = {"vectors": 1.0, "product": 2.0, "cycle": 5.0}
    operations = {"": 4.0, ".product": 6.0, ".cycle": 3.0}
    run.result.path = {"bytes_of_matrix": matrix, **{f"bytes_of_iteration.{key}": b for key, b in bytes_of.items()},
                       **{f"operations_of_iteration{key}": number for key, number in operations.items()}}  # fmt: skip
    for name, limit in {"raw": 10 * 4 / 8, "spmv": 10 * 6 / 2, "mg": 10 * 3 / 5}.items():
        found = list(getattr(of("hpcg"), f"limit_{name}")(run, value(name, 1.0)))
        assert found == ([pytest.approx(limit)] if limited else [])


@pytest.mark.parametrize("subject", [GPU, TWO_RANKS])
@pytest.mark.parametrize(("precision", "operations"), [("bf16", 4096), ("fp8", 8192), ("fp4", None)])
def test_the_peak_of_a_step_is_that_of_all_ranks_and_of_a_product_that_of_one(
    subject: Any, precision: str, operations: int | None
) -> None:
    """By multiprocessors x clock x operations of the precision; products are BF16 beside a step of any precision."""
    gpu = SimpleNamespace(index=0, chip="9.0", multiprocessors=100, sm_clock_max_mhz=2000.0)
    run = Run(parameters={"precision": precision}, devices=[gpu], device={0: gpu}.get)
    run.program = SimpleNamespace(tables={"operations_per_cycle": {"9.0": {"bf16": 4096, "fp8_e4m3": 8192}}})
    ranks = subject.first if subject.kind == "ranks" else 1
    step, product = value("rate", 1.0, subject=subject), value("product", 1.0, subject=subject)
    rates = [pytest.approx(0.2 * operations * ranks)] if operations else []
    assert list(of("training").limit_rate(run, step)) == rates
    assert list(of("training").limit_product(run, product)) == [pytest.approx(0.2 * 4096)]
    gpu.sm_clock_max_mhz = None
    assert not [*of("training").limit_rate(run, step), *of("training").limit_product(run, product)]


def test_all_ranks_are_as_fast_as_the_slowest_of_their_gpus() -> None:
    """Three ranks; the result lists the two GPUs of the first node."""
    kind = {"chip": "9.0", "compute_capability": "9.0", "multiprocessors": 100}
    gpus = [SimpleNamespace(**kind, sm_clock_max_mhz=mhz) for mhz in (2000.0, 1000.0)]
    run, three = Run(parameters={"low": "fp16"}, devices=gpus), value("product", 1.0, subject=Subject.of({"ranks": 3}))
    tables = {"fp64_operations_per_cycle": {"9.0": 256}, "operations_per_cycle": {"9.0": {"fp16": 4096}}}
    run.program = SimpleNamespace(tables=tables)
    assert list(of("hpl").limit_dgemm(run, three)) == [pytest.approx(3 * 0.1 * 256)]
    assert list(of("hpl_mxp").limit_product(run, three)) == [pytest.approx(3 * 0.1 * 4096)]
    gpus[0].multiprocessors = None
    assert list(of("hpl").limit_dgemm(run, three)) == [None]


@pytest.mark.parametrize(
    ("subject", "nodes", "parts", "rate"),
    [
        (TWO_RANKS, ["a", "a"], {}, 10.0), (TWO_RANKS, ["a", "b"], {}, None), (GPU, [], {}, 10.0),
        # rates that the parts permit: the slowest counts, between ranks also that of broadcasts and swaps
        (GPU, ["a"], {"panel": 9.0, "swap": 8.0}, 9.0), (TWO_RANKS, ["a", "a"], {"panel": 9.0, "swap": 8.0}, 8.0),
        (TWO_RANKS, ["a", "a"], {"panel": 6.9}, None),
        # at 20 the conversion takes half as long as the LU at 10, which counts up to 0.3
        (GPU, ["a"], {"convert": 100.0}, 10.0 / 1.1), (GPU, ["a"], {"refine": 20.0}, 10.0 / 1.3),
    ],
)  # fmt: skip
def test_an_lu_reaches_a_share_of_its_products_within_a_node(
    subject: Any, nodes: list[str], parts: dict[str, float], rate: float | None
) -> None:
    operations = 2 / 3 * 1000**3 + 1.5 * 1000**2
    at: dict[str, Any] = {"subject": subject, "n": 1000}
    phases = [value("phase", operations / tera / 1e12, part=part, **at) for part, tera in parts.items()]
    products = [value(name, 10.0, **at) for name in ("dgemm", "product")]
    run, one = Run(*products, *phases, placement=SimpleNamespace(nodes=nodes)), value("lu", 9.0, **at)
    for found in (of("hpl").of_dgemm(run, one), of("hpl_mxp").of_product(run, one)):
        assert found == (None if rate is None else (pytest.approx(0.6 * rate), None))


@pytest.mark.parametrize(
    ("program", "place"), [("access_patterns", "gpu0.pattern=7.trial=2"), ("migration", "gpu0.trial=2")]
)
@pytest.mark.parametrize(
    ("source", "destination", "generation", "most"),
    [("host", "host", 5, 1.2 * 2 * 63.015), ("host", "host", None, None), ("device", "host", 5, None),
     ("host", "device", 5, None)],
)  # fmt: skip
def test_pages_that_stay_on_the_host_are_read_over_the_link(
    program: str, place: str, source: str, destination: str, generation: int | None, most: float | None
) -> None:
    gpu = SimpleNamespace(pageable_uses_host_page_tables=False, pcie_generation_max=generation, pcie_width_max=16)
    run = Run(device={0: gpu}.get)
    ends = {"host": "device 100 % -> host 100 %, device 0 %", "device": "host 100 % -> host 0 %, device 100 %"}
    run.result.path = {f"pages.{place}.source": ends[source], f"pages.{place}.destination": ends[destination]}
    found = of(program).pages(run, value("gpu_last", 1.0, trial=2, pattern=7))
    assert found == (None if most is None else (None, pytest.approx(most, rel=1e-4)))
    gpu.pageable_uses_host_page_tables = True
    assert of(program).pages(run, value("gpu_last", 1.0, trial=2, pattern=7)) is None


def test_what_goes_to_the_disk_is_slower_than_in_memory() -> None:
    memory = [value("best_write", 30.0, bytes=1, subject=TWO_RANKS), value("best_write", 20.0, bytes=2),
              value("best_write", 10.0, bytes=1)]  # fmt: skip
    from_disk = of("storage_map").from_disk
    assert from_disk(Run(*memory), value("best_write_synced", 1.0, bytes=1)) == (None, 9.0)
    assert from_disk(Run(*memory), value("best_write_synced", 1.0, bytes=3)) is None
    assert from_disk(Run(*memory), value("best_read_cold", 1.0, bytes=1)) is None


#: Functions whose numbers are those of others.
BY_HAND_ELSEWHERE = {
    "gemm.limit_gemm": "_traffic", "spmv.limit_best": "limit_spmv", "storage_map.of_times": "its callers",
    "migration.by_trial": "its callers",
}  # fmt: skip


def test_every_function_of_a_program_has_numbers_by_hand() -> None:
    """A minimum for a maximum, or values of another size, would else be a figure of their own."""
    here = Path(__file__).read_text()
    tested = {f"{program}.{name}" for program, name, *_ in FOLLOWS}
    tested |= {f"hpcg.limit_{name}" for name in ("raw", "spmv", "mg", "set", "rating")}
    tested |= {"access_patterns.pages", "migration.pages"}
    functions = {
        f"{file.parent.name}.{name}"
        for file in PROGRAMS.glob("*/derived.py")
        for name, one in vars(of(file.parent.name)).items()
        if callable(one) and not name.startswith("_") and getattr(one, "__module__", "").startswith("tenken_derived_")
    }
    missing = {
        name for name in functions - tested
        if not re.search(rf'of\("{name.partition(".")[0]}"\)\.{name.partition(".")[2]}\b', here)
    }  # fmt: skip
    assert missing - {f"training.{name}" for name in ("exposed", "scaling", "imbalance")} == set(BY_HAND_ELSEWHERE)
