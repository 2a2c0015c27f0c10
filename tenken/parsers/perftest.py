"""Parser of perftest's ib_*_bw and ib_*_lat: a title, a line of columns, then a line for each size, between rulers.

The format is that of its sources (src/perftest_parameters.h, RESULT_FMT*, REPORT_FMT*, 2013 to 2026). The title is that
of one test: `RDMA_Write BW Test`; `RDMA_Write Bidirectional BW Test` adds up both directions, and `Dual-port : ON`
(-O) both ports. Bandwidths are in MiB/s (2^20) or, with --report_gbits, in Gb/s (10^9 bits), with two decimals or six;
latencies in us, before 2016 without means. A server and its client print the same values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import like_a_row, naming_the_cause, plain

_TITLE = re.compile(r"^\s*((?:Send|RDMA|Atomic)\w{0,20} [\w ]{0,80}?)[ \t]+Test\s*$", re.M)
#: A way to hand over the same work: several requests at once.
_POSTED = "Post List "
_BOTH_PORTS = re.compile(r"^\s*Dual-port\s+: ON\b", re.M)
_COLUMNS = re.compile(r"^\s*#bytes\s+#iterations\s+(.+?)\s*$", re.M)
#: Of 87 characters; those of Open MPI around its messages have 74.
_RULER = re.compile(r"\s*-{80,}\s*")
_BW = re.compile(r"BW peak\[(MiB/sec|Gb/sec|MB/sec)\]\s+BW average\[(MiB/sec|Gb/sec|MB/sec)\]\s+MsgRate\[Mpps\]")
_LAT = re.compile(r"t_min\[usec\]\s+t_max\[usec\]\s+t_typical\[usec\](\s+t_avg\[usec\]\s+t_stdev\[usec\])?")
#: Not what it warns of or replaces, and then runs.
_WRONG = re.compile(
    r"^(?!.*(?:[Ww]arning: |, falling back to |: setting ))"
    r".*(?:Couldn't|Failed to|Unable to|Completion with error|not supported|Problem|Did not detect|"
    r"VALIDATION: (?!PASSED)).*$", re.M
)  # fmt: skip
#: GB/s of a printed unit. Old versions call 2^20 bytes MB.
_SCALE = {"MiB/sec": 2**20 / 1e9, "MB/sec": 2**20 / 1e9, "Gb/sec": 0.125}
#: Mean rate and messages per second come from the same seconds.
_AGREE = 0.001


class PerftestFormatError(TenkenError):
    """The output is not that of perftest, or reports an error."""


@dataclass(frozen=True)
class Point:
    """One size: mean bandwidth in GB/s, or typical latency (median) in us."""

    bytes: int
    value: float


@naming_the_cause
def parse(test: str, text: str) -> tuple[Point, ...]:
    """Read one side's output of a test, `RDMA_Write BW`. Raises PerftestFormatError if anything is missing or
    inconsistent, or the output is that of another test."""
    text = plain(text)
    columns = list(_COLUMNS.finditer(text))
    if wrong := _WRONG.search(text):
        raise PerftestFormatError(f"it reports an error: {' '.join(wrong[0].split())[:120]!r}")
    if len(columns) != 1:
        raise PerftestFormatError(
            f"{len(columns)} lines '#bytes #iterations ...', 1 is required; the output begins {text.strip()[:80]!r}"
        )
    titles = [title.replace(_POSTED, "") for title in _TITLE.findall(text)]
    if titles != [test]:
        raise PerftestFormatError(f"title {', '.join(titles)[:80] or 'missing'}; required: {test} Test")
    if _BOTH_PORTS.search(text):
        raise PerftestFormatError("Dual-port is ON: its rates are those of two ports; required: one")
    unit, latency = _BW.search(columns[0][1]), _LAT.search(columns[0][1])
    if unit is None and latency is None:
        raise PerftestFormatError(f"columns {columns[0][1][:80]!r}; allowed: those of bandwidths or latencies")
    points: list[Point] = []
    after = text[columns[0].end() :].splitlines()
    for line in after:
        words = line.split()
        if not like_a_row(words):
            continue
        shown = repr(" ".join(words)[:100])
        try:
            size, iterations, *figures = (float(word) for word in words)
        except ValueError:
            raise PerftestFormatError(f"line {shown}: not numbers") from None
        if not (math.isfinite(size) and math.isfinite(iterations)):
            raise PerftestFormatError(f"line {shown}: sizes and iterations must be finite numbers")
        columns_of = (5 if latency[1] else 3) if latency else 3
        if not all(math.isfinite(one) and one >= 0 for one in figures) or len(figures) < columns_of:
            raise PerftestFormatError(f"line {shown}: finite numbers of every column are required")
        if size != int(size) or iterations < 1 or (points and size <= points[-1].bytes):
            raise PerftestFormatError(f"line {shown}: sizes must rise: two outputs in one")
        value = _rate(shown, size, words[3:5], unit) if unit else _latency(shown, figures[:columns_of])
        points.append(Point(int(size), value))
    if not points:
        raise PerftestFormatError("no line of results after the line of columns")
    if not any(_RULER.fullmatch(line) for line in after[1:]):
        raise PerftestFormatError("no ruler after the results: it did not run to its end")
    return tuple(points)


def _latency(shown: str, figures: list[float]) -> float:
    least, most, typical = figures[:3]
    mean = figures[3] if len(figures) > 3 else typical
    if not 0 < least <= typical <= most or not least <= mean <= most:
        raise PerftestFormatError(f"line {shown}: the typical latency is outside of least and longest")
    return typical


def _rate(shown: str, size: float, words: list[str], unit: re.Match[str]) -> float:
    """The mean bandwidth, which agrees with the messages a second within the printed digits of both."""
    scale, of_message = _SCALE[unit[2]], size * 1e-3
    (mean, half), (messages, half_message) = (
        (float(word), 0.5 * 10.0 ** -len(word.partition(".")[2])) for word in words
    )  # fmt: skip
    if not messages > 0:
        raise PerftestFormatError(f"line {shown}: the mean bandwidth must be above 0")
    if abs(messages * of_message - mean * scale) > _AGREE * mean * scale + half * scale + half_message * of_message:
        raise PerftestFormatError(
            f"line {shown}: its messages a second are {messages * of_message:.4g} GB/s, printed: {mean * scale:.4g}"
        )
    # two decimals of a few bytes may be 0.00
    rate = mean * scale or messages * of_message
    if why := foreign.beyond(rate, foreign.LINK):
        raise PerftestFormatError(f"line {shown}: {why}")
    return rate
