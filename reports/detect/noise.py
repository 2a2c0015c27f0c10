"""What a series does when nothing is wrong: level, scale, memory and its own distribution.

The distribution is kept as a table of log densities relative to their peak, on a grid of residuals in units
of their scale, so that a likelihood ratio costs two look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from reports.detect.settings import Settings

REACH = 15.0  # the grid goes this many scales to either side; what lies beyond is as at the end
PITCH = 0.125
CELLS = int(2 * REACH / PITCH) + 1
GRID = np.arange(CELLS) * PITCH - REACH
MIDDLE = CELLS // 2

_CLIP = 3.0  # residuals are drawn in to so many scales for moments, so that spikes do not inflate them
_NEAR = 0.5  # a past night this close (in scales) to a value counts as having been as bad
_CANDIDATES = np.arange(-6, 6.01, 0.1)  # shifts tried, in scales about the median
_DISTRUST = 0.35  # part of the evidence that is not believed where bad nights come in clusters:
_CLUSTERED = 0.2  # where there is more memory than this, and a flank that is exponential
_DOUBTED_SCALE = 0.7  # a scale from n nights is taken larger by this over n ...
_DOUBTED_MEMORY = 10.0  # ... and by this times the memory, which leaves fewer nights that count
_FLANK = 1.0  # scales beyond which a side of the distribution is its flank
_NORMAL_EXCESS = 0.525  # mean of what a normal variable exceeds 1 by, where it does
_EXPONENTIAL = 0.3  # relative surplus of that at which a flank counts as exponential
_LEAST_MEMORY = 0.12  # autocorrelation that may be chance; at twice it, it counts in full
_UPWARD = 0.75  # standard errors by which a memory is taken to be larger than estimated
_SEEN = 0.5  # counts are compared with this: zero, or at least one


def cell(residual: np.ndarray) -> np.ndarray:
    """Index into the grid of each residual (in scales)."""
    index = np.multiply(residual, 1 / PITCH, dtype=np.float32)
    index += REACH / PITCH + 0.5
    np.clip(index, 0, CELLS - 1, out=index)
    return index.astype(np.int32)


@dataclass
class Noise:
    """One row a series.  A residual is `x - memory * x_before`, where x is (cost - level) / scale."""

    level: np.ndarray  # cost of an ordinary night
    scale: np.ndarray  # standard deviation of the residuals, in cost
    spread: np.ndarray  # standard deviation of the costs themselves, in scales (1 without memory)
    memory: np.ndarray  # autocorrelation from night to night, 0 where it cannot be told from none
    nights: np.ndarray  # number of nights of baseline
    anchor: np.ndarray  # number of nights on which `level` rests: fewer than `nights` after a level shift
    log_density: np.ndarray  # (series, CELLS), 0 at the peak, floored by what a spike may do
    log_first: np.ndarray  # the same with the floor that holds on the first bad night
    unseen: np.ndarray  # (series, CELLS) True where no past night was as bad
    edge: np.ndarray  # first cell above the peak where only the floor is left
    edge_below: np.ndarray  # the same below the peak, as it comes in the mirrored table
    trust: np.ndarray  # of the evidence above the peak: 1, less where a heavy flank has memory
    trust_below: np.ndarray

    def take(self, rows: np.ndarray) -> Noise:
        """The same for some of the series."""
        return Noise(*(getattr(self, one.name)[rows] for one in fields(self)))

    def put(self, rows: np.ndarray, other: Noise) -> None:
        """Overwrite some of the series with those of `other`."""
        for one in fields(self):
            getattr(self, one.name)[rows] = getattr(other, one.name)

    def mirrored(self) -> Noise:
        """The noise of -cost: what is better becomes worse."""
        return Noise(
            -self.level,
            self.scale,
            self.spread,
            self.memory,
            self.nights,
            self.anchor,
            np.ascontiguousarray(self.log_density[:, ::-1]),
            np.ascontiguousarray(self.log_first[:, ::-1]),
            np.ascontiguousarray(self.unseen[:, ::-1]),
            self.edge_below,
            self.edge,
            self.trust_below,
            self.trust,
        )


def row_median(values: np.ndarray) -> np.ndarray:
    """Median of each row without its NaN (which sort last); NaN for a row of nothing else."""
    ordered = np.sort(values, axis=1)
    count = np.count_nonzero(~np.isnan(ordered), axis=1)
    low = np.maximum(count - 1, 0) // 2
    high = np.minimum(count // 2, ordered.shape[1] - 1)
    rows = np.arange(len(ordered))
    return (ordered[rows, low] + ordered[rows, high]) / 2


def _mean(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.nansum(values, axis=1) / np.maximum(count, 1)


def _memory(drawn: np.ndarray, variance: np.ndarray, nights: np.ndarray) -> np.ndarray:
    """Autocorrelation at one night, taken as 0 unless it stands out, then rather too large than too small.

    The estimate is biased by -(1 + 3 phi) / n (Kendall 1954) and has variance (1 - phi^2) / n.
    """
    product = drawn[:, 1:] * drawn[:, :-1]
    pairs = np.count_nonzero(~np.isnan(product), axis=1)
    phi = _mean(product, pairs) / np.maximum(variance, np.finfo(float).tiny)
    phi = phi + (1 + 3 * phi) / nights
    doubt = np.sqrt(np.clip(1 - phi**2, 0.2, 1) / nights)
    least = np.minimum(_LEAST_MEMORY, 1.1 * doubt)  # a short baseline must not hide a memory that is there
    stands_out = np.clip((phi - least) / _LEAST_MEMORY, 0, 1)
    return np.clip((phi + _UPWARD * doubt) * stands_out, 0, 0.9)


def fit(costs: np.ndarray, floor: np.ndarray, settings: Settings) -> Noise:
    """Noise of each series from its baseline nights.

    `costs` has shape (series, nights), NaN where there is no night to learn from; `floor` (series,) is the
    least scale, in cost.  A row without any night gives NaN levels, which no caller should judge with.
    """
    series = len(costs)
    there = ~np.isnan(costs)
    nights = np.count_nonzero(there, axis=1)
    count = np.maximum(nights, 1)

    level = row_median(costs)
    rough = np.maximum(1.4826 * row_median(np.abs(costs - level[:, None])), floor)[:, None] * _CLIP
    level = level + _mean(np.clip(costs - level[:, None], -rough, rough), count)
    about = costs - level[:, None]
    drawn = np.clip(about, -rough, rough)
    variance = np.maximum(_mean(drawn**2, count), floor**2)
    memory = _memory(drawn, variance, count)

    before = np.concatenate([np.zeros((series, 1)), np.nan_to_num(drawn[:, :-1])], axis=1)
    residual = about - memory[:, None] * before
    scale = np.sqrt(_mean(np.clip(residual, -rough, rough) ** 2, count))
    scale = scale * (1 + (_DOUBTED_SCALE + _DOUBTED_MEMORY * memory) / count)
    scale = np.maximum(scale, floor)

    histogram = _histogram(residual / scale[:, None], there)
    density, heavy, heavy_below = _density(histogram, count, settings)
    clustered = _DISTRUST * np.clip((memory - _CLUSTERED) / 0.15, 0, 1)
    peak = density.max(axis=1, keepdims=True)
    seen = _seen(histogram, settings)
    first, later = _floors(seen, count, settings)
    log_density = np.log(np.maximum(density / peak, later))
    bare = density <= peak * later
    return Noise(
        level=level,
        scale=scale,
        spread=np.sqrt(variance) / scale,
        memory=memory,
        nights=nights,
        anchor=nights.copy(),
        log_density=log_density.astype(np.float32),
        log_first=np.log(np.maximum(density / peak, first)).astype(np.float32),
        unseen=seen < _SEEN,
        edge=MIDDLE + bare[:, MIDDLE:].argmax(axis=1),
        edge_below=MIDDLE + bare[:, MIDDLE::-1].argmax(axis=1),
        trust=1 - clustered * heavy,
        trust_below=1 - clustered * heavy_below,
    )


def estimate_shift(noise: Noise, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far some nights lie from the level: most likely value, and the 95 % interval, in cost.

    `costs` has shape (series, nights), NaN where there is no night; at least one is needed in each row.  The
    interval is that of the likelihood ratio (a fall of 1.92), whose fall is lessened where the nights
    remember each other and where the level itself rests on few nights.
    """
    value = (costs - noise.level[:, None]) / noise.scale[:, None]
    there = ~np.isnan(value)
    nights = np.count_nonzero(there, axis=1)
    centre = row_median(value)
    candidates = centre[:, None] + _CANDIDATES
    rows = (np.arange(len(value)) * CELLS)[:, None]
    flat = noise.log_density.ravel()
    likelihood = np.zeros(candidates.shape)
    for night in range(value.shape[1]):
        off = np.nan_to_num(value[:, night])[:, None] - candidates
        likelihood += np.where(there[:, night, None], flat[cell(off) + rows], 0)
    weight = (1 - noise.memory) / (1 + noise.memory) * noise.anchor / (noise.anchor + nights)
    fall = (likelihood.max(axis=1, keepdims=True) - likelihood) * weight[:, None]
    inside = fall <= 1.92
    some = np.arange(len(value))
    tip = np.where(fall < 0.05, candidates, np.nan)
    low = candidates[some, inside.argmax(axis=1)]
    high = candidates[some, candidates.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)]
    return np.nanmean(tip, axis=1) * noise.scale, low * noise.scale, high * noise.scale


def _histogram(residual: np.ndarray, there: np.ndarray) -> np.ndarray:
    series = len(residual)
    cells = cell(np.where(there, residual, 0.0)) + np.arange(series)[:, None] * CELLS
    return np.bincount(cells[there], minlength=series * CELLS).reshape(series, CELLS).astype(np.float32)


def _density(
    histogram: np.ndarray, nights: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Density on the grid, and how far (0 to 1) its flanks above and below are exponential.

    Half a law with a normal core, half a kernel estimate (Gaussian, width by Silverman's rule).

    The first half keeps the flanks steady where there are few nights, the second knows of other modes.
    """
    width = 0.9 * max(float(np.median(nights)), 1.0) ** -0.2
    kernel = np.exp(-0.5 * ((GRID[:, None] - GRID) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    estimate = (histogram @ kernel.astype(np.float32)) / nights[:, None]
    flanks = np.empty_like(estimate)
    flanks[:, MIDDLE:], heavy = _flank(histogram[:, MIDDLE:], nights, settings)
    flanks[:, MIDDLE::-1], heavy_below = _flank(histogram[:, MIDDLE::-1], nights, settings)
    return 0.5 * estimate + 0.5 * flanks, heavy, heavy_below


def _flank(histogram: np.ndarray, nights: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Density to one side of the middle: normal, but exponential from `_FLANK` on where the series shows it.

    The mean excess over `_FLANK` scales tells: it is `_NORMAL_EXCESS` for the normal law.  Only what
    exceeds that by more than its standard error counts; between the two laws the logarithm is interpolated.
    """
    residual = GRID[MIDDLE:]
    inside = (residual > _FLANK) & (residual <= settings.spike)
    count = histogram[:, inside].sum(axis=1)
    some = np.maximum(count, 1)
    excess = histogram[:, inside] @ (residual[inside] - _FLANK) / some
    heavier = excess / _NORMAL_EXCESS - 1 - 0.9 / np.sqrt(some)
    weight = np.clip(heavier / _EXPONENTIAL, 0, 1)[:, None]
    length = np.maximum(excess, _NORMAL_EXCESS)[:, None]
    normal = -0.5 * residual**2 - 0.5 * np.log(2 * np.pi)
    tail = np.log(some / nights)[:, None] - np.log(length) - (residual - _FLANK) / length
    tail = np.where(residual > _FLANK, np.maximum(tail, normal), normal)
    return np.exp((1 - weight) * normal + weight * tail), weight[:, 0]


def _seen(histogram: np.ndarray, settings: Settings) -> np.ndarray:
    """Past nights about as bad as each cell or worse; all spikes count as equally bad."""
    near = round(_NEAR / PITCH)
    far = round(settings.spike / PITCH)
    at_least = np.cumsum(histogram[:, ::-1], axis=1)[:, ::-1]
    at_most = np.cumsum(histogram, axis=1)
    above = np.clip(np.arange(CELLS) - near, 0, MIDDLE + far)
    below = np.clip(np.arange(CELLS) + near, MIDDLE - far, CELLS - 1)
    return np.where(GRID > 0, at_least[:, above], at_most[:, below])


def _floors(seen: np.ndarray, nights: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Least density, relative to the peak, on the first bad night and on those after it."""
    nights = nights[:, None]
    never = np.minimum(settings.unseen * 70 / (nights * (nights + 1.0)), 0.012)
    often = settings.spike_growth * ((seen + 0.5) / (nights + 1)) ** 2
    first = np.where(seen < _SEEN, never, np.clip(often, settings.first_spike, 0.3))
    later = np.where(seen < _SEEN, never, np.clip(often, settings.next_spike, 0.3))
    return first, later
