"""Faults of schedulers, each kind in one row: what was seen on real ones, and the required result."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import json
import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reframe.core.exceptions import JobSchedulerError
from reframe.core.schedulers.slurm import _create_nodes

from tenken.archive import disk, durable
from tenken.campaign import groupjobs, nodejob
from tenken.campaign.file import Between, Campaign
from tenken.campaign.journal import Unit
from tenken.campaign.tournament import Meeting
from tenken.machines.model import Patience
from tenken.model.job import job_name, short
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.node import brake, check
from tenken.paths import ROOT
from tenken.reframe import listing
from tenken.reframe.outcome import Outcome, requested_nodes
from tenken.reframe.schedulers import command, gridengine, nqsv, pbs, polling, reasons, slurm
from tenken.reframe.schedulers.command import CommandError
from tenken.reframe.schedulers.polling import Follower, PatientJob, Seen, Waiting

PATIENCE = Patience(pending=5000, blocked=200, silence=100, output=30, submission=10, cancel=15, overrun=60)


def job_of(folder: Path, number: str = "53.s", limit: float | None = 100) -> PatientJob:
    job = PatientJob("a", workdir=str(folder), script_filename="job.sh", stdout="out", stderr="err")
    job._jobid, job._submit_time, job.time_limit, job.token = number, 1000.0, limit, "t"
    return job


class Day:
    """One job, a clock, what was cancelled and what was printed."""

    def __init__(self, folder: Path, limit: float | None = 100, not_in_order: str = "") -> None:
        self.now, self.folder = 1000.0, folder
        self.job = job_of(folder, limit=limit)
        self.cancelled: list[float] = []
        self.said: list[str] = []
        self.follower = Follower(PATIENCE, self.cancel, lambda: self.now, say=self.said.append,
                                 ended=lambda job: not_in_order)  # fmt: skip

    def cancel(self, job: PatientJob) -> None:
        job.cancelled = True
        self.cancelled.append(self.now)

    def hear(self, seen: Seen | None, after: float = 10.0) -> PatientJob:
        self.now += after
        self.follower.update([self.job], {"53.s": seen})
        return self.job


RUNS = Seen("RUNNING", nodes=("pn2",))


# -- waiting ends, and a message says so --------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "state"), [(100, "RUNNING"), (100, "EXITING"), (None, "RUNNING"), (7, "COMPLETING")])
def test_a_job_that_its_scheduler_does_not_end_is_given_up(tmp_path: Path, limit: float | None, state: str) -> None:
    """A power cut, a hung epilogue: the job stays in its state after its time limit."""
    day = Day(tmp_path, limit, not_in_order="pn2 is down")
    whole = (limit or PATIENCE.pending) + PATIENCE.overrun
    for _ in range(int(whole / 10) + 1):
        assert not day.cancelled
        day.hear(Seen(state, nodes=("pn2",)))
    day.hear(Seen(state, nodes=("pn2",)))
    job = day.hear(Seen(state, nodes=("pn2",)), after=20)
    assert job.completed and day.cancelled
    assert f"CANCELLED (still {state} on pn2 after" in job.state and "pn2 is down" in job.state


@pytest.mark.parametrize(("told", "ends"), [("300.0", 360), (None, 160), ("50.0", 160)])
def test_a_time_limit_that_an_operator_extended_is_the_jobs(tmp_path: Path, told: str | None, ends: int) -> None:
    day = Day(tmp_path, limit=100)
    day.follower.limit = lambda job: None if told is None else float(told)
    while not day.cancelled:
        day.hear(RUNS)
    assert ends <= day.now - 1010 <= ends + 20
    assert any("was extended to 00:05:00" in line for line in day.said) is (ends == 360)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1-02:00:00", 93600), ("00:03:00", 180), ("26:00:00\n", 93600), ("30:00", 1800), ("UNLIMITED", None), ("", None)],
)  # fmt: skip
def test_time_limits_of_schedulers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, value: float | None
) -> None:
    def silent(*words: Any, **more: Any) -> str:
        raise CommandError("no answer")

    assert polling.seconds(text) == value
    back_end = slurm.Slurm.__new__(slurm.Slurm)
    back_end.timeout = 1
    back_end.log = lambda *said: None
    monkeypatch.setattr(slurm, "run", silent)
    assert back_end.limit_now(job_of(tmp_path)) is None
    monkeypatch.setattr(slurm, "run", lambda words, timeout: text)
    assert back_end.limit_now(job_of(tmp_path)) == value
    answer = json.dumps({"Jobs": {"53.s": {"job_state": "R", "Resource_List": {"walltime": text.strip()}}}})
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): answer)
    assert Pbs().limit_now(job_of(tmp_path)) == value


@pytest.mark.parametrize("state", ["EXITING", "COMPLETING", "RUNNING"])
def test_a_hung_epilogue_costs_no_measurement_and_names_the_node(tmp_path: Path, state: str) -> None:
    day = Day(tmp_path, limit=3600)
    (tmp_path / "out").write_text(marks(1002.0, "pn2"))
    for _ in range(int(PATIENCE.blocked / 10)):
        assert not day.hear(Seen(state, nodes=("pn2",))).completed
    job = day.hear(Seen(state, nodes=("pn2",)))
    assert job.completed and not day.cancelled
    assert job.state == f"COMPLETED (by its own end mark; {state} on pn2 for 00:03:20)"


def test_a_job_that_is_quiet_without_an_end_mark_still_runs(tmp_path: Path) -> None:
    day = Day(tmp_path, limit=3600)
    (tmp_path / "out").write_text(marks(1002.0, "pn2", end=False))
    for _ in range(int(2 * PATIENCE.blocked / 10)):
        assert not day.hear(RUNS).completed
    (tmp_path / "out").write_text(marks(1002.0, "pn2"))
    assert not day.hear(RUNS).completed, "its epilogue has just begun"


def test_time_in_which_a_job_is_suspended_is_not_its_own(tmp_path: Path) -> None:
    day = Day(tmp_path)
    day.hear(RUNS)
    for _ in range(40):
        day.hear(Seen("SUSPENDED", nodes=("pn2",), suspended=True))
    assert not day.cancelled
    for _ in range(18):
        day.hear(RUNS)
    assert day.cancelled


@pytest.mark.parametrize(
    ("seen", "most"),
    [
        (Seen("QUEUED", pending=True), PATIENCE.pending),
        *((Seen("HELD", pending=True, waiting=one), PATIENCE.blocked) for one in (Waiting.MENDED, Waiting.NEVER)),
        (Seen("ERROR", lost=True), 0), (Seen("?", forgotten=True), PATIENCE.output), (None, PATIENCE.silence),
        # without an end of its own: its limit, and as long again as in the queue if it is suspended
        *((Seen(state), 100 + PATIENCE.overrun) for state in ("RUNNING", "EXITING", "?")),
        (Seen("SUSPENDED", suspended=True), 100 + PATIENCE.overrun + PATIENCE.pending),
    ],
    ids=lambda one: one.state + one.waiting.name if isinstance(one, Seen) else "unheard" if one is None else None,
)  # fmt: skip
@pytest.mark.parametrize("began", [False, True])
def test_no_state_is_waited_for_without_an_end(tmp_path: Path, seen: Seen | None, most: float, began: bool) -> None:
    day = Day(tmp_path)
    if began:
        day.hear(RUNS)
    while not (day.cancelled or day.job.completed):
        day.hear(seen)
        assert day.now - 1000 <= most + PATIENCE.output + 50


def test_why_a_job_waits_is_said_with_its_bound_and_not_again_at_once(tmp_path: Path) -> None:
    day = Day(tmp_path)
    for _ in range(20):
        day.hear(Seen("QUEUED", pending=True, why="Priority"))
    assert day.said == ["job 53.s waits for 00:01:00: Priority; it is given up after 01:23:20"]
    day.hear(Seen("QUEUED", pending=True, why="Queue not started", waiting=Waiting.MENDED))
    assert "Queue not started; it is given up after 00:06:50" in day.said[1] and len(day.said) == 2
    day.job.max_pending_time = 600
    day.hear(Seen("QUEUED", pending=True, why="Resources"))
    assert "Resources; it is given up after 00:10:00" in day.said[2]


@pytest.mark.parametrize(
    ("ended", "state", "fact"),
    [
        (Seen("COMPLETED", ended=True, exit_code=9, nodes=("pn1", "pn2")), "COMPLETED", "pn2 is down"),
        (Seen("COMPLETED", ended=True, exit_code=0, nodes=("pn1", "pn2")), "COMPLETED", None),
        (Seen("NODE_FAIL", ended=True, killed=True, nodes=("pn1", "pn2")), "NODE_FAIL (pn2 is down)", None),
    ],
)
def test_a_job_that_did_not_end_well_names_the_node_that_is_not_in_order(
    tmp_path: Path, ended: Seen, state: str, fact: str | None
) -> None:
    day = Day(tmp_path, not_in_order="pn2 is down")
    day.hear(RUNS)
    job = day.hear(ended)
    assert (job._state, job.scheduler_facts.get("not_in_order")) == (state, fact)
    lost = Outcome(tmp_path, "out", "err", "t", False, "COMPLETED", 9, {"not_in_order": "pn2 is down"}, known=("pn1",))
    found, *_ = lost.judgement(Request("t", "daxpy"), Machine())
    assert found.verdict == "FAIL" and found.message().endswith("; pn2 is down")


def test_no_wait_for_a_full_queue_is_taken_for_silence(tmp_path: Path) -> None:
    day = Day(tmp_path)
    day.hear(RUNS)
    day.now += 3 * PATIENCE.silence
    day.follower.deaf_until = day.now
    day.hear(None)
    assert not day.cancelled
    day.hear(None, after=PATIENCE.silence)
    assert day.cancelled


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        ("sbatch: error: AssocMaxSubmitJobLimit", True),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit", True),
        ("qsub: would exceed queue workq's per-user limit of jobs in 'Q' state", True),
        ("qsub: Maximum number of jobs already in queue for user", True),
        ("qsub: Unknown queue", False),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", False),
    ],
)
def test_a_submit_limit_is_waited_for(tmp_path: Path, said: str, waits: bool) -> None:
    from tests.cluster.test_follower import Submitter, submit

    tries: list[int] = []

    def once() -> str:
        tries.append(1)
        if len(tries) < 12:  # longer than for a scheduler that is only busy
            raise CommandError(said, said)
        return "54.s"

    submitter = Submitter()
    submitter.patience = PATIENCE
    if waits:
        assert submit(submitter, job_of(tmp_path), once)[0] == "54.s" and len(submitter.said) == 1
    else:
        with pytest.raises(CommandError):
            submit(submitter, job_of(tmp_path), once)
        assert len(tries) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Unexpected missing socket error", "Zero Bytes were transmitted or received", "Message receive failure",
        "Message send failure", "Socket timed out on send/recv operation", "Slurm backup controller in standby mode",
        "Unable to contact slurm controller (connect failure)", "Header lengths are longer than data received",
        'commlib error: got read error (closing "qmaster/qmaster/1")', "failed receiving gdi request",
        "qsub: server busy", "Connection refused", "communication failure", "try again later",
        "Transport endpoint is not connected", "Connection reset by peer", "Broken pipe", "No route to host",
        "Network is unreachable", "Software caused connection abort", "Host is down",
    ],
)  # fmt: skip
def test_a_controller_that_ends_during_a_submission_is_asked_again(tmp_path: Path, said: str) -> None:
    from tests.cluster.test_follower import Submitter, submit

    answers: list[str | None] = [f"sbatch: error: Batch job submission failed: {said}", None]

    def once() -> str:
        if answer := answers.pop(0):
            raise CommandError(answer, answer)
        return "55"

    submitter = Submitter()
    submitter.patience = PATIENCE
    assert submit(submitter, job_of(tmp_path), once)[0] == "55" and not answers


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("PartitionConfig", Waiting.MENDED), ("PartitionTimeLimit", Waiting.NEVER),
        ("AssocGrpCPUMinutesLimit", Waiting.MENDED), ("QOSGrpBillingMinutes", Waiting.MENDED),
        ("AssocGrpCPURunMinutesLimit", Waiting.RUNS), ("AssocGrpNodeLimit", Waiting.RUNS),
        ("QOSMaxCpuPerJobLimit", Waiting.NEVER), ("AssocMaxCpuMinutesPerJobLimit", Waiting.NEVER),
        ("QOSMinGRES", Waiting.NEVER), ("QOSMaxJobsPerUserLimit", Waiting.RUNS), ("Reservation", Waiting.RUNS),
        ("ReservationDeleted", Waiting.NEVER), ("JobHoldMaxRequeue", Waiting.MENDED),
        ("QOSMaxGRESPerNode", Waiting.NEVER), ("MaxMemPerLimit", Waiting.NEVER),
        ("AssociationTimeLimit", Waiting.NEVER), ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", None),
        ("BurstBufferResources", Waiting.RUNS), ("PartitionDown", Waiting.MENDED), ("JobHeldUser", Waiting.MENDED),
        ("InvalidAccount", Waiting.MENDED), ("DependencyNeverSatisfied", Waiting.NEVER), ("Dependency", Waiting.RUNS),
        ("BadConstraints", Waiting.NEVER), ("Priority", Waiting.RUNS), ("Resources", Waiting.RUNS),
        ("BeginTime", Waiting.RUNS), ("user env retrieval failed requeued held", Waiting.MENDED),
        ("launch failure limit exceeded requeued held", Waiting.MENDED),
        ("job requeued in held state", Waiting.MENDED), ("BurstBufferOperation", Waiting.MENDED),
        ("Reservation night was deleted", Waiting.NEVER), ("Reservation night is invalid", Waiting.NEVER),
        ("ReservationInvalid", Waiting.NEVER), ("AssocGrpWallLimit", Waiting.MENDED),
        ("Job is at or exceeds QOS day's group wall limit of 600 with 640", Waiting.MENDED),
        ("Job's QOS not permitted to use this partition (gpu allows day not night)", Waiting.NEVER),
        ("uid 1000 not in group permitted to use this partition (gpu). groups allowed: staff", Waiting.NEVER),
    ],
)  # fmt: skip
def test_reasons_of_slurm_that_go_away_and_that_do_not(text: str, kind: Waiting | None) -> None:
    assert reasons.slurm(text) is kind


@pytest.mark.parametrize(
    ("queue", "kind"),
    [("R123", Waiting.RUNS), ("S9.pbs", Waiting.RUNS), ("workq", Waiting.MENDED), ("Research", Waiting.MENDED)],
)
def test_a_reservation_of_pbs_that_has_not_begun_begins(queue: str, kind: Waiting) -> None:
    one = pbs.seen({"job_state": "Q", "comment": "Not Running: Queue not started.", "queue": queue})
    assert one.waiting is kind


# -- clocks, nodes, starts -------------------------------------------------------------------------------------------


def marks(began: float, nodes: str = "pn1.site.org", end: bool = True) -> str:
    lines = [f"TENKEN-BEGIN token=t host={nodes} time={began:.3f} job=53.s", f"TENKEN-NODES {nodes}"]
    return (
        "\n".join(
            [*lines, *([f"TENKEN-END token=t status=0 nodes={nodes} node={nodes} time={began:.3f}"] if end else [])]
        )
        + "\n"
    )


@pytest.mark.parametrize(
    ("off", "says"),
    [(-60, "the clock of pn1 is at least 58 s behind"), (7200, "the clock of pn1 is at least 7151 s ahead"), (0, None),
     (-5, None)],
)  # fmt: skip
def test_a_clock_that_is_off_is_named_and_no_lost_job(tmp_path: Path, off: float, says: str | None) -> None:
    day = Day(tmp_path)
    day.hear(Seen("RUNNING", nodes=("pn1",), began=1002.0))
    (tmp_path / "out").write_text(marks(1002.0 + off, end=False))
    job = day.hear(Seen("CANCELLED", ended=True, killed=True, nodes=("pn1",), began=1002.0))
    assert job.completed is False
    job = day.hear(Seen("CANCELLED", ended=True, killed=True, nodes=("pn1",), began=1002.0), after=31)
    if says is None:
        assert "clock" not in job.scheduler_facts
        assert ("lost" in job.scheduler_facts) == (off == -5)
    else:
        assert says in job.scheduler_facts["clock"] and "lost" not in job.scheduler_facts
        assert job.state == "CANCELLED"


def outcome(folder: Path, ran: str, pinned: tuple[str, ...], **facts: Any) -> Outcome:
    (folder / "out").write_text(marks(1.0, ran))
    return Outcome(folder, "out", "err", "t", False, "COMPLETED", 0, facts, known=(ran,), pinned=pinned)


@pytest.mark.parametrize(
    ("ran", "pinned", "moved"),
    [("pn2", ("pn1",), "pn1"), ("pn1,pn3", ("pn1", "pn2"), "pn2"), ("pn1", ("pn1",), None),
     ("pn1.site.org", ("PN1",), None), ("pn1", ("pn1.site.org",), None), ("pn2", (), None),
     ("PN2.site.org", ("PN1.site.org",), "pn1")],
)  # fmt: skip
def test_a_job_that_somebody_moved_is_no_measurement_of_its_node(
    tmp_path: Path, ran: str, pinned: tuple[str, ...], moved: str | None
) -> None:
    found = outcome(tmp_path, ran, pinned).disturbance()
    if moved is None:
        assert found == []
    else:
        (one,) = found
        assert (one.verdict, one.node) == ("INVALID", ",".join(map(short, pinned)))
        assert f"not on {moved}, which it was made for" in one.message


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        (["-w nid1"], ("nid1",)), (["--nodelist=nid[1-2]"], ("nid1", "nid2")), (["-l select=1:host=pn1+1:host=pn2"],
        ("pn1", "pn2")), (["-l h=node*"], ()), (["-l hostname=r1i0n0|r1i0n1"], ()), (["-q gpu"], ()), ([], ()),
        (["-w nid1", "-w nid2"], ("nid2",)),
    ],
)  # fmt: skip
def test_a_job_is_made_for_the_nodes_that_its_options_name(
    tmp_path: Path, options: list[str], nodes: tuple[str, ...]
) -> None:
    job = job_of(tmp_path)
    job.pin_nodes, job._sched_access, job._cli_options, job.options = [], [], [], options
    assert requested_nodes(job, ()) == nodes and requested_nodes(job, ("a",)) == ("a",)


def test_a_clock_is_a_note_of_a_job_that_ended_well(tmp_path: Path) -> None:
    (one,) = outcome(tmp_path, "pn1", (), clock="the clock of pn1 is at least 7182 s ahead").disturbance()
    assert one.verdict == "RECORDED" and "7182 s ahead" in one.message


@pytest.mark.parametrize(
    ("comment", "kind"),
    [
        ("Can Never Run: Insufficient amount of resource: mem (R: 600gb A: 500gb T: 515gb)", Waiting.NEVER),
        ("Not Running: Insufficient amount of resource: mem (R: 1tb A: 500gb T: 515gb)", Waiting.NEVER),
        ("Not Running: Insufficient amount of resource: mem (R: 512000mb A: 0kb T: 515gb)", None),
        ("Not Running: Insufficient amount of resource: mem (R: 520000mb A: 0kb T: 515gb)", None),
        ("Not Running: Insufficient amount of resource: ngpus (R: 8 A: 4 T: 4)", Waiting.NEVER),
        ("Not Running: Insufficient amount of resource: ngpus (R: 4 A: 0 T: 4)", None),
        ("Not Running: Not enough free nodes available", None),
        ("Not Running: Not enough of the right type of nodes are available", None),
        ("Not Running: Job has zero shares for fairshare", Waiting.MENDED),
        ("Not Running: Node has no PBS license", Waiting.MENDED),
    ],
)
def test_more_than_there_is_never_runs_on_pbs(comment: str, kind: Waiting | None) -> None:
    assert reasons.pbs(comment) is kind


# -- Grid Engine's answers -------------------------------------------------------------------------------------------

SGE = (
    "<?xml version='1.0'?>\n<job_info><queue_info>\n"
    '<job_list state="running"><JB_job_number>7</JB_job_number><JB_name>{name}</JB_name><state>r</state></job_list>\n'
    '<job_list state="pending"><JB_job_number>8</JB_job_number><JB_name>b</JB_name><state>qw</state></job_list>\n'
    "</queue_info></job_info>\n"
)


@pytest.mark.parametrize("name", ["a", "a&b", "x<y", "bell\x07", "&nosuch;"])
def test_a_name_that_is_no_xml_voids_no_other_job(name: str) -> None:
    text = SGE.format(name=name)
    assert {number: one.state for number, one in gridengine.states(text).items()} == {"7": "RUNNING", "8": "PENDING"}
    with pytest.raises(CommandError, match="no XML"):
        gridengine.states(text[: len(text) // 2])


@pytest.mark.parametrize(
    "text",
    [
        "<?xml version='1.0'?>\n<job_info  xmlns:xsd=\"http://x/qstat.xsd\">\n  <queue_info/>\n  <job_info/>\n"
        "</job_info>\n",
        "<?xml version='1.0'?>\n<job_info>\n<queue_info>\n<Queue-List>\n<name>all.q@n1</name><slots_used>0"
        "</slots_used>\n</Queue-List>\n</queue_info>\n<job_info>\n</job_info>\n</job_info>\n",
        '<?xml version="1.0"?>\n<Data></Data>\n',
    ],
    ids=["self-closing", "idle-queue", "torque"],
)  # fmt: skip
def test_no_jobs_are_no_jobs_of_grid_engine(text: str) -> None:
    assert gridengine.states(text) == {}


@pytest.mark.parametrize("text", ["", "\n", "error: commlib error: got select error\n"])
def test_what_is_no_answer_of_grid_engine_is_none(text: str) -> None:
    with pytest.raises(CommandError, match="no XML"):
        gridengine.states(text)


def sge_entry(number: int, state: str, tasks: str = "", name: str = "a") -> str:
    tasks = f"<slots>1</slots><tasks>{tasks}</tasks>" if tasks else ""
    named = f"<JB_job_number>{number}</JB_job_number><JB_name>{name}</JB_name>"
    return f"<job_list>{named}<state>{state}</state>{tasks}</job_list>"


@pytest.mark.parametrize("name", ["a", "a&b"])
@pytest.mark.parametrize(
    ("running", "waiting", "state"),
    [
        ([("r", "1"), ("r", "2")], [], "RUNNING"), ([("r", "1"), ("r", "7")], [("qw", "8-150:1")], "PENDING"),
        ([("r", "1")], [("Eqw", "2"), ("qw", "3-7:2")], "ERROR"), ([], [("hqw", "1-3:1,5")], "HELD"),
        ([("dr", "1"), ("r", "2")], [], "DELETING"), ([("S", "3")], [], "SUSPENDED"),
    ],
)  # fmt: skip
def test_tasks_of_an_array_are_one_job_of_grid_engine(
    running: list[tuple[str, str]], waiting: list[tuple[str, str]], state: str, name: str
) -> None:
    """As qstat lists them: each running job separately, waiting ones in groups under another element."""
    lists = ["".join(sge_entry(9, *one, name=name) for one in part) for part in (running, waiting)]
    text = (
        f"<?xml version='1.0'?>\n<job_info>\n<queue_info><Queue-List><name>all.q@n1</name>{lists[0]}</Queue-List>"
        f"{sge_entry(10, 'r')}</queue_info>\n<job_info>{lists[1]}</job_info>\n</job_info>\n"
    )
    assert {number: one.state for number, one in gridengine.states(text).items()} == {"9": state, "10": "RUNNING"}


# -- Slurm's answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "state", "nodes", "ended"),
    [
        ("7+0|COMPLETED|0:0|n1|x|a\n7+1|COMPLETED|0:0|n2|x|a\n", "COMPLETED", ("n1", "n2"), True),
        ("7+0|COMPLETED|0:0|n1|x|a\n7+1|RUNNING|0:0|n2|x|a\n", "RUNNING", ("n1", "n2"), False),
        ("7_1|COMPLETED|0:0|n1|x|a\n7_2|NODE_FAIL|1:0|n2|x|a\n", "NODE_FAIL", ("n1", "n2"), True),
        ("7_1|COMPLETED|0:0|n1|x|a\n7_[2-9%4]|PENDING|0:0|None assigned|x|a\n", "PENDING", ("n1",), False),
        ("7_1|FAILED|1:0|n1|x|a\n7_2|COMPLETED|0:0|n1|x|a\n", "FAILED", ("n1",), True),
    ],
)
def test_a_heterogeneous_job_and_an_array_are_one_job(
    table: str, state: str, nodes: tuple[str, ...], ended: bool
) -> None:
    found = slurm.accounted(table)
    assert list(found) == ["7"] and (found["7"].state, found["7"].nodes, found["7"].ended) == (state, nodes, ended)
    assert slurm.names(table)["7"] == "a"


@pytest.mark.parametrize(
    ("state", "available"),
    [("IDLE+CLOUD", True), ("ALLOCATED+CLOUD", True), ("IDLE+DYNAMIC_NORM", True), ("IDLE+CLOUD+POWERED_DOWN", True),
     ("MIXED+CLOUD", True), ("IDLE+CLOUD+DRAIN", False), ("IDLE+MAINTENANCE+RESERVED", False), ("DOWN+CLOUD", False),
     ("IDLE*+CLOUD", False), ("CLOUD", False), ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", True),
     ("IDLE+NOT_RESPONDING", False), ("IDLE+CLOUD+POWERING_DOWN", False),
     ("IDLE+DYNAMIC_NORM+MAINTENANCE+RESERVED+PLANNED", False), ("MIXED+MAINTENANCE+RESERVED", False),
     ("IDLE+MAINTENANCE", False), ("ALLOCATED+MAINTENANCE+DRAIN", False), ("MIXED+DRAIN", False),
     ("MIXED+PLANNED", True), ("IDLE+DYNAMIC_NORM+RESERVED+PLANNED", True)],
)  # fmt: skip
def test_cloud_and_dynamic_nodes_are_nodes(state: str, available: bool) -> None:
    back_end = slurm.Slurm.__new__(slurm.Slurm)
    back_end._available_states = {"ALLOCATED", "COMPLETING", "IDLE", "PLANNED", "RESERVED", "MIXED"}
    (node,) = _create_nodes([f"NodeName=n1 ActiveFeatures=a State={state} Partitions=q"])
    assert back_end.is_node_avail(node) is available


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            "n1|drained*|fan\nn2|idle|none\nn1|drained*|fan\nn3|down|Not responding\nn4|drained|none\n",
            "n1 is drained* (fan), n3 is down (Not responding), n4 is drained",
        ),
        ("n1|drained|fan\nn2|drained|fan\nn3|idle|none\n", "n1, n2 are drained (fan)"),
        (
            "".join(f"n{i:02d}|down|none\n" for i in range(11)),
            "n00, n01, n02, n03, n04, n05, n06, n07 and 3 more are down",
        ),
        ("n1|idle|none\n", ""),
    ],
)
def test_nodes_that_are_not_in_order_come_with_the_reason(table: str, says: str) -> None:
    assert polling.not_in_order(slurm.broken(table)) == says


@pytest.mark.parametrize(
    ("states", "work"),
    [
        ("mixed- planned idle", 3), ("allocated planned mixed- reserved", 4),
        ("idle~ idle# allocated^ maint", 4),
        ("idle* down* planned", 2), ("inval idle draining@", 1),
        ("fail failing unknown* blocked drained", 0), ("idle! allocated$ completing", 3),
    ],
)  # fmt: skip
def test_how_many_nodes_work_by_the_states_of_sinfo(states: str, work: int) -> None:
    """Those that are planned, reserved, powered down or in maintenance are in order: they are waited for. A node has a
    line for each of its partitions."""
    table = "".join(f"n{i}|{state}|none\n" for i, state in enumerate(states.split()))
    for lines in (table, 2 * table):
        assert [slurm.enough(lines, needed) for needed in (work, work + 1)] == [True, False]


@pytest.mark.parametrize(
    ("table", "state", "nodes"),
    [
        ("7+0|OUT_OF_MEMORY|0:125|n1|x|a\n7+1|CANCELLED|0:15|n2|x|a\n", "OUT_OF_MEMORY", ("n1", "n2")),
        ("7_1|COMPLETED|0:0|n1|x|a\n7_2|OUT_OF_MEMORY|0:125|n1|x|a\n", "OUT_OF_MEMORY", ("n1",)),
        ("7|OUT_OF_MEMORY|137:0|n3|x|a\n", "OUT_OF_MEMORY", ("n3",)),
    ],
)
def test_a_job_without_memory_was_killed(table: str, state: str, nodes: tuple[str, ...]) -> None:
    one = slurm.accounted(table)["7"]
    assert (one.state, one.ended, one.killed, set(one.nodes)) == (state, True, True, set(nodes))


@pytest.mark.parametrize(
    ("pinned", "sinfo", "says", "waiting"),
    [
        ([], "n1|drained|fan\nn2|drained|fan\n", "Nodes required for job are DOWN; n1, n2 are drained (fan)",
         Waiting.MENDED),
        ([], "n1|drained|fan\nn2|idle|none\n", "Nodes required for job are DOWN", Waiting.RUNS),
        (["n1"], "n1|drained|fan\n", "Nodes required for job are DOWN; n1 is drained (fan)", Waiting.MENDED),
        ([], CommandError("no answer"), "Nodes required for job are DOWN", Waiting.RUNS),
    ],
)  # fmt: skip
def test_a_job_of_slurm_that_waits_for_broken_nodes_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: list[str], sinfo: Any, says: str, waiting: Waiting
) -> None:
    asked: list[list[str]] = []

    def run(words: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
        asked.append(words)
        if isinstance(sinfo, Exception):
            raise sinfo
        return str(sinfo)

    monkeypatch.setattr(slurm, "run", run)
    back_end, job = slurm.Slurm.__new__(slurm.Slurm), job_of(tmp_path)
    back_end.log, back_end.timeout, job.pin_nodes = lambda *args: None, 1, pinned  # type: ignore[method-assign]
    waits = Seen("PENDING", pending=True, why="Nodes required for job are DOWN", facts={"partition": "gpu"})
    one = back_end._by_nodes(job, waits)
    assert (one.why, one.waiting) == (says, waiting)
    assert asked[0][3:5] == (["-n", "n1"] if pinned else ["-p", "gpu"])


def test_slurm_prints_whole_times_whatever_a_user_prefers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%a %T")
    assert command.run(["sh", "-c", 'echo "$SLURM_TIME_FORMAT"'], 10) == "standard\n"


# -- PBS -------------------------------------------------------------------------------------------------------------


class Pbs(pbs.Pbs):
    """PBS's back end with answers by the words of a command."""

    def __init__(self) -> None:
        self.timeout, self.settings, self.said = 1, {}, []

    def log(self, message: str, level: Any = None) -> None:
        self.said.append(message)


QUEUES = {
    "main": {"queue_type": "Route", "route_destinations": "cpu,gpu"},
    "cpu": {"queue_type": "Execution", "default_chunk": {"Qlist": "cpu"}},
    "gpu": {"queue_type": "Execution", "default_chunk": {"Qlist": "a100"}},
}


@pytest.mark.parametrize(
    ("option", "down", "waiting"),
    [
        ("-q main", [], Waiting.RUNS), ("-q gpu", [], Waiting.RUNS), ("-q main", ["n1"], Waiting.RUNS),
        ("-q main", ["n1", "n2"], Waiting.MENDED), ("-q gpu", ["n1"], Waiting.MENDED), ("-q cpu", ["n1"], Waiting.RUNS),
        ("-q nowhere", ["n1", "n2"], Waiting.RUNS), ("-q gpu@head", ["n1"], Waiting.MENDED),
    ],
)  # fmt: skip
def test_nodes_of_a_queue_of_pbs_that_routes_or_has_another_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, down: list[str], waiting: Waiting
) -> None:
    """On such a site no node has the name of the queue that jobs are submitted to."""
    nodes = {
        name: {"state": "down" if name in down else "free", "resources_available": {"host": name, "Qlist": label}}
        for name, label in (("n1", "a100,system"), ("n2", "cpu,system"))
    }
    said = {"pbsnodes": json.dumps({"nodes": nodes}), "qstat": json.dumps({"Queue": QUEUES})}
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): said[words[0]])
    job = job_of(tmp_path)
    job.pin_nodes, job._sched_access, job._cli_options, job.options = [], [option], [], []
    waits = Seen("QUEUED", pending=True, why="Not enough free nodes")
    assert Pbs()._by_nodes(job, waits).waiting is waiting


BROKEN = (
    '{"Jobs":{"52.s":{"job_state":"R","Variable_List":{"foo":005,"BAD":"\ufffd"}},'
    '"53.s":{"job_state":"R","exec_host":"n1/0"}}}'
)
OURS = json.dumps({"Jobs": {"53.s": {"job_state": "R", "exec_host": "n1/0*4"}}})


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"-f": BROKEN, "-xf": OURS}, "RUNNING"),
        ({"-f": OURS}, "RUNNING"),
        ({"-f": "", "-xf": '{"Jobs":{"53.s":{"job_state":"F","Exit_status":0}}}'}, "COMPLETED"),
        # a server without history, and one without this job
        ({"-f": "", "-xf": CommandError("x", "qstat: Server has no job history")}, "not listed"),
        ({"-f": "", "-xf": ""}, "not listed"),
        ({"-f": "qstat: oops"}, None),
        ({"-f": CommandError("x", "cannot connect to server")}, None),
    ],
)
def test_our_jobs_alone_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], expected: str | None
) -> None:
    def run(words: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
        assert words[-1] == "53.s", "the jobs of others are none of ours"
        answer = answers[words[1]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(pbs, "run", run)
    found = Pbs().ask([job_of(tmp_path)])
    said = found.get("53.s", "not listed")
    assert (said.state if isinstance(said, Seen) else said) == expected


@pytest.mark.parametrize(
    ("history", "began", "says"),
    [("", True, "deleted with its history, as by qdel -x"), ("", False, None),
     (CommandError("x", "qstat: Server has no job history"), True, None)],
)  # fmt: skip
def test_a_job_that_was_deleted_with_its_history_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: Any, began: bool, says: str | None
) -> None:
    def run(words: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
        if words[1] == "-xf" and isinstance(history, Exception):
            raise history
        return ""

    monkeypatch.setattr(pbs, "run", run)
    job = job_of(tmp_path)
    job.started, job._nodelist = began, ["n1"]
    one = Pbs().ask([job]).get("53.s")
    assert (one is None) == (says is None)
    if one is not None:
        assert str(says) in one.state and (one.ended, one.killed, one.nodes) == (True, False, ("n1",))


def test_one_job_without_an_answer_voids_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
        if words[-1] == "54.s":
            raise CommandError("qstat did not respond")
        return OURS

    monkeypatch.setattr(pbs, "run", run)
    back_end = Pbs()
    found = back_end.ask([job_of(tmp_path), job_of(tmp_path, "54.s")])
    assert found["53.s"] is not None and found["54.s"] is None and "54.s" in back_end.said[0]


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ('{"PBS_O_HOME":"/root","TENKEN_JOB":"tenken/s/t","X":"a b"}', "53.s"),  # OpenPBS 23.06
        ('{"F":"() { echo "hi"; }","TENKEN_JOB":"tenken/s/t"}', "53.s"), ('"A=1,TENKEN_JOB=tenken/s/t"', "53.s"),
        ('{"TENKEN_JOB":"tenken/s/u"}', None), ("{}", None),
    ],
)  # fmt: skip
def test_a_submission_that_arrived_is_found_by_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: str, found: str | None
) -> None:
    monkeypatch.setenv("TENKEN_SESSION", "s")
    answer = '{"Jobs":{"4.s":{"job_state":"R"},"53.s":{"job_state":"Q","Variable_List":' + variables + "}}}"
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): answer)
    assert Pbs().submitted(job_of(tmp_path)) == found


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("1.nqsv tk{} user gen 0 QUE -", "1.nqsv"),
        ("2.nqsv tk000000 user gen 0 QUE -\n3.nqsv tk{} user gen 0 RUN -", "3.nqsv"),
        ("4.nqsv tk000000 user gen 0 QUE -", None), ("", None), ("5.nqsv Daxpy user gen 0 QUE -", None),
    ],
)  # fmt: skip
def test_a_request_of_nqsv_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, found: str | None
) -> None:
    job = job_of(tmp_path)
    job.token, job._name = "0123456789abcdef" * 2, "rfm_Daxpy"
    back_end = nqsv.Nqsv.__new__(nqsv.Nqsv)
    back_end.timeout = 1
    mark = job_name(job.token)
    assert re.fullmatch("tk[0-9a-z]{6}", mark) and nqsv._name(job) == f"{mark}_Daxpy"
    head = "RequestID       ReqName  UserName Queue     Pri STT S\n"
    monkeypatch.setattr(nqsv, "run", lambda words, timeout: head + table.format(mark[2:]))
    assert back_end.submitted(job) == found
    job.token = None
    assert back_end.submitted(job) is None


@pytest.mark.parametrize("number", ["143993.ace-ssiox", "978193.nqsv"])
def test_a_request_is_found_under_the_part_of_its_id_that_nqsv_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    back_end = nqsv.Nqsv.__new__(nqsv.Nqsv)
    back_end.timeout = 1
    table = f"{number[:15]:15} tk000000 user     gen         0 RUN -    6.27G 177152.16   177193 Y Y Y    1\n"
    monkeypatch.setattr(nqsv, "run", lambda words, timeout: table)
    assert {one: seen.state for one, seen in back_end.ask([job_of(tmp_path, number)]).items()} == {number: "RUN"}
    assert back_end.ask([job_of(tmp_path, "1" + number)]) == {}


@pytest.mark.parametrize(
    ("variables", "found"),
    [("TERM=NONE,TENKEN_JOB=tenken/s/t", "8"), ("TENKEN_JOB=tenken/s/t,A=1", "8"), ("TENKEN_JOB=tenken/s/tt", None),
     ("", None)],
)  # fmt: skip
def test_a_job_of_grid_engine_is_found_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: str, found: str | None
) -> None:
    monkeypatch.setenv("TENKEN_SESSION", "s")
    told = {
        "7": "env_list:                   TENKEN_JOB=tenken/s/u\n",
        "8": f"job_number: 8\nenv_list:   {variables}\n",
    }
    monkeypatch.setattr(
        gridengine, "run", lambda words, timeout: told[words[2]] if words[1] == "-j" else SGE.format(name="a")
    )
    back_end = gridengine.GridEngine.__new__(gridengine.GridEngine)
    back_end.timeout = 1
    assert back_end.submitted(job_of(tmp_path)) == found


@pytest.mark.parametrize(
    ("server", "scheduler", "says", "kind"),
    [
        ("    scheduling = False\n", "", "scheduling = False", Waiting.MENDED),
        ("    scheduling = True\n", "    state = down\n", "scheduler of PBS is down", Waiting.MENDED),
        ("    scheduling = True\n", "    state = idle\n", "has not looked at the job yet", Waiting.RUNS),
    ],
)
def test_a_job_that_nobody_looks_at_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, scheduler: str, says: str, kind: Waiting
) -> None:
    told = {"-B": server, "-c": scheduler, "-f": '{"Jobs":{"53.s":{"job_state":"Q"}}}'}
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): told[words[1]])
    one = Pbs().ask([job_of(tmp_path)])["53.s"]
    assert one is not None and says in one.why and one.waiting is kind


@pytest.mark.parametrize(
    ("hosts", "nodes"),
    [
        ("n1/0*24+n2/1*24", ("n1", "n2")),
        ("n1/0+n1/1+n2/0", ("n1", "n2")),
        ("n1.site:15002/0*4", ("n1.site",)),
        (None, ()),
    ],
)
def test_nodes_of_a_job_of_pbs(hosts: str | None, nodes: tuple[str, ...]) -> None:
    assert pbs.seen({"job_state": "R", "exec_host": hosts}).nodes == nodes


def test_a_host_with_a_bad_vnode_is_not_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nodes = {"n1[0]": {"state": "free", "resources_available": {"host": "n1"}},
             "n1[1]": {"state": "offline,down", "comment": "fan", "resources_available": {"host": "n1"}},
             "n2": {"state": "free", "resources_available": {"host": "n2"}}}  # fmt: skip
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): json.dumps({"nodes": nodes}))
    back_end, job = Pbs(), job_of(tmp_path)
    assert {node.name: back_end.is_node_avail(node) for node in back_end.allnodes()} == {"n1": False, "n2": True}
    job._nodelist, job.scheduler_facts = ["n1.site.org", "n2"], {"Exit_status": -2, "comment": "prologue failed"}
    said = back_end.why_ended(job)
    assert said.startswith("its node could not start it: the prologue") and said.endswith(
        "prologue failed; n1 is down,free,offline (fan)"
    )
    job._nodelist, job.pin_nodes, job.scheduler_facts = [], ["n1"], {}
    assert back_end.why_ended(job) == "n1 is down,free,offline (fan)", "a job that waits for it"


@pytest.mark.parametrize(
    ("pinned", "states", "says", "waiting"),
    [
        ([], {"n1": "offline", "n2": "offline", "n3": "down"}, "; n1, n2 are offline, n3 is down", Waiting.MENDED),
        ([], {"n1": "offline", "n2": "free"}, "", Waiting.RUNS),
        (["N1.site.org"], {"n1": "offline", "n2": "free"}, "; n1 is offline", Waiting.MENDED),
        (["n2"], {"n1": "offline", "n2": "job-busy"}, "", Waiting.RUNS),
        (["host=n1"], {"n1": "offline", "n2": "free"}, "; n1 is offline", Waiting.MENDED),
        (["ngpus=4:vnode=n2"], {"n1": "offline", "n2": "free"}, "", Waiting.RUNS),
    ],
)  # fmt: skip
def test_a_job_of_pbs_that_waits_for_broken_nodes_names_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pinned: list[str],
    states: dict[str, str],
    says: str,
    waiting: Waiting,
) -> None:
    why = "Not Running: Not enough free nodes available"
    nodes = {name: {"state": state, "resources_available": {"host": name}} for name, state in states.items()}
    told = {"-f": {"Jobs": {"53.s": {"job_state": "Q", "comment": why}}}, "-a": {"nodes": nodes}}
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): json.dumps(told[words[1]]))
    job = job_of(tmp_path)
    by_option = [one for one in pinned if "=" in one]
    job.num_tasks, job.num_tasks_per_node, job.pin_nodes = 1, 1, [] if by_option else pinned
    job._sched_access, job._cli_options, job.options = [], [], by_option
    one = Pbs().ask([job])["53.s"]
    assert one is not None and (one.why, one.waiting) == (why + says, waiting)


@pytest.mark.parametrize(
    ("used", "suspended", "node", "says"),
    [
        ({"walltime": "00:00:27", "cput": "00:00:00"}, 0, "job-busy", "stopped at 00:00:27: an epilogue"),
        ({"walltime": "00:00:27"}, 3000, "job-busy", "stopped at 00:00:27: an epilogue"),
        ({"walltime": "00:00:27"}, 3500, "job-busy", ""),  # it was suspended, which no walltime counts
        ({"walltime": "00:00:00"}, 0, "free", "stopped at 00:00:00"),
        ({"walltime": "00:58:10"}, 0, "job-busy", ""),  # it runs beyond its limit, as PBS counts
        ({"walltime": "00:00:27"}, 0, "down,job-busy", "n1 is down,job-busy"),
        ({}, 0, "job-busy", ""),
        (None, 0, "job-busy", ""),
    ],
)  # fmt: skip
def test_a_job_of_pbs_whose_walltime_is_not_counted_has_ended_but_for_its_epilogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: Any, suspended: int, node: str, says: str
) -> None:
    """As `qstat -f` of OpenPBS 23.06 shows: R and substate 42 all the while, on a node that answers."""
    told = {
        "-f": {
            "Jobs": {"53.s": {"job_state": "R", "substate": 42, **({} if used is None else {"resources_used": used})}}
        },
        "-a": {"nodes": {"n1": {"state": node, "resources_available": {"host": "n1"}}}},
    }
    monkeypatch.setattr(pbs, "run", lambda words, timeout, ok=(0,): json.dumps(told[words[1]]))
    job = job_of(tmp_path)
    job._nodelist, job.runs_since, job.suspended_s = ["n1"], time.time() - 3600.0, float(suspended)
    found = Pbs().why_ended(job)
    assert says in found and (bool(found) == bool(says))
    job.ended_at = 1.0
    assert "counted" not in Pbs().why_ended(job)


@pytest.mark.parametrize("option", ["-l select=1:ngpus=1", "-l walltime=1:0:0,select=2", "-lnodes=1:ppn=4"])
def test_options_that_would_replace_the_nodes_are_refused_by_name(tmp_path: Path, option: str) -> None:
    with pytest.raises(JobSchedulerError, match="replaces the job's nodes"):
        Pbs().directives(job_of(tmp_path), [option])


@pytest.mark.parametrize(
    ("back_end", "option", "refused"),
    [
        (pbs.Pbs, "-J 1-2", True), (pbs.Pbs, "-J1-9:2", True), (pbs.Pbs, "-a 0100", False),
        (slurm.Slurm, "--array=1-2", True), (slurm.Slurm, "-a 1-2", True), (slurm.Slurm, "-J name", False),
        (slurm.Slurm, "--account=a", False), (slurm.Slurm, "-t 5", False),
        (gridengine.GridEngine, "-t 1-2", True), (gridengine.GridEngine, "-terse", False),
    ],
)  # fmt: skip
def test_an_array_is_refused(back_end: Any, option: str, refused: bool) -> None:
    """Its jobs overwrote each other's output, on several nodes at once."""
    with pytest.raises(JobSchedulerError, match="makes an array") if refused else contextlib.nullcontext():
        back_end.__new__(back_end).refuse_an_array(["-q gpu", option])


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        # 35: ended, 153: unknown; both with a sentence that is not JSON
        ("echo 'qstat: 53.s Job has finished, use -x or -H to obtain historical job information' >&2; exit 35",
         """echo '{"Jobs":{"53.s":{"job_state":"F","Exit_status":271,"exec_host":"n2/0*4"}}}'""", "CANCELLED"),
        ("echo '{'; echo '}'; echo 'qstat: Unknown Job Id 53.s' >&2; exit 153",
         """echo '{"Jobs":{"53.s":{"job_state":"F","Exit_status":0}}}'; exit 35""", "COMPLETED"),
        ("exit 35", "echo 'qstat: PBS is not configured to maintain job history' >&2; exit 3", "not listed"),
        ("exit 153", "exit 153", "not listed"),
    ],
    ids=["finished", "unknown-with-braces", "no-history", "purged"],
)  # fmt: skip
def test_a_job_that_pbs_has_in_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str, state: str
) -> None:
    program = tmp_path / "qstat"
    program.write_text(f"#!/bin/sh\ncase $1 in -f) {first};; *) {second};; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    back_end = Pbs()
    back_end.timeout = 20
    one = back_end.ask([job_of(tmp_path)]).get("53.s")
    assert (one.state if one else "not listed").split(" (")[0] == state


def test_variables_of_a_site_are_joined_with_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEN_SESSION", "s")
    job = job_of(tmp_path)
    job.num_tasks, job.num_tasks_per_node, job.num_cpus_per_task, job.pin_nodes = 1, 1, 1, []
    job._sched_access, job._cli_options = [], []
    words = Pbs().directives(job, ["-v A=1,B=2", "-V", "-q gpu"])
    assert [w for w in words if w.startswith("-v")] == ["-v TENKEN_JOB=tenken/s/t,A=1,B=2"] and "-V" in words


# -- commands --------------------------------------------------------------------------------------------------------


def test_bytes_of_others_that_are_not_utf_8_raise_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "qstat"
    program.write_bytes(b"#!/bin/sh\nprintf 'NAME=Fran\\347ois\\n'; printf '\\377\\n' >&2; exit ${1:-0}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert command.run(["qstat"], 10) == "NAME=Fran\ufffdois\n"
    with pytest.raises(CommandError, match="ended with 3"):
        command.run(["qstat", "3"], 10)


# -- everything that waits -------------------------------------------------------------------------------------------

#: What waits in the package and in the scripts of a session: what ends each, and what is printed meanwhile, or at its
#: bound.
WAITS = {
    "archive/durable.py:lock": ("ten minutes", "who is waited for, after 10 s"),
    "campaign/alive.py:_watch": ("the work that it tells of", "what is being done, every 7 s"),
    "campaign/groupjobs.py:_read": ("`late` seconds", "that a job left no figure"),
    "campaign/groupjobs.py:_submit": ("some tries", "why the scheduler rejects the jobs"),
    "campaign/groupjobs.py:_wait": ("wait_hours without start or answer, `overrun` beyond the limit", "each given up"),
    "campaign/nodejob.py:commands": ("the delay of a start: 60 s, or the power ramp", "that it waits, in its output"),
    "campaign/power.py:_run": ("the end of the measurement, beside it", "its readings, into a file"),
    "campaign/redfish.py:collect": ("the seconds of each BMC", "each node that is done"),
    "campaign/runner.py:_go": ("wait_hours of a job or of a scheduler that refuses everything, 3 * `blocked` for a bad "
                               "node, `overrun` beyond the limit", "progress every 8 s, with why jobs cannot start"),
    "campaign/runner.py:_patiently": ("seven tries", "each error"),
    "commands/acceptance.py:session": ("that session", "what the session prints"),
    "commands/acceptance.py:wait": ("that session", "what the session prints"),
    "commands/campaign.py:_together": ("that session", "what the session prints"),
    "commands/drill.py:rehearse": ("that session", "how many checks ended, every 10 s"),
    "counters.py:read_optics": ("20 s for all ports together", "that mlxlink gave no answer"),
    "history/store.py:locked": ("ten minutes", "who holds the store"),
    "node/brake.py:drain": ("the seconds of its stagger, and one", "why it was not drained"),
    "node/measure.py:_program": ("the seconds of the probe that runs it", "which programs did not answer"),
    "node/probe.py:run": ("the seconds that all probes have", "which probes did not answer"),
    "reframe/build.py:all_over": ("builds of this session, within their time limit", "what runs, every 25 s"),
    "reframe/build.py:lock": ("the time limit of a build or of a node's job", "what runs, every 25 s"),
    "reframe/build.py:wait_for": ("its seconds", "what runs, every 25 s"),
    "reframe/build.py:wait_for_first": ("its seconds, then the time limit of the first check", "what runs, every 25 s"),
    "reframe/joblines.py:_FIND_GPUS": ("two answers of nvidia-smi, within the job's time limit", "the GPUs"),
    "reframe/listing.py:listed": ("10 min", "after 10 s that ReFrame still reads the checks"),
    "reframe/locks.py:FUNCTIONS": ("TENKEN_LOCK_SECONDS, 60 s", "who holds the lock"),
    "reframe/matrices.py:run": ("the time limit of each program", "its command"),
    "reframe/schedulers/command.py:run": ("job_submit_timeout, 60 s", "the command that did not respond"),
    "reframe/schedulers/polling.py:_to_its_end": ("the time limit of the command and 30 s; 10 s after a signal",
                                                  "that the scheduler has not answered, after 20 s; a signal"),
    "reframe/schedulers/slurm.py:_sbatch": ("job_submit_timeout, 60 s", "that sbatch did not respond"),
    "reframe/schedulers/polling.py:cancel": ("four tries", "that the job may still exist"),
    "reframe/schedulers/polling.py:enqueue": ("two pauses after a signal, 2.2 s", "the job that is cancelled"),
    "reframe/schedulers/polling.py:submit_patiently": ("patience.submission; patience.pending if full", "the error"),
    "reframe/schedulers/polling.py:wait": ("patience for each state of a job", "why it waits, and until when"),
    "reframe/terminal.py:tick": ("one round", "what runs, every 25 s"),
    "report/signature.py:_keygen": ("305 s", "its own question, and after 5 s what it waits for"),
}  # fmt: skip
#: The same outside of the package: `FILE:COMMAND` of a line of shell, `FILE:FUNCTION` in Python.
WAITS_OUTSIDE = {
    "docs/nightly.md:tail -f": ("the reader's Ctrl-C", "the log"),
    "examples/ci/github-nightly.yml:concurrency:": ("the time limits of the night before", "GitHub, that it waits"),
    "examples/nightly/nightly.sh:timeout": ("10 min", "that the command to post failed"),
    "examples/nightly/nightly.sh:wait": ("TENKEN_LIMIT and 5 min, then the report", "all into the log of the night"),
    "examples/node/pbs_hook.py:bad": ("the 40 s of node-check", "its line"),
    "scripts/compare_stream.py:likwid": ("the repetitions of likwid-bench", "its rate, for a developer who waits"),
    "scripts/compare_stream.py:ours": ("the repetitions of the program", "its rate, for a developer who waits"),
    "scripts/debian.sh:flock": ("10 min", "that another installation runs"),
    "scripts/run.sh:timeout": ("TENKEN_LIMIT and 5 min", "what ReFrame prints: what runs, every 25 s"),
    "scripts/run.sh:wait": ("TENKEN_LIMIT, otherwise each job's time limit", "what runs, every 25 s"),
    "src/programs/data_loading/dali/dali_loading.py:load": ("the time limit of the job", "its document"),
    "src/programs/training/nvml.py:health": ("1.3 s, only where other processes are on the GPU", "its document"),
    "src/programs/training/nvml.py:read": ("the end of the measurement, beside it", "its samples"),
    "src/programs/training/nvml.py:watching": ("the last sample", "the samples"),
    "src/programs/training/trainer.py:deterministic": ("the time limit of the job", "its document"),
    "src/programs/training/trainer.py:product_seconds": ("the time limit of the job", "its document"),
    "src/programs/training/trainer.py:timed": ("the time limit of the job", "its document"),
    "src/programs/training/training.py:meeting": ("the seconds in which all ranks must arrive", "who did not arrive"),
    "src/programs/training/training.py:run": ("the time limit of the job", "the last words of each rank that failed"),
    "toolchains/processes.py:only_one": ("an hour", "which lock another process holds, at once and every 30 s"),
    "toolchains/processes.py:run": ("an hour", "what still runs, every 30 s"),
    "toolchains/wheels.py:fetch": ("an hour of each pip", "what pip downloads, every 30 s"),
}  # fmt: skip
#: What prints nothing, with its bound in seconds.
SILENT = {
    "archive/disk.py:patiently": sum(disk.PAUSES),
    "campaign/alive.py:__exit__": 0.5,
    "campaign/groupjobs.py:_ports": 1.0,
    "checks/perftest.py:command_named": 5.0,
    "node/brake.py:call": brake.COMMAND_S,
    "node/check.py:check": check.PAUSE_S,
    "reframe/links.py:read_ports": 1.0,
}
#: Nothing else may wait longer than this without a word: an operator looks at a terminal for about as long.
SILENT_S = 10.0
#: The same in the generated scripts, by a pattern of their text.
WAITS_IN_SCRIPTS = {
    r"sleep 1; tenken_ports before": ("1 s", "SILENT, as reframe/links.py:read_ports"),
    r'sleep 5; ib_\w+ -a -F "\$\(cat': ("5 s", "SILENT, as checks/perftest.py:command_named"),
    r"for quarter in \$\(seq (480|80)\); do \[ .* sleep 0\.25; done": ("120 s", "what runs, every 25 s"),
    r'while \[ -e "\$other" \] && kill -0 .* do sleep 1; done': ("the time limit of a build", "what runs, every 25 s"),
    r"flock [89] \|\| echo 'tenken: built without": ("the time limit of a build", "what runs, every 25 s"),
    r"^command -v nvidia-smi .*; wait \$!": ("the time limit of the job", "the GPUs"),
    r"timeout -k 10 300 ": ("310 s", "what it measured until then"),
    r"timeout -k 5 60 ": ("65 s", "its status, from which `fabric` tells that it did not end"),
    r"tenken_pair \d+ \S+ & wait": ("the timeout of each pair", "as that"),
    r"echo 'waits \d+ s: [^']*'; sleep \d+\.\d+": ("the delay of a start", "that it waits"),
}
#: In the text of a job script.
SHELL_WAITS = re.compile(r"\b(?:sleep [\d{]|flock (?!-[a-z]* ?-?n|-u)|wait \$)")
#: At the place of a command in a line of shell, or at the beginning of one of YAML.
COMMAND_WAITS = re.compile(
    r"(?:^|[;&|({]|\bdo|\bthen|\$\{TENKEN_LIMIT:\+)[ \t]*"
    r"(sleep|wait|flock(?! -n)|watch|until|inotifywait|tail -[fF]|timeout)(?=[ \t]+\S)"
    r"|^(concurrency:)(?= [a-z])",
    re.M,
)


def waiting() -> set[str]:
    """`FILE:FUNCTION` in which something sleeps, waits for another process or for a lock, in Python or in shell lines
    (for shell lines outside of a function, the name of the constant).
    """
    package = ROOT / "tenken"
    return {f"{path.relative_to(package)}:{name}" for path in package.rglob("*.py") for name in _in_python(path)}


def _in_python(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    constants = [one for one in tree.body if isinstance(one, ast.Assign)]
    for part in (*functions, *constants):
        if any(_waits(one, part) for one in _own(part)):
            yield part.name if isinstance(part, ast.FunctionDef) else ast.unparse(part.targets[0])


def waiting_outside() -> set[str]:
    """As `waiting`, for every other file that is run or shown: checks, programs in Python, toolchains, scripts,
    examples, and code in the documentation.
    """
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = set()
    for name in listed:
        if name.split("/")[0] in ("tenken", "tests", "tools"):  # `tools` are for developers
            continue
        path = ROOT / name
        if path.suffix == ".py":
            found |= {f"{name}:{one}" for one in _in_python(path)}
            continue
        if path.suffix == ".md":
            whole = path.read_text(encoding="utf-8")
            shown = re.findall(r"^ *```\w*\n(.*?)^ *```", whole, re.M | re.S) + re.findall(r"`(\w+ [^`\n]+)`", whole)
            text = "\n".join(shown)
        elif path.suffix in (".sh", ".yml", ".service", "") or "examples" in name:
            text = path.read_text(encoding="utf-8", errors="replace")
        else:
            continue
        text = re.sub(r"(^|\s)#.*", "", text)
        found |= {f"{name}:{one[0] or one[1]}" for one in COMMAND_WAITS.findall(text)}
    return found


def _own(part: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside of it."""
    for child in ast.iter_child_nodes(part):
        yield child
        if not isinstance(child, ast.FunctionDef):
            yield from _own(child)


def _waits(one: ast.AST, within: ast.AST) -> bool:
    if isinstance(one, ast.Constant) and isinstance(one.value, str):
        words = ast.get_docstring(within, False) if isinstance(within, ast.FunctionDef) else None
        return bool(SHELL_WAITS.search(one.value)) and one.value != words
    if isinstance(one, ast.JoinedStr):
        return bool(SHELL_WAITS.search(ast.unparse(one)))
    if not isinstance(one, ast.Call):
        return False
    names = {getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(one.func)}
    said = ast.unparse(one.func)
    if getattr(one.func, "attr", "") == "join":
        return not one.args  # a thread's, since the one of a text has an argument
    if names & {"flock", "waitpid"}:
        return not re.search(r"LOCK_NB|LOCK_UN|WNOHANG", ast.unparse(one))
    if said.startswith("subprocess.") and names & {"run", "call", "check_call", "check_output"}:
        return all(keyword.arg != "timeout" for keyword in one.keywords)
    if said.startswith(("osext.run_command", "self.sbatch")):
        return True
    return bool(names & {"sleep", "wait", "communicate", "select", "ThreadPoolExecutor"}) and not said.startswith(
        ("self.select", "wheels.select")
    )


#: A shell command that waits.
SCRIPT_WAITS = re.compile(r"(?:^|[;&|({:]|\bdo|\bthen)[ \t]*(?:sleep|wait|flock|until|timeout)(?=[ \t;]|$)")


def generated(folder: Path) -> Iterator[str]:
    """Lines of generated scripts: of every check and build on every system, of a node of a campaign, and of pairs."""
    for path in sorted((ROOT / "tests/reframe/config/golden").rglob("*.txt")):
        yield from path.read_text(encoding="utf-8").splitlines()
    campaign = Campaign("c", "minislurm", "gpu", ("a", "b"), 90.0, between=Between("s", program="/p"))
    yield from nodejob.commands(campaign, Unit("a", "round", 1), "t", folder, folder, "b", 12.5, folder)
    jobs = groupjobs.PairJobs(campaign, folder, None, "srun", print, launch_pair="srun -w {nodes}")  # type: ignore[arg-type]
    yield from jobs._lines(folder / "pairs", Meeting("within", ("l",), ("a", "b"), ((("a", "b"),),)))


def test_everything_that_waits_has_a_bound_and_says_what_for() -> None:
    tables, found = (WAITS, WAITS_OUTSIDE, SILENT), waiting() | waiting_outside()
    assert found == {name for table in tables for name in table}
    assert sum(map(len, tables)) == len(found), "one table for each"
    for bound, says in (*WAITS.values(), *WAITS_OUTSIDE.values(), *WAITS_IN_SCRIPTS.values()):
        assert bound and says and not re.search("nothing|silen(t|ce)$", says)


@pytest.mark.parametrize("name", SILENT)
def test_what_waits_without_a_word_waits_for_seconds(name: str) -> None:
    file, _, function = name.partition(":")
    text = (ROOT / ("" if file.startswith("checks/") else "tenken") / file).read_text(encoding="utf-8")
    (part,) = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef) and one.name == function]
    slept = [float(found) for found in re.findall(r"\bsleep (\d+)", ast.get_source_segment(text, part) or "")]
    assert max([*slept, 0.0]) <= SILENT[name] <= SILENT_S


def test_what_waits_in_a_generated_script_has_a_bound_and_says_what_for(tmp_path: Path) -> None:
    used = set()
    for line in generated(tmp_path):
        rest = line.lstrip("+- ")
        for pattern in WAITS_IN_SCRIPTS:
            rest, count = re.subn(pattern, " ", rest)
            used |= {pattern} if count else set()
        assert not SCRIPT_WAITS.search(rest), rest
    assert used == set(WAITS_IN_SCRIPTS)


def test_reframe_that_does_not_list_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "SAID_S", 0.05)
    monkeypatch.setattr(listing, "GIVEN_UP_S", 0.1)
    done = listing.listed(["sleep", "30"])
    assert done.returncode == -9 and "did not list the checks within 0 min" in done.stderr
    assert "still reads the checks after 0 s" in capsys.readouterr().err
    assert listing.listed(["echo", "[]"]).stdout == "[]\n"


def test_a_lock_that_another_process_keeps_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(durable, "LOCK_SAID_S", 0.0)
    with (tmp_path / "lock").open("w") as theirs, (tmp_path / "lock").open("w") as ours:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match=rf"held the lock of {tmp_path}/lock for 0 s"):
            durable.lock(ours.fileno(), tmp_path / "lock", 0.05)
        assert "it is given up after 0 s" in capsys.readouterr().err
        fcntl.flock(theirs, fcntl.LOCK_UN)
        durable.lock(ours.fileno(), tmp_path / "lock")
