"""Limits by the data sheets, each with its basis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tenken.machines import limits
from tenken.machines.model import Partition, System
from tests.unit.machines.conftest import GOOD


@pytest.fixture
def gpu(load: Callable[[str], System]) -> Partition:
    return load(GOOD).partition("gpu")


def known(limit: limits.Limit | limits.Unknown) -> limits.Limit:
    assert isinstance(limit, limits.Limit)
    assert limit.basis.startswith("data sheet: ")
    return limit


def test_memory(gpu: Partition) -> None:
    assert known(limits.memory(gpu, "gpu")).value == 3350
    assert known(limits.memory(gpu, "host")).value == pytest.approx(614.4)
    assert limits.memory(gpu, "gpu").as_document() == {
        "value": 3350,
        "unit": "GB/s",
        "basis": limits.memory(gpu, "gpu").basis,  # type: ignore[union-attr]
    }


def test_memory_of_the_machine_beats_the_sheet(gpu: Partition) -> None:
    node = replace(gpu.node, memory_gbs=100.0, memory_gbs_source="half the modules")
    assert known(limits.memory(replace(gpu, node=node), "host")).value == 100


def test_links(gpu: Partition) -> None:
    assert known(limits.host_link(gpu)).value == pytest.approx(63.0, abs=0.1)
    assert known(limits.pair_link(gpu)).value == 450


def test_fp64(gpu: Partition) -> None:
    assert known(limits.fp64(gpu, "gpu")).value == 34
    assert known(limits.fp64(gpu, "gpu", tensor=True)).value == 67
    assert limits.fp64(gpu, "host").as_document() == {"unknown": "data sheet Xeon-8468 has no FP64 peak"}


def test_what_is_not_known_says_why(gpu: Partition) -> None:
    bare = replace(gpu, node=replace(gpu.node, gpu=None, gpu_count=0, host=None, cpu="Some CPU"))
    assert limits.memory(bare, "gpu") == limits.Unknown(limits.NO_GPU)
    assert limits.pair_link(bare) == limits.Unknown(limits.NO_GPU)
    assert "Some CPU" in limits.memory(bare, "host").as_document()["unknown"]  # type: ignore[operator]
    virtual = replace(gpu, node=replace(gpu.node, virtual_machine="KVM"))
    assert "virtual machine (KVM)" in str(limits.memory(virtual, "host"))
    strange = replace(gpu, node=replace(gpu.node, gpu=None, gpu_names=("NVIDIA X",)))
    assert "NVIDIA X" in str(limits.memory(strange, "gpu"))


def test_wrong_subject(gpu: Partition) -> None:
    with pytest.raises(ValueError, match="allowed: host, gpu"):
        limits.memory(gpu, "pair")
