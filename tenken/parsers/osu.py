"""The site's OSU Micro-Benchmarks in the place of mpi_p2p: the same check, their binaries, a parser of their output.

The format is that of OMB's own sources (mpi/pt2pt and mpi/collective of osu-micro-benchmarks 5.6 to 7.5): a title
`# OSU MPI... Test v7.4`, a line of column names, then one line a size. MB are 10^6 bytes, times are means in us. With
`-c` (from 6.0 on) each line ends in Pass or Fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers import foreign

#: Benchmark -> metric, unit, direction, and the column that holds it (counted after the size).
BENCHMARKS: dict[str, tuple[str, str, str, int]] = {
    "osu_latency": ("osu_latency", "us", "lower", 0),
    "osu_bw": ("osu_bandwidth", "GB/s", "higher", 0),
    "osu_bibw": ("osu_bidirectional", "GB/s", "higher", 0),
    "osu_mbw_mr": ("osu_message_rate", "messages/s", "higher", 1),
    "osu_allreduce": ("osu_allreduce", "us", "lower", 0),
    "osu_alltoall": ("osu_alltoall", "us", "lower", 0),
    "osu_bcast": ("osu_bcast", "us", "lower", 0),
}

_TITLE = re.compile(r"^# (OSU .*Test|OSU .*Benchmark)[^v\n]* v([\d.]+)", re.M)
_LINE = re.compile(r"^(\d+)((?:\s+[\d.]+(?:[eE][+-]?\d+)?)+)(?:\s+(Pass|Fail))?\s*$")
_BEGIN = re.compile(r"^TENKEN-OSU (\w+)$", re.M)


class OsuFormatError(TenkenError):
    """The output is not what the OSU Micro-Benchmarks print."""


@dataclass(frozen=True)
class Point:
    """One line: message size in bytes, the figure in its metric's unit, and the validation (None: not asked)."""

    bytes: int
    value: float
    valid: bool | None


@dataclass(frozen=True)
class Output:
    """The output of one benchmark."""

    benchmark: str
    version: str
    points: tuple[Point, ...]


def parse(benchmark: str, text: str) -> Output:
    """Read one benchmark's output; launchers' own lines are passed over. Raises OsuFormatError: what is missing."""
    if benchmark not in BENCHMARKS:
        raise OsuFormatError(f"{benchmark}: no parser for it; allowed: {', '.join(BENCHMARKS)}")
    title = _TITLE.search(text)
    if title is None:
        words = text.strip().splitlines()
        raise OsuFormatError(f"{benchmark}: no title '# OSU ... v<version>'; its output begins {(words or [''])[0]!r}")
    _, unit, _, column = BENCHMARKS[benchmark]
    scale = 1e-3 if unit == "GB/s" else 1.0
    points = []
    for line in text[title.end() :].splitlines():
        match = _LINE.match(line.strip())
        if match is None:
            continue
        figures = [float(word) for word in match[2].split()]
        if len(figures) <= column:
            raise OsuFormatError(f"{benchmark}: line {line.strip()!r} has no column {column + 2}")
        # size 0 is the bare latency; it has no bandwidth and no place on a logarithmic axis
        if int(match[1]) > 0:
            points.append(
                Point(int(match[1]), figures[column] * scale, None if match[3] is None else match[3] == "Pass")
            )
    if not points:
        raise OsuFormatError(f"{benchmark}: no line of results after its title")
    return Output(benchmark, title[2], tuple(points))


def parse_all(text: str) -> list[Output]:
    """The outputs of several benchmarks, each behind a line `TENKEN-OSU <benchmark>`. Raises OsuFormatError."""
    marks = list(_BEGIN.finditer(text))
    if not marks:
        raise OsuFormatError("the job printed no output of an OSU benchmark")
    ends = [m.start() for m in marks[1:]] + [len(text)]
    return [parse(mark[1], text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def document(outputs: list[Output], node: str, ranks: int, nodes: list[str], buffers: str) -> dict[str, Any]:
    """A result document of mpi_p2p out of what the OSU benchmarks printed: one sample a size, their mean."""
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
    command = [output.benchmark for output in outputs]
    return foreign.document(
        "mpi_p2p", "osu", version, command, node, nodes, ranks, {"buffers": buffers}, metrics, checks,
        "the OSU benchmarks tell none",
    )  # fmt: skip
