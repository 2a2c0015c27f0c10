"""Every job script, of a check or a build, first enters its stage folder or ends, on every scheduler; and the path of
that folder may have blanks and quotes.
"""

from __future__ import annotations

import os

import reframe.utility.osext as osext
from reframe.core.schedulers import Job

from tenken.reframe import joblines


def register() -> None:
    """Makes ReFrame begin its scripts so: PBS and NQSV start a job in the home folder, Slurm in /tmp if the node does
    not see the folder of the submission. Makes it start the script of a local job by its whole path, which it would
    split into words.
    """
    prepare, start = Job.prepare, osext.run_command_async

    def entering(self, commands, environs=None, prepare_cmds=None, *arguments, **options):
        first = [joblines.enter(self.workdir), *(prepare_cmds or [])]
        return prepare(self, commands, environs, first, *arguments, **options)

    def whole(cmd, *arguments, **options):
        return start([cmd] if isinstance(cmd, str) and os.path.isfile(cmd) else cmd, *arguments, **options)

    Job.prepare, osext.run_command_async = entering, whole
