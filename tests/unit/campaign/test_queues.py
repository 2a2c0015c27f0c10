"""Job scripts of each scheduler, the limits that they state, and ReFrame's configuration inside such a job."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tenken.campaign import nodejob
from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.journal import Unit
from tenken.campaign.queue import JobScript, Limits, Refused
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


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ("MaxJobCount = 10000\nSchedulerParameters = a,max_submit_jobs=100\n", (100, "max_submit_jobs")),
        ("MaxJobCount = 10000\nSchedulerParameters = max_submit_jobs=5000\n", (2500, "a quarter of MaxJobCount")),
        ("SchedulerParameters = max_submit_jobs=7\n", (7, "max_submit_jobs")), ("ClusterName = x\n", None),
        ("OldMaxJobCount = 4\nMaxJobCount = 403\n", (100, "a quarter of MaxJobCount")),
    ],
)  # fmt: skip
def test_the_smaller_limit_of_slurm_binds(said, limits, monkeypatch):
    monkeypatch.setattr(queues.command, "run", lambda words, timeout, ok=(0,): said)
    assert queue("minislurm").limits() == (Limits(*limits) if limits else Limits())


@pytest.mark.parametrize(
    ("system", "answer", "job"),
    [
        ("minislurm", "Submitted batch job 42\n", "42"),
        ("minislurm", "sbatch: note\nSubmitted batch job 42 on c\n", "42"),
        ("miyabi", "123.opbs\n", "123.opbs"), ("miyabi", "a budget line\n123.opbs\n", "123.opbs"),
        ("miyabi", "123 jobs are queued\n", None), ("pegasus", "Request 7.nqsv submitted to queue: gen.\n", "7.nqsv"),
        ("pegasus", "Request 7.nqsv refused\n", None), ("tsubame3", 'Your job 7 ("tk") has been submitted\n', "7"),
        ("tsubame3", "Your job-array 7.1 has been submitted\n", None),
    ],
)  # fmt: skip
def test_the_id_of_a_job_is_read_from_the_answer(system, answer, job, monkeypatch):
    asked = []
    monkeypatch.setattr(queues.command, "run", lambda words, timeout, ok=(0,): asked.append(words) or answer)
    one = queue(system, "--job-host={node}")
    if job is None:
        with pytest.raises(Refused, match="qsub printed no job id but '"):
            one.submit(Path("/s/job.sh"))
    else:
        assert one.submit(Path("/s/job.sh")) == job
    assert asked[0][0] == ("sbatch" if system == "minislurm" else "qsub") and asked[0][-1] == "/s/job.sh"


def test_a_chunk_of_pbs_has_the_options_without_a_dash(monkeypatch):
    one = queue("miyabi")
    one.partition = replace(one.partition, access=("-q gpu", "ngpus=4", "-W group_list=${GROUP}"), place="scatter")
    several = replace(JOB, nodes=("n7", "n8"))
    for job, nodes in ((JOB, ["n7"]), (several, ["n7", "n8"])):
        lines = one.script(job).splitlines()
        (select,) = [line for line in lines if line.startswith("#PBS -l select=")]
        chunks = select.removeprefix("#PBS -l select=").split("+")
        assert [chunk.split(":")[-2:] for chunk in chunks] == [[f"host={node}", "ngpus=4"] for node in nodes]
        assert "#PBS -q gpu" in lines and "#PBS -l place=scatter" in lines
        assert not [line for line in lines if line == "#PBS ngpus=4" or "GROUP" in line]


def test_pbs_asks_for_a_job_alone_if_it_is_not_listed_also_without_a_history(monkeypatch):
    asked = []
    history = queues.command.CommandError("qstat: job history is not enabled", "x")
    living = '{"Jobs":{"1.s":{"job_state":"R"}}}'

    def run(words, timeout, ok=(0,)):
        asked.append(" ".join(words))
        if "-xf" in words:
            raise history
        return living if len(words) == 4 else '{"Jobs":{"2.s":{"job_state":"Q"}}}'

    monkeypatch.setattr(queues.command, "run", run)
    seen = queue("miyabi").states(["1.s", "2.s"])
    assert seen["1.s"].running and not seen["2.s"].running
    assert asked == ["qstat -f -F json", "qstat -xf -F json 2.s", "qstat -f -F json 2.s"]
    history = queues.command.CommandError("qstat: cannot connect to server", "x")
    with pytest.raises(Refused, match="cannot connect"):
        queue("miyabi").states(["2.s"])


@pytest.mark.parametrize(
    ("state", "blocked"),
    [("free", False), ("job-busy", False), ("down", True), ("offline", True), ("free,offline", True)],
)
def test_a_job_of_pbs_waits_in_vain_for_a_node_that_takes_none(state, blocked, monkeypatch):
    waiting = '{"Jobs":{"1.s":{"job_state":"Q","Resource_List":{"select":"1:ncpus=4:host=n3+1:host=n4"}}}}'
    nodes = f'{{"nodes":{{"n3":{{"state":"{state}"}},"n4":{{"state":"down"}}}}}}'
    answering(monkeypatch, {"qstat -f": waiting, "pbsnodes": nodes})
    assert queue("miyabi").states(["1.s"])["1.s"].blocked is blocked, "the first node of a job decides"


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("minislurm", "scontrol update nodename=n7 state=drain reason='it is slow'"),
        ("miyabi", "pbsnodes -o -C 'it is slow' n7"), ("tsubame3", "qmod -d '*@n7'  # it is slow"),
        ("pegasus", "# take n7 out of service: it is slow"),
    ],
)  # fmt: skip
def test_each_scheduler_takes_a_node_out_by_a_command(system, said):
    assert queue(system, "--job-host={node}").exclusion("n7", "it is slow") == said


def test_jobs_of_a_campaign_are_found_by_their_tag(monkeypatch):
    tag = "tenken-campaign/c/"
    answering(monkeypatch, {"squeue": f" 7|{tag}ab12 \n8|other/c/ff\n9|\n10\n"})
    assert queue("minislurm").tagged(tag) == {"ab12": "7"}
    jobs = ",".join(
        f'"{number}.s":{{"job_state":"{state}","Variable_List":{variables}}}'
        for number, state, variables in (
            (1, "Q", f'{{"TENKEN_JOB":"{tag}ab12"}}'), (2, "F", f'{{"TENKEN_JOB":"{tag}cd"}}'),
            (3, "R", f'"A=1,TENKEN_JOB={tag}ef,B=2"'), (4, "R", '{"TENKEN_JOB":"other/c/aa"}'), (5, "R", "{}"),
        )
    )  # fmt: skip
    answering(monkeypatch, {"qstat": f'{{"Jobs":{{{jobs}}}}}'})
    assert queue("miyabi").tagged(tag) == {"ab12": "1.s", "ef": "3.s"}
