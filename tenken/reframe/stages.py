"""Every job script, of a check or a build and on every scheduler, first enters its stage folder or ends. The path of
that folder may contain blanks and quotes.
"""

from __future__ import annotations

import os

import reframe.utility.osext as osext
from reframe.core.schedulers import Job

from tenken.reframe import joblines


def register() -> None:
    """Makes ReFrame begin its scripts so: PBS and NQSV start a job in the home folder, Slurm in /tmp if the node does
    not see the folder of the submission. Makes it start the script of a local job by its quoted path; otherwise it
    would split the path into words.
    """
    prepare, start = Job.prepare, osext.run_command_async

    def entering(self, commands, environs=None, prepare_cmds=None, *arguments, **options):
        first = [joblines.enter(self.workdir), *(prepare_cmds or [])]
        return prepare(self, commands, environs, first, *arguments, **options)

    def whole(cmd, *arguments, **options):
        return start([cmd] if isinstance(cmd, str) and os.path.isfile(cmd) else cmd, *arguments, **options)

    Job.prepare, osext.run_command_async = entering, whole
