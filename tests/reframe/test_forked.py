"""ReFrame forked from a process that has imported it behaves as the command does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.support import forked


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENKEN_", "RFM_"))}
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    own = {"RFM_CONFIG_PATH": "config", "RFM_COLORIZE": "n", "RFM_STAGE_DIR": str(folder / "stage"),
           "RFM_OUTPUT_DIR": str(folder / "output"), "TENKEN_ARCHIVE": str(folder / "perflogs")}  # fmt: skip
    return {**kept, **own, **more}


def shown(text: str) -> str:
    return re.sub(r"/rfm-\w+\.log", "/rfm.log", text)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-l", "--system", "minislurm"], 0, "- ProbeOne /"),
        (["-r", "--system", "miyabi"], 1, "tenken: system 'miyabi': TENKEN_GROUP (project group"),
        (["-r", "--system", "miyabbi"], 1, "miyabbi"),
        (["--no-such-option"], 2, "usage: reframe"),
    ],
)
def test_output_and_exit_status_are_those_of_the_command(tmp_path, arguments, code, said) -> None:
    command = ["reframe", "-c", "tests/cluster/probes", *arguments]
    env = environment(tmp_path)
    usual = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300)
    for _ in range(2):
        done = forked.run(command, cwd=ROOT, env=env, timeout=300)
        assert (done.returncode, *map(shown, (done.stdout, done.stderr))) == (
            usual.returncode, *map(shown, (usual.stdout, usual.stderr)),
        )  # fmt: skip
    assert usual.returncode == code and said in usual.stdout + usual.stderr


def test_the_suite_is_imported_in_the_environment_of_the_command(tmp_path) -> None:
    """tenken reads TENKEN_ROOT while it is imported: the systems are those of that folder."""
    for name in ("config", "checks", "src", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "systems").mkdir()
    for name in ("hardware.yaml", "local.yaml", "minislurm.yaml"):
        (tmp_path / "systems" / name).symlink_to(ROOT / "systems" / name)
    found = []
    for root in (ROOT, tmp_path):
        env = environment(tmp_path, TENKEN_ROOT=str(root), TENKEN_GROUP="gz00")
        done = forked.run(
            ["reframe", "-c", "tests/cluster/probes", "-l", "--system", "miyabi"], cwd=ROOT, env=env, timeout=300
        )
        found.append(done.returncode)
    assert found[0] == 0 and found[1] != 0


def test_one_that_hangs_is_ended_and_the_next_one_runs(tmp_path) -> None:
    command = ["reframe", "-c", "tests/cluster/probes", "-l", "--system", "minislurm"]
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(command, cwd=ROOT, env=environment(tmp_path), timeout=0.01)
    assert forked.run(command, cwd=ROOT, env=environment(tmp_path), timeout=300).returncode == 0
