"""Readings in, findings out: each rule of a node's verdict by rows that were judged by hand.

The faults of test_faults.py are planted in a whole node; here a rule is asked alone,
 also for what a node does not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tenken.node import verdict
from tenken.node.probe import Answer
from tenken.node.verdict import BAD, NOTE, UNSURE, Finding, Seen

HOUR = 3600.0
GPU: dict[str, Any] = {
    "index": 3, "uuid": "GPU-3", "name": "NVIDIA H200", "bus": "0000:13:00.0", "vbios": "96", "ecc": 1, "mig": 0,
    "persistence": 1, "power_limit_w": 700.0, "clock_set_mhz": 1980, "clock_default_mhz": 1980, "fabric": None,
    "ecc_uncorrected_life": 2, "ecc_uncorrected": 0, "ecc_corrected": 3, "remapped": None, "retired_pending": None,
    "recovery_action": None, "nvlinks": [True] * 4, "nvlink_errors": {}, "pcie_width": 16, "pcie_width_max": 16,
    "pcie_generation": 5, "pcie_generation_max": 5, "pstate": 0, "pcie_replay": 4, "pcie_errors": {},
    "slowdowns": [], "processes": [], "memory_used_bytes": 0, "temperature_c": 31, "slowdown_c": 92,
}  # fmt: skip
FABRIC = {"state": "completed", "status": 0, "health": [], "summary": None, "cluster": "aabbccddee", "clique": 1}
BROKEN, ROUTE = "bandwidth degraded", "route recovery in progress"


def said(found: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{severity}: {reason}" for severity, reason in found]


def fabric(**changes: Any) -> dict[str, Any]:
    return {"fabric": FABRIC | changes}


@pytest.mark.parametrize(
    ("now", "was", "wanted", "found"),
    [
        ({}, {}, {}, []), ({}, None, {}, []),
        ({}, {}, {"names": ["NVIDIA H1.*"]}, ["bad: is NVIDIA H200, expected NVIDIA H1.*"]),
        ({}, {}, {"names": ["x", "NVIDIA H.*"]}, []), ({"name": None}, {}, {"names": ["x"]}, []),
        ({}, {}, {"names": ["NVIDIA"]}, ["bad: is NVIDIA H200, expected NVIDIA"]),
        ({"ecc": 0}, {}, {"ecc": True}, ["bad: ECC is off, expected on"]),
        ({"ecc": 1}, {}, {"ecc": False}, ["bad: ECC is on, expected off"]),
        ({"ecc": 1}, {"ecc": 0}, {"ecc": True}, []), ({"ecc": None}, {"ecc": 1}, {"ecc": True}, []),
        ({"ecc": 0}, {"ecc": 1}, {}, ["unsure: ECC is off, was on"]), ({"ecc": 0}, {"ecc": None}, {}, []),
        ({"mig": 1}, {"mig": 0}, {}, ["unsure: MIG is on, was off"]), ({"mig": 1}, None, {}, []),
        ({"persistence": 0, "mig": 1}, {}, {"persistence": True, "mig": False},
         ["bad: MIG is on, expected off", "bad: persistence mode is off, expected on"]),
        ({}, {}, {"vbios": "97"}, ["unsure: VBIOS 96, expected 97"]), ({}, {}, {"vbios": "96"}, []),
        ({"vbios": None}, {}, {"vbios": "97"}, []),
        ({"power_limit_w": 693.0}, {}, {"power_limit_w": 700}, []),
        ({"power_limit_w": 692.0}, {}, {"power_limit_w": 700}, ["bad: power limit 692 W, expected 700 W"]),
        ({"power_limit_w": 708.0}, {}, {"power_limit_w": 700}, ["bad: power limit 708 W, expected 700 W"]),
        ({"power_limit_w": 700.0}, {"power_limit_w": 600.0}, {"power_limit_w": 700}, []),
        ({"power_limit_w": 692.0}, {"power_limit_w": 700.0}, {}, ["unsure: power limit 692 W, was 700 W"]),
        ({"power_limit_w": 708.0}, {"power_limit_w": 700.0}, {}, ["unsure: power limit 708 W, was 700 W"]),
        ({"power_limit_w": None}, {"power_limit_w": 700.0}, {"power_limit_w": 700}, []),
        ({"clock_set_mhz": 1979}, {}, {}, ["bad: clock set to 1979 of 1980 MHz"]),
        ({"clock_set_mhz": 1, "clock_default_mhz": None}, {}, {}, []), ({"clock_set_mhz": None}, {}, {}, []),
        ({}, {}, {"fabric": True}, ["unsure: fabric state cannot be read"]), (fabric(), {}, {"fabric": True}, []),
        (fabric(state="in progress"), {}, {}, ["bad: fabric: in progress"]),
        (fabric(status=5), {}, {}, ["bad: fabric: registration failed (5)"]),
        (fabric(health=[ROUTE]), {}, {}, [f"unsure: fabric: {ROUTE}"]),
        (fabric(health=[BROKEN]), {}, {}, [f"bad: fabric: {BROKEN}"]),
        (fabric(health=[ROUTE, BROKEN]), {}, {}, [f"bad: fabric: {BROKEN}"]),
        (fabric(summary="unhealthy"), {}, {}, ["bad: fabric: unhealthy"]),
        (fabric(summary="limited capacity"), {}, {}, ["unsure: fabric: limited capacity"]),
        (fabric(summary="healthy"), {}, {}, []),
        (fabric(), fabric(), {}, []), (fabric(), {"fabric": None}, {}, []),
        (fabric(), fabric(cluster="112233445566"), {}, ["unsure: fabric: cluster aabbccdd, was 11223344"]),
        (fabric(), fabric(clique=2), {}, ["unsure: fabric: clique 1, was 2"]),
        (fabric(health=[ROUTE]), fabric(clique=2), {}, [f"unsure: fabric: {ROUTE}"]),
    ],
)  # fmt: skip
def test_a_setting_is_bad_if_it_is_not_as_expected_and_unsure_if_it_was_another(
    now: dict[str, Any], was: dict[str, Any] | None, wanted: dict[str, Any], found: list[str]
) -> None:
    before = None if was is None else GPU | {"vbios": None} | was
    assert said(verdict._settings(GPU | now, before, wanted)) == found


@pytest.mark.parametrize(
    ("now", "was", "hours", "found"),
    [
        ({}, {}, 1, []), ({}, None, 1, []),
        ({"ecc_uncorrected_life": 3}, {}, 1, ["bad: 1 uncorrected memory error"]),
        ({"ecc_uncorrected_life": 4}, {}, 1, ["bad: 2 uncorrected memory errors"]),
        ({"ecc_uncorrected_life": 4}, None, 1, []), ({"ecc_uncorrected_life": 1}, {}, 1, []),
        # until a reset, or since it
        ({"ecc_uncorrected": 1}, None, 1, ["bad: 1 uncorrected memory error"]),
        ({"ecc_uncorrected": 1}, {"ecc_uncorrected": 1}, 1, []),
        ({"ecc_uncorrected": 3}, {"ecc_uncorrected": 1}, 1, ["bad: 2 uncorrected memory errors"]),
        ({"ecc_uncorrected": 1}, {"ecc_uncorrected": 5}, 1, ["bad: 1 uncorrected memory error"]),
        ({"ecc_uncorrected": 1}, {"ecc_uncorrected": None}, 1, ["bad: 1 uncorrected memory error"]),
        ({"ecc_uncorrected": None}, {"ecc_uncorrected": 1}, 1, []),
        ({"ecc_uncorrected": 3, "ecc_uncorrected_life": 3}, {}, 1, ["bad: 3 uncorrected memory errors"]),
        ({"ecc_uncorrected": 1, "ecc_uncorrected_life": 5}, {}, 1, ["bad: 3 uncorrected memory errors"]),
        ({"ecc_corrected": 4}, {}, 1, ["note: 1 new corrected memory errors"]),
        ({"ecc_corrected": 1003}, {}, 0.25, ["note: 1000 new corrected memory errors"]),
        ({"ecc_corrected": 1004}, {}, 0.25, ["bad: 1001 new corrected memory errors"]),
        ({"ecc_corrected": 2003}, {}, 2, ["note: 2000 new corrected memory errors"]),
        ({"ecc_corrected": 2004}, {}, 2, ["bad: 2001 new corrected memory errors"]),
        ({"ecc_corrected": 2}, {}, 1, []),
        ({"remapped": {"failed": True, "pending": False}}, {}, 1, ["bad: row remapping failed: replace it"]),
        ({"remapped": {"failed": False, "pending": True}}, {}, 1, ["bad: row remapping pending: reset it"]),
        ({"retired_pending": True}, {}, 1, ["bad: page retirement pending: reset it"]),
        ({"recovery_action": 0}, {}, 1, []), ({"recovery_action": 2}, {}, 1, ["bad: the driver asks for: reboot"]),
        ({"recovery_action": 9}, {}, 1, ["bad: the driver asks for: 9"]),
    ],
)  # fmt: skip
def test_errors_of_memory(now: dict[str, Any], was: dict[str, Any] | None, hours: float, found: list[str]) -> None:
    assert said(verdict._memory_errors(GPU | now, None if was is None else GPU | was, hours * HOUR)) == found


def links(states: str) -> dict[str, Any]:
    """`u` up, `d` down, `?` unknown."""
    return {"nvlinks": [{"u": True, "d": False, "?": None}[one] for one in states]}


@pytest.mark.parametrize(
    ("now", "was", "wanted", "found"),
    [
        ({}, {}, {}, []), (links("uudu"), {}, {}, ["bad: NVLink 2 down, was up"]),
        (links("uu"), {}, {}, ["bad: NVLink 2, 3 down, was up"]), (links("uudu"), links("uudu"), {}, []),
        (links("uu?u"), {}, {}, []),
        (links("d" * 8), links("u" * 8), {}, ["bad: NVLink 0, 1, 2, 3, 4, 5 down, was up"]),
        (links("uudu"), {}, {"nvlinks": 4}, ["bad: NVLink 2 down, was up"]),
        (links("uudu"), None, {"nvlinks": 4}, ["bad: 3 of 4 NVLinks up"]), (links("uudu"), None, {"nvlinks": 3}, []),
        (links("uu?u"), None, {"nvlinks": 4}, ["bad: 3 of 4 NVLinks up"]), (links("uudu"), None, {}, []),
        (links("uuuu"), None, {"nvlinks": 3}, []), (links(""), None, {"nvlinks": 0}, []),
        ({"nvlinks": None}, None, {"nvlinks": 4}, ["unsure: NVLinks cannot be read"]),
        ({"nvlinks": None}, {}, {}, ["unsure: NVLinks cannot be read"]), ({"nvlinks": None}, None, {}, []),
        ({"nvlinks": None}, links(""), {"nvlinks": 0}, []),
    ],
)  # fmt: skip
def test_links_that_were_up_or_are_expected(
    now: dict[str, Any], was: dict[str, Any] | None, wanted: dict[str, Any], found: list[str]
) -> None:
    assert said(verdict._links(GPU | now, None if was is None else GPU | was, wanted, HOUR)) == found


@pytest.mark.parametrize(
    ("name", "was", "now", "seconds", "found"),
    [
        ("recovery.3", 0, 1, HOUR, ["bad: NVLink 3: 1 new recovery"]), ("recovery.3", 1, 1, HOUR, []),
        ("recovery_failed", 0, 2, HOUR, ["bad: NVLinks: 2 new recovery failed"]),
        ("malformed_packets", 5, 6, HOUR, ["bad: NVLinks: 1 new malformed packets"]),
        ("buffer_overruns", 0, 1, HOUR, ["bad: NVLinks: 1 new buffer overruns"]),
        ("replay.0", 0, 10, 60, ["note: NVLink 0: 10 new replay"]),
        ("replay.0", 0, 11, 60, ["bad: NVLink 0: 11 new replay"]),
        ("replay.0", 0, 20, 2 * HOUR, ["note: NVLink 0: 20 new replay"]),
        ("effective_errors", 0, 21, 2 * HOUR, ["bad: NVLinks: 21 new effective errors"]),
        ("link_integrity", 0, 11, HOUR, ["bad: NVLinks: 11 new link integrity"]),
        ("receive_errors", 0, 11, HOUR, ["bad: NVLinks: 11 new receive errors"]),
        ("crc_flit.1", 0, 6000, 60, ["note: NVLink 1: 6000 new crc flit"]),
        ("crc_flit.1", 0, 6001, 60, ["bad: NVLink 1: 6001 new crc flit"]),
        ("recovery.3", 9, 1, HOUR, []), ("recovery.3", None, 1, HOUR, []), ("recovery.3", 1, None, HOUR, []),
    ],
)  # fmt: skip
def test_errors_of_links(name: str, was: int | None, now: int | None, seconds: float, found: list[str]) -> None:
    first, last = (GPU | {"nvlink_errors": {name: value}} for value in (was, now))
    assert said(verdict._links(last, first, {}, seconds)) == found
    assert said(verdict._links(last, GPU, {}, seconds)) == said(verdict._links(last, None, {}, seconds)) == []


def seen(
    expect: Mapping[str, Any] | None = None, host: Mapping[str, Any] | None = None, last: Mapping[str,
     Any] | None = None,
    seconds: float = 60.0, root: bool = True, **answers: Any,
) -> Seen:  # fmt: skip
    """`last`: of the host. The boot is the same unless one of them names another."""
    before = {"time": 1e6, "host": {"boot": "b"} | dict(last)} if last is not None else None
    now = {"boot": "b"} | dict(host or {})
    return Seen(expect or {}, before, {"host": Answer(value=now), **answers}, now=1e6 + seconds, root=root)


@pytest.mark.parametrize(
    ("now", "was", "wanted", "slot", "found"),
    [
        ({}, {}, {}, 0, []), ({"pcie_width": 8}, {}, {}, 0, ["bad: PCIe x8 of x16"]),
        ({"pcie_width": 8}, {}, {"pcie_width": 8}, 0, []), ({"pcie_width": 8}, None, {}, 8, []),
        ({"pcie_width": 8}, {"pcie_width": 8}, {}, 8, []), ({"pcie_width": 8}, {}, {}, 8, ["bad: PCIe x8 of x16"]),
        ({"pcie_width": 4}, {"pcie_width": 4}, {}, 8, ["bad: PCIe x4 of x16"]),
        ({"pcie_width": 8}, {"pcie_width": 8}, {"pcie_width": 16}, 8, ["bad: PCIe x8 of x16"]),
        ({"pcie_width": None}, {}, {}, 0, []), ({"pcie_width": 8, "pcie_width_max": None}, {}, {}, 0, []),
        ({"pcie_generation_max": 4, "pstate": 8}, {}, {}, 0, ["bad: PCIe Gen4 at most, was Gen5"]),
        ({"pcie_generation_max": 4, "pstate": 8}, {}, {"pcie_generation": 5}, 0,
         ["bad: PCIe Gen4 at most, expected Gen5"]),
        ({"pcie_generation_max": 4}, {}, {"pcie_generation": 4}, 0, []), ({"pcie_generation_max": 4}, None, {}, 0, []),
        ({"pcie_generation_max": None}, {}, {}, 0, []),
        ({"pcie_generation": 4}, {}, {}, 0, ["bad: PCIe Gen4, was Gen5"]),
        ({"pcie_generation": 4, "pstate": 8}, {}, {}, 0, []), ({"pcie_generation": 4}, {"pstate": 8}, {}, 0, []),
        ({"pcie_generation": 4, "pstate": 8}, {"pstate": 8}, {}, 0, []), ({"pcie_generation": 4}, None, {}, 0, []),
        ({"pcie_generation": 5}, {"pcie_generation": 4}, {}, 0, []), ({"pcie_generation": None}, {}, {}, 0, []),
        ({"pcie_generation": 4}, {"pcie_generation": None}, {}, 0, []),
        ({"pcie_replay": 12}, {}, {}, 0, ["note: PCIe: 8 new replays"]),
        ({"pcie_replay": 13}, {}, {}, 0, ["bad: PCIe: 9 new replays"]), ({"pcie_replay": 99}, None, {}, 0, []),
        ({"pcie_errors": {"fatal": 1}}, {"pcie_errors": {"fatal": 0}}, {}, 0, ["bad: PCIe: 1 new fatal errors"]),
        ({"pcie_errors": {"nonfatal": 3}}, {"pcie_errors": {"nonfatal": 1}}, {}, 0,
         ["bad: PCIe: 2 new nonfatal errors"]),
        ({"pcie_errors": {"correctable": 8}}, {"pcie_errors": {"correctable": 0}}, {}, 0,
         ["note: PCIe: 8 new correctable errors"]),
        ({"pcie_errors": {"correctable": 9}}, {"pcie_errors": {"correctable": 0}}, {}, 0,
         ["bad: PCIe: 9 new correctable errors"]),
        ({"pcie_errors": {"l0_to_recovery": 999}}, {"pcie_errors": {"l0_to_recovery": 0}}, {}, 0,
         ["note: PCIe: 999 new l0_to_recovery errors"]),
        ({"pcie_errors": {"fatal": 1}}, {"pcie_errors": None}, {}, 0, []),
    ],
)  # fmt: skip
def test_the_link_to_the_host(
    now: dict[str, Any], was: dict[str, Any] | None, wanted: dict[str, Any], slot: int, found: list[str]
) -> None:
    about = seen({"gpus": wanted}, {"slots": {GPU["bus"]: slot}}, {})
    assert said(verdict._pcie(GPU | now, None if was is None else GPU | was, about)) == found


@pytest.mark.parametrize(
    ("boot", "was", "now", "found"),
    [
        ("b", {"fatal": 0}, {"fatal": 1}, ["bad: PCIe: 1 new AER fatal errors"]), ("c", {"fatal": 0}, {"fatal": 1}, []),
        ("b", {"correctable": 1}, {"correctable": 9}, ["note: PCIe: 8 new AER correctable errors"]),
        ("b", {"correctable": 1}, {"correctable": 10}, ["bad: PCIe: 9 new AER correctable errors"]),
        ("b", {}, {"fatal": 1}, []), ("b", {"fatal": 1}, {"fatal": 1}, []), (None, {"fatal": 0}, {"fatal": 1}, []),
    ],
)  # fmt: skip
def test_errors_that_the_kernel_counted_since_the_same_start(
    boot: str | None, was: dict[str, int], now: dict[str, int], found: list[str]
) -> None:
    about = seen(host={"boot": boot}, last={"boot": None if boot is None else "b"}, bus=Answer(value={GPU["bus"]: now}))
    assert about.last is not None
    last = Seen(about.expect, {**about.last, "bus": {GPU["bus"]: was}}, about.answers, about.now)
    assert said(verdict._pcie(GPU, GPU, last)) == found


@pytest.mark.parametrize(
    ("now", "mine", "found"),
    [
        ({}, True, []), ({"slowdowns": None, "processes": None, "memory_used_bytes": None}, True, []),
        ({"slowdowns": ["sw_thermal"]}, False, ["note: slowed down: sw_thermal"]),
        ({"slowdowns": ["sw_thermal"]}, True, ["bad: slowed down: sw_thermal"]),
        ({"slowdowns": ["hw_slowdown", "sw_thermal"]}, False, ["bad: slowed down: hw_slowdown"]),
        ({"slowdowns": ["hw_slowdown", "sw_thermal"]}, True, ["bad: slowed down: hw_slowdown, sw_thermal"]),
        ({"processes": [1, 2, 3, 4, 5]}, True, ["bad: process 1, 2, 3, 4 left on it"]),
        ({"processes": [1], "memory_used_bytes": 5 << 30, "temperature_c": 91}, True, ["bad: process 1 left on it"]),
        ({"processes": [1], "memory_used_bytes": 5 << 30, "temperature_c": 91}, False, []),
        ({"memory_used_bytes": 512 << 20}, True, []),
        ({"memory_used_bytes": 3 << 29}, True, ["bad: 1.5 GiB not freed"]),
        ({"temperature_c": 87}, True, []), ({"temperature_c": 88}, True, ["bad: 88 C without load, slows down at 92"]),
        ({"temperature_c": None}, True, []), ({"temperature_c": 99, "slowdown_c": None}, True, []),
    ],
)  # fmt: skip
def test_what_an_idle_gpu_shows(now: dict[str, Any], mine: bool, found: list[str]) -> None:
    assert said(verdict._conditions(GPU | now, mine)) == found


def told(found: Iterable[Finding]) -> list[str]:
    return [f"{one.severity}: {one.device}: {one.reason}" for one in found]


GIB = 1 << 30
SYNC = {"synchronised": True, "error_ms": 50.0}


@pytest.mark.parametrize(
    ("now", "last", "wanted", "found"),
    [
        ({}, {}, {}, []),
        ({"memory_bytes": 99 * GIB}, {"memory_bytes": 100 * GIB}, {}, []),
        ({"memory_bytes": 98 * GIB}, {"memory_bytes": 100 * GIB}, {}, ["bad: host: 98 GiB of memory, was 100"]),
        ({"memory_bytes": 98 * GIB}, {"memory_bytes": 100 * GIB}, {"memory_gib": 200},
         ["bad: host: 98 GiB of memory, was 100"]),
        ({"memory_bytes": 92 * GIB}, {}, {"memory_gib": 100}, []),
        ({"memory_bytes": 91 * GIB}, {"memory_bytes": 91 * GIB}, {"memory_gib": 100},
         ["bad: host: 91 GiB of memory, expected 100"]),
        ({"memory_bytes": None}, {"memory_bytes": 9}, {"memory_gib": 100}, []),
        ({"cores": 3}, {"cores": 4}, {}, ["bad: host: 3 of 4 cores online"]),
        ({"cores": 3}, {"cores": 4}, {"cores": 3}, []),
        ({"cores": 3}, {"cores": 3}, {"cores": 4}, ["bad: host: 3 of 4 cores online"]), ({"cores": 4}, {}, {}, []),
        ({"cores": None}, {"cores": 4}, {}, []),
        ({"mce": 3}, {"mce": 1}, {}, ["bad: host: 2 new machine check exceptions"]), ({"mce": 3}, {"mce": 3}, {}, []),
        ({"mce": 3}, {}, {}, []), ({"mce": 3}, {"mce": 3, "boot": "a"}, {},
                                   ["bad: host: 3 machine check exceptions since the start"]),
        ({"mce": 0}, {"mce": 3, "boot": "a"}, {}, []),
        ({"shm": {"bytes": 100, "free": 10}}, {}, {}, []),
        ({"shm": {"bytes": 10 * GIB, "free": GIB // 2}}, {}, {}, ["bad: /dev/shm: 0.5 of 10.0 GiB free"]),
        ({"shm": {"bytes": 0, "free": 0}}, {}, {}, []), ({"shm": None}, {}, {}, []),
        ({"shm": {"bytes": 100, "free": 49}}, {}, {"shm_free_share": 0.5}, ["bad: /dev/shm: 0.0 of 0.0 GiB free"]),
        ({"clock": SYNC}, {}, {"clock_error_ms": 50}, []), ({"clock": SYNC}, {}, {}, []),
        ({"clock": SYNC}, {}, {"clock_error_ms": 49}, ["bad: clock: error 50 ms, allowed 49"]),
        ({"clock": SYNC | {"synchronised": False}}, {}, {"clock_error_ms": 50},
         ["unsure: clock: the kernel does not consider it synchronised"]),
        ({"clock": None}, {}, {"clock_error_ms": 50}, ["unsure: clock: the kernel does not consider it synchronised"]),
        ({"clock": None}, {}, {}, []),
        ({"edac": {"mc0": {"uncorrected": 1, "corrected": 9}}}, {"edac": {"mc0": {"uncorrected": 0,
         "corrected": 9}}}, {},
         ["bad: memory mc0: 1 new uncorrected errors"]),
        ({"edac": {"mc0": {"uncorrected": 1, "corrected": 9}}}, {"boot": "a", "edac": {"mc0": {
            "uncorrected": 1, "corrected": 0}}}, {}, ["bad: memory mc0: 1 new uncorrected errors"]),
        ({"edac": {"mc0": {"uncorrected": 1, "corrected": 9}}}, {}, {}, []),
        ({"edac": {"mc0": {"uncorrected": 0, "corrected": 1000}}}, {"edac": {"mc0": {"uncorrected": 0,
         "corrected": 0}}},
         {}, ["note: memory mc0: 1000 new corrected errors"]),
        ({"edac": {"mc0": {"uncorrected": 0, "corrected": 1001}}}, {"edac": {"mc0": {"uncorrected": 0,
         "corrected": 0}}},
         {}, ["bad: memory mc0: 1001 new corrected errors"]),
    ],
)  # fmt: skip
def test_the_host(now: dict[str, Any], last: dict[str, Any], wanted: dict[str, Any], found: list[str]) -> None:
    assert told(verdict._host(seen({"host": wanted}, now, last))) == found


def test_a_host_that_did_not_answer_is_no_fault_of_its_figures() -> None:
    last = {"time": 1.0, "host": {"memory_bytes": GIB, "cores": 4}}
    about = Seen({"host": {"clock_error_ms": 1}}, last, {"host": Answer(hung=True, at="host")}, now=60.0)
    assert told(verdict._host(about)) == [] and not about.same_boot


AT = {"gpu 3": {"index": 3, "bus": "0000:13:00.0"}, "driver": {}}


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (("xid", "0000:13:00", "79"), "bad: gpu 3: XID 79: GPU has fallen off the bus"),
        (("xid", "0000:13:00.0", "79"), "bad: gpu 3: XID 79: GPU has fallen off the bus"),
        (("xid", "0000:99:00", "79"), "bad: gpu 0000:99:00: XID 79: GPU has fallen off the bus"),
        (("xid", "0000:13:00", "13"), "note: gpu 3: XID 13: graphics engine exception"),
        (("xid", "0000:13:00", "145, x Fatal"), "bad: gpu 3: XID 145 fatal: NVLink RLW error"),
        (("xid", "0000:13:00", "145, x Nonfatal"), "note: gpu 3: XID 145 nonfatal: NVLink RLW error"),
        (("xid", "0000:13:00", "145, x"), "note: gpu 3: XID 145: NVLink RLW error"),
        (("xid", "0000:13:00", "149, x Nonfatal"), "note: gpu 3: XID 149 nonfatal: NVLink NETIR error"),
        (("xid", "0000:13:00", "149, x"), "bad: gpu 3: XID 149: NVLink NETIR error"),
        (("xid", "0000:13:00", "999"), "note: gpu 3: XID 999: not known to be a hardware error"),
        (("xid", "0000:13:00", "154, GPU Reset"), "bad: gpu 3: XID 154: asks for GPU Reset"),
        (("xid", "0000:13:00", "154, None"), "note: gpu 3: XID 154: asks for None"),
        (("xid", "0000:13:00", "154"), "note: gpu 3: XID 154: GPU recovery action changed"),
        (("sxid", "5", "20034"), "bad: NVSwitch 5: SXid 20034, fatal"),
        (("memory", "", "0x12ab"), "bad: host: memory failure at page 0x12ab"),
        (("medium", "sda", "target"), "bad: disk sda: critical target error"),
        (("evicted", "scratch", ""), "note: scratch: Lustre evicted this client"),
        (("other", "", ""), None),
    ],
)
def test_an_event_of_the_log(event: tuple[str, str, str], found: str | None) -> None:
    log = {"first": 1, "last": 9, "events": [[5, *event]]}
    about = seen(host={"log": log}, gpus=Answer(parts=AT))
    assert told(verdict._log(about)) == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("last", "first", "found"),
    [
        # events 4, 5 and 6; what was read before is not told again, except of another start
        ({}, 1, [4, 5, 6]), ({"log": {"last": 4}}, 1, [5, 6]), ({"log": {"last": 5}}, 1, [6]),
        ({"log": {"last": 6}}, 1, []),
        ({"log": {"last": 5}, "boot": "a"}, 1, [4, 5, 6]), ({"log": {"last": 5}}, 6, [6]),
        ({"log": {"last": 3}}, 4, [4, 5, 6]), ({"log": {"last": 2}}, 4, ["1 lines", 4, 5, 6]),
        ({"log": {"last": 1}}, 4, ["2 lines", 4, 5, 6]), ({"log": {"last": 1}, "boot": "a"}, 4, [4, 5, 6]),
        ({"log": {"last": 1}}, None, [4, 5, 6]),
    ],
)  # fmt: skip
def test_events_are_told_once(last: dict[str, Any], first: int | None, found: list[Any]) -> None:
    log = {"first": first, "last": 6, "events": [[number, "memory", "", number] for number in (4, 5, 6)]}
    assert told(verdict._log(seen(host={"log": log}, last=last))) == [
        f"bad: host: memory failure at page {one}" if isinstance(one, int)
        else f"note: kernel log: {one} were overwritten before they were read" for one in found
    ]  # fmt: skip


def port(up: bool | None = True, rate: float | None = 400.0, **counters: int | None) -> dict[str, Any]:
    return {"up": up, "gbit_s": rate, "counters": counters}


ROCE = {"name": "p", "gbit_s": 400.0}


@pytest.mark.parametrize(
    ("now", "last", "wanted", "found"),
    [
        (port(), port(), None, []), (None, port(), None, ["bad: p: port is missing"]), (None, port(up=False), None, []),
        (None, None, ROCE, ["bad: p: port is missing"]), (port(up=False), port(), None, ["bad: p: link is down"]),
        (port(up=False), port(up=False), None, []), (port(up=False), None, ROCE, ["bad: p: link is down"]),
        (port(up=None), port(), ROCE, []), (port(rate=200.0), port(), None, ["bad: p: 200 Gbit/s, was 400"]),
        (port(rate=200.0), None, ROCE, ["bad: p: 200 Gbit/s, expected 400"]), (port(rate=400.0), None, ROCE, []),
        (port(rate=200.0), port(rate=200.0), ROCE, ["bad: p: 200 Gbit/s, expected 400"]),
        (port(rate=200.0), port(up=False), None, []), (port(rate=None), port(), None, []),
        (port(rate=None), None, ROCE, ["unsure: p: rate cannot be read"]), (port(rate=None), None, {"name": "p"}, []),
        (port(rate=200.0), port(), {"name": "p"}, ["bad: p: 200 Gbit/s, expected 400"]),
        (port(link_downed=2), port(link_downed=1), None, ["note: p: 1 new link_downed"]),
        (port(link_downed=3), port(link_downed=1), None, ["bad: p: 2 new link_downed"]),
        (port(symbol_error=120), port(symbol_error=0), None, ["note: p: 120 new symbol_error"]),
        (port(symbol_error=121, link_downed=3), port(symbol_error=0, link_downed=1), None,
         ["bad: p: 121 new symbol_error", "bad: p: 2 new link_downed"]),
        (port(symbol_error=121), port(symbol_error=0, up=False), None, []),
        (port(symbol_error=121), port(symbol_error=0, up=False), ROCE, ["bad: p: 121 new symbol_error"]),
        (port(symbol_error=121), None, ROCE, []), (port(symbol_error=1), port(symbol_error=None), None, []),
        (port(symbol_error=0, link_downed=3), port(symbol_error=0, link_downed=1), None, ["bad: p: 2 new link_downed"]),
    ],
)  # fmt: skip
def test_a_port(now: Any, last: Any, wanted: dict[str, Any] | None, found: list[str]) -> None:
    about = seen({"ports": [wanted] if wanted else []}, {"ports": {"p": now} if now else {}},
                 {"ports": {"p": last} if last else {}})  # fmt: skip
    assert told(verdict._ports(about)) == found
    restarted = seen(about.expect, {**about.host(), "boot": "c"}, about.host("last"))
    assert told(verdict._ports(restarted)) == [one for one in found if " new " not in one]
    assert told(verdict._ports(seen(about.expect, {}, about.host("last")))) == [], "they could not be read"


FOUND = {"mounted": True, "type": "lustre", "read_only": False, "free": 10 * GIB, "files_free": 5}


@pytest.mark.parametrize(
    ("changes", "wanted", "found"),
    [
        ({}, {}, []), ({}, {"type": "lustre", "write": True, "free_gib": 10}, []),
        ({"mounted": False, "free": 0}, {"write": True}, ["bad: /s: not mounted"]),
        ({}, {"type": "nfs4"}, ["bad: /s: is lustre, expected nfs4"]), ({"read_only": True}, {}, []),
        ({"read_only": True, "free": 0}, {"write": True}, ["bad: /s: mounted read-only"]),
        ({}, {"free_gib": 11}, ["bad: /s: 10.0 GiB free, expected 11"]),
        ({"free": 0}, {"write": True}, ["bad: /s: 0.0 GiB free, expected 0"]), ({"free": 0}, {}, []),
        ({"files_free": 0}, {"write": True}, ["bad: /s: no inodes free"]), ({"files_free": 0}, {}, []),
        ({"files_free": 0}, {"write": True, "free_gib": 11}, ["bad: /s: 10.0 GiB free, expected 11"]),
        ({"files_free": None}, {"write": True}, []), ({"write": "ok"}, {"write": True}, []),
        ({"write": None}, {"write": True}, ["note: /s: this user may not write there: not tried"]),
        ({"write": "EIO"}, {"write": True}, ["bad: /s: cannot be written: EIO"]),
        ({"write": "ENOSPC"}, {"write": True, "free_gib": 11}, ["bad: /s: 10.0 GiB free, expected 11"]),
        ({"write": "EIO"}, {"write": True, "type": "nfs4"},
         ["bad: /s: is lustre, expected nfs4", "bad: /s: cannot be written: EIO"]),
    ],
)  # fmt: skip
def test_a_file_system(changes: dict[str, Any], wanted: dict[str, Any], found: list[str]) -> None:
    places = [{"path": "/other"}, {"path": "/hung"}, {"path": "/s", **wanted}, {"path": "/error"}]
    answers = {
        "file system /s": Answer(value=FOUND | changes), "file system /hung": Answer(hung=True, at="/hung"),
        "file system /error": Answer(error="OSError: x"),
    }  # fmt: skip
    about = Seen({"file_systems": places}, None, answers)
    assert told(verdict._files(about)) == [*found, "bad: /error: OSError: x"]


@pytest.mark.parametrize(
    ("name", "answer", "waited", "found"),
    [
        ("gpus", Answer(hung=True, at="gpu 3"), 4.0, ["bad: gpu 3: no answer within 4 s"]),
        ("gpus", Answer(hung=True, at="gpu 3"), 3.9, ["unsure: gpu 3: no answer within 3.9 s"]),
        ("file system /s", Answer(hung=True), 5.0, ["bad: /s: no answer within 5 s"]),
        ("host", Answer(hung=True), 5.0, ["bad: host: no answer within 5 s"]),
        ("host", Answer(error="ValueError: x"), 5.0, ["unsure: host: cannot be read: ValueError: x"]),
        ("file system /s", Answer(error="OSError: x"), 5.0, []), ("host", Answer(value=1), 5.0, []),
    ],
)  # fmt: skip
def test_a_probe_without_an_answer(name: str, answer: Answer, waited: float, found: list[str]) -> None:
    assert told(verdict._probes(Seen({}, None, {name: answer}, waited=waited))) == found


def one(index: int, **changes: Any) -> dict[str, Any]:
    return {"index": index, "uuid": f"GPU-{index}", "bus": f"b{index}", **changes}


HIDDEN = {"uuid": None, "bus": None}


@pytest.mark.parametrize(
    ("gpus", "before", "bus", "count", "wanted", "root", "found"),
    [
        ([one(0), one(1)], [0, 1], [0, 1], 2, 2, True, []),
        ([one(0)], [0, 1], [0], 1, 2, True, ["bad: gpu 1: missing: GPU-1 at b1"]),
        ([one(0)], [0, 1], [0, 1], 1, 2, True, ["bad: gpu 1: missing: GPU-1 at b1"]),
        ([one(0)], [0, 1], [0], 1, None, False, []),
        ([one(0), one(1, uuid="GPU-9")], [0, 1], [0, 1], 2, 2, True,
         ["unsure: gpu 1: replaced, was GPU-1; node accept confirms"]),
        ([one(0, bus="b1"), one(1, bus="b0")], [0, 1], [0, 1], 2, 2, True, []),
        ([one(0), one(1, **HIDDEN)], [0, 1], [0, 1], 2, 2, True, []),
        ([one(0)], [0], [0, 1], 1, None, True, ["bad: gpu b1: on the bus, not shown by the driver"]),
        ([one(0)], [0], [0, 1], None, None, True, []), ([one(0)], [0], [0, 1], 1, None, False, []),
        ([one(0)], [0], [0], 1, 2, True, ["bad: node: 1 GPUs, expected 2"]),
        ([one(0)], [0], [0], 1, 2, False, ["bad: node: 1 GPUs, expected 2"]),
        ([one(0)], [0], [0, 1], 1, 2, False, ["note: node: 1 GPUs, expected 2"]),
        ([one(0)], [0], [], 1, 2, False, ["note: node: 1 GPUs, expected 2"]),
        ([one(0), one(1)], [], [0, 1], 2, 1, True, ["unsure: node: 2 GPUs, expected 1"]),
        ([one(0), one(1)], [], [0, 1], 2, 1, False, ["note: node: 2 GPUs, expected 1"]),
    ],
)  # fmt: skip
def test_gpus_that_are_missing(
    gpus: list[dict[str, Any]], before: list[int], bus: list[int], count: int | None, wanted: int | None, root: bool,
    found: list[str],
) -> None:  # fmt: skip
    expect = {"gpus": {} if wanted is None else {"count": wanted}}
    about = seen(expect, {"gpus_on_bus": [f"b{index}" for index in bus]}, {}, root=root)
    known = {f"GPU-{index}": one(index) for index in before}
    assert told(verdict._missing(about, gpus, known, count)) == found


@pytest.mark.parametrize(
    ("driver", "wanted", "last", "found"),
    [
        ({"driver": "580"}, {}, {"driver": "580"}, []), ({"driver": "580"}, {}, None, []),
        ({"driver": "580"}, {"driver": "580"}, {"driver": "570"}, []),
        ({"driver": "580"}, {"driver": "590"}, {"driver": "580"}, ["unsure: driver: 580, expected 590"]),
        ({"driver": "580"}, {}, {"driver": "570"}, ["unsure: driver: 580, was 570; node accept confirms"]),
        ({"driver": None}, {"driver": "590"}, {"driver": "580"}, []),
        ({"why": "x", "code": 18}, {}, None, ["bad: driver: library and kernel module differ (NVML 18)"]),
        ({"why": "x", "code": 9}, {}, {"gpus": [one(0)]}, ["bad: driver: NVML is gone: x"]),
        ({"why": "x", "code": 9}, {"count": 0}, {"gpus": [one(0)]}, []), ({"why": "x", "code": 9}, {}, None, []),
        ({"why": "x", "code": 9}, {"count": 8}, {"gpus": []}, ["unsure: driver: no NVML: x"]),
        ({"why": "x", "code": 9}, {"count": 8}, {"gpus": [one(0)]}, ["bad: driver: NVML is gone: x"]),
    ],
)  # fmt: skip
def test_the_driver(driver: dict[str, Any], wanted: dict[str, Any], last: Any, found: list[str]) -> None:
    about = Seen({"gpus": wanted}, last, {"gpus": Answer(parts={"driver": driver})})
    assert told(verdict._driver(about)) == found
    assert told(verdict._driver(Seen({"gpus": wanted}, last, {}))) == []


@pytest.mark.parametrize(
    ("name", "value", "expect", "history", "bound"),
    [
        ("stream.triad.gpu0", 1, {"stream.triad.gpu": {"value": 4000.0}}, [], (3800.0, "reference")),
        ("stream.triad.gpu0", 1, {"stream.triad.gpu": {"value": 4000.0, "lower": -0.1}}, [1] * 9, (3600.0,
         "reference")),
        ("p2p.peer.gpu0-gpu1", 1, {"p2p.peer.pair": {"value": 100.0}}, [], (95.0, "reference")),
        ("stream.triad.gpu10", 1, {"stream.triad.pair": {"value": 100.0}}, [], None),
        ("stream.triad.host", 1, {"stream.triad.host": {"value": 100.0}}, [], (95.0, "reference")),
        ("stream.triad.gpu0", 1, {}, [100.0] * 4, None), ("stream.triad.gpu0", 1, {}, [100.0] * 5, (97.0, "was 100")),
        ("stream.triad.host", 1, {}, [100.0] * 5, (70.0, "was 100")),
        ("gemm.a.gpu0", 1, {}, [100.0] * 5, (92.0, "was 100")),
        ("transfer.h2d.gpu0", 1, {}, [100.0] * 5, (95.0, "was 100")),
        ("p2p.a.gpu0-gpu1", 1, {}, [100.0] * 5, (95.0, "was 100")),
        # six robust deviations, of the first twenty values
        ("stream.triad.gpu0", 1, {}, [99.0, 100.0, 101.0] * 5, (100 - 6 * 1.4826, "was 100")),
        ("stream.triad.gpu0", 1, {}, [100.0] * 20 + [50.0] * 30, (97.0, "was 100")),
    ],
)  # fmt: skip
def test_the_bound_of_a_measured_value(
    name: str, value: float, expect: dict[str, Any], history: list[float], bound: tuple[float, str] | None
) -> None:
    found = verdict.bound(name, {"references": expect}, {name: history, "stream.triad.gpu9": [7.0] * 9})
    assert found == (None if bound is None else (pytest.approx(bound[0]), bound[1]))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([100.0, 100.0, 100.0, 95.0], []), ([100.0, 100.0, 100.0, 94.9], ["gpu3: 94.9, its siblings 100"]),
        ([100.0, 100.0, 90.0], []),
        ([100.0, 100.0, 90.0, 80.0], ["gpu2: 90, its siblings 95", "gpu3: 80, its siblings 95"]),
    ],
)  # fmt: skip
def test_of_four_gpus_one_that_is_slower_than_the_others(values: list[float], found: list[str]) -> None:
    named = {f"stream.triad.gpu{at}": value for at, value in enumerate(values)} | {"stream.triad.host": 1.0}
    told = [f"{name.rpartition('.')[2]}: {reason}" for name, reason in verdict.low(named, {}, {})]
    assert told == found
    kept = {"stream.triad.gpu0": [200.0] * 5}
    (first, *_) = verdict.low(named, {}, kept)
    assert first == ("stream.triad.gpu0", f"{values[0]:.4g} below 194 (was 200)")


@pytest.mark.parametrize(("severities", "status"), [("", 0), ("n", 0), ("nu", 2), ("ub", 1), ("b", 1), ("nub", 1)])
def test_the_exit_status_is_that_of_the_worst_finding(severities: str, status: int) -> None:
    known = {"n": NOTE, "u": UNSURE, "b": BAD}
    assert verdict.status([Finding(known[one], "d", "r") for one in severities]) == status


def test_a_line_is_short_and_has_no_quotes() -> None:
    long = Finding(BAD, "gpu 3", 'a "word"\n' + "x" * 80)
    assert long.line.startswith("tenken: gpu 3: a 'word' xxx") and len(long.line) == 64 and long.line.endswith("x~")
    assert Finding(BAD, "d", "x" * 53).line == f"tenken: d: {'x' * 53}"
    assert Finding(BAD, "d", "x" * 54).line == f"tenken: d: {'x' * 52}~"
