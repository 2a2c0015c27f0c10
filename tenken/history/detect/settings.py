"""The settings of the detector. They are the same for every kind of noise; docs/statistics.md states the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(frozen=True)
class Settings:
    """Lengths are in values of a series (its nights with a value); distances are in standard deviations."""

    #: expected false findings of a whole fleet in one night, for any number of series
    false_findings: float = 0.01
    #: a smaller relative change of a single series is not a finding
    smallest: float = 0.015
    #: a lasting change of this size (order.precedence) is a finding, regardless of the fleet's excursions
    plain: float = 0.04
    #: ... and one of this size of two values far outside the range of three weeks (order.gap)
    large: float = 0.05
    #: ... and one of this size, in cost, however large the noise of the series has become
    certain: float = log(1.20)
    #: a series became noisy if its scatter increased by this factor ...
    noisier: float = 1.5
    #: ... and its mean restlessness is this many standard deviations from the usual one
    noisy: float = 3.8
    #: ... and expected false findings of this kind, of a whole fleet in one night
    false_noisy: float = false_findings / 3
    #: minimum of a night's noise as a fraction of the value
    relative_floor: float = 0.002
    #: number of newest values whose median stands for a longer window: one or two spikes are no change of level
    recent: int = 5
    #: number of values for the first estimate of level and noise ...
    min_baseline: int = 20
    #: ... and for judging a series: with the longest window after it
    judged_from: int = min_baseline + 2 * recent

    #: weights of the newest value in the level once there are many: the one with the best predictions is used, a faster
    #: one only if its error is lower by this factor
    level_weights: tuple[float, ...] = (1 / (2 * min_baseline), 1 / 12, 1 / recent)
    better_by: float = 0.75
    #: ... and in the noise
    noise_weight: float = level_weights[0] / 2
    #: values farther from the level than this are clipped before they update level and noise
    clip: float = 2.5

    #: smaller fleets are judged as if they had this many series
    fleet: int = 200
    #: minimum distance of a finding, however quiet the fleet's past; a single value this far is a spike
    threshold: float = 4.0
    #: ... and this factor for a slow change, and for the smallest one: a level may wander
    slow: float = 1.47
    #: factor per night by which the weight of old excursions decays
    forgetting: float = 0.995
    #: number of the largest excursions that determine the decay of their frequency
    largest: int = 25

    #: a change that recovers within this many values, those of the shorter slow window, was an excursion, which the
    #: detector learns from
    excursion: int = 2 * min_baseline + recent
