"""The one setting of the detector.  It is the same for every kind of noise; docs/statistics.md says why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Lengths are in values of a series (its nights with a value); distances are in standard deviations."""

    #: expected false findings of a whole fleet in 30 nights, whatever the number of its series
    false_findings_per_month: float = 0.35
    #: a smaller relative change of one series alone is no finding
    smallest: float = 0.015
    #: ... nor one that comes slowly, over some forty nights or more
    smallest_slow: float = 0.022
    #: a change of this size is a finding once it has lasted (windows.LASTED values), whatever the fleet's habits
    plain: float = 0.04
    #: a series became noisy if its values scatter this many times as far ...
    noisier: float = 1.5
    #: ... and their mean restlessness lies this many standard deviations from the usual one
    noisy: float = 3.8
    #: ... and expected false findings of this kind of a whole fleet in 30 nights
    false_noisy_per_month: float = 0.1
    #: a night's noise is never taken to be less than this part of the value
    relative_floor: float = 0.002
    #: ... nor less than this, in the unit of the value
    absolute_floor: float = 0.0
    #: values from which level and noise are first estimated ...
    min_baseline: int = 20
    #: ... and with which a series is judged
    judged_from: int = 30

    #: weights of the newest value in the level once there are many: the one that foretells best is taken, a faster
    #: one only where it errs less by this factor
    level_weights: tuple[float, ...] = (1 / 40, 1 / 12, 1 / 5)
    better_by: float = 0.75
    #: ... and in the noise
    noise_weight: float = 1 / 80
    #: values farther from the level than this are drawn in before they teach level and noise
    clip: float = 2.5

    #: fleets of fewer series are judged as if they were that large
    fleet: int = 200
    #: no distance below this is a finding, however quiet the fleet's past
    threshold: float = 4.0
    #: ... and this times as far for a change that comes slowly: a level may wander
    slow: float = 1.27
    #: added to it, relative, over the number of values that the noise rests on
    youth: float = 4.5
    #: ... and while the fleet has been watched for few nights: one more times the square of this over them
    young_fleet: float = 6.0
    #: ... which is longer for windows of more than three values: long habits take long to be known
    young_fleet_long: float = 9.0
    #: a series must go beyond its own second largest excursion that came back by this factor
    habit: float = 1.2
    #: the fleet's excursions are forgotten by this a night
    forgetting: float = 0.995
    #: as many of its largest excursions tell how their frequency falls
    largest: int = 25

    #: evidence (nats) for the former level at which a regression has recovered, and what one night may add
    recovered: float = 9.0
    night_maximum: float = 5.0
    #: an improvement that takes back this part of a regression ends it
    taken_back: float = 0.65
    #: a change that is gone after so many values was an excursion, from which the detector learns
    excursion: int = 45
