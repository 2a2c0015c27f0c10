"""What is no result, or two at once, or too much of one."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.lies.lie import Change, Lie


def text(change) -> Change:  # type: ignore[no-untyped-def]
    return lambda raw: change(json.dumps(raw))


def lies() -> Iterator[Lie]:
    for key in ("status", "program", "metrics", "token", "host", "verification", "health", "parameters"):
        yield Lie(
            "daxpy",
            f"{key} twice, the honest one last",
            f"'{key}' twice",
            text(lambda t, key=key: t.replace(f'"{key}":', f'"{key}": null, "{key}":', 1)),
        )
    for name, names, change in (
        ("nested", "nested deeper", lambda t: t[:-1] + ', "x": ' + "[" * 5000 + "]" * 5000 + "}"),
        ("objects in objects", "nested deeper", lambda t: t[:-1] + ', "x": ' + '{"a":' * 100 + "1" + "}" * 101),
        (
            "an integer of 400 digits",
            "400 digits",
            lambda t: t.replace('"repetitions": 100', '"repetitions": ' + "9" * 400),
        ),
        ("1e999", "not finite", lambda t: t.replace('"repetitions": 100', '"repetitions": 1e999')),
        ("NaN", "NaN", lambda t: t.replace('"repetitions": 100', '"repetitions": NaN')),
        ("-Infinity", "Infinity", lambda t: t.replace('"repetitions": 100', '"repetitions": -Infinity')),
        ("two documents", "JSON", lambda t: t + t),
        ("two lines", "JSON", lambda t: t + "\n" + t),
        ("cut short", "truncated", lambda t: t[: len(t) // 2]),
        ("half of it", "JSON|document", lambda t: t[len(t) // 2 :]),
        ("text behind it", "JSON", lambda t: t + " and so on"),
        ("text before it", "JSON", lambda t: "Loading modules\n" + t),
        ("a comment", "JSON", lambda t: "// fine\n" + t),
        ("a list of it", "top level", lambda t: f"[{t}]"),
        ("of another schema", "schema", lambda t: t.replace("tenken-result/1", "tenken-result/0")),
        ("a key nobody knows", "verdict", lambda t: t[:-1] + ', "verdict": "PASS"}'),
        ("single quotes", "JSON", lambda t: t.replace('"', "'")),
        ("a byte order mark", "JSON|BOM", lambda t: "\ufeff" + t),
        ("nothing", "empty", lambda t: ""),
        ("blanks", "empty", lambda t: " \n\t "),
        ("a NUL", "JSON|Invalid", lambda t: t + "\0"),
    ):
        yield Lie("daxpy", name, names, text(change))
