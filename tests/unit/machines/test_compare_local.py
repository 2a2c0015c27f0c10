"""A system file against the node it describes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.machines import hardware, loader
from tenken.machines.cli import register
from tenken.machines.compare_local import differences
from tenken.machines.model import Node

SHEET = hardware.sheet("H200-SXM-141GB")
LINKS = SHEET.gpu_links
SAID = Node(
    "x86_64", host=hardware.host_sheet("Xeon-8468"), sockets=2, cores=96, threads_per_core=2, memory_bytes=512 * 2**30,
    gpu=SHEET, gpu_count=8, pair_links=LINKS,
)  # fmt: skip
SEEN = Node(
    "x86_64", cpu="Intel(R) Xeon(R) Platinum 8468", sockets=2, cores=96, threads_per_core=2,
    memory_bytes=503 * 2**30, gpu=SHEET, gpu_count=8, gpu_names=("NVIDIA H200",) * 8, pair_links=LINKS,
)  # fmt: skip


def test_a_node_that_is_as_its_file_says():
    assert differences(SAID, SEEN) == []


def test_what_is_not_known_differs_from_nothing():
    assert differences(Node("x86_64", gpu_count=None), SEEN) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"architecture": "aarch64"}, "architecture: the file states x86_64, this machine has aarch64"),
        ({"cores": 48}, "cores: the file states 96, this machine has 48"),
        ({"gpu_count": 7}, "GPUs: the file states 8, this machine has 7"),
        ({"cpu": "AMD EPYC 7742"}, "processor: the file states Xeon-8468, this machine has AMD EPYC 7742"),
        ({"gpu_names": ("NVIDIA L4",)}, "GPUs: the file states H200-SXM-141GB, this machine has 1 x NVIDIA L4"),
        ({"memory_bytes": 256 * 2**30}, "memory: the file states 512 GiB, this machine has 256 GiB"),
        ({"memory_bytes": 1024 * 2**30}, "memory: the file states 512 GiB, this machine has 1024 GiB"),
        ({"pair_links": replace(LINKS, count=17)}, "links between two GPUs: the file states 18, this machine has 17"),
    ],
)
def test_what_differs_is_told_with_both_sides(change, line):
    assert differences(SAID, replace(SEEN, **change)) == [line]


@pytest.mark.parametrize(
    ("stated", "field", "within", "beyond"),
    [
        (SAID.memory_bytes, "memory_bytes", (0.921, 1.009), (0.919, 1.011)),
        (SHEET.memory_bytes, "gpu_memory_bytes", (0.851, 1.019), (0.849, 1.021)),
    ],
)
def test_memory_may_differ_by_what_firmware_keeps(stated, field, within, beyond):
    def told(part):
        return len(differences(SAID, replace(SEEN, **{field: int(part * stated)})))

    assert [told(part) for part in (*within, *beyond)] == [0, 0, 1, 1]


def test_the_command_says_how_many(capsys, monkeypatch):
    import argparse

    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    local = loader.load("local")
    here = replace(local.partition("node").node, cores=3)
    monkeypatch.setattr(
        loader, "load",
        lambda name: replace(local, partitions={"node": replace(local.partition("node"), node=here)})
        if name == "local" else load(name),
    )  # fmt: skip
    arguments = parser.parse_args(["systems", "check", "miyabi-c", "--here"])
    assert arguments.func(arguments) == 1
    printed = capsys.readouterr().out
    assert "cores: the file states 112, this machine has 3" in printed and "differences from this machine" in printed
    with pytest.raises(SystemExit):  # what is compared is said, since nothing else can be
        parser.parse_args(["systems", "check", "miyabi-c"])
    arguments = parser.parse_args(["systems", "check", "nosuch", "--here"])
    assert arguments.func(arguments) == 2


load = loader.load
