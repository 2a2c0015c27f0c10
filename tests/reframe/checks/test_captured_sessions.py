"""Every record of a machine is judged today as it was then, except for those that a person reviewed."""

from __future__ import annotations

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
    # the link to the host passes no files, nor a product a training: the rule `links`
    beside = ("link_", "product.") if record.program == "training" else ("link_",)
    values = [one for name, one in judgement.judged.items() if not name.startswith(beside)]
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
