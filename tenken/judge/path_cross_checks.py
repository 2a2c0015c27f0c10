"""What a result states of its data paths and clocks, compared with its measurements: faults of a machine alone.

All functions are pure; each returns findings that name the key of `path`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.result import MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL

#: The host's clock includes launches: seconds per repetition, and its own relative error.
LAUNCH_S, CLOCK_APART = 200e-6, 0.10
#: Minimum gain of a copy over NVLink over one through the host.
BEYOND_STAGED = 1.2

Texts = Iterator[tuple[Subject, str]]


def of(result: Result, machine: Machine) -> list[Finding]:
    """Clocks that disagree, and pages that are not where they were asked for."""
    if result.status != "ok" or "implementation" in result.parameters:
        return []
    pages = _pages(result, machine) if result.program in ("migration", "access_patterns") else ()
    return [
        Finding(FAIL, f"{result.node}: path {text}", None, subject, result.node, kind="cross-check")
        for subject, text in (*_host_clock(result), *pages)
    ]


def _number(result: Result, key: str) -> float | None:
    said = result.path.get(key)
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not math.isfinite(said):
        return None
    return float(said)


def _host_clock(result: Result) -> Texts:
    """A rate by the device's clock and the same by the host's, which includes the launch: never much above it, and
    below it by no more than the cost of launches.
    """
    measured = {f"{m.name}.{m.subject.id}": m for m in result.metrics if not m.at and m.unit == "GB/s"}
    size = result.parameters.get("array_bytes")
    for key in result.path:
        metric = measured.get(key.removeprefix("host_clock_gbs."))
        rate = _number(result, key)
        if metric is None or rate is None or not key.startswith("host_clock_gbs."):
            continue
        if rate > metric.median * (1 + CLOCK_APART):
            yield (
                metric.subject,
                f"{key} is {rate:.6g} GB/s, beyond the {metric.median:.6g} GB/s of {metric.id} by the device's clock",
            )
        elif isinstance(size, (int, float)) and size > 0:
            seconds = size / (metric.median * 1e9)
            least = metric.median * seconds / (seconds + LAUNCH_S) * (1 - CLOCK_APART)
            if rate < least:
                yield (
                    metric.subject,
                    f"{key} is {rate:.6g} GB/s, {metric.id} by the device's clock {metric.median:.6g} GB/s: one of the "
                    f"clocks is wrong; minimum: {least:.6g} GB/s by the host's",
                )


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


def _of(result: Result, *names: str) -> list[MetricValue]:
    return [metric for metric in result.metrics if metric.name in names]
