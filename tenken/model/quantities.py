"""Numbers, sizes and coordinates formatted for people, and parsed as people write them. Pure functions, no I/O."""

from __future__ import annotations

import math
import re
from typing import Any

from tenken.model.numbers import is_number

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: Any, digits: int = 4) -> str:
    """`digits` significant digits, never fewer than the integer part has; an en dash if it is not a number."""
    if not is_number(value):
        return "–"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude >= 9 or magnitude < -4:
        return f"{value:.{digits - 1}e}"
    if isinstance(value, int):
        return _grouped(str(value))
    return _grouped(f"{value:.{max(0, digits - 1 - magnitude)}f}")


def _grouped(text: str) -> str:
    """Thin spaces between thousands from five integer digits (4395, but 32 751)."""
    sign, body = ("−", text[1:]) if text.startswith("-") else ("", text)
    whole, dot, fraction = body.partition(".")
    if len(whole) > 4:
        whole = f"{int(whole):,}".replace(",", "\u202f")
    return sign + whole + dot + fraction


def size(count: Any) -> str:
    """Bytes in the largest binary unit that keeps the number at 1 or more: 4096 -> '4 KiB'."""
    if not is_number(count):
        return "–"
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value /= 1024
        unit += 1
    return f"{value:.4g}\u202f{_BINARY[unit]}"


def coordinate(key: str, value: Any) -> str:
    """One coordinate of a sweep: bytes=4096 -> '4 KiB', threads=8 -> 'threads 8', kernel=tile -> 'tile'."""
    if isinstance(value, str) and not re.fullmatch(r"[-+.\d]+", value):
        return value
    if key == "bytes" or key.endswith("_bytes"):
        text = size(value)
        return text if key == "bytes" else f"{key[:-6].replace('_', ' ')} {text}"
    return f"{key.replace('_', ' ')} {number(value) if is_number(value) else value}"


_SIZE = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) ?(|[kMGT]|[KMGTkmgt]i)B?")
_FACTORS = {
    "": 1,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2**10,
    "ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


def plain(value: Any) -> Any:
    """A value in comparable form: numbers and sizes ("4Gi", "256 MiB") as numbers, text in lower case."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    found = _SIZE.fullmatch(str(value).strip())
    return float(found[1]) * _FACTORS[found[2]] if found else str(value).strip().lower()


def same(one: Any, other: Any) -> bool:
    a, b = plain(one), plain(other)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return type(a) is type(b) and a == b
