"""`tenken systems`: list, describe, validate, check and create machine descriptions; tonight's nodes.

Exit status: 0 done, 1 an invalid file, 2 invalid arguments (unknown system, missing file, existing file).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tenken.machines import cluster, hardware, limits, loader, local
from tenken.machines.errors import SystemFileError, SystemsError
from tenken.machines.model import Node, Partition, System
from tenken.paths import SYSTEMS

#: Maximum number of points of one metric that `describe` shows.
MOST_POINTS = 3
TEMPLATES = {file.stem: file for file in sorted((Path(__file__).parent / "templates").glob("*.yaml"))}


def register(subparsers: Any) -> None:
    """Add `systems` to the `tenken` command."""
    parser = subparsers.add_parser("systems", help="describe machines: new, describe, validate, check, list")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    add = actions.add_parser("list", help="all machines that have a file, and this one")
    add.set_defaults(func=_list)

    add = actions.add_parser("describe", help="describe a machine; without a name, detect the one this runs on")
    add.add_argument("name", nargs="?", default=loader.LOCAL, metavar="NAME")
    add.add_argument("--json", action="store_true", help="everything, as JSON")
    add.set_defaults(func=_describe)

    add = actions.add_parser("validate", help="check system files; without one, all of them and the data sheets")
    add.add_argument("files", nargs="*", metavar="NAME", help="a system's name, or a file")
    add.set_defaults(func=_validate)

    add = actions.add_parser("check", help="compare a system file with the node that this command runs on")
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "--here", action="store_true", required=True, help="inspect this machine, which must be a node of the system"
    )
    add.add_argument("--partition", metavar="NAME", help="the partition of the node (default: the only one)")
    add.set_defaults(func=_check)

    add = actions.add_parser(
        "tonight", help="print the nodes that a night measures, for $TENKEN_TONIGHT, and note them"
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument("--kept", type=Path, required=True, metavar="FILE", help="where the nights of nodes are noted")
    add.add_argument("--nodes", type=int, default=1, metavar="N", help="nodes per partition (default: %(default)s)")
    add.set_defaults(func=_tonight)

    add = actions.add_parser("new", help="create systems/NAME.yaml, from a commented template or by detection")
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "--scheduler", choices=(*TEMPLATES, "local"), default="slurm", help="the scheduler (default: %(default)s)"
    )
    add.add_argument(
        "--from-here",
        action="store_true",
        help="query the scheduler (sinfo, pbsnodes) and this machine, or fail; without this option a scheduler that "
        "does not respond gives a commented template",
    )
    add.add_argument("--template", action="store_true", help="write a commented template without querying anything")
    add.add_argument("--folder", type=Path, default=SYSTEMS, help="folder to write to (default: systems/)")
    add.set_defaults(func=_new)


def _list(_: argparse.Namespace) -> int:
    try:
        systems = loader.load_all()
    except SystemFileError as error:
        return _complain(error, 1)
    rows = [("NAME", "STATUS", "SCHEDULER", "GPUS", "TITLE")]
    rows += [_row(system) for system in (loader.load(loader.LOCAL), *systems.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip())
    return 0


def _row(system: System) -> tuple[str, str, str, str, str]:
    partitions = system.partitions.values()
    schedulers = dict.fromkeys(p.scheduler + ("" if p.usable else " (not yet)") for p in partitions)
    gpus = dict.fromkeys(_gpus(p.node) for p in partitions)
    return system.name, system.status, ", ".join(schedulers), ", ".join(gpus), system.title


def _describe(arguments: argparse.Namespace) -> int:
    try:
        system = loader.load(arguments.name)
    except SystemFileError as error:
        return _complain(error, 1)
    except SystemsError as error:
        return _complain(error, 2)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(system), indent=2, default=_plain, ensure_ascii=False))
    else:
        print("\n".join(describe(system, os.environ)))
    return 0


def describe(system: System, env: Mapping[str, str]) -> Iterator[str]:
    """Readable lines: the machine, its requirements, what is known about it."""
    if system.hidden_gpus:
        yield f"WARNING: {system.hidden_gpus}"
    yield f"{system.name}: {system.title}"
    state = f"{system.status}, retired {system.retired}" if system.retired else system.status
    yield f"  status: {state}"
    if system.site:
        yield f"  site: {system.site}"
    if system.facts_date:
        yield f"  facts: {system.facts_date}, {system.facts_source}"
    values = system.values(env)
    for variable in system.variables.values():
        value = values.get(variable.name)
        word = f"= {value}" if value else "NOT SET, needed to run" if variable.required else "not set, optional"
        yield f"  variable {variable.name} {word} ({variable.meaning})"
    shown = system.expand(env, strict=False)
    for partition in shown.partitions.values():
        yield from _partition(partition)
    for environment in shown.environments.values():
        compilers = ", ".join(c for c in (environment.cc, environment.cxx, environment.cuda) if c)
        yield f"environment {environment.name}: {compilers}"
        yield f"  builds: {', '.join(sorted(environment.features)) or 'plain C++'}"
        if environment.modules:
            yield f"  modules: {', '.join(environment.modules)}"
    counts: dict[tuple[str, str, str, str], int] = {}
    for reference in system.references:
        of = (reference.program, reference.metric, reference.subject, reference.source)
        counts[of] = counts.get(of, 0) + 1
        if counts[of] > MOST_POINTS:
            continue
        low, high = reference.bounds
        span = f"{'any' if low is None else f'{low:.6g}'} to {'any' if high is None else f'{high:.6g}'}"
        yield (
            f"reference {reference.program}.{reference.metric} per {reference.subject}: "
            f"{span} {reference.unit}, {reference.statistic} "
            f"({reference.published or 'own runs'}: {reference.source})"
        )
    for ratio in system.ratios:
        yield (
            f"ratio {ratio.program}.{ratio.metric} per {ratio.subject}: time over {ratio.over} from "
            f"{ratio.ratio[0]:g} to {ratio.ratio[1]:g} against {ratio.against}, {ratio.statistic} "
            f"({ratio.published or 'own runs'}: {ratio.source})"
        )
    for note in system.notes:
        yield f"note: {note}"
    for notice in system.notices:
        yield f"notice: {notice}"


def _partition(partition: Partition) -> Iterator[str]:
    node = partition.node
    yield f"partition {partition.name}: {partition.description}"
    yield f"  scheduler: {partition.scheduler}, launcher {partition.launcher}"
    if partition.scheduler_status:
        yield f"  NOT USABLE YET: {partition.scheduler_status}"
    if partition.access:
        yield f"  access: {' '.join(partition.access)}"
    yield f"  environments: {', '.join(partition.environments)}"
    yield f"  features: {', '.join(sorted(partition.features)) or 'plain programs'}"
    yield f"  capabilities claimed: {', '.join(sorted(partition.capabilities)) or 'none'}"
    cpu = node.host.name if node.host else node.cpu or "CPU not known"
    parts = [f"{_known(node.cores)} cores", f"{_known(node.sockets)} sockets"]
    if node.threads_per_core:
        parts.append(f"{node.threads_per_core} threads per core")
    if node.numa_nodes:
        parts.append(f"{node.numa_nodes} NUMA nodes")
    if node.memory_bytes:
        parts.append(f"{node.memory_bytes / 2**30:.1f} GiB")
    yield f"  node: {node.architecture}, {cpu}, {', '.join(parts)}"
    if node.caches:
        yield "  caches: " + ", ".join(f"{level} {size / 2**20:g} MiB" for level, size in node.caches.items())
    if node.virtual_machine:
        yield f"  virtual machine: {node.virtual_machine}"
    yield f"  GPUs: {_gpus(node)}"
    for what, limit in (
        ("host memory", limits.memory(partition, "host")),
        ("GPU memory", limits.memory(partition, "gpu")),
        ("host to GPU", limits.host_link(partition)),
        ("GPU to GPU", limits.pair_link(partition)),
        ("GPU FP64", limits.fp64(partition, "gpu")),
        ("GPU FP64 by tensor cores", limits.fp64(partition, "gpu", tensor=True)),
    ):
        if isinstance(limit, limits.Limit):
            yield f"  limit of {what}: {limit.value:.5g} {limit.unit} ({limit.basis})"
        elif node.gpu_count != 0 or what == "host memory":
            yield f"  limit of {what}: not known, {limit.reason}"


def _gpus(node: Node) -> str:
    if node.gpu_count == 0:
        return "none"
    name = node.gpu.name if node.gpu else ", ".join(dict.fromkeys(node.gpu_names)) or "not known"
    return f"{name}, count detected" if node.gpu_count is None else f"{node.gpu_count} x {name}"


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _validate(arguments: argparse.Namespace) -> int:
    known = {**loader.files(), hardware.FILE.stem: hardware.FILE}
    named = [known.get(name, Path(name)) for name in arguments.files]
    missing = [str(file) for file in named if not file.is_file()]
    if missing:
        return _complain(f"no such file or system: {', '.join(missing)}; allowed: a file, {', '.join(known)}", 2)
    worst = 0
    for file in named or [hardware.FILE, *loader.files().values()]:
        notices: tuple[str, ...] = ()
        try:
            if file == hardware.FILE:
                hardware.load(cache_folder=None)
            else:
                notices = loader.load_file(file, cache_folder=None, strict=True).notices
        except SystemFileError as error:
            worst = _complain(error, 1)
        else:
            print("\n".join([f"{file.resolve().parent.name}/{file.name}: ok", *notices]))
    return worst


def _check(arguments: argparse.Namespace) -> int:
    from tenken.machines import compare_local

    try:
        system = loader.load(arguments.name)
        if arguments.partition is None and len(system.partitions) > 1:
            allowed = ", ".join(system.partitions)
            return _complain(f"system '{system.name}' has several partitions; give --partition: {allowed}", 2)
        said = system.partition(arguments.partition or next(iter(system.partitions)))
    except SystemFileError as error:
        return _complain(error, 1)
    except SystemsError as error:
        return _complain(error, 2)
    found = loader.load(loader.LOCAL)
    differences = compare_local.differences(said.node, found.partition(local.PARTITION).node)
    for line in (*filter(None, [found.hidden_gpus]), *differences, *found.notes):
        print(line)
    print(f"{system.name}, partition {said.name}: {len(differences)} differences from this machine")
    return int(bool(differences))


def _tonight(arguments: argparse.Namespace) -> int:
    from datetime import datetime, timezone

    from tenken.machines import tonight

    try:
        system = loader.load(arguments.name).expand(os.environ, strict=False)
        text = arguments.kept.read_text(encoding="utf-8", errors="replace") if arguments.kept.is_file() else ""
        night = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
        chosen, lines = [], []
        for name, partition in system.partitions.items():
            nodes = tonight.nodes_of(partition) if partition.usable and not partition.remote else []
            if not nodes:
                print(f"partition {name}: no list of nodes: the scheduler chooses the node", file=sys.stderr)
                continue
            measured = tonight.kept(text, name)
            mine = tonight.choose(nodes, measured, arguments.nodes)
            new = len([node for node in nodes if node not in measured])
            print(
                f"partition {name}: {', '.join(mine)}; {new} of {len(nodes)} nodes not measured so far", file=sys.stderr
            )
            chosen.append(f"{name}={'+'.join(mine)}")
            lines += [f"{night} {name} {node}\n" for node in mine]
        with arguments.kept.open("a", encoding="utf-8") as stream:
            stream.write("".join(lines))
    except SystemFileError as error:
        return _complain(error, 1)
    except SystemsError as error:
        return _complain(error, 2)
    except OSError as error:
        return _complain(f"{arguments.kept} cannot be written: {error.strerror}", 2)
    print(",".join(chosen))
    return 0


def _new(arguments: argparse.Namespace) -> int:
    name = arguments.name
    others = (loader.LOCAL, *(Path(file).stem for file in loader.NO_SYSTEMS))
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name in others:
        return _complain(
            f"'{name}' is not a system name; allowed: lower case letters, digits and - (but not {', '.join(others)})",
            2,
        )
    file = arguments.folder / f"{name}.yaml"
    if arguments.template and (arguments.from_here or arguments.scheduler == "local"):
        return _complain("--template cannot be combined with detection (--from-here, local)", 2)
    if arguments.from_here or arguments.scheduler == "local":
        return _from_here(name, arguments.scheduler, file)
    if arguments.scheduler in cluster.ASKED and not arguments.template:
        if cluster.answers(arguments.scheduler):
            return _from_here(name, arguments.scheduler, file)
        print(f"{cluster.ASKED[arguments.scheduler]} reports no partition here: writing a template")
    text = TEMPLATES[arguments.scheduler].read_text(encoding="utf-8").replace('title: "NAME"', f'title: "{name}"')
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return _complain(f"{file} already exists", 2)
    except OSError as error:
        return _complain(f"{file} cannot be written: {error.strerror}", 2)
    print(f"{file} written; fill it in, then: tenken systems validate {file}")
    return 0


def _from_here(name: str, scheduler: str, file: Path) -> int:
    """Write a file from the reports of the scheduler and this machine; prints what was detected and what was not."""
    from tenken.machines import draft

    try:
        made = draft.draft(name, scheduler, loader.load(loader.LOCAL), env=os.environ)
        draft.write(file, made.text)
    except FileExistsError:
        return _complain(f"{file} already exists", 2)
    except OSError as error:
        return _complain(f"{file} cannot be written: {error.strerror}", 2)
    except SystemsError as error:
        return _complain(error, 1)
    for line in made.seen:
        print(f"found: {line}")
    for line in made.unseen:
        print(f"not found: {line}")
    print(f"{file} written and valid; next: tenken systems describe {name}, then make run SYSTEM={name}")
    return 0


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(type(value).__name__)


def _complain(error: object, code: int) -> int:
    print(error, file=sys.stderr)
    return code
