"""Findings of the gate in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tenken.history import causes
from tenken.history.causes import Finding
from tenken.report import formatting as words

if TYPE_CHECKING:
    from tenken.history.gate import Judged
    from tenken.history.nights import History


def sentence(history: History, finding: Finding) -> str:
    """A finding in one line: subject, size, date, cause."""
    night = history.nights[finding.night]
    size = words.percent(abs(finding.size))
    first = history.series[finding.rows[0]]
    on, more = members(history, finding)
    directions = {history.series[r].direction for r in finding.rows}
    # falling bandwidth and rising latency are both worse, so neither "less" nor "more" fits
    better = "worse" if finding.worse else "better"
    side = better if len(directions) > 1 else "less" if finding.size < 0 else "more"
    interval = f"{words.percent(abs(finding.low))} to {words.percent(abs(finding.high))}"
    if finding.kind == "outlier":
        return f"{finding.what}: {on}{more} {size} {side} than its siblings since {night}"
    if finding.kind == "noisy":
        times = f"{1 + finding.size:.1f} times ({1 + finding.low:.1f} to {1 + finding.high:.1f})"
        text = f"{finding.what}: {on}{more} became noisy, with {times} the earlier scatter since {night}"
    elif finding.kind == "flapping":
        text = f"{finding.what}: {on}{more} is intermittent, {finding.times} times since {night}, {size} {side}"
    elif finding.kind == "drift":
        text = f"{finding.what}: {on}{more} drifts, {size} {side} since {night}"
    else:
        named = "" if finding.label == "measure" else f"{on}{more} "
        many = more if finding.label == "measure" else ""
        text = f"{finding.what}: {named}{size} {side} ({interval}) since {night}{many}"
    if finding.causes:
        text += "; changed with it: " + ", ".join(c.text for c in finding.causes)
    elif finding.worse and finding.label in ("link", "gpu", "program", "node"):
        text += f"; no environment change on {first.node}" if first.node and not _changed(history, finding) else ""
    if finding.notes:
        text += "; " + ", ".join(finding.notes)
    if finding.recovered is not None and finding.withdrawn:
        night = history.nights[min(finding.recovered, len(history.nights) - 1)]
        text += f"; withdrawn on {night}: the values scatter more than before, and no level moved"
    elif finding.recovered is not None:
        text += f"; back since {history.nights[min(finding.recovered, len(history.nights) - 1)]}"
    return text


def standing(history: History, finding: Finding) -> str:
    """An alarm that has been shown in full before: part, size, nights."""
    on, more = members(history, finding)
    what = finding.what if finding.label == "measure" else f"{finding.what}: {on}"
    size = f"scatter x {1 + finding.size:.1f}" if finding.kind == "noisy" else f"{100 * finding.size:+.1f} %"
    nights = (history.nights[-1] - history.nights[min(finding.found, len(history.nights) - 1)]).days
    text = f"{what}{more} still {size} since {history.nights[finding.night]}, reported {nights} nights ago"
    return text + "".join(f", with {cause.text}" for cause in finding.causes)


def members(history: History, finding: Finding) -> tuple[str, str]:
    """The metric of a finding or the number of its metrics, and the number of its series if it has several."""
    measures = {history.series[row].measure for row in finding.rows}
    more = "" if len(finding.rows) == 1 else f" ({len(finding.rows)} series)"
    return measures.pop() if len(measures) == 1 else f"{len(measures)} metrics", more


def was_withdrawn(history: History, finding: Finding) -> bool:
    """Whether a finding was withdrawn on an earlier night: the withdrawal is reported once."""
    return finding.withdrawn and finding.recovered is not None and finding.recovered < len(history.nights) - 1


def _changed(history: History, finding: Finding) -> bool:
    """Whether the environment of any member changed near the shift, which must then not be called unchanged."""
    return any(causes.changes(history, row, finding.night) for row in finding.rows)


def power_sentence(one: Judged, judged_from: int) -> str:
    """The detection sensitivity."""
    if not one.power:
        return f"{one.history.system}: too few nights yet: a series is judged from its {judged_from}th night on."
    parts = []
    for nights, (half, most) in one.power.items():
        if math.isfinite(half):
            drop = words.percent(-math.expm1(-half))
            tail = words.percent(-math.expm1(-most)) if math.isfinite(most) else "no drop"
            parts.append(f"{drop} within {nights} nights (95 % of them: {tail})")
    told = "; ".join(parts) or "none within 10 nights: the histories are short or noisy"
    return (
        f"{one.history.system}: with the noise of these {one.found.judged} series, the smallest drop found with 90 % "
        f"chance in half of them is {told}."
    )
