"""The engine: formulas by hand, and every derived value and limit of kept results recomputed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tenken.errors import CatalogueError
from tenken.model import catalogue, engine
from tenken.model import result as results
from tenken.model.formula import Formula, Unknown
from tenken.model.result import Result
from tenken.model.subject import Coordinates, Subject
from tenken.model.values import MetricValue, Series
from tests.support import kept
from tests.support.documents import gpu_document, host_document


class _Scope:
    """Two metrics, some attributes, one table."""

    def metric(self, name: str, changed: Mapping[str, Any]) -> float:
        values = {("total", None): 4.0, ("total", "pageable"): 10.0, ("zero", None): 0.0}
        try:
            return values[name, changed.get("memory")]
        except KeyError:
            raise Unknown from None

    def attribute(self, owner: str, name: str) -> Any:
        return {("at", "n"): 1024, ("gpu", "clock"): 2619.0, ("gpu", "integrated"): None}.get((owner, name))

    def row(self, table: str, *keys: Any) -> float:
        raise Unknown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("total(memory='pageable') / total", 2.5),
        ("2e-3 * gpu.clock * 6144 / 8", 2e-3 * 2619 * 6144 / 8),
        ("at.n // 3 % 2 + 2 ** 3", 9.0),  # 341 is odd
        ("pcie(5, 16)", 63.015384615384615),  # 32 GT/s x 16 lanes x 128/130 over 8
        ("1 if not gpu.integrated else 2", 1.0),
        # 8 bits in 10 up to generation 2, 128 in 130 up to 5, then 242 of the 256 bytes of a flit
        ("pcie(1, 16)", 4.0),
        ("pcie(2, 16)", 8.0),
        ("pcie(3, 16)", 15.753846153846155),
        ("pcie(4, 8)", 15.753846153846155),
        ("pcie(6, 16)", 121.0),
        # on a B200, 148 multiprocessors at 1965 MHz can use 0.0184 x 148 x 1965 = 5351 GB/s
        ("balance(8000, 148, 1965)", 0.668886),
        ("balance(4800, 132, 1980)", 1.0),
        ("balance(8000, gpu.integrated, 1965)", 1.0),
        ("-min(3, 2) + max(1, sqrt(16))", 2.0),
        ("1 if at.n in (512, 1024) and 1 < total <= 4 else 0", 1.0),
        ("gpu.unknown * 2", None),
        ("other / total", None),
        ("total / zero", None),
        ("total if at.n < 10 else None", None),
        ("row('units', gpu.clock)", None),
        ("pcie(9, 16)", None),
    ],
)
def test_a_formula(text: str, value: float | None) -> None:
    found = Formula(text, "here").value(_Scope())
    assert found is None if value is None else math.isclose(found or 0.0, value)


@pytest.mark.parametrize(
    "text",
    [
        "", "1 +", "__import__('os')", "total.__class__", "open('x')", "[1]", "lambda: 1", "total()()", "a.b.c",
        "gpu.x.y", "total[0]", "{1: 2}", "f'{total}'", "1 @ 2", "total if", "b''", "total(1)", "total(**at)",
        "(x := 1)", "x for x in y",
    ],
)  # fmt: skip
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(CatalogueError, match="here"):
        Formula(text, "here")


def test_a_series_of_seconds_becomes_the_rate_of_its_unit() -> None:
    seconds = Series("x", Subject("gpu"), Coordinates(), (0.5, 2.0), seconds=True, counts={"bytes": 3e9, "cells": 8e9})
    assert engine.in_unit(seconds, "GB/s") == (6.0, 1.5) and engine.in_unit(seconds, "Gcell/s") == (16.0, 4.0)
    assert engine.in_unit(seconds, "ms") == (500.0, 2000.0)
    with pytest.raises(ValueError, match="without operations"):
        engine.in_unit(seconds, "TFLOP/s")
    assert engine.in_unit(replace(seconds, seconds=False), "W") == (0.5, 2.0)


def test_a_metric_is_found_by_the_coordinates_that_it_shares_and_has_those_that_are_named() -> None:
    burn = catalogue.program("burn")

    def made(name: str, **at: Any) -> MetricValue:
        return engine.value_of(name, Subject("gpu", 0), Coordinates.of(at), [1.0], burn.metrics[name])

    given = {**gpu_document(), "schema": results.SCHEMA, "series": [], "provenance": {}, "verification": []}
    run = engine.Run(results.validate(given, "x"), burn)
    copy, rate = made("copy"), made("rate", phase="a")
    for one in (copy, rate):
        run.add(one)
    for name, at, changed, expected in (
        ("copy", {}, {}, copy), ("copy", {"phase": "a"}, {}, copy), ("copy", {"phase": "a"}, {"phase": None}, copy),
        ("copy", {}, {"phase": "a"}, None), ("copy", {"bytes": 8}, {"phase": "a"}, None),
        ("rate", {"phase": "a", "bytes": 8}, {}, rate), ("rate", {"phase": "b", "bytes": 8}, {"phase": "a"}, rate),
        ("rate", {"phase": "b"}, {}, None), ("rate", {"phase": "a"}, {"phase": "b"}, None), ("rate", {}, {}, None),
        ("rate", {"phase": "a"}, {"phase": None}, None),
    ):  # fmt: skip
        assert run.at(name, Subject("gpu", 0), at, **changed) is expected, (name, at, changed)
    assert run.at("rate", Subject("gpu", 1), {"phase": "a"}) is None


@pytest.mark.parametrize(("program", "name", "best"), [("stream", "triad", 100.0), ("p2p", "latency", 0.0)])
def test_a_value_has_the_quantiles_of_its_samples(program: str, name: str, best: float) -> None:
    declared = catalogue.program(program).metrics[name]
    made = engine.value_of(name, Subject("gpu", 0), Coordinates(), [*range(100, -1, -1)], declared)
    assert (made.median, made.p5, made.p95, made.best, made.count) == (50.0, 5.0, 95.0, best, 101)


def test_a_comparison_has_the_tolerance_of_the_catalogue_alone() -> None:
    raw = {**host_document(), "schema": results.SCHEMA, "series": [], "provenance": {}}
    raw["verification"] = [{"name": "y, every element, against runs x a x", "error": 0.0}, {"name": "z", "error": 0.0}]
    found = engine.completed(results.validate(raw, "x"), catalogue.program("daxpy")).verification
    assert [check.passed for check in found.checks] == [True, False] and not found.passed


def test_a_comparison_is_found_by_its_name_and_has_the_text_of_the_catalogue() -> None:
    raw = {**host_document("nccl"), "schema": results.SCHEMA, "series": [], "provenance": {}}
    one = {"name": "elements", "subject": {"ranks": 2}, "at": {"metric": "all_reduce", "bytes": 1024}, "error": 0.5}
    wrong = {"element": 3, "value": 1.5, "expected": 1}
    raw["verification"] = [
        {**one, "first_wrong": wrong},
        {**one, "name": "perf_alltoall", "error": 0.0},
        {**one, "name": "other"},
    ]
    first, good, other = engine.completed(results.validate(raw, "x"), catalogue.program("nccl")).verification.checks
    assert (first.what, first.tolerance, first.passed) == ("all_reduce, 1024, every element, exact", 0.0, False)
    assert first.detail == "element 3, value 1.5, expected 1" and good.passed
    assert math.isnan(other.tolerance) and not other.passed


@pytest.mark.parametrize(
    ("kind", "counts", "active", "expected"),
    [
        ("NVLink", (12, 0, 0), 12, None),  # bridged in twos
        ("NVLink", (6, 6, 6, 0, 0, 0, 0), 18, None),  # in fours
        ("NVLink", (1, 1, 2, 2, 0, 0, 0), 6, 6),  # DGX-1V
        ("NVLink through a switch", (18, 18), 18, 18),  # shared by all others
        ("NVLink through a switch", (17, 18), 18, 18),
        ("NVLink", (4, 2), 12, 6),  # to each of the others
        ("NVLink", (4, 4), 6, 6),  # no more than its own
        ("PCIe", (0, 0), 0, 0),
        ("NVLink", (4, None), 12, 4),
        ("NVLink", (None, None), 12, None),  # unknown, which is not none
    ],
)
def test_a_gpu_sends_to_all_others_by_links_that_add_up_or_are_shared(
    kind: str, counts: tuple[int | None, ...], active: int, expected: int | None
) -> None:
    raw = {**gpu_document(gpus=1 + len(counts)), "schema": results.SCHEMA, "series": []}
    raw |= {"provenance": {}, "verification": []}
    raw["links"] = [{"first": 0, "second": 1 + i, "count": count, "kind": kind} for i, count in enumerate(counts)]
    raw["devices"][0]["nvlinks_active"] = active
    assert engine._link(results.validate(raw, "x"), Subject("gpu", 0)).count == expected


# ---- kept results ----------------------------------------------------------------------------------------------

#: Recomputed only from what the first rank states: the fastest of several ranks was another one's.
_OF_OTHER_RANKS = {("stencil", "efficiency"), ("stencil", "cells")}
#: Their parts are in no result of version 1: the rate that a map promised, bytes of the samples, work and time of a
#: pass whose power was measured.
_LACKING = {("storage_map", "adaptive_over_map"), ("data_loading", "rate")} | {
    (name, metric)
    for name in ("gemm", "hpcg", "hpl", "hpl_mxp", "stencil", "stream")
    for metric in ("per_watt", "energy")
}


def _results() -> Iterator[Result]:
    for record in (*kept.two_clean(), *kept.modes(), *kept.acceptance(), *kept.h100()):
        result = record.result
        if result is not None and result.status == "ok" and all(metric.samples for metric in result.metrics):
            yield result


def _place(metric: MetricValue) -> tuple[str, str, frozenset[tuple[str, Any]]]:
    return metric.name, metric.subject.id, frozenset(metric.at.items())


def test_all_that_follows_is_formed_as_programs_of_version_1_stated_it() -> None:
    derived = limits = 0
    wrong, lost = [], set()
    for result in _results():
        program = catalogue.program(result.program)
        declared = program.metrics
        measured = tuple(metric for metric in result.metrics if declared[metric.name].derive is None)
        again = engine.completed(replace(result, metrics=measured), program)
        formed = {_place(metric): metric for metric in again.metrics}
        for metric in result.metrics:
            where, one = (result.program, metric.name), formed.get(_place(metric))
            if one is None:
                lost.add(where)
                continue
            if declared[metric.name].derive is not None:
                derived += 1
                same = math.isclose(one.value, metric.value, rel_tol=1e-6, abs_tol=1e-9)
                if not same or one.count != metric.count:
                    wrong.append((where, one.value, metric.value))
            limit, stated = again.limits[one.id].value, result.limits[metric.id].value
            limits += stated is not None
            if stated is not None and (limit is None or not math.isclose(limit, stated, rel_tol=1e-6)):
                wrong.append((where, limit, stated))
    assert not lost - _LACKING
    assert not [one for one in wrong if one[0] not in _OF_OTHER_RANKS] and len(wrong) < 10
    assert derived > 1500 and limits > 1500


def test_a_record_stores_what_the_engine_forms_of_its_result() -> None:
    """Without the samples nothing is lost: pages, contracts and the gate read the stored values."""
    kinds = set()
    for record in kept.version_2():
        if record.result is None or record.result.status != "ok":
            continue
        program = catalogue.program(record.program)
        formed = engine.completed(replace(record.result, metrics=()), program)
        names = {metric.name for metric in record.result.metrics}
        # a catalogue since then may derive more
        metrics = [one for one in formed.metrics if one.name in names or record.result.catalogue == program.digest]
        assert [metric.id for metric in metrics] == [metric.id for metric in record.result.metrics]
        for one, stored in zip(metrics, record.result.metrics, strict=True):
            assert math.isclose(one.value, stored.value, rel_tol=1e-9, abs_tol=1e-12), one.id
            kinds.add((one.derived, bool(stored.samples)))
        assert formed.verification.passed
        for one in record.judgement.judged.values() if record.judgement else ():
            if one.limit.value and one.value and one.efficiency is not None:
                share = one.value / one.limit.value
                assert math.isclose(one.efficiency, share if one.direction == "higher" else 1 / share, rel_tol=1e-6)
                kinds.add(one.direction)
    assert kinds == {"higher"} | {(False, True), (True, False)}
