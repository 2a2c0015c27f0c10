"""The statistics against brute force: the same formulas written out, one series and one window at a time."""

from __future__ import annotations

import numpy as np
import pytest

from reports.detect.evidence import Bank
from reports.detect.noise import GRID, cell, estimate_shift, fit, row_median
from reports.detect.settings import Settings

ONLY_STEPS = Settings(slopes=())


def _noise(costs, settings=ONLY_STEPS):
    return fit(np.atleast_2d(costs), np.full(len(np.atleast_2d(costs)), 1e-6), settings)


def _brute_sum(noise, costs, step, settings):
    """Greatest sum of log likelihood ratios of a step that began on any night, by trying all of them.

    A beginning whose sum falls to nothing is given up, as the CUSUM does.
    """
    x = (costs - noise.level[0]) / noise.scale[0]
    spread, memory = noise.spread[0], noise.memory[0]
    limit, shift = 3 * spread, step * spread
    edge = GRID[noise.edge[0]]
    table, first_table = noise.log_density[0], noise.log_first[0]

    def log(residual, which=table):
        return which[cell(np.array([residual]))[0]]

    def gain(night, began):
        before = x[night - 1] if night else 0.0
        residual = x[night] - memory * np.clip(before, -limit, limit)
        changed_before = before if night == began else before - shift
        changed = x[night] - shift - memory * np.clip(changed_before, -limit, limit)
        unchanged = log(residual, first_table if night == began else table)
        out = log(changed) - unchanged
        unseen = noise.unseen[0][cell(np.array([residual]))[0]]
        overshot = residual - shift <= (settings.overshoot if unseen else np.inf)
        if residual >= edge and step >= settings.least_overshot and overshot:
            out = max(out, log(edge - shift) - unchanged)
        return out

    last = len(x) - 1
    sums = [np.cumsum([gain(night, began) for night in range(began, last + 1)]) for began in range(len(x))]
    return max((total[-1] for total in sums if np.all(total > 0)), default=0.0)


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_cusum_is_the_greatest_sum_over_all_beginnings(memory):
    rng = np.random.default_rng(3)
    shocks = rng.normal(size=140)
    for night in range(1, 140):
        shocks[night] += memory * shocks[night - 1]
    noise = _noise(shocks[:100])
    assert (noise.memory[0] > 0.3) == (memory > 0)
    bank = Bank(1, ONLY_STEPS)
    after = shocks[100:112] + np.where(np.arange(12) >= 6, 3.0, 0.0)
    for night, cost in enumerate(after):
        bank.advance(night, np.array([cost]), noise)
    for index, step in enumerate(ONLY_STEPS.steps):
        expected = max(_brute_sum(noise, after, step, ONLY_STEPS), 0)
        assert bank._sum[0, index] == pytest.approx(expected, abs=0.35)  # cells are an eighth wide


def test_row_median_is_numpys_without_nan():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(50, 31))
    values[rng.random(values.shape) < 0.4] = np.nan
    np.testing.assert_allclose(row_median(values), np.nanmedian(values, axis=1))


def test_noise_finds_level_scale_and_memory():
    rng = np.random.default_rng(2)
    costs = 7 + 0.02 * rng.normal(size=(300, 150))
    noise = _noise(costs)
    assert np.mean(noise.level) == pytest.approx(7, abs=0.001)
    assert np.mean(noise.scale) == pytest.approx(0.02, rel=0.04)
    assert np.mean(noise.memory > 0) < 0.2
    for night in range(1, 150):
        costs[:, night] = 7 + 0.5 * (costs[:, night - 1] - 7) + 0.02 * rng.normal(size=300)
    assert np.median(_noise(costs).memory) == pytest.approx(0.54, abs=0.05)  # errs upwards on purpose


def test_density_knows_two_modes_and_spikes_do_not_widen_it():
    rng = np.random.default_rng(4)
    two = rng.normal(0, 0.15, 150) + 2.0 * (rng.random(150) < 0.4)
    noise = _noise(two)
    at = (np.array([0.0, 1.0, 2.0]) - noise.level[0]) / noise.scale[0]
    low, between, high = noise.log_density[0][cell(at)]
    assert min(low, high) > between + 0.2
    plain = rng.normal(0, 1, 150)
    spiky = plain.copy()
    spiky[[20, 60, 100]] = 15.0
    assert _noise(spiky).scale[0] < 1.2 * _noise(plain).scale[0]
    far = cell(np.array([12.0]))[0]
    assert _noise(spiky).log_density[0, far] > _noise(plain).log_density[0, far] + 2


def test_mirror_is_the_noise_of_the_negated_costs():
    costs = np.random.default_rng(5).gamma(2.0, size=(6, 120))
    mirrored, negated = _noise(costs).mirrored(), _noise(-costs)
    np.testing.assert_allclose(mirrored.level, negated.level)
    inner = np.abs(GRID) < 3
    np.testing.assert_allclose(mirrored.log_density[:, inner], negated.log_density[:, inner], atol=0.25)
    np.testing.assert_array_equal(mirrored.edge, _noise(costs).edge_below)


def test_shift_estimate_covers_the_truth():
    rng = np.random.default_rng(6)
    noise = _noise(rng.normal(size=(400, 90)))
    shift, low, high = estimate_shift(noise, rng.normal(5.0, 1, (400, 6)))
    assert np.mean(shift) == pytest.approx(5, abs=0.08)
    assert 0.90 < np.mean((low <= 5) & (high >= 5)) <= 0.995


def test_evidence_needs_two_nights_however_bad_one_is():
    noise = _noise(np.random.default_rng(7).normal(size=100))
    for size in (3, 10, 1000):
        bank = Bank(1, Settings())
        assert bank.advance(0, np.array([size]), noise).total[0] == 0


def test_missing_nights_leave_the_evidence_alone():
    noise = _noise(np.random.default_rng(8).normal(size=100))
    with_gaps, without = Bank(1, Settings()), Bank(1, Settings())
    for night, cost in enumerate([3.0, np.nan, 3.2, np.nan, np.nan, 2.9]):
        gapped = with_gaps.advance(night, np.array([cost]), noise)
        if not np.isnan(cost):
            plain = without.advance(night, np.array([cost]), noise)
    assert gapped.total[0] == pytest.approx(plain.total[0])
    assert gapped.nights[0] == 3
