"""A campaign with a stand-in scheduler: killed anywhere, with nodes that die, and queues and disks that fill up."""

from __future__ import annotations

import json
import random
import re
import tarfile
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tenken.campaign import findings, journal, plan, runner, spool
from tenken.campaign.alive import Alive
from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.journal import Chosen, Unit
from tenken.campaign.queue import Limits, Refused, Seen
from tenken.commands import accept
from tenken.commands import campaign as command
from tenken.errors import ArchiveError
from tenken.model.catalogue import load_catalogue
from tenken.paths import ROOT
from tenken.report import campaign as report
from tenken.report import contracts
from tools.campaign import standin

NODES = tuple(f"n{i:02d}" for i in range(8))


class Killed(BaseException):
    """kill -9: no part of the process survives, and nothing catches it."""


def campaign(**changes) -> Campaign:
    return replace(Campaign("c", "standin", "gpu", NODES, 600.0, concurrency=5, attempts=3), **changes)


def make(folder: Path, world: standin.StandIn, one: Campaign | None = None, lines: list[str] | None = None):
    one = one or campaign()
    root = folder / "archive"

    def suspects(state):
        table, _ = findings.read(state, root, one)
        return findings.suspects(table, one)

    say = [] if lines is None else lines
    return runner.Runner(
        one, folder / "c", root, world, say.append, suspects, clock=world.clock, sleep=world.pass_time, poll=20, late=40
    )


def world(**more) -> standin.StandIn:
    return standin.StandIn(NODES, **{"checks": 2, "gpus": 1, "job_seconds": 100.0, **more})


def counted(folder: Path) -> Counter:
    return Counter((r.nodes[0], r.session.rpartition("-")[2], r.check) for r in archive.records(folder / "archive"))


def once_each(rounds: int = 1) -> Counter:
    return Counter({(n, f"round{r + 1}", f"Check{c:02d}"): 1 for n in NODES for r in range(rounds) for c in range(2)})


def killing(monkeypatch, chance: float, rng: random.Random) -> list[int]:
    """Anywhere in the journal (also after half a line), around a submission and between records."""
    kills = [0]

    def perhaps() -> None:
        if rng.random() < chance:
            kills[0] += 1
            raise Killed

    note, submit, write = journal.Journal.note, standin.StandIn.submit, archive.put

    def torn(self, event, **words):
        if rng.random() < chance:
            with self.path.open("a") as stream:
                stream.write('{"event":"gath')
            kills[0] += 1
            raise Killed
        note(self, event, **words)
        perhaps()

    def around(self, path):
        perhaps()
        found = submit(self, path)
        perhaps()
        return found

    def between(*what):
        perhaps()
        write(*what)

    monkeypatch.setattr(journal.Journal, "note", torn)
    monkeypatch.setattr(standin.StandIn, "submit", around)
    monkeypatch.setattr(archive, "put", between)
    return kills


def test_kills_lose_nothing_and_count_nothing_twice(tmp_path, monkeypatch):
    kills, seed = 0, 0
    while kills < 200:
        seed += 1
        folder = tmp_path / str(seed)
        there = world(seed=seed, dies=0.1, twice=0.1, taken_unsaid=0.1)
        rng = random.Random(seed)
        with monkeypatch.context() as patch:
            killed = killing(patch, 0.08, rng)
            whole = None
            while whole is None:
                try:
                    whole = make(folder, there, campaign(attempts=9)).run()
                except Killed:
                    there.pass_time(rng.choice([1, 50, 400]))  # the nodes continue meanwhile
        kills += killed[0]
        assert whole
        assert counted(folder) == once_each()
        assert not there.tagged("tenken-campaign/c/"), "an orphan is left"


def test_a_run_that_is_not_killed_counts_as_much_and_submits_a_job_a_node(tmp_path):
    there, lines = world(), []
    assert make(tmp_path, there, lines=lines).run()
    assert counted(tmp_path) == once_each() and there.submissions == len(NODES)
    assert "8 of 8 node runs done" in lines[-1]


def test_a_job_that_belongs_to_nobody_is_cancelled(tmp_path):
    there = world()
    there.jobs["77"] = {"node": "n00", "tag": "tenken-campaign/c/feed", "state": "queued"}
    there.jobs["78"] = {"node": "n00", "tag": "tenken-campaign/other/feed", "state": "queued"}
    one = make(tmp_path, there)
    one.journal.open()
    one.journal.note("campaign", name="c", begun="20260101T000000Z")
    one.journal.note("intent", token="aa", unit="n00/round/1", attempt=1)
    one._adopt()
    assert (there.jobs["77"]["state"], there.jobs["78"]["state"]) == ("ended", "queued")
    assert one.state.attempts["aa"].ended == runner.NEVER_QUEUED


def test_nodes_that_die_are_tried_again_and_then_told(tmp_path):
    one = make(tmp_path, world(dies=1.0), campaign(attempts=2))
    assert not one.run()
    assert [u.node for u in one.lost()] == [u.node for u in one.units()]
    assert {len(one.state.tried(u)) for u in one.units()} == {2}
    assert "never began" in str(one.state.tried(Unit("n00"))[-1].ended)
    found = findings.read(one.state, tmp_path / "archive", campaign())[1]
    assert set(found.lost) == set(NODES) and found.share() == 0.0


def test_a_full_queue_waits_and_goes_on(tmp_path):
    there = world(most=2)
    assert make(tmp_path, there, campaign(concurrency=8)).run()
    assert counted(tmp_path) == once_each()


def test_a_job_that_was_taken_though_the_answer_was_lost_is_found_and_not_sent_again(tmp_path):
    there = world(taken_unsaid=0.5)
    assert make(tmp_path, there).run()
    assert there.submissions == len(NODES) and counted(tmp_path) == once_each()


def test_a_scheduler_that_will_never_take_it_ends_the_campaign_with_its_words(tmp_path, monkeypatch):
    def refuse(self, path):
        raise Refused("sbatch ended with 1: invalid partition specified", later=False)

    monkeypatch.setattr(standin.StandIn, "submit", refuse)
    with pytest.raises(CampaignError, match="accepts no job: sbatch ended with 1: invalid partition"):
        make(tmp_path, world()).run()


def test_a_full_archive_ends_it_and_what_it_left_is_gathered_by_resume(tmp_path, monkeypatch):
    there = world()
    with monkeypatch.context() as patch:

        def full(_root, _session, path, _content):
            raise ArchiveError(f"{path.parent}: cannot write to the archive: No space left on device")

        patch.setattr(archive, "put", full)
        with pytest.raises(CampaignError, match=r"No space left.*`resume` collects it again"):
            make(tmp_path, there).run()
    assert make(tmp_path, there).run() and counted(tmp_path) == once_each()


def test_the_budget_ends_it(tmp_path):
    one = make(tmp_path, world(), campaign(budget_node_hours=0.2))
    assert not one.run()
    assert 0 < len(one.lost()) < len(NODES) and one.spent_hours() <= 0.2


def test_two_rounds_never_load_a_node_twice_at_once(tmp_path):
    there = world()
    seen = []
    submit = there.submit

    def watched(path):
        number = submit(path)
        busy = [j["node"] for j in there.jobs.values() if j["state"] != "ended"]
        seen.append(max(Counter(busy).values()))
        return number

    there.submit = watched  # type: ignore[method-assign]
    assert make(tmp_path, there, campaign(rounds=2, concurrency=8)).run()
    assert counted(tmp_path) == once_each(2) and max(seen) == 1


def test_a_suspect_is_run_again_and_named_and_a_repair_closes_it(tmp_path):
    slow = {"n03": 0.5}
    there = world(factor=lambda node, gpu, figure: slow.get(node, 1.0), gpus=2, checks=1)
    one = make(tmp_path, there, campaign(retest_runs=1))
    assert one.run()

    def judged():
        table, found = findings.read(one.state, tmp_path / "archive", one.campaign)
        findings.judge(table, found, one.campaign)
        return found

    assert {(s.kind, s.name) for s in judged().named} == {("node", "n03")}
    # not repaired, repaired, and another one whose exchanged part is slow
    for repaired, now_slow, closed in (("n03", "n03", []), ("n03", "", ["n03"]), ("n05", "n05", ["n03"])):
        slow.clear()
        slow.update(dict.fromkeys(filter(None, [now_slow]), 0.5))
        one = make(tmp_path, there, campaign(retest_runs=1))
        one.journal.open()
        first = 1 + sum(u.purpose == "repair" for u in one.state.by_unit)
        one.journal.note("phase", units=[f"{repaired}/repair/{first + i}" for i in range(2)])
        one.journal.close()
        assert one.run()
        found = judged()
        assert ({s.name for s in found.named}, found.closed) == ({now_slow} - {""}, closed)
        assert not found.not_again


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda m: m.update(token="else"), "it belongs to another job"),
        (lambda m: m.update(host="n05", names=""), "it ran on n05, not on n00"),
        (lambda m: m.update(host="", names=""), "an unknown node"),
    ],
)
def test_a_file_that_does_not_prove_its_node_does_not_count(tmp_path, spoil, why):
    meta = {"token": "t", "node": "n00", "host": "n00", "names": "n00", "begin": "1", "end": "2"}
    assert "no check left a record" in str(gathered(tmp_path, meta).fault)
    spoil(meta)
    assert why in str(gathered(tmp_path, meta).fault)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "it printed nothing"),
        ("one\ntwo\n\n", "two"),
        ("ERROR: first\nan error: last\nend\n", "an error: last"),
        ("tenken: why\nend\n", "tenken: why"),
    ],
)
def test_a_file_without_records_says_what_was_printed_last(tmp_path, printed, said):
    meta = {"token": "t", "node": "n00", "host": "n00", "names": "n00", "begin": "5", "end": "2"}
    found = gathered(tmp_path, meta, printed)
    assert str(found.fault).endswith(f": {said})")
    # a clock that was set back
    assert found.seconds == 0


def test_what_a_record_is_of_is_in_the_archive_before_it(tmp_path, monkeypatch):
    put: list[str] = []
    monkeypatch.setattr(spool.archive, "put", lambda root, session, path, content: put.append(path.name))
    assert spool._put(tmp_path, "s", dict.fromkeys(["a.json", "a.out.gz", "b.json", "b.out.gz"], b"")) is None
    assert put == ["a.out.gz", "b.out.gz", "a.json", "b.json"]


def gathered(folder: Path, meta: dict[str, str], printed: str = "") -> spool.Gathered:
    with tarfile.open(folder / "t.tar", "w") as packed:
        standin._add(packed, "meta", "".join(f"{k}={v}\n" for k, v in meta.items()))
        standin._add(packed, "reframe.txt", printed)
    return spool.gather(folder, "t", "n00", "s", folder / "archive")


def test_a_cut_file_does_not_count(tmp_path):
    (tmp_path / "t.tar").write_bytes(b"\0" * 100)
    assert "t.tar cannot be read" in str(spool.gather(tmp_path, "t", "n00", "s", tmp_path / "a").fault)


def test_a_second_process_is_refused(tmp_path):
    one, other = make(tmp_path, world()), make(tmp_path, world())
    one.journal.open()
    with pytest.raises(CampaignError, match="another process is running this campaign"):
        other.run()
    one.journal.close()


def test_a_damaged_journal_is_refused_and_a_torn_end_is_not(tmp_path):
    path = tmp_path / journal.FILE
    line = json.dumps({"event": "campaign", "time": 1, "begun": "b"})
    path.write_text(f'{line}\n{{"event": "inte')
    assert journal.read(tmp_path).begun["begun"] == "b"
    path.write_text(f"{line}\nrubbish\n")
    with pytest.raises(CampaignError, match=r"journal.jsonl:2: not a line"):
        journal.read(tmp_path)


def test_starts_keep_the_ramp_and_no_two_are_in_phase():
    one = campaign(node_kw=10.0, ramp_kw_per_s=5.0)
    delays = sorted(plan.delay(one, place, 5, 0.5) for place in range(5))
    assert delays == [0, 2, 4, 6, 8]
    free = [plan.delay(campaign(), place, 5, 0.5) for place in range(5)]
    assert len(set(free)) == 5
    assert {plan.delay(campaign(in_phase=True), place, 5, 0.5) for place in range(5)} == {0.0}
    assert plan.delay(campaign(), 7, 1, 0.5) == 0.0, "a node alone has no other one to be out of phase with"


def test_a_plan_says_waves_node_hours_and_the_limit_that_counts():
    found = plan.plan(campaign(rounds=2), Limits(3, "max_queued"))
    assert (found.jobs, found.at_once, found.waves, found.why_at_once) == (16, 3, 6, "max_queued")
    assert found.node_hours == pytest.approx(16 * 600 / 3600)
    assert plan.plan(campaign(), Limits()).at_once == 5


def test_confidence_is_that_of_the_binomial():
    assert findings.lower_share(59, 59, 0.95) == pytest.approx(0.05 ** (1 / 59), abs=1e-6)
    assert findings.lower_share(0, 10, 0.95) == 0.0
    assert findings.lower_share(990, 1000, 0.95) == pytest.approx(0.98308, abs=1e-4)


def test_a_line_comes_while_the_scheduler_does_not_answer(tmp_path, monkeypatch):
    said, heard = [], threading.Event()

    def say(line):
        said.append(line)
        heard.set()

    there = world()
    monkeypatch.setattr(there, "limits", lambda: heard.wait(30) and Limits())
    one = make(tmp_path, there)
    one.alive = Alive(say, silence=0.05)
    assert one.run()
    assert "querying the scheduler for its limits" in said[0] and "s so far" in said[0]


def test_nothing_is_said_twice_where_the_work_speaks_itself():
    said = []
    with Alive(said.append, "reading", silence=30):
        pass
    assert said == []


def test_what_was_gathered_is_put_away_and_a_kill_before_that_changes_nothing(tmp_path, monkeypatch):
    there = world()
    with monkeypatch.context() as patch:
        patch.setattr(spool, "put_away", lambda *_: None)
        assert make(tmp_path, there).run()
    left = tmp_path / "c" / "spool"
    assert len(spool.there(left)) == len(NODES)
    one = make(tmp_path, there)
    one.journal.open()
    one._gather()
    one.journal.close()
    assert spool.there(left) == [] and len(list((left / spool.GATHERED).glob("*.tar"))) == len(NODES)
    assert counted(tmp_path) == once_each()


def domains(size: int = 4, **changes) -> Campaign:
    of = {node: f"d{i // size}" for i, node in enumerate(NODES)}
    return campaign(groups={"domain": of}, unit="domain", **changes)


def test_nodes_of_one_unit_begin_together_or_not_at_all(tmp_path):
    there, one, begun = world(), domains(concurrency=5), []

    class Seen(standin.StandIn):
        def pass_time(self, seconds):
            begun.append({one.unit_of(j["node"]) for j in self.jobs.values() if j["state"] != "ended"})
            super().pass_time(seconds)

    there.__class__ = Seen
    assert make(tmp_path, there, one).run()
    # the fifth of five places stays free: the other four nodes begin together when the first are done
    assert all(len(units) <= 1 for units in begun) and {"d0"} in begun and {"d1"} in begun
    assert counted(tmp_path) == once_each() and there.submissions == len(NODES)


def test_a_unit_that_the_queue_cannot_take_at_once_ends_the_campaign_with_its_name(tmp_path):
    with pytest.raises(CampaignError, match=r"the 4 nodes of 'd\d' start together; the queue accepts 3 jobs"):
        make(tmp_path, world(most=3), domains()).run()


def test_a_budget_for_one_unit_runs_one_and_ends(tmp_path):
    one = make(tmp_path, world(), domains(budget_node_hours=4 * 600 / 3600))
    assert not one.run()
    done = {u.node for u in one.units() if one.state.done(u)}
    # nodes took less than planned: the rest is smaller than a unit
    assert len({one.campaign.unit_of(n) for n in done}) == 1 and len(done) == 4


def test_a_suspect_has_its_whole_unit_run_again_and_judged(tmp_path):
    nodes = tuple(f"n{i:02d}" for i in range(48))
    of = {node: f"d{i // 4:02d}" for i, node in enumerate(nodes)}
    one = replace(campaign(), nodes=nodes, concurrency=48, groups={"domain": of}, unit="domain")
    there = standin.StandIn(
        nodes, checks=1, gpus=1, job_seconds=100.0, factor=lambda node, gpu, figure: 0.5 if node == "n13" else 1.0
    )
    run = make(tmp_path, there, one)
    assert run.run()
    assert {u.node for u in run.state.retests} == {"n12", "n13", "n14", "n15"}
    table, found = findings.read(run.state, tmp_path / "archive", one)
    findings.judge(table, found, one)
    assert found.bad_units() == {"d03": ["n13"]} and len(found.units) == 12
    assert found.share() == findings.lower_share(11, 12, 0.95)
    text = report.text(found, one, there.exclusion)
    assert "Units (domain): 11 of 12 in order" in text and "d03: n13 of 4 nodes" in text
    assert all(f"nodename={n} " in text for n in ("n12", "n13", "n14", "n15")) and "nodename=n16 " not in text
    assert "retest c n12,n13,n14,n15" in text


@pytest.mark.parametrize("limited", [True, False])
def test_a_second_run_repeats_the_checks_in_question_where_the_file_limits_it(tmp_path, limited):
    def suspects(state):
        return Chosen({"n02": ("Check01", "Gemm %gpus_at=one_by_one"), "n05": ()})

    def repeated():
        tokens = [a.token for a in one.state.attempts.values() if a.unit.purpose == "retest"]
        texts = [(tmp_path / "c" / "jobs" / f"{token}.sh").read_text() for token in tokens]
        assert sorted(text.count("reframe -c checks -r") for text in texts) == [1, 1]
        return {re.search(r"node=(\w+)$", t, re.M)[1]: re.findall(r" -n ('.*?'|\S+)", t) for t in texts}

    one = make(tmp_path, world(), campaign(retest_runs=1, retest_suspect_checks=limited, names=("Check",)))
    one.suspects = suspects
    assert one.run()
    only = ["'^Check01$'", "'^Gemm%gpus_at=one_by_one$'"] if limited else ["Check"]
    assert repeated() == {"n02": only, "n05": ["Check"]}
    assert journal.read(tmp_path / "c").only == one.state.only, "as it is after a kill"


@pytest.mark.parametrize("void", [True, False])
def test_a_node_that_became_suspect_by_second_runs_gets_one_and_no_node_runs_until_it_is_confirmed(tmp_path, void):
    """An INVALID measurement is compared with the others only after it was repeated."""
    chosen = []

    def suspects(state):
        chosen.append(len(state.retests))
        return Chosen({"n02": (), "n05": ()} if state.retests else {"n02": ("Check01",)}, void)

    one = make(tmp_path, world(), campaign(retest_runs=2, max_retested=2))
    one.suspects = suspects
    assert one.run() and chosen == ([0, 2] if void else [0])
    retests = [(unit.node, unit.number) for unit in one.state.retests]
    more = [("n02", 3), ("n05", 1), ("n02", 4), ("n05", 2)] if void else []
    assert retests == [("n02", 1), ("n02", 2), *more]
    assert len(one.state.phases) == len(chosen) and not one.lost()
    again = make(tmp_path, world(), campaign(retest_runs=2, max_retested=2))
    again.suspects = suspects
    before = len(chosen)
    assert again.run() and len(chosen) == before, "resumed after its end it measures nothing"


def test_no_more_nodes_are_measured_again_than_the_file_permits(tmp_path):
    lines = []
    one = make(tmp_path, world(), campaign(retest_runs=1, max_retested=2), lines)
    one.suspects = lambda state: Chosen({"n05": (), "n06": ()} if state.retests else {"n02": ()}, void=True)
    assert one.run() and [unit.node for unit in one.state.retests] == ["n02", "n05"]
    said = [line for line in lines if "max_nodes" in line]  # not of the first choice, whose one node is permitted
    assert len(said) == 1 and "2 nodes are suspect; 'max_nodes' permits 1 to be measured again" in said[0]


def test_the_trays_of_one_unit_repeat_the_same_checks(tmp_path):
    one = make(tmp_path, world(), domains(retest_runs=1, retest_suspect_checks=True))
    found = {"n00": ("Check01",), "n01": ("Check00",), "n04": ("Check00",), "n05": ()}
    one.suspects = lambda state: Chosen(found)
    assert one.run()
    assert {u.node: one.state.only.get(u) for u in one.state.retests} == {
        **{f"n0{i}": ("Check00", "Check01") for i in range(4)}, **{f"n0{i}": None for i in range(4, 8)},
    }  # fmt: skip


@pytest.mark.parametrize("hours", [-1, 0, 3])
def test_a_clock_that_is_set_anew_neither_stops_a_campaign_nor_loses_a_node(tmp_path, monkeypatch, hours):
    """While the queue is full and no job has left anything yet; 0: the honest twin."""
    there, slept = world(most=3, dies=0.2, seed=3), [0]
    monkeypatch.setattr(there, "limits", lambda: Limits())  # so that the queue refuses
    one = make(tmp_path, there, campaign(attempts=9))

    def sleep(seconds):
        slept[0] += 1
        there.pass_time(seconds)

    one.sleep = sleep
    one.clock = one.journal.clock = lambda: there.clock() + (3600 * hours if slept[0] > 5 else 0)
    assert one.run() and counted(tmp_path) == once_each()
    assert slept[0] < 80, "an hour has 180 looks at the queue"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_campaign_of_few_nodes_ends_and_reports_none_of_them(tmp_path, count):
    nodes = NODES[:count]
    one = campaign(nodes=nodes)
    there = standin.StandIn(nodes, checks=2, gpus=1, job_seconds=100.0)
    run = make(tmp_path, there, one)
    assert run.run()
    table, found = findings.read(run.state, tmp_path / "archive", one)
    findings.judge(table, found, one)
    assert not found.not_in_order() and f"{count} of {count} nodes tested, 0 not in order" in report.text(
        found, one, there.exclusion
    )


class BadDay(standin.StandIn):
    """A stand-in with one node on which jobs never start (`cannot`), never end (`hangs`), or that does not answer."""

    cannot, hangs, never, silent, down_until = "", "", "", False, 0.0

    def states(self, jobs):
        if self.silent:
            raise Refused("qstat did not respond within 60 s")
        found = super().states(jobs)
        for number, one in found.items():
            node = self.jobs[number]["node"]
            if node == self.cannot and not one.ended:
                found[number] = Seen(why="Nodes required for job are DOWN; n03 is down*", blocked=True)
            if node == self.hangs and not one.ended:
                found[number] = Seen(running=True)
            if node == self.never and not one.ended:
                found[number] = Seen(why="BadConstraints", dead=True)
            if self.now < self.down_until and not one.ended:
                found[number] = Seen(why="PartitionDown", held=True)
        return found

    def pass_time(self, seconds):
        if self.now < self.down_until:
            self.now += max(seconds, 1.0)
            return
        stuck = [
            j
            for j in self.jobs.values()
            if j["node"] in (self.cannot, self.hangs, self.never) and j["state"] != "ended"
        ]
        for job in stuck:
            job["state"], job["until"] = "running", float("inf")
        super().pass_time(seconds)


def bad_day(**more) -> BadDay:
    day = BadDay(NODES, checks=2, gpus=1, job_seconds=100.0)
    for name, value in more.items():
        setattr(day, name, value)
    return day


@pytest.mark.parametrize(
    ("kind", "says", "most"),
    [("cannot", "could not start for 30 min (Nodes required for job are DOWN; n03 is down*)", 3 * 1900),
     ("hangs", "still ran after", 3 * 1700), ("never", "can never run (BadConstraints)", 3 * 200)],
)  # fmt: skip
def test_a_dead_node_costs_a_stated_time_and_the_rest_is_reported(tmp_path, kind, says, most):
    day = bad_day(**{kind: "n03"})
    lines: list[str] = []
    began = day.now
    one = make(tmp_path, day, lines=lines)
    assert not one.run()
    assert day.now - began < most
    (lost,) = one.lost()
    assert lost.node == "n03" and says in one.state.tried(lost)[-1].ended
    assert counted(tmp_path).keys() == {key for key in once_each() if key[0] != "n03"}
    if kind == "cannot":
        first = next(i for i, line in enumerate(lines) if "node n03: its job" in line)
        assert "cannot start (Nodes required for job are DOWN; n03 is down*); given up after 30 min" in lines[first]
        told = [line for line in lines if "1 cannot start: n03 (Nodes required" in line and "min left" in line]
        assert told and "about 0 min left" not in told[0]


def test_what_runs_longer_than_a_job_may_wait_goes_on(tmp_path):
    one = make(tmp_path, bad_day(), campaign(wait_seconds=50.0))
    assert one.run() and counted(tmp_path) == once_each()


def test_a_long_reason_keeps_its_end():
    why = (
        "job 38 could not start for 30 min (QUEUED; Not Running: "
        + 90 * "x"
        + " host ; pn3 is down,offline (psu 2 failed))"
    )
    short = report.within(why, 120)
    assert (
        len(short) <= 120
        and short.startswith("job 38 could not")
        and short.endswith("pn3 is down,offline (psu 2 failed))")
    )
    assert report.within(why, 300) == why


@pytest.mark.parametrize(
    ("kind", "says", "most"),
    [("cannot", "could not start for 60 s", 3 * 200), ("hangs", "still ran after 12 min", 3 * 800)],
)
def test_the_margins_are_those_of_the_partition(tmp_path, monkeypatch, kind, says, most):
    """So that a trial on a real scheduler need not wait half an hour."""
    monkeypatch.setenv("TENKEN_PATIENCE", "blocked=00:00:20,overrun=00:00:30")
    day = bad_day(**{kind: "n03"})
    one = make(tmp_path, day, command._with_margins(campaign(system="minislurm")))
    assert (one.campaign.blocked_seconds, one.campaign.overrun_seconds) == (60.0, 30.0)
    began = day.now
    assert not one.run() and day.now - began < most
    (lost,) = one.lost()
    assert lost.node == "n03" and says in one.state.tried(lost)[-1].ended


def test_a_partition_that_is_down_for_hours_costs_no_node(tmp_path):
    day = bad_day()
    day.down_until = day.now + 3 * 3600
    lines: list[str] = []
    assert make(tmp_path, day, lines=lines).run()
    assert counted(tmp_path) == once_each()
    assert any("cannot start (PartitionDown); given up after 1440 min" in line for line in lines)
    assert any("5 cannot start: n" in line and "PartitionDown" in line for line in lines)


def test_a_scheduler_that_never_answers_ends_a_campaign_in_one_line(tmp_path):
    day = bad_day(silent=True, dies=1.0)
    began = day.now
    with pytest.raises(CampaignError, match="refused everything for 24 h: qstat did not respond"):
        make(tmp_path, day).run()
    assert day.now - began < 25 * 3600


def test_nodes_that_a_killed_campaign_did_not_reach_are_not_taken_out_of_service(tmp_path):
    day = bad_day(hangs="n03")
    one = make(tmp_path, day, campaign(attempts=1, concurrency=1))
    one.sleep = lambda seconds: (
        (_ for _ in ()).throw(Killed) if len(one.state.attempts) == 4 else day.pass_time(seconds)
    )
    with pytest.raises(Killed):
        one.run()
    table, found = findings.read(one.state, tmp_path / "archive", one.campaign)
    findings.judge(table, found, one.campaign)
    lost = set(found.lost)
    assert lost and lost <= found.not_in_order(), "not measured is not accepted"
    assert not lost & set(found.to_exclude())
    text = report.text(found, one.campaign, day.exclusion)
    assert not any(f"nodename={node}" in text for node in lost)


@pytest.mark.parametrize("asked", ["limits", "tagged"])
def test_a_controller_that_cannot_be_reached_is_one_line_and_nothing_has_started(tmp_path, monkeypatch, asked):
    """PBS does not let every user read its limits, and NQSV has none."""
    day = world()

    def refuse(*_):
        raise Refused("scontrol ended with 1: Unable to contact slurm controller")

    monkeypatch.setattr(day, asked, refuse)
    with pytest.raises(CampaignError, match=r"nothing is started, .* does not respond: scontrol ended with 1"):
        make(tmp_path, day).run()
    assert not journal.read(tmp_path / "c").begun and not (tmp_path / "c" / "spool").exists()
    monkeypatch.undo()
    assert make(tmp_path, day).run(), "`run` begins it once the controller is back"


CONTRACT = """\
title: "The hall"
system: standin
parties: {customer: "Site", supplier: "Vendor"}
allow_unsealed: true
scope: {nodes: 8}
clauses:
  - {id: M1, metric: stream.triad, subject: gpu, target: 4300, unit: GB/s, source: "offer"}
"""


@pytest.mark.parametrize(("slow", "statement"), [("", "ACCEPTED"), ("n03", "REJECTED")])
def test_the_campaign_of_the_documentation_is_enough_for_a_contract(tmp_path, slow, statement):
    rounds = int(re.search(r"^rounds: (\d+)", (ROOT / "docs" / "campaign.md").read_text(), re.M)[1])
    one = campaign(rounds=rounds)
    run = make(tmp_path, world(factor=lambda node, gpu, figure: 0.9 if node == slow else 1.0), one)
    assert run.run()
    (tmp_path / "hall.yaml").write_text(CONTRACT)
    agreed = contracts.load(str(tmp_path / "hall.yaml"), load_catalogue(), ["standin"])
    sessions = tuple(dict.fromkeys(a.gathered["session"] for a in run.state.attempts.values() if a.gathered))
    found = accept.decide(agreed, accept.files_of(tmp_path / "archive", sessions), sessions)
    assert found.statement == statement, found.reasons


def test_a_campaign_of_which_nothing_ran_says_so(tmp_path):
    found = findings.Findings(nodes=8)
    assert report.sentence(found) == ("FAIL", "Nothing ran: none of 8 nodes has a result")
    text = report.page(found, campaign(), lambda node, why: "")
    assert "Nothing ran" in text and "<pre>" not in text
