"""A node of eight H100 by simulated records: healthy, with a slow card, a lost card, a weak link, a lost NVLink."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tenken.archive import records
from tenken.model.catalogue import load_catalogue
from tenken.model.judgement import Judgement
from tenken.model.record import Record
from tenken.model.verdicts import FAIL, PASS
from tenken.report import page, scorecard, session
from tenken.report.rows import rows_of
from tests.support import widened
from tools import sensitivity

GPUS = 8
#: The card and the pair that are at fault.
CARD, PAIR = 5, {2, 6}


def judged(
    change: Callable[[dict[str, Any]], None] = lambda raw: None, gpus: int = GPUS, checks: Sequence[str] = ()
) -> list[tuple[Record, Judgement]]:
    """The records of the simulated session, each with the judgement of a first run."""
    found = []
    for record in widened.session(gpus, change, checks):
        assert record.result is not None
        found.append((record, sensitivity.judgement(record, record.result)))
    return found


def slower(factor: float, chosen: Callable[[dict[str, int]], bool]) -> Callable[[dict[str, Any]], None]:
    """What a slower card or link reports: longer times."""

    def change(raw: dict[str, Any]) -> None:
        for one in raw["result"]["series"]:
            if "seconds" in one and chosen(one["subject"]):
                one["seconds"] = [second / factor for second in one["seconds"]]

    return change


def of_card(subject: dict[str, int]) -> bool:
    return subject.get("gpu") == CARD


def of_pair(subject: dict[str, int]) -> bool:
    return {subject.get("from"), subject.get("to")} == PAIR


def messages(found: list[tuple[Record, Judgement]]) -> dict[str, list[str]]:
    return {record.check: [f.message for f in one.findings] for record, one in found if one.verdict == FAIL}


def test_a_healthy_node_of_eight_is_judged_as_its_two_cards():
    two = {record.check: one.verdict for record, one in judged(gpus=widened.MEASURED)}
    assert set(two.values()) == {PASS}
    assert {record.check: one.verdict for record, one in judged()} == two


def test_a_slow_card_is_named_by_every_check_of_single_gpus():
    found = messages(judged(slower(0.9, of_card)))
    assert set(found) == {record.check for record in widened.session(GPUS)}
    for check, said in found.items():
        assert {n for text in said for n in re.findall(r"GPU (\d)", text)} == {str(CARD)}, (check, said)


def test_a_weak_link_is_named_by_its_two_ends():
    found = messages(judged(slower(0.9, of_pair)))
    assert set(found) == {"P2P"}
    assert {tuple(sorted(re.findall(r"GPU (\d) → (\d)", text)[0])) for text in found["P2P"]} == {("2", "6")}
    assert any("behind the 56 pairs joined alike" in text for text in found["P2P"])


def test_a_lost_nvlink_is_named_by_its_card():
    def change(raw: dict[str, Any]) -> None:
        raw["result"]["devices"][CARD]["nvlinks_active"] -= 1

    for check, said in messages(judged(change)).items():
        assert f"GPU {CARD}: 17 NVLinks are active, 18 of its peers: hardware" in " ".join(said), check


def test_a_lost_card_fails_every_check():
    def change(raw: dict[str, Any]) -> None:
        raw["request"]["gpus"] = GPUS

    found = messages(judged(change, gpus=GPUS - 1))
    assert {said[0] for said in found.values()} == {"node1: 7 GPUs found; expected 8"}
    assert len(found) == len(widened.session(GPUS))


def test_the_page_has_a_row_for_each_card_and_a_matrix_of_pairs(tmp_path):
    slow = slower(0.9, lambda subject: of_card(subject) or of_pair(subject))
    records.begin_session(tmp_path, "session1", [])
    for record, one in judged(slow, checks=("P2P", "StreamCuda %gpus_at=at_once")):
        records.write(replace(record, judgement=one), tmp_path)
    loaded, catalogue = session.load(tmp_path, "session1"), load_catalogue()
    rows = {id(case): rows_of(case, catalogue) for case in loaded.cases}
    scores = scorecard.scores(loaded, rows)
    for verdict, ends in ((FAIL, {f"GPU {CARD}", "GPU 2 → 6", "GPU 6 → 2"}), (PASS, {"7 subjects", "54 links"})):
        assert {one.subject.split(",")[0] for one in scores if one.verdict == verdict} == ends
    # the reason of a failure, not a note that was found before it
    failures = [line for line in scorecard.in_lines(loaded, rows, []) if line.startswith("FAIL: P") or "triad" in line]
    assert "is below 360 GB/s" in failures[0] and f"GPU {CARD}" in failures[1]
    text, beside = page.pages(loaded, catalogue, "", "records.html")
    assert len(text) < 400_000
    assert "from row to column; stronger colour is better; a framed cell has a finding" in beside
    assert all(f"triad.gpu{gpu}" in beside for gpu in range(GPUS))
