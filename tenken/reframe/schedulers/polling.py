"""Follows a job to its end, whatever its scheduler answers.

Nothing here raises while jobs are polled: an exception would end the whole session. A job's problem is stated in its
state, `CANCELLED (24:00:00 in the queue: Resources)`, from which the verdict is derived; the job's own end mark, not
its exit code, determines whether it completed.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import reframe.core.runtime as runtime
import reframe.utility.osext as osext
from reframe.core.exceptions import ForceExitError, JobSchedulerError
from reframe.core.logging import WARNING
from reframe.core.schedulers import Job, JobScheduler

from tenken.archive.records import safe_name
from tenken.machines.model import Patience
from tenken.model import job_exit
from tenken.model.job import short
from tenken.paths import archive_root
from tenken.reframe import joblines
from tenken.reframe.schedulers import ledger, lost
from tenken.reframe.schedulers.command import CommandError, run

#: The output of a job that was killed, or that prints no marks, counts as complete once it has not grown for this many
#: seconds.
SETTLED_S = 3.0
#: Pause before the second cancellation of a job, in seconds; doubled for each further one.
CANCEL_AGAIN_S = 2.0
#: Seconds that the command of a submission is given after a signal, to print the number of its job.
SUBMITTING_S = 10.0
#: Seconds after which a submission without an answer is mentioned, and seconds beyond its command's time limit after
#: which it is killed; it may not end even then.
SUBMITTING_SAID_S, KILLED_S = 20.0, 30.0
#: Pauses before the queue is searched for the job of a submission that a signal interrupted, in seconds.
INTERRUPTED_S = (0.2, 2.0)
#: Minimum pause between two queries, as a multiple of the duration of the last one.
BREATHS = 4
#: If a job began this many seconds before the scheduler's start time, the scheduler had lost it and started it again.
LOST_S = 4.0
#: Errors of a connection whose other end was killed or cannot be reached, as commands of schedulers print them.
_CONNECTION = (
    errno.ENOTCONN, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE, errno.ESHUTDOWN,
    errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET,
)  # fmt: skip
#: Messages of schedulers that are busy, restarting or temporarily unreachable.
TRANSIENT = (
    *(os.strerror(number).lower() for number in _CONNECTION),
    "timed out", "gave no answer", "temporarily", "try again", "cannot connect",
    "unable to contact", "could not connect", "communication", "busy", "zero bytes were transmitted",
    "connect failure", "end of file", "no permission to reach", "server is not running", "server shutting down",
    "socket", "receive failure", "send failure", "standby mode", "header lengths are longer",
    "commlib error", "gdi request",
)  # fmt: skip
#: Messages of schedulers that accept further jobs of a user once others have ended.
FULL = (
    "maxsubmitjob", "max_submit", "maxjobs", "submitjoblimit", "job submit limit", "job count limit", "max_queued",
    "would exceed", "limit on jobs", "limit on number of jobs", "maximum number of jobs",
)  # fmt: skip
#: Seconds that a job waits before the reason is printed, and until it is printed again.
SAID_AFTER_S, SAID_AGAIN_S = 60.0, 3600.0
#: Names of nodes in one state that a reason states.
NAMED = 8
#: An option that requests a node by name.
_NODE_ASKED = re.compile(r"--nodelist|(^| )-w|\b(host|vnode|hostname)=")
#: States of a job whose script has ended and whose epilogue runs.
ENDING_STATES = ("COMPLETING", "EXITING")
#: Clock differences between a node and this host up to this many seconds are not reported.
CLOCK_S = 20.0


def end_if_signalled() -> None:
    """Raises ForceExitError if a signal requested the end of the session but was lost.

    ReFrame's handler of SIGTERM and SIGHUP raises this once and ignores further signals. If it interrupts the output of
    a log message, Python's logging prints the exception and continues, and the session would wait for its jobs.
    """
    if all(signal.getsignal(one) == signal.SIG_IGN for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)):
        raise ForceExitError("received a signal to end")


class Waiting(enum.Enum):
    """Why a job is still in the queue, which determines how long to wait for it."""

    RUNS = "will run"
    """Priority, resources, a reservation, maintenance: it resolves by itself. An unknown reason is treated like
    this."""
    MENDED = "may never run"
    """Held, stopped, drained: someone must resolve it."""
    NEVER = "cannot run"
    """The requested resources do not exist."""


@dataclass(frozen=True)
class Seen:
    """What the scheduler currently reports about the job."""

    state: str
    ended: bool = False
    pending: bool = False
    waiting: Waiting = Waiting.RUNS
    """Of a pending job."""
    lost: bool = False
    """It will neither run nor end by itself (Grid Engine's Eqw): it is removed from the queue."""
    killed: bool = False
    """Ended by the scheduler or a person, so that no end mark is to be expected."""
    output_whole: bool = False
    """Nothing is copied back after the end: the output is final."""
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()
    why: str = ""
    """Why it is pending or lost, in the scheduler's words."""
    began: float | None = None
    """When it started, in seconds since 1970; infinite: never, None: not reported."""
    suspended: bool = False
    """Suspended during the run: its measurement is then not valid."""
    forgotten: bool = False
    """The scheduler answers, but knows neither the job nor its end."""
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Other data from the scheduler, by its own names, kept for the record."""


#: By job id: its description, or None if it is unknown. A job that is missing here is no longer listed.
Answer = Mapping[str, "Seen | None"]


class PatientJob(Job):
    """A job with its history so far. Times are seconds of the follower's clock."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        #: The token of the script's marks (tenken/reframe/joblines.py); None: it prints none (a build).
        self.token: str | None = None
        #: What the scheduler reported about the job in addition to its state, under the scheduler's own names.
        self.scheduler_facts: dict[str, Any] = {}
        #: Whether it was resubmitted under another number.
        self.anew = False
        self._nothing_known()

    def _nothing_known(self) -> None:
        """Its current stage."""
        self.cancelled = False
        self.completed = False
        self.output_whole = False
        self.killed = False
        self.started = False
        self.gone = False
        self.ended_at: float | None = None
        self.heard_at: float | None = None
        self.blocked_since: float | None = None
        #: When it began according to the scheduler, and since when the scheduler no longer knows it.
        self.began_at: float | None = None
        self.forgotten_since: float | None = None
        self.output_size = -1
        self.output_since = 0.0
        #: Since when it runs, how long it was suspended, when it was last reported as running; the printed reason for
        #: its waiting, and when it was printed.
        self.runs_since: float | None = None
        self.suspended_s = 0.0
        #: Its time limit in seconds if somebody extended it.
        self.extended: float | None = None
        self.heard_before: float | None = None
        self.ending_since: float | None = None
        self.said: tuple[str, float] = ("", 0.0)
        #: Why it is being cancelled, since when, how many attempts, and the last answer.
        self.giving_up: str | None = None
        self.cancel_since = 0.0
        self.cancel_next = 0.0
        self.cancel_error: str | None = None

    def forget(self, why: str) -> None:
        """Its state after resubmission, and the text that replaces its output."""
        self.anew = True
        self.scheduler_facts = {"submitted_again": f"its first number was {self.jobid}: {why}"}
        self._nothing_known()
        for name, value in (("_jobid", None), ("_exitcode", None), ("_state", None), ("_nodelist", [])):
            setattr(self, name, value)
        for name in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                Path(self.workdir, name).unlink(missing_ok=True)

    def prepare(self, commands, *args, **kwargs):
        self.token = joblines.token_of(commands)
        return super().prepare(commands, *args, **kwargs)

    @property
    def may_run_again(self) -> bool:
        """Whether the site, the check or -J requested that the scheduler requeue it if its node fails."""
        words = " ".join([*self.sched_access, *self.options, *self.cli_options])
        return bool(re.search(r"(^| )(--requeue|-r *y)( |$)", words))


def tag(job: PatientJob) -> str:
    """The mark with which a job is found in the queue: `tenken/SESSION/TOKEN`."""
    return ledger.mark(os.environ.get("TENKEN_SESSION", "none"), job.token)


def shape(job: Job) -> list[tuple[int, int]]:
    """(nodes, tasks per node) of a job: 10 tasks at 4 per node are [(2, 4), (1, 2)], never silently 8."""
    tasks, per_node = job.num_tasks or 1, job.num_tasks_per_node or 1
    chunks = [(tasks // per_node, per_node), (1, tasks % per_node)]
    return [(nodes, each) for nodes, each in chunks if nodes and each]


def num_nodes(job: Job) -> int:
    """Number of nodes that a job needs."""
    return sum(nodes for nodes, _ in shape(job))


def hms(seconds: float) -> str:
    """HH:MM:SS, as accepted by all these schedulers."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def seconds(text: str) -> float | None:
    """`1-02:00:00`, `26:00:00` or `30:00` as Slurm and PBS print a time limit; None without one."""
    found = re.fullmatch(r"(?:(\d{1,6})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})", text.strip())
    if found is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def together(parts: Sequence[Seen]) -> Seen:
    """One state for the components of a heterogeneous job, or the tasks of an array. The job has ended when all have,
    and has the worst of their states.
    """
    worst = min(
        parts, key=lambda one: (one.ended, not one.lost, not one.pending, not one.killed, one.state == "COMPLETED")
    )
    nodes = tuple(dict.fromkeys(node for one in parts for node in one.nodes))
    began = [one.began for one in parts if one.began is not None]
    more = {"parts": len(parts), **({"nodes": ",".join(nodes)} if nodes else {})} if len(parts) > 1 else {}
    facts = {**worst.facts, **more}
    return replace(worst, nodes=nodes, began=min(began, default=None), facts=facts)


def not_in_order(told: Mapping[str, str]) -> str:
    """Nodes that are not in order, by their states: `pn1 is down (fan), pn2, pn3 are offline`."""
    of: dict[str, list[str]] = {}
    for node in sorted(told):
        of.setdefault(told[node], []).append(node)
    return ", ".join(
        f"{', '.join(nodes[:NAMED])}{f' and {more} more' if (more := len(nodes) - NAMED) > 0 else ''} "
        f"{'is' if len(nodes) == 1 else 'are'} {said}"
        for said, nodes in of.items()
    )


class Follower:
    """The state machine of jobs, independent of a scheduler's vocabulary. `cancel` requests the end of a job; it
    returns what went wrong, or None, and must not raise. `given_before` checks whether another job had the same number,
    `refused` whether the node refused to start the job; `anew` resubmits a job and returns whether that was possible.
    None of them raises.
    """

    def __init__(
        self,
        patience: Patience,
        cancel: Callable[[PatientJob], str | None],
        clock: Callable[[], float] = time.time,
        numbers: lost.Numbers | None = None,
        given_before: Callable[[PatientJob], str | None] = lambda job: None,
        anew: Callable[[PatientJob, str], bool] = lambda job, why: False,
        say: Callable[[str], None] = lambda text: None,
        ended: Callable[[PatientJob], str] = lambda job: "",
        limit: Callable[[PatientJob], float | None] = lambda job: None,
        refused: Callable[[PatientJob], str | None] = lambda job: None,
    ) -> None:
        self.patience = patience
        self.cancel = cancel
        self.clock = clock
        #: Numbers of jobs that the scheduler lost: it reuses them, and nodes that still have them reject the new job.
        self.lost = numbers or lost.Numbers()
        self.given_before = given_before
        self.anew = anew
        self.say = say
        self.ended = ended
        self.limit = limit
        self.refused = refused
        #: End of a period without queries, while a submission waited for a full queue.
        self.deaf_until = 0.0

    def update(self, jobs: Sequence[PatientJob], answer: Answer) -> None:
        """Processes one answer of the scheduler for these jobs."""
        for job in jobs:
            if job.completed:
                continue
            if str(job.jobid) not in answer:
                self._gone(job)
            elif (seen := answer[str(job.jobid)]) is None:
                self._unheard(job)
            elif seen.forgotten:
                self._forgotten(job)
            else:
                self._heard(job, seen)
            if job.giving_up is not None and job.ended_at is None:
                self._insist(job)
            if job.ended_at is not None and self._output_is_there(job):
                why = self._never_began(job)
                # a build has no marks, and its compiler's message is in the other file
                silent = self._without_trace(job) and not _text(job, job.stderr)
                refused = self.refused(job) if silent and not why else None
                if not job.anew and (again := why or refused) and self.anew(job, again):
                    continue
                if refused:  # a number that is in use is refused once: now it is the node
                    job._state = f"{job.state} ({refused})"
                job.completed = True
                self._read_output(job, why)

    def _heard(self, job: PatientJob, seen: Seen) -> None:
        job.heard_at = now = self.clock()
        job.forgotten_since = None
        job.scheduler_facts.update(seen.facts)
        job.began_at = seen.began if seen.began is not None else job.began_at
        if job.ended_at is not None and not seen.ended:
            # it was missing in only one answer, or is between two runs: it is alive
            job.gone, job.killed, job.ended_at, job._exitcode = False, job.cancelled, None, None
        if job.ended_at is not None:
            job._exitcode = seen.exit_code if job._exitcode is None else job._exitcode
            job._nodelist = job._nodelist or list(seen.nodes)
            return
        job._nodelist = list(seen.nodes) or job._nodelist
        job.started = job.started or not (seen.pending or seen.ended)
        if seen.suspended and job.started:
            job.scheduler_facts["suspended"] = True
        if job.giving_up is None or seen.ended:
            job._state = seen.state
        if seen.ended:
            job._exitcode = seen.exit_code
            job.killed = job.killed or seen.killed or job.cancelled
            job.output_whole = job.output_whole or seen.output_whole
            # if a node died, a program may end with an error before the scheduler has noticed more
            more = self.ended(job) if (seen.killed or seen.exit_code) and not job.cancelled else ""
            if more and not seen.killed:
                job.scheduler_facts["not_in_order"] = more
            elif more:
                job._state = f"{seen.state} ({more})" if "(" not in seen.state else f"{seen.state[:-1]}; {more})"
            self._end(job)
            if job.cancelled and job.giving_up is None and "CANCELLED" not in seen.state:
                job._state = f"CANCELLED ({seen.state})"
        elif job.giving_up is not None:
            pass
        elif seen.lost:
            self._give_up(job, f"{seen.state}: {seen.why}")
        elif seen.pending:
            self._pending(job, seen, now)
        else:
            job.blocked_since = None
            self._running(job, seen, now)

    def _pending(self, job: PatientJob, seen: Seen, now: float) -> None:
        waited = now - (job.submit_time or now)
        blocked = seen.waiting is not Waiting.RUNS
        job.blocked_since = (job.blocked_since or now) if blocked else None
        why = f": {seen.why}" if seen.why else ""
        if waited >= (job.max_pending_time or self.patience.pending):
            self._give_up(job, f"still in the queue after {hms(waited)}{why}")
        elif seen.waiting is Waiting.NEVER:
            self._give_up(job, f"cannot run{why}")
        elif job.blocked_since is not None and now - job.blocked_since >= self.patience.blocked:
            self._give_up(job, f"blocked in the queue{why}")
        else:
            self._say_why(job, seen, now, waited)

    def _say_why(self, job: PatientJob, seen: Seen, now: float, waited: float) -> None:
        """Prints why a job waits, and its deadline, when that is worth a line, and again every hour."""
        why = seen.why or seen.state
        said, at = job.said
        if waited >= SAID_AFTER_S and (why != said or now - at >= SAID_AGAIN_S):
            job.said = (why, now)
            most = job.max_pending_time or self.patience.pending
            if job.blocked_since is not None:
                most = min(most, job.blocked_since + self.patience.blocked - (job.submit_time or now))
            self.say(f"job {job.jobid} waits for {hms(waited)}: {why}; it is given up after {hms(most)}")

    def _running(self, job: PatientJob, seen: Seen, now: float) -> None:
        """A job that its scheduler does not end: its node is dead, or its epilogue hangs."""
        if job.runs_since is None:
            job.runs_since = now
        elif seen.suspended:
            job.suspended_s += now - (job.heard_before or now)
        job.heard_before = now
        job.ending_since = (job.ending_since or now) if seen.state in ENDING_STATES else None
        # PBS calls a job running until its epilogue has ended
        ends = max(now - (job.ending_since or now), _quiet(job, now))
        hung = ends >= self.patience.blocked
        if hung and job.token is not None and joblines.end_status(_output(job), job.token) is not None:
            # its measurement is complete; the node's epilogue is not
            where = ",".join(job.nodelist) or "its node"
            job._state = f"COMPLETED (by its own end mark; {seen.state} on {where} for {hms(ends)})"
            job.ended_at = now
            return
        limit = float(job.extended or job.time_limit or self.patience.pending)
        ran = now - job.runs_since
        if ran - min(job.suspended_s, self.patience.pending) >= limit + self.patience.overrun:
            longer = self.limit(job)
            if longer is not None and longer > limit:
                job.extended = longer
                self.say(f"the time limit of job {job.jobid} was extended to {hms(longer)}")
                return
            where = f" on {','.join(job.nodelist)}" if job.nodelist else ""
            more = f"; {said}" if (said := self.ended(job)) else ""
            self._give_up(job, f"still {seen.state}{where} after {hms(ran)}, with a time limit of {hms(limit)}{more}")

    def _unheard(self, job: PatientJob) -> None:
        now = self.clock()
        silent = now - max(job.heard_at or job.submit_time or now, self.deaf_until)
        if job.ended_at is not None or job.giving_up is not None or silent < self.patience.silence:
            return
        if job.token is not None and joblines.end_status(_output(job), job.token) is not None:
            job._state = f"COMPLETED (by its own end mark; no answer from the scheduler for {hms(silent)})"
            job.ended_at = now
        else:
            self._give_up(job, f"no answer from the scheduler for {hms(silent)}; last state {job.state or 'unknown'}")

    def _forgotten(self, job: PatientJob) -> None:
        """A controller that was killed has lost the events of its last seconds. The job's output shows whether it ran
        to its end; otherwise it was killed by the node's daemon, or never started.
        """
        job.heard_at = now = self.clock()
        if job.ended_at is not None:
            return
        text = _output(job)
        told = joblines.report(text, job.token)
        if told.status is not None:
            job._state, job.ended_at = "COMPLETED (by its own end mark; the scheduler has lost the job)", now
            return
        job.forgotten_since = since = job.forgotten_since or now
        self.lost.add(str(job.jobid))
        if job.giving_up is not None or job.cancelled or (job.token is None and text):
            self._gone(job)
        elif now - since < self.patience.output:
            return  # its output may appear late
        elif told.attempts:
            self._lose(job, "the scheduler no longer knows the job")
        else:
            self._lose(job, "the scheduler no longer knows the job, which had not started")

    def _lose(self, job: PatientJob, how: str) -> None:
        job.scheduler_facts["lost"] = how
        job._state = f"LOST ({how})"
        job.output_whole, job.ended_at = True, self.clock()

    def _gone(self, job: PatientJob) -> None:
        """Ended and forgotten (a server without job history), or missing from this answer: the output decides."""
        if job.ended_at is None:
            job._state = "CANCELLED" if job.cancelled else "COMPLETED (no longer listed)"
            job.killed = job.killed or job.cancelled
            job.gone = True
            self._end(job)

    def _end(self, job: PatientJob) -> None:
        job.ended_at = self.clock()
        if job.giving_up is not None:
            job._state = f"CANCELLED ({job.giving_up})"
        if job.killed and not job.started and not job.nodelist:
            job.output_whole = True  # it never ran: there is no output to wait for

    def _give_up(self, job: PatientJob, why: str) -> None:
        job.giving_up = why
        job._state = f"CANCELLED ({why})"
        job.cancel_since = job.cancel_next = self.clock()

    def _insist(self, job: PatientJob) -> None:
        """Cancels again with increasing pauses until the scheduler confirms it, or until patience ends, which is
        reported.
        """
        now = self.clock()
        if now >= job.cancel_next:
            job.cancel_error = self.cancel(job)
            job.cancel_next = now + max(CANCEL_AGAIN_S, now - job.cancel_since)
        if now - job.cancel_since >= self.patience.cancel:
            said = f": {job.cancel_error}" if job.cancel_error else ""
            job._state = f"CANCELLED ({job.giving_up}; not confirmed, job {job.jobid} may still exist{said})"
            job.output_whole, job.ended_at = True, now

    def _output_is_there(self, job: PatientJob) -> bool:
        """Output is copied back after the end, in parts, and appears late on a network file system."""
        now = self.clock()
        if job.output_whole or now - (job.ended_at or now) >= self.patience.output:
            return True
        text = _output(job)
        told = joblines.report(text, job.token)
        if told.status is not None or (not told.attempts and (told.unseen or "unseen" in job.scheduler_facts)):
            return True
        if job.token is not None and not job.killed:
            return False  # it ran to its end, so its end mark will appear
        if len(text) != job.output_size:
            job.output_size, job.output_since = len(text), now
        return len(text) > 0 and now - job.output_since >= SETTLED_S

    def _never_began(self, job: PatientJob) -> str | None:
        """How the scheduler lost a job before it started, or gave it a number that its node knows and rejects as
        another job's; None: it started, was removed from the queue, or failed to start for another reason.
        """
        if not self._without_trace(job):
            return None
        if how := job.scheduler_facts.get("lost"):
            return str(how)
        if str(job.jobid) in self.lost:
            return f"its number {job.jobid} belonged to a job that it lost earlier"
        if job._exitcode == 0:
            return None
        return self.given_before(job)

    @staticmethod
    def _without_trace(job: PatientJob) -> bool:
        """Whether a job that nobody removed ended without a line of its script."""
        if job.giving_up is not None or job.cancelled:
            return False
        text = _output(job)
        return not (joblines.report(text, job.token).attempts or (job.token is None and text))

    def _read_output(self, job: PatientJob, never_began: str | None) -> None:
        """The job itself is the best source for its nodes and the exit status of its program."""
        told = joblines.report(_output(job), job.token)
        # ReFrame fails a job whose error file is missing, although it may be joined to the output or never written
        with contextlib.suppress(OSError):
            Path(job.workdir, job.stderr).touch()
        job._nodelist = list(told.nodes) or job._nodelist or list(told.unseen)
        # a build has no attempts, and its script ends with 0
        ended_so = not told.attempts and job._exitcode in (job_exit.NO_STAGE, job_exit.NO_STAGE << 8)
        if ended_so or (told.unseen and told.status != 0):
            job.scheduler_facts.setdefault("unseen", "")
        if job.token is None and "unseen" in job.scheduler_facts:
            job._exitcode = None  # ReFrame would report only the exit code; the build also names the node
        began = told.attempts[-1].time if told.attempts else None
        clock = self._clock(job, began)
        if clock is not None:
            job.scheduler_facts["clock"] = clock
        elif began is not None and job.began_at is not None and began < job.began_at - LOST_S:
            self._started_again(job, told, began)
        elif never_began:
            job.scheduler_facts["lost"] = never_began
        if job._exitcode is None:
            job._exitcode = told.status

    def _clock(self, job: PatientJob, began: float | None) -> str | None:
        """How far a node's clock is off, if that is certain: the job began before it was submitted, or after now."""
        if began is None or job.submit_time is None:
            return None
        where = short(",".join(job.nodelist[:1])) or "its node"
        if (behind := job.submit_time - began) > CLOCK_S:
            return f"the clock of {where} is at least {behind:.0f} s behind this host's"
        if (ahead := began - self.clock()) > CLOCK_S:
            return f"the clock of {where} is at least {ahead:.0f} s ahead of this host's"
        return None

    @staticmethod
    def _started_again(job: PatientJob, told: joblines.JobReport, began: float) -> None:
        """The scheduler reports a later start than the job does. Its controller was killed before it recorded that the
        job was running; it considered the job pending, and ended both when the node rejected the second copy.
        """
        if told.status is None:
            by_it = (
                f"according to the scheduler at {utc(job.began_at)}"
                if job.began_at != math.inf
                else "according to the scheduler never"
            )
            job.scheduler_facts["lost"] = f"it began at {utc(began)}, {by_it}"
        elif job.killed or job._exitcode not in (None, told.status):
            job._state = "COMPLETED (by its own end mark; the scheduler had lost the job and counted another start)"
            job._exitcode = told.status


def utc(moment: float | None) -> str:
    """HH:MM:SS of a time in seconds since 1970."""
    return time.strftime("%H:%M:%SZ", time.gmtime(moment))


def _output(job: Job) -> str:
    return _text(job, job.stdout)


def _text(job: Job, name: str) -> str:
    try:
        return Path(job.workdir, name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _quiet(job: PatientJob, now: float) -> float:
    """Seconds since the job's output grew, as far as the polls show."""
    try:
        size = Path(job.workdir, job.stdout).stat().st_size
    except OSError:
        size = -1
    if size != job.output_size:
        job.output_size, job.output_since = size, now
    return now - (job.output_since or now)


def _to_its_end(job: PatientJob, submit: Callable[[], str], limit: float, say: Callable[[str], None]) -> str:
    """The answer of a submission, whose command is killed after `limit` seconds. A signal ends the session but not this
    command: the job that it brings into the queue is cancelled by its number. Raises CommandError if it never ends.
    """
    answers: list[str | BaseException] = []
    over = threading.Event()  # after an interrupted join() Python considers a running thread ended (bpo-45274)

    def run() -> None:
        try:
            answers.append(submit())
        except BaseException as error:
            answers.append(error)
        over.set()

    try:
        threading.Thread(target=run, daemon=True).start()
        if not over.wait(SUBMITTING_SAID_S):
            say(f"the scheduler has not answered the submission of {job.name} yet; given up after {hms(limit)}")
            if not over.wait(max(0.0, limit - SUBMITTING_SAID_S) + KILLED_S):
                raise CommandError(f"the command of the submission did not end within {limit + KILLED_S:g} s")
    except (ForceExitError, KeyboardInterrupt):
        if not over.is_set():
            say(f"a signal: the submission of {job.name} has {SUBMITTING_S:g} s to report the number of its job")
        over.wait(SUBMITTING_S)
        if answers and isinstance(answers[0], str):
            job._jobid = answers[0]
        raise
    if isinstance(answers[0], BaseException):
        raise answers[0]
    return answers[0]


class Patient(JobScheduler):
    """The part of a back end that polls; it precedes a ReFrame back end in the list of bases."""

    cancel_command = "qdel"
    #: Prefix of the options that turn a job into an array.
    array = r"-t\b"
    #: Number of jobs assigned to tonight's nodes so far.
    dealt = 0
    #: End of a period without queries for the other jobs, while a submission waited for a full queue.
    deaf_until = 0.0
    #: Messages of the cancel command for a job that has already gone, in lower case.
    cancel_needless = ("unknown job", "job has finished", "no such request", "does not exist", "invalid job id")

    def __init__(self):
        super().__init__()
        prefix = str(self._config_prefix).replace("sched_options", "extras")
        # settings from tenken/reframe/configuration.py for this scheduler's partition
        self.settings = runtime.runtime().get_option(prefix) or {}
        self.patience = Patience(**self.settings.get("patience", {}))
        self.timeout = self.get_option("job_submit_timeout")
        numbers = lost.Numbers(archive_root() / lost.FOLDER / safe_name(runtime.runtime().system.name))
        self.follower = Follower(
            self.patience, self.try_to_cancel, numbers=numbers, given_before=self.given_before, anew=self.submit_anew,
            say=lambda text: self.log(text, WARNING), ended=self.why_ended, limit=self.limit_now, refused=self.refused,
        )  # fmt: skip
        self.ask_next = 0.0

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        """The scheduler's report on these jobs. Raises CommandError if there is no answer."""
        raise NotImplementedError

    def submitted(self, job: PatientJob) -> str | None:
        """The id of a job that is in the queue although its submission was reported as failed; None: there is none.
        Raises CommandError if the scheduler does not respond.
        """
        return None

    def given_before(self, job: PatientJob) -> str | None:
        """How the scheduler shows that another job had this number; None: it does not. Never raises."""
        return None

    def refused(self, job: PatientJob) -> str | None:
        """How the scheduler shows that a node refused to start a job, of which nothing was printed; None: it does not.
        Never raises.
        """
        return None

    def why_ended(self, job: PatientJob) -> str:
        """Which of the nodes that a job has, or was created for, are not in order: the reason why its scheduler ends
        it, or does not end it. Never raises.
        """
        return ""

    def limit_now(self, job: PatientJob) -> float | None:
        """The time limit of a running job in seconds, which an operator may have extended; None: not reported. Never
        raises.
        """
        return None

    def submit_anew(self, job: PatientJob, why: str) -> bool:
        """Resubmit a job that never started. Never raises; False: it was not resubmitted."""
        self.log(f"job {job.jobid} never started, {why}: resubmitted", WARNING)
        former, facts = job.jobid, job.scheduler_facts
        job.forget(why)
        try:
            with osext.change_dir(job.workdir):
                self.submit(job)
        except (JobSchedulerError, OSError) as error:
            self.log(f"resubmission failed: {error}", WARNING)
            job._jobid, job.scheduler_facts = former, facts
            job._state = f"LOST ({why}; resubmission failed: {error})"
            job.output_whole, job.ended_at = True, time.time()
            return False
        return True

    def make_job(self, *args, **kwargs):
        return PatientJob(*args, **kwargs)

    def pin_tonight(self, job: PatientJob) -> None:
        """Pins a job that could run on any node to the next of tonight's nodes."""
        nodes = self.settings.get("tonight") or []
        own = [*job.options, *job.cli_options]
        if job.token is None or not nodes or job.pin_nodes or num_nodes(job) != 1 or _NODE_ASKED.search(" ".join(own)):
            return
        job.pin_nodes = [nodes[self.dealt % len(nodes)]]
        self.dealt += 1

    def poll(self, *jobs):
        end_if_signalled()
        known = [job for job in jobs if job is not None and job.jobid is not None and not job.completed]
        if not known or time.monotonic() < self.ask_next:
            return
        began = time.monotonic()
        try:
            answer = self.ask(known)
        except (JobSchedulerError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            self.log(f"no answer on {len(known)} jobs: {error}", WARNING)
            answer = {str(job.jobid): None for job in known}
        self.follower.deaf_until = self.deaf_until
        # a slow server is queried less often
        self.ask_next = time.monotonic() + min(BREATHS * (time.monotonic() - began), 60)
        self.follower.update(known, answer)
        for job in known:
            if job.completed and job.token is None:
                ledger.close(job)  # the entry of a check remains until its record is archived

    def finished(self, job):
        return job.completed

    def wait(self, job):
        while not self.finished(job):
            self.poll(job)
            time.sleep(1)

    def try_to_cancel(self, job: PatientJob) -> str | None:
        """Requests the end. None: accepted, or the job has gone; otherwise the scheduler's message. Never raises."""
        job.cancelled = True
        if job.forgotten_since is not None:
            return None  # its number may belong to another job by now
        try:
            run([self.cancel_command, str(job.jobid)], min(self.timeout, 15))
        except CommandError as error:
            if any(words in error.said.lower() for words in self.cancel_needless):
                return None
            self.log(str(error), WARNING)
            return str(error)
        return None

    def cancel(self, job):
        """ReFrame's method, called when a session ends. Retried for a while, then reported; never raises."""
        if job.completed:
            return
        for pause in (1, 2, 4, 0):
            said = self.try_to_cancel(job)
            if said is None:
                ledger.close(job)
                return
            time.sleep(pause)
        self.log(f"job {job.jobid} could not be cancelled and may still exist: {said}; see tenken jobs", WARNING)

    def cancel_many(self, jobs):
        for job in jobs:
            self.cancel(job)

    def refuse_an_array(self, options: Sequence[str]) -> None:
        for option in options:
            if re.match(self.array, option):
                raise JobSchedulerError(
                    f"{option!r} of the system file, the check or -J makes an array, whose jobs would share one "
                    "stage folder; allowed: options of one job, and --repeat to measure again"
                )

    def enqueue(self, job: PatientJob, submit: Callable[[], str]) -> None:
        """Submits; a rejection by the scheduler ends the job, not the test, so that it leaves a record with the reason.
        For a build, which has no record, the error is raised.
        """
        try:
            job._jobid = self.submit_patiently(job, submit)
        except (ForceExitError, KeyboardInterrupt):
            # ReFrame cancels a job that has a number; the request of a command that was killed may have arrived
            for pause in () if job.jobid else INTERRUPTED_S:
                time.sleep(pause)
                if found := self._found_in_queue(job):
                    job._jobid = found
                    break
            if job.jobid:
                ledger.write(job, self.registered_name, self.cancel_command)
            raise
        except JobSchedulerError as error:
            if job.token is None:
                raise
            self.log(str(error), WARNING)
            job._jobid = f"none-{job.token[:8]}"
            job._state = f"CANCELLED (not submitted: {error})"
            job._submit_time = time.time()
            job.completed = True
            for name in (job.stdout, job.stderr):  # ReFrame requires both
                with contextlib.suppress(OSError):
                    Path(job.workdir, name).touch()
            return
        job._submit_time = time.time()
        ledger.write(job, self.registered_name, self.cancel_command)

    def submit_patiently(
        self,
        job: PatientJob,
        submit: Callable[[], str],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> str:
        """The result of `submit`, or the id of a job that a seemingly failed submission left.

        If the scheduler was only busy, it is retried after 1, 2, 4, ... 30 s until `patience.submission` is over. If
        the scheduler accepts no more jobs of this user for now, it is retried every 30 s until `patience.pending` is
        over. Then the last CommandError is raised. Before each retry the queue is searched for the job.
        """
        began, tries, said = clock(), 0, 0.0
        while True:
            tries += 1
            try:
                found = self._found_in_queue(job) if tries > 1 else None
                return found or _to_its_end(job, submit, float(self.timeout), lambda text: self.log(text, WARNING))
            except CommandError as error:
                words = f"{error} {error.said}".lower()
                full = any(hint in words for hint in FULL)
                if error.missing or not (full or any(hint in words for hint in TRANSIENT)):
                    raise
                waited, most = clock() - began, self.patience.pending if full else self.patience.submission
                if waited >= most:
                    raise CommandError(f"{error} ({tries} attempts in {hms(waited)})", error.said) from None
                if not full or tries == 1 or waited - said >= SAID_AGAIN_S:
                    said = waited
                    self.log(f"{error}; {tries} attempts, the last one after {hms(most)}", WARNING)
                sleep(min(2 ** (tries - 1), 30))
                end_if_signalled()
                self.deaf_until = clock()

    def _found_in_queue(self, job: PatientJob) -> str | None:
        try:
            found = self.submitted(job)
        except CommandError:
            return None
        if found:
            self.log(f"the submission that failed or was interrupted left job {found}", WARNING)
        return found
