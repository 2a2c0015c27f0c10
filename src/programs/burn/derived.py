"""Figures of a burn-in: the share of faults found, and how steady the rates are."""

import math
from statistics import median

#: Confidence of the lower bound, one-sided.
CONFIDENCE = 0.95
#: Seconds at the beginning and the end that are compared.
WINDOW = 300.0


def detected(run):
    """The lower bound of Clopper and Pearson for found of injected ones that changed a result."""
    for one in run.of("injected"):
        masked, found = run.at("masked", one.subject, one.at), run.at("found", one.subject, one.at)
        if masked is None or found is None:
            continue
        yield one.subject, one.at, [lower_bound(int(one.median - masked.median), int(found.median))]


def lower_bound(trials, found):
    """The least share for which `found` or more of `trials` have a probability of 1 - CONFIDENCE."""
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
    """Rate of the last visits over that of the first, as many as lie in five minutes, at most half of them."""
    seconds = run.result.parameters.get("visit_seconds") or 0
    rates = [one for name in ("rate", "memory") for one in run.of(name)]
    for one in rates:
        phases = sum(other.subject == one.subject for other in rates)
        window = max(1, min(len(one.samples) // 2, int(WINDOW / max(seconds * phases, 1e-9))))
        if len(one.samples) >= 2:
            last, first = median(one.samples[-window:]), median(one.samples[:window])
            yield one.subject, one.at, [last / first]
