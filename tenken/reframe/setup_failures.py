"""Archives a record of each case that failed before it was judged: rejected by a hook, without its programs, on a full
disk.

ReFrame reports such a case only in its run report, without a node, and a killed session has no run report.
"""

from __future__ import annotations

from typing import Any

from reframe.core.exceptions import BuildError, what
from reframe.core.logging import getlogger
from reframe.frontend.executors import RegressionTask

from tenken.archive import disk
from tenken.model import job_exit
from tenken.reframe.full_disk import described

#: By test case, builds included, why it failed: the message for others that depend on it.
_reasons: dict[Any, str] = {}


def register() -> None:
    """Makes ReFrame report which cases failed."""
    fail, skip_from_deps = RegressionTask.fail, RegressionTask.skip_from_deps

    def noting_fail(self, exc_info=None, callback="on_task_failure"):
        try:
            fail(self, exc_info, callback)
        finally:
            if callback == "on_task_failure" and not self.aborted:
                _note(self, _reason(self))

    def noting_skip(self):
        skip_from_deps(self)
        failed = [f"{dep.check.display_name}: {_reasons[dep]}" for dep in self.testcase.deps if dep in _reasons]
        _note(self, f"{job_exit.NOT_RUN}: {'; '.join(failed) or 'see the run report'}")

    RegressionTask.fail = noting_fail
    RegressionTask.skip_from_deps = noting_skip


def _reason(task: Any) -> str:
    """Why a task failed; for a build that ended before it could compile (a bad module, `prepare`), its output."""
    error = task.exc_info[1]
    if disk.is_full(error):
        return f"INVALID: {described(error, task.check.stagedir)}"
    last_words = getattr(task.check, "last_words", None)
    if isinstance(error, BuildError) and last_words is not None:
        code = task.check.build_job.exitcode
        return f"the build ended with exit code {code} before its programs were built: {last_words(code)}"
    return " ".join(str(what(*task.exc_info)).split())


def reason_of(task: Any) -> str | None:
    """Why a task failed, if there is more to report than its exception; otherwise None."""
    return _reason(task) if isinstance(task.exc_info[1], BuildError) else None


def _note(task: Any, reason: str) -> None:
    _reasons[task.testcase] = reason
    record_failure = getattr(task.check, "record_failure", None)
    if record_failure is None or task.check.is_dry_run():
        return
    try:
        record_failure(task.testcase.partition, task.testcase.environ, reason)
    except Exception as error:  # a missing record must not end the session
        getlogger().warning(f"no record of {task.info()}: {what(type(error), error, None)}")
