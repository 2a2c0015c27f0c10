"""The interval of a median over runs from the ranks of the runs alone, for any distribution of noise.

The median of the distribution of n independent values is between the d-th smallest and the d-th largest with
probability 1 - 2 P(Binomial(n, 1/2) < d). The two d around the requested confidence are interpolated as by
Hettmansperger and Sheather (1986), which hardly depends on the distribution. With five runs or fewer, even the widest
interval, from the smallest to the largest, has less than 95 %; its own confidence (93.8 % for five runs, 87.5 % for
four) is then returned.

Student's interval of the mean is not used: on one GPU, where slow launches form a tail, its 95 % cover 77 to 87 %
(docs/acceptance.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from tenken.model.numbers import quantile


@dataclass(frozen=True)
class Interval:
    """Median over runs and its interval with probability `confidence`; of width 0 for a single run."""

    median: float
    low: float
    high: float
    confidence: float
    runs: int


def covered(runs: int, rank: int) -> float:
    """Probability that the median lies between the `rank`-th smallest and the `rank`-th largest of `runs` values."""
    return 1 - 2 * sum(comb(runs, i) for i in range(rank)) / 2**runs


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The interval of the median of at least one value. Raises ValueError for none, or a confidence not in (0, 1)."""
    if not values or not 0 < confidence < 1:
        raise ValueError(f"{len(values)} values and a confidence of {confidence}: no interval")
    ordered = sorted(values)
    runs = len(ordered)
    middle = quantile(ordered, 0.5)
    widest = covered(runs, 1)
    if widest <= confidence:
        return Interval(middle, ordered[0], ordered[-1], max(widest, 0.0), runs)
    rank = 1
    while covered(runs, rank + 1) >= confidence:
        rank += 1
    wide, narrow = covered(runs, rank), covered(runs, rank + 1)
    share = (wide - confidence) / (wide - narrow)
    weight = (runs - rank) * share / (rank + (runs - 2 * rank) * share)
    low = (1 - weight) * ordered[rank - 1] + weight * ordered[rank]
    high = (1 - weight) * ordered[runs - rank] + weight * ordered[runs - rank - 1]
    return Interval(middle, low, high, confidence, runs)
