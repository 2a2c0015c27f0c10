"""Every figure of the data sheets, recomputed from its chip: widths, clocks, counts, lanes, all written by hand.

A vendor may round printed values either way, so a figure is accepted within one unit of its last printed digit. A
figure that does not follow must be listed under `unsure` in systems/hardware.yaml with the reason, and is then not a
limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.machines import hardware, limits, loader, validation
from tenken.machines.errors import SystemFileError
from tenken.model import cache

#: Gbit/s of a lane and lanes of a link in one direction, by generation.
NVLINK = {"NVLink1": (20, 8), "NVLink2": (25, 8), "NVLink3": (50, 4), "NVLink4": (100, 2), "NVLink5": (200, 2)}
#: Generation of the PCIe of chips.
PCIE_OF = {
    "3.5": 3, "6.0": 3, "7.0": 3, "7.5": 3, "8.0": 4, "8.6": 4, "8.9": 4, "9.0": 5, "10.0": 5, "10.3": 6, "12.0": 5,
}  # fmt: skip
#: GT/s of a lane and the share of its bits that carry data: 128b/130b, and 242 of the 256 bytes of a flit in Gen6.
PCIE = {3: (8, 128 / 130), 4: (16, 128 / 130), 5: (32, 128 / 130), 6: (64, 242 / 256)}

#: Fused multiply-adds of a multiprocessor per clock, by capability: CUDA cores, and dense ones of tensor cores.
CORES = {
    "3.5": {"fp32": 192, "fp64": 64},
    "6.0": {"fp32": 64, "fp64": 32},
    "7.0": {"fp32": 64, "fp64": 32, "fp16": 512},
    "7.5": {"fp32": 64, "fp16": 512, "int8": 1024},
    "8.0": {"fp32": 64, "fp64": 32, "fp64_tensor": 64, "tf32": 512, "fp16": 1024, "bf16": 1024, "int8": 2048},
    "8.6": {"fp32": 128, "tf32": 256, "fp16": 512, "bf16": 512, "int8": 1024},
    "8.7": {"fp32": 128},
    "8.9": {"fp32": 128, "tf32": 256, "fp16": 512, "bf16": 512, "fp8": 1024, "int8": 1024},
    "9.0": {"fp32": 128, "fp64": 64, "fp64_tensor": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "fp8": 4096,
            "int8": 4096},
    "10.0": {"fp32": 128, "fp64": 64, "fp64_tensor": 64},
    "10.3": {"fp32": 128},
    "12.0": {"fp32": 128},
}  # fmt: skip
#: GeForce GPUs, and L40, accumulate in FP32 at half the rate.
GEFORCE = {"fp32": 128, "tf32": 128, "fp16": 256, "bf16": 256, "fp8": 512}


@dataclass(frozen=True)
class Chip:
    """The components of a GPU. `printed`: the last printed digit of a figure, if it is not 1. `lanes`: of its PCIe;
    `nvlink_gbit`: of a lane, where its NVLinks are slower than others of their generation."""

    bits: int
    mega_transfers: float  # per pin of the memory, per second
    sms: int | None = None
    ghz: float | None = None
    tensor_ghz: float | None = None  # if tensor cores are counted at another clock
    cores: dict[str, int] = field(default_factory=dict)
    #: Figures that vendors print for several GPUs together, or with sparsity: the dense figure of one, in T/s.
    shares: dict[str, float] = field(default_factory=dict)
    printed: dict[str, float] = field(default_factory=dict)
    lanes: int = 16
    nvlink_gbit: float | None = None


HOPPER = {"sms": 132, "ghz": 1.98, "tensor_ghz": 1.83, "printed": {"gbs": 50}}
# with sparsity: TF32 835, FP16 1671, FP8 and INT8 3341
NVL = {"tf32": 835 / 2, "fp16": 1671 / 2, "bf16": 1671 / 2, "fp8": 3341 / 2, "int8": 3341 / 2}
# eight of an HGX B200 with sparsity: TF32 18, FP16 36, FP8 and INT8 72, FP4 144 P/s
HGX = {"tf32": 18e3 / 16, "fp16": 36e3 / 16, "bf16": 36e3 / 16, "fp8": 72e3 / 16}
A100 = {"sms": 108, "ghz": 1.41}
CHIPS = {
    "GH200-96GB": Chip(6144, 5238, **HOPPER),
    "GH200-144GB": Chip(6144, 6402, **HOPPER),
    "H100-SXM-80GB": Chip(5120, 5238, **HOPPER),
    "H200-SXM-141GB": Chip(6016, 6402, **HOPPER),
    "H100-PCIe-80GB": Chip(5120, 3186, 114, 1.755, 1.62),
    "H100-NVL-94GB": Chip(6016, 5238, 132, 1.785, shares=NVL),
    "H200-NVL-141GB": Chip(6016, 6402, 132, 1.785, shares=NVL, printed={"gbs": 50}),
    "H800-SXM-80GB": Chip(5120, 5238, **HOPPER),
    "H800-PCIe-80GB": Chip(5120, 3186, 114, 1.755, 1.62),
    "H20-141GB": Chip(6016, 6402, 78, 1.98, printed={"gbs": 50}),
    "H20-96GB": Chip(6144, 5238, 78, 1.98, printed={"gbs": 50}),
    "A100-SXM-80GB": Chip(5120, 2 * 1593, **A100),
    "A100-PCIe-80GB": Chip(5120, 2 * 1512, **A100),
    "A100-SXM-40GB": Chip(5120, 2 * 1215, **A100),
    "A100-PCIe-40GB": Chip(5120, 2 * 1215, **A100),
    "A800-SXM-80GB": Chip(5120, 2 * 1593, **A100),
    "A800-PCIe-80GB": Chip(5120, 2 * 1512, **A100),
    "A30-24GB": Chip(3072, 2 * 1215, 56, 1.44),
    "V100-SXM2-16GB": Chip(4096, 2 * 877, 80, 1.53, printed={"gbs": 10}),
    "V100-SXM2-32GB": Chip(4096, 2 * 877, 80, 1.53, printed={"gbs": 10}),
    "V100-PCIe-16GB": Chip(4096, 2 * 877, 80, 1.37, printed={"gbs": 10}),
    "V100-PCIe-32GB": Chip(4096, 2 * 877, 80, 1.37, printed={"gbs": 10}),
    "V100S-PCIe-32GB": Chip(4096, 2 * 1107, 80, 1.597),
    "P100-SXM2-16GB": Chip(4096, 2 * 715, 56, 1.48),
    "P100-PCIe-16GB": Chip(4096, 2 * 715, 56, 1.303),
    "K40": Chip(384, 6000, 15, 0.745),
    # two dies with four stacks of 1024 bits each; the printed value is rounded to whole TB/s
    "GB200-186GB": Chip(
        8192, 2 * 3996, 152, 2.062, printed={"gbs": 200},
        # two GPUs of a superchip with sparsity: TF32 5, FP16 10, FP8 and INT8 20, FP4 40 P/s
        shares={"tf32": 5e3 / 4, "fp16": 10e3 / 4, "bf16": 10e3 / 4, "fp8": 20e3 / 4, "int8": 20e3 / 4,
                "fp4": 40e3 / 4},
    ),
    "B200-SXM-180GB": Chip(
        8192, 2 * 3996, 148, 1.965, printed={"gbs": 200}, shares={**HGX, "int8": 72e3 / 16, "fp4": 144e3 / 16},
    ),
    # FP4 of eight: 108 P/s without sparsity; FP64 of eight: 10
    "B300-SXM-288GB": Chip(
        8192, 2 * 3996, 148, 1.965, printed={"gbs": 200},
        shares={**HGX, "fp4": 108e3 / 8, "fp64": 10 / 8, "fp64_tensor": 10 / 8},
    ),
    # of the rack of 72, without sparsity
    "GB300-288GB": Chip(
        8192, 2 * 3996, printed={"gbs": 200},
        shares={"tf32": 90e3 / 72, "fp16": 180e3 / 72, "bf16": 180e3 / 72, "fp8": 360e3 / 72, "fp4": 1080e3 / 72},
    ),
    "L40S-48GB": Chip(384, 18000, 142, 2.52),
    "L4-24GB": Chip(192, 12500, 58, 2.04),
    "L40-48GB": Chip(384, 18000, 142, 2.49, cores={**GEFORCE, "int8": 512}),
    "RTX-6000-Ada-48GB": Chip(384, 20000, 142, 2.505),
    "T4-16GB": Chip(256, 2 * 5001, 40, 1.59),
    "A2-16GB": Chip(128, 2 * 6251, 10, 1.77, lanes=8),
    "A10-24GB": Chip(384, 2 * 6251, 72, 1.695),
    "A40-48GB": Chip(384, 2 * 7251, 84, 1.74, nvlink_gbit=28.125),
    "RTX-A6000-48GB": Chip(384, 2 * 8001, 84, 1.8, nvlink_gbit=28.125),
    "RTX-3090-24GB": Chip(384, 2 * 9751, 82, 1.695, cores=GEFORCE, nvlink_gbit=28.125),
    "RTX-PRO-6000-Server-96GB": Chip(512, 24960, shares={"fp4": 4000 / 2}),
    "RTX-PRO-6000-Workstation-96GB": Chip(512, 28000, 188, 2.617, shares={"fp4": 4000 / 2}),
    "RTX-PRO-6000-Max-Q-96GB": Chip(512, 28000, shares={"fp4": 3511 / 2}),
    "RTX-4090-24GB": Chip(384, 21000, 128, 2.52, cores=GEFORCE),
    "RTX-5090-32GB": Chip(512, 2 * 14001, 170, 2.407, cores=GEFORCE, shares={"fp4": 3352 / 2}),
    "Jetson-AGX-Orin": Chip(256, 6400, 16, 1.3),
    "Jetson-AGX-Thor": Chip(256, 8533, shares={"fp4": 2070 / 2}),
    "GB10-128GB": Chip(256, 8533, shares={"fp4": 1000 / 2}),
    "Jetson-AGX-Xavier": Chip(256, 2 * 2133),
    "Jetson-TX2": Chip(128, 2 * 1866),
}  # fmt: skip

#: Bits of all channels of a socket, million transfers per second, and the share that remains with in-band ECC.
HOSTS = {
    "Grace-72": (512, 8533, 15 / 16),
    "Grace-72-480GB": (512, 6400, 15 / 16),
    "Xeon-8468": (8 * 64, 4800, 1),
    "Xeon-8480": (8 * 64, 4800, 1),
    "Xeon-8570": (8 * 64, 5600, 1),
    "Xeon-6980P": (12 * 64, 8800, 1),
    "Xeon-E5-2695v4": (4 * 64, 2400, 1),
    "Xeon-E5-2680v4": (4 * 64, 2400, 1),
    "EPYC-9755": (12 * 64, 6400, 1),
    "EPYC-9965": (12 * 64, 6400, 1),
    "EPYC-9575F": (12 * 64, 6400, 1),
    "EPYC-9654": (12 * 64, 4800, 1),
    "EPYC-9554": (12 * 64, 4800, 1),
    "EPYC-7763": (8 * 64, 3200, 1),
    "EPYC-7742": (8 * 64, 3200, 1),
    "EPYC-9354": (12 * 64, 4800, 1),
    "EPYC-9454": (12 * 64, 4800, 1),
    "EPYC-9534": (12 * 64, 4800, 1),
    "EPYC-9754": (12 * 64, 4800, 1),
    "EPYC-9684X": (12 * 64, 4800, 1),
    "EPYC-9374F": (12 * 64, 4800, 1),
    "EPYC-9474F": (12 * 64, 4800, 1),
    "EPYC-9655": (12 * 64, 6400, 1),
    "EPYC-9555": (12 * 64, 6400, 1),
    "EPYC-9355": (12 * 64, 6400, 1),
    "EPYC-7713": (8 * 64, 3200, 1),
    "EPYC-7543": (8 * 64, 3200, 1),
    "EPYC-75F3": (8 * 64, 3200, 1),
    "EPYC-7443": (8 * 64, 3200, 1),
    "EPYC-7513": (8 * 64, 3200, 1),
    "EPYC-7H12": (8 * 64, 3200, 1),
    "EPYC-7702": (8 * 64, 3200, 1),
    "EPYC-7452": (8 * 64, 3200, 1),
    "EPYC-7402": (8 * 64, 3200, 1),
    "Xeon-8380": (8 * 64, 3200, 1),
    "Xeon-8368": (8 * 64, 3200, 1),
    "Xeon-8360Y": (8 * 64, 3200, 1),
    "Xeon-8358": (8 * 64, 3200, 1),
    "Xeon-6348": (8 * 64, 3200, 1),
    "Xeon-6338": (8 * 64, 3200, 1),
    "Xeon-8280": (6 * 64, 2933, 1),
    "Xeon-8268": (6 * 64, 2933, 1),
    "Xeon-8260": (6 * 64, 2933, 1),
    "Xeon-6248": (6 * 64, 2933, 1),
    "Xeon-8160": (6 * 64, 2666, 1),
    "Xeon-8168": (6 * 64, 2666, 1),
    "Xeon-6148": (6 * 64, 2666, 1),
    "Xeon-6430": (8 * 64, 4400, 1),
    "Xeon-6448Y": (8 * 64, 4800, 1),
    "Xeon-8460Yplus": (8 * 64, 4800, 1),
    "Xeon-8558": (8 * 64, 5200, 1),
    "Xeon-8592plus": (8 * 64, 5600, 1),
    "Tegra-Xavier": (256, 4266, 1),
    "Tegra-X2": (128, 3732, 1),
    "Tegra-Orin": (256, 6400, 1),
}
#: Parts of the last-level cache and MiB of each: chiplets of AMD's (two parts each before the third generation, and of
#: dense cores), slices of Intel's, one per core that the chip has, of which a processor may have fewer.
CACHES = {
    "Xeon-E5-2695v4": (18, 2.5), "Xeon-E5-2680v4": (14, 2.5),
    "Xeon-8160": (24, 1.375), "Xeon-8168": (24, 1.375), "Xeon-6148": (20, 1.375), "Xeon-6248": (20, 1.375),
    "Xeon-8280": (28, 1.375), "Xeon-8268": (26, 1.375), "Xeon-8260": (26, 1.375),
    "Xeon-8380": (40, 1.5), "Xeon-8368": (38, 1.5), "Xeon-8360Y": (36, 1.5), "Xeon-8358": (32, 1.5),
    "Xeon-6348": (28, 1.5), "Xeon-6338": (32, 1.5),
    "Xeon-8480": (56, 1.875), "Xeon-8468": (56, 1.875), "Xeon-8460Yplus": (56, 1.875), "Xeon-6430": (32, 1.875),
    "Xeon-6448Y": (32, 1.875), "Xeon-8592plus": (64, 5), "Xeon-8570": (60, 5), "Xeon-8558": (52, 5),
    "EPYC-7742": (16, 16), "EPYC-7H12": (16, 16), "EPYC-7702": (16, 16), "EPYC-7452": (8, 16), "EPYC-7402": (8, 16),
    "EPYC-7763": (8, 32), "EPYC-7713": (8, 32), "EPYC-7543": (8, 32), "EPYC-75F3": (8, 32), "EPYC-7443": (4, 32),
    "EPYC-7513": (4, 32), "EPYC-9654": (12, 32), "EPYC-9554": (8, 32), "EPYC-9534": (8, 32), "EPYC-9454": (8, 32),
    "EPYC-9354": (8, 32), "EPYC-9374F": (8, 32), "EPYC-9474F": (8, 32), "EPYC-9684X": (12, 96), "EPYC-9754": (16, 16),
    "EPYC-9755": (16, 32), "EPYC-9965": (12, 32), "EPYC-9655": (12, 32), "EPYC-9575F": (8, 32), "EPYC-9555": (8, 32),
    "EPYC-9355": (8, 32),
}  # fmt: skip
#: Cores of a socket in published descriptions of machines and in outputs of lscpu, where they are neither slices nor
#: in the name that the processor reports.
CORES_TOLD = {
    "Xeon-8268": 24, "Xeon-8260": 24, "Xeon-8468": 48, "Xeon-8460Yplus": 40, "Xeon-8558": 48, "Xeon-8570": 56,
    "Xeon-6980P": 128, "Grace-72": 72, "Grace-72-480GB": 72, "Tegra-Orin": 12, "Tegra-Xavier": 8, "Tegra-X2": 6,
}  # fmt: skip
#: No independent figure was found.
CACHE_ALONE = {"Xeon-6980P", "Tegra-Orin", "Tegra-Xavier", "Tegra-X2"}
#: Cores, GHz and FLOP per cycle (two FMA units of four doubles), if a sheet has FP64.
HOST_FP64 = {"Xeon-E5-2695v4": (18, 2.1, 16), "Xeon-E5-2680v4": (14, 2.4, 16)}

#: The cap in watts that drivers print for a GPU as delivered ("Pwr:Usage/Cap" of nvidia-smi in published outputs; H100
#: and H200 also in tests/data): an independent figure for the data sheet's.
CAPS = {
    "A100-SXM-80GB": {400, 500},  # some systems are delivered at 500
    "A100-SXM-40GB": {400}, "A100-PCIe-80GB": {300}, "A100-PCIe-40GB": {250}, "A30-24GB": {165},
    "A800-SXM-80GB": {400}, "A800-PCIe-80GB": {300}, "V100S-PCIe-32GB": {250}, "T4-16GB": {70}, "A2-16GB": {60},
    "A10-24GB": {150}, "A40-48GB": {300}, "RTX-A6000-48GB": {300}, "RTX-3090-24GB": {350}, "L40-48GB": {300},
    "RTX-6000-Ada-48GB": {300}, "RTX-5090-32GB": {575},
    "H100-SXM-80GB": {700},
    "H200-SXM-141GB": {700},
    "H100-NVL-94GB": {400}, "B200-SXM-180GB": {1000},
    "GB200-186GB": {1200}, "V100-SXM2-16GB": {300}, "V100-SXM2-32GB": {300}, "V100-PCIe-16GB": {250},
    "V100-PCIe-32GB": {250}, "P100-PCIe-16GB": {250}, "K40": {235}, "L40S-48GB": {350}, "L4-24GB": {72},
    "RTX-4090-24GB": {450}, "H100-PCIe-80GB": {350}, "H200-NVL-141GB": {600}, "GB300-288GB": {1400},
    "P100-SXM2-16GB": {300}, "RTX-PRO-6000-Server-96GB": {600}, "RTX-PRO-6000-Workstation-96GB": {600},
    "RTX-PRO-6000-Max-Q-96GB": {300},
}  # fmt: skip
#: No independent figure was found: the driver of a Jetson prints none.
POWER_ALONE = {
    "Jetson-AGX-Orin",
    "Jetson-AGX-Thor",
    "Jetson-AGX-Xavier",
    "Jetson-TX2",
    "H800-SXM-80GB",
    "H800-PCIe-80GB",
    "H20-141GB",
}
#: MiB of the L2 that deviceQuery, or PyTorch of a device's properties, prints for a chip in published outputs (H200
#: also in tests/data; GB200 has the chip of B200).
L2_MIB = {
    "K40": 1.5, "P100": 4, "V100": 6, "A100": 40, "H100": 50, "H800": 50, "H200": 60, "L4": 48, "L40S": 96,
    "RTX-4090": 72, "T4": 4, "A10": 6, "A40": 6, "RTX-A6000": 6, "RTX-3090": 6, "RTX-6000-Ada": 96, "RTX-5090": 96,
    "A30": 24,
    "Jetson-TX2": 0.5, "Jetson-AGX-Xavier": 0.5, "Jetson-AGX-Orin": 4, "B200": 126, "GB200": 126, "RTX-PRO-6000": 128,
}  # fmt: skip
L2_ALONE = {"H20", "A800", "V100S", "A2", "L40"}
#: GB/s of all NVLinks of a GPU in both directions, as printed: by kind, and for GPUs with fewer.
LINKS_GBS = {"NVLink1": 160, "NVLink2": 300, "NVLink3": 600, "NVLink4": 900, "NVLink5": 1800}
FEWER_GBS = {
    "A30-24GB": 200, "H800-SXM-80GB": 400, "H800-PCIe-80GB": 400, "H100-PCIe-80GB": 600, "H100-NVL-94GB": 600,
    "A800-SXM-80GB": 400, "A800-PCIe-80GB": 400, "A40-48GB": 112.5, "RTX-A6000-48GB": 112.5, "RTX-3090-24GB": 112.5,
}  # fmt: skip
#: MiB that a driver or the kernel reports, where the name of the sheet has no size: some is kept for ECC or the
#: firmware.
MEMORY_MIB = {"K40": 11519, "Jetson-TX2": 7846, "Jetson-AGX-Orin": 62841}
GIB_ALONE = {"Jetson-AGX-Thor", "Jetson-AGX-Xavier"}


def last_digit(value: float) -> float:
    """1 for 34 and for 3350, 0.1 for 9.7: the possible error of a printed figure."""
    digits = repr(float(value)).split(".")[1]
    return 1.0 if digits == "0" else 10.0 ** -len(digits)


def wrong(sheet: hardware.GpuSheet, chip: Chip) -> list[str]:
    """Figures of a sheet that do not follow from its chip and are not marked unsure."""
    found = []

    def hold(name: str, value: float | None, computed: float | None, digit: float | None = None) -> None:
        if value is None or name in sheet.unsure:
            return
        if computed is None:
            found.append(f"{name}: nothing to compute {value:g} from")
        elif abs(computed - value) > (digit or last_digit(value)):
            found.append(f"{name}: {value:g} printed, {computed:.5g} computed")

    def rate(kind: str) -> float | None:
        if kind in chip.shares:
            return chip.shares[kind]
        cores = chip.cores or CORES.get(sheet.compute_capability, {})
        plain = kind in ("fp32", "fp64", "fp64_tensor") or chip.tensor_ghz is None
        ghz = chip.ghz if plain else chip.tensor_ghz
        if kind not in cores or chip.sms is None or ghz is None:
            return None
        return chip.sms * cores[kind] * 2 * ghz / 1e3

    hold("memory", sheet.memory_gbs, chip.bits * chip.mega_transfers / 8e3, chip.printed.get("gbs"))
    hold("fp64_tflops", sheet.fp64_tflops, rate("fp64"))
    hold("fp64_tensor_tflops", sheet.fp64_tensor_tflops, rate("fp64_tensor"))
    for kind, value in sheet.tflops.items():
        hold(kind, value, rate(kind))
    if sheet.gpu_links is not None:
        gbit, lanes = NVLINK[sheet.gpu_links.kind]
        hold("gpu_links", sheet.gpu_links.gbs, (chip.nvlink_gbit or gbit) * lanes / 8, 0.01)
    return found


def disagreeing(sheet: hardware.GpuSheet) -> list[str]:
    """Figures of a sheet that differ from what devices and drivers say."""
    name, found = sheet.name, []
    size = re.search(r"-(\d+)GB$", name)
    # NVIDIA calls 279 GiB of 12 stacks of 24 GB each 288 GB
    gib = {"GB300-288GB": 279.0}.get(name, float(size[1]) if size else sheet.memory_gib)
    if sheet.memory_gib != gib or not 0.92 < MEMORY_MIB.get(name, 1024 * gib) / (1024 * sheet.memory_gib) <= 1:
        found.append("gib")
    if sheet.power_w is not None and sheet.power_w not in CAPS.get(name, {sheet.power_w}):
        found.append("power_w")
    if sheet.l2_bytes is not None and any(sheet.l2_bytes != mib * 2**20 for mib in of_chip(name)):
        found.append("l2")
    if sheet.gpu_links is not None:
        printed = FEWER_GBS.get(name, LINKS_GBS[sheet.gpu_links.kind])
        if 2 * sheet.gpu_links.count * sheet.gpu_links.gbs != printed:
            found.append("gpu_links")
    link = sheet.host_link
    if link is not None and link.kind == "NVLink-C2C":
        if link.count * link.gbs != 900 / 2:  # printed both ways
            found.append("host_link")
    elif link is not None:
        gigatransfers, share = PCIE[PCIE_OF[sheet.compute_capability]]
        if link.gbs != pytest.approx(gigatransfers * CHIPS[name].lanes * share / 8, rel=1e-3):
            found.append("host_link")
    return found


def of_chip(name: str) -> list[float]:
    """MiB of the L2 by the name of the chip."""
    return [mib for chip, mib in L2_MIB.items() if re.match(rf"{chip}(-|$)", name)]


@pytest.mark.parametrize("name", hardware.load().gpus)
def test_a_gpu_has_the_figures_that_its_chip_can_have_and_that_others_tell(name):
    sheet = hardware.sheet(name)
    assert wrong(sheet, CHIPS[name]) == disagreeing(sheet) == []
    if sheet.power_w is None or "power_w" in sheet.unsure:
        assert name not in CAPS and name not in POWER_ALONE
    else:
        assert (name in CAPS) != (name in POWER_ALONE), "each figure has a second one, or is listed as without"
    if sheet.l2_bytes is not None:
        alone = [chip for chip in L2_ALONE if name.startswith(f"{chip}-")]
        assert len(of_chip(name)) + len(alone) == 1, "each L2 has a second figure, or is listed as without"
    assert bool(re.search(r"-\d+GB$", name)) + (name in MEMORY_MIB) + (name in GIB_ALONE) == 1
    assert (sheet.host_link is None) == name.startswith(("Jetson", "GB10")), "one memory with the CPU"


def bent(raw: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A sheet with one of its numbers a tenth too high or too low, or of the next generation: each in turn."""
    for key, value in raw.items():
        others: list[Any] = []
        if isinstance(value, dict) and key not in ("unsure", "attained"):
            yield from (((key, *inner), {**raw, key: one}) for inner, one in bent(value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            others = {"generation": [value - 1, value + 1], "width": [value // 2]}.get(key, [1.1 * value, 0.9 * value])
        yield from (((key,), {**raw, key: other}) for other in others)


def noticed(kind: str, name: str, raw: Any) -> bool:
    """Whether a check of this file, or the reading of the sheets, refuses it."""
    others: Any = {"gpus": {}, "hosts": {}, kind: {name: raw}}
    if validation.sheets(SimpleNamespace(data=others, problem=lambda path, what: what)):  # type: ignore[arg-type]
        return True
    if kind == "hosts":
        return bool(wrong_of_host(hardware._host(name, raw)))
    try:
        sheet = hardware._gpu(name, raw)
    except KeyError:
        return True
    return bool(wrong(sheet, CHIPS[name]) or disagreeing(sheet))


def test_what_is_unsure_is_really_off_or_cannot_be_computed():
    """The mark `unsure` hides nothing: without it each figure would be noticed, or nothing is known to compute it
    from."""
    no_computation = {("GB200-186GB", "host_link"), ("GB300-288GB", "host_link"), ("B300-SXM-288GB", "power_w"),
                      ("H20-96GB", "power_w")}  # fmt: skip
    for name, sheet in hardware.load().gpus.items():
        said = {line.split(":")[0] for line in wrong(replace(sheet, unsure={}), CHIPS[name])}
        assert said == {figure for figure in sheet.unsure if (name, figure) not in no_computation}, name


def wrong_of_host(sheet: hardware.HostSheet) -> list[str]:
    """Figures of a CPU that disagree with their independent counterparts."""
    name = sheet.name
    bits, mega_transfers, share = HOSTS[name]
    told = re.search(r"(\d+)-Core", sheet.cpu_names[0])
    second: dict[str, tuple[float | None, float | None]] = {
        "memory": (sheet.memory_gbs, bits * mega_transfers * share / 8e3),
        "cores": (sheet.cores, int(told[1]) if told else CORES_TOLD.get(name, CACHES.get(name, (0, 0))[0])),
    }
    if name in HOST_FP64:
        cores, ghz, flop = HOST_FP64[name]
        second["fp64_tflops"] = sheet.fp64_tflops, cores * ghz * flop / 1e3
    if name in CACHES:
        parts, mib = CACHES[name]
        second["last_level_cache"] = sheet.last_level_cache_bytes, parts * mib * 2**20
    return [key for key, (value, other) in second.items() if value != pytest.approx(other, rel=1e-3)]


@pytest.mark.parametrize(
    ("memory", "tflops", "host", "said"),
    [
        ({"gbs": 1000}, {}, ("LPDDR5X", 1), []),
        ({"gbs": 1000, "bits": 8000}, {}, ("DDR5-4800", 38.4), ["'x': bits and gbit_s require each other"]),
        ({"gbs": 1000, "gbit_s": 1}, {}, ("DDR5-4800", 307.2), ["'x': bits and gbit_s require each other"]),
        # half a percent of the printed figure is its rounding
        ({"gbs": 1000, "bits": 8040, "gbit_s": 1}, {}, ("DDR5-4800", 308.7), []),
        ({"gbs": 1000, "bits": 8041, "gbit_s": 1}, {}, ("DDR5-4800", 308.8),
         ["'x': 8041 bits at 1 Gbit/s are 1005.1 GB/s, not 1000",
          "'y': 308.8 GB/s are 8.042 channels of DDR5-4800; a whole number is required"]),
        ({"gbs": 1000, "bits": 7959, "gbit_s": 1}, {}, ("MRDIMM-8800", 105.6),
         ["'x': 7959 bits at 1 Gbit/s are 994.88 GB/s, not 1000",
          "'y': 105.6 GB/s are 1.5 channels of MRDIMM-8800; a whole number is required"]),
        # two percent of the step
        ({"gbs": 1}, {"tf32": 100, "fp16": 203, "bf16": 207, "fp8": 398, "int8": 391}, ("DDR5-4800", 305.7), []),
        ({"gbs": 1}, {"tf32": 100, "fp16": 205, "bf16": 200, "fp8": 400, "int8": 391}, ("DDR5-4800", 305.6),
         ["'x': fp16 205 is 2.05 times tf32 100; allowed: 2 times",
          "'x': bf16 200 is 0.976 times fp16 205; allowed: 1 times",
          "'x': fp8 400 is 1.95 times fp16 205; allowed: 2 times",
          "'x': int8 391 is 0.978 times fp8 400; allowed: 1 times",
          "'y': 305.6 GB/s are 7.958 channels of DDR5-4800; a whole number is required"]),
    ],
)  # fmt: skip
def test_figures_of_one_sheet_that_contradict_each_other(memory, tflops, host, said):
    data = {"gpus": {"x": {"memory": memory, "tflops": tflops}},
            "hosts": {"y": {"memory": dict(zip(("type", "gbs"), host, strict=True))}}}  # fmt: skip
    assert validation.sheets(SimpleNamespace(data=data, problem=lambda path, what: what)) == said


@pytest.mark.parametrize("name", hardware.load().hosts)
def test_a_cpu_has_the_figures_of_its_channels_cores_and_caches(name):
    sheet = hardware.host_sheet(name)
    assert wrong_of_host(sheet) == []
    assert (sheet.fp64_tflops is not None) == (name in HOST_FP64)
    if sheet.last_level_cache_bytes is not None:
        assert (name in CACHES) != (name in CACHE_ALONE), "each cache has a second figure, or is listed as without"


def without_a_second_one(name: str, key: str, raw: Any) -> bool:
    """Whether no second figure was found, which the lists above state, or the sheet itself calls it unsure."""
    chip = {"gib": name in GIB_ALONE, "power_w": name in POWER_ALONE, "l2_mib": name.startswith(tuple(L2_ALONE)),
            "last_level_cache_mib": name in CACHE_ALONE}  # fmt: skip
    # the threshold of memory that selects between two sheets of a processor is a rule of this suite
    return chip.get(key, key == "memory_above_gib") or key in raw.get("unsure", {})


@pytest.mark.parametrize("kind", ["gpus", "hosts"])
def test_a_number_that_is_a_tenth_off_is_noticed(kind):
    sheets = cache.yaml(hardware.FILE, hardware.FILE.read_text())[kind]
    missed = {
        (name, ".".join(path))
        for name, raw in sheets.items()
        for path, other in bent(raw)
        if not noticed(kind, name, other) and not without_a_second_one(name, path[-1], raw)
    }
    assert missed == set()
    assert sum(len(list(bent(raw))) for raw in sheets.values()) > 300


UNSURE = {
    "memory": (limits.memory, ("gpu",)), "host_link": (limits.host_link, ()), "gpu_links": (limits.pair_link, ()),
    "fp64_tflops": (limits.fp64, ("gpu",)), "fp64_tensor_tflops": (limits.fp64, ("gpu", True)),
}  # fmt: skip


@pytest.mark.parametrize("figure", UNSURE)
def test_a_figure_that_is_not_certain_is_no_limit(figure):
    partition = loader.load("miyabi").partition("gpu")
    gpu = partition.node.gpu
    two = replace(partition, node=replace(partition.node, gpu_count=2, pair_links=gpu.gpu_links, host_link=None))
    limit, arguments = UNSURE[figure]
    assert isinstance(limit(two, *arguments), limits.Limit)
    doubted = replace(two, node=replace(two.node, gpu=replace(gpu, unsure={figure: "two documents differ"})))
    said = limit(doubted, *arguments)
    assert isinstance(said, limits.Unknown) and said.reason.endswith(f"{figure} is not certain: two documents differ")


def test_the_reason_must_be_there(tmp_path: Path):
    text = hardware.FILE.read_text()
    right = '      power_w: "1100 and up to 1400 W are printed, by cooling"\n'
    assert right in text
    (tmp_path / "hardware.yaml").write_text(text.replace(right, "      power_w: yes\n"))
    with pytest.raises(SystemFileError, match="power_w"):
        hardware.load(tmp_path / "hardware.yaml", cache_folder=None)


#: Shares based on runs for which no page was found.
UNTRACED = {"GDDR6X", "LPDDR4", "LPDDR4x", "NVLink3", "NVLink5"}


#: Shares more than 11 % below the lowest figure of their source, or without one: by kernels of several forms, by cards
#: in several hosts, or by one card alone.
WIDE = {
    "GDDR7": 0.78, "LPDDR4x": 0.62, "LPDDR5X": 0.70, "PCIe Gen3": 0.60, "PCIe Gen6": 0.75, "NVLink-C2C": 0.58,
    "NVLink1": 0.80, "NVLink2": 0.85, "peers over PCIe": 0.50,
    "GH200-96GB": 0.72, "H20-96GB": 0.74, "P100-PCIe-16GB": 0.66, "GB10-128GB": 0.70,
}  # fmt: skip


def test_a_share_is_at_most_what_its_source_measured_and_little_below():
    """Above it a healthy device would FAIL, far below it a slow one would PASS."""
    sheets = hardware.load()
    shares = {**sheets.attained, **{name: gpu.attained for name, gpu in sheets.gpus.items() if gpu.attained}}
    measured = {
        name: re.findall(r"([\d.]+) (?:to [\d.]+ )?of (\d[\d.]*)", source) for name, (_, source) in shares.items()
    }
    assert len(shares) > 25 and len([name for name in measured if not measured[name]]) <= 3
    for name, (share, _) in shares.items():
        ratios = [float(low) / float(limit) for low, limit in measured[name]]
        assert all(share <= ratio for ratio in ratios), name
        assert share == WIDE[name] if name in WIDE else share >= 0.89 * min(ratios), name


def test_a_share_without_a_page_is_named():
    alone = {
        name
        for name, (_, source) in hardware.load().attained.items()
        if re.search("of [\\d.]+ GB/s[^;(]*, traced to", source)
    }
    assert alone == UNTRACED
