"""Nodes of a night: those measured longest ago among the ones that take jobs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.machines import tonight
from tenken.reframe.schedulers.polling import Patient
from tests.unit.machines.test_cluster import answers, partition

SINFO = (
    "n1 idle\nn2 allocated\nn3 down*\nn4 drained\nn5 idle~\nn6 idle#\nn7 idle%\nn8 down~\nn10 mixed\nn1 idle\nbroken\n"
)
VNODES = {
    "n1[0]": {"state": "free", "resources_available": {"host": "n1"}},
    "n1[1]": {"state": "job-busy", "resources_available": {"host": "n1"}},
    "n2": {"state": "free", "resources_available": {"host": "n2", "Qlist": "other"}},
    "n3": {"state": "offline", "resources_available": {"host": "n3"}},
}


def test_nodes_that_take_jobs() -> None:
    assert tonight.nodes_of(partition(), answers(sinfo=SINFO)) == ["n1", "n2", "n5", "n6", "n10"]
    said = answers(pbsnodes=json.dumps({"nodes": VNODES}))
    assert tonight.nodes_of(partition("pbs", ("-q gpu",)), said) == ["n1"]
    queues = {"Queue": {"main": {"queue_type": "Route", "route_destinations": "gpu"},
                        "gpu": {"default_chunk": {"Qlist": "other"}}}}  # fmt: skip
    said = answers(pbsnodes=json.dumps({"nodes": VNODES}), qstat=json.dumps(queues))
    assert tonight.nodes_of(partition("pbs", ("-q main",)), said) == ["n1", "n2"]
    assert tonight.nodes_of(partition("nqsv"), said) == [] and tonight.nodes_of(partition(), answers()) == []


@pytest.mark.parametrize(("nodes", "each"), [(10, 1), (10, 3), (1120, 80)])
def test_nights_cover_a_machine_in_as_many_as_are_stated(nodes: int, each: int) -> None:
    names = [f"n{i}" for i in range(nodes)]
    measured: dict[str, str] = {}
    for night in range(-(-nodes // each)):
        measured |= dict.fromkeys(tonight.choose(names, measured, each), f"2026-01-{night:06d}")
    assert set(measured) == set(names)


def test_a_node_that_came_back_is_next_and_what_cannot_be_read_is_left_out() -> None:
    text = "2026-01-01 gpu n1\n2026-01-02 gpu n2\nbroken\n2026-01-03 cpu n3\n2026-01-04 gpu n1\n"
    measured = tonight.kept(text, "gpu")
    assert measured == {"n1": "2026-01-04", "n2": "2026-01-02"}
    assert tonight.choose(["n1", "n2", "n3"], measured, 3) == ["n3", "n2", "n1"]


def test_what_the_back_ends_are_told() -> None:
    said = {tonight.VARIABLE: "gpu=n17+n18,cpu=c3"}
    assert tonight.of_partition("gpu", said) == ["n17", "n18"] and tonight.of_partition("cpu", said) == ["c3"]
    assert tonight.of_partition("other", said) == [] and tonight.of_partition("gpu", {}) == []


class BackEnd(Patient):
    def __init__(self, nodes: list[str]) -> None:
        self.settings = {"tonight": nodes}

    def emit_preamble(self, job: Any) -> Any: ...
    def allnodes(self) -> Any: ...
    def filternodes(self, job: Any, nodes: Any) -> Any: ...
    def submit(self, job: Any) -> Any: ...


@pytest.mark.parametrize(
    ("job", "pinned"),
    [
        ({}, True), ({"token": None}, False), ({"num_tasks": 8}, False), ({"pin_nodes": ["n9"]}, False),
        ({"cli_options": ["--nodelist=n3"]}, False), ({"options": ["host=n3"]}, False), ({"options": ["-w n3"]}, False),
    ],
)  # fmt: skip
def test_a_job_that_any_node_would_do_for_gets_tonights(job: dict[str, Any], pinned: bool) -> None:
    usual = {"token": "t", "num_tasks": 4, "num_tasks_per_node": 4, "pin_nodes": [], "options": [], "cli_options": []}
    one: Any = SimpleNamespace(**{**usual, **job})
    back_end = BackEnd(["n1", "n2"])
    before = list(one.pin_nodes)
    back_end.pin_tonight(one)
    assert one.pin_nodes == (["n1"] if pinned else before)
    if pinned:
        other: Any = SimpleNamespace(**usual)
        back_end.pin_tonight(other)
        assert other.pin_nodes == ["n2"], "dealt out"
        none: Any = SimpleNamespace(**usual)
        BackEnd([]).pin_tonight(none)
        assert none.pin_nodes == []


def test_the_command_notes_what_it_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import argparse

    from tenken.machines.cli import register

    monkeypatch.setattr(tonight, "nodes_of", lambda one: ["n1", "n2"] if one.name == "gpu" else [])
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    told = []
    for _ in range(3):
        arguments = parser.parse_args(["systems", "tonight", "minislurm", "--kept", str(tmp_path / "kept")])
        assert arguments.func(arguments) == 0
        told.append(capsys.readouterr().out.strip().split(",")[0])
    assert told == ["gpu=n1", "gpu=n2", "gpu=n1"]
