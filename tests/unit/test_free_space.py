"""What is called free is what a user may still write: blocks in the file system's own size, without those kept for
root. Every place that asks a file system is asked here."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenken.archive import disk
from tenken.node import host
from tenken.paths import ROOT

#: No number is the multiple of another: f_bsize, f_frsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_favail.
FOUND = os.statvfs_result((4096, 1000, 77, 53, 31, 19, 13, 7, 0, 255))
TOTAL, FREE = 77_000, 31_000


def mounted(path: Path) -> dict[str, Any]:
    (path / "proc/self").mkdir(parents=True)
    (path / "proc/self/mountinfo").write_text("1 1 0:1 / /data rw - lustre fs rw\n")
    return host.file_system({"path": "/data"}, path)


ASKED: dict[str, tuple[Callable[[Path], Any], Any]] = {
    "host.space": (host.space, {"bytes": TOTAL, "free": FREE}),
    "host.file_system": (
        mounted,
        {"mounted": True, "type": "lustre", "read_only": False, "bytes": TOTAL, "free": FREE, "files_free": 7},
    ),
    "disk.room": (lambda path: [bool(disk.room(path, least)) for least in (FREE, FREE + 1)], [False, True]),
}


@pytest.mark.parametrize("place", ASKED)
def test_free_is_what_a_user_may_write(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: FOUND)
    ask, answer = ASKED[place]
    assert ask(tmp_path) == answer


@pytest.mark.parametrize(("free", "for_users", "full"), [(13, 7, False), (13, 0, True), (0, 0, True)])
def test_no_file_can_be_added_where_only_root_may(
    free: int, for_users: int, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs_result((4096, 1000, 77, 53, 31, 19, free, for_users, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    assert ("no file can be added" in disk.room(tmp_path, FREE)) == full
    unlimited = os.statvfs_result((4096, 1000, 77, 53, 31, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: unlimited)
    assert disk.room(tmp_path, FREE) == ""


def test_nobody_else_asks() -> None:
    found = [
        f"{file.stem}.{function.name}"
        for file in (ROOT / "tenken").rglob("*.py")
        if re.search("statvfs|disk_usage", text := file.read_text())
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Attribute) and call.attr in ("statvfs", "disk_usage")
    ]
    assert sorted(found) == sorted(ASKED)
