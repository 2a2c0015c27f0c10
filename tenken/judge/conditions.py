"""Conditions of a run: what invalidates its numbers (its GPUs, other activity on the machine), and hardware faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from tenken.judge import times
from tenken.judge.bounds import NOTE, locked
from tenken.judge.completeness import by_compiler
from tenken.judge.times import BY_DEVICE, SECONDS
from tenken.model.catalogue import Program
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Device, DeviceHealth, HealthSample, MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID, RECORDED
from tenken.model.xids import HARDWARE_XIDS, PROGRAM_XIDS, UNDECIDED_XIDS, events

#: Clock event reasons that void a measurement. A software power cap is normal under compute-bound load.
SLOWDOWN_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
#: Reasons that are only recorded. NVML has no others; one that is in neither list is a finding.
RECORDED_REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clock_setting")

#: A memory clock below this fraction of the maximum during the timed part is a wrong clock. GeForce under CUDA holds
#: P2, 0.909 (GTX 1080 Ti, 5005 of 5505 MHz) to 0.976 (RTX 4090, 10251 of 10501) of it; its rate has a floor of its own.
MEMORY_CLOCK_FLOOR = 0.90
#: Other processes that do nothing on a GPU before the run (a desktop, an MPS server, a monitor) are a note: at most
#: this utilization in percent (3 on 277 kept idle GPUs, 1.1 GiB in use), and this share of its memory, or these bytes.
IDLE_PERCENT, HELD_SHARE, HELD_BYTES = 5, 0.05, 2 * 2**30
#: Below this share of its highest clock a GPU is throttled, and its driver gives a reason: a software power cap, a
#: clock that was set. 380 results of H200 that give none hold the highest clock.
CLOCK_WITHOUT_REASON = 0.6
#: With a reason it falls no lower than this: clocks of a GPU under load do not fall to those of an idle one, which are
#: 0.058 (180 of 3,090 MHz, RTX PRO 6000) to 0.2 of the highest.
CLOCK_WITH_REASON, CLOCK_IDLE = 0.10, 0.04

#: Corrected memory errors that a run may have: one for any duration (a single environmental event), and this many
#: per hour. More of them indicate memory that will need attention, and each one costs time.
CORRECTED_OF_RUN = 1
CORRECTED_PER_HOUR = 4.0

#: Of a contract: only the first rank monitors GPUs; those of other ranks are read before and after the run.
FIRST_RANK = "first rank"
#: The option of a number of threads.
THREADS = "--threads"
#: Threads on so few CPUs as this share of them were not spread; kept runs have one on each, but for one of 1,283.
TOGETHER = 0.5
#: A GPU that worked draws more than it did before, by this many W, or was busy at one of the readings (0 of 990 kept
#: entries of healthy GPUs that worked show neither).
RISE_W = 15.0
#: Other processes that use fewer CPUs than this are not named: system daemons.
CPUS_NAMED = 0.2

Condition = tuple[str, str]


def of(result: Result, program: Program, request: Request, machine: Machine) -> list[Finding]:
    """Conditions that invalidate the run (INVALID) and hardware faults (FAIL), each with node and GPU."""
    node = result.node
    found: list[Finding] = []

    def note(verdict: str, subject: Subject | None, text: str) -> None:
        where = f"{node} {subject.place}" if subject else node
        kind = NOTE if verdict == RECORDED else ""
        found.append(Finding(verdict, f"{where}: {text}", None, subject, node, kind=kind))

    cores = result.placement.cores
    if request.cores is not None and cores < request.cores:
        note(INVALID, None, f"bound to {cores} cores; the system file claims {request.cores}")
    if not request.foreign and not result.by_others:
        for text in (*_threads(result), *_few_threads(result, request), *times.of(result, program)):
            note(INVALID, None, text)
    if request.gpus is not None and len(result.devices) < request.gpus:
        note(FAIL, None, f"{len(result.devices)} GPUs found; expected {request.gpus}")
    watched = [d for d in result.devices if not d.integrated]
    if watched and not result.health.available:
        why = result.health.reason or "no reason given"
        note(RECORDED, None, f"the health of the GPUs could not be read: {why}")
    elif watched:
        for verdict, gpu, text in _listed(result, watched):
            note(verdict, Subject("gpu", gpu), text)
    seconds = _seconds(result)
    of_first_rank = program.contract.watched_by == FIRST_RANK and result.placement.ranks > 1
    # copies by the CPU in memory that a GPU pinned: the GPU itself has no timed part
    of_host = bool(request.subjects) and set(request.subjects) <= {"host"}
    by_pcie = any(program.metrics[metric.name].crosses_pcie for metric in result.metrics)
    timed = {gpu for metric in result.metrics if metric.clock == BY_DEVICE for gpu in metric.subject.gpus}
    measured = {gpu for metric in result.metrics for gpu in metric.subject.gpus}
    for entry in result.health.devices:
        unwatched = entry.samples == 0 and entry.index not in measured
        during = not (unwatched and (of_first_rank or of_host))
        for verdict, text in _of_device(
            entry, result.device(entry.index), seconds, during, by_pcie, entry.index in timed,
            result.host.virtual_machine,
        ):  # fmt: skip
            note(verdict, Subject("gpu", entry.index), text)
    for subject, name, text in _falls(result, program):
        found.append(Finding(INVALID, f"{node} {subject.place}: {text}", name, subject, node))
    return [*found, *_links(result, machine), *_peers(result), *_locks(result, request)]


def _peers(result: Result) -> Iterator[Finding]:
    """GPUs with fewer active NVLinks than others of their model, and pairs joined by fewer links of one switch."""
    models: dict[str, list[Device]] = {}
    for device in result.devices:
        if device.nvlinks_active is not None and not device.mig_enabled:
            models.setdefault(device.name, []).append(device)
    for devices in models.values():
        most = max(device.nvlinks_active or 0 for device in devices)
        for device in devices:
            if (device.nvlinks_active or 0) < most:
                text = (
                    f"{result.node} GPU {device.index}: {device.nvlinks_active} NVLinks are active, {most} of its peers"
                )
                yield Finding(FAIL, f"{text}: hardware", None, Subject("gpu", device.index), result.node, kind="links")


def _links(result: Result, machine: Machine) -> Iterator[Finding]:
    """Pairs connected by fewer links than in the system file, naming those that are down."""
    needed = machine.links_per_pair
    for link in result.links:
        # a driver that does not report its links gives None: then nothing is compared
        if needed is None or link.count is None or link.count >= needed:
            continue
        subject = Subject("pair", link.first, link.second)
        down = [f"link {found} of GPU {gpu}" for gpu in subject.gpus if (found := result.inactive_links(gpu))]
        named = f"; inactive: {'; '.join(down)}" if down else ""
        text = f"{result.node} {subject.place}: {link.text}, the system file has {needed} links{named}"
        missed = (needed - link.count) / needed
        yield Finding(FAIL, text, None, subject, result.node, link.count, "1", needed, missed, "links")


def _listed(result: Result, watched: list[Device]) -> Iterator[tuple[str, int, str]]:
    """GPUs without an entry in health, entries without a GPU, duplicate entries."""
    entries = [entry.index for entry in result.health.devices]
    for device in watched:
        if entries.count(device.index) != 1:
            yield INVALID, device.index, f"health has {entries.count(device.index)} entries of it; expected 1"
    known = {device.index for device in result.devices}
    for index in sorted(set(entries) - known):
        yield INVALID, index, "health contains it, but the result does not list it"


def _seconds(result: Result) -> float:
    """Duration of the program; 0 if its times cannot be read (which is a separate finding)."""
    try:
        first, last = (datetime.fromisoformat(text.rstrip("Z")[:19]) for text in (result.started, result.finished))
    except ValueError:
        return 0.0
    return max(0.0, (last - first).total_seconds())


def _idle(entry: DeviceHealth) -> bool:
    """Whether a GPU did nothing, as far as its driver reports utilisation and power."""
    parts = (entry.before, entry.worst, entry.after)
    powers, busy = [one.power_w for one in parts], [entry.worst.utilization_percent, entry.after.utilization_percent]
    if None in powers or None in busy or entry.samples < 1:
        return False
    known = [power for power in powers if power is not None]
    return max(known) - min(known) < RISE_W and max(one or 0 for one in busy) <= IDLE_PERCENT


def _quiet(entry: DeviceHealth, device: Device | None) -> bool:
    """Whether nothing else was at work on a GPU before the run; the parts of one under MIG have neighbours."""
    if device is not None and device.mig_enabled:
        return True
    busy, used = entry.before.utilization_percent, entry.before.memory_used_bytes
    others = max(sample.other_processes or 0 for sample in (entry.worst, entry.after))
    if busy is None or used is None or device is None or others > (entry.before.other_processes or 0):
        return False
    return busy <= IDLE_PERCENT and used <= max(HELD_BYTES, HELD_SHARE * device.memory_bytes)


def _of_device(
    entry: DeviceHealth, device: Device | None, seconds: float, during: bool, by_pcie: bool = True,
    worked: bool = False, virtual: str | None = None,
) -> list[Condition]:  # fmt: skip
    worst = entry.worst
    found: list[Condition] = []
    if device is None or not device.integrated:
        found += _unread(entry, device, during)
    slow = [r for r in worst.reasons or () if r in SLOWDOWN_REASONS]
    if slow:
        found.append((INVALID, f"throttled during the timed part: {', '.join(slow)}"))
    for when, sample in (("before", entry.before), ("during the timed part", worst), ("after", entry.after)):
        unknown = sorted(set(sample.reasons or ()) - {*SLOWDOWN_REASONS, *RECORDED_REASONS})
        if unknown:
            found.append((RECORDED, f"clock event reasons {when} that are not known here: {', '.join(unknown)}"))
    clock, top = worst.memory_clock_mhz, device.memory_clock_max_mhz if device else None
    if clock is not None and (clock <= 0 or (top and clock < MEMORY_CLOCK_FLOOR * top)):
        found.append((INVALID, f"memory clock {clock:g} MHz during the timed part; the maximum is {top or 0:g} MHz"))
    found += _sm_clock(entry, device)
    if during and worked and _idle(entry):
        found.append((INVALID, "it was idle during the timed part: neither its utilisation nor its power rose"))
    found += _errors(entry, seconds)
    found += _xids(entry.xids)
    found += _remapping(entry)
    others = max((sample.other_processes or 0 for sample in (entry.before, worst, entry.after)), default=0)
    if others:
        quiet = _quiet(entry, device)
        done = ", which did nothing on it before the run" if quiet else ""
        found.append((RECORDED if quiet else INVALID, f"shared with {others} other processes{done}"))
    found += _pcie(entry, device, by_pcie, virtual)
    links, expected = worst.nvlinks_active, device.nvlinks_active if device else None
    if links is not None and expected is not None and links < expected:
        found.append((FAIL, f"{links} NVLinks were active during the run, {expected} before it"))
    return found


def _pcie(entry: DeviceHealth, device: Device | None, by_pcie: bool, virtual: str | None) -> Iterator[Condition]:
    """A link slower than both of its ends can be is a fault; below what the driver expects, it voids what it carries.

    The bridge of a guest is emulated, and tells nothing of the real one.
    """
    if device is None or device.integrated:
        return
    for name, now, most, gpu, bridge in (
        ("generation", entry.worst.pcie_generation, device.pcie_generation_max, device.pcie_generation_gpu,
         device.pcie_generation_bridge),
        ("width", entry.worst.pcie_width, device.pcie_width_max, device.pcie_width_gpu, device.pcie_width_bridge),
    ):  # fmt: skip
        both = min(gpu, bridge) if gpu and bridge and not virtual else None
        if now is not None and both is not None and now < both:
            ends = f"the GPU ({device.pci_bus_id}) can {gpu}, its bridge ({device.pcie_bridge}) {bridge}"
            yield FAIL, f"hardware: its link has PCIe {name} {now} under load; {ends}"
        elif now is not None and most is not None and now < most:
            yield INVALID if by_pcie else RECORDED, f"PCIe {name} {now} under load; the maximum is {most}"
    # programs that state the time of their timed part also read the ends
    ends_known = device.pcie_generation_gpu and device.pcie_generation_bridge
    if by_pcie and entry.seconds is not None and (virtual or not ends_known):
        why = f"in a guest of {virtual} the bridge is emulated" if virtual else "the kernel does not show both"
        yield RECORDED, f"whether its PCIe link is as fast as its two ends can be is not known: {why}"


#: A rate over a run: what its last quarter may be of its first. Without a reason of the driver at least 0.971 in kept
#: runs of H100 and H200; with one (power), or where none can be read of a product, at least 0.761.
FALLS, FALLS_CAPPED = 0.92, 0.70
#: Samples from which quarters are compared.
QUARTERS = 12


def _falls(result: Result, program: Program) -> Iterator[tuple[Subject, str, str]]:
    """Rates of GPUs that fall over the run as clocks do: throttled, whatever the driver reports."""
    entries = {entry.index: entry for entry in result.health.devices}
    for metric in result.metrics:
        declared, samples = program.metrics[metric.name], metric.samples
        if metric.clock != times.BY_DEVICE or metric.derived or declared.crosses_pcie or len(samples) < QUARTERS:
            continue
        entry = entries.get(metric.subject.first) if metric.kind == "gpu" else None
        device = result.device(metric.subject.first)
        if entry is None or device is None or locked(entry, device) or "/s" not in metric.unit:
            continue
        quarter, reasons = len(samples) // 4, entry.worst.reasons
        first, last = median(samples[:quarter]), median(samples[-quarter:])
        capped = bool(reasons) or (reasons is None and declared.by_power)
        if last < (FALLS_CAPPED if capped else FALLS) * first:
            clock = entry.worst.sm_clock_mhz
            told = "is not reported" if clock is None else f"is reported as {clock:g} MHz at least"
            given = "not readable" if reasons is None else ", ".join(reasons) or "none"
            yield (
                metric.subject, metric.id,
                f"{metric.id} fell by {100 * (1 - last / first):.0f} % over the run, as with its clock, which {told} "
                f"(reasons of the driver: {given})",
            )  # fmt: skip


#: Values reported by every discrete GPU: without any of them nothing was monitored.
_ALWAYS = ("memory_clock_mhz", "temperature_c", "reasons", "other_processes")


def _unread(entry: DeviceHealth, device: Device | None, during: bool) -> list[Condition]:
    """A GPU that nobody watched is no evidence; what its driver does not report, or no sensor can, is noted."""
    if during and entry.samples < 1:
        return [(INVALID, "health was not sampled during the timed part (samples is 0)")]
    found: list[Condition] = []
    for when, sample in (("before", entry.before), ("during the timed part", entry.worst), ("after", entry.after)):
        if sample is entry.worst and not during:
            continue
        silent = [name for name in _ALWAYS if getattr(sample, name) is None]
        if device is not None and device.ecc_enabled:
            silent += [name for name in ("ecc_corrected", "ecc_uncorrected") if getattr(sample, name) is None]
        if silent:
            found.append((RECORDED, f"health {when} does not report {', '.join(silent)}"))
        found += [
            (RECORDED, f"{name} {when} is {value:g}: a sensor is broken, or its driver")
            for name, low, high in _SENSIBLE
            if (value := getattr(sample, name)) is not None and not low <= value <= high
        ]
    return found


#: Range of a sensor: silicon works from -20 to 125 C, no board draws 5 kW.
_SENSIBLE = (("temperature_c", -20, 150), ("power_w", 0, 5000), ("utilization_percent", 0, 100))


def _sm_clock(entry: DeviceHealth, device: Device | None) -> Iterator[Condition]:
    """A GPU that was throttled, whatever its driver says of it."""
    worst = entry.worst
    clock, top = worst.sm_clock_mhz, device.sm_clock_max_mhz if device else None
    if not clock or not top or entry.samples < 1 or (device is not None and device.integrated):
        return
    if device is not None and locked(entry, device):
        return
    # reasons that could not be read are no reasons that were not given
    if worst.reasons == () and clock < CLOCK_WITHOUT_REASON * top:
        yield (
            INVALID,
            (
                f"sm_clock_mhz fell to {clock:g} of {top:g} during the timed part, and reasons contains none for it; "
                f"required without a reason: at least {CLOCK_WITHOUT_REASON * top:g}"
            ),
        )
    lowest = CLOCK_IDLE if "gpu_idle" in (worst.reasons or ()) else CLOCK_WITH_REASON
    if worst.reasons and clock < lowest * top:
        yield INVALID, f"sm_clock_mhz during the timed part is {clock:g}; minimum: {lowest * top:g} of {top:g}"


def _threads(result: Result) -> Iterator[str]:
    """Threads of a launcher that starts more of them than there are CPUs, or moves them off those it gave."""
    place, cpus = result.placement, result.host.logical_cpus
    if cpus is not None and place.threads > cpus:
        yield f"placement.threads: {place.threads}; the host has {cpus} logical CPUs"
    # -1: the system did not report where the thread ran
    where = [cpu for cpu in place.thread_cpus if cpu >= 0]
    if len(where) > 1 and len(set(where)) <= TOGETHER * len(where):
        yield f"placement.thread_cpus: {len(where)} threads ran on {len(set(where))} CPUs"
    outside = sorted(set(place.thread_cpus) - set(place.allowed_cpus) - {-1})
    if outside and place.allowed_cpus:
        yield f"placement.thread_cpus has CPU {outside[0]}, which is not in allowed_cpus"


def _few_threads(result: Result, request: Request) -> Iterator[str]:
    """A variable of the environment that takes threads away, unless a number was requested; ranks share the cores."""
    place, asked = result.placement, (*request.arguments, *(f"--{key}" for key in request.parameters))
    if place.ranks > 1 or result.devices or any(word.startswith(THREADS) for word in asked):
        return
    if place.threads < place.cores:
        yield f"placement.threads: {place.threads}; {place.cores} cores are available, and no number was requested"


def _rise(entry: DeviceHealth, name: str) -> tuple[int, str | None]:
    """The increase of a count over the run, and its errors."""
    readings = [getattr(sample, name) for sample in (entry.before, entry.worst, entry.after)]
    known = [count for count in readings if count is not None]
    if not known:
        return 0, None
    if readings[0] is None:
        return 0, None
    for earlier, later in pairwise(known):
        if later < earlier:
            return 0, f"{name} went from {earlier} back to {later} during the run: a counter was reset"
    return max(known) - readings[0], None


def _errors(entry: DeviceHealth, seconds: float) -> list[Condition]:
    """Memory errors during the run: uncorrected ones are a hardware fault."""
    found: list[Condition] = []
    for name, verdict in (("ecc_corrected", INVALID), ("ecc_uncorrected", FAIL)):
        rise, wrong = _rise(entry, name)
        kind = name.removeprefix("ecc_")
        allowed = max(CORRECTED_OF_RUN, CORRECTED_PER_HOUR * seconds / 3600) if verdict == INVALID else 0
        if wrong:
            found.append((INVALID, wrong))
        elif rise > allowed:
            more = f"; at most {allowed:g} in {seconds:g} s" if verdict == INVALID else ""
            found.append((verdict, f"{rise} {kind} ECC errors during the run{more}"))
    return found


def _xids(xids: tuple[int, ...]) -> Iterator[Condition]:
    xids = events(xids)
    hardware = [x for x in xids if x in HARDWARE_XIDS]
    program = [x for x in xids if x in PROGRAM_XIDS]
    other = [x for x in xids if x not in HARDWARE_XIDS and x not in PROGRAM_XIDS]
    if hardware:
        said = ", ".join(f"{x} ({HARDWARE_XIDS[x]})" for x in hardware)
        yield FAIL, f"hardware: XID {said} during the run"
    if program:
        said = ", ".join(f"{x} ({PROGRAM_XIDS[x]})" for x in program)
        yield FAIL, f"program: XID {said} during the run"
    if other:
        said = ", ".join(f"{x} ({UNDECIDED_XIDS[x]})" if x in UNDECIDED_XIDS else str(x) for x in other)
        yield INVALID, f"XID {said} during the run"


def _remapping(entry: DeviceHealth) -> Iterator[Condition]:
    """Memory rows replaced because of errors: pending or failed replacements require intervention."""
    samples: tuple[HealthSample, ...] = (entry.before, entry.worst, entry.after)
    if any(sample.remapping_failed for sample in samples):
        yield FAIL, "hardware: row remapping has failed (remapping_failed)"
    if any(sample.remapping_pending for sample in samples):
        yield FAIL, "hardware: row remapping is pending (remapping_pending): the GPU needs a reset"
    for name, verdict in (("remapped_rows_uncorrectable", FAIL), ("remapped_rows_correctable", INVALID)):
        rise, wrong = _rise(entry, name)
        if wrong:
            yield INVALID, wrong
        elif rise:
            yield verdict, f"{rise} further rows in {name} since the run began"


# ---- alone on the machine ---------------------------------------------------------------------------------------


def gave_up(result: Result) -> Finding | None:
    """For a run that measured nothing because another measurement held the machine."""
    if result.status != "failed" or result.locks is None or result.locks.shared_with is None:
        return None
    return Finding(INVALID, f"{result.node}: {result.locks.shared_with}", node=result.node)


def _locks(result: Result, request: Request) -> list[Finding]:
    """INVALID without evidence that no other measurement ran at the same time. Results that predate locks contain
    none.
    """
    locks, node = result.locks, result.node
    if locks is None:
        return []
    if locks.shared_with is not None:
        text = locks.shared_with
    elif locks.none_because is not None:
        text = (
            f"no lock against other measurements could be taken: {locks.none_because}; set TENKEN_LOCKS to a folder "
            f"that all users of the node may write to"
        )
    else:
        wanted = ["host"]
        # with several ranks reported by the first one, for a third-party program by the script of the first node
        if result.placement.ranks == 1 and not request.foreign:
            wanted += [device.uuid for device in result.devices if device.uuid]
        missing = [name for name in wanted if name not in locks.held]
        if not missing:
            return []
        text = f"no lock on {', '.join(missing)} was held: other measurements may have run at the same time"
    return [Finding(INVALID, f"{node}: {text}", node=node)]


def named(result: Result, found: Sequence[Finding]) -> list[Finding]:
    """In addition to the reasons that invalidate a run: other load, if any."""
    load = result.load
    if load is None or not any(f.verdict == INVALID for f in found):
        return []
    if load.others_cpu_seconds + load.steal_cpu_seconds < CPUS_NAMED * load.seconds:
        return []
    return [Finding(INVALID, f"{result.node}: load from elsewhere: {load.text()}", node=result.node)]


# ---- samples ---------------------------------------------------------------------------------------------------

#: This many samples that are all equal, or repeated in the same order, were not measured.
TRAIN = 5
#: A GPU's events come in steps of 32 ns and are good to 0.5 us (cudaEventElapsedTime): below this many seconds a few
#: samples may be equal (measured: five of 8.864 us), this many may not.
SHORT_SECONDS, LONG_TRAIN = 50e-6, 20
#: Samples of a GPU's events are copies if this many results, or fewer, would contain such equal ones by chance.
BY_CHANCE = 1e-4


def samples(result: Result, program: Program) -> list[Finding]:
    """Values with too few samples, or with too large a spread."""
    found = []
    compiled = by_compiler(result, program)
    for metric in result.metrics:
        declared = program.metrics[metric.name]
        where = f"{result.node} {metric.place}"
        text = ""
        needed = declared.min_count.get(metric.kind, 1)
        if metric.count < needed:
            text = f"{where}: {metric.id} has {metric.count} samples; at least {needed} are required"
            found.append(Finding(INVALID, text, metric.id, metric.subject, result.node))
        spread = declared.allowed_spread("host" if compiled else metric.kind, metric.at)
        if spread is not None and metric.spread > spread:
            text = (
                f"{where}: {metric.id} varies too much: median {metric.median:.6g}, best {metric.best:.6g} "
                f"{metric.unit}, {100 * metric.spread:.1f} % apart; at most {100 * spread:.1f} %"
            )
            found.append(Finding(INVALID, text, metric.id, metric.subject, result.node))
    return found + _trains(result, program)


def _trains(result: Result, program: Program) -> list[Finding]:
    """Samples that were not measured: all equal, two equal halves, or those of another metric."""
    found: list[Finding] = []
    # a ratio of exactly 1 to a rate has the samples of the other rate
    seen: dict[tuple[tuple[float, ...], bool], MetricValue] = {}
    for metric in result.metrics:
        samples, text = metric.samples, ""
        if len(samples) < TRAIN or program.metrics[metric.name].sign != "positive":
            continue
        first, second = samples[: len(samples) // 2], samples[len(samples) // 2 :]
        twin = seen.setdefault((samples, metric.unit == "1"), metric)
        if len(set(samples)) == 1:
            if metric.unit != "1" and not _may_be_alike(metric):
                text = f"all {len(samples)} samples are {samples[0]:g} {metric.unit}"
        elif len(first) >= TRAIN and first == second[: len(first)] and not _by_chance(metric, first, result):
            text = f"its first {len(first)} samples are repeated in the same order"
        elif twin is metric or _one_is_the_other(twin, metric, program) or _by_chance(metric, samples, result):
            pass
        else:
            text = f"its {len(samples)} samples equal those of {twin.id}"
        if text:
            where = f"{result.node} {metric.place}"
            message = f"{where}: {metric.id}: {text}: they were not measured"
            found.append(Finding(INVALID, message, metric.id, metric.subject, result.node))
    return found


def _may_be_alike(metric: MetricValue) -> bool:
    seconds = SECONDS.get(metric.unit)
    short = seconds is not None and metric.samples[0] * seconds < SHORT_SECONDS
    return short and metric.clock == "device" and len(metric.samples) < LONG_TRAIN


def _by_chance(metric: MetricValue, samples: tuple[float, ...], result: Result) -> bool:
    """Whether others may equal these `samples` of a metric by chance: of a short kernel an event's steps leave few
    values. Measured: two kernels of 5.952 us, five samples each, all but the fourth on the same step.
    """
    if metric.clock != "device":
        return False
    size = len(samples)
    pairs = sum(number * (number - 1) for number in Counter(samples).values())
    alike = pairs / (size * (size - 1))  # the chance that two samples are equal
    expected: float = len(result.metrics) * alike**size
    return expected > BY_CHANCE


def _one_is_the_other(one: MetricValue, other: MetricValue, program: Program) -> bool:
    """Whether a metric is selected from others of the same subject (the best of several methods)."""
    names = {one.name, other.name}
    chosen = any(
        program.metrics[name].chosen_of and names - {name} <= set(program.metrics[name].chosen_of) for name in names
    )
    return one.subject == other.subject and chosen
