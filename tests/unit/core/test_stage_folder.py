"""A node that does not see the stage folder: its script removes and writes nothing, and the finding names the node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from reframe.core.schedulers import Job

from tenken.machines.model import Patience
from tenken.model.job_exit import NO_STAGE
from tenken.reframe import joblines, stages
from tenken.reframe.outcome import Outcome
from tenken.reframe.schedulers import gridengine, pbs, remote, slurm
from tenken.reframe.schedulers.polling import Follower, PatientJob, Seen

OUTPUTS = ["result.json", "HPCG*.txt", "a b"]
NAMES = [
    "plain",
    "with blank",
    "it's",
    'a "quote"',
    "$HOME",
    "$(touch pwned)",
    "`touch pwned`",
    "s*r",
    "a\nb",
    "-f",
    "\\",
]


def script(folder: Path) -> str:
    """The lines of a check's job, as every back end has them after its directives."""
    return "\n".join([
        joblines.enter(str(folder)), *joblines.begin(False, "t", str(folder), OUTPUTS), *joblines.command_begin(),
        "echo measured > written", *joblines.command_end(), *joblines.end(),
    ])  # fmt: skip


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def home_in(folder: Path) -> Path:
    """A home folder with files whose names a job also writes."""
    home = folder / "home"
    home.mkdir()
    for name in ("result.json", "HPCG_1.txt", "a b", "keep"):
        (home / name).write_text("mine")
    return home


def run(shell: str, text: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shell, "-c", text], cwd=home, env={"PATH": "/usr/bin:/bin", "HOME": str(home)}, capture_output=True, text=True
    )


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_removed_or_written_where_the_stage_folder_is_not_seen(tmp_path, shell, name):
    home = home_in(tmp_path)
    before = content(home)
    done = run(shell, script(tmp_path / name / "stage"), home)
    assert done.returncode == NO_STAGE and content(home) == before
    assert joblines.report(done.stdout, "t").unseen and not joblines.report(done.stdout, "t").attempts
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("name", NAMES)
def test_only_what_lies_below_the_own_stage_folder_is_removed(tmp_path, shell, name):
    home, stage = home_in(tmp_path), tmp_path / name
    before = content(home)
    stage.mkdir()
    for left in ("result.json", "HPCG_1.txt", "a b", "keep"):
        (stage / left).write_text("left")
    done = run(shell, script(stage), home)
    assert done.returncode == 0, done.stderr
    assert content(home) == before
    assert set(content(stage)) == {"keep", "written", joblines.ATTEMPTS_FILE}


def test_a_folder_that_cannot_be_entered_is_not_seen(tmp_path):
    home, stage = home_in(tmp_path), tmp_path / "file"
    stage.write_text("no folder")
    assert run("sh", script(stage), home).returncode == NO_STAGE


def test_an_absolute_path_is_removed_even_where_a_site_s_lines_went_elsewhere(tmp_path):
    home, stage = home_in(tmp_path), tmp_path / "stage"
    before = content(home)
    stage.mkdir()
    (stage / "result.json").write_text("left")
    run("sh", "\n".join(joblines.begin(False, "t", str(stage), OUTPUTS)[:1]), home)
    assert content(home) == before and content(stage) == {}


@pytest.mark.parametrize("name", ["/etc/hosts", "../other", "a/../../b", ""])
def test_an_output_outside_of_the_stage_folder_is_refused(name):
    with pytest.raises(ValueError, match="only files below the stage folder '/stage' are removed"):
        joblines.begin(False, "t", "/stage", [name])
    with pytest.raises(ValueError, match="only files below"):
        joblines.begin(False, "t", "stage", ["result.json"])


def test_a_rank_on_such_a_node_ends_with_its_name(tmp_path):
    done = run("sh", f"{joblines.around_rank(str(tmp_path / 'no here'))} echo ran", home_in(tmp_path))
    assert done.returncode == NO_STAGE and "ran" not in done.stdout
    text = f"TENKEN-BEGIN token=t node=n1 time=1 job=7\nTENKEN-NODES n1,n2\n{done.stdout}"
    assert len(joblines.report(text, "t").unseen) == 1


def test_a_later_attempt_that_sees_it_counts():
    text = "TENKEN-NOSTAGE node=n1\nTENKEN-BEGIN token=t node=n2 time=1 job=7\n"
    assert joblines.report(text, "t").unseen == ()


def test_every_script_of_reframe_begins_so(tmp_path, monkeypatch):
    """Before the site's own lines, and for any back end, since they share this method."""
    told = []
    monkeypatch.setattr(Job, "prepare", lambda self, *arguments, **options: told.append((arguments, options)))
    stages.register()
    job = PatientJob("probe", workdir="/a b/stage", script_filename="job.sh", stdout="out", stderr="err")
    job.prepare(["echo"], ["environment"], ["site's line"], login=True)
    job.prepare(["echo"])
    ((commands, environs, first), options), (second, _) = told
    assert (commands, environs, options) == (["echo"], ["environment"], {"login": True})
    assert first == [joblines.enter("/a b/stage"), "site's line"] and second[2] == first[:1]


# -- the result --


def followed(folder: Path, *answers: Seen, token: str | None = "t", output: str | None = None) -> PatientJob:
    """A job after the scheduler's answers."""
    now = [1000.0]
    job = PatientJob("probe", workdir=str(folder), script_filename="job.sh", stdout="out", stderr="err")
    job._jobid, job._submit_time, job.token = "7", now[0], token
    if output is not None:
        (folder / "out").write_text(output)
    follower = Follower(Patience(output=30), lambda job: None, lambda: now[0])
    for answer in [*answers, answers[-1]]:
        now[0] += 40
        follower.update([job], {"7": answer})
    assert job.completed
    return job


def outcome(folder: Path, job: PatientJob) -> Outcome:
    return Outcome(
        folder, "out", "err", "t", False, str(job.state), job.exitcode, job.scheduler_facts,
        known=tuple(job.nodelist), place="any node of partition p",
    )  # fmt: skip


#: As Slurm 22.05.8 listed a job whose node did not see the folder of its output: error 4021 in place of a wait status.
SQUEUE = "7|FAILED|4021|pn2|gpu|0|JobLaunchFailure|2026-11-22T10:00:00|probe|tenken/s/t"
SACCT = "7|FAILED|0:53|pn2|2026-11-22T10:00:00|probe"
#: The script's own status, if a site puts the output elsewhere.
OWN_SQUEUE, OWN_SACCT = SQUEUE.replace("|4021|", f"|{NO_STAGE << 8}|"), SACCT.replace("0:53", f"{NO_STAGE}:0")
PBS = {"job_state": "F", "Exit_status": NO_STAGE, "substate": 93, "exec_host": "pn2/0*8+pn1/0*8"}
#: In the form of sge_accounting(5) and sge_status(5).
QACCT = """==============================================================
qname        all.q
hostname     pn2
owner        user
jobname      probe
jobnumber    7
failed       {failed}
exit_status  {status}
"""
NO_OUTPUT = ": Slurm could not open the job's output there (ExitCode 0:53)"
ANSWERS = {
    "squeue": (lambda: slurm.listed(SQUEUE)["7"], NO_OUTPUT),
    "sacct": (lambda: slurm.accounted(SACCT)["7"], NO_OUTPUT),
    "squeue, of the script": (lambda: slurm.listed(OWN_SQUEUE)["7"], ""),
    "sacct, of the script": (lambda: slurm.accounted(OWN_SACCT)["7"], ""),
    "qstat -xf": (lambda: pbs.seen(PBS), ""),
    "qacct": (lambda: gridengine.accounted(QACCT.format(failed=0, status=NO_STAGE), "probe"), ""),
    "qacct, not started": (
        lambda: gridengine.accounted(QACCT.format(failed="28  : changing into working directory", status=0), "probe"),
        ": Grid Engine: failed 28  : changing into working directory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_finding_names_the_node_of_the_scheduler_s_record(tmp_path, answer):
    seen, why = ANSWERS[answer]
    found = outcome(tmp_path, followed(tmp_path, Seen("RUNNING"), seen()))
    assert found.exit_status(1) == (None, f"node pn2 does not see {tmp_path}{why}")
    assert found.where.split(",")[0] == "pn2"


def test_the_error_that_slurm_has_in_place_of_a_wait_status_is_no_exit_code():
    assert slurm.listed(SQUEUE)["7"].exit_code == slurm.accounted(SACCT)["7"].exit_code == 0
    assert slurm.listed(OWN_SQUEUE)["7"].exit_code == slurm.accounted(OWN_SACCT)["7"].exit_code == NO_STAGE


def test_a_board_is_named_by_its_host(tmp_path):
    job = followed(tmp_path, remote.seen(NO_STAGE))
    job._nodelist = ["board"]
    assert outcome(tmp_path, job).exit_status(1)[1] == f"node board does not see {tmp_path}"


def test_without_a_record_the_job_s_own_line_names_it(tmp_path):
    """NQSV has no record; the scheduler copies back what the job printed."""
    job = followed(tmp_path, Seen("COMPLETED (no longer listed)", ended=True), output="TENKEN-NOSTAGE node=pg2\n")
    assert outcome(tmp_path, job).exit_status(1)[1] == f"node pg2 does not see {tmp_path}"
    assert outcome(tmp_path, job).nodes == ("pg2",)


def test_the_node_of_a_rank_is_named_among_those_of_the_job(tmp_path):
    (tmp_path / "out").write_text(
        "TENKEN-BEGIN token=t node=n1 time=1 job=7\nTENKEN-NODES n1,n2\nTENKEN-RUN begin node=n1 time=2\n"
        "TENKEN-RANK host=n1\nTENKEN-NOSTAGE node=n2\nTENKEN-RUN end node=n1 time=3 status=200\n"
        "TENKEN-END token=t status=200 nodes=n1,n2 node=n1 time=4\n"
    )
    found = Outcome(tmp_path, "out", "err", "t", True, "FAILED", 200, known=("n1", "n2"))
    assert found.unseen == f"node n2 does not see {tmp_path}"


def test_a_program_of_that_status_is_not_taken_for_it(tmp_path):
    (tmp_path / "out").write_text("TENKEN-BEGIN token=t node=n1 time=1 job=7\nTENKEN-NODES n1\n")
    job = followed(tmp_path, Seen("FAILED", ended=True, exit_code=NO_STAGE, nodes=("n1",)))
    assert outcome(tmp_path, job).unseen is None and "unseen" not in job.scheduler_facts


def test_a_build_reports_the_node_and_not_the_status_alone(tmp_path):
    """ReFrame ends a build whose job has another exit code than 0 before anything is read."""
    job = followed(tmp_path, Seen("COMPLETED", ended=True, exit_code=NO_STAGE, nodes=("pn2",)), token=None)
    assert job.exitcode is None and "unseen" in job.scheduler_facts


def test_an_accounting_entry_of_another_job_with_that_number_does_not_count():
    assert gridengine.accounted(QACCT.format(failed=0, status=0), "other") is None
    killed = gridengine.accounted(QACCT.format(failed="37  : qmaster enforced", status="137    (Killed)"), "probe")
    assert killed is not None and killed.exit_code == 137
    assert gridengine.accounted("error: job id 7 not found", "probe") is None
