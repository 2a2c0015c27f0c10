"""References with a value for each point of a sweep, out of kept sessions, as a fragment of a system file.

    python -m tools.references SYSTEM ARCHIVE|DOCUMENT... > fragment.yaml

A point becomes a reference when at least two sessions measured it and all of them agree: the tolerance is 10 % where
the range of what was seen is within that, 25 % where it is within that, and else the point is refused, since a loss of
30 % would pass. A session of `local` counts where its GPUs are the system's; a document (.json) that a program wrote by
hand is a session of its own. Ratios have 25 % always. Figures of the host, of what its CPU does with a GPU's memory and
of storage are left out: they belong to whatever machine or disk the sessions were lent, and sessions that agreed were
contradicted by the next one. So are accuracy and shares of one total. Sizes between the points of a sweep are held
where no kept value misses what the points say (`between`). The rest is told on standard error, by metric and reason.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tenken.archive import packed, records
from tenken.machines import between, facts, loader
from tenken.machines.model import Reference, System
from tenken.machines.validation import BETWEEN_UNITS
from tenken.model.catalogue import Program, load_catalogue
from tenken.model.result import MetricValue, Result, typed
from tenken.model.verdicts import FAIL, INVALID

#: Cards of one kind differ by some per cent, and so do releases of a driver: 10 % is no noise.
LEAST_SESSIONS, LEAST_TOLERANCE, MOST_TOLERANCE = 2, 0.1, 0.25
#: What a CPU does, though the figure is told of a GPU.
BY_CPU = {
    "transpose": ("init", "check", "total", "copy_out", "speedup", "check_ratio"),
    "access_patterns": ("host_by_cpu", "remote_by_cpu", "device_by_cpu"),
    "migration": ("cpu", "cpu_first", "cpu_last"),
    "spmv": ("prepare",),
    "hpcg": ("setup", "optimise"),
}
STORAGE = ("snapshot_io", "storage_map", "overlap", "data_loading")
#: Figures that are no speed: verified, or bounded together by the total that they are shares of.
NO_SPEED = {
    "hpl": {"residual": "accuracy", "difference": "accuracy"},
    # phases overlap: with an update 6 % faster `ahead` became 40 % longer at the same rate
    "hpl_mxp": {
        "residual": "accuracy",
        "factor_error": "accuracy",
        "refinements": "accuracy",
        "phase": "a part of one solution, whose rate is there",
    },
    "stencil": {"share": "a share of one total", "gain": "a difference of two figures that are there"},
    "migration": {"new_ramp": "a count"},
}


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


Key = tuple[str, str, str, str, str, str]


@dataclass(frozen=True)
class Run:
    """A result and where it is from."""

    session: str
    time: str
    partition: str
    environ: str
    result: Result


def runs(system: System, arguments: Iterable[str]) -> Iterator[Run]:
    """All results of the system, of `local` on the system's GPUs, and of documents alone."""
    described = next((name, one) for name, one in system.partitions.items() if one.node.gpu is not None)
    partition, sheet = described[0], described[1].node.gpu
    assert sheet is not None
    for argument in arguments:
        path = Path(argument)
        if path.suffix == ".json":
            raw = json.loads(path.read_text())["document"]
            raw = {**raw, "metrics": [{"at": {}, **m} for m in raw["metrics"]]}
            environ = described[1].environments[0]
            yield Run(path.name, raw["started"], partition, environ, typed(raw))
            continue
        for record in records.records(packed.folder_of(path)):
            result = record.result
            if result is None or record.verdict in (FAIL, INVALID):
                continue
            if record.system == system.name:
                yield Run(record.session, record.time, record.partition, record.environ, result)
            elif record.system == loader.LOCAL and result.devices and all(map(sheet.matches, _names(result))):
                yield Run(record.session, record.time, partition, record.environ, result)


def _names(result: Result) -> list[str]:
    return [device.name for device in result.devices]


def refusal(program: str, metric: MetricValue) -> str:
    """Why a value can be no reference; empty: it can."""
    if metric.kind == "host":
        return "of the host"
    if program in STORAGE:
        return "of the storage"
    if metric.name in BY_CPU.get(program, ()):
        return "of the host's CPU"
    return NO_SPEED.get(program, {}).get(metric.name, "")


def parameters_of(program: Program, result: Result, metric: MetricValue) -> dict[str, Any]:
    """What a run must have for its value to be the same quantity on the same kind of machine."""
    named = facts.run_of(result, metric)
    wanted = ("ranks",) if metric.kind == "ranks" else ()
    asked = {name: named[name] for name in (*program.identity, *wanted) if named.get(name) is not None}
    return {**asked, **{program.current_name(name): value for name, value in metric.at.items()}}


def collected(found: Iterable[Run], catalogue: dict[str, Program]) -> tuple[dict[Key, list[Seen]], Counter[str]]:
    """Values by what they are of; why others are none."""
    values: dict[Key, list[Seen]] = defaultdict(list)
    refused: Counter[str] = Counter()
    for run in found:
        result, program = run.result, catalogue[run.result.program]
        for metric in result.metrics:
            parameters = parameters_of(program, result, metric)
            shown = f"{result.program}.{metric.name} of {metric.kind}"
            if why := refusal(program.name, metric):
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
                                        metric.statistic))  # fmt: skip
    return values, refused


def tolerance_of(unit: str, scatter: float) -> float:
    return LEAST_TOLERANCE if scatter <= LEAST_TOLERANCE and unit not in ("1", "%") else MOST_TOLERANCE


def points(values: dict[Key, list[Seen]], refused: Counter[str]) -> dict[tuple[Any, ...], list[Any]]:
    """(parameters, value, sessions, date) of all points that agree, by what their references have in common."""
    good: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for key, seen in sorted(values.items()):
        shown = f"{key[0]}.{key[1]} of {key[2]}"
        figures = [one.value for one in seen]
        middle, sessions = median(figures), len({one.session for one in seen})
        if sessions < LEAST_SESSIONS:
            refused[f"{shown}: measured in fewer than {LEAST_SESSIONS} sessions"] += len(seen)
            continue
        scatter = (max(figures) - min(figures)) / middle
        if scatter > MOST_TOLERANCE:
            refused[f"{shown}: sessions differ by more than {100 * MOST_TOLERANCE:g} %"] += len(seen)
            continue
        last = max(seen, key=lambda one: one.time)
        tolerance = tolerance_of(last.unit, scatter)
        head = (*key[:5], last.unit, last.direction, last.statistic, tolerance, last.driver)
        good[head].append((json.loads(key[5]), middle, sessions, last.time[:10]))
    return good


def sweep_of(head: tuple[Any, ...], found: list[Any], values: dict[Key, list[Seen]]) -> str:
    """The size over which the points are a curve that no other kept value misses; empty: they are none."""
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
        curve = between.reference(known, json.loads(key[5]))
        if curve is None:
            continue
        low, high = curve.bounds
        if any((low is not None and one.value < low) or (high is not None and one.value > high) for one in seen):
            return ""
    return "bytes"


def fragment(good: dict[tuple[Any, ...], list[Any]], values: dict[Key, list[Seen]]) -> list[str]:
    """Lines of YAML: one reference for all points that have everything but the place in common."""
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
    """The fragment of a system out of archives and documents, and why other values are none."""
    values, refused = collected(runs(system, arguments), dict(load_catalogue()))
    return fragment(points(values, refused), values), refused


def main(arguments: list[str]) -> int:
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
