"""Data sheets: found by name and by device, with sources, and consistent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenken.machines import hardware
from tenken.machines.errors import SystemFileError, UnknownSystemError

DEVICES = {
    "NVIDIA H200": "H200-SXM-141GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM-80GB",
    "NVIDIA H100 PCIe": "H100-PCIe-80GB",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA GH200 120GB": "GH200-96GB",
    "NVIDIA GH200 144G HBM3e": "GH200-144GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM-80GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "Tesla P100-SXM2-16GB": "P100-SXM2-16GB",
    "Tesla K40m": "K40",
    "NVIDIA Jetson AGX Xavier Developer Kit": "Jetson-AGX-Xavier",
    "quill": "Jetson-TX2",
    "NVIDIA GB300": "GB300-288GB",
    "Tesla V100S-PCIE-32GB": "V100S-PCIe-32GB",
    "NVIDIA A800-SXM4-80GB": "A800-SXM-80GB",
    "NVIDIA A800 80GB PCIe": "A800-PCIe-80GB",
    "NVIDIA A30": "A30-24GB",
    "Tesla T4": "T4-16GB",
    "NVIDIA A2": "A2-16GB",
    "NVIDIA A10": "A10-24GB",
    "A40": "A40-48GB",  # a driver before 470
    "RTX A6000": "RTX-A6000-48GB",
    "NVIDIA GeForce RTX 3090": "RTX-3090-24GB",
    "NVIDIA L40": "L40-48GB",
    "NVIDIA RTX 6000 Ada Generation": "RTX-6000-Ada-48GB",
    "NVIDIA GeForce RTX 5090": "RTX-5090-32GB",
}


@pytest.mark.parametrize("device", DEVICES)
def test_devices_find_their_sheet(device: str) -> None:
    found = hardware.for_device(device)
    assert found is not None and found.name == DEVICES[device]


LOOK_ALIKES = [
    "NVIDIA H200 NVL 2",
    "NVIDIA A100-SXM4-60GB",
    "NVIDIA L40G",
    "NVIDIA A10G",
    "NVIDIA H100",  # two products with this name: 64 and 96 GiB
    "NVIDIA GeForce RTX 5090 Laptop GPU",
    "NVIDIA RTX 6000D",
    "NVIDIA GB3000",
    "NVIDIA Jetson Xavier NX",
    "",
]


@pytest.mark.parametrize("device", LOOK_ALIKES)
def test_look_alikes_do_not(device: str) -> None:
    assert hardware.for_device(device) is None


def test_figures_make_sense() -> None:
    sheets = hardware.load()
    for gpu in sheets.gpus.values():
        assert gpu.source and len(gpu.source) > 10
        assert 10 < gpu.memory_gbs < 10000 and 4 <= gpu.memory_gib <= 288
        assert gpu.l2_bytes is None or 2**18 <= gpu.l2_bytes <= 2**27
        assert re.fullmatch(r"sm_\d{2,3}", gpu.arch)
        if gpu.fp64_tflops and gpu.fp64_tensor_tflops:
            # Blackwell's tensor cores have no more FP64 than the others
            ratio = gpu.fp64_tensor_tflops / gpu.fp64_tflops
            assert (
                ratio == 1 if gpu.compute_capability >= "10" and len(gpu.compute_capability) == 4 else 1.9 < ratio < 2.1
            )
        assert re.fullmatch(r"20\d\d", gpu.date)
        assert list(gpu.tflops.values()) == sorted(gpu.tflops.values()), "each step down in precision is faster"
    for host in sheets.hosts.values():
        assert host.source and 10 < host.memory_gbs < 1000


def test_links_of_the_cards() -> None:
    h200, gh200, p100 = (hardware.sheet(n) for n in ("H200-SXM-141GB", "GH200-96GB", "P100-SXM2-16GB"))
    assert h200.gpu_links is not None and h200.gpu_links.total_gbs == 450
    assert h200.host_link is not None and h200.host_link.kind == "PCIe Gen5 x16"
    assert gh200.host_link is not None and gh200.host_link.total_gbs == 450
    assert p100.gpu_links is not None and p100.gpu_links.total_gbs == 80


def test_unknown_sheet_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownSystemError, match="unknown GPU data sheet 'H300'; allowed: GH200-96GB, "):
        hardware.sheet("H300")
    with pytest.raises(UnknownSystemError, match="unknown host data sheet"):
        hardware.host_sheet("H300")


#: What is wrong in a sheet, and the message; the second half contradicts itself.
BENT = (
    ('compute_capability: "9.0"', "compute_capability: 9.0", "must be text, not 9.0: write it in quotes"),
    ("width: 16", "width: 12", "cannot be 12"),
    ("gbs: 4000", "gbs: 0", "more than 0"),
    ("gbs: 4000", f"gbs: {10**400}", "1000000000"),
    ("fp64_tflops: 34", f"fp64_tflops: {10**400}", "1000000000"),
    ("l2_mib: null", "l2_mb: null", "unknown key 'l2_mb' in data sheet 'GH200-96GB'"),
    ("gbs: 3350, bits: 5120", "gbs: 3950, bits: 5120",
     "'H100-SXM-80GB': 5120 bits at 5.238 Gbit/s are 3352.3 GB/s, not 3950"),
    ("gbs: 3350, bits: 5120, gbit_s: 5.238", "gbs: 3350, bits: 5120",
     "'H100-SXM-80GB': bits and gbit_s require each other"),
    ("tf32: 494, fp16: 989", "tf32: 494, fp16: 1979", "fp16 1979 is 4.01 times tf32 494; allowed: 2 times"),
    ("fp8: 1979, int8: 1979", "fp8: 3958, int8: 1979", "fp8 3958 is 4 times fp16 990; allowed: 2 times"),
    ("{type: DDR5-4800, gbs: 307.2}", "{type: DDR5-4800, gbs: 320}",
     "320 GB/s are 8.333 channels of DDR5-4800"),
)  # fmt: skip


def some_sheets() -> str:
    """The first GPUs and CPUs of the file: to read all of it takes a second."""
    head, gpus, hosts = re.split(r"^(?:gpus|hosts):\n", hardware.FILE.read_text(), flags=re.M)
    few = ["".join(re.split(r"(?m)^(?=  \S)", part)[: 8 * 2]) for part in (gpus, hosts)]
    return f"{head}gpus:\n{few[0]}hosts:\n{few[1]}"


def test_some_sheets_are_right(tmp_path: Path) -> None:
    (tmp_path / "hardware.yaml").write_text(some_sheets())
    assert len(hardware.load(tmp_path / "hardware.yaml", None).gpus) > 5


@pytest.mark.parametrize(("old", "new", "words"), BENT)
def test_bad_sheets_are_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    text = some_sheets()
    assert old in text
    file = tmp_path / "hardware.yaml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(SystemFileError) as caught:
        hardware.load(file, None)
    assert re.search(r"hardware\.yaml:\d+: ", str(caught.value)) and words in str(caught.value)
