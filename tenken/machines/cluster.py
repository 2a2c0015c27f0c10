"""A cluster as reported by its scheduler: partitions (queues), number and kind of nodes, GPUs, time limits.

Queried with commands available to every user of Slurm (`sinfo`) and PBS (`pbsnodes`, `qstat`). Nothing is submitted.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tenken.machines import pbs_json
from tenken.machines.local import Runner, Which, run_command
from tenken.machines.model import Partition, System

_SINFO_FORMAT = "%R|%D|%X|%Y|%Z|%m|%G|%l|%a|%T"


#: The command that reports each scheduler's cluster.
ASKED = {"slurm": "sinfo", "pbs": "pbsnodes"}
#: What PBS reports of its queues.
PBS_QUEUES = ["qstat", "-Q", "-f", "-F", "json"]


@dataclass(frozen=True)
class Queue:
    """A partition of Slurm or a queue of PBS: nodes of one kind."""

    name: str
    nodes: int
    sockets: int | None = None
    cores: int | None = None
    """Physical cores of a node if the scheduler knows its threads; else the number that it offers."""
    threads_per_core: int | None = None
    memory_mib: int | None = None
    gpus: int = 0
    """Whole GPUs of a node."""
    gpu_kind: str | None = None
    """The site's name for it: `h100`, `a100-sxm4-80gb`."""
    instances: int = 0
    """MIG instances of a node, which do not count as GPUs."""
    gpu_option: str | None = None
    """PBS: the resource that requests GPUs."""
    time_limit: str | None = None
    """HH:MM:SS; None: none, or not reported."""
    usable: bool = True


def slurm_queues(run: Runner, unread: list[str] | None = None) -> list[Queue]:
    """Partitions of Slurm with nodes, one entry per kind of node; empty if sinfo does not respond. Lines that cannot be
    read are appended to `unread`.
    """
    text = run(["sinfo", "--noheader", "--exact", f"--format={_SINFO_FORMAT}"]) or ""
    found: dict[tuple[Any, ...], int] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != len(_SINFO_FORMAT.split("|")) or _int(cells[1]) is None:
            if unread is not None and line.strip():
                unread.append(f"sinfo: {line.strip()[:80]!r} cannot be read")
            continue
        name, nodes, sockets, cores, threads, memory, gres, limit, up, _ = cells
        kind, gpus = slurm_gpus(gres)
        # 1 MiB: a node whose RealMemory is not configured (slurm.conf(5))
        mib = None if memory == "1" else _int(memory)
        key = (
            name, _int(sockets), _int(cores), _int(threads), mib, kind, gpus, slurm_instances(gres),
            _slurm_time(limit), up,
        )  # fmt: skip
        found[key] = found.get(key, 0) + (_int(nodes) or 0)
    return [
        Queue(
            name,
            nodes,
            sockets,
            (sockets or 1) * cores if cores else None,
            threads,
            memory,
            gpus,
            kind,
            instances=instances,
            time_limit=limit,
            usable=up == "up",
        )
        for (name, sockets, cores, threads, memory, kind, gpus, instances, limit, up), nodes in found.items()
        if nodes
    ]


#: One GRES by slurm.conf(5) and sinfo(1): name, type, `no_consume`, number with K M G T P, sockets or indices.
_GRES = re.compile(
    r"(?:gres/)?(?P<name>[^:=,()\s]+)(?::(?P<type>(?!no_consume\b)(?![0-9]+[KMGTP]?(?:[,(]|$))[^:=,()]+))?"
    r"(?::no_consume)?(?:[:=](?P<count>[0-9]{1,9})(?P<unit>[KMGTP]?))?(?:\([^)]*\))?(?:,|$)",
    re.I,
)
#: A MIG instance in the type of a GRES: `a100_1g.5gb`, `nvidia_h100_80gb_hbm3_4g.40gb`, `1g.10gb+me`, `mig-3g.40gb`.
_MIG = re.compile(r"(?:^|[^0-9a-z])(?:\d+c\.)?\d+g[._-]?\d+gb(?![a-z])|(?:^|[^a-z])mig(?:[^a-z]|$)", re.I)


def slurm_gpus(gres: str) -> tuple[str | None, int]:
    """Whole GPUs: `gpu:h100:4(S:0-1),nvme:1` -> ("h100", 4); (None, 0) without a GPU. The kind is None if it is not
    given or there are several.
    """
    kinds = {kind: count for kind, count in _gpus_of(gres).items() if not _MIG.search(kind or "")}
    if not kinds:
        return None, 0
    return next(iter(kinds)) if len(kinds) == 1 else None, sum(kinds.values())


def slurm_instances(gres: str) -> int:
    """MIG instances: `gpu:h100:2,gpu:h100_4g.40gb:2` -> 2. They are not counted as GPUs, since programs see at most
    one."""
    return sum(count for kind, count in _gpus_of(gres).items() if _MIG.search(kind or ""))


def _gpus_of(gres: str) -> dict[str | None, int]:
    """GPUs and instances by kind."""
    kinds: dict[str | None, int] = {}
    # TRES list the total besides the number of each kind: gres/gpu=4,gres/gpu:a100=4
    if re.search(r"gres/gpu:[^=,]+=", gres, re.I):
        gres = re.sub(r"gres/gpu=\d+(,|$)", "", gres, flags=re.I)
    for one in _GRES.finditer(gres):
        if one["name"].lower() == "gpu":
            scale = 1024 ** " KMGTP".index((one["unit"] or " ").upper())
            kinds[one["type"]] = kinds.get(one["type"], 0) + int(one["count"] or 1) * scale
    return kinds


def _slurm_time(text: str) -> str | None:
    """`1-00:00:00` -> `24:00:00`; `30:00` -> `0:30:00`; None without a limit."""
    match = re.fullmatch(r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})", text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return f"{days * 24 + hours:02d}:{minutes:02d}:{seconds:02d}"


def pbs_queues(run: Runner, unread: list[str] | None = None) -> list[Queue]:
    """Queues of PBS that run jobs, one entry per kind of node that serves one; empty if it does not respond. Unreadable
    parts of its answers are appended to `unread`.
    """
    unread = [] if unread is None else unread
    hosts = pbs_hosts(pbs_nodes(run, unread))
    queues = _pbs(run(PBS_QUEUES), "Queue", unread)
    found: dict[Queue, int] = {}
    for name, queue in queues.items():
        if not _takes_jobs(name, queues):
            continue
        given = labels(name, queues)
        limit = str(_dict(queue.get("resources_max")).get("walltime", "")) or None
        usable = "False" not in (str(queue.get("enabled")), str(queue.get("started")))
        for vnodes in hosts.values():
            parts = [node for node in vnodes.values() if serves(node, given)]
            serving = [_dict(node.get("resources_available")) for node in parts]
            if not serving:
                continue
            option = next((key for key in ("ngpus", "gpus", "gpu") if _sum(serving, key)), None)
            cores = (
                _int(str(has.get("ncpus", node.get("pcpus", "")))) for has, node in zip(serving, parts, strict=True)
            )
            one = Queue(
                name,
                0,
                None,
                _total(cores),
                None,
                _total(_pbs_mib(str(has.get("mem", ""))) for has in serving),
                _sum(serving, option) if option else 0,
                gpu_option=option,
                time_limit=limit if limit and re.fullmatch(r"\d+:\d\d:\d\d", limit) else None,
                usable=usable,
            )
            found[one] = found.get(one, 0) + 1
    return [replace(queue, nodes=nodes) for queue, nodes in found.items()]


def pbs_nodes(run: Runner, unread: list[str] | None = None) -> dict[str, Mapping[str, Any]]:
    """Vnodes by name as pbsnodes reports them; empty without an answer. Unreadable parts are appended to `unread`."""
    return _pbs(run(["pbsnodes", "-a", "-F", "json"]), "nodes", [] if unread is None else unread)


def pbs_labels(queue: str, run: Runner, unread: list[str] | None = None) -> frozenset[str]:
    """The names by which nodes are given to a queue; only its own if PBS does not answer."""
    return labels(queue, _pbs(run(PBS_QUEUES), "Queue", [] if unread is None else unread))


def pbs_hosts(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Vnodes by host, which is where a job runs: `uv[0]`, `uv[1]` are one node."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, node in nodes.items():
        host = _dict(node.get("resources_available")).get("host") or re.sub(r"\[\d+\]$", "", name)
        found.setdefault(str(host), {})[name] = node
    return found


def _sum(parts: Iterable[Mapping[str, Any]], key: str) -> int:
    return sum(_int(str(part.get(key, ""))) or 0 for part in parts)


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def labels(queue: str, queues: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The names by which nodes are given to a queue: its own, the one that its chunks request
    (`default_chunk.Qlist`), and those of the queues to which it routes."""
    found: set[str] = set()
    rest = [queue]
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            told = queues.get(name, {})
            rest += _leads_to(told)
            found |= {*_names(_dict(told.get("default_chunk")).get("Qlist"))}
    return frozenset(found)


def _takes_jobs(name: str, queues: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether jobs are submitted to a queue; a queue that only routes counts where it is the only way to another."""
    only = {one for one, told in queues.items() if str(told.get("from_route_only")) == "True"}
    if queues[name].get("queue_type", "Execution") == "Execution":
        return name not in only
    return not only.isdisjoint(_leads_to(queues[name]))


def _leads_to(queue: Mapping[str, Any]) -> list[str]:
    return [name.split("@")[0] for name in _names(queue.get("route_destinations"))]


def serves(node: Mapping[str, Any], given: Collection[str]) -> bool:
    """Whether jobs of a queue with these names may run on a node: by its `queue`, or by a list in a resource
    (Qlist)."""
    if node.get("queue"):
        return node["queue"] in given
    listed = _dict(node.get("resources_available")).get("Qlist")
    return listed is None or not set(_names(listed)).isdisjoint(given)


def _names(listed: Any) -> list[str]:
    return [name for name in re.split(r"[,\s]+", str(listed or "")) if name]


def _pbs_mib(text: str) -> int | None:
    """A size of PBS in MiB: a number, k m g t p, bytes or words of eight (pbs_resources(7))."""
    match = re.fullmatch(r"([0-9]{1,18})([kmgtp]?)([bw]?)", text.lower())
    if match is None:
        return None
    return int(match[1]) * 1024 ** " kmgtp".index(match[2] or " ") * (8 if match[3] == "w" else 1) // 2**20


def _pbs(text: str | None, part: str, unread: list[str]) -> dict[str, Mapping[str, Any]]:
    try:
        found, bad = pbs_json.read(text, part)
    except ValueError as error:
        unread.append(f"{part} of PBS: {error}")
        return {}
    unread += [f"{name}, one of the {part} of PBS, cannot be read" for name in bad]
    return found


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _int(text: str) -> int | None:
    """A number at the beginning; Slurm writes 2048 as 2K where it may."""
    match = re.match(r"([0-9]{1,18})(?![0-9])([KM]?)", text)
    return int(match[1]) * 1024 ** " KM".index(match[2] or " ") if match else None


def listed_queues(scheduler: str, run: Runner = run_command, unread: list[str] | None = None) -> list[Queue]:
    """Partitions or queues that run jobs, of Slurm or PBS; empty if it does not respond."""
    return [queue for queue in {"slurm": slurm_queues, "pbs": pbs_queues}[scheduler](run, unread) if queue.usable]


def answers(scheduler: str, which: Which = shutil.which) -> bool:
    """Whether the scheduler reports its cluster from this machine."""
    return which(ASKED[scheduler]) is not None and bool(listed_queues(scheduler))


def queue_of(options: Iterable[str], scheduler: str) -> str | None:
    """The partition or queue that submit options name; the last one counts, as it does for sbatch and qsub. PBS takes
    `queue@server`."""
    pattern = r"--partition[= ](\S+)|-p\s*(\S+)" if scheduler in ("slurm", "squeue") else r"-q\s*(\S+)"
    found = [next(filter(None, match.groups())) for option in options for match in re.finditer(pattern, option)]
    return (found[-1].split("@")[0] if scheduler == "pbs" else found[-1]) or None if found else None


def node_count(partition: Partition, run: Runner = run_command, which: Which = shutil.which) -> int | None:
    """Number of nodes of a partition, with its GPUs per node, that the scheduler has for jobs; None: not reported."""
    ask = {"slurm": ("sinfo", slurm_queues), "squeue": ("sinfo", slurm_queues), "pbs": ("pbsnodes", pbs_queues)}
    command, queues = ask.get(partition.scheduler, (None, None))
    if command is None or queues is None or which(command) is None:
        return None
    wanted = queue_of(partition.access, partition.scheduler)
    fitting = [
        queue
        for queue in queues(run)
        if (wanted is None or queue.name in wanted.split(",")) and queue.gpus >= (partition.node.gpu_count or 0)
    ]
    # if the options name no queue the default one is used, and the largest is the best guess at it
    return max((queue.nodes for queue in fitting), default=None)


def with_node_counts(system: System, run: Runner = run_command, which: Which = shutil.which) -> System:
    """The system, with node counts that its file omits taken from the scheduler where it reports them."""
    expanded = system.expand(os.environ, strict=False)
    partitions = dict(system.partitions)
    for name, partition in expanded.partitions.items():
        if partition.node_count_unknown and partition.usable and not partition.remote:
            count = _asked(partition.scheduler, partition.access, partition.node.gpu_count or 0, run, which)
            partitions[name] = replace(partitions[name], node=replace(partitions[name].node, count=count))
    return replace(system, partitions=partitions)


@lru_cache(maxsize=64)
def _asked(scheduler: str, access: tuple[str, ...], gpus: int, run: Runner, which: Which) -> int | None:
    """One query per process: reframe loads its systems many times."""
    from tenken.machines.model import Node

    node = Node(architecture="x86_64", gpu_count=gpus)
    return node_count(Partition("asked", "", scheduler, None, "local", (), node, access=access), run, which)
