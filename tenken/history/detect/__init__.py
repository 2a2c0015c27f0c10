"""Verdicts from history: what moved, when, by how much, how sure, and what could have been seen at all.

Everything here is arithmetic on arrays; reading, naming and writing are the caller's.  The formulas, what
each verdict means and what the method cannot see are in docs/statistics.md.
"""

from tenken.history.detect.detector import Detector, Event, Findings, State, detect
from tenken.history.detect.fleet import Outliers, fleet_outliers
from tenken.history.detect.grouping import Group, group_events
from tenken.history.detect.power import power
from tenken.history.detect.settings import Settings

__all__ = [
    "Detector",
    "Event",
    "Findings",
    "Group",
    "Outliers",
    "Settings",
    "State",
    "detect",
    "fleet_outliers",
    "group_events",
    "power",
]
