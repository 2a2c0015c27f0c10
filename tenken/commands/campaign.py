"""`tenken campaign`: acceptance of many nodes, one whole-node job each, from plan to report."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from tenken import counters, paths
from tenken.archive import records as archive
from tenken.campaign import file, journal, plan, power, redfish, runner
from tenken.campaign.alive import Alive
from tenken.campaign.file import Campaign, CampaignError
from tenken.campaign.journal import Chosen, State, Unit
from tenken.campaign.queue import Queue, Refused
from tenken.machines import loader, topology
from tenken.model.job import short
from tenken.report import campaign as pages

#: File in the folder of a tournament: lists its nodes that were not named.
GOOD = "good.json"
#: Checks over several nodes, in the order in which they run.
TOGETHER = ("NcclBetweenNodes", "MpiAllAtOnce", "HplBetweenNodes", "HpcgBetweenNodes")

_ABOUT = {
    "plan": "print node hours, number of waves and expected end; submits nothing",
    "run": "start a campaign (`resume` continues one that has started)",
    "resume": "continue an interrupted campaign: submit missing runs, cancel orphaned jobs",
    "status": "print its progress",
    "stop": "stop a running campaign and cancel its jobs",
    "groups": "run jobs over groups of nodes that passed individually, until the faulty node or leaf switch is found",
    "pairs": "measure pairs of nodes that passed individually, within leaf switches and across, alone and all at once",
    "together": "run NCCL, HPL, HPCG and MPI over all nodes together that passed individually and in pairs",
    "hardware": "read power supplies, fans and coolant from the BMCs of all nodes by Redfish, for the report",
    "report": "report nodes that deviate, nodes without a result, and what to do next",
    "retest": "measure repaired nodes again; their findings are closed if they pass",
}


def register(subparsers: Any) -> None:
    """Adds the subcommand `campaign`."""
    parser = subparsers.add_parser(
        "campaign",
        help="acceptance of one to ten thousand nodes: plan, run, resume, report",
        description="One whole-node job per node; ReFrame runs all checks in it. Exit status: 0 all nodes tested and "
        "in order (run, resume: all tested), 1 some are not, 2 usage error, invalid file or no scheduler, 3 stopped "
        "or incomplete.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, about in _ABOUT.items():
        one = actions.add_parser(action, help=about, description=about)
        one.add_argument("name", metavar="NAME", help=f"of {file.home()}/NAME.yaml")
        if action in ("run", "resume", "retest", "groups", "pairs"):
            one.add_argument("--poll", type=float, default=5.0, metavar="S", help="seconds between two polls")
            one.add_argument("--late", type=float, default=runner.LATE_S, metavar="S",
                             help="seconds to wait for the result file of an ended job")  # fmt: skip
        if action == "retest":
            one.add_argument("nodes", metavar="NODES", help="node names, such as n[001-003],n007")
        one.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs one action; returns its exit status."""
    campaign = file.load(arguments.name)
    folder = file.home() / campaign.name
    actions: dict[str, Callable[[], int]] = {
        "plan": lambda: _plan(campaign),
        "run": lambda: _run(campaign, folder, arguments, fresh=True),
        "resume": lambda: _run(campaign, folder, arguments, fresh=False),
        "status": lambda: _status(campaign, folder),
        "stop": lambda: _stop(campaign, folder),
        "groups": lambda: _groups(campaign, folder, arguments),
        "pairs": lambda: _pairs(campaign, folder, arguments),
        "together": lambda: _together(campaign, folder),
        "hardware": lambda: _hardware(campaign, folder),
        "report": lambda: _report(campaign, folder),
        "retest": lambda: _retest(campaign, folder, arguments),
    }
    return actions[arguments.action]()


def queue_of(campaign: Campaign) -> Queue:
    """The scheduler of a campaign's partition."""
    from tenken.commands import campaign_queues  # imports ReFrame, which takes a second

    system = loader.load(campaign.system).expand(os.environ)
    return campaign_queues.of(campaign, system.partition(campaign.partition))


def _with_margins(campaign: Campaign) -> Campaign:
    """The waiting times of the partition, and those of $TENKEN_PATIENCE."""
    from tenken.reframe.configuration import impatience

    patience = loader.load(campaign.system).partition(campaign.partition).patience
    return campaign.of_patience(replace(patience, **impatience(os.environ.get("TENKEN_PATIENCE", ""))))


def _plan(campaign: Campaign) -> int:
    try:
        limits = queue_of(campaign).limits()
    except Refused as error:
        raise CampaignError(f"the scheduler does not respond: {error}") from None
    print("\n".join(plan.plan(campaign, limits).lines(campaign, datetime.now(timezone.utc))))
    return 0


def _run(campaign: Campaign, folder: Path, arguments: argparse.Namespace, fresh: bool) -> int:
    began = bool(journal.read(folder).begun)
    if began and fresh:
        raise CampaignError(
            f"campaign '{campaign.name}' has started: `tenken campaign resume {campaign.name}` continues"
        )
    if not began and not fresh:
        raise CampaignError(f"campaign '{campaign.name}' has not started: `tenken campaign run {campaign.name}`")
    root = paths.archive_root()
    archive.check_writable(root)
    one = _runner(campaign, folder, root, arguments)
    with _power(campaign, folder, one):
        whole = one.run()
    if count := power.archived(root, _sessions(one.state), folder / redfish.READINGS):
        print(f"power during checks: {count} records of nodes")
    for unit in one.lost():
        tried = one.state.tried(unit)
        print(f"no result: {unit.node} ({unit.purpose} {unit.number}): {tried[-1].ended if tried else 'never begun'}")
    return 0 if whole else 3


def _sessions(state: State) -> list[str]:
    """Counts the jobs of all nodes that left records."""
    return [str(a.gathered["session"]) for a in state.attempts.values() if a.gathered]


@contextlib.contextmanager
def _power(campaign: Campaign, folder: Path, one: runner.Runner) -> Iterator[None]:
    """Reads the power of nodes whose jobs are in the queue or running, if the campaign file names their BMCs."""
    try:
        connect = redfish.connector(campaign.bmc, campaign.bmc_ca, campaign.bmc_verify) if campaign.bmc else None
    except redfish.RedfishError as error:
        print(f"the power of nodes is not read: {error}", file=sys.stderr)
        connect = None
    if connect is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    there = partial(print, file=sys.stderr, flush=True)
    with power.Watch(lambda: {a.unit.node for a in one.state.open()}, connect, folder / redfish.READINGS, there):
        yield


def _runner(campaign: Campaign, folder: Path, root: Path, arguments: argparse.Namespace) -> runner.Runner:
    def again(state: State) -> Chosen:
        from tenken.campaign import findings  # needs numpy, which a kit without reports lacks

        table, _ = findings.read(state, root, campaign)
        return findings.suspects(table, campaign)

    # schedulers other than Slurm pass no environment to a job
    theirs = {name: os.environ[name] for name in loader.load(campaign.system).variables if name in os.environ}
    campaign = _with_margins(replace(campaign, environment={**theirs, **campaign.environment}))
    return runner.Runner(
        campaign, folder, root, queue_of(campaign), partial(print, flush=True), again,
        lambda state, line: _live(campaign, folder, state, line), poll=arguments.poll, late=arguments.late,
        python=Path(sys.executable).parent,
    )  # fmt: skip


def _live(campaign: Campaign, folder: Path, state: State, line: str) -> None:
    nodes = {node: "to do" for node in campaign.nodes}
    for attempt in state.attempts.values():
        word = "done" if attempt.gathered is not None else "in the queue or running" if attempt.open else attempt.ended
        if nodes.get(attempt.unit.node) != "done":
            nodes[attempt.unit.node] = str(word)
    archive.write_file(folder / "live.html", pages.live(campaign, line, nodes))


def _begun(campaign: Campaign, folder: Path) -> State:
    state = journal.read(folder)
    if not state.begun:
        raise CampaignError(f"campaign '{campaign.name}' has not started: `tenken campaign run {campaign.name}`")
    return state


def _status(campaign: Campaign, folder: Path) -> int:
    state = _begun(campaign, folder)
    nodes = {a.unit.node for a in state.attempts.values() if a.gathered is not None}
    flying = state.open()
    print(f"{len(nodes)} of {len(campaign.nodes)} nodes tested, {len(flying)} in the queue or running")
    for attempt in state.attempts.values():
        if attempt.ended and attempt.ended != runner.NEVER_QUEUED and not state.done(attempt.unit):
            print(f"  {attempt.unit.node} ({attempt.unit.purpose} {attempt.unit.number}): {attempt.ended}")
    print(f"live page: {folder / 'live.html'}")
    return 0 if len(nodes) == len(campaign.nodes) else 3


def _stop(campaign: Campaign, folder: Path) -> int:
    _begun(campaign, folder)
    archive.write_file(folder / runner.STOP, "")
    print(
        f"campaign '{campaign.name}' stops at its next poll of the queue; if no process is running it, resume and "
        f"stop it again"
    )
    return 0


def _between(campaign: Campaign, folder: Path) -> tuple[State, file.Between]:
    """For jobs between nodes, which use nodes that passed individually."""
    state = _begun(campaign, folder)
    if campaign.between is None:
        raise CampaignError(f"campaign '{campaign.name}' has no section for jobs between nodes: add `between: {{}}`")
    if state.open() or not state.phases:
        raise CampaignError(
            f"campaign '{campaign.name}' has not ended: groups consist of nodes that passed individually"
        )
    return state, campaign.between


def _launch(campaign: Campaign, given: str, known: Mapping[str, str], key: str) -> str:
    """How ranks are started: as in the file, otherwise by the launcher of the system."""
    launcher = loader.load(campaign.system).expand(os.environ).partition(campaign.partition).launcher
    launch = given or known.get(launcher, "")
    if not launch:
        raise CampaignError(f"launcher '{launcher}' is none of {', '.join(known)}: set 'between.{key}")
    return launch


def _leaves(state: State, campaign: Campaign, leaf: str) -> dict[str, str]:
    """Leaf by node, for the nodes that passed individually."""
    from tenken.campaign import findings  # needs numpy, which a kit without reports lacks

    known: Mapping[str, str] = campaign.groups.get(leaf, {})
    fabric = loader.load(campaign.system).partition(campaign.partition).fabric
    if not leaf and fabric is not None and fabric.topology is not None:
        known = topology.leaves(fabric.topology, paths.SYSTEMS, file.expand)
    known = {short(node): group for node, group in known.items()}
    if strangers := [node for node in campaign.nodes if short(node) not in known]:
        raise CampaignError(f"no leaf switch of node {strangers[0]} is known (of {len(strangers)} nodes in all)")
    table, alone = findings.read(state, paths.archive_root(), campaign)
    findings.judge(table, alone, campaign)
    bad = alone.not_in_order()
    of_leaf = {node: known[short(node)] for node in campaign.nodes if node not in bad}
    if len(set(of_leaf.values())) < 2 or len(of_leaf) < 4:
        raise CampaignError(
            f"{len(of_leaf)} nodes of {len(set(of_leaf.values()))} leaves passed individually; required: 4 nodes of 2 "
            "leaves"
        )
    return of_leaf


def _pairs(campaign: Campaign, folder: Path, arguments: argparse.Namespace) -> int:
    state, between = _between(campaign, folder)
    from tenken.campaign import fabric as fabrics
    from tenken.campaign import groupjobs, tournament

    launch = _launch(campaign, between.launch, groupjobs.LAUNCH, "launch', with {ranks}")
    fabric = loader.load(campaign.system).partition(campaign.partition).fabric
    references = fabric.pairs if fabric else None
    launch_pair = _launch(campaign, between.launch_pair, groupjobs.LAUNCH_PAIR, "launch_pair', with {nodes}")
    with Alive(partial(print, flush=True), "reading and comparing the records of all nodes") as alive:
        of_leaf = _leaves(state, campaign, between.leaf)
        queue = queue_of(campaign)
        jobs = groupjobs.PairJobs(
            _with_margins(campaign), folder, queue, launch, partial(print, flush=True), arguments.poll, arguments.late,
            launch_pair=launch_pair,
        )  # fmt: skip
        alive.doing("pairs of nodes")
        try:
            jobs.clear()
            rounds = tournament.plan(of_leaf, between.partners, between.crossing)
            answers: dict[str, list[tournament.Answer]] = {}
            for rail in between.rails or ("",):
                jobs.rail = rail
                told = [answer for meetings in rounds for answer in jobs.play(meetings)]
                # a single slow value may be noise: a node is named only if it is slow twice
                for meeting in tournament.repeated(told, of_leaf, references, between.crossing):
                    told = tournament.better(told, jobs.play([meeting]))
                answers[rail] = told
            jobs.rail = ""
            together = jobs.all_at_once(of_leaf)
        except Refused as error:
            raise CampaignError(f"the scheduler does not respond: {error}") from None
        changes, carried = jobs.changes(), jobs.carried()
        root, session = paths.archive_root(), archive.new_session()
        like = next(archive.records(root, session=_sessions(state)[0], figures_only=True), None)
        if like is not None:
            told = [one for rail in answers.values() for one in rail]
            fabrics.archived(root, session, like, list(of_leaf), told, jobs.since())
            print(f"session {session}: pairs and ports, for the clauses of a contract")
    bad = False
    named = set(together.late) | {one.node for one in carried} | {one.node for one in changes if one.faults()}
    for rail, told in answers.items():
        found = tournament.accuse(told, of_leaf, references)
        bad = bad or bool(found.nodes or found.pairs)
        named |= set(found.nodes)
        on = f"rail {rail}: " if rail else ""
        for kind, (level, count) in found.levels.items():
            print(f"{on}{kind}: {count} pairs, median {level:.4g} GB/s")
        for leaf in found.leaves:
            print(f"{on}{between.leaf or 'leaf'} {leaf}: most of its nodes are slow")
        for node, why in found.nodes.items():
            print(f"{on}node {node}: {why}\n  {queue.exclusion(node, 'slow with other nodes')}")
        for pair, why in found.pairs.items():
            print(f"{on}pair {', '.join(pair)} ({' - '.join(of_leaf[n] for n in pair)}): {why}")
    for halves, rate in together.bisection.items():
        print(f"bisection, {halves}: {rate:.4g} GB/s, {rate / (len(of_leaf) // 2):.4g} of each pair")
    if together.incast is not None:
        print(f"incast: {together.incast:.4g} GB/s")
    if together.victim:
        print("latency of two nodes: " + ", ".join(f"{us:.4g} us, load {load}" for load, us in together.victim.items()))
    ports = [f"{one.node}: port {one.port}: {fault}" for one in changes for fault in one.faults()]
    ports += dict.fromkeys(f"node {one.node}: {one.text}" for one in carried)
    ports += [f"node {node}: {why}" for node, why in together.late.items()]
    if fabric is not None:
        ports += counters.below(changes, fabric.kind, fabric.rails, fabric.gbit_s)
    named = set(map(short, named))  # the nodes themselves spell their names as their hosts do
    good = [node for node in of_leaf if short(node) not in named]
    archive.write_file(folder / jobs.into / GOOD, json.dumps(good) + "\n")
    kept = jobs.done()
    count = sum(map(len, answers.values()))
    print("\n".join([*ports, f"{count} pairs in {len(rounds)} rounds over {len(of_leaf)} nodes; results: {kept}"]))
    return 1 if bad or ports else 0


def _together(campaign: Campaign, folder: Path) -> int:
    """One session of ReFrame, in which each check over several nodes uses all good ones."""
    state, _ = _between(campaign, folder)
    places = sorted(folder.glob(f"pairs-*[0-9]/{GOOD}"), key=lambda p: int(p.parent.name.removeprefix("pairs-")))
    if not places:
        raise CampaignError(f"`tenken campaign pairs {campaign.name}` comes first: it shows which nodes are in order")
    nodes = json.loads(places[-1].read_text(encoding="utf-8"))
    if len(nodes) < 2:
        raise CampaignError(f"{len(nodes)} nodes are in order; required: 2 or more")
    like = next(archive.records(paths.archive_root(), session=_sessions(state)[0], figures_only=True))
    system = loader.load(campaign.system).expand(os.environ)
    bind = system.partition(campaign.partition).scheduler == "slurm"
    if not bind and len(nodes) < len(campaign.nodes):
        print("the scheduler chooses the nodes: those that are not in order must be offline")
    session = archive.new_session()
    words = [str(Path(sys.prefix) / "bin/reframe"), "-c", campaign.paths[0], "-r", "--mode", like.mode,
             "--system", f"{campaign.system}:{campaign.partition}"]  # fmt: skip
    for check in TOGETHER:
        words += ["-n", f"^{check}$", "-S", f"{check}.num_nodes={len(nodes)}"]
    words += ["-J", f"nodelist={','.join(nodes)}"] if bind else []
    environment = {"RFM_CONFIG_PATH": "config", **os.environ, "TENKEN_SESSION": session, "TENKEN_TERMINAL": "brief"}
    print(f"+ {' '.join(words)}", flush=True)
    try:
        subprocess.run(words, cwd=paths.ROOT, env=environment, check=False)  # the archive has what it found
    except OSError as error:
        raise CampaignError(f"{words[0]}: {error.strerror}") from None
    found = list(archive.records(paths.archive_root(), session=session, figures_only=True))
    for one in found:
        print(f"{one.verdict} {one.check} over {len(nodes)} nodes: {one.judgement.message()}")
    print(f"session {session}: {len(found)} checks over {len(nodes)} nodes together")
    return 0 if found and all(one.verdict in ("PASS", "RECORDED", "WAIVED") for one in found) else 1


def _groups(campaign: Campaign, folder: Path, arguments: argparse.Namespace) -> int:
    state, between = _between(campaign, folder)
    from tenken.campaign import groupjobs, groups  # need numpy, which a kit without reports lacks

    launch = _launch(campaign, between.launch, groupjobs.LAUNCH, "launch', with {ranks}")
    with Alive(partial(print, flush=True), "reading and comparing the records of all nodes") as alive:
        of_leaf = _leaves(state, campaign, between.leaf)
        good, leaves = list(of_leaf), sorted(set(of_leaf.values()))
        queue = queue_of(campaign)
        jobs = groupjobs.GroupJobs(
            _with_margins(campaign), folder, queue, launch, partial(print, flush=True), arguments.poll, arguments.late
        )
        alive.doing("jobs over groups of nodes")
        try:
            jobs.clear()
            found = groups.search(
                range(len(good)), lambda i: leaves.index(of_leaf[good[i]]),
                lambda asked: jobs.ask([tuple(good[i] for i in group) for group in asked]),
            )  # fmt: skip
        except Refused as error:
            raise CampaignError(f"the scheduler does not respond: {error}") from None
    kept = jobs.done()
    named = {good[i]: "slow in jobs with other nodes" for i in found.nodes}
    for leaf in found.leaves:
        print(f"{between.leaf or 'leaf'} {leaves[leaf]}: all jobs across it are slow")
    for node, why in named.items():
        print(f"node {node}: {why}\n  {queue.exclusion(node, why)}")
    for group in found.unexplained:
        print(f"undecided, or slow only together: {', '.join(good[i] for i in group)}")
    print(f"{found.jobs} jobs in {found.rounds} rounds over {len(good)} nodes of {len(leaves)} leaves; results: {kept}")
    return 1 if named or found.leaves else 0 if found.whole and not found.unexplained else 3


def _hardware(campaign: Campaign, folder: Path) -> int:
    if campaign.bmc is None:
        raise CampaignError(
            f"campaign '{campaign.name}' names no BMCs: set redfish: {{address: 'https://{{node}}-bmc'}}"
        )
    login = redfish.credentials()
    done: list[str] = []
    with Alive(partial(print, file=sys.stderr, flush=True), "reading the BMCs of all nodes"):
        found = redfish.collect(
            campaign.nodes, campaign.bmc, login, redfish.context(campaign.bmc_ca, campaign.bmc_verify), said=done.append
        )
    archive.write_file(folder / redfish.FILE, redfish.text(found))
    moment = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    with (folder / redfish.READINGS).open("a", encoding="utf-8") as stream:
        stream.write(redfish.readings(found, moment))
    watts = {node: one.readings["power_w"] for node, one in found.items() if "power_w" in one.readings}
    if watts:
        most = max(watts, key=lambda node: watts[node])
        print(
            f"node power: {min(watts.values()):.0f} to {watts[most]:.0f} W (highest: {most}); "
            f"all readings: {folder / redfish.READINGS}"
        )
    faults = [f"{node}: {fault}" for node, one in found.items() for fault in one.faults]
    unread = [f"{node}: {one.error}" for node, one in found.items() if one.error]
    whole = len(done) - len(unread)
    print("\n".join([*faults, *unread, f"{whole} of {len(campaign.nodes)} BMCs read"]))
    return 1 if faults else 3 if unread else 0


def _report(campaign: Campaign, folder: Path) -> int:
    state = _begun(campaign, folder)
    from tenken.campaign import findings  # needs numpy, which a kit without reports lacks

    with Alive(partial(print, file=sys.stderr, flush=True), "reading and comparing the records of all nodes"):
        table, found = findings.read(state, paths.archive_root(), campaign)
        findings.take_hardware(table, found, redfish.kept(folder), campaign)
        findings.judge(table, found, campaign)
    exclusion = queue_of(campaign).exclusion
    print(pages.text(found, campaign, exclusion), end="")
    archive.write_file(folder / "report.html", pages.page(found, campaign, exclusion))
    print(f"\nReport: {folder / 'report.html'}")
    if state.open() or not state.phases:
        print("The campaign has not ended: no node is reported before the second run of suspects")
        return 3
    return 1 if found.not_in_order() or found.damaged else 0


def _retest(campaign: Campaign, folder: Path, arguments: argparse.Namespace) -> int:
    state = _begun(campaign, folder)
    if not state.phases or state.open():
        raise CampaignError(f"campaign '{campaign.name}' has not ended: nodes can be measured again once it has")
    try:
        nodes = file.expand(arguments.nodes)
    except ValueError as error:
        raise CampaignError(str(error)) from None
    spelled = {short(node): node for node in campaign.nodes}
    strangers = [n for n in nodes if short(n) not in spelled]
    nodes = [spelled[short(n)] for n in nodes if short(n) in spelled]
    if campaign.unit and not strangers:
        nodes = campaign.together(nodes)
    if strangers or not nodes:
        raise CampaignError(f"node '{(strangers or [''])[0]}' does not belong to campaign '{campaign.name}'")
    one = _runner(campaign, folder, paths.archive_root(), arguments)
    one.journal.open()
    try:
        first = {n: 1 + sum(u.node == n and u.purpose == "repair" for u in state.by_unit) for n in nodes}
        units = [Unit(n, "repair", first[n] + i) for i in range(max(2, campaign.retest_runs)) for n in nodes]
        one.journal.note("phase", units=[u.id for u in units])
    finally:
        one.journal.close()
    return 0 if one.run() or not [u for u in one.lost() if u in units] else 3
