"""Energy on the host with sensors that are files: the figures of each program are at the points that it declares."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenken.judge import completeness
from tenken.model import result as results
from tenken.model.catalogue import program
from tenken.model.request import Request
from tests.programs.conftest import Outcome
from tests.programs.test_hpl import blas  # noqa: F401  (a fixture)
from tests.programs.test_hpl_mxp import sensors

pytestmark = pytest.mark.build

#: A small problem of each program, and the rate of the work that its energy pass repeats.
RUNS = {
    "gemm": ("gemm", "--backend", "host", "--cases", "fp64:32", "--sustained-seconds", "0.2"),
    "hpl": ("hpl", "--backend", "host", "--n", "300", "--nb", "32"),
    "hpcg": ("raw", "--nx", "16", "--target-seconds", "0.05"),
    "stencil": ("alone", "--backend", "host", "--exchange", "none", "--nx", "32", "--ny", "30", "--nz", "32"),
}


@pytest.mark.parametrize("name", list(RUNS))
def test_joules_of_the_host_are_where_they_are_declared(
    name: str,
    run: Callable[..., Outcome],
    blas: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    env = {**os.environ, "TENKEN_BLAS": blas, "OMP_NUM_THREADS": "1", **sensors(tmp_path)}
    quick = ("--repetitions", "3", "--warmup-seconds", "0", "--energy-seconds", "0.2")
    rate, *arguments = RUNS[name]
    outcome = run(name, *arguments, *quick, env=env)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    # in 10^9 of a unit
    found = {
        m["name"]: m["value"] * (1e3 if m["unit"].startswith("T") else 1) for m in (outcome.document or {})["metrics"]
    }
    assert found["power"] == pytest.approx(300)
    assert found[rate] / 8 < 300 * found["per_watt"] < 8 * found[rate], "on a busy machine"
    assert found.get("energy", 1) > 0
    read = results.validate(json.loads(json.dumps(outcome.document)), "result.json")
    wrong = list(completeness.points(read, program(name), Request(None, name, subjects=("host",))))
    assert not [message for message in wrong if message.startswith(("power", "energy", "per_watt", "metric power"))]
