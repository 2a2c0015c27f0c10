"""Parser of STREAM (stream.c, stream_mpi.c and stream.f): four kernels with their best rate and times, then a check.

Rates are in MB/s of 10^6 bytes, of the best repetition without the first one. `Solution Validates` follows if the
arrays are right; otherwise `Failed Validation on array`. The number of array elements is printed before. Ports add
words to the title (`CUDA_STREAM based on STREAM version ...`) and are refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import naming_the_cause, plain

KERNELS = ("Copy", "Scale", "Add", "Triad")
#: Number of arrays that a kernel reads or writes.
_ARRAYS = {"Copy": 2, "Scale": 2, "Add": 3, "Triad": 3}

_VERSION = re.compile(r"^\s*STREAM [Vv]ersion \$Revision: (\d[\d.]{0,19}) \$\s*$", re.M)
_ELEMENTS = re.compile(
    r"(?:Array size|Total Aggregate Array size) = {1,20}(\d{1,15})(?: \(elements\)|, Offset|\s*$)", re.M
)
_BYTES = re.compile(r"(?:uses|Assuming) (\d{1,3}) bytes per (?:array element|DOUBLE PRECISION word)")
_ROW = re.compile(r"^\s*(Copy|Scale|Add|Triad):\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s*$", re.M)
_COLUMNS = re.compile(r"^\s*Function\b(.*)$", re.M)
#: Before 5.10 a ruler follows it, not the error.
_VALID = re.compile(
    r"^\s*Solution Validates(?:: avg error less than \S{1,20} on all (?:three )?arrays|!? *\n\s*-{30})", re.M
)
_INVALID = re.compile(r"^.*(?:Failed Validation|Validation failed).*$", re.M | re.I)


class StreamFormatError(TenkenError):
    """The output is not that of STREAM, or its arrays are wrong."""


@dataclass(frozen=True)
class Output:
    """Best rates in GB/s by kernel."""

    version: str
    rates: dict[str, float]


@naming_the_cause
def parse(text: str) -> Output:
    """Read an output. Raises StreamFormatError if anything is missing or inconsistent, or validation failed."""
    text = plain(text)
    version = _VERSION.findall(text)
    if len(version) != 1:
        raise StreamFormatError(
            f"{len(version)} lines 'STREAM version $Revision: ...', 1 is required; the output begins "
            f"{text.strip()[:80]!r}"
        )
    if wrong := _INVALID.search(text):
        raise StreamFormatError(f"its arrays are wrong: {' '.join(wrong[0].split())[:120]!r}")
    if _VALID.search(text) is None:
        raise StreamFormatError("no line 'Solution Validates': it did not run to its end, or was not checked")
    other = next((columns for columns in _COLUMNS.findall(text) if "MB/s" not in columns), None)
    if other is not None:
        raise StreamFormatError(f"columns {' '.join(other.split())[:80]!r}; required: a rate in MB/s")
    rows = _ROW.findall(text)
    if [row[0] for row in rows] != list(KERNELS):
        raise StreamFormatError(
            f"rows of {', '.join(row[0] for row in rows) or 'none'}; required: {', '.join(KERNELS)}"
        )
    elements, width = _ELEMENTS.search(text), _BYTES.search(text)
    rates = {}
    for kernel, *words in rows:
        try:
            rate, mean, least, most = (float(word) for word in words)
        except ValueError:
            raise StreamFormatError(f"{kernel}: {' '.join(words)[:80]!r}: not numbers") from None
        if not all(math.isfinite(one) and one > 0 for one in (rate, mean, least, most)):
            raise StreamFormatError(f"{kernel}: {' '.join(words)[:80]!r}; allowed: finite numbers above 0")
        if not least <= mean * (1 + 1e-6) or not mean <= most * (1 + 1e-6):
            raise StreamFormatError(f"{kernel}: the mean {mean:g} s is outside of {least:g} to {most:g} s")
        if why := foreign.beyond(rate / 1e3, foreign.MEMORY):
            raise StreamFormatError(f"{kernel}: {why}")
        if elements and width:
            # times have six decimals from 5.10 on, before it four
            step = 1e-6 if version[0] == "5.10" else 1e-4
            moved = _ARRAYS[kernel] * int(elements[1]) * int(width[1])
            if not math.isclose(rate * 1e6, moved / least, rel_tol=1e-3 + step / least):
                raise StreamFormatError(
                    f"{kernel}: {rate:g} MB/s; {moved:g} bytes in {least:g} s are {moved / least / 1e6:g}"
                )
        rates[kernel.lower()] = rate / 1e3
    return Output(version[0], rates)
