"""Detection on histories: changes with date, size and confidence, and how small a change is found.

Everything here is arithmetic on arrays; reading, naming and writing are the caller's. The formulas, the meaning of each
verdict and the limits of the method are in docs/statistics.md.
"""

from tenken.history.detect.detector import Detector, detect
from tenken.history.detect.findings import Event, Findings, State
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
