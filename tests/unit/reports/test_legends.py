"""The legend of each kind of plot: under every name the marks of its own values, and no mark without a name."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.colors import to_hex

from tenken.report import plots
from tenken.report.rows import Row


def rows(first: int = 0, **also: Any) -> list[Row]:
    """10 and 20 GB/s of two GPUs, or only the latter."""
    known: dict[str, Any] = {"group": "g", "plot": "p", "ends": None, "at": {}, "unit": "GB/s", "direction": "higher",
             "statistic": "median", "best": None, "count": 3, "verdict": "PASS", "p5": None, "p95": None, "title": "t",
             "name": "m", "id": "m"}  # fmt: skip
    both = (Row(**{"subject": f"gpu{i}", "value": v, "median": v, "samples": [v - 1, v, v + 1], **known, **also})
            for i, v in enumerate((10.0, 20.0)))  # fmt: skip
    return list(both)[first:]


def spread(some: list[Row]) -> list[Row]:
    for row in some:
        row.p5, row.p95 = row.samples[0], row.samples[-1]
    return some


def judged(verdict: str) -> list[Row]:
    return [rows(reference=15.0)[0], *rows(1, verdict=verdict)]


def phases() -> list[Row]:
    return [row for title, row in zip("ab", rows(), strict=True) for row.title, row.subject in [(title, "gpu0")]]


GPUS = {"gpu0": {10.0}, "gpu1": {20.0}}
LIMITS = {"limit": 30.0, "reference": 15.0}
SIZES = [row for size in (1, 2) for row in rows(at={"bytes": size}, limit=30.0)]


@pytest.mark.parametrize(("draw", "axis", "some", "named"), [
    (plots._bars, 0, rows(), GPUS), (plots._bars, 0, rows(1), {}),
    (plots._bars, 0, spread(rows(**LIMITS)),
     {**GPUS, "p5 to p95": {10.0, 20.0}, "peak": {30.0}, "reference and its bounds": {15.0}}),
    (plots._bars, 0, rows(attainable=25.0), {**GPUS, "attainable in this run": {25.0}}),
    (plots._strip, 0, rows(), {"within bounds": {10.0, 20.0}}),
    *((plots._strip, 0, judged(verdict), {"within bounds": {10.0}, verdict: {20.0}, "reference": {15.0}})
      for verdict in ("FAIL", "INVALID")),
    (plots._bars, 0, judged("PASS"), {**GPUS, "reference and its bounds": {15.0}}),
    (plots._series, 1, [*judged("PASS"), *rows(1, title="u")], {**GPUS, "reference": {15.0}, "median": {20.0}}),
    (plots._series, 1, rows(1), {"median": {20.0}}),
    (plots._sweep, 1, SIZES, {**GPUS, "peak": {30.0}}),
    (plots._phases, 0, phases(), {"a": {10.0}, "b": {20.0}}),
])  # fmt: skip
def test_each_name_has_its_own_marks(draw: Any, axis: int, some: list[Row], named: dict[str, set[float]]) -> None:
    figure, _ = draw(some)
    marks: dict[str, set[float]] = {}
    for axes in figure.axes:
        for bar in axes.patches:
            marks.setdefault(to_hex(bar.get_facecolor()), set()).add(bar.get_width())
        for line in axes.lines:
            data = line.get_data()[axis]
            marks.setdefault(to_hex(line.get_color()), set()).add(sum(data) / len(data))
    keys = {
        one.get_label(): to_hex(one.get_facecolor() if hasattr(one, "get_facecolor") else one.get_color())
        for legend in figure.legends
        for one in legend.legend_handles
    }
    assert {name: marks.pop(colour) for name, colour in keys.items()} == named
    assert set(marks) <= {plots.SERIES[0]}, "what is alone has no name"
