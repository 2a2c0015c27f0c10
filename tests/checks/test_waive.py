"""What set-up can tell that a machine cannot do is archived, and no failure."""

from __future__ import annotations

from tenken import verdict
from tests.support.reframe import reframe

PROBE = """
import reframe as rfm
from reframe.core.builtins import run_after
from checks.daxpy import Daxpy


@rfm.simple_test
class NeedsMore(Daxpy):
    @run_after("setup")
    def find_out(self):
        self.waive("{reason}")
"""


def run(tmp_path, reason: str):
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE.replace("{reason}", reason))
    return reframe("-r", "--system", "local", "-n", "NeedsMore", folder=tmp_path, checks=str(probe))


def test_a_waiver_of_set_up_is_archived_and_read_as_one(tmp_path):
    outcome = run(tmp_path, "needs more ranks: 4 GPUs are asked for, a node has 2")
    assert outcome.code == 0, outcome.output
    (record,) = [r for r in outcome.records if r.check == "NeedsMore"]
    assert record.verdict == verdict.WAIVED
    assert outcome.case("NeedsMore")["result"] == "skip"


def test_a_reason_that_is_not_on_the_list_is_a_failure(tmp_path):
    outcome = run(tmp_path, "it is late")
    assert outcome.code != 0 and "is no reason for a waiver" in outcome.output, outcome.output
