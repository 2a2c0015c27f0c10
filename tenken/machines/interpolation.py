"""References between the points of a sweep: latency + size / bandwidth through the two adjacent points.

The time of a transfer is a line in its size, latency plus size over bandwidth; between two known points it is the line
through both. Below the first point a message takes at most as long as at the first; beyond the last, its rate is at
least that of the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tenken.machines.model import Reference


def reference(known: Iterable[Reference], run: Mapping[str, Any]) -> Reference | None:
    """The values at another size that follow from the points of a sweep; None if they imply nothing."""
    curves: dict[tuple[Any, ...], list[tuple[float, Reference]]] = {}
    for one in known:
        size = one.parameters.get(one.between or "")
        rest = {key: value for key, value in one.parameters.items() if key != one.between}
        if isinstance(size, (int, float)) and one.value and all(run.get(k) == v for k, v in rest.items()):
            curves.setdefault((one.between, *sorted(rest.items())), []).append((size, one))
    if not curves:
        return None
    key = max(curves, key=len)
    asked = run.get(key[0])
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or asked <= 0:
        return None
    lower = max((p for p in curves[key] if p[0] <= asked), key=lambda p: p[0], default=None)
    upper = min((p for p in curves[key] if p[0] >= asked), key=lambda p: p[0], default=None)
    if lower is None or upper is None:
        near = upper or lower
        assert near is not None
        seconds = _time(*near) if lower is None else _time(*near) * asked / near[0]
        named = f"at {near[0]:g} {key[0]}, the {'first' if lower is None else 'last'} of its sweep"
    else:
        near = lower
        part = (asked - lower[0]) / (upper[0] - lower[0]) if upper[0] > lower[0] else 0.0
        seconds = _time(*lower) + (_time(*upper) - _time(*lower)) * part
        named = f"latency and bandwidth between {lower[0]:g} and {upper[0]:g} {key[0]}"
    ends = [p[1] for p in (lower, upper) if p is not None]
    return replace(
        near[1],
        parameters={**near[1].parameters, key[0]: asked},
        value=_value(seconds, asked, near[1].unit),
        lower=None if near[1].lower is None else min(one.lower or 0.0 for one in ends),
        upper=None if near[1].upper is None else max(one.upper or 0.0 for one in ends),
        source=f"model, {named}: {near[1].source}",
    )


def _time(size: float, one: Reference) -> float:
    """The time of one message, in the unit that matches that of the value."""
    value = one.value or 0.0
    return {"GB/s": size / value, "messages/s": 1 / value}.get(one.unit, value)


def _value(time: float, size: float, unit: str) -> float:
    return {"GB/s": size / time, "messages/s": 1 / time}.get(unit, time)
