"""What a rehearsal proves: faults that programs made on purpose, and whether their verification named them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenken.model.catalogue import NOTHING
from tenken.model.record import Record
from tenken.model.verdicts import FAIL, INVALID, WAIVED

#: One bit of one element is flipped before the verification: what a program's own check of its output must find.
ELEMENT = "element"

NOTICED, MISSED, NOTHING_SHOWN = "noticed", "NOT NOTICED", "shows nothing"


@dataclass(frozen=True)
class Drilled:
    """One run with a fault, and what became of it."""

    check: str
    environ: str
    fault: str
    verdict: str
    outcome: str
    why: str


def fault_of(record: Record) -> str:
    """The fault that was made, or asked for, on purpose; empty: none."""
    for known in (
        record.result.parameters if record.result else {},
        record.request.parameters if record.request else {},
    ):
        said = known.get("inject_fault")
        if said not in NOTHING:
            return str(said)
    return ""


def drilled(record: Record) -> Drilled:
    """A flipped bit is noticed when the case is FAIL and a verification of the program's output says so itself: a
    FAIL for another reason would prove nothing."""
    fault, result = fault_of(record), record.result
    wrong = [check for check in result.verification.checks if not check.passed] if result is not None else []
    if fault != ELEMENT:
        outcome, why = NOTHING_SHOWN, f"only '{ELEMENT}' must be detected by a verification"
    elif record.verdict in (WAIVED, INVALID):
        outcome, why = NOTHING_SHOWN, record.judgement.message()
    elif record.verdict == FAIL and wrong and result is not None and not result.verification.passed:
        outcome, why = NOTICED, f"{wrong[0].what}: {wrong[0].detail or f'error {wrong[0].error:.3g}'}"
    else:
        outcome, why = MISSED, record.judgement.message() or "passed in spite of the injected fault"
    return Drilled(record.check, record.environ, fault, record.verdict, outcome, why)


def of(records: Iterable[Record]) -> list[Drilled]:
    """All runs with a fault, what was not noticed first."""
    order = {MISSED: 0, NOTHING_SHOWN: 1, NOTICED: 2}
    found = [drilled(record) for record in records if fault_of(record)]
    return sorted(found, key=lambda one: (order[one.outcome], one.check, one.environ))
