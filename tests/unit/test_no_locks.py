"""File systems without locks: Lustre without `-o flock`, NFS without its lock service. Whoever is alone goes on."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import chained, durable
from tenken.campaign.journal import Journal
from tenken.node import state
from tenken.reframe import build, logs
from toolchains import processes


@pytest.fixture(params=["ENOLCK", "ENOSYS", "EOPNOTSUPP"], autouse=True)
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    number = getattr(errno, request.param)

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(fcntl, "lockf", refuse)


def test_a_log_of_node_checks_gets_its_line(tmp_path: Path) -> None:
    chained.append(tmp_path / "log", {"line": "OK"}, {"triad": 3.0})
    assert not list(chained.faults(tmp_path / "log")) and "OK|3|" in (tmp_path / "log").read_text()


def test_a_campaign_begins(tmp_path: Path) -> None:
    Journal(tmp_path / "hall", lambda: 0.0).open()
    assert list((tmp_path / "hall").iterdir())


def test_the_state_of_a_node_is_written(tmp_path: Path) -> None:
    with state.alone(tmp_path / "state.json") as free:
        assert free


def test_a_toolkit_is_installed(tmp_path: Path) -> None:
    with processes.only_one(tmp_path / "lock"):
        pass


def test_reframes_log_gets_its_line(tmp_path: Path) -> None:
    log = logs.PatientFileLog(f"{tmp_path}/%(where)s", fmt="%(result)s", use_locking=True)
    record = logging.LogRecord("x", logging.INFO, "x", 1, "a line", None, None)
    record.where = "system"
    record.__rfm_check__ = type("Check", (), {"variant_name": classmethod(lambda _: "Probe")})()
    for _ in range(2):
        log.emit(record)
    log.close()
    assert (tmp_path / "system" / "Probe.log").read_text() == "result\na line\na line\n"


def test_programs_are_built(tmp_path: Path) -> None:
    (tmp_path / "flock").write_text("#!/bin/sh\necho 'flock: 9: No locks available' >&2\nexit 71\n")
    (tmp_path / "flock").chmod(0o755)
    done = subprocess.run(
        ["sh", "-ec", f"{build.lock(9)} && echo goes on"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "goes on\n" and "let no other session build here" in done.stderr


def test_another_error_of_a_lock_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Bad file"):
        durable.lock(0, tmp_path)
