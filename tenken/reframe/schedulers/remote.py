"""Jobs on one host by ssh, for boards whose Python is too old for ReFrame.

ReFrame's own `ssh` copies only the stage folder, without the programs, and fetches nothing back from a failed job. Here
the host shares the checkout under the same path, and the script runs in its stage folder.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError

from tenken.model import job_exit
from tenken.reframe.schedulers.command import not_on_path
from tenken.reframe.schedulers.polling import Answer, Patient, PatientJob, Seen

NAME = "tenken-ssh"

#: Exit status of `timeout` when the time is up, and of ssh when it did not reach the host.
_TIME_IS_UP, _NOT_REACHED = 124, 255


class RemoteJob(PatientJob):
    """A job and the ssh process that runs it."""

    ssh: subprocess.Popen[bytes] | None = None


@register_scheduler(NAME)
class Remote(Patient):
    """One ssh per job. The host enforces the time limit, so that a lost connection leaves nothing running."""

    def make_job(self, *args, **kwargs):
        return RemoteJob(*args, **kwargs)

    def emit_preamble(self, job):
        return []

    def submit(self, job):
        host = str(self.settings["host"])
        limit = ["timeout", "-k", "10", str(int(job.time_limit))] if job.time_limit else []
        # the script enters the folder itself, but is also stored in it
        enter = f"cd {shlex.quote(job.workdir)} || exit {job_exit.NO_STAGE}"
        line = f"{enter}; exec {shlex.join([*limit, 'bash', '-l', job.script_filename])}"
        with Path(job.workdir, job.stdout).open("wb") as out, Path(job.workdir, job.stderr).open("wb") as err:
            try:
                job.ssh = subprocess.Popen(
                    ["ssh", "-o", "BatchMode=yes", host, line], stdin=subprocess.DEVNULL, stdout=out, stderr=err
                )
            except FileNotFoundError:
                raise not_on_path("ssh") from None
        job._jobid = job.ssh.pid
        job._nodelist = [host]
        job._submit_time = time.time()

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        return {str(job.jobid): seen(job.ssh.poll()) for job in jobs if isinstance(job, RemoteJob) and job.ssh}

    def try_to_cancel(self, job):
        job.cancelled = True
        if isinstance(job, RemoteJob) and job.ssh is not None:
            job.ssh.terminate()
        return None

    def allnodes(self):
        raise JobSchedulerError("--distribute: the only host is TENKEN_HOST")

    def filternodes(self, job, nodes):
        return nodes


def seen(status: int | None) -> Seen:
    """The state of a job from the exit status of its ssh."""
    if status is None:
        return Seen("RUNNING")
    if status == _TIME_IS_UP:
        return Seen("TIMEOUT", ended=True, output_whole=True)
    if status == _NOT_REACHED:
        return Seen("CANCELLED (ssh could not reach the host, or lost the connection)", ended=True, output_whole=True)
    return Seen("COMPLETED", ended=True, output_whole=True, exit_code=status)
