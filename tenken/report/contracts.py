"""Contracts: the requirements for acceptance of a machine, in `reports/contracts/<name>.yaml`.

    load("h200-node")              -> Contract; ContractError with one line per error in the file
    draft(system, catalogue)       -> the text of a draft, from data sheets and references

Errors in a file are reported line by line, as for system files. With a `Machine`, `load` also rejects clauses that
could only be decided wrongly: a sweep without a size, a target above the physical limit, or a metric that no check
measures.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tenken.campaign import fabric, power
from tenken.campaign.redfish import fault_of_address
from tenken.errors import TenkenError
from tenken.judge import rejudge
from tenken.machines import facts, limits, validation, yamlfile
from tenken.machines.errors import SystemFileError
from tenken.machines.model import Partition, Reference, System
from tenken.machines.yamlfile import Document, KeyPath
from tenken.model import units
from tenken.model.catalogue import PROGRAMS, Metric, Program, load_catalogue
from tenken.model.contract import Counted
from tenken.model.job import short
from tenken.model.record import Record
from tenken.model.result import MetricValue, Result
from tenken.model.verdicts import PASS, RECORDED
from tenken.paths import REPORTS

SCHEMA = Path(__file__).with_name("contract.schema.json")
FOLDER = REPORTS / "contracts"

#: How a clause is decided: by the end of the interval that is closer to its bound, or only by the measured median.
INTERVAL, VALUE = "interval", "value"
ESSENTIAL = "essential"
#: Which of several points of a sweep counts.
WORST, BEST = "worst", "best"
#: Default minimum number of runs of a device for a decision: five give at most 93.8 % confidence for the median.
REPETITIONS = 6
#: For a draft from data sheets: HPL's share of its products, NCCL's of a GPU's links, MPI's of a peer copy: the minimum
#: of each metric's own criterion.
HPL_OF_DGEMM, NCCL_OF_LINK, MPI_OF_PEER = 0.6, 0.5, 0.6
#: For a draft from a session: the target of a metric without a criterion, as a share of the measured value.
PROPOSED = 0.9
#: Begins the `source` of such a target.
PROPOSAL = "proposal:"
#: Maximum relative difference between the targets of a metric's points for them to be drafted as one clause.
ALIKE = 1.02


class ContractError(TenkenError):
    """A contract that is invalid or missing: one line per error."""


@dataclass(frozen=True)
class Clause:
    """One requirement: `metric` of every `subject` must reach `target`, less `tolerance` (a fraction of it).

    The value of a run is `statistic` of its samples, that of a device the median over its runs. At least the fraction
    `share` of the devices must meet it. A device with fewer than `repetitions` runs is inconclusive; `retests` is the
    number of INVALID runs that may be repeated (None: any number). Only runs over `nodes` nodes together and of at
    least `hours` count, if given; `over` states which point of a sweep counts if `at` leaves it open.
    """

    id: str
    program: str
    metric: str
    subject: str
    target: float
    unit: str
    direction: str
    statistic: str
    source: str
    text: str = ""
    check: str | None = None
    environ: str | None = None
    partition: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    over: str = WORST
    nodes: int | None = None
    hours: float | None = None
    tolerance: float = 0.0
    rule: str = INTERVAL
    share: float = 1.0
    repetitions: int = REPETITIONS
    retests: int | None = None
    severity: str = ESSENTIAL

    @property
    def bound(self) -> float:
        """The required value, in `unit`: the target less the tolerance."""
        return self.target * (1 - self.tolerance if self.direction == "higher" else 1 + self.tolerance)

    @property
    def sign(self) -> str:
        return "≥" if self.direction == "higher" else "≤"

    def rule_in_words(self, confidence: float) -> str:
        """The decision rule as one clause of a sentence."""
        whom = "every device" if self.share >= 1 else f"at least {100 * self.share:g} % of the devices"
        if self.rule == VALUE:
            return f"median over the runs {self.sign} bound on {whom}"
        end = "lower" if self.direction == "higher" else "upper"
        return f"{end} end of the {100 * confidence:g} % interval {self.sign} bound on {whom}"


@dataclass(frozen=True)
class Offered:
    """A check that a system selects: its full name, its class, its program and its number of nodes.

    `modes` are those that select it; `lasting` is the variable with its seconds, if it takes a requested
    time, `sized` that with its nodes. `subjects` and `metrics` are those that it must report (empty, None: not known).
    """

    name: str
    base: str
    program: str
    nodes: int = 1
    modes: tuple[str, ...] = ()
    lasting: str = ""
    sized: str = "num_nodes"
    subjects: tuple[str, ...] = ()
    metrics: tuple[str, ...] | None = None

    def must_report(self, clause: Clause) -> bool:
        """Whether the clause's metric and subject are among those that it must report; true if those are not known."""
        return (not self.subjects or clause.subject in self.subjects) and (
            self.metrics is None or clause.metric in self.metrics
        )


@dataclass(frozen=True)
class Machine:
    """What clauses are compared with: the system, and its checks (None: not listed)."""

    system: System
    checks: tuple[Offered, ...] | None = None


@dataclass(frozen=True)
class Delivered:
    """A delivered device according to the contract; empty if not listed."""

    uuid: str
    serial: str = ""
    node: str = ""
    slot: str = ""


@dataclass(frozen=True)
class Exclusion:
    """Runs excluded by agreement of both parties: those that match all keys that are given."""

    id: str
    reason: str
    agreed: str
    clause: str | None = None
    node: str | None = None
    uuid: str | None = None
    session: str | None = None


@dataclass(frozen=True)
class Item:
    """An item of the punch list."""

    id: str
    what: str
    open: bool
    due: str = ""


@dataclass(frozen=True)
class Replaced:
    """A GPU that was exchanged: its runs are shown and do not count, and its successor needs its own. Once the
    successor meets every clause, `item` of the punch list is closed.
    """

    uuid: str
    by: str
    why: str
    item: str = ""


@dataclass(frozen=True)
class Stability:
    """At least `hours` between the first and last run; the last session reaches at least `least` of the first's
    values."""

    hours: float
    least: float


@dataclass(frozen=True)
class Contract:
    """The agreement. `modes`: only runs of these count (empty: all)."""

    name: str
    title: str
    system: str
    customer: str
    supplier: str
    clauses: tuple[Clause, ...]
    lot: str = ""
    date: str = ""
    modes: tuple[str, ...] = ()
    confidence: float = 0.95
    nodes: int | None = None
    gpus_per_node: int | None = None
    delivered: tuple[Delivered, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    punch_list: tuple[Item, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    stability: Stability | None = None
    #: The nodes' BMCs, as in a campaign file: where the power of a node is read.
    redfish: Mapping[str, Any] = field(default_factory=dict)
    #: Whether records without a seal (docs/seal.md) may be accepted.
    allow_unsealed: bool = False
    text: str = field(default="", repr=False)


# ---- reading ---------------------------------------------------------------------------------------------


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.yaml"))


def file_of(name: str, folder: Path = FOLDER) -> Path:
    """The file of a contract by its name, or a path to one. Raises ContractError that lists the existing ones."""
    file = folder / f"{name}.yaml"
    if file.is_file() and "/" not in name:
        return file
    if ("/" in name or name.endswith(".yaml")) and Path(name).is_file():
        return Path(name)
    known = validation.choices(name, names(folder))
    raise ContractError(f"no contract '{name}' in {_shown(folder)}; {known}")


def load(
    name: str,
    catalogue: Mapping[str, Program],
    systems: Collection[str],
    folder: Path = FOLDER,
    machine: Callable[[str], Machine] | None = None,
) -> Contract:
    """One contract by name or path. Raises ContractError with one line per error.

    `machine` returns what is known about a system by its name; without it, clauses are not compared with a machine.
    """
    file = file_of(name, folder)
    shown = _shown(file)
    try:
        text = file.read_bytes()
        document = yamlfile.parse(text.decode("utf-8"), shown)
        return parse(file.stem, document, text.decode("utf-8"), catalogue, systems, machine)
    except SystemFileError as error:
        raise ContractError(str(error)) from None
    except OSError as error:
        raise ContractError(f"{shown}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ContractError(f"{shown}:{line}: is not UTF-8 text") from None


def _shown(path: Path) -> str:
    """A path as in messages: the last three parts."""
    return "/".join(path.parts[-3:])


def parse(
    name: str,
    document: Document,
    text: str,
    catalogue: Mapping[str, Program],
    systems: Collection[str],
    machine: Callable[[str], Machine] | None = None,
) -> Contract:
    """A contract from a parsed file. Raises SystemFileError with every error."""
    problems = validation.shape(document, SCHEMA)
    held = None
    if not problems and machine is not None and document.data["system"] in systems:
        # before the clauses are read, since listing the checks makes third-party programs known
        held = machine(document.data["system"])
        catalogue = ChainMap(dict(catalogue), dict(load_catalogue()))
    if not problems:
        problems = _meaning(document, catalogue, systems)
    if not problems and held is not None:
        problems = _undecidable(document, catalogue, held)
    if problems:
        raise SystemFileError(problems)
    data = document.data
    scope = data.get("scope", {})
    stability = data.get("stability")
    return Contract(
        name=name, title=data["title"], system=data["system"], customer=data["parties"]["customer"],
        supplier=data["parties"]["supplier"],
        clauses=tuple(_clause(raw, data, catalogue) for raw in data["clauses"]),
        lot=data.get("lot", ""), date=data.get("date", ""), modes=tuple(data.get("modes", ())),
        confidence=data.get("confidence", 0.95), nodes=scope.get("nodes"), gpus_per_node=scope.get("gpus_per_node"),
        delivered=tuple(Delivered(**one) for one in scope.get("delivered", ())),
        exclusions=tuple(Exclusion(**one) for one in data.get("exclusions", ())),
        punch_list=tuple(
            Item(one["id"], one["what"], one["status"] == "open", one.get("due", ""))
            for one in data.get("punch_list", ())
        ),
        replaced=tuple(Replaced(**one) for one in data.get("replaced", ())),
        stability=None if stability is None else Stability(float(stability["hours"]), float(stability["least"])),
        redfish=dict(data.get("redfish", {})), allow_unsealed=data.get("allow_unsealed", False), text=text,
    )  # fmt: skip


def _clause(raw: Mapping[str, Any], data: Mapping[str, Any], catalogue: Mapping[str, Program]) -> Clause:
    program, _, metric = raw["metric"].partition(".")
    about = catalogue[program].metrics[metric]
    own = ("text", "check", "environ", "partition", "at", "over", "nodes", "hours", "tolerance", "severity")
    shared = ("rule", "share", "repetitions", "retests")
    given = {key: raw[key] for key in own if key in raw}
    given |= {key: raw.get(key, data.get(key)) for key in shared if key in raw or key in data}
    return Clause(
        id=raw["id"], program=program, metric=metric, subject=raw["subject"],
        target=float(raw["target"]) * units.factor(raw["unit"], about.unit), unit=about.unit,
        direction=about.direction, statistic=raw.get("statistic", about.statistic),
        source=raw["source"], **given,
    )  # fmt: skip


def _meaning(document: Document, catalogue: Mapping[str, Program], systems: Collection[str]) -> list[Any]:
    """Rules beyond the schema: existing names, units, unique ids, applicable rules."""
    data = document.data
    problems = []

    def wrong(path: KeyPath, what: str) -> None:
        problems.append(document.problem(path, what))

    if data["system"] not in systems:
        wrong(("system",), f"unknown system '{data['system']}'; {validation.choices(data['system'], sorted(systems))}")
    for part in ("clauses", "exclusions", "punch_list"):
        seen: set[str] = set()
        for index, one in enumerate(data.get(part, ())):
            if one["id"] in seen:
                wrong((part, index, "id"), f"id '{one['id']}' is listed twice in '{part}'")
            seen.add(one["id"])
    for index, clause in enumerate(data["clauses"]):
        _check_clause(("clauses", index), clause, data, catalogue, wrong)
    ids = [clause["id"] for clause in data["clauses"]]
    for index, exclusion in enumerate(data.get("exclusions", ())):
        shown = f"exclusion {index + 1} ({exclusion['id']})"
        if not {"clause", "node", "uuid", "session"} & set(exclusion):
            wrong(("exclusions", index), f"{shown} specifies nothing; required: 'clause', 'node', 'uuid' or 'session'")
        if exclusion.get("clause", ids[0]) not in ids:
            known = validation.choices(exclusion["clause"], ids)
            wrong(("exclusions", index, "clause"), f"unknown clause '{exclusion['clause']}' in {shown}; {known}")
    items = [one["id"] for one in data.get("punch_list", ())]
    old = [one["uuid"] for one in data.get("replaced", ())]
    for index, one in enumerate(data.get("replaced", ())):
        if one.get("item", "") and one["item"] not in items:
            known = validation.choices(one["item"], items)
            wrong(("replaced", index, "item"), f"unknown item '{one['item']}' of the punch list; {known}")
        if one["by"] == one["uuid"] or old.count(one["uuid"]) > 1:
            wrong(("replaced", index, "uuid"), f"GPU '{one['uuid']}' is replaced twice, or by itself")
    if "redfish" in data and (fault := fault_of_address(data["redfish"]["address"])):
        wrong(("redfish", "address"), f"'redfish.address' {fault}")
    listed: set[str] = set()
    for index, one in enumerate(data.get("scope", {}).get("delivered", ())):
        if one["uuid"] in listed:
            wrong(("scope", "delivered", index, "uuid"), f"uuid '{one['uuid']}' is listed as delivered twice")
        listed.add(one["uuid"])
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.what))


def _check_clause(
    path: KeyPath, clause: Mapping[str, Any], data: Mapping[str, Any], catalogue: Mapping[str, Program], wrong: Any
) -> None:
    shown = f"clause {int(path[1]) + 1} ({clause['id']})"
    program, _, name = clause["metric"].partition(".")
    if program not in catalogue:
        known = validation.choices(program, sorted(catalogue))
        wrong((*path, "metric"), f"unknown program '{program}' in {shown}; {known}")
        return
    metric = catalogue[program].metrics.get(name)
    if metric is None:
        known = validation.choices(name, sorted(catalogue[program].metrics))
        wrong((*path, "metric"), f"unknown metric '{name}' of program '{program}' in {shown}; {known}")
        return
    if clause["subject"] not in metric.per:
        known = validation.choices(clause["subject"], metric.per)
        wrong((*path, "subject"), f"wrong subject '{clause['subject']}' in {shown}; {known}")
    try:
        units.factor(clause["unit"], metric.unit)
    except ValueError:
        wrong((*path, "unit"), f"wrong unit '{clause['unit']}' in {shown}; allowed: {metric.unit}, or with a prefix")
    if clause.get("direction", metric.direction) != metric.direction:
        wrong(
            (*path, "direction"),
            f"wrong direction '{clause['direction']}' in {shown}; for {clause['metric']} {metric.direction} is better",
        )
    _check_length(path, shown, clause, catalogue, metric, wrong)
    if metric.statistic == "total" and clause.get("statistic", "total") != "total":
        wrong((*path, "statistic"), f"wrong statistic '{clause['statistic']}' in {shown}; allowed: total")
    runs = clause.get("repetitions", data.get("repetitions", REPETITIONS))
    if clause.get("rule", data.get("rule", INTERVAL)) == INTERVAL and runs < 2:
        wrong(path, f"{shown} decides by the interval of {runs} run; set 'repetitions' to at least 2, or 'rule: value'")


def _check_length(
    path: KeyPath, shown: str, clause: Mapping[str, Any], catalogue: Mapping[str, Program], metric: Metric, wrong: Any
) -> None:
    """Rejects a duration for a program that runs for no set time, and a target beyond the run's end."""
    program = clause["metric"].partition(".")[0]
    hours = clause.get("hours", 0)
    if not catalogue[program].contract.lasts:
        if hours:
            others = ", ".join(sorted(name for name, one in catalogue.items() if one.contract.lasts))
            wrong((*path, "hours"), f"{shown}: '{program}' takes no requested time; 'hours' is for {others}")
        return
    try:
        seconds = clause["target"] * units.factor(clause["unit"], metric.unit)
    except ValueError:
        return
    if metric.unit == "s" and metric.direction == "higher" and seconds > 3600 * hours:
        needed = f"set 'hours' to at least {seconds / 3600:.4g}"
        wrong((*path, "target"), f"{shown}: {seconds:g} s are longer than the run; {needed}")


# ---- clauses that could only be decided wrongly ----------------------------------------------------------


def swept(program: Program, metric: str, at: Mapping[str, Any]) -> dict[str, str]:
    """Coordinates of a metric with several values that `at` leaves open, each with the parameter that sets them."""
    found = {}
    for points in program.contract.points:
        for name, values in points.at.items() if metric in points.metrics else ():
            one = isinstance(values, Counted) or (isinstance(values, tuple) and len(values) == 1)
            if not one and name not in at:
                found[name] = str(getattr(values, "parameter", getattr(values, "start", "")) or "")
    return found


def physical(system: System, partition: str | None, metric: Metric, clause: Mapping[str, Any]) -> limits.Limit | None:
    """The highest limit of the partitions that a clause may concern, in the metric's unit; None: unknown for one of
    them."""
    known = [
        _peak(one, metric, clause["subject"], clause.get("at", {}), clause.get("nodes") or 1)
        for one in system.partitions.values()
        if partition in (None, one.name)
    ]
    found = [limit for limit in known if isinstance(limit, limits.Limit) and limit.unit == metric.unit]
    return max(found, key=lambda one: one.value) if found and len(found) == len(known) else None


def _peak(
    partition: Partition, metric: Metric, subject: str, at: Mapping[str, Any], nodes: int
) -> limits.Limit | limits.Unknown:
    if metric.data_sheet == "memory" and subject in ("host", "gpu"):
        return limits.memory(partition, subject)
    if metric.data_sheet == "host_link":
        return limits.host_link(partition)
    if metric.data_sheet == "gpu_link":
        return limits.pair_link(partition)
    if metric.unit == "TFLOP/s":
        precision = "fp64" if metric.precision.startswith("fp64") else str(at.get("precision", ""))
        return limits.rate(partition, subject, precision, nodes)
    return limits.Unknown("no data sheet bounds it")


def _undecidable(document: Document, catalogue: Mapping[str, Program], machine: Machine) -> list[Any]:
    """Clauses on sweeps without a size, with targets above what the machine can do, or on metrics that none of its
    checks measures."""
    problems: list[Any] = []
    data = document.data
    for index, clause in enumerate(data["clauses"]):
        shown, path = f"clause {index + 1} ({clause['id']})", ("clauses", index)
        program, _, name = clause["metric"].partition(".")
        metric = catalogue[program].metrics[name]

        def wrong(key: str, what: str, path: KeyPath = path) -> None:
            problems.append(document.problem((*path, key), what))

        if "over" not in clause and (sizes := swept(catalogue[program], name, clause.get("at", {}))):
            example = ", ".join(f"{key}: ..." for key in sizes)
            wrong(
                "metric",
                f"{shown}: {clause['metric']} has several values of {', '.join(sizes)}; state which counts: "
                f"'at: {{{example}}}', 'over: {WORST}' or 'over: {BEST}'",
            )
        limit = physical(machine.system, clause.get("partition"), metric, clause)
        target = clause["target"] * units.factor(clause["unit"], metric.unit)
        if limit is not None and metric.direction == "higher" and target > limit.value:
            wrong("target", f"{shown}: {target:g} {limit.unit} is above the physical limit, {limit.value:g} "
                  f"{limit.unit} ({limit.basis})")  # fmt: skip
        if none := _no_points(catalogue[program], name, clause.get("at", {})):
            wrong("at", f"{shown}: {none}")
        if machine.checks is not None and program == power.PROGRAM:
            _unread(clause, shown, data, machine.checks, wrong)
        elif machine.checks is not None and program != fabric.PROGRAM:  # by `tenken campaign pairs`
            _unmeasured(clause, shown, program, machine.checks, data.get("modes", ()), wrong)
        total = _nodes_of(machine.system, clause.get("partition"))
        if clause.get("nodes", 0) > (total or clause.get("nodes", 0)):
            wrong("nodes", f"{shown}: {clause['nodes']} nodes together; there are {total}")
    nodes, total = data.get("scope", {}).get("nodes"), _nodes_of(machine.system, None)
    if nodes and total and nodes > total:
        what = f"{nodes} nodes are delivered; system '{machine.system.name}' has {total}"
        problems.append(document.problem(("scope", "nodes"), what))
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.what))


def _nodes_of(system: System, partition: str | None) -> int | None:
    """The nodes of a partition, or of all; None if not known."""
    counts = [one.node.count for one in system.partitions.values() if partition in (None, one.name)]
    return None if None in counts else sum(filter(None, counts))


def _no_points(program: Program, metric: str, at: Mapping[str, Any]) -> str:
    """Why no value of a metric has these coordinates; empty if one may."""
    points = [one.at for one in program.contract.points if metric in one.metrics]
    known = sorted({name for one in points for name in one})
    for name, value in at.items() if points else ():
        if name not in known:
            return f"{program.name}.{metric} has no '{name}'; {validation.choices(name, known) if known else 'no at'}"
        values = [one[name] for one in points if name in one]
        allowed = sorted({str(one) for given in values if isinstance(given, tuple) for one in given})
        if all(isinstance(given, tuple) for given in values) and str(value) not in allowed:
            return f"{program.name}.{metric} has no {name} '{value}'; {validation.choices(str(value), allowed)}"
    return ""


def _unread(
    clause: Mapping[str, Any], shown: str, data: Mapping[str, Any], checks: tuple[Offered, ...], wrong: Any
) -> None:
    """Rejects the power of a node without its BMC, or without the check that loads the node meanwhile."""
    if "redfish" not in data:
        wrong("metric", f"{shown}: is read from the BMC of each node; set 'redfish: {{address: ...}}' of the contract")
    bases = sorted({one.base for one in checks})
    during = str(clause.get("at", {}).get(power.DURING, ""))
    if during not in bases:
        known = validation.choices(during, bases) if during else "such as BurnNode"
        wrong("at" if "at" in clause else "metric", f"{shown}: state the check that loads the node, "
              f"'at: {{{power.DURING}: CHECK}}'; {known}")  # fmt: skip


def _unmeasured(
    clause: Mapping[str, Any], shown: str, program: str, checks: tuple[Offered, ...], modes: Sequence[str], wrong: Any
) -> None:
    """Rejects a check that does not exist there, a metric that none measures, and nodes or modes that none uses."""
    asked = str(clause.get("check") or "")
    named = [one for one in checks if asked in ("", one.name, one.base)]
    if not named:
        names = sorted({name for one in checks if one.program == program for name in (one.base, one.name)})
        known = validation.choices(asked, names) if names else f"none measures {clause['metric']}"
        known += _unread_folder(program, checks)
        wrong("check", f"{shown}: '{asked}' is not a check of this system and mode; {known}")
        return
    fitting = [one for one in named if one.program == program]
    if not fitting:
        whose = f"check '{asked}'" if asked else "no check of this system"
        measures = "measures" if not asked else f"is of program '{named[0].program}' and does not measure"
        wrong("metric", f"{shown}: {whose} {measures} {clause['metric']}{_unread_folder(program, checks)}")
        return
    together = sorted({one.nodes for one in fitting})
    bases = ", ".join(sorted({one.base for one in fitting}))
    if clause.get("nodes", 0) > 1 and together == [1]:
        wrong("nodes", f"{shown}: {bases} run on one node each, not on {clause['nodes']} together")
    elif clause.get("nodes") == 1 and 1 not in together:
        wrong("nodes", f"{shown}: {bases} run on {together[0]} nodes or more, not on one")
    theirs = sorted({mode for one in fitting for mode in one.modes})
    if modes and theirs and not set(modes) & set(theirs):
        wrong("check" if asked else "metric", f"{shown}: {bases} run in mode {', '.join(theirs)}, which 'modes' does "
              "not list")  # fmt: skip


def _unread_folder(program: str, checks: tuple[Offered, ...]) -> str:
    """What to add where the only check of a third-party program is in a folder that was not read."""
    ours = (PROGRAMS / program / "metrics.yaml").is_file() or any(one.program == program for one in checks)
    return "" if ours else "; a check in your own folder is read with --checks checks FOLDER"


# ---- drafting --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drafted:
    """The drafted clauses, and the reasons why others are missing."""

    metric: str
    subject: str
    target: float
    unit: str
    source: str
    partition: str
    environ: str = ""
    statistic: str = ""
    check: str = ""
    at: tuple[tuple[str, Any], ...] = ()
    over: str = WORST
    nodes: int | None = None


def draft(
    system: System,
    catalogue: Mapping[str, Program],
    customer: str = "",
    supplier: str = "",
    measured: Sequence[Record] = (),
) -> str:
    """The text of a contract for a machine: from its references, otherwise from its data sheets. Raises ContractError.

    A target from a reference is the reference's own bound; one from a data sheet is a key metric's floor of the peak.
    With `measured`, the records of a session, the clauses cover the key metrics that its checks measured, so that the
    same checks test each of them.
    """
    clauses = list(_of_records(system, catalogue, measured) if measured else _drafted(system, catalogue))
    if measured and not clauses:  # a host about which nothing is known
        clauses = list(_of_records(system, catalogue, measured, every=True))
    if measured and not clauses:
        raise ContractError("no check of the session measured a key metric: nothing to draft")
    if not clauses:
        raise ContractError(
            f"system '{system.name}' has neither references nor data sheets that bound a metric: nothing to draft"
        )
    nodes = sum(p.node.count or 0 for p in system.partitions.values())
    lines = [
        f"# Drafted by `tenken contract new --from {system.name}`: every target is a proposal, and `source` states",
        "# where it comes from: the bound of a reference, the minimum efficiency that the suite accepts, or a share",
        "# of the measured value. Change targets as agreed, and state the agreement in `source`.",
        f'title: "Acceptance of {system.name}: {_quoted(system.title)}"',
        f"system: {system.name}",
        "parties:",
        f'  customer: "{_quoted(customer or "CUSTOMER")}"',
        f'  supplier: "{_quoted(supplier or "SUPPLIER")}"',
        f"repetitions: {REPETITIONS}      # runs of each device; with fewer, a clause is inconclusive",
        "confidence: 0.95",
        f"rule: {INTERVAL}       # or `{VALUE}`: by the measured median alone",
        "share: 1.0           # of the devices that must meet a clause",
        "retests: 2           # INVALID runs of a device that may be repeated, per clause",
    ]
    modes = sorted({record.mode for record in measured if record.mode})
    if modes:
        lines.append(f"# modes: {json.dumps(modes)}       # if runs of other modes than the session's must not count")
    if measured:
        lines += _scope_of(measured)
    elif nodes:
        lines += ["scope:", f"  nodes: {nodes}"]
        counts = {
            p.node.gpu_count for p in system.partitions.values() if p.node.gpu_count and not p.node.gpu_count_found
        }
        if len(counts) == 1:
            lines.append(f"  gpus_per_node: {counts.pop()}")
    lines.append("clauses:")
    for number, one in enumerate(clauses, 1):
        lines += [
            f"  - id: C{number}",
            f"    metric: {one.metric}",
            f"    subject: {one.subject}",
            *([f"    partition: {one.partition}"] if len(system.partitions) > 1 else []),
            *([f"    environ: {one.environ}"] if one.environ else []),
            *([f"    check: {json.dumps(one.check, ensure_ascii=False)}"] if one.check else []),
            *([f"    at: {json.dumps(dict(one.at), ensure_ascii=False)}"] if one.at else []),
            *([f"    over: {one.over}"] if _leaves_open(catalogue, one) else []),
            *([f"    nodes: {one.nodes}"] if one.nodes else []),
            *([f"    statistic: {one.statistic}"] if one.statistic else []),
            f"    target: {one.target:.6g}",
            f'    unit: "{one.unit}"',
            f'    source: "{_quoted(one.source)}"',
        ]
    lines += [
        "exclusions: []",
        "punch_list: []",
        "# stability: {hours: 72, least: 0.9}   # between first and last run; ratio of the last session to the first",
    ]
    return "\n".join(lines) + "\n"


def _leaves_open(catalogue: Mapping[str, Program], one: Drafted) -> bool:
    program, _, metric = one.metric.partition(".")
    return bool(swept(catalogue[program], metric, dict(one.at)))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _drafted(system: System, catalogue: Mapping[str, Program]) -> Iterator[Drafted]:
    for partition in system.partitions.values():
        known = [r for r in system.references if r.partition == partition.name and not r.parameters]
        bound: set[tuple[str, str]] = set()
        for reference in known:
            drafted = _of_reference(reference, catalogue)
            if drafted is not None:
                bound.add((drafted.metric, drafted.subject))
                yield drafted
        for program in catalogue.values():
            for metric in map(program.metrics.__getitem__, program.key):
                for subject in metric.per:
                    drafted = _of_sheet(partition, program, metric, subject)
                    if drafted is not None and (drafted.metric, subject) not in bound:
                        yield drafted
        for drafted in _of_rates(partition, catalogue):
            if (drafted.metric, drafted.subject) not in bound:
                yield drafted


def _of_rates(partition: Partition, catalogue: Mapping[str, Program]) -> Iterator[Drafted]:
    """What the GPUs of a partition compute and exchange together, as shares of the data sheet that healthy devices
    reach, and the power they draw.
    """
    node, name = partition.node, partition.name
    count = node.gpu_count or (1 if node.gpu is not None else 0)
    if node.gpu is None or not count or any(p not in catalogue for p in ("gemm", "hpl", "nccl", "mpi_p2p")):
        return
    reached = catalogue["gemm"].tables["reached"]
    for precision, sheet in (("fp64_tensor", "fp64"), ("fp16", "fp16"), ("fp8_e4m3", "fp8")):
        peak = limits.rate(partition, "gpu", sheet)
        if isinstance(peak, limits.Limit) and (sheet == "fp64" or sheet in node.gpu.tflops):
            at = (("precision", precision), ("data", "random"), ("phase", "sustained"))
            yield Drafted("gemm.gemm", "gpu", peak.value * reached[precision], peak.unit,
                          _part_of(reached[precision], peak), name, at=at)  # fmt: skip
    times = HPL_OF_DGEMM * reached["fp64_tensor"]
    together = "ranks" if count > 1 and "mpi" in partition.features else "gpu"
    for nodes in (None, *([node.count] if "mpi" in partition.features and (node.count or 0) > 1 else [])):
        subject = "ranks" if nodes else together
        peak = limits.rate(partition, subject, "fp64", nodes or 1)
        if isinstance(peak, limits.Limit):
            source = _part_of(times, peak)
            yield Drafted("hpl.hpl", subject, peak.value * times, peak.unit, source, name, over=BEST, nodes=nodes)
    link, share = limits.pair_link(partition), facts.attained(partition).get(("gpu_link", "pair"))
    if isinstance(link, limits.Limit) and "PCIe" not in link.basis:
        yield Drafted("nccl.all_reduce", "ranks", NCCL_OF_LINK * link.value, link.unit, _part_of(NCCL_OF_LINK, link),
                      name, at=(("bytes", 2**30),))  # fmt: skip
        if "mpi" in partition.features:
            part = MPI_OF_PEER * (share[0] if share else NCCL_OF_LINK)
            yield Drafted("mpi_p2p.bandwidth", "ranks", part * link.value, link.unit, _part_of(part, link), name,
                          at=(("buffers", "device"), ("bytes", 2**28)))  # fmt: skip
    if node.gpu.power_w:
        source = f"data sheet: power limit as delivered, {node.gpu.name}, {node.gpu.source}"
        yield Drafted("gemm.power", "gpu", node.gpu.power_w, "W", source, name)


def _part_of(share: float, peak: limits.Limit) -> str:
    return f"{100 * share:.3g} % of {peak.value:.6g} {peak.unit}, {peak.basis}"


def _of_records(
    system: System, catalogue: Mapping[str, Program], measured: Iterable[Record], every: bool = False
) -> Iterator[Drafted]:
    """Each measured key metric with a reference or a floor, by check and coordinates; with `every`, those without one
    too, as proposals if their check is valid. Ratios are omitted: contracts specify rates or times.
    """
    seen: dict[Drafted, str] = {}
    points: dict[tuple[str, str, str, str], set[str]] = {}
    open_: dict[tuple[str, str, str, str], list[tuple[MetricValue, Record]]] = {}
    for record in measured:
        result, partition = record.result, system.partitions.get(record.partition)
        environment, program = system.environments.get(record.environ), catalogue.get(record.program)
        if result is None or result.status != "ok" or program is None:
            continue
        # for a session brought from another machine, as it was judged there
        judged = record.judgement.judged
        if partition is not None and environment is not None:
            judged = rejudge.of_record(record, facts.facts(system, partition, environment)).judged
        for metric in result.metrics:
            place = (f"{program.name}.{metric.name}", metric.kind, record.check, record.environ)
            points.setdefault(place, set()).add(metric.at.text)
            criterion = judged[metric.id].criterion if metric.id in judged else None
            valid = record.verdict in (PASS, RECORDED)
            if criterion is None and valid and _worth_a_proposal(metric, result, program, every):
                open_.setdefault(place, []).append((metric, record))
            target = (criterion.low if metric.direction == "higher" else criterion.high) if criterion else None
            if metric.name not in program.key or criterion is None or not target or metric.unit in ("1", "%"):
                continue
            at = tuple((key, value) for key, value in metric.at.items() if isinstance(value, (str, int, float, bool)))
            declared = program.metrics[metric.name]
            drafted = Drafted(
                f"{program.name}.{metric.name}", metric.kind, float(f"{target:.6g}"), metric.unit,
                f"{criterion.kind}: {criterion.source}", record.partition, record.environ,
                "" if criterion.statistic == declared.statistic else criterion.statistic, record.check, at,
            )  # fmt: skip
            seen[drafted] = metric.direction
    groups: dict[tuple[str, str, str, str], list[Drafted]] = {}
    for one in seen:
        groups.setdefault((one.metric, one.subject, one.check, one.environ), []).append(one)
    for place in sorted(groups):
        yield from _as_one(groups[place], len(points[place]), seen[groups[place][0]])
    for place in sorted(open_.keys() - groups.keys()):
        owner, _, key = place[0].partition(".")
        yield _proposed(place, open_[place], catalogue[owner], catalogue[owner].metrics[key])


def _worth_a_proposal(metric: MetricValue, result: Result, program: Program, every: bool) -> bool:
    """What GPUs reach together (HPCG, NCCL, MPI) and per joule: data sheets do not state it, but buyers specify it."""
    wanted = bool(result.devices) and (metric.kind == "ranks" or metric.unit.endswith("/W"))
    return (every or wanted) and metric.name in program.key and metric.direction == "higher" and (
        metric.unit not in ("1", "%") and metric.value > 0
    )  # fmt: skip


def _own(program: Program, metrics: Collection[str]) -> set[str]:
    """Coordinates of these metrics whose values the program determines itself."""
    declared = (points.at for points in program.contract.points if set(metrics) & set(points.metrics))
    return {key for at in declared for key, values in at.items() if values is None}


def _proposed(
    place: tuple[str, str, str, str], found: list[tuple[MetricValue, Record]], program: Program, declared: Metric
) -> Drafted:
    """A clause on the point with the highest value, with a share of the lowest device's value as target. It leaves open
    which of several a program chose as this metric (a method, batches read ahead), since the next run may choose
    another; it does not leave open a size.
    """
    best, record = max(found, key=lambda one: one[0].value)
    least = min(metric.value for metric, _ in found if metric.at.text == best.at.text)
    chosen = _own(program, [declared.name]) if declared.chosen_of else set()
    sizes = {key for key in _own(program, declared.chosen_of) if not isinstance(best.at.get(key), str)}
    at = tuple(
        (key, value)
        for key, value in best.at.items()
        if isinstance(value, (str, int, float, bool)) and key not in chosen - sizes
    )
    source = f"{PROPOSAL} {100 * PROPOSED:g} % of the {least:.6g} {best.unit} that session {record.session} measured"
    return Drafted(
        place[0], place[1], float(f"{PROPOSED * least:.6g}"), best.unit, source, record.partition, place[3],
        check=place[2], at=at,
    )  # fmt: skip


def _as_one(group: list[Drafted], points: int, direction: str) -> list[Drafted]:
    """The points of a metric as one clause on the worst of them, if their targets are nearly the same."""
    targets = [one.target for one in group]
    alike = len({(one.unit, one.statistic) for one in group}) == 1 and max(targets) <= ALIKE * min(targets)
    if not alike or len(group) < max(points, 2):
        return sorted(group, key=lambda one: str(one.at))
    target = min(targets) if direction == "higher" else max(targets)
    return [replace(next(one for one in group if one.target == target), at=())]


def _scope_of(measured: Iterable[Record]) -> list[str]:
    gpus: dict[str, set[str]] = {}
    for record in measured:
        if record.result is not None:
            gpus.setdefault(record.result.node, set()).update(d.uuid for d in record.result.devices if d.uuid)
    counts = {len(found) for found in gpus.values() if found}
    return [
        "scope:", f"  nodes: {len(gpus)}", *([f"  gpus_per_node: {counts.pop()}"] if len(counts) == 1 else []),
    ] if gpus else []  # fmt: skip


def _of_reference(reference: Reference, catalogue: Mapping[str, Program]) -> Drafted | None:
    program = catalogue.get(reference.program)
    metric = program.metrics.get(reference.metric) if program else None
    low, high = reference.bounds
    if metric is None:
        return None
    target = low if metric.direction == "higher" else high
    if target is None:
        return None
    return Drafted(
        f"{reference.program}.{reference.metric}", reference.subject, target, reference.unit,
        f"reference: {reference.source}", reference.partition, reference.environ[0] if reference.environ else "",
        "" if reference.statistic == metric.statistic else reference.statistic,
    )  # fmt: skip


def _of_sheet(partition: Partition, program: Program, metric: Metric, subject: str) -> Drafted | None:
    """The floor of a data sheet's peak, if the metric has both."""
    rule = metric.floors.get(subject)
    known = facts.attained(partition).get((rule.of, subject)) if rule is not None else None
    floor = rule.times * known[0] if rule is not None and known is not None else metric.floor.get(subject)
    if not floor or metric.optional:
        return None
    peak: limits.Limit | limits.Unknown
    if metric.data_sheet == "memory" and subject in ("host", "gpu"):
        peak = limits.memory(partition, subject)
    elif metric.data_sheet == "host_link":
        peak = limits.host_link(partition)
    elif metric.data_sheet == "gpu_link":
        peak = limits.pair_link(partition)
    else:
        return None
    if isinstance(peak, limits.Unknown) or peak.unit != metric.unit:
        return None
    source = f"{100 * floor:.4g} % of {peak.value:.6g} {peak.unit}, {peak.basis}"
    return Drafted(f"{program.name}.{metric.name}", subject, peak.value * floor, metric.unit, source, partition.name)


# ---- exclusions ------------------------------------------------------------------------------------------


def excluded(contract: Contract, clause: str, node: str, uuids: Collection[str], session: str) -> Exclusion | None:
    """The first exclusion that applies to a run of a clause."""
    for one in contract.exclusions:
        if (
            one.clause in (None, clause)
            and (one.node is None or short(one.node) == node)
            and one.session in (None, session)
            and (one.uuid is None or one.uuid in uuids)
        ):
            return one
    return None
