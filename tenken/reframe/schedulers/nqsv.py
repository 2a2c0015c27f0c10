"""NEC NQSV, as run on Pegasus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from reframe.core.backends import register_scheduler
from reframe.utility import toalphanum

from tenken.model.job import job_name
from tenken.reframe.schedulers.batch import Batch
from tenken.reframe.schedulers.command import run
from tenken.reframe.schedulers.polling import Answer, PatientJob, Seen, Waiting, hms, num_nodes

NAME = "nqsv"

#: Characters of a request's name, and of its id, in qstat's table.
_SHOWN, _ID = 8, 15
_RUNNING = {"PRR", "RUN", "STG", "CHK", "EXT", "POR"}
_PENDING = {"QUE", "WAT", "ARI", "FWD", "MIG", "GQD"}
_HELD = {"HLD", "HOL", "SUS"}


@register_scheduler(NAME)
class Nqsv(Batch):
    """A request that has ended is no longer listed and has no exit status; its output shows how it ended."""

    def directives(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        words = [f"-N {_name(job)}", f"-o {job.stdout}", f"-e {job.stderr}", f"-b {num_nodes(job)}"]
        words += [] if job.may_run_again else ["-r n"]
        if job.time_limit is not None:
            words.append(f"-l elapstim_req={hms(job.time_limit)}")
        return [*words, *options]

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^Request (\d+\.\S+) submitted to queue: \S+", answer, re.M)
        return found[1] if found else None

    def submitted(self, job):
        rows = (line.split()[:2] for line in run(["qstat"], self.timeout).splitlines())
        return next((row[0] for row in rows if row[1:] == [_name(job)[:_SHOWN]] and job.token is not None), None)

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        return of(map(str, (job.jobid for job in jobs)), requests(run(["qstat"], self.timeout)))


def _name(job: PatientJob) -> str:
    """qstat shows the beginning of a request's name and nothing else that the user may choose."""
    mark = f"{job_name(job.token)}_" if job.token else ""
    return toalphanum(mark + job.name.removeprefix("rfm_" if mark else ""))[:15]


def of(ids: Iterable[str], listed: Mapping[str, Seen]) -> dict[str, Seen]:
    """Those of `ids`, as qsub printed them (`143993.ace-ssiox`), which the table cuts off (`143993.ace-ssio`)."""
    return {number: one for number in ids if (one := listed.get(number) or listed.get(number[:_ID])) is not None}


def requests(table: str) -> dict[str, Seen]:
    """Requests by id from qstat's table: RequestID ReqName UserName Queue Pri STT S ..."""
    found = {}
    for line in table.splitlines():
        words = line.split()
        if len(words) < 6 or not re.fullmatch(r"\d+\.\S+", words[0]):
            continue
        state = words[5]
        held = state in _HELD
        if state in _RUNNING or state in _PENDING or held:
            waiting = Waiting.MENDED if held else Waiting.RUNS
            pending = held or state in _PENDING
            found[words[0]] = Seen(
                state, pending=pending, waiting=waiting, suspended=state == "SUS", why=f"state {state}"
            )
        else:
            found[words[0]] = Seen(f"UNKNOWN (state {state!r})")
    return found
