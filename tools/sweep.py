"""Doctors every field of kept results in a dozen ways and reports which of them the verdict does not notice.

    python -m tools.sweep [--runs stream,hpl] [--each 2] [--seed 7] [--workers 2] > table.txt

The honest runs are those of tests/lies, adapters included, and the latest kept record of each check. All samples of a
metric's name, all readings of one kind, all points of a coordinate are one group, of which `--each` are taken at
random. A doctored document that is judged as well as the honest one is a lie that passed; a group
in which every lie passed decides nothing.
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
from functools import partial
from typing import Any

from tests.lies import honest
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
    "other type": _other_type,
    "empty": _empty,
    "another": _another,
}
#: Ways that leave a value of its kind and its order of magnitude or its length: a field that notices none of them, of
#: those that were told of it, decides nothing.
MEANINGFUL = ("x10", "x0.1", "x0.7", "x1.3", "another", "shorter", "empty", "swap")
#: Lists in which order says nothing.
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


def swapped(raw: Any, path: Path) -> Any:
    """The value and the next one of its kind beside it, exchanged."""
    parent = at(raw, path[:-1])
    mine = parent[path[-1]]
    keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    for key in keys[keys.index(path[-1]) + 1 :]:
        if type(parent[key]) is type(mine) and parent[key] != mine:
            fresh = doctored(raw, path, parent[key])
            return doctored(fresh, (*path[:-1], key), mine)
    return NOTHING


def told(raw: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Every lie about one value, with its way."""
    value = at(raw, path)
    for way, change in WAYS.items():
        given = change(value)
        if given is not NOTHING and (given is DROPPED or given != value or type(given) is not type(value)):
            yield way, doctored(raw, path, given)
    ordered = not (isinstance(path[-1], int) and path[-2] in UNORDERED)
    if ordered and (other := swapped(raw, path)) is not NOTHING:
        yield "swap", other
    if len(path) == 2 and path[0] == "metrics" and value["value"]:
        for way, factor in RATES.items():
            fresh = copy.deepcopy(value)
            remade(raw, fresh, [factor * sample for sample in value["samples"]])
            if value["statistic"] == "total":
                fresh["value"] = factor * value["value"]
            yield way, doctored(raw, path, fresh)


def runs() -> dict[str, Callable[[], honest.Honest]]:
    """Honest runs by name: those of the tests, and the latest record of each check with all that is written today."""
    found: dict[str, Callable[[], honest.Honest]] = {
        name: partial(honest.run, name) for name in (*honest.CHOSEN, *honest.foreign.RUNS)
    }
    for records in (kept.two_cards, kept.two_quick):
        for record in records():
            if record.result is not None and record.verdict in ("PASS", "RECORDED"):
                found[record.check] = partial(honest.of_record, record, record.check)
    return found


def swept(name: str, each: int, seed: int) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]], list[str]]:
    """Of one run: lies told and lies passed by program and field, and way; exceptions."""
    run = runs()[name]()
    raw = run.raw()
    rng = random.Random(f"{seed} {name}")
    of_group: dict[str, list[Path]] = defaultdict(list)
    for path, _ in leaves(raw):
        of_group[group(raw, path)].append(path)
    tried: Counter[tuple[str, str]] = Counter()
    passed: Counter[tuple[str, str]] = Counter()
    wrong = []
    for field, paths in of_group.items():
        for path in rng.sample(paths, min(each, len(paths))):
            for way, lie in told(raw, path):
                key = (f"{run.request.program}: {field}", way)
                tried[key] += 1
                try:
                    judgement = run.judged(lie)
                except Exception as error:
                    wrong.append(f"{name}: {field} {way}: {type(error).__name__}: {error}")
                    continue
                if "cannot be judged" in judgement.message():
                    wrong.append(f"{name}: {field} {way}: {judgement.message()}")
                if judgement.verdict not in ("FAIL", "INVALID"):
                    passed[key] += 1
    return tried, passed, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", default="", help="names of runs, separated by commas (default: all)")
    parser.add_argument("--each", type=int, default=1, help="members of each group of fields (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    names = given.runs.split(",") if given.runs else list(runs())
    tried: Counter[tuple[str, str]] = Counter()
    passed: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(given.workers) as pool:
        for name, one in zip(
            names, pool.map(swept, names, [given.each] * len(names), [given.seed] * len(names)), strict=True
        ):
            tried, passed, wrong = tried + one[0], passed + one[1], wrong + one[2]
            print(f"{name}: {one[0].total()} lies, {one[1].total()} passed", file=sys.stderr, flush=True)
    by_field: dict[str, dict[str, set[str]]] = defaultdict(lambda: {"tried": set(), "passed": set()})
    where: dict[str, set[str]] = defaultdict(set)
    for kind, counts in (("tried", tried), ("passed", passed)):
        for (field, way), _ in counts.items():
            program, _, name = field.partition(": ")
            by_field[field][kind].add(way)
            where[name].add(program)
    print(f"seed {given.seed}: {tried.total()} lies, {passed.total()} passed, {len(wrong)} exceptions")
    for line in wrong[:50]:
        print("EXCEPTION", line)
    shown: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for field, both in by_field.items():
        if both["passed"]:
            program, _, name = field.partition(": ")
            meaningful = both["tried"] & {*MEANINGFUL, *RATES}
            all_of_them = "ALL" if meaningful and meaningful <= both["passed"] else "some"
            shown[all_of_them, name, ", ".join(sorted(both["passed"]))].append(program)
    for (which, name, ways), programs in sorted(shown.items()):
        print(f"{which} {name}: {ways} [{' '.join(sorted(programs))}]")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
