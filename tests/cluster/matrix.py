"""What can go wrong in operation, which test shows it on which scheduler, and what an operator then sees: matrix.yaml.

The site shows this table (`python -m tests.cluster.matrix` prints it). The fixture `row` of conftest.py compares every
test named here with it: each session leaves records with the verdict of its row, each naming node and reason, so that
no healthy node fails and nothing broken passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tenken.model import cache
from tenken.model.record import Record
from tenken.model.verdicts import HEALTHY as GOOD

#: Schedulers by the letter of the table.
WHERE = {
    "S": "a real Slurm of four emulated nodes",
    "P": "PBS", "N": "NQSV", "G": "Grid Engine",
    "L": "this host, without a scheduler",
    "F": "the state machine alone, with a clock of its own and recorded words",
}  # fmt: skip
FAIL, INVALID, HEALTHY, NONE = "FAIL", "INVALID", "RECORDED", "none"


@dataclass(frozen=True)
class Row:
    """One thing that happens. `tests`: `file::test` by the letters of the schedulers on which it is shown. `verdict`:
    of the affected run; HEALTHY: the run continues as if nothing had happened, NONE: it leaves no record, because its
    session ended. `beside`: healthy runs in the same session pass. `real`: only a real PBS shows it, while the stand-in
    replays a recorded answer. `own`: the test checks its records itself."""

    what: str
    tests: Mapping[str, str]
    verdict: str
    says: str = ""
    beside: bool = False
    real: bool = False
    own: bool = False


def _rows() -> tuple[Row, ...]:
    file = Path(__file__).with_suffix(".yaml")
    found = cache.yaml(file, file.read_text(encoding="utf-8"))
    return tuple(Row(**one) for one in found)


ROWS = _rows()


def shown() -> Iterator[tuple[Row, str, str]]:
    """Every row on every scheduler: the row, the scheduler's letter, `file::test`."""
    for row in ROWS:
        for letters, test in row.tests.items():
            for letter in letters:
                yield row, letter, test


def of_test(name: str) -> list[Row]:
    """The rows that `file::test` shows."""
    return [row for row in ROWS if name in row.tests.values()]


def against(rows: Sequence[Row], records: Sequence[Record]) -> list[str]:
    """Differences between the records of a test's sessions and its rows; empty: none."""
    must = {row.verdict for row in rows} - {NONE}
    may = must | ({HEALTHY} if any(row.beside for row in rows) else set())
    wrong = [f"no record is {verdict}" for verdict in sorted(must - {record.verdict for record in records})]
    for record in records:
        reason = " ".join(finding.message for finding in record.findings)
        if record.verdict not in may:
            wrong.append(f"{record.nodes}: {record.verdict}: {reason}")
        # a document that a test provides has its own node name
        named = (",".join(record.nodes) or "any ", *([record.result.node] if record.result else ()))
        if record.verdict not in GOOD and not reason.startswith(named):
            wrong.append(f"{record.nodes} are not named: {reason}")
        if record.verdict in GOOD and not record.nodes:
            wrong.append(f"{record.verdict} without a node")
    return wrong


def table() -> str:
    """The table of every tested fault, which the site appends to docs/schedulers.md."""
    lines = ["| what happens | on | verdict | message and other effects |", "|---|---|---|---|"]
    for row in ROWS:
        on = " ".join(
            letter + ("\\*" if row.real and letter == "P" else "") for letters in row.tests for letter in letters
        )
        verdict = {HEALTHY: "unchanged", NONE: "no record"}.get(row.verdict, row.verdict)
        lines.append(f"| {row.what} | {on} | {verdict} | {row.says} |")
    return "\n".join(lines)


def counted() -> str:
    """The sentence above the table."""
    found = list(shown())
    of = {letter: sum(one == letter for _, one, _ in found) for letter in WHERE}
    numbers = ", ".join(f"{of[letter]} on {words} (**{letter}**)" for letter, words in WHERE.items() if of[letter])
    return f"{len({row.what for row in ROWS})} faults in {len(found)} rows: {numbers}."


if __name__ == "__main__":
    print(f"{counted()}\n\n{table()}")
