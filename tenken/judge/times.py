"""Whether the times of a result fit into the run, and into its timed part: a clock that is wrong, or a count of
repetitions, shows there by a factor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from tenken.model.catalogue import Program
from tenken.model.result import Result

#: Samples that are seconds, and what they are of one.
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: Samples of a metric may take this much longer than the run: older results have whole seconds, others milliseconds.
ROUNDED_S, SLACK_S = 1.0, 0.1
#: All device times of a GPU may take so much of its timed part; kernels of two streams overlap (kept runs: 0.9).
OF_TIMED = 1.5
#: Least share of the timed part that is measured: kept runs have 0.38 (HPL, which verifies in between) to 2.2 (Himeno,
#: by two clocks) of the interval of health readings times their number, 0.05 s, which a slow NVML makes shorter still.
OF_READINGS, READING_S, ENOUGH_READINGS = 0.1, 0.05, 5
#: Least share of the whole run that is measured: kept runs have 0.08 (a stencil with a second of warm-up) to 1.5.
#: Of one process: launchers may take minutes.
OF_RUN = 0.002
#: The clock of what a GPU itself did.
BY_DEVICE = "device"


def of(result: Result, program: Program) -> Iterator[str]:
    """Sentences on times that do not fit, by the clock of another kind: of the run, of the readings of health."""
    run, slack = _run(result)
    if run is None:
        return
    for where, total, count in _spans(result):
        if total > run + slack:
            yield f"{where}: its {count} samples take {total:.4g} s together; the run took {run:.4g} s"
    timed = [one for one in result.series if one.seconds and one.samples]
    units = {program.metrics[one.name].unit for one in result.series if not one.seconds and one.name in program.metrics}
    # of rates without times, of files, and beside a separate pass for power the times are not all stated
    short = bool(timed) and program.contract.timed
    whole = short and not result.file_system and not any("/s" in unit or unit == "W" for unit in units)
    for entry in result.health.devices:
        mine = [one for one in timed if entry.index in one.subject.gpus]
        device = sum(sum(one.samples) for one in mine if one.clock == BY_DEVICE)
        if entry.seconds and device > OF_TIMED * entry.seconds + slack:
            yield (
                f"GPU {entry.index}: its samples take {device:.4g} s by its own clock; its timed part took "
                f"{entry.seconds:.4g} s"
            )
        # what ranks share has no GPU of its own
        total = sum(sum(one.samples) for one in timed if entry.index in one.subject.gpus or not one.subject.gpus)
        least = OF_READINGS * READING_S * entry.samples
        if whole and mine and entry.samples >= ENOUGH_READINGS and total < least:
            yield (
                f"GPU {entry.index}: its samples take {total:.4g} s together; health was read {entry.samples} times "
                f"in its timed part, which took {READING_S * entry.samples:.4g} s or more"
            )
    total = sum(sum(one.samples) for one in timed)
    if short and result.placement.ranks == 1 and total < OF_RUN * run:
        yield f"all samples take {total:.4g} s together; the run took {run:.4g} s"


def _run(result: Result) -> tuple[float | None, float]:
    """Seconds of the run, and how exactly they are known."""
    try:
        first, last = (datetime.fromisoformat(text.rstrip("Z")[:26]) for text in (result.started, result.finished))
    except ValueError:
        return None, 0.0
    exact = "." in result.started and "." in result.finished
    return (last - first).total_seconds(), SLACK_S if exact else ROUNDED_S


def _spans(result: Result) -> Iterator[tuple[str, float, int]]:
    """What was measured one after another: name, seconds, samples. Points of one metric are; of results that state
    values alone, the samples of each value."""
    if not result.series:
        for metric in result.metrics:
            if metric.unit in SECONDS:
                yield f"{metric.place}: {metric.id}", sum(metric.samples) * SECONDS[metric.unit], metric.count
        return
    found: dict[str, list[float]] = defaultdict(list)
    for one in result.series:
        if one.seconds:
            found[f"{one.subject.place}: {one.name} by the clock of the {one.clock or 'host'}"] += one.samples
    for where, samples in found.items():
        yield where, sum(samples), len(samples)
