"""Commands and locks of the toolchains end, and state what is waited for."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from toolchains import processes
from toolchains.processes import ToolchainError


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SAID_S", 0.1)
    monkeypatch.setattr(processes, "GIVEN_UP_S", 0.6)
    monkeypatch.setattr(processes, "_PAUSE_S", 0.02)


def test_a_command_that_does_not_end_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolchainError, match=r"pip of x still ran after 0 min: given up"):
        processes.run(["sleep", "60"], what="pip of x")
    assert "pip of x still runs after 0 s; given up after 0 min" in capsys.readouterr().err


def test_a_command_that_ends_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    done = processes.run(["sh", "-c", "sleep 0.3; cat; echo no >&2; exit 3"], "in\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "in\n", "no\n")
    assert "sh still runs" in capsys.readouterr().err
    assert processes.run(["cat"]).stdout == ""


def test_a_lock_that_another_process_keeps_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "lock"
    with lock.open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with (
            pytest.raises(ToolchainError, match=r"another process, which holds .*/lock, still ran"),
            processes.only_one(lock),
        ):
            pass
        assert f"which holds {lock}, still runs after 0 s" in capsys.readouterr().err
    with processes.only_one(lock):
        assert capsys.readouterr().err == ""
