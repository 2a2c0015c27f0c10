"""Whether a job ended as its end mark, or its result, states: one rule for running jobs and archived records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: States of a job that did not run to its end; an exit code of 0 is then meaningless.
KILLED_STATES = ("TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "REVOKED")
#: States of a job that ended by itself. Schedulers without an exit status use them for every such job.
ENDED_STATES = ("COMPLETED", "SUCCESS", "TERMINATED")
#: States of a job that ended by itself with another exit status than 0.
FAILED_STATES = ("FAILED", "FAILURE", "ERROR")
#: The exit status of a job script whose node does not see the stage folder. It is systemd's for a working directory
#: that cannot be entered. No program here ends with it, and it is above those of signals (up to 192) and below ssh's
#: 255.
NO_STAGE = 200
#: Beginning of the reason of a test case that was skipped because a dependency failed.
NOT_RUN = "not run, because a dependency failed"
#: How a check is waived if its turn comes after the run's time is up.
NO_TIME = "no time left"
#: The exit status of a program by the status of its result.
EXPECTED = {"ok": 0, "failed": 1, "waived": 3}


def killed(state: str | None) -> str | None:
    """Why a job in this state did not run to its end; None if it did, or if nothing is known."""
    if any(word in (state or "").upper() for word in KILLED_STATES):
        return f"the job did not run to its end: state {state}"
    return None


def lost(facts: Mapping[str, Any]) -> str | None:
    """How a scheduler lost a job that had started, as recorded; None: it did not."""
    how = facts.get("lost")
    return f"the scheduler lost the job, as after a crash of its controller: {how}; run it again" if how else None


def disturbed(facts: Mapping[str, Any]) -> str | None:
    """Why a completed job measured something other than requested, according to its record."""
    if moved := facts.get("moved"):
        return f"the job {moved}: run it again"
    # a start that the script does not know of, because its prologue failed, measured nothing
    keys = ("attempts",) if facts.get("began_on") else ("run_count", "attempts")
    counts = [str(facts.get(key, 1)) for key in keys]
    times = max(int(count) if count.isdigit() else 1 for count in counts)
    if times > 1 and not facts.get("may_run_again"):
        began = facts.get("began_on")
        hosts = f" (it began on {began})" if began else ""
        return f"the job ran twice: the scheduler started it {times} times{hosts}"
    if facts.get("suspended"):
        return "the scheduler suspended the job while it ran: run it again"
    return None


def fault(state: str | None, exit_code: int | None, status: int, says: str = "its end mark") -> str | None:
    """The contradiction between the scheduler's data and a job that ended with `status`; None: there is none.

    `state` and `exit_code` are the scheduler's, None or empty if not reported; `says` is the source of `status`. A
    script exits with the status that it printed. Another exit code, or a failed state with status 0, therefore results
    from an event after its mark: a signal, a failed epilogue, or another job.
    """
    cut = killed(state)
    if cut:
        return cut
    # some report the status of wait(2), with the exit status in the upper eight bits
    if exit_code is not None and exit_code not in (status, status << 8):
        by = f"according to the scheduler (state {state or 'unknown'})"
        return f"the job exited with {exit_code} {by}; {says} has {status}"
    # `COMPLETED,COMPLETED` of an array; a comma within `COMPLETED (no longer listed)` separates no states
    for one in re.sub(r"\([^()]*\)", "", state or "").split(","):
        word = (re.findall(r"[A-Z_]+", one.upper()) or [""])[0]
        if word in ENDED_STATES or word in ("", "UNKNOWN"):
            continue
        if word in FAILED_STATES and status != 0 and exit_code is not None:
            continue
        allowed = ", ".join((*ENDED_STATES, *(FAILED_STATES if status else ())))
        told = "" if exit_code is None else f", exit code {exit_code}"
        return f"the job's state is {state}{told}; {says} has status {status}, for which the state is {allowed}"
    return None
