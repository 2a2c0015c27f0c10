"""Verdicts from history: regressions, missing series, and series that cannot be judged."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenken.history.ingest import Ingested, NoArchive, ingest, require, store_of
from tenken.history.store import NIGHT, open_store
from tenken.model import node_groups
from tenken.paths import archive_root

if TYPE_CHECKING:
    import numpy as np

    from tenken.history.acknowledged import Retired
    from tenken.history.causes import Finding
    from tenken.history.detect import Findings
    from tenken.history.nights import History

#: A series with this many values is expected to run as often as usual until it is retired.
INVENTORY = 5
#: Maximum number of listed names of missing nodes or measurements.
SHOWN = 5
#: A finding is folded after it was shown on this many nights.
FOLDED = 3
#: A series is missing if its gap exceeds this many of its usual gaps; for a nightly series, one night.
GAPS = 2
#: Number of nights that determine which series ran recently.
SILENT = 14
WEEK = 7
#: A PASS covers at least this fraction of the recent series; the others are listed with it.
JUDGED = 0.5
#: The sensitivity is computed from about this many evenly spaced series, and reported for half and for 95 % of them.
POWER_OF = 1000
#: Values that were refused, by system and reason, with the last night on which some were.
_REFUSED = (
    f"SELECT system, why, count(*), max(night) FROM (SELECT run, reason AS why, {NIGHT} AS night FROM refused) "
    "JOIN runs USING (run) WHERE night <= ? GROUP BY ALL ORDER BY 1, 3 DESC"
)


@dataclass
class Judged:
    """One system after the last night."""

    history: History
    found: Findings
    findings: list[Finding]
    #: series that did not run on the last night, or only under invalid conditions
    missing: list[int] = field(default_factory=list)
    void: list[int] = field(default_factory=list)
    retired: list[int] = field(default_factory=list)
    #: smallest drop detected within this many nights with 90 % probability: nights -> (in half of the series, in 95 %)
    power: dict[int, tuple[float, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: rows that are judged only together with their siblings
    together: frozenset[int] = frozenset()

    @property
    def alarms(self) -> list[Finding]:
        return [f for f in self.findings if f.alarming]

    def is_new(self, finding: Finding) -> bool:
        """Whether a finding is reported for the first time."""
        return finding.found >= len(self.history.nights) - 1

    def is_standing(self, finding: Finding) -> bool:
        """Whether an alarm was already shown on FOLDED nights."""
        return finding.alarming and finding.found <= len(self.history.nights) - 1 - FOLDED

    def is_past(self, finding: Finding) -> bool:
        """Whether a finding that is not an alarm is unchanged for several nights."""
        latest = max(finding.found, finding.ended or 0)
        return not finding.alarming and latest <= len(self.history.nights) - 1 - FOLDED

    def in_order(self) -> list[Finding]:
        """New ones first, then those of the last nights, then older open ones and those that are over or known."""
        order = {True: 0, False: 1}
        return sorted(
            self.findings,
            key=lambda f: (order[f.alarming], self.is_standing(f), order[self.is_new(f)]),
        )

    @property
    def states(self) -> Counter[str]:
        return Counter(state.value for state in self.found.state)

    @property
    def night(self) -> date:
        return self.history.nights[-1]

    @property
    def learning(self) -> list[int]:
        """Rows of series that ran recently and have too few values to be judged."""
        ran = (self.history.values[:, -SILENT:] == self.history.values[:, -SILENT:]).any(axis=1)
        alone = self.found.nights
        return [row for row in range(len(ran)) if ran[row] and alone[row] == 0 and row not in self.together]

    @property
    def share(self) -> str:
        """Coverage of the verdict."""
        kept = set(range(len(self.history.series))) - set(self.retired)
        # one that ran only under invalid conditions has no value, and is not judged either
        judged = sum(self.found.nights[row] > 0 or row in self.together for row in kept)
        return f"{judged} of {len(kept)} series judged"


@dataclass
class Gate:
    """The result of one gate run; `exit_code` is its verdict."""

    archive: Path
    systems: list[Judged]
    ingested: Ingested
    #: values that a series needs before it is judged (settings.judged_from)
    judged_from: int
    #: reasons for an incomplete answer, one sentence each
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

    @property
    def headline(self) -> str:
        """The verdict with its coverage."""
        told = "; ".join(f"{one.history.system}: {one.share}" for one in self.systems)
        return f"{self.verdict} ({told})" if told else self.verdict


def judge(arguments: argparse.Namespace) -> Gate:
    """Read, judge and group. Raises NoArchive, StoreError, AcknowledgedError, GroupsError."""
    from tenken.history import acknowledged, causes, nights
    from tenken.history.detect import Settings

    archive = arguments.archive or archive_root()
    path = store_of(arguments)
    settings = Settings()
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
        refused = store.rows(_REFUSED, [arguments.night or date.max])
    groups = {} if arguments.groups is None else node_groups.read(arguments.groups)
    gate = Gate(archive, [], ingested, settings.judged_from)
    decisions = acknowledged.read_all(arguments.acknowledged or acknowledged.FILE)
    for history in histories:
        if not history.nights:
            continue
        history = replace(history, groups=groups)
        kept = path.with_name(f"{path.name}.{history.system}.state")
        notices: list[str] = []
        found = nights.judge(history, settings, kept if arguments.night is None else None, notices)
        one = system(history, found, settings, decisions.retired)
        one.notes += notices
        acknowledged.apply(decisions, history, one.findings)
        one.findings = causes.joined(history, one.findings)
        acknowledged.apply(decisions, history, one.findings)
        gate.systems.append(one)
        gate.incomplete += _incomplete(one, settings.judged_from, 0 if arguments.night else arguments.max_age)
    if not gate.systems:
        gate.incomplete.append(f"the archive {archive} contains no values yet: no series was judged")
    newest = {one.history.system: one.night for one in gate.systems}
    for name, reason, count, last in refused:
        if arguments.system in (None, name) and last >= newest.get(name, last):
            gate.incomplete.append(f"{name}: {count} values were refused, the last on {last}: {reason}")
    if ingested.bad:
        gate.incomplete.append(
            f"{len(ingested.bad)} new files or lines cannot be read, the first: {': '.join(ingested.bad[0])}"
        )
    return gate


def system(history: History, found: Findings, settings: Any, retired: Sequence[Retired] = ()) -> Judged:
    """The findings, gaps and power of one system."""
    import numpy as np

    from tenken.history import causes, siblings
    from tenken.history.detect import power

    pool = siblings.pooled(history, settings)
    one = Judged(history, found, causes.findings(history, found, pool.found, pool.drifts), together=pool.judged)
    ran = ~np.isnan(history.values)
    one.retired = [row for row in range(len(ran)) if any(entry.covers(history, row) for entry in retired)]
    one.void = [int(r) for r in np.flatnonzero(history.invalid[:, -1] & ~ran[:, -1]) if r not in one.retired]
    known = {*one.void, *one.retired}
    one.missing = [row for row in range(len(ran)) if row not in known and _overdue(ran[row])]
    if found.judged:
        judged = np.flatnonzero(found.nights > 0)
        some = found.noise.take(judged[:: max(1, len(judged) // POWER_OF)])
        for nights_ in (2, 3, 5, 10):
            least = np.sort(power(some, nights_))
            least = least[~np.isnan(least)]
            if len(least):
                half, most = least[(len(least) - 1) // 2], least[min(len(least) - 1, int(0.95 * len(least)))]
                one.power[nights_] = (float(half), float(most))
    one.notes = _renamed(history)
    return one


def _overdue(ran: np.ndarray) -> bool:
    """Whether a series is overdue, by the gaps between its runs."""
    import numpy as np

    nights = np.flatnonzero(ran)
    if len(nights) < INVENTORY:
        return False
    usual = float(np.median(np.diff(nights[-20:])))
    return len(ran) - 1 - int(nights[-1]) > GAPS * (usual - 1)


def _incomplete(one: Judged, judged_from: int, max_age: int) -> list[str]:
    history, out = one.history, []
    if not one.found.judged:
        out.append(
            f"{history.system}: no series was judged: each is judged from its {judged_from}th night on "
            f"(available: {len(history.nights)})"
        )
    elif len(one.learning) > (1 - JUDGED) * (len(history.series) - len(one.retired)):
        out.append(
            f"{history.system}: only {one.share}: the others have fewer than {judged_from} values (not nights) "
            f"and cannot be judged"
        )
    age = (datetime.now(timezone.utc) - timedelta(hours=12)).date() - one.night
    if max_age and age.days > max_age:
        out.append(f"{history.system}: the last night is {one.night}, {age.days} days ago: no run since")
    if one.void:
        on = _listed(sorted({history.series[r].node for r in one.void}))
        many = f"{len(one.void)} of {len(history.series)} series"
        out.append(f"{history.system}: {many} ran under invalid conditions, on {on}")
    return out + _missing(one)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _missing(one: Judged) -> list[str]:
    """One line per cause: whole nodes; and measurements, with the nodes on which they are missing, by their last
    night."""
    import numpy as np

    history, missing = one.history, set(one.missing)
    ran = ~np.isnan(history.values)
    of_node: dict[str, list[int]] = defaultdict(list)
    for row, series in enumerate(history.series):
        if row not in one.retired:
            of_node[series.node].append(row)
    dead = {node for node, rows in of_node.items() if missing.issuperset(rows)}
    by_measure: dict[tuple[int, str], list[int]] = defaultdict(list)  # by last night; "" for all of a node
    for row in one.missing:
        series = history.series[row]
        whole = series.node in dead
        final = int(np.flatnonzero(ran[of_node[series.node] if whole else [row]].any(axis=0))[-1])
        by_measure[final, "" if whole else series.measure].append(row)
    causes: dict[tuple[int, bool, tuple[str, ...]], list[tuple[str, list[int]]]] = defaultdict(list)
    for (final, measure), rows in by_measure.items():
        nodes = tuple(sorted({history.series[r].node or "unknown" for r in rows}))
        causes[final, bool(measure), nodes].append((measure, rows))
    out = []
    for (final, partly, nodes), found in sorted(causes.items()):
        rows = [row for _, some in found for row in some]
        since = history.nights[min(final + 1, len(history.nights) - 1)]
        many = len(nodes) > 1
        on = f"{len(nodes)} nodes ({_listed(nodes)})" if many else f"node {nodes[0]}"
        if partly:
            text = f"{_listed(sorted(measure for measure, _ in found))}: missing on {on} since {since}"
        else:
            text = f"{on}: silent since {since}"
        text += f" ({len(rows)} series)"
        beside = [row for node in nodes for row in of_node.get(node, ()) if ran[row, -1]]
        if changed := _changed(history, beside, final + 1):
            text += f", since the update of {', '.join(changed)}"
        out.append(f"{history.system}: {text}: repair it, or retire it in reports/acknowledged.yaml")
    return out


def _changed(history: History, rows: Sequence[int], night: int) -> list[str]:
    """What changed in the environment of most of these series, which still run, when others stopped."""
    from tenken.history.causes import COVERED, changes

    counts = Counter(change for row in rows for change in changes(history, row, night))
    return [f"{name} {was} → {now}" for (name, was, now), n in sorted(counts.items()) if n >= COVERED * len(rows)]


def _renamed(history: History) -> list[str]:
    """Nodes that stopped while their GPUs continued under another name, as far as the last night shows."""
    import numpy as np

    silent: dict[str, bool] = {}
    ran = ~np.isnan(history.values) | history.invalid
    recent = ran[:, -WEEK:].any(axis=1)
    for row, series in enumerate(history.series):
        if not series.gpu:
            silent[series.node] = silent.get(series.node, True) and not bool(recent[row])
    return [f"node {name} has not run for at least {WEEK} nights" for name, quiet in sorted(silent.items()) if quiet]
