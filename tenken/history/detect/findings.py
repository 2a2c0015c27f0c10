"""The results of the detector: the state of each series, its changes and its noise."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum

import numpy as np


class State(Enum):
    """Of a series on its last night."""

    LEARNING = "learning"  # too few values
    STEADY = "steady"
    SPIKE = "spike"  # this night is abnormal, but the only one so far: no finding
    REGRESSED = "regressed"  # a finding is open
    IMPROVED = "improved"  # better than the level it was learned at


@dataclass(frozen=True)
class Event:
    """A change of level of one series."""

    series: int
    kind: str  # step | drift | noisy
    worse: bool
    change_night: int  # first night of the new behaviour, best estimate
    found_night: int
    #: level now / level before - 1: -0.05 is a bandwidth that fell by 5 %; of a noisy one, the same of its deviation
    size: float
    low: float  # 95 % interval of the size
    high: float
    evidence: float  # nats
    p_value: float  # probability of this evidence on one night of one series without any change
    recovered_night: int | None = None
    #: its end, `recovered_night`, is that of the finding alone: the series became noisy, and no level had moved
    withdrawn: bool = False


@dataclass(frozen=True)
class Noise:
    """The normal behaviour of a series; one entry per series, in cost."""

    level: np.ndarray
    deviation: np.ndarray
    memory: np.ndarray  # autocorrelation from value to value, 0 if not significant
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
    memory: np.ndarray  # estimated autocorrelation from value to value
    evidence: np.ndarray  # nats for an ongoing change for the worse
    p_value: np.ndarray
    nights: np.ndarray  # number of values in level and noise, 0 while learning
    judged: int  # series that were judged on the last night
    noise: Noise = field(repr=False)  # for `power`

    def open_events(self) -> tuple[Event, ...]:
        """Regressions that have not recovered."""
        return tuple(event for event in self.events if event.worse and event.recovered_night is None)
