"""Evidence that a series has become worse, gathered night after night for many hypotheses at once.

For each hypothesis (a step of so many standard deviations, or a drift of so many a night) a CUSUM (Page 1954)
of log likelihood ratios against the series' own noise.  Its value is the evidence for a change of that kind
on the night at which it started; the greatest of all is the evidence of the night.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.detect.noise import PITCH, REACH, Noise, cell
from reports.detect.settings import Settings

_REMEMBERED = 3.0  # what last night hands on to this one is drawn in to so many spreads: a spike has no echo
_CELLS = int(2 * REACH / PITCH) + 1


@dataclass(frozen=True)
class Evidence:
    """Of one night, one entry a series."""

    total: np.ndarray  # nats, corrected for the lengths of window and baseline; 0 where the guard fails
    hypothesis: np.ndarray  # index of the best hypothesis: the steps, then the slopes
    start: np.ndarray  # night on which the change began, under it
    nights: np.ndarray  # number of nights with a value since then
    alone: np.ndarray  # True where this night is worse than anything ordinary, whatever the others are


class Bank:
    """The CUSUMs of a fleet against a change for the worse."""

    def __init__(self, series: int, settings: Settings) -> None:
        self._settings = settings
        self._steps = np.array(settings.steps, dtype=np.float32)
        self._slopes = np.array(settings.slopes, dtype=np.float32)
        shape = (series, len(self._steps) + len(self._slopes))
        self._sum = np.zeros(shape, np.float32)
        self._loudest = np.zeros(shape, np.float32)
        self._nights = np.zeros(shape, np.int16)
        self._start = np.zeros(shape, np.int32)
        self._before = np.zeros(series, np.float32)
        self._rows = (np.arange(series, dtype=np.int32) * _CELLS)[:, None]

    def forget(self, rows: np.ndarray) -> None:
        """Start anew for some of the series."""
        for state in (self._sum, self._loudest, self._nights, self._before):
            state[rows] = 0

    def advance(self, night: int, cost: np.ndarray, noise: Noise) -> Evidence:
        """Take in one night's costs, shape (series,), NaN where there is none.

        What is worse than the largest step that is tried counts as that step.
        """
        value = ((cost - noise.level) / noise.scale).astype(np.float32)
        there = ~np.isnan(value)
        spread = noise.spread.astype(np.float32)[:, None]
        value = np.minimum(np.where(there, value, 0), self._steps[-1] * spread[:, 0]).astype(np.float32)
        memory = noise.memory.astype(np.float32)[:, None]
        limit = _REMEMBERED * spread
        flat = noise.log_density.ravel()
        rows = self._rows

        expected = memory * np.clip(self._before[:, None], -limit, limit)
        residual = value[:, None] - expected
        at = cell(residual) + rows
        unchanged = flat[at]
        unchanged_first = noise.log_first.ravel()[at]
        alone = residual[:, 0] >= noise.edge * PITCH - REACH

        shift_first = self._shift(np.zeros_like(self._nights)) * spread
        shift = self._shift(self._nights) * spread
        shift_before = self._shift(self._nights - 1) * spread
        began = flat[cell(residual - shift_first) + rows] - unchanged_first
        echo = memory * np.clip(self._before[:, None] - shift_before, -limit, limit)
        went_on = flat[cell(value[:, None] - shift - echo) + rows] - unchanged
        began = self._overshot(began, residual, shift_first, unchanged_first, at, noise)
        went_on = self._overshot(went_on, residual, shift, unchanged, at, noise)

        continued = self._sum + went_on
        goes_on = (self._sum > 0) & (continued > began)
        total = np.where(goes_on, continued, began)
        there_and_positive = there[:, None] & (total > 0)
        gone = there[:, None] & (total <= 0)
        self._loudest = np.where(
            there_and_positive, np.where(goes_on, np.maximum(self._loudest, went_on), began), self._loudest
        )
        self._nights = np.where(there_and_positive, np.where(goes_on, self._nights + 1, 1), self._nights)
        self._start = np.where(there_and_positive & ~goes_on, night, self._start)
        self._sum = np.where(there_and_positive, total, self._sum)
        self._sum[gone] = 0
        self._loudest[gone] = 0
        self._nights[gone] = 0
        self._before = np.where(there, value, self._before * noise.memory).astype(np.float32)
        return self._best(there, alone, noise)

    def _shift(self, nights: np.ndarray) -> np.ndarray:
        """Loss expected of the night that follows `nights` nights of change, in spreads."""
        steps = np.broadcast_to(self._steps, (len(nights), len(self._steps)))
        return np.concatenate([steps, self._slopes * (nights[:, len(self._steps) :] + 1)], axis=1)

    def _overshot(
        self,
        gain: np.ndarray,
        residual: np.ndarray,
        shift: np.ndarray,
        unchanged: np.ndarray,
        at: np.ndarray,
        noise: Noise,
    ) -> np.ndarray:
        """A night still worse than supposed speaks for the change as the best it could have been."""
        settings = self._settings
        edge = (noise.edge.astype(np.float32) * np.float32(PITCH) - np.float32(REACH))[:, None]
        best = noise.log_density.ravel()[cell(edge - shift) + self._rows] - unchanged
        reach = np.where(noise.unseen.ravel()[at], np.float32(settings.overshoot), np.inf)
        holds = (residual >= edge) & (residual - shift <= reach)
        holds[:, : len(self._steps)] &= self._steps >= settings.least_overshot
        holds[:, len(self._steps) :] = False
        return np.where(holds, np.maximum(gain, best), gain)

    def _best(self, there: np.ndarray, alone: np.ndarray, noise: Noise) -> Evidence:
        settings = self._settings
        baseline = np.maximum(noise.nights, 1).astype(np.float32)[:, None]
        anchor = np.maximum(noise.anchor, 1).astype(np.float32)[:, None]
        nights = np.maximum(self._nights, 2)
        trust = noise.trust.astype(np.float32)[:, None]
        total = self._sum * (trust * anchor / (anchor + self._nights))
        total -= np.float32(settings.length_price) * np.log(nights / np.float32(2))
        total -= settings.youth_price * np.maximum(0, settings.youth / baseline - 1)
        total = np.where(self._sum - self._loudest >= settings.guard, total, 0)
        best = total.argmax(axis=1)
        rows = np.arange(len(total))
        return Evidence(
            total=np.where(there, np.maximum(total[rows, best], 0), 0),
            hypothesis=best,
            start=self._start[rows, best],
            nights=self._nights[rows, best],
            alone=there & alone,
        )
