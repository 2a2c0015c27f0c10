"""The state machine that follows jobs, with a simulated clock; and the interpretation of each scheduler's words."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tenken.machines.model import Patience
from tenken.reframe import joblines
from tenken.reframe.schedulers import gridengine, lost, nqsv, pbs, polling, reasons, remote, slurm
from tenken.reframe.schedulers.batch import last_queue
from tenken.reframe.schedulers.command import CommandError
from tenken.reframe.schedulers.polling import Follower, Patient, PatientJob, Seen, Waiting, shape

END = "TENKEN-NODES n1,n2\nTENKEN-END status=0 nodes=n1,n2\n"
PATIENCE = Patience(pending=100, blocked=20, silence=50, output=30, submission=10, cancel=15)


class World:
    """One job, a clock, and the jobs that were cancelled."""

    def __init__(self, folder):
        self.now = 1000.0
        self.cancelled = []
        self.job = PatientJob("probe", workdir=str(folder), script_filename="job.sh", stdout="out", stderr="err")
        self.job._jobid = "7"
        self.job._submit_time = self.now
        self.output = folder / "out"
        self.follower = Follower(PATIENCE, self.cancel, lambda: self.now)

    def cancel(self, job):
        job.cancelled = True
        self.cancelled.append(job)

    def hear(self, *seen, after=1.0):
        """One answer after some seconds; empty: the job is not listed, None: no answer."""
        self.now += after
        self.follower.update([self.job], {"7": seen[0]} if seen else {})
        return self.job


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


RUNNING = Seen("RUNNING")
DONE = Seen("COMPLETED", ended=True, exit_code=0)
TAKEN_OUT = Seen("CANCELLED", ended=True, killed=True)


def test_a_job_is_complete_once_its_end_mark_is_there(world):
    world.hear(Seen("QUEUED", pending=True))
    world.hear(RUNNING)
    assert not world.hear(DONE).completed
    world.output.write_text(END)
    assert world.hear(DONE).completed
    assert (world.job.nodelist, world.job.exitcode, world.job.state) == (["n1", "n2"], 0, "COMPLETED")


@pytest.mark.parametrize(("seen", "noted"), [
        ([slurm.seen("SUSPENDED", None, "n1", "")], True),
        ([slurm.seen("STOPPED", None, "n1", "")], True),
        ([slurm.seen("RUNNING", None, "n1", "")], False),
        ([pbs.seen({"job_state": "S"})], True),
        ([gridengine.seen("S")], True),
        ([gridengine.seen("r")], False),
        ([RUNNING, nqsv.requests("1.n a u q 0 SUS -")["1.n"]], True),
    # before it began it cannot be suspended
        ([nqsv.requests("1.n a u q 0 SUS -")["1.n"]], False),
        ([nqsv.requests("1.n a u q 0 HLD -")["1.n"]], False),
])  # fmt: skip
def test_a_job_that_is_suspended_in_mid_run_is_noted(world, seen, noted):
    for one in [*seen, RUNNING]:
        world.hear(one)
    assert world.job.scheduler_facts.get("suspended", False) is noted


def test_output_of_a_killed_job_is_taken_once_it_has_settled(world):
    killed = Seen("TIMEOUT", ended=True, killed=True, nodes=("n1",))
    world.job.token = "t"
    world.output.write_text("TENKEN-NODES n1\n")
    assert not world.hear(killed).completed
    world.output.write_text("TENKEN-NODES n1\nmore\n")
    assert not world.hear(killed, after=2.0).completed
    assert not world.hear(killed, after=2.0).completed
    assert world.hear(killed, after=2.0).completed


def test_a_build_prints_no_marks_and_is_taken_once_it_has_settled(world):
    world.output.write_text("compiled")
    assert not world.hear(DONE).completed
    assert world.hear(DONE, after=4.0).completed


def test_the_second_half_of_an_output_is_waited_for(world):
    """Exit_status 0 and the first half, the rest 12 s later: seen on OpenPBS."""
    world.job.token = "t"
    first = "TENKEN-BEGIN token=t node=n1 time=1\nTENKEN-NODES n1\n"
    world.output.write_text(first)
    world.hear(DONE)
    assert not world.hear(DONE, after=12.0).completed
    world.output.write_text(first + "TENKEN-END token=t status=0 nodes=n1 node=n1 time=2\n")
    assert world.hear(DONE).completed
    assert (world.job.nodelist, world.job.exitcode) == (["n1"], 0)


def test_an_end_mark_of_another_attempt_ends_no_wait(world):
    world.job.token = "t"
    world.output.write_text("TENKEN-END token=old status=0 nodes=n1 node=n1 time=2\n")
    world.hear(DONE)
    assert not world.hear(DONE, after=20.0).completed


def test_output_that_never_comes_is_not_waited_for_without_end(world):
    assert not world.hear(DONE).completed
    assert not world.hear(after=29.0).completed
    assert world.hear(after=2.0).completed
    assert (world.output.parent / "err").exists()


def test_a_job_that_is_missing_in_one_answer_is_not_lost(world):
    world.hear(RUNNING)
    assert world.hear().state == "COMPLETED (no longer listed)"
    assert world.hear(RUNNING).state == "RUNNING"
    assert not world.hear(RUNNING, after=100.0).completed


def test_a_job_between_two_runs_has_not_ended(world):
    world.job.token = "t"
    world.hear(RUNNING)
    world.hear(Seen("FAILED", ended=True, exit_code=1))
    world.hear(Seen("PENDING", pending=True))
    assert not world.hear(RUNNING, after=99.0).completed
    world.output.write_text("TENKEN-BEGIN token=t node=n1 time=1\nTENKEN-END token=t status=0 nodes=n1 time=2\n")
    assert world.hear(DONE).completed
    assert (world.job.exitcode, world.job.state) == (0, "COMPLETED")


def test_silence_is_borne_and_then_ends_the_job_alone(world):
    world.hear(RUNNING)
    assert not world.hear(None, after=49.0).completed
    assert not world.hear(None, after=2.0).completed
    assert world.cancelled == [world.job]
    assert not world.hear(TAKEN_OUT).completed
    assert world.hear(TAKEN_OUT, after=31.0).completed
    assert world.job.state == "CANCELLED (no answer from the scheduler for 00:00:51; last state RUNNING)"


def test_a_job_that_ended_in_silence_is_told_by_its_own_mark(world):
    world.job.token = "t"
    world.hear(RUNNING)
    world.output.write_text("TENKEN-BEGIN token=t node=n1 time=1\nTENKEN-END token=t status=0 nodes=n1 time=2\n")
    assert world.hear(None, after=51.0).completed
    assert world.job.state.startswith("COMPLETED (by its own end mark; no answer from the scheduler for 00:00:51")
    assert world.cancelled == []


def test_a_cancellation_that_fails_is_tried_again_and_then_told(world):
    def cancel(job):
        world.cancelled.append(world.now)
        return "qdel ended with 111: cannot connect"

    world.follower.cancel = cancel
    held = Seen("HELD", pending=True, waiting=Waiting.NEVER, why="no")
    for _ in range(15):
        assert not world.hear(held).completed
    assert len(world.cancelled) >= 3
    assert world.hear(held).completed
    assert world.job.state == (
        "CANCELLED (cannot run: no; not confirmed, job 7 may still exist: qdel ended with 111: cannot connect)"
    )


def test_a_cancellation_counts_once_the_scheduler_confirms_it(world):
    never = Seen("PENDING", pending=True, waiting=Waiting.NEVER, why="BadConstraints")
    assert not world.hear(never).completed
    assert world.cancelled == [world.job]
    # no output is expected of a job that never ran
    assert world.hear(TAKEN_OUT).completed
    assert world.job.state == "CANCELLED (cannot run: BadConstraints)"


def test_a_job_that_ends_while_it_is_being_cancelled_is_judged_by_its_output(world):
    world.job.token = "t"
    world.hear(RUNNING)
    world.hear(None, after=51.0)
    world.output.write_text("TENKEN-BEGIN token=t node=n1 time=1\nTENKEN-END token=t status=0 nodes=n1 time=2\n")
    assert world.hear(DONE).completed
    assert world.job.exitcode == 0


def test_a_blocked_job_is_taken_out_sooner_than_one_that_waits(world):
    blocked = Seen("PENDING", pending=True, waiting=Waiting.MENDED, why="PartitionDown")
    world.hear(blocked)
    assert not world.hear(blocked, after=19.0).cancelled
    world.hear(blocked, after=2.0)
    assert world.cancelled == [world.job]
    assert world.hear(TAKEN_OUT).state == "CANCELLED (blocked in the queue: PartitionDown)"


def test_a_job_that_is_blocked_for_a_moment_goes_on(world):
    blocked, free = Seen("PENDING", pending=True, waiting=Waiting.MENDED), Seen("PENDING", pending=True)
    world.hear(blocked)
    world.hear(free, after=15.0)
    assert not world.hear(blocked, after=15.0).giving_up


def test_the_queue_is_left_at_the_limit_of_the_partition_or_of_the_check(world):
    waiting = Seen("PENDING", pending=True, why="Resources")
    assert not world.hear(waiting, after=99.0).giving_up
    world.hear(waiting, after=2.0)
    assert world.hear().completed
    assert world.job.state == "CANCELLED (still in the queue after 00:01:41: Resources)"


def test_a_cancelled_job_says_so_whatever_its_scheduler_says(world):
    world.job.cancelled = True
    world.output.write_text("TENKEN-NODES n1\n")
    assert world.hear(DONE).state == "CANCELLED (COMPLETED)"


def test_an_exit_code_that_comes_after_the_end_is_kept(world):
    world.hear(Seen("COMPLETED", ended=True))
    world.hear(Seen("COMPLETED", ended=True, exit_code=3))
    assert world.job.exitcode == 3


@pytest.mark.parametrize(
    ("tasks", "each", "expected"), [(10, 4, [(2, 4), (1, 2)]), (8, 4, [(2, 4)]), (1, 1, [(1, 1)]), (3, 4, [(1, 3)])]
)
def test_the_nodes_of_a_job_add_up(world, tasks, each, expected):
    world.job.num_tasks, world.job.num_tasks_per_node = tasks, each
    assert shape(world.job) == expected


def test_the_last_queue_counts():
    assert last_queue(["-q a", "-W x", "-q b"]) == ["-W x", "-q b"]


# -- words of schedulers --


@pytest.mark.parametrize(("info", "expected"), [
        ({"job_state": "R", "exec_host": "n1/0*4+n2/0*4"}, Seen("RUNNING", nodes=("n1", "n2"))),
        ({"job_state": "F"}, Seen("COMPLETED", ended=True)),
        ({"job_state": "F", "Exit_status": 3}, Seen("COMPLETED", ended=True, exit_code=3)),
    ({"job_state": "F", "Exit_status": "271"},
        Seen("CANCELLED (deleted or killed, Exit_status 271)", True, killed=True, exit_code=271)),
    ({"job_state": "F", "Exit_status": 0, "substate": 91, "comment": "terminated by u"},
        Seen("CANCELLED (deleted or killed, Exit_status 0: terminated by u)", True, killed=True, exit_code=0)),
    ({"job_state": "F", "Exit_status": -29},
        Seen("TIMEOUT (by PBS, Exit_status -29)", True, killed=True, exit_code=-29)),
    ({"job_state": "F", "Exit_status": -28},
        Seen("CANCELLED (by PBS, Exit_status -28)", True, killed=True, exit_code=-28)),
        ({"job_state": "X"}, Seen("COMPLETED", ended=True)),
    ({"job_state": "Q", "comment": "Can Never Run: no"},
        Seen("QUEUED", False, True, Waiting.NEVER, why="Can Never Run: no")),
        ({"job_state": "M"}, Seen("MOVED", pending=True, why="state M")),
        ({"job_state": "U"}, Seen("SUSPENDED", suspended=True)),
        ({"job_state": "y"}, Seen("UNKNOWN (state 'y')")),
        ({}, Seen("UNKNOWN (state '')")),
])  # fmt: skip
def test_pbs_words(info, expected):
    assert pbs.seen(info) == expected


def test_pbs_knows_which_nodes_work_and_which_are_idle():
    busy = pbs.PbsNode("n1", {"state": "job-busy", "resources_available": {"Qlist": "a,b"}})
    down = pbs.PbsNode("n2", {"state": "down,offline"})
    assert (busy.queues, down.queues) == ({"a", "b"}, set())
    assert down.in_state("offline") and not down.in_statex("offline")
    assert pbs.PbsNode("n3", {"state": "free"}).in_statex("idle")


def test_nqsv_words():
    header = "RequestID ReqName UserName Queue Pri STT S Memory\n--------- ---\n"
    table = header + "12.nqsv a u gen_S 0 RUN - 0\n13.nqsv a u q 0 HLD -"
    found = nqsv.requests(table)
    assert found["12.nqsv"].state == "RUN" and not found["12.nqsv"].pending
    assert found["13.nqsv"].waiting is Waiting.MENDED
    assert nqsv.requests("") == {}


def test_slurm_words():
    table = (
        "1|RUNNING|0|nid1|gpu|0|None|\n2|PENDING|0||gpu|0|PartitionDown|\n3|FAILED|768||gpu|1|NonZeroExitCode|\n"
        "4|TIMEOUT|0||gpu|0|TimeLimit|\n5|PREEMPTED|0||gpu|0|None|\n"
    )
    found = slurm.listed(table)
    assert found["2"].waiting is Waiting.MENDED and found["2"].why == "PartitionDown"
    assert (found["3"].ended, found["3"].exit_code, found["3"].facts["run_count"]) == (True, 3, 2)
    # Slurm reports 0 for a job that it ended
    assert (found["4"].ended, found["4"].exit_code, found["4"].killed) == (True, None, True)
    assert found["5"].ended and found["5"].exit_code is None
    old = slurm.accounted("7|CANCELLED by 1000|0:0|None assigned\n8|COMPLETED|0:0|\n")
    assert (old["7"].state, old["7"].exit_code, old["8"].exit_code) == ("CANCELLED", None, 0)


# -- a controller that was killed has lost its last messages --

FORGOTTEN = Seen("UNKNOWN", forgotten=True)
BEGUN = "TENKEN-BEGIN token=t node=n1 time={} job=7\nTENKEN-NODES n1\n"
ENDED = "TENKEN-END token=t status=0 nodes=n1 node=n1 time=1010\n"


def told(world, text):
    world.job.token = "t"
    world.output.write_text(text)


@pytest.mark.parametrize("end", [
        Seen("CANCELLED", ended=True, killed=True, began=1015.0),
        Seen("FAILED", ended=True, exit_code=1, began=1015.0),
        Seen("CANCELLED", ended=True, killed=True, began=float("inf")),
], ids=lambda end: f"{end.state} {end.began}")  # fmt: skip
def test_a_job_that_ended_while_its_controller_was_away_is_whole_whatever_it_is_called(world, end):
    """Recorded: considered pending after the restart, refused by the node as a second copy, cancelled."""
    told(world, BEGUN.format(1001) + ENDED)
    world.hear(Seen("PENDING", pending=True))
    world.hear(end)
    assert world.job.completed and world.job.exitcode == 0
    assert world.job.state.startswith("COMPLETED (by its own end mark; the scheduler had lost the job")


@pytest.mark.parametrize("began", [1002.0, None])
def test_a_job_that_was_cancelled_in_its_own_run_is_not(world, began):
    told(world, BEGUN.format(1001) + ENDED)
    world.hear(Seen("CANCELLED", ended=True, killed=True, began=began))
    assert world.job.completed and world.job.state == "CANCELLED"
    assert "lost" not in world.job.scheduler_facts


@pytest.mark.parametrize(("began", "said"), [(1015.0, "at 00:16:55Z"), (float("inf"), "never")])
def test_a_job_that_was_cut_off_by_a_start_that_never_ran_is_told_as_lost(world, began, said):
    """Recorded: FAILED, exit code 1, since its credential was revoked with the first copy."""
    told(world, BEGUN.format(1001))
    world.hear(Seen("FAILED", ended=True, exit_code=1, began=began))
    world.hear(DONE, after=31.0)
    assert world.job.completed
    assert world.job.scheduler_facts["lost"] == f"it began at 00:16:41Z, according to the scheduler {said}"


def test_a_forgotten_job_counts_by_its_end_mark(world):
    told(world, BEGUN.format(1001))
    assert not world.hear(FORGOTTEN).completed
    told(world, BEGUN.format(1001) + ENDED)
    assert world.hear(FORGOTTEN).completed
    assert (world.job.exitcode, world.job.state[:33]) == (0, "COMPLETED (by its own end mark; t")


def test_a_forgotten_job_that_began_and_did_not_end_is_lost_and_never_cancelled_by_number(world):
    told(world, BEGUN.format(1001))
    world.hear(FORGOTTEN)
    assert not world.hear(FORGOTTEN, after=29.0).completed
    assert world.hear(FORGOTTEN, after=2.0).completed
    assert world.job.scheduler_facts["lost"] == "the scheduler no longer knows the job"
    assert world.cancelled == []


def test_a_forgotten_job_that_never_began_is_lost_and_so_is_one_that_gets_its_number(world):
    told(world, "")
    world.hear(FORGOTTEN)
    assert world.hear(FORGOTTEN, after=31.0).scheduler_facts["lost"].endswith("which had not started")
    again = of_number_7(world, world.follower)
    world.hear(REFUSED)
    assert world.hear(REFUSED, after=31.0).completed
    assert again.scheduler_facts["lost"] == "its number 7 belonged to a job that it lost earlier"


#: Recorded: a node that still has the number refuses the credential of the job that has it now.
REFUSED = Seen("FAILED", ended=True, exit_code=1, nodes=("n1",), began=1015.0)


def of_number_7(world, follower):
    """A new job of the simulation, which the scheduler gave the number 7."""
    world.follower = follower
    world.job = PatientJob("probe", workdir=world.job.workdir, script_filename="job.sh", stdout="out2", stderr="err2")
    world.job._jobid, world.job._submit_time, world.job.token = "7", world.now, "u"
    world.output = world.output.with_name("out2")
    return world.job


def session(world, folder=None, given_before=None, possible=True, refused=lambda job: None):
    """A follower of a session with the archive in `folder`, and the jobs that it resubmitted."""
    anew = []

    def submit(job, why):
        if possible:
            job.forget(why)
            job._jobid, job._submit_time = "7" if anew else "8", world.now
            anew.append(why)
        return possible

    found = Follower(
        PATIENCE, world.cancel, lambda: world.now, lost.Numbers(folder), given_before or (lambda job: None), submit,
        refused=refused,
    )  # fmt: skip
    return found, anew


def test_a_job_that_gets_a_number_lost_by_an_earlier_session_is_submitted_once_more(world, tmp_path):
    """Two sessions at once know the same numbers; a third begins when both are gone."""
    other = lost.Numbers(tmp_path / "lost")
    told(world, "")
    world.follower, anew = session(world, tmp_path / "lost", possible=False)
    world.hear(FORGOTTEN)
    assert world.hear(FORGOTTEN, after=31.0).completed and "7" in other and "8" not in other
    follower, anew = session(world, tmp_path / "lost")
    job = of_number_7(world, follower)
    world.hear(REFUSED)
    assert not world.hear(REFUSED, after=29.0).anew  # its output may appear late
    assert not world.hear(REFUSED, after=2.0).completed
    assert (job.jobid, anew) == ("8", ["its number 7 belonged to a job that it lost earlier"])
    world.now += 1
    world.follower.update([job], {"8": RUNNING})
    world.output.write_text(END.replace("END status", "END token=u status"))
    world.follower.update([job], {"8": DONE})
    assert (job.completed, job.state, job.exitcode) == (True, "COMPLETED", 0)
    assert job.scheduler_facts == {"submitted_again": f"its first number was 7: {anew[0]}"}


@pytest.mark.parametrize(("shows", "state", "lost"), [
        ({"given_before": lambda job: f"accounting has 2 jobs with its number {job.jobid}"},
         "FAILED", "accounting has 2 jobs with its number 8"),
    # accounting may never have heard of the job whose number it got; a node that refuses again is at fault
        ({"refused": lambda job: "its node refused to start it"}, "FAILED (its node refused to start it)", None),
])  # fmt: skip
def test_a_job_is_submitted_once_more_only_once(world, shows, state, lost):
    world.follower, anew = session(world, **shows)
    told(world, "")
    world.hear(REFUSED)
    assert world.hear(REFUSED, after=31.0).jobid == "8"
    for after in (1.0, 31.0):
        world.now += after
        world.follower.update([world.job], {"8": REFUSED})
    assert world.job.completed and len(anew) == 1
    assert (world.job.state, world.job.scheduler_facts.get("lost")) == (state, lost)


def test_a_build_that_fails_at_once_was_not_refused(world):
    """It has no marks, and its compiler's message is in the other file."""
    world.follower, anew = session(world, refused=lambda job: "its node refused to start it")
    told(world, "")
    world.job.token = None
    Path(world.job.workdir, world.job.stderr).write_text("cmake: command not found")
    world.hear(REFUSED)
    assert world.hear(REFUSED, after=31.0).completed
    assert (anew, world.job.state) == ([], "FAILED")


@pytest.mark.parametrize("number", ["7", "9"])
def test_a_job_that_was_lost_before_it_began_is_submitted_once_more_and_one_that_began_is_not(world, number):
    world.follower, anew = session(world)
    world.job._jobid = number
    told(world, BEGUN.format(1001) if number == "9" else "")
    for after in (1.0, 31.0):
        world.now += after
        world.follower.update([world.job], {number: FORGOTTEN})
    assert len(anew) == (number == "7") and world.job.completed == (number == "9")


@pytest.mark.parametrize(("end", "output", "known"), [
    # nothing shows that its number was another job's, so its node is at fault
        (REFUSED, "", None),
    # it began
        (REFUSED, BEGUN.format(1001), "two of number 7"),
    # its output is lost
        (DONE, "", "two of number 7"),
])  # fmt: skip
def test_no_other_job_is_submitted_once_more(world, end, output, known):
    world.follower, anew = session(world, given_before=lambda job: known)
    told(world, output)
    world.hear(end)
    assert world.hear(end, after=31.0).completed
    assert (anew, "submitted_again" in world.job.scheduler_facts) == ([], False)


def test_a_cancelled_job_with_a_number_that_was_lost_is_not_submitted_once_more(world):
    world.follower, anew = session(world)
    world.follower.lost.add("7")
    told(world, "")
    world.job.cancelled = True
    world.hear(TAKEN_OUT)
    assert world.hear(TAKEN_OUT, after=31.0).completed and anew == []


def test_a_number_that_cannot_be_written_is_known_to_its_session(world, tmp_path):
    (tmp_path / "lost").write_text("in the way")
    numbers = lost.Numbers(tmp_path / "lost")
    numbers.add("7")
    assert "7" in numbers and "8" not in numbers and "7" not in lost.Numbers(tmp_path / "lost")


@pytest.mark.parametrize(("table", "facts", "known"), [
    # recorded: the lost job is called `allocation`, by a database that received only its start
        ("7|2026-11-22T18:33:35\n7|2026-11-22T18:33:38\n", {}, "accounting has 2 jobs with its number 7"),
        ("7|2026-11-22T18:33:35\n", {}, None),
        ("7|2026-11-22T18:33:35\n71|2026-11-22T18:33:38\n", {}, None),
        ("7|2026-11-22T18:33:35\n7|2026-11-22T18:33:38\n", {"run_count": 2}, None),
        (CommandError("x", "accounting storage is disabled"), {}, None),
])  # fmt: skip
def test_slurm_s_accounting_shows_a_number_that_was_given_twice(world, table, facts, known, monkeypatch):
    monkeypatch.setattr(slurm, "run", lambda words, timeout: answered(table))
    world.job.scheduler_facts.update(facts)
    assert Answering("", "").given_before(world.job) == known


AT_ONCE = "2026-11-22T18:33:35|2026-11-22T18:33:35|\n"


@pytest.mark.parametrize(("code", "squeue", "sacct", "refused"), [
    # recorded: "Killing non-startable batch JobId=3: Job credential revoked"
        (1, AT_ONCE, None, True),
        (1, "", AT_ONCE, True),
        (1, CommandError("x", "Invalid job id specified"), "2026-11-22T18:33:35|2026-11-22T18:33:36\n", True),
        (1, "2026-11-22T18:33:35|2026-11-22T18:33:37|\n", None, False),
        (1, "N/A|N/A|\n", None, False),
        (2, AT_ONCE, None, False),
        (1, CommandError("x", "timed out"), CommandError("x", "timed out"), False),
])  # fmt: skip
def test_slurm_shows_that_a_node_refused_a_job(world, code, squeue, sacct, refused, monkeypatch):
    monkeypatch.setattr(slurm, "run", lambda words, timeout: answered({"squeue": squeue, "sacct": sacct}[words[0]]))
    world.job._exitcode = code
    assert Answering("", "").refused(world.job) == ("its node refused to start it" if refused else None)


def answered(text):
    if isinstance(text, Exception):
        raise text
    return text


class Answering(slurm.Slurm):
    """Slurm's back end with the answers of its commands."""

    def __init__(self, squeue, sacct):
        self.timeout = 1
        self.answers = {"squeue": squeue, "sacct": sacct}

    def log(self, *words):
        """Nobody listens."""


@pytest.mark.parametrize(
    ("squeue", "sacct", "expected"),
    [
        ("7|RUNNING|0|n1|gpu|0|None|2026-01-01T00:00:00|rfm_A|tenken/none/t", "", "RUNNING"),
        ("7|RUNNING|0|n1|gpu|0|None|2026-01-01T00:00:00|rfm_A|the site's", "", "RUNNING"),
        ("7|RUNNING|0|n1|gpu|0|None|2026-01-01T00:00:00|rfm_A|tenken/none/of-another", "", "forgotten"),
        ("7|COMPLETED|0|n1|gpu|0|None|2026-01-01T00:00:00|train|me|||", "", "forgotten"),
        # forgotten or purged: accounting decides
        (CommandError("x", "Invalid job id specified"), "", "forgotten"),
        (CommandError("x", "Invalid job id specified"), "7|RUNNING|0:0|n1|2026-01-01T00:00:00|rfm_A", "forgotten"),
        (CommandError("x", "Invalid job id specified"), "7|COMPLETED|0:0|n1|2026-01-01T00:00:00|train", "forgotten"),
        (CommandError("x", "Invalid job id specified"), "7|PENDING|0:0|None assigned|Unknown|rfm_A", "forgotten"),
        (CommandError("x", "Invalid job id specified"), "7|REQUEUE_HOLD|1:0|n1|2026-01-01T00:00:00|rfm_A", "forgotten"),
        (CommandError("x", "Invalid job id specified"), "7|NODE_FAIL|1:0|n1|2026-01-01T00:00:00|rfm_A", "NODE_FAIL"),
        ("", "7|FAILED|1:0|n1|2026-01-01T00:00:00|rfm_A", "FAILED"),
        ("", "7|CANCELLED|0:0|n1|2026-01-01T00:00:00|rfm_A", "forgotten"),
        ("", "7|CANCELLED by 1000|0:0|n1|2026-01-01T00:00:00|rfm_A", "CANCELLED"),
        ("", CommandError("x", "accounting storage is disabled"), "not listed"),
        (CommandError("x", "Unable to contact"), "7|RUNNING|0:0|n1|2026-01-01T00:00:00|rfm_A", "RUNNING"),
        (CommandError("x", "Unable to contact"), CommandError("x", "Connection refused"), None),
    ],
)  # fmt: skip
def test_slurm_a_number_alone_is_no_job(squeue, sacct, expected, monkeypatch):
    back_end = Answering(squeue, sacct)

    def run(words, timeout):
        answer = back_end.answers[words[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(slurm, "run", run)
    monkeypatch.delenv("TENKEN_SESSION", raising=False)
    job = PatientJob("rfm_A", workdir="/", script_filename="job.sh", stdout="out", stderr="err")
    job._jobid, job.token = "7", "t"
    found = back_end.ask([job])
    if expected == "not listed":
        assert found == {}
    else:
        said = found["7"]
        assert (said and ("forgotten" if said.forgotten else said.state)) == expected


def test_slurm_tells_when_a_job_began():
    line = "7|{}|0|n1|gpu|0|None|{}|rfm_A|\n"
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(1795359416))
    began = {
        (state, start): slurm.listed(line.format(state, start))["7"].began
        for state, start in [("RUNNING", now), ("PENDING", now), ("CANCELLED", "N/A"), ("RUNNING", "?")]
    }
    assert list(began.values()) == [1795359416, None, float("inf"), None]


def test_a_job_of_several_parts_begins_with_the_first_and_is_as_bad_as_the_worst():
    """The start of a later part would be after that of the script, as of a job that the scheduler lost."""
    states = ["LOST", "PENDING", "RUNNING", "CANCELLED", "FAILED", "COMPLETED"]
    seen = [Seen(state, ended=at > 2, lost=at == 0, pending=at == 1, killed=at == 3, began=1000.0 - at)
            for at, state in enumerate(states)]  # fmt: skip
    for first, one in enumerate(seen):
        for other in seen[first:]:
            both = [polling.together(parts) for parts in ([one, other], [other, one])]
            assert [(each.state, each.began) for each in both] == [(one.state, other.began)] * 2
    assert polling.together([Seen("RUNNING"), seen[5]]).began == seen[5].began


@pytest.mark.parametrize("reason", reasons.SLURM, ids=lambda one: one.words)
def test_every_reason_of_slurm_in_the_table_is_found_as_itself(reason):
    assert reasons.slurm(f"{reason.words}, UnavailableNodes:nid1") is reason.waiting
    assert reason.source


@pytest.mark.parametrize("reason", reasons.PBS, ids=lambda one: one.words)
def test_every_reason_of_pbs_in_the_table_is_found_as_itself(reason):
    assert reasons.pbs(f"Not Running: {reason.words} ...") is reason.waiting


def test_a_reason_that_is_not_known_is_waited_for():
    assert reasons.slurm("SomethingNew") is reasons.pbs("Not Running: something new") is Waiting.RUNS


def test_ssh_words():
    assert remote.seen(None).state == "RUNNING"
    assert remote.seen(124).state == "TIMEOUT"
    assert "could not reach" in remote.seen(255).state
    assert remote.seen(3).exit_code == 3


# -- submission --


class Submitter(Patient):
    """Only what submit_patiently needs."""

    registered_name = "test"

    def __init__(self):
        self.patience = PATIENCE
        self.timeout = 60
        self.said = []

    def log(self, message, level=None):
        self.said.append(message)

    def emit_preamble(self, job): ...
    def allnodes(self): ...
    def filternodes(self, job, nodes): ...
    def submit(self, job): ...


def failing(times, text="Socket timed out on send/recv operation"):
    left = [times]

    def submit():
        if left[0]:
            left[0] -= 1
            raise CommandError(text)
        return "ok"

    return submit


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.pauses = []

    def __call__(self):
        return float(sum(self.pauses))


def submit(submitter, job, once):
    clock = Clock()
    return submitter.submit_patiently(job, once, clock, clock.pauses.append), clock.pauses


def test_a_busy_scheduler_is_tried_again_with_growing_pauses(world):
    submitter = Submitter()
    assert submit(submitter, world.job, failing(2)) == ("ok", [1, 2])
    assert len(submitter.said) == 2


def test_patience_with_a_submission_ends(world):
    with pytest.raises(CommandError, match=r"\(5 attempts in 00:00:15\)"):
        submit(Submitter(), world.job, failing(99))


def test_a_refusal_is_not_tried_again(world):
    submitter = Submitter()
    with pytest.raises(CommandError, match="invalid partition"):
        submit(submitter, world.job, failing(1, "invalid partition specified: x"))
    assert submitter.said == []


def test_a_submission_that_only_seemed_to_fail_is_found_in_the_queue(world):
    """A second one would run next to it in the same stage folder."""
    submitter = Submitter()
    submitter.submitted = lambda job: "77"
    assert submit(submitter, world.job, failing(1)) == ("77", [1])


def test_a_signal_during_a_submission_leaves_a_number_by_which_the_job_is_cancelled(world, monkeypatch):
    """The request may have arrived before its command was killed, or a moment later."""
    monkeypatch.setattr(polling, "INTERRUPTED_S", (0.0, 0.0))
    world.job._jobid, submitter, answers = None, Submitter(), [None, "77"]
    submitter.submitted = lambda job: answers.pop(0)

    def interrupted():
        raise polling.ForceExitError("received signal 15")

    with pytest.raises(polling.ForceExitError):
        submitter.enqueue(world.job, interrupted)
    assert world.job.jobid == "77" and not answers


def test_a_signal_ends_the_session_and_not_the_command_that_submits(world):
    """The command had not reached the scheduler when the queue was searched, so its job stayed in the queue."""

    def force_exit(number, frame):
        raise polling.ForceExitError("received signal 15")

    def slow():
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        return "78"

    world.job._jobid, submitter, before = None, Submitter(), signal.signal(signal.SIGTERM, force_exit)
    submitter.submitted = lambda job: pytest.fail("it has a number")
    try:
        with pytest.raises(polling.ForceExitError):
            submitter.enqueue(world.job, slow)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert world.job.jobid == "78"


@pytest.mark.parametrize(("ends", "says"), [(0.2, None), (30.0, "did not end within 0.1 s")])
def test_a_submission_that_takes_long_is_told_and_has_a_bound(world, monkeypatch, ends, says):
    """A command that waits for a dead file system does not end by a signal either."""
    monkeypatch.setattr(polling, "SUBMITTING_SAID_S", 0.02)
    monkeypatch.setattr(polling, "KILLED_S", 5.0 if says is None else 0.05)
    submitter, over = Submitter(), threading.Event()
    submitter.timeout = 0.05

    def slow():
        over.wait(ends)
        return "79"

    with contextlib.nullcontext() if says is None else pytest.raises(CommandError, match=says):
        assert submit(submitter, world.job, slow)[0] == "79"
    over.set()
    assert any("has not answered the submission" in line for line in submitter.said)


# -- what a job prints --


def run_lines(lines, folder, **environment):
    script = "\n".join(lines)
    return subprocess.run(
        ["sh", "-c", script], env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, cwd=folder
    )


def test_a_job_ends_by_name_of_the_module_that_is_missing(tmp_path):
    lines = [*joblines.begin(False, "t1", str(tmp_path)), *joblines.need_modules(["gcc/12", "cuda"]), "echo ran"]
    done = run_lines(lines, tmp_path, LOADEDMODULES="gcc/12:cuda/12.6")
    assert "ran" in done.stdout
    done = run_lines(lines, tmp_path, LOADEDMODULES="gcc/12")
    assert (done.returncode, joblines.end_status(done.stdout)) == (1, 1)
    assert "tenken: module cuda is not loaded here" in done.stderr


def test_nodes_are_named_once_in_order(tmp_path):
    (tmp_path / "nodes").write_text("n2\nn1\nn1\n")
    done = run_lines(joblines.begin(False, "t1", str(tmp_path)), tmp_path, PBS_NODEFILE=str(tmp_path / "nodes"))
    assert joblines.nodes(done.stdout) == ["n1", "n2"]


def lines(folder):
    outputs = ["result.json", "HPCG-Benchmark*.txt", "a b"]
    return [
        joblines.enter(str(folder)), *joblines.begin(False, "t1", str(folder), outputs), *joblines.command_begin(),
        "sh -c 'exit 3'", *joblines.command_end(), *joblines.end(),
    ]  # fmt: skip


def test_a_job_tells_where_and_when_it_began_and_ended(tmp_path):
    before = time.time()
    done = run_lines(lines(tmp_path), tmp_path, PBS_JOBID="12.opbs")
    found = joblines.report(done.stdout, "t1")
    here = os.uname().nodename
    assert (found.status, done.returncode, found.nodes, found.ran_again) == (3, 3, (here,), False)
    assert found.attempts[0].node == here and found.attempts[0].job == "12.opbs"
    (command,) = found.commands
    times = [before - 1e-3, found.begin, command.begin, command.end, found.end, time.time() + 1e-3]
    assert times == sorted(times) and command.status == 3


def test_a_second_attempt_says_so_although_the_first_output_is_gone(tmp_path):
    for name in ("result.json", "HPCG-Benchmark_3.1.txt", "a b", "keep"):
        (tmp_path / name).touch()
    run_lines(lines(tmp_path), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != joblines.ATTEMPTS_FILE] == ["keep"]
    again = joblines.report(run_lines(lines(tmp_path), tmp_path).stdout, "t1")
    assert again.ran_again and len(again.attempts) == 2
    # appended output contains the first attempt twice; it counts as one attempt
    both = joblines.report(run_lines(lines(tmp_path), tmp_path).stdout * 2, "t1")
    assert len(both.attempts) == 3


def test_another_attempt_of_reframe_in_the_same_folder_is_none_of_this_one(tmp_path):
    run_lines(lines(tmp_path), tmp_path)
    other = [line.replace("t1", "t2") for line in lines(tmp_path)]
    found = joblines.report(run_lines(other, tmp_path).stdout, "t2")
    assert not found.ran_again and found.other_tokens == ()


def test_an_end_mark_counts_with_its_own_token_alone():
    text = "TENKEN-BEGIN token=t1 node=n1 time=5.0\nTENKEN-END token=t0 status=0 nodes=n1 node=n1 time=6.0\n"
    found = joblines.report(text, "t1")
    assert (found.status, found.other_tokens) == (None, ("t0",))
    assert joblines.end_status(text + "TENKEN-END token=t1 status=4 nodes=n1 node=n1 time=7.N\n", "t1") == 4


def test_the_end_of_the_last_attempt_counts():
    one = "TENKEN-BEGIN token=t1 node=n1 time=5.0\nTENKEN-NODES n1\nTENKEN-RANK host=n1\n"
    end = "TENKEN-END token=t1 status=0 nodes=n1 node=n1 time=6.0\n"
    two = one.replace("n1", "n2").replace("5.0", "9.0")
    found = joblines.report(one + end + two, "t1")
    assert (found.status, found.nodes, found.rank_hosts, found.ran_again) == (None, ("n2",), ("n2",), True)


def report_of(nodes, hosts, *names):
    lines = ["TENKEN-BEGIN token=t1 node=x time=1", f"TENKEN-NODES {nodes}", *(f"TENKEN-NAME {name}" for name in names)]
    return joblines.report("\n".join([*lines, *(f"TENKEN-RANK host={host}" for host in hosts)]))


@pytest.mark.parametrize(
    ("nodes", "hosts", "names", "words"),
    [
        ("n1,n2", ["n1", "n2"], [], None),
        ("n1,n2", ["n2.site.org", "N1"], [], None),
        ("n1,n2", ["n1", "n2", "n2", "n1"], [], None),  # launched twice
        ("n1,n2", ["c0-1", "c0-2"], ["n1 c0-1", "n2 c0-2.site.org"], None),
        ("n1,n2", ["n1", "n1"], [], "job: 2 ranks requested; nodes by the scheduler: n1,n2; by the ranks: n1 (2)"),
        ("n1", ["n1", "n2"], [], "did not run on the nodes of the job"),
        ("n1,n2", ["n1", "n2", "n2"], [], "3 ranks reported their host name"),
        ("n1,n2", [], [], "0 ranks reported their host name; the ranks did not run"),
        ("n1,n2", ["c0-1", "c0-2"], ["n1 c0-1"], "nodes by the scheduler: n1=c0-1,n2; by the ranks: c0-1 (1),c0-2 (1)"),
    ],
)  # fmt: skip
def test_ranks_are_held_against_the_nodes_of_the_job(nodes, hosts, names, words):
    fault = report_of(nodes, hosts, *names).placement_fault(2)
    assert fault is None if words is None else words in fault


def test_each_rank_tells_its_host_before_its_program(tmp_path):
    done = run_lines([f"{joblines.around_rank(str(tmp_path))} echo 'a  b'"], tmp_path)
    assert done.stdout == f"TENKEN-RANK host={os.uname().nodename}\na  b\n"


def test_a_token_that_would_break_the_script_is_refused():
    with pytest.raises(ValueError, match="only letters, digits"):
        joblines.begin(False, "a b", "/stage")
    assert joblines.token_of(joblines.begin(False, "t-1.x", "/stage")) == "t-1.x"
    assert joblines.token_of(["echo"]) is None
