"""Contradictory statements of one result: counts beyond those of the host, lists that are empty or have
duplicates, counters without their precondition, times beyond the run, numbers of the wrong sign.

Adapters of other implementations have little data on the host and write placeholders: their documents are exempt from
the rules for the host. All functions are pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import pairwise

from tenken.model.judgement import Finding
from tenken.model.request import Request
from tenken.model.result import Device, DeviceHealth, HealthSample, Load, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import INVALID

#: A duration within the run may exceed the difference of `started` and `finished` by this: older results have whole
#: seconds.
ROUNDED_S = 1.0
#: CPU seconds are counted in ticks of 10 ms per CPU, by other clocks than the run's: their sum over time x CPUs may
#: exceed 1 by this share and this many seconds.
CPU_SHARE, CPU_S = 0.05, 0.5
#: Clocks are rounded to steps of the clock generator.
CLOCK_ROUNDED = 1.02
#: How many missing fields are named.
NAMED = 4
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: A PCI address.
BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(\.[0-9A-Fa-f])?")
#: A version: numbers with points.
VERSION = re.compile(r"\d+(\.\d+)+")
#: Targets of CMAKE_CUDA_ARCHITECTURES.
TARGET = re.compile(r"(\d+)[af]?(-real|-virtual)?|native|all|all-major")
#: Below this share of its highest clock a GPU is throttled, and its driver gives a reason: a software power cap, a
#: clock that was set. 380 results of H200 that give none hold the highest clock.
CLOCK_WITHOUT_REASON = 0.6
#: Power readings follow the load; a GPU exceeds its limit only for milliseconds.
POWER_OVER_LIMIT = 1.5
#: With a reason it falls no lower than this: clocks of a GPU under load do not fall to those of an idle one, which are
#: 0.058 (180 of 3,090 MHz, RTX PRO 6000) to 0.2 of the highest.
CLOCK_WITH_REASON, CLOCK_IDLE = 0.10, 0.04
IDLE = "gpu_idle"
#: The load of the host is read right after a program's start and right before its end: these shares and seconds may
#: pass outside (0.007 to 0.017 s in 450 results of H200).
UNWATCHED, UNWATCHED_S = 0.10, 1.0
#: Processors have up to 1.2 GB of cache.
CACHE_OF_SOCKET = 2 * 2**30
#: OMP_PLACES with its number of places; a build without OpenMP has none.
PLACES = re.compile(r".+ \(\d+ places\)|built without OpenMP|")
#: Libraries without which a program measures nothing, by the back end that calls them.
LIBRARIES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("gemm", "cuda"): ("cuBLASLt",),
    ("hpl", "cuda"): ("cuBLAS", "cuSOLVER"),
    ("hpl_mxp", "cuda"): ("cuBLAS",),
    ("nccl", ""): ("NCCL",),
}
#: Program, coordinate, how its value begins, and the library that such a method calls.
METHODS = (("spmv", "variant", "cusparse", "cusparse"), ("snapshot_io", "method", "hdf5", "HDF5"))
#: OMP_PROC_BIND as OpenMP writes it; several words, one for each level of nesting.
BINDINGS = ("none", "false", "true", "master", "primary", "close", "spread", "unknown", "")


def _ours(result: Result, request: Request) -> bool:
    return not request.foreign and "implementation" not in result.parameters


def structure(result: Result, request: Request) -> Iterator[str]:
    """Reasons why a result is unusable: it claims another implementation, or no back end."""
    said = result.parameters.get("implementation")
    asked = request.foreign or "implementation" in request.parameters
    if said is not None and request.token is not None and not asked:
        yield f"parameter implementation is {said!r}; the suite's own {request.program} was requested"
    yield from _absent(result, request)
    if result.status == "ok" and _ours(result, request) and not result.build.backends:
        yield "build.backends is empty; at least one is required"
    for where, texts in (
        ("build.backends", result.build.backends),
        ("locks.held", result.locks.held if result.locks else ()),
    ):
        yield from (f"{where} contains {name!r} {texts.count(name)} times; expected once" for name in _twice(texts))
        if any(not text.strip() for text in texts):
            yield f"{where} contains an empty name"
    for key, value in result.path.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and not 0 <= value < math.inf:
            yield f"path {key} is {value!r}; allowed: finite numbers from 0 on"


def _absent(result: Result, request: Request) -> Iterator[str]:
    """Fields that every program of this suite writes, null if unknown: a missing one would escape its rules."""
    if request.token is None or not _ours(result, request):
        return
    yield from (f"{name} is missing: programs of this suite always state it" for name in result.absent[:NAMED])
    missing = [name for name in request.sections if getattr(result, name, None) is None]
    yield from (f"section {name} is missing" for name in missing)
    place = result.placement
    if result.status == "ok" and place.ranks > 1 and len(place.nodes) != place.ranks:
        yield f"placement.nodes names {len(place.nodes)} ranks; placement.ranks is {place.ranks}"


def _twice(values: Sequence[object]) -> list[object]:
    return list(dict.fromkeys(value for value in values if values.count(value) > 1))


def conditions(result: Result, request: Request) -> list[Finding]:
    """INVALID if the result's statements about host, threads, GPUs or time contradict each other."""
    node = result.node
    found = []
    if _ours(result, request):
        found += [Finding(INVALID, f"{node}: {text}", node=node) for text in _build(result)]
        texts = [*_host(result), *_placement(result), *_times(result), *_load(result)]
        found += [Finding(INVALID, f"{node}: {text}", node=node) for text in texts]
    for device in result.devices:
        subject = Subject("gpu", device.index)
        health = [entry for entry in result.health.devices if entry.index == device.index]
        texts = [*_device(device), *(text for entry in health for text in _health(entry, device))]
        found += [Finding(INVALID, f"{node} {subject.place}: {text}", None, subject, node) for text in texts]
    found += [Finding(INVALID, f"{node}: {text}", node=node) for text in _of_all(result)]
    return found


def _build(result: Result) -> Iterator[str]:
    """A program of a GPU was built for it, by a compiler of its runtime."""
    build = result.build
    targets = (build.cuda_architectures or "").replace(",", ";").split(";") if build.cuda_architectures else []
    strange = [target for target in targets if not TARGET.fullmatch(target.strip())]
    if strange:
        yield f"build.cuda_architectures is {build.cuda_architectures!r}; {strange[0]!r} is not one of CMake's"
        return
    numbers = [int(found[1]) for target in targets if (found := TARGET.fullmatch(target.strip())) and found[1]]
    version = re.search(r"(\d+)\.\d+[.\d]*$", build.cuda_compiler or "")
    if build.cuda_compiler is not None and version is None:
        yield f"build.cuda_compiler is {build.cuda_compiler[:60]!r}; expected a name and a version"
    if result.token is not None and result.placement.ranks > 1 and not build.mpi:
        yield f"build.mpi is empty; {result.placement.ranks} ranks ran"
    yield from _libraries(result)
    for device in result.devices:
        capability = device.compute_capability.replace(".", "")
        if numbers and capability.isdecimal() and min(numbers) > int(capability):
            yield (
                f"build.cuda_architectures is {build.cuda_architectures!r}; GPU {device.index} has compute capability "
                f"{device.compute_capability}"
            )
        nvidia = (build.cuda_compiler or "").startswith("NVIDIA")
        if version and nvidia and device.cuda_runtime and _major(device.cuda_runtime) != int(version[1]):
            yield (
                f"build.cuda_compiler is {build.cuda_compiler!r}; cuda_runtime of GPU {device.index} is "
                f"{device.cuda_runtime}"
            )


def _libraries(result: Result) -> Iterator[str]:
    """What a program of today calls is stated with its version."""
    libraries = result.build.libraries
    if libraries is None or result.token is None or result.status != "ok":
        return
    for name in _called(result):
        if name not in libraries:
            yield f"build.libraries does not name {name}, which {result.program} calls"
    for name, version in libraries.items():
        # a BLAS is stated as its file, which may have no version
        versioned = name == "BLAS" or re.search(r"\d", version)
        if not version.strip() or not versioned or (version[0].isdigit() and not VERSION.fullmatch(version)):
            yield f"build.libraries has {name} {version[:60]!r}; expected a version such as 13.0"


def _called(result: Result) -> Iterator[str]:
    """Libraries that a program needs, and those whose methods it measured."""
    backend = str(result.parameters.get("backend", ""))
    yield from LIBRARIES.get((result.program, backend), ())
    if result.program == "hpl" and backend == "host" and "library_left_out" not in result.path:
        yield "BLAS"
    for program, key, prefix, name in METHODS:
        if result.program == program and any(str(m.at.get(key)).startswith(prefix) for m in result.metrics):
            yield name


def _of_all(result: Result) -> Iterator[str]:
    health = result.health
    if health.available and health.reason:
        yield f"health is available, but health.reason is {health.reason[:100]!r}"
    places = [device.pci_bus_id for device in result.devices if device.pci_bus_id]
    yield from (
        f"pci_bus_id is {place!r}; expected DOMAIN:BUS:DEVICE.FUNCTION" for place in places if not BUS.fullmatch(place)
    )
    if not health.available and (health.devices or not health.reason.strip()):
        said = f"lists {len(health.devices)} GPUs" if health.devices else "gives no reason"
        yield f"health is not available, but {said}"
    places = [device.pci_bus_id.lower() for device in result.devices if device.pci_bus_id and not device.mig_enabled]
    yield from (f"two GPUs have the pci_bus_id {place}" for place in _twice(places))


def _host(result: Result) -> Iterator[str]:
    host = result.host
    order = (("sockets", host.sockets), ("cores", host.cores), ("logical_cpus", host.logical_cpus))
    known = [(name, count) for name, count in order if count is not None]
    for (name, count), (larger, bound) in pairwise(known):
        if count > bound:
            yield f"host.{name} is {count}; host.{larger} is {bound}"
    cache, memory = host.last_level_cache_bytes, host.memory_bytes
    if cache is not None and memory is not None and cache > memory:
        yield f"host.last_level_cache_bytes is {cache}; host.memory_bytes is {memory}"
    elif cache is not None and cache > CACHE_OF_SOCKET * (host.sockets or 1):
        yield f"host.last_level_cache_bytes is {cache}; the largest processors have {CACHE_OF_SOCKET} per socket"


def _placement(result: Result) -> Iterator[str]:
    place, cpus = result.placement, result.host.logical_cpus
    if cpus is not None:
        for name, count in (("threads", place.threads), ("allowed_cpus", len(place.allowed_cpus))):
            if count > cpus:
                yield f"placement.{name}: {count}; the host has {cpus} logical CPUs"
    if not place.allowed_cpus:
        yield "placement.allowed_cpus is empty; at least one CPU is required"
    for name, numbers in (("allowed_cpus", place.allowed_cpus), ("numa_nodes_of_memory", place.numa_nodes_of_memory)):
        if twice := _twice(numbers) if len(set(numbers)) < len(numbers) else []:
            yield f"placement.{name} contains {twice[0]} twice"
    if place.allowed_cores is not None and place.allowed_cores > len(place.allowed_cpus):
        yield f"placement.allowed_cores is {place.allowed_cores}; allowed_cpus has {len(place.allowed_cpus)} CPUs"
    if not PLACES.fullmatch(place.places):
        yield f"placement.places is {place.places[:60]!r}; expected OMP_PLACES and (N places)"
    if (place.thread_cpus or "placement/thread_cpus" not in result.absent) and len(place.thread_cpus) != place.threads:
        yield f"placement.thread_cpus has {len(place.thread_cpus)} entries; placement.threads is {place.threads}"
    # -1: the system did not report where the thread ran
    outside = sorted(set(place.thread_cpus) - set(place.allowed_cpus) - {-1})
    if outside and place.allowed_cpus:
        yield f"placement.thread_cpus has CPU {outside[0]}, which is not in allowed_cpus"
    if place.binding and not set(place.binding.split(",")) <= set(BINDINGS):
        yield f"placement.binding is {place.binding[:40]!r}; allowed: {', '.join(BINDINGS)}"
    counted = re.search(r"\((\d+) places\)$", place.places)
    if counted and int(counted[1]) > len(place.allowed_cpus) > 0:
        yield f"placement.places is {place.places!r}; allowed_cpus has {len(place.allowed_cpus)} CPUs"
    nodes = result.host.numa_nodes
    if nodes is not None and len(set(place.numa_nodes_of_memory)) > nodes:
        yield f"placement.numa_nodes_of_memory names {len(set(place.numa_nodes_of_memory))}; the host has {nodes}"


def run_seconds(result: Result) -> float | None:
    """Duration of the program by its own times; None if they cannot be read, which is a separate finding."""
    try:
        first, last = (datetime.fromisoformat(text.rstrip("Z")[:26]) for text in (result.started, result.finished))
    except ValueError:
        return None
    return (last - first).total_seconds()


def _times(result: Result) -> Iterator[str]:
    """The samples of one metric are taken in sequence within the run."""
    run = run_seconds(result)
    if run is None:
        return
    for metric in result.metrics:
        total = sum(metric.samples) * SECONDS.get(metric.unit, 0.0)
        if total > run + ROUNDED_S:
            yield (
                f"{metric.place}: {metric.id}: its {metric.count} samples take {total:.4g} s together; the run took "
                f"{run:.4g} s"
            )


def _load(result: Result) -> Iterator[str]:
    load, run, cpus = result.load, run_seconds(result), result.host.logical_cpus
    if (load is None) != (result.locks is None):
        yield f"{'locks' if load is None else 'load'} is present, {'load' if load is None else 'locks'} is missing"
    if load is None:
        return
    waited = result.locks.waited_seconds if result.locks else 0.0
    for name, seconds in (("load.seconds", load.seconds), ("locks.waited_seconds", waited)):
        if run is not None and seconds > run + ROUNDED_S:
            yield f"{name} is {seconds:.4g}; the run took {run:.4g} s"
    if run is not None and load.seconds + waited < (1 - UNWATCHED) * run - UNWATCHED_S:
        yield f"load.seconds is {load.seconds:.4g}; the run took {run:.4g} s, {waited:.4g} s of them waiting for locks"
    if cpus is not None:
        yield from _cpu_seconds(load, cpus)


def _cpu_seconds(load: Load, cpus: int) -> Iterator[str]:
    most = load.seconds * cpus * (1 + CPU_SHARE) + CPU_S
    parts = {
        "own_cpu_seconds": load.own_cpu_seconds,
        "others_cpu_seconds": load.others_cpu_seconds,
        "steal_cpu_seconds": load.steal_cpu_seconds,
    }
    for name, value in parts.items():
        if value < 0:
            yield f"load.{name} is {value:.4g}; allowed: at least 0"
    over = sum(parts.values())
    if over > most:
        name, value = max(parts.items(), key=lambda one: one[1])
        yield (
            f"load has {over:.4g} CPU seconds ({name} {value:.4g}) in {load.seconds:.4g} s; {cpus} logical CPUs have "
            f"at most {most:.4g}"
        )
    for pid, name, used in load.others:
        if used > most:
            yield (
                f"load.others: pid {pid} {name[:40]} used {used:.4g} CPU seconds in {load.seconds:.4g} s; at most "
                f"{most:.4g}"
            )


#: GB/s of one NVLink in one direction, as drivers state it, by compute capability: V100 25.8, A100 25, H100 and H200
#: 26.6. Older and smaller GPUs have several rates of one generation; of newer ones no driver's figure was seen.
LINK_GBS: Mapping[str, tuple[float, float]] = {
    "7.0": (24.0, 27.5),
    "8.0": (24.0, 27.5),
    "9.0": (24.0, 27.5),
}


def _device(device: Device) -> Iterator[str]:
    rate, allowed = device.nvlink_gbs_per_link, LINK_GBS.get(device.compute_capability)
    if rate is not None and allowed and not allowed[0] <= rate <= allowed[1]:
        yield (
            f"nvlink_gbs_per_link is {rate:g}; NVLink of compute capability {device.compute_capability} has from "
            f"{allowed[0]:g} to {allowed[1]:g}"
        )
    for name in ("memory_clock_mhz", "memory_clock_max_mhz", "sm_clock_max_mhz", "nvlink_gbs_per_link"):
        value = getattr(device, name)
        if value is not None and value <= 0:
            yield f"{name} is {value:g}; allowed: above 0"
    yield from _software(device)
    for name, needed in (
        ("pageable_uses_host_page_tables", "pageable_memory_access"),
        ("concurrent_managed_access", "managed_memory"),
    ):
        if getattr(device, name) and getattr(device, needed) is False:
            yield f"{name} is true, but {needed} is false"
    if device.integrated:
        having = [name for name in ("pcie_generation_max", "nvlinks_total") if getattr(device, name) is not None]
        if having:
            yield f"integrated is true, but {', '.join(having)} is reported, as of a discrete GPU"
    for name, value, bound_name, bound in (
        ("memory_free_bytes", device.memory_free_bytes, "memory_bytes", device.memory_bytes),
        ("l2_bytes", device.l2_bytes, "memory_bytes", device.memory_bytes),
        ("nvlinks_active", device.nvlinks_active, "nvlinks_total", device.nvlinks_total),
        ("memory_clock_mhz", device.memory_clock_mhz, "memory_clock_max_mhz", device.memory_clock_max_mhz),
    ):
        if name == "nvlinks_active" and value is not None and bound is None:
            yield f"{name} is {value}, but {bound_name} is unknown"
        elif value is not None and bound is not None and value > bound * (CLOCK_ROUNDED if "clock" in name else 1):
            yield f"{name} is {value:g}; {bound_name} is {bound:g}"


def _software(device: Device) -> Iterator[str]:
    """Versions of driver and runtime: a runtime needs a driver of its own major version or a later one."""
    for name in ("driver", "cuda_driver", "cuda_runtime"):
        said = getattr(device, name)
        if said is not None and not VERSION.fullmatch(said):
            yield f"{name} is {said!r}; expected a version such as 13.0"
            return
    if device.cuda_driver and device.cuda_runtime and _major(device.cuda_runtime) > _major(device.cuda_driver):
        yield f"cuda_runtime is {device.cuda_runtime}; cuda_driver {device.cuda_driver} does not support it"


def _major(version: str) -> int:
    return int(version.split(".")[0])


#: Readings of health, and the properties of the same GPU that limit them: both come from its driver.
_BOUNDS = (
    ("pcie_generation", "pcie_generation_max"),
    ("pcie_width", "pcie_width_max"),
    ("nvlinks_active", "nvlinks_total"),
    ("memory_clock_mhz", "memory_clock_max_mhz"),
    ("memory_used_bytes", "memory_bytes"),
)
#: Memory that the driver keeps for itself counts as used, but not as the GPU's.
_ROUNDED = {"memory_clock_mhz": CLOCK_ROUNDED, "memory_used_bytes": 1.1}


def _health(entry: DeviceHealth, device: Device) -> Iterator[str]:
    """Readings beyond what the GPU has, and counters that a GPU without ECC does not keep."""
    for when, sample in (("before", entry.before), ("during the timed part", entry.worst), ("after", entry.after)):
        counters = [name for name in ("ecc_corrected", "ecc_uncorrected") if getattr(sample, name) is not None]
        if counters and device.ecc_enabled is not True:
            said = "off" if device.ecc_enabled is False else "not known to be on"
            yield f"health {when} reports {', '.join(counters)}, but ECC is {said} (ecc_enabled)"
        for name, bound_name in _BOUNDS:
            value, bound = getattr(sample, name), getattr(device, bound_name)
            if value is None or (bound is None and name == "nvlinks_active"):  # earlier programs reported no links
                continue
            if bound is None:
                yield f"{name} {when} is {value:g}, but {bound_name} is unknown"
            elif value > bound * _ROUNDED.get(name, 1.0):
                yield f"{name} {when} is {value:g}; {bound_name} is {bound:g}"
        if twice := _twice(sample.reasons or ()):
            yield f"clock event reasons {when} contain {twice[0]} twice"
    if entry.samples > 0 and not device.integrated:
        yield from _silent(entry)
        if device.nvlinks_active is not None and entry.worst.nvlinks_active is None:
            yield f"nvlinks_active is missing in health; the GPU has {device.nvlinks_active}"
        clock, top = entry.worst.sm_clock_mhz, device.sm_clock_max_mhz
        if clock and top and clock < CLOCK_WITHOUT_REASON * top and not entry.worst.reasons:
            yield (
                f"sm_clock_mhz fell to {clock:g} of {top:g} during the timed part, and reasons contains none for it; "
                f"required without a reason: at least {CLOCK_WITHOUT_REASON * top:g}"
            )
        lowest_part = CLOCK_IDLE if IDLE in (entry.worst.reasons or ()) else CLOCK_WITH_REASON
        if clock and top and entry.worst.reasons and clock < lowest_part * top:
            yield f"sm_clock_mhz during the timed part is {clock:g}; minimum: {lowest_part * top:g} of {top:g}"
    limit = device.power_limit_w
    for when, sample in (("before", entry.before), ("during the timed part", entry.worst), ("after", entry.after)):
        if limit and sample.power_w is not None and sample.power_w > POWER_OVER_LIMIT * limit:
            yield f"power_w {when} is {sample.power_w:g}; power_limit_w is {limit:g}"
    for name in ("sm_clock_mhz", "power_w"):
        if (lowest := getattr(entry.worst, name)) is not None and lowest <= 0:
            yield f"{name} during the timed part is {lowest:g}; allowed: above 0"


def _silent(entry: DeviceHealth) -> Iterator[str]:
    """A value that a driver reports once must be reported before, during and after the run."""
    samples = {"before": entry.before, "during the timed part": entry.worst, "after": entry.after}
    for field in fields(HealthSample):
        silent = [when for when, sample in samples.items() if getattr(sample, field.name) is None]
        if silent and len(silent) < len(samples):
            yield f"{field.name} is missing {' and '.join(silent)}, but reported at another time of the run"
