"""PBS Professional and OpenPBS."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError
from reframe.core.logging import WARNING
from reframe.core.schedulers import Node
from reframe.utility import toalphanum

from tenken.machines import pbs_json
from tenken.machines.cluster import pbs_hosts, pbs_labels, queue_of
from tenken.machines.model import fill
from tenken.model.job import short
from tenken.reframe.schedulers import reasons
from tenken.reframe.schedulers.batch import Batch
from tenken.reframe.schedulers.command import CommandError, run
from tenken.reframe.schedulers.polling import Answer, PatientJob, Seen, Waiting, hms, num_nodes, seconds, shape, tag
from tenken.reframe.schedulers.polling import not_in_order as in_words

#: `pbs` and `pbspro` are ReFrame's own, which end the session if they meet an unknown state.
NAME = "tenken-pbs"

_PENDING = {"Q": "QUEUED", "H": "HELD", "W": "WAITING", "T": "MOVING", "M": "MOVED"}
_RUNNING = {"R": "RUNNING", "B": "RUNNING", "E": "EXITING", "S": "SUSPENDED", "U": "SUSPENDED"}
_ENDED = {"F": "COMPLETED", "C": "COMPLETED", "X": "COMPLETED"}
#: qstat's exit status for an unknown job (15001 mod 256), and for a job in the history (15139 mod 256).
_NOT_KNOWN = (153, 35)
#: A deleted job: ended by SIGTERM or SIGKILL (256 and the signal), `substate` 91.
_BY_SIGNAL, _TERMINATED = 256, "91"
#: Attributes of a job that the record contains.
_KEPT = ("job_state", "substate", "run_count", "comment", "Exit_status", "exec_vnode", "exec_host", "queue")
_WALLTIME_EXCEEDED = -29
#: Exit statuses with which PBS itself ends a job: OpenPBS, src/include/job.h.
_EXITS = {
    -1: "its node could not start it", -2: "its node could not start it: the prologue, the user or the folder failed",
    -3: "its node could not start it, and was to try again", -4: "its node's daemon was restarted while it ran",
    -5: "its node's daemon was restarted", -6: "its node's daemon was restarted",
    -7: "it could not be restarted", -10: "its user or group is not known on the node", -11: "it was to be rerun",
    -12: "it was checkpointed and ended", -13: "its password was refused", -14: "another of its nodes failed",
    -15: "it was to be rerun from a checkpoint", -16: "a hook of the node refused it",
    -17: "a hook of the node refused it", -18: "a hook put it back into the queue", -19: "a hook ended it",
    -20: "its first node was lost", -21: "a folder of PBS on its node is not safe", -22: "a hook of the node failed",
    -23: "it has no Kerberos credentials", -24: "it used more CPUs than it requested",
    -25: "it used more CPU time than its CPUs have", -26: "it exceeded its virtual memory",
    -27: "it exceeded its memory", -28: "it exceeded its CPU time", -30: "its nodes could not join it",
}  # fmt: skip
#: Seconds that a job may wait without a comment before PBS is queried for the reason.
UNCOMMENTED_S = 60.0
#: The walltime that PBS shows for a job with running processes is at most two minutes old.
UNCOUNTED_S = 300.0
#: The state of a job that had begun and that a server with history no longer knows.
_DELETED = "COMPLETED (no longer known to PBS: deleted with its history, as by qdel -x)"
_DEFAULT_SELECT = "mpiprocs={num_tasks_per_node}:ncpus={num_cpus_per_node}"
#: A node that a chunk of a job requests by its name.
_HOST = re.compile(r"\b(?:host|vnode)=([\w.-]+)")
NODE_WORKS = {"free", "job-busy", "job-exclusive", "resv-exclusive", "busy"}


@register_scheduler(NAME)
class Pbs(Batch):
    """Tolerates the answers of a busy server; chunks add up; nodes from pbsnodes."""

    #: Whether the server lists jobs that have ended; if not, it is unknown how a job that is no longer listed ended.
    keeps_history = True
    array = r"-J"

    def directives(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        dashed = [option for option in options if option.startswith("-")]
        for option in dashed:
            if re.match(r"-l\s*(.*,)?(select|nodes)=", option):
                raise JobSchedulerError(
                    f"{option!r} of the system file, the check or -J replaces the job's nodes; allowed: resources of a "
                    f"node without a dash ('ngpus=1'), or 'select:' of the partition"
                )
        variables = [option[2:].strip() for option in dashed if re.match(r"-v\s*\S", option)]
        dashed = [option for option in dashed if not re.match(r"-v\s*\S", option)]
        # ReFrame's convention: an option without a dash belongs to each chunk (`ngpus=1`)
        chunk = [option for option in options if not option.startswith("-")]
        words = [f"-N {toalphanum(job.name)[:15]}", f"-o {job.stdout}"]
        if not any(re.fullmatch(r"-j\s*oe", option) for option in dashed):
            words.append(f"-e {job.stderr}")
        if job.time_limit is not None:
            words.append(f"-l walltime={hms(job.time_limit)}")
        self.pin_tonight(job)
        words.append(f"-l select={self.select(job, chunk)}")
        # a job whose node died must fail and name it, not run again on another one
        words += [] if job.may_run_again else ["-r n"]
        # PBS uses the last of several -v
        words.append(f"-v {','.join([f'TENKEN_JOB={tag(job)}', *variables])}")
        return [*words, *self.place(job, dashed), *dashed]

    def select(self, job: PatientJob, more: Sequence[str]) -> str:
        """`2:mpiprocs=4+1:mpiprocs=2`; with pinned nodes, one chunk for each. Raises JobSchedulerError if they
        differ."""
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
        """Without `scatter` PBS may place all chunks on one node."""
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
        """Each of our jobs by its id, with a second query that includes the history for those that ended: since
        December 2023, OpenPBS answers only for the first job of a list, and a list of all jobs would include other
        users'. If one query fails, the answers for the other jobs are still used.
        """
        found: dict[str, Seen | None] = {}
        refused: list[CommandError] = []
        for job in jobs:
            number = str(job.jobid)
            try:
                info = self._jobs("-f", number).get(number) or self._jobs("-xf", number).get(number)
            except CommandError as error:
                self.log(f"job {number}: {error}", WARNING)
                refused.append(error)
                found[number] = None
                if len(refused) == len(found) > 1:
                    raise  # a server that is down will not answer for the other jobs either
                continue
            if info is None:
                if self.keeps_history and job.started:
                    found[number] = Seen(_DELETED, ended=True, nodes=tuple(job.nodelist))
                continue
            one = seen(info)
            if one.pending and reasons.pbs(one.why, str(info.get("queue", ""))) is None:
                one = self._by_nodes(job, one)
            elif one.pending and not info.get("comment"):
                one = self._without_comment(job, one)
            found[number] = one
        return found

    def _jobs(self, *words: str) -> Mapping[str, Mapping[str, Any]]:
        """Jobs by id as reported by qstat; empty if the requested job is unknown. Logs what cannot be parsed."""
        question = ["qstat", words[0], "-F", "json", *words[1:]]
        try:
            answer = run(question, self.timeout, (0, *_NOT_KNOWN) if words[1:] else (0,))
        except CommandError as error:
            if words[0] == "-xf" and "history" in error.said.lower():
                self.keeps_history = False
                return {}
            raise
        try:
            found, unread = pbs_json.read(answer, "Jobs")
        except ValueError as error:
            raise CommandError(f"qstat printed {error}") from None
        if unread:
            self.log(f"qstat: {', '.join(unread)} cannot be read", WARNING)
        return found

    def submitted(self, job):
        # an object by name, or one text where it could not be read as such
        said = {number: str(info.get("Variable_List", "")) for number, info in self._jobs("-f").items()}
        return next((number for number, variables in said.items() if tag(job) in variables), None)

    def _without_comment(self, job: PatientJob, one: Seen) -> Seen:
        """Why a waiting job was not considered; after a minute, the server and its scheduler are checked."""
        if time.time() - (job.submit_time or time.time()) < UNCOMMENTED_S:
            return one
        server, scheduler = self._said("qstat", "-B", "-f"), self._said("qmgr", "-c", "list sched")
        if re.search(r"^\s*scheduling = False", server, re.M | re.I):
            return replace(one, waiting=Waiting.MENDED, why="the server is not scheduling (scheduling = False)")
        if re.search(r"^\s*state = down", scheduler, re.M | re.I):
            return replace(one, waiting=Waiting.MENDED, why="the scheduler of PBS is down (list sched: state = down)")
        return replace(one, why="PBS gives no reason: its scheduler has not looked at the job yet")

    def _said(self, *words: str) -> str:
        try:
            return run(list(words), self.timeout)
        except CommandError as error:
            self.log(str(error), WARNING)
            return ""

    def why_ended(self, job):
        """Nodes that are not in order and, if PBS itself ended the job, its exit status in words and its comment."""
        status, comment = str(job.scheduler_facts.get("Exit_status", "")), job.scheduler_facts.get("comment")
        negative = re.fullmatch(r"-[0-9]{1,3}", status)
        words = [_EXITS.get(int(status)), comment] if negative else []
        why = self._not_in_order(job) or (self._uncounted(job) if job.ended_at is None else "")
        return "; ".join(str(word) for word in [*words, why] if word)

    def _uncounted(self, job: PatientJob) -> str:
        """A note that the walltime of a job is no longer counted, although PBS calls it running and its node answers:
        in OpenPBS this is so from the end of its script, while an epilogue runs.
        """
        used = self._now(job).get("resources_used")
        counted = seconds(str(used.get("walltime", ""))) if isinstance(used, Mapping) else None
        ran = time.time() - (job.runs_since or time.time()) - job.suspended_s
        if counted is None or ran - counted < UNCOUNTED_S:
            return ""
        where = ",".join(job.nodelist) or "its node"
        return f"its walltime stopped at {hms(counted)}: an epilogue, a hook or the mom of {where} may hang"

    def limit_now(self, job):
        requested = self._now(job).get("Resource_List")
        return seconds(str(requested.get("walltime", ""))) if isinstance(requested, Mapping) else None

    def _now(self, job: PatientJob) -> Mapping[str, Any]:
        """What qstat reports of a job that has not ended; empty if it does not."""
        try:
            return self._jobs("-f", str(job.jobid)).get(str(job.jobid), {})
        except CommandError as error:
            self.log(str(error), WARNING)
            return {}

    def _not_in_order(self, job: PatientJob) -> str:
        if not self._named(job):
            return ""
        try:
            nodes = self._may_run_on(job)
        except JobSchedulerError as error:
            self.log(str(error), WARNING)
            return ""
        return in_words({node.name: node.told for node in nodes if not self.is_node_avail(node)})

    def _may_run_on(self, job: PatientJob) -> set[PbsNode]:
        """The nodes that a job has or requests by name or, otherwise, that its queue has."""
        names = set(map(short, self._named(job)))
        nodes = self.allnodes()
        return {node for node in nodes if short(node.name) in names} if names else self.filternodes(job, nodes)

    def _named(self, job: PatientJob) -> Sequence[str]:
        """The nodes that a job has, is pinned to, or requests in its options or by `select:` of the partition."""
        options = [str(self.settings.get("select") or ""), *job.sched_access, *job.options, *job.cli_options]
        return job.nodelist or job.pin_nodes or _HOST.findall(" ".join(options))

    def _by_nodes(self, job: PatientJob, one: Seen) -> Seen:
        """For a job that waits for nodes: whether enough of its possible nodes are in order, and which are not; they
        count as in order if they cannot be queried.
        """
        try:
            nodes = self._may_run_on(job)
        except JobSchedulerError as error:
            self.log(str(error), WARNING)
            return replace(one, waiting=Waiting.RUNS)
        bad = {node.name: node.told for node in nodes if not self.is_node_avail(node)}
        if not nodes or len(nodes) - len(bad) >= num_nodes(job):
            return replace(one, waiting=Waiting.RUNS)
        return replace(one, waiting=Waiting.MENDED, why="; ".join(filter(None, (one.why, in_words(bad)))))

    def allnodes(self):
        try:
            found, unread = pbs_json.read(run(["pbsnodes", "-a", "-F", "json"], self.timeout), "nodes")
        except ValueError as error:
            raise JobSchedulerError(f"pbsnodes -a -F json printed {error}") from None
        if unread:
            self.log(f"pbsnodes: {', '.join(unread)} cannot be read", WARNING)
        return {PbsNode(host, *vnodes.values()) for host, vnodes in pbs_hosts(found).items()}

    def filternodes(self, job, nodes):
        """Nodes of the requested queue, if nodes report their queues."""
        asked = queue_of([*job.sched_access, *job.options, *job.cli_options], "pbs")
        if asked is None:
            return set(nodes)
        given = {asked}
        if not any(asked in node.queues for node in nodes):  # a queue that routes, or whose nodes have another label
            given = {*pbs_labels(asked, lambda words: self._said(*words))}
        return {node for node in nodes if not node.queues or not given.isdisjoint(node.queues)}

    def is_node_avail(self, node):
        return node.states <= NODE_WORKS


def seen(info: Mapping[str, Any]) -> Seen:
    """One job of `qstat -xf -F json`; `Exit_status` may be missing, and a state letter unknown."""
    letter = str(info.get("job_state", ""))
    status = str(info.get("Exit_status", ""))
    comment = str(info.get("comment", ""))
    code = int(status) if re.fullmatch(r"-?[0-9]{1,18}", status) else None
    # the first one runs the script
    hosts = str(info.get("exec_host") or "").split("+")
    nodes = tuple(dict.fromkeys(re.split(r"[/:]", part)[0] for part in hosts if part))
    facts = {key: info[key] for key in _KEPT if key in info}
    if letter in _ENDED:
        state, killed = _ENDED[letter], False
        if code is not None and code < 0:  # ended by PBS, not by the program
            state = f"{'TIMEOUT' if code == _WALLTIME_EXCEEDED else 'CANCELLED'} (by PBS, Exit_status {code})"
            killed = True
        elif str(info.get("substate", "")) == _TERMINATED or (code is not None and code > _BY_SIGNAL):
            said = f": {comment}" if comment else ""
            state, killed = f"CANCELLED (deleted or killed, Exit_status {status or 'unknown'}{said})", True
        return Seen(state, ended=True, killed=killed, exit_code=code, nodes=nodes, facts=facts)
    if letter in _PENDING:
        at = str(info.get("queue", ""))
        waiting = Waiting.MENDED if letter == "H" else reasons.pbs(comment, at) or Waiting.RUNS
        why = comment or f"state {letter}"
        return Seen(_PENDING[letter], pending=True, waiting=waiting, why=why, facts=facts)
    state = _RUNNING.get(letter, f"UNKNOWN (state {letter!r})")
    return Seen(state, nodes=nodes, suspended=state == "SUSPENDED", facts=facts)


class PbsNode(Node):
    """A host as reported by pbsnodes, by its vnodes."""

    def __init__(self, name: str, *vnodes: Mapping[str, Any]) -> None:
        self.name = name
        self.states: set[str] = set()
        self.queues: set[str] = set()
        #: What an administrator, a hook or the server wrote about it.
        self.comments: list[str] = []
        for info in vnodes:
            self.states |= set(str(info.get("state", "")).replace(" ", "").split(","))
            offered = info.get("resources_available")
            listed = str(offered.get("Qlist", "")) if isinstance(offered, Mapping) else ""
            self.queues |= {queue for queue in [info.get("queue"), *listed.split(",")] if queue}
            self.comments += [text for text in [str(info.get("comment", ""))] if text and text not in self.comments]

    @property
    def told(self) -> str:
        """Its states, and why."""
        return ",".join(sorted(self.states)) + (f" ({'; '.join(self.comments)})" if self.comments else "")

    def in_state(self, state: str) -> bool:
        return _states(state) <= self.states

    def in_statex(self, state: str) -> bool:
        return self.states == _states(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PbsNode) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def _states(text: str) -> set[str]:
    """ReFrame's STATE; `idle`, Slurm's term in --distribute, is `free` here."""
    return {"free" if word == "idle" else word for word in text.lower().split("+")}
