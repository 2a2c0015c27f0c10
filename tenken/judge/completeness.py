"""Whether everything requested is present, and nothing else: arguments, points of sweeps, verifications, choices.

metrics.yaml declares what a program reports (tenken/model/contract.py), and the request states what this run must
contain. The program's own statements decide nothing here. All functions are pure and return sentences.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from tenken.judge.bounds import say
from tenken.model.catalogue import Program
from tenken.model.contract import JOINED, Contract, Counted, Points, Verified, With, count, required
from tenken.model.judgement import Finding
from tenken.model.machine import Machine
from tenken.model.quantities import plain, same
from tenken.model.request import Request
from tenken.model.result import MetricValue, Result
from tenken.model.subject import Subject
from tenken.model.verification import Check

#: A key of `where` that names kinds of subject instead of a parameter: some metric must be reported for one of them.
SUBJECT = "subject"
#: Maximum number of missing points in one message.
NAMED = 4


# ---- arguments -----------------------------------------------------------------------------------------------


def asked(arguments: tuple[str, ...], contract: Contract) -> dict[str, Any]:
    """Parameters by their current names from a command line: True for a flag."""
    found: dict[str, Any] = {}
    name = ""
    for word in arguments:
        if word.startswith("--") and len(word) > 2:
            name = word[2:].replace("-", "_")
            name = contract.was_options.get(name, name)
            found[name] = True
        elif name:
            found[name] = shlex.split(word)[0] if word[:1] in "'\"" else word
            name = ""
    return found


def stated(result: Result, contract: Contract) -> dict[str, Any]:
    """The parameters of a result; those with a former name also appear under the current one."""
    was = contract.was_options
    return {**{was[name]: value for name, value in result.parameters.items() if name in was}, **result.parameters}


def parameters(result: Result, request: Request) -> Iterator[str]:
    """Parameters that are not as requested."""
    for key, value in request.parameters.items():
        if not _same(result.parameters.get(key), value):
            yield f"parameter {key} is {result.parameters.get(key)!r}; requested: {value!r}"


def _same(said: object, asked: object) -> bool:
    """Equal, and of the same type: True is not 1."""
    return said == asked and isinstance(said, bool) == isinstance(asked, bool)


def arguments(result: Result, program: Program, request: Request) -> Iterator[str]:
    """Options that are missing from the result or differ from the request, and others that differ from their
    default."""
    contract = program.contract
    wanted, said = asked(request.arguments, contract), stated(result, contract)
    for name, value in wanted.items():
        if name not in said:
            yield f"parameter {name} is missing; requested: {value!r}"
        elif not same(said[name], value):
            yield f"parameter {name} is {said[name]!r}; requested: {value!r}"
    if request.token is None or request.foreign or result.by_others:
        return
    for name, default in {**contract.defaults, **contract.defaults_if_stated}.items():
        if name in wanted or name in request.parameters:
            continue
        if name in said and not same(said[name], default):
            yield f"parameter {name} is {said[name]!r}; it was not requested, and its default is {default!r}"
        elif name not in said and name in contract.defaults:
            yield f"parameter {name} is missing; its default is {default!r}"


# ---- points --------------------------------------------------------------------------------------------------

At = tuple[Any, ...]


def points(result: Result, program: Program, request: Request) -> Iterator[str]:
    """Points that are missing, were not requested, or exist for only some of the subjects or metrics."""
    yield from _subjects(result, program, request)
    contract = program.contract
    if not contract.verifications:
        return
    entries = [_of_run(result, contract, entry) for entry in contract.points]
    entry_of = {name: entry for entry in entries for name in entry.metrics}
    have: dict[tuple[str, str], dict[str, set[At]]] = {}
    for metric in result.metrics:
        if metric.name not in program.metrics:
            continue
        entry = entry_of.get(metric.name, Points((metric.name,), {}))
        keys = tuple(entry.at)
        said = _today(metric, contract)
        if set(said) != set(keys) and not (entry.ragged and set(said) <= set(keys)):
            wanted = ", ".join(keys) or "none"
            yield f"{metric.id} has the coordinates {', '.join(metric.at) or 'none'}; expected {wanted}"
            continue
        at = tuple(plain(said.get(key)) for key in keys)
        have.setdefault((metric.name, metric.kind), {}).setdefault(metric.subject.id, set()).add(at)
    for (name, kind), by_subject in have.items():
        entry = entry_of.get(name, Points((name,), {}))
        yield from _of_subjects(result, request, name, kind, by_subject, entry)
        for subject, found in by_subject.items():
            yield from _on_grid(result, contract, f"{name} of {subject}", found, entry)
    for entry in entries:
        yield from _alike(entry, have)


def _of_run(result: Result, contract: Contract, entry: Points) -> Points:
    """Leaves out coordinates that have only one value in this run."""
    single = {
        key for key, values in entry.at.items()
        if isinstance(values, Counted) and count(stated(result, contract), values.parameter) in (None, 1)
    }  # fmt: skip
    return replace(entry, at={k: v for k, v in entry.at.items() if k not in single}) if single else entry


def _today(metric: MetricValue, contract: Contract) -> dict[str, Any]:
    """Coordinates under their current names."""
    return {contract.was_options.get(key, key): value for key, value in metric.at.items()}


def _subjects(result: Result, program: Program, request: Request) -> Iterator[str]:
    """Metrics from a different number of ranks than ran, or from a host with another index."""
    # a rank, or a GPU of a process that drives several, or a part of the host
    allowed = {request.ranks, request.gpus, len(result.devices) or None}
    allowed |= {result.parameters.get(name) for name in program.contract.counts if result.parameters.get(name)}
    for metric in result.metrics:
        if metric.kind == "ranks" and request.ranks is not None and metric.subject.first not in allowed:
            counts = ", ".join(str(n) for n in sorted(n for n in allowed if isinstance(n, int)))
            yield f"{metric.id} is of {metric.subject.first} ranks; requested: {counts}"
        if metric.kind == "host" and metric.subject.first != 0:
            yield f"{metric.id} is of host {metric.subject.first}; allowed: 0"


def _of_subjects(
    result: Result, request: Request, name: str, kind: str, by_subject: Mapping[str, set[At]], entry: Points
) -> Iterator[str]:
    if entry.subjects != "each" or kind not in request.subjects:
        return
    indices = sorted(d.index for d in result.devices)
    expected: list[str] = []
    if kind == "gpu":
        expected = [f"gpu{i}" for i in indices]
    elif kind == "pair":
        apart = result.without_access()
        expected = [f"gpu{i}-gpu{j}" for i in indices for j in indices if i != j and (i, j) not in apart]
    for subject in expected:
        if subject not in by_subject:
            yield f"metric {name} of {subject} is missing"
    yield from _uneven({f"{name} of {subject}": found for subject, found in by_subject.items()}, tuple(entry.at))


def _first(texts: Iterable[str], by: str = ", ") -> str:
    """The first texts, and the number of the others."""
    known = [*texts]
    return by.join(known[:NAMED]) + (f" and {len(known) - NAMED} more" if len(known) > NAMED else "")


def _uneven(what: Mapping[str, set[At]], keys: tuple[str, ...]) -> Iterator[str]:
    """For metrics that must be reported at the same points: what each of them lacks."""
    union = set().union(*what.values())
    for name, found in what.items():
        if union - found:
            yield f"metric {name} is missing at {_places(union - found, keys)}"


def _places(missing: set[At], keys: tuple[str, ...]) -> str:
    texts = (", ".join(f"{k}={_text(v)}" for k, v in zip(keys, at, strict=True)) for at in missing)
    return _first(sorted(texts), "; ")


def _text(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _on_grid(result: Result, contract: Contract, what: str, found: set[At], entry: Points) -> Iterator[str]:
    keys = tuple(entry.at)
    said_of = stated(result, contract)
    expected = {key: required(values, said_of) for key, values in entry.at.items()}
    known = [i for i, key in enumerate(keys) if expected[key] is not None]
    for i in known:
        allowed = expected[keys[i]] or set()
        said = {at[i] for at in found} - ({None} if entry.ragged else set())
        for name, which in (("missing", allowed - said), ("not requested", said - allowed)):
            if which:
                shown = _first(sorted(map(_text, which)))
                yield f"metric {what}: {keys[i]} {shown} {'is' if len(which) == 1 else 'are'} {name}"
    if entry.ragged or not keys:
        return
    for i, values in enumerate(entry.at.values()):
        lost = {plain(v) for v in values.values} - {at[i] for at in found} if isinstance(values, With) else set()
        if lost:
            yield f"metric {what}: {keys[i]} {', '.join(sorted(map(_text, lost)))} is missing"
    # each combination that the program chooses, at every required point
    own = {tuple(None if i in known else at[i] for i in range(len(keys))) for at in found}
    fixed = product(*({at[i] for at in found} if i in known else (None,) for i in range(len(keys))))
    whole = {
        tuple(b if a is None else a for a, b in zip(values, rest, strict=True)) for values, rest in product(fixed, own)
    }
    if whole - found:
        yield f"metric {what} is missing at {_places(whole - found, keys)}"


def _alike(entry: Points, have: Mapping[tuple[str, str], Mapping[str, set[At]]]) -> Iterator[str]:
    """Metrics of one entry must have the same points: each metric that is reported or, with `together`, all of them if
    one is."""
    by_place: dict[tuple[str, str], dict[str, set[At]]] = {}
    for (name, kind), by_subject in have.items():
        if name in entry.metrics:
            for subject, found in by_subject.items():
                by_place.setdefault((kind, subject), {})[name] = found
    for (_, subject), by_name in by_place.items():
        if entry.together:
            yield from (f"metric {name} of {subject} is missing" for name in entry.metrics if name not in by_name)
        yield from _uneven({f"{name} of {subject}": found for name, found in by_name.items()}, tuple(entry.at))


# ---- verifications -------------------------------------------------------------------------------------------

#: Placeholders for coordinates that every metric has.
_OF_METRIC = ("metric", "subject", "pair")


def _of_metrics(name: str) -> bool:
    return name in _OF_METRIC or JOINED in name


def verifications(result: Result, program: Program) -> Iterator[str]:
    """Verifications that are not declared, are missing, or have another tolerance than the declared one."""
    declared = program.contract.verifications
    if not declared:
        return
    matched: dict[int, list[tuple[Check, Mapping[str, Any]]]] = {i: [] for i in range(len(declared))}
    for check in result.verification.checks:
        found = program.contract.find(check)
        if found is None:
            known = "; ".join(one.what for one in declared[:6])
            yield f"verification {check.what[:120]!r} is not declared by {program.name}; allowed: {known}"
            continue
        one = declared[found[0]]
        matched[found[0]].append((check, found[1]))
        if check.tolerance > one.tolerance * (1 + 1e-9):
            yield (f"verification of {check.what}: its tolerance is {check.tolerance:g}; declared: {one.tolerance:g}")
        elif check.error is not None and check.error > one.tolerance * (1 + 1e-9):
            yield f"verification of {check.what} failed: error {check.error:g}, declared tolerance {one.tolerance:g}"
    for i, one in enumerate(declared):
        came = matched[i]
        measured = [m for m in result.metrics if m.name in one.of]
        if not where_holds(result, program.contract, one.where):
            if came:
                where = ", ".join(f"{k} {' or '.join(map(str, v))}" for k, v in one.where.items())
                yield f"verification {came[0][0].what!r} requires {where}"
            continue
        if not came and not one.optional and (measured or not one.of):
            yield f"verification {one.what!r} is missing"
        elif came or measured:
            yield from _each_point(program.contract, one, came, measured)
            yield from _each_count(result, program.contract, one, came)


def where_holds(result: Result, contract: Contract, where: Mapping[str, tuple[Any, ...]]) -> bool:
    """Whether the parameters of a run have the values of `where`."""
    said, kinds = stated(result, contract), {metric.kind for metric in result.metrics}
    return all(
        kinds & set(allowed) if name == SUBJECT else name in said and any(same(said[name], one) for one in allowed)
        for name, allowed in where.items()
    )


def by_compiler(result: Result, program: Program) -> bool:
    """Whether the compiler made the kernels of this run (`Contract.by_compiler`)."""
    where = program.contract.by_compiler
    return bool(where) and where_holds(result, program.contract, where)


def must_come(result: Result, program: Program) -> Iterator[str]:
    """Optional metrics that the parameters of this run require."""
    for name, metric in program.metrics.items():
        said = stated(result, program.contract)
        # a program of this suite that does not state the parameter does not report these metrics
        if metric.required_if and all(
            _brings(said[parameter], values) if parameter in said else not result.by_others
            for parameter, values in metric.required_if.items()
        ):
            yield name


def _brings(said: Any, values: tuple[Any, ...]) -> bool:
    given = [plain(word) for word in said.split(",")] if isinstance(said, str) else [plain(said)]
    words = [value if isinstance(value, tuple) else (value,) for value in values]
    return "all" in given or any(all(plain(word) in given for word in those) for those in words)


def _each_point(
    contract: Contract, one: Verified, came: list[tuple[Check, Mapping[str, Any]]], measured: list[MetricValue]
) -> Iterator[str]:
    """Each point of the metrics needs a verification, and each verification a point."""
    if not one.of:
        return
    names = [name for name in one.pattern.groupindex]
    answered: set[str] = set()
    missing: list[str] = []
    by_keys: dict[tuple[str, ...], dict[At, list[str]]] = {}
    wanted: dict[tuple[str, tuple[str, ...], At], list[str]] = {}
    for metric in measured:
        said = _today(metric, contract)
        keys = tuple(name for name in names if _of_metrics(name) or name in said)
        if keys not in by_keys:
            index: dict[At, list[str]] = {}
            for check, groups in came:
                said_of = (str(groups[n]).strip().lower() if _of_metrics(n) else plain(groups[n]) for n in keys)
                index.setdefault(tuple(said_of), []).append(check.what)
            by_keys[keys] = index
        key = tuple(_of_metric(name, metric, said) for name in keys)
        hits = by_keys[keys].get(key, [])
        answered.update(hits)
        for_it = wanted.setdefault((metric.name, keys, key), [])
        for_it.append(metric.id)
        if len(hits) < max(1, one.count * len(for_it)):
            missing.append(metric.id)
    if missing:
        yield f"verification {one.what!r} is missing for {_first(missing)}"
    stray = [check.what for check, _ in came if check.what not in answered] if measured and not one.others else []
    if stray:
        yield f"verified, but without any metric: {_first(stray, '; ')}"


def _of_metric(name: str, metric: MetricValue, said: Mapping[str, Any]) -> Any:
    if name == "metric":
        return metric.name.lower()
    if JOINED in name:
        return "x".join(_text(plain(metric.at[side])) for side in name.split(JOINED) if side in metric.at)
    if name == "pair":
        return f"gpu {metric.subject.first} -> gpu {metric.subject.second}"
    return metric.subject.id if name == "subject" else plain(said[name])


def _each_count(
    result: Result, contract: Contract, one: Verified, came: list[tuple[Check, Mapping[str, Any]]]
) -> Iterator[str]:
    """Every repetition and trial, from 1 to the parameter's value."""
    for name, counter in one.each.items():
        number_of = count(stated(result, contract), counter)
        if number_of is None:
            continue
        groups: dict[tuple[tuple[str, Any], ...], set[float]] = {}
        for _, said in came:
            rest = tuple(sorted((k, v) for k, v in said.items() if k != name))
            number = plain(said[name])
            groups.setdefault(rest, set()).add(number if isinstance(number, float) else -1.0)
        expected = {float(i) for i in range(1, number_of + 1)}
        for rest, numbers in groups.items():
            if numbers != expected:
                lost = ", ".join(_text(n) for n in sorted(expected - numbers)[:NAMED]) or "none"
                place = ", ".join(f"{k} {v}" for k, v in rest)
                yield f"verification {one.what!r} ({place}): {name} {lost} of {number_of} are missing"


# ---- values ----------------------------------------------------------------------------------------------------


def of(result: Result, program: Program, request: Request) -> list[str]:
    """Messages on missing metrics, missing verifications and values that are not finite."""
    wrong = [*_verification(result)]
    for metric in result.metrics:
        wrong += _metric_structure(metric, program)
    wrong += _missing(result, program, request)
    return [*wrong, *points(result, program, request), *verifications(result, program)]


def _verification(result: Result) -> list[str]:
    checks = result.verification.checks
    if not checks:
        return ["the program verified nothing"]
    wrong = [c for c in checks if not c.passed or c.error is None or not 0 <= c.error <= c.tolerance]
    if not wrong and not result.verification.passed:
        return ["verification is marked as failed"]
    return [
        f"verification of {c.what} failed: error {c.error}, tolerance {c.tolerance:g}"
        + (f" ({c.detail})" if c.detail else "")
        for c in wrong
    ]


def _metric_structure(metric: MetricValue, program: Program) -> list[str]:
    declared = program.metrics.get(metric.name)
    if declared is None:
        return [f"metric {metric.id} is not in {program.name}'s metrics.yaml; allowed: {', '.join(program.metrics)}"]
    wrong = [
        f"{metric.id}: {key} is {said!r}; expected {want!r}"
        for key, said, want in (
            ("unit", metric.unit, declared.unit),
            ("direction", metric.direction, declared.direction),
            ("statistic", metric.statistic, declared.statistic),
        )
        if said != want
    ]
    if metric.kind not in declared.per:
        wrong.append(f"{metric.id}: is reported for {metric.kind}; expected {', '.join(declared.per)}")
    numbers = (metric.value, metric.best, metric.median, metric.p5, metric.p95, *metric.samples)
    bad = next((n for n in numbers if not math.isfinite(n)), None)
    if bad is not None:
        wrong.append(f"{metric.id} of {metric.place} contains {bad}, which is not finite")
    elif declared.sign != "any" and (min(numbers) < 0 or (min(numbers) == 0 and declared.sign == "positive")):
        least = "above 0" if declared.sign == "positive" else "0 or above"
        wrong.append(f"{metric.id} of {metric.place} contains {min(numbers):g} {metric.unit}; it must be {least}")
    elif declared.maximum is not None and max(numbers) > declared.maximum:
        wrong.append(f"{metric.id} of {metric.place} is {max(numbers):g}; maximum: {declared.maximum:g}")
    return wrong


def _missing(result: Result, program: Program, request: Request) -> list[str]:
    """Missing declared metrics, for each GPU if they are per GPU; requested points."""
    # a compiler's build lists no GPU; whether it offloads is fixed at build time
    where = program.contract.on_gpu
    unlisted = bool(where) and all(result.path.get(key) in allowed for key, allowed in where.items())
    kinds = tuple("gpu" if unlisted and kind == "host" else kind for kind in request.subjects)
    declared_ones = (name for name, m in program.metrics.items() if not m.optional and set(m.per) & set(kinds))
    named = request.metrics if request.metrics is not None else declared_ones
    its_gpus = sorted({m.subject.first for m in result.metrics if m.kind == "gpu"}) or [0]
    wanted = dict.fromkeys([*named, *must_come(result, program)])
    have = {(m.name, m.kind, m.subject.first if m.kind == "gpu" else None) for m in result.metrics}
    wrong = []
    for name in wanted:
        for kind in (kind for kind in kinds if kind in program.metrics[name].per):
            if kind == "gpu":
                indices = its_gpus if unlisted else [d.index for d in result.devices]
                wrong += [f"metric {name} of GPU {i} is missing" for i in indices if (name, "gpu", i) not in have]
                if not indices:
                    wrong.append(f"metric {name} is missing: the result lists no GPU")
            elif (name, kind, None) not in have:
                wrong.append(f"metric {name} of {kind} is missing")
    # an optional value that one GPU has, each has, unless it is declared for some
    some = {name for entry in program.contract.points if entry.subjects != "each" for name in entry.metrics}
    for name in sorted({m.name for m in result.metrics if m.kind == "gpu"} & set(program.metrics) - some):
        wrong += [
            f"metric {name} of GPU {d.index} is missing" for d in result.devices if (name, "gpu", d.index) not in have
        ]
    for name, kind, at in request.points:
        if not any(
            m.name == name and m.kind == kind and all(_same(m.at.get(k), v) for k, v in at.items())
            for m in result.metrics
        ):
            place = ", ".join(f"{k}={v}" for k, v in at.items())
            wrong.append(f"metric {name} of {kind} at {place} is missing")
    if not wanted and not result.metrics:
        wrong.append("the result contains no metric")
    return list(dict.fromkeys(wrong))


# ---- choices ---------------------------------------------------------------------------------------------------


def choices(result: Result, program: Program, request: Request, machine: Machine) -> Iterator[Finding]:
    """Choices that determine what was measured and that a setting of the machine can change."""
    for key, choice in program.contract.paths.items():
        if choice.claimed and choice.claimed not in machine.capabilities:
            continue
        if choice.unless and choice.unless in asked(request.arguments, program.contract):
            continue
        for name, said in result.path.items():
            if (name == key or name.startswith(f"{key}.")) and said is not None and said not in choice.allowed:
                allowed = ", ".join(map(str, choice.allowed)) or "nothing"
                claims = f"; the system file claims {choice.claimed!r}" if choice.claimed else ""
                why = "".join(f"; {k}: {v}" for k, v in result.path.items() if k.startswith(f"{key}_"))
                text = f"path {name} is {str(said)[:100]!r}; allowed: {allowed}{claims}{why}"
                found = say(choice.verdict, result, text, kind="")
                yield replace(found, subject=Subject.in_id(name.partition(".")[2]))
