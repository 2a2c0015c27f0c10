"""The verdicts of gemm and hpl_mxp, from documents as an H200 at its power cap would write them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tenken.model import result as results
from tenken.model import verdicts
from tenken.model.catalogue import program
from tenken.model.judgement import Judgement
from tests.support import honest
from tests.support.documents import around, gpu_document, health_sample, metric
from tests.support.judging import Expectation, judge

GPU = {"gpu": 0}
SHAPE = {"precision": "fp16", "m": 16384, "n": 16384, "k": 16384}
SYSTEM = {"grid": "1x1", "low": "fp16", "matrix": "mild", "n": 163840, "nb": 4096}
#: 132 multiprocessors x 1980 MHz x 4096.
PEAK = 1070.5


def document(name: str, metrics: list[dict[str, Any]], limits: dict[str, tuple[float, str]]) -> dict[str, Any]:
    made = gpu_document(name, {"copy": 1.0})
    made["metrics"] = metrics
    made["limits"] = {
        m["id"]: dict(zip(("value", "unit", "basis"), (*limits[m["name"]], "by hand"), strict=True))
        if m["name"] in limits
        else {"unknown": "none"}
        for m in metrics
    }
    capped = health_sample(sm_clock_mhz=1410, power_w=698.0, reasons=["sw_power_cap"])
    made["health"]["devices"][0]["worst"] = capped
    return made


def gemm(rate: float = 658.0, of_best: float = 1.0) -> dict[str, Any]:
    falling = [rate * (1.3 - 0.3 * i / 49) for i in range(50)]
    metrics = [
        metric("gemm", GPU, falling, "TFLOP/s", at={**SHAPE, "data": "random", "phase": "first_second"}),
        metric("gemm", GPU, around(rate, 60), "TFLOP/s", at={**SHAPE, "data": "random", "phase": "sustained"}),
        metric("of_best", GPU, [of_best], "1", statistic="total", at=SHAPE),
        metric("over_first", GPU, [1.02], "1", statistic="total", at=SHAPE),
        metric("power", GPU, [695.0], "W", "lower", "total", SHAPE),
        metric("per_watt", GPU, [rate / 695 * 1e3], "GFLOP/s/W", statistic="total", at=SHAPE),
    ]
    return document("gemm", metrics, {"gemm": (PEAK, "TFLOP/s"), "of_best": (1.0, "1")})


def hpl_mxp(rate: float = 530.0) -> dict[str, Any]:
    def one(name: str, samples: list[float], unit: str, direction: str = "lower", statistic: str = "median", **at: Any):
        return metric(name, GPU, samples, unit, direction, statistic, {**SYSTEM, **at})

    metrics = [
        one("hpl_mxp", around(rate, 3), "TFLOP/s", "higher"),
        one("product", around(612.0, 10), "TFLOP/s", "higher"),
        one("residual", [1e-3] * 3, "1"),
        one("factor_error", [0.4] * 3, "1"),
        one("refinements", [2.0] * 3, "1"),
        one("small_share", [0.01], "%", statistic="total"),
        one("phase", [0.3], "s", statistic="total", part="refine"),
    ]
    return document("hpl_mxp", metrics, {"hpl_mxp": (612.0, "TFLOP/s")})


def judged(raw: dict[str, Any], metrics: tuple[str, ...] | None = None) -> Judgement:
    read = results.validate(raw, "result.json")
    expect = Expectation(subjects=("gpu",), gpus=1, metrics=metrics)
    return judge(read, program(raw["program"]), expect, exit_status=0 if read.status == "ok" else 1)


MXP = ("hpl_mxp", "residual", "factor_error", "refinements", "small_share", "product", "phase")


def test_a_card_at_its_power_cap_passes() -> None:
    """In the first second the clock falls from its maximum to that of the power cap; neither invalidates a result."""
    assert judged(gemm()).verdict == verdicts.PASS
    # its products have no limit here, and agreement with them alone is not a PASS
    assert judged(hpl_mxp(), MXP).verdict == verdicts.RECORDED


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (gemm(rate=250.0), "34 % of the limit"),
        (gemm(rate=1200.0), "beyond 1.02"),
        (gemm(of_best=0.95), "of_best"),
        (hpl_mxp(rate=320.0), "0.60 of the products with K = NB"),
        (hpl_mxp(rate=640.0), "beyond 1.02"),
    ],
)
def test_a_figure_out_of_its_bounds_fails(raw: dict[str, Any], words: str) -> None:
    found = judged(raw, MXP if raw["program"] == "hpl_mxp" else None)
    assert found.verdict == verdicts.FAIL
    assert words in found.message(), found.message()


def in_fp8() -> honest.Honest:
    """The kept run of HplMxp as an LU in FP8 would have written it: another name, another format."""
    run = honest.run("hpl_mxp")
    text = (
        run.text.replace('"low": "fp16"', '"low": "fp8"').replace("low=fp16", "low=fp8").replace(", fp16, ", ", fp8, ")
    )
    text = text.replace('"hpl_mxp.gpu0', '"lu_fp8.gpu0').replace('"name": "hpl_mxp"', '"name": "lu_fp8"')
    raw = json.loads(text)
    raw["command"] = ["fp8" if word == "fp16" else word for word in raw["command"]]
    raw["path"]["update"] = "cublasLtMatmul, FP8 E4M3, sums carried over to FP32"
    for check in raw["verification"]["checks"]:
        check["what"] = check["what"].replace("declared maximum of 5", "declared maximum of 24")
    raw["parameters"]["maximum_refinements"] = 24
    metrics = tuple("lu_fp8" if name == "hpl_mxp" else name for name in run.request.metrics or ())
    arguments = tuple("fp8" if word == "fp16" else word for word in run.request.arguments)
    parameters = {**run.request.parameters, "low": "fp8"}
    request = replace(run.request, metrics=metrics, arguments=arguments, parameters=parameters)
    return replace(run, text=json.dumps(raw), request=request)


def test_an_lu_in_fp8_is_judged_as_hpl_mxp_is() -> None:
    run = in_fp8()
    honestly = run.judged(run.raw())
    assert honestly.verdict in (verdicts.PASS, verdicts.RECORDED), honestly.message()


@pytest.mark.parametrize("what", ["A made anew", "declared maximum", "A - LU", "zero or subnormal", "range"])
def test_an_lu_in_fp8_without_one_of_its_verifications_fails(what: str) -> None:
    run = in_fp8()
    raw = run.raw()
    checks = raw["verification"]["checks"]
    raw["verification"]["checks"] = [check for check in checks if what not in check["what"]]
    assert len(raw["verification"]["checks"]) < len(checks)
    found = run.judged(raw)
    assert found.verdict == verdicts.FAIL and "is missing" in found.message(), found.message()
