"""The page of one session: what it shows and how much of it, and the HTML itself.

A page of any session stays readable and below about 3 MB. A few records are shown in full; many are summarised by
metric, with all that are not PASS in full, worst first. Omissions are stated, with their location.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from tenken.model.catalogue import Program
from tenken.model.judgement import Finding
from tenken.model.numbers import is_number
from tenken.model.result import Result, fields_of
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, VERDICTS, WAIVED, of_criteria, worst
from tenken.report import formatting as words
from tenken.report import opening, policy, scorecard, side_by_side
from tenken.report.rows import Row, rows_of
from tenken.report.session import Case, Session, not_run

TEMPLATES = Path(__file__).parent / "templates"

#: Maximum characters of detail (tables, samples, plots), and plots, of a page
MAX_DETAIL, MAX_PLOTS = 1_600_000, 40
#: Maximum records of a check that are shown individually before they are summarised
MAX_WHOLE = 4
#: Number of rows in the table of verdicts from which the passing subjects of a case share one row
MAX_VERDICT_ROWS = 400
#: Rows of a table of metrics (five times as many folded); samples in plots of a failed metric, and of other metrics
MAX_ROWS, MAX_SAMPLES, SOME_SAMPLES = 60, 400, 10
#: Maximum passed checks listed per verification, and folded rows per table.
MAX_PASSED, MAX_FOLDED = 12, 60
#: Maximum values of one record whose samples are shown.
MAX_SAMPLED = 20
#: Maximum characters of a line of the terminal
MAX_WIDTH = 140
#: Maximum findings listed at the top
MAX_ATTENTION = 40
#: Up to this number, passing subjects of one case have separate rows: eight GPUs do, the 56 pairs between them do not.
MAX_SUBJECTS = 8

GLYPHS = {"PASS": "✓", "RECORDED": "○", "FAIL": "✕", "INVALID": "?", "WAIVED": "–"}
MEANINGS = {
    "PASS": "verified, complete, every criterion met",
    "RECORDED": "verified and complete, but without a criterion",
    "FAIL": "wrong, missing or out of bounds",
    "INVALID": "measured under invalid conditions",
    "WAIVED": "not supported by this machine",
}


@dataclass
class Plot:
    svg: str = ""
    caption: str = ""
    #: why there is no drawing
    missing: str = ""


@dataclass
class Detail:
    """One complete record."""

    case: Case
    anchor: str
    rows: list[Row] = field(default_factory=list)
    folded: list[Row] = field(default_factory=list)
    left_out: int = 0
    plots: list[Plot] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    samples: list[tuple[str, str]] = field(default_factory=list)
    #: values whose samples are not shown
    unsampled: int = 0
    health: list[dict[str, Any]] = field(default_factory=list)
    health_reason: str = ""
    provenance: list[tuple[str, str]] = field(default_factory=list)
    built: list[tuple[str, str]] = field(default_factory=list)
    #: records that show the same build and host, the same devices or the same placement
    built_of: str = ""
    devices_of: str = ""
    placement_of: str = ""
    parameters: list[tuple[str, str]] = field(default_factory=list)
    placement: list[tuple[str, str]] = field(default_factory=list)
    route: list[tuple[str, str]] = field(default_factory=list)
    devices: list[list[tuple[str, str]]] = field(default_factory=list)
    verification: list[dict[str, Any]] = field(default_factory=list)
    #: passed checks that are not listed
    verified_too: int = 0
    raw: str = ""


@dataclass
class Summary:
    """All values of one metric of a check that ran in many locations."""

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


class Shown:
    """Content that a page shows once: the first record that has it."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], str] = {}

    def elsewhere(self, kind: str, content: Any, anchor: str) -> str:
        """The record that shows the same; empty if this is the first one."""
        first = self.first.setdefault((kind, repr(content)), anchor)
        return "" if first == anchor else first


class Pictures:
    """Draws a limited number of plots, with unique names; errors become text on the page."""

    def __init__(self, most: int) -> None:
        self.most, self.drawn, self.left_out = most, 0, 0
        self.unavailable = ""

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
            from tenken.report import plots

            return Plot(*plots.draw(rows, f"p{self.drawn}"))
        except ImportError as error:
            # reported once for all plots
            self.unavailable = f"Plots need matplotlib ({error}); install tenken[reports]."
            return Plot()
        except Exception as error:  # a failed plot must not prevent the page
            return Plot(missing=f"No plot of {rows[0].title}: {type(error).__name__}: {error}")


def render(session: Session, catalogue: Mapping[str, Program], written: str = "") -> str:
    """The whole page as one HTML text with everything embedded. `written` is the time shown in its footer."""
    return _pages(session, catalogue, written, "")[0]


def pages(session: Session, catalogue: Mapping[str, Program], written: str, beside: str) -> tuple[str, str]:
    """The page that is read and mailed, and its records, which it links to in a file named `beside`."""
    return _pages(session, catalogue, written, beside)


def on_terminal(session: Session, catalogue: Mapping[str, Program]) -> str:
    """The first screen of the page as text."""
    rows = {id(case): _rows(case, catalogue) for case in session.cases}
    lines = scorecard.in_lines(session, rows, opening.machine(session))
    return "\n".join("".join(c if c.isprintable() else " " for c in line)[:MAX_WIDTH] for line in lines)


def template(name: str) -> jinja2.Template:
    """A template of pages and reports, compiled once in a process."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters.update(words.FILTERS)
    # the pages of nodes share a style sheet
    own = policy.meta(beside="'self' file:")
    made.globals.update(GLYPHS=GLYPHS, MEANINGS=MEANINGS, VERDICTS=VERDICTS, POLICY=own)
    return made


def _pages(session: Session, catalogue: Mapping[str, Program], written: str, beside: str) -> tuple[str, str]:
    rows = {id(case): _rows(case, catalogue) for case in session.cases}
    counted = [row for case in session.counted for row in rows[id(case)]]
    pictures = Pictures(MAX_PLOTS)
    sections = _sections(session, catalogue, rows, pictures)
    anchors = {id(c): s.anchor for s in sections for c in s.cases}
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    found = scorecard.scores(session, rows)
    content = dict(
        session=session,
        records=beside,
        scores=[(one, anchors.get(id(one.case), "")) for one in found],
        sentence=scorecard.sentence(session, found),
        without_criterion=scorecard.without_criterion(session),
        head=_head(session),
        machine=opening.machine(session),
        judged_by=opening.judged_by(counted),
        next_steps=opening.next_steps(session, counted),
        attention=_attention(session, anchors, rows),
        most=MAX_ATTENTION,
        table=_verdict_rows(session, rows, anchors),
        beside=side_by_side.found(session, rows),
        sections=sections,
        left_out=pictures.left_out,
        no_plots=pictures.unavailable,
        not_applicable=_not_applicable(session.plan),
        not_selected=_not_selected(session),
        written=written,
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=script,
        policy=policy.meta(script),
    )
    page = slim(template("page.html").render(**content))
    return page, slim(template("records.html").render(**content)) if beside else ""


def slim(page: str) -> str:
    """The same page with the common styles of its plots defined once, and without optional end tags and quotes."""
    from tenken.report import plots

    page = re.sub(r"</t[dhr]>\s*(?=<(?:td|th|tr|/tr|/thead|/tbody)\b)", "", plots.share_styles(page))
    page = re.sub(r"</dt>(?=<dd>)|</dd>(?=<dt>|</dl>|</div>)", "", page)
    head, style, body = page.partition("</style>")
    body, script, foot = body.rpartition("<script>")
    return head + style + re.sub(r"<[a-z][^<>]*>", _unquoted, body.replace("&#39;", "'")) + script + foot


def _unquoted(tag: re.Match[str]) -> str:
    """A tag without optional quotes, which are needed only before `/>`."""
    return re.sub(r'=\"([^\s"\'=<>`]+)\"(?=[\s>])', r"=\1", tag[0])


def _rows(case: Case, catalogue: Mapping[str, Program]) -> list[Row]:
    return rows_of(case, catalogue)


# ---- head ------------------------------------------------------------------------------------------------


def _head(session: Session) -> dict[str, Any]:
    info = session.run.get("session_info")
    info = info if isinstance(info, dict) else {}
    systems = _some([*(c.system for c in session.cases), str(session.plan.get("system") or "")])
    results = [c.result for c in session.cases if c.result is not None]
    devices: dict[str, int] = {}
    # A GPU used by several checks is one GPU: count by node and index, name by name.
    for name in {
        (n, d.index): d.name for c in session.cases for n in c.nodes[:1] if c.result for d in c.result.devices
    }.values():
        devices[name] = devices.get(name, 0) + 1
    return {
        "systems": systems or ["unknown machine"],
        "when": _when(session, info),
        "elapsed": info.get("time_elapsed"),
        "versions": _some(r.version for r in results),
        "modes": _some(c.record.mode for c in session.cases if c.record)
        or _some([str(session.plan.get("mode") or "")]),
        "nodes": sorted(_some(n for c in session.cases for n in c.nodes), key=words.natural),
        "devices": sorted(devices.items()),
        "command": str(info.get("cmdline") or ""),
        "reframe": str(info.get("version") or ""),
    }


def _when(session: Session, info: Mapping[str, Any]) -> str:
    """Start of the session: in UTC if that is known, otherwise as ReFrame wrote it."""
    start = info.get("time_start_unix")
    if isinstance(start, (int, float)) and 0 < start < 1e11:
        return datetime.fromtimestamp(start, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    times = sorted(c.record.time for c in session.cases if c.record is not None and c.record.time)
    return times[0].replace("T", " ")[:16] + " UTC" if times else "unknown"


def _some(texts: Any) -> list[str]:
    return list(dict.fromkeys(t for t in texts if t))


def _attention(session: Session, anchors: Mapping[int, str], rows: Mapping[int, list[Row]]) -> list[dict[str, Any]]:
    """The most important results: every finding of every FAIL, then of every INVALID, each with its row."""
    found = []
    kept: dict[str, list[Case]] = {}
    for case in session.counted:
        if case.verdict in (FAIL, INVALID) and (why := not_run(case)):
            kept.setdefault(why, []).append(case)
    for why, cases in kept.items():
        first, *_ = cases
        message = f"{len(cases)} test case{'s were' if len(cases) > 1 else ' was'} {why}"
        found.append({
            "verdict": first.verdict, "check": first.check, "where": first.where, "message": message,
            "anchor": anchors[id(first)],
        })  # fmt: skip
    for verdict in (FAIL, INVALID):
        for case in session.counted:
            if case.verdict != verdict or not_run(case):
                continue
            findings = case.decisive
            shown = {row.id: row.anchor for row in rows[id(case)] if row.anchor}
            messages = [(f.message, shown.get(f.metric or "")) for f in findings] or [
                ("no finding states a reason", None)
            ]
            found += [
                {
                    "verdict": verdict,
                    "check": case.check,
                    "where": case.where,
                    "message": message,
                    "anchor": row or anchors[id(case)],
                }
                for message, row in messages
            ]
    return found


# ---- table of verdicts -----------------------------------------------------------------------------------


def _verdict_rows(session: Session, rows: Mapping[int, list[Row]], anchors: Mapping[int, str]) -> list[dict[str, Any]]:
    by_case = {id(c): _subjects(c, rows[id(c)]) for c in session.cases}
    fold = sum(map(len, by_case.values())) > MAX_VERDICT_ROWS
    table = []
    # Builds are last: the machine is more important to the reader.
    for case in sorted(session.cases, key=lambda c: c.build):
        subjects = by_case[id(case)]
        good = [s for s in subjects if s["verdict"] in (PASS, RECORDED, WAIVED)]
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
                    "nodes": case.where,
                    "place": case.place,
                    "superseded": case.superseded,
                    "case": case,
                    **subject,
                }
            )
    if len(table) > MAX_ROWS:
        table.sort(key=lambda t: VERDICTS.index(t["verdict"]))
    return table


def _subjects(case: Case, rows: list[Row]) -> list[dict[str, Any]]:
    """Verdict per subject of a case; findings without a subject (or about all of them) share one row."""
    if case.build:
        return [_verdict_row("build", case.verdict, [], case.findings)]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.subject, []).append(row)
    by_id = {row.id: row.subject for row in rows}
    found: dict[str, list[Finding]] = {}
    whole = []
    for finding in case.findings:
        subject = by_id.get(finding.metric or "") or (finding.subject.place if finding.subject else "")
        if subject in groups:
            found.setdefault(subject, []).append(finding)
        else:
            whole.append(finding)
    table = []
    for subject in sorted(groups, key=words.natural):
        of_subject = found.get(subject, [])
        verdict = _of_subject([r.verdict for r in groups[subject]], [f.verdict for f in of_subject])
        table.append(_verdict_row(subject, verdict, groups[subject], of_subject))
    shown = worst(t["verdict"] for t in table)
    if not table or whole or VERDICTS.index(shown) > VERDICTS.index(case.verdict):
        table.insert(0, _verdict_row("all", case.verdict, [], whole or case.findings))
    return table


def _of_subject(verdicts: list[str], findings: list[str]) -> str:
    """From a subject's values and findings; RECORDED values do not count if there are judged ones."""
    return worst([of_criteria(verdicts), *findings])


def _verdict_row(subject: str, verdict: str, rows: list[Row], findings: list[Finding]) -> dict[str, Any]:
    judged = [r for r in rows if r.efficiency is not None]
    # A verdict is shown with the value concerned.
    judged = [r for r in judged if r.verdict == verdict] or judged
    lowest = min(judged, key=lambda r: r.efficiency or 0, default=None)
    messages = [f.message for f in findings]
    return {
        "subject": subject,
        "verdict": verdict,
        "efficiency": lowest.efficiency if lowest else None,
        "lowest": f"{lowest.label}, of {'attainable' if lowest.of_attainable else 'peak'}" if lowest else "",
        "message": messages[0] if messages else "",
        "more": max(0, len(messages) - 1),
    }


# ---- sections --------------------------------------------------------------------------------------------


def _sections(
    session: Session,
    catalogue: Mapping[str, Program],
    rows: Mapping[int, list[Row]],
    pictures: Pictures,
) -> list[Section]:
    by_check: dict[str, list[Case]] = {}
    for case in session.cases:
        if not (case.build and case.verdict == PASS):
            by_check.setdefault(case.check, []).append(case)
    sections = []
    for number, (check, cases) in enumerate(by_check.items(), 1):
        places = _some(c.place for c in cases)
        program = next((catalogue.get(c.result.program) for c in cases if c.result), None)
        sections.append(
            Section(
                check,
                program.title if program else "",
                f"check-{number}",
                worst(c.verdict for c in cases if not c.superseded),
                places[0] if len(places) == 1 else "",
                cases,
            )
        )
    # If the page cannot contain everything, the worst records have priority; they are rendered first.
    room, shown = MAX_DETAIL, Shown()
    parts = template("record.html").module
    for section in sorted(sections, key=lambda s: VERDICTS.index(s.verdict)):
        many = len(section.cases) > MAX_WHOLE
        if many:
            every = [r for c in section.cases if not c.superseded for r in rows[id(c)]]
            section.summaries = _summaries(every)
            section.plots = pictures.draw(
                [replace(r, plot="bars") for r in every if not r.at and r.plot in ("bars", "series")]
            )
            room -= sum(len(p.svg) for p in section.plots)
        ordered = sorted(section.cases, key=lambda c: VERDICTS.index(c.verdict)) if many else section.cases
        for case in ordered:
            whole = not many or case.verdict in (FAIL, INVALID)
            if room <= 0:
                section.omitted += 1
                continue
            detail = _detail(
                case, rows[id(case)], f"{section.anchor}-{len(section.html) + 1}", pictures if whole else None
            )
            detail.built_of = shown.elsewhere("build", detail.built, detail.anchor)
            detail.devices_of = shown.elsewhere("devices", detail.devices, detail.anchor)
            detail.placement_of = shown.elsewhere("placement", detail.placement, detail.anchor)
            html = str(parts.record(detail, len(section.cases) > 1, whole))  # type: ignore[attr-defined]
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
                of_criteria(r.verdict for r in members),
            )
        )
    return summaries


def _detail(case: Case, rows: list[Row], anchor: str, pictures: Pictures | None) -> Detail:
    detail = Detail(case, anchor)
    concerned = {f.metric for f in case.findings}
    for number, row in enumerate(rows):
        row.anchor = f"{anchor}-v{number}" if row.id in concerned else ""
    # For a long sweep the table shows the last point of each path, usually the plateau; the rest is folded.
    last = {(r.name, r.subject, *(str(v) for v in r.at.values() if not is_number(v))): id(r) for r in rows}
    plain = (
        rows
        if len(rows) <= 24
        else [r for r in rows if not r.at or r.verdict in (FAIL, INVALID) or id(r) in last.values()]
    )
    # A heat map contains its numbers.
    pairs = sum(r.plot == "matrix" for r in plain) > MAX_SUBJECTS
    kept = {id(r) for r in plain if not (pairs and r.plot == "matrix" and r.verdict in (PASS, RECORDED))}
    plain = [r for r in plain if id(r) in kept]
    rest = [r for r in rows if id(r) not in kept]
    plain.sort(key=lambda r: r.verdict not in (FAIL, INVALID)) if len(plain) > MAX_ROWS else None
    detail.rows, rest = plain[:MAX_ROWS], plain[MAX_ROWS:] + rest
    detail.folded, detail.left_out = rest[:MAX_FOLDED], max(0, len(rest) - MAX_FOLDED)
    for row in rest[MAX_FOLDED:]:
        row.anchor = ""
    detail.notes = _notes(rows)
    if pictures is not None:
        detail.plots = pictures.draw(rows)
    _describe(detail, case, rows)
    return detail


def _notes(rows: list[Row]) -> list[tuple[str, str]]:
    """Sources of references and bases of limits, each once with its metrics."""
    notes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.reference_source:
            notes.setdefault(("Reference", row.reference_source), []).append(row.title)
        if row.limit_basis:
            kind = "Attainable" if row.of_attainable else "Peak"
            notes.setdefault((kind, row.limit_basis), []).append(row.title)
        if not row.criterion:
            notes.setdefault(("No criterion", "recorded only: no contract, reference or floor"), []).append(row.title)
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
    sampled = [row for row in rows if len(row.samples) > 1]
    sampled.sort(key=lambda row: row.verdict not in (FAIL, INVALID))
    for row in sampled[:MAX_SAMPLED]:
        most = MAX_SAMPLES if row.verdict in (FAIL, INVALID) else SOME_SAMPLES
        shown = " ".join(words.number(s, 4).replace("\u202f", "") for s in row.samples[:most])
        more = len(row.samples) - most
        text = shown + (f" … {more} more in the archive" if more > 0 else "")
        detail.samples.append((f"{row.label}, {row.subject}, {row.unit}", text))
    detail.unsampled = max(0, len(sampled) - MAX_SAMPLED)
    if case.result is not None:
        _describe_result(detail, case.result)
    elif case.record is not None:
        detail.raw = case.record.result_text[:4000]
    detail.provenance = _said(_facts(case))
    detail.built = _said(_built(case))


def _describe_result(detail: Detail, result: Result) -> None:
    detail.health_reason = "" if result.health.available else result.health.reason
    for device in result.health.devices:
        table, steady = [], []
        for title, unit, keys in words.HEALTH_FIELDS:
            samples = (device.before, device.worst, device.after)
            cells = [words.health_cell(sample, keys, unit) for sample in samples]
            if all(cells) and len(set(cells)) == 1:
                steady.append(f"{title} {cells[0]}")
            elif any(cells):
                table.append((title, *cells))
        detail.health.append(
            {
                "title": f"GPU {device.index}",
                "table": table,
                "steady": "; ".join(steady),
                "samples": device.samples,
                "xids": ", ".join(map(str, device.xids)),
            }
        )
    checks = sorted(result.verification.checks, key=lambda check: check.passed)
    failed = sum(not check.passed for check in checks)
    detail.verification = [fields_of(check) for check in checks[: failed + MAX_PASSED]]
    detail.verified_too = max(0, len(checks) - failed - MAX_PASSED)
    detail.parameters = _pairs(result.parameters)
    detail.placement = _pairs(fields_of(result.placement))
    detail.route = _pairs(result.path)
    detail.devices = [_pairs(fields_of(d)) for d in result.devices]


def _said(facts: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in facts if value not in (None, "", "–")]


def _facts(case: Case) -> list[tuple[str, Any]]:
    """Where and how a case ran."""
    testcase, record, result = case.testcase or {}, case.record, case.result
    job = record.job if record is not None else None
    facts: list[tuple[str, Any]] = [
        ("Node", case.where),
        ("Partition", case.partition),
        ("Environment", case.environ),
    ]
    if result is not None:
        facts += [
            ("Program", result.program),
            ("Command", " ".join(result.command)),
            ("Started, finished", " to ".join(_some([result.started, result.finished]))),
        ]
    return [
        *facts,
        ("Scheduler", job.scheduler if job else testcase.get("scheduler")),
        ("Job", job.id if job else testcase.get("jobid")),
        ("Job state", job.state if job else None),
        ("Exit status", job.exit_code if job else testcase.get("job_exitcode")),
        ("Standard error", testcase.get("job_stderr") or testcase.get("build_stderr")),
        ("Stage folder", testcase.get("stagedir")),
        ("Archive file", "/".join(record.path.parts[-5:]) if record is not None else ""),
    ]


def _built(case: Case) -> list[tuple[str, Any]]:
    """The build of a program and its host, usually the same in all records of a page."""
    if case.result is None:
        return []
    result = case.result
    build, host = result.build, result.host
    return [
        ("Git revision", result.version),
        ("Compiler", build.compiler),
        ("Flags", build.flags),
        ("Build type", build.type),
        ("Back ends", ", ".join(build.backends)),
        ("CUDA compiler", build.cuda_compiler),
        ("CUDA architectures", build.cuda_architectures),
        ("MPI", build.mpi),
        ("Libraries", ", ".join(f"{k} {v}" for k, v in (build.libraries or {}).items())),
        ("Host", host.name),
        ("Processor", opening.processor(host)),
        ("Memory", words.size(host.memory_bytes)),
        ("Operating system", " / ".join(_some([host.os, host.kernel, host.architecture]))),
        ("Virtual machine", host.virtual_machine),
        ("Driver", ", ".join(_some(d.driver for d in result.devices))),
        ("CUDA runtime", ", ".join(_some(d.cuda_runtime for d in result.devices))),
    ]


def _pairs(thing: Mapping[str, Any]) -> list[tuple[str, str]]:
    """An object of the result as text: array_bytes=4096 becomes ('array bytes', '4 KiB (4096)')."""
    pairs = []
    for key, value in thing.items():
        if value is None or value in ([], (), ""):
            continue
        if isinstance(value, bool):
            text = "yes" if value else "no"
        elif is_number(value) and str(key).endswith("_bytes"):
            text = words.size(value) + (f" ({value})" if value >= 1024 else "")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, int) for v in value):
            text = _ranges(value)
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        pairs.append((str(key).replace("_", " "), text))
    return pairs


def _ranges(values: Sequence[int]) -> str:
    """[0, 1, 2, 5] -> '0-2, 5'; order is kept, so thread 0 stays first."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# ---- what was not run ------------------------------------------------------------------------------------


def _entry(entry: Any, name: str) -> Any:
    """A field of an entry of the plan, which may also be a plain name."""
    return entry.get(name) if isinstance(entry, dict) else None


def _not_applicable(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    out = []
    entries = plan.get("not_applicable")
    for entry in entries if isinstance(entries, list) else []:
        lacks = _entry(entry, "lacks") or []
        text = str(_entry(entry, "text") or "")
        out.append(
            {
                "check": str(_entry(entry, "check") or entry),
                "text": text,
                "lacks": ", ".join(map(str, lacks)) if isinstance(lacks, list) else str(lacks),
            }
        )
    return sorted(out, key=lambda e: words.natural(e["check"]))


def _not_selected(session: Session) -> list[str]:
    """Applicable checks for which this run selected no case."""
    entries = session.plan.get("applicable")
    names = map(str, entries if isinstance(entries, list) else [])
    ran = {n for c in session.cases for n in (c.check, c.base_check, c.check.split(" ")[0])}
    return sorted((n for n in _some(names) if n not in ran and n.split(" ")[0] not in ran), key=words.natural)
