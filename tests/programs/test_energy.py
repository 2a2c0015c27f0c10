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

#: A small problem of each program.
RUNS = {
    "hpl": ("--backend", "host", "--n", "300", "--nb", "32"),
    "hpcg": ("--nx", "16", "--target-seconds", "0.05"),
    "stencil": ("--backend", "host", "--exchange", "none", "--nx", "32", "--ny", "30", "--nz", "32"),
}


@pytest.mark.parametrize("name", list(RUNS))
def test_joules_of_the_host_are_where_they_are_declared(
    name: str,
    run: Callable[..., Outcome],
    blas: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    env = {**os.environ, "TENKEN_BLAS": blas, "OMP_NUM_THREADS": "2", **sensors(tmp_path)}
    quick = ("--repetitions", "3", "--warmup-seconds", "0", "--energy-seconds", "0.2")
    outcome = run(name, *RUNS[name], *quick, env=env)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    found = {m["name"]: m["value"] for m in (outcome.document or {})["metrics"]}
    assert found["power"] == pytest.approx(300)
    assert found["energy"] > 0 and found["per_watt"] > 0
    read = results.validate(json.loads(json.dumps(outcome.document)), "result.json")
    wrong = list(completeness.points(read, program(name), Request(None, name, subjects=("host",))))
    assert not [message for message in wrong if message.startswith(("power", "energy", "per_watt", "metric power"))]
