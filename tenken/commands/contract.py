"""`tenken contract`: list, validate and draft contracts, which state what a machine must reach."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenken import paths
from tenken.archive import packed, records
from tenken.commands import accept
from tenken.commands.accept import known, systems
from tenken.machines import loader
from tenken.machines.model import OF_MODE, System
from tenken.model.catalogue import load_catalogue
from tenken.model.record import Record
from tenken.reframe.listing import listed
from tenken.report import contracts
from tenken.report.contracts import Contract, ContractError, Machine, Offered

CHECKS = (Path("checks"),)


def register(subparsers: Any) -> None:
    """Adds the subcommand `contract` to the `tenken` command."""
    parser = subparsers.add_parser("contract", help="draft, validate and list contracts")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    add = actions.add_parser("list", help="the contracts in reports/contracts/")
    add.set_defaults(func=_list)

    add = actions.add_parser(
        "validate", help="check contracts; without a name, all of them", description="Exit status: 0 valid, 1 invalid."
    )
    add.add_argument("names", nargs="*", metavar="NAME", help="a contract's name, or a file")
    of_checks(add)
    add.set_defaults(func=_validate)

    add = actions.add_parser("new", help="draft reports/contracts/NAME.yaml from a system's references and data sheets")
    add.add_argument("name", nargs="?", metavar="NAME", help="default: the system's")
    add.add_argument("--from", dest="system", required=True, metavar="SYSTEM",
                     help="system whose references and data sheets are used")  # fmt: skip
    add.add_argument(
        "--session",
        metavar="ID",
        help="draft only clauses that the checks of this session can test; `last`: the system's most recent session",
    )
    add.add_argument(
        "--archive", type=packed.argument, metavar="DIR",
        help="archive of the session, a folder or a .tar.xz of one (default: $TENKEN_ARCHIVE, else perflogs/)",
    )  # fmt: skip
    add.add_argument("--customer", default="", help="who accepts")
    add.add_argument("--supplier", default="", help="who delivers")
    add.add_argument("--folder", type=Path, default=contracts.FOLDER, help="default: reports/contracts/")
    add.set_defaults(func=_new)


def of_checks(parser: Any) -> None:
    """Adds the option --checks."""
    parser.add_argument(
        "--checks", type=Path, nargs="+", default=CHECKS, metavar="DIR",
        help="folders of checks, also a site's own (default: checks)",
    )  # fmt: skip


def _list(_: argparse.Namespace) -> int:
    for name in contracts.names():
        print(name)
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    wrong = 0
    names = arguments.names or contracts.names()
    if not names:
        raise ContractError("no contract in reports/contracts; draft one with `tenken contract new`")
    for name in names:
        try:
            contract = contracts.load(
                name, load_catalogue(), systems(), machine=lambda system: checked(system, checks=arguments.checks)
            )
        except ContractError as error:
            print(error, file=sys.stderr)
            wrong = 1
        else:
            print(f"{name}: ok, {len(contract.clauses)} clauses on {contract.system}{_as_drafted(contract)}")
    return wrong


def _as_drafted(contract: Contract) -> str:
    """What nobody has agreed on yet."""
    names = {"customer": contract.customer, "supplier": contract.supplier}
    open_ = [what for what, name in names.items() if name == what.upper()]
    if proposed := [one.id for one in contract.clauses if one.source.startswith(contracts.PROPOSAL)]:
        open_.append(f"{len(proposed)} targets, from {proposed[0]} on")
    return f"; still as drafted: {', '.join(open_)}" if open_ else ""


def checked(name: str, mode: str = "", checks: Sequence[Path] = CHECKS) -> Machine:
    """A system, with the checks that ReFrame selects on it as a mode configures them.

    Without a folder of checks (a report may be written far from the machine) clauses are not compared with checks, and
    a line states it. Raises ContractError where ReFrame fails.
    """
    missing = next((folder for folder in checks if not (paths.ROOT / folder).exists()), None)
    if missing is not None:
        print(
            f"no folder {missing}/ in {paths.ROOT}: whether its checks measure each clause is not known",
            file=sys.stderr,
        )
        return known(name)
    command = [*reframe_of(checks), "--system", name, "--describe"]
    # at the sizes of the mode, but with the checks of the other modes: a burn-in can belong to a contract too
    command += ["-S", f"tenken_mode={mode}"] if mode else []
    paths.archive_root().mkdir(parents=True, exist_ok=True)  # the third-party programs are recorded there
    done = listed(with_mpi(command), cwd=paths.ROOT)
    begin = done.stdout.find("[\n")
    if done.returncode or begin < 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise ContractError(f"the checks of system '{name}' cannot be listed: {lines[-1]}")
    told = [one for one in json.loads(done.stdout[begin:]) if isinstance(one, dict) and one.get("program")]
    return Machine(known(name).system, tuple(map(_offered, told)))


def with_mpi(command: Sequence[str]) -> list[str]:
    """A command with the MPI that `make run` built, if no other MPI can build programs. A shell in which the virtual
    environment was activated earlier, or not at all, does not have it.
    """
    own = shlex.quote(str(Path(sys.prefix) / "bin" / "tenken-mpi.env"))
    there = "{ command -v mpirun && echo '#include <mpi.h>' | mpicxx -E -x c++ -; } > /dev/null 2>&1"
    return ["sh", "-c", f'{there} || [ ! -r {own} ] || . {own}; exec "$@"', "sh", *command]


def reframe_of(checks: Sequence[Path]) -> list[str]:
    """ReFrame's command with folders of checks."""
    return [str(Path(sys.prefix) / "bin" / "reframe"), *(word for folder in checks for word in ("-c", str(folder)))]


def _offered(one: Mapping[str, Any]) -> Offered:
    """A check as ReFrame describes it."""
    metrics, lasting = one.get("metrics"), f"{one['program']}_seconds"
    # num_nodes for most; nccl_tests_nodes and the like for programs of the field
    sized = [name for name, value in one.items() if name.endswith("_nodes") and type(value) is int and value > 0]
    spread = min(sized, key=lambda name: (name != "num_nodes", name), default="")
    return Offered(
        one["display_name"], one["@class"], one["program"], one.get(spread, 1),
        tuple(sorted(set(one.get("tags") or ()) & set(OF_MODE))), lasting if lasting in one else "", spread,
        tuple(one.get("subjects") or ()), None if metrics is None else tuple(metrics),
    )  # fmt: skip


def _measured(system: System, archive: Path | None, session: str) -> list[Record]:
    """The values that a session measured on a system. Raises a TenkenError that lists the sessions if there is no such
    session."""
    root = archive or paths.archive_root()
    (name,) = accept.known_sessions(root, [session], system.name)
    found = [record for record in records.records(root, system=system.name) if record.session == name]
    if not found:
        raise ContractError(f"session '{name}' has no record of system '{system.name}'")
    return found


def _new(arguments: argparse.Namespace) -> int:
    name = arguments.name or arguments.system
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise ContractError(f"'{name}' is not a contract name; allowed: lower case letters, digits and . _ -")
    if arguments.system not in systems():
        raise ContractError(f"unknown system '{arguments.system}'; allowed: {', '.join(systems())}")
    if arguments.archive and not arguments.session:
        raise ContractError("--archive needs --session: the session whose checks the clauses refer to")
    system = loader.load(arguments.system).expand(os.environ, strict=False)
    measured = _measured(system, arguments.archive, arguments.session) if arguments.session else []
    text = contracts.draft(system, load_catalogue(), arguments.customer, arguments.supplier, measured)
    file = arguments.folder / f"{name}.yaml"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise ContractError(f"{file} already exists") from None
    except OSError as error:
        raise ContractError(f"{file}: cannot be written: {error.strerror}") from None
    print(f"{file} written; agree on its targets, then: tenken contract validate {name}")
    return 0
