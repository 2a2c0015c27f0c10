"""Utilisation, spread and cost of exchange of a training step."""

from tenken.model.numbers import quantiles

#: The precision of the products by that of the step: with FP8 the rest is BF16, so its peak is an upper bound.
UNITS = {"bf16": "bf16", "fp8": "fp8_e4m3"}


def _peak(run, one, precision):
    """TFLOP/s by attributes of its GPU, or of the first one, as ranks are of one kind; None: not known."""
    first = run.result.devices[0].index if run.result.devices else 0
    device = run.result.device(one.subject.first if one.subject.kind == "gpu" else first)
    operations = run.program.tables["operations_per_cycle"].get(device.chip, {}) if device else {}
    rate = operations.get(UNITS.get(precision, ""))
    if rate is None or not device.sm_clock_max_mhz or not device.multiprocessors:
        return None
    return device.multiprocessors * device.sm_clock_max_mhz * 1e-6 * rate


def limit_rate(run, one):
    """For one GPU, or for all ranks together."""
    peak = _peak(run, one, str(run.parameters.get("precision")))
    if peak is not None:
        yield peak * (one.subject.first if one.subject.kind == "ranks" else 1)


def limit_product(run, one):
    """Each rank has its own value."""
    peak = _peak(run, one, "bf16")
    if peak is not None:
        yield peak


def mfu(run):
    """Relative to the data sheet's value for all GPUs together."""
    sheet = run.parameters.get("sheet_tflops")
    for one in run.of("rate"):
        if sheet:
            yield one.subject, {}, [100 * one.value / sheet / (one.subject.first if one.subject.kind == "ranks" else 1)]


def of_product(run):
    """Products of all ranks add up."""
    for one in run.of("rate"):
        products = [other.value for other in run.of("product") if other.subject == one.subject]
        if products:
            yield one.subject, {}, [one.value / sum(products)]


def p99(run):
    for one in run.of("step"):
        yield one.subject, {}, list(quantiles(sorted(one.samples), (0.99,)))


def worst(run):
    for one in run.of("step"):
        yield one.subject, {}, [max(one.samples)]


def drift(run):
    """By the median of each fifth."""
    for one in run.of("step"):
        fifth = max(1, len(one.samples) // 5)
        first, last = (quantiles(sorted(part), (0.5,))[0] for part in (one.samples[:fifth], one.samples[-fifth:]))
        yield one.subject, {}, [first / last]


def _alone(run, subject):
    return [one.value for one in run.of("alone") if one.subject == subject]


def exposed(run):
    for one in run.of("step"):
        own = _alone(run, one.subject)
        if own:
            yield one.subject, {}, [one.value - max(own)]


def scaling(run):
    """Weak scaling: each rank has as many tokens as one alone, whose step is the mean of all ranks."""
    for one in run.of("step"):
        own = _alone(run, one.subject)
        if own and run.parameters.get("parallel") == "data":
            yield one.subject, {}, [sum(own) / one.value]


def imbalance(run):
    for one in run.of("step"):
        own = _alone(run, one.subject)
        if own:
            yield one.subject, {}, [max(own) / quantiles(sorted(own), (0.5,))[0]]
