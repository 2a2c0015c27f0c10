"""Grid Engine (Univa), as run on TSUBAME3.0."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace

import reframe.utility.osext as osext
from reframe.core.backends import register_scheduler

from tenken.machines.model import fill
from tenken.reframe.schedulers.batch import Batch
from tenken.reframe.schedulers.command import CommandError, run
from tenken.reframe.schedulers.polling import Answer, PatientJob, Seen, Waiting, hms, num_nodes, tag, together

#: `sge` is ReFrame's own, which drops the partition's options and waits forever for a job in state E.
NAME = "gridengine"


#: `failed` of `qacct` for a job whose output could not be opened, or whose folder could not be entered.
_UNSEEN = ("26", "28")
#: Of a job that ended by itself; 100: with an exit status of a signal, whether its own or that of its script.
_BY_ITSELF = ("", "0", "100")
_REASON = re.compile(r"^error reason\s+\d+:.*?\b(error: .*)$", re.M)
_JOB = re.compile(r"<job_list\b.*?</job_list>", re.S)
_NOT_SEEN = re.compile(r"can't (chdir to|open \w+ file)")


@register_scheduler(NAME)
class GridEngine(Batch):
    """Requests whole nodes by the site's own resource. A job that has ended is no longer listed."""

    prefix = "#$"

    def directives(self, job: PatientJob, options: Sequence[str]) -> list[str]:
        words = [f"-N {job.name}", f"-o {job.stdout}", f"-e {job.stderr}"]
        # several -v add up
        words += [*([] if job.may_run_again else ["-r n"]), f"-v TENKEN_JOB={tag(job)}"]
        words += [fill(text, {"num_nodes": num_nodes(job)}) for text in self.settings.get("node_request", ())]
        if job.time_limit is not None:
            words.append(f"-l h_rt={hms(job.time_limit)}")
        return [*words, *options]

    def job_id(self, answer: str) -> str | None:
        found = re.search(r"^Your job (\d+) ", answer, re.M)
        return found[1] if found else None

    def submitted(self, job):
        listed = states(run(["qstat", "-xml", "-u", osext.osuser()], self.timeout))
        # the newest first; a job that has just ended has no mark any more
        each = sorted(filter(str.isdigit, listed), key=int, reverse=True)
        return next((number for number in each if self._has_mark(number, job)), None)

    def _has_mark(self, number: str, job: PatientJob) -> bool:
        return bool(re.search(rf"\bTENKEN_JOB={re.escape(tag(job))}(,|\s|$)", self._told("qstat", "-j", number)))

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        found: dict[str, Seen] = states(run(["qstat", "-xml", "-u", osext.osuser()], self.timeout))
        for job in jobs:
            number = str(job.jobid)
            if number in found and found[number].lost:
                found[number] = self._in_error(job, found[number])
            elif number not in found and job.gone and (one := self._accounted(job)):
                # it ended, and no end mark was found yet
                found[number] = one
        return found

    def _in_error(self, job: PatientJob, seen: Seen) -> Seen:
        """A job that a node could not start, with the reason from qstat and the node from accounting."""
        reason = _REASON.search(self._told("qstat", "-j", str(job.jobid)))
        facts = {"unseen": f"Grid Engine: {reason[1]}"} if reason and _NOT_SEEN.search(reason[1]) else {}
        record = self._accounted(job) or Seen("unknown")
        return replace(seen, nodes=record.nodes, facts={**record.facts, **facts})

    def _accounted(self, job: PatientJob) -> Seen | None:
        return accounted(self._told("qacct", "-j", str(job.jobid)), job.name)

    def _told(self, *words: str) -> str:
        """The answer of a command that sites may lack or forbid; empty if there is none."""
        try:
            return run(list(words), self.timeout)
        except CommandError as error:
            self.log(str(error))
            return ""


def states(answer: str) -> dict[str, Seen]:
    """Jobs by number from `qstat -xml`, which lists each running task of an array, and others in groups. Raises
    CommandError if it is not XML."""
    try:
        root = ET.fromstring(answer)
    except ET.ParseError as error:
        if not answer.rstrip().endswith(">") or "</job_info>" not in answer[-40:]:
            raise CommandError(f"qstat printed no XML: {error}") from None
        # names of jobs are as their users wrote them (`a&b`, an invalid byte) and must not void other fields
        found = [(_field(one, "JB_job_number"), _field(one, "state")) for one in _JOB.findall(answer)]
    else:
        jobs = root.iter("job_list")
        found = [(one.findtext("JB_job_number") or "", one.findtext("state") or "") for one in jobs]
    parts: dict[str, list[Seen]] = {}
    for number, letters in found:
        parts.setdefault(number, []).append(seen(letters))
    return {number: together(of_it) for number, of_it in parts.items() if number}


def _field(entry: str, name: str) -> str:
    told = re.search(rf"<{name}>\s*([\w.-]+)\s*</{name}>", entry)
    return told[1] if told else ""


def accounted(table: str, name: str) -> Seen | None:
    """The last entry of `qacct -j NUMBER`; None if the job there has another name, since numbers are reused. `failed`
    of a job that did not start is `28 : changing into working directory`.
    """
    found = dict(line.split(None, 1) for line in table.splitlines() if len(line.split(None, 1)) == 2)
    failed, status = found.get("failed", "").strip(), found.get("exit_status", "").strip()
    if "hostname" not in found or found.get("jobname", "").strip() != name:
        return None
    number = failed.split(" ")[0]
    facts = {"unseen": f"Grid Engine: failed {failed}"} if number in _UNSEEN else {}
    # by a limit of its queue or its request (37, Univa's 44), or with its host
    killed = number not in (*_BY_ITSELF, *_UNSEEN)
    # Univa names the signal: `137                  (Killed)`
    told = re.fullmatch(r"(\d{1,9})(?:\s+\(.*\))?", status)
    code = int(told[1]) if told else None
    state = f"CANCELLED (Grid Engine: failed {failed})" if killed else "COMPLETED (no longer listed)"
    return Seen(state, ended=True, killed=killed, exit_code=code, nodes=(found["hostname"].strip(),), facts=facts)


def seen(letters: str) -> Seen:
    """A job's state: E error, h held, q queued, d being deleted, s S T N P suspended (N P: Univa's own, for preempted
    jobs), r t R running."""
    why = f"state {letters}"
    if "E" in letters:
        return Seen("ERROR", lost=True, why=f"{why}, see qstat -j")
    if "q" in letters:
        held = "h" in letters
        waiting = Waiting.MENDED if held else Waiting.RUNS
        return Seen("HELD" if held else "PENDING", pending=True, waiting=waiting, why=why)
    if "d" in letters:
        return Seen("DELETING")
    suspended = bool(set(letters) & set("sSTNP"))
    return Seen("SUSPENDED" if suspended else "RUNNING", suspended=suspended)
