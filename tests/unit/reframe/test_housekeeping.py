"""What is left, removed, listed and planned around a session, in tables by hand."""

from __future__ import annotations

import argparse
import errno
import gzip
import io
import json
import logging
import os
import socket
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import ReframeError

from tenken.errors import TenkenError
from tenken.machines import loader
from tenken.machines.errors import UnsetVariableError
from tenken.machines.model import FOR_HOST, HOST_MPI, ONE_OPENACC
from tenken.reframe import clean, failure_excerpt, full_disk, jobs, logs, matrices, plan
from tenken.reframe.machine import Machine
from tenken.reframe.orphans import KEPT
from tenken.reframe.schedulers import ledger
from tenken.reframe.schedulers.command import CommandError

DAY = 86400.0
NOW = 1_800_000_000.0


def made(path: Path, days: float, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    for one in (path, path.parent):
        os.utime(one, (NOW - days * DAY,) * 2)
    return path


# ---- tenken clean


def test_what_clean_finds_is_old_enough_and_no_longer_needed(tmp_path: Path) -> None:
    archive, stage, output = tmp_path / "perflogs", tmp_path / "stage", tmp_path / "output"
    archive.mkdir()
    made(stage / "a-seven" / "f", 7, 1000)
    made(stage / "b-younger" / "f", 6.99)
    made(stage / "c-kept" / KEPT, 30)
    entry = {"job_id": "1", "session": "s", "case": "c", "token": "t", "scheduler": "x", "cancel": "x", "stdout": "o",
             "pid": 1, "host": "h", "submitted": 1.0}  # fmt: skip
    made(stage / "d-open" / ledger.FILE, 30).write_text(json.dumps(entry))
    os.utime(stage / "d-open" / ledger.FILE, (NOW - 30 * DAY,) * 2)
    touched = made(stage / "e-touched" / "f", 30)
    os.utime(touched, (NOW - DAY,) * 2)
    linked = made(stage / "f-linked" / "f", 30, 500)
    (linked.parent / "link").symlink_to(linked)
    os.utime(linked.parent / "link", (NOW - 30 * DAY,) * 2, follow_symlinks=False)
    os.utime(linked.parent, (NOW - 30 * DAY,) * 2)
    made(stage / "g-file", 30)
    half, probe = made(archive / ".tmp-1", 1, 77), made(output / "x" / ".probe-2", 1.5)
    made(archive / ".tmp-young", 0.99)
    (archive / ".tmp-folder").mkdir()
    os.utime(archive / ".tmp-folder", (NOW - 30 * DAY,) * 2)
    log = made(output / "nightly" / "a.log", 90, 5)
    made(output / "nightly" / "b.log", 89.9)
    assert [(left.path, left.size, left.why) for left in clean.find(tmp_path, archive, 7, 90, NOW)] == [
        (stage / "a-seven", 1000, "stage folder, 7 days old"), (stage / "f-linked", 500, "stage folder, 30 days old"),
        (half, 77, "half-written file"), (probe, 10, "half-written file"), (log, 5, "log of a night, 90 days old"),
    ]  # fmt: skip


def test_clean_adds_up_what_it_removes_and_fails_if_something_stays(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    folder, file, gone = tmp_path / "folder", made(tmp_path / "file", 1), tmp_path / "gone"
    made(folder / "f", 1)
    (tmp_path / "link").symlink_to(folder)
    items = [
        clean.Left(folder, 2_500_000, "old"), clean.Left(file, 1_600_000, "half"), clean.Left(gone, 9_000_000, "x"),
        clean.Left(tmp_path / "gone-too", 9_000_000, "x"),
    ]  # fmt: skip
    monkeypatch.setattr(clean, "find", lambda *of: items)
    parser = argparse.ArgumentParser()
    clean.register(parser.add_subparsers())
    given = parser.parse_args(["clean", "--dry-run"])
    assert (given.days, given.log_days) == (7, 90) and given.func(given) == 0 and file.exists()
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["2.5", "MB", "old", str(folder)] and out[-1] == "22.1 MB would be removed"
    given = parser.parse_args(["clean"])
    assert given.func(given) == 1 and not file.exists() and not folder.exists()
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "4.1 MB were removed" and f"not removed: {gone}: No such file or directory" in out
    clean.remove(clean.Left(tmp_path / "link", 0, ""))
    assert not (tmp_path / "link").is_symlink()


# ---- tenken jobs


@pytest.fixture
def orphan(tmp_path: Path) -> ledger.Entry:
    return ledger.Entry(tmp_path, "12", "night", "Triad", "t", "slurm", "scancel", "out", 0, socket.gethostname(), NOW)


@pytest.mark.parametrize(("cancel", "answer", "state"), [
    ("scancel", "RUNNING|Triad|tenken/night/t", "queued or running"),
    ("scancel", "RUNNING|Triad|", "queued or running"),
    ("scancel", "RUNNING|Triad|tenken/other/t", "gone"), ("scancel", "RUNNING|Copy|", "gone"),
    ("scancel", "  ", "gone"),
    ("qdel", "12 R", "queued or running"), ("qdel", "", "gone"), ("other", "12 R", "unknown"),
])  # fmt: skip
def test_the_state_of_an_orphan_is_what_its_scheduler_says(orphan: Any, cancel: str, answer: str, state: str) -> None:
    one = replace(orphan, cancel=cancel)
    assert jobs._state(one, lambda words: answer) == state
    (one.folder / "out").write_text("TENKEN-BEGIN token=t node=n time=1\nTENKEN-END token=t status=0 time=2\n")
    assert jobs._state(one, lambda words: answer) == "ended"
    assert jobs._state(replace(one, token=None), lambda words: answer) != "ended"


@pytest.mark.parametrize(("state", "cancel", "error", "asked", "kept", "failed"), [
    ("queued or running", "scancel", None, 1, False, 0), ("unknown", "qdel", None, 1, False, 0),
    ("gone", "scancel", None, 0, False, 0), ("ended", "scancel", None, 0, False, 0),
    ("unknown", "other", None, 0, False, 0),
    ("queued or running", "scancel", "Invalid job id specified", 1, False, 0),
    ("queued or running", "scancel", "Unable to contact", 1, True, 1),
])  # fmt: skip
def test_orphans_are_cancelled_and_forgotten_unless_that_fails(
    orphan, state, cancel, error, asked, kept, failed
) -> None:
    (orphan.folder / ledger.FILE).write_text("{}")
    words = []

    def ask(command: list[str]) -> str:
        words.append(command)
        if error:
            raise CommandError("failed", error)
        return ""

    found = jobs.cancel([jobs.Orphan(replace(orphan, cancel=cancel), state)], ask)
    assert words == [[cancel, "12"]] * asked and (orphan.folder / ledger.FILE).exists() == kept and len(found) == failed


def test_jobs_lists_and_cancels(tmp_path: Path, monkeypatch: Any, capsys: Any, orphan: Any) -> None:
    monkeypatch.setattr(jobs.orphans, "adopt", lambda stage, root: iter(["one"]))
    monkeypatch.setattr(jobs.time, "time", lambda: NOW + 3723)
    parser = argparse.ArgumentParser()
    jobs.register(parser.add_subparsers())
    given = parser.parse_args(["jobs", "--stage", str(tmp_path)])
    assert given.func(given) == 0
    assert capsys.readouterr().out == f"adopted: one\nno orphaned job below {tmp_path}\n"
    found = [jobs.Orphan(orphan, "gone"), jobs.Orphan(orphan, "unknown"), jobs.Orphan(orphan, "gone")]
    monkeypatch.setattr(jobs, "find", lambda stage: found)
    assert given.func(given) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "3 orphaned; `tenken jobs --cancel` cancels them"
    assert out[1] == (
        f"12  gone  Triad  session night (process 0 on {socket.gethostname()}), submitted 01:02:03 ago  {tmp_path}"
    )
    monkeypatch.setattr(jobs, "cancel", lambda lost: ["job 12: no"])
    given = parser.parse_args(["jobs", "--cancel", "--stage", str(tmp_path)])
    assert given.func(given) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == ["not cancelled: job 12: no", "2 cancelled or ended, 1 not"]
    monkeypatch.setattr(jobs, "cancel", lambda lost: [])
    assert given.func(given) == 0


# ---- tenken matrices


@pytest.mark.parametrize(("entries", "symmetry", "kind", "stratum"), [
    (9999, 1.0, "2D/3D problem sequence", (3, "symmetric", "2D/3D problem")),
    (10000, 0.99, "graph", (4, "near", "graph")),
    (1, 0.5, "", (0, "near", "")), (0, 0.49, "a  b", (0, "not", "a b")),
])  # fmt: skip
def test_a_stratum_is_a_decade_a_structure_and_a_kind(entries: int, symmetry: float, kind: str, stratum: Any) -> None:
    assert matrices.Listed("G", "n", 1, 1, entries, True, symmetry, kind).stratum == stratum


INDEX = "3\n2026\nHB,a,10,20,30,1,0,0,1,0.25,0.75,graph x\nHB,b,7,7,8, 0,0,0,1,1.0,0.5, web \n"


def test_the_index_of_the_collection_is_read_by_its_columns() -> None:
    first, second = matrices.parse_index(INDEX)
    assert first == matrices.Listed("HB", "a", 10, 20, 30, True, 0.25, "graph x") and first.full_name == "HB/a"
    assert second == matrices.Listed("HB", "b", 7, 7, 8, False, 1.0, "web")
    with pytest.raises(TenkenError, match=r"ssstats\.csv:4: not a line of the index: HB,b,x"):
        matrices.parse_index(INDEX.replace("b,7", "b,x"))
    with pytest.raises(TenkenError, match="lists no matrix"):
        matrices.parse_index("3\n2026\n")


def test_the_largest_of_each_stratum_are_selected_and_sorted_by_size() -> None:
    def of(name: str, entries: int, real: bool = True, columns: int = 5, kind: str = "k") -> matrices.Listed:
        return matrices.Listed("G", name, 5, columns, entries, real, 1.0, kind)

    listed = [of("a", 100), of("b", 900), of("c", 900), of("d", 500), of("e", 1000), of("f", 99), of("g", 2000),
              of("complex", 950, real=False), of("wide", 950, columns=6), of("other", 150, kind="l")]  # fmt: skip
    assert [one.name for one in matrices.select(listed, 100, 1000, 1)] == ["other", "b", "e"]
    assert [one.name for one in matrices.select(listed, 100, 1000, 3)] == ["other", "d", "b", "c", "e"]


class Answer(io.BytesIO):
    def __init__(self, content: bytes, status: int = 200, length: int | None = -1) -> None:
        super().__init__(content)
        self.status = status
        self.headers = {} if length is None else {"Content-Length": str(len(content) if length == -1 else length)}


@pytest.mark.parametrize(("part", "answer", "whole"), [
    (b"", Answer(b"abcdef"), b"abcdef"), (b"abc", Answer(b"def", 206), b"abcdef"),
    (b"abc", Answer(b"abcdef"), b"abcdef"),
    (b"", Answer(b"abcdef", length=None), b"abcdef"), (b"abc", Answer(b"de", 206, 3), None),
    (b"", Answer(b"abc", length=2), None),
])  # fmt: skip
def test_a_download_is_resumed_only_where_the_server_continues_it(tmp_path, monkeypatch, part, answer, whole) -> None:
    target, asked = tmp_path / "m.tar.gz", []
    if part:
        (tmp_path / "m.tar.gz.part").write_bytes(part)
    monkeypatch.setattr(matrices, "_open", lambda url, offset=0: asked.append(offset) or answer)
    if whole is None:
        with pytest.raises(TenkenError, match=r"interrupted after 5 of 6 bytes|3 of 2 announced bytes"):
            matrices.download("u", target)
        assert not target.exists() and (tmp_path / "m.tar.gz.part").exists() == bool(part)
        return
    matrices.download("u", target)
    assert target.read_bytes() == whole and asked == [len(part)] and not (tmp_path / "m.tar.gz.part").exists()


@pytest.mark.parametrize("name", ["", "HB", "HB/", "/a", "HB/a/b", "HB/..", "../a"])
def test_a_matrix_is_a_group_and_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(TenkenError, match="is not GROUP/NAME"):
        matrices.Store(tmp_path).fetch(name, "http://x")


def test_the_matrix_of_an_archive_is_packed_alone_and_its_digest_remembered(tmp_path: Path, monkeypatch: Any) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as bundle:
        for name, text in (("a/a_b.mtx", b"other"), ("a/a.mtx", b"matrix")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            bundle.addfile(info, io.BytesIO(text))
    asked = []
    monkeypatch.setattr(matrices, "_open", lambda url, offset=0: asked.append(url) or Answer(packed.getvalue()))
    store = matrices.Store(tmp_path)
    target = store.fetch("HB/a", "http://x")
    assert target == tmp_path / "HB__a.mtx.gz" and gzip.decompress(target.read_bytes()) == b"matrix"
    assert asked == ["http://x/MM/HB/a.tar.gz"] and store.fetch("HB/a", "http://x") == target and len(asked) == 1
    assert store.digests()["HB/a"]["bytes"] == len(packed.getvalue()) and not (tmp_path / "HB__a.tar.gz").exists()
    target.unlink()
    packed.write(b"\0")
    with pytest.raises(TenkenError, match="but previously"):
        store.fetch("HB/a", "http://x")
    assert [line.endswith("(no longer here)") for line in matrices._fetched(store)] == [True]


# ---- what a machine and a plan say


def machine(scheduler: str = "slurm", features: Any = ("cuda",), **node: Any) -> Machine:
    known = {"cores": 48, "threads_per_core": 2, "gpu_count": 4, "gpu_memory_bytes": None, "gpu": None,
             "cuda_architectures": "90;100", **node}  # fmt: skip
    partition: Any = SimpleNamespace(
        scheduler=scheduler, node=SimpleNamespace(**known), gpu_request="gres", builds_on_login=True, image=None,
        launcher_options=["-N {num_tasks_per_node}", "-n {num_tasks}"], modules=["a"], prerun=["site"],
    )  # fmt: skip
    environment: Any = SimpleNamespace(features=set(features), cuda=None, cxx="g++", modules=["b/1"])
    return Machine(SimpleNamespace(name="s"), partition, environment)  # type: ignore[arg-type]


@pytest.mark.parametrize(("changes", "slots"), [
    ({}, 96), ({"threads_per_core": None}, 48), ({"cores": None}, None), ({"scheduler": "local"}, None),
])  # fmt: skip
def test_slots_are_the_hardware_threads_of_a_node_of_a_scheduler(changes: Any, slots: int | None) -> None:
    assert machine(**changes).slots == slots


def test_memory_of_a_gpu_is_as_found_or_of_its_data_sheet() -> None:
    sheet = SimpleNamespace(memory_gib=141.0)
    assert machine(gpu_memory_bytes=80 * 2**30, gpu=sheet).gpu_memory_gib == 80
    assert machine(gpu=sheet).gpu_memory_gib == 141 and machine().gpu_memory_gib == 0
    one = machine("local")
    assert one.measured_where_built and not machine().measured_where_built and one.gpu_resource


def test_cmake_is_told_what_is_on_and_what_is_off() -> None:
    assert machine(features=("cuda", "mpi")).cmake_options() == [
        "-DCMAKE_CXX_COMPILER=g++", "-DTENKEN_CUDA=ON", "-DTENKEN_OPENACC=OFF", "-DTENKEN_MPI=ON",
        "-DCMAKE_CUDA_ARCHITECTURES='90;100'",
    ]  # fmt: skip
    assert machine(features=()).cmake_options()[1:] == [
        "-DTENKEN_CUDA=OFF", "-DTENKEN_OPENACC=OFF", "-DTENKEN_MPI=OFF",
    ]  # fmt: skip
    assert (machine(features=()).nvcc, machine().nvcc) == (None, "nvcc")
    assert machine().in_image("run", "/f") == "run" and machine().launcher_options(8, 4) == ["-N 4", "-n 8"]


@pytest.mark.parametrize(("gpus", "listed"), [(0, False), (None, True), (4, True)])
def test_a_script_lists_gpus_unless_there_are_none(gpus: int | None, listed: bool) -> None:
    lines = machine(gpu_count=gpus).begin_commands("t", "/stage", [])
    assert any("TENKEN-GPU" in line or "nvidia-smi" in line for line in lines) == listed
    text = "\n".join(lines)
    assert text.index("TENKEN-BEGIN") < text.index("site") < text.index("for tenken_module in a b/1;")


def test_a_partition_that_cannot_be_used_is_refused() -> None:
    one = loader.load("local")
    (partition, *_) = one.partitions.values()
    bad: Any = SimpleNamespace(name="p", usable=False, scheduler="pbs", scheduler_status="no qsub")
    environment: Any = next(iter(one.environments.values()))
    with pytest.raises(ReframeError, match="partition 'p': scheduler 'pbs' cannot be used: no qsub"):
        Machine(one, bad, environment).require_variables()
    Machine(one, partition, environment).require_variables()


@pytest.mark.parametrize(("feature", "counted", "words"), [
    ("gpus2", True, "2 GPUs per node"), ("gpus8", True, "8 GPUs per node"), ("nodes4", True, "4 nodes"),
    ("nodes64", False, "64 nodes: node count unknown; set `count:` of partition 'gpu'"),
    ("mode_quick", True, "mode quick"),
    ("mode_burn_in", True, "mode burn-in"),
    ("-gpus2", True, "a single GPU per node (mode quick measures several at once)"),
    (HOST_MPI, True, "mpi"), (ONE_OPENACC, True, "openacc"), (FOR_HOST, True, "an environment"), ("cuda", True, "cuda"),
])  # fmt: skip
def test_a_missing_feature_is_named_in_words(feature: str, counted: bool, words: str) -> None:
    partition: Any = SimpleNamespace(name="gpu", node_count_unknown=not counted)
    assert plan._in_words(feature, partition) == words


@pytest.mark.parametrize(("wanted", "name", "features", "missing"), [
    (["+a +b"], "p", {"a", "b"}, set()), (["+a +b"], "p", {"a"}, {"b"}), (["+a +b", "+c"], "p", {"a"}, {"b"}),
    (["+a +b +c", "+d"], "p", {"a"}, {"d"}), (["*"], "p", set(), set()), (["p"], "p", set(), set()),
    (["q"], "p", set(), {"q"}),
    (["-a"], "p", {"a"}, {"-a"}), (["-a"], "p", set(), set()), (["+a", "*"], "p", set(), set()),
    ([], "p", set(), set()),
])  # fmt: skip
def test_what_is_missing_is_that_of_the_closest_alternative(
    wanted: Any, name: str, features: Any, missing: Any
) -> None:
    assert plan._lacking(plan._wanted(wanted), name, frozenset(features)) == missing


def one_plan(applicable: Any = (), rest: Any = (), mode: str | None = "quick", **more: Any) -> plan.Plan:
    lacking = tuple(plan.NotApplicable(name, "", lacks) for name, lacks in rest)
    return plan.Plan("s", mode, tuple(applicable), lacking, (), **more)


def test_a_plan_in_brief_counts_what_is_missing_most_frequent_first() -> None:
    system: Any = SimpleNamespace(name="s", notes=["beware"])
    rest = [*((f"a{i}", ("mpi",)) for i in range(3)), *((f"b{i}", ("cuda", "x")) for i in range(2)),
    ("c", ("x", "mode quick")),
            ("d", ("4 nodes",)), ("e", ("8 nodes",)), ("f", ("16 nodes",))]  # fmt: skip
    made = one_plan("AB", rest, machine=(("GPUs", "4"), ("Memory", "1 TiB")))
    assert list(plan.in_brief(made, system)) == [
        "GPUs    4", "Memory  1 TiB", "note: beware", "2 checks apply to s in mode quick",
        "9 do not: 3 need mpi, 2 need cuda and x, 1 needs mode quick, 1 needs 4 nodes, 2 need something else; "
        "all with reasons: tenken checks --system s --mode quick",
    ]  # fmt: skip
    assert list(plan.in_brief(one_plan("A", mode=None), system)) == ["note: beware", "1 checks apply to s"]
    assert list(plan.in_brief(one_plan("A", rest[:1], None), system))[-1] == (
        "1 do not: 1 needs mpi; all with reasons: tenken checks --system s"
    )
    five = [*rest[:1], *rest[3:4], *rest[5:7], rest[7]]
    assert "1 needs something else; all" in list(plan.in_brief(one_plan("", five), system))[-1]


def test_a_plan_in_columns_has_the_environments_of_each_partition() -> None:
    where = {"Long name": {"cpu": ("host", "mpi")}, "B": {"cpu": ("host",), "gpu": ("cuda",)}}
    made = one_plan(("Long name", "B"), [("C", ("b", "a"))], where=where)
    assert list(plan.in_columns(made, SimpleNamespace(name="s", partitions={"cpu": 1, "gpu": 2}))) == [  # type: ignore[arg-type]
        "2 checks apply to s (2 on cpu, 1 on gpu)", "  CHECK      CPU        GPU", "  Long name  host, mpi  -",
        "  B          host       cuda", "1 do not", "  CHECK  NEEDS", "  C      b, a",
    ]  # fmt: skip
    assert list(plan.in_columns(one_plan(), SimpleNamespace(name="s", partitions={"cpu": 1}))) == [
        "0 checks apply to s"
    ]  # type: ignore[arg-type]


# ---- failures and full disks


MISSING = "/tmp/job.sh: line 12: {}: command not found\n"


@pytest.mark.parametrize(("text", "status", "said"), [
    (MISSING.format("first") + MISSING.format("cmake"), 127,
     "command 'cmake' was not found: install the package cmake (apt-get install cmake)"),
    (MISSING.format("/usr/bin/mpirun"), 127,
     "command '/usr/bin/mpirun' was not found: install the package openmpi-bin (apt-get install openmpi-bin)"),
    (MISSING.format("mine"), 127, "command 'mine' was not found"), ("sh: 1: ninja: not found\n", 127,
     "command 'ninja' was not found: install the package ninja-build (apt-get install ninja-build)"),
    (MISSING.format("cmake"), 1, MISSING.format("cmake").strip()), ("plain\n", 127, "plain"),
    ("a: No space left on device\nb: Disk quota exceeded\nc failed\n", 1, "b: Disk quota exceeded"),
    ("tenken: first\ntenken: no compiler\nerror: x\n", 1, "tenken: no compiler"),
    ("a\nerror 1\nb\nerror 2\nc\nerror 3\nd\n", 1, "error 2 | error 3"), ("a\nb\nc\nd\n", 1, "b | c | d"),
    ("error 1\n" + "a\n" * 59, 1, "error 1"), ("error 1\n" + "a\n" * 60, 1, "a | a | a"), ("", 1, ""),
])  # fmt: skip
def test_of_an_output_the_lines_that_explain_a_failure_are_told(text: str, status: int, said: str) -> None:
    assert failure_excerpt.why(text, status) == said


@pytest.mark.parametrize(("end", "said"), [(True, f"... {'y' * 396}"), (False, f"{'x' * 396} ...")])
def test_a_long_reason_is_cut_at_the_side_that_matters_less(end: bool, said: str) -> None:
    assert failure_excerpt._short("x" * 400 + "y" * 400, end) == said
    assert failure_excerpt._short("x" * 400, end) == "x" * 400


@pytest.mark.parametrize(("error", "folder", "said"), [
    (OSError(errno.ENOSPC, "No space left on device", "/none/file"), None,
     "/none/file: cannot be written: No space left on"),
    (OSError(errno.ENOSPC, "No space left on device", b"/none/bytes"), "/x",
     "/none/bytes: cannot be written: No space"),
    (OSError(errno.EDQUOT, "Disk quota exceeded"), "/none/folder",
     "/none/folder: cannot be written: Disk quota exceeded"),
    (OSError(errno.ENOSPC, "No space left on device"), None, ".: cannot be written: No space left on device"),
    (ValueError("other"), "/x", "other"),
])  # fmt: skip
def test_a_full_disk_is_told_with_the_path_that_was_written(
    error: BaseException, folder: str | None, said: str
) -> None:
    assert full_disk.described(error, folder).startswith(said)


def test_the_loss_of_log_lines_is_told_once(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(full_disk, "losses", [])
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log = logs.QuietFile(tmp_path / "log")
    for error in (OSError(28, "No space left"), OSError(28, "No space left"), ValueError("bug")):
        try:
            raise error
        except Exception:
            log.handleError(logging.LogRecord("x", 1, "f", 1, "m", (), None))
    assert full_disk.losses == [f"{tmp_path / 'log'}: log lines are not written: No space left"]
    assert capsys.readouterr().err == f"tenken: {full_disk.losses[0]}\n"


@pytest.mark.parametrize(("level", "message", "kept"), [
    (logging.WARNING, "reframe: skipping test file '/c/a.py': no module", ["/c/a.py: no module"]),
    (logging.ERROR, "skipping test file /c/b.py: bad", ["/c/b.py: bad"]),
    (logging.INFO, "skipping test file 'a': b", []),
    (logging.WARNING, "skipping nothing", []),
])  # fmt: skip
def test_check_files_that_were_skipped_are_noted(monkeypatch: Any, level: int, message: str, kept: list[str]) -> None:
    monkeypatch.setattr(logs, "load_errors", [])
    stream = io.StringIO()
    logs.PlainTerminal(stream).emit(logging.LogRecord("x", level, "f", 1, message, (), None))
    assert logs.load_errors == kept and stream.getvalue() == f"{message}\n"


def test_a_plan_compares_each_check_with_each_partition_and_environment() -> None:
    def partition(name: str, *environments: str, abilities: Any = ()) -> Any:
        return SimpleNamespace(
            name=name, environments=environments, abilities=frozenset(abilities), node_count_unknown=False
        )

    of = {"host": frozenset({"for_host"}), "cuda": frozenset({"cuda"})}
    system: Any = SimpleNamespace(
        name="s", hidden_gpus="one", abilities=of.get, partitions={
            "cpu": partition("cpu", "host"), "gpu": partition("gpu", "host", "cuda", abilities={"gpus2"}),
        },
    )  # fmt: skip

    def check(name: str, systems: list[str], environs: list[str], **more: str) -> dict[str, Any]:
        return {"display_name": name, "valid_systems": systems, "valid_prog_environs": environs, **more}

    plan_of = plan.make_plan
    summary = plan.summary
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(summary, "of_system", lambda one: (("a", "1"),))
        patched.setattr(summary, "of_driver", lambda one: (("b", "2"),))
        made = plan_of(system, [
            check("Host", ["*"], ["+for_host"]), check("Gpu", ["+gpus2"], ["+cuda"]), check("Cpu", ["cpu"], ["*"]),
            check("Four", ["+gpus4"], ["+cuda +mpi"], descr="text"), check("Mpi", ["*"], ["+mpi +z"]),
        ], ["bad.py: x"], "quick")  # fmt: skip
    assert made.applicable == ("Host", "Gpu", "Cpu") and made.machine == (("a", "1"), ("b", "2"))
    assert made.where == {
        "Host": {"cpu": ("host",), "gpu": ("host",)},
        "Gpu": {"gpu": ("cuda",)},
        "Cpu": {"cpu": ("host",)},
    }
    four, mpi = made.not_applicable
    assert (four.check, four.text, four.lacks) == ("Four", "text", ("4 GPUs per node", "mpi")) and mpi.lacks == (
        "mpi",
        "z",
    )
    assert (made.load_errors, made.hidden_gpus, made.mode) == (("bad.py: x",), "one", "quick")


@pytest.mark.parametrize(("said", "listed", "errors", "fails"), [
    ('[{"a": 1}]', "skipping test file 'x.py': boom\nskipping test 'A': no\nskipping test file 'x.py': boom\n",
     ["x.py: boom", "check A: no"], None), ("[]", "", [], None),
    ("first\n\nlast word\n \n", "", [], "last word"), ("", "", [], "no output"),
])  # fmt: skip
def test_checks_are_described_and_those_that_do_not_load_are_told(monkeypatch, said, listed, errors, fails) -> None:
    actions = []

    def reframe(path: str, mode: str | None, action: str) -> Any:
        actions.append((path, mode, action))
        return SimpleNamespace(
            stdout=said if action == "--describe" else "", stderr=listed if action == "--list" else ""
        )

    monkeypatch.setattr(plan, "_reframe", reframe)
    if fails:
        with pytest.raises(TenkenError, match=f"could not list the checks: {fails}"):
            plan.describe_checks("quick")
        return
    assert plan.describe_checks("quick") == (json.loads(said), errors)
    assert actions == [("checks", "quick", "--describe"), ("checks", "quick", "--list")]


def test_an_image_has_the_folders_that_a_job_uses(monkeypatch: Any) -> None:
    from tenken.reframe import machine as module

    image = SimpleNamespace(platform="Singularity", image="/i.sif", options=["--opt"], modules=("apptainer",))
    one = machine()
    one.partition.image, one.partition.local_storage = image, "/local"
    assert one.image_modules == ("apptainer",) and machine().image_modules == ()
    monkeypatch.setattr(module, "ROOT", Path("/root-of-suite"))
    for prefix, base, mounted in (
        ("/venv", "/usr", True),
        ("/usr", "/usr", False),
        ("/root-of-suite/.venv", "/usr", False),
    ):
        monkeypatch.setattr(module.sys, "prefix", prefix)
        monkeypatch.setattr(module.sys, "base_prefix", base)
        command = one.in_image("run me", "/stage", "/beside", "/stage", gpus=True)
        places = [*["/root-of-suite"], *(["/venv"] if mounted else []), "/stage", "/beside", "/local"]
        assert [f'-B"{place}:{place}"' in command for place in places] == [True] * len(places), command
        assert command.count("/stage:/stage") == 1 and ('-B"/venv' in command) == mounted
        assert "--nv" in command and "--opt" in command and "/i.sif" in command and command.rstrip().endswith("run me")
    one.partition.local_storage = ""
    assert "/local" not in one.in_image("run", "/stage") and "--nv" not in one.in_image("run", "/stage")


def test_variables_of_a_site_must_be_set() -> None:
    def expand(env: Any) -> None:
        raise UnsetVariableError("system 's' needs TENKEN_PROJECT")

    one = machine()
    object.__setattr__(one, "system", SimpleNamespace(name="s", expand=expand))
    with pytest.raises(ReframeError, match="needs TENKEN_PROJECT"):
        one.require_variables()


def test_matrices_are_selected_listed_and_fetched_by_name(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    parser = argparse.ArgumentParser()
    matrices.register(parser.add_subparsers())
    index = tmp_path / "ssstats.csv"
    index.write_text("2\nd\nG,a,5,5,20000,1,0,0,0,1,1,k\nG,b,5,5,9999,1,0,0,0,1,1,k\n")
    given = parser.parse_args(["matrices", "select", "--index", str(index)])
    assert given.func(given) == 0 and capsys.readouterr().out == "G/a\n"
    urls = []
    monkeypatch.setattr(matrices, "_open", lambda url: urls.append(url) or Answer(index.read_bytes()))
    given = parser.parse_args(["matrices", "select", "--from", "http://m/", "--least", "9999"])
    assert given.func(given) == 0 and capsys.readouterr().out == "G/b\nG/a\n"
    assert urls == ["http://m/files/ssstats.csv"]
    with pytest.raises(TenkenError, match="none: cannot be read: No such file"):
        given = parser.parse_args(["matrices", "select", "--index", str(tmp_path / "none")])
        given.func(given)

    def fetch(self: Any, name: str, base: str) -> Path:
        if name == "G/bad":
            raise matrices.MatricesError("G/bad: no")
        return Path(f"/{base}/{name}")

    monkeypatch.setattr(matrices.Store, "fetch", fetch)
    given = parser.parse_args(["matrices", "fetch", "G/bad", "G/a", "--from", "m/", "--folder", str(tmp_path)])
    assert given.func(given) == 1 and capsys.readouterr().out == "tenken: G/bad: no\nG/a: /m/G/a\n"
    given = parser.parse_args(["matrices", "list", "--folder", str(tmp_path)])
    (tmp_path / "digests.json").write_text('{"G/a": {"bytes": 7, "sha256": "x"}}')
    (tmp_path / "G__a.mtx.gz").touch()
    assert given.func(given) == 0 and capsys.readouterr().out == "G/a: 7 bytes, SHA-256 x\n"
