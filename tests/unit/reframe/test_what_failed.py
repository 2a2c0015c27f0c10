"""A failure states its reason: a build that could not begin, a full disk, no scheduler to submit to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import BuildError

from tenken.archive import disk
from tenken.machines import loader
from tenken.reframe import build, configuration, setup_failures
from tenken.reframe.failure_excerpt import why

MODULES = "/job.sh: line 5: /etc/profile.d/modules.sh: No such file or directory\n"
LMOD = 'Lmod has detected the following error: The following module(s) are unknown: "cuda/99"\n'


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        (MODULES, 1, "/etc/profile.d/modules.sh: No such file or directory"),
        ("/job.sh: line 7: module: command not found\n", 127, "command 'module' was not found"),
        (LMOD, 1, 'module(s) are unknown: "cuda/99"'),
        ("ERROR: Unable to locate a modulefile for 'gcc/99'\n", 1, "Unable to locate a modulefile for 'gcc/99'"),
        (
            "fatal error: error writing to /tmp/cc1.s: No space left on device\n"
            "CMake Error at FindPackage.cmake:230 (message):\n  Could NOT find MPI\n",
            1, "No space left on device",
        ),
        ("/s/rfm_job.sh: line 19: 24524 Killed     /b/stream --json result.json\n", 137, "killed by signal 9"),
        ("mkdir: cannot create 'x': Disk quota exceeded\nmake: *** [all] Error 1\n", 2, "Disk quota exceeded"),
    ],
)  # fmt: skip
def test_the_last_meaningful_words_of_a_build(text: str, status: int, says: str) -> None:
    assert says in why(text, status)


def failed(folder: Path, code: int | None, err: str) -> Any:
    """A task of a build whose job ended with a code before it compiled."""
    (folder / "err").write_text(err)
    (folder / "out").write_text("")
    job = SimpleNamespace(stdout="out", stderr="err", exitcode=code)
    check = SimpleNamespace(stagedir=str(folder), build_job=job)
    check.last_words = lambda status: build.BuildPrograms.last_words(check, status)
    error = BuildError(f"build job failed with exit code: {code}")
    return SimpleNamespace(check=check, exc_info=(BuildError, error, None))


@pytest.mark.parametrize(("out", "err"), [
    ("x.cpp:3:1: error: expected a semicolon\nninja: build stopped\n", "warning: a clock\n"),
    ("configuring\n", "x.cpp:3:1: error: expected a semicolon\n"),
])  # fmt: skip
def test_why_a_build_failed_is_found_in_either_stream(tmp_path: Path, out: str, err: str) -> None:
    check = failed(tmp_path, 1, err).check
    (tmp_path / "out").write_text(out)
    assert "x.cpp:3:1: error: expected a semicolon" in check.last_words(1)
    for name in ("out", "err"):
        (tmp_path / name).write_text("")
    assert check.last_words(1) == "it printed nothing"


def test_a_build_that_could_not_begin_shows_its_own_words(tmp_path: Path) -> None:
    task = failed(tmp_path, 1, MODULES)
    said = setup_failures.reason_of(task)
    assert said is not None and said.startswith("the build ended with exit code 1 before its programs were built: ")
    assert "modules.sh: No such file or directory" in said
    other = SimpleNamespace(check=task.check, exc_info=(ValueError, ValueError("x"), None))
    assert setup_failures.reason_of(other) is None


@pytest.mark.parametrize("place", ["/scratch/full", "stage"])
def test_a_full_disk_is_the_reason_and_not_what_cmake_could_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("TMPDIR", "/scratch/full")
    place = str(tmp_path) if place == "stage" else place
    full = f"; the disk of {place} is full (1048576 bytes are free)"
    monkeypatch.setattr(disk, "room", lambda one, few=0: full if one == place and few > 1048576 else "")
    said = setup_failures.reason_of(failed(tmp_path, 1, "CMake Error at x:1 (message):\n  Could NOT find MPI\n"))
    assert said is not None and said.index(f"the disk of {place} is full") < said.index("Could NOT find MPI")


@pytest.mark.parametrize(
    ("name", "there", "says"),
    [
        ("miyabi", set(), "qsub is not on PATH"), ("miyabi", {"qsub"}, None),
        ("minislurm", set(), "sbatch is not on PATH"), ("tsubame3", set(), "qsub"), ("h200", set(), None),
    ],
)  # fmt: skip
def test_without_a_submit_command_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, name: str, there: set[str], says: str | None
) -> None:
    monkeypatch.delenv(configuration.ON_NODE, raising=False)
    monkeypatch.setattr(
        configuration.shutil, "which", lambda command: f"/usr/bin/{command}" if command in there else None
    )
    system = loader.load(name)
    system = replace(system, partitions={n: replace(p, scheduler_status=None) for n, p in system.partitions.items()})
    said = configuration.no_submission(system)
    assert (said is None) == (says is None) and (says or "") in (said or "")
    monkeypatch.setenv(configuration.ON_NODE, "n1")
    assert configuration.no_submission(system) is None, "inside of a campaign's job checks run here"


def test_a_session_itself_is_refused_in_one_line_and_hidden_gpus_are_reported_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(configuration.ON_NODE, raising=False)
    monkeypatch.setattr(configuration.shutil, "which", lambda command: None)
    monkeypatch.setattr(configuration.sys, "argv", ["reframe", "-c", "checks", "-r", "--system", "minislurm"])
    system = replace(loader.load("minislurm"), variables={})
    monkeypatch.setattr(configuration.Runner, "runall", lambda self, cases: "run")
    configuration._refuse_what_cannot_run([system])
    runner: Any = object()
    assert configuration.Runner.runall(runner, []) == "run", "nothing is selected, so that nothing is submitted"
    with pytest.raises(SystemExit, match="tenken: sbatch is not on PATH"):
        configuration.Runner.runall(runner, ["case"])
    monkeypatch.setattr(configuration.sys, "argv", ["reframe", "-c", "checks", "--list", "--system", "minislurm"])
    configuration._refuse_what_cannot_run([system])
    monkeypatch.setattr(configuration.sys, "argv", ["reframe", "-c", "checks", "-r", "--system", "local"])
    hidden = "this machine has 4 NVIDIA GPUs, and this process sees none of them: CUDA_VISIBLE_DEVICES is empty"
    local = SimpleNamespace(name="local", partitions={}, hidden_gpus=hidden, expand=lambda env: None)
    configuration._refuse_what_cannot_run([local])  # type: ignore[list-item]
    assert capsys.readouterr().err == f"WARNING: {hidden}. No GPU will be measured.\n"
