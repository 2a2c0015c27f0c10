"""Deadlines, trusted files, counters, the brake, what is measured, and the command."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tenken.archive import chained
from tenken.counters import change, changes, value
from tenken.node import brake, cli, expect, host, measure, probe, state
from tenken.node import check as checks
from tenken.node.brake import Partition
from tenken.node.gpus import Nvml
from tenken.node.measure import Step
from tenken.node.state import StateError
from tenken.node.verdict import BAD, LINE, NOTE, UNSURE, Finding, bound, low
from tenken.paths import ROOT
from tests.unit.node import replay
from tests.unit.node.fakes import Node

# -- probes ----------------------------------------------------------------------------------------------------------


def stopped(say: probe.Say) -> None:
    say("gpu 2", {"index": 2})
    say("gpu 3")
    os.kill(os.getpid(), signal.SIGSTOP)  # as unreachable for its parent as one in state D, except by SIGKILL


def stubborn(say: probe.Say) -> None:
    subprocess.run(["sleep", "60"], check=False)


def test_no_probe_is_waited_for_past_its_deadline() -> None:
    began = time.monotonic()
    answers = probe.run(
        {"hangs": stopped, "sleeps": stubborn, "reads": lambda say: 7, "fails": lambda say: 1 // 0,
         "none": lambda say: None, "dies": lambda say: os._exit(3)}, 2.0,
    )  # fmt: skip
    assert time.monotonic() - began < 30, "waited for one that sleeps"  # a busy machine is late, but not by that much
    assert answers["hangs"].hung and answers["hangs"].at == "gpu 3" and answers["hangs"].parts == {
        "gpu 2": {"index": 2}
    }  # fmt: skip
    assert answers["sleeps"].hung
    assert answers["reads"].value == 7 and not answers["reads"].hung
    assert answers["fails"].error.startswith("ZeroDivisionError")
    assert answers["none"].value is None and not answers["none"].error
    assert answers["dies"].error == "ended without an answer"


def test_a_child_holds_nothing_that_a_scheduler_waits_for() -> None:
    """Our output ends with us, even if one of our children cannot be killed."""
    code = """
import os, signal
from tenken.node import probe
def hangs(say):
    say(" ".join(sorted(os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if n in "012")))
    signal.pause()
print(probe.run({"hangs": hangs}, 0.2)["hangs"].at)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "/dev/null /dev/null /dev/null\n"


# -- counters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "read", "known"),
    [
        ("symbol_error", 65535, None), ("symbol_error", 65534, 65534), ("link_downed", 255, None),
        ("link_downed", 254, 254), ("local_link_integrity_errors", 15, None), ("symbol_error", 70000, 70000),
        ("rx_crc_errors", 2**32 - 1, 2**32 - 1), ("symbol_error", None, None), ("symbol_error", -1, None),
    ],
)  # fmt: skip
def test_a_saturated_counter_is_unknown(name: str, read: int | None, known: int | None) -> None:
    assert value(name, read) == known


def test_a_reset_or_missing_counter_is_unknown_and_never_0() -> None:
    assert (change(5, 8), change(5, 5), change(5, 4), change(None, 4), change(5, None)) == (3, 0, None, None, None)
    assert changes({"a": 1, "b": 9}, {"a": 4, "b": 2, "c": 3}) == {"a": 3, "b": None, "c": None}


# -- trusted files ---------------------------------------------------------------------------------------------------


def test_what_others_could_have_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "state.json"
    assert state.read(file) is None
    state.write(file, {"a": 1})
    assert state.read(file) == {"a": 1} and stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o666)
    with pytest.raises(StateError, match="mode 666 lets others write"):
        state.read(file)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    with pytest.raises(StateError, match="a link is not followed"):
        state.read(link)
    os.mkfifo(tmp_path / "pipe")  # would be waited for
    with pytest.raises(StateError, match="not a file"):
        state.read(tmp_path / "pipe")
    file.chmod(0o644)
    file.write_text("{")
    with pytest.raises(StateError, match="not JSON"):
        state.read(file)
    with pytest.raises(StateError, match=f"cannot be written: there is no folder {tmp_path}/none"):
        state.write(tmp_path / "none/state.json", {})
    tmp_path.chmod(0o777)
    for attempt in (lambda: state.read(file), lambda: state.write(file, {})):
        with pytest.raises(StateError, match="mode 777 lets others write"):
            attempt()
    tmp_path.chmod(0o755)
    (tmp_path / "folder").symlink_to(tmp_path)
    with pytest.raises(StateError, match="not a folder but a link"):
        state.write(tmp_path / "folder" / "state.json", {})
    if os.geteuid() == 0:
        file.write_text("{}")
        os.chown(file, 1234, 1234)
        with pytest.raises(StateError, match="belongs to user 1234; allowed: root"):
            state.read(file)


def test_a_link_that_a_job_put_there_is_replaced_and_not_followed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "state.json").symlink_to(victim)
    state.write(tmp_path / "state.json", {"a": 1})
    assert victim.read_text() == "mine" and not (tmp_path / "state.json").is_symlink()


def test_two_checks_at_once(tmp_path: Path) -> None:
    with state.alone(tmp_path / "s") as first, state.alone(tmp_path / "s") as second:
        assert first and not second


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "schema is None; allowed: tenken-node/1"),
        ({"gpu": {}}, "unknown key gpu; allowed: schema, system"),
        ({"gpus": {"count": "8"}}, "gpus.count is '8'; allowed: a int"),
        ({"gpus": {"count": True}}, "gpus.count is True"),
        ({"gpus": {"names": "x"}}, "gpus.names is not a list"),
        ({"host": {"memory_gib": "all"}}, "host.memory_gib is 'all'; allowed: a number"),
        ({"ports": [{"gbit_s": 400}]}, r"ports\[0\] has no name"),
        ({"state": "state.json"}, "state is 'state.json'; allowed: an absolute path"),
        ({"file_systems": [{"path": "scratch"}]}, "allowed: an absolute path"),
        ({"drain": {"scheduler": "lsf"}}, "drain.scheduler is 'lsf'; allowed: slurm, pbs"),
        *(
            ({"drain": {"scheduler": "slurm", "share": share}}, f"drain.share is {share}; allowed: above 0 to 1")
            for share in (0, 1.01)
        ),
        *(
            (
                {"references": {"stream.triad.gpu": {"value": value, "lower": lower}}},
                "needs a value above 0 and a lower",
            )
            for value, lower in ((4400, 3), (4400, 0), (4400, -1), (0, -0.1))
        ),
        *(({"archive": "/a", key: "x"}, "archive: needs system and partition") for key in ("system", "partition")),
        ({"references": {"triad": {"value": 1, "unit": "GB/s"}}}, r"unknown key references\.triad\.unit"),
        ([], "the file is not an object"),
    ],
)
def test_a_bad_expectation_is_one_line(tmp_path: Path, content: Any, said: str) -> None:
    tmp_path.chmod(0o755)
    if isinstance(content, dict) and content:
        content = {"schema": expect.SCHEMA} | content
    state.write(tmp_path / "node.json", content)
    with pytest.raises(StateError, match=said):
        expect.load(tmp_path / "node.json")


def test_what_a_system_file_states_becomes_an_expectation(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    made = expect.of_system("miyabi", "gpu")
    assert made["gpus"] == {"count": 1, "names": ["NVIDIA GH200 (120|480)GB"]} and made["host"]["cores"] == 72
    assert f"{made['programs']}/" in (ROOT / "examples/node/install.sh").read_text()
    state.write(tmp_path / "node.json", made)
    assert expect.load(tmp_path / "node.json") == made
    with pytest.raises(StateError, match="miyabi has no partition cpu; allowed: gpu"):
        expect.of_system("miyabi", "cpu")


# -- the host --------------------------------------------------------------------------------------------------------


def test_a_file_system_is_tried_by_writing(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    line = "40 22 0:35 / {} rw,nosuid shared:9 - lustre server:/scratch {}\n"
    (tmp_path / "proc/self/mountinfo").write_text(line.format("/scratch", "rw"))
    found = host.file_system({"path": "/scratch", "write": True}, tmp_path)
    assert found["write"] == "ok" and found["type"] == "lustre" and not found["read_only"]
    assert not list((tmp_path / "scratch").iterdir())
    assert host.file_system({"path": "/home"}, tmp_path) == {"mounted": False}
    (tmp_path / "proc/self/mountinfo").write_text(line.format("/scratch", "ro"))
    assert host.mount("/scratch", tmp_path) == {"type": "lustre", "read_only": True}
    # another one on the same point hides it
    upper = "41 40 0:36 / /scratch rw - tmpfs none rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(line.format("/scratch", "ro") + upper)
    assert host.mount("/scratch", tmp_path) == {"type": "tmpfs", "read_only": False}


def test_jobs_are_seen_with_and_without_control_groups(tmp_path: Path) -> None:
    for folder in (
        "system.slice/slurmstepd.scope/job_12", "memory/slurm/uid_1000/job_13", "cpuset/slurm_n1/uid_5/job_14",
        "memory/pbs_jobs.service/jobid/15.server", "system.slice/n1_slurmstepd.scope/job_16",
        "pbs_jobs.service/jobs/21", "pbs_jobs.service/jobs/22.3",
    ):  # fmt: skip
        (tmp_path / "sys/fs/cgroup" / folder).mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup" / folder).with_name("cgroup.procs").touch()
    # without control groups: processes by name and title, and PBS's job files
    for pid, name, title in ((7, "slurmstepd", "slurmstepd: [17.batch]"), (8, "sge_shepherd", "sge_shepherd-18 -bg"),
                             (9, "bash", "slurmstepd: [19.0]")):  # fmt: skip
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text(f"{name}\n")
        (tmp_path / f"proc/{pid}/cmdline").write_text(f"{title}\0\0\0")
    (tmp_path / "var/spool/pbs/mom_priv/jobs/20.server.JB").mkdir(parents=True)
    found = ["12", "13", "14", "15.server", "16", "17", "18", "20.server", "21", "22[3]"]
    assert host.jobs(tmp_path) == found


def test_the_own_job_is_known_without_the_name_of_its_server() -> None:
    for job, one in (("21.server", "21"), ("22[3].server", "22[3]"), ("15.server", "15.server"), ("12", "12")):
        assert not checks.occupied([], None, {"jobs": [one]}, job)
    for job, one in (("21.server", "2"), ("22[3].server", "22[2]"), ("", "12"), ("121", "12")):
        assert checks.occupied([], None, {"jobs": [one]}, job) == f"job {one} is on the node"


def test_a_storm_in_the_kernel_log_is_cut_and_counted(tmp_path: Path) -> None:
    lines = [f"3,{i},5,-;NVRM: Xid (PCI:0000:13:00): 79, pid=1" for i in range(1000)]
    (tmp_path / "kmsg").write_text("\n".join(lines) + "\n")
    log = host.kernel_log(tmp_path / "kmsg")
    assert log and len(log["events"]) == host.MOST_EVENTS and log["more"] == 800 and log["last"] == 999


# -- the brake -------------------------------------------------------------------------------------------------------


class Slurm:
    """Answers of sinfo and scontrol for `nodes` nodes; a drain is remembered."""

    def __init__(self, nodes: int, when: float) -> None:
        self.nodes = [f"n{i:03}" for i in range(nodes)]
        self.drained: dict[str, tuple[float, str]] = {}
        self.now = when
        self.silent = False

    def run(self, command: Sequence[str]) -> str | None:
        if self.silent:
            return None
        if command[0] == "sinfo" and "-n" in command:
            return self.drained.get(command[4], (0, "none"))[1] + "\n"
        if command[0] == "sinfo" and "-o" in command:
            return "\n".join(self.nodes) + "\n"
        if command[0] == "sinfo":
            lines = []
            for node in self.nodes:
                when, reason = self.drained.get(node, (0, "none"))
                text = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(when)) if when else "Unknown"
                lines.append(f"{node:<256}{text:<32}{reason:<256}")
            return "\n".join(lines) + "\n"
        if command[:2] == ["scontrol", "show"]:
            return f"NodeName={command[3]} State=IDLE{'+DRAIN' if command[3] in self.drained else ''} "
        node = command[2].partition("=")[2]
        if "State=UNDRAIN" in command:
            del self.drained[node]
        else:
            self.drained[node] = (self.now, command[4].partition("=")[2])
        return ""

    def drain(self, node: str, line: str = "tenken: driver: library and kernel module differ") -> str | None:
        return brake.drain(node, line, "gpu", 0.05, self.run, lambda _: None, lambda: self.now)


def test_a_fault_of_all_nodes_drains_a_share_of_them() -> None:
    slurm = Slurm(40, 1_800_000_000)
    said = [slurm.drain(node) for node in slurm.nodes]
    assert len(slurm.drained) == 2 == brake.allowed(40, 0.05)
    assert said[:2] == [None, None] and set(said[2:]) == {"2 of 40 nodes drained in an hour: not drained"}
    slurm.now += 3601
    assert slurm.drain("n030") is None  # an hour later more may be drained


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.34, 0.5, 1.0])
def test_never_more_than_the_share_is_drained_but_for_one(share: float) -> None:
    for nodes in range(1, 201):
        many = brake.allowed(nodes, share)
        exact = round(nodes * share, 9)
        assert many == 1 > exact or many <= exact < many + 1, nodes


def test_nodes_that_were_drained_in_the_same_second_are_taken_back() -> None:
    slurm = Slurm(40, 1_800_000_000)
    counted = brake.slurm("gpu", slurm.run)
    assert counted == Partition(40, ())
    for node in slurm.nodes[:20]:  # each counted before any was drained
        slurm.drained[node] = (slurm.now, "tenken: gpu 3: lost")
    after = brake.slurm("gpu", slurm.run)
    late = [node for node in slurm.nodes if brake.too_late(after, node, 0.05, slurm.now)]
    assert late == slurm.nodes[2:20]


def test_a_drain_that_others_preceded_is_taken_back_and_a_refused_one_is_told() -> None:
    slurm = Slurm(40, 1_800_000_000)
    slurm.drained = {"n000": (slurm.now, "tenken: gpu 3: lost")}
    run, refused = slurm.run, [False]

    def meanwhile(command: Sequence[str]) -> str | None:
        """Between the count and the drain another node is drained."""
        if command[:2] == ["scontrol", "update"]:
            if refused[0]:
                return None
            slurm.drained["n001"] = (slurm.now, "tenken: gpu 3: lost")
        return run(command)

    drain = lambda node: brake.drain(  # noqa: E731
        node, "tenken: x", "gpu", 0.05, meanwhile, lambda _: None, lambda: slurm.now
    )
    refused[0] = True
    assert drain("n002") == "scontrol refused to drain it" and "n002" not in slurm.drained
    refused[0] = False
    assert drain("n002") == "3 nodes drained at once: taken back" and set(slurm.drained) == {"n000", "n001"}


@pytest.mark.parametrize(("severity", "drained"), [(BAD, True), (UNSURE, False), (NOTE, False)])
def test_a_node_that_is_not_bad_is_not_drained(severity: str, drained: bool) -> None:
    slurm = Slurm(40, 1_800_000_000)
    machine: Any = argparse.Namespace(name="n001", run=slurm.run, sleep=lambda seconds: None)
    outcome = checks.Outcome("n001", [Finding(severity, "gpu 3", "lost")])
    wanted = {"drain": {"scheduler": "slurm", "partition": "gpu"}}
    checks.apply_brake(machine, wanted, outcome, draining=True)
    assert (set(slurm.drained) == {"n001"}, outcome.braked) == (drained, "")
    checks.apply_brake(machine, {}, outcome, draining=True)
    assert ("not in the expectation file" in outcome.braked) is drained


def test_each_scheduler_says_why_a_node_is_out_and_how_it_comes_back() -> None:
    asked: list[Sequence[str]] = []
    out = json.dumps({"nodes": {"a": {"state": "offline", "comment": "tenken: lost"}}})

    def run(command: Sequence[str]) -> str | None:
        asked.append(command)
        return {"sinfo": " tenken: lost  \nother\n", "pbsnodes": out}[command[0]]

    assert [brake.reason(one, "a", run) for one in ("slurm", "pbs")] == ["tenken: lost"] * 2
    assert all("a" in command for command in asked)
    assert brake.reason("pbs", "b", run) == "" and brake.reason("pbs", "a", lambda _: "x") == ""
    assert [brake.reason("slurm", "a", lambda _, said=said: said) for said in (None, "", "none\n")] == [""] * 3
    assert brake.resume("slurm", "a") == "scontrol update NodeName=a State=RESUME"
    assert brake.resume("pbs", "a") == "pbsnodes -C '' -r a" and "own command" in brake.resume("other", "a")


def test_for_node_exporter_a_finding_is_one_line_and_a_value_has_its_name() -> None:
    found = [Finding(BAD, 'gpu "3"', "a\\b"), Finding(BAD, 'gpu "3"', "a\\b"), Finding(NOTE, "host", "x")]
    outcome = checks.Outcome(
        "n", found, values={"stream.triad": 1234.5678}, unknown=["a", "b"], readings={"time": 12.6}
    )
    lines = cli.prometheus(outcome).splitlines()
    assert {one for one in lines if not one.startswith("#")} == {
        "tenken_node_status 1", "tenken_node_time_seconds 13", "tenken_node_unknown 2",
        'tenken_node_finding{severity="bad",device="gpu \\"3\\"",line="tenken: gpu \'3\': a\\\\b"} 1',
        'tenken_node_finding{severity="note",device="host",line="tenken: host: x"} 1',
        'tenken_node_value{metric="stream.triad"} 1234.57',
    }  # fmt: skip
    assert sum(one.startswith("# TYPE ") for one in lines) == 5


def test_a_drain_at_an_unknown_time_counts_as_of_now() -> None:
    slurm = Slurm(10, 1_800_000_000)
    slurm.drained = {"n000": (0, "tenken: gpu 3: lost")}
    assert slurm.drain("n001") == "1 of 10 nodes drained in an hour: not drained"
    offline = {"state": "offline", "comment": "tenken: gpu 3: lost"}
    partition = brake.pbs("", lambda _: json.dumps({"nodes": {"a": offline, "b": {"state": "free"}}}))
    assert brake.holds(partition, "b", 0.5, 5000.0) == "1 of 2 nodes drained in an hour: not drained"


def test_other_reasons_do_not_count_and_are_kept() -> None:
    slurm = Slurm(10, 1_800_000_000)
    slurm.drained = {node: (slurm.now, "maintenance") for node in slurm.nodes[:5]}
    assert slurm.drain("n000") is None and slurm.drained["n000"][1] == "maintenance"
    assert slurm.drain("n007") is None and slurm.drained["n007"][1].startswith("tenken: ")
    slurm.silent = True
    assert slurm.drain("n008") == "the scheduler does not answer: not drained"


def test_pbs_counts_offline_nodes_with_our_comment() -> None:
    nodes = {
        "a": {"state": "offline", "comment": "tenken: gpu 3: lost", "last_state_change_time": 1000},
        "b": {"state": "free", "comment": "tenken: gpu 3: lost", "last_state_change_time": 1000},
        "c": {"state": "offline", "comment": "fan", "last_state_change_time": 1000, "queue": "gpu"},
        "d": {"state": "free", "queue": "other"},
    }
    assert brake.pbs("gpu", lambda _: json.dumps({"nodes": nodes})) == Partition(3, ((1000.0, "a"),), frozenset("c"))
    # a hook that would set its own comment does not overwrite an operator's
    known = brake.pbs("gpu", lambda _: json.dumps({"nodes": nodes}))
    assert brake.holds(known, "c", 1.0, 5000.0) == "it is out for another reason, which is kept"
    assert brake.holds(known, "a", 1.0, 5000.0) is None
    assert brake.pbs("", lambda _: "no JSON") is None and brake.pbs("", lambda _: None) is None


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_of_drained_nodes_the_oldest_comes_first_whatever_its_name(scheduler: str) -> None:
    since = {"a": 2000, "b": 1000, "c": 1500}
    when = {node: datetime.fromtimestamp(at).isoformat() for node, at in since.items()}
    drained = {"state": "offline", "comment": "tenken: bad"}
    nodes = {node: {**drained, "last_state_change_time": at} for node, at in since.items()}
    rows = "".join(f"{node:256}{when[node]:32}tenken: bad\n" for node in since)
    answers = {"sinfo -o": "a\nb\nc\n", "sinfo -O": rows, "pbsnodes -F": json.dumps({"nodes": nodes})}

    def run(command: Sequence[str]) -> str:
        return next(text for words, text in answers.items() if set(words.split()) <= set(command))

    found = brake.READERS[scheduler]("", run)
    assert found is not None and [node for _, node in found.ours] == ["b", "c", "a"]


# -- measuring -------------------------------------------------------------------------------------------------------

PROGRAM = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --json ] && file=$2; shift; done
{body}
"""
SERIES = {"metric": "triad", "subject": {"gpu": 1}, "counts": {"bytes": 4400}, "seconds": [1e-6, 1e-6, 3e-6]}


def program(folder: Path, name: str, body: str = "", **document: Any) -> None:
    text = json.dumps({"program": name, "status": "ok", "reason": "", "series": [SERIES]} | document)
    file = folder / name
    file.write_text(PROGRAM.format(body=body or f"cat > $file <<'END'\n{text}\nEND"))
    file.chmod(0o755)


IDLE = [{"index": 4, "uuid": "GPU-a"}, {"index": 6, "uuid": "GPU-b"}]
STEPS = (
    Step("stream", ("--backend", "cuda"), 0.1, 0.02, at_once=True),
    Step("p2p", ("--transfers", "peer"), 0.1, gpus=3),
)


def test_values_are_medians_of_the_node_s_own_gpus(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    program(tmp_path, "stream")
    found = measure.run(tmp_path, IDLE, time.monotonic() + 30, STEPS)
    assert found.values == {"stream.triad.gpu6": pytest.approx(4.4)}
    assert found.left_out == {"p2p peer": f"no program {tmp_path / 'p2p'}"}
    assert list(found.seconds) == ["stream cuda"] and 0 < found.seconds["stream cuda"] < 30
    program(tmp_path, "p2p")
    assert measure.run(tmp_path, IDLE, time.monotonic() + 5, STEPS).left_out == {"p2p peer": "needs 3 idle GPUs"}


def test_each_series_has_its_name_and_its_unit() -> None:
    counts = {"calls": 3, "operations": 8e12}
    flops = {"metric": "flops", "subject": {"host": 0}, "counts": counts, "seconds": [2.0, 4.0, 1.0]}
    copied = {**SERIES, "metric": "copy", "subject": {"from": 1, "to": 0}, "at": {"b": 2, "a": 1}}
    document = {"program": "x", "series": [copied, flops, {"metric": "r", "subject": {"gpu": 0}, "values": [9, 1, 5]}]}
    found = {"x.copy.gpu6-gpu4.a=1.b=2": pytest.approx(4.4), "x.flops.host": 4.0, "x.r.gpu4": 5}
    assert measure.values(document, [4, 6]) == found
    assert list(measure.values(document, [4, 6], ("r", "flops"))) == ["x.flops.host", "x.r.gpu4"]


@pytest.mark.parametrize(
    ("document", "body", "where", "said"),
    [
        ({"status": "failed", "reason": "verification: c: error 1"}, "", "wrong", "c: error 1"),
        ({"status": "failed", "reason": "out of memory"}, "", "left_out", "out of memory"),
        ({"status": "waived", "reason": "no CUDA device"}, "", "left_out", "no CUDA device"),
        ({}, "echo 'stream: --launch: unknown' >&2; exit 2", "left_out", "stream: --launch: unknown"),
        ({}, "sleep 60", "hung", None),
    ],
)
def test_what_a_program_says_otherwise(
    tmp_path: Path, document: dict[str, Any], body: str, where: str, said: str | None
) -> None:
    tmp_path.chmod(0o755)
    program(tmp_path, "stream", body, **document)
    found = measure.run(tmp_path, IDLE, time.monotonic() + (0.5 if where == "hung" else 30), STEPS[:1])
    assert getattr(found, where) == (["stream cuda"] if said is None else {"stream cuda": said}) and not found.values


def test_nothing_starts_that_the_time_does_not_hold(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    program(tmp_path, "stream")
    early = measure.run(tmp_path, IDLE, 0.13, STEPS[:1], clock=lambda: 0.0)
    assert early.left_out == {"stream cuda": "no time left"}
    program(tmp_path, "stream", "sleep 60")
    for left in (0.14, 0.27):  # as much as it takes is enough to start, and twice as much to end
        late = measure.run(tmp_path, IDLE, left, STEPS[:1], clock=lambda: 0.0)
        assert late.left_out == {"stream cuda": "no time left: it did not end"} and not late.hung
    assert measure.run(tmp_path, IDLE, 0.28, STEPS[:1], clock=lambda: 0.0).hung == ["stream cuda"]


def test_a_gpu_alone_is_not_measured_at_once_with_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    program(tmp_path, "stream", "exit 2")
    (tmp_path / "stream").write_text('#!/bin/sh\necho "$@"\nexit 2\n')
    for gpus in (1, 2):
        (said,) = measure.run(tmp_path, IDLE[:gpus], time.monotonic() + 30, STEPS[:1]).left_out.values()
        assert said.startswith("--backend cuda --json ") and said.endswith(" --at-once") is (gpus == 2)


only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses what others could replace")


@only_root
@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lambda at: (at / "opt/bin/stream").chmod(0o777), "stream: mode 777 lets others write"),
        (lambda at: os.chown(at / "opt/bin/stream", 1234, 1234), "stream: belongs to user 1234; allowed: root"),
        (lambda at: (at / "opt/bin").chmod(0o775), "bin: mode 775 lets others write"),
        # the owner of the folder above could put another folder in its place
        (lambda at: os.chown(at / "opt", 1234, 1234), "opt: belongs to user 1234"),
        (lambda at: (at / "opt").chmod(0o777), "opt: mode 777 lets others write"),
        (lambda at: os.chown(at, 1234, 1234), "belongs to user 1234"),
        # a root-owned link to a user's place, and a user's link to a root-owned place
        (lambda at: ((at / "opt").rename(at / "home"), os.chown(at / "home", 1234, 1234),
                     (at / "opt").symlink_to(at / "home")), "home: belongs to user 1234"),
        (lambda at: ((at / "opt").rename(at / "real"), (at / "opt").symlink_to(at / "real"),
                     os.lchown(at / "opt", 1234, 1234)), "opt: belongs to user 1234"),
        # good ones: a root-owned link, a folder with a sticky bit on the path
        (lambda at: ((at / "opt").rename(at / "real"), (at / "opt").symlink_to("./real")), None),
        (lambda at: at.chmod(0o1777), None),
    ],
)  # fmt: skip
def test_root_runs_and_reads_nothing_that_others_could_replace(tmp_path: Path, plant: Any, said: str | None) -> None:
    at = tmp_path / "machine"
    (at / "opt" / "bin").mkdir(parents=True)
    for folder in (tmp_path, at, at / "opt", at / "opt/bin"):
        folder.chmod(0o755)
    program(at / "opt/bin", "stream")
    state.write(at / "opt/bin/node.json", {})
    plant(at)
    programs = measure.missing(at / "opt/bin", STEPS).get("stream")
    if said is None:
        assert programs == "" or programs is None
        assert state.read(at / "opt/bin/node.json") == {}
        assert brake.runner({"commands": str(at / "opt/bin")})(["stream", "--json", "/dev/null"]) == ""
        return
    assert programs and said in programs.replace(str(tmp_path), "").replace("/machine/", "/")
    assert brake.runner({"commands": str(at / "opt/bin")})(["stream", "--json", "/dev/null"]) is None
    if "stream" not in said:
        with pytest.raises(StateError):
            state.read(at / "opt/bin/node.json")
        with pytest.raises(StateError):
            state.write(at / "opt/bin/node.json", {})
    assert "\n" not in programs


@only_root
@pytest.mark.parametrize(
    ("folders", "said"), [("{mine}", "mine: belongs to user 1234"), ("/usr/lib:$ORIGIN/../mine", "mine: belongs to "),
                          ("/usr/lib:", None)],
)  # fmt: skip
def test_root_runs_no_program_with_libraries_of_others(tmp_path: Path, folders: str, said: str | None) -> None:
    mine, programs = tmp_path / "mine", tmp_path / "bin"
    mine.mkdir()
    programs.mkdir()
    os.chown(mine, 1234, 1234)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    searched = folders.format(mine=mine)
    subprocess.run(["cc", "-Wl,-rpath," + searched, "-o", programs / "stream", tmp_path / "main.c"], check=True)
    why = measure.missing(programs, STEPS[:1]).get("stream")
    assert why is None if said is None else why and said in why


@only_root
def test_a_link_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert state.replaceable(tmp_path / "a" / "b") == f"{tmp_path}/a: a link to itself"


@only_root
@pytest.mark.parametrize(
    ("environment", "path", "said"),
    [
        ({}, [], None),
        ({"LD_PRELOAD": "libnice.so", "LD_LIBRARY_PATH": "/usr/lib:/usr/lib64"}, ["/usr/lib/python3/none.zip"], None),
        ({"LD_PRELOAD": "{mine}/x.so"}, [], "LD_PRELOAD: {mine}: belongs to user 1234; allowed: root"),
        ({"LD_PRELOAD": "libnice.so {mine}/x.so"}, [], "LD_PRELOAD: {mine}: belongs to user 1234"),
        ({"LD_AUDIT": "/usr/lib/a.so:{mine}/x.so"}, [], "LD_AUDIT: {mine}: belongs to user 1234"),
        ({"LD_LIBRARY_PATH": "/usr/lib:{mine}"}, [], "LD_LIBRARY_PATH: {mine}: belongs to user 1234"),
        ({"LD_LIBRARY_PATH": "/usr/lib:"}, [], "LD_LIBRARY_PATH contains the current folder"),
        ({"LD_LIBRARY_PATH": "/tmp"}, [], "LD_LIBRARY_PATH: /tmp: mode 1777 lets others write"),
        # PYTHONPATH, a checkout, an environment of a user
        ({}, ["/usr/lib", "{mine}/site-packages"], "Python's path: {mine}: belongs to user 1234"),
        ({}, [""], "Python's path contains the current folder"),
        ({}, ["__editable__.tenken.finder.__path_hook__"], None),
    ],
)
def test_root_does_not_go_on_in_a_process_that_others_could_steer(
    tmp_path: Path, environment: dict[str, str], path: list[str], said: str | None
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    os.chown(mine, 1234, 1234)
    found = state.process(
        {name: value.format(mine=mine) for name, value in environment.items()}, [p.format(mine=mine) for p in path]
    )
    if said is None:
        assert found is None
    else:
        assert found and found.startswith(said.format(mine=mine)) and "\n" not in found


@only_root
def test_the_command_itself_refuses_and_forgets_what_a_job_set(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    os.chown(mine, 1234, 1234)
    code = "import sys; from tenken.node import cli; sys.exit(cli.main(['check', '--expect', '/none']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": f"{ROOT}:{mine}"}, cwd="/", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr == ""
    assert re.fullmatch(r"tenken: not run by root: Python's path[^\n]*\n", done.stdout)
    code = (
        "import os, sys; from tenken.node import cli; sys.path.remove(''); cli._this_machine(); "
        "print(sorted(os.environ), os.environ['PATH'])"
    )
    job = {"CUDA_VISIBLE_DEVICES": "7", "TMPDIR": str(mine), "PATH": str(mine), "SLURM_CONF": str(mine)}
    done = subprocess.run([sys.executable, "-c", code], env=job, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "['LC_ALL', 'PATH'] /usr/sbin:/usr/bin:/sbin:/bin\n", done.stderr
    known = {"PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES", "TENKEN_LOCK_SECONDS", "TENKEN_LOCKS"}
    assert set(measure._environment(IDLE)) == known


@only_root
def test_root_locks_in_no_folder_of_a_user(tmp_path: Path) -> None:
    usual, own = tmp_path / "usual", tmp_path / "own"
    for _ in range(2):
        assert measure.locks(usual, own) == {"TENKEN_LOCKS": str(usual)}
    assert stat.S_IMODE(usual.stat().st_mode) == 0o1777
    os.chown(usual, 1234, 1234)
    assert measure.locks(usual, own) == {"TENKEN_LOCKS": str(own)}
    usual.rmdir()
    (tmp_path / "etc").mkdir()
    usual.symlink_to(tmp_path / "etc")
    assert measure.locks(usual, own) == {"TENKEN_LOCKS": str(own)}
    assert stat.S_IMODE((tmp_path / "etc").stat().st_mode) != 0o1777


@only_root
def test_a_user_cannot_hold_the_lock_of_the_state(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with state.alone(tmp_path / "node.json"):
        (lock,) = tmp_path.glob(".*.lock")
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.unlink()
    lock.symlink_to(tmp_path / "victim")
    with state.alone(tmp_path / "node.json") as alone:
        assert alone
    assert not (tmp_path / "victim").exists()


def test_a_loss_beyond_the_noise_is_one() -> None:
    history = replay.history(random.Random(46), replay.noise(0))
    good = {name: median(values) for name, values in history.items()}
    assert dict(low(good, {}, history)) == {}
    lost = {"stream.triad.gpu3": 0.96, "transfer.htod_pinned.gpu0": 0.94, "p2p.peer.gpu4-gpu0": 0.94,
            "gemm.gemm.gpu2": 0.91, "stream.triad.host": 0.65}  # fmt: skip
    found = dict(low(good | {name: good[name] * share for name, share in lost.items()}, {}, history))
    assert set(found) == set(lost)
    assert all(len(f"tenken: {'gpu 4-gpu 0' if 'p2p' in n else 'gpu 3'}: x {r}") <= LINE for n, r in found.items())


def test_a_reference_comes_first_and_siblings_need_no_history() -> None:
    wanted = {"references": {"stream.triad.gpu": {"value": 4400, "lower": -0.02}, "p2p.peer.pair": {"value": 395}}}
    assert bound("stream.triad.gpu11", wanted, {}) == (pytest.approx(4312), "reference")
    assert bound("p2p.peer.gpu0-gpu1", wanted, {}) == (pytest.approx(375.25), "reference")
    assert bound("stream.triad.gpu1", {}, {"stream.triad.gpu1": [1.0] * 4}) is None
    assert bound("stream.triad.gpu1", {}, {"stream.triad.gpu1": [1.0] * 5}) == (pytest.approx(0.97), "was 1")
    # at its bound it is good
    assert not dict(low({"stream.triad.gpu0": 4312.0}, wanted, {}))
    # of 21 the first twenty: half of them 1, half 1.02
    assert bound("transfer.x.gpu1", {}, {"transfer.x.gpu1": [1.0, 1.02] * 10 + [9.0]}) == (
        pytest.approx(1.01 - 6 * 1.4826 * 0.01), "was 1.01",
    )  # fmt: skip
    # of at least four, by more than five per cent: the median of fewer may be the slow one's
    for gpus, triad, found in ((4, 4170.0, ["stream.triad.gpu2"]), (4, 4190.0, []), (3, 2000.0, []), (3, 9000.0, [])):
        some = {f"stream.triad.gpu{i}": 4400.0 for i in range(gpus)} | {"stream.triad.gpu2": triad}
        assert [name for name, _ in low(some, {}, {})] == found, (gpus, triad)


# -- the check and the command ---------------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    tmp_path.chmod(0o755)
    made = Node(tmp_path / "root")
    (tmp_path / "bin").mkdir(mode=0o755)
    made.expect |= {"state": str(tmp_path / "state.json"), "prometheus": str(tmp_path / "tenken.prom")}
    yield made


def run(node: Node, *options: str, steps: Sequence[Step] = STEPS[:1]) -> int:
    folder = node.root.parent
    state.write(folder / "node.json", node.expect)
    parser = argparse.ArgumentParser()
    cli._options(parser)
    machine = node.machine
    machine.steps = steps
    arguments = parser.parse_args([options[0], "--expect", str(folder / "node.json"), *options[1:]])
    return {"check": cli.run_check, "accept": cli.run_accept}[options[0]](arguments, machine)


def test_good_then_bad_then_accepted(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    folder = node.root.parent
    node.expect["programs"] = str(folder / "bin")
    program(folder / "bin", "stream", series=[SERIES | {"subject": {"gpu": i}} for i in range(8)])
    assert run(node, "check", "--gpus", "all", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == 0 and len(said["values"]) == 8 and said["findings"] == []
    assert "host.clock" in said["unknown"]
    first = json.loads((folder / "state.json").read_text())
    assert first["measured"]["stream.triad.gpu7"] == [pytest.approx(4.4)] and len(first["gpus"]) == 8
    node.nvml.gpus[3]["links"][5] = 0
    assert run(node, "check", "--gpus", "all") == 1
    out = capsys.readouterr()
    assert out.out == "tenken: gpu 3: NVLink 5 down, was up\n"
    assert json.loads((folder / "state.json").read_text()) == first  # the last good one
    page = (folder / "tenken.prom").read_text()
    assert "tenken_node_status 1\n" in page
    assert 'severity="bad",device="gpu 3",line="tenken: gpu 3: NVLink 5 down, was up"} 1' in page
    node.expect["gpus"]["nvlinks"] = 17
    assert run(node, "accept") == 0
    assert "the present state is the good one: 8 GPUs" in capsys.readouterr().out
    assert run(node, "check", "--no-measure") == 0


def test_an_expectation_that_cannot_be_read_is_told_and_nothing_is_good(node: Node, capsys: Any) -> None:
    node.expect["more"] = 1
    assert run(node, "check", "--no-measure") == 2
    assert capsys.readouterr().out.startswith("tenken: expectation: ")
    del node.expect["more"]
    (node.root.parent / "state.json").write_text("[]")
    assert run(node, "check", "--no-measure") == 2
    assert capsys.readouterr().out.startswith("tenken: state file: ")
    assert (node.root.parent / "state.json").read_text() == "[]", "what is not understood is not replaced"
    assert expect.load(node.root / "none.json") == {}


def test_a_slow_gpu_is_measured_again_before_it_is_said(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    folder = node.root.parent
    node.expect["programs"] = str(folder / "bin")
    node.expect["references"] = {"stream.triad.gpu": {"value": 4.4, "lower": -0.03}}
    slow = [SERIES | {"subject": {"gpu": i}, "counts": {"bytes": 4000 if i == 6 else 4400}} for i in range(8)]
    program(folder / "bin", "stream", series=slow)
    assert run(node, "check", "--gpus", "0-7") == 1
    assert capsys.readouterr().out == "tenken: gpu 6: stream triad 4 below 4.268 (reference)\n"
    # only the first run is slow
    text = json.dumps({"program": "stream", "status": "ok", "series": slow})
    body = f"f={folder}/once; [ -e $f ] && n=4400 || n=4000; touch $f; echo '{text}' | sed s/4000/$n/ > $file"
    program(folder / "bin", "stream", body)
    assert run(node, "check", "--gpus", "0-7") == 0
    assert "good when repeated" in capsys.readouterr().err
    measured = json.loads((folder / "state.json").read_text())["measured"]
    assert measured["stream.triad.gpu6"] == [pytest.approx(4.4)], "the disturbed value is no part of a reference"


def test_the_first_twenty_good_values_stay_the_reference(node: Node) -> None:
    state, first = node.root.parent / "state.json", [4.5] * 19
    node.expect["programs"] = str(state.parent / "bin")
    series = [SERIES | {"subject": {"gpu": i}, "counts": {"bytes": 4400}} for i in range(8)]
    program(state.parent / "bin", "stream", series=series)
    assert run(node, "check", "--gpus", "0-7") == 0
    state.write_text(json.dumps(json.loads(state.read_text()) | {"measured": {"stream.triad.gpu6": first}}))
    for _ in range(2):
        assert run(node, "check", "--gpus", "0-7") == 0
        measured = json.loads(state.read_text())["measured"]
        assert measured["stream.triad.gpu6"] == [*first, pytest.approx(4.4)]


@pytest.mark.parametrize(
    ("plant", "options", "said"),
    [
        (lambda n: n.nvml.gpus[5].update(compute=[77]), ["--gpus", "0,1"], "gpu 5 is in use"),
        (lambda n: (n.root / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_9").mkdir(parents=True), [],
         "job 9 is on the node"),
        (lambda n: (n.root / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_9").mkdir(parents=True),
         ["--job", "9"], None),
        (lambda n: n.nvml.gpus[5].update(compute=None, graphics=None), [], "processes of gpu 5 cannot be read"),
    ],
)  # fmt: skip
def test_nothing_is_measured_beside_another_job(
    node: Node, capsys: pytest.CaptureFixture[str], plant: Any, options: list[str], said: str | None
) -> None:
    folder = node.root.parent
    node.expect["programs"] = str(folder / "bin")
    program(folder / "bin", "stream")
    plant(node)
    assert run(node, "check", "--json", *options) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["not_measured"] == ({"all": said} if said else {}) and bool(out["values"]) == (said is None)


def test_a_driver_that_hangs_and_a_refused_state(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.nvml.hang = "nvmlDeviceGetNvLinkState"
    began = time.monotonic()
    assert run(node, "check", "--seconds", "1") == 2  # half a second without an answer is not a fault yet
    assert time.monotonic() - began < 30  # the driver sleeps twice as long
    assert capsys.readouterr().out == "tenken: gpu 0: no answer within 0.5 s\n"
    node.nvml.hang = None
    Path(node.expect["state"]).symlink_to(node.root / "proc/meminfo")
    assert run(node, "check", "--no-measure") == 2
    assert capsys.readouterr().out.startswith("tenken: state file: /")
    assert Path(node.expect["state"]).is_symlink()


def test_the_brake_turns_bad_into_cannot_tell(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    slurm = Slurm(20, time.time())
    node.nvml.gpus[3]["status"] = 15
    node.expect["drain"] = {"scheduler": "slurm", "partition": "gpu", "share": 0.05}
    outcome = checks.Outcome("n001", [Finding(BAD, "gpu 3", "lost")])
    machine = node.machine
    machine.run, machine.name = slurm.run, "n001"
    checks.apply_brake(machine, node.expect, outcome, draining=True)
    assert outcome.status == 1 and slurm.drained["n001"][1] == "tenken: gpu 3: lost"
    machine.name = "n002"
    checks.apply_brake(machine, node.expect, outcome, draining=False)
    assert outcome.status == 2 and outcome.braked == "1 of 20 nodes drained in an hour: not drained"


def test_a_line_is_short_and_steers_no_terminal() -> None:
    line = Finding(BAD, "gpu 3", 'is \x1b[31m"NVIDIA" ' + "x" * 80).line
    assert len(line) == LINE and "\x1b" not in line and '"' not in line
    assert Finding(NOTE, "a", "b").line == "tenken: a: b"


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("all", "all"), ("", frozenset()), ("0,2-4", {0, 2, 3, 4}), ("7", {7}), ("0;rm", None), ("-1", None), ("a", None)],
)
def test_lists_of_gpus(text: str, gpus: Any) -> None:
    if gpus is None:
        with pytest.raises(argparse.ArgumentTypeError, match="allowed: all, or numbers"):
            cli._gpus(text)
    else:
        assert cli._gpus(text) == gpus


@pytest.mark.parametrize(("text", "taken"), [
    ("1", 1.0), ("300", 300.0), ("0.9", None), ("300.1", None), ("nan", None), ("x", None),
])  # fmt: skip
def test_seconds_of_a_check(text: str, taken: float | None) -> None:
    if taken is None:
        with pytest.raises(argparse.ArgumentTypeError, match="allowed: 1 to 300"):
            cli._seconds(text)
    else:
        assert cli._seconds(text) == taken


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    empty = tmp_path / "libnvidia-ml.so.1"
    empty.write_bytes(b"")
    assert "file too short" in Nvml(str(empty)).why
    assert Nvml(str(tmp_path / "none.so")).why


def test_a_mistake_of_ours_drains_no_node(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli.checks, "check", lambda *_: 1 // 0)
    assert cli.main(["check", "--expect", "/nonexistent/node.json"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_check_imports_the_standard_library_alone() -> None:
    """What makes it start in a tenth of a second: no YAML, no schema, no entry points."""
    code = "import sys, tenken.node.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tenken.node.verdict" in loaded and not {"importlib.metadata", "tenken.machines.loader"} & loaded
    foreign = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"tenken"}
    # Debian's interpreter loads it itself, before any program
    foreign -= {"sitecustomize"}
    assert {name for name in foreign if not name.startswith("_")} == set()


# -- back after a repair ---------------------------------------------------------------------------------------------


def back(node: Node, slurm: Slurm) -> int:
    folder = node.root.parent
    state.write(folder / "node.json", node.expect)
    parser = argparse.ArgumentParser()
    cli._options(parser)
    machine = node.machine
    machine.steps, machine.run = STEPS[:1], slurm.run
    return cli.run_return(parser.parse_args(["return", "n001", "--expect", str(folder / "node.json")]), machine)


def test_a_repaired_node_comes_back_and_a_recurring_fault_is_named(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = Slurm(4, time.time())
    node.expect["drain"] = {"scheduler": "slurm"}
    with pytest.raises(StateError, match="no good state to compare with"):
        back(node, slurm)
    assert run(node, "check", "--no-measure") == 0
    # a GPU that was the reason must have been measured
    slurm.drained["n001"] = (slurm.now, "tenken: gpu 3: lost: it does not answer the driver")
    assert back(node, slurm) == 2
    assert "tenken: gpu 3 was the reason and was not measured: not resumed\n" in capsys.readouterr().out
    node.expect["programs"] = str(node.root.parent / "bin")
    program(node.root.parent / "bin", "stream", series=[SERIES | {"subject": {"gpu": i}} for i in range(8)])
    for times in range(1, 4):
        slurm.drained["n001"] = (slurm.now, f"tenken: gpu 3: {times} uncorrected memory errors")
        node.nvml.gpus[3].update(ecc_uncorrected_life=2 + times, remapped=[1, times, 1, 0])
        assert back(node, slurm) == 1  # not reset yet
        assert "1 of 3: tenken: gpu 3: row remapping pending: reset it\n" in capsys.readouterr().out
        node.nvml.gpus[3].update(remapped=[1, times, 0, 0])
        assert back(node, slurm) == 0
        said = capsys.readouterr().out
        assert "good 3 times: resume with: scontrol update NodeName=n001 State=RESUME" in said
        assert ("recurring fault: returned 3 times after" in said) == (times == 3)
    node.nvml.gpus[3]["links"][4] = 0  # its configuration must still be as before
    assert back(node, slurm) == 1
    assert "gpu 3: NVLink 4 down, was up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reason", "values", "left"),
    [
        ("tenken: gpu 3: lost", ["stream.triad.gpu3"], ""),
        ("tenken: gpu 3: lost", ["stream.triad.gpu1", "stream.triad.gpu33"], "gpu 3"),
        ("tenken: gpu 1-gpu 3: p2p peer 40 below 300", ["p2p.peer.gpu3-gpu1.bytes=1"], ""),
        ("bad GPU 3, card exchanged", ["stream.triad.gpu1"], "gpu 3"),
        ("tenken: memory mc0: 1 new uncorrected errors", ["stream.triad.gpu1"], "memory"),
        ("tenken: host: 3 of 4 cores online", ["stream.triad.host"], ""),
        ("tenken: /scratch: not mounted", [], ""),
        ("tenken: mlx5_0/1: link is down", [], ""),
        ("maintenance", [], ""),
        ("", [], ""),
    ],
)
def test_what_was_the_reason_must_have_been_measured(reason: str, values: list[str], left: str) -> None:
    outcome = checks.Outcome("n1", [], values=dict.fromkeys(values, 1.0))
    assert checks.unmeasured(reason, outcome) == left


def test_what_is_bad_for_a_moment_is_read_again(node: Node) -> None:
    node.nvml.gpus[3]["compute"] = [4711]
    machine = node.machine
    machine.sleep = lambda _: node.nvml.gpus[3].update(compute=[])
    assert checks.check(machine, node.expect, node.last, mine="all").status == 0


# -- carried out -----------------------------------------------------------------------------------------------------


def test_a_check_is_a_sealed_line_of_the_archive(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    folder = node.root.parent
    node.expect |= {
        "programs": str(folder / "bin"),
        "archive": str(folder / "archive"),
        "system": "h200",
        "partition": "gpu",
    }
    program(folder / "bin", "stream", series=[SERIES | {"subject": {"gpu": i}} for i in range(8)])
    assert run(node, "check", "--no-measure") == 0 and not (folder / "archive").exists()
    assert run(node, "check", "--gpus", "all") == 0
    log = folder / "archive/h200/gpu/node_check.n1.log"
    head, line = log.read_text().splitlines()
    first = dict(zip(head.split("|"), line.split("|"), strict=True))
    assert first["triad.gpu7_value"] == "4.4" and first["nodelist"] == "n1" and first["tenken_verdict"] == "PASS"
    assert len(line) < 400
    node.nvml.gpus[3]["links"][5] = 0
    assert run(node, "check", "--gpus", "all") == 1
    bad = log.read_text().splitlines()[2].split("|")
    assert bad[6:8] == ["FAIL", "tenken: gpu 3: NVLink 5 down, was up"] and bad[8:16] == [""] * 8
    assert list(chained.faults(log)) == []


@pytest.mark.parametrize("what", ["prometheus", "archive"])
def test_what_cannot_be_carried_out_is_a_note_and_leaves_the_verdict(
    node: Node, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    folder = node.root.parent
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    node.expect |= {"archive": str(folder / "open"), "system": "h200", "partition": "gpu"}
    node.expect["prometheus"] = str(folder / "open" / "tenken.prom")
    del node.expect["prometheus" if what == "archive" else "archive"]
    node.nvml.gpus[3]["status"] = 15
    if os.geteuid() != 0 and what == "archive":
        pytest.skip("a user's own archive may be where others write")
    assert run(node, "check", "--no-measure") == 1
    said = capsys.readouterr()
    assert said.out == "tenken: gpu 3: lost: it does not answer the driver\n"
    assert f"note: {what}: not written: {folder / 'open'}: mode 777 lets others write" in said.err
    assert not list((folder / "open").iterdir())


def test_a_refused_file_is_said_before_a_note(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(node, "check", "--no-measure") == 0
    Path(node.expect["state"]).chmod(0o666)
    node.nvml.gpus[3]["ecc_corrected"] = 5
    capsys.readouterr()
    assert run(node, "check", "--no-measure") == 2
    assert capsys.readouterr().out.startswith("tenken: state file: ")


@pytest.mark.parametrize(
    ("found", "accept", "kept"), [(0, False, True), (2, False, False), (2, True, True), (0, True, True)]
)
def test_readings_are_remembered_if_they_are_good_or_accepted(
    found: int, accept: bool, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = checks.Outcome("n1", [], readings={"x": 1})
    monkeypatch.setattr(checks.Outcome, "status", property(lambda self: found))
    assert checks.remember(tmp_path / "state.json", outcome, accept) is None
    assert (tmp_path / "state.json").exists() is kept


def test_an_ordinary_user_may_write_where_the_folder_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(cli.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cli.os, "access", lambda folder, _: asked.append(folder) or folder == tmp_path)
    assert cli._may_write(tmp_path / "archive" / "h200") and asked == [tmp_path]
    (tmp_path / "archive").mkdir()
    assert not cli._may_write(tmp_path / "archive" / "h200")
