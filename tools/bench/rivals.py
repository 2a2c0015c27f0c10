"""Other methods on the same histories: rules in common use, and oracles that know the noise.

Each takes costs (series, nights), where more is worse and 0 is the level of the simulator, NaN where a
night is missing, and returns a boolean array of alarms of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tools.bench.simulate import FAMILIES, Family

FIRST_NIGHT = 44  # all of them stay silent before it

Rule = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Evidence:
    """A statistic that raises an alarm above a threshold; the same name means the same function."""

    name: str
    of: Callable[[np.ndarray], np.ndarray]


def row_median(values: np.ndarray) -> np.ndarray:
    """Median of each row without its NaN (which sort last); NaN for a row of nothing else."""
    ordered = np.sort(values, axis=1)
    count = np.count_nonzero(~np.isnan(ordered), axis=1)
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(count // 2, ordered.shape[1] - 1)
    rows = np.arange(len(ordered))
    return (ordered[rows, low] + ordered[rows, high]) / 2


def fixed_threshold(costs: np.ndarray, tolerance: float) -> np.ndarray:
    """Worse by `tolerance` than the median of the first 30 nights: a fixed reference."""
    reference = row_median(costs[:, :30])[:, None]
    return _from_first_night(costs - reference > tolerance)


def z_score(costs: np.ndarray, limit: float = 3.0, window: int = 10) -> np.ndarray:
    """Worse by `limit` standard deviations of the last `window` nights than their mean."""
    out = np.zeros(costs.shape, bool)
    for night in range(FIRST_NIGHT, costs.shape[1]):
        recent = costs[:, night - window : night]
        mean, deviation = np.nanmean(recent, axis=1), np.nanstd(recent, axis=1, ddof=1)
        out[:, night] = costs[:, night] - mean > limit * deviation
    return out


def exceedance(costs: np.ndarray, k: int, n: int, baseline: int = 40, lag: int = 4) -> np.ndarray:
    """Largest z such that k of the last n nights are worse by z robust deviations than the lagged median."""
    out = np.full(costs.shape, -np.inf)
    for night in range(FIRST_NIGHT, costs.shape[1]):
        before = costs[:, night - lag - baseline : night - lag]
        median = row_median(before)[:, None]
        scale = 1.4826 * row_median(np.abs(before - median))[:, None]
        recent = np.nan_to_num((costs[:, night - n + 1 : night + 1] - median) / scale, nan=-np.inf)
        out[:, night] = np.sort(recent, axis=1)[:, n - k]
    return out


def _from_first_night(alarms: np.ndarray) -> np.ndarray:
    alarms = np.array(alarms)
    alarms[:, :FIRST_NIGHT] = False
    return alarms


def _log_density(family: Family, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Log density of the family's own noise on a grid of costs, from two million nights of it."""
    grid = np.arange(-0.06, 0.8, width)
    sample = -family.noise(np.random.default_rng(0), 2000, 1000).ravel()
    sample = sample[~np.isnan(sample)]
    count, _ = np.histogram(sample, np.append(grid, grid[-1] + width) - width / 2)
    smooth = np.exp(-0.5 * (np.arange(-20, 21) / 3.0) ** 2)
    density = np.convolve(count, smooth / smooth.sum(), mode="same") / (len(sample) * width)
    return grid, np.log(np.maximum(density, 1e-7))


def k_of_k(k: int) -> Evidence:
    return Evidence(f"{k} of {k}", lambda costs: exceedance(costs, k, k))


def oracle(family_name: str, step: float, slope: float) -> Evidence:
    """Evidence of the CUSUM that knows the noise, the level and the exact change.

    No detector that has to learn can do better at the same false rate (Moustakides 1986, for a step in independent
    noise). For the autocorrelated family the likelihood is that of the innovations. For the held-out family the
    autocorrelation is left out, so it is not a bound there.
    """
    family = FAMILIES[family_name]
    memory, deviation = (0.5, 0.01) if family_name == "ar" else (0.0, np.nan)
    width = 0.0002
    grid, table = _log_density(family, width)

    def log_density(residual: np.ndarray) -> np.ndarray:
        if memory:
            return -0.5 * residual**2 / (deviation**2 * (1 - memory**2))
        return table[np.clip(np.rint((residual - grid[0]) / width), 0, len(grid) - 1).astype(int)]

    def evidence(costs: np.ndarray) -> np.ndarray:
        series, nights = costs.shape
        out = np.zeros(costs.shape)
        total, since = np.zeros(series), np.zeros(series)
        before = np.zeros(series)
        for night in range(nights):
            cost = costs[:, night]
            there = ~np.isnan(cost)
            value = np.nan_to_num(cost)
            unchanged = log_density(value - memory * before)
            first = log_density(value - step - slope - memory * before) - unchanged
            shift, shift_before = step + slope * (since + 1), step + slope * since
            later = log_density(value - shift - memory * (before - shift_before)) - unchanged
            on = (total > 0) & (total + later > first)
            new = np.where(on, total + later, first)
            total = np.where(there, np.maximum(new, 0), total)
            since = np.where(there, np.where(new > 0, np.where(on, since + 1, 1), 0), since)
            before = np.where(there, value, before)
            out[:, night] = total
        return out

    return Evidence(f"oracle {step} {slope}", evidence)


def openings(alarms: np.ndarray) -> int:
    """Beginnings of alarms: raised tonight, not last night."""
    return int(np.count_nonzero(alarms[:, 1:] & ~alarms[:, :-1]))


def threshold_for(evidence: np.ndarray, openings_at_most: float) -> float:
    """The lowest threshold of the sample with at most this many openings."""
    candidates = np.unique(evidence[np.isfinite(evidence)])
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if openings(evidence > candidates[middle]) <= openings_at_most:
            high = middle
        else:
            low = middle + 1
    return float(candidates[low])
