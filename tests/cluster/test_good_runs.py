"""One whole session on a stand-in for each scheduler; faults are in test_standins.py."""

from __future__ import annotations

import re

import pytest

from tests.cluster.conftest import SITES


@pytest.mark.parametrize("scheduler", sorted(SITES))
def test_a_good_run_passes_and_names_its_node(site, scheduler):
    outcome = site(scheduler).run()
    assert outcome.code == 0, outcome.output
    (record,) = outcome.records
    first = {"pbs": "mg0001", "nqsv": "pg001", "gridengine": "r1i0n0"}[scheduler]
    assert (record.verdict, record.nodes, record.job.exit_code) == ("RECORDED", (first,), 0)
    assert re.fullmatch(r"1000(\.opbs|\.nqsv)?", record.job.id)
