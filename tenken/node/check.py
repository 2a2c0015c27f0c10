"""One check: read, judge, measure, judge again, remember. All access to the machine goes through `Machine`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenken.node import brake, expect, host, measure, state
from tenken.node.gpus import LIBRARY, Nvml
from tenken.node.measure import Measured
from tenken.node.probe import Answer, Probe, Say, run
from tenken.node.state import StateError
from tenken.node.verdict import BAD, KEPT, NOTE, ORDER, PREFIX, UNSURE, Finding, Seen, findings, low, status

#: Share of the seconds available for reading. NVML alone needs 2 s to start on eight GPUs without persistence mode.
READING = 0.5
#: Kept for the verdict, the state file and the output.
RESERVE_S = 0.3
#: Bad readings are repeated after this pause, since a finished job takes a moment to exit, as does a link to train.
PAUSE_S = 1.0


@dataclass
class Machine:
    """Sources of the node's readings: tests replace them."""

    root: Path = host.ROOT
    nvml: Any = LIBRARY
    log: Path | None = None
    run: brake.Runner | None = None
    """Runs a scheduler's commands; None: as `drain` of the expectation file states."""
    sleep: Callable[[float], None] = time.sleep
    name: str = field(default_factory=lambda: os.uname().nodename.partition(".")[0])
    privileged: bool = field(default_factory=lambda: os.geteuid() == 0)
    steps: Sequence[measure.Step] = measure.STEPS


@dataclass
class Outcome:
    """What a check says."""

    node: str
    findings: list[Finding]
    seconds: float = 0.0
    values: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    """Seconds of each measuring program."""
    unknown: list[str] = field(default_factory=list)
    gpus: int = 0
    braked: str = ""
    """Why a bad node was not drained."""
    readings: dict[str, Any] = field(default_factory=dict)
    """What becomes the last good state."""

    @property
    def status(self) -> int:
        """0, 1 or 2; a bad node that the brake keeps in service is 2."""
        found = status(self.findings)
        return 2 if found == 1 and self.braked else found

    @property
    def line(self) -> str:
        """One line: the worst finding, or the number of values read."""
        if self.status:
            return min(self.findings, key=lambda one: ORDER.index(one.severity)).line
        return f"tenken: good: {self.gpus} GPUs, {len(self.values)} values measured, {len(self.unknown)} unknown"


def probes(machine: Machine, wanted: Mapping[str, Any]) -> dict[str, Probe]:
    """All readings, each in a separate child."""

    def gpus(say: Say) -> bool:
        say("driver")
        nvml = Nvml(machine.nvml)
        if nvml.why:
            say("driver", {"why": nvml.why, "code": nvml.code})
            return True
        system = nvml.system()
        say("driver", system)
        for index in range(system["count"] or 0):
            say(f"gpu {index}")
            say(f"gpu {index}", nvml.gpu(index))
        return True

    def bus(say: Say) -> Any:
        return host.bus_errors(host.gpus_on_bus(machine.root), machine.root)

    def file_system(one: Mapping[str, Any]) -> Probe:
        def read(say: Say) -> Any:
            say(one["path"])
            return host.file_system(dict(one), machine.root)

        return read

    found: dict[str, Probe] = {
        "gpus": gpus,
        "host": lambda say: host.read(say, machine.root, machine.log),
        "bus": bus,
    }
    return found | {f"file system {one['path']}": file_system(one) for one in wanted.get("file_systems", [])}


def check(
    machine: Machine, wanted: Mapping[str, Any], last: Mapping[str, Any] | None, seconds: float = 10.0,
    mine: frozenset[int] | str | None = None, job: str = "", measuring: bool = True,
) -> Outcome:  # fmt: skip
    """Reads, judges and measures within `seconds`. `mine`: GPUs of this job or idle ones, `all`, None: not stated."""
    began = time.monotonic()
    outcome, answers, mine = _read(machine, wanted, last, seconds * READING, mine)
    read = time.monotonic() - began
    bad = any(one.severity == BAD for one in outcome.findings)
    if bad and not any(one.hung for one in answers.values()) and 2 * read + PAUSE_S + RESERVE_S < seconds:
        machine.sleep(PAUSE_S)
        outcome, answers, mine = _read(machine, wanted, last, seconds - (time.monotonic() - began) - RESERVE_S, mine)
    gpus = _gpus(answers)
    if measuring and not any(one.severity == BAD for one in outcome.findings):
        busy = occupied(gpus, mine, answers["host"].value or {}, job)
        idle = [gpu for gpu in gpus if mine is None or gpu["index"] in mine]
        if busy:
            outcome.left_out["all"] = busy
        elif "programs" not in wanted:
            outcome.left_out["all"] = "no programs: the expectation file names no folder"
        else:
            _measure(machine, wanted, last, outcome, idle, began + seconds - RESERVE_S)
    outcome.findings.sort(key=lambda one: ORDER.index(one.severity))
    outcome.seconds = time.monotonic() - began
    return outcome


def _gpus(answers: Mapping[str, Answer]) -> list[Any]:
    return [part for name, part in answers["gpus"].parts.items() if name != "driver"]


def _read(
    machine: Machine, wanted: Mapping[str, Any], last: Mapping[str, Any] | None, seconds: float,
    mine: frozenset[int] | str | None,
) -> tuple[Outcome, dict[str, Answer], frozenset[int] | None]:  # fmt: skip
    answers = run(probes(machine, wanted), seconds)
    gpus = _gpus(answers)
    if mine == "all":
        mine = frozenset(gpu["index"] for gpu in gpus)
    assert not isinstance(mine, str)
    seen = Seen(wanted, last, answers, time.time(), mine, seconds, machine.privileged)
    outcome = Outcome(machine.name, findings(seen), gpus=len(gpus), unknown=unknown(answers))
    outcome.readings = readings(answers, seen.now, last)
    return outcome, answers, mine


def occupied(
    gpus: Sequence[Mapping[str, Any]], mine: frozenset[int] | None, host_read: Mapping[str, Any], job: str
) -> str:
    """Why nothing may be measured: another job or user is active. Empty: none was found."""
    # PBS's groups of version 2 leave out the server's name
    others = [one for one in host_read.get("jobs") or [] if one != job and not job.startswith(f"{one}.")]
    if others:
        return f"job {others[0]} is on the node"
    for gpu in gpus:
        if gpu.get("uuid") is None or gpu.get("processes") is None:
            return f"processes of gpu {gpu['index']} cannot be read"
        if gpu["processes"] and (mine is None or gpu["index"] not in mine):
            return f"gpu {gpu['index']} is in use"
        if gpu.get("mig"):
            return f"gpu {gpu['index']} is partitioned (MIG)"
    return ""


def _measure(
    machine: Machine, wanted: Mapping[str, Any], last: Mapping[str, Any] | None, outcome: Outcome,
    idle: Sequence[Mapping[str, Any]], until: float,
) -> None:  # fmt: skip
    folder, history = Path(wanted["programs"]), dict((last or {}).get("measured") or {})
    first = measure.run(folder, idle, until, machine.steps)
    outcome.findings += _of_programs(first)
    outcome.values, outcome.left_out, outcome.took = first.values, first.left_out, first.seconds
    slow = dict(low(first.values, wanted, history))
    if slow:
        # measured again before it is reported: something else may have run for a moment
        programs = {name.partition(".")[0] for name in slow}
        again = measure.run(folder, idle, until, [s for s in machine.steps if s.program in programs])
        outcome.findings += _of_programs(again)
        still = dict(low(again.values, wanted, history))
        for name, reason in slow.items():
            device, metric = _named(name)
            if name in still:
                outcome.findings.append(Finding(BAD, device, f"{metric} {still[name]}"))
            elif name in again.values:
                outcome.findings.append(Finding(NOTE, device, f"{metric} {reason}; good when repeated"))
            else:
                outcome.findings.append(Finding(UNSURE, device, f"{metric} {reason}; no time to repeat"))
        outcome.values = first.values | again.values
    kept = {name: [*history.get(name, []), value][:KEPT] for name, value in outcome.values.items()}
    outcome.readings["measured"] = history | kept


def _of_programs(measured: Measured) -> list[Finding]:
    return [
        # a program may be slow for many reasons; if it hangs the driver, the next reading shows it
        *(Finding(UNSURE, name, "did not end in time") for name in measured.hung),
        *(Finding(BAD, name, f"wrong result: {reason}") for name, reason in measured.wrong.items()),
    ]


def _named(name: str) -> tuple[str, str]:
    """Device and metric of `stream.triad.gpu0`."""
    program, metric, subject = name.split(".")[:3]
    return subject.replace("gpu", "gpu "), f"{program} {metric}"


def readings(answers: Mapping[str, Answer], now: float, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """What becomes the node's last good state if it is good."""
    return {
        "schema": expect.SCHEMA,
        "time": now,
        "driver": (answers["gpus"].parts.get("driver") or {}).get("driver"),
        "gpus": _gpus(answers),
        "host": answers["host"].value,
        "bus": answers["bus"].value,
        "measured": dict((last or {}).get("measured") or {}),
        "returns": list((last or {}).get("returns") or []),
    }


#: Readings of a GPU that are counters.
_COUNTERS = ("ecc_corrected", "ecc_uncorrected", "ecc_uncorrected_life", "pcie_replay", "pcie_errors", "nvlink_errors")


def recounted(last: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The last good state with the current counters: what a fault counted before its repair no longer matters.
    Configuration (GPUs, links, rates, memory, settings) and measured values remain those of the last good state."""
    new = {gpu.get("uuid"): gpu for gpu in now["gpus"]}
    gpus = [
        gpu | {key: new[gpu["uuid"]][key] for key in _COUNTERS} if new.get(gpu.get("uuid")) else gpu
        for gpu in last.get("gpus") or []
    ]
    host_now, host_then = now.get("host") or {}, last.get("host") or {}
    ports = {
        name: port | {"counters": (host_now.get("ports") or {}).get(name, port)["counters"]}
        for name, port in (host_then.get("ports") or {}).items()
    }
    kept = host_then | {key: host_now.get(key) for key in ("boot", "mce", "edac", "log")} | {"ports": ports}
    return dict(last) | {"gpus": gpus, "host": kept, "bus": now.get("bus"), "time": now["time"]}


def unmeasured(reason: str, outcome: Outcome) -> str:
    """Why a node was drained, if that reason needs a measurement that this check did not make; empty if it was
    measured, or if reading is enough (a port, a file system)."""
    subjects = {part for name in outcome.values for part in name.split(".")[2].split("-")}
    for number in re.findall(r"\bgpu ?(\d+)\b", reason, re.IGNORECASE):
        if f"gpu{number}" not in subjects:
            return f"gpu {number}"
    of_host = re.match(rf"{PREFIX}(host|memory)\b", reason)
    return of_host[1] if of_host and "host" not in subjects else ""


def unknown(answers: Mapping[str, Answer]) -> list[str]:
    """Names of all failed readings."""

    def walk(value: Any, at: str) -> list[str]:
        if value is None:
            return [at]
        if isinstance(value, dict):
            return [name for key, inner in value.items() for name in walk(inner, f"{at}.{key}" if at else key)]
        return []

    found = [name for key, part in answers["gpus"].parts.items() if key != "driver" for name in walk(part, key)]
    found = [name for name in found if not name.endswith(".lost")]
    for name in ("host", "bus"):
        found += walk(answers[name].value, name)
    return found


def remember(path: Path, outcome: Outcome, accept: bool = False) -> Finding | None:
    """Makes the readings the last good state if nothing was found, or an operator accepts them."""
    if outcome.status and not accept:
        return None
    try:
        state.write(path, outcome.readings)
    except StateError as error:
        return Finding(UNSURE, "state file", str(error))
    return None


def apply_brake(machine: Machine, wanted: Mapping[str, Any], outcome: Outcome, draining: bool) -> None:
    """Drains a bad node if a scheduler is configured, or states why not."""
    configured = wanted.get("drain")
    if status(outcome.findings) != 1:
        return
    if configured is None:
        # a prolog that ends with 1 drains the node, so only if the site set a share
        outcome.braked = "`drain` is not in the expectation file: not drained" if draining else ""
        return
    share, partition = configured.get("share", brake.SHARE), configured.get("partition", "")
    command = machine.run or brake.runner(configured)
    if draining and configured["scheduler"] == "slurm":
        outcome.braked = (
            brake.drain(machine.name, outcome.findings[0].line, partition, share, command, machine.sleep) or ""
        )
    else:
        found = brake.READERS[configured["scheduler"]](partition, command)
        outcome.braked = brake.holds(found, machine.name, share, time.time()) or ""
