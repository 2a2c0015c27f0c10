"""Which leaf switch a node is connected to: from a file of the site, Slurm's topology, or ibnetdiscover.

a file         `node leaf` in each line, or a CSV with the columns node and leaf
Slurm          what `scontrol show topology` prints; of a tree, the switches of level 0, otherwise the blocks
ibnetdiscover  what it prints as a list of switches with their ports (root's privilege, or a file that root left)
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tenken.errors import TenkenError

#: Used in place of a file name in a system file: the command is run.
SLURM, IBNETDISCOVER = "slurm", "ibnetdiscover"
_COMMANDS = {SLURM: ["scontrol", "show", "topology"], IBNETDISCOVER: ["ibnetdiscover"]}
_TIMEOUT_S = 120
Expand = Callable[[str], Sequence[str]]


class TopologyError(TenkenError):
    """A topology that cannot be read: what, where."""


def leaves(source: str, folder: Path, expand: Expand) -> dict[str, str]:
    """Leaf by node. `source`: the system file's entry, a file relative to `folder` or one of the two commands;
    `expand`: expands node lists such as n[1-4]. Raises TopologyError."""
    if source in _COMMANDS:
        text, what = _asked(_COMMANDS[source]), " ".join(_COMMANDS[source])
    else:
        what = str(folder / source)
        try:
            text = Path(what).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TopologyError(f"topology {what}: {error.strerror}") from None
    found = parse(text, expand)
    if not found:
        raise TopologyError(
            f"topology {what}: names no leaf of any node; allowed: lines `node leaf`, the output of `scontrol show "
            "topology` or of `ibnetdiscover`"
        )
    return found


def parse(text: str, expand: Expand) -> dict[str, str]:
    """Leaf by node from any of the three formats; empty for anything else."""
    if re.search(r"^\s*(SwitchName|BlockName)=", text, re.M | re.I):
        return _slurm(text, expand)
    if re.search(r'^(Switch|Ca)\s+\d+\s+"', text, re.M):
        return _ibnetdiscover(text)
    return _table(text)


def _asked(words: list[str]) -> str:
    if shutil.which(words[0]) is None:
        raise TopologyError(f"topology: no program {words[0]} here")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TopologyError(f"topology: {' '.join(words)}: {error}") from None
    if done.returncode:
        raise TopologyError(f"topology: {' '.join(words)}: {(done.stderr or done.stdout).strip()[:200]}")
    return done.stdout


def _slurm(text: str, expand: Expand) -> dict[str, str]:
    found: dict[str, str] = {}
    # topology.conf has the same words, in any case, with comments and continued lines
    for line in text.replace("\\\n", " ").splitlines():
        pairs = {key.lower(): value for key, value in re.findall(r"(\w+)=(\S*)", line.partition("#")[0])}
        name = pairs.get("switchname") or pairs.get("blockname")
        if name is None or pairs.get("level", "0") != "0" or not pairs.get("nodes"):
            continue
        for node in expand(pairs["nodes"]):
            found.setdefault(node, name)
    return found


def _ibnetdiscover(text: str) -> dict[str, str]:
    """Ports of switches that lead to channel adapters; a node on several leaves (rails) belongs to the first one."""
    found: dict[str, str] = {}
    heads = re.findall(r'^Switch\s+\d+\s+"S-([^"]*)"\s*#\s*"([^"]*)"', text, re.M)
    # switches without a name have their chip's ("Quantum Mellanox Technologies"), the boards of one chassis its name
    many = Counter(_name(told) for _, told in dict(heads).items())
    boards = Counter(told for _, told in dict(heads).items())
    switch = ""
    for line in text.splitlines():
        head = re.match(r'(Switch|Ca|Rt)\s+\d+\s+"(?:\w-)?([^"]*)"\s*#\s*"([^"]*)"', line)
        if head:
            told = head[3]
            alone = _name(told) if many[_name(told)] == 1 else told if boards[told] == 1 else f"{_name(told)} {head[2]}"
            switch = alone if head[1] == "Switch" else ""
        port = re.match(r'\[\d+\]\s+"H-[^"]*"\[\d+\][^#]*#\s*"([^"]*)"', line)
        # "node001 mlx5_0"; an aggregation node of the switch itself is not a node
        if port and switch and not port[1].startswith("Mellanox Technologies Aggregation Node"):
            found.setdefault(port[1].split()[0], switch)
    return found


def _name(told: str) -> str:
    """ "MF0;leaf01:MQM9700/U1": the name is between the first two marks."""
    return re.split(r"[;:]", told)[1 if ";" in told else 0].strip()


def _table(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    place: tuple[int, int] | None = None
    for line in text.splitlines():
        words = [word for word in re.split(r"[\s,]+", line.partition("#")[0].strip()) if word]
        if {"node", "leaf"} <= set(words) and not found:
            place = (words.index("node"), words.index("leaf"))
        elif words and (len(words) == 2 if place is None else len(words) > max(place)):
            found[words[place[0] if place else 0]] = words[place[1] if place else 1]
        elif words:
            return {}
    return found
