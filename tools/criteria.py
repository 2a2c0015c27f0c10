"""How many values of kept sessions have a criterion, and why the others have none.

    python -m tools.criteria SYSTEM ARCHIVE [MORE EVIDENCE]... > table.md
    python -m tools.criteria --reasons SYSTEM ARCHIVE [MORE EVIDENCE]...
    python -m tools.criteria --scatter SYSTEM ARCHIVE [MORE EVIDENCE]...

A floor, a reference or a model counts if the kept value meets it and the same value made 30 % worse misses it; so does
a comparison with another value of the same run (`relations.of`). A ceiling never counts. The first lines give the share
over all of ARCHIVE's values, and per class. The table lists each metric with values without a criterion, and why no
reference was made from them (`tools.references`, over everything that is given).

--reasons: each key metric of each program with its criterion, or the reason why it has none and its scatter.

--scatter: for each metric that has no reference because it depends on the host or the storage, how far its values lie
apart between sessions, as standard deviations of logarithms. They are given as they are, and after each run was scaled
as a whole to the others (no model based on the run's own measurements can do better). A loss of 30 % is found only if
this is below 0.07: the bound for one false alarm in 10,000 is 3.7 standard deviations away, and 30 % are 0.36.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenken.archive import packed, records
from tenken.judge import relations
from tenken.judge.bounds import floor_of, hold
from tenken.machines import facts, loader
from tenken.machines.model import System
from tenken.model.catalogue import PROGRAMS, Program, load_catalogue
from tenken.model.engine import Run
from tenken.model.judgement import FLOOR, Criterion, JudgedMetric
from tenken.model.machine import Machine
from tenken.model.record import Record
from tenken.model.request import Request
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import FAIL, PASS, RECORDED, worst
from tools import references

#: A criterion must fail a value that is worse by this factor; otherwise it is not counted.
WORSE = 0.7


@dataclass(frozen=True)
class Held:
    """A kept value, judged on the described machine, and the same value made 30 % worse."""

    record: Record
    metric: MetricValue
    judged: JudgedMetric
    worse: str

    @property
    def shown(self) -> str:
        return f"{self.record.program}.{self.metric.name} of {self.metric.kind}"

    @property
    def of(self) -> str:
        """The class of the value: `DESCRIBED`, or why no reference is made from it."""
        return references.refusal(self.record.program, self.metric, self.gpus) or DESCRIBED

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
    """Every value of the records of a system, compared with its file."""
    machines: dict[tuple[str, str], Machine] = {}
    catalogue, found = load_catalogue(), []
    for record in kept:
        result, place = record.result, (record.partition, record.environ)
        if result is None:
            continue
        if place not in machines:
            machines[place] = facts.facts(system, system.partitions[place[0]], system.environments[place[1]])
        run = Run(result, catalogue[result.program], again=False)
        floors = relations.of(run, asked(record, result), machines[place])[1]
        for metric in result.metrics:
            declared = catalogue[result.program].metric_named(metric.name)
            assert declared is not None, metric.id
            known = machines[place].criterion(result, metric)
            floor = floor_of(run, metric, declared, machines[place])
            both = [
                hold(result, one, declared, machines[place].limits, known, 1.0, floor)[0]
                for one in (metric, slower(metric))
            ]
            if both[0].criterion is None and metric.id in floors:
                found.append(in_run(record, metric, both[0], floors[metric.id], machines[place]))
            else:
                found.append(Held(record, metric, both[0], both[1].verdict))
    return found


def asked(record: Record, result: Result) -> Request:
    return record.request or Request(None, result.program, mode=record.mode)


def in_run(record: Record, metric: MetricValue, judged: JudgedMetric, floor: Criterion, machine: Machine) -> Held:
    """A value that is compared within its run: the judgement of the run, and of the same run with only this value 30 %
    worse."""

    def verdict(one: MetricValue) -> str:
        assert record.result is not None
        with_it = tuple(one if m.id == one.id else m for m in record.result.metrics)
        changed = replace(record.result, metrics=with_it)
        program = load_catalogue()[record.program]
        found, _ = relations.of(Run(changed, program, again=False), asked(record, changed), machine)
        of_it = [f.verdict for f in found if f.metric == one.id]
        return worst(of_it) if of_it else PASS if floor.low is None or one.value >= floor.low else RECORDED

    return Held(record, metric, replace(judged, criterion=floor, verdict=verdict(metric)), verdict(slower(metric)))


def table(found: Sequence[Held], refused: Counter[str]) -> list[str]:
    """Lines of Markdown: the share, and each metric with values that have no criterion."""
    have, values, without = sum(one.counts for one in found), Counter[str](), Counter[str]()
    for one in found:
        values[one.shown] += 1
        without[one.shown] += not one.counts
    why = _refusals(refused)
    lines = [
        f"{have} of {len(found)} values ({100 * have / len(found):.1f} %) have a criterion that a loss of 30 % misses.",
        "",
        "| values | all | with a criterion | share | without | why |",
        "|---|---|---|---|---|---|",
        *(
            f"| {what} | {len(of)} | {sum(one.counts for one in of)} | "
            f"{100 * sum(one.counts for one in of) / len(of):.1f} % | {sum(not one.counts for one in of)} | "
            f"{_rest(what, of, why)} |"
            for what, of in classes(found)
        ),
        "",
        *_keys(found),
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


def _rest(what: str, values: Sequence[Held], why: Mapping[str, Counter[str]]) -> str:
    """Why values of a class have no criterion."""
    if what != DESCRIBED:
        return CLASS_REASONS[what]
    reasons: Counter[str] = Counter()
    for one in values:
        if not one.counts:
            own = (text for text, _ in why[one.shown].most_common() if text not in CLASS_REASONS)
            reasons[next(own, FLOOR_TOO_LOW)] += 1
    return "; ".join(f"{text}: {count}" for text, count in reasons.most_common())


def _refusals(refused: Counter[str]) -> dict[str, Counter[str]]:
    """Reasons why values are not references, by metric."""
    why: dict[str, Counter[str]] = defaultdict(Counter)
    for text, count in refused.items():
        shown, _, reason = text.partition(": ")
        why[shown][reason] += count
    return why


#: Why values of a class have no criterion, where `references.refusal` gives the class.
CLASS_REASONS = {
    "of the host": "no data sheet of the host; three hosts that agreed did not bound a fourth",
    "of the host's CPU": "the host's CPU decides",
    "of the storage": "a borrowed disk that others share",
    "accuracy": "verified against its own threshold",
    "a share of one total": "a smaller share of one phase is a larger one of another",
    "a count": "neither many nor few are better",
    "a difference of two measured figures": "can be 0; both figures are listed",
    "a part of one solution, whose rate is measured": "phases overlap",
}


@dataclass(frozen=True)
class Key:
    """A key metric of one kind of subject and class: values with a criterion, all values, and criterion or reason."""

    shown: str
    of: str
    have: int
    values: int
    why: str

    @property
    def label(self) -> str:
        name, _, kind = self.shown.partition(" of ")
        of = f" ({self.of})" if self.of not in ("", DESCRIBED) and kind != "host" else ""
        return f"`{name}`" + (f" of {kind}" if kind else "") + of


def programs() -> list[Program]:
    """The programs of this suite; the catalogue also has those that the records of a process declared."""
    return [one for name, one in load_catalogue().items() if (PROGRAMS / name / "metrics.yaml").is_file()]


def reasons(found: Sequence[Held], refused: Counter[str], known: Collection[tuple[str, str]] = ()) -> list[Key]:
    """Each key metric of this suite; `known`: program and metric of the references, including those not measured here.

    Raises ValueError for a metric without a criterion and without a reason.
    """
    why, keys = _refusals(refused), []
    for program in programs():
        for name in program.key:
            groups: dict[tuple[str, str], list[Held]] = defaultdict(list)
            for one in found:
                if (one.record.program, one.metric.name) == (program.name, name):
                    groups[one.shown, one.of].append(one)
            keys += [_key(shown, of, values, why[shown]) for (shown, of), values in sorted(groups.items())]
            if not groups:
                text = "references from other sessions" if (program.name, name) in known else "no reference yet"
                keys.append(Key(f"{program.name}.{name}", "", 0, 0, f"not measured in these sessions; {text}"))
    return keys


def _key(shown: str, of: str, values: Sequence[Held], why: Counter[str]) -> Key:
    kinds = Counter(_kind(one.judged.criterion) for one in values if one.counts and one.judged.criterion)
    if kinds:
        text = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
        return Key(shown, of, kinds.total(), len(values), text)
    texts = [CLASS_REASONS.get(of, of)] if of != DESCRIBED else [reason for reason, _ in why.most_common()]
    texts += [FLOOR_TOO_LOW] * any(one.judged.criterion is not None for one in values)
    if not texts:
        raise ValueError(f"{shown} is a key metric without a criterion and without a reason")
    return Key(shown, of, 0, len(values), "; ".join(dict.fromkeys(texts)))


def _kind(criterion: Criterion) -> str:
    """Reference, floor of a limit, or comparison within the run."""
    return (
        "comparison within the run"
        if criterion.kind == FLOOR and " of the limit" not in criterion.source
        else criterion.kind
    )


def scatter(runs: Iterable[references.Run], keys: bool = False) -> list[tuple[str, int, int, float, float]]:
    """(metric, values, runs, scatter between runs, and after each run is scaled) for values of host and storage, or for
    all key metrics.
    """
    catalogue, logs = load_catalogue(), defaultdict(list)
    for number, run in enumerate(runs):
        program = catalogue[run.result.program]
        for metric in run.result.metrics:
            why = references.refusal(program.name, metric, bool(run.result.devices))
            wanted = metric.name in program.key if keys else why.startswith("of the")
            if wanted and metric.value > 0:
                point = str(sorted(references.parameters_of(program, run.result, metric).items(), key=str))
                shown = f"{program.name}.{metric.name} of {metric.kind}"
                logs[shown].append(((number, metric.subject.id), point, math.log(metric.value)))
    found = []
    for shown, values in logs.items():
        times = Counter(point for _, point, _ in values)
        several = [one for one in values if times[one[1]] > 1]
        whole = {run for run, count in Counter(run for run, _, _ in several).items() if count > 1}
        plain, scaled = _left(several, scale=False), _left([one for one in several if one[0] in whole], scale=True)
        if plain is not None and scaled is not None:
            found.append((shown, len(several), len({run for run, _, _ in several}), plain, scaled))
    return sorted(found, key=lambda one: -one[1])


def _left(values: Sequence[tuple[Any, str, float]], scale: bool) -> float | None:
    """The standard deviation that is explained neither by the point nor (if `scale`) by the run; None: too few
    values."""
    runs, points = {run for run, _, _ in values}, {point for _, point, _ in values}
    dof = len(values) - len(points) - (len(runs) - 1 if scale else 0)
    if dof < 2:
        return None
    of_run, of_point = dict.fromkeys(runs, 0.0), dict.fromkeys(points, 0.0)
    for _ in range(50):
        for at, key in ((of_point, 1), (of_run, 0)) if scale else ((of_point, 1),):
            left: dict[Any, list[float]] = defaultdict(list)
            for one in values:
                left[one[key]].append(one[2] - (of_run[one[0]] if key else of_point[one[1]]))
            at.update({name: sum(logs) / len(logs) for name, logs in left.items()})
    return math.sqrt(sum((value - of_run[run] - of_point[point]) ** 2 for run, point, value in values) / dof)


#: Values that depend only on the system file's GPU; all others have a reason why they get no reference.
DESCRIBED = "of the GPUs, their memory and links"


def classes(found: Sequence[Held]) -> list[tuple[str, list[Held]]]:
    """All values by class, the described machine first, then the largest class."""
    by: dict[str, list[Held]] = defaultdict(list)
    for one in found:
        by[one.of].append(one)
    return sorted(by.items(), key=lambda pair: (pair[0] != DESCRIBED, -len(pair[1]), pair[0]))


def _keys(found: Sequence[Held]) -> list[str]:
    """How many key metrics have a criterion somewhere."""
    catalogue = load_catalogue()
    counts: dict[tuple[str, str], int] = Counter()
    for one in found:
        if one.metric.name in catalogue[one.record.program].key:
            counts[one.of, one.shown] += one.counts
    return [f"{sum(map(bool, counts.values()))} of {len(counts)} key metrics have such a criterion."]


def key_lines(keys: Sequence[Key], far: Mapping[str, tuple[str, int, int, float, float]]) -> list[str]:
    """Lines of Markdown: each key metric and, if it has no criterion, its scatter between runs with the same
    parameters."""
    lines = ["| key metric | with | of | criterion, or why there is none | scatter (runs) |", "|---|---|---|---|---|"]
    for one in keys:
        known = far.get(one.shown)
        text = (
            "" if one.have or not one.values else "no second run" if known is None else f"{known[3]:.2f} ({known[2]})"
        )
        lines.append(f"| {one.label} | {one.have} | {one.values} | {one.why} | {text} |")
    return lines


#: Values that have a criterion and still do not count.
FLOOR_TOO_LOW = "its floor is more than 30 % below what an H200 reaches"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--scatter"] and len(arguments) > 2:
        system = loader.load(arguments[1]).expand({}, strict=False)
        print("| metric | values | runs | between runs | after scaling each run |\n|---|---|---|---|---|")
        for shown, values, runs, plain, scaled in scatter(references.runs(system, arguments[2:])):
            print(f"| `{shown.replace(' of ', '` of ')} | {values} | {runs} | {plain:.2f} | {scaled:.2f} |")
        return 0
    reasons_asked, arguments = arguments[:1] == ["--reasons"], [one for one in arguments if one != "--reasons"]
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    system = loader.load(arguments[0]).expand({}, strict=False)
    found = held(system, records.records(packed.folder_of(Path(arguments[1])), system=system.name))
    refused = references.made(system, arguments[1:])[1]
    if reasons_asked:
        far = {one[0]: one for one in scatter(references.runs(system, arguments[1:]), keys=True)}
        known = {(one.program, one.metric) for one in system.references}
        print("\n".join(key_lines(reasons(found, refused, known), far)))
    else:
        print("\n".join(table(found, refused)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
