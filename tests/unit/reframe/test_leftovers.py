"""Processes that a local job leaves in separate process groups, such as the ranks of Open MPI, end with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tenken.paths import ROOT

#: `set -m` starts processes in a separate process group, as mpirun and timeout do.
LEAVES = 'set -m\nsleep 300 &\necho $! > "$0.left"\n'


#: A separate process, like a session: ReFrame waits for every child of its process group.
SESSION = """
import os, sys, time
from pathlib import Path

from reframe.core.schedulers.local import LocalJobScheduler

from tenken.reframe import leftovers, stages

def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

script, then, ours = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
if ours:
    leftovers.register()
    stages.register()
scheduler = LocalJobScheduler.__new__(LocalJobScheduler)
scheduler.log, scheduler.get_option = lambda *words: None, lambda name: True
folder, left = str(script.parent), Path(f"{script}.left")
job = scheduler.make_job(
    "a", workdir=folder, script_filename=str(script), stdout=f"{folder}/out", stderr=f"{folder}/err"
)
scheduler.submit(job)
until = time.time() + 20
while not (left.exists() and left.read_text()) and time.time() < until:
    time.sleep(0.01)
if "sleep" in then:
    scheduler.cancel(job)
scheduler.wait(job)
pid = int(left.read_text())
while ours and runs(pid) and time.time() < until:
    time.sleep(0.01)
print("runs" if runs(pid) else "ended")
if not ours:
    os.kill(pid, 9)
"""


@pytest.mark.parametrize("then", ["sleep 300", "exit 0"], ids=["cancelled", "ended"])
@pytest.mark.parametrize("ours", [True, False])
def test_nothing_of_a_local_job_runs_on(tmp_path: Path, then: str, ours: bool) -> None:
    # its path is one word where it is started
    folder = tmp_path / ("a user's" if ours else "plain")
    folder.mkdir()
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\n{LEAVES}{then}\n")
    script.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(script), then, str(ours)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == ("ended\n" if ours else "runs\n"), "without the change this test shows nothing"
