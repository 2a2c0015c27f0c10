"""Every reading in its own field: no two numbers that a GPU or a kernel answers are alike, and all that is read is
written here by hand. An exchanged, left out or added field differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenken.counters import COUNTERS, TRAFFIC, ports
from tenken.node import host
from tenken.node.gpus import MAX_LINKS, NVLINK_ERRORS, Nvml
from tests.unit.node.fakes import Fake

NUMBERED: dict[str, Any] = {
    "ecc": 1, "mig": 0, "persistence": 1, "ecc_corrected": 101, "ecc_uncorrected": 102, "ecc_uncorrected_life": 103,
    "remapped": [104, 105, 106, 107], "retired": 108, "generation": 4, "width": 8, "generation_max": 5, "width_max": 16,
    "replay": 109, "pstate": 2, "clock": 1110, "clock_max": 1111, "memory_clock": 1112, "clock_set": 1113,
    "clock_default": 1114, "reasons": 0x40, "power_limit": 115_000, "power_default": 116_000, "temperature": 17,
    "slowdown": 18, "fields": {82: 19, 230: 2, 169: 120, 173: 121, 179: 122, 180: 123, 206: 124, 207: 125, 208: 126,
                               211: 127, 214: 128, 215: 129, 219: 130},
    "links": [1, 0, 1], "link_errors": {(link, code): 200 + 10 * link + code for link in range(3) for code in range(4)},
    "fabric": {"state": 2, "status": 131, "clique": 132, "cluster": bytes(range(16)), "health": 2 | 1 << 4 | 3 << 8,
               "summary": 3},
    "used": 133, "compute": [134, 136], "graphics": [135],
}  # fmt: skip


def test_every_answer_of_nvml_has_its_own_field() -> None:
    fake = Fake(1)
    fake.gpus[0] |= NUMBERED
    assert Nvml(fake).gpu(0) == {
        "index": 0, "lost": None, "uuid": "GPU-00000000-0000-0000-0000-000000000000", "name": "NVIDIA H200",
        "vbios": "96.00.A5.00.1A", "bus": "0000:10:00.0", "ecc": 1, "mig": 0, "persistence": 1,
        "ecc_corrected": 101, "ecc_uncorrected": 102, "ecc_uncorrected_life": 103,
        "remapped": {"correctable": 104, "uncorrectable": 105, "pending": 106, "failed": 107}, "retired_pending": 108,
        "pcie_generation": 4, "pcie_width": 8, "pcie_generation_max": 5, "pcie_width_max": 16, "pcie_replay": 109,
        "pcie_errors": {"l0_to_recovery": 120, "correctable": 121, "nonfatal": 122, "fatal": 123}, "pstate": 2,
        "clock_mhz": 1110, "clock_max_mhz": 1111, "memory_clock_mhz": 1112, "clock_set_mhz": 1113,
        "clock_default_mhz": 1114, "slowdowns": ["hw_thermal"], "power_limit_w": 115.0, "power_default_w": 116.0,
        "temperature_c": 17, "slowdown_c": 18, "memory_temperature_c": 19, "recovery_action": 2,
        "fabric": {"state": "in progress", "status": 131, "clique": 132, "cluster": "000102030405060708090a0b0c0d0e0f",
                   "degraded": False, "health": ["route unhealthy", "wrong chassis serial number"],
                   "summary": "limited capacity"},
        "nvlinks": [True, False, True], "processes": [134, 135, 136], "memory_bytes": 150109880320,
        "memory_used_bytes": 133,
        "nvlink_errors": {
            "malformed_packets": 124, "buffer_overruns": 125, "receive_errors": 126, "link_integrity": 127,
            "recovery_failed": 128, "recovery": 129, "effective_errors": 130,
            # the second link is down
            "replay.0": 200, "recovery.0": 201, "crc_flit.0": 202, "crc_data.0": 203,
            **dict.fromkeys(("replay.1", "recovery.1", "crc_flit.1", "crc_data.1")),
            "replay.2": 220, "recovery.2": 221, "crc_flit.2": 222, "crc_data.2": 223,
        },
    }  # fmt: skip
    assert MAX_LINKS == 18 and len(NVLINK_ERRORS) == 4
    fake.gpus[0] |= {"mig": 1, "ecc": 0, "persistence": 0}
    assert [Nvml(fake).gpu(0)[name] for name in ("mig", "ecc", "persistence")] == [1, 0, 0]


@pytest.mark.parametrize("call", ["status", "fault"])
def test_a_gpu_that_is_gone_or_must_be_reset_is_lost(call: str) -> None:
    """Whether its handle or only a later call tells: nvidia-smi names such a GPU, and has [GPU requires reset] for its
    numbers. Of other codes one is a call that the GPU does not support."""
    fake = Fake(1)
    lost = {}
    for code in (3, 15, 16):
        fake.gpus[0][call] = code
        lost[code] = Nvml(fake).gpu(0)["lost"]
    assert lost == {3: None, 15: True, 16: True}


IB, ETH, CXI = "sys/class/infiniband/mlx5_2/ports/1", "sys/class/net/eth7", "sys/class/cxi/cxi3/device"
EFA = "sys/class/infiniband/rdmap79s0/ports/1"
FILES = {
    "proc/meminfo": "MemFree: 11 kB\nMemTotal: 12 kB\nSwapTotal: 13 kB\n",
    "proc/sys/kernel/random/boot_id": "b0071d00\n",
    "proc/loadavg": "1.25 2.5 3.75 2/345 678\n",
    "proc/interrupts": "     CPU0 CPU1\n NMI: 14 15 x\n MCE: 16 17 Machine check exceptions\n MCP: 18 19 polls\n",
    **{f"sys/devices/system/edac/mc/mc{n}/{kind}_count": f"{20 + 2 * n + (kind == 'ue')}\n"
       for n in (0, 1) for kind in ("ce", "ue")},
    f"{IB}/state": "2: INIT\n", f"{IB}/rate": "40 Gb/sec (4X QDR)\n", f"{IB}/link_layer": "InfiniBand\n",
    # as amzn-drivers' efa and Linux show it: neither of the two link layers, no folder `counters`
    f"{EFA}/state": "4: ACTIVE\n", f"{EFA}/rate": "100 Gb/sec (4X EDR)\n", f"{EFA}/link_layer": "Unknown\n",
    "sys/class/infiniband/rdmap79s0/device/vendor": "0x1d0f\n",
    f"{ETH}/type": "1\n", f"{ETH}/operstate": "up\n", f"{ETH}/speed": "25000\n", f"{ETH}/device/vendor": "0x15b3\n",
    f"{CXI}/port/link": "up\n", f"{CXI}/port/speed": "BS_200G\n",
    "sys/bus/pci/devices/0000:31:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:31:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:32:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:32:00.0/class": "0x060400\n",
    **{f"sys/bus/pci/devices/0000:31:00.0/aer_dev_{name}": f"Undefined 1\nBadTLP 2\nTOTAL_ERR_{total} {number}\n"
       for name, total, number in (("correctable", "COR", 34), ("nonfatal", "NONFATAL", 35), ("fatal", "FATAL", 36))},
}  # fmt: skip


def written(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def test_every_file_of_a_host_has_its_own_field(tmp_path: Path) -> None:
    written(tmp_path, FILES)
    for bus, link, target in (("33", "driver", "bus/pci/drivers/vfio-pci"), ("34", "physfn", "0000:31:00.0")):
        of_a_guest = f"sys/bus/pci/devices/0000:{bus}:00.0"
        written(tmp_path, {f"{of_a_guest}/vendor": "0x10de\n", f"{of_a_guest}/class": "0x030200\n"})
        (tmp_path / target).mkdir(parents=True)
        (tmp_path / of_a_guest / link).symlink_to(tmp_path / target)
    found = host.read(root=tmp_path)
    assert {name: found[name] for name in ("boot", "memory_bytes", "mce", "edac", "gpus_on_bus")} == {
        "boot": "b0071d00", "memory_bytes": 12288, "mce": 33,
        "edac": {"mc0": {"corrected": 20, "uncorrected": 21}, "mc1": {"corrected": 22, "uncorrected": 23}},
        "gpus_on_bus": ["0000:31:00.0"],
    }  # fmt: skip
    errors = {"correctable": 34, "nonfatal": 35, "fatal": 36}
    assert host.load(tmp_path) == 1.25, "over the last minute"
    assert host.bus_errors(found["gpus_on_bus"], tmp_path) == {"0000:31:00.0": errors}


def test_memory_of_a_coherent_gpu_is_not_the_hosts(tmp_path: Path) -> None:
    """As GH200 has it, where MIG instances would have nodes 2 to 8; on x86 such a node is HBM or CXL of the host."""
    nodes = {"node0": ("0-71", 480), "node1": ("", 96), "node2": ("", 0)}
    for name, (cpus, gib) in nodes.items():
        meminfo = f"Node {name[4:]} MemTotal: {gib * 2**20} kB\nNode {name[4:]} MemFree: 1 kB\n"
        at = f"sys/devices/system/node/{name}"
        written(tmp_path, {f"{at}/cpulist": f"{cpus}\n", f"{at}/meminfo": meminfo})
    for cpu, gib in (("CPU part\t: 0xd4f", 480), ("vendor_id\t: GenuineIntel", 576)):
        written(tmp_path, {"proc/meminfo": f"MemTotal: {576 * 2**20} kB\n", "proc/cpuinfo": f"processor\t: 0\n{cpu}\n"})
        assert host.read(root=tmp_path)["memory_bytes"] == gib * 2**30


def test_every_counter_of_a_port_has_its_own_file(tmp_path: Path) -> None:
    """Numbers below 15, the maximum of the narrowest counter, would repeat: this one is read alone."""
    written(tmp_path, FILES)
    folders = {"counters": IB, "hw_counters": IB, "statistics": ETH, "": ETH, "telemetry": CXI}
    for name, one in COUNTERS.items():
        file = f"{folders[one.source]}/{one.source}/{name.removeprefix('hw.')}"
        before = {port.name: port for port in ports(tmp_path)}
        written(tmp_path, {file: "5\n"})
        after = {port.name: port for port in ports(tmp_path)}
        changed = {
            (port, counter)
            for port, read in after.items()
            for counter, value in read.counters.items()
            if value != before[port].counters.get(counter)
        }
        of = {IB: "mlx5_2/1", ETH: "eth7", CXI: "cxi3"}[folders[one.source]]
        assert changed == {(of, name)} and after[of].counters[name] == 5, name


def test_every_count_of_traffic_has_its_own_file(tmp_path: Path) -> None:
    written(tmp_path, FILES)
    at = {"infiniband": IB, "efa": EFA, "ethernet": ETH, "cxi": CXI}
    files = {
        f"{IB}/counters/port_xmit_data": 1001, f"{IB}/counters/port_rcv_data": 1002,
        f"{IB}/counters/port_xmit_wait": 1003, f"{ETH}/statistics/tx_bytes": 1004, f"{ETH}/statistics/rx_bytes": 1005,
        f"{CXI}/telemetry/hni_sts_tx_ok_octets": 1006, f"{CXI}/telemetry/hni_sts_rx_ok_octets": 1007,
        f"{CXI}/telemetry/hni_pcs_corrected_cw": 1008, f"{EFA}/hw_counters/tx_bytes": 1009,
        f"{EFA}/hw_counters/rx_bytes": 1010,
    }  # fmt: skip
    assert set(files) == {f"{at[kind]}/{file}" for kind, some in TRAFFIC.items() for file, _ in some.values()}
    written(tmp_path, {name: f"{number}\n" for name, number in files.items()})
    assert {port.name: (port.kind, port.up, port.gbit_s, port.traffic) for port in ports(tmp_path)} == {
        # InfiniBand counts words of four bytes
        "mlx5_2/1": ("infiniband", False, 40.0, {"sent_bytes": 4004, "received_bytes": 4008, "wait_ticks": 1003}),
        "eth7": ("ethernet", True, 25.0, {"sent_bytes": 1004, "received_bytes": 1005}),
        "cxi3": ("cxi", True, 200.0, {"sent_bytes": 1006, "received_bytes": 1007, "corrected_words": 1008}),
        "rdmap79s0/1": ("efa", True, 100.0, {"sent_bytes": 1009, "received_bytes": 1010}),
    }  # fmt: skip
