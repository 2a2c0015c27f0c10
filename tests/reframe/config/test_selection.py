"""A check that needs more than a machine has is not selected, which is not a waiver; neither are those of another
mode."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tenken.machines import loader
from tenken.machines.model import System
from tenken.reframe.plan import Plan, in_columns, make_plan
from tests.support.reframe import all_checks

pytestmark = pytest.mark.xdist_group("described")  # one worker asks ReFrame for all checks


@pytest.fixture(scope="module")
def described() -> dict[str, list[dict[str, Any]]]:
    return {mode: all_checks(mode) for mode in ("quick", "published")}


def with_nodes(name: str, partition: str, **facts: int) -> System:
    """A system file with another number of nodes, or of GPUs per node."""
    system = loader.load(name)
    changed = replace(system.partition(partition), node=replace(system.partition(partition).node, **facts))
    return replace(system, partitions={partition: changed})


def lacking(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {one.check: one.lacks for one in plan.not_applicable}


def test_one_gpu_gets_no_check_that_two_are_needed_for(described: dict[str, list[dict[str, Any]]]) -> None:
    one = make_plan(with_nodes("h200", "gpu", gpu_count=1), described["published"], [], "published")
    two = make_plan(with_nodes("h200", "gpu", gpu_count=2), described["published"], [], "published")
    gained = {name for name, lacks in lacking(one).items() if "2 GPUs per node" in lacks}
    for name in ("HplNode", "HplMxpNode", "StencilRanks %way=mpi", "P2P", "Gemm %gpus_at=at_once"):
        assert name in gained and name in two.applicable and name not in one.applicable
    assert {"HplMxp %low=fp16", "Gemm %gpus_at=one_by_one", "HplOther"} <= set(one.applicable)
    assert not [name for name in one.applicable if name.startswith("StencilGpus") or "Node" in name]


@pytest.mark.parametrize("nodes", [2, 4, 15, 16, 100])
def test_so_many_nodes_are_asked_for_as_there_are(nodes: int, described) -> None:
    plan = make_plan(with_nodes("miyabi", "gpu", count=nodes), described["published"], [], "published")
    asked = {int(name.split("%num_nodes=")[1].split()[0]) for name in plan.applicable if "%num_nodes=" in name}
    assert asked == {n for n in (2, 4, 8, 16, 32, 64) if n <= nodes}
    assert ("HpcgPublished %num_nodes=8" in plan.applicable) == (nodes >= 8)
    if nodes < 64:
        assert "64 nodes" in lacking(plan)["StencilNodes %way=mpi %num_nodes=64 %scaling=weak"]


def test_checks_are_listed_by_partition_in_columns(described) -> None:
    """18 nodes: a check that needs 64 is not counted, and a partition of CPUs has only host checks."""
    system = with_nodes("miyabi", "gpu", count=18)
    gpu = system.partition("gpu")
    cpu = replace(
        gpu, name="cpu", environments=gpu.environments[-1:], features=frozenset(),
        node=replace(gpu.node, gpu=None, gpu_count=0),
    )  # fmt: skip
    made = make_plan(replace(system, partitions={"gpu": gpu, "cpu": cpu}), described["published"], [], "published")
    lines = list(in_columns(made, replace(system, partitions={"gpu": gpu, "cpu": cpu})))
    total, on = re.fullmatch(r"(\d+) checks apply to miyabi \((.*)\)", lines[0]).groups()
    counts = dict(reversed(part.split(" on ")) for part in on.split(", "))
    assert int(total) == len(made.applicable) >= int(counts["gpu"]) > int(counts["cpu"]) > 0
    head, *rows = lines[1 : len(made.applicable) + 2]
    at = [head.index(word) for word in ("CHECK", "GPU", "CPU")]
    shown = {row[at[0] : at[1]].strip(): (row[at[1] : at[2]].strip(), row[at[2] :].strip()) for row in rows}
    assert set(shown) == set(made.applicable)
    assert all((cell != "-") is (name in made.where[one]) for one, cells in shown.items()
               for name, cell in zip(("gpu", "cpu"), cells, strict=True))  # fmt: skip
    assert not [one for one in shown if "num_nodes=64" in one or "num_nodes=32" in one]
    assert any("num_nodes=64" in line and "64 nodes" in line for line in lines[len(made.applicable) + 3 :])


def test_what_another_mode_measures_is_not_selected(described: dict[str, list[dict[str, Any]]]) -> None:
    system = with_nodes("miyabi", "gpu", count=1000)
    four = "StencilNodes %way=mpi %num_nodes=4 %scaling=weak"
    everything = all_checks(None)
    assert lacking(make_plan(system, everything, [], None))[four] == ("mode published",)
    assert four in make_plan(system, described["published"], [], "published").applicable


@pytest.mark.parametrize(("gpus", "variant"), [(1, "one_by_one"), (2, "at_once"), (8, "at_once")])
def test_a_quick_look_has_one_problem_of_each_compute_check(
    gpus: int, variant: str, described: dict[str, list[dict[str, Any]]]
) -> None:
    plan = make_plan(with_nodes("h200", "gpu", gpu_count=gpus), described["quick"], [], "quick")
    assert {n for n in plan.applicable if n.startswith(("Gemm ", "HplMxp ", "Hpl ", "StreamCuda"))} == {
        f"Gemm %gpus_at={variant}", f"StreamCuda %gpus_at={variant}", "HplMxp %low=fp16", "Hpl %size=small"
    }  # fmt: skip
    if gpus > 1:
        (why,) = lacking(plan)["Gemm %gpus_at=one_by_one"]
        assert why == "a single GPU per node (mode quick measures several at once)"


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_the_other_modes_measure_several_gpus_one_by_one_and_at_once(
    gpus: int, described: dict[str, list[dict[str, Any]]]
) -> None:
    plan = make_plan(with_nodes("h200", "gpu", gpu_count=gpus), described["published"], [], "published")
    assert "StreamCuda %gpus_at=one_by_one" in plan.applicable
    assert ("StreamCuda %gpus_at=at_once" in plan.applicable) == (gpus > 1)
