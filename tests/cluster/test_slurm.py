"""The suite on a real Slurm: every way in which a job can end, and the resulting verdict.

All in one xdist group: there is one cluster, and most tests need exclusive use of it."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tenken.archive import records as archive
from tests.cluster.conftest import HOME, IMPATIENT, write_document
from tests.cluster.minislurm import MiniSlurm, PortTakenError
from tests.support.reframe import Outcome

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]


def only(outcome: Outcome) -> archive.Record:
    assert len(outcome.records) == 1, outcome.output
    return outcome.records[0]


def text(record: archive.Record) -> str:
    return " ".join(finding.message for finding in record.findings)


def when_running(slurm: MiniSlurm, act: Callable[[str], object]) -> threading.Thread:
    """Applies an action to the first running job, by its number."""

    def watch() -> None:
        until = time.time() + 60
        while time.time() < until:
            jobs = slurm.slurm("squeue", "-h", "-t", "R", "-o", "%i").split()
            if jobs:
                time.sleep(0.5)
                act(jobs[0])
                return
            time.sleep(0.1)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


# -- it runs --


def test_a_good_run_passes_and_names_its_node(run):
    outcome = run()
    assert outcome.code == 0, outcome.output
    record = only(outcome)
    assert (record.verdict, record.job.state, record.job.exit_code) == ("RECORDED", "COMPLETED", 0)
    assert re.fullmatch(r"nid[1-4]", record.nodes[0])


def test_srun_runs_a_rank_on_each_of_two_nodes(run, tmp_path):
    command = f"uname -n > {tmp_path}/rank$SLURM_PROCID"
    outcome = run(check="ProbeTwo", command=command, ranks=2, RFM_STAGE_DIR=str(tmp_path / HOME))
    assert outcome.code == 0, outcome.output
    found = {(tmp_path / f"rank{rank}").read_text().strip() for rank in (0, 1)}
    assert found == set(only(outcome).nodes)
    assert len(found) == 2


def test_mpirun_runs_a_rank_on_each_of_two_nodes(run, tmp_path):
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        "import reframe as rfm\n"
        "from reframe.core.backends import getlauncher\n"
        "from reframe.core.builtins import run_before\n"
        "from tenken.reframe import joblines\n"
        "from tests.cluster.probes.probes import ProbeTwo\n\n"
        "@rfm.simple_test\n"
        "class ProbeMpirun(ProbeTwo):\n"
        "    @run_before('run')\n"
        "    def use_mpirun(self):\n"
        "        self.job.launcher = getlauncher('mpirun')()\n"
        "        options = ['--map-by', 'ppr:1:node', '--allow-run-as-root', '--oversubscribe']\n"
        "        self.job.launcher.options = [*options, joblines.around_rank(self.stagedir)]\n"
        "        self.env_vars['OMPI_MCA_btl'] = 'self,tcp'\n"
    )
    outcome = run(
        "-c", str(launcher), check="ProbeMpirun", ranks=2,
        command=f"uname -n > {tmp_path}/rank$OMPI_COMM_WORLD_RANK",
    )  # fmt: skip
    assert outcome.code == 0, outcome.output
    assert (tmp_path / "rank0").is_file() and (tmp_path / "rank1").is_file()
    assert len(only(outcome).nodes) == 2


def test_ten_ranks_at_four_a_node_are_ten_on_three_nodes(run, tmp_path):
    outcome = run(check="ProbeUneven", command=f"touch {tmp_path}/rank$SLURM_PROCID", ranks=10)
    assert outcome.code == 0, outcome.output
    assert len(list(tmp_path.glob("rank*"))) == 10
    assert len(only(outcome).nodes) == 3


def test_gpus_are_asked_for_and_given(run, tmp_path):
    check = tmp_path / "gpus.py"
    check.write_text(
        "import reframe as rfm\n"
        "from tests.cluster.probes.probes import ProbeOne\n\n"
        "@rfm.simple_test\n"
        "class ProbeFour(ProbeOne):\n"
        "    num_gpus_per_node = 4\n"
    )
    outcome = run("-c", str(check), check="ProbeFour", command=f'echo "$SLURM_JOB_GPUS" > {tmp_path}/gpus')
    assert outcome.code == 0, outcome.output
    assert (tmp_path / "gpus").read_text().strip() == "0,1,2,3"


def test_distribute_runs_on_each_node(run):
    outcome = run("--distribute=all")
    assert outcome.code == 0, outcome.output
    assert sorted(record.nodes[0] for record in outcome.records) == ["nid1", "nid2", "nid3", "nid4"]
    assert {record.base_check for record in outcome.records} == {"ProbeOne"}


def test_distribute_leaves_a_drained_node_out(run, slurm):
    slurm.slurm("scontrol", "update", "node=nid2", "state=drain", "reason=test")
    outcome = run("--distribute=avail")
    assert outcome.code == 0, outcome.output
    assert sorted(record.nodes[0] for record in outcome.records) == ["nid1", "nid3", "nid4"]


def test_flexible_node_counts_take_what_is_idle(run, slurm):
    slurm.slurm("scontrol", "update", "node=nid4", "state=drain", "reason=test")
    outcome = run("--flex-alloc-nodes=idle", check="ProbeFlexible", ranks=3)
    assert outcome.code == 0, outcome.output
    assert len(only(outcome).nodes) == 3


# -- it does not --


def test_a_program_that_fails_fails(run):
    record = only(run(command="exit 3"))
    assert (record.verdict, record.job.exit_code) == ("FAIL", 3)
    assert "exited with 3" in text(record)


def test_a_job_cancelled_by_someone_else_fails(run, slurm):
    watcher = when_running(slurm, lambda job: slurm.slurm("scancel", job))
    record = only(run(command="sleep 60"))
    watcher.join()
    assert record.verdict == "FAIL"
    assert "did not run to its end: state CANCELLED" in text(record)


def test_a_time_limit_and_a_node_that_dies_fail_jobs_by_name(slurm, tmp_path):
    """Concurrently, since Slurm takes long for both. Slurm reports exit code 0 for the job over its limit."""
    over = start(slurm, tmp_path / "over", "20260101T000000Z-over", "sleep 300")
    when_running(slurm, lambda job: None).join()
    (limited,) = slurm.slurm("squeue", "-h", "-t", "R", "-o", "%i").split()
    dying = start(slurm, tmp_path / "dying", "20260101T000000Z-dying", "sleep 300", TENKEN_TEST_TIME_LIMIT="5m")
    nodes = []
    both = start(
        slurm, tmp_path / "both", "20260101T000000Z-both", "sleep 300", "ProbeTwo", TENKEN_TEST_TIME_LIMIT="5m"
    )
    pair: list[str] = []
    while not nodes or not pair:
        lines = slurm.slurm("squeue", "-h", "-t", "R", "-o", "%i %N").splitlines()
        others = [line.split()[1] for line in lines if not line.startswith(f"{limited} ")]
        nodes, pair = [one for one in others if "[" not in one], [one for one in others if "[" in one]
        time.sleep(0.2)
    time.sleep(1)
    second = slurm.slurm("scontrol", "show", "hostnames", pair[0]).split()[1]
    slurm.kill_node(nodes[0])
    slurm.kill_node(second)
    outputs = [process.communicate(timeout=150)[0] for process in (dying, over, both)]
    assert dying.returncode and over.returncode and both.returncode
    (of_two,) = whole(tmp_path / "both" / "perflogs")
    assert (of_two.verdict, len(of_two.nodes)) == ("FAIL", 2), outputs
    assert re.search(rf"state NODE_FAIL.*{second} is down", text(of_two)), text(of_two)
    (died,), (expired,) = whole(tmp_path / "dying" / "perflogs"), whole(tmp_path / "over" / "perflogs")
    assert (died.verdict, expired.verdict) == ("FAIL", "FAIL"), outputs
    assert re.search(rf"{nodes[0]}: the job did not run to its end: (state NODE_FAIL|no end mark)", text(died))
    assert re.search(r"nid[1-4]: the job did not run to its end: state TIMEOUT", text(expired))


def test_a_job_whose_nodes_are_all_drained_is_taken_out(run, slurm):
    slurm.slurm("scontrol", "update", "node=nid[1-4]", "state=drain", "reason=test")
    record = only(run())
    assert record.verdict == "FAIL"
    assert "state CANCELLED (blocked in the queue: " in text(record)
    assert re.search("DRAINED|ReqNodeNotAvail", text(record))
    assert slurm.slurm("squeue", "-h") == ""


def test_a_job_that_waits_too_long_is_taken_out(run, slurm):
    subprocess.run(
        ["sbatch", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 60"],
        env={**os.environ, **slurm.environment}, check=True, capture_output=True,
    )  # fmt: skip
    record = only(run("-S", "max_pending_time=4s"))
    assert record.verdict == "FAIL"
    assert "state CANCELLED (still in the queue after 00:00:0" in text(record)


def stub(tmp_path: Path, slurm: MiniSlurm, command: str, body: str) -> str:
    """PATH with a misbehaving command in front; $REAL is the real one."""
    folder = tmp_path / "stub"
    folder.mkdir()
    real = f"/usr/bin/{command}"
    (folder / command).write_text(f"#!/bin/sh\nREAL={real}\nCOUNT={folder}/count\n{body}\n")
    (folder / command).chmod(0o755)
    return f"{folder}:{slurm.environment['PATH']}"


FAIL_TWICE = """
echo x >> $COUNT
if [ $(wc -l < $COUNT) -le {times} ]; then
  echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1
fi
exec $REAL "$@"
"""


def test_sbatch_that_fails_twice_is_tried_again(run, slurm, tmp_path):
    outcome = run(PATH=stub(tmp_path, slurm, "sbatch", FAIL_TWICE.format(times=2)))
    assert outcome.code == 0, outcome.output


def test_sbatch_that_keeps_failing_is_one_line(run, slurm, tmp_path):
    outcome = run(PATH=stub(tmp_path, slurm, "sbatch", FAIL_TWICE.format(times=99)))
    assert outcome.code != 0
    assert "Socket timed out on send/recv operation (" in outcome.output


def test_without_accounting_the_controller_tells(run, slurm):
    slurm.stop_accounting()
    outcome = run(command="sleep 1")
    assert outcome.code == 0, outcome.output
    assert only(outcome).job.state == "COMPLETED"


def test_with_the_controller_silent_for_a_while_accounting_tells(run, slurm, tmp_path):
    silent = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    # accounting is seconds behind on a busy machine, which is not a hung epilogue
    path = stub(tmp_path, slurm, "squeue", silent)
    outcome = run(PATH=path, command="sleep 1", TENKEN_PATIENCE="blocked=00:02:00")
    assert outcome.code == 0, outcome.output
    assert only(outcome).job.state == "COMPLETED"


REFUSALS = {
    "a queue that does not exist": ({"TENKEN_QUEUE": "nosuch"}, "nvalid partition"),
    "an account that the user is not in": ({"TENKEN_ACCOUNT": "other"}, "Invalid account"),
    "a walltime over the queue's limit": (
        {"TENKEN_QUEUE": "debug", "TENKEN_TEST_TIME_LIMIT": "20m"}, "PartitionTimeLimit|time limit is invalid",
    ),
    "a reservation that does not exist": ({"TENKEN_RESERVATION": "nosuch"}, "reservation is invalid"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_what_slurm_refuses_is_said_in_its_words(case, run, slurm):
    variables, words = REFUSALS[case]
    outcome = run(**variables)
    assert outcome.code != 0
    assert re.search(words, outcome.output), outcome.output
    assert "Traceback" not in outcome.output
    record = only(outcome)
    assert record.verdict == "FAIL" and re.search(
        rf"state CANCELLED .(not submitted|cannot run): .*({words})", text(record)
    )
    assert slurm.slurm("squeue", "-h") == ""


def test_no_scheduler_command_on_path_is_one_line(run, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for command in ("sh", "bash", "env", "uname", "hostname", "flock"):
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, command).exists() and not (bare / command).exists():
                (bare / command).symlink_to(Path(folder, command))
    venv = Path(sys.executable).parent
    outcome = run(PATH=f"{venv}:{bare}")
    assert outcome.code != 0
    assert "sbatch is not on PATH: run this on a node from which jobs are submitted (a login node)" in outcome.output


@pytest.fixture
def limited(slurm):
    """Limits the user; all limits are removed afterwards."""
    user = getpass.getuser()

    def limit(**values):
        words = [f"{name}={value}" for name, value in values.items()]
        slurm.slurm("sacctmgr", "-i", "modify", "user", user, "set", *words)
        until = time.time() + 20
        while time.time() < until:
            told = slurm.slurm("scontrol", "show", "assoc_mgr", f"users={user}", "flags=assoc")
            if all(
                value.split("=")[-1] in re.findall(rf"{name}=(?:cpu=)?(\w*)", told) for name, value in values.items()
            ):
                return
            time.sleep(0.2)
        raise AssertionError(told)

    yield limit
    slurm.slurm("sacctmgr", "-i", "modify", "user", user, "set", "MaxSubmitJobs=-1", "GrpTRESMins=cpu=-1")


def test_a_limit_of_jobs_is_waited_for(run, slurm, limited):
    limited(MaxSubmitJobs="2")
    outcome = run("--distribute=idle", command="sleep 4")
    assert [record.verdict for record in outcome.records] == ["RECORDED"] * 4, outcome.output
    assert re.search(r"job submit limit.*; 1 attempts, the last one after 00:02:00", outcome.output)


def test_a_spent_budget_is_told_and_not_waited_for(run, limited):
    limited(GrpTRESMins="cpu=1")
    record = only(run(TENKEN_PATIENCE=IMPATIENT))
    assert record.verdict == "FAIL"
    assert "blocked in the queue: AssocGrpCPUMinutesLimit" in text(record)


def test_a_clock_that_is_off_is_named(run, slurm, tmp_path):
    """`scancel` on a node whose clock is behind: the job seems to begin before it was submitted."""
    path = stub(tmp_path, slurm, "date", 'exec $REAL -d "$(cat ${0%/*}/off) seconds" "$@"')
    (tmp_path / "stub" / "off").write_text("-60")
    watcher = when_running(slurm, lambda job: slurm.slurm("scancel", job))
    record = only(run(command="sleep 60", PATH=path))
    watcher.join()
    assert (record.verdict, record.nodes) == ("FAIL", (record.nodes[0],))
    assert re.search(r"state CANCELLED; the clock of nid\d is at least \d\d s behind this host's", text(record))
    assert "lost the job" not in text(record)
    (tmp_path / "stub" / "off").write_text("+7200")
    shutil.rmtree(tmp_path / "perflogs")
    record = only(run(PATH=path))
    assert record.verdict == "RECORDED", text(record)
    assert re.search(r"the clock of nid\d is at least 7\d\d\d s ahead of this host's", text(record))


# -- people --


def whole(root: Path) -> list[archive.Record]:
    """All records of an archive, without partial files."""
    assert not list(root.rglob(".tmp-*"))
    return list(archive.records(root, None))


def start(
    slurm: MiniSlurm, folder: Path, session: str, command: str, check: str = "ProbeOne", **env: str
) -> subprocess.Popen[str]:
    """A session that continues while the test acts."""
    folder.mkdir(exist_ok=True)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_"))}, **slurm.environment,
        "PATH": f"{Path(sys.executable).parent}:{slurm.environment['PATH']}", "RFM_CONFIG_PATH": "config",
        "RFM_COLORIZE": "n", "RFM_STAGE_DIR": str(folder / "stage" / session),
        "RFM_OUTPUT_DIR": str(folder / "output" / session), "TENKEN_ARCHIVE": str(folder / "perflogs"),
        "TENKEN_LOCKS": os.environ["TENKEN_LOCKS"],
        "TENKEN_SESSION": session, "TENKEN_TEST_DOCUMENT": write_document(folder), "TENKEN_TEST_COMMAND": command,
        **env,
    }  # fmt: skip
    return subprocess.Popen(
        ["reframe", "-c", "tests/cluster/probes", "-r", "--system", "minislurm", "-n", check],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM of a hard time limit"])
def test_an_interrupted_session_cancels_its_jobs_and_leaves_a_whole_archive(number, slurm, tmp_path):
    process = start(slurm, tmp_path, "20260101T000000Z-one", "sleep 60")
    watcher = when_running(slurm, lambda job: process.send_signal(number))
    output, _ = process.communicate(timeout=60)
    watcher.join()
    assert process.returncode != 0
    until = time.time() + 15
    while slurm.slurm("squeue", "-h") and time.time() < until:
        time.sleep(0.2)
    assert slurm.slurm("squeue", "-h") == "", output
    assert whole(tmp_path / "perflogs") == []


def test_two_sessions_at_once_do_not_meet(slurm, tmp_path):
    sessions = ["20260101T000000Z-one", "20260101T000000Z-two"]
    processes = [start(slurm, tmp_path, session, "sleep 2") for session in sessions]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    records = whole(tmp_path / "perflogs")
    assert sorted(record.session for record in records) == sessions
    assert {record.verdict for record in records} == {"RECORDED"}
    (log,) = (tmp_path / "perflogs").glob("minislurm/gpu/ProbeOne.log")
    assert len(log.read_text().splitlines()) == 3


def test_ports_that_are_taken_are_named(started, tmp_path):
    with pytest.raises(PortTakenError, match=rf"port {started.port} of 127.0.0.1 is taken"):
        MiniSlurm(tmp_path / "other", started.port).up()
