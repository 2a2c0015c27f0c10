"""The configuration that a node's job reads: from files of /sys and /proc, from commands, and from none of them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tenken.campaign import findings, inventory, nodejob, spool
from tenken.campaign.file import Campaign
from tenken.campaign.journal import Unit
from tenken.paths import ROOT
from tools.campaign import standin

FILES = {
    "sys/class/dmi/id/product_name": "X1", "sys/class/dmi/id/bios_version": "2.1",
    "sys/class/dmi/id/bios_date": "01/02/2026",
    "sys/devices/platform/ipmi_bmc.0/firmware_revision": "1.73",
    "proc/cpuinfo": "model name\t: Some CPU\nmicrocode\t: 0xa1\n\nmodel name\t: Some CPU\n",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=77 hostname=n17 iommu=pt hugepages=16 ro\n",
    "proc/sys/kernel/osrelease": "6.1.0-9",
    "sys/devices/system/memory/block_size_bytes": "8000000", "sys/devices/system/memory/memory0/online": "1",
    "sys/devices/system/memory/memory1/online": "1", "sys/devices/system/memory/memory2/online": "0",
    "sys/devices/system/edac/mc/mc0/dimm0/size": "32768", "sys/devices/system/edac/mc/mc0/dimm1/size": "32768",
    "sys/devices/system/edac/mc/mc0/dimm2/size": "0",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "16",
    "sys/devices/system/cpu/online": "0-63", "sys/devices/system/cpu/cpufreq/boost": "0",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/node/node0/cpulist": "0-63", "sys/kernel/iommu_groups/0/x": "",
    "sys/class/infiniband/mlx5_0/fw_ver": "28.39", "sys/class/infiniband/mlx5_0/hca_type": "MT4129",
    "sys/class/infiniband/a0/hca_type": "MT4131",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE", "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec",
    "sys/class/nvme/nvme0/model": "Disk", "sys/class/nvme/nvme0/firmware_rev": "F1",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200", "sys/bus/pci/devices/0000:01:00.0/current_link_width": "8",
    "sys/bus/pci/devices/0000:01:00.0/max_link_speed": "32.0 GT/s PCIe",
    # what is not populated, and what is no device of interest
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0",
    "sys/bus/pci/devices/0000:02:00.0/class": "0x010802", "sys/bus/pci/devices/0000:02:00.0/current_link_width": "0",
    "sys/bus/pci/devices/0000:03:00.0/class": "0x060400", "sys/bus/pci/devices/0000:03:00.0/current_link_width": "16",
}  # fmt: skip
GPU = {"index": "0", "driver_version": "580.1", "vbios_version": "96.00", "inforom.img": "G1",
       "persistence_mode": "Enabled",
       "power.limit": "700.00", "power.default_limit": "[N/A]", "mig.mode.current": "Disabled"}  # fmt: skip


def answer(words):
    query = next((w.split("=", 1)[1].split(",") for w in words if w.startswith("--query-gpu=")), None)
    if query:
        # a driver refuses a query with a field that it does not know
        lines = (", ".join(GPU.get(f, "") for f in query), ", ".join(["[N/A]"] * len(query)))  # one that cannot be read
        return "\n".join(lines) if set(query) <= set(GPU) else ""
    if words[:2] == ["nvidia-smi", "nvlink"]:
        return "GPU 0: H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n\t Link 2: <inactive>\n"
    return {"timedatectl": "NTP=yes\nNTPSynchronized=no\n", "lspci": "ACSCtl: SrcValid+\nACSCtl: SrcValid-\n"}.get(
        words[0], ""
    )


def test_what_is_there_is_read_and_what_names_a_node_is_not(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = inventory.collect(tmp_path, answer)
    assert found["host"] == {
        "product": "X1", "BIOS": "2.1 01/02/2026", "BMC": "1.73", "microcode": "0xa1", "kernel": "6.1.0-9",
        "kernel options": "hugepages=16 iommu=pt", "IOMMU": "on", "installed memory": "0.25 GiB",
        "DIMMs": "2 x 32768 MB",
        "transparent huge pages": "madvise", "huge pages": "16 of 2048kB", "CPU": "Some CPU", "CPUs online": "0-63",
        "boost": "off", "CPU governor": "performance, powersave", "NUMA layout": "node0 0-63",
        "network adapters": "MT4129, MT4131", "network firmware": "28.39", "network ports": "400 Gb/sec ACTIVE",
        "NVMe drives": "Disk F1", "PCIe links of GPU": "x8, at most 32.0 GT/s PCIe", "clock": "not synchronised",
        "PCIe ACS": "on in 1 of 2 bridges",
    }  # fmt: skip
    assert set(found) == {"host", "GPU 0"}
    # this driver does not know every field of some groups
    assert found["GPU 0"] == {
        "driver": "580.1", "VBIOS": "96.00", "InfoROM": "G1", "persistence mode": "Enabled",
        "power limit (W)": "700.00", "MIG": "Disabled", "NVLinks": "2",
    }  # fmt: skip


def test_a_cpu_without_a_models_name_has_the_numbers_of_its_cores(tmp_path):
    """Of two nodes with Grace, or of one with cores of two kinds (DGX Spark)."""
    core = "processor\t: {}\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: {}\nCPU revision\t: 1\n\n"
    (tmp_path / "proc").mkdir()
    for parts, told in (
        (["0xd4f", "0xd4f"], "0x41 0x0 0xd4f 1"),
        (["0xd87", "0xd85"], "0x41 0x0 0xd85 1, 0x41 0x0 0xd87 1"),
    ):
        (tmp_path / "proc/cpuinfo").write_text("".join(core.format(at, part) for at, part in enumerate(parts)))
        assert inventory.collect(tmp_path, lambda words: "")["host"]["CPU"] == told


@pytest.mark.parametrize(("printed", "said"), [
    ("1980", True), ("Enabled", True), ("NVIDIA [x]", True), ("", False), ("N/A", False), ("[N/A]", False),
    ("[Requested functionality has been deprecated]", False), ("[GPU requires reset]", False), ("ERR!", False),
])  # fmt: skip
def test_why_there_is_no_value_is_none(printed, said):
    """Drivers from 570 on have no application clocks."""
    assert inventory._said(printed) is said


def test_a_node_that_has_nothing_tells_nothing_and_a_command_that_hangs_is_left(tmp_path, monkeypatch):
    assert set(inventory.collect(tmp_path, lambda words: "")["host"]) <= {"clock"}
    (tmp_path / "slow").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "slow").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(inventory, "_TIMEOUT_S", 0.2)
    assert inventory.run(["slow"]) == "" and inventory.run(["there-is-none"]) == "" and inventory.run(["false"]) == ""


def test_it_runs_by_itself_with_the_standard_library(tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", "-m", "tenken.campaign.inventory"], cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert json.loads(done.stdout)["host"]["kernel"] == os.uname().release


@pytest.mark.parametrize("told", ["whole", "torn", "none"])
def test_it_is_gathered_and_the_odd_one_out_is_named(tmp_path, told):
    world = standin.StandIn(tuple(f"n{i:02d}" for i in range(12)), checks=1, gpus=1)
    table = findings.Table({})
    spool_folder, root = tmp_path / "spool", tmp_path / "archive"
    spool_folder.mkdir()
    for at, node in enumerate(world.nodes):
        job = {"node": node, "spool": str(spool_folder), "token": f"t{at}", "session": "s"}
        world._leave(job)
        text = json.dumps(
            {"host": {"BIOS": "2.0" if at == 5 else "2.1"}, "GPU 0": {"InfoROM": "G2" if at == 7 else "G1"}}
        )
        if at != 3 or told == "whole":
            _add(spool_folder / f"t{at}.tar", text)
        elif told == "torn":
            _add(spool_folder / f"t{at}.tar", text[:20])
        gathered = spool.gather(spool_folder, f"t{at}", node, "s", root)
        assert gathered.fault is None
        table.take(world._record("s", node, 0), Unit(node))
        table.take_configuration(spool.configuration(root, "s", node), Unit(node))
    found = findings.Findings()
    findings.judge(table, found, findings_campaign(world.nodes))
    assert {(o.name, o.item, o.value) for o in found.odd} == {("n05", "BIOS", "2.0"), ("n07 GPU 0", "InfoROM", "G2")}
    silent = [m for m in found.missing if "did not report" in m]
    assert silent == ([] if told == "whole" else ["n03: did not report its configuration; 11 of 12 nodes did"])
    assert "n05" in found.bad_nodes() and ("n03" in found.bad_nodes()) == (told != "whole")


def findings_campaign(nodes):
    return Campaign("c", "standin", "gpu", tuple(nodes), 600.0)


def _add(path, text):
    with tarfile.open(path, "a") as packed:
        about = tarfile.TarInfo(f"archive/{inventory.FILE}")
        about.size = len(text)
        packed.addfile(about, io.BytesIO(text.encode()))


def test_a_node_s_job_reads_it_before_it_is_loaded():
    one = findings_campaign(["n1"])
    lines = nodejob.commands(one, Unit("n1"), "t", Path("/s"), Path("/b"), "20260101T000000Z", 0, Path("/usr/bin"))
    reads, runs = (
        next(i for i, line in enumerate(lines) if word in line) for word in ("campaign.inventory", "reframe -c")
    )
    assert reads < runs
