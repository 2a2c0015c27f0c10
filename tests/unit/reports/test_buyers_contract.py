"""The clauses that a buyer of 64 x 8 B200 writes: each is expressed, planned and decided; every mistake has its line.

The system is drafted from what Slurm says; the checks and the runs are stand-ins.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.commands import acceptance as command
from tenken.model.catalogue import declare, load_catalogue
from tenken.report import contracts, remaining
from tenken.report.contracts import ContractError, Machine, Offered
from tests.unit.machines.test_draft import OPEN_MPI, written
from tests.unit.reports import builder
from tests.unit.reports import test_acceptance as runs

SINFO = "hgx|64|2|56|2|2048000|gpu:b200:8|4-00:00:00|up|idle\n"
A, B = ("acceptance",), ("burn-in",)
CHECKS = (
    Offered("HplNode", "HplNode", "hpl", 1, A, "", "num_nodes", ("ranks",)),
    Offered("HplBetweenNodes", "HplBetweenNodes", "hpl", 2, A, "", "num_nodes", ("ranks",)),
    Offered("Nccl", "Nccl", "nccl", 1, A, "", "num_nodes", ("ranks",)),
    Offered("NcclBetweenNodes", "NcclBetweenNodes", "nccl", 2, A, "", "num_nodes", ("ranks",)),
    Offered("Gemm %gpus_at=at_once", "Gemm", "gemm", 1, A, "", "num_nodes", ("gpu",)),
    Offered("BurnNode", "BurnNode", "burn", 1, B, "burn_seconds", "", ("gpu",)),
    Offered("BurnDetection", "BurnDetection", "burn", 1, B, "burn_seconds", "", ("gpu",), ("detected",)),
    Offered("BurnHost", "BurnHost", "burn", 1, B, "burn_seconds", "", ("host",)),
    Offered("IorBetweenNodes", "IorBetweenNodes", "ior", 2, A, "", "num_nodes", ("ranks",)),
)
HEAD = """\
title: "64 x 8 B200"
system: b200
parties: {customer: "Site", supplier: "Vendor"}
allow_unsealed: true
redfish: {address: "https://{node}-bmc"}
clauses:
"""
CLAUSES = {
    "HPL of a node": "hpl.hpl, subject: ranks, nodes: 1, over: best, target: 180, unit: TFLOP/s",
    "NVLink": 'nccl.all_reduce, subject: ranks, nodes: 1, target: 380, unit: GB/s, at: {bytes: 1073741824}',
    "NCCL over all": 'nccl.all_reduce, subject: ranks, nodes: 64, target: 300, unit: GB/s, at: {bytes: 1073741824}',
    "72 h": "burn.clean, subject: gpu, hours: 72, target: 72, unit: h, rule: value, repetitions: 1",
    "power": "bmc.power, subject: host, at: {during: BurnNode}, target: 10, unit: kW, rule: value, repetitions: 1",
    "file system": "ior.read, subject: ranks, nodes: 64, target: 500, unit: GB/s",
    "a share": "gemm.gemm, subject: gpu, share: 0.95, target: 1400, unit: TFLOP/s, at: {precision: fp16, data: random, "
    "phase: sustained}, over: best",
}  # fmt: skip


def of_ior():
    figures = {
        name: {"title": name, "unit": "GB/s", "direction": "higher", "statistic": "median", "per": ["ranks"],
               "limit": "none: x", "plot": "bars"}
        for name in ("write", "read")
    }  # fmt: skip
    return {"program": "ior", "title": "IOR", "section": "docs/foreign-programs.md", "version": 1,
            "identity": ["command"], "key": ["write"], "metrics": figures}  # fmt: skip


@pytest.fixture
def cluster(tmp_path):
    system, _ = written(tmp_path, "slurm", mpi=True, sinfo=SINFO, **OPEN_MPI)
    (partition,) = system.partitions.values()
    assert (partition.node.count, partition.node.gpu_count, partition.node.gpu.name) == (64, 8, "B200-SXM-180GB")
    # as an administrator completes it: the draft does not see links between GPUs from a login node
    return Machine(replace(system, name="b200"), CHECKS)


def load(tmp_path, cluster, *clauses, head=HEAD):
    lines = [f'  - {{id: C{i}, source: "offer", metric: {text}}}\n' for i, text in enumerate(clauses, 1)]
    (tmp_path / "deal.yaml").write_text(head + "".join(lines))

    def machine(_):
        declare(of_ior(), "check IorBetweenNodes")  # as listing the checks does
        return cluster

    return contracts.load(str(tmp_path / "deal.yaml"), load_catalogue(), ["b200"], machine=machine)


def test_all_clauses_are_one_contract_and_each_is_planned(tmp_path, cluster):
    agreed = load(tmp_path, cluster, *CLAUSES.values())
    assert len(agreed.clauses) == 7 and agreed.clauses[3].target == 259200 and agreed.clauses[4].target == 10000
    found = command.decided(agreed, tmp_path / "none", [])
    plan = remaining.batches(found, CHECKS, "acceptance")
    assert [(one.names, one.nodes, one.hours, one.mode) for one in plan] == [
        (("BurnNode",), None, None, "burn-in"),
        (("HplNode", "Nccl", "Gemm %gpus_at=at_once"), None, None, "acceptance"),
        (("NcclBetweenNodes", "IorBetweenNodes"), 64, None, "acceptance"),
        (("BurnNode",), None, 72, "burn-in"),
    ][1:]
    assert plan[-1].variables == {"BurnNode.burn_seconds": "259200"}
    assert plan[1].variables == {"NcclBetweenNodes.num_nodes": "64", "IorBetweenNodes.num_nodes": "64"}
    lacking = [remaining.lacking(found, one, ["hgx1"]) for one in plan]
    assert lacking == [{"hgx1": 6}, {"hgx1": 6}, {"hgx1": 1}]
    assert "up to 6 rounds of 1 checks of 72 h: BurnNode" in command.plan(agreed, found, CHECKS, "acceptance")


def test_pairs_of_nodes_and_their_ports_are_left_to_the_campaign(tmp_path, cluster):
    agreed = load(
        tmp_path, cluster,
        'fabric.pair_share, subject: ranks, nodes: 64, at: {kind: across}, over: worst, target: 90, unit: "%"',
        'fabric.port_errors, subject: ranks, nodes: 64, hours: 24, over: worst, target: 1, unit: "1"',
    )  # fmt: skip
    assert agreed.clauses[0].target == pytest.approx(0.9) and agreed.clauses[1].hours == 24
    found = command.decided(agreed, tmp_path / "none", [])
    assert remaining.batches(found, CHECKS, "acceptance") == []
    assert "C2 (6 more, by `tenken campaign pairs`)" in remaining.progress(found)


@pytest.mark.parametrize(("check", "said"), [
    ("", "no check of this system measures ior.read; a check in your own folder is read with --checks checks FOLDER"),
    (", check: Mine", "'Mine' is not a check of this system and mode; none measures ior.read; a check in your own"),
])  # fmt: skip
def test_the_check_of_a_third_party_program_may_be_in_a_folder_that_was_not_read(tmp_path, cluster, check, said):
    without = replace(cluster, checks=tuple(one for one in CHECKS if one.program != "ior"))
    with pytest.raises(ContractError) as error:
        load(tmp_path, without, CLAUSES["file system"] + check)
    assert said in str(error.value)


@pytest.mark.parametrize(("clause", "said"), [
    ("hpl.hpl, subject: ranks, nodes: 1, over: best, target: 350, unit: TFLOP/s",
     "clause 1 (C1): 350 TFLOP/s is above the physical limit, 296 TFLOP/s (8 x 37 TFLOP/s, data sheet: fp64, B200"),
    ("hpl.hpl, subject: ranks, nodes: 128, over: best, target: 9000, unit: TFLOP/s",
     "128 nodes together; there are 64"),
    ("hpl.hpl, subject: ranks, over: best, target: 180, unit: TFLOP/s, check: NoSuchCheck",
     "'NoSuchCheck' is not a check of this system and mode; allowed: HplBetweenNodes, HplNode"),
    ("nccl.all_reduce, subject: ranks, target: 380, unit: GB/s",
     "clause 1 (C1): nccl.all_reduce has several values of bytes; state which counts: 'at: {bytes: ...}', 'over: w"),
    ("nccl.all_reduce, subject: ranks, nodes: 64, target: 380, unit: GB/s, over: best, check: Nccl",
     "Nccl run on one node each, not on 64 together"),
    ("nccl.all_reduce, subject: ranks, nodes: 1, target: 380, unit: GB/s, over: best, check: NcclBetweenNodes",
     "NcclBetweenNodes run on 2 nodes or more, not on one"),
    ("nccl.all_reduce, subject: ranks, target: 380, unit: GB/s, over: best, at: {size: 4}",
     "nccl.all_reduce has no 'size'; allowed: bytes"),
    ("burn.clean, subject: gpu, target: 72, unit: h, rule: value, repetitions: 1",
     "259200 s are longer than the run; set 'hours' to at least 72"),
    ("burn.clean, subject: gpu, hours: 24, target: 72, unit: h, rule: value, repetitions: 1",
     "259200 s are longer than the run; set 'hours' to at least 72"),
    ("burn.clean, subject: gpu, hours: 200, target: 72, unit: h", "'hours' is 200; it must be at most 168"),
    ("gemm.gemm, subject: gpu, hours: 72, target: 1400, unit: TFLOP/s, over: best",
     "'gemm' takes no requested time; 'hours' is for burn"),
    ("bmc.power, subject: host, target: 10, unit: kW, at: {during: HplNod}",
     "state the check that loads the node, 'at: {during: CHECK}'; did you mean 'HplNode'?"),
    ("bmc.power, subject: host, target: 10, unit: kW, over: worst", "'at: {during: CHECK}'; such as BurnNode"),
    ("bmc.power, subject: gpu, target: 1, unit: kW, at: {during: HplNode}", "wrong subject 'gpu'"),
    ("bmc.power, subject: host, target: 10, unit: TFLOP/s, at: {during: HplNode}", "wrong unit 'TFLOP/s'"),
    ("ior.read, subject: ranks, nodes: 65, target: 500, unit: GB/s", "65 nodes together; there are 64"),
    ("ior.open, subject: ranks, nodes: 64, target: 500, unit: GB/s", "unknown metric 'open' of program 'ior'"),
    ("gemm.gemm, subject: gpu, share: 95, target: 1400, unit: TFLOP/s, over: best",
     "'share' is 95; it must be at most 1"),
    ("gemm.gemm, subject: gpu, target: 3000, unit: TFLOP/s, at: {precision: fp16}, over: best",
     "3000 TFLOP/s is above the physical limit, 2250 TFLOP/s"),
])  # fmt: skip
def test_every_mistake_has_its_line(tmp_path, cluster, clause, said):
    with pytest.raises(ContractError) as error:
        load(tmp_path, cluster, clause)
    message = str(error.value)
    assert len(message.splitlines()) == 1 and "deal.yaml:7: " in message and "clause 1 (C1)" in message
    assert said in message


@pytest.mark.parametrize(("head", "clause", "said"), [
    (HEAD.replace('redfish: {address: "https://{node}-bmc"}\n', ""), CLAUSES["power"],
     "deal.yaml:6: clause 1 (C1): is read from the BMC of each node; set 'redfish: {address: ...}' of the contract"),
    (HEAD.replace("https://", "http://"), CLAUSES["power"], "deal.yaml:5: 'redfish.address' would send the password"),
    (HEAD.replace("allow_unsealed: true", "modes: [acceptance]"), CLAUSES["72 h"],
     "deal.yaml:7: clause 1 (C1): BurnDetection, BurnHost, BurnNode run in mode burn-in, which 'modes' does not list"),
])  # fmt: skip
def test_what_the_contract_must_say_besides(tmp_path, cluster, head, clause, said):
    with pytest.raises(ContractError) as error:
        load(tmp_path, cluster, clause, head=head)
    assert said in str(error.value)


# ---- decided ---------------------------------------------------------------------------------------------


def decided(tmp_path, cluster, clause, records):
    root = runs.store(tmp_path / "archive", records)
    sessions = tuple(dict.fromkeys(one["session"] for one in records))
    agreed = load(tmp_path, cluster, clause)
    return command.accept.decide(agreed, command.accept.files_of(root, sessions), sessions)


def burned(node, asked, clean, run=0, **changes):
    """A burn-in of `asked` seconds, without a wrong bit for `clean`."""
    metrics = [builder.metric("clean", {"gpu": g}, [clean], "s") for g in range(8)]
    doc = builder.document("burn", metrics, 8, started=f"2026-11-21T{run:02d}:00:01Z")
    doc["host"] = {**doc["host"], "name": node}
    doc["parameters"] = {**doc["parameters"], "seconds": asked}
    return builder.record("BurnNode", doc, nodes=(node,), system="b200", partition="hgx", session="S1",
                          time=f"2026-11-21T{run:02d}:00:10Z", **changes)  # fmt: skip


@pytest.mark.parametrize(("asked", "clean", "statement"), [
    (259200, 259204.0, "ACCEPTED"),
    (259200, 100000.0, "REJECTED"),
    # a shorter burn-in is no evidence
    (600, 604.0, "INCONCLUSIVE"),
])  # fmt: skip
def test_only_a_burn_in_of_all_its_hours_counts(tmp_path, cluster, asked, clean, statement):
    found = decided(tmp_path, cluster, CLAUSES["72 h"], [burned(f"hgx{i}", asked, clean, i) for i in range(2)])
    assert found.statement == statement, found.reasons


def rates(slow):
    at = {"precision": "fp16", "data": "random", "phase": "sustained"}
    for run in range(6):
        for number in range(8):
            values = [1300.0 if number * 8 + g < slow else 1500.0 + run for g in range(8)]
            metrics = [builder.metric("gemm", {"gpu": g}, [v] * 5, "TFLOP/s", at=at) for g, v in enumerate(values)]
            doc = builder.document("gemm", metrics, 8, started=f"2026-11-21T{run:02d}:{number:02d}:01Z")
            doc["host"] = {**doc["host"], "name": f"hgx{number}"}
            doc["devices"] = [{**one, "uuid": f"GPU-{number}-{one['index']}"} for one in doc["devices"]]
            moment = f"2026-11-21T{run:02d}:{number:02d}:10Z"
            yield builder.record("Gemm %gpus_at=at_once", doc, nodes=(f"hgx{number}",), system="b200",
                                 partition="hgx", session=f"S{run}", time=moment)  # fmt: skip


@pytest.mark.parametrize(("slow", "statement"), [(3, "ACCEPTED"), (4, "REJECTED")])
def test_of_a_share_of_the_devices_the_rest_may_miss(tmp_path, cluster, slow, statement):
    """64 GPUs: 95 % are 61, so that three may be slower."""
    found = decided(tmp_path, cluster, CLAUSES["a share"], list(rates(slow)))
    assert found.statement == statement, found.reasons
    assert f"met on {64 - slow} of 64 devices, needed on 61" in found.requirements[0].why


def together(nodes, value, run):
    metrics = [builder.metric("all_reduce", {"ranks": 8 * nodes}, [value] * 9, at={"bytes": 2**30})]
    doc = builder.document("nccl", metrics, 1, started=f"2026-11-21T{run:02d}:00:01Z")
    doc["placement"] = {**doc["placement"], "ranks": 8 * nodes, "nodes": [f"hgx{i}" for i in range(nodes)]}
    return builder.record("NcclBetweenNodes", doc, nodes=tuple(f"hgx{i}" for i in range(nodes)), system="b200",
                          partition="hgx", session=f"S{run}", time=f"2026-11-21T{run:02d}:00:10Z")  # fmt: skip


@pytest.mark.parametrize(("nodes", "value", "statement"), [
    (64, 320.0, "ACCEPTED"), (64, 290.0, "REJECTED"), (2, 320.0, "INCONCLUSIVE"),
])  # fmt: skip
def test_over_all_nodes_means_all_nodes(tmp_path, cluster, nodes, value, statement):
    found = decided(tmp_path, cluster, CLAUSES["NCCL over all"], [together(nodes, value + i, i) for i in range(6)])
    assert found.statement == statement, found.reasons
