"""The bounds of a value as ReFrame expects them."""

from __future__ import annotations

from tenken.model.judgement import JudgedMetric


def reframe_reference(judged: JudgedMetric) -> tuple[float, float | None, float | None, str]:
    """The same bounds as ReFrame's tuple (reference, lower, upper, unit); a value without bounds has 0, None, None.

    ReFrame takes a fraction, in [-1, 0] for the lower bound and from 0 for the upper one, so the base is the reference
    or, if there is none, the limit.
    """
    low, high = judged.bounds
    anchor = judged.criterion.value if judged.criterion else judged.limit.value
    if (low is None and high is None) or not anchor:
        return (0, None, None, judged.unit)
    lower = None if low is None else min(low / anchor - 1, 0.0)
    upper = None if high is None else max(high / anchor - 1, 0.0)
    return (anchor, lower, upper, judged.unit)
