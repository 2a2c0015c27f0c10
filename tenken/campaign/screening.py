"""Conformity on the first day: which of many nominally identical devices deviates, as opposed to effects they share.

Metrics become losses (logarithms, larger is worse). Variation over time (a running median over the runs), effects of
lot, rack, switch, slot and firmware (medians of groups) and what temperature or power explains are subtracted first;
the remainder is compared with `extreme_value.limit`. The probability of any report in a healthy fleet is controlled for
all metrics of a campaign together. `screen` finds suspects; `confirm` reports only what a second, independent run
confirms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tenken.campaign import extreme_value

#: How the probability of any false report in a healthy fleet, 0.01, is divided; only half of it is used, since tails
#: are estimated.
_DEVICES, _NODES, _GROUPS = 0.0025, 0.001, 0.0015
#: Members that a group needs before its effect is subtracted, and groups before one of them can deviate.
_LEAST_MEMBERS, _LEAST_GROUPS = 8, 8
#: Maximum number of deviating groups of one metric that are reported.
_MOST_ODD_GROUPS = 8
#: Number of values covered by the running median over time, and the minimum for having one.
_WINDOW, _LEAST_FOR_TIME = 101, 48
#: A suspect is named if its second run exceeds at least this fraction of the limit.
_AGAIN = 0.6
#: Minimum fraction of a node's devices that are slower by half of the node's loss.
_SHARE_OF_NODE = 0.75
#: Maximum number of nodes for which generally slow ones are searched, and the loss over all checks that is searched
#: for.
_FEW_NODES, _LOSS_IN_GENERAL = 40, 0.1
#: Minimum number of nodes with a value of a check, for their ranks to count.
_FEWEST_COMPARED = 3
#: Spread if none is stated.
UNSTATED = 0.002


@dataclass(frozen=True)
class Figure:
    """One metric of a campaign. `values` (devices,): NaN if missing. `spread`: relative, of healthy devices, as stated
    for the metric. `explained_by`: covariates of the device in the same run (temperature, power)."""

    name: str
    values: np.ndarray
    higher_is_better: bool = True
    spread: float = UNSTATED
    explained_by: tuple[np.ndarray, ...] = ()
    times: np.ndarray | None = None


@dataclass(frozen=True)
class Fleet:
    """Devices of one kind: the node of each, and the groups that each belongs to, widest first, as names of shape
    (devices,). `slots`: the place in the node."""

    nodes: np.ndarray
    factors: Mapping[str, np.ndarray] = field(default_factory=dict)
    slots: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Suspect:
    """`kind`: device, node or a factor's name. `loss`, `limit`: logarithms, larger is worse; `devices`: indices."""

    kind: str
    name: str
    figure: str
    loss: float
    limit: float
    devices: tuple[int, ...]

    @property
    def worse(self) -> float:
        """The lost fraction: 0.02 of the fleet's value."""
        return -math.expm1(-self.loss)

    @property
    def within(self) -> float:
        """The fraction that a healthy one may lose."""
        return -math.expm1(-self.limit)


@dataclass(frozen=True)
class Effect:
    """A factor's effect on a metric: the relative loss of its groups. `spread`: between groups."""

    factor: str
    figure: str
    losses: Mapping[str, float]
    spread: float


@dataclass
class Screened:
    """The result for one run of the fleet. `residuals`, `centres` by metric: remaining losses, and what was
    subtracted."""

    suspects: list[Suspect]
    effects: list[Effect]
    spreads: dict[str, float]
    limits: dict[str, float]
    residuals: dict[str, np.ndarray]
    taken_off: dict[str, np.ndarray]
    higher: dict[str, bool]


def losses(figure: Figure) -> np.ndarray:
    """Larger is worse; approximately relative for small losses. Values that are not all positive are measured from the
    median.
    """
    values = np.asarray(figure.values, dtype=float)
    there = np.isfinite(values)
    if there.any() and np.all(values[there] > 0):
        found = np.full(len(values), np.nan)
        found[there] = np.log(values[there])
    else:
        middle = np.nanmedian(values) if there.any() else 0.0
        found = values / (abs(middle) or 1.0)
    return -found if figure.higher_is_better else found


def screen(fleet: Fleet, figures: Sequence[Figure]) -> Screened:
    """Outlying devices, nodes and groups in one run (or the median of several) of the whole fleet."""
    result = Screened([], [], {}, {}, {}, {}, {})
    count = max(len(figures), 1)
    for figure in figures:
        loss = losses(figure)
        there = np.isfinite(loss)
        if there.sum() < 3:
            continue
        rest = loss - np.nanmedian(loss)
        rest -= drift(rest, figure.times)
        rest -= explained(rest, figure.explained_by)
        _groups(fleet, figure, rest, count, result)
        rest = rest - np.nanmedian(rest)
        named = _nodes(fleet, figure, rest, count, result)
        limit = extreme_value.limit(rest[there], _DEVICES / count / there.sum())
        limit = max(limit, 3 * figure.spread)
        for one in np.flatnonzero(there & (rest > limit)):
            if int(one) not in named:
                name = device_name(fleet, int(one))
                result.suspects.append(Suspect("device", name, figure.name, float(rest[one]), limit, (int(one),)))
        result.spreads[figure.name] = _scale(rest[there])
        result.limits[figure.name] = limit
        result.residuals[figure.name] = rest
        result.taken_off[figure.name] = loss - rest
        result.higher[figure.name] = figure.higher_is_better
    return result


def device_name(fleet: Fleet, index: int) -> str:
    """`node slot`, or the node alone if it is the device."""
    return f"{fleet.nodes[index]} {fleet.slots[index]}" if fleet.slots is not None else str(fleet.nodes[index])


def drift(rest: np.ndarray, times: np.ndarray | None) -> np.ndarray:
    """The effect of the time of the run: a running median over neighbouring runs."""
    if times is None:
        return np.zeros(len(rest))
    there = np.flatnonzero(np.isfinite(rest) & np.isfinite(times))
    if len(there) < _LEAST_FOR_TIME:
        return np.zeros(len(rest))
    order = there[np.argsort(times[there], kind="stable")]
    window = min(max(_WINDOW, len(order) // 40), len(order) // 4) | 1
    # medians of stretches, joined by lines: like a running median, at a fraction of the cost
    parts = np.array_split(rest[order], max(len(order) // window, 2))
    ends = np.cumsum([len(p) for p in parts])
    middles = ends - (np.array([len(p) for p in parts]) + 1) / 2
    found = np.zeros(len(rest))
    level = np.array([float(np.median(p)) for p in parts])
    if np.ptp(level) < 4 * _scale(rest[order]) / np.sqrt(window):
        return found  # the effect is no larger than chance: a median of so few would only add noise
    at = np.interp(np.arange(len(order)), middles, level)
    # the first and last lines are extrapolated
    first = (level[1] - level[0]) / (middles[1] - middles[0])
    last = (level[-1] - level[-2]) / (middles[-1] - middles[-2])
    here = np.arange(len(order))
    at = np.where(here < middles[0], level[0] + (here - middles[0]) * first, at)
    at = np.where(here > middles[-1], level[-1] + (here - middles[-1]) * last, at)
    found[order] = at
    return found


def explained(rest: np.ndarray, covariates: Sequence[np.ndarray]) -> np.ndarray:
    """What covariates explain, by a robust linear fit (Huber weights)."""
    usable = [np.asarray(c, dtype=float) for c in covariates]
    there = (
        np.isfinite(rest) & np.all([np.isfinite(c) for c in usable], axis=0) if usable else np.zeros(len(rest), bool)
    )
    usable = [c for c in usable if there.sum() > 10 * (len(usable) + 1) and _scale(c[there]) > 0]
    if not usable:
        return np.zeros(len(rest))
    matrix = np.column_stack([np.ones(len(rest)), *((c - np.median(c[there])) / _scale(c[there]) for c in usable)])
    # a device far from all others in a covariate must not determine the line
    matrix[:, 1:] = np.clip(matrix[:, 1:], -4, 4)
    weights = np.ones(int(there.sum()))
    line = np.zeros(matrix.shape[1])
    for _ in range(12):
        root = np.sqrt(weights)
        line = np.linalg.lstsq(matrix[there] * root[:, None], rest[there] * root, rcond=None)[0]
        off = rest[there] - matrix[there] @ line
        weights = 1 / np.maximum(1, np.abs(off) / (1.5 * max(_scale(off), 1e-12)))
    return np.where(there, matrix @ line, 0.0)


@dataclass(frozen=True)
class _Medians:
    """For the groups of one factor that are large enough: `groups` are codes, `offsets` from the median group."""

    factor: str
    names: np.ndarray
    codes: np.ndarray
    groups: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, factor: str, names: np.ndarray, codes: np.ndarray, rest: np.ndarray) -> _Medians:
        there = np.flatnonzero(np.isfinite(rest))
        sizes = np.bincount(codes[there], minlength=len(names))
        groups = np.flatnonzero(sizes >= _LEAST_MEMBERS)
        order = there[np.argsort(codes[there], kind="stable")]
        parts = np.split(rest[order], np.cumsum(sizes)[:-1])
        middles = np.array([float(np.median(parts[g])) for g in groups])
        centre = float(np.median(middles)) if len(middles) else 0.0
        return cls(factor, names, codes, groups, sizes[groups], middles - centre)

    def members(self, at: int, rest: np.ndarray) -> np.ndarray:
        """Devices with a value in the group at this index of `groups`."""
        return np.flatnonzero(np.isfinite(rest) & (self.codes == self.groups[at]))

    def take_off(self, rest: np.ndarray) -> None:
        off = np.zeros(len(self.names))
        off[self.groups] = self.offsets
        rest -= off[self.codes]


def _groups(fleet: Fleet, figure: Figure, rest: np.ndarray, count: int, result: Screened) -> None:
    """Subtracts group effects from `rest`, in place, and adds deviating groups to the suspects."""
    coded = [(factor, *np.unique(labels, return_inverse=True)) for factor, labels in _told_apart(fleet.factors)]

    def medians(one: tuple[str, np.ndarray, np.ndarray]) -> _Medians:
        return _Medians.of(*one, rest)

    few = [one for one in coded if 2 <= len(medians(one).groups) < _LEAST_GROUPS]
    many = [one for one in coded if len(medians(one).groups) >= _LEAST_GROUPS]
    for one in few:
        _tell(figure, medians(one), rest, result)
        medians(one).take_off(rest)
    chance = _GROUPS / count / max(len(many), 1)
    for _ in range(_MOST_ODD_GROUPS):
        odd = [found for one in many if (found := _oddest(figure, medians(one), rest, chance)) is not None]
        if not odd:
            break
        of, at, limit = _cause(odd, rest)
        members = of.members(at, rest)
        offset, name = float(of.offsets[at]), str(of.names[of.groups[at]])
        result.suspects.append(Suspect(of.factor, name, figure.name, offset, limit, tuple(map(int, members))))
        rest[members] -= offset
    for one in many:
        _tell(figure, medians(one), rest, result)
        medians(one).take_off(rest)


def _cause(odd: Sequence[tuple[_Medians, int, float]], rest: np.ndarray) -> tuple[_Medians, int, float]:
    """If groups of several factors deviate, the worst one is reported; or a wider one if its members outside of that
    one deviate too. A switch with one slow and one good rack is not at fault.
    """
    cause = max(odd, key=lambda o: float(o[0].offsets[o[1]]))
    for other in sorted(odd, key=lambda o: o[0].sizes[o[1]]):
        inner = cause[0].members(cause[1], rest)
        beside = np.setdiff1d(other[0].members(other[1], rest), inner)
        offset = float(cause[0].offsets[cause[1]])
        wider = other[0].sizes[other[1]] > cause[0].sizes[cause[1]]
        if wider and len(beside) and float(np.median(rest[beside])) >= 0.6 * offset:
            cause = other
    return cause


def _tell(figure: Figure, of: _Medians, rest: np.ndarray, result: Screened) -> None:
    noise = 1.2533 * _scale(rest[np.isfinite(rest)]) / np.sqrt(of.sizes)
    between = max(_scale(of.offsets) ** 2 - float(np.median(noise**2)), 0.0)
    losses = {str(of.names[g]): float(off) for g, off in zip(of.groups, of.offsets, strict=True)}
    result.effects.append(Effect(of.factor, figure.name, losses, float(np.sqrt(between))))


def _oddest(figure: Figure, of: _Medians, rest: np.ndarray, chance: float) -> tuple[_Medians, int, float] | None:
    """The worst group of a factor beyond its limit, with factor and limit. A group's median is nearly normally
    distributed for any distribution of its members, which gives the limit for few groups.
    """
    noise = 1.2533 * _scale(rest[np.isfinite(rest)]) / np.sqrt(of.sizes)
    spread = max(_scale(of.offsets), float(np.median(noise)), figure.spread / 8)
    degrees = (len(of.groups) - 1) * 0.48 + 0.5
    limit = max(_student(chance / len(of.groups), degrees) * spread, 1.5 * figure.spread)
    worst = int(of.offsets.argmax())
    if of.offsets[worst] <= limit:
        return None
    return of, worst, limit


def _told_apart(factors: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Factors with different groupings: of identical ones the first, under all their names."""
    kept: list[tuple[str, np.ndarray, bytes]] = []
    for factor, labels in factors.items():
        # groups numbered in order of appearance, whatever their names
        _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        shape = np.argsort(np.argsort(first))[codes].tobytes()
        same = next((i for i, one in enumerate(kept) if one[2] == shape), None)
        if same is None:
            kept.append((factor, labels, shape))
        else:
            kept[same] = (f"{kept[same][0]}, {factor}", kept[same][1], shape)
    return [(factor, labels) for factor, labels, _ in kept]


def _nodes(fleet: Fleet, figure: Figure, rest: np.ndarray, count: int, result: Screened) -> set[int]:
    """Adds nodes most of whose devices are outliers; returns these devices."""
    if fleet.slots is None:
        return set()
    names, codes = np.unique(fleet.nodes, return_inverse=True)
    there = np.isfinite(rest)
    order = np.argsort(codes[there], kind="stable")
    grouped = np.split(rest[there][order], np.flatnonzero(np.diff(codes[there][order])) + 1)
    which = np.unique(codes[there])
    middles = np.array([float(np.median(g)) for g in grouped])
    limit = extreme_value.limit(middles - np.median(middles), _NODES / count / len(middles))
    limit = max(limit, 2 * figure.spread)
    named: set[int] = set()
    for node, middle, members in zip(which, middles, grouped, strict=True):
        if middle > limit and len(members) > 1 and np.mean(members > middle / 2) >= _SHARE_OF_NODE:
            devices = tuple(map(int, np.flatnonzero(codes == node)))
            result.suspects.append(Suspect("node", str(names[node]), figure.name, float(middle), limit, devices))
            named.update(devices)
    return named


def slow_in_general(
    fleet: Fleet, first: Sequence[Figure], again: Mapping[str, np.ndarray], check_of: Mapping[str, str]
) -> tuple[list[Suspect], list[Suspect]]:
    """(confirmed, not confirmed) nodes of a small fleet whose ranks in all checks are worse than chance allows.

    The limit of a single metric is wide for few devices, and wider with more metrics. Ranks have no tail: if n nodes
    have a value, a healthy node has each of the n ranks in a check with the same probability. `check_of`: the check of
    each metric."""
    names, codes = np.unique(fleet.nodes, return_inverse=True)
    n = len(names)
    if n > _FEW_NODES:
        return [], []
    of_check: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for figure in first:
        loss = losses(figure)
        if not np.isfinite(loss).any() or np.nanmax(loss) == np.nanmin(loss):
            continue  # the slowest one cannot be determined if all are equal
        middle = np.nanmedian(loss)
        second = losses(Figure(figure.name, again[figure.name], figure.higher_is_better))
        of_check.setdefault(check_of[figure.name], []).append((loss - middle, second - middle))
    rows, seconds = [], []
    for pairs in of_check.values():
        one, other = (_by_node(np.array(part), codes, n) for part in zip(*pairs, strict=True))
        if np.isfinite(one).sum() >= _FEWEST_COMPARED:  # a check may be INVALID on some of them
            rows.append(one)
            seconds.append(other)
    if not rows:
        return [], []
    loss, limit = np.array(rows), -math.log1p(-_LOSS_IN_GENERAL)
    there = np.isfinite(loss)
    # 1 for the fastest of those with a value; equal values count as fast
    ranks = 1 + (loss[:, None, :] < loss[:, :, None]).sum(axis=2)
    named: list[Suspect] = []
    not_again: list[Suspect] = []
    for node in range(n):
        own = there[:, node]
        if not own.any():
            continue
        chance = n * _at_least(int(ranks[own, node].sum()), there[own].sum(axis=1))
        middle = float(np.median(loss[own, node]))
        if chance > _NODES or middle < limit:
            continue
        suspect = Suspect(
            "node", str(names[node]), f"the median of {int(own.sum())} checks", middle, limit,
            tuple(map(int, np.flatnonzero(codes == node))),
        )  # fmt: skip
        seen = np.array(seconds)[own, node]
        seen = seen[np.isfinite(seen)]
        confirmed = len(seen) > 0 and float(np.median(seen)) > _AGAIN * limit
        (named if confirmed else not_again).append(suspect)
    return named, not_again


def _at_least(total: int, sizes: np.ndarray) -> float:
    """Probability that independent ranks each have this sum or a larger one."""
    sums = np.ones(1)
    for size in sizes:
        sums = np.convolve(sums, np.r_[0.0, np.full(size, 1 / size)])
    return float(sums[total:].sum())


def _by_node(figures: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """Medians of (metrics, devices) of each node; NaN if there is no value."""
    found = np.full(count, np.nan)
    for node in range(count):
        values = figures[:, codes == node]
        values = values[np.isfinite(values)]
        if len(values):
            found[node] = np.median(values)
    return found


def confirm(
    suspects: Sequence[Suspect], first: Screened, again: Mapping[str, np.ndarray]
) -> tuple[list[Suspect], list[Suspect]]:
    """(confirmed, not confirmed). `again` by figure: (devices,) of a second, independent run, NaN where there is none.

    Effects of groups, time and covariates in the first run are subtracted from the second one too.
    """
    named, not_again = [], []
    for suspect in suspects:
        members = list(suspect.devices)
        values = np.asarray(again.get(suspect.figure, np.full(0, np.nan)), dtype=float)
        seen = np.full(0, np.nan)
        if len(values):
            figure = Figure(suspect.figure, values, first.higher.get(suspect.figure, True))
            off = losses(figure) - first.taken_off[suspect.figure]
            seen = off[members]
            if suspect.kind not in ("device", "node"):
                # the effect of the group itself was already subtracted from its members
                seen = seen + suspect.loss
            seen = seen[np.isfinite(seen)]
        if len(seen) and float(np.median(seen)) > _AGAIN * suspect.limit:
            named.append(suspect)
        else:
            not_again.append(suspect)
    return named, not_again


def _student(chance: float, degrees: float) -> float:
    at = int(np.abs(extreme_value.SHAPES - 1 / degrees).argmin())
    return extreme_value.quantile(chance, at)


def _scale(sample: np.ndarray) -> float:
    """The MAD as a standard deviation; if most values are identical, computed from those that differ."""
    if len(sample) < 2:
        return 0.0
    found = 1.4826 * float(np.median(np.abs(sample - np.median(sample))))
    return found if found > 0 else float(np.std(sample)) / 3


def spread_of(values: np.ndarray) -> float:
    """Relative spread of the available values, as a robust standard deviation."""
    middle = abs(float(np.median(values)))
    return _scale(values) / middle if middle else 0.0
