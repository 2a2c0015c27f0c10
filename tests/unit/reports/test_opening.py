"""How a page begins."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from lxml import html

from tenken.report import opening, page, session
from tests.unit.reports import builder


def render(tmp_path, records, **options) -> str:
    text = page.render(session.load(builder.write_session(tmp_path, records, **options), "last"), builder.CATALOGUE)
    return re.sub(r"\s+", " ", html.document_fromstring(text).text_content())


def stream(check="StreamCuda", verdict="PASS", gpus=1, reference=None, **changes):
    subject = {"gpu": 0} if gpus else {"host": 0}
    limit = {"value": 4800.0, "unit": "GB/s", "basis": "data sheet: H200"}
    entry = builder.metric("triad", subject, builder.noisy(4400.0, 20))
    judged = {entry["id"]: builder.judgement(entry, limit, reference)}
    return builder.record(check, builder.document("stream", [entry], gpus, limit), verdict, judged, **changes)


def test_the_machine_comes_before_everything_else(tmp_path):
    text = render(tmp_path, [stream(gpus=2)])
    following, verdicts = text.index("Next:"), text.index("All verdicts")
    assert following < text.index("This machine") < verdicts
    head = text[following:verdicts]
    for words in (
        "Xeon Platinum 8468, 2 sockets, 96 cores",
        "2 × NVIDIA H200",
        "driver 580.95.05, CUDA 13.0",
        "18 links of a GPU active",
    ):
        assert words in head, words


def test_what_looking_found_fills_in_what_no_program_says(tmp_path):
    plan = {**builder.PLAN, "machine": [["Power limit", "700 W"], ["Processor", "not this one"]]}
    text = render(tmp_path, [stream()], plan=plan)
    assert "Power limit700 W" in text
    assert "not this one" not in text  # the program saw the processor itself


def test_a_machine_of_which_nothing_ran_is_still_told(tmp_path):
    plan = {**builder.PLAN, "machine": [["GPUs", "1 × NVIDIA H200"], "damaged", ["one"], [None, 3]]}
    assert "1 × NVIDIA H200" in render(tmp_path, [], plan=plan)


def test_values_are_counted_by_what_they_were_held_against(tmp_path):
    text = render(tmp_path, [stream("One", reference=4400.0), stream("Two"), stream("Three")])
    assert "reference: 1 value, a value known for this machine" in text
    assert "floor: 2 values, a minimum fraction of the physical limit" in text
    assert "contract: " not in text


def steps(tmp_path, records, **options):
    found = session.load(builder.write_session(tmp_path, records, **options), "last")
    return opening.next_steps(found, ())


def test_what_failed_is_run_again_by_its_command(tmp_path):
    found = steps(tmp_path, [stream("P2P", "FAIL"), stream("StreamCuda", "PASS")])
    command = "reframe -c checks -r --system h200 --mode acceptance -n P2P"
    assert ("Repair what failed, then rerun only those checks:", command) in found


def test_a_first_run_leads_to_a_full_one_and_to_a_file(tmp_path):
    changes = {"system": "local", "mode": "quick"}
    found = dict(steps(tmp_path, [stream(**changes)], plan={**builder.PLAN, "system": "local"}))
    assert "make run SYSTEM=local MODE=acceptance" in found.values()
    assert "tenken systems new NAME --scheduler local" in found.values()
    assert not any("failed" in text or "void" in text for text in found)


def test_a_machine_without_references_is_led_to_them(tmp_path):
    assert ("Propose references from runs on this machine:", "tenken propose h200") in steps(tmp_path, [stream()])


def test_results_of_two_systems_have_no_common_next_step(tmp_path):
    assert steps(tmp_path, [stream("One", "FAIL", system="a"), stream("Two", system="b")]) == []


def test_a_program_of_others_does_not_describe_the_host(tmp_path):
    other = builder.document("stream", [builder.metric("triad", {"host": 0}, builder.noisy(200.0, 20))], 0)
    other["parameters"] = {**other["parameters"], "implementation": "hpcc"}
    other["host"] = {**other["host"], "cpu": "", "sockets": None, "cores": None, "logical_cpus": 1}
    text = render(tmp_path, [stream(), builder.record("StreamSite", other)])
    head = text[text.index("This machine") : text.index("All verdicts")]
    assert "Xeon Platinum 8468, 2 sockets, 96 cores" in head and "1 logical CPU" not in head


def device(**changes):
    return SimpleNamespace(**{
        "name": "NVIDIA H200", "memory_bytes": 141 * 2**30, "compute_capability": "9.0", "ecc_enabled": None,
        "mig_enabled": None, "driver": "580.95", "cuda_driver": "13.0", "cuda_runtime": "12.9", "nvlinks_active": None,
        "nvlinks_total": None, "nvlink_gbs_per_link": None, "pcie_generation_max": 5, "pcie_width_max": 16, **changes,
    })  # fmt: skip


@pytest.mark.parametrize(("describe", "changes", "text"), [
    (opening._gpu, {}, "NVIDIA H200, 141 GiB, compute capability 9.0"),
    (opening._gpu, {"ecc_enabled": True, "mig_enabled": False},
     "NVIDIA H200, 141 GiB, compute capability 9.0, ECC on"),
    (opening._gpu, {"ecc_enabled": False, "mig_enabled": True},
     "NVIDIA H200, 141 GiB, compute capability 9.0, ECC off, MIG on"),
    (opening._driver, {}, "driver 580.95, CUDA 13.0, runtime 12.9"),
    (opening._driver, {"cuda_driver": "", "driver": ""}, "runtime 12.9"),
    (opening._nvlink, {"nvlinks_total": 18}, ""),
    (opening._nvlink, {"nvlinks_active": 0, "nvlinks_total": 18}, "0 of 18 links of a GPU active"),
    (opening._nvlink, {"nvlinks_active": 18, "nvlink_gbs_per_link": 26.562},
     "18 links of a GPU active, 26.56 GB/s each"),
    (opening._pcie, {}, "Gen5 x16 at most"), (opening._pcie, {"pcie_width_max": None}, ""),
    (opening._pcie, {"pcie_generation_max": None}, ""),
])  # fmt: skip
def test_a_gpu_is_described_by_what_it_states(describe, changes, text):
    assert describe(device(**changes)) == text


@pytest.mark.parametrize(("changes", "text"), [
    ({}, "Xeon, 1 socket, 48 cores, 96 logical CPUs, 2 NUMA nodes"),
    ({"cpu": ""}, "1 socket, 48 cores, 96 logical CPUs, 2 NUMA nodes"),
    ({"sockets": 2, "cores": None, "numa_nodes": 1}, "Xeon, 2 sockets, 96 logical CPUs, 1 NUMA node"),
])  # fmt: skip
def test_processors_are_counted_by_their_parts(changes, text):
    host = {"cpu": "Xeon", "sockets": 1, "cores": 48, "logical_cpus": 96, "numa_nodes": 2, **changes}
    assert opening.processor(SimpleNamespace(**host)) == text


@pytest.mark.parametrize(("texts", "counted", "either"), [
    (["a"], "a", "a"), (["a", "a"], "2 × a", "a"), (["a", "b", "a"], "2 × a; 1 × b", "2 × a; 1 × b"), ([], "", ""),
    (["", "a"], "1 × a", "1 × a"),
])  # fmt: skip
def test_what_is_alike_is_counted(texts, counted, either):
    assert (opening._counted(iter(texts)), opening._either(iter(texts))) == (counted, either)


def test_criteria_are_counted_with_the_strongest_first_and_none_last():
    rows = [SimpleNamespace(criterion=one) for one in ["", "floor", "kind", "floor", "contract", ""]]
    assert opening.judged_by(rows) == [
        ("contract", "1 value, a target agreed with the vendor"),
        ("kind", "1 value, what other devices of this model reached"),
        ("floor", "2 values, a minimum fraction of the physical limit"),
        ("no criterion", "2 values, recorded without a criterion"),
    ]


def case(check, verdict="PASS", system="h200", mode="nightly", build=False, record=True):
    return SimpleNamespace(
        base_check=check, verdict=verdict, system=system, build=build,
        record=SimpleNamespace(mode=mode) if record else None, result=None,
    )  # fmt: skip


REPAIR, RERUN = "Repair what failed, then rerun only those checks:", "Rerun the INVALID checks:"
PROPOSE = ("Propose references from runs on this machine:", "tenken propose h200")
TO_JUDGE = ("RECORDED values need a reference or a contract before they can pass or fail.", "")


@pytest.mark.parametrize(("cases", "criteria", "steps"), [
    ([case("A")], ["reference"], []), ([case("A")], ["floor"], [PROPOSE]), ([case("A")], ["contract", ""], []),
    ([case("A", "RECORDED")], ["contract"], [TO_JUDGE]),
    ([case("A", "FAIL"), case("B c", "FAIL"), case("A", "FAIL"), case("C", "INVALID")], ["reference"], [
        (REPAIR, "reframe -c checks -r --system h200 --mode nightly -n 'A|B c'"),
        (RERUN, "reframe -c checks -r --system h200 --mode nightly -n C"),
    ]),
    ([case("A", "FAIL", build=True)], ["reference"], []),
    ([case(f"c{i}", "FAIL") for i in range(13)], ["reference"],
     [(REPAIR, "reframe -c checks -r --system h200 --mode nightly")]),
    ([case("A", "FAIL"), case("B", mode="quick")], ["reference"],
     [(REPAIR, "reframe -c checks -r --system h200 -n A")]),
    ([case("A", mode="quick")], ["reference"],
     [("Measure at full size; a quick run gives a first impression:", "make run SYSTEM=h200 MODE=acceptance")]),
    ([case("A", record=False)], ["reference"], []),
    ([case("A", system="local")], ["floor"],
     [("Create a system file for this machine, which contains its references:",
       "tenken systems new NAME --scheduler local")]),
    ([], ["reference"], []), ([case("A"), case("B", "FAIL", system="other")], ["floor"], []),
])  # fmt: skip
def test_next_steps_follow_from_verdicts_criteria_and_mode(cases, criteria, steps):
    session = SimpleNamespace(counted=cases, plan={"mode": "nightly"}, nothing_was_run=False)
    rows = [SimpleNamespace(criterion=one) for one in criteria]
    assert opening.next_steps(session, rows) == steps
    of_nothing = SimpleNamespace(counted=cases, plan={}, nothing_was_run=True)
    assert opening.next_steps(of_nothing, rows) == [one for one in steps if one[0] in (REPAIR, RERUN)]


def test_twelve_checks_are_named_to_run_again():
    command = opening._again([case(f"c{i}") for i in range(12)], "h200", "")
    assert command == f"reframe -c checks -r --system h200 -n '{'|'.join(f'c{i}' for i in range(12))}'"


def test_what_was_detected_is_told_if_it_is_a_pair_of_texts():
    plan = {"machine": [["GPUs", "4"], ["", "x"], ["x", ""], ["a", "b", "c"], "ab", ["Memory", 3]]}
    assert opening._looked(plan) == [("GPUs", "4"), ("Memory", "3")]
    assert opening._looked({"machine": "damaged"}) == opening._looked({}) == []
