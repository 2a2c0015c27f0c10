"""Data sheets by name: `sheet("H200-SXM-141GB")`, `host_sheet("Grace-72")`, `for_device("NVIDIA H200")`.

The figures and their sources are in `systems/hardware.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenken.machines.errors import SystemFileError, UnknownSystemError
from tenken.machines.model import GpuSheet, HostSheet, Link, pcie_gbs
from tenken.model import cache
from tenken.paths import CACHE, HARDWARE

FILE = HARDWARE
SCHEMA = Path(__file__).with_name("hardware.schema.json")


@dataclass(frozen=True)
class Sheets:
    """All data sheets."""

    gpus: Mapping[str, GpuSheet]
    attained: Mapping[str, tuple[float, str]]
    """Minimum share of a figure that healthy devices reach, and its source, by memory type and link."""
    hosts: Mapping[str, HostSheet]

    def gpu(self, name: str) -> GpuSheet:
        """Raises UnknownSystemError with the existing names."""
        return _get(self.gpus, name, "GPU")

    def host(self, name: str) -> HostSheet:
        """Raises UnknownSystemError with the existing names."""
        return _get(self.hosts, name, "host")

    def for_device(self, device_name: str) -> GpuSheet | None:
        """The sheet of a GPU by the name that the driver reports; None if there is none."""
        return next((gpu for gpu in self.gpus.values() if gpu.matches(device_name)), None)


def _get(sheets: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in sheets:
        raise UnknownSystemError(f"unknown {kind} data sheet '{name}'; allowed: {', '.join(sheets)}")
    return sheets[name]


@lru_cache(maxsize=4)
def load(file: Path = FILE, cache_folder: Path | None = CACHE / "systems") -> Sheets:
    """All sheets of one file. Raises SystemFileError with file and line."""
    key = cache.key_of([file.read_bytes(), SCHEMA.read_bytes(), Path(__file__).read_bytes()])
    data = cache.cached(cache_folder, "hardware", key, lambda: _read(file))
    return Sheets(
        {name: _gpu(name, raw) for name, raw in data["gpus"].items()},
        {name: (raw["share"], raw["source"]) for name, raw in data.get("attained", {}).items()},
        {name: _host(name, raw) for name, raw in data["hosts"].items()},
    )


def sheet(name: str) -> GpuSheet:
    """GPU data sheet by name."""
    return load().gpu(name)


def host_sheet(name: str) -> HostSheet:
    """Data sheet of a CPU socket by name."""
    return load().host(name)


def for_device(device_name: str) -> GpuSheet | None:
    """GPU data sheet by the name that the driver reports."""
    return load().for_device(device_name)


def attained(kind: str) -> tuple[float, str] | None:
    """The minimum share of a memory's or link's peak that healthy devices reach, and its source; None: not known. PCIe
    by its generation, without the width."""
    return load().attained.get(" ".join(word for word in kind.split() if not re.fullmatch(r"x\d+", word)))


def _read(file: Path) -> Any:
    from tenken.machines import validation, yamlfile

    document = yamlfile.read(file, f"{file.parent.name}/{file.name}")
    problems = validation.shape(document, SCHEMA) or validation.sheets(document)
    if problems:
        raise SystemFileError(problems)
    return document.data


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib * 2**20)


def _link(raw: Mapping[str, Any] | None) -> Link | None:
    if raw is None:
        return None
    if raw["kind"] == "PCIe":
        generation, width = raw["generation"], raw["width"]
        return Link(f"PCIe Gen{generation} x{width}", 1, pcie_gbs(generation, width))
    return Link(raw["kind"], raw["count"], raw["gbs"])


def _gpu(name: str, raw: Mapping[str, Any]) -> GpuSheet:
    return GpuSheet(
        name=name,
        source=raw["source"],
        device_names=tuple(raw["device_names"]),
        compute_capability=raw["compute_capability"],
        memory_type=raw["memory"]["type"],
        memory_gib=raw["memory"]["gib"],
        memory_gbs=raw["memory"]["gbs"],
        fp64_tflops=raw["fp64_tflops"],
        fp64_tensor_tflops=raw["fp64_tensor_tflops"],
        l2_bytes=_bytes(raw["l2_mib"]),
        host_link=_link(raw["host_link"]),
        gpu_links=_link(raw["gpu_links"]),
        date=raw["date"],
        power_w=raw["power_w"],
        tflops=raw["tflops"],
        unsure=raw.get("unsure", {}),
        cuda_names=tuple(raw.get("cuda_names", ())),
        attained=(raw["attained"]["share"], raw["attained"]["source"]) if "attained" in raw else None,
    )


def described(raw: Mapping[str, Any]) -> GpuSheet:
    """A GPU without a data sheet, as described by a system file under `gpus`. Omitted figures are unknown, and the
    judgement says so where they would be a limit; `host_link: null` means that GPU and CPU share one memory.
    """
    peaks = {"memory": "memory_gbs", "host_link": "host_link", "gpu_links": "gpu_links"}
    peaks |= {key: key for key in ("fp64_tflops", "fp64_tensor_tflops")}
    return GpuSheet(
        name=raw["model"],
        source=raw.get("source", "the system file"),
        device_names=(re.escape(raw["model"]),),
        compute_capability=raw["compute_capability"],
        memory_type="",
        memory_gib=raw["memory_gib"],
        memory_gbs=raw.get("memory_gbs"),
        fp64_tflops=raw.get("fp64_tflops"),
        fp64_tensor_tflops=raw.get("fp64_tensor_tflops"),
        l2_bytes=None,
        host_link=_link(raw.get("host_link")),
        gpu_links=_link(raw.get("gpu_links")),
        power_w=raw.get("power_w"),
        unsure={figure: f"no '{key}' in the system file" for figure, key in peaks.items() if key not in raw},
        described=True,
    )


def _host(name: str, raw: Mapping[str, Any]) -> HostSheet:
    return HostSheet(
        name=name,
        source=raw["source"],
        cpu_names=tuple(raw["cpu_names"]),
        architecture=raw["architecture"],
        cores=raw["cores"],
        memory_type=raw["memory"]["type"],
        memory_gbs=raw["memory"]["gbs"],
        fp64_tflops=raw["fp64_tflops"],
        last_level_cache_bytes=_bytes(raw["last_level_cache_mib"]),
        date=raw["date"],
        memory_above_gib=raw.get("memory_above_gib", 0.0),
        not_with=tuple(raw.get("not_with", ())),
        named_by_core=raw.get("named_by_core", False),
    )
