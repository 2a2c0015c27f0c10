"""Contracts: what is wrong with one is said by line and with what is meant; what is drafted is right."""

from __future__ import annotations

import argparse

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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("system: h200", "system: h20", "c.yaml:2: unknown system 'h20'; did you mean 'h200'?"),
        ("stream.triad", "strem.triad", "c.yaml:12: unknown program 'strem' in clause 1 (M1); did you mean 'stream'?"),
        ("stream.triad", "stream.tried", "did you mean 'triad'?"),
        ("subject: gpu", "subject: pair", "wrong subject 'pair' in clause 1 (M1)"),
        ("unit: GB/s", "unit: GiB", "c.yaml:16: wrong unit 'GiB' in clause 1 (M1); allowed: GB/s"),
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
        ('    - {uuid: GPU-1', '    - {uuid: GPU-1}\n    - {uuid: GPU-1', "delivered twice"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_refused_by_line(tmp_path, old, new, said):
    assert old in GOOD
    with pytest.raises(ContractError) as error:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert said in str(error.value)
    assert "c.yaml:" in str(error.value)


def test_every_fault_has_a_line_of_its_own(tmp_path):
    with pytest.raises(ContractError) as error:
        load(tmp_path, GOOD.replace("stream.triad", "stream.tried").replace("unit: us", "unit: ms"))
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


def test_the_commands_write_once_and_refuse_what_is_wrong(tmp_path, capsys):
    assert run("new", "a", "--from", "h200", "--customer", 'The "Site"', "--folder", tmp_path) == 0
    assert run("validate", tmp_path / "a.yaml") == 0
    assert "clauses on h200" in capsys.readouterr().out
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
    """The contract drafted from the kept quick session of one card."""
    folder = tmp_path_factory.mktemp("drafted")
    kept_archive = ("--session", QUICK, "--archive", kept.QUICK_RUN, "--folder", folder)
    assert run("new", "one", "--from", "h200", *kept_archive) == 0
    return contracts.load("one", load_catalogue(), loader.names(), folder)


def test_a_draft_of_a_session_has_clauses_on_what_it_measured_alone(drafted):
    assert (drafted.nodes, drafted.gpus_per_node, drafted.modes) == (1, 1, ("quick",))
    catalogue, measured = load_catalogue(), [r for r in kept.quick_run() if r.session == QUICK]
    assert len(drafted.clauses) >= 60 and len({c.id for c in drafted.clauses}) == len(drafted.clauses)
    for clause in drafted.clauses:
        assert clause.metric in catalogue[clause.program].key and clause.unit not in ("1", "%")
        assert clause.source.startswith(("reference: ", "floor: "))
        found = [m for r in measured if r.check == clause.check and r.environ == clause.environ and r.result
                 for m in r.result.metrics if m.name == clause.metric and m.kind == clause.subject]  # fmt: skip
        assert any(all(m.at.get(k) == v for k, v in clause.at.items()) for m in found), clause.id
    assert not any(clause.subject == "pair" for clause in drafted.clauses)


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
