"""Jobs over groups of nodes: an exchange between all nodes of a group by `mpi_p2p`, and its figure for `groups.search`.

The answers of each round are kept in the campaign's folder: after an interruption the same search takes them from there
and asks for the rest.
"""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.archive import records as archive
from tenken.campaign import nodejob
from tenken.campaign.file import Between, Campaign, CampaignError
from tenken.campaign.queue import JobScript, Queue, Refused
from tenken.model.job import short

#: How a rank is started on each node of a job, by the launcher of the system file.
LAUNCH = {
    "srun": "srun --nodes={ranks} --ntasks={ranks} --ntasks-per-node=1",
    "mpirun": "mpirun -n {ranks} --map-by ppr:1:node",
}
PROGRAM = "mpi_p2p"
#: Of the campaign's folder.
FOLDER = "groups"
#: Times that a submission is tried, and seconds between.
#: Seconds that a job may run beyond its time limit.
OVERRUN_S = 900.0
_TRIES, _BETWEEN_TRIES_S = 5, 5.0


def tag(campaign: str) -> str:
    """What group jobs are found by in the queue: none of them is taken for a node's job."""
    return nodejob.tag(f"{campaign}.groups")


def program(between: Between, folder: Path) -> str:
    """The program: that of the campaign file, else what the campaign's first node built. Raises CampaignError."""
    if between.program:
        return between.program
    built = sorted(p for p in (folder / "built").rglob(PROGRAM) if p.is_file())
    if not built:
        raise CampaignError(
            f"no {PROGRAM} below {folder / 'built'}: include a check that runs it (MpiHost) in the campaign, or set "
            "'between.program'"
        )
    return str(built[-1].resolve())


def commands(between: Between, launch: str, path: str, ranks: int, document: Path) -> list[str]:
    """Shell lines of the job of one group."""
    arguments = [
        path, "--ranks", str(ranks), "--nodes", str(ranks), "--buffers", between.buffers, "--tests", "alltoall",
        "--min-bytes", str(between.bytes), "--max-bytes", str(between.bytes),
        "--max-collective-bytes", str(between.bytes), "--repetitions", str(between.repetitions),
        "--json", str(document),
    ]  # fmt: skip
    return [f"{launch.replace('{ranks}', str(ranks))} {shlex.join(arguments)} < /dev/null"]


def figure(text: str, nodes: Sequence[str], size: int) -> float:
    """What each rank moved in GB/s, of a document of just these nodes. Raises ValueError that says why it is none."""
    try:
        found: dict[str, Any] = json.loads(text)
        if found["status"] != "ok" or found["verification"]["passed"] is not True:
            raise ValueError(f"status {found['status']}: {found.get('reason') or 'the verification failed'}")
        ran = sorted(short(str(one)) for one in found["placement"]["nodes"])
        if ran != sorted(map(short, nodes)):
            raise ValueError(f"it ran on {', '.join(ran)}")
        values = [m for m in found["metrics"] if m["name"] == "alltoall"]
        if len(values) != 1 or values[0]["unit"] != "us" or values[0]["statistic"] != "median":
            raise ValueError("it does not have exactly one alltoall metric in us")
        value = float(values[0]["value"])
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        raise ValueError("its document is damaged") from None
    if not 0 < value < float("inf"):
        raise ValueError(f"its alltoall is {value}")
    return (len(nodes) - 1) * size / value / 1e3


@dataclass
class GroupJobs:
    """Runs the groups of a round at once, a job each."""

    campaign: Campaign
    folder: Path
    queue: Queue
    launch: str
    say: Callable[[str], None]
    poll: float = 5.0
    late: float = 30.0
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    rounds: int = 0
    _began: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.campaign.between is not None
        self.between: Between = self.campaign.between
        self.path = program(self.between, self.folder)

    def clear(self) -> None:
        """Cancels jobs that an interrupted search left behind."""
        for job in self.queue.tagged(tag(self.campaign.name)).values():
            self.say(f"job {job} of an interrupted search: cancelled")
            self.queue.cancel(job)

    def ask(self, groups: Sequence[tuple[str, ...]]) -> list[float | None]:
        """The figure of each group; None: its job left none. Raises CampaignError where nothing can be submitted."""
        self.rounds += 1
        place = self.folder / FOLDER / f"round-{self.rounds:02d}"
        kept = place / "answers.json"
        known = _known(kept, groups)
        if known is not None:
            self.say(f"round {self.rounds}: {len(groups)} results from before the interruption")
            return known
        place.mkdir(parents=True, exist_ok=True)
        self._began.clear()
        try:
            jobs = [self._submit(place, number, group) for number, group in enumerate(groups)]
            self.say(f"round {self.rounds}: {sum(j is not None for j in jobs)} jobs over {sum(map(len, groups))} nodes")
            self._wait([job for job in jobs if job is not None])
        except BaseException:
            for job in self._began:
                self.queue.cancel(job)
            raise
        answers = [
            None if job is None else self._read(place, number, group, job)
            for number, (group, job) in enumerate(zip(groups, jobs, strict=True))
        ]
        archive.write_file(kept, json.dumps({"groups": [list(g) for g in groups], "answers": answers}) + "\n")
        if len(groups) > 1 and not any(answers):
            raise CampaignError(f"no job of round {self.rounds} reported a value: see {place}")
        return answers

    def done(self) -> Path:
        """Puts the answers of a search that has ended aside: the next one asks anew. Where they lie now."""
        numbers = (int(p.name.removeprefix(f"{FOLDER}-")) for p in self.folder.glob(f"{FOLDER}-*[0-9]"))
        aside = self.folder / f"{FOLDER}-{max(numbers, default=0) + 1}"
        return (self.folder / FOLDER).rename(aside)

    def _submit(self, place: Path, number: int, group: tuple[str, ...]) -> str | None:
        if len(group) < 2:
            return None  # there is nothing to exchange with
        document = place / f"{number}.json"
        document.unlink(missing_ok=True)
        minutes = 60.0 * self.between.minutes
        script = place / f"{number}.sh"
        token = secrets.token_hex(8)
        job = JobScript(
            f"tk{token[:8]}", tag(self.campaign.name) + token, group[0], minutes, place / f"{number}.out",
            [*(f"export {name}={shlex.quote(value)}" for name, value in self.campaign.environment.items()),
             *commands(self.between, self.launch, self.path, len(group), document)],
            tuple(group),
        )  # fmt: skip
        archive.write_file(script, self.queue.script(job))
        for left in reversed(range(_TRIES)):
            try:
                submitted = self.queue.submit(script)
                self._began.append(submitted)
                return submitted
            except Refused as error:
                # a job that the scheduler accepted although it reported a rejection must not run twice
                taken = self.queue.tagged(tag(self.campaign.name))
                for known in {taken.get(token), taken.get(token[:8])} - {None}:
                    self.queue.cancel(str(known))
                if not error.later or not left:
                    raise CampaignError(f"the scheduler rejects jobs over {len(group)} nodes: {error}") from None
                self.sleep(_BETWEEN_TRIES_S)
        return None

    def _wait(self, jobs: list[str]) -> None:
        """Until all have ended; those that cannot begin in time, or that nobody ends, are cancelled. Raises
        CampaignError after `wait_hours` without an answer.
        """
        began = heard = self.clock()
        ran: dict[str, float] = {}
        most = 60.0 * self.between.minutes + OVERRUN_S
        open_ones = list(jobs)
        while open_ones:
            self.sleep(self.poll)
            try:
                seen = self.queue.states(open_ones)
            except Refused as error:
                self.say(f"the scheduler: {error}")
                if self.clock() - heard > self.campaign.wait_seconds:
                    hours = self.campaign.wait_seconds / 3600
                    raise CampaignError(f"the scheduler gave no answer for {hours:g} h: {error}") from None
                continue
            heard = self.clock()
            late = self.clock() - began > self.campaign.wait_seconds
            for job in list(open_ones):
                one = seen.get(job)
                if job in seen and one is None:
                    continue
                if one is None or one.ended:
                    open_ones.remove(job)
                elif one.dead or (late and not one.running):
                    self.say(f"job {job} does not start ({one.why or 'waiting'}): cancelled")
                    self.queue.cancel(job)
                    open_ones.remove(job)
                elif one.running and heard - ran.setdefault(job, heard) > most:
                    self.say(f"job {job} still runs {OVERRUN_S / 60:.0f} min beyond its time limit: cancelled")
                    self.queue.cancel(job)
                    open_ones.remove(job)

    def _read(self, place: Path, number: int, group: tuple[str, ...], job: str) -> float | None:
        document = place / f"{number}.json"
        until = self.clock() + self.late
        while not document.is_file() and self.clock() < until:  # shared file systems show a file late
            if (place / f"{number}.out").is_file():
                until = min(until, self.clock() + 2.0)
            self.sleep(0.2)
        try:
            return figure(document.read_text(encoding="utf-8"), group, self.between.bytes)
        except FileNotFoundError:
            why = "it left no document"
        except (OSError, ValueError) as error:
            why = str(error)
        self.say(f"job {job} over {', '.join(group[:4])}{', ...' if len(group) > 4 else ''}: no figure: {why}")
        return None


def _known(kept: Path, groups: Sequence[tuple[str, ...]]) -> list[float | None] | None:
    try:
        found: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        same = [tuple(g) for g in found["groups"]] == [tuple(g) for g in groups]
        answers = [None if a is None else float(a) for a in found["answers"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return answers if same and len(answers) == len(groups) else None
