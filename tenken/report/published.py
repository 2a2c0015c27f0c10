"""Published and measured values: the figures and tables of the publications, in their order and on their axes.

Published values are the references of those machines; measured values are shown next to them if metric and coordinates
are the same. Times and rates by repetition are plotted by repetition, sweeps over nodes or sizes on that axis,
everything else row by row as printed.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenken.machines.model import Reference, System
from tenken.machines.publications import Publications, Row
from tenken.model.catalogue import program
from tenken.model.quantities import same
from tenken.model.result import MetricValue, Result
from tenken.report import formatting, plots, policy

#: Axes of the publications' sweeps, in the order of preference.
SWEEPS = ("nodes", "ranks", "particles", "n", "bytes")
#: Problem sizes among the values that a row requests from its job; the number of repetitions is not one.
SIZES = frozenset({"bytes", "nx", "ny", "nz", "bt", "steps", "n", "nb", "grid", "size"})
#: File systems that all nodes see.
SHARED = frozenset({"lustre", "nfs", "nfs4", "gpfs", "beegfs", "ceph", "wekafs"})
#: Lines of one panel.
MAX_LINES = 20


@dataclass(frozen=True)
class Measured:
    """A measured value: where, at which coordinates."""

    machine: str
    value: float
    samples: tuple[float, ...]
    at: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A reference of a row, and the measured values for it."""

    row: Row
    reference: Reference
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Panel:
    """One figure or table of a publication: its lines that share a unit."""

    publication: str
    place: str
    unit: str
    lines: tuple[Line, ...]
    sweep: str
    """The coordinate on the x axis; `repetition`; empty: the rows themselves."""


def measured(row: Row, system: System | None, result: Result) -> bool:
    """Whether a result contains the row: a value at the coordinates of its reference or, for a row without a reference,
    everything that the row requests from its job. `system`: None if no file describes it (`local`).
    """
    if row.metric:
        references = row.references(system) if system is not None else ()
        return any(True for reference in references for _ in _measured(row, reference, [result]))
    return ran(row, result)


def ran(row: Row, result: Result) -> bool:
    """Whether a result is of a job with everything that the row requests from it; of a path, whether nodes share it."""
    asked = row.run.asked if row.run else {}
    values = {key: value if isinstance(value, list) else [value] for key, value in asked.items()}
    given = result.parameters
    return bool(values) and all(
        _shared(one, result) if key == "path" else any(same(value, given.get(key)) for value in one)
        for key, one in values.items()
    )


def panels(known: Publications, systems: Mapping[str, System], results: Sequence[Result]) -> list[Panel]:
    """All figures and tables that contain a number, in the order of the list."""
    grouped: dict[tuple[str, str, str], list[Line]] = {}
    for row in known.rows:
        if row.metric is None:
            continue
        for reference in row.references(systems[row.system]):
            ours = ", by this suite" if row.at.get("implementation", "") is None else ""
            place = row.place.split(",")[0].strip() + ours
            line = Line(row, reference, tuple(_measured(row, reference, results)))
            grouped.setdefault((row.publication, place, reference.unit), []).append(line)
    return [
        Panel(publication, place, unit, tuple(lines), _axis(lines))
        for (publication, place, unit), lines in grouped.items()
    ]


def lacks(result: Result) -> str:
    """What the machine lacked: a choice of the program that differs from the publication's, as the result states it
    (`cufile: compatibility mode, no GPUDirect Storage`), or why all of it was waived. Empty if nothing.
    """
    if result.status == "waived":
        return result.reason.split(":")[0].removeprefix("no ")
    for key, choice in program(result.program).contract.paths.items():
        said = result.path.get(key)
        if choice.claimed and said is not None and said not in choice.allowed:
            return f"{key}: {str(said).split(':')[0]}"
    return ""


def _measured(row: Row, reference: Reference, results: Iterable[Result]) -> Iterator[Measured]:
    for result in results:
        if result.program != reference.program:
            continue
        for metric in result.metrics:
            wanted = metric.name == reference.metric and metric.kind == reference.subject
            if wanted and _alike(row, reference, metric, result):
                yield Measured(
                    machine(result), metric.statistic_named(reference.statistic), tuple(metric.samples), metric.at
                )


def machine(result: Result) -> str:
    """The device that it was measured on: the GPU, or the CPU."""
    return result.devices[0].name if result.devices else result.host.cpu or result.host.name


def _sizes(row: Row) -> dict[str, list[str]]:
    """Published sizes of a row's problem, each with its values. If 4 and 8 GB have the same value, they are one
    reference without a size."""
    asked = row.run.asked if row.run else {}
    return {
        key: [str(one) for one in (value if isinstance(value, list) else [value])]
        for key, value in asked.items()
        if key in SIZES
    }


def _alike(row: Row, reference: Reference, metric: MetricValue, result: Result) -> bool:
    """Whether a value was measured as the reference was. Paths of file systems differ everywhere, so it counts only
    whether nodes share the file system. The environment of a reference corresponds to the back end of a result.
    """
    here = {**result.parameters, **metric.at}
    backend = result.parameters.get("backend")
    if reference.environ and backend is not None and backend not in reference.environ:
        return False
    if any(key in here and str(here[key]) not in values for key, values in _sizes(row).items()):
        return False
    if any(value is None and here.get(key) is not None for key, value in row.at.items()):
        return False
    return all(
        _shared(value, result) if key == "path" else key in here and str(here[key]) == str(value)
        for key, value in reference.parameters.items()
    )


def _shared(published: Any, result: Result) -> bool:
    """Whether the result's file system is, as the published one, of the nodes together (`.`) or of one node."""
    return (published in (".", ["."])) == (result.path.get("file_system") in SHARED)


def _axis(lines: Sequence[Line]) -> str:
    first = lines[0].reference
    one_row = len({id(one.row) for one in lines}) == 1
    if one_row and program(first.program).metrics[first.metric].plot == "series":
        return "repetition"
    for key in SWEEPS:
        found = [line.reference.parameters.get(key) for line in lines]
        # two lines at one place would each need a legend, so separate rows distinguish them
        if len(lines) > 1 and all(isinstance(one, (int, float)) for one in found) and len(set(found)) == len(found):
            return key
    return ""


def ends(reference: Reference) -> tuple[float, float]:
    """Lowest and highest value as printed."""
    return reference.range or (float(reference.value or 0),) * 2


# -- the drawings --


def draw(panel: Panel, ident: str) -> str:
    """One panel as SVG."""
    figure, axis = {"": _by_row, "repetition": _by_repetition}.get(panel.sweep, _by_sweep)(panel)
    keys = [plots._key("line", "published", plots.COLOURS["reference"])]
    if any(line.measured for line in panel.lines):
        keys.append(plots._key("dot", "measured", plots.COLOURS["c0"]))
    plots._legend(axis, keys)
    caption = f"{panel.place}: published and measured, {panel.unit}"
    return plots._svg(figure, ident, caption)


def _by_row(panel: Panel) -> tuple[Any, Any]:
    figure, (axis,) = plots._axes(0.9 + 0.42 * len(panel.lines))
    for at, line in enumerate(panel.lines):
        low, high = ends(line.reference)
        colour = plots.COLOURS["reference"]
        axis.plot([low, high], [at, at], color=colour, linewidth=5, marker="|", markersize=13, markeredgewidth=2)
        for one in line.measured:
            axis.plot([one.value], [at], color=plots.COLOURS["c0"], marker="o", markersize=6)
    axis.set_yticks(range(len(panel.lines)), [plots._two_lines(_name(line, panel)) for line in panel.lines])
    axis.invert_yaxis()
    axis.set_xlabel(panel.unit, loc="right")
    axis.set_xlim(left=min(0, axis.get_xlim()[0]))
    axis.grid(axis="x")
    return figure, axis


def _by_repetition(panel: Panel) -> tuple[Any, Any]:
    figure, (axis,) = plots._axes(3.2)
    for line in panel.lines:
        low, high = ends(line.reference)
        if high > low:
            axis.axhspan(low, high, color=plots.COLOURS["reference"], alpha=0.25, linewidth=0)
        axis.axhline((low + high) / 2, color=plots.COLOURS["reference"], linewidth=1.6)
        for one in line.measured[:MAX_LINES]:
            x, y = plots.thin(one.samples)
            axis.plot([i + 1 for i in x], y, color=plots.COLOURS["c0"], linewidth=1, alpha=0.7)
    axis.set_xlim(1, max([2, *(len(one.samples) for line in panel.lines for one in line.measured)]))
    axis.set_xlabel("repetition", loc="right")
    axis.set_ylabel(panel.unit)
    axis.set_ylim(bottom=0)
    axis.grid(axis="y")
    return figure, axis


def _by_sweep(panel: Panel) -> tuple[Any, Any]:
    figure, (axis,) = plots._axes(3.4)
    places = sorted({float(line.reference.parameters[panel.sweep]) for line in panel.lines})
    for line in panel.lines:
        x = float(line.reference.parameters[panel.sweep])
        low, high = ends(line.reference)
        axis.plot([x, x], [low, high], color=plots.COLOURS["reference"], linewidth=5, marker="_", markersize=16,
                  markeredgewidth=2)  # fmt: skip
        for one in line.measured:
            axis.plot([x], [one.value], color=plots.COLOURS["c0"], marker="o", markersize=6)
    axis.set_xscale("log", base=2)
    axis.set_xticks(places, [formatting.coordinate(panel.sweep, place) for place in map(_whole, places)])
    axis.minorticks_off()
    axis.set_ylabel(panel.unit)
    axis.set_ylim(bottom=0)
    axis.grid(axis="y")
    return figure, axis


def _whole(value: float) -> float | int:
    return int(value) if value == math.floor(value) else value


def _name(line: Line, panel: Panel) -> str:
    """The row, and what distinguishes its references if it has several."""
    alike = [one.reference.parameters for one in panel.lines if one.row is line.row]
    told = [
        formatting.coordinate(key, value)
        for key, value in line.reference.parameters.items()
        if any(other.get(key) != value for other in alike)
    ]
    return f"{line.row.what}, {line.row.system}" + (f" ({', '.join(told)})" if told else "")


# -- the page --


def counted(found: Sequence[Panel]) -> str:
    """Number of published values that have measured ones."""
    lines = [line for panel in found for line in panel.lines]
    measured = sum(bool(line.measured) for line in lines)
    unstated = sum(
        bool(line.measured) and not (set(line.reference.parameters) - {"path"} or _sizes(line.row)) for line in lines
    )
    text = f"{measured} of {len(lines)} published values were measured in the results given, with the published sizes"
    return text + (f"; for {unstated} of them none is published." if unstated else ".")


def page(known: Publications, found: Sequence[Panel]) -> str:
    """Every figure and table with its rows, published and measured, as one self-contained HTML page."""
    style = (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    parts = ["<h1>Published and measured</h1>", f"<p>{counted(found)}</p>"]
    for key, title in known.titles.items():
        parts.append(f"<h2>{html.escape(known.cited[key])}</h2><p>{html.escape(title)}.</p>")
        for number, panel in enumerate(found):
            if panel.publication != key:
                continue
            lines = "".join(_table_row(line, panel) for line in panel.lines)
            parts.append(
                f"<h3>{html.escape(panel.place)}</h3><figure>{draw(panel, f'p{number}')}</figure>"
                f"<table><tr><th>row</th><th>quantity</th><th>printed</th><th>published, {html.escape(panel.unit)}</th>"
                f"<th>measured</th></tr>{lines}</table>"
            )
    return plots.share_styles(
        f'<!doctype html><html lang="en"><meta charset="utf-8">{policy.meta()}<title>Published and measured</title>'
        f"<style>{style}</style><main>{''.join(parts)}</main></html>\n"
    )


def _table_row(line: Line, panel: Panel) -> str:
    low, high = ends(line.reference)
    published = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    here = "; ".join(f"{one.value:.4g} ({one.machine})" for one in line.measured[:4]) or "not measured"
    if len(line.measured) > 4:
        here += f"; {len(line.measured) - 4} more"
    cells = (line.row.row, _name(line, panel), line.row.value, published, here)
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
