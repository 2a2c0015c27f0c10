"""Compares the fingerprints of a run with the archive, since a node with one GPU has no other device to compare
with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tenken.archive import fingerprints as archive
from tenken.errors import ArchiveError, ResultError
from tenken.judge.bounds import say
from tenken.judge.relations import differing
from tenken.machines import hardware
from tenken.model.fingerprint import Key, Stated, Trace, by_key, compare, stated
from tenken.model.judgement import Finding
from tenken.model.result import Result
from tenken.model.verdicts import RECORDED


def recalled(result: Result, run: str, root: Path) -> list[Finding]:
    """What the archive knows about the fingerprints of a result, which are then archived too, except in a drill. `run`:
    the token of the attempt.
    """
    try:
        groups = by_key(stated(result.path))
    except ResultError:  # a finding of the judge
        return []
    found: list[Finding] = []
    for bare, members in groups:
        sheet = hardware.for_device(bare.kind)
        found += _of_key(result, replace(bare, sheet=sheet.name if sheet else ""), members, run, root)
    return found


def _of_key(result: Result, key: Key, members: list[Stated], run: str, root: Path) -> list[Finding]:
    known = archive.known(root, key, run)
    present = [one.trace for one in members]
    alone = {(one.trace.device, one.step) for one in compare(present).deviations if one.expected}
    found = [say(RECORDED, result, f"fingerprints without a vote: {one}") for one in known.damaged]
    if known.traces:
        against = compare([*known.traces, *present])
        # the judge, which knows only this run, names the minority within it
        more = tuple(one for one in against.deviations if (one.trace.device, one.step) not in alone)
        found += differing(key, replace(against, deviations=more))
        if against.equal:
            text = f"fingerprints of {key.algorithm} equal those of {len(known.traces)} archived devices"
            found.append(say(RECORDED, result, f"{text}, {against.positions} compared"))
    else:
        found.append(say(RECORDED, result, _first(root, key, present)))
    if result.parameters.get("inject_fault", "none") == "none":
        for trace in present:
            try:
                archive.add(root, key, trace, run)
            except ArchiveError as error:
                found.append(say(RECORDED, result, f"fingerprints were not archived: {error}"))
    return found


def _first(root: Path, key: Key, present: list[Trace]) -> str:
    """Why nothing in the archive can be compared; a new version is a mark, not a fault."""
    others = archive.other_versions(root, key)
    if others:
        return (
            f"first fingerprints of {key.algorithm} with {key.versions_text()}; the archive has those with "
            f"{others[-1].versions_text()}, which are not comparable"
        )
    held = "compared with one another" if len(present) > 1 else "compared with no other device"
    return f"first fingerprints of {key.algorithm} by the kind {key.kind}: {held}"
