"""Expectation, last good state and readings in; findings out. Pure functions: nothing is read here.

A finding is `bad` (the device is at fault: exit 1), `unsure` (exit 2, never drains: a required value is unknown, or
changed as an operator might change it on purpose) or `note` (reported only). What could not be read is unknown, and
gives a finding only if it is expected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tenken.counters import COUNTERS, NOTED, change
from tenken.errors import printable
from tenken.model.xids import ACTION_XID, HARDWARE_XIDS, PROGRAM_XIDS, UNDECIDED_XIDS
from tenken.node.gpus import ACTIONS, LIB_RM_VERSION_MISMATCH
from tenken.node.probe import Answer

ORDER = BAD, UNSURE, NOTE = "bad", "unsure", "note"
#: Beginning of our reasons in a scheduler.
PREFIX = "tenken: "
#: Maximum length of a finding's line: what `sinfo -R` and `pbsnodes` show in full.
LINE = 64

#: Seconds without an answer that count as hanging. NVML needs 2 s to start on eight GPUs without persistence mode, and
#: a busy file system as long; with less time than this, a missing answer is not a fault.
HUNG_S = 4.0
#: DCGM's limits (dcgm_gpu_hardware_limits.h): PCIe replays a minute, CRC errors of NVLink a second. Its limit of one
#: NVLink replay or recovery is used here for recoveries; a replay repeats one packet, and ten per hour is our limit.
PCIE_PER_MINUTE = 8
NVLINK_CRC_PER_SECOND = 100
NVLINK_REPLAYS_PER_HOUR = 10
#: Link failures and recoveries of a network port. None is normal while a node is up; two are a flap, since one may be a
#: restart of the switch. Symbol errors: a link of 4 x 10 Gbit/s may have 120 per hour at the error rate of 1e-12 that
#: the InfiniBand specification allows; faster links correct theirs before they count.
FLAPS = 2
PORT_ERRORS_PER_HOUR = 120
#: This number of corrected errors per hour is a storm: each one costs time, and drivers do not suppress that many for
#: long. The threshold is ours.
CORRECTED_PER_HOUR = 1000
#: An idle GPU this close to its slowdown temperature is not cooled.
IDLE_BELOW_SLOWDOWN_C = 5
#: Memory in use on an idle GPU without a process. What the driver keeps for itself is NVML's `reserved`, not `used`.
LEFT_BYTES = 512 << 20
#: A power limit reads back as it was set, within one watt.
POWER_SHARE = 0.01
#: Kernel and firmware keep some memory; compared with the last state, at most one per cent may be missing.
MEMORY_KEPT, MEMORY_LOST = 0.08, 0.01

#: NVLink errors that are a fault from the first one on, for all links together (since NVLink 5) and per link
#: (`recovery.3`).
_LINK_FATAL = ("recovery", "recovery_failed", "malformed_packets", "buffer_overruns")
_LINK_REPEATED = ("replay", "link_integrity", "effective_errors", "receive_errors")
_PORT_FLAPS = ("link_downed", "link_error_recovery", "carrier_down_count", "hw.link_downed")
_PORT_NOTED = frozenset(name for name, one in COUNTERS.items() if one.rise == NOTED)


@dataclass(frozen=True)
class Finding:
    """`device` in an operator's words: `gpu 3`, `mlx5_0/1`, `/scratch`, `host`."""

    severity: str
    device: str
    reason: str
    uuid: str = ""

    @property
    def line(self) -> str:
        """At most 64 characters; schedulers use it as the reason of a drained node."""
        text = printable(f"{PREFIX}{self.device}: {self.reason}").replace("\n", " ").replace('"', "'")
        return text if len(text) <= LINE else text[: LINE - 1] + "~"


@dataclass(frozen=True)
class Seen:
    """All inputs of a verdict."""

    expect: Mapping[str, Any]
    last: Mapping[str, Any] | None
    """The state file's content: `time`, `gpus`, `driver`, `host`."""
    answers: Mapping[str, Answer]
    """By probe: `gpus`, `host`, `bus`, `file system PATH`."""
    now: float = 0.0
    """Seconds since 1970."""
    mine: frozenset[int] | None = None
    """GPUs that are this job's or stated to be idle; None: not stated."""
    waited: float = 60.0
    """Seconds available to a probe."""
    root: bool = True
    """An ordinary user sees only the job's GPUs."""

    @property
    def seconds(self) -> float:
        """Seconds since the last good state; at least a minute, so that rates are finite."""
        return max(60.0, self.now - float((self.last or {}).get("time", 0)))

    def host(self, when: str = "now") -> Mapping[str, Any]:
        """The host's readings, `now` or `last`."""
        found = self.answers["host"].value if when == "now" and "host" in self.answers else None
        return (found or {}) if when == "now" else (self.last or {}).get("host") or {}

    @property
    def same_boot(self) -> bool:
        """Whether the node was not restarted since the last good state."""
        return self.host("last").get("boot") is not None and self.host("last").get("boot") == self.host().get("boot")


def findings(seen: Seen) -> list[Finding]:
    """All findings, worst first."""
    found = [*_probes(seen), *_driver(seen), *_gpus(seen), *_host(seen), *_log(seen), *_ports(seen), *_files(seen)]
    return sorted(dict.fromkeys(found), key=lambda one: ORDER.index(one.severity))


def status(found: Sequence[Finding]) -> int:
    """The exit status: 0, 1 if something is bad, 2 if it is unknown whether something is."""
    return 1 if any(f.severity == BAD for f in found) else 2 if any(f.severity == UNSURE for f in found) else 0


# -- what did not answer ---------------------------------------------------------------------------------------------


def _probes(seen: Seen) -> Iterator[Finding]:
    for name, answer in seen.answers.items():
        if answer.hung:
            device = answer.at or name.removeprefix("file system ")
            severity = BAD if seen.waited >= HUNG_S else UNSURE
            yield Finding(severity, device, f"no answer within {seen.waited:.3g} s")
        elif answer.error and not name.startswith("file system "):
            yield Finding(UNSURE, name, f"cannot be read: {answer.error}")


# -- GPUs ------------------------------------------------------------------------------------------------------------


def _driver(seen: Seen) -> Iterator[Finding]:
    answer = seen.answers.get("gpus")
    system = (answer.parts.get("driver") if answer else None) or {}
    wanted = seen.expect.get("gpus", {})
    count = wanted.get("count", len((seen.last or {}).get("gpus") or []))
    if why := system.get("why"):
        if system.get("code") == LIB_RM_VERSION_MISMATCH:
            yield Finding(BAD, "driver", "library and kernel module differ (NVML 18)")
        elif count and (seen.last or {}).get("gpus"):
            yield Finding(BAD, "driver", f"NVML is gone: {why}")
        elif count:
            yield Finding(UNSURE, "driver", f"no NVML: {why}")
        return
    driver, last = system.get("driver"), (seen.last or {}).get("driver")
    if driver and wanted.get("driver") not in (None, driver):
        yield Finding(UNSURE, "driver", f"{driver}, expected {wanted['driver']}")
    elif driver and "driver" not in wanted and last not in (None, driver):
        yield Finding(UNSURE, "driver", f"{driver}, was {last}; node accept confirms")


def _gpus(seen: Seen) -> Iterator[Finding]:
    answer = seen.answers.get("gpus")
    system = (answer.parts.get("driver") if answer else None) or {}
    if answer is None or system.get("why"):
        return
    gpus = [part for name, part in answer.parts.items() if name != "driver"]
    before = {gpu["uuid"]: gpu for gpu in (seen.last or {}).get("gpus") or [] if gpu.get("uuid")}
    if not answer.hung and not answer.error:
        yield from _missing(seen, gpus, before, system.get("count"))
    for gpu in gpus:
        device = f"gpu {gpu['index']}"
        was = before.get(gpu.get("uuid"))
        mine = seen.mine is not None and gpu["index"] in seen.mine
        if gpu.get("lost"):
            yield Finding(BAD, device, "lost: it does not answer the driver", gpu.get("uuid") or "")
            continue
        if gpu.get("uuid") is None:  # no handle: a GPU of another job, hidden by control groups
            continue
        for severity, reason in (
            *_settings(gpu, was, seen.expect.get("gpus", {})),
            *_memory_errors(gpu, was, seen.seconds),
            *_links(gpu, was, seen.expect.get("gpus", {}), seen.seconds),
            *_pcie(gpu, was, seen),
            *_conditions(gpu, mine),
        ):
            yield Finding(severity, device, reason, gpu["uuid"])
    yield from _domain(gpus)
    yield from _imex(gpus, seen.host().get("imex"))


def _imex(gpus: Sequence[Mapping[str, Any]], state: str | None) -> Iterator[Finding]:
    """Whether nodes of an NVLink domain can share the memory of their GPUs; a cluster of zeros is no such domain."""
    if not any(fabric["cluster"].strip("0") for gpu in gpus if (fabric := gpu.get("fabric"))):
        return
    if state not in (None, "READY"):
        yield Finding(BAD, "imex", f"{state}: nodes cannot share GPU memory")


def _domain(gpus: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """GPUs in another NVLink domain or clique than most of their node: they cannot reach the others over NVLink. Only
    after registration has completed, since its own faults are reported separately."""
    told = {
        gpu["index"]: (fabric["cluster"], fabric["clique"])
        for gpu in gpus
        if (fabric := gpu.get("fabric")) and fabric["state"] == "completed" and fabric["status"] == 0
    }
    if len(set(told.values())) < 2:
        return
    counts = Counter(told.values())
    most = max(counts, key=lambda one: (counts[one], one[0].strip("0") != ""))
    for index, (cluster, clique) in told.items():
        if (cluster, clique) != most:
            where = f"cluster {cluster[:8]}/{clique}" if cluster.strip("0") else "no NVLink domain"
            yield Finding(BAD, f"gpu {index}", f"fabric: {where}; others: {most[0][:8]}/{most[1]}")


def _missing(
    seen: Seen, gpus: Sequence[Mapping[str, Any]], before: Mapping[str, Any], count: int | None
) -> Iterator[Finding]:
    """GPUs that are missing, and unexpected ones in their place."""
    here = {gpu.get("uuid") for gpu in gpus}
    buses = {gpu.get("bus"): gpu for gpu in gpus if gpu.get("uuid")}
    gone = [gpu for uuid, gpu in before.items() if uuid not in here]
    unlisted = len(gpus) - len(here - {None})
    for gpu in gone:
        new = buses.get(gpu.get("bus"))
        device = f"gpu {gpu['index']}"
        if new and new["uuid"] not in before:
            yield Finding(UNSURE, device, f"replaced, was {gpu['uuid'][:12]}; node accept confirms", new["uuid"])
        elif seen.root and not unlisted:
            yield Finding(BAD, device, f"missing: {gpu['uuid'][:12]} at {gpu.get('bus')}", gpu["uuid"])
    on_bus = seen.host().get("gpus_on_bus") or []
    for bus in on_bus if seen.root and not unlisted else ():
        if count is not None and bus not in buses and bus not in [gpu.get("bus") for gpu in gone]:
            yield Finding(BAD, f"gpu {bus}", "on the bus, not shown by the driver")
    wanted = seen.expect.get("gpus", {}).get("count")
    if wanted is not None and count is not None and count != wanted and not gone:
        fewer = count < wanted
        known = seen.root or (on_bus and len(on_bus) < wanted)
        severity = NOTE if not known else BAD if fewer else UNSURE
        yield Finding(severity, "node", f"{count} GPUs, expected {wanted}")


#: Settings of a GPU: key of the reading, key of the expectation, words.
_MODES = (("ecc", "ecc", "ECC"), ("mig", "mig", "MIG"), ("persistence", "persistence", "persistence mode"))


def _settings(
    gpu: Mapping[str, Any], was: Mapping[str, Any] | None, wanted: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """A setting that differs from the expectation is bad; one that differs only from the last state is unsure: somebody
    may have changed it on purpose."""
    names = wanted.get("names")
    if names and gpu["name"] and not any(re.fullmatch(name, gpu["name"]) for name in names):
        yield BAD, f"is {gpu['name']}, expected {names[0]}"
    for key, expected, said in _MODES:
        mode, old = gpu[key], (was or {}).get(key)
        if mode is None:
            continue
        if expected in wanted:
            if bool(mode) != wanted[expected]:
                yield BAD, f"{said} is {'on' if mode else 'off'}, expected {'on' if wanted[expected] else 'off'}"
        elif old is not None and mode != old:
            yield UNSURE, f"{said} is {'on' if mode else 'off'}, was {'on' if old else 'off'}"
    if gpu["vbios"] and wanted.get("vbios", gpu["vbios"]) != gpu["vbios"]:
        yield UNSURE, f"VBIOS {gpu['vbios']}, expected {wanted['vbios']}"
    power, old = gpu["power_limit_w"], (was or {}).get("power_limit_w")
    if power is not None:
        if "power_limit_w" in wanted:
            if abs(power - wanted["power_limit_w"]) > POWER_SHARE * wanted["power_limit_w"]:
                yield BAD, f"power limit {power:.0f} W, expected {wanted['power_limit_w']:.0f} W"
        elif old is not None and abs(power - old) > POWER_SHARE * old:
            yield UNSURE, f"power limit {power:.0f} W, was {old:.0f} W"
    clock, default = gpu["clock_set_mhz"], gpu["clock_default_mhz"]
    if clock is not None and default is not None and clock < default:
        yield BAD, f"clock set to {clock} of {default} MHz"
    fabric = gpu["fabric"]
    if fabric is None and wanted.get("fabric"):
        yield UNSURE, "fabric state cannot be read"
    elif fabric and fabric["state"] != "completed":
        yield BAD, f"fabric: {fabric['state']}"
    elif fabric and fabric["status"] != 0:
        yield BAD, f"fabric: registration failed ({fabric['status']})"
    elif fabric and (unhealthy := [one for one in fabric["health"] if "progress" not in one]):
        yield BAD, f"fabric: {', '.join(unhealthy)}"
    elif fabric and fabric["summary"] in ("unhealthy", "limited capacity"):
        yield BAD if fabric["summary"] == "unhealthy" else UNSURE, f"fabric: {fabric['summary']}"
    elif fabric and fabric["health"]:
        yield UNSURE, f"fabric: {', '.join(fabric['health'])}"
    elif fabric and was and was.get("fabric"):
        for key in ("cluster", "clique"):
            if fabric[key] != was["fabric"].get(key):
                yield UNSURE, f"fabric: {key} {str(fabric[key])[:8]}, was {str(was['fabric'].get(key))[:8]}"


def _memory_errors(gpu: Mapping[str, Any], was: Mapping[str, Any] | None, seconds: float) -> Iterator[tuple[str, str]]:
    life = change((was or {}).get("ecc_uncorrected_life"), gpu["ecc_uncorrected_life"])
    volatile, old = gpu["ecc_uncorrected"], (was or {}).get("ecc_uncorrected")
    # without a last state all of them are new, as after a reset of the counter
    recent = None if volatile is None else volatile - old if old is not None and old <= volatile else volatile
    if new := max(life or 0, recent or 0):
        yield BAD, f"{new} uncorrected memory error{'s' if new > 1 else ''}"
    corrected = change((was or {}).get("ecc_corrected"), gpu["ecc_corrected"])
    if corrected:
        storm = corrected > CORRECTED_PER_HOUR * max(1.0, seconds / 3600)
        yield BAD if storm else NOTE, f"{corrected} new corrected memory errors"
    rows = gpu["remapped"] or {}
    if rows.get("failed"):
        yield BAD, "row remapping failed: replace it"
    if rows.get("pending"):
        yield BAD, "row remapping pending: reset it"
    if gpu["retired_pending"]:
        yield BAD, "page retirement pending: reset it"
    action = gpu["recovery_action"]
    if action:
        yield BAD, f"the driver asks for: {ACTIONS.get(action, action)}"


def _links(
    gpu: Mapping[str, Any], was: Mapping[str, Any] | None, wanted: Mapping[str, Any], seconds: float
) -> Iterator[tuple[str, str]]:
    up = gpu["nvlinks"]
    old = (was or {}).get("nvlinks") or []
    if up is not None:
        down = [i for i, state in enumerate(old) if state and (i >= len(up) or up[i] is False)]
        number = sum(1 for state in up if state)
        if down:
            yield BAD, f"NVLink {', '.join(map(str, down[:6]))} down, was up"
        elif "nvlinks" in wanted and number < wanted["nvlinks"]:
            yield BAD, f"{number} of {wanted['nvlinks']} NVLinks up"
    elif wanted.get("nvlinks") or old:
        yield UNSURE, "NVLinks cannot be read"
    before = (was or {}).get("nvlink_errors") or {}
    for name, value in gpu["nvlink_errors"].items():
        new = change(before.get(name), value)
        if not new:
            continue
        kind, _, link = name.partition(".")
        where = f"NVLink {link}" if link else "NVLinks"
        said = f"{where}: {new} new {kind.replace('_', ' ')}"
        if kind in _LINK_FATAL:
            limit = 0.0
        elif kind in _LINK_REPEATED:
            limit = NVLINK_REPLAYS_PER_HOUR * max(1.0, seconds / 3600)
        else:
            limit = NVLINK_CRC_PER_SECOND * seconds
        yield BAD if new > limit else NOTE, said


def _pcie(gpu: Mapping[str, Any], was: Mapping[str, Any] | None, seen: Seen) -> Iterator[tuple[str, str]]:
    wanted = seen.expect.get("gpus", {})
    width, most = gpu["pcie_width"], wanted.get("pcie_width", gpu["pcie_width_max"])
    slot = (seen.host().get("slots") or {}).get(gpu["bus"], 0)
    # the driver states what the board can; a slot that is narrower than the link is a guest's
    if "pcie_width" not in wanted and slot == width == (was or {}).get("pcie_width", width):
        most = slot
    if width is not None and most is not None and width < most:
        yield BAD, f"PCIe x{width} of x{most}"
    ability, full = gpu["pcie_generation_max"], wanted.get("pcie_generation")
    old = (was or {}).get("pcie_generation_max")
    if ability is not None and ability < (full or old or 0):
        yield BAD, f"PCIe Gen{ability} at most, {'expected' if full else 'was'} Gen{full or old}"
    now = gpu["pcie_generation"]
    # an idle link may train down, so only a faster rate in the same power state is evidence
    if was and was.get("pstate") == gpu["pstate"] == 0 and now is not None and now < (was.get("pcie_generation") or 0):
        yield BAD, f"PCIe Gen{now}, was Gen{was['pcie_generation']}"
    bus = seen.answers.get("bus")
    counted = {
        "replays": ((was or {}).get("pcie_replay"), gpu["pcie_replay"]),
        **{k: (((was or {}).get("pcie_errors") or {}).get(k), v) for k, v in gpu["pcie_errors"].items()},
    }
    of_kernel = ((bus.value if bus else None) or {}).get(gpu["bus"]) or {}
    before = ((seen.last or {}).get("bus") or {}).get(gpu["bus"]) or {} if seen.same_boot else {}
    counted |= {f"AER {k}": (before.get(k), v) for k, v in of_kernel.items()}
    for name, (first, last) in counted.items():
        new = change(first, last)
        if new:
            limit = 0.0 if name.endswith("fatal") else PCIE_PER_MINUTE * seen.seconds / 60
            unit = name if name == "replays" else f"{name} errors"
            # a link that changes its speed recovers each time
            severity = BAD if new > limit and name != "l0_to_recovery" else NOTE
            yield severity, f"PCIe: {new} new {unit}"


def _conditions(gpu: Mapping[str, Any], mine: bool) -> Iterator[tuple[str, str]]:
    slow = gpu["slowdowns"] or []
    # under another job's load a hot GPU is slowed down by software, which is not a fault
    hard = [reason for reason in slow if reason != "sw_thermal" or mine]
    if hard:
        yield BAD, f"slowed down: {', '.join(hard)}"
    elif slow:
        yield NOTE, f"slowed down: {', '.join(slow)}"
    if not mine:
        return
    left = gpu["processes"] or []
    if left:
        yield BAD, f"process {', '.join(map(str, left[:4]))} left on it"
    elif (gpu["memory_used_bytes"] or 0) > LEFT_BYTES:
        yield BAD, f"{gpu['memory_used_bytes'] / 2**30:.1f} GiB not freed"
    hot, limit = gpu["temperature_c"], gpu["slowdown_c"]
    if not left and hot is not None and limit and hot > limit - IDLE_BELOW_SLOWDOWN_C:
        yield BAD, f"{hot} C without load, slows down at {limit}"


# -- host ------------------------------------------------------------------------------------------------------------


def _host(seen: Seen) -> Iterator[Finding]:
    now, last, wanted = seen.host(), seen.host("last"), seen.expect.get("host", {})
    if not now:
        return
    memory, old = now.get("memory_bytes"), last.get("memory_bytes")
    if memory is not None:
        gib = wanted.get("memory_gib")
        if old is not None and memory < old * (1 - MEMORY_LOST):
            yield Finding(BAD, "host", f"{memory / 2**30:.0f} GiB of memory, was {old / 2**30:.0f}")
        elif gib is not None and memory < gib * 2**30 * (1 - MEMORY_KEPT):
            yield Finding(BAD, "host", f"{memory / 2**30:.0f} GiB of memory, expected {gib:.0f}")
    cores, full = now.get("cores"), wanted.get("cores", last.get("cores"))
    if cores is not None and full is not None and cores < full:
        yield Finding(BAD, "host", f"{cores} of {full} cores online")
    if seen.same_boot:
        mce = change(last.get("mce"), now.get("mce"))
        if mce:
            yield Finding(BAD, "host", f"{mce} new machine check exceptions")
    elif now.get("mce"):
        yield Finding(BAD, "host", f"{now['mce']} machine check exceptions since the start")
    yield from _edac(seen, now, last)
    shm, share = now.get("shm"), wanted.get("shm_free_share", 0.1)
    if shm and shm["bytes"] and shm["free"] < share * shm["bytes"]:
        yield Finding(BAD, "/dev/shm", f"{shm['free'] / 2**30:.1f} of {shm['bytes'] / 2**30:.1f} GiB free")
    limit, clock = wanted.get("clock_error_ms"), now.get("clock")
    if limit is not None:
        if not clock or not clock["synchronised"]:
            yield Finding(UNSURE, "clock", "the kernel does not consider it synchronised")
        elif clock["error_ms"] > limit:
            yield Finding(BAD, "clock", f"error {clock['error_ms']:.0f} ms, allowed {limit:.0f}")


def _edac(seen: Seen, now: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[Finding]:
    for name, counts in (now.get("edac") or {}).items():
        before = (last.get("edac") or {}).get(name) or {}
        # all errors since boot are new
        new = counts["uncorrected"]
        lost = change(before.get("uncorrected"), new) if seen.same_boot else new
        if lost:
            yield Finding(BAD, f"memory {name}", f"{lost} new uncorrected errors")
        if seen.same_boot and (found := change(before.get("corrected"), counts["corrected"])):
            storm = found > CORRECTED_PER_HOUR * max(1.0, seen.seconds / 3600)
            yield Finding(BAD if storm else NOTE, f"memory {name}", f"{found} new corrected errors")


def _log(seen: Seen) -> Iterator[Finding]:
    log, last = seen.host().get("log"), seen.host("last").get("log") or {}
    if not log:
        return
    known = last.get("last") if seen.same_boot else None
    if known is not None and log["first"] is not None and log["first"] > known + 1:
        yield Finding(NOTE, "kernel log", f"{log['first'] - known - 1} lines were overwritten before they were read")
    if log.get("more"):
        yield Finding(NOTE, "kernel log", f"{log['more']} more events of hardware")
    answer = seen.answers.get("gpus")
    at = {
        (part.get("bus") or "").rpartition(".")[0]: part["index"]
        for name, part in (answer.parts if answer else {}).items()
        if name != "driver"
    }
    for number, kind, where, code in log["events"]:
        if known is not None and number <= known:
            continue
        if kind == "xid":
            bus = where.lower().rpartition(".")[0] if "." in where else where.lower()
            device = f"gpu {at[bus]}" if bus in at else f"gpu {where}"
            xid, severity = int(code.partition(",")[0]), code.rpartition(" ")[2].lower()
            what = {**PROGRAM_XIDS, **UNDECIDED_XIDS, **HARDWARE_XIDS}.get(xid, "not known to be a hardware error")
            bad = severity == "fatal" or (severity != "nonfatal" and xid in HARDWARE_XIDS)
            said = f"XID {xid} {severity}" if severity.endswith("fatal") else f"XID {xid}"
            if xid == ACTION_XID and (action := code.partition(", ")[2]):
                bad, what = action != "None", f"asks for {action}"
            yield Finding(BAD if bad else NOTE, device, f"{said}: {what}")
        elif kind in _LOGGED:
            severity, what, reason = _LOGGED[kind]
            yield Finding(severity, what.format(where), reason.format(code))


#: Events of the kernel log other than XIDs, by their kind: severity, device, reason.
_LOGGED = {
    "sxid": (BAD, "NVSwitch {}", "SXid {}, fatal"),
    "hardware": (BAD, "host", "hardware error in the kernel log: {}"),
    "memory": (BAD, "host", "memory failure at page {}"),
    "read-only": (BAD, "disk {}", "file system became read-only"),
    "shut-down": (BAD, "disk {}", "file system was shut down"),
    "medium": (BAD, "disk {}", "critical {} error"),
    "errors": (BAD, "disk {}", "file system has errors"),
    "disabled": (BAD, "disk {}", "disabled: it did not answer"),
    "adapter": (BAD, "adapter {}", "its firmware does not answer"),
    "bus": (BAD, "PCIe {}", "fatal error"),
    # a server that was restarted evicts healthy clients; a guest's CPU is stuck while its host moves it
    "evicted": (NOTE, "{}", "Lustre evicted this client"),
    "stuck": (NOTE, "CPU {}", "stuck for {}"),
}


# -- network ---------------------------------------------------------------------------------------------------------


def _ports(seen: Seen) -> Iterator[Finding]:
    now, last = seen.host().get("ports"), seen.host("last").get("ports") or {}
    if now is None:
        return
    wanted = {one["name"]: one for one in seen.expect.get("ports", [])}
    for name in wanted.keys() | last.keys():
        expected = name in wanted
        was_up = bool((last.get(name) or {}).get("up"))
        port = now.get(name)
        if port is None:
            if expected or was_up:
                yield Finding(BAD, name, "port is missing")
            continue
        if port["up"] is False and (expected or was_up):
            yield Finding(BAD, name, "link is down")
            continue
        rate, full = port["gbit_s"], wanted.get(name, {}).get("gbit_s", (last.get(name) or {}).get("gbit_s"))
        if rate is not None and full is not None and rate < full and (expected or was_up):
            yield Finding(BAD, name, f"{rate:g} Gbit/s, {'expected' if expected else 'was'} {full:g}")
        elif rate is None and expected and "gbit_s" in wanted[name]:
            yield Finding(UNSURE, name, "rate cannot be read")
        if seen.same_boot and (was_up or expected):
            yield from _port_errors(seen, name, (last.get(name) or {}).get("counters") or {}, port["counters"])


def _port_errors(
    seen: Seen, name: str, before: Mapping[str, int | None], counters: Mapping[str, int | None]
) -> Iterator[Finding]:
    for counter, value in counters.items():
        new = change(before.get(counter), value)
        if not new:
            continue
        if counter in _PORT_NOTED:  # what congestion, the other end or a job that is killed does too
            severity = NOTE
        elif counter in _PORT_FLAPS:
            severity = BAD if new >= FLAPS else NOTE
        else:
            severity = BAD if new > PORT_ERRORS_PER_HOUR * max(1.0, seen.seconds / 3600) else NOTE
        yield Finding(severity, name, f"{new} new {counter}")


# -- file systems ----------------------------------------------------------------------------------------------------


def _files(seen: Seen) -> Iterator[Finding]:
    for wanted in seen.expect.get("file_systems", []):
        path = wanted["path"]
        answer = seen.answers.get(f"file system {path}")
        if answer is None or answer.hung:
            continue
        if answer.error:
            yield Finding(BAD, path, answer.error)
            continue
        found = answer.value
        if not found["mounted"]:
            yield Finding(BAD, path, "not mounted")
            continue
        if "type" in wanted and found["type"] != wanted["type"]:
            yield Finding(BAD, path, f"is {found['type']}, expected {wanted['type']}")
        if found["read_only"] and wanted.get("write"):
            yield Finding(BAD, path, "mounted read-only")
            continue
        least = wanted.get("free_gib", 0) * 2**30
        if found["free"] < least or (wanted.get("write") and found["free"] == 0):
            yield Finding(BAD, path, f"{found['free'] / 2**30:.1f} GiB free, expected {wanted.get('free_gib', 0):g}")
        elif wanted.get("write") and found.get("files_free") == 0:
            yield Finding(BAD, path, "no inodes free")
        written = found.get("write", "ok")
        if written is None:
            yield Finding(NOTE, path, "this user may not write there: not tried")
        elif written != "ok" and found["free"] >= least:
            yield Finding(BAD, path, f"cannot be written: {written}")


# -- what was measured -----------------------------------------------------------------------------------------------

#: Number of first good checks whose median is the reference; a reference that follows a slow decline would show
#: nothing.
KEPT, ENOUGH = 20, 5
#: Minimum tolerance by the first part of a name. 100 processes on one H100 scatter by 0.6 %; the rest is for variation
#: from day to day and for temperature. Hosts of virtual machines share their memory: 1 of 12 checks was 26 % low.
TOLERANCE = {"stream.triad.gpu": 0.03, "transfer": 0.05, "p2p": 0.05, "gemm": 0.08, "stream.triad.host": 0.30}
#: GPUs of a node measured at once agree within 1-2 %; one this far below the median of at least four is slow.
SIBLINGS = 0.05


def bound(name: str, expect: Mapping[str, Any], history: Mapping[str, Sequence[float]]) -> tuple[float, str] | None:
    """The minimum good value of `stream.triad.gpu0`, and its source; None: unknown."""
    program, metric, subject = name.split(".", 2)
    kind = "pair" if "-" in subject else subject.rstrip("0123456789")
    reference = expect.get("references", {}).get(f"{program}.{metric}.{kind}")
    if reference:
        return reference["value"] * (1 + reference.get("lower", -0.05)), "reference"
    values = list(history.get(name) or [])[:KEPT]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    spread = 1.4826 * median(abs(v - middle) for v in values) / middle
    least = next(share for start, share in TOLERANCE.items() if name.startswith(start))
    return middle * (1 - max(least, 6 * spread)), f"was {middle:.4g}"


def low(
    values: Mapping[str, float], expect: Mapping[str, Any], history: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, str]]:
    """Names of values that are too low, with the reason."""
    of_gpus = {name: value for name, value in values.items() if name.startswith("stream.triad.gpu")}
    middle = median(of_gpus.values()) if len(of_gpus) >= 4 else None
    for name, value in values.items():
        known = bound(name, expect, history)
        if known and value < known[0]:
            yield name, f"{value:.4g} below {known[0]:.4g} ({known[1]})"
        elif middle and name in of_gpus and value < middle * (1 - SIBLINGS):
            yield name, f"{value:.4g}, its siblings {middle:.4g}"
