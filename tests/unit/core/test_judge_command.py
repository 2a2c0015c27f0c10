"""`tenken judge`: what it reads, what the command line may add, and its exit status for each verdict."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.archive import records
from tenken.cli import main
from tenken.commands import judge
from tenken.machines.errors import UnknownSystemError
from tenken.model.judgement import Finding, Judgement
from tenken.model.record import Job
from tenken.model.request import Request
from tenken.model.result import validate
from tests.support.documents import around, gpu_document, health_sample, metric
from tests.unit.core.test_archive import record

ASKED = Request(None, "stream", "StreamCuda", ("gpu",), ("copy", "scale", "add", "triad", "dot"), gpus=1)
WAIVED = Judgement("WAIVED", (Finding("WAIVED", "nid001: library missing: libnccl.so.2 is not here"),))


def slow(raw: dict[str, Any]) -> None:
    raw["metrics"][3] = metric("triad", {"gpu": 0}, around(2000.0))


def throttled(raw: dict[str, Any]) -> None:
    raw["health"]["devices"][0]["worst"] = health_sample(reasons=["hw_thermal_slowdown"])


def waived(raw: dict[str, Any]) -> None:
    raw.update(status="waived", reason="needs two GPUs: 1 GPU is here", metrics=[], limits={})


def unbounded(raw: dict[str, Any]) -> None:
    raw["limits"] = {key: {"unknown": "the GPU does not report"} for key in raw["limits"]}
    for device in raw["devices"]:
        device.update(memory_clock_mhz=None, memory_clock_max_mhz=None)


def document(change: Any = None) -> dict[str, Any]:
    values = {"copy": 4250.0, "scale": 4250.0, "add": 4390.0, "triad": 4395.0, "dot": 4530.0, "memcpy": 4240.0}
    raw: dict[str, Any] = gpu_document(values=values)
    raw["parameters"]["backend"], raw["build"]["backends"] = "cuda", ["host", "cuda"]
    raw["path"]["backend"] = "cuda"
    whats = (
        "array a, every element",
        "array b, every element",
        "array c, every element",
        "dot of every timed repetition",
        "array c after memcpy, every element",
    )
    checks = [{"what": f"{w}, relative error on gpu0", "error": 0.0, "tolerance": 1e-13, "passed": True} for w in whats]
    raw["verification"]["checks"] = checks
    if change:
        change(raw)
    return raw


def archived(folder: Path, change: Any = None, **more: Any) -> str:
    """A record's path. Its archived verdict is FAIL throughout: the command judges it again."""
    status = {"failed": 1, "waived": 3}.get(document(change)["status"], 0)
    fields = {
        "system": "unheard",
        "request": ASKED,
        "judgement": Judgement("FAIL"),
        "job": Job("slurm", "17", "COMPLETED", status),
    }
    return str(
        records.write(replace(record(), **{**fields, "result": validate(document(change), "r"), **more}), folder)
    )


def bare(folder: Path, change: Any = None) -> str:
    path = folder / "result.json"
    path.write_text(json.dumps(document(change)))
    return str(path)


@pytest.mark.parametrize(
    ("change", "verdict", "status"),
    [
        (None, "PASS", 0),
        (slow, "FAIL", 1),
        (throttled, "INVALID", 3),
        (waived, "WAIVED", 4),
        (unbounded, "RECORDED", 5),
    ],
)
def test_the_exit_status_of_each_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, verdict: str, status: int
) -> None:
    assert main(["judge", archived(tmp_path, change)]) == status
    assert capsys.readouterr().out.startswith(f"{verdict} {tmp_path}")


def test_several_files_end_with_the_worst(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, hot, bad = (archived(tmp_path, change) for change in (None, throttled, slow))
    assert main(["judge", good, hot]) == 3
    assert main(["judge", hot, bad, good]) == 1
    capsys.readouterr()
    assert main(["judge", good, archived(tmp_path, waived)]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in found] == ["PASS", "WAIVED"]
    assert found[0].endswith("(6 of 6 values had a criterion)")


def test_a_bare_result_passes_nothing_and_fails_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", bare(tmp_path)]) == 5
    assert "judged without its request" in capsys.readouterr().out
    assert main(["judge", bare(tmp_path, slow)]) == 1
    assert main(["judge", bare(tmp_path), "--job", "exit_code=1"]) == 1
    assert main(["judge", bare(tmp_path), "--job", "state=TIMEOUT"]) == 1
    # text that was cut off, is not JSON or is of an unknown program
    (tmp_path / "cut.json").write_text((tmp_path / "result.json").read_text()[:500])
    assert main(["judge", str(tmp_path / "cut.json")]) == 1
    assert "cut.json: is truncated or not JSON" in capsys.readouterr().out
    assert main(["judge", bare(tmp_path, lambda raw: raw.update(program="no-such"))]) == 1


def test_as_json_it_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [archived(tmp_path), archived(tmp_path, slow)]
    assert main(["judge", "--json", *files]) == 1
    one, other = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (one["file"], one["verdict"], one["findings"]) == (files[0], "PASS", [])
    assert other["judged"]["triad.gpu0"]["verdict"] == "FAIL" != other["judged"]["copy.gpu0"]["verdict"]
    assert other["findings"][0]["metric"] == "triad.gpu0"


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED by 0", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "timeout"])
def test_a_job_that_was_killed_fails_whatever_it_left(tmp_path: Path, state: str) -> None:
    assert main(["judge", archived(tmp_path, job=Job("slurm", "17", state, 0))]) == 1
    assert main(["judge", archived(tmp_path), "--job", f"state={state}"]) == 1
    assert main(["judge", archived(tmp_path), "--job", "state=COMPLETED"]) == 0


def test_a_job_that_its_scheduler_lost_is_invalid_and_one_that_it_ended_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {"state": "CANCELLED", "lost": "it began at 14:56:55Z, according to the scheduler at 14:57:02Z"}
    for facts, status in ((lost, 3), ({"state": "CANCELLED"}, 1)):
        file = archived(tmp_path, result=None, judgement=Judgement("FAIL"), job=Job("s", "7", "CANCELLED", 0, facts))
        assert main(["judge", file]) == status
    assert "INVALID: nid001: the scheduler lost the job" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("nodes", "findings", "where"),
    [
        (("nid3",), (), "nid3"),
        ((), (Finding("FAIL", "any 2 nodes of partition gpu: x", node="any 2 nodes of partition gpu"),), "any 2 nodes"),
        ((), (), "any node of partition gpu"),
    ],
)
def test_a_job_that_was_never_placed_names_the_nodes_that_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: tuple[str, ...], findings: Any, where: str
) -> None:
    job = Job("slurm", "17", "CANCELLED (blocked in the queue: PartitionDown)", None)
    file = archived(tmp_path, result=None, nodes=nodes, job=job, judgement=Judgement("FAIL", findings))
    assert main(["judge", file]) == 1
    assert f"FAIL: {where}" in capsys.readouterr().out


def test_what_the_command_line_says_of_a_job_counts_in_the_records_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = archived(tmp_path, job=Job("slurm", "17", "TIMEOUT", 7))
    assert main(["judge", file, "--job", "state=COMPLETED"]) == 1  # the exit code is still the record's
    assert "exited with 7" in capsys.readouterr().out
    assert main(["judge", file, "--job", "state=COMPLETED", "--job", "exit_code=0"]) == 0
    none = archived(tmp_path, result=None, judgement=Judgement("FAIL"), job=Job("slurm", "17", "TIMEOUT", 0))
    capsys.readouterr()
    assert main(["judge", none, "--job", "nodes=n1,n2"]) == 1
    assert "FAIL: n1,n2: the job did not run to its end: state TIMEOUT" in capsys.readouterr().out


def place(name: str, *environments: str) -> Any:
    return SimpleNamespace(name=name, environments=environments)


#: A system with two partitions, and the environment that each mentions though it does not exist.
TWO: Any = SimpleNamespace(
    name="two", partitions={"cpu": place("cpu", "gnu", "intel"), "gpu": place("gpu", "cuda", "gnu")},
    environments={name: name for name in ("gnu", "intel", "cuda")},
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "of_record", "found"),
    [
        (None, ("two", "gpu", "gnu"), ("two", "gpu", "gnu")), (None, ("two", "cpu", "intel"), ("two", "cpu", "intel")),
        (None, ("local", "gpu", "gnu"), None), (None, ("unheard", "gpu", "gnu"), None),
        (None, ("two", "fat", "gnu"), None), (None, ("two", "gpu", "nvhpc"), None),
        ("two", ("unheard", "gpu", "gnu"), ("two", "gpu", "gnu")), ("two", None, ("two", "cpu", "gnu")),
        ("two:gpu", None, ("two", "gpu", "cuda")), ("two:gpu", ("x", "cpu", "gnu"), ("two", "gpu", "gnu")),
        ("two:gpu+gnu", ("x", "cpu", "intel"), ("two", "gpu", "gnu")), ("two:cpu+intel", None, ("two", "cpu", "intel")),
        ("unheard", ("two", "gpu", "gnu"), "unheard"),
        ("two", ("x", "fat", "gnu"), "system 'two' has no partition 'fat'; allowed: cpu, gpu"),
        ("two:gpu+x", None, "system 'two' has no environment 'x'; allowed: gnu, intel, cuda"),
        ("two", ("x", "gpu", "nvhpc"), "system 'two' has no environment 'nvhpc'; allowed: gnu, intel, cuda"),
    ],
)  # fmt: skip
def test_a_record_is_judged_by_the_place_that_is_named_or_its_own(
    asked: str | None, of_record: Any, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> Any:
        if name not in ("two", "local"):
            raise UnknownSystemError(name, ["two"])
        return SimpleNamespace(expand=lambda env, strict: TWO)

    monkeypatch.setattr(judge.loader, "load", load)
    monkeypatch.setattr(judge, "facts", lambda system, partition, env: (system.name, partition.name, env))
    one = None if of_record is None else replace(record(), **dict(zip(("system", "partition", "environ"), of_record,
                                                                         strict=True)))  # fmt: skip
    if isinstance(found, str):
        with pytest.raises(judge.JudgeError, match=re.escape(found)):
            judge.machine_of(asked, one)
    else:
        assert judge.machine_of(asked, one) == found


END = (
    "TENKEN-BEGIN token=t node=nid001 time=1.0 job=17\nTENKEN-END token=t status={} nodes=nid001 node=nid001 time=2.0\n"
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (END.format(0), 0),
        (END.format(1), 1),
        (END.split("\n")[0] + "\n", 1),
        (END.format(0) + END.format(1).split("\n")[1] + "\n", 1),
        (END.format(0) * 2, 0),
    ],
)
def test_the_jobs_output_says_how_it_ended(tmp_path: Path, text: str, status: int) -> None:
    """A job without its last line was killed, whatever the scheduler reports."""
    output = tmp_path / "job.out"
    output.write_text(text)
    assert main(["judge", archived(tmp_path), "--job", f"output={output}"]) == status


@pytest.mark.parametrize(
    ("said", "status", "says"),
    [
        (["nodes=nid002"], 1, "host.name is 'nid001'; the job ran on nid002"),
        (["nodes=nid001.site.example.org,nid002"], 0, "PASS"),
        (["exit_code=7", "output=OUTPUT"], 1, "exited with 7"),
        (["state=FAILED", "output=OUTPUT"], 1, "state is FAILED"),
        (["nodes=nid002", "output=OUTPUT"], 0, "PASS"),  # the output itself names its node
    ],
)
def test_a_record_is_held_against_what_is_said_of_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: list[str], status: int, says: str
) -> None:
    output = tmp_path / "job.out"
    output.write_text(END.format(0))
    words = [word for one in said for word in ("--job", one.replace("OUTPUT", str(output)))]
    assert main(["judge", archived(tmp_path), *words]) == status
    assert says in capsys.readouterr().out


def test_a_record_keeps_the_names_that_its_nodes_give_themselves(tmp_path: Path) -> None:
    """A site's name for a node may differ from the node's own; other nodes fail."""
    own = Job("slurm", "17", "COMPLETED", 0, {"hosts": ["nid001"]})
    assert main(["judge", archived(tmp_path, nodes=("n1",), job=own)]) == 0
    assert main(["judge", archived(tmp_path, nodes=("n1",))]) == 1
    assert main(["judge", archived(tmp_path, nodes=())]) == 1


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"judgement": WAIVED}, 4, "library missing"),
        (
            {"judgement": Judgement("WAIVED", (Finding("WAIVED", "nid001: no wish to: x"),))},
            1,
            "the run left no result",
        ),
        ({"judgement": Judgement("PASS")}, 1, "the run left no result"),
        ({"judgement": Judgement("FAIL"), "result_error": "result.json: is empty"}, 1, "stream: result.json: is empty"),
    ],
)
def test_a_record_without_a_result_fails_unless_it_was_waived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], status: int, says: str
) -> None:
    assert main(["judge", archived(tmp_path, result=None, **fields)]) == status
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such.json"], "no-such.json: no such file"),
        (["FILE", "--job", "colour=red"], "allowed keys: state, exit_code, nodes, output"),
        (["FILE", "--job", "state"], "expected KEY=VALUE"),
        *((["FILE", "--job", f"exit_code={code}"], "expected an integer") for code in ("one", "", "--5", "²", "5 ")),
        (["FILE", "--job", "output=no-such.out"], "no-such.out: No such file"),
        (["FILE", "--system", "no-such"], "no-such"),
        (["FILE", "--system", "miyabi:no-such"], "has no partition 'no-such'; allowed:"),
        (["FILE", "--system", "miyabi:gpu+no-such"], "has no environment 'no-such'; allowed:"),
    ],
)
def test_a_command_line_that_cannot_be_followed_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    file = archived(tmp_path)
    assert main(["judge", *(file if word == "FILE" else word for word in arguments)]) == 2
    assert says in capsys.readouterr().err


def test_a_machine_that_is_named_holds_in_the_records_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its data sheet if the GPU reports no limit; a waiver of what the machine claims fails."""
    file = archived(tmp_path, unbounded)
    assert main(["judge", file]) == 5
    assert main(["judge", file, "--system", "miyabi:gpu"]) != 5
    no_peer = archived(
        tmp_path, lambda raw: raw.update(status="waived", reason="no managed memory: 0", metrics=[], limits={})
    )
    assert main(["judge", no_peer]) == 4
    capsys.readouterr()
    assert main(["judge", no_peer, "--system", "miyabi:gpu"]) == 1
    assert "the system file claims 'managed'" in capsys.readouterr().out
