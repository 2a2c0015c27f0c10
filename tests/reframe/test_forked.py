"""ReFrame forked from a process that has imported it behaves as the command does."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import termios
import time
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
    (tmp_path / "hangs.py").write_text(
        "import time\nimport reframe as rfm\n\n@rfm.simple_test\nclass Hangs(rfm.RunOnlyRegressionTest):\n"
        "    time.sleep(600)\n"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(["reframe", "-c", str(tmp_path / "hangs.py"), "-l"], cwd=ROOT, env=environment(tmp_path), timeout=2)
    command = ["reframe", "-c", "tests/cluster/probes", "-l", "--system", "minislurm"]
    assert forked.run(command, cwd=ROOT, env=environment(tmp_path), timeout=300).returncode == 0


def test_one_that_ended_before_its_number_was_read(tmp_path, monkeypatch) -> None:
    """As on a busy machine, where the process that asks is not scheduled for a while."""
    parent = forked._parent()

    class Late:
        def write(self, data: bytes) -> None:
            stdin.write(data)

        def flush(self) -> None:
            stdin.flush()
            children, found = Path(f"/proc/{parent.process.pid}/task/{parent.process.pid}/children"), 0
            while found < len("1 0 ") or children.read_text():
                time.sleep(0.05)
                found = int.from_bytes(fcntl.ioctl(parent.process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)
            time.sleep(0.2)  # between its end and the line of its exit status

    stdin = parent.process.stdin
    monkeypatch.setattr(parent.process, "stdin", Late())
    assert forked.run(["reframe", "--no-such-option"], cwd=ROOT, env=environment(tmp_path), timeout=60).returncode == 2
