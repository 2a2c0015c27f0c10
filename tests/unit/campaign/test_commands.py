"""`tenken campaign`: each action with jobs, scheduler and records that a test answers for; exit status and lines."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.campaign import findings, groupjobs, groups, plan, redfish, tournament
from tenken.campaign.file import Between, Campaign, CampaignError
from tenken.campaign.journal import State
from tenken.campaign.queue import JobScript, Limits, Refused
from tenken.commands import campaign as command
from tenken.commands import campaign_queues as queues
from tenken.counters import Carried, Change
from tenken.machines import loader
from tenken.machines.model import Fabric

NODES = tuple(f"n{at}" for at in range(16))
LEAF = {node: f"leaf{at // 4}" for at, node in enumerate(NODES)}
CAMPAIGN = Campaign("c", "minislurm", "gpu", NODES, 60.0, between=Between("switch", program="/bin/x"))
ASKED = Namespace(poll=0.0, late=0.0, nodes="n1")


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"event": kind, "time": 1.0, **more}


def state(*events: dict[str, Any], gathered: Sequence[str] = NODES) -> State:
    """A campaign in which these nodes have left results."""
    found = State()
    found.take(event("campaign"))
    for node in gathered:
        found.take(event("intent", unit=f"{node}/alone/1", token=node, attempt=1))
        found.take(event("gathered", token=node, session=f"s-{node}", seconds=1.0, records=[]))
    for one in events:
        found.take(one)
    return found


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A campaign that ended; its archive and its scheduler answer nothing of themselves."""
    ended = state(event("phase", units=[]))
    monkeypatch.setattr(command.journal, "read", lambda folder: ended)
    monkeypatch.setattr(command.archive, "records", lambda *of, **more: iter(()))
    queue = SimpleNamespace(exclusion=lambda node, why: f"drain {node}: {why}", limits=lambda: Limits(4, "x"))
    monkeypatch.setattr(command, "queue_of", lambda campaign: queue)
    monkeypatch.setattr(command, "_leaves", lambda *of: dict(LEAF))
    return tmp_path


def refused(*of: Any, **more: Any) -> Any:
    raise Refused("down")


class Groups:
    """Jobs over groups: a group with a slow node is slow. `slow`: set by a test."""

    slow: tuple[str, ...] = ()

    def __init__(self, *of: Any, **more: Any) -> None:
        pass

    def clear(self) -> None:
        pass

    def done(self) -> str:
        return "/kept"

    def ask(self, asked: Sequence[Sequence[str]]) -> list[float | None]:
        return [10.0 if set(group) & set(self.slow) else 20.0 for group in asked]


@pytest.mark.parametrize("slow", [(), ("n6",)])
def test_a_node_that_is_slow_in_groups_is_named(begun, monkeypatch, capsys, slow) -> None:
    monkeypatch.setattr(groupjobs, "GroupJobs", type("Slow", (Groups,), {"slow": slow}))
    assert command._groups(CAMPAIGN, begun, ASKED) == (1 if slow else 0)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("node ")] == [
        f"node {node}: slow in jobs with other nodes" for node in slow
    ]
    assert ("drain n6: slow in jobs" in said) is bool(slow) and "over 16 nodes of 4 leaves; results: /kept" in said
    monkeypatch.setattr(Groups, "clear", refused)
    with pytest.raises(CampaignError, match="the scheduler does not respond: down"):
        command._groups(CAMPAIGN, begun, ASKED)


class Pairs(Groups):
    """Pairs of nodes: 20 GB/s and 2 us, half with a slow node."""

    into, rail = "pairs-1", ""
    late: dict[str, str] = {}

    def play(self, meetings: Sequence[tournament.Meeting]) -> list[tournament.Answer]:
        return [
            tournament.Answer(one.kind, pair, 10.0 if set(pair) & set(self.slow) else 20.0, 2.0)
            for one in meetings for step in one.steps for pair in step
        ]  # fmt: skip

    def all_at_once(self, leaf_of: Any) -> groupjobs.AllAtOnce:
        return groupjobs.AllAtOnce({"by leaf": 160.0}, 18.5, {"idle": 2.0, "full": 40.0}, self.late)

    changes = carried = since = lambda self: []


@pytest.mark.parametrize(
    ("slow", "late", "named"), [((), {}, set()), (("n6",), {}, {"n6"}), ((), {"n3": "late"}, {"n3"})]
)
def test_nodes_that_are_slow_in_pairs_or_late_are_not_in_order(begun, monkeypatch, capsys, slow, late, named) -> None:
    (begun / "pairs-1").mkdir()
    monkeypatch.setattr(groupjobs, "PairJobs", type("One", (Pairs,), {"slow": slow, "late": late}))
    assert command._pairs(CAMPAIGN, begun, ASKED) == (1 if named else 0)
    assert set(NODES) - set(json.loads((begun / "pairs-1" / command.GOOD).read_text())) == named
    said = capsys.readouterr().out
    # eight pairs share the bisection of 16 nodes
    assert "bisection, by leaf: 160 GB/s, 20 of each pair" in said and "incast: 18.5 GB/s" in said
    assert "latency of two nodes: 2 us, load idle, 40 us, load full" in said
    assert ("drain n6: slow with other nodes" in said) is bool(slow) and ("node n3: late" in said) is bool(late)
    assert "within: " in said and "across: " in said and "loaded: " in said
    monkeypatch.setattr(Groups, "clear", refused)
    with pytest.raises(CampaignError, match="the scheduler does not respond: down"):
        command._pairs(CAMPAIGN, begun, ASKED)


def test_each_fault_of_ports_is_said_and_its_node_is_not_in_order(begun, monkeypatch, capsys) -> None:
    down = Change("n1", "p", "infiniband", 200.0, 1.0, {"link_downed": 1}, {})
    (begun / "pairs-1").mkdir()
    monkeypatch.setattr(groupjobs, "PairJobs", type("One", (Pairs,), {
        "changes": lambda self: [down], "carried": lambda self: [Carried("n2", True, "other path")],
        "late": {"n3": "late"},
    }))  # fmt: skip
    system = loader.load("minislurm")
    part = replace(system.partition("gpu"), fabric=Fabric("infiniband", rails=1, gbit_s=400.0))
    monkeypatch.setattr(command.loader, "load", lambda name: replace(system, partitions={"gpu": part}))
    assert command._pairs(CAMPAIGN, begun, ASKED) == 1
    assert capsys.readouterr().out.splitlines()[-5:-1] == [
        "n1: port p: link_downed 1 (times that the link went down)", "node n2: other path", "node n3: late",
        "n1: port p: 200 Gbit/s, the system file states 400",
    ]  # fmt: skip
    good = json.loads((begun / "pairs-1" / command.GOOD).read_text())
    assert good == [node for node in NODES if node not in ("n1", "n2", "n3")]


def test_groups_and_pairs_come_after_the_nodes_alone(tmp_path, monkeypatch) -> None:
    for before, says in ((State(), "has not started: `tenken campaign run c`"), (state(), "has not ended"),
                         (state(event("phase", units=[]), event("intent", unit="n1/alone/2", token="x", attempt=2)),
                          "has not ended")):  # fmt: skip
        monkeypatch.setattr(command.journal, "read", lambda folder, before=before: before)
        with pytest.raises(CampaignError, match=says):
            command._between(CAMPAIGN, tmp_path)
    monkeypatch.setattr(command.journal, "read", lambda folder: state(event("phase", units=[])))
    assert command._between(CAMPAIGN, tmp_path)[1] == CAMPAIGN.between
    with pytest.raises(CampaignError, match="has no section for jobs between nodes"):
        command._between(replace(CAMPAIGN, between=None), tmp_path)


def test_a_launcher_that_is_not_known_must_be_written(monkeypatch) -> None:
    assert command._launch(CAMPAIGN, "", {"srun": "srun -n {ranks}"}, "launch") == "srun -n {ranks}"
    assert command._launch(CAMPAIGN, "mine {ranks}", {"srun": "x"}, "launch") == "mine {ranks}"
    with pytest.raises(CampaignError, match=r"launcher 'srun' is none of mpirun: set 'between.launch"):
        command._launch(CAMPAIGN, "", {"mpirun": "x"}, "launch'")


@pytest.mark.parametrize(("bad", "groups", "says"), [
    ((), {"switch": dict(list(LEAF.items())[:-1])}, r"no leaf switch of node n15 is known \(of 1 nodes in all\)"),
    (NODES[4:], {"switch": LEAF}, "4 nodes of 1 leaves passed individually; required: 4 nodes of 2"),
    ((*NODES[2:4], *NODES[5:]), {"switch": LEAF}, "3 nodes of 2 leaves"),
    ((*NODES[2:4], *NODES[6:]), {"switch": LEAF}, None),
])  # fmt: skip
def test_nodes_in_order_of_two_leaves_are_needed(monkeypatch, bad, groups, says) -> None:
    alone = SimpleNamespace(not_in_order=lambda: set(bad))
    monkeypatch.setattr(findings, "read", lambda *of: (None, alone))
    monkeypatch.setattr(findings, "judge", lambda *of: None)
    ask = lambda: command._leaves(State(), replace(CAMPAIGN, groups=groups), "switch")  # noqa: E731
    if says is None:
        assert ask() == {"n0": "leaf0", "n1": "leaf0", "n4": "leaf1", "n5": "leaf1"}
        return
    with pytest.raises(CampaignError, match=says):
        ask()


def test_the_state_of_a_campaign_is_its_exit_status(begun, monkeypatch, capsys) -> None:
    assert command._status(CAMPAIGN, begun) == 0
    assert capsys.readouterr().out.startswith("16 of 16 nodes tested, 0 in the queue or running\n")
    part = state(event("intent", unit="n9/alone/1", token="x", attempt=1), gathered=NODES[:9])
    monkeypatch.setattr(command.journal, "read", lambda folder: part)
    assert command._status(CAMPAIGN, begun) == 3
    assert capsys.readouterr().out.startswith("9 of 16 nodes tested, 1 in the queue or running\n")
    assert command._stop(CAMPAIGN, begun) == 0 and (begun / command.runner.STOP).exists()


def test_the_page_of_a_running_campaign_lists_what_is_not_done(tmp_path) -> None:
    part = state(event("intent", unit="n2/alone/1", token="x", attempt=1),
                 event("intent", unit="n3/alone/1", token="y", attempt=1), event("ended", token="y", why="died <1>"),
                 event("intent", unit="n0/alone/2", token="z", attempt=2), gathered=NODES[:2])  # fmt: skip
    command._live(replace(CAMPAIGN, nodes=NODES[:5]), tmp_path, part, "2 of 5 & more")
    page = (tmp_path / "live.html").read_text()
    assert "<p>2 of 5 &amp; more</p><p>1 died &lt;1&gt;, 2 done, 1 in the queue or running, 1 to do</p>" in page
    rows = "".join(f"<li>{one}</li>" for one in ("n2: in the queue or running", "n3: died &lt;1&gt;", "n4: to do"))
    assert f"<ul>{rows}</ul>" in page and "content=10" in page


@pytest.mark.parametrize(("nodes", "says"), [
    ("n1,m7", "node 'm7' does not belong to campaign 'c'"), ("m1", "node 'm1' does not"), ("n[1", "names no node"),
])  # fmt: skip
def test_only_nodes_of_an_ended_campaign_are_measured_again(begun, monkeypatch, nodes, says) -> None:
    with pytest.raises(CampaignError, match=says):
        command._retest(CAMPAIGN, begun, Namespace(**{**vars(ASKED), "nodes": nodes}))
    monkeypatch.setattr(command.journal, "read", lambda folder: state())
    with pytest.raises(CampaignError, match="has not ended: nodes can be measured again once it has"):
        command._retest(CAMPAIGN, begun, ASKED)


def test_a_repaired_node_is_measured_as_often_as_asked_and_numbers_go_on(begun, monkeypatch) -> None:
    told: list[Any] = []
    ended = state(event("phase", units=[]), event("intent", unit="n1/repair/1", token="r", attempt=1),
                  event("gathered", token="r", session="s", seconds=1.0, records=[]))  # fmt: skip
    journal = SimpleNamespace(open=lambda: None, close=lambda: None, note=lambda kind, units: told.append(units))
    one = SimpleNamespace(state=ended, journal=journal, run=lambda: False, lost=lambda: lost)
    monkeypatch.setattr(command.journal, "read", lambda folder: ended)
    monkeypatch.setattr(command, "_runner", lambda *of: one)
    lost: list[Any] = []
    for runs in (1, 3):
        assert command._retest(replace(CAMPAIGN, retest_runs=runs), begun, Namespace(nodes="n1.site,n2")) == 0
    at_least_two = [["n1", 2], ["n2", 1], ["n1", 3], ["n2", 2]]
    assert [[u.split("/") for u in units] for units in told] == [
        [[node, "repair", str(number)] for node, number in at_least_two],
        [[node, "repair", str(number)] for node, number in [*at_least_two, ["n1", 4], ["n2", 3]]],
    ]
    lost.append(command.Unit.of("n2/repair/1"))
    assert command._retest(CAMPAIGN, begun, Namespace(nodes="n2")) == 3
    lost[0] = command.Unit.of("n9/alone/1")
    assert command._retest(CAMPAIGN, begun, Namespace(nodes="n2")) == 0


def test_hardware_that_is_faulty_or_unread_is_the_exit_status(begun, monkeypatch, capsys) -> None:
    with pytest.raises(CampaignError, match="names no BMCs"):
        command._hardware(CAMPAIGN, begun)
    one = replace(CAMPAIGN, bmc="https://{node}-bmc")
    watts = {node: {"power_w": 300.0 + at} for at, node in enumerate(NODES)}
    read = {node: SimpleNamespace(readings=watts[node], faults=[], error="") for node in NODES}
    monkeypatch.setattr(redfish, "credentials", lambda: None)
    monkeypatch.setattr(redfish, "context", lambda *of: None)
    monkeypatch.setattr(redfish, "text", lambda found: "")
    monkeypatch.setattr(redfish, "readings", lambda found, moment: f"{moment}\n")
    monkeypatch.setattr(redfish, "collect", lambda nodes, *of, said: [*map(said, nodes)] and read)
    monkeypatch.setattr(command, "Alive", lambda *of: nullcontext())
    assert command._hardware(one, begun) == 0
    said = capsys.readouterr().out
    assert "node power: 300 to 315 W (highest: n15)" in said and "16 of 16 BMCs read" in said
    read["n3"].error = "no answer"
    assert command._hardware(one, begun) == 3
    assert "n3: no answer\n15 of 16 BMCs read" in capsys.readouterr().out
    read["n4"].faults = ["fan 2 failed"]
    assert command._hardware(one, begun) == 1
    assert (begun / redfish.READINGS).read_text().count("\n") == 3, "readings are kept, one after another"


def test_a_scheduler_that_is_down_is_told_and_a_plan_has_its_hours(begun, monkeypatch, capsys) -> None:
    assert command._plan(CAMPAIGN) == 0
    # 16 nodes a minute each; four at once: four waves
    assert capsys.readouterr().out and plan.plan(CAMPAIGN, Limits(4, "x")).waves == 4
    assert plan.plan(CAMPAIGN, Limits(5, "x")).waves == 4 and plan.plan(CAMPAIGN, Limits(3, "x")).waves == 6
    assert plan.plan(CAMPAIGN, Limits()).node_hours == pytest.approx(16 / 60)
    assert plan.plan(CAMPAIGN, Limits()).lines(CAMPAIGN, datetime(2026, 1, 1, tzinfo=timezone.utc))
    monkeypatch.setattr(command, "queue_of", lambda campaign: SimpleNamespace(limits=refused))
    with pytest.raises(CampaignError, match="the scheduler does not respond: down"):
        command._plan(CAMPAIGN)


def test_run_begins_and_resume_continues(begun, monkeypatch) -> None:
    with pytest.raises(CampaignError, match="has started: `tenken campaign resume c` continues"):
        command._run(CAMPAIGN, begun, ASKED, fresh=True)
    monkeypatch.setattr(command.journal, "read", lambda folder: State())
    with pytest.raises(CampaignError, match="has not started: `tenken campaign run c`"):
        command._run(CAMPAIGN, begun, ASKED, fresh=False)


def test_what_ended_without_a_result_is_listed_until_it_is_measured(begun, monkeypatch, capsys) -> None:
    events = []
    for unit, token, why in (("n1/alone/1", "a", "died"), ("n2/alone/1", "b", command.runner.NEVER_QUEUED),
                             ("n3/alone/1", "c", "was lost"), ("n4/repair/2", "d", "timed out")):  # fmt: skip
        events += [event("intent", unit=unit, token=token, attempt=1), event("ended", token=token, why=why)]
    events += [event("intent", unit="n3/alone/1", token="e", attempt=2),
               event("gathered", token="e", session="s", seconds=1.0, records=[])]  # fmt: skip
    monkeypatch.setattr(command.journal, "read", lambda folder: state(*events, gathered=["n0"]))
    assert command._status(CAMPAIGN, begun) == 3
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "2 of 16 nodes tested, 0 in the queue or running", "  n1 (alone 1): died", "  n4 (repair 2): timed out",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "bad", "damaged", "status"),
    [(True, [], [], 0), (True, ["n1"], [], 1), (True, [], ["x"], 1), (False, [], [], 3), (False, ["n1"], [], 3)],
)
def test_the_report_of_a_campaign_is_its_exit_status(
    ended: bool, bad: list[str], damaged: list[str], status: int, begun, monkeypatch, capsys
) -> None:
    found = SimpleNamespace(not_in_order=lambda: bad, damaged=damaged)
    done: list[str] = []
    monkeypatch.setattr(findings, "read", lambda *of: ("table", found))
    for name in ("take_hardware", "judge"):
        monkeypatch.setattr(findings, name, lambda *of, name=name: done.append(name))
    monkeypatch.setattr(command.pages, "text", lambda found, campaign, exclusion: exclusion("n1", "slow") + "\n")
    monkeypatch.setattr(command.pages, "page", lambda *of: "<p>page</p>")
    if not ended:
        monkeypatch.setattr(command.journal, "read", lambda folder: state())
    assert command._report(CAMPAIGN, begun) == status
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["drain n1: slow", "", f"Report: {begun}/report.html"] and done == ["take_hardware", "judge"]
    assert ("The campaign has not ended" in said[-1]) is not ended
    assert (begun / "report.html").read_text() == "<p>page</p>"


# ---- queues


@pytest.mark.parametrize(("seconds", "minutes"), [(0.5, 1), (1, 1), (60, 1), (61, 2), (120, 2), (3601, 61)])
def test_a_job_has_the_minutes_that_hold_its_seconds(seconds: float, minutes: int) -> None:
    slurm = queues.SlurmQueue(SimpleNamespace(scheduler="slurm"), None)  # type: ignore[arg-type]
    job = JobScript("n", "t", "n7", seconds, "/out", [])  # type: ignore[arg-type]
    assert f"--time={minutes}" in slurm.directives(job)


@pytest.mark.parametrize(("name", "listed"), [
    ("gridengine", '<job_info><job_list state="running"><JB_job_number>7</JB_job_number><state>r</state></job_list>'
                   '<job_list state="pending"><JB_job_number>8</JB_job_number><state>qw</state></job_list></job_info>'),
    ("nqsv", "RequestID       ReqName  UserName Queue     Pri STT S   Memory      CPU   Elapse R H M Jobs\n"
             "--------------- -------- -------- -------- ---- --- - -------- -------- -------- - - - ----\n"
             "7.nqsv          tk000001 me       gen         0 RUN -    0.00B     0.00        0 Y Y Y    1\n"
             "8.nqsv          tk000002 me       gen         0 QUE -    0.00B     0.00        0 Y Y Y    1\n"),
])  # fmt: skip
def test_the_jobs_that_were_asked_for_are_seen_and_none_is_asked_in_vain(monkeypatch, name: str, listed: str) -> None:
    asked = []
    monkeypatch.setattr(queues, "_ask", lambda words, *of: asked.append(words) or listed)
    queue = queues.QUEUES[name](SimpleNamespace(scheduler=name), "x {node}")  # type: ignore[arg-type]
    end = ".nqsv" if name == "nqsv" else ""
    seen = queue.states([f"7{end}", f"9{end}"])  # type: ignore[attr-defined]
    assert list(seen) == [f"7{end}"] and seen[f"7{end}"].running and not seen[f"7{end}"].ended
    assert not queue.states([f"8{end}"])[f"8{end}"].running  # type: ignore[attr-defined]
    assert len(asked) == 2 and queue.states([]) == {} and len(asked) == 2  # type: ignore[attr-defined]


def test_slurm_tells_of_ended_jobs_by_its_accounting_and_of_no_others(monkeypatch) -> None:
    asked: list[Sequence[str]] = []
    accounting = [True]

    def ask(words: Sequence[str], *of: Any) -> str:
        asked.append(words)
        if words[0] == "squeue":
            return "7|RUNNING|0|n1|gpu|0|None|\n9|RUNNING|0|n2|gpu|0|None|\n"
        if not accounting[0]:
            raise Refused("accounting is disabled")
        return "8|COMPLETED|0:0|n3\n"

    monkeypatch.setattr(queues, "_ask", ask)
    slurm = queues.SlurmQueue(SimpleNamespace(scheduler="slurm"), None)  # type: ignore[arg-type]
    found = slurm.states(["7", "8"])
    assert {job: (one.running, one.ended) for job, one in found.items() if one} == {
        "7": (True, False), "8": (False, True),
    }  # fmt: skip
    assert slurm.states([]) == {} and len(asked) == 2
    accounting[0] = False
    assert set(slurm.states(["7", "8"])) == {"7"}, "without accounting a job that is not listed has ended"
    accounting[0], asked[:] = True, []
    slurm.states([str(number) for number in range(1000, 1501)])
    lists = [words[words.index("-j") + 1].split(",") for words in asked if words[0] == "sacct"]
    assert [len(one) for one in lists] == [500, 1] and lists[1] == ["1500"]


def test_a_job_that_is_gone_needs_no_cancelling(monkeypatch) -> None:
    slurm = queues.SlurmQueue(SimpleNamespace(scheduler="slurm"), None)  # type: ignore[arg-type]
    said = "Invalid job id specified"

    def run(words: Sequence[str], timeout: float) -> str:
        raise queues.command.CommandError(said, said)

    monkeypatch.setattr(queues.command, "run", run)
    slurm.cancel("7")
    said = "Unable to contact slurm controller"
    with pytest.raises(Refused, match="Unable to contact"):
        slurm.cancel("7")
    with pytest.raises(CampaignError, match="allowed: "):
        slurm.one_node(JobScript("n", "t", "n7", 1, "/out", [], ("a", "b")))  # type: ignore[arg-type]


@pytest.mark.parametrize(("found", "status"), [
    ({}, 0), ({"nodes": [5]}, 1), ({"leaves": [1]}, 1), ({"whole": False}, 3), ({"unexplained": [(0, 1)]}, 3),
    ({"nodes": [5], "whole": False}, 1), ({"whole": False, "unexplained": [(0, 1)]}, 3),
])  # fmt: skip
def test_what_groups_could_not_decide_is_an_exit_status_of_its_own(begun, monkeypatch, capsys, found, status) -> None:
    told = {"nodes": [], "leaves": [], "unexplained": [], "whole": True, "jobs": 12, "rounds": 3, **found}
    monkeypatch.setattr(groupjobs, "GroupJobs", Groups)
    monkeypatch.setattr(groups, "search", lambda *of: SimpleNamespace(**told))
    assert command._groups(CAMPAIGN, begun, ASKED) == status
    said = capsys.readouterr().out
    assert ("undecided, or slow only together: n0, n1" in said) == bool(told["unexplained"])
    assert ("all jobs across it are slow" in said) == bool(
        told["leaves"]
    ) and "12 jobs in 3 rounds over 16 nodes" in said


def test_each_rail_is_measured_and_told_by_its_name(begun, monkeypatch, capsys) -> None:
    (begun / "pairs-1").mkdir()
    played: dict[str, int] = {}

    class Rails(Pairs):
        def play(self, meetings: Sequence[tournament.Meeting]) -> list[tournament.Answer]:
            played[self.rail] = played.get(self.rail, 0) + len(meetings)
            self.slow = ("n6",) if self.rail == "mlx5_1" else ()
            return super().play(meetings)

        def all_at_once(self, leaf_of: Any) -> groupjobs.AllAtOnce:
            played["together"] = int(self.rail == "")
            return super().all_at_once(leaf_of)

    monkeypatch.setattr(groupjobs, "PairJobs", Rails)
    between = replace(CAMPAIGN.between, rails=("mlx5_0", "mlx5_1"))
    monkeypatch.setattr(
        command, "_between", lambda campaign, folder, of=command._between: (of(campaign, folder)[0], between)
    )
    assert command._pairs(CAMPAIGN, begun, ASKED) == 1
    said = capsys.readouterr().out
    assert list(played) == ["mlx5_0", "mlx5_1", "together"] and played["together"] == 1
    assert "rail mlx5_1: node n6: " in said and "rail mlx5_0: node" not in said and "rail mlx5_0: within: " in said
    assert "n6" not in json.loads((begun / "pairs-1" / command.GOOD).read_text())
