"""Dataclasses that are created quickly behave as those of the standard library, in all but the time."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from tenken.model.quick import of_keys, quick


@dataclasses.dataclass(frozen=True)
class Plain:
    """As the standard library creates it."""

    first: int
    second: str = "b"
    third: float | None = None


@quick
@dataclasses.dataclass(frozen=True)
class Quick:
    """The same, created quickly."""

    first: int
    second: str = "b"
    third: float | None = None


GOOD: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}), ((1, "x"), {}), ((1, "x", 2.5), {}), ((), {"first": 1}), ((1,), {"third": 2.0}),
    ((), {"third": 1.0, "first": 2, "second": "y"}),
]  # fmt: skip
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((1, "x", 2.0, 3), {}), ((), {"first": 1, "fourth": 2}), ((1,), {"first": 1}), ((), {"second": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "named"), GOOD)
def test_the_same_attributes_in_the_same_order(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    plain, made = Plain(*arguments, **named), Quick(*arguments, **named)
    assert list(vars(made).items()) == list(vars(plain).items())
    assert repr(made) == repr(plain).replace("Plain", "Quick")
    assert dataclasses.asdict(made) == dataclasses.asdict(plain)
    for twin in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), dataclasses.replace(made)):
        assert twin == made and hash(twin) == hash(made)


@pytest.mark.parametrize(("arguments", "named"), WRONG)
def test_the_same_refusal(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as plain:
        Plain(*arguments, **named)
    with pytest.raises(TypeError) as made:
        Quick(*arguments, **named)
    assert str(made.value) == str(plain.value).replace("Plain", "Quick")


def test_they_remain_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Quick(1).first = 2  # type: ignore[misc]


@pytest.mark.parametrize("raw", [{"first": 1}, {"third": 2.0, "first": 3}, {"second": "x", "first": 1, "third": None}])
def test_objects_with_known_keys_are_created_as_by_arguments(raw: dict[str, Any]) -> None:
    create = of_keys(Quick)
    create({**raw, "first": 77})
    again = create(raw)
    assert again == Quick(**raw) and list(vars(again)) == list(vars(Quick(1)))
    assert again is not create(raw) and create({**raw, "first": 78}).first == 78 and again.first == raw["first"]


@pytest.mark.parametrize("raw", [{}, {"second": "x"}, {"first": 1, "fourth": 2}, [1], None, 5, "first"])
def test_other_objects_are_refused_as_by_arguments(raw: Any) -> None:
    with pytest.raises(TypeError) as plain:
        Quick(**raw)
    for _ in range(2):
        with pytest.raises(TypeError) as made:
            of_keys(Quick)(raw)
        assert str(made.value) == str(plain.value)


def test_a_class_that_does_more_than_hold_its_fields_is_not_for_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class WithFactory:
        items: list[int] = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(frozen=True)
    class WithWork:
        first: int

        def __post_init__(self) -> None:
            pass

    @dataclasses.dataclass(frozen=True, slots=True)
    class WithSlots:
        first: int

    @dataclasses.dataclass(frozen=True)
    class WithoutArgument:
        first: int = dataclasses.field(default=1, init=False)

    for kind in (WithFactory, WithWork, WithSlots, WithoutArgument):
        with pytest.raises(TypeError, match=f"{kind.__name__} cannot be created quickly"):
            quick(kind)
