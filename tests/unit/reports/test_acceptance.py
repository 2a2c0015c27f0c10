"""The acceptance report: each statement from the runs that lead to it, and a file that cannot be changed undetected."""

from __future__ import annotations

import argparse
import io
import json
import re
import tarfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lxml import html

from tenken.archive import records as archive
from tenken.commands import accept as command
from tenken.errors import TenkenError
from tenken.model import record
from tenken.model import result as results
from tenken.model.catalogue import load_catalogue
from tenken.model.request import Request
from tenken.report import acceptance, bundle, contracts, signed
from tenken.report.acceptance import accept
from tests.support import documents
from tests.unit.core.test_archive import record as archived
from tests.unit.reports import builder

CONTRACT = """\
title: "Two cards, <b>tested</b>"
system: h200
parties: {customer: "Site", supplier: "Vendor"}
allow_unsealed: true
repetitions: 5
clauses:
  - {id: M1, metric: stream.triad, subject: gpu, target: 4000, unit: GB/s, source: "offer"}
"""
HBM = {"value": 4814.0, "unit": "GB/s", "basis": "attribute: memory clock x bus width"}
#: Five launches of a GPU: medians of triad in GB/s.
RUNS = (4362.0, 4368.0, 4365.0, 4363.0, 4366.0)


def stream(run, values, session="S1", verdict="PASS", findings=(), gpus=(0, 1), node="nid001", **changes):
    """One run of STREAM on some GPUs; `values` is by GPU."""
    # a median of exactly the value, as in a run on a quiet machine
    metrics = [builder.metric("triad", {"gpu": g}, [values[g]] * 100) for g in gpus]
    doc = builder.document("stream", metrics, len(gpus), HBM, started=f"2026-11-21T{run:02d}:00:01Z")
    doc["host"] = {**doc["host"], "name": node}
    doc.update(changes.pop("doc", {}))
    return builder.record(
        "StreamCuda", doc, verdict, findings=list(findings), nodes=(node,), session=session,
        time=f"2026-11-21T{run:02d}:00:10Z", **changes,
    )  # fmt: skip


def five(**changes):
    return [stream(i, {0: v, 1: v - 5}, **changes) for i, v in enumerate(RUNS)]


def store(root, records):
    """An archive of records of several sessions, each session complete."""
    for name in dict.fromkeys(r["session"] for r in records):
        of_it = [r for r in records if r["session"] == name]
        builder.write_session(root, of_it, name=name)
    return root


def contract_of(tmp_path, text=CONTRACT):
    file = tmp_path / "deal.yaml"
    file.write_text(text)
    return contracts.load(str(file), load_catalogue(), ["h200"])


def answer(tmp_path, records, text=CONTRACT):
    root = store(tmp_path / "archive", records)
    sessions = tuple(dict.fromkeys(r["session"] for r in records))
    return command.decide(contract_of(tmp_path, text), command.files_of(root, sessions), sessions)


# ---- the statement ---------------------------------------------------------------------------------------


def test_five_good_runs_are_accepted(tmp_path):
    found = answer(tmp_path, five())
    assert (found.statement, found.reasons) == ("ACCEPTED", [])
    (one,) = found.requirements
    assert one.result == "MET" and one.worst.part.place == "GPU 1"
    assert (one.worst.low, one.worst.median, one.worst.high) == (4357.0, 4360.0, 4363.0)
    assert one.worst.confidence == 0.9375
    assert one.margin == pytest.approx((4357 - 4000) / 4000)
    assert one.peak.value == 4814 and one.share_of(one.peak) == pytest.approx(4360 / 4814)
    assert one.attainable is None
    assert one.uniformity == (4360.0, 4362.5, 4365.0)


@pytest.mark.parametrize("name", ["S1", "first-S1", "S1-last"])
def test_runs_of_a_session_with_a_longer_name_do_not_count(tmp_path, name):
    """S1 of 4360 GB/s is ACCEPTED, the others of 3000 are not, and each has five runs."""
    sessions = {"S1": 4360.0, "first-S1": 3000.0, "S1-last": 3001.0}
    root = store(tmp_path / "archive", [
        stream(run, {0: value + run, 1: value + run}, session=one)
        for one, value in sessions.items() for run in range(5)
    ])  # fmt: skip
    files = command.files_of(root, (name,))
    found = command.decide(contract_of(tmp_path), files, (name,))
    assert (found.records, found.statement) == (5, "ACCEPTED" if name == "S1" else "REJECTED")
    assert all(f"-{name}-0" in one or f"/{name}/" in one for one in files.names) and len(files.names) == 7


def test_what_a_run_measured_of_itself_is_no_peak(tmp_path):
    same_run = {**HBM, "basis": "measured: dot bandwidth in this run"}
    records = five()
    for one in records:
        one["document"]["limits"] = dict.fromkeys(one["document"]["limits"], same_run)
        one["judged"] = {m["id"]: builder.judgement(m, same_run) for m in one["document"]["metrics"]}
    (one,) = answer(tmp_path, records).requirements
    assert one.peak is None and one.attainable.value == 4814


@pytest.mark.parametrize(
    ("change", "statement", "why"),
    [
        ("target: 4400", "REJECTED", "M1 stream.triad by StreamCuda: NOT MET (met on 0 of 2 devices)"),
        ("target: 4360", "INCONCLUSIVE", "nid001 GPU 1: the interval contains the bound"),
        ("target: 4360, rule: value", "ACCEPTED", None),
        ("target: 4400, tolerance: 0.02", "ACCEPTED", None),
        ("target: 4000, repetitions: 6", "INCONCLUSIVE", "nid001 GPU 0: 5 of 6 runs"),
        ("target: 4361, share: 0.5, rule: value", "ACCEPTED", None),
        ("target: 4361, share: 0.51, rule: value", "REJECTED", "met on 1 of 2 devices"),
        ("target: 4400, severity: minor", "INCONCLUSIVE", "no essential clause"),
        ("target: 4000, check: StreamHost", "INCONCLUSIVE", "not measured in any run"),
        *((f"target: 4000, {of}", "ACCEPTED", None) for of in ("check: StreamCuda", "environ: cuda", "partition: gpu")),
        *(
            (f"target: 4000, {of}", "INCONCLUSIVE", "NOT TESTED")
            for of in ("check: StreamHost", "environ: gnu", "partition: cpu")
        ),
    ],
)
def test_each_rule_has_its_statement(tmp_path, change, statement, why):
    found = answer(tmp_path, five(), CONTRACT.replace("target: 4000", change))
    assert found.statement == statement
    assert why is None or any(why in reason for reason in found.reasons), found.reasons


def test_four_runs_are_inconclusive_unless_the_contract_says_so(tmp_path):
    assert answer(tmp_path, five()[:4]).statement == "INCONCLUSIVE"
    fewer = CONTRACT.replace("repetitions: 5", "repetitions: 4")
    (tmp_path / "b").mkdir()
    assert answer(tmp_path / "b", five()[:4], fewer).statement == "ACCEPTED"


def test_lower_is_better_is_held_the_other_way_round(tmp_path):
    def latency(run, value):
        metric = builder.metric("htod_latency", {"gpu": 0}, [value] * 100, "us", "lower")
        doc = builder.document("transfer", [metric], 1, started=f"2026-11-21T{run:02d}:00:01Z")
        return builder.record("Transfer", doc, session="S1", time=f"2026-11-21T{run:02d}:00:10Z")

    text = CONTRACT.replace("stream.triad", "transfer.htod_latency").replace("GB/s", "us")
    records = [latency(i, v) for i, v in enumerate((8.0, 8.1, 8.2, 8.3, 8.4))]
    assert answer(tmp_path, records, text.replace("4000", "8.5")).statement == "ACCEPTED"
    (tmp_path / "b").mkdir()
    found = answer(tmp_path / "b", records, text.replace("4000", "7.9"))
    assert found.statement == "REJECTED"
    assert found.requirements[0].margin == pytest.approx(-(8.4 - 7.9) / 7.9)


def test_a_clause_at_another_point_than_the_runs_says_which(tmp_path):
    """As drafted from a run of mode quick, whose problem is smaller than that of mode acceptance."""

    def run(number, n):
        metric = builder.metric("hpl", {"gpu": 0}, [50.0 + number], "TFLOP/s", at={"grid": "1x1", "n": n, "nb": 256})
        doc = builder.document("hpl", [metric], 1, started=f"2026-11-21T{number:02d}:00:01Z")
        return builder.record("Hpl", doc, session="S1", time=f"2026-11-21T{number:02d}:00:10Z")

    text = CONTRACT.replace("stream.triad", "hpl.hpl").replace("GB/s", "TFLOP/s, at: {grid: 1x1, n: 4096, nb: 256}")
    records = [run(number, 8192 << number // 4) for number in range(5)]
    (one,) = answer(tmp_path, records, text.replace("4000", "4")).requirements
    assert one.result == "NOT TESTED"
    said = "the clause is at grid=1x1, n=4096, nb=256; these sessions measured at grid=1x1, n=8192, nb=256"
    assert one.why == f"{said} and 1 more"


def test_only_runs_over_as_many_nodes_as_agreed_count(tmp_path):
    """A clause on 64 nodes is not decided by runs on two."""
    text = CONTRACT.replace("unit: GB/s", "unit: TB/s, nodes: 2").replace("4000", "4")
    (alone,) = answer(tmp_path, five(), text).requirements
    assert (alone.result, alone.clause.bound) == ("NOT TESTED", 4000)
    (tmp_path / "b").mkdir()
    together = [{**run, "nodes": ["nid001", "nid002"]} for run in five()]
    assert answer(tmp_path / "b", together, text).statement == "ACCEPTED"


def test_the_best_or_the_worst_point_of_a_sweep_counts(tmp_path):
    def sweep(run):
        rates = {1024: 0.5, 1073741824: 388.0}
        metrics = [builder.metric("all_reduce", {"ranks": 2}, [rate] * 20, at={"bytes": size}) for size, rate in
                   rates.items()]  # fmt: skip
        doc = builder.document("nccl", metrics, 2, started=f"2026-11-21T{run:02d}:00:01Z")
        return builder.record("Nccl", doc, session="S1", time=f"2026-11-21T{run:02d}:00:10Z")

    text = CONTRACT.replace("stream.triad, subject: gpu, target: 4000", "nccl.all_reduce, subject: ranks, target: 380")
    for number, (over, statement) in enumerate({"best": "ACCEPTED", "worst": "REJECTED"}.items()):
        (tmp_path / str(number)).mkdir()
        agreed = text.replace("unit: GB/s", f"unit: GB/s, over: {over}")
        assert answer(tmp_path / str(number), [sweep(run) for run in range(5)], agreed).statement == statement


# ---- which runs count ------------------------------------------------------------------------------------


def test_a_run_below_its_reference_counts_and_is_not_picked_away(tmp_path):
    slow = builder.finding("FAIL", "nid001 GPU 0", "too slow", "triad.gpu0")
    records = [*five(), stream(6, {0: 3000.0, 1: 4360.0}, verdict="FAIL", findings=[{**slow, "kind": "reference"}])]
    found = answer(tmp_path, records)
    first = next(m for m in found.requirements[0].parts if m.part.place == "GPU 0")
    assert sorted(v.value for v in first.values)[0] == 3000.0
    assert found.statement == "INCONCLUSIVE" and not found.wrong


def test_one_wrong_result_rejects_however_often_it_was_run_again(tmp_path):
    wrong = builder.finding("FAIL", "nid001", "nid001: element 17 differs")
    found = answer(tmp_path, [*five(), stream(6, {0: 4365.0, 1: 4360.0}, verdict="FAIL", findings=[wrong])])
    assert found.statement == "REJECTED"
    assert [w.why for w in found.wrong] == ["nid001: element 17 differs"]


def test_invalid_runs_are_counted_and_are_no_values(tmp_path):
    hot = builder.finding("INVALID", "nid001 GPU 0", "nid001 GPU 0: thermal slowdown")
    invalid = [stream(6 + i, {0: 2000.0 + i, 1: 4360.0}, verdict="INVALID", findings=[hot]) for i in range(3)]
    found = answer(tmp_path, [*five(), *invalid])
    assert found.statement == "ACCEPTED" and len(found.invalid) == 3
    limited = CONTRACT.replace("parties:", "retests: 2\nparties:")
    (tmp_path / "b").mkdir()
    found = answer(tmp_path / "b", [*five(), *invalid], limited)
    assert found.statement == "INCONCLUSIVE"
    assert "3 INVALID runs; at most 2 may be run again" in found.requirements[0].why


@pytest.mark.parametrize(("verdict", "asked", "where"), [
    ("FAIL", False, "invalid"),  # it failed before anything ran on the machine
    ("FAIL", True, "wrong"), ("INVALID", True, "invalid"), ("INVALID", False, "invalid"), ("PASS", True, "wrong"),
    ("RECORDED", False, "wrong"), ("WAIVED", True, None),
])  # fmt: skip
def test_a_run_without_a_result_counts_by_its_verdict_and_its_request(tmp_path, verdict, asked, where):
    one = archived(verdict, result=None, request=Request(None, "stream", "StreamCuda") if asked else None)
    lists = {name: [] for name in ("invalid", "wrong", "failed", "excluded", "before_repair")}
    found = SimpleNamespace(contract=contract_of(tmp_path), verifications=0, **lists)
    one = replace(one, judgement=replace(one.judgement, verdict=verdict))
    acceptance._take(found, {"M1": {}}, {}, {}, "f", one, load_catalogue())
    assert {name: len(told) for name, told in lists.items() if told} == ({where: 1} if where else {})


def test_the_conditions_of_runs_are_counted_by_their_words(tmp_path):
    raw = documents.gpu_document(gpus=2)
    raw["devices"][0].update(power_limit_w=700.0)
    raw["devices"][1].update(ecc_enabled=False, power_limit_w=None, vbios="")
    raw["host"].update(os="Linux", kernel="6.8", cpu="X", firmware=None, virtual_machine=None)
    raw["build"].update(compiler="gcc 12", cuda_compiler=None, flags="-O3")
    raw["version"] = "abc"
    found = SimpleNamespace(conditions={})
    for _ in range(2):
        acceptance._note_conditions(found, results.validate(raw, "x"))
    words = found.conditions
    assert (words["ECC"], words["VBIOS"][acceptance.NOT_RECORDED]) == ({"on": 2, "off": 2}, 2)
    assert words["Power limit, W"] == {"700": 2, acceptance.NOT_RECORDED: 2}
    assert {title: words[title] for title in list(words)[-8:]} == {
        "Operating system": {"Linux / 6.8": 2}, "Processor": {"X": 2},
        "Firmware of the host": {acceptance.NOT_RECORDED: 2}, "Virtual machine": {"none seen": 2},
        "Compiler": {"gcc 12": 2}, "CUDA compiler": {"none": 2}, "Compiler flags": {"-O3": 2},
        "Revision of the programs": {"abc": 2},
    }  # fmt: skip


def test_the_same_result_twice_is_one_run_and_said(tmp_path):
    records = five()[:4]
    found = answer(tmp_path, [*records, {**records[0], "time": "2026-11-21T09:00:10Z"}])
    assert found.statement == "INCONCLUSIVE"
    assert any("one run, archived twice" in text for text in found.damaged)
    # two that failed alike, without a value, are two
    times = dict.fromkeys(("started", "finished"), "2026-11-21T06:00:01Z")
    alike = {"status": "failed", "reason": "no memory", "metrics": [], "limits": {}, **times}
    failed = [stream(i, {0: 1.0, 1: 1.0}, verdict="FAIL", judged={}, doc=alike) for i in (6, 7)]
    (tmp_path / "b").mkdir()
    found = answer(tmp_path / "b", [*records, *failed])
    assert (len(found.wrong + found.failed), found.damaged) == (2, [])


FLIPPED = {"array_bytes": 4_294_967_296, "inject_fault": "element"}


def rehearsed(passed, verdict, fault="element"):
    """A run with a deliberate fault, in a drill session."""
    check = {"what": "a, every element, exact", "error": 0.0 if passed else 0.25, "tolerance": 0.0, "passed": passed}
    doc = {"parameters": {**FLIPPED, "inject_fault": fault}, "verification": {"passed": passed, "checks": [check]}}
    return stream(6, {0: 1.0, 1: 1.0}, session="S2", verdict=verdict, doc=doc)


@pytest.mark.parametrize(
    ("drilled", "statement", "said"),
    [
        ((False, "FAIL"), "ACCEPTED", "1 detected by the verification of 1 checks, 0 not detected, 0 without evidence"),
        # FAIL for another reason proves nothing: the program itself stated that it had detected nothing
        ((True, "FAIL"), "INCONCLUSIVE", "0 detected by the verification of 0 checks, 1 not detected"),
        ((True, "PASS"), "INCONCLUSIVE", "1 not detected"),
        ((False, "RECORDED"), "INCONCLUSIVE", "1 not detected"),
        ((False, "INVALID"), "ACCEPTED", "1 without evidence"),
        ((True, "PASS", "rank-kill"), "ACCEPTED", "1 without evidence"),
    ],
)
def test_a_rehearsal_has_its_line_and_no_value(tmp_path, drilled, statement, said):
    found = answer(tmp_path, [*five(), rehearsed(*drilled)])
    assert found.statement == statement and said in found.rehearsal
    assert sum(found.verdicts.values()) == 5 and not found.wrong and not found.failed
    markup = signed.render(found, load_catalogue(), "0" * 64, "1" * 64, [], "now")
    assert found.rehearsal in markup
    assert ("NOT NOTICED" in markup) == (statement == "INCONCLUSIVE")


def test_a_report_without_a_rehearsal_says_so(tmp_path):
    assert "These sessions include no drill (tenken drill)" in answer(tmp_path, five()).rehearsal


def test_other_modes_and_injected_faults_are_no_runs(tmp_path):
    broken = stream(6, {0: 1.0, 1: 1.0}, doc={"parameters": {"array_bytes": 4_294_967_296, "inject_fault": "slow"}})
    quick = stream(7, {0: 1.0, 1: 1.0}, mode="quick")
    found = answer(tmp_path, [*five(), broken, quick], CONTRACT.replace("parties:", "modes: [acceptance]\nparties:"))
    assert found.statement == "ACCEPTED"
    assert (found.other_modes, len(found.drilled)) == (1, 1)


def test_another_array_size_is_another_requirement(tmp_path):
    small = [stream(6 + i, {0: 4100.0, 1: 4100.0}, doc={"parameters": {"array_bytes": 1 << 20}}) for i in range(5)]
    found = answer(tmp_path, [*five(), *small])
    assert [r.worst.median for r in found.requirements] == [4360.0, 4100.0]


def test_a_value_below_its_floor_that_no_clause_names_is_an_exception(tmp_path):
    """A check with a clause may fail by another of its values: the machine is not accepted without a word."""
    slow = {"verdict": "FAIL", "message": "gpu 0: copy is below 3000 GB/s", "kind": "floor", "metric": "copy.gpu0"}
    found = answer(tmp_path, [*five(), stream(6, {0: 4365.0, 1: 4360.0}, verdict="FAIL", findings=[slow])])
    assert found.statement == "ACCEPTED WITH EXCEPTIONS" and found.reasons == ["1 runs failed outside the clauses"]
    assert [one.why for one in found.failed] == ["gpu 0: copy is below 3000 GB/s"]
    # decided by the clause, and by what was agreed in place of the site's own reference
    note = builder.finding("RECORDED", "nid001", "nid001: it was warm")
    for name, other in (("b", {**slow, "metric": "triad.gpu0"}), ("c", {**slow, "kind": "reference"})):
        (tmp_path / name).mkdir()
        bad = stream(6, {0: 4365.0, 1: 4360.0}, verdict="FAIL", findings=[other, note])
        found = answer(tmp_path / name, [*five(), bad])
        assert found.statement == "ACCEPTED" and not found.failed


def test_exclusions_are_shown_and_make_an_exception(tmp_path):
    text = CONTRACT + 'exclusions: [{id: E1, session: S2, reason: "door open", agreed: 2026-11-22}]\n'
    found = answer(tmp_path, [*five(), stream(8, {0: 3000.0, 1: 4360.0}, session="S2")], text)
    assert found.statement == "ACCEPTED WITH EXCEPTIONS"
    assert len(found.excluded) == 1 and "excluded by agreement" in found.reasons[0]


NO_RUN, ELSE = "was not measured", "is not among the delivered GPUs"


@pytest.mark.parametrize(
    ("delivered", "replaced", "covered", "measured", "missing", "unlisted"),
    [
        ("AB", "", (1, 2), "n1:A n1:B", [], []),
        ("AB", "", (None, None), "n1:A", [f"delivered GPU s-B (B) {NO_RUN}"], []),
        ("A", "", (None, None), "n1:A n1:B n1:?", [], [f"n1 gpu0 (B) {ELSE}", f"n1 gpu0 (no UUID) {ELSE}"]),
        ("", "", (None, None), "n1:A n1:B", [], []),
        # before and after an exchange: the old one's runs are of the past, and the new one needs its own
        ("AB", "A>D", (1, 2), "n1:A n1:B n1:D", [], []),
        ("AB", "A>D", (1, 2), "n1:B n1:D", [], []),
        ("AB", "A>D", (None, None), "n1:A n1:B", [f"GPU D, which replaced A, {NO_RUN}"], []),
        ("AB", "A>D D>E", (1, 2), "n1:A n1:B n1:D n1:E", [], []),
        ("AB", "A>D D>E", (None, None), "n1:A n1:B n1:D", [f"GPU E, which replaced D, {NO_RUN}"], []),
        ("", "A>D", (None, None), "n1:A n1:B", [f"GPU D, which replaced A, {NO_RUN}"], []),
        ("DB", "A>D", (1, 2), "n1:A n1:B n1:D", [], []),
        ("AB", "A>D", (1, None), "n1:A n1:B n1:D n2:X",
         ["2 nodes were measured; the contract covers 1"], [f"n2 gpu0 (X) {ELSE}"]),
        ("", "", (2, 1), "n1:A n2:B n2:C", ["n2: 2 GPUs were measured; the contract covers 1 per node"], []),
        ("", "A>D", (None, 2), "n1:A n1:D", ["n1: 1 GPUs were measured; the contract covers 2 per node"], []),
    ],
)  # fmt: skip
def test_which_parts_the_contract_covers(delivered, replaced, covered, measured, missing, unlisted):
    parts = [acceptance.Part(*one.replace("?", "").split(":")) for one in measured.replace(":", ":gpu0:").split()]
    contract = SimpleNamespace(
        delivered=[contracts.Delivered(uuid, f"s-{uuid}") for uuid in delivered], nodes=covered[0],
        gpus_per_node=covered[1], replaced=[contracts.Replaced(*one.split(">"), "dead") for one in replaced.split()],
    )  # fmt: skip
    requirement = SimpleNamespace(parts=[SimpleNamespace(part=one) for one in parts])
    found = SimpleNamespace(contract=contract, requirements=[requirement], unlisted_parts=[])
    acceptance._scope(found, parts)
    assert (found.missing_parts, sorted(found.unlisted_parts)) == (missing, unlisted)


@pytest.mark.parametrize(("name", "excluded"), [("NID002.site.org", 1), ("nid002", 1), ("nid003", 0)])
def test_an_excluded_node_may_be_spelled_otherwise(tmp_path, name, excluded):
    text = CONTRACT + f'exclusions: [{{id: E1, node: {name}, reason: "door open", agreed: 2026-11-22}}]\n'
    found = answer(tmp_path, [*five(), stream(8, {0: 3000.0, 1: 4360.0}, node="nid002.SITE.org")], text)
    assert len(found.excluded) == excluded


def test_scope_names_what_was_not_measured(tmp_path):
    text = CONTRACT + (
        "scope:\n  nodes: 2\n  gpus_per_node: 4\n  delivered:\n"
        "    - {uuid: GPU-00000000-0000-0000-0000-000000000000, serial: '165'}\n    - {uuid: GPU-lost}\n"
    )
    found = answer(tmp_path, five(), text)
    assert found.statement == "INCONCLUSIVE"
    text = " ".join(found.missing_parts)
    assert "GPU-lost" in text and "1 nodes were measured" in text and "2 GPUs were measured" in text
    assert [p.serial for p in found.parts] == ["165", ""]
    (unlisted,) = found.unlisted_parts
    assert "is not among the delivered GPUs" in unlisted
    # each node by its own GPUs
    (tmp_path / "b").mkdir()
    found = answer(
        tmp_path / "b", [*five(), stream(6, {0: 4365.0}, gpus=(0,), node="nid002")],
        CONTRACT + "scope:\n  nodes: 2\n  gpus_per_node: 2\n",
    )  # fmt: skip
    assert found.missing_parts == ["nid002: 1 GPUs were measured; the contract covers 2 per node"]


def test_cases_that_left_no_record_and_files_that_are_none_are_told(tmp_path):
    root = store(tmp_path / "archive", five())
    session = root / ".sessions" / "S1"
    report = json.loads((session / "run-report.json").read_text())
    report["runs"][0]["testcases"].append(builder.testcase("Hpl", "fail", "sbatch: error", "run"))
    for counted in (report["runs"][0], report["session_info"]):
        counted["num_cases"] += 1
    (session / "run-report.json").write_text(json.dumps(report))
    files = command.files_of(root, ("S1",))
    found = command.decide(contract_of(tmp_path), files, ("S1",))
    assert found.statement == "ACCEPTED WITH EXCEPTIONS"
    assert [f.check for f in found.failed] == ["Hpl"]
    next(iter(archive.paths(root))).write_text("{")
    found = command.decide(contract_of(tmp_path), command.files_of(root, ("S1",)), ("S1",))
    assert found.statement == "INCONCLUSIVE" and "truncated or not JSON" in found.damaged[0]


def test_stability_needs_its_span_and_its_level(tmp_path):
    text = CONTRACT + "stability: {hours: 5, least: 0.9}\n"
    later = [stream(10 + i, {0: 0.85 * v, 1: 0.85 * v}, session="S2") for i, v in enumerate(RUNS)]
    text = text.replace("4000", "3000")
    assert answer(tmp_path, five(), text).statement == "INCONCLUSIVE"
    (tmp_path / "b").mkdir()
    found = answer(tmp_path / "b", [*five(), *later], text)
    assert (found.statement, found.stability) == ("REJECTED", "NOT MET")
    assert "0.85" in found.stability_why
    (tmp_path / "c").mkdir()
    good = [stream(10 + i, {0: v, 1: v}, session="S2") for i, v in enumerate(RUNS)]
    assert answer(tmp_path / "c", [*five(), *good], text).statement == "ACCEPTED"
    (tmp_path / "d").mkdir()
    one_gpu = [stream(10 + i, {0: v}, session="S2", gpus=(0,)) for i, v in enumerate(RUNS)]
    found = answer(tmp_path / "d", [*five(), *one_gpu], text)
    assert found.stability == "INCONCLUSIVE" and "M1 on nid001 GPU 1 was measured in one session" in found.stability_why


def required(parts, **changes):
    """A clause and the values of its parts."""
    said = {"direction": "higher", "rule": "interval", "bound": 3.0, "repetitions": 5, "retests": 1, "share": 1.0}
    clause = SimpleNamespace(**(said | {"hours": None, "id": "C", "program": "p", "metric": "m"} | changes))
    made = [acceptance.Measured(acceptance.Part("n1", f"GPU {at}")) for at, _ in enumerate(parts)]
    for one, values in zip(made, parts, strict=True):
        one.values = [acceptance.Value(value, session, "", "", "m") for session, value in values]
    return acceptance.Requirement(clause, "Check", parts=made)


ONE_TO_FIVE = [("S1", float(value)) for value in (3, 1, 5, 2, 4)]


@pytest.mark.parametrize(("bounds", "result", "changes"), [
    # of five runs the interval is from the smallest to the largest
    ((1, 5), "MET", {}), ((1.1, 4.9), "INCONCLUSIVE", {}), ((5, 1), "INCONCLUSIVE", {}), ((5.1, 0.9), "NOT MET", {}),
    ((3, 3), "MET", {"rule": "value"}), ((3.1, 2.9), "NOT MET", {"rule": "value"}),
    ((1, 5), "INCONCLUSIVE", {"repetitions": 6}), ((5.1, 0.9), "INCONCLUSIVE", {"retests": 0}),
    ((5.1, 0.9), "NOT MET", {"retests": None}),
])  # fmt: skip
def test_a_value_at_its_bound_meets_it_in_either_direction(bounds, result, changes):
    """After one INVALID run."""
    for direction, bound in zip(("higher", "lower"), bounds, strict=True):
        one = required([ONE_TO_FIVE], direction=direction, bound=bound, **changes)
        one.parts[0].invalid = [acceptance.Value(0.0, "S1", "", "", "m")]
        acceptance.decide_requirement(one, 0.95)
        assert (direction, one.result) == (direction, result)


@pytest.mark.parametrize(("met", "missed", "still", "share", "result", "why"), [
    (3, 0, 0, 1.0, "MET", "met on 3 of 3 devices"), (2, 1, 0, 1.0, "NOT MET", "met on 2 of 3 devices"),
    (2, 1, 0, 0.6, "MET", "met on 2 of 3 devices, needed on 2"),
    (1, 1, 1, 0.6, "INCONCLUSIVE", "met on 1 of 3 devices, needed on 2; n1 GPU 2: 1 of 5 runs"),
    (1, 2, 0, 0.6, "NOT MET", "met on 1 of 3 devices, needed on 2"),
    (9, 1, 0, 0.9, "MET", "met on 9 of 10 devices, needed on 9"),
])  # fmt: skip
def test_as_many_parts_as_agreed_must_meet_a_clause(met, missed, still, share, result, why):
    parts = [*[[("S1", 4.0)] * 5] * met, *[[("S1", 2.0)] * 5] * missed, *[[("S1", 4.0)]] * still]
    one = required(parts, share=share)
    acceptance.decide_requirement(one, 0.95)
    assert (one.result, one.why) == (result, why)


@pytest.mark.parametrize(("direction", "last", "hours", "stability", "why"), [
    ("higher", 90.0, 5.0, "MET", "ratio of last to first session 0.9000 (C on n1 GPU 1); at least 0.9 over 5.0 h"),
    ("higher", 89.0, 5.0, "NOT MET", "0.8900 (C on n1 GPU 1)"), ("lower", 111.0, 5.0, "MET", "0.9009 (C on n1 GPU 1)"),
    ("lower", 112.0, 5.0, "NOT MET", "0.8929 (C on n1 GPU 1)"),
    ("higher", 90.0, 4.9, "INCONCLUSIVE", "the runs span 4.9 h; 5 h are required"),
    ("higher", None, 5.0, "INCONCLUSIVE", "no measurement was repeated; at least 0.9 over 5.0 h; C on n1 GPU 0 was"),
])  # fmt: skip
def test_stability_compares_the_medians_of_the_last_session_and_the_first(direction, last, hours, stability, why):
    """One between them does not count, and neither does a clause of hours."""
    first = [("S1", value) for value in (99.0, 100.0, 150.0)]
    more = [] if last is None else [("S2", 1.0), *(("S3", value) for value in (1.0, last, 200.0))]
    parts = [[*first, *(more and [("S3", 100.0)])], [*first, *more]]
    found = SimpleNamespace(
        contract=SimpleNamespace(stability=SimpleNamespace(hours=5.0, least=0.9)), first="2026-11-21T01:00:00Z",
        last=f"2026-11-21T{1 + int(hours):02d}:{60 * (hours % 1):02.0f}:00Z",
        requirements=[required([[("S1", 1.0), ("S2", 0.1)]], hours=12), required(parts, direction=direction)],
    )  # fmt: skip
    acceptance._hold_stable(found)
    assert found.stability == stability and why in found.stability_why


def test_reasons_are_those_against_it_then_what_is_unclear_then_exceptions():
    def of(name, result, severity="essential"):
        one = required([], id=name, severity=severity)
        one.result, one.why = result, "why"
        return one

    items = [SimpleNamespace(id=name, what="door", open=name == "P1") for name in ("P1", "P2")]
    contract = SimpleNamespace(allow_unsealed=False, replaced=[], punch_list=items)
    missed = acceptance.drill.MISSED
    found = SimpleNamespace(
        contract=contract, wrong=[0, 0], failed=[0], stability="INCONCLUSIVE", stability_why="span", excluded=[0, 0, 0],
        damaged=["a", "b", "c", "d"], unsealed=["x", "y"], unlisted_parts=["new"], missing_parts=["gone"],
        drilled=[SimpleNamespace(check=check, outcome="noticed" if check == "A" else missed) for check in "ABBC"],
        requirements=[
            of("M", "MET"), of("E1", "INCONCLUSIVE"), of("E2", "NOT TESTED"), of("N", "NOT MET"), of("N", "NOT MET"),
            of("m", "NOT MET", "minor"), of("i", "INCONCLUSIVE", "minor"), of("k", "MET", "minor"),
        ],
    )  # fmt: skip
    against = ["N p.m: NOT MET in 2 checks; Check: (why)", "2 runs with a wrong or missing result"]
    unclear = [
        "E1 p.m by Check: INCONCLUSIVE (why)", "E2 p.m by Check: NOT TESTED (why)", "gone", "stability: span",
        *(f"the archive is damaged: {name}" for name in "abc"), "2 records are unsealed, such as x",
        "an injected fault was not noticed by B, C",
    ]  # fmt: skip
    exceptions = [
        "m p.m by Check, minor: NOT MET (why)", "i p.m by Check, minor: INCONCLUSIVE (why)",
        "1 runs failed outside the clauses", "new", "punch list P1: door", "3 runs were excluded by agreement",
    ]  # fmt: skip
    acceptance._state(found)
    assert (found.statement, found.reasons) == ("REJECTED", [*against, *unclear, *exceptions])
    found.wrong, found.requirements = [], [one for one in found.requirements if one.clause.id != "N"]
    acceptance._state(found)
    assert (found.statement, found.reasons) == ("INCONCLUSIVE", [*unclear, *exceptions])
    found.stability, found.stability_why = "NOT MET", "fell"
    acceptance._state(found)
    assert found.statement == "REJECTED" and found.reasons[0] == "stability: fell"


def test_minor_clauses_and_open_items_are_exceptions(tmp_path):
    minor = "  - {id: M2, metric: stream.triad, subject: gpu, target: 4790, unit: GB/s, source: x, severity: minor}\n"
    found = answer(tmp_path, five(), CONTRACT + minor + "punch_list: [{id: P1, what: door, status: open}]\n")
    assert found.statement == "ACCEPTED WITH EXCEPTIONS"
    assert len(found.reasons) == 2


def test_order_of_files_changes_nothing(tmp_path):
    records = [(r["time"], record.parse(json.dumps(r))) for r in five()]
    contract = contract_of(tmp_path)
    one = accept(contract, records, load_catalogue(), ("S1",))
    two = accept(contract, records[::-1], load_catalogue(), ("S1",))
    assert one.requirements == two.requirements and one.statement == "ACCEPTED"


# ---- the report and its file -----------------------------------------------------------------------------


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    options = parser.parse_args(["accept", *map(str, arguments)])
    return options.func(options)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report of two sessions with a failing GPU, an INVALID run and a punch list."""
    folder = tmp_path_factory.mktemp("accept")
    hot = builder.finding("INVALID", "nid001 GPU 0", "nid001 GPU 0: thermal slowdown")
    records = [*five(), *(stream(10 + i, {0: v, 1: 3900.0 + i}, session="S2") for i, v in enumerate(RUNS))]
    records.append(stream(20, {0: 2000.0, 1: 4360.0}, session="S2", verdict="INVALID", findings=[hot]))
    root = store(folder / "archive", records)
    text = CONTRACT.replace("target: 4000", "target: 4200, rule: value")
    text += "  - {id: M2, metric: stream.triad, subject: gpu, target: 3000, unit: GB/s, source: offer}\n"
    (folder / "deal.yaml").write_text(text + "punch_list: [{id: P1, what: 'rack </style> door', status: open}]\n")
    status = run("--contract", folder / "deal.yaml", "--sessions", "S1", "S2", "--archive", root,
                 "--output", folder / "out", "--no-pdf")  # fmt: skip
    return status, folder


def test_the_page_says_what_a_signature_needs(written):
    status, folder = written
    assert status == 1
    markup = (folder / "out" / "report.html").read_text()
    text = re.sub(r"\s+", " ", html.document_fromstring(markup).text_content())
    for words in (
        "Two cards, <b>tested</b>", "Requirements", "Scope", "Uniformity", "Conditions", "Procedure", "Correctness",
        "Stability", "Punch list", "Signatures", "Annexes", "580.95.05", "v0.1.0-12-gabc1234", "--backend cuda",
        "INVALID: 1", "thermal slowdown", "GPU-00000000-0000-0000-0000-000000000001", "For the customer: Site",
        "For the supplier: Vendor", "rack </style> door", "S1, S2", "REJECTED", "NOT MET",
    ):  # fmt: skip
        assert words in text, words
    digest = re.search(r"Archive SHA-256 ([0-9a-f]{64})", text)
    assert digest and f'"Archive SHA-256: {digest[1]}"' in markup
    assert "counter(pages)" in markup and markup.count("</style>") == 1
    assert "default-src 'none'" in markup and "<script" not in markup
    assert not re.search(r"(?:https?|ftp):|@import|url\(", markup)


@pytest.mark.parametrize(("told", "shown"), [(True, ("1653", "700", "on")), (False, ("not recorded",) * 3)])
def test_serial_power_limit_and_persistence_are_those_of_the_device(tmp_path, told, shown):
    records = five(gpus=(0,))
    for one in records:
        if told:
            one["document"]["devices"][0] |= {"serial": "1653", "power_limit_w": 700.0, "persistence_mode": True}
    found = answer(tmp_path, records)
    serial = found.parts[0].serial or "not recorded"
    conditions = [next(iter(found.conditions[title])) for title in ("Power limit, W", "Persistence mode")]
    assert (serial, *conditions) == shown
    assert f"<td>{shown[0]}</td>" in signed.render(found, load_catalogue(), "d", "d", [], "now")


def test_the_title_block_names_the_machine_and_each_source_once(written):
    _, folder = written
    text = html.document_fromstring((folder / "out" / "report.html").read_text())
    system = text.xpath("//dt[.='System']/following-sibling::dd")[0].text_content()
    assert system == "h200: 1 node, 2 GPUs (NVIDIA H200)"
    (sources,) = (p.text_content() for p in text.xpath("//p/small") if p.text_content().startswith("Sources"))
    assert sources == "Sources of the targets: M1, M2: offer."


def test_the_words_of_the_title_block():
    of = SimpleNamespace
    one, two = [of(node="a")], [of(node="a"), of(node="a"), of(node="b")]
    assert signed._scope(of(parts=[], conditions={})) == "no GPU measured"
    assert signed._scope(of(parts=one, conditions={"GPU": {"H200": 1}})) == "1 node, 1 GPU (H200)"
    kinds = {"A": 2, "not recorded": 1, "B": 1}
    assert signed._scope(of(parts=two, conditions={"GPU": kinds})) == "2 nodes, 3 GPUs (A, B)"
    assert signed._scope(of(parts=two, conditions={})) == "2 nodes, 3 GPUs"
    told = {"Maximum SM clock, MHz": {"1980": 1}, "Driver": {"1": 1, "not recorded": 1, "2": 1},
            "Power limit, W": {"700": 9}, "CUDA runtime": {"not recorded": 1}}  # fmt: skip
    assert signed._conditions(of(conditions=told)) == "driver 1 or 2, power limit 700 W, SM clock up to 1980 MHz"
    items = [("P1", True, "2026-12-02"), ("P2", True, "2026-12-01"), ("P3", False, "2026-01-01"),
             ("P4", True, "2026-01-02"), ("P5", True, "")]  # fmt: skip
    listed = [of(id=name, open=still, due=due) for name, still, due in items]
    found = of(contract=of(punch_list=listed), repaired=["P4"], stability="MET")
    assert signed._open(found) == "punch list: 3 open, first due 2026-12-01; stability MET"
    found.contract.punch_list, found.stability = listed[4:], ""
    assert signed._open(found) == "punch list: 1 open; no stability period agreed"
    found.contract.punch_list = listed[2:4]
    assert signed._open(found) == "punch list: no open item; no stability period agreed"
    runs = [of(parts=[of(values=range(n)) for n in some]) for some in ([6, 6], [5, 7, 6])]
    assert [signed._runs(one) for one in runs] == ["6", "5 to 7"]
    assert [signed._some(tuple(some)) for some in ("abc", "abcd")] == ["a, b, c", "a, …, d (4)"]
    margins = [of(margin=m) for m in (0.2, None, -0.1, 0.0)]
    assert signed._closest(of(requirements=margins)) is margins[2]
    assert signed._closest(of(requirements=margins[1:2])) is None


def test_ids_in_a_row_are_a_range_from_three_on():
    order = {f"C{i}": i for i in range(1, 9)}
    assert signed._in_runs(["C1", "C2", "C3", "C5", "C6", "C8"], order) == "C1 to C3, C5, C6, C8"


def test_every_figure_of_the_page_is_in_the_archive(written):
    _, folder = written
    said = json.loads((folder / "out" / "acceptance.json").read_text())
    values = 0
    for requirement in said["requirements"]:
        for part in requirement["parts"]:
            for one in [*part["values"], *part["invalid"]]:
                kept = archive.read(folder / one["file"])
                metric = next(m for m in kept.result.metrics if m.id == one["metric"])
                assert metric.value == one["value"] and kept.session == one["session"]
                values += 1
    assert values == 2 * 22


def test_evidence_is_of_the_failing_card_alone_and_names_no_node(written):
    _, folder = written
    (file,) = (folder / "out" / "evidence").glob("*.json")
    text = file.read_text()
    bundle_ = json.loads(text)
    assert bundle_["part"]["uuid"] == "GPU-00000000-0000-0000-0000-000000000001"
    assert bundle_["runs"] and bundle_["runs"][0]["samples"] and bundle_["runs"][0]["command"]
    assert "nid001" not in text


def test_verify_takes_what_was_written(written, capsys):
    _, folder = written
    assert run("--verify", folder / "out" / "deal.tar") == 0
    assert "intact, and the decision is reproduced" in capsys.readouterr().out


def test_a_name_that_is_no_file_name_elsewhere_is_verified_too(tmp_path, capsys):
    root = store(tmp_path / "archive", five())
    (tmp_path / "Los 3: Käfig.yaml").write_text(CONTRACT)
    out = ["--output", tmp_path / "out", "--no-pdf"]
    assert run("--contract", tmp_path / "Los 3: Käfig.yaml", "--sessions", "S1", "--archive", root, *out) == 0
    assert run("--verify", tmp_path / "out" / "Los 3: Käfig.tar") == 0
    assert "ACCEPTED" in capsys.readouterr().out


def doctored(folder, tmp_path, change):
    """The tar of `folder` with members changed by `change(members)`, with its original manifest."""
    members = bundle.read(folder / "out" / "deal.tar")
    change(members)
    manifest = members.pop(bundle.MANIFEST, None)
    rest = [bundle.Member(n, c) for n, c in sorted(members.items())]
    target = tmp_path / "deal.tar"
    with target.open("wb") as stream:
        bundle._tar(stream, [*([bundle.Member(bundle.MANIFEST, manifest)] if manifest else []), *rest])
    return target


def some_record(members):
    return next(n for n in sorted(members) if n.startswith("archive/h200/"))


@pytest.mark.parametrize("where", ["archive", "report.html", "contract.yaml", "acceptance.json", "evidence"])
def test_a_changed_byte_is_found_and_named(written, tmp_path, capsys, where):
    _, folder = written
    name = ""

    def flip(members):
        nonlocal name
        name = next(n for n in sorted(members) if n.startswith(where))
        content = bytearray(members[name])
        content[len(content) // 2] ^= 1
        members[name] = bytes(content)

    assert run("--verify", doctored(folder, tmp_path, flip)) == 1
    assert capsys.readouterr().out == f"CHANGED: {name} was modified: its SHA-256 is not that of the manifest\n"


def test_a_byte_changed_anywhere_in_the_tar_is_found(written, tmp_path, capsys):
    _, folder = written
    whole = (folder / "out" / "deal.tar").read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        target = tmp_path / "deal.tar"
        target.write_bytes(bytes(changed))
        try:
            status = run("--verify", target)
            said = capsys.readouterr().out
            assert status == 1 and "CHANGED: " in said, place
        except TenkenError as error:
            assert "deal.tar" in str(error)


@pytest.mark.parametrize("kind", ["lost", "added", "no manifest"])
def test_members_lost_and_added_are_named(written, tmp_path, capsys, kind):
    _, folder = written

    def change(members):
        if kind == "lost":
            del members[some_record(members)]
        elif kind == "added":
            members["archive/h200/gpu/2026-11-21/StreamCuda/more.json"] = b"{}"
        else:
            del members[bundle.MANIFEST]

    assert run("--verify", doctored(folder, tmp_path, change)) == 1
    said = capsys.readouterr().out
    assert {"lost": "is missing", "added": "more.json is not in the manifest", "no manifest": "MANIFEST"}[kind] in said


def test_a_new_manifest_over_a_doctored_archive_is_found(written, tmp_path, capsys):
    _, folder = written
    members = bundle.read(folder / "out" / "deal.tar")
    del members[bundle.MANIFEST]
    name = some_record(members)
    members[name] = members[name].replace(b"4362.0", b"4499.0")
    bundle.write(tmp_path / "deal.tar", [bundle.Member(n, c) for n, c in members.items()])
    assert run("--verify", tmp_path / "deal.tar") == 1
    said = capsys.readouterr().out
    assert "the archive is not the one of report.html" in said
    assert "archive and contract yield" in said


@pytest.mark.parametrize(
    ("key", "other", "status"),
    [
        ("why", "as an earlier release explained it", 0),
        ("stability_why", "as an earlier release explained it", 0),
        ("result", "MET AFTER ALL", 1),
        ("bound", 1.0, 1),
    ],
)
def test_only_wording_may_differ_from_the_answer_of_another_release(written, tmp_path, capsys, key, other, status):
    _, folder = written
    members = bundle.read(folder / "out" / "deal.tar")
    del members[bundle.MANIFEST]
    said = json.loads(members[bundle.ANSWER])
    (said if key in said else said["requirements"][0])[key] = other
    members[bundle.ANSWER] = (json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode()
    bundle.write(tmp_path / "deal.tar", [bundle.Member(n, c) for n, c in members.items()])
    assert run("--verify", tmp_path / "deal.tar") == status
    assert ("CHANGED: acceptance.json/requirements/0/" in capsys.readouterr().out) == bool(status)


def test_a_report_doctored_to_another_statement_is_found(written, tmp_path, capsys):
    _, folder = written
    members = bundle.read(folder / "out" / "deal.tar")
    del members[bundle.MANIFEST]
    said = json.loads(members[bundle.ANSWER])
    members["report.html"] = members["report.html"].replace(said["statement"].encode(), b"ACCEPTED")
    members[bundle.ANSWER] = members[bundle.ANSWER].replace(said["statement"].encode(), b"ACCEPTED")
    bundle.write(tmp_path / "deal.tar", [bundle.Member(n, c) for n, c in members.items()])
    assert run("--verify", tmp_path / "deal.tar") == 1
    assert "acceptance.json/statement is 'ACCEPTED'" in capsys.readouterr().out


def test_a_report_without_the_statement_of_its_answer_is_found(written, tmp_path, capsys):
    _, folder = written
    members = bundle.read(folder / "out" / "deal.tar")
    del members[bundle.MANIFEST]
    statement = json.loads(members[bundle.ANSWER])["statement"]
    members["report.html"] = members["report.html"].replace(statement.encode(), b"ACCEPTED")
    bundle.write(tmp_path / "deal.tar", [bundle.Member(n, c) for n, c in members.items()])
    assert run("--verify", tmp_path / "deal.tar") == 1
    assert capsys.readouterr().out == f"CHANGED: report.html does not contain {statement}\n"


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (tarfile.TarInfo("/etc/passwd"), "is not a valid name inside a bundle"),
        (tarfile.TarInfo("../x"), "is not a valid name inside a bundle"),
        ("link", "is not a regular file"),
        ("twice", "is listed twice"),
    ],
)
def test_a_tar_that_leads_elsewhere_is_refused(tmp_path, member, said):
    file = tmp_path / "x.tar"
    with tarfile.open(file, "w") as packed:
        if member == "link":
            entry = tarfile.TarInfo("a")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            packed.addfile(entry)
        elif member == "twice":
            for _ in range(2):
                packed.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))
        else:
            packed.addfile(member)
    with pytest.raises(TenkenError, match=said):
        run("--verify", file)
    file.write_bytes(b"no tar at all")
    with pytest.raises(TenkenError, match="is not a complete tar file"):
        run("--verify", file)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sessions", "S1"], "required: --contract NAME"),
        (["--verify", "x.tar", "--contract", "a"], "cannot be combined with --contract"),
        (["--contract", "nosuch", "--sessions", "S1"], "no contract 'nosuch'"),
    ],
)
def test_wrong_command_lines_are_one_line(arguments, said):
    with pytest.raises(TenkenError, match=said) as error:
        run(*arguments)
    assert len(str(error.value).splitlines()) == 1


def test_an_unknown_session_lists_those_that_are_there(written, tmp_path):
    _, folder = written
    with pytest.raises(TenkenError, match=r"no session 'S9' in .*; most recent: S1, S2"):
        run("--contract", folder / "deal.yaml", "--sessions", "S9", "--archive", folder / "archive")


def test_without_a_browser_the_page_stays_and_says_so(written, tmp_path, monkeypatch, capsys):
    _, folder = written
    monkeypatch.setenv("TENKEN_BROWSER", "no-such-browser")
    assert signed.pdf(folder / "out" / "report.html", tmp_path / "r.pdf") is not None
    assert not (tmp_path / "r.pdf").exists()
    monkeypatch.setenv("TENKEN_BROWSER", "false")
    assert "without printing the page" in (signed.pdf(folder / "out" / "report.html", tmp_path / "r.pdf") or "")


# ---- after repair ----------------------------------------------------------------------------------------

REPAIRED = (
    CONTRACT
    + """\
punch_list:
  - {id: P1, what: "GPU 1 is slow", status: open}
replaced:
  - {uuid: GPU-old, by: GPU-new, why: "RMA 4711", item: P1}
"""
)


def with_gpu_1(run, value, uuid, **changes):
    """A run of both GPUs, the second of which has this UUID and value."""
    record = stream(run, {0: RUNS[run % 5], 1: value}, **changes)
    record["document"]["devices"][1]["uuid"] = uuid
    return record


def test_a_replaced_gpu_is_shown_and_its_successor_needs_its_own_runs(tmp_path):
    before = [with_gpu_1(i, 3000.0 + i, "GPU-old") for i in range(5)]
    assert answer(tmp_path, before).statement == "REJECTED"
    for name, after, statement, closed in (
        ("a", [], "INCONCLUSIVE", []),
        ("b", range(5, 8), "INCONCLUSIVE", []),
        ("c", range(5, 10), "ACCEPTED", ["P1"]),
    ):
        (tmp_path / name).mkdir()
        runs = [*before, *(with_gpu_1(i, 4300.0 + i, "GPU-new") for i in after)]
        found = answer(tmp_path / name, runs, REPAIRED)
        assert (found.statement, found.repaired) == (statement, closed), found.reasons
    # what replaced it was replaced in turn, and needs no runs
    again = REPAIRED.replace("GPU-new", "GPU-bad") + "  - {uuid: GPU-bad, by: GPU-new, why: again, item: P1}\n"
    lacks = "GPU GPU-new, which replaced GPU-bad, was not measured"
    for name, of, missing in (("d", runs, []), ("e", before, [lacks])):
        (tmp_path / name).mkdir()
        assert answer(tmp_path / name, of, again).missing_parts == missing
    (one,) = found.requirements
    assert [m.part.uuid for m in one.before] == ["GPU-old"] and one.before[0].result == "NOT MET"
    text = html.document_fromstring(
        signed.render(found, load_catalogue(), "0" * 64, "1" * 64, [], "now")
    ).text_content()
    assert "P1 (closed by repair)" in text and "RMA 4711" in text and "before (NOT MET)" in text


def test_a_wrong_result_of_the_replaced_gpu_alone_is_that_of_the_past(tmp_path):
    wrong = builder.finding("FAIL", "nid001 GPU 1", "nid001 GPU 1: elements differ", "triad.gpu1")
    wrong["subject"] = {"gpu": 1}
    of_both = builder.finding("FAIL", "nid001", "nid001: elements differ")
    note = builder.finding("RECORDED", "nid001", "nid001: it was warm")
    of_link, back, of_rank = ({**of_both, "metric": one} for one in ("a.gpu0-gpu1", "a.gpu1-gpu0", "a.ranks1"))
    good = [with_gpu_1(i, 4300.0 + i, "GPU-new") for i in range(5, 10)]
    for name, findings, statement in (
        ("a", [wrong], "ACCEPTED"), ("b", [wrong, of_both], "REJECTED"), ("c", [wrong, note], "ACCEPTED"),
        ("d", [of_link, back], "ACCEPTED"), ("e", [of_rank], "REJECTED"), ("f", [], "REJECTED"),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        bad = with_gpu_1(0, 4300.0, "GPU-old", verdict="FAIL", findings=findings)
        found = answer(tmp_path / name, [bad, *good], REPAIRED)
        assert found.statement == statement, (name, found.reasons)
        assert bool(found.before_repair) is (statement == "ACCEPTED")


def test_a_session_of_another_system_is_refused_as_such(tmp_path):
    root = store(tmp_path / "archive", [{**one, "system": "miyabi"} for one in five()])
    with pytest.raises(TenkenError, match="session 'S1' is of system miyabi; contract 'deal' covers h200"):
        command.refuse_other_systems(contract_of(tmp_path), root, ("S1",))


def test_the_vendor_has_a_text_with_the_part_the_miss_and_the_command(tmp_path):
    folder = tmp_path / "out"
    root = store(tmp_path / "archive", five())
    command.write(contract_of(tmp_path, CONTRACT.replace("4000", "4400")), root, ("S1",), folder, "now", False)
    texts = [file.read_text() for file in sorted((folder / "evidence").glob("*.txt"))]
    assert len(texts) == 2 and "Part: GPU 0" in texts[0] and "M1 stream.triad" in texts[0]
    assert "repeat: " in texts[0] and "UUID: " in texts[0] and "nid001" not in texts[0]


def test_the_vendor_has_a_text_of_each_fault_that_is_no_missed_bound(tmp_path):
    """A wrong result of a GPU, a link, and a run that left nothing: the part, or the node; old texts are removed."""
    wrong = builder.finding("FAIL", "nid001", "nid001 GPU 1: elements differ", "triad.gpu1")
    link = builder.finding("FAIL", "nid001", "nid001: GPU 0 -> GPU 1: 3 CRC errors", "copy.gpu0-gpu1")
    lost = builder.finding("FAIL", "nid001", "nid001: the job did not run to its end")
    records = [
        *five(), stream(7, {0: 4400, 1: 4400}, verdict="FAIL", findings=[wrong, link]),
        stream(8, {0: 4400, 1: 4400}, verdict="FAIL", findings=[lost]),
    ]  # fmt: skip
    folder = tmp_path / "out"
    (folder / "evidence").mkdir(parents=True)
    (folder / "evidence" / "09-GPU-before.txt").write_text("of an earlier report")
    root = store(tmp_path / "archive", records)
    found, tar, _ = command.write(contract_of(tmp_path), root, ("S1",), folder, "now", False)
    assert found.statement == "REJECTED"
    texts = {file.name: file.read_text() for file in sorted((folder / "evidence").glob("*.txt"))}
    assert len(texts) == 3 and not any("before" in name for name in texts)
    gpu, pair, node = texts.values()
    assert "Part: GPU 1" in gpu and "elements differ" in gpu and "repeat: " in gpu and "UUID: GPU-" in gpu
    assert "Part: GPU 0 → 1" in pair and "3 CRC errors" in pair
    assert "Part: node" in node and "did not run to its end" in node and "nid001" not in node
    with tarfile.open(tar) as packed:
        assert sum(name.startswith("evidence/") for name in packed.getnames()) == 6


def test_a_session_that_was_ended_says_nothing_about_the_machine(tmp_path):
    """Its cases without a record are listed with the INVALID ones; a build that failed stays an exception."""
    for name, cases, statement in (
        ("a", [builder.testcase("StreamHost", "abort", "aborted due to 'ForceExitError'")], "ACCEPTED"),
        ("b", [builder.testcase("StreamHost", "fail", "make: *** [all] Error 2")], "ACCEPTED WITH EXCEPTIONS"),
    ):
        root = tmp_path / name
        builder.write_session(root, five(), [builder.testcase("StreamCuda"), *cases], name="S1")
        found = command.decide(contract_of(tmp_path), command.files_of(root, ("S1",)), ("S1",))
        assert found.statement == statement, (name, found.reasons)
        assert [one.why.split(":")[0] for one in found.invalid] == (["aborted"] if name == "a" else [])


def test_a_run_that_gave_up_before_it_measured_is_invalid_and_not_wrong(tmp_path):
    """A shared host: no value, no verification. With a verification that did not pass it stays wrong."""
    shared = builder.finding("INVALID", "nid001", "nid001: host shared with pid 7: waited 60 s for it")
    for name, checks, statement in (("a", [], "ACCEPTED"), ("b", None, "REJECTED")):
        late = stream(7, {0: 4400, 1: 4400}, verdict="INVALID", findings=[shared])
        found = late["document"]["verification"]
        late["document"]["verification"] = {"passed": False, "checks": found["checks"] if checks is None else checks}
        late["document"].update(metrics=[] if checks is not None else late["document"]["metrics"], status="failed",
                                reason="host shared with pid 7")  # fmt: skip
        (tmp_path / name).mkdir()
        decided = answer(tmp_path / name, [*five(), late])
        assert (decided.statement, len(decided.invalid)) == (statement, 1), decided.reasons


# ---- what is printed and compared ------------------------------------------------------------------------


ANSWER = {
    "release": "0.3.0", "statement": "ACCEPTED", "reasons": ["a"], "damaged": [], "conditions": {"Driver": "580"},
    "requirements": [{"clause": "M1", "worst": 4357.0, "why": "x", "parts": [{"node": "n1"}]}, {"clause": "M2"}],
}  # fmt: skip


def changed(**changes):
    return ANSWER | changes


@pytest.mark.parametrize(("other", "places"), [
    (ANSWER, []), (changed(release="0.4.0"), []), (changed(reasons=["in other words"]), []),
    (changed(reasons=[]), ["/reasons is '1'; archive and contract yield '0'"]),
    (changed(damaged=["x", "y"]), ["/damaged is '0'; archive and contract yield '2'"]),
    (changed(statement="REJECTED"), ["/statement is 'ACCEPTED'; archive and contract yield 'REJECTED'"]),
    (changed(conditions={"Version of the driver": "580"}), []),
    (changed(conditions={"Driver": "590"}), ["/conditions/0 is '580'; archive and contract yield '590'"]),
    (changed(more=1), ["/more is 'None'; archive and contract yield '1'"]),
    (changed(conditions={}), ["/conditions is \"['580']\"; archive and contract yield '[]'"]),
    (changed(requirements=[{**ANSWER["requirements"][0], "why": "y"}, {"clause": "M2"}]), []),
    (changed(requirements=[{**ANSWER["requirements"][0], "worst": 4356.0}, {"clause": "M3"}]),
     ["/requirements/0/worst is '4357.0'; archive and contract yield '4356.0'",
      "/requirements/1/clause is 'M2'; archive and contract yield 'M3'"]),
    (changed(requirements=[{**ANSWER["requirements"][0], "parts": [{"node": "n2"}]}, {"clause": "M2"}]),
     ["/requirements/0/parts/0/node is 'n1'; archive and contract yield 'n2'"]),
])  # fmt: skip
def test_an_answer_differs_where_it_decides(other, places):
    found = list(command._differences(command._decided(ANSWER), command._decided(other), ""))
    assert found == [f"acceptance.json{place}" for place in places]


@pytest.mark.parametrize("lacks", ["contract.yaml", "acceptance.json", "report.html"])
def test_a_tar_without_one_of_its_files_is_no_report(lacks):
    names = (bundle.CONTRACT, bundle.ANSWER, "report.html")
    assert set(names) == {"contract.yaml", "acceptance.json", "report.html"}
    members = {name: b"{}" for name in names if name != lacks}
    assert list(command._against_itself(members)) == [f"{lacks} is missing"]


@pytest.mark.parametrize(
    ("count", "more"), [(50, []), (51, ["CHANGED: … and 1 more"]), (60, ["CHANGED: … and 10 more"])]
)
def test_at_most_fifty_changes_are_listed(count, more, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundle, "read", lambda file: {})
    monkeypatch.setattr(bundle, "faults", lambda file, members: [f"f{at}" for at in range(count)])
    assert command.verify(tmp_path / "x.tar") == 1
    assert capsys.readouterr().out.splitlines() == [*(f"CHANGED: f{at}" for at in range(50)), *more]


@pytest.mark.parametrize(("reasons", "more"), [(0, []), (20, []), (23, ["  … and 3 more in acceptance.json"])])
def test_a_decision_is_printed_by_clause_with_its_first_reasons(reasons, more):
    clause = SimpleNamespace(id="M1", program="stream", metric="triad", sign="≥", bound=3960.0, unit="GB/s")
    worst = SimpleNamespace(median=4360.123, part=SimpleNamespace(name="nid001 GPU 1"))
    rows = [SimpleNamespace(result="MET", clause=clause, check="StreamCuda", worst=worst, why="0123"),
            SimpleNamespace(result="OPEN", clause=clause, check="", worst=None, why="no run")]  # fmt: skip
    said = [f"reason {at}" for at in range(reasons)]
    contract = SimpleNamespace(name="deal")
    found = SimpleNamespace(requirements=rows, statement="REJECTED", contract=contract, records=6, sessions=("a", "b"),
                            reasons=said)  # fmt: skip
    lines = "\n".join(command.lines(found)).splitlines()
    assert lines[0].split() == ["Result", "Clause", "Metric", "Check", "Bound", "Worst", "On", "Why"]
    told = [" ".join(line.split()) for line in lines[2:4]]
    assert told == ["MET M1 stream.triad StreamCuda ≥ 3960 GB/s 4360.1 nid001 GPU 1 0123",
                    "OPEN M1 stream.triad – ≥ 3960 GB/s – – no run"]  # fmt: skip
    assert lines[5:] == ["REJECTED: deal, 6 records of 2 sessions", *(f"  {one}" for one in said[:20]), *more]
