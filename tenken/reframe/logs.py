"""ReFrame's logs on a full disk, which does not end a session.

ReFrame's own handler of performance logs raises write errors while logging a finished test; the session then ends
with jobs still running. Here a line is retried, then reported with path and size, and no partial line remains. The
record, which is archived earlier, contains all data of the line.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import reframe.core.logging as rfm_logging
from reframe.core.exceptions import LoggingError

from tenken.archive import disk
from tenken.errors import printable
from tenken.reframe import full_disk


class PatientFileLog(rfm_logging.MultiFileHandler):
    """ReFrame's `filelog`, whose every failure is a LoggingError, which ReFrame tolerates."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def emit(self, record):
        try:
            disk.patiently(lambda: self._once(record), Path(self._prefix), self.sleep)
        except OSError as error:
            self._tell(record, error)
            raise LoggingError(f"{self._place}: {error.strerror}") from None

    def _once(self, record):
        self._whole: int | None = None
        try:
            try:
                super().emit(record)
            except RuntimeError as error:  # of a lock: some file systems have none
                if not isinstance(error.__context__, OSError):
                    raise
                self._MultiFileHandler__use_locking = False
                super().emit(record)
        except OSError:
            self._cut()
            raise
        except LoggingError as error:
            raise (error.__cause__ if isinstance(error.__cause__, OSError) else error) from None

    def _emit_header(self, record):
        """Called by ReFrame once the file's name is known. A new file appears with its header, of which each of two
        sessions that begin at once would write one."""
        if not os.path.exists(self.baseFilename):
            made = f"{self.baseFilename}.{os.getpid()}"
            try:
                Path(made).write_text(f"{self._MultiFileHandler__generate_header(record)}\n", self.encoding or "utf-8")
                with contextlib.suppress(OSError):
                    os.link(made, self.baseFilename)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(made)
        super()._emit_header(record)
        self._whole = os.path.getsize(self.baseFilename)

    def handleError(self, record):
        """Called within an `except`: Python's handlers would print and ignore the error."""
        raise

    @property
    def _place(self) -> str:
        return str(self.baseFilename or self._prefix)

    def _cut(self) -> None:
        """Remove a partial line, from the file and from the buffer that would be written with the next line."""
        with contextlib.suppress(OSError):
            stream = self._MultiFileHandler__streams.pop(self.baseFilename, None)
            if stream is not None:
                stream.close()
        with contextlib.suppress(OSError):
            if self._whole is not None and os.path.getsize(self.baseFilename) > self._whole:
                os.truncate(self.baseFilename, self._whole)

    def _tell(self, record: Any, error: OSError) -> None:
        size = len(self.format(record).encode())
        full_disk.lost(f"{self._place}: {size} bytes not written: {error.strerror}")


class QuietFile(RotatingFileHandler):
    """ReFrame's log of its actions: the loss of a line is reported once."""

    told = False

    def handleError(self, record):
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.told:
            self.told = True
            full_disk.lost(f"{self.baseFilename}: log lines are not written: {error.strerror}")


#: ReFrame's colour codes.
_COLOUR = re.compile(r"(\x1b\[(?:0|[34][0-7])m)")
_SKIPPED = re.compile(r"skipping test file '?([^':]+)'?: (.*)")

#: Check files that ReFrame skipped in this process because they could not be imported.
load_errors: list[str] = []


class PlainTerminal(logging.StreamHandler):
    """ReFrame's terminal handler: control characters of jobs and documents are neutralised."""

    def format(self, record: logging.LogRecord) -> str:
        parts = _COLOUR.split(super().format(record))
        return "".join(part if index % 2 else printable(part) for index, part in enumerate(parts))

    def emit(self, record: logging.LogRecord) -> None:
        found = _SKIPPED.search(record.getMessage()) if record.levelno >= logging.WARNING else None
        if found:
            load_errors.append(printable(f"{found[1]}: {found[2]}"))
        super().emit(record)


def register() -> None:
    """Replace ReFrame's `filelog`, `file` and `stream`."""
    for name, patient in (("filelog", PatientFileLog), ("file", QuietFile), ("stream", PlainTerminal)):
        _replace(name, patient)


def _replace(name: str, patient: type) -> None:
    create = rfm_logging._create_handlers[name]

    @rfm_logging.register_log_handler(name)
    def _create(site_config, config_prefix):
        handler = create(site_config, config_prefix)
        handler.__class__ = patient
        return handler
