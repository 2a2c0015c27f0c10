"""YAML 1.2, and the traps of YAML 1.1."""

from __future__ import annotations

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
    with pytest.raises(SystemFileError, match=r"^x:2: is not UTF-8"):
        yamlfile.read(file, "x")


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemFileError, match=r"^x: cannot be read: No such file"):
        yamlfile.read(tmp_path / "none.yaml", "x")
