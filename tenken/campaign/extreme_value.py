"""How far the worst of many equal devices may deviate, learned from the devices themselves.

The loss of a device is its distance from the median; larger is worse. Its tail is modelled as Student's t, with shape
and scale fitted to the worse half of all devices. A normal spread gives many degrees of freedom, a heavy-tailed one
few. The limit is the largest one for any shape and scale that agree with the data. Few devices say little about their
tail, so their limit is wide.
"""

from __future__ import annotations

from functools import cache

import numpy as np

#: Tried values of one over degrees of freedom: 0.003 is practically normal, 1 is Cauchy.
SHAPES = np.array(
    [0.003, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.34, 0.4, 0.5, 0.7, 1.0]
)
#: The heaviest tail assumed for few devices, and the number of devices below which they are few.
_FEW, _HEAVIEST_OF_FEW = 400, 0.35
#: Tried scales, relative to that of the median.
_SCALES = np.geomspace(0.5, 2.4, 48)
#: Shapes and scales whose log-likelihood is lower by this many nats contradict the data: for few devices, for many
#: devices with a light tail, and for many with a heavy tail, where a small change of the shape moves the limit far.
_NATS, _NATS_OF_MANY, _NATS_OF_HEAVY, _MANY, _HEAVY = 1.5, 1.0, 7.0, 400, 0.09
#: With fewer devices than this a normal tail may look this heavy by chance.
_SURE, _HEAVY_IF_UNSURE = 4000, 0.2
#: This number and fraction of the worst devices count only as outside, since some may be defective.
_HIDDEN, _HIDDEN_SHARE = 10, 0.003
_BINS = 192

_X = np.concatenate([[0.0], np.geomspace(1e-3, 1e7, 1400)])


@cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of density and upper tail at _X for each of SHAPES, (shapes, points)."""
    density, tail = [], []
    for shape in SHAPES:
        nu = 1 / shape
        angle = np.arctan2(np.sqrt(nu), _X)  # the tail is the integral of sin^(nu - 1) from 0 to it
        grid = np.concatenate([[0.0], np.geomspace(1e-9, np.pi / 2, 20000)])
        power = np.sin(grid) ** (nu - 1) if nu > 1 else np.ones_like(grid)
        steps = np.diff(grid) * (power[1:] + power[:-1]) / 2
        total = np.concatenate([[0.0], np.cumsum(steps)])
        part = np.interp(angle, grid, total) / total[-1] / 2
        with np.errstate(divide="ignore"):
            tail.append(np.maximum(np.log(part), -700.0))
        log_density = -(nu + 1) / 2 * np.log1p(_X**2 / nu)
        norm = np.trapezoid(np.exp(log_density), _X) * 2
        density.append(log_density - np.log(norm))
    return np.array(density), np.array(tail)


def quantile(chance: float, shape: int) -> float:
    """Distance that a value of SHAPES[shape] exceeds on one side with this probability."""
    log_tail = _table()[1][shape]
    return float(np.interp(-np.log(chance), -log_tail, _X))


def limit(losses: np.ndarray, chance: float) -> float:
    """Loss, from the median 0, that one healthy device exceeds with at most this probability; inf if there are too few.

    `losses` (devices,): finite; defective ones may be among them, as long as they are few.
    """
    n = len(losses)
    few = n < 40
    # with few devices both sides count, with many only the worse side, whose tail may differ
    worse = np.sort(np.abs(losses) if few else losses[losses > 0])
    if few:
        worse = worse[: max(n - max(1, n // 8), 1)]
    of = len(worse)
    if few and of < 3:
        return float("inf")
    if of < 3 or worse[-1] <= 0:
        return 0.0  # the others are all alike
    hidden = 0 if few else min(max(_HIDDEN, int(_HIDDEN_SHARE * n)), of // 4)
    seen = worse[: of - hidden]
    edge = seen[-1]
    weights = np.ones(len(seen))
    if len(seen) > _BINS:
        parts = np.array_split(seen, _BINS)
        seen, weights = np.array([p.mean() for p in parts]), np.array([float(len(p)) for p in parts])
    middle = float(np.median(worse))
    unit = max(middle / 0.6745, edge * 1e-6, np.finfo(float).tiny)
    density, tail = _table()
    heaviest = _HEAVIEST_OF_FEW if n < _FEW else 1.0
    usable = np.flatnonzero(heaviest >= SHAPES)
    scales = unit * (_SCALES if not few else np.geomspace(0.3, 6.0, 64))
    likelihood = np.empty((len(usable), len(scales)))
    points = (seen[None, :] / scales[:, None]).ravel()
    ends = edge / scales
    for row, shape in enumerate(usable):
        found = np.interp(points, _X, density[shape]).reshape(len(scales), -1) - np.log(scales)[:, None]
        likelihood[row] = found @ weights + hidden * np.interp(ends, _X, tail[shape])
    best = SHAPES[usable[int(likelihood.max(axis=1).argmax())]]
    nats = (
        _NATS if n < _MANY else _NATS_OF_HEAVY if best > (_HEAVY if n >= _SURE else _HEAVY_IF_UNSURE) else _NATS_OF_MANY
    )
    near = likelihood >= likelihood.max() - nats
    quantiles = np.array([quantile(chance, int(shape)) for shape in usable])
    found = float((quantiles[:, None] * scales[None, :])[near].max())
    return found * (1.0 if few else _beyond(worse, n, usable, scales, likelihood))


def _beyond(worse: np.ndarray, n: int, usable: np.ndarray, scales: np.ndarray, likelihood: np.ndarray) -> float:
    """Factor by which the tail itself extends farther than the best fit to the whole half."""
    row, column = np.unravel_index(int(likelihood.argmax()), likelihood.shape)
    factor = 1.0
    for share in (0.05, 0.02, 0.01, 0.005):
        k = int(share * n)
        if k < 20 or k >= len(worse):
            continue
        expected = quantile(k / (2 * len(worse)), int(usable[row])) * scales[column]
        factor = max(factor, worse[-k] / expected / (1 + 0.7 / np.sqrt(k)))
    return float(factor)
