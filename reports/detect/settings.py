"""The one setting of the detector.  It is the same for every kind of noise; docs/statistics.md says why."""

from __future__ import annotations

from dataclasses import dataclass

STEPS = (0.75, 1, 1.35, 1.75, 2.2, 2.7, 3.2, 3.7, 4.2, 4.8, 5.4, 6.1, 6.9, 7.8, 9, 10.4, 12, 14, 16.5, 20, 25)
SLOPES = (0.04, 0.065, 0.1, 0.16, 0.25)


@dataclass(frozen=True)
class Settings:
    """Lengths are in nights, evidence is in nats (natural logarithm of a likelihood ratio)."""

    #: expected false findings of a whole fleet in 30 nights, whatever the number of its series
    false_findings_per_month: float = 1.0
    #: a night's noise is never taken to be less than this part of the value
    relative_floor: float = 0.002
    #: ... nor less than this, in the unit of the value
    absolute_floor: float = 0.0
    #: fewer nights of baseline than this: the series is still being learned
    least_baseline: int = 20
    #: the baseline ends this many nights ago (a third of the history while that is shorter)
    lag: int = 15
    #: ... and is at most this long
    baseline: int = 200
    #: the noise is estimated anew every so many nights
    refresh: int = 5
    #: after a finding the new level is learned for so many nights before it is watched
    settle: int = 12

    #: level shifts tried, in standard deviations of the series
    steps: tuple[float, ...] = STEPS
    #: drifts tried, in standard deviations a night
    slopes: tuple[float, ...] = SLOPES

    #: evidence at which a fleet of `fleet` series reports one finding
    threshold: float = 8.3
    #: ... fewer series do not lower the threshold, more raise it
    fleet: int = 200
    #: chance of a false finding falls as exp(-decay * evidence); below 1 because noise has heavy tails
    decay: float = 0.5
    #: ... the same for evidence below the threshold
    decay_below: float = 0.65
    #: evidence that must remain without the night that speaks loudest: one bad night is never a finding
    guard: float = 1.7
    #: price of looking at windows of all lengths: this times log(nights / 2)
    length_price: float = 1.2
    #: price of a baseline shorter than `youth` nights: this times (youth / nights - 1)
    youth_price: float = 2.5
    youth: int = 80

    #: a value beyond all that was ever seen is taken to have probability unseen * 70 / nights**2 ...
    unseen: float = 0.045
    #: ... and one at this many standard deviations counts as a spike when it was seen before
    spike: float = 4.5
    #: the least probability of a spike in a series that had one: on the first bad night, and on the next
    first_spike: float = 0.08
    next_spike: float = 0.02
    #: ... which grows with the square of the rate of spikes
    spike_growth: float = 4.0
    #: a bad night may exceed the shift by this many standard deviations at no cost if the series has no
    #: spikes
    overshoot: float = 4.0
    #: ... and shifts smaller than this many standard deviations gain nothing from it
    least_overshot: float = 2.0
