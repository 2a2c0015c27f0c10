"""Facts about a machine that a judgement requires, from its system file."""

from __future__ import annotations

import re
from typing import Any

from tenken.machines import hardware, interpolation, kinds, limits, loader
from tenken.machines.model import Environment, Link, Partition, Reference, System
from tenken.model.catalogue import load_catalogue
from tenken.model.judgement import DATA_SHEET, REFERENCE, Criterion, Limit, says
from tenken.model.machine import Machine
from tenken.model.result import MetricValue, Result

#: Name in systems/hardware.yaml of copies between GPUs that are joined only by PCIe.
PEERS = "peers over PCIe"


def facts(system: System, partition: Partition, environment: Environment) -> Machine:
    """Capabilities, limits by data sheet and references of one partition and environment."""
    sheets = {
        ("memory", "host"): limits.memory(partition, "host"),
        ("memory", "gpu"): limits.memory(partition, "gpu"),
        ("fp64_tensor", "gpu"): limits.fp64(partition, "gpu", tensor=True),
        ("host_link", "gpu"): limits.host_link(partition),
        ("gpu_link", "pair"): limits.pair_link(partition),
    }
    if partition.node.gpu is not None and not partition.node.gpu.described:
        sheets |= {(key, "gpu"): found for key, found in limits.rates(partition.node.gpu).items()}
    known = {
        # without a data sheet of the GPU, its driver's report is used
        bounded: Limit(found.value, found.unit, found.basis, says(found.basis, DATA_SHEET))
        for bounded, found in sheets.items()
        if isinstance(found, limits.Limit)
    }

    def criterion(result: Result, metric: MetricValue) -> Criterion | None:
        """The reference of a value by program, subject and parameters: the most specific one counts. If no point of a
        sweep has the value's size, the reference follows from the neighbouring points (`between`).
        """
        run = run_of(result, metric)
        known = [
            one
            for one in loader.references(
                system,
                partition.name,
                result.program,
                metric=metric.name,
                subject=metric.kind,
                environ=environment.name,
            )
            # a program that its check declares was unknown when the file was read
            if one.unit == metric.unit
        ]
        fitting = [one for one in known if all(run.get(k) == v for k, v in one.parameters.items())]
        found = max(fitting, key=lambda r: len(r.parameters)) if fitting else interpolation.reference(known, run)
        return _criterion(found) if found else None

    def unmatched(result: Result, metric: MetricValue) -> str:
        """How the closest reference of a metric differs from a run, key by key, if none applies."""
        known = loader.references(
            system, partition.name, result.program, metric=metric.name, subject=metric.kind, environ=environment.name
        )
        if not known:
            return ""
        run = run_of(result, metric)
        nearest = max(known, key=lambda one: -sum(run.get(k) != v for k, v in one.parameters.items()))
        if nearest.unit != metric.unit:
            return f"in {system.name}.yaml has the metric's unit {metric.unit}; the nearest is in {nearest.unit}"
        apart = ", ".join(
            f"{key} {value} (this run: {run.get(key, 'not stated')})"
            for key, value in nearest.parameters.items()
            if run.get(key) != value
        )
        return f"in {system.name}.yaml fits a value; the nearest is for {apart}"

    links = partition.node.pair_links
    count = links.count if links and "NVLink" in links.kind else None
    sheet = partition.node.gpu
    return Machine(
        partition.capabilities, known, criterion, count,
        features=frozenset({*partition.features, *environment.features}),
        gpu=sheet.name if sheet else "",
        gpu_names=(*sheet.drivers_names, *sheet.cuda_names) if sheet else (),
        compute_capability=sheet.compute_capability if sheet else "",
        gpu_memory_bytes=sheet.memory_gib * 2**30 if sheet else None,
        gpu_l2_bytes=sheet.l2_bytes if sheet else None,
        attained=attained(partition),
        host_cores=host.cores * (partition.node.sockets or 1) if (host := partition.node.host) else None,
        gpu_power_w=sheet.power_w if sheet else None,
        unmatched=unmatched,
        kind=kinds.known,
        unknown={
            bounded: found.reason
            for bounded, found in sheets.items()
            if bounded[1] == "host" and isinstance(found, limits.Unknown)
        },
    )  # fmt: skip


def of_result(result: Result) -> Machine:
    """The data sheet of the GPUs that a result lists, for a machine without a system file. GPUs of several models have
    their attributes."""
    sheet = hardware.for_device(result.devices[0].name) if result.devices else None
    if any(hardware.for_device(device.name) != sheet for device in result.devices):
        sheet = None
    guest = result.host.virtual_machine
    unknown = {("memory", "host"): limits.of_guest(guest)} if guest else {}
    if sheet is None:
        return Machine(kind=kinds.known, unknown=unknown, attained=_of_links())
    name = f"data sheet: {sheet.name}, {sheet.source}"
    links = {one.count for one in result.links}
    joined = links.pop() if len(links) == 1 else None  # else each pair has its own limit
    peaks = {
        ("memory", "gpu"): None if "memory" in sheet.unsure else sheet.memory_gbs,
        ("host_link", "gpu"): sheet.host_link.total_gbs if sheet.host_link and not sheet.unsure else None,
        ("gpu_link", "pair"): joined * sheet.gpu_links.gbs if joined and sheet.gpu_links else None,
    }
    reached = {
        ("memory", "gpu"): sheet.attained or hardware.attained(sheet.memory_type),
        **_of_host_link(sheet.host_link),
        ("gpu_link", "pair"): hardware.attained(sheet.gpu_links.kind if joined and sheet.gpu_links else PEERS),
        **({} if joined else _of_links()),
    }
    return Machine(
        limits={
            **{key: Limit(peak, "GB/s", name, DATA_SHEET) for key, peak in peaks.items() if peak},
            **{(key, "gpu"): Limit(one.value, one.unit, name, DATA_SHEET) for key, one in limits.rates(sheet).items()},
        },
        gpu=sheet.name, gpu_names=sheet.device_names, compute_capability=sheet.compute_capability,
        gpu_memory_bytes=sheet.memory_gib * 2**30, gpu_l2_bytes=sheet.l2_bytes,
        attained={key: known for key, known in reached.items() if known is not None}, gpu_power_w=sheet.power_w,
        kind=kinds.known, unknown=unknown,
    )  # fmt: skip


def _of_links() -> dict[tuple[str, str], tuple[float, str]]:
    """What pairs with NVLinks of an unknown generation, or of different counts, reach: the least of any generation."""
    known = [one for kind, one in hardware.load().attained.items() if re.fullmatch(r"NVLink\d", kind)]
    return {("gpu_link", "NVLink"): min(known)} if known else {}


def _of_host_link(link: Link | None) -> dict[tuple[str, str], tuple[float, str] | None]:
    """For PCIe, also of each generation: a GPU in a slower host is limited by the host."""
    if link is None:
        return {}
    found = {("host_link", "gpu"): hardware.attained(link.kind)}
    if "PCIe" in link.kind:
        kinds = [kind for kind in hardware.load().attained if kind.startswith("PCIe")]
        found |= {("host_link", kind): hardware.attained(kind) for kind in kinds}
    return found


def attained(partition: Partition) -> dict[tuple[str, str], tuple[float, str]]:
    """The minimum share of each limit that healthy devices of these GPUs and links reach, and its source."""
    node = partition.node
    gpu = node.gpu
    host_link = node.host_link or (gpu.host_link if gpu else None)
    pair = node.pair_links
    found = {
        ("memory", "gpu"): (gpu.attained or hardware.attained(gpu.memory_type)) if gpu else None,
        **_of_host_link(host_link),
        ("gpu_link", "pair"): hardware.attained(PEERS if "PCIe" in pair.kind else pair.kind) if pair else None,
        **({} if pair else _of_links()),
    }
    return {key: known for key, known in found.items() if known is not None}


def run_of(result: Result, metric: MetricValue) -> dict[str, Any]:
    """Names allowed in a reference's `parameters`: options and coordinates by any of their names, the number of
    ranks."""
    program = load_catalogue().get(result.program)
    now: dict[str, Any] = {}
    if program is not None:
        now = {name: program.parameter(result.parameters, name) for name in program.identity}
        now |= {program.current_name(name): value for name, value in metric.at.items()}
    here = {"ranks": metric.subject.first} if metric.kind == "ranks" else {}
    return {**result.parameters, **here, **metric.at, **now}


def _criterion(reference: Reference) -> Criterion:
    low, high = reference.bounds
    value = reference.value if reference.value is not None else sum(reference.range or ()) / 2
    source = f"{reference.source}, {reference.date}"
    return Criterion(REFERENCE, value, low, high, reference.unit, reference.statistic, source)
