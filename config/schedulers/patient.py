"""A job is followed to its end however oddly its scheduler answers.

Nothing here raises while jobs are polled: an exception there would end the whole session. What is wrong with a job
stands in its state, `CANCELLED (24:00:00 in the queue: Resources)`, from where the verdict takes it; the job's own
end mark, not its exit code, says whether it ran through.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import reframe.core.runtime as runtime
from reframe.core.exceptions import JobSchedulerError
from reframe.core.logging import WARNING
from reframe.core.schedulers import Job, JobScheduler

from config.schedulers.command import CommandError, run
from systems.model import Patience
from tenken import joblines

#: An output without an end mark (its job was killed) is taken as whole once it has not grown for this many seconds.
SETTLED_S = 3.0
#: What schedulers say when they are busy, restart or cannot be reached for a moment.
TRANSIENT = (
    "timed out", "gave no answer", "temporarily", "try again", "connection refused", "cannot connect",
    "unable to contact", "could not connect", "communication", "busy",
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What the scheduler says of a job at this moment."""

    state: str
    ended: bool = False
    pending: bool = False
    blocked: bool = False
    """Pending for a reason that waiting does not mend."""
    lost: bool = False
    """It will neither run nor end by itself (Grid Engine's Eqw): it is taken out of the queue."""
    output_whole: bool = False
    """Nothing is copied back after the end: what output there is, is there."""
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()
    why: str = ""
    """Why it is pending or lost, in the scheduler's words."""


#: By job id: what is said of it, or None where nothing could be learnt. A job that is missing is not listed any more.
Answer = Mapping[str, "Seen | None"]


class PatientJob(Job):
    """A job with what is known of its way to the end. Times are seconds of the clock that the follower uses."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cancelled = False
        self.completed = False
        self.output_whole = False
        self.gone = False
        self.ended_at: float | None = None
        self.heard_at: float | None = None
        self.blocked_since: float | None = None
        self.output_size = -1
        self.output_since = 0.0


def shape(job: Job) -> list[tuple[int, int]]:
    """(nodes, tasks on each) of a job: 10 tasks at 4 a node are [(2, 4), (1, 2)], never a silent 8."""
    tasks, per_node = job.num_tasks or 1, job.num_tasks_per_node or 1
    chunks = [(tasks // per_node, per_node), (1, tasks % per_node)]
    return [(nodes, each) for nodes, each in chunks if nodes and each]


def num_nodes(job: Job) -> int:
    """Nodes that a job needs."""
    return sum(nodes for nodes, _ in shape(job))


def hms(seconds: float) -> str:
    """HH:MM:SS, as all these schedulers take it."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


class Follower:
    """The state machine of jobs, without any scheduler's words. `cancel` must not raise."""

    def __init__(
        self, patience: Patience, cancel: Callable[[PatientJob], None], clock: Callable[[], float] = time.time
    ) -> None:
        self.patience = patience
        self.cancel = cancel
        self.clock = clock

    def update(self, jobs: Sequence[PatientJob], answer: Answer) -> None:
        """Take in one answer of the scheduler on these jobs."""
        for job in jobs:
            if job.completed:
                continue
            if str(job.jobid) not in answer:
                self._gone(job)
            elif (seen := answer[str(job.jobid)]) is None:
                self._unheard(job)
            else:
                self._heard(job, seen)
            if job.ended_at is not None and self._output_is_there(job):
                job.completed = True
                self._read_output(job)

    def _heard(self, job: PatientJob, seen: Seen) -> None:
        job.heard_at = now = self.clock()
        if job.gone and not seen.ended:
            job.gone, job.ended_at = False, None  # it was only missing in one answer
        if job.ended_at is not None:
            job._exitcode = seen.exit_code if job._exitcode is None else job._exitcode
            return
        job._state = seen.state
        job._nodelist = list(seen.nodes) or job._nodelist
        if seen.ended:
            job._exitcode = seen.exit_code
            job.ended_at, job.output_whole = now, seen.output_whole
            if job.cancelled and "CANCELLED" not in seen.state:
                job._state = f"CANCELLED ({seen.state})"
        elif seen.lost:
            self._give_up(job, f"{seen.state}: {seen.why}")
        elif seen.pending:
            self._pending(job, seen, now)
        else:
            job.blocked_since = None

    def _pending(self, job: PatientJob, seen: Seen, now: float) -> None:
        waited = now - (job.submit_time or now)
        job.blocked_since = (job.blocked_since or now) if seen.blocked else None
        why = f": {seen.why}" if seen.why else ""
        if waited >= (job.max_pending_time or self.patience.pending):
            self._give_up(job, f"still in the queue after {hms(waited)}{why}")
        elif job.blocked_since is not None and now - job.blocked_since >= self.patience.blocked:
            self._give_up(job, f"blocked in the queue{why}")

    def _unheard(self, job: PatientJob) -> None:
        now = self.clock()
        silent = now - (job.heard_at or job.submit_time or now)
        if job.ended_at is None and silent >= self.patience.silence:
            self._give_up(job, f"no word from the scheduler for {hms(silent)}; last state {job.state or 'unknown'}")

    def _gone(self, job: PatientJob) -> None:
        """Ended and forgotten (a server without job history), or missing in this answer: the output tells which."""
        if job.ended_at is None:
            job._state = "CANCELLED" if job.cancelled else "COMPLETED (no longer listed)"
            job.gone, job.ended_at = True, self.clock()

    def _give_up(self, job: PatientJob, why: str) -> None:
        self.cancel(job)
        job._state = f"CANCELLED ({why})"
        job.output_whole, job.ended_at = True, self.clock()

    def _output_is_there(self, job: PatientJob) -> bool:
        """Output is copied back after the end, and shows late on a network file system."""
        now = self.clock()
        if job.output_whole or now - (job.ended_at or now) >= self.patience.output:
            return True
        text = _output(job)
        if joblines.end_status(text) is not None:
            return True
        if len(text) != job.output_size:
            job.output_size, job.output_since = len(text), now
        return len(text) > 0 and now - job.output_since >= SETTLED_S

    def _read_output(self, job: PatientJob) -> None:
        """The job itself knows best on which nodes it ran and how its program ended."""
        text = _output(job)
        # ReFrame fails a job whose error file is not there: joined to the output, or never written
        with contextlib.suppress(OSError):
            Path(job.workdir, job.stderr).touch()
        job._nodelist = joblines.nodes(text) or job._nodelist
        if job._exitcode is None:
            job._exitcode = joblines.end_status(text)


def _output(job: Job) -> str:
    try:
        return Path(job.workdir, job.stdout).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class Patient(JobScheduler):
    """A back end's part that polls; where one of ReFrame's is derived from as well, this goes before it."""

    cancel_command = "qdel"

    def __init__(self):
        super().__init__()
        prefix = str(self._config_prefix).replace("sched_options", "extras")
        # what config/assemble.py hands to this scheduler's partition
        self.settings = runtime.runtime().get_option(prefix) or {}
        self.patience = Patience(**self.settings.get("patience", {}))
        self.timeout = self.get_option("job_submit_timeout")
        self.follower = Follower(self.patience, self.cancel)

    def ask(self, jobs: Sequence[PatientJob]) -> Answer:
        """What the scheduler says of these jobs. Raises CommandError when it gives no answer."""
        raise NotImplementedError

    def make_job(self, *args, **kwargs):
        return PatientJob(*args, **kwargs)

    def poll(self, *jobs):
        known = [job for job in jobs if job is not None and job.jobid is not None and not job.completed]
        if not known:
            return
        try:
            answer = self.ask(known)
        except (CommandError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.log(f"no answer on {len(known)} jobs: {error}", WARNING)
            answer = {str(job.jobid): None for job in known}
        self.follower.update(known, answer)

    def finished(self, job):
        return job.completed

    def wait(self, job):
        while not self.finished(job):
            self.poll(job)
            time.sleep(1)

    def cancel(self, job):
        """Never raises: a job that ended meanwhile cannot be cancelled, and that is no fault."""
        job.cancelled = True
        try:
            run([self.cancel_command, str(job.jobid)], self.timeout)
        except CommandError as error:
            self.log(str(error), WARNING)

    def cancel_many(self, jobs):
        for job in jobs:
            self.cancel(job)

    def submit_patiently(self, submit: Callable[[], str], sleep: Callable[[float], None] = time.sleep) -> str:
        """Submit again after 1, 2, 4, ... s where the scheduler was only busy. Raises the last CommandError."""
        for attempt in range(1, self.patience.submissions + 1):
            try:
                return submit()
            except CommandError as error:
                words = f"{error} {error.said}".lower()
                if error.missing or not any(hint in words for hint in TRANSIENT):
                    raise
                if attempt == self.patience.submissions:
                    raise CommandError(f"{error} (tried {attempt} times)", error.said) from None
                self.log(f"{error}; tried {attempt} of {self.patience.submissions} times", WARNING)
                sleep(min(2 ** (attempt - 1), 30))
        raise JobSchedulerError("no try to submit is allowed")
