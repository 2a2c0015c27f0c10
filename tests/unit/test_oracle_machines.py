"""Data sheets and references: the figures that a run is compared with, computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenken.machines import limits, loader
from tenken.machines.model import Link, Reference, System, pcie_gbs
from tenken.reframe.machine import Machine
from tests.support.documents import gpu_document
from tests.unit.core.test_verdict import validate
from tests.unit.machines.conftest import GOOD
from tests.unit.machines.conftest import load as load  # a fixture
from tests.unit.machines.conftest import src as src  # a fixture

Load = Callable[[str], System]


@pytest.mark.parametrize(
    ("generation", "width", "gbs"),
    [
        (1, 16, 4.0),
        (2, 8, 4.0),
        (3, 16, 15.753846153846153),
        (4, 16, 31.507692307692306),
        (4, 4, 7.876923076923077),
        (5, 16, 63.01538461538461),
        (6, 8, 60.5),
    ],
)
def test_pcie(generation: int, width: int, gbs: float) -> None:
    """GT/s per lane of 2.5, 5, 8, 16, 32, 64; 8 of 10 bits up to generation 2, 128 of 130 up to 5, then 242 of 256."""
    assert pcie_gbs(generation, width) == pytest.approx(gbs)


def test_links_side_by_side_add_up() -> None:
    assert Link("NVLink", 18, 25.0).total_gbs == 450
    assert Link("NVLink", 17, 25.0).total_gbs == 425


def gbs(limit: limits.Limit | limits.Unknown) -> float:
    assert isinstance(limit, limits.Limit), limit
    return limit.value


def test_a_node_has_the_memory_of_all_its_sockets(load: Load) -> None:
    """A Xeon-8468 has 8 channels of DDR5-4800: 307.2 GB/s."""
    partition = load(GOOD).partition("gpu")
    assert gbs(limits.memory(partition, "host")) == pytest.approx(2 * 8 * 4.8 * 8)
    single = replace(partition, node=replace(partition.node, sockets=1))
    assert gbs(limits.memory(single, "host")) == pytest.approx(307.2)


def facts(load: Load) -> Any:
    system = load(GOOD).expand({"TENKEN_GROUP": "g", "SITE_OPTIONS": ""}, strict=False)
    machine = Machine(system, system.partition("gpu"), system.environments["cuda"])
    return machine.facts()


def known_limits(load: Load) -> dict[tuple[str, str], float]:
    """The criteria of a run on the machine, by what they bound and for which subject."""
    found = facts(load)
    return {key: limit.value for key, limit in found.limits.items()}


def test_each_sheet_bounds_what_it_is_of(load: Load) -> None:
    """H100 SXM: 3350 GB/s of memory, PCIe 5 x16, 18 NVLinks of 25 GB/s, 67 TFLOP/s in FP64 by tensor cores, and
    the dense rates, FP32 apart."""
    assert known_limits(load) == {
        ("fp64_tensor", "gpu"): 67,
        ("memory", "host"): pytest.approx(614.4),
        ("memory", "gpu"): 3350,
        ("host_link", "gpu"): pytest.approx(63.01538461538461),
        ("gpu_link", "pair"): 450,
        ("rate fp64", "gpu"): 34,
        ("rate fp64_tensor", "gpu"): 67,
        ("rate tf32", "gpu"): 494,
        ("rate fp16", "gpu"): 989,
        ("rate bf16", "gpu"): 989,
        ("rate fp8", "gpu"): 1979,
        ("rate int8", "gpu"): 1979,
    }


TWO_SIZES = (
    GOOD
    + """\
  - metric: stream.triad
    subject: gpu
    partition: gpu
    value: 2000
    lower: -0.05
    upper: 0.1
    unit: GB/s
    statistic: median
    date: 2026-01-31
    source: of all sizes
  - metric: stream.triad
    subject: gpu
    partition: gpu
    value: 2500
    lower: -0.05
    unit: GB/s
    statistic: best
    date: 2026-01-31
    source: of one size and back end
    parameters: {array_bytes: 1073741824, backend: cuda}
"""
)


def held_against(load: Load, text: str, **parameters: Any) -> Any:
    """The reference of the triad of a run with these parameters."""
    system = load(text)
    machine = Machine(system, system.partition("gpu"), system.environments["cuda"])
    raw = gpu_document()
    raw["parameters"] = parameters
    read = validate(raw, "result.json")
    (triad,) = [m for m in read.metrics if m.name == "triad"]
    return machine.facts().criterion(read, triad)


def test_the_most_specific_reference_counts(load: Load) -> None:
    of_size = held_against(load, TWO_SIZES, array_bytes=1073741824, backend="host")
    assert (of_size.value, of_size.low, of_size.high) == (3000, pytest.approx(2850), pytest.approx(3300))
    of_both = held_against(load, TWO_SIZES, array_bytes=1073741824, backend="cuda")
    assert (of_both.value, of_both.low, of_both.high) == (2500, pytest.approx(2375), None)
    assert of_both.statistic == "best"
    of_all = held_against(load, TWO_SIZES, array_bytes=4096, backend="cuda")
    assert (of_all.value, of_all.low, of_all.high) == (2000, pytest.approx(1900), pytest.approx(2200))


def test_a_reference_of_another_size_does_not_hold(load: Load) -> None:
    assert held_against(load, GOOD, array_bytes=4096) is None
    assert held_against(load, GOOD) is None
    assert held_against(load, GOOD, array_bytes=1073741824).value == 3000


def test_each_parameter_of_a_selector_must_agree(load: Load) -> None:
    only = TWO_SIZES.replace("value: 2000", "value: 2000\n    environ: [host]")
    assert held_against(load, only, array_bytes=4096, backend="cuda") is None
    run = {"array_bytes": 4096, "backend": "cuda"}
    found: list[Reference] = loader.references(load(TWO_SIZES), "gpu", "stream", parameters=run)
    assert [reference.value for reference in found] == [2000]


def test_a_range_has_its_middle_for_a_value_and_bounds_beyond_its_ends(load: Load) -> None:
    ranged = GOOD.replace("    value: 3000\n", "    range: [2000, 3000]\n")
    found = held_against(load, ranged, array_bytes=1073741824)
    assert (found.value, found.low, found.high) == (2500, pytest.approx(1900), pytest.approx(3300))


def test_a_reference_holds_for_its_partition_alone(load: Load) -> None:
    system = load(GOOD)
    found: list[Reference] = loader.references(system, "another", "stream")
    assert found == []
    assert len(loader.references(system, "gpu", "stream")) == 1
    assert loader.references(system, "gpu", "memcopy") == []
    assert loader.references(system, "gpu", "stream", subject="host") == []
    assert loader.references(system, "gpu", "stream", environ="host") == []
