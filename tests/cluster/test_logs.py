"""The performance log on a full disk: retried, reported, and without partial lines."""

from __future__ import annotations

import errno
import logging

import pytest
import reframe.core.logging as rfm_logging
from reframe.core.exceptions import LoggingError

from tenken.reframe import logs


class Stream:
    """A file on a disk that is full for a number of flushes."""

    full = 0

    def __init__(self, path):
        self.file = path.open("a")

    def write(self, text):
        self.file.write(text)

    def flush(self):
        if Stream.full:
            Stream.full -= 1
            self.file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")
        self.file.flush()


@pytest.fixture
def handler(tmp_path, monkeypatch):
    """A handler without its own header and streams."""

    def emit(self, record):
        self.baseFilename = str(tmp_path / "log")
        self.stream = Stream(tmp_path / "log")
        logging.StreamHandler.emit(self, record)

    monkeypatch.setattr(rfm_logging.MultiFileHandler, "emit", emit)
    made = logs.PatientFileLog("%(x)s", fmt="%(message)s")
    made.setFormatter(logging.Formatter("%(message)s"))
    made.baseFilename = str(tmp_path / "log")
    made.pauses = []
    made.sleep = made.pauses.append
    (tmp_path / "log").write_text("before\n")
    yield made
    Stream.full = 0


RECORD = logging.LogRecord("x", logging.INFO, "x", 1, "twelve bytes", None, None)


def test_a_disk_that_is_full_for_a_moment_loses_nothing(handler, tmp_path):
    Stream.full = 2
    handler.emit(RECORD)
    assert (tmp_path / "log").read_text() == "before\ntwelve bytes\n"
    assert handler.pauses == [0.2, 1.0]


def test_a_disk_that_stays_full_is_told_with_path_and_bytes(handler, tmp_path, capsys):
    Stream.full = 99
    with pytest.raises(LoggingError, match="No space left"):
        handler.emit(RECORD)
    assert (tmp_path / "log").read_text() == "before\n"
    assert f"tenken: {tmp_path}/log: 12 bytes not written: No space left on device" in capsys.readouterr().err


def test_the_handler_takes_the_place_of_reframe_s(monkeypatch):
    monkeypatch.setitem(rfm_logging._create_handlers, "filelog", lambda *_: rfm_logging.MultiFileHandler("x"))
    logs.register()
    assert isinstance(rfm_logging._create_handlers["filelog"](None, ""), logs.PatientFileLog)
