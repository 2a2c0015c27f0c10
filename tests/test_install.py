"""scripts/install.sh: which of pip and uv installs, by stand-ins that log their arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tenken.paths import ROOT

PIP = """#!/bin/sh
[ "$1" != config ] || { echo "$SETTINGS"; exit; }
echo "pip $*$PYTHONPATH$PYTHONHOME$PIP_TARGET$PIP_PREFIX" >> "$LOG"
[ "$PIP_USER" = 0 ] || exit 3
case $* in *uv.lock) grep -q '^uv==' "${0%/pip}/../uv.lock" && cp "${0%/pip}/standin" "${0%/pip}/uv" ;; esac
"""
UV = '#!/bin/sh\necho "uv $*" >> "$LOG"\nexit "$STATUS"\n'
#: What modules and users set, which would have pip install elsewhere, or not at all.
SITE = {"PYTHONPATH": "/a", "PYTHONHOME": "/b", "PIP_TARGET": "/c", "PIP_PREFIX": "/d", "PIP_USER": "1"}
INSTALL = "install -q --no-compile --require-hashes -r"
BY_UV = "pip install -q --no-config --no-cache --python {venv}/bin/python"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name, text in (("pip", PIP), ("standin", UV)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def calls(venv: Path, *arguments: str, settings: str = "", status: int = 0) -> list[str]:
    log = venv / "log"
    log.unlink(missing_ok=True)
    env = {"PATH": "/usr/bin:/bin", "LOG": str(log), "SETTINGS": settings, "STATUS": str(status), **SITE}
    done = subprocess.run(
        ["sh", "scripts/install.sh", str(venv), *arguments], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return log.read_text().splitlines()


def test_uv_comes_by_pip_with_its_hash_and_installs_the_rest(venv: Path) -> None:
    by_uv = f"uv {BY_UV.format(venv=venv)}"
    fetched, *rest = calls(venv, "requirements.lock", ".", settings="global.cert='/etc/ours.crt'")
    assert fetched == f"pip {INSTALL} {venv}/uv.lock".replace("--require", "--only-binary :all: --require")
    assert rest == [f"{by_uv} --require-hashes -r requirements.lock", f"{by_uv} --no-deps -e ."]
    lines = (venv / "uv.lock").read_text().splitlines()
    assert len(lines) > 2 and all("--hash=sha256:" in line for line in lines[1:])
    assert calls(venv, "requirements-dev.lock") == [f"{by_uv} --require-hashes -r requirements-dev.lock"]


@pytest.mark.parametrize(
    "setting", ["global.index-url='https://ours/simple'", ":env:.proxy='ours:3128'", "install.no-index='true'"]
)
def test_where_pip_has_settings_that_uv_does_not_read_pip_installs(venv: Path, setting: str) -> None:
    editable = "pip install -q --no-deps -e ."
    assert calls(venv, "requirements.lock", ".", settings=setting) == [f"pip {INSTALL} requirements.lock", editable]


def test_where_uv_fails_pip_installs(venv: Path) -> None:
    called = calls(venv, "requirements.lock", status=2)
    assert [one.split()[0] for one in called] == ["pip", "uv", "pip"] and called[
        -1
    ] == f"pip {INSTALL} requirements.lock"
