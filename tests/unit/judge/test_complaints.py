"""Messages of the judge that no hardware fault causes, and its small functions on both sides of their bounds."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tenken import counters
from tenken.judge import bounds, completeness, conditions, verdict
from tenken.model import catalogue, judgement, kinds, numbers, pages
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import typed
from tests.support import honest
from tests.support.documents import gpu_document
from tests.support.planted import Fault, put, seen, without
from tests.unit.judge.test_planted import of_metric

SAID = [
    Fault("stream", "an option is missing", "array_bytes is missing; requested: '4Gi'",
          without("parameters.array_bytes")),
    Fault("stream", "a default is missing", "its default is 'none'", without("parameters.inject_fault")),
    Fault("memcopy", "a coordinate", "has the coordinates what; expected none", of_metric("memcpy", at={"what": 1})),
    Fault("daxpy", "another host", "daxpy.host is of host 1; allowed: 0", of_metric("daxpy", subject={"host": 1})),
    Fault("transfer", "a host", "reported for host; expected gpu", of_metric("htod_sweep", subject={"host": 0})),
    Fault("hpcg_ranks", "another number of ranks", "is of 3 ranks; requested: ",
          of_metric("rating", subject={"ranks": 3})),
    Fault("stream", "no GPU", "metric copy is missing: the result lists no GPU", put("devices", [])),
]  # fmt: skip


@pytest.mark.parametrize("fault", SAID, ids=[fault.id for fault in SAID])
def test_a_result_that_is_not_what_was_asked_for_is_named(fault: Fault) -> None:
    seen(fault.judged(), fault.says, fault.id)


def test_values_of_an_invalid_run_cannot_miss() -> None:
    """A GPU that another process computes on: its clock sees the kernels alone (an H200: 4263 and 728 GB/s)."""
    run, raw = honest.run("stream"), honest.run("stream").raw()
    raw["path"] |= {key: value / 6 for key, value in raw["path"].items() if key.startswith("host_clock_gbs")}
    alone = run.judged(raw)
    assert alone.verdict == "FAIL" and "FAIL" in {one.verdict for one in alone.judged.values()}
    put("health.devices.0.worst.other_processes", 1)(raw)
    shared = run.judged(raw)
    assert shared.verdict == "INVALID"
    assert "FAIL" not in {one.verdict for one in (*shared.findings, *shared.judged.values())}
    missed = {name for name, one in alone.judged.items() if one.verdict == "FAIL"}
    assert {shared.judged[name].verdict for name in missed} == {"INVALID"}
    told = [[one.message for one in judged.findings if one.metric] for judged in (alone, shared)]
    assert told[0] == told[1]


def test_a_claimed_capability_that_a_gpu_lacks_is_named() -> None:
    run, raw = honest.run("access_patterns"), honest.run("access_patterns").raw()
    put("devices.0.concurrent_managed_access", False)(raw)
    assert run.judged(raw).verdict == run.verdict
    claimed = replace(run.machine, capabilities=frozenset({"managed"}))
    seen(run.judged(raw, machine=claimed), "concurrent_managed_access false; the system file claims managed")


@pytest.mark.parametrize(
    ("names", "nodes", "wrong"), [(["a", "b"], 2, False), (["a", "b"], 1, True), (["a", "a"], 1, False)]
)
def test_as_many_nodes_as_requested(names: list[str], nodes: int, wrong: bool) -> None:
    run, raw = honest.run("hpcg_ranks"), honest.run("hpcg_ranks").raw()
    put("placement.nodes", names)(raw)
    found = run.judged(raw, request=replace(run.request, nodes=nodes), job=None)
    assert any(f"names {len(set(names))} nodes; requested: {nodes}" in f.message for f in found.findings) is wrong


def test_a_judge_that_fails_passes_nothing() -> None:
    run = honest.run("daxpy")
    found = run.judged(run.raw(), machine=None)
    assert found.verdict == "FAIL" and "cannot be judged: AttributeError" in found.findings[0].message


@pytest.mark.parametrize(("wrong", "expected"), [(True, ("FAIL", "path")), (False, ("RECORDED", "note"))])
def test_messages_that_took_another_way(
    wrong: bool, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = SimpleNamespace(node="n1", text="half of the bytes left by mlx5_1", wrong=wrong)
    monkeypatch.setattr(counters, "paths", lambda *of: [one])
    (found,) = verdict.of_path(SimpleNamespace(path={}), ())  # type: ignore[arg-type]
    assert (found.verdict, found.kind) == expected and found.message == "n1: half of the bytes left by mlx5_1"


def entry(*clocks: float | None) -> Any:
    return SimpleNamespace(
        **dict(zip(("before", "worst", "after"), (SimpleNamespace(sm_clock_mhz=c) for c in clocks), strict=True))
    )


@pytest.mark.parametrize(
    ("clocks", "found"),
    [
        ((1000, 1000, 1000), 1000),
        ((1000, 981, 1000), 981),  # within 2 %
        ((1000, 979, 1000), None),
        ((1000, 1000, 0), None),
        ((1000, None, 1000), None),
        ((1959, 1959, 1959), None),  # 0.98 of the maximum and more: not locked
        ((1955, 1955, 1955), 1955),
        ((601, 601, 601), 601),  # 0.3 of it and less: idle
        ((598, 598, 598), None),
    ],
)
def test_a_locked_clock(clocks: tuple[float | None, ...], found: float | None) -> None:
    assert bounds.locked(entry(*clocks), SimpleNamespace(sm_clock_max_mhz=1995)) == found  # type: ignore[arg-type]


def test_no_gpu_reads_pages_on_the_host_faster_than_its_link_there_and_back() -> None:
    """PCIe Gen4 x16: 31.5 GB/s, each byte read and written, and a fifth."""
    ended = "device 100 % -> host 100 %, device 0 %"
    device = SimpleNamespace(pageable_uses_host_page_tables=False, pcie_generation_max=4, pcie_width_max=16)
    path = {"pages.x.source": ended, "pages.x.destination": ended}
    run: Any = SimpleNamespace(result=SimpleNamespace(path=path, device=lambda index: device))
    one: Any = SimpleNamespace(subject=SimpleNamespace(first=0))
    none, most = pages.pages_of(run, one, "x") or (0, 0)
    assert none is None and most == pytest.approx(1.2 * 2 * 31.508, rel=1e-4)
    for field in ("pcie_generation_max", "pcie_width_max"):
        kept = getattr(device, field)
        setattr(device, field, None)
        assert pages.pages_of(run, one, "x") is None
        setattr(device, field, kept)
    device.pageable_uses_host_page_tables = True
    assert pages.pages_of(run, one, "x") is None
    device.pageable_uses_host_page_tables = False
    path["pages.x.source"] = "host 100 % -> host 99 %, device 1 %"
    assert pages.pages_of(run, one, "x") is None


def health(**fields: tuple[Any, Any, Any]) -> Any:
    """What a GPU said before, during and after a run; all other readings are unknown."""
    known = {"remapping_failed": False, "remapping_pending": False, **dict.fromkeys(ERRORS)}
    parts = [SimpleNamespace(**known, **{}) for _ in range(3)]
    for name, values in fields.items():
        for part, one in zip(parts, values, strict=True):
            setattr(part, name, one)
    return SimpleNamespace(before=parts[0], worst=parts[1], after=parts[2])


ERRORS = ("ecc_corrected", "ecc_uncorrected", "remapped_rows_uncorrectable", "remapped_rows_correctable")


@pytest.mark.parametrize("name", ERRORS)
def test_a_count_that_stood_before_the_run_is_no_error_of_it(name: str) -> None:
    """Not the count, but its rise; a corrected error may be one of the rate that is usual."""
    told = list(conditions._errors(health(**{name: (90, 90, 90)}), 3600.0))
    assert not told
    usual = 4 if name == "ecc_corrected" else 0
    assert not list(conditions._errors(health(**{name: (90, 90 + usual, 90 + usual)}), 3600.0))
    ((kind, text),) = conditions._errors(health(**{name: (90, 91 + usual, 91 + usual)}), 3600.0)
    assert text.startswith(f"{1 + usual} ") and (kind == "FAIL") is ("un" in name)
    ((kind, text),) = conditions._errors(health(**{name: (90, 90, 89)}), 3600.0)
    assert kind == "INVALID" and "back to 89" in text


GIB = 2**30


@pytest.mark.parametrize(
    ("others", "busy", "used", "quiet"),
    [
        ((0, 0, 0), 5, 2 * GIB, None),
        ((1, 1, 1), 5, 2 * GIB, True),  # 5 % busy and 2 GiB held: nothing was done
        ((1, 1, 1), 6, 2 * GIB, False),
        ((1, 1, 1), 5, 4 * GIB, True),  # a twentieth of 80 GiB
        ((1, 1, 1), 5, 4 * GIB + 1, False),
        ((1, 2, 1), 0, 0, False),  # one more came
        ((1, 1, 2), 0, 0, False),
        ((1, 1, 1), None, 0, False),
        ((1, 1, 1), 0, None, False),
    ],
)
@pytest.mark.parametrize("mig", [False, True])
def test_another_process_is_quiet_by_what_it_did_before(
    others: tuple[int, int, int], busy: int | None, used: int | None, quiet: bool | None, mig: bool
) -> None:
    parts = [SimpleNamespace(other_processes=n, utilization_percent=busy, memory_used_bytes=used) for n in others]
    entry: Any = SimpleNamespace(before=parts[0], worst=parts[1], after=parts[2], others_percent=None)
    device: Any = SimpleNamespace(memory_bytes=80 * GIB, mig_enabled=mig)
    told = list(conditions._others(entry, device))
    assert [kind for kind, _ in told] == ([] if quiet is None else ["RECORDED" if quiet or mig else "INVALID"])
    assert all(text.startswith(f"shared with {max(others)} other") for _, text in told)


@pytest.mark.parametrize(("left", "kind"), [(None, "RECORDED"), (5.0, "RECORDED"), (6.0, "INVALID")])
def test_another_process_that_begins_to_work_during_the_run_is_no_note(left: float | None, kind: str) -> None:
    part = SimpleNamespace(other_processes=1, utilization_percent=3, memory_used_bytes=GIB)
    entry: Any = SimpleNamespace(before=part, worst=part, after=part, others_percent=left)
    ((found, text),) = conditions._others(entry, SimpleNamespace(memory_bytes=80 * GIB, mig_enabled=False))  # type: ignore[arg-type]
    assert found == kind and (kind == "RECORDED" or "kept it 6 % busy after it" in text)


@pytest.mark.parametrize(
    ("known", "ceiling", "higher", "expected"),
    [
        ((90.0, 110.0), 102.0, True, (90.0, 102.0)),
        ((90.0, 100.0), 102.0, True, (90.0, 100.0)),
        ((90.0, None), 102.0, True, (90.0, 102.0)),
        (None, 102.0, True, (None, 102.0)),
        ((90.0, 110.0), 95.0, False, (95.0, 110.0)),
        ((98.0, 110.0), 95.0, False, (98.0, 110.0)),
        ((None, 110.0), 95.0, False, (95.0, 110.0)),
        ((90.0, 110.0), None, False, (90.0, 110.0)),
    ],
)
def test_bounds_that_are_shown_end_at_what_is_possible(
    known: tuple[float | None, float | None] | None, ceiling: float | None, higher: bool, expected: tuple[Any, Any]
) -> None:
    metric: Any = SimpleNamespace(direction="higher" if higher else "lower", value=50.0, unit="GB/s")
    criterion: Any = SimpleNamespace(low=known[0], high=known[1]) if known else None
    limit = judgement.Limit(100.0, "GB/s")
    judged = bounds._judged("PASS", metric, 50.0, "median", criterion, limit, ceiling)
    assert judged.bounds == expected and judged.efficiency == (0.5 if higher else 2.0)


def test_how_far_a_value_is_below_the_devices_that_are_known() -> None:
    known: Any = SimpleNamespace(decides=False, values=(100.0, 104.0), middle=102.0)
    run: Any = SimpleNamespace(node="n1")
    for value, told in (
        (97.9, "4.0 % below the 2 H100 known, whose median is 102 and whose lowest is 100"),
        (98.1, ""),
    ):
        metric: Any = SimpleNamespace(id="copy.gpu0", value=value, unit="GB/s", subject=None, place="gpu0")
        said = " ".join(f.message for f in bounds.below_kind(known, run, metric, "H100"))
        assert told in said and bool(said) == bool(told)


@pytest.mark.parametrize(
    ("rates", "rate"),
    [((1.0, 3.0), 1.5), ((2.0,), 2.0), ((), 7.0), ((0.0, 3.0), 7.0), ((-1.0, 3.0), 7.0), ((3.0, 0.0), 7.0)],
)
def test_the_rate_of_the_median_time(rates: tuple[float, ...], rate: float) -> None:
    assert numbers.rate_of_times(rates, 7.0) == pytest.approx(rate)


def test_a_rate_of_the_device_alone() -> None:
    """Of a GPU, by its own clock, and nothing of its host."""
    found: dict[str, set[str]] = {}
    for name, program in catalogue.of_suite().items():
        for metric in program.metrics.values():
            one: Any = SimpleNamespace(name=metric.name, derived=metric.derive is not None, direction=metric.direction,
                                       clock="device", unit=metric.unit)  # fmt: skip
            if kinds.of_device(program, one):
                found.setdefault(name, set()).add(metric.name)
    assert found["transfer"] == {"dtod", "dtod_sm"} and "storage_map" not in found
    assert {"copy", "scale", "add", "triad", "dot"} == found["stream"]
    for field, value in (
        ("derived", True),
        ("clock", "host"),
        ("direction", "lower"),
        ("unit", "s"),
        ("name", "memcpy"),
    ):
        stream = catalogue.of_suite()["stream"]
        changed: Any = SimpleNamespace(name="triad", derived=False, direction="higher", clock="device", unit="GB/s")
        assert kinds.of_device(stream, changed)
        setattr(changed, field, value)
        assert not kinds.of_device(stream, changed)


@pytest.mark.parametrize(
    ("device", "now", "by_pcie", "said"),
    [
        ({}, {}, True, []), ({}, {"pcie_width": 8}, True, ["FAIL hardware: its link has PCIe width 8 under load"]),
        ({}, {"pcie_generation": 4}, False, ["FAIL hardware: its link has PCIe generation 4 under load"]),
        # the slower end counts; without both ends the maximum that the driver reports
        ({"pcie_width_bridge": 8}, {"pcie_width": 8}, True, ["RECORDED PCIe width 8 under load; the maximum is 16"]),
        ({"pcie_width_gpu": 8}, {"pcie_width": 4}, True, ["FAIL hardware: its link has PCIe width 4"]),
        ({"pcie_width_bridge": None}, {"pcie_width": 8}, True, ["INVALID PCIe width 8 under load"]),
        ({"pcie_width_bridge": None}, {"pcie_width": 8}, False, ["RECORDED PCIe width 8 under load"]),
        ({"pcie_generation_gpu": None}, {}, True, ["RECORDED whether its PCIe link is as fast"]),
        ({"pcie_generation_gpu": None}, {}, False, []), ({}, {"pcie_width": None, "pcie_generation": None}, True, []),
        ({"integrated": True}, {"pcie_width": 8}, True, []),
        ({"integrated": True, "pcie_generation_gpu": None}, {}, True, []),
        # links are those of an integrated GPU too
        ({"integrated": True}, {"links": 17}, True, ["FAIL 17 NVLinks were active during the run, 18 before it"]),
        ({}, {"links": 18}, True, []), ({"nvlinks_active": None}, {"links": 17}, True, []),
        ({}, {"links": None}, True, []),
    ],
)  # fmt: skip
def test_a_link_that_is_slower_than_its_ends(
    device: dict[str, Any], now: dict[str, Any], by_pcie: bool, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {f"pcie_{name}_{end}": most for name, most in (("generation", 5), ("width", 16)) for end in ENDS}
    card: Any = SimpleNamespace(
        **{"nvlinks_active": 18, "integrated": False, "pci_bus_id": "a", "pcie_bridge": "b", **ends, **device}
    )
    monkeypatch.setattr(conditions, "_fewest", lambda entry: now.get("links", 18))
    entry: Any = SimpleNamespace(
        worst=SimpleNamespace(
            **{"pcie_generation": 5, "pcie_width": 16, **{k: v for k, v in now.items() if k != "links"}}
        ),
        seconds=1.0,
    )
    found = [" ".join(one) for one in conditions._pcie(entry, card, by_pcie, None)]
    assert len(found) == len(said) and all(one.startswith(text) for one, text in zip(found, said, strict=True)), found
    assert list(conditions._pcie(entry, None, by_pcie, None)) == []


#: Of a link: what the driver reports, what the GPU can, and what the other end can.
ENDS = ("max", "gpu", "bridge")


@pytest.mark.parametrize(
    ("watched_by", "ranks", "subjects", "measured", "samples", "unread"),
    [
        # which of two GPUs was not watched during the timed part: only the first rank watches its own GPU
        ("all", 2, ("gpu",), [0], [3, 0], [1]),
        ("first rank", 2, ("gpu",), [0], [3, 0], []),
        ("first rank", 2, ("gpu",), [0, 1], [3, 0], [1]),
        ("first rank", 1, ("gpu",), [0], [3, 0], [1]),
        # copies by the CPU have no timed part on a GPU
        ("all", 1, ("host",), [], [0, 0], []),
        ("all", 1, ("host", "gpu"), [], [0, 0], [0, 1]),
        ("all", 1, (), [], [0, 0], [0, 1]),
        ("all", 1, ("host",), [0], [0, 0], [0]),
        ("first rank", 2, ("host",), [], [3, 3], []),
    ],
)
def test_which_gpus_must_be_watched(
    watched_by: str, ranks: int, subjects: tuple[str, ...], measured: list[int], samples: list[int], unread: list[int]
) -> None:
    raw = gpu_document(gpus=2)
    raw["metrics"] = [one for one in raw["metrics"] if one["subject"]["gpu"] in measured]
    for one, count in zip(raw["health"]["devices"], samples, strict=True):
        one["samples"] = count
    run = typed(raw)
    run = replace(run, placement=replace(run.placement, ranks=ranks))
    program = catalogue.of_suite()["stream"]
    program = replace(program, contract=replace(program.contract, watched_by=watched_by))
    found = list(conditions._all(run, program, Request(None, "stream", subjects=subjects)))
    said = [(one.first, text) for verdict, one, text in found if verdict == "INVALID" and one]
    assert [gpu for gpu, text in said if "not sampled during the timed part" in text] == unread


def of_nid17(raw: Any) -> list[judgement.Finding]:
    found = conditions.of(typed(raw), catalogue.of_suite()["stream"], Request(None, "stream"), Machine())
    return [one for one in found if one.node == "nid17"]


@pytest.mark.parametrize(
    ("part", "changed", "said"),
    [
        ("worst", {}, ""),
        ("worst", {"reasons": ["hw_thermal_slowdown"]}, "INVALID nid17 GPU 3: throttled during the timed part"),
        ("worst", {"reasons": ["sw_power_cap"]}, ""),
        ("after", {"ecc_uncorrected": 1}, "FAIL nid17 GPU 3: 1 uncorrected ECC errors during the run"),
        ("after", {"remapping_pending": True}, "FAIL nid17 GPU 3: hardware: row remapping is pending"),
        ("worst", {"other_processes": 1}, "INVALID nid17 GPU 3: shared with 1 other processes"),
        (None, {"xids": [79]}, "FAIL nid17 GPU 3: hardware: XID 79"),
        (None, {"samples": 0}, "INVALID nid17 GPU 3: health was not sampled during the timed part"),
    ],
)
def test_what_voids_a_run_on_the_gpus_of_its_other_nodes_names_them(
    part: str | None, changed: dict[str, Any], said: str
) -> None:
    raw = gpu_document(gpus=2)
    one = {**copy.deepcopy(raw["health"]["devices"][1]), "index": 3, "node": "nid17.cluster"}
    (one if part is None else one[part]).update(changed)
    raw["health"]["elsewhere"] = [one]
    found = of_nid17(raw)
    assert len(found) == bool(said) and all(f"{f.verdict} {f.message}".startswith(said) for f in found), found


def test_an_idle_process_on_another_node_is_no_reason() -> None:
    raw = gpu_document(gpus=2)
    one = {**copy.deepcopy(raw["health"]["devices"][1]), "index": 3, "node": "nid17"}
    for when in ("before", "worst", "after"):
        one[when].update(other_processes=1, utilization_percent=0, memory_used_bytes=10**9)
    raw["health"]["elsewhere"] = [one]
    assert of_nid17(raw) == []
    one["before"]["utilization_percent"] = 50
    assert [found.verdict for found in of_nid17(raw)] == ["INVALID"]


def test_true_is_not_1() -> None:
    run: Any = SimpleNamespace(parameters={"a": True, "b": 1, "c": 2.0, "d": False})
    request = Request(None, "x", parameters={"a": 1, "b": True, "c": 2, "d": False, "e": None})
    assert list(completeness.parameters(run, request)) == [
        "parameter a is True; requested: 1", "parameter b is 1; requested: True",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "first", "ranks", "said"),
    [
        ("ranks", 4, 4, ""),
        ("ranks", 2, 4, ""),
        ("ranks", 6, 4, ""),
        ("ranks", 3, 4, "is of 3 ranks; requested: 2, 4, 6"),
        ("ranks", 3, None, ""),
        ("gpu", 3, 4, ""),
        ("host", 0, 4, ""),
        ("host", 3, 4, "is of host 3; allowed: 0"),
    ],
)
def test_ranks_are_those_of_the_job_its_gpus_or_what_the_program_counts(
    kind: str, first: int, ranks: int | None, said: str
) -> None:
    """A job of four ranks on two GPUs whose program counts six parts."""
    metric = SimpleNamespace(id="m", kind=kind, subject=SimpleNamespace(first=first))
    run: Any = SimpleNamespace(devices=[0, 1], parameters={"parts": 6, "others": 0}, metrics=[metric])
    program: Any = SimpleNamespace(contract=SimpleNamespace(counts=("parts", "others", "none")))
    found = list(completeness._subjects(run, program, Request(None, "x", ranks=ranks)))
    assert found == ([f"m {said}"] if said else [])


@pytest.mark.parametrize(
    ("subjects", "kind", "asked", "missing"),
    [
        ("each", "gpu", ("gpu",), ["gpu2"]),
        ("each", "gpu", ("host",), []),
        ("any", "gpu", ("gpu",), []),
        # without access of GPU 1 to GPU 0 there is one pair less
        ("each", "pair", ("pair", "gpu"), ["gpu0-gpu2", "gpu1-gpu2", "gpu2-gpu0", "gpu2-gpu1"]),
        ("each", "pair", ("gpu",), []),
        ("each", "ranks", ("ranks",), []),
    ],
)
def test_each_gpu_and_pair_that_was_requested_must_come(
    subjects: str, kind: str, asked: tuple[str, ...], missing: list[str]
) -> None:
    devices = [SimpleNamespace(index=index) for index in (2, 0, 1)]
    run: Any = SimpleNamespace(devices=devices, without_access=lambda: frozenset({(1, 0)}))
    entry: Any = SimpleNamespace(subjects=subjects, at={})
    come = {"gpu": ["gpu0", "gpu1"], "pair": ["gpu0-gpu1"], "ranks": []}[kind]
    by_subject: Any = {name: {()} for name in come}
    found = completeness._of_subjects(run, Request(None, "x", subjects=asked), "m", kind, by_subject, entry)
    assert list(found) == [f"metric m of {one} is missing" for one in missing]
