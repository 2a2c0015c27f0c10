"""Campaign files: every fault is one line with its place; names of nodes; messages of the commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tenken.campaign import file, journal
from tenken.campaign.file import Between, Campaign, CampaignError
from tests.support import campaign as command

GOOD = """\
system: minislurm
partition: gpu
nodes: "nid[1-4]"
checks: {mode: quick, environments: [host]}
minutes: 30
rounds: 2
concurrency: 3
budget_node_hours: 8
power: {node_kw: 10, ramp_kw_per_s: 20}
retest: {runs: 2, max_nodes: 3}
groups: groups.csv
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path))
    (tmp_path / "groups.csv").write_text("node,rack\n" + "".join(f"nid{i},r{i // 3}\n" for i in range(1, 5)))
    (tmp_path / "good.yaml").write_text(GOOD)
    return tmp_path


def test_a_good_file_is_read(home):
    one = file.load("good")
    assert one.nodes == ("nid1", "nid2", "nid3", "nid4") and one.seconds == 1800 and one.max_retested == 3
    assert one.groups == {"rack": {"nid1": "r0", "nid2": "r0", "nid3": "r1", "nid4": "r1"}}
    assert one.seconds_between_starts == 0.5


LEAST = "system: minislurm\npartition: gpu\nnodes: [nid1, nid2, nid3, nid4]\nminutes: 30\n"
FULL = """\
title: t
checks: {paths: [checks/stream.py], names: [a], mode: quick, environments: [host], set: {x: "1"}}
rounds: 2
concurrency: 3
budget_node_hours: 8
wait_hours: 2
attempts: 4
power: {node_kw: 10, ramp_kw_per_s: 20, in_phase: true}
retest: {runs: 3, max_nodes: 5, checks: suspect}
groups: groups.csv
unit: rack
pin: p
between: {leaf: rack, program: b, launch: "{ranks}", buffers: device, kib: 2, repetitions: 6, minutes: 7,
          launch_pair: "{nodes}", partners: 8, crossing: 9, rails: [m]}
redfish: {address: "https://{node}-bmc", ca: groups.csv, verify: false}
environment: {E: "v"}
"""


def test_every_key_is_one_field_and_has_one_default(home):
    (home / "least.yaml").write_text(LEAST + "checks: {}\n")
    least = Campaign("least", "minislurm", "gpu", ("nid1", "nid2", "nid3", "nid4"), 1800.0)
    assert file.load("least") == least
    (home / "full.yaml").write_text(LEAST + FULL)
    racks = {"rack": {"nid1": "r0", "nid2": "r0", "nid3": "r1", "nid4": "r1"}}
    assert file.load("full") == replace(
        least, name="full", title="t", paths=("checks/stream.py",), names=("a",), mode="quick", environments=("host",),
        variables={"x": "1"}, rounds=2, concurrency=3, budget_node_hours=8, wait_seconds=7200.0, attempts=4,
        node_kw=10.0, ramp_kw_per_s=20, in_phase=True, retest_runs=3, max_retested=5, retest_suspect_checks=True,
        groups=racks, unit="rack", pin="p", bmc="https://{node}-bmc", bmc_ca=home / "groups.csv", bmc_verify=False,
        environment={"E": "v"},
        between=Between("rack", "b", "{ranks}", "device", 2048, 6, 7.0, "{nodes}", 8, 9, ("m",)),
    )  # fmt: skip


def test_a_node_is_one_however_its_files_spell_it(home):
    (home / "groups.csv").write_text("node,rack\nNID1.site.org,r0\nnid2.site.org,r0\nNid3,r1\n")
    (home / "good.yaml").write_text(GOOD.replace('nid[1-4]"', 'nid[1-2],NID3,nid4.site"\nexclude: [NID4]'))
    one = file.load("good")
    assert one.nodes == ("nid1", "nid2", "NID3"), "as the scheduler is asked for them"
    assert one.groups == {"rack": {"nid1": "r0", "nid2": "r0", "NID3": "r1"}}


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("system: minislurm", "system: minislrum", 1, "did you mean 'minislurm'"),
        ("partition: gpu", "partition: gpus", 2, "did you mean 'gpu'? allowed: gpu"),
        ("nid[1-4]", "nid[4-1]", 3, "is not a range"),
        ("nid[1-4]", "nid[1-2],nid2", 3, "node 'nid2' is listed twice"),
        ("nid[1-4]", "nid[1-2],NID2.site", 3, "node 'NID2.site' is listed twice"),
        ("nid[1-4]", "nid[1-999999999]", 3, "more than 100000 nodes"),
        ("nid[1-4]", "nid[1-5]", 11, "has no line for node 'nid5'"),
        ("mode: quick", "mode: quik", 4, "did you mean 'quick'"),
        ('"nid[1-4]"', "\n  - nid1\n  - nid[2-1]", 5, "is not a range"),
        ("minutes: 30", "exclude: ['nid[1-4]']\nminutes: 30", 5, "'exclude' excludes every node"),
        ("minutes: 30", "exclude: [nid2, nid9, nid8]\nminutes: 30", 5, "'exclude' names 'nid8', which is not among"),
        ("minutes: 30", "minutes: 0", 5, "must be more than 0"),
        ("minutes: 30", "minute: 30", 5, "did you mean 'minutes'"),
        ("rounds: 2", "rounds: two", 6, "must be a whole number"),
        ("budget_node_hours: 8", "budget_node_hours: 1", 8, "one round of 4 nodes takes up to 2"),
        ("ramp_kw_per_s: 20", "ramp: 20", 9, "unknown key 'ramp'"),
        ("retest: {runs: 2", "retest: {runs: 0", 10, "must be at least 1"),
        ("max_nodes: 3", "checks: suspects", 10, "did you mean 'suspect'"),
        ("groups.csv", "none.csv", 11, "cannot be read: No such file"),
        ("groups: groups.csv", "groups: none.csv\nunit: rack\nbetween: {leaf: rack}", 11, "cannot be read"),
        ("groups: groups.csv", "between: {leaf: rack}", 11, "'groups' lists no file with such a column"),
        ("groups: groups.csv", "groups: groups.csv\nbetween: {leaf: rak}", 12, "did you mean 'rack'? allowed: rack"),
        ("rounds: 2", "exclude: [nid3]\nbetween: {leaf: rack}", 7, "rack 'r1' has 1 node, and there are 2 groups; at"),
        ("rounds: 2", "exclude: [nid3, nid4]\nbetween: {leaf: rack}", 7, "'r0' has 2 nodes, and there are 1 groups"),
        ("groups: groups.csv", "between: {kib: 2}", 11, "'between' names no leaf switches: set 'fabric"),
        ("groups: groups.csv", "redfish: {address: 'https://bmc'}", 11, "'redfish.address' is one BMC for all nodes"),
        ("groups: groups.csv", "redfish: {address: 'https://{node}', ca: x}", 11, "'redfish.ca': no file"),
        ("groups: groups.csv", "groups: groups.csv\nunit: rak", 12, "did you mean 'rack'? allowed: rack"),
        ("groups: groups.csv", "unit: rack", 11, "'groups' lists no file"),
        ("concurrency: 3", "concurrency: 1\nunit: rack", 7, "the 2 nodes of rack 'r0' start together"),
        ("budget_node_hours: 8", "budget_node_hours: 0.5\nunit: rack", 8, "rack 'r0' alone needs 1"),
        ("checks: {", "checks: {paths: [nowhere], ", 4, "no file or folder 'nowhere'"),
    ],
)
def test_a_fault_is_one_line_with_its_place(home, old, new, line, says):
    assert old in GOOD
    (home / "bad.yaml").write_text(GOOD.replace(old, new))
    with pytest.raises(CampaignError) as error:
        file.load("bad")
    *before, found = str(error.value).splitlines()
    assert says in found and f"bad.yaml:{line}:" in found
    assert len(before) == any(two in new for two in ("minute:", "ramp:", "0.5")), "a key is missing too, or a budget"


def test_names_of_nodes_expand():
    assert file.expand("n[08-10],x[1,3-3,4]-y,a.b") == ["n08", "n09", "n10", "x1-y", "x3-y", "x4-y", "a.b"]
    for wrong in ("n[1-", "n[]", "-w", "n[a-b]", "n]1["):
        with pytest.raises(ValueError, match=r"not a range|names no nodes"):
            file.expand(wrong)


def test_a_campaign_that_is_not_there_or_cannot_be_called_so_is_told(home):
    with pytest.raises(CampaignError, match=r"no campaign 'goood'.*did you mean 'good'"):
        file.load("goood")
    with pytest.raises(CampaignError, match="invalid campaign name"):
        file.load("../good")


@pytest.mark.parametrize("action", ["status", "stop", "report", "resume"])
def test_what_needs_a_campaign_that_began_says_so(home, capsys, action):
    assert command.main([action, "good"]) == 2
    assert re.search(r"'good' has not started: `tenken campaign run good`", capsys.readouterr().err)
    assert not (home / "good" / journal.FILE).exists()


def test_status_tells_what_is_done_and_retest_waits_for_the_end(home, capsys):
    log = journal.Journal(home / "good", lambda: 1.0)
    log.open()
    log.note("campaign", name="good", begun="20260101T000000Z")
    log.note("intent", token="aa", unit="nid1/round/1", attempt=1)
    log.note("ended", token="aa", why="job 7 left no file (NODE_FAIL)")
    log.close()
    assert command.main(["status", "good"]) == 3
    assert "0 of 4 nodes tested" in (said := capsys.readouterr().out) and "nid1 (round 1): job 7 left no file" in said
    assert command.main(["run", "good"]) == 2 and "has started" in capsys.readouterr().err
    assert command.main(["retest", "good", "nid1"]) == 2 and "has not ended" in capsys.readouterr().err
    assert command.main(["stop", "good"]) == 0 and (home / "good" / "stop").exists()
