"""The findings of the storage checks, each seen to come and to stay away."""

from __future__ import annotations

from typing import Any

import pytest

from checks import file_relations
from checks.machine import Machine
from systems import loader
from tenken import document, verdict
from tenken.catalogue import program as catalogue
from tests.support.documents import gpu_document, metric

GPU = {"gpu": 0}


def document_of(program: str, *metrics: dict[str, Any], **path: Any) -> document.Document:
    raw = gpu_document(program, {})
    raw["metrics"] = list(metrics)
    raw["limits"] = {one["id"]: {"unknown": "a ratio"} for one in metrics}
    raw["path"] = path
    return document.validate(raw, "result.json")


def ratio(name: str, value: float, subject: dict[str, int] | None = None, **at: Any) -> dict[str, Any]:
    return metric(name, subject or GPU, [value] * 3, unit="1", at=at)


def test_a_median_is_held_against_a_bound_by_its_confidence_interval() -> None:
    assert file_relations.surely_at_most([1.0, 3.0, 2.0]) == 3.0
    # ranks 51 and 60 of 100 enclose the median with 95 % confidence
    assert file_relations.surely_at_most([i / 100 for i in range(100)]) == 0.6
    noisy = metric("adaptive_over_best", GPU, [0.8, 0.9, 0.94, 0.99, 1.2], unit="1", at={"bytes": 4096})
    steady = metric("adaptive_over_best", GPU, [0.90] * 5, unit="1", at={"bytes": 65536})
    (miss,) = file_relations.bad_choices(document_of("storage_map", noisy, steady))
    assert "bytes 65536" in miss.message and "in 5 rounds, surely at most 0.9" in miss.message


def test_a_hyperslab_layout_that_stays_behind_on_a_gpu_is_named() -> None:
    def found(value: float, subject: dict[str, int] | None = None) -> list[verdict.Finding]:
        one = ratio("write_hyperslab_over_asis", value, subject, method="posix", particles=4194304)
        return file_relations.slow_layouts(document_of("snapshot_io", one))

    assert found(0.91) == [] and found(0.1, {"host": 0}) == []
    (miss,) = found(0.5)
    assert miss.verdict == "FAIL" and miss.metric and miss.miss == pytest.approx(4 / 9)
    assert "GPU 0: write_hyperslab_over_asis (method posix, particles 4194304) = 0.5: " in miss.message
    assert miss.message.endswith("surely at most 0.5); at least 0.9 is wanted")


def test_a_bad_choice_is_named_for_its_size_and_situation() -> None:
    good = ratio("adaptive_over_best", 0.96, bytes=4096, situation="write")
    bad = ratio("adaptive_over_best", 0.90, bytes=4096, situation="read_cold")
    (miss,) = file_relations.bad_choices(document_of("storage_map", good, bad))
    assert "(bytes 4096, situation read_cold) = 0.9" in miss.message and miss.bound == 0.95


def test_the_fastest_read_of_each_gpu_counts() -> None:
    ways = [ratio("pinned_read_over_least", value, way=f"posix_{i}mi_8") for i, value in enumerate((0.4, 0.79, 0.6), 1)]
    (miss,) = file_relations.slow_reads(document_of("storage_map", *ways))
    assert "way posix_2mi_8" in miss.message and miss.value == 0.79
    assert file_relations.slow_reads(document_of("storage_map", *ways, ratio("pinned_read_over_least", 0.8))) == []


def test_gds_that_is_promised_and_not_done_is_a_failure_and_no_number() -> None:
    compatible = {"cufile": "compatibility mode, no GPUDirect Storage", "cufile_probe": "nvidia-fs is not loaded"}
    slow = document_of("storage_map", ratio("adaptive", 1.0), **compatible)
    assert file_relations.claimed_gds(slow, promised=False) == []
    (miss,) = file_relations.claimed_gds(slow, promised=True)
    assert "compatibility mode" in miss.message and "nvidia-fs is not loaded" in miss.message
    assert "promises 'gds'" in miss.message
    straight = document_of("storage_map", ratio("adaptive", 1.0), cufile="GPUDirect Storage")
    assert file_relations.claimed_gds(straight, promised=True) == []


@pytest.mark.parametrize(
    ("name", "value", "at", "good"),
    [
        ("snapshot_io.write_gds_over_posix", 1.4, {"layout": "asis", "particles": 262144}, True),
        ("snapshot_io.write_gds_over_posix", 0.7, {"layout": "asis", "particles": 262144}, False),
        ("snapshot_io.write_gds_over_posix", 0.7, {"layout": "asis", "particles": 16384}, True),
        ("snapshot_io.read_gds_over_posix", 0.8, {"layout": "asis", "particles": 262144}, True),
        ("snapshot_io.read_gds_over_posix", 1.2, {"layout": "asis", "particles": 262144}, False),
        ("snapshot_io.write_hyperslab_over_asis", 0.1, {"method": "hdf5_gds", "particles": 16384}, True),
        ("storage_map.copy_over_cufile", 1.5, {"bytes": 1048576, "situation": "write"}, True),
        ("storage_map.copy_over_cufile", 0.5, {"bytes": 1048576, "situation": "write"}, False),
        ("storage_map.copy_over_cufile", 0.5, {"bytes": 16777216, "situation": "write"}, True),
        ("storage_map.adaptive_over_cufile", 4.33, {"bytes": 4096, "situation": "write"}, True),
        ("storage_map.adaptive_over_cufile", 0.8, {"bytes": 4096, "situation": "write"}, False),
    ],
)
def test_the_published_relations_bind_on_pegasus(name: str, value: float, at: dict[str, Any], good: bool) -> None:
    system = loader.load("pegasus")
    machine = Machine(system, system.partition("gpu"), system.environments["cuda"])
    program, _, metric_name = name.partition(".")
    one = ratio(metric_name, value, **at)
    one["statistic"] = catalogue(program).metrics[metric_name].statistic
    made = document_of(program, one)
    reference = machine.reference_lookup(made)(made.metrics[0])
    assert reference is not None and reference.source.startswith("JHPCN report 2023")
    inside = (reference.low is None or value >= reference.low) and (reference.high is None or value <= reference.high)
    assert inside == good
