"""Values that were changed alone where others of the same result imply them, limits that their own basis does not give,
and facts of host and cards that the job script read otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tenken.model.job import CardReading, HostReading, JobAccount
from tenken.model.request import Request
from tests.lies import honest
from tests.lies.lie import Change, Lie, both, each, health, put, samples, times

#: Of which run, metrics that follow from others of it.
DERIVED = (
    ("nccl", ("all_reduce_time", "all_gather_time", "sendrecv_time")),
    ("p2p", ("peer_time", "read_time", "write_time", "driver_staged_time", "host_staged_time")),
    ("transpose", ("speedup", "kernel_ratio", "htod_speedup", "dtoh_speedup")),
    ("hpcg", ("raw", "spmv", "mg")),
    ("hpcg_gpus", ("raw", "spmv", "mg")),
    ("hpcg_ranks", ("raw", "spmv", "mg")),
    ("stencil_gpus", ("efficiency", "gain", "share")),
    ("overlap", ("snapshot_cost", "hidden", "gain")),
    ("overlap_host", ("snapshot_cost", "hidden", "gain")),
    ("storage_map", ("best_write", "best_write_synced", "best_read_cold", "best_read_cached")),
    ("hpl_mxp", ("per_watt",)),
    ("access_patterns", ("relative", "ramp", "before", "plateau")),
    ("migration", ("ramp", "plateau")),
    ("transpose", ("total", "transfer_growth_ratio")),
    ("spmv", ("own_over_vendor",)),
    ("himeno", ("behind_explicit",)),
    ("hpcg", ("of_dot", "iterations")),
    ("hpl", ("residual",)),
    ("hpl_mxp", ("residual", "factor_error", "small_share", "energy", "power")),
    ("snapshot_io", ("write_hyperslab_over_asis", "read_hyperslab_over_asis")),
)
#: Of which run, metrics of which two samples change places: every statistic stays.
EXCHANGED = (
    ("overlap", "gain"), ("overlap_host", "snapshot_cost"), ("transpose", "total"), ("stencil_gpus", "share"),
    ("snapshot_io", "write_hyperslab_over_asis"), ("storage_map", "adaptive_over_map"),
)  # fmt: skip
#: Of which run, metrics whose limit is formed from something else of it.
LIMITED = (
    ("stream", "triad"), ("memcopy", "kernel"), ("transfer", "htod_pinned"), ("transfer", "both_pinned"),
    ("transfer", "dtod"), ("migration", "gpu_first"), ("himeno", "total"), ("himeno", "iteration"), ("hpl", "hpl"),
    ("hpl_mxp", "hpl_mxp"), ("nccl", "all_reduce"), ("nccl", "sendrecv"), ("mpi_p2p", "bandwidth"),
    ("mpi_p2p", "bidirectional"), ("mpi_p2p", "peer_copy"), ("p2p", "both_ways"), ("p2p", "host_staged"),
    ("storage_map_gpu", "read_cached"), ("snapshot_io", "read"), ("transpose", "tile_bandwidth"), ("gemm", "of_best"),
    ("stencil_gpus", "cells"), ("stencil", "alone"), ("access_patterns", "plateau"), ("spmv", "spmv"),
)  # fmt: skip


#: Of which run, metrics that one clock times.
CLOCKED = (
    ("stream", "triad"), ("stream_host", "triad"), ("memcopy", "memcpy"), ("hpl", "hpl"), ("hpl", "dgemm"),
    ("hpcg", "dot"), ("hpcg_ranks", "dot"), ("hpcg_gpus", "dot"), ("stencil_gpus", "cells"), ("stencil_host", "cells"),
    ("transfer", "htod_pinned"), ("nccl", "all_reduce"), ("p2p", "peer"), ("gemm", "gemm"), ("migration", "plateau"),
)  # fmt: skip
#: Of which run, parameters that are neither its default nor asked for.
UNASKED = (
    ("hpcg", "threads", 64), ("hpcg", "graph", "off"), ("hpcg", "npx", 2), ("hpcg", "unroll", 1), ("hpl", "taper", 0),
    ("hpl", "algorithm", "none"), ("hpl", "few_rows", 1), ("hpl", "panel", "library"), ("hpl_mxp", "taper", 0),
    ("hpl_mxp", "panel", "fp32"), ("hpl_mxp", "algorithms", "first"), ("stencil", "temporal_block", 8),
    ("stencil_gpus", "patience_seconds", 1), ("p2p", "chunk_buffers", 1), ("nccl", "inject_fault", "element"),
)  # fmt: skip


def limit(name: str, change: Any, field: str = "value") -> Change:
    """A field of the limits of all metrics of a name, where they have a value."""

    def spoil(raw: Any) -> None:
        idents = [metric["id"] for metric in raw["metrics"] if metric["name"] == name]
        found = [raw["limits"][ident] for ident in idents if raw["limits"][ident].get("value") is not None]
        assert found, name
        for one in found:
            one[field] = change(one[field]) if callable(change) else change

    return spoil


def read(of: str, **changed: Any) -> JobAccount:
    """The account of a run's job whose script read host and cards: as the result says, but for `changed`."""
    return honest.account(honest.run(of), **changed)


def untouched(raw: Any) -> None:
    """The result is as the program wrote it: the job script read something else."""


def exchanged(values: list[float]) -> list[float]:
    """Two samples that differ in each other's place."""
    low, high = values.index(min(values)), values.index(max(values))
    values[low], values[high] = values[high], values[low]
    return values


def lies() -> Iterator[Lie]:
    for of, names in DERIVED:
        for name in names:
            for factor in (0.7, 1.3):
                yield Lie(of, f"{name} x{factor}", name, samples(name, times(factor)))
    # below the physical limit
    yield Lie("transfer", "both directions x1.2", "each alone, give", samples("both_pinned", times(1.2)))
    for of, name in EXCHANGED:
        yield Lie(of, f"two samples of {name} exchanged", name, samples(name, exchanged))
    for of, name in LIMITED:
        if of in honest.CHOSEN:
            for factor in (0.05, 10.0):
                yield Lie(of, f"limit of {name} x{factor}", "limit", limit(name, lambda value, f=factor: f * value))
            yield Lie(of, f"limit of {name} by another basis", "basis", limit(name, "measured: by others", "basis"))
            yield Lie(of, f"limit of {name} without a unit", "unit of its limit", limit(name, "", "unit"))
    for of in ("stream", "daxpy", "hpl"):
        for name, value in (
            ("architecture", "aarch64"), ("kernel", "5.14.0"), ("logical_cpus", 7), ("memory_bytes", 2**33),
            ("cpu", "AMD_EPYC_9654"),
        ):  # fmt: skip
            job = {"job": read(of, **{name: value})}
            yield Lie(of, f"the script read another {name}", f"host.{name} is", untouched, beside=job)
    for of in ("stream", "p2p"):
        for name, value in (
            ("driver", "570.86.10"), ("vbios", "96.00.00.00.01"), ("pci_bus_id", "00000000:7F:00.0"),
            ("mig_enabled", True), ("ecc_enabled", False), ("serial", "1654922012345"), ("persistence_mode", False),
        ):  # fmt: skip
            job = {"job": read(of, **{name: value})}
            yield Lie(of, f"nvidia-smi tells another {name}", f"has {name}", untouched, beside=job)
    yield Lie("nccl", "links that health does not tell", "nvlinks_active is missing", links(None))
    yield Lie("p2p", "links that health does not tell", "nvlinks_active is missing", links(None))
    yield from each(
        "gemm",
        ("a reason dropped", "sm_clock_mhz fell", health(0, "worst", sm_clock_mhz=900, reasons=[])),
        ("a tenth of the clock", "sm_clock_mhz fell", health(0, "worst", sm_clock_mhz=198, reasons=[])),
        ("power of four cards", "power_w .* is 2800", both(
            put("devices.0.power_limit_w", 700), health(0, "worst", power_w=2800))),
        ("power of four cards before", "power_w before is 2800", both(
            put("devices.0.power_limit_w", 700), health(0, "before", power_w=2800))),
        ("built for a later GPU", "cuda_architectures", put("build.cuda_architectures", "100")),
        ("built for no GPU", "cuda_architectures", put("build.cuda_architectures", "sm_90")),
        ("a compiler of another CUDA", "cuda_compiler", put("build.cuda_compiler", "NVIDIA 11.8.89")),
        ("a compiler without a version", "cuda_compiler", put("build.cuda_compiler", "nvcc")),
        ("a runtime beyond its driver", "cuda_runtime is 14.0", put("devices.0.cuda_runtime", "14.0")),
        ("a driver that is no version", "driver is", put("devices.0.driver", "580.159.04x")),
        ("a bus that is none", "pci_bus_id is", put("devices.0.pci_bus_id", "01:00")),
        ("page tables without access", "pageable_memory_access", both(
            put("devices.0.pageable_uses_host_page_tables", True), put("devices.0.pageable_memory_access", False))),
        ("concurrent, and not managed", "managed_memory", put("devices.0.managed_memory", False)),
        ("a cache of ten", "l2_bytes", put("devices.0.l2_bytes", lambda value: 10 * value)),
        ("half of a cache", "l2_bytes", put("devices.0.l2_bytes", lambda value: value // 2)),
        ("a third of the multiprocessors", "multiprocessors 44", put("devices.0.multiprocessors", 44)),
        ("another highest clock", "sm_clock_max_mhz 1000", put("devices.0.sm_clock_max_mhz", 1000)),
        ("bound in a way that OpenMP has not", "placement.binding", put("placement.binding", "closer")),
        ("more places than CPUs", "placement.places", put("placement.places", "cores (4096 places)")),
    )  # fmt: skip
    for of, name in CLOCKED:
        yield Lie(of, f"{name} by the other clock", "clock is", other_clock(name), beside={"request": today(of)})
    for of, name, value in UNASKED:
        yield Lie(of, f"{name} that nobody asked for", name, put(f"parameters.{name}", value))
    for part in ("joules", "watts", "duration"):
        yield Lie("hpl_mxp", f"energy with other {part}", "watts and duration give", energy(part))


def links(value: Any) -> Change:
    """What every reading of health tells of the first GPU's NVLinks."""
    return both(*(health(0, when, nvlinks_active=value) for when in ("before", "worst", "after")))


def energy(part: str) -> Change:
    """A part of the first reading of energy, halved."""

    def spoil(raw: Any) -> None:
        key = next(key for key in raw["path"] if key.startswith("energy.") and key.endswith(f".{part}"))
        raw["path"][key] /= 2

    return spoil


def twins() -> Iterator[tuple[str, str, str]]:
    """Honest runs under other circumstances: name, verdict, and the verdict of the run itself."""
    for of in ("stream", "p2p", "daxpy", "hpl"):
        run = honest.run(of)
        raw = run.raw()
        short = (raw["devices"] or [{"pci_bus_id": ""}])[0]["pci_bus_id"].upper().removeprefix("0000")
        for name, job in (
            ("the script read the same", read(of)),
            ("the script could read nothing", replace(run.job, host=HostReading(), cards=())),
            ("a bus in short form", read(of, **({} if of == "p2p" else {"pci_bus_id": short}))),
            ("a VBIOS in small letters", read(of, vbios=((raw["devices"] or [{}])[0].get("vbios") or "").lower())),
            ("modes that nvidia-smi does not know", read(of, mig_enabled=None, ecc_enabled=None)),
            ("a board without a serial number", read(of, serial="", persistence_mode=None)),
            ("a container with a little less memory", read(of, memory_bytes=int(1.01 * raw["host"]["memory_bytes"]))),
            ("more blanks in the name of the CPU", read(of, cpu=raw["host"]["cpu"].replace(" ", "__") + "_")),
            ("a script on another node", replace(read(of, kernel="5.14.0"), node="node0")),
            ("a card that the run did not use", replace(read(of), cards=(CardReading("GPU-0", "1.0"),))),
        ):
            yield f"{of}: {name}", run.judged(raw, job=job).verdict, run.verdict
    run = honest.run("stream")
    raw = run.raw()
    raw["health"] = {"available": False, "reason": "no libnvidia-ml.so.1", "devices": []}
    raw["devices"][0] |= {name: None for name in ("driver", "vbios", "mig_enabled", "serial", "persistence_mode")}
    known = read("stream", serial="1654922012345", persistence_mode=True)
    yield "stream: a container without NVML", run.judged(raw, job=known).verdict, "INVALID"
    run = honest.run("gemm")
    for name, change in (
        ("a low clock by the power limit", health(0, "worst", sm_clock_mhz=900, reasons=["sw_power_cap"])),
        ("a clock that was set", health(0, "worst", sm_clock_mhz=900, reasons=["applications_clocks_setting"])),
        ("a clock a little lower", health(0, "worst", sm_clock_mhz=1500, reasons=[])),
        ("power at its limit", both(put("devices.0.power_limit_w", 700), health(0, "worst", power_w=712.5))),
        ("built for several GPUs", put("build.cuda_architectures", "80-real;90a;100-virtual")),
        ("built for the GPU that is there", put("build.cuda_architectures", "native")),
        ("a driver of another release", put("devices.0.driver", "550.54.15")),
        ("a runtime older than its driver", both(
            put("devices.0.cuda_runtime", "12.8"), put("build.cuda_compiler", "NVIDIA 12.8.93"))),
        ("no VBIOS told", put("devices.0.vbios", None)),
        ("memory of pages that the host has", put("devices.0.pageable_memory_access", True)),
    ):  # fmt: skip
        raw = run.raw()
        change(raw)
        yield f"gemm: {name}", run.judged(raw).verdict, run.verdict


def today(of: str) -> Request:
    """The request of a run as checks of today ask, with the sections that programs of before did not write."""
    return replace(honest.run(of).request, sections=("locks", "load"))


def other_clock(name: str) -> Change:
    """The metrics of a name by the other clock."""

    def spoil(raw: Any) -> None:
        honest.of_today(raw)
        found = [metric for metric in raw["metrics"] if metric["name"] == name]
        assert found, name
        for metric in found:
            metric["clock"] = {"device": "host", "host": "device"}[metric["clock"]]

    return spoil
