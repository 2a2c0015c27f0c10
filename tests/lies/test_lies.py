"""No lie passes: every one is refused for the field that was doctored, and its honest twin is judged as it was."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.lies as here
from tests.lies import honest
from tests.lies.lie import Lie

#: By number and name of the class: class_03_health, ...
CLASSES = {
    m.name: list(importlib.import_module(f"tests.lies.{m.name}").lies())
    for m in pkgutil.iter_modules(here.__path__)
    if m.name.startswith("class_")
}
#: What a doctored run may say without being refused: conditions that are recorded and decide nothing.
INFORMATIONAL = (
    "devices.*.sm_clock_max_mhz",
    "devices.*.mig_enabled",
    "devices.*.vbios",
    "devices.*.driver",
    "devices.*.numa_node",
    "host.os",
    "host.kernel",
    "host.cpu",
    "host.firmware",
    "build.compiler",
    "build.libraries",
    "health.*.sm_clock_mhz",
    "health.*.power_w",
    "health.*.memory_used_bytes",
    "path (notes that claim nothing)",
)


def test_there_are_enough_lies_of_every_class() -> None:
    counts = {name: len(lies) for name, lies in CLASSES.items()}
    assert sum(counts.values()) >= 400, counts
    assert all(count >= 20 for count in counts.values()), counts
    for name, lies in CLASSES.items():
        assert len({lie.id for lie in lies}) == len(lies), name
    assert len(INFORMATIONAL) <= 15


@pytest.mark.parametrize("name", CLASSES)
def test_no_lie_of_a_class_passes(name: str) -> None:
    wrong = [said for lie in CLASSES[name] if (said := _accepted(lie))]
    assert not wrong, "\n".join(wrong)


def _accepted(lie: Lie) -> str:
    try:
        return lie.accepted()
    except Exception as error:  # an exception is a lie that was not refused
        return f"{lie.id}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("name", [*honest.CHOSEN, *honest.foreign.RUNS])
def test_an_honest_twin_is_judged_as_it_was(name: str) -> None:
    run = honest.run(name)
    assert run.verdict in ("PASS", "RECORDED"), run.judged(run.raw()).message()


@pytest.mark.parametrize("name", honest.WAIVED)
def test_an_honest_waiver_stays_one(name: str) -> None:
    assert honest.run(name).verdict == "WAIVED"


def test_other_circumstances_are_no_lies() -> None:
    from tests.lies import class_05_identity as identity

    wrong = [f"{name}: {verdict}" for name, verdict in identity.twins() if verdict != honest.run("stream").verdict]
    assert not wrong, "\n".join(wrong)
