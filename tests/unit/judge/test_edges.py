"""Each condition of a GPU's health at its edge: the last value that is good, and the first that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenken.judge import conditions
from tenken.model.result import DeviceHealth, HealthSample

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
