"""Faults of hardware, driver, launcher, operator and program, each planted in a kept run and named by its refusal; and
reports of healthy machines that are not faults."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import conditions, verdict
from tenken.model import catalogue, result
from tenken.model.job import HostReading
from tenken.model.judgement import DATA_SHEET, DEVICE, Limit
from tenken.model.machine import Machine
from tests.support import honest
from tests.support.planted import (
    Change,
    Fault,
    both,
    check,
    drop,
    first,
    health,
    put,
    remade,
    samples,
    scaled,
    seen,
    without,
)

#: What a machine with an unknown GPU is judged by: only what the result itself lists.
BARE = {"machine": Machine()}


def of_metric(name: str, **fields: Any) -> Change:
    """Fields of the first metric of a name, as a program with an error or a truncated one writes them."""

    def change(raw: Any) -> None:
        metric = next(m for m in raw["metrics"] if m["name"] == name)
        metric.update({key: value(metric[key]) if callable(value) else value for key, value in fields.items()})

    return change


def half(name: str) -> Change:
    """The larger half of a sweep is missing."""

    def change(raw: Any) -> None:
        sizes = sorted({m["at"]["bytes"] for m in raw["metrics"] if m["name"] == name})
        drop(lambda m: m.get("at", {}).get("bytes", 0) >= sizes[len(sizes) // 2])(raw)

    return change


def one_more(**at: Any) -> Change:
    """A point that no one requested."""

    def change(raw: Any) -> None:
        metric = copy.deepcopy(next(m for m in raw["metrics"] if set(at) <= set(m.get("at", {}))))
        metric["at"].update(at)
        metric["id"] += ".more"
        raw["metrics"].append(metric)
        raw["limits"][metric["id"]] = {"unknown": "none"}

    return change


def of_gpu(gpu: int, *names: str) -> Change:
    return drop(lambda m: m["subject"].get("gpu") == gpu and (not names or m["name"] in names))


def unverified(words: str) -> Change:
    def change(raw: Any) -> None:
        checks = raw["verification"]["checks"]
        raw["verification"]["checks"] = [c for c in checks if words not in c["what"]]
        assert len(raw["verification"]["checks"]) < len(checks), words

    return change


def limit(name: str, factor: float) -> Change:
    def change(raw: Any) -> None:
        for metric in raw["metrics"]:
            if metric["name"] == name and "value" in raw["limits"][metric["id"]]:
                raw["limits"][metric["id"]]["value"] *= factor

    return change


def host_clock(factor: float) -> Change:
    def change(raw: Any) -> None:
        for key in raw["path"]:
            if key.startswith("host_clock_gbs."):
                raw["path"][key] *= factor

    return change


def copied(raw: Any) -> None:
    """The samples of one metric in place of another's of the same unit."""
    one = raw["metrics"][0]
    other = next(m for m in raw["metrics"][1:] if m["unit"] == one["unit"] and m["direction"] == one["direction"])
    for key in ("samples", "value", "best", "median", "p5", "p95", "count"):
        other[key] = one[key]


def pages_stayed(raw: Any) -> None:
    """Pages that never left the host, and rates of the GPU's own memory."""
    for key in raw["path"]:
        if key.startswith("pages.gpu0") and key.endswith((".source", ".destination")):
            raw["path"][key] = "host 100 %, device 0 % -> host 100 %, device 0 %"


def on_host(raw: Any) -> None:
    """OpenACC that found no device: the compiler runs the loops on the host."""
    raw["path"]["openacc_device"] = "host"
    for metric in raw["metrics"]:
        metric["subject"], metric["id"] = {"host": 0}, metric["id"].replace(".gpu0", ".host")
    raw["limits"] = {key.replace(".gpu0", ".host"): {"unknown": "none"} for key in raw["limits"]}


def always(**fields: Any) -> Change:
    """Health of GPU 0 before, during and after the timed part."""
    return both(*(health(0, part, **fields) for part in ("before", "worst", "after")))


def one_core(raw: Any) -> None:
    raw["placement"].update(allowed_cpus=[0], allowed_cores=1, thread_cpus=[0] * raw["placement"]["threads"])


def table(of: str, *faults: tuple[str, str, Change]) -> list[Fault]:
    """Faults in one run: name, what the refusal names, change."""
    return [Fault(of, *one) for one in faults]


#: Something requested is missing, or something else was reported.
ASKED = [
    *[
        Fault(of, f"metric {name} does not come", name, drop(lambda m, name=name: m["name"] == name))
        for of, name in (
            ("access_patterns", "device_by_gpu"), ("daxpy", "daxpy"), ("gemm", "gemm"), ("himeno", "iteration"),
            ("hpcg", "raw"), ("hpl", "residual"), ("hpl_mxp", "factor_error"), ("memcopy", "memcpy"),
            ("migration", "ramp"), ("mpi_p2p_host", "latency"), ("nccl", "sendrecv"), ("overlap_host", "gain"),
            ("snapshot_host", "read"), ("spmv_host", "best"), ("stencil", "copy"), ("storage_map", "adaptive"),
            ("stream", "triad"), ("stream", "memcpy"), ("transfer", "htod_pinned"), ("osu", "osu_bandwidth"),
            ("xhpcg", "rating"),
        )
    ],
    *[
        Fault(of, f"the first point of {name} does not come", says, drop(first(name)))
        for of, name, says in (
            ("access_patterns", "plateau", "plateau.*pattern"), ("hpl", "phase", "part"),
            ("migration", "plateau", "plateau.*phase"), ("mpi_p2p_host", "bcast", "bcast"),
            ("nccl", "all_reduce", "all_reduce"), ("transfer", "htod_latency", "htod_latency"),
            ("transpose", "kernel", "kernel"), ("p2p", "peer_time", "peer"), ("stencil_gpus", "cells", "cells"),
        )
    ],
    Fault("nccl", "half a sweep", "bytes", half("all_reduce")),
    Fault("p2p", "half a sweep", "bytes", half("peer_by_size")),
    Fault("nccl", "a size that nobody asked for", "not requested", one_more(bytes=2048)),
    Fault("mpi_p2p_host", "buffers that nobody asked for", "buffers", one_more(buffers="managed")),
    Fault("spmv_two", "one GPU of two", "GPU 1|gpu1", of_gpu(1, "spmv", "prepare", "best")),
    Fault("stream_two", "no triad of GPU 1", "triad of GPU 1", of_gpu(1, "triad")),
    Fault("stream_two", "one by one", "at_once", put("parameters.at_once", False)),
    *[
        Fault(of, f"parameter {key} is {value}", key, put(f"parameters.{key}", value))
        for of, key, value in (
            ("access_patterns", "placement", "explicit"), ("gemm", "data", "zeros"), ("gemm", "repetitions", 1),
            ("himeno", "memory", "explicit"), ("hpcg", "nx", 16), ("hpl", "look_ahead", "off"),
            ("mpi_p2p", "buffers", "host"), ("mpi_p2p_host", "window", 1), ("nccl", "gpus", "0"),
            ("snapshot_host", "cold", True), ("spmv_host", "precision", "single"), ("stencil", "points", 27),
            ("stream", "array_bytes", 1024), ("stream", "backend", "host"), ("xhpl", "n", 100),
            ("nccl_tests", "iterations", 1), ("stream", "inject_fault", "bit"), ("hpl", "inject_fault", "bit"),
        )
    ],
    Fault("hpl", "arguments that a wrapper dropped", "command", put("command", lambda c: [*c[:-4], "--n", "64"])),
    Fault("hpcg_ranks", "a launcher of another MPI: one rank", "the launcher does not", put("placement.ranks", 1)),
    Fault("xhpl", "one rank of four", "ranks", put("placement.ranks", 1)),
    Fault("stream", "nothing at all", "missing", both(put("metrics", []), put("limits", {}))),
    Fault("stream_openacc", "OpenACC on the host", "GPU|gpu", on_host),
    Fault("gemm", "FP64 emulated by a variable of the environment", "fp64_emulation", put("path.fp64_emulation", "on")),
]  # fmt: skip

#: GPUs at fault, or in a wrong state while something is timed.
HEALTH = [
    *table(
        "stream",
        ("GPU not watched", "samples is 0", health(samples=0)),
        ("no GPU in health", "GPU 0: health", put("health.devices", [])),
        ("health of another GPU", "GPU 1: health contains it", put("health.devices.0.index", 1)),
        ("memory clock low", "memory clock 1593", health(0, "worst", memory_clock_mhz=1593)),
        ("memory clock 0", "memory clock 0 MHz", health(0, "worst", memory_clock_mhz=0)),
        ("an uncorrected error", "uncorrected ECC", health(0, "after", ecc_uncorrected=1)),
        ("five corrected errors", "corrected ECC", health(0, "after", ecc_corrected=5)),
        ("driver reloaded", "ecc_uncorrected went from 3 back to 0", health(0, "before", ecc_uncorrected=3)),
        ("thermal slowdown", "hw_thermal_slowdown", health(0, "worst", reasons=["hw_thermal_slowdown"])),
        ("software thermal", "sw_thermal", health(0, "worst", reasons=["gpu_idle", "sw_thermal_slowdown"])),
        ("clock low without a reason", "sm_clock_mhz fell", health(0, "worst", sm_clock_mhz=900, reasons=[])),
        ("clock of an idle GPU", "sm_clock_mhz", health(0, "worst", sm_clock_mhz=150, reasons=["sw_power_cap"])),
        ("double-bit error", "hardware: XID 48", health(xids=[48])),
        ("off the bus", "hardware: XID 79", health(xids=[79])),
        ("uncontained", "hardware: XID 95", health(xids=[13, 95])),
        ("page fault", "program: XID 31", health(xids=[31])),
        ("an XID of no list", "XID 999", health(xids=[999])),
        ("remapping pending", "remapping_pending", health(0, "after", remapping_pending=True)),
        ("remapping failed", "remapping_failed", health(0, "before", remapping_failed=True)),
        ("a row more, uncorrectable", "rows in remapped", health(0, "after", remapped_rows_uncorrectable=1)),
        ("a row remapped", "XID 63 during the run", health(xids=[63])),
        ("a row more, correctable", "rows in remapped", health(0, "after", remapped_rows_correctable=1)),
        ("others on the GPU", "other processes", health(0, "worst", other_processes=3)),
        ("70 GB held by others", "other processes", always(other_processes=1, memory_used_bytes=75_000_000_000)),
    ),
    *[
        Fault(of, "an idle GPU", "was idle during the timed part", always(utilization_percent=0, power_w=75.0))
        for of in ("stream", "gemm", "himeno", "transfer")
    ],
    Fault("stream", "an idle GPU, not for long", "was idle during the timed part", both(
        always(utilization_percent=0, power_w=75.0, memory_used_bytes=10**9), health(seconds=0.15))),
    Fault("stream_two", "17 NVLinks of GPU 1", "GPU 1: 17 NVLinks are active, 18 of its peers: hardware", both(
        put("devices.0.nvlinks_active", 18), put("devices.1.nvlinks_active", 17))),
    Fault("storage_map", "a cold read from memory", "a cold read comes from the disk", scaled("best_read_cold", 30)),
    Fault("storage_map", "nothing is synced", "what is synced reaches the disk", scaled("best_write_synced", 4)),
    Fault("stream_host", "all threads on one CPU", "threads ran on 1 CPUs", put(
        "placement.thread_cpus", lambda c: [c[0]] * len(c))),
    Fault("stream_host", "OMP_NUM_THREADS=1", "placement.threads: 1; ", both(
        put("placement.threads", 1), put("placement.thread_cpus", lambda c: c[:1]))),
    Fault("transfer", "PCIe generation 1", "PCIe generation 1", health(0, "worst", pcie_generation=1)),
    Fault("transfer", "PCIe width 4", "PCIe width 4", health(0, "worst", pcie_width=4)),
    Fault("nccl", "a link went down", "NVLinks", health(1, "worst", nvlinks_active=17)),
    Fault("nccl", "GPU 1 throttled", "GPU 1: throttled", health(1, "worst", reasons=["hw_power_brake_slowdown"])),
    Fault("hpcg_gpus", "GPU 1 has errors", "GPU 1", health(1, "after", ecc_uncorrected=2)),
    Fault("p2p", "one GPU watched of two", "GPU 1: health", put("health.devices", lambda d: d[:1])),
]  # fmt: skip

#: Results that are wrong, or not verified.
VERIFIED = [
    *[Fault(of, f"{words} is not verified", "verif", unverified(words)) for of,
        words in (("stream_two", "gpu1"), ("spmv_two", "gpu1"), ("hpl", "repetition 2"), ("osu", "osu_bw"))],
    *[
        Fault(of, "verified nothing", "verif", put("verification.checks", []))
        for of in ("daxpy", "hpcg", "nccl", "mpi_p2p_host", "xhpl", "osu")
    ],
    *[
        Fault(of, "the last verification is missing", "verification", lambda raw: raw["verification"]["checks"].pop())
        for of in ("access_patterns", "gemm", "himeno", "hpl_mxp", "snapshot_host", "transfer", "transpose", "xhpcg")
    ],
    *table("hpl", ("a wrong result", "tolerance|verification", check(1, error=1e6, passed=False)),
        ("not a number", "failed", check(1, error=None)),
        ("an error within a tolerance of its own", "tolerance", check(-1, error=1e7, tolerance=1e9)),
        ("of another problem", "N 64|verif", check(1, what="N 64, NB 32, 1x1, repetition 2: ||Ax-b||")),
        ("marked as failed", "failed", put("verification.passed", False))),
]  # fmt: skip

#: Results of another time, node, GPU, build or program.
IDENTITY = [
    *[
        fault
        for of in ("stream", "mpi_p2p_host", "nccl", "osu", "xhpl")
        for fault in table(
            of,
            ("another node", "host.name", put("host.name", "node2")),
            ("another attempt", "token", put("token", "0" * 32)),
            ("of a program that repeats no token", "token", put("token", None)),
            ("yesterday", "started|finished", both(
                put("started", "2026-11-01T00:00:00Z"), put("finished", "2026-11-01T00:00:10Z"))),
        )
    ],
    Fault("mpi_p2p_host", "a rank elsewhere", "node9", put("placement.nodes", ["node1", "node1", "node1", "node9"])),
    *table(
        "stream",
        ("started 2099", "started", put("started", "2099-01-01T00:00:00Z")),
        ("finished before it started", "finished", put("finished", "2026-11-02T00:00:00Z")),
        ("no time", "started", put("started", "")),
        ("a stale build", "version", put("version", "deadbeef")),
        ("debug build", "build.type", put("build.type", "Debug")),
        ("-O0", "-O0", put("build.flags", "-O3 -O0")),
        ("no optimisation", "build.flags", put("build.flags", "")),
        ("address sanitizer", "-fsanitize", put("build.flags", "-O3 -fsanitize=address")),
        ("coverage", "--coverage", put("build.flags", "-O2 --coverage")),
        ("another program", "program", put("program", "daxpy")),
        ("an A100", "GPU 0 has name", put("devices.0.name", "NVIDIA A100-SXM4-80GB")),
        ("another capability", "compute_capability", put("devices.0.compute_capability", "8.0")),
        ("half the memory", "memory_bytes", put("devices.0.memory_bytes", 70_000_000_000)),
        ("a card with half its bus", "memory_bus_bits", put("devices.0.memory_bus_bits", 3072)),
        ("a third of its multiprocessors", "multiprocessors 44", put("devices.0.multiprocessors", 44)),
        ("half of its cache", "l2_bytes", put("devices.0.l2_bytes", lambda value: value // 2)),
        ("another card than the job's", "uuid", put("devices.0.uuid", "GPU-ffffffff-0000-0000-0000-000000000009")),
    ),
    *table(
        "stream_two",
        ("both ranks on one GPU", "UUID", put("devices.1.uuid", "GPU-00000000-0000-0000-0000-000000000001")),
        ("one index twice", "listed twice", put("devices.1.index", 0)),
        ("the second is an A100", "GPU 1 has name", put("devices.1.name", "NVIDIA A100-SXM4-80GB")),
    ),
    Fault("stream_two", "both ranks on one GPU without UUIDs", "PCI address", both(
        put("devices.0.pci_bus_id", "00000000:1B:00.0"), put("devices.1.pci_bus_id", "00000000:1b:00.0"))),
]  # fmt: skip

#: Figures that were not measured, or are impossible.
FIGURES = [
    *[
        fault
        for of, name in (("stream", "triad"), ("nccl", "all_reduce"), ("mpi_p2p_host", "latency"), ("daxpy", "daxpy"))
        for fault in table(
            of,
            (f"{name} constant: a stuck timer", "were not measured", samples(name, lambda v: [v[0]] * len(v))),
            (f"{name} of a buffer written twice", "are repeated", samples(name, lambda v: v[: len(v) // 2] * 2)),
            (f"{name} of one sample", "samples", samples(name, lambda v: v[:1])),
            (f"{name} is 0", "must be above 0", scaled(name, 0)),
            (f"{name} is not finite", "finite|NaN|JSON|number", of_metric(name, value=float("nan"))),
            (f"{name} in another unit", "unit", of_metric(name, unit="MiB/s")),
        )
    ],
    *[Fault(of, "samples of another", "samples equal those of", copied) for of in ("stream", "nccl", "transfer")],
    Fault("hpl", "milliseconds for seconds", "samples take", scaled("phase", 1e3)),
    Fault("p2p", "seconds for microseconds", "samples take|beyond|above", scaled("latency", 1e6)),
    *[
        Fault(of, f"{name} above what the hardware can", "beyond", scaled(name, 10))
        for of, name in (
            ("stream", "triad"), ("memcopy", "kernel"), ("transfer", "htod_pinned"), ("spmv", "dot"), ("hpl", "dgemm"),
            ("hpcg", "dot"), ("transpose", "device_copy"), ("p2p", "peer"), ("migration", "gpu_first"),
        )
    ],
    *[
        Fault(of, f"{name} at half its rate", f"{name}.*( is below|at least)", scaled(name, 0.5))
        for of, name in (
            ("stream", "triad"), ("memcopy", "kernel"), ("transfer", "htod_pinned"), ("spmv", "dot"),
            ("hpcg", "dot"), ("transpose", "device_copy"), ("p2p", "peer"), ("hpl", "dgemm"),
        )
    ],
    *[
        Fault(of, f"{name} x10 on a machine of no known card", "beyond", scaled(name, 10), BARE)
        for of, name in (("stream", "triad"), ("memcopy", "memcpy"), ("access_patterns", "device_copy"))
    ],
    Fault("stream", "GPU reports half its memory clock, and reaches it", "below", both(
        limit("triad", 0.5), scaled("triad", 0.5))),
    Fault("transfer", "one direction disturbed", "both directions at once against", scaled("both_pinned", 1.2)),
    Fault("overlap", "steps faster than they were calibrated", "steps x step time", scaled("loop", 0.5)),
    Fault("stream", "the host's clock ten times as fast", "triad.gpu0: provenance.host_clock_gbs", host_clock(10)),
    Fault("stream", "the host's clock ten times as slow", "triad.gpu0: provenance.host_clock_gbs", host_clock(0.1)),
    Fault("stream", "the device's clock at half speed", "host_clock_gbs|beyond", scaled("", 2)),
    Fault("migration", "pages that stayed on the host", "on the host", pages_stayed),
    Fault("stream_host", "arrays that the cache holds", r"array_bytes = .* four times the cache", put(
        "host.last_level_cache_bytes", lambda v: 8 * v)),
    Fault("hpl", "updates at a third", "its updates are products", lambda raw: [
        remade(m, [3 * v for v in m["samples"]])
        for m in raw["metrics"] if m["name"] == "phase" and m["at"]["part"] == "update"] and None),
    Fault("stream_host", "more threads than CPUs", "placement.threads", put("placement.threads", 100_000)),
    Fault("stream_host", "threads moved off their CPUs", "not in allowed_cpus", put("placement.thread_cpus.0", 4096)),
]  # fmt: skip

PLANTED = [*ASKED, *HEALTH, *VERIFIED, *IDENTITY, *FIGURES]


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.id)
def test_a_planted_fault_is_seen(fault: Fault) -> None:
    seen(fault.judged(), fault.says)


@pytest.mark.parametrize("name", [*honest.CHOSEN, *honest.foreign.RUNS])
def test_the_same_run_without_a_fault_is_well(name: str) -> None:
    run = honest.run(name)
    assert run.verdict in ("PASS", "RECORDED"), run.judged(run.raw()).message()


#: What healthy machines report.
HEALTHY = [
    ("stream", "a driver that reports no link to the host", health(0, "worst", pcie_width=None), ""),
    ("stream", "ECC unread before the run", health(0, "before", ecc_uncorrected=None), "does not report ecc_uncorr"),
    ("stream", "a low clock by the power limit", health(0, "worst", sm_clock_mhz=900, reasons=["sw_power_cap"]), ""),
    ("stream", "a clock a little lower", health(0, "worst", sm_clock_mhz=1500, reasons=[]), ""),
    ("stream", "a device 4 % below its data sheet", limit("triad", 0.96), "the limit is .* by data sheet"),
    ("stream", "a device 4 % above its data sheet", limit("triad", 1.04), "the limit is .* by data sheet"),
    ("stream", "a limit that only the data sheet has", lambda raw: raw["limits"].update(
        {m["id"]: {"unknown": "not reported"} for m in raw["metrics"]}), ""),
    ("stream_host", "threads whose CPU is unknown", put("placement.thread_cpus", lambda c: [-1] * len(c)), ""),
    ("stream_host", "no load and no locks of an older program", lambda raw: [
        raw.pop(key, None) for key in ("load", "locks")] and None, ""),
    ("stream", "notes in other words", lambda raw: raw["path"].update(health_reading_ms=40.0, note="x"), ""),
    ("nccl", "NCCL chooses", put("path.nvlink_multicast", "as NCCL chooses"), ""),
    ("stream", "sources with changes of one's own", put("version", lambda v: v.removesuffix("-dirty") + "-dirty"), ""),
    ("stream", "a node with its full name", put("host.name", "NODE1.site.example.org"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("of", "what", "change", "says"), HEALTHY, ids=[f"{one[0]}: {one[1]}" for one in HEALTHY])
def test_what_healthy_machines_report_is_no_fault(of: str, what: str, change: Change, says: str) -> None:
    run = honest.run(of)
    raw = run.raw()
    change(raw)
    found = run.judged(raw)
    assert found.verdict == run.verdict, found.message()
    notes = [f.message for f in found.findings if f.kind == "note"]
    assert (says == "") or any(says.split(" .* ")[0] in note for note in notes), notes


@pytest.mark.parametrize("factor", [0.96, 1.04])
def test_of_sheet_and_device_the_lower_is_the_yardstick_and_the_higher_the_ceiling(factor: float) -> None:
    run = honest.run("stream")
    raw = run.raw()
    sheet = run.machine.limits["memory", "gpu"].value or 0.0
    for metric in raw["metrics"]:
        if metric["name"] == "triad":
            raw["limits"][metric["id"]]["value"] = factor * sheet
    triad = run.judged(raw).judged["triad.gpu0"]
    assert triad.limit.value == pytest.approx(min(sheet, factor * sheet))
    assert triad.bounds[1] == pytest.approx(1.02 * max(sheet, factor * sheet))


@pytest.mark.parametrize(("name", "value", "says"), [
    ("architecture", "aarch64", "host.{} is"), ("kernel", "5.14.0", "host.{} is"), ("logical_cpus", 7, "host.{} is"),
    ("memory_bytes", 2**33, "host.{} is"), ("cpu", "AMD_EPYC_9654", "host.{} is"),
    ("driver", "570.86.10", "has {}"), ("vbios", "96.00.00.00.01", "has {}"),
    ("pci_bus_id", "00000000:7F:00.0", "has {}"), ("mig_enabled", True, "has {}"), ("ecc_enabled", False, "has {}"),
    ("serial", "1654922012345", "has {}"), ("persistence_mode", False, "has {}"),
])  # fmt: skip
def test_host_and_card_are_those_that_the_job_read(name: str, value: Any, says: str) -> None:
    run = honest.run("stream")
    seen(run.judged(run.raw(), job=honest.account(run, **{name: value})), says.format(name))
    elsewhere = replace(honest.account(run, kernel="5.14.0"), node="login1")
    assert run.judged(run.raw(), job=elsewhere).verdict == run.verdict


def test_other_words_for_the_same_host_and_card_are_no_fault() -> None:
    run = honest.run("stream")
    device, host = run.raw()["devices"][0], run.raw()["host"]
    for job in (
        honest.account(run),
        replace(run.job, host=HostReading(), cards=()),
        honest.account(run, pci_bus_id=device["pci_bus_id"].upper().removeprefix("0000")),
        honest.account(run, vbios=(device.get("vbios") or "").lower()),
        honest.account(run, mig_enabled=None, ecc_enabled=None, serial="", persistence_mode=None),
        honest.account(run, memory_bytes=int(1.01 * host["memory_bytes"])),
    ):
        found = run.judged(run.raw(), job=job)
        assert found.verdict == run.verdict, found.message()


def test_a_binding_to_fewer_cores_than_claimed_is_seen() -> None:
    run = honest.run("stream_host")
    raw = run.raw()
    one_core(raw)
    seen(run.judged(raw, request=replace(run.request, cores=2)), "bound to 1 cores")


def test_clocks_of_two_nodes_and_a_slow_file_system_are_no_fault() -> None:
    run = honest.run("stream")
    begin, end = run.job.begin or 0.0, run.job.end or 0.0
    other = replace(run.job, node="node0", nodes=frozenset({"node0", "node1"}))
    for job in (
        replace(other, begin=begin + 30, end=end - 1),
        replace(other, begin=begin - 30, end=end - 30),
        replace(run.job, begin=begin - 600, end=end + 600),
        replace(run.job, nodes=frozenset({"node1", "nid000123"})),
    ):
        assert run.judged(run.raw(), job=job).verdict == run.verdict


def test_a_machine_of_no_known_card_is_held_by_what_its_driver_reports() -> None:
    for of in ("stream", "transpose", "memcopy", "hpl"):
        run = honest.run(of)
        assert run.judged(run.raw(), **BARE).verdict == "PASS", of
    run = honest.run("stream")
    sheet = run.machine.limits["memory", "gpu"]
    assert sheet.said_by == DATA_SHEET and sheet.value is not None
    told = Limit(sheet.value, sheet.unit, "attribute: 2 x memory clock x bus width, as the driver reports them", DEVICE)
    own = replace(run.machine, limits={**run.machine.limits, ("memory", "gpu"): told})
    judged = run.judged(run.raw(), machine=own)
    assert judged.verdict == run.verdict and {one.limit.said_by for one in judged.judged.values()} == {DEVICE}


def test_a_reference_that_fits_nothing_is_said_and_decides_nothing() -> None:
    """STREAM of two GPUs at once, on a machine with references of one after the other."""
    both_gpus, one = honest.run("stream_two"), honest.run("stream")
    found = [f for f in both_gpus.judged(both_gpus.raw()).findings if f.kind == "reference"]
    assert [f.verdict for f in found] == ["RECORDED"]
    assert "no reference of copy (gpu), scale (gpu)" in found[0].message
    assert "the nearest is for at_once False (this run: True)" in found[0].message
    assert not [f for f in one.judged(one.raw()).findings if f.kind == "reference"]
    unknown = replace(both_gpus.machine, unmatched=lambda result, metric: "")
    assert both_gpus.judged(both_gpus.raw(), machine=unknown).verdict == both_gpus.verdict


def test_cards_are_found_by_what_they_are_and_points_by_their_subject() -> None:
    run = honest.run("stream_two")
    job = honest.account(run)
    cards = job.cards[::-1]
    assert run.judged(run.raw(), job=replace(job, cards=cards)).verdict == run.verdict
    other = (cards[0], replace(cards[1], serial="another"))
    seen(run.judged(run.raw(), job=replace(job, cards=other)), "GPU 0 has serial")
    points = (("copy", "host", {}),)
    seen(run.judged(run.raw(), request=replace(run.request, points=points)), "metric copy of host at  is missing")


@pytest.mark.parametrize(
    ("change", "is_note"),
    [
        (both(put("devices.0.ecc_enabled", True), health(0, "worst", ecc_corrected=None)), True),
        (both(put("devices.0.ecc_enabled", False), health(0, "worst", ecc_corrected=None)), False),
        (both(health(0, "worst", sm_clock_mhz=400, reasons=[])), True),
        (both(put("devices.0.integrated", True), health(0, "worst", sm_clock_mhz=400, reasons=[])), False),
    ],
)
def test_what_a_gpu_lacks_by_its_kind_is_not_missed(change: Change, is_note: bool) -> None:
    run = honest.run("stream")
    raw = run.raw()
    change(raw)
    said = run.judged(raw).message() + " ".join(f.message for f in run.judged(raw).findings)
    assert ("does not report ecc_corrected" in said or "sm_clock_mhz fell to 400" in said) is is_note, said


def test_a_mig_instance_is_no_card_of_the_job_and_a_whole_gpu_is() -> None:
    run = honest.run("stream")
    for mig in (True, False):
        raw = run.raw()
        raw["devices"][0].update(mig_enabled=mig, uuid="MIG-0")
        assert ("the job saw" in run.judged(raw).message()) is not mig


def test_a_run_that_gave_up_is_invalid_if_it_is_the_one_that_was_requested() -> None:
    run = honest.run("stream")
    raw = run.raw() | {"status": "failed", "reason": "busy", "locks": {"held": [], "shared_with": "job 7 measured"}}
    assert run.judged(raw, status=1).verdict == "INVALID"
    assert run.judged(raw | {"token": honest.TOKEN[::-1]}, status=1).verdict == "FAIL"
    assert run.judged(raw, status=2).verdict == "FAIL"


@pytest.mark.parametrize(
    ("gib", "used_gib", "quiet"), [(141, 7, True), (141, 7.1, False), (16, 1.9, True), (16, 2.1, False)]
)
def test_a_process_that_holds_two_gib_or_a_twentieth_is_quiet(gib: float, used_gib: float, quiet: bool) -> None:
    entry = result.parse(honest.run("stream").text, "x").health.devices[0]
    sample = replace(entry.before, other_processes=1, utilization_percent=0, memory_used_bytes=int(used_gib * 2**30))
    entry = replace(entry, before=sample, worst=sample, after=sample, others_percent=0)
    gpu: Any = SimpleNamespace(memory_bytes=gib * 2**30, mig_enabled=False)
    assert [found for found, _ in conditions._others(entry, gpu)] == ["RECORDED" if quiet else "INVALID"]


@pytest.mark.parametrize("token", [honest.TOKEN, None])
def test_defaults_are_held_only_of_a_run_that_was_requested(token: str | None) -> None:
    run = honest.run("p2p")
    raw = run.raw()
    raw["parameters"]["transfers"] = "peer"
    told = "its default is" in run.judged(raw, request=replace(run.request, token=token)).message()
    assert told is (token is not None)


@pytest.mark.parametrize("change", [without("devices.0.index"), put("metrics", 7), put("limits", []), put("host", "")])
def test_whatever_comes_in_a_judgement_comes_out(change: Change) -> None:
    run = honest.run("stream")
    raw = run.raw()
    change(raw)
    assert run.judged(raw).verdict == "FAIL"
    assert verdict.failed("x").verdict == "FAIL"


@pytest.mark.parametrize(
    "name", ["p2p", "stream_two", "spmv_two", "transfer", "stencil_gpus", "nccl", "mpi_p2p", "gemm"]
)
def test_each_value_that_did_not_come_is_missed(name: str) -> None:
    """Of each GPU, of each direction of a pair and of the ranks: one alone is removed, at all its points."""
    run = honest.run(name)
    declared = catalogue.program(run.request.program).metrics
    metrics = run.raw()["metrics"]
    for lost in {(m["name"], str(m["subject"])) for m in metrics}:
        if declared[lost[0]].derive:
            continue
        raw = run.raw()
        raw["metrics"] = [m for m in metrics if (m["name"], str(m["subject"])) != lost]
        here = {m["id"] for m in raw["metrics"]}
        raw["limits"] = {key: value for key, value in raw["limits"].items() if key in here}
        # nor was it verified
        (of, *_) = (m["subject"] for m in metrics if (m["name"], str(m["subject"])) == lost)
        words = f"{lost[0]}, GPU {of.get('from')} -> GPU {of.get('to')},"
        checks = [c for c in raw["verification"]["checks"] if not c["what"].startswith(words)]
        raw["verification"]["checks"] = checks
        assert run.judged(raw).verdict == "FAIL", lost
