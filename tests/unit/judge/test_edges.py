"""Each condition of a GPU's health at its edge: the last value that is good, and the first that is not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import bounds, conditions
from tenken.model.result import DeviceHealth, HealthSample
from tenken.model.subject import Subject

#: A GPU that did nothing, in a timed part that lasts.
SAMPLE = HealthSample(power_w=75.0, utilization_percent=0.0, memory_used_bytes=10**9, other_processes=0)
IDLE = DeviceHealth(0, SAMPLE, SAMPLE, SAMPLE, samples=9, seconds=9.0)


def changed(parts: str, entry: DeviceHealth = IDLE, **changes: Any) -> DeviceHealth:
    return replace(entry, **{part: replace(getattr(entry, part), **changes) for part in parts.split()})


@pytest.mark.parametrize(
    ("entry", "idle"),
    [
        (IDLE, True),
        # 15 W more, and more than 5 %, at any reading; memory decides in less than a second alone
        (changed("worst", power_w=89.9), True), (changed("worst", power_w=90.0), False),
        (changed("before", power_w=60.0), False),
        (changed("worst", utilization_percent=5.0), True), (changed("after", utilization_percent=5.1), False),
        (changed("before", utilization_percent=99.0), True),
        (replace(changed("worst", memory_used_bytes=10**9 + 10**7), seconds=1.0), True),
        (replace(changed("worst", memory_used_bytes=10**9 + 10**7), seconds=0.9), False),
        (replace(changed("worst", memory_used_bytes=10**9 + 10**7 - 1), seconds=0.9), True),
        (replace(changed("worst", memory_used_bytes=None), seconds=0.9), False),
        (replace(changed("worst", memory_used_bytes=2 * 10**9), seconds=None), True),
        # what a driver does not report proves nothing
        (changed("after", power_w=None), False), (changed("worst", utilization_percent=None), False),
        (replace(IDLE, samples=0), False),
    ],
)  # fmt: skip
def test_a_gpu_is_idle_if_neither_power_nor_utilisation_rose(entry: DeviceHealth, idle: bool) -> None:
    assert conditions._idle(entry) is idle


OTHERS = changed("before worst after", other_processes=2)


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (IDLE, None), (OTHERS, "RECORDED"),
        (changed("before", OTHERS, utilization_percent=5.0), "RECORDED"),
        (changed("before", OTHERS, utilization_percent=5.1), "INVALID"),
        (changed("before", OTHERS, memory_used_bytes=2 << 30), "RECORDED"),
        (changed("before", OTHERS, memory_used_bytes=(2 << 30) + 1), "INVALID"),
        (changed("before", OTHERS, memory_used_bytes=None), "INVALID"),
        # another one came
        (changed("worst", OTHERS, other_processes=3), "INVALID"),
        (changed("after", OTHERS, other_processes=1), "RECORDED"),
        (replace(OTHERS, others_percent=5.0), "RECORDED"), (replace(OTHERS, others_percent=5.1), "INVALID"),
    ],
)  # fmt: skip
def test_others_are_quiet_by_what_they_do_and_hold(entry: DeviceHealth, verdict: str | None) -> None:
    assert [found for found, _ in conditions._others(entry, None)] == ([verdict] if verdict else [])


@pytest.mark.parametrize(
    ("reasons", "clock", "memory", "invalid"),
    [
        ((), 600.0, 2000.0, False), ((), 599.0, 2000.0, True), (None, 1.0, 2000.0, False),
        (("sw_power_cap",), 100.0, 2000.0, False), (("sw_power_cap",), 99.0, 2000.0, True),
        (("gpu_idle",), 40.0, 2000.0, False), (("gpu_idle",), 39.0, 2000.0, True),
        ((), 1000.0, 1800.0, False), ((), 1000.0, 1799.0, True),
    ],
)  # fmt: skip
def test_a_clock_is_low_below_its_share_of_the_highest(
    reasons: tuple[str, ...] | None, clock: float, memory: float, invalid: bool
) -> None:
    device: Any = SimpleNamespace(integrated=False, sm_clock_max_mhz=1000.0, memory_clock_max_mhz=2000.0)
    entry = changed("before after", sm_clock_mhz=1000.0)
    entry = changed("worst", entry, reasons=reasons, sm_clock_mhz=clock, memory_clock_mhz=memory)
    assert [found for found, _ in conditions._clocks(entry, device)] == ["INVALID"] * invalid


@pytest.mark.parametrize(
    ("gpu", "links", "told"),
    [
        ("H100 PCIe", (12, 12, 0), {2: "RECORDED"}), ("H100 PCIe", (12, 12, 12), {}), ("H100 PCIe", (0, 0), {}),
        # an odd one had a partner; some links of a bridge are no missing bridge; a module has all its links
        ("H100 PCIe", (12, 0), {1: "FAIL"}), ("H100 PCIe", (12, 12, 11), {2: "FAIL"}),
        ("H100 SXM", (18, 18, 0), {2: "FAIL"}),
    ],
)  # fmt: skip
def test_a_gpu_without_links_may_be_without_a_bridge(gpu: str, links: tuple[int, ...], told: dict[int, str]) -> None:
    devices = [SimpleNamespace(name="a", index=at, nvlinks_active=n, mig_enabled=False) for at, n in enumerate(links)]
    result: Any = SimpleNamespace(devices=devices, node="n", host=None)
    machine: Any = SimpleNamespace(links_per_pair=None, gpu=gpu)
    found = conditions._peers(result, machine)
    assert {one.subject.first: one.verdict for one in found if one.subject is not None} == told


@pytest.mark.parametrize(
    ("reasons", "samples", "falls"),
    [
        ((), (100.0,) * 9 + (92.0,) * 3, False), ((), (100.0,) * 9 + (91.9,) * 3, True),
        ((), (100.0,) * 8 + (1.0,) * 3, False), (("sw_power_cap",), (100.0,) * 9 + (70.0,) * 3, False),
        (("sw_power_cap",), (100.0,) * 9 + (69.9,) * 3, True), (None, (100.0,) * 9 + (91.9,) * 3, True),
        # one sample of a quarter is none of its level, at either end
        ((), (100.0,) * 9 + (100.0, 1.0, 100.0), False), ((), (100.0, 900.0, 100.0) + (100.0,) * 9, False),
        ((), (100.0, 1.0, 100.0) + (100.0,) * 6 + (91.9, 900.0, 91.9), True),
    ],
)  # fmt: skip
def test_a_rate_falls_by_its_first_and_last_quarter(
    reasons: tuple[str, ...] | None, samples: tuple[float, ...], falls: bool
) -> None:
    entry = changed("worst", reasons=reasons)
    metric = SimpleNamespace(name="m", id="m.gpu0", place="GPU 0", kind="gpu", subject=Subject.of({"gpu": 0}),
                             clock="device", derived=False, unit="GB/s", samples=samples)  # fmt: skip
    device = SimpleNamespace(sm_clock_max_mhz=None)
    result: Any = SimpleNamespace(health=SimpleNamespace(devices=[entry]), metrics=[metric], node="n",
                                  device=lambda index: device)  # fmt: skip
    program: Any = SimpleNamespace(metrics={"m": SimpleNamespace(crosses_pcie=False, by_power=False)})
    assert [found.verdict for found in conditions._falls(result, program)] == ["INVALID"] * falls


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, False), ({"threads": 5}, True),
        ({"thread_cpus": (0, 1, 2, 2)}, False), ({"thread_cpus": (0, 1, 1, 0)}, True),
        # where a thread ran is not always known; one thread is on one CPU
        ({"thread_cpus": (0, -1, -1, -1)}, False), ({"thread_cpus": (0, 0, -1, -1)}, True),
        ({"thread_cpus": (0, 1, 2, 4)}, True), ({"thread_cpus": (0, 1, 2, 4), "allowed_cpus": ()}, False),
        ({"threads": 3}, True), ({"threads": 3, "ranks": 2}, False), ({"threads": 3, "cores": 3}, False),
    ],
)  # fmt: skip
def test_threads_are_spread_over_the_cpus_of_the_run(change: dict[str, Any], told: bool) -> None:
    place = {"threads": 4, "cores": 4, "ranks": 1, "thread_cpus": (0, 1, 2, 3), "allowed_cpus": (0, 1, 2, 3)}
    host = SimpleNamespace(logical_cpus=4)
    result: Any = SimpleNamespace(placement=SimpleNamespace(**{**place, **change}), host=host, devices=())
    request: Any = SimpleNamespace(arguments=(), parameters={})
    assert bool(list(conditions._threads(result, request))) is told


@pytest.mark.parametrize(
    ("us", "count", "clock", "alike"),
    [(49.9, 19, "device", True), (50.1, 19, "device", False), (49.9, 20, "device", False), (49.9, 19, "host", False)],
)
def test_few_times_of_a_short_kernel_may_be_alike(us: float, count: int, clock: str, alike: bool) -> None:
    metric: Any = SimpleNamespace(unit="us", samples=(us,) * count, clock=clock)
    assert conditions._may_be_alike(metric) is alike


@pytest.mark.parametrize(
    ("worst", "after", "lost"), [(18, 18, False), (17, 18, True), (18, 17, True), (None, None, False)]
)
def test_a_link_that_fails_during_a_run_is_lost(worst: int | None, after: int | None, lost: bool) -> None:
    device: Any = SimpleNamespace(nvlinks_active=18, integrated=True)
    entry = changed("worst", changed("after", nvlinks_active=after), nvlinks_active=worst)
    assert [found for found, _ in conditions._pcie(entry, device, False, None)] == ["FAIL"] * lost


@pytest.mark.parametrize(
    ("name", "used", "others", "told"),
    [("x", 2.0, 2.0, True), ("x", 1.9, 2.0, False), ("x", 2.0, 1.9, False), ("UVM GPU1 BH", 2.0, 2.0, False)],
)
def test_a_process_is_named_that_used_a_fifth_of_a_cpu(name: str, used: float, others: float, told: bool) -> None:
    load = SimpleNamespace(seconds=10.0, others_cpu_seconds=others, steal_cpu_seconds=0.0, others=[(1, name, used)],
                           text=lambda: name)  # fmt: skip
    metric = SimpleNamespace(id="m", subject=SimpleNamespace(kind="host"))
    result: Any = SimpleNamespace(load=load, metrics=[metric], node="n")
    assert [found.verdict for found in conditions.named(result, [])] == ["RECORDED"] * told


@pytest.mark.parametrize(
    ("clocks", "locked"),
    [
        # alike to 2 %, and as far below the highest
        ((900.0, 882.0, 900.0), 882.0), ((900.0, 881.0, 900.0), None), ((979.0, 979.0, 979.0), 979.0),
        ((980.0, 980.0, 980.0), None), ((301.0, 301.0, 301.0), 301.0), ((300.0, 300.0, 300.0), None),
        ((900.0, 900.0, None), None),
    ],
)  # fmt: skip
def test_a_clock_is_locked_that_is_the_same_before_during_and_after(
    clocks: tuple[float | None, ...], locked: float | None
) -> None:
    entry = IDLE
    for part, clock in zip(("before", "worst", "after"), clocks, strict=True):
        entry = changed(part, entry, sm_clock_mhz=clock)
    device: Any = SimpleNamespace(sm_clock_max_mhz=1000.0)
    assert bounds.locked(entry, device) == locked
