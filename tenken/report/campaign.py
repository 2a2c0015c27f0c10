"""Presentation of a campaign: the report, its page, the live page and prepared commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from tenken.campaign.file import Campaign

if TYPE_CHECKING:
    from tenken.campaign.findings import Findings  # needs numpy, which a kit without reports has not

_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}<title>{title}</title><style>'
    "body{{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}}"
    "pre{{background:#f4f4f4;padding:1em;overflow:auto}}h2{{margin-top:1.6em}}"
    "@media(prefers-color-scheme:dark){{body{{background:#181818;color:#ddd}}pre{{background:#262626}}}}"
    "</style></head><body><h1>{title}</h1>"
)


def sections(
    found: Findings, campaign: Campaign, exclusion: Callable[[str, str], str]
) -> Iterator[tuple[str, list[str]]]:
    """(heading, lines) of the report; an empty section states this if it matters."""
    bad = found.bad_nodes()
    counts = ", ".join(f"{n} {v}" for v, n in sorted(found.verdicts.items())) or "none"
    yield (
        "In short",
        [
            f"{found.tested} of {found.nodes} nodes tested, {len(found.not_in_order())} not in order; "
            f"records: {counts}",
            f"{found.node_hours:.2f} node hours; sessions: {', '.join(found.sessions) or 'none'}",
            f"with 95 % confidence at least {100 * found.share():.1f} % of such "
            f"{f'units ({campaign.unit})' if found.units else 'nodes'} are in order",
        ],
    )
    units = found.bad_units()
    if found.units:
        yield (
            f"Units ({campaign.unit}): {len(found.units) - len(units)} of {len(found.units)} in order",
            [f"{unit}: {', '.join(nodes)} of {len(found.units[unit])} nodes" for unit, nodes in sorted(units.items())]
            or ["all"],
        )
    yield (
        "Reported, each confirmed by a second, independent run",
        [
            f"{one.kind} {one.name}: {one.figure} is {100 * one.worse:.2f} % worse than the fleet after subtracting "
            f"group effects; healthy ones stay within {100 * one.within:.2f} %"
            for one in found.named
        ]
        or ["none"],
    )
    yield "Checks that could not judge the majority of nodes: check, build or environment", found.common
    yield "Criteria missed", [f"{node}: {why}" for node, all_ in sorted(found.failed.items()) for why in all_]
    yield (
        "No valid measurement",
        [f"{node}: {text}" for node, all_ in sorted(found.invalid.items()) for text in all_],
    )
    yield (
        "Hardware faults reported by BMCs",
        [f"{node}: {fault}" for node, faults in sorted(found.hardware.items()) for fault in faults],
    )
    yield "BMCs that could not be read", [f"{node}: {why}" for node, why in sorted(found.unread.items())]
    yield "Configured differently from the majority", [one.sentence() for one in found.odd] or ["none"]
    yield "Two or more configurations, no node reported", [one.sentence() for one in found.mixed]
    yield "Nodes without a result", [f"{node}: {why}" for node, why in sorted(found.lost.items())] or ["no node"]
    yield "Missing figures", found.missing
    yield (
        "Suspects not confirmed by a second run, or without one",
        [
            f"{one.kind} {one.name}: {one.figure} was {100 * one.worse:.2f} % worse (limit {100 * one.within:.2f} %)"
            for one in found.not_again
        ],
    )
    yield "Closed after repair", found.closed
    yield "Damaged records", found.damaged
    yield (
        "Spread between healthy devices (figure: devices, median, relative standard deviation)",
        [
            f"{name}: {count}, {middle:.5g}, {100 * spread:.2f} %"
            for name, (count, middle, spread) in found.spreads.items()
        ],
    )
    yield (
        "Group effects (spread between groups)",
        [
            f"{e.factor} on {e.figure}: {100 * e.spread:.2f} %, worst {max(e.losses, key=lambda g: e.losses[g])} "
            f"({100 * max(e.losses.values()):+.2f} %)"
            for e in found.effects
            if e.losses
        ],
    )
    yield (
        "To take out of service (nothing was executed)",
        [exclusion(node, reason[:120]) for node, reason in _to_exclude(found.to_exclude(), units, found, campaign)],
    )
    if bad := found.to_exclude():
        again = campaign.together(sorted(bad)) if found.units else sorted(bad)
        yield "After repair", [f"tenken campaign retest {campaign.name} {','.join(again)}"]


def _to_exclude(
    bad: Mapping[str, Sequence[str]], units: Mapping[str, Sequence[str]], found: Findings, campaign: Campaign
) -> Iterator[tuple[str, str]]:
    """Nodes with reasons; all nodes of a unit that is judged as one."""
    alone = {
        node: reasons[0] for node, reasons in bad.items() if node not in {n for u in units for n in found.units[u]}
    }
    yield from sorted(alone.items())
    for unit, all_bad in sorted(units.items()):
        nodes = [node for node in all_bad if node in bad]
        for node in found.units[unit] if nodes else ():
            reason = bad[node][0] if node in bad else f"{nodes[0]}: {bad[nodes[0]][0]}"
            yield node, f"{campaign.unit} {unit}: {reason}"


def text(found: Findings, campaign: Campaign, exclusion: Callable[[str, str], str]) -> str:
    """The report on the terminal."""
    parts = [f"Campaign {campaign.name}: {campaign.title or campaign.system}"]
    for head, lines in sections(found, campaign, exclusion):
        if lines:
            parts += ["", head, *(f"  {line}" for line in lines)]
    return "\n".join(parts) + "\n"


def page(found: Findings, campaign: Campaign, exclusion: Callable[[str, str], str]) -> str:
    """The report as a page."""
    body = [_HEAD.format(title=escape(f"Campaign {campaign.name}"), refresh="")]
    for head, lines in sections(found, campaign, exclusion):
        if lines:
            body.append(f"<h2>{escape(head)}</h2><pre>{escape(chr(10).join(lines))}</pre>")
    return "".join(body) + "</body></html>\n"


def live(campaign: Campaign, line: str, nodes: dict[str, str]) -> str:
    """The page of a running campaign, reloaded by the browser every ten seconds. `nodes`: the state of each."""
    counts: dict[str, int] = {}
    for what in nodes.values():
        counts[what] = counts.get(what, 0) + 1
    head = _HEAD.format(title=escape(f"Campaign {campaign.name}"), refresh='<meta http-equiv="refresh" content="10">')
    rows = "\n".join(f"{node}  {what}" for node, what in sorted(nodes.items()) if what != "done")
    shares = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    return f"{head}<p>{escape(line)}</p><p>{escape(shares)}</p><pre>{escape(rows)}</pre></body></html>\n"
