"""Jobs over groups of nodes: an exchange between all nodes of a group by `mpi_p2p`, and its value for `groups.search`.

The answers of each round are kept in the campaign's folder: after an interruption the same search reuses them and
measures only the rest.
"""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tenken import counters
from tenken.archive import records as archive
from tenken.campaign import nodejob
from tenken.campaign.file import Between, Campaign, CampaignError
from tenken.campaign.queue import JobScript, Queue, Refused
from tenken.campaign.tournament import Answer, Meeting, Pair
from tenken.counters import Carried, Change, changes_of
from tenken.errors import ResultError
from tenken.model import catalogue, engine
from tenken.model import result as results
from tenken.model.job import job_name, short
from tenken.model.values import MetricValue

#: How a rank is started on each node of a job, by the launcher of the system file.
LAUNCH = {
    "srun": "srun --nodes={ranks} --ntasks={ranks} --ntasks-per-node=1",
    "mpirun": "mpirun -n {ranks} --map-by ppr:1:node",
}
PROGRAM = "mpi_p2p"
#: Run by all nodes at once; a victim needs four.
PATTERNS = "bisection,incast,victim,arrival"
#: Of the campaign's folder.
FOLDER = "groups"
#: Times that a submission is tried, and seconds between.
_TRIES, _BETWEEN_TRIES_S = 5, 5.0


def tag(campaign: str) -> str:
    """The name of group jobs in the queue, distinct from that of a node's job."""
    return nodejob.tag(f"{campaign}.groups")


def program(between: Between, folder: Path) -> str:
    """The program: that of the campaign file, otherwise the one built by the campaign's first node. Raises
    CampaignError."""
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


def measured(text: str, nodes: Sequence[str]) -> list[MetricValue]:
    """The values of a document of exactly these nodes, once each. Raises ValueError with the reason why they do not
    count."""
    try:
        found = results.parse(text, "document")
        found = engine.completed(found, catalogue.program(PROGRAM))
    except ResultError as error:
        raise ValueError(f"its document is damaged: {error}") from None
    if found.status != "ok" or not found.verification.passed:
        raise ValueError(f"status {found.status}: {found.reason or 'the verification failed'}")
    ran = sorted(short(one) for one in found.placement.nodes)
    if ran != sorted(map(short, nodes)):
        raise ValueError(f"it ran on {', '.join(ran)}")
    return [*found.metrics]


def figure(text: str, nodes: Sequence[str], size: int) -> float:
    """The rate of each rank in GB/s, from a document of exactly these nodes. Raises ValueError with the reason if it is
    not one."""
    values = [m.value for m in measured(text, nodes) if m.name == "alltoall" and m.unit == "us"]
    if len(values) != 1:
        raise ValueError("it does not have exactly one alltoall metric in us")
    if not 0 < values[0] < float("inf"):
        raise ValueError(f"its alltoall is {values[0]}")
    return (len(nodes) - 1) * size / values[0] / 1e3


def of_pair(text: str, nodes: Sequence[str]) -> tuple[float, float]:
    """Bandwidth of the largest message in GB/s and latency of the smallest in us, from a document of exactly these two
    nodes. Raises ValueError with the reason why there are none."""
    by_size = {(m.name, m.at["bytes"]): m.value for m in measured(text, nodes) if "bytes" in m.at}
    sizes = sorted(size for name, size in by_size if name == "bandwidth" and ("latency", size) in by_size)
    if not sizes:
        raise ValueError("no message size has both latency and bandwidth")
    found = by_size["bandwidth", sizes[-1]], by_size["latency", sizes[0]]
    if not all(0 < value < float("inf") for value in found):
        raise ValueError(f"its bandwidth and latency are {found[0]} and {found[1]}")
    return found


@dataclass(frozen=True)
class AllAtOnce:
    """What all nodes reached together: rates of bisections (by halves) and into one node in GB/s, the latency of two
    nodes in us while the others are idle and while they send, and nodes that arrive late in a collective, with the
    reason. Empty: it gave no result."""

    bisection: Mapping[str, float] = field(default_factory=dict)
    incast: float | None = None
    victim: Mapping[str, float] = field(default_factory=dict)
    late: Mapping[str, str] = field(default_factory=dict)


def all_at_once(text: str, nodes: Sequence[str]) -> AllAtOnce:
    """From a document of exactly these nodes. Raises ValueError with the reason if it has none of these."""
    values = measured(text, nodes)
    program = catalogue.program(PROGRAM)
    run = engine.Run(results.parse(text, "document"), program)
    late = {}
    for one in run.of("arrival"):
        for expected in program.metrics["arrival"].expect:
            most = expected.function(run, one) if expected.function else None
            if most and most[1] is not None and one.value > most[1]:
                late[str(one.at["node"])] = f"arrives late: {one.value:.4g} us, at most {most[1]:.4g}"
    bisection = {str(m.at["halves"]): m.value for m in values if m.name == "bisection"}
    if not bisection:
        raise ValueError("it has no bisection")
    return AllAtOnce(
        bisection,
        next((m.value for m in values if m.name == "incast"), None),
        {str(m.at["load"]): m.value for m in values if m.name == "victim"},
        late,
    )


@dataclass
class GroupJobs:
    """Runs the groups of a round at once, one job each."""

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
    #: Of the campaign's folder.
    into: ClassVar[str] = FOLDER

    def __post_init__(self) -> None:
        assert self.campaign.between is not None
        self.between: Between = self.campaign.between
        self.path = program(self.between, self.folder)
        #: Time limit of the current round's jobs.
        self.seconds = 60.0 * self.between.minutes

    def clear(self) -> None:
        """Cancels jobs that an interrupted search left behind."""
        for job in self.queue.tagged(tag(self.campaign.name)).values():
            self.say(f"job {job} of an interrupted search: cancelled")
            self.queue.cancel(job)

    def ask(self, groups: Sequence[tuple[str, ...]]) -> list[float | None]:
        """The value of each group; None: its job left none. Raises CampaignError if nothing can be submitted."""
        place = self._next_round()
        kept = place / "answers.json"
        known = _known(kept, groups)
        if known is not None:
            self.say(f"round {self.rounds}: {len(groups)} results from before the interruption")
            return known
        jobs = self._run(place, groups, [self._exchange(place, number, group) for number, group in enumerate(groups)])
        answers = [
            None if job is None else self._read(place, number, group, job)
            for number, (group, job) in enumerate(zip(groups, jobs, strict=True))
        ]
        archive.write_file(kept, json.dumps({"groups": [list(g) for g in groups], "answers": answers}) + "\n")
        if len(groups) > 1 and not any(answers):
            raise CampaignError(f"no job of round {self.rounds} reported a value: see {place}")
        return answers

    def done(self) -> Path:
        """Archives the answers of a search that has ended: the next search starts over. Where they lie now."""
        numbers = (int(p.name.removeprefix(f"{self.into}-")) for p in self.folder.glob(f"{self.into}-*[0-9]"))
        aside = self.folder / f"{self.into}-{max(numbers, default=0) + 1}"
        return (self.folder / self.into).rename(aside)

    def _next_round(self) -> Path:
        self.rounds += 1
        return self.folder / self.into / f"round-{self.rounds:02d}"

    def _run(self, place: Path, groups: Sequence[tuple[str, ...]], lines: Sequence[list[str]]) -> list[str | None]:
        """Submits the jobs of a round and waits for all of them; if a round is aborted, its running jobs are
        cancelled."""
        place.mkdir(parents=True, exist_ok=True)
        self._began.clear()
        try:
            jobs = [self._submit(place, i, group, lines[i]) for i, group in enumerate(groups)]
            self.say(f"round {self.rounds}: {sum(j is not None for j in jobs)} jobs over {sum(map(len, groups))} nodes")
            self._wait([job for job in jobs if job is not None])
        except BaseException:
            for job in self._began:
                self.queue.cancel(job)
            raise
        return jobs

    def _exchange(self, place: Path, number: int, group: tuple[str, ...]) -> list[str]:
        document = place / f"{number}.json"
        document.unlink(missing_ok=True)
        return commands(self.between, self.launch, self.path, len(group), document)

    def _submit(self, place: Path, number: int, group: tuple[str, ...], lines: list[str]) -> str | None:
        if len(group) < 2:
            return None  # a single node has nothing to exchange with
        script = place / f"{number}.sh"
        token = secrets.token_hex(8)
        job = JobScript(
            job_name(token), tag(self.campaign.name) + token, group[0], self.seconds, place / f"{number}.out",
            [*(f"export {name}={shlex.quote(value)}" for name, value in self.campaign.environment.items()),
             *lines],
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
                for known in {taken.get(token), taken.get(job_name(token))} - {None}:
                    self.queue.cancel(str(known))
                if not error.later or not left:
                    raise CampaignError(f"the scheduler rejects jobs over {len(group)} nodes: {error}") from None
                self.sleep(_BETWEEN_TRIES_S)
        return None

    def _wait(self, jobs: list[str]) -> None:
        """Waits until all have ended; jobs that cannot begin in time, or that do not end, are cancelled. Raises
        CampaignError after `wait_hours` without an answer.
        """
        began = heard = self.clock()
        ran: dict[str, float] = {}
        most = self.seconds + self.campaign.overrun_seconds
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
                    beyond = self.campaign.overrun_seconds / 60
                    self.say(f"job {job} still runs {beyond:.0f} min beyond its time limit: cancelled")
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


#: How the two ranks of a pair are started within a job of more nodes, by the launcher of the system file.
LAUNCH_PAIR = {
    # a step of a hung pair may still hold its node: others share it
    "srun": "srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist={nodes}",
    "mpirun": "mpirun -n 2 --host {nodes} --map-by ppr:1:node",
}
#: Maximum time of a pair in seconds; a dead or hanging pair costs this much. Maximum seconds of a healthy pair.
PAIR_S, USUAL_S = 60, 10
#: The large message, and bytes in flight when all nodes send at once.
PAIR_BYTES, WINDOW_BYTES = "4Mi", "64Mi"
#: Bytes in flight of a pair alone and its repetitions at most: 0.25 GB, since pairs across leaves take turns. Over TCP
#: four messages in flight reach the rate of sixteen, and medians of 15 scatter no more than those of 25.
PAIR_WINDOW, PAIR_REPETITIONS = "16Mi", 15


@dataclass
class PairJobs(GroupJobs):
    """Runs the meetings of a tournament's round at once, one job each; each pair in it is a separate launch."""

    launch_pair: str = ""
    #: Network device of all launches; empty: as the MPI chooses.
    rail: str = ""
    into: ClassVar[str] = "pairs"

    def all_at_once(self, leaf_of: Mapping[str, str]) -> AllAtOnce:
        """One job over all nodes: bisections, incast, a victim under load and late arrivals."""
        place, nodes = self._next_round(), tuple(leaf_of)
        document, leaves = place / "0.json", place / "leaves.txt"
        if not document.is_file():
            archive.write_file(leaves, "".join(f"{node} {leaf}\n" for node, leaf in leaf_of.items()))
            arguments = [
                self.path, "--ranks", str(len(nodes)), "--nodes", str(len(nodes)), "--buffers", self.between.buffers,
                "--tests", "latency", "--min-bytes", "8", "--max-bytes", "8", "--window-bytes", WINDOW_BYTES,
                "--pattern-bytes", PAIR_BYTES,
                "--patterns", PATTERNS if len(nodes) >= 4 else "bisection,incast,arrival", "--leaves", str(leaves),
                "--repetitions", str(self.between.repetitions), "--warmup-seconds", "0.05", "--json", str(document),
            ]  # fmt: skip
            each = self.launch.replace("{ranks}", str(len(nodes)))
            self.seconds = 60.0 * self.between.minutes
            lines = [
                *self._ports(each),
                f"{each} {shlex.join(arguments)} < /dev/null",
                f"tenken_ports {counters.AFTER}",
            ]
            self._run(place, [nodes], [lines])
        try:
            return all_at_once(document.read_text(encoding="utf-8"), nodes)
        except FileNotFoundError:
            why = f"it left no document: see {place}"
        except (OSError, ValueError) as error:
            why = str(error)
        self.say(f"all {len(nodes)} nodes at once: no result: {why}")
        return AllAtOnce()

    def carried(self) -> list[Carried]:
        """Nodes whose ports, or whose chosen rail, did not carry the bytes of the pairs of a job."""
        found: list[Carried] = []
        for output in sorted((self.folder / self.into).glob("round-*/*.out")):
            sent: dict[str, tuple[float, float]] = {}
            devices = ""
            whole = bool(status := [*output.with_suffix("").glob("*.status")])
            for one in status:
                try:
                    path = results.parse(one.with_suffix(".json").read_text(encoding="utf-8"), "document").path
                except (OSError, ValueError, ResultError):
                    whole = False  # what a pair sent before it died is not known
                    continue
                devices = str(path.get("net_devices", ""))
                for node, (size, messages) in counters.sent(path).items():
                    before = sent.get(node, (0.0, 0.0))
                    sent[node] = before[0] + size, before[1] + messages
            if whole:
                text = output.read_text(encoding="utf-8", errors="replace")
                found += [one for one in counters.paths(changes_of(text.splitlines()), sent, devices) if one.wrong]
        return found

    def play(self, meetings: Sequence[Meeting]) -> list[Answer]:
        """The answers of all pairs of a round, in order; those from before an interruption are reused. Raises
        CampaignError if nothing can be submitted."""
        place = self._next_round()
        kept = place / "answers.json"
        pairs = [(one.kind, pair) for one in meetings for step in one.steps for pair in step]
        known = _known_pairs(kept, pairs)
        if known is not None:
            self.say(f"round {self.rounds}: {len(pairs)} pairs from before the interruption")
            return known
        # even if one pair hangs in every tenth step, the job stays within its limit
        steps = max(len(one.steps) for one in meetings)
        self.seconds = 60.0 * self.between.minutes + steps * (USUAL_S + PAIR_S / 10)
        lines = [self._lines(place / str(number), one) for number, one in enumerate(meetings)]
        jobs = self._run(place, [one.nodes for one in meetings], lines)
        answers = [
            self._answer(place / str(number), one.kind, pair, at, job)
            for number, (one, job) in enumerate(zip(meetings, jobs, strict=True))
            for at, pair in enumerate(pair for step in one.steps for pair in step)
        ]
        text = json.dumps([[a.kind, a.pair, a.bandwidth, a.latency, a.why] for a in answers])
        archive.write_file(kept, text + "\n")
        return answers

    def changes(self) -> list[Change]:
        """Changes of the port counters of all nodes during the jobs of this tournament."""
        found = []
        for output in sorted((self.folder / self.into).glob("round-*/*.out")):
            found += changes_of(output.read_text(encoding="utf-8", errors="replace").splitlines())
        return found

    def since(self) -> list[Change]:
        """The same since the campaign's first kept tournament."""
        lines: list[str] = []
        for output in sorted(self.folder.glob(f"{self.into}*/round-*/*.out")):
            lines += output.read_text(encoding="utf-8", errors="replace").splitlines()
        return counters.since(lines)

    def _lines(self, place: Path, meeting: Meeting) -> list[str]:
        place.mkdir(parents=True, exist_ok=True)
        for left in place.iterdir():
            left.unlink()
        between = self.between
        arguments = [
            self.path, "--ranks", "2", "--nodes", "2", "--buffers", between.buffers, "--tests", "latency,bandwidth",
            "--min-bytes", "8", "--max-bytes", PAIR_BYTES, "--factor", "524288", "--window-bytes", PAIR_WINDOW,
            "--repetitions", str(min(between.repetitions, PAIR_REPETITIONS)), "--warmup-seconds", "0.05",
        ]  # fmt: skip
        each = self.launch.replace("{ranks}", str(len(meeting.nodes)))
        rail = f"env UCX_NET_DEVICES={shlex.quote(self.rail)} " if self.rail else ""
        run = f"{self.launch_pair.replace('{nodes}', '$2')} {rail}{shlex.join(arguments)}"
        at = shlex.quote(str(place))
        found = [
            # $1: number of the pair, $2: its nodes
            f"tenken_pair() {{ tenken_began=$(date +%s); timeout -k 5 {PAIR_S} {run} --json {at}/$1.json"
            f" < /dev/null > /dev/null 2> {at}/$1.err;"
            f' echo "$? $(( $(date +%s) - tenken_began ))" > {at}/$1.status; }}',
            *self._ports(each),
        ]
        number = 0
        for step in meeting.steps:
            calls = []
            for pair in step:
                calls.append(f"tenken_pair {number} {','.join(pair)} &")
                number += 1
            found.append(f"{' '.join(calls)} wait")
        return [*found, f"tenken_ports {counters.AFTER}"]

    def _ports(self, each: str) -> list[str]:
        """Lines that read the ports of all nodes before the rest of the job."""
        reader = f"{each} python3 -I {shlex.quote(counters.__file__)} line"
        return [
            f'tenken_ports() {{ {reader} "$1" 2> /dev/null < /dev/null || :; }}',
            f"tenken_ports {counters.IDLE}; sleep 1; tenken_ports {counters.BEFORE}",
        ]

    def _answer(self, place: Path, kind: str, pair: Pair, number: int, job: str | None) -> Answer:
        why = "its job was not accepted" if job is None else ""
        try:
            bandwidth, latency = of_pair((place / f"{number}.json").read_text(encoding="utf-8"), pair)
            return Answer(kind, pair, bandwidth, latency)
        except FileNotFoundError:
            why = why or _why(place, number)
        except (OSError, ValueError) as error:
            why = str(error)
        self.say(f"pair {', '.join(pair)}: no figure: {why}")
        return Answer(kind, pair, None, None, why)


def _why(place: Path, number: int) -> str:
    """Why a pair left no document."""
    try:
        status, seconds = map(int, (place / f"{number}.status").read_text().split())
    except (OSError, ValueError):
        return "its job ended first"
    # a process that ignores signals is killed by SIGKILL: only the time distinguishes that from a kill by somebody else
    if status == 124 or (status == 137 and seconds >= PAIR_S):
        return f"hung: no answer in {PAIR_S} s"
    try:
        said = [line for line in (place / f"{number}.err").read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        said = []
    return f"ended with status {status}{f': {said[-1][:200]}' if said else ''}"


def _known_pairs(kept: Path, pairs: Sequence[tuple[str, Pair]]) -> list[Answer] | None:
    try:
        found = [
            Answer(k, (p[0], p[1]), b, us, why) for k, p, b, us, why in json.loads(kept.read_text(encoding="utf-8"))
        ]
    except (OSError, ValueError, TypeError, IndexError):
        return None
    return found if [(a.kind, a.pair) for a in found] == list(pairs) else None


def _known(kept: Path, groups: Sequence[tuple[str, ...]]) -> list[float | None] | None:
    try:
        found: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        same = [tuple(g) for g in found["groups"]] == [tuple(g) for g in groups]
        answers = [None if a is None else float(a) for a in found["answers"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return answers if same and len(answers) == len(groups) else None
