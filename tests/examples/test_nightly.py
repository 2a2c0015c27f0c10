"""The committed examples of a night: the lock, the hard limit, what is posted; and the pipelines."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tenken.paths import ROOT
from tests.support.reframe import reframe

REFRAME = """#!/bin/sh
trap 'echo "jobs cancelled"; kill $pid; exit 1' TERM
env | grep '^SLURM_' | sort
sleep ${SLEEP:-0} & pid=$!
wait $pid
exit ${CODE:-0}
"""
TENKEN = """#!/bin/sh
[ "$1" = report ] || exit 0
mkdir -p output/pages; echo page > output/pages/$3.html; echo "Tenken: verdicts"; echo "Page: output/pages/$3.html"
"""


@pytest.fixture
def night(tmp_path: Path):
    """A checkout in which reframe and tenken are stand-ins."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "activate").write_text(f"PATH={bin_}:$PATH; export PATH\n")
    for name, text in (("reframe", REFRAME), ("tenken", TENKEN), ("post", '#!/bin/sh\necho "$@" > posted\n')):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)

    def start(**env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(tmp_path / "examples" / "nightly" / "nightly.sh"), "minislurm"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **env},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    start.folder = tmp_path  # type: ignore[attr-defined]
    return start


def log(folder: Path) -> str:
    (path,) = (folder / "output" / "nightly").glob("*.log")
    return path.read_text()


def test_a_night_runs_reports_and_posts(night):
    process = night(TENKEN_POST="post")
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
    page, logged, status = (night.folder / "posted").read_text().split()
    assert (night.folder / page).read_text() == "page\n"
    assert "Tenken: verdicts" in (night.folder / logged).read_text()
    assert status == "0"


def test_a_failed_night_says_so_where_cron_mails_it(night):
    process = night(CODE="1")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Tenken: verdicts" in output


def test_two_nights_never_overlap(night):
    first = night(SLEEP="4")
    until = time.time() + 10
    lock = night.folder / "output" / "nightly" / "minislurm.lock"
    while not (lock.exists() and lock.read_text()) and time.time() < until:
        time.sleep(0.05)
    second = night()
    output, _ = second.communicate(timeout=30)
    assert second.returncode == 75
    assert f"the last night of minislurm still runs (process {first.pid} on" in output
    first.communicate(timeout=30)
    assert first.returncode == 0
    third = night()
    third.communicate(timeout=30)
    assert third.returncode == 0


def test_a_night_ends_at_its_hard_limit_and_reports_what_there_is(night):
    process = night(SLEEP="60", TENKEN_LIMIT="1s")
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert "jobs cancelled" in log(night.folder)
    assert "Tenken: verdicts" in log(night.folder)


def test_what_slurm_told_the_night_does_not_reach_its_jobs(night):
    process = night(SLURM_CONF="/etc/slurm.conf", SLURM_MEM_PER_NODE="100", SLURM_NTASKS="1")
    process.communicate(timeout=30)
    lines = [line for line in log(night.folder).splitlines() if line.startswith("SLURM_")]
    assert lines == ["SLURM_CONF=/etc/slurm.conf"]


@pytest.mark.parametrize(
    "file", ["examples/ci/gitlab-ci.yml", "examples/ci/github-nightly.yml", ".github/workflows/tests.yml"]
)
def test_pipelines_are_yaml(file):
    assert YAML(typ="safe").load((ROOT / file).read_text())


def test_gitlabs_pipeline_is_generated_with_a_job_for_each_check(tmp_path):
    pipeline = tmp_path / "pipeline.yml"
    outcome = reframe("--system", "minislurm", "--mode", "nightly", f"--ci-generate={pipeline}", folder=tmp_path)
    assert outcome.code == 0, outcome.output
    made = YAML(typ="safe").load(pipeline.read_text())
    jobs = [name for name in made if name.startswith("StreamHost")]
    assert len(jobs) == 1
    assert any("reframe" in line and "-r" in line for line in made[jobs[0]]["script"])
