"""Observed faults of schedulers, each with the right verdict and message, through the real ReFrame."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import SITES, write_document
from tests.cluster.standins.pbs import nodes_of
from tests.support.reframe import reframe

pytestmark = pytest.mark.schedulers

ALL = sorted(SITES)


def only(outcome):
    (record,) = outcome.records
    return record


def text(record) -> str:
    return " ".join(finding.message for finding in record.findings)


@pytest.mark.parametrize("scheduler", ALL)
def test_two_ranks_run_on_two_nodes(site, scheduler):
    outcome = site(scheduler).run(check="ProbeTwo", command='echo "rank $STANDIN_RANK"', ranks=2)
    assert outcome.code == 0, outcome.output
    assert len(only(outcome).nodes) == 2


@pytest.mark.parametrize("scheduler", ALL)
def test_ten_ranks_at_four_a_node_are_ten_on_three_nodes(site, scheduler):
    one = site(scheduler)
    outcome = one.run(check="ProbeUneven", command='echo "rank $STANDIN_RANK" >> ranks', ranks=10)
    assert outcome.code == 0, outcome.output
    assert len(only(outcome).nodes) == 3
    assert re.search(r"mpirun .*-np 10 ", one.script("ProbeUneven"))


@pytest.mark.parametrize("scheduler", ALL)
def test_an_exit_code_means_what_it_says(site, scheduler):
    record = only(site(scheduler).run(command="exit 3"))
    assert (record.verdict, record.job.exit_code) == ("FAIL", 3)
    assert "exited with 3" in text(record)


@pytest.mark.parametrize("scheduler", ALL)
def test_a_job_over_its_walltime_fails(site, scheduler):
    record = only(site(scheduler).run(command="sleep 60", TENKEN_TEST_TIME_LIMIT="1s"))
    assert record.verdict == "FAIL"
    assert "did not run to its end" in text(record)
    if scheduler == "pbs":
        assert "state TIMEOUT (by PBS, Exit_status -29)" in text(record)


@pytest.mark.parametrize("scheduler", ALL)
def test_a_job_deleted_by_someone_else_fails_although_its_exit_code_is_0(site, scheduler):
    one = site(scheduler)
    delete = f"{one.cluster.folder}/jobs/1000.deleted"
    record = only(one.run(command=f"touch {delete}; sleep 60"))
    assert record.verdict == "FAIL"
    assert "did not run to its end: no end mark" in text(record)


@pytest.mark.parametrize("scheduler", ALL)
def test_output_that_comes_late_is_waited_for(site, scheduler):
    outcome = site(scheduler, late_output=4).run()
    assert outcome.code == 0, outcome.output


@pytest.mark.parametrize("scheduler", ALL)
def test_a_scheduler_that_cannot_be_asked_for_a_while_ends_nothing(site, scheduler):
    outcome = site(scheduler, qstat_fails=4).run(command="sleep 1")
    assert outcome.code == 0, outcome.output


@pytest.mark.parametrize("scheduler", ALL)
def test_a_submission_is_tried_again_where_the_server_is_away(site, scheduler):
    outcome = site(scheduler, qsub_fails=2).run()
    assert outcome.code == 0, outcome.output


@pytest.mark.parametrize("scheduler", ALL)
def test_a_submission_whose_answer_was_lost_is_found_by_its_mark(site, scheduler):
    one = site(scheduler, qsub_answers_lost=1)
    outcome = one.run(command="sleep 1")
    assert outcome.code == 0, outcome.output
    assert list(one.cluster.jobs()) == ["1000"] and only(outcome).job.id.startswith("1000")
    assert "the submission that failed or was interrupted left job 1000" in outcome.output


@pytest.mark.parametrize("scheduler", ALL)
def test_a_session_that_ends_during_a_submission_takes_its_job_with_it(site, scheduler):
    one = site(scheduler, qsub_interrupted=1)
    outcome = one.run(command="sleep 90")
    assert outcome.code != 0 and "the submission that failed or was interrupted left job 1000" in outcome.output
    assert one.cluster.folder.joinpath("jobs/1000.deleted").exists(), outcome.output


def test_a_server_that_stays_away_is_one_line(site):
    outcome = site("pbs", qsub_fails=99).run()
    assert outcome.code != 0
    assert "qsub ended with 111: qsub: cannot connect to server opbs (errno=111) (" in outcome.output


@pytest.mark.parametrize("scheduler", ALL)
def test_a_job_that_stays_in_the_queue_is_taken_out(site, scheduler):
    one = site(scheduler, never_starts=True, comment="Not Running: Insufficient amount of resource")
    record = only(one.run("-S", "max_pending_time=2s"))
    assert record.verdict == "FAIL"
    assert "state CANCELLED (still in the queue after 00:00:0" in text(record)
    assert one.cluster.folder.joinpath("jobs/1000.deleted").exists()
    if scheduler == "pbs":
        assert "Insufficient amount of resource" in text(record)


MODULES = {"pbs": "gcc/12.4.0", "nqsv": "cuda/12.6.3", "gridengine": "cuda/9.2.148"}
NEEDS = {"pbs": "ProbeOne", "nqsv": "ProbeTwo", "gridengine": "ProbeTwo"}


def test_a_module_that_is_not_there_fails_the_build_by_name(site):
    outcome = site("pbs", missing_on_login=["gcc/12.4.0"]).run()
    assert outcome.code != 0
    assert "Unable to locate a modulefile for 'gcc/12.4.0'" in outcome.output


@pytest.mark.parametrize("scheduler", ALL)
def test_a_module_that_nodes_lack_fails_the_job_by_name(site, scheduler):
    record = only(site(scheduler, missing_on_node=[MODULES[scheduler]]).run(check=NEEDS[scheduler], ranks=2))
    assert record.verdict == "FAIL"
    assert f"tenken: module {MODULES[scheduler]} is not loaded here" in text(record)


@pytest.mark.parametrize("scheduler", ALL)
def test_a_node_that_does_not_see_the_stage_folder_fails_by_name(site, scheduler):
    """Its script ends at the first line: nothing is removed in the home folder, where PBS and NQSV start it."""
    one = site(scheduler, unseen="told")
    (one.cluster.folder / "result.json").write_text("mine")
    record = only(one.run())
    node = {"pbs": "mg0001", "nqsv": "pg001", "gridengine": "r1i0n0"}[scheduler]
    said = rf"{node}: node {node} does not see {one.folder}/stage/.+"
    assert record.verdict == "FAIL" and re.fullmatch(said, text(record)), text(record)
    assert record.nodes == (node,) and (one.cluster.folder / "result.json").read_text() == "mine"
    assert not (one.cluster.folder / "tenken-attempts").exists()


@pytest.mark.parametrize("scheduler", ["pbs", "gridengine"])
def test_what_such_a_node_printed_may_be_lost(site, scheduler):
    """If the output is lost, the scheduler's record names the node; NQSV has no such record."""
    record = only(site(scheduler, unseen="lost").run())
    node = {"pbs": "mg0001", "gridengine": "r1i0n0"}[scheduler]
    assert (record.verdict, record.nodes, record.job.exit_code) == ("FAIL", (node,), 200)
    assert f"{node}: node {node} does not see /" in text(record)


def test_gridengine_starts_no_job_on_such_a_node(site):
    record = only(site("gridengine", never_starts=True, error_state="Eqw", unseen="error").run())
    assert (record.verdict, record.nodes) == ("FAIL", ("r1i0n0",))
    assert re.search(
        r"^r1i0n0: node r1i0n0 does not see (/.+): Grid Engine: error: can't chdir to \1: No such file", text(record)
    ), text(record)


REFUSALS = {
    ("pbs", "queue"): ({"TENKEN_QUEUE": "nosuch"}, "Unknown queue"),
    ("pbs", "group"): ({"TENKEN_GROUP": "other"}, "Bad GID"),
    ("pbs", "walltime"): ({"TENKEN_TEST_TIME_LIMIT": "90h"}, "resource limits"),
    ("nqsv", "queue"): ({"TENKEN_QUEUE": "nosuch"}, "Queue not found: nosuch"),
    ("nqsv", "group"): ({"TENKEN_PROJECT": "other"}, "Invalid project: other"),
    ("nqsv", "walltime"): ({"TENKEN_TEST_TIME_LIMIT": "90h"}, "Elapse time limit exceeds"),
    ("gridengine", "group"): ({"TENKEN_GROUP": "other"}, "not a member of group other"),
    ("gridengine", "walltime"): ({"TENKEN_TEST_TIME_LIMIT": "90h"}, "Unable to run job"),
}


@pytest.mark.parametrize("case", REFUSALS, ids="-".join)
def test_what_the_scheduler_refuses_is_said_in_its_words(site, case):
    variables, words = REFUSALS[case]
    outcome = site(case[0]).run(**variables)
    assert outcome.code != 0
    assert re.search(rf"not submitted: qsub ended with \d+: .*{re.escape(words)}", text(only(outcome)))
    assert "Traceback" not in outcome.output


# -- PBS --


def test_pbs_odd_states_end_nothing(site):
    """Running, moved, exiting, in transit, waiting, and one that is in no manual."""
    letters = ["B", "M", "E", "T", "W", "?"]
    outcome = site("pbs", odd_states=letters, **{f"odd_{letter}": 1 for letter in letters}).run(command="sleep 2")
    assert outcome.code == 0, outcome.output
    assert only(outcome).verdict == "RECORDED"


@pytest.mark.parametrize(("scheduler", "state"), [("pbs", "S"), ("nqsv", "SUS"), ("gridengine", "S")])
def test_a_job_that_was_suspended_is_invalid(site, scheduler, state):
    """Recorded: `qsig -s suspend`, then resume; the job ends normally."""
    record = only(site(scheduler, odd_states=["ZZ", state], odd_ZZ=1, **{f"odd_{state}": 1}).run(command="sleep 2"))
    assert record.verdict == "INVALID"
    assert "the scheduler suspended the job while it ran: run it again" in text(record)


def test_pbs_a_finished_subjob_is_a_finished_job(site):
    outcome = site("pbs", odd_states=["X"], odd_X=1).run()
    assert outcome.code == 0, outcome.output


def test_pbs_a_finished_job_without_exit_status_is_judged_by_its_end_mark(site):
    outcome = site("pbs", no_exit_status=True).run()
    assert outcome.code == 0, outcome.output
    assert only(outcome).job.exit_code == 0


def test_pbs_a_server_without_history_forgets_a_job_that_passed(site):
    # long enough to be seen running
    outcome = site("pbs", no_history=True).run(command="sleep 3")
    assert outcome.code == 0, outcome.output
    assert only(outcome).job.state == "COMPLETED (no longer listed)"


def test_pbs_half_an_answer_ends_nothing(site):
    outcome = site("pbs", qstat_garbage=3).run(command="sleep 1")
    assert outcome.code == 0, outcome.output


def test_pbs_without_scatter_both_chunks_share_a_node():
    """The stand-in behaves like the real one, so that the test with two nodes above is meaningful."""
    assert nodes_of("2:mpiprocs=1", scatter=False) == ["mg0001", "mg0001"]
    assert nodes_of("2:mpiprocs=1", scatter=True) == ["mg0001", "mg0002"]


def test_pbs_distribute_runs_on_each_node_and_pins_it(site):
    one = site("pbs", node_states={"mg0002": "offline"})
    outcome = one.run("--distribute=avail")
    assert outcome.code == 0, outcome.output
    assert sorted(record.nodes[0] for record in outcome.records) == ["mg0001", "mg0003", "mg0004"]


def test_pbs_flexible_node_counts_take_what_is_free(site):
    outcome = site("pbs", node_states={"mg0004": "down,offline"}).run(
        "--flex-alloc-nodes=avail", check="ProbeFlexible", ranks=3
    )
    assert outcome.code == 0, outcome.output
    assert len(only(outcome).nodes) == 3


def test_pbs_answers_one_id_of_two_and_both_jobs_are_followed(site):
    """OpenPBS since December 2023: all others would appear as no longer listed."""
    outcome = site("pbs").run("--distribute=avail", command="sleep 7")
    assert outcome.code == 0, outcome.output
    assert {record.job.state for record in outcome.records} == {"COMPLETED"}


def test_pbs_a_job_that_was_run_twice_is_invalid(site):
    record = only(site("pbs", run_count=2, ran_before=1).run())
    assert record.verdict == "INVALID"
    assert "the job ran twice: the scheduler started it 2 times (it began on mg0001, then mg0001)" in text(record)


def test_pbs_a_second_half_of_the_output_is_waited_for(site):
    outcome = site("pbs", halved_output=5).run(TENKEN_PATIENCE="output=00:01:00")
    assert outcome.code == 0, outcome.output


def test_pbs_a_deleted_job_is_told_in_its_words(site):
    one = site("pbs", deleted_status=271)
    record = only(one.run(command=f"touch {one.cluster.folder}/jobs/1000.deleted; sleep 60"))
    assert record.verdict == "FAIL"
    assert "state CANCELLED (deleted or killed, Exit_status 271: Job run at Sun Nov 22 and terminated" in text(record)


@pytest.mark.parametrize(
    ("comment", "states", "words"),
    [
        ("Not Running: Queue not started.", {}, "blocked in the queue: Not Running: Queue not started."),
        (
            "Not Running: Not enough free nodes available", dict.fromkeys(nodes_of("4:mpiprocs=1", True), "offline"),
            "blocked in the queue: Not Running: Not enough free nodes",
        ),
        ("Can Never Run: Insufficient amount of resource: ncpus (R: 9 A: 8 T: 8)", {}, "cannot run: Can Never Run"),
        (
            "Not Running: Insufficient amount of resource: ncpus (R: 9 A: 8 T: 8)", {},
            "cannot run: Not Running: Insufficient amount",
        ),
    ],
    ids=["queue not started", "nodes offline", "can never run", "more than there is"],
)  # fmt: skip
def test_pbs_a_job_that_will_not_run_is_taken_out(site, comment, states, words):
    one = site("pbs", never_starts=True, comment=comment, node_states={**states, "login1": "offline"})
    record = only(one.run())
    assert record.verdict == "FAIL"
    assert words in text(record)
    assert one.cluster.folder.joinpath("jobs/1000.deleted").exists()


def test_pbs_busy_nodes_are_waited_for(site):
    comment = "Not Running: Insufficient amount of resource: ncpus (R: 8 A: 0 T: 8)"
    record = only(site("pbs", never_starts=True, comment=comment).run("-S", "max_pending_time=8s"))
    assert "still in the queue after 00:00:" in text(record)


# -- NQSV --


def test_nqsv_every_state_is_taken(site):
    states = ["PRR", "STG", "CHK", "EXT", "POR", "WAT", "ARI", "FWD", "MIG", "GQD", "HLD", "HOL", "ZZZ"]
    outcome = site("nqsv", odd_states=states, **{f"odd_{state}": 1 for state in states}).run(command="sleep 3")
    assert outcome.code == 0, outcome.output


def test_nqsv_a_request_missing_from_one_answer_is_not_lost(site):
    outcome = site("nqsv", not_listed=2).run(command="sleep 2")
    assert outcome.code == 0, outcome.output


# -- Grid Engine --


def test_gridengine_a_job_in_error_is_taken_out(site):
    record = only(site("gridengine", never_starts=True, error_state="Eqw").run())
    assert record.verdict == "FAIL"
    assert "state CANCELLED (ERROR: state Eqw" in text(record)


def test_gridengine_half_an_answer_ends_nothing(site):
    outcome = site("gridengine", qstat_garbage=3).run(command="sleep 1")
    assert outcome.code == 0, outcome.output


# -- any --


def test_no_scheduler_command_on_path_is_one_line(site):
    one = site("pbs")
    one.environment["PATH"] = one.environment["PATH"].replace(f"{one.cluster.folder}/bin:", "")
    outcome = one.run()
    assert (outcome.code != 0, outcome.records) == (True, [])
    assert "qsub is not on PATH: run this on a node from which jobs are submitted (a login node)" in outcome.output
    assert outcome.output.count("qsub") == 1, outcome.output


# -- ssh to a board --


def board(folder, body='exec bash -c "$4"'):
    """The environment of a host from which a stand-in of ssh reaches a board."""
    ssh = folder / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f"#!/bin/bash\n[ $# = 4 ] && [ $3 = board ] || exit 255\n{body}\n")
    ssh.chmod(0o755)
    path = f"{ssh.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "TENKEN_HOST": "board", "TENKEN_TEST_DOCUMENT": write_document(folder)}


def on_board(folder, command="true", **env):
    return reframe(
        "-r", "--system", "jetson-tx2", "-n", "ProbeOne", folder=folder, checks="tests/cluster/probes",
        TENKEN_TEST_COMMAND=command, **env,
    )  # fmt: skip


def test_a_board_is_reached_by_ssh(tmp_path):
    outcome = on_board(tmp_path, **board(tmp_path))
    assert outcome.code == 0, outcome.output
    assert only(outcome).job.scheduler == "tenken-ssh"


def test_a_board_keeps_the_time_limit(tmp_path):
    record = only(on_board(tmp_path, "sleep 60", TENKEN_TEST_TIME_LIMIT="1s", **board(tmp_path)))
    assert (record.verdict, record.job.state) == ("FAIL", "TIMEOUT")


def test_a_board_that_is_not_reached_is_named(tmp_path):
    record = only(on_board(tmp_path, **board(tmp_path, "echo 'ssh: connect to host board: No route' >&2; exit 255")))
    assert record.verdict == "FAIL"
    assert "board: the job did not run to its end: state CANCELLED (ssh could not reach the host" in text(record)


@pytest.mark.parametrize("scheduler", ALL)
def test_ranks_that_all_land_on_one_node_fail_with_the_lists(site, scheduler):
    record = only(site(scheduler, ranks_piled=1).run(check="ProbeTwo", ranks=2))
    first, second = nodes_of_site(scheduler)
    assert record.verdict == "FAIL"
    assert f"nodes by the scheduler: {first},{second}; by the ranks: {first} (2)" in text(record)


def nodes_of_site(scheduler):
    return {"pbs": ("mg0001", "mg0002"), "nqsv": ("pg001", "pg002"), "gridengine": ("r1i0n0", "r1i0n1")}[scheduler]
