"""Conditions of a run: what voids its numbers, and hardware that is at fault."""

from __future__ import annotations

from tenken.model.judgement import Finding
from tenken.model.request import Request
from tenken.model.result import Device, DeviceHealth, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID

#: Clock event reasons that void a measurement. A software power cap is normal under compute-bound load.
SLOWDOWN_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")

#: A memory clock below this fraction of the maximum during the timed part is a wrong clock.
MEMORY_CLOCK_FLOOR = 0.98

Condition = tuple[str, str]


def conditions(result: Result, request: Request) -> list[Finding]:
    """Conditions that void the run (INVALID) and hardware at fault (FAIL), each naming node and GPU."""
    node = result.node
    found: list[Finding] = []

    def note(verdict: str, subject: Subject | None, text: str) -> None:
        where = f"{node} {subject.place}" if subject else node
        found.append(Finding(verdict, f"{where}: {text}", None, subject, node))

    cores = result.placement.cores
    if request.cores is not None and cores < request.cores:
        note(INVALID, None, f"bound to {cores} cores; the system file claims {request.cores}")
    if request.gpus is not None and len(result.devices) < request.gpus:
        note(FAIL, None, f"{len(result.devices)} GPUs found; expected {request.gpus}")
    if result.devices and not result.health.available and not all(d.integrated for d in result.devices):
        why = result.health.reason or "no reason given"
        note(INVALID, None, f"the health of the GPUs could not be read: {why}")
    for entry in result.health.devices:
        for verdict, text in _of_device(entry, result.device(entry.index)):
            note(verdict, Subject("gpu", entry.index), text)
    return found


def _of_device(entry: DeviceHealth, device: Device | None) -> list[Condition]:
    worst = entry.worst
    found: list[Condition] = []
    slow = [r for r in worst.reasons or () if r in SLOWDOWN_REASONS]
    if slow:
        found.append((INVALID, f"throttled during the timed part: {', '.join(slow)}"))
    clock, top = worst.memory_clock_mhz, device.memory_clock_max_mhz if device else None
    if clock and top and clock < MEMORY_CLOCK_FLOOR * top:
        found.append((INVALID, f"memory clock {clock:g} MHz during the timed part; the maximum is {top:g} MHz"))
    found += _errors(entry)
    if entry.xids:
        found.append((INVALID, f"XID {', '.join(str(x) for x in entry.xids)} during the run"))
    if (worst.other_processes or 0) > 0:
        found.append((INVALID, f"shared with {worst.other_processes} other processes"))
    for now, maximum, name in (
        (worst.pcie_generation, device.pcie_generation_max if device else None, "generation"),
        (worst.pcie_width, device.pcie_width_max if device else None, "width"),
    ):
        if now is not None and maximum is not None and now < maximum:
            found.append((INVALID, f"PCIe {name} {now} under load; the maximum is {maximum}"))
    return found


def _errors(entry: DeviceHealth) -> list[Condition]:
    """Memory errors that came during the run: uncorrected ones are the hardware's fault."""
    found: list[Condition] = []
    for first, last, name, verdict in (
        (entry.before.ecc_corrected, entry.after.ecc_corrected, "corrected", INVALID),
        (entry.before.ecc_uncorrected, entry.after.ecc_uncorrected, "uncorrected", FAIL),
    ):
        if first is not None and last is not None and last > first:
            found.append((verdict, f"{last - first} {name} ECC errors during the run"))
    return found
