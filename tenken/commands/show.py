"""`tenken show FILE`: a result or a record with all derived values."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tenken.errors import CatalogueError, RecordError, ResultError
from tenken.model import catalogue, engine
from tenken.model import record as records
from tenken.model import result as results
from tenken.model.result import Result


def register(subparsers: Any) -> None:
    """Adds the subcommand `show` to the `tenken` command."""
    parser = subparsers.add_parser(
        "show",
        help="print the values of a result or a record: statistics, units, limits, derived metrics, verifications",
        epilog="example: tenken show result.json",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="what a program wrote, or a record of the archive")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken show`: 0, or 2 if the file is neither."""
    try:
        result = read(arguments.file)
    except (ResultError, RecordError, CatalogueError) as error:
        print(f"tenken show: {error}", file=sys.stderr)
        return 2
    print(table(result))
    return 0


def read(file: Path) -> Result:
    """A result with all derived values. Raises ResultError, RecordError or CatalogueError."""
    text = results.read_text(file)
    if '"record":"tenken-record/' in text[:100].replace(" ", ""):
        found = records.parse(text, file).result
        if found is None:
            raise RecordError(f"{file}: the record has no result")
        return found
    result = results.parse(text, str(file))
    return engine.completed(result, catalogue.program(result.program))


def table(result: Result) -> str:
    """Each value in one line, then verifications that did not pass."""
    from tabulate import tabulate

    rows = []
    for one in result.metrics:
        limit = result.limits.get(one.id)
        known = limit is not None and limit.value is not None
        rows.append(
            [one.id, one.value, one.unit, one.statistic, one.best, one.median, one.p5, one.p95, one.count,
             f"{limit.value:.6g} ({limit.basis})" if limit and known else f"unknown: {limit.unknown}" if limit else ""]
        )  # fmt: skip
    head = ["metric", "value", "unit", "statistic", "best", "median", "p5", "p95", "samples", "limit"]
    lines = [tabulate(rows, head, tablefmt="plain", floatfmt=".6g")]
    wrong = [check for check in result.verification.checks if not check.passed]
    lines += [f"wrong: {c.what}: error {c.error}, tolerance {c.tolerance:g} {c.detail}".rstrip() for c in wrong]
    return "\n".join([*lines, f"{result.program}: {result.status}{f': {result.reason}' if result.reason else ''}"])
