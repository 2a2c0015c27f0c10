"""Evidence for the return of a failing part to the vendor: one file per part, without names of the site."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tenken.archive.records import safe_name
from tenken.archive.redact import Redactor
from tenken.model.record import Record
from tenken.model.result import fields_of
from tenken.model.verdicts import FAIL
from tenken.report.acceptance import MET, Acceptance, Part, part_of


def failing(found: Acceptance) -> list[Part]:
    """Parts that missed a clause or have a value on the wrong side of the bound, exchanged ones included; each once."""
    parts = ((r, m) for r in found.requirements for m in [*r.parts, *r.before])
    return list(dict.fromkeys(m.part for r, m in parts if m.values and r.missed_by(m)))


def at_fault(found: Acceptance, read: Callable[[str], Record]) -> dict[Part, dict[str, list[str]]]:
    """Parts that a FAIL other than a missed bound names (a wrong result, ECC, a link), each with the files of its runs
    and the metrics concerned; if no finding names a part, the node.
    """
    parts: dict[Part, dict[str, list[str]]] = {}
    for counted in [*found.wrong, *found.failed, *found.before_repair]:
        record = read(counted.file) if counted.file else None
        for finding in record.findings if record is not None else ():
            if finding.verdict != FAIL or record is None:
                continue
            part = Part(counted.node, "node")
            if record.result is not None and finding.subject is not None:
                part = part_of(found.contract, record.result, finding.subject)
            metrics = parts.setdefault(part, {}).setdefault(counted.file, [])
            metrics += [finding.metric] if finding.metric else []
    return parts


def name_of(part: Part, number: int) -> str:
    """A part as a file name: its serial number or UUID if known. The name of a node is not disclosed."""
    return f"evidence/{number:02d}-{safe_name(part.serial or part.uuid or part.place)}.json"


def bundle(
    found: Acceptance, read: Callable[[str], Record], hosts: Iterable[str]
) -> tuple[list[tuple[str, str]], list[tuple[str, Part]]]:
    """(name, text) of the files of every failing part, and (name, part); `read` returns a record by its name in the
    archive.

    Names of nodes, users and folders are replaced. UUID, serial number and slot of the part remain, because they
    identify it for the vendor.
    """
    redactor = Redactor(sorted(hosts), devices=False)
    files, named = [], []
    faults = at_fault(found, read)
    for number, part in enumerate(dict.fromkeys([*failing(found), *faults]), 1):
        told, name = _of(found, part, read, faults.get(part, {})), name_of(part, number)
        named.append((name, part))
        files.append((name, redactor.text(json.dumps(told, indent=1, ensure_ascii=False)) + "\n"))
        files.append((f"{name.removesuffix('.json')}.txt", redactor.text("\n".join(in_words(told))) + "\n"))
    return files, named


def in_words(told: dict[str, Any]) -> list[str]:
    """What a vendor needs for a return, as text: the part, what it misses, its counters, and how to repeat it."""
    part = told["part"]
    lines = [
        f"Part: {part['place']}",
        f"Serial number: {part['serial'] or 'not recorded'}",
        f"UUID: {part['uuid'] or 'not recorded'}",
        f"Slot: {part['slot'] or 'not recorded'}",
        *(["", "Clauses, those missed first:"] if told["clauses"] else []),
    ]
    for one in sorted(told["clauses"], key=lambda one: str(one["result"]) == MET):
        runs = ", ".join(f"{value:.6g}" for value in one["runs"])
        lines.append(
            f"  {one['clause']} {one['metric']}: {one['median']:.6g} {one['unit']}, bound {one['bound']:.6g} "
            f"{one['unit']} ({one['result']}; runs: {runs})"
        )
    for run in told["runs"]:
        lines += ["", f"Run of {run['time']}, {run['verdict']}:", f"  repeat: {' '.join(run['command'])}"]
        lines += [f"  {finding}" for finding in run["findings"]]
        for device in run["health"]:
            counters = {
                key: value for key, value in device["worst"].items()
                if value not in (None, [], False) and key not in ("reasons", "other_processes")
            }  # fmt: skip
            lines.append(f"  GPU {device['gpu']} while timed: " + ", ".join(f"{k} {v}" for k, v in counters.items()))
            lines += [f"  XID {', '.join(map(str, device['xids']))}"] if device["xids"] else []
    return [*lines, "", "Samples, and counters before and after: the JSON file of the same name."]


def _of(
    found: Acceptance, part: Part, read: Callable[[str], Record], faults: Mapping[str, list[str]]
) -> dict[str, Any]:
    clauses = []
    files = {file: list(metrics) for file, metrics in faults.items()}
    for requirement in found.requirements:
        for one in [*requirement.parts, *requirement.before]:
            if one.part != part or not one.values:
                continue
            clauses.append(
                {
                    "clause": requirement.clause.id,
                    "metric": f"{requirement.clause.program}.{requirement.clause.metric}",
                    "check": requirement.check, "bound": requirement.clause.bound, "unit": requirement.clause.unit,
                    "rule": requirement.clause.rule_in_words(found.contract.confidence), "result": one.result,
                    "median": one.median, "interval": [one.low, one.high], "runs": [v.value for v in one.values],
                }
            )  # fmt: skip
            if requirement.missed_by(one):
                for value in [*one.values, *one.invalid]:
                    files.setdefault(value.file, []).append(value.metric)
    runs = []
    for file, metrics in files.items():
        record = read(file)
        result = record.result
        if result is None:
            continue
        runs.append(
            {
                "file": file, "time": record.time, "verdict": record.verdict, "command": list(result.command),
                "revision": result.version, "driver": sorted({d.driver for d in result.devices if d.driver}),
                "samples": {m.id: list(m.samples) for m in result.metrics if m.id in metrics},
                "health": [
                    {"gpu": d.index, "before": fields_of(d.before), "worst": fields_of(d.worst),
                     "after": fields_of(d.after),
                     "xids": list(d.xids)}
                    for d in result.health.devices
                    if part.place in (f"GPU {d.index}", "host") or not part.uuid
                ],
                "findings": [f.message for f in record.findings],
            }
        )  # fmt: skip
    return {"part": vars(part), "clauses": clauses, "runs": runs}
