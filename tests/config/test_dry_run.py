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


def variables(name: str) -> dict[str, str]:
    return {v.name: "gz00" for v in loader.load(name).variables.values() if v.required}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_gets_job_scripts(name, tmp_path):
    outcome = reframe("--dry-run", "--system", name, folder=tmp_path, **variables(name))
    usable = all(p.usable for p in loader.load(name).partitions.values())
    if not usable:
        assert outcome.code != 0
        assert "cannot be used" in outcome.output
        return
    assert outcome.code == 0, outcome.output
    scripts = list((tmp_path / "stage").rglob("rfm_job.sh"))
    assert scripts
    for script in scripts:
        text = script.read_text()
        assert 'echo "TENKEN-END status=$tenken_status' in text
        assert "--json result.json" in text
    assert outcome.records == []


def test_miyabis_scripts_hold_queue_group_select_walltime_and_modules(tmp_path):
    outcome = reframe("--dry-run", "--system", "miyabi", folder=tmp_path, TENKEN_GROUP="gz00")
    assert outcome.code == 0, outcome.output
    (script,) = (tmp_path / "stage").rglob("StreamHost/rfm_job.sh")
    text = script.read_text()
    for line in (
        "#PBS -q regular-g", "#PBS -W group_list=gz00", "#PBS -l select=1:mpiprocs=1", "#PBS -l walltime=00:30:00",
        "module load", "source /etc/profile.d/modules.sh", "unset OMPI_MCA_mca_base_env_list",
    ):  # fmt: skip
        assert line in text
    assert "ngpus" not in text


def test_an_unset_group_is_named_before_anything_is_submitted(tmp_path):
    outcome = reframe("-r", "--system", "miyabi", folder=tmp_path)
    assert outcome.code != 0
    assert "system 'miyabi': TENKEN_GROUP (project group" in outcome.output
    assert "is not set" in outcome.output


def test_an_unknown_system_is_refused(tmp_path):
    outcome = reframe("-r", "--system", "miyabbi", folder=tmp_path)
    assert outcome.code != 0
    assert "miyabbi" in outcome.output
