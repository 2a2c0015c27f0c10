"""Simulated runs on a machine of the fixtures, and their verdicts. Only `verdict_of` of tenken.judge is used here."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenken.judge import verdict
from tenken.model import result
from tenken.model.catalogue import program as catalogue_program
from tenken.model.request import Request
from tenken.reframe.machine import Machine
from tests.machine_fixtures.machine import FixtureMachine
from tests.support.documents import around, gpu_document, host_document, metric
from tests.support.judging import values_of

#: The fraction of a limit that honest programs reach, and the rate with which an unknown limit is simulated (GB/s).
OF_LIMIT = 0.92
WHERE_UNKNOWN = 100.0
STREAM = ("copy", "scale", "add", "triad", "dot")


@dataclass
class Run:
    """A program's result document and its request."""

    raw: dict[str, Any]
    program: str
    subjects: tuple[str, ...]
    metrics: tuple[str, ...]


def verdict_of(run: Run, machine: FixtureMachine) -> tuple[str, str]:
    """The verdict of a run on that machine, with all findings in words."""
    seen = Machine(machine.system, machine.partition, next(iter(machine.system.environments.values())))
    request = Request(
        None,
        run.program,
        subjects=run.subjects,
        metrics=run.metrics,
        gpus=None if run.subjects == ("host",) else machine.partition.node.gpu_count,
        ranks=1,
    )
    read = result.validate(run.raw, "result.json")
    judged = verdict.judge(read, values_of(catalogue_program(run.program)), request, seen.facts(), 0)
    return judged.verdict, " | ".join(finding.message for finding in judged.findings)


def _limit(machine: FixtureMachine, name: str) -> float:
    limit = machine.expect["limits"][name]
    return WHERE_UNKNOWN if limit is None else float(limit)


def _unlimited(raw: dict[str, Any]) -> dict[str, Any]:
    """The program knows no limit itself: that of the machine's description must apply."""
    raw["limits"] = {m["id"]: {"unknown": "not reported"} for m in raw["metrics"]}
    return raw


def _devices(raw: dict[str, Any], machine: FixtureMachine) -> dict[str, Any]:
    node = machine.partition.node
    names = [card[0] for card in machine.cards] or [machine.said["jetson"]] * machine.count
    for device, name in zip(raw["devices"], names, strict=False):
        device.update(name=name, integrated="jetson" in machine.said)
        device["compute_capability"] = node.compute_capability or "0.0"
        # a GPU that shares the host's memory is on no bus
        on_bus = "jetson" not in machine.said
        device["pcie_generation_max"], device["pcie_width_max"] = (3, 16) if on_bus else (None, None)
        if not on_bus:
            device.update(nvlinks_total=None, nvlinks_active=None)
        if node.gpu is not None:
            device["memory_bytes"] = int(0.95 * node.gpu.memory_gib * 2**30)
        device["memory_free_bytes"] = device["memory_bytes"]
        device["ecc_enabled"] = not machine.said.get("no_ecc")
    for entry in raw["health"]["devices"]:
        for when in ("before", "after", "worst"):
            entry[when]["pcie_generation"] = 3
            if "jetson" in machine.said:
                entry[when].update(pcie_generation=None, pcie_width=None, nvlinks_active=None)
            if machine.said.get("no_ecc"):
                entry[when].update(ecc_corrected=None, ecc_uncorrected=None)
    return raw


def stream_on_gpus(machine: FixtureMachine) -> Run:
    """STREAM on every GPU of the node."""
    value = OF_LIMIT * _limit(machine, "gpu")
    raw = _devices(gpu_document("stream", dict.fromkeys(STREAM, value), machine.count), machine)
    return Run(_unlimited(raw), "stream", ("gpu",), STREAM)


def stream_on_host(machine: FixtureMachine) -> Run:
    """STREAM in host memory."""
    value = OF_LIMIT * _limit(machine, "host")
    raw, cpus = host_document("stream", dict.fromkeys(STREAM, value)), list(range(machine.partition.node.cores or 1))
    raw["placement"].update(threads=len(cpus), allowed_cpus=cpus, allowed_cores=len(cpus), thread_cpus=cpus)
    raw["host"]["logical_cpus"] = len(cpus)
    return Run(_unlimited(raw), "stream", ("host",), STREAM)


def transfers(machine: FixtureMachine) -> Run:
    """Copies from the host to every GPU."""
    value = OF_LIMIT * _limit(machine, "link")
    raw = _devices(gpu_document("transfer", {"htod_pinned": value}, machine.count), machine)
    return Run(_unlimited(raw), "transfer", ("gpu",), ("htod_pinned",))


def copies_between(machine: FixtureMachine) -> Run:
    """Copies between all pairs of GPUs."""
    value = OF_LIMIT * _limit(machine, "links")
    raw = _devices(gpu_document("p2p", {"peer": 1.0}, machine.count), machine)
    pairs = [(a, b) for a in range(machine.count) for b in range(machine.count) if a != b]
    raw["metrics"] = [
        metric("peer", {"from": a, "to": b}, around(value, spread=0.002 + 1e-6 * i)) for i, (a, b) in enumerate(pairs)
    ]
    links = machine.partition.node.pair_links
    shown = f"{links.count} x {links.kind}" if links else "not known"
    raw["path"] = {f"link.gpu{a}-gpu{b}": shown for a, b in pairs}
    raw["path"] |= {f"peer_access.gpu{a}-gpu{b}": True for a, b in pairs}
    return Run(_unlimited(raw), "p2p", ("pair",), ("peer",))


def honest_runs(machine: FixtureMachine) -> list[Run]:
    """Runs of a healthy machine."""
    runs = [stream_on_host(machine)]
    if machine.count:
        runs += [stream_on_gpus(machine), *([transfers(machine)] if "jetson" not in machine.said else [])]
    if machine.count > 1:
        runs.append(copies_between(machine))
    return runs


def _scaled(run: Run, factor: float, chosen: Callable[[Mapping[str, Any]], bool]) -> Run:
    for one in run.raw["metrics"]:
        if chosen(one):
            for key in ("value", "best", "median", "p5", "p95"):
                one[key] *= factor
            one["samples"] = [sample * factor for sample in one["samples"]]
    return run


def _of_gpu(fault: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    return lambda one: one["subject"].get("gpu") == fault["gpu"]


def few_cores(machine: FixtureMachine, cores: int, factor: float) -> Run:
    """A slow run in a container with some of the node's cores."""
    run = _scaled(stream_on_host(machine), factor, lambda one: True)
    cpus = list(range(cores))
    run.raw["placement"].update(threads=cores, allowed_cpus=cpus, allowed_cores=cores, thread_cpus=cpus)
    return run


def _wrong(run: Run) -> Run:
    check = run.raw["verification"]["checks"][0]
    check.update(error=1.0, passed=False)
    run.raw["verification"]["passed"] = False
    return run


def _missing(run: Run) -> Run:
    lost = run.raw["metrics"].pop()
    del run.raw["limits"][lost["id"]]
    return run


def _lost(machine: FixtureMachine) -> Run:
    """The program sees one GPU less than the node has."""
    run = stream_on_gpus(machine)
    last = machine.count - 1
    raw = run.raw
    raw["devices"] = [d for d in raw["devices"] if d["index"] != last]
    raw["metrics"] = [m for m in raw["metrics"] if m["subject"]["gpu"] != last]
    raw["health"]["devices"] = [d for d in raw["health"]["devices"] if d["index"] != last]
    _unlimited(raw)
    return run


def _ecc(machine: FixtureMachine) -> Run:
    run = stream_on_gpus(machine)
    run.raw["health"]["devices"][machine.fault["gpu"]]["after"]["ecc_uncorrected"] = 1
    return run


def _link_down(machine: FixtureMachine) -> Run:
    run, gpu = copies_between(machine), machine.fault["gpu"]
    links = machine.partition.node.pair_links
    assert links is not None
    for key in run.raw["path"]:
        if key.startswith("link.") and (f"gpu{gpu}-" in key or key.endswith(f"-gpu{gpu}")):
            run.raw["path"][key] = f"{links.count - 1} x {links.kind}"
    run.raw["path"][f"inactive_links.gpu{gpu}"] = "3"
    return run


def _off_the_switch(machine: FixtureMachine) -> Run:
    """All pairs of one GPU are joined by PCIe."""
    run, gpu = copies_between(machine), machine.fault["gpu"]
    for key in run.raw["path"]:
        if key.startswith("link.") and f"gpu{gpu}" in re.split(r"[.-]", key):
            run.raw["path"][key] = "PCIe"
    return run


def broken_run(machine: FixtureMachine) -> Run:
    """The run in which the machine's fault was planted."""
    fault = machine.fault
    pair = fault.get("pair")
    everything: Callable[[Mapping[str, Any]], bool] = lambda one: True  # noqa: E731
    makers: dict[str, Callable[[], Run]] = {
        "slow_gpu": lambda: _scaled(stream_on_gpus(machine), 0.7, _of_gpu(fault)),
        "fast_gpu": lambda: _scaled(stream_on_gpus(machine), 1.2, _of_gpu(fault)),
        "slow_host": lambda: _scaled(stream_on_host(machine), 0.4, everything),
        "fast_host": lambda: _scaled(stream_on_host(machine), 1.2, everything),
        "pcie_x8": lambda: _scaled(transfers(machine), 0.5, _of_gpu(fault)),
        "slow_pair": lambda: _scaled(
            copies_between(machine), 0.6, lambda one: [one["subject"]["from"], one["subject"]["to"]] == pair
        ),
        "wrong": lambda: _wrong(stream_on_gpus(machine)),
        "wrong_host": lambda: _wrong(stream_on_host(machine)),
        "missing_metric": lambda: _missing(stream_on_gpus(machine)),
        "lost_gpu": lambda: _lost(machine),
        "ecc": lambda: _ecc(machine),
        "link_down": lambda: _link_down(machine),
        "off_the_switch": lambda: _off_the_switch(machine),
    }
    made = makers[fault["kind"]]()
    made.raw = copy.deepcopy(made.raw)
    return made
