"""Checks that typed objects from an archive contain what their annotations declare, where no schema was applied."""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

from tenken.model.subject import Coordinates

_Typed = TypeVar("_Typed")
_Test = Callable[[Any], bool]
#: What JSON may have for a field of this type.
_EXACT: dict[Any, frozenset[type]] = {
    str: frozenset({str}), int: frozenset({int}), float: frozenset({int, float}), bool: frozenset({bool}),
}  # fmt: skip
#: More are tested each time.
_COMBINATIONS = 1000
_SCALARS = frozenset({str, int, float, bool, type(None)})
#: Metadata of a field that is not examined: whatever creates it from an archive converts each of its parts or refuses.
CONVERTED: Mapping[str, bool] = types.MappingProxyType({"converted": True})


def checked(value: _Typed) -> _Typed:
    """A dataclass whose fields match their annotations, recursively, those marked CONVERTED excepted. Raises TypeError
    with the field.
    """
    if not _test(type(value))(value):  # type: ignore[arg-type]
        raise TypeError(_wrong(value, ""))
    return value


@lru_cache(maxsize=256)
def _test(annotation: Any) -> _Test:
    """A predicate for values of an annotation, created once: there are many records with some thousand values each."""
    kinds = _kinds(annotation)
    if kinds is not None:
        return lambda value: type(value) in kinds
    if annotation is Coordinates:
        return lambda value: type(value) is Coordinates and {type(one) for _, one in value.items_} <= _SCALARS
    if is_dataclass(annotation):
        return _test_of_fields(annotation)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        some = [_test(one) for one in inner if one is not type(None)]
        if len(some) == 1 and type(None) in inner:
            only = some[0]
            return lambda value: value is None or only(value)
        return lambda value: value is None or any(test(value) for test in some)
    if origin is tuple:
        return _test_of_tuple(inner)
    if origin is Mapping:
        of_value = _test(inner[1])
        if of_value is _anything:
            return lambda value: isinstance(value, Mapping)
        return lambda value: isinstance(value, Mapping) and all(map(of_value, value.values()))
    return _anything  # Any, and what does not come out of a file


def _anything(value: Any) -> bool:
    return True


def _kinds(annotation: Any) -> frozenset[type] | None:
    """The types that values of an annotation may have, if they alone determine whether one matches; otherwise None."""
    if annotation is type(None):
        return frozenset({annotation})
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return _EXACT.get(annotation)
    found = [_kinds(one) for one in typing.get_args(annotation)]
    return None if None in found else frozenset(itertools.chain(*found))  # type: ignore[arg-type]


def _test_of_tuple(inner: tuple[Any, ...]) -> _Test:
    """A predicate for a tuple, of any length if `inner` ends with an ellipsis."""
    if inner[-1] is Ellipsis:
        allowed = _kinds(inner[0])
        if allowed is not None:
            return lambda value: type(value) is tuple and allowed.issuperset(map(type, value))
        each = _test(inner[0])
        return lambda value: type(value) is tuple and all(map(each, value))
    kinds = [_kinds(one) for one in inner]
    if None not in kinds:
        combinations = frozenset(itertools.product(*kinds))  # type: ignore[arg-type]
        return lambda value: tuple(map(type, value)) in combinations
    parts = [_test(one) for one in inner]
    return lambda value: len(value) == len(parts) and all(t(v) for t, v in zip(parts, value, strict=True))


def _test_of_fields(annotation: Any) -> _Test:
    """A predicate for a dataclass. Scalar fields are tested once for each combination of types: devices have thirty."""
    hints = typing.get_type_hints(annotation)
    names = [field.name for field in fields(annotation)]
    tests = [(one.name, _test(hints[one.name])) for one in fields(annotation) if not one.metadata.get("converted")]
    others = [(name, test) for name, test in tests if test is not _anything and _kinds(hints[name]) is None]
    good: set[tuple[type, ...]] = set()

    def test_of_value(value: Any) -> bool:
        if not isinstance(value, annotation):
            return False
        held = vars(value)
        kinds = tuple(map(type, held.values()))
        if kinds not in good:
            if not all(test(getattr(value, name)) for name, test in tests):
                return False
            # only an instance whose attributes are in the order of the fields states their types by position
            if len(good) < _COMBINATIONS and list(held) == names:
                good.add(kinds)
            return True
        for name, test in others:  # noqa: SIM110
            if not test(held[name]):
                return False
        return True

    return test_of_value


def _wrong(value: Any, where: str) -> str:
    """The path of the first field that does not match."""
    if isinstance(value, Coordinates) or not is_dataclass(value):
        return f"{where} is {type(value).__name__}, or contains an unexpected value"
    hints = typing.get_type_hints(type(value))
    for field in fields(value):
        inner = getattr(value, field.name)
        if _test(hints[field.name])(inner):
            continue
        path = f"{where}.{field.name}" if where else field.name
        for number, one in enumerate(inner if isinstance(inner, tuple) else ()):
            if is_dataclass(one) and not _test(type(one))(one):  # type: ignore[arg-type]
                return _wrong(one, f"{path}/{number}")
        return _wrong(inner, path)
    return where
