"""Common to PBS, NQSV and Grid Engine: directives in the script, qsub, qstat, qdel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reframe.core.exceptions import JobSchedulerError

from tenken.reframe.schedulers.command import run
from tenken.reframe.schedulers.polling import Patient, PatientJob


class Batch(Patient):
    """A back end without the scheduler's vocabulary."""

    #: How directives begin.
    prefix = "#PBS"

    def directives(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        """The job's options without the prefix; `options` are those of the partition, of the check and of -J."""
        raise NotImplementedError

    def job_id(self, answer: str) -> str | None:
        """The job's id from the output of qsub."""
        raise NotImplementedError

    def emit_preamble(self, job):
        options = last_queue([*job.sched_access, *job.options, *job.cli_options])
        self.refuse_an_array(options)
        ours = [f"{self.prefix} {words}" for words in self.directives(job, [o for o in options if o[:1] != "#"])]
        # an option that begins with # is a whole separate line
        return [*ours, *(option for option in options if option[:1] == "#")]

    def submit(self, job):
        line = [word for option in self.settings.get("submit_options", ()) for word in option.split()]

        def once() -> str:
            answer = run(["qsub", *line, job.script_filename], self.timeout)
            number = self.job_id(answer)
            if number is None:
                raise JobSchedulerError(f"qsub printed no job id but {answer.strip()[:200]!r}")
            return number

        self.enqueue(job, once)

    def allnodes(self):
        raise JobSchedulerError(
            f"scheduler {self.registered_name!r} provides no list of nodes, which --distribute and flexible node "
            f"counts need"
        )

    def filternodes(self, job, nodes):
        return nodes


def queue(option: str) -> str | None:
    """The queue that an option requests."""
    found = re.fullmatch(r"-q\s*(\S+)", option.strip())
    return found[1] if found else None


def last_queue(options: Sequence[str]) -> list[str]:
    """The options with only the last -q, so that the one of a reservation, or of -J, overrides the site's default."""
    last = next((option for option in reversed(options) if queue(option)), None)
    return [option for option in options if queue(option) is None or option is last]
