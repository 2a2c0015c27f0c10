"""The part that all stand-ins share: jobs as files in a folder, run one after another by detached processes."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: The folder of the cluster in use.
VARIABLE = "STANDIN_CLUSTER"

_MODULE = """() {
  case $1 in
    purge) LOADEDMODULES= ;;
    load) shift; for m in "$@"; do
      if grep -qx "$m" "$STANDIN_CLUSTER/missing_$STANDIN_PLACE" 2>/dev/null; then
        echo "ERROR: Unable to locate a modulefile for '$m'" >&2; return 1; fi
      LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$m; done ;;
  esac
  export LOADEDMODULES
}"""
_PROFILE = """() { case $1 in /etc/profile.d/modules.sh) ;; *) builtin source "$@";; esac }"""
#: `module` as a shell function, in the environment of a login node and of a job, and the profile that would set it up.
MODULES = {"BASH_FUNC_module%%": _MODULE, "BASH_FUNC_source%%": _PROFILE, "BASH_FUNC_.%%": _PROFILE}

_MPIRUN = """#!/bin/bash
# runs the program once for each rank, one after another, on the nodes in turn, or all on the first one
each=
while [ $# -gt 0 ]; do case $1 in
  -np|-n) ranks=$2; shift 2;; -npernode) each=$2; shift 2;;
  --map-by) each=${2#ppr:}; each=${each%:node}; shift 2;;
  --from-nqsv) shift;; -*) echo "mpirun: $1?" >&2; exit 1;;
  *) break;; esac; done
mapfile -t nodes < <(if [ -n "$each" ]; then uniq "$STANDIN_NODES"; else cat "$STANDIN_NODES"; fi)
for ((rank = 0; rank < ranks; rank++)); do
  [ "$STANDIN_PILED" = 1 ] && at=0 || at=$((rank / ${each:-1}))
  STANDIN_NODE=${nodes[$at]} STANDIN_RANK=$rank "$@" || exit
done
"""
#: The host name of a node.
_UNAME = """#!/bin/sh
[ "$*" = -n ] && echo "$STANDIN_NODE" || exec /usr/bin/uname "$@"
"""


class Cluster:
    """`faults` are switches set by a test; numeric ones count down when they occur."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def asked(cls) -> Cluster:
        """The cluster that a command is for."""
        return cls(Path(os.environ[VARIABLE]))

    def create(self, scheduler: str, commands: tuple[str, ...], **faults: Any) -> dict[str, str]:
        """Creates it, or continues with an existing one; returns the environment of a login node."""
        from tenken.paths import ROOT as root

        for name in ("jobs", "bin", "node-bin"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "faults.json").write_text(json.dumps(faults))
        for place in ("login", "node"):
            (self.folder / f"missing_{place}").write_text("\n".join(faults.get(f"missing_on_{place}", [])) + "\n")
        for command in commands:
            path = self.folder / "bin" / command
            path.write_text(
                f"#!/bin/sh\nexport PYTHONPATH={root} {VARIABLE}={self.folder}\n"
                f'exec {sys.executable} -S -m tests.cluster.standins.{scheduler} {command} "$@"\n'
            )
            path.chmod(0o755)
        for name, text in (("mpirun", _MPIRUN), ("uname", _UNAME)):
            (self.folder / "node-bin" / name).write_text(text)
            (self.folder / "node-bin" / name).chmod(0o755)
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": path, VARIABLE: str(self.folder), "STANDIN_PLACE": "login", **MODULES}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def faults(self) -> dict[str, Any]:
        return json.loads((self.folder / "faults.json").read_text())

    def use_up(self, fault: str) -> bool:
        """Whether a fault that occurs a limited number of times occurs now."""
        with self._locked():
            faults = self.faults()
            left = faults.get(fault, 0)
            if left:
                faults[fault] = left - 1
                # a job that begins meanwhile reads them
                temporary = self.folder / "faults.tmp"
                temporary.write_text(json.dumps(faults))
                temporary.rename(self.folder / "faults.json")
            return bool(left)

    def jobs(self) -> dict[str, dict[str, Any]]:
        """All jobs so far by their number."""
        found = sorted((self.folder / "jobs").glob("*.json"), key=lambda path: int(path.stem))
        return {path.stem: json.loads(path.read_text()) for path in found}

    def job(self, number: str) -> dict[str, Any] | None:
        path = self.folder / "jobs" / f"{number}.json"
        return json.loads(path.read_text()) if path.is_file() else None

    def update(self, number: str, **changes: Any) -> None:
        path = self.folder / "jobs" / f"{number}.json"
        with self._locked():
            old = json.loads(path.read_text()) if path.is_file() else {}
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps({**old, **changes}))
            temporary.rename(path)

    def submit(self, module: str, **job: Any) -> str:
        """Queues a job: script, folder, stdout, stderr (None: joined), seconds, nodes (one entry for each rank)."""
        number = str(1000 + len(list((self.folder / "jobs").glob("*.json"))))
        self.update(number, state="queued", submitted=time.time(), **job)
        subprocess.Popen(
            [sys.executable, "-S", "-m", f"tests.cluster.standins.{module}", "--run", number],
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if self.use_up("qsub_interrupted"):  # the job is queued, and the session is to end before it learns its number
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(60)
        return number

    def run(self, number: str, environment: dict[str, str]) -> None:
        """What a node does with a job. `ended`: exit status, "walltime" or "deleted"."""
        faults = self.faults()
        job = self.job(number)
        assert job
        while faults.get("never_starts") and not self._deleted(number):
            time.sleep(0.05)
        time.sleep(0.2)
        if self._deleted(number):
            self.update(number, state="ended", ended="deleted")
            return
        spool = self.folder / "jobs"
        out, err = spool / f"{number}.out", spool / f"{number}.err"
        nodefile = spool / f"{number}.nodes"
        nodefile.write_text("".join(f"{node}\n" for node in job["nodes"]))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            script = self._spooled(job["script"], number)
            variables = {
                "PATH": f"{self.folder / 'node-bin'}:/usr/bin:/bin", "HOME": str(self.folder),
                VARIABLE: str(self.folder), "STANDIN_PLACE": "node", **MODULES, **environment,
                "STANDIN_NODE": job["nodes"][0], "STANDIN_NODES": str(nodefile),
                "STANDIN_PILED": str(int(faults.get("ranks_piled", 0))),
            }  # fmt: skip
            for _ in range(faults.get("ran_before", 0)):
                subprocess.run(["bash", script], cwd=job["start_in"], env=variables, capture_output=True, check=False)
            process = subprocess.Popen(
                ["bash", script], cwd=job["start_in"], stdin=subprocess.DEVNULL, stdout=stdout,
                stderr=stdout if job["stderr"] is None else stderr, start_new_session=True, env=variables,
            )  # fmt: skip
            self.update(number, state="running", started=time.time())
            ended: int | str | None = None
            until = time.time() + job["seconds"]
            while ended is None:
                ended = process.poll()
                if ended is None and (time.time() > until or self._deleted(number)):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    ended = "deleted" if self._deleted(number) else "walltime"
                time.sleep(0.02)
        self.update(number, state="ended", ended=ended)
        time.sleep(faults.get("late_output", 0))
        if faults.get("halved_output"):
            whole = out.read_bytes()
            Path(job["folder"], job["stdout"]).write_bytes(whole[: len(whole) // 2])
            time.sleep(faults["halved_output"])
        if faults.get("unseen") == "lost":
            return  # the node with the output has no folder to copy it to
        shutil.copy(out, Path(job["folder"], job["stdout"]))
        if job["stderr"] is not None:
            shutil.copy(err, Path(job["folder"], job["stderr"]))

    def _spooled(self, script: str, number: str) -> str:
        """A node runs a copy of the script. With the fault `unseen` the script's folder does not exist there: the copy
        names another path.
        """
        if not self.faults().get("unseen"):
            return script
        text, folder = Path(script).read_text(), shlex.quote(str(Path(script).parent)).strip("'")
        copy = self.folder / "jobs" / f"{number}.script"
        copy.write_text(text.replace(folder, f"{folder}/unseen"))
        return str(copy)

    def _deleted(self, number: str) -> bool:
        return (self.folder / "jobs" / f"{number}.deleted").exists()

    def delete(self, number: str) -> None:
        (self.folder / "jobs" / f"{number}.deleted").touch()


def refuse(command: str, text: str, status: int = 1) -> None:
    """Ends a command as schedulers do."""
    print(f"{command}: {text}", file=sys.stderr)
    raise SystemExit(status)


def directives(script: Path, prefix: str) -> list[str]:
    """The options in a job script, up to its first command."""
    found = []
    for line in script.read_text().splitlines():
        if line.startswith(prefix + " "):
            found.append(line[len(prefix) + 1 :].strip())
        elif line.strip() and not line.startswith("#"):
            break
    return found


def seconds(text: str) -> int:
    """Of H:MM:SS."""
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


def serve(
    commands: Mapping[str, Callable[[Cluster, list[str]], None]], variables: Callable[..., dict[str, str]]
) -> None:
    """What a stand-in is started for: one of its commands, or `--run NUMBER`, a job with its variables."""
    cluster, (command, *arguments) = Cluster.asked(), sys.argv[1:]
    if command != "--run":
        commands[command](cluster, arguments)
        return
    job = cluster.job(arguments[0])
    assert job
    cluster.run(arguments[0], variables(cluster, arguments[0], job))
