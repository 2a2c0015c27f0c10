"""Errors that a node counted during a job: the node check reads it before and after, and compares the two.

Corrected memory errors, row remappings, PCIe replays and AER, errors of NVLinks and network ports, EDAC and machine
checks: errors that ECC and retries hide from a program. The thresholds are those of the node check
(docs/node-check.md).
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from tenken.judge.bounds import NOTE
from tenken.model import files, verdicts
from tenken.model.judgement import Finding
from tenken.paths import ROOT

#: Below the stage folder, readable only by its owner, since the node check trusts no other.
FOLDER = "node-check"
EXPECTED, STATE, FOUND = "expected.json", "state.json", "found.json"
#: Maximum size of the node check's output.
MAX_BYTES = 4 << 20
SECONDS = 30


def before() -> list[str]:
    """Commands of the job script before the program: read the current counters."""
    content = f'{{"schema": "tenken-node/1", "state": "%s/{FOLDER}/{STATE}"}}'
    return [
        f"rm -rf {FOLDER}; mkdir -m 700 {FOLDER}",
        f"(umask 077; printf '{content}' \"$PWD\" > {FOLDER}/{EXPECTED})",
        f"{_command('accept')} > /dev/null 2> {FOLDER}/errors.txt || :",
    ]


def after() -> list[str]:
    """Commands after it: compute the changes."""
    return [f"{_command('check --no-measure --json')} > {FOLDER}/{FOUND} 2>> {FOLDER}/errors.txt || :"]


def _command(words: str) -> str:
    path = shlex.quote(str(ROOT))
    return f"PYTHONPATH={path} python3 -m tenken.node {words} --seconds {SECONDS} --expect {FOLDER}/{EXPECTED}"


def findings(stage: Path, node: str) -> list[Finding]:
    """FAIL for what the node check reports as bad, otherwise notes; nothing for a job that was not configured to read
    counters."""
    folder = stage / FOLDER
    if not folder.is_dir():
        return []
    try:
        found: Any = json.loads(files.read_text(folder / FOUND, MAX_BYTES))
        if not (folder / STATE).is_file():
            raise ValueError("nothing was read before it")
        told = [(one["severity"], f"{one['device']}: {one['reason']}") for one in found["findings"]]
    except (files.FileError, ValueError, KeyError, TypeError) as error:
        return [_note(node, f"errors that the node counts were not read: {error}")]
    bad = [Finding(verdicts.FAIL, f"{node}: {text}", node=node) for severity, text in told if severity == "bad"]
    return [*bad, *(_note(node, text) for severity, text in told if severity != "bad")]


def _note(node: str, text: str) -> Finding:
    return Finding(verdicts.RECORDED, f"{node}: {text}", node=node, kind=NOTE)
