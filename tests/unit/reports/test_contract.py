"""Contracts: errors are reported by line with the likely intention; drafts are right."""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenken.commands import contract as command
from tenken.errors import TenkenError
from tenken.machines import loader
from tenken.model.catalogue import load_catalogue
from tenken.report import contracts
from tenken.report.contracts import ContractError
from tests.support import kept

GOOD = """\
title: "Two nodes"
system: h200
parties: {customer: "Site", supplier: "Vendor"}
repetitions: 6
share: 0.99
scope:
  nodes: 2
  delivered:
    - {uuid: GPU-1, serial: "165", node: n1, slot: "00000000:01:00.0"}
clauses:
  - id: M1
    metric: stream.triad
    subject: gpu
    target: 4000
    tolerance: 0.01
    unit: GB/s
    source: "offer of 2026-11-01"
  - id: L1
    metric: transfer.htod_latency
    subject: gpu
    target: 10
    unit: us
    rule: value
    repetitions: 1
    share: 1
    severity: minor
    source: "offer"
exclusions:
  - {id: E1, clause: M1, uuid: GPU-1, reason: "replaced", agreed: 2026-11-20}
punch_list:
  - {id: P1, what: "rack door", status: open, due: 2026-12-01}
stability: {hours: 72, least: 0.9}
"""


def load(tmp_path, text):
    (tmp_path / "c.yaml").write_text(text)
    return contracts.load("c", load_catalogue(), ["h200", "miyabi"], tmp_path)


def test_a_right_one_is_typed(tmp_path):
    contract = load(tmp_path, GOOD)
    m1, l1 = contract.clauses
    assert (m1.repetitions, m1.share, m1.rule, m1.direction, m1.statistic) == (6, 0.99, "interval", "higher", "median")
    assert m1.bound == pytest.approx(3960)
    assert m1.rule_in_words(0.95) == "lower end of the 95 % interval ≥ bound on at least 99 % of the devices"
    assert (l1.repetitions, l1.share, l1.severity, l1.direction) == (1, 1, "minor", "lower")
    assert l1.rule_in_words(0.95) == "median over the runs ≤ bound on every device"
    assert contract.delivered[0].serial == "165"
    assert contract.punch_list[0].open
    assert contract.stability is not None and contract.stability.hours == 72


FULL = """\
title: "T"
system: h200
parties: {customer: "C", supplier: "S"}
lot: L
date: 2026-11-01
modes: [quick, acceptance]
confidence: 0.9
repetitions: 7
rule: value
share: 0.8
retests: 3
allow_unsealed: true
redfish: {address: "https://{node}-bmc", verify: false}
scope: {nodes: 2, gpus_per_node: 4, delivered: [{uuid: U1, serial: s, node: n, slot: x}, {uuid: U2}]}
clauses:
  - {id: A, metric: gemm.gemm, subject: gpu, target: 50, unit: TFLOP/s, source: "o"}
  - {id: B, metric: gemm.gemm, subject: gpu, target: 2, unit: PFLOP/s, source: "p", text: "t", check: K, environ: e,
     partition: g, at: {precision: fp16}, over: best, nodes: 2, statistic: best, tolerance: 0.1, direction: higher,
     rule: interval, share: 0.7, repetitions: 5, retests: 1, severity: minor}
exclusions:
  - {id: E1, clause: A, node: n, uuid: U1, session: S1, reason: "r", agreed: 2026-11-20}
punch_list: [{id: P1, what: "w", status: open, due: 2026-12-01}, {id: P2, what: "v", status: closed}]
replaced: [{uuid: U1, by: U3, why: "dead", item: P1}, {uuid: U2, by: U4, why: "dead"}]
stability: {hours: 5, least: 0.9}
"""


def test_every_key_is_one_field_and_has_one_default(tmp_path):
    shared = {"rule": "value", "share": 0.8, "repetitions": 7, "retests": 3}
    one = contracts.Clause("A", "gemm", "gemm", "gpu", 50.0, "TFLOP/s", "higher", "median", "o", **shared)
    whole = contracts.Clause(
        "B", "gemm", "gemm", "gpu", 2000.0, "TFLOP/s", "higher", "best", "p", text="t", check="K", environ="e",
        partition="g", at={"precision": "fp16"}, over="best", nodes=2, tolerance=0.1, rule="interval", share=0.7,
        repetitions=5, retests=1, severity="minor",
    )  # fmt: skip
    full = contracts.Contract(
        "c", "T", "h200", "C", "S", (one, whole), lot="L", date="2026-11-01", modes=("quick", "acceptance"),
        confidence=0.9, nodes=2, gpus_per_node=4, text=FULL,
        delivered=(contracts.Delivered("U1", "s", "n", "x"), contracts.Delivered("U2")),
        exclusions=(contracts.Exclusion("E1", "r", "2026-11-20", "A", "n", "U1", "S1"),),
        punch_list=(contracts.Item("P1", "w", True, "2026-12-01"), contracts.Item("P2", "v", False)),
        replaced=(contracts.Replaced("U1", "U3", "dead", "P1"), contracts.Replaced("U2", "U4", "dead")),
        stability=contracts.Stability(5.0, 0.9), redfish={"address": "https://{node}-bmc", "verify": False},
        allow_unsealed=True,
    )  # fmt: skip
    assert load(tmp_path, FULL) == full
    least = FULL[: FULL.index("lot:")] + FULL[FULL.index("clauses:") : FULL.index("  - {id: B")]
    alone = replace(one, rule="interval", share=1.0, repetitions=6, retests=None)
    assert load(tmp_path, least) == contracts.Contract("c", "T", "h200", "C", "S", (alone,), text=least)


def at_point(target, at):
    return contracts.Drafted("p.m", "gpu", target, "GB/s", "", "", at=(("n", at),))


@pytest.mark.parametrize(("targets", "points", "direction", "made"), [
    ([98.1, 100], 2, "higher", [98.1]), ([98.1, 100], 2, "lower", [100]), ([98, 100], 2, "higher", [98, 100]),
    ([99, 100], 3, "higher", [99, 100]), ([100], 1, "higher", [100]), ([100, 98], 2, "lower", [100, 98]),
])  # fmt: skip
def test_targets_within_two_percent_at_all_points_are_one_clause_on_the_worst(targets, points, direction, made):
    group = [at_point(target, at) for at, target in enumerate(targets)]
    found = contracts._as_one(group[::-1], points, direction)
    assert [one.target for one in found] == made
    assert [one.at for one in found] == ([()] if len(made) < len(targets) else [one.at for one in group])
    other = [replace(group[0], statistic="best"), *group[1:]]
    assert len(contracts._as_one(other, points, direction)) == len(targets)


@pytest.mark.parametrize(("partition", "nodes"), [(None, 5), ("a", 2), ("b", 3), ("c", 0)])
def test_the_nodes_of_a_partition_or_of_all(partition, nodes):
    parts = {name: SimpleNamespace(name=name, node=SimpleNamespace(count=n)) for name, n in (("a", 2), ("b", 3))}
    assert contracts._nodes_of(SimpleNamespace(partitions=parts), partition) == nodes
    parts["b"].node.count = None
    unknown = {"a": 2, "c": 0}.get(partition)
    assert contracts._nodes_of(SimpleNamespace(partitions=parts), partition) == unknown


@pytest.mark.parametrize(("partition", "limit"), [(None, 4800), ("a", 3350), ("b", 4800), ("c", 2039)])
def test_the_limit_of_a_clause_is_the_highest_of_its_partitions_if_each_is_known(partition, limit):
    (one,) = loader.load("h200").expand({}, strict=False).partitions.values()
    sheets = {name: replace(one.node.gpu, memory_gbs=gbs) for name, gbs in {"a": 3350, "b": 4800, "c": 2039}.items()}
    parts = {name: replace(one, name=name, node=replace(one.node, gpu=sheets.get(name))) for name in "abcd"}
    triad, clause = load_catalogue()["stream"].metrics["triad"], {"subject": "gpu"}
    system = SimpleNamespace(partitions={name: parts[name] for name in "abc"})
    assert contracts.physical(system, partition, triad, clause).value == limit
    found = contracts.physical(SimpleNamespace(partitions=parts), partition, triad, clause)
    assert (found and found.value) == (limit if partition else None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("punch_list:", "replaced:\n  - {uuid: A, by: B, why: x}\n  - {uuid: A, by: C, why: x}\npunch_list:",
         "GPU 'A' is replaced twice, or by itself"),
        ("system: h200", "system: h20", "c.yaml:2: unknown system 'h20'; did you mean 'h200'?"),
        ("stream.triad", "strem.triad", "c.yaml:12: unknown program 'strem' in clause 1 (M1); did you mean 'stream'?"),
        ("stream.triad", "stream.tried", "did you mean 'triad'?"),
        ("subject: gpu", "subject: pair", "wrong subject 'pair' in clause 1 (M1)"),
        ("unit: GB/s", "unit: GiB", "c.yaml:16: wrong unit 'GiB' in clause 1 (M1); allowed: GB/s, or with a prefix"),
        ("tolerance: 0.01", "tolerance: 2", "c.yaml:15: clause 1 (M1), 'tolerance' is 2; it must be at most 0.5"),
        ("tolerance: 0.01", "tolerence: 0.01", "unknown key 'tolerence' in clause 1 (M1); did you mean 'tolerance'?"),
        ("target: 4000", "target: -1", "it must be more than 0"),
        ("target: 4000", 'target: "4 TB/s"', "clause 1 (M1), 'target' must be a number, not '4 TB/s'"),
        ("id: L1", "id: M1", "id 'M1' is listed twice in 'clauses'"),
        ("    rule: value\n", "", "clause 2 (L1) decides by the interval of 1 run"),
        ("rule: value", "rule: mean", "clause 2 (L1), 'rule' cannot be 'mean'; allowed: interval, value"),
        ("clause: M1, uuid: GPU-1", "clause: M11", "unknown clause 'M11' in exclusion 1 (E1); did you mean 'M1'?"),
        ("clause: M1, uuid: GPU-1, ", "", "exclusion 1 (E1) specifies nothing"),
        ("severity: minor", "direction: higher", "wrong direction 'higher' in clause 2 (L1)"),
        ("share: 0.99", "share: 99", "it must be at most 1"),
        ("agreed: 2026-11-20", "agreed: soon", "a date like 2026-11-22"),
        ("title:", "title: x\ntitle:", "duplicate key 'title'"),
        ("parties: {customer", "parties: [customer", "is not valid YAML"),
        ("severity: minor", "hours: 2", "'transfer' takes no requested time; 'hours' is for "),
        ("punch_list:", "replaced:\n  - {uuid: GPU-1, by: GPU-2, item: P2, why: x}\npunch_list:",
         "unknown item 'P2' of the punch list; allowed: P1"),
        ("punch_list:", "replaced:\n  - {uuid: GPU-1, by: GPU-1, why: x}\npunch_list:",
         "GPU 'GPU-1' is replaced twice, or by itself"),
        ('    - {uuid: GPU-1', '    - {uuid: GPU-1}\n    - {uuid: GPU-1', "delivered twice"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_refused_by_line(tmp_path, old, new, said):
    assert old in GOOD
    with pytest.raises(ContractError) as error:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert said in str(error.value)
    assert "c.yaml:" in str(error.value)


CHECKS = (
    contracts.Offered("Nccl", "Nccl", "nccl"),
    contracts.Offered("NcclBetweenNodes", "NcclBetweenNodes", "nccl", 2),
    contracts.Offered("HplNode", "HplNode", "hpl"),
    contracts.Offered("Gemm %gpus_at=one_by_one", "Gemm", "gemm"),
    contracts.Offered("StreamCuda %gpus_at=one_by_one", "StreamCuda", "stream"),
)


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("nccl.all_reduce, subject: ranks, target: 380, unit: GB/s, at: {bytes: 1073741824}", None),
        ("nccl.all_reduce, subject: ranks, target: 380, unit: GB/s, over: best", None),
        ("hpl.hpl, subject: ranks, target: 0.2, unit: PFLOP/s, over: best", None),
        ("hpl.hpl, subject: gpu, target: 68, unit: TFLOP/s, over: best", "above the physical limit, 67 TFLOP/s"),
        ("gemm.gemm, subject: gpu, target: 1000, unit: TFLOP/s, at: {precision: fp16}, over: best",
         "above the physical limit, 989 TFLOP/s (data sheet: fp16,"),
        ("gemm.gemm, subject: gpu, target: 1000, unit: TFLOP/s, at: {precision: fp8}, over: best", None),
        ("stream.triad, subject: gpu, target: 4.9, unit: TB/s", "4900 GB/s is above the physical limit, 4800 GB/s"),
        ("stream.triad, subject: gpu, target: 4, unit: TB/s, check: StreamCuda", None),
        ("stream.triad, subject: gpu, target: 4, unit: TB/s, check: Nccl",
         "check 'Nccl' is of program 'nccl' and does not measure stream.triad"),
        ("himeno.iteration, subject: gpu, target: 4, unit: TFLOP/s, over: worst",
         "no check of this system measures himeno.iteration"),
    ],
)  # fmt: skip
def test_a_clause_that_no_run_could_decide_rightly_is_refused(tmp_path, clause, said):
    """A sweep without its size, more than the machine can do, nodes and checks that nothing measures."""
    described = loader.load("h200").expand({}, strict=False)
    node = replace(next(iter(described.partitions.values())).node, gpu_count=4)
    partitions = {"gpu": replace(next(iter(described.partitions.values())), node=node)}
    machine = contracts.Machine(replace(described, partitions=partitions), CHECKS)
    (tmp_path / "c.yaml").write_text(
        'title: "x"\nsystem: h200\nparties: {customer: "a", supplier: "b"}\n'
        f'clauses:\n  - {{id: C, source: "offer", metric: {clause}}}\n'
    )
    if said is None:
        assert contracts.load("c", load_catalogue(), ["h200"], tmp_path, lambda _: machine)
        return
    with pytest.raises(ContractError) as error:
        contracts.load("c", load_catalogue(), ["h200"], tmp_path, lambda _: machine)
    assert said in str(error.value)


def test_more_nodes_than_there_are_cannot_be_delivered(tmp_path):
    machine = contracts.Machine(loader.load("miyabi").expand({}, strict=False))
    (tmp_path / "c.yaml").write_text(
        GOOD.replace("system: h200", "system: miyabi").replace("nodes: 2", "nodes: 2000")
        .replace("target: 4000", "target: 3000").replace("    metric: transfer.htod_latency\n",
                                                       "    metric: transfer.htod_latency\n    over: worst\n")
    )  # fmt: skip
    with pytest.raises(ContractError, match=r"c.yaml:7: 2000 nodes are delivered; system 'miyabi' has \d+"):
        contracts.load("c", load_catalogue(), ["miyabi"], tmp_path, lambda _: machine)


def test_every_fault_has_a_line_of_its_own(tmp_path):
    with pytest.raises(ContractError) as error:
        load(tmp_path, GOOD.replace("stream.triad", "stream.tried").replace("unit: us", "unit: GB"))
    assert len(str(error.value).splitlines()) == 2


def test_an_unknown_name_lists_those_that_are_there(tmp_path):
    (tmp_path / "h200-node.yaml").write_text(GOOD)
    with pytest.raises(ContractError, match=r"did you mean 'h200-node'\?"):
        contracts.load("h200node", load_catalogue(), ["h200"], tmp_path)


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    options = parser.parse_args(["contract", *map(str, arguments)])
    return options.func(options)


@pytest.mark.parametrize("system", [s for s in loader.names() if s not in ("minislurm",)])
def test_a_draft_is_valid_and_every_target_has_its_source(tmp_path, system):
    described = loader.load(system).expand({}, strict=False)
    try:
        text = contracts.draft(described, load_catalogue())
    except ContractError as error:
        assert "nothing to draft" in str(error)
        assert not described.references
        return
    (tmp_path / "d.yaml").write_text(text)
    contract = contracts.load("d", load_catalogue(), loader.names(), tmp_path)
    assert all(c.source.startswith("reference: ") or "data sheet" in c.source for c in contract.clauses)
    # a target is the reference's own bound, or the catalogue's share of the sheet
    for clause in contract.clauses:
        if clause.source.startswith("reference: "):
            bounds = {b for r in described.references if r.metric == clause.metric for b in r.bounds if b is not None}
            assert any(clause.target == pytest.approx(b, rel=1e-5) for b in bounds)


def test_a_draft_of_a_cluster_has_what_buyers_agree_on(tmp_path):
    """GEMM, HPL on a node and on all, NCCL, MPI and power, not memory alone; all below the physical limits."""
    described = loader.load("alps").expand({}, strict=False)
    (tmp_path / "d.yaml").write_text(contracts.draft(described, load_catalogue()))
    found = contracts.load("d", load_catalogue(), loader.names(), tmp_path, lambda _: contracts.Machine(described))
    clauses = {(c.program, c.metric, c.subject, c.nodes): c for c in found.clauses}
    nodes = described.partition("gpu").node.count
    assert clauses["hpl", "hpl", "ranks", None].target == pytest.approx(0.6 * 0.725 * 4 * 67)
    assert clauses["hpl", "hpl", "ranks", nodes].target == pytest.approx(0.6 * 0.725 * 4 * 67 * nodes, rel=1e-5)
    assert clauses["nccl", "all_reduce", "ranks", None].target == pytest.approx(0.5 * 150)
    assert ("mpi_p2p", "bandwidth", "ranks", None) in clauses and ("stream", "triad", "gpu", None) in clauses
    precisions = {c.at["precision"]: c.target for c in found.clauses if c.program == "gemm"}
    assert precisions == {"fp64_tensor": pytest.approx(48.575), "fp16": pytest.approx(564.3),
                          "fp8_e4m3": pytest.approx(1048.87)}  # fmt: skip
    h200 = contracts.draft(loader.load("h200").expand({}, strict=False), load_catalogue())
    assert "metric: gemm.power" in h200 and "target: 700" in h200


def test_a_contract_is_found_by_its_name_in_the_folder_and_by_its_path(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    for name in ("a.yaml", "here/b.yaml", "c"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path / "here")
    assert contracts.file_of("a", tmp_path) == tmp_path / "a.yaml"
    for name in ("b.yaml", "./b.yaml", "../c"):
        assert contracts.file_of(name, tmp_path) == Path(name)
    for name in ("b", "c", "here/b", "a.yaml"):
        with pytest.raises(ContractError, match=f"no contract '{name}' in "):
            contracts.file_of(name, tmp_path)


def test_the_commands_write_once_and_refuse_what_is_wrong(tmp_path, capsys):
    assert run("new", "a", "--from", "h200", "--customer", 'The "Site"', "--folder", tmp_path) == 0
    assert run("validate", tmp_path / "a.yaml") == 0
    assert capsys.readouterr().out.endswith(" clauses on h200; still as drafted: supplier\n")
    drafted = contracts.load(str(tmp_path / "a.yaml"), load_catalogue(), ["h200"])
    assert (drafted.customer, drafted.supplier) == ('The "Site"', "SUPPLIER")
    assert {one.partition for one in drafted.clauses} == {None}, "of one partition it need not be said"
    with pytest.raises(TenkenError, match="already exists"):
        run("new", "a", "--from", "h200", "--folder", tmp_path)
    with pytest.raises(TenkenError, match="unknown system 'h2'"):
        run("new", "--from", "h2", "--folder", tmp_path)
    with pytest.raises(TenkenError, match="not a contract name"):
        run("new", "../a", "--from", "h200", "--folder", tmp_path)
    (tmp_path / "a.yaml").write_text(GOOD.replace("stream.triad", "stream.tried"))
    assert run("validate", tmp_path / "a.yaml") == 1
    assert "did you mean 'triad'?" in capsys.readouterr().err


QUICK = "20261122T192751Z-h200quick"


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    """The contract drafted from the kept quick session of one GPU."""
    folder = tmp_path_factory.mktemp("drafted")
    kept_archive = ("--session", QUICK, "--archive", kept.QUICK_RUN, "--folder", folder)
    assert run("new", "one", "--from", "h200", *kept_archive) == 0
    return contracts.load("one", load_catalogue(), loader.names(), folder)


def test_a_draft_of_a_session_has_clauses_on_what_it_measured_alone(drafted):
    assert (drafted.nodes, drafted.gpus_per_node, drafted.modes) == (1, 1, ())
    catalogue, measured = load_catalogue(), [r for r in kept.quick_run() if r.session == QUICK]
    assert len(drafted.clauses) >= 60 and len({c.id for c in drafted.clauses}) == len(drafted.clauses)
    for clause in drafted.clauses:
        assert clause.metric in catalogue[clause.program].key and clause.unit not in ("1", "%")
        assert clause.source.startswith(("reference: ", "floor: ", "proposal: 90 % of the "))
        found = [m for r in measured if r.check == clause.check and r.environ == clause.environ and r.result
                 for m in r.result.metrics if m.name == clause.metric and m.kind == clause.subject]  # fmt: skip
        assert any(all(m.at.get(k) == v for k, v in clause.at.items()) for m in found), clause.id
    assert not any(clause.subject == "pair" for clause in drafted.clauses)


def test_a_draft_leaves_open_what_a_program_chose() -> None:
    """The fastest configuration of a file differs from run to run: a clause on one of them would lack its runs."""
    checks = ("DataLoadingHost", "StorageMapHost")
    measured = [r for r in kept.quick_run() if r.session == QUICK and r.check in checks]
    drafted = contracts._of_records(loader.load("h200"), load_catalogue(), measured, every=True)
    found = {one.metric: set(dict(one.at)) for one in drafted}
    assert found.pop("data_loading.best") == {"kind"}
    assert found and all(at == {"bytes"} for at in found.values()), found
    # an INVALID record proposes no target
    void = [replace(r, judgement=replace(r.judgement, verdict="INVALID")) for r in measured]
    assert not list(contracts._of_records(loader.load("h200"), load_catalogue(), void, every=True))


def test_points_with_nearly_one_target_are_one_clause_and_others_are_not(drafted):
    at = {}
    for clause in drafted.clauses:
        at.setdefault((clause.program, clause.metric, clause.check), []).append(dict(clause.at))
    assert at["access_patterns", "plateau", "AccessPatternsQuick %placement=managed_touch"] == [{}]
    assert len(at["gemm", "gemm", "Gemm %gpus_at=one_by_one"]) == 6
    assert all(one for one in at["gemm", "gemm", "Gemm %gpus_at=one_by_one"])


def test_a_draft_of_a_session_refuses_what_is_not_there(tmp_path):
    with pytest.raises(TenkenError, match=r"no session 'x' in .*; most recent: .*h200quick"):
        run("new", "a", "--from", "h200", "--session", "x", "--archive", kept.QUICK_RUN, "--folder", tmp_path)
    with pytest.raises(TenkenError, match=r"has no record of system 'v100'"):
        run("new", "a", "--from", "v100", "--session", QUICK, "--archive", kept.QUICK_RUN, "--folder", tmp_path)
    with pytest.raises(TenkenError, match="--archive needs --session"):
        run("new", "a", "--from", "h200", "--archive", kept.QUICK_RUN, "--folder", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", contracts.names())
def test_contracts_of_the_tree_are_right(name):
    assert contracts.load(name, load_catalogue(), loader.names()).clauses


@pytest.mark.parametrize(("mpirun", "said"), [(True, "the site's"), (False, "ours")])
def test_commands_find_the_mpi_that_make_run_brought(tmp_path, monkeypatch, mpirun, said):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tenken-mpi.env").write_text("export WHOSE=ours\n")
    for name in ("mpirun", "mpicxx") if mpirun else ():
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(command.sys, "prefix", str(tmp_path))
    made = command.with_mpi(["/bin/sh", "-c", 'printf "%s" "$WHOSE"'])
    environment = {"PATH": str(folder), "WHOSE": "the site's"}
    done = subprocess.run(
        ["/bin/sh", *made[1:]], capture_output=True, text=True, check=True, env=environment
    )  # fmt: skip
    assert done.stdout == said


@pytest.mark.parametrize(("described", "offered"), [
    ({"@class": "BurnNode", "program": "burn", "tags": ["burn", "burn-in"], "burn_seconds": 0, "subjects": ["gpu"],
      "metrics": None, "as_nodes": False},
     (1, ("burn-in",), "burn_seconds", "", ("gpu",), None)),
    ({"@class": "NcclTestsBetweenNodes", "program": "nccl", "tags": ["acceptance", "nccl"], "nccl_tests_nodes": 2,
      "subjects": ["ranks"], "metrics": ["perf"]},
     (2, ("acceptance",), "", "nccl_tests_nodes", ("ranks",), ("perf",))),
    ({"@class": "HpcgBetweenNodes", "program": "hpcg", "tags": [], "nodes_asked": 4, "another_nodes": 8,
      "num_nodes": 4}, (4, (), "", "num_nodes", (), None)),
    # only an integer above zero is a number of nodes
    ({"@class": "A", "program": "a", "ranks": 9, "x_nodes": True, "y_nodes": 0, "z_nodes": "4", "w_nodes": -1},
     (1, (), "", "", (), None)),
    ({"@class": "A", "program": "a", "z_nodes": 3, "b_nodes": 2, "num_nodes": 0}, (2, (), "", "b_nodes", (), None)),
])  # fmt: skip
def test_a_check_is_offered_with_the_variables_of_its_nodes_and_seconds(described, offered):
    one = command._offered({"display_name": "x", **described})
    assert (one.nodes, one.modes, one.lasting, one.sized, one.subjects, one.metrics) == offered


DESCRIBED = [{"program": "stream", "display_name": "S", "@class": "S"}, {"program": "", "display_name": "x"}, "text"]


def asked_of_reframe(monkeypatch, tmp_path, done):
    asked = []
    monkeypatch.setattr(command.paths, "ROOT", tmp_path)
    monkeypatch.setattr(command.paths, "archive_root", lambda: tmp_path / "new" / "perflogs")
    monkeypatch.setattr(command, "known", lambda name: SimpleNamespace(system=f"system {name}", checks=None))
    monkeypatch.setattr(command, "with_mpi", lambda words: list(words))
    monkeypatch.setattr(command, "listed", lambda words, cwd: asked.append((words[1:], cwd)) or SimpleNamespace(**done))
    (tmp_path / "checks").mkdir()
    (tmp_path / "mine").mkdir()
    return asked


@pytest.mark.parametrize(("mode", "more"), [("", []), ("nightly", ["-S", "tenken_mode=nightly"])])
def test_the_checks_of_a_system_are_those_that_reframe_lists(mode, more, monkeypatch, tmp_path, capsys):
    done = {"stdout": f"[ReFrame Setup]\n{json.dumps(DESCRIBED, indent=1)}\n", "stderr": "", "returncode": 0}
    asked = asked_of_reframe(monkeypatch, tmp_path, done)
    found = command.checked("h200", mode, (Path("checks"), Path("mine")))
    assert found.system == "system h200" and [one.name for one in found.checks] == ["S"]
    words = ["-c", "checks", "-c", "mine", "--system", "h200", "--describe", *more]
    assert asked == [(words, tmp_path)] and (tmp_path / "new" / "perflogs").is_dir()
    assert command.checked("h200", mode, (Path("checks"), Path("none"))).checks is None and len(asked) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"no folder none/ in {tmp_path}: whether its checks")


@pytest.mark.parametrize(("done", "said"), [
    ({"stdout": "[\n]", "stderr": "x\nno such system\n", "returncode": 1}, "no such system"),
    ({"stdout": "a\nb\n", "stderr": "", "returncode": 1}, "b"),
    ({"stdout": "", "stderr": " ", "returncode": 3}, "exit"),
    ({"stdout": "nothing", "stderr": "", "returncode": 0}, "nothing"),
])  # fmt: skip
def test_checks_that_cannot_be_listed_are_one_line(done, said, monkeypatch, tmp_path):
    asked_of_reframe(monkeypatch, tmp_path, done)
    said = "exit status 3" if said == "exit" else said
    with pytest.raises(ContractError) as error:
        command.checked("h200")
    assert str(error.value) == f"the checks of system 'h200' cannot be listed: {said}"


@pytest.mark.parametrize(("customer", "supplier", "sources", "said"), [
    ("Site", "Vendor", ["offer", "offer"], ""), ("CUSTOMER", "Vendor", ["offer"], "customer"),
    ("CUSTOMER", "SUPPLIER", ["offer"], "customer, supplier"),
    ("Site", "Vendor", ["offer", "{}x", "{}y"], "2 targets, from M1 on"),
    ("CUSTOMER", "Vendor", ["{}x"], "customer, 1 targets, from M0 on"),
])  # fmt: skip
def test_what_nobody_has_agreed_on_is_said(customer, supplier, sources, said):
    clauses = [
        SimpleNamespace(id=f"M{at}", source=source.format(contracts.PROPOSAL)) for at, source in enumerate(sources)
    ]
    found = command._as_drafted(SimpleNamespace(customer=customer, supplier=supplier, clauses=clauses))
    assert found == (f"; still as drafted: {said}" if said else "")
