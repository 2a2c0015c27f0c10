"""A session of many nodes: a grid of nodes and checks, worst first, with an additional page per node.

Records are read one by one: each node's page is written immediately, and only key figures, verdicts and findings are
kept in memory. The grid of the index is complete; truncated lists state where the rest is.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.archive.records import safe_name
from tenken.model.catalogue import Program
from tenken.model.numbers import quantile
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED, VERDICTS, worst
from tenken.paths import ROOT
from tenken.report import formatting as words
from tenken.report import policy
from tenken.report.page import TEMPLATES, template
from tenken.report.rows import Row, rows_of
from tenken.report.session import Case, Session, load
from tenken.report.writing import write as write_page

#: Maximum number of findings on the index, and of values of one record on a node's page; the archive contains all.
MOST_FINDINGS, MOST_VALUES = 40, 200

#: Parameters that only distribute or repeat a check: `--distribute` and `--repeat` add node and number to the name.
_DISTRIBUTED = re.compile(r"\s+%(?:[.$]\w+|nid|nodelist|repeat\w*)=\S+")


def check_name(case: Case) -> str:
    """A check's name without the suffixes of distribution."""
    return _DISTRIBUTED.sub("", case.check)


def node_of(case: Case) -> str:
    return case.where


@dataclass
class Figure:
    """A key metric of a check over all nodes: (value, node, subject)."""

    check: str
    label: str
    unit: str
    higher: bool
    values: list[tuple[float, str, str]] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Worst, median and best value with their locations."""
        ordered = sorted(self.values)
        low, high = ordered[0], ordered[-1]
        middle = quantile([v[0] for v in ordered], 0.5)
        bad, good = (low, high) if self.higher else (high, low)
        return {
            "check": self.check, "label": self.label, "unit": self.unit, "count": len(ordered), "worst": bad,
            "median": middle, "best": good, "spread": (high[0] - low[0]) / middle if middle else 0.0,
        }  # fmt: skip


class _Pages:
    """Collects a session while it is read."""

    def __init__(self, catalogue: Mapping[str, Program], folder: Path) -> None:
        self.catalogue, self.folder = catalogue, folder
        self.macro = template("node.html").module.record  # type: ignore[attr-defined]
        self.files: dict[str, str] = {}
        self.figures: dict[tuple[str, str, str], Figure] = {}
        self.values = self.held = self.targets = 0

    def file_of(self, node: str) -> str:
        """The name of a node's page, unique per node."""
        if node not in self.files:
            name, number = safe_name(node), 1
            taken = set(self.files.values())
            while f"{name}.html" in taken:
                number += 1
                name = f"{safe_name(node)}-{number}"
            self.files[node] = f"{name}.html"
        return self.files[node]

    def take(self, case: Case) -> None:
        rows = rows_of(case, self.catalogue)
        node = node_of(case)
        self.values += len(rows)
        self.held += sum(bool(r.criterion) for r in rows)
        self.targets += sum(r.criterion == "contract" for r in rows)
        program = self.catalogue.get(case.result.program) if case.result is not None else None
        for row in rows:
            if program is not None and row.name in program.key and not row.at and row.value is not None:
                key = (check_name(case), row.label, row.unit)
                figure = self.figures.setdefault(key, Figure(*key, row.direction == "higher"))
                figure.values.append((row.value, node, row.subject))
        shown = sorted(rows, key=_urgency)[:MOST_VALUES]
        html = self.macro(case, check_name(case), shown, len(rows) - len(shown))
        with (self.folder / f"{self.file_of(node)}.part").open("a", encoding="utf-8") as stream:
            stream.write(str(html))


def _urgency(row: Row) -> tuple[int, bool]:
    verdict = row.verdict if row.verdict in VERDICTS else FAIL
    return VERDICTS.index(verdict), bool(row.at)


def write(
    perflogs: Path, name: str, catalogue: Mapping[str, Program], target: Path | None, written: str
) -> tuple[Session, Path]:
    """Write index and pages; returns the session and the index's path. Raises NoSession and OSError, without partial
    files."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    home = target.parent if target is not None else ROOT / "output" / "pages"
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".tmp-", dir=home))
    try:
        pages = _Pages(catalogue, folder)
        session = load(perflogs, name, pages.take)
        index = target or home / f"{session.name}.html"
        style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
        grid = _grid(session, pages)
        _finish(session, pages, grid, index, style, written)
        text = template("fleet.html").render(
            session=session, grid=grid, checks=_checks(session), findings=_findings(session, pages)[:MOST_FINDINGS],
            more=max(0, len(_findings(session, pages)) - MOST_FINDINGS), pages=pages, folder=index.with_suffix("").name,
            figures=sorted((f.row() for f in pages.figures.values()), key=lambda r: -r["spread"]), written=written,
            passed=sum(c.verdict == PASS for c in session.tests), style=style,
            script=script, policy=policy.meta(script),
        )  # fmt: skip
        folder.chmod(0o755)
        shutil.rmtree(index.with_suffix(""), ignore_errors=True)
        folder.rename(index.with_suffix(""))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise

    write_page(index, text)
    return session, index


def _checks(session: Session) -> list[str]:
    return sorted({check_name(c) for c in session.tests}, key=words.natural)


def _grid(session: Session, pages: _Pages) -> list[dict[str, Any]]:
    """One row per node: its verdict for each check, worst nodes first."""
    nodes: dict[str, dict[str, list[str]]] = {}
    for case in session.tests:
        nodes.setdefault(node_of(case), {}).setdefault(check_name(case), []).append(case.verdict)
    rows: list[dict[str, Any]] = []
    for node, checks in nodes.items():
        cells = {check: worst(verdicts) for check, verdicts in checks.items()}
        counts = [sum(v == verdict for v in cells.values()) for verdict in (FAIL, INVALID)]
        rows.append(
            {"node": node, "file": pages.files.get(node), "verdict": worst(cells.values()), "cells": cells,
             "counts": counts}
        )  # fmt: skip
    rows.sort(key=lambda r: (VERDICTS.index(r["verdict"]), [-n for n in r["counts"]], words.natural(r["node"])))
    return rows


def _findings(session: Session, pages: _Pages) -> list[dict[str, Any]]:
    """Findings of every FAIL, then of every INVALID, with the node's page."""
    found = []
    for verdict in (FAIL, INVALID):
        for case in session.counted:
            if case.verdict == verdict:
                said = [f.message for f in case.findings if f.verdict == verdict] or ["no finding states a reason"]
                node = node_of(case)
                found += [
                    {"verdict": verdict, "check": check_name(case), "node": node, "file": pages.files.get(node),
                     "message": message}
                    for message in said
                ]  # fmt: skip
    return found


def _finish(session: Session, pages: _Pages, grid: list[dict[str, Any]], index: Path, style: str, written: str) -> None:
    """Header and footer around the content of each node."""
    parts = template("node.html").module
    verdicts = {row["node"]: row["verdict"] for row in grid}
    (pages.folder / "style.css").write_text(style, encoding="utf-8")
    for node, file in pages.files.items():
        part = pages.folder / f"{file}.part"
        head = parts.head(session.name, node, verdicts.get(node, RECORDED), index.name)  # type: ignore[attr-defined]
        foot = parts.foot(written)  # type: ignore[attr-defined]
        with (pages.folder / file).open("w", encoding="utf-8") as stream:
            stream.write(str(head))
            stream.write(part.read_text(encoding="utf-8"))
            stream.write(str(foot))
        part.unlink()
