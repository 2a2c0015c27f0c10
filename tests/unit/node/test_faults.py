"""Planted faults: each is found and named in one line; a healthy node has none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenken.node.probe import Answer
from tenken.node.verdict import BAD, LINE, NOTE, UNSURE, status
from tests.unit.node import replay
from tests.unit.node.fakes import AER, IB, Node, bus, files

Plant = Callable[[Node], Any]


def of_gpu(index: int = 3, **changed: Any) -> Plant:
    """One GPU reads otherwise."""
    return lambda node: node.nvml.gpus[index].update(changed)


def field(number: int, value: int) -> Plant:
    return lambda node: node.nvml.gpus[3]["fields"].update({number: value})


def link_error(link: int, code: int, value: int) -> Plant:
    return lambda node: node.nvml.gpus[3]["link_errors"].update({(link, code): value})


def file(name: str, content: str | None) -> Plant:
    return lambda node: node.put(name, content)


def imex(said: str) -> Plant:
    """What the service of the NVLink domain answers."""

    def plant(node: Node) -> None:
        node.put("usr/bin/nvidia-imex-ctl", f'#!/bin/sh\n[ "$1" = -q ] && echo {said}\n')
        (node.root / "usr/bin/nvidia-imex-ctl").chmod(0o755)

    return plant


def log(*messages: str, facility: int = 0) -> Plant:
    return lambda node: node.log(*messages, facility=facility)


def expect(section: str, **changed: Any) -> Plant:
    return lambda node: node.expect[section].update(changed)


def answer(name: str, **changed: Any) -> Plant:
    return lambda node: node.answers.update({name: Answer(**changed)})


def scratch(**changed: Any) -> Plant:
    good = {"mounted": True, "type": "lustre", "read_only": False, "free": 1 << 44, "bytes": 1 << 45,
            "files_free": 1000, "write": "ok"}  # fmt: skip
    return answer("file system /scratch", value=good | changed, ended=True)


def both(*plants: Plant) -> Plant:
    return lambda node: [plant(node) for plant in plants]


def without_gpu(index: int, on_bus: bool) -> Plant:
    def plant(node: Node) -> None:
        del node.nvml.gpus[index]
        if not on_bus:
            node.put(f"sys/bus/pci/devices/{bus(index)}/vendor", None)

    return plant


def init(code: int) -> Plant:
    return lambda node: setattr(node.nvml, "init", code)


SLOT = "sys/bus/pci/devices/max_link_width"

#: When the limits are tried.
NOW = time.time()

XID = "NVRM: Xid (PCI:0000:13:00): {}, pid='<unknown>', name=<unknown>, and its words"

#: Name, change, and the expected line. In the order of docs/node-check.md. A GPU of a rack as drivers from 570 on
#: report it: every part of the mask is "no", the configuration right.
RACK = {"state": 3, "status": 0, "clique": 1, "cluster": bytes(range(16)), "health": 0x1AA, "summary": 1}

FAULTS: list[tuple[str, Plant, str]] = [
    ("GPU gone from the bus", without_gpu(7, False), "gpu 7: missing: GPU-00000007 at 0000:17:00.0"),
    ("GPU on the bus, not in the driver", without_gpu(7, True), "gpu 7: missing: GPU-00000007 at 0000:17:00.0"),
    ("GPU lost", of_gpu(status=15), "gpu 3: lost: it does not answer the driver"),
    ("GPU wants a reset", of_gpu(status=16), "gpu 3: lost: it does not answer the driver"),
    ("another model", of_gpu(name="NVIDIA H100 80GB HBM3"), "gpu 3: is NVIDIA H100 80GB HBM3, expected NVIDIA H200"),
    ("driver and library differ", init(18), "driver: library and kernel module differ (NVML 18)"),
    ("driver not loaded", init(9), "driver: NVML is gone: nvmlInit answers 9"),
    ("ECC off", of_gpu(ecc=0), "gpu 3: ECC is off, expected on"),
    ("MIG on", of_gpu(mig=1), "gpu 3: MIG is on, expected off"),
    ("persistence off", both(of_gpu(persistence=0), expect("gpus", persistence=True)),
     "gpu 3: persistence mode is off, expected on"),
    ("uncorrected error", of_gpu(ecc_uncorrected=1, ecc_uncorrected_life=3), "gpu 3: 1 uncorrected memory error"),
    ("uncorrected errors, counter of the life alone", of_gpu(ecc_uncorrected=None, ecc_uncorrected_life=4),
     "gpu 3: 2 uncorrected memory errors"),
    ("storm of corrected errors", of_gpu(ecc_corrected=5003),
     "gpu 3: 5000 new corrected memory errors"),
    ("row remapping pending", of_gpu(remapped=[1, 0, 1, 0]), "gpu 3: row remapping pending: reset it"),
    ("row remapping failed", of_gpu(remapped=[1, 0, 0, 1]), "gpu 3: row remapping failed: replace it"),
    ("page retirement pending", of_gpu(retired=1), "gpu 3: page retirement pending: reset it"),
    ("driver asks for a reset", field(230, 1), "gpu 3: the driver asks for: reset"),
    ("driver asks for a reboot", field(230, 2), "gpu 3: the driver asks for: reboot"),
    ("XID 79", log(XID.format(79)), "gpu 3: XID 79: GPU has fallen off the bus"),
    ("XID 48", log(XID.format(48)), "gpu 3: XID 48: double-bit ECC error"),
    ("XID 119 in newer words", log("NVRM: Xid (PCI:0000:13:00.0): 119, Timeout after 6s"),
     "gpu 3: XID 119: GSP does not answer"),
    ("XID of a GPU with MIG", log("NVRM: Xid (PCI:0000:13:00 GPU-I:05 GPU-CI:00): 95, pid=7194, Uncontained"),
     "gpu 3: XID 95: uncontained memory error"),
    ("XID in older words", log("NVRM: Xid (0000:13:00): 79, GPU has fallen off the bus."),
     "gpu 3: XID 79: GPU has fallen off the bus"),
    ("fatal XID of NVLink 5", log("NVRM: Xid (PCI:0000:13:00): 145, RLW_CTRL Fatal XC0 i0 Link 03 (0x3 0x80000000)"),
     "gpu 3: XID 145 fatal: NVLink RLW error"),
    ("fatal XID after the process", log("NVRM: Xid (PCI:0000:13:00): 145, pid=8, name=ray::W, RLW_A Fatal XC0 i0"),
     "gpu 3: XID 145 fatal: NVLink RLW error"),
    ("fatal XID of a part of a unit", log("NVRM: Xid (PCI:0000:13:00): 151, TLW_RX/TLW_RX_PIPE0  Fatal   XC0 i0 (0x7)"),
     "gpu 3: XID 151 fatal: not known to be a hardware error"),
    ("fatal XID of no list", log("NVRM: Xid (PCI:0000:13:00): 151, NEW_UNIT Fatal XC1 i0 Link 3 (0x3)"),
     "gpu 3: XID 151 fatal: not known to be a hardware error"),
    ("driver's request in the log", log("NVRM: Xid (PCI:0000:13:00): 154, GPU recovery action changed from 0x0 (None) "
                                        "to 0x2 (Node Reboot Required)"),
     "gpu 3: XID 154: asks for Node Reboot Required"),
    ("XID of a GPU that is not listed", log("NVRM: Xid (PCI:0000:99:00): 95, pid=1"),
     "gpu 0000:99:00: XID 95: uncontained memory error"),
    ("fatal SXid", log("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32 egress"),
     "NVSwitch 0000:c1:00.0: SXid 12028, fatal"),
    ("NVLink down", of_gpu(links=[1] * 5 + [0] + [1] * 12), "gpu 3: NVLink 5 down, was up"),
    ("NVLinks down since ever", both(of_gpu(links=[1] * 16 + [0, 0]), lambda n: setattr(n, "last", None)),
     "gpu 3: 16 of 18 NVLinks up"),
    ("NVLink recovery", link_error(5, 1, 1), "gpu 3: NVLink 5: 1 new recovery"),
    ("NVLink replays", link_error(5, 0, 40), "gpu 3: NVLink 5: 40 new replay"),
    ("NVLink CRC errors", link_error(5, 2, 400_000), "gpu 3: NVLink 5: 400000 new crc flit"),
    ("NVLink 5 failed recovery", both(field(214, 1), lambda n: n.last["gpus"][3]["nvlink_errors"].update(
        recovery_failed=0)), "gpu 3: NVLinks: 1 new recovery failed"),
    ("PCIe width", of_gpu(width=8), "gpu 3: PCIe x8 of x16"),
    ("PCIe width in a slot that had more lanes", both(of_gpu(width=8), file(SLOT, "8\n")), "gpu 3: PCIe x8 of x16"),
    ("PCIe width in a guest", both(of_gpu(width=8), lambda n: n.last["gpus"][3].update(pcie_width=8),
                                   file(SLOT, "1\n")), "gpu 3: PCIe x8 of x16"),
    ("PCIe generation of the slot", of_gpu(generation=4, generation_max=4, pstate=2),
     "gpu 3: PCIe Gen4 at most, was Gen5"),
    ("PCIe generation", of_gpu(generation=1), "gpu 3: PCIe Gen1, was Gen5"),
    ("PCIe replays", of_gpu(replay=5004), "gpu 3: PCIe: 5000 new replays"),
    ("PCIe fatal by NVML", field(180, 1), "gpu 3: PCIe: 1 new fatal errors"),
    ("AER nonfatal", file(f"sys/bus/pci/devices/{bus(3)}/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 2\n"),
     "gpu 3: PCIe: 2 new AER nonfatal errors"),
    ("AER correctable storm", file(f"sys/bus/pci/devices/{bus(3)}/aer_dev_correctable", "TOTAL_ERR_COR 9000\n"),
     "gpu 3: PCIe: 9000 new AER correctable errors"),
    ("thermal slow-down", of_gpu(reasons=0x48), "gpu 3: slowed down: hw_slowdown, hw_thermal"),
    ("power brake", of_gpu(reasons=0x88), "gpu 3: slowed down: hw_slowdown, hw_power_brake"),
    ("slow-down by software on an idle GPU", of_gpu(reasons=0x20), "gpu 3: slowed down: sw_thermal"),
    ("clock left at a lower value", of_gpu(clock_set=1200), "gpu 3: clock set to 1200 of 1980 MHz"),
    ("power limit", both(of_gpu(power_limit=500_000), expect("gpus", power_limit_w=700)),
     "gpu 3: power limit 500 W, expected 700 W"),
    ("hot without load", of_gpu(temperature=89), "gpu 3: 89 C without load, slows down at 92"),
    ("fabric not started", of_gpu(fabric={"state": 1, "status": 0, "clique": 0, "cluster": bytes(16), "health": 0}),
     "gpu 3: fabric: not started"),
    ("fabric failed", of_gpu(fabric={"state": 3, "status": 999, "clique": 0, "cluster": bytes(16), "health": 0}),
     "gpu 3: fabric: registration failed (999)"),
    ("fabric degraded", of_gpu(fabric={"state": 3, "status": 0, "clique": 1, "cluster": bytes(range(16)), "health": 1}),
     "gpu 3: fabric: bandwidth degraded"),
    ("a route that is unhealthy", of_gpu(fabric=RACK | {"health": 0x19A}), "gpu 3: fabric: route unhealthy"),
    ("another chassis", of_gpu(fabric=RACK | {"health": 0x3AA}), "gpu 3: fabric: wrong chassis serial number"),
    ("fabric unhealthy by its summary", of_gpu(fabric=RACK | {"summary": 2}), "gpu 3: fabric: unhealthy"),
    ("IMEX of an NVLink domain", imex("INITIALIZING"), "imex: INITIALIZING: nodes cannot share GPU memory"),
    ("another NVLink domain", of_gpu(fabric=RACK | {"cluster": bytes(range(1, 17))}),
     "gpu 3: fabric: cluster 01020304/1; others: 00010203/1"),
    ("fell back to no NVLink domain", of_gpu(fabric=RACK | {"cluster": bytes(16), "clique": 0}),
     "gpu 3: fabric: no NVLink domain; others: 00010203/1"),
    ("one of a job's two fell back to no NVLink domain", both(
        of_gpu(0, fabric=RACK | {"cluster": bytes(16), "clique": 0}), of_gpu(1, fabric=RACK),
        lambda n: [g.update(status=4) for g in n.nvml.gpus[2:]]),
     "gpu 0: fabric: no NVLink domain; others: 00010203/1"),
    ("process left over", of_gpu(compute=[4711]), "gpu 3: process 4711 left on it"),
    ("process of drawing left over", of_gpu(graphics=[4712]), "gpu 3: process 4712 left on it"),
    ("memory not freed", of_gpu(used=5 << 30), "gpu 3: 5.0 GiB not freed"),
    ("machine checks after a start", both(
        file("proc/sys/kernel/random/boot_id", "another\n"), lambda n: host(mce=2)(n)),
     "host: 2 machine check exceptions since the start"),
    ("a GPU that only the bus shows", lambda n: host(gpus_on_bus=[*map(bus, range(8)), "0000:99:00.0"])(n),
     "gpu 0000:99:00.0: on the bus, not shown by the driver"),
    ("driver hangs", answer("gpus", hung=True, at="gpu 3"), "gpu 3: no answer within 5 s"),
    ("memory module lost", file("proc/meminfo", "MemTotal: 2047000000 kB\n"), "host: 1952 GiB of memory, was 2015"),
    ("memory less than the system file says", both(file("proc/meminfo", "MemTotal: 1100000000 kB\n"),
     lambda n: n.last["host"].update(memory_bytes=None)), "host: 1049 GiB of memory, expected 2015"),
    ("core offline", file("sys/devices/system/cpu/online", "0-2\n"), "host: 3 of 4 cores online"),
    ("EDAC uncorrected", file("sys/devices/system/edac/mc/mc0/ue_count", "1\n"),
     "memory mc0: 1 new uncorrected errors"),
    ("EDAC storm", file("sys/devices/system/edac/mc/mc0/ce_count", "9005\n"),
     "memory mc0: 9000 new corrected errors"),
    ("machine check", file("proc/interrupts", " MCE: 1 0 Machine check exceptions\n"),
     "host: 1 new machine check exceptions"),
    ("hardware error of the firmware", log("{1}[Hardware Error]: event severity: recoverable"),
     "host: hardware error in the kernel log: recoverable"),
    ("memory failure", log("Memory failure: 0x12ab: recovery action for dirty LRU page: Recovered"),
     "host: memory failure at page 0x12ab"),
    ("disk read-only", log("EXT4-fs (nvme0n1p1): Remounting filesystem read-only"),
     "disk nvme0n1p1: file system became read-only"),
    ("Btrfs read-only", log("BTRFS info (device sda2 state EA): forced readonly"),
     "disk sda2: file system became read-only"),
    ("XFS shut down", log("XFS (dm-0): Filesystem has been shut down due to log error (0x2)."),
     "disk dm-0: file system was shut down"),
    ("XFS shut down, in older words", log("XFS (sda3): I/O Error Detected. Shutting down filesystem"),
     "disk sda3: file system was shut down"),
    ("bad sector", log("critical medium error, dev nvme0n1, sector 12 op 0x0"), "disk nvme0n1: critical medium error"),
    ("file system with errors", log("EXT4-fs error (device sda2): ext4_lookup:1785: inode #2: comm ls: deleted inode"),
     "disk sda2: file system has errors"),
    ("disk that is gone", log("nvme nvme0: Device not ready; aborting reset, CSTS=0x1",
                              "nvme nvme0: Disabling device after reset failure: -19"),
     "disk nvme0: disabled: it did not answer"),
    ("adapter that hangs", log("mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - reached "
                               "miss count."), "adapter 0000:d2:00.0: its firmware does not answer"),
    ("fatal PCIe error", log("pcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received: 0000:41:00.0"),
     "PCIe 0000:41:00.0: fatal error"),
    ("fatal PCIe error in newer words", log("pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error message received "
                                            "from 0000:41:00.0"), "PCIe 0000:41:00.0: fatal error"),
    ("/dev/shm full", both(expect("host", shm_free_share=0.5), lambda n: n.answers.update(
        host=Answer(value=n.read()["host"].value | {"shm": {"bytes": 1 << 40, "free": 1 << 30}}, ended=True))),
     "/dev/shm: 1.0 of 1024.0 GiB free"),
    ("clock", both(expect("host", clock_error_ms=50), lambda n: n.answers.update(host=Answer(value=n.read()[
        "host"].value | {"clock": {"synchronised": True, "error_ms": 900.0}}, ended=True))),
     "clock: error 900 ms, allowed 50"),
    ("file system not mounted", scratch(mounted=False), "/scratch: not mounted"),
    ("another file system", scratch(type="nfs4"), "/scratch: is nfs4, expected lustre"),
    ("file system read-only", scratch(read_only=True), "/scratch: mounted read-only"),
    ("file system full", scratch(free=0), "/scratch: 0.0 GiB free, expected 0"),
    ("no inodes", scratch(files_free=0), "/scratch: no inodes free"),
    ("file system cannot be written", scratch(write="EIO"), "/scratch: cannot be written: EIO"),
    ("stale handle", answer("file system /scratch", error="OSError: [Errno 116] Stale file handle", ended=True),
     "/scratch: OSError: [Errno 116] Stale file handle"),
    ("file system hangs", answer("file system /scratch", hung=True, at="/scratch"), "/scratch: no answer within 5 s"),
    ("port missing", lambda n: [n.put(f"{IB}/{f}", None) or (n.root / IB).rename(n.root / "ib") for f in ["state"]],
     "mlx5_0/1: port is missing"),
    ("link down", file(f"{IB}/state", "1: DOWN\n"), "mlx5_0/1: link is down"),
    ("link initialising", file(f"{IB}/state", "2: INIT\n"), "mlx5_0/1: link is down"),
    ("slower link", file(f"{IB}/rate", "200 Gb/sec (4X HDR)\n"), "mlx5_0/1: 200 Gbit/s, expected 400"),
    ("link flaps", file(f"{IB}/counters/link_downed", "4\n"), "mlx5_0/1: 3 new link_downed"),
    ("symbol errors", file(f"{IB}/counters/symbol_error", "9000\n"),
     "mlx5_0/1: 9000 new symbol_error"),
    ("Ethernet down", file("sys/class/net/eth0/operstate", "down\n"), "eth0: link is down"),
    ("Ethernet flaps", file("sys/class/net/eth0/carrier_down_count", "9\n"),
     "eth0: 8 new carrier_down_count"),
    ("Slingshot errors", file("sys/class/cxi/cxi0/device/telemetry/hni_pcs_uncorrected_cw", "500@1.2\n"),
     "cxi0: 500 new hni_pcs_uncorrected_cw"),
]  # fmt: skip

#: What an operator does on purpose, or what cannot be read although it was requested: never drains.
CHANGES: list[tuple[str, Plant, str]] = [
    ("driver updated", lambda n: setattr(n.nvml, "driver", "590.10"),
     "driver: 590.10, was 580.159.04; node accept confirms"),
    ("driver not the expected one", expect("gpus", driver="590.10"), "driver: 580.159.04, expected 590.10"),
    ("GPU replaced", of_gpu(uuid="GPU-99999999-0000-0000-0000-000000000000"),
     "gpu 3: replaced, was GPU-00000003; node accept confirms"),
    ("GPU more", lambda n: n.expect["gpus"].update(count=4), "node: 8 GPUs, expected 4"),
    ("power limit lowered", of_gpu(power_limit=500_000), "gpu 3: power limit 500 W, was 700 W"),
    ("persistence switched off", of_gpu(persistence=0), "gpu 3: persistence mode is off, was on"),
    ("VBIOS", expect("gpus", vbios="97"), "gpu 0: VBIOS 96.00.A5.00.1A, expected 97"),
    ("fabric unreadable", of_gpu(fabric=None), "gpu 3: fabric state cannot be read"),
    ("another clique of the whole node", lambda n: [g.update(fabric=RACK | {"clique": 2}) for g in n.nvml.gpus],
     "gpu 0: fabric: clique 2, was 1"),
    ("a route that recovers", of_gpu(fabric=RACK | {"health": 0x1A6}), "gpu 3: fabric: route recovery in progress"),
    ("NVLinks unreadable", of_gpu(links=[]), "gpu 3: NVLinks cannot be read"),
    ("no library, no last state", lambda n: (setattr(n, "last", None), setattr(n.nvml, "init", 12)),
     "driver: no NVML: nvmlInit answers 12"),
    ("clock not synchronised", expect("host", clock_error_ms=50),
     "clock: the kernel does not consider it synchronised"),
    ("the reader of the host died", answer("host", error="ended without an answer"),
     "host: cannot be read: ended without an answer"),
    ("rate unreadable", file(f"{IB}/rate", ""), "mlx5_0/1: rate cannot be read"),
    ("silent for a second and a half", lambda n: (setattr(n, "waited", 1.5), n.answers.update(
        gpus=Answer(hung=True, at="gpu 3"))), "gpu 3: no answer within 1.5 s"),
]  # fmt: skip

#: What is not a fault, although a careless check would report it.
HARMLESS: list[tuple[str, Plant]] = [
    ("IMEX that is ready", imex("READY")),
    ("a driver with version 3 of the fabric's state", lambda n: [g.update(fabric=RACK) for g in n.nvml.gpus]),
    ("nothing", lambda n: None),
    ("a driver that was updated to the expected one", both(
        lambda n: setattr(n.nvml, "driver", "590.10"), expect("gpus", driver="590.10"))),
    ("no last state", lambda n: setattr(n, "last", None)),
    ("another boot, all counters new", both(lambda n: n.last["host"].update(boot="another"), file(
        "sys/devices/system/edac/mc/mc0/ce_count", "9005\n"), file(f"{IB}/counters/symbol_error", "9000\n"))),
    ("a file system to read from", both(scratch(read_only=True, free=0, files_free=0, write=None),
                                        lambda n: n.expect["file_systems"][0].update(write=False))),
    ("counters that were reset", lambda n: [g.update(replay=0, ecc_corrected=0) for g in n.nvml.gpus]),
    ("few corrected errors", of_gpu(ecc_corrected=9)),
    ("one replay", link_error(3, 0, 1)),
    ("few CRC errors", link_error(3, 2, 50)),
    ("few PCIe replays", of_gpu(replay=20)),
    # the folder above those of the devices stands for the bridge
    ("a board of sixteen lanes in a slot of eight", both(
        of_gpu(width=8), lambda n: n.last["gpus"][3].update(pcie_width=8), file(SLOT, "8\n"))),
    ("recoveries of a link that saves power", field(169, 5000)),
    ("an idle link that trained down", of_gpu(generation=1, pstate=8)),
    ("an idle link that trains further down", both(
        of_gpu(generation=1, pstate=8), lambda n: n.last["gpus"][3].update(pstate=8, pcie_generation=3))),
    ("nonfatal XIDs of NVLink 5", log("NVRM: Xid (PCI:0000:13:00): 144, SAW_MVB Nonfatal XC0 i0 Link 0 (0x1 0x8)",
                                      "NVRM: Xid (PCI:0000:13:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 3",
                                      "NVRM: Xid (PCI:0000:13:00): 145, pid=8, name=ray::W, RLW_A Nonfatal XC0 i0",
                                      "NVRM: Xid (PCI:0000:13:00): 146, TLW_RX/TLW_RX_PIPE1 Nonfatal XC0 i0")),
    ("numbers of cores that repeat on each die", lambda n: [
        n.put(f"sys/devices/system/cpu/cpu{cpu}/topology/{name}", f"{value}\n") for cpu in range(4)
        for name, value in (("core_id", cpu % 2), ("thread_siblings_list", cpu))]),
    ("a program's XID", log(XID.format(31), XID.format(13), XID.format(43))),
    ("an XID that a program wrote into the log", log(XID.format(79), facility=1)),
    ("a user's image and a test", log("EXT4-fs (loop3): Remounting filesystem read-only",
                                      "XFS (loop5): Filesystem has been shut down due to log error (0x2).",
                                      "XFS (sda3): User initiated shutdown received. Shutting down filesystem")),
    ("a disc, and commands that a disk does not know", log(
        "critical medium error, dev sr0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "critical medium error, dev loop4, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "blk_update_request: critical target error, dev sda, sector 4224 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
        "critical target error, dev nvme0n1, sector 8 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0 prio class 0")),
    ("a request that was met", log("NVRM: Xid (PCI:0000:13:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
                                   "Required) to 0x0 (None)")),
    ("what busy and moved nodes log", log(
        "LustreError: 167-0: work-OST0001-osc-ffff8: This client was evicted by work-OST0001; in progress operations",
        "Lustre: work-MDT0000-mdc-ffff8: Connection to work-MDT0000 (at 10.0.47.232@tcp) was lost; in progress",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:77]",
        "ena 0000:00:05.0 ens5: Keep alive watchdog timeout.", "efa 0000:4f:00.0: Setup irq:1861 name:efa-mgmnt",
        "mlx5_core 0000:d2:00.0: Port module event: module 0, Cable plugged",
        "nvme nvme0: I/O 12 QID 5 timeout, completion polled",
        "pcieport 0000:00:1c.1: AER: Multiple Corrected error received: 0000:00:1c.1",
        "pcieport 0000:00:00.0: AER: Uncorrected (Non-Fatal) error received: 0000:00:00.0",
        "mce: [Hardware Error]: Machine check events logged",
        "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0xee30a0)",
        "NVRM: Xid (PCI:0000:13:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 145",
        "EXT4-fs error (device loop2): ext4_lookup:1785: inode #2: comm ls: deleted inode referenced: 12")),
    ("jobs that were killed", file(f"{IB}/hw_counters/local_ack_timeout_err", "9999\n")),
    ("corrected error of the firmware", log("{1}[Hardware Error]: event severity: corrected")),
    ("a saturated counter", file(f"{IB}/counters/link_downed", "255\n")),
    ("one loss of the link", file(f"{IB}/counters/link_downed", "2\n")),
    ("discards by congestion", file(f"{IB}/counters/port_xmit_discards", "9999\n")),
    ("a port that never was up", both(file("sys/class/net/eth0/operstate", "down\n"),
                                      lambda n: n.last["host"]["ports"]["eth0"].update(up=False))),
    ("power capped by software", of_gpu(reasons=0x4)),
    ("another job's GPU at work", both(of_gpu(compute=[99], used=70 << 30, reasons=0x24, temperature=90),
                                       lambda n: setattr(n, "mine", frozenset({0, 1})))),
    ("GPUs that control groups hide from a user", lambda n: (setattr(n, "root_user", False), [
        g.update(status=4) for g in n.nvml.gpus[2:]])),
    ("a container with two of eight GPUs", lambda n: (setattr(n, "root_user", False), n.nvml.gpus.__delitem__(
        slice(2, 8)))),
    ("no EDAC, no MCE, no AER", lambda n: [n.put(name, None) for name in (
        "sys/devices/system/edac/mc/mc0/ce_count", "sys/devices/system/edac/mc/mc0/ue_count", "proc/interrupts",
        f"sys/bus/pci/devices/{bus(3)}/aer_dev_fatal")]),
    ("no kernel log", file("dev/kmsg", None)),
    ("an old library", lambda n: n.nvml.lacks.update({
        "nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons"})),
    ("a user who may not write", scratch(write=None)),
]  # fmt: skip


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("node"))


@pytest.fixture
def node(one: Node) -> Iterator[Node]:
    yield one
    if (one.root / "ib").exists():
        (one.root / "ib").rename(one.root / IB)
    one.heal()


def test_there_are_sixty() -> None:
    assert len({line for _, _, line in FAULTS}) >= 60
    assert len({what for what, _, _ in FAULTS}) == len(FAULTS)
    assert set(AER) == {"correctable", "nonfatal", "fatal"} and files()


@pytest.mark.parametrize(("what", "plant", "line"), FAULTS, ids=[what for what, _, _ in FAULTS])
def test_a_fault_is_named_in_one_line(node: Node, what: str, plant: Plant, line: str) -> None:
    plant(node)
    found = node.findings()
    assert [f.reason for f in found if f.severity == BAD][:1] == [line.partition(": ")[2]], found
    assert {f.device for f in found if f.severity == BAD} == {line.partition(": ")[0]}
    assert status(found) == 1
    assert found[0].line == f"tenken: {line}" and len(found[0].line) <= LINE  # whole, not cut


def host(**changed: Any) -> Plant:
    return lambda n: n.answers.update(host=Answer(value=n.read()["host"].value | changed, ended=True))


def since(hours: float, plant: Callable[[int], Plant]) -> Callable[[int], Plant]:
    """The last good state was so long ago."""
    return lambda new: both(lambda n: n.last.update(time=NOW - 3600 * hours), plant(new))


def memory(gib: int, was: int | None) -> Callable[[int], Plant]:
    last = lambda n: n.last["host"].update(memory_bytes=was)  # noqa: E731
    return lambda now: both(expect("host", memory_gib=gib), host(memory_bytes=now), last)


#: Each limit: what reaches it, the last number that is none of these, and the first that is. Counters of the fake begin
#: at what is added here. A quarter of an hour counts as an hour, and four hours as four.
EDGES: list[tuple[str, Callable[[int], Plant], int, int, str]] = [
    *[
        (f"{what} in {hours} h", since(hours, plant), limit * max(1, hours), limit * max(1, hours) + 1, BAD)
        for hours in (0.25, 4)
        for what, limit, plant in (
            ("corrected errors of a GPU", 1000, lambda new: of_gpu(ecc_corrected=3 + new)),
            ("corrected errors of memory", 1000,
             lambda new: file("sys/devices/system/edac/mc/mc0/ce_count", f"{5 + new}\n")),
            ("replays of a link", 10, lambda new: link_error(5, 0, new)),
            ("symbol errors", 120, lambda new: file(f"{IB}/counters/symbol_error", f"{new}\n")),
        )
    ],
    ("CRC errors of a link", since(0.01, lambda new: link_error(5, 2, new)), 6000, 6001, BAD),  # of a minute
    ("PCIe replays", since(0.01, lambda new: of_gpu(replay=4 + new)), 8, 9, BAD),
    ("losses of a port", lambda new: file(f"{IB}/counters/link_downed", f"{1 + new}\n"), 1, 2, BAD),
    ("memory in use", lambda used: of_gpu(used=used), 512 << 20, (512 << 20) + 1, BAD),
    ("temperature", lambda hot: of_gpu(temperature=hot), 87, 88, BAD),
    ("power limit expected", lambda w: both(of_gpu(power_limit=w), expect("gpus", power_limit_w=700)), 693_000, 692_999,
     BAD),
    ("power limit expected, above", lambda w: both(of_gpu(power_limit=w), expect("gpus", power_limit_w=700)), 707_000,
     707_001, BAD),
    ("power limit as it was", lambda w: of_gpu(power_limit=w), 693_000, 692_999, UNSURE),
    ("clock", lambda mhz: of_gpu(clock_set=mhz), 1980, 1979, BAD),
    ("PCIe width", lambda width: of_gpu(width=width), 16, 15, BAD),
    ("PCIe generation", lambda now: of_gpu(generation=now), 5, 4, BAD),
    ("PCIe generation of the slot", lambda most: of_gpu(generation=4, generation_max=most, pstate=2), 5, 4, BAD),
    ("NVLinks", lambda up: both(of_gpu(links=[1] * up), lambda n: setattr(n, "last", None)), 18, 17, BAD),
    ("GPUs", lambda wanted: expect("gpus", count=wanted), 8, 9, BAD),
    ("GPUs, fewer", lambda wanted: expect("gpus", count=wanted), 8, 7, UNSURE),
    ("memory expected", memory(100, None), 92 << 30, (92 << 30) - 1, BAD),
    ("memory as it was", memory(100, 10**12), 99 * 10**10, 99 * 10**10 - 1, BAD),
    ("cores", lambda cores: host(cores=cores), 4, 3, BAD),
    ("/dev/shm", lambda free: both(expect("host", shm_free_share=0.5), host(shm={"bytes": 100, "free": free})), 50, 49,
     BAD),
    ("clock's error", lambda ms: both(expect("host", clock_error_ms=50), host(clock={
        "synchronised": True, "error_ms": ms})), 50, 51, BAD),
    ("rate of a port", lambda rate: file(f"{IB}/rate", f"{rate} Gb/sec (4X NDR)\n"), 400, 399, BAD),
    ("room", lambda free: both(lambda n: n.expect["file_systems"][0].update(free_gib=1), scratch(free=free)), 1 << 30,
     (1 << 30) - 1, BAD),
    ("room to write", lambda free: scratch(free=free), 1, 0, BAD),
    ("inodes", lambda free: scratch(files_free=free), 1, 0, BAD),
    ("lines of the log that were lost", lambda first: host(log={"first": first, "last": 999, "events": []}), 102, 103,
     NOTE),
    ("events of the log that were cut", lambda more: host(log={"first": 1, "last": 9, "events": [], "more": more}), 0,
     1, NOTE),
    ("time to answer", lambda tenths: both(answer("gpus", hung=True, at="gpu 3"), lambda n: setattr(
        n, "waited", tenths / 10)), 39, 40, BAD),
]  # fmt: skip


@pytest.mark.parametrize(("plant", "quiet", "loud", "severity"), [e[1:] for e in EDGES], ids=[e[0] for e in EDGES])
def test_each_limit_is_held_at_its_edge(
    node: Node, monkeypatch: pytest.MonkeyPatch, plant: Callable[[int], Plant], quiet: int, loud: int, severity: str
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    for value, expected in ((quiet, False), (loud, True)):
        plant(value)(node)
        found = node.findings()
        assert (severity in {f.severity for f in found}) is expected, (value, found)
        node.heal()


@pytest.mark.parametrize(("what", "plant", "line"), CHANGES, ids=[what for what, _, _ in CHANGES])
def test_a_change_is_said_and_drains_nobody(node: Node, what: str, plant: Plant, line: str) -> None:
    plant(node)
    found = node.findings()
    assert status(found) == 2, found
    assert f"{found[0].device}: {found[0].reason}" == line
    assert found[0].severity == UNSURE and found[0].line == f"tenken: {line}"


@pytest.mark.parametrize(("what", "plant"), HARMLESS, ids=[what for what, _ in HARMLESS])
def test_what_is_no_fault_is_none(node: Node, what: str, plant: Plant) -> None:
    plant(node)
    found = node.findings()
    assert {f.severity for f in found} <= {NOTE} and status(found) == 0, found


def test_fields_that_a_gpu_does_not_have_are_unknown_and_no_fault(node: Node) -> None:
    """Each field alone, and all of them: a virtual machine, a consumer GPU, an old driver."""
    node.expect["gpus"] = {
        "count": 8, "names": ["NVIDIA H200"], "ecc": True, "mig": False, "persistence": True,
        "vbios": "96.00.A5.00.1A", "power_limit_w": 700,
    }  # fmt: skip
    keys = [key for key in node.nvml.gpus[3] if key not in ("uuid", "bus", "status", "link_errors", "fields", "links")]
    node.last["gpus"][3]["nvlinks"] = None
    node.nvml.gpus[3] |= {"links": [], "fields": {}}
    for key in [*keys, None]:
        kept = dict(node.nvml.gpus[3])
        node.nvml.gpus[3] |= dict.fromkeys(keys if key is None else [key])
        assert {f.severity for f in node.findings()} <= {NOTE}, (key, node.findings())
        node.nvml.gpus[3] = kept


@pytest.mark.slow
def test_no_healthy_check_is_an_alarm(node: Node) -> None:
    """Complete checks of eight GPUs, with readings and measured values that scatter as on real ones."""
    for seed in range(45, 51):  # each of three hosts twice
        assert list(replay.alarms(node, 1_700, seed)) == []
        node.heal()


def test_the_replay_finds_what_is_no_noise(node: Node) -> None:
    node.nvml.gpus[5]["fields"][180] = 1
    line = "tenken: gpu 5: PCIe: 1 new fatal errors"
    assert list(replay.alarms(node, 2, seed=46)) == [(0, line), (1, line)]
    node.heal()
    found = list(replay.alarms(node, 2, seed=46, lost={"stream.triad.gpu3": 0.96}))
    assert [(number, line.split()[0]) for number, line in found] == [(0, "stream.triad.gpu3"), (1, "stream.triad.gpu3")]
