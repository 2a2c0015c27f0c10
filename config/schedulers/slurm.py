"""Slurm: ReFrame's back end with what a night without anyone watching needs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.logging import WARNING
from reframe.core.schedulers.slurm import SlurmJobScheduler

from config.schedulers.command import CommandError, not_on_path, run
from config.schedulers.patient import Answer, Patient, PatientJob, Seen, num_nodes

NAME = "tenken-slurm"

_PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "TIMEOUT",
}  # fmt: skip
#: Reasons to wait that an administrator or the user must mend, as the beginning of what squeue says.
BLOCKED = (
    "ReqNodeNotAvail", "Nodes required for job are DOWN", "PartitionDown", "PartitionInactive", "PartitionNodeLimit",
    "PartitionTimeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed",
    "JobHeldAdmin", "JobHeldUser", "launch failed requeued held", "ReservationDeleted", "DependencyNeverSatisfied",
    "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit",
)  # fmt: skip
_COLUMNS = "JobID:|,State:|,exit_code:|,NodeList:|,Reason:|"
_FIELDS = "jobid,state,exitcode,nodelist"


class SlurmJob(PatientJob):
    """What ReFrame's Slurm code sets on a job."""

    _is_array = False

    @property
    def is_array(self):
        return self._is_array


@register_scheduler(NAME)
class Slurm(Patient, SlurmJobScheduler):
    """Asks the controller, and accounting for what the controller has forgotten; either may be down or missing."""

    cancel_command = "scancel"

    def __init__(self):
        super().__init__()
        # a node that runs something beside can still be tested
        self._available_states.add("MIXED")

    def make_job(self, *args, **kwargs):
        return SlurmJob(*args, **kwargs)

    def emit_preamble(self, job):
        lines = [line for line in super().emit_preamble(job) if not re.search(r" --nodes=\d+$", line)]
        # ReFrame rounds the nodes down; a job whose node died must fail by name, not run again on another one
        return [*lines, f"{self._prefix} --nodes={num_nodes(job)}", f"{self._prefix} --no-requeue"]

    def submit(self, job):
        answer = self.submit_patiently(lambda: self._sbatch(job.script_filename))
        found = re.search(r"Submitted batch job (\d+)", answer)
        if not found:
            raise JobSchedulerError(f"sbatch printed no job id but {answer.strip()[:200]!r}")
        job._jobid = found[1]
        job._submit_time = time.time()

    def _sbatch(self, script: str) -> str:
        try:
            return self.sbatch([script]).stdout
        except FileNotFoundError:
            raise not_on_path("sbatch") from None
        except SpawnedProcessTimeout:
            raise CommandError(f"sbatch gave no answer within {self.timeout:g} s") from None
        except SpawnedProcessError as error:
            said = error.stderr.strip()
            # the reason comes last, hints come before it
            raise CommandError(said.splitlines()[-1] if said else "sbatch failed and said nothing", said) from None

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        ids = [str(job.jobid) for job in jobs]
        found: dict[str, Seen | None] = {}
        controller = True
        try:
            found.update(listed(run(["squeue", "-h", "-t", "all", "-j", ",".join(ids), "-O", _COLUMNS], self.timeout)))
        except CommandError as error:
            # of jobs that it has forgotten it says only this
            controller = "Invalid job id" in error.said
            if not controller:
                self.log(str(error), WARNING)
        rest = [one for one in ids if one not in found]
        if rest:
            try:
                words = ["sacct", "-X", "-n", "-P", "-j", ",".join(rest), "-o", _FIELDS]
                found.update(accounted(run(words, self.timeout)))
            except CommandError as error:
                self.log(str(error), WARNING)
        if not controller:
            found.update({one: None for one in rest if one not in found})
        return found


def listed(table: str) -> dict[str, Seen]:
    """Jobs by id from squeue's lines `id|state|wait status|nodes|reason|`."""
    found = {}
    for line in table.splitlines():
        number, state, status, nodes, reason, *_ = [*line.strip().split("|"), "", "", "", ""]
        found[number] = seen(state, int(status) >> 8 if status.isdigit() else None, nodes, reason)
    return found


def accounted(table: str) -> dict[str, Seen]:
    """Jobs by id from sacct's lines `id|state|exit:signal|nodes`; a state may be `CANCELLED by 1000`."""
    found = {}
    for line in table.splitlines():
        number, state, status, nodes, *_ = [*line.strip().split("|"), "", "", ""]
        code = status.split(":")[0]
        found[number] = seen(state.split()[0] if state else "", int(code) if code.isdigit() else None, nodes, "")
    return found


def seen(state: str, code: int | None, nodes: str, reason: str) -> Seen:
    """A job by Slurm's words. Exit code 0 of a job that Slurm ended means nothing and is left out."""
    if state in _ENDED:
        own = state in ("COMPLETED", "FAILED")
        return Seen(state, ended=True, exit_code=code if own else None, nodes=_named(nodes))
    if state in _PENDING:
        blocked = reason.startswith(BLOCKED)
        return Seen(state, pending=True, blocked=blocked, why=reason)
    return Seen(state or "UNKNOWN")


def _named(nodes: str) -> tuple[str, ...]:
    """As Slurm writes them, `nid[1-3]`; they count only where the job itself printed none."""
    return (nodes,) if nodes and nodes != "None assigned" else ()
