"""What is stream's own: sizes, back ends, counting of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.programs.conftest import Outcome

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
    default = run("stream", *QUICK).document
    assert default is not None
    size = default["parameters"]["array_bytes"]
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
