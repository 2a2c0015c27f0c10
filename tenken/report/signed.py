"""The acceptance report as one HTML text that prints to a few A4 pages, and as PDF if there is a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tenken.model.catalogue import Program
from tenken.report import formatting as words
from tenken.report import policy
from tenken.report.acceptance import (
    ACCEPTED,
    EXCEPTIONS,
    INCONCLUSIVE,
    MET,
    NOT_MET,
    NOT_RECORDED,
    NOT_TESTED,
    REJECTED,
    Acceptance,
    Part,
    Requirement,
)
from tenken.report.page import template

TEMPLATES = Path(__file__).parent / "templates"

#: Maximum lines of a list, and GPUs in the scope; beyond that the report refers to acceptance.json.
MOST, PARTS = 8, 32
#: Possible names of a headless browser.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")

_WORD = {MET: "MET", NOT_MET: "MISSED", INCONCLUSIVE: "OPEN", NOT_TESTED: "OPEN"}

#: The consequences of each statement.
_NEXT = {
    ACCEPTED: "sign in section 10, and keep this report with its archive: tenken accept --verify shows later whether "
    "either was changed.",
    EXCEPTIONS: "agree on each exception above, then sign in section 10; open items go to the punch list.",
    REJECTED: "send the evidence files (section 11) to the supplier; after the repair, run again what is named above "
    "and judge the new sessions.",
    INCONCLUSIVE: "run what is named above, as often as the contract requires, and judge all sessions together.",
}


def render(
    found: Acceptance,
    catalogue: Mapping[str, Program],
    digest: str,
    contract_digest: str,
    evidence: list[tuple[str, Part]],
    written: str,
) -> str:
    """The report. `digest` is that of the archive's files, `evidence` the names of the files of failing parts."""
    contract = found.contract
    order = {clause.id: at for at, clause in enumerate(contract.clauses)}
    rules: dict[str, list[str]] = {}
    for clause in contract.clauses:
        rules.setdefault(clause.rule_in_words(contract.confidence), []).append(clause.id)
    return template("acceptance.html").render(
        a=found, c=contract, tone="EXCEPTIONS" if found.statement == EXCEPTIONS else found.statement,
        rule="; ".join(
            text + (f" ({_in_runs(ids, order)})" if len(rules) > 1 else "") for text, ids in rules.items()
        ),
        environs={r.environ for r in found.requirements if r.environ}, scope=_scope(found),
        closest=_closest(found), conditions=_conditions(found),
        sources=_sources(found, order),
        written=written, digest=digest, contract_digest=contract_digest, evidence=evidence,
        titles={c.id: _title(c.text, catalogue, c.program, c.metric) for c in contract.clauses},
        at=lambda at: ", ".join(words.coordinate(k, v) for k, v in sorted(at.items())),
        runs=_runs, uniformity=[(r, r.uniformity) for r in found.requirements if r.uniformity],
        commands=list(dict.fromkeys((r.check, r.command) for r in found.requirements if r.command)),
        block={
            "contract": css_string(f"{contract.title} ({contract.name})"),
            "system": css_string(f"{contract.system}: {found.statement}"),
            "sessions": css_string(f"Sessions: {_some(found.sessions)}"),
            "digest": css_string(f"Archive SHA-256: {digest}"),
        },
        policy=policy.meta(), WORD=_WORD, NEXT=_NEXT, MOST=MOST, PARTS=PARTS, open=_open(found),
        style=(TEMPLATES / "acceptance.css").read_text(encoding="utf-8"),
    )  # fmt: skip


def _title(text: str, catalogue: Mapping[str, Program], program: str, metric: str) -> str:
    return text or catalogue[program].metrics[metric].title


def _scope(found: Acceptance) -> str:
    """The measured hardware in brief: "2 nodes, 8 GPUs (NVIDIA H200)"."""
    nodes, gpus = len({part.node for part in found.parts}), len(found.parts)
    if not gpus:
        return "no GPU measured"
    names = [name for name in found.conditions.get("GPU", ()) if name != NOT_RECORDED]
    return f"{nodes} node{'s' * (nodes != 1)}, {gpus} GPU{'s' * (gpus != 1)}" + f" ({', '.join(names)})" * bool(names)


def _closest(found: Acceptance) -> Requirement | None:
    """The requirement with the smallest margin; None: none was measured."""
    measured = [one for one in found.requirements if one.margin is not None]
    return min(measured, key=lambda one: one.margin or 0.0, default=None)


def _conditions(found: Acceptance) -> str:
    """The conditions that determine the speed of a GPU, in brief: driver, CUDA, power limit, maximum clock."""
    named = (("Driver", "driver {}"), ("CUDA runtime", "CUDA {}"), ("Power limit, W", "power limit {} W"),
             ("Maximum SM clock, MHz", "SM clock up to {} MHz"))  # fmt: skip
    known = [
        text.format(" or ".join(word for word in found.conditions[title] if word != NOT_RECORDED))
        for title, text in named
        if set(found.conditions.get(title, ())) - {NOT_RECORDED}
    ]
    return ", ".join(known)


def _open(found: Acceptance) -> str:
    """What remains open in addition to the clauses, in brief: punch list and stability period."""
    items = [item for item in found.contract.punch_list if item.open and item.id not in found.repaired]
    dates = sorted(item.due for item in items if item.due)
    listed = f"{len(items)} open" + (f", first due {dates[0]}" if dates else "")
    stable = f"stability {found.stability}" if found.stability else "no stability period agreed"
    return f"punch list: {listed if items else 'no open item'}; {stable}"


def _sources(found: Acceptance, order: Mapping[str, int]) -> list[tuple[str, str]]:
    """Each source of targets once, with its clauses: "C1, C3 to C6"."""
    ids: dict[str, list[str]] = {}
    for clause in found.contract.clauses:
        ids.setdefault(clause.source, []).append(clause.id)
    return [(source, _in_runs(of, order)) for source, of in ids.items()]


def _in_runs(ids: list[str], order: Mapping[str, int]) -> str:
    """Ids, with three or more adjacent ones in the contract as a range."""
    runs: list[list[str]] = []
    for one in ids:
        if runs and order[runs[-1][-1]] == order[one] - 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _runs(requirement: Requirement) -> str:
    counts = sorted({len(m.values) for m in requirement.parts})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _some(sessions: tuple[str, ...]) -> str:
    if len(sessions) <= 3:
        return ", ".join(sessions)
    return f"{sessions[0]}, …, {sessions[-1]} ({len(sessions)})"


def css_string(text: str) -> str:
    """A text as a CSS string that can end neither itself nor the style element."""
    safe = re.sub(r"[^A-Za-z0-9 .,:;=+_()…·-]", lambda m: f"\\{ord(m[0]):x} ", text)
    return f'"{safe}"'


def browser() -> str | None:
    """A headless browser on this machine: the one given by $TENKEN_BROWSER, otherwise a Chromium; None if missing."""
    named = os.environ.get("TENKEN_BROWSER")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def pdf(html: Path, target: Path, seconds: float = 120) -> str | None:
    """Print a page to PDF. Returns the reason of a failure, None on success."""
    program = browser()
    if program is None:
        return "no headless browser found (such as Chromium; TENKEN_BROWSER may name one): print the page by hand"
    with tempfile.TemporaryDirectory(prefix="tenken-browser-") as home:
        command = [
            program, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
            f"--user-data-dir={home}", "--no-pdf-header-footer", f"--print-to-pdf={target}", html.resolve().as_uri(),
        ]  # fmt: skip
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False,
                env={**os.environ, "HOME": home},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{program} did not print the page: {error}"
    if done.returncode or not target.is_file() or not target.stat().st_size:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"{program} ended with {done.returncode} without printing the page: {last}"
    return None
