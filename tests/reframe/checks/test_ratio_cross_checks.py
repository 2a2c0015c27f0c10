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


def test_a_share_is_its_phase_over_all_phases_of_the_same_block() -> None:
    result = one_of("stencil", "share")
    for share in [m for m in result.metrics if m.name == "share" and m.value > 0]:
        (finding,) = ratio_cross_checks.of(with_one(result, replace(share, value=1.05 * share.value)))
        assert finding.metric == share.id and "all phases of the same blocks" in finding.message


def test_shares_of_scattered_blocks_are_not_formed_from_medians() -> None:
    """Seen with three ranks on two busy cores: 55.6 % by blocks, 61.2 % by the medians of the phases."""
    result = one_of("stencil", "share")
    exchange = next(m.at["exchange"] for m in result.metrics if m.name == "share")
    times = {"compute": (1.0, 1.0, 8.0), "pack": (0.0, 0.0, 0.0), "halo_node": (3.0, 1.0, 1.0), "halo_net": (0.0,) * 3}
    times["sync"] = (0.5, 4.0, 4.0)
    sums = [sum(block) for block in zip(*times.values(), strict=True)]
    for m in [m for m in result.metrics if m.at.get("exchange") == exchange]:
        if m.name in times:
            result = with_one(result, sampled(m, times[m.name]))
        elif m.name == "share":
            of = zip(times[str(m.at["phase"])], sums, strict=True)
            result = with_one(result, sampled(m, tuple(100 * one / whole for one, whole in of)))
    assert not [f for f in ratio_cross_checks.of(result) if (f.metric or "").startswith("share")]
    shares = {m.at["phase"]: m.value for m in result.metrics if m.name == "share" and m.at["exchange"] == exchange}
    of_medians = 100 * 1.0 / (1.0 + 0.0 + 1.0 + 0.0 + 4.0)
    assert abs(shares["compute"] - of_medians) > 5


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
