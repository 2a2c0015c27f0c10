"""hpl_mxp for real: solved on the host with emulated formats, with one process and four; wrong factorisations are
detected."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs.conftest import Outcome
from tests.support.catalogue import declared_metrics

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--backend", "host", "--repetitions", "1", "--warmup-seconds", "0", "--n", "512", "--nb", "64")


@pytest.fixture
def mxp(run: Run) -> Run:
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    return lambda *arguments: run("hpl_mxp", *arguments, env=env)


@pytest.fixture
def ranks(run_ranks: Run) -> Run:
    return lambda count, *arguments: run_ranks("hpl_mxp", count, *arguments)


def check(outcome: Outcome, words: str) -> dict:
    assert outcome.document is not None, outcome.stdout + outcome.stderr
    (found,) = [c for c in outcome.document["verification"]["checks"] if words in c["what"]]
    return found


def value(outcome: Outcome, name: str) -> float:
    assert outcome.document is not None, outcome.stdout + outcome.stderr
    (found,) = [m for m in outcome.document["metrics"] if m["name"] == name]
    return found["value"]


RESIDUAL, CONVERGED, FACTORS = "A made anew", "declared maximum", "A - LU"


@pytest.mark.parametrize("matrix", ["mild", "dominant"])
@pytest.mark.parametrize(("low", "most"), [("fp16", 5), ("bf16", 8), ("fp8", 24)])
def test_a_system_is_solved_to_double_precision(mxp: Run, low: str, most: int, matrix: str) -> None:
    outcome = mxp(*QUICK, "--low", low, "--matrix", matrix)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert value(outcome, "residual") < 0.01
    assert 1 <= value(outcome, "refinements") <= most
    assert 0.05 < value(outcome, "factor_error") < 0.7  # not a loose bound
    # each verification has the value that is reported, the second over what FP64 leaves, and a share is in %
    assert check(outcome, RESIDUAL)["error"] == value(outcome, "residual")
    assert check(outcome, CONVERGED)["error"] == pytest.approx(value(outcome, "residual") / 0.01)
    assert check(outcome, FACTORS)["error"] == value(outcome, "factor_error")
    assert check(outcome, "subnormal")["error"] == pytest.approx(value(outcome, "small_share") / 100)
    assert value(outcome, "small_share") < 1 and check(outcome, "beyond the")["error"] == 0
    names = {m["name"] for m in (outcome.document or {})["metrics"]}
    # below 16 bits nothing is called HPL-MxP
    assert ("hpl_mxp" in names) == (low != "fp8") and ("lu_fp8" in names) == (low == "fp8")


def test_operations_are_those_of_the_rules(mxp: Run) -> None:
    """(2/3) N^3 + (3/2) N^2 over the whole time: 89,871,701 for N = 512, by hand."""
    outcome = mxp(*QUICK)
    printed = re.search(r": ([\d.]+) s, [\d.]+ TFLOP/s", outcome.stdout).group(1)  # type: ignore[union-attr]
    step = 10.0 ** -len(printed.partition(".")[2])  # of the printed time: a fast host needs only some milliseconds
    seconds = 89_871_701.3 / (value(outcome, "hpl_mxp") * 1e12)
    assert seconds == pytest.approx(float(printed), abs=0.51 * step)
    # refinement and conversion are included
    parts = {m["at"]["part"]: m["value"] for m in (outcome.document or {})["metrics"] if m["name"] == "phase"}
    assert parts["refine"] + parts["convert"] < seconds


@pytest.mark.parametrize("wrong", ["skip-updates", "skip-update", "zero-l", "lost-tile"])
@pytest.mark.parametrize("matrix", ["mild", "dominant"])
def test_a_wrong_factorisation_fails_by_its_factors(mxp: Run, wrong: str, matrix: str) -> None:
    outcome = mxp(*QUICK, "--matrix", matrix, "--inject-fault", wrong)
    assert outcome.code == 1
    found = check(outcome, FACTORS)
    assert not found["passed"] and found["error"] > 2, found


def test_the_residual_does_not_see_a_dominant_matrix_factorised_without_updates(mxp: Run) -> None:
    """Why factors are verified: by the residual alone this would have passed."""
    outcome = mxp(*QUICK, "--matrix", "dominant", "--inject-fault", "skip-updates")
    assert check(outcome, RESIDUAL)["passed"] and check(outcome, CONVERGED)["passed"]
    assert not check(outcome, FACTORS)["passed"] and outcome.code == 1
    # the benchmark's matrix shows it: refinement does not end within the declared maximum
    outcome = mxp(*QUICK, "--matrix", "mild", "--inject-fault", "skip-updates")
    assert not check(outcome, CONVERGED)["passed"] and not check(outcome, RESIDUAL)["passed"]


@pytest.mark.parametrize("low", ["fp16", "bf16", "fp8"])
def test_an_element_twice_its_bound_away_is_found(mxp: Run, low: str) -> None:
    outcome = mxp(*QUICK, "--low", low, "--inject-fault", "element")
    assert outcome.code == 1
    assert 1 < check(outcome, FACTORS)["error"] < 3.1


def test_more_refinements_than_declared_fail(mxp: Run) -> None:
    outcome = mxp(*QUICK, "--low", "bf16", "--maximum-refinements", "1")
    assert outcome.code == 1
    assert not check(outcome, CONVERGED)["passed"]


@pytest.mark.parametrize("low", ["fp16", "bf16"])
def test_four_ranks_solve_it(ranks: Run, low: str) -> None:
    outcome = ranks(4, *QUICK, "--low", low)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert outcome.document is not None and outcome.document["placement"]["ranks"] == 4
    assert value(outcome, "residual") < 0.01 and value(outcome, "factor_error") < 0.7
    # the same matrix, steps and sums as with one process, so the same error of the factors
    alone = ranks(1, *QUICK, "--low", low)
    assert value(outcome, "factor_error") == pytest.approx(value(alone, "factor_error"), rel=1e-6)
    assert value(outcome, "small_share") == value(alone, "small_share")


def test_four_ranks_find_what_is_wrong(ranks: Run) -> None:
    for wrong in ("skip-update", "lost-tile"):
        outcome = ranks(4, *QUICK, "--inject-fault", wrong)
        assert outcome.code == 1 and not check(outcome, FACTORS)["passed"], wrong
    outcome = ranks(4, *QUICK, "--inject-fault", "element")
    assert outcome.code == 1 and not check(outcome, FACTORS)["passed"]


@pytest.mark.parametrize(("n", "nb"), [(65, 32), (97, 64), (200, 96), (511, 128)])
def test_ugly_sizes(ranks: Run, n: int, nb: int) -> None:
    arguments = ("--backend", "host", "--repetitions", "1", "--warmup-seconds", "0", "--n", str(n), "--nb", str(nb))
    for count in (1, 3):
        outcome = ranks(count, *arguments)
        assert outcome.code == 0, outcome.stdout + outcome.stderr


def sensors(folder: Path) -> dict[str, str]:
    """A node with two sockets of Grace: 180 and 120 W, and a module of 700 W."""
    for number, (text, watts) in enumerate(
        [("Grace Power Socket 0", 180), ("Module Power Socket 0", 700), ("Grace Power Socket 1", 120)]
    ):
        device = folder / f"sys/class/hwmon/hwmon{number}/device"
        device.mkdir(parents=True)
        (device / "power1_oem_info").write_text(f"{text}\n")
        (device / "power1_average").write_text(f"{watts * 1_000_000}\n")
    return {"TENKEN_HOST_SENSORS": str(folder)}


def test_the_energy_of_a_solution_on_the_host(run_ranks: Run, tmp_path: Path) -> None:
    """Two ranks share the sensors of their node: 300 W, not 600, times the seconds of one solution."""
    quick = (*QUICK, "--energy-seconds", "0.2")
    outcome = run_ranks("hpl_mxp", 2, *quick, **sensors(tmp_path))
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    watts, joules, per_watt = (value(outcome, name) for name in ("power", "energy", "per_watt"))
    assert watts == pytest.approx(300)
    # (2/3) N^3 + (3/2) N^2 for N = 512, by hand: 89,871,701
    assert per_watt * joules == pytest.approx(89_871_701.3 / 1e9, rel=1e-6)
    path = (outcome.document or {})["path"]
    source = {key: v for key, v in path.items() if key.startswith("energy.") and key.endswith(".source")}
    assert list(source.values()) == ["hwmon Grace Power Socket 0 + Grace Power Socket 1"]


def test_without_a_sensor_no_energy_is_said(mxp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEN_HOST_SENSORS", str(tmp_path))
    outcome = mxp(*QUICK, "--energy-seconds", "0.2")
    assert not {"power", "energy", "per_watt"} & {m["name"] for m in (outcome.document or {})["metrics"]}


def test_wrong_sizes_are_told(mxp: Run) -> None:
    for arguments, words in {("--nb", "33"): "a multiple of 32", ("--n", "64"): "above NB"}.items():
        outcome = mxp(*QUICK, *arguments)
        assert outcome.code == 2 and words in outcome.stderr


def test_metrics_are_those_of_metrics_yaml(mxp: Run) -> None:
    declared = declared_metrics("hpl_mxp")
    outcome = mxp(*QUICK)
    names = {m["name"] for m in (outcome.document or {})["metrics"]}
    needed = {name for name, metric in declared.items() if not metric["optional"]}
    assert needed <= names <= set(declared)
