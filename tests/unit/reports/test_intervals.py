"""The interval of an acceptance report: exact where it can be computed by hand, calibrated where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from tenken.report.intervals import covered, median_interval
from tools.bench import intervals


def test_coverage_by_rank_is_that_of_a_coin():
    # 2 of 32 sequences of five tosses are all heads or all tails
    assert covered(5, 1) == 1 - 2 / 32
    assert covered(6, 1) == 1 - 2 / 64
    assert covered(6, 2) == 1 - 2 * 7 / 64


def test_few_runs_give_back_their_own_confidence():
    five = median_interval([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (five.median, five.low, five.high, five.confidence) == (3.0, 1.0, 5.0, 0.9375)
    assert median_interval([1.0, 2.0]).confidence == 0.5
    one = median_interval([7.0])
    assert (one.low, one.high, one.confidence, one.runs) == (7.0, 7.0, 0.0, 1)
    for values, confidence in (([], 0.95), ([7.0], 0), ([7.0], 1)):
        with pytest.raises(ValueError, match=f"{len(values)} values and a confidence of {confidence}"):
            median_interval(values, confidence)


def test_interval_lies_between_the_two_ranks_that_enclose_the_confidence():
    values = [float(v) for v in range(1, 13)]
    interval = median_interval(values)
    # ranks 3 and 4 of 12 cover 3938 and 3498 of 4096: 0.1064 of the way, with the weight 9 x / (3 + 6 x)
    assert (interval.low, interval.high) == (pytest.approx(3.2631, abs=1e-4), pytest.approx(9.7369, abs=1e-4))
    assert median_interval([-v for v in values]).low == -interval.high


def test_95_percent_covers_93_to_97():
    rounds = 3000
    # two standard errors for so few rounds; `python -m tools.bench.intervals` makes 20,000 and allows none
    noise = 2 * (0.95 * 0.05 / rounds) ** 0.5
    found = {**intervals.simulated(rounds, 1), **intervals.resampled(rounds, 2)}
    wrong = {k: v for k, (v, _) in found.items() if not intervals.LOW - noise <= v <= intervals.HIGH + noise}
    assert not wrong


def test_what_is_often_done_instead_does_not():
    found = {**intervals.simulated(500, 1), **intervals.resampled(500, 2)}
    assert min(students for _, students in found.values()) < 0.80
    assert intervals.samples_as_runs(200, 3) < 0.60


def test_a_law_that_is_wrong_by_one_rank_is_found():
    draws = np.random.default_rng(4).normal(100, 1, (1000, 12))
    narrow = np.sort(draws, axis=1)[:, [4, 7]]
    assert np.mean((narrow[:, 0] <= 100) & (narrow[:, 1] >= 100)) < intervals.LOW
