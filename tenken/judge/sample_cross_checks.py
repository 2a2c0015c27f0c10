"""Values that a program forms sample by sample from others of the same result, and errors that it verified.

Gains, shares and costs, plateaus, the rate of the best method, the sum of phases: all samples of both sides are in
the result, so each is formed again. All functions are pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tenken.judge.criteria import miss
from tenken.judge.stated_cross_checks import SIDES
from tenken.model.judgement import Finding
from tenken.model.numbers import quantile
from tenken.model.result import MetricValue, Result

#: A number formed twice from the same ones; differences of them are compared at the size of what is subtracted.
EXACT = 1e-5
#: Share of its plateau from which a rate counts as being on it, and how many in a row: src/lib/base/ramp.h.
ON_PLATEAU, IN_A_ROW, NEW_RAMP = 0.95, 5, 0.9
#: Operations of an iteration of HPCG with three passes over the matrix: bytes each, by which `of_dot` is relative.
BYTES_OF_HPCG = 4.70

Formed = Iterator[tuple[MetricValue, Sequence[float], float, str]]
"""Metric, its samples formed again (fewer: a pair has the rounds of both), their size, and what they follow from."""


def of(result: Result) -> list[Finding]:
    """Samples that differ from what others of the same result give."""
    if result.status != "ok" or "implementation" in result.parameters or result.token is None:
        return []
    found = []
    formed, values = BY_PROGRAM.get(result.program), _Values(result)
    for metric, samples, size, what in [*(formed(values) if formed else ()), *_energies(values)]:
        text = _differing(metric, samples, size)
        if text:
            message = f"{result.node} {metric.place}: {metric.id}: {text} by {what}"
            by_others = _middle(samples) if samples else 0.0
            found.append(miss(result, metric, message, metric.value, by_others, "cross-check"))
    for metric, text in [*_verified(result), *_refined(result), *_repeated(result)]:
        message = f"{result.node} {metric.place}: {metric.id}: {text}"
        found.append(miss(result, metric, message, metric.value, 0.0, "cross-check"))
    return found


def _differing(metric: MetricValue, samples: Sequence[float], size: float) -> str:
    """How a metric's samples differ from others; empty: they do not."""
    if len(metric.samples) != len(samples):
        return f"it has {len(metric.samples)} samples; {len(samples)}"
    for number, (said, by_others) in enumerate(zip(metric.samples, samples, strict=True)):
        if not math.isclose(said, by_others, rel_tol=EXACT, abs_tol=EXACT * size):
            return f"sample {number + 1} is {said:.6g} {metric.unit}; {by_others:.6g}"
    return ""


def _middle(samples: Sequence[float]) -> float:
    return quantile(sorted(samples), 0.5)


class _Values:
    """Metrics by name, subject and coordinates."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self._found = {(m.name, m.subject.id, _key(m.at)): m for m in result.metrics}

    def of(self, *names: str) -> Iterator[MetricValue]:
        return (metric for metric in self.result.metrics if metric.name in names)

    def at(self, name: str, metric: MetricValue, **changed: object) -> MetricValue | None:
        """The metric of that name of the same subject, at the same coordinates but for those changed; None as a value
        takes one away."""
        where = {key: value for key, value in {**metric.at, **changed}.items() if value is not None}
        return self._found.get((name, metric.subject.id, _key(where)))

    def number(self, name: str) -> float | None:
        value = self.result.parameters.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _key(at: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, str(value)) for key, value in at.items()))


def _ratios(above: MetricValue, below: MetricValue) -> list[float]:
    """Round by round; the longer one took part in further rounds with others."""
    pairs = zip(above.samples, below.samples, strict=False)
    return [one / other if other else math.inf for one, other in pairs]


# ---- of single programs --------------------------------------------------------------------------------------


def _overlap(values: _Values) -> Formed:
    """Costs and gains of a loop with snapshots, by the loops of the same round."""
    steps, every = values.number("steps"), values.number("every")
    snapshots = steps // every if steps and every else 0
    for metric in values.of("snapshot_cost", "hidden", "gain"):
        loop = values.at("loop", metric)
        none, serial = (values.at("loop", metric, mode=mode) for mode in ("none", "serial"))
        if loop is None or none is None or not snapshots:
            continue
        what = f"{loop.id} and {none.id}"
        more = [one - other for one, other in zip(loop.samples, none.samples, strict=False)]
        if metric.name == "snapshot_cost":
            yield metric, [1e3 * one / snapshots for one in more], 1e3 * loop.value / snapshots, what
        elif serial is not None and metric.name == "gain":
            yield metric, _ratios(serial, loop), 0.0, f"{serial.id} over {loop.id}"
        elif serial is not None:
            waits = [one - other for one, other in zip(serial.samples, none.samples, strict=False)]
            if all(waits):
                share = [1 - one / other for one, other in zip(more, waits, strict=False)]
                yield metric, share, max(loop.value / abs(wait) for wait in waits), f"{what} and {serial.id}"


def _transpose(values: _Values) -> Formed:
    """The total of a repetition is the sum of its phases."""
    for metric in values.of("total"):
        phases = [
            found
            for name in ("init", "htod", "kernel", "dtoh", "copy_out", "check")
            if (found := values.at(name, metric)) is not None
        ]
        if phases and len({phase.count for phase in phases}) == 1:
            sums = [math.fsum(parts) for parts in zip(*(phase.samples for phase in phases), strict=True)]
            yield metric, sums, 0.0, "the sum of its phases"
    for metric in values.of("transfer_growth_ratio"):
        growths = [_growth(values, metric, memory) for memory in ("pageable", "pinned")]
        if growths[0] and growths[1]:
            what = "htod and dtoh of both sizes, pageable over pinned"
            yield metric, [growths[0] / growths[1]], 0.0, what


def _growth(values: _Values, metric: MetricValue, memory: str) -> float | None:
    """Time of the transfers over that of half the side."""
    kernel, n = str(values.result.parameters.get("kernels", "")).split(",")[0], metric.at.get("n")
    if not isinstance(n, int):
        return None
    sides = ((side, name) for side in (n, n // 2) for name in ("htod", "dtoh"))
    parts = [values.at(name, metric, kernel=kernel, memory=memory, n=side) for side, name in sides]
    medians = [part.median for part in parts if part is not None]
    below = math.fsum(medians[2:])
    return math.fsum(medians[:2]) / below if len(medians) == len(parts) and below else None


def _spmv(values: _Values) -> Formed:
    """The best variant of a matrix with all its samples, and figures over variants and over matrices."""
    for metric in values.of("own_over_vendor"):
        rates: dict[bool, list[float]] = {True: [], False: []}
        for one in values.of("spmv"):
            if one.subject == metric.subject and one.at.get("matrix") == metric.at.get("matrix"):
                rates[str(one.at.get("variant")).startswith("cusparse")].append(one.median)
        if rates[True] and rates[False] and max(rates[True]) > 0:
            yield (
                metric,
                [max(rates[False]) / max(rates[True])],
                0.0,
                "the fastest variants of both",
            )
    for metric in values.of("geomean", "worst", "geomean_by_size"):
        best = [one for one in values.of("best") if one.subject == metric.subject and one.median > 0]
        decade = metric.at.get("nnz_decade")
        if metric.name == "geomean_by_size":
            best = [one for one in best if _decade(one.at.get("nnz")) == decade]
        if best:
            logarithms = math.fsum(math.log(one.median) for one in best) / len(best)
            value = min(one.median for one in best) if metric.name == "worst" else math.exp(logarithms)
            yield metric, [value], 0.0, "best of its matrices"


def _decade(entries: object) -> int | None:
    return math.floor(math.log10(entries)) if isinstance(entries, int) and entries > 0 else None


def _himeno(values: _Values) -> Formed:
    for metric in values.of("behind_explicit", "behind_managed"):
        other = values.at("total", metric, memory=metric.name.removeprefix("behind_"))
        own = values.at("total", metric)
        if other is not None and own is not None:
            yield metric, [other.value - own.value], other.value, f"{other.id} less {own.id}"


def _hpcg(values: _Values) -> Formed:
    for metric in values.of("of_dot"):
        raw, dot = values.at("raw", metric), values.at("dot", metric)
        if raw is not None and dot is not None and dot.median > 0:
            yield metric, [BYTES_OF_HPCG * raw.value / dot.median], 0.0, f"{raw.id} and {dot.id}"


def _stencil(values: _Values) -> Formed:
    phases = ("compute", "pack", "halo_node", "halo_net", "sync")
    for metric in values.of("gain"):
        own, host = values.at("cells", metric), values.at("cells", metric, exchange="host")
        if own is not None and host is not None and host.median > 0:
            yield metric, [100 * (own.median / host.median - 1)], 100.0, f"{own.id} over {host.id}"
    for metric in values.of("share"):
        parts = {name: values.at(name, metric, phase=None) for name in phases}
        own = parts.get(str(metric.at.get("phase")))
        known = [one for one in parts.values() if one is not None]
        if own is None or len(known) < len(phases) or len({one.count for one in known}) > 1:
            continue
        sums = [math.fsum(one) for one in zip(*(part.samples for part in known), strict=True)]
        shares = [100 * one / whole if whole > 0 else 0.0 for one, whole in zip(own.samples, sums, strict=True)]
        yield metric, shares, 100.0, f"{own.id} and the other phases"


def _snapshot_io(values: _Values) -> Formed:
    """Ratios of layouts and methods, round by round."""
    for metric in values.of(*(f"{way}_{name}" for way in ("write", "read") for name in _OVER)):
        way, _, name = metric.name.partition("_")
        key, one, other = _OVER[name]
        above, below = (values.at(way, metric, **{key: value}) for value in (one, other))
        if above is not None and below is not None:
            yield metric, _ratios(above, below), 0.0, f"{above.id} over {below.id}"


_OVER = {"hyperslab_over_asis": ("layout", "hyperslab", "asis"), "gds_over_posix": ("method", "gds", "posix")}


def _storage_map(values: _Values) -> Formed:
    """The best configuration is one of those measured, and a file read to the GPU is relative to its slower half."""
    for metric in values.of(*(f"best_{name}" for name in ("write", "write_synced", "read_cached", "read_cold"))):
        measured = values.at(metric.name.removeprefix("best_"), metric)
        if measured is not None:
            yield metric, measured.samples, 0.0, measured.id
    for metric in values.of("adaptive_over_map"):
        rates = values.at("adaptive", metric)
        if rates is not None and metric.samples and metric.samples[0] > 0 and rates.samples:
            of_map = rates.samples[0] / metric.samples[0]
            yield metric, [rate / of_map for rate in rates.samples], 0.0, f"{rates.id} over one value of the map"
    yield from _choices(values)
    link = values.result.path
    for metric in values.of("pinned_read_over_least"):
        to_gpu, cached = values.at("pinned_read", metric), values.at("cached_read", metric)
        copies = link.get(f"link_to_memory_gbs.{metric.subject.id}")
        if to_gpu is not None and cached is not None and isinstance(copies, (int, float)) and copies > 0:
            least = min(float(copies), cached.median)
            yield metric, [to_gpu.median / least], 0.0, f"{to_gpu.id}, {cached.id} and link_to_memory_gbs of path"


#: The choice by a map as it is noted: configuration, outcome, median of the ratios, the next best, number of rounds.
CHOICE = re.compile(r"(\S+): (?:held|behind|undecided), (\S+) \(\S+ to \S+\) of (\S+) in (\d+) (rounds|pairs)")
#: It is noted with three digits.
NOTED = 6e-3


def _choices(values: _Values) -> Formed:
    """A choice over the next best configuration: round by round, or as it is noted of pairs that were measured anew."""
    for metric in values.of("adaptive_over_best"):
        situation, size = str(metric.at.get("situation")), metric.at.get("bytes")
        if not isinstance(size, int):
            continue
        key = f"choice.{situation}.{short_bytes(size)}.{metric.subject.id}"
        said = CHOICE.match(str(values.result.path.get(key)))
        if said is None:
            continue
        ways = {
            str(one.at.get("io_config")): one
            for one in values.of(situation)
            if one.subject == metric.subject and one.at.get("bytes") == size
        }
        own, rival = ways.get(said[1]), ways.get(said[3])
        if said[5] == "rounds" and own is not None and rival is not None:
            yield metric, _ratios(own, rival), 0.0, f"{own.id} over {rival.id}"
        elif re.fullmatch(r"[0-9.e+-]+", said[2]) and not math.isclose(metric.value, float(said[2]), rel_tol=NOTED):
            yield metric, [float(said[2])] * metric.count, 0.0, f"path {key}"


def short_bytes(size: int) -> str:
    """As programs write a size in a name: 4ki, 16mi."""
    units = ((30, "gi"), (20, "mi"), (10, "ki"))
    return next((f"{size >> bits}{unit}" for bits, unit in units if size and size % (1 << bits) == 0), str(size))


def _data_loading(values: _Values) -> Formed:
    """Samples and bytes of one time, the fastest configuration, and reading ahead over not, round by round."""
    for metric in values.of("best"):
        same = values.at("samples", metric)
        if same is not None:
            yield metric, same.samples, 0.0, same.id
    for metric in values.of("rate"):
        count = values.at("samples", metric)
        if count is not None and count.samples and metric.samples and count.samples[0] > 0:
            each = metric.samples[0] / count.samples[0]
            yield metric, [each * one for one in count.samples], 0.0, f"{count.id} and the bytes of a sample"
    for metric in values.of("gain"):
        ahead, serial = values.at("samples", metric), values.at("samples", metric, prefetch=0)
        if ahead is not None and serial is not None:
            yield metric, _ratios(ahead, serial), 0.0, f"{ahead.id} over {serial.id}"


# ---- energies ------------------------------------------------------------------------------------------------


def _energies(values: _Values) -> Formed:
    """Mean power is that of its reading, of one process; energy is all operations over those per joule."""
    result = values.result
    for metric in values.of("power"):
        sides = "x".join(str(metric.at[side]) for side in SIDES if side in metric.at)
        product = f"energy.{metric.at.get('precision')}:{sides}.{metric.subject.id}.watts"
        key = product if sides else f"energy.{metric.id.removeprefix('power.')}.watts"
        watts = result.path.get(key)
        if isinstance(watts, (int, float)) and result.placement.ranks == 1:
            yield metric, [float(watts)], 0.0, f"path {key}"
    for metric in values.of("energy"):
        per_watt, operations = values.at("per_watt", metric), _operations(values, metric)
        if per_watt is not None and per_watt.unit == "GFLOP/s/W" and per_watt.value > 0 and operations:
            yield metric, [operations / 1e9 / per_watt.value], 0.0, f"its operations and {per_watt.id}"


def _operations(values: _Values, metric: MetricValue) -> float | None:
    """Operations of one solution: of an LU by its side, of a set of HPCG by its iterations."""
    result, n = values.result, metric.at.get("n")
    if result.program in ("hpl", "hpl_mxp") and isinstance(n, int):
        return 2 / 3 * n**3 + 1.5 * n**2
    counts = [result.path.get(key) for key in ("operations_of_iteration", "iterations_of_set")]
    if result.program == "hpcg" and all(isinstance(one, (int, float)) for one in counts):
        return math.prod(float(str(one)) for one in counts) * result.placement.ranks
    return None


# ---- plateaus ------------------------------------------------------------------------------------------------

#: Metrics of the repetitions whose ramp is reported, by program and by the phase or else.
_PHASES = {"first": "gpu_first", "cpu": "cpu", "last": "gpu_last"}


def ramp_of(rates: Sequence[float]) -> tuple[int, float, float]:
    """The repetition at which the plateau begins, counted from 1, the median rate before it, and the plateau."""
    plateau = _middle(rates[-max(1, len(rates) // 4) :])
    enough = [rate >= ON_PLATEAU * plateau for rate in rates]
    first = next((at for at in range(len(rates)) if all(enough[at : at + IN_A_ROW])), len(rates) - 1)
    return first + 1, _middle(rates[:first]) if first else rates[0], plateau


def _seen(rates: Sequence[float]) -> bool:
    """Whether more than one repetition was below 0.9 of the plateau."""
    repetition, before, plateau = ramp_of(rates)
    return repetition > 2 and before < NEW_RAMP * plateau


def _ramps(values: _Values) -> Formed:
    trials = int(values.number("trials") or 1)
    for metric in values.of("new_ramp"):
        again = [_trial(values, "gpu_last", metric, number, trials) for number in range(1, trials + 1)]
        seen = [_seen(one.samples) for one in again if one is not None and one.samples]
        if len(seen) == trials:
            yield metric, [float(one) for one in seen], 0.0, "the repetitions of gpu_last"
    for metric in values.of("ramp", "before", "plateau"):
        phase = metric.at.get("phase")
        names = (_PHASES.get(str(phase)),) if phase is not None else ("remote_by_gpu", "device_by_gpu")
        series = [
            found
            for number in range(1, trials + 1)
            for name in names
            if name and (found := _trial(values, name, metric, number, trials)) is not None
        ]
        if len(series) == trials and all(one.samples for one in series):
            which = ("ramp", "before", "plateau").index(metric.name)
            ramps = [float(ramp_of(one.samples)[which]) for one in series]
            yield metric, ramps, 0.0, f"the repetitions of {series[0].id}"


def _trial(values: _Values, name: str, metric: MetricValue, number: int, trials: int) -> MetricValue | None:
    return values.at(name, metric, phase=None, **({"trial": number} if trials > 1 else {}))


BY_PROGRAM: Mapping[str, Callable[[_Values], Formed]] = {
    "overlap": _overlap,
    "transpose": _transpose,
    "spmv": _spmv,
    "himeno": _himeno,
    "hpcg": _hpcg,
    "stencil": _stencil,
    "snapshot_io": _snapshot_io,
    "storage_map": _storage_map,
    "data_loading": _data_loading,
    "migration": _ramps,
    "access_patterns": _ramps,
}

# ---- errors that were verified -------------------------------------------------------------------------------

#: Metrics that are errors of verifications, by program: what those are called, and the factor between them.
ERRORS: Mapping[str, Mapping[str, tuple[str, float]]] = {
    "hpl": {"residual": ("||Ax-b|| / (eps", 1.0), "difference": ("largest difference from the library's", 1.0)},
    "hpl_mxp": {
        "residual": ("||Ax-b|| / (eps", 1.0),
        "factor_error": ("A - LU, every row", 1.0),
        "small_share": ("part of the update's operands that is zero or subnormal", 100.0),
    },
    "hpcg": {"iterations": ("iterations to the residual of 50", 1.0)},
}  # fmt: skip


def _verified(result: Result) -> Iterator[tuple[MetricValue, str]]:
    """Samples of an error that no verification has."""
    for name, (words, factor) in ERRORS.get(result.program, {}).items():
        errors = [c.error * factor for c in result.verification.checks if words in c.what and c.error is not None]
        for metric in result.metrics if errors else ():
            if metric.name != name:
                continue
            for number, sample in enumerate(metric.samples):
                if not any(math.isclose(sample, error, rel_tol=EXACT) for error in errors):
                    text = f"sample {number + 1} is {sample:.6g}; its verifications have {errors[0]:.6g}"
                    yield metric, text if len(set(errors)) == 1 else f"{text} to {max(errors):.6g}"
                    break


#: How the refinements of a solution are noted: their number, and the residual before the first and after each.
REFINED = re.compile(r"(\d+) refinements?: (.+)")


def _refined(result: Result) -> Iterator[tuple[MetricValue, str]]:
    """The number of refinements is that which the verification of each repetition notes."""
    noted = [
        (int(said[1]), len(said[2].split(",")))
        for check in result.verification.checks
        if "declared maximum of" in check.what and (said := REFINED.fullmatch(check.detail or ""))
    ]
    metrics = [metric for metric in result.metrics if metric.name == "refinements" and metric.count == len(noted)]
    for metric in metrics if len(metrics) == 1 else ():
        for number, (sample, (count, residuals)) in enumerate(zip(metric.samples, noted, strict=True)):
            if sample != count or residuals != count + 1:
                yield (
                    metric,
                    f"sample {number + 1} is {sample:g}; its verification has {residuals} residuals of {count}",
                )
                break


#: Metrics with one sample of each requested repetition, by program: no sample is left out.
REPEATED: Mapping[str, Sequence[str]] = {
    "access_patterns": ("host_by_cpu", "remote_by_cpu", "device_by_cpu", "remote_by_gpu", "device_by_gpu"),
    "daxpy": ("daxpy",),
    "hpl": ("hpl", "residual"),
    "hpl_mxp": ("hpl_mxp", "lu_fp8", "residual", "factor_error", "refinements"),
    "memcopy": ("memcpy", "kernel"),
    "migration": ("gpu_first", "cpu", "gpu_last", "cpu_first", "cpu_last"),
    "overlap": ("loop", "snapshot_cost", "hidden", "gain"),
    "stream": ("copy", "scale", "add", "triad", "dot", "memcpy"),
    "transpose": ("init", "htod", "kernel", "dtoh", "copy_out", "check", "total"),
}


def _repeated(result: Result) -> Iterator[tuple[MetricValue, str]]:
    asked, names = result.parameters.get("repetitions"), REPEATED.get(result.program, ())
    for metric in result.metrics if isinstance(asked, int) else ():
        if metric.name in names and metric.count != asked:
            yield metric, f"it has {metric.count} samples; parameter repetitions is {asked}"
