"""The opening of a page: machine, criteria, and next steps."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tenken.model.result import Device, Host
from tenken.model.verdicts import FAIL, INVALID, RECORDED
from tenken.report import formatting as words
from tenken.report.rows import Row
from tenken.report.session import Case, Session

#: Description of each kind of criterion, most important first.
CRITERIA = {
    "contract": "a target agreed with the vendor",
    "reference": "a value known for this machine, with its source",
    "kind": "what other devices of this model reached",
    "floor": "a minimum fraction of the physical limit",
}
#: Maximum number of check names in the command that reruns them; beyond it all are rerun.
_MOST_NAMES = 12


def machine(session: Session) -> list[tuple[str, str]]:
    """The machine, as (label, text): as reported by the programs, then as detected before the run."""
    results = [case.result for case in session.counted if case.result is not None]
    # a third-party program does not describe the host
    hosts = {result.host.name: result.host for result in results if not result.by_others}
    devices: dict[tuple[str, int], Device] = {}
    for result in results:
        for device in result.devices:
            devices.setdefault((result.host.name, device.index), device)
    found = [
        ("Processor", _counted(processor(host) for host in hosts.values())),
        ("Memory", _counted(words.size(host.memory_bytes) for host in hosts.values() if host.memory_bytes)),
        ("Virtual machine", _counted(host.virtual_machine for host in hosts.values() if host.virtual_machine)),
        ("GPUs", _counted(_gpu(device) for device in devices.values()) or ("none used" if results else "")),
        ("Driver, CUDA", _either(_driver(device) for device in devices.values())),
        ("NVLink", _either(_nvlink(device) for device in devices.values())),
        ("PCIe", _either(_pcie(device) for device in devices.values())),
    ]
    kept = [(label, text) for label, text in found if text]
    labels = {label for label, _ in kept}
    return kept + [(label, text) for label, text in _looked(session.plan) if label not in labels]


def judged_by(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Number of values by kind of criterion, as (kind, text); values without one come last."""
    counts = Counter(row.criterion for row in rows)
    said = [(kind, f"{_values(counts[kind])}, {meaning}") for kind, meaning in CRITERIA.items() if counts[kind]]
    if counts[""]:
        said.append(("no criterion", f"{_values(counts[''])}, recorded without a criterion"))
    return said


def next_steps(session: Session, rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Next steps, as (text, command); the command may be empty."""
    steps: list[tuple[str, str]] = []
    systems = {case.system for case in session.counted}
    system = systems.pop() if len(systems) == 1 else ""
    modes = {case.record.mode for case in session.counted if case.record} or {str(session.plan.get("mode") or "")}
    mode = modes.pop() if len(modes) == 1 else ""
    for verdict, what in (
        (FAIL, "Repair what failed, then rerun only those checks"),
        (INVALID, "Rerun the INVALID checks"),
    ):
        bad = [case for case in session.counted if case.verdict == verdict and not case.build]
        if bad and system:
            steps.append((f"{what}:", _again(bad, system, mode)))
    if session.nothing_was_run or not system:
        return steps
    if mode == "quick":
        steps.append(
            ("Measure at full size; a quick run gives a first impression:", f"make run SYSTEM={system} MODE=acceptance")
        )
    if system == "local":
        steps.append(
            (
                "Create a system file for this machine, which contains its references:",
                "tenken systems new NAME --scheduler local",
            )
        )
    elif not any(row.criterion in ("contract", "reference") for row in rows):
        steps.append(("Propose references from runs on this machine:", f"tenken propose {system}"))
    if any(case.verdict == RECORDED for case in session.counted):
        steps.append(("RECORDED values need a reference or a contract before they can pass or fail.", ""))
    return steps


def _again(cases: list[Case], system: str, mode: str) -> str:
    names = list(dict.fromkeys(case.base_check for case in cases))
    chosen = f" -n {shlex.quote('|'.join(names))}" if len(names) <= _MOST_NAMES else ""
    return f"reframe -c checks -r --system {system}{f' --mode {mode}' if mode else ''}{chosen}"


def processor(host: Host) -> str:
    """The CPUs of a node with their counts."""
    counts = [
        _many(count, unit)
        for count, unit in (
            (host.sockets, "socket"),
            (host.cores, "core"),
            (host.logical_cpus, "logical CPU"),
            (host.numa_nodes, "NUMA node"),
        )
        if count
    ]
    return ", ".join(text for text in (host.cpu, *counts) if text)


def _gpu(device: Device) -> str:
    parts = [device.name, words.size(device.memory_bytes), f"compute capability {device.compute_capability}"]
    if device.ecc_enabled is not None:
        parts.append(f"ECC {'on' if device.ecc_enabled else 'off'}")
    return ", ".join([*parts, *(["MIG on"] if device.mig_enabled else [])])


def _driver(device: Device) -> str:
    said = [("driver", device.driver), ("CUDA", device.cuda_driver), ("runtime", device.cuda_runtime)]
    return ", ".join(f"{name} {value}" for name, value in said if value)


def _nvlink(device: Device) -> str:
    if device.nvlinks_active is None:
        return ""
    of_all = "" if device.nvlinks_total is None else f" of {device.nvlinks_total}"
    speed = f", {words.number(device.nvlink_gbs_per_link)} GB/s each" if device.nvlink_gbs_per_link else ""
    return f"{device.nvlinks_active}{of_all} links of a GPU active{speed}"


def _pcie(device: Device) -> str:
    if not device.pcie_generation_max or not device.pcie_width_max:
        return ""
    return f"Gen{device.pcie_generation_max} x{device.pcie_width_max} at most"


def _looked(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The machine as detected before the run, from the plan, which may contain anything."""
    said = plan.get("machine")
    pairs = said if isinstance(said, list) else []
    return [(str(p[0]), str(p[1])) for p in pairs if isinstance(p, list) and len(p) == 2 and p[0] and p[1]]


def _counted(texts: Iterable[str]) -> str:
    """`4 × NVIDIA H200; 1 × ...`; a single device has no count."""
    counts = Counter(texts)
    alone = sum(counts.values()) == 1
    return "; ".join(text if alone else f"{count} × {text}" for text, count in counts.items() if text)


def _either(texts: Iterable[str]) -> str:
    """The common value, otherwise every value with its count."""
    counts = Counter(texts)
    return next(iter(counts)) if len(counts) == 1 else _counted(counts.elements())


def _values(count: int) -> str:
    return _many(count, "value")


def _many(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"
