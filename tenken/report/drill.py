"""The result of a drill: injected faults, and whether the verification detected them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenken.model.catalogue import NOTHING
from tenken.model.record import Record
from tenken.model.verdicts import FAIL, INVALID, WAIVED

#: One bit of one element is flipped before the verification, which must detect it.
ELEMENT = "element"

NOTICED, MISSED, NOTHING_SHOWN = "noticed", "NOT NOTICED", "shows nothing"


@dataclass(frozen=True)
class Drilled:
    """One run with an injected fault, and its outcome."""

    check: str
    environ: str
    fault: str
    verdict: str
    outcome: str
    why: str


def fault_of(record: Record) -> str:
    """The fault that was injected or requested; empty: none."""
    for known in (
        record.result.parameters if record.result else {},
        record.request.parameters if record.request else {},
    ):
        said = known.get("inject_fault")
        if said not in NOTHING:
            return str(said)
    return ""


def drilled(record: Record) -> Drilled:
    """A flipped bit is detected if the case is FAIL by a verification of the program's output; a FAIL for another
    reason would prove nothing."""
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
    """All runs with an injected fault, undetected ones first."""
    order = {MISSED: 0, NOTHING_SHOWN: 1, NOTICED: 2}
    found = [drilled(record) for record in records if fault_of(record)]
    return sorted(found, key=lambda one: (order[one.outcome], one.check, one.environ))
