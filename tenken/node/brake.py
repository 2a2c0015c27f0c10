"""Limits how many nodes are drained.

A new driver, a stopped fabric manager or a slow file server makes all nodes of a partition bad at once. That is a
single fault, and draining every node would add another. So the drains of the last hour with our reason are counted in
the scheduler. Above a share of the partition, no further node is drained. A health check runs on all nodes in the same
second, when the count is still zero. So each node counts again after its drain, and resumes itself if the share is
exceeded.
"""

from __future__ import annotations

import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tenken.machines import pbs_json
from tenken.node import probe
from tenken.node.state import replaceable
from tenken.node.verdict import PREFIX

#: Runs a command and returns its output; None if it failed or did not end.
Runner = Callable[[Sequence[str]], "str | None"]
SHARE = 0.05
HOUR = 3600.0
#: Seconds that each command of a scheduler has.
COMMAND_S = 3.0
#: Absolute paths, since a prolog has no PATH.
FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/opt/pbs/bin", "/usr/sbin")
#: Nodes that a health check finds bad together drain at different moments within this many seconds.
STAGGER_S = 5.0


@dataclass(frozen=True)
class Partition:
    """The nodes of a partition, and those drained with our reason: (when, node), oldest first. `others`: nodes drained
    for other reasons, if known."""

    nodes: int
    ours: tuple[tuple[float, str], ...]
    others: frozenset[str] = frozenset()


def runner(configured: Mapping[str, Any]) -> Runner:
    """Runs a scheduler's commands, each within 3 s: those of the folder `commands`, or of FOLDERS. `conf`: its
    configuration, if not in the usual place. A command that anyone but root could replace is not run."""
    folders = [configured["commands"]] if "commands" in configured else FOLDERS
    environment = {
        "PATH": ":".join([*folders, "/usr/bin", "/bin"]),
        "LC_ALL": "C",
        "SLURM_TIME_FORMAT": "%Y-%m-%dT%H:%M:%S",
    }
    if "conf" in configured:
        environment[CONFIGURATION[configured["scheduler"]]] = configured["conf"]

    def run(command: Sequence[str]) -> str | None:
        def call(say: probe.Say) -> str | None:
            for folder in folders:
                if replaceable(Path(folder) / command[0]):
                    continue
                try:
                    done = subprocess.run(
                        [f"{folder}/{command[0]}", *command[1:]],
                        capture_output=True, text=True, errors="replace", check=False, env=environment,
                    )  # fmt: skip
                except FileNotFoundError:
                    continue
                return done.stdout if done.returncode == 0 else None
            return None

        return probe.run({command[0]: call}, COMMAND_S)[command[0]].value

    return run


def slurm(partition: str, run: Runner) -> Partition | None:
    """None if Slurm does not answer."""
    where = ["-p", partition] if partition else []
    names = run(["sinfo", "-h", "-N", "-o", "%N", *where])
    reasons = run(["sinfo", "-h", "-N", "-O", "NodeHost:256,Timestamp:32,Reason:256", *where])
    if not names or reasons is None:
        return None
    ours = set()
    for line in reasons.splitlines():
        node, when, reason = line[:256].strip(), line[256:288].strip(), line[288:].strip()
        if reason.startswith(PREFIX.strip()):
            ours.add((_time(when), node))
    return Partition(len(set(names.split())), tuple(sorted(ours)))


def pbs(partition: str, run: Runner) -> Partition | None:
    """The same for PBS: the vnodes of the queue, or all if there is no queue; the comment is the reason."""
    text = run(["pbsnodes", "-a", "-F", "json"])
    try:
        nodes, _ = pbs_json.read(text, "nodes")
    except ValueError:
        return None
    if not nodes:
        return None
    chosen = {name: one for name, one in nodes.items() if not partition or one.get("queue") in (None, partition)}
    out = {name: one for name, one in chosen.items() if "offline" in str(one.get("state", ""))}
    of_us = {name for name, one in out.items() if str(one.get("comment", "")).startswith(PREFIX.strip())}
    ours = {(float(out[name].get("last_state_change_time") or "inf"), name) for name in of_us}
    return Partition(len(chosen), tuple(sorted(ours)), frozenset(out) - of_us)


READERS = {"slurm": slurm, "pbs": pbs}
#: Environment variable that names a scheduler's configuration.
CONFIGURATION = {"slurm": "SLURM_CONF", "pbs": "PBS_CONF_FILE"}


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return float("inf")  # unknown: counted as of now


def allowed(nodes: int, share: float) -> int:
    """Maximum number of nodes drained with our reason within an hour; at least one."""
    return max(1, int(nodes * share))


def recent(partition: Partition, now: float) -> list[str]:
    """Nodes drained with our reason within the hour, oldest first."""
    return [node for when, node in partition.ours if now - when < HOUR]


def holds(partition: Partition | None, node: str, share: float, now: float) -> str | None:
    """Why this node must not be drained as well; None: it may be. It may not if its scheduler does not answer."""
    if partition is None:
        return "the scheduler does not answer: not drained"
    if node in partition.others:
        return "it is out for another reason, which is kept"
    out = [name for name in recent(partition, now) if name != node]
    if len(out) < allowed(partition.nodes, share):
        return None
    return f"{len(out)} of {partition.nodes} nodes drained in an hour: not drained"


def too_late(partition: Partition | None, node: str, share: float, now: float) -> bool:
    """Whether this node is one of those drained beyond the share, by time and name."""
    out = recent(partition, now) if partition else []
    return node in out and out.index(node) >= allowed(partition.nodes if partition else 0, share)


def drain(
    node: str, line: str, partition: str, share: float, run: Runner,
    sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time, stagger: float = STAGGER_S,
) -> str | None:  # fmt: skip
    """Drains a Slurm node with `line` as the reason; returns why it could not. A node that is already drained keeps its
    reason."""
    sleep(zlib.crc32(node.encode()) % 1000 / 1000 * stagger)
    if why := holds(slurm(partition, run), node, share, now()):
        return why
    shown = run(["scontrol", "show", "node", node, "--oneliner"])
    if shown is None:
        return "the scheduler does not answer: not drained"
    if "+DRAIN" in shown:
        return None
    if run(["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={line}"]) is None:
        return "scontrol refused to drain it"
    sleep(1.0)
    after = slurm(partition, run)
    if too_late(after, node, share, now()):
        run(["scontrol", "update", f"NodeName={node}", "State=UNDRAIN"])
        return f"{len(recent(after, now())) if after else 0} nodes drained at once: taken back"
    return None


def reason(scheduler: str, node: str, run: Runner) -> str:
    """The scheduler's reason for a drained node; empty if it has none."""
    if scheduler == "slurm":
        found = (run(["sinfo", "-h", "-N", "-n", node, "-O", "Reason:256"]) or "").partition("\n")[0].strip()
        return "" if found == "none" else found  # what sinfo prints of a node without a reason
    try:
        return str(pbs_json.read(run(["pbsnodes", "-F", "json", node]), "nodes")[0][node].get("comment", ""))
    except (ValueError, KeyError):
        return ""


def resume(scheduler: str, node: str) -> str:
    """The command that resumes a node."""
    if scheduler == "slurm":
        return f"scontrol update NodeName={node} State=RESUME"
    return f"pbsnodes -C '' -r {node}" if scheduler == "pbs" else "the scheduler's own command"
