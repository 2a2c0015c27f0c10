"""The site's OSU Micro-Benchmarks instead of mpi_p2p: the same check, their binaries, a parser of their output.

The format is that of OMB's own sources (mpi/pt2pt and mpi/collective of osu-micro-benchmarks 5.6 to 7.5): a title
`# OSU MPI... Test v7.4`, a line of column names, then one line per size. MB are 10^6 bytes, times are means in us. With
`-c` (from 6.0 on) each line has Pass or Fail before its percentiles (`-z`) and its transmitted size (`-D`). OMB-Py
(OMB's folder python) and the ports among mpi4py's demos print the same without a version, `# OMB-Py MPI ... Test` and
`# MPI ... Test`, and verify nothing.

Lines of launchers around and among them are ignored. A line of results that cannot be parsed, duplicate or unordered
sizes, and a validation of only some sizes are rejected: what is skipped is not verified.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import like_a_row, naming_the_cause, plain

#: Benchmark -> metric, unit, direction, and its column (counted after the size).
BENCHMARKS: dict[str, tuple[str, str, str, int]] = {
    "osu_latency": ("osu_latency", "us", "lower", 0),
    "osu_bw": ("osu_bandwidth", "GB/s", "higher", 0),
    "osu_bibw": ("osu_bidirectional", "GB/s", "higher", 0),
    "osu_mbw_mr": ("osu_message_rate", "messages/s", "higher", 1),
    "osu_allreduce": ("osu_allreduce", "us", "lower", 0),
    "osu_alltoall": ("osu_alltoall", "us", "lower", 0),
    "osu_bcast": ("osu_bcast", "us", "lower", 0),
    "osu_allgather": ("osu_allgather", "us", "lower", 0),
    "osu_reduce": ("osu_reduce", "us", "lower", 0),
    "osu_reduce_scatter": ("osu_reduce_scatter", "us", "lower", 0),
    "osu_gather": ("osu_gather", "us", "lower", 0),
    "osu_scatter": ("osu_scatter", "us", "lower", 0),
}

#: What the title of a benchmark has between `MPI` and `Test`, in lower case.
_NAMED = {
    "osu_latency": "latency", "osu_bw": "bandwidth", "osu_bibw": "bidirectional(?:bandwidth)?",
    "osu_mbw_mr": "multiplebandwidthmessagerate", "osu_allreduce": "allreduce(?:latency)?",
    "osu_alltoall": "alltoall(?:personalizedexchange)?(?:latency)?", "osu_bcast": "(?:broadcast|bcast)(?:latency)?",
    "osu_allgather": "allgather(?:latency)?", "osu_reduce": "reduce(?:latency)?",
    "osu_reduce_scatter": "reducescatter(?:latency)?", "osu_gather": "gather(?:latency)?",
    "osu_scatter": "scatter(?:latency)?",
}  # fmt: skip
_ACCELERATOR = re.compile(r"MPI-[A-Za-z]{2,10}")

#: With -c every iteration writes and compares each of its buffers. OMB's defaults (1000 large messages of osu_latency,
#: 20 windows of 64 of osu_bibw) would take minutes. Each part here: maximum size in bytes (None: no maximum),
#: iterations, and windows of the bandwidth tests.
PARTS: tuple[tuple[int | None, int, int], ...] = ((8192, 1000, 100), (None, 50, 5))
_WINDOWS = ("osu_bw", "osu_bibw", "osu_mbw_mr")

_TITLE = re.compile(r"^[ \t]{0,80}# OSU [^\n]{0,200}?(?:Test|Benchmark)[^v\n]{0,100} v([0-9.]{1,20})", re.M)
#: For the Python ports, which state no version.
_PORT = re.compile(r"^[ \t]{0,80}# ((?:OMB-Py|OMB Python) )?MPI [^\n]{1,100} Test[ \t]*$", re.M)
_COLUMNS = re.compile(r"^[ \t]{0,80}# Size\b([^\n]*)", re.M)
_UNIT = re.compile(r"\b(?:[munp]?s|[KMGTkmgt]i?B/s)\b")
_SIZE = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?")
#: Collectives with -f: average, minimum and maximum over all ranks.
_IN_FULL = re.compile(
    r"^[ \t]{0,80}# Size\s{1,60}Avg Latency\(us\)\s{1,60}Min Latency\(us\)\s{1,60}Max Latency\(us\)", re.M
)
#: Bandwidths are printed with two decimals, and both columns of a line come from the same seconds.
_PRINTED_MBS, _PRINTED = 0.01, 0.001
_TYPE = re.compile(r"^[ \t]{0,80}# Datatype: (\S{1,60}?)\.?[ \t]*$", re.M)
#: Size in bytes of the largest type: a complex number in double precision.
_LARGEST_ELEMENT = 16
_BEGIN = re.compile(r"^TENKEN-OSU (\w+)$", re.M)
_PART = re.compile(r"^TENKEN-OSU-PART$", re.M)


class OsuFormatError(TenkenError):
    """The output is not that of the OSU Micro-Benchmarks."""


@dataclass(frozen=True)
class Point:
    """One line: message size in bytes, the value in its metric's unit, and the validation (None: not requested)."""

    bytes: int
    value: float
    valid: bool | None


@dataclass(frozen=True)
class Output:
    """The output of one benchmark."""

    benchmark: str
    version: str
    points: tuple[Point, ...]


@naming_the_cause
def parse(benchmark: str, text: str) -> Output:
    """Read one benchmark's output; lines of launchers are ignored. Raises OsuFormatError if anything is missing."""
    text = plain(text)
    if benchmark not in BENCHMARKS:
        raise OsuFormatError(f"{benchmark[:60]}: no parser for it; allowed: {', '.join(BENCHMARKS)}")
    title = _TITLE.search(text) or _PORT.search(text)
    if title is None:
        begin = (text.strip().splitlines() or [""])[0]
        raise OsuFormatError(f"{benchmark}: no title '# OSU ... v<version>'; its output begins {begin[:80]!r}")
    _, unit, _, column = BENCHMARKS[benchmark]
    ported = title.re is _PORT
    _hold_columns(benchmark, text[title.end() :], "us" if unit == "us" else "MB/s", ported)
    _hold_title(benchmark, title[0])
    types = list(dict.fromkeys(_TYPE.findall(text)))
    if len(types) > 1:
        raise OsuFormatError(f"{benchmark}: tables of {len(types)} types ({', '.join(types)[:80]}); expected one (-T)")
    scale = 1e-3 if unit == "GB/s" else 1.0
    in_full = _IN_FULL.search(text) is not None
    points: list[Point] = []
    lines: dict[int, str] = {}
    after = 0
    for line in text[title.end() :].splitlines()[1:]:
        if not like_a_row(line.split()):
            if points and (_TITLE.match(line) or _PORT.match(line)):
                raise OsuFormatError(f"{benchmark}: a second title {line.strip()[:80]!r}: two outputs in one")
            continue
        words = line.split()
        point = _point(benchmark, words, column, scale, in_full)
        lines.setdefault(len(words), " ".join(words))
        if point.bytes < after:
            raise OsuFormatError(f"{benchmark}: the size {point.bytes} follows {after - 1}: two outputs are mixed")
        after = point.bytes + 1
        # size 0 is the pure latency; it has no bandwidth and no position on a logarithmic axis
        if point.bytes > 0:
            points.append(point)
    if not points:
        raise OsuFormatError(f"{benchmark}: no line of results after its title")
    if len({point.valid is None for point in points}) > 1:
        bare = next(point.bytes for point in points if point.valid is None)
        raise OsuFormatError(f"{benchmark}: the size {bare} has no Pass or Fail, unlike others")
    if len(lines) > 1:
        (usual, _), (other, line) = list(lines.items())[:2]
        raise OsuFormatError(f"{benchmark}: line {line[:80]!r} has {other} columns, those before it {usual}")
    version = f"({'OMB-Py' if title[1] else 'a port'}, version not stated)" if ported else title[1]
    return Output(benchmark, version, tuple(points))


def _hold_title(benchmark: str, title: str) -> None:
    """Raises OsuFormatError if the title is that of another benchmark."""
    words = _ACCELERATOR.sub("MPI", title.strip(" \t#"))
    between = re.sub(r"[^a-z]", "", re.sub(r"^.*?\bMPI\b|\b(?:Test|Benchmark)\b.*", "", words).lower())
    if not re.fullmatch(_NAMED[benchmark], between):
        raise OsuFormatError(f"{benchmark}: the title {title.strip()[:80]!r} is that of another benchmark")


def _hold_columns(benchmark: str, text: str, unit: str, required: bool) -> None:
    """Raises OsuFormatError if the names of the columns state another unit or, with `required`, no unit or no messages
    per second.
    """
    columns = _COLUMNS.search(text)
    units = _UNIT.findall(columns[1]) if columns else []
    if units and unit not in units:
        raise OsuFormatError(f"{benchmark}: its columns are in {', '.join(units)}; required: {unit}")
    if required and not units:
        raise OsuFormatError(f"{benchmark}: no line '# Size' with the unit of its columns; required: {unit}")
    if benchmark == "osu_mbw_mr" and (columns is None or "Messages/s" not in columns[1]):
        raise OsuFormatError(f"{benchmark}: no line '# Size' with the column 'Messages/s' (options -R 0 and -V)")


def _point(benchmark: str, words: list[str], column: int, scale: float, in_full: bool) -> Point:
    """One line of results. Raises OsuFormatError that shows it."""
    shown = repr(" ".join(words)[:80])
    # percentiles and the transmitted size follow it
    at = next((at for at, word in enumerate(words) if at and word in ("Pass", "Fail")), None)
    valid = None if at is None else words[at] == "Pass"
    figures = words[1:] if at is None else [*words[1:at], *words[at + 1 :]]
    if not _SIZE.fullmatch(words[0]):
        raise OsuFormatError(f"{benchmark}: line {shown}: {words[0][:20]!r} is not a size in bytes")
    wrong = next((word for word in figures if not _NUMBER.fullmatch(word)), None)
    if wrong is not None:
        raise OsuFormatError(f"{benchmark}: line {shown}: {wrong[:20]!r} is not a number; allowed: numbers, 0 or above")
    if len(figures) <= column:
        raise OsuFormatError(f"{benchmark}: line {shown} has no column {column + 2}")
    _hold(benchmark, shown, int(words[0]), [float(word) for word in figures], in_full)
    value = float(figures[column]) * scale
    if not (math.isfinite(value) and value > 0):
        raise OsuFormatError(f"{benchmark}: line {shown}: the value must be finite and above 0")
    unit = BENCHMARKS[benchmark][1]
    if unit == "us" and value < foreign.SHORTEST:
        raise OsuFormatError(f"{benchmark}: line {shown}: {value:g} us are impossible between two ranks")
    # in its time a message crosses a link once; the least time of a collective of several messages is longer
    rate = {"us": int(words[0]) / value / 1e3, "GB/s": value}.get(unit, 0.0)
    if why := foreign.beyond(rate, foreign.LINK):
        raise OsuFormatError(f"{benchmark}: line {shown}: {why}")
    return Point(int(words[0]), value, valid)


def _hold(benchmark: str, shown: str, size: int, figures: list[float], in_full: bool) -> None:
    """Raises OsuFormatError if the columns of a line contradict each other."""
    if benchmark == "osu_mbw_mr" and len(figures) > 1:
        moved = size * figures[1] / 1e6
        if abs(moved - figures[0]) > _PRINTED_MBS + _PRINTED * figures[0]:
            raise OsuFormatError(
                f"{benchmark}: line {shown}: {figures[1]:g} messages/s of {size} B are {moved:.6g} MB/s, printed: "
                f"{figures[0]:g}"
            )
    elif in_full and len(figures) > 2 and not figures[1] <= figures[0] <= figures[2]:
        raise OsuFormatError(
            f"{benchmark}: line {shown}: the average {figures[0]:g} us is outside of {figures[1]:g} to {figures[2]:g}"
        )


def parse_all(text: str) -> list[Output]:
    """The outputs of several benchmarks, each after a line `TENKEN-OSU <benchmark>`, its second part after
    `TENKEN-OSU-PART`. Raises OsuFormatError.
    """
    text = text.replace("\r\n", "\n")  # added by a launcher that gives its ranks a terminal
    marks = list(_BEGIN.finditer(text))
    if not marks:
        raise OsuFormatError("the job printed no output of an OSU benchmark")
    names = [mark[1] for mark in marks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OsuFormatError(f"{twice[:60]}: the job printed its output {names.count(twice)} times")
    ends = [m.start() for m in marks[1:]] + [len(text)]
    return [_joined(mark[1], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def _joined(benchmark: str, text: str) -> Output:
    """The output of one benchmark in one or more parts with ascending sizes. Raises OsuFormatError."""
    outputs = [parse(benchmark, part) for part in _PART.split(text)]
    points = [point for output in outputs for point in output.points]
    back = next((after for before, after in pairwise(points) if after.bytes <= before.bytes), None)
    if back is not None or len({output.version for output in outputs}) > 1:
        what = f"the size {back.bytes} again" if back else "another version"
        raise OsuFormatError(f"{benchmark}: {what} in a second part: two outputs are mixed")
    if len({point.valid is None for point in points}) > 1:
        raise OsuFormatError(f"{benchmark}: only one of its parts has Pass or Fail")
    return Output(benchmark, outputs[0].version, tuple(points))


def hold_sizes(outputs: Sequence[Output], most: int) -> None:
    """Checks that no line was lost: sizes begin with one element of the type, double, and end with `most`. Raises
    OsuFormatError."""
    for output in outputs:
        sizes = [point.bytes for point in output.points]
        # at wrong data the benchmarks stop
        wrong = next((f"; {point.bytes} B: Fail" for point in output.points if point.valid is False), "")
        gap = next((pair for pair in pairwise(sizes) if pair[1] != 2 * pair[0]), None)
        if gap is not None:
            raise OsuFormatError(
                f"{output.benchmark}: the size {gap[1]} follows {gap[0]}: lines between them are lost{wrong}"
            )
        if sizes and (sizes[0] > _LARGEST_ELEMENT or sizes[-1] != most):
            raise OsuFormatError(
                f"{output.benchmark}: sizes from {sizes[0]} to {sizes[-1]} B; requested: from one element to {most} "
                f"B{wrong}"
            )


def parts(benchmark: str, most: int) -> list[str]:
    """Options of a benchmark for sizes up to `most` bytes: one launch for each part, with its sizes and iterations."""
    found, least = [], 1
    for last, iterations, windows in PARTS:
        end = min(most, last or most)
        times = windows if benchmark in _WINDOWS else iterations
        found.append(f"-m {least}:{end} -i {times} -x {max(1, times // 10)}")
        least = 2 * end
        if end == most:
            break
    return found


def document(outputs: list[Output], node: str, ranks: int, nodes: list[str], buffers: str) -> dict[str, Any]:
    """A result document of mpi_p2p from the output of the OSU benchmarks: one sample per size, their mean.

    Its parameter `max_bytes` is the largest size that all of them reached, so an output that stops early differs from
    the request. `nodes` is stated if there are several, as in mpi_p2p.
    """
    metrics, checks = [], []
    for output in outputs:
        name, unit, direction, _ = BENCHMARKS[output.benchmark]
        for point in output.points:
            at = {"buffers": buffers, "bytes": point.bytes}
            metrics.append(foreign.metric(name, {"ranks": ranks}, unit, direction, [point.value], "mean", **at))
        verdicts = [p for p in output.points if p.valid is not None]
        wrong = next((p for p in verdicts if not p.valid), None)
        if verdicts:
            check = {"what": f"{output.benchmark} -c, every size", "error": 1.0 if wrong else 0.0, "tolerance": 0.0}
            checks.append({**check, "passed": wrong is None, **({"detail": f"{wrong.bytes} B: Fail"} if wrong else {})})
    version = f"OSU Micro-Benchmarks {outputs[0].version}"
    last = [output.points[-1].bytes for output in outputs if output.points]
    reached = {"max_bytes": min(last)} if last else {}
    several = {"nodes": len(set(nodes))} if len(set(nodes)) > 1 else {}
    command = [output.benchmark for output in outputs]
    return foreign.document(
        "mpi_p2p", "osu", version, command, node, nodes, ranks, {"buffers": buffers, **reached, **several}, metrics,
        checks, "the OSU benchmarks report none",
    )  # fmt: skip
