"""The narrowest part that all series of a finding share; it names the finding and is acknowledged.

A link, a GPU, a program on a node, a node, a leaf (switch, rack), a measurement, a benchmark, a partition, everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenken.history.nights import History, Series

#: At least this fraction of a leaf's nodes, or of a partition's measurements, must have moved for it to be named.
COMMON = 0.5
#: Names of benchmarks listed in a text.
NAMED = 3


@dataclass(frozen=True)
class Part:
    """`what` is the text, `keys` the corresponding keys of acknowledged.yaml."""

    label: str
    what: str
    keys: Mapping[str, str] = field(default_factory=dict)


def nodes_of(history: History, rows: Sequence[int]) -> set[str]:
    """Nodes of series; a series without a node counts as a separate place."""
    return {history.series[row].node or history.series[row].where for row in rows}


def shared(history: History, rows: Sequence[int]) -> Part:
    """The narrowest part that contains all of these series."""
    series = [history.series[row] for row in rows]
    nodes = nodes_of(history, rows)
    if len(nodes) == 1:
        return _on_node(series)
    partitions = sorted({s.partition for s in series})
    known = [s for s in history.series if s.partition in partitions]
    for factor, groups in history.groups.items():
        names = {groups.get(node) for node in nodes}
        all_of = {s.node for s in known if groups.get(s.node) in names}
        if len(names) == 1 and None not in names and all_of != {s.node for s in known}:
            if len(nodes) >= COMMON * len(all_of):
                (name,) = names
                leaf = f"{factor} {name}"
                return Part("leaf", f"{leaf} ({len(nodes)} of {len(all_of)} nodes)", {"leaf": leaf})
            break
    measures, checks = {s.measure for s in series}, sorted({s.check for s in series})
    every = len({s.node for s in known if s.measure in measures})
    part = "" if len(nodes) == every else f" ({len(nodes)} of {every} nodes)"
    where = f"on partition{'s' * (len(partitions) > 1)} {', '.join(partitions)}{part}"
    if len(measures) == 1:
        return Part("measure", f"{series[0].measure} {where}")
    if len({s.program for s in series}) == 1 and len(checks) > 1:
        return Part("program", f"program {series[0].program} {where}", {"program": series[0].program})
    if len(measures) > COMMON * len({s.measure for s in known}) and len(checks) > 1:
        whole = len(partitions) > 1 and len(partitions) == len({s.partition for s in history.series})
        return Part("fleet", f"all of {history.system}") if whole else Part("partition", where.removeprefix("on "))
    more = f" and {len(checks) - NAMED} more" if len(checks) > NAMED else ""
    return Part("check", f"{', '.join(checks[:NAMED])}{more} {where}")


def _on_node(series: Sequence[Series]) -> Part:
    first = series[0]
    ends = [{gpu for gpu in (s.gpu, s.peer) if gpu} for s in series]
    common = set.intersection(*ends)
    node = {"node": first.node} if first.node else {}
    if len(common) == 2:
        one, other = sorted(common)
        place = first.place if len({s.place for s in series}) == 1 else f"GPU {one} - GPU {other}"
        return Part("link", f"link {place} of node {first.node}", {**node, "gpu": one, "peer": other})
    if common:
        (gpu,) = common
        place = next((s.place for s in series if s.gpu == gpu and not s.peer), f"GPU {gpu}")
        uuid = f" ({gpu})" if gpu.startswith("GPU-") else ""
        return Part("gpu", f"{place} of node {first.node}{uuid}", {**node, "gpu": gpu})
    label = "program" if len({s.program for s in series}) == 1 else "node"
    return Part(label, f"node {first.node}" if first.node else first.measure, node)
