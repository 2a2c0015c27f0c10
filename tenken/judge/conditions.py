"""Conditions of a run: what invalidates its numbers (its GPUs, other activity on the machine), and hardware faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from tenken.judge.bounds import locked, say
from tenken.judge.completeness import by_compiler
from tenken.model.catalogue import Program
from tenken.model.job import short
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Device, DeviceHealth, MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.values import Series
from tenken.model.verdicts import FAIL, INVALID, RECORDED
from tenken.model.xids import HARDWARE_XIDS, PROGRAM_XIDS, UNDECIDED_XIDS, events

#: Clock event reasons that void a measurement. A software power cap is normal under compute-bound load.
SLOWDOWN_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
#: Reasons that are only recorded. NVML has no others; an unlisted one is a finding.
RECORDED_REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clock_setting")

#: During the timed part, a memory clock below this fraction of the maximum is wrong. GeForce GPUs stay in P2 under
#: CUDA, at 0.909 (GTX 1080 Ti, 5005 of 5505 MHz) to 0.976 (RTX 4090, 10251 of 10501) of it; their rate has a separate
#: floor.
MEMORY_CLOCK_FLOOR = 0.90
#: Other processes that are idle on a GPU before the run (a desktop, an MPS server, a monitor) are only a note: at most
#: this utilisation in percent (3 on 277 GPUs kept idle, 1.1 GiB in use), and this share of its memory, or these bytes.
IDLE_PERCENT, HELD_SHARE, HELD_BYTES = 5, 0.05, 2 * 2**30
#: A GPU below this share of its highest clock is throttled if its driver gives a reason: a software power cap, a clock
#: that was set. 380 results of H200 without a reason stay at the highest clock.
CLOCK_WITHOUT_REASON = 0.6
#: With a reason, this is the lower bound of a GPU under load; idle clocks are 0.058 (180 of 3,090 MHz, RTX PRO 6000) to
#: 0.2 of the highest.
CLOCK_WITH_REASON, CLOCK_IDLE = 0.10, 0.04

#: Corrected memory errors that a run may have: one for any duration (a single environmental event), and this many per
#: hour. More errors indicate failing memory, and each one costs time.
CORRECTED_OF_RUN = 1
CORRECTED_PER_HOUR = 4.0

#: A value in a contract: only the first rank monitors GPUs, and those of other ranks are read before and after the run.
FIRST_RANK = "first rank"
#: The option for the number of threads.
THREADS = "--threads"
#: Threads on fewer CPUs than this share of their number were not spread; in all of 1,283 kept runs but one, each thread
#: has its own CPU.
TOGETHER = 0.5
#: A GPU that worked draws this many W more than before, or was busy at one of the readings (each of 990 kept entries
#: of healthy GPUs shows one or the other). Within less than these seconds sensors may show neither (4 to 9 W and
#: 3 % in 0.15 s of an H200): then memory in use decides, which rises by 67 MB or more in all of 1,679 kept entries.
RISE_W, TOLD_SECONDS, RISE_BYTES = 15.0, 1.0, 10**7
#: Other processes that use fewer CPUs than this are not named: system daemons.
CPUS_NAMED = 0.2
#: Threads of NVIDIA's driver that migrate this run's own managed memory: 0.8 CPUs in a stencil on two H200.
OF_DRIVER = "UVM GPU"

#: In the names of data sheets of GPUs that no bridge joins (systems/hardware.yaml).
MODULES = ("SXM", "GH200", "GB200", "GB300")

Condition = tuple[str, Subject | None, str]


def of(result: Result, program: Program, request: Request, machine: Machine) -> list[Finding]:
    """Conditions that invalidate the run (INVALID) and hardware faults (FAIL), each with node and GPU."""
    found = [say(verdict, result, text, subject) for verdict, subject, text in _all(result, program, request)]
    return [*found, *_elsewhere(result), *_falls(result, program), *_links(result, machine), *_peers(result, machine)]


def _all(result: Result, program: Program, request: Request) -> Iterator[Condition]:
    cores, health = result.placement.cores, result.health
    if request.cores is not None and cores < request.cores:
        yield INVALID, None, f"bound to {cores} cores; the system file claims {request.cores}"
    if not request.foreign and not result.by_others:
        for text in (*_threads(result, request), *times(result, program)):
            yield INVALID, None, text
    if request.gpus is not None and len(result.devices) < request.gpus:
        yield FAIL, None, f"{len(result.devices)} GPUs found; expected {request.gpus}"
    watched = [d for d in result.devices if not d.integrated]
    if watched and not health.available:
        yield RECORDED, None, f"the health of the GPUs could not be read: {health.reason or 'no reason given'}"
    elif watched:
        entries = Counter(entry.index for entry in health.devices)
        for gpu in (d.index for d in watched if entries[d.index] != 1):
            yield INVALID, Subject("gpu", gpu), f"health has {entries[gpu]} entries of it; expected 1"
        for gpu in sorted(set(entries) - {device.index for device in result.devices}):
            yield INVALID, Subject("gpu", gpu), "health contains it, but the result does not list it"
    seconds = _seconds(result)
    of_first_rank = program.contract.watched_by == FIRST_RANK and result.placement.ranks > 1
    # copies by the CPU in memory that a GPU pinned: the GPU has no timed part
    of_host = bool(request.subjects) and set(request.subjects) <= {"host"}
    by_pcie = any(program.metrics[metric.name].crosses_pcie for metric in result.metrics)
    timed = {gpu for metric in result.metrics if metric.clock == BY_DEVICE for gpu in metric.subject.gpus}
    measured = {gpu for metric in result.metrics for gpu in metric.subject.gpus}
    for entry in health.devices:
        unwatched = entry.samples == 0 and entry.index not in measured
        during = not (unwatched and (of_first_rank or of_host))
        device, subject = result.device(entry.index), Subject("gpu", entry.index)
        if device is None or not device.integrated:
            yield from ((verdict, subject, text) for verdict, text in _unread(entry, device, during))
        if during and entry.index in timed and _idle(entry):
            yield INVALID, subject, "it was idle during the timed part: neither its utilisation nor its power rose"
        for verdict, text in (
            *_clocks(entry, device), *_errors(entry, seconds), *_xids(entry.xids), *_others(entry, device),
            *_pcie(entry, device, by_pcie, result.host.virtual_machine),
        ):  # fmt: skip
            yield verdict, subject, text
    yield from _locks(result, request)


def _seconds(result: Result) -> float:
    begin, end = result.moments
    return max(0.0, end - begin) if begin is not None and end is not None else 0.0


def _elsewhere(result: Result) -> Iterator[Finding]:
    """What invalidates a run, or is a fault, on the GPUs of its other nodes, of which only the health is known."""
    for entry in result.health.elsewhere:
        node, subject = short(entry.node), Subject("gpu", entry.index)
        for verdict, text in (
            *_unread(entry, None, True), *_clocks(entry, None), *_errors(entry, _seconds(result)), *_xids(entry.xids),
            *_others(entry, None),
        ):  # fmt: skip
            if verdict != RECORDED:
                yield Finding(verdict, f"{node} {subject.place}: {text}", None, subject, node)


def _peers(result: Result, machine: Machine) -> Iterator[Finding]:
    """GPUs with fewer active NVLinks than others of their model. Bridges join cards in twos or fours, and others may be
    without one: there, no link at all is a note. The board of a module has all its links."""
    bridged = machine.links_per_pair is None and not any(board in machine.gpu for board in MODULES)
    models: dict[str, list[tuple[int, int]]] = {}
    for device in result.devices:
        if device.nvlinks_active is not None and not device.mig_enabled:
            models.setdefault(device.name, []).append((device.index, device.nvlinks_active))
    for counted in models.values():
        most, joined = max(links for _, links in counted), sum(links > 0 for _, links in counted)
        for index, links in counted:
            subject = Subject("gpu", index)
            if links == 0 < most and joined % 2 == 0 and bridged:
                text = f"no NVLink is active, {most} of its peers: it has no bridge, or the bridge is lost"
                yield say(RECORDED, result, text, subject)
            elif links < most:
                yield say(FAIL, result, f"{links} NVLinks are active, {most} of its peers: hardware", subject, "links")


def _links(result: Result, machine: Machine) -> Iterator[Finding]:
    """Pairs connected by fewer links than in the system file, naming those that are down."""
    needed = machine.links_per_pair
    for link in result.links:
        # a driver that does not report its links gives None: then nothing is compared
        if needed is None or link.count is None or link.count >= needed:
            continue
        subject = Subject("pair", link.first, link.second)
        down = [f"link {found} of GPU {gpu}" for gpu in subject.gpus if (found := result.inactive_links(gpu))]
        text = f"{link.text}, the system file has {needed} links{'; inactive: ' if down else ''}{'; '.join(down)}"
        lost = say(FAIL, result, text, subject, kind="links")
        yield replace(lost, value=link.count, unit="1", bound=needed, miss=(needed - link.count) / needed)


def _idle(entry: DeviceHealth) -> bool:
    """Whether a GPU was idle, by utilisation and power if its driver reports them; in a short timed part, also by its
    memory in use.
    """
    samples = (entry.before, entry.worst, entry.after)
    powers = [one.power_w for one in samples if one.power_w is not None]
    used = [one.memory_used_bytes for one in samples if one.memory_used_bytes is not None]
    busy = [one for one in (entry.worst.utilization_percent, entry.after.utilization_percent) if one is not None]
    if len(powers) < 3 or len(busy) < 2 or entry.samples == 0:
        return False
    short = entry.seconds is not None and entry.seconds < TOLD_SECONDS
    if short and (len(used) < 3 or max(used) - used[0] >= RISE_BYTES):
        return False
    return max(powers) - min(powers) < RISE_W and max(busy) <= IDLE_PERCENT


def _others(entry: DeviceHealth, device: Device | None) -> Iterator[tuple[str, str]]:
    """Other processes on a GPU: a note if it was quiet before and after the run; MIG instances have neighbours."""
    before, *later = [sample.other_processes or 0 for sample in (entry.before, entry.worst, entry.after)]
    others = max(before, *later)
    if not others:
        return
    busy, used = entry.before.utilization_percent, entry.before.memory_used_bytes
    if busy is None or used is None or max(later) > before:
        quiet = False
    else:
        held = HELD_SHARE * device.memory_bytes if device is not None else 0.0
        quiet = busy <= IDLE_PERCENT and used <= max(HELD_BYTES, held)
    began = quiet and (entry.others_percent or 0.0) > IDLE_PERCENT
    quiet = (quiet and not began) or (device is not None and bool(device.mig_enabled))
    done = ", which did nothing on it before the run" if quiet or began else ""
    done += f" and kept it {entry.others_percent:.0f} % busy after it" if began and not quiet else ""
    yield RECORDED if quiet else INVALID, f"shared with {others} other processes{done}"


def _clocks(entry: DeviceHealth, device: Device | None) -> Iterator[tuple[str, str]]:
    """A throttled GPU, for whatever reason its driver gives, and a GPU whose memory clock is low."""
    worst = entry.worst
    slow = [r for r in worst.reasons or () if r in SLOWDOWN_REASONS]
    if slow:
        yield INVALID, f"throttled during the timed part: {', '.join(slow)}"
    for when, sample in (("before", entry.before), ("during the timed part", worst), ("after", entry.after)):
        unknown = sorted(set(sample.reasons or ()) - {*SLOWDOWN_REASONS, *RECORDED_REASONS})
        if unknown:
            yield RECORDED, f"clock event reasons {when} that are not known here: {', '.join(unknown)}"
    clock, top = worst.memory_clock_mhz, device.memory_clock_max_mhz if device else None
    if clock is not None and (clock <= 0 or (top and clock < MEMORY_CLOCK_FLOOR * top)):
        yield INVALID, f"memory clock {clock:g} MHz during the timed part; the maximum is {top or 0:g} MHz"
    clock, top = worst.sm_clock_mhz, device.sm_clock_max_mhz if device else None
    if device is None or not clock or not top or entry.samples < 1 or device.integrated or locked(entry, device):
        return
    # unreadable reasons do not mean that there was none
    if worst.reasons == () and clock < CLOCK_WITHOUT_REASON * top:
        fell = f"sm_clock_mhz fell to {clock:g} of {top:g} during the timed part, and reasons contains none for it"
        yield INVALID, f"{fell}; required without a reason: at least {CLOCK_WITHOUT_REASON * top:g}"
    lowest = CLOCK_IDLE if "gpu_idle" in (worst.reasons or ()) else CLOCK_WITH_REASON
    if worst.reasons and clock < lowest * top:
        yield INVALID, f"sm_clock_mhz during the timed part is {clock:g}; minimum: {lowest * top:g} of {top:g}"


def _fewest(entry: DeviceHealth) -> int | None:
    """The fewest active NVLinks of a run, also at its end; None: not reported."""
    known = [one.nvlinks_active for one in (entry.worst, entry.after) if one.nvlinks_active is not None]
    return min(known, default=None)


def _pcie(entry: DeviceHealth, device: Device | None, by_pcie: bool, virtual: str | None) -> Iterator[tuple[str, str]]:
    """A link slower than both ends support is a fault. A link slower than the driver expects voids the values measured
    over it, unless it is as fast as its slot (OCuLink, two slots that share sixteen lanes): drivers state what the
    board supports (noonghunna/club-3090 353).

    A guest's bridge is emulated and does not describe the real one. Includes NVLinks that failed during the run.
    """
    if device is None:
        return
    links, expected = _fewest(entry), device.nvlinks_active
    if links is not None and expected is not None and links < expected:
        yield FAIL, f"{links} NVLinks were active during the run, {expected} before it"
    if device.integrated:
        return
    for name in ("generation", "width"):
        now = getattr(entry.worst, f"pcie_{name}")
        most, gpu, bridge = (getattr(device, f"pcie_{name}_{end}") for end in ("max", "gpu", "bridge"))
        both = min(gpu, bridge) if gpu and bridge and not virtual else None
        if now is not None and both is not None and now < both:
            ends = f"the GPU ({device.pci_bus_id}) can {gpu}, its bridge ({device.pcie_bridge}) {bridge}"
            yield FAIL, f"hardware: its link has PCIe {name} {now} under load; {ends}"
        elif now is not None and most is not None and now < most:
            voids = by_pcie and both is None
            yield INVALID if voids else RECORDED, f"PCIe {name} {now} under load; the maximum is {most}"
    # programs that state their timed part also read health at its ends
    ends_known = device.pcie_generation_gpu and device.pcie_generation_bridge
    if by_pcie and entry.seconds is not None and (virtual or not ends_known):
        why = f"in a guest of {virtual} the bridge is emulated" if virtual else "the kernel does not show both"
        yield RECORDED, f"whether its PCIe link is as fast as its two ends can be is not known: {why}"


#: Minimum ratio of the last to the first quarter of a run's rates. Kept runs of H100 and H200 reach at least 0.971 if
#: the driver gives no reason. They reach at least 0.761 if it does (power), or if a product's reasons cannot be read.
FALLS, FALLS_CAPPED = 0.92, 0.70
#: Minimum number of samples for quarters.
QUARTERS = 12


def _falls(result: Result, program: Program) -> Iterator[Finding]:
    """GPUs whose rates fall during the run as those of a throttled GPU do, whatever the driver reports."""
    entries = {entry.index: entry for entry in result.health.devices}
    for metric in result.metrics:
        declared, samples = program.metrics[metric.name], metric.samples
        if metric.clock != BY_DEVICE or metric.derived or declared.crosses_pcie or len(samples) < QUARTERS:
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
            text = (
                f"{metric.id} fell by {100 * (1 - last / first):.0f} % over the run, as with its clock, which {told} "
                f"(reasons of the driver: {given})"
            )
            yield say(INVALID, result, text, metric)


#: Values reported by every discrete GPU: without any of them nothing was monitored.
_ALWAYS = ("memory_clock_mhz", "temperature_c", "reasons", "other_processes")


def _unread(entry: DeviceHealth, device: Device | None, during: bool) -> Iterator[tuple[str, str]]:
    """Without readings, the values of a GPU prove nothing; what only its driver or sensors do not report is a note."""
    if during and entry.samples < 1:
        yield INVALID, "health was not sampled during the timed part (samples is 0)"
        return
    for when, sample in (("before", entry.before), ("during the timed part", entry.worst), ("after", entry.after)):
        if sample is entry.worst and not during:
            continue
        silent = [name for name in _ALWAYS if getattr(sample, name) is None]
        if device is not None and device.ecc_enabled:
            silent += [name for name in ("ecc_corrected", "ecc_uncorrected") if getattr(sample, name) is None]
        if silent:
            yield RECORDED, f"health {when} does not report {', '.join(silent)}"
        for name, low, high in _SENSIBLE:
            value = getattr(sample, name)
            if value is not None and not low <= value <= high:
                yield RECORDED, f"{name} {when} is {value:g}: a sensor is broken, or its driver"


#: Range of a sensor: silicon works from -20 to 125 C, no board draws 5 kW.
_SENSIBLE = (("temperature_c", -20, 150), ("power_w", 0, 5000), ("utilization_percent", 0, 100))


def _threads(result: Result, request: Request) -> Iterator[str]:
    """Findings on threads: more threads than CPUs, threads moved to other CPUs, a number limited by an environment
    variable although none was requested, ranks that share cores."""
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
    requested = any(word.startswith(THREADS) for word in (*request.arguments, *(f"--{k}" for k in request.parameters)))
    if place.ranks == 1 and not result.devices and not requested and place.threads < place.cores:
        yield f"placement.threads: {place.threads}; {place.cores} cores are available, and no number was requested"


def _errors(entry: DeviceHealth, seconds: float) -> Iterator[tuple[str, str]]:
    """Memory errors and replaced rows: counts that rise during the run, and replacements that failed or are pending."""
    samples = (entry.before, entry.worst, entry.after)
    for name, verdict, what in (
        ("ecc_corrected", INVALID, "corrected ECC errors during the run"),
        ("ecc_uncorrected", FAIL, "uncorrected ECC errors during the run"),
        ("remapped_rows_uncorrectable", FAIL, "further rows in remapped_rows_uncorrectable since the run began"),
        ("remapped_rows_correctable", INVALID, "further rows in remapped_rows_correctable since the run began"),
    ):
        counts = [count for sample in samples if (count := getattr(sample, name)) is not None]
        if getattr(entry.before, name) is None:
            continue
        fell = next(((early, late) for early, late in pairwise(counts) if late < early), None)
        allowed = max(CORRECTED_OF_RUN, CORRECTED_PER_HOUR * seconds / 3600) if name == "ecc_corrected" else 0
        if fell:
            yield INVALID, f"{name} went from {fell[0]} back to {fell[1]} during the run: a counter was reset"
        elif (rise := max(counts) - counts[0]) > allowed:
            yield verdict, f"{rise} {what}{f'; at most {allowed:g} in {seconds:g} s' if allowed else ''}"
    if any(sample.remapping_failed for sample in samples):
        yield FAIL, "hardware: row remapping has failed (remapping_failed)"
    if any(sample.remapping_pending for sample in samples):
        yield FAIL, "hardware: row remapping is pending (remapping_pending): the GPU needs a reset"


def _xids(xids: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Errors in the driver's log; one of unknown kind leaves the run undecided."""
    groups: dict[tuple[str, str], list[str]] = {}
    for xid in sorted(events(xids), key=lambda xid: (xid not in HARDWARE_XIDS, xid not in PROGRAM_XIDS)):
        known = {**UNDECIDED_XIDS, **PROGRAM_XIDS, **HARDWARE_XIDS}.get(xid)
        whose = "hardware: " if xid in HARDWARE_XIDS else "program: " if xid in PROGRAM_XIDS else ""
        said = str(xid) if known is None else f"{xid} ({known})"
        groups.setdefault((FAIL if whose else INVALID, whose), []).append(said)
    for (verdict, whose), known_as in groups.items():
        yield verdict, f"{whose}XID {', '.join(known_as)} during the run"


# ---- alone on the machine ---------------------------------------------------------------------------------------


def gave_up(result: Result) -> Finding | None:
    """The finding for a run that measured nothing because another measurement held the machine."""
    if result.status != "failed" or result.locks is None or result.locks.shared_with is None:
        return None
    return say(INVALID, result, result.locks.shared_with)


def _locks(result: Result, request: Request) -> Iterator[Condition]:
    """INVALID without evidence that no other measurement ran at the same time. Results that predate locks contain
    none.
    """
    locks = result.locks
    if locks is None:
        return
    if locks.shared_with is not None:
        yield INVALID, None, locks.shared_with
    elif locks.none_because is not None:
        text = f"no lock against other measurements could be taken: {locks.none_because}; set TENKEN_LOCKS to a folder "
        yield INVALID, None, f"{text}that all users of the node may write to"
    else:
        # with several ranks the first one reports it; for a third-party program, the script of the first node
        all_gpus = result.placement.ranks == 1 and not request.foreign
        wanted = ["host", *(device.uuid for device in result.devices if device.uuid and all_gpus)]
        missing = ", ".join(name for name in wanted if name not in locks.held)
        if missing:
            yield INVALID, None, f"no lock on {missing} was held: other measurements may have run at the same time"


def named(result: Result, found: Sequence[Finding]) -> list[Finding]:
    """Other load on the host: a reason where the run is INVALID anyway, or where a value of the host misses its bound
    next to a process that used a CPU; a note where that process ran next to another value of the host."""
    load = result.load
    least = CPUS_NAMED * load.seconds if load else 0.0
    if load is None or load.others_cpu_seconds + load.steal_cpu_seconds < least:
        return []
    host = {metric.id for metric in result.metrics if metric.subject.kind == "host"}
    beside = bool(host) and any(used >= least and not name.startswith(OF_DRIVER) for _, name, used in load.others)
    missed = beside and any(f.verdict == FAIL and f.metric in host for f in found)
    if missed or any(f.verdict == INVALID for f in found):
        return [say(INVALID, result, f"load from elsewhere: {load.text()}")]
    return [say(RECORDED, result, f"load from elsewhere: {load.text()}")] if beside else []


# ---- times --------------------------------------------------------------------------------------------------------

#: Units that are times, in seconds.
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: A metric's samples may take this much longer than the run: older results round to seconds, others to milliseconds.
ROUNDED_S, SLACK_S = 1.0, 0.1
#: Maximum ratio of all device times of a GPU to its timed part, since kernels of two streams overlap (kept runs: 0.9).
OF_TIMED = 1.5
#: Minimum share of the timed part that is measured. Kept runs have 0.38 (HPL, which verifies in between) to 2.2
#: (Himeno, two clocks), with the timed part as readings times their interval of 0.05 s, which a slow NVML lengthens.
OF_READINGS, READING_S, ENOUGH_READINGS = 0.1, 0.05, 5
#: Minimum share of the whole run that is measured: kept runs have 0.08 (a stencil with a second of warm-up) to 1.5.
#: Only for a single process: launchers may take minutes.
OF_RUN = 0.002
#: The clock of what a GPU executes.
BY_DEVICE = "device"


def times(result: Result, program: Program) -> Iterator[str]:
    """Messages on times that disagree with the run or its timed part as other clocks measured them (the run's, the
    health readings'). A wrong clock or repetition count shows as a factor."""
    begin, end = result.moments
    if begin is None or end is None:
        return
    run, slack = end - begin, SLACK_S if "." in result.started and "." in result.finished else ROUNDED_S
    for where, total, count in _spans(result, program):
        if total > run + slack:
            yield f"{where}: its {count} samples take {total:.4g} s together; the run took {run:.4g} s"
    timed = [one for one in result.series if one.seconds and one.samples]
    units = {program.metrics[one.name].unit for one in result.series if not one.seconds and one.name in program.metrics}
    # rates without times, file benchmarks, and runs with a separate pass for power do not state all their times
    short = bool(timed) and program.contract.timed
    whole = short and not result.file_system and not any("/s" in unit or unit == "W" for unit in units)
    for entry in result.health.devices:
        mine = [one for one in timed if entry.index in one.subject.gpus]
        device = sum(one.duration for one in mine if one.clock == BY_DEVICE)
        if entry.seconds and device > OF_TIMED * entry.seconds + slack:
            yield (
                f"GPU {entry.index}: its samples take {device:.4g} s by its own clock; its timed part took "
                f"{entry.seconds:.4g} s"
            )
        # ranks that share a GPU have no timed part of their own
        total = sum(one.duration for one in timed if entry.index in one.subject.gpus or not one.subject.gpus)
        least = OF_READINGS * READING_S * entry.samples
        if whole and mine and entry.samples >= ENOUGH_READINGS and total < least:
            yield (
                f"GPU {entry.index}: its samples take {total:.4g} s together; health was read {entry.samples} times "
                f"in its timed part, which took {READING_S * entry.samples:.4g} s or more"
            )
    total = sum(one.duration for one in timed)
    least = OF_RUN if result.devices else max(OF_RUN, program.contract.least)
    if short and result.placement.ranks == 1 and total < least * run:
        yield f"all samples take {total:.4g} s together; the run took {run:.4g} s"


def _spans(result: Result, program: Program) -> Iterator[tuple[str, float, int]]:
    """What was measured sequentially: name, seconds, samples. Points of one metric are sequential, except parts of the
    same time, which may overlap. In results that state only values, the samples of each value are sequential too."""
    if not result.series:
        for metric in result.metrics:
            if metric.unit in SECONDS:
                yield f"{metric.place}: {metric.id}", sum(metric.samples) * SECONDS[metric.unit], metric.count
        return
    found: dict[str, list[Series]] = defaultdict(list)
    for one in result.series:
        if one.seconds:
            declared = program.metrics.get(one.name)
            # a time that may be 0 is a part of another one
            alone = declared is not None and declared.sign == "zero"
            name = " ".join((one.name, *(map(str, one.at.values()) if alone else ())))
            found[f"{one.subject.place}: {name} by the clock of the {one.clock or 'host'}"].append(one)
    for where, parts in found.items():
        yield where, sum(one.duration for one in parts), sum(len(one.samples) for one in parts)


# ---- samples ---------------------------------------------------------------------------------------------------

#: This many samples that are all equal, or repeat in the same order, were not measured.
TRAIN = 5
#: A GPU's events have steps of 32 ns and are accurate to 0.5 us (cudaEventElapsedTime). Below this many seconds a few
#: samples may be equal (measured: five of 8.864 us), but not this many.
SHORT_SECONDS, LONG_TRAIN = 50e-6, 20
#: Samples from a GPU's events count as copies if at most this many results would have this many equal ones by chance.
BY_CHANCE = 1e-4


def samples(result: Result, program: Program) -> list[Finding]:
    """Values with too few samples, or with too large a spread."""
    found = []
    compiled = by_compiler(result, program)
    for metric in result.metrics:
        declared = program.metrics[metric.name]
        needed = declared.min_count.get(metric.kind, 1)
        if metric.count < needed:
            text = f"{metric.id} has {metric.count} samples; at least {needed} are required"
            found.append(say(INVALID, result, text, metric))
        spread = declared.allowed_spread("host" if compiled else metric.kind, metric.at)
        if spread is not None and metric.spread > spread:
            text = (
                f"{metric.id} varies too much: median {metric.median:.6g}, best {metric.best:.6g} "
                f"{metric.unit}, {100 * metric.spread:.1f} % apart; at most {100 * spread:.1f} %"
            )
            found.append(say(INVALID, result, text, metric))
    return found + _trains(result, program)


def _trains(result: Result, program: Program) -> list[Finding]:
    """Samples that were not measured: all equal, two equal halves, or equal to those of another metric."""
    found: list[Finding] = []
    # a ratio of exactly 1 to another rate has that rate's samples
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
            found.append(say(INVALID, result, f"{metric.id}: {text}: they were not measured", metric))
    return found


def _may_be_alike(metric: MetricValue) -> bool:
    seconds = SECONDS.get(metric.unit)
    short = seconds is not None and metric.samples[0] * seconds < SHORT_SECONDS
    return short and metric.clock == "device" and len(metric.samples) < LONG_TRAIN


def _by_chance(metric: MetricValue, samples: tuple[float, ...], result: Result) -> bool:
    """Whether samples of two metrics may be equal by chance: the event times of a short kernel have few distinct
    values.
    Measured: two kernels of 5.952 us, five samples each; all but the fourth were on the same step.
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
