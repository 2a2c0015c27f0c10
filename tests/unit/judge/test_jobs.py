"""Jobs that did not end as they should, or ran elsewhere: outputs and states left by scheduler, launcher and a kill.

Judged twice: live, with the job's output and the scheduler's account, and by `tenken judge`, with the record and the
command line. The end mark, if there is one, is 0 throughout.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tenken.judge import rejudge
from tenken.model import engine, job_exit
from tenken.model import result as results
from tenken.model.catalogue import Program
from tenken.model.job import CardReading, HostReading, JobAccount
from tenken.model.judgement import Judgement
from tenken.reframe import joblines
from tenken.reframe.outcome import RESULT_FILE, Outcome
from tests.support import honest
from tests.support.planted import seen

TOKEN = honest.TOKEN
NODE = "node1"


@dataclass(frozen=True)
class Told:
    """A job as described by its output and its scheduler."""

    state: str | None = "SUCCESS"
    exit_code: int | None = 0
    output: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    uses_mpi: bool = False
    known: tuple[str, ...] = (NODE,)


def output(
    run: honest.Honest,
    status: int = 0,
    node: str = NODE,
    token: str = TOKEN,
    nodes: str = NODE,
    command: int | None = None,
    ranks: tuple[str, ...] = (),
    end: bool = True,
) -> str:
    """Output of the job script of a run."""
    begin, finish = run.job.begin or 0.0, run.job.end or 0.0
    lines = [
        f"TENKEN-BEGIN token={token} node={node} time={begin - 1:.3f} job=17",
        f"TENKEN-NODES {nodes}",
        *(f"TENKEN-GPU GPU {i}: NVIDIA H200 (UUID: {uuid})" for i, uuid in enumerate(sorted(run.job.uuids))),
        f"TENKEN-RUN begin node={node} time={begin:.3f}",
        *(f"TENKEN-RANK host={host}" for host in ranks),
        f"TENKEN-RUN end node={node} time={finish:.3f} status={status if command is None else command}",
        f"TENKEN-END token={token} status={status} nodes={nodes} node={node} time={finish + 1:.3f}",
    ]
    return "".join(f"{line}\n" for line in (lines if end else lines[:-2]))


def live(run: honest.Honest, told: Told, result: str | None = None) -> Judgement:
    """The verdict of the run as ReFrame reaches it, in a separate stage folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = run.text if result is None else result
        if text:
            (folder / RESULT_FILE).write_text(text)
        (folder / "job.out").write_text(told.output)
        outcome = Outcome(
            folder, "job.out", "job.err", TOKEN, told.uses_mpi, told.state or "", told.exit_code, told.facts,
            known=told.known,
        )  # fmt: skip
        return outcome.judgement(run.request, run.machine)[0]


def archived(run: honest.Honest, job: rejudge.JobFacts) -> Judgement:
    """The same by `tenken judge`."""
    return rejudge.of_result(results.parse(run.text, "result.json"), run.request, run.machine, job)


def without_time(text: str, kind: str) -> str:
    """An output whose lines of one kind have an empty time."""
    return re.sub(rf"(TENKEN-{kind} .*)time=[0-9.]+", r"\1time=", text)


def without_lines(text: str, kind: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"TENKEN-{kind} "))


def interleaved(one: str, other: str) -> str:
    """Alternating lines of two outputs."""
    return "".join(
        line
        for both in zip(one.splitlines(keepends=True), other.splitlines(keepends=True), strict=True)
        for line in both
    )


#: The scheduler's report on a job whose end mark is 0: state, exit code, what the refusal names.
CONTRADICTED: tuple[tuple[str | None, int | None, str], ...] = (
    ("FAILURE", 7, "exited with 7"),
    ("SUCCESS", 7, "exited with 7"),
    ("COMPLETED", 1, "exited with 1"),
    ("COMPLETED", 137, "exited with 137"),
    ("COMPLETED (no longer listed)", 2, "exited with 2"),
    (None, 7, "exited with 7"),
    ("COMPLETED", -1, "exited with -1"),
    ("COMPLETED", 265, "exited with 265"),
    ("FAILURE", None, "state is FAILURE"),
    ("FAILED", 0, "state is FAILED"),
    ("FAILED", None, "state is FAILED"),
    ("Error", None, "state is Error"),
    ("RUNNING", 0, "state is RUNNING"),
    ("PENDING", None, "state is PENDING"),
    ("SUSPENDED", 0, "state is SUSPENDED"),
    ("COMPLETED,FAILED", 0, "state is COMPLETED,FAILED"),
    ("TIMEOUT", 0, "state TIMEOUT"),
    ("CANCELLED by 1000", 0, "state CANCELLED"),
    ("CANCELLED (blocked in the queue)", None, "state CANCELLED"),
    ("NODE_FAIL", 0, "state NODE_FAIL"),
    ("OUT_OF_MEMORY", 0, "state OUT_OF_MEMORY"),
    ("PREEMPTED", 0, "state PREEMPTED"),
    ("BOOT_FAIL", None, "state BOOT_FAIL"),
    ("DEADLINE", 0, "state DEADLINE"),
    ("timeout", 0, "state timeout"),
)


@pytest.mark.parametrize(("state", "code", "says"), CONTRADICTED)
def test_a_job_that_its_scheduler_calls_failed_is_no_pass(state: str | None, code: int | None, says: str) -> None:
    """Whatever its end mark is: live, and judged again with and without its output."""
    run = honest.run("stream")
    told = Told(state, code, output(run))
    seen(live(run, told), says)
    seen(archived(run, rejudge.JobFacts(state, code, (NODE,))), says)
    account = joblines.account(joblines.report(told.output, TOKEN))
    seen(archived(run, rejudge.JobFacts(state, code, (NODE,), marked=0, account=account)), says)


def _outputs() -> dict[str, tuple[str, str]]:
    """Outputs of jobs that the scheduler reports as completed: text, and what the refusal names."""
    run = honest.run("stream")
    whole = output(run)
    mark = whole.splitlines(keepends=True)[-1]
    cut = output(run, end=False)
    other = "f" * 32
    told: tuple[tuple[str, str, str], ...] = (
        ("no end mark", cut, "no end mark"),
        ("nothing at all", "", "no end mark"),
        ("the end mark of another attempt", cut + mark.replace(TOKEN, other), "no end mark"),
        ("an end mark that was cut", cut + mark[: mark.index("status=") + 4], "no end mark"),
        ("an end mark without its status", cut + mark.replace("status=0", "status="), "no end mark"),
        ("a status that is a word", cut + mark.replace("status=0", "status=ok"), "no end mark"),
        ("a negative status", cut + mark.replace("status=0", "status=-0"), "no end mark"),
        ("an end mark in the middle of a line", cut + "program: " + mark, "no end mark"),
        ("the program prints the end mark and is killed", cut + mark, "no end mark"),
        ("the mark of a first run, the second wrote nothing", whole + whole.splitlines(keepends=True)[0], "no end"),
        ("the second run stopped in its command", whole + cut, "no end mark"),
        ("exit status 7", output(run, status=7), "exited with 7|status 7|has 7"),
        ("the command ended with 7", output(run, command=7), "ended with status 7"),
        ("the command was killed", output(run, command=137), "ended with status 137"),
        ("everything of another attempt", output(run, token=other), "no end mark"),
        ("end mark 7, then another with 0", output(run, status=7) + mark, "end marks that differ, of status 7, 0"),
        ("end mark 0, then another with 7", whole + mark.replace("status=0", "status=7"), "end marks that|mark has 7"),
        ("two end marks of other times", whole + mark.replace("time=", "time=1"), "end marks that differ"),
        ("no time of the command's begin", without_time(whole, "RUN begin"), "no time of TENKEN-RUN begin"),
        ("no time of the command's end", without_time(whole, "RUN end"), "no time of TENKEN-RUN end"),
        ("the command's lines are gone", without_lines(whole, "RUN"), "no TENKEN-RUN lines"),
        ("a rank is started after the end mark", whole + "TENKEN-RANK host=node1\n", "after the end mark"),
        ("a command ends after the end mark", whole + whole.splitlines(keepends=True)[-2], "after the end mark"),
        (
            "a module prints the end mark",
            whole.replace("TENKEN-RUN begin", mark + "TENKEN-RUN begin", 1),
            "after the end mark|differ",
        ),
        (
            "a module prints another end mark",
            whole.replace("TENKEN-RUN begin", mark.replace("time=", "time=1") + "TENKEN-RUN begin", 1),
            "differ",
        ),
        (
            "a module prints the end mark, and the job dies",
            output(run, end=False).replace("TENKEN-RUN begin", mark + "TENKEN-RUN begin", 1),
            "no end mark|after the end mark",
        ),
        ("zero bytes in the end mark", whole.replace("status=0 nodes", "status=\00 nodes"), "no end mark"),
        ("zero bytes before the end mark", cut + "\0\0" + mark, "no end mark"),
        ("zero bytes in place of the end", cut + "\0" * 4096, "no end mark"),
        ("two jobs line by line", interleaved(whole, output(run, token=other)), "two jobs wrote|tokens?|no end mark"),
        (
            "the second job began within",
            whole.replace("TENKEN-RUN end", output(run, token=other, end=False) + "TENKEN-RUN end"),
            "two jobs wrote|no end mark",
        ),
        (
            "the second job ended within",
            whole.replace("TENKEN-RUN end", mark.replace(TOKEN, other) + "TENKEN-RUN end"),
            "two jobs wrote",
        ),
        ("it ran twice", whole + whole.replace("time=", "time=1"), "ran twice|started|no end mark"),
    )
    return {name: (text, says) for name, text, says in told}


def test_an_output_without_its_own_end_is_no_pass() -> None:
    run = honest.run("stream")
    for name, (text, says) in _outputs().items():
        seen(live(run, Told("COMPLETED", 0, text)), says, name)
        if name != "it ran twice":
            seen(live(run, Told("COMPLETED", None, text)), says, name)


def test_a_disturbed_job_is_no_pass() -> None:
    run = honest.run("stream")
    seen(live(run, Told("COMPLETED", 0, output(run), {"suspended": True})), "suspended")
    record = next(r for r in honest.records() if r.request is not None and rejudge.of_record(r).verdict == "PASS")
    job = replace(record.job, facts={**record.job.facts, "suspended": True})
    seen(rejudge.of_record(replace(record, job=job)), "suspended")


def test_a_record_is_judged_by_its_own_request() -> None:
    record = next(r for r in honest.records() if r.request is not None and rejudge.of_record(r).verdict == "PASS")
    more = replace(record.request, parameters={"bytes": 17})
    seen(rejudge.of_record(replace(record, request=more)), "requested: 17")


def test_a_start_that_never_reached_the_script_is_none() -> None:
    """The prologue failed once: the scheduler counts two starts, the job's own marks one."""
    run = honest.run("stream")
    assert live(run, Told("COMPLETED", 0, output(run), {"run_count": 2})).verdict == "PASS"
    assert job_exit.disturbed({"run_count": 2}) is not None, "without marks the scheduler's count is all there is"
    assert "twice" in str(job_exit.disturbed({"run_count": 2, "attempts": 2, "began_on": "n1, then n2"}))


def _left() -> dict[str, tuple[str, str]]:
    run = honest.run("stream")
    return {
        "a pipe swallowed the status of a program that failed": (
            json.dumps({**run.raw(), "status": "failed", "reason": "CUDA error"}), "failed: CUDA error"),
        "waived with exit 0": (
            json.dumps({**run.raw(), "status": "waived", "reason": "needs two GPUs: 1 is here"}), "exited with 0"),
        "no result": ("", "there is no|no such|missing|result.json"),
        "a result cut short": (run.text[:4000], "truncated"),
        "a result of an earlier attempt": (run.text.replace(TOKEN, "f" * 32), "token"),
        "two results": (run.text + run.text, "JSON"),
        "lines of a module before it": ("Loading modules\n" + run.text, "JSON"),
    }  # fmt: skip


def test_what_a_job_left_is_no_result_of_it() -> None:
    run = honest.run("stream")
    for name, (text, says) in _left().items():
        seen(live(run, Told("COMPLETED", 0, output(run)), text), says, name)


@pytest.mark.parametrize("node", ["node2", "node11", "node1x", "login1", "localhost", "10.0.0.1"])
def test_a_result_of_a_node_on_which_the_job_did_not_run(node: str) -> None:
    run = honest.run("stream")
    seen(live(run, Told("COMPLETED", 0, output(run, node=node, nodes=node))), "host.name")
    for of in ("stream", "mpi_p2p_host", "osu", "xhpcg"):
        seen(archived(honest.run(of), rejudge.JobFacts("COMPLETED", 0, (node,))), "host.name|placement")


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ((NODE, NODE, NODE, "node9"), "did not run on the nodes"),
        ((NODE,) * 3, "3 ranks reported"),
        ((), "0 ranks reported"),
        (("node9",) * 4, "did not run on the nodes"),
    ],
)
def test_ranks_that_a_launcher_started_elsewhere_or_not_at_all(hosts: tuple[str, ...], says: str) -> None:
    run = honest.run("mpi_p2p_host")
    seen(live(run, Told("COMPLETED", 0, output(run, ranks=hosts), {}, True)), says)


def test_other_circumstances_are_no_faults() -> None:
    found = list(twins())
    wrong = [f"{what}: {verdict}; it is {known}" for what, verdict, known in found if verdict != known]
    assert len(found) > 80 and not wrong, "\n".join(wrong)


def twins() -> Iterator[tuple[str, str, str]]:
    """Honest jobs: name, verdict, and the verdict of the run itself."""
    for of in ("stream", "xhpl", "no pageable"):
        run = honest.run(of)
        status = run.status
        states: tuple[tuple[str | None, int | None], ...] = (
            (None, None), ("", None), ("UNKNOWN", None), ("UNKNOWN (state 'Y')", None), ("COMPLETED", status),
            ("COMPLETED", None), ("COMPLETED (no longer listed)", None), ("completed", status), ("Terminated", status),
            ("COMPLETED (deleted with its history, as by qdel -x)", None), ("COMPLETED,COMPLETED", status),
            ("COMPLETED (by its own end mark; no answer from the scheduler for 0:30:00)", None),
            ("SUCCESS" if status == 0 else "FAILURE", status), ("COMPLETED" if status == 0 else "FAILED", status),
            ("COMPLETED", status << 8),
        )  # fmt: skip
        for state, code in states:
            told = Told(state, code, output(run, status=status))
            yield f"{of}, live: state {state}, exit code {code}", live(run, told).verdict, run.verdict
            job = rejudge.JobFacts(state, code, (NODE,))
            yield f"{of}, archived: state {state}, exit code {code}", archived(run, job).verdict, run.verdict
    run = honest.run("stream")
    whole = output(run)
    for name, text in (
        ("no newline at the end", whole.rstrip("\n")),
        ("an epilogue printed behind it", whole + "slurmstepd: done\nResources used: 1:02\n"),
        ("carriage returns", whole.replace("\n", "\r\n")),
        ("text of the program between", whole.replace("TENKEN-RUN end", "Triad 4400 GB/s\nTENKEN-RUN end")),
        ("another job's output before it", output(run, token="e" * 32) + whole),
        (
            "a name of the scheduler's own",
            output(run, nodes="nid7").replace("TENKEN-RUN b", "TENKEN-NAME nid7 node1\nTENKEN-RUN b"),
        ),
        ("full names", output(run, node="node1.site.example.org", nodes="node1.site.example.org")),
        ("in capitals", output(run, node="NODE1", nodes="NODE1")),
        ("a container that is called otherwise than its host", output(run, node="node1", nodes="localhost")),
        ("its end mark printed again by an epilogue", whole + whole.splitlines(keepends=True)[-1]),
        ("a date without fractions", re.sub(r"(time=\d+)\.\d+", r"\1", whole)),
        ("a date that does not know %N", re.sub(r"(time=\d+\.)\d+", r"\1%N", whole)),
        ("zero bytes of a program", whole.replace("TENKEN-RUN end", "\0\0 Triad\nTENKEN-RUN end")),
        ("the scheduler names no node", output(run).replace("TENKEN-NODES node1\n", "TENKEN-NODES \n")),
    ):
        yield f"live: {name}", live(run, Told("COMPLETED", 0, text)).verdict, run.verdict
    for nodes in (("node1.site.example.org",), ("NODE1",), ("node0", "node1"), ("nid7", "node1")):
        yield f"archived: nodes {nodes}", archived(run, rejudge.JobFacts("COMPLETED", 0, nodes)).verdict, run.verdict
    skewed = JobAccount(frozenset({"node1"}), "node0", (run.job.begin or 0) - 30, (run.job.end or 0) + 30)
    job = rejudge.JobFacts("COMPLETED", 0, ("node1",), marked=0, account=skewed)
    yield "archived: with an output of a node 30 s ahead", archived(run, job).verdict, run.verdict
    local = replace(run, text=run.text.replace('"name": "node1"', '"name": "localhost"'))
    told = Told("SUCCESS", 0, output(run, node="localhost", nodes="localhost"), known=("localhost",))
    yield "a machine that is called localhost", live(local, told).verdict, run.verdict


def test_host_and_cards_are_read_from_the_job_lines() -> None:
    told = joblines.report(
        output(honest.run("stream")).replace(
            "TENKEN-RUN begin",
            "TENKEN-HOST machine=x86_64 kernel=6.1 online=0-3,8 memory_kib=1024 cpu=AMD_EPYC\n"
            "TENKEN-DEVICE GPU-0a, 580.159.04, 00000000:01:00.0, 96.00.A5.00.1A, Disabled, Enabled\n"
            "TENKEN-DEVICE GPU-0b, 580.159.04, 00000000:02:00.0, [N/A], [N/A], Enabled, [N/A], [N/A]\n"
            "TENKEN-DEVICE GPU-0d, 580.159.04, 00000000:03:00.0, 96.00, Disabled, Enabled, 1654922012345, Enabled\n"
            "TENKEN-DEVICE GPU-0e, 580.159.04, 00000000:03:00.0, 96.00, Disabled, Enabled, 1654922012345\n"
            "TENKEN-DEVICE GPU-0c, a, message, of, five\n"
            "TENKEN-DEVICE Failed to initialize NVML, 1, 2, 3, 4, 5\n"
            "TENKEN-RUN begin",
        ),
        honest.TOKEN,
    )
    assert told.host == HostReading("x86_64", "6.1", "AMD_EPYC", 5, 2**20)
    assert told.cards == (
        CardReading("GPU-0a", "580.159.04", "00000000:01:00.0", "96.00.A5.00.1A", False, True),
        CardReading("GPU-0b", "580.159.04", "00000000:02:00.0", "", None, True),
        CardReading("GPU-0d", "580.159.04", "00000000:03:00.0", "96.00", False, True, "1654922012345", True),
    )
    assert joblines.account(told).cards == told.cards


def test_a_job_output_of_gigabytes_is_refused_in_bounded_time_and_memory(tmp_path: Path) -> None:
    run = honest.run("stream")
    text = output(run)
    with (tmp_path / "job.out").open("w") as file:
        file.write(text[: text.index("TENKEN-RUN end")])
        file.seek(2 * 2**30)
        file.write("\n" + text[text.index("TENKEN-RUN end") :])
    (tmp_path / "result.json").write_text(run.text)
    known = Outcome(tmp_path, "job.out", "job.err", honest.TOKEN, False, "COMPLETED", 0)
    tracemalloc.start()
    begin = time.process_time()
    judgement = known.judgement(run.request, run.machine)[0]
    took, most = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert judgement.verdict == "FAIL" and "bytes; at most 67108864 are read" in judgement.message()
    assert took < 5 and most < 200 * 2**20
    (tmp_path / "job.out").write_text(text)
    honest_twin = Outcome(tmp_path, "job.out", "job.err", honest.TOKEN, False, "COMPLETED", 0)
    assert honest_twin.judgement(run.request, run.machine)[0].verdict == run.verdict


def test_a_result_that_is_no_text_fails_and_is_kept(tmp_path: Path) -> None:
    run = honest.run("stream")
    (tmp_path / "job.out").write_text(output(run))
    (tmp_path / "result.json").write_bytes(b"\xff no JSON")
    outcome = Outcome(tmp_path, "job.out", "job.err", honest.TOKEN, False, "COMPLETED", 0)
    judgement, result, _, text = outcome.judgement(run.request, run.machine)
    assert (judgement.verdict, result, text) == ("FAIL", None, "\ufffd no JSON")


def test_a_stale_build_fails_when_it_is_first_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of a program whose tolerances are no longer those of metrics.yaml."""
    run = honest.run("stream")
    assert live(run, Told(output=output(run))).verdict == run.verdict
    whole = engine.completed

    def of_another_catalogue(result: results.Result, program: Program) -> results.Result:
        return replace(whole(result, program), catalogue="0123456789abcdef")

    monkeypatch.setattr(engine, "completed", of_another_catalogue)
    judgement = live(run, Told(output=output(run)))
    assert judgement.verdict == "FAIL" and "stale build: stream was built with the catalogue" in judgement.message()
    assert archived(run, rejudge.JobFacts()).verdict == run.verdict, "judged again it is a note"
