"""Parser of IOR from 3.2 on. One launch runs two tests: the first is timed, the second verified.

Each test prints its nodes, tasks and sizes, a line of column names, and a row for each write and read. Rates are in
MiB/s (2^20), block and transfer sizes in KiB, times in seconds. Releases differ in the columns, which are found by
name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tenken.errors import TenkenError
from tenken.parsers.printed import naming_the_cause, plain, without_margin

_TITLE = re.compile(r"^IOR-(\S+): MPI Coordinated Test of Parallel I/O\s*$", re.M)
_COLUMNS = re.compile(r"^access +bw\(MiB/s\) .*$", re.M)
_COUNTS = re.compile(r"^(nodes|clients per node|tasks|segments) +: (\d{1,9})\s*$", re.M)
_END = re.compile(r"^Finished +: ", re.M)
#: Wrong data, or files of another size than was written.
_WRONG = re.compile(
    r"^.*(?:incorrect data on|failed comparison|aggregate file size  |inconsistent file size).*$", re.M | re.I
)
_GB = 2**20 / 1e9
#: Rate times time must be the size; rates have two decimals, times six.
_AGREE = 0.01


class IorFormatError(TenkenError):
    """The output is not that of IOR, or does not have both tests."""


@dataclass(frozen=True)
class Output:
    """What was timed: GB/s of all tasks together, for each repetition. `wrong`: the first line that reports wrong data
    or sizes."""

    version: str
    nodes: int
    tasks: int
    bytes: int
    write: tuple[float, ...]
    read: tuple[float, ...]
    wrong: str = ""


@naming_the_cause
def parse(text: str) -> Output:
    """Read the output of both tests. Raises IorFormatError if anything is missing or inconsistent."""
    text = without_margin(plain(text), "IOR-")
    titles, heads = _TITLE.findall(text), list(_COLUMNS.finditer(text))
    if len(titles) != 1:
        raise IorFormatError(
            f"{len(titles)} lines 'IOR-...: MPI Coordinated Test', 1 is required: ranks of one launch; the output "
            f"begins {text.strip()[:80]!r}"
        )
    if len(heads) != 2:
        raise IorFormatError(
            f"{len(heads)} lines 'access bw(MiB/s) ...', 2 are required: the timed test, the verified one"
        )
    if not _END.search(text, heads[1].end()):
        raise IorFormatError("no line 'Finished' after the second test: it did not run to its end")
    told: dict[str, list[int]] = {"tasks": [], "segments": [], "nodes": [], "clients per node": []}
    for name, number in _COUNTS.findall(text):
        told[name].append(int(number))
    clients = told.pop("clients per node")
    if not told["nodes"] and len(clients) == len(told["tasks"]) and all(clients):
        # 3.2 names only the tasks of a node
        told["nodes"] = [-(-tasks // each) for tasks, each in zip(told["tasks"], clients, strict=True)]
    if any(len(numbers) != 2 or len(set(numbers)) != 1 or 0 in numbers for numbers in told.values()):
        raise IorFormatError(
            "both tests must state the same number of nodes, tasks and segments, as IOR does from 3.2 on"
        )
    tasks, segments, nodes = (numbers.pop() for numbers in told.values())
    timed = _rows(text[heads[0].end() : heads[1].start()], heads[0][0].split(), tasks * segments)
    verified = _rows(text[heads[1].end() :], heads[1][0].split(), tasks * segments)
    found = {access: [rate for one, _, rate in timed if one == access] for access in ("write", "read")}
    sizes = {size for _, size, _ in [*timed, *verified]}
    if not found["write"] or len(found["write"]) != len(found["read"]) or len(sizes) != 1:
        raise IorFormatError(
            f"{len(found['write'])} rows of writing and {len(found['read'])} of reading, of {len(sizes)} sizes; "
            "as many of each are required, of one size"
        )
    if [access for access, _, _ in verified] != ["read"]:
        raise IorFormatError(f"{len(verified)} rows in the second test; 1 of reading is required")
    wrong = _WRONG.search(text)
    return Output(
        titles[0], nodes, tasks, sizes.pop(), tuple(found["write"]), tuple(found["read"]),
        " ".join(wrong[0].split())[:160] if wrong else "",
    )  # fmt: skip


def _rows(text: str, columns: list[str], blocks: int) -> list[tuple[str, int, float]]:
    """Access, bytes of all blocks (one for each task and segment) and GB/s of each row before the summary."""
    rows = []
    for line in text.partition("Summary of all tests")[0].splitlines():
        words = line.split()
        if words[:1] not in (["write"], ["read"]):
            continue
        shown = repr(" ".join(words)[:100])
        try:
            of = dict(zip(columns[1:], map(float, words[1:]), strict=True))
            rate, block, seconds = (of[name] for name in ("bw(MiB/s)", "block(KiB)", "total(s)"))
        except (ValueError, KeyError):
            raise IorFormatError(
                f"line {shown}: numbers under the columns {' '.join(columns)[:120]} are required"
            ) from None
        if not all(math.isfinite(one) and one > 0 for one in (rate, block, seconds)):
            raise IorFormatError(f"line {shown}: rate, block and time must be finite and above 0")
        size = block * 1024 * blocks
        if abs(rate * 2**20 * seconds - size) > (_AGREE + 1e-6 / seconds) * size:
            raise IorFormatError(
                f"line {shown}: in its time {blocks} blocks moved {rate * 2**20 * seconds:.6g} bytes, not {size:.6g}"
            )
        rows.append((words[0], round(size), rate * _GB))
    return rows
