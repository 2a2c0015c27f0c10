"""Figures of page migration: where the ramp of a series of repetitions ends, and whether there is one."""

from tenken.model.pages import pages_of
from tenken.model.ramp import ramp_of, seen

#: The metric of each phase's repetitions.
PHASES = {"first": "gpu_first", "cpu": "cpu", "last": "gpu_last"}


def ramp(run):
    return _of_phases(run, 0)


def plateau(run):
    return _of_phases(run, 2)


def new_ramp(run):
    """For each trial 1 if more than one repetition of the last phase is below 0.9 of its plateau, otherwise 0."""
    for subject, trials in by_trial(run, "gpu_last"):
        yield subject, {}, [float(seen(one.samples)) for one in trials]


def _of_phases(run, which):
    for phase, name in PHASES.items():
        for subject, trials in by_trial(run, name):
            yield subject, {"phase": phase}, [float(ramp_of(one.samples)[which]) for one in trials]


def by_trial(run, name):
    """The subjects of a metric, each with its values in the order of the trials; a single trial has no coordinate."""
    found = {}
    for one in run.of(name):
        found.setdefault(one.subject, []).append(one)
    return [(subject, sorted(ones, key=lambda one: one.at.get("trial", 1))) for subject, ones in found.items()]


def pages(run, one):
    """A GPU reads arrays that stayed in host memory no faster than its link."""
    return pages_of(run, one, f"{one.subject.id}.trial={one.at.get('trial', 1)}")
