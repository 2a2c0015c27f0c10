"""How slow a GPU must be for each program to notice it on a first run, from kept records.

    python -m tools.sensitivity > table.md
    python -m tools.sensitivity --left-out > table.md
    python -m tools.sensitivity --values > table.md

Every rate of a run is multiplied by a factor, and every time divided by it, consistently, as on a slow GPU. The run is
judged as on a machine that no file describes, without references. The table has, for each program and kind of GPU, the
largest factor at which it FAILs, for all GPUs and for the second of two alone. `never`: not at 1/50 either.

--left-out: how much each floor depends on one session. --values: metrics with values that still pass every criterion if
they alone are 30 % slower, how many values they have, and how many of these fail a criterion.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from tenken.archive import packed, records
from tenken.judge import verdict
from tenken.machines import facts
from tenken.model.catalogue import program as catalogue
from tenken.model.engine import completed
from tenken.model.judgement import FLOOR, JudgedMetric, Judgement
from tenken.model.record import Record
from tenken.model.request import Request
from tenken.model.result import Result
from tenken.model.subject import Subject
from tenken.model.values import MetricValue
from tenken.model.verdicts import FAIL
from tenken.paths import ROOT

#: Factors that are tried: in steps of a hundredth, and a half, a tenth and a fiftieth.
FACTORS = (*(one / 100 for one in range(99, 59, -1)), 0.5, 0.1, 0.02)
#: Units of rates, which a slow GPU lowers, and of times, which it raises; power, shares and counts are unchanged.
RATES = ("GB/s", "GFLOP/s", "TFLOP/s", "Gcell/s", "samples/s", "messages/s", "GFLOP/s/W", "GB/s/W", "Gcell/s/W")
TIMES = ("s", "ms", "us", "ns")
#: What programs report about rates, next to their values.
STATED = ("_gbs", "_gcells")
#: Kept first runs: one and two H100, one and two H200.
KEPT = ("h100-one-user", "h100-two-runs", "h100-two-v2", "h200-one-user", "h200-two-clean")
#: Later runs, in which programs of files measure the link to the host as well.
LINKED = ("h200-two-minutes", "h200-two-refined")

Which = Callable[[Subject], bool]


def everything(subject: Subject) -> bool:
    return True


def second(subject: Subject) -> bool:
    """The second GPU alone, and what it sends to others; with two GPUs, both directions count as all pairs."""
    return subject.first == 1 if subject.kind == "pair" else 1 in subject.gpus


def slowed(result: Result, factor: float, which: Which = everything) -> Result:
    """A result as a slower GPU would have written it."""
    program = catalogue(result.program)

    def scale(unit: str) -> float:
        return factor if unit in RATES else 1 / factor if unit in TIMES else 1.0

    metrics = []
    for one in result.metrics:
        by = scale(one.unit) if which(one.subject) else 1.0
        fields = {name: by * getattr(one, name) for name in ("value", "best", "median", "p5", "p95")}
        metrics.append(replace(one, samples=tuple(by * sample for sample in one.samples), **fields))
    series = []
    for taken in result.series:
        declared = program.metrics.get(taken.name)
        by = 1 / factor if taken.seconds else scale(declared.unit) if declared else 1.0
        slow = replace(taken, samples=tuple(by * sample for sample in taken.samples))
        series.append(slow if which(taken.subject) else taken)
    path = {
        key: value * factor
        if isinstance(value, float) and key.partition(".")[0].endswith(STATED) and _stated_of(key, which)
        else value
        for key, value in result.path.items()
    }
    return replace(lasting(result, 1 / factor), metrics=tuple(metrics), series=tuple(series), path=path)


def lasting(result: Result, factor: float) -> Result:
    """A result whose run, and the timed part of each GPU, took this much longer."""
    begin, end = result.moments
    if begin is None or end is None:
        return result
    finished = datetime.fromtimestamp(begin + factor * (end - begin), timezone.utc)
    entries = (replace(one, seconds=one.seconds and factor * one.seconds) for one in result.health.devices)
    health = replace(result.health, devices=tuple(entries))
    return replace(result, finished=f"{finished:%Y-%m-%dT%H:%M:%S.%fZ}", health=health)


def slowed_at(result: Result, factor: float, coordinate: str, value: object) -> Result:
    """The same for values at one coordinate alone."""
    slow = slowed(result, factor)

    def chosen(whole: tuple[Any, ...], changed: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(two if one.at.get(coordinate) == value else one for one, two in zip(whole, changed, strict=True))

    return replace(slow, metrics=chosen(result.metrics, slow.metrics), series=chosen(result.series, slow.series))


def _stated_of(key: str, which: Which) -> bool:
    place = Subject.in_id(key.rpartition(".")[2])
    return place is None or which(place)


def judgement(record: Record, result: Result) -> Judgement:
    """The judgement of a first run."""
    program = catalogue(result.program)
    request = replace(record.request or Request(None, result.program, subjects=record.subjects), token=None)
    return verdict.judge(completed(result, program), program, request, facts.of_result(result), None)


def judged(record: Record, result: Result) -> str:
    """The verdict of a first run."""
    return judgement(record, result).verdict


def fails_at(record: Record, which: Which = everything) -> float | None:
    """The largest factor at which a run FAILs; None: at none."""
    assert record.result is not None
    found = (factor for factor in FACTORS if judged(record, slowed(record.result, factor, which)) == FAIL)
    return next(found, None)


def runs(names: Iterable[str] = KEPT, hosts: bool = False) -> list[Record]:
    """Measured runs on GPUs; with `hosts` all."""
    found = []
    for name in names:
        for record in records.records(packed.folder_of(ROOT / "tests" / "data" / f"{name}.tar.xz")):
            result = record.result
            if result is not None and result.status == "ok" and (hosts or result.devices):
                found.append(record)
    return found


def first_runs() -> list[Record]:
    """Those of KEPT; of programs of files those of LINKED."""
    return [one for names in (KEPT, LINKED) for one in runs(names) if (one.program in FILES) == (names is LINKED)]


def table(kept: Iterable[Record]) -> list[str]:
    """Lines of Markdown: for each program the smallest factor over its runs, on all GPUs and on one of two."""
    rows: dict[tuple[str, str], list[list[float | None]]] = {}
    for record in kept:
        assert record.result is not None
        row = rows.setdefault((record.program, _gpu(record.result)), [[], []])
        row[0].append(fails_at(record))
        subjects = [one.subject for one in record.result.metrics] + [one.subject for one in record.result.series]
        if len(record.result.devices) > 1 and any(map(second, subjects)):
            row[1].append(fails_at(record, second))
    lines = ["| program | GPU | runs | FAIL at | one of two |", "|---|---|---|---|---|"]
    for (program, kind), (every, one) in sorted(rows.items()):
        lines.append(f"| {program} | {kind} | {len(every)} | {_shown(every)} | {_shown(one) if one else ''} |")
    return lines


def _shown(factors: list[float | None]) -> str:
    return "never" if None in factors else f"{min(one for one in factors if one is not None):.2f}"


# ---- each session left out of those that set the thresholds --------------------------------------------------------

#: Programs whose values set floors: of memory and links, of products by precision, of kernels by what limits them.
SET_BY = ("stream", "spmv", "memcopy", "transfer", "p2p", "gemm", "stencil", "transpose")

Margins = dict[tuple[str, str], dict[str, float]]
"""By GPU and figure: for each session its value closest to its floor, as a multiple of it."""


def margins(kept: Iterable[Record]) -> Margins:
    """Margins of the programs that set the floors."""
    found: Margins = {}
    for record in kept:
        result = record.result
        if result is None or record.program not in SET_BY:
            continue
        program = catalogue(record.program)
        for name, one in judgement(record, result).judged.items():
            criterion, metric = one.criterion, next(m for m in result.metrics if m.id == name)
            if criterion is None or criterion.kind != FLOOR or not criterion.low or metric.kind == "host":
                continue
            rule = program.metrics[metric.name].floors.get(metric.kind)
            if rule is None:
                continue
            place = (_gpu(result), rule.of or _kernel(metric))
            by_session = found.setdefault(place, {})
            nearest = by_session.get(record.session, float("inf"))
            by_session[record.session] = min(nearest, one.value / criterion.low)
    return found


def _kernel(metric: MetricValue) -> str:
    which = metric.at.get("precision") or metric.at.get("variant") or ""
    return f"products, {which}" if metric.name == "gemm" else f"{metric.name} {which}".strip()


def without(by_session: dict[str, float], session: str) -> float:
    """The rise of a threshold, as a share of the slowest session, when a session is left out."""
    others = [margin for name, margin in by_session.items() if name != session]
    return min(others) / min(by_session.values()) if others else 1.0


def left_out(found: Margins) -> list[str]:
    """Lines of Markdown: how much floors depend on one session, and which sessions would FAIL if they were left out."""
    lines = [
        "| figure | GPU | sessions | slowest | floor without it | FAIL at, each left out | healthy FAIL |",
        "|---|---|---|---|---|---|---|",
    ]
    for (gpu, figure), by_session in sorted(found.items()):
        rises = {session: without(by_session, session) for session in by_session}
        at = [rises[session] / margin for session, margin in by_session.items()]
        lines.append(
            f"| {figure} | {gpu} | {len(by_session)} | {min(by_session.values()):.3f} | {max(rises.values()):.3f} "
            f"| {min(at):.2f} to {max(at):.2f} | {sum(one > 1 for one in at)} |"
        )
    return lines


# ---- values that a loss misses ---------------------------------------------------------------------------------------

#: A single value that is 30 % slower should fail a criterion.
LOSS = 0.7
#: Programs of files: the link to the host caps their rates, but is not their limit.
FILES = ("data_loading", "snapshot_io", "storage_map")

Counts = dict[tuple[str, str], tuple[int, int]]
"""By program and metric: values, and those of them that miss a criterion at `LOSS`."""


def misses(metric: MetricValue, judged: JudgedMetric) -> bool:
    """Whether a value that alone is 30 % slower misses its criterion."""
    criterion = judged.criterion
    if criterion is None:
        return False
    value = metric.statistic_named(criterion.statistic)
    if metric.direction == "higher":
        return criterion.low is not None and LOSS * value < criterion.low
    return criterion.high is not None and value / LOSS > criterion.high


def counted(kept: Iterable[Record]) -> tuple[Counts, Counts]:
    """Counts of GPU values with a physical limit, and of those of key metrics."""
    limited: Counts = {}
    keys: Counts = {}
    for record in kept:
        assert record.result is not None
        program = catalogue(record.program)
        found = judgement(record, record.result).judged
        for metric in completed(record.result, program).metrics:
            if metric.kind == "host" or metric.id not in found:
                continue
            missed = misses(metric, found[metric.id])
            limit = found[metric.id].limit
            for counts, of in ((limited, bool(limit and limit.value)), (keys, metric.name in program.key)):
                if of:
                    values, held = counts.get((record.program, metric.name), (0, 0))
                    counts[record.program, metric.name] = (values + 1, held + missed)
    return limited, keys


def share(counts: Counts, files: bool = False) -> tuple[int, int]:
    """Values, and those that fail a criterion; without those of files unless requested."""
    chosen = [one for (program, _), one in counts.items() if files or program not in FILES]
    return sum(values for values, _ in chosen), sum(held for _, held in chosen)


def values_table(kept: Iterable[Record]) -> list[str]:
    """Lines of Markdown: metrics with values that miss no criterion."""
    limited, keys = counted(kept)
    lines = ["| program | metric | key | values | held |", "|---|---|---|---|---|"]
    for place in sorted({*limited, *keys}):
        values, held = limited.get(place) or keys[place]
        if held < values:
            lines.append(f"| {place[0]} | {place[1]} | {'yes' if place in keys else ''} | {values} | {held} |")
    for files, what in ((False, "without files"), (True, "with files")):
        values, held = share(limited, files)
        lines += ["", f"{held} of {values} values with a limit, {what} ({100 * held / values:.1f} %)."]
    whole = sum(held == values for values, held in keys.values())
    return [*lines, "", f"{whole} of {len(keys)} key metrics are held at every value."]


def _gpu(result: Result) -> str:
    return result.devices[0].name.removeprefix("NVIDIA ").split()[0]


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    kept = runs(names or KEPT)
    if "--left-out" in sys.argv[1:]:
        lines = left_out(margins(kept))
    else:
        lines = values_table(kept) if "--values" in sys.argv[1:] else table(kept if names else first_runs())
    sys.stdout.write("\n".join(lines) + "\n")
