"""Health that was not read, is of another card, or says what no healthy card says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lies.lie import Lie, both, each, health, put, without


def nulls(raw: Any) -> None:
    for entry in raw["health"]["devices"]:
        for part in ("before", "worst", "after"):
            entry[part] = {key: None if key != "reasons" else [] for key in entry[part]}


def swapped(raw: Any) -> None:
    raw["health"]["devices"][0]["index"] = 1


def twice(raw: Any) -> None:
    raw["health"]["devices"] *= 2


def lies() -> Iterator[Lie]:
    for of in ("stream", "gemm", "hpl", "memcopy", "stencil", "hpl_mxp", "spmv", "transfer", "migration", "himeno"):
        yield Lie(of, "no card in health", "GPU 0: health", put("health.devices", []))
        yield Lie(
            of, "health was not available", "health", put("health", {"available": False, "reason": "", "devices": []})
        )
        yield Lie(of, "samples is 0", "samples is 0", health(samples=0))
    yield Lie("stream_two", "one card of two", "GPU 1: health", put("health.devices", lambda d: d[:1]))
    yield Lie("nccl", "one card of two", "GPU 1: health", put("health.devices", lambda d: d[:1]))
    yield Lie("mpi_p2p", "one card of two", "GPU 1: health", put("health.devices", lambda d: d[:1]))
    yield Lie("p2p", "the same card twice", "health", put("health.devices", lambda d: [d[0], d[0]]))
    yield from each(
        "stream",
        ("another card", "GPU 1: health contains it", swapped),
        ("twice", "2 entries", twice),
        ("all null", "does not report", nulls),
        ("memory clock 0", "memory clock 0 MHz", health(0, "worst", memory_clock_mhz=0)),
        ("memory clock null", "memory_clock_mhz", health(0, "worst", memory_clock_mhz=None)),
        ("memory clock low", "memory clock 1593", health(0, "worst", memory_clock_mhz=1593)),
        ("memory clock negative", "memory clock -1", health(0, "worst", memory_clock_mhz=-1)),
        ("memory clock above its maximum", "memory clock 26190 MHz dur", health(0, "worst", memory_clock_mhz=26190)),
        ("memory clock above it before", "memory clock 4000 MHz before", health(0, "before", memory_clock_mhz=4000)),
        ("memory clock above it after", "memory clock 2e\\+06 MHz after", health(0, "after", memory_clock_mhz=2e6)),
        ("temperature null", "temperature_c", health(0, "worst", temperature_c=None)),
        ("temperature 4000", "temperature_c", health(0, "worst", temperature_c=4000)),
        ("power negative", "power_w", health(0, "worst", power_w=-5)),
        ("utilization 900", "utilization_percent", health(0, "worst", utilization_percent=900)),
        (
            "ECC null, then 5",
            "ecc_uncorrected",
            both(health(0, "before", ecc_uncorrected=None), health(0, "after", ecc_uncorrected=5)),
        ),
        ("ECC 3, then 0", "ecc_uncorrected went from 3 back to 0", health(0, "before", ecc_uncorrected=3)),
        ("corrected ECC 9, then 0", "ecc_corrected went from", health(0, "before", ecc_corrected=9)),
        (
            "ECC unread although on",
            "ecc_corrected",
            both(*(health(0, p, ecc_corrected=None) for p in ("before", "worst", "after"))),
        ),
        ("an uncorrected error", "uncorrected ECC", health(0, "after", ecc_uncorrected=1)),
        ("an uncorrected error while timed", "ecc_uncorrected|uncorrected ECC", health(0, "worst", ecc_uncorrected=1)),
        ("five corrected errors", "corrected ECC", health(0, "after", ecc_corrected=5)),
        (
            "ECC negative",
            "ecc_uncorrected",
            both(*(health(0, p, ecc_uncorrected=-1) for p in ("before", "worst", "after"))),
        ),
        ("thermal slowdown", "hw_thermal_slowdown", health(0, "worst", reasons=["hw_thermal_slowdown"])),
        (
            "software thermal slowdown",
            "sw_thermal_slowdown",
            health(0, "worst", reasons=["gpu_idle", "sw_thermal_slowdown"]),
        ),
        ("a reason in capitals", "HW_SLOWDOWN", health(0, "worst", reasons=["HW_SLOWDOWN"])),
        ("an unknown reason", "bit_11", health(0, "worst", reasons=["bit_11"])),
        ("an unknown reason before", "throttled", health(0, "before", reasons=["throttled"])),
        ("an empty reason", "unknown clock event", health(0, "worst", reasons=[""])),
        ("reasons not told", "reasons", without("health.devices.0.worst.reasons")),
        ("double-bit error", "hardware: XID 48", health(xids=[48])),
        ("off the bus", "hardware: XID 79", health(xids=[79])),
        ("NVLink error", "hardware: XID 74", health(xids=[74])),
        ("uncontained", "hardware: XID 95", health(xids=[13, 95])),
        ("page fault", "program: XID 31", health(xids=[31])),
        ("engine exception", "program: XID 13", health(xids=[13])),
        ("cleanup", "program: XID 45", health(xids=[45])),
        ("unknown XID", "XID 999", health(xids=[999])),
        ("row remapped", "XID 63", health(xids=[63])),
        ("negative XID", "XID -1", health(xids=[-1])),
        ("remapping pending", "remapping_pending", health(0, "after", remapping_pending=True)),
        ("remapping failed", "remapping_failed", health(0, "before", remapping_failed=True)),
        ("a row more, uncorrectable", "remapped_rows_uncorrectable", health(0, "after", remapped_rows_uncorrectable=1)),
        ("a row more, correctable", "remapped_rows_correctable", health(0, "after", remapped_rows_correctable=1)),
        ("others on the card", "other processes", health(0, "worst", other_processes=3)),
        ("others before", "other processes", health(0, "before", other_processes=1)),
        ("others not told", "other_processes", health(0, "worst", other_processes=None)),
        ("PCIe generation 1", "PCIe generation 1", health(0, "worst", pcie_generation=1)),
        ("PCIe width 4", "PCIe width 4", health(0, "worst", pcie_width=4)),
        ("PCIe not told", "pcie_width", health(0, "worst", pcie_width=None)),
        ("no health at all", "health", without("health")),
    )
    yield Lie("nccl", "a link went down", "NVLinks", health(1, "worst", nvlinks_active=17))
    yield Lie("p2p", "a link went down", "NVLinks", health(0, "worst", nvlinks_active=0))
    yield Lie("nccl", "GPU 1 throttled", "GPU 1: throttled", health(1, "worst", reasons=["hw_power_brake_slowdown"]))
    yield Lie("hpcg_gpus", "GPU 1 has errors", "GPU 1", health(1, "after", ecc_uncorrected=2))
