"""Plots of histories: a finding with baseline, band, change and concurrent changes; and sparklines."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from tenken.history.causes import Finding
from tenken.report import plots

if TYPE_CHECKING:
    from tenken.history.detect import Findings
    from tenken.history.nights import History

#: Number of series drawn per finding, those with the largest change; the others are a pale cloud behind them.
MAX_LINES, MAX_CLOUD = 3, 40


def draw(history: History, found: Findings, finding: Finding, ident: str) -> tuple[str, str]:
    """A finding as (SVG, caption). Raises ImportError without matplotlib."""
    colours = plots.COLOURS
    figure, (axis,) = plots._axes(3.1)
    rows = sorted(finding.rows, key=lambda r: _move(history, r, finding.night))
    shown, rest = rows[:MAX_LINES], rows[MAX_LINES : MAX_LINES + MAX_CLOUD]
    if finding.kind == "outlier":
        key = history.series[rows[0]].siblings
        rest = [r for r, s in enumerate(history.series) if s.siblings == key and r not in rows][:MAX_CLOUD]
    nights = np.arange(len(history.nights))
    for row in rest:
        axis.plot(nights, history.values[row], color=colours["line"], linewidth=0.7, zorder=1)
    handles = [
        plots._key("line", "the others" if finding.kind == "outlier" else "more members", colours["line"])
    ] * bool(rest)
    row = shown[0]
    before = history.values[row, : max(1, finding.night)] if finding.kind != "outlier" else history.values[row]
    baseline = float(np.nanmedian(before)) if not np.isnan(before).all() else float("nan")
    if np.isfinite(baseline):
        half = float(found.band[1][row] - found.band[0][row]) / 2
        if np.isfinite(half):
            axis.axhspan(baseline - half, baseline + half, color=colours["c2"], alpha=0.12, linewidth=0, zorder=0)
            handles.append(plots._key("bar", "range of normal nights", colours["c2"]))
        axis.axhline(baseline, color=colours["c2"], linewidth=1.2, linestyle=(0, (5, 3)), zorder=2)
        handles.append(plots._key("dashed", "baseline", colours["c2"]))
    for number, row in enumerate(shown):
        series = history.series[row]
        colour = plots.SERIES[number]
        axis.plot(nights, history.values[row], color=colour, linewidth=1.5, marker="o", markersize=2.6, zorder=3)
        handles.append(plots._key("line", plots._plain(f"{series.metric}, {series.where}"), colour))
    if finding.kind != "outlier":
        axis.axvline(finding.night - 0.5, color=colours["FAIL" if finding.worse else "PASS"], linewidth=1.6, zorder=2)
        handles.append(plots._key("line", f"change, {history.nights[finding.night]}", colours["FAIL"]))
    for night, text in fingerprint_changes(history, shown[0]):
        axis.axvline(night - 0.5, color=colours["reference"], linewidth=1.2, linestyle=(0, (1, 2)), zorder=1)
        handles.append(plots._key("dotted", plots._plain(text), colours["reference"]))
    axis.set_ylabel(history.series[shown[0]].unit)
    axis.grid(axis="y")
    ticks = np.unique(np.linspace(0, len(nights) - 1, min(8, len(nights))).astype(int))
    axis.set_xticks(ticks, [f"{history.nights[t]:%d %b}" for t in ticks])
    axis.set_xlim(-0.8, len(nights) - 0.2)
    plots._legend(axis, handles, 4)
    caption = f"{finding.what}, night by night"
    return plots._svg(figure, ident, caption), caption


def _move(history: History, row: int, night: int) -> float:
    """Relative drop of a series on a night; unknown ones last."""
    before, after = history.values[row, :night], history.values[row, night:]
    if np.isnan(before).all() or np.isnan(after).all():
        return 0.0
    move = float(np.nanmedian(after) / np.nanmedian(before) - 1)
    return move if history.series[row].direction == "higher" else -move


def fingerprint_changes(history: History, row: int, most: int = 4) -> list[tuple[int, str]]:
    """(night, change) of a series' environment, the latest few."""
    ran = np.flatnonzero(history.fingerprints[row] >= 0)
    out = []
    for old, new in itertools.pairwise(ran):
        was, now = history.fingerprint(row, int(old)), history.fingerprint(row, int(new))
        changed = [f"{name} {now[name]}" for name in now if was.get(name) != now[name] and now[name] and was.get(name)]
        if changed:
            out.append((int(new), ", ".join(changed)))
    return out[-most:]


def sparkline(values: np.ndarray, width: int = 180, height: int = 28) -> str:
    """A row of nights as a line of this many pixels; gaps remain gaps, and the last night is a dot."""
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return ""
    low, high = float(known.min()), float(known.max())
    reach = (high - low) or abs(high) or 1.0
    step = (width - 6) / max(1, len(values) - 1)
    parts: list[str] = []
    pen = False
    last: tuple[float, float] | None = None
    for index, value in enumerate(values):
        if not np.isfinite(value):
            pen = False
            continue
        last = (2 + index * step, 3 + (height - 6) * (1 - (float(value) - low) / reach))
        parts.append(f"{'L' if pen else 'M'}{last[0]:.1f} {last[1]:.1f}")
        pen = True
    assert last is not None
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{len(known)} nights from {low:.4g} to {high:.4g}"><path d="{"".join(parts)}" fill="none" '
        f'stroke="var(--c0)" stroke-width="1.3"/><circle cx="{last[0]:.1f}" cy="{last[1]:.1f}" r="2.2" '
        f'fill="var(--c0)"/></svg>'
    )
