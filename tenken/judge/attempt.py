"""Whether a result belongs to this attempt: its node, times, build and devices, compared with the job's own output."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator

from tenken.model import job_exit
from tenken.model.catalogue import NOTHING, Program
from tenken.model.contract import INJECTED
from tenken.model.job import JobAccount, short
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Device, Result

#: Seconds by which a program's times may be outside of the lines that its job script printed around it. Both use the
#: same clock, but a result holds whole seconds, and a time server may step the clock.
SAME_CLOCK_S = 5.0
#: The same, if the result was written on another node than the script: clocks of nodes differ.
OTHER_CLOCK_S = 60.0

#: How programs must be built: a debug build measures the compiler.
BUILD_TYPES = ("Release", "RelWithDebInfo")
_OPTIMISATION = re.compile(r"(?:^|\s)(-O\S*)")
_SPOILING = re.compile(r"(?:^|\s)(-fsanitize\S*|--coverage|-pg|-fprofile-arcs)")


def another(result: Result, program: Program, request: Request) -> list[str]:
    """Why it is the result of another attempt, or of none."""
    if result.program != program.name:
        return [f"the result is of program {result.program!r}; expected {program.name!r}"]
    if request.token is not None and result.token != request.token:
        said = "none" if result.token is None else repr(result.token)
        return [f"the result's token is {said}; this attempt's is {request.token!r}: it belongs to another attempt"]
    if result.status == "failed":
        return [f"{program.name} failed: {result.reason or 'no reason given'}"]
    return []


def ended(result: Result, exit_status: int | None) -> list[str]:
    expected = job_exit.EXPECTED[result.status]
    if exit_status is not None and exit_status != expected:
        return [f"{result.program} exited with {exit_status} although the status of its result is {result.status!r}"]
    return []


def injected(result: Result, program: Program, request: Request) -> Iterator[str]:
    """A fault that was not requested was injected."""
    fault = program.parameters_today(result.parameters).get(INJECTED)
    if fault not in NOTHING and INJECTED not in request.parameters:
        yield f"parameter {INJECTED} is {fault!r}: a fault that was not requested was injected"


def wrong(result: Result, request: Request, machine: Machine, job: JobAccount | None) -> list[str]:
    """Evidence that the result is not from this attempt, these nodes, these devices or these programs."""
    found = [*_times(result, job), *_nodes(result, request, job)]
    if not request.foreign and not result.by_others:
        found += [*_build(result, request), *_command(result, request)]
    # only for programs that this suite built: others cannot know all of it
    built = request.revision is not None and not request.foreign
    if built:
        found += [*_host(result, job)]
    if request.ranks is not None and result.placement.ranks != request.ranks:
        alone = ": the launcher does not match the MPI" if result.placement.ranks == 1 else ""
        found.append(f"ran on {result.placement.ranks} ranks; requested: {request.ranks}{alone}")
    if result.status == "ok":
        found += [*_distinct(result), *_devices(result, machine, job)]
        for device in result.devices if built else ():
            found += [*_against_reading(device, job, result.health.available)]
            if not device.mig_enabled:
                found += [*_against_sheet(device, f"GPU {device.index}", machine)]
    return found


#: A container may see somewhat less memory than its host has.
MEMORY_APART = 0.02
#: Caches of GPUs of one model differ by their disabled parts.
CACHE_APART = 0.25
#: Maximum ratio of a GPU's maximum clock to the boost clock of its data sheet, on which the peak is based.
CLOCKS_APART = 0.25
#: FP64 operations of a multiprocessor's tensor cores in a cycle, by compute capability: NVIDIA's architecture papers of
#: A100 and H100.
FP64_A_CYCLE = {"8.0": 128, "9.0": 256}


def _host(result: Result, job: JobAccount | None) -> Iterator[str]:
    """The host as the job script read it on the node that wrote the result."""
    if job is None or not job.node or short(job.node) != short(result.node):
        return
    for name in ("architecture", "kernel", "logical_cpus", "cpu", "memory_bytes"):
        said, seen = getattr(result.host, name), getattr(job.host, name)
        if name == "memory_bytes":
            same = not seen or abs((said or 0) - seen) <= MEMORY_APART * seen
        else:
            same = str(said).replace("_", " ").split() == str(seen).replace("_", " ").split()
        if seen and not same:
            yield f"host.{name} is {said!r}; the job script read {seen!r}"


def _times(result: Result, job: JobAccount | None) -> Iterator[str]:
    started, finished = result.moments
    times = {"started": started, "finished": finished}
    yield from (f"{name} is {getattr(result, name)!r}: not a valid time" for name in times if times[name] is None)
    if started is None or finished is None:
        return
    if finished < started:
        yield f"finished {result.finished} is before started {result.started}"
    if job is None:
        return
    apart = SAME_CLOCK_S if not job.node or short(job.node) == short(result.node) else OTHER_CLOCK_S
    if job.begin is not None and started < math.floor(job.begin) - apart:
        yield f"started {result.started}, {job.begin - started:.0f} s before the job began the command"
    for name, moment in (("started", started), ("finished", finished)):
        if job.end is not None and moment > job.end + apart:
            yield f"{name} {getattr(result, name)}, {moment - job.end:.0f} s after the job ended the command"


def _nodes(result: Result, request: Request, job: JobAccount | None) -> Iterator[str]:
    said = result.placement.nodes
    if said and request.nodes is not None and len(set(said)) != request.nodes:
        yield f"placement.nodes names {len(set(said))} nodes; requested: {request.nodes}"
    if job is None or not job.nodes:
        return
    of_job = ", ".join(sorted(job.nodes))
    if short(result.node) not in job.nodes:
        yield f"host.name is {result.node!r}; the job ran on {of_job}"
    for node in sorted({node for node in said if short(node) not in job.nodes}):
        yield f"placement.nodes names {node!r}; the job ran on {of_job}"


def _build(result: Result, request: Request) -> Iterator[str]:
    build = result.build
    if build.type not in BUILD_TYPES:
        yield f"build.type is {build.type!r}; allowed: {', '.join(BUILD_TYPES)}"
    levels = _OPTIMISATION.findall(build.flags)
    if not levels or levels[-1] not in ("-O2", "-O3", "-Ofast"):
        yield f"build.flags optimise by {levels[-1] if levels else 'nothing'}; expected -O2 or -O3"
    spoiling = _SPOILING.findall(build.flags)
    if spoiling:
        yield f"build.flags contain {', '.join(spoiling)}: this does not measure the program itself"
    if request.revision is not None and _revision(result.version) != _revision(request.revision):
        yield f"version is {result.version!r}; the suite built {request.revision!r}"


def _revision(text: str) -> str:
    return text.removesuffix("-dirty")


def _command(result: Result, request: Request) -> Iterator[str]:
    """Whether the program was started with the requested arguments: a launcher or a wrapper may drop or split them."""
    if request.token is None:
        return
    said = without_files(result.command[1:])
    asked = tuple(shlex.split(word)[0] if word[:1] in "'\"" else word for word in request.arguments)
    if said != asked:
        new = [word for word in said if word not in asked]
        lost = [word for word in asked if word not in said]
        yield f"command has other arguments than requested: {' '.join(new) or 'none'} instead of {' '.join(lost)}"


def without_files(words: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of a command line except the files of request and result."""
    files = ("--request", "--json")
    pairs = zip(("", *words), words, strict=False)
    return tuple(word for before, word in pairs if word not in files and before not in files)


def _distinct(result: Result) -> list[str]:
    """Ranks that share a GPU slow each other down, and none of them measures the requested GPU."""
    indices = [d.index for d in result.devices]
    wrong = [f"GPU {i} is listed twice" for i in sorted({i for i in indices if indices.count(i) > 1})]
    for name, known in (
        ("UUID", [d.uuid for d in result.devices if d.uuid]),
        # of a GPU whose driver hides its UUID; MIG instances of one GPU have the same address
        ("PCI address", [d.pci_bus_id.lower() for d in result.devices if d.pci_bus_id and not d.mig_enabled]),
    ):
        wrong += [f"two GPUs have the {name} {one}" for one in sorted({one for one in known if known.count(one) > 1})]
    return wrong


def _devices(result: Result, machine: Machine, job: JobAccount | None) -> Iterator[str]:
    """Compares each GPU with the system file, and with those that the job saw."""
    sheet, uuids = machine.gpu_memory_bytes, job.uuids if job is not None else frozenset()
    for device in result.devices:
        place, whole = f"GPU {device.index}", not device.mig_enabled
        if machine.gpu_names and not any(re.fullmatch(name, device.name.strip()) for name in machine.gpu_names):
            yield f"{place} has name {device.name!r}; the system file has {machine.gpu}"
        if machine.compute_capability and device.compute_capability != machine.compute_capability:
            yield (
                f"{place} has compute_capability {device.compute_capability}; {machine.gpu} has "
                f"{machine.compute_capability}"
            )
        if sheet and whole and not 0.85 <= device.memory_bytes / sheet <= 1.02:
            yield f"{place} has memory_bytes {device.memory_bytes}; {machine.gpu} has {sheet:.0f}"
        if uuids and whole and device.uuid not in uuids:
            yield f"{place} has uuid {device.uuid or 'none'}; the job saw {', '.join(sorted(uuids))}"


def _against_sheet(device: Device, place: str, machine: Machine) -> Iterator[str]:
    """Compares cache, multiprocessors, clocks, memory and links of a whole GPU with its data sheet, and capabilities
    with the system file."""
    peak, memory, link = (
        found.value if (found := machine.limits.get(key)) else None
        for key in (("fp64_tensor", "gpu"), ("memory", "gpu"), ("gpu_link", "pair"))
    )
    links, a_cycle = machine.links_per_pair, FP64_A_CYCLE.get(device.compute_capability)
    for names, factors, sheet, apart, unit in (
        (("l2_bytes",), (1,), machine.gpu_l2_bytes, CACHE_APART, "B"),
        (("multiprocessors", "sm_clock_max_mhz"), (a_cycle, 1e-6), peak, CLOCKS_APART, "TFLOP/s of FP64"),
        (("memory_bus_bits", "memory_clock_max_mhz"), (2e-3 / 8,), memory, CLOCKS_APART, "GB/s"),
        (("nvlink_gbs_per_link",), (links,), link, CLOCKS_APART, f"GB/s by {links} links"),
    ):
        parts = [*(getattr(device, name) for name in names), *factors]
        if sheet and all(parts) and abs((reached := math.prod(parts)) - sheet) > apart * sheet:
            said = " and ".join(f"{name} {getattr(device, name):.6g}" for name in names)
            yield f"{place} has {said}, which give {reached:.4g} {unit}; {machine.gpu} has {sheet:.6g}"
    for name in ("managed_memory", "concurrent_managed_access", "pageable_memory_access"):
        capability = "sam" if name == "pageable_memory_access" else "managed"
        if capability in machine.capabilities and getattr(device, name) is False:
            yield f"{place} has {name} false; the system file claims {capability}"


def _against_reading(device: Device, job: JobAccount | None, nvml: bool) -> Iterator[str]:
    """Compares a GPU with nvidia-smi's description in the job script, leaving out what nvidia-smi did not report and
    what a program without NVML cannot know."""
    card = next((card for card in job.cards if card.uuid == device.uuid), None) if job is not None else None
    if card is None:
        return
    for name in ("driver", "vbios", "serial", "pci_bus_id", "mig_enabled", "ecc_enabled", "persistence_mode"):
        said, seen = getattr(device, name), getattr(card, name)
        if seen not in (None, "") and (nvml or said not in (None, "")) and _plain(said) != _plain(seen):
            yield f"GPU {device.index} has {name} {said!r}; nvidia-smi in the job reports {seen!r}"


def _plain(value: object) -> str:
    """Without the zeros before a domain: 00000000:1B:00.0 and 0000:1b:00.0 are one PCI address."""
    return str(value).lower().lstrip("0")
