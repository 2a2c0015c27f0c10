"""Numbers of jobs that a scheduler lost, stored for later sessions. The scheduler reuses them, and a node that still
has such a job rejects the new one.

Each is an empty file in the archive, `.lost/SYSTEM/NUMBER`. Two sessions may add one at the same time, and a kill
leaves it complete or absent. On a full disk only this session knows the number.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from tenken.archive.records import safe_name

FOLDER = ".lost"


class Numbers:
    """A set of job numbers; `folder` None: for this process only."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._known: set[str] = set()

    def add(self, number: str) -> None:
        if number in self._known:
            return
        self._known.add(number)
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / safe_name(number)).touch()

    def __contains__(self, number: str) -> bool:
        if number in self._known:
            return True
        with contextlib.suppress(OSError):
            return self.folder is not None and (self.folder / safe_name(number)).is_file()
        return False
