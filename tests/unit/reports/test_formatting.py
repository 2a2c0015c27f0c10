"""Times, shares and cells of pages, and what a vendor reads about a part, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tenken.report import evidence, formatting
from tenken.report.acceptance import MET, NOT_MET

#: A thin space.
S = "\u202f"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"), (4.24, "4.2 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (200, "3 min 20 s"), (3599, "59 min 59 s"),
        (3600, "1 h 00 min"), (7500, "2 h 05 min"), (90061, "25 h 01 min"), (-1, "–"), (None, "–"), ("9", "–"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_from_a_minute_on(seconds: Any, text: str) -> None:
    assert formatting.duration(seconds).replace(S, " ") == text


@pytest.mark.parametrize(("value", "text"), [(0.953, "95.3"), (-0.05, "-5.0"), (1, "100.0"), (0, "0.0")])
def test_a_share_is_a_percentage(value: float, text: str) -> None:
    assert formatting.percent(value) == f"{text}{S}%"
    assert formatting.percent(None) == formatting.percent("1") == "–"
    assert formatting.percent(0.1234, 3) == f"12.340{S}%"


def test_a_column_is_sorted_by_numbers_and_names_by_their_numbers() -> None:
    assert formatting.key(1234567.8) == "data-v=1.23457e+06" and formatting.key("x") == formatting.key(None) == ""
    assert sorted(["GPU 10", "GPU 2", "GPU"], key=formatting.natural) == ["GPU", "GPU 2", "GPU 10"]


def part(**known: str | None) -> dict[str, Any]:
    return {"place": "GPU 1", "serial": None, "uuid": None, "slot": None, **known}


def test_a_vendor_reads_the_part_its_missed_clauses_first_its_counters_and_the_command() -> None:
    clause = {"metric": "stream.triad", "median": 4100.25, "bound": 4032.0, "unit": "GB/s", "runs": [4100.0, 4100.5]}
    told = {
        "part": part(serial="1654", uuid="GPU-1", slot="0000:3b:00.0"),
        "clauses": [
            {**clause, "clause": "A", "result": MET},
            {**clause, "clause": "B", "result": NOT_MET, "median": 3900.0, "runs": [3900.0]},
        ],
        "runs": [
            {
                "time": "2026-11-29T20:15:03Z", "verdict": "FAIL", "command": ["stream", "--gpus", "1"],
                "findings": ["too slow"],
                "health": [
                    {"gpu": 1, "xids": [48, 63], "worst": {
                        "ecc_uncorrected": 2, "pcie_replays": 0, "throttled": True, "idle": False, "clock": None,
                        "reasons": ["x"],
                        "other_processes": 3, "rows": []}},
                    {"gpu": 2, "xids": [], "worst": {"temperature_c": 61}},
                ],
            }
        ],
    }  # fmt: skip
    assert evidence.in_words(told) == [
        "Part: GPU 1", "Serial number: 1654", "UUID: GPU-1", "Slot: 0000:3b:00.0", "", "Clauses, those missed first:",
        f"  B stream.triad: 3900 GB/s, bound 4032 GB/s ({NOT_MET}; runs: 3900)",
        f"  A stream.triad: 4100.25 GB/s, bound 4032 GB/s ({MET}; runs: 4100, 4100.5)",
        "", "Run of 2026-11-29T20:15:03Z, FAIL:", "  repeat: stream --gpus 1", "  too slow",
        "  GPU 1 while timed: ecc_uncorrected 2, throttled True", "  XID 48, 63",
        "  GPU 2 while timed: temperature_c 61",
        "", "Samples, and counters before and after: the JSON file of the same name.",
    ]  # fmt: skip


def test_what_a_part_does_not_tell_is_not_recorded() -> None:
    told = {"part": part(), "clauses": [], "runs": []}
    assert evidence.in_words(told)[1:4] == ["Serial number: not recorded", "UUID: not recorded", "Slot: not recorded"]
    assert not any("Clauses" in line for line in evidence.in_words(told))
