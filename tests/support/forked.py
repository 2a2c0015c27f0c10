"""Starts ReFrame from a process that has imported it: half the CPU time of a short session is Python's imports.

    run(["reframe", "-c", "checks", "-l"], cwd=..., env=...)

is `subprocess.run` of that command with its output captured, but its process is forked from one that already holds
ReFrame's modules and those of other packages. Everything of the suite is imported again, in the command's environment:
tenken, config, checks. test_forked.py compares both.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Imported before the fork: no module of the suite, which may read its environment while it is imported.
MODULES = ("reframe.frontend.cli", "jsonschema", "msgspec", "ruamel.yaml", "jinja2", "sqlite3")
#: Variables that Python or its libraries read when they start: they must be as in the process that is forked.
STARTING = ("PYTHON", "LC_", "LANG", "LD_", "VIRTUAL_ENV", "HOME", "TZ")


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of a command that begins with "reframe"."""
    beside = str(Path(sys.executable).with_name("reframe"))
    if not _starts_alike(env) or not Path(beside).exists():
        return subprocess.run(
            command, cwd=cwd, env=dict(env), capture_output=True, text=True, check=False, timeout=timeout
        )
    with tempfile.TemporaryDirectory(prefix="tenken-forked-") as folder:
        files = [Path(folder) / name for name in ("out", "err")]
        asked = {"argv": [beside, *command[1:]], "cwd": str(cwd), "env": dict(env), "files": [str(f) for f in files]}
        code = _parent().ask(asked, timeout, command)
        out, err = (file.read_text(errors="replace") for file in files)
    return subprocess.CompletedProcess(command, code, out, err)


def _of_starting(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(STARTING) and name != "PYTHONPATH"}


def _starts_alike(env: Mapping[str, str]) -> bool:
    return _of_starting(env) == _of_starting(os.environ)


class Parent:
    """The process that is forked, and the two pipes to it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__] if sys.version_info >= (3, 11) else [sys.executable, __file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
            bufsize=0,  # a buffer would take a second line that is there with the first, and select() see none
        )  # fmt: skip
        self.environment = _of_starting(os.environ)
        atexit.register(self.end)

    def end(self) -> None:
        if self.process.stdin and self.process.poll() is None:
            self.process.stdin.close()  # it ends at the end of its input
            self.process.wait()

    def ask(self, asked: dict[str, object], timeout: float, command: Sequence[str]) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(pid, signal.SIGKILL)
            self.process.stdout.readline()
            raise subprocess.TimeoutExpired(command, timeout)
        return int(self.process.stdout.readline())


_parents: list[Parent] = []


def _parent() -> Parent:
    if not _parents or _parents[0].process.poll() is not None or _parents[0].environment != _of_starting(os.environ):
        for old in _parents:
            old.end()
        _parents[:] = [Parent()]
    return _parents[0]


def _become(asked: dict[str, list[str]]) -> None:
    """In the fork: what the interpreter would do for this command."""
    sys.stdin.close()
    null = os.open(os.devnull, os.O_RDONLY)
    out, err = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in asked["files"])
    for own, standard in ((null, 0), (out, 1), (err, 2)):
        os.dup2(own, standard)
        os.close(own)
    sys.stdin = open(0)  # noqa: SIM115 -- for as long as the process lives
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(str(asked["cwd"]))
    sys.argv = asked["argv"]
    more = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:0] = [str(Path(sys.argv[0]).parent), *more]
    from reframe.frontend.cli import main

    code: object = 1
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0) & 255)


def _serve() -> None:
    for name in MODULES:
        __import__(name)
    assert "tenken" not in sys.modules
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                _become(asked)
            finally:
                os._exit(70)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
