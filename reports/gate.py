"""`tenken gate`: verdicts from history. Exit status 0 nothing got worse, 1 a regression, 3 incomplete or invalid."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.ingest import Ingested, NoArchive, add_archive, ingest, require, store_of
from reports.store import StoreError, open_store
from tenken.errors import TenkenError
from tenken.paths import ROOT, archive_root

if TYPE_CHECKING:
    from reports.causes import Finding
    from reports.detect import Findings
    from reports.nights import History

#: A series that ran on this part of the last WEEK nights and not on the last one is missing.
USUAL, WEEK = 0.5, 7
#: Nights a series may be silent before it counts as taken out of service.
SILENT = 14
#: About so many series, evenly taken, tell the power of all: it is said for half and for 95 % of them.
POWER_OF = 1000


@dataclass
class Judged:
    """One system after the last night."""

    history: History
    found: Findings
    findings: list[Finding]
    #: rows of series that did not run on the last night, or only void
    missing: list[int] = field(default_factory=list)
    void: list[int] = field(default_factory=list)
    retired: list[int] = field(default_factory=list)
    #: smallest drop seen after so many nights, with 90 % chance: nights -> (in half of the series, in 95 %)
    power: dict[int, tuple[float, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def alarms(self) -> list[Finding]:
        return [f for f in self.findings if f.alarming]

    @property
    def states(self) -> Counter[str]:
        return Counter(state.value for state in self.found.state)

    @property
    def night(self) -> date:
        return self.history.nights[-1]


@dataclass
class Gate:
    """What one gate run knows; `exit_code` is its verdict."""

    archive: Path
    systems: list[Judged]
    ingested: Ingested
    least: int
    #: why the answer is incomplete, one sentence each
    incomplete: list[str] = field(default_factory=list)

    @property
    def alarms(self) -> list[Finding]:
        return [f for one in self.systems for f in one.alarms]

    @property
    def exit_code(self) -> int:
        if self.alarms:
            return 1
        return 3 if self.incomplete else 0

    @property
    def verdict(self) -> str:
        return {0: "PASS", 1: "FAIL", 3: "INVALID"}[self.exit_code]


def register(subparsers: Any) -> None:
    """Adds the subcommand `gate` to the `tenken` command."""
    parser = subparsers.add_parser(
        "gate",
        help="say what got worse since the nights before, and why",
        description="Brings the archive into the store, judges every series against its own history, and writes "
        "findings.json, junit.xml, summary.md, tenken.prom and nightly.html. Exit status: 0 nothing got worse, "
        "1 a regression that nobody has acknowledged, 3 incomplete or invalid.",
    )
    add_archive(parser)
    parser.add_argument("--system", help="judge this system only (default: all that have history)")
    parser.add_argument(
        "--night", type=date.fromisoformat, metavar="DATE", help="judge as of that night (default: last)"
    )
    parser.add_argument(
        "--max-age", type=int, default=2, metavar="DAYS",
        help="a last night older than this is incomplete (default: 2; 0: any age; no effect with --night)",
    )  # fmt: skip
    parser.add_argument("--no-ingest", action="store_true", help="judge what is in the store already")
    parser.add_argument(
        "--acknowledged", type=Path, metavar="FILE", help="accepted shifts (default: reports/acknowledged.yaml)"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write (default: output/gate)")
    parser.add_argument("--absolute-floor", type=float, default=0.0, metavar="X", help=argparse.SUPPRESS)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken gate`; returns its exit status. What keeps it from judging is 3, never 0."""
    from reports import notices

    try:
        gate = judge(arguments)
    except (NoArchive, StoreError) as error:
        print(f"tenken gate: INCOMPLETE: {error}", file=sys.stderr)
        return 3
    target = arguments.output or ROOT / "output" / "gate"
    print(notices.text(gate))
    try:
        notices.write_all(gate, target)
        print(f"\nPage: {target / 'nightly.html'}")
    except OSError as error:
        print(f"tenken gate: cannot write to {target}: {error.strerror}", file=sys.stderr)
        return gate.exit_code or 3
    return gate.exit_code


def judge(arguments: argparse.Namespace) -> Gate:
    """Read, judge and group. Raises NoArchive, StoreError, AcknowledgedError."""
    from reports import acknowledged, nights
    from reports.detect import Settings

    archive = arguments.archive or archive_root()
    path = store_of(arguments)
    settings = Settings(absolute_floor=arguments.absolute_floor)
    with open_store(path, require(archive)) as store:
        ingested = Ingested() if arguments.no_ingest else ingest(store, archive)
        names = nights.systems(store)
        if arguments.system and arguments.system not in names:
            raise NoArchive(
                f"{archive}: no history of system '{arguments.system}'; known: {', '.join(names) or 'none'}"
            )
        histories = [
            nights.load(store, name, arguments.night) for name in ([arguments.system] if arguments.system else names)
        ]
        refused = store.rows("SELECT reason, count(*), max(time) FROM refused GROUP BY reason ORDER BY 2 DESC")
    gate = Gate(archive, [], ingested, settings.least_baseline)
    entries = acknowledged.read(arguments.acknowledged or acknowledged.FILE)
    for history in histories:
        if not history.nights:
            continue
        kept = path.with_name(f"{path.name}.{history.system}.state")
        found = nights.judge(history, settings, kept if arguments.night is None else None)
        one = system(history, found, settings)
        acknowledged.apply(entries, history, one.findings)
        gate.systems.append(one)
        gate.incomplete += _incomplete(one, settings.least_baseline, 0 if arguments.night else arguments.max_age)
    if not gate.systems:
        gate.incomplete.append(f"the archive {archive} holds no values yet: nothing was judged")
    newest = max((one.night for one in gate.systems), default=None)
    for reason, count, last in refused:
        if newest is None or last.date() >= newest - timedelta(days=1):
            gate.incomplete.append(f"{count} values were refused, the last on {last:%Y-%m-%d}: {reason}")
    if ingested.bad:
        gate.incomplete.append(
            f"{len(ingested.bad)} new files or lines cannot be read, the first: {': '.join(ingested.bad[0])}"
        )
    return gate


def system(history: History, found: Findings, settings: Any) -> Judged:
    """The findings, gaps and power of one system."""
    import numpy as np

    from reports import causes
    from reports.detect import power

    one = Judged(history, found, causes.findings(history, found, settings))
    ran = ~np.isnan(history.values)
    week = ran[:, -1 - WEEK : -1]
    usual = week.mean(axis=1) >= USUAL if week.shape[1] else np.zeros(len(ran), bool)
    gone = usual & ~ran[:, -1]
    one.void = [int(r) for r in np.flatnonzero(history.invalid[:, -1] & ~ran[:, -1])]
    one.missing = [int(r) for r in np.flatnonzero(gone) if r not in set(one.void)]
    if ran.shape[1] > SILENT:
        one.retired = [int(r) for r in np.flatnonzero(~ran[:, -SILENT:].any(axis=1))]
    if found.judged:
        judged = np.flatnonzero(found.nights > 0)
        some = found.noise.take(judged[:: max(1, len(judged) // POWER_OF)])
        for nights_ in (2, 3, 5, 10):
            least = np.sort(power(some, nights_, found.judged, settings))
            least = least[~np.isnan(least)]
            if len(least):
                half, most = least[(len(least) - 1) // 2], least[min(len(least) - 1, int(0.95 * len(least)))]
                one.power[nights_] = (float(half), float(most))
    one.notes = _renamed(history)
    return one


def _incomplete(one: Judged, least: int, max_age: int) -> list[str]:
    history, out = one.history, []
    if not one.found.judged:
        out.append(
            f"{history.system}: no series has {least} nights of baseline yet, which is after {least * 3 // 2} nights "
            f"(there are {len(history.nights)}): nothing was judged"
        )
    age = (datetime.now(timezone.utc) - timedelta(hours=12)).date() - one.night
    if max_age and age.days > max_age:
        out.append(f"{history.system}: the last night is {one.night}, {age.days} days ago: no run since")
    for rows, what in ((one.missing, "did not run last night"), (one.void, "ran under conditions that void it")):
        if rows:
            nodes = sorted({history.series[r].node for r in rows})
            shown = ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
            out.append(f"{history.system}: {len(rows)} of {len(history.series)} series {what}, on {shown}")
    return out


def _renamed(history: History) -> list[str]:
    """Nodes that stopped and whose GPUs live on under another name, as far as the last night shows."""
    import numpy as np

    silent: dict[str, bool] = {}
    recent = ~np.isnan(history.values[:, -WEEK:]).all(axis=1)
    for row, series in enumerate(history.series):
        if not series.gpu:
            silent[series.node] = silent.get(series.node, True) and not bool(recent[row])
    return [f"node {name} has not run for {WEEK} nights or more" for name, quiet in sorted(silent.items()) if quiet]


class GateError(TenkenError):
    """A gate that cannot answer."""
