"""Units that metrics may have, from one table of kinds and prefixes, and how to convert between those of one kind.

GB = 10^9 bytes and GiB = 2^30 bytes; `1` is a plain ratio or count.
"""

from __future__ import annotations

from collections.abc import Mapping

_SMALL: Mapping[str, float] = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3}
_LARGE: Mapping[str, float] = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY: Mapping[str, float] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_NONE: Mapping[str, float] = {"": 1.0}

#: Kinds of unit, and the prefixes of each.
_KINDS: Mapping[str, Mapping[str, float]] = {
    "s": {**_NONE, **_SMALL},
    "B": {**_NONE, **_LARGE, **_BINARY},
    "B/s": {**_NONE, **_LARGE, **_BINARY},
    "bit/s": {**_NONE, **_LARGE},
    "FLOP/s": {**_NONE, **_LARGE},
    "cell/s": {**_NONE, **_LARGE},
    "op/s": {**_NONE, **_LARGE},
    "messages/s": {**_NONE, **_LARGE},
    "samples/s": {**_NONE, **_LARGE},
    "tokens/s": {**_NONE, **_LARGE},
    "Hz": {**_NONE, **_LARGE},
    "W": {**_NONE, **_SMALL, **_LARGE},
    "J": {**_NONE, **_SMALL, **_LARGE},
    "FLOP/s/W": {**_NONE, **_LARGE},
    "B/s/W": {**_NONE, **_LARGE},
    "cell/s/W": {**_NONE, **_LARGE},
    "degC": _NONE,
    "1": _NONE,
}
#: For each unit its kind and factor.
_FACTORS: Mapping[str, tuple[str, float]] = {
    **{f"{prefix}{kind}": (kind, factor) for kind, prefixes in _KINDS.items() for prefix, factor in prefixes.items()},
    "h": ("s", 3600.0),
    "%": ("1", 0.01),
}

#: Every unit.
UNITS: tuple[str, ...] = tuple(_FACTORS)


def allowed() -> str:
    """The units for an error message: each kind with its prefixes."""
    said = [
        f"{kind} with {', '.join(p for p in prefixes if p)}" if len(prefixes) > 1 else kind
        for kind, prefixes in _KINDS.items()
    ]
    return "; ".join([*said, "h", "%"])


def known(unit: object) -> bool:
    """Whether metrics may have this unit."""
    return isinstance(unit, str) and unit in _FACTORS


def factor(given: str, wanted: str) -> float:
    """The factor that converts a value in `given` to `wanted`. Raises ValueError if they are of different kinds."""
    if not known(given) or not known(wanted):
        unknown = wanted if known(given) else given
        raise ValueError(f"unit {unknown!r} is not known; allowed: {allowed()}")
    (kind, one), (other, another) = _FACTORS[given], _FACTORS[wanted]
    if kind != other:
        raise ValueError(f"unit {given!r} measures {kind}, {wanted!r} measures {other}")
    return one / another
