"""A series of repetitions that starts slowly and then reaches a plateau: the effect of migrating pages."""

from __future__ import annotations

from collections.abc import Sequence

from tenken.model.numbers import quantile

#: Share of the plateau from which a rate counts as being on it, and the number of consecutive rates: a single fast
#: repetition within the ramp does not end it.
ON_PLATEAU, IN_A_ROW = 0.95, 5
#: Below this share of the plateau the repetitions before it are a ramp.
BELOW = 0.9


def ramp_of(rates: Sequence[float]) -> tuple[int, float, float]:
    """The first repetition of the plateau, counted from 1; the median rate before it (the first rate, if there is
    none); and the plateau, which is the median of the last quarter. Raises IndexError without rates."""
    plateau = quantile(sorted(rates[-max(1, len(rates) // 4) :]), 0.5)
    enough = [rate >= ON_PLATEAU * plateau for rate in rates]
    first = next((at for at in range(len(rates)) if all(enough[at : at + IN_A_ROW])), len(rates) - 1)
    return first + 1, quantile(sorted(rates[:first]), 0.5) if first else rates[0], plateau


def seen(rates: Sequence[float]) -> bool:
    """Whether more than one repetition was below 0.9 of the plateau."""
    repetition, before, plateau = ramp_of(rates)
    return repetition > 2 and before < BELOW * plateau
