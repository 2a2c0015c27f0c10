"""Runs the real ReFrame as a user does, and reads its output and the archive."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tenken.archive import records as archive
from tenken.paths import ROOT
from tenken.reframe import plan
from tests.support import forked


@dataclass(frozen=True)
class Outcome:
    """A finished ReFrame session: exit status, output, its run report and the archived records."""

    code: int
    output: str
    report: dict[str, Any]
    records: list[archive.Record]
    archive: Path

    def case(self, name: str) -> dict[str, Any]:
        """The test case of ReFrame's run report whose name begins with `name`."""
        cases = [c for run in self.report.get("runs", []) for c in run["testcases"] if c["name"].startswith(name)]
        assert len(cases) == 1, [c["name"] for c in cases]
        return cases[0]


@functools.cache
def all_checks(mode: str | None) -> list[dict[str, Any]]:
    """All checks as ReFrame describes them in a mode. It takes seconds: the tests that ask for it share a worker."""
    with mock.patch.object(plan, "listed", functools.partial(forked.run, timeout=600)):
        found, errors = plan.describe_checks(mode)
    assert not errors
    return found


def reframe(
    *arguments: str, folder: Path, checks: str = "checks", session: str = "20260101T000000Z-test",
    before: Sequence[str] = (), **env: str,
) -> Outcome:  # fmt: skip
    """`reframe -c checks ARGUMENTS` from the repository root with the archive in `folder`/perflogs.

    `before`: words before that command, which start it."""
    root = folder / "perflogs"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_"))}
    environment |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")]),
        # checks of the tests import each other as tests.*, and this may be called outside pytest
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]),
        "RFM_CONFIG_PATH": "config",
        "RFM_COLORIZE": "n",
        "RFM_STAGE_DIR": str(folder / "stage"),
        "RFM_OUTPUT_DIR": str(folder / "output"),
        "TENKEN_ARCHIVE": str(root),
        "TENKEN_SESSION": session,
        **{k: v for k, v in os.environ.items() if k == "TENKEN_LOCKS"},
        **env,
    }
    command = ["reframe", "-c", checks, *arguments]
    if before:
        done = subprocess.run(
            [*before, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1800
        )
    else:
        done = forked.run(command, cwd=ROOT, env=environment, timeout=1800)
    path = archive.session_folder(root, session) / "run-report.json"
    report = json.loads(path.read_text()) if path.is_file() else {}
    return Outcome(done.returncode, done.stdout + done.stderr, report, list(archive.records(root, session)), root)
