"""Combines events of single series into findings: one alert per cause, with concurrent changes of the environment.

Pure functions on arrays; docs/gate.md describes them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tenken.history.detect import Event, Findings, Group, fleet_outliers, group_events
from tenken.history.nights import History
from tenken.history.parts import COMMON, nodes_of, shared
from tenken.history.record_parser import FINGERPRINT
from tenken.history.siblings import Together

#: A fingerprint that changed within this many nights of a shift coincides with it, since the date of a shift is known
#: to a night or two.
NEAR = 2
#: ... and explains it if at least these fractions hold: moved series that had the change, and series with the change
#: that moved.
COVERED, MOVED = 0.8, 0.5
#: This many regressions of one series within this many nights, each recovered, are flapping.
FLAPS, FLAP_NIGHTS = 2, 30
#: An event of one sibling belongs to an event of all siblings if it began within this many nights of it (or this many
#: later, since detection on one takes longer) and is at most this factor larger. A component that moves again after
#: this many nights is drifting.
SAME, LATER, TWICE = 3, 12, 2.0
#: Kinds of findings that are shifts of a level.
SHIFTS = ("step", "drift")
#: Uncertainty of the night on which noise began.
UNSURE = 5
#: A sibling is reported if it was an outlier on this many of the last nights on which it ran.
OUTLIER_NIGHTS, OUTLIER_OF = 2, 3
#: Number of last nights that show how often siblings of a group are outliers and return.
OUTLIER_PAST = 30


@dataclass(frozen=True)
class Cause:
    """A field of the environment that changed on the night of a shift: old value, new value, nodes."""

    field: str
    before: str
    after: str
    nodes: tuple[str, ...]

    @property
    def text(self) -> str:
        nodes = f"all of {len(self.nodes)} nodes" if len(self.nodes) > 3 else ", ".join(self.nodes)
        return f"{self.field} {self.before or 'unknown'} → {self.after or 'unknown'} on {nodes}"


@dataclass
class Finding:
    """One cause with its members. Sizes are relative changes of the value: -0.05 is 5 % less.

    `kind` is step, drift, flapping, noisy or outlier (for noisy, sizes are those of the scatter); `what` is the faulty
    component; nights are columns of the history.
    """

    kind: str
    label: str
    what: str
    worse: bool
    night: int
    found: int
    size: float
    low: float
    high: float
    evidence: float
    p_value: float
    rows: list[int]
    of: int
    causes: list[Cause] = field(default_factory=list)
    times: int = 1
    recovered: int | None = None
    #: on the night `recovered` its series became noisy, and no level had moved
    withdrawn: bool = False
    #: the night on which its end was known
    ended: int | None = None
    acknowledged: str = ""
    notes: list[str] = field(default_factory=list)
    #: the largest size of the findings joined into this one
    largest: float | None = None

    @property
    def alarming(self) -> bool:
        """Whether it counts for the verdict: a regression that is open and not acknowledged."""
        return self.worse and self.recovered is None and not self.acknowledged


def findings(
    history: History,
    found: Findings,
    together: Sequence[Together] = (),
    drifts: Sequence[Event] = (),
) -> list[Finding]:
    """All findings, open ones first, then improvements and recovered ones; includes outliers of the last night.

    Every event is a member of one finding: each event opened by the detector is reported. Changes of siblings,
    `together`, include the events of their members, so that one cause is reported once. A series in `drifts`, which
    falls behind its siblings, is reported unless it already was.
    """
    out, taken = _together(history, together, found.events)
    slow = [e for e in drifts if not any(_known(e, other) for other in found.events)]
    taken |= {id(e) for e in found.events if any(_stage(one, e) for one in slow)}
    own = [e for e in found.events if id(e) not in taken] + _aligned(slow)
    flaps = _flaps(history, own)
    flapping = {id(e) for e in flaps}
    events = [e for e in own if id(e) not in flapping]
    # a withdrawn finding does not belong to an open cause
    for withdrawn in (False, True):
        shifts = [e for e in events if e.kind != "noisy" and e.withdrawn == withdrawn]
        out += [_shift(history, group) for group in group_events(shifts, labels(history))]
    noisy = group_events(_aligned([e for e in events if e.kind == "noisy"]), labels(history))
    out = _merged(history, out) + _flapping_findings(history, flaps) + [_shift(history, group) for group in noisy]
    for outlier in outliers(history):
        standing = next((f for f in out if f.worse and f.recovered is None and _same_thing(history, f, outlier)), None)
        if standing is None:
            out.append(outlier)
        elif len(nodes_of(history, standing.rows)) == 1 and not standing.notes:
            standing.notes.append(f"now {100 * outlier.size:+.1f} % from its siblings")
    return _ordered(out)


def _ordered(found: Sequence[Finding]) -> list[Finding]:
    """Open ones first, then improvements and recovered ones."""
    order = {True: 0, False: 1}
    return sorted(found, key=lambda f: (order[f.recovered is None], order[f.worse], -len(f.rows), f.size))


def _aligned(events: Sequence[Event]) -> list[Event]:
    """The first of several noise events in close succession, since the night is an estimate."""
    out: list[Event] = []
    previous, first = 0, 0
    for one in sorted(events, key=lambda e: e.change_night):
        first = one.change_night if not out or one.change_night - previous > UNSURE else first
        previous = one.change_night
        out.append(replace(one, change_night=first))
    return out


def _known(drift: Event, other: Event) -> bool:
    """Whether a loss found in a series itself is, or explains, its drift relative to the siblings."""
    same = other.series == drift.series and other.worse and other.kind != "noisy" and not other.withdrawn
    return (
        same
        and other.found_night <= drift.found_night
        and (other.recovered_night is None or other.recovered_night >= drift.change_night)
    )


def _stage(drift: Event, other: Event) -> bool:
    """Whether a loss found later in a series is a stage of its drift, whose size is the current one."""
    same = other.series == drift.series and other.worse and other.kind != "noisy" and drift.recovered_night is None
    return same and other.change_night >= drift.change_night - SAME and abs(other.size) <= TWICE * abs(drift.size)


def _same_thing(history: History, finding: Finding, outlier: Finding) -> bool:
    """Whether an outlier is already covered by a finding: the same series, or others of its program on its node."""
    if set(outlier.rows) & set(finding.rows):
        return True
    here = {(history.series[r].node, history.series[r].gpu, history.series[r].program) for r in finding.rows}
    there = {(history.series[r].node, history.series[r].gpu, history.series[r].program) for r in outlier.rows}
    return finding.label not in ("fleet", "partition", "measure") and there <= here


def _together(
    history: History, together: Sequence[Together], events: Sequence[Event]
) -> tuple[list[Finding], set[int]]:
    """Findings of siblings, and the ids of the events that they include."""
    out: list[Finding] = []
    taken: set[int] = set()
    told: set[tuple[int, bool, int]] = set()
    # half of the series with the full loss explain more than all series with half of it
    for one in sorted(together, key=lambda t: (-abs(t.event.size) * len(t.rows) ** 0.5, t.event.change_night)):
        near = range(one.event.change_night - LATER, one.event.change_night + LATER + 1)
        if any((row, one.event.worse, night) in told for row in one.rows for night in near):
            continue  # some of those already reported
        told |= {(row, one.event.worse, one.event.change_night) for row in one.rows}
        rows = set(one.rows)
        taken |= {
            id(e)
            for e in events
            if e.series in rows
            and e.kind != "noisy"
            and e.worse == one.event.worse
            and -SAME <= e.change_night - one.event.change_night <= LATER
            and abs(e.size) <= TWICE * abs(one.event.size)
        }
        of = sum(s.siblings == history.series[one.rows[0]].siblings for s in history.series)
        members = tuple(replace(one.event, series=row) for row in one.rows)
        out.append(_shift(history, Group("measure", "", one.event.change_night, one.event.worse, members, of)))
    return out, taken


def labels(history: History) -> dict[str, list[str | None]]:
    """The labels of each series, from widest to narrowest."""
    series = history.series
    return {
        "partition": [s.partition for s in series],
        "measure": [f"{s.partition} {s.measure}" for s in series],
        **{
            factor: [f"{groups[s.node]} {s.partition} {s.measure}" if s.node in groups else None for s in series]
            for factor, groups in history.groups.items()
        },
        "node": [s.node or None for s in series],
        "program": [f"{s.node} {s.program}" if s.node and s.program else None for s in series],
        "gpu": [f"{s.node} {s.gpu}" if s.gpu else None for s in series],
        "peer": [f"{s.node} {s.peer}" if s.peer else None for s in series],
    }


def _shift(history: History, group: Group) -> Finding:
    rows = sorted({e.series for e in group.events})
    middle = sorted(group.events, key=lambda e: e.size)[len(group.events) // 2]
    recovered = [e.recovered_night for e in group.events]
    ended = sorted(e.ended_night for e in group.events if e.ended_night is not None)
    part = shared(history, rows)
    one = Finding(
        kind=Counter(e.kind for e in group.events).most_common(1)[0][0],
        label=part.label,
        what=part.what,
        worse=group.worse,
        night=group.change_night,
        found=min(e.found_night for e in group.events),
        size=float(middle.size),
        low=float(middle.low),
        high=float(middle.high),
        evidence=float(max(e.evidence for e in group.events)),
        p_value=float(min(e.p_value for e in group.events)),
        rows=rows,
        of=group.of,
        # a cause is over when the majority of the moved series has recovered
        recovered=max(r for r in recovered if r is not None)
        if sum(r is not None for r in recovered) * 2 > len(recovered)
        else None,
        withdrawn=all(e.withdrawn for e in group.events),
        ended=ended[len(recovered) // 2] if len(ended) * 2 > len(recovered) else None,
    )
    one.causes = causes(history, rows, one.night)
    return one


def joined(history: History, found: Sequence[Finding]) -> list[Finding]:
    """The same findings, with those of one cause combined: all sizes and metrics of a benchmark, all benchmarks that
    changed with a driver or on the same nodes, all losses of one node on a night.

    Acknowledged findings are not combined, nor are flapping components and outliers.
    """
    apart = [f for f in found if f.kind not in (*SHIFTS, "noisy") or f.acknowledged]
    waiting = [_Group.of(history, f) for f in found if f.kind in (*SHIFTS, "noisy") and not f.acknowledged]
    checks: dict[str, set[str]] = defaultdict(set)
    where: dict[str, set[str]] = defaultdict(set)
    for series in history.series:
        checks[series.partition].add(series.check)
        where[series.measure].add(series.node)
    groups: list[_Group] = []
    while waiting:  # two findings with nothing in common may each share something with a third
        waiting.sort(key=lambda g: -len(g.rows))
        group, *rest = waiting
        same = [g for g in rest if group.near(g) and group.one_cause(g, checks, where)]
        if same:
            kept = [g for g in rest if not any(g is one for one in same)]
            waiting = [*kept, group.with_all(same)]
        else:
            groups.append(group)
            waiting = rest
    return _ordered(apart + [_as_one(history, g.members) if len(g.members) > 1 else g.members[0] for g in groups])


@dataclass(frozen=True)
class _Group:
    """Findings of one cause, the largest first, and the part that they concern."""

    members: tuple[Finding, ...]
    rows: frozenset[int]
    nodes: frozenset[str]
    partitions: frozenset[str]
    checks: frozenset[str]
    measures: frozenset[str]
    #: changes of the environment that explain a member
    changed: frozenset[tuple[tuple[str, str, str], ...]]

    @classmethod
    def of(cls, history: History, one: Finding) -> _Group:
        series = [history.series[row] for row in one.rows]
        changed = tuple(sorted((c.field, c.before, c.after) for c in one.causes))
        return cls(
            (one,), frozenset(one.rows), frozenset(nodes_of(history, one.rows)), frozenset(s.partition for s in series),
            frozenset(s.check for s in series), frozenset(s.measure for s in series),
            frozenset([changed] if changed else []),
        )  # fmt: skip

    def with_all(self, others: Sequence[_Group]) -> _Group:
        every = [self, *others]
        return _Group(
            tuple(f for g in every for f in g.members), frozenset().union(*(g.rows for g in every)),
            frozenset().union(*(g.nodes for g in every)), frozenset().union(*(g.partitions for g in every)),
            frozenset().union(*(g.checks for g in every)), frozenset().union(*(g.measures for g in every)),
            frozenset().union(*(g.changed for g in every)),
        )  # fmt: skip

    def near(self, other: _Group) -> bool:
        """Whether the others, at most as many, agree in kind, direction, state, begin and end."""
        first, one = self.members[0], other.members[0]
        if (first.kind == "noisy", first.worse, first.withdrawn) != (one.kind == "noisy", one.worse, one.withdrawn):
            return False
        ended = (first.recovered is None, one.recovered is None)
        if ended[0] != ended[1] or abs((first.recovered or 0) - (one.recovered or 0)) > SAME:
            return False
        later = one.night - first.night
        gradual = one.kind in ("noisy", "drift") or any(member.kind == "drift" for member in self.members)
        if len(self.nodes) == 1 and (other.rows <= self.rows or gradual):
            return abs(later) <= LATER  # a drift is found in steps, and the beginning of noise is an estimate
        # if a series moved with others, its beginning may be that of unrelated values before the change
        with_it = one.found >= first.night and other.measures <= self.measures and other.nodes <= self.nodes
        return -(LATER if with_it else SAME) <= later <= SAME

    def one_cause(self, other: _Group, checks: Mapping[str, set[str]], where: Mapping[str, set[str]]) -> bool:
        """Whether findings that began together have one cause, judged by the benchmarks of each partition and the nodes
        of each measurement.
        """
        both = self.nodes & other.nodes
        if len(self.nodes) == len(other.nodes) == 1 and both:
            return True
        if self.changed & other.changed:
            return True
        if self.partitions != other.partitions:
            return False
        same_check = bool(self.checks & other.checks)
        if not both:  # two nodes of a set that is hardly larger
            every = set().union(*(where[measure] for measure in self.measures & other.measures))
            return bool(every) and len(self.nodes | other.nodes) >= COMMON * len(every) and self.checks == other.checks
        if len(other.nodes) == 1:  # one of the nodes that moved; its additional loss has another cause
            ours, shift = (_far(g.members[0].size) for g in (self, other))
            many = len(self.checks) >= COMMON * len(set().union(*(checks[name] for name in self.partitions)))
            return shift <= TWICE * ours and (same_check or many)
        all_of = min(len(self.nodes), len(other.nodes)) if same_check else len(self.nodes | other.nodes)
        return len(both) >= COMMON * all_of


def _far(size: float) -> float:
    """Magnitude of a relative change, as a logarithm; infinite if a series with zeros lost its usual level."""
    return abs(math.log1p(size)) if size > -1 else math.inf


def _as_one(history: History, group: Sequence[Finding]) -> Finding:
    """One finding with all members; its size is that of the median member, and its night that of the largest."""
    by_size = sorted((f for f in group for _ in f.rows), key=lambda f: _far(f.size))
    middle = by_size[len(by_size) // 2]
    rows = sorted({row for f in group for row in f.rows})
    part = shared(history, rows)
    ended = [f.recovered for f in group if f.recovered is not None]
    one = Finding(
        kind=Counter(f.kind for f in group for _ in f.rows).most_common(1)[0][0],
        label=part.label,
        what=part.what,
        worse=group[0].worse,
        night=group[0].night,
        found=min(f.found for f in group),
        size=middle.size,
        low=middle.low,
        high=middle.high,
        evidence=max(f.evidence for f in group),
        p_value=min(f.p_value for f in group),
        rows=rows,
        of=_of(history, rows),
        times=max(f.times for f in group),
        recovered=max(ended) if ended else None,
        ended=max((f.ended for f in group if f.ended is not None), default=None),
        withdrawn=group[0].withdrawn,
        notes=list(dict.fromkeys(note for f in group for note in f.notes)),
        largest=max((f.size if f.largest is None else f.largest for f in group), key=_far),
    )
    one.causes = causes(history, rows, one.night) or list(dict.fromkeys(c for f in group for c in f.causes))
    return one


def _of(history: History, rows: Sequence[int]) -> int:
    """Number of series in the set that these belong to: those of their node, or of their measurements on their
    partitions."""
    nodes = nodes_of(history, rows)
    if len(nodes) == 1:
        return len(_rows_of(history, nodes))
    known = {(history.series[row].partition, history.series[row].measure) for row in rows}
    return sum((series.partition, series.measure) in known for series in history.series)


def _rows_of(history: History, nodes: set[str]) -> list[int]:
    return [row for row in range(len(history.series)) if nodes_of(history, [row]) <= nodes]


def _merged(history: History, found: list[Finding]) -> list[Finding]:
    """Successive unrecovered changes of one component in one direction are one finding: a drift is detected in steps.
    For a node or a GPU, half of the series that moved before are enough to show the next step.
    """
    out: list[Finding] = []
    for one in sorted(found, key=lambda f: f.night):
        same = [f for f in out if f.worse == one.worse and f.recovered is None and _moves_again(history, f, one)]
        if not same or one.recovered is not None or one.causes:
            out.append(one)
            continue
        first = same[0]
        first.times += 1
        first.kind = "drift"
        first.low, first.high = ((1 + a) * (1 + b) - 1 for a, b in ((first.low, one.low), (first.high, one.high)))
        first.size = (1 + first.size) * (1 + one.size) - 1
        first.evidence = max(first.evidence, one.evidence)
        first.p_value = min(first.p_value, one.p_value)
    return out


def _moves_again(history: History, first: Finding, one: Finding) -> bool:
    part = set(one.rows) <= set(first.rows) and len(one.rows) * 2 >= len(first.rows)
    return first.rows == one.rows or (part and len(nodes_of(history, first.rows)) == 1)


def _flaps(history: History, events: Sequence[Event]) -> list[Event]:
    """Events of intermittent series. If it moved together with others, half of these must be intermittent: one chance
    loss before a loss of the whole machine is not enough.
    """
    flaps = {id(e) for e in events if _flapping(e, events, len(history.nights))}
    if flaps:
        for group in group_events([e for e in events if e.kind != "noisy" and not e.withdrawn], labels(history)):
            own = {id(e) for e in group.events}
            if 2 * len(own & flaps) < len(own):
                flaps -= own
    kept = [e for e in events if id(e) in flaps]
    return [e for e in kept if _flapping(e, kept, len(history.nights))]


def _flapping(event: Event, events: Sequence[Event], nights: int) -> bool:
    """Whether an event is one of several recent events of its series that have recovered."""
    if not _recent_loss(event, nights):
        return False
    same = [e for e in events if e.series == event.series and _recent_loss(e, nights)]
    gone = [e for e in same if e.recovered_night is not None]
    return len(same) >= FLAPS and len(gone) >= len(same) - 1


def _recent_loss(event: Event, nights: int) -> bool:
    lost = event.worse and event.kind != "noisy" and not event.withdrawn
    return lost and event.change_night >= nights - FLAP_NIGHTS


def _flapping_findings(history: History, events: Sequence[Event]) -> list[Finding]:
    """Flapping components: series of one program on one node that repeatedly fail and recover are one finding."""
    by_node: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        series = history.series[event.series]
        by_node[series.node or series.gpu, series.program].append(event)
    out = []
    for members in by_node.values():
        rows = sorted({e.series for e in members})
        worst = min(members, key=lambda e: -abs(e.size))
        part = shared(history, rows)
        out.append(
            Finding(
                "flapping", part.label, part.what, True, min(e.change_night for e in members),
                min(e.found_night for e in members), float(worst.size), float(worst.low), float(worst.high),
                float(max(e.evidence for e in members)), float(min(e.p_value for e in members)), rows, len(rows),
                times=max(Counter(e.series for e in members).values()),
            )
        )  # fmt: skip
    return out


# ---- attribution -----------------------------------------------------------------------------------------


def causes(history: History, rows: Sequence[int], night: int) -> list[Cause]:
    """Fields of the environment that changed with a shift of these series and explain it.

    A field explains the shift if nearly all series that moved had the same change within NEAR nights, and at least half
    of the siblings with that change moved. A kernel that changed everywhere does not explain one slow GPU.
    """
    changed = {row: changes(history, row, night) for row in rows}
    kinds = {history.series[row].siblings for row in rows}
    moved = set(rows)
    out = []
    counts: Counter[tuple[str, str, str]] = Counter(c for found in changed.values() for c in found)
    for change, count in sorted(counts.items()):
        if count < COVERED * len(rows):
            continue
        saw = [
            row
            for row, series in enumerate(history.series)
            if series.siblings in kinds and change in (changed.get(row) or changes(history, row, night))
        ]
        if len([row for row in saw if row in moved]) >= MOVED * len(saw):
            nodes = sorted({history.series[row].node for row in rows if change in changed[row]})
            out.append(Cause(*change, tuple(nodes)))
    return sorted(out, key=lambda c: FINGERPRINT.index(c.field))


def changes(history: History, row: int, night: int) -> set[tuple[str, str, str]]:
    """(field, before, after) of the changes in a series' environment within NEAR nights of `night`."""
    ran = np.flatnonzero(history.fingerprints[row] >= 0)
    before, after = ran[ran < night - NEAR], ran[(ran >= night - NEAR) & (ran <= night + NEAR)]
    numbers = [*history.fingerprints[row, before[-1:]], *history.fingerprints[row, after]]
    found = set()
    for old, new in itertools.pairwise(numbers):
        if old == new:
            continue
        was, now = history.environments[int(old)], history.environments[int(new)]
        found |= {(f, a, b) for f, a, b in zip(FINGERPRINT, was, now, strict=True) if a != b and a and b}
    return found


# ---- fleet -----------------------------------------------------------------------------------------------


def outliers(history: History, false_chance: float = 0.01) -> list[Finding]:
    """Nodes and GPUs behind their siblings in the last campaign, worst first; one finding per node or GPU.

    `false_chance` is divided among all groups of siblings. A single occurrence does not count: the sibling must have
    been an outlier on OUTLIER_NIGHTS of the last OUTLIER_OF nights. If siblings often are and return, as those with two
    modes, it must have been one on as many nights in a row as chance seldom reaches. The finding starts with the first
    of those nights and was detected on the second.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, series in enumerate(history.series):
        if series.across:
            groups[series.siblings].append(row)
    judged = [rows for rows in groups.values() if len(rows) > 1]
    last = len(history.nights) - 1

    def of(rows: list[int], night: int) -> dict[int, tuple[float, float]]:
        better = history.series[rows[0]].direction == "higher"
        answer = fleet_outliers(history.values[rows, night], better, false_chance / len(judged))
        return {rows[i]: (float(answer.deviation[i]), float(answer.limit)) for i in answer.order}

    known: dict[int, tuple[float, float, int, int]] = {}  # size, limit, since, found
    for rows in judged:
        seen = [of(rows, night) for night in range(last, max(-1, last - OUTLIER_OF), -1)]  # the newest night first
        slow = [
            row
            for row in rows
            if sum(row in one for one in seen) >= OUTLIER_NIGHTS and not np.isnan(history.values[row, last])
        ]
        if slow:
            nights = range(last - len(seen), max(-1, last - OUTLIER_PAST), -1)
            past = [*seen, *(of(rows, night) for night in nights)]
            least = _in_a_row(past, len(rows), false_chance)
            slow = [row for row in slow if least <= OUTLIER_NIGHTS or _newest(history, past, row) >= least]
        for row in slow:
            while len(seen) <= last and any(row in one for one in seen[-OUTLIER_NIGHTS:]):
                seen.append(of(rows, last - len(seen)))
            was = [last - back for back, one in enumerate(seen) if row in one]  # the newest first
            until = next((n for n in range(1, len(was)) if was[n - 1] - was[n] >= OUTLIER_OF), len(was))
            known[row] = (*next(one[row] for one in seen if row in one), was[until - 1], was[until - 2])
    by_place: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in known:
        series = history.series[row]
        by_place[(series.node, series.gpu)].append(row)
    out = []
    for rows in _whole_nodes(history, by_place):
        worst = max(rows, key=lambda r: abs(known[r][0]))
        size, limit, _, _ = known[worst]
        part = shared(history, rows)
        out.append(
            Finding(
                "outlier", part.label, part.what, True, min(known[r][2] for r in rows), min(known[r][3] for r in rows),
                size, -limit, limit, 0.0, false_chance / len(judged), sorted(rows),
                len(groups[history.series[worst].siblings]),
            )
        )  # fmt: skip
    return sorted(out, key=lambda f: -abs(f.size))


def _in_a_row(past: list[dict[int, tuple[float, float]]], siblings: int, false_chance: float) -> int:
    """Number of nights in a row on which any of the siblings is an outlier with at most this chance, by the share of
    those that returned; `past` are the outliers by night, the newest first."""
    returned = sum(len(set(older) - set(newer)) for newer, older in itertools.pairwise(past))
    share = returned / (siblings * max(len(past) - 1, 1))
    return math.ceil(math.log(false_chance / siblings) / math.log(min(share, 0.5))) if share else OUTLIER_NIGHTS


def _newest(history: History, past: list[dict[int, tuple[float, float]]], row: int) -> int:
    """Number of the newest nights in a row on which a sibling was an outlier, of those on which it ran."""
    last = len(history.nights) - 1
    ran = [one for back, one in enumerate(past) if not np.isnan(history.values[row, last - back])]
    return next((nights for nights, one in enumerate(ran) if row not in one), len(ran))


def _whole_nodes(history: History, by_place: dict[tuple[str, str], list[int]]) -> list[list[int]]:
    """Locations; those on one node are combined if they are the majority of its GPUs."""
    nodes: dict[str, list[list[int]]] = defaultdict(list)
    for (node, _), rows in by_place.items():
        nodes[node].append(rows)
    out = []
    for node, places in nodes.items():
        of = len({s.gpu for s in history.series if s.node == node and s.gpu})
        if len(places) > 1 and len(places) > of / 2:
            out.append([row for rows in places for row in rows])
        else:
            out += places
    return out
