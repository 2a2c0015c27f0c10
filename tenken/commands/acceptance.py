"""`tenken acceptance run`: makes all runs that a contract needs, until it is decided, and writes the report."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tenken import paths
from tenken.archive import records as archive
from tenken.campaign import power, redfish
from tenken.commands import accept, contract
from tenken.errors import TenkenError
from tenken.machines.model import System
from tenken.model.catalogue import load_catalogue
from tenken.report import contracts, remaining
from tenken.report.acceptance import Acceptance
from tenken.report.contracts import Contract, Offered

#: The state of a run, next to its report.
STATE = "run.json"


class RunError(TenkenError):
    """An acceptance that cannot be run; one line."""


@dataclass
class State:
    """The sessions of an acceptance, stored so that it continues after any interruption."""

    file: Path
    contract: str
    sessions: list[str] = field(default_factory=list)
    #: Duration of the longest round so far, in seconds.
    longest: float = 0.0
    #: Campaigns over single nodes, in order.
    campaigns: list[str] = field(default_factory=list)

    def keep(self) -> None:
        text = {
            "contract_sha256": self.contract, "sessions": self.sessions, "longest": round(self.longest, 1),
            **({"campaigns": self.campaigns} if self.campaigns else {}),
        }  # fmt: skip
        archive.write_file(self.file, json.dumps(text, indent=1) + "\n")


def register(subparsers: Any) -> None:
    """Adds the subcommand `acceptance` to the `tenken` command."""
    parser = subparsers.add_parser("acceptance", help="run everything that a contract needs, and write the report")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    one = actions.add_parser(
        "run", help="run the sessions that a contract needs, continue after an interruption, write the report",
        description="Runs the checks of the clauses as often as required, repeats INVALID ones, and writes "
        "the report. The same command continues. It ends early only if no outcome of the remaining runs could change "
        "the decision. Exit status: as `tenken accept`.",
    )  # fmt: skip
    one.add_argument("contract", metavar="CONTRACT", help="name of a contract in reports/contracts/, or a file")
    one.add_argument(
        "--hours",
        type=float,
        metavar="H",
        help="begin no round that would end later than this (default: 4, and the hours of the clauses)",
    )
    one.add_argument(
        "--nodes", metavar="NODES", help="nodes of a cluster, such as n[0001-0064] (default: those delivered)"
    )
    one.add_argument("--mode", default="", help="default: the contract's first mode, else acceptance")
    contract.of_checks(one)
    one.add_argument("--output", type=Path, metavar="DIR", help="default: output/acceptance/<contract>")
    one.add_argument("--plan", action="store_true", help="print what would run, and run nothing")
    one.add_argument("--no-pdf", action="store_true", help="do not search for a browser")
    one.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken acceptance run`; returns its exit status."""
    mode = arguments.mode
    agreed = contracts.load(
        arguments.contract, load_catalogue(), accept.systems(),
        machine=lambda name: contract.checked(name, mode or "acceptance", arguments.checks),
    )  # fmt: skip
    mode = mode or (agreed.modes[0] if agreed.modes else "acceptance")
    machine = contract.checked(agreed.system, mode, arguments.checks)
    offered = machine.checks or ()
    folder = arguments.output or paths.ROOT / "output" / "acceptance" / agreed.name
    state = begun(folder / STATE, agreed)
    root = paths.archive_root()
    found = decided(agreed, root, state.sessions)
    for line in plan(agreed, found, offered, mode):
        print(line, flush=True)
    if arguments.plan:
        return 0
    hours = 4 + sum(one.repetitions * (one.hours or 0) for one in agreed.clauses)
    until = time.monotonic() + 3600 * (hours if arguments.hours is None else arguments.hours)
    single = _of_nodes(machine.system, arguments.nodes, agreed)
    if single:
        found = campaigns(agreed, offered, mode, single, state, root, arguments.checks)
    with watched(agreed, single or [os.uname().nodename], folder / redfish.READINGS):
        found = rounds(agreed, found, offered, mode, arguments.checks, state, until, root, bool(single))
    if due := remaining.stability_due(found):
        print(f"stability: one more round from {due:%Y-%m-%d %H:%M} UTC on, by the same command", flush=True)
    now = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M UTC}"
    if not state.sessions:
        raise RunError("no session was run: there is nothing to report")
    found, tar, why = accept.write(agreed, root, tuple(state.sessions), folder, now, not arguments.no_pdf)
    print("\n".join(accept.lines(found)))
    print(f"\nReport: {folder / 'report.html'}" + (f"\nNo PDF: {why}" if why else f"\nPDF: {folder / 'report.pdf'}"))
    print(f"All files: {tar}")
    return accept.EXIT_CODES[found.statement]


def begun(file: Path, agreed: Contract) -> State:
    """The state left by an earlier run of this contract. Raises RunError if the contract was changed since."""
    # exchanged GPUs, the punch list and exclusions may be agreed while it runs; the targets may not
    must = (agreed.system, agreed.clauses, agreed.modes, agreed.confidence)
    digest = hashlib.sha256(repr(must).encode()).hexdigest()
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        state = State(
            file, str(kept["contract_sha256"]), list(map(str, kept["sessions"])), float(kept["longest"]),
            list(map(str, kept.get("campaigns", []))),
        )  # fmt: skip
    except FileNotFoundError:
        return State(file, digest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} cannot be read ({error}): remove it to begin again") from None
    if state.contract != digest:
        raise RunError(f"clauses of '{agreed.name}' were changed since its first session; remove {file} to begin again")
    return state


def decided(agreed: Contract, root: Path, sessions: Sequence[str]) -> Acceptance:
    """The decision from the sessions so far; sessions without files are ignored."""
    files = accept.files_of(root, tuple(sessions)) if root.is_dir() else accept.Files(root)
    return accept.decide(agreed, files, tuple(sessions))


def plan(agreed: Contract, found: Acceptance, offered: Sequence[Offered], mode: str) -> list[str]:
    """The plan: rounds, checks, nodes."""
    wanted = remaining.open_clauses(found)
    runs = max(wanted.values(), default=0)
    lines = [
        f"{agreed.name}: {len(agreed.clauses)} clauses on {agreed.system}, mode {mode}; {remaining.progress(found)}"
    ]
    for batch in remaining.batches(found, offered, mode):
        lines.append(f"up to {runs} rounds of {len(batch.names)} checks{batch.words}: {', '.join(batch.names)}")
    return lines


def rounds(
    agreed: Contract, found: Acceptance, offered: Sequence[Offered], mode: str, checks: Sequence[Path], state: State,
    until: float, root: Path, cluster: bool = False,
) -> Acceptance:  # fmt: skip
    """Runs sessions until every clause has its runs, or the decision cannot change any more. On a cluster, only clauses
    over several nodes; single nodes are tested by campaigns.
    """
    most = max(c.repetitions + (remaining.RETESTS if c.retests is None else c.retests) for c in agreed.clauses)
    began = len(state.sessions)
    idle = 0
    for number in range(1, most + 1):
        if why := list(remaining.lost(found)):
            if remaining.open_clauses(found):
                print(f"ends early, since no further run can change the decision: {'; '.join(why)}", flush=True)
            break
        batches = [
            one for one in remaining.next_round(found, offered, mode, datetime.now(timezone.utc))
            if one.nodes or not cluster
        ]  # fmt: skip
        if not batches:
            break
        least = max(state.longest, sum(3600 * (batch.hours or 0) for batch in batches))
        if time.monotonic() + least > until:
            print("the time limit is reached: open clauses are INCONCLUSIVE; the same command continues", flush=True)
            break
        start, before = time.monotonic(), remaining.open_clauses(found)
        for batch in batches:
            name = archive.new_session()
            state.sessions.append(name)
            state.keep()  # before the next one, so that results left by a kill count
            session(agreed.system, batch.mode or mode, checks, batch, name)
            power.archived(root, [name], state.file.parent / redfish.READINGS)
        state.longest = max(state.longest, time.monotonic() - start)
        state.keep()
        found = decided(agreed, root, state.sessions)
        after = remaining.open_clauses(found)
        left = max(after.values(), default=0) * state.longest
        rest = f"; about {max(1.0, left / 60):.0f} min left" if left else ""
        print(f"round {began + number}: {remaining.progress(found)}{rest}", flush=True)
        idle = idle + 1 if after == before else 0
        if idle == 2:
            print("two rounds measured nothing that a clause lacks: it is not measured again", flush=True)
            break
    return found


def session(system: str, mode: str, checks: Sequence[Path], batch: remaining.Batch, name: str) -> None:
    """Runs one session of ReFrame; its exit status is ignored, since the archive has the results. A signal ends all."""
    command = [*contract.reframe_of(checks), "-r", "--system", system, "--mode", mode]
    command += [word for pattern in batch.patterns for word in ("-n", pattern)]
    command += [word for variable, value in batch.variables.items() for word in ("-S", f"{variable}={value}")]
    environment = {
        **os.environ, "TENKEN_SESSION": name, "TENKEN_TERMINAL": "brief",
        "RFM_CONFIG_PATH": os.environ.get("RFM_CONFIG_PATH", "config"),
    }  # fmt: skip
    print(f"+ {' '.join(command[:9])} ... (session {name})", flush=True)
    try:
        child = subprocess.Popen(contract.with_mpi(command), cwd=paths.ROOT, env=environment)
    except OSError as error:
        raise RunError(f"{command[0]}: {error.strerror or error}") from None
    if wait(child):
        raise RunError("stopped; the same command continues")


def wait(child: subprocess.Popen[bytes]) -> bool:
    """Waits for ReFrame. A signal to this process is passed on; returns True if there was one."""
    stopped: list[int] = []

    def forward(number: int, _: object) -> None:
        stopped.append(number)
        child.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(stopped) or -status in (signal.SIGINT, signal.SIGTERM)


# ---- clusters --------------------------------------------------------------------------------------------


def _of_nodes(system: System, asked: str | None, agreed: Contract) -> list[str]:
    """The nodes that a campaign runs on; none if the system has no scheduler. Raises RunError if none are known."""
    if all(partition.scheduler == "local" for partition in system.partitions.values()):
        return []
    nodes = [asked] if asked else sorted({one.node for one in agreed.delivered if one.node})
    if not nodes:
        raise RunError(f"the nodes of {agreed.system} are not known: --nodes n[0001-0064], or scope.delivered")
    return nodes


def campaigns(
    agreed: Contract, offered: Sequence[Offered], mode: str, nodes: Sequence[str], state: State, root: Path,
    checks: Sequence[Path] = contract.CHECKS,
) -> Acceptance:  # fmt: skip
    """Campaigns over single nodes: one of all, then of those that lack runs (INVALID, lost, an exchanged part), as
    often as INVALID runs may be repeated. Later one more round for stability.
    """
    from tenken.campaign import file

    for name in state.campaigns:
        run_campaign(name, state)
    names = [name for one in nodes for name in file.expand(one)]
    found = decided(agreed, root, state.sessions)
    for _ in range(1 + remaining.RETESTS):
        now, before = datetime.now(timezone.utc), (list(state.sessions), remaining.open_clauses(found))
        batches = [one for one in remaining.next_round(found, offered, mode, now) if not one.nodes]
        again = not remaining.open_clauses(found)
        wanted = [(one, dict.fromkeys(names, 1) if again else remaining.lacking(found, one, names)) for one in batches]
        for batch, lacking in wanted if not list(remaining.lost(found)) else ():
            if lacking:
                name = campaign_file(agreed, batch, lacking, state, checks)
                state.campaigns.append(name)
                state.keep()
                run_campaign(name, state)
        found = decided(agreed, root, state.sessions)
        if before[0] == state.sessions or before[1] == remaining.open_clauses(found):
            break  # a check that measured nothing is not run again
    return found


def campaign_file(
    agreed: Contract, batch: remaining.Batch, lacking: Mapping[str, int], state: State,
    checks: Sequence[Path] = contract.CHECKS,
) -> str:  # fmt: skip
    """Writes the next campaign of a batch: the nodes that lack runs, with as many rounds as the neediest of them."""
    from tenken.campaign import file

    partitions = {clause.partition for clause in agreed.clauses if clause.partition}
    system = accept.known(agreed.system).system
    partition = partitions.pop() if len(partitions) == 1 else next(iter(system.partitions))
    suffix = f"-{len(state.campaigns) + 1}" if state.campaigns else ""
    name = f"acceptance-{archive.safe_name(agreed.name)}"[: 40 - len(suffix)] + suffix
    text = {
        "system": agreed.system, "partition": partition, "nodes": list(lacking),
        "checks": {
            **({"mode": batch.mode} if batch.mode else {}), "names": batch.patterns, "paths": list(map(str, checks)),
            **({"set": batch.variables} if batch.variables else {}),
        },
        "rounds": max(lacking.values()), "minutes": 45 + 60 * (batch.hours or 0),
        **({"redfish": dict(agreed.redfish)} if agreed.redfish else {}),
    }  # fmt: skip
    place = file.home() / f"{name}.yaml"
    if not place.exists():  # a site may have edited that of an interrupted acceptance
        archive.write_file(place, json.dumps(text, indent=1) + "\n")  # which is YAML too
        print(f"campaign {name}: {place}", flush=True)
    return name


def run_campaign(name: str, state: State) -> None:
    """Runs or resumes a campaign and notes its sessions. Raises RunError if it cannot continue."""
    from tenken.campaign import file, journal
    from tenken.commands import campaign as command

    action = "resume" if journal.read(file.home() / name).begun else "run"
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    given = parser.parse_args(["campaign", action, name])
    if given.func(given) == 2:
        raise RunError(f"campaign {name} cannot continue")
    done = [a.gathered["session"] for a in journal.read(file.home() / name).attempts.values() if a.gathered]
    state.sessions = list(dict.fromkeys([*state.sessions, *done]))
    state.keep()


@contextlib.contextmanager
def watched(agreed: Contract, nodes: Sequence[str], readings: Path) -> Iterator[None]:
    """Reads the power of the nodes during the run, if a clause needs it. Raises a TenkenError without a password."""
    if not any(clause.program == power.PROGRAM for clause in agreed.clauses):
        yield
        return
    from tenken.campaign import file

    names = [name for one in nodes for name in file.expand(one)]
    ca, verify = agreed.redfish.get("ca"), agreed.redfish.get("verify", True)
    connect = redfish.connector(agreed.redfish["address"], Path(ca) if ca else None, verify)
    readings.parent.mkdir(parents=True, exist_ok=True)
    with power.Watch(lambda: names, connect, readings, print):
        yield
