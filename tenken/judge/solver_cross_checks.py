"""Rates of solvers compared with the parts of the same run: the phases of an LU, its basis of comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tenken.judge.criteria import miss
from tenken.model.judgement import Finding
from tenken.model.result import MetricValue, Result

#: A part takes no longer than the whole, to this tolerance; all parts, which overlap, take at least this fraction.
LONGER, AT_LEAST = 1.02, 0.90
#: With look-ahead, panels and their broadcast run beside the update, and these two are parts of `refine`: all others
#: are the time of the last repetition but for launches (0.94 to 1.00 in 68 results of one node; of a GPU 0.999). A host
#: that others use has further gaps.
BESIDE = ("panel", "ahead", "broadcast", "refine_residuals", "refine_corrections")
CRITICAL = 0.70
#: A ratio of two values of the same run agrees with them to this.
RATIO_APART = 0.02
#: What the updates alone permit, as a share of products in the same run: 0.83 to 1.11 on H100 and H200 (58 runs), more
#: than 1 because the operations of panels count as well. Of a small GPU panels take up to half of the multiprocessors.
UPDATES_PERMIT = 0.60
#: Programs, and their metrics of the same name, whose rate is compared with products that panels run beside.
LU = ("hpl", "hpl_mxp")


def operations(n: int) -> float:
    """Operations of HPL and HPL-MxP for a matrix of order n: (2/3) n^3 + (3/2) n^2."""
    return 2 / 3 * n**3 + 1.5 * n**2


def parts_of_lu(result: Result, rate: str) -> list[Finding]:
    """The time implied by a rate, (2/3) N^3 + (3/2) N^2 operations, compared with the parts of its last repetition."""
    found = []
    for metric in _of(result, rate):
        n = metric.at.get("n")
        parts = [m for m in _of(result, "phase") if m.subject == metric.subject and _at(m) == _at(metric)]
        if not parts or not isinstance(n, int) or metric.unit != "TFLOP/s":
            continue
        count = operations(n)
        most, least = (count / at / 1e12 for at in (min(metric.samples), max(metric.samples)))
        longest, total = max(parts, key=lambda m: m.value), sum(m.value for m in parts)
        last = count / metric.samples[-1] / 1e12
        critical = sum(m.value for m in parts if m.at.get("part") not in BESIDE)
        names = {m.at.get("part") for m in parts}
        whole = (
            {"update", "exposed"} <= names
            and len(set(result.placement.nodes)) <= 1
            and result.parameters.get("look_ahead") == "on"
        )
        text = ""
        if longest.value > LONGER * most:
            text = f"{most:.4g} s, but its part {longest.id} alone takes {longest.value:.4g} s"
        elif total < AT_LEAST * least and any(m.at.get("part") == "update" for m in parts):
            text = (
                f"{least:.4g} s, but all its parts (metric phase) together take {total:.4g} s; at least "
                f"{100 * AT_LEAST:.0f} % are required"
            )
        elif whole and not (CRITICAL * last if metric.kind == "gpu" else 0.0) <= critical <= LONGER * last:
            text = (
                f"{last:.4g} s in its last repetition, but its parts (metric phase) without those that overlap with "
                f"the update take {critical:.4g} s; required: {CRITICAL:g} to {LONGER:g} of it"
            )
        if text:
            message = f"{result.node} {metric.place}: {metric.id} = {metric.value:.6g} {metric.unit} means {text}"
            found.append(miss(result, metric, message, metric.value, count / longest.value / 1e12, "cross-check"))
    return found


def of_panels(result: Result, metric: MetricValue) -> float | None:
    """The rate of an LU that its panels alone permit, in the unit of the metric; None: not an LU, or not reported.

    With look-ahead a panel runs beside an update, but panels follow one another: an LU takes at least as long as all of
    them. Their time grows with N^2, that of the updates with N^3: at a small N on a fast GPU the panels decide.
    """
    return _permitted(result, metric, "panel")


def slow_updates(result: Result) -> list[Finding]:
    """Updates of an LU on a GPU far behind the products of the same run, whatever its panels permit."""
    found = []
    for metric in _of(result, result.program) if result.program in LU else ():
        limit, rate = result.limits[metric.id].value, _permitted(result, metric, "update")
        if metric.kind == "gpu" and limit and rate is not None and rate < UPDATES_PERMIT * limit:
            share = f"{100 * UPDATES_PERMIT:.0f} % of the products of this run"
            text = (
                f"{result.node} {metric.place}: {metric.id}: its updates alone permit {rate:.4g} {metric.unit}; at "
                f"least {share}, {limit:.4g} {metric.unit}, are required"
            )
            found.append(miss(result, metric, text, rate, UPDATES_PERMIT * limit, "cross-check"))
    return found


def _permitted(result: Result, metric: MetricValue, part: str) -> float | None:
    """All operations of an LU over the time of one part of its last repetition, in TFLOP/s; None: not known."""
    n = metric.at.get("n")
    if result.program not in LU or metric.name != result.program or not isinstance(n, int) or metric.unit != "TFLOP/s":
        return None
    seconds = [
        m.value
        for m in _of(result, "phase")
        if m.subject == metric.subject and m.at.get("part") == part and _at(m) == _at(metric)
    ]
    return operations(n) / seconds[0] / 1e12 if seconds and seconds[0] > 0 else None


def over_library(result: Result, rate: str) -> list[Finding]:
    """`over_library` is the ratio of the rate to the library's for the same problem."""
    found = []
    for metric in _of(result, "over_library"):
        ours, theirs = (
            [m for m in _of(result, name) if m.subject == metric.subject and m.at == metric.at]
            for name in (rate, "library")
        )
        if not ours or not theirs:
            continue
        ratio = ours[0].value / theirs[0].value
        if not math.isclose(metric.value, ratio, rel_tol=RATIO_APART):
            message = (
                f"{result.node} {metric.place}: {metric.id} = {metric.value:.4g}; {ours[0].id} and {theirs[0].id} give "
                f"{ratio:.4g}"
            )
            found.append(miss(result, metric, message, metric.value, ratio, "cross-check"))
    return found


def _of(result: Result, name: str) -> Iterator[MetricValue]:
    return (metric for metric in result.metrics if metric.name == name)


def _at(metric: MetricValue) -> dict[str, object]:
    return {key: value for key, value in metric.at.items() if key != "part"}
