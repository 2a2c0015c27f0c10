"""The physical limits of a machine from data sheets: the limit of a metric whose program determines none itself.

Each function takes a partition and returns a `Limit`, or `Unknown` with the reason. A basis begins with `data sheet: `
and names the sheet and its source, or where none is known `attribute: ` (a memory clock and bus width) or `driver: `
(links): the device's own claim. For a GPU that a system file describes without a figure, the program asks the device.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenken.machines.model import GpuSheet, Link, Node, Partition
from tenken.model.catalogue import RATE

NO_GPU = "the partition has no GPU"


@dataclass(frozen=True)
class Limit:
    """An upper bound, its unit and its origin."""

    value: float
    unit: str
    basis: str


@dataclass(frozen=True)
class Unknown:
    """No bound is known; with the reason."""

    reason: str


def of_guest(virtual_machine: str) -> str:
    """Why the memory of a virtual machine has no limit."""
    return f"a virtual machine ({virtual_machine}) does not report its memory channels"


def memory(partition: Partition, subject: str) -> Limit | Unknown:
    """Peak memory bandwidth in GB/s: of the whole node (`host`) or of one GPU (`gpu`)."""
    node = partition.node
    if subject == "gpu":
        if node.gpu is None and node.gpu_memory_gbs is not None:
            return Limit(
                node.gpu_memory_gbs, "GB/s", "attribute: 2 x memory clock x bus width, as the driver reports them"
            )
        if node.gpu is None:
            return _no_sheet(node)
        if "memory" in node.gpu.unsure or node.gpu.memory_gbs is None:
            return _unsure(node.gpu, "memory")
        return Limit(node.gpu.memory_gbs, "GB/s", f"data sheet: {node.gpu.name}, {node.gpu.source}")
    if subject != "host":
        raise ValueError(f"subject {subject!r} has no memory; allowed: host, gpu")
    if node.memory_gbs is not None:
        return Limit(node.memory_gbs, "GB/s", f"data sheet: {node.memory_gbs_source}")
    if node.virtual_machine is not None:
        return Unknown(of_guest(node.virtual_machine))
    if node.host is None or node.sockets is None:
        return Unknown(f"no data sheet of the host ({node.cpu or 'CPU not known'})")
    basis = f"data sheet: {node.sockets} x {node.host.name}, {node.host.source}"
    return Limit(node.host.memory_gbs * node.sockets, "GB/s", basis)


def fp64(partition: Partition, subject: str, tensor: bool = False) -> Limit | Unknown:
    """Peak FP64 in TFLOP/s: of all CPUs of a node (`host`) or of one GPU (`gpu`), by tensor cores or not."""
    node = partition.node
    if subject == "gpu":
        if node.gpu is None:
            return _no_sheet(node)
        key = "fp64_tensor_tflops" if tensor else "fp64_tflops"
        if key in node.gpu.unsure:
            return _unsure(node.gpu, key)
        value = node.gpu.fp64_tensor_tflops if tensor else node.gpu.fp64_tflops
        if value is None:
            kind = "FP64 tensor peak" if tensor else "FP64 peak"
            return Unknown(f"data sheet {node.gpu.name} has no {kind}")
        return Limit(value, "TFLOP/s", f"data sheet: {node.gpu.name}, {node.gpu.source}")
    if subject != "host":
        raise ValueError(f"subject {subject!r} does not compute; allowed: host, gpu")
    if node.host is None or node.sockets is None or node.virtual_machine is not None:
        return Unknown(f"no data sheet of the host ({node.cpu or 'CPU not known'})")
    if node.host.fp64_tflops is None:
        return Unknown(f"data sheet {node.host.name} has no FP64 peak")
    basis = f"data sheet: {node.sockets} x {node.host.name}, {node.host.source}"
    return Limit(node.host.fp64_tflops * node.sockets, "TFLOP/s", basis)


def rates(gpu: GpuSheet) -> dict[str, Limit]:
    """Dense rates of one GPU in TFLOP/s by the key of a product's limit ("rate fp16"). Left out: FP32, which no GPU has
    less of than its multiprocessors compute. They are not ceilings: boards run above the clock of their data sheet."""
    fp64, tensor = gpu.fp64_tflops, gpu.fp64_tensor_tflops
    known = {**gpu.tflops, "fp32": None, "fp64": fp64, "fp64_tensor": tensor or fp64}
    basis = f"data sheet: {gpu.name}, {gpu.source}"
    return {f"{RATE} {precision}": Limit(peak, "TFLOP/s", basis) for precision, peak in known.items() if peak}


def rate(partition: Partition, subject: str, precision: str = "", nodes: int = 1) -> Limit | Unknown:
    """Peak dense rate in TFLOP/s in a precision of the data sheets (fp64, fp16, ...; others: the highest of all).

    Of one GPU (`gpu`), of the CPUs of a node (`host`), or of this many nodes (`ranks`): all their GPUs, or all CPUs if
    they have none.
    """
    node = partition.node
    if subject == "host":
        return fp64(partition, "host")
    if subject == "gpu":
        if node.gpu is None:
            return _no_sheet(node)
        peaks = {**node.gpu.tflops, "fp64": max(node.gpu.fp64_tflops or 0, node.gpu.fp64_tensor_tflops or 0)}
        peak = peaks.get(precision) or max(peaks.values())
        named = f"{precision}, " if peaks.get(precision) else ""
        if not peak or any(key in node.gpu.unsure for key in ("fp64_tflops", "fp64_tensor_tflops", "tflops")):
            return Unknown(f"data sheet {node.gpu.name} has no rate")
        return Limit(peak, "TFLOP/s", f"data sheet: {named}{node.gpu.name}, {node.gpu.source}")
    if not node.gpu_count:
        one, count = rate(partition, "host", precision), nodes
    else:
        one, count = rate(partition, "gpu", precision), nodes * node.gpu_count
    if isinstance(one, Unknown):
        return one
    return Limit(one.value * count, one.unit, f"{count} x {one.value:g} TFLOP/s, {one.basis}")


def host_link(partition: Partition) -> Limit | Unknown:
    """Bandwidth between the host and one GPU in GB/s, one direction."""
    node = partition.node
    if node.host_link is not None:
        return _of_link(node.host_link, "as the driver reports it")
    if node.gpu is None:
        return _no_sheet(node)
    if "host_link" in node.gpu.unsure:
        return _unsure(node.gpu, "host_link")
    if node.gpu.host_link is None:
        return Unknown(f"{node.gpu.name} shares one memory with the CPU")
    return _of_link(node.gpu.host_link, f"{node.gpu.name}, {node.gpu.source}")


def pair_link(partition: Partition) -> Limit | Unknown:
    """Bandwidth between two GPUs of one node in GB/s, one direction."""
    node = partition.node
    if node.gpu_count == 0:
        return Unknown(NO_GPU)
    if node.gpu_count == 1:
        return Unknown("the node has one GPU")
    if node.pair_links is None:
        return Unknown("the links between its GPUs are not known")
    if node.gpu is not None and "gpu_links" in node.gpu.unsure:
        return _unsure(node.gpu, "gpu_links")
    source = f"{node.gpu.name}, {node.gpu.source}" if node.gpu else "as the driver reports them"
    return _of_link(node.pair_links, source)


def _of_link(link: Link, source: str) -> Limit:
    count = f"{link.count} x " if link.count > 1 else ""
    who = "driver" if source.startswith("as the driver") else "data sheet"
    return Limit(link.total_gbs, "GB/s", f"{who}: {count}{link.kind} at {link.gbs:.4g} GB/s, {source}")


def _unsure(gpu: GpuSheet, figure: str) -> Unknown:
    if gpu.described:
        return Unknown(f"{gpu.unsure[figure]} for {gpu.name}: the value reported by the device is used, if available")
    return Unknown(f"data sheet {gpu.name}: {figure} is not certain: {gpu.unsure[figure]}")


def _no_sheet(node: Node) -> Unknown:
    if node.gpu_count == 0:
        return Unknown(NO_GPU)
    return Unknown(f"no data sheet of the GPU ({', '.join(sorted(set(node.gpu_names))) or 'name not known'})")
