"""Doctors every field of kept results in a dozen ways and reports which of them the verdict does not notice.

    python -m tools.sweep [--runs stream,hpl] [--each 2] [--seed 7] [--workers 2] > table.txt

The honest runs are those of tests/lies, adapters included, and the latest kept record of each check, judged with what
the job script reads of host and cards. All samples of a metric's name, all readings of one kind, all points of a
coordinate are one group, of which `--each` are taken at random. A doctored document is refused (FAIL, INVALID), judged
PASS, or RECORDED: a value without a criterion is not judged, and a slower one cannot be told from it. A field in which
every lie passes decides nothing and must be named in tests/lies/informational.py; otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import copy
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tenken.model.record import Record
from tests.lies import honest, informational
from tests.lies.lie import remade
from tests.support import kept

Path = tuple[Any, ...]
#: A doctored value; NOTHING where the kind of doctoring does not apply.
NOTHING = object()
DROPPED = object()


def _scaled(factor: float) -> Callable[[Any], Any]:
    def scale(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return NOTHING
        return round(value * factor) if isinstance(value, int) else value * factor

    return scale


def _other_type(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else 1 if isinstance(value, str) else {}


def _empty(value: Any) -> Any:
    return type(value)() if isinstance(value, (str, list, dict)) else NOTHING


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return f"{value}x" if isinstance(value, str) else NOTHING


def _negative(value: Any) -> Any:
    return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else NOTHING


def _twice(value: Any) -> Any:
    return [*value, copy.deepcopy(value[-1])] if isinstance(value, list) and value else NOTHING


def _shorter(value: Any) -> Any:
    return value[:-1] if isinstance(value, list) and value else NOTHING


def _one_more(value: Any) -> Any:
    return value + 1 if isinstance(value, int) and not isinstance(value, bool) else NOTHING


def _one_less(value: Any) -> Any:
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) else NOTHING


#: Below this a factor of 10 changes nothing that is measured.
SMALL = 1e-3


def _one(value: Any) -> Any:
    return value + 1 if isinstance(value, float) and 0 < abs(value) < SMALL else NOTHING


#: Ways of doctoring one value; a swap with its neighbour, and scaling a metric with all its statistics, come besides.
WAYS: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: None,
    "drop": lambda value: DROPPED,
    "duplicate": _twice,
    "shorter": _shorter,
    "x10": _scaled(10),
    "x0.1": _scaled(0.1),
    "x0.7": _scaled(0.7),
    "x1.3": _scaled(1.3),
    "x1000": _scaled(1000),
    "negative": _negative,
    "+1": _one_more,
    "-1": _one_less,
    "one": _one,
    "other type": _other_type,
    "empty": _empty,
    "another": _another,
}
#: Ways that leave a value of its kind and its order of magnitude or its length: a field that notices none of them, of
#: those that were told of it, decides nothing.
MEANINGFUL = (
    "beyond",
    "longer",
    "absent CPU",
    "one",
    "x10",
    "x0.1",
    "x0.7",
    "x1.3",
    "another",
    "shorter",
    "empty",
    "swap",
)
#: The same and RATES, those first that are refused most often.
MEANT = (
    "beyond", "longer", "absent CPU", "one", "x10", "x0.1", "empty", "another", "swap", "shorter", "x1.3", "x0.7",
    "all x10", "all x0.1", "all x1.3", "all x0.7",
)  # fmt: skip
#: Places of a field that are tried before it is considered irrelevant.
PLACES = 3
REFUSED = ("FAIL", "INVALID")
#: Lists whose order is irrelevant.
UNORDERED = ("metrics", "checks", "samples", "devices", "backends", "allowed_cpus", "others", "held")
#: A metric in all its statistics: worse and better.
RATES = {"all x0.7": 0.7, "all x1.3": 1.3, "all x10": 10.0, "all x0.1": 0.1}


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a document, containers first."""
    if path:
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        if path[-1:] == ("samples",) and key not in (0, len(value) // 2):
            continue
        yield from leaves(one, (*path, key))


def group(raw: Any, path: Path) -> str:
    """The field that a value stands for, without numbers."""
    words = []
    for depth, key in enumerate(path):
        parent = path[:depth]
        if parent == ("metrics",):
            words.append(raw["metrics"][key]["name"])
        elif parent == ("limits",):
            words.append(str(key).split(".")[0])
        elif isinstance(key, int):
            words.append("*")
        else:
            words.append(re.sub(r"\d+", "#", str(key)))
    return ".".join(words)


def at(raw: Any, path: Path) -> Any:
    for key in path:
        raw = raw[key]
    return raw


def doctored(raw: Any, path: Path, value: Any) -> Any:
    """The document with another value, copied along the way alone."""
    fresh: Any = dict(raw) if isinstance(raw, dict) else list(raw)
    key = path[0]
    if len(path) > 1:
        fresh[key] = doctored(raw[key], path[1:], value)
    elif value is DROPPED:
        del fresh[key]
    else:
        fresh[key] = value
    return fresh


def swapped(raw: Any, path: Path, alike: bool) -> Any:
    """The value and the next one of its type beside it, exchanged: of the same field, or of another one."""
    parent = at(raw, path[:-1])
    mine = parent[path[-1]]
    keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    for key in keys[keys.index(path[-1]) + 1 :]:
        same_field = group(raw, (*path[:-1], key)) == group(raw, path)
        if type(parent[key]) is type(mine) and parent[key] != mine and same_field == alike:
            fresh = doctored(raw, path, parent[key])
            return doctored(fresh, (*path[:-1], key), mine)
    return NOTHING


def told(raw: Any, path: Path, ways: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Every lie about one value, or those of some ways, with its way."""
    value = at(raw, path)
    for way in [way for way in ways if way in WAYS] or WAYS:
        given = WAYS[way](value)
        if given is not NOTHING and (given is DROPPED or given != value or type(given) is not type(value)):
            yield way, doctored(raw, path, given)
    if path[:2] == ("verification", "checks") and path[-1] in ("error", "tolerance"):
        tolerance = at(raw, (*path[:-1], "tolerance"))
        if not ways or "beyond" in ways:
            yield "beyond", doctored(raw, path, min(1e3 * tolerance + 1e3, sys.float_info.max))
    elif path[-2:-1] == ("thread_cpus",) and (not ways or "absent CPU" in ways):
        yield "absent CPU", doctored(raw, path, 10**6)
    elif str(path[-1]).endswith("seconds") and isinstance(value, float) and (not ways or "longer" in ways):
        yield "longer", doctored(raw, path, value + 1000)
    ordered = not (isinstance(path[-1], int) and path[-2] in UNORDERED)
    for way, alike in (("swap", True), ("exchange", False)):
        if ordered and (not ways or way in ways) and (other := swapped(raw, path, alike)) is not NOTHING:
            yield way, other
    if len(path) == 2 and path[0] == "metrics" and value["value"]:
        for way, factor in RATES.items():
            if ways and way not in ways:
                continue
            fresh = copy.deepcopy(value)
            remade(raw, fresh, [factor * sample for sample in value["samples"]])
            if value["statistic"] == "total":
                fresh["value"] = factor * value["value"]
            yield way, doctored(raw, path, fresh)


def runs() -> dict[str, Callable[[], honest.Honest]]:
    """Honest runs by name, judged with all that the job script reads: those of the tests, and the latest record of
    each check with all that is written today."""
    found: dict[str, Callable[[], honest.Honest]] = {
        name: partial(honest.live, name) for name in (*honest.CHOSEN, *honest.foreign.RUNS)
    }
    for records in (kept.two_cards, kept.two_quick):
        for record in records():
            if record.result is not None and record.verdict in ("PASS", "RECORDED"):
                found[record.check] = partial(_attended, record)
    return found


def _attended(record: Record) -> honest.Honest:
    return honest.attended(honest.of_record(record, record.check))


@dataclass
class Swept:
    """Lies by program and field, and way: all of them, those judged PASS, and those without a verdict (RECORDED,
    WAIVED): a value that no criterion holds cannot be told from a slower one. Besides, exceptions.
    """

    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    recorded: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __iadd__(self, other: Swept) -> Swept:
        self.tried.update(other.tried)
        self.passed.update(other.passed)
        self.recorded.update(other.recorded)
        self.wrong += other.wrong
        return self


def groups(raw: Any) -> dict[str, list[Path]]:
    """The places of a document by the field that they stand for."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path, _ in leaves(raw):
        found[group(raw, path)].append(path)
    return found


def verdict(run: honest.Honest, path: Path, lie: Any) -> tuple[str, str]:
    """What a lie at that place is judged: of a metric by its own value, else by the run; and the message."""
    judgement = run.judged(lie)
    if judgement.verdict in ("PASS", "RECORDED") and path[0] == "metrics" and len(path) > 1:
        metrics = lie["metrics"]
        one = judgement.judged.get(metrics[path[1]]["id"]) if path[1] < len(metrics) else None
        return (one.verdict if one is not None else judgement.verdict), judgement.message()
    return judgement.verdict, judgement.message()


def _some(paths: Sequence[Path], rng: random.Random) -> list[Path]:
    """A few places of one field: in one of them alone a lie may be none, a sample that no quantile rests on."""
    return rng.sample(paths, min(PLACES, len(paths)))


def undecided(run: honest.Honest, rng: random.Random, share: float = 1.0) -> list[str]:
    """Fields of a run in which every meaningful lie passes, of a share of those that are not on the list."""
    raw = run.raw()
    if run.verdict in REFUSED:
        raise ValueError(f"{run.name} is {run.verdict} without a lie: {run.judged(raw).message()}")
    found = []
    for name, paths in groups(raw).items():
        if informational.entry(name) or rng.random() >= share:
            continue
        verdicts = (verdict(run, path, lie)[0] for path in _some(paths, rng) for _, lie in told(raw, path, MEANT))
        first = next(verdicts, None)
        if first not in (None, *REFUSED) and all(one not in REFUSED for one in verdicts):
            found.append(name)
    return found


def swept(name: str, each: int, seed: int) -> Swept:
    """The lies of one run."""
    run = runs()[name]()
    raw = run.raw()
    rng = random.Random(f"{seed} {name}")
    found = Swept()
    for field_name, paths in groups(raw).items():
        for path in rng.sample(paths, min(each, len(paths))):
            for way, lie in told(raw, path):
                key = (f"{run.request.program}: {field_name}", way)
                found.tried[key] += 1
                try:
                    given, message = verdict(run, path, lie)
                except Exception as error:
                    found.wrong.append(f"{name}: {field_name} {way}: {type(error).__name__}: {error}")
                    continue
                if "cannot be judged" in message:
                    found.wrong.append(f"{name}: {field_name} {way}: {message}")
                if given == "PASS":
                    found.passed[key] += 1
                elif given not in REFUSED:
                    found.recorded[key] += 1
    return found


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: whole numbers from {least} on")
        return int(text)

    return number


def _names(text: str, known: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no run {', '.join(map(repr, unknown))}; allowed: {', '.join(known)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", default="", help="names of runs, separated by commas (default: all)")
    parser.add_argument("--each", type=_at_least(1), default=1, help="members of each group of fields (default 1)")
    parser.add_argument("--seed", type=_at_least(0), default=1)
    parser.add_argument("--workers", type=_at_least(1), default=1)
    given = parser.parse_args(arguments)
    try:
        names = _names(given.runs, list(runs()))
    except ValueError as error:
        parser.error(f"argument --runs: {error}")
    total = Swept()
    with ProcessPoolExecutor(given.workers) as pool:
        for name, one in zip(
            names, pool.map(swept, names, [given.each] * len(names), [given.seed] * len(names)), strict=True
        ):
            total += one
            counts = f"{one.tried.total()} lies, {one.passed.total()} PASS, {one.recorded.total()} RECORDED"
            print(f"{name}: {counts}", file=sys.stderr, flush=True)
    print(
        f"seed {given.seed}: {total.tried.total()} lies, {total.passed.total()} PASS, "
        f"{total.recorded.total()} RECORDED, {len(total.wrong)} exceptions"
    )
    for line in total.wrong[:50]:
        print("EXCEPTION", line)
    unlisted = 0
    for line, missing in sorted(_table(total)):
        unlisted += missing
        print(line)
    print(f"{unlisted} fields in which every lie passes are not in tests/lies/informational.py")
    return 1 if total.wrong or unlisted else 0


def _table(total: Swept) -> Iterator[tuple[str, bool]]:
    """A line for the fields in which the same ways pass, and whether they belong on the list and are not there."""
    ways: dict[str, set[str]] = defaultdict(set)
    for name, way in total.tried:
        ways[name].add(way)
    shown: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, all_ways in ways.items():
        by_verdict = {
            how: sorted(way for way in all_ways if counts[name, way])
            for how, counts in (("PASS", total.passed), ("RECORDED", total.recorded))
        }
        if not any(by_verdict.values()):
            continue
        meaningful = [(name, way) for way in all_ways & {*MEANINGFUL, *RATES}]
        decides = any(total.tried[key] > total.passed[key] + total.recorded[key] for key in meaningful)
        program, _, field_name = name.partition(": ")
        listed = informational.entry(field_name) is not None
        which = "some" if decides or not meaningful else "listed" if listed else "ALL"
        told_of = "; ".join(f"{how}: {', '.join(passed)}" for how, passed in by_verdict.items() if passed)
        shown[which, field_name, told_of].append(program)
    for (which, field_name, told_of), programs in shown.items():
        yield f"{which} {field_name}: {told_of} [{' '.join(sorted(programs))}]", which == "ALL"


if __name__ == "__main__":
    sys.exit(main())
