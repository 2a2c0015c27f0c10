"""PBS Professional and OpenPBS."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError
from reframe.core.schedulers import Node
from reframe.utility import toalphanum

from config.schedulers.batch import Batch, queue
from config.schedulers.command import CommandError, run
from config.schedulers.patient import Answer, PatientJob, Seen, hms, num_nodes, shape
from systems.model import fill

#: `pbs` and `pbspro` are ReFrame's own, which end the session over a state that they do not know.
NAME = "tenken-pbs"

_PENDING = {"Q": "QUEUED", "H": "HELD", "W": "WAITING", "T": "MOVING", "M": "MOVED"}
_RUNNING = {"R": "RUNNING", "B": "RUNNING", "E": "EXITING", "S": "SUSPENDED", "U": "SUSPENDED"}
_ENDED = {"F": "COMPLETED", "C": "COMPLETED", "X": "COMPLETED"}
#: qstat's exit status when one of the jobs is not known (15001 mod 256), or is history (15139 mod 256).
_SOME_UNKNOWN = (0, 153, 35)
_WALLTIME_EXCEEDED = -29
_DEFAULT_SELECT = "mpiprocs={num_tasks_per_node}:ncpus={num_cpus_per_node}"
_NODE_WORKS = {"free", "job-busy", "job-exclusive", "resv-exclusive", "busy"}


@register_scheduler(NAME)
class Pbs(Batch):
    """Tolerant of what a busy server answers; chunks that add up; nodes by pbsnodes."""

    def directives(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        dashed = [option for option in options if option.startswith("-")]
        # ReFrame's way: an option without a dash belongs to each chunk (`ngpus=1`)
        chunk = [option for option in options if not option.startswith("-")]
        words = [f"-N {toalphanum(job.name)[:15]}", f"-o {job.stdout}"]
        if not any(re.fullmatch(r"-j\s*oe", option) for option in dashed):
            words.append(f"-e {job.stderr}")
        if job.time_limit is not None:
            words.append(f"-l walltime={hms(job.time_limit)}")
        words.append(f"-l select={self.select(job, chunk)}")
        return [*words, *self.place(job, dashed), *dashed]

    def emit_preamble(self, job):
        # PBS starts a job in the home folder
        return [*super().emit_preamble(job), f"cd {job.workdir}"]

    def select(self, job: PatientJob, more: Sequence[str]) -> str:
        """`2:mpiprocs=4+1:mpiprocs=2`; with pinned nodes a chunk for each. Raises JobSchedulerError if they differ."""
        text = str(self.settings.get("select") or _DEFAULT_SELECT)

        def chunk(nodes: int, tasks: int, *host: str) -> str:
            cpus = tasks * (job.num_cpus_per_task or 1)
            filled = fill(text, {"num_tasks_per_node": tasks, "num_cpus_per_node": cpus})
            return ":".join([str(nodes), filled, *more, *host])

        if not job.pin_nodes:
            return "+".join(chunk(nodes, tasks) for nodes, tasks in shape(job))
        each = [tasks for nodes, tasks in shape(job) for _ in range(nodes)]
        if len(each) != len(job.pin_nodes):
            raise JobSchedulerError(f"the job needs {len(each)} nodes and is pinned to {len(job.pin_nodes)}")
        return "+".join(chunk(1, tasks, f"host={host}") for tasks, host in zip(each, job.pin_nodes, strict=True))

    def place(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        """Without `scatter` PBS may put all chunks on one node."""
        if any(re.match(r"-l\s*place=", option) for option in options):
            return []
        words = ["scatter"] if num_nodes(job) > 1 else []
        if job.exclusive_access and self.settings.get("place"):
            words.append(str(self.settings["place"]))
        return [f"-l place={':'.join(words)}"] if words else []

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^(\d\S*)\s*$", answer, re.M)
        return found[1] if found else None

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        answer = run(["qstat", "-xf", "-F", "json", *(str(job.jobid) for job in jobs)], self.timeout, _SOME_UNKNOWN)
        if not answer.strip():
            return {}
        try:
            found = json.loads(answer).get("Jobs", {})
        except ValueError:
            raise CommandError(f"qstat printed no JSON but {answer.strip()[:80]!r}") from None
        return {number: seen(info) for number, info in found.items()}

    def allnodes(self):
        try:
            answer = json.loads(run(["pbsnodes", "-a", "-F", "json"], self.timeout))
        except ValueError:
            raise JobSchedulerError("pbsnodes -a -F json printed no JSON") from None
        return {PbsNode(name, info) for name, info in answer.get("nodes", {}).items()}

    def filternodes(self, job, nodes):
        """Those of the queue that the job asks for, where nodes say to which queues they belong."""
        options = [*job.sched_access, *job.options, *job.cli_options]
        asked = next((name for name in map(queue, reversed(options)) if name), None)
        return {node for node in nodes if asked is None or not node.queues or asked in node.queues}

    def is_node_avail(self, node):
        return node.states <= _NODE_WORKS


def seen(info: Mapping[str, Any]) -> Seen:
    """One job of `qstat -xf -F json`; `Exit_status` may be missing, and a letter unknown."""
    letter = str(info.get("job_state", ""))
    status = str(info.get("Exit_status", ""))
    code = int(status) if re.fullmatch(r"-?\d+", status) else None
    nodes = tuple(sorted({part.split("/")[0] for part in str(info.get("exec_host", "")).split("+") if part}))
    if letter in _ENDED:
        state = _ENDED[letter]
        if code is not None and code < 0:  # ended by PBS, not by the program
            state = f"{'TIMEOUT' if code == _WALLTIME_EXCEEDED else 'CANCELLED'} (by PBS, Exit_status {code})"
        return Seen(state, ended=True, exit_code=code, nodes=nodes)
    if letter in _PENDING:
        comment = str(info.get("comment", ""))
        blocked = letter == "H" or "can never run" in comment.lower()
        return Seen(_PENDING[letter], pending=True, blocked=blocked, why=comment or f"state {letter}")
    return Seen(_RUNNING.get(letter, f"UNKNOWN (state {letter!r})"), nodes=nodes)


class PbsNode(Node):
    """A node as pbsnodes tells it."""

    def __init__(self, name: str, info: Mapping[str, Any]) -> None:
        self.name = name
        self.states = set(str(info.get("state", "")).replace(" ", "").split(","))
        offered = info.get("resources_available", {})
        self.queues = {queue for queue in [info.get("queue"), *str(offered.get("Qlist", "")).split(",")] if queue}

    def in_state(self, state: str) -> bool:
        return _states(state) <= self.states

    def in_statex(self, state: str) -> bool:
        return self.states == _states(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PbsNode) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def _states(text: str) -> set[str]:
    """ReFrame's STATE; `idle`, the word of Slurm that users of --distribute know, is `free` here."""
    return {"free" if word == "idle" else word for word in text.lower().split("+")}
