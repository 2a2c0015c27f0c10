"""`tenken node`: check, accept, expect. `tenken-node` is the same without the other subcommands, and starts faster."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError
from tenken.node import brake, expect, probe, state
from tenken.node import check as checks
from tenken.node.check import Machine, Outcome
from tenken.node.state import StateError
from tenken.node.verdict import NOTE, PREFIX, UNSURE, Finding

MOST_SECONDS = 300.0
#: Number of checks of a repaired node; number of returns after the same reason from which that reason is reported.
RETURNS, REPEATED = 3, 3
#: For the files that forward a check's result: a local disk takes milliseconds.
WRITING_S = 1.0


def register(subparsers: Any) -> None:
    """Adds the subcommand `node` to the `tenken` command."""
    parser = subparsers.add_parser("node", help="check a node in the seconds before a job", epilog="docs/node-check.md")
    _options(parser)


def main(argv: Sequence[str] | None = None) -> int:
    """`tenken-node`: exit status 2 whenever the state is unknown, also for wrong arguments, so that they never drain a
    node."""
    parser = argparse.ArgumentParser(prog="tenken-node", description="Check a node in the seconds before a job.")
    _options(parser)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.func(arguments))
    except TenkenError as error:
        print(f"tenken: {error}")  # where the hooks look for a reason
    except Exception as error:  # a mistake of ours is not a fault of the node: 1 would drain it
        print(f"tenken: node check failed: {type(error).__name__}: {error}", file=sys.stderr)
    return 2


def _options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="read, compare, measure: 0 good, 1 bad (one line names it), 2 not known",
        epilog="example: tenken node check --gpus 0,1 --seconds 3",
    )
    _common(check)
    check.add_argument("--job", default="", help="id of the job on these GPUs; nothing is measured next to another job")
    check.add_argument("--node", metavar="NAME", help="its name in the scheduler (default: the host name's first part)")
    check.add_argument("--no-measure", action="store_true", help="read only")
    check.add_argument("--drain", action="store_true", help="drain as the file's `drain` allows (Slurm: at once)")
    check.add_argument("--json", action="store_true", help="print all findings, values and unknown readings")
    check.set_defaults(func=run_check)
    accept = actions.add_parser("accept", help="take the node's present state as good: after a repair or an update")
    _common(accept)
    accept.set_defaults(func=run_accept)
    back = actions.add_parser("return", help="after a repair: check several times, then print how the node is resumed")
    back.add_argument("node", metavar="NODE", help="name of this node in the scheduler")
    _common(back)
    back.set_defaults(func=run_return)
    made = actions.add_parser("expect", help="print the expectation file that follows from a system file")
    made.add_argument("--system", required=True)
    made.add_argument("--partition", required=True)
    made.set_defaults(func=run_expect)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=_seconds, default=10.0, help="deadline for everything together (default 10)")
    parser.add_argument(
        "--gpus", type=_gpus, metavar="LIST", help="GPUs that are this job's or idle: all, or NVML indices as 0,2-3"
    )
    parser.add_argument("--expect", type=Path, default=expect.FILE, metavar="FILE", help=f"default {expect.FILE}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1 to {MOST_SECONDS:g}")
    return seconds


def _gpus(text: str) -> frozenset[int] | str | None:
    """`all`, or numbers and ranges; empty for a job without GPUs. What schedulers write: Slurm `0,2`, `0-3`."""
    if text in ("", "all"):
        return text or frozenset()
    if not re.fullmatch(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*", text):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: all, or numbers and ranges as 0,2-3")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def run_check(arguments: argparse.Namespace, machine: Machine | None = None) -> int:
    """Runs `tenken node check`: 0, 1 or 2."""
    machine = machine or _this_machine()
    machine.name = arguments.node or machine.name
    refused = []
    wanted: dict[str, Any] = {}
    last = None
    try:
        wanted = expect.load(arguments.expect)
    except StateError as error:
        refused.append(Finding(UNSURE, "expectation", str(error)))
    path = Path(wanted.get("state", expect.STATE))
    try:
        last = _state(path)
    except StateError as error:
        refused.append(Finding(UNSURE, "state file", str(error)))
    outcome = checks.check(
        machine, wanted, last, arguments.seconds, arguments.gpus, arguments.job, not arguments.no_measure
    )
    outcome.findings += refused
    with state.alone(path) as alone:
        # a user without write access to the state only reads it
        if not refused and alone and os.access(path.parent, os.W_OK) and (failed := checks.remember(path, outcome)):
            outcome.findings.append(failed)
    checks.apply_brake(machine, wanted, outcome, arguments.drain)
    outcome.findings += _carried_out(wanted, outcome)
    _print(outcome, arguments.json)
    return outcome.status


def _this_machine() -> Machine:
    """Raises StateError if root would run what others could have changed. From here on, the environment contains
    nothing from the job."""
    if os.geteuid() == 0:
        if why := state.process(os.environ, sys.path):
            raise StateError(f"not run by root: {why}")
        os.environ.clear()
        os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C")
    return Machine()


def _carried_out(wanted: Mapping[str, Any], outcome: Outcome) -> list[Finding]:
    """Writes node_exporter's textfile, and the archive line of a check that measured or found something. What cannot be
    written is a note: the verdict is unchanged."""
    places: dict[str, probe.Probe] = {}
    if "prometheus" in wanted and _may_write(Path(wanted["prometheus"]).parent):
        file = Path(wanted["prometheus"])
        places["prometheus"] = lambda say: state.write_text(file, prometheus(outcome))
    if "archive" in wanted and (outcome.values or outcome.status) and _may_write(Path(wanted["archive"])):
        from tenken.node import trend  # digests: imported only when needed, for a fast start

        about = (outcome.node, outcome.status, outcome.line, outcome.readings["time"], outcome.values)
        places["archive"] = lambda say: trend.append(wanted, *about)
    found = []
    for name, answer in probe.run(places, WRITING_S).items():
        if answer.hung or answer.error:
            why = answer.error.partition(": ")[2] or f"no answer within {WRITING_S:g} s"
            found.append(Finding(NOTE, name, f"not written: {why}"))
    return found


def _may_write(folder: Path) -> bool:
    """A user without write access only reads; root is told why it could not write. What is missing is created."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return os.geteuid() == 0 or os.access(there, os.W_OK)


def _state(path: Path) -> dict[str, Any] | None:
    last = state.read(path)
    if last is not None and (not isinstance(last, dict) or last.get("schema") != expect.SCHEMA):
        raise StateError(f"{path}: not a state of {expect.SCHEMA}; tenken node accept writes a new one")
    return last


def run_accept(arguments: argparse.Namespace, machine: Machine | None = None) -> int:
    """Runs `tenken node accept`: 0, or 1 if something is bad regardless of the last state."""
    wanted = expect.load(arguments.expect)
    outcome = checks.check(machine or _this_machine(), wanted, None, arguments.seconds, arguments.gpus, measuring=False)
    path = Path(wanted.get("state", expect.STATE))
    failed = checks.remember(path, outcome, accept=True)
    if failed:
        raise StateError(failed.reason)
    for one in outcome.findings:
        print(one.line)
    print(f"tenken: {path}: the present state is the good one: {outcome.gpus} GPUs; measured values are discarded")
    return 1 if outcome.status == 1 else 0


def run_return(arguments: argparse.Namespace, machine: Machine | None = None) -> int:
    """Runs `tenken node return`: 0 if the node may be resumed, 1 if it is bad, 2 if unknown."""
    machine = machine or _this_machine()
    wanted = expect.load(arguments.expect)
    path = Path(wanted.get("state", expect.STATE))
    last = _state(path)
    configured = wanted.get("drain", {})
    scheduler = configured.get("scheduler", "")
    command = machine.run or brake.runner(configured)
    reason = brake.reason(scheduler, arguments.node, command) if scheduler else ""
    if last is None:
        raise StateError(f"{path}: no good state to compare with; tenken node accept makes one")
    # counts from before the repair no longer matter, only further increases
    before = checks.check(machine, wanted, last, arguments.seconds, arguments.gpus, measuring=False)
    known = checks.recounted(last, before.readings)
    outcome = before
    for number in range(1, RETURNS + 1):
        outcome = checks.check(machine, wanted, known, arguments.seconds, arguments.gpus or "all")
        print(f"{number} of {RETURNS}: {outcome.line}")
        for name, why in outcome.left_out.items():
            print(f"not measured: {name}: {why}")
        if outcome.status:
            return outcome.status
        if missing := checks.unmeasured(reason, outcome):
            print(f"tenken: {missing} was the reason and was not measured: not resumed")
            return 2
    cause = re.sub(r"\d+", "N", reason.removeprefix(PREFIX))
    returns = [*known.get("returns", []), [outcome.readings["time"], cause, reason]]
    times = sum(1 for _, one, _ in returns if one == cause)
    outcome.readings["returns"] = returns
    if failed := checks.remember(path, outcome):
        raise StateError(failed.reason)
    if reason and times >= REPEATED:
        print(f"tenken: recurring fault: returned {times} times after: {reason}")
    print(f"tenken: good {RETURNS} times: resume with: {brake.resume(scheduler, arguments.node)}")
    return 0


def run_expect(arguments: argparse.Namespace) -> int:
    """Runs `tenken node expect`."""
    print(json.dumps(expect.of_system(arguments.system, arguments.partition), indent=2))
    return 0


def _print(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        print(json.dumps(document(outcome)))
        return
    print(outcome.line)
    for one in outcome.findings:
        if outcome.status and one.line == outcome.line:
            continue
        print(f"{one.severity}: {one.device}: {one.reason}", file=sys.stderr)
    if outcome.braked:
        print(f"tenken: {outcome.braked}", file=sys.stderr)
    for name, reason in outcome.left_out.items():
        print(f"not measured: {name}: {reason}", file=sys.stderr)


def document(outcome: Outcome) -> dict[str, Any]:
    """What --json prints."""
    return {
        "schema": "tenken-node-check/1",
        "node": outcome.node,
        "time": outcome.readings.get("time"),
        "status": outcome.status,
        "line": outcome.line,
        "seconds": round(outcome.seconds, 3),
        "braked": outcome.braked,
        "findings": [
            {"severity": f.severity, "device": f.device, "uuid": f.uuid, "reason": f.reason} for f in outcome.findings
        ],
        "values": {name: float(f"{value:.5g}") for name, value in outcome.values.items()},
        "measuring_seconds": {name: round(seconds, 2) for name, seconds in outcome.took.items()},
        "not_measured": outcome.left_out,
        "unknown": outcome.unknown,
    }


def prometheus(outcome: Outcome) -> str:
    """For node_exporter's textfile collector."""

    def label(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")

    lines = [
        "# HELP tenken_node_status 0 good, 1 bad, 2 not known",
        "# TYPE tenken_node_status gauge",
        f"tenken_node_status {outcome.status}",
        "# HELP tenken_node_time_seconds end of the check, since 1970",
        "# TYPE tenken_node_time_seconds gauge",
        f"tenken_node_time_seconds {outcome.readings.get('time', 0):.0f}",
        "# HELP tenken_node_unknown readings that could not be read",
        "# TYPE tenken_node_unknown gauge",
        f"tenken_node_unknown {len(outcome.unknown)}",
        "# HELP tenken_node_finding one for each finding",
        "# TYPE tenken_node_finding gauge",
    ]
    for severity, device, line in sorted({(f.severity, f.device, f.line) for f in outcome.findings}):
        lines.append(f'tenken_node_finding{{severity="{severity}",device="{label(device)}",line="{label(line)}"}} 1')
    lines += ["# HELP tenken_node_value GB/s, TFLOP/s", "# TYPE tenken_node_value gauge"]
    lines += [f'tenken_node_value{{metric="{label(name)}"}} {value:.6g}' for name, value in outcome.values.items()]
    return "\n".join(lines) + "\n"
