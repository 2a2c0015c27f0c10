"""The performance log on a full disk: retried, reported, and without partial lines."""

from __future__ import annotations

import contextlib
import errno
import logging
import resource

import pytest
import reframe.core.logging as rfm_logging
from reframe.core.exceptions import LoggingError

from tenken.archive import disk
from tenken.reframe import logs

HEADER, BEFORE, LINE = "result|x", "before|1", "twelve bytes|2"


class Check:
    """What ReFrame's handler reads of a check."""

    @classmethod
    def variant_name(cls):
        return "Probe"


def record():
    made = logging.LogRecord("x", logging.INFO, "x", 1, LINE, None, None)
    made.__rfm_check__, made.where = Check(), "system"
    return made


def handler(folder):
    made = logs.PatientFileLog(f"{folder}/%(where)s", fmt="%(result)s|%(check_x)s")
    made.setFormatter(logging.Formatter("%(message)s"))
    made.pauses = []
    made.sleep = made.pauses.append
    return made


@pytest.fixture
def log(tmp_path):
    """A performance log of earlier sessions."""
    path = tmp_path / "system" / "Probe.log"
    path.parent.mkdir()
    path.write_text(f"{HEADER}\n{BEFORE}\n")
    return path


@contextlib.contextmanager
def full_at(size):
    """No file grows beyond `size` bytes: as on a full disk, a part of a line is written, with another error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_for_a_moment_loses_nothing_and_writes_nothing_twice(log, tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "is_full", lambda error: error.errno == errno.EFBIG)
    one, before = handler(tmp_path), log.read_text()

    def pause(seconds):
        one.pauses.append(seconds)
        assert log.read_text() == before
        if len(one.pauses) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)[1:] * 2)

    one.sleep = pause
    with full_at(len(before) + 5):
        one.emit(record())
    one.emit(record())
    assert log.read_text() == f"{before}{LINE}\n{LINE}\n"
    assert one.pauses == [0.2, 1.0]


@pytest.mark.parametrize("earlier", [True, False], ids=["earlier sessions", "a new file"])
def test_a_disk_that_stays_full_is_told_with_path_and_bytes(log, tmp_path, capsys, earlier):
    if not earlier:
        log.unlink()
    before = log.read_text() if earlier else f"{HEADER}\n"
    with full_at(len(before) + 5), pytest.raises(LoggingError, match="File too large"):
        handler(tmp_path).emit(record())
    assert log.read_text() == before
    assert f"tenken: {log}: 14 bytes not written: File too large" in capsys.readouterr().err
    handler(tmp_path).emit(record())
    assert log.read_text() == f"{before}{LINE}\n"
    assert list(log.parent.iterdir()) == [log]


def test_two_sessions_that_create_a_file_at_once_write_one_header(tmp_path):
    log = tmp_path / "system" / "Probe.log"
    one, other = handler(tmp_path), handler(tmp_path)
    log.parent.mkdir()
    for each in (one, other):
        each.baseFilename = str(log)
        each._emit_header(record())
    for each in (one, other):
        each.emit(record())
    assert log.read_text() == f"{HEADER}\n{LINE}\n{LINE}\n"
    assert list(log.parent.iterdir()) == [log]


def test_the_handler_takes_the_place_of_reframe_s(monkeypatch):
    monkeypatch.setitem(rfm_logging._create_handlers, "filelog", lambda *_: rfm_logging.MultiFileHandler("x"))
    logs.register()
    assert isinstance(rfm_logging._create_handlers["filelog"](None, ""), logs.PatientFileLog)
