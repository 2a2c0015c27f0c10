"""XIDs as in the vendor's catalogue: which are caused by hardware, by a program, or undecided by their number."""

from __future__ import annotations

import pytest

from tenken.judge import conditions
from tenken.model.verdicts import FAIL, INVALID
from tenken.model.xids import HARDWARE_XIDS, PROGRAM_XIDS, UNDECIDED_XIDS, events


@pytest.mark.parametrize(
    ("xids", "found"),
    [
        ((149, 45), [(FAIL, "hardware: XID 149 (NVLink NETIR error) during the run")]),
        ((95, 45, 45), [(FAIL, "hardware: XID 95 (uncontained memory error) during the run")]),
        ((45,), [(FAIL, "program: XID 45 (preemptive cleanup of a program that ended) during the run")]),
        # a program that ended before the GPU failed
        ((45, 79), [(FAIL, "hardware: XID 79 (GPU has fallen off the bus) during the run"),
                    (FAIL, "program: XID 45 (preemptive cleanup of a program that ended) during the run")]),
        ((145,), [(INVALID, "XID 145 (NVLink RLW error) during the run")]),
        ((144, 145), [(INVALID, "XID 144 (NVLink SAW error), 145 (NVLink RLW error) during the run")]),
        ((150, 45), [(INVALID, "XID 150 (NVLink MSE error) during the run")]),
        ((146, 48), [(FAIL, "hardware: XID 48 (double-bit ECC error) during the run"),
                     (INVALID, "XID 146 (NVLink TLW error) during the run")]),
        ((143,), [(FAIL, "hardware: XID 143 (GPU initialization error) during the run")]),
        ((143, 45, 45), [(FAIL, "hardware: XID 143 (GPU initialization error) during the run")]),
        ((13, 143), [(FAIL, "hardware: XID 143 (GPU initialization error) during the run"),
                     (FAIL, "program: XID 13 (graphics engine exception) during the run")]),
        ((999,), [(INVALID, "XID 999 during the run")]),
        ((), []),
    ],
)  # fmt: skip
def test_events_by_their_numbers(xids: tuple[int, ...], found: list[tuple[str, str]]) -> None:
    assert list(conditions._xids(xids)) == found


def test_no_xid_is_of_two_kinds_and_a_consequence_alone_stays() -> None:
    assert len({*HARDWARE_XIDS, *PROGRAM_XIDS, *UNDECIDED_XIDS}) == sum(
        map(len, (HARDWARE_XIDS, PROGRAM_XIDS, UNDECIDED_XIDS))
    )
    assert events((45, 45)) == (45, 45) and events((13, 45, 31)) == (13, 31)
