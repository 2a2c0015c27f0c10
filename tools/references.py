"""References with a value for each point of a sweep, out of kept sessions, as a fragment of a system file.

    python -m tools.references SYSTEM ARCHIVE... > fragment.yaml

A point becomes a reference when at least two sessions measured it and all of them agree: the tolerance is 10 % where
the range of what was seen is within that, 25 % where it is within that, and else the point is refused, since a loss of
30 % would pass. Figures of the host, of what its CPU does with a GPU's memory, of several ranks and of storage are left
out: they belong to whatever machine or disk the sessions were lent. The rest is told on standard error, by program and
reason.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from tenken.archive import packed, records
from tenken.model.catalogue import Program, load_catalogue
from tenken.model.record import Record
from tenken.model.verdicts import FAIL, INVALID

#: Cards of one kind differ by some per cent, and so do releases of a driver: 10 % is no noise.
LEAST_SESSIONS, LEAST_TOLERANCE, MOST_TOLERANCE = 2, 0.1, 0.25
KINDS = ("gpu", "pair")
#: What a CPU does, though the figure is told of a GPU.
BY_CPU = {
    "transpose": ("init", "check", "total", "copy_out"),
    "access_patterns": ("host_by_cpu", "remote_by_cpu", "device_by_cpu"),
    "migration": ("cpu", "cpu_first", "cpu_last"),
    "spmv": ("prepare",),
    "hpcg": ("setup", "optimise"),
}
STORAGE = ("snapshot_io", "storage_map", "overlap")
#: What is neither a rate nor a time says nothing about speed, or is a ratio of two that are there.
UNITS = ("GB/s", "us", "ms", "s", "GFLOP/s", "TFLOP/s", "Gcell/s", "messages/s")

Key = tuple[str, str, str, str, str, str]


def collected(found: Iterable[Record], catalogue: dict[str, Program]) -> tuple[dict[Key, list[Any]], Counter[str]]:
    """Values by what they are of: (session, time, driver, value, unit, direction, statistic); why others are none."""
    values: dict[Key, list[Any]] = defaultdict(list)
    refused: Counter[str] = Counter()
    for record in found:
        if record.result is None or record.verdict in (FAIL, INVALID):
            continue
        result, program = record.result, catalogue[record.result.program]
        identity = {name: program.parameter(result.parameters, name) for name in program.identity}
        for metric in result.metrics:
            parameters = {**{k: v for k, v in identity.items() if v is not None}, **metric.at}
            if metric.kind not in KINDS:
                refused[f"{result.program}: of the {metric.kind}"] += 1
            elif result.program in STORAGE:
                refused[f"{result.program}: of the storage"] += 1
            elif metric.name in BY_CPU.get(result.program, ()):
                refused[f"{result.program}: of the host's CPU"] += 1
            elif metric.unit not in UNITS:
                refused[f"{result.program}: a ratio or a count"] += 1
            elif not all(isinstance(v, (str, int, float, bool)) and v != "" for v in parameters.values()):
                refused[f"{result.program}: a parameter that no reference can name"] += 1
            else:
                key = (result.program, metric.name, metric.kind, record.partition, record.environ,
                       json.dumps(parameters, sort_keys=True))  # fmt: skip
                driver = next((d.driver for d in result.devices if d.driver), "")
                values[key].append((record.session, record.time, driver, metric.value, metric.unit, metric.direction,
                                    metric.statistic))  # fmt: skip
    return values, refused


def points(values: dict[Key, list[Any]], refused: Counter[str]) -> dict[tuple[Any, ...], list[Any]]:
    """(parameters, value, sessions, date) of all points that agree, by what their references have in common."""
    good: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for key, seen in sorted(values.items()):
        figures = [one[3] for one in seen]
        middle = median(figures)
        if len({one[0] for one in seen}) < LEAST_SESSIONS:
            refused[f"{key[0]}: measured in one session alone"] += len(seen)
            continue
        scatter = (max(figures) - min(figures)) / middle if middle > 0 else 1.0
        if scatter > MOST_TOLERANCE:
            refused[f"{key[0]}: sessions differ by more than {100 * MOST_TOLERANCE:g} %"] += len(seen)
            continue
        tolerance = LEAST_TOLERANCE if scatter <= LEAST_TOLERANCE else MOST_TOLERANCE
        last = max(seen, key=lambda one: one[1])
        head = (*key[:5], *last[4:], tolerance, last[2])
        good[head].append((json.loads(key[5]), middle, len({one[0] for one in seen}), last[1][:10]))
    return good


def fragment(good: dict[tuple[Any, ...], list[Any]]) -> list[str]:
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
        rest = [({k: v for k, v in one[0].items() if k not in shared}, one[1]) for one in found]
        if len(rest) == 1:
            lines.append(f"    value: {rest[0][1]:.5g}")
        else:
            lines.append("    points:")
            lines += [f"      - {{at: {_flow(at)}, value: {value:.5g}}}" for at, value in rest]
    return lines


def _flow(value: Any) -> str:
    """JSON is YAML; a number in exponent form without a point would be text to some readers."""
    return json.dumps(value, ensure_ascii=False)


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = [r for a in arguments[1:] for r in records.records(packed.folder_of(Path(a)), system=arguments[0])]
    values, refused = collected(found, dict(load_catalogue()))
    good = points(values, refused)
    print("\n".join(fragment(good)))
    for reason, count in refused.most_common():
        print(f"no reference for {count} values of {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
