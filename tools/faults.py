"""Real faults, applied to kept runs: which classes the verdict does not detect.

    python -m tools.faults > table.md

Each fault changes a result as the real fault would have, samples and times together, and is applied to every check that
it fits. It is detected if the run is neither PASS nor RECORDED.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tenken.model.record import Record
from tenken.model.result import Device, DeviceHealth, HealthSample, Result
from tenken.model.subject import Subject
from tenken.model.values import Series
from tenken.model.verdicts import FAIL, INVALID
from tools import sensitivity

KEPT = ("h100-two-v2",)
#: Maximum number of checks named in a row as missing a fault.
NAMED = 6
#: Power of an idle GPU, in W.
IDLE_W = 70.0


@dataclass(frozen=True)
class Fault:
    """The class, what happened, and the result with it; None: it does not fit the result."""

    of: str
    name: str
    apply: Callable[[Result], Result | None]


def series(result: Result, change: Callable[[Series], Series]) -> Result | None:
    """With changed series, from which all values follow; None: it changes none."""
    changed = tuple(map(change, result.series))
    return None if changed == result.series else replace(result, series=changed, metrics=())


def scaled(
    unit: str, counts: float = 1.0, seconds: float = 1.0, host: bool = False
) -> Callable[[Result], Result | None]:
    """Multiplies counts of a unit, or the times that belong to them, by a factor; `host`: only in runs without GPUs."""

    def change(one: Series) -> Series:
        if not one.seconds or (unit and unit not in one.counts):
            return one
        by = {name: number * (counts if name == unit or not unit else 1.0) for name, number in one.counts.items()}
        return replace(one, counts=by, samples=tuple(seconds * sample for sample in one.samples))

    return lambda result: series(result, change)


def throttled(factor: float, capped: bool) -> Callable[[Result], Result | None]:
    """After a third of the samples the clock falls, and the driver reports neither a clock nor a reason."""

    def slow(one: Series) -> Series:
        if not one.seconds or one.clock != "device" or len(one.samples) < 12:
            return one
        first = len(one.samples) // 3
        later = tuple(sample / factor for sample in one.samples[first:])
        return replace(one, samples=(*one.samples[:first], *later))

    def silent(entry: DeviceHealth) -> DeviceHealth:
        worst = replace(entry.worst, sm_clock_mhz=None, reasons=("sw_power_cap",) if capped else ())
        return replace(entry, worst=worst)

    def apply(result: Result) -> Result | None:
        found = series(result, slow) if result.devices else None
        return found and health(found, silent)

    return apply


def health(result: Result, change: Callable[[DeviceHealth], DeviceHealth]) -> Result:
    return replace(result, health=replace(result.health, devices=tuple(map(change, result.health.devices))))


def devices(result: Result, change: Callable[[Device], Device]) -> Result:
    return replace(result, devices=tuple(map(change, result.devices)))


def idle(which: Callable[[int], bool]) -> Callable[[Result], Result | None]:
    """Idle GPUs, while the others were measured twice."""

    def rest(sample: HealthSample) -> HealthSample:
        return replace(sample, power_w=IDLE_W, utilization_percent=0, sm_clock_mhz=345)

    def change(entry: DeviceHealth) -> DeviceHealth:
        if not which(entry.index):
            return entry
        return replace(entry, before=rest(entry.before), worst=rest(entry.worst), after=rest(entry.after))

    return lambda result: health(result, change) if len(result.devices) > 1 else None


def measured_twice(result: Result) -> Result | None:
    """The values of GPU 0, repeated for GPU 1."""
    first = {(one.name, one.at.id): one for one in result.series if one.subject == Subject("gpu", 0)}

    def change(one: Series) -> Series:
        twin = first.get((one.name, one.at.id)) if one.subject == Subject("gpu", 1) else None
        return replace(one, samples=twin.samples) if twin else one

    return series(result, change)


def placed(**changes: object) -> Callable[[Result], Result | None]:
    """Another placement of the threads of a run on the host."""
    return lambda result: (
        None
        if result.devices or result.placement.threads < 2
        else replace(result, placement=replace(result.placement, **changes))  # type: ignore[arg-type]
    )


def on_one_cpu(result: Result) -> Result | None:
    place = result.placement
    if result.devices or len(place.thread_cpus) < 2:
        return None
    return replace(result, placement=replace(place, thread_cpus=(place.thread_cpus[0],) * len(place.thread_cpus)))


def like(name: str, other: str, factor: float) -> Callable[[Result], Result | None]:
    """The times of one metric, replaced by those of another at the same point: a read from the cache, a write to it."""

    def apply(result: Result) -> Result | None:
        others = {(one.subject, one.at.id): one for one in result.series if one.name == other}

        def change(one: Series) -> Series:
            twin = others.get((one.subject, one.at.id)) if one.name == name else None
            return replace(one, samples=tuple(factor * sample for sample in twin.samples)) if twin else one

        return series(result, change)

    return apply


def trained(generation: int, width: int) -> Callable[[Result], Result | None]:
    """A link slower than both of its ends, on a bare machine, in programs that read them."""

    def apply(result: Result) -> Result | None:
        if not any(one.name.startswith("htod") for one in result.series):
            return None

        def ends(one: Device) -> Device:
            return replace(
                one, pcie_generation_max=generation, pcie_width_max=width, pcie_generation_gpu=5, pcie_width_gpu=16,
                pcie_generation_bridge=5, pcie_width_bridge=16,
            )  # fmt: skip

        def now(entry: DeviceHealth) -> DeviceHealth:
            return replace(entry, worst=replace(entry.worst, pcie_generation=generation, pcie_width=width))

        return health(replace(devices(result, ends), host=replace(result.host, virtual_machine=None)), now)

    return apply


def fewer_links(result: Result) -> Result | None:
    if len(result.devices) < 2 or not all(one.nvlinks_active for one in result.devices):
        return None
    return devices(result, lambda one: replace(one, nvlinks_active=17) if one.index else one)


FAULTS = (
    Fault("GiB for GB", "all rates", scaled("bytes", counts=1 / 1.073741824)),
    *(Fault("iterations, bytes", f"times x {f:g}", scaled("", seconds=f)) for f in (10, 0.1, 2, 0.5)),
    *(Fault("iterations, bytes", f"bytes x {f:g}", scaled("bytes", counts=f)) for f in (2, 0.5)),
    *(Fault("x 1000, / 1000", f"times x {f:g}", scaled("", seconds=f)) for f in (1000, 0.001)),
    *(Fault("throttled, clock not reported", f"to {f}", throttled(f, False)) for f in (0.5, 0.8)),
    Fault("throttled, clock not reported", "to 0.5, with a power cap", throttled(0.5, True)),
    Fault("one GPU twice, idle, swapped", "GPU 1 was idle", idle(lambda index: index == 1)),
    Fault("one GPU twice, idle, swapped", "both were idle", idle(lambda index: True)),
    Fault("one GPU twice, idle, swapped", "values of GPU 0 twice", measured_twice),
    Fault("files", "a cold read from the cache", like("read_cold", "read_cached", 1.0)),
    Fault("files", "a write without fsync", like("write_synced", "write", 1.0)),
    Fault("threads", "OMP_NUM_THREADS=1", placed(threads=1, thread_cpus=(0,))),
    Fault("threads", "all on one CPU", on_one_cpu),
    Fault("links", "17 of 18 NVLinks of GPU 1", fewer_links),
    Fault("links", "PCIe at Gen4", trained(4, 16)),
    Fault("links", "PCIe at x8", trained(5, 8)),
)  # fmt: skip


def told(record: Record) -> Iterator[tuple[Fault, bool]]:
    """Each fault that fits a run, and whether it is noticed."""
    assert record.result is not None
    for fault in FAULTS:
        result = fault.apply(record.result)
        if result is not None:
            yield fault, sensitivity.judgement(record, result).verdict in (FAIL, INVALID)


def table(records: list[Record]) -> list[str]:
    """Lines of Markdown: how often each fault was reported, and which checks missed it."""
    counts: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for record in records:
        for fault, seen in told(record):
            number, missed = counts.setdefault((fault.of, fault.name), (0, []))
            counts[fault.of, fault.name] = (number + 1, missed if seen else [*missed, record.base_check])
    lines = ["| class | fault | cases | not seen | by |", "|---|---|---|---|---|"]
    for (of, name), (number, missed) in counts.items():
        names = list(dict.fromkeys(missed))
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"| {of} | {name} | {number} | {len(missed)} | {', '.join(names[:NAMED])}{rest} |")
    total = sum(number for number, _ in counts.values())
    lines.append(f"| | | {total} | {sum(len(missed) for _, missed in counts.values())} | |")
    return lines


def runs(names: tuple[str, ...] = KEPT) -> list[Record]:
    """All measured runs, including those of hosts."""
    return sensitivity.runs(names, hosts=True)


if __name__ == "__main__":
    sys.stdout.write("\n".join(table(runs())) + "\n")
