"""Runs a campaign: submits node jobs in waves, gathers their results, and resumes after any kill."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from tenken.campaign import nodejob, plan, spool
from tenken.campaign.alive import Alive
from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.journal import Attempt, Chosen, Journal, State, Unit
from tenken.campaign.queue import JobScript, Queue, Refused, Seen
from tenken.errors import ArchiveError
from tenken.model.job import job_name

#: A line of progress is printed at least this often, in seconds.
PROGRESS_S = 8.0
#: Seconds to wait for the results of an ended job: network file systems show them late.
LATE_S = 60.0
#: Seconds without a submission after the queue refused one.
_FULL_S = 30.0
#: Number of submissions between two queries of the queue.
_BATCH = 100
#: Number of times that suspects are chosen: once after the rounds and, if measurements were INVALID, once after the
#: second runs.
_CHOICES = 2
STOP = "stop"
#: The reason of an attempt that never became a job.
NEVER_QUEUED = "never entered the queue"


class Runner:
    """One campaign in its folder. `suspects` returns the nodes to run again once all rounds are over, with the checks
    that caused it (none: all checks); `say` prints a line, `page` rewrites the live page."""

    def __init__(
        self, campaign: Campaign, folder: Path, archive: Path, queue: Queue, say: Callable[[str], None],
        suspects: Callable[[State], Chosen],
        page: Callable[[State, str], None] = lambda state, line: None,
        clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep, poll: float = 5.0,
        late: float = LATE_S, python: Path = Path("/usr/bin"),
    ) -> None:  # fmt: skip
        self.campaign, self.folder, self.archive, self.queue = campaign, folder, archive, queue
        self.alive = Alive(say, "beginning")
        self.suspects, self.page = suspects, page
        self.clock, self.sleep, self.poll, self.late, self.python = clock, sleep, poll, late, python
        self.journal = Journal(folder, clock)
        self.spool = folder / "spool"
        self.scripts = folder / "jobs"
        self.ended_since: dict[str, float] = {}
        self.runs_since: dict[str, float] = {}
        #: Jobs that wait for a repair: deadline and reason, by the attempt's token.
        self.blocked: dict[str, tuple[float, str]] = {}
        self.said_at = 0.0
        self.refused = ""
        #: Since when the scheduler has neither answered nor accepted a job.
        self.refused_since: float | None = None
        self.next_submission = 0.0
        self._rounds: list[Unit] = []
        self._left: tuple[int, list[Unit]] = (-1, [])

    @property
    def state(self) -> State:
        return self.journal.state

    def say(self, line: str) -> None:
        self.alive.said()
        self.alive.say(line)

    # -- the whole --

    def run(self) -> bool:
        """From the current state to the end. True: every node was tested. Raises CampaignError, ArchiveError."""
        self.journal.open()
        try:
            with self.alive:
                return self._go()
        finally:
            self.journal.close()

    def _go(self) -> bool:
        self.alive.doing("querying the scheduler for its limits and for jobs of this campaign")
        self._begin()
        while not self._over():
            self._step()
            if self._over():
                break
            if (self.folder / STOP).exists():
                self._stop()
                return False
            self._progress()
            self._give_up_on_scheduler()
            self.alive.doing("waiting for jobs")
            self.sleep(self.poll)
        self._progress(last=True)
        return not self.lost()

    def _begin(self) -> None:
        try:
            self._limits = self.queue.limits()
            if not self.state.begun:
                # whether it answers at all: not every scheduler is queried for its limits
                self.queue.tagged(nodejob.tag(self.campaign.name))
        except Refused as error:
            raise CampaignError(f"nothing is started, because the scheduler does not respond: {error}") from None
        for place in (self.spool, self.scripts, self.folder / "built"):
            place.mkdir(parents=True, exist_ok=True)
        (self.folder / STOP).unlink(missing_ok=True)
        if not self.state.begun:
            began = datetime.fromtimestamp(self.clock(), timezone.utc)
            self.journal.note(
                "campaign", name=self.campaign.name, nodes=len(self.campaign.nodes), begun=f"{began:%Y%m%dT%H%M%SZ}"
            )
        self._adopt()

    def _adopt(self) -> None:
        """Finds jobs that were submitted without being recorded, and jobs that belong to no attempt any more."""
        if not self.state.attempts:
            return
        queued = self._patiently(lambda: self.queue.tagged(nodejob.tag(self.campaign.name)))
        # some schedulers show nothing but the job's name
        named = {job_name(token): token for token in self.state.attempts}
        for said, job in queued.items():
            token = named.get(said, said)
            if said.startswith("tk") and token == said:
                continue  # another campaign's
            attempt = self.state.attempts.get(token)
            if attempt is not None and attempt.open:
                if attempt.job is None:
                    self.journal.note("submitted", token=token, job=job)
            else:
                self.say(f"job {job} belongs to no open attempt of this campaign: cancelled")
                self._cancel(job)
        whole = set(spool.there(self.spool))
        for attempt in list(self.state.attempts.values()):
            known = attempt.token in whole or (self.spool / f"{attempt.token}.claim").is_dir()
            if attempt.open and attempt.job is None and not known:
                # it may have been refused or be in transit; if it appears later it is cancelled as unknown
                self.journal.note("ended", token=attempt.token, why=NEVER_QUEUED)

    def _patiently(self, ask: Callable[[], dict[str, str]]) -> dict[str, str]:
        for pause in (1, 2, 5, 10, 20, 30):
            try:
                return ask()
            except Refused as error:
                self.say(f"the scheduler does not respond: {error}; next attempt in {pause} s")
                self.sleep(pause)
        try:
            return ask()
        except Refused as error:
            raise CampaignError(f"the scheduler does not respond: {error}; `resume` continues from here") from None

    def _step(self) -> None:
        self.alive.doing("collecting results of nodes")
        self._gather()
        self.alive.doing("querying the scheduler for job states")
        self._watch()
        wanted = self.to_do()
        if not wanted and not self.state.open() and not self._chosen():
            self.alive.doing("comparing all nodes for suspects")
            self._choose_retests()
            wanted = self.to_do()
        self.alive.doing("submitting jobs")
        self._submit(wanted)

    def _give_up_on_scheduler(self) -> None:
        """Raises CampaignError if the scheduler has refused everything for `wait_hours`."""
        now = self.clock()
        if not self.refused:
            self.refused_since = None
            return
        since = self.refused_since = min(now, self.refused_since if self.refused_since is not None else now)
        if now - since > self.campaign.wait_seconds:
            hours = self.campaign.wait_seconds / 3600
            raise CampaignError(
                f"the scheduler has refused everything for {hours:g} h: {self.refused}; `resume` continues from here"
            )

    def _over(self) -> bool:
        return self._chosen() and not self.state.open() and not self.to_do()

    def _chosen(self) -> bool:
        """Whether the suspects were chosen, and no second run can add any."""
        phases = self.state.phases
        return bool(phases) and not (len(phases) < _CHOICES and phases[-1].get("void"))

    # -- pending work --

    def units(self) -> list[Unit]:
        """All units of the campaign, in the order in which they are started."""
        if not self._rounds:
            for number in range(1, self.campaign.rounds + 1):
                units: dict[str, list[str]] = {}
                for node in self.campaign.nodes:
                    units.setdefault(self.campaign.unit_of(node), []).append(node)
                order = list(units)
                # shuffled, so that changes in the room are not mistaken for an effect of a rack; the same order after a
                # kill
                random.Random(f"{self.campaign.name}/{number}").shuffle(order)
                self._rounds += [Unit(node, "round", number) for unit in order for node in units[unit]]
        return [*self._rounds, *self.state.retests]

    def to_do(self) -> list[Unit]:
        """Units without an open attempt or a result that have attempts and budget left."""
        left, each = self._left_of_budget(), self.campaign.seconds / 3600
        if left < each:
            return []
        if self._left[0] != self.state.version:  # cached: queried several times per poll, for ten thousand nodes
            self._left = self.state.version, [unit for unit in self.units() if self._may_be_tried(unit)]
        if self.campaign.unit is None or left == float("inf"):
            return self._left[1]
        return [unit for block in self._blocks(self._left[1]) if len(block) * each <= left for unit in block]

    def _blocks(self, units: Sequence[Unit]) -> list[list[Unit]]:
        """Units that start together or not at all: nodes of one unit, in one round."""
        found: dict[tuple[str, str, int], list[Unit]] = {}
        for one in units:
            found.setdefault((self.campaign.unit_of(one.node), one.purpose, one.number), []).append(one)
        return list(found.values())

    def _may_be_tried(self, unit: Unit) -> bool:
        tried = self.state.tried(unit)
        if any(a.open or a.gathered is not None for a in tried):
            return False
        return sum(a.ended != NEVER_QUEUED for a in tried) < self.campaign.attempts

    def lost(self) -> list[Unit]:
        """Units without a result."""
        return [unit for unit in self.units() if not self.state.done(unit)]

    def spent_hours(self) -> float:
        """Node hours of gathered results, plus the maximum for jobs in flight."""
        return (self.state.seconds + len(self.state.open()) * self.campaign.seconds) / 3600

    def _left_of_budget(self) -> float:
        """Node hours; a rounding error must not stop the campaign."""
        budget = self.campaign.budget_node_hours
        return float("inf") if budget is None else budget - self.spent_hours() + 1e-9

    def _choose_retests(self) -> None:
        chosen = self.suspects(self.state)
        checks, nodes = chosen.checks, list(chosen.checks)
        most = self.campaign.max_retested
        before = {unit.node: unit.number for unit in self.state.retests}
        if most is not None:
            most = max(0, most - len(before.keys() - set(nodes)))
        if most is not None and len(nodes) > most:
            self.say(
                f"{len(nodes)} nodes are suspect; 'max_nodes' permits {most} to be measured again: the fleet "
                f"is not homogeneous"
            )
            nodes = nodes[:most]
        if self.campaign.unit:
            nodes = self.campaign.together(nodes)
        runs = range(self.campaign.retest_runs)
        units = [Unit(n, "retest", before.get(n, 0) + i + 1) for i in runs for n in nodes]
        only = {}
        if self.campaign.retest_suspect_checks:
            of_block: dict[str, list[Sequence[str]]] = {}
            for node in nodes:
                of_block.setdefault(self.campaign.unit_of(node), []).extend([checks[node]] if node in checks else [])
            # nodes that are judged as one run the same checks
            kept = {block: sorted({c for one in all_ for c in one}) for block, all_ in of_block.items() if all(all_)}
            only = {u.id: kept[b] for u in units if (b := self.campaign.unit_of(u.node)) in kept}
        more = {**({"only": only} if only else {}), **({"void": True} if chosen.void and units else {})}
        self.journal.note("phase", units=[u.id for u in units], **more)
        if units:
            self.say(
                f"suspects are measured again: {', '.join(nodes[:8])}{' ...' if len(nodes) > 8 else ''} "
                f"({len(units)} runs)"
            )

    # -- jobs --

    def _submit(self, wanted: Sequence[Unit]) -> None:
        together, _ = plan.at_once(self.campaign, self._limits)
        flying = self.state.open()
        busy = {a.unit.node for a in flying}  # two simultaneous runs on a node would disturb each other
        free = together - len(flying)
        sent, left, each = 0, self._left_of_budget(), self.campaign.seconds / 3600
        for block in self._blocks(wanted):
            if free <= 0 or sent >= _BATCH or 0 < self.next_submission - self.clock() <= _FULL_S:
                return
            if any(unit.node in busy for unit in block):
                continue
            if len(block) > together:
                name = self.campaign.unit_of(block[0].node)
                raise CampaignError(
                    f"the {len(block)} nodes of '{name}' start together; the queue accepts {together} jobs"
                )
            if left < each * len(block) or free < len(block):
                return
            for unit in block:
                busy.add(unit.node)
                left -= each
                if not self._sent(unit, together):
                    return
                free, sent = free - 1, sent + 1
                self._progress()

    def _sent(self, unit: Unit, together: int) -> bool:
        """Whether the scheduler accepted the job of a unit."""
        try:
            self._one(unit, together)
        except Refused as error:
            self.refused = str(error)
            # a full queue accepts more when a job has ended
            self.next_submission = self.clock() + _FULL_S
            if not error.later:
                raise CampaignError(f"node {unit.node}: the scheduler accepts no job: {error}") from None
            return False
        self.refused, self.refused_since = "", None
        return True

    def _one(self, unit: Unit, together: int) -> None:
        token = secrets.token_hex(8)
        number = len(self.state.tried(unit)) + 1
        wait = plan.delay(self.campaign, len(self.state.attempts), together, random.random())
        script = self.queue.script(
            JobScript(
                job_name(token), nodejob.tag(self.campaign.name, token), unit.node, self.campaign.seconds + wait,
                self.scripts / f"{token}.out",
                nodejob.commands(self.campaign, unit, token, self.spool, self.folder / "built",
                                 self.state.begun["begun"], wait, self.python, only=self.state.only.get(unit, ())),
            )
        )  # fmt: skip
        path = self.scripts / f"{token}.sh"
        path.write_text(script, encoding="utf-8")
        self.journal.note("intent", token=token, unit=unit.id, attempt=number)
        try:
            job = self.queue.submit(path)
        except Refused as error:
            taken = self._taken_after_all(token) if error.later else None
            if taken is None:
                self.journal.note("ended", token=token, why=NEVER_QUEUED)
                raise
            job = taken
        self.journal.note("submitted", token=token, job=job)

    def _taken_after_all(self, token: str) -> str | None:
        """The job of a submission whose answer was lost; None: there is none, or the scheduler does not answer."""
        try:
            queued = self.queue.tagged(nodejob.tag(self.campaign.name))
        except Refused:
            return None
        return queued.get(token) or queued.get(job_name(token))

    def _gather(self) -> None:
        for token in spool.there(self.spool):
            self._progress()
            attempt = self.state.attempts.get(token)
            if attempt is None:
                continue
            if attempt.gathered is not None:
                spool.put_away(self.spool, token)
                continue
            if self.state.done(attempt.unit):  # given up too soon: the node has its result, which counts once
                if attempt.open:
                    self.journal.note("ended", token=token, why="its node had already been tested")
                continue
            name = nodejob.session(self.state.begun["begun"], self.campaign.name, attempt.unit)
            try:
                found = spool.gather(self.spool, token, attempt.unit.node, name, self.archive)
            except ArchiveError as error:
                raise CampaignError(f"{error}; `resume` collects it again") from None
            if found.fault is not None:
                if attempt.open:
                    self.journal.note("ended", token=token, why=found.fault)
                continue
            self.journal.note(
                "gathered", token=token, session=name, records=list(found.records), verdicts=found.verdicts,
                seconds=round(found.seconds, 3), began=(found.meta or {}).get("begin"),
            )  # fmt: skip
            spool.put_away(self.spool, token)

    def _watch(self) -> None:
        flying = self.state.open()
        if not flying:
            return
        try:
            seen = self.queue.states([a.job for a in flying if a.job is not None])
        except Refused as error:
            self.refused = str(error)
            return
        if self.refused and self.next_submission <= self.clock():
            self.refused = ""
        now = self.clock()
        for attempt in flying:
            job = str(attempt.job)
            one = seen.get(job, Seen(ended=True, why="no longer listed"))
            if one is None:
                continue
            waits = not one.running and not one.ended
            self._note_blocked(attempt, one, now)
            if (gone := self._stuck(attempt, one, now)) is not None:
                self._cancel(job)
                self.journal.note("ended", token=attempt.token, why=gone)
            elif one.dead or (waits and now - attempt.submitted > self.campaign.wait_seconds):
                self._cancel(job)
                late = f"did not start within {self.campaign.wait_seconds / 3600:g} h"
                why = f"{'can never run' if one.dead else late}{f' ({one.why})' if one.why else ''}"
                self.journal.note("ended", token=attempt.token, why=why)
            elif one.ended:
                # the clock may have been set back meanwhile
                since = self.ended_since[attempt.token] = min(now, self.ended_since.get(attempt.token, now))
                if now - since >= self.late:
                    self.journal.note("ended", token=attempt.token, why=self._why(attempt, one))
            else:
                self.ended_since.pop(attempt.token, None)

    def _note_blocked(self, attempt: Attempt, one: Seen, now: float) -> None:
        if one.dead or not (one.blocked or one.held):
            self.blocked.pop(attempt.token, None)
            return
        most = self.campaign.blocked_seconds if one.blocked else self.campaign.wait_seconds
        until, _ = self.blocked.get(attempt.token, (now + most, ""))
        if attempt.token not in self.blocked:
            self.say(
                f"node {attempt.unit.node}: its job {attempt.job} cannot start ({one.why}); given up after "
                f"{spelled(most)}"
            )
        # the clock may have been set back meanwhile
        self.blocked[attempt.token] = (min(until, now + most), one.why)

    def _stuck(self, attempt: Attempt, one: Seen, now: float) -> str | None:
        """Why an attempt is given up although its job is in the queue; None: it is not."""
        if one.blocked and attempt.token in self.blocked and now >= self.blocked[attempt.token][0]:
            return f"job {attempt.job} could not start for {spelled(self.campaign.blocked_seconds)} ({one.why})"
        if not one.running:
            return None
        since = self.runs_since[attempt.token] = min(now, self.runs_since.get(attempt.token, now))
        together, _ = plan.at_once(self.campaign, self._limits)
        most = self.campaign.seconds + plan.delay(self.campaign, together - 1, together, 1.0)
        most += self.campaign.overrun_seconds
        if now - since < most:
            return None
        return f"job {attempt.job} still ran after {spelled(most)}, beyond its time limit: its node may be dead"

    def _why(self, attempt: Attempt, seen: Seen) -> str:
        claimed = (self.spool / f"{attempt.token}.claim").is_dir()
        return f"job {attempt.job} {'left no file' if claimed else 'never began'} ({seen.why or 'ended'})"

    def _cancel(self, job: str) -> None:
        try:
            self.queue.cancel(job)
        except Refused as error:
            self.say(f"job {job} could not be cancelled: {error}")

    def _stop(self) -> None:
        for attempt in self.state.open():
            if attempt.job is not None:
                self._cancel(attempt.job)
        self.say(f"stopped; `tenken campaign resume {self.campaign.name}` continues")

    # -- telling --

    def _progress(self, last: bool = False) -> None:
        """Prints a line of progress, if one is due."""
        now = self.clock()
        if not last and 0 <= now - self.said_at < PROGRESS_S:
            return
        self.said_at = now
        line = self.line()
        self.say(line)
        self.page(self.state, line)

    def line(self) -> str:
        """The progress and the remaining work."""
        units, flying = self.units(), self.state.open()
        done = sum(self.state.done(unit) for unit in units)
        now = datetime.fromtimestamp(self.clock(), timezone.utc)
        text = (
            f"{now:%H:%M:%S} {done} of {len(units)} node runs done, {len(flying)} in the queue or running, "
            f"{len(self.to_do())} to submit; {self.spent_hours():.1f} node hours"
        )
        bad = sum(1 for a in self.state.attempts.values() if a.ended and a.ended != NEVER_QUEUED)
        text += f"; {bad} attempts without a result" if bad else ""
        stuck = [a for a in flying if a.token in self.blocked]
        if stuck:
            shown = ", ".join(f"{a.unit.node} ({self.blocked[a.token][1]})" for a in stuck[:4])
            text += f"; {len(stuck)} cannot start: {shown}{' ...' if len(stuck) > 4 else ''}"
        left = remaining(self.state, len(units) - done - len(stuck), len(flying) - len(stuck))
        if left is not None and stuck:
            left = max(left, max(self.blocked[a.token][0] for a in stuck) - self.clock())
        text += f"; about {left / 60:.0f} min left" if left is not None and not self._over() else ""
        return text + (f"; the scheduler: {self.refused}" if self.refused else "")


def spelled(seconds: float) -> str:
    """Minutes, or seconds if they are few."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def remaining(state: State, left: int, flying: int) -> float | None:
    """Seconds until the rest is done, by the average time per node so far; None: none is done."""
    took = [float(a.gathered.get("seconds", 0.0)) for a in state.attempts.values() if a.gathered]
    return left / max(flying, 1) * sum(took) / len(took) if took else None
