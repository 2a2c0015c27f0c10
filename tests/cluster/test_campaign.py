"""A campaign on the real Slurm of the tests and on the PBS stand-in: killed, resumed, with one slow node."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter

import pytest

from tenken.campaign import groupjobs, groups, journal, spool
from tenken.campaign.file import Between, Campaign
from tenken.commands import campaign_queues
from tenken.machines import loader
from tests.cluster.campaigns import Small
from tests.support.exchanges import alltoall

pytestmark = pytest.mark.slow


def finds_the_slow_node(small: Small, nodes: set[str], slow: str, command: str) -> None:
    code, text = small.call("report", "small")
    assert code == 1, text
    assert f"device {slow}: CampaignProbeA daxpy is 80.00 % worse" in text and command in text
    assert {line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith("  device ")} == {slow}
    (session,) = {r.session for r in small.records() if r.session.endswith("-round1")}
    told = {n: spool.configuration(small.folder / "perflogs", session, n) for n in nodes}
    assert all(one["host"]["kernel"] == os.uname().release for one in told.values())
    of_node = Counter(r.nodes[0] for r in small.records())
    # two checks once on each node, and once more on the suspect: none lost, none repeated
    assert of_node == {n: 4 if n == slow else 2 for n in nodes}, of_node
    assert (small.folder / "campaigns/small/report.html").is_file()


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_on_slurm_it_survives_three_kills_and_finds_the_slow_node(slurm, tmp_path):
    small = Small(tmp_path, slurm.environment)
    small.lay_out("minislurm", "gpu", "nid[1-4]", "nid3")
    arguments = ("--poll", "0.3", "--late", "5")
    small.killed_when(("run", "small", *arguments), "intent")
    small.killed_when(("resume", "small", *arguments), "submitted")
    # a job of the campaign that it does not know
    slurm.slurm("sbatch", "-H", "--comment=tenken-campaign/small/feedfeedfeedfeed", "--wrap", "true", "-o", "/dev/null")
    small.killed_when(("resume", "small", *arguments), "gathered")
    began = time.time()
    code, text = small.call("resume", "small", *arguments)
    assert code == 0, text
    assert re.search(r"belongs to no open attempt of this campaign: cancelled", text) or "feed" not in slurm.slurm(
        "squeue", "-h", "-o", "%k"
    )
    assert slurm.slurm("squeue", "-h") == ""
    assert len(re.findall(r"^\d\d:\d\d:\d\d ", text, re.M)) >= (time.time() - began) / 10 - 1
    finds_the_slow_node(small, {"nid1", "nid2", "nid3", "nid4"}, "nid3", "scontrol update nodename=nid3 state=drain")
    assert "http-equiv=refresh" in (tmp_path / "campaigns/small/live.html").read_text()
    assert small.call("run", "small")[0] == 2, "it has started"


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_on_slurm_a_dead_node_is_named_at_once_and_only_what_failed_is_taken_out(slurm, tmp_path):
    """Killed while it waits for the node: its report proposes to take nothing out of service that was not reached."""
    slurm.kill_node("nid4")
    slurm.slurm("scontrol", "update", "nodename=nid4", "state=drain", "reason=psu 2 failed")
    small = Small(tmp_path, slurm.environment)
    small.lay_out("minislurm", "gpu", "nid[1-4]", "nid3", factor=1.0)
    process = small.start("run", "small", "--poll", "0.3", "--late", "5")
    assert process.stdout is not None
    told, until = [], time.time() + 120
    for line in process.stdout:
        told.append(line)
        waits = re.search(r"1 cannot start: nid4 \(.*psu 2 failed", line)
        if time.time() > until or (waits and small.events().count("gathered") >= 3):
            break
    process.kill()
    process.communicate()
    said = "".join(told)
    assert re.search(
        r"node nid4: its job \d+ cannot start \(.*nid4 is d.*psu 2 failed.*\); given up after 30 min", said
    )
    _, text = small.call("report", "small")
    assert "nid4" in text, text
    assert "nodename=nid4" not in text and "nodename=nid" not in text, text
    small.environment = {**small.environment, "TENKEN_PATIENCE": "blocked=00:00:02"}
    began = time.time()
    code, text = small.call("resume", "small", "--poll", "0.3", "--late", "5")
    assert code == 3 and time.time() - began < 100, text
    assert len(re.findall(r"node nid4: its job \d+ cannot start \(.*\); given up after 6 s", text)) == 2, text
    lost = [json.loads(line) for line in (tmp_path / "campaigns/small" / journal.FILE).read_text().splitlines()]
    why = [event["why"] for event in lost if event["event"] == "ended"]
    assert len(why) == 2 and all(re.search(r"could not start for 6 s \(.*psu 2 failed", one) for one in why), why


@pytest.mark.schedulers
def test_on_pbs_it_survives_three_kills_and_finds_the_slow_node(site, tmp_path):
    one = site("pbs")
    small = Small(tmp_path, one.environment)
    small.lay_out("miyabi", "gpu", "mg[0001-0004]", "mg0002")
    arguments = ("--poll", "0.3", "--late", "5")
    small.killed_when(("run", "small", *arguments), "intent")
    small.killed_when(("resume", "small", *arguments), "submitted")
    small.killed_when(("resume", "small", *arguments), "gathered")
    code, text = small.call("resume", "small", *arguments)
    assert code == 0, text
    finds_the_slow_node(small, {f"mg000{i}" for i in range(1, 5)}, "mg0002", "pbsnodes -o")
    assert all(job["state"] == "ended" for job in one.cluster.jobs().values())


PROGRAM = r"""#!/bin/sh
# a rank of an exchange: each leaves its host, the last one a document of all
while [ $# -gt 0 ]; do case $1 in --json) out=$2;; --ranks) ranks=$2;; esac; shift; done
rank=${SLURM_PROCID:-$STANDIN_RANK}
uname -n > "$out.part.$rank" && mv "$out.part.$rank" "$out.$rank"
[ "$(ls "$out".[0-9]* | wc -l)" = "$ranks" ] || exit 0
us=$((100 * (ranks - 1)))
grep -q SLOW "$out".[0-9]* && us=$((125 * (ranks - 1)))
hosts=$(cat "$out".[0-9]* | sed 's/.*/"&"/' | paste -sd, -)
sed "s/\"HOSTS\"/$hosts/; s/SECONDS/${us}e-6/g" > "$out.whole.$rank" << 'END'
DOCUMENT
END
mv "$out.whole.$rank" "$out"
"""


def group_jobs_find(system, nodes, slow, folder, launch):
    """A search with jobs over groups of four nodes, two per leaf: each ran exactly on the nodes of its group."""
    program = folder / "exchange"
    told = re.sub(r'"seconds": \[[^]]*\]', '"seconds": [SECONDS, SECONDS, SECONDS]', alltoall(["HOSTS"]))
    told = told.replace('"ranks": 1', '"ranks": 4')
    program.write_text(PROGRAM.replace("SLOW", slow).replace("DOCUMENT", told))
    program.chmod(0o755)
    between = Between("switch", program=str(program), minutes=1)
    one = Campaign("g", system, "gpu", nodes, 60.0, between=between)
    queue = campaign_queues.of(one, loader.load(system).expand(os.environ).partition("gpu"))
    said: list[str] = []
    jobs = groupjobs.GroupJobs(one, folder, queue, launch, said.append, poll=0.3)
    asked: list[list[tuple[int, ...]]] = []

    def ask(wanted):
        asked.append(list(wanted))
        return jobs.ask([tuple(nodes[i] for i in group) for group in wanted])

    found = groups.search(range(4), lambda i: i // 2, ask)
    assert ([nodes[i] for i in found.nodes], found.leaves, found.whole) == ([slow], [], True), said
    for number, wanted in enumerate(asked):
        place = folder / groupjobs.FOLDER / f"round-{number + 1:02d}"
        for at, group in enumerate(wanted):
            ran = sorted(p.read_text().strip() for p in place.glob(f"{at}.json.[0-9]*"))
            assert ran == (sorted(nodes[i] for i in group) if len(group) > 1 else [])


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_jobs_over_groups_run_on_slurm_and_find_the_slow_node(slurm, tmp_path, monkeypatch):
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    nodes = ("nid1", "nid2", "nid3", "nid4")
    group_jobs_find("minislurm", nodes, "nid3", tmp_path, groupjobs.LAUNCH["srun"])


@pytest.mark.schedulers
def test_jobs_over_groups_run_on_pbs_and_find_the_slow_node(site, tmp_path, monkeypatch):
    for name, value in site("pbs").environment.items():
        monkeypatch.setenv(name, value)
    nodes = tuple(f"mg000{i}" for i in range(1, 5))
    group_jobs_find("miyabi", nodes, "mg0002", tmp_path, groupjobs.LAUNCH["mpirun"])
