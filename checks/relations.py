"""Links held against each other: what a document of p2p or mpi_p2p says without any reference.

All functions are pure; each returns findings that name the node, the pair and what it was held against.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import median
from typing import Any

from tenken.document import Document, MetricValue
from tenken.verdict import FAIL, INVALID, Finding

#: How far the two directions of a pair, or the pairs of one link class, may lie apart, as a fraction of the
#: better. NVLink copies repeat to a thousandth; what goes through the host shares it with whatever runs there.
APART: Mapping[str, float] = {
    "peer": 0.05,
    "memcpy_peer": 0.05,
    "read": 0.10,
    "write": 0.10,
    "both_ways": 0.05,
    "latency": 0.25,
    "driver_staged": 0.20,
    "host_staged": 0.20,
}

#: A peer copy moves at least so much of what plain cudaMemcpyPeer does in the same job.
OF_PLAIN_COPY = 0.98

#: A copy that goes straight is faster than one through the host by more than this.
BEYOND_STAGED = 1.2


def by_pair(document: Document, name: str) -> dict[tuple[int, int], MetricValue]:
    """A metric of p2p that comes once for each pair."""
    found = (m for m in document.metrics if m.name == name and m.kind == "pair" and not m.at)
    return {(m.subject["from"], m.subject["to"]): m for m in found}


def _worse(one: MetricValue, other: MetricValue) -> tuple[MetricValue, MetricValue]:
    """The worse and the better of two."""
    swapped = (one.value < other.value) == (one.direction == "lower")
    return (other, one) if swapped else (one, other)


def _distance(worse: MetricValue, better: float) -> float:
    """How far a value lies from a better one, as a fraction of the larger of the two."""
    return abs(worse.value - better) / max(worse.value, better)


def _pair(metric: MetricValue) -> str:
    return f"GPU {metric.subject['from']}->GPU {metric.subject['to']}"


def _finding(document: Document, metric: MetricValue, text: str, bound: float) -> Finding:
    where = f"{document.node} {metric.place}"
    miss = abs(metric.value - bound) / bound
    return Finding(FAIL, f"{where}: {text}", metric.id, where, metric.value, metric.unit, bound, miss)


def asymmetric(document: Document) -> list[Finding]:
    """Pairs whose two directions lie apart: the slower one is named."""
    found = []
    for name, apart in APART.items():
        pairs = by_pair(document, name)
        for (start, end), forth in pairs.items():
            back = pairs.get((end, start))
            if start > end or back is None:
                continue
            worse, better = _worse(forth, back)
            distance = _distance(worse, better.value)
            if distance > apart:
                text = (
                    f"{name} {_pair(worse)} {worse.value:.4g} {worse.unit}, the other way {better.value:.4g}: "
                    f"{100 * distance:.1f} % apart; at most {100 * apart:.0f} %"
                )
                found.append(_finding(document, worse, text, better.value))
    return found


def outliers(document: Document) -> list[Finding]:
    """Pairs that fall behind the others of their link class (by the document's `link.` paths)."""
    path: Mapping[str, Any] = document.raw["path"]
    found = []
    for name, apart in APART.items():
        classes: dict[str, list[MetricValue]] = {}
        for (start, end), metric in by_pair(document, name).items():
            kind = str(path.get(f"link.gpu{start}-gpu{end}", "not known"))
            # links that are down make a class of their own: counts are held against the data sheet elsewhere
            classes.setdefault(re.sub(r"^\d+ x ", "", kind), []).append(metric)
        for kind, members in classes.items():
            if len(members) < 3:
                continue
            usual = median(m.value for m in members)
            for metric in members:
                behind = metric.value < usual if metric.direction == "higher" else metric.value > usual
                distance = _distance(metric, usual)
                if behind and distance > apart:
                    text = (
                        f"{name} {_pair(metric)} {metric.value:.4g} {metric.unit} is an outlier among "
                        f"{len(members)} pairs joined by {kind}, whose median is {usual:.4g}: "
                        f"{100 * distance:.1f} % apart; at most {100 * apart:.0f} %"
                    )
                    found.append(_finding(document, metric, text, usual))
    return found


def slow_copies(document: Document, peer_promised: bool) -> list[Finding]:
    """Peer copies that plain cudaMemcpyPeer beats, and such as go through the host although peer is promised."""
    found = []
    plain, staged = by_pair(document, "memcpy_peer"), by_pair(document, "driver_staged")
    for ends, metric in by_pair(document, "peer").items():
        if ends in plain and metric.value < OF_PLAIN_COPY * plain[ends].value:
            bound = OF_PLAIN_COPY * plain[ends].value
            text = (
                f"peer {_pair(metric)} {metric.value:.4g} GB/s is below {OF_PLAIN_COPY} of cudaMemcpyPeer in the "
                f"same job, {plain[ends].value:.4g} GB/s"
            )
            found.append(_finding(document, metric, text, bound))
        if peer_promised and ends in staged and metric.value < BEYOND_STAGED * staged[ends].value:
            bound = BEYOND_STAGED * staged[ends].value
            text = (
                f"peer {_pair(metric)} {metric.value:.4g} GB/s, no more than the driver's staging through the host "
                f"({staged[ends].value:.4g} GB/s): the system file promises 'peer'"
            )
            found.append(_finding(document, metric, text, bound))
    return found


def inactive_links(document: Document, links_of_pair: int | None, peer_promised: bool) -> list[Finding]:
    """Pairs joined by fewer links than the system file has, naming the links; pairs without promised access."""
    path: Mapping[str, Any] = document.raw["path"]
    found = []
    for key, text in path.items():
        match = re.fullmatch(r"(link|peer_access)\.gpu(\d+)-gpu(\d+)", key)
        if match is None:
            continue
        start, end = match[2], match[3]
        where = f"{document.node} GPU {start}->{end}"
        if match[1] == "peer_access":
            if peer_promised and text is False:
                message = f"{where}: no peer access, but the system file promises 'peer'"
                found.append(Finding(FAIL, message, subject=where))
            continue
        count = re.match(r"(\d+) x ", str(text))
        active = int(count[1]) if count else 0
        # a driver that does not tell its links says "not known": then nothing is held against it
        if links_of_pair is None or text == "not known" or active >= links_of_pair:
            continue
        down = [f"link {path[k]} of GPU {g}" for g in (start, end) if (k := f"inactive_links.gpu{g}") in path]
        named = f"; inactive: {'; '.join(down)}" if down else ""
        message = f"{where}: {text}, the system file has {links_of_pair} links{named}"
        found.append(
            Finding(FAIL, message, None, where, active, "1", links_of_pair, (links_of_pair - active) / links_of_pair)
        )
    return found


def of_ranks(document: Document, device_mpi_promised: bool, far_asked: bool) -> list[Finding]:
    """What the path of mpi_p2p says: bytes of GPUs that went through the host, ranks on the far side of a node."""
    path: Mapping[str, Any] = document.raw["path"]
    found = []
    if path.get("gpu_path") == "not GPUDirect" and device_mpi_promised:
        share = float(path.get("of_peer_copy", 0.0))
        message = (
            f"{document.node}: not GPUDirect: device buffers reach {100 * share:.0f} % of a peer copy in the same job, "
            f"at least 60 % are wanted; the system file promises 'device_mpi'"
        )
        found.append(Finding(FAIL, message, None, document.node, share, "1", 0.6, (0.6 - share) / 0.6))
    if not far_asked:
        for key, text in path.items():
            if key.startswith("far.rank"):
                message = f"{document.node}: rank {key.removeprefix('far.rank')} is on the far side: {text}"
                found.append(Finding(INVALID, message, subject=document.node))
    return found
