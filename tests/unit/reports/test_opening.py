"""How a page begins."""

from __future__ import annotations

import re

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
