"""When a change began, whether it was gradual, and whether it was a change of scatter: least squares and likelihood of
one series.

Arrays are costs of one series, the newest last.
"""

from __future__ import annotations

import numpy as np

from tenken.history.detect.order import CHANCE, RECENT
from tenken.history.detect.windows import KEPT

#: Log-likelihood by which a slope must be more likely than a step, and more scatter than the usual.
_NATS = -float(np.log(CHANCE))
#: Deviations to which values are clipped in tests of scatter.
SCATTER_CLIP = 3.0


def slow(own: np.ndarray, former: float, reach: float) -> tuple[int, float, bool]:
    """A slow change from the level `former`: (values since its beginning, level before, whether it was sudden).

    It was sudden if at least half of it is one step, of the newest values or of all, and a slope does not fit better
    (least squares; values beyond both levels by more than `reach` are clipped). A slower change is dated to the
    beginning of its slope, or to the largest step of a staircase.
    """
    count = len(own)
    total = float(np.median(own[-RECENT:])) - former
    own = np.clip(own, min(former, former + total) - reach, max(former, former + total) + reach)
    for begin, least in ((count - KEPT, 2), (0, RECENT)):
        new, residual = _step(own[max(begin, 0) :], least)
        before = float(np.median(own[max(begin, 0) : count - new]))
        part = (float(np.median(own[count - new :])) - before) / total if total else 0.0
        if begin > 0 and 2 * part >= 1:
            return new, before, True
    since, left = slope(own)
    if _likelier(count, left, residual):
        return since, former, False
    return new, before if 2 * part >= 1 else former, 2 * part >= 1


def slope(own: np.ndarray) -> tuple[int, float]:
    """For the best-fitting slope that starts at least 2 RECENT from the end: values since, residual sum of squares."""
    count = len(own)
    x = np.maximum(np.arange(count) - np.arange(count - 2 * RECENT)[:, None], 0.0)
    x -= x.mean(axis=1, keepdims=True)
    left = ((own - own.mean()) ** 2).sum() - (x @ own) ** 2 / (x**2).sum(axis=1)
    return count - int(left.argmin()) - 1, float(left.min())


def _step(own: np.ndarray, least: int) -> tuple[int, float]:
    """For the best step with at least this many values after it and RECENT before: values after it, residual sum of
    squares."""
    count = len(own)
    number = np.arange(1, count)
    sums = np.cumsum(own)[:-1]
    apart = sums / number - (own.sum() - sums) / (count - number)
    residual = ((own - own.mean()) ** 2).sum() - apart**2 * number * (count - number) / count
    at = RECENT - 1 + int(residual[RECENT - 1 : count - least].argmin())
    return count - at - 1, float(residual[at])


def beginning(own: np.ndarray, length: int, least: int, longest: int, reach: float) -> int:
    """Number of newest values, from `least` to `longest`, that best fit a new level (maximum likelihood of a step); the
    newest `length` revealed it; `own` are distances from the level before.
    """
    target = np.median(own[-length:])
    gain = np.clip(own**2, 0, (np.abs(target) + reach) ** 2) - (own - target) ** 2
    totals = np.cumsum(gain[::-1])[least - 1 : max(longest, least)]
    return least + int(totals.argmax())


def is_slope(own: np.ndarray, length: int) -> bool:
    """Whether a slope fits values better than a step before the newest `length` (least squares); `own` are distances
    from the level before."""
    count = len(own)
    if count < RECENT:
        return False
    step = own.copy()
    step[: count - length] -= np.mean(own[: count - length]) if count > length else 0
    step[count - length :] -= np.mean(own[count - length :])
    x = np.arange(count) - (count - 1) / 2
    line = own - own.mean() - float((own * x).sum() / (x**2).sum()) * x
    return _likelier(count, (line**2).sum(), (step**2).sum())


def _likelier(count: int, slope: float, step: float) -> bool:
    """Whether the residual sum of squares of a slope makes it more likely than a step, by _NATS."""
    tiny = np.finfo(float).tiny
    return bool(count / 2 * np.log(max(step, tiny) / max(slope, tiny)) > _NATS)


def scatter(off: np.ndarray, length: int, memory: float, deviation: float) -> float:
    """Scatter of the values about the levels before and after a change, relative to the usual scatter; 1 unless
    certain.

    `off` are distances from the level before; the newest `length` belong to the new one. The residuals distinguish a
    change of scatter from a change of level; the likelihood of a change since any of the newest values must be high.
    """
    count = len(off)
    if count - length < 2:
        return 1.0
    off = off.copy()
    new = off[count - length :]
    off[count - length :] = new - (np.median(new) if length > 2 else new.mean())
    off[1:] -= memory * off[:-1]
    off[1:] /= np.sqrt(1 - memory**2)
    square = np.minimum((off[::-1] / deviation) ** 2, SCATTER_CLIP**2)
    total = np.cumsum(square)[length:]
    free = np.arange(length, count)  # values less the one used for the new level
    ratio = np.maximum(total / free, 1.0)
    nats = free / 2 * (ratio - 1 - np.log(ratio))
    at = int(nats.argmax())
    return float(np.sqrt(ratio[at])) if nats[at] >= _NATS else 1.0
