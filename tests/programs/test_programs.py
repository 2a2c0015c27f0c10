"""Every program that was built, whatever it measures: the command line and the document."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.model.catalogue import of_suite
from tenken.paths import ROOT
from tests.programs.conftest import Outcome
from tests.programs.test_file_io import hdf5_library
from tests.support.catalogue import declared_metrics

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--repetitions", "3", "--warmup-seconds", "0")
PROGRAMS = ["daxpy", "stream"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_good_run_leaves_a_valid_document(run: Run, program: str) -> None:
    outcome = run(program, *QUICK)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    document = outcome.document
    assert document is not None
    assert (document["program"], document["status"], document["reason"]) == (program, "ok", "")
    assert document["parameters"]["repetitions"] == 3
    assert document["parameters"]["inject_fault"] == "none"
    assert document["verification"]["passed"] and document["verification"]["checks"]
    assert document["placement"]["threads"] == len(document["placement"]["thread_cpus"])
    assert set(document["limits"]) == {metric["id"] for metric in document["metrics"]}
    declared = {n: m for n, m in declared_metrics(program).items() if "host" in m["per"]}
    wanted = {name for name, metric in declared.items() if not metric.get("optional", False)}
    assert wanted <= {metric["name"] for metric in document["metrics"]}
    for metric in document["metrics"]:
        assert metric["count"] == len(metric["samples"]) == 3
        assert metric["value"] == metric["median"] == sorted(metric["samples"])[1]
        assert metric["best"] == max(metric["samples"])
    lines = outcome.stdout.splitlines()
    assert lines[-1] == f"{program}: ok"
    assert len(lines) == 2 + len(document["metrics"])


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_names_units_and_ranges(run: Run, program: str) -> None:
    outcome = run(program, "--help")
    assert outcome.code == 0 and outcome.document is None
    words = " ".join(outcome.stdout.split())
    for text in ("--repetitions N", "allowed: 1 to 100000; default: 100", "0 to 600 s", "exit codes"):
        assert text in words


def test_version_is_the_revision_of_the_sources(run: Run) -> None:
    outcome = run("stream", "--version")
    assert outcome.code == 0 and outcome.stdout.startswith("stream ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--repetitions", "0"), "--repetitions '0' is invalid; allowed: 1 to 100000"),
        (("--repetitions", "-5"), "--repetitions '-5' is invalid; allowed: 1 to 100000"),
        (("--repetitions", "many"), "--repetitions 'many' is invalid; allowed: a whole number"),
        (("--repetitions", "1e3"), "--repetitions '1e3' is invalid; allowed: a whole number"),
        (("--repetitions",), "--repetitions: needs a value"),
        (("--warmup-seconds", "inf"), "--warmup-seconds 'inf' is invalid; allowed: 0 to 600 s"),
        (("--unknown",), "--unknown: unknown or ambiguous option"),
        (("stray",), "stray: unexpected argument"),
        (("--inject-fault", "all"), "--inject-fault 'all' is invalid; allowed: none, element, sample"),
        (("--json", "/nonexistent/folder/x.json"), "--json '/nonexistent/folder/x.json': cannot write"),
        (("--json", "/dev"), "--json '/dev': needs the name of an ordinary file"),
        (("--json", "/dev/null"), "--json '/dev/null': needs the name of an ordinary file"),
    ],
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_wrong_argument_is_one_line_and_exit_2(
    run: Run, program: str, arguments: tuple[str, ...], message: str
) -> None:
    outcome = run(program, *arguments)
    assert (outcome.code, outcome.stdout, outcome.document) == (2, "", None)
    assert outcome.stderr.startswith(f"{program}: {message}")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_flipped_bit_fails_the_verification(run: Run, program: str) -> None:
    outcome = run(program, *QUICK, "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["status"] == "failed"
    assert outcome.document["reason"].startswith("verification: ")
    assert not outcome.document["verification"]["passed"]
    wrong = [check for check in outcome.document["verification"]["checks"] if not check["passed"]]
    assert len(wrong) == 1 and "expected" in wrong[0]["detail"]
    assert outcome.stdout.splitlines()[-1].startswith(f"{program}: failed: verification: ")


#: Verifications of one run on the host, with sizes that no vector or thread divides. One value of each is spoiled: the
#: number of its element, if that is known, and its error, if it is always the same.
SPOILED: list[tuple[str, str, dict[str, tuple[int | None, float]]]] = [
    ("access_patterns", "--bytes 80008", {"copied": (10_000, math.inf)}),
    ("daxpy", "--elements 100003", {"y": (100_002, math.inf)}),
    ("himeno", "--size XS", {"finite": (2, math.inf), "pressure": (30 * 2048 + 30 * 64 + 62, 2**-12),
                             "gosa": (1, 2**-12)}),
    ("hpl_mxp", "--backend host --n 128 --nb 32",
        {"small_operands": (None, math.inf), "overflowed": (None, math.inf)}),
    ("memcopy", "--bytes 1048584", {"host_copy": (131_072, math.inf)}),
    ("migration", "--bytes 80008", {"copied": (10_000, math.inf)}),
    ("spmv", "--matrices tridiagonal:501", {"rows": (None, math.inf)}),
    # the two parts have 22 planes each; the error of the second one is twice that of the first
    ("stencil", "--nx 25 --ny 19 --nz 22 --steps 4 --bt 2 --phase-blocks 2 --parts 2",
        {"step": ((21 * 19 + 17) * 25 + 23, 2**-11), "small": (9 * 53 * 75 - 1, 2**-11)}),
    ("stencil", "--nx 25 --ny 19 --nz 22 --steps 4 --bt 2 --phase-blocks 2 --exchange none",
        {"small_alone": (7 * 53 * 75 - 1, 2**-12)}),
    ("stencil_forms", "--form sequential --nx 25 --ny 19 --nz 23 --steps 3",
        {"step": (25 * 19 * 23 - 1, 2**-12), "small": (75 * 53 * 41 - 1, 2**-12)}),
    ("stream", "--array-bytes 1048584",
        {**dict.fromkeys(["host_a", "host_b", "host_c"], (131_072, 2**-12)), "host_dot": (1, 2**-12)}),
    ("transfer", "--sweep-max-bytes 1Ki", {"host_copied": (127, math.inf)}),
    ("transpose", "--sizes 37x53 --kernels tile", {"host": (37 * 53 - 1, math.inf)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "arguments", "name", "element", "error"),
    [(*row[:2], name, *found) for row in SPOILED for name, found in row[2].items()],
    ids=[f"{row[0]} {name}" for row in SPOILED for name in row[2]],
)
def test_each_verification_fails_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, arguments: str, name: str,
    element: int | None, error: float,
) -> None:  # fmt: skip
    """Where a tolerance is not 0, an error a tenth above it fails, and one a tenth below passes."""
    (tmp_path / "cache").write_text("256K\n")
    monkeypatch.setenv("TENKEN_TEST_CACHE", str(tmp_path / "cache"))

    def spoiled(how: str) -> dict[str, Any]:
        monkeypatch.setenv("TENKEN_TEST_SPOILED", name + how)
        document = run(program, *QUICK, *arguments.split(), "--inject-fault", "element").document
        assert document is not None and document["status"] == "failed"
        return document

    document = spoiled("")
    (wrong,) = [check for check in document["verification"]["checks"] if not check["passed"]]
    assert document["reason"].startswith(f"verification: {name}.")
    assert element is None or wrong["detail"].startswith(f"element {element}, "), wrong
    assert error == math.inf or wrong["error"] == pytest.approx(error, rel=0.05)
    if error < math.inf and wrong["tolerance"] > 0:
        assert spoiled(":1.1")["reason"].startswith(f"verification: {name}.")
        assert spoiled(":0.9")["reason"] == "the fault injected by --inject-fault was not detected"


#: Where all other verifications of our programs fail, each by itself or with those that follow from it; or why nowhere.
SPOILED_ELSEWHERE = {
    "burn.results": "test_burn.py::test_an_injected_fault_is_found_and_described",
    "burn.missed burn.no_false_alarm": "test_burn.py::test_a_fault_that_is_missed_and_an_alarm_without_one_fail",
    "data_loading.checksum data_loading.once_an_epoch":
        "test_file_io.py::test_a_sample_that_is_wrong_stale_or_missing_is_noticed",
    "gemm.product": "test_gemm.py::test_the_smallest_error_that_must_be_found_is_found_in_every_precision",
    "hpcg.variance hpcg.symmetry hpcg.symmetry_multigrid hpcg.iterations hpcg.residual hpcg.solution":
        "test_hpcg.py::test_what_is_broken_on_purpose_fails",
    "hpcg.spectral hpcg.spectral_multigrid hpcg.shuffled": "test_hpcg.py::test_one_rank_passes_all_tests_of_validity",
    "hpl.residual": "test_hpl.py::test_a_fault_fails_the_run",
    "hpl.library_difference": "test_hpl.py::test_a_solution_unlike_the_librarys_fails_alone",
    "hpl_mxp.factors": "test_hpl_mxp.py::test_an_element_twice_its_bound_away_is_found",
    "hpl_mxp.refined": "test_hpl_mxp.py::test_more_refinements_than_declared_fail",
    "hpl_mxp.residual":
        "test_hpl_mxp.py::test_the_residual_does_not_see_a_dominant_matrix_factorised_without_updates",
    "memcopy.gpu_copy transfer.both_ways transfer.copied p2p.peer p2p.read p2p.write p2p.memcpy_peer p2p.driver_staged "
    "p2p.host_staged p2p.latency p2p.both_ways p2p.all_to_one p2p.one_to_all":
        "test_protocol.py::test_the_order_of_measuring_on_gpus",
    "mpi_p2p.messages": "test_mpi_p2p.py::test_one_flipped_bit_in_one_rank_is_seen",
    "mpi_p2p.bisection mpi_p2p.victim mpi_p2p.arrival": "test_mpi_p2p.py::test_one_flipped_bit_of_a_pattern_is_seen",
    "overlap.snapshot snapshot_io.words storage_map.words":
        "test_file_io.py::test_a_flipped_byte_is_named_with_offset_and_rank",
    "nccl.elements stencil.alone_step stencil.alone_block stencil.block stream.memcpy stream.a "
    "stream.b stream.c stream.dot transpose.gpu transpose.bandwidth": "kernels that the double lacks",
}  # fmt: skip


def test_every_verification_fails_somewhere() -> None:
    """Those of third-party programs are parsed, and training's are in test_training.py."""
    foreign = re.compile(r"training\..*|mpi_p2p\.osu_.*|nccl\.perf_.*|.*\.(stated_residual|xhpcg_.*)")
    declared = {
        f"{program.name}.{one.name}" for program in of_suite().values() for one in program.contract.verifications
    }
    spoiled = {f"{program}.{name}" for program, _, names in SPOILED for name in names}
    elsewhere = [name for names in SPOILED_ELSEWHERE for name in names.split()]
    assert sorted([*spoiled, *elsewhere]) == sorted(name for name in declared if not foreign.fullmatch(name))
    for where in SPOILED_ELSEWHERE.values():
        file, _, test = where.partition("::")
        assert not test or f"def {test}(" in (ROOT / "tests" / "programs" / file).read_text()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_sample_that_is_not_finite_fails_the_run(run: Run, program: str) -> None:
    outcome = run(program, *QUICK, "--inject-fault", "sample")
    assert outcome.code == 1 and outcome.document is not None
    assert "is not finite in sample 0" in outcome.document["reason"]
    names = {metric["name"] for metric in outcome.document["metrics"]}
    assert ("copy" if program == "stream" else "daxpy") not in names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_killed_program_leaves_no_document(build_dir: Path, tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "document.json"
    file.write_text('{"status": "ok"}')  # from an earlier run: must not be mistaken for this one's
    command = [str(build_dir / "bin" / "daxpy"), "--repetitions", "100000", "--json", str(file)]
    temporary = Path(f"{file}.tmp")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 20
            while file.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)
            process.send_signal(number)
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == -number
    assert out == ""
    assert not file.exists()
    assert temporary.exists() == (number == signal.SIGKILL)
    if number == signal.SIGKILL:
        assert temporary.read_text() == ""


def test_a_launcher_that_starts_single_processes_is_named(build_dir: Path, tmp_path: Path) -> None:
    """Each is the first rank of one: the last one to end replaced the result of the others."""
    file = tmp_path / "document.json"
    command = [str(build_dir / "bin" / "daxpy"), "--repetitions", "100000", "--json", str(file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        try:
            deadline = time.monotonic() + 20
            while not Path(f"{file}.tmp").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)
            second = subprocess.run(
                command, env={**os.environ, "TENKEN_LOCKS": str(tmp_path)}, capture_output=True, text=True, timeout=20,
                check=False,
            )  # fmt: skip
        finally:
            first.terminate()
    assert second.returncode == 2
    assert "another process writes it: the launcher does not match the MPI" in second.stderr


def test_a_full_disk_fails_the_run_and_leaves_no_document(run: Run) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    # Python ignores SIGXFSZ; then a write beyond the limit is an error, as on a full disk.
    outcome = run("daxpy", *QUICK, preexec_fn=small_files_only, restore_signals=False)
    assert outcome.code == 1 and outcome.document is None
    assert outcome.stdout.splitlines()[-1].startswith("daxpy: failed: --json ")


def test_binding_and_threads_are_recorded(run: Run) -> None:
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
    document = run("daxpy", *QUICK, env=one).document
    assert document is not None
    placement = document["placement"]
    assert placement["threads"] == 1 and placement["binding"] == "close"
    assert placement["places"].startswith("cores (")
    assert set(placement["allowed_cpus"]) == os.sched_getaffinity(0)
    first = min(os.sched_getaffinity(0))
    bound = run("daxpy", *QUICK, preexec_fn=lambda: os.sched_setaffinity(0, {first})).document
    assert bound is not None
    assert bound["placement"]["allowed_cpus"] == [first] and bound["placement"]["allowed_cores"] == 1


KINDS = {
    "hpcg": "none, element, sample, rank-kill, rank-stop, matrix-value, halo-value, colour, vector-nan",
    "hpl": "none, element, sample, matrix-nan, matrix-zero-column",
    "snapshot_io": "none, element, sample, cut-file",
    "spmv": "none, element, sample, matrix-value, matrix-row, matrix-index",
    "stencil": "none, element, sample, rank-kill, rank-stop, rank-exception, halo-stale, halo-short, halo-swapped, "
    "cell-nan",
    "storage_map": "none, element, sample, cut-file, slowest-map",
    "stream": "none, element, sample",
}


@pytest.mark.parametrize("program", KINDS)
def test_help_lists_the_faults_that_a_program_can_make(run: Run, program: str) -> None:
    text = " ".join(run(program, "--help").stdout.split())
    assert f"allowed: {KINDS[program]}; default: none" in text
    for former in ("--break-matrix", "--break ", "--spoil", "--die", "--cut-file"):
        assert former not in text


@pytest.mark.parametrize(
    ("program", "former", "kind"),
    [
        ("spmv", ("--matrices", "tridiagonal:500", "--break-matrix", "row"), "matrix-row"),
        ("hpcg", ("--nx", "16", "--target-seconds", "0", "--break", "nan"), "vector-nan"),
        ("stencil", ("--nx", "16", "--ny", "16", "--nz", "16", "--parts", "2", "--spoil", "nan"), "cell-nan"),
    ],
)
def test_former_options_make_their_fault_on_and_it_is_in_the_document(
    run: Run, program: str, former: tuple[str, ...], kind: str
) -> None:
    outcome = run(program, *QUICK, *former)
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["parameters"]["inject_fault"] == kind
    assert not {"break_matrix", "break", "spoil", "die"} & set(outcome.document["parameters"])


def test_the_token_of_a_request_is_repeated(run: Run, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"schema": "tenken-request/1", "token": "20261122T000000Z-1.2", "metrics": []}))
    requested = run("daxpy", *QUICK, "--elements", "1000", "--request", str(request)).document
    by_hand = run("daxpy", *QUICK, "--elements", "1000").document
    assert requested is not None and by_hand is not None
    assert requested["token"] == "20261122T000000Z-1.2" and by_hand["token"] is None
    assert "request" not in requested["parameters"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot read: No such file or directory"),
        ("{", "is not JSON at byte 2"),
        ('{"token": "x"}', 'needs "schema": "tenken-request/1"'),
        ('{"schema": "tenken-request/1", "token": ""}', 'needs a "token" of 1 to 256 printable ASCII characters'),
    ],
)
def test_a_request_that_cannot_be_read_ends_the_run_with_one_line(
    run: Run, tmp_path: Path, text: str | None, says: str
) -> None:
    request = tmp_path / "request.json"
    if text is not None:
        request.write_text(text)
    outcome = run("daxpy", *QUICK, "--request", str(request))
    assert (outcome.code, outcome.document) == (2, None)
    assert outcome.stderr.startswith(f"daxpy: --request '{request}': {says}") and outcome.stderr.count("\n") == 1


#: Program, option, KiB of cache; then the minimum size of an array in bytes, and its default.
SIZES = [
    ("memcopy", "--bytes", 24576, 4 * 24 * 2**20, None),
    ("stream", "--array-bytes", 24576, 4 * 24 * 2**20, 4 * 24 * 2**20),
    ("stream", "--array-bytes", 1024, 4 * 2**20, 64 * 2**20),
]


@pytest.mark.parametrize(("program", "option", "cache", "least", "usual"), SIZES)
def test_an_array_is_no_smaller_than_four_caches(
    run: Run, program: str, option: str, cache: int, least: int, usual: int | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "cache").write_text(f"{cache}K\n")
    monkeypatch.setenv("TENKEN_TEST_CACHE", str(tmp_path / "cache"))
    few = ("--repetitions", "1", "--warmup-seconds", "0")
    refused = run(program, *few, option, str(least - 8))
    assert refused.code == 2 and "allowed: at least" in refused.stderr
    taken = run(program, *few, option, str(least))
    assert taken.document is not None and taken.document["parameters"][option.lstrip("-").replace("-", "_")] == least
    if usual is not None:
        usually = run(program, *few)
        assert usually.document is not None and usually.document["parameters"]["array_bytes"] == usual


#: Bytes of a run, and how many tenths of the available memory they may be.
MEMORY = [
    ("daxpy", "--elements 100003", 2 * 8 * 100_003, 10),
    ("memcopy", "--bytes 1048584", 2 * 1_048_584, 9),
    ("transfer", "--bytes 1Mi --sweep-max-bytes 4Mi", 2 * 4 * 2**20, 9),
    ("transpose", "--sizes 512x700", 3 * 512 * 700 * 4, 9),
    # two grids, and the one before and after the step that is verified
    ("stencil_forms", "--form sequential --nx 64 --ny 64 --nz 66", 4 * 64 * 64 * 66 * 8, 9),
    ("storage_map", "--min-bytes 1Mi --max-bytes 4Mi --candidates posix_1mi_1 --seconds 0 --path {}", 4 * 2**20, 9),
    # particles of 36 bytes, 28 of them packed as well, and 16 MiB
    ("snapshot_io", "--min-particles 99999 --max-particles 99999 --methods posix --seconds 0 --path {}",
        64 * 99_999 + 2**24, 9),
    # batches of the one that is consumed and of two ahead
    ("data_loading", "--kinds 64ki --batch 4 --batches 2 --prefetch 0,2 --step-ms 0 --ways posix_1mi_1 --seconds 0 "
        "--path {}", 3 * 4 * 65_536, 9),
    ("burn", "--backend host --phases gemm_int8 --seconds 0 --visit-seconds 0.001 --host-order 128 --host-bytes 16Mi",
        2**24, 9),
    ("overlap", "--bytes 4Mi --step-ms 1 --steps 2 --every 1 --modes none --path {}", 4 * 4 * 2**20, 9),
]  # fmt: skip


@pytest.mark.parametrize(("program", "arguments", "needed", "tenths"), MEMORY, ids=[row[0] for row in MEMORY])
def test_what_fits_into_memory_is_taken_and_a_kib_more_is_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, arguments: str, needed: int, tenths: int
) -> None:
    for name, text in (("cache", "256K\n"), ("memory", "")):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"TENKEN_TEST_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("TENKEN_HDF5", hdf5_library())
    kib = next(kib for kib in range(needed * 10 // tenths // 1024, 2**30) if kib * 1024 // 10 * tenths >= needed)
    codes = []
    for available in (kib - 1, kib):
        (tmp_path / "memory").write_text(f"MemAvailable: {available} kB\n")
        outcome = run(program, *QUICK, *arguments.format(tmp_path).split())
        codes.append(outcome.code)
        assert outcome.code == 0 or re.search("free|at most", outcome.stderr), outcome.stderr + outcome.stdout
    assert codes == [2, 0]


@pytest.mark.parametrize(("cache", "elements"), [(24576, 2**24), (65536, 4 * 2**26 // 8)])
def test_daxpys_arrays_are_four_caches_and_at_least_128_mib(
    run: Run, cache: int, elements: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text(f"{cache}K\n")
    monkeypatch.setenv("TENKEN_TEST_CACHE", str(tmp_path / "cache"))
    usual = run("daxpy", "--repetitions", "1", "--warmup-seconds", "0")
    assert usual.document is not None and usual.document["parameters"]["elements"] == elements
