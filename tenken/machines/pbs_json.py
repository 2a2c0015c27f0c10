"""Parses PBS's answers in JSON, which are not always valid JSON.

PBS prints users' values unescaped (OpenPBS issues 830, 1255, 2541): `005`, a raw line break, a quote within quotes.
Such a value voids only itself. Unreadable parts of an answer are named, and its other entries are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Entries of an answer: a job, a node or a queue has one of these, mostly as its first field.
_MARKS = ("Job_Name", "job_state", "Mom", "state", "queue_type", "resources_available")
_ENTRY = re.compile(
    rf'(?<=[{{,])\s*"(?P<name>[^"\s]+)"\s*:\s*(?=\{{\s*"(?:{"|".join(_MARKS)})")'
    r'|(?<=[{,])\s*"(?P<job>\d+(?:\[\d*\])?\.[\w.-]+)"\s*:\s*(?=\{)'
)
_SPACE = re.compile(r"\s*")
_NAME = r'"[^"\n]*"\s*:'
#: What follows the quote that ends a string: another name or value, or the end of the enclosing element.
_AFTER_VALUE = re.compile(rf"\s*(?:,\s*{_NAME}|(?:[}}\]]\s*)+(?:,\s*{_NAME}|,\s*\{{|\Z))")
_AFTER_ITEM = re.compile(r'\s*(?:,\s*["\d{\[tfn-]|\])')
_AFTER_NAME = re.compile(r"\s*:")
_BARE = re.compile(r"[^,}\]\n]*")


class _Unreadable(ValueError):
    """An entry that remains unreadable."""


def read(text: str | None, part: str) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Entries of one part (`Jobs`, `nodes`, `Queue`) by name, and the names of those that cannot be read.

    Raises ValueError if nothing in the text resembles JSON of PBS; an empty text has no entries.
    """
    text = (text or "").strip()
    # a site's wrapper may print a line of its own before it
    begin = re.search(r"^\{", text, re.M)
    text = text[begin.start() :] if begin else text
    if not text:
        return {}, []
    try:
        found = json.loads(text, strict=False)
        entries = found.get(part) if isinstance(found, dict) else None
        entries = entries if isinstance(entries, dict) else {}
        bad = [name for name, value in entries.items() if not isinstance(value, dict)]
        return {name: value for name, value in entries.items() if isinstance(value, dict)}, bad
    except (ValueError, RecursionError):
        if not re.match(r"\{\s*\"", text):
            raise ValueError(f"no JSON but {text[:80]!r}") from None
    start = re.search(rf'"{part}"\s*:\s*\{{', text)
    return _entries(text[start.end() - 1 :]) if start else ({}, [])


def _entries(text: str) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Each entry is parsed separately, so that an unpaired quote spoils only its own entry."""
    found: dict[str, Mapping[str, Any]] = {}
    unread: list[str] = []
    starts = list(_ENTRY.finditer(text))
    for match, end in zip(starts, [*(after.start() for after in starts[1:]), len(text)], strict=True):
        name = match["name"] or match["job"]
        try:
            value, _ = _value(text[match.end() : end].rstrip(", \n\t"), 0)
        except (_Unreadable, RecursionError):
            unread.append(name)
            continue
        found[name] = value
    return found, unread


def _value(text: str, at: int) -> tuple[Any, int]:
    """A value that begins at `at`, and the position where it ends."""
    at = _skip(text, at)
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at + 1)
    if first == "[":
        return _array(text, at + 1)
    if first == '"':
        return _string(text, at + 1, (_AFTER_VALUE,))
    bare = _BARE.match(text, at)
    if bare is None or not first:
        raise _Unreadable
    word = bare[0].strip()
    try:
        return json.loads(word), bare.end()
    except ValueError:
        return word, bare.end()  # 005, 0x1f, 1_2: as the user wrote it


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while True:
        at = _skip(text, at)
        first = text[at : at + 1]
        if first == "}":
            return found, at + 1
        if first == ",":
            at += 1
        elif first == '"':
            name, at = _string(text, at + 1, (_AFTER_NAME,))
            found[name], at = _value(text, _skip(text, at) + 1)
        else:
            raise _Unreadable


def _array(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while True:
        at = _skip(text, at)
        first = text[at : at + 1]
        if first == "]":
            return found, at + 1
        if first == ",":
            at += 1
        elif first == '"':
            one, at = _string(text, at + 1, (_AFTER_ITEM,))
            found.append(one)
        else:
            one, at = _value(text, at)
            found.append(one)


def _string(text: str, at: int, after: Iterable[re.Pattern[str]]) -> tuple[str, int]:
    """A string after its opening quote, up to the next quote that is followed by something that can only follow a
    string."""
    end = at
    while (end := text.find('"', end)) >= 0:
        if any(pattern.match(text, end + 1) for pattern in after):
            said = text[at:end]
            try:
                return str(json.loads(f'"{said}"', strict=False)), end + 1
            except ValueError:
                return said, end + 1
        end += 1
    raise _Unreadable


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
