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
from tests.programs import protocol
from tests.programs.conftest import Outcome
from tests.programs.test_hpl import blas  # noqa: F401  (a fixture)
from tests.programs.test_hpl_mxp import sensors

pytestmark = pytest.mark.build

#: A small problem of each program, and the metric of the work that its energy pass repeats.
RUNS = {
    "gemm": ("gemm", "--backend host --cases fp64:192 --sustained-seconds 0.2"),
    "hpl": ("hpl", "--backend host --n 1000 --nb 32"),
    "hpl_mxp": ("hpl_mxp", "--backend host --n 768 --nb 384"),
    "hpcg": ("set", "--nx 16 --target-seconds 0.05"),
    # whole blocks of 2 steps
    "stencil": ("alone", "--backend host --exchange none --nx 128 --ny 128 --nz 128 --bt 2 --steps 9"),
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
    outcome = run(name, *RUNS[name][1].split(), *quick, env=env)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    found = {m["name"]: m["value"] for m in (outcome.document or {})["metrics"]}
    assert found["power"] == pytest.approx(300)
    assert found.get("energy", 1) > 0
    read = results.validate(json.loads(json.dumps(outcome.document)), "result.json")
    wrong = list(completeness.points(read, program(name), Request(None, name, subjects=("host",))))
    assert not [message for message in wrong if message.startswith(("power", "energy", "per_watt", "metric power"))]


@pytest.mark.parametrize("name", list(RUNS))
def test_the_time_of_an_energy_pass_is_that_of_its_work(
    name: str,
    build_dir: Path,
    clock_log: Path,
    blas: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Each parallel region takes 1 s, like a kernel in the test of this name in tests/programs/test_protocol.py."""
    works, arguments = RUNS[name]
    more = {"TENKEN_BLAS": blas, "TENKEN_TEST_SLOW": "host", **sensors(tmp_path)}
    case = protocol.Case(name, f"{arguments} --energy-seconds 6", step=protocol.STEP // 10)
    run = protocol.recorded(case, build_dir / "bin", clock_log, tmp_path, **more)
    of_pass, of_work = protocol.energy_and_work(run, works)
    assert of_pass == pytest.approx(of_work, rel=0.1)
