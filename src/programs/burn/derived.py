"""Figures of a burn-in: the share of faults detected, and how steady the rates are."""

import math
from statistics import median

#: Confidence of the lower bound, one-sided.
CONFIDENCE = 0.95
#: Seconds at the beginning and the end that are compared.
WINDOW, HOUR = 300.0, 3600.0


def detected(run):
    """The lower bound of Clopper and Pearson for the detected share of the injected faults that changed a result."""
    for one in run.of("injected"):
        masked, found = run.at("masked", one.subject, one.at), run.at("found", one.subject, one.at)
        if masked is None or found is None:
            continue
        yield one.subject, one.at, [lower_bound(int(one.median - masked.median), int(found.median))]


def lower_bound(trials, found):
    """The smallest share for which `found` or more of `trials` have a probability of 1 - CONFIDENCE."""
    if trials <= 0 or found <= 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        at_least = math.fsum(
            math.exp(
                math.lgamma(trials + 1)
                - math.lgamma(missed + 1)
                - math.lgamma(trials - missed + 1)
                + (trials - missed) * math.log(middle)
                + missed * math.log1p(-middle)
            )
            for missed in range(trials - found + 1)
        )
        low, high = (middle, high) if at_least < 1 - CONFIDENCE else (low, middle)
    return low


def steady(run):
    """Rate of the last visits over that of the first, as many as fit in five minutes, at most half of them."""
    yield from _steady(run, WINDOW, 0)


def steady_hour(run):
    """The same of the last hour over the first, if they do not overlap."""
    yield from _steady(run, HOUR, 2 * HOUR)


def _steady(run, window, least):
    seconds = run.result.parameters.get("visit_seconds") or 0
    rates = [one for name in ("rate", "memory", "updates") for one in run.of(name)]
    for one in rates:
        apart = seconds * sum(other.subject == one.subject for other in rates)  # of two visits of a phase, at least
        if len(one.samples) < 2 or apart * len(one.samples) < least:
            continue
        count = max(1, min(len(one.samples) // 2, int(window / max(apart, 1e-9))))
        yield one.subject, one.at, [median(one.samples[-count:]) / median(one.samples[:count])]
