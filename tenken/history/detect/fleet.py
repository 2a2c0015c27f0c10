"""One campaign: outliers among siblings that should be equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenken.history.detect.order import MAD
from tenken.model.numbers import student_quantile

LEAST_SIBLINGS = 5  # with fewer the outlier cannot be identified


@dataclass(frozen=True)
class Outliers:
    """`order` has the indices of the outliers, worst first; `enough` is False if there were too few to judge."""

    enough: bool
    order: np.ndarray
    centre: float
    scale: float
    deviation: np.ndarray  # of every sibling's value from the centre, relative to it
    limit: float  # relative deviation beyond which a single sibling would be an outlier


def fleet_outliers(
    values: np.ndarray,
    higher_is_better: bool,
    false_chance: float = 0.01,
    relative_floor: float = 0.01,
    most: float = 0.3,
) -> Outliers:
    """Siblings that are worse than the others (not those that are better).

    `values` (siblings,) of one metric, NaN where missing. The generalised ESD test (Rosner 1983) with median and MAD in
    place of mean and deviation, one-sided, on logarithms if all values are positive. At most the fraction `most` of the
    siblings can be outliers; `false_chance` is the probability of any outlier if all are equal. Deviations below
    `relative_floor` are not reported. ValueError for anything but a vector.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"values: {values.ndim} dimensions, expected one value per sibling")
    there = np.flatnonzero(np.isfinite(values))
    nobody = np.empty(0, int)
    if len(there) < LEAST_SIBLINGS:
        return Outliers(False, nobody, np.nan, np.nan, np.full(len(values), np.nan), np.nan)
    use_log = bool(np.all(values[there] > 0))
    centre = float(np.median(values[there]))
    unit = 1.0 if use_log else max(abs(centre), np.finfo(float).tiny)
    loss = np.full(len(values), np.nan)
    loss[there] = np.log(values[there] / centre) if use_log else (values[there] - centre) / unit
    if higher_is_better:
        loss = -loss

    remaining = there.tolist()
    candidates: list[int] = []
    statistics: list[bool] = []
    first_scale, first_limit = np.nan, np.nan
    for step in range(max(1, int(most * len(there)))):
        sample = loss[remaining]
        middle = float(np.median(sample))
        scale = max(_scale(sample), relative_floor / 4)
        limit = max(_critical(len(sample), false_chance) * scale, relative_floor)
        if step == 0:
            first_scale, first_limit = scale, limit
        worst = int(np.argmax(sample))
        statistics.append(bool(sample[worst] - middle > limit))
        candidates.append(remaining.pop(worst))
        if len(remaining) < LEAST_SIBLINGS - 1:
            break
    last = max((index + 1 for index, passed in enumerate(statistics) if passed), default=0)
    named = np.array(candidates[:last], dtype=int)
    order = named[np.argsort(-loss[named], kind="stable")] if last else nobody
    relative = np.expm1(-loss if higher_is_better else loss) if use_log else (-loss if higher_is_better else loss)
    return Outliers(True, order, centre, first_scale * abs(centre), relative, first_limit)


def _scale(sample: np.ndarray) -> float:
    """MAD as a standard deviation, corrected for small samples (Croux and Rousseeuw 1992)."""
    return len(sample) / (len(sample) - 0.8) * MAD * float(np.median(np.abs(sample - np.median(sample))))


def _critical(n: int, false_chance: float) -> float:
    """The deviation that the worst of n equal siblings exceeds with this probability.

    Rosner's bound uses Student's t with n - 2 degrees of freedom for the standard deviation. The MAD is worth about
    half as many, as fitted to 40,000 samples of each n from 5 to 128.
    """
    return student_quantile(1 - false_chance / n, 0.48 * (n - 1) + 0.5)
