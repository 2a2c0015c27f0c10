"""The hooks of the node check: what each scheduler gets for each exit status of the check."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tenken.paths import ROOT

NODE = ROOT / "examples" / "node"
BAD = "tenken: gpu 3: lost: it does not answer the driver"
#: Behaviour of the check: the shell command that replaces it.
ENDS = {
    "good": "echo 'tenken: good: 8 GPUs'",
    "bad": f"echo '{BAD}'; exit 1",
    "cannot tell": "echo 'tenken: driver: 590.10, was 580.159.04'; exit 2",
    "broken installation": "echo 'No module named tenken' >&2; exit 1",
    "Python is missing": "exit 127",
    "killed": "kill -KILL $$",
    "silent": "exit 0",
}


def hooks(folder: Path, body: str) -> Path:
    """The hooks with another check, and another folder in place of /opt/tenken."""
    (folder / "hooks").mkdir(exist_ok=True)
    for file in NODE.iterdir():
        text = file.read_text().replace("/opt/tenken/hooks", str(folder / "hooks"))
        text = text.replace("/opt/tenken/bin/python", str(folder / "python")).replace("/opt/sge", str(folder))
        (folder / "hooks" / file.name).write_text(text)
        (folder / "hooks" / file.name).chmod(0o755)
    (folder / "python").write_text(f'#!/bin/sh\necho "$@" > {folder}/called\nenv > {folder}/env\n{body}\n')
    qmod = folder / "bin" / "lx-amd64" / "qmod"
    qmod.parent.mkdir(parents=True, exist_ok=True)
    qmod.write_text(f'#!/bin/sh\necho "$@ $SGE_ROOT $SGE_CELL" > {folder}/disabled\n')
    for file in (folder / "python", qmod):
        file.chmod(0o755)
    return folder / "hooks"


def test_a_folder_without_programs_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    """It said "installed", and nothing was ever measured."""
    (tmp_path / "wheel").touch()
    for wheel, said in (("wheel", "has none of stream, transfer, p2p, gemm"), ("none", "no wheel")):
        ended = call(NODE / "install.sh", str(tmp_path / wheel), str(tmp_path), PATH=os.environ["PATH"])
        assert ended.returncode == 1 and said in ended.stderr


def call(hook: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([hook, *arguments], capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize(
    ("end", "check", "prolog"),
    [("good", 0, 0), ("bad", 1, 1), ("cannot tell", 2, 0), ("broken installation", 2, 0), ("Python is missing", 2, 0),
     ("killed", 2, 0), ("silent", 2, 0)],
)  # fmt: skip
def test_only_a_line_of_the_check_s_own_takes_a_node_out(tmp_path: Path, end: str, check: int, prolog: int) -> None:
    folder = hooks(tmp_path, ENDS[end])
    assert call(folder / "node-check").returncode == check
    assert call(folder / "slurm-prolog").returncode == prolog
    assert call(folder / "slurm-epilog").returncode == 0
    assert call(folder / "slurm-health").returncode == 0
    job = {"SGE_ROOT": "/home/user", "SGE_CELL": "mine"}
    assert call(folder / "sge-prolog", "9", "gpu.q", **job).returncode == (99 if prolog else 0)
    assert (tmp_path / "disabled").exists() == bool(prolog)
    if prolog:
        assert (tmp_path / "disabled").read_text() == f"-d gpu.q@{os.uname().nodename} {tmp_path} default\n"


def test_json_keeps_the_status(tmp_path: Path) -> None:
    for status in range(3):
        line = json.dumps({"schema": "tenken-node-check/1", "status": status})
        folder = hooks(tmp_path, f"echo '{line}'; exit {status}")
        called = call(folder / "node-check", "--json")
        assert (called.returncode, called.stdout) == (status, line + "\n")
    folder = hooks(tmp_path, "echo '{}'; exit 1")
    assert call(folder / "node-check", "--json").returncode == 2


def test_what_the_check_is_told_and_what_it_does_not_see(tmp_path: Path) -> None:
    folder = hooks(tmp_path, ENDS["good"])
    job = {"SLURM_JOB_GPUS": "0,3", "SLURM_JOB_ID": "77", "SLURMD_NODENAME": "n1", "LD_PRELOAD": "", "PYTHONPATH": "/x"}
    call(folder / "slurm-prolog", **job)
    assert (tmp_path / "called").read_text() == (
        "-I -m tenken.node check --seconds 10 --drain --gpus 0,3 --job 77 --node n1\n"
    )
    seen = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert seen <= {"PATH", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"}
    call(folder / "slurm-health", SLURMD_NODENAME="n1")
    assert "--no-measure" in (tmp_path / "called").read_text() and "--gpus" not in (tmp_path / "called").read_text()


class Pbs(types.ModuleType):
    """The part of PBS's own module that the hook uses."""

    EXECHOST_PERIODIC, EXECJOB_BEGIN, ND_OFFLINE, EVENT_DEBUG = 1, 2, "offline", 0

    def __init__(self, kind: int) -> None:
        super().__init__("pbs")
        self.node = types.SimpleNamespace(state="free", comment=None)
        self.said: list[str] = []
        self.now = types.SimpleNamespace(
            type=kind, vnode_list={"n1": self.node}, accept=lambda: self._end("accept"),
            reject=lambda why: self._end(f"reject {why}"),
            job=types.SimpleNamespace(id="5.server"),
        )  # fmt: skip

    def _end(self, what: str) -> None:
        self.said.append(what)
        raise SystemExit

    def event(self) -> Any:
        return self.now

    def get_local_nodename(self) -> str:
        return "n1"

    def logmsg(self, level: int, text: str) -> None:
        self.said.append(text)
        raise SystemError("PY_SSIZE_T_CLEAN macro must be defined for '#' formats")  # OpenPBS 23.06 on Python 3.11


@pytest.mark.parametrize(
    ("end", "kind", "said", "state"),
    [
        ("good", Pbs.EXECJOB_BEGIN, ["accept"], "free"),
        ("bad", Pbs.EXECJOB_BEGIN, [f"reject {BAD}"], "offline"),
        ("bad", Pbs.EXECHOST_PERIODIC, ["accept"], "offline"),
        ("cannot tell", Pbs.EXECJOB_BEGIN, ["tenken: driver: 590.10, was 580.159.04", "accept"], "free"),
        ("broken installation", Pbs.EXECJOB_BEGIN, ["tenken: not known", "accept"], "free"),
    ],
)
def test_the_hook_of_pbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, kind: int, said: list[str], state: str
) -> None:
    folder = hooks(tmp_path, ENDS[end])
    pbs = Pbs(kind)
    monkeypatch.setitem(sys.modules, "pbs", pbs)
    with pytest.raises(SystemExit):
        runpy.run_path(str(folder / "pbs_hook.py"))
    assert pbs.said == said and pbs.node.state == state
    assert pbs.node.comment == (BAD if state == "offline" else None)
    called = (tmp_path / "called").read_text()
    assert ("--job 5.server" in called) == (kind == Pbs.EXECJOB_BEGIN)
    assert "--drain" in called  # otherwise nodes would go offline before the site has set `drain`
