"""Specific to stream: sizes, back ends, counting of bytes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from tenken.model import result
from tenken.model.catalogue import program
from tests.programs.conftest import Outcome
from tests.support.judging import Expectation, judge

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--repetitions", "3", "--warmup-seconds", "0")
KERNELS = ["copy", "scale", "add", "triad", "dot"]


def test_default_size_is_four_caches_and_64_mib(run: Run) -> None:
    document = run("stream", *QUICK).document
    assert document is not None
    cache = document["host"]["last_level_cache_bytes"]
    wanted = max(4 * cache, 64 << 20) if cache else 512 << 20
    assert document["parameters"]["array_bytes"] == wanted
    assert [metric["id"] for metric in document["metrics"]] == [f"{kernel}.host" for kernel in KERNELS]
    assert all(metric["unit"] == "GB/s" and metric["clock"] == "host" for metric in document["metrics"])
    assert all(set(limit) == {"unknown"} for limit in document["limits"].values())


@pytest.mark.parametrize("size", ["0", "-1", "7", "12Q", "1.5Gi", "", "64K"])
def test_a_size_that_is_none(run: Run, size: str) -> None:
    outcome = run("stream", "--array-bytes", size)
    assert outcome.code == 2 and outcome.document is None
    assert outcome.stderr.startswith(f"stream: --array-bytes '{size}' is invalid; allowed: ")


def test_a_size_within_the_caches_is_refused(run: Run) -> None:
    outcome = run("stream", "--array-bytes", "8")
    if "last-level" not in outcome.stderr:
        pytest.skip("this machine does not report its caches")
    assert outcome.code == 2
    wanted = r"--array-bytes '8' is invalid; allowed: at least .*, 4 x the last-level cache of "
    assert re.search(wanted, outcome.stderr)


def test_a_size_beyond_memory_is_refused_with_asked_and_free(run: Run) -> None:
    outcome = run("stream", "--array-bytes", "1Ti")
    assert outcome.code == 2
    assert re.search(r"at most .* each: requested 3 TiB for three arrays, free .*iB\n", outcome.stderr)


def test_a_size_is_rounded_down_to_whole_elements(run: Run) -> None:
    size = 4 * 24 << 20  # caches of 24 MiB: conftest.py
    document = run("stream", *QUICK, "--array-bytes", str(size + 13)).document
    assert document is not None
    assert document["parameters"]["array_bytes"] == size + 8


def test_an_unknown_backend_is_refused_with_those_built(run: Run) -> None:
    outcome = run("stream", "--backend", "abacus")
    assert outcome.code == 2
    assert outcome.stderr == "stream: --backend 'abacus' is invalid; allowed: host, openacc\n"


@pytest.mark.parametrize("fault", ["none", "element"])
def test_openacc_runs_and_verifies(run: Run, fault: str) -> None:
    outcome = run("stream", "--backend", "openacc", *QUICK, "--inject-fault", fault)
    assert outcome.code == (0 if fault == "none" else 1)
    document = outcome.document
    assert document is not None
    assert document["path"]["backend"] == "openacc"
    assert document["build"]["backends"] == ["host", "openacc"]
    assert document["path"]["openacc_device"] in ("host", "device")


def missing_of(document: dict[str, Any], device: str, asked: str) -> list[str]:
    """What a judgement misses in the OpenACC `document` if it ran on `device` and `asked` was requested."""
    raw = copy.deepcopy(document)
    raw["path"]["openacc_device"] = device
    if device == "device":
        for metric in raw["metrics"]:
            metric |= {"id": f"{metric['name']}.gpu0", "subject": {"gpu": 0}}
        raw["limits"] = {name.replace(".host", ".gpu0"): limit for name, limit in raw["limits"].items()}
    expect = Expectation(subjects=(asked,), parameters={"backend": "openacc"})
    judged = judge(result.validate(raw, "result.json"), program("stream"), expect, lambda metric: None, 0)
    return [finding.message for finding in judged.findings if "is missing" in finding.message]


def test_openacc_is_judged_by_the_device_on_which_it_ran(run: Run) -> None:
    """gcc may offload or not, other compilers must; OpenACC lists no GPU."""
    document = run("stream", "--backend", "openacc", *QUICK).document
    assert document is not None
    assert not missing_of(document, "host", "host")
    assert not missing_of(document, "device", "host") and not missing_of(document, "device", "gpu")
    assert len(missing_of(document, "host", "gpu")) == len(KERNELS)
    without = {**document, "metrics": document["metrics"][1:]}
    without["limits"] = {name: limit for name, limit in document["limits"].items() if not name.startswith("copy")}
    assert len(missing_of(without, "device", "gpu")) == 1
