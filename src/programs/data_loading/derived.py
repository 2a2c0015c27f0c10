"""Figures over the configurations that read the same samples."""

from tenken.model.numbers import rate_of_times


def best(run):
    """The configuration with the shortest median time, of each kind of samples, with all its repetitions."""
    found = {}
    for one in run.of("samples"):
        found.setdefault((one.subject, one.at.get("kind")), []).append(one)
    for ones in found.values():
        fastest = max(ones, key=lambda one: rate_of_times(one.samples, one.median))
        yield fastest.subject, fastest.at, fastest.samples
