"""Limits from the data sheets, each with its basis."""

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


def known(limit: limits.Limit | limits.Unknown, *basis: str) -> limits.Limit:
    assert isinstance(limit, limits.Limit)
    assert limit.basis.startswith(basis or ("data sheet: ", "driver: "))
    return limit


def test_memory_of_the_machine_beats_the_sheet(gpu: Partition) -> None:
    node = replace(gpu.node, memory_gbs=100.0, memory_gbs_source="half the modules")
    assert known(limits.memory(replace(gpu, node=node), "host")).value == 100


def test_fp64(gpu: Partition) -> None:
    assert known(limits.fp64(gpu, "gpu")).value == 34
    assert known(limits.fp64(gpu, "gpu", tensor=True)).value == 67
    assert limits.fp64(gpu, "host") == limits.Unknown("data sheet Xeon-8468 has no FP64 peak")


def test_fp64_of_a_node_is_of_all_its_sockets(gpu: Partition) -> None:
    assert gpu.node.host is not None
    sheet = replace(gpu.node.host, fp64_tflops=1.5)
    of_two = replace(gpu, node=replace(gpu.node, host=sheet, sockets=2))
    found = known(limits.fp64(of_two, "host"))
    assert (found.value, found.unit) == (3.0, "TFLOP/s") and found.basis.startswith("data sheet: 2 x Xeon-8468, ")
    for changed in (
        replace(of_two.node, host=None),
        replace(of_two.node, sockets=None),
        replace(of_two.node, virtual_machine="KVM"),
    ):
        assert "no data sheet" in str(limits.fp64(replace(gpu, node=changed), "host"))


def test_the_rate_of_a_node_is_that_of_its_fastest_units(gpu: Partition) -> None:
    assert known(limits.rate(gpu, "gpu", "fp64")).value == 67
    of_two = limits.rate(gpu, "ranks", "fp64", 2)
    assert isinstance(of_two, limits.Limit) and of_two.value == 2 * gpu.node.gpu_count * 67
    assert gpu.node.gpu is not None
    unsure = replace(gpu, node=replace(gpu.node, gpu=replace(gpu.node.gpu, unsure={"fp64_tflops": "a guess"})))
    assert "has no rate" in str(limits.rate(unsure, "gpu", "fp64"))


def test_a_peak_that_a_sheet_has_not_is_named(gpu: Partition) -> None:
    assert gpu.node.gpu is not None
    bare = replace(gpu.node.gpu, fp64_tensor_tflops=None, fp64_tflops=None)
    without = replace(gpu, node=replace(gpu.node, gpu=bare))
    assert "has no FP64 tensor peak" in str(limits.fp64(without, "gpu", tensor=True))
    assert "has no FP64 peak" in str(limits.fp64(without, "gpu"))
    with pytest.raises(ValueError, match="allowed: host, gpu"):
        limits.fp64(gpu, "pair")


def test_every_bandwidth_is_in_gb_a_second_and_says_whose_it_is(gpu: Partition) -> None:
    found = [known(one) for one in (
        limits.memory(gpu, "gpu"), limits.memory(gpu, "host"), limits.host_link(gpu), limits.pair_link(gpu),
    )]  # fmt: skip
    assert {one.unit for one in found} == {"GB/s"}
    sheet = gpu.node.gpu
    assert sheet is not None and found[1].basis.startswith("data sheet: 2 x Xeon-8468, ")
    assert all(sheet.name in found[i].basis and sheet.source in found[i].basis for i in (0, 2, 3))
    own = replace(gpu, node=replace(gpu.node, gpu=None, gpu_memory_gbs=123.0))
    basis = "attribute: 2 x memory clock x bus width, as the driver reports them"
    assert limits.memory(own, "gpu") == limits.Limit(123.0, "GB/s", basis)
    assert known(limits.pair_link(own)).basis.endswith("GB/s, as the driver reports them")
    assert limits.pair_link(replace(gpu, node=replace(gpu.node, gpu_count=1))) == limits.Unknown("the node has one GPU")


def test_what_is_not_known_says_why(gpu: Partition) -> None:
    bare = replace(gpu, node=replace(gpu.node, gpu=None, gpu_count=0, host=None, cpu="Some CPU"))
    assert limits.memory(bare, "gpu") == limits.Unknown(limits.NO_GPU)
    assert limits.pair_link(bare) == limits.Unknown(limits.NO_GPU)
    assert "Some CPU" in str(limits.memory(bare, "host"))
    virtual = replace(gpu, node=replace(gpu.node, virtual_machine="KVM"))
    assert "virtual machine (KVM)" in str(limits.memory(virtual, "host"))
    strange = replace(gpu, node=replace(gpu.node, gpu=None, gpu_names=("NVIDIA X",)))
    assert "NVIDIA X" in str(limits.memory(strange, "gpu"))
    for names, told in ((("B", "A", "B"), "A, B"), ((), "name not known")):
        of = replace(gpu, node=replace(gpu.node, gpu=None, gpu_names=names))
        no_sheet = limits.Unknown(f"no data sheet of the GPU ({told})")
        assert limits.memory(of, "gpu") == limits.fp64(of, "gpu") == limits.rate(of, "gpu") == no_sheet
        assert limits.rate(of, "ranks") == limits.host_link(of) == no_sheet
    said = limits.Unknown("no data sheet of the host (CPU not known)")
    for node in (replace(gpu.node, cpu=None, host=None), replace(gpu.node, cpu=None, sockets=None)):
        no_cpu = replace(gpu, node=node)
        assert limits.memory(no_cpu, "host") == limits.fp64(no_cpu, "host") == limits.rate(no_cpu, "host") == said


def test_a_basis_has_the_figures_of_its_limit(gpu: Partition) -> None:
    sheet = gpu.node.gpu
    assert sheet is not None
    ends = f"H100-SXM-80GB, {sheet.source}"
    assert known(limits.pair_link(gpu)).basis == f"data sheet: 18 x NVLink4 at 25 GB/s, {ends}"
    assert known(limits.host_link(gpu)).basis == f"data sheet: PCIe Gen5 x16 at 63.02 GB/s, {ends}"
    by_name = limits.rate(gpu, "ranks", "fp64", 3)
    assert by_name == limits.Limit(12 * 67, "TFLOP/s", f"12 x 67 TFLOP/s, data sheet: fp64, {ends}")
    highest = limits.rate(gpu, "gpu", "fp6")
    assert highest == limits.Limit(max(sheet.tflops.values()), "TFLOP/s", f"data sheet: {ends}")
    # without tensor cores for FP64 both rates are the same, and FP32 is none
    plain = limits.rates(replace(sheet, fp64_tensor_tflops=None, tflops={"fp32": 60.0, "fp16": 900.0}))
    assert {name: one.value for name, one in plain.items()} == {
        "rate fp16": 900,
        "rate fp64": 34,
        "rate fp64_tensor": 34,
    }
    cpus = replace(gpu.node, gpu=None, gpu_count=0, host=replace(gpu.node.host, fp64_tflops=1.5))  # type: ignore[type-var]
    of_cpus = known(
        limits.rate(replace(gpu, node=cpus), "ranks", "fp64", 3), "3 x 3 TFLOP/s, data sheet: 2 x Xeon-8468"
    )
    assert of_cpus.value == 9
    unknown = replace(gpu, node=replace(gpu.node, gpu=replace(sheet, memory_gbs=None, unsure={"memory": "why"})))
    assert limits.memory(unknown, "gpu") == limits.Unknown("data sheet H100-SXM-80GB: memory is not certain: why")


def test_wrong_subject(gpu: Partition) -> None:
    with pytest.raises(ValueError, match="allowed: host, gpu"):
        limits.memory(gpu, "pair")
