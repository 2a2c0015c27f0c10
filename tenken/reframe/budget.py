"""The time of a run: each check's share of it, the samples that fit, and the order.

A check states its share in seconds, of the 30 minutes of mode acceptance on a node with one or two GPUs. Other minutes
scale all shares, and the number of samples with them. No verification is left out. On the machine itself, where one
check follows another, those that take longer than their share leave less to the next ones. A check whose turn comes
after the time is up is left out, by name.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from reframe.frontend.executors import Runner
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy

from tenken.model import job_exit
from tenken.reframe.build import BuildPrograms

#: Minutes of a run by mode, with the build. `published` has no limit, `nightly` the duration of its history.
MINUTES = {"quick": 5.0, "acceptance": 30.0}
#: Mode acceptance on a node with more than two GPUs, where checks that measure GPUs one by one take longer.
MINUTES_OF_MANY = 45.0
#: GPUs for which shares are stated.
FEW_GPUS = 2
#: Seconds of the budget that belong to no check: the build, and about a second between two checks.
BESIDE = 150.0
#: Share of the usual time that mode quick takes (0.27 to 0.31 of the shares of its 44 checks on two H100 or H200), and
#: that remains with as few samples as allowed: starts of programs, set-up, verification. Of checks that mode quick
#: lacks more remains (0.6 on two H200, of which a sixth was in problems that are smaller now).
REST, REST_OF_OTHERS = 0.3, 0.5
#: Samples are cut only if less than this share of the planned time is left, so that commands do not vary with every
#: second.
BEHIND = 0.9
#: Share of a budget for all file checks together.
FILES = 0.25

#: Arguments of programs that are sampling durations, or counts, and the minimum of each: that of mode quick.
#: Repetitions are reduced to what the catalogue requires (`min_count`).
SECONDS = {
    "seconds": 0.2, "decide-seconds": 0.1, "target-seconds": 1.0, "sustained-seconds": 0.6,
    # runs with a bit flipped, not seconds
    "flips": 20,
}  # fmt: skip

#: With less than this share of the usual time, problems and cases are those of mode quick, without energy.
HALF = 0.5
#: Passes of energy, of which some repeat a whole solution: at least as long as sensors need, or left out.
ENERGY, ENERGY_SECONDS = "energy-seconds", 2.1

#: Warm-up of this suite's programs unless told otherwise, in seconds, and the minimum of each such argument: that of
#: mode quick. More minutes do not lengthen it.
WARMUP, WARMUPS = 1.0, {"warmup-seconds": 0.3, "variant-warmup-seconds": 0.05}

#: Tags in the order in which their checks run: the deciding ones first. The others follow in order. Those of `LATER`
#: come last whatever their other tags, and files at the very end.
LATER = {"training"}
FIRST, LAST = ("stream", "transfer", "links", "gemm", "hpl", "hpl_mxp", "hpcg"), "storage"


def scale(mode: str, minutes: float, gpus: int, one_by_one: bool) -> float:
    """Ratio of a check's number of samples to the stated one. `minutes`: of the whole run, 0 for the mode's default.

    A check that takes GPUs `one_by_one` has less time for each if there are more than two.
    """
    if mode not in MINUTES:
        return 1.0
    own = MINUTES_OF_MANY if mode == "acceptance" and gpus > FEW_GPUS else MINUTES[mode]
    share = minutes / own if minutes else 1.0
    many = gpus > FEW_GPUS and one_by_one and mode == "acceptance"
    return share * (MINUTES_OF_MANY / MINUTES[mode] * FEW_GPUS / gpus if many else 1.0)


def rest(tags: Iterable[str]) -> float:
    """The share of its usual time that a check with these tags takes with less than half of the time."""
    return REST if "quick" in tags else REST_OF_OTHERS


def seconds_of(
    share: float | None, mode: str, minutes: float, gpus: int, one_by_one: bool, tags: Iterable[str]
) -> float | None:
    """The time of a check with this `share`; None if none is stated, or the mode has no budget."""
    if share is None or mode != "acceptance":
        return None
    many = gpus > FEW_GPUS
    own = MINUTES_OF_MANY if many else MINUTES[mode]
    grown = MINUTES_OF_MANY / MINUTES[mode] if many and one_by_one else 1.0
    of_usual = minutes / own if minutes else 1.0
    return share * grown * (min(of_usual, rest(tags)) if of_usual < HALF else of_usual)


def planned(check: Any, partition: Any) -> float | None:
    """The share in seconds of a check that is not set up yet."""
    gpus = sum(one.num_devices for one in getattr(partition, "devices", ()) if one.device_type == "gpu")
    mode, minutes = getattr(check, "tenken_mode", ""), getattr(check, "tenken_minutes", 0)
    one_by_one = "gpu" in getattr(check, "subjects", ())
    return seconds_of(getattr(check, "share", None), mode, minutes, gpus, one_by_one, getattr(check, "tags", ()))


class Pace:
    """What is left of a run's time. Nothing is known of runs by a scheduler, where jobs wait and run side by side."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.minutes, self.end, self.of_usual = 0.0, math.inf, 1.0
        self.waiting: dict[str, float] = {}
        #: When the site's program that runs began.
        self.site: float | None = None

    def begin(self, cases: Iterable[Any]) -> None:
        """The run begins now. Only cases of mode acceptance that run without a scheduler are paced."""
        paced = [
            case for case in cases if not isinstance(case.check, BuildPrograms) and case.partition.scheduler.is_local
        ]
        acceptance = [case for case in paced if getattr(case.check, "tenken_mode", "") == "acceptance"]
        if not acceptance:
            return
        gpus = max(sum(one.num_devices for one in case.partition.devices) for case in acceptance)
        usual = MINUTES_OF_MANY if gpus > FEW_GPUS else MINUTES["acceptance"]
        self.minutes = max(case.check.tenken_minutes for case in acceptance) or usual
        self.of_usual = self.minutes / usual
        self.end = self.clock() + 60 * self.minutes
        self.waiting = {case.check.unique_name: planned(case.check, case.partition) or 0.0 for case in acceptance}

    def forget(self, name: str) -> None:
        """A check that will not run needs no time."""
        self.waiting.pop(name, None)

    def on_top(self) -> None:
        """A program of the site begins: its time, until the next check begins, is not the run's."""
        self.site = self.clock()

    def _resume(self) -> None:
        if self.site is not None:
            self.end += self.clock() - self.site
            self.site = None

    def factor(self, name: str) -> float:
        """The further factor on the samples of the check that begins now; 0 if the time is up, which means as few as
        allowed."""
        shares = sum(self.waiting.values())
        self.forget(name)
        if not shares:
            return 1.0
        by = max(0.0, self.end - self.clock()) / shares
        if self.of_usual >= HALF:  # of the usual time, REST remains whatever the number of samples
            by = max(0.0, (by * self.of_usual - REST) / (1 - REST)) / self.of_usual
        return by if by < BEHIND else 1.0

    def open_end(self) -> None:
        """What follows, such as second attempts, has a separate limit."""
        self.end = math.inf

    def left(self) -> float:
        """Seconds in which checks may still begin."""
        return max(0.0, self.end - (self.clock() if self.site is None else self.site))

    def over(self) -> str:
        """Why nothing more is begun; empty while there is time. What ran before has ended."""
        self._resume()
        return f"{job_exit.NO_TIME}: the {self.minutes:g} minutes are used up" if self.clock() > self.end else ""


#: Of this process's run.
PACE = Pace()


def fitted(arguments: Mapping[str, Any], by: float, fewest: int) -> dict[str, Any]:
    """The arguments scaled by `by`: durations, and repetitions, of which at least `fewest` remain; warm-ups are only
    shortened.
    """
    found: dict[str, Any] = {}
    for name, least in (SECONDS if by > 1 else {**SECONDS, **WARMUPS}).items():
        value = arguments.get(name)
        if isinstance(value, (int, float)) and value > least:
            cut = max(least, value * by)
            found[name] = round(cut) if isinstance(value, int) and cut >= 1 else round(cut, 3)
    energy = arguments.get(ENERGY)
    if isinstance(energy, (int, float)) and energy > 0:
        cut = max(energy * by, 0 if by < HALF else ENERGY_SECONDS)
        found[ENERGY] = round(cut, 3) if cut >= ENERGY_SECONDS else 0
    many = arguments.get("repetitions")
    if isinstance(many, int) and many > fewest:
        found["repetitions"] = max(fewest, round(many * by))
    return found


def rank(tags: Iterable[str]) -> int:
    """The position of a check with these tags in a run; lower is earlier."""
    found = set(tags)
    if LAST in found:
        return len(FIRST) + 1
    if found & LATER:
        return len(FIRST)
    return next((at for at, tag in enumerate(FIRST) if tag in found), len(FIRST))


def behind(task: Any, others: Collection[Any]) -> bool:
    """Whether a task that comes earlier in the run is ready for the node of this one and waits for no build.

    ReFrame gives a node that becomes free to the next task in the order: what was not ready then would come last.
    """
    here = task.testcase.partition
    if not here.scheduler.is_local:
        return False
    for one in others:
        if one is task:
            return False
        ready = one.state == "ready_run" and one.testcase.partition.fullname == here.fullname
        if ready and not compiling(one, others):
            return True
    return False


def compiling(task: Any, others: Iterable[Any]) -> bool:
    """Whether programs are compiled on the node at the time when this task, which needs none of them, would measure.
    Other tasks wait for their own build, which ends with the last one.
    """
    here = task.testcase.partition
    if isinstance(task.check, BuildPrograms) or task.testcase.deps or not here.scheduler.is_local:
        return False
    return any(
        isinstance(one.check, BuildPrograms)
        and one.testcase.partition.fullname == here.fullname
        and one.state in ("startup", "ready_compile", "compiling")
        for one in others
    )


def register() -> None:
    """Have ReFrame run its cases in the order of `rank`, and each node's ready ones in that order. Cases that need no
    build wait for the builds on their node; otherwise they would come first, whatever their rank, and run next to
    compilers.
    """
    runall, advance = Runner.runall, AsynchronousExecutionPolicy._advance_ready_run

    def ordered(self: Any, testcases: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(word.startswith("--exec-order") for word in sys.argv):
            testcases.sort(key=lambda case: -1 if isinstance(case.check, BuildPrograms) else rank(case.check.tags))
        PACE.begin(testcases)
        return runall(self, testcases, *args, **kwargs)

    def patiently(self: Any, task: Any) -> int:
        waits = compiling(task, self._current_tasks) or behind(task, self._current_tasks)
        return 0 if waits else int(advance(self, task))

    Runner.runall, AsynchronousExecutionPolicy._advance_ready_run = ordered, patiently
