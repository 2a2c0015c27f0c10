"""Every state in a scheduler's manual, and what it means for a job."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tenken.reframe.schedulers import gridengine, nqsv, pbs, slurm
from tenken.reframe.schedulers.polling import Seen, Waiting, hms, num_nodes

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


@pytest.mark.parametrize(("letter", "expected", "held"), [
    *((letter, END, False) for letter in "FCX"), *((letter, GO, False) for letter in "RBESU"),
    *((letter, WAIT, False) for letter in "QWTM"), ("H", WAIT, True),
])  # fmt: skip
def test_pbs_letters(letter: str, expected: str, held: bool) -> None:
    """qstat's manual, job states."""
    found = pbs.seen({"job_state": letter})
    assert (kind(found), found.waiting is Waiting.MENDED) == (expected, held)


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


@pytest.mark.parametrize(("letters", "expected", "state"), [
    ("qw", WAIT, "PENDING"), ("hqw", WAIT, "HELD"), ("r", GO, "RUNNING"), ("t", GO, "RUNNING"), ("Rr", GO, "RUNNING"),
    ("s", GO, "SUSPENDED"), ("S", GO, "SUSPENDED"), ("T", GO, "SUSPENDED"),
    ("N", GO, "SUSPENDED"), ("P", GO, "SUSPENDED"), ("dr", GO, "DELETING"),
    *((letters, GO, "ERROR") for letters in ("Eqw", "Er", "Ehqw")),
])  # fmt: skip
def test_gridengine_letters(letters: str, expected: str, state: str) -> None:
    """A job in error never runs."""
    found = gridengine.seen(letters)
    assert (kind(found), found.state, found.lost) == (expected, state, state == "ERROR")


@pytest.mark.parametrize(("failed", "killed"), [
    ("0", False), ("100 : assumedly after job", False), ("26  : opening input/output file", False),
    ("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", True), ("44  : execd enforced h_rt limit", True),
    ("1   : assumedly before job", True), ("19  : before writing exit_status", True),
])  # fmt: skip
def test_gridengine_ended_what_its_accounting_says(failed: str, killed: bool) -> None:
    """accounting(5): with 100, the exit status is that of a signal, which the script may have returned."""
    found = gridengine.accounted(f"hostname  n1\njobname  p\nfailed  {failed}  \nexit_status  137  (Killed)\n", "p")
    assert found is not None and (found.killed, found.exit_code, found.nodes) == (killed, 137, ("n1",))
    assert (f"failed {failed}" in found.state, "COMPLETED" in found.state) == (killed, not killed)


@pytest.mark.parametrize(
    ("tasks", "each", "nodes"), [(10, 4, 3), (8, 4, 2), (1, 4, 1), (4, 4, 1), (9, 2, 5), (None, None, 1)]
)
def test_nodes_add_up(tasks: int | None, each: int | None, nodes: int) -> None:
    assert num_nodes(SimpleNamespace(num_tasks=tasks, num_tasks_per_node=each)) == nodes  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "00:00:00"), (59, "00:00:59"), (3540, "00:59:00"), (3600, "01:00:00"), (86399, "23:59:59"),
    (360000, "100:00:00"),
])  # fmt: skip
def test_hours_minutes_and_seconds(seconds: int, text: str) -> None:
    assert hms(seconds) == text
