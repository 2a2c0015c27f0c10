"""Parser of gpu-burn, whose exit status is 0 although a GPU computed wrongly or stopped.

The format is that of its source (gpu_burn-drv.cpp): progress on one line that a carriage return overwrites,
`12.3%  proc'd: 4312 (52130 Gflop/s) - 4200 (51990 Gflop/s)   errors: 0 - 0   temps: 61 C - 60 C`, with `(DIED!)` and
`(WARNING!)` after the errors of a GPU, which then lack the blank before the hyphen; at the end `Tested N GPUs:` and for
each `GPU i: OK` or `FAULTY`. Rates are in 10^9 operations/s of the products, for each GPU since its previous report. A
GPU reports after each batch of products. A batch has as many as the memory holds results: 11 s on 141 GB.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tenken.errors import TenkenError
from tenken.model.numbers import quantile
from tenken.parsers.printed import naming_the_cause, plain

_PROGRESS = re.compile(r"^\s*(\d{1,3}(?:\.\d)?)%\s+proc'd: (.{1,20000}?)\s+errors: (.{1,20000}?)\s+temps: ", re.M)
_RATE = re.compile(r"(-?\d{1,18}) \((-?\d{1,12}|-?nan|-?inf) Gflop/s\)")
_ERRORS = re.compile(r"\s*(-?\d{1,18})\s*(\((?:DIED|WARNING)!\))?\s*(?:- |$)")
_TESTED = re.compile(r"^\s*Tested (\d{1,6}) GPUs:\s*$", re.M)
_STATE = re.compile(r"^\s*GPU (\d{1,6}): (\w{1,20})\s*$", re.M)
_BATCH = re.compile(r"^Results are \d{1,18} bytes each, thus performing (\d{1,9}) iterations", re.M)
#: Operations of a product of two matrices of 8192 rows.
_PRODUCT = 2.0 * 8192**3
#: A GPU without a report after this many batches computed nothing; after fewer, the run may have been too short for it.
_ENOUGH = 3
#: GFLOP/s assumed while no rate is known: that of a V100; GPUs of more memory are faster.
_SLOW = 14e3


class GpuBurnFormatError(TenkenError):
    """The output is not that of gpu-burn, or not complete."""


@dataclass(frozen=True)
class Output:
    """By GPU: its state at the end, its rate in GFLOP/s (median of the reports), and the largest number of errors."""

    states: tuple[str, ...]
    rates: tuple[float, ...]
    errors: tuple[int, ...]


@naming_the_cause
def parse(text: str) -> Output:
    """Read an output. Raises GpuBurnFormatError: what is missing or contradicts itself."""
    text = plain(text)
    tested = list(_TESTED.finditer(text))
    if len(tested) != 1:
        raise GpuBurnFormatError(f"{len(tested)} lines 'Tested N GPUs:', 1 is required: it did not run to its end once")
    states = [(int(number), word) for number, word in _STATE.findall(text[tested[0].end() :])]
    count = int(tested[0][1])
    if not count or [number for number, _ in states] != list(range(count)):
        raise GpuBurnFormatError(f"{len(states)} lines 'GPU i: OK' of {count} GPUs")
    rates: list[list[float]] = [[] for _ in range(count)]
    errors, last = [0] * count, [0] * count
    before = 0.0
    reports = list(_PROGRESS.finditer(text))
    if not reports:
        raise GpuBurnFormatError(f"no line of progress (%  proc'd: ... errors: ... temps: ...){_short(text, 0, 0.0)}")
    for report in reports:
        done, processed, wrong = float(report[1]), _RATE.findall(report[2]), _ERRORS.findall(report[3])
        if len(processed) != count or len(wrong) != count:
            raise GpuBurnFormatError(f"a line of progress of {len(processed)} GPUs; tested: {count}")
        if done < before:
            raise GpuBurnFormatError(f"{done:g} % follows {before:g} %: two runs in one")
        before = done
        for gpu, (number, rate) in enumerate(processed):
            if not re.fullmatch(r"\d+", rate):
                raise GpuBurnFormatError(f"GPU {gpu}: {rate} Gflop/s; allowed: whole numbers, 0 or above")
            if int(number) > last[gpu] and int(rate) == 0:
                raise GpuBurnFormatError(f"GPU {gpu}: {number} products after {last[gpu]} at 0 Gflop/s")
            last[gpu] = int(number)
            if int(number) > 0 and int(rate) > 0:
                rates[gpu].append(float(rate))
            # if a GPU died, the number is arbitrary, possibly 0
            errors[gpu] = max(errors[gpu], abs(int(wrong[gpu][0])), 1 if wrong[gpu][1] else 0)
    idle = next((gpu for gpu, of in enumerate(rates) if not of and states[gpu][1] == "OK"), None)
    if idle is not None:
        why = _short(text, max(last), max((rate for of in rates for rate in of), default=0.0))
        raise GpuBurnFormatError(
            f"GPU {idle} is OK, but no report has a rate of it above 0{why or ': it computed nothing'}"
        )
    return Output(
        tuple(word for _, word in states), tuple(quantile(sorted(of), 0.5) if of else 0.0 for of in rates),
        tuple(errors),
    )  # fmt: skip


def _short(text: str, products: int, rate: float) -> str:
    """How long a run that was too short must be to get a report of each GPU; `products` and `rate` are the maximum over
    the GPUs, 0 without a report.
    """
    batch = max((int(number) for number in _BATCH.findall(text)), default=0)
    if not batch or products >= _ENOUGH * batch:
        return ""
    seconds = math.ceil(2 * batch * _PRODUCT / 1e9 / (rate or _SLOW) / 10) * 10
    return (
        f": the run was too short, since a GPU reports only after {batch} products of 8192 rows; {seconds} s suffice"
        + (f" at {rate:.0f} GFLOP/s" if rate else "")
    )
