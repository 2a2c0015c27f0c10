"""Checks that typed objects from an archive contain what their annotations declare, where no schema was applied."""

from __future__ import annotations

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


def checked(value: _Typed) -> _Typed:
    """A dataclass whose fields match their annotations, recursively. Raises TypeError with the field."""
    if not _test(type(value))(value):  # type: ignore[arg-type]
        raise TypeError(_wrong(value, ""))
    return value


@lru_cache(maxsize=256)
def _test(annotation: Any) -> _Test:
    """A predicate for values of an annotation, created once: there are many records with some thousand values each."""
    if annotation in _EXACT:
        kinds = _EXACT[annotation]
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
    if origin is tuple and inner[-1] is Ellipsis and inner[0] in _EXACT:
        allowed = _EXACT[inner[0]]
        return lambda value: type(value) is tuple and set(map(type, value)) <= allowed
    if origin is tuple and inner[-1] is Ellipsis:
        each = _test(inner[0])
        return lambda value: type(value) is tuple and all(map(each, value))
    if origin is tuple:
        parts = [_test(one) for one in inner]
        return lambda value: len(value) == len(parts) and all(t(v) for t, v in zip(parts, value, strict=True))
    if origin is Mapping:
        of_value = _test(inner[1])
        return lambda value: isinstance(value, Mapping) and all(map(of_value, value.values()))
    return lambda value: True  # Any, and what does not come out of a file


def _test_of_fields(annotation: Any) -> _Test:
    """A predicate for a dataclass. Scalar fields are tested once for each combination of types: devices have thirty."""
    hints = typing.get_type_hints(annotation)
    names = [field.name for field in fields(annotation)]
    tests = [(name, _test(hints[name])) for name in names if hints[name] is not Any]
    others = [(name, test) for name, test in tests if not _is_scalar(hints[name])]
    good: set[tuple[type, ...]] = set()

    def test_of_value(value: Any) -> bool:
        if not isinstance(value, annotation):
            return False
        held = vars(value)
        kinds = tuple(map(type, held.values()))
        if kinds not in good or list(held) != names:
            if not all(test(getattr(value, name)) for name, test in tests):
                return False
            if len(good) < _COMBINATIONS and list(held) == names:
                good.add(kinds)
            return True
        for name, test in others:  # noqa: SIM110
            if not test(held[name]):
                return False
        return True

    return test_of_value


def _is_scalar(annotation: Any) -> bool:
    """Whether the type of a value alone determines if it matches."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return all(map(_is_scalar, typing.get_args(annotation)))
    return annotation in _EXACT or annotation is type(None)


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
