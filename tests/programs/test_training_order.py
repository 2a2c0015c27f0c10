"""training: what is measured in which order, what of several ranks counts, and between which moments a step lies."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.programs.test_training import FOLDER, module, together
from tests.support import pytorch as support

TRAINING = module("training")


class Recorded:
    """In place of the trainer: writes down what it is told to do. Each step has a loss of its own."""

    def __init__(self, *_: Any) -> None:
        self.events: list[Any] = []
        self.tokens_a_step, self.device, self.rank, self.batch, self.loss = 64, SimpleNamespace(type="cpu"), 0, 2, 8.0

    def step(self) -> float:
        self.events.append("step")
        self.loss -= 0.5
        return self.loss

    def timed(self, seconds: float, least: int, plain: bool = False, joules: Any = None) -> Any:
        self.events.append(("timed", seconds, least, plain))
        lasted = float(len(self.events))
        return SimpleNamespace(
            steps=[lasted] * 3,
            phases={"forward": [1.0]},
            plain=[0.5] * plain,
            joules=None,
            seconds=1,
            losses=[7.0, 5.0],
        )

    def reset(self) -> None:
        self.events.append("reset")

    def compile(self) -> None:
        self.events.append("compile")

    @contextlib.contextmanager
    def by_itself(self) -> Iterator[None]:
        self.events.append("alone")
        yield
        self.events.append("together")


WARM = ["step"] * 4
ONCE_MORE = ("timed", 0, 1, False)


@pytest.mark.parametrize(
    ("options", "expected", "first"),
    [
        ([], ["product", *WARM, ("timed", 6, 10, False)], 7.5),
        (["--compiled"], ["compile", "product", *WARM, ("timed", 6, 10, False)], 7.5),
        (["--plain"], ["product", *WARM, ("timed", 0, 1, True), ("timed", 6, 10, True)], 7.5),
        # what a rank reaches alone comes first; the losses are those after a fresh start
        (["--parallel", "data", "--processes", "2"],
         ["product", *WARM, ONCE_MORE, "alone", "step", "step", ("timed", 2, 10, False), "together", "reset", "step",
          ("timed", 6, 10, False)], 4.5),
    ],
)  # fmt: skip
def test_warm_up_comes_before_the_timed_part_and_the_first_loss_is_that_of_a_fresh_start(
    options: list[str], expected: list[Any], first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Recorded()

    def product(device: Any, size: int, seconds: float) -> list[float]:
        one.events.append("product")
        return [0.25]

    fake = {
        "nvml": SimpleNamespace(Watch=None),
        "shapes": module("shapes"),
        "trainer": SimpleNamespace(WARM_UP=4, Fault=None, Trainer=lambda *given: one, product_seconds=product),
    }
    for name, held in fake.items():
        monkeypatch.setitem(sys.modules, name, held)  # type: ignore[arg-type]
    monkeypatch.setattr(TRAINING, "attention", lambda name: contextlib.nullcontext())
    monkeypatch.setattr(TRAINING, "versions_of", lambda *_: {})
    words = ["--backend", "cpu", "--model", "tiny", "--batch", "2", "--seconds", "6", "--steps", "0", "--worker", "0"]
    asked = TRAINING.options().parse_args([*words, *options])
    part = TRAINING.measured(asked, SimpleNamespace(type="cpu"), SimpleNamespace(__version__="2"))
    assert one.events == expected
    assert (part["loss_first"], part["loss_last"]) == (first, 5.0)
    of = {(found["metric"], *found["at"].values()): found["seconds"] for found in part["series"]}
    assert of["product",] == [0.25] and of["phase", "forward"] == [1.0]
    # the whole run counts, not the warm-up nor what was made alone
    assert of["step",] == [float(len(expected))] * 3
    assert ("alone",) not in of or of["alone",] == [10.0] * 3
    assert (("plain",) in of) == ("--plain" in options)


def parts(**slow: float) -> list[dict[str, Any]]:
    """Of two ranks; `slow`: the seconds of the second one."""
    return [
        {
            "node": "n", "subject": {"host": 0},
            "series": [
                {"metric": name, "at": at, "counts": counts, "seconds": [1.0, second.get(name, 1.0), 1.0]}
                for name, at, counts in (
                    ("product", {}, {"operations": 8.0}), ("alone", {}, {}), ("step", {}, {"tokens": 64}),
                    ("phase", {"part": "forward"}, {}), ("phase", {"part": "backward"}, {}),
                )
            ]
            + [{"metric": "power", "at": {}, "values": [300.0 + 50 * bool(second)]}],
        }
        for second in ({}, slow)
    ]  # fmt: skip


@pytest.mark.parametrize(("parallel", "tokens"), [("data", 128), ("tensor", 64)])
@pytest.mark.parametrize("slower", [0, 1])
def test_of_ranks_the_slowest_one_counts_at_every_step(parallel: str, tokens: int, slower: int) -> None:
    given = parts(step=3.0, phase=2.0, alone=1.5)
    asked = argparse.Namespace(backend="cpu", parallel=parallel)
    found = TRAINING.series(asked, given if slower else given[::-1])
    of = {(one["metric"], *one["at"].values()): one for one in found}
    assert all(one["subject"] == {"ranks": 2} for one in found)
    assert of["step",]["seconds"] == [1.0, 3.0, 1.0] and of["step",]["counts"] == {"tokens": tokens}
    assert of["phase", "forward"]["seconds"] == of["phase", "backward"]["seconds"] == [1.0, 2.0, 1.0]
    assert of["power",]["values"] == [650.0]
    # of each rank
    assert [of["alone", rank]["seconds"][1] for rank in (0, 1)] == ([1.0, 1.5] if slower else [1.5, 1.0])
    assert of["product", 1]["counts"] == {"operations": 8.0}


def test_devices_that_train_by_themselves_keep_their_values() -> None:
    given = parts(step=3.0)
    given[1]["subject"] = {"host": 1}
    found = TRAINING.series(argparse.Namespace(backend="cpu", parallel="none"), given)
    assert [(one["subject"]["host"], one["seconds"][1]) for one in found if one["metric"] == "step"] == [(0, 1), (1, 3)]


@pytest.mark.parametrize(("errors", "worst"), [((0.1, 0.3), 0.3), ((0.3, 0.1), 0.3), ((0.1, None), None)])
def test_of_ranks_the_worst_verification_counts(errors: tuple[float, float | None], worst: float | None) -> None:
    given = [{"verification": [{"name": "learns", "error": one}, {"name": "first_loss", "error": 0}]} for one in errors]
    found = TRAINING.verification(argparse.Namespace(parallel="data"), given)
    assert [(one["name"], one["error"]) for one in found] == [("learns", worst), ("first_loss", 0)]
    assert len(TRAINING.verification(argparse.Namespace(parallel="none"), given)) == 4


@together
def test_a_step_is_timed_between_its_moments_and_a_plain_one_without_any(pytorch: Path) -> None:
    """The clock counts its readings: a step of one micro-batch has three after the one before it."""
    script = """
import json, torch
from shapes import SHAPES
from trainer import Trainer
trainer = Trainer(SHAPES["tiny"], 2, 1, torch.device("cpu"))
events, readings = [], [0]
class Clock:
    def now(self):
        readings[0] += 1
        events.append("now")
        return readings[0]
    def seconds(self, begin, end):
        return float(end - begin)
    def wait(self, moment):
        events.append(["wait", moment])
trainer.clock = Clock()
step = trainer.step
def recorded(moments=None):
    events.append("step")
    return step(moments)
trainer.step = recorded
trainer._wait = lambda: events.append("synchronised")
trainer._barrier = lambda: events.append("barrier")
found = trainer.timed(0, 1, plain=True)
print(json.dumps([events, found.steps, found.phases, found.plain, len(found.losses)]))
"""
    done = subprocess.run([pytorch, "-c", script], cwd=FOLDER, check=True, timeout=120, capture_output=True, text=True)
    events, steps, phases, plain, losses = json.loads(done.stdout.splitlines()[-1])
    assert events[:3] == ["synchronised", "barrier", "now"] and events[-1] == "synchronised"
    # the device never has more than two steps ahead; all are awaited before a moment is read
    one_step = ["step", "now", "now", "now"]
    ahead = [[*one_step, *([["wait", 1 + 3 * (number - 1)]] if number >= 2 else [])] for number in range(10)]
    timed = [event for each in ahead for event in each]
    assert events[3:-1] == [*timed, ["wait", 31], "now", *["step"] * 10, "now", ["wait", 33]]
    assert steps == [3.0] * 10 and phases == dict.fromkeys(("forward", "backward", "optimiser"), [1.0] * 10)
    assert (plain, losses) == ([0.1], 10)


@pytest.fixture(scope="module")
def pytorch() -> Path:
    return support.python()


def test_the_gpus_of_all_nodes_are_in_the_result() -> None:
    def part(node: str, index: int, **more: Any) -> dict[str, Any]:
        return {"node": node, "health": {"index": index, "samples": 9}, **more}

    nodes = [part("n1", 0), part("n1", 1), part("n2", 0), part("n2", 1)]
    assert TRAINING.health(nodes) == {
        "available": True,
        "reason": "",
        "devices": [{"index": 0, "samples": 9}, {"index": 1, "samples": 9}],
        "elsewhere": [{"index": 0, "samples": 9, "node": "n2"}, {"index": 1, "samples": 9, "node": "n2"}],
    }
    assert "elsewhere" not in TRAINING.health(nodes[:2])
    # what is not known of a GPU of the first node is not known of the run
    without = TRAINING.health([nodes[0], part("n1", 1, health=None, health_why="no NVML"), *nodes[2:]])
    assert (without["available"], without["reason"], len(without["elsewhere"])) == (False, "no NVML", 2)
    assert TRAINING.health([]) == {"available": False, "reason": "", "devices": []}
