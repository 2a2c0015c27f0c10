"""What `make run` does around ReFrame: how it ends, and what a signal leaves. ReFrame and tenken are stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tenken.paths import ROOT

REFRAME = """
trap 'echo cancelled; exit 1' TERM
echo "reframe $*"
[ -z "$HOLD" ] || { : > "$HOLD"; while :; do sleep 0.1; done; }
exit ${REFRAME_STATUS:-0}
"""
TENKEN = """
case $1 in
checks) echo "terminal ${TENKEN_TERMINAL:-all}"; exit ${CHECKS_STATUS:-0};;
report) echo "Page: page.html"; exit ${REPORT_STATUS:-0};;
esac
"""


@pytest.fixture
def command(tmp_path: Path):
    """Starts the script with stand-ins on PATH."""
    for name, text in (("reframe", REFRAME), ("tenken", TENKEN)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)

    def start(*arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "scripts/run.sh", "minislurm", "quick", *arguments],
            cwd=ROOT, env={"PATH": f"{tmp_path}:/usr/bin:/bin", **env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    return start


def test_the_run_is_reframes_own_command_and_the_page_comes_last(command):
    run = command("-n", "Daxpy")
    said = run.communicate(timeout=60)[0].splitlines()
    assert run.returncode == 0
    assert "reframe -c checks -r --system minislurm --mode quick -n Daxpy" in said
    assert said[-1] == "Page: page.html"


@pytest.mark.parametrize(("v", "shown"), [("", "brief"), ("0", "brief"), ("1", "all")])
def test_one_line_a_check_unless_all_is_asked_for(command, v, shown):
    assert f"terminal {shown}" in command(V=v).communicate(timeout=60)[0]


@pytest.mark.parametrize(
    ("statuses", "ends", "words"),
    [
        ({"REFRAME_STATUS": "1", "REPORT_STATUS": "1"}, 1, "exit status 1: at least one check is FAIL"),
        ({"REFRAME_STATUS": "1", "REPORT_STATUS": "3"}, 3, "something is INVALID (run it again) or missing"),
        ({"REFRAME_STATUS": "1"}, 1, "exit status 1"),
        ({"CHECKS_STATUS": "2"}, 2, "the run could not begin"),
    ],
)
def test_a_status_is_explained_in_one_line(command, statuses, ends, words):
    run = command(**statuses)
    said = run.communicate(timeout=60)[0].splitlines()
    assert run.returncode == ends
    assert [words in line for line in said].count(True) == 1 and words in said[-1]


def test_without_a_beginning_nothing_is_run(command):
    assert "reframe" not in command(CHECKS_STATUS="2").communicate(timeout=60)[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_cancels_the_jobs_and_writes_the_page_of_what_there_is(command, tmp_path, number):
    running = tmp_path / "running"
    run = command(HOLD=str(running), REPORT_STATUS="3")
    wait_for(running)
    os.kill(run.pid, number)
    said = run.communicate(timeout=60)[0].splitlines()
    assert run.returncode == 3
    assert "cancelled" in said and "Page: page.html" in said
    assert "tenken: stopped; the page has what there is" in said


def test_make_hands_a_signal_on(command, tmp_path):
    """A batch system ends `make run` itself."""
    venv, running = tmp_path / "venv", tmp_path / "running"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "activate").write_text(f"PATH={tmp_path}:$PATH\n")
    (venv / ".stamp").touch()
    for tool in ("g++", "git", "flock", "cmake"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    run = subprocess.Popen(
        ["make", "run", f"VENV={venv}", "-o", f"{venv}/.stamp", "SYSTEM=minislurm", f"PYTHON={sys.executable}"],
        cwd=ROOT, env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOLD": str(running)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    wait_for(running)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=60)[0]
    assert run.returncode != 0
    assert "cancelled" in said and "Page: page.html" in said, said


def wait_for(path: Path, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.05)
