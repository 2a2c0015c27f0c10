"""The verdicts of the stencil, from documents that two H200 wrote and that are doctored here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenken.model import result as document
from tenken.model import verdicts as verdict
from tenken.model.judgement import Judgement
from tenken.model.numbers import quantile
from tests.reframe.checks.test_h200_verdicts import CAPTURED
from tests.support.documents import spoiled
from tests.support.judging import on_system, related

RATES = ("cells", "efficiency", "total", "compute", "pack", "halo_node", "halo_net", "sync", "share")
WEAK = ("alone", "copy", "gain", *RATES)


def captured(name: str) -> dict[str, Any]:
    """The document of a captured run. It was shortened to 40 blocks; here they are repeated three times."""
    raw = json.loads((CAPTURED / f"{name}.json").read_text())["document"]
    for metric in raw["metrics"]:
        if metric["statistic"] == "median":
            metric["samples"] *= 3
            metric["count"] *= 3
            ordered = sorted(metric["samples"])
            metric.update(p5=quantile(ordered, 0.05), p95=quantile(ordered, 0.95))
    return raw


def judge(
    raw: dict[str, Any],
    subjects: tuple[str, ...] = ("gpu", "ranks"),
    metrics: tuple[str, ...] = WEAK,
    gpus: int = 2,
    ranks: int = 1,
    system_name: str = "h200",
) -> Judgement:
    other = system_name != "h200"
    return on_system(raw, system_name, subjects, metrics=metrics, gpus=gpus, ranks=ranks, any_card=other)


def messages(judged: Judgement) -> str:
    """The findings, except for references of other runs: the captured ones are shorter than a check's."""
    return " | ".join(finding.message for finding in judged.findings if finding.kind != "reference")


def change(raw: dict[str, Any], ident: str, factor: float) -> None:
    (metric,) = [m for m in raw["metrics"] if m["id"] == ident]
    for key in ("value", "best", "median", "p5", "p95"):
        metric[key] *= factor
    metric["samples"] = [sample * factor for sample in metric["samples"]]


def test_what_two_cards_wrote_passes() -> None:
    judged = judge(captured("stencil-two-gpus"))
    assert (judged.verdict, messages(judged)) == (verdict.PASS, "")
    assert judged.judged["efficiency.ranks2.exchange=p2p"].value > 97


def test_ranks_over_nvshmem_pass() -> None:
    judged = judge(captured("stencil-nvshmem-two-gpus"), ("ranks",), RATES, ranks=2)
    assert (judged.verdict, messages(judged)) == (verdict.PASS, "")
    assert judged.judged["cells.ranks2.exchange=nvshmem"].value > 440


def test_published_times_bind_where_they_were_measured() -> None:
    def published(raw: dict[str, Any]) -> None:
        raw["parameters"].update(nx=2048, ny=2048, nz=128, bt=4, steps=128, nodes=1)
        raw["finished"] = raw["finished"].replace("T14:02", "T14:03")  # 11 s are part of the run

    raw = spoiled(captured("stencil-two-gpus"), published)
    ident = "total.ranks2.exchange=p2p"
    for name, seconds in (("reedbush-l", 11.0), ("tsubame3", 11.2)):
        judged = judge(raw, system_name=name).judged[ident]
        assert judged.verdict == verdict.PASS
        slow = seconds * 1.06 / judged.value
        found = judge(spoiled(raw, lambda d, f=slow: change(d, ident, f)), system_name=name)
        assert found.judged[ident].verdict == verdict.FAIL
    elsewhere = judge(spoiled(raw, lambda d: change(d, ident, 100)))
    assert elsewhere.judged[ident].verdict == verdict.RECORDED


@pytest.mark.parametrize(("factor", "said"), [(1.0, False), (1.2, False), (3.7, True)])
def test_slabs_that_are_far_ahead_of_one_alone_are_no_measurement(factor: float, said: bool) -> None:
    raw = captured("stencil-two-gpus")
    change(raw, "efficiency.ranks2.exchange=p2p", factor)
    found, _ = related(document.validate(raw, "result.json"))
    assert [(f.verdict, f.metric) for f in found] == [("INVALID", "efficiency.ranks2.exchange=p2p")] * said
    assert not said or "the run of one slab was disturbed" in found[0].message
