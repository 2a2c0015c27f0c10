"""Which node arrives late in a collective."""

import statistics

#: Nodes of one kind compute the same at clocks that differ by less than a fifth.
LATE = 1.5


def arrival(run, one):
    """No node computes longer before it arrives than this times the median of all; of two, the faster counts."""
    alike = [other.value for other in run.of("arrival") if other.at.get("buffers") == one.at.get("buffers")]
    return None, LATE * statistics.median_low(alike)
