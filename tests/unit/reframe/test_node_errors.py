"""Errors that a node counts during a job, from the node checks before and after it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tenken.judge.bounds import NOTE
from tenken.model import verdicts
from tenken.reframe import node_errors


def ran(stage: Path, found: object, state: bool = True) -> None:
    folder = stage / node_errors.FOLDER
    folder.mkdir()
    if state:
        (folder / node_errors.STATE).write_text("{}")
    (folder / node_errors.FOUND).write_text(found if isinstance(found, str) else json.dumps(found))


def one(severity: str, reason: str) -> dict[str, str]:
    return {"severity": severity, "device": "gpu 1", "uuid": "GPU-1", "reason": reason}


def test_what_is_bad_fails_and_all_else_is_a_note(tmp_path: Path) -> None:
    replays = "PCIe: 4000 replays since the last check"
    ran(tmp_path, {"findings": [one("note", "3 corrected memory errors since the last check"), one("bad", replays)]})
    bad, note = node_errors.findings(tmp_path, "n1")
    assert (bad.verdict, bad.message, bad.kind) == (verdicts.FAIL, f"n1: gpu 1: {replays}", "")
    assert (note.verdict, note.kind) == (verdicts.RECORDED, NOTE) and "3 corrected" in note.message


def test_a_job_that_was_not_to_read_them_has_none(tmp_path: Path) -> None:
    assert node_errors.findings(tmp_path, "n1") == []


@pytest.mark.parametrize("found", ["", "{", "[]", '{"findings": [{}]}', '{"findings": 1}'])
def test_what_cannot_be_read_is_said(tmp_path: Path, found: str) -> None:
    ran(tmp_path, found)
    (note,) = node_errors.findings(tmp_path, "n1")
    assert note.kind == NOTE and note.message.startswith("n1: errors that the node counts were not read: ")


def test_without_a_reading_before_nothing_is_compared(tmp_path: Path) -> None:
    ran(tmp_path, {"findings": [one("bad", "7 uncorrected memory errors")]}, state=False)
    (note,) = node_errors.findings(tmp_path, "n1")
    assert note.kind == NOTE and "nothing was read before it" in note.message


def test_the_commands_read_this_node(tmp_path: Path) -> None:
    script = "\n".join(["set -e", *node_errors.before(), *node_errors.after()])
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / node_errors.FOLDER
    errors = (folder / "errors.txt").read_text()
    assert json.loads((folder / node_errors.STATE).read_text())["schema"] == "tenken-node/1", errors
    assert json.loads((folder / node_errors.FOUND).read_text())["schema"] == "tenken-node-check/1", errors
    assert not [f for f in node_errors.findings(tmp_path, "n1") if "not read" in f.message]
