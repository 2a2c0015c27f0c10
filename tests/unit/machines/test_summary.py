"""The description of a machine on a page before anything has run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.machines import loader, summary
from tenken.machines.model import System

ANSWERS = {
    "nvidia-smi --query-gpu=power.limit": "700.00, 580.95.05\n700.00, 580.95.05\n",
    "nvidia-smi": "| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0     |",
}


def answers(command):
    line = " ".join(command)
    return next((text for start, text in ANSWERS.items() if line.startswith(start)), None)


@pytest.fixture
def two_cards() -> System:
    """The file of an H200 node, as detection completes it on a node with two GPUs."""
    system = loader.load("h200")
    partitions = {
        name: replace(p, node=replace(p.node, gpu_count=2, gpu_names=("NVIDIA H200",) * 2))
        for name, p in system.partitions.items()
    }
    return replace(system, partitions=partitions)


def test_gpus_links_and_peaks_are_told_with_their_source(two_cards):
    found = dict(summary.of_system(two_cards))
    assert found["GPUs"] == "2 × NVIDIA H200"
    assert found["Links between GPUs"].startswith("450 GB/s (data sheet: 18 x NVLink4")
    assert found["Peak of GPU memory"].startswith("4800 GB/s (data sheet: ")


def test_the_driver_tells_versions_and_the_power_limit(two_cards):
    found = dict(summary.of_driver(two_cards, answers, lambda name: f"/usr/bin/{name}"))
    assert found == {"Driver, CUDA": "driver 580.95.05, CUDA 13.0", "Power limit": "700 W"}


def test_a_lowered_power_limit_stands_beside_the_data_sheets(two_cards, monkeypatch):
    monkeypatch.setitem(ANSWERS, "nvidia-smi --query-gpu=power.limit", "500.00, 580.95.05\n700.00, 580.95.05\n")
    found = dict(summary.of_driver(two_cards, answers, lambda name: f"/usr/bin/{name}"))
    assert found["Power limit"] == "500 W, 700 W (700 W by data sheet)"


def test_the_driver_of_a_login_node_is_not_told_as_the_clusters():
    assert summary.of_driver(loader.load("miyabi"), answers, lambda name: f"/usr/bin/{name}") == []


def test_without_a_driver_nothing_is_made_up(two_cards):
    assert summary.of_driver(two_cards, answers, lambda name: None) == []
    assert summary.of_driver(two_cards, lambda command: "[N/A], [N/A]\n", lambda name: "/usr/bin/x") == []
