"""A result's claims about its data paths, compared with its measurements.

A claim of path is a word; each one here has a consequence in the same result: a rate, a metric that only this path
can produce, a number that follows from others. All functions are pure; each returns findings that name the key of
`path`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping

from tenken.model.job import short
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.result import MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL

#: Device buffers of MPI that reach this fraction of a peer copy in the same job were transferred directly.
GPUDIRECT = 0.6
#: A derived number of `path` is written with all its digits, a rate in a text with four.
EXACT, PRINTED = 1e-6, 2e-3
#: Tolerance of a value computed twice from the same samples.
SHARE_APART = 0.02
#: The host's clock includes launches: seconds per repetition, and its own relative error.
LAUNCH_S, CLOCK_APART = 200e-6, 0.10
#: Minimum gain of a copy over NVLink over one through the host.
BEYOND_STAGED = 1.2
#: Operations per cell of a stencil by its points.
FLOPS_OF_CELL = {7: 13, 27: 53}


def of(result: Result, machine: Machine) -> list[Finding]:
    """Findings on claims of path that contradict the measurements."""
    if result.status != "ok" or "implementation" in result.parameters:
        return []
    checks = BY_PROGRAM.get(result.program)
    texts = [*_host_clock(result), *_energy(result), *(checks(result, machine) if checks else ())]
    return [
        Finding(FAIL, f"{result.node}: path {text}", None, subject, result.node, kind="cross-check")
        for subject, text in texts
    ]


Texts = Iterator[tuple["Subject | None", str]]


def _number(result: Result, key: str) -> float | None:
    said = result.path.get(key)
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not math.isfinite(said):
        return None
    return float(said)


def _of(result: Result, *names: str) -> list[MetricValue]:
    return [metric for metric in result.metrics if metric.name in names]


def _follows(result: Result, key: str, from_others: float, what: str, apart: float = EXACT) -> Iterator[str]:
    """If a number of path is present and differs from what others imply."""
    said = _number(result, key)
    if said is not None and not math.isclose(said, from_others, rel_tol=apart, abs_tol=1e-12):
        yield f"{key} is {said:.6g}; {what} give {from_others:.6g}"


# ---- clocks --------------------------------------------------------------------------------------------------


#: Metrics that programs of this suite time by both clocks if they are reported by the device's.
BY_BOTH_CLOCKS = {"stream": ("copy", "scale", "add", "triad", "dot"), "memcopy": ("memcpy", "kernel")}


def _host_clock(result: Result) -> Texts:
    """A rate by the device's clock and the same by the host's, which includes the launch: never much above it, and
    below it by no more than the cost of launches.
    """
    measured = {f"{m.name}.{m.subject.id}": m for m in result.metrics if not m.at and m.unit == "GB/s"}
    size = result.parameters.get("array_bytes")
    for key, one in measured.items():
        both = one.kind == "gpu" and one.clock == "device" and one.name in BY_BOTH_CLOCKS.get(result.program, ())
        if both and result.token is not None and _number(result, f"host_clock_gbs.{key}") is None:
            yield one.subject, (f"path.host_clock_gbs.{key} is missing: the same rate by the host's clock")
    for key in result.path:
        metric = measured.get(key.removeprefix("host_clock_gbs."))
        rate = _number(result, key)
        if metric is None or rate is None or not key.startswith("host_clock_gbs."):
            continue
        if rate > metric.median * (1 + CLOCK_APART):
            yield (
                metric.subject,
                (f"{key} is {rate:.6g} GB/s, beyond the {metric.median:.6g} GB/s of {metric.id} by the device's clock"),
            )
        elif isinstance(size, (int, float)) and size > 0:
            seconds = size / (metric.median * 1e9)
            least = metric.median * seconds / (seconds + LAUNCH_S) * (1 - CLOCK_APART)
            if rate < least:
                yield (
                    metric.subject,
                    (
                        f"{key} is {rate:.6g} GB/s, {metric.id} by the device's clock {metric.median:.6g} GB/s: one "
                        f"of the clocks is wrong; minimum: {least:.6g} GB/s by the host's"
                    ),
                )


#: Of a reading of energy: watts x seconds are joules, but for what is rounded.
JOULES_APART = 0.01


def _energy(result: Result) -> Texts:
    """A reading of energy is power times its duration, within the run."""
    for key in result.path:
        if not key.startswith("energy.") or not key.endswith(".joules"):
            continue
        place = key.removesuffix(".joules")
        joules, watts, duration = (_number(result, f"{place}.{part}") for part in ("joules", "watts", "duration"))
        if joules is None or watts is None or duration is None:
            missing = "watts" if watts is None else "duration"
            if result.token is not None:
                yield None, f"{place}.{missing} is missing next to {key}"
        elif not math.isclose(joules, watts * duration, rel_tol=JOULES_APART):
            yield None, f"{key} is {joules:.6g}; watts and duration give {watts * duration:.6g}"


# ---- links ---------------------------------------------------------------------------------------------------


def _mpi_p2p(result: Result, machine: Machine) -> Texts:
    nodes = result.placement.nodes
    for rank in range(result.placement.ranks):
        said = result.path.get(f"rank{rank}")
        if said is None:
            yield None, f"rank{rank} is missing: {result.placement.ranks} ranks ran"
        elif nodes and len(nodes) == result.placement.ranks and short(str(said).split(",")[0]) != short(nodes[rank]):
            yield None, f"rank{rank} is {str(said)[:80]!r}; placement.nodes has {nodes[rank]!r}"
    if nodes:
        yield from ((None, text) for text in _follows(result, "nodes", len(set(nodes)), "placement.nodes"))
    direct = [m for m in _of(result, "bandwidth") if m.at.get("buffers") == "device"]
    copies = _of(result, "peer_copy")
    claim = result.path.get("gpu_path")
    if not direct:
        if claim in ("GPUDirect", "not GPUDirect"):
            yield None, f"gpu_path is {claim!r}; no bandwidth between device buffers was measured"
        return
    if claim is None:
        yield None, "gpu_path is missing: bandwidth between device buffers was measured"
    elif claim in ("GPUDirect", "not GPUDirect"):
        if not copies:
            yield None, f"gpu_path is {claim!r}; the peer copy that shows it (metric peer_copy) is missing"
            return
        share = max(m.median for m in direct) / copies[0].median
        if (share >= GPUDIRECT) != (claim == "GPUDirect"):
            yield (
                None,
                (
                    f"gpu_path is {claim!r}; device buffers reach {100 * share:.0f} % of the peer copy in the same job "
                    f"(GPUDirect: at least {100 * GPUDIRECT:.0f} %)"
                ),
            )
        if _number(result, "of_peer_copy") is None:
            yield None, "of_peer_copy is missing: gpu_path is derived from it"
        for text in _follows(result, "of_peer_copy", share, "bandwidth and peer_copy", SHARE_APART):
            yield None, text
    elif str(claim).startswith("not known") and copies:
        yield None, f"gpu_path is {claim!r}; the result has a peer copy (metric peer_copy)"


def _p2p(result: Result, machine: Machine) -> Texts:
    pairs = {m.subject for m in result.metrics if m.kind == "pair"}
    staged = {m.subject: m for m in _of(result, "driver_staged") if not m.at}
    copies = {m.subject: m for m in _of(result, "peer") if not m.at}
    through = {m.subject: m for m in _of(result, "read", "write") if not m.at}
    counts = {(link.first, link.second): link.count for link in result.links}
    for subject in sorted(pairs, key=lambda one: one.id):
        link, count = result.path.get(f"link.{subject.id}"), counts.get((subject.first, subject.second or 0))
        for key in ("link", "peer_access"):
            if f"{key}.{subject.id}" not in result.path:
                yield subject, f"{key}.{subject.id} is missing: the pair was measured"
        if link is None:
            continue
        if machine.links_per_pair is not None and count is not None and count > machine.links_per_pair:
            yield subject, f"link.{subject.id} is {link!r}: {count} links; the system file has {machine.links_per_pair}"
        if "NVLink" in str(link) and subject in copies and subject in staged:
            rate, through_host = copies[subject].median, staged[subject].median
            if rate < (least := BEYOND_STAGED * through_host):
                yield (
                    subject,
                    (
                        f"link.{subject.id} is {link!r}; its peer copy reaches {rate:.4g} GB/s, "
                        f"staged through the host {through_host:.4g} GB/s: at least {least:.4g} GB/s are required"
                    ),
                )
        if result.path.get(f"peer_access.{subject.id}") is False and subject in through:
            metric = through[subject]
            yield subject, f"peer_access.{subject.id} is false; {metric.id} reads or writes the other GPU's memory"


#: As a program notes where the pages of an array are: before and after.
ON_HOST = re.compile(r".*-> host 100 %, device 0 %")


def _pages(result: Result, machine: Machine) -> Texts:
    """Arrays that stayed in the memory of the host are read by a GPU no faster than its link."""
    link = machine.limits.get(("host_link", "gpu"))
    for metric in _of(result, "gpu_last", "remote_by_gpu", "device_by_gpu") if link and link.value else ():
        pattern = f".pattern={metric.at['pattern']}" if "pattern" in metric.at else ""
        place = f"pages.{metric.subject.id}{pattern}.trial={metric.at.get('trial', 1)}"
        said = [str(result.path.get(f"{place}.{end}")) for end in ("source", "destination")]
        most = BEYOND_STAGED * 2 * (link.value or 0.0) if link else 0.0
        if all(ON_HOST.fullmatch(one) for one in said) and metric.median > most:
            yield (
                metric.subject,
                f"{place}.source and destination are on the host; {metric.id} reaches {metric.median:.4g} GB/s; by its "
                f"link at most {most:.4g}",
            )


# ---- files ---------------------------------------------------------------------------------------------------


def _files(result: Result, machine: Machine) -> Texts:
    claim, probe = result.path.get("cufile"), str(result.path.get("cufile_probe", ""))
    native = claim == "GPUDirect Storage"
    if claim is not None and probe and native != probe.startswith("works"):
        yield None, f"cufile is {str(claim)[:60]!r}; cufile_probe is {probe[:80]!r}"
    if native and not probe:
        yield None, "cufile is 'GPUDirect Storage'; cufile_probe, which proves it, is missing"
    by = {m.id: str(m.at.get("method", m.at.get("io_config", m.at.get("way", "")))).split("_") for m in result.metrics}
    direct = next((m for m in result.metrics if "gds" in by[m.id]), None)
    if direct is not None and claim is not None and not native:
        yield None, f"cufile is {str(claim)[:60]!r}; {direct.id} was measured by GPUDirect Storage"
    unbuffered = next((m for m in result.metrics if by[m.id][0] == "direct"), None)
    if unbuffered is not None and str(result.path.get("o_direct", "")).startswith("refused"):
        yield None, f"o_direct is {result.path['o_direct']!r}; {unbuffered.id} was measured with O_DIRECT"


# ---- solvers -------------------------------------------------------------------------------------------------


def _spmv(result: Result, machine: Machine) -> Texts:
    """The variant reported as the best is the fastest one for its matrix."""
    for best in _of(result, "best"):
        key = f"best.{best.at.get('matrix')}.{best.subject.id}"
        said = result.path.get(key)
        rivals = {
            str(m.at.get("variant")): m
            for m in _of(result, "spmv")
            if m.subject == best.subject and m.at.get("matrix") == best.at.get("matrix")
        }
        if said is None:
            yield best.subject, f"{key} is missing: {best.id} was reported"
        elif said not in rivals:
            yield best.subject, f"{key} is {str(said)[:60]!r}; measured: {', '.join(sorted(rivals)) or 'none'}"
        elif not math.isclose(rivals[str(said)].median, best.median, rel_tol=EXACT):
            yield (
                best.subject,
                (
                    f"{key} is {said!r}, which reaches {rivals[str(said)].median:.6g} {best.unit}; {best.id} is "
                    f"{best.median:.6g}"
                ),
            )


def _hpcg(result: Result, machine: Machine) -> Texts:
    ranks = result.placement.ranks
    sides = [int(word) for word in re.findall(r"\d+", str(result.path.get("rank_grid")))]
    if sides and math.prod(sides) != ranks:
        yield None, f"rank_grid is {result.path['rank_grid']!r}; {ranks} ranks ran"
    exchange = result.path.get("exchange")
    if exchange is not None and (exchange == "none") != (ranks == 1):
        yield None, f"exchange is {exchange!r}; {ranks} ranks ran"
    sets, each = _number(result, "sets"), _number(result, "iterations_of_set")
    for phase in ("product", "cycle", "vectors"):
        parts = ("sets", "iterations_of_set", f"bytes_of_iteration.{phase}", f"phase_seconds.{phase}")
        missing = [key for key in parts if not _number(result, key)] if result.token is not None else []
        if missing and f"gbs.{phase}" in result.path:
            yield None, f"{', '.join(missing)} is missing or 0: gbs.{phase} is derived from it"
        moved, seconds = _number(result, f"bytes_of_iteration.{phase}"), _number(result, f"phase_seconds.{phase}")
        if sets and each and moved and seconds:
            rate = sets * each * moved / seconds / 1e9
            what = "sets, iterations_of_set, bytes_of_iteration and phase_seconds"
            yield from ((None, text) for text in _follows(result, f"gbs.{phase}", rate, what, PRINTED))


def _stencil(result: Result, machine: Machine) -> Texts:
    points = result.parameters.get("points")
    flops = FLOPS_OF_CELL.get(points) if isinstance(points, int) else None
    if flops is not None:
        yield from ((None, text) for text in _follows(result, "flops_of_cell", flops, f"{points} points"))
    for metric in _of(result, "cells"):
        name = metric.at.get("exchange")
        if name is None:
            continue
        if name != "none" and f"exchange.{name}" not in result.path:
            yield metric.subject, f"exchange.{name} is missing: {metric.id} was measured with it"
        if flops is not None:
            what = f"{metric.id} and flops_of_cell"
            rate = metric.median * flops
            yield from ((metric.subject, t) for t in _follows(result, f"gflops.{name}", rate, what, PRINTED))


def _nccl(result: Result, machine: Machine) -> Texts:
    if len(set(result.placement.nodes)) < 2 and result.devices and result.placement.ranks == 1:
        yield from ((None, text) for text in _follows(result, "gpus", len(result.devices), "the GPUs listed"))


BY_PROGRAM: Mapping[str, Callable[[Result, Machine], Texts]] = {
    "mpi_p2p": _mpi_p2p,
    "p2p": _p2p,
    "snapshot_io": _files,
    "storage_map": _files,
    "overlap": _files,
    "data_loading": _files,
    "spmv": _spmv,
    "hpcg": _hpcg,
    "stencil": _stencil,
    "nccl": _nccl,
    "migration": _pages,
    "access_patterns": _pages,
}
