"""Figures of one result compared with each other: passing ones are just inside their bound, failing ones just
outside."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenken.judge import bounds, completeness, relations, verdict
from tenken.model.catalogue import load_catalogue, load_program, of_suite
from tenken.model.expectation import Expectation
from tenken.model.machine import Machine
from tenken.model.request import Request
from tenken.model.result import MetricValue, validate
from tenken.model.subject import Coordinates, Subject
from tenken.paths import ROOT
from tests.reframe.checks import test_file_cross_checks as files
from tests.reframe.checks.test_h200_verdicts import captured
from tests.reframe.checks.test_links import four_gpus, judge, scaled
from tests.support.documents import gpu_document, spoiled
from tests.support.judging import related

BOTH = ((0, 1), (1, 0))


def linked(text: str) -> dict[str, Any]:
    def change(raw: dict[str, Any]) -> None:
        for start, end in BOTH:
            raw["path"][f"link.gpu{start}-gpu{end}"] = text

    return spoiled(captured("p2p-two-gpus"), change)


@pytest.mark.parametrize(("count", "expected"), [(18, "PASS"), (17, "FAIL"), (16, "FAIL"), (9, "FAIL"), (1, "FAIL")])
def test_all_18_links_of_a_pair_must_be_active(count: int, expected: str) -> None:
    found = judge(linked(f"{count} x NVLink through a switch"))
    assert found.verdict == expected
    if expected == "FAIL":
        (one, other) = found.findings
        assert (one.value, one.bound) == (other.value, other.bound) == (count, 18)
        assert one.miss == pytest.approx((18 - count) / 18)


def test_one_link_down_in_one_direction_is_enough() -> None:
    one = spoiled(
        captured("p2p-two-gpus"), lambda d: d["path"].update({"link.gpu1-gpu0": "17 x NVLink through a switch"})
    )
    assert judge(one).verdict == "FAIL"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(18, "PASS"), (17, "FAIL"), (0, "FAIL"), (None, "PASS"), ("18", "FAIL"), (True, "FAIL"), (18.0, "FAIL")],
)
def test_the_count_is_data_and_no_sentence_is_read_for_it(count: object, expected: str) -> None:
    """null: not reported by the driver. Anything but a whole number is not a count, whatever the sentence contains."""
    for text in ("18 x NVLink through a switch", "all of them"):
        raw = linked(text)
        for start, end in BOTH:
            pair = f"gpu{start}-gpu{end}"
            raw["path"] |= {f"link_count.{pair}": count, f"link_kind.{pair}": "NVLink through a switch"}
        assert judge(raw).verdict == expected


def test_gpus_that_nothing_but_pcie_joins_have_no_link() -> None:
    assert judge(linked("PCIe")).verdict == "FAIL"


def pair_at(factor: float, *names: str, pair: tuple[int, int] | None = None) -> str:
    return judge(spoiled(captured("p2p-two-gpus"), lambda d: scaled(d, factor, *names, pair=pair))).verdict


@pytest.mark.parametrize(("of_plain", "expected"), [(0.981, "PASS"), (0.979, "FAIL"), (0.9, "FAIL")])
def test_a_peer_copy_reaches_0_98_of_the_plain_one(of_plain: float, expected: str) -> None:
    def change(raw: dict[str, Any]) -> None:
        plain = {str(m["subject"]): m for m in raw["metrics"] if m["name"] == "memcpy_peer" and not m.get("at")}
        for one in raw["metrics"]:
            if one["name"] == "peer" and not one.get("at"):
                factor = of_plain * plain[str(one["subject"])]["value"] / one["value"]
                scaled(raw, factor, "peer", pair=(one["subject"]["from"], one["subject"]["to"]))

    found = judge(spoiled(captured("p2p-two-gpus"), change))
    assert found.verdict == expected
    assert ("of plain cudaMemcpyPeer in the same job" in found.message()) is (expected == "FAIL")


@pytest.mark.parametrize(("of_staged", "expected"), [(1.21, 0), (1.19, 2), (0.5, 2)])
def test_a_copy_that_goes_straight_is_a_fifth_faster_than_one_through_the_host(of_staged: float, expected: int) -> None:
    def change(raw: dict[str, Any]) -> None:
        peer = {str(m["subject"]): m["value"] for m in raw["metrics"] if m["name"] == "peer" and not m.get("at")}
        for one in raw["metrics"]:
            if one["name"] == "driver_staged" and not one.get("at"):
                factor = peer[str(one["subject"])] / of_staged / one["value"]
                scaled(raw, factor, "driver_staged", pair=(one["subject"]["from"], one["subject"]["to"]))

    found = judge(spoiled(captured("p2p-two-gpus"), change)).findings
    # the value is the pair's own, the bound 1.2 of the path through the host
    straight = [f for f in found if f.metric and f.metric.startswith("peer.") and f.bound]
    near = [f for f in straight if f.bound == pytest.approx(1.2 * f.value / of_staged, rel=1e-6)]
    assert len(near) == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.97, "PASS"), (0.95, "FAIL"), (0.91, "FAIL")])
def test_the_two_directions_of_a_pair_are_alike_to_4_percent(factor: float, expected: str) -> None:
    assert pair_at(factor, "peer", "memcpy_peer", pair=(1, 0)) == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.95, "PASS"), (0.93, "FAIL")])
def test_kernels_over_a_link_are_alike_to_6_percent(factor: float, expected: str) -> None:
    assert pair_at(factor, "write", pair=(1, 0)) == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.94, "PASS"), (0.92, "FAIL"), (0.8, "FAIL")])
def test_a_pair_behind_the_others_of_its_class_is_named(factor: float, expected: str) -> None:
    def slow(raw: dict[str, Any]) -> None:
        scaled(raw, factor, "peer", "memcpy_peer", pair=(2, 3))
        scaled(raw, factor, "peer", "memcpy_peer", pair=(3, 2))

    found = judge(spoiled(four_gpus(), slow), gpus=4)
    assert found.verdict == expected == found.judged["peer.gpu2-gpu3"].verdict, "the heat map frames it"
    assert found.judged["peer.gpu0-gpu1"].verdict == "PASS"
    assert (" % behind the 12 pairs joined alike" in found.message()) is (expected == "FAIL")
    named = {f.metric for f in found.findings}
    assert named == (
        set()
        if expected == "PASS"
        else {f"{name}.gpu{a}-gpu{b}" for name in ("peer", "memcpy_peer") for a, b in ((2, 3), (3, 2))}
    )


def test_a_pair_ahead_of_its_class_is_not_at_fault() -> None:
    def fast(raw: dict[str, Any]) -> None:
        for pair in ((2, 3), (3, 2)):
            scaled(raw, 1.1, "peer", "memcpy_peer", pair=pair)

    found = judge(spoiled(four_gpus(), fast), gpus=4)
    assert found.verdict == "PASS", found.message()


@pytest.mark.parametrize(("node", "expected"), [(1, "PASS"), (0, "FAIL")])
def test_pairs_of_two_sockets_are_compared_with_one_another_alone(node: int, expected: str) -> None:
    def slow(raw: dict[str, Any]) -> None:
        for device in raw["devices"]:
            device["numa_node"] = node if device["index"] == 3 else 0
        for pair in ((a, b) for a in range(4) for b in range(4) if a != b and 3 in (a, b)):
            scaled(raw, 0.86, "peer", "memcpy_peer", pair=pair)

    assert judge(spoiled(four_gpus(), slow), gpus=4).verdict == expected


@pytest.mark.parametrize(("access", "claimed", "expected"), [(True, True, "PASS"), (False, True, "FAIL")])
def test_claimed_peer_access_that_is_not_there_fails(access: bool, claimed: bool, expected: str) -> None:
    one = spoiled(captured("p2p-two-gpus"), lambda d: d["path"].update({"peer_access.gpu0-gpu1": access}))
    found = judge(one, claimed=claimed)
    assert found.verdict == expected
    assert ("the system file claims 'peer'" in found.message()) == (expected == "FAIL")


def verdicts(found: list[Any]) -> list[str]:
    return [finding.verdict for finding in found]


@pytest.mark.parametrize(("ratio", "expected"), [(0.90, []), (0.899, ["FAIL"]), (0.5, ["FAIL"])])
def test_the_packed_layout_reaches_0_9_of_the_other(ratio: float, expected: list[str]) -> None:
    one = files.pairs("write_hyperslab_over_asis", [ratio] * 20, method="posix", particles=1)
    assert verdicts(related(files.document_of("snapshot_io", one))[0]) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(0.95, []), (0.949, ["FAIL"]), (0.6, ["FAIL"])])
def test_the_choice_by_a_map_reaches_0_95_of_the_best_way(ratio: float, expected: list[str]) -> None:
    one = files.pairs("adaptive_over_best", [ratio] * 20, bytes=4096, situation="write")
    assert verdicts(related(files.document_of("storage_map", one))[0]) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(0.80, []), (0.799, ["FAIL"]), (0.5, ["FAIL"])])
def test_a_cached_file_reaches_0_8_of_the_slower_half(ratio: float, expected: list[str]) -> None:
    one = files.ratio("pinned_read_over_least", ratio)
    assert verdicts(related(files.document_of("storage_map", one))[0]) == expected


@pytest.mark.parametrize(("path", "expected"), [({}, []), ({"still_cached.256ki": 0.25}, ["INVALID"])])
def test_a_file_that_was_still_in_memory_is_no_cold_one(path: dict[str, Any], expected: list[str]) -> None:
    """Any page that mincore finds there voids the run: a note next to 7.6 GB/s of a disk would be overlooked."""
    one = files.pairs("read_cold", [1.0] * 5, bytes=2**18, io_config="posix_4ki_1")
    result = files.document_of("storage_map", one)
    result = replace(result, path={**result.path, **path})
    found = completeness.choices(result, load_catalogue()["storage_map"], Request(None, "storage_map"), Machine())
    assert [finding.verdict for finding in found] == expected


@pytest.mark.parametrize(("pairs", "expected"), [(14, ["RECORDED"]), (15, ["FAIL"])])
def test_a_failure_is_proven_or_undecided(pairs: int, expected: list[str]) -> None:
    """All below the bound by chance: 2^-14 is more than 0.00005, 2^-15 less."""
    one = files.pairs("adaptive_over_best", [0.9] * pairs, bytes=4096, situation="write")
    assert verdicts(related(files.document_of("storage_map", one))[0]) == expected


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("said", "samples", "expected"), [
    ({}, 1, "FAIL"), ({"verdict": "INVALID"}, 1, "INVALID"), ({"verdict": "RECORDED"}, 1, "RECORDED"),
    ({"proof": "pairs"}, 14, "RECORDED"), ({"proof": "pairs"}, 15, "FAIL"), ({"proof": "rounds"}, 2, "FAIL"),
    ({"proof": "pairs", "verdict": "INVALID"}, 14, "INVALID"),
])  # fmt: skip
def test_each_kind_of_bound_is_held_at_its_end_from_both_sides(
    side: int, said: dict[str, str], samples: int, expected: str
) -> None:
    run = SimpleNamespace(result=files.document_of("storage_map", files.pairs("adaptive_over_best", [1.0])))
    bounds = (1.0, None) if side == 1 else (None, 1.0)
    for beyond, found in ((-1e-9, []), (0, []), (1e-9, [expected])):
        values = tuple(1 - side * (beyond + i * 1e-12) for i in range(samples)) if beyond else (1.0,) * samples
        metric = replace(run.result.metrics[0], value=1 - side * beyond, samples=values, count=samples)
        made = relations._missed(cast(Any, run), metric, Expectation("x", **cast(Any, said)), *bounds)
        assert verdicts(made) == found
        if found == ["FAIL"] and said:  # one round of so few that reaches the bound leaves it open
            metric = replace(metric, samples=(*values, 1.0))
            made = relations._missed(cast(Any, run), metric, Expectation("x", **cast(Any, said)), *bounds)
            assert verdicts(made) == ["RECORDED"]


def value(of: float, gpu: int = 0, lower: bool = False, name: str = "one", **at: Any) -> MetricValue:
    one = files.document_of("storage_map", files.pairs("adaptive_over_best", [1.0])).metrics[0]
    said = {"direction": "lower" if lower else "higher", "at": Coordinates.of(at), "subject": Subject("gpu", gpu)}
    return replace(one, name=name, value=of, **cast(Any, said))


def test_only_the_best_of_each_subject_or_those_at_the_largest_coordinate() -> None:
    some = [
        value(2, 0, a=1, b=1),
        value(3, 0, a=2, b=1),
        value(1, 0, a=3, b=2),
        value(9, 1, a=2, b=1),
        value(7, 1, b=1),
    ]
    least = [replace(one, direction="lower") for one in some]
    for metrics, only, found in (
        (some, "", [2, 3, 1, 9, 7]), (some, "best", [3, 9]), (least, "best", [1, 7]), (some, "a", [3, 1, 9]),
        (some, "b", [2, 3, 1, 9, 7]), (least, "a", [3, 1, 9]),
    ):  # fmt: skip
        assert [one.value for one in relations._only(metrics, only)] == found, only


@pytest.mark.parametrize("lower", [False, True])
def test_the_line_through_neighbours_is_that_of_one_sweep(lower: bool) -> None:
    """Each sweep has its own latency; sizes come in any order, and points without a size or a value are none."""
    sweeps = {(0, "one", 1): 1.0, (1, "one", 1): 3.0, (0, "two", 1): 7.0, (0, "one", 2): 20.0}
    metrics = [
        value((late + size) if lower else size / (late + size), gpu, lower, name, bytes=size, way=way)
        for size in (8, 1, 4, 2) for (gpu, name, way), late in sweeps.items()
    ]  # fmt: skip
    metrics += [value(0, 0, lower, bytes=3, way=1), value(5, 0, lower, way=1), value(5, 0, lower, bytes=0, way=1)]
    found = list(relations._between(metrics, Expectation("x", sweep="bytes", times=1.25)))
    assert len(found) == 8 and {one.at["bytes"] for one, _, _ in found} == {2, 4}
    for one, low, high in found:
        assert (high, low) == (
            (pytest.approx(1.25 * one.value), None) if lower else (None, pytest.approx(one.value / 1.25))
        )


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("kind", "share", "spread"), [
    ("gpu", 0.25, 0), ("gpu", 0.375, 0.125), ("pair", 0.25, 0), ("pair", 0.375, 0.125), ("other way", 0.15, 0),
])  # fmt: skip
def test_how_far_behind_is_too_far(kind: str, share: float, spread: float, lower: bool) -> None:
    run = SimpleNamespace(result=files.document_of("storage_map", files.pairs("adaptive_over_best", [1.0])))
    for beyond, count in ((-1e-9, 0), (1e-9, 1)):
        one = value(64 * (1 + share + beyond if lower else 1 - share - beyond), lower=lower)
        one = replace(one, best=one.value, median=one.value * (1 - spread), subject=Subject(kind.split()[0], 0, 1))
        other = replace(one, value=64.0)
        alike, back = ([one.value, 64.0, 64.0, 64.0], None) if kind != "other way" else ([one.value, 64.0], other)
        found = list(relations._behind(cast(Any, run), one, sorted(alike), back, 0.25))
        assert len(found) == count, found
        for finding in found:
            said = (f" is {100 * share:.1f} % behind ", "(median 64 ", f"; at most {100 * share:.1f} %")
            assert all(part in finding.message for part in said) and finding.bound == 64
    if kind == "pair":  # of three or more that are joined alike
        for many, count in ((2, 0), (3, 1)):
            one = replace(one, value=640.0 if lower else 6.4)
            found = list(relations._behind(cast(Any, run), one, sorted([one.value] + [64.0] * (many - 1)), None, 0.25))
            assert len(found) == count


#: Three values below 10, of GPU 0 at way 1, of GPU 1 at way 2 and of GPU 1 at way 3: those that each expectation holds.
CHOSEN = [
    ({}, "acceptance", ["0.1", "1.2", "1.3"]),
    ({"of": ("pair",)}, "acceptance", []),
    ({"where": {"way": (2, 3)}}, "acceptance", ["1.2", "1.3"]),
    ({"where": {"way": (2,), "bytes": (1,)}}, "acceptance", []),
    ({"only": "best"}, "acceptance", ["0.1", "1.3"]),
    ({"only": "way"}, "acceptance", ["0.1", "1.3"]),
    ({"not_in": ("quick",)}, "quick", []),
    ({"not_in": ("quick",)}, "acceptance", ["0.1", "1.2", "1.3"]),
    ({"claimed": "peer"}, "acceptance", []),
    ({"claimed": "numa"}, "acceptance", ["0.1", "1.2", "1.3"]),
    ({"function": lambda run, one: None}, "acceptance", []),
    ({"function": lambda run, one: (None, None)}, "acceptance", []),
    ({"function": lambda run, one: (10.0, None) if one.at["way"] == 2 else None}, "acceptance", ["1.2"]),
]


@pytest.mark.parametrize(("said", "mode", "held"), CHOSEN)
@pytest.mark.parametrize("bounds", [(10.0, None), (None, 1.0), (10.0, 20.0)])
def test_which_values_an_expectation_holds(
    said: dict[str, Any], mode: str, held: list[str], bounds: tuple[float | None, float | None]
) -> None:
    """A value that is held has the bound as its criterion, unless an absolute one exists; another has none."""
    metrics = [
        replace(value(of, gpu, way=way), id=f"{gpu}.{way}")
        for gpu, way, of in ((0, 1, 3.0), (1, 2, 2.0), (1, 3, 4.0))
    ]  # fmt: skip
    if "function" in said and bounds != (10.0, None):
        return
    result = files.document_of("storage_map", files.pairs("adaptive_over_best", [1.0]))
    expected = Expectation("here", **{"of": ("gpu",), "low": ("low",), "high": ("high",), **said})
    declared = SimpleNamespace(name="one", siblings=None, expect=[expected])
    run: Any = SimpleNamespace(
        result=result, program=SimpleNamespace(metrics={"one": declared}), of=lambda name: metrics,
        first=lambda formulas, one: bounds[0] if formulas == ("low",) else bounds[1],
    )  # fmt: skip
    machine = Machine(capabilities=frozenset({"numa"}))
    found, criteria = relations.of(run, Request(None, "storage_map", mode=mode), machine)
    assert [one.metric for one in found] == held and {one.verdict for one in found} <= {"FAIL"}
    assert list(criteria) == held
    for one in criteria.values():
        assert (one.value, one.low, one.high, one.source) == (bounds[0] or bounds[1], *bounds, "here, same run")


@pytest.mark.parametrize(("measured", "factor"), [(80.0, 1.25), (100.0, 1.0), (125.0, 1.0), (0.0, 1.0)])
def test_a_ratio_is_held_by_what_its_denominator_could_have_reached(measured: float, factor: float) -> None:
    parts = [value(7, 0, name="base", a=2), value(9, 1, name="base", a=1), value(measured, 0, name="base", a=1)]
    parts = [replace(one, id=f"{i}") for i, one in enumerate(parts)]
    limits = {one.id: bounds.Limit(100.0, one.unit, "x") for one in parts}
    run: Any = SimpleNamespace(metrics=(value(1, 0, a=1, b=3), *parts), limits=limits, parameters={})
    declared = SimpleNamespace(of_run=("base", None), sheet_key=lambda *_: "", data_sheet="")
    program: Any = SimpleNamespace(metrics={"one": declared, "base": declared})
    assert bounds.yardstick(run, run.metrics[0], program, {}) == factor
    run.limits = {one.id: bounds.Limit(None, one.unit, "x") for one in parts}
    assert bounds.yardstick(run, run.metrics[0], program, {}) == 1.0


#: What a site adds for its own program: nothing else is needed, and nothing of it is in the suite.
OWN = """
program: ring
title: A ring
section: docs/ring.md
version: 1
identity: []
verifications:
  - {what: every byte, of: [], tolerance: 0.5}
metrics:
  rate: {title: Rate, unit: GB/s, direction: higher, per: [gpu], limit: memory, floor: {gpu: 0.5}, siblings: 0.1}
  share:
    title: Share
    unit: "1"
    direction: higher
    per: [gpu]
    derive: rate / base
    limit: "none: a ratio"
    expect:
      - {at_least: 0.9, source: a ring is as fast as its slowest part}
      - {function: steps, source: its steps}
  base: {title: Base, unit: GB/s, direction: higher, per: [gpu], limit: none}
"""
STEPS = """
def steps(run, one):
    return None, 2.0 / run.parameters["steps"]
"""


@pytest.mark.parametrize(
    ("rate", "base", "error", "steps", "expected", "says"),
    [
        (3000.0, 3000.0, 0.0, 1, "PASS", ""),
        (3000.0, 4000.0, 0.0, 1, "FAIL", "share.gpu0 = 0.75 1; at least 0.9 is required: a ring is as fast"),
        (3000.0, 3000.0, 0.0, 4, "FAIL", "at most 0.5 is required: its steps"),
        (
            1000.0,
            1000.0,
            0.0,
            1,
            "FAIL",
            "rate.gpu0 = 1000 GB/s (median) is below 2407.15 GB/s by 58.5 % "
            "(floor: 50 % of the limit, attribute: memory clock x bus width: 4814.3 GB/s)",
        ),
        (5000.0, 5000.0, 0.0, 1, "FAIL", "beyond 1.02 of the physical limit"),
        (3000.0, 3000.0, 0.6, 1, "FAIL", "every byte failed: error 0.6, tolerance 0.5"),
    ],
)
def test_a_benchmark_of_a_site_has_all_of_it_by_its_yaml(
    tmp_path: Path, rate: float, base: float, error: float, steps: int, expected: str, says: str
) -> None:
    """Limit, derivation, expectation by formula and by function, tolerance: from one folder, without a change here."""
    folder = tmp_path / "ring"
    folder.mkdir()
    (folder / "metrics.yaml").write_text(OWN)
    (folder / "derived.py").write_text(STEPS)
    raw = gpu_document("ring", {})
    for key in ("metrics", "limits", "path"):
        del raw[key]
    raw |= {
        "schema": "tenken-result/2",
        "parameters": {"steps": steps},
        "series": [
            {"metric": name, "subject": {"gpu": 0}, "clock": "device", "counts": {"bytes": 1e9}, "seconds": [1 / value]}
            for name, value in (("rate", rate), ("base", base))
        ],
        "verification": [{"name": "every byte", "error": error}],
        "provenance": {},
        "links": [],
    }
    program = load_program(folder / "metrics.yaml")
    result = validate(raw, "result.json")
    found = verdict.judge(result, program, Request(None, "ring", subjects=("gpu",)), Machine(), 0)
    assert found.verdict == expected and says in found.message(), found.message()


SIBLINGS = """
program: ring
title: A ring
section: docs/ring.md
version: 1
identity: []
verifications:
  - {{what: every byte, of: [], tolerance: 0.5}}
metrics:
  one: {{title: One, unit: us, direction: {}, per: [gpu], limit: "none: a test", siblings: {}}}
"""


@pytest.mark.parametrize(
    ("direction", "siblings", "factor", "behind"),
    [
        ("higher", "0.1", 0.85, True), ("higher", "0.1", 1.15, False),
        ("lower", "0.1", 1.15, True), ("lower", "0.1", 0.85, False),
        ("higher", "0.2 if subject.first == 2 else 0.1", 0.85, False),
        ("higher", "0.2 if subject.first == 1 else 0.1", 0.85, True),
    ],
)  # fmt: skip
def test_behind_the_others_is_less_of_a_rate_and_more_of_a_time(
    tmp_path: Path, direction: str, siblings: str, factor: float, behind: bool
) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    (folder / "metrics.yaml").write_text(SIBLINGS.format(direction, siblings))
    raw = gpu_document("ring", {}, gpus=4)
    for key in ("metrics", "limits", "path"):
        del raw[key]
    raw["devices"][2]["numa_node"] = 1  # GPUs of another socket are compared too
    raw |= {
        "schema": "tenken-result/2",
        "series": [
            {"metric": "one", "subject": {"gpu": g}, "values": [100.0 * (factor if g == 2 else 1 + g / 1e3)]}
            for g in range(4)
        ],
        "verification": [{"name": "every byte", "error": 0.0}],
        "provenance": {},
        "links": [],
    }
    program, result = load_program(folder / "metrics.yaml"), validate(raw, "result.json")
    found = verdict.judge(result, program, Request(None, "ring", subjects=("gpu",)), Machine(), 0)
    named = [one for one in found.findings if one.kind == "siblings"]
    assert [one.metric for one in named] == ["one.gpu2"] * behind


def test_the_judge_names_no_program_and_no_figure() -> None:
    """A name in quotes there would be a rule of one program, which belongs to its metrics.yaml."""
    names: set[str] = set()
    for name, program in of_suite().items():
        said = program.contract
        names |= {name, *program.metrics, *program.identity, *said.paths, *said.defaults, *said.defaults_if_stated}
        names |= {key for entry in said.points for key in entry.at}
    # a subject, a reading of health, the kernel of the host, a figure of a data sheet
    names -= {"ranks", "before", "kernel", "memory", "cpu"}
    found = [
        f"{file.name}:{node.lineno}: {node.value}"
        for file in (ROOT / "tenken" / "judge").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    ]
    assert not found and len(names) > 200
