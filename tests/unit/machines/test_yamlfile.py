"""YAML 1.2, the traps of YAML 1.1, and texts that would take long: refused before they are built."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tenken.machines import yamlfile
from tenken.machines.errors import SystemFileError


def test_yaml_1_2() -> None:
    text = "time: 1:30:00\ncountry: no\nswitch: on\nyes: 1\nflag: true\nday: 2026-01-31\noctal: 010\n"
    assert yamlfile.parse(text, "f").data == {
        "time": "1:30:00",
        "country": "no",
        "switch": "on",
        "yes": 1,
        "flag": True,
        "day": "2026-01-31",
        "octal": 10,
    }


def test_lines_of_keys_and_items() -> None:
    document = yamlfile.parse("a:\n  b:\n    - 1\n    - c: 2\n", "f")
    assert document.line(("a", "b", 1, "c")) == 4
    assert document.line(("a", "b", 0)) == 3
    assert document.line(("a", "x", "y")) == 1, "the nearest part around it"


def test_merged_keys_count() -> None:
    assert yamlfile.parse("a: &a {b: 1}\nc:\n  <<: *a\n  d: 2\n", "f").data["c"] == {"b": 1, "d": 2}


def test_keys_must_be_text() -> None:
    with pytest.raises(SystemFileError, match=r"^f:\d: key 1 must be text"):
        yamlfile.parse("a:\n  1: x\n", "f")


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(SystemFileError, match=r"^x:2: is not UTF-8 text"):
        yamlfile.read(file, "x")


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemFileError, match=r"^x: there is no such file"):
        yamlfile.read(tmp_path / "none.yaml", "x")


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(500)) + "}\n" + "b:\n" + "  - {<<: *a, y: 1}\n" * 400
SLOW = {
    "aliases of aliases": (BOMB, "contains more than 20000 values (aliases expanded)"),
    "merges of many keys": (MERGES, "contains more than 20000 values"),
    "lists in lists": ("a: " + "[" * 20_000 + "]" * 20_000, "is nested deeper than 32 levels"),
    "open lists": ("a: " + "[" * 200_000, "is nested deeper than 32 levels"),
    "open maps": ("{a: " * 50_000, "is nested deeper than 32 levels"),
    "dashes": ("- " * 20_000 + "x", "is nested deeper than 32 levels"),
    "one key in another": ("".join(" " * i + f"k{i}:\n" for i in range(500)), "is nested deeper than 32 levels"),
    "a map merged into itself": ("a: &a\n  b: 1\n  <<: *a\n", "f:3: the alias *a contains itself"),
    "a list within itself": ("a: &a [1, *a]\n", "f:1: the alias *a contains itself"),
    "a merge through two": ("a: &a\n  b: &b\n    <<: *a\n", "the alias *a contains itself"),
    "many keys": ("".join(f"k{i}: {i}\n" for i in range(40_000)), "contains more than 20000 values"),
    "a long text": ("a: " + "x" * (1 << 20), "at most 1048576 are accepted"),
    "YAML 1.1": ("%YAML 1.1\n---\na: no\n", "declares YAML 1.1; it is read as YAML 1.2"),
    "two documents": ("a: 1\n---\nb: 2\n", "is not valid YAML: expected a single document"),
    "merged with a number": ("a:\n  <<: 5\n", "is not valid YAML"),
    "a tag": (
        "a: !!python/object/apply:os.system ['true']\n",
        "has the tag 'tag:yaml.org,2002:python/object/apply:os.system', which is not allowed",
    ),
}


@pytest.mark.parametrize("name", SLOW)
def test_what_would_take_long_is_refused_at_once(name: str) -> None:
    text, says = SLOW[name]
    yamlfile.parse("a: 1", "f")  # the time that the reader itself takes to load
    begin = time.process_time()
    with pytest.raises(SystemFileError) as raised:
        yamlfile.parse(text, "f")
    assert says in str(raised.value) and "\n" not in str(raised.value)
    assert time.process_time() - begin < 10  # 0.5 s on an idle machine


def test_aliases_and_merges_within_reason_are_read() -> None:
    text = "a: &a {b: 1}\nc: &c\n  <<: *a\n  d: [*a, *a]\ne: {<<: [*a, *c], f: 2}\n"
    assert yamlfile.parse(text, "f").data["e"] == {"b": 1, "d": [{"b": 1}] * 2, "f": 2}
    deep = "a: " + "[" * 30 + "1" + "]" * 30
    assert str(yamlfile.parse(deep, "f").data["a"]).count("[") == 30


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    with pytest.raises(SystemFileError, match=r"^x: is not a regular file"):
        yamlfile.read(tmp_path / "x.yaml", "x")
    (tmp_path / "y.yaml").write_text("a: 1")
    (tmp_path / "z.yaml").symlink_to(tmp_path / "y.yaml")
    assert yamlfile.read(tmp_path / "z.yaml", "z").data == {"a": 1}
