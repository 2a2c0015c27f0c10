"""`tenken propose`: references for a system file from the archive's own runs, as a diff for review."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenken.errors import TenkenError
from tenken.history.ingest import NoArchive, add_archive, ingest, require, store_of
from tenken.history.store import NIGHT, open_store
from tenken.machines.loader import LOCAL
from tenken.paths import SYSTEMS, archive_root

if TYPE_CHECKING:
    from tenken.history.nights import History
    from tenken.history.store import Store

#: Minimum number of nights for a reference.
LEAST_NIGHTS = 5
#: Minimum number of runs of one day for a provisional reference.
LEAST_RUNS = 3
#: Tolerance of a provisional one, likewise: one day shows less of a machine's variation than several nights, and few
#: runs show less of their spread.
PROVISIONAL_DEVIATIONS, LEAST_PROVISIONAL = 8.0, 0.05
#: Tolerance: this many robust standard deviations of single values, at least LEAST_TOLERANCE.
DEVIATIONS, LEAST_TOLERANCE = 4.0, 0.02


class ProposeError(TenkenError):
    """There is no data for a proposal."""


@dataclass(frozen=True)
class Proposal:
    """A reference from history, or the reason why there is none (`refused`). Spread and tolerance are relative."""

    program: str
    metric: str
    subject: str
    partition: str
    environ: str
    parameters: dict[str, Any]
    unit: str
    statistic: str
    direction: str
    value: float
    tolerance: float
    count: int
    spread: float
    first: date
    last: date
    driver: str
    refused: str = ""
    left_out: int = 0
    provisional: bool = False
    too_few_nights: bool = False
    group: tuple[str, ...] = ()

    @property
    def entry(self) -> dict[str, Any]:
        """In the format of systems/<name>.yaml."""
        bounds: dict[str, Any] = {"lower": -self.tolerance, "upper": None}
        if self.direction == "lower":
            bounds = {"lower": None, "upper": self.tolerance}
        return {
            "metric": f"{self.program}.{self.metric}", "subject": self.subject, "partition": self.partition,
            "environ": [self.environ], **({"parameters": self.parameters} if self.parameters else {}),
            "value": float(f"{self.value:.5g}"), **bounds, "unit": self.unit, "statistic": self.statistic,
            "count": self.count, "spread": round(self.spread, 4), "date": self.last,
            **({"driver": self.driver} if self.driver else {}),
            **({"provisional": True} if self.provisional else {}),
            "source": self.source,
        }  # fmt: skip

    @property
    def source(self) -> str:
        if self.provisional:
            return f"archive, {self.count} runs of {self.last}: provisional, until {LEAST_NIGHTS} nights replace it"
        return f"archive, {self.count} runs, {self.first} to {self.last}"


def register(subparsers: Any) -> None:
    """Adds the subcommand `propose` to the `tenken` command."""
    parser = subparsers.add_parser(
        "propose",
        help="propose references for a system file from its history, as a diff",
        description="Invalid runs, regressed or outlying series, and drivers other than the current one are left out. "
        f"With fewer than {LEAST_NIGHTS} nights, {LEAST_RUNS} runs of the last day give provisional ones, "
        "marked as such. "
        "Exit status: 0 a diff was printed, 3 nothing can be proposed.",
    )
    parser.add_argument("system", help="the system whose file gets references")
    parser.add_argument("--nights", type=int, default=30, help="use the last N nights (default: 30)")
    parser.add_argument(
        "--acknowledged", type=Path, metavar="FILE", help="accepted shifts (default: reports/acknowledged.yaml)"
    )
    parser.add_argument("--file", type=Path, help="the system file (default: systems/<system>.yaml)")
    add_archive(parser)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken propose`; the diff goes to standard output, what was refused to standard error."""
    from tenken.history import nights

    file = arguments.file or SYSTEMS / f"{arguments.system}.yaml"
    # `local` is detected automatically: its references go into the file created for it
    shown = arguments.system == LOCAL and arguments.file is None
    if not shown and not file.is_file():
        raise ProposeError(f"{file}: no such system file")
    archive = arguments.archive or archive_root()
    try:
        with open_store(store_of(arguments), require(archive)) as store:
            ingest(store, archive)
            if arguments.system not in nights.systems(store):
                raise NoArchive(f"{archive}: no history of system '{arguments.system}'")
            history = nights.load(store, arguments.system)
            of_last_day = _runs_of_last_day(store, history)
    except NoArchive as error:
        print(f"tenken propose: {error}", file=sys.stderr)
        return 3
    proposals = propose(history, arguments.nights, arguments.acknowledged)
    proposals = [_or_provisional(one, of_last_day, history) for one in proposals]
    for one in proposals:
        if one.refused:
            print(f"refused: {one.program}.{one.metric} ({one.subject}): {one.refused}", file=sys.stderr)
        elif one.left_out:
            text = f"{one.left_out} outlying or regressed series left out"
            print(f"note: {one.program}.{one.metric} ({one.subject}): {text}", file=sys.stderr)
    good = [one for one in proposals if not one.refused]
    if shown:
        sys.stdout.write("references:\n" + "".join(_rendered(one.entry) for one in good) if good else "")
        print(
            "note: 'local' has no file: `tenken systems new NAME --scheduler local` creates one; `tenken propose local "
            "--file systems/NAME.yaml` then prints a diff",
            file=sys.stderr,
        )
        return 0 if good else 3
    sys.stdout.write(patch(file, good))
    return 0 if good else 3


Group = tuple[str, ...]


def _runs_of_last_day(store: Store, history: History) -> dict[Group, list[list[float]]]:
    """Valid values of the last day by subject: a list of runs for each series."""
    if not history.nights:
        return {}
    rows = store.rows(
        f"SELECT series, value FROM points WHERE valid AND {NIGHT} = ? ORDER BY series, time", [history.nights[-1]]
    )
    of_series: dict[int, list[float]] = defaultdict(list)
    for number, value in rows:
        of_series[number].append(float(value))
    found: dict[Group, list[list[float]]] = defaultdict(list)
    for series in history.series:
        if series.number in of_series and not series.coordinates:
            found[series.siblings].append(of_series[series.number])
    return found


def _or_provisional(one: Proposal, runs: dict[Group, list[list[float]]], history: History) -> Proposal:
    """Replaces a proposal that has too few nights by one from the runs of the last day."""
    import numpy as np

    if not one.too_few_nights:
        return one
    series = runs.get(one.group, [])
    least = min((len(values) for values in series), default=0)
    if least < LEAST_RUNS:
        said = f"{one.refused}; a provisional one needs {LEAST_RUNS} runs of one day, there are {least}"
        return replace(one, refused=said)
    known = np.array([value for values in series for value in values])
    middle = float(np.median(known))
    if not middle:
        return one
    robust = float(1.4826 * np.median(np.abs(known - middle)) / abs(middle))
    spread = float(np.std(known, ddof=1) / abs(middle))
    tolerance = round(max(LEAST_PROVISIONAL, PROVISIONAL_DEVIATIONS * max(robust, spread)), 3)
    if tolerance >= 1:
        return replace(one, refused=f"its {len(known)} runs of a day spread by {100 * spread:.0f} %")
    day = history.nights[-1]
    return replace(
        one, value=middle, tolerance=tolerance, count=len(known), spread=spread, first=day, last=day, refused="",
        provisional=True,
    )  # fmt: skip


def propose(history: History, last_nights: int = 30, accepted: Path | None = None) -> list[Proposal]:
    """One proposal per metric, kind of subject, partition, environment and parameters, from all good series
    together."""
    import numpy as np

    from tenken.history import acknowledged, causes, nights
    from tenken.history.detect import Settings

    settings = Settings()
    found = nights.judge(history, settings)
    events = causes.findings(history, found)
    acknowledged.apply(acknowledged.read_all(accepted or acknowledged.FILE), history, events)
    bad = {row for f in events if f.alarming for row in f.rows}
    # an accepted new level is the machine's level
    values = history.values.copy()
    for finding in events:
        if finding.acknowledged and finding.kind != "outlier":
            values[finding.rows, : finding.night] = np.nan
    history = replace(history, values=values)
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, series in enumerate(history.series):
        if series.program and series.kind in ("host", "gpu", "pair") and not series.coordinates:
            groups[series.siblings].append(row)
    out = []
    for rows in groups.values():
        good = [r for r in rows if r not in bad]
        window = slice(max(0, len(history.nights) - last_nights), None)
        out.append(_proposal(history, rows, good, window, np))
    return out


def _proposal(history: History, rows: list[int], good: list[int], window: slice, np: Any) -> Proposal:
    first = history.series[rows[0]]
    values, marks = history.values[good, window], history.fingerprints[good, window]
    drivers = {n: (history.environments[n][0] if n in history.environments else "") for n in np.unique(marks)}
    driver = ""
    if good:
        for column in range(marks.shape[1] - 1, -1, -1):
            seen = [drivers[n] for n in marks[:, column] if n >= 0]
            if seen:
                driver = max(set(seen), key=seen.count)
                break
        same = np.vectorize(lambda n: drivers.get(n, "") == driver, otypes=[bool])(marks)
        values = np.where(same, values, np.nan)
    known = values[~np.isnan(values)]
    nights = [n for n, there in zip(history.nights[window], ~np.isnan(values).all(axis=0), strict=False) if there]
    refused = ""
    if not good:
        refused = "all of its series regressed or are outlying: repair them, or acknowledge the new level"
    elif len(nights) < LEAST_NIGHTS:
        refused = f"{len(nights)} valid nights with driver {driver or 'unknown'}; at least {LEAST_NIGHTS} are needed"
    middle = float(np.median(known)) if len(known) else 0.0
    robust = float(1.4826 * np.median(np.abs(known - middle)) / abs(middle)) if middle else 0.0
    kept = known[np.abs(known - middle) <= 6 * max(robust, 0.001) * abs(middle)] if middle else known
    spread = float(np.std(kept, ddof=1) / abs(middle)) if len(kept) > 1 and middle else 0.0
    tolerance = round(max(LEAST_TOLERANCE, DEVIATIONS * max(robust, spread)), 3)
    both = json.loads(first.parameters) if first.parameters.startswith("{") else {}
    empty = history.nights[-1]
    return Proposal(
        first.program, first.metric, first.kind, first.partition, first.environ,
        {k: v for k, v in both.items() if isinstance(v, (str, int, float, bool)) and v != "" and k not in _MANNER},
        first.unit, first.statistic, first.direction, middle, tolerance, len(kept), spread,
        nights[0] if nights else empty, nights[-1] if nights else empty, driver, refused, len(rows) - len(good),
        too_few_nights=bool(good) and len(nights) < LEAST_NIGHTS, group=first.siblings,
    )  # fmt: skip


#: Parameters that set the effort of a measurement or select its devices; all others identify the measurement. One that
#: is missing here makes a reference narrower than necessary, never wrong.
_MANNER = frozenset(
    (
        *("repetitions", "trials", "warmup_seconds", "variant_warmup_seconds", "target_seconds", "patience_seconds"),
        *("seed", "timing", "gpus", "nodes", "inject_fault", "break_matrix", "die", "stay"),
    )
)


def patch(file: Path, proposals: list[Proposal]) -> str:
    """A unified diff of the system file with the proposals in place of the references that they replace.

    Only `references` changes in the file: comments and the order of everything else are kept.
    """
    from ruamel.yaml import YAML

    text = file.read_text(encoding="utf-8")
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 4096
    yaml.preserve_quotes = True
    raw = yaml.load(text)
    known: Any = raw.get("references") or []
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    new = list(lines)
    starts = [known.lc.item(i)[0] for i in range(len(known))] if known else []
    added: list[str] = []
    for one in proposals:
        rendered = _rendered(one.entry)
        index = next((i for i, r in enumerate(known) if _same(r, one.entry)), None)
        if index is None:
            added.append(rendered)
            continue
        end = starts[index + 1] if index + 1 < len(starts) else _end(lines, starts[index])
        while end > starts[index] + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        new[starts[index]] = rendered
        for line in range(starts[index] + 1, end):
            new[line] = ""
    if added:
        if known:
            new.insert(_end(lines, starts[-1]), "".join(added))
        else:
            new.append("\nreferences:\n" + "".join(added))
    after = "".join(new).splitlines(keepends=True)
    name = f"{file.parent.name}/{file.name}"
    return "".join(difflib.unified_diff(lines, after, f"a/{name}", f"b/{name}"))


def _end(lines: list[str], start: int) -> int:
    """The line after the block that begins at `start`: the next one without indentation."""
    for number in range(start + 1, len(lines)):
        if lines[number][:1] not in (" ", "\n", "#", "-", "\r"):
            return number
    return len(lines)


def _rendered(entry: dict[str, Any]) -> str:
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt", pure=True)
    yaml.default_flow_style = None
    yaml.width = 4096
    sink = StringIO()
    yaml.dump(entry, sink)
    body = sink.getvalue().splitlines()
    return "".join(f"{'  - ' if i == 0 else '    '}{line}\n" for i, line in enumerate(body))


def _same(known: Any, entry: dict[str, Any]) -> bool:
    keys = ("metric", "subject", "partition")
    return (
        all(known.get(k) == entry[k] for k in keys)
        and list(known.get("environ") or entry["environ"]) == entry["environ"]
        and dict(known.get("parameters") or {}) == entry.get("parameters", {})
        and known.get("published") is None
    )
