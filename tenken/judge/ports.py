"""What the ports of a job's nodes counted while its command ran: errors name node and port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tenken.counters import Change, change_of
from tenken.judge import verdict
from tenken.judge.bounds import NOTE
from tenken.model.judgement import Finding, Judgement
from tenken.model.verdicts import FAIL, RECORDED

#: Key of the changes in the facts of a record's job.
FACT = "ports"


def faults(changes: Iterable[Change]) -> Iterator[Finding]:
    """A port with errors is FAIL."""
    for one in changes:
        if found := one.faults():
            text = f"{one.node}: port {one.port}: hardware: {'; '.join(found)} while it ran"
            yield Finding(FAIL, text, node=one.node, kind=FACT)


def notes(changes: Iterable[Change]) -> Iterator[Finding]:
    """Counters that are missing, saturated or were reset: whether errors came is not known. No verdict follows."""
    for one in changes:
        if found := one.unknown():
            text = f"{one.node}: port {one.port}: unknown (missing, saturated or reset): {', '.join(found)}"
            yield Finding(RECORDED, text, node=one.node, kind=NOTE)


def judged(judgement: Judgement, changes: Iterable[Change], unread: bool = False) -> Judgement:
    """A judgement with what the ports add to it; `unread`: the job could not read them at some time."""
    there = list(changes)
    judgement = verdict.extended(judgement, list(faults(there)))
    text = "ports: not read by a rank (no python3 on its node, or its launcher failed): errors of links are not known"
    lost = [Finding(RECORDED, text, kind=NOTE)] if unread else []
    return replace(judgement, findings=(*judgement.findings, *notes(there), *lost))


def below(changes: Iterable[Change], kind: str, rails: int | None, gbit_s: float | None) -> list[str]:
    """Nodes with fewer ports, or ports of a lower rate, than the fabric of the system file has; unknown rates are not
    below."""
    found = []
    seen: dict[str, set[str]] = {}
    for one in changes:
        if one.kind != kind:
            continue
        if (
            one.port not in seen.setdefault(one.node, set())
            and gbit_s
            and one.gbit_s is not None
            and one.gbit_s < gbit_s
        ):
            found.append(f"{one.node}: port {one.port}: {one.gbit_s:g} Gbit/s, the system file states {gbit_s:g}")
        seen[one.node].add(one.port)
    for node, ports in seen.items():
        if rails is not None and len(ports) < rails:
            found.append(
                f"{node}: {len(ports)} ports are up ({', '.join(sorted(ports))}), the system file states {rails}"
            )
    return found


def kept(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """What a record's job facts hold: without errors that did not rise."""
    return [{**one.as_json(), "errors": {n: v for n, v in one.errors.items() if v != 0}} for one in changes]


def read(facts: Mapping[str, Any]) -> list[Change]:
    """The changes in the facts of a record's job."""
    found = facts.get(FACT)
    changes = [change_of(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [one for one in changes if one is not None]
