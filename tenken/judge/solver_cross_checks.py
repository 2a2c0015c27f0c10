"""Rates of solvers compared with the parts of the same run: the phases of an LU, its basis of comparison."""

from __future__ import annotations

from collections.abc import Iterator

from tenken.judge.criteria import miss
from tenken.model.judgement import Finding
from tenken.model.result import MetricValue, Result

#: What the updates alone permit, as a share of products in the same run: 0.83 to 1.11 on H100 and H200 (58 runs), more
#: than 1 because the operations of panels count as well. Of a small GPU panels take up to half of the multiprocessors.
UPDATES_PERMIT = 0.60
#: Programs, and their metrics of the same name, whose rate is compared with products that panels run beside.
LU = ("hpl", "hpl_mxp")


def operations(n: int) -> float:
    """Operations of HPL and HPL-MxP for a matrix of order n: (2/3) n^3 + (3/2) n^2."""
    return 2 / 3 * n**3 + 1.5 * n**2


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


def _of(result: Result, name: str) -> Iterator[MetricValue]:
    return (metric for metric in result.metrics if metric.name == name)


def _at(metric: MetricValue) -> dict[str, object]:
    return {key: value for key, value in metric.at.items() if key != "part"}
