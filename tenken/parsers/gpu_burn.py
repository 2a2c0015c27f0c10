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
from tenken.parsers import foreign
from tenken.parsers.printed import naming_the_cause, plain

_BURNING = re.compile(r"[Bb]urning for (\d{1,7}) sec")
_PROGRESS = re.compile(r"^\s*(\d{1,3}(?:\.\d)?)%\s+proc'd: (.{1,20000}?)\s+errors: (.{1,20000}?)\s+temps: ", re.M)
_RATE = re.compile(r"(-?\d{1,18}) \((-?\d{1,12}|-?nan|-?inf) Gflop/s\)")
_ERRORS = re.compile(r"\s*(-?\d{1,18})\s*(\((?:DIED|WARNING)!\))?\s*(?:- |$)")
_TESTED = re.compile(r"^\s*Tested (\d{1,6}) GPUs:\s*$", re.M)
_STATE = re.compile(r"^\s*GPU (\d{1,6}): (\w{1,20})\s*$", re.M)
_BATCH = re.compile(r"^Results are (\d{1,18}) bytes each, thus performing (\d{1,9}) iterations", re.M)
#: Operations of a product of two matrices of 8192 rows.
_PRODUCT = 2.0 * 8192**3
#: Rows of the matrices: before 2021 there were fewer. The size of a result in numbers of 4 or 8 bytes names them.
_ROWS = (8192, 2048, 1024)
#: Time of the products at their rates, as a part of the time that passed; whole seconds, and reports that a log lacks.
_AGREE, _SECONDS = 0.25, 3.0
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
    """Read an output. Raises GpuBurnFormatError if anything is missing or inconsistent."""
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
    printed = text.count("proc'd:")
    if len(reports) != printed:
        raise GpuBurnFormatError(f"{printed} reports of progress, {len(reports)} can be read")
    seconds = _BURNING.search(text)
    bytes_of = {int(size) for size, _ in _BATCH.findall(text)}
    rows = [n for n in _ROWS if not bytes_of or bytes_of & {4 * n * n, 8 * n * n}]
    products = [2e-9 * n**3 for n in rows]
    busy, until = [[0.0] * len(products) for _ in range(count)], [0.0] * count
    for report in reports:
        done, processed, wrong = float(report[1]), _RATE.findall(report[2]), _ERRORS.findall(report[3])
        if len(processed) != count or len(wrong) != count:
            raise GpuBurnFormatError(f"a line of progress of {len(processed)} GPUs; tested: {count}")
        if done < before:
            raise GpuBurnFormatError(f"{done:g} % follows {before:g} %: two runs in one")
        if done > 100:
            raise GpuBurnFormatError(f"{done:g} %; allowed: 0 to 100")
        before = done
        for gpu, (number, rate) in enumerate(processed):
            if not re.fullmatch(r"\d+", rate):
                raise GpuBurnFormatError(f"GPU {gpu}: {rate} Gflop/s; allowed: whole numbers, 0 or above")
            if int(number) > last[gpu] and int(rate) == 0:
                raise GpuBurnFormatError(f"GPU {gpu}: {number} products after {last[gpu]} at 0 Gflop/s")
            if int(number) < last[gpu] and int(number) != -1:
                raise GpuBurnFormatError(f"GPU {gpu}: {number} products after {last[gpu]}")
            if int(number) > last[gpu] and int(rate):
                busy[gpu] = [one + (int(number) - last[gpu]) * of / float(rate)
                             for one, of in zip(busy[gpu], products, strict=True)]  # fmt: skip
                until[gpu] = done / 100 * (int(seconds[1]) if seconds else 0)
                # a line repeats the rate of a GPU until its next report
                rates[gpu].append(float(rate))
            last[gpu] = int(number)
            # if a GPU died, the number is arbitrary, possibly 0
            errors[gpu] = max(errors[gpu], abs(int(wrong[gpu][0])), 1 if wrong[gpu][1] else 0)
    idle = next((gpu for gpu, of in enumerate(rates) if not of and states[gpu][1] == "OK"), None)
    if idle is not None:
        why = _short(text, max(last), max((rate for of in rates for rate in of), default=0.0))
        raise GpuBurnFormatError(
            f"GPU {idle} is OK, but no report has a rate of it above 0{why or ': it computed nothing'}"
        )
    medians = tuple(quantile(sorted(of), 0.5) if of else 0.0 for of in rates)
    for gpu, rate in enumerate(medians):
        # a single one may be: of two batches read at once, the second seems to have taken no time
        if why := foreign.beyond(rate, foreign.LOW_PRECISION, "Gflop/s"):
            raise GpuBurnFormatError(f"GPU {gpu}: {why}")
    for gpu, (times, elapsed) in enumerate(zip(busy, until, strict=True)):
        if elapsed and times and not any(abs(one - elapsed) <= _SECONDS + _AGREE * elapsed for one in times):
            raise GpuBurnFormatError(
                f"GPU {gpu}: its {last[gpu]} products at the rates of its reports take {times[0]:.3g} s; they were "
                f"reported after {elapsed:.3g} s"
            )
    return Output(
        tuple(word for _, word in states), medians,
        tuple(errors),
    )  # fmt: skip


def _short(text: str, products: int, rate: float) -> str:
    """How long a run that was too short must be to get a report of each GPU; `products` and `rate` are the maximum over
    the GPUs, 0 without a report.
    """
    batch = max((int(number) for _, number in _BATCH.findall(text)), default=0)
    if not batch or products >= _ENOUGH * batch:
        return ""
    seconds = math.ceil(2 * batch * _PRODUCT / 1e9 / (rate or _SLOW) / 10) * 10
    ran = _BURNING.search(text)
    if ran and not rate and int(ran[1]) >= seconds:
        seconds = 2 * int(ran[1])  # it is slower than assumed
    return (
        f": the run was too short, since a GPU reports only after {batch} products of 8192 rows; {seconds} s suffice"
        + (f" at {rate:.0f} GFLOP/s" if rate else "")
    )
