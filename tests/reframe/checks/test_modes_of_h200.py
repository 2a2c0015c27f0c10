"""Runs of an H200 in modes other than quick: what was healthy there is judged so."""

from __future__ import annotations

from tenken.judge import anew
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED
from tests.support import kept


def test_no_healthy_run_of_any_mode_fails() -> None:
    records = kept.modes()
    judged = {(r.session, r.check): anew.of_record(r).verdict for r in records}
    assert len(judged) >= 110
    assert not {key for key, verdict in judged.items() if verdict in (FAIL, INVALID)}


def test_ten_trials_and_pinned_memory_are_judged_by_their_values() -> None:
    once = {r.check: r for r in kept.modes() if r.verdict == FAIL}
    assert len(once) == 3
    for check, record in once.items():
        assert anew.of_record(record).verdict == (PASS if "MemcopyGpu" in check else RECORDED)
