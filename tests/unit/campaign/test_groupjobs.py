"""Jobs over groups of nodes: what they request from a scheduler, which of their documents count, and what remains after
an interruption."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tenken.campaign import file, groupjobs, groups, tournament
from tenken.campaign.file import Between, Campaign, CampaignError
from tenken.campaign.queue import JobScript, Limits, Refused, Seen
from tenken.commands import campaign_queues
from tenken.machines import loader
from tests.support.exchanges import alltoall, pair

NODES = tuple(f"n{i}" for i in range(16))


class Queue:
    """Runs a job at once: it leaves a document with a longer time if it contains a slow node."""

    def __init__(self, slow=(), refuses=0, silent=()):
        self.slow, self.refuses, self.silent, self.jobs, self.cancelled = set(slow), refuses, set(silent), {}, []
        self.left = {}

    def script(self, job: JobScript):
        return f"nodes={','.join(job.nodes)}\n" + "\n".join(job.commands)

    def submit(self, path):
        if self.refuses:
            self.refuses -= 1
            raise Refused("socket timed out")
        text = path.read_text()
        nodes = re.search("^nodes=(.*)", text, re.M)[1].split(",")
        number = str(len(self.jobs) + 1)
        self.jobs[number] = nodes
        if number not in self.silent:
            out = re.search(r"--json (\S+)", text)[1]
            us = (len(nodes) - 1) * (125 if self.slow & set(nodes) else 100)
            Path(out).write_text(alltoall(nodes, us))
        return number

    def states(self, jobs):
        return {job: Seen(ended=True) for job in jobs}

    def tagged(self, tag):
        return self.left

    def cancel(self, job):
        self.cancelled.append(job)

    def limits(self):
        return Limits()


def jobs(tmp_path, queue, **more):
    one = Campaign("c", "standin", "gpu", NODES, 60.0, between=Between("switch", program="/bin/x"), **more)
    said = []
    made = groupjobs.GroupJobs(
        one, tmp_path, queue, groupjobs.LAUNCH["srun"], said.append, late=0.0, sleep=lambda s: None
    )
    return made, said


def hunt(made, seed=0):
    return groups.search(
        range(16), lambda i: i // 4, lambda asked: made.ask([tuple(NODES[i] for i in g) for g in asked]), seed
    )


def test_a_search_runs_jobs_over_groups_and_finds_the_slow_node(tmp_path):
    queue = Queue(slow={"n6"})
    made, _ = jobs(tmp_path, queue)
    found = hunt(made)
    assert ([NODES[i] for i in found.nodes], found.leaves, found.whole) == (["n6"], [], True)
    assert len(queue.jobs) == found.jobs and all(len(n) == len(set(n)) >= 2 for n in queue.jobs.values())
    assert hunt(jobs(tmp_path / "well", Queue())[0]).nodes == []
    few = Queue()
    asked, _ = jobs(tmp_path / "few", few)
    assert [answer is None for answer in asked.ask([("n1",), ("n2", "n3")])] == [True, False]
    assert list(few.jobs.values()) == [["n2", "n3"]], "a single node has nothing to exchange with"


def test_an_interrupted_search_asks_nothing_twice_and_one_that_ended_asks_anew(tmp_path):
    class KilledError(Exception):
        pass

    queue = Queue(slow={"n6"})
    made, _ = jobs(tmp_path, queue)
    submit = queue.submit

    def dies(path):
        if len(queue.jobs) == 5:
            raise KilledError
        return submit(path)

    queue.submit = dies
    with pytest.raises(KilledError):
        hunt(made)
    assert queue.cancelled == ["5"], "what runs of a broken round is cancelled"
    queue.submit, queue.left = submit, {"ab": "77"}
    again, said = jobs(tmp_path, queue)
    again.clear()
    assert queue.cancelled == ["5", "77"]
    whole = hunt(again)
    assert [NODES[i] for i in whole.nodes] == ["n6"] and "results from before the interruption" in said[1]
    assert len(queue.jobs) == whole.jobs + 1
    again.done()
    before = len(queue.jobs)
    assert hunt(jobs(tmp_path, queue)[0]).nodes == whole.nodes and len(queue.jobs) == before + whole.jobs
    made.done()
    assert {p.name for p in tmp_path.iterdir()} == {"groups-1", "groups-2"}


def test_a_job_without_a_document_is_asked_again_and_accuses_nobody(tmp_path):
    made, said = jobs(tmp_path, Queue(silent={"2"}))
    found = hunt(made)
    assert found.whole and not found.nodes and any("left no document" in line for line in said)


def test_a_scheduler_that_never_takes_a_job_ends_the_search_and_one_that_does_later_does_not(tmp_path):
    made, _ = jobs(tmp_path, Queue(refuses=99))
    with pytest.raises(CampaignError, match="rejects jobs over"):
        hunt(made)
    assert hunt(jobs(tmp_path / "later", Queue(refuses=2))[0]).whole


def test_only_a_document_of_just_these_nodes_that_passed_counts():
    assert groupjobs.figure(alltoall(("a.site", "b"), 100.0), ("a", "b"), 1 << 20) == pytest.approx(10.48576)
    twice = json.loads(alltoall(("a", "b")))["series"] * 2
    for text in (
        alltoall(("a", "c")), alltoall(("a", "b", "b")), alltoall(("a",)), alltoall(("a", "b"), 0.0), "[]", "x",
        json.dumps({"status": "ok"}), alltoall(("a", "b"), float("nan")), alltoall(("a", "b"), status="failed"),
        alltoall(("a", "b"), series=twice), alltoall(("a", "b"), error=1.0), pair(("a", "b")),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            groupjobs.figure(text, ("a", "b"), 1)
    assert groupjobs.of_pair(pair(("a", "b"), 23.5, 1.75), ("b", "a")) == pytest.approx((23.5, 1.75))
    with pytest.raises(ValueError):
        groupjobs.of_pair(alltoall(("a", "b")), ("a", "b"))


def test_what_has_no_figure_of_these_nodes_is_refused_by_its_reason():
    many = json.loads(pair(("a", "b"), 23.5, 1.75))
    for document, says in (
        ({**many, "series": many["series"] * 2}, "appears twice"),
        (json.loads(pair(("a", "b"), 23.5, 0.0)), "its bandwidth and latency are 23.5 and 0"),
        (json.loads(alltoall(("a", "b"))), "no message size has both latency and bandwidth"),
    ):
        with pytest.raises(ValueError, match=says):
            groupjobs.of_pair(json.dumps(document), ("a", "b"))
    with pytest.raises(ValueError, match="it has no bisection"):
        groupjobs.all_at_once(alltoall(("a", "b")), ("a", "b"))


class Clock:
    """A second passes with each poll. `seen`: the state of each job at this time."""

    def __init__(self, seen):
        self.now, self.seen, self.cancelled = 0.0, seen, []

    def sleep(self, seconds):
        self.now += 1.0

    def states(self, jobs):
        found = self.seen(self.now)
        if isinstance(found, Exception):
            raise found
        return found

    def cancel(self, job):
        self.cancelled.append((job, self.now))


@pytest.mark.parametrize(("seen", "cancelled", "said"), [
    # waits longer than the campaign does; is on a node that is down; runs beyond its limit; ends in time
    (lambda now: {"1": Seen()}, [("1", 11.0)], "does not start (waiting): cancelled"),
    (lambda now: {"1": Seen(why="n1 is down", dead=True)}, [("1", 1.0)], "does not start (n1 is down): cancelled"),
    (lambda now: {"1": Seen(running=True)}, [("1", 27.0)], "still runs 0 min beyond its time limit: cancelled"),
    (lambda now: {"1": Seen(running=True)} if now < 27 else {"1": Seen(ended=True)}, [], ""),
    (lambda now: {"1": Seen()} if now < 11 else {}, [], ""),
    # an answer without the state of a job is no end of it
    (lambda now: {"1": None} if now < 40 else {}, [], ""),
    (lambda now: Refused("down") if now < 10 else {}, [], "the scheduler: down"),
])  # fmt: skip
def test_a_job_that_does_not_start_or_end_is_cancelled_in_time(tmp_path, seen, cancelled, said):
    clock = Clock(seen)
    one = Campaign("c", "standin", "gpu", NODES, 60.0, between=Between("switch", program="/bin/x"))
    one = replace(one, wait_seconds=10.0, overrun_seconds=5.0)
    told = []
    made = groupjobs.GroupJobs(one, tmp_path, clock, "x", told.append, sleep=clock.sleep, clock=lambda: clock.now)
    made.seconds = 20.0
    made._wait(["1"])
    assert clock.cancelled == cancelled and (said in " ".join(told) if said else not told)


def test_a_scheduler_without_an_answer_ends_a_round(tmp_path):
    clock = Clock(lambda now: Refused("down"))
    one = Campaign("c", "standin", "gpu", NODES, 60.0, between=Between("switch", program="/bin/x"), wait_seconds=7200.0)
    made = groupjobs.GroupJobs(
        one, tmp_path, clock, "x", lambda line: None, clock=lambda: clock.now,
        sleep=lambda seconds: setattr(clock, "now", clock.now + 600.0),
    )  # fmt: skip
    with pytest.raises(CampaignError, match="the scheduler gave no answer for 2 h: down"):
        made._wait(["1"])
    assert clock.now == 7800.0


def at_once(nodes, late=1e-3):
    """What the job over all nodes leaves: 64 MiB each way in 1 ms, and times of nodes before they arrive."""
    moved = {"counts": {"bytes": 64 << 20}}
    made = json.loads(pair(nodes))
    frame = {"subject": {"ranks": len(nodes)}, "clock": "host"}
    where = {"buffers": "host", "bytes": 4 << 20}
    made["series"] = [
        {**frame, "metric": "bisection", "at": {**where, "halves": "by leaf"}, **moved, "seconds": [1e-3] * 5},
        {**frame, "metric": "incast", "at": where, **moved, "seconds": [2e-3] * 5},
        *({**frame, "metric": "victim", "at": {**where, "load": load}, "seconds": [us * 1e-6] * 5}
          for load, us in (("idle", 2.0), ("full", 50.0))),
        *({**frame, "metric": "arrival", "at": {"buffers": "host", "node": node},
           "seconds": [late if node == nodes[-1] else 1e-3] * 5} for node in nodes),
    ]  # fmt: skip
    return json.dumps(made)


class Whole(Queue):
    """Runs the job over all nodes; `text`: what it leaves."""

    def __init__(self, text):
        super().__init__()
        self.text, self.scripts = text, []

    def submit(self, path):
        self.scripts.append(path.read_text())
        if self.text:
            Path(re.search(r"--json (\S+)", self.scripts[-1])[1]).write_text(self.text)
        return "1"


@pytest.mark.parametrize(("count", "patterns"), [(4, groupjobs.PATTERNS), (3, "bisection,incast,arrival")])
def test_all_nodes_at_once_are_one_job_with_their_leaves(tmp_path, count, patterns):
    leaf_of = {node: f"s{at // 2}" for at, node in enumerate(NODES[:count])}
    queue = Whole(at_once(tuple(leaf_of), late=1.6e-3))
    made, said = players(tmp_path, queue)
    found = made.all_at_once(leaf_of)
    assert "no result" not in said[-1]
    assert found.bisection == {"by leaf": pytest.approx(67.108864)} and found.incast == pytest.approx(33.554432)
    assert found.victim == {"idle": pytest.approx(2.0), "full": pytest.approx(50.0)}
    assert list(found.late) == [NODES[count - 1]] and found.late[NODES[count - 1]].startswith("arrives late: 1600 us")
    (text,) = queue.scripts
    assert f"--ranks {count} --nodes {count} " in text and f"--patterns {patterns} --leaves " in text
    leaves = Path(re.search(r"--leaves (\S+)", text)[1]).read_text()
    assert leaves == "".join(f"{node} {leaf}\n" for node, leaf in leaf_of.items())
    assert f"nodes={','.join(leaf_of)}\n" in text
    simulated = 'sleep() { :; }; srun() { basename "${@: -1}"; }\n'
    ran = subprocess.run(["bash", "-c", simulated + text], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["idle", "before", "0.json", "after"]
    # what was measured before an interruption is read again
    again, _ = players(tmp_path, queue)
    assert again.all_at_once(leaf_of) == found and len(queue.scripts) == 1
    nothing, said = players(tmp_path / "x", Whole(""))
    assert nothing.all_at_once(leaf_of) == groupjobs.AllAtOnce() and "it left no document" in said[-1]
    on_time, _ = players(tmp_path / "y", Whole(at_once(tuple(leaf_of), late=1.4e-3)))
    assert on_time.all_at_once(leaf_of).late == {}


def test_ports_count_over_all_tournaments_and_a_job_that_broke_off_proves_no_path(tmp_path):
    made, _ = players(tmp_path, Queue())
    port = "node=a port=mlx5_0/1 kind=infiniband gbit_s=400"
    lines = f"TENKEN-PORT when={{}} {port} time={{}} e.link_downed={{}} t.sent_bytes={{}}\n"
    for folder, begin, errors in (("pairs-1", 1, 0), ("pairs", 11, 2)):
        place = tmp_path / folder / "round-01"
        (place / "0").mkdir(parents=True)
        moments = (("before", begin, errors, 0), ("after", begin + 2, errors + 1, 10**9))
        (place / "0.out").write_text("".join(lines.format(*one) for one in moments))
    assert [(one.node, one.errors["link_downed"], one.seconds) for one in made.since()] == [("a", 3, 12.0)]
    assert [(one.node, one.errors["link_downed"], one.seconds) for one in made.changes()] == [("a", 1, 2.0)]
    sent = json.loads(pair(("a", "b"), 23.5, 1.75))
    sent["provenance"] = {"sent_bytes.a": 4e9, "sent_messages.a": 1000}
    place = tmp_path / "pairs/round-01/0"
    assert made.carried() == []
    (place / "0.status").write_text("0 1\n")
    (place / "0.json").write_text(json.dumps(sent))
    assert [(one.node, one.wrong) for one in made.carried()] == [("a", True)]
    sent["provenance"]["sent_bytes.a"] = 5e8
    (place / "0.json").write_text(json.dumps(sent))
    (place / "1.status").write_text("0 1\n")
    assert made.carried() == [], "what the second pair sent is not known"
    (place / "1.json").write_text(json.dumps(sent))
    assert made.carried() == [], "both together are what the port carried"


def players(tmp_path, queue):
    one = Campaign("c", "standin", "gpu", NODES, 60.0, between=Between("switch", program="/bin/x"))
    said = []
    made = groupjobs.PairJobs(
        one, tmp_path, queue, groupjobs.LAUNCH["srun"], said.append, late=0.0, sleep=lambda s: None,
        launch_pair=groupjobs.LAUNCH_PAIR["srun"],
    )  # fmt: skip
    return made, said


class Pairs(Queue):
    """Runs the pairs of a job at once; `gone`: status of the pairs that leave no document."""

    def __init__(self, gone=(), dies=()):
        super().__init__()
        self.gone, self.dies, self.ran = dict(gone), set(dies), []

    def submit(self, path):
        number, text = str(len(self.jobs) + 1), path.read_text()
        self.jobs[number] = re.search("^nodes=(.*)", text, re.M)[1].split(",")
        if number in self.dies:
            return number
        place = Path(re.search(r"--json (\S+)/\$1", text)[1])
        assert "--repetitions 15 " in text, "pairs across two leaves take turns"
        for at, names in re.findall(r"tenken_pair (\d+) (\S+) &", text):
            pair_ = tuple(names.split(","))
            self.ran.append(pair_)
            if pair_ in self.gone:
                (place / f"{at}.status").write_text(f"{self.gone[pair_]} 61\n")
                (place / f"{at}.err").write_text("mpi_p2p: rank 1 is gone\n")
            else:
                (place / f"{at}.json").write_text(pair(pair_, 10.0 if "n6" in pair_ else 20.0))
        port = "node={} port=mlx5_0/1 kind=infiniband gbit_s=400"
        for node in self.jobs[number]:
            errors = 3 if node == "n9" else 0
            for when, moment, count in (("before", 1, 0), ("after", 9, errors)):
                said = f"TENKEN-PORT when={when} {port.format(node)} time={moment} e.link_downed={count}\n"
                with Path(path).with_suffix(".out").open("a") as out:
                    out.write(said)
        return number


def test_a_dead_or_hung_pair_costs_that_pair_alone_and_what_was_measured_is_not_asked_again(tmp_path):
    leaf_of = {node: f"s{i // 4}" for i, node in enumerate(NODES)}
    rounds = tournament.plan(leaf_of)
    within = rounds[0][0].steps[0][0]
    queue = Pairs({within: 124, rounds[0][1].steps[0][0]: 137, rounds[0][2].steps[0][0]: 9})
    made, _ = players(tmp_path, queue)
    answers = [answer for one in rounds for answer in made.play(one)]
    lost = {a.pair: a.why for a in answers if a.bandwidth is None}
    assert len(lost) == 3 and lost[within] == "hung: no answer in 60 s"
    assert "ended with status 9: mpi_p2p: rank 1 is gone" in lost.values()
    assert len(queue.ran) == len(answers) == len([p for r in rounds for m in r for s in m.steps for p in s])
    assert set(tournament.accuse(answers, leaf_of).nodes) == {"n6"}
    (bad,) = {change.node for change in made.changes() if change.faults()}
    assert bad == "n9"
    # after an interruption the answers are read, and no job runs twice
    again, _ = players(tmp_path, queue)
    jobs_before = len(queue.jobs)
    assert [answer for one in rounds for answer in again.play(one)] == answers and len(queue.jobs) == jobs_before


def test_the_job_of_a_meeting_that_died_is_told_of_each_pair(tmp_path):
    rounds = tournament.plan({node: f"s{i // 8}" for i, node in enumerate(NODES)})
    made, _ = players(tmp_path, Pairs(dies={"1"}))
    answers = made.play(rounds[0])
    assert {a.why for a in answers if a.bandwidth is None} == {"its job ended first"}
    assert any(a.bandwidth for a in answers)


def test_the_lines_of_a_meeting_run_in_a_shell_and_a_stopped_rank_is_given_up(tmp_path, monkeypatch):
    """Real processes in place of launcher and program: one pair answers, one is killed, one is stopped."""
    program = tmp_path / "exchange"
    program.write_text(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --json) out=$2;; esac; shift; done\n"
        'case $PAIR in a,b) echo told > "$out";; c,d) kill -9 $$;; *) kill -STOP $$;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(groupjobs, "PAIR_S", 2)
    made, _ = players(tmp_path, Pairs())
    made.path, made.launch_pair, made.launch = str(program), "env PAIR={nodes}", "env"
    meeting = tournament.Meeting("within", ("s",), tuple("abcdef"), ((("a", "b"), ("c", "d"), ("e", "f")),))
    lines = made._lines(tmp_path / "0", meeting)
    text = "\n".join(lines).replace("sleep 1;", "").replace("-k 5", "-k 0.2")
    subprocess.run(["bash", "-c", text], check=True, timeout=30, capture_output=True)
    assert (tmp_path / "0/0.json").read_text() == "told\n"
    why = [groupjobs._why(tmp_path / "0", i) for i in (1, 2)]
    assert why[0].startswith("ended with status 137") and why[1].startswith("hung: no answer in 2 s")


def test_slurm_and_pbs_bind_a_job_to_all_nodes_of_its_group_and_others_say_that_they_cannot(tmp_path):
    def script(system, partition, scheduler, pin=None):
        one = loader.load(system).expand({
            "TENKEN_ACCOUNT": "a", "TENKEN_QUEUE": "gpu", "TENKEN_GROUP": "g", "TENKEN_PROJECT": "p",
        }).partition(partition)  # fmt: skip
        queue = campaign_queues.QUEUES[scheduler](one, pin)
        return queue.script(JobScript("tk1", "t", "a", 60, tmp_path / "o", ["run"], ("a", "b", "c")))

    assert {"#SBATCH --nodes=3", "#SBATCH --nodelist=a,b,c"} <= set(script("minislurm", "gpu", "slurm").splitlines())
    (select,) = re.findall("#PBS -l select=(.*)", script("miyabi", "gpu", "pbs"))
    chunks = select.split("+")
    assert [re.search("host=(.)", c)[1] for c in chunks] == ["a", "b", "c"] and all(c.startswith("1:") for c in chunks)
    for system, partition, scheduler in (("tsubame3", None, "gridengine"), ("pegasus", None, "nqsv")):
        partition = next(iter(loader.load(system).partitions))
        with pytest.raises(CampaignError, match="allowed: slurm, pbs"):
            script(system, partition, scheduler, "-x {node}")


def test_the_program_is_that_of_the_campaign_file_or_what_its_first_node_built(tmp_path):
    assert groupjobs.program(Between("s", program="/opt/x"), tmp_path) == "/opt/x"
    with pytest.raises(CampaignError, match="no mpi_p2p below"):
        groupjobs.program(Between("s"), tmp_path)
    built = tmp_path / "built/gpu/bin"
    built.mkdir(parents=True)
    (built / "mpi_p2p").write_text("")
    assert groupjobs.program(Between("s"), tmp_path) == str(built / "mpi_p2p")


@pytest.mark.parametrize(("status", "said", "why"), [
    ("124 3", "", "hung: no answer in 60 s"), ("137 60", "", "hung: no answer in 60 s"),
    ("137 59", "a\nb\n \n", "ended with status 137: b"), ("1 0", None, "ended with status 1"),
    ("1 0", "", "ended with status 1"), ("1", "a", "its job ended first"), (None, "a", "its job ended first"),
])  # fmt: skip
def test_why_a_pair_left_nothing(tmp_path, status, said, why):
    for name, text in (("3.status", status), ("3.err", said)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert groupjobs._why(tmp_path, 3) == why


@pytest.mark.parametrize(
    ("between", "message"),
    [
        ("{leaf: rack}", "not a column"), ("{leaf: lone}", "at least two groups of at least two nodes"),
        ("{leaf: switch, launch: mpirun}", "ranks"), ("{leaf: switch, kib: 0}", "kib"), ("{}", "leaf"),
    ],
)  # fmt: skip
def test_a_wrong_line_of_the_campaign_file_is_told(tmp_path, monkeypatch, between, message):
    monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path))
    (tmp_path / "g.csv").write_text("node,switch,lone\nn1,a,x\nn2,a,y\nn3,b,y\nn4,b,y\n")
    head = "system: minislurm\npartition: gpu\nnodes: n[1-4]\nminutes: 5\nchecks: {}\ngroups: g.csv\n"
    (tmp_path / "hall.yaml").write_text(f"{head}between: {between}\n")
    with pytest.raises(CampaignError, match=message):
        file.load("hall")
    (tmp_path / "hall.yaml").write_text(f"{head}between: {{leaf: switch, launch: 'aprun -n {{ranks}}', kib: 64}}\n")
    assert file.load("hall").between == Between("switch", launch="aprun -n {ranks}", bytes=65536)


def test_groups_of_one_round_are_apart():
    seen = []

    def ask(asked):
        seen.append(Counter(n for g in asked for n in g))
        return [100.0] * len(asked)

    groups.search(range(16), lambda i: i // 4, ask)
    assert all(max(one.values()) == 1 for one in seen)
