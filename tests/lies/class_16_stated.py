"""Numbers beside the values: parameters that a program chose, notes of path, libraries, what an adapter cannot know.
Each alone, where something else of the result, of the data sheet or of the system file tells otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.lies import honest
from tests.lies.lie import Change, Lie, both, each, health, put, samples, times, without

ADAPTERS = ("osu", "xhpl", "xhpcg", "nccl_tests")
#: What the adapters write of a host and a build that they do not know, and something else.
PLACEHOLDERS = (
    ("host.os", "Ubuntu 24.04"), ("host.kernel", "6.1"), ("host.cpu", "AMD EPYC"), ("host.architecture", "x86"),
    ("build.type", "Release"), ("build.flags", "-O3"), ("placement.binding", "close"), ("placement.places", "cores"),
    ("build.backends", []), ("placement.nodes", []), ("command", [""]),
)  # fmt: skip
#: Of which run, a note of path with a number, and the factors by which it is changed.
NOTED = (
    ("transpose", "page_bytes", (10, 0.7)), ("overlap", "page_bytes", (10,)),
    ("overlap", "file_system_block_bytes", (10, 0.7)), ("snapshot_io", "file_system_free_bytes", (1000,)),
    ("storage_map", "file_system_total_bytes", (0.001,)), ("overlap", "passes_of_a_step.gpu0", (10, 1.3)),
    ("stencil", "slab_planes", (0.5, 2)), ("stencil", "slabs", (2,)), ("stencil_gpus", "slabs", (2,)),
    ("stencil_host", "slab_planes", (2,)), ("stencil", "alone_gflops.temporal_block=1", (0.7, 1.3)),
    ("stencil_gpus", "alone_gflops.steps_a_pass=2", (0.7, 1.3)), ("stencil", "temporal_block.alone", (0.5,)),
    ("stencil_gpus", "steps_a_pass.alone", (2,)), ("stencil_gpus", "steps_a_pass.host", (2,)),
    ("stencil_gpus", "tried.host.steps_a_pass=1", (10, 0.7)), ("stencil_gpus", "tried.p2p.steps_a_pass=1", (10,)),
    ("hpcg", "worst_error", (10, 0.1)), ("hpcg", "reference_residual", (10, 0.1)), ("hpcg_ranks", "worst_error", (10,)),
    ("himeno", "iterations.explicit", (0.5, 2)), ("mpi_p2p", "partner", (3,)), ("xhpcg", "total_seconds", (10, 0.1)),
)  # fmt: skip
#: Of which run, a parameter that the program chose itself, and another value.
CHOSEN = (
    ("stream_host", "array_bytes", 10), ("stream_host", "array_bytes", 0.1), ("daxpy", "elements", 10),
    ("daxpy", "elements", 0.5), ("overlap", "threads", 10), ("overlap_host", "threads", 2),
    ("snapshot_io", "threads", 2),
    ("storage_map", "threads", 2), ("overlap", "block_bytes", 2), ("snapshot_io", "block_bytes", 2),
    ("hpl_mxp", "maximum_refinements", 10), ("mpi_p2p", "partner", 10), ("xhpcg", "ny", 10), ("xhpcg", "nz", 2),
)  # fmt: skip
#: Of which run, a library that it measured with.
LIBRARIES = (
    ("gemm", "cuBLASLt"), ("hpl", "cuBLAS"), ("hpl", "cuSOLVER"), ("hpl_mxp", "cuBLAS"), ("hpl_host", "BLAS"),
    ("spmv", "cusparse"), ("snapshot_io", "HDF5"), ("snapshot_host", "HDF5"), ("nccl", "NCCL"),
)  # fmt: skip


def note(key: str, factor: float) -> Change:
    """A number of path, multiplied; a whole one stays whole."""

    def spoil(raw: Any) -> None:
        said = raw["path"][key]
        raw["path"][key] = round(said * factor) if isinstance(said, int) else said * factor

    return spoil


def energy(part: str, factor: float) -> Change:
    def spoil(raw: Any) -> None:
        key = next(key for key in raw["path"] if key.startswith("energy.") and key.endswith(f".{part}"))
        raw["path"][key] *= factor

    return spoil


def library(name: str, version: str | None) -> Change:
    def spoil(raw: Any) -> None:
        if version is None:
            del raw["build"]["libraries"][name]
        else:
            raw["build"]["libraries"][name] = version

    return spoil


def first_note(begin: str) -> Change:
    """The first note of that beginning is left out."""
    return lambda raw: raw["path"].pop(next(key for key in raw["path"] if key.startswith(begin))) and None


def load(**fields: Any) -> Change:
    return lambda raw: raw["load"].update(fields)


def lies() -> Iterator[Lie]:
    for of in ADAPTERS:
        for path, value in PLACEHOLDERS:
            yield Lie(of, f"{path} is {value!r}", path.split(".")[-1], put(path, value))
    for of, key, factors in NOTED:
        for factor in factors:
            yield Lie(
                of, f"{key} x{factor}", key.split(".")[0].replace("tried", "tried|steps_a_pass"), note(key, factor)
            )
    # with which any time of the loop would do
    yield Lie("overlap", "one pass", "passes_of_a_step", lambda raw: raw["path"].update({"passes_of_a_step.gpu0": 1}))
    for of, key, factor in CHOSEN:
        change = put(f"parameters.{key}", lambda value, f=factor: round(value * f))
        yield Lie(of, f"parameter {key} x{factor}", key, change)
    for of, name in LIBRARIES:
        yield Lie(of, f"{name} is not named", name, library(name, None))
        yield Lie(of, f"{name} without a version", name, library(name, " " if name == "BLAS" else "present"))
    yield Lie("gemm", "a version that is none", "cuBLASLt", library("cuBLASLt", "13.1.0x"))
    for part, factor in (
        ("seconds", 0.1), ("seconds", 1.3), ("repeatability", 10), ("uncertainty", 0.5), ("sm_clock_mhz", 10),
        ("temperature_c", 10),
    ):  # fmt: skip
        yield Lie("hpl_mxp", f"energy: {part} x{factor}", part, energy(part, factor))
    for of in ("hpcg_ranks", "mpi_p2p_host", "stencil_host"):
        yield Lie(of, "ranks without an MPI", "build.mpi", put("build.mpi", ""))
        yield Lie(of, "threads nowhere", "thread_cpus", put("placement.thread_cpus", []))
        yield Lie(of, "places that OpenMP has not", "placement.places", put("placement.places", "cores"))
    for of in ("stream", "p2p", "hpl"):
        yield Lie(
            of, "another width of the memory", "memory_bus_bits|memory_clock", put("devices.0.memory_bus_bits", 64)
        )
        yield Lie(of, "readings of another run", "health samples", lambda raw: health(0, samples=100_000)(raw))
        yield Lie(of, "a cache of a rack", "last_level_cache", put("host.last_level_cache_bytes", 2**35))
        yield Lie(of, "clocks of a GPU that sleeps", "sm_clock_mhz", health(0, "worst", sm_clock_mhz=150,
                                                                         reasons=["sw_power_cap"]))  # fmt: skip
    yield Lie(
        "p2p", "links of another generation", "nvlink_gbs_per_link|limit", put("devices.0.nvlink_gbs_per_link", 12.5)
    )
    for name in ("managed_memory", "concurrent_managed_access"):
        yield Lie("p2p", f"no {name}, and it is claimed", name, both(
            put("devices.0.concurrent_managed_access", False), put(f"devices.0.{name}", False)))  # fmt: skip
    yield Lie("stencil_gpus", "nothing of slabs", "slabs", without("path.slabs"))
    yield Lie("stencil", "nothing of path", "slabs|path", put("path", {}))
    yield Lie("gemm", "an algorithm that is not named", "algorithm", first_note("algorithm."))
    yield Lie("overlap", "a loop faster than its steps", "loop", samples("loop", times(0.5)))
    alone = both(samples("loop", times(0.5)), lambda raw: raw["path"].pop("passes_of_a_step.gpu0") and None)
    yield Lie("overlap", "a loop faster than its steps, which are not counted", "loop", alone)
    for of in ("stream", "daxpy", "hpl", "transfer"):
        for name, change in (
            ("half of the run was watched", load(seconds=0.0)),
            ("it waited longer than it ran", put("locks.waited_seconds", 1e6)),
        ):
            yield from each(of, (name, "load.seconds|waited_seconds", both(honest.of_today, change)))


def twins() -> Iterator[tuple[str, str, str]]:
    """Honest runs that come close: name, verdict, and the verdict of the run itself."""
    for name in (*honest.CHOSEN, *ADAPTERS):
        run = honest.run(name)
        live = honest.attended(run)
        yield f"{name}: with what the job script read", live.verdict, run.verdict
    changes: tuple[tuple[str, str, Change], ...] = (
        ("osu", "another architecture", put("host.architecture", "aarch64")),
        ("hpl_host", "a library's own way to write its version", library("BLAS", "libblis.so.4 (BLIS 4.2.1)")),
        ("hpl_host", "a library's file without a version", library("BLAS", "libmkl_rt.so")),
        ("stream", "clocks of an idle workstation GPU", health(
            0, "worst", sm_clock_mhz=0.06 * 1980, reasons=["gpu_idle"])),
        ("overlap", "large pages", put("path.page_bytes", 65536)),
        ("overlap", "blocks of a parallel file system", put("path.file_system_block_bytes", 4 * 2**20)),
        ("stream", "twice the cache on two sockets", both(
            put("host.sockets", 2), put("host.last_level_cache_bytes", 3 * 2**30))),
        ("stream", "a build without OpenMP", put("placement.places", "built without OpenMP")),
        ("stream", "as many readings as fit", health(0, samples=60)),
        ("stream_host", "a cache that is unknown", put("host.last_level_cache_bytes", None)),
        ("daxpy", "a smaller cache by its rounding", put("host.last_level_cache_bytes", lambda value: value + 1)),
    )  # fmt: skip
    yield from honest.altered(changes)
    run = honest.run("stream_host")
    raw = run.raw()
    command = [*raw["command"], "--array-bytes", "4Gi"]
    raw["command"], raw["parameters"]["array_bytes"] = command, 4 * 2**30
    asked = replace(run.request, arguments=(*run.request.arguments, "--array-bytes", "4Gi"))
    yield "stream_host: larger arrays, asked for", run.judged(raw, request=asked).verdict, run.verdict
    for seconds in (0.0, 0.9):
        raw = run.raw()
        honest.of_today(raw)
        raw["load"]["seconds"] = max(0.01, raw["load"]["seconds"] - seconds)
        yield f"stream_host: a slow start of {seconds} s", run.judged(raw).verdict, run.verdict
