"""Simulated histories with known noise and known change, for the comparison of detectors.

A history is `level * exp(noise + change)`: one value a night, a bandwidth (higher is better) whose natural
logarithm carries the noise. A "5 % step" moves the logarithm by -0.05, which is a fall of 4.88 %.

The parameters below were committed before any detector was written.  `HELD_OUT` and `HELD_OUT_SEEDS` were
never used for tuning a detector; the benchmark prints them in a separate table.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SERIES = 200
NIGHTS = 200
CHANGE_NIGHT = 100  # first night (counted from 0) of a planted change

TUNING_SEEDS = tuple(range(101, 121))
HELD_OUT_SEEDS = tuple(range(7001, 7021))

_RUN_TO_RUN = Path(__file__).with_name("h200_run_to_run.csv")
_RUN_TO_RUN_COLUMNS = ("triad_median", "h2d_median", "d2h_median", "p2p_median")

Noise = Callable[[np.random.Generator, int, int], np.ndarray]


@dataclass(frozen=True)
class Family:
    """A kind of noise: `noise(rng, series, nights)` gives the log of value / level, NaN without a run."""

    name: str
    title: str
    noise: Noise
    #: relative standard error of each value, (series, nights), from the samples of its night; None: not stated
    errors: Callable[[int, int], np.ndarray] | None = None


@dataclass(frozen=True)
class Change:
    """The change from `night` on: `step` immediately and `slope` per night, as losses in the logarithm.

    `scatter` is the factor of the distances from the median.
    """

    step: float = 0.0
    slope: float = 0.0
    night: int = CHANGE_NIGHT
    scatter: float = 1.0

    def loss(self, nights: int) -> np.ndarray:
        """Loss of each night, shape (nights,)."""
        since = np.arange(nights) - self.night + 1
        return np.where(since > 0, self.step + self.slope * since, 0.0)


def _ar(rng: np.random.Generator, series: int, nights: int, phi: float) -> np.ndarray:
    """Stationary AR(1) of unit variance."""
    shocks = rng.normal(size=(series, nights))
    out = np.empty_like(shocks)
    out[:, 0] = shocks[:, 0]
    for night in range(1, nights):
        out[:, night] = phi * out[:, night - 1] + np.sqrt(1 - phi**2) * shocks[:, night]
    return out


def _lognormal(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return rng.normal(0, 0.01, (series, nights))


def _autocorrelated(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return 0.01 * _ar(rng, series, nights, 0.5)


def _spiky(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    spikes = (rng.random((series, nights)) < 0.03) * rng.exponential(0.05, (series, nights))
    return rng.normal(0, 0.005, (series, nights)) - spikes


def _bimodal(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return rng.normal(0, 0.005, (series, nights)) - 0.02 * (rng.random((series, nights)) < 0.3)


@functools.cache
def _measured() -> tuple[np.ndarray, ...]:
    """Log of (run / median run) of each bandwidth that was measured run after run on an idle H200."""
    with _RUN_TO_RUN.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = [np.array([float(row[name]) for row in rows]) for name in _RUN_TO_RUN_COLUMNS]
    return tuple(np.log(column / np.median(column)) for column in columns)


def _h200(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    runs = _measured()
    out = rng.normal(0, 0.003, (series, nights))
    for one, which in enumerate(rng.integers(len(runs), size=series)):
        out[one] += rng.choice(runs[which], nights)
    return out


def _ceiling(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    """A value below a ceiling, slightly correlated with the previous night, and coarsely rounded.

    Chi-square with 3 degrees of freedom below the ceiling (standard deviation 0.8 %, skewed), autocorrelation
    0.3, 1 % of nights down by 4 % on average, 4 % of nights missing, rounded to 0.1 %.
    """
    short = sum(_ar(rng, series, nights, np.sqrt(0.3)) ** 2 for _ in range(3)) - 3.0
    out = -0.008 / np.sqrt(6.0) * short
    out -= (rng.random((series, nights)) < 0.01) * rng.exponential(0.04, (series, nights))
    out = np.round(out, 3)
    out[rng.random((series, nights)) < 0.04] = np.nan
    return out


TUNED = (
    Family("lognormal", "lognormal, CV 1 %", _lognormal),
    Family("ar", "autocorrelated (0.5 from night to night), CV 1 %", _autocorrelated),
    Family("spiky", "0.5 %, 3 % of nights down by 5 % on average", _spiky),
    Family("bimodal", "0.5 %, 30 % of nights 2 % lower", _bimodal),
    Family("h200", "run-to-run noise measured on the H200, 0.3 % between nights", _h200),
)


def _gamma(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return -0.01 * (rng.gamma(2.0, 1.0, (series, nights)) - 2) / np.sqrt(2.0)


def _weibull(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return -0.01 * (rng.weibull(1.5, (series, nights)) - 0.9027) / 0.6129


def _student(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return 0.01 * rng.standard_t(3, (series, nights)) / np.sqrt(3.0)


def _remembering(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return 0.01 * _ar(rng, series, nights, 0.7)


def _mixed(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return rng.choice([0.003, 0.01, 0.015], size=(series, 1)) * rng.normal(size=(series, nights))


def _wander(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return rng.normal(0, 0.01, (series, nights)) + np.cumsum(rng.normal(0, 0.001, (series, nights)), axis=1)


def _season(rng: np.random.Generator, series: int, nights: int, period: float) -> np.ndarray:
    phase = rng.random((series, 1)) * 2 * np.pi
    wave = 0.015 * np.sin(2 * np.pi * np.arange(nights) / period + phase)
    return rng.normal(0, 0.005, (series, nights)) + wave


def _season_of_60(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return _season(rng, series, nights, 60)


def _season_of_365(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return _season(rng, series, nights, 365)


def _spells(rng: np.random.Generator, series: int, nights: int, enter: float, leave: float) -> np.ndarray:
    """True in periods that begin and end with these probabilities per night."""
    out = np.zeros((series, nights), bool)
    now = rng.random(series) < enter / (enter + leave)
    for night in range(nights):
        now = np.where(now, rng.random(series) >= leave, rng.random(series) < enter)
        out[:, night] = now
    return out


def _modes(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return rng.normal(0, 0.005, (series, nights)) - 0.02 * _spells(rng, series, nights, 1 / 12, 1 / 12)


def _loud(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return np.where(_spells(rng, series, nights, 1 / 60, 1 / 10), 0.02, 0.005) * rng.normal(size=(series, nights))


def _disturbed(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    """Disturbances of 1 to 3 nights that cost 2.5 %, in 1.5 % of nights."""
    out = rng.normal(0, 0.007, (series, nights))
    for one, night in zip(*np.nonzero(rng.random((series, nights)) < 0.015), strict=True):
        out[one, night : night + int(rng.integers(1, 4))] -= 0.025
    return out


HELD_OUT = (Family("ceiling", "below a ceiling: skewed, 0.3 from night to night, 4 % missing", _ceiling),)
#: Independent or correlated noise of other shapes, and permanently moving levels.
SHAPES = (
    Family("gamma", "gamma of shape 2, worse side, CV 1 %", _gamma),
    Family("weibull", "Weibull of shape 1.5, worse side, CV 1 %", _weibull),
    Family("student", "Student's t of 3 degrees of freedom, CV 1 %", _student),
    Family("ar7", "autocorrelated (0.7 from night to night), CV 1 %", _remembering),
    Family("mixed", "nodes of 0.3, 1 and 1.5 % noise", _mixed),
)
RESTLESS = (
    Family("wander", "1 % and a random walk of 0.1 % per night", _wander),
    Family("season 60", "0.5 % and a wave of 1.5 % in 60 nights", _season_of_60),
    Family("season 365", "0.5 % and a wave of 1.5 % in 365 nights", _season_of_365),
    Family("modes", "0.5 %, two modes 2 % apart in spells of 12 nights", _modes),
    Family("loud", "0.5 %, four times as much in spells of 10 nights", _loud),
    Family("disturbed", "0.7 %, 1 to 3 nights 2.5 % lower now and then", _disturbed),
)


def _quantised(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return np.round(rng.normal(0, 0.008, (series, nights)), 2)


def _weekly(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    weekday = (np.arange(nights)[None, :] + rng.integers(0, 7, (series, 1))) % 7
    return rng.normal(0, 0.007, (series, nights)) - 0.02 * (weekday >= 5)


def _two_hosts(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    host = (np.arange(nights)[None, :] + rng.integers(0, 2, (series, 1))) % 2
    return rng.normal(0, 0.005, (series, nights)) - 0.02 * host


def _gaps(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    out = rng.normal(0, 0.01, (series, nights))
    out[_spells(rng, series, nights, 1 / 10, 1 / 4)] = np.nan
    return out


def _jumps(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    steps = rng.normal(0, 0.0005, (series, nights))
    steps += (rng.random((series, nights)) < 0.01) * rng.normal(0, 0.005, (series, nights))
    return rng.normal(0, 0.006, (series, nights)) + np.cumsum(steps, axis=1)


def _limited(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    return np.minimum(rng.normal(0, 0.012, (series, nights)), 0.002)


def _half_zero(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    out = rng.normal(0, 0.01, (series, nights))
    out[rng.random((series, nights)) < 0.5] = -np.inf
    return out


def _both_ways(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    skewed = 0.01 * (rng.gamma(2.0, 1.0, (series, nights)) - 2) / np.sqrt(2.0)
    return np.where(np.arange(series)[:, None] % 2 == 0, skewed, -skewed)


_BETWEEN, _WITHIN = 0.005, 0.04  # deviation from night to night and of a sample within one


def _samples(nights: int) -> np.ndarray:
    return np.where(np.arange(nights) < nights // 2, 100, 5)


def _few_samples(rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
    within = _WITHIN / np.sqrt(_samples(nights))
    return rng.normal(0, 1, (series, nights)) * np.sqrt(_BETWEEN**2 + within**2)


def _sample_errors(series: int, nights: int) -> np.ndarray:
    return np.broadcast_to(_WITHIN / np.sqrt(_samples(nights)), (series, nights))


#: Values with more than plain noise: their resolution, their calendar, their limits.
AWKWARD = (
    Family("quantised", "0.8 %, recorded in steps of 1 %", _quantised),
    Family("weekly", "0.7 %, 2 % lower on two days of seven", _weekly),
    Family("two hosts", "0.5 %, every other night on a host 2 % slower", _two_hosts),
    Family("gaps", "1 %, missing in spells of 4 nights, 29 % of nights", _gaps),
    Family("jumps", "0.6 %, a random walk of 0.05 % per night with jumps of 0.5 % once in 100", _jumps),
    Family("limited", "1.2 %, cut off 0.2 % above the level", _limited),
    Family("half zero", "1 %, 0 on half of the nights", _half_zero),
    Family("both ways", "gamma of shape 2, CV 1 %, worse and better side", _both_ways),
    Family("few samples", "0.5 %, 4 % within a night, its samples fall from 100 to 5", _few_samples, _sample_errors),
)
FAMILIES = {family.name: family for family in TUNED + HELD_OUT + SHAPES + RESTLESS + AWKWARD}


def histories(
    family: Family, seed: int, change: Change | None = None, series: int = SERIES, nights: int = NIGHTS
) -> np.ndarray:
    """Values of shape (series, nights), level 1000, higher is better, NaN where a night is missing."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family.name)])
    log = family.noise(rng, series, nights)
    if change is not None and change.scatter != 1:
        middle = np.nanmedian(log, axis=1, keepdims=True)
        log[:, change.night :] = middle + change.scatter * (log[:, change.night :] - middle)
    if change is not None:
        log = log - change.loss(nights)
    return 1000.0 * np.exp(log)
