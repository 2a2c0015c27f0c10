"""Every job script, of a check or a build, first enters its stage folder or ends, on every scheduler."""

from __future__ import annotations

from reframe.core.schedulers import Job

from tenken.reframe import joblines


def register() -> None:
    """Makes ReFrame begin its scripts so: PBS and NQSV start a job in the home folder, Slurm in /tmp if the node does
    not see the folder of the submission.
    """
    prepare = Job.prepare

    def entering(self, commands, environs=None, prepare_cmds=None, *arguments, **options):
        first = [joblines.enter(self.workdir), *(prepare_cmds or [])]
        return prepare(self, commands, environs, first, *arguments, **options)

    Job.prepare = entering
