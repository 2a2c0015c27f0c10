"""`tenken campaign together`: checks over all nodes that passed alone and in pairs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tenken.campaign.file import Between, Campaign, CampaignError
from tenken.commands import campaign as command

CAMPAIGN = Campaign("c", "minislurm", "gpu", ("n1", "n2", "n3"), 60.0, between=Between(""))


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """What ReFrame was started with; its session leaves one PASS."""
    started = []
    monkeypatch.setattr(command, "_between", lambda campaign, folder: (None, campaign.between))
    monkeypatch.setattr(command, "_sessions", lambda state: ["s"])
    verdict = SimpleNamespace(message=lambda: "held")
    one = SimpleNamespace(mode="acceptance", verdict="PASS", check="NcclBetweenNodes", judgement=verdict)
    monkeypatch.setattr(command.archive, "records", lambda root, session, figures_only: iter([one]))
    monkeypatch.setattr(command.subprocess, "run", lambda words, **more: started.append((words, more)))
    return tmp_path, started, one


def test_all_nodes_in_order_run_each_check_together(ran, capsys):
    folder, started, one = ran
    with pytest.raises(CampaignError, match="`tenken campaign pairs c` comes first"):
        command._together(CAMPAIGN, folder)
    for number, good in ((2, ["n1"]), (10, ["n1", "n3"])):
        (folder / f"pairs-{number}").mkdir()
        (folder / f"pairs-{number}" / command.GOOD).write_text(json.dumps(good))
    assert command._together(CAMPAIGN, folder) == 0
    ((words, more),) = started
    text = " ".join(words)
    assert "--mode acceptance --system minislurm:gpu" in text and text.endswith("-J nodelist=n1,n3")
    assert all(f"-n ^{check}$ -S {check}.num_nodes=2" in text for check in command.TOGETHER)
    assert more["env"]["TENKEN_SESSION"]
    assert "PASS NcclBetweenNodes over 2 nodes: held" in capsys.readouterr().out
    one.verdict = "FAIL"
    assert command._together(CAMPAIGN, folder) == 1
    (folder / "pairs-11").mkdir()
    (folder / "pairs-11" / command.GOOD).write_text('["n1"]')
    with pytest.raises(CampaignError, match="1 nodes are in order; required: 2 or more"):
        command._together(CAMPAIGN, folder)
