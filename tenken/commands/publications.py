"""`tenken publications`: every published result, the check that reproduces it, and whether its machine selects that
check.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError
from tenken.machines import loader, publications
from tenken.machines.model import System
from tenken.machines.publications import Publications, Row, Run
from tenken.model.verdicts import HEALTHY
from tenken.paths import ROOT, archive_root
from tenken.reframe import plan
from tenken.reframe.listing import listed

MODE = "published"
#: Precedes what was missing on a machine that measured a row in another way.
LACKS = "lacks "
#: Archives that a checkout contains.
KEPT = ROOT / "tests" / "data"


class DryRunError(TenkenError):
    """ReFrame could not list the checks of a machine."""


@dataclass(frozen=True)
class Listed:
    """A row and whether it is selectable on its machine, or the reason why not."""

    row: Row
    selectable: bool
    why: str = ""
    measured: str = ""
    """The machine and the kept session that measured it; after `lacks` what that machine lacked."""

    @property
    def state(self) -> str:
        """measured or runnable; described if nothing more is known."""
        if self.measured and not self.measured.startswith(LACKS):
            return "measured"
        return "runnable" if self.row.run and self.selectable else "described"

    def as_json(self, known: Publications) -> dict[str, Any]:
        row = self.row
        return {
            "row": row.row, "publication": known.cited[row.publication], "place": row.place, "what": row.what,
            "value": row.value, "machine": row.system, "check": row.run.check if row.run else None,
            "metric": row.metric, "selectable": self.selectable, "why": self.why, "state": self.state,
            "measured": self.measured, "note": row.note,
        }  # fmt: skip


def register(subparsers: Any) -> None:
    """Adds the subcommand `publications` to the `tenken` command."""
    parser = subparsers.add_parser(
        "publications",
        help="the published results, the checks that reproduce them, and whether their machines select those",
        description="Lists every row of the publications and its state: measured (on which machine, in which kept "
        "session), runnable (its machine selects the check), or only described. --dry-run queries ReFrame and "
        "compares sizes, repetitions, nodes and ranks of the jobs with the publication. Exit status: 0; 1 if a "
        "machine does not select the check of its row.",
    )
    parser.add_argument("--system", metavar="NAME", help="only that machine's rows")
    parser.add_argument("--dry-run", action="store_true", help="query ReFrame, machine by machine (seconds each)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="the rows as JSON")
    shape.add_argument("--markdown", action="store_true", help="all rows of all machines as tables in Markdown")
    shape.add_argument("--page", type=Path, metavar="FILE", help="the figures and tables drawn, published and measured")
    parser.add_argument(
        "--measured", type=Path, nargs="+", default=[], metavar="SOURCE",
        help="for --page: result documents, archived records, or folders of them; for the list: archives; for both "
        "also packed archives (default of the list: this installation's and those kept with the tests)",
    )  # fmt: skip
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """0; 1 if a row that should be selectable is not."""
    known = publications.load()
    if arguments.markdown:
        print(markdown(known), end="")
        return 0
    if arguments.page is not None:
        return _page(known, arguments.page, arguments.measured)
    systems = {row.system for row in known.rows}
    if arguments.system and arguments.system not in systems:
        raise TenkenError(f"no row is of system '{arguments.system}'; allowed: {', '.join(sorted(systems))}")
    rows = [row for row in known.rows if arguments.system in (None, row.system)]
    listed = asked_of_reframe(rows) if arguments.dry_run else by_features(rows)
    listed = with_records(listed, arguments.measured or [archive_root(), *sorted(KEPT.glob("*.tar.xz"))])
    if arguments.json:
        print(json.dumps([one.as_json(known) for one in listed], indent=1))
    else:
        print("\n".join(_table(listed, known)))
    return int(any(not one.selectable and one.row.run for one in listed))


def _page(known: Publications, target: Path, sources: Sequence[Path]) -> int:
    from tenken.archive import packed
    from tenken.report import published, ratios
    from tenken.report.writing import write

    results = [result for source in sources for result in ratios.documents(packed.folder_of(source))]
    found = published.panels(known, loader.load_all(), results)
    write(target, published.page(known, found))
    print(f"{published.counted(found)}\nPage: {target}")
    return 0


def _table(listed: Sequence[Listed], known: Publications) -> Iterable[str]:
    head = ("row", "publication", "place", "value", "machine", "check", "state")
    lines = [head]
    for one in listed:
        row = one.row
        check = row.run.check if row.run else "-"
        lines.append((row.row, known.cited[row.publication].split(" (")[0], row.place, f"{row.what}: {row.value}",
                      row.system, check, _in_words(one, known)))  # fmt: skip
    widths = [min(max(len(line[at]) for line in lines), 60) for at in range(len(head) - 1)]
    for line in lines:
        yield "  ".join([*(f"{text:<{width}}" for text, width in zip(line[:-1], widths, strict=True)), line[-1]])
    facts, reasons = (sum(bool(getattr(one.row, name)) for one in listed) for name in ("fact", "reason"))
    missing = len(listed) - facts - reasons - sum(bool(one.row.run) and one.selectable for one in listed)
    states = [one.state for one in listed if one.row.run]
    yield (
        f"{len(listed)} rows: {states.count('measured')} measured, {states.count('runnable')} runnable, "
        f"{facts + reasons} described ({facts} properties of a machine, {reasons} that cannot be reproduced)"
        + (f"; {missing} that the machine should select and does not" if missing else "")
    )


def _in_words(one: Listed, known: Publications) -> str:
    if one.row.reason:
        return f"described: {known.reasons[one.row.reason]}"
    if one.row.fact:
        return "described: a property of the machine" if one.selectable else f"no: {one.why}"
    if not one.selectable:
        return f"no: {one.why}"
    return f"{one.state}: {one.measured}" if one.measured else one.state


# -- measured rows --


def with_records(listed: Sequence[Listed], archives: Iterable[Path]) -> list[Listed]:
    """The rows, with the first kept record of each; a complete record is preferred. A job of the row that measured
    nothing of it, since the machine lacks what that takes, is the record that states so.
    """
    from tenken.archive import packed, records
    from tenken.report import published

    systems = loader.load_all()
    found: dict[int, str] = {}
    for archive in archives:
        for record in records.records(packed.folder_of(archive)):
            result = record.result
            if result is None or result.status not in ("ok", "waived") or record.verdict not in HEALTHY:
                continue
            lacks = published.lacks(result)
            where = f"{published.machine(result)}, {archive.name} {record.session}"
            for at, one in enumerate(listed):
                if one.row.run is None or (at in found and (lacks or not found[at].startswith(LACKS))):
                    continue
                own = record.mode == MODE and record.check.split(" ")[0] == one.row.run.check
                whole = (own or one.row.metric) and published.measured(one.row, systems.get(one.row.system), result)
                if whole or (own and lacks and published.ran(one.row, result)):
                    found[at] = f"{LACKS}{lacks}; {where}" if lacks else where
    return [replace(one, measured=found.get(at, "")) for at, one in enumerate(listed)]


# -- whether a machine selects the check that reproduces a row --


def by_features(rows: Sequence[Row]) -> list[Listed]:
    """Compares the requirements of the checks with the features in the machine's file."""
    applicable: dict[str, set[str]] = {}
    systems = {row.system for row in rows if row.run}
    checks, errors = plan.describe_checks(MODE) if systems else ([], [])
    if errors:
        raise DryRunError(f"check file does not import: {errors[0]}")
    for name in systems:
        made = plan.make_plan(loader.load(name), checks, errors, MODE)
        applicable[name] = {check.split(" ")[0] for check in made.applicable}

    def listed(row: Row) -> Listed:
        if row.run is None:
            return _without_a_run(row)
        there = row.run.check in applicable[row.system]
        return Listed(row, there, "" if there else f"{row.run.check} does not apply to {row.system}")

    return [listed(row) for row in rows]


def _without_a_run(row: Row) -> Listed:
    if row.fact is None:
        return Listed(row, False)
    found, number = publications.fact(loader.load(row.system), row.fact), float(row.number or 0)
    right = math.isclose(found, number, rel_tol=0.005)
    return Listed(row, right, "" if right else f"{row.fact} of {row.system} is {found:g}, not {number:g}")


def asked_of_reframe(rows: Sequence[Row]) -> list[Listed]:
    """By a dry run on each machine in mode `published`."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for name in sorted({row.system for row in rows if row.run}):
        classes = sorted({row.run.check for row in rows if row.run and row.system == name})
        cases[name] = dry_run(loader.load(name), classes)
    found = []
    for row in rows:
        if row.run is None:
            found.append(_without_a_run(row))
        else:
            why = unmet(row.run, cases[row.system], _kinds(row))
            found.append(Listed(row, not why, why))
    return found


def dry_run(system: System, classes: Sequence[str]) -> list[dict[str, Any]]:
    """The cases of these checks in ReFrame's report for that machine. Raises DryRunError."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            "reframe", "-c", "checks", "--dry-run", "--system", system.name, "--mode", MODE,
            "-n", f"^({'|'.join(classes)})( |%|$)", f"--report-file={report}",
        ]  # fmt: skip
        env = {**os.environ, "RFM_COLORIZE": "n", "RFM_CONFIG_FILES": str(ROOT / "config" / "settings.py")}
        env |= {f"RFM_{key}_DIR": str(Path(folder) / key.lower()) for key in ("STAGE", "OUTPUT")}
        env |= {"TENKEN_ARCHIVE": str(Path(folder) / "perflogs")}
        env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), env.get("PATH", "")])
        for variable in system.variables.values():  # nothing is submitted: user variables may have any value
            if variable.required:
                env.setdefault(variable.name, "none")
        done = listed(command, cwd=ROOT, env=env)
        if not report.is_file():
            if done.returncode == 0:  # nothing applies
                return []
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            raise DryRunError(f"reframe, system '{system.name}': {lines[-1] if lines else 'no output'}")
        runs = json.loads(report.read_text(encoding="utf-8")).get("runs", [])
    return [case for one in runs for case in one["testcases"]]


def _kinds(row: Row) -> set[str]:
    """Kinds of subjects (host, gpu, ranks, ...) of the row's references."""
    return {r.subject for r in row.references(loader.load(row.system))} if row.metric else set()


def unmet(run: Run, cases: Iterable[Mapping[str, Any]], kinds: Collection[str] = ()) -> str:
    """Empty if each job of `run` is among the cases of a dry run and requests values of one of `kinds`; otherwise the
    first job that is not, with the reason.
    """
    jobs = [case for case in cases if case["display_name"].split(" ")[0] == run.check]
    if not jobs:
        return f"{run.check} does not apply"
    several = {key: value if isinstance(value, list) else [value] for key, value in run.asked.items()}
    for values in itertools.product(*several.values()):
        asked = dict(zip(several, values, strict=True))
        alike = [job for job in jobs if all(_says(_asked(job).get(key), value) for key, value in asked.items())]
        if not alike:
            return f"no job of {run.check} has {', '.join(f'{key} {value}' for key, value in asked.items())}"
        laid_out = [job for job in alike if layout(job) == (run.nodes, run.ranks)]
        if not laid_out:
            nodes, ranks = layout(alike[0])
            return f"{run.check} takes {nodes} nodes and {ranks} ranks, not {run.nodes} and {run.ranks}"
        requested = {kind for job in laid_out for kind in job["subjects"]}
        if kinds and requested.isdisjoint(kinds):
            return f"{run.check} requests values of {', '.join(sorted(requested))}, not of {', '.join(sorted(kinds))}"
        if all(job["result"] != "pass" for job in laid_out):
            return f"{run.check}: {laid_out[0].get('fail_reason') or 'skipped'}"
    return ""


def _asked(job: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {key.replace("-", "_"): value for key, value in (job.get("arguments") or {}).items()}
    return {**arguments, **(job.get("asked") or {})}


def _says(found: Any, wanted: Any) -> bool:
    """Equal, or one of several comma-separated values."""
    return str(found) == str(wanted) or str(wanted) in str(found).split(",")


def layout(job: Mapping[str, Any]) -> tuple[int, int]:
    """Nodes and ranks of a case."""
    ranks, each = job["num_tasks"] or 1, job["num_tasks_per_node"] or 1
    return math.ceil(ranks / each), ranks


# -- the rows on the site --


def markdown(known: Publications) -> str:
    """All rows as tables, one section per publication: the site appends them to docs/publications.md."""
    lines: list[str] = []
    for key, title in known.titles.items():
        lines += [f"## {known.cited[key]}", "", f"{title}.", ""]
        lines += ["| row | machine | place | quantity | printed | reference | check |", "|---|---|---|---|---|---|---|"]
        rows = [row for row in known.rows if row.publication == key and not row.reason]
        lines += [_markdown_row(row) for row in rows]
        gone = [row for row in known.rows if row.publication == key and row.reason]
        if gone:
            lines += ["", "Not reproduced:", ""]
            lines += ["| row | machine | place | quantity | printed | reason |", "|---|---|---|---|---|---|"]
            for row in gone:
                note = f". {_sentence(row.note)}" if row.note else ""
                why = known.reasons[row.reason or ""]
                cells = (row.row, row.system, row.place, row.what, row.value, f"{why}{note}")
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _markdown_row(row: Row) -> str:
    if row.fact:
        held = f"`{row.fact}` = {row.number:g}"
    else:
        at = ", ".join(f"{key} {_several(value)}" for key, value in row.at.items() if value is not None)
        held = f"`{row.metric}`" + (f" ({at})" if at else "") if row.metric else "no reference"
    note = f": {row.note}" if row.note else ""
    check = f"`{row.run.check}`" if row.run else "data sheet"
    if row.run and (row.run.nodes, row.run.ranks) != (1, 1):
        check += f", {row.run.nodes} nodes, {row.run.ranks} ranks" if row.run.nodes > 1 else f", {row.run.ranks} ranks"
    return f"| {' | '.join((row.row, row.system, row.place, row.what, row.value, held + note, check))} |"


def _several(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


def _sentence(text: str) -> str:
    return re.sub(r"^\w", lambda first: first[0].upper(), text)
