"""Slurm: ReFrame's back end, extended for nights without an operator."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import reframe.utility.osext as osext
from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.logging import WARNING
from reframe.core.schedulers.slurm import SlurmJobScheduler, _create_nodes

from tenken.reframe.outcome import expand
from tenken.reframe.schedulers import reasons
from tenken.reframe.schedulers.command import CommandError, not_on_path, run
from tenken.reframe.schedulers.polling import (
    Answer,
    Patient,
    PatientJob,
    Seen,
    Waiting,
    num_nodes,
    seconds,
    tag,
    together,
)
from tenken.reframe.schedulers.polling import not_in_order as in_words

NAME = "tenken-slurm"

_PENDING = {
    "PENDING", "CONFIGURING", "POWER_UP_NODE", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
}  # fmt: skip
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT",
}  # fmt: skip
_SUSPENDED = {"SUSPENDED", "STOPPED"}
_KILLED = _ENDED - {"COMPLETED", "FAILED"}
_FORGOTTEN = Seen("UNKNOWN (the scheduler does not know the job)", forgotten=True)
#: Accounting's signal for a job whose output file could not be opened (`0:53`): the controller stores slurmd's error
#: 4021 in place of a wait status.
_NO_OUTPUT = 53
_WHOLE = re.compile(r"[0-9]{1,18}")
#: Fields with text that others chose come last.
_COLUMNS = "JobArrayID:|,State:|,exit_code:|,NodeList:|,Partition:|,RestartCnt:|,Reason:|,StartTime:|,Name:|,Comment:"
_FIELDS = "jobid,state,exitcode,nodelist,start,jobname"
_MARK = "tenken/"
#: State flags of a node that still takes jobs: cloud nodes start on demand.
_NODE_FLAGS = {
    "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "EXTERNAL", "POWER", "POWERED_DOWN", "POWERING_UP", "POWER_UP",
}  # fmt: skip
#: States of a node that runs nothing until it is repaired, as the beginning of the output of sinfo.
NODE_BROKEN = ("down", "drain", "drng", "fail", "error", "unknown", "no_respond", "power_down", "inval", "blocked")


class SlurmJob(PatientJob):
    """Attributes that ReFrame's Slurm code sets on a job."""

    _is_array = False

    @property
    def is_array(self):
        return self._is_array


@register_scheduler(NAME)
class Slurm(Patient, SlurmJobScheduler):
    """Queries the controller, and accounting for what the controller has forgotten; either may be down or missing."""

    cancel_command = "scancel"
    array = r"(-a|--array)\b"

    def __init__(self):
        super().__init__()
        # a node that also runs other jobs can still be tested
        self._available_states.add("MIXED")

    def is_node_avail(self, node):
        # one that starts does not respond yet
        starts = {"NOT_RESPONDING"} if node.states & {"POWERING_UP", "POWER_UP"} else set()
        return bool(states := node.states - _NODE_FLAGS - starts) and states <= self._available_states

    def allnodes(self):
        try:
            text = run(["scontrol", "-a", "show", "-o", "nodes"], self.timeout)
        except CommandError as error:
            raise JobSchedulerError(f"no list of nodes: {error}") from None
        return _create_nodes(text.splitlines())

    def make_job(self, *args, **kwargs):
        return SlurmJob(*args, **kwargs)

    def emit_preamble(self, job):
        self.refuse_an_array([*job.sched_access, *job.options, *job.cli_options])
        self.pin_tonight(job)
        lines = [line for line in super().emit_preamble(job) if not re.search(r" --nodes=\d+$", line)]
        # ReFrame rounds the number of nodes down; a job whose node died must fail and name it, not run again on another
        # one
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
            raise CommandError(f"sbatch did not respond within {self.timeout:g} s") from None
        except SpawnedProcessError as error:
            said = error.stderr.strip()
            # the reason comes last, after the hints
            raise CommandError(said.splitlines()[-1] if said else "sbatch failed without a message", said) from None
        found = re.search(r"Submitted batch job (\d+)", answer)
        if not found:
            raise JobSchedulerError(f"sbatch printed no job id but {answer.strip()[:200]!r}")
        return found[1]

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        ids = {str(job.jobid): job for job in jobs}
        found: dict[str, Seen | None] = {}
        by_controller = self._controller(ids)
        if by_controller is not None:
            found.update({number: said for number, said in by_controller.items() if not said.forgotten})
        rest = {number: job for number, job in ids.items() if number not in found}
        told = self._accounting(rest) if rest else {}
        for number in rest:
            if by_controller is None:
                found[number] = (told or {}).get(number)
            elif number in by_controller:
                found[number] = by_controller[number]
            elif told is not None:
                # a controller that was killed has forgotten its last requests
                said = told.get(number, _FORGOTTEN)
                # a controller that starts without its state reports jobs as cancelled by no user, while accounting has
                # them as running
                found[number] = said if said.ended and said.facts["state"] != "CANCELLED" else _FORGOTTEN
        for job in jobs:
            one = found.get(str(job.jobid))
            if one is not None and one.pending and reasons.slurm(one.why) is None:
                found[str(job.jobid)] = self._by_nodes(job, one)
        return found

    def _controller(self, ids: Mapping[str, PatientJob]) -> dict[str, Seen] | None:
        """Jobs that squeue lists; None: it does not answer. A job whose number was reused is dropped."""
        try:
            table = run(["squeue", "-h", "-t", "all", "-j", ",".join(ids), "-O", _COLUMNS], self.timeout)
        except CommandError as error:
            if "Invalid job id" in error.said:  # its only message about jobs that it does not know
                return {}
            self.log(str(error), WARNING)
            return None
        found = {number: said for number, said in listed(table).items() if number in ids}
        strangers = [n for n, mark in marks(table).items() if n in ids and not is_of(ids[n], *mark)]
        return {**found, **dict.fromkeys(strangers, _FORGOTTEN)}

    def _accounting(self, ids: Mapping[str, PatientJob]) -> dict[str, Seen] | None:
        """Jobs from accounting; None: it does not answer."""
        try:
            table = run(["sacct", "-X", "-n", "-P", "-j", ",".join(ids), "-o", _FIELDS], self.timeout)
        except CommandError as error:
            self.log(str(error), WARNING)
            return None
        known = names(table)
        return {n: said for n, said in accounted(table).items() if n in ids and is_of(ids[n], known.get(n, ""))}

    def given_before(self, job):
        if job.scheduler_facts.get("run_count", 1) != 1:
            return None  # a requeued job has one line per run
        number = str(job.jobid)
        try:
            table = run(["sacct", "-D", "-X", "-n", "-P", "-j", number, "-o", "jobid,submit"], self.timeout)
        except CommandError as error:
            self.log(str(error), WARNING)
            return None
        rows = {line.strip() for line in table.splitlines() if line.startswith(f"{number}|")}
        return f"accounting has {len(rows)} jobs with its number {number}" if len(rows) > 1 else None

    def refused(self, job):
        # e.g. a number that a controller reuses after a crash, of a job that accounting never heard of
        if job._exitcode != 1:
            return None
        number = str(job.jobid)
        for words in (
            ["squeue", "-h", "-t", "all", "-j", number, "-O", "StartTime:|,EndTime:|"],
            ["sacct", "-X", "-n", "-P", "-j", number, "-o", "start,end"],
        ):
            try:
                rows = run(words, self.timeout).strip().splitlines()
            except CommandError as error:
                self.log(str(error), WARNING)
                continue
            if rows:
                return "its node refused to start it" if _at_once(rows[-1]) else None
        return None

    def why_ended(self, job):
        names = job.nodelist or job.pin_nodes
        return in_words(broken(self._nodes("-n", ",".join(names)) or "")) if names else ""

    def limit_now(self, job):
        try:
            return seconds(run(["squeue", "-h", "-j", str(job.jobid), "-O", "TimeLimit"], self.timeout))
        except CommandError as error:
            self.log(str(error), WARNING)
            return None

    def _nodes(self, *where: str) -> str | None:
        """Lines `node|state|reason` of nodes; None if sinfo does not answer."""
        try:
            return run(["sinfo", "-h", "-N", *where, "-o", "%N|%T|%E"], self.timeout)
        except CommandError as error:
            self.log(str(error), WARNING)
            return None

    def _by_nodes(self, job: PatientJob, one: Seen) -> Seen:
        """For a job that waits for nodes: whether enough of its possible nodes are in order, and which are not; they
        count as in order if sinfo does not answer.
        """
        where = ["-n", ",".join(job.pin_nodes)] if job.pin_nodes else ["-p", str(one.facts.get("partition", ""))]
        table = self._nodes(*where)
        if table is None or enough(table, num_nodes(job)):
            return replace(one, waiting=Waiting.RUNS)
        said = in_words(broken(table))
        return replace(one, waiting=Waiting.MENDED, why="; ".join(filter(None, (one.why, said))))


def marks(table: str) -> dict[str, tuple[str, str]]:
    """Name and comment by job id, from squeue's lines."""
    rows = (line.strip().split("|", 9) for line in table.splitlines())
    return {whole(row[0]): (row[8], row[9]) for row in rows if len(row) == 10}


def names(table: str) -> dict[str, str]:
    """Names by job id, from sacct's lines."""
    rows = (line.strip().split("|", 5) for line in table.splitlines())
    return {whole(row[0]): row[5] for row in rows if len(row) == 6}


def whole(number: str) -> str:
    """The id that sbatch printed: `12` for a heterogeneous job's `12+1`, and for an array's `12_3` and `12_[4-9%2]`."""
    return re.split(r"[+_]", number.strip(), maxsplit=1)[0]


def is_of(job: PatientJob, name: str, comment: str = "") -> bool:
    """Whether a job with one of our numbers is ours: by its mark, otherwise by its name (a site may replace the mark,
    and accounting does not keep it)."""
    return comment == tag(job) if comment.startswith(_MARK) else name == job.name


def _states(table: str) -> dict[str, tuple[str, str]]:
    """State and reason by node, from sinfo's lines `node|state|reason`, of which a node has one for each partition."""
    rows = [words for line in table.splitlines() if len(words := line.strip().split("|", 2)) == 3]
    return {node: (state, why) for node, state, why in rows}


def broken(table: str) -> dict[str, str]:
    """Broken nodes from sinfo's lines `node|state|reason`: the state of each, with the administrator's reason."""
    return {
        node: state + (f" ({why})" if why not in ("", "none") else "")
        for node, (state, why) in _states(table).items()
        if state.lower().startswith(NODE_BROKEN)
    }


def enough(table: str, needed: int) -> bool:
    """From sinfo's lines `node|state|reason`: whether at least `needed` nodes are in order."""
    return len(_states(table)) - len(broken(table)) >= needed


def listed(table: str) -> dict[str, Seen]:
    """Jobs by id from squeue's lines `id|state|wait status|nodes|partition|restarts|reason|start|...`."""
    found: dict[str, list[Seen]] = {}
    for line in table.splitlines():
        number, state, status, nodes, partition, restarts, reason, start, *_ = [*line.strip().split("|"), *[""] * 7]
        raw = int(status) if _WHOLE.fullmatch(status) else None
        # as in sacct, a job that was ended by a signal has exit code 0
        one = seen(state, None if raw is None else 0 if raw & 127 else raw >> 8, nodes, reason)
        facts: dict[str, str | int] = {"state": state, "reason": reason, "nodes": nodes, "partition": partition}
        facts |= _unseen(one, 0 if raw is None else raw & 127)
        if _WHOLE.fullmatch(restarts):
            facts["run_count"] = int(restarts) + 1
        found.setdefault(whole(number), []).append(replace(one, began=_began(start, one), facts=facts))
    return {number: together(parts) for number, parts in found.items() if number}


def accounted(table: str) -> dict[str, Seen]:
    """Jobs by id from sacct's lines `id|state|exit:signal|nodes|start|...`; a state may be `CANCELLED by 1000`."""
    found: dict[str, list[Seen]] = {}
    for line in table.splitlines():
        number, state, status, nodes, start, *_ = [*line.strip().split("|"), *[""] * 4]
        code, _, number_of_signal = status.partition(":")
        one = seen((state.split() or [""])[0], int(code) if _WHOLE.fullmatch(code) else None, nodes, "")
        facts = {"state": state, "exit_code": status, "nodes": nodes}
        facts |= _unseen(one, int(number_of_signal) if _WHOLE.fullmatch(number_of_signal) else 0)
        found.setdefault(whole(number), []).append(replace(one, began=_began(start, one), facts=facts))
    return {number: together(parts) for number, parts in found.items() if number}


def _unseen(one: Seen, number: int) -> dict[str, str]:
    """For a job that Slurm could not start because its node lacks the folder of the output; `number`: that of its
    signal."""
    if one.state != "FAILED" or number != _NO_OUTPUT:
        return {}
    return {"unseen": f"Slurm could not open the job's output there (ExitCode 0:{number})"}


def _at_once(line: str) -> bool:
    """Whether a job ended in the second in which it started, or the next, from `start|end`: the controller ends a job
    so whose batch script the node's daemon refuses to start ("Killing non-startable batch job")."""
    try:
        start, end = (datetime.fromisoformat(moment) for moment in line.strip().strip("|").split("|"))
        return (end - start).total_seconds() <= 1
    except ValueError:
        return False


def _began(start: str, one: Seen) -> float | None:
    """Seconds since 1970 of a start time as squeue and sacct print it, in this host's time zone. For a waiting job it
    is an estimate; a job that never started has none."""
    if one.pending or not start:
        return None
    if start in ("N/A", "Unknown", "None"):
        return math.inf if one.ended else None
    try:
        return datetime.fromisoformat(start).timestamp()
    except ValueError:
        return None


def seen(state: str, code: int | None, nodes: str, reason: str) -> Seen:
    """A job from Slurm's output. Exit code 0 of a job that Slurm ended means nothing, and is left out."""
    if state in _ENDED:
        own = state in ("COMPLETED", "FAILED")
        killed = state in _KILLED
        return Seen(state, ended=True, killed=killed, exit_code=code if own else None, nodes=_named(nodes))
    if state in _PENDING:
        return Seen(state, pending=True, waiting=reasons.slurm(reason) or Waiting.RUNS, why=reason)
    return Seen(state or "UNKNOWN", nodes=_named(nodes), suspended=state in _SUSPENDED)


def _named(nodes: str) -> tuple[str, ...]:
    """From `nid[1-3]`; used only if the job itself printed none."""
    return tuple(expand(nodes)) if nodes and nodes not in ("None assigned", "(null)") else ()
