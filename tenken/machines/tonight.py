"""Chooses the nodes that a night measures. In a large partition these are the ones measured longest ago that take jobs
now.

choose()     -> nodes of tonight, from the scheduler's list and from what earlier nights noted
of_partition -> what is handed to the back ends by $TENKEN_TONIGHT: `gpu=n17+n18,cpu=c3`
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from tenken.machines import cluster
from tenken.machines.local import Runner, run_command
from tenken.machines.model import Partition

VARIABLE = "TENKEN_TONIGHT"
#: States of nodes that take a job now or after their current one, as the beginning of sinfo's words.
_TAKES = ("idle", "mix", "alloc", "comp", "plan")
_FREE = {"free", "job-busy", "job-exclusive", "busy"}


def nodes_of(partition: Partition, run: Runner = run_command) -> list[str]:
    """Nodes of a partition that take jobs, by Slurm or PBS; empty if not reported."""
    queue = cluster.queue_of(partition.access, partition.scheduler)
    if partition.scheduler in ("slurm", "squeue"):
        where = ["-p", queue] if queue else []
        table = run(["sinfo", "-h", "-N", *where, "-o", "%N %T"]) or ""
        rows = (line.split() for line in table.splitlines())
        # a job powers up a node that is powered down (~), as most of a cloud's are at night; other suffixes mark one
        # that does not answer, reboots, is about to be powered down or is kept for maintenance
        found = [r[0] for r in rows if len(r) == 2 and r[1].startswith(_TAKES) and not re.search(r"[*!%$@^]", r[1])]
        return list(dict.fromkeys(found))
    if partition.scheduler == "pbs":
        hosts = cluster.pbs_hosts(cluster.pbs_nodes(run))
        given = cluster.pbs_labels(queue, run) if queue else ()
        return [
            host
            for host, vnodes in hosts.items()
            if any(queue is None or cluster.serves(node, given) for node in vnodes.values())
            and all({*re.split(r"[,\s]+", str(node.get("state", "")))} <= _FREE for node in vnodes.values())
        ]
    return []


def choose(nodes: Sequence[str], measured: Mapping[str, str], count: int = 1) -> list[str]:
    """The `count` nodes that were measured longest ago. `measured`: the last night of each node, ISO 8601."""
    order = sorted(
        nodes, key=lambda name: (measured.get(name, ""), [int(p) if p.isdigit() else p for p in _parts(name)])
    )
    return order[:count]


def _parts(name: str) -> list[str]:
    return re.split(r"(\d+)", name)


def kept(text: str, partition: str) -> dict[str, str]:
    """The last night of each node of a partition, from lines `NIGHT PARTITION NODE`; others are left out."""
    rows = (line.split() for line in text.splitlines())
    return {row[2]: row[0] for row in rows if len(row) == 3 and row[1] == partition}


def of_partition(name: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Tonight's nodes of a partition; empty: any."""
    for part in environment.get(VARIABLE, "").split(","):
        partition, _, nodes = part.partition("=")
        if partition == name and nodes:
            return nodes.split("+")
    return []
