"""Every row of the table of verdicts, from documents."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tenken.errors import CatalogueError
from tenken.judge import bounds, conditions
from tenken.judge import verdict as judging
from tenken.model import verdicts as verdict
from tenken.model.catalogue import read_metric
from tenken.model.judgement import (
    DEVICE,
    FLOOR,
    REFERENCE,
    RELATION,
    SAME_RUN,
    Criterion,
    Finding,
    JudgedMetric,
    Limit,
)
from tenken.model.machine import Machine
from tenken.model.result import validate
from tenken.model.subject import Subject
from tenken.model.verdicts import FAIL, INVALID, PASS, RECORDED
from tests.support.catalogue import make_metric, make_program
from tests.support.documents import around, gpu_document, host_document, metric, spoiled
from tests.support.judging import Expectation, judge

STREAM = make_program("stream")
GPU = Expectation(subjects=("gpu",), gpus=1)


def no_reference(_):
    return None


def judged(raw: dict[str, Any], program=STREAM, expect=GPU, reference=no_reference, status=None):
    if status is None:
        status = {"ok": 0, "failed": 1, "waived": 3}[raw["status"]]
    return judge(validate(raw, "result.json"), program, expect, reference, status)


def edit_metric(which, **values):
    return lambda d: [m.update(values) for m in d["metrics"] if m["name"] == which]


def drop(name):
    def change(d):
        gone = [m["id"] for m in d["metrics"] if m["name"] == name]
        d["metrics"] = [m for m in d["metrics"] if m["name"] != name]
        for ident in gone:
            del d["limits"][ident]

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (edit_metric("triad", direction="lower"), "direction"),
        (edit_metric("triad", name="tirade"), "not in stream's metrics.yaml"),
        (lambda d: d.update(status="failed", reason="out of memory"), "stream failed: out of memory"),
        (
            lambda d: d["verification"]["checks"][0].update(error=0.5, passed=False, detail="y[7] is 3, expected 2"),
            r"verification of array y failed: error 0.5, tolerance 1e-12 \(y\[7\] is 3, expected 2\)",
        ),
    ],
)
def test_what_voids_a_run_fails_it(change, says):
    found = judged(spoiled(gpu_document(), change))
    assert found.verdict == verdict.FAIL
    assert found.structural
    assert "nid001" in found.message()
    assert re.search(says, found.message()), found.message()


def test_a_missing_gpu_is_hardware_at_fault():
    found = judged(gpu_document(gpus=1), expect=Expectation(subjects=("gpu",), gpus=2))
    assert (found.verdict, "1 GPUs found; expected 2" in found.message()) == (verdict.FAIL, True)


def spread_of(copies: float, at: dict[str, Any]) -> dict[str, Any]:
    """A document whose first metric is at coordinates, with this spread of its samples."""
    raw = gpu_document(values={"copy": 4250.0})
    one = metric("copy", {"gpu": 0}, around(4250.0, spread=copies), at=at)
    raw["limits"] = {one["id"]: raw["limits"][raw["metrics"][0]["id"]]}
    raw["metrics"] = [one]
    return raw


@pytest.mark.parametrize(
    ("at", "allowed"),
    [
        ({"bytes": 4096}, True),
        ({"bytes": 65536}, True),
        ({"bytes": 65537}, False),
        ({"kind": "odd"}, True),
        ({}, False),
    ],
)
def test_a_spread_is_allowed_where_the_metric_says_so(at, allowed):
    """Small sizes scatter: the spread allowed there voids a measurement elsewhere."""
    raw = read_metric("copy", {
        "title": "copy", "unit": "GB/s", "direction": "higher", "statistic": "median", "per": ["host", "gpu"],
        "limit": "memory", "plot": "sweep", "max_spread": {"host": 0.2, "gpu": 0.05},
        "max_spread_at": [{"at": {"bytes": {"max": 65536}}, "spread": {"gpu": 0.5}},
                          {"at": {"kind": ["odd", "rare"]}, "spread": 0.4}],
    }, "m.yaml")  # fmt: skip
    assert raw.allowed_spread("host", {"bytes": 4096}) == 0.2, "said of GPUs alone"
    program = make_program("stream", "copy", max_spread_at=raw.max_spread_at, min_count=1)
    found = judged(spread_of(0.3, at), program)
    wide = [one for one in found.findings if "varies too much" in one.message]
    assert bool(wide) is not allowed, found.findings


@pytest.mark.parametrize(
    "raw",
    [{"bytes": 1}, [{"at": {}, "spread": 0.1}], [{"at": {"b": 1}}], [{"at": {"b": {"most": 1}}, "spread": 0.1}],
     [{"at": {"b": {"min": 2, "max": 1}}, "spread": 0.1}], [{"at": {"b": 1}, "spread": 2}],
     [{"at": {"b": 1}, "spread": {"pair": 0.1}}]],
    ids=["map", "nowhere", "no spread", "another key", "upside down", "above 1", "another subject"],
)  # fmt: skip
def test_a_spread_at_no_place_is_refused(raw):
    with pytest.raises(CatalogueError, match=r"m\.yaml: max_spread_at"):
        read_metric("copy", {
            "title": "copy", "unit": "GB/s", "direction": "higher", "statistic": "median", "per": ["gpu"],
            "limit": "memory", "plot": "bars", "max_spread_at": raw,
        }, "m.yaml")  # fmt: skip


def test_below_the_floor_names_node_gpu_value_bound_and_miss():
    found = judged(spoiled(gpu_document(gpus=2), lambda d: d["metrics"].__setitem__(
        8, metric("triad", {"gpu": 1}, around(3000.0)))), expect=Expectation(subjects=("gpu",), gpus=2))  # fmt: skip
    assert found.verdict == verdict.FAIL
    assert not found.structural
    (finding,) = found.findings
    assert (finding.node, finding.subject) == ("nid001", Subject("gpu", 1))
    assert finding.miss == pytest.approx(1 - 3000 / (0.8 * 4814.3))
    assert "triad.gpu1 = 3000 GB/s (median) is below 3851.44 GB/s by 22.1 %" in finding.message


def test_a_metric_of_no_data_sheet_has_no_limit_of_one():
    expect = Expectation(subjects=("host",), limits={("memory", "host"): Limit(50.0, "GB/s", "data sheet: x")})
    no_sheet = make_program("daxpy", "daxpy", floor={"host": 0.5, "gpu": 0.8}, data_sheet=None)
    assert judged(host_document(), no_sheet, expect).judged["daxpy.host"].verdict == verdict.RECORDED


@pytest.mark.parametrize(
    ("required_if", "stated", "verdict_of_it"),
    [
        ({"way": ("b",)}, {"way": "b"}, verdict.FAIL),
        ({"way": ("a", "b")}, {"way": "b"}, verdict.FAIL),
        ({"way": ("a",)}, {"way": "b"}, verdict.PASS),
        # not stated at all: by a program of this suite, and by a third-party one
        ({"way": ("a",)}, {}, verdict.FAIL),
        ({"way": ("a",)}, {"implementation": "another"}, verdict.PASS),
        ({"kinds": ("a",)}, {"kinds": "b,a"}, verdict.FAIL),
        ({"kinds": ("a",)}, {"kinds": "all"}, verdict.FAIL),
        ({"kinds": (("a", "c"),)}, {"kinds": "b,a"}, verdict.PASS),
        ({"kinds": (("a", "c"), ("a", "b"))}, {"kinds": "b,a"}, verdict.FAIL),
        ({"kinds": ("a",)}, {"kinds": "ab"}, verdict.PASS),
        ({"way": ("b",), "kinds": ("a",)}, {"way": "b", "kinds": "b"}, verdict.PASS),
        ({"flag": (True,)}, {"flag": True}, verdict.FAIL),
        ({"flag": (True,)}, {"flag": False}, verdict.PASS),
    ],
)
def test_an_optional_metric_comes_with_its_parameters(required_if, stated, verdict_of_it):
    program = make_program("stream")
    metrics = {**program.metrics, "triad": make_metric("triad", optional=True, required_if=required_if)}
    raw = spoiled(gpu_document(), drop("triad"))
    raw["parameters"].update(stated)
    found = judged(raw, type(program)("stream", "stream", "docs", metrics))
    assert found.verdict == verdict_of_it, found.message()
    assert ("metric triad of GPU 0 is missing" in found.message()) == (verdict_of_it == verdict.FAIL)


@pytest.mark.parametrize(
    "declared",
    [
        {"required_if": {"backend": "cuda"}},
        {"optional": True, "required_if": {}},
        {"optional": True, "required_if": "cuda"},
    ],
)
def test_a_metric_that_must_come_anyway_has_no_conditions(declared):
    raw = {"title": "t", "unit": "s", "direction": "lower", "statistic": "median", "per": ["gpu"], "limit": "none",
           "plot": "bars", **declared}  # fmt: skip
    with pytest.raises(CatalogueError, match=r"x: required_if is .*allowed: a map of parameters to values"):
        read_metric("m", raw, "x")


def test_a_gpu_is_compared_with_others_of_its_model_alone():
    """A model with fewer links, a GPU in MIG mode and one whose driver does not report its links lack none."""
    devices = [
        SimpleNamespace(index=index, name=name, nvlinks_active=links, mig_enabled=mig)
        for index, (name, links, mig) in enumerate(
            [("H200", 18, False), ("A30", 4, False), ("A30", 4, None), ("H200", 17, False), ("H200", 0, True),
             ("H200", None, False), ("B200", 18, False), ("A30", 0, False)]
        )
    ]  # fmt: skip
    for order in (devices, devices[::-1]):
        run: Any = SimpleNamespace(devices=order, node="n1")
        assert sorted(one.message for one in conditions._peers(run, Machine())) == [
            "n1 GPU 3: 17 NVLinks are active, 18 of its peers: hardware",
            "n1 GPU 7: no NVLink is active, 4 of its peers: it has no bridge, or the bridge is lost",
        ]


@pytest.mark.parametrize(
    ("links", "per_pair", "expected"),
    [
        ([4, 4, 0], None, [(2, RECORDED)]),
        ([4, 4, 0, 0], None, [(2, RECORDED), (3, RECORDED)]),
        ([18, 18, 18, 18, 0, 18, 18, 18], None, [(4, FAIL)]),  # seven are joined: not by bridges
        ([12, 0], None, [(1, FAIL)]),
        ([4, 4, 0], 4, [(2, FAIL)]),  # the system file states links of every pair
        ([4, 2, 0], None, [(1, FAIL), (2, RECORDED)]),
        ([0, 0, 0], None, []),
    ],
)
def test_a_card_beside_a_bridged_pair_is_no_fault(links, per_pair, expected):
    """On a board of modules it is one."""
    devices = [SimpleNamespace(index=i, name="A40", nvlinks_active=n, mig_enabled=False) for i, n in enumerate(links)]
    run: Any = SimpleNamespace(devices=devices, node="n1")
    found = conditions._peers(run, Machine(links_per_pair=per_pair))
    assert [(one.subject.first, one.verdict) for one in found] == expected
    for sheet, verdict_ in (("H100-SXM-80GB", FAIL), ("GB200-186GB", FAIL), ("H100-NVL-94GB", None), ("A40", None)):
        found = conditions._peers(run, Machine(links_per_pair=per_pair, gpu=sheet))
        assert [(one.subject.first, one.verdict) for one in found] == [(gpu, verdict_ or v) for gpu, v in expected]


def of(verdict_: str, kind: str = REFERENCE, said_by: str = DEVICE) -> JudgedMetric:
    """A value of 5 GB/s with a criterion of this kind; empty: none."""
    criterion = Criterion(kind, 5.0, 4.0, 6.0, "GB/s", "median", "x") if kind else None
    return JudgedMetric(
        verdict_, 5.0, "GB/s", "higher", "median", criterion, Limit(9.0, "GB/s", "y", said_by), 0.5, (None, None)
    )


NOTED, LIMITED = Finding(RECORDED, "x", kind="note"), Finding(RECORDED, "x", kind=bounds.LIMITED_BY_OPERATOR)
VOID, BROKEN = Finding(INVALID, "x"), Finding(FAIL, "x")
UNSTEADY = Finding(INVALID, "x", kind=bounds.UNSTEADY)


@pytest.mark.parametrize(
    ("found", "misses", "values", "expected"),
    [
        ([], [], [of(PASS)], PASS),
        ([NOTED], [], [of(PASS), of(RECORDED, "")], PASS),
        # without an absolute criterion, or on a GPU that its operator limits
        ([], [], [of(RECORDED, "")], RECORDED),
        ([], [], [of(PASS, RELATION)], RECORDED),
        ([], [], [of(PASS, FLOOR, SAME_RUN)], RECORDED),
        ([], [], [of(PASS, FLOOR)], PASS),
        ([], [], [of(PASS, RELATION), of(RECORDED)], RECORDED),
        ([LIMITED], [], [of(PASS)], RECORDED),
        ([LIMITED], [BROKEN], [of(PASS)], FAIL),
        # hardware, then conditions, then values
        ([BROKEN, VOID], [], [of(PASS)], FAIL),
        ([VOID], [BROKEN], [of(FAIL)], INVALID),
        ([], [VOID, BROKEN], [of(FAIL)], INVALID),
        # a value that varies excuses no other
        ([], [UNSTEADY, BROKEN], [of(FAIL)], FAIL),
        ([], [UNSTEADY], [of(PASS)], INVALID),
        ([], [BROKEN], [of(FAIL), of(PASS)], FAIL),
        ([], [NOTED], [of(PASS)], RECORDED),
        ([], [], [of(FAIL), of(PASS)], FAIL),
        ([], [], [of(FAIL, "")], FAIL),
    ],
)
def test_what_decides_a_run(found, misses, values, expected):
    by_id = {str(place): one for place, one in enumerate(values)}
    assert judging._verdict(found, misses, by_id) == expected


def test_a_value_that_only_others_of_its_run_bound_passes_within_both_ends_or_once_proven():
    def passing(low: float | None, high: float | None, *misses: Finding, verdict_: str = RECORDED) -> bool:
        floor = Criterion(RELATION, 5.0, low, high, "GB/s", "median", "same run")
        found = judging._in_run({"a": of(verdict_, ""), "b": of(RECORDED, "")}, {"a": floor}, misses)
        assert set(found) <= {"a"} and all(one.verdict == PASS and one.criterion == floor for one in found.values())
        return bool(found)

    missed, open_ = Finding(FAIL, "x", "a"), Finding(RECORDED, "x", "a")
    assert passing(5.0, None) and passing(None, 5.0) and passing(5.0, 5.0)
    assert not passing(5.01, None) and not passing(None, 4.99) and not passing(4.0, 4.99)
    assert (
        not passing(5.01, None, open_) and passing(5.01, None, missed) and not passing(5.01, None, Finding(FAIL, "x"))
    )
    assert not passing(5.0, None, verdict_=PASS) and not passing(5.0, None, verdict_=FAIL)
