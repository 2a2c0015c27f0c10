"""References with a value for each point of a sweep, from kept sessions, as a fragment of a system file.

    python -m tools.references SYSTEM ARCHIVE|DOCUMENT... > fragment.yaml
    python -m tools.references --leave-out SYSTEM ARCHIVE|DOCUMENT...

A point that at least two sessions measured becomes a reference. Its tolerance is the end of a prediction interval: one
value in 10,000 of a further session is beyond it. Two sessions alone say almost nothing about their scatter. So the
variance of the logarithms is that of all sizes of the metric in the same kind of memory, moderated by a prior worth
four machines of 2 %. A machine counts once, by the median of its sessions, which are closer to each other than to those
of another machine (on one, the launch of a kernel took 1.8 us more in every session). The degrees of freedom are at
most the number of machines less one, since the sizes of one machine move together. The required width of the interval
is rounded up to 10, 15, 20 or 25 %. Beyond that a loss of 30 % would pass, and the point is rejected. Ratios have 25 %
always. A session that failed only by references counts like any other: without it, every tolerance would remain as
narrow as it was.

A record in two archives counts once. A session of `local` counts if its GPUs are the system's. A document (.json) that
a program wrote outside of a session is a session of its own. Values of the host, of the CPU's access to a GPU's memory
and of storage are left out. They depend on the borrowed machine or disk, and differed in later sessions. So are
accuracies and shares of one total. Sizes between the points of a sweep are included if no kept value misses the value
between the points (`between`). The rest is reported on standard error, by metric and reason.

--leave-out: for each machine in turn, applies the points of all others to its runs. Prints the runs that would fail,
and the share of values that would fail if they were 10, 15, 20 and 30 % worse. The first archive contains sessions on
many machines, every other file those of one machine.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from tenken.archive import packed, records
from tenken.machines import facts, interpolation, loader
from tenken.machines.model import Reference, System
from tenken.machines.validation import BETWEEN_UNITS
from tenken.model.catalogue import Program, load_catalogue
from tenken.model.judgement import REFERENCE
from tenken.model.record import Record
from tenken.model.result import MetricValue, Result, typed
from tenken.model.verdicts import FAIL, INVALID

#: GPUs of one model differ by some percent, and so do releases of a driver: a tolerance below 10 % is too narrow.
TOLERANCES = (0.1, 0.15, 0.2, 0.25)
LEAST_SESSIONS, MOST_TOLERANCE = 2, TOLERANCES[-1]
#: The probability of a further measurement beyond a bound; what is assumed about a scatter before it is known.
BEYOND, PRIOR_DOF, PRIOR_SCATTER = 1e-4, 4, 0.02
#: Work of a CPU, although the value is reported for a GPU.
BY_CPU = {
    "transpose": ("init", "check", "total", "copy_out", "speedup", "check_ratio"),
    "access_patterns": ("host_by_cpu", "remote_by_cpu", "device_by_cpu"),
    "migration": ("cpu", "cpu_first", "cpu_last"),
    "spmv": ("prepare",),
    "hpcg": ("setup", "optimise"),
}
STORAGE = ("snapshot_io", "storage_map", "overlap", "data_loading")
#: Figures that are not speeds: they are verified, or are shares of a total that is bounded.
NO_SPEED = {
    "hpl": {"residual": "accuracy", "difference": "accuracy"},
    # phases overlap: with an update 6 % faster, `ahead` became 40 % longer at the same rate
    "hpl_mxp": {
        "residual": "accuracy",
        "factor_error": "accuracy",
        "refinements": "accuracy",
        "phase": "a part of one solution, whose rate is measured",
    },
    "stencil": {"share": "a share of one total", "gain": "a difference of two measured figures"},
    "migration": {"new_ramp": "a count"},
}


@dataclass(frozen=True)
class Defect:
    """Sessions in which some metrics are not evidence: the program was at fault, not the machine."""

    sessions: tuple[str, ...]
    program: str
    metrics: tuple[str, ...]
    why: str
    at: Mapping[str, str] = field(default_factory=dict)

    def spoils(self, session: str, result: Result, metric: MetricValue) -> bool:
        """Whether a value belongs to one of the sessions that are not evidence for its metric."""
        return (
            session in self.sessions
            and result.program == self.program
            and metric.name in self.metrics
            and all(metric.at.get(key) == value for key, value in self.at.items())
        )


#: Each by name. In every session of `SLOW_DGEMM` a launch used the algorithm with tile 15 (path `algorithm.*`), which
#: reaches 0.9 of the others at the power cap; the program has compared algorithms one at a time since.
SLOW_DGEMM = (
    "20261122T191720Z-18ff9f", "20261122T192751Z-h200quick", "20261122T221030Z-h200five1", "20261122T221511Z-h200five2",
    "20261122T222554Z-h200lot3", "20261122T222726Z-h200lot4", "20261122T222855Z-h200lot5", "20261122T223046Z-h200cv",
)  # fmt: skip
DEFECTS = (
    Defect(
        ("20261121T111000Z-h200one",),
        "spmv",
        ("best", "worst", "own_over_vendor", "geomean", "geomean_by_size"),
        "without the format that is now the fastest",
    ),
    Defect(SLOW_DGEMM, "gemm", ("gemm", "per_watt"), "a slower algorithm", {"precision": "fp64_tensor"}),
)


@dataclass(frozen=True)
class Seen:
    """One value of one session."""

    session: str
    time: str
    driver: str
    value: float
    unit: str
    direction: str
    statistic: str
    machine: str = ""
    check: str = ""


Key = tuple[str, str, str, str, str, str]


@dataclass(frozen=True)
class Run:
    """A result and its origin."""

    session: str
    time: str
    partition: str
    environ: str
    result: Result
    machine: str = ""
    check: str = ""


def runs(system: System, arguments: Iterable[str]) -> Iterator[Run]:
    """All results of the system, of `local` on the system's GPUs, and of single documents."""
    described = next((name, one) for name, one in system.partitions.items() if one.node.gpu is not None)
    partition, sheet = described[0], described[1].node.gpu
    assert sheet is not None
    known: set[tuple[str, str, str]] = set()
    for at, argument in enumerate(arguments):
        path = Path(argument)
        if path.suffix == ".json":
            raw = json.loads(path.read_text())["document"]
            raw = {**raw, "metrics": [{"at": {}, **m} for m in raw["metrics"]]}
            environ = described[1].environments[0]
            yield Run(path.name, raw["started"], partition, environ, typed(raw), path.name, path.name)
            continue
        for record in records.records(packed.folder_of(path)):
            result, ident = record.result, (record.session, record.check, record.time)
            if ident in known or result is None or record.verdict == INVALID:
                continue
            if record.verdict == FAIL and not _too_slow(record):
                continue
            known.add(ident)
            by = (result, path.name if at else record.session, record.check)
            if record.system == system.name:
                yield Run(record.session, record.time, record.partition, record.environ, *by)
            elif record.system == loader.LOCAL and result.devices and all(map(sheet.matches, _names(result))):
                yield Run(record.session, record.time, partition, record.environ, *by)


def _too_slow(record: Record) -> bool:
    """Whether a run failed only by references: its values are as good as any."""
    return all(finding.kind == REFERENCE for finding in record.findings if finding.verdict == FAIL)


def _names(result: Result) -> list[str]:
    return [device.name for device in result.devices]


def refusal(program: str, metric: MetricValue, devices: bool = True) -> str:
    """Why a value cannot be a reference; empty if it can. `devices`: whether the run had a GPU."""
    if metric.kind == "host" or not devices or metric.at.get("buffers") == "host":
        return "of the host"
    if program in STORAGE:
        return "of the storage"
    if metric.name in BY_CPU.get(program, ()):
        return "of the host's CPU"
    return NO_SPEED.get(program, {}).get(metric.name, "")


def parameters_of(program: Program, result: Result, metric: MetricValue) -> dict[str, Any]:
    """What must be equal for two values to be the same quantity on the same kind of machine."""
    named = facts.run_of(result, metric)
    wanted = ("ranks",) if metric.kind == "ranks" else ()
    asked = {name: named[name] for name in (*program.identity, *wanted) if named.get(name) is not None}
    return {**asked, **{program.current_name(name): value for name, value in metric.at.items()}}


def collected(found: Iterable[Run], catalogue: dict[str, Program]) -> tuple[dict[Key, list[Seen]], Counter[str]]:
    """Values by class; the reasons why others are not used."""
    values: dict[Key, list[Seen]] = defaultdict(list)
    refused: Counter[str] = Counter()
    for run in found:
        result, program = run.result, catalogue[run.result.program]
        for metric in result.metrics:
            parameters = parameters_of(program, result, metric)
            shown = f"{result.program}.{metric.name} of {metric.kind}"
            if why := refusal(program.name, metric, bool(result.devices)) or _defect(run, metric):
                refused[f"{shown}: {why}"] += 1
            elif not all(isinstance(v, (str, int, float, bool)) and v != "" for v in parameters.values()):
                refused[f"{shown}: a parameter that no reference can name"] += 1
            elif metric.value <= 0:
                refused[f"{shown}: 0 there"] += 1
            else:
                key = (result.program, metric.name, metric.kind, run.partition, run.environ,
                       json.dumps(parameters, sort_keys=True))  # fmt: skip
                driver = next((d.driver for d in result.devices if d.driver), "")
                values[key].append(Seen(run.session, run.time, driver, metric.value, metric.unit, metric.direction,
                                        metric.statistic, run.machine, run.check))  # fmt: skip
    return values, refused


def _defect(run: Run, metric: MetricValue) -> str:
    of_it = (one for one in DEFECTS if one.spoils(run.session, run.result, metric))
    return next((f"of a defective session: {one.why}" for one in of_it), "")


def family(key: Key) -> tuple[str, ...]:
    """Values with a common scatter: a metric at all its sizes, separated by memory, kernel and all other text
    coordinates."""
    parameters = json.loads(key[5])
    return (*key[:3], *(f"{k}={v}" for k, v in sorted(parameters.items()) if isinstance(v, (str, bool))))


def scatters(values: dict[Key, list[Seen]]) -> dict[tuple[str, ...], tuple[int, float]]:
    """Degrees of freedom and variance of the logarithms of each family, moderated by the prior."""
    squares: dict[tuple[str, ...], float] = defaultdict(float)
    dof: Counter[tuple[str, ...]] = Counter()
    machines: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key, seen in values.items():
        by_machine: dict[str, list[float]] = defaultdict(list)
        for one in seen:
            by_machine[one.machine or one.session].append(math.log(one.value))
        middles = [median(figures) for figures in by_machine.values()]
        of = family(key)
        squares[of] += sum((one - fmean(middles)) ** 2 for one in middles)
        dof[of] += len(middles) - 1
        if len(middles) > 1:
            machines[of] |= set(by_machine)
    found = {}
    for of, count in dof.items():
        known = max(min(count, len(machines[of]) - 1), 0)
        variance = squares[of] / count if count else 0.0
        found[of] = PRIOR_DOF + known, (PRIOR_DOF * PRIOR_SCATTER**2 + known * variance) / (PRIOR_DOF + known)
    return found


@cache
def student(dof: int, beyond: float) -> float:
    """The value that Student's t exceeds with probability `beyond`; t is sqrt(dof) tan(a), the density of a is
    cos(a)^(dof-1)."""
    angles = np.linspace(-math.pi / 2, math.pi / 2, 200_002)[1:-1]
    density = np.cos(angles) ** (dof - 1)
    above = np.cumsum(density[::-1])[::-1] / density.sum()
    return math.sqrt(dof) * math.tan(angles[np.searchsorted(-above, -beyond)])


def tolerance_of(unit: str, direction: str, sessions: int, dof: int, variance: float) -> float | None:
    """The tolerance of a point by the scatter of its family; None: a further session may be off by more than 25 %."""
    reach = student(dof, BEYOND) * math.sqrt(variance * (1 + 1 / sessions))
    asked = 1 - math.exp(-reach) if direction == "higher" else math.exp(reach) - 1
    rounded = next((one for one in TOLERANCES if asked <= one), None)
    return MOST_TOLERANCE if rounded and unit in ("1", "%") else rounded


def points(values: dict[Key, list[Seen]], refused: Counter[str]) -> dict[tuple[Any, ...], list[Any]]:
    """(parameters, value, sessions, date) of all points that agree, by the common part of their references."""
    good: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    known = scatters(values)
    for key, seen in sorted(values.items()):
        shown = f"{key[0]}.{key[1]} of {key[2]}"
        figures = [one.value for one in seen]
        middle, sessions = median(figures), len({one.session for one in seen})
        machines = len({one.machine or one.session for one in seen})
        if sessions < LEAST_SESSIONS:
            refused[f"{shown}: measured in fewer than {LEAST_SESSIONS} sessions"] += len(seen)
            continue
        last = max(seen, key=lambda one: one.time)
        tolerance = tolerance_of(last.unit, last.direction, machines, *known[family(key)])
        if tolerance is None:
            few = machines - 1 <= PRIOR_DOF / 2
            why = "too few sessions to estimate the scatter" if few else "healthy sessions scatter too much"
            refused[f"{shown}: {why}"] += len(seen)
            continue
        head = (*key[:5], last.unit, last.direction, last.statistic, tolerance, last.driver)
        good[head].append((json.loads(key[5]), middle, sessions, last.time[:10]))
    return good


def sweep_of(head: tuple[Any, ...], found: list[Any], values: dict[Key, list[Seen]]) -> str:
    """The size over which the points form a curve that no other kept value misses; empty if they do not."""
    program, metric, kind, partition, environ, unit, direction, statistic, tolerance, _ = head
    sizes = [one[0].get("bytes") for one in found]
    if len(set(sizes)) < 2 or unit not in BETWEEN_UNITS or not all(isinstance(size, int) for size in sizes):
        return ""
    side = {"lower": -tolerance, "upper": None} if direction == "higher" else {"lower": None, "upper": tolerance}
    known = [
        Reference(program, metric, kind, partition, (environ,), one[0], unit, direction, statistic, one[1], None,
                  side["lower"], side["upper"], None, None, one[3], None, "", None, between="bytes")
        for one in found
    ]  # fmt: skip
    for key, seen in values.items():
        if key[:5] != head[:5]:
            continue
        curve = interpolation.reference(known, json.loads(key[5]))
        if curve is None:
            continue
        low, high = curve.bounds
        if any((low is not None and one.value < low) or (high is not None and one.value > high) for one in seen):
            return ""
    return "bytes"


def fragment(good: dict[tuple[Any, ...], list[Any]], values: dict[Key, list[Seen]]) -> list[str]:
    """Lines of YAML: one reference for all points that differ only in the coordinate."""
    lines = ["references:"]
    for head, found in sorted(good.items(), key=lambda pair: tuple(map(str, pair[0]))):
        program, metric, kind, partition, environ, unit, direction, statistic, tolerance, driver = head
        sessions, date = min(one[2] for one in found), max(one[3] for one in found)
        bound = f"lower: {-tolerance:g}" if direction == "higher" else f"upper: {tolerance:g}"
        shared = {k: v for k, v in found[0][0].items() if all(one[0].get(k) == v for one in found)}
        if len(found) == 1:
            shared = found[0][0]
        lines += [
            f"  - metric: {program}.{metric}",
            f"    subject: {kind}",
            f"    partition: {partition}",
            f"    environ: [{environ}]",
            *([f"    parameters: {_flow(shared)}"] if shared else []),
            f"    {bound}",
            f"    unit: {_flow(unit)}",
            f"    statistic: {statistic}",
            f"    count: {sessions}",
            f'    date: "{date}"',
            *([f'    driver: "{driver}"'] if driver else []),
            f'    source: "own runs in {sessions} sessions to {date}, median; python -m tools.references"',
        ]
        curve = sweep_of(head, found, values)
        rest = [({k: v for k, v in one[0].items() if k not in shared}, one[1]) for one in found]
        if len(rest) == 1:
            lines.append(f"    value: {rest[0][1]:.5g}")
        else:
            lines += [f"    between: {curve}"] if curve else []
            lines.append("    points:")
            lines += [f"      - {{at: {_flow(at)}, value: {value:.5g}}}" for at, value in rest]
    return lines


def _flow(value: Any) -> str:
    """JSON is YAML; a number in exponent form without a point would be text to some readers."""
    return json.dumps(value, ensure_ascii=False)


def made(system: System, arguments: Iterable[str]) -> tuple[list[str], Counter[str]]:
    """The fragment of a system from archives and documents, and why other values are not used."""
    values, refused = collected(runs(system, arguments), dict(load_catalogue()))
    return fragment(points(values, refused), values), refused


@dataclass
class LeftOut:
    """Runs of machines compared with the points of all others: those that fail, and values that would detect a loss."""

    runs: int = 0
    failed: list[str] = field(default_factory=list)
    values: int = 0
    noticed: Counter[float] = field(default_factory=Counter)


#: Losses for which the number of values that would detect them is reported.
LOSSES = (0.1, 0.15, 0.2, 0.3)


def left_out(values: dict[Key, list[Seen]]) -> LeftOut:
    """Each machine in turn against the points of the others."""
    found = LeftOut()
    for machine in sorted({one.machine for seen in values.values() for one in seen}):
        others = {key: [one for one in seen if one.machine != machine] for key, seen in values.items()}
        bounds = {}
        for head, points_ in points({key: seen for key, seen in others.items() if seen}, Counter()).items():
            for parameters, value, _, _ in points_:
                place: Any = (*head[:5], json.dumps(parameters, sort_keys=True))
                bounds[place] = value, head[6], head[8]
        missed: dict[tuple[str, str], bool] = {}
        for key, seen in values.items():
            for one in seen:
                if one.machine != machine or key not in bounds:
                    continue
                value, direction, tolerance = bounds[key]

                def worse(loss: float, one: Seen = one, value: float = value, up: bool = direction == "higher",
                          tolerance: float = tolerance) -> bool:  # fmt: skip
                    figure = one.value * (1 - loss) if up else one.value / (1 - loss)
                    return figure < value * (1 - tolerance) if up else figure > value * (1 + tolerance)

                run = one.session, one.check
                missed[run] = missed.get(run, False) or worse(0.0)
                found.values += 1
                found.noticed.update(loss for loss in LOSSES if worse(loss))
        found.runs += len(missed)
        found.failed += [f"{session} {check}" for (session, check), bad in sorted(missed.items()) if bad]
    return found


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--leave-out"] and len(arguments) > 2:
        system = loader.load(arguments[1]).expand({}, strict=False)
        found = left_out(collected(runs(system, arguments[2:]), dict(load_catalogue()))[0])
        print(f"{len(found.failed)} of {found.runs} runs fail by references of the other machines: {found.failed}")
        told = (f"{100 * loss:g} %: {100 * found.noticed[loss] / found.values:.0f} %" for loss in LOSSES)
        print(f"{found.values} values; of these miss their bound when they are worse by {', '.join(told)}")
        return 0
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    lines, refused = made(loader.load(arguments[0]).expand({}, strict=False), arguments[1:])
    print("\n".join(lines))
    for reason, count in refused.most_common():
        print(f"no reference for {count} values of {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
