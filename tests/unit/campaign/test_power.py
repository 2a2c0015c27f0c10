"""The power of nodes during their checks: read from stand-in BMCs, archived by the times of the checks."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

from tenken.archive import records as archive
from tenken.archive import verify
from tenken.campaign import power, redfish
from tenken.commands import accept
from tenken.model.catalogue import load_catalogue
from tenken.report import contracts
from tests.unit.campaign.test_redfish import LOGIN, ROOT, member
from tests.unit.campaign.test_redfish import server as server  # a fixture
from tests.unit.reports import builder

SESSION = "20261121T000000Z-s"


def of_node(watts):
    return {
        "/Chassis": {"Members": [member("/Chassis/1"), member("/Chassis/2")]},
        "/Chassis/1": {"EnvironmentMetrics": member("/Chassis/1/E"), "Power": member("/Chassis/1/P")},
        "/Chassis/1/E": {"PowerWatts": {"Reading": watts}},
        "/Chassis/1/P": {"PowerControl": [{"PowerConsumedWatts": watts}]},
        "/Chassis/2": {"EnvironmentMetrics": member("/Chassis/2/E")},
        "/Chassis/2/E": {"TemperatureCelsius": {"Reading": 30}},
    }


def test_a_second_reading_asks_only_for_what_stated_the_power(server):
    server.of = of_node(9400)
    watts, places = redfish.power(redfish.Bmc(server.address, LOGIN))
    assert (watts, places) == (9400, (f"{ROOT}/Chassis/1/E", f"{ROOT}/Chassis/1/P"))
    server.seen.clear()
    server.of = of_node(9500)
    assert redfish.power(redfish.Bmc(server.address, LOGIN), places)[0] == 9500 and len(server.seen) == 2
    server.of["/Chassis/1/E"] = server.of["/Chassis/1/P"] = {}
    with pytest.raises(redfish.BmcError, match="no chassis states its power"):
        redfish.power(redfish.Bmc(server.address, LOGIN), places)


def test_nodes_are_read_until_the_end_and_a_silent_bmc_is_named_once(server, tmp_path):
    server.of = of_node(9400)
    said = []

    def connect(node):
        return redfish.Bmc(server.address if node == "n1" else "http://127.0.0.1:9", LOGIN, seconds=2)

    with power.Watch(lambda: ["n1", "n2"], connect, tmp_path / "r.jsonl", said.append, period=0.02):
        until = time.monotonic() + 10
        while len(power.series(tmp_path / "r.jsonl").get("n1", ())) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    found = power.series(tmp_path / "r.jsonl")
    assert list(found) == ["n1"] and {watts for _, watts in found["n1"]} == {9400.0}
    assert len(said) == 1 and said[0].startswith("the power of nodes is not read: n2: no answer")
    full = power.Watch(list, connect, tmp_path, said.append)
    for _ in range(2):
        full._note(["a line"])
    assert said[1:] == [f"the power of nodes is not read: {tmp_path}: Is a directory"]


def test_a_reading_belongs_to_each_check_that_ran_on_its_node_then(monkeypatch):
    monkeypatch.setattr(power, "_record", lambda node, last, checks: (node, checks))

    def ran(check, moments, *nodes, by="n1"):
        return SimpleNamespace(base_check=check, nodes=nodes, result=SimpleNamespace(node=by, moments=moments))

    kept = [
        SimpleNamespace(nodes=("n1",), result=None), ran("B", (10, 20)), ran("A", (20, 30), "n1", by="n1.site"),
        ran("C", (None, 20), "n1", by="n1.site"), ran("D", (10, None), "n1", by="n1.site"), ran("E", (5, 35), "n4"),
        ran("F", (10, 15), "n2", by="n2.site"), ran("F", (25, 35), "n2", "n3"),
    ]  # fmt: skip
    read = {node: [(at, float(at)) for at in range(5, 40, 5)] for node in ("n1", "n2", "n4")} | {"n3": [(25, 1.0)] * 2}
    assert list(power._of_session(kept, read, {"n4"})) == [
        ("n1.site", {"B": [10, 15, 20], "A": [20, 25, 30]}), ("n2", {"F": [10, 15, 25, 30, 35]}),
    ]  # fmt: skip


def readings(file, node, watts):
    """One every ten seconds from 00:00:00 on."""
    with file.open("a") as stream:
        for i, one in enumerate(watts):
            moment = f"2026-11-21T00:{i // 6:02d}:{10 * (i % 6):02d}Z"
            stream.write(json.dumps({"time": moment, "node": node, "power_w": one}) + "\n")


def checked(root, *nodes):
    """BurnNode for a minute from 00:01:00 on, on each node."""
    made = []
    for node in nodes:
        doc = builder.document("burn", [builder.metric("clean", {"gpu": 0}, [60.0], "s")], 1,
                               started="2026-11-21T00:01:00Z")  # fmt: skip
        doc["host"] = {**doc["host"], "name": node}
        doc["finished"] = "2026-11-21T00:02:00Z"
        # what ran where it was started names no nodes
        ran = () if node == nodes[0] else (node,)
        made.append(builder.record("BurnNode", doc, nodes=ran, session=SESSION, time="2026-11-21T00:02:05Z"))
    builder.write_session(root, made, name=SESSION)


CONTRACT = """\
title: "x"
system: h200
parties: {customer: "a", supplier: "b"}
allow_unsealed: true
redfish: {address: "https://{node}-bmc"}
clauses:
  - {id: P, source: "offer", metric: bmc.power, subject: host, at: {during: BurnNode}, target: 10, unit: kW,
     rule: value, repetitions: 1}
"""


def decided(tmp_path):
    (tmp_path / "deal.yaml").write_text(CONTRACT)
    agreed = contracts.load(str(tmp_path / "deal.yaml"), load_catalogue(), ["h200"])
    root = tmp_path / "archive"
    return accept.decide(agreed, accept.files_of(root, (SESSION,)), (SESSION,))


@pytest.mark.parametrize(("loaded", "statement"), [(9800.0, "ACCEPTED"), (10200.0, "REJECTED")])
def test_what_a_node_draws_during_the_check_decides_its_clause(tmp_path, loaded, statement):
    root = tmp_path / "archive"
    checked(root, "n1", "n2.site")
    # before and after it the nodes draw more, as in another check; the BMC of n2 has the short name
    for node, peak in (("n1", 9000.0), ("n2", loaded)):
        readings(tmp_path / "r.jsonl", node, [12000.0] * 6 + [peak - i for i in range(7)] + [12000.0] * 5)
    assert power.archived(root, [SESSION], tmp_path / "r.jsonl") == 2
    assert power.archived(root, [SESSION], tmp_path / "r.jsonl") == 0, "each node once"
    found = decided(tmp_path)
    assert found.statement == statement, found.reasons
    (one,) = found.requirements
    assert one.worst.part.node == "n2" and one.clause.bound == 10000
    assert one.worst.median == pytest.approx(loaded - 0.3)  # the 95th percentile of the seven
    made = [record for record in archive.records(root, session=SESSION) if record.program == "bmc"]
    assert {record.verdict for record in made} == {"RECORDED"}, [record.findings for record in made]
    assert len(made[0].result.metrics[0].at) == 1 and made[0].result.metrics[0].count == 7
    listed = verify.check(root, (SESSION,))
    assert not [name for name in listed.unsealed if "NodePower" in name]


@pytest.mark.parametrize("watts", [
    [12000.0] * 6 + [9000.0, 9001.0],  # the readings ended: two are not enough
    [9000.0] * 18,  # a sensor whose value never changes: INVALID
    [],
])  # fmt: skip
def test_without_readings_the_clause_is_not_tested(tmp_path, watts):
    checked(tmp_path / "archive", "n1")
    readings(tmp_path / "r.jsonl", "n1", watts)
    (tmp_path / "r.jsonl").open("a").write("not a line\n{}\n[1]\n")
    assert power.archived(tmp_path / "archive", [SESSION], tmp_path / "r.jsonl") == (len(watts) > 10)
    assert decided(tmp_path).statement == "INCONCLUSIVE"
