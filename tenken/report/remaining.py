"""What an acceptance still needs: runs of which clauses, and which clauses no further run could save. Pure, no output.

Nothing is accepted early: a remaining run could have a wrong result. A contract is rejected early if no remaining run
can change that.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tenken.report.acceptance import NOT_MET, Acceptance, Requirement, Value, decide_requirement
from tenken.report.contracts import ESSENTIAL, Clause, Offered

#: Number of INVALID runs of a device that are repeated if a clause states no limit.
RETESTS = 2
#: Larger than any value, without overflow.
ENDLESS = 1e30


@dataclass(frozen=True)
class Batch:
    """Checks of one session: names as ReFrame lists them, over `nodes` nodes together (None: the checks' own
    number)."""

    names: tuple[str, ...]
    nodes: int | None = None

    @property
    def patterns(self) -> list[str]:
        """For `reframe -n`, which compares names without spaces."""
        return [f"^{name.replace(' ', '').replace('.', '[.]')}$" for name in self.names]


def checks_of(clause: Clause, offered: Iterable[Offered]) -> list[Offered]:
    """The checks that measure a clause, each case by its full name."""
    return [
        one
        for one in offered
        if one.program == clause.program
        and clause.check in (None, one.name, one.base)
        and (one.nodes > 1) == bool(clause.nodes and clause.nodes > 1)
    ]


def missing_runs(requirement: Requirement) -> int:
    """Number of valid runs that a requirement lacks on the device with the fewest; none if too many were INVALID."""
    clause = requirement.clause
    most = RETESTS if clause.retests is None else clause.retests
    return max(
        (clause.repetitions - len(one.values) for one in requirement.parts if len(one.invalid) <= most),
        default=clause.repetitions if not requirement.parts else 0,
    )


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


def batches(found: Acceptance, offered: Iterable[Offered]) -> list[Batch]:
    """The sessions of the next round: what the open clauses need, single-node ones first."""
    there, wanted = list(offered), open_clauses(found)
    by_nodes: dict[int | None, dict[str, None]] = {}
    for clause in found.contract.clauses:
        if clause.id in wanted:
            nodes = clause.nodes if clause.nodes and clause.nodes > 1 else None
            by_nodes.setdefault(nodes, {}).update(dict.fromkeys(one.name for one in checks_of(clause, there)))
    return [Batch(tuple(by_nodes[n]), n) for n in sorted(by_nodes, key=lambda n: n or 0) if by_nodes[n]]


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
        words.append("open: " + ", ".join(f"{name} ({runs} more)" for name, runs in wanted.items()))
    return "; ".join(words)
