"""hpcg for real: the host back end with one rank and with several, its tests of validity, faults, bad input."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.parsers import hpcg as xhpcg
from tests.programs.conftest import Outcome

pytestmark = pytest.mark.build

QUICK = ("--nx", "16", "--target-seconds", "0.05", "--repetitions", "3", "--warmup-seconds", "0")
METRICS = {"dot", "set", "raw", "rating", "spmv", "mg", "setup", "optimise", "iterations", "of_dot"}


@pytest.fixture
def ranks(run_ranks: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """ranks(4, "--nx", "16") on 4 ranks."""
    return lambda count, *arguments: run_ranks("hpcg", count, *arguments)


def values(document: dict[str, Any]) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in document["metrics"]}


def test_one_rank_passes_all_tests_of_validity(run: Callable[..., Outcome], tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    outcome = run("hpcg", *QUICK, "--shuffled", "on", "--hpcg-file", str(report))
    assert outcome.code == 0, outcome.stdout
    document = outcome.document
    assert document is not None and set(values(document)) == METRICS
    checks = {check["what"]: check for check in document["verification"]["checks"]}
    assert len(checks) == 9 and all(check["passed"] for check in checks.values())
    assert checks["spectral test without multigrid, iterations"]["tolerance"] == 12
    assert checks["spectral test with multigrid, iterations"]["tolerance"] == 2
    path = document["path"]
    told = json.loads((tmp_path / "document.json").read_text())["verification"]
    errors = {one["name"]: one["error"] for one in told}
    # the grid has ten diagonal values of its own and the one of all others
    assert (errors["spectral"], errors["spectral_multigrid"], errors["variance"]) == (11, 1, 0)
    assert errors["iterations"] == values(document)["iterations"]
    assert errors["shuffled"] == pytest.approx(path["shuffled.iterations"] / path["iterations_of_set"] - 1)
    assert errors["solution"] == pytest.approx(path["worst_error"] / 1e-9)
    # a product and a cycle have roundings of their own
    assert 0 < errors["symmetry_multigrid"] < errors["symmetry"] < 1 and 0 < errors["residual"] < 1e-13
    assert path["colours"] == "8, 8, 8, 1" or path["colours"].startswith("8, 8, 8")
    assert path["colour_clashes"] == "0" and path["iterations_of_set"] >= 50
    assert path["shuffled.iterations"] <= 1.05 * path["iterations_of_set"]
    assert path["official_time"].startswith("no: an official run takes 1800 s")
    assert path["official_memory"].startswith("no: ")
    # the rating is the raw performance less overheads
    assert values(document)["rating"] < values(document)["raw"]
    # HPCG's own report, parsed like that of a third-party binary
    read = xhpcg.parse(report.read_text())
    assert read.valid and read.ranks == 1 and read.local == (16, 16, 16)
    assert read.number("GFLOP/s Summary::Raw Total") == pytest.approx(values(document)["raw"], rel=1e-4)
    assert read.number(xhpcg.VALID) == pytest.approx(values(document)["rating"], rel=1e-4)
    assert read.number("Linear System Information::Number of Nonzero Terms") == 46**3


def test_columns_that_run_and_columns_listed_solve_the_same(run: Callable[..., Outcome]) -> None:
    """Runs are found where the numbering has a pattern; in the shuffled copy there are hardly any."""
    documents = {}
    for columns in ("runs", "listed"):
        outcome = run("hpcg", *QUICK, "--columns", columns, "--shuffled", "on")
        assert outcome.code == 0 and outcome.document is not None, outcome.stdout
        documents[columns] = outcome.document
        assert outcome.document["path"]["columns"] == columns
    runs, listed = documents["runs"]["path"], documents["listed"]["path"]
    assert float(runs["slots_listing_columns"]) < 0.05 and float(runs["shuffled.slots_listing_columns"]) > 0.9
    assert "slots_listing_columns" not in listed
    assert runs["bytes_of_iteration.vectors"] == listed["bytes_of_iteration.vectors"]
    for phase in ("product", "cycle"):
        assert runs[f"bytes_of_iteration.{phase}"] < 0.8 * listed[f"bytes_of_iteration.{phase}"]
    assert runs["reference_residual"] == listed["reference_residual"]
    assert values(documents["runs"])["iterations"] == values(documents["listed"])["iterations"]


@pytest.mark.parametrize("columns", ["runs", "listed"])
def test_the_number_of_threads_changes_no_bit(run: Callable[..., Outcome], columns: str) -> None:
    errors = set()
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        outcome = run("hpcg", *QUICK, "--nx", "32", "--columns", columns, env=environment)
        assert outcome.code == 0 and outcome.document is not None, outcome.stdout
        checks = outcome.document["verification"]["checks"]
        errors.add((outcome.document["path"]["worst_error"], *(check["error"] for check in checks)))
    assert len(errors) == 1


@pytest.mark.parametrize(("how", "says", "fails"), [
        (("--break", "value"), "verification: symmetry.host: ", "symmetry symmetry_multigrid"),
        (("--break", "colour"), "verification: symmetry_multigrid.host: ", "symmetry_multigrid"),
        (("--break", "nan"), "verification: variance.host: error nan", "variance iterations residual solution"),
        (("--inject-fault", "element"), "verification: residual.host: ", "residual"),
        (("--inject-fault", "sample"), "metric dot.host", ""),
])  # fmt: skip
def test_what_is_broken_on_purpose_fails(
    run: Callable[..., Outcome], tmp_path: Path, how: tuple[str, ...], says: str, fails: str
) -> None:
    outcome = run("hpcg", *QUICK, *how)
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["status"] == "failed"
    assert outcome.document["reason"].startswith(says), outcome.document["reason"]
    told = json.loads((tmp_path / "document.json").read_text())["verification"]
    checks = zip(told, outcome.document["verification"]["checks"], strict=True)
    assert [one["name"] for one, check in checks if not check["passed"]] == fails.split()
    # one bit of the last row of x, which is 1
    assert "element" not in how or outcome.document["path"]["worst_error"] == pytest.approx(2**-12, rel=1e-6)


def test_an_invalid_run_is_invalid_in_the_report_too(run: Callable[..., Outcome], tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    assert run("hpcg", *QUICK, "--break", "value", "--hpcg-file", str(report)).code == 1
    read = xhpcg.parse(report.read_text())
    assert not read.valid and read.text("Final Summary::HPCG result is") == "INVALID."
    assert read.text(f"{xhpcg.SYMMETRY}::Result") == "FAILED"


@pytest.mark.parametrize(("arguments", "message"), [
        (("--nx", "20"), "--nx '20' is invalid; allowed: a multiple of 8 from 16 on"),
        (("--nx", "24", "--ny", "12"), "--ny '12' is invalid; allowed: a multiple of 8 from 16 on"),
        (("--nx", "8"), "--nx '8' is invalid; allowed: 16 to 1024"),
    (("--nx", "16", "--nz", "256"), "--nx '16' is invalid; allowed: sides of at least an eighth of the longest one"),
    (("--nx", "16", "--npx", "2", "--npy", "1", "--npz", "1"),
        "--npx '2' is invalid; allowed: three numbers whose product"),
        (("--nx", "1024"), "--nx '1024' is invalid; allowed: a grid that fits: requested "),
        (("--backend", "cuda"), "--backend 'cuda' is invalid; allowed: host"),
        (("--columns", "some"), "--columns 'some' is invalid; allowed: runs, listed"),
])  # fmt: skip
def test_a_wrong_argument_is_named(run: Callable[..., Outcome], arguments: tuple[str, ...], message: str) -> None:
    outcome = run("hpcg", *arguments)
    assert (outcome.code, outcome.document) == (2, None)
    assert outcome.stderr.startswith(f"hpcg: {message}"), outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_beyond_memory_names_asked_and_free(run: Callable[..., Outcome]) -> None:
    assert re.search(
        r"requested [\d.]+ GiB for 1024 x 1024 x 1024, free [\d.]+ [GM]iB on the host",
        run("hpcg", "--nx", "1024").stderr,
    )


def test_four_ranks_solve_the_same_problem(ranks: Callable[..., Outcome], tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    outcome = ranks(4, *QUICK, "--ranks", "4", "--shuffled", "on", "--hpcg-file", str(report))
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    document = outcome.document
    assert document is not None and document["placement"]["ranks"] == 4
    assert {metric["id"] for metric in document["metrics"]} == {f"{name}.ranks4" for name in METRICS}
    assert all(check["passed"] for check in document["verification"]["checks"])
    assert sorted(document["path"]["rank_grid"].split(" x ")) == ["1", "2", "2"]
    assert document["path"]["exchange"] == "mpi, host memory"
    read = xhpcg.parse(report.read_text())
    assert read.valid and read.ranks == 4
    assert read.number("Linear System Information::Number of Equations") == 4 * 16**3
    assert "DDOT Timing Variations::Max DDOT MPI_Allreduce time" in read.lines
    assert outcome.stdout.count("hpcg: ok") == 1, "one rank speaks"


def test_wrong_halo_values_fail_the_symmetry_test(ranks: Callable[..., Outcome]) -> None:
    outcome = ranks(2, *QUICK, "--break", "halo")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: symmetry.ranks2: ")


@pytest.mark.parametrize(("count", "arguments", "says"), [
        (2, ("--ranks", "4"), "requested 4 ranks, started 2"),
        (3, ("--npx", "2", "--npy", "1", "--npz", "1"), "--npx '2' is invalid; allowed: three numbers whose product"),
    (9, ("--npx", "9", "--npy", "1", "--npz", "1"), "allowed: a grid of ranks with sides of at least an eighth"),
])  # fmt: skip
def test_wrong_ranks_are_refused(ranks: Callable[..., Outcome], count: int, arguments: tuple[str, ...], says: str):
    outcome = ranks(count, *QUICK, *arguments)
    # a launcher that ends the others may lose what a rank printed last
    reason = outcome.document["reason"] if outcome.document else ""
    assert outcome.code in (1, 2) and says in outcome.stdout + outcome.stderr + reason
