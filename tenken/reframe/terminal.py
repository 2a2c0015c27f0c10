"""What `make run` prints while ReFrame runs: one line per check, with its key figure, criterion, verdict and
duration.

$TENKEN_TERMINAL=brief enables it. ReFrame's terminal handler then shows only warnings and errors (configuration.py),
and its file output/reframe.log has everything as before. A listener on ReFrame's tasks prints the lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from reframe.frontend.executors import Runner, TaskEventListener

from tenken.errors import printable
from tenken.model.catalogue import program as catalogue_program
from tenken.model.judgement import JudgedMetric
from tenken.model.quantities import number
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, VERDICTS, WAIVED
from tenken.paths import CACHE
from tenken.reframe import budget, setup_failures

VARIABLE = "TENKEN_TERMINAL"
BRIEF = "brief"
#: Seconds that a check may take in mode `quick`; one that takes more is marked.
QUICK_SHARE = 30.0
#: Seconds without a line after which the running checks are printed.
SILENCE = 25.0
#: The assumed duration of an unknown check, and the number of finished checks that weigh as much as this guess.
GUESS = 6.0
GUESS_WEIGHS = 10
#: Assumed seconds between two checks, and the number of shares that weigh as much as those used so far.
BETWEEN, SHARES_WEIGH = 0.7, 60.0
#: Characters of a reason.
LONGEST = 240

_BUILDING = re.compile(r"^\[\s*(\d+)/(\d+)\]|^\[\s*(\d+)%\]", re.M)


def brief() -> bool:
    """Whether this process prints one line per check."""
    return os.environ.get(VARIABLE) == BRIEF


def key_figure(judged: Mapping[str, JudgedMetric], verdict: str, order: Sequence[str] = ()) -> str:
    """The decisive value with unit and criterion: for a FAIL the missed one, otherwise the one closest to its bound.

    Without any criterion, the best value of the first rate in `order`.
    """
    if not judged:
        return ""
    of_verdict = {name: one for name, one in judged.items() if one.verdict == verdict} or judged
    name, one = min(of_verdict.items(), key=lambda item: _margin(item[1]))
    if one.criterion is None:
        name, one = _headline(of_verdict, order)
    said = f"{name} {_plain(one.value)}{f' {one.unit}' if one.unit != '1' else ''}"
    bound = _bound(one)
    return f"{said}, {bound}" if bound else said


def _headline(judged: Mapping[str, JudgedMetric], order: Sequence[str]) -> tuple[str, JudgedMetric]:
    """The best value of the first metric of the catalogue that is a rate, otherwise of the first one reported."""
    ranks = {name: at for at, name in enumerate(order)}

    def key(item: tuple[str, JudgedMetric]) -> tuple[bool, int, float]:
        name, one = item
        better = -one.value if one.direction == "higher" else one.value
        return "/s" not in one.unit, ranks.get(name.split(".")[0], len(ranks)), better

    return min(judged.items(), key=key)


def _margin(one: JudgedMetric) -> float:
    """Distance of the value from the bound of its criterion, as a fraction; values without a bound sort last."""
    criterion = one.criterion
    if criterion is None:
        return float("inf")
    ways = [(one.value - criterion.low) / abs(criterion.low)] if criterion.low else []
    ways += [(criterion.high - one.value) / abs(criterion.high)] if criterion.high else []
    return min(ways, default=1e9)


def _bound(one: JudgedMetric) -> str:
    criterion = one.criterion
    if criterion is None:
        return "no criterion"
    low, high = criterion.low, criterion.high
    if low is not None and high is not None:
        text = f"{_plain(low)} to {_plain(high)} allowed"
    elif low is not None:
        text = f"at least {_plain(low)}"
    elif high is not None:
        text = f"at most {_plain(high)}"
    else:
        return f"no bound by {criterion.kind}"
    return f"{text} by {criterion.kind}"


def _plain(value: float) -> str:
    return number(value).replace("\u202f", "").replace("−", "-")


def span(seconds: float) -> str:
    """`8 s`, `2 min 05 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02d} s"


class Durations:
    """The duration of each check in its last run on this machine, used to estimate the remaining time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, float] = {}
        #: Planned seconds by check, and the sums taken and planned for those that ended.
        self.shares: dict[str, float] = {}
        self.taken, self.planned = 0.0, 0.0
        with contextlib.suppress(OSError, ValueError, AttributeError):
            said = json.loads(path.read_text(encoding="utf-8"))
            self.known = {str(k): float(v) for k, v in said.items() if isinstance(v, (int, float)) and 0 <= v < 1e6}

    def of(self, name: str) -> float:
        """Estimate for one check. A check that never ran is estimated by its share, scaled by what earlier checks took,
        or else by the average of the others; the first few are not representative.
        """
        if name in self.shares and name not in self.known:
            return BETWEEN + self.shares[name] * (SHARES_WEIGH + self.taken) / (SHARES_WEIGH + self.planned)
        others = GUESS * GUESS_WEIGHS + sum(self.known.values())
        return self.known.get(name, others / (GUESS_WEIGHS + len(self.known)))

    def expects(self, name: str) -> bool:
        """Whether it ran here before or has a share of the session: mode published has no shares."""
        return name in self.known or name in self.shares

    def note(self, name: str, took: float, measured: bool) -> None:
        """Adds the seconds that a check took; without a measurement they carry no information on others."""
        if measured and name in self.shares:
            self.taken, self.planned = self.taken + took, self.planned + self.shares[name]
        self.known[name] = round(took, 1)

    def keep(self) -> None:
        """Writes them by rename. If the folder is not writable, only the next run's estimate is lost."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            half = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            half.write_text(json.dumps(self.known, indent=0, sort_keys=True), encoding="utf-8")
            half.replace(self.path)


class Progress(TaskEventListener):
    """Prints as tasks end. `clock` and `stream` are parameters for tests."""

    def __init__(
        self,
        cases: Iterable[Any],
        durations: Durations,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream, self.clock, self.durations = stream or sys.stdout, clock, durations
        checks = [case for case in cases if not _is_build(case.check)]
        self.waiting = {_name(case.check, case.partition, case.environ) for case in checks}
        for case in checks:
            if share := budget.planned(case.check, case.partition):
                durations.shares[_name(case.check, case.partition, case.environ)] = share
        self.width = min(44, max((len(_shown(case.check)) for case in cases), default=0))
        self.total = len(self.waiting)
        self.counts = dict.fromkeys(VERDICTS, 0)
        self.began = self.last = clock()
        self.started: dict[Any, float] = {}
        self.building: dict[Any, Any] = {}
        self.built = 0.0
        self.not_started = 0
        self.second: set[str] = set()
        self._over = threading.Event()
        self._lock = threading.Lock()

    # -- what ReFrame reports --

    def on_task_setup(self, task: Any) -> None:
        pass

    def on_task_compile(self, task: Any) -> None:
        if _is_build(task.check):
            self.building[task] = self.clock()

    def on_task_compile_exit(self, task: Any) -> None:
        pass

    def on_task_run(self, task: Any) -> None:
        if not _is_build(task.check):
            self.started[task] = self.clock()

    def on_task_exit(self, task: Any) -> None:
        pass

    def on_task_skip(self, task: Any) -> None:
        reason = str(task.exc_info[1] or "skipped")
        if getattr(task, "failed_deps", False):
            # the build has already reported the reason
            self._finished(task)
            self.not_started += 1
            return
        waived = reason.startswith("WAIVED")
        self._line(task, WAIVED if waived else FAIL, reason.removeprefix("WAIVED: "))

    def on_task_failure(self, task: Any) -> None:
        said = setup_failures.reason_of(task) or str(task.exc_info[1] or "failed without a stated reason")
        reason = re.sub(r"^(FAIL|INVALID): ", "", said)
        verdict = getattr(task.check, "tenken_verdict", "none")
        self._line(task, verdict if verdict in (FAIL, INVALID) else FAIL, _first(task.check, verdict) or reason)

    def on_task_success(self, task: Any) -> None:
        verdict = getattr(task.check, "tenken_verdict", "none")
        self._line(task, verdict if verdict in VERDICTS else PASS, "")

    def on_task_abort(self, task: Any) -> None:
        name = _name(task.check, task.testcase.partition, task.testcase.environ)
        if name not in self.second:  # else its first attempt counts
            self._finished(task)
            self.not_started += not _is_build(task.check)

    def on_again(self, tasks: Iterable[Any]) -> None:
        """These INVALID checks are measured once more (tenken/reframe/again.py); the second attempt counts."""
        self.second = {_name(task.check, task.testcase.partition, task.testcase.environ) for task in tasks}
        self.counts[INVALID] -= len(self.second)
        self.waiting |= self.second
        count = len(self.second)
        self._say(f"again     {count} INVALID check{' is' if count == 1 else 's are'} measured once more")

    # ReFrame's expected failures are not used here: reported as ReFrame classifies them
    on_task_xfailure = on_task_failure
    on_task_xsuccess = on_task_failure

    # -- lines --

    def _finished(self, task: Any, verdict: str = "") -> float:
        """Remove a task from the list; returns its duration in seconds."""
        check = task.check
        if _is_build(check):
            took = self.clock() - self.building.pop(task, self.clock())
            self.built = max(self.built, took)
            return took
        name = _name(check, task.testcase.partition, task.testcase.environ)
        began = self.started.pop(task, None)
        self.waiting.discard(name)
        if began is None:
            return 0.0
        took = own_time(check) or self.clock() - began
        self.durations.note(name, took, verdict in (PASS, RECORDED, INVALID))
        return took

    def _line(self, task: Any, verdict: str, reason: str) -> None:
        took = self._finished(task, verdict)
        check = task.check
        if _is_build(check):
            if not reason and self.building:
                return  # another build is running: one line reports both
            what = _cut(reason) if reason else "programs are built"
            self._say(f"{verdict if reason else 'built':<9} {_shown(check, task):<{self.width}}  {what}  {span(took)}")
            return
        self.counts[verdict] += 1
        judged = getattr(getattr(check, "judged", None), "judged", {}) or {}
        figure = (
            key_figure(judged, verdict, _metrics_of(check))
            if verdict in (PASS, RECORDED) or not reason
            else _cut(reason)
        )
        share = _beside_share(check, took, verdict)
        self._say(f"{verdict:<9} {_shown(check):<{self.width}}  {figure}  {share}  [{self._left()}]")

    def _left(self) -> str:
        done = self.total - len(self.waiting)
        left = f"{done}/{self.total}"
        if not self.waiting:
            return left
        now = self.clock()
        began = {
            _name(task.check, task.testcase.partition, task.testcase.environ): at
            for task, at in [*self.started.items()]
        }
        rests = [self.durations.of(name) - (now - began.get(name, now)) for name in self.waiting]
        # once the time is up only the check that runs is waited for
        running = max((self.durations.of(name) - (now - at) for name, at in began.items()), default=0.0)
        seconds = min(sum(max(0.0, rest) for rest in rests), max(budget.PACE.left(), running))
        if round(seconds) <= 0:  # an estimate of 0 s would be repeated until it ends
            return f"{left}, longer than expected" if all(map(self.durations.expects, self.waiting)) else left
        return f"{left}, about {span(seconds)} left{' after the build' if self.building else ''}"

    def _say(self, text: str) -> None:
        with self._lock:
            self.last = self.clock()
            encoding = self.stream.encoding or "utf-8"
            shown = printable(" ".join(text.split("\n"))).encode(encoding, "replace").decode(encoding)
            print(shown, file=self.stream, flush=True)

    def tick(self) -> None:
        """Prints the current activity if nothing was printed for a while."""
        if self.clock() - self.last < SILENCE:
            return
        shares = sorted(_share_built(task.check) for task in list(self.building))
        # without a share the build has not begun, or waits until the check that comes first has ended
        doing = [f"building{share}" for share in shares if share or not (shares[-1] or self.started)]
        doing += [
            f"{_shown(task.check)} running for {span(self.clock() - at)}" for task, at in list(self.started.items())
        ]
        self._say(f"...       {'; '.join(dict.fromkeys(doing)) or 'waiting'}  [{self._left()}]")

    def start(self) -> None:
        """Tick until `end`."""

        def tick() -> None:
            while not self._over.wait(1.0):
                with contextlib.suppress(Exception):  # a line of progress must never fail a run
                    self.tick()

        threading.Thread(target=tick, daemon=True, name="tenken-progress").start()

    def end(self) -> None:
        """The last line: how many checks ended with which verdict, and the duration."""
        self._over.set()
        self.durations.keep()
        stopped = self.waiting & self.second
        self.waiting -= stopped
        self.counts[INVALID] += len(stopped)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items() if count)
        left = len(self.waiting) + self.not_started
        rest = f"; {left} were not run" if left else ""
        build = f", of which the build {span(self.built)}" if self.built >= 1 else ""
        self._say(f"{sum(self.counts.values())} of {self.total} checks in {span(self.clock() - self.began)}{build}: "
                  f"{counts or 'none ended'}{rest}")  # fmt: skip


def _metrics_of(check: Any) -> list[str]:
    """Names of a program's metrics in the order of its catalogue, key metrics first."""
    with contextlib.suppress(Exception):
        program = catalogue_program(check.program)
        return list(dict.fromkeys((*program.key, *program.metrics)))
    return []


def _is_build(check: Any) -> bool:
    from tenken.reframe.build import BuildPrograms

    return isinstance(check, BuildPrograms)


def _name(check: Any, partition: Any, environ: Any) -> str:
    """The key under which a check's duration is stored: the same size on the same machine."""
    minutes = getattr(check, "tenken_minutes", 0)
    mode = f"{getattr(check, 'tenken_mode', '')}{f' {minutes:g}' if minutes else ''}"
    return f"{check.display_name} @{partition.fullname}+{environ.name} {mode}"


def _beside_share(check: Any, took: float, verdict: str) -> str:
    """The duration of a check, and its share if it has one; in mode quick only if it took too long."""
    if getattr(check, "tenken_mode", "") == "quick":
        return f"{span(took)}{f', more than its {QUICK_SHARE:g} s' if took > QUICK_SHARE else ''}"
    share = getattr(check, "share_seconds", None) if verdict != WAIVED else None
    return span(took) if share is None else f"{span(took)}, share {span(share)}"


def _shown(check: Any, task: Any = None) -> str:
    if _is_build(check):
        return f"build for {task.testcase.environ.name}" if task is not None else ""
    return re.sub(r" %\w+=", " ", check.display_name)


def own_time(check: Any) -> float | None:
    """Seconds between the job's own lines, without the time in the queue."""
    with contextlib.suppress(Exception):
        told = check.told()
        if told.begin is not None and told.end is not None:
            return max(0.0, told.end - told.begin)
    return None


def _share_built(check: Any) -> str:
    """` 42 of 130` from the output of the build so far."""
    with contextlib.suppress(Exception):
        text = Path(check.stagedir, check.build_job.stdout).read_text(errors="replace")
        last = list(_BUILDING.finditer(text))[-1]
        return f" {last[3]} %" if last[3] else f" {last[1]} of {last[2]} files"
    return ""


def _first(check: Any, verdict: str) -> str:
    """The first decisive finding whole, and the number of the others; empty if nothing was judged."""
    findings = getattr(getattr(check, "judged", None), "findings", ())
    said = [one.message for one in findings if one.verdict == verdict]
    more = f" (and {len(said) - 1} more on the page)" if len(said) > 1 else ""
    return _cut(said[0], LONGEST - len(more)) + more if said else ""


def _cut(text: str, longest: int = LONGEST) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[: longest - 4].rsplit(' ', 1)[0]} ..."


def register() -> None:
    """Have ReFrame's runner report its tasks, if one line per check is requested."""
    if not brief():
        return
    runall = Runner.runall

    def telling(self: Any, testcases: Any, *args: Any, **kwargs: Any) -> Any:
        progress = Progress(testcases, Durations(CACHE / "durations.json"))
        self._policy.task_listeners.append(progress)
        progress.start()
        try:
            return runall(self, testcases, *args, **kwargs)
        finally:
            progress.end()

    Runner.runall = telling
