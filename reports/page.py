"""The page of one session: what is shown, how much of it, and the HTML itself.

A page of any session stays readable and below about 3 MB: few records are shown whole, many are summed up
by metric with every one that is no PASS in full, worst first. What is left out is said with where to find it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2

from reports import words
from reports.rows import Row, rows_of
from reports.session import Case, Session, field_of

TEMPLATES = Path(__file__).parent / "templates"

#: Characters of detail (tables, samples, plots) and plots of a page
MAX_DETAIL, MAX_PLOTS = 1_600_000, 40
#: Records of a check that are shown one by one before they are summed up
MAX_WHOLE = 4
#: Rows of the table of verdicts before the passing subjects of a case share one
MAX_VERDICT_ROWS = 400
#: Rows of a table of metrics (five times as many folded) and samples of a metric in figures
MAX_ROWS, MAX_SAMPLES = 60, 400
#: Findings listed at the top
MAX_ATTENTION = 40
#: Passing subjects of one case that keep a row each: eight GPUs do, the 56 pairs between them do not.
MAX_SUBJECTS = 8

GLYPHS = {"PASS": "✓", "FAIL": "✕", "INVALID": "?", "WAIVED": "–"}
MEANINGS = {
    "PASS": "verified, complete, within reference and limits",
    "FAIL": "wrong, missing or out of bounds",
    "INVALID": "measured under conditions that void it",
    "WAIVED": "this machine cannot do it",
}


@dataclass
class Plot:
    svg: str = ""
    caption: str = ""
    #: why there is no drawing
    missing: str = ""


@dataclass
class Detail:
    """One record, whole."""

    case: Case
    anchor: str
    rows: list[Row] = field(default_factory=list)
    folded: list[Row] = field(default_factory=list)
    left_out: int = 0
    plots: list[Plot] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    samples: list[tuple[str, str]] = field(default_factory=list)
    health: list[dict[str, Any]] = field(default_factory=list)
    health_reason: str = ""
    provenance: list[tuple[str, str]] = field(default_factory=list)
    parameters: list[tuple[str, str]] = field(default_factory=list)
    placement: list[tuple[str, str]] = field(default_factory=list)
    route: list[tuple[str, str]] = field(default_factory=list)
    devices: list[list[tuple[str, str]]] = field(default_factory=list)
    verification: list[dict[str, Any]] = field(default_factory=list)
    raw: str = ""
    error: str = ""


@dataclass
class Summary:
    """All values of one metric of a check that ran in many places."""

    label: str
    unit: str
    count: int
    lowest: float
    median: float
    highest: float
    lowest_at: str
    highest_at: str
    verdict: str


@dataclass
class Section:
    """One check, wherever it ran."""

    name: str
    title: str
    anchor: str
    verdict: str
    place: str
    cases: list[Case]
    html: list[str] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    omitted: int = 0


class Pictures:
    """Draws plots up to a number, gives each its own name, and turns any trouble into words on the page."""

    def __init__(self, most: int) -> None:
        self.most, self.drawn, self.left_out = most, 0, 0

    def draw(self, rows: list[Row]) -> list[Plot]:
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((row.plot, row.group or f"{row.name} {row.unit}"), []).append(row)
        return [self._one(group) for group in groups.values() if self._room(group)]

    def _room(self, group: list[Row]) -> bool:
        drawable = any(r.value is not None for r in group)
        if drawable and self.drawn >= self.most:
            self.left_out += 1
        return drawable and self.drawn < self.most

    def _one(self, rows: list[Row]) -> Plot:
        self.drawn += 1
        try:
            from reports import plots

            return Plot(*plots.draw(rows, f"p{self.drawn}"))
        except ImportError as error:
            return Plot(missing=f"Plots need matplotlib ({error}); install tenken[reports].")
        except Exception as error:  # a plot that cannot be drawn must never cost the page
            return Plot(missing=f"No plot of {rows[0].title}: {type(error).__name__}: {error}")


def render(session: Session, catalogue: Mapping[str, Any], written: str = "") -> str:
    """The whole page as one HTML text with everything inside. `written` is the time shown at its foot."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        number=words.number,
        percent=words.percent,
        duration=words.duration,
        size=words.size,
        revision=words.revision,
    )
    environment.globals.update(GLYPHS=GLYPHS, MEANINGS=MEANINGS, VERDICTS=words.VERDICTS)
    rows = {id(case): _rows(case, catalogue) for case in session.cases}
    pictures = Pictures(MAX_PLOTS)
    sections = _sections(session, catalogue, rows, pictures, environment)
    anchors = {id(c): s.anchor for s in sections for c in s.cases}
    return environment.get_template("page.html").render(
        session=session,
        head=_head(session),
        attention=_attention(session, anchors),
        most=MAX_ATTENTION,
        table=_verdict_rows(session, rows, anchors),
        sections=sections,
        left_out=pictures.left_out,
        not_applicable=_not_applicable(session.plan),
        not_selected=_not_selected(session),
        written=written,
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "page.js").read_text(encoding="utf-8"),
    )


def _rows(case: Case, catalogue: Mapping[str, Any]) -> list[Row]:
    try:
        return rows_of(case, catalogue)
    except Exception as error:  # a document of any shape may be archived; it must not cost the page
        from reports.session import Finding

        case.findings.append(Finding(case.verdict, f"the record's metrics cannot be read: {error}"))
        return []


# ---- head ------------------------------------------------------------------------------------------------


def _head(session: Session) -> dict[str, Any]:
    info = session.run.get("session_info")
    info = info if isinstance(info, dict) else {}
    systems = _some([*(c.system for c in session.cases), str(session.plan.get("system") or "")])
    documents = [c.document for c in session.cases if c.document]
    devices: dict[str, int] = {}
    # A GPU that several checks ran on is one GPU: count by node and index, name by name.
    for node, device in {
        (n, d.get("index")): (n, d)
        for c in session.cases
        for n in c.nodes[:1]
        for d in c.document.get("devices") or []
        if isinstance(d, dict)
    }.values():
        del node
        devices[str(device.get("name"))] = devices.get(str(device.get("name")), 0) + 1
    return {
        "systems": systems or ["unknown machine"],
        "when": _when(session, info),
        "elapsed": info.get("time_elapsed"),
        "versions": _some(str(d.get("version") or "") for d in documents),
        "modes": _some(str(getattr(c.record, "mode", "") or "") for c in session.cases)
        or _some([str(session.plan.get("mode") or "")]),
        "nodes": sorted(_some(n for c in session.cases for n in c.nodes), key=words.natural),
        "devices": sorted(devices.items()),
        "command": str(info.get("cmdline") or ""),
        "reframe": str(info.get("version") or ""),
    }


def _when(session: Session, info: Mapping[str, Any]) -> str:
    """Start of the session, in UTC where it is known so, else as ReFrame wrote it."""
    start = info.get("time_start_unix")
    if isinstance(start, (int, float)) and 0 < start < 1e11:
        return datetime.fromtimestamp(start, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    times = sorted(str(c.record.time) for c in session.cases if c.record is not None and c.record.time)
    return times[0].replace("T", " ")[:16] + " UTC" if times else "unknown"


def _some(texts: Any) -> list[str]:
    return list(dict.fromkeys(t for t in texts if t))


def _attention(session: Session, anchors: Mapping[int, str]) -> list[dict[str, Any]]:
    """What a reader must know first: every finding of every FAIL, then of every INVALID."""
    found = []
    for verdict in ("FAIL", "INVALID"):
        for case in session.counted:
            if case.verdict != verdict:
                continue
            messages = (
                [f.message for f in case.findings if f.verdict == verdict]
                or [f.message for f in case.findings]
                or ["no finding says why"]
            )
            found += [
                {
                    "verdict": verdict,
                    "check": case.check,
                    "where": ", ".join(case.nodes) or case.place,
                    "message": m,
                    "anchor": anchors[id(case)],
                }
                for m in messages
            ]
    return found


# ---- table of verdicts -----------------------------------------------------------------------------------


def _verdict_rows(session: Session, rows: Mapping[int, list[Row]], anchors: Mapping[int, str]) -> list[dict[str, Any]]:
    by_case = {id(c): _subjects(c, rows[id(c)]) for c in session.cases}
    fold = sum(map(len, by_case.values())) > MAX_VERDICT_ROWS
    table = []
    # Builds come last: a reader looks for the machine.
    for case in sorted(session.cases, key=lambda c: c.build):
        subjects = by_case[id(case)]
        good = [s for s in subjects if s["verdict"] in ("PASS", "WAIVED")]
        if len(good) > (1 if fold else MAX_SUBJECTS):
            lowest = min(
                (s for s in good if s["efficiency"] is not None),
                key=lambda s: s["efficiency"],
                default=good[0],
            )
            kind = "pairs" if all("→" in s["subject"] for s in good) else "subjects"
            every = f"all {len(good)} {kind}" if len(good) == len(subjects) else f"the other {len(good)} {kind}"
            subjects = [s for s in subjects if s not in good] + [{**lowest, "subject": every}]
        for subject in subjects:
            table.append(
                {
                    "check": case.check,
                    "anchor": anchors.get(id(case), ""),
                    "nodes": ", ".join(case.nodes) or "–",
                    "place": case.place,
                    "superseded": case.superseded,
                    "case": case,
                    **subject,
                }
            )
    if len(table) > MAX_ROWS:
        table.sort(key=lambda t: words.VERDICTS.index(t["verdict"]))
    return table


def _subjects(case: Case, rows: list[Row]) -> list[dict[str, Any]]:
    """Verdict per subject of a case; what concerns no subject (or everything) has one row for all."""
    if case.build:
        return [_verdict_row("build", case.verdict, [], case.findings)]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.subject, []).append(row)
    found: dict[str, list[str]] = {}
    whole = []
    for finding in case.findings:
        by_id = next((r.subject for r in rows if finding.metric and r.id == finding.metric), None)
        # "nid001 GPU 0" names a subject by its end; anything else is about the case as a whole.
        by_end = next((s for s in sorted(groups, key=len, reverse=True) if finding.subject.endswith(s)), None)
        subject = by_id or by_end
        if subject is None:
            whole.append(finding)
        else:
            found.setdefault(subject, []).append(finding.verdict)
    table = []
    for subject in sorted(groups, key=words.natural):
        of_subject = [f for f in case.findings if f not in whole and _about(f, subject, rows, groups)]
        verdicts = [r.verdict or "PASS" for r in groups[subject]] + found.get(subject, [])
        table.append(_verdict_row(subject, words.worst(verdicts), groups[subject], of_subject))
    shown = words.worst(t["verdict"] for t in table)
    if not table or whole or words.VERDICTS.index(shown) > words.VERDICTS.index(case.verdict):
        table.insert(0, _verdict_row("all", case.verdict, [], whole or case.findings))
    return table


def _about(finding: Any, subject: str, rows: list[Row], groups: Mapping[str, Any]) -> bool:
    if finding.metric:
        named = next((r.subject for r in rows if r.id == finding.metric), None)
        if named is not None:
            return named == subject
    ends = [s for s in groups if finding.subject.endswith(s)]
    return bool(ends) and max(ends, key=len) == subject


def _verdict_row(subject: str, verdict: str, rows: list[Row], findings: list[Any]) -> dict[str, Any]:
    judged = [r for r in rows if r.efficiency is not None and not r.at]
    # Beside a verdict stands the figure that it is about.
    judged = [r for r in judged if r.verdict == verdict] or judged
    lowest = min(judged, key=lambda r: r.efficiency or 0, default=None)
    messages = [f.message for f in findings]
    return {
        "subject": subject,
        "verdict": verdict,
        "efficiency": lowest.efficiency if lowest else None,
        "lowest": lowest.title if lowest else "",
        "message": messages[0] if messages else "",
        "more": max(0, len(messages) - 1),
    }


# ---- sections --------------------------------------------------------------------------------------------


def _sections(
    session: Session,
    catalogue: Mapping[str, Any],
    rows: Mapping[int, list[Row]],
    pictures: Pictures,
    environment: jinja2.Environment,
) -> list[Section]:
    by_check: dict[str, list[Case]] = {}
    for case in session.cases:
        if not (case.build and case.verdict == "PASS"):
            by_check.setdefault(case.check, []).append(case)
    sections = []
    for number, (check, cases) in enumerate(by_check.items(), 1):
        places = _some(c.place for c in cases)
        program = next((catalogue.get(str(c.document.get("program"))) for c in cases if c.document), None)
        sections.append(
            Section(
                check,
                str(field_of(program, "title") or ""),
                f"check-{number}",
                words.worst(c.verdict for c in cases if not c.superseded),
                places[0] if len(places) == 1 else "",
                cases,
            )
        )
    # Where the page cannot hold everything the room goes to the worst, so they are rendered first.
    room = MAX_DETAIL
    template = environment.get_template("record.html").module
    for section in sorted(sections, key=lambda s: words.VERDICTS.index(s.verdict)):
        many = len(section.cases) > MAX_WHOLE
        if many:
            every = [r for c in section.cases if not c.superseded for r in rows[id(c)]]
            section.summaries = _summaries(every)
            section.plots = pictures.draw(
                [replace(r, plot="bars") for r in every if not r.at and r.plot in ("bars", "series")]
            )
            room -= sum(len(p.svg) for p in section.plots)
        ordered = sorted(section.cases, key=lambda c: words.VERDICTS.index(c.verdict)) if many else section.cases
        for case in ordered:
            whole = not many or case.verdict in ("FAIL", "INVALID")
            if room <= 0:
                section.omitted += 1
                continue
            detail = _detail(
                case, rows[id(case)], f"{section.anchor}-{len(section.html) + 1}", pictures if whole else None
            )
            html = str(template.record(detail, len(section.cases) > 1, whole))  # type: ignore[attr-defined]
            room -= len(html)
            section.html.append(html)
    return sections


def _summaries(rows: list[Row]) -> list[Summary]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.value is not None and not row.at:
            groups.setdefault((row.label, row.unit), []).append(row)
    summaries = []
    for (label, unit), members in groups.items():
        members.sort(key=lambda r: r.value or 0)
        values = [r.value or 0.0 for r in members]
        middle = len(values) // 2
        median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
        first, last = members[0], members[-1]
        summaries.append(
            Summary(
                label,
                unit,
                len(values),
                values[0],
                median,
                values[-1],
                f"{first.node} {first.subject}",
                f"{last.node} {last.subject}",
                words.worst(r.verdict or "PASS" for r in members),
            )
        )
    return summaries


def _detail(case: Case, rows: list[Row], anchor: str, pictures: Pictures | None) -> Detail:
    detail = Detail(case, anchor)
    # Of a long sweep the table shows the last point of each path, mostly the plateau; the rest is folded.
    last = {(r.name, r.subject, *(str(v) for v in r.at.values() if not words.is_number(v))): id(r) for r in rows}
    plain = (
        rows
        if len(rows) <= 24
        else [r for r in rows if not r.at or r.verdict in ("FAIL", "INVALID") or id(r) in last.values()]
    )
    # A heat map has its numbers in it.
    pairs = sum(r.plot == "matrix" for r in plain) > MAX_SUBJECTS
    kept = {id(r) for r in plain if not (pairs and r.plot == "matrix" and r.verdict == "PASS")}
    plain = [r for r in plain if id(r) in kept]
    rest = [r for r in rows if id(r) not in kept]
    plain.sort(key=lambda r: r.verdict not in ("FAIL", "INVALID")) if len(plain) > MAX_ROWS else None
    detail.rows, rest = plain[:MAX_ROWS], plain[MAX_ROWS:] + rest
    detail.folded, detail.left_out = rest[: 5 * MAX_ROWS], max(0, len(rest) - 5 * MAX_ROWS)
    detail.notes = _notes(rows)
    if pictures is not None:
        detail.plots = pictures.draw(rows)
    try:
        _describe(detail, case, rows)
    except Exception as error:  # a document of any shape may be archived
        detail.error = f"The rest of this record's document cannot be shown: {type(error).__name__}: {error}"
    return detail


def _notes(rows: list[Row]) -> list[tuple[str, str]]:
    """Sources of references and bases of limits, each once with the metrics it is for."""
    notes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.reference_source:
            notes.setdefault(("Reference", row.reference_source), []).append(row.title)
        if row.limit_basis:
            notes.setdefault(("Limit", row.limit_basis), []).append(row.title)
        if row.basis == "unreferenced":
            notes.setdefault(("Unreferenced", "neither a reference nor a floor bounds it; recorded only"), []).append(
                row.title
            )
        for note in row.notes:
            notes.setdefault(("Note", note), []).append(row.title)
    total = len(_some(r.title for r in rows))
    out = []
    for (kind, text), titles in notes.items():
        names = _some(titles)
        whom = "" if len(names) == total else f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})"
        out.append((kind, text + whom))
    return out


def _describe(detail: Detail, case: Case, rows: list[Row]) -> None:
    document, record = case.document, case.record
    for row in rows[:40]:
        if len(row.samples) > 1:
            shown = " ".join(words.number(s, 5).replace("\u202f", "") for s in row.samples[:MAX_SAMPLES])
            more = len(row.samples) - MAX_SAMPLES
            text = shown + (f" … {more} more in the archive" if more > 0 else "")
            detail.samples.append((f"{row.label}, {row.subject}, {row.unit}", text))
    health = document.get("health") or {}
    detail.health_reason = "" if health.get("available") else str(health.get("reason") or "")
    for device in health.get("devices") or []:
        table = []
        for title, unit, keys in words.HEALTH_FIELDS:
            cells = [words.health_cell(device.get(when), keys, unit) for when in ("before", "worst", "after")]
            if any(cells):
                table.append((title, *cells))
        xids = ", ".join(map(str, device.get("xids") or []))
        detail.health.append(
            {
                "title": f"GPU {device.get('index')}",
                "table": table,
                "samples": device.get("samples"),
                "xids": xids,
            }
        )
    verification = document.get("verification") or {}
    detail.verification = [
        {k: c.get(k) for k in ("what", "detail", "error", "tolerance", "passed")}
        for c in verification.get("checks") or []
    ]
    detail.parameters = _pairs(document.get("parameters"))
    detail.placement = _pairs(document.get("placement"))
    detail.route = _pairs(document.get("path"))
    detail.devices = [_pairs(d) for d in document.get("devices") or []]
    host, build = document.get("host") or {}, document.get("build") or {}
    testcase = case.testcase or {}
    facts = [
        ("Node", ", ".join(case.nodes)),
        ("Partition", case.partition),
        ("Environment", case.environ),
        ("Git revision", document.get("version")),
        ("Program", document.get("program")),
        ("Command", " ".join(map(str, document.get("command") or []))),
        ("Compiler", build.get("compiler")),
        ("Flags", build.get("flags")),
        ("Build type", build.get("type")),
        ("Back ends", ", ".join(build.get("backends") or [])),
        ("CUDA compiler", build.get("cuda_compiler")),
        ("CUDA architectures", build.get("cuda_architectures")),
        ("MPI", build.get("mpi")),
        ("Libraries", ", ".join(f"{k} {v}" for k, v in (build.get("libraries") or {}).items())),
        ("Host", host.get("name")),
        ("Processor", _processor(host)),
        ("Memory", words.size(host.get("memory_bytes"))),
        (
            "Operating system",
            " / ".join(_some([host.get("os"), host.get("kernel"), host.get("architecture")])),
        ),
        ("Virtual machine", host.get("virtual_machine")),
        ("Driver", ", ".join(_some(d.get("driver") for d in document.get("devices") or []))),
        ("CUDA runtime", ", ".join(_some(d.get("cuda_runtime") for d in document.get("devices") or []))),
        ("Started, finished", " to ".join(_some([document.get("started"), document.get("finished")]))),
        ("Scheduler", getattr(record, "scheduler", None) or testcase.get("scheduler")),
        ("Job", getattr(record, "job_id", None) or testcase.get("jobid")),
        ("Job state", getattr(record, "job_state", None)),
        (
            "Exit status",
            getattr(record, "exit_code", None) if record is not None else testcase.get("job_exitcode"),
        ),
        ("Standard error", testcase.get("job_stderr") or testcase.get("build_stderr")),
        ("Stage folder", testcase.get("stagedir")),
        ("Archive file", "/".join(Path(getattr(record, "path", None) or "").parts[-5:])),
    ]
    detail.provenance = [(k, str(v)) for k, v in facts if v not in (None, "", "–")]
    detail.raw = str(getattr(record, "document_text", "") or "")[:4000] if not document else ""


def _processor(host: Mapping[str, Any]) -> str:
    counts = [
        f"{host[k]} {w}"
        for k, w in (
            ("sockets", "sockets"),
            ("cores", "cores"),
            ("logical_cpus", "logical CPUs"),
            ("numa_nodes", "NUMA nodes"),
        )
        if host.get(k)
    ]
    return ", ".join(_some([str(host.get("cpu") or ""), *counts]))


def _pairs(thing: Any) -> list[tuple[str, str]]:
    """An object of the document in words: array_bytes=4096 becomes ('array bytes', '4 KiB (4096)')."""
    pairs = []
    for key, value in (thing or {}).items() if isinstance(thing, dict) else ():
        if value is None or value == []:
            continue
        if isinstance(value, bool):
            text = "yes" if value else "no"
        elif words.is_number(value) and str(key).endswith("_bytes"):
            text = words.size(value) + (f" ({value})" if value >= 1024 else "")
        elif isinstance(value, list) and value and all(isinstance(v, int) for v in value):
            text = _ranges(value)
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        pairs.append((str(key).replace("_", " "), text))
    return pairs


def _ranges(values: list[int]) -> str:
    """[0, 1, 2, 5] -> '0-2, 5'; order is kept, so thread 0 stays first."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# ---- what was not run ------------------------------------------------------------------------------------


def _not_applicable(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    out = []
    entries = plan.get("not_applicable")
    for entry in entries if isinstance(entries, list) else []:
        lacks = field_of(entry, "lacks") or []
        text = str(field_of(entry, "text") or "")
        out.append(
            {
                "check": str(field_of(entry, "check") or entry),
                "text": text,
                "lacks": ", ".join(map(str, lacks)) if isinstance(lacks, list) else str(lacks),
            }
        )
    return sorted(out, key=lambda e: words.natural(e["check"]))


def _not_selected(session: Session) -> list[str]:
    """Checks that apply here and of which this run selected no case."""
    entries = session.plan.get("applicable")
    names = [
        str(field_of(e, "check") or field_of(e, "name") or e) for e in (entries if isinstance(entries, list) else [])
    ]
    ran = {n for c in session.cases for n in (c.check, c.base_check, c.check.split(" ")[0])}
    return sorted((n for n in _some(names) if n not in ran and n.split(" ")[0] not in ran), key=words.natural)
