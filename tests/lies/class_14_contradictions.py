"""Statements of one result that cannot be true together, fields that vanished, lists that are empty or hold an entry
twice, numbers of the wrong sign or kind. Told of programs on hosts, on GPUs and in ranks alike."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tenken.judge.contradictions import SECONDS
from tenken.model.request import Request
from tests.lies import honest
from tests.lies.lie import Change, Lie, both, each, health, put, without

HOSTS = ("daxpy", "stream_host", "mpi_p2p_host")
GPUS = ("stream", "hpcg", "transfer", "himeno")
LOCKS = {"held": ["host"], "waited_seconds": 0.01, "shared_with": None, "none_because": None}
LOAD = {
    "seconds": 1.0, "load_average_before": 0.5, "load_average_after": 1.5, "own_cpu_seconds": 1.0,
    "others_cpu_seconds": 0.1, "steal_cpu_seconds": 0.0, "others": [{"pid": 7, "name": "sshd", "cpu_seconds": 0.1}],
}  # fmt: skip


def watched(locks: Any = None, load: Any = None) -> Change:
    """The run as programs of today write it: with its locks and the load of the host."""

    def change(raw: Any) -> None:
        held = ["host", *(device["uuid"] for device in raw["devices"] if device["uuid"])]
        raw["locks"] = {**copy.deepcopy(LOCKS), "held": held, **(locks or {})}
        raw["load"] = {**copy.deepcopy(LOAD), "seconds": honest.run_seconds(raw), **(load or {})}

    return change


def twice(path: str) -> Change:
    """The last entry of a list is there twice."""
    return put(path, lambda entries: [*entries, copy.deepcopy(entries[-1])])


def every(part: str, **fields: Any) -> Change:
    """Fields of every reading of the first GPU's health but that of `part`."""
    return both(*(health(0, when, **fields) for when in ("before", "worst", "after") if when != part))


def device(name: str, value: Any) -> Change:
    return put(f"devices.0.{name}", value)


def first_at(key: str, change: Any) -> Change:
    """A coordinate of the first metric that has it."""

    def spoil(raw: Any) -> None:
        metric = next(m for m in raw["metrics"] if key in m.get("at", {}))
        metric["at"][key] = change(metric["at"][key])

    return spoil


def total(factor: float) -> Change:
    """Every figure of a metric that is one total, but for its sample."""

    def spoil(raw: Any) -> None:
        metric = next(m for m in raw["metrics"] if m["statistic"] == "total" and m["value"] != 0)
        metric["value"] *= factor

    return spoil


def another_implementation(raw: Any) -> None:
    """Our program, built for debugging, says that it is somebody else's, of whom less is asked."""
    raw["parameters"]["implementation"] = "vendor"
    raw["build"] |= {"flags": "-O0", "type": "binary"}
    raw["version"], raw["path"] = "vendor 1.0", {"implementation": "vendor 1.0"}


def long_samples(raw: Any) -> None:
    """Times that are ten hours together, statistics and all."""
    metric = next(m for m in raw["metrics"] if m["unit"] in SECONDS and m["value"] > 0)
    scale = 36000 / (sum(metric["samples"]) * SECONDS[metric["unit"]])
    for key in ("value", "best", "median", "p5", "p95"):
        metric[key] *= scale
    metric["samples"] = [sample * scale for sample in metric["samples"]]


def lies() -> Iterator[Lie]:
    for of in HOSTS:
        cpus = honest.run(of).raw()["host"]["logical_cpus"]
        yield from each(
            of,
            ("more threads than CPUs", "placement.threads", put("placement.threads", cpus + 1)),
            ("more CPUs than there are", "placement.allowed_cpus", put("placement.allowed_cpus", [*range(cpus + 1)])),
            ("no CPU", "allowed_cpus is empty", put("placement.allowed_cpus", [])),
            ("a CPU twice", "allowed_cpus contains .* twice", twice("placement.allowed_cpus")),
            ("a thread elsewhere", "thread_cpus has CPU", put("placement.thread_cpus.0", cpus + 4096)),
            ("a thread more than threads", "thread_cpus has", twice("placement.thread_cpus")),
            ("a NUMA node twice", "numa_nodes_of_memory", put("placement.numa_nodes_of_memory", [0, 0])),
            (
                "NUMA nodes that are not there",
                "numa_nodes_of_memory",
                put("placement.numa_nodes_of_memory", [*range(99)]),
            ),
            ("more cores than logical CPUs", "host.cores", put("host.cores", cpus + 1)),
            ("more sockets than cores", "host.sockets", put("host.sockets", cpus + 1)),
            ("a cache larger than memory", "last_level_cache", put("host.last_level_cache_bytes", 2**60)),
            ("no back end", "build.backends is empty", put("build.backends", [])),
            ("a back end twice", "build.backends contains", twice("build.backends")),
            ("a back end without a name", "build.backends", put("build.backends", lambda b: [*b, ""])),
            ("a verification twice", "verification .* is reported", twice("verification.checks")),
            ("no GPU, and no reason", "gives no reason", put("health.reason", "")),
            ("health of nothing, with a reason", "health.reason|no reason", put("health.available", True)),
            ("another implementation", "parameter implementation", another_implementation),
            ("a negative note", "path gates_expired", put("path", lambda path: {**path, "gates_expired": -1})),
            ("locks without load", "load is missing", both(watched(), without("load"))),
            ("load without locks", "locks is missing", both(watched(), without("locks"))),
            ("the load is of a longer time", "load.seconds", watched(load={"seconds": 1e6})),
            ("it waited longer than it ran", "waited_seconds", watched(locks={"waited_seconds": 1e6})),
            ("more CPU time than the host has", "own_cpu", watched(load={"own_cpu_seconds": 1e9})),
            ("more CPU time of others", "others_cpu", watched(load={"others_cpu_seconds": 1e9})),
            ("CPU time of its own below 0", "own_cpu", watched(load={"own_cpu_seconds": -1.0})),
            ("CPU time of others below 0", "others_cpu", watched(load={"others_cpu_seconds": -1.0})),
            ("CPU time stolen below 0", "steal_cpu", watched(load={"steal_cpu_seconds": -1.0})),
            ("more CPU time stolen", "steal_cpu", watched(load={"steal_cpu_seconds": 1e9})),
            ("a lock twice", "locks.held", watched(locks={"held": ["host", "host"]})),
            ("a NUL in the compiler", "build/compiler", put("build.compiler", lambda text: text + "\0")),
            ("an escape in the flags", "build/flags", put("build.flags", lambda text: text + "\x1b[31m")),
            ("a space behind the program", "program", put("program", lambda text: text + " ")),
            ("a line feed in the kernel", "host/kernel", put("host.kernel", lambda text: text + "\n")),
            ("a text that turns round", "host/cpu", put("host.cpu", "\u202egnissecorp")),
            ("half of a character", "build/compiler.*D800", put("build.compiler", "GNU \ud800")),
            ("a name of no width", "host/name", put("host.name", lambda text: text + "\u200b")),
            ("no firmware stated", "host/firmware", without("host.firmware")),
            ("no compiler of CUDA stated", "build/cuda_compiler", without("build.cuda_compiler")),
            ("no clock stated", "clock", without("metrics.0.clock")),
            ("threads not stated where", "placement/thread_cpus", without("placement.thread_cpus")),
        )
        yield Lie(of, "neither locks nor load", "section locks", without_sections, beside={"request": today(of)})
    for of in GPUS:
        yield from each(
            of,
            ("counters, ECC off", "ECC is off", device("ecc_enabled", False)),
            ("counters, ECC unknown", "ECC is not known", device("ecc_enabled", None)),
            ("a card that is integrated", "integrated", device("integrated", True)),
            ("links beyond all links", "nvlinks_active", device("nvlinks_active", 19)),
            ("no maximum of the memory clock", "memory_clock_max_mhz", device("memory_clock_max_mhz", None)),
            ("a maximum of 0", "memory_clock_max_mhz", device("memory_clock_max_mhz", 0)),
            ("a negative clock", "memory_clock_mhz", device("memory_clock_mhz", -1)),
            ("a clock beyond its maximum", "memory_clock_mhz", device("memory_clock_mhz", 32010)),
            ("a negative top clock", "sm_clock_max_mhz", device("sm_clock_max_mhz", -1)),
            ("no maximum of PCIe", "pcie_generation_max", device("pcie_generation_max", None)),
            ("no widest PCIe", "pcie_width_max", device("pcie_width_max", None)),
            ("PCIe wider than its maximum", "pcie_width", every("", pcie_width=32)),
            ("PCIe newer than its maximum", "pcie_generation", every("", pcie_generation=6)),
            ("more memory free than there is", "memory_free_bytes", device("memory_free_bytes", 2**50)),
            ("a cache larger than the memory", "l2_bytes", device("l2_bytes", 2**50)),
            ("more memory used than there is", "memory_used_bytes", every("", memory_used_bytes=2**49)),
            ("power is silent during the run", "power_w", health(0, "worst", power_w=None)),
            ("rows are silent before the run", "remapped_rows", health(0, "before", remapped_rows_correctable=None)),
            ("temperature told during the run alone", "memory_temp", every("worst", memory_temperature_c=None)),
            ("utilization is silent after", "utilization", health(0, "after", utilization_percent=None)),
            ("no power under load", "power_w", health(0, "worst", power_w=0)),
            ("no clock under load", "sm_clock_mhz", health(0, "worst", sm_clock_mhz=0)),
            ("a reason twice", "reasons", health(0, "worst", reasons=["gpu_idle", "gpu_idle"])),
            ("no XIDs stated", "xids", without("health.devices.0.xids")),
            ("the driver is not stated", "devices/0/driver", without("devices.0.driver")),
            ("ECC is not stated", "devices/0/ecc_enabled|ECC", without("devices.0.ecc_enabled")),
            ("health unavailable, and listed", "not available", both(
                put("health.available", False), put("health.reason", "NVML is missing"))),
        )  # fmt: skip
    for of in ("stream_two", "p2p", "nccl"):
        same = honest.run(of).raw()["devices"][0]["pci_bus_id"]
        yield Lie(of, "two cards in one slot", "pci_bus_id", put("devices.1.pci_bus_id", same))
    for of in ("p2p", "storage_map", "snapshot_io", "transfer", "access_patterns", "hpcg", "osu", "xhpl", "nccl_tests"):
        yield Lie(of, "a verification ten times", "is reported", lambda raw: raw["verification"]["checks"].extend(
            copy.deepcopy(raw["verification"]["checks"][-1]) for _ in range(10)))  # fmt: skip
    yield Lie("storage_map", "half of the verifications", "is missing", lambda raw: raw["verification"].update(
        checks=raw["verification"]["checks"][::2]))  # fmt: skip
    for of in ("hpl", "gemm", "hpcg_ranks"):
        for factor in (0.0, 0.1, 10.0):
            if any(m["statistic"] == "total" for m in honest.run(of).raw()["metrics"]):
                yield Lie(of, f"a total {factor:g} times its sample", "value is|must be above 0", total(factor))
    for of, key in (("transfer", "bytes"), ("gemm", "k"), ("hpl", "n"), ("mpi_p2p_host", "bytes"), ("transpose", "n")):
        yield Lie(of, f"{key} as text", "is the text|coordinates", first_at(key, str))
        yield Lie(of, f"{key} and a half", "coordinates|missing|not asked", first_at(key, lambda value: value + 0.5))
    for of in ("mpi_p2p_host", "hpcg_ranks", "hpl_node"):
        yield Lie(of, "the nodes of the ranks are gone", "placement.nodes", without("placement.nodes"))
        yield Lie(of, "no node of any rank", "placement.nodes", put("placement.nodes", []))
    for of in ("mpi_p2p_host", "transfer", "nccl"):
        yield Lie(of, "samples longer than the run", "samples take", long_samples)
    for of, name in (
        ("stream", "array_bytes"),
        ("memcopy", "bytes"),
        ("overlap", "block_bytes"),
        ("daxpy", "elements"),
    ):
        yield Lie(of, f"{name} is gone", name, without(f"parameters.{name}"))
        yield Lie(of, f"{name} is null", name, put(f"parameters.{name}", None))
    for key in ("sets", "iterations_of_set", "phase_seconds.product", "bytes_of_iteration.cycle"):
        yield Lie("hpcg", f"{key} is gone", key.replace(".", r"\."), lambda raw, key=key: raw["path"].pop(key) and None)


def today(of: str) -> Request:
    """The request of a run as checks of today ask."""
    return replace(honest.run(of).request, sections=("locks", "load"))


def without_sections(raw: Any) -> None:
    """Neither locks nor load, of a program that was asked for both."""
    raw.pop("locks", None)
    raw.pop("load", None)


def twins() -> Iterator[tuple[str, str, str]]:
    """Honest runs that come close: name, verdict, and the verdict of the run itself."""
    for of in (*HOSTS, *GPUS):
        run = honest.run(of)
        for name, change in _honest(run.raw()):
            raw = run.raw()
            change(raw)
            yield f"{of}: {name}", run.judged(raw).verdict, run.verdict
        raw = run.raw()
        watched()(raw)
        yield f"{of}: with locks and load, asked for", run.judged(raw, request=today(of)).verdict, run.verdict
    for of in GPUS:
        run = honest.run(of)
        for name, change in _of_gpus():
            raw = run.raw()
            change(raw)
            yield f"{of}: {name}", run.judged(raw).verdict, run.verdict
    for of in ("stream", "stream_host"):
        run = honest.run(of)
        raw, request = run.raw(), replace(run.request, token=None)
        for part, names in (("host", ["firmware"]), ("build", ["mpi", "libraries"]), ("placement", ["thread_cpus"])):
            for name in names:
                del raw[part][name]
        del raw["metrics"][0]["clock"]
        expected = run.judged(run.raw(), request=request).verdict
        yield f"{of}: by hand, of an earlier program", run.judged(raw, request=request).verdict, expected


def _honest(raw: Any) -> Iterator[tuple[str, Change]]:
    cpus, seconds = raw["host"]["logical_cpus"], honest.run_seconds(raw)
    busy = {"seconds": seconds, "own_cpu_seconds": seconds * cpus + 0.2, "others_cpu_seconds": 0.0, "others": []}
    yield "all CPUs busy", watched(load=busy)
    yield "threads whose CPU is unknown", put("placement.thread_cpus", [-1] * raw["placement"]["threads"])
    yield "a host that hides its sockets", both(put("host.sockets", None), put("host.cores", None))
    yield "memory of unknown nodes", put("placement.numa_nodes_of_memory", [])
    yield "a folder with letters of its country", put("command.0", lambda path: "/home/j\u00f6rg/\u5bcc\u5cb3/" + path)
    yield "no pass waited", put("path", lambda path: {**path, "gates_expired": 0})
    yield "one more back end", put("build.backends", lambda names: [*names, "openacc2"])


def _of_gpus() -> Iterator[tuple[str, Change]]:
    yield "no ECC", both(device("ecc_enabled", False), every("", ecc_corrected=None, ecc_uncorrected=None))
    yield "no NVLinks", both(*(device(f"nvlinks_{name}", None) for name in ("active", "total")),
                             every("", nvlinks_active=None))  # fmt: skip
    yield "a clock rounded up", every("", memory_clock_mhz=3201 * 1.01)
    yield "no sensor of power", every("", power_w=None)
    yield "no rows to be remapped", every("", remapped_rows_correctable=None, remapped_rows_uncorrectable=None)
    yield "idle before and after", every("worst", power_w=0, utilization_percent=0)
