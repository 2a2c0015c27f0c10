"""Detection sensitivity: the smallest drop that would be detected, given the noise of a series."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from tenken.history.detect.findings import Noise
from tenken.history.detect.windows import NORMAL, WINDOWS, spread_of_mean


def power(noise: Noise, nights: int, chance: float = 0.9) -> np.ndarray:
    """Smallest loss, in cost (0.05 is about 5 %), that is detected within `nights` values with this probability.

    Shape (series,); inf if none would be (a single value is never sufficient), NaN if the noise is unknown. After a
    loss, a window of k values is at that loss with its usual spread; of the windows that fit, the best one counts.
    """
    if nights < 1:
        raise ValueError(f"nights: {nights}, expected at least 1")
    if not 0 < chance < 1:
        raise ValueError(f"chance: {chance}, expected between 0 and 1")
    out = np.full(len(noise.level), np.inf)
    spread = spread_of_mean(noise.memory)
    doubt = (1 + noise.memory) / (1 - noise.memory) / noise.remembered
    beyond = NormalDist().inv_cdf(chance)
    for index, ((kind, length), (_, unit)) in enumerate(zip(WINDOWS, NORMAL, strict=True)):
        if length > nights or kind == "slow":
            continue
        own = noise.deviation * np.sqrt((unit * spread[:, length - 1]) ** 2 * length + doubt)
        out = np.minimum(out, np.maximum(own * noise.limit[:, index], noise.smallest) + beyond * own)
    return np.where(noise.values > 0, out, np.nan)
