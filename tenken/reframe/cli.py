"""`tenken checks`: list which checks apply to a machine, and why others do not."""

from __future__ import annotations

import argparse
import json
import os
import sys

from tenken.archive.records import session_folder, write_file
from tenken.machines import loader
from tenken.machines.model import OF_MODE
from tenken.paths import archive_root
from tenken.reframe import plan, terminal


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("checks", help="list which checks apply to a machine, and why others do not")
    parser.add_argument("--system", default="local", help="a system file's name (default: %(default)s)")
    parser.add_argument("--mode", choices=tuple(OF_MODE), help="only checks of this mode")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--save", action="store_true", help="store the plan with the session in $TENKEN_SESSION")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """0; 1 if a check file does not import or no check applies."""
    system = loader.load(arguments.system)
    if arguments.save:  # a run follows: missing user variables are reported before anything starts
        from tenken.reframe.configuration import no_submission  # loads ReFrame, which a list does not need

        system.expand(os.environ)
        if missing := no_submission(system):
            print(f"tenken: {missing}", file=sys.stderr)
            return 2
    checks, errors = plan.describe_checks(arguments.mode)
    made = plan.make_plan(system, checks, errors, arguments.mode)
    if arguments.save:
        folder = session_folder(archive_root(), os.environ.get("TENKEN_SESSION", "none"))
        write_file(folder / "plan.json", json.dumps(made.as_json(), indent=1))
    if made.hidden_gpus:
        print(f"WARNING: {made.hidden_gpus}. No GPU will be measured, and the run ends with 3.", file=sys.stderr)
    if arguments.json:
        print(json.dumps(made.as_json(), indent=1))
    elif terminal.brief():
        print("\n".join(plan.in_brief(made, system)))
    else:
        print("\n".join(plan.in_columns(made, system)))
    for error in made.load_errors:
        print(f"FAIL: {error}" if error.startswith("check ") else f"FAIL: check file does not import: {error}")
    # a broken check file is also shown on the page; the run continues so that the rest is measured
    return 0 if arguments.save else int(bool(made.load_errors) or not made.applicable)
