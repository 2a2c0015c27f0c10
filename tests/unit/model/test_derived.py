"""Functions of derived.py, with numbers written by hand: what a run says, and what follows from it."""

from __future__ import annotations

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
    return SimpleNamespace(name=name, subject=subject, at=at, **numbers)


class Run:
    """What engine.Run offers to them."""

    def __init__(self, *values: Any, parameters: dict[str, Any] | None = None, **result: Any) -> None:
        self.values, self.parameters = values, parameters or {}
        self.result = SimpleNamespace(parameters=self.parameters, path={}, **result)
        self.program: Any = None

    def of(self, *names: str) -> list[Any]:
        return [one for one in self.values if one.name in names]

    def at(self, name: str, subject: Any, at: Any) -> Any:
        return next((one for one in self.of(name) if one.subject == subject and one.at == dict(at)), None)


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
    best = [value("best", 2.0, nnz=10**6, matrix="a"), value("best", 8.0, nnz=2 * 10**6, matrix="b")]
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
    one = value(name, rate, bytes=size, io_config=config)
    one.kind = "gpu"
    return one


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
    run = Run(*(SimpleNamespace(**vars(one), kind="gpu") for one in (alone, fused)))
    run.limit = lambda one: SimpleNamespace(value=limits[one.name == "fused"])
    cells = value("cells", 2.0, subject=Subject.of({"ranks": 2}))
    assert list(of("stencil").limit_cells(run, cells)) == expected
