"""snapshot_io, storage_map, overlap and data_loading on a real file system, without a GPU, and faults of files."""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tenken.model import engine
from tenken.model.catalogue import program as catalogue
from tenken.model.judgement import Finding
from tenken.model.result import validate
from tests.programs.conftest import ROOT, Outcome
from tests.support.judging import related
from tests.support.oracles import figure
from toolchains import hdf5

pytestmark = pytest.mark.build

Run = Callable[..., Outcome]
#: Arguments of a short run of each.
SHORT: dict[str, list[str]] = {
    "storage_map": ["--min-bytes", "4Ki", "--max-bytes", "256Ki", "--factor", "64", "--seconds", "0"],
    # the sweep ends at the maximum, which the factor does not reach
    "snapshot_io": ["--min-particles", "1001", "--max-particles", "20020", "--factor", "64", "--seconds", "0"],
    "overlap": ["--bytes", "256Ki", "--step-ms", "1", "--steps", "7", "--every", "3"],
    "data_loading": ["--kinds", "speech,8ki", "--batch", "2", "--batches", "3", "--step-ms", "0", "--seconds", "0"],
}
QUICK = ("--repetitions", "3", "--warmup-seconds", "0")


def hdf5_library() -> str:
    """The HDF5 that h5py brings; it needs neither root nor headers."""
    folder = Path(sysconfig.get_path("purelib")) / "h5py.libs"
    if not folder.is_dir():
        h5py = pytest.importorskip("h5py", reason="") if os.environ.get("TENKEN_HDF5") else __import__("h5py")
        folder = Path(h5py.__file__).parents[1] / "h5py.libs"
    (library,) = [file for file in folder.glob("libhdf5*.so*") if "_hl" not in file.name]
    return str(library)


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "TENKEN_HDF5": hdf5_library(), "OMP_WAIT_POLICY": "passive"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder on the file system of the tests, which must be empty again afterwards."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def go(run: Run, place: Path, environment: dict[str, str]) -> Run:
    """go("storage_map", "--threads", "2") is a short run in `place` that leaves nothing there."""

    def short(program: str, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> Outcome:
        command = [*SHORT[program], *QUICK, "--path", str(place), *arguments]
        outcome = run(program, *command, env={**environment, **(env or {})}, **options)
        assert sorted(p.name for p in place.iterdir()) == []
        return outcome

    return short


@pytest.fixture(scope="session")
def direct_hdf5() -> dict[str, str]:
    """The environment with an HDF5 that has its direct driver, as a site's often has; built once."""
    return {"TENKEN_HDF5": str(hdf5.make(ROOT / ".cache" / "hdf5", optimization="-O0"))}


def bad_disk(build_dir: Path, **settings: str) -> dict[str, str]:
    library = build_dir / "unit" / "libtenken_bad_disk.so"  # no search: another worker may be configuring the folder
    assert library.is_file()
    return {"LD_PRELOAD": str(library), **{f"BAD_DISK_{name.upper()}": value for name, value in settings.items()}}


def named(document: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    assert document is not None
    return [metric for metric in document["metrics"] if metric["name"] == name]


@pytest.mark.parametrize("program", SHORT)
def test_a_run_on_the_host_is_whole(go: Run, program: str) -> None:
    # more than it uses; those of the others would compete for the disk
    outcome = go(program, env={"OMP_NUM_THREADS": "20"} if program == "data_loading" else {})
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    document = outcome.document
    assert document is not None and document["verification"]["passed"]
    declared = catalogue(program).metrics
    most = {"snapshot_io": 8, "storage_map": 16, "data_loading": 16}.get(program)
    assert most is None or document["parameters"]["threads"] == min(most, document["placement"]["threads"])
    for metric in document["metrics"]:
        assert metric["count"] >= declared[metric["name"]].min_count["host"]
        assert "unknown" in document["limits"][metric["id"]]
    for key in ("file_system", "mount_options", "device", "file_system_free_bytes", "o_direct"):
        assert document["path"][key], key
    assert (ROOT / catalogue(program).section).is_file()


#: Bytes that a run needs on its disk: two files and 1 MiB; a snapshot to keep and one per layout, each of 36 bytes per
#: particle and 1 MiB; two states; all samples, with HDF5 twice.
NEEDED = {
    "storage_map": (("--max-bytes", "256Ki"), 2 * 262144 + 1048576),
    "snapshot_io": (("--layouts", "asis"), 2 * (20020 * 36 + 1048576)),
    "overlap": (("--bytes", "1945600"), 4096 * 950),  # to the byte
    "data_loading": (("--kinds", "8ki"), 2 * 2 * 3 * 8192),
}


@pytest.mark.parametrize("program", NEEDED)
def test_a_disk_is_full_where_users_may_write_no_more(go: Run, program: str, build_dir: Path) -> None:
    """A run may take 19 of 20 bytes that its user may write: neither those kept for root nor in another unit."""
    arguments, needed = NEEDED[program]
    blocks = math.ceil(needed / 950)
    outcome = go(program, *arguments, env=bad_disk(build_dir, blocks=str(blocks)))
    assert outcome.code == 0 and outcome.document is not None, outcome.stderr
    path = outcome.document["path"]
    assert [path[f"file_system_{name}_bytes"] for name in ("block", "total", "free")] == [
        4096, 100_000 * blocks, 1000 * blocks,
    ]  # fmt: skip
    outcome = go(program, *arguments, env=bad_disk(build_dir, blocks=str(blocks - 1)))
    assert outcome.code == 2 and "a folder with room for" in outcome.stderr


def test_every_situation_has_its_ways_and_its_best(go: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.map"
    # Without further rounds, which only some methods need, the medians in the document decide.
    outcome = go("storage_map", "--map", str(file), "--threads", "2", "--decide-seconds", "0")
    for situation in ("write", "write_synced", "read_cached", "read_cold"):
        ways = named(outcome.document, situation)
        assert {m["at"]["bytes"] for m in ways} == {4096, 262144}
        best = named(outcome.document, f"best_{situation}")
        assert [m["at"]["bytes"] for m in best] == [4096, 262144]
        for one in best:
            rivals = {m["at"]["io_config"]: m["median"] for m in ways if m["at"]["bytes"] == one["at"]["bytes"]}
            assert one["median"] == rivals[one["at"]["io_config"]]
            assert one["median"] >= max(rivals.values()) / 1.021, "2 % decide for the way of the size before"
    lines = file.read_text().splitlines()
    assert lines[0] == "# tenken storage map 1"
    entries = [line.split() for line in lines if not line.startswith("#")]
    assert len(entries) == 8 and all(re.fullmatch(r"\w+_\d+(ki|mi)_[12]", entry[2]) for entry in entries)
    judged = go("storage_map", "--use-map", str(file), "--threads", "2")
    assert judged.code == 0, judged.stdout
    ratios = named(judged.document, "adaptive_over_best")
    assert len(ratios) == 8 and all(0 < m["value"] < 100 for m in ratios)
    assert len(named(judged.document, "adaptive")) == 8
    since = named(judged.document, "adaptive_over_map")
    assert len(since) == 8 and all(m["value"] > 0 for m in since)


def findings_of(document: dict[str, Any] | None) -> list[Finding]:
    assert document is not None
    return related(engine.completed(validate(document, "result.json"), catalogue("storage_map")))[0]


@pytest.mark.parametrize("disk", ["quiet", "noisy"])
def test_a_map_that_points_at_bad_ways_fails_and_a_good_one_does_not(
    go: Run, build_dir: Path, tmp_path: Path, disk: str
) -> None:
    """Cached files: methods that bypass the cache, or use blocks of 4 KiB, are many times slower."""
    env = bad_disk(build_dir, delay_us="300") if disk == "noisy" else {}
    ways = "posix_4ki_1,posix_256ki_1,posix_128ki_1,posix_64ki_1,direct_4ki_1"
    short = ["--situations", "read_cached", "--candidates", ways, "--min-bytes", "256Ki", "--threads", "1"]
    # as long as it takes to decide, even next to other tests
    rounds = ["--repetitions", "20", "--seconds", "1", "--decide-seconds", "20"]
    file = tmp_path / "a.map"
    for fault in ("none", "slowest-map"):
        made = go("storage_map", *short, *rounds, "--map", str(file), "--inject-fault", fault, env=env)
        ((_, _, entry, rate),) = [line.split() for line in file.read_text().splitlines() if line[0] != "#"]
        # by the median of the times, which is not that of the rates
        known = {
            m["at"]["io_config"]: 1 / median(1 / one for one in m["samples"])
            for m in named(made.document, "read_cached")
        }
        assert made.code == 0 and float(rate) == pytest.approx(known[entry], rel=0.01)
        judged = go("storage_map", *short, *rounds, "--use-map", str(file), env=env).document
        found = findings_of(judged)
        said = judged["path"]["choice.read_cached.256ki.host"] if judged else ""
        if fault == "none":
            assert "4ki" not in entry and not [f for f in found if f.verdict == "FAIL"], said
            continue
        assert "4ki_1" in entry
        (finding,) = found
        assert finding.verdict == "FAIL" and finding.metric and finding.value is not None and finding.value < 0.5
        assert said.startswith(f"{entry}: behind, "), said
        assert re.search(r", \d rivals measured again", said), said


def test_few_ways_have_a_direct_stream_of_one_and_of_more_threads(go: Run) -> None:
    size = ("--min-bytes", "8Mi", "--max-bytes", "8Mi", "--decide-seconds", "0")
    document = go("storage_map", *size, "--situations", "read_cold", "--candidates", "few", "--threads", "2").document
    ways = {metric["at"]["io_config"] for metric in named(document, "read_cold")}
    assert {"posix_4ki_1", "posix_1mi_1", "posix_2mi_2", "direct_1mi_1", "direct_4mi_2"} <= ways


def test_a_page_cache_that_could_not_be_dropped_is_told(go: Run) -> None:
    """Files in memory cannot be dropped from the cache."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.fail("/dev/shm is needed: every Linux has it")
    outcome = go("storage_map", "--path", str(memory), "--situations", "read_cold", "--candidates", "posix_64ki_1")
    assert outcome.code == 0 and outcome.document is not None
    path = outcome.document["path"]
    assert path["file_system"] == "tmpfs" and path["note.file_system"] == "files on tmpfs are memory, no storage"
    assert path["still_cached.4ki"] == 1
    assert not list(memory.glob(".tenken-*"))


def test_every_method_is_measured_or_its_absence_explained(go: Run) -> None:
    document = go("snapshot_io").document
    assert document is not None
    measured = {metric["at"]["method"] for metric in named(document, "write")}
    left_out = {key.split(".")[1] for key in document["path"] if key.startswith("left_out.")}
    assert {"posix", "direct", "hdf5_sec2", "hdf5_select"} <= measured
    assert {"gds", "cufile_compat", "cufile_compat_buffered", "hdf5_gds"} <= left_out
    assert not measured & left_out and "hdf5_direct" in measured | left_out
    sizes = {metric["at"]["particles"] for metric in named(document, "read")}
    assert sizes == {1001, 20020}
    select = [m for m in named(document, "write") if m["at"]["method"] == "hdf5_select"]
    assert {m["at"]["layout"] for m in select} == {"hyperslab"}
    ratios = named(document, "read_hyperslab_over_asis")
    assert {m["at"]["method"] for m in ratios} == measured - {"hdf5_select"}
    for size in sizes:
        at = {"particles": size}
        slab = figure(document, "write", method="hdf5_select", layout="hyperslab", **at)["value"]
        whole = figure(document, "write", method="hdf5_sec2", layout="asis", **at)["value"]
        assert figure(document, "write_selection_over_asis", **at)["value"] == pytest.approx(slab / whole)
    assert "built without KvikIO" in document["path"]["left_out.kvikio"]


def test_kvikio_that_the_build_lacks_is_named(go: Run) -> None:
    outcome = go("snapshot_io", "--methods", "posix,kvikio")
    assert outcome.code == 3 and outcome.document is not None
    expected = "library missing: kvikio: built without KvikIO (CMake option TENKEN_KVIKIO_ROOT)"
    assert (outcome.document["status"], outcome.document["reason"]) == ("waived", expected)


@pytest.mark.parametrize("layout", ["asis", "hyperslab"])
def test_another_reader_of_hdf5_finds_the_particles(
    run: Run, place: Path, environment: dict[str, str], layout: str
) -> None:
    import h5py
    import numpy

    command = [*SHORT["snapshot_io"], *QUICK, "--path", str(place), "--layouts", layout, "--keep", "snapshot.h5"]
    outcome = run("snapshot_io", *command, "--synced", "--cold", env=environment)
    assert outcome.code == 0, outcome.stdout
    assert [p.name for p in place.iterdir()] == ["snapshot.h5"]
    with h5py.File(place / "snapshot.h5") as file:
        shapes = {name: (dataset.shape, dataset.dtype.str) for name, dataset in file.items()}
        number = numpy.array(file["id"])
        floats = [numpy.array(file[name]) for name in file if name != "id"]
        assert all(file[name].id.get_offset() % 4096 == 0 for name in file)
    n = 20020
    wanted = {
        "asis": {"position_mass": (n, 4), "velocity_xy": (n, 2), "velocity_z": (n,)},
        "hyperslab": {"position": (n, 3), "velocity": (n, 3), "mass": (n,)},
    }[layout]
    assert shapes == {**{name: (shape, "<f4") for name, shape in wanted.items()}, "id": ((n,), "<u8")}
    assert (number & 0xFFFFFFFF == numpy.arange(n)).all()
    # numbers in [1, 2) that differ from neighbour to neighbour
    assert all((values >= 1).all() and (values < 2).all() for values in floats)
    assert all((numpy.diff(values, axis=0) != 0).mean() > 0.99 for values in floats)


@pytest.mark.parametrize("program", SHORT)
def test_a_flipped_byte_is_named_with_offset_and_rank(go: Run, program: str) -> None:
    outcome = go(program, "--inject-fault", "element", env={"OMPI_COMM_WORLD_RANK": "3"})
    assert outcome.code == 1 and outcome.document is not None
    assert outcome.document["reason"].startswith("verification: ")
    wrong = [check for check in outcome.document["verification"]["checks"] if not check["passed"]]
    pattern = r"file /\S+, offset \d+, word \d+, value 0x[0-9a-f]{8}, expected 0x[0-9a-f]{8}, rank 3"
    assert wrong and re.fullmatch(pattern, wrong[0]["detail"]), wrong


def test_the_offset_of_a_flipped_byte_is_where_it_was_flipped(go: Run) -> None:
    arguments = ("--situations", "read_cached", "--candidates", "posix_64ki_1", "--min-bytes", "256Ki")
    document = go("storage_map", *arguments, "--inject-fault", "element").document
    assert document is not None
    (wrong,) = [check for check in document["verification"]["checks"] if not check["passed"]]
    assert ", offset 262143, word 65535, value " in wrong["detail"] and wrong["error"] == 1


@pytest.mark.parametrize("candidate", ["posix_64ki_1", "direct_64ki_2", "mapped_64ki_2"])
def test_a_file_cut_short_is_named_with_offset_and_rank(go: Run, candidate: str) -> None:
    arguments = ("--situations", "read_cached", "--candidates", candidate, "--threads", "2", "--min-bytes", "256Ki")
    outcome = go("storage_map", *arguments, "--inject-fault", "cut-file", env={"PMI_RANK": "1"})
    assert outcome.code == 1 and outcome.document is not None
    reason = outcome.document["reason"]
    assert re.search(r"/read\.part is cut short: it ends at offset 131072, where .* \(rank 1\)$", reason), reason


def test_a_snapshot_cut_short_is_refused_by_name(go: Run) -> None:
    outcome = go("snapshot_io", "--inject-fault", "cut-file", env={"OMPI_COMM_WORLD_RANK": "2"})
    assert outcome.code == 1 and outcome.document is not None
    reason = outcome.document["reason"]
    assert re.search(r"/asis\.h5: .*truncated file: eof = \d+.*\(rank 2\)$", reason), reason


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("storage_map", ["--path", "/nowhere"],
         "--path '/nowhere' is invalid; allowed: an existing folder .*: No such file"),
        ("storage_map", ["--path", "/etc/passwd"],
         "--path '/etc/passwd' is invalid; allowed: .*: it is not a directory"),
        ("snapshot_io", ["--path", "/sys"],
         "--path '/sys' is invalid; allowed: an existing folder that can be written to: "),
        ("overlap", ["--path", "/proc"],
         "--path '/proc' is invalid; allowed: an existing folder that can be written to: "),
        ("storage_map", ["--max-bytes", "500T"],
         r"--path '.*' is invalid; allowed: a folder with room for two files of .*: "
         r"needed 909.49 TiB, free [\d.]+ [GMT]iB on \w+ at (/|unknown)"),
        ("snapshot_io", ["--max-particles", "999999999999"],
         "--path '.*' is invalid; allowed: a folder with room for 3 snap"),
        ("overlap", ["--bytes", "500T"], "--path '.*' is invalid; allowed: a folder with room for two states of"),
        ("storage_map", ["--max-bytes", "4096", "--min-bytes", "8Ki"],
         "--max-bytes '4096' is invalid; allowed: at least"),
        ("storage_map", ["--situations", "append"],
         "--situations 'append' is invalid; allowed: all, or some of write,"),
        ("storage_map", ["--candidates", "posix_1mb_1"],
         "--candidates .* 'posix_1mb_1' is not of the form METHOD_BLOCK_THREADS"),
        ("storage_map", ["--candidates", "posix_1mi_99", "--threads", "2"], "--candidates .* at most 2 threads"),
        ("storage_map", ["--use-map", "/nowhere.map"],
         "--use-map '/nowhere.map' is invalid; allowed: a map .*: No such file"),
        ("storage_map", ["--inject-fault", "slowest-map"],
         "--inject-fault .* is invalid; allowed: slowest-map only with --map"),
        ("storage_map", ["--map", "/nowhere/x.map"], "--map '/nowhere/x.map': cannot write"),
        ("snapshot_io", ["--methods", "hdf4"],
         "--methods 'hdf4' is invalid; allowed: all, or distinct values of posix,direct,"),
        ("snapshot_io", ["--layouts", "asis,asis"],
         "--layouts 'asis,asis' is invalid; allowed: all, or distinct values of"),
        ("snapshot_io", ["--block-bytes", "5000"], "--block-bytes '5000' is invalid; allowed: a multiple of 4096"),
        ("snapshot_io", ["--keep", "a/b"], "--keep 'a/b' is invalid; allowed: a name without /"),
        ("snapshot_io", ["--min-particles", "9", "--max-particles", "8"], "--max-particles '8' is invalid; allowed:"),
        ("overlap", ["--every", "7"], "--every '7' is invalid; allowed: fewer than --steps"),
        ("overlap", ["--modes", "magic"], "--modes 'magic' is invalid; allowed: all, or some of none,serial"),
        ("overlap", ["--bytes", "5000"], "--bytes '5000' is invalid; allowed: a multiple of 4096"),
        ("data_loading", ["--kinds", "speech,image"],
         "--kinds 'speech,image' is invalid; allowed: a list of speech, deepcam, or"),
        ("data_loading", ["--kinds", "8ki,8ki"], "--kinds '8ki,8ki' is invalid; allowed: different ones"),
        ("data_loading", ["--prefetch", "2,x"], "--prefetch '2,x' is invalid; allowed: different numbers from 0 to 64"),
        ("data_loading", ["--prefetch", "2,2"], "--prefetch '2,2' is invalid; allowed: different numbers"),
        ("data_loading", ["--ways", "posix_1mb_1"], "--ways .* 'posix_1mb_1' is not of the form METHOD_BLOCK_THREADS"),
        ("data_loading", ["--ways", "posix_1mi_9", "--threads", "2"], "--ways .* at most 2 threads"),
        ("data_loading", ["--ways", "posix_1024ki_1"], "--ways .* each by its usual name: posix_1mi_1"),
        ("data_loading", ["--cold"], "--epochs \\(default\\) is invalid; allowed: 1 with --cold"),
        ("data_loading", ["--batches", "900000000", "--kinds", "deepcam"],
         "--batches '900000000' is invalid; allowed: "),
        ("data_loading", ["--batches", "900000"],
         "--path '.*' is invalid; allowed: a folder with room for a data set of"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_line_before_anything_is_written(
    go: Run, program: str, arguments: list[str], message: str
) -> None:
    outcome = go(program, *arguments)
    assert (outcome.code, outcome.document) == (2, None)
    assert re.match(f"{program}: {message}", outcome.stderr), outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_a_map_that_is_none_is_refused_with_its_line(go: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.map"
    file.write_text("# tenken storage map 1\nwrite 4096 posix_4ki_1 nan\n")
    outcome = go("storage_map", "--use-map", str(file))
    assert outcome.code == 2 and f"{file}:2: allowed: SITUATION BYTES" in outcome.stderr
    file.write_text("# tenken storage map 1\nwrite 4096 posix_4ki_1 1.5\n")
    outcome = go("storage_map", "--use-map", str(file))
    assert outcome.code == 2 and "the map has no entry for write_synced" in outcome.stderr


@pytest.mark.parametrize(("error", "words"), [("full", "No space left on device"), ("quota", "Disk quota exceeded")])
@pytest.mark.parametrize("program", SHORT)
def test_a_disk_that_fills_up_or_a_quota_fails_the_run_and_leaves_nothing(
    go: Run, build_dir: Path, program: str, error: str, words: str
) -> None:
    outcome = go(program, env=bad_disk(build_dir, room="200000", error=error))
    assert outcome.code == 1 and outcome.document is not None
    assert words in outcome.document["reason"], outcome.document["reason"]
    assert re.search(r"cannot write( with O_DIRECT)? /\S+ at offset \d+: ", outcome.document["reason"])


def test_a_limit_of_file_sizes_fails_the_run_and_leaves_nothing(go: Run) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    # Python ignores SIGXFSZ; then a write beyond the limit is an error.
    outcome = go("overlap", preexec_fn=small_files_only, restore_signals=False)
    assert outcome.code == 1
    assert outcome.document is None or "File too large" in outcome.document["reason"]


@pytest.mark.parametrize("program", ["storage_map", "snapshot_io"])
def test_o_direct_that_is_refused_is_said_and_left_out(go: Run, build_dir: Path, program: str) -> None:
    refusing = bad_disk(build_dir, no_direct="1")
    document = go(program, env=refusing).document
    assert document is not None and document["status"] == "ok"
    assert re.fullmatch(r"refused by \w+: open with O_DIRECT: Invalid argument", document["path"]["o_direct"])
    assert not any("direct" in str(metric["at"]) for metric in document["metrics"])
    only = ["--candidates", "direct_64ki_1"] if program == "storage_map" else ["--methods", "direct"]
    outcome = go(program, *only, env=refusing)
    assert outcome.code == 3 and outcome.document is not None
    assert outcome.document["reason"].startswith("not supported by the file system: ")
    assert "O_DIRECT" in outcome.document["reason"] and "Invalid argument" in outcome.document["reason"]


def test_gpudirect_storage_that_is_asked_for_is_never_replaced(go: Run) -> None:
    outcome = go("snapshot_io", "--methods", "gds")
    assert outcome.code == 3 and outcome.document is not None and not outcome.document["metrics"]
    assert outcome.document["reason"] == "no GPUDirect Storage: gds: it takes addresses of a GPU"
    outcome = go("storage_map", "--candidates", "gds_1mi_1")
    assert outcome.code == 3 and "no GPUDirect Storage" in outcome.stdout


@pytest.mark.slow
def test_hdf5_writes_and_reads_past_the_page_cache(go: Run, build_dir: Path, direct_hdf5: dict[str, str]) -> None:
    outcome = go("snapshot_io", "--methods", "hdf5_direct,hdf5_sec2", env=direct_hdf5)
    assert outcome.code == 0 and outcome.document is not None, outcome.stdout + outcome.stderr
    assert not any(key.startswith("left_out.hdf5_direct") for key in outcome.document["path"])
    for name in ("write", "read"):
        found = {
            (m["at"]["layout"], m["at"]["particles"])
            for m in named(outcome.document, name)
            if m["at"]["method"] == "hdf5_direct"
        }
        assert found == {(layout, n) for layout in ("asis", "hyperslab") for n in (1001, 20020)}
    checked = [check for check in outcome.document["verification"]["checks"] if "by hdf5_direct" in check["what"]]
    assert len(checked) == 2 * 2 * 2 * 4 and all(check["passed"] for check in checked)

    outcome = go("snapshot_io", "--methods", "hdf5_direct", "--inject-fault", "element", env=direct_hdf5)
    assert outcome.code == 1 and outcome.document is not None and not outcome.document["verification"]["passed"]
    assert re.search(r"\.h5, offset \d+, word \d+, value ", outcome.document["reason"])

    refusing = {**direct_hdf5, **bad_disk(build_dir, no_direct="1")}
    outcome = go("snapshot_io", "--methods", "hdf5_direct", env=refusing)
    assert outcome.code == 3 and outcome.document is not None
    assert outcome.document["reason"].startswith("not supported by the file system: ")


@pytest.mark.parametrize("method", ["hdf5_sec2", "hdf5_direct", "hdf5_select"])
def test_what_hdf5_holds_back_is_not_taken_for_written(
    go: Run, build_dir: Path, direct_hdf5: dict[str, str], method: str
) -> None:
    """By default it keeps 64 KiB of a dataset until the file is closed, outside the time of the transfer."""
    slow = {**bad_disk(build_dir, delay_us="5000"), **(direct_hdf5 if method == "hdf5_direct" else {})}
    document = go("snapshot_io", "--methods", method, "--max-particles", "1001", env=slow).document
    rates = [metric for metric in named(document, "write") if metric["at"]["method"] == method]
    assert rates
    for metric in rates:
        seconds = 1001 * 36 / metric["median"] / 1e9
        assert seconds > 0.002, f"four writes of 5 ms in the mean took {seconds * 1e3} ms in {metric['id']}"


def test_without_hdf5_the_run_is_waived(go: Run) -> None:
    outcome = go("snapshot_io", env={"TENKEN_HDF5": "/nowhere/libhdf5.so"})
    assert outcome.code == 3 and outcome.document is not None
    assert outcome.document["reason"].startswith("library missing: HDF5 cannot be loaded: /nowhere/libhdf5.so")
    assert outcome.document["reason"].endswith("Debian's libhdf5-dev has it, and h5py of PyPI")
    outcome = go("snapshot_io", env={"TENKEN_HDF5": "libc.so.6"})
    assert outcome.code == 3 and "libc.so.6 is not HDF5: H5open() is missing or fails" in outcome.stdout


@pytest.mark.parametrize(
    ("named", "circle", "found"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_what_a_library_needs_is_found_next_to_it(
    go: Run, tmp_path: Path, named: bool, circle: bool, found: bool
) -> None:
    """HDF5 of h5py 3.14 has no path to the libraries in its own folder, which the system does not search. If loading
    the dependencies first does not help, because they have no SONAME or depend on each other, the message is the
    loader's.
    """
    links = [("third", ""), ("second", "third"), ("first", "second"), *([("third", "first")] if circle else [])]
    for name, needs in links:
        linked = ["-L.", "-Wl,--no-as-needed", f"-l:lib{needs}.so"] if needs else []
        soname = [f"-Wl,-soname,lib{name}.so"] if named else []
        command = ["gcc", "-shared", "-x", "c", "/dev/null", "-x", "none", "-o", f"lib{name}.so", *linked, *soname]
        subprocess.run(command, cwd=tmp_path, check=True)
    first = tmp_path / "libfirst.so"
    outcome = go("snapshot_io", env={"TENKEN_HDF5": str(first)})
    assert outcome.code == 3, outcome.stderr
    assert (f"{first} is not HDF5: H5open() is missing or fails" in outcome.stdout) == found
    assert ("libsecond.so: cannot open shared object file" in outcome.stdout) != found


def writing(place: Path) -> bool:
    """Whether a snapshot is being written; probe folders come and go meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return any(place.glob(".tenken-*/hyperslab.h5*"))
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_kill_in_the_middle_leaves_nothing_under_the_final_name(
    build_dir: Path, place: Path, environment: dict[str, str], number: signal.Signals
) -> None:
    command = [str(build_dir / "bin" / "snapshot_io"), "--path", str(place), "--keep", "snapshot.h5"]
    long = ["--min-particles", "4000", "--max-particles", "4000000", "--factor", "1000", "--seconds", "600"]
    process = subprocess.Popen([*command, *long, *QUICK[2:]], stdout=subprocess.PIPE, env=environment, text=True)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not writing(place):
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()  # it would hold the host for ten minutes
    assert process.returncode == -number and out == ""
    assert not (place / "snapshot.h5").exists()
    if number != signal.SIGKILL:
        assert list(place.iterdir()) == []


def test_two_runs_in_one_folder_do_not_disturb_each_other(
    build_dir: Path, place: Path, environment: dict[str, str]
) -> None:
    runs = [
        subprocess.Popen(
            [str(build_dir / "bin" / program), *SHORT[program], *QUICK, "--path", str(place)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for program in ("snapshot_io", "snapshot_io", "storage_map", "overlap", "overlap")
    ]
    for process in runs:
        out, _ = process.communicate(timeout=100)
        assert process.returncode == 0, out
    assert list(place.iterdir()) == []


def test_overlap_tells_cost_and_gain_of_each_mode(go: Run) -> None:
    document = go("overlap").document
    assert document is not None
    loops = {metric["at"]["mode"] for metric in named(document, "loop")}
    expected = {"none", "serial", "writer"} | ({"spare"} if len(os.sched_getaffinity(0)) > 1 else set())
    assert loops == expected
    assert {metric["at"]["mode"] for metric in named(document, "gain")} == expected - {"none", "serial"}
    for metric in named(document, "hidden"):
        mode = metric["at"]["mode"]
        seconds = {m["at"]["mode"]: m["samples"] for m in named(document, "loop")}
        for i, hidden in enumerate(metric["samples"]):
            none, serial, this = (seconds[one][i] for one in ("none", "serial", mode))
            assert hidden == pytest.approx(1 - (this - none) / (serial - none), rel=1e-6)
    assert "needs" not in document["reason"] and document["path"]["left_out.buffer"] == "no GPU to buffer on"


def test_a_snapshot_that_later_steps_overwrite_is_noticed(go: Run) -> None:
    """The check must be able to fail: a state of another step differs in every word."""
    document = go("overlap").document
    assert document is not None
    whats = [check["what"] for check in document["verification"]["checks"]]
    assert all(what.startswith("state of step 6, ") for what in whats) and len(whats) >= 2


def test_a_snapshot_is_of_its_step_however_late_it_is_written(go: Run, build_dir: Path) -> None:
    """Writes take 20 ms on average, in which the next steps begin."""
    late = go("overlap", env=bad_disk(build_dir, delay_us="20000"))
    assert late.code == 0 and late.document is not None, late.stdout


RANKS = ("--bytes", "512Ki", "--step-ms", "1", "--steps", "7", "--every", "3", "--threads", "1")


def test_over_ranks_two_threads_call_mpi_at_once_or_nothing_overlaps(
    run_ranks: Callable[..., Outcome], place: Path
) -> None:
    """Four ranks with a quarter of the state each; an MPI that provides less than MPI_THREAD_MULTIPLE, as Fujitsu's."""
    arguments = (*RANKS, "--repetitions", "3", "--path", str(place))
    full = run_ranks("overlap", 4, *arguments, OMP_NUM_THREADS="2")
    assert full.code == 0 and full.document is not None, full.stdout + full.stderr
    assert full.document["path"]["mpi_thread_level"] == "MPI_THREAD_MULTIPLE"
    assert full.document["placement"]["ranks"] == 4
    loops = {m["at"]["mode"]: m for m in named(full.document, "loop")}
    assert {"none", "serial", "writer"} <= set(loops)
    assert all(m["subject"] == {"ranks": 4} and m["count"] == 3 for m in loops.values())
    checks = full.document["verification"]["checks"]
    assert len(checks) == len(loops) - 1 and all(check["passed"] for check in checks)
    less = run_ranks("overlap", 4, *arguments, OMP_NUM_THREADS="2", OMPI_MPI_THREAD_LEVEL="1")
    assert less.code == 0 and less.document is not None, less.stdout + less.stderr
    assert {m["at"]["mode"] for m in named(less.document, "loop")} == {"none", "serial"}
    for mode in ("writer", "spare"):
        told = less.document["path"][f"left_out.{mode}"]
        assert told == "two threads would call MPI at once, which provides MPI_THREAD_FUNNELED"
    assert not list(place.iterdir())


def test_over_ranks_a_wrong_word_in_the_part_of_another_rank_fails(
    run_ranks: Callable[..., Outcome], place: Path
) -> None:
    spoilt = run_ranks("overlap", 4, *RANKS, "--repetitions", "3", "--path", str(place), "--inject-fault", "element")
    assert spoilt.code == 1 and spoilt.document is not None
    wrong = [check for check in spoilt.document["verification"]["checks"] if not check["passed"]]
    assert wrong and {check["error"] for check in wrong} == {1}
    uneven = run_ranks("overlap", 3, *RANKS, "--path", str(place))
    assert uneven.code == 2 and "a multiple of 4096 times the number of ranks" in uneven.stderr


def test_two_processes_of_a_job_are_held_against_each_other(go: Run, tmp_path: Path) -> None:
    file = tmp_path / "other.times"
    same_rounds = ("--decide-seconds", "0", "--methods")
    assert go("snapshot_io", *same_rounds, "posix,hdf5_sec2", "--times", str(file)).code == 0
    other = {tuple(line.split()[:5]): line.split()[5:] for line in file.read_text().splitlines()[2:]}
    assert len(other) == 2 * 2 * 2 * 2, "methods, layouts, directions, sizes"
    assert all(len(seconds) == 3 for seconds in other.values())
    both = go("snapshot_io", *same_rounds, "posix", "--other", str(file))
    assert both.code == 0 and both.document is not None, both.stdout
    assert both.document["path"]["other"] == "a process with CUFILE_FORCE_COMPAT_MODE unset"
    for direction in ("write", "read"):
        ratios = named(both.document, f"{direction}_over_other")
        assert len(ratios) == 4
        for one in ratios:
            at = one["at"]
            (mine,) = [m for m in named(both.document, direction) if m["at"] == at]
            seconds = sorted(map(float, other["host", direction, at["layout"], "posix", str(at["particles"])]))
            assert one["value"] == pytest.approx(mine["median"] * seconds[1] / (36e-9 * at["particles"]), rel=1e-6)
    more = go("snapshot_io", "--methods", "posix,direct", "--other", str(file))
    assert more.code == 1 and more.document is not None
    assert "the other process has no times of host write asis direct 1001" in more.document["reason"]
    spoilt = go("snapshot_io", "--methods", "posix", "--times", str(file), "--inject-fault", "element")
    assert spoilt.code == 1 and not file.exists(), "times of a process that failed"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("times\n", ":1: such a file begins with '# tenken snapshot times 1'"),
        ("# tenken snapshot times 1\n# x\n", ": it has no times"),
        ("# tenken snapshot times 1\n# x\nhost write asis posix 1001\n", ":3: 'subject direction layout"),
        ("# tenken snapshot times 1\n# x\nhost write asis posix 1001 1e-3 -1\n", ":3: a time is not above 0"),
        ("# tenken snapshot times 1\n# x\nhost write asis posix 1001 1e-3 x\n", ":3: 'subject direction layout"),
    ],
)
def test_a_wrong_file_of_times_is_refused(go: Run, tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "other.times"
    if text is not None:
        file.write_text(text)
    outcome = go("snapshot_io", "--methods", "posix", "--other", str(file))
    assert outcome.code == 2 and "--other" in outcome.stderr and says in outcome.stderr


def test_a_slow_child_does_not_pass_for_gpudirect_storage(build_dir: Path) -> None:
    """The probe's child is the program itself; without a GPU there is nothing to probe."""
    done = subprocess.run(
        [str(build_dir / "bin" / "snapshot_io"), "--gds-probe-child", "/nowhere", "0"], capture_output=True, text=True
    )
    assert done.returncode != 0


#: Every method on the host, with two batches ahead and with none.
LOADED = ("--ways", "posix_1mi_2,direct_4ki_1,mapped_64ki_2,hdf5_1mi_2", "--threads", "2")


#: Bytes of six samples of speech: frames of 80 floats, from 790 in steps of 389, those above 1670 from the beginning.
SPEECH = (790 + 1179 + 1568 + 1076 + 1465 + 973) * 80 * 4


def test_training_data_come_by_every_way_each_sample_once_an_epoch(go: Run) -> None:
    outcome = go("data_loading", *LOADED)
    assert outcome.code == 0 and outcome.document is not None, outcome.stdout + outcome.stderr
    places = {(m["at"]["kind"], m["at"]["io_config"], m["at"]["prefetch"]) for m in named(outcome.document, "samples")}
    assert places == {(k, w, p) for k in ("speech", "8ki") for w in LOADED[1].split(",") for p in (0, 2)}
    for kind in ("speech", "8ki"):
        rates = {m["id"]: m["median"] for m in named(outcome.document, "samples") if m["at"]["kind"] == kind}
        (best,) = (m for m in named(outcome.document, "best") if m["at"]["kind"] == kind)
        assert best["median"] == max(rates.values())
        mean = {"8ki": 8192, "speech": SPEECH / 6}[kind]
        for one in (m for m in named(outcome.document, "rate") if m["at"]["kind"] == kind):
            rate = rates[one["id"].replace("rate.", "samples.", 1)]
            assert one["median"] == pytest.approx(rate * mean / 1e9, rel=1e-9)
    assert all(0 <= sample <= 100 for m in named(outcome.document, "waits") for sample in m["samples"])
    checks = outcome.document["verification"]["checks"]
    assert len(checks) == 2 * len(places) and all(check["passed"] for check in checks)


@pytest.mark.parametrize("method", ["posix_1mi_2", "direct_4ki_1", "mapped_64ki_2", "hdf5_1mi_2"])
@pytest.mark.parametrize(
    ("fault", "what", "times"),
    [
        # two epochs of the untimed repetition and of the timed one; one sample twice, another one not at all
        ("element", r"checksum\..*file .*sample0\.(bin|h5), offset \d+, word 1024, value ", 4),
        ("stale-sample", r"checksum\..*(bin|h5), as_written true, read_in repetition 0, epoch 1", 1),
        ("sample-twice", r"once_an_epoch\..*read_in repetition 0, epoch 1, sample \d+, times [02]", 2),
    ],
)
def test_a_sample_that_is_wrong_stale_or_missing_is_noticed(
    go: Run, fault: str, what: str, times: int, method: str
) -> None:
    short = ("--kinds", "8ki", "--prefetch", "2", "--repetitions", "1")
    outcome = go("data_loading", *short, "--threads", "2", "--ways", method, "--inject-fault", fault)
    assert outcome.code == 1 and outcome.document is not None
    assert re.search(what, outcome.document["reason"]), outcome.document["reason"]
    (wrong,) = [check for check in outcome.document["verification"]["checks"] if not check["passed"]]
    assert wrong["error"] == times


def test_what_the_disk_delays_is_waited_for(go: Run, build_dir: Path) -> None:
    """40 reads by one thread, of 10 ms each on average, with steps that take no time: nothing can hide them."""
    slow = bad_disk(build_dir, delay_us="10000")
    few = ("--kinds", "8ki", "--ways", "posix_1mi_1", "--batch", "4", "--batches", "5", "--step-ms", "0")
    document = go("data_loading", *few, env=slow).document
    waits = {m["at"]["prefetch"]: m["samples"] for m in named(document, "waits")}
    for rate in named(document, "samples"):
        for share, samples in zip(waits[rate["at"]["prefetch"]], rate["samples"], strict=True):
            assert share / 100 * 40 / samples > 0.15, "at least three eighths of what it takes in the mean"


def test_a_way_that_cannot_be_had_waives_the_loading(go: Run, build_dir: Path) -> None:
    for way, env, reason in (
        ("gds_1mi_1", {}, "no GPUDirect Storage: there is no gds on host here"),
        ("direct_4ki_1", bad_disk(build_dir, no_direct="1"), "not supported by the file system: O_DIRECT on "),
        ("hdf5_1mi_1", {"TENKEN_HDF5": "/nowhere/libhdf5.so"}, "library missing: HDF5 cannot be loaded: /nowhere"),
    ):
        outcome = go("data_loading", "--ways", way, env=env)
        assert outcome.code == 3 and outcome.document is not None
        assert outcome.document["reason"].startswith(reason), outcome.document["reason"]


def test_files_that_were_dropped_from_memory_are_loaded_cold(go: Run) -> None:
    outcome = go("data_loading", "--cold", "--epochs", "1", "--ways", "posix_1mi_1", "--threads", "1")
    assert outcome.code == 0 and outcome.document is not None
    assert outcome.document["parameters"]["cold"] is True
    memory = go("data_loading", "--cold", "--epochs", "1", "--ways", "posix_1mi_1", "--path", "/dev/shm").document
    assert memory is not None and memory["path"]["still_cached"] == 1
