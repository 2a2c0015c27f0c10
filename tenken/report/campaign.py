"""Presentation of a campaign: the report, its page, the live page and prepared commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tenken.campaign.file import Campaign
from tenken.model.verdicts import FAIL, INVALID, PASS

if TYPE_CHECKING:
    from tenken.campaign.findings import Findings  # needs numpy, which a kit without reports lacks

_STYLE = Path(__file__).parent / "templates" / "style.css"
#: Lines of a section of the page that are not folded.
MOST_LINES = 50
#: Sections whose lines are commands.
_COMMANDS = ("To take out of service (nothing was executed)", "After repair")


def _head(title: str, refresh: str = "") -> str:
    style = _STYLE.read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}<meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{escape(title)}</title><style>{style}</style></head>'
        "<body>"
    )


def sentence(found: Findings) -> tuple[str, str]:
    """Verdict and the report in one sentence."""
    bad = len(found.not_in_order())
    if not found.tested:
        return FAIL, f"Nothing ran: none of {found.nodes} nodes has a result"
    if bad:
        return FAIL, f"{bad} of {found.nodes} nodes are not in order"
    if found.damaged:
        return INVALID, f"All {found.nodes} nodes are in order, but {len(found.damaged)} records are damaged"
    return PASS, f"All {found.nodes} nodes are in order"


def sections(
    found: Findings, campaign: Campaign, exclusion: Callable[[str, str], str]
) -> Iterator[tuple[str, list[str]]]:
    """(heading, lines) of the report; an empty section says so if that matters."""
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
        ],
    )
    yield (
        "To take out of service (nothing was executed)",
        [exclusion(node, within(why, 120)) for node, why in _to_exclude(found.to_exclude(), units, found, campaign)],
    )
    if bad := found.to_exclude():
        again = campaign.together(sorted(bad)) if found.units else sorted(bad)
        yield "After repair", [f"tenken campaign retest {campaign.name} {','.join(again)}"]


def within(reason: str, most: int) -> str:
    """A reason in a scheduler's comment: cut in its middle, since the node's own condition is at its end."""
    half = (most - 5) // 2
    return reason if len(reason) <= most else f"{reason[:half]} ... {reason[-half:]}"


def _to_exclude(
    bad: Mapping[str, Sequence[str]], units: Mapping[str, Sequence[str]], found: Findings, campaign: Campaign
) -> Iterator[tuple[str, str]]:
    """Nodes with reasons; for a unit that is judged as one, all of its nodes."""
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
    parts = [f"Campaign {campaign.name}: {campaign.title or campaign.system}", sentence(found)[1]]
    for head, lines in sections(found, campaign, exclusion):
        if lines:
            parts += ["", head, *(f"  {line}" for line in lines)]
    return "\n".join(parts) + "\n"


def page(found: Findings, campaign: Campaign, exclusion: Callable[[str, str], str]) -> str:
    """The report as a page."""
    verdict, said = sentence(found)
    title = f"Campaign {campaign.name}"
    body = [
        _head(f"{said} · {title}"),
        f'<header class="{verdict}"><p class="kicker">{escape(campaign.title or campaign.system)}</p>',
        f"<h1>{escape(title)}</h1>",
        f'<p class="overall"><span class="badge {verdict}">{"OK" if verdict == PASS else verdict}</span> '
        f"<strong>{escape(said)}</strong></p></header><main>",
    ]
    for head, lines in sections(found, campaign, exclusion):
        if lines:
            inner = [f"<code>{escape(line)}</code>" if head in _COMMANDS else escape(line) for line in lines]
            # of a thousand nodes the first fifty are shown, and the rest is folded
            items = "".join(f"<li>{line}</li>" for line in inner[:MOST_LINES])
            rest = "".join(f"<li>{line}</li>" for line in inner[MOST_LINES:])
            more = (
                f"<details><summary>{len(inner) - MOST_LINES} more</summary><ul>{rest}</ul></details>" if rest else ""
            )
            body.append(f"<section><h2>{escape(head)}</h2><ul>{items}</ul>{more}</section>")
    return "".join(body) + "</main></body></html>\n"


def live(campaign: Campaign, line: str, nodes: dict[str, str]) -> str:
    """The page of a running campaign, reloaded by the browser every ten seconds. `nodes`: the state of each."""
    counts: dict[str, int] = {}
    for what in nodes.values():
        counts[what] = counts.get(what, 0) + 1
    title = f"Campaign {campaign.name}"
    head = f"{_head(title, '<meta http-equiv=refresh content=10>')}<header><h1>{escape(title)}</h1></header><main>"
    rows = "".join(f"<li>{escape(f'{node}: {what}')}</li>" for node, what in sorted(nodes.items()) if what != "done")
    shares = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    return f"{head}<p>{escape(line)}</p><p>{escape(shares)}</p><ul>{rows}</ul></main></body></html>\n"
