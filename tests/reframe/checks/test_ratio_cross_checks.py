"""Values that others of their run give again: one changed alone is named, healthy and scattered runs are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenken.judge import ratio_cross_checks
from tenken.model.numbers import quantile
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, PASS, RECORDED
from tests.support import kept
from tools.criteria import slower

SESSIONS = [*kept.all_records(), *kept.two_clean(), *kept.quick_run(), *kept.one_card()]


def one_of(program: str, name: str) -> Result:
    return next(
        r.result
        for r in SESSIONS
        if r.result is not None and r.program == program and any(m.name == name for m in r.result.metrics)
    )


def with_one(result: Result, changed: MetricValue) -> Result:
    return replace(result, metrics=tuple(changed if m.id == changed.id else m for m in result.metrics))


def sampled(metric: MetricValue, samples: tuple[float, ...]) -> MetricValue:
    middle = quantile(sorted(samples), 0.5)
    return replace(metric, samples=samples, count=len(samples), value=middle, median=middle)


def test_no_value_of_a_healthy_run_contradicts_the_others() -> None:
    runs = [r.result for r in SESSIONS if r.result is not None and r.verdict in (PASS, RECORDED)]
    held = {(result.program, m.name) for result in runs for m, _, _, _ in ratio_cross_checks.derived(result)}
    assert held >= {
        ("stencil", "share"), ("stencil", "gain"), ("overlap", "snapshot_cost"), ("overlap", "hidden"),
        ("overlap", "gain"), ("storage_map", "copy_over_cufile"), ("storage_map", "adaptive_over_cufile"),
        ("storage_map", "pinned_read_over_least"), ("storage_map", "best_write"), ("storage_map", "best_read_cold"),
    }  # fmt: skip
    assert not [finding.message for result in runs for finding in ratio_cross_checks.of(result)]


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("stencil", "gain"), ("overlap", "snapshot_cost"), ("overlap", "hidden"), ("overlap", "gain"),
        ("storage_map", "best_write"), ("storage_map", "best_read_cached"), ("storage_map", "copy_over_cufile"),
        ("storage_map", "adaptive_over_cufile"), ("storage_map", "pinned_read_over_least"),
    ],
)  # fmt: skip
def test_a_value_that_was_changed_alone_is_named(program: str, name: str) -> None:
    result = one_of(program, name)
    for metric in [m for m in result.metrics if m.name == name][:4]:
        (finding,) = ratio_cross_checks.of(with_one(result, slower(metric)))
        assert (finding.verdict, finding.metric) == (FAIL, metric.id) and "% apart" in finding.message


def test_a_share_is_its_phase_over_all_phases() -> None:
    result = one_of("stencil", "share")
    large = next(m for m in result.metrics if m.name == "share" and m.value > 30)
    small = next(m for m in result.metrics if m.name == "share" and 0 < m.value < 0.5)
    (finding,) = ratio_cross_checks.of(with_one(result, replace(large, value=large.value - 3)))
    assert finding.metric == large.id and "the sum of all phases" in finding.message
    assert not ratio_cross_checks.of(with_one(result, replace(large, value=large.value - 1)))
    assert not ratio_cross_checks.of(with_one(result, replace(small, value=3 * small.value))), "medians of microseconds"


def test_a_ratio_of_few_scattered_rounds_is_formed_from_times() -> None:
    """The median of four rates is not the rate of the median time if the two in the middle lie far apart."""
    result = one_of("storage_map", "adaptive_over_cufile")
    ratio = next(m for m in result.metrics if m.name == "adaptive_over_cufile")
    adaptive = next(m for m in result.metrics if m.name == "adaptive" and m.at == ratio.at)
    rates = (1.0, 1.0, 3.0, 3.0)
    scattered = sampled(adaptive, rates)
    times = 1 / quantile(sorted(1 / rate for rate in rates), 0.5)
    by_times = replace(ratio, value=ratio.value * times / ratio_cross_checks._of_times(adaptive))
    by_rates = replace(ratio, value=ratio.value * scattered.median / ratio_cross_checks._of_times(adaptive))
    assert not ratio_cross_checks.of(with_one(with_one(result, scattered), by_times))
    assert ratio_cross_checks.of(with_one(with_one(result, scattered), by_rates))


def test_loops_of_equal_time_or_of_thinned_samples_give_nothing_again() -> None:
    result = one_of("overlap", "hidden")
    loops = {m.at["mode"]: m for m in result.metrics if m.name == "loop"}
    equal = with_one(result, replace(loops["serial"], samples=loops["none"].samples))
    assert not [m for m, _, _, _ in ratio_cross_checks.derived(equal) if m.name == "hidden"]
    thinned = with_one(result, replace(loops["none"], samples=loops["none"].samples[:-1]))
    assert not [m for m, _, _, _ in ratio_cross_checks.derived(thinned) if m.name in ("hidden", "gain")]
