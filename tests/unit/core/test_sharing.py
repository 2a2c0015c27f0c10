"""Measurements on one machine do not disturb each other: locks of any program, and how they are judged."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.judge import conditions
from tenken.judge.verdict import judge
from tenken.model import result as results
from tenken.model.catalogue import program
from tenken.model.judgement import REFERENCE, Criterion, Finding
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import Load
from tenken.model.verdicts import FAIL, INVALID, RECORDED
from tenken.reframe import joblines, locks
from tests.support.documents import gpu_document, host_document
from tests.support.judging import values_of

HELD = {"held": ["host"], "waited_seconds": 0.0, "shared_with": None, "none_because": None}
QUIET = {
    "seconds": 10.0, "load_average_before": 0.1, "load_average_after": 0.2, "own_cpu_seconds": 10.0,
    "others_cpu_seconds": 0.05, "steal_cpu_seconds": 0.0, "others": [],
}  # fmt: skip
BUSY = {
    **QUIET,
    "others_cpu_seconds": 9.0,
    "others": [{"pid": 77, "name": "stress-ng", "cpu_seconds": 8.5}],
}


def verdict(
    document: dict[str, Any], exit_status: int = 0, machine: Machine | None = None, **asked: Any
) -> tuple[str, str]:
    """Verdict and message of a document of daxpy or stream by its statement on sharing."""
    parsed = results.validate({**document, "finished": "2026-11-20T01:02:14Z"}, "test")
    declared = values_of(program(document["program"]))
    subjects = ("gpu",) if document["devices"] else ("host",)
    request = Request(program=document["program"], subjects=subjects, **{"token": None, **asked})
    judged = judge(parsed, declared, request, machine or Machine(), exit_status)
    return judged.verdict, judged.message()


def test_a_run_that_held_its_locks_is_judged_by_its_figures():
    assert verdict(host_document(locks=HELD, load=QUIET))[0] not in (INVALID, FAIL)
    assert verdict(host_document())[0] not in (INVALID, FAIL), "results of before there were locks are judged as ever"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shared_with": "host shared with pid 7 (gemm)"}, "host shared with pid 7 (gemm)"),
        ({"held": [], "none_because": "/tmp: full"}, "no lock against other measurements could be taken: /tmp: full"),
        ({"held": []}, "no lock on host was held"),
    ],
)
def test_without_its_locks_a_run_is_invalid(changes, said):
    found, message = verdict(host_document(locks={**HELD, **changes}))
    assert found == INVALID and said in message


def test_each_gpu_is_held_by_its_uuid():
    document = gpu_document(gpus=2)
    uuids = [device["uuid"] for device in document["devices"]]
    assert verdict({**document, "load": QUIET, "locks": {**HELD, "held": ["host", *uuids]}})[0] != INVALID
    found, message = verdict({**document, "load": QUIET, "locks": {**HELD, "held": ["host", uuids[0]]}})
    assert found == INVALID and f"no lock on {uuids[1]} was held" in message


def test_a_run_that_gave_up_waiting_is_invalid_and_no_failure():
    said = "host shared with pid 7 (gemm): waited 60 s for it"
    gone = host_document(status="failed", reason=said, metrics=[], limits={}, locks={**HELD, "shared_with": said})
    assert verdict(gone, 1) == (INVALID, f"{gone['host']['name']}: {said}")
    assert verdict({**gone, "token": "another"}, 1, token="mine")[0] == FAIL, "of another attempt"
    assert verdict({**gone, "locks": HELD}, 1)[0] == FAIL, "it failed of itself"
    assert verdict(gone, 0)[0] == FAIL, "its exit status contradicts it"


def test_load_from_elsewhere_is_named_in_what_is_invalid():
    shared = {**HELD, "shared_with": "host shared with pid 7 (gemm)"}
    found, message = verdict(host_document(locks=shared, load=BUSY))
    assert found == INVALID
    assert (
        "load from elsewhere: other processes used 0.90 CPUs for 10.0 s (pid 77 stress-ng 8.5 s); load average 0.2"
        in message
    )
    assert "load from elsewhere" not in verdict(host_document(locks=shared, load=QUIET))[1]


def test_load_from_elsewhere_is_a_note_beside_a_value_of_the_host_and_excuses_its_miss():
    quiet, busy = (host_document(locks=HELD, load=load) for load in (QUIET, BUSY))
    assert verdict(busy)[0] == verdict(quiet)[0] and "load from elsewhere" not in verdict(quiet)[1]
    assert "load from elsewhere" in verdict(busy)[1]
    many = {**BUSY, "others": [{"pid": pid, "name": "daemon", "cpu_seconds": 1.9} for pid in range(4)]}
    assert "load from elsewhere" not in verdict(host_document(locks=HELD, load=many))[1], "a fifth of a CPU each"
    driver = {**BUSY, "others": [{"pid": 8180, "name": "UVM GPU1 BH", "cpu_seconds": 8.5}]}
    assert "load from elsewhere" not in verdict(host_document(locks=HELD, load=driver))[1], "its own migrations"
    missed = Machine(
        criterion=lambda _, one: Criterion(REFERENCE, one.value * 2, one.value * 2, None, "GB/s", "median", "x")
    )
    assert verdict(quiet, machine=missed)[0] == FAIL
    assert verdict(busy, machine=missed)[0] == INVALID


# -- third-party programs: the job script's own lines --


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / locks.FUNCTIONS_FILE).write_text(locks.functions("fio", "one"))
    return tmp_path


def script(folder: Path, token: str, command: str, gpus: bool = False, **env: str) -> subprocess.Popen[str]:
    (folder / locks.FUNCTIONS_FILE).write_text(locks.functions("fio", token))
    lines = [
        "tenken_nodes=here",
        *locks.hold(gpus), command, *joblines.command_end(),
    ]  # fmt: skip
    return subprocess.Popen(
        ["bash", "-c", "\n".join(lines)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "TENKEN_LOCKS": str(folder / "locks"), **env},
    )  # fmt: skip


@pytest.fixture
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A measurement that continues until it is stopped."""
    first = script(folder, "one", "echo begun; until [ -e over ]; do sleep 0.1; done")
    assert first.stdout is not None
    while first.stdout.readline() != "begun\n":
        assert first.poll() is None
    yield first
    (folder / "over").touch()
    first.wait()
    first.stdout.close()


def test_a_second_script_is_told_with_whom_it_would_share(folder, holder):
    told, _ = script(folder, "two", "echo measured", TENKEN_LOCK_SECONDS="0").communicate()
    assert "measured" not in told and joblines.end_status(f"TENKEN-BEGIN token=two\n{told}", "two") == 1
    said = locks.told(told)
    assert said is not None and said["shared_with"] == f"host shared with pid {holder.pid} (fio)" and not said["held"]


def test_ranks_of_one_job_share_its_lock(folder, holder):
    (folder / locks.FUNCTIONS_FILE).write_text(locks.functions("fio", "one"))
    words = ["sh", "-c", locks.around_rank().replace("./", f"{folder}/") + "echo measured"]
    env = {**os.environ, "TENKEN_LOCKS": str(folder / "locks")}
    assert subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout == "measured\n"


def test_a_second_script_begins_when_the_first_has_ended(folder, holder):
    second = script(folder, "two", "echo measured")
    (folder / "over").touch()
    told, _ = second.communicate()
    assert "measured" in told and locks.told(told)["held"] == ["host"]  # type: ignore[index]


def test_host_and_every_gpu_are_held_while_the_command_runs(folder, monkeypatch):
    """The command tries each lock anew."""
    smi = folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text('[ "$1" != -L ] || for i in 0 1 2; do echo "GPU $i: NVIDIA X (UUID: GPU-a$i)"; done\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    tries = 'for one in locks/*; do flock -n "$one" true || echo "in use: ${one#*/}"; done'
    told, _ = script(folder, "one", tries, gpus=True, TENKEN_LOCK_SECONDS="0").communicate()
    assert set(re.findall("in use: (host|GPU-a.)", told)) == {"host", "GPU-a0", "GPU-a1", "GPU-a2"}, told
    assert locks.told(told)["held"] == ["host", "GPU-a0", "GPU-a1", "GPU-a2"]  # type: ignore[index]


def test_without_a_folder_the_script_says_so_and_goes_on(folder):
    told, _ = script(folder, "one", "echo measured", TENKEN_LOCKS="/proc/none").communicate()
    assert "measured" in told and "/proc/none" in locks.told(told)["none_because"]  # type: ignore[index]


def test_load_is_what_others_did_between_begin_and_end(tmp_path):
    def reading(time: int, busy: int, steal: int, children: int, other: int) -> str:
        tail = "20 0 1 0 1 1 1"
        return "\n".join([
            f"tenken 50 100 {time}.5 0.50 0.4 0.3 1/99 60", f"cpu  {busy} 0 0 900 10 0 0 {steal} 0 0",
            f"1 (init) S 0 1 1 0 -1 1 1 1 1 1 10 10 0 0 {tail}", f"40 (bash) S 1 1 1 0 -1 1 1 1 1 1 500 0 0 0 {tail}",
            f"50 (bash) S 40 1 1 0 -1 1 1 1 1 1 10 0 {children} 0 {tail}",
            f"70 (a) (b) S 1 1 1 0 -1 1 1 1 1 1 {other} 0 0 0 {tail}",
        ])  # fmt: skip

    (tmp_path / locks.LOAD_FILES[0]).write_text(reading(100, 1000, 40, 0, 300))
    (tmp_path / locks.LOAD_FILES[1]).write_text(reading(110, 3000, 65, 1400, 900))
    found = locks.load(tmp_path)
    assert found == {
        "seconds": 10.0, "load_average_before": 0.5, "load_average_after": 0.5, "own_cpu_seconds": 14.0,
        "others_cpu_seconds": 6.0, "steal_cpu_seconds": 0.25,
        "others": [{"pid": 70, "name": "a) (b", "cpu_seconds": 6.0}],
    }  # fmt: skip
    results.validate(host_document(locks=HELD, load=found), "test")
    (tmp_path / locks.LOAD_FILES[1]).write_text("")
    assert locks.load(tmp_path) is None


HOST, GPU = (SimpleNamespace(id=f"one.{of}0", subject=SimpleNamespace(kind=of)) for of in ("host", "gpu"))
FAILED, OTHER, VOID = (FAIL, HOST.id), (FAIL, GPU.id), (INVALID, None)


@pytest.mark.parametrize(
    ("others", "steal", "process", "metrics", "found", "expected"),
    [
        # two CPU seconds of ten are named: a note beside a value of the host, and the reason of what is missed
        (1.9, 0.05, ("x", 2.0), [HOST], [FAILED], None),
        (1.9, 0.1, ("x", 2.0), [HOST], [], RECORDED),
        (1.9, 0.1, ("x", 2.0), [HOST], [FAILED], INVALID),
        (1.9, 0.1, ("x", 2.0), [HOST, GPU], [OTHER], RECORDED),
        (1.9, 0.1, ("x", 2.0), [GPU], [OTHER], None),
        (1.9, 0.1, ("x", 1.9), [HOST], [FAILED], None),
        (1.9, 0.1, ("x", 1.9), [HOST], [FAILED, VOID], INVALID),
        (1.9, 0.1, ("x", 2.0), [GPU], [VOID], INVALID),
        # the driver's own thread
        (9.0, 0.0, ("UVM GPU1 BH", 9.0), [HOST], [FAILED], None),
    ],
)
def test_when_other_load_is_named(others, steal, process, metrics, found, expected):
    load = Load(10.0, 0.5, 0.5, 1.0, others, steal, ((7, *process),))
    run: Any = SimpleNamespace(load=load, node="n1", metrics=metrics)
    some = [Finding(verdict, "x", metric) for verdict, metric in found]
    said = conditions.named(run, some)
    assert [one.verdict for one in said] == ([expected] if expected else [])
    assert all(one.message.startswith("n1: load from elsewhere: ") for one in said)
