"""Numbers beside the values: parameters that a program chose, notes of path, libraries, what an adapter cannot know.
Each alone, where something else of the result, of the data sheet or of the system file tells otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tenken.model.judgement import Judgement
from tests.lies import honest
from tests.lies.lie import Change, Lie, both, each, health, put, remade, samples, times, without
from tests.support.documents import metric as made

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
    ("stream_openacc", "array_bytes", 2**-12), ("stream_openacc", "array_bytes", 1 / 9),
    ("stream_openacc", "array_bytes", 2), ("daxpy", "elements", 0.5),
    ("overlap", "threads", 10), ("overlap_host", "threads", 2),
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


def rated(*names: str, factor: float) -> Change:
    """All metrics of some names, worse or better by a factor; of none: all."""

    def spoil(raw: Any) -> None:
        found = [metric for metric in raw["metrics"] if metric["name"] in names or not names]
        assert found, names
        for metric in found:
            way = factor if metric["direction"] == "higher" else 1 / factor
            remade(raw, metric, [way * sample for sample in metric["samples"]])

    return spoil


def chosen_repetitions(raw: Any) -> None:
    """The first repetition is left out of everything that has one sample of each."""
    count = raw["parameters"]["repetitions"]
    for metric in raw["metrics"]:
        if metric["count"] == count:
            remade(raw, metric, metric["samples"][1:])


def noted(begin: str, end: str, value: Any) -> Change:
    """All notes of path of that beginning and end have another value; a callable gets the number."""

    def spoil(raw: Any) -> None:
        keys = [key for key in raw["path"] if key.startswith(begin) and key.endswith(end)]
        assert keys, begin
        for key in keys:
            raw["path"][key] = value(raw["path"][key]) if callable(value) else value

    return spoil


def of_large(name: str, factor: float) -> Change:
    """The times of messages of 4 KiB and more."""

    def spoil(raw: Any) -> None:
        for metric in raw["metrics"]:
            if metric["name"] == name and metric["at"]["bytes"] >= 2**12:
                remade(raw, metric, [factor * sample for sample in metric["samples"]])

    return spoil


def forms(form: str = "openmp") -> honest.Honest:
    """A formulation of the stencil, on the host of another run."""
    base = honest.run("daxpy")
    raw = base.raw()
    parts = 1 if form == "sequential" else raw["placement"]["threads"]
    asked = {"form": form, "nx": 64, "ny": 64, "nz": 64, "steps": 16}
    words = [word for key, value in asked.items() for word in (f"--{key}", str(value))]
    cells = made("cells", {"ranks": parts}, [1.61, 1.62, 1.63, 1.64, 1.65], unit="Gcell/s")
    raw |= {
        "program": "stencil_forms",
        "command": ["stencil_forms", *words],
        "parameters": {**asked, "parts": parts, "repetitions": 5, "warmup_seconds": 0.2, "inject_fault": "none"},
        "metrics": [{**cells, "id": f"cells.ranks{parts}", "clock": "host"}],
        "path": {"form": form},
    }
    raw["limits"] = {metric["id"]: {"unknown": "stencil compares its cells with a copy"} for metric in raw["metrics"]}
    said = ("9 steps of a small grid against one step at a time", "every cell one step after those before")
    checks = [{"what": f"{what}, bit for bit", "error": 0, "tolerance": 0, "passed": True} for what in said]
    raw["verification"] = {"passed": True, "checks": checks}
    request = replace(
        base.request,
        program="stencil_forms",
        subjects=("ranks",),
        metrics=None,
        parameters=asked,
        arguments=tuple(words),
    )
    run = replace(base, name=f"stencil_forms {form}", text=json.dumps(raw), request=request)
    return replace(run, verdict=run.judged(run.raw()).verdict)


@dataclass(frozen=True)
class FormLie(Lie):
    """A lie about a formulation of the stencil: `of` is its name."""

    def told(self) -> Judgement:
        run = forms(self.of)
        raw = run.raw()
        self.change(raw)
        return run.judged(raw)


def impossible() -> Iterator[Lie]:
    """What no machine exceeds, and what follows from the parts or the notes of the same run."""
    for of in (
        "overlap",
        "overlap_host",
        "stream_host",
        "migration",
        "memcopy",
        "daxpy",
        "access_patterns",
        "transpose",
    ):
        yield Lie(of, "the first repetition left out", "repetitions|samples", chosen_repetitions)
    for of in ("hpl", "hpl_mxp", "hpl_large"):
        for factor in (0.7, 2.0):
            yield Lie(of, f"phases faster x{factor}", "phase", rated("phase", factor=factor))
    yield Lie("hpl_mxp", "no refinement", "refinements", samples("refinements", lambda values: [0.0] * len(values)))
    yield Lie("gemm", "the first proposal is faster than itself", "over_first", samples("over_first", lambda _: [1.3]))
    yield Lie(
        "gemm", "more tried than proposed", "number 3 of 2", noted("algorithm.", "", "number 3 of 2 proposed, 2 tried")
    )
    yield Lie("migration", "a new ramp", "new_ramp", samples("new_ramp", lambda values: [1.0] * len(values)))
    stayed = "host 100 %, device 0 % -> host 100 %, device 0 %"
    for of in ("migration", "access_patterns"):
        yield Lie(of, "pages that stayed on the host", "pages", noted("pages.", "", stayed))
    for factor in (0.5, 2.0):
        yield Lie("storage_map", f"adaptive_over_best x{factor}", "adaptive_over_best",
                  samples("adaptive_over_best", times(factor)))  # fmt: skip
    yield Lie("transfer", "a copy in no time", "htod_latency", rated("htod_latency", factor=1e3))
    yield Lie("mpi_p2p_host", "a message in no time", "latency", rated("latency", factor=1e3))
    yield Lie("osu", "a message in no time", "osu_latency", rated("osu_latency", factor=1e3))
    for of in ("stream_host", "gemm_host", "hpl_host"):
        names = {"gemm_host": ("gemm",), "hpl_host": ("hpl", "dgemm")}.get(of, ())
        yield Lie(
            of,
            "a host of another century",
            "hosts of this kind",
            rated(*names, factor=3000 if of == "gemm_host" else 300),
        )
    yield Lie("hpcg", "an official time of two seconds", "official_time", put("path.official_time", "yes"))
    for part in ("duration", "seconds", "joules"):
        yield Lie("hpl_mxp", f"energy of a week: {part}", part, noted("energy.", f".{part}", lambda value: 1e5 * value))
    whole = both(*(noted("energy.", f".{part}", lambda v: 1e5 * v) for part in ("duration", "seconds", "joules")))
    yield Lie("hpl_mxp", "energy of a week", "duration", whole)
    for of in ("data_loading", "data_loading_host"):
        for name in ("rate", "gain", "best"):
            yield Lie(of, f"{name} x2", name, samples(name, times(2.0)))
    yield Lie("data_loading", "no waiting", "waits", samples("waits", lambda values: [0.0] * len(values)))
    for form, name, names, change in (
        ("openmp", "another form", "path form", put("path.form", "sequential")),
        ("openmp", "parts of another run", "ranks|parts", put("parameters.parts", 4096)),
        ("sequential", "parts of another run", "parts", put("parameters.parts", 7)),
        ("openmp", "threads of another run", "parts|thread", put("placement.threads", 1)),
    ):
        yield FormLie(form, f"{form}: {name}", names, change)


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
    yield Lie("stream_two", "slower links", "nvlink_gbs_per_link is 20;", put("devices.0.nvlink_gbs_per_link", 20.0))
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
    yield from impossible()


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
        ("mpi_p2p_host", "a disturbed point of a sweep", of_large("latency", 1e-2)),
        ("osu", "a disturbed point of a sweep", of_large("osu_latency", 300)),
        ("mpi_p2p_host", "slow collectives", rated("allreduce", "alltoall", "bcast", factor=0.1)),
        ("transfer", "fast small copies", rated("htod_latency", "dtoh_latency", factor=10)),
        ("gemm_host", "a host with matrix units", rated("gemm", factor=2)),
        ("stream_host", "a host with stacked memory", rated(factor=4)),
        ("access_patterns", "pages that moved later", noted(
            "pages.", "", "host 100 %, device 0 % -> host 1 %, device 99 %")),
        ("stream", "as many readings as fit", health(0, samples=60)),
        ("stream_openacc", "a device of little memory", put("parameters.array_bytes", 2**30)),
        ("stream_host", "a cache that is unknown", put("host.last_level_cache_bytes", None)),
        ("daxpy", "a smaller cache by its rounding", put("host.last_level_cache_bytes", lambda value: value + 1)),
    )  # fmt: skip
    yield from honest.altered(changes)
    for form in ("openmp", "sequential"):
        yield f"stencil_forms: {form}", forms(form).verdict, "RECORDED"
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
