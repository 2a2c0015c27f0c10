"""A value that varies within its run by more than its reference permits between runs was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.commands.judge import machine_of
from tenken.judge import rejudge
from tenken.model.numbers import quantile
from tests.support import kept

#: A quick run of an H200 that its system file describes: copies of 16 MiB to the GPU at 53 GB/s; 39.2 are required.
RECORD = next(r for r in kept.quick_run() if r.base_check == "Transfer" and r.system == "h200")
SWEEP = "htod_sweep.gpu0.bytes=16777216"
#: Samples of the same copies in a later session, in GB/s.
SLOWED = (
    31.8,
    53.5,
    53.5,
    52.8,
    53.5,
    53.6,
    53.0,
    53.8,
    53.4,
    52.6,
    30.0,
    28.9,
    40.0,
    31.0,
    32.1,
    33.7,
    34.1,
    31.9,
    27.4,
    25.5,
)


def judged(**samples):
    """Verdict and findings with other samples of some values (`sweep`: the copies of 16 MiB)."""
    metrics = []
    for metric in RECORD.result.metrics:
        other = samples.get(metric.id.split(".")[0] if metric.id != SWEEP else "sweep")
        if other is not None and (metric.id == SWEEP or "bytes" not in metric.id):
            ordered = sorted(other, reverse=True)
            median = quantile(ordered[::-1], 0.5)
            metric = replace(
                metric, value=median, median=median, best=ordered[0], p5=quantile(ordered[::-1], 0.05),
                p95=quantile(ordered[::-1], 0.95), count=len(other), samples=tuple(other),
            )  # fmt: skip
        metrics.append(metric)
    record = replace(RECORD, result=replace(RECORD.result, metrics=tuple(metrics)))
    judgement = rejudge.of_record(record, machine_of(None, RECORD))
    return judgement.verdict, [f for f in judgement.findings if f.metric]


def test_half_of_the_samples_meet_the_reference():
    verdict, findings = judged(sweep=SLOWED)
    assert verdict == "INVALID"
    (finding,) = [f for f in findings if f.metric == SWEEP]
    assert finding.kind == "unsteady" and finding.verdict == "INVALID"
    assert "not measured: 9 of 20 samples reach 48.9881 GB/s" in finding.message


@pytest.mark.parametrize(
    "samples",
    [
        tuple(37.0 + 0.01 * i for i in range(20)),
        (
            53.0,
            53.2,
            53.1,
            53.0,
            *(37.0 + 0.01 * i for i in range(16)),
        ),  # four of twenty: slow, with a few good samples
        tuple(38.7 + 0.05 * i for i in range(20)),  # half of them meet it, and they are close together
        (*(53.0 + 0.01 * i for i in range(4)), *(44 - i for i in range(16))),  # falling, as a clock does under load
    ],
)
def test_a_slow_copy_fails(samples):
    verdict, findings = judged(sweep=samples)
    assert verdict == "FAIL"
    assert [f.kind for f in findings if f.metric == SWEEP] == ["reference"]


def test_an_unsteady_value_does_not_hide_the_miss_of_another():
    half = {
        name: [one / 2 for one in metric.samples]
        for name in ("htod_pinned", "both_pinned")  # a slow link is slow in bidirectional copies too
        for metric in RECORD.result.metrics
        if metric.id == f"{name}.gpu0"
    }
    verdict, findings = judged(sweep=SLOWED, **half)
    assert verdict == "FAIL"
    assert {f.metric: f.verdict for f in findings if f.kind in ("reference", "unsteady")} == {
        "htod_pinned.gpu0": "FAIL", "both_pinned.gpu0": "FAIL", SWEEP: "INVALID",
    }  # fmt: skip


def test_unsteady_samples_that_meet_the_reference_pass():
    verdict, findings = judged(
        sweep=(30.0, *(53.0 + 0.01 * i for i in range(12)), *(36.0 + 0.01 * i for i in range(7)))
    )
    assert verdict == "PASS" and not findings
