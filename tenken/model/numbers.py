"""Definitions of a number and of a quantile, shared by all parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any


def is_number(value: Any) -> bool:
    """True for a finite int or float that is not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """Quantile of an ascending sequence by linear interpolation between order statistics (numpy's default)."""
    return quantiles(ordered, (fraction,))[0]


def rate_of_times(rates: Sequence[float], otherwise: float) -> float:
    """The rate of the median time. For an even number of rates that lie far apart, the median rate would differ.
    `otherwise` if there are none, or one is not a rate."""
    return 1 / quantile(sorted(1 / rate for rate in rates), 0.5) if rates and min(rates) > 0 else otherwise


def quantiles(ordered: Sequence[float], fractions: tuple[float, ...]) -> list[float]:
    """Several quantiles of one ascending sequence, in the order of `fractions`."""
    return [ordered[low] + (ordered[high] - ordered[low]) * part for low, high, part in places(len(ordered), fractions)]


@lru_cache(maxsize=1024)
def places(count: int, fractions: tuple[float, ...]) -> tuple[tuple[int, int, float], ...]:
    """For each quantile of `count` numbers its two neighbours and the weight of the second."""
    found = []
    for fraction in fractions:
        position = fraction * (count - 1)
        low = math.floor(position)
        found.append((low, min(low + 1, count - 1), position - low))
    return tuple(found)


@lru_cache(maxsize=1024)
def student_quantile(probability: float, degrees: float) -> float:
    """Quantile above 0.5 of Student's t, of at least one degree of freedom, by bisection on its distribution."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        if _student_tail(middle, degrees) > 1 - probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _student_tail(t: float, degrees: float) -> float:
    """P(T > t), t >= 0: the integral of sin^(degrees - 1) from 0 to the angle of sqrt(degrees) over t, by Simpson."""
    steps, end = 200, math.atan2(math.sqrt(degrees), t)
    values = [math.sin(end * at / steps) ** (degrees - 1) for at in range(steps + 1)]
    integral = (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2])) * end / steps / 3
    return math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi) * integral


#: A failure is proven if its probability is below this: with many methods, sizes and evaluations, some exceed the bound
#: by chance.
SURELY = 0.00005


def interval(samples: Sequence[float], beyond: float) -> tuple[float, float]:
    """The confidence interval of the median, from signs alone: the median is beyond either end with at most probability
    `beyond` (exact binomial).

    If there are too few samples for that, minimum and maximum.
    """
    ordered = sorted(samples)
    count = len(ordered)
    tail, each = 0, 0
    while 2 * (each + 1) <= count:
        tail += math.comb(count, each)
        if tail > beyond * 2**count:
            break
        each += 1
    from_end = max(each, 1) - 1
    return ordered[from_end], ordered[count - 1 - from_end]


def enough(samples: Sequence[float]) -> bool:
    """Whether this many samples can prove that their median is below a bound: fifteen can."""
    return 0.5 ** len(samples) <= SURELY


def surely_below(samples: Sequence[float], bound: float) -> bool:
    """Whether the median is below a bound with confidence. Fewer than fifteen samples are never sufficient."""
    return enough(samples) and interval(samples, SURELY)[1] < bound
