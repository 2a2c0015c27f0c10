"""Figures of a stencil on several parts: efficiency, the share of each phase, and the limit of all parts together."""

import math

PHASES = ("compute", "pack", "halo_node", "halo_net", "sync")


def efficiency(run):
    """The rate of all parts, in percent of that many times the best rate of one part alone."""
    alone = [one.value for one in run.of("alone", "fused")]
    # the result has the series of one process; another one's may be faster
    best = _fact(run, "fastest_alone_gcells") or max(alone, default=0)
    host = any(one.kind == "host" for one in run.of("alone"))
    for one in run.of("cells") if alone else ():
        # the parts of one process on the host share its threads
        parts = run.result.placement.ranks if host else one.subject.first
        scale = 100 / (parts * best)
        yield one.subject, one.at, [scale * rate for rate in one.samples]


def share(run):
    """Each phase in percent of the sum of all, block by block."""
    for one in run.of(PHASES[0]):
        parts = [run.at(name, one.subject, one.at) for name in PHASES]
        if any(part is None or part.count != one.count for part in parts):
            continue
        sums = [math.fsum(block) for block in zip(*(part.samples for part in parts), strict=True)]
        for name, part in zip(PHASES, parts, strict=True):
            shares = [100 * own / whole if whole > 0 else 0.0 for own, whole in zip(part.samples, sums, strict=True)]
            yield one.subject, {**one.at, "phase": name}, shares


def limit_cells(run, one):
    """The highest limit of one part alone times the number of parts."""
    alone = [run.limit(each).value for each in run.of("alone", "fused") if each.kind == "gpu"]
    known = [value for value in alone if value is not None]
    copies = [each.value for each in run.of("copy")]
    fastest = _fact(run, "fastest_copy_gbs")
    if known:
        yield one.subject.first * max(known) * (fastest / max(copies) if fastest and copies else 1)


def _fact(run, name):
    """A number that the program reports for all its processes; None if there is one process."""
    value = run.result.path.get(name)
    return value if isinstance(value, (int, float)) and value > 0 else None
