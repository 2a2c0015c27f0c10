"""The site's nccl-tests in addition to nccl: the same request and judgement, their binaries, a parser of their output.

The format is that of nccl-tests' own sources (src/common.cu and src/util.cu, 2.0 to 2.19). It has a line `# nThread
...` with the requested parameters, one line per rank, and two lines of column names. One line per size has time (us),
algorithm and bus bandwidth (10^9 bytes/s) and wrong values, out of place and in place. At the end are the number of
values out of bounds and the mean of all bus bandwidths. Before 2.13, a line has the largest relative error in place of
wrong values, which appear only in the number at the end. A maximum size that does not fit is announced as reduced. From
2.18 on -I adds four columns of single iterations to each mode. Out of place is blank if only the other mode ran. With
`-o all` or `-d all` the sizes are repeated for each operation and type.

A run that stopped early lacks these last lines. Values must be consistent within the printed digits: bandwidth with
size and time, bus bandwidth with that and the number of ranks, the mean with all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import like_a_row, naming_the_cause, plain

#: Binary -> metric, and bus bandwidth over algorithm bandwidth for n ranks (nccl-tests, doc/PERFORMANCE.md).
BENCHMARKS: dict[str, tuple[str, Callable[[int], float]]] = {
    "all_reduce_perf": ("perf_all_reduce", lambda n: 2 * (n - 1) / n),
    "all_gather_perf": ("perf_all_gather", lambda n: (n - 1) / n),
    "reduce_scatter_perf": ("perf_reduce_scatter", lambda n: (n - 1) / n),
    "alltoall_perf": ("perf_alltoall", lambda n: (n - 1) / n),
    "broadcast_perf": ("perf_broadcast", lambda n: 1.0),
    "reduce_perf": ("perf_reduce", lambda n: 1.0),
    "gather_perf": ("perf_gather", lambda n: (n - 1) / n),
    "scatter_perf": ("perf_scatter", lambda n: (n - 1) / n),
    "hypercube_perf": ("perf_hypercube", lambda n: 1.0),
    "sendrecv_perf": ("perf_sendrecv", lambda n: 1.0),
}
#: The fraction of the printed size that is moved in its time, if not all of it (src/hypercube.cu).
_MOVED: dict[str, Callable[[int], float]] = {"hypercube_perf": lambda n: (n - 1) / n}
PLACES = ("out", "in")
_TITLES = ("out-of-place", "in-place")
#: Printed in place of a mode that did not run.
_BLANK = re.compile(r"\S {30,}\S")
#: Without an in-place mode; its columns are printed but not compared (src/alltoall.cu, src/sendrecv.cu).
OUT_OF_PLACE_ALONE = ("alltoall_perf", "sendrecv_perf")
IMPLEMENTATION = "nccl-tests"

_BEGIN = re.compile(r"^TENKEN-NCCL-TESTS (\w+)$", re.M)
_ASKED = re.compile(
    r"^[ \t]{0,80}# nThread (\d{1,6}) nGpus (\d{1,6}) minBytes (\d{1,15}) maxBytes (\d{1,15}) step: "
    r"(\d{1,15})\((factor|bytes)\) warmup iters: (\d{1,9}) iters: (\d{1,9}) (?:agg iters: (\d{1,9}) )?"
    r"validation: (\d{1,9})\b",
    re.M,
)
#: From 2.20 on with the commit: `2.20.0 (b4d5bee) nccl-headers=...`.
_VERSION = re.compile(
    r"^[ \t]{0,80}# nccl-tests version (\S{1,40})(?:(?: \(\S{1,40}\))? nccl-headers=\d{1,9} nccl-library=(\d{1,9}))?",
    re.M,
)
#: Of AMD's fork, which states no version of nccl-tests.
_RCCL = re.compile(r"^[ \t]{0,80}(rccl-tests): Version (\S{1,60})", re.M)
#: The first and the last line of newer versions name the binary, which may have a suffix (NAME_SUFFIX=_mpi).
_NAMED = re.compile(r"^[ \t]{0,80}# Collective test (?:starting|concluded): (\S{1,200})", re.M)
_RANK = re.compile(r"^[ \t]{0,80}#\s{1,9}Rank\s{1,9}(\d{1,6})\s.{0,80}?\bon\s{1,20}(\S{1,120})\s{1,9}device\s", re.M)
#: With NCCL_TESTS_SPLIT every group has a communicator of its own, and times are means of all groups.
_GROUP = re.compile(r"^[ \t]{0,80}#\s{1,9}Rank\s{1,9}\d{1,6}\s{1,9}Group\s{1,9}(\d{1,6})\s", re.M)
_BOUNDS = re.compile(r"^[ \t]{0,80}# Out of bounds values\s{0,9}: (\d{1,15}) (OK|FAILED)\s*$", re.M)
_MEAN = re.compile(r"^[ \t]{0,80}# Avg bus bandwidth\s{0,9}: (\S{1,20})\s?(OK|FAILED)?\s*$", re.M)
_FAILURE = re.compile(r"^.{0,200}(?:Test (?:NCCL|CUDA) failure|Test failure|NCCL failure).{0,200}$", re.M)
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{0,20})?(?:e[+-]?[0-9]{1,3})?")
_REDUCED = re.compile(r"^[ \t]{0,80}# Reducing maxBytes to (\d{1,15}) due to memory limitation", re.M)
#: Before 2.13 the last column of a mode was the largest relative error (%5.0le).
_ERROR = re.compile(r"[0-9]e(?:-[0-9]{2,3}|\+00)")
#: After a line, on request (-T).
_TIMESTAMP = re.compile(r"\s+[0-9]{4}-[0-9]{2}-[0-9]{2}\s+[0-9]{2}:[0-9]{2}:[0-9]{2}\s*$")
#: The last column of later releases: iterations.
_COUNTED = re.compile(r"^[ \t]{0,80}#.{0,400}#wrong\s{1,9}#iters[ \t]*$", re.M)
_COUNT = re.compile(r"\s+[0-9]{1,9}\s*$")
#: Columns of a mode: time, algorithm bandwidth, bus bandwidth, wrong values; then those of single iterations, on
#: request (-I).
_OF_WAY, _OF_ITERATIONS = 4, 4
_ITERATIONS = re.compile(r"^[ \t]{0,80}#.{0,200}\bi_min\b", re.M)
#: Times of the CPU, on request (-C), which agree with no rate.
_CPU_TIMES = re.compile(r"^[ \t]{0,80}#.{0,200}\bcputime\b", re.M)
#: Pieces of a line of results, and a line of NCCL itself (NCCL_DEBUG=INFO) around the name of its host. The tests print
#: a result in pieces, one for each mode, between which the library writes.
_PIECES, _LIBRARY = (
    r"^((?:[ \t]{0,80}[0-9][\w .+/-]{0,200}?)?)(?:\[[\d :.-]{19,29}\] )?",
    r":\d{1,9}:\d{1,9} \[\d{1,4}\] (?:\S{1,200} ){0,2}NCCL [A-Z]{4,5}\b.*\n?",
)
#: size, count, type, operation and root; some collectives leave the last two blank.
_FIRST = (3, 5)


class NcclTestsFormatError(TenkenError):
    """The output is not that of nccl-tests, or contradicts itself."""


@dataclass(frozen=True)
class Point:
    """A size in bytes, `out` of place or `in`: time in us, bus bandwidth in GB/s, wrong values (None: not compared);
    type, operation and root as printed."""

    bytes: int
    place: str
    microseconds: float
    busbw: float
    wrong: int | None
    kind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Output:
    """The output of one binary on `ranks` GPUs of `hosts`, with the parameters of its first line:
    `iterations` in the mean of each value, and the sweep of sizes in bytes."""

    benchmark: str
    version: str
    ranks: int
    hosts: tuple[str, ...]
    asked: tuple[tuple[str, Any], ...]
    out_of_bounds: int
    points: tuple[Point, ...]


@naming_the_cause
def parse(benchmark: str, text: str) -> Output:
    """Read one binary's output. Raises NcclTestsFormatError if anything is missing or inconsistent."""
    text = plain(text)
    if benchmark not in BENCHMARKS:
        raise NcclTestsFormatError(f"{benchmark[:60]}: no parser for it; allowed: {', '.join(BENCHMARKS)}")
    if failure := _FAILURE.search(text):
        raise NcclTestsFormatError(f"{benchmark}: it failed: {' '.join(failure[0].split())[:160]!r}")
    for named in _NAMED.findall(text):
        if not re.fullmatch(rf"{benchmark}(?:_\w{{1,40}})?", named.rsplit("/", 1)[-1], re.A):
            raise NcclTestsFormatError(f"{benchmark}: its output is that of {named[:60]}")
    asked = _once(benchmark, _ASKED, text, "line '# nThread ... minBytes ...'")
    bounds = _once(benchmark, _BOUNDS, text, "line '# Out of bounds values : N OK': it did not run to its end")
    mean = _once(benchmark, _MEAN, text, "line '# Avg bus bandwidth : N': it did not run to its end")
    if not asked.start() < bounds.start() < mean.start():
        raise NcclTestsFormatError(f"{benchmark}: its lines are not in order: parts of several outputs")
    listed = text[asked.end() : bounds.start()]
    if len(groups := set(_GROUP.findall(listed))) > 1:
        raise NcclTestsFormatError(
            f"{benchmark}: {len(groups)} groups of ranks at once (NCCL_TESTS_SPLIT); expected one"
        )
    ranks = [(int(number), host) for number, host in _RANK.findall(listed)]
    if [number for number, _ in ranks] != list(range(len(ranks))) or len(ranks) < 2:
        raise NcclTestsFormatError(
            f"{benchmark}: {len(ranks)} lines '# Rank N ... on HOST device'; expected: 0, 1, ..."
        )
    if len(ranks) % max(1, int(asked[1]) * int(asked[2])):
        raise NcclTestsFormatError(
            f"{benchmark}: {len(ranks)} lines '# Rank N ...'; its first line has {asked[1]} x {asked[2]} GPUs"
        )
    if _CPU_TIMES.search(text):
        raise NcclTestsFormatError(f"{benchmark}: times of the CPU (-C), from which its rates do not follow")
    names = "|".join(re.escape(host) for host in {host for _, host in ranks})
    table = re.sub(f"{_PIECES}(?:{names}){_LIBRARY}", r"\1", text[asked.end() :], flags=re.M)
    rows = _rows(benchmark, table)
    points = [point for row in rows for point in _points(benchmark, row, len(ranks))]
    reduced = _REDUCED.search(text)
    end = int(reduced[1]) if reduced else int(asked[4])
    # a sweep for each type, operation and root, one after the other
    sweeps: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        sweeps.setdefault(row.kind, []).append(row.bytes)
    for sizes in sweeps.values() or [[]]:
        _all_sizes(benchmark, asked, end, sizes)
    _mean(benchmark, mean[1], [columns[2] for row in rows for columns in row.modes.values()])
    if mean[2] == "FAILED":
        raise NcclTestsFormatError(
            f"{benchmark}: the mean bus bandwidth {mean[1]} is below the minimum that its caller set"
        )
    wrong = sum(point.wrong or 0 for point in points)
    if (int(bounds[1]) > 0 or wrong > 0) != (bounds[2] == "FAILED"):
        raise NcclTestsFormatError(
            f"{benchmark}: {wrong} wrong values in its lines, and 'Out of bounds values : {bounds[1]} {bounds[2]}'"
        )
    version, fork = _VERSION.search(text), _RCCL.search(text)
    name = " ".join(fork.groups()) if fork else "nccl-tests" if version is None else f"nccl-tests {version[1]}"
    if version is not None and version[2]:
        name += f", NCCL {version[2]}"
    hosts = tuple(dict.fromkeys(host for _, host in ranks))
    alone = benchmark in OUT_OF_PLACE_ALONE
    kept = tuple(point for point in points if point.bytes > 0 and not (alone and point.place == "in"))
    if len({point.wrong is None for point in kept}) > 1:
        bare = next(point for point in kept if point.wrong is None)
        raise NcclTestsFormatError(f"{benchmark}: {bare.bytes} B {bare.place} of place was not checked, others were")
    if not kept:
        raise NcclTestsFormatError(f"{benchmark}: no line of results with a size above 0")
    sweep = {"min_bytes": int(asked[3]), "max_bytes": int(asked[4]), asked[6]: int(asked[5])}
    said = tuple({**sweep, "iterations": int(asked[8]), "operations_each": int(asked[9] or 1)}.items())
    return Output(benchmark, name, len(ranks), hosts, said, int(bounds[1]), kept)


def _once(benchmark: str, pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    found = list(pattern.finditer(text))
    if not found:
        raise NcclTestsFormatError(f"{benchmark}: no {what}")
    if len(found) > 1:
        raise NcclTestsFormatError(f"{benchmark}: {len(found)} times the {what.split(':')[0]}: several outputs in one")
    return found[0]


@dataclass(frozen=True)
class _Row:
    """A line of results: its first columns, and by mode time, algorithm bandwidth, bus bandwidth and wrong values."""

    shown: str
    bytes: int
    kind: tuple[str, ...]
    modes: dict[str, list[str]]


def _rows(benchmark: str, text: str) -> list[_Row]:
    """The lines of results. Raises NcclTestsFormatError, which shows a line that cannot be divided into columns."""
    width = _OF_WAY + (_OF_ITERATIONS if _ITERATIONS.search(text) else 0)
    titles = [line for line in text.splitlines() if line.lstrip().startswith("#") and "-place" in line]
    modes = tuple(place for place, title in zip(PLACES, _TITLES, strict=True) if any(title in one for one in titles))
    found = []
    counted = _COUNTED.search(text) is not None
    for line in text.splitlines():
        line = _TIMESTAMP.sub("", line)
        line = _COUNT.sub("", line) if counted else line
        words = line.split()
        if not like_a_row(words):
            continue
        shown = repr(" ".join(words)[:120])
        # only a blank as wide as a mode distinguishes a mode that did not run from a line that was cut
        places = PLACES[1:] if modes != PLACES[:1] and _BLANK.search(line.strip()) else modes or PLACES
        first = len(words) - len(places) * width
        if not _FIRST[0] <= first <= _FIRST[1]:
            least, most = (count + len(places) * width for count in _FIRST)
            raise NcclTestsFormatError(
                f"{benchmark}: line {shown} has {len(words)} columns; allowed: {least} to {most}, the last "
                f"{len(places) * width} of them {width} for each of {', '.join(places)}"
            )
        if not re.fullmatch(r"[0-9]{1,15}", words[0]):
            raise NcclTestsFormatError(f"{benchmark}: line {shown}: {words[0][:20]!r} is not a size in bytes")
        of_modes = {place: words[first + way * width :][:_OF_WAY] for way, place in enumerate(places)}
        found.append(_Row(shown, int(words[0]), tuple(words[2:first]), of_modes))
    return found


def _points(benchmark: str, row: _Row, ranks: int) -> list[Point]:
    """The modes of a line. Raises NcclTestsFormatError that shows it."""
    shown, size, found = row.shown, row.bytes, []
    for place, columns in row.modes.items():
        time, _, busbw = (_number(benchmark, shown, word) for word in columns[:3])
        wrong = None if columns[3] == "N/A" else _number(benchmark, shown, columns[3])
        if _ERROR.fullmatch(columns[3]):
            wrong = 0
        if wrong is not None and (wrong != int(wrong)):
            raise NcclTestsFormatError(
                f"{benchmark}: line {shown}: {columns[3]!r} wrong values; allowed: 0, 1, ... or N/A"
            )
        if size > 0:
            if not time > 0:
                raise NcclTestsFormatError(f"{benchmark}: line {shown}: times must be above 0")
            moved = size * _MOVED.get(benchmark, lambda n: 1.0)(ranks)
            rate = _rate(moved, columns[0])
            _follows(f"{benchmark}: line {shown}: algbw", columns[1], rate, "size / time")
            factor = BENCHMARKS[benchmark][1](ranks)
            low, high = _span(columns[1])
            bus = (low * factor, high * factor)
            _follows(f"{benchmark}: line {shown}: busbw", columns[2], bus, f"algbw x {factor:.6g} for {ranks} ranks")
            if why := foreign.beyond(busbw, foreign.LINK):
                raise NcclTestsFormatError(f"{benchmark}: line {shown}: busbw {why}")
            # two decimals are 0.00 for a few bytes: the rate then follows from the time
            busbw = busbw or moved / time / 1e3 * factor
        found.append(Point(size, place, time, busbw, None if wrong is None else int(wrong), row.kind))
    return found


def _number(benchmark: str, shown: str, word: str) -> float:
    value = float(word) if _NUMBER.fullmatch(word) else math.nan
    if not math.isfinite(value):
        raise NcclTestsFormatError(
            f"{benchmark}: line {shown}: {word[:20]!r} is not a number; allowed: finite numbers, 0 or above"
        )
    return value


def _span(word: str) -> tuple[float, float]:
    """The interval of values that round to a printed number."""
    digits, _, power = word.partition("e")
    half = 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return max(0.0, float(word) - half), float(word) + half


def _rate(size: float, time: str) -> tuple[float, float]:
    """GB/s of a size in bytes within the digits of a time in us."""
    low, high = _span(time)
    return size / high / 1e3, (size / low / 1e3 if low > 0 else math.inf)


def _follows(what: str, word: str, expected: tuple[float, float], of: str) -> None:
    """Raises NcclTestsFormatError unless a printed number is consistent with its origin."""
    low, high = _span(word)
    if low > expected[1] * (1 + 1e-9) or high < expected[0] * (1 - 1e-9):
        raise NcclTestsFormatError(f"{what} is {word}; {of} gives {expected[0]:.6g} to {expected[1]:.6g}")


def _all_sizes(benchmark: str, asked: re.Match[str], end: int, sizes: Sequence[int]) -> None:
    """Checks that every announced size up to `end` occurs once; collectives that divide a size round it down."""
    start, step = int(asked[3]), int(asked[5])
    if step < (2 if asked[6] == "factor" else 1) or start < 1:
        raise NcclTestsFormatError(f"{benchmark}: sizes from {start} by {step}({asked[6]}) never end")
    announced: list[int] = []
    while start <= end and len(announced) <= len(sizes):
        announced.append(start)
        start = start * step if asked[6] == "factor" else start + step
    if len(announced) != len(sizes):
        raise NcclTestsFormatError(
            f"{benchmark}: {len(sizes)} lines of results; its first line announces "
            f"{len(announced)}{' or more' if start <= end else ''} sizes from {asked[3]} to {end} bytes"
        )
    for line, (size, expected) in enumerate(zip(sizes, announced, strict=True), start=1):
        if size > expected or (size < 0.5 * expected and expected > 65536):
            raise NcclTestsFormatError(f"{benchmark}: the size of line {line} is {size}; announced: {expected}")
        if line > 1 and size <= sizes[line - 2] and size > 0:
            raise NcclTestsFormatError(f"{benchmark}: the size {size} follows {sizes[line - 2]}: two outputs are mixed")


def _mean(benchmark: str, said: str, rates: Sequence[str]) -> None:
    """Checks that the printed mean is that of all bus bandwidths of all modes."""
    if not _NUMBER.fullmatch(said):
        raise NcclTestsFormatError(f"{benchmark}: the mean bus bandwidth {said[:20]!r} is not a number")
    spans = [_span(rate) for rate in rates]
    low, high = (sum(side) / len(spans) for side in zip(*spans, strict=True)) if spans else (0.0, 0.0)
    # %g prints six digits
    slack = 1e-5 * float(said)
    if not low - slack <= float(said) <= high + slack:
        raise NcclTestsFormatError(
            f"{benchmark}: the mean bus bandwidth is {said}; that of its lines is {low:.6g} to {high:.6g}"
        )


def parse_all(text: str) -> list[Output]:
    """The outputs of several binaries, each after a line `TENKEN-NCCL-TESTS <binary>`. Raises NcclTestsFormatError."""
    text = text.replace("\r\n", "\n")  # added by a launcher that gives its ranks a terminal
    marks = list(_BEGIN.finditer(text))
    if not marks:
        raise NcclTestsFormatError("the job printed no output of nccl-tests")
    names = [mark[1] for mark in marks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise NcclTestsFormatError(f"{twice[:60]}: the job printed its output {names.count(twice)} times")
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    found = [parse(mark[1], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    for one in found[1:]:
        for what in ("version", "ranks", "hosts", "asked"):
            said, first = getattr(one, what), getattr(found[0], what)
            if said != first:
                raise NcclTestsFormatError(f"{one.benchmark}: {what} {said}; {found[0].benchmark} has {first}")
    return found


def document(outputs: Sequence[Output], node: str, nodes: list[str], ranks: int) -> dict[str, Any]:
    """A result document of nccl from the output of the binaries: one mean per size and mode, their bus bandwidth.

    `ranks`: the requested number, if no output contains it.
    """
    metrics, checks = [], []
    for output in outputs:
        name = BENCHMARKS[output.benchmark][0]
        ranks = output.ranks or ranks
        kinds = list(dict.fromkeys(point.kind for point in output.points))
        if len(kinds) > 1:
            shown = ", ".join(" ".join(kind) for kind in kinds)[:80]
            raise NcclTestsFormatError(f"{output.benchmark}: {len(kinds)} types or operations ({shown}); expected one")
        for one in output.points:
            at = {"bytes": one.bytes, "place": one.place}
            metrics.append(foreign.metric(name, {"ranks": ranks}, "GB/s", "higher", [one.busbw], "mean", **at))
        compared = [one for one in output.points if one.wrong is not None]
        if len(compared) == len(output.points) and output.points:
            wrong = next((one for one in compared if one.wrong), None)
            error = float(max(sum(one.wrong or 0 for one in compared), output.out_of_bounds))
            check = {"what": f"{output.benchmark} -c 1, every size", "error": error, "tolerance": 0.0}
            said = {"detail": f"{wrong.bytes} B {wrong.place} of place: {wrong.wrong} wrong"} if wrong else {}
            checks.append({**check, "passed": error == 0, **said})
    made = foreign.document(
        "nccl", IMPLEMENTATION, outputs[0].version, [one.benchmark for one in outputs], node, nodes, 1,
        {"gpus": ranks, **dict(outputs[0].asked)}, metrics, checks, "nccl-tests report none",
    )  # fmt: skip
    # its ranks are GPUs of one process
    made["parameters"]["ranks"] = ranks
    return made
