"""No lie passes: every one is refused for the field that was doctored, and its honest twin is judged as it was."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

import pytest

import tests.lies as here
from tenken.judge import anew
from tests.lies import honest
from tests.lies.lie import Lie, put

#: By number and name of the class: class_03_health, ...
MODULES = {
    m.name: importlib.import_module(f"tests.lies.{m.name}")
    for m in pkgutil.iter_modules(here.__path__)
    if m.name.startswith("class_")
}
CLASSES = {name: list(module.lies()) for name, module in MODULES.items()}
#: What a doctored run may say without being refused: conditions that are recorded and decide nothing. Field of the
#: result of STREAM, and another value of it.
INFORMATIONAL: dict[str, object] = {
    "devices.0.mig_enabled": True,
    "devices.0.vbios": "0",
    "devices.0.driver": "1.2",
    "devices.0.numa_node": 7,
    "host.os": "another",
    "host.kernel": "0",
    "host.cpu": "another",
    "build.compiler": "another",
    "health.devices.0.worst.power_w": 1.0,
    "health.devices.0.worst.temperature_c": 1,
    "health.devices.0.worst.sm_clock_mhz": 1500.0,
    "path.launch.triad.gpu0": "another",
}


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


#: Why a metric may be left out of a run that had it: it has no criterion, and no parameter tells whether it comes.
MAY_BE_LEFT_OUT = {
    ("hpl_mxp", "power"): "a sensor must be readable",
    ("hpl_mxp", "energy"): "a sensor must be readable",
    ("hpl_mxp", "per_watt"): "a sensor must be readable",
    ("spmv", "own_over_vendor"): "the vendor's library must be built in",
    ("stencil", "alone"): "in its place fused, of the same figure",
    ("stencil", "fused"): "in its place alone, of the same figure",
    ("storage_map", "adaptive_over_map"): "only at sizes that the map has",
    ("storage_map", "cached_read"): "memory that the GPU maps must be had",
    ("storage_map", "pinned_read"): "memory that the GPU maps must be had",
    ("transpose", "kernel_growth"): "only where half a size is a size too",
    ("transpose", "transfer_growth_ratio"): "only where half a size is a size too",
}


def test_no_metric_can_be_left_out_without_a_reason() -> None:
    """Its criterion would go with it, and the rest of the run pass."""
    tried, passed = 0, {}
    for record in honest.records():
        result = record.result
        if record.version != "tenken-record/2" or result is None or result.status != "ok":
            continue
        before = anew.of_record(record)
        for name in sorted({metric.name for metric in result.metrics}):
            left = tuple(metric for metric in result.metrics if metric.name != name)
            gone = {metric.id for metric in result.metrics} - {metric.id for metric in left}
            tried += 1
            limits = {key: limit for key, limit in result.limits.items() if key not in gone}
            found = anew.of_record(replace(record, result=replace(result, metrics=left, limits=limits)))
            if found.verdict not in ("FAIL", "INVALID"):
                criteria = [one for one in gone if one in before.judged and before.judged[one].criterion]
                passed.setdefault((record.program, name), []).extend(criteria)
    assert tried > 100
    assert set(passed) <= set(MAY_BE_LEFT_OUT), set(passed) - set(MAY_BE_LEFT_OUT)
    assert not any(passed.values()), passed


def test_what_decides_nothing_is_a_short_list_that_holds() -> None:
    run = honest.run("stream")
    for path, value in INFORMATIONAL.items():
        raw = run.raw()
        if path.startswith("path."):
            raw["path"][path.removeprefix("path.")] = value
        else:
            put(path, value)(raw)
        assert raw != run.raw(), f"{path}: nothing changed"
        assert run.judged(raw).verdict == run.verdict, path


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


@pytest.mark.parametrize("name", [name for name, module in MODULES.items() if hasattr(module, "twins")])
def test_other_circumstances_are_no_lies(name: str) -> None:
    """Honest runs under other circumstances have the verdict that they have without them."""
    twins = list(MODULES[name].twins())
    wrong = [f"{what}: {verdict}; it is {honest}" for what, verdict, honest in twins if verdict != honest]
    assert twins and not wrong, "\n".join(wrong)


def test_a_reference_that_fits_nothing_is_said_and_decides_nothing() -> None:
    """STREAM of two GPUs at once, where the machine has references of one after the other."""
    both, one = honest.run("stream_two"), honest.run("stream")
    found = [f for f in both.judged(both.raw()).findings if f.kind == "reference"]
    assert [f.verdict for f in found] == ["RECORDED"]
    assert "no reference of copy (gpu), scale (gpu)" in found[0].message
    assert "the nearest is for at_once False (this run: True)" in found[0].message
    assert not [f for f in one.judged(one.raw()).findings if f.kind == "reference"]
    unknown = replace(both.machine, unmatched=lambda result, metric: "")
    assert both.judged(both.raw(), machine=unknown).verdict == both.verdict
