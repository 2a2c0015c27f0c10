"""ReFrame's performance log on a disk that may be full: no session ends by it.

ReFrame's own handler lets the error of a write leave from within the logging of a finished test; the session then ends
with jobs still running. Here a line is tried again, then told with path and bytes, and nothing of it is left behind.
The record in the archive, which is written before, has all that the line has.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import reframe.core.logging as rfm_logging
from reframe.core.exceptions import LoggingError

#: Pauses between the tries of one line, in seconds.
PAUSES = (0.2, 1.0, 3.0)


class PatientFileLog(rfm_logging.MultiFileHandler):
    """ReFrame's `filelog` whose every failure is a LoggingError, which ReFrame bears."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def emit(self, record):
        for pause in (*PAUSES, None):
            size = self._size()
            try:
                super().emit(record)
                return
            except OSError as error:
                self._cut(size)
                if pause is None:
                    self._tell(record, error)
                    raise LoggingError(f"{self.baseFilename}: {error.strerror}") from None
                self.sleep(pause)
            except LoggingError as error:
                if pause is None or not isinstance(error.__cause__, OSError):
                    raise
                self.sleep(pause)

    def handleError(self, record):
        """Called within an `except`: what Python's handlers would print and forget."""
        raise

    def _size(self) -> int | None:
        with contextlib.suppress(OSError, TypeError):
            return os.path.getsize(self.baseFilename)
        return None

    def _cut(self, size: int | None) -> None:
        """Take half a line away again."""
        with contextlib.suppress(OSError, TypeError):
            if size is not None and os.path.getsize(self.baseFilename) > size:
                os.truncate(self.baseFilename, size)

    def _tell(self, record: Any, error: OSError) -> None:
        size = len(self.format(record).encode())
        print(f"tenken: {self.baseFilename}: {size} bytes not written: {error.strerror}", file=sys.stderr)


def register() -> None:
    """Take the place of ReFrame's `filelog`."""
    create = rfm_logging._create_handlers["filelog"]

    @rfm_logging.register_log_handler("filelog")
    def _create(site_config, config_prefix):
        handler = create(site_config, config_prefix)
        handler.__class__ = PatientFileLog
        return handler
