"""The table of faults of docs/sensitivity.md: which faults are detected, on two checks of the kept run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tenken.model.verdicts import FAIL
from tools import faults, sensitivity


@cache
def seen() -> dict[tuple[str, str], bool]:
    """By check and fault."""
    of = {"StreamCuda", "StreamHost", "P2P", "StorageMapHost", "MpiHost"}
    runs = {one.base_check: one for one in faults.runs() if one.base_check in of}
    return {
        (check, f"{fault.of}: {fault.name}"): found
        for check, record in runs.items()
        for fault, found in faults.told(record)
    }


def test_of_a_gpu_every_fault_is_seen() -> None:
    found = {name for (check, name), one in seen().items() if check == "StreamCuda" and not one}
    assert found == set()
    assert len([1 for check, _ in seen() if check == "StreamCuda"]) == 16


@pytest.mark.parametrize("check", ["HpcgCuda", "HpcgGpus", "HpcgHost", "Himeno", "HimenoHost"])
def test_operations_counted_almost_twice_are_seen(check: str) -> None:
    """Within what the memory of the same run allows: HPCG at half of its floor, Himeno on a host."""
    record = next(one for one in faults.runs() if one.base_check == check)
    assert record.result is not None
    for counts in (1.9, 0.95):
        result = faults.scaled("operations", counts=counts)(record.result)
        assert result is not None
        found = sensitivity.judgement(record, result)
        assert found.verdict == FAIL and "the program miscounts" in found.message()
    assert sensitivity.judgement(record, record.result).verdict != FAIL


def test_a_set_of_hpcg_has_fifty_iterations_at_least() -> None:
    """In the kept run 48 reach the residual of the reference's 50."""
    (record,) = [one for one in sensitivity.runs(("h100-one-acceptance",), hosts=True) if one.base_check == "HpcgHost"]
    assert record.result is not None
    assert next(one for one in record.result.metrics if one.name == "iterations").value < 50
    assert "miscounts" not in sensitivity.judgement(record, record.result).message()


def test_an_nvlink_that_fails_as_the_run_ends_is_seen() -> None:
    record = next(one for one in faults.runs() if one.base_check == "P2P")
    assert record.result is not None
    lost = faults.health(record.result, lambda one: replace(one, after=replace(one.after, nvlinks_active=17)))
    found = sensitivity.judgement(record, lost)
    assert found.verdict == FAIL and "17 NVLinks were active during the run, 18 before it" in found.message()


def test_faults_of_links_and_files_are_seen() -> None:
    assert seen()["P2P", "links: 17 of 18 NVLinks of GPU 1"]
    assert seen()["StorageMapHost", "files: a cold read from the cache"]
    assert seen()["StorageMapHost", "files: a write without fsync"]


@pytest.mark.parametrize("check", ["StreamHost", "StorageMapHost", "MpiHost"])
def test_bytes_counted_wrong_are_seen_where_nothing_bounds_the_rate(check: str) -> None:
    names = ("GiB for GB: all rates", "iterations, bytes: bytes x 2", "iterations, bytes: bytes x 0.5")
    assert all(seen()[check, name] for name in names)


def test_of_a_guests_host_a_clock_wrong_by_a_factor_of_two_is_not_seen() -> None:
    """If it is detected, its row is removed from the table of docs/sensitivity.md."""
    missed = {name for (check, name), one in seen().items() if check == "StreamHost" and not one}
    assert missed == {"iterations, bytes: times x 2", "iterations, bytes: times x 0.5"}
    assert seen()["StreamHost", "x 1000, / 1000: times x 1000"] and seen()["StreamHost", "threads: all on one CPU"]
    assert seen()["StreamHost", "iterations, bytes: times x 10"]
    assert seen()["StreamHost", "iterations, bytes: times x 0.1"]


def test_few_faults_of_hosts_are_missed() -> None:
    """Nine more are missed on GPUs, all of files. The bar is 18 % of all 567, as 60 of 332."""
    hosts = [one for one in faults.runs() if one.result and not one.result.devices]
    found = [one for record in hosts for _, one in faults.told(record)]
    assert len(found) == 206 and found.count(False) <= 59
