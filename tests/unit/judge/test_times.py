"""Times that do not fit into the run, a link slower than both its ends, falling rates: on a kept run of two H100."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import conditions, relations
from tenken.model.catalogue import program
from tenken.model.engine import Run, completed
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Device, DeviceHealth, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED
from tests.support import kept
from tools import sensitivity

#: Arrays whose size follows from the cache of a GPU, or of a rank's share of the host.
UNKNOWN = {("hpcg", "dot", "gpu"), ("hpcg", "dot", "ranks"), ("spmv", "dot", "gpu")}
#: Runs on more than two ranks, whose grid is not known.
GRIDS = ("HpcgHostRanks",)


@cache
def runs() -> dict[str, Any]:
    return {
        record.check: record for record in kept._of(kept.VERSION_2) if record.result and record.result.status == "ok"
    }


def run(name: str) -> Any:
    return next(record for check, record in runs().items() if check.split()[0] == name)


def slower(result: Result, factor: float) -> Result:
    """All times of a result multiplied, as by a wrong clock; derived values are not yet computed."""
    series = tuple(
        replace(one, samples=tuple(factor * sample for sample in one.samples)) if one.seconds else one
        for one in result.series
    )
    return replace(result, series=series)


def seen(factor: float) -> set[str]:
    """Names of checks whose times do not fit."""
    return {
        check.split()[0]
        for check, record in runs().items()
        if any(conditions.times(slower(record.result, factor), program(record.program)))
    }


def test_honest_times_fit() -> None:
    assert len(runs()) == 47 and seen(1.0) == set()


def test_clocks_that_are_wrong_by_a_factor_are_seen() -> None:
    names = {check.split()[0] for check in runs()}
    assert seen(1000) == names
    # the four whose ranks share a run with a launcher
    assert names - seen(0.001) == {"HpcgGpus", "HpcgHostRanks", "MpiHost", "StencilHostRanks"}
    # for results that do not state the time of their timed part: warming up takes a hundredth of the run
    assert names - seen(10) <= {
        "Himeno", "Migration", "P2P", "SpmvCuda", "Stencil", "StencilGpus", "StreamCuda", "Transfer",
    }  # fmt: skip
    assert {"Daxpy", "GemmHost", "HimenoHost", "OverlapHost"} <= seen(2)
    # on hosts, of programs whose samples take most of the run
    assert {"Daxpy", "GemmHost", "HpcgHost", "OverlapHost", "StreamHost", "StreamOpenACC"} <= seen(0.1)
    assert {"Gemm", "Hpl", "HplMxp", "MemcopyGpu", "P2P", "Stencil", "StreamCuda", "Transfer"} <= seen(0.1)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize(("part", "slack"), [("", 1.0), (".25", 0.1)])
def test_phases_of_one_run_may_overlap(part: str, slack: float, fits: bool) -> None:
    """Beyond the run by the rounding of its times at most."""
    record = run("HplMxpHost")
    whole = 60 + (0.9 if fits else 1.1) * slack
    series = tuple(replace(one, samples=(whole,)) if one.name == "phase" else one for one in record.result.series)
    moments = (f"2026-11-01T00:0{minute}:00{part}Z" for minute in (0, 1))
    result = replace(record.result, series=series, **dict(zip(("started", "finished"), moments, strict=True)))
    said = list(conditions.times(result, program(record.program)))
    parts = {text.split(" by ")[0].split()[-1] for text in said if "together" in text}
    assert ({"convert", "panel", "update"} <= parts) is not fits and (parts == set()) is fits


def test_what_a_sample_counts_is_as_declared() -> None:
    """Each metric with `work`: counted 3 % too high, its run FAILs and names it."""
    tried = set()
    for record in runs().values():
        declared = program(record.program)
        for one in record.result.series:
            work = [e for e in declared.metrics[one.name].expect if e.value and e.value.text.startswith("count.")]
            place = (record.program, one.name, one.subject.kind)
            if not work or not one.counts or place in tried or place in UNKNOWN or record.base_check in GRIDS:
                continue
            tried.add(place)
            # the iterations of HPCG follow from no parameter
            beside = tuple(other for other in record.result.series if other.name == "iterations")
            high = replace(one, counts={name: 1.03 * count for name, count in one.counts.items()})
            changed = completed(replace(record.result, metrics=(), series=(high, *beside)), declared)
            (text, *_) = [f.message for f in relations.of(Run(changed, declared), Request(None, ""), Machine())[0]]
            assert one.id in text and "the program miscounts" in text
            whole = completed(replace(record.result, metrics=(), series=(one, *beside)), declared)
            found = relations.of(Run(whole, declared), Request(None, ""), Machine())[0]
            assert "the program miscounts" not in " ".join(f.message for f in found)
    assert len(tried) > 60


def changed(result: Result, gpu: Callable[[Device], Device], entry: Callable[[DeviceHealth], DeviceHealth]) -> Result:
    health = replace(result.health, devices=tuple(map(entry, result.health.devices)))
    return replace(result, devices=tuple(map(gpu, result.devices)), health=health)


def same(one: Any) -> Any:
    return one


@pytest.mark.parametrize("name", ["Stencil", "StreamCuda", "Himeno", "P2P", "SpmvCuda", "Migration"])
def test_device_times_fit_into_the_timed_part(name: str) -> None:
    record = run(name)
    for factor, fits in ((1.0, True), (10.0, False)):
        # for a result that states it: readings come every 0.05 s and take 0.02
        timed = changed(record.result, same, lambda entry: replace(entry, seconds=0.07 * entry.samples))
        found = list(conditions.times(slower(timed, factor), program(record.program)))
        assert (found == []) is fits, found
        assert fits or "its timed part took" in " ".join(found)


@pytest.mark.parametrize(("calls", "fits"), [(1, False), (100, True), (400, False)])
def test_a_sample_that_is_a_mean_counts_all_its_calls(calls: int, fits: bool) -> None:
    """Short products: the samples of a second are means of batches, together far less than the timed part."""
    record = run("Gemm")
    total = sum(sum(one.samples) for one in record.result.series if one.seconds and one.subject.gpus == (0,))
    found = next(entry for entry in record.result.health.devices if entry.index == 0)
    factor = 0.05 * found.samples / (100 * total)
    series = tuple(replace(one, counts={**one.counts, "calls": calls}) for one in slower(record.result, factor).series)
    health = replace(record.result.health, devices=(replace(found, seconds=0.05 * found.samples),))
    changed = replace(record.result, series=series, health=health)
    assert (list(conditions.times(changed, program("gemm"))) == []) is fits


def judged(record: Any, result: Result) -> tuple[str, str]:
    judgement = sensitivity.judgement(record, result)
    return judgement.verdict, " | ".join(finding.message for finding in judgement.findings)


@pytest.mark.parametrize(
    ("gpu", "bridge", "virtual", "expected"),
    [
        ((5, 16), (5, 16), None, (PASS, "")),
        ((5, 16), (4, 16), None, (PASS, "")),  # under load it is what its slot supports
        ((6, 16), (6, 16), None, (FAIL, "hardware: its link has PCIe generation 5 under load; the GPU (")),
        ((5, 32), (5, 32), None, (FAIL, "hardware: its link has PCIe width 16 under load")),
        ((6, 16), (6, 16), "kvm", (PASS, "in a guest of kvm the bridge is emulated")),
        ((5, 16), (None, None), None, (PASS, "the kernel does not show both")),
    ],
)
def test_a_link_is_as_fast_as_both_its_ends(gpu: Any, bridge: Any, virtual: Any, expected: tuple[str, str]) -> None:
    record = run("Transfer")

    def ends(device: Device) -> Device:
        return replace(
            device, pcie_generation_gpu=gpu[0], pcie_width_gpu=gpu[1], pcie_bridge="0000:16:01.0",
            pcie_generation_bridge=bridge[0], pcie_width_bridge=bridge[1],
        )  # fmt: skip

    result = changed(record.result, ends, lambda entry: replace(entry, seconds=0.07 * entry.samples))
    result = replace(result, host=replace(result.host, virtual_machine=virtual))
    verdict, said = judged(record, result)
    assert verdict == expected[0] and expected[1] in said
    silent = changed(result, same, lambda e: replace(e, worst=replace(e.worst, pcie_generation=None, pcie_width=None)))
    assert judged(record, silent)[0] == PASS


@pytest.mark.parametrize(
    ("fall", "reasons", "name", "expected"),
    [
        (0.95, (), "StreamCuda", PASS),
        (0.85, (), "StreamCuda", INVALID),
        (0.85, None, "StreamCuda", INVALID),
        (0.80, ("sw_power_cap",), "Gemm", PASS),
        (0.65, ("sw_power_cap",), "Gemm", INVALID),
        (0.80, (), "Gemm", INVALID),
        (0.65, (), "Transfer", INVALID),
    ],
)
def test_a_rate_that_falls_as_a_clock_does_names_the_clock(fall: float, reasons: Any, name: str, expected: str) -> None:
    record = run(name)

    def falling(samples: tuple[float, ...]) -> tuple[float, ...]:
        steady = sorted(samples)[len(samples) // 2]
        return tuple(
            steady * (1 + 1e-4 * (at % 7)) / (1.0 if at < 0.7 * len(samples) else fall) for at in range(len(samples))
        )

    series = tuple(
        replace(one, samples=falling(one.samples)) if one.seconds and len(one.samples) > 12 else one
        for one in record.result.series
    )
    result = changed(
        replace(record.result, series=series), same, lambda e: replace(e, worst=replace(e.worst, reasons=reasons))
    )
    verdict, said = judged(record, replace(result, metrics=()))
    assert (verdict == INVALID) is (expected == INVALID), said
    assert ("over the run, as with its clock" in said) is (expected == INVALID)
    # what crosses PCIe has another clock
    assert not re.search(r"(htod|dtoh)\S* fell by", said)


def test_a_guest_that_hides_its_memory_channels_is_recorded_and_the_reason_is_told() -> None:
    record = run("StreamHost")
    verdict, said = judged(record, record.result)
    assert verdict == RECORDED and "no limit: a virtual machine (KVM) does not report its memory channels" in said
    bare = replace(record.result, host=replace(record.result.host, virtual_machine=None))
    assert "no limit" not in judged(record, bare)[1]


#: A run of 100 s of one rank on one GPU with a timed part of 10 s, in which health was read 100 times: the GPU's own
#: clock 12 s, the host's 1 s. What is changed, and which times do not fit.
HELD: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    # no value is of a device: 15.1 s and less are; 1.5 times the timed part, and a tenth or a second of rounding
    ({"device": 15.09}, ""),
    ({"device": 15.11}, "GPU 0: its samples take 15.11 s by its own clock; its timed part took 10 s"),
    ({"device": 15.11, "gpu": 1}, ""),
    ({"device": 15.11, "started": "T00:00Z"}, ""),
    ({"device": 16.01, "finished": "T00:00Z"}, "GPU 0: its samples take 16.01 s by its own clock"),
    # at least a tenth of 100 readings each 0.05 s is 0.5 s, of the GPU or of no GPU
    ({"device": 0.26, "host": 0.25}, ""),
    ({"device": 0.25, "host": 0.24}, "GPU 0: its samples take 0.49 s together; health was read 100 times"),
    ({"device": 0.25, "host": 0.24, "readings": 4}, ""),
    ({"device": 0.02, "host": 0.004, "readings": 5, "ranks": 2}, "GPU 0: its samples take 0.024 s together"),
    ({"device": 0.25, "host": 0.24, "timed": False}, ""),
    ({"device": 0.25, "host": 0.24, "file_system": "ext4"}, ""),
    ({"device": 0.25, "host": 0.24, "rate": "GB/s"}, ""),
    ({"device": 0.25, "host": 0.24, "rate": "W"}, ""),
    ({"device": 0.25, "host": 0.24, "rate": "1"}, "GPU 0: its samples take 0.49 s together"),
    # at least 0.002 of the run, or of the host what its program takes
    ({"device": 0.1, "host": 0.11, "readings": 4}, ""),
    ({"device": 0.1, "host": 0.09, "readings": 4}, "all samples take 0.19 s together; the run took 100 s"),
    ({"device": 0.1, "host": 0.09, "readings": 4, "ranks": 2}, ""),
    ({"device": 0.1, "host": 0.09, "readings": 4, "timed": False}, ""),
    ({"device": 0.1, "host": 0.2, "devices": False}, "all samples take 0.3 s together; the run took 100 s"),
    ({"device": 0.1, "host": 0.91, "devices": False}, ""),
    ({"host": 100.09}, ""),
    ({"host": 100.11}, "host: two by the clock of the host: its 1 samples take 100.1 s together; the run took 100 s"),
    ({"host": 100.9, "started": "T00:00Z"}, ""),
    ({"moments": (None, 100.0), "host": 200.0}, ""),
    ({"moments": (0.0, None), "host": 200.0}, ""),
]


@pytest.mark.parametrize(("said", "expected"), HELD)
def test_each_bound_of_times_is_where_it_is_stated(said: dict[str, Any], expected: str) -> None:
    def series(name: str, place: Subject, clock: str, seconds: float) -> Any:
        return SimpleNamespace(name=name, subject=place, clock=clock, at={}, duration=seconds, samples=(seconds,),
                               seconds=True)  # fmt: skip

    some = [series("one", Subject("gpu", said.get("gpu", 0)), "device", said.get("device", 12.0))]
    some.append(series("two", Subject("host", 0), "host", said.get("host", 1.0)))
    some.append(SimpleNamespace(name="rate", seconds=False, samples=(1.0,), subject=Subject("gpu", 0)))
    entry = SimpleNamespace(index=0, seconds=10.0, samples=said.get("readings", 100))
    result: Any = SimpleNamespace(
        moments=said.get("moments", (0.0, 100.0)), started=said.get("started", "T00:00.1Z"),
        finished=said.get("finished", "T00:00.2Z"), series=some, file_system=said.get("file_system"),
        health=SimpleNamespace(devices=[entry] if said.get("devices", True) else []),
        devices=[0] if said.get("devices", True) else [],
        placement=SimpleNamespace(ranks=said.get("ranks", 1)),
    )  # fmt: skip
    declared: Any = SimpleNamespace(
        contract=SimpleNamespace(timed=said.get("timed", True), least=0.01),
        metrics={name: SimpleNamespace(unit=said.get("rate", "s") if name == "rate" else "s", sign="positive")
                 for name in ("one", "two", "rate")},
    )  # fmt: skip
    found = list(conditions.times(result, declared))
    assert (expected in " | ".join(found)) if expected else found == []
