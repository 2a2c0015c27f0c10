"""The queues of Slurm, PBS, NQSV and Grid Engine for campaigns, with the parsers of ReFrame's back ends."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reframe.core.exceptions import JobSchedulerError

from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.queue import JobScript, Limits, Queue, Refused, Seen
from tenken.machines import pbs_json
from tenken.machines.cluster import pbs_hosts, queue_of
from tenken.machines.model import Partition, fill
from tenken.model import job_exit
from tenken.model.job import short
from tenken.reframe.schedulers import command, gridengine, nqsv, pbs, slurm
from tenken.reframe.schedulers.polling import Seen as Told
from tenken.reframe.schedulers.polling import Waiting, hms

_TIMEOUT_S = 60.0
#: Maximum number of PBS jobs that are queried one by one per poll.
_ALONE = 50
_NEEDLESS = ("unknown job", "job has finished", "no such request", "does not exist", "invalid job id")
#: Words of a permanent refusal.
_FINAL = (
    "invalid partition", "invalid account", "invalid qos", "unknown queue", "unknown resource", "illegal option",
    "bad gid", "invalid node name", "time limit", "violates queue", "not on path", "invalid option",
)  # fmt: skip


def _ask(words: Sequence[str], ok: tuple[int, ...] = (0,)) -> str:
    try:
        return command.run(list(words), _TIMEOUT_S, ok)
    except JobSchedulerError as error:
        text = str(error)
        raise Refused(text, later=not any(word in text.lower() for word in _FINAL)) from None


def _seen(one: Told | None) -> Seen | None:
    if one is None:
        return None
    dead = one.lost or (one.pending and one.waiting is Waiting.NEVER)
    running = not one.pending and not one.ended
    unseen = one.exit_code == job_exit.NO_STAGE or "unseen" in one.facts
    why = (one.state, one.why, "its node does not see the campaign's folder" if unseen else "", one.facts.get("unseen"))
    held = one.pending and one.waiting is Waiting.MENDED
    return Seen(running, one.ended, dead, "; ".join(filter(None, why)), held=held)


def _read(parse: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The parsed answer; None if it cannot be parsed."""
    try:
        return parse()
    except (JobSchedulerError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Refused(f"an answer of the scheduler cannot be read: {error}") from None


def _pinned_to_bad(pinned: Mapping[str, str], nodes: Mapping[str, str]) -> dict[str, str]:
    """The state of the node by job, for jobs that wait for a single node that accepts no jobs. `nodes`: states by
    name."""
    bad = {short(node): state for node, state in nodes.items() if state.lower().startswith(slurm.NODE_BROKEN)}
    return {job: f"{node} is {bad[short(node)]}" for job, node in pinned.items() if short(node) in bad}


def _with_nodes(found: dict[str, Seen | None], bad: Mapping[str, str]) -> dict[str, Seen | None]:
    for job, why in bad.items():
        if (one := found.get(job)) is not None:
            found[job] = replace(one, blocked=True, why="; ".join(filter(None, (one.why, why))))
    return found


class _Base:
    """A partition of a system, with the campaign's option that pins a job to a node."""

    pinned: str | None = None
    cancels = "qdel"
    prefix = "#PBS"

    def __init__(self, partition: Partition, pin: str | None) -> None:
        self.partition = partition
        self.pin = pin or self.pinned
        if self.pin is None:
            raise CampaignError(
                f"scheduler '{partition.scheduler}' has no known option that pins a job to a node: set 'pin' in the "
                f"campaign file, with {{node}} for its name"
            )

    def pinning(self, node: str) -> str:
        return str(self.pin).replace("{node}", node)

    def directives(self, job: JobScript) -> list[str]:
        raise NotImplementedError

    def one_node(self, job: JobScript) -> None:
        """Raises CampaignError for a job over several nodes, for which pinning is not implemented with this
        scheduler."""
        if len(job.nodes) > 1:
            raise CampaignError(
                f"jobs over groups of nodes are not available for scheduler '{self.partition.scheduler}'; allowed: "
                "slurm, pbs"
            )

    def script(self, job: JobScript) -> str:
        """Directives, followed by the commands in bash."""
        access = [o for o in self.partition.access if "${" not in o]
        lines = [f"{self.prefix} {words}" for words in [*self.directives(job), *access]]
        prepare = [*self.partition.prepare]
        return "\n".join(["#!/bin/bash", *lines, *prepare, *job.commands]) + "\n"

    def submit(self, path: Path) -> str:
        more = [word for option in self.partition.submit_options for word in option.split()]
        answer = _ask(["qsub", *more, str(path)])
        found = self.job_id(answer)
        if found is None:
            raise Refused(f"qsub printed no job id but {answer.strip()[:200]!r}")
        return found

    def job_id(self, answer: str) -> str | None:
        raise NotImplementedError

    def cancel(self, job: str) -> None:
        """A job that no longer exists is not an error."""
        try:
            command.run([self.cancels, job], _TIMEOUT_S)
        except command.CommandError as error:
            if not any(word in error.said.lower() for word in _NEEDLESS):
                raise Refused(str(error)) from None

    def limits(self) -> Limits:
        return Limits()

    def exclusion(self, node: str, reason: str) -> str:
        return f"# take {node} out of service: {reason}"


class SlurmQueue(_Base):
    pinned = "--nodelist={node}"
    cancels = "scancel"
    prefix = "#SBATCH"

    def directives(self, job: JobScript) -> list[str]:
        minutes = max(1, -(-int(job.seconds) // 60))
        return [
            f"--job-name={job.name}", f"--output={job.output}", f"--nodes={max(len(job.nodes), 1)}", "--exclusive",
            "--no-requeue", f"--time={minutes}", f'--comment="{job.tag}"',
            self.pinning(",".join(job.nodes) or job.node),
        ]  # fmt: skip

    def submit(self, path: Path) -> str:
        answer = _ask(["sbatch", str(path)])
        found = re.search(r"Submitted batch job (\d+)", answer)
        if not found:
            raise Refused(f"sbatch printed no job id but {answer.strip()[:200]!r}")
        return found[1]

    def states(self, jobs: Sequence[str]) -> dict[str, Seen | None]:
        if not jobs:
            return {}
        columns = "JobID:|,State:|,exit_code:|,NodeList:|,Partition:|,RestartCnt:|,Reason:|"
        # all jobs of this user at once: a list of thousands of ids is too long for a command line
        table = _ask(["squeue", "-h", "-t", "all", "-u", getpass.getuser(), "-O", columns])
        found = {number: _seen(one) for number, one in _read(lambda: slurm.listed(table)).items()}
        wanted = set(jobs)
        if any(one is not None and not one.running and not one.ended for one in found.values()):
            found = _with_nodes(found, self._bad_nodes(found))
        rest = [one for one in jobs if one not in found]
        for start in range(0, len(rest), 500):
            try:
                words = ["sacct", "-X", "-n", "-P", "-j", ",".join(rest[start : start + 500]), "-o"]
                told = slurm.accounted(_ask([*words, "jobid,state,exitcode,nodelist"]))
                found.update({number: _seen(one) for number, one in told.items()})
            except Refused:
                break  # without accounting, a job that is not listed has ended
        return {number: one for number, one in found.items() if number in wanted}

    def _bad_nodes(self, found: Mapping[str, Seen | None]) -> dict[str, str]:
        """For jobs that wait for one node: which node, and its state if it accepts no jobs; empty if there is no
        answer."""
        try:
            pending = _ask(["squeue", "-h", "-t", "PD", "-u", getpass.getuser(), "-O", "JobID:|,ReqNodes:|"])
            nodes = _ask(["sinfo", "-h", "-N", "-o", "%N|%T|%E"])
        except Refused:
            return {}
        rows = (line.strip().strip("|").split("|") for line in pending.splitlines())
        pinned = {row[0].strip(): row[1].strip() for row in rows if len(row) == 2}
        told = [words for line in nodes.splitlines() if len(words := line.strip().split("|", 2)) == 3]
        states = {node: state + (f" ({why})" if why not in ("", "none") else "") for node, state, why in told}
        return _pinned_to_bad({job: node for job, node in pinned.items() if job in found}, states)

    def tagged(self, tag: str) -> dict[str, str]:
        table = _ask(["squeue", "-h", "-u", getpass.getuser(), "-O", "JobID:|,Comment:256"])
        rows = (line.split("|", 1) for line in table.splitlines() if "|" in line)
        return {c.strip().removeprefix(tag): n.strip() for n, c in rows if c.strip().startswith(tag)}

    def limits(self) -> Limits:
        """MaxJobCount applies to the whole site: a quarter of it is used. MaxArraySize is irrelevant without job
        arrays.
        """
        text = _ask(["scontrol", "show", "config"])
        found = re.search(r"^MaxJobCount\s*=\s*(\d+)", text, re.M)
        most = [(int(found[1]) // 4, "a quarter of MaxJobCount")] if found else []
        submit = re.search(r"max_submit_jobs=(\d+)", text)
        most += [(int(submit[1]), "max_submit_jobs")] if submit else []
        return Limits(*min(most)) if most else Limits()

    def exclusion(self, node: str, reason: str) -> str:
        return f"scontrol update nodename={node} state=drain reason={shlex.quote(reason)}"


class PbsQueue(_Base):
    pinned = "host={node}"

    def directives(self, job: JobScript) -> list[str]:
        node = self.partition.node
        cores = node.cores or 1
        each = fill(
            self.partition.select or "mpiprocs={num_tasks_per_node}:ncpus={num_cpus_per_node}",
            {"num_tasks_per_node": 1, "num_cpus_per_node": cores},
        )
        chunks = [f"1:{each}:{self.pinning(node)}" for node in job.nodes or (job.node,)]
        place = [f"-l place={self.partition.place}"] if self.partition.place else []
        return [
            f"-N {job.name}", f"-o {job.output}", "-j oe", f"-l walltime={hms(job.seconds)}", "-r n", *place,
            f"-l select={'+'.join(chunks)}", f"-v TENKEN_JOB={job.tag}",
        ]  # fmt: skip

    def script(self, job: JobScript) -> str:
        text = super().script(job)
        # an option without a dash belongs to the chunk
        bare = [line.split(" ", 1)[1] for line in text.splitlines() if re.match(r"#PBS [^-]", line)]
        kept = "\n".join(line for line in text.splitlines() if not re.match(r"#PBS [^-]", line))

        def whole(line: re.Match[str]) -> str:
            return "+".join(":".join([chunk, *bare]) for chunk in line[1].split("+"))

        return re.sub(r"(?m)^(#PBS -l select=.*)$", whole, kept, count=1) + "\n"

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^(\d\S*)\s*$", answer, re.M)
        return found[1] if found else None

    def _jobs(self, *words: str) -> dict[str, Any]:
        answer = _ask(["qstat", words[0], "-F", "json", *words[1:]], (0, 153, 35) if words[1:] else (0,))
        try:
            return dict(pbs_json.read(answer, "Jobs")[0])
        except ValueError as error:
            raise Refused(f"qstat printed {error}") from None

    def states(self, jobs: Sequence[str]) -> dict[str, Seen | None]:
        living = self._jobs("-f") if jobs else {}
        found = {job: _seen(pbs.seen(living[job])) for job in jobs if job in living}
        missing = [job for job in jobs if job not in living]
        for job in missing[:_ALONE]:
            # ended, and the history shows how; or other output hid the answer
            one = self._alone(job)
            found |= {job: _seen(pbs.seen(one))} if one else {}
        found |= dict.fromkeys(missing[_ALONE:])
        waiting = [job for job, one in found.items() if one is not None and not one.running and not one.ended]
        return _with_nodes(found, self._bad_nodes({job: living[job] for job in waiting if job in living}))

    def _alone(self, job: str) -> Mapping[str, Any] | None:
        try:
            return self._jobs("-xf", job).get(job)
        except Refused as error:
            if "history" in str(error).lower():
                return self._jobs("-f", job).get(job)
            raise

    def _bad_nodes(self, waiting: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """As for Slurm; the node is the one in the job's chunk."""
        chunks = {
            job: re.findall(r"\bhost=([\w.-]+)", str(info.get("Resource_List", ""))) for job, info in waiting.items()
        }
        if not any(chunks.values()):
            return {}
        try:
            nodes = pbs_json.read(_ask(["pbsnodes", "-a", "-F", "json"]), "nodes")[0]
        except (Refused, ValueError):
            return {}
        hosts = [pbs.PbsNode(host, *vnodes.values()) for host, vnodes in pbs_hosts(nodes).items()]
        bad = {short(host.name): host.told for host in hosts if not host.states <= pbs.NODE_WORKS}
        return {job: f"{n} is {bad[short(n)]}" for job, names in chunks.items() for n in names[:1] if short(n) in bad}

    def tagged(self, tag: str) -> dict[str, str]:
        found = {}
        for number, info in self._jobs("-f").items():
            variables = info.get("Variable_List", {})
            said = variables.get("TENKEN_JOB", "") if isinstance(variables, dict) else str(variables)
            match = re.search(re.escape(tag) + r"([0-9a-f]+)", said)
            if match and info.get("job_state") not in ("F", "X", "C"):
                found[match[1]] = number
        return found

    def limits(self) -> Limits:
        """The smallest `max_queued` of server and queue that concerns this user or project; PBS prints a line for each
        kind. To which group a job counts is not known before."""
        queue = queue_of(self.partition.access, "pbs")
        projects = re.findall(r"(?:^|\s)-P\s*(\S+)", " ".join(self.partition.access))
        mine = {"u": getpass.getuser(), "p": projects[-1] if projects else "_pbs_project_default", "o": "PBS_ALL"}
        most = []
        for where in ("server", *([f"queue {queue}"] if queue else [])):
            try:
                text = _ask(["qmgr", "-c", f"list {where}"])
            except Refused:
                continue
            lines = "\n".join(re.findall(r"^\s*max_queued = (.*)$", text, re.M))
            of = {who: int(count) for who, count in re.findall(r"\b([uop]:[^\s=\[\]]+)=(\d+)", lines)}
            binding = (of.get(f"{kind}:{name}", of.get(f"{kind}:PBS_GENERIC")) for kind, name in mine.items())
            most += [count for count in binding if count is not None]
        return Limits(min(most), "max_queued") if most else Limits()

    def exclusion(self, node: str, reason: str) -> str:
        return f"pbsnodes -o -C {shlex.quote(reason)} {node}"


class NqsvQueue(_Base):
    def directives(self, job: JobScript) -> list[str]:
        self.one_node(job)
        return [
            f"-N {job.name}", f"-o {job.output}", "-j o", "-b 1", "-r n", f"-l elapstim_req={hms(job.seconds)}",
            self.pinning(job.node),
        ]  # fmt: skip

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^Request (\d+\.\S+) submitted to queue: \S+", answer, re.M)
        return found[1] if found else None

    def states(self, jobs: Sequence[str]) -> dict[str, Seen | None]:
        text = _ask(["qstat"]) if jobs else ""
        return {job: _seen(one) for job, one in nqsv.of(jobs, _read(lambda: nqsv.requests(text))).items()}

    def tagged(self, tag: str) -> dict[str, str]:
        return _by_name(line.split()[:2] for line in _ask(["qstat"]).splitlines())


class GridEngineQueue(_Base):
    prefix = "#$"
    pinned = "-l hostname={node}"

    def directives(self, job: JobScript) -> list[str]:
        self.one_node(job)
        request = [fill(text, {"num_nodes": 1}) for text in self.partition.node_request]
        return [
            f"-N {job.name}", f"-o {job.output}", "-j y", "-r n", *request, f"-l h_rt={hms(job.seconds)}",
            self.pinning(job.node),
        ]  # fmt: skip

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^Your job (\d+) ", answer, re.M)
        return found[1] if found else None

    def states(self, jobs: Sequence[str]) -> dict[str, Seen | None]:
        text = _ask(["qstat", "-xml", "-u", getpass.getuser()]) if jobs else ""
        living = _read(lambda: gridengine.states(text)) if jobs else {}
        return {job: _seen(living[job]) for job in jobs if job in living}

    def tagged(self, tag: str) -> dict[str, str]:
        text = _ask(["qstat", "-xml", "-u", getpass.getuser()])
        rows = re.findall(r"<JB_job_number>(\d+)</JB_job_number>.*?<JB_name>([^<]*)</JB_name>", text, re.S)
        return _by_name(rows)

    def exclusion(self, node: str, reason: str) -> str:
        return f"qmod -d '*@{node}'  # {reason}"


def _by_name(rows: Any) -> dict[str, str]:
    """Jobs can be found only by name (`job_name` of the token)."""
    return {row[1]: row[0] for row in rows if len(row) == 2 and re.fullmatch(r"tk[0-9a-z]{6}", row[1])}


QUEUES: dict[str, type[_Base]] = {
    "slurm": SlurmQueue, "pbs": PbsQueue, "nqsv": NqsvQueue, "gridengine": GridEngineQueue,
}  # fmt: skip


def of(campaign: Campaign, partition: Partition) -> Queue:
    """The queue of a campaign's partition. Raises CampaignError if it has none."""
    if partition.scheduler not in QUEUES:
        raise CampaignError(
            f"partition '{partition.name}' has scheduler '{partition.scheduler}'; allowed: {', '.join(QUEUES)}"
        )
    if not partition.usable:
        raise CampaignError(f"partition '{partition.name}' cannot be used: {partition.scheduler_status}")
    return QUEUES[partition.scheduler](partition, campaign.pin)  # type: ignore[return-value]
