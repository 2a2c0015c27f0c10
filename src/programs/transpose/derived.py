"""Values of transposing over memory types and sizes that need more than one formula."""

import math


def htod_speedup(run):
    return _speedup(run, "htod")


def dtoh_speedup(run):
    return _speedup(run, "dtoh")


def _speedup(run, name):
    """Time of a copy from pageable over that from pinned memory, with the first kernel of the run."""
    kernel = _first_kernel(run)
    for one in run.of(name):
        if one.at.get("memory") == "pinned" and one.at.get("kernel") == kernel:
            pageable = run.at(name, one.subject, one.at, memory="pageable")
            if pageable is not None:
                yield one.subject, {"n": one.at["n"]}, [pageable.value / one.value]


def kernel_growth(run):
    """Ratio of kernel times to that at half of both sides."""
    for one in run.of("kernel"):
        half = run.at("kernel", one.subject, one.at, n=_half(one.at["n"]))
        if half is not None:
            yield one.subject, one.at, [one.value / half.value]


def transfer_growth_ratio(run):
    """Ratio of transfer times at twice the side, pageable over pinned."""
    kernel = _first_kernel(run)
    for one in run.of("htod"):
        if one.at.get("memory") == "pinned" and one.at.get("kernel") == kernel:
            growths = [_growth(run, one, memory) for memory in ("pageable", "pinned")]
            if all(growths):
                yield one.subject, {"n": one.at["n"]}, [growths[0] / growths[1]]


def _half(n):
    """The coordinate of half of both sides, which are one number or "ROWSxCOLUMNS"; None if one is odd."""
    sides = [int(side) for side in str(n).split("x")]
    if any(side % 2 for side in sides):
        return None
    return sides[0] // 2 if len(sides) == 1 else "x".join(str(side // 2) for side in sides)


def _growth(run, one, memory):
    def transfers(n):
        parts = [run.at(name, one.subject, one.at, memory=memory, n=n) for name in ("htod", "dtoh")]
        return None if None in parts else math.fsum(part.median for part in parts)

    half = _half(one.at["n"])
    whole, half = transfers(one.at["n"]), transfers(half) if half else None
    return whole / half if whole and half else None


def _first_kernel(run):
    return str(run.parameters.get("kernels", "")).split(",")[0]
