"""Figures of access patterns: the ramp of the GPU's repetitions in each pattern."""

from tenken.model.pages import pages_of
from tenken.model.ramp import ramp_of

#: The GPU's accesses; a pattern has at most one.
BY_GPU = ("remote_by_gpu", "device_by_gpu")


def ramp(run):
    return _of_patterns(run, 0)


def before(run):
    return _of_patterns(run, 1)


def plateau(run):
    return _of_patterns(run, 2)


def _of_patterns(run, which):
    found = {}
    for one in run.of(*BY_GPU):
        at = {key: value for key, value in one.at.items() if key != "trial"}
        found.setdefault((one.subject, tuple(at.items())), []).append(one)
    for (subject, at), trials in found.items():
        trials.sort(key=lambda one: one.at.get("trial", 1))
        yield subject, dict(at), [float(ramp_of(one.samples)[which]) for one in trials]


def relative(run):
    """The plateau of pattern 8, in which only the GPU touches device memory, over a copy there."""
    for one in run.of("plateau"):
        copy = run.at("device_copy", one.subject, {})
        if one.at.get("pattern") == 8 and copy is not None:
            yield one.subject, one.at, [rate / copy.median for rate in one.samples]


def pages(run, one):
    """A GPU reads arrays that stayed in host memory no faster than its link."""
    return pages_of(run, one, f"{one.subject.id}.pattern={one.at.get('pattern')}.trial={one.at.get('trial', 1)}")
