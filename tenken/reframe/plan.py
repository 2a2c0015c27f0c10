"""Which checks apply to a machine: every check is listed and, if it does not apply, the feature that it lacks.

ReFrame silently drops a check whose feature is missing. A check file that does not import is skipped with a warning and
exit code 0. The plan reports both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tenken.errors import TenkenError
from tenken.machines import catch_all_system as everything
from tenken.machines import summary
from tenken.machines.model import FOR_HOST, GPUS, HOST_MPI, NODE_COUNTS, OF_MODE, ONE_OPENACC, Partition, System
from tenken.paths import ROOT
from tenken.reframe.listing import listed

#: A file that does not import, or a check that cannot be instantiated: ReFrame warns, and continues without it.
_SKIPPED = re.compile(r"skipping test (file )?'?([^':]+)'?: (.*)")


class PlanError(TenkenError):
    """ReFrame could not list the checks."""


@dataclass(frozen=True)
class NotApplicable:
    """A check that no partition and environment of the system can run, and the missing features."""

    check: str
    text: str
    lacks: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What will run on a system. `load_errors` are check files that do not import: each is a failure."""

    system: str
    mode: str | None
    applicable: tuple[str, ...]
    not_applicable: tuple[NotApplicable, ...]
    load_errors: tuple[str, ...]
    #: The machine's description, as (label, words): the page begins with it.
    machine: tuple[tuple[str, str], ...] = ()
    #: Environments in which an applicable check runs, by check and partition.
    where: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    #: GPUs of this node that cannot be used, in one sentence: the run is incomplete.
    hidden_gpus: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def describe_checks(mode: str | None, path: str = "checks") -> tuple[list[dict[str, Any]], list[str]]:
    """All checks below `path`, for any machine, as ReFrame describes them, and the files and checks that do not load.

    Raises PlanError with ReFrame's last line if it fails.
    """
    found = _reframe(path, mode, "--describe")
    # ReFrame prints no warnings while it describes
    names = _reframe(path, mode, "--list")
    skipped = _SKIPPED.finditer(names.stdout + names.stderr)
    errors = list(dict.fromkeys(f"{m[2]}: {m[3]}" if m[1] else f"check {m[2]}: {m[3]}" for m in skipped))
    try:
        return json.loads(found.stdout), errors
    except ValueError:
        lines = [line for line in (found.stdout + found.stderr).splitlines() if line.strip()]
        raise PlanError(f"reframe could not list the checks: {lines[-1] if lines else 'no output'}") from None


def _reframe(path: str, mode: str | None, action: str) -> subprocess.CompletedProcess[str]:
    command = ["reframe", "-c", path, "--system", everything.NAME, action]
    command += ["--mode", mode] if mode else []
    env = {**os.environ, everything.VARIABLE: "1", "RFM_COLORIZE": "n"}
    env["RFM_CONFIG_FILES"] = str(ROOT / "config" / "settings.py")
    env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), env.get("PATH", "")])
    return listed(command, cwd=ROOT, env=env)


def _wanted(items: Iterable[str]) -> list[set[str]]:
    """Alternative sets of features from ReFrame's `['+a +b', '*']`; names of systems and environments are kept."""
    return [set() if item == "*" else set(item.split()) for item in items]


def _lacking(alternatives: list[set[str]], name: str, features: frozenset[str]) -> set[str]:
    """The missing features of the closest alternative; empty if one is met."""
    missing = [
        {w.lstrip("+") for w in alternative if not (w == name or _has(features, w))} for alternative in alternatives
    ]
    return min(missing, key=len, default=set())


def _has(features: frozenset[str], wanted: str) -> bool:
    """Whether a partition or environment with these features meets `+feature` or `-feature`, as interpreted by
    ReFrame.
    """
    return wanted[1:] in features if wanted.startswith("+") else wanted.startswith("-") and wanted[1:] not in features


def _in_words(feature: str, partition: Partition) -> str:
    """A feature derived from the nodes, in plain words; others by their names."""
    nodes = next((least for least, name in NODE_COUNTS.items() if name == feature), None)
    if nodes is not None and partition.node_count_unknown:
        return f"{nodes} nodes: node count unknown; set `count:` of partition '{partition.name}'"
    if nodes is not None:
        return f"{nodes} nodes"
    if feature == f"-{GPUS[2]}":
        return "a single GPU per node (mode quick measures several at once)"
    count = next((least for least, name in GPUS.items() if name == feature), None)
    if count is not None:
        return f"{count} GPUs per node"
    mode = next((mode for mode, name in OF_MODE.items() if name == feature), None)
    if mode is not None:
        return f"mode {mode}"
    return {HOST_MPI: "mpi", ONE_OPENACC: "openacc", FOR_HOST: "an environment"}.get(feature, feature)


def in_brief(made: Plan, system: System) -> Iterator[str]:
    """A few lines: the machine, the number of checks that apply, and what the others lack."""
    width = max((len(label) for label, _ in made.machine), default=0)
    yield from (f"{label:<{width}}  {text}" for label, text in made.machine)
    yield from (f"note: {note}" for note in system.notes)
    mode = f" in mode {made.mode}" if made.mode else ""
    yield f"{len(made.applicable)} checks apply to {system.name}{mode}"
    # what belongs to another mode is not missing on the machine
    lacks = Counter(
        next((lack for lack in one.lacks if lack.startswith("mode ")), " and ".join(one.lacks))
        for one in made.not_applicable
    )
    if lacks:
        rest = [f"{count} need{'s' if count == 1 else ''} {what}" for what, count in lacks.most_common(4)]
        more = sum(lacks.values()) - sum(count for _, count in lacks.most_common(4))
        rest += [f"{more} need{'s' if more == 1 else ''} something else"] if more else []
        command = f"tenken checks --system {system.name}{f' --mode {made.mode}' if made.mode else ''}"
        yield f"{sum(lacks.values())} do not: {', '.join(rest)}; all with reasons: {command}"


def make_plan(system: System, checks: Iterable[Mapping[str, Any]], errors: Iterable[str], mode: str | None) -> Plan:
    """Compare each check with each partition and environment of the system."""
    machine = (*summary.of_system(system), *summary.of_driver(system))
    applicable, rest = [], []
    places: dict[str, dict[str, tuple[str, ...]]] = {}
    for check in checks:
        lacks: set[str] | None = None
        found: dict[str, tuple[str, ...]] = {}
        for partition in system.partitions.values():
            at_partition = _lacking(_wanted(check["valid_systems"]), partition.name, partition.abilities)
            for name in partition.environments:
                missing = at_partition | _lacking(_wanted(check["valid_prog_environs"]), name, system.abilities(name))
                missing = {_in_words(one, partition) for one in missing}
                if lacks is None or len(missing) < len(lacks):
                    lacks = missing
                if not missing:
                    found[partition.name] = (*found.get(partition.name, ()), name)
        if lacks:
            rest.append(NotApplicable(check["display_name"], check.get("descr", ""), tuple(sorted(lacks))))
        else:
            applicable.append(check["display_name"])
            places[check["display_name"]] = found
    return Plan(system.name, mode, tuple(applicable), tuple(rest), tuple(errors), machine, places, system.hidden_gpus)


def in_columns(made: Plan, system: System) -> Iterator[str]:
    """One line per check with its environments, one column per partition; then the checks that do not apply, with the
    missing features.
    """
    names = list(system.partitions)
    rows = [("CHECK", *(name.upper() for name in names))]
    rows += [(one, *(", ".join(made.where[one].get(name, ())) or "-" for name in names)) for one in made.applicable]
    counts = [sum(name in made.where[one] for one in made.applicable) for name in names]
    per = "" if len(names) == 1 else f" ({', '.join(f'{n} on {name}' for n, name in zip(counts, names, strict=True))})"
    yield f"{len(made.applicable)} checks apply to {system.name}{per}"
    yield from (f"  {line}" for line in _table(rows) if made.applicable)
    if made.not_applicable:
        yield f"{len(made.not_applicable)} do not"
        needs = [("CHECK", "NEEDS"), *((one.check, ", ".join(one.lacks)) for one in made.not_applicable)]
        yield from (f"  {line}" for line in _table(needs))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
