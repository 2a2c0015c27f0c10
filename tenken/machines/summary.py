"""A short readable description of a machine: labels and texts for every partition."""

from __future__ import annotations

import re
import shutil
from collections import Counter

from tenken.machines import limits
from tenken.machines.local import Runner, Which, run_command
from tenken.machines.model import Node, Partition, System


def of_system(system: System) -> list[tuple[str, str]]:
    """What is known about a system before a run; partitions are named if there are several."""
    several = len(system.partitions) > 1
    return [
        (f"{label} ({name})" if several else label, text)
        for name, partition in system.partitions.items()
        for label, text in _of_partition(partition)
    ]


def of_driver(system: System, run: Runner = run_command, which: Which = shutil.which) -> list[tuple[str, str]]:
    """Versions and configured power limits as reported by the local driver; empty without one.

    Only for a detected machine, since elsewhere it would describe the login node. Queried once per run.
    """
    nodes = [partition.node for partition in system.partitions.values() if partition.node.gpu_count_found]
    if not nodes or not nodes[0].gpu_count or which("nvidia-smi") is None:
        return []
    asked = ["nvidia-smi", "--query-gpu=power.limit,driver_version", "--format=csv,noheader,nounits"]
    rows = [[cell.strip() for cell in line.split(",")] for line in (run(asked) or "").splitlines()]
    versions = {row[1] for row in rows if len(row) == 2 and re.fullmatch(r"[\d.]+", row[1])}
    cuda = re.search(r"CUDA Version\s*:\s*([\d.]+)", run(["nvidia-smi"]) or "")
    words = [*(f"driver {version}" for version in sorted(versions)), *([f"CUDA {cuda[1]}"] if cuda else [])]
    watts = {float(row[0]) for row in rows if len(row) == 2 and re.fullmatch(r"\d+(\.\d+)?", row[0])}
    found = [("Driver, CUDA", ", ".join(words)), ("Power limit", _power(watts, nodes[0]))]
    return [(label, text) for label, text in found if text]


def _power(watts: set[float], node: Node) -> str:
    """The configured limits, and that of the data sheet if it differs."""
    shown = ", ".join(f"{one:g} W" for one in sorted(watts))
    sheet = node.gpu.power_w if node.gpu else None
    return f"{shown} ({sheet:g} W by data sheet)" if sheet and any(abs(one - sheet) > 0.5 for one in watts) else shown


def _of_partition(partition: Partition) -> list[tuple[str, str]]:
    node = partition.node
    found = [
        ("Processor", _processor(node)),
        ("Memory", f"{node.memory_bytes / 2**30:.1f} GiB" if node.memory_bytes else ""),
        ("Virtual machine", node.virtual_machine or ""),
        ("GPUs", _gpus(node)),
        ("Links between GPUs", _limit(limits.pair_link(partition)) if (node.gpu_count or 0) > 1 else ""),
        ("Link to the host", _limit(limits.host_link(partition)) if node.gpu_count else ""),
        ("Peak of GPU memory", _limit(limits.memory(partition, "gpu")) if node.gpu_count else ""),
        ("Peak of host memory", _limit(limits.memory(partition, "host"))),
    ]
    return [(label, text) for label, text in found if text]


def _processor(node: Node) -> str:
    name = node.cpu or (node.host.name if node.host else node.architecture)
    counts = ((node.sockets, "socket"), (node.cores, "core"), (node.numa_nodes, "NUMA node"))
    return ", ".join([name, *(f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in counts if count)])


def _gpus(node: Node) -> str:
    if node.gpu_count == 0:
        return "none"
    names = Counter(node.gpu_names)
    if sum(names.values()) == node.gpu_count:
        return ", ".join(f"{count} × {name}" for name, count in names.items())
    sheet = node.gpu.name if node.gpu else ", ".join(names) or "of an unknown model"
    return f"{'?' if node.gpu_count is None else node.gpu_count} × {sheet}"


def _limit(limit: limits.Limit | limits.Unknown) -> str:
    if isinstance(limit, limits.Limit):
        return f"{limit.value:.5g} {limit.unit} ({limit.basis})"
    return f"not known: {limit.reason}"
