"""Slurm: ReFrame's back end with what a night without anyone watching needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import reframe.utility.osext as osext
from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.logging import WARNING
from reframe.core.schedulers.slurm import SlurmJobScheduler

from tenken.reframe.outcome import expand
from tenken.reframe.schedulers import reasons
from tenken.reframe.schedulers.command import CommandError, not_on_path, run
from tenken.reframe.schedulers.polling import Answer, Patient, PatientJob, Seen, Waiting, num_nodes, tag

NAME = "tenken-slurm"

_PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "TIMEOUT",
}  # fmt: skip
_KILLED = _ENDED - {"COMPLETED", "FAILED"}
_WHOLE = re.compile(r"[0-9]{1,18}")
_COLUMNS = "JobID:|,State:|,exit_code:|,NodeList:|,Partition:|,RestartCnt:|,Reason:|"
_FIELDS = "jobid,state,exitcode,nodelist"
#: States of a node that runs nothing before someone has mended it, as the beginning of what sinfo says.
_NODE_BROKEN = ("down", "drain", "drng", "fail", "error", "unknown", "no_respond", "power_down", "inval", "blocked")


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
        ours = [
            f"--nodes={num_nodes(job)}",
            *([] if job.may_run_again else ["--no-requeue"]),
            f'--comment="{tag(job)}"',
        ]
        return [*lines, *(f"{self._prefix} {option}" for option in ours)]

    def submit(self, job):
        self.enqueue(job, lambda: self._sbatch(job.script_filename))

    def submitted(self, job):
        table = run(["squeue", "-h", "-u", osext.osuser(), "-O", "JobID:|,Comment:256"], self.timeout)
        rows = (line.split("|", 1) for line in table.splitlines() if "|" in line)
        return next((number.strip() for number, comment in rows if comment.strip() == tag(job)), None)

    def _sbatch(self, script: str) -> str:
        try:
            answer = self.sbatch([script]).stdout
        except FileNotFoundError:
            raise not_on_path("sbatch") from None
        except SpawnedProcessTimeout:
            raise CommandError(f"sbatch gave no answer within {self.timeout:g} s") from None
        except SpawnedProcessError as error:
            said = error.stderr.strip()
            # the reason comes last, hints come before it
            raise CommandError(said.splitlines()[-1] if said else "sbatch failed and said nothing", said) from None
        found = re.search(r"Submitted batch job (\d+)", answer)
        if not found:
            raise JobSchedulerError(f"sbatch printed no job id but {answer.strip()[:200]!r}")
        return found[1]

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
        for job in jobs:
            one = found.get(str(job.jobid))
            if one is not None and one.pending and reasons.slurm(one.why) is None:
                found[str(job.jobid)] = replace(one, waiting=self._by_nodes(job, str(one.facts.get("partition", ""))))
        return found

    def _by_nodes(self, job: PatientJob, partition: str) -> Waiting:
        """Whether enough of the nodes that a job may run on are in order; unheard, they are."""
        where = ["-n", ",".join(job.pin_nodes)] if job.pin_nodes else ["-p", partition]
        try:
            table = run(["sinfo", "-h", "-N", *where, "-o", "%N %T"], self.timeout)
        except CommandError as error:
            self.log(str(error), WARNING)
            return Waiting.RUNS
        return enough(table, num_nodes(job))


def enough(table: str, needed: int) -> Waiting:
    """From sinfo's lines `node state`: Waiting.RUNS where at least `needed` nodes are in order."""
    states = dict(words for line in table.splitlines() if len(words := line.split(None, 1)) == 2)
    works = [state for state in states.values() if not state.lower().startswith(_NODE_BROKEN)]
    return Waiting.RUNS if len(works) >= needed else Waiting.MENDED


def listed(table: str) -> dict[str, Seen]:
    """Jobs by id from squeue's lines `id|state|wait status|nodes|partition|restarts|reason|`."""
    found = {}
    for line in table.splitlines():
        number, state, status, nodes, partition, restarts, reason, *_ = [*line.strip().split("|"), *[""] * 6]
        one = seen(state, int(status) >> 8 if _WHOLE.fullmatch(status) else None, nodes, reason)
        facts: dict[str, str | int] = {"state": state, "reason": reason, "nodes": nodes, "partition": partition}
        if _WHOLE.fullmatch(restarts):
            facts["run_count"] = int(restarts) + 1
        found[number] = replace(one, facts=facts)
    return found


def accounted(table: str) -> dict[str, Seen]:
    """Jobs by id from sacct's lines `id|state|exit:signal|nodes`; a state may be `CANCELLED by 1000`."""
    found = {}
    for line in table.splitlines():
        number, state, status, nodes, *_ = [*line.strip().split("|"), "", "", ""]
        code = status.split(":")[0]
        one = seen((state.split() or [""])[0], int(code) if _WHOLE.fullmatch(code) else None, nodes, "")
        found[number] = replace(one, facts={"state": state, "exit_code": status, "nodes": nodes})
    return found


def seen(state: str, code: int | None, nodes: str, reason: str) -> Seen:
    """A job by Slurm's words. Exit code 0 of a job that Slurm ended means nothing and is left out."""
    if state in _ENDED:
        own = state in ("COMPLETED", "FAILED")
        killed = state in _KILLED
        return Seen(state, ended=True, killed=killed, exit_code=code if own else None, nodes=_named(nodes))
    if state in _PENDING:
        return Seen(state, pending=True, waiting=reasons.slurm(reason) or Waiting.RUNS, why=reason)
    return Seen(state or "UNKNOWN")


def _named(nodes: str) -> tuple[str, ...]:
    """Out of `nid[1-3]`; they count only where the job itself printed none."""
    return tuple(expand(nodes)) if nodes and nodes not in ("None assigned", "(null)") else ()
