"""Compares a system file with the local node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tenken.machines.model import Node

#: Fraction by which the visible memory may be below the system file's: firmware and the kernel reserve some.
_MEMORY_KEPT = 0.08


def differences(said: Node, seen: Node) -> list[str]:
    """Differences between the file and this node, where both are known."""
    lines = [
        f"{what}: the file states {ours}, this machine has {theirs}"
        for what, ours, theirs in (
            ("architecture", said.architecture, seen.architecture),
            ("sockets", said.sockets, seen.sockets),
            ("cores", said.cores, seen.cores),
            ("threads per core", said.threads_per_core, seen.threads_per_core),
            ("NUMA nodes", said.numa_nodes, seen.numa_nodes),
            ("GPUs", said.gpu_count, seen.gpu_count),
        )
        if ours is not None and theirs is not None and ours != theirs
    ]
    if said.host is not None and seen.cpu is not None and not said.host.fits(seen.cpu, float("inf"), ()):
        lines.append(f"processor: the file states {said.host.name}, this machine has {seen.cpu}")
    strange = [name for name in seen.gpu_names if said.gpu is not None and not said.gpu.matches(name)]
    for name, count in Counter(strange).items():
        lines.append(f"GPUs: the file states {said.gpu.name if said.gpu else ''}, this machine has {count} x {name}")
    told = said.gpu.compute_capability if said.gpu is not None and not strange else None
    if told and seen.compute_capability not in (None, told):
        lines.append(f"compute capability: the file states {told}, this machine has {seen.compute_capability}")
    if said.gpu is not None and not strange and seen.gpu_memory_bytes:
        ratio = seen.gpu_memory_bytes / said.gpu.memory_bytes
        if not 0.85 <= ratio <= 1.02:
            lines.append(
                f"memory of a GPU: the file states {said.gpu.memory_gib:.4g} GiB, "
                f"this machine has {seen.gpu_memory_bytes / 2**30:.4g} GiB"
            )
    if said.memory_bytes and seen.memory_bytes:
        ratio = seen.memory_bytes / said.memory_bytes
        if not 1 - _MEMORY_KEPT <= ratio <= 1.01:
            lines.append(
                f"memory: the file states {said.memory_bytes / 2**30:.4g} GiB, "
                f"this machine has {seen.memory_bytes / 2**30:.4g} GiB"
            )
    links, found = said.pair_links, seen.pair_links
    has = str(found.count) if found and len(set(seen.pair_cells.values())) < 2 else _links(seen.pair_cells)
    if links and has and has != str(links.count):
        lines.append(f"links between two GPUs: the file states {links.count}, this machine has {has}")
    return lines


def _links(cells: Mapping[str, str]) -> str:
    """For pairs that have no link, or links that differ: `none`, or the most common value and the GPUs with another
    one."""
    if not cells:
        return ""
    counts = Counter(cells.values())
    if not any(re.fullmatch(r"NV\d+", cell) for cell in counts):
        return f"none ({', '.join(sorted(counts))})"
    usual = max(counts, key=lambda cell: (counts[cell], cell))
    pairs = sorted(
        (tuple(map(int, pair.split("-"))) for pair, cell in cells.items() if cell != usual),
        key=lambda pair: (pair[0], pair[1]),
    )
    bad = {pair for pair in pairs if pair[0] < pair[1] or (pair[1], pair[0]) not in pairs}
    odd = []
    while bad:  # the smallest set of GPUs that explains all pairs
        most = Counter(gpu for pair in bad for gpu in pair).most_common(1)[0][0]
        odd.append(most)
        bad = {pair for pair in bad if most not in pair}
    others = ", ".join(sorted(set(counts) - {usual}))
    return f"{usual} in most pairs, {others} in those of GPU {', '.join(map(str, sorted(odd)))}"
