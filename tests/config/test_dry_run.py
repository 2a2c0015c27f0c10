"""Every system can be listed with nothing set, and its job scripts hold what the site wants."""

from __future__ import annotations

import pytest

from systems import loader
from tests.support.reframe import reframe

SYSTEMS = [*loader.names(), "local"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_listed_with_nothing_set(name, tmp_path):
    outcome = reframe("-l", "--system", name, folder=tmp_path)
    assert outcome.code == 0, outcome.output
    assert "Daxpy" in outcome.output


def test_an_unset_group_is_named_before_anything_is_submitted(tmp_path):
    outcome = reframe("-r", "--system", "miyabi", folder=tmp_path)
    assert outcome.code != 0
    assert "system 'miyabi': TENKEN_GROUP (project group" in outcome.output
    assert "is not set" in outcome.output


def test_an_unknown_system_is_refused(tmp_path):
    outcome = reframe("-r", "--system", "miyabbi", folder=tmp_path)
    assert outcome.code != 0
    assert "miyabbi" in outcome.output
