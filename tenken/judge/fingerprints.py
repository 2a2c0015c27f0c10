"""Fingerprints of the devices of one run: the same seed gives the same bits, or one of them is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tenken.errors import ResultError
from tenken.judge.bounds import NOTE
from tenken.model.fingerprint import Comparison, Key, Stated, compare, stated
from tenken.model.judgement import Finding
from tenken.model.result import Result
from tenken.model.verdicts import FAIL, RECORDED


def of(result: Result) -> list[Finding]:
    """Devices of one kind that differ, and those that cannot be compared."""
    try:
        groups = by_key(stated(result.path))
    except ResultError as error:
        return [Finding(FAIL, f"{result.node}: {error}", node=result.node)]
    found: list[Finding] = []
    for key, members in groups:
        found += [*_incomplete(result.node, key, members), *differing(key, compare([one.trace for one in members]))]
    versions = {
        one.but_versions: [other for other, _ in groups if other.but_versions == one.but_versions] for one, _ in groups
    }
    for keys in versions.values():
        if len(keys) > 1:
            text = "; ".join(key.versions_text() for key in keys)
            found.append(
                note(result.node, f"fingerprints of {keys[0].algorithm} are not compared between versions: {text}")
            )
    return found


def by_key(traces: Iterable[Stated], sheet: str = "") -> list[tuple[Key, list[Stated]]]:
    """What may be compared: kind of device, versions, algorithm and seed."""
    found: list[tuple[Key, list[Stated]]] = []
    for one in traces:
        key = one.key(sheet)
        for other, members in found:
            if other == key:
                members.append(one)
                break
        else:
            found.append((key, [one]))
    return found


def differing(key: Key, comparison: Comparison) -> list[Finding]:
    """A finding for each device of this run that differs, or may: where there is no majority, an archived one may be
    wrong as well. An archived device in the minority was wrong then."""
    what = f"fingerprints of {key.algorithm}, seed {key.seed}, differ between devices of the kind {key.kind}"
    return [
        Finding(FAIL, f"{one.trace.node}: {what}: {one.text()}", node=one.trace.node)
        for one in comparison.deviations
        if not one.trace.since
    ]


def note(node: str, text: str) -> Finding:
    return Finding(RECORDED, f"{node}: {text}", node=node, kind=NOTE)


def _incomplete(node: str, key: Key, members: Sequence[Stated]) -> Iterator[Finding]:
    """Devices that stopped before others. Of one step they may state different tensors: their own shards."""
    steps = {step for one in members for step, _, _ in one.prints}
    for one in members:
        lacking = sorted(steps - {step for step, _, _ in one.prints})
        if lacking:
            said = f"{one.trace.text()} has no fingerprint of {key.algorithm} at step {lacking[0]}"
            yield Finding(FAIL, f"{one.node or node}: {said}; another device of this run has", node=one.node or node)
