"""The nightly page: changes since the previous night first, then each finding with its plot, then all measurements."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import numpy as np

from tenken.history.causes import Finding
from tenken.report import formatting as words
from tenken.report import policy, sentences, trends
from tenken.report.page import TEMPLATES, Plot, template

if TYPE_CHECKING:
    from tenken.history.gate import Gate, Judged

#: Maximum number of findings drawn, and of measures and missing series listed
MAX_PLOTS, MAX_MEASURES, MAX_LISTED = 12, 400, 60


@dataclass
class Shown:
    """A finding on the page."""

    finding: Finding
    text: str
    verdict: str
    system: str
    anchor: str
    new: bool
    standing: bool
    plot: Plot | None = None
    members: tuple[str, ...] = ()
    left_out: int = 0


@dataclass
class Measure:
    """All siblings of one metric combined: their median by night."""

    system: str
    partition: str
    name: str
    unit: str
    count: int
    level: float
    last: float
    lowest: float
    lowest_at: str
    highest: float
    highest_at: str
    open: int
    spark: str


def render(gate: Gate, written: str = "") -> str:
    """The whole page as one HTML text with everything embedded."""
    shown = _shown(gate)
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    return template("nightly.html").render(
        gate=gate,
        nights=sorted({one.night for one in gate.systems}),
        since=_since_yesterday(gate, shown),
        alarms=[s for s in shown if s.finding.alarming and not s.standing],
        standing=[s for s in shown if s.standing],
        rest=[s for s in shown if not s.finding.alarming],
        measures=[m for one in gate.systems for m in _measures(one)][:MAX_MEASURES],
        powers=[sentences.power_sentence(one, gate.judged_from) for one in gate.systems],
        written=written or datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=script,
        policy=policy.meta(script),
    )


def _shown(gate: Gate) -> list[Shown]:
    out: list[Shown] = []
    for one in gate.systems:
        for finding in one.in_order():
            number = len(out) + 1
            verdict = "FAIL" if finding.alarming else "WAIVED" if finding.acknowledged else "PASS"
            members = [f"{one.history.series[r].measure}, {one.history.series[r].where}" for r in finding.rows]
            entry = Shown(
                finding, sentences.sentence(one.history, finding), verdict, one.history.system, f"finding-{number}",
                one.is_new(finding), one.is_standing(finding), None, tuple(members[:MAX_LISTED]),
                max(0, len(members) - MAX_LISTED),
            )  # fmt: skip
            if number <= MAX_PLOTS:
                try:
                    entry.plot = Plot(*trends.draw(one.history, one.found, finding, f"t{number}"))
                except ImportError as error:
                    entry.plot = Plot(missing=f"Plots need matplotlib ({error}); install tenken[reports].")
                except Exception as error:  # a plot that fails must not prevent the page
                    entry.plot = Plot(missing=f"No plot: {type(error).__name__}: {error}")
            out.append(entry)
    return out


def _since_yesterday(gate: Gate, shown: list[Shown]) -> list[tuple[str, str, str]]:
    """(verdict, text, anchor) of the differences from the previous night."""
    out = [(s.verdict, s.text, s.anchor) for s in shown if s.new]
    for one in gate.systems:
        last = len(one.history.nights) - 1
        for entry in shown:
            if entry.system == one.history.system and entry.finding.ended == last and not entry.new:
                word = "Withdrawn" if entry.finding.withdrawn else "Back"
                out.append(("PASS", f"{word}: {entry.text}", entry.anchor))
        if last > 0:
            ran = ~np.isnan(one.history.values)
            came = [r for r in np.flatnonzero(ran[:, -1] & ~ran[:, -2])]
            first = [r for r in came if not ran[r, :-1].any()]
            nodes = sorted({one.history.series[r].node for r in came if r not in first})
            if first:
                out.append(("PASS", f"{len(first)} series ran for the first time", ""))
            if nodes:
                out.append(("PASS", f"Running again: {', '.join(nodes[:8])}{' …' if len(nodes) > 8 else ''}", ""))
    return out


def _measures(one: Judged) -> list[Measure]:
    history = one.history
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, series in enumerate(history.series):
        groups[series.siblings].append(row)
    failing = {r for f in one.alarms for r in f.rows}
    out = []
    for rows in groups.values():
        values = history.values[rows]
        there = ~np.isnan(values).all(axis=0)
        middle = np.full(values.shape[1], np.nan)
        middle[there] = np.nanmedian(values[:, there], axis=0)
        last = values[:, -1]
        if np.isnan(last).all():
            continue
        low, high = int(np.nanargmin(last)), int(np.nanargmax(last))
        first = history.series[rows[0]]
        level = one.found.level[rows]
        out.append(
            Measure(
                history.system, first.partition, first.measure, first.unit, len(rows),
                float(np.nanmedian(level)) if not np.isnan(level).all() else float("nan"), float(middle[-1]),
                float(last[low]), history.series[rows[low]].where, float(last[high]), history.series[rows[high]].where,
                len(failing & set(rows)), trends.sparkline(middle),
            )
        )  # fmt: skip
    return sorted(out, key=lambda m: (-m.open, m.partition, words.natural(m.name)))
