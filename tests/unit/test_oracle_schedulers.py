"""Every state in a scheduler's manual, and what it means for a job; when patience ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tenken.reframe.schedulers import gridengine, nqsv, pbs, slurm
from tenken.reframe.schedulers.command import CommandError
from tenken.reframe.schedulers.polling import Seen, Waiting, hms, num_nodes
from tests.cluster.test_follower import RUNNING, Submitter, World, submit

END, WAIT, GO = "ended", "pending", "running"


def kind(seen: Seen) -> str:
    return END if seen.ended else WAIT if seen.pending else GO


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        *((s, END) for s in ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL")),
        *((s, END) for s in ("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT", "LAUNCH_FAILED")),
        *((s, WAIT) for s in ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "POWER_UP_NODE")),
        *((s, GO) for s in ("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "RESIZING", "SIGNALING", "STOPPED")),
    ],
)
def test_slurm_states(state: str, expected: str) -> None:
    """sbatch's and squeue's manual, JOB STATE CODES."""
    assert kind(slurm.seen(state, 0, "nid1", "None")) == expected


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        ("COMPLETED", 0, 0),
        ("FAILED", 3 << 8, 3),
        ("FAILED", 127 << 8, 127),
        ("TIMEOUT", 0, None),
        ("PREEMPTED", 0, None),
    ],
)
def test_slurm_tells_a_wait_status_and_ends_jobs_with_0(state: str, status: int, expected: int | None) -> None:
    (found,) = slurm.listed(f"1|{state}|{status}|nid1|None|\n").values()
    assert found.exit_code == expected
    (found,) = slurm.accounted(f"1|{state}|{status >> 8}:0|nid1\n").values()
    assert found.exit_code == expected


@pytest.mark.parametrize(
    ("reason", "waiting"),
    [
        ("PartitionDown", Waiting.MENDED),
        ("JobHeldUser", Waiting.MENDED),
        ("InvalidAccount", Waiting.MENDED),
        ("DependencyNeverSatisfied", Waiting.NEVER),
        ("PartitionTimeLimit", Waiting.NEVER),
        ("BadConstraints", Waiting.NEVER),
        ("Dependency", Waiting.RUNS),
        ("Priority", Waiting.RUNS),
        ("Resources", Waiting.RUNS),
        ("BeginTime", Waiting.RUNS),
    ],
)
def test_slurm_reasons_and_whether_waiting_helps(reason: str, waiting: Waiting) -> None:
    found = slurm.seen("PENDING", None, "", reason)
    assert (found.pending, found.waiting, found.why) == (True, waiting, reason)


@pytest.mark.parametrize(
    ("letter", "expected", "held"),
    [
        *((letter, END, False) for letter in "FCX"),
        *((letter, GO, False) for letter in "RBESU"),
        *((letter, WAIT, False) for letter in "QWTM"),
        ("H", WAIT, True),
    ],
)
def test_pbs_letters(letter: str, expected: str, held: bool) -> None:
    """qstat's manual, job states."""
    found = pbs.seen({"job_state": letter})
    assert (kind(found), found.waiting is Waiting.MENDED) == (expected, held)


@pytest.mark.parametrize(
    ("status", "begins"),
    [(0, "COMPLETED"), (3, "COMPLETED"), (271, "CANCELLED"), (-29, "TIMEOUT"), (-28, "CANCELLED"), (-1, "CANCELLED")],
)
def test_an_exit_status_below_0_or_of_a_signal_is_no_programs_own(status: int, begins: str) -> None:
    found = pbs.seen({"job_state": "F", "Exit_status": status})
    assert found.state.startswith(begins) and found.exit_code == status


@pytest.mark.parametrize(
    ("state", "expected", "held"),
    [
        *((s, GO, False) for s in ("PRR", "RUN", "STG", "CHK", "EXT", "POR")),
        *((s, WAIT, False) for s in ("QUE", "WAT", "ARI", "FWD", "MIG", "GQD")),
        *((s, WAIT, True) for s in ("HLD", "HOL", "SUS")),
    ],
)
def test_nqsv_states(state: str, expected: str, held: bool) -> None:
    (found,) = nqsv.requests(f"12.nqsv a u gen_S 0 {state} - 0\n").values()
    assert (found.state, kind(found), found.waiting is Waiting.MENDED) == (state, expected, held)


@pytest.mark.parametrize(
    ("letters", "expected", "state"),
    [
        ("qw", WAIT, "PENDING"),
        ("hqw", WAIT, "HELD"),
        ("r", GO, "RUNNING"),
        ("t", GO, "RUNNING"),
        ("Rr", GO, "RUNNING"),
        ("s", GO, "SUSPENDED"),
        ("S", GO, "SUSPENDED"),
        ("T", GO, "SUSPENDED"),
        ("dr", GO, "DELETING"),
    ],
)
def test_gridengine_letters(letters: str, expected: str, state: str) -> None:
    found = gridengine.seen(letters)
    assert (kind(found), found.state, found.lost) == (expected, state, False)


@pytest.mark.parametrize("letters", ["Eqw", "Er", "Ehqw"])
def test_gridengine_never_runs_a_job_in_error(letters: str) -> None:
    assert gridengine.seen(letters).lost


@pytest.mark.parametrize(
    ("tasks", "each", "nodes"), [(10, 4, 3), (8, 4, 2), (1, 4, 1), (4, 4, 1), (9, 2, 5), (None, None, 1)]
)
def test_nodes_add_up(tasks: int | None, each: int | None, nodes: int) -> None:
    assert num_nodes(SimpleNamespace(num_tasks=tasks, num_tasks_per_node=each)) == nodes  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "00:00:00"),
        (59, "00:00:59"),
        (3540, "00:59:00"),
        (3600, "01:00:00"),
        (86399, "23:59:59"),
        (360000, "100:00:00"),
    ],
)
def test_hours_minutes_and_seconds(seconds: int, text: str) -> None:
    assert hms(seconds) == text


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_job_missing_in_one_answer_goes_on(world: World) -> None:
    world.hear(RUNNING)
    assert not world.hear().completed
    job = world.hear(RUNNING)
    assert job.ended_at is None and not job.gone and job.state == "RUNNING"


@pytest.mark.parametrize(("silent", "given_up"), [(49.0, False), (50.5, True)])
def test_a_job_without_a_word_is_given_up(world: World, silent: float, given_up: bool) -> None:
    world.hear(RUNNING)
    job = world.hear(None, after=silent)
    assert bool(world.cancelled) is given_up and (job.giving_up is not None) is given_up


@pytest.mark.parametrize(("waits", "given_up"), [(19.0, False), (20.5, True)])
def test_a_blocked_job_is_taken_out_sooner(world: World, waits: float, given_up: bool) -> None:
    blocked = Seen("PENDING", pending=True, waiting=Waiting.MENDED, why="PartitionDown")
    world.hear(blocked)
    world.hear(blocked, after=waits)
    assert bool(world.cancelled) is given_up


@pytest.mark.parametrize(("waits", "given_up"), [(98.0, False), (100.5, True)])
def test_a_pending_job_is_taken_out_at_the_limit(world: World, waits: float, given_up: bool) -> None:
    world.hear(Seen("PENDING", pending=True, why="Priority"), after=waits)
    assert bool(world.cancelled) is given_up


@pytest.mark.parametrize(
    ("said", "tries"),
    [
        ("qsub: server busy", 5),
        ("Connection refused", 5),
        ("communication failure", 5),
        ("Socket timed out", 5),
        ("try again later", 5),
        ("Invalid account", 1),
        ("Unknown queue", 1),
    ],
)
def test_a_busy_scheduler_is_asked_again_and_a_refusal_is_not(world: World, said: str, tries: int) -> None:
    """PATIENCE allows five attempts to submit."""
    asked: list[float] = []

    def once() -> str:
        asked.append(0)
        raise CommandError(said, said)

    with pytest.raises(CommandError):
        submit(Submitter(), world.job, once)
    assert len(asked) == tries
