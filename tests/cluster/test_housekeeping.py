"""What killed sessions leave: jobs, stage folders and partial files; and what a selection builds."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
from reframe.core.backends import getlauncher

import tenken.reframe.launchers  # noqa: F401 -- registers them
from tenken.errors import TenkenError
from tenken.reframe import build, clean, jobs
from tenken.reframe.configuration import impatience
from tenken.reframe.schedulers import ledger
from tenken.reframe.schedulers.command import CommandError

DEAD = 2**22 + 1  # larger than any process id on Linux


def leave(folder, pid=DEAD, host=None, token="t", cancel="scancel"):
    """A stage folder with a submitted job."""
    folder.mkdir(parents=True)
    words = {
        "job_id": "12", "session": "s", "case": "rfm_A", "token": token, "scheduler": "tenken-slurm", "cancel": cancel,
        "stdout": "rfm_job.out", "pid": pid, "host": host or socket.gethostname(), "submitted": time.time(),
    }  # fmt: skip
    (folder / ledger.FILE).write_text(json.dumps(words))
    return folder


def test_a_ledger_says_what_was_submitted_until_the_end_was_seen(tmp_path):
    job = SimpleNamespace(workdir=str(tmp_path), jobid="7", name="rfm_A", token="t", stdout="out")
    ledger.write(job, "tenken-pbs", "qdel")
    (entry,) = ledger.entries(tmp_path)
    assert (entry.job_id, entry.case, entry.pid, entry.cancel) == ("7", "rfm_A", os.getpid(), "qdel")
    ledger.close(job)
    assert list(ledger.entries(tmp_path)) == []
    (tmp_path / ledger.FILE).write_text("half")
    assert list(ledger.entries(tmp_path)) == []


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("RUNNING|rfm_A|tenken/s/t\n", "queued or running"), ("", "gone"),
        ("RUNNING|rfm_A|by the site\n", "queued or running"), ("RUNNING|rfm_B|\n", "gone"),
        ("RUNNING|rfm_A|tenken/s/of-another\n", "gone"),
        (CommandError("x", "slurm_load_jobs error: Invalid job id specified"), "gone"),
        (CommandError("x", "Unable to contact slurm controller"), "unknown"),
    ],
)  # fmt: skip
def test_orphans_are_told_by_what_the_scheduler_says(tmp_path, answer, state):
    leave(tmp_path / "a")
    leave(tmp_path / "b", host="another")
    asked = []

    def ask(words):
        asked.append(words)
        if isinstance(answer, Exception):
            raise answer
        return answer

    (orphan,) = jobs.find(tmp_path, ask)
    assert orphan.state == state and orphan.entry.folder == tmp_path / "a"
    assert asked == [["squeue", "-h", "-o", "%T|%j|%k", "-j", "12"]]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("Batch Request: 12.nqsv does not exist on nqsv.\n", "gone"), ("No such request: 12.nqsv.\n", "gone"),
        ("12.nqsv         tk000000 user     gen_S       0 RUN -    6.27G   0.15      1 Y Y Y    1\n",
         "queued or running"),
    ],
)  # fmt: skip
def test_nqsv_says_with_status_0_that_a_request_is_gone(tmp_path, answer, state):
    leave(tmp_path / "a", cancel="qdel")
    (orphan,) = jobs.find(tmp_path, lambda words: answer)
    assert orphan.state == state


def test_an_orphan_that_ended_is_told_by_its_own_mark(tmp_path):
    folder = leave(tmp_path / "a")
    (folder / "rfm_job.out").write_text("TENKEN-BEGIN token=t node=n time=1\nTENKEN-END token=t status=0 time=2\n")
    (orphan,) = jobs.find(tmp_path, lambda words: "R")
    assert orphan.state == "ended"
    assert jobs.cancel([orphan], pytest.fail) == []
    assert jobs.find(tmp_path) == []


def test_an_orphan_that_cannot_be_cancelled_is_told_and_kept(tmp_path, capsys):
    leave(tmp_path / "a", cancel="false-scancel")
    (orphan,) = jobs.find(tmp_path)
    assert orphan.state == "unknown"
    leave(tmp_path / "b")

    def ask(words):
        if words[0] == "scancel":
            raise CommandError("scancel ended with 1", "Unable to contact slurm controller")
        return "R|rfm_A|tenken/s/t"

    found = jobs.find(tmp_path, ask)
    assert jobs.cancel([one for one in found if one.state == "queued or running"], ask) == [
        "job 12 of rfm_A: scancel ended with 1"
    ]
    assert (tmp_path / "b" / ledger.FILE).exists()


def make_old(path, days):
    for one in [*path.rglob("*"), path]:
        os.utime(one, (time.time() - days * 86400,) * 2)


def test_clean_takes_old_stage_folders_leftovers_and_logs_alone(tmp_path, monkeypatch, capsys):
    root, archive = tmp_path, tmp_path / "perflogs"
    for name in ("old", "new"):
        (root / "stage" / name / "x").mkdir(parents=True)
        (root / "stage" / name / "x" / "f").write_bytes(b"x" * 1000)
    leave(root / "stage" / "busy" / "x")
    archive.mkdir()
    for name in (".tmp-a", "a.json"):
        (archive / name).write_text("{}")
    (root / "output" / "nightly").mkdir(parents=True)
    (root / "output" / "nightly" / "s.log").write_text("")
    for path in (root / "stage" / "old", root / "stage" / "busy", archive, root / "output"):
        make_old(path, 100)
    (root / "output" / "nightly" / "t.log").write_text("")
    monkeypatch.setattr(clean, "ROOT", root)
    monkeypatch.setattr(clean, "archive_root", lambda: archive)
    arguments = argparse.Namespace(dry_run=True, days=7, log_days=90)
    assert clean.main(arguments) == 0
    assert (root / "stage" / "old").exists() and "would be removed" in capsys.readouterr().out
    assert clean.main(argparse.Namespace(dry_run=False, days=7, log_days=90)) == 0
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    busy = f"stage/busy/x/{ledger.FILE}"
    assert left == {"stage/new/x/f", busy, "perflogs/a.json", "output/nightly/t.log"}


def case(program, partition="m:gpu", environ="cuda", first=False):
    return SimpleNamespace(
        check=SimpleNamespace(program=program, comes_first=first), partition=SimpleNamespace(fullname=partition),
        environ=SimpleNamespace(name=environ),
    )  # fmt: skip


def test_a_selection_builds_only_its_programs():
    build.note_selection([case("stream"), case("stream"), case("daxpy", environ="host"), case("nosuch"), case(None)])
    assert build.selected("m:gpu", "cuda") == ["stream"]
    assert build.selected("m:gpu", "host") == ["daxpy"]
    assert build.selected("m:gpu", "nvhpc") == []
    build.note_selection([])
    assert build.selected("m:gpu", "cuda") == []


def test_what_comes_first_is_built_apart():
    build.note_selection([case("stream", first=True), case("stream"), case("daxpy"), case("hpcg", environ="host")])
    assert build.selected("m:gpu", "cuda", first=True) == ["stream"]
    assert build.selected("m:gpu", "cuda") == ["daxpy", "stream"]
    assert build.selected("m:gpu", "host", first=True) == []
    assert build.firsts("m:gpu") == ["cuda"] and build.firsts("m:cpu") == []
    # builds that share a folder with the first one cannot configure at the same time
    assert build.others("m:gpu") == ["host"] and build.others("m:cpu") == []
    build.note_selection([])


@pytest.mark.parametrize(
    ("ninja", "asked", "chosen"),
    [
        ("exit 0", "", "Ninja"),
        (None, "", "Unix Makefiles"),
        ("exit 127", "", "Unix Makefiles"),  # a shim that leads nowhere
        ("exit 0", "Unix Makefiles", "Unix Makefiles"),
    ],
)
@pytest.mark.parametrize("configured", ["Ninja", "Unix Makefiles", None])
def test_ninja_builds_where_it_starts_and_make_where_not(tmp_path, ninja, asked, chosen, configured):
    tools, tree = tmp_path / "bin", tmp_path / "tree"
    tools.mkdir()
    (tree / "CMakeFiles").mkdir(parents=True)
    (tree / ".lock").touch()
    if configured:
        (tree / "CMakeCache.txt").write_text(
            f"CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_GENERATOR:INTERNAL={configured}\n"
        )
    for tool in ("grep", "rm"):
        (tools / tool).symlink_to(shutil.which(tool))
    if ninja:
        (tools / "ninja").write_text(f"#!/bin/sh\n{ninja}\n")
        (tools / "ninja").chmod(0o755)
    lines = ["set -e", *build.choose_generator(str(tree)), 'echo "$tenken_generator"']
    done = subprocess.run(
        [shutil.which("bash"), "-c", "\n".join(lines)], env={"PATH": str(tools), "CMAKE_GENERATOR": asked},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{chosen}\n"
    # CMake would refuse a tree of the other generator; the same one continues
    kept = [(tree / name).exists() for name in ("CMakeCache.txt", "CMakeFiles")]
    assert kept == [configured == chosen] * 2
    assert (tree / ".lock").exists()


@pytest.mark.parametrize(("there", "seconds"), [(True, 5), (False, 1)])
def test_a_file_is_waited_for_and_no_longer_than_that(tmp_path, there, seconds):
    file = tmp_path / "a b"
    if there:
        file.touch()
    begin = time.monotonic()
    subprocess.run(["bash", "-c", build.wait_for(file, seconds)], check=True, timeout=60)
    assert (time.monotonic() - begin < 5) if there else (time.monotonic() - begin >= 1)


def test_a_build_waits_as_long_as_the_check_that_comes_first_runs(tmp_path):
    """Beyond the time in which it must begin; a check that was killed is not waited for."""
    over = tmp_path / "a b"
    for ends in (f": > '{over}'", "kill -9 $$"):
        over.unlink(missing_ok=True)
        script = f"echo $$ > '{build.first_began(over)}'; sleep 3; {ends}; sleep 60"
        with subprocess.Popen(["bash", "-c", script]) as job:
            begin = time.monotonic()
            line = f"{build.wait_for_first(over, 1)}; date"
            threading.Timer(4, job.poll).start()  # as its parent does: a zombie still has a number
            subprocess.run(["bash", "-c", line], check=True, timeout=30, stdout=subprocess.DEVNULL)
            assert 2.5 <= time.monotonic() - begin < 20
            job.kill()
    begin = time.monotonic()
    subprocess.run(["bash", "-c", build.wait_for_first(tmp_path / "none", 1)], check=True, timeout=30)
    assert time.monotonic() - begin < 20, "it never began"


def test_a_build_ends_with_the_builds_beside_it(tmp_path, monkeypatch):
    """Measurements on the machine that compiles begin only after all compilation."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setenv("TENKEN_SESSION", "s")

    def job(environment: str, seconds: float) -> subprocess.Popen:
        lines = [*build.under_way(environment), f"sleep {seconds}", *build.all_over(environment), "date +%s.%N"]
        return subprocess.Popen(["bash", "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True)

    folder = tmp_path / ".build" / ".under-way-s"
    long = job("cuda", 6)
    while not (folder / "cuda").exists():
        time.sleep(0.05)
    short = job("host", 0.1)
    ended = [float(one.communicate(timeout=120)[0]) for one in (short, long)]
    assert ended[0] > ended[1] - 3, "the short one waited for the long one"
    assert not folder.exists()
    killed = job("cuda", 60)
    while not (folder / "cuda").exists():
        time.sleep(0.05)
    killed.kill()  # its sleep survives, and would hold the pipe
    killed.wait(60)
    assert job("host", 0).communicate(timeout=60)[0], "nobody waits for a build that was killed"


def test_impatience_is_read_and_refused_by_word():
    assert impatience("output=00:00:05,cancel=01:00:00") == {"output": 5.0, "cancel": 3600.0}
    assert impatience("") == {}
    with pytest.raises(TenkenError, match="TENKEN_PATIENCE: 'submit=5'; allowed: pending, blocked, silence"):
        impatience("submit=5")


def test_open_mpi_without_the_scheduler_gets_the_nodes_of_the_job(tmp_path):
    (tmp_path / "mpirun").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "mpirun").chmod(0o755)
    launcher = getlauncher("openmpi-hosts")()
    words = " ".join(launcher.command(SimpleNamespace(num_tasks=4, num_tasks_per_node=2)))
    done = subprocess.run(
        ["sh", "-c", f"tenken_nodes=n1,n2; {words} prog"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "-np 4 --host n1:2,n2:2 --map-by ppr:2:node prog\n"
