"""Every record of a machine is judged today as it was then, except for those that a person reviewed."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from statistics import mean, stdev

import pytest

from tenken.commands.judge import machine_of
from tenken.judge import rejudge
from tenken.model import cache
from tenken.paths import ROOT
from tests.support import kept as kept_sessions

#: Every kept archive; read when a test is run, not by each process that lists the tests.
KEPT = tuple(sorted((ROOT / "tests" / "data").glob("*.tar.xz")))
#: Verdicts that a later rule changes: session and check, or a rule for all, with the reason.
_FILE = ROOT / "tests" / "data" / "reviewed-verdicts.yaml"
REVIEWED = cache.yaml(_FILE, _FILE.read_text(encoding="utf-8"))


def expected(record, judgement) -> str:
    """The archived verdict, or the one that a person reviewed."""
    for one in REVIEWED["changed"]:
        if (record.session, record.check, record.verdict) == (one["session"], one["check"], one["was"]):
            return str(one["is"])
    if record.base_check == REVIEWED["lifted"].get(record.session) and record.verdict in ("FAIL", "INVALID"):
        assert judgement.verdict in ("PASS", "RECORDED")
        return str(judgement.verdict)
    values = judgement.judged.values()
    if record.verdict == "PASS" and values and not any(j.absolute for j in values):
        return "RECORDED"  # the rules `recorded` and `absolute` of the file
    if record.verdict == "RECORDED" and not any(one.absolute for one in record.judgement.judged.values()):
        # a criterion that was added later
        return "PASS" if any(j.absolute for j in values) else "RECORDED"
    return str(record.verdict)


def test_every_reviewed_verdict_is_still_there():
    there = {(r.session, r.check, r.verdict) for kept in KEPT for r in kept_sessions._of(kept)}
    assert {(o["session"], o["check"], o["was"]) for o in REVIEWED["changed"]} <= there
    assert all(o["rule"] and o["reason"] for o in REVIEWED["changed"])
    refused = {(session, check.split()[0]) for session, check, was in there if was in ("FAIL", "INVALID")}
    assert set(REVIEWED["lifted"].items()) <= refused


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name.partition(".")[0])
def test_kept_records_are_judged_as_they_were(kept):
    assert kept_sessions._of(kept)
    for record in kept_sessions._of(kept):
        assert "/root" not in record.path.read_text(), record.path
        judgement = rejudge.of_record(record, machine_of(None, record))
        assert judgement.verdict == expected(record, judgement), f"{record.path}: {judgement.message()}"
        if record.result is not None:
            assert record.result.node == "node1", record.path


def test_first_runs_repeat_the_token_of_their_request():
    ran = [r for r in kept_sessions.first_runs() if r.result is not None]
    assert len(ran) >= 50
    assert all(r.request is not None and r.request.token and r.result.token == r.request.token for r in ran)


def test_a_healthy_gpu_is_green_to_an_ordinary_user():
    """`make run` on one H200, from nothing: no FAIL, no INVALID, and it took 4 min 40 s with the build."""
    ran = kept_sessions.user_run()
    assert Counter(r.verdict for r in ran) == {"RECORDED": 26, "PASS": 18, "WAIVED": 4}
    assert {r.session for r in ran} == {"20261122T162616Z-3c6343"}
    begun = datetime(2026, 11, 22, 16, 26, 16, tzinfo=timezone.utc)
    last = max(datetime.fromisoformat(r.time.replace("Z", "+00:00")) for r in ran)
    assert (last - begun).total_seconds() < 300


def test_two_healthy_gpus_have_no_failure():
    """`make run` on two H200: every check that takes all GPUs measures the second one, on a separate stream."""
    ran = [r for r in kept_sessions.two_cards() if r.session == "20261122T191720Z-18ff9f"]
    assert Counter(r.verdict for r in ran) == {"RECORDED": 27, "PASS": 20, "WAIVED": 5, "INVALID": 1}
    (disturbed,) = (r for r in ran if r.verdict == "INVALID")
    assert disturbed.check == "Transfer" and disturbed.result.load.steal_cpu_seconds > 0
    for check in ("AccessPatternsQuick %placement=managed_touch", "Migration %placement=managed_touch"):
        (record,) = (r for r in ran if r.check == check)
        assert {gpu for m in record.result.metrics for gpu in m.subject.gpus} == {0, 1}


def test_the_system_files_own_quick_run_repeats_its_requests():
    ran = [r for r in kept_sessions.quick_run() if r.session.endswith("-h200quick")]
    assert len(ran) == 47 and {r.mode for r in ran} == {"quick"}
    measured = [r for r in ran if r.result is not None]
    assert all(r.request is not None and r.request.token and r.result.token == r.request.token for r in measured)


def test_newcomers_runs_on_two_cards_are_clean():
    """As an ordinary user and as root, through `make run` alone."""
    sessions = {r.session for r in kept_sessions.two_clean()}
    assert len(sessions) == 2
    for session in sessions:
        ran = [r for r in kept_sessions.two_clean() if r.session == session]
        verdicts = Counter(r.verdict for r in ran)
        assert verdicts == {"RECORDED": 25, "PASS": 23, "WAIVED": 5}
        assert {r.mode for r in ran} == {"quick"}


def test_runs_on_one_card_are_clean_but_for_one_check_with_too_few_repetitions():
    """`StreamOpenACC` temporarily had 40 repetitions; it was run again with 100."""
    ran = kept_sessions.one_card()
    by_session = {session: [r for r in ran if r.session == session] for session in {r.session for r in ran}}
    assert sorted(len(one) for one in by_session.values()) == [1, 1, 1, 10, 47, 48, 48]
    assert {(r.check, r.verdict) for r in ran if r.verdict in ("FAIL", "INVALID")} == {("StreamOpenACC", "INVALID")}
    again = by_session["20261123T015013Z-9bd73b"][0]
    assert (again.check, again.verdict) == ("StreamOpenACC", "RECORDED")


def test_ten_launches_of_dgemm_and_hpl_mxp_are_within_their_bars():
    per_watt, solved = [], {}
    for record in kept_sessions.one_card():
        for metric in record.result.metrics if record.result is not None else ():
            if record.session.endswith("-h200cv") and metric.name == "per_watt":
                per_watt.append(metric.value)
            if record.session.endswith("-h200mxp") and metric.name in ("hpl_mxp", "product"):
                solved[metric.name] = metric.value
    assert len(per_watt) == 10 and stdev(per_watt) / mean(per_watt) < 0.01
    assert solved["hpl_mxp"] > 0.85 * solved["product"] > 500


def test_launches_of_dgemm_agree_since_each_algorithm_has_the_gpu_to_itself():
    per_watt: dict[str, list[float]] = {}
    chosen: dict[str, set[str]] = {}
    for record in kept_sessions.launches():
        for metric in record.result.metrics:
            if metric.name == "per_watt" and metric.at["precision"] == "fp64_tensor":
                per_watt.setdefault(record.session, []).append(metric.value)
                chosen.setdefault(record.session, set()).update(
                    text for key, text in record.result.path.items() if key.startswith("algorithm.")
                )
    before, after = (per_watt[session] for session in ("20261122T223046Z-h200cv", "20261122T235300Z-h200cv"))
    assert (len(before), len(after)) == (7, 6)
    assert stdev(before) / mean(before) > 0.04 and stdev(after) / mean(after) < 0.01
    assert len(chosen["20261122T223046Z-h200cv"]) == 3 and len(chosen["20261122T235300Z-h200cv"]) == 1
