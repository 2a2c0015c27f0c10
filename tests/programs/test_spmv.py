"""Specific to spmv: matrices, files, verification, bad input, memory."""

from __future__ import annotations

import gzip
import os
import random
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs.conftest import Outcome
from tests.support.builds import checked

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
QUICK = ("--repetitions", "3", "--warmup-seconds", "0")
EVERY_KIND = (
    "poisson7:12,poisson27:12,fem:6,tridiagonal:900,banded:300:9,random:700:5,random:700:1,rmat:10:8,poisson27:1"
)
GENERAL = "%%MatrixMarket matrix coordinate real general\n"
LONG = "9000 9000 9000\n" + "".join(f"{i} {i} {1 / i}\n" for i in range(1, 9001))


def write_market(path: Path, rows: int, entries: int, seed: int = 1) -> None:
    """A general matrix with distinct random entries; `rows` squared must be well above `entries`."""
    draw = random.Random(seed)
    with path.open("w") as sink:
        sink.write(f"{GENERAL}% made by a test\n{rows} {rows} {entries}\n")
        step = rows * rows // entries
        for k in range(entries):
            place = k * step + draw.randrange(step)
            sink.write(f"{place % rows + 1} {place // rows + 1} {draw.uniform(-1, 1):.16g}\n")


def zipped(text: str) -> bytes:
    """Compressed without the time of day, so that all test workers collect the same cases."""
    return gzip.compress(text.encode(), mtime=0)


@pytest.mark.parametrize("precision", ["double", "single"])
def test_every_kind_of_matrix_is_multiplied_and_verified(run: Run, precision: str) -> None:
    outcome = run("spmv", *QUICK, "--matrices", EVERY_KIND, "--precision", precision)
    assert outcome.code == 0, outcome.stdout
    document = outcome.document
    assert document is not None
    best = [m for m in document["metrics"] if m["name"] == "best"]
    assert len(best) == 9
    assert {m["at"]["matrix"] for m in best} >= {"poisson27_12", "rmat_10_8", "poisson27_1"}
    names = {m["name"] for m in document["metrics"]}
    assert names == {"dot", "spmv", "prepare", "best", "geomean", "worst", "geomean_by_size"}
    # below the cache sizes there is no memory limit, and the reason is stated
    assert all("last-level cache" in document["limits"][m["id"]]["unknown"] for m in best)
    left_out = {key: why for key, why in document["path"].items() if key.startswith("left_out.")}
    padded = ("left_out.sell.rmat_10_8", "left_out.sell.poisson27_1")
    assert left_out == dict.fromkeys(padded, "sliced ELL would be mostly padding")
    # values and both vectors, columns and offsets
    real = 4 if precision == "single" else 8
    (csr,) = [
        m for m in document["metrics"] if m["name"] == "spmv" and m["id"].endswith("poisson27_12.nnz=39304.variant=csr")
    ]
    assert csr["counts"]["bytes"] == (real + 4) * 39304 + 4 * 1729 + 2 * real * 1728
    # a bound of two roundings, for a product that has one
    errors = {check["what"]: check["error"] for check in document["verification"]["checks"]}
    of_one = [error for what, error in errors.items() if "random_700_1" in what]
    assert len(of_one) == 2 and max(of_one) <= 0.5 * (1 + 1e-6)
    assert document["path"]["rows.poisson27_12"].startswith("1728 x 1728, entries a row 8 to 27")
    assert document["path"]["row_lengths.poisson27_1"] == "1: 1"


@pytest.mark.parametrize(("cache_kib", "mib"), [(40960, 5 * 40), (1024, 64)])
def test_a_matrix_beyond_the_caches_is_held_against_the_dot_product(
    run: Run, cache_kib: int, mib: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text(f"{cache_kib}K\n")
    monkeypatch.setenv("TENKEN_TEST_CACHE", str(tmp_path / "cache"))
    document = run("spmv", *QUICK, "--variants", "csr").document
    assert document is not None
    if document["host"]["last_level_cache_bytes"] is None:
        pytest.skip("this machine does not report its caches")
    (best,) = [m for m in document["metrics"] if m["name"] == "best"]
    limit = document["limits"][best["id"]]
    assert limit["basis"] == "measured: dot bandwidth in this run" and limit["unit"] == "GFLOP/s"
    side = int(best["at"]["matrix"].removeprefix("poisson27_"))
    assert best["at"]["nnz"] == (3 * side - 2) ** 3
    traffic = 12 * best["at"]["nnz"] + 4 * (side**3 + 1) + 16 * side**3
    assert 1 <= traffic / (mib << 20) < 1.1
    (dots,) = [m for m in document["metrics"] if m["name"] == "dot"]
    # of two arrays that are four times the cache together
    assert dots["counts"]["bytes"] == 2 * max(2 * cache_kib << 10, 64 << 20)
    dot = max(dots["samples"])
    # the limit may come from the second measurement of the dot product
    assert limit["value"] >= 0.999 * dot * 2 * best["at"]["nnz"] / traffic
    assert document["path"][f"places_an_entry.csr.poisson27_{side}.host"] == 1


@pytest.mark.parametrize("broken", ["value", "row", "index"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_a_matrix_with_a_fault_fails_the_verification(run: Run, broken: str, precision: str) -> None:
    outcome = run(
        "spmv", *QUICK, "--matrices", "tridiagonal:500", "--inject-fault", f"matrix-{broken}", "--precision", precision
    )
    if broken == "value" and precision == "single":
        # one bit that double precision resolves is below the error of a float
        assert outcome.code == 1
        return
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: rows.host.matrix=tridiagonal_500.variant=csr: ")


def test_a_flipped_bit_of_a_float_is_seen(run: Run) -> None:
    outcome = run("spmv", *QUICK, "--matrices", "rmat:10", "--precision", "single", "--inject-fault", "element")
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: ")


@pytest.mark.parametrize(("arguments", "message"), [
    (("--matrices", "cube:3"),
        "--matrices 'cube:3' is invalid; allowed: KIND:SIZE with a known kind: kind 'cube' is none"),
        (("--matrices", "poisson27:0"), "--matrices 'poisson27:0' is invalid; allowed: KIND:SIZE"),
        (("--matrices", "none"), "--matrices 'none' is invalid; allowed: a matrix where --files has none"),
    (("--matrices", "tridiagonal:700000000"),
        "--matrices 'tridiagonal:700000000' is invalid; allowed: what fits into memory"),
        (("--variants", "magic"), "--variants 'magic' is invalid; allowed: all, or some of csr, sell"),
        (("--precision", "half"), "--precision 'half' is invalid; allowed: double, single"),
])  # fmt: skip
def test_a_wrong_argument_is_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    outcome = run("spmv", *arguments)
    assert (outcome.code, outcome.document) == (2, None)
    assert outcome.stderr.startswith(f"spmv: {message}"), outcome.stderr


def test_beyond_memory_names_asked_and_free(run: Run) -> None:
    outcome = run("spmv", "--matrices", "random:2000000:1000")
    assert outcome.code == 2
    assert re.search(r"random_2000000_1000 needs [\d.]+ GiB on the host, free [\d.]+ [KMG]iB", outcome.stderr)


def test_files_and_folders_are_read_compressed_or_not(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "set" / "inner"
    folder.mkdir(parents=True)
    write_market(tmp_path / "set" / "Plain.MTX.mtx", 60, 400)
    write_market(tmp_path / "two.mtx", 50, 300)
    (folder / "two.mtx.gz").write_bytes(gzip.compress((tmp_path / "two.mtx").read_bytes()))
    (tmp_path / "set" / "readme.txt").write_text("not a matrix")
    (tmp_path / "wide.mtx").write_text(
        "%%MatrixMarket matrix array real general\r\n2 3\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n"
    )
    (tmp_path / "one.mtx").write_text(f"{GENERAL}1 1 1\n1 1 4\n")
    files = ",".join(str(tmp_path / name) for name in ("set", "wide.mtx", "one.mtx"))
    outcome = run("spmv", *QUICK, "--matrices", "none", "--files", files)
    assert outcome.code == 0, outcome.stdout
    assert outcome.document is not None
    best = {m["at"]["matrix"]: m["at"]["nnz"] for m in outcome.document["metrics"] if m["name"] == "best"}
    assert best == {"plain_mtx": 400, "two": 300, "wide": 6, "one": 1}
    assert outcome.document["path"]["rows.wide"].startswith("2 x 3, ")
    assert outcome.document["path"]["header.one"] == "coordinate real general"


@pytest.mark.parametrize(("text", "message"), [
        (b"", "bad.mtx:1: the file is empty"),
        (b"hello\n", "bad.mtx:1: no header"),
        (f"{GENERAL}2 2 2\n1 1 1\n".encode(), "bad.mtx:3: the file ends after 1 of 2 entries"),
        (f"{GENERAL}2 2 2\n1 1 1\n1 1 1\n".encode(), "bad.mtx:4: entry 1 1 is listed twice"),
        (f"{GENERAL}2 2 1\n1 1 nan\n".encode(), "bad.mtx:3: the value is 'nan'"),
        (f"{GENERAL}2 2 0\n".encode(), "bad.mtx: no entries, nothing to multiply"),
    (gzip.compress(f"{GENERAL}2 2 1\n1 1 1\n".encode(), mtime=0)[:-9],
        "bad.mtx: the compressed data is damaged or cut"),
        (zipped(f"{GENERAL}{LONG}")[:-2000], "bad.mtx: the compressed data is damaged or cut"),
        (f"{GENERAL}2000000000 2000000000 2000000000\n1 1 1\n".encode(), "bad.mtx:2: needs 67.1 GiB of memory, free "),
], ids=["empty", "header", "cut", "twice", "nan", "no entries", "cut gzip", "long cut gzip", "memory"])  # fmt: skip
def test_a_bad_file_fails_the_run_and_the_others_are_measured(
    run: Run, tmp_path: Path, text: bytes, message: str
) -> None:
    bad, good = tmp_path / "bad.mtx", tmp_path / "good.mtx"
    bad.write_bytes(text)
    write_market(good, 40, 100)
    outcome = run("spmv", *QUICK, "--matrices", "none", "--files", f"{bad},{good}")
    assert outcome.code == 1 and outcome.document is not None
    assert message in outcome.document["reason"]
    assert {m["at"]["matrix"] for m in outcome.document["metrics"] if m["name"] == "best"} == {"good"}


@pytest.mark.parametrize("path", ["absent.mtx", "."])
def test_a_file_that_is_not_there_or_an_empty_folder_is_said(run: Run, tmp_path: Path, path: str) -> None:
    outcome = run("spmv", *QUICK, "--matrices", "none", "--files", str(tmp_path / path))
    said = outcome.stderr if outcome.document is None else outcome.document["reason"]
    assert outcome.code in (1, 2)
    assert "cannot be opened: No such file" in said or "no files *.mtx or *.mtx.gz in this folder" in said


def test_gzip_that_is_not_there_is_said(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.mtx.gz"
    file.write_bytes(gzip.compress(f"{GENERAL}1 1 1\n1 1 4\n".encode()))
    outcome = run("spmv", *QUICK, "--matrices", "none", "--files", str(file), env={**os.environ, "PATH": str(tmp_path)})
    assert outcome.document is not None
    assert "is compressed, and there is no program gzip" in outcome.document["reason"]


def test_broken_files_never_break_the_reader(build_dir: Path) -> None:
    """A short run; `tenken_fuzz_market 1000000 SEED` is the long one."""
    said = checked([str(build_dir / "bin" / "tenken_fuzz_market"), "30000", "20261121"])
    assert re.search(r"30000 files, \d+ of them good", said)


def test_a_large_file_is_read_in_bounded_time_and_memory(build_dir: Path, tmp_path: Path) -> None:
    """A tenth of the size that must take 5 s and 1 GiB on one core, with the same budget per byte (and slack for
    CI)."""
    large = tmp_path / "large.mtx"
    write_market(large, 100_000, 1_000_000)

    # between repetitions the program clears the caches with two arrays of twice their size: 1 GiB on some hosts
    sizes = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    allowed = (1 << 30) + 4 * max((int(size[:-1]) << 10 for size in sizes if size.endswith("K")), default=0)

    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        str(build_dir / "bin" / "spmv"),
        *QUICK,
        "--matrices",
        "none",
        "--files",
        str(large),
        "--variants",
        "csr",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=little_memory, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # CPU time: the elapsed time depends on other load
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
