"""Findings of a campaign: figures and configurations of all nodes compared, and nodes without a result."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import comb
from pathlib import Path

import numpy as np

from tenken.archive import records as archive
from tenken.campaign import configuration, screening, spool
from tenken.campaign.file import Campaign
from tenken.campaign.journal import Chosen, State, Unit
from tenken.campaign.redfish import Hardware
from tenken.campaign.screening import Effect, Figure, Fleet, Suspect
from tenken.errors import ArchiveError
from tenken.model import verdicts
from tenken.model.catalogue import Program, load_catalogue
from tenken.model.record import Record

#: Spread between healthy devices by what limits a metric: memory bandwidth of one lot is within 0.3 %; metrics at a
#: power cap differ by several percent, mostly because of temperature and leakage.
MEMORY, POWER, OTHER = 0.003, 0.03, 0.005
#: Share of nodes or devices that must agree before one that lacks something, or has something else, deviates.
_MAJORITY = 0.6
_COUNTED = (verdicts.PASS, verdicts.RECORDED, verdicts.FAIL)
Device = tuple[str, str]


@dataclass
class Findings:
    """`named`: (kind, name), with the suspicions that a second run confirmed; `not_again`: those that it did not
    confirm; `failed`: missed criteria by node; `lost`: units without a result, with the reason.
    """

    named: list[Suspect] = field(default_factory=list)
    not_again: list[Suspect] = field(default_factory=list)
    #: Those in `not_again` without a value from a second run.
    unrepeated: list[Suspect] = field(default_factory=list)
    odd: list[configuration.Odd] = field(default_factory=list)
    mixed: list[configuration.Mixed] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    #: Checks without a valid measurement on a node, by node, although the majority of nodes has one.
    invalid: dict[str, list[str]] = field(default_factory=dict)
    #: Checks without a valid result on the majority of nodes, with these nodes: none of them is reported for it.
    common: list[str] = field(default_factory=list)
    unjudged: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    #: Parts that a BMC reports to be at fault, by node, and BMCs that could not be read.
    hardware: dict[str, list[str]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    spreads: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    sessions: list[str] = field(default_factory=list)
    tested: int = 0
    nodes: int = 0
    node_hours: float = 0.0
    damaged: list[str] = field(default_factory=list)
    #: Nodes without a result and without any other finding: no reason to take them out of service.
    unstarted: set[str] = field(default_factory=set)
    #: Nodes by the unit that is judged, if that is not the node itself.
    units: dict[str, list[str]] = field(default_factory=dict)

    def bad_nodes(self) -> dict[str, list[str]]:
        """Nodes that should be taken out of service, with the reasons."""
        found: dict[str, list[str]] = {}
        for one in self.named:
            if one.kind in ("device", "node"):
                node = one.name.split(" ")[0]
                words = f"{one.name}: {one.figure} {100 * one.worse:.1f} % worse than the fleet"
                found.setdefault(node, []).append(words)
        for odd in self.odd:
            found.setdefault(odd.name.split(" ")[0], []).append(odd.sentence())
        for text in self.missing:
            found.setdefault(text.split(" ")[0].rstrip(":"), []).append(text)
        for node, missed in self.failed.items():
            found.setdefault(node, []).extend(missed)
        for node, checks in self.invalid.items():
            found.setdefault(node, []).extend(checks)
        for node, faults in self.hardware.items():
            found.setdefault(node, []).extend(faults)
        for node, why in self.lost.items():
            found.setdefault(node, []).append(f"no result: {why}")
        return found

    def to_exclude(self) -> dict[str, list[str]]:
        """Those whose reason is the node itself: a campaign that was killed proves nothing about nodes it did not
        reach."""
        return {n: whys for n, whys in self.bad_nodes().items() if len(whys) > 1 or n not in self.unstarted}

    def share(self, confidence: float = 0.95) -> float:
        """Lower confidence bound of the share of such nodes (or units) in order (Clopper and Pearson)."""
        of = len(self.units) or self.nodes
        return lower_share(of - len(self.bad_units() if self.units else self.not_in_order()), of, confidence)

    def not_in_order(self) -> set[str]:
        """Nodes that are not accepted: those with a finding of their own, and those that a check could not judge."""
        return {*self.bad_nodes(), *self.unjudged}

    def bad_units(self) -> dict[str, list[str]]:
        """Units that contain a node that is not in order, with these nodes."""
        bad = self.not_in_order()
        found = {unit: [n for n in nodes if n in bad] for unit, nodes in self.units.items()}
        return {unit: nodes for unit, nodes in found.items() if nodes}


def lower_share(good: int, of: int, confidence: float) -> float:
    """The minimum share p for which this number of good ones is not improbable."""
    if of == 0 or good == 0:
        return 0.0
    low, high = 0.0, good / of
    for _ in range(60):
        p = (low + high) / 2
        if _at_least(good, of, p) > 1 - confidence:
            high = p
        else:
            low = p
    return low


def _at_least(good: int, of: int, p: float) -> float:
    bad = of - good
    if bad <= 60:
        return float(sum(comb(of, k) * (1 - p) ** k * p ** (of - k) for k in range(bad + 1)))
    # with many bad ones the normal approximation is close
    spread = np.sqrt(of * p * (1 - p))
    from statistics import NormalDist

    return 1 - NormalDist().cdf((good - 0.5 - of * p) / spread) if spread else float(p >= 1)


class Table:
    """Values by metric and device, one per run."""

    def __init__(self, catalogue: Mapping[str, Program]) -> None:
        self.catalogue = catalogue
        self.values: dict[str, dict[str, dict[Device, dict[tuple[str, int], float]]]] = {}
        #: When a check ran on a node, in seconds, by check, node and run; and the power and temperature of each GPU
        #: before it was loaded.
        self.times: dict[tuple[str, str, tuple[str, int]], float] = {}
        self.before: dict[tuple[str, str, tuple[str, int]], dict[str, tuple[float, float]]] = {}
        self.check: dict[str, str] = {}
        #: Nodes with a record, with a valid one of a check, and the messages of the invalid ones, by check and node.
        self.nodes: set[str] = set()
        self.valid: dict[str, set[str]] = {}
        self.invalid: dict[str, dict[str, list[str]]] = {}
        self.higher: dict[str, bool] = {}
        self.spread: dict[str, float] = {}
        self.settings: dict[str, dict[Device, dict[str, object]]] = {"host": {}, "gpu": {}}

    def take(self, record: Record, unit: Unit) -> None:
        result, run = record.result, (unit.purpose, unit.number)
        self.nodes.add(unit.node)
        if record.verdict == verdicts.INVALID:
            self.invalid.setdefault(record.check, {}).setdefault(unit.node, []).append(_why(record, unit.node))
        if result is None or record.verdict not in _COUNTED:
            return
        self.valid.setdefault(record.check, set()).add(unit.node)
        program = self.catalogue.get(record.program)
        when = (record.check, unit.node, run)
        with contextlib.suppress(ValueError):
            self.times[when] = datetime.fromisoformat(record.time.replace("Z", "+00:00")).timestamp()
        if any(metric.kind == "gpu" and "FLOP" in metric.unit for metric in result.metrics):
            self.before[when] = {
                f"GPU {one.index}": (one.before.power_w, one.before.temperature_c)
                for one in (result.health.devices if result.health else ())
                if one.before.power_w is not None and one.before.temperature_c is not None
            }
        for metric in result.metrics:
            if metric.kind not in ("host", "gpu"):
                continue
            about = program.metrics.get(metric.name) if program else None
            if metric.at and (program is None or metric.name not in program.key):
                continue  # a point of a sweep that is not used for judging
            if about is not None and not about.across:
                continue
            name = f"{record.check} {metric.name}{metric.at.id}"
            device = (unit.node, "" if metric.kind == "host" else metric.place)
            of_figure = self.values.setdefault(metric.kind, {}).setdefault(name, {})
            of_figure.setdefault(device, {})[run] = metric.value
            self.check[name] = record.check
            self.higher[name] = metric.direction == "higher"
            bound = about.data_sheet if about else None
            self.spread[name] = MEMORY if bound == "memory" else POWER if "FLOP" in metric.unit else OTHER
        host = result.host
        if host is not None:
            here = self.settings["host"].setdefault((unit.node, ""), {})
            memory = None if host.memory_bytes is None else f"{host.memory_bytes / 2**30:.0f} GiB"
            here.update(
                {
                    "operating system": host.os, "kernel": host.kernel, "CPU": host.cpu, "sockets": host.sockets,
                    "cores": host.cores, "logical CPUs": host.logical_cpus, "NUMA nodes": host.numa_nodes,
                    "memory": memory, "firmware": host.firmware,
                }
            )  # fmt: skip
        for gpu in result.devices:
            place = self.settings["gpu"].setdefault((unit.node, f"GPU {gpu.index}"), {})
            place.update(
                {
                    "name": gpu.name, "driver": gpu.driver, "CUDA driver": gpu.cuda_driver, "VBIOS": gpu.vbios,
                    "memory": f"{gpu.memory_bytes / 2**30:.0f} GiB", "multiprocessors": gpu.multiprocessors,
                    "maximum memory clock": gpu.memory_clock_max_mhz,
                    **{label: getattr(gpu, key) for key, label in _OF_A_GPU},
                }
            )  # fmt: skip

    def never_valid(self, check: str) -> dict[str, list[str]]:
        """Nodes on which no run of a check was valid, with the result of each."""
        good = self.valid.get(check, set())
        return {node: whys for node, whys in self.invalid.get(check, {}).items() if node not in good}

    def take_configuration(self, told: Mapping[str, Mapping[str, str]], unit: Unit) -> None:
        """The configuration that a node's job read; the last one counts."""
        for place, items in told.items():
            kind, at = ("host read", "") if place == "host" else ("gpu read", place)
            self.settings.setdefault(kind, {})[(unit.node, at)] = dict(items)

    def conditions(
        self, name: str, devices: Sequence[Device], rounds: int, racks: Mapping[str, str]
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """When a metric was measured on each device, and covariates that are not a fault of the device. Under a power
        cap these are its leakage, estimated from idle power, and the air temperature of its rack (of its node if racks
        are unknown). The device's own temperature is excluded: a GPU that is hot because its cooler is defective must
        be found."""
        check, runs = self.check[name], [("round", n + 1) for n in range(rounds)]
        nodes = dict.fromkeys(node for node, _ in devices)
        of_node = {node: _median(self.times.get((check, node, run), math.nan) for run in runs) for node in nodes}
        times = np.array([of_node[node] for node, _ in devices])
        if self.spread[name] != POWER:
            return times, ()
        found = np.full((2, len(devices)), np.nan)
        for at, (node, place) in enumerate(devices):
            seen = [b[place] for run in runs if place in (b := self.before.get((check, node, run), {}))]
            if seen:
                found[:, at] = np.mean(seen, axis=0)
        _, place_of = np.unique([racks.get(node, node) for node, _ in devices], return_inverse=True)
        air = np.array([_median(found[1][place_of == one]) for one in range(place_of.max() + 1)])[place_of]
        return times, tuple(c for c in (found[0], air) if np.isfinite(c).any())


#: What else a result may state about the configuration of a GPU.
_OF_A_GPU = (
    ("ecc_enabled", "ECC"), ("mig_enabled", "MIG"), ("sm_clock_max_mhz", "maximum SM clock"),
    ("pcie_generation_max", "PCIe generation"), ("pcie_width_max", "PCIe width"), ("nvlinks_active", "NVLinks active"),
    ("nvlinks_total", "NVLinks"), ("compute_capability", "compute capability"),
)  # fmt: skip


def read(state: State, root: Path, campaign: Campaign) -> tuple[Table, Findings]:
    """Metrics and verdicts of everything gathered."""
    table = Table(load_catalogue())
    found = Findings(nodes=len(campaign.nodes))
    for node in campaign.nodes if campaign.unit else ():
        found.units.setdefault(campaign.unit_of(node), []).append(node)
    repaired = {
        u.node for u, tried in state.by_unit.items() if u.purpose == "repair" and any(a.gathered for a in tried)
    }
    last = last_repairs(state)
    empty: dict[str, dict[str, list[str]]] = {}
    for attempt in state.attempts.values():
        if attempt.gathered is None:
            continue
        found.node_hours += float(attempt.gathered.get("seconds", 0)) / 3600
        if attempt.gathered["session"] not in found.sessions:
            found.sessions.append(attempt.gathered["session"])
        table.take_configuration(
            spool.configuration(root, attempt.gathered["session"], attempt.unit.node), attempt.unit
        )
        for name in attempt.gathered["records"]:
            try:
                record = archive.read(root / name, figures_only=True)
            except ArchiveError as error:
                found.damaged.append(str(error))
                continue
            found.verdicts[record.verdict] += 1
            unit = attempt.unit
            before = unit.node in repaired and (unit.purpose != "repair" or unit.number < last.get(unit.node, 0))
            if not before or unit.purpose != "repair":
                table.take(record, unit)
            if record.verdict == verdicts.FAIL and not before:
                if record.result is None:
                    empty.setdefault(record.check, {}).setdefault(unit.node, []).append(_why(record, unit.node))
                else:
                    first = record.findings[0].message if record.findings else "failed"
                    found.failed.setdefault(unit.node, []).append(f"{record.check}: {first}")
    found.tested = len({u.node for u in state.by_unit if state.done(u)})
    for check, nodes in empty.items():
        if not _of_most(check, nodes, "failed without a result", table, found):
            for node, all_ in nodes.items():
                found.failed.setdefault(node, []).extend(f"{check}: {why}" for why in all_)
    for node in campaign.nodes:
        wanted = [Unit(node, "round", n + 1) for n in range(campaign.rounds)]
        missing = [u for u in wanted if not state.done(u)]
        if missing and node not in repaired:
            why = [a.ended for u in missing for a in state.tried(u) if a.ended]
            found.lost[node] = why[-1] if why else "it was never started"
            if all(_NOT_OF_NODE.search(one) for one in why):
                found.unstarted.add(node)
    return table, found


#: Why an attempt without a result is no evidence about its node: it was never submitted, or its scheduler forgot it.
_NOT_OF_NODE = re.compile(r"never entered the queue|never began \(no longer listed\)|did not start within|already been")


def _why(record: Record, node: str) -> str:
    """A record's first finding, without the node's name at the beginning."""
    return (record.findings[0].message if record.findings else record.verdict).removeprefix(f"{node}: ")


def _of_most(check: str, nodes: Mapping[str, Sequence[str]], what: str, table: Table, found: Findings) -> bool:
    """Whether the majority of the tested nodes has it. The cause is then the check, the build or the environment, not
    one node, and this is noted."""
    tested = len(table.nodes)
    if tested <= 2 or len(nodes) < _MAJORITY * tested:
        return False
    (why, count), *_ = Counter(all_[0] for all_ in nodes.values()).most_common(1)
    often = f"; on {count} of them" if len(nodes) > count > 1 else ""
    found.common.append(f"{check}: {what} on {len(nodes)} of {tested} nodes{often}: {why}")
    found.unjudged |= set(nodes)
    return True


def take_hardware(table: Table, found: Findings, hardware: Mapping[str, Hardware], campaign: Campaign) -> None:
    """Adds what the BMCs of the nodes reported; must precede `judge`, which compares it."""
    for node in campaign.nodes:
        one = hardware.get(node)
        if one is None:
            continue
        if one.error:
            found.unread[node] = one.error
        else:  # nothing can be compared in a part that was not read completely
            table.settings.setdefault("BMC read", {})[(node, "")] = dict(one.items)
        if one.faults:
            found.hardware[node] = list(one.faults)


def last_repairs(state: State) -> dict[str, int]:
    """The number of the first run after a node's last repair: earlier runs do not count."""
    found: dict[str, int] = {}
    for phase in state.phases:
        units = [Unit.of(text) for text in phase["units"]]
        for node in {u.node for u in units if u.purpose == "repair"}:
            found[node] = min(u.number for u in units if u.node == node and u.purpose == "repair")
    return found


def judge(table: Table, found: Findings, campaign: Campaign) -> None:
    """Puts the deviating nodes into `found`; needs `read`."""
    repaired: set[str] = set()
    for kind, figures in sorted(table.values.items()):
        devices = sorted({d for of in figures.values() for d in of})
        fleet = _fleet(devices, kind, campaign)
        first, again = [], {}
        for name, of in sorted(figures.items()):
            rounds, second = np.full(len(devices), np.nan), np.full(len(devices), np.nan)
            for at, device in enumerate(devices):
                runs = of.get(device, {})
                mended = [v for (purpose, _), v in runs.items() if purpose == "repair"]
                if mended:
                    repaired.add(device[0])
                once = [v for (purpose, _), v in runs.items() if purpose == "round"]
                more = [v for (purpose, _), v in sorted(runs.items()) if purpose == "retest"]
                if not once:  # the first valid measurement is that of a second run
                    once, more = more[:1], more[1:]
                rounds[at] = _median(mended or once)
                second[at] = _median(mended or more)
            times, explained_by = table.conditions(name, devices, campaign.rounds, campaign.groups.get("rack", {}))
            first.append(Figure(name, rounds, table.higher[name], table.spread[name], explained_by, times))
            again[name] = second
            there = rounds[np.isfinite(rounds)]
            if len(there) > 1:
                spread = screening.spread_of(there)
                found.spreads[f"{name} ({kind})"] = (len(there), float(np.median(there)), spread)
        screened = screening.screen(fleet, first)
        named, not_again = screening.confirm(screened.suspects, screened, again)
        found.named += named
        found.not_again += not_again
        slow, slow_once = screening.slow_in_general(fleet, first, again, table.check)
        found.named += slow
        found.not_again += slow_once
        for suspect in [*not_again, *slow_once]:
            seconds = [again[suspect.figure]] if suspect.figure in again else list(again.values())
            if not any(np.isfinite(second[list(suspect.devices)]).any() for second in seconds):
                found.unrepeated.append(suspect)
        found.effects += screened.effects
        found.missing += _absent(devices, figures, kind, table)
    for settings in table.settings.values():
        known = sorted(settings)
        odd, mixed = configuration.conformity([" ".join(filter(None, d)) for d in known], [settings[d] for d in known])
        # data reported by both the programs and the node's job are stored once
        told = {(one.name, one.item) for one in found.odd}
        found.odd += [one for one in odd if (one.name, one.item) not in told]
        items = {one.item for one in found.mixed}
        found.mixed += [one for one in mixed if one.item not in items]
    for check in table.invalid:
        never = table.never_valid(check)
        if never and not _of_most(check, never, "no valid measurement", table, found):
            for node, whys in never.items():
                tried = f"{len(whys)} run{'s' if len(whys) > 1 else ''}"
                found.invalid.setdefault(node, []).append(f"{check}: no valid measurement in {tried}: {whys[-1]}")
    found.missing += _untold(table)
    still = found.not_in_order()
    found.closed = sorted(repaired - still)


def _untold(table: Table) -> Iterator[str]:
    """Nodes that did not report their configuration although most did."""
    tested = {node for figures in table.values.values() for of in figures.values() for node, _ in of}
    told = {node for node, _ in table.settings.get("host read", {})} & tested
    if len(told) >= _MAJORITY * len(tested):
        for node in sorted(tested - told):
            yield f"{node}: did not report its configuration; {len(told)} of {len(tested)} nodes did"


def suspects(table: Table, campaign: Campaign) -> Chosen:
    """Nodes to be run a second time, with the checks that caused it; none: all checks.

    After the second runs, only nodes that they made suspect are left: a value that was INVALID in the first run can be
    compared with the others only after a valid repetition. Runs are not repeated until a suspicion is confirmed.
    """
    found = Findings()
    judge(table, found, campaign)
    reasons: dict[str, list[str | None]] = {}
    void = False
    for one in sorted(found.unrepeated, key=lambda one: one.kind not in ("device", "node")):
        alone = one.kind in ("device", "node")
        # for a deviating group, a sample of its members is enough
        for node in [one.name.split(" ")[0]] if alone else _members(table, one, campaign)[:4]:
            reasons.setdefault(node, []).append(table.check.get(one.figure))
    # disturbing conditions may be gone: it is measured again
    for node in sorted(found.invalid):
        tried = {check: len(table.never_valid(check).get(node, ())) for check in table.invalid}
        if once := [check for check, runs in tried.items() if 0 < runs <= campaign.rounds]:
            reasons.setdefault(node, []).extend(once)
            void = True
    checks_of = {
        node: () if None in checks else tuple(sorted({c for c in checks if c is not None}))
        for node, checks in reasons.items()
    }
    return Chosen(checks_of, void)


def _members(table: Table, suspect: Suspect, campaign: Campaign) -> list[str]:
    kind = next(kind for kind, figures in table.values.items() if suspect.figure in figures)
    devices = sorted({d for of in table.values[kind].values() for d in of})
    return list(dict.fromkeys(devices[i][0] for i in suspect.devices))


def _fleet(devices: Sequence[Device], kind: str, campaign: Campaign) -> Fleet:
    nodes = np.array([node for node, _ in devices])
    factors = {factor: np.array([of.get(node, "unknown") for node in nodes]) for factor, of in campaign.groups.items()}
    if kind != "gpu":
        return Fleet(nodes, factors)
    slots = np.array([place for _, place in devices])
    return Fleet(nodes, {**factors, "slot": slots}, slots)


def _median(values: Iterable[float]) -> float:
    """Of the existing ones. The median of few numbers, for which numpy takes ten times as long."""
    kept = sorted(v for v in values if math.isfinite(v))
    if not kept:
        return math.nan
    return float(kept[len(kept) // 2] + kept[(len(kept) - 1) // 2]) / 2


def _absent(
    devices: Sequence[Device], figures: Mapping[str, Mapping[Device, object]], kind: str, table: Table
) -> Iterator[str]:
    """Devices that most nodes have and one lacks, and checks with values for most devices and none for one.

    The metrics of one check may differ between nodes, since their best settings differ. Requested metrics that are
    missing are already part of the record's verdict."""
    places = Counter(place for _, place in devices)
    nodes = sorted({node for node, _ in devices})
    here = set(devices)
    for place, count in sorted(places.items()):
        if count >= _MAJORITY * len(nodes):
            for node in nodes:
                if (node, place) not in here:
                    yield f"{node} {place}: no value; {count} of {len(nodes)} nodes have them".replace("  ", " ")
    of_check: dict[str, set[Device]] = {}
    for name, of in figures.items():
        of_check.setdefault(table.check[name], set()).update(of)
    for check, there in sorted(of_check.items()):
        if len(there) >= _MAJORITY * len(devices):
            for node, place in sorted(here - there):
                if node not in table.invalid.get(check, {}) or node in table.valid.get(check, set()):
                    device = " ".join(filter(None, (node, place)))
                    yield f"{device}: no value of {check}; {len(there)} of {len(devices)} devices have one"
