"""The state machine that follows jobs, with a clock of its own; and what each scheduler's words are taken for."""

from __future__ import annotations

import pytest

from config.schedulers import gridengine, nqsv, pbs, remote, slurm
from config.schedulers.batch import last_queue
from config.schedulers.command import CommandError
from config.schedulers.patient import Follower, Patient, PatientJob, Seen, hms, shape
from systems.model import Patience
from tenken import joblines

END = "TENKEN-NODES n1,n2\nTENKEN-END status=0 nodes=n1,n2\n"
PATIENCE = Patience(pending=100, blocked=20, silence=50, output=30, submissions=3)


class World:
    """One job, a clock, and the jobs that were cancelled."""

    def __init__(self, folder):
        self.now = 1000.0
        self.cancelled = []
        self.job = PatientJob("probe", workdir=str(folder), script_filename="job.sh", stdout="out", stderr="err")
        self.job._jobid = "7"
        self.job._submit_time = self.now
        self.output = folder / "out"
        self.follower = Follower(PATIENCE, self.cancelled.append, lambda: self.now)

    def hear(self, *seen, after=1.0):
        """One answer after some seconds; nothing: the job is not listed, None: no answer."""
        self.now += after
        self.follower.update([self.job], {"7": seen[0]} if seen else {})
        return self.job


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


RUNNING = Seen("RUNNING")
DONE = Seen("COMPLETED", ended=True, exit_code=0)


def test_a_job_is_complete_once_its_end_mark_is_there(world):
    world.hear(Seen("QUEUED", pending=True))
    world.hear(RUNNING)
    assert not world.hear(DONE).completed
    world.output.write_text(END)
    assert world.hear(DONE).completed
    assert (world.job.nodelist, world.job.exitcode, world.job.state) == (["n1", "n2"], 0, "COMPLETED")


def test_output_without_an_end_mark_is_taken_once_it_has_settled(world):
    world.output.write_text("TENKEN-NODES n1\n")
    assert not world.hear(DONE).completed
    world.output.write_text("TENKEN-NODES n1\nmore\n")
    assert not world.hear(DONE, after=2.0).completed
    assert not world.hear(DONE, after=2.0).completed
    assert world.hear(DONE, after=2.0).completed


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


def test_silence_is_borne_and_then_ends_the_job_alone(world):
    world.hear(RUNNING)
    assert not world.hear(None, after=49.0).completed
    assert world.hear(None, after=2.0).completed
    assert world.job.state == "CANCELLED (no word from the scheduler for 00:00:51; last state RUNNING)"
    assert world.cancelled == [world.job]


def test_a_blocked_job_is_taken_out_sooner_than_one_that_waits(world):
    blocked = Seen("PENDING", pending=True, blocked=True, why="PartitionDown")
    world.hear(blocked)
    assert not world.hear(blocked, after=19.0).completed
    assert world.hear(blocked, after=2.0).completed
    assert world.job.state == "CANCELLED (blocked in the queue: PartitionDown)"


def test_a_job_that_is_blocked_for_a_moment_goes_on(world):
    blocked, free = Seen("PENDING", pending=True, blocked=True), Seen("PENDING", pending=True)
    world.hear(blocked)
    world.hear(free, after=15.0)
    assert not world.hear(blocked, after=15.0).completed


def test_the_queue_is_left_at_the_limit_of_the_partition_or_of_the_check(world):
    waiting = Seen("PENDING", pending=True, why="Resources")
    assert not world.hear(waiting, after=99.0).completed
    assert world.hear(waiting, after=2.0).completed
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


def test_times_are_written_as_schedulers_take_them():
    assert (hms(59), hms(3600), hms(90 * 3600 + 61)) == ("00:00:59", "01:00:00", "90:01:01")


def test_the_last_queue_counts():
    assert last_queue(["-q a", "-W x", "-q b"]) == ["-W x", "-q b"]


# -- words of schedulers --


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"job_state": "R", "exec_host": "n1/0*4+n2/0*4"}, Seen("RUNNING", nodes=("n1", "n2"))),
        ({"job_state": "F"}, Seen("COMPLETED", ended=True)),
        ({"job_state": "F", "Exit_status": 3}, Seen("COMPLETED", ended=True, exit_code=3)),
        ({"job_state": "F", "Exit_status": "271"}, Seen("COMPLETED", ended=True, exit_code=271)),
        ({"job_state": "F", "Exit_status": -29}, Seen("TIMEOUT (by PBS, Exit_status -29)", True, exit_code=-29)),
        ({"job_state": "F", "Exit_status": -1}, Seen("CANCELLED (by PBS, Exit_status -1)", True, exit_code=-1)),
        ({"job_state": "X"}, Seen("COMPLETED", ended=True)),
        (
            {"job_state": "Q", "comment": "Can Never Run: no"},
            Seen("QUEUED", False, True, True, why="Can Never Run: no"),
        ),
        ({"job_state": "M"}, Seen("MOVED", pending=True, why="state M")),
        ({"job_state": "U"}, Seen("SUSPENDED")),
        ({"job_state": "y"}, Seen("UNKNOWN (state 'y')")),
        ({}, Seen("UNKNOWN (state '')")),
    ],
)
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
    assert found["13.nqsv"].blocked
    assert nqsv.requests("") == {}


@pytest.mark.parametrize(
    ("letters", "state"),
    [("r", "RUNNING"), ("hqw", "HELD"), ("qw", "PENDING"), ("Eqw", "ERROR"), ("dr", "DELETING"), ("S", "SUSPENDED")],
)
def test_gridengine_words(letters, state):
    assert gridengine.seen(letters).state == state
    assert gridengine.seen(letters).lost == (state == "ERROR")


def test_gridengine_refuses_what_is_no_xml():
    with pytest.raises(CommandError, match="no XML"):
        gridengine.states("qstat: no")


def test_slurm_words():
    table = (
        "1|RUNNING|0|nid1|None|\n2|PENDING|0||ReqNodeNotAvail, UnavailableNodes:nid1|\n3|FAILED|768||NonZeroExitCode|\n"
    )
    found = slurm.listed(table + "4|TIMEOUT|0||TimeLimit|\n5|PREEMPTED|0||None|\n")
    assert found["2"].blocked and found["2"].why.startswith("ReqNodeNotAvail")
    assert (found["3"].ended, found["3"].exit_code) == (True, 3)
    # Slurm reports 0 for a job that it ended
    assert (found["4"].ended, found["4"].exit_code) == (True, None)
    assert found["5"].ended
    old = slurm.accounted("7|CANCELLED by 1000|0:0|None assigned\n8|COMPLETED|0:0|\n")
    assert (old["7"].state, old["7"].exit_code, old["8"].exit_code) == ("CANCELLED", None, 0)


def test_ssh_words():
    assert remote.seen(None).state == "RUNNING"
    assert remote.seen(124).state == "TIMEOUT"
    assert "did not reach" in remote.seen(255).state
    assert remote.seen(3).exit_code == 3


# -- submission --


class Submitter(Patient):
    """Only what submit_patiently needs."""

    registered_name = "test"

    def __init__(self):
        self.patience = PATIENCE
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


def test_a_busy_scheduler_is_tried_again_with_growing_pauses():
    pauses, submitter = [], Submitter()
    assert submitter.submit_patiently(failing(2), pauses.append) == "ok"
    assert pauses == [1, 2]
    assert len(submitter.said) == 2


def test_tries_are_bounded():
    with pytest.raises(CommandError, match=r"\(tried 3 times\)"):
        Submitter().submit_patiently(failing(9), lambda _: None)


def test_a_refusal_is_not_tried_again():
    pauses = []
    with pytest.raises(CommandError, match="invalid partition"):
        Submitter().submit_patiently(failing(1, "invalid partition specified: x"), pauses.append)
    assert pauses == []


# -- what a job prints --


def run_lines(lines, **environment):
    import subprocess

    script = "\n".join(lines)
    return subprocess.run(
        ["bash", "-c", script], env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True
    )


def test_a_job_ends_by_name_of_the_module_that_is_missing():
    lines = [*joblines.begin(False), *joblines.need_modules(["gcc/12", "cuda"]), "echo ran"]
    done = run_lines(lines, LOADEDMODULES="gcc/12:cuda/12.6")
    assert "ran" in done.stdout
    done = run_lines(lines, LOADEDMODULES="gcc/12")
    assert (done.returncode, joblines.end_status(done.stdout)) == (1, 1)
    assert "tenken: module cuda is not loaded here" in done.stderr


def test_nodes_are_named_once_in_order(tmp_path):
    (tmp_path / "nodes").write_text("n2\nn1\nn1\n")
    done = run_lines(joblines.begin(False), PBS_NODEFILE=str(tmp_path / "nodes"))
    assert joblines.nodes(done.stdout) == ["n1", "n2"]
