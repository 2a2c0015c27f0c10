"""If set-up determines that a machine cannot run a check, a waiver is archived, not a failure."""

from __future__ import annotations

import pytest

from tenken.model import verdicts as verdict
from tests.support.reframe import reframe

pytestmark = pytest.mark.xdist_group("waive")  # one worker creates the files that this module shares

PROBE = """
import reframe as rfm
from reframe.core.builtins import run_after
from tenken.reframe.base import TenkenCheck


@rfm.simple_test
class NeedsMore(TenkenCheck):
    program = "daxpy"

    @run_after("setup")
    def find_out(self):
        self.waive("needs more ranks: 4 GPUs are requested, a node has 2")


@rfm.simple_test
class IsLate(TenkenCheck):
    program = "daxpy"

    @run_after("setup")
    def find_out(self):
        self.waive("it is late")
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Both in one run, since the common build takes most of the time."""
    folder = tmp_path_factory.mktemp("waive")
    probe = folder / "probe.py"
    probe.write_text(PROBE)
    return reframe("-r", "--system", "local", "-n", "NeedsMore|IsLate", folder=folder, checks=str(probe))


def test_a_waiver_of_set_up_is_archived_and_read_as_one(outcome):
    (record,) = [r for r in outcome.records if r.check == "NeedsMore"]
    assert record.verdict == verdict.WAIVED
    assert outcome.case("NeedsMore")["result"] == "skip"


def test_a_reason_that_is_not_on_the_list_is_a_failure(outcome):
    assert outcome.code != 0 and "is not a valid reason for a waiver" in outcome.output, outcome.output
    assert outcome.case("IsLate")["result"] == "fail"
    assert not [r for r in outcome.records if r.check == "IsLate" and r.verdict == verdict.WAIVED]
