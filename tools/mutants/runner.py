"""Runs the tests of a mutant in the scratch tree and reports the outcome."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.mutant import Mutant

CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "BROKEN"


@dataclass(frozen=True)
class Outcome:
    """`fate` is CAUGHT, SURVIVED or BROKEN (no test could judge it: it does not compile, or is not valid Python).

    `by` is the test that failed first, or why it is broken.
    """

    mutant: Mutant
    fate: str
    by: str
    seconds: float


def pytest(
    tree: Path, env: Mapping[str, str], tests: Sequence[str], limit: float, *more: str
) -> tuple[int | None, str]:
    """Exit status of pytest for `tests` (None: stopped after `limit` seconds) and its output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "-rfE", *more, *tests]
    process = subprocess.Popen(
        command, cwd=tree, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a separate process group: the test and the programs that it started
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def try_one(mutant: Mutant, tree: Path, env: Mapping[str, str], limit: float) -> Outcome:
    """Inserts the mistake, runs the tests that must detect it, and reverts it."""
    file = tree / mutant.file
    right = file.read_bytes()
    begin = time.monotonic()
    try:
        file.write_text(mutant.applied(right.decode()), encoding="utf-8")
        only = {"TENKEN_TEST_TARGETS": " ".join(mutant.build)} if mutant.build else {}
        code, output = pytest(tree, {**env, **only}, mutant.tests, limit, "-x")
    finally:
        file.write_bytes(right)
    seconds = time.monotonic() - begin
    failed = re.search(r"^FAILED (\S+)", output, re.M)
    if code is None:
        # the machine is too slow, or the mistake hangs: no test has judged it
        return Outcome(mutant, BROKEN, f"its tests did not end within {limit:g} s", seconds)
    if code == 0 and re.search(r"\b\d+ passed", output) and not re.search(r"\b\d+ skipped", output):
        return Outcome(mutant, SURVIVED, "", seconds)
    if code == 1 and failed:
        return Outcome(mutant, CAUGHT, failed[1], seconds)
    told = [line for line in output.splitlines() if re.match(r"E  |ERROR |.*error:|SKIPPED", line)]
    last = (told or output.strip().splitlines() or ["nothing was printed"])[0 if told else -1]
    return Outcome(mutant, BROKEN, last.strip()[:160], seconds)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| mutant | file | | detected by | s |", "|---|---|---|---|---:|"]
    for one in outcomes:
        by = one.by.replace("|", "\\|")
        lines.append(f"| {one.mutant.name} | {one.mutant.file} | {one.fate} | {by} | {one.seconds:.0f} |")
    return lines
