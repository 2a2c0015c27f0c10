"""Healthy machines that look unusual: none is refused, and the page shows what is unusual about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import records
from tenken.model.catalogue import program
from tenken.model.judgement import Judgement
from tenken.model.record import Record
from tenken.model.result import DeviceHealth, HealthSample, Result
from tenken.model.verdicts import FAIL, PASS, RECORDED
from tenken.report import page, session
from tests.support import kept
from tests.unit.judge.test_machines import MACHINES, judged, pairs, stream, transfers
from tools import sensitivity

Change = Callable[[Result], Result]


@cache
def kept_runs() -> dict[str, Record]:
    return {one.base_check: one for one in kept._of(kept.VERSION_2) if one.result and one.result.status == "ok"}


def gpus(**changes: Any) -> Change:
    return lambda result: replace(result, devices=tuple(replace(one, **changes) for one in result.devices))


def health(parts: str = "before worst after", **changes: Any) -> Change:
    def changed(entry: DeviceHealth) -> DeviceHealth:
        return replace(entry, **{part: replace(getattr(entry, part), **changes) for part in parts.split()})

    return lambda result: replace(
        result, health=replace(result.health, devices=tuple(map(changed, result.health.devices)))
    )


def lasting(seconds: float) -> Change:
    """The timed part of all GPUs."""
    return lambda result: replace(result, health=replace(
        result.health, devices=tuple(replace(one, seconds=seconds) for one in result.health.devices)))  # fmt: skip


#: Utilisation and power do not rise.
QUIET = health(utilization_percent=0, power_w=75.0)


def host(**changes: Any) -> Change:
    return lambda result: replace(result, host=replace(result.host, **changes))


def both(*changes: Change) -> Change:
    def all_of(result: Result) -> Result:
        for one in changes:
            result = one(result)
        return result

    return all_of


def slower(factor: float) -> Change:
    return lambda result: sensitivity.slowed(result, factor)


def slower_link(factor: float) -> Change:
    """Large copies over the link to the host alone."""

    def changed(result: Result) -> Result:
        slow, metrics = sensitivity.slowed(result, factor), program(result.program).metrics

        def chosen(part: str) -> tuple[Any, ...]:
            pairs = zip(getattr(result, part), getattr(slow, part), strict=True)
            return tuple(two if metrics[one.name].crosses_pcie and "bytes" not in one.at else one for one, two in pairs)

        return replace(slow, metrics=chosen("metrics"), series=chosen("series"))

    return changed


def memory_beyond(result: Result) -> Result:
    """Pages on a NUMA node without CPUs: CXL, HBM in flat mode, a coherent GPU."""
    return replace(result, placement=replace(result.placement, numa_nodes_of_memory=(0, 1, 8)))


def locks_of_ranks(result: Result) -> Result:
    """A lock that each of several ranks reports."""
    assert result.locks is not None
    return replace(result, locks=replace(result.locks, held=(*result.locks.held, *result.locks.held)))


def without_health(result: Result) -> Result:
    return replace(result, health=replace(result.health, available=False, reason="no NVML", devices=()))


def parts_of_gpus(result: Result) -> Result:
    """MIG instances, each with its own UUID."""
    assert result.locks is not None
    parts = tuple(replace(one, mig_enabled=True, uuid=f"MIG-3c1b-{one.index}") for one in result.devices)
    held = ("host", *(str(one.uuid) for one in parts))
    return replace(result, devices=parts, locks=replace(result.locks, held=held))


#: A GPU with sixteen lanes in a slot with eight, on a bare machine.
OF_EIGHT = both(host(virtual_machine=None), gpus(pcie_generation_gpu=5, pcie_width_gpu=16, pcie_bridge="0000:16:01.0",
                pcie_generation_bridge=5, pcie_width_bridge=8))  # fmt: skip
NOTHING: dict[str, Any] = {name: None for name in vars(HealthSample()) if name not in ("power_w",)}
ANY = frozenset({PASS, RECORDED})
#: Check of the kept run of two H100, what is changed, the verdict, and the words of its note.
ROWS: dict[str, tuple[str, Change, str | frozenset[str], str]] = {
    "a desktop": ("StreamCuda", health("before", other_processes=3, utilization_percent=2), PASS,
                  "shared with 3 other processes, which did nothing on it"),
    "an MPS server": ("Gemm", health("before worst after", other_processes=1), PASS, "shared with 1 other processes"),
    "a monitor that holds a GiB": ("StreamCuda", health("before", other_processes=1, memory_used_bytes=2**30), PASS,
                                   "which did nothing on it before the run"),
    "a vGPU without sensors": ("StreamCuda", health(**NOTHING), PASS, "does not report memory_clock_mhz"),
    "no NVML": ("StreamCuda", without_health, PASS, "the health of the GPUs could not be read: no NVML"),
    "a clock reason of a new driver": ("Gemm", health("worst", reasons=("sw_power_cap", "board_limit")), PASS,
                                       "the timed part that are not known here: board_limit"),
    "P2 of a GeForce": ("StreamCuda", health(memory_clock_mhz=2552), PASS, ""),
    "a slot of 8 lanes, without traffic": ("StreamCuda", health("worst", pcie_width=8), PASS,
                                           "PCIe width 8 under load; the maximum is 16"),
    "the same of products": ("Gemm", health("worst", pcie_width=8), PASS, "PCIe width 8 under load"),
    "a slot of 8 lanes that the kernel shows": (
        "Transfer", both(OF_EIGHT, health("before worst after", pcie_width=8), slower_link(0.5)), RECORDED,
        "its slot has PCIe Gen5 x8, its driver reports Gen5 x16: no floor applies"),
    "a cap of 400 W": ("Gemm", both(gpus(power_limit_w=400), slower(0.7)), RECORDED,
                       "the power is limited to 400 of 700 W: no floor applies"),
    "clocks locked": ("Gemm", both(health(sm_clock_mhz=1100, reasons=()), slower(0.6)), RECORDED,
                      "the clock is locked at 1100 of 1980 MHz: no floor applies"),
    "memory at locked clocks": ("StreamCuda", both(health(sm_clock_mhz=600, reasons=()), slower(0.8)), RECORDED,
                                "the clock is locked at 600 of 1980 MHz: no floor applies"),
    "MIG with neighbours": ("StreamCuda", both(parts_of_gpus, health(other_processes=6)), RECORDED,
                            "shared with 6 other processes"),
    "MIG over ranks": ("HpcgGpus", both(parts_of_gpus, slower(0.8)), RECORDED, "GPU 0: it is a MIG instance"),
    "memory on a node without CPUs": ("StreamHost", memory_beyond, RECORDED, ""),
    "an L3 of each vCPU": ("HimenoHost", host(last_level_cache_bytes=2**34), RECORDED, ""),
    "a guest": ("StreamHost", host(virtual_machine="VMware"), RECORDED, "a virtual machine (VMware) does not report"),
    "a slow file system": ("SnapshotHost", slower(0.4), RECORDED, ""),
    "a laptop": ("StreamCuda", both(gpus(name="NVIDIA GeForce RTX 4070 Laptop GPU", power_limit_w=80,
                 memory_clock_mhz=8001, memory_bus_bits=128, memory_clock_max_mhz=8001), health(memory_clock_mhz=8001),
                 slower(0.072)), PASS, ""),
    "locks that each rank states": ("MpiHost", locks_of_ranks, RECORDED, ""),
    "a sensor that is broken": ("StreamCuda", health("worst", temperature_c=511), PASS,
                                "temperature_c during the timed part is 511"),
    "a driver that reports no links": ("P2P", gpus(nvlinks_active=None, nvlinks_total=None), PASS, ""),
    "links of which some are not fitted": ("P2P", gpus(nvlinks_total=24), PASS, ""),
    "a link that sleeps": ("StreamCuda", health("before after", pcie_generation=1, pcie_width=16), PASS, ""),
    "a guest with an emulated bridge": (
        "Transfer", both(gpus(pcie_generation_gpu=5, pcie_width_gpu=16, pcie_bridge="0000:00:02.0",
        pcie_generation_bridge=6, pcie_width_bridge=32), lasting(9.0)), PASS,
        "in a guest of KVM the bridge is emulated"),
    "a short part that no sensor sees": ("StreamCuda", both(QUIET, lasting(0.6)), PASS, ""),
    "the same without memory in use before": (
        "StreamCuda", both(QUIET, lasting(0.6), health("before", memory_used_bytes=None)), PASS, ""),
    "no serial, no VBIOS": ("StreamCuda", gpus(serial=None, vbios=None, persistence_mode=None), PASS, ""),
    "a kernel that states no load": ("StreamHost", lambda result: replace(result, load=None), RECORDED, ""),
    "a thousand CPUs": ("StreamHost", host(logical_cpus=1024, cores=512, sockets=8), RECORDED, ""),
}  # fmt: skip
#: Runs by the attributes of other models, and the words of their notes.
MODELS = {
    "B200 by its driver and its data sheet": ("NVIDIA B200", stream, "gpu", "the limit is 8000 GB/s by data sheet"),
    "PCIe Gen3 of a P100": ("Tesla P100-SXM2-16GB", transfers, "gpu", ""),
    "pairs of an A6000 across sockets": ("NVIDIA RTX A6000", pairs, "pair", ""),
    "memory of a P100 with ECC": ("Tesla P100-SXM2-16GB", stream, "gpu", ""),
}


def row(name: str) -> tuple[Record, Judgement]:
    check, change, _, _ = ROWS[name]
    record = kept_runs()[check]
    assert record.result is not None
    return record, sensitivity.judgement(record, change(record.result))


@pytest.mark.parametrize("name", ROWS)
def test_a_machine_in_order_is_not_refused(name: str) -> None:
    _, _, expected, note = ROWS[name]
    _, found = row(name)
    assert found.verdict in ({expected} if isinstance(expected, str) else expected), found.message()
    assert note in " ".join(finding.message for finding in found.findings)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_held_by_what_it_can(name: str) -> None:
    model, made, subject, note = MODELS[name]
    found = judged(made(next(one for one in MACHINES if one.name == model)), subject)
    assert found.verdict == PASS, found.message()
    assert note in " ".join(finding.message for finding in found.findings)


def test_each_note_is_on_the_page(tmp_path: Path) -> None:
    """One session with all rows, as a page reads it."""
    notes = {name: note for name, (_, _, _, note) in ROWS.items() if note}
    name = kept_runs()["StreamCuda"].session
    for at, odd in enumerate(notes):
        record, found = row(odd)
        records.write(replace(record, check=f"Odd{at}", base_check="Odd", judgement=found), tmp_path)
    used = {check: program(check) for check in ("stream", "gemm", "transfer", "p2p")}
    text = unescape(page.render(session.load(tmp_path, name), used))
    assert [odd for odd, note in notes.items() if note not in text] == []


def test_a_gpu_of_a_device_that_is_none_of_these_is_refused() -> None:
    """The rows do not pass merely because nothing is checked: with a fault they fail."""
    record = kept_runs()["StreamCuda"]
    assert record.result is not None
    busy = health("worst", other_processes=2, utilization_percent=90)
    for change in (busy, health(memory_clock_mhz=1500), slower(0.9)):
        assert sensitivity.judged(record, change(record.result)) not in ANY
    record = kept_runs()["Transfer"]
    assert record.result is not None
    for change in (slower_link(0.3), both(slower_link(0.5), health("worst", pcie_width=4))):
        assert sensitivity.judged(record, both(OF_EIGHT, health(pcie_width=8), change)(record.result)) == FAIL
