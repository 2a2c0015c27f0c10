"""Definitions of a number and of a quantile, shared by all parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def is_number(value: Any) -> bool:
    """True for a finite int or float that is not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """Quantile of an ascending sequence by linear interpolation between order statistics (numpy's default)."""
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
