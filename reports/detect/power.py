"""What a series could have shown: the smallest drop that would be found, given its noise."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from reports.detect.noise import CELLS, GRID, PITCH, Noise
from reports.detect.settings import Settings

_SHIFTS = np.arange(2, 81) * PITCH * 2  # in scales: 0.5 to 20
_MISFIT = 0.5  # scales by which a drop misses the nearest step that is tried, at most
_CHUNK = 500  # series at a time: bounds the memory


def power(noise: Noise, nights: int, among: int, settings: Settings | None = None, chance: float = 0.9) -> np.ndarray:
    """Smallest loss, in cost (0.05 is about 5 %), that `nights` nights would show with this `chance`.

    Shape (series,); inf where none would (nights of one are never enough), NaN where the noise is not known.
    `among` is the number of series that are judged together.  The evidence of a night has mean and variance
    under the shifted noise; their sum over the nights is taken as normal, and compared with the threshold.
    """
    if nights < 1:
        raise ValueError(f"nights: {nights}, expected at least 1")
    if not 0 < chance < 1:
        raise ValueError(f"chance: {chance}, expected between 0 and 1")
    settings = settings or Settings()
    out = np.full(len(noise.level), np.nan)
    known = np.flatnonzero(noise.nights > 0)
    for begin in range(0, len(known), _CHUNK):
        rows = known[begin : begin + _CHUNK]
        out[rows] = _least_shift(noise.take(rows), nights, among, settings, chance)
    return out


def threshold(among: int, settings: Settings) -> float:
    """Evidence at which one series that moves alone is reported in a fleet of so many."""
    return settings.threshold + max(0.0, np.log(among / settings.fleet)) / settings.decay


def _least_shift(noise: Noise, nights: int, among: int, settings: Settings, chance: float) -> np.ndarray:
    first = _moments(noise, _SHIFTS[None, :] * np.ones((len(noise.level), 1)), noise.log_first, settings)
    later = _moments(noise, _SHIFTS[None, :] * (1 - noise.memory[:, None]), noise.log_density, settings)
    factor = (noise.trust * noise.anchor / (noise.anchor + nights))[:, None]
    mean = (first[0] + (nights - 1) * later[0]) * factor
    deviation = np.sqrt(first[1] + (nights - 1) * later[1]) * factor
    price = settings.length_price * np.log(max(nights, 2) / 2)
    price = price + settings.youth_price * np.maximum(0, settings.youth / noise.nights - 1)
    needed = threshold(among, settings) + price[:, None]
    seen = mean - _normal_quantile(chance) * deviation >= needed
    # the night that speaks loudest is left out by the guard
    without = (nights - 1) * later[0] - _normal_quantile(chance) * np.sqrt((nights - 1) * later[1])
    seen &= without >= settings.guard
    least = np.where(seen.any(axis=1), _SHIFTS[seen.argmax(axis=1)], np.inf)
    return least * noise.scale


def _moments(
    noise: Noise, shift: np.ndarray, unchanged: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a night's evidence when the noise is moved by `shift` (series, shifts) scales."""
    weight = np.exp(noise.log_density)
    weight[:, np.abs(GRID) > settings.spike] = 0  # spikes do not help
    weight /= weight.sum(axis=1, keepdims=True)
    rows = np.arange(len(shift))[:, None]
    mean, square = np.zeros(shift.shape), np.zeros(shift.shape)
    # a drop between two of the steps that are tried loses a little
    off = np.rint(np.minimum(shift / 14, _MISFIT) / PITCH).astype(int)
    moved = np.rint(shift / PITCH).astype(int)
    for index in np.flatnonzero(np.abs(GRID) <= settings.spike):
        at = np.minimum(index + moved, CELLS - 1)
        gain = noise.log_density[rows, np.minimum(index + off, CELLS - 1)] - unchanged[rows, at]
        probability = weight[:, index][:, None]
        mean += probability * gain
        square += probability * gain**2
    return mean, np.maximum(square - mean**2, 0)


def _normal_quantile(chance: float) -> float:
    return NormalDist().inv_cdf(chance)
