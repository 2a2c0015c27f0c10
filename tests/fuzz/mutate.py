"""Broken inputs from valid ones: the same seed and number give the same input, on any machine."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

#: Maximum length of an input, except for the few that are deliberately repeated.
MOST_BYTES = 20_000

_WORDS = [
    b"nan", b"-nan", b"inf", b"-1", b"0", b"0.0", b"-0", b"1e999", b"1e-999", b"2147483648", b"9" * 25, b"1" * 400,
    b"1" * 5000, b"0x10", b"+", b"-", b".", b"e5", b"1e", b"1_000", "\u0662".encode(), "\u00b2".encode(), b"\x00",
    b"\x1b[2J", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r\n", b"\n", b"\n\n", b"\t", b" ",
    b"\x0b", b"\x85", "\u2028".encode(), b"|", b"=", b"::", b":", b",", b";", b"%", b"#", b"&a ", b"*a",
    b"<<: *a\n", b"- ", b"? ", b"!!python/object:x ", b"!!set", b"!!timestamp x", b"---\n", b"...\n", b"{", b"}",
    b"[", b"]", b"[" * 60, b'{"a":' * 60, b"'", b'"', b"\\", b'\\"', b"\\ud800", b"\\u0000", b"null", b"true", b"~",
    b"NaN", b"Infinity", b"Pass", b"Fail", b"PASSED", b"FAILED", b"PASS", b"INVALID", b"1.5.2", b"10.0.0.1",
    b"2026-13-45", b"2026-11-22T25:61:61Z", b"0000-00-00", b"9999-12-31T23:59:59+14:00", b"%YAML 1.1\n",
    b"</script>", b"{{7*7}}", b"%s%n", b"../..", "\u70b9\u691c".encode(), "\U0001f600".encode(),
]  # fmt: skip

_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, -(2**63), 10**19, 0.5, -0.0, 1e308, -1e308, 5e-324, "", "x",
    "\x1b[2J", "\ud800", "\u202e", "nan", "1", "a\n", "0" * 300, "-", "../x", [], {}, [[]], [None], [0] * 50,
    {"": ""}, {"a": {"b": {}}}, "1970-01-01T00:00:00Z", "9999-99-99T99:99:99Z", ["x", 1, None], {"gpu": -1},
    {"from": 0, "to": 0}, "gpu0-gpu1", "PASS", "waived",
]  # fmt: skip


def mutated(corpus: Sequence[bytes], dice: random.Random, structured: bool) -> bytes:
    """One input from a corpus; `structured`: half of them are valid JSON of a wrong shape."""
    good = dice.choice(corpus)
    if structured and dice.random() < 0.5:
        return _reshaped(good, dice)
    content = bytearray(good[:MOST_BYTES])
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        _change(content, corpus, dice)
    # one in a hundred is long
    return bytes(content[: MOST_BYTES * (10 if dice.random() < 0.01 else 1)])


def _change(content: bytearray, corpus: Sequence[bytes], dice: random.Random) -> None:
    at = dice.randrange(len(content) + 1)
    length = dice.choice((1, 1, 2, 3, 5, 8, 20, 80, 400))
    kind = dice.randrange(12)
    if kind == 0:
        content[at:at] = dice.choice(_WORDS)
    elif kind == 1:
        del content[at : at + length]
    elif kind == 2:
        del content[at:]
    elif kind == 3 and at < len(content):
        content[at] = dice.randrange(256)
    elif kind == 4 and at < len(content):
        content[at] ^= 1 << dice.randrange(8)
    elif kind == 5:
        content[at:at] = content[at : at + length] * dice.choice((1, 2, 10, 300))
    elif kind == 6:
        other = dice.choice(corpus)
        begin = dice.randrange(len(other) + 1)
        content[at : at + length] = other[begin : begin + 4 * length]
    elif kind in (7, 8, 9):
        _change_line(content, dice, kind)
    else:
        _change_word(content, at, dice)


def _change_line(content: bytearray, dice: random.Random, kind: int) -> None:
    lines = bytes(content).split(b"\n")
    first, second = dice.randrange(len(lines)), dice.randrange(len(lines))
    if kind == 7:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == 8:
        lines.insert(first, lines[second])
    else:
        del lines[first]
    content[:] = b"\n".join(lines)


def _change_word(content: bytearray, at: int, dice: random.Random) -> None:
    """A number or a word that replaces the present one."""
    begin = end = min(at, max(0, len(content) - 1))
    word = frozenset(b"0123456789.+-eEabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
    while begin > 0 and content[begin - 1] in word:
        begin -= 1
    while end < len(content) and content[end] in word:
        end += 1
    content[begin:end] = dice.choice(_WORDS)


def _reshaped(good: bytes, dice: random.Random) -> bytes:
    """JSON with a few values replaced, lost, repeated or moved."""
    try:
        raw = json.loads(good)
    except ValueError:
        return good[: dice.randrange(len(good) + 1)]
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        places = list(_places(raw))
        if not places:
            break
        holder, key = dice.choice(places)
        kind = dice.randrange(7)
        if kind < 3:
            holder[key] = copy.deepcopy(dice.choice(_VALUES))
        elif kind == 3:
            del holder[key]
        elif kind == 4:
            other, its = dice.choice(places)
            holder[key] = json.loads(json.dumps(other[its])) if _has(other, its) else None
        elif kind == 5 and isinstance(holder, dict):
            holder[dice.choice(("x", "", "\x1b", key + "\n", key.upper(), "0"))] = copy.deepcopy(holder[key])
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        else:
            holder[key] = [holder[key]]
    text = json.dumps(raw)
    if dice.random() < 0.1:
        text = text.replace('"', '"x":1,"', 1) if text.startswith("{") else text
    return text.encode()


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(raw: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    todo = [raw]
    while todo:
        one = todo.pop()
        items = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, value in items:
            found.append((one, key))
            todo.append(value)
    return found
