"""Measures an INVALID run once more after everything else, when the disturbance may be gone.

The second attempt decides, and there is no third. Both are in the archive. ReFrame's own statistics, run report and
exit status reflect the attempt that counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from reframe.core import runtime
from reframe.core.exceptions import RunSessionTimeout
from reframe.frontend import dependencies
from reframe.frontend.executors import Runner

from tenken.model.verdicts import INVALID
from tenken.reframe import budget
from tenken.reframe.terminal import own_time

#: Maximum time of second attempts as a share of the session's time with them, and the fraction of it that is planned.
SHARE, PLANNED = 0.25, 0.8
#: End of the job in which the session runs, in seconds since 1970; a check that still runs then loses all of its
#: records.
UNTIL = "TENKEN_UNTIL"
#: Share of the time until that end that second attempts may take.
OF_REST = 0.5


def register() -> None:
    """Have ReFrame's runner measure again, unless the user requested repetitions of another kind."""
    once = Runner._runall

    def twice(self: Any, testcases: Any) -> None:
        began = time.monotonic()
        once(self, testcases)
        if not (self.max_retries or self._timeout):
            measure_again(self, testcases, time.monotonic() - began, once)

    Runner._runall = twice


def measure_again(runner: Any, testcases: Sequence[Any], took: float, once: Callable[[Any, Any], None]) -> None:
    """Run the INVALID cases of the present run of a runner once more by `once`. `took`: seconds of the session."""
    seconds = allowed(took)
    first = runner.stats._alltasks[runtime.runtime().current_run]
    waiting = [task for task in first if _void(task)]
    end = time.monotonic() + seconds
    # a disturbed attempt takes longer than an undisturbed one: what is left may be enough for others
    while chosen := affordable(waiting, end - time.monotonic()):
        waiting = [task for task in waiting if task not in chosen]
        if not _attempt(runner, testcases, first, chosen, end - time.monotonic(), once):
            break
    if waiting:
        runner._printer.warning(
            f"INVALID and not measured again: {len(waiting)}, since second attempts may take {seconds:.0f} s"
        )


def _attempt(
    runner: Any, testcases: Sequence[Any], first: list[Any], chosen: list[Any], seconds: float,
    once: Callable[[Any, Any], None],
) -> bool:  # fmt: skip
    """Replace the chosen tasks among the `first` ones by second attempts; False if their time was up."""
    here = runtime.runtime()
    runner._printer.separator("short double line", f"Measuring what was INVALID once more: {len(chosen)}")
    for listener in runner.policy.task_listeners:
        getattr(listener, "on_again", lambda tasks: None)(chosen)
    budget.PACE.open_end()
    cases = [task.testcase.clone() for task in chosen]
    graph, _ = dependencies.build_deps(cases, testcases)
    here.next_run()  # a separate stage folder
    runner.policy.set_expiry(time.time() + seconds)
    try:
        once(runner, dependencies.toposort(graph, is_subgraph=True))
    except RunSessionTimeout:
        runner._printer.warning("second attempts took too long and were stopped; those not finished are INVALID")
        return False
    finally:
        runner.policy.set_expiry(None)
        here._current_run -= 1
        second = runner.stats._alltasks.pop() if len(runner.stats._alltasks) > here.current_run + 1 else []
        # a second attempt that could not even be staged (a full disk) is no evidence: the first one counts
        over = {task.testcase: task for task in second if not task.aborted and hasattr(task.check, "judged")}
        first[:] = [over.get(task.testcase, task) if task in chosen else task for task in first]
    return True


def allowed(took: float) -> float:
    """Seconds that second attempts may take after a session of `took` seconds."""
    until = os.environ.get(UNTIL, "")
    rest = OF_REST * (float(until) - time.time()) if until.replace(".", "", 1).isdigit() else took
    return max(0.0, min(SHARE / (1 - SHARE) * took, rest))


def affordable(tasks: Sequence[Any], seconds: float) -> list[Any]:
    """The cases that fit into a time by their former duration, in their order, the deciding ones first."""
    chosen, planned = [], 0.0
    for task in tasks:
        if planned + _seconds(task) <= PLANNED * seconds:
            planned += _seconds(task)
            chosen.append(task)
    return chosen


def _seconds(task: Any) -> float:
    return own_time(task.check) or task.duration("total") or 0.0


def _void(task: Any) -> bool:
    """Whether it was measured and judged INVALID. A case that never ran, or that could not be archived, has no second
    attempt."""
    judged = getattr(task.check, "judged", None)
    return bool(task.failed and judged is not None and judged.verdict == INVALID)
