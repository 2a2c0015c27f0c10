"""A GPU without data sheet, described by what its owner knows: read, compared with itself, and everything that depends
on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenken.machines import cli, draft, limits, loader, local
from tenken.machines.compare_local import differences
from tenken.machines.errors import SystemFileError
from tenken.machines.facts import facts
from tenken.machines.model import Node, System
from tenken.model.judgement import DATA_SHEET, DEVICE
from tenken.reframe.configuration import _partition as reframe_partition
from tenken.reframe.machine import Machine
from tests.support.documents import gpu_document
from tests.support.judging import on_system
from tests.unit.machines.conftest import GOOD
from tests.unit.machines.test_validation import line_of

Load = Callable[[str], System]

SHEET = "gpus: {sheet: H100-SXM-80GB, count: 4, pair_links: all}"
KNOWN = 'model: "NVIDIA Z9 SXM", memory_gib: 141, compute_capability: "9.0"'
PEAKS = (
    "memory_gbs: 4800, fp64_tflops: 34, fp64_tensor_tflops: 67, host_link: {kind: PCIe, generation: 5, width: 16}, "
    'gpu_links: {kind: NVLink9, count: 18, gbs: 25}, source: "Z9, data sheet"'
)


def text(known: str = KNOWN, peaks: str = "", more: str = "count: 4") -> str:
    """The valid system file with GPUs that have no data sheet."""
    parts = ", ".join(part for part in ("sheet: null", known, peaks, more) if part)
    assert SHEET in GOOD
    return GOOD.replace(SHEET, f"gpus: {{{parts}}}")


def document(**change: Any) -> dict[str, Any]:
    """STREAM on one GPU named Z9."""
    raw: dict[str, Any] = gpu_document()
    raw["devices"][0] |= {"name": "NVIDIA Z9 SXM", **change}
    return raw


def test_what_the_owner_knows_is_enough(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    partition = load(text()).partition("gpu")
    gpu = partition.node.gpu
    assert gpu is not None and (gpu.name, gpu.memory_gib, partition.node.gpu_count) == ("NVIDIA Z9 SXM", 141, 4)
    assert partition.node.cuda_architectures == "90"
    assert reframe_partition(partition)["devices"] == [{"type": "gpu", "num_devices": 4, "arch": "sm_90"}]
    system = load(text().replace("sheet: null, ", ""))
    assert system.partition("gpu") == partition, "the key may be left out"
    for found in (limits.memory(partition, "gpu"), limits.host_link(partition), limits.fp64(partition, "gpu")):
        assert isinstance(found, limits.Unknown)
        assert found.reason.endswith(
            "in the system file for NVIDIA Z9 SXM: the value reported by the device is used, if available"
        )
    lines = list(cli.describe(system, {}))
    assert "  GPUs: 4 x NVIDIA Z9 SXM" in lines
    assert any(line.startswith("  limit of GPU memory: not known, no 'memory_gbs' in the system") for line in lines)


def test_peaks_of_a_document_are_limits_as_those_of_a_sheet_are(load: Load) -> None:
    partition = load(text(peaks=PEAKS, more="count: 4, pair_links: all")).partition("gpu")
    found = {
        "memory": limits.memory(partition, "gpu"), "host": limits.host_link(partition),
        "pair": limits.pair_link(partition), "tensor": limits.fp64(partition, "gpu", tensor=True),
    }  # fmt: skip
    assert {name: one.value for name, one in found.items() if isinstance(one, limits.Limit)} == {
        "memory": 4800, "host": pytest.approx(63, rel=1e-3), "pair": 450, "tensor": 67,
    }  # fmt: skip
    assert all("NVIDIA Z9 SXM, Z9, data sheet" in str(one) for one in found.values())
    shared = load(text(peaks="host_link: null, source: x").replace("x86_64", "aarch64").replace("host: Xeon-8468", ""))
    assert "shares one memory" in str(limits.host_link(shared.partition("gpu")))


BAD = {
    "neither": (text(known=""), "gpus: {",
        ["missing key 'model'", "give 'sheet', or 'model', 'memory_gib' and 'compute_capability'"]),
    "no memory": (text(KNOWN.replace("memory_gib: 141, ", "")), "gpus: {", ["missing key 'memory_gib'"]),
    "no capability": (text(KNOWN.replace(', compute_capability: "9.0"', "")), "gpus: {",
        ["missing key 'compute_capability'"]),
    "capability as number": (text(KNOWN.replace('"9.0"', "9.0")), "gpus: {",
        ["'compute_capability' must be text, not 9.0"]),
    "capability as sm": (text(KNOWN.replace('"9.0"', "sm_90")), "gpus: {", ["'sm_90'", "a capability in quotes"]),
    "no memory at all": (text(KNOWN.replace("141", "0")), "gpus: {", ["more than 0"]),
    "peak without source": (text(peaks="memory_gbs: 4800"), "gpus: {",
        ["missing key 'source'", "the document that states 'memory_gbs'"]),
    "beside a sheet": (GOOD.replace("count: 4,", "count: 4, memory_gbs: 9000,"), "gpus: {",
        ["'memory_gbs' in partition 'gpu' with 'sheet: H100-SXM-80GB'", "only one of the two"]),
    "pair_links alone": (text(more="count: 4, pair_links: 18"), "gpus: {",
        ["'pair_links' of partition 'gpu' requires 'gpu_links'"]),
    "more links than it has": (text(peaks=PEAKS, more="count: 4, pair_links: 19"), "gpus: {",
        ["is 19; a NVIDIA Z9 SXM has 18 links"]),
    "chip to chip on x86": (text(peaks="host_link: {kind: NVLink-C2C, count: 1, gbs: 450}, source: x"),
        "architecture: x86_64", ["NVIDIA Z9 SXM it is aarch64"]),
    "link of no kind": (text(peaks="host_link: {kind: USB, count: 1, gbs: 1}, source: x"), "gpus: {",
        ["'USB'", "PCIe"]),
    "PCIe without width": (text(peaks="host_link: {kind: PCIe, generation: 5}, source: x"), "gpus: {",
        ["missing key 'width'"]),
    "a sheet that is not there": (text().replace("sheet: null", "sheet: Z9-SXM"), "gpus: {",
        ["unknown data sheet 'Z9-SXM'", "a GPU without one is described by"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_missing_or_said_twice_is_one_line(case: str, load: Load) -> None:
    bad, marker, words = BAD[case]
    with pytest.raises(SystemFileError) as caught:
        load(bad)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"systems/machine.yaml:{line_of(bad, marker)}: ")
    assert any(all(word in line for word in words) for line in lines), lines


def test_a_gpu_that_a_sheet_is_known_of_is_told_its_sheet(load: Load) -> None:
    known = text(KNOWN.replace("NVIDIA Z9 SXM", "NVIDIA H200"))
    (notice,) = load(known).notices
    assert notice.startswith(f"systems/machine.yaml:{line_of(known, 'gpus: {')}: 'NVIDIA H200' has a data sheet: ")
    assert "'sheet: H200-SXM-141GB'" in notice
    assert load(text()).notices == ()


def machine(load: Load, **parts: str) -> Any:
    system = load(text(**parts))
    return facts(system, system.partition("gpu"), system.environments["cuda"])


def test_a_run_is_held_against_what_the_device_tells_and_says_so(load: Load) -> None:
    judged = on_system(document(), "h200", ("gpu",), machine=machine(load), gpus=1)
    held = judged.judged["triad.gpu0"]
    assert held.limit.said_by == DEVICE and held.limit.basis.startswith("attribute: memory clock x bus width")
    assert judged.verdict == "PASS" and held.criterion is not None
    judged = on_system(document(), "h200", ("gpu",), machine=machine(load, peaks=PEAKS), gpus=1)
    assert judged.judged["triad.gpu0"].limit.said_by == DATA_SHEET
    # the owner's own peak is lower: the figure is impossible there
    low = machine(load, peaks="memory_gbs: 3000, source: x")
    assert on_system(document(), "h200", ("gpu",), machine=low, gpus=1).verdict == "FAIL"


@pytest.mark.parametrize(("change", "words"), [
        ({"name": "NVIDIA Z8"}, "GPU 0 has name 'NVIDIA Z8'; the system file has NVIDIA Z9 SXM"),
        ({"compute_capability": "10.0"}, "GPU 0 has compute_capability 10.0; NVIDIA Z9 SXM has 9.0"),
        ({"memory_bytes": 80 * 2**30}, "GPU 0 has memory_bytes 85899345920; NVIDIA Z9 SXM has 151397597184"),
])  # fmt: skip
def test_another_card_than_the_one_described_fails(load: Load, change: dict[str, Any], words: str) -> None:
    judged = on_system(document(**change), "h200", ("gpu",), machine=machine(load), gpus=1)
    assert judged.verdict == "FAIL" and any(words in finding.message for finding in judged.findings), judged.findings


def test_checks_are_sized_and_built_for_it(load: Load) -> None:
    without = load(text())
    seen = Machine(without, without.partition("gpu"), without.environments["cuda"])
    assert seen.gpu_memory_gib == 141 and "-DCMAKE_CUDA_ARCHITECTURES=90" in seen.cmake_options()
    assert without.partition("gpu").abilities == load(GOOD).partition("gpu").abilities


def test_on_a_node_the_description_is_held_against_the_card(load: Load) -> None:
    said = load(text()).partition("gpu").node
    seen = Node(
        "x86_64", sockets=2, cores=96, gpu_count=4, gpu_names=("NVIDIA Z9 SXM",) * 4, compute_capability="9.0",
        gpu_memory_bytes=140 * 2**30,
    )  # fmt: skip
    assert differences(said, seen) == []
    for change, line in (
        ({"gpu_names": ("NVIDIA Z8",)}, "GPUs: the file states NVIDIA Z9 SXM, this machine has 1 x NVIDIA Z8"),
        ({"compute_capability": "10.0"}, "compute capability: the file states 9.0, this machine has 10.0"),
        ({"gpu_memory_bytes": 2**36}, "memory of a GPU: the file states 141 GiB, this machine has 64 GiB"),
    ):
        assert differences(said, replace(seen, **change)) == [line]  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [True, False])
def test_a_first_file_of_such_a_machine_is_written_by_looking(tmp_path, told: bool) -> None:
    here = local.describe(tmp_path, lambda command: None, lambda name: None, {}, "x86_64")
    seen = replace(
        here.partition("node").node, gpu_count=2, gpu_names=("NVIDIA Z9 SXM",) * 2,
        compute_capability="9.0" if told else None, gpu_memory_bytes=140 * 2**30,
    )  # fmt: skip
    here = replace(here, partitions={"node": replace(here.partition("node"), node=seen)})
    made = draft.draft("new", "local", here, lambda command: None, lambda name: "/usr/bin/nvcc", {})
    draft.write(tmp_path / "new.yaml", made.text)
    written = loader.load_file(tmp_path / "new.yaml", cache_folder=None).partition("node")
    assert ("cuda" in written.features) is told
    if told:
        assert written.node.gpu is not None
        assert (written.node.gpu.name, written.node.gpu.memory_gib, written.node.gpu_count) == ("NVIDIA Z9 SXM", 140, 2)
    else:
        assert written.node.gpu is None and any("data sheet of the 2 GPUs" in line for line in made.unseen)
