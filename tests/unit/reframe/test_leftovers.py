"""What a local job leaves in process groups of their own ends with it: the programs of Open MPI's ranks are such."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from reframe.core.schedulers.local import LocalJobScheduler

from tenken.reframe import leftovers

#: `set -m` gives what is started a process group, as mpirun and timeout do.
LEAVES = 'set -m\nsleep 300 &\necho $! > "$0.left"\n'


@pytest.mark.parametrize("then", ["sleep 300", "exit 0"], ids=["cancelled", "ended"])
@pytest.mark.parametrize("ours", [True, False])
def test_nothing_of_a_local_job_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, ours: bool) -> None:
    monkeypatch.setattr(LocalJobScheduler, "_kill_all", LocalJobScheduler._kill_all)
    if ours:
        leftovers.register()
    scheduler = LocalJobScheduler.__new__(LocalJobScheduler)
    scheduler.log, scheduler.get_option = lambda *words: None, lambda name: True
    script, left = tmp_path / "job.sh", tmp_path / "job.sh.left"
    script.write_text(f"#!/bin/bash\n{LEAVES}{then}\n")
    script.chmod(0o755)
    job = scheduler.make_job("a", workdir=str(tmp_path), script_filename=str(script), stdout=str(tmp_path / "out"),
                             stderr=str(tmp_path / "err"))  # fmt: skip
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
    assert runs(pid) != ours, "without the change this test shows nothing"
    if not ours:
        os.kill(pid, 9)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
