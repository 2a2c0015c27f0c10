"""Faults of a real Slurm: jobs that run twice, wait for every kind of reason, are half submitted, or lose their
session.

Rows share the cluster of test_slurm.py; a row that only waits runs concurrently with others."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tenken.archive import verify
from tenken.paths import ROOT
from tenken.reframe import jobs, orphans, schedulers
from tenken.reframe.schedulers import polling
from tests.cluster.conftest import document, on_a_small_disk, write_document
from tests.cluster.test_slurm import only, start, stub, text, when_running, whole

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm faults")]


def until(true, seconds=30.0):
    """Waits for a condition; returns whether it was met."""
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
        # Slurm lets the node settle first, which would take two minutes
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


def test_an_array_and_a_heterogeneous_job_are_one_job_each(slurm, tmp_path, monkeypatch):
    """Without a session: only the back end queries the real controller."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    back_end = schedulers.slurm.Slurm.__new__(schedulers.slurm.Slurm)
    back_end.timeout, back_end.log = 20, lambda *words: None
    back_end._available_states = {"IDLE", "MIXED", "ALLOCATED"}
    batch = ["sbatch", "--parsable", "-J", "a", "-o", str(tmp_path / "out%a")]
    array = slurm.slurm(*batch, "--array=1-2", "--wrap", "sleep 1").split(";")[0].strip()
    het = slurm.slurm(*batch, "-N1", ":", "-N1", "--wrap", "sleep 1").split(";")[0].strip()
    waiting = []
    for number in (array, het):
        job = polling.PatientJob("a", workdir=str(tmp_path), script_filename="job.sh", stdout="out", stderr="err")
        job._jobid = number
        waiting.append(job)

    def ended():
        found = back_end.ask(waiting)
        assert set(found) <= {array, het}
        return len(found) == 2 and all(one is not None and one.ended for one in found.values())

    assert until(ended, 60.0), back_end.ask(waiting)
    found = back_end.ask(waiting)
    assert {one.state for one in found.values()} == {"COMPLETED"} and len(found[het].nodes) == 2
    nodes = list(back_end.allnodes())
    assert nodes and any(map(back_end.is_node_avail, nodes))


def test_a_requeue_is_refused_and_the_job_goes_on(run, slurm):
    said = []
    watcher = when_running(slurm, lambda job: said.append(slurm.slurm("scontrol", "requeue", job)))
    outcome = run(command="sleep 3")
    watcher.join()
    assert outcome.code == 0, outcome.output
    assert said and said[0]


def test_a_job_that_is_suspended_is_invalid(run, slurm):
    def suspend(job):
        slurm.slurm("scontrol", "suspend", job)
        time.sleep(5)
        slurm.slurm("scontrol", "resume", job)

    watcher = when_running(slurm, suspend)
    record = only(run(command="sleep 6"))
    watcher.join()
    assert record.verdict == "INVALID", text(record)
    assert "the scheduler suspended the job while it ran: run it again" in text(record)


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
    """The same holds before a maintenance reservation: both would have been considered broken nodes."""
    slurm.slurm(
        "scontrol", "create", "reservation", "reservationname=maint", "starttime=now+20", "duration=10",
        "users=root", "nodes=ALL", "flags=maint",
    )  # fmt: skip
    process = start(slurm, tmp_path, "20260101T000000Z-wait", "true")
    try:
        assert until(lambda: "ReqNodeNotAvail" in slurm.slurm("squeue", "-h", "-t", "PD", "-o", "%r"), 60)
        time.sleep(8)  # longer than the patience for a blocked job
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
    said = r"nid3: .*state CANCELLED .blocked in the queue: .*; nid3 is drain\w*\*? \(fan\)"
    assert re.search(said, text(found["nid3"])), text(found["nid3"])


def test_a_job_that_an_administrator_moves_is_no_measurement_of_its_node(run, slurm):
    slurm.slurm("scontrol", "update", "node=nid1", "state=drain", "reason=fan")

    def move():
        assert until(lambda: queued(slurm), 60)
        slurm.slurm("scontrol", "update", f"job={queued(slurm)[0]}", "ReqNodeList=nid2")

    watcher = threading.Thread(target=move)
    watcher.start()
    record = only(run("--job-option=-w nid1", TENKEN_PATIENCE="blocked=00:01:00"))
    watcher.join()
    assert (record.verdict, record.nodes) == ("INVALID", ("nid2",)), text(record)
    assert "nid1: the job ran on nid2 and not on nid1, which it was made for: run it again" in text(record)


def test_a_job_in_a_partition_that_is_down_is_taken_out(run, slurm):
    slurm.slurm("scontrol", "update", "partition=gpu", "state=down")
    record = only(run())
    assert record.verdict == "FAIL"
    assert "any node of partition gpu: the job did not run to its end: state CANCELLED (blocked in the queue:" in text(
        record
    )
    assert "PartitionDown" in text(record) and slurm.slurm("squeue", "-h") == ""


# -- it is submitted --


def test_a_job_for_what_no_node_has_fails_in_slurm_s_words(run):
    record = only(run("--job-option=--constraint=nosuch"))
    assert record.verdict == "FAIL"
    assert re.search("not submitted: .*Invalid feature specification", text(record))


def test_a_refused_job_names_the_node_that_was_asked_for(run):
    record = only(run("--job-option=-w nid3", TENKEN_QUEUE="nosuch"))
    assert (record.verdict, record.nodes) == ("FAIL", ("nid3",))
    assert re.search("^nid3: .*not submitted: .*nvalid partition", text(record))


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


# -- nothing is heard of it --


def silent(tmp_path, slurm):
    """PATH on which neither the controller nor accounting answers."""
    path = stub(
        tmp_path, slurm, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    )
    (tmp_path / "stub" / "sacct").write_text("#!/bin/sh\necho 'sacct: error: Connection refused' >&2; exit 1\n")
    (tmp_path / "stub" / "sacct").chmod(0o755)
    return path


def test_in_silence_the_end_mark_counts(run, slurm, tmp_path):
    outcome = run(PATH=silent(tmp_path, slurm), TENKEN_PATIENCE="silence=00:00:12")
    assert outcome.code == 0, outcome.output
    assert "COMPLETED (by its own end mark; no answer from the scheduler for" in only(outcome).job.state


def test_in_silence_a_job_that_goes_on_is_cancelled(run, slurm, tmp_path):
    record = only(
        run(command="sleep 120", PATH=silent(tmp_path, slurm), TENKEN_PATIENCE="silence=00:00:03,cancel=00:00:03")
    )
    assert record.verdict == "FAIL"
    assert "no answer from the scheduler for 00:00:0" in text(record)
    assert until(lambda: slurm.slurm("squeue", "-h") == "", 15)


def test_the_controller_restarts_under_a_job(run, slurm, tmp_path):
    """The job waits until it is back."""

    def restart(job):
        slurm.stop_controller(signal.SIGTERM)
        time.sleep(2)
        slurm.start_controller()
        (tmp_path / "back").touch()

    watcher = when_running(slurm, restart)
    outcome = run(command=f"until [ -e {tmp_path}/back ]; do sleep 0.2; done")
    watcher.join()
    assert outcome.code == 0, outcome.output
    assert only(outcome).job.state == "COMPLETED"


def test_a_night_goes_on_while_the_controller_restarts(slurm, tmp_path):
    """The whole of nightly.sh: it ends, its log states how, no job is left, and the next one starts clean."""
    folder = tmp_path / "checkout"
    for name in ("examples", "scripts"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "checks").mkdir()
    (folder / "checks" / "night.py").write_text(
        "import reframe as rfm\n"
        "from tests.cluster.probes.probes import ProbeOne\n\n"
        "@rfm.simple_test\n"
        "class ProbeNight(ProbeOne):\n"
        "    tags = {'nightly'}\n"
    )
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").write_text("")
    begun = tmp_path / "begun"

    def night(command):
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_"))}, **slurm.environment,
            "PATH": f"{Path(sys.executable).parent}:{slurm.environment['PATH']}",
            "RFM_CONFIG_PATH": str(ROOT / "config"), "RFM_COLORIZE": "n", "RFM_STAGE_DIR": str(folder / "stage"),
            "RFM_OUTPUT_DIR": str(folder / "output" / "reframe"), "TENKEN_ARCHIVE": str(folder / "perflogs"),
            "TENKEN_LOCKS": os.environ["TENKEN_LOCKS"], "TENKEN_TEST_DOCUMENT": write_document(tmp_path),
            "TENKEN_TEST_COMMAND": command, "TENKEN_LIMIT": "240s", "HOME": str(tmp_path),
        }  # fmt: skip
        script = str(folder / "examples" / "nightly" / "nightly.sh")
        return subprocess.Popen(
            [script, "minislurm", "-n", "ProbeNight"], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    process = night(f"touch {begun}; sleep 8")
    assert until(begun.exists, 240), process.communicate(timeout=300)
    slurm.stop_controller(signal.SIGTERM)
    time.sleep(6)
    slurm.start_controller()
    said, _ = process.communicate(timeout=240)
    logs = sorted((folder / "output" / "nightly").glob("*.log"))
    told = said + logs[0].read_text()
    assert [r.verdict for r in whole(folder / "perflogs")] == ["RECORDED"], told
    # a gate without history judges nothing, and states so
    assert process.returncode == 3 and "ProbeNight" in told, told
    assert until(lambda: slurm.slurm("squeue", "-h") == "", 20)
    again = night("true")
    said, _ = again.communicate(timeout=240)
    assert [r.verdict for r in whole(folder / "perflogs")] == ["RECORDED", "RECORDED"], said


def kill_the_controller(slurm, back_after):
    """When the first job runs, before its start is on disk: Slurm writes its state every five seconds."""
    until(lambda: queued(slurm, "R"), 60)
    slurm.stop_controller()
    time.sleep(back_after)
    slurm.start_controller()


def test_jobs_that_end_while_a_killed_controller_has_lost_them_are_whole(run, slurm):
    """One is considered pending, started again and cancelled; the others, submitted after it, are unknown."""
    watcher = threading.Thread(target=kill_the_controller, args=(slurm, 4))
    watcher.start()
    outcome = run("--distribute=all", command="sleep 2", TENKEN_PATIENCE="submission=00:01:00,blocked=00:03:00")
    watcher.join()
    assert outcome.code == 0, outcome.output
    assert sorted(record.nodes[0] for record in outcome.records) == ["nid1", "nid2", "nid3", "nid4"]


def test_jobs_that_a_killed_controller_cuts_off_are_invalid(slurm, run, tmp_path):
    """Two jobs for one node, both forgotten: the first one runs, and is killed; the second one has not begun, and is
    resubmitted. It may get the number of the first one, which its node may refuse."""
    began, back, noted = tmp_path / "began", tmp_path / "back", slurm.noted()

    def restart():
        if until(lambda: began.exists() and queued(slurm, "PD"), 180):
            slurm.lose_since(noted)
        back.touch()

    watcher = threading.Thread(target=restart)
    watcher.start()
    outcome = run(
        "--job-option=-w nid2", "--repeat=2",
        command=f"[ -e {back} ] || {{ touch {began}; until [ -e {back} ]; do sleep 1; done; sleep 20; }}",
        TENKEN_PATIENCE="submission=00:01:00,output=00:00:08,blocked=00:03:00",
    )  # fmt: skip
    watcher.join()
    assert len(outcome.records) == 2, outcome.output
    first, second = sorted(outcome.records, key=lambda record: "submitted_again" in record.job.facts)
    lost = "nid2: the scheduler lost the job, as after a crash of its controller: "
    assert first.verdict == "INVALID" and text(first).startswith(lost), (text(first), first.job)
    assert "which had not started" in second.job.facts["submitted_again"], (text(second), second.job)
    assert second.verdict == "RECORDED" or text(second).startswith(lost), (text(second), second.job)


def test_jobs_with_the_numbers_of_jobs_that_the_controller_lost_run_all_the_same(slurm, run, tmp_path):
    """Another user's jobs still run, so nodes refuse some of ours: these are resubmitted."""
    noted = slurm.noted()
    for node in ("nid1", "nid2", "nid3", "nid4"):
        slurm.slurm("sbatch", "-w", node, "-o", "/dev/null", "--wrap", "sleep 60")
    assert until(lambda: len(queued(slurm, "R")) == 4)
    numbers = set(queued(slurm, "R"))
    slurm.lose_since(noted)
    outcome = run("--distribute=all", TENKEN_PATIENCE="submission=00:01:00,blocked=00:03:00")
    found = {record.nodes[0]: record for record in outcome.records}
    assert sorted(found) == ["nid1", "nid2", "nid3", "nid4"], outcome.output
    assert {record.verdict for record in found.values()} == {"RECORDED"}, [text(r) for r in found.values()]
    given = {record.job.id for record in found.values()}
    given |= {re.findall(r"\d+", record.job.facts.get("submitted_again", "0"))[0] for record in found.values()}
    assert numbers & given, (numbers, given)


# -- it loses something --


def test_jobs_that_lose_program_script_or_output(run, tmp_path):
    """Each in its own job, concurrently in one session; a healthy one among them passes."""
    commands = {
        "healthy": "true",
        "crash": "kill -SEGV $$",
        "killed": "kill -9 $PPID; sleep 60",
        "half": "head -c 200 result.json > half; mv half result.json",
        "output": "rm rfm_job.out",
    }
    for name, command in commands.items():
        folder = tmp_path / "cases" / name
        folder.mkdir(parents=True)
        (folder / "document.json").write_text(json.dumps(document()))
        (folder / "command").write_text(command)
        (folder / "time_limit").write_text("1m")
    outcome = run(
        "-c", "tests/reframe/checks/doctored", check="DoctoredCases", TENKEN_TEST_CASES=str(tmp_path / "cases")
    )
    found = {str(record.parameters["case"]): record for record in outcome.records}
    assert {name: record.verdict for name, record in found.items()} == {
        name: "RECORDED" if name == "healthy" else "FAIL" for name in commands
    }
    words = {
        "crash": "daxpy exited with 139", "killed": "no end mark in its output", "half": "result.json: ",
        "output": "no end mark in its output",
    }  # fmt: skip
    for name, said in words.items():
        assert re.search(rf"^nid\d+: .*{said}", text(found[name])), (name, text(found[name]))


def test_a_node_whose_spool_disk_is_full_fails_by_name(run, slurm):
    if not slurm.namespace:
        pytest.skip("no mount namespace here: unshare --mount must work")
    slurm.restart_node("nid3", full_spool=True)
    try:
        found = {record.nodes[0]: record for record in run("--distribute=all").records}
    finally:
        slurm.restart_node("nid3")
    assert {node: record.verdict for node, record in found.items()} == {
        "nid1": "RECORDED", "nid2": "RECORDED", "nid3": "FAIL", "nid4": "RECORDED",
    }  # fmt: skip
    assert text(found["nid3"]).startswith("nid3: ")


def test_a_node_that_does_not_see_the_stage_folder_fails_by_name(run, slurm, tmp_path):
    """Slurm cannot open the output there. If a site puts the output elsewhere, the script runs, and ends at its first
    line in the folder that Slurm chose instead, or in the home folder."""
    if not slurm.namespace:
        pytest.skip("no mount namespace here: unshare --mount must work")
    stage, home = tmp_path / "stage", tmp_path / "home"
    for folder in (stage, home):
        folder.mkdir()
    (home / "result.json").write_text("mine")
    slurm.restart_node("nid3", unseen=stage)
    try:
        found = {r.nodes[0]: r for r in run("--distribute=all", HOME=str(home)).records}
        apart = f"--job-option=--output={tmp_path}/out-%N"
        shutil.rmtree(tmp_path / "perflogs")
        there = only(run("--job-option=-w nid3", apart, "--job-option=--error=/dev/null", HOME=str(home)))
        shutil.rmtree(tmp_path / "perflogs")
        two = only(run("--job-option=-w nid2,nid3", check="ProbeTwo", ranks=2, HOME=str(home)))
    finally:
        slurm.restart_node("nid3")
    assert {node: record.verdict for node, record in found.items()} == {
        "nid1": "RECORDED", "nid2": "RECORDED", "nid3": "FAIL", "nid4": "RECORDED",
    }  # fmt: skip
    said = rf"nid3: node nid3 does not see {stage}/\S+"
    assert re.fullmatch(rf"{said}: Slurm could not open the job's output there \(ExitCode 0:53\)", text(found["nid3"]))
    assert there.verdict == "FAIL" and re.fullmatch(said, text(there)), text(there)
    assert there.job.exit_code == 200 and there.nodes == ("nid3",)
    assert (tmp_path / "out-nid3").read_text() == "TENKEN-NOSTAGE node=nid3\n"
    # the script runs on the first node, a rank on the other one
    assert two.verdict == "FAIL" and re.fullmatch(said.replace("nid3", "nid2,nid3", 1), text(two)), text(two)
    assert {path.name: path.read_text() for path in home.iterdir()} == {"result.json": "mine"}


def test_an_archive_that_fills_while_jobs_run_costs_none_of_them(run, slurm, small_disks, tmp_path):
    """It is full from the first query on; the next session archives what was measured."""
    fill = f'cat /dev/zero > {tmp_path}/perflogs/fill 2>/dev/null; exec $REAL "$@"'
    outcome = run(
        "--distribute=all", PATH=stub(tmp_path, slurm, "squeue", fill),
        before=on_a_small_disk(tmp_path / "perflogs", False),
    )  # fmt: skip
    assert outcome.code == 1 and "Finished on" in outcome.output, outcome.output
    assert "cannot write to the archive: No space left on device" in outcome.output
    assert "Traceback" not in outcome.output
    assert slurm.slurm("squeue", "-h") == ""
    assert len(list(orphans.adopt(tmp_path / "stage", tmp_path / "kept"))) >= 4
    kept = {record.nodes[0]: record.verdict for record in whole(tmp_path / "kept")}
    assert kept == dict.fromkeys(["nid1", "nid2", "nid3", "nid4"], "RECORDED")


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
    assert re.search(r"not confirmed, job \d+ may still exist: scancel ended with 1", text(record)), text(record)


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
    """Judged as its own session would have done, and only once."""
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
    assert (taken.verdict, taken.job.exit_code, taken.job.facts["adopted"]) == ("RECORDED", 0, True)
    assert list(taken.job.facts["sha256"]) == ["result.json"]
    sealed = verify.check(tmp_path / "perflogs")
    assert (sealed.faults, sealed.unsealed, sealed.sealed) == ([], [], 2)
    assert (taken.judgement.judged.keys(), taken.time < own.time) == (own.judgement.judged.keys(), True)
    assert list(orphans.adopt(tmp_path / "stage", tmp_path / "perflogs")) == []


def test_a_performance_log_that_cannot_be_written_ends_no_session(run, slurm, tmp_path):
    """A folder in its place fails as a full disk does (test_logs.py has that error); with ReFrame's own handler the
    session ended with jobs running."""
    log = tmp_path / "perflogs" / "minislurm" / "gpu" / "ProbeOne.log"
    log.mkdir(parents=True)
    outcome = run("--distribute=idle")
    assert len(outcome.records) == 4, outcome.output
    assert "Traceback" not in outcome.output and "KeyError" not in outcome.output
    assert re.search(rf"tenken: {log}: \d+ bytes not written: Is a directory", outcome.output), outcome.output
    assert slurm.slurm("squeue", "-h") == ""


def test_a_job_costs_little_on_the_machine_that_submits(run, tmp_path):
    """CPU time of ReFrame and of all Slurm commands that it runs: 0.068 s per job for 200, including the start. It is
    compared with the CPU time of a start, because a virtual machine may be half as fast an hour later. A start takes
    0.40 s, a job among 60 takes 0.085 s. Other tests on the same cores can only increase it (once 0.113 s): the lowest
    of up to three runs counts.
    """
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

    def cpu_seconds() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    found = []
    for _ in range(3):
        times = [cpu_seconds()]
        for _ in range(2):
            subprocess.run(["reframe", "--version"], check=True, capture_output=True)
            times.append(cpu_seconds())
        outcome = run("-c", str(check), check="ProbeMany")
        whole = cpu_seconds() - times[-1]
        assert outcome.code == 0 and len(outcome.records) == count * (len(found) + 1), outcome.output
        start = min(times[1] - times[0], times[2] - times[1])
        found.append((whole - start) / count / start)
        if found[-1] < 0.3:
            return
    raise AssertionError(f"a job costs {found} of a start; at most 0.3")


# -- hooks of the nodes --


@pytest.fixture
def hooked(slurm, tmp_path):
    """Gives the nodes a Prolog or an Epilog; both are removed afterwards, and release what they hold."""
    before = slurm.conf.read_text()

    def configure(text):
        slurm.conf.write_text(text)
        slurm.slurm("scontrol", "reconfigure")

    def hook(name, body):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        configure(f"{before}{name}={program}\n")

    yield hook
    (tmp_path / "over").touch()
    configure(before)


def test_a_hung_epilog_costs_no_measurement_and_names_the_node(run, slurm, tmp_path, hooked):
    hooked("Epilog", f'[ "$SLURMD_NODENAME" != nid1 ] || until [ -e {tmp_path}/over ]; do sleep 0.2; done')
    record = only(run(TENKEN_PATIENCE="blocked=00:00:04"))
    assert (record.verdict, record.nodes) == ("RECORDED", ("nid1",)), text(record)
    assert re.search(r"COMPLETED \(by its own end mark; COMPLETING on nid1 for 00:00:0\d\)", record.job.state)
    assert "nid1" in slurm.slurm("squeue", "-h", "-t", "CG", "-o", "%N")


def test_a_prolog_that_fails_names_node_and_reason(run, slurm, hooked):
    hooked("Prolog", '[ "$SLURMD_NODENAME" != nid1 ]')
    record = only(run(TENKEN_PATIENCE="blocked=00:00:04,output=00:00:05"))
    assert (record.verdict, record.nodes) == ("FAIL", ("nid1",)), text(record)
    assert "rolog" in text(record)
