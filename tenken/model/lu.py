"""Bounds on the rate of an LU from its parts: products limit it, or at a small N its panels."""

from __future__ import annotations

from typing import Any

#: Minimum rate of an LU relative to the products of its run with inner dimension NB, which are all of an LU
#: except for panels, swaps and solve: 0.66 to 0.93 on H100 and H200 in every mode.
OF_PRODUCTS = 0.60
#: Panels may reduce that rate to this share of it; further below, panels limit the rate, and it is not judged. In mode
#: quick: 0.81 to 0.95 on H200, 0.74 and 0.79 on H100.
PANELS_PERMIT = 0.70


def operations(n: int) -> float:
    """Operations of HPL and HPL-MxP for a matrix of order n: (2/3) n^3 + (3/2) n^2."""
    return 2 / 3 * n**3 + 1.5 * n**2


def permitted(run: Any, one: Any, part: str) -> float | None:
    """All operations over the time of one part of the last repetition, in TFLOP/s; None: not reported.

    With look-ahead a panel runs during an update, but panels run one after another: an LU takes at least the time of
    all panels. Their time grows with N^2, that of the updates with N^3, so at a small N on a fast GPU the panels
    decide.
    """
    seconds = run.at("phase", one.subject, one.at, part=part)
    return operations(one.at["n"]) / seconds.value / 1e12 if seconds is not None and seconds.value > 0 else None


def of_products(run: Any, one: Any, products: str) -> tuple[float | None, float | None] | None:
    """The minimum rate of an LU: a share of the rate of its products, or of what its panels permit."""
    found, panels = run.at(products, one.subject, one.at), permitted(run, one, "panel")
    if found is None or found.value <= 0:
        return None
    rate = found.value if panels is None else min(found.value, panels)
    return (OF_PRODUCTS * rate, None) if rate >= PANELS_PERMIT * found.value else None
