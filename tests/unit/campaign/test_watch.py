"""When a campaign gives up a job, what it submits, and what it says: each condition at both of its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenken.campaign import plan, runner
from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.journal import Chosen, State, Unit
from tenken.campaign.queue import Limits, Refused, Seen

#: Jobs of 100 s; 1000 s in the queue, 300 s on a node that accepts none, 50 s beyond its limit.
CAMPAIGN = Campaign(
    "c", "m", "p", ("a", "b", "c"), 100.0, wait_seconds=1000.0, blocked_seconds=300.0, overrun_seconds=50.0,
    in_phase=True, attempts=2,
)  # fmt: skip
WAITS, RUNS, GONE, UNKNOWN = Seen(), Seen(running=True), Seen(ended=True, why="exit 1"), None


class World:
    """A runner with a clock that is set, and a scheduler that answers as told."""

    def __init__(self, folder: Path, one: Campaign = CAMPAIGN, chosen: Chosen | None = None) -> None:
        self.now, self.seen, self.cancelled, self.said = 0.0, {}, [], []  # type: ignore[var-annotated]
        self.asked: list[list[str]] = []
        self.runner = runner.Runner(
            one,
            folder,
            folder,
            self,
            self.said.append,
            lambda state: chosen or Chosen({}),
            clock=lambda: self.now,
            late=40.0,
        )  # type: ignore[arg-type]
        self.state = State()
        self.runner.journal.state = self.state
        self.runner.journal.note = lambda event, **words: self.state.take(  # type: ignore[method-assign]
            {"event": event, "time": self.now, **words}
        )
        self.runner._limits = Limits()

    def states(self, jobs: list[str]) -> Any:
        self.asked.append(jobs)
        if isinstance(self.seen, Refused):
            raise self.seen
        return self.seen

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)

    def add(self, node: str, job: str | None = None, **ended: str) -> str:
        unit = Unit(node)
        token = f"t{len(self.state.attempts)}"
        self.runner.journal.note("intent", token=token, unit=unit.id, attempt=1)
        if job:
            self.runner.journal.note("submitted", token=token, job=job)
        if ended:
            self.runner.journal.note("ended", token=token, **ended)
        return token

    def done(self, node: str, seconds: float) -> None:
        token = self.add(node, "j")
        self.runner.journal.note("gathered", token=token, session="s", records=[], seconds=seconds)


NODE_DOWN, HELD = replace(WAITS, blocked=True, why="node down"), replace(WAITS, held=True, why="held")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        # in the queue for 1000 s
        ([(1000, WAITS)], None), ([(1001, WAITS)], "did not start within 0.277778 h"),
        ([(5000, RUNS)], None), ([(5000, UNKNOWN)], None),
        ([(1001, replace(WAITS, why="priority"))], "did not start within 0.277778 h (priority)"),
        ([(1, replace(WAITS, dead=True, why="no such"))], "can never run (no such)"),
        # an end counts after 40 s, if nothing else was seen meanwhile
        ([(10, GONE), (49, GONE)], None), ([(10, GONE), (50, GONE)], "job 7 never began (exit 1)"),
        ([(10, GONE), (30, RUNS), (50, GONE), (89, GONE)], None),
        ([(10, GONE), (30, UNKNOWN), (50, GONE)], "job 7 never began"),
        ([(10, "missing"), (50, "missing")], "job 7 never began (no longer listed)"),
        ([(10, replace(GONE, why="")), (50, replace(GONE, why=""))], "job 7 never began (ended)"),
        ([(100, GONE), (20, GONE), (59, GONE)], None), ([(100, GONE), (20, GONE), (60, GONE)], "job 7 never began"),
        # its time limit and 50 s more
        ([(10, RUNS), (159, RUNS)], None),
        ([(10, RUNS), (160, RUNS)], "job 7 still ran after 2 min, beyond its time limit"),
        ([(100, RUNS), (10, RUNS), (159, RUNS)], None), ([(100, RUNS), (10, RUNS), (160, RUNS)], "job 7 still ran"),
        # its node accepts no jobs for 300 s; something else holds it: as long as any may wait
        ([(10, NODE_DOWN), (309, NODE_DOWN)], None),
        ([(10, NODE_DOWN), (310, NODE_DOWN)], "job 7 could not start for 5 min (node down)"),
        ([(10, NODE_DOWN), (200, WAITS), (310, NODE_DOWN), (609, NODE_DOWN)], None),
        ([(100, NODE_DOWN), (10, NODE_DOWN), (310, NODE_DOWN)], "job 7 could not start"),
        ([(10, HELD), (310, HELD), (1000, HELD)], None), ([(10, HELD), (1001, HELD)], "did not start within"),
        ([(10, HELD), (309, NODE_DOWN), (310, NODE_DOWN), (608, NODE_DOWN)], None),
        ([(10, HELD), (309, NODE_DOWN), (609, NODE_DOWN)], "job 7 could not start"),
        ([(10, NODE_DOWN), (310, WAITS)], None), ([(10, NODE_DOWN), (310, HELD)], None),
        ([(10, replace(NODE_DOWN, dead=True))], "can never run (node down)"),
    ],
)  # fmt: skip
def test_when_a_job_is_given_up(seen: Sequence[tuple[float, Any]], why: str | None, tmp_path: Path) -> None:
    world = World(tmp_path)
    token = world.add("a", "7")
    other = world.add("b")  # not yet submitted: its end is none of a job
    world.state.attempts[other].ended = ""
    world.state._open.pop(other)
    for now, one in seen:
        assert world.state.attempts[token].ended is None
        world.now, world.seen = float(now), {} if one == "missing" else {"7": one}
        world.runner._watch()
    ended = world.state.attempts[token].ended
    assert (ended or "").startswith(why or "") and (ended is None) == (why is None), ended
    over = why is None or "never began" in why or "left no file" in why
    assert world.cancelled == ([] if over else ["7"])


def test_a_job_that_claimed_its_place_left_no_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    token = world.add("a", "7")
    (world.runner.spool / f"{token}.claim").mkdir(parents=True)
    for world.now in (0.0, 40.0):
        world.seen = {"7": GONE}
        world.runner._watch()
    assert world.state.attempts[token].ended == "job 7 left no file (exit 1)"


def test_what_a_scheduler_refuses_is_kept_until_it_accepts_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.runner._watch()
    assert world.asked == [], "nothing is in its queue"
    world.add("a", "7")
    world.add("b")
    world.seen = Refused("busy")
    world.runner._watch()
    assert world.runner.refused == "busy" and world.asked == [["7"]]
    world.seen, world.runner.next_submission = {"7": WAITS}, 5.0
    for world.now, refused in ((4.0, "busy"), (5.0, "")):
        world.runner._watch()
        assert world.runner.refused == refused


@pytest.mark.parametrize(
    ("at", "ends"), [((0, 1000), False), ((0, 1001), True), ((500, 0, 1001), True), ((500, 0, 1000), False)]
)
def test_a_campaign_ends_after_a_day_of_refusals(at: tuple[float, ...], ends: bool, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.runner.refused = "down"
    for world.now in at[:-1]:
        world.runner._give_up_on_scheduler()
    world.now = at[-1]
    if ends:
        with pytest.raises(CampaignError, match=r"has refused everything for 0\.277778 h: down"):
            world.runner._give_up_on_scheduler()
    world.runner.refused = ""
    world.runner._give_up_on_scheduler()
    assert world.runner.refused_since is None


@pytest.mark.parametrize(
    ("phases", "chosen"),
    [([], False), ([{}], True), ([{"void": True}], False), ([{"void": True}, {}], True), ([{"void": True}] * 2, True)],
)
def test_suspects_are_chosen_once_and_once_more_after_a_void_one(
    phases: list[Any], chosen: bool, tmp_path: Path
) -> None:
    world = World(tmp_path)
    world.state.phases = phases
    assert world.runner._chosen() is chosen and world.runner._over() is False
    for node in CAMPAIGN.nodes:
        world.done(node, 50.0)
    assert world.runner._over() is chosen
    world.add("a", "7")
    assert world.runner._over() is False


@pytest.mark.parametrize(
    ("tries", "may"),
    [
        ([], True), (["killed"], True), (["killed"] * 2, False), (["killed", runner.NEVER_QUEUED], True),
        ([runner.NEVER_QUEUED] * 3, True), (["open"], False), (["done"], False), (["done", "killed"], False),
    ],
)  # fmt: skip
def test_a_unit_is_tried_twice(tries: list[str], may: bool, tmp_path: Path) -> None:
    world = World(tmp_path)
    for one in tries:
        if one == "done":
            world.done("a", 1.0)
        else:
            world.add("a", "7", **({} if one == "open" else {"why": one}))
    assert (Unit("a") in world.runner.to_do()) is may


@pytest.mark.parametrize(("budget", "units"), [(None, 2), (250.0, 1), (200.0, 1), (199.0, 0), (300.0, 2), (299.0, 1)])
def test_a_budget_covers_what_ran_and_all_that_flies(budget: float | None, units: int, tmp_path: Path) -> None:
    """100 s are spent by a gathered run of 50 s, and a job in flight that may take 50 s more than that."""
    hours = None if budget is None else (budget - 50.0) / 3600
    world = World(tmp_path, replace(CAMPAIGN, budget_node_hours=hours, concurrency=3))
    world.done("a", 50.0)
    sent: list[Unit] = []
    world.runner._sent = lambda unit, together: not sent.append(unit)  # type: ignore[method-assign,func-returns-value]
    world.runner._submit(world.runner.to_do())
    assert len(sent) == units and (len(world.runner.to_do()) == 2) == (budget is None or budget >= 200)


@pytest.mark.parametrize(
    ("flying", "next_in", "sent"),
    [
        ([], 0.0, 2),
        (["a"], 0.0, 1),
        (["x"], 0.0, 1),
        (["x", "y"], 0.0, 0),
        ([], 1.0, 0),
        ([], 30.0, 0),
        ([], 31.0, 2),
        ([], -1.0, 2),
    ],
)
def test_two_jobs_at_once_and_one_on_a_node(flying: list[str], next_in: float, sent: int, tmp_path: Path) -> None:
    """31 s: the clock was set back."""
    world = World(tmp_path, replace(CAMPAIGN, concurrency=2))
    for node in flying:
        world.add(node, "7")
    world.runner.next_submission = next_in
    got: list[Unit] = []
    world.runner._sent = lambda unit, together: not got.append(unit)  # type: ignore[method-assign,func-returns-value]
    world.runner._submit([Unit("a"), Unit("a", "round", 2), Unit("b"), Unit("c")])
    assert len(got) == sent and len({unit.node for unit in got} | {*flying}) == sent + len(flying)


@pytest.mark.parametrize(
    ("most", "before", "units", "says"),
    [
        (None, [], ["n0", "n1", "n2"], False), (3, [], ["n0", "n1", "n2"], False), (2, [], ["n0", "n1"], True),
        (2, ["n0"], ["n0", "n1"], True), (2, ["x"], ["n0"], True), (1, ["x", "y"], [], True),
    ],
)  # fmt: skip
def test_no_more_suspects_than_permitted(
    most: int | None, before: list[str], units: list[str], says: bool, tmp_path: Path
) -> None:
    one = replace(CAMPAIGN, max_retested=most, retest_runs=2, retest_suspect_checks=True)
    world = World(tmp_path, one, Chosen({"n0": ("A", "B"), "n1": (), "n2": ("B",)}, void=True))
    world.state.retests = [Unit(node, "retest", 1) for node in before]
    world.runner._choose_retests()
    phase = world.state.phases[-1]
    after = {node: 1 for node in before}
    assert phase["units"] == [Unit(n, "retest", after.get(n, 0) + run).id for run in (1, 2) for n in units]
    assert phase.get("void", False) == bool(units) and any("is not homogeneous" in line for line in world.said) == says
    only = {unit: ["A", "B"] if "n0" in unit else ["B"] for unit in phase["units"] if "n1" not in unit}
    assert phase.get("only", {}) == only


@pytest.mark.parametrize(("count", "told"), [(1, "n0 (2 runs)"), (8, "n6, n7 (16 runs)"), (9, "n6, n7 ... (18 runs)")])
def test_eight_suspects_are_named(count: int, told: str, tmp_path: Path) -> None:
    one = replace(CAMPAIGN, retest_runs=2)
    world = World(tmp_path, one, Chosen({f"n{n}": () for n in range(count)}))
    world.runner._choose_retests()
    assert world.said[-1].endswith(told) and "void" not in world.state.phases[-1]
    world = World(tmp_path, one, Chosen({}, void=True))
    world.runner._choose_retests()
    assert world.said == [] and "void" not in world.state.phases[-1]


@pytest.mark.parametrize(
    ("done", "open_", "blocked", "said"),
    [
        ([], [], [], "0 of 3 node runs done, 0 in the queue or running, 3 to submit; 0.0 node hours"),
        ([720.0], ["b"], [],
         "1 of 3 node runs done, 1 in the queue or running, 1 to submit; 0.2 node hours; about 24 min left"),
        ([720.0], ["b", "c"], [],
         "1 of 3 node runs done, 2 in the queue or running, 0 to submit; 0.3 node hours; about 12 min left"),
        ([720.0], ["b", "c"], ["b"], "; 1 cannot start: b (down); about 12 min left"),
        ([720.0], ["b", "c"], ["b", "c"], "; 2 cannot start: b (down), c (down); about 100 min left"),
        ([], ["b"], ["b"], "; 1 cannot start: b (down)"),
    ],
)  # fmt: skip
def test_what_a_campaign_says_of_the_rest(
    done: list[float], open_: list[str], blocked: list[str], said: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    for node, seconds in zip("a", done, strict=False):
        world.done(node, seconds)
    for node in open_:
        token = world.add(node, "7")
        if node in blocked:
            world.runner.blocked[token] = (6000.0 if len(blocked) == 2 else 60.0, "down")
    assert world.runner.line().endswith(said), world.runner.line()
    world.runner.refused = "busy"
    assert world.runner.line().endswith(said + "; the scheduler: busy")


def test_attempts_without_a_result_are_counted_and_four_that_wait_are_named(tmp_path: Path) -> None:
    world = World(tmp_path, replace(CAMPAIGN, nodes=tuple("abcdefg")))
    world.add("a", why="killed")
    world.add("b", why=runner.NEVER_QUEUED)
    for node in "cdef":
        world.runner.blocked[world.add(node, "7")] = (0.0, "down")
    assert (
        "; 1 attempts without a result; 4 cannot start: c (down), d (down), e (down), f (down)" in world.runner.line()
    )
    assert "..." not in world.runner.line()
    world.runner.blocked[world.add("g", "7")] = (0.0, "down")
    assert "5 cannot start: c (down), d (down), e (down), f (down) ..." in world.runner.line()


@pytest.mark.parametrize(("seconds", "text"), [(119.0, "119 s"), (120.0, "2 min"), (300.0, "5 min")])
def test_seconds_become_minutes_at_two(seconds: float, text: str) -> None:
    assert runner.spelled(seconds) == text


@pytest.mark.parametrize(
    ("passed", "lines"), [([0.0, 7.9], 1), ([0.0, 8.0], 2), ([100.0, 99.0], 2), ([0.0, 7.9, 8.0, 15.9, 16.0], 3)]
)
def test_a_line_every_eight_seconds(passed: list[float], lines: int, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.runner.said_at = -1000.0
    for world.now in passed:
        world.runner._progress()
    assert len(world.said) == lines
    world.runner._progress(last=True)
    assert len(world.said) == lines + 1


@pytest.mark.parametrize(
    ("nodes", "concurrency", "queued", "together", "why"),
    [
        (3, 5, None, 3, "all nodes"), (3, 3, None, 3, "'concurrency' of the file"),
        (3, 2, None, 2, "'concurrency' of the file"),
        (3, 3, 3, 3, "'concurrency' of the file"), (3, 3, 2, 2, "MaxJobs"), (3, 5, 0, 1, "MaxJobs"),
    ],
)  # fmt: skip
def test_jobs_at_once_and_the_limit_that_counts(
    nodes: int, concurrency: int, queued: int | None, together: int, why: str
) -> None:
    one = replace(CAMPAIGN, nodes=tuple("abc")[:nodes], concurrency=concurrency)
    assert plan.at_once(one, Limits(queued, "MaxJobs")) == (together, why)
