"""Which INVALID cases are measured once more, and for how long (the session itself: test_fail_closed.py)."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import RunSessionTimeout

from tenken.model.verdicts import FAIL, INVALID
from tenken.reframe import again


class Task:
    def __init__(self, name: str, seconds: float, verdict: str | None = INVALID, aborted: bool = False) -> None:
        self.check = SimpleNamespace(judged=None if verdict is None else SimpleNamespace(verdict=verdict))
        self.testcase = Case(name)
        self.seconds, self.failed, self.aborted = seconds, True, aborted

    def duration(self, phase: str) -> float:
        return self.seconds


class Case:
    def __init__(self, name: str) -> None:
        self.check = SimpleNamespace(unique_name=name, user_deps=list)
        self.deps: list[Case] = []
        self.in_degree = self.level = 0
        self.partition = self.environ = SimpleNamespace(name="here", fullname="here")

    def clone(self) -> Case:
        return Case(self.check.unique_name)

    @property
    def num_dependents(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self.check.unique_name == other.check.unique_name

    def __hash__(self) -> int:
        return hash(self.check.unique_name)


class Here:
    current_run = _current_run = 0

    def next_run(self) -> None:
        self._current_run += 1


def measured(monkeypatch: pytest.MonkeyPatch, tasks: list[Task], second: Any, took: float = 1000.0) -> tuple[Any, Any]:
    """The tasks that ReFrame counts after second attempts by `second`, and what was printed."""
    said: list[str] = []
    runs = [tasks]
    runner = SimpleNamespace(
        stats=SimpleNamespace(_alltasks=runs),
        policy=SimpleNamespace(task_listeners=[], set_expiry=said.append),
        _printer=SimpleNamespace(warning=said.append, separator=lambda *words: said.append(words[-1])),
    )
    monkeypatch.setattr(again.runtime, "runtime", Here)

    def once(runner: Any, cases: list[Case]) -> None:
        runs.append([])
        for case in cases:
            runs[1].append(second(case))
            if runs[1][-1].aborted:
                raise RunSessionTimeout("over")

    again.measure_again(runner, [task.testcase for task in tasks], took, once)
    assert len(runs) == 1
    return runs[0], said


def test_only_what_was_measured_and_is_invalid_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [Task("a", 9), Task("b", 9, FAIL), Task("c", 9, None), Task("d", 9)]
    counted, _ = measured(monkeypatch, [*first], lambda case: Task(case.check.unique_name, 9, FAIL))
    assert [task.check.judged and task.check.judged.verdict for task in counted] == [FAIL, FAIL, None, FAIL]
    assert [task in first for task in counted] == [False, True, True, False]


def test_a_second_attempt_that_is_stopped_leaves_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [Task("a", 9), Task("b", 9)]
    counted, said = measured(monkeypatch, first, lambda case: Task(case.check.unique_name, 9, FAIL, aborted=True))
    assert counted == first and said[-1] is None and "stopped" in said[-2]


def test_second_attempts_take_a_quarter_of_the_session_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the session with them: a third of the time before them, of which four fifths are planned."""
    long, short, other = Task("long", 450), Task("short", 50), Task("other", 100)
    assert again.affordable([long, short, other], 250) == [short, other]
    counted, said = measured(
        monkeypatch, [long, short, other], lambda case: Task(case.check.unique_name, 9, FAIL), took=1500
    )
    assert counted[0] is long and [task.check.judged.verdict for task in counted] == [INVALID, FAIL, FAIL]
    assert "INVALID and not measured again: 1" in said[-1] and "500 s" in said[-1]
    assert measured(monkeypatch, [long], lambda case: pytest.fail("too long"), took=1680)[0] == [long]


def test_time_that_undisturbed_attempts_leave_is_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deciding one first; what no longer fits by its former duration does when the first ones took less."""
    tasks = [Task("first", 60), Task("long", 50), Task("short", 15)]
    order: list[str] = []

    def second(case: Case) -> Task:
        order.append(case.check.unique_name)
        return Task(case.check.unique_name, 1, FAIL)

    counted, said = measured(monkeypatch, tasks, second, took=300)
    assert sorted(order[:2]) == ["first", "short"] and order[2:] == ["long"]
    assert [task.check.judged.verdict for task in counted] == [FAIL] * 3
    assert not any("not measured again" in str(words) for words in said)


def test_second_attempts_keep_away_from_the_end_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(again.UNTIL, raising=False)
    assert again.allowed(900.0) == 300.0
    monkeypatch.setenv(again.UNTIL, str(int(time.time()) + 100))
    assert 48 < again.allowed(1000.0) <= 50
    monkeypatch.setenv(again.UNTIL, "17")
    assert again.allowed(1000.0) == 0.0
