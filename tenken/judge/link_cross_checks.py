"""Links compared with each other: criteria for p2p and mpi_p2p without a reference.

All functions are pure; each returns findings that name the node, the pair and the basis of comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median

from tenken.judge.criteria import miss
from tenken.model.judgement import Finding
from tenken.model.result import MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID

#: Maximum difference between the two directions of a pair, or the pairs of one link class, as a fraction of the
#: better. NVLink copies are reproducible to a thousandth; copies through the host share it with other activity.
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

#: Minimum rate of a peer copy relative to plain cudaMemcpyPeer in the same job.
OF_PLAIN_COPY = 0.98

#: Maximum of both directions of the host link at once relative to the sum of the best copies in one direction at a
#: time: medians at most 0.92 in 36 results of H200 and H100.
BOTH_OF_SUM = 1.05

#: Minimum gain of a direct copy over one through the host.
BEYOND_STAGED = 1.2


def faster_together(result: Result) -> list[Finding]:
    """GPUs that report more in both directions at once than in one and the other at a time: not measured so."""
    found = []
    for metric in result.metrics:
        if metric.name != "both_pinned" or metric.at:
            continue
        alone = [
            m.best
            for m in result.metrics
            if m.name in ("htod_pinned", "dtoh_pinned") and m.subject == metric.subject and not m.at
        ]
        bound = BOTH_OF_SUM * sum(alone)
        if len(alone) == 2 and metric.value > bound:
            text = (
                f"both_pinned is {metric.value:.4g} {metric.unit}; htod_pinned and dtoh_pinned, each alone, give "
                f"{sum(alone):.4g} {metric.unit} together; at most {bound:.4g} {metric.unit} is possible"
            )
            found.append(replace(_finding(result, metric, text, bound), verdict=INVALID))
    return found


def by_pair(result: Result, name: str) -> dict[tuple[int, int], MetricValue]:
    """A metric of p2p that is reported once for each pair."""
    found = (m for m in result.metrics if m.name == name and m.kind == "pair" and not m.at)
    return {(m.subject.first, m.subject.second or 0): m for m in found}


def _worse(one: MetricValue, other: MetricValue) -> tuple[MetricValue, MetricValue]:
    """The worse and the better of two."""
    swapped = (one.value < other.value) == (one.direction == "lower")
    return (other, one) if swapped else (one, other)


def _distance(worse: MetricValue, better: float) -> float:
    """Distance of a value from a better one, as a fraction of the larger of the two."""
    return abs(worse.value - better) / max(worse.value, better)


def _pair(metric: MetricValue) -> str:
    return f"GPU {metric.subject.first}->GPU {metric.subject.second}"


def _finding(result: Result, metric: MetricValue, text: str, bound: float) -> Finding:
    return miss(result, metric, f"{result.node} {metric.place}: {text}", metric.value, bound, "cross-check")


def asymmetric(result: Result) -> list[Finding]:
    """Pairs whose two directions differ: the slower one is named."""
    found = []
    for name, apart in APART.items():
        pairs = by_pair(result, name)
        for (start, end), forth in pairs.items():
            back = pairs.get((end, start))
            if start > end or back is None:
                continue
            worse, better = _worse(forth, back)
            distance = _distance(worse, better.value)
            if distance > apart:
                text = (
                    f"{name} {_pair(worse)} {worse.value:.4g} {worse.unit}, in the other direction "
                    f"{better.value:.4g}: {100 * distance:.1f} % apart; at most {100 * apart:.0f} %"
                )
                found.append(_finding(result, worse, text, better.value))
    return found


def outliers(result: Result) -> list[Finding]:
    """Pairs that are slower than the others of their link class (by the links named in the result)."""
    kinds = {(link.first, link.second): link.kind for link in result.links}
    found = []
    for name, apart in APART.items():
        classes: dict[str, list[MetricValue]] = {}
        for (start, end), metric in by_pair(result, name).items():
            # only the kind, without the count: counts are compared with the data sheet elsewhere
            classes.setdefault(kinds.get((start, end), "not known"), []).append(metric)
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
                    found.append(_finding(result, metric, text, usual))
    return found


def slow_copies(result: Result, peer_claimed: bool) -> list[Finding]:
    """Peer copies slower than plain cudaMemcpyPeer, and those through the host although peer access is claimed."""
    found = []
    plain, staged = by_pair(result, "memcpy_peer"), by_pair(result, "driver_staged")
    for ends, metric in by_pair(result, "peer").items():
        if ends in plain and metric.value < OF_PLAIN_COPY * plain[ends].value:
            bound = OF_PLAIN_COPY * plain[ends].value
            text = (
                f"peer {_pair(metric)} {metric.value:.4g} GB/s is below {OF_PLAIN_COPY} of cudaMemcpyPeer in the "
                f"same job, {plain[ends].value:.4g} GB/s"
            )
            found.append(_finding(result, metric, text, bound))
        if peer_claimed and ends in staged and metric.value < BEYOND_STAGED * staged[ends].value:
            bound = BEYOND_STAGED * staged[ends].value
            text = (
                f"peer {_pair(metric)} {metric.value:.4g} GB/s, no more than the driver's staging through the host "
                f"({staged[ends].value:.4g} GB/s): the system file claims 'peer'"
            )
            found.append(_finding(result, metric, text, bound))
    return found


def inactive_links(result: Result, links_of_pair: int | None, peer_claimed: bool) -> list[Finding]:
    """Pairs connected by fewer links than in the system file, naming the links; pairs without claimed access."""
    found = []
    for link in result.links:
        subject = Subject("pair", link.first, link.second)
        # a driver that does not report its links gives "not known": then nothing is compared
        if links_of_pair is None or link.count is None or link.count >= links_of_pair:
            continue
        inactive = [(gpu, result.path.get(f"inactive_links.gpu{gpu}")) for gpu in subject.gpus]
        down = [f"link {links} of GPU {gpu}" for gpu, links in inactive if links is not None]
        named = f"; inactive: {'; '.join(down)}" if down else ""
        message = f"{result.node} {subject.place}: {link.text}, the system file has {links_of_pair} links{named}"
        missed = (links_of_pair - link.count) / links_of_pair
        found.append(
            Finding(FAIL, message, None, subject, result.node, link.count, "1", links_of_pair, missed, "cross-check")
        )
    return found + (_without_access(result) if peer_claimed else [])


def _without_access(result: Result) -> list[Finding]:
    """Pairs that cannot access each other's memory."""
    found = []
    for key, claim in result.path.items():
        subject = Subject.in_id(key.removeprefix("peer_access."))
        if key.startswith("peer_access.") and subject is not None and claim is False:
            message = f"{result.node} {subject.place}: no peer access, but the system file claims 'peer'"
            found.append(Finding(FAIL, message, None, subject, result.node, kind="cross-check"))
    return found


def of_ranks(result: Result, device_mpi_claimed: bool, far_asked: bool) -> list[Finding]:
    """The path of mpi_p2p: GPU data that went through the host, ranks remote from their device."""
    found = []
    if result.path.get("gpu_path") == "not GPUDirect" and device_mpi_claimed:
        share = float(result.path.get("of_peer_copy") or 0.0)
        message = (
            f"{result.node}: not GPUDirect: device buffers reach {100 * share:.0f} % of a peer copy in the same job; "
            f"at least 60 % are required, since the system file claims 'device_mpi'"
        )
        missed = (0.6 - share) / 0.6
        found.append(Finding(FAIL, message, None, None, result.node, share, "1", 0.6, missed, "cross-check"))
    if not far_asked:
        for key, text in result.path.items():
            if key.startswith("far.rank"):
                message = f"{result.node}: rank {key.removeprefix('far.rank')} is bound to the remote side: {text}"
                found.append(Finding(INVALID, message, node=result.node))
    return found
