"""Ranges of the programs' integer options, read from their sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tenken.paths import PROGRAMS

_INTEGER = re.compile(r'\.integer\(\s*"([\w-]+)",\s*\w+,\s*([^,]+),\s*([^,]+),')
_ONE = re.compile(r"(?:std::int64_t\{)?(\d+)\}?(?: << (\d+))?")


def _number(text: str) -> int | None:
    found = _ONE.fullmatch(text.strip())
    return int(found[1]) << int(found[2] or 0) if found else None


def ranges(program: str) -> dict[str, tuple[int, int]]:
    """Least and largest value by option; those whose range is not two numbers are left out."""
    text = "".join(file.read_text() for file in (PROGRAMS / program).rglob("*.[ch]*") if file.suffix != ".pyc")
    found = {name: (_number(low), _number(high)) for name, low, high in _INTEGER.findall(text)}
    return {name: (low, high) for name, (low, high) in found.items() if low is not None and high is not None}


def refused(program: str, options: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, tuple[int, int]]]:
    """Options whose value the program would refuse, with its range."""
    allowed = ranges(program)
    return {
        name: (value, allowed[name])
        for name, value in options
        if name in allowed and value.isdecimal() and not allowed[name][0] <= int(value) <= allowed[name][1]
    }
