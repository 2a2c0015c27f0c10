"""Job scripts of each scheduler, the limits that they state, and ReFrame's configuration inside such a job."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tenken.campaign import nodejob
from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.journal import Unit
from tenken.campaign.queue import JobScript, Refused
from tenken.commands import campaign_queues as queues
from tenken.machines import loader
from tenken.model.job import job_name
from tenken.model.job_exit import NO_STAGE
from tenken.reframe import configuration
from tenken.reframe.build import built_key, built_once

JOB = JobScript("tk12345678", "tenken-campaign/c/12345678", "n7", 90.0, Path("/s/out"), ["echo hello"])


def queue(system: str, pin: str | None = None):
    partition = next(iter(loader.load(system).expand({"TENKEN_GROUP": "g", "TENKEN_PROJECT": "g"}).partitions.values()))
    return queues.of(Campaign("c", system, partition.name, ("n7",), 90.0, pin=pin), partition)


@pytest.mark.parametrize(
    ("system", "pin", "lines"),
    [
        (
            "minislurm",
            None,
            ["#SBATCH --nodelist=n7", "#SBATCH --exclusive", "#SBATCH --no-requeue", "#SBATCH --time=2"],
        ),
        ("miyabi", None, ["host=n7", "#PBS -r n", "#PBS -l walltime=00:01:30"]),
        ("tsubame3", None, ["#$ -l hostname=n7", "#$ -r n", "#$ -l h_rt=00:01:30"]),
        ("pegasus", "--job-host={node}", ["#PBS --job-host=n7", "#PBS -b 1", "#PBS -l elapstim_req=00:01:30"]),
    ],
)
def test_a_job_is_pinned_to_its_node_and_not_run_again(system, pin, lines):
    text = queue(system, pin).script(JOB)
    assert text.startswith("#!/bin/bash\n") and text.rstrip().endswith("echo hello")
    for line in lines:
        assert line in text, text


def test_a_scheduler_without_a_known_way_to_pin_asks_for_one():
    with pytest.raises(CampaignError, match="set 'pin' in the campaign file"):
        queue("pegasus")
    with pytest.raises(CampaignError, match="allowed: slurm, pbs, nqsv, gridengine"):
        queue("h200")


def test_limits_are_read_first_and_answers_that_cannot_be_read_are_refused(monkeypatch):
    said = "MaxArraySize = 1001\nMaxJobCount             = 10000\n"
    monkeypatch.setattr(queues.command, "run", lambda words, timeout, ok=(0,): said)
    limits = queue("minislurm").limits()
    assert (limits.queued, limits.says) == (2500, "a quarter of MaxJobCount")
    with pytest.raises(Refused, match="printed no job id"):
        queue("minislurm").submit(Path("x"))
    with pytest.raises(Refused, match="no JSON"):
        queue("miyabi").states(["1"])


@pytest.mark.parametrize(
    ("server", "of_queue", "most"),
    [
        ("    max_queued = [o:PBS_ALL=100]\n    max_queued = [u:PBS_GENERIC=50]\n    max_queued = [u:me=60]\n", "", 60),
        ("    max_queued = [o:PBS_ALL=100]\n    max_queued = [u:PBS_GENERIC=50]\n", "", 50),
        ("    max_queued = [u:PBS_GENERIC=50]\n    max_queued = [g:PBS_GENERIC=3]\n", " max_queued = [o:PBS_ALL=4]", 4),
        ("    max_run = [u:PBS_GENERIC=2]\n", "", None),
        (None, "    max_queued = [u:PBS_GENERIC=7]\n", 7),
        ("    max_queued = [p:PBS_GENERIC=9]\n    max_queued = [p:gj=6]\n", " max_queued = [u:PBS_GENERIC=7]", 6),
        ("    max_queued = [p:PBS_GENERIC=9]\n    max_queued = [p:other=6]\n", "", 9),
    ],
)  # fmt: skip
def test_of_several_limits_of_pbs_the_one_that_binds_counts(monkeypatch, server, of_queue, most):
    def run(words, timeout, ok=(0,)):
        said = server if words[2] == "list server" else of_queue
        if said is None:
            raise queues.command.CommandError("x", "x")
        return said

    monkeypatch.setattr(queues.command, "run", run)
    monkeypatch.setattr(queues.getpass, "getuser", lambda: "me")
    one = queue("miyabi")
    one.partition = replace(one.partition, access=("-q gpu", "-P gj"))
    assert one.limits().queued == most


@pytest.mark.parametrize(
    ("system", "answer"),
    [
        ("pegasus", "RequestID ReqName UserName Queue\n7.nqsv {} me gen 0 RUN -\n8.nqsv izanagi- me gen 0 RUN -\n"),
        ("tsubame3", "<job_list><JB_job_number>7.nqsv</JB_job_number><JB_name>{}</JB_name></job_list>"),
    ],
)  # fmt: skip
def test_a_job_of_a_campaign_is_found_by_the_eight_characters_of_its_name(monkeypatch, system, answer):
    name = job_name("0123456789abcdef")
    number = "7" if system == "tsubame3" else "7.nqsv"
    monkeypatch.setattr(queues.command, "run", lambda *args: answer.format(name).replace("7.nqsv", number))
    assert queue(system, "--job-host={node}").tagged("x") == {name: number} and len(name) == 8


def test_what_can_never_be_taken_is_told_from_what_is_taken_later(monkeypatch):
    def refuse(text):
        def run(words, timeout, ok=(0,)):
            raise queues.command.CommandError(text, text)

        monkeypatch.setattr(queues.command, "run", run)
        with pytest.raises(Refused) as error:
            queue("minislurm").submit(Path("x"))
        return error.value.later

    assert refuse("sbatch ended with 1: Socket timed out on send/recv operation")
    assert not refuse("sbatch ended with 1: invalid partition specified: gpux")


def test_inside_of_a_job_checks_run_with_the_local_scheduler_one_after_another(monkeypatch):
    partition = loader.load("minislurm").partition("gpu")
    usual = configuration._partition(partition)
    assert (usual["scheduler"], "max_jobs" in usual) == ("tenken-slurm", False)
    monkeypatch.setenv(configuration.ON_NODE, "nid1")
    inside = configuration._partition(partition)
    assert (inside["scheduler"], inside["access"], inside["max_jobs"]) == ("local", [], 1)
    # one node cannot run checks between nodes
    assert set(usual["features"]) - set(inside["features"]) == {"nodes", "nodes4"}


@pytest.mark.parametrize(("count", "jobs"), [(4, None), (100, 100), (5000, 500)])
def test_the_jobs_of_distribute_follow_the_number_of_nodes(count, jobs):
    partition = loader.load("minislurm").partition("gpu")
    many = replace(partition, node=replace(partition.node, count=count))
    assert configuration._partition(many).get("max_jobs") == jobs
    assert configuration._partition(replace(many, max_jobs=7))["max_jobs"] == 7


def test_builds_of_other_programs_do_not_replace_each_other(tmp_path):
    for program in ("stream", "daxpy"):
        (tmp_path / program).mkdir()
        steps = ["mkdir bin", f"echo {program} > bin/{program}", "echo x > tenken_revision.h"]
        script = "\n".join(built_once(tmp_path / "built" / built_key("m-gpu-host", [program]), steps))
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path / program, check=True)
        assert [p.name for p in (tmp_path / program / "bin").iterdir()] == [program]
    assert built_key("m-gpu-host", ["daxpy", "stream"]) == built_key("m-gpu-host", ["daxpy", "stream"])
    assert built_key("m-gpu-host", []) == "m-gpu-host"


def test_one_node_builds_and_all_others_take_what_it_built(tmp_path):
    steps = ["echo built >> ../builds", "mkdir bin", "echo program > bin/p", "echo x > tenken_revision.h"]
    script = "\n".join(built_once(tmp_path / "built", steps))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path / name, check=True)
        assert (tmp_path / name / "bin" / "p").read_text() == "program\n"
        assert (tmp_path / name / "tenken_revision.h").is_file()
    assert (tmp_path / "builds").read_text() == "built\n"
    broken = "\n".join(f"{s} || exit" for s in built_once(tmp_path / "other", ["false"]))
    (tmp_path / "c").mkdir()
    done = subprocess.run(["bash", "-c", broken], cwd=tmp_path / "c", check=False)
    assert done.returncode != 0 and not (tmp_path / "other" / "whole").exists()


@pytest.mark.parametrize(("changes", "only", "delay", "command"), [
    ({}, (), 0, "reframe -c checks -r --system s:gpu --exec-order random"),
    ({"paths": ("a", "b c"), "in_phase": True}, (), 0.4, "reframe -c a -c 'b c' -r --system s:gpu"),
    ({"names": ("X",), "mode": "quick", "variables": {"A.n": "1"}, "environments": ("gnu", "cuda")}, (), 60,
     "reframe -c checks -r --system s:gpu -n X --mode quick -S A.n=1 -p gnu -p cuda --exec-order random"),
    ({"names": ("X",), "in_phase": True}, ("B %n=1.5 @c",), 0,
     r"reframe -c checks -r --system s:gpu -n '^B%n=1\.5.c$'"),
])  # fmt: skip
def test_the_command_of_a_node_names_what_the_campaign_asks_for(tmp_path, changes, only, delay, command):
    one = Campaign("c", "s", "gpu", ("n7",), 90.0, **changes)
    lines = nodejob.commands(one, Unit("n7"), "t", tmp_path, tmp_path, "b", delay, tmp_path, only=only)
    (found,) = [line.split(" > ")[0] for line in lines if line.startswith("reframe ")]
    assert found == command
    waits = [line for line in lines if "sleep" in line]
    assert waits == ([f"echo 'waits {delay:.0f} s: nodes do not begin at once'; sleep {delay:.3f}"] if delay else [])


def test_a_node_that_does_not_see_the_campaign_s_folder_is_no_second_start(tmp_path, monkeypatch):
    """Its claim cannot be created either; nothing in the home folder is touched."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "result.json").write_text("mine")
    one = Campaign("c", "minislurm", "gpu", ("n7",), 90.0)
    lines = nodejob.commands(one, Unit("n7"), "t", tmp_path / "no spool", tmp_path, "20260101T000000Z", 0, tmp_path)
    done = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=home, env={"PATH": "/usr/bin:/bin", "HOME": str(home)})
    assert done.returncode == NO_STAGE and [path.name for path in home.iterdir()] == ["result.json"]
    for status, more in ((NO_STAGE << 8, ""), (4021, "; Slurm could not open the job's output there (ExitCode 0:53)")):
        table = f"1|FAILED|{status}|n7|gpu|0|NonZeroExitCode|2026-11-22T10:00:00"
        monkeypatch.setattr(queues.command, "run", lambda words, timeout, ok=(0,), table=table: table)
        (seen,) = queue("minislurm").states(["1"]).values()
        assert seen.ended and seen.why == f"FAILED; its node does not see the campaign's folder{more}"


def answering(monkeypatch, answers):
    """Replaces `command.run` by the beginning of the command."""

    def run(words, timeout, ok=(0,)):
        line = " ".join(words)
        answer = next((text for start, text in answers.items() if line.startswith(start)), "")
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(queues.command, "run", run)


def test_slurm_a_job_that_waits_for_a_dead_node_is_blocked_by_name(monkeypatch):
    answering(monkeypatch, {
        "squeue -h -t all": "1|PENDING|0||gpu|0|Nodes required for job are DOWN|\n2|PENDING|0||gpu|0|Priority|\n"
                            "3|RUNNING|0|n4|gpu|0|None|\n4|PENDING|0||gpu|0|PartitionDown|\n",
        "squeue -h -t PD": "1|n3|\n2|n5|\n",
        "sinfo": "n3|down*|psu 2 failed|x\nn4|allocated|none\nn5|idle|none\n",
    })  # fmt: skip
    seen = queue("minislurm").states(["1", "2", "3", "4"])
    assert (seen["4"].held, seen["4"].blocked) == (True, False), "no node is at fault: it waits, and is told"
    assert (seen["1"].blocked, "n3 is down* (psu 2 failed|x)" in seen["1"].why) == (True, True)
    assert not seen["2"].blocked and seen["3"].running


def test_pbs_what_others_wrote_hides_no_job_and_a_dead_node_is_named(monkeypatch):
    broken = (
        '{"Jobs":{"7.s":{"job_state":"Q","Variable_List":{"A":007}},"1.s":{"job_state":"Q","Resource_List":'
        '{"select":"1:ncpus=4:host=n3"}},"2.s":{"job_state":"R"}}}'
    )
    down = '{"state":"down,offline","comment":"psu 2 failed","resources_available":{"host":"n3"}}'
    nodes = f'{{"nodes":{{"n3":{down},"n4":{{"state":"free"}}}}}}'
    ended = '{"Jobs":{"3.s":{"job_state":"F","Exit_status":-2,"exec_host":"n4/0"}}}'
    answering(monkeypatch, {"qstat -f -F json": broken, "qstat -xf -F json 3.s": ended, "pbsnodes": nodes})
    seen = queue("miyabi").states(["1.s", "2.s", "3.s", "4.s"])
    assert (seen["1.s"].blocked, "n3 is down,offline (psu 2 failed)" in seen["1.s"].why) == (True, True)
    assert seen["2.s"].running and "Exit_status -2" in seen["3.s"].why and "4.s" not in seen


@pytest.mark.parametrize("system", ["pegasus", "tsubame3"])
def test_an_answer_that_cannot_be_read_is_refused_and_nothing_else(monkeypatch, system):
    answering(monkeypatch, {"qstat": "<?xml broken"})
    one = queue(system, "-l host={node}")
    try:
        assert one.states(["1"]) == {}
    except Refused as error:
        assert "cannot be read" in str(error)
