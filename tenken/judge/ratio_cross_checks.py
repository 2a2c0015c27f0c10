"""Values that follow from others of the same result: times of rates, ratios of times, parts of a sum, energies.

What a program derives is derived again here; a value that was changed alone contradicts what it came from. All
functions are pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tenken.judge.criteria import miss
from tenken.model.judgement import Finding
from tenken.model.numbers import quantile
from tenken.model.result import MetricValue, Result

#: A ratio of medians is formed from the same numbers as here; a median of ratios lies within this of it.
EXACT, OF_MEDIANS = 1e-4, 0.02
#: Phases of a set of HPCG last together as long as the set, less what lies between them.
PHASES_LEAST, PHASES_MOST = 0.90, 1.02
#: What lies between the sets of HPCG takes so much of them.
SETS_APART = 0.05
#: The energy pass of a solver repeats its timed run.
ENERGY_RATE = 0.15
#: How `storage_map` names a plain copy, a page of 4 KiB at a time, and what begins the names of cuFile's ways.
COPIES, CUFILE = "posix_4ki_1", ("cufile", "gds")
#: Metrics of a message's time, and the rate at the same size; the rate counts so much of the bytes by ranks.
TIMES: Mapping[str, tuple[tuple[str, ...], Callable[[int], float]]] = {
    "all_reduce_time": (("all_reduce",), lambda n: 2 * (n - 1) / n),
    "all_gather_time": (("all_gather",), lambda n: (n - 1) / n),
    "sendrecv_time": (("sendrecv",), lambda n: 1.0),
    "peer_time": (("peer_by_size",), lambda n: 1.0),
    "read_time": (("read_by_size",), lambda n: 1.0),
    "write_time": (("write_by_size",), lambda n: 1.0),
    "driver_staged_time": (("driver_staged_by_size",), lambda n: 1.0),
    "host_staged_time": (("host_staged_by_size",), lambda n: 1.0),
}

Derived = Iterator[tuple[MetricValue, float, float, str]]
"""Metric, the same value by others, how far apart they may be as a fraction, and what it follows from."""


def derived(result: Result) -> Derived:
    """Values that others of the same result give again."""
    if result.status != "ok" or "implementation" in result.parameters:
        return
    of_program = BY_PROGRAM.get(result.program)
    yield from of_program(result) if of_program else ()
    yield from _energies(result)


def of(result: Result) -> list[Finding]:
    """Values that differ from what others of the same result give."""
    found = []
    for metric, by_others, apart, what in derived(result):
        if not math.isclose(metric.value, by_others, rel_tol=apart):
            text = (
                f"{result.node} {metric.place}: {metric.id} = {metric.value:.6g} {metric.unit}; {what} give "
                f"{by_others:.6g}: more than {100 * apart:g} % apart"
            )
            found.append(miss(result, metric, text, metric.value, by_others, "cross-check"))
    return found


class _Values:
    """Metrics by name, subject and coordinates."""

    def __init__(self, result: Result) -> None:
        self._found = {(m.name, m.subject.id, _key(m.at)): m for m in result.metrics}

    def at(self, name: str, metric: MetricValue, **changed: object) -> MetricValue | None:
        """The metric of that name of the same subject, at the same coordinates but for those changed."""
        where = {key: value for key, value in {**metric.at, **changed}.items() if value is not None}
        return self._found.get((name, metric.subject.id, _key(where)))


def _key(at: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, str(value)) for key, value in at.items()))


def _times(result: Result) -> Derived:
    """A message's time is its bytes over its rate."""
    values = _Values(result)
    for metric in result.metrics:
        names, factor = TIMES.get(metric.name, ((), None))
        size = metric.at.get("bytes")
        rate = next((found for name in names if (found := values.at(name, metric))), None)
        if factor is None or rate is None or not isinstance(size, (int, float)) or rate.median <= 0:
            continue
        count = metric.subject.first if metric.kind == "ranks" else 1
        yield metric, 1e-3 * size * factor(max(count, 1)) / rate.median, EXACT, f"bytes and {rate.id}"


#: Ratios of a transposition: the time above, the memory below it, and which of the two is divided.
_OF_PAGEABLE = {"speedup": ("total", True), "kernel_ratio": ("kernel", False), "check_ratio": ("check", False)}


def _transpose(result: Result) -> Derived:
    values = _Values(result)
    kernels = str(result.parameters.get("kernels", "")).split(",")
    for metric in result.metrics:
        over: tuple[MetricValue | None, MetricValue | None] = (None, None)
        if metric.name in _OF_PAGEABLE:
            name, inverse = _OF_PAGEABLE[metric.name]
            over = (values.at(name, metric), values.at(name, metric, memory="pageable"))
            over = (over[1], over[0]) if inverse else over
        elif metric.name == "kernel_over_managed":
            over = (values.at("kernel", metric), values.at("kernel", metric, memory="managed"))
        elif metric.name in ("htod_speedup", "dtoh_speedup"):
            name = metric.name.removesuffix("_speedup")
            over = tuple(  # type: ignore[assignment]
                values.at(name, metric, memory=memory, kernel=kernels[0]) for memory in ("pageable", "pinned")
            )
        elif metric.name == "kernel_growth":
            n = metric.at.get("n")
            half = n // 2 if isinstance(n, int) else None
            over = (values.at("kernel", metric), values.at("kernel", metric, n=half) if half else None)
        above, below = over
        if above is not None and below is not None and below.median > 0:
            yield metric, above.median / below.median, EXACT, f"{above.id} over {below.id}"


#: Phases of a block of the stencil.
PHASES = ("compute", "pack", "halo_node", "halo_net", "sync")


def _stencil(result: Result) -> Derived:
    """Efficiency is the rate of all parts over as many times the best of one GPU alone, a gain that over halos through
    the host, and a share is its phase over the sum of all.
    """
    values = _Values(result)
    alone = [metric.value for metric in result.metrics if metric.name in ("alone", "fused") and metric.kind == "gpu"]
    for metric in result.metrics:
        cells = values.at("cells", metric)
        if metric.name == "efficiency" and cells is not None and alone:
            by_others = 100 * cells.value / (metric.subject.first * max(alone))
            yield metric, by_others, OF_MEDIANS, f"{cells.id} and the best of one part alone"
        elif metric.name == "gain":
            host = values.at("cells", metric, exchange="host")
            if cells is not None and host is not None and host.median > 0:
                yield metric, 100 * (cells.median / host.median - 1), EXACT, f"{cells.id} and {host.id}"
        elif metric.name == "share":
            # block by block: the median of shares is not the share of medians where blocks scatter
            blocks = _rounds([values.at(phase, metric, phase=None) for phase in PHASES], metric.count)
            own = PHASES.index(str(metric.at.get("phase"))) if metric.at.get("phase") in PHASES else None
            if own is not None and blocks:
                shares = [100 * block[own] / sum(block) if sum(block) > 0 else 0.0 for block in blocks]
                yield metric, quantile(sorted(shares), 0.5), EXACT, "all phases of the same blocks"


def _rounds(parts: Sequence[MetricValue | None], count: int) -> list[tuple[float, ...]]:
    """The samples of several metrics round by round; none unless all of them are there, complete."""
    of = [one.samples for one in parts if one is not None and len(one.samples) == one.count == count]
    return list(zip(*of, strict=True)) if len(of) == len(parts) else []


def _storage_map(result: Result) -> Derived:
    """The best way is one of the measured ones, and ratios are those of the rates of their ways."""
    values, by_way = _Values(result), dict[tuple[str, object, object], list[MetricValue]]()
    for metric in result.metrics:
        by_way.setdefault((metric.name, metric.subject, metric.at.get("bytes")), []).append(metric)
    for metric in result.metrics:
        situation = str(metric.at.get("situation"))
        ways = by_way.get((situation, metric.subject, metric.at.get("bytes")), [])
        cufile = [way for way in ways if _way(way).startswith(CUFILE) and way.median > 0]
        copies = next((way for way in ways if _way(way) == COPIES), None)
        if metric.name.startswith("best_"):
            of = values.at(metric.name.removeprefix("best_"), metric)
            if of is not None:
                yield metric, of.median, EXACT, of.id
        elif metric.name == "copy_over_cufile" and cufile and copies is not None:
            fastest = max(cufile, key=_of_times)
            yield metric, _of_times(copies) / _of_times(fastest), OF_MEDIANS, f"{copies.id} over {fastest.id}"
        elif metric.name == "adaptive_over_cufile" and cufile:
            adaptive = values.at("adaptive", metric)
            if adaptive is not None:
                by_others = _of_times(adaptive) / _of_times(cufile[0])
                yield metric, by_others, OF_MEDIANS, f"{adaptive.id} over {cufile[0].id}"
        elif metric.name == "pinned_read_over_least":
            read, cached = values.at("pinned_read", metric), values.at("cached_read", metric)
            link = result.path.get(f"link_to_memory_gbs.{metric.subject.id}")
            if read is not None and cached is not None and isinstance(link, (int, float)):
                least = min(float(link), cached.median)
                if least > 0:
                    yield metric, read.median / least, OF_MEDIANS, f"{read.id}, {cached.id} and the link of path"


def _way(metric: MetricValue) -> str:
    return str(metric.at.get("io_config", metric.at.get("way", "")))


def _of_times(metric: MetricValue) -> float:
    """The rate of the median time: of an even number of samples that lie far apart the median rate is another one."""
    if not metric.samples or len(metric.samples) != metric.count or min(metric.samples) <= 0:
        return metric.median
    return 1 / quantile(sorted(1 / one for one in metric.samples), 0.5)


def _overlap(result: Result) -> Derived:
    """Costs of snapshots, shares of them hidden and gains, round by round from the loops."""
    loops = {(m.subject, m.at.get("mode")): m for m in result.metrics if m.name == "loop"}
    steps, every = (result.parameters.get(name) for name in ("steps", "every"))
    snapshots = steps // every if isinstance(steps, int) and isinstance(every, int) and every > 0 else 0
    of_rounds: dict[str, Callable[[float, float, float], float]] = {
        "gain": lambda none, serial, loop: serial / loop,
        "hidden": lambda none, serial, loop: 1 - (loop - none) / (serial - none),
        "snapshot_cost": lambda none, serial, loop: 1e3 * (loop - none) / snapshots,
    }
    for metric in result.metrics:
        modes = [loops.get((metric.subject, mode)) for mode in ("none", "serial", metric.at.get("mode"))]
        rounds = _rounds(modes, metric.count)
        if metric.name in of_rounds and rounds:
            try:
                each = [of_rounds[metric.name](*seconds) for seconds in rounds]
            except ZeroDivisionError:  # no snapshot, or loops of equal time
                continue
            yield metric, quantile(sorted(each), 0.5), EXACT, "the loops of the same rounds"


def _access_patterns(result: Result) -> Derived:
    for metric in result.metrics:
        if metric.name == "relative":
            parts = [
                next((m for m in result.metrics if m.name == name and m.subject == metric.subject), None)
                for name in ("device_by_gpu", "device_copy")
            ]
            if parts[0] is not None and parts[1] is not None and parts[1].value > 0:
                yield metric, parts[0].value / parts[1].value, OF_MEDIANS, f"{parts[0].id} over {parts[1].id}"


def entries_of_grid(sides: tuple[int, int, int]) -> int:
    """Entries of a matrix of 27 points on a grid."""
    return math.prod(3 * side - 2 for side in sides)


def _hpcg(result: Result) -> Derived:
    """Rates of HPCG are counted operations over the seconds of its phases; a set has one product and cycle more than
    iterations.
    """
    numbers = {key: value for key, value in result.path.items() if isinstance(value, (int, float))}
    counts = [numbers.get(key) for key in ("sets", "iterations_of_set", "operations_of_iteration")]
    seconds = {key: numbers.get(f"phase_seconds.{key}") for key in ("dot", "vectors", "product", "cycle")}
    if not all(counts) or not all(seconds.values()):
        return
    sets, each, operations = (float(count or 0) for count in counts)
    total = sum(second or 0.0 for second in seconds.values())
    by_name = {metric.name: metric for metric in result.metrics}
    if "raw" in by_name:
        raw = by_name["raw"]
        reached = result.placement.ranks * operations * sets * each / total / 1e9
        nearest = min(max(raw.value, PHASES_LEAST * reached), PHASES_MOST * reached)
        yield raw, nearest, EXACT, "operations_of_iteration and phase_seconds of path"
        if "set" in by_name:
            rates = by_name["set"].samples
            harmonic = len(rates) / math.fsum(1 / rate for rate in rates) if min(rates) > 0 else 0.0
            yield (
                raw,
                min(max(raw.value, (1 - SETS_APART) * harmonic), (1 + SETS_APART) * harmonic),
                EXACT,
                (f"the sets of {by_name['set'].id}"),
            )
    sides = [result.parameters.get(side) for side in ("nx", "ny", "nz")]
    grid = [int(word) for word in re.findall(r"\d+", str(result.path.get("rank_grid")))]
    if len(grid) != 3 or not all(isinstance(side, int) and side > 0 for side in sides):
        return
    finest = tuple(int(side or 0) * parts for side, parts in zip(sides, grid, strict=True))
    levels = [entries_of_grid(tuple(side >> level for side in finest)) for level in range(4)]  # type: ignore[arg-type]
    # a level smooths twice and forms a residual, the coarsest one smooths once
    cycle = sum(10 * entries for entries in levels[:-1]) + 4 * levels[-1]
    for name, phase, work in (("spmv", "product", 2 * levels[0]), ("mg", "cycle", cycle)):
        if name in by_name:
            rate = work * sets * (each + 1) / (seconds[phase] or math.inf) / 1e9
            yield by_name[name], rate, OF_MEDIANS, f"the matrix of {finest} and phase_seconds.{phase} of path"


def _energies(result: Result) -> Derived:
    """Operations per joule times power is the rate of the energy pass, which repeats the timed run of a solver."""
    values = _Values(result)
    for metric in result.metrics:
        power = values.at("power", metric)
        if metric.name != "per_watt" or power is None or power.value <= 0 or metric.unit != "GFLOP/s/W":
            continue
        rate = next((found for name in ("hpl_mxp", "lu_fp8") if (found := values.at(name, metric))), None)
        if rate is not None and rate.unit == "TFLOP/s":
            yield metric, 1e3 * rate.median / power.value, ENERGY_RATE, f"{rate.id} and {power.id}"


BY_PROGRAM: Mapping[str, Callable[[Result], Derived]] = {
    "access_patterns": _access_patterns,
    "hpcg": _hpcg,
    "nccl": _times,
    "overlap": _overlap,
    "p2p": _times,
    "stencil": _stencil,
    "storage_map": _storage_map,
    "transpose": _transpose,
}
