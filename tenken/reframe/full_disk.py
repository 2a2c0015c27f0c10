"""ReFrame's writes on a full disk: retried, then reported with path and size, and the session continues.

A session that could not store something does not end with 0, whatever its verdicts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTest
from reframe.core.runtime import RuntimeContext
from reframe.core.schedulers import Job
from reframe.frontend.executors import Runner
from reframe.frontend.reporting import RunReport

from tenken.archive import disk

#: What this session could not write, one sentence each.
losses: list[str] = []


class LossError(ReframeError):
    """The session ran to its end, but some of its data could not be stored."""


def lost(text: str) -> None:
    """Report something that could not be written, and let the session's exit status reflect it."""
    losses.append(text)
    with contextlib.suppress(OSError):
        print(f"tenken: {text}", file=sys.stderr, flush=True)


def described(error: BaseException, folder: str | None = None) -> str:
    """An error caused by a full disk, with the path that was to be written, or otherwise its `folder`."""
    at = disk.fullness(error)
    if at is None:
        return str(error)
    name = os.fsdecode(at.filename) if isinstance(at.filename, (str, bytes)) else folder
    path = Path(name or ".")
    return f"{path}: cannot be written: {at.strerror}{disk.room(path if path.exists() else path.parent)}"


def register() -> None:
    """Have ReFrame's own writes retried."""
    makedir, prepare, runall, save = RuntimeContext._makedir, Job.prepare, Runner.runall, RunReport.save
    copy = RegressionTest._copy_to_outputdir

    def patient_makedir(self, *dirs, **options):
        return disk.patiently(lambda: makedir(self, *dirs, **options), os.path.join(*dirs))

    def patient_prepare(self, *arguments, **options):
        return disk.patiently(lambda: prepare(self, *arguments, **options), self.workdir)

    def patient_copy(self):
        """The copied output of a check is not a measurement: without it the verdict is the same, and the session
        reports the loss.
        """
        try:
            disk.patiently(lambda: copy(self), self.outputdir)
        except OSError as error:
            if not disk.is_full(error):
                raise
            shutil.rmtree(self.outputdir, ignore_errors=True)
            lost(f"{self.outputdir}: the output of {self.display_name} is not saved: {error.strerror}")

    def telling_runall(self, *arguments, **options):
        result = runall(self, *arguments, **options)
        if losses:
            raise LossError(f"some data could not be written ({len(losses)} losses): {losses[0]}")
        return result

    def whole_save(self, filename, *arguments, **options):
        try:
            disk.patiently(lambda: save(self, filename, *arguments, **options), os.path.dirname(filename))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(filename)
            lost(f"{filename}: the run report is not written: {error.strerror}")
            raise SystemExit(1) from None

    RuntimeContext._makedir = patient_makedir
    Job.prepare = patient_prepare
    RegressionTest._copy_to_outputdir = patient_copy
    Runner.runall = telling_runall
    RunReport.save = whole_save
