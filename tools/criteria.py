"""How many values of kept sessions have a criterion, and which have none and why.

    python -m tools.criteria SYSTEM ARCHIVE [MORE EVIDENCE]... > table.md

A floor, a reference or a model counts where the kept value meets it and the same value made 30 % worse misses it; so
does a comparison with another value of the same run (`cross_checks.floors`). A ceiling never counts. The first lines
have the share of all of ARCHIVE's values, and of what they are of; the table has each metric that has values without,
with the reason why no reference was made of them (`tools.references`, of all that is given).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tenken.archive import packed, records
from tenken.judge import cross_checks
from tenken.judge.criteria import hold
from tenken.machines import facts, loader
from tenken.machines.model import System
from tenken.model.catalogue import load_catalogue
from tenken.model.judgement import Criterion, JudgedMetric
from tenken.model.machine import Machine
from tenken.model.record import Record
from tenken.model.request import Request
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, PASS, RECORDED, worst
from tools import references

#: A criterion that a value so much worse does not miss is none.
WORSE = 0.7


@dataclass(frozen=True)
class Held:
    """A kept value, judged on the described machine, and the same made 30 % worse."""

    record: Record
    metric: MetricValue
    judged: JudgedMetric
    worse: str

    @property
    def shown(self) -> str:
        return f"{self.record.program}.{self.metric.name} of {self.metric.kind}"

    @property
    def gpus(self) -> bool:
        return self.record.result is not None and bool(self.record.result.devices)

    @property
    def counts(self) -> bool:
        return self.judged.criterion is not None and (self.judged.verdict, self.worse) == (PASS, FAIL)


def slower(metric: MetricValue) -> MetricValue:
    """The value, its samples and every statistic 30 % worse."""
    factor = WORSE if metric.direction == "higher" else 1 / WORSE
    changed = {name: factor * getattr(metric, name) for name in ("value", "best", "median", "p5", "p95")}
    return replace(metric, samples=tuple(factor * one for one in metric.samples), **changed)


def held(system: System, kept: Iterable[Record]) -> list[Held]:
    """Every value of the records of a system, held against what its file knows."""
    machines: dict[tuple[str, str], Machine] = {}
    catalogue, found = load_catalogue(), []
    for record in kept:
        result, place = record.result, (record.partition, record.environ)
        if result is None:
            continue
        if place not in machines:
            machines[place] = facts.facts(system, system.partitions[place[0]], system.environments[place[1]])
        floors = cross_checks.floors(result, asked(record, result))
        for metric in result.metrics:
            declared = catalogue[result.program].metric_named(metric.name)
            assert declared is not None, metric.id
            known = machines[place].criterion(result, metric)
            both = [hold(result, one, declared, machines[place].limits, known)[0] for one in (metric, slower(metric))]
            if both[0].criterion is None and metric.id in floors:
                found.append(in_run(record, metric, both[0], floors[metric.id], machines[place]))
            else:
                found.append(Held(record, metric, both[0], both[1].verdict))
    return found


def asked(record: Record, result: Result) -> Request:
    return record.request or Request(None, result.program, mode=record.mode)


def in_run(record: Record, metric: MetricValue, judged: JudgedMetric, floor: Criterion, machine: Machine) -> Held:
    """A value that others of its run hold, and the same run with this value alone 30 % worse, judged as a run is."""

    def verdict(one: MetricValue) -> str:
        assert record.result is not None
        with_it = tuple(one if m.id == one.id else m for m in record.result.metrics)
        changed = replace(record.result, metrics=with_it)
        of_it = [f.verdict for f in cross_checks.of(changed, asked(record, changed), machine) if f.metric == one.id]
        return worst(of_it) if of_it else PASS if floor.low is None or one.value >= floor.low else RECORDED

    return Held(record, metric, replace(judged, criterion=floor, verdict=verdict(metric)), verdict(slower(metric)))


def table(found: Sequence[Held], refused: Counter[str]) -> list[str]:
    """Lines of Markdown: the share, and each metric with values that have no criterion."""
    have, values, without = sum(one.counts for one in found), Counter[str](), Counter[str]()
    for one in found:
        values[one.shown] += 1
        without[one.shown] += not one.counts
    why: dict[str, Counter[str]] = defaultdict(Counter)
    for text, count in refused.items():
        shown, _, reason = text.partition(": ")
        why[shown][reason] += count
    lines = [
        f"{have} of {len(found)} values ({100 * have / len(found):.1f} %) have a criterion that a loss of 30 % misses.",
        "",
        "| values | with | of | share |",
        "|---|---|---|---|",
        *(
            f"| {what} | {sum(one.counts for one in of)} | {len(of)} | "
            f"{100 * sum(one.counts for one in of) / len(of):.1f} % |"
            for what, of in classes(found)
        ),
        "",
        "| metric | without | of | why |",
        "|---|---|---|---|",
    ]
    for shown, count in sorted(without.items(), key=lambda pair: (-pair[1], pair[0])):
        if count:
            reasons = "; ".join(reason for reason, _ in why[shown].most_common(2))
            lines.append(
                f"| `{shown.replace(' of ', '` of ')} | {count} | {values[shown]} | {reasons or FLOOR_TOO_LOW} |"
            )
    return lines


#: What the system file of a GPU describes; all else has the reason for which no reference is made of it.
DESCRIBED = "of the GPUs, their memory and links"


def classes(found: Sequence[Held]) -> list[tuple[str, list[Held]]]:
    """All values by what they are of, the described machine first, then the largest class."""
    by: dict[str, list[Held]] = defaultdict(list)
    for one in found:
        by[references.refusal(one.record.program, one.metric, one.gpus) or DESCRIBED].append(one)
    return sorted(by.items(), key=lambda pair: (pair[0] != DESCRIBED, -len(pair[1]), pair[0]))


#: What has a criterion and still does not count.
FLOOR_TOO_LOW = "its floor is more than 30 % below what an H200 reaches"


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    system = loader.load(arguments[0]).expand({}, strict=False)
    found = held(system, records.records(packed.folder_of(Path(arguments[1])), system=system.name))
    print("\n".join(table(found, references.made(system, arguments[1:])[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
