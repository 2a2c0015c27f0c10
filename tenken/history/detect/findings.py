"""The results of the detector: the state of each series, its changes and its noise."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum

import numpy as np


class State(Enum):
    """The state of a series on its last night."""

    LEARNING = "learning"  # too few values
    STEADY = "steady"
    SPIKE = "spike"  # this night is abnormal, but the only one so far: no finding
    REGRESSED = "regressed"  # a finding is open
    IMPROVED = "improved"  # better than the level that was learned


@dataclass(frozen=True)
class Event:
    """A change of level of one series."""

    series: int
    kind: str  # step | drift | noisy
    worse: bool
    change_night: int  # first night of the new behaviour, best estimate
    found_night: int
    #: level now / level before - 1: -0.05 is a bandwidth that fell by 5 %; for a noisy series the ratio of its
    #: deviations - 1
    size: float
    low: float  # 95 % interval of the size
    high: float
    evidence: float  # nats
    p_value: float  # probability of this evidence on one night of one series without any change
    recovered_night: int | None = None
    #: `recovered_night` is the end of the finding only: the series became noisy, and no level had moved
    withdrawn: bool = False
    #: the night on which the end was known, some nights after `recovered_night` if values scatter
    ended_night: int | None = None


@dataclass(frozen=True)
class Noise:
    """The normal behaviour of a series; one entry per series, in cost."""

    level: np.ndarray
    deviation: np.ndarray
    memory: np.ndarray  # autocorrelation of consecutive values, 0 if not significant
    values: np.ndarray  # number of values in the estimate
    remembered: np.ndarray  # ... effective number for the level
    limit: np.ndarray  # distance at which a window reports, shape (series, windows)
    smallest: np.ndarray  # minimum change that is reported

    def take(self, rows: np.ndarray) -> Noise:
        """The same for some of the series."""
        return Noise(*(getattr(self, one.name)[rows] for one in fields(self)))


@dataclass(frozen=True)
class Findings:
    """The state after the last night; arrays have one entry per series."""

    events: tuple[Event, ...]  # in the order of detection
    state: tuple[State, ...]
    level: np.ndarray  # current normal value
    band: tuple[np.ndarray, np.ndarray]  # approximate range of 95 % of normal nights
    memory: np.ndarray  # estimated autocorrelation of consecutive values
    evidence: np.ndarray  # nats for a change for the worse that is in progress
    p_value: np.ndarray
    nights: np.ndarray  # number of values in level and noise, 0 while learning
    judged: int  # series that were judged on the last night
    noise: Noise = field(repr=False)  # for `power`

    def open_events(self) -> tuple[Event, ...]:
        """Regressions that have not recovered."""
        return tuple(event for event in self.events if event.worse and event.recovered_night is None)
