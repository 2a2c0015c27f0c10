"""What a job left, read by hand: its exit status and what voids it, its nodes, digests and facts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.reframe import outcome as module
from tenken.reframe.outcome import Outcome, captured

BEGIN = "TENKEN-BEGIN token=t node=n1 time=100 job=7\nTENKEN-NODES {nodes}\n"
RUN = "TENKEN-RUN begin node=n1 time=101\nTENKEN-RUN end node=n1 time=110 status={command}\n"
END = "TENKEN-END token=t{sealed} status={status} nodes=n1 node=n1 time=123456789.5\n"


def output(status: int = 0, command: int | None = None, nodes: str = "n1", sealed: str = "", between: str = "") -> str:
    said = BEGIN.format(nodes=nodes) + RUN.format(command=status if command is None else command)
    return said + between + END.format(status=status, sealed=sealed)


def job(folder: Path, text: str = "", error: str = "", **also: Any) -> Outcome:
    (folder / "out").write_text(text)
    (folder / "err").write_text(error)
    return Outcome(folder, "out", "err", "t", **{"uses_mpi": False, "state": "COMPLETED", "exit_code": 0, **also})


def test_a_job_that_ended_well_is_not_void(tmp_path: Path) -> None:
    assert job(tmp_path, output()).exit_status(None) == (0, None)
    assert job(tmp_path, output(3), exit_code=3).exit_status(None) == (3, None)


@pytest.mark.parametrize(("text", "also", "status", "says"), [
    (output(), {"state": "TIMEOUT"}, None, ""),
    (BEGIN, {"error": "error: boom"}, None, "no end mark in its output (state COMPLETED, exit "
     "code 0): error: boom"),
    (output(0), {"exit_code": 5}, 0, "5"),
    (output(0, command=2), {}, 0, "the job's command ended with status 2; its end mark has 0"),
    (output(between="TENKEN-END token=u status=0\n"), {}, 0,
     "the job cannot be trusted: its output contains marks of token u"),
    (output(between="TENKEN-RANK host=z\n"), {"uses_mpi": True}, 0, "the ranks did not run on the nodes of the job"),
    (output(between="TENKEN-RANK host=n1\n" * 2), {"uses_mpi": True}, 0, None),
    (output(between="TENKEN-RANK host=n1\n" * 3), {"uses_mpi": True}, 0, "3 ranks reported their host name"),
    (output(3, between="TENKEN-RANK host=z\n"), {"uses_mpi": True, "exit_code": 3}, 3, None),
    (output(between="TENKEN-RANK host=z\n"), {}, 0, None),
    ("TENKEN-NOSTAGE node=n1\n", {"facts": {"unseen": "no such folder"}, "known": ("n1", "n2")}, None,
     "node n1 does not see "),
])  # fmt: skip
def test_what_voids_a_job_is_told_with_its_status(
    tmp_path: Path, text: str, also: Any, status: Any, says: str | None
) -> None:
    error = also.pop("error", "")
    found = job(tmp_path, text, error, **also).exit_status(2)
    assert found[0] == status and (found[1] is None if says is None else says in str(found[1])), found


@pytest.mark.parametrize(("facts", "known", "text", "says"), [
    ({"unseen": "EIO"}, ("n1",), "", "node n1 does not see {}: EIO"),
    ({"unseen": "EIO"}, ("n1", "n2"), "", "node n1 does not see {}: EIO"),
    ({"unseen": "EIO"}, (), "", "its node does not see {}: EIO"), ({}, ("n1",), "", None),
    ({"unseen": "EIO"}, ("n1",), output(), None),
    ({"unseen": "EIO"}, ("n1",), BEGIN.format(nodes="n1"), None),
])  # fmt: skip
def test_a_stage_folder_that_a_node_does_not_see_is_told(
    tmp_path: Path, facts: Any, known: Any, text: str, says: Any
) -> None:
    assert job(tmp_path, text, facts=facts, known=known).unseen == (says and says.format(tmp_path))


@pytest.mark.parametrize(("text", "known", "place", "nodes", "where"), [
    (output(nodes="n2.site,n1,n2"), ("n9",), "any node", ("n2", "n1"), "n2,n1"),
    ("", ("n9.site",), "any node", ("n9",), "n9"),
    ("", (), "partition gpu", (), "partition gpu"),
])  # fmt: skip
def test_nodes_are_those_that_the_job_printed(
    tmp_path: Path, text: str, known: Any, place: str, nodes: Any, where: str
) -> None:
    one = job(tmp_path, text, known=known, place=place)
    assert (one.nodes, one.where) == (nodes, where)


def test_a_large_output_is_read_at_its_ends_and_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OUTPUT", 10)
    monkeypatch.setattr(module, "PART", 3)
    assert job(tmp_path, "0123456789").text() == "0123456789" and job(tmp_path, "0123456789").too_large() is None
    large = job(tmp_path, "0123456789a", "error")
    assert large.text() == "012\n89a" and large.text("stderr") == "error"
    assert large.too_large() == "the job's output has 11 bytes; at most 10 are read"
    missing = Outcome(tmp_path, "none", "none", "t", False)
    assert missing.text() == "" and missing.too_large() is None
    assert job(tmp_path, "a\rb").text() == "a\nb"


@pytest.mark.parametrize(("again", "facts", "also", "found"), [
    ("", {}, {}, {}), ("", {}, {"may_run_again": True}, {"may_run_again": True}),
    ("", {"run_count": 2}, {}, {"began_on": "n1"}),
    ("", {"run_count": "1"}, {}, {}),
    (BEGIN.format(nodes="n0").replace("n1", "n0"), {}, {}, {"attempts": 2, "began_on": "n0, then n1"}),
    ("", {}, {"pinned": ("n1.site",)}, {}),
    ("", {}, {"pinned": ("n3", "n1", "n2")}, {"moved": "ran on n1 and not on n2, n3, which it was made for"}),
])  # fmt: skip
def test_a_record_has_what_the_job_shows_beyond_its_scheduler(
    tmp_path: Path, again: str, facts: Any, also: Any, found: Any
) -> None:
    assert job(tmp_path, again + output(), facts=facts, **also).own_facts() == found


def test_a_job_on_other_nodes_is_no_evidence_about_them(tmp_path: Path) -> None:
    (moved,) = job(tmp_path, output(), pinned=("n7",)).disturbance()
    assert (moved.verdict, moved.node) == ("INVALID", "n7") and "ran on n1 and not on n7" in moved.message
    assert job(tmp_path, output(), pinned=("n1",)).disturbance() == []
    (note,) = job(tmp_path, output(), facts={"clock": "an hour off"}).disturbance()
    assert (note.verdict, note.message) == ("RECORDED", "n1: an hour off")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(("sealed", "found"), [
    ("", {"unsealed": "the end mark has no digest"}),
    (f" sha256=a:{digest('x')},b:none", {"sha256": {"a": digest("x")}}),
    (" sha256=a:unknown", {"unsealed": "no program of the node computes SHA-256"}),
    (" sha256=a:none", {"unsealed": "the end mark has no digest"}),
])  # fmt: skip
def test_digests_are_those_of_files_that_existed(tmp_path: Path, sealed: str, found: Any) -> None:
    assert job(tmp_path, output(sealed=sealed)).digests() == found


def test_files_are_captured_up_to_a_size_and_if_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OUTPUT", 5)
    for name, text in (("five", "12345"), ("six", "123456"), ("changed", "1"), ("result.json", "{}")):
        (tmp_path / name).write_text(text)
    now = {"five": "12345", "six": "123456", "changed": "2", "result.json": "{}", "gone": ""}
    facts = {"sha256": {name: digest(text) for name, text in now.items()}}
    assert captured(tmp_path, facts) == {"five": b"12345"} and captured(tmp_path, {}) == {}


@pytest.mark.parametrize(("options", "nodes"), [
    (["--nodelist=n[1-2],n5"], ("n1", "n2", "n5")), (["-w n1.site"], ("n1",)), (["-w n1", "--nodelist n2"], ("n2",)),
    (["-w n1", "--time=5"], ("n1",)), (["-l select=1:host=n3+1:vnode=n4"], ("n3", "n4")), (["-l h=n5"], ("n5",)),
    (["-l h=n*"], ()), (["-l host=n[1-2]"], ()), ([], ()), (["--xhosts=n1"], ()),
])  # fmt: skip
def test_nodes_are_requested_by_options_the_last_of_which_counts(options: list[str], nodes: tuple[str, ...]) -> None:
    assert module._asked(options) == nodes
    one: Any = SimpleNamespace(pin_nodes=(), sched_access=options, options=[], cli_options=[], nodelist=None)
    assert module.requested_nodes(one, ()) == nodes and module.requested_nodes(one, ("p.site",)) == ("p",)
    pinned: Any = SimpleNamespace(**{**vars(one), "pin_nodes": ["q.site"]})
    assert module.requested_nodes(pinned, ("p",)) == ("q",)
    slurm: Any = SimpleNamespace(scheduler=SimpleNamespace(registered_name="slurm"), access=options)
    assert module.known_nodes(None, (), slurm) == nodes and module.known_nodes(None, ("p",), slurm) == ("p",)
    assert module.known_nodes(one, (), slurm) == nodes
    ran: Any = SimpleNamespace(**{**vars(one), "nodelist": ["n8.site", "n9"]})
    assert module.known_nodes(ran, ("p",), slurm) == ("n8", "n9")


REQUEST = Request("t", "daxpy", "Daxpy", ("host",))


@pytest.mark.parametrize(("text", "also", "expected", "says"), [
    (output(1), {"exit_code": 1}, "FAIL", "daxpy exited with 1: "),
    (BEGIN, {}, "FAIL", "the job did not run to its end"),
    (BEGIN, {"facts": {"lost": "the node failed"}}, "INVALID", "the node failed"),
    (output(), {}, "FAIL", "daxpy exited with 0: "),
    (BEGIN, {"facts": {"clock": "an hour off"}}, "FAIL", "; an hour off"),
])  # fmt: skip
def test_a_job_without_a_result_fails_unless_its_scheduler_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, also: Any, expected: str, says: str
) -> None:
    monkeypatch.setattr(module.job_exit, "lost", lambda facts: facts.get("lost"))
    one = job(tmp_path, text.format(nodes="n1"), **also)
    judgement, result, error, raw = one.judgement(REQUEST, Machine())
    assert (judgement.verdict, result, raw) == (expected, None, "") and error and says in judgement.message()
    assert all(finding.node == "n1" for finding in judgement.findings)


def test_a_result_that_cannot_be_read_is_kept_as_text_and_a_full_disk_is_no_evidence(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "result.json").write_text("{half")
    monkeypatch.setattr(module, "_KEPT", 3)
    judgement, result, error, raw = job(tmp_path, output()).judgement(REQUEST, Machine())
    assert (judgement.verdict, result, raw) == ("FAIL", None, "{ha") and error
    monkeypatch.setattr(module.disk, "room", lambda folder: "; 0 bytes are left")
    judgement, *_ = job(tmp_path, output()).judgement(REQUEST, Machine())
    assert judgement.verdict == "INVALID" and "0 bytes are left" in judgement.message()


def test_a_tool_that_found_the_machine_shared_is_no_evidence(tmp_path: Path) -> None:
    foreign = Request("t", "daxpy", "Daxpy", ("host",), foreign=True)
    shared = output(1, between="TENKEN-LOCK shared host: 77 other\n")
    judgement, *_ = job(tmp_path, shared, exit_code=1).judgement(foreign, Machine())
    assert judgement.verdict == "INVALID" and "host shared with pid 77 (other)" in judgement.message()
    assert job(tmp_path, shared, exit_code=1).judgement(REQUEST, Machine())[0].verdict == "FAIL"
    (tmp_path / "result.json").write_text("no line of  results\n")
    for status, says in (
        (0, "n1: daxpy: no line of results"),
        (1, "n1: daxpy exited with 1: no line of results: error: x"),
    ):
        told = job(tmp_path, output(status), "error: x", exit_code=status).judgement(foreign, Machine())[0]
        assert told.verdict == "FAIL" and told.message() == says
