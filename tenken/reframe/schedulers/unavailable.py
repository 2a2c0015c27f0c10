"""The scheduler of a partition that has no back end yet: its checks can be listed, not run."""

from __future__ import annotations

from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobError
from reframe.core.schedulers import Job, JobScheduler

NAME = "unavailable"


@register_scheduler(NAME)
class UnavailableScheduler(JobScheduler):
    """Refuses every job with one line; the system file gives the reason in `scheduler_status`."""

    def make_job(self, *args, **kwargs):
        return Job(*args, **kwargs)

    def emit_preamble(self, job):
        return []

    def allnodes(self):
        return []

    def filternodes(self, job, nodes):
        return nodes

    def submit(self, job):
        raise JobError("the scheduler of this partition has no back end yet", jobid=None)

    def wait(self, job):
        """Nothing was submitted."""

    def cancel(self, job):
        """Nothing was submitted."""

    def finished(self, job):
        return True

    def poll(self, *jobs):
        """Nothing was submitted."""
