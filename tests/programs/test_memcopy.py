"""Specific to memcopy: sizes, trials, kinds of copies. Its GPU part needs a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.programs.conftest import Outcome
from tests.support.judging import incomplete

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--repetitions", "3", "--warmup-seconds", "0")


@pytest.fixture
def size(run: Run) -> str:
    """Array sizes in bytes that the caches of this machine allow."""
    refused = run("memcopy", "--bytes", "4096")
    least = re.search(r"at least ([\d.]+) ([MG])iB", refused.stderr)
    if least is None:
        return "64Mi"
    return str(int(float(least[1]) * {"M": 1 << 20, "G": 1 << 30}[least[2]] * 1.01))


def test_arrays_below_four_caches_are_refused(run: Run) -> None:
    refused = run("memcopy", *QUICK, "--bytes", "95Mi")
    assert refused.code == 2 and re.search(r"at least 96(\.0)? MiB", refused.stderr), refused.stderr


def test_every_repetition_of_each_copy_is_kept(run: Run, size: str) -> None:
    document = run("memcopy", *QUICK, "--bytes", size).document
    assert document is not None and document["status"] == "ok"
    assert [metric["id"] for metric in document["metrics"]] == ["host_pageable.host", "host_pageable_unoptimised.host"]
    assert all(metric["count"] == 3 and metric["clock"] == "host" for metric in document["metrics"])
    assert document["parameters"]["bytes"] % 8 == 0
    assert len(document["verification"]["checks"]) == 2


def test_trials_are_told_apart(run: Run, size: str) -> None:
    document = run("memcopy", *QUICK, "--bytes", size, "--trials", "2", "--copies", "host_pageable").document
    assert document is not None
    assert [metric["id"] for metric in document["metrics"]] == [
        "host_pageable.host.trial=1",
        "host_pageable.host.trial=2",
    ]
    assert [metric["at"] for metric in document["metrics"]] == [{"trial": 1}, {"trial": 2}]
    assert incomplete(document) == []
    lost = {**document, "metrics": document["metrics"][:1]}
    assert "metric host_pageable of host: trial 2 is missing" in incomplete(lost)


def test_the_published_count_is_the_default(run: Run) -> None:
    assert re.search(r"--repetitions N\n.*default: 200\n", run("memcopy", "--help").stdout)


def test_a_flipped_element_is_noticed(run: Run, size: str) -> None:
    outcome = run("memcopy", *QUICK, "--bytes", size, "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert re.search(
        r"host_copy\.host\.metric=host_pageable\.trial=1: .* \(element \d+, value 2\.", outcome.document["reason"]
    )


@pytest.mark.parametrize("copies", ["", "kernel", "host_pageable,host_pageable", "host", "host_pageable;"])
def test_copies_that_are_none(run: Run, copies: str) -> None:
    outcome = run("memcopy", "--copies", copies)
    assert outcome.code == 2 and outcome.document is None
    assert outcome.stderr.startswith(f"memcopy: --copies '{copies}' is invalid; allowed: ")


def test_a_size_beyond_memory_is_refused_with_asked_and_free(run: Run) -> None:
    outcome = run("memcopy", "--bytes", "10T")
    assert outcome.code == 2
    assert re.search(r"requested 18.19 TiB of host memory for two arrays, free .*iB\n", outcome.stderr)
