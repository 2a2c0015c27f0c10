"""Which node arrives late in a collective."""

import statistics

#: Nodes of one kind compute the same at clocks that differ by less than a fifth.
LATE = 1.5


def arrival(run, one):
    """Before it arrives, a node may compute for at most this many times the median of all nodes; of two nodes, the
    faster one counts."""
    alike = [other.value for other in run.of("arrival") if other.at.get("buffers") == one.at.get("buffers")]
    return None, LATE * statistics.median_low(alike)
