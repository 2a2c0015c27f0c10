"""Bad days of a real Slurm: jobs that run twice, wait for every kind of reason, are half submitted, or lose
their session.

Rows share the cluster of test_slurm.py; where a row only waits, others run beside it.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import threading
import time

import pytest

from tenken.reframe import jobs, orphans
from tests.cluster.test_slurm import only, start, stub, text, when_running, whole

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def until(true, seconds=30.0):
    """Wait for something; says whether it came."""
    end = time.time() + seconds
    while time.time() < end:
        if true():
            return True
        time.sleep(0.1)
    return False


def queued(slurm, state="PD"):
    return slurm.slurm("squeue", "-h", "-t", state, "-o", "%i").split()


# -- it runs twice --


def test_a_job_that_is_requeued_against_its_will_is_invalid(run, slurm, tmp_path):
    """An administrator's `requeue=1` overrides --no-requeue; the second run passes by itself."""

    def requeue(job):
        slurm.slurm("scontrol", "update", f"job={job}", "requeue=1")
        slurm.slurm("scontrol", "requeue", job)
        # Slurm lets the node come to rest first: it would wait for two minutes
        until(lambda: "BeginTime" in slurm.slurm("squeue", "-h", "-t", "PD", "-o", "%r"))
        time.sleep(1)
        slurm.slurm("scontrol", "update", f"job={job}", "StartTime=now")

    watcher = when_running(slurm, requeue)
    record = only(
        run(
            TENKEN_PATIENCE="output=00:00:40",
            command=f"[ -e {tmp_path}/second ] || {{ touch {tmp_path}/second; sleep 60; }}",
        )
    )
    watcher.join()
    assert record.verdict == "INVALID", text(record)
    assert "the job ran twice: the scheduler started it 2 times (it began on nid" in text(record)


def test_a_requeue_is_refused_and_the_job_goes_on(run, slurm):
    said = []
    watcher = when_running(slurm, lambda job: said.append(slurm.slurm("scontrol", "requeue", job)))
    outcome = run(command="sleep 3")
    watcher.join()
    assert outcome.code == 0, outcome.output
    assert said and said[0]


def test_ranks_that_land_on_one_node_fail_with_both_lists(run, tmp_path):
    check = tmp_path / "piled.py"
    check.write_text(
        "import reframe as rfm\n"
        "from reframe.core.builtins import run_before\n"
        "from tests.cluster.probes.probes import ProbeTwo\n\n"
        "@rfm.simple_test\n"
        "class ProbePiled(ProbeTwo):\n"
        "    @run_before('run')\n"
        "    def pile(self):\n"
        "        self.job.launcher.options = ['-N1', '-n2', '--overcommit', *self.job.launcher.options]\n"
    )
    record = only(run("-c", str(check), check="ProbePiled", ranks=2))
    assert record.verdict == "FAIL"
    assert re.search(r"nodes by the scheduler: nid\d,nid\d; by the ranks: nid\d \(2\)", text(record)), text(record)


# -- it waits --


def test_a_held_job_is_taken_out_with_the_reason(run, slurm):
    record = only(run("--job-option=--hold"))
    assert record.verdict == "FAIL"
    assert "state CANCELLED (blocked in the queue: JobHeldUser)" in text(record)
    assert slurm.slurm("squeue", "-h") == ""


def test_a_job_for_an_idle_node_that_a_higher_job_has_planned_waits_for_it(slurm, tmp_path):
    """And so does one before a maintenance reservation: both would have been taken for broken nodes."""
    slurm.slurm(
        "scontrol", "create", "reservation", "reservationname=maint", "starttime=now+20", "duration=10",
        "users=root", "nodes=ALL", "flags=maint",
    )  # fmt: skip
    process = start(slurm, tmp_path, "20260101T000000Z-wait", "true")
    try:
        assert until(lambda: "ReqNodeNotAvail" in slurm.slurm("squeue", "-h", "-t", "PD", "-o", "%r"), 60)
        time.sleep(8)  # longer than a blocked job is borne
        assert queued(slurm)
    finally:
        slurm.slurm("scontrol", "delete", "reservationname=maint")
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output


def test_a_job_pinned_to_a_drained_node_fails_by_the_name_of_the_node(run, slurm):
    slurm.slurm("scontrol", "update", "node=nid3", "state=drain", "reason=fan")
    found = {record.nodes[0]: record for record in run("--distribute=all").records}
    assert sorted(found) == ["nid1", "nid2", "nid3", "nid4"]
    assert {node: record.verdict for node, record in found.items() if node != "nid3"} == dict.fromkeys(
        ["nid1", "nid2", "nid4"], "RECORDED"
    )
    assert found["nid3"].verdict == "FAIL"
    assert re.search("nid3: .*state CANCELLED .blocked in the queue: ", text(found["nid3"]))


# -- it is submitted --


def test_a_submission_that_seemed_to_fail_is_found_and_not_repeated(run, slurm, tmp_path):
    body = (
        'echo x >> $COUNT; $REAL "$@" >/dev/null\n'
        "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1"
    )
    outcome = run(command="sleep 1", PATH=stub(tmp_path, slurm, "sbatch", body))
    assert outcome.code == 0, outcome.output
    assert (tmp_path / "stub" / "count").read_text().count("x") == 1


def test_the_controller_restarts_during_submission(run, slurm, tmp_path):
    """Away for a while, then back: nothing is lost."""
    slurm.stop_controller()
    back = threading.Timer(8, slurm.start_controller)
    back.start()
    outcome = run(TENKEN_PATIENCE="submission=00:01:00")
    back.join()
    assert outcome.code == 0, outcome.output


# -- it is cancelled, and not --


def test_a_cancellation_that_fails_at_first_is_repeated(run, slurm, tmp_path):
    body = (
        'echo x >> $COUNT; [ $(wc -l < $COUNT) -gt 1 ] && exec $REAL "$@"\n'
        "echo 'scancel: error: Unable to contact slurm controller' >&2; exit 1"
    )
    record = only(run("--job-option=--hold", PATH=stub(tmp_path, slurm, "scancel", body)))
    assert record.verdict == "FAIL"
    assert "not confirmed" not in text(record)
    assert slurm.slurm("squeue", "-h") == ""


def test_a_cancellation_that_keeps_failing_is_told(run, slurm, tmp_path):
    body = "echo 'scancel: error: Unable to contact slurm controller' >&2; exit 1"
    path = stub(tmp_path, slurm, "scancel", body)
    record = only(run("--job-option=--hold", PATH=path, TENKEN_PATIENCE="cancel=00:00:05"))
    assert record.verdict == "FAIL"
    assert re.search(r"not confirmed, job \d+ may still be there: scancel ended with 1", text(record)), text(record)


# -- people, and machines that stop --


def test_a_session_with_a_queued_job_leaves_at_once(slurm, tmp_path):
    slurm.slurm("scontrol", "update", "node=nid[1-4]", "state=drain", "reason=test")
    process = start(slurm, tmp_path, "20260101T000000Z-one", "true", TENKEN_PATIENCE="blocked=00:10:00")
    assert until(lambda: queued(slurm), 60)
    began = time.time()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=90)
    assert time.time() - began < 20, output
    assert until(lambda: not slurm.slurm("squeue", "-h"), 15)


def test_jobs_of_a_killed_session_are_found_and_cancelled(slurm, tmp_path, monkeypatch):
    process = start(slurm, tmp_path, "20260101T000000Z-killed", "sleep 120")
    assert until(lambda: queued(slurm, "R"), 60)
    stage = tmp_path / "stage"
    assert until(lambda: list(stage.rglob("tenken-job.json")))
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    assert jobs.find(stage) == []
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (orphan,) = jobs.find(stage)
    assert (orphan.state, orphan.entry.session) == ("queued or running", "20260101T000000Z-killed")
    comment = slurm.slurm("squeue", "-h", "-O", "Comment:200").strip()
    assert comment == f"tenken/20260101T000000Z-killed/{orphan.entry.token}"
    assert jobs.cancel([orphan]) == []
    assert until(lambda: not slurm.slurm("squeue", "-h"), 15)
    assert jobs.find(stage) == []


def test_the_result_of_a_job_that_outlived_its_session_is_archived_by_the_next(slurm, run, tmp_path):
    """As of its own session, judged as that would have, and once."""
    process = start(slurm, tmp_path, "20260101T000000Z-killed", "sleep 3")
    assert until(lambda: queued(slurm, "R"), 60)
    assert until(lambda: list((tmp_path / "stage").rglob("tenken-job.json")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert until(lambda: not slurm.slurm("squeue", "-h", "-t", "R,PD,CG"), 60)
    assert whole(tmp_path / "perflogs") == []
    outcome = run(RFM_STAGE_DIR=str(tmp_path / "stage" / "20260101T000000Z-test"))
    said = r"left by an earlier session: ProbeOne on nid\d of session 20260101T000000Z-killed: RECORDED, archived"
    assert len(re.findall(said, outcome.output)) == 1, outcome.output
    found = {record.session: record for record in whole(tmp_path / "perflogs")}
    assert sorted(found) == ["20260101T000000Z-killed", "20260101T000000Z-test"]
    taken, own = found["20260101T000000Z-killed"], found["20260101T000000Z-test"]
    assert (taken.verdict, taken.job.exit_code, taken.job.facts) == ("RECORDED", 0, {"adopted": True})
    assert (taken.judgement.judged.keys(), taken.time < own.time) == (own.judgement.judged.keys(), True)
    assert list(orphans.adopt(tmp_path / "stage", tmp_path / "perflogs")) == []


def test_a_performance_log_that_cannot_be_written_ends_no_session(run, slurm, tmp_path):
    """A folder in its place fails as a full disk does (test_logs.py has that error); ReFrame's own handler ended the
    session with jobs running."""
    log = tmp_path / "perflogs" / "minislurm" / "gpu" / "ProbeOne.log"
    log.mkdir(parents=True)
    outcome = run("--distribute=idle")
    assert len(outcome.records) == 4, outcome.output
    assert "Traceback" not in outcome.output and "KeyError" not in outcome.output
    assert re.search(rf"tenken: {log}: \d+ bytes not written: Is a directory", outcome.output), outcome.output
    assert slurm.slurm("squeue", "-h") == ""


def test_a_job_costs_little_on_the_machine_that_submits(run, tmp_path):
    """CPU time of ReFrame and of all commands of Slurm that it runs, its start included: 0.068 s a job for 200."""
    count = 60
    check = tmp_path / "many.py"
    check.write_text(
        "import reframe as rfm\n"
        "from reframe.core.builtins import parameter\n"
        "from tests.cluster.probes.probes import ProbeOne\n\n"
        "@rfm.simple_test\n"
        "class ProbeMany(ProbeOne):\n"
        f"    number = parameter(range({count}))\n"
        "    exclusive_access = False\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = run("-c", str(check), check="ProbeMany")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert outcome.code == 0 and len(outcome.records) == count, outcome.output
    assert (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / count < 0.10
