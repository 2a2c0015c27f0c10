"""The result of a gate run for users and programs: text, JSON, JUnit, Markdown, Prometheus, page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from tenken.history import acknowledged
from tenken.history.causes import Finding
from tenken.report import nightly, sentences
from tenken.report.writing import write

if TYPE_CHECKING:
    from tenken.history.gate import Gate
    from tenken.history.nights import History

SCHEMA = "tenken-findings/1"


def write_all(gate: Gate, folder: Path) -> None:
    """Write every form into `folder`, each by rename. Raises OSError."""
    for name, content in (
        ("findings.json", json.dumps(as_json(gate), indent=1, allow_nan=False)),
        ("junit.xml", junit(gate)),
        ("summary.md", markdown(gate)),
        ("tenken.prom", prometheus(gate)),
        ("nightly.html", nightly.render(gate)),
    ):
        write(folder / name, content)


def text(gate: Gate) -> str:
    """The result on a terminal."""
    lines = [f"Archive {gate.archive}: {gate.ingested.text}"]
    for one in gate.systems:
        states = ", ".join(f"{n} {state}" for state, n in sorted(one.states.items()))
        nights = len(one.history.nights)
        lines.append(
            f"\n{one.history.system}, night of {one.night}: {len(one.history.series)} series over "
            f"{nights} night{'' if nights == 1 else 's'}; {states} "
            f"(a series is judged from its {gate.judged_from}th night on)"
        )
        for finding in one.in_order():
            if sentences.was_withdrawn(one.history, finding):
                continue
            if one.is_standing(finding):
                lines.append(f"FAIL: {sentences.standing(one.history, finding)}")
                continue
            word = (
                "FAIL"
                if finding.alarming
                else "withdrawn"
                if finding.withdrawn
                else "known"
                if finding.acknowledged
                else "better"
                if not finding.worse
                else "over"
            )
            new = " NEW" if one.is_new(finding) else ""
            lines.append(f"{word}{new}: {sentences.sentence(one.history, finding)}")
            if finding.acknowledged:
                lines.append(f"    acknowledged: {finding.acknowledged}")
        lines += [f"Note: {note}" for note in one.notes]
        lines.append(sentences.power_sentence(one, gate.judged_from))
    alarms = [(one.history, f) for one in gate.systems for f in one.in_order() if f.alarming]
    if alarms:
        lines.append(f"\nTo accept one, add to {acknowledged.FILE.parent.name}/{acknowledged.FILE.name}:")
        lines += [acknowledged.snippet(history, finding) for history, finding in alarms[:5]]
    lines += [f"INCOMPLETE: {reason}" for reason in gate.incomplete]
    lines.append(f"\nGate: {gate.headline}, {len(alarms)} findings, exit status {gate.exit_code}")
    return "\n".join(lines)


def as_json(gate: Gate) -> dict[str, Any]:
    """The complete result for programs; sizes are relative changes of the value."""
    return {
        "schema": SCHEMA,
        "verdict": gate.verdict,
        "exit_code": gate.exit_code,
        "archive": str(gate.archive),
        "least_nights": gate.judged_from,
        "incomplete": gate.incomplete,
        "bad_files": [{"file": f, "reason": r} for f, r in gate.ingested.bad],
        "systems": [
            {
                "system": one.history.system,
                "night": str(one.night),
                "nights": len(one.history.nights),
                "series": len(one.history.series),
                "states": dict(one.states),
                "power": {
                    str(n): {"half": _finite(half), "most": _finite(most)} for n, (half, most) in one.power.items()
                },
                "findings": [_finding(one.history, f) for f in one.findings],
                "notes": one.notes,
            }
            for one in gate.systems
        ],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finding(history: History, f: Finding) -> dict[str, Any]:
    last = len(history.nights) - 1
    return {
        "kind": f.kind, "label": f.label, "what": f.what, "text": sentences.sentence(history, f), "worse": f.worse,
        "alarming": f.alarming, "acknowledged": f.acknowledged or None, "night": str(history.nights[f.night]),
        "found": str(history.nights[min(f.found, last)]),
        "recovered": None if f.recovered is None else str(history.nights[min(f.recovered, last)]),
        "withdrawn": f.withdrawn, "size": f.size, "low": f.low, "high": f.high, "evidence_nats": f.evidence,
        "p_value": f.p_value, "times": f.times, "of": f.of,
        "causes": [{"field": c.field, "from": c.before, "to": c.after, "nodes": list(c.nodes)} for c in f.causes],
        "members": [
            {
                "check": s.check, "program": s.program, "metric": s.metric, "coordinates": s.coordinates,
                "parameters": s.parameters, "partition": s.partition, "environ": s.environ, "node": s.node,
                "place": s.place, "gpu": s.gpu or None, "peer": s.peer or None, "unit": s.unit,
            }
            for s in (history.series[row] for row in f.rows)
        ],
    }  # fmt: skip


def junit(gate: Gate) -> str:
    """One test case per series, with its numbers as properties; a finding is a failure of each of its members."""
    root = ElementTree.Element("testsuites", name="tenken gate")
    for one in gate.systems:
        history, failed = one.history, {r: f for f in one.alarms for r in f.rows}
        silent = {
            **dict.fromkeys(one.missing, "did not run"),
            **dict.fromkeys(one.void, "ran under invalid conditions"),
        }
        suite = ElementTree.SubElement(
            root, "testsuite", name=history.system, tests=str(len(history.series)), failures=str(len(failed)),
            errors="0", skipped=str(len(set(silent) - set(failed))),
            timestamp=f"{one.night}T12:00:00",
        )  # fmt: skip
        for row, series in enumerate(history.series):
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{history.system}.{series.partition}.{series.check}",
                name=f"{series.measure} {series.where}",
            )  # fmt: skip
            properties = ElementTree.SubElement(case, "properties")
            for name, value in (
                ("value", history.values[row, -1]), ("level", one.found.level[row]),
                ("band_low", one.found.band[0][row]), ("band_high", one.found.band[1][row]), ("unit", series.unit),
                ("nights", int(one.found.nights[row])), ("state", one.found.state[row].value),
            ):  # fmt: skip
                if isinstance(value, (str, int)) or math.isfinite(value):
                    ElementTree.SubElement(properties, "property", name=name, value=str(value))
            if row in failed:
                message = sentences.sentence(history, failed[row])
                ElementTree.SubElement(case, "failure", message=message, type=failed[row].kind).text = message
            elif row in silent:
                ElementTree.SubElement(case, "skipped", message=silent[row])
    if gate.incomplete:
        suite = ElementTree.SubElement(
            root, "testsuite", name="incomplete", tests=str(len(gate.incomplete)), failures="0",
            errors=str(len(gate.incomplete)),
        )  # fmt: skip
        for reason in gate.incomplete:
            case = ElementTree.SubElement(suite, "testcase", classname="tenken.gate", name=reason)
            ElementTree.SubElement(case, "error", message=reason)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(gate: Gate) -> str:
    """A summary for a chat or a merge request."""
    lines = [f"# Tenken gate: {gate.headline}", ""]
    for one in gate.systems:
        lines += [f"## {_plain(one.history.system)}, night of {one.night}", ""]
        if shown := [f for f in one.in_order() if f.alarming and not one.is_standing(f)]:
            lines += ["| finding | since | size | what changed with it |", "|---|---|---|---|"]
            for f in shown:
                with_it = ", ".join(c.text for c in f.causes) or "nothing"
                since = one.history.nights[f.night]
                size = f"scatter x {1 + f.size:.1f}" if f.kind == "noisy" else f"{100 * f.size:+.1f} %"
                what = (
                    f.what if f.label == "measure" else ": ".join((f.what, "".join(sentences.members(one.history, f))))
                )
                lines.append(f"| {f.kind}: {_plain(what)} | {since} | {size} | {_plain(with_it)} |")
            lines.append("")
        elif one.alarms:
            lines += ["Nothing new.", ""]
        else:
            lines += ["No regression.", ""]
        standing = [f for f in one.in_order() if one.is_standing(f)]
        lines += [f"- {_plain(sentences.standing(one.history, f))}" for f in standing] + [""] * bool(standing)
        rest = [f for f in one.in_order() if not f.alarming and not one.is_past(f)]
        rest = [f for f in rest if not sentences.was_withdrawn(one.history, f)]
        lines += [f"- {_plain(sentences.sentence(one.history, f))}" for f in rest] + [""] * bool(rest)
        lines += [sentences.power_sentence(one, gate.judged_from), ""]
    if gate.incomplete:
        lines += ["## Incomplete", "", *[f"- {_plain(reason)}" for reason in gate.incomplete], ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    for character in "\\|<>`*":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def prometheus(gate: Gate) -> str:
    """For node_exporter's textfile collector."""
    out: dict[str, list[str]] = {}

    def put(name: str, value: float, **labels: str) -> None:
        inner = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
        out.setdefault(name, []).append(f"{name}{{{inner}}} {value!r}" if inner else f"{name} {value!r}")

    put("tenken_gate_exit_status", gate.exit_code)
    put("tenken_gate_incomplete", len(gate.incomplete))
    for one in gate.systems:
        history = one.history
        for state, count in sorted(one.states.items()):
            put("tenken_gate_series", count, system=history.system, state=state)
        for kind in ("step", "drift", "flapping", "noisy", "outlier"):
            count = sum(f.kind == kind for f in one.alarms)
            put("tenken_gate_findings", count, system=history.system, kind=kind)
        put("tenken_gate_last_night_days", one.night.toordinal(), system=history.system)
        for row, s in enumerate(history.series):
            of = {
                "system": history.system, "partition": s.partition, "environ": s.environ, "check": s.check,
                "metric": s.metric, "at": s.coordinates, "parameters": s.parameters, "node": s.node, "place": s.place,
                "gpu": s.gpu, "unit": s.unit,
            }  # fmt: skip
            for name, value in (("value", history.values[row, -1]), ("level", one.found.level[row])):
                if math.isfinite(value):
                    put(f"tenken_metric_{name}", float(value), **of)
    helps = {
        "tenken_gate_exit_status": "0 no regression, 1 a regression, 3 incomplete or invalid",
        "tenken_gate_incomplete": "reasons for which the answer is incomplete",
        "tenken_gate_series": "series by state on the last night",
        "tenken_gate_findings": "open findings that are not acknowledged",
        "tenken_gate_last_night_days": "the last night, as days since 0001-01-01 plus 1",
        "tenken_metric_value": "value of the last night",
        "tenken_metric_level": "baseline of the series",
    }
    lines = []
    for name, values in out.items():
        lines += [f"# HELP {name} {helps[name]}", f"# TYPE {name} gauge", *values]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
