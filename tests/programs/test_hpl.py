"""hpl for real: LAPACK and the GPU algorithm on the host, with one process and with grids of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs.conftest import ROOT, Outcome

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--backend", "host", "--repetitions", "1", "--warmup-seconds", "0")
SMALL = (*QUICK, "--n", "300", "--nb", "32")


@pytest.fixture(scope="session")
def blas() -> str:
    return blas_library()


def blas_library() -> str:
    """The BLAS that requirements.lock brings, or the one that TENKEN_BLAS names."""
    named = os.environ.get("TENKEN_BLAS")
    if named:
        return named
    try:
        import scipy_openblas32
    except ImportError:
        pytest.fail("these tests need the wheel scipy-openblas32 of requirements.lock, or a BLAS in TENKEN_BLAS")
    return str(Path(scipy_openblas32.get_lib_dir()) / f"lib{scipy_openblas32.get_library()}.so")


@pytest.fixture
def hpl(run: Run, blas: str) -> Run:
    env = {**os.environ, "TENKEN_BLAS": blas, "OMP_NUM_THREADS": "2"}
    return lambda *arguments, **more: run("hpl", *arguments, env={**env, **more})


@pytest.fixture
def ranks(run_ranks: Run, blas: str) -> Run:
    return lambda count, *arguments: run_ranks("hpl", count, *arguments, TENKEN_BLAS=blas)


def metrics(outcome: Outcome, name: str) -> list[dict]:
    assert outcome.document is not None, outcome.stdout + outcome.stderr
    return [m for m in outcome.document["metrics"] if m["name"] == name]


@pytest.mark.parametrize("algorithm", ["lapack", "blocks"])
def test_a_system_is_solved_counted_and_verified(hpl: Run, algorithm: str) -> None:
    outcome = hpl(*SMALL, "--algorithm", algorithm, "--repetitions", "3")
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    (rate,) = metrics(outcome, "hpl")
    assert rate["id"] == "hpl.host.grid=1x1.n=300.nb=32" and rate["count"] == 3 and rate["unit"] == "TFLOP/s"
    (residual,) = metrics(outcome, "residual")
    assert 0 < residual["value"] < 1
    assert outcome.document is not None
    checks = outcome.document["verification"]["checks"]
    assert len(checks) == 3 and all(c["tolerance"] == 16 and c["passed"] for c in checks)
    assert len(outcome.document["path"]["norms"]) == 3
    limit = outcome.document["limits"][rate["id"]]
    basis = {
        "blocks": "measured: DGEMM with K = NB in this run",
        "lapack": "LAPACK chooses its own block size, or the systems are small",
    }
    assert basis[algorithm] in limit.values()
    lines = re.findall(r"^W\S+ +300 +32 +1 +1 +([\d.]+) +([\d.e+-]+)$", outcome.stdout, re.M)
    assert len(lines) == 3 and outcome.stdout.count("PASSED") == 3
    # the rate in the printed line is the sample, by HPL's count
    assert float(lines[0][1]) == pytest.approx(rate["samples"][0] * 1e3, rel=1e-3)


def test_loading_a_blas_leaves_each_thread_its_core(hpl: Run) -> None:
    """Otherwise the main thread, unbound for the library's sake, would share a core with the second one half of the
    time."""
    for _ in range(5):
        placement = hpl(*SMALL, OMP_PROC_BIND="close", OMP_PLACES="cores").document["placement"]
        assert len(set(placement["thread_cpus"])) == min(2, placement["allowed_cores"])


@pytest.mark.parametrize("nb", [1, 7, 64, 300, 512])
@pytest.mark.parametrize("n", [1, 2, 8, 63, 65, 129])
def test_ugly_sizes(hpl: Run, n: int, nb: int) -> None:
    outcome = hpl(*QUICK, "--algorithm", "blocks", "--n", str(n), "--nb", str(nb))
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert metrics(outcome, "residual")[0]["value"] < 16


def test_a_sweep_compares_every_solution_with_the_library(hpl: Run) -> None:
    outcome = hpl(*QUICK, "--algorithm", "blocks", "--sweep", "40", "--sweep-max-n", "200")
    assert outcome.code == 0, outcome.stdout
    assert len(metrics(outcome, "difference")) == len(metrics(outcome, "residual")) == 40
    assert outcome.stdout.count("PASSED") == 80


def test_a_solution_unlike_the_librarys_fails_alone(hpl: Run) -> None:
    """Its last element is off by 2^-12 of itself."""
    one = ("--algorithm", "blocks", "--sweep", "1", "--sweep-max-n", "8", "--inject-fault", "element")
    outcome = hpl(*QUICK, *one, TENKEN_TEST_SPOILED="library_difference")
    assert outcome.code == 1 and outcome.document is not None
    (wrong,) = [check for check in outcome.document["verification"]["checks"] if not check["passed"]]
    assert outcome.document["reason"].startswith("verification: library_difference.")
    assert 1e-6 < wrong["error"] <= 2**-12 * (1 + 1e-6) and metrics(outcome, "difference")[0]["value"] == wrong["error"]


@pytest.mark.parametrize("grid", ["1x2", "2x1", "2x2", "1x4", "4x1"])
def test_the_same_matrix_is_solved_on_every_grid(ranks: Run, grid: str) -> None:
    p, q = map(int, grid.split("x"))
    count = p * q
    outcome = ranks(count, *QUICK, "--grid", grid, "--n", "157", "--nb", "16", "--map", "row")
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert outcome.document is not None and outcome.document["placement"]["ranks"] == count
    # the norms of A and b equal those of one process: the matrix does not depend on the grid
    alone = ranks(1, *QUICK, "--n", "157", "--nb", "16", "--algorithm", "blocks")
    assert alone.document is not None

    def norms(outcome: Outcome) -> list[float]:
        assert outcome.document is not None
        first = outcome.document["path"]["norms"][0]
        return [first["a"], first["b"]]

    assert norms(outcome) == pytest.approx(norms(alone), rel=1e-12)


def test_four_ranks_solve_what_lapack_solves(ranks: Run) -> None:
    outcome = ranks(4, *QUICK, "--sweep", "12", "--sweep-max-n", "120")
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    grids = {m["at"]["grid"] for m in metrics(outcome, "difference")}
    assert grids == {"1x4", "2x2", "4x1"}
    assert all(m["value"] < 1e-6 for m in metrics(outcome, "difference"))


@pytest.mark.parametrize("algorithm", ["lapack", "blocks"])
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (("--inject-fault", "element"), "above the tolerance 16"),
        (("--inject-fault", "sample"), "is not finite in sample 0"),
        (("--inject-fault", "matrix-nan"), "above the tolerance 16"),
        (("--inject-fault", "matrix-zero-column"), "the matrix is singular: no pivot in column 150"),
    ],
)
def test_a_fault_fails_the_run(hpl: Run, algorithm: str, fault: tuple[str, str], says: str) -> None:
    outcome = hpl(*SMALL, "--algorithm", algorithm, *fault)
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["status"] == "failed" and says in outcome.document["reason"]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (("--inject-fault", "element"), "above the tolerance 16"),
        (("--inject-fault", "matrix-nan"), "above the tolerance 16"),
        (("--inject-fault", "matrix-zero-column"), "the matrix is singular: no pivot in column 100"),
    ],
)
def test_a_fault_in_one_of_four_ranks_fails_the_run(ranks: Run, fault: tuple[str, str], says: str) -> None:
    outcome = ranks(4, *QUICK, "--grid", "2x2", "--n", "200", "--nb", "16", *fault)
    assert outcome.code == 1 and outcome.document is not None
    assert says in outcome.document["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--n", "0"), "--n '0' is invalid; allowed: auto, or a whole number from 1 to 4000000"),
        (("--n", "many"), "--n 'many' is invalid; allowed: auto, or a whole number"),
        (("--nb", "-1"), "--nb '-1' is invalid; allowed: auto, or a whole number from 1 to 4096"),
        (("--grid", "2"), "--grid '2' is invalid; allowed: auto, or PxQ such as 2x4"),
        (("--grid", "2x2"), "--grid '2x2' is invalid; allowed: P x Q equal to the number of ranks, which is 1"),
        (("--n", "900000"), "--n '900000' is invalid; allowed: what fits into memory: requested "),
        (("--dat", "nowhere.dat"), "--dat 'nowhere.dat' is invalid; allowed: a file that can be read"),
    ],
)
def test_a_wrong_argument_is_named(hpl: Run, arguments: tuple[str, ...], message: str) -> None:
    outcome = hpl("--backend", "host", *arguments)
    assert (outcome.code, outcome.document) == (2, None)
    assert outcome.stderr.startswith(f"hpl: {message}"), outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_asked_and_free_memory_are_named(hpl: Run) -> None:
    said = hpl("--backend", "host", "--n", "900000", "--nb", "128").stderr
    assert re.search(r"requested 5\.\d+ TiB|requested 6\d\d\d\.\d+ GiB", said) and re.search(
        r"free [\d.]+ [KMG]iB", said
    ), said


def test_what_fits_is_chosen(hpl: Run) -> None:
    outcome = hpl(*QUICK, "--nb", "64", "--fill", "0.01")
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert metrics(outcome, "hpl")[0]["at"]["n"] % 64 == 0


def test_a_block_is_chosen_by_a_probe(hpl: Run) -> None:
    outcome = hpl(*QUICK, "--n", "600", "--algorithm", "blocks")
    assert outcome.code == 0 and outcome.document is not None
    path = outcome.document["path"]
    rates = {key: value for key, value in path.items() if key.startswith("probed_tflops.nb")}
    best = max(rates, key=lambda key: rates[key])
    assert len(rates) == 2 and best == f"probed_tflops.nb{metrics(outcome, 'hpl')[0]['at']['nb']}"


DAT = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
{file}      output file name (if any)
{device}            device out (6=stdout,7=stderr,file)
2            # of problems sizes (N)
50 {n}       Ns
1            # of NBs
16           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
2            # of process grids (P x Q)
1 2          Ps
2 1          Qs
16.0         threshold
"""


def test_hpl_dat_is_run_and_answered_in_its_own_lines(ranks: Run, tmp_path: Path) -> None:
    dat, out = tmp_path / "HPL.dat", tmp_path / "HPL.out"
    dat.write_text(DAT.format(file=out, device=8, n=77))
    outcome = ranks(2, "--backend", "host", "--repetitions", "1", "--warmup-seconds", "0", "--dat", str(dat))
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    found = re.findall(r"^WR\S+ +(\d+) +16 +(\d) +(\d) ", out.read_text(), re.M)
    assert found == [("50", "1", "2"), ("77", "1", "2"), ("50", "2", "1"), ("77", "2", "1")]
    assert out.read_text().count("PASSED") == 4 and "WR" not in outcome.stdout


def test_a_malformed_hpl_dat_is_named_by_line_and_field(hpl: Run, tmp_path: Path) -> None:
    dat = tmp_path / "HPL.dat"
    dat.write_text(DAT.format(file="HPL.out", device=6, n="ten"))
    outcome = hpl("--backend", "host", "--dat", str(dat))
    assert outcome.code == 2 and "HPL.dat:6: Ns: 'ten' is not a whole number from 1 to 4000000" in outcome.stderr
    dat.write_text(DAT.format(file="HPL.out", device=6, n=77))
    outcome = hpl("--backend", "host", "--dat", str(dat))
    assert outcome.code == 2 and "as many processes as there are ranks, 1; line 11 and 12 have 1x2" in outcome.stderr


def test_without_a_blas_the_run_is_waived(hpl: Run, tmp_path: Path) -> None:
    outcome = hpl(*SMALL, TENKEN_BLAS=str(tmp_path / "libnone.so"))
    assert outcome.code == 3 and outcome.document is not None
    assert outcome.document["reason"].startswith("library missing: no BLAS with LAPACK (TENKEN_BLAS may name one)")


def children_of(parent: int) -> list[int]:
    """Its child processes, oldest first, from /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[1]) == parent:
            found.append(int(folder.name))
    return sorted(found)


def cpu_seconds(process: int) -> float:
    """What a process has computed so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(mpi_build: Path, mpi: dict[str, str], blas: str, patient: Path) -> Start:
    """Three ranks that factorise for a long time, all of them alive and working."""

    def begin(*arguments: str, **more: str) -> subprocess.Popen[str]:
        env = {**mpi, "TENKEN_BLAS": blas, "OMP_NUM_THREADS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        env |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        env |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1", **more}
        env["LD_PRELOAD"] = f"{more.get('LD_PRELOAD', '')} {patient}"
        command = ["mpirun", "-n", "3", str(mpi_build / "bin" / "hpl"), *QUICK, "--n", "3000", "--nb", "8"]
        command += ["--repetitions", "50", "--patience-seconds", "10", *arguments]
        run = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + 300
        while len(ranks := children_of(run.pid)) < 3 or min(map(cpu_seconds, ranks)) < 0.7:
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        return run

    return begin


@pytest.fixture
def breakable(mpi: dict[str, str], tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file that breaks rank 0's transport as soon as it exists, and the environment for it."""
    double, file = tmp_path / "libtransport_double.so", tmp_path / "break"
    source = ROOT / "tests" / "support" / "transport_double.c"
    subprocess.run(
        ["mpicc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(double), str(source)], env=mpi, check=True
    )
    return file, {"LD_PRELOAD": str(double), "TENKEN_DOUBLE_BREAK": str(file)}


def test_the_others_end_when_a_rank_is_killed(start: Start) -> None:
    """A rank is killed while all factorise: the launcher or the other ranks' monitoring ends the run, with a
    message."""
    run = start()
    os.kill(children_of(run.pid)[-1], signal.SIGKILL)
    said, _ = run.communicate(timeout=300)
    assert run.returncode not in (0, 3)
    assert "signal 9" in said or "Killed" in said or "another rank has died" in said


def test_a_transport_that_loses_its_peer_first_leaves_the_launcher_to_name_it(
    start: Start, breakable: tuple[Path, dict[str, str]]
) -> None:
    file, env = breakable
    run = start(**env)
    # Stopped first: rank 0 detects the lost rank before the launcher can.
    os.kill(children_of(run.pid)[-1], signal.SIGSTOP)
    file.touch()
    time.sleep(0.5)
    os.kill(children_of(run.pid)[-1], signal.SIGKILL)
    said, _ = run.communicate(timeout=300)
    assert run.returncode not in (0, 3)
    assert "signal 9" in said or "Killed" in said


def test_a_transport_that_fails_says_what_may_be_the_cause(
    start: Start, breakable: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    file, env = breakable
    document = tmp_path / "document.json"
    run = start("--json", str(document), **env)
    file.touch()
    said, _ = run.communicate(timeout=300)
    assert run.returncode not in (0, 3)
    for told in (said, json.loads(document.read_text())["reason"]):
        assert "MPI_Bcast" in told and "internal error; perhaps another rank has died; src/lib/lu/" in told
