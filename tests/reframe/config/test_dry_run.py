"""Every system can be listed with nothing set, and its job scripts contain what the site requires."""

from __future__ import annotations

import pytest

from tenken.machines import loader
from tenken.reframe.configuration import site_configuration
from tests.support.reframe import reframe

#: One of each scheduler; the configuration of all systems is the same code.
SYSTEMS = ["miyabi", "pegasus", "tsubame3", "minislurm", "local"]


@pytest.mark.sessions
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_can_be_listed_with_nothing_set(name, tmp_path):
    outcome = reframe("-l", "--system", name, folder=tmp_path)
    assert outcome.code == 0, outcome.output
    assert "Daxpy" in outcome.output


@pytest.mark.parametrize("name", loader.names())
def test_every_system_is_described_with_nothing_set(name, monkeypatch):
    """ReFrame's view of every system, without its own variables, has partitions and environments for each."""
    for variable in loader.load(name).variables:
        monkeypatch.delenv(variable, raising=False)
    # ReFrame is started for this system, so that a file that cannot be read is an error, and not left out
    monkeypatch.setattr("sys.argv", ["reframe", "-l", f"--system={name}"])
    (system,) = [one for one in site_configuration()["systems"] if one["name"] == name]
    assert system["partitions"]
    assert all(partition["environs"] for partition in system["partitions"])


def test_an_unset_group_is_named_before_anything_is_submitted(tmp_path):
    outcome = reframe("-r", "--system", "miyabi", folder=tmp_path)
    assert outcome.code != 0
    assert "system 'miyabi': TENKEN_GROUP (project group" in outcome.output
    assert "is not set" in outcome.output


def test_an_unknown_system_is_refused(tmp_path):
    outcome = reframe("-r", "--system", "miyabbi", folder=tmp_path)
    assert outcome.code != 0
    assert "miyabbi" in outcome.output
