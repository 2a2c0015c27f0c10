"""What an acceptance still needs: runs of which clauses, and which clauses no further run could save. Pure, no output.

Nothing is accepted early, since a remaining run could have a wrong result. A contract is rejected early if no remaining
run can change that.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from tenken.campaign import fabric, power
from tenken.model.job import short
from tenken.report.acceptance import INCONCLUSIVE, NOT_MET, Acceptance, Measured, Requirement, Value, decide_requirement
from tenken.report.contracts import ESSENTIAL, Clause, Offered

#: Number of INVALID runs of a device that are repeated if a clause states no limit.
RETESTS = 2
#: Larger than any value, without overflow.
ENDLESS = 1e30


@dataclass(frozen=True)
class Batch:
    """Checks of one session: names as ReFrame lists them, over `nodes` nodes together and for `hours` each (None: the
    check's own), in a mode that selects them.
    """

    names: tuple[str, ...]
    nodes: int | None = None
    hours: float | None = None
    mode: str = ""
    #: The variable of a class that sets nodes or hours, for `reframe -S`.
    variables: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: The clauses, by id, that its checks measure.
    clauses: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def patterns(self) -> list[str]:
        """For `reframe -n`, which compares names without spaces."""
        return [f"^{name.replace(' ', '').replace('.', '[.]')}$" for name in self.names]

    @property
    def words(self) -> str:
        """What the clause requires, for people."""
        return (f" over {self.nodes} nodes together" if self.nodes else "") + (
            f" of {self.hours:g} h" if self.hours else ""
        )


def checks_of(clause: Clause, offered: Iterable[Offered], mode: str = "") -> list[Offered]:
    """The checks that measure a clause, each case by its full name: those that the mode selects, or all if it selects
    none.

    If the clause names none, those that must report its metric and subject, if there are any.
    """
    during = str(clause.at.get(power.DURING)) if clause.program == power.PROGRAM else None
    found = [
        one
        for one in offered
        if (one.base == during if during else one.program == clause.program)
        and clause.check in (None, one.name, one.base)
        and (bool(during) or (one.nodes > 1) == bool(clause.nodes and clause.nodes > 1))
    ]
    found = [one for one in found if not mode or mode in one.modes] or found
    if clause.check or during:
        return found
    return [one for one in found if one.must_report(clause)] or found


def _left(clause: Clause, part: Measured) -> int:
    """Number of valid runs that a device lacks; 0 if too many were INVALID."""
    most = RETESTS if clause.retests is None else clause.retests
    return clause.repetitions - len(part.values) if len(part.invalid) <= most else 0


def missing_runs(requirement: Requirement) -> int:
    """Number of valid runs that a requirement lacks on the device with the fewest; 0 if too many runs were INVALID."""
    clause = requirement.clause
    return max((_left(clause, one) for one in requirement.parts), default=clause.repetitions)


def open_clauses(found: Acceptance) -> dict[str, int]:
    """Missing runs by clause id; clauses that lack none are left out."""
    lacking: dict[str, int] = {}
    successor = {one.uuid: one.by for one in found.contract.replaced}
    for requirement in found.requirements:
        there = {one.part.uuid for one in requirement.parts}
        new = any(successor[one.part.uuid] not in there | successor.keys() for one in requirement.before)
        runs = requirement.clause.repetitions if new else missing_runs(requirement)
        lacking[requirement.clause.id] = max(lacking.get(requirement.clause.id, 0), runs)
    return {name: runs for name, runs in lacking.items() if runs > 0}


def batches(found: Acceptance, offered: Iterable[Offered], mode: str = "") -> list[Batch]:
    """The sessions of the next round: what the open clauses need, those of single nodes first and those of hours
    last."""
    wanted = open_clauses(found)
    measured: dict[str, set[str]] = {}
    for one in found.requirements:
        measured.setdefault(one.clause.id, set()).add(one.check)
    return _batches([one for one in found.contract.clauses if one.id in wanted], list(offered), mode, measured)


def next_round(found: Acceptance, offered: Iterable[Offered], mode: str, now: datetime) -> list[Batch]:
    """The sessions of the next round. Once all clauses have their runs and the hours of stability have passed, this is
    one session of all clauses whose first and last runs are compared.
    """
    there = list(offered)
    due = stability_due(found)
    if (more := batches(found, there, mode)) or due is None or now < due:
        return more
    return _batches([one for one in found.contract.clauses if not one.hours], there, mode, {})


def stability_due(found: Acceptance) -> datetime | None:
    """The time from which one more round is needed for stability; None if it is decided or not agreed, or if clauses
    lack runs."""
    rule = found.contract.stability
    if rule is None or found.stability != INCONCLUSIVE or not found.first or open_clauses(found):
        return None
    return datetime.fromisoformat(found.first.replace("Z", "+00:00")) + timedelta(hours=rule.hours)


def lacking(found: Acceptance, batch: Batch, nodes: Sequence[str]) -> dict[str, int]:
    """Runs of a batch's checks that each of these nodes lacks; nodes that lack none are left out."""
    wanted = open_clauses(found)
    runs: dict[str, int] = {}
    for clause in found.contract.clauses:
        if clause.id not in wanted or clause.id not in batch.clauses:
            continue
        measured = [one for one in found.requirements if one.clause.id == clause.id and one.check]
        there: dict[str, int] = {}
        for one in measured:
            for part in one.parts:
                there[short(part.part.node)] = max(there.get(short(part.part.node), 0), _left(clause, part))
            uuids = {part.part.uuid for part in one.parts}
            for part in one.before:
                if not _successors(found, part.part.uuid) & uuids:
                    there[short(part.part.node)] = clause.repetitions
        for node in nodes:
            runs[node] = max(runs.get(node, 0), there.get(short(node), clause.repetitions))
    return {node: count for node, count in runs.items() if count > 0}


def _successors(found: Acceptance, uuid: str) -> set[str]:
    """The GPU that is in place of an exchanged one now."""
    successor = {one.uuid: one.by for one in found.contract.replaced}
    while uuid in successor:
        uuid = successor[uuid]
    return {uuid}


def _batches(
    clauses: Iterable[Clause], offered: Sequence[Offered], mode: str, measured: Mapping[str, Collection[str]]
) -> list[Batch]:
    """`measured`: by clause, other checks that happened to measure it, and that need their runs too."""
    names: dict[tuple[float, int, str], dict[str, Offered]] = {}
    of: dict[tuple[float, int, str], set[str]] = {}
    for clause in clauses:
        too = [one for one in offered if one.name in measured.get(clause.id, ())]
        for one in [*checks_of(clause, offered, mode), *too]:
            nodes = max(clause.nodes or 1, one.nodes if clause.program == power.PROGRAM else 1)
            theirs = mode if mode in one.modes or not one.modes else one.modes[0]
            key = (clause.hours or 0, nodes if nodes > 1 else 0, theirs)
            names.setdefault(key, {})[one.name] = one
            of.setdefault(key, set()).add(clause.id)
    # a longer run of a check also counts for clauses on a shorter one
    for key, asked in names.items():
        longer = {
            name for other, more in names.items() if other[1:3] == key[1:3] and other[0] > key[0] for name in more
        }
        names[key] = {name: one for name, one in asked.items() if name not in longer}
        if not names[key]:
            for other in names:
                of[other] |= of[key] if other[1:3] == key[1:3] else set()
    return [
        Batch(
            tuple(names[key]),
            key[1] or None,
            key[0] or None,
            key[2],
            _variables(names[key].values(), *key[:2]),
            frozenset(of[key]),
        )
        for key in sorted(names)
        if names[key]
    ]


def _variables(checks: Iterable[Offered], hours: float, nodes: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in checks:
        found |= {f"{one.base}.{one.sized}": str(nodes)} if nodes and one.sized else {}
        found |= {f"{one.base}.{one.lasting}": str(ceil(3600 * hours))} if hours and one.lasting else {}
    return found


def lost(found: Acceptance) -> Iterator[str]:
    """Why the contract is rejected whatever the remaining runs measure, one reason each; nothing while it is open."""
    if found.wrong:
        yield f"{len(found.wrong)} runs with a wrong or missing result"
    for requirement in found.requirements:
        if requirement.clause.severity == ESSENTIAL and _at_best(requirement, found.contract.confidence) == NOT_MET:
            yield f"{requirement.clause.id}: no outcome of the remaining runs meets its bound"


def _at_best(requirement: Requirement, confidence: float) -> str:
    """The result of a requirement if each remaining run measures the best possible value."""
    best = copy.deepcopy(requirement)
    value = ENDLESS if best.clause.direction == "higher" else 0.0
    for one in best.parts:
        left = best.clause.repetitions - len(one.values)
        one.values += [Value(value, "", "", "", "")] * max(0, left)
    if best.parts:
        decide_requirement(best, confidence)
    return best.result


def progress(found: Acceptance) -> str:
    """One line: what is decided and what is open."""
    wanted = open_clauses(found)
    ids = list(dict.fromkeys(requirement.clause.id for requirement in found.requirements))
    done: Mapping[str, list[str]] = {
        name: [r.result for r in found.requirements if r.clause.id == name] for name in ids if name not in wanted
    }
    words = [f"{len(done)} of {len(ids)} clauses have all their runs"]
    if wanted:
        pairs = {one.id for one in found.contract.clauses if one.program == fabric.PROGRAM}
        by = {name: ", by `tenken campaign pairs`" if name in pairs else "" for name in wanted}
        words.append("open: " + ", ".join(f"{name} ({runs} more{by[name]})" for name, runs in wanted.items()))
    return "; ".join(words)
