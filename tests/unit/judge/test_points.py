"""Points of sweeps that a result must have: two metrics of two GPUs at sizes 1, 2 and 4, each in two ways."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tenken.judge import completeness
from tenken.model.contract import Counted, Listed, Points, Sweep, With
from tenken.model.request import Request
from tenken.model.subject import Subject

AT: dict[str, Any] = {"size": (1, 2, 4), "way": None}
Place = tuple[str, int, Any, Any]


def lacking(
    kept: Callable[[Place], bool] = lambda one: True, more: tuple[Place, ...] = (), at: dict[str, Any] | None = None,
    kinds: tuple[str, ...] = ("gpu",), parameters: dict[str, Any] | None = None, **said: Any,
) -> set[str]:  # fmt: skip
    """What is missing or not requested: of the points those that are `kept`, and `more`; None: without the
    coordinate."""
    whole = [
        (name, gpu, size, way) for name in ("rate", "time") for gpu in (0, 1) for size in (1, 2, 4) for way in "ab"
    ]
    metrics = [
        SimpleNamespace(
            id=f"{name}.gpu{gpu}", name=name, kind="gpu", subject=Subject("gpu", gpu),
            at={key: value for key, value in (("size", size), ("way", way)) if value is not None},
        )
        for name, gpu, size, way in (*filter(kept, whole), *more)
    ]  # fmt: skip
    run: Any = SimpleNamespace(
        metrics=metrics, devices=[SimpleNamespace(index=0), SimpleNamespace(index=1)], parameters=parameters or {}
    )
    entry = Points(("rate", "time"), AT if at is None else at, **said)
    contract = SimpleNamespace(points=[entry], verifications=["x"], was_options={"ways": "way"}, counts=())
    program: Any = SimpleNamespace(contract=contract, metrics={"rate": 1, "time": 1})
    return set(completeness.points(run, program, Request(None, "x", subjects=kinds)))


def both(text: str) -> set[str]:
    return {f"metric {name} of gpu1 {text}" for name in ("rate", "time")}


def test_a_whole_sweep_lacks_nothing() -> None:
    assert lacking() == lacking(ragged=True) == lacking(together=True) == lacking(subjects="some") == set()
    assert lacking(at={"size": Listed("sizes"), "way": None}, parameters={"sizes": "1,2,4"}) == set()
    assert lacking(at={"size": Sweep("from", 4, 2), "way": With(("a",))}, parameters={"from": 1}) == set()


def test_what_one_gpu_lacks_and_another_has() -> None:
    way = "is missing at size=1, way=b; size=2, way=b; size=4, way=b"
    assert lacking(lambda one: one[1] == 0 or one[3] == "a") == both(way)
    # of those beyond four only the number
    more = tuple((name, 0, size, way) for name in ("rate", "time") for size in (1, 2, 4) for way in "cd")
    four = "is missing at size=1, way=c; size=1, way=d; size=2, way=c; size=2, way=d and 2 more"
    assert lacking(more=more) == both(four)
    # GPUs may differ where the file says so
    assert lacking(lambda one: one[1] == 0 or one[3] == "a", subjects="some") == set()
    assert lacking(lambda one: one[1] == 0) == both("is missing")
    assert lacking(lambda one: one[1] == 0, kinds=("host",)) == set()


def test_what_a_sweep_lacks_or_has_beyond_the_request() -> None:
    assert lacking(lambda one: one[2] != 2) == {
        f"metric {name} of gpu{gpu}: size 2 is missing" for name in ("rate", "time") for gpu in (0, 1)
    }
    more = tuple(
        (name, gpu, size, way) for name in ("rate", "time") for gpu in (0, 1) for size in (3, 8) for way in "ab"
    )
    assert lacking(more=more) == {
        f"metric {name} of gpu{gpu}: size 3, 8 are not requested" for name in ("rate", "time") for gpu in (0, 1)
    }
    for at, parameters, text in (
        ({"size": Listed("sizes"), "way": None}, {"sizes": "1, 2, 4, 8"}, "size 8 is missing"),
        ({"size": Listed("sizes"), "way": None}, {"sizes": "1, 2"}, "size 4 is not requested"),
        ({"size": Counted("count"), "way": None}, {"count": 4}, "size 3 is missing"),
        ({"size": None, "way": With(("a", "c"))}, {}, "way c is missing"),
    ):
        said = lacking(at=at, parameters=parameters)
        assert said == {f"metric {name} of gpu{gpu}: {text}" for name in ("rate", "time") for gpu in (0, 1)}
    assert lacking(at={"size": Listed("sizes"), "way": None}, parameters={"sizes": "all"}) == set()


def test_what_one_metric_lacks_and_another_has() -> None:
    assert lacking(lambda one: one[0] == "time" or (one[1:3] != (1, 4))) == {
        "metric rate of gpu1: size 4 is missing",
        "metric rate of gpu1 is missing at size=4, way=a; size=4, way=b",
    }
    # each way at each size, unless the file says that they differ
    assert lacking(lambda one: one[2:] != (4, "b")) == {
        f"metric {name} of gpu{gpu} is missing at size=4, way=b" for name in ("rate", "time") for gpu in (0, 1)
    }
    assert lacking(lambda one: one[2:] != (4, "b"), ragged=True) == set()
    alone = {f"metric time of gpu{gpu} is missing" for gpu in (0, 1)}
    assert lacking(lambda one: one[0] == "rate", together=True) == alone
    assert lacking(lambda one: one[0] == "rate") == set()


def test_the_coordinates_are_those_of_the_file() -> None:
    said = {"rate.gpu0 has the coordinates size; expected size, way"}
    assert said <= lacking(more=(("rate", 0, 1, None),))
    assert not said & lacking(more=(("rate", 0, 1, None),), ragged=True)
    assert lacking(lambda one: False, (("rate", 0, None, None),), at={}) == {"metric rate of gpu1 is missing"}
    assert "rate.gpu0 has the coordinates size, way; expected none" in lacking(at={})
    # one of a count of one is no coordinate
    single = {"size": (1, 2, 4), "way": Counted("ways")}
    every = tuple((n, g, s, None) for n in ("rate", "time") for g in (0, 1) for s in (1, 2, 4))
    assert lacking(lambda one: False, every, at=single, parameters={"ways": 1}) == set()
