"""Parser of nvbandwidth: its text, or its JSON (-j, from 0.5 on).

The format is that of its sources (output.cpp, json_output.cpp, testcase.h; 0.2 to 0.8) and of outputs of 0.10. Text:
`Running NAME.`, a title with the unit, a line of columns, a line for each row, `SUM NAME value`, or `Waived: ` without
a name; bidirectional tests between GPUs print both directions and then the total. From 0.6 on the last paragraph is
`NOTE: The reported results ...`. JSON: `nvbandwidth`, in it `testcases`, each with name, status, matrix of text and
sum. Bandwidths are in 10^9 bytes/s, latencies in ns.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import naming_the_cause, plain, without_margin

#: Test cases of testcase.h in its order; those in ns are latencies, all others bandwidths.
HOST_TESTS = (
    "host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "host_to_device_bidirectional_memcpy_ce",
    "device_to_host_bidirectional_memcpy_ce", "host_to_device_memcpy_sm", "device_to_host_memcpy_sm",
    "host_to_device_bidirectional_memcpy_sm", "device_to_host_bidirectional_memcpy_sm", "all_to_host_memcpy_ce",
    "all_to_host_bidirectional_memcpy_ce", "host_to_all_memcpy_ce", "host_to_all_bidirectional_memcpy_ce",
    "all_to_host_memcpy_sm", "all_to_host_bidirectional_memcpy_sm", "host_to_all_memcpy_sm",
    "host_to_all_bidirectional_memcpy_sm", "device_local_copy", "host_device_latency_sm", "device_local_copy_sm",
    "device_local_read_sm", "device_local_write_sm", "device_local_copy_tma",
)  # fmt: skip
PAIR_TESTS = (
    "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce",
    "device_to_device_bidirectional_memcpy_read_ce", "device_to_device_bidirectional_memcpy_write_ce",
    "device_to_device_memcpy_read_sm", "device_to_device_memcpy_write_sm",
    "device_to_device_bidirectional_memcpy_read_sm", "device_to_device_bidirectional_memcpy_write_sm",
    "device_to_device_latency_sm", "all_to_one_write_ce", "all_to_one_read_ce", "one_to_all_write_ce",
    "one_to_all_read_ce", "all_to_one_write_sm", "all_to_one_read_sm", "one_to_all_write_sm", "one_to_all_read_sm",
    "device_to_device_memcpy_read_tma", "device_to_device_memcpy_write_tma",
    "device_to_device_bidirectional_memcpy_read_tma", "device_to_device_bidirectional_memcpy_write_tma",
    "device_to_device_latency_tma",
)  # fmt: skip

_VERSION = re.compile(r"^nvbandwidth Version:\s+v?(\S{1,40})", re.M)
_RUNNING = re.compile(r"^Running (\w{1,120})\.\s*$")
#: The end of the title of a matrix.
_UNIT = re.compile(r"\(([A-Za-z]{1,4}(?:/s)?)\)\s*$")
_SUM = re.compile(r"^SUM (\w{1,120}) (\S{1,40})\s*$")
#: Not the loader's line on a library to preload, which it ignores.
_WRONG = re.compile(
    r"^\s*(?:Error\b|ERROR\b(?!: ld\.so: )|Not Found\b|Invalid value when checking)|"
    r"(?:\]|ASSERT) .{0,400}in expression ",
    re.M,
)

_NOTE = "NOTE: The reported results"
#: The first version whose output ends with it.
_NOTED = (0, 6)
#: What follows the name of a test in its sums: those of the whole, and of one direction.
_WHOLE = ("", "_total")
_PARTS = (*_WHOLE, "_read1", "_read2", "_write1", "_write2")
#: Entries have two decimals in text.
_PRINTED = 0.005


class NvbandwidthFormatError(TenkenError):
    """The output is not that of nvbandwidth, or reports an error."""


def is_latency(name: str) -> bool:
    """Whether a test case is in ns."""
    return "_latency_" in name


@dataclass(frozen=True)
class Output:
    """The matrices by test, in GB/s or ns, without unmeasured ones; and waived tests, which only JSON names."""

    version: str
    tests: dict[str, tuple[float, ...]]
    waived: tuple[str, ...]

    def worst(self) -> dict[str, float]:
        """By test the value of the slowest GPU or pair: the lowest bandwidth, the longest latency."""
        return {name: max(values) if is_latency(name) else min(values) for name, values in self.tests.items()}


@naming_the_cause
def parse(text: str) -> Output:
    """Read text or JSON; launcher lines are ignored. Raises NvbandwidthFormatError if a value is missing or wrong."""
    text = without_margin(plain(text), r"(?:nvbandwidth Version:|\{$)")
    begin = re.search(r"^\{", text, re.M)
    of_json = begin is not None and '"nvbandwidth"' in text
    found = _json(text[begin.start() :]) if begin is not None and of_json else _text(text)
    if not found.tests:
        raise NvbandwidthFormatError("no test case has a result")
    return found


def _text(text: str) -> Output:
    version = _VERSION.search(text)
    if version is None:
        raise NvbandwidthFormatError(f"no line 'nvbandwidth Version:'; the output begins {text.strip()[:80]!r}")
    if len(_VERSION.findall(text)) > 1:
        raise NvbandwidthFormatError("two lines 'nvbandwidth Version:': two outputs in one")
    if wrong := _WRONG.search(text):
        raise NvbandwidthFormatError(f"it reports an error: {text[wrong.start() :].strip().splitlines()[0][:120]!r}")
    tests: dict[str, tuple[float, ...]] = {}
    name = ""
    rows: list[list[str]] = []
    done: set[str] = set()
    for line in text.splitlines():
        words = line.split()
        if running := _RUNNING.match(line):
            _ended(name, tests)
            name, rows = running[1], []
            if name in tests:
                raise NvbandwidthFormatError(f"{name}: printed twice: two outputs in one")
        elif name and ("(row)" in line or "(column)" in line):
            rows = []
            _hold_unit(name, line)
        elif total := _SUM.match(line):
            part = total[1].removeprefix(name)
            if not name or part not in _PARTS or not total[1].startswith(name):
                raise NvbandwidthFormatError(
                    f"SUM {total[1]} in the part of {name or 'no test'}: lines are lost or mixed"
                )
            if name in done:
                raise NvbandwidthFormatError(f"{name}: two lines 'SUM': two outputs in one")
            values = _values(name, rows, total[2], len(rows) > 1)
            if part in _WHOLE:
                tests[name] = values
                done.add(name)
        elif name and words and all(word.isdecimal() for word in words) and not rows:
            continue  # the columns
        elif name and len(words) > 1 and words[0].isdecimal():
            rows.append(words[1:])
    _ended(name, tests)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version[1])[:2])
    if numbers >= _NOTED and _NOTE not in text:
        raise NvbandwidthFormatError(f"no paragraph '{_NOTE} ...' after the tests: it did not run to its end")
    return Output(version[1], tests, ())


def _hold_unit(name: str, title: str) -> None:
    """Raises NvbandwidthFormatError unless the title of a matrix ends with the unit of the test."""
    unit, expected = _UNIT.search(title), "ns" if is_latency(name) else "GB/s"
    if unit is None or unit[1] != expected:
        raise NvbandwidthFormatError(f"{name}: its title {' '.join(title.split())[:80]!r}; required: ({expected})")


def _ended(name: str, tests: dict[str, tuple[float, ...]]) -> None:
    if name and name not in tests:
        raise NvbandwidthFormatError(f"{name}: no line 'SUM {name} ...': it did not run to its end")


def _values(name: str, rows: Sequence[Sequence[str]], total: str, square: bool) -> tuple[float, ...]:
    """The entries of a matrix, without the diagonal, which is not measured. Raises NvbandwidthFormatError."""
    if not rows or len({len(row) for row in rows}) > 1:
        raise NvbandwidthFormatError(f"{name}: no matrix, or one with rows of different lengths")
    values, every = [], []
    for at, row in enumerate(rows):
        for column, word in enumerate(row):
            if word == "N/A":
                continue
            try:
                value = float(word)
            except ValueError:
                raise NvbandwidthFormatError(f"{name}: {word[:20]!r} in its matrix is not a number") from None
            if not math.isfinite(value) or value < 0:
                raise NvbandwidthFormatError(f"{name}: {word[:20]!r}; allowed: finite numbers, above 0")
            if not is_latency(name) and (why := foreign.beyond(value, foreign.MEMORY)):
                raise NvbandwidthFormatError(f"{name}: {why}")
            every.append(value)
            if square and at == column and value == 0:
                continue
            if value == 0:
                raise NvbandwidthFormatError(f"{name}: 0 in row {at}, column {column}; allowed: numbers above 0")
            values.append(value)
    try:
        said = float(total)
    except ValueError:
        said = math.nan
    if not abs(said - math.fsum(every)) <= _PRINTED * (len(every) + 1) + 1e-4 * abs(said):
        raise NvbandwidthFormatError(f"{name}: SUM {total[:20]}; that of its matrix is {math.fsum(every):g}")
    if not values:
        raise NvbandwidthFormatError(f"{name}: nothing in its matrix was measured")
    return tuple(values)


def _json(text: str) -> Output:
    try:
        whole, end = json.JSONDecoder().raw_decode(text)
    except ValueError as error:
        raise NvbandwidthFormatError(f"its JSON cannot be read, or is cut short: {error}") from None
    if '"nvbandwidth"' in text[end:]:
        raise NvbandwidthFormatError("two documents: two outputs in one")
    root = whole.get("nvbandwidth")
    cases = root.get("testcases") if isinstance(root, dict) else None
    if not isinstance(root, dict) or not isinstance(cases, list):
        raise NvbandwidthFormatError("its JSON has no nvbandwidth.testcases")
    if root.get("error"):
        raise NvbandwidthFormatError(f"it reports an error: {str(root['error'])[:120]!r}")
    tests: dict[str, tuple[float, ...]] = {}
    waived = []
    for case, following in zip(cases, [*cases[1:], None], strict=True):
        # a test that ends with an error leaves its entry `Running`, and another entry follows
        both = isinstance(case, dict) and isinstance(following, dict)
        if both and case.get("status") == "Running" and case.get("name") == following.get("name"):
            continue
        name, status = (str(case.get(key, "")) if isinstance(case, dict) else "" for key in ("name", "status"))
        if not name:
            raise NvbandwidthFormatError("a test case without a name")
        if status == "Waived":
            waived.append(name)
            continue
        if status != "Passed" or case.get("error"):
            why = f": {case['error']}" if isinstance(case, dict) and case.get("error") else ""
            raise NvbandwidthFormatError(f"{name[:120]}: status {status[:40]}{str(why)[:120]}; allowed: Passed, Waived")
        if name in tests:
            raise NvbandwidthFormatError(f"{name}: twice")
        _hold_unit(name, str(case.get("bandwidth_description", "(ns)" if is_latency(name) else "(GB/s)")))
        matrix = case.get("bandwidth_matrix")
        if not isinstance(matrix, list) or not all(isinstance(row, list) and row for row in matrix) or not matrix:
            raise NvbandwidthFormatError(f"{name}: no bandwidth_matrix")
        # the matrices of both directions precede that of the total
        columns = len(matrix[0])
        last = matrix[-columns:] if len(matrix) > columns else matrix
        tests[name] = _values(name, [[str(word) for word in row] for row in last], str(case.get("sum")), len(last) > 1)
    return Output(str(root.get("version", "unknown")).lstrip("v"), tests, tuple(waived))
