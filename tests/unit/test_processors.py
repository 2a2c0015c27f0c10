"""Statistical results as other processors round them: with their kernels of OpenBLAS, and numpy without its wide
vectors."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tenken.paths import ROOT
from tests.unit.campaign.test_statistics import asked_of

pytestmark = pytest.mark.processors

#: What numpy chooses from for this processor, as its NPY_DISABLE_CPU_FEATURES names them.
DISPATCHED = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
KERNELS = ["Haswell", "SkylakeX"]
#: Tests of exact sets in random numbers: those that multiply matrices, and others.
SEARCHES = ("tests/unit/campaign/test_statistics.py",)
OTHERS = (
    "tests/unit/campaign/test_findings.py", "tests/unit/campaign/test_tournament.py",
    "tests/unit/reports/detect/test_detector.py", "tests/unit/reports/detect/test_fleet_and_grouping.py",
    "tests/unit/reports/detect/test_order.py", "tests/unit/reports/detect/test_state.py",
    "tests/unit/reports/test_energy.py", "tests/unit/reports/test_intervals.py",
    "tests/unit/reports/test_node_trend.py", "tests/unit/reports/test_parts.py",
    "tests/unit/reports/test_siblings.py", "tests/unit/test_oracle_detector.py",
)  # fmt: skip
#: Tests that draw random numbers, none of which is decided by rounding.
NOT_ROUNDED = {
    "tests/unit/campaign/test_runner.py": "when a campaign is killed",
    "tests/unit/core/test_document.py": "numbers to sort",
    "tests/unit/node/test_check.py": "readings of a node, judged without numpy",
    "tests/unit/reports/test_causes.py": "nights and nodes of events, with faults far above the noise",
    "tests/unit/reports/test_gate.py": "whole nights of the detector, with faults far above the noise",
    "tests/unit/reports/test_joined.py": "findings of the detector joined, with faults far above the noise",
    "tests/unit/reports/test_mornings.py": "months of nights, with faults far above the noise",
    "tests/unit/reports/test_page.py": "samples of a page",
    "tests/unit/reports/test_slim.py": "samples of records",
    "tests/unit/reports/test_third_party.py": "results of a program",
    "tests/unit/reports/test_void_runs.py": "figures of an archive, compared with themselves",
}


def of_kernels(kernels: str, restricted: bool) -> dict[str, str]:
    """An environment in which numpy computes this way. Skips if the processor has no such kernels."""
    if platform.machine() != "x86_64":
        pytest.skip("OpenBLAS has these kernels for x86_64")
    if kernels == "SkylakeX" and "avx512vl" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor lacks AVX-512, which these kernels of OpenBLAS use without asking")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NPY_", "OPENBLAS_"))}
    env |= {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": "1"}
    return {**env, "NPY_DISABLE_CPU_FEATURES": DISPATCHED} if restricted else env


def test_every_test_that_draws_numbers_is_here() -> None:
    drawing = re.compile(r"np\.random|\brandom\.(?:Random|seed|gauss)\b")
    files = {str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "unit").rglob("test_*.py")
             if drawing.search(file.read_text())} - {str(Path(__file__).relative_to(ROOT))}  # fmt: skip
    assert files == {*SEARCHES, *OTHERS, *NOT_ROUNDED}


@cache
def asked() -> str:
    """For all tests and results of some searches."""
    return hashlib.sha256(repr([asked_of(seed, 0) for seed in range(20, 28)]).encode()).hexdigest()


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_search_asks_the_same_on_every_processor(kernels: str, restricted: bool) -> None:
    code = (
        "import numpy as np; from tests.unit import test_processors as t;"
        "print(t.asked(), *np.show_config(mode='dicts')['SIMD Extensions'].get('found', []))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=of_kernels(kernels, restricted), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.split() == [asked(), *([] if restricted else DISPATCHED.split())]


@pytest.mark.slow
def test_what_is_statistical_holds_on_other_processors() -> None:
    """All but the searches, whose tests and results are compared bit by bit above."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *OTHERS],
        cwd=ROOT, env=of_kernels("Haswell", True), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
