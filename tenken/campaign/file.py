"""The campaign file: what is tested on which nodes, how often, how many at a time and at what cost. Errors are reported
by line.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tenken.campaign.redfish import fault_of_address
from tenken.errors import TenkenError
from tenken.machines import loader, validation, yamlfile
from tenken.machines.errors import SystemFileError, UnknownSystemError
from tenken.machines.model import Partition, Patience, System
from tenken.machines.yamlfile import Document
from tenken.model import node_groups
from tenken.model.job import short
from tenken.paths import ROOT

SCHEMA = Path(__file__).with_name("campaign.schema.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
#: More nodes than this are a mistake in a range.
MOST_NODES = 100_000


class CampaignError(TenkenError):
    """A campaign that cannot be planned or run: one line per error."""


@dataclass(frozen=True)
class Between:
    """Jobs over groups of nodes. `leaf`: the factor whose groups share a switch; empty: by the topology of the system's
    fabric. `launch`: how a rank is started on each of {ranks} nodes, and `launch_pair` on the two {nodes} of a pair, if
    it differs from the system's launcher. `partners`: how many nodes each node is paired with in its own leaf and in
    others; `crossing`: isolated pairs of a leaf that may use its uplinks at once."""

    leaf: str
    program: str = ""
    launch: str = ""
    buffers: str = "host"
    bytes: int = 256 << 10
    repetitions: int = 100
    minutes: float = 5.0
    launch_pair: str = ""
    partners: int = 2
    crossing: int = 1
    #: Network devices as in UCX_NET_DEVICES; a tournament runs on each alone. Empty: one, as the MPI chooses.
    rails: tuple[str, ...] = ()


@dataclass(frozen=True)
class Campaign:
    """A campaign file. Times in seconds, power in kW. `groups`: by factor (rack, switch, lot), the group of a node."""

    name: str
    system: str
    partition: str
    nodes: tuple[str, ...]
    seconds: float
    title: str = ""
    paths: tuple[str, ...] = ("checks",)
    names: tuple[str, ...] = ()
    mode: str = ""
    environments: tuple[str, ...] = ()
    rounds: int = 1
    concurrency: int = 256
    budget_node_hours: float | None = None
    wait_seconds: float = 24 * 3600.0
    #: How long a job may wait for a node that needs a repair, and how long it may run beyond its time limit;
    #: `of_patience` takes both from the partition's patience.
    blocked_seconds: float = 1800.0
    overrun_seconds: float = 900.0
    attempts: int = 2
    node_kw: float = 0.0
    ramp_kw_per_s: float | None = None
    in_phase: bool = False
    retest_runs: int = 2
    max_retested: int | None = None
    #: Whether a second run repeats only the checks that caused it.
    retest_suspect_checks: bool = False
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: The factor whose groups are scheduled and judged as one, such as the trays of an NVLink domain; none: each node
    #: alone.
    unit: str | None = None
    pin: str | None = None
    between: Between | None = None
    #: Variables of checks, as `reframe -S` takes them.
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Address of a node's BMC, containing {node}; the CA file of its certificate; whether the certificate is verified.
    bmc: str | None = None
    bmc_ca: Path | None = None
    bmc_verify: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def of_patience(self, patience: Patience) -> Campaign:
        """With the margins of a partition: a node that needs a repair gets three times as long as in a session, since
        the others are measured meanwhile."""
        return replace(self, blocked_seconds=3 * patience.blocked, overrun_seconds=patience.overrun)

    def unit_of(self, node: str) -> str:
        """The unit in which a node is scheduled and judged; without units the node itself."""
        return self.groups[self.unit][node] if self.unit else node

    def together(self, nodes: Iterable[str]) -> list[str]:
        """All nodes of the units of the given nodes, in the order of the file."""
        units = {self.unit_of(node) for node in nodes}
        return [node for node in self.nodes if self.unit_of(node) in units]

    @property
    def seconds_between_starts(self) -> float:
        """Seconds between the starts of two nodes that keep the site's power ramp."""
        return 0.0 if self.ramp_kw_per_s is None else self.node_kw / self.ramp_kw_per_s


def home() -> Path:
    """The folder of campaigns: $TENKEN_CAMPAIGNS, else `campaigns/` of the checkout. The state of a campaign is in a
    folder of its name next to its file.
    """
    named = os.environ.get("TENKEN_CAMPAIGNS")
    return Path(named).resolve() if named else ROOT / "campaigns"


def load(name: str) -> Campaign:
    """A campaign by name. Raises CampaignError with one line per error."""
    if not _NAME.fullmatch(name):
        raise CampaignError(f"invalid campaign name {name!r}; allowed: letters, digits, _ and -, at most 40")
    file = home() / f"{name}.yaml"
    if not file.is_file():
        known = validation.choices(name, sorted(p.stem for p in home().glob("*.yaml")))
        raise CampaignError(f"no campaign '{name}' in {home()}; {known}")
    try:
        document = yamlfile.read(file, f"{file.parent.name}/{file.name}")
        return parse(name, document, file.parent)
    except (SystemFileError, UnknownSystemError) as error:
        raise CampaignError(str(error)) from None


def parse(name: str, document: Document, folder: Path) -> Campaign:
    """Builds a campaign from a parsed file; paths in it are relative to the checkout, that of `groups` to `folder`.
    Raises SystemFileError."""
    problems = validation.shape(document, SCHEMA)
    if problems:
        raise SystemFileError(problems)
    data = document.data

    def wrong(path: tuple[str | int, ...], what: str) -> None:
        problems.append(document.problem(path, what))

    allowed = loader.names()
    system: System | None = None
    if data["system"] not in allowed:
        wrong(("system",), f"unknown system '{data['system']}'; {validation.choices(data['system'], allowed)}")
    else:
        system = loader.load(data["system"])
    if system is not None and data["partition"] not in system.partitions:
        known = validation.choices(data["partition"], sorted(system.partitions))
        wrong(("partition",), f"unknown partition '{data['partition']}' of system '{system.name}'; {known}")
    nodes = _nodes(data["nodes"], ("nodes",), wrong)
    left_out = set(map(short, _nodes(data.get("exclude", []), ("exclude",), wrong)))
    strangers = sorted(left_out - set(map(short, nodes)))
    if strangers and nodes:
        wrong(("exclude",), f"'exclude' names '{strangers[0]}', which is not among the nodes")
    kept = tuple(n for n in nodes if short(n) not in left_out)
    if nodes and not kept:
        wrong(("exclude",), "'exclude' excludes every node")
    checks = data.get("checks", {})
    for index, path in enumerate(checks.get("paths", ())):
        if not (ROOT / path).exists():
            wrong(("checks", "paths", index), f"no file or folder '{path}' in {ROOT}")
    _reach_of_budget(data, len(kept), wrong)
    groups = _groups(data, folder, kept, wrong)
    _unit(data, groups, kept, wrong)
    partition = system.partitions.get(data["partition"]) if system is not None else None
    between = _between(data, groups, kept, partition, wrong)
    redfish = data.get("redfish", {})
    _bmc(redfish, folder, kept, wrong)
    if problems:
        raise SystemFileError(sorted(problems, key=lambda p: (p.line or 0, p.what)))
    power, retest = data.get("power", {}), data.get("retest", {})
    return Campaign(
        name=name, system=data["system"], partition=data["partition"], nodes=kept, seconds=60.0 * data["minutes"],
        title=data.get("title", ""), paths=tuple(checks.get("paths", ("checks",))),
        names=tuple(checks.get("names", ())), variables=dict(checks.get("set", {})), mode=checks.get("mode", ""),
        environments=tuple(checks.get("environments", ())), rounds=data.get("rounds", 1),
        concurrency=data.get("concurrency", 256), budget_node_hours=data.get("budget_node_hours"),
        wait_seconds=3600.0 * data.get("wait_hours", 24), attempts=data.get("attempts", 2),
        node_kw=float(power.get("node_kw", 0.0)), ramp_kw_per_s=power.get("ramp_kw_per_s"),
        in_phase=power.get("in_phase", False), retest_runs=retest.get("runs", 2),
        max_retested=retest.get("max_nodes"), retest_suspect_checks=retest.get("checks") == "suspect",
        groups=groups, unit=data.get("unit"), pin=data.get("pin"),
        between=between, bmc=redfish.get("address"), bmc_ca=folder / redfish["ca"] if "ca" in redfish else None,
        bmc_verify=redfish.get("verify", True),
        environment=dict(data.get("environment", {})),
    )  # fmt: skip


def _between(
    data: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, str]],
    nodes: Sequence[str],
    partition: Partition | None,
    wrong: Any,
) -> Between | None:
    if "between" not in data:
        return None
    given = data["between"]
    leaf = given.get("leaf", "")
    if not leaf:
        if partition is not None and (partition.fabric is None or partition.fabric.topology is None):
            wrong(
                ("between",),
                f"'between' names no leaf switches: set 'fabric: {{topology: ...}}' of partition '{partition.name}' in "
                f"systems/{data['system']}.yaml, or 'between.leaf', a column of 'groups'",
            )
    elif leaf not in groups:
        if groups or "groups" not in data:  # already reported as errors of the groups
            known = validation.choices(leaf, sorted(groups)) if groups else "'groups' lists no file with such a column"
            wrong(("between", "leaf"), f"'between.leaf' is '{leaf}', which is not a column of 'groups'; {known}")
        return None
    sizes = Counter(groups[leaf].get(node, "") for node in nodes) if leaf else Counter()
    if leaf and (len(sizes) < 2 or min(sizes.values()) < 2):
        name, size = min(sizes.items(), key=lambda one: one[1], default=("", 0))
        wrong(
            ("between", "leaf"),
            f"'between.leaf': {leaf} '{name}' has {size} node{'' if size == 1 else 's'}, and there are {len(sizes)} "
            "groups; at least two groups of at least two nodes are needed",
        )
    return Between(
        leaf, given.get("program", ""), given.get("launch", ""), given.get("buffers", "host"),
        given.get("kib", 256) << 10, given.get("repetitions", 100), float(given.get("minutes", 5)),
        given.get("launch_pair", ""), given.get("partners", 2), given.get("crossing", 1),
        tuple(given.get("rails", ())),
    )  # fmt: skip


def _bmc(redfish: Mapping[str, Any], folder: Path, nodes: Sequence[str], wrong: Any) -> None:
    if not redfish:
        return
    address = redfish["address"]
    fault = fault_of_address(address)
    if fault:
        wrong(("redfish", "address"), f"'redfish.address' {fault}")
    elif "{node}" not in address and len(nodes) > 1:
        wrong(("redfish", "address"), "'redfish.address' is one BMC for all nodes; write https://{node}-bmc")
    if "ca" in redfish and not (folder / redfish["ca"]).is_file():
        wrong(("redfish", "ca"), f"'redfish.ca': no file {folder / redfish['ca']}")


def _reach_of_budget(data: Mapping[str, Any], nodes: int, wrong: Any) -> None:
    budget, needed = data.get("budget_node_hours"), nodes * data["minutes"] / 60
    if budget is not None and needed and budget < needed:
        wrong(
            ("budget_node_hours",),
            f"'budget_node_hours' is {budget:g}; one round of {nodes} nodes takes up to {needed:g}",
        )


def _unit(data: Mapping[str, Any], groups: Mapping[str, Mapping[str, str]], nodes: Sequence[str], wrong: Any) -> None:
    """Checks that the units exist and can be started together."""
    if "unit" not in data or ("groups" in data and not groups):
        return  # errors in the groups are already reported
    unit = data["unit"]
    if unit not in groups:
        known = validation.choices(unit, groups) if groups else "'groups' lists no file with such a column"
        wrong(("unit",), f"'unit' is '{unit}', which is not a column of 'groups'; {known}")
        return
    sizes = Counter(groups[unit].get(node, "") for node in nodes)
    largest, size = max(sizes.items(), key=lambda one: one[1], default=("", 0))
    concurrency, hours = data.get("concurrency", 256), size * data["minutes"] / 60
    if size > concurrency:
        wrong(
            ("concurrency",) if "concurrency" in data else ("unit",),
            f"'concurrency' is {concurrency}; the {size} nodes of {unit} '{largest}' start together",
        )
    budget = data.get("budget_node_hours")
    if budget is not None and budget < hours:
        wrong(("budget_node_hours",), f"'budget_node_hours' is {budget:g}; {unit} '{largest}' alone needs {hours:g}")


def _nodes(said: Any, path: tuple[str | int, ...], wrong: Any) -> list[str]:
    found: dict[str, str] = {}
    for index, text in enumerate([said] if isinstance(said, str) else said):
        here = path if isinstance(said, str) else (*path, index)
        try:
            names = expand(text)
        except ValueError as error:
            wrong(here, f"{path[0]}: {error}")
            continue
        for name in names:
            if short(name) in found:
                wrong(here, f"node '{name}' is listed twice in '{path[0]}'")
                break
            found[short(name)] = name
    return list(found.values())


def expand(text: str) -> list[str]:
    """`n[001-004,7],login1` as names. Raises ValueError that states what is wrong."""
    found: list[str] = []
    for part in filter(None, re.split(r",(?![^\[]*\])", text.replace(" ", ""))):
        if not re.fullmatch(r"(?:[\w.-]|\[[^\[\]]+\])+", part):
            raise ValueError(f"'{part}' names no nodes; write n0001 or n[0001-0128,0200]")
        names = [""]
        for fixed, ranges in re.findall(r"([^\[\]]*)(?:\[([^\]]*)\])?", part):
            if not fixed and not ranges:
                continue
            ends = [fixed] if not ranges else [fixed + one for one in _numbers(ranges)]
            if len(names) * len(ends) > MOST_NODES:
                raise ValueError(f"'{part}' expands to more than {MOST_NODES} nodes")
            names = [name + end for name in names for end in ends]
        if not all(re.fullmatch(r"[A-Za-z0-9][\w.-]*", n) for n in names):
            raise ValueError(f"'{part}' names no nodes; write n0001 or n[0001-0128,0200]")
        found += names
    if len(found) > MOST_NODES:
        raise ValueError(f"'{text[:60]}' expands to more than {MOST_NODES} nodes")
    return found


def _numbers(ranges: str) -> list[str]:
    found = []
    for one in ranges.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", one)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise ValueError(f"'[{ranges}]' is not a range; write [0001-0128] or [1,3-5]")
        last = int(match[2] or match[1])
        if last - int(match[1]) >= MOST_NODES:
            raise ValueError(f"'[{ranges}]' expands to more than {MOST_NODES} nodes")
        found += [str(n).zfill(len(match[1])) for n in range(int(match[1]), last + 1)]
    return found


def _groups(data: Mapping[str, Any], folder: Path, nodes: tuple[str, ...], wrong: Any) -> dict[str, dict[str, str]]:
    """Read from a CSV file with a column `node` and one per factor."""
    if "groups" not in data:
        return {}
    file = folder / data["groups"]
    try:
        found = node_groups.read(file)
    except node_groups.GroupsError as error:
        wrong(("groups",), f"'groups': {error}")
        return {}
    known = next(iter(found.values()), {})
    missing = [n for n in nodes if short(n) not in known]
    if missing:
        wrong(("groups",), f"'groups': {file} has no line for node '{missing[0]}' ({len(missing)} are missing)")
        return {}
    return {factor: {node: of[short(node)] for node in nodes} for factor, of in found.items()}
