"""Parser of HPL-MxP of NVIDIA and of AMD.

NVIDIA's prints one block of norms, the scaled residual with its verdict, the problem and the rates between two lines
`****** HPL MxP Result ******`, but no time. So the rate is compared with that of one GPU and that of the LU alone, and
the scaled residual with the norms printed with it. The quality of the factors is not printed, and a residual does not
detect a wrong LU of a dominant matrix; so the verdict names its source.

AMD's (rocHPL-MxP 2.1, src/hplmxp_ptest.cpp) writes HPL's report and `HPLMXP_pdgesv() start time`. Its updates are in
FP16. It rounds N up to a multiple of NB lcm(P, Q), and prints that N.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tenken.parsers import foreign
from tenken.parsers.hpl import OTHER_SOLVER, THRESHOLD, HplFormatError, section
from tenken.parsers.printed import naming_the_cause, plain

#: Formats of the factorisation by the number of its option; versions from 25 on print the name.
SLOPPY = {1: "fp8", 2: "fp16"}
_AMDS_SOLVER = "HPLMXP_pdgesv"
_NAMES = {**{str(number): name for number, name in SLOPPY.items()}, **{name: name for name in SLOPPY.values()}}

#: eps of the benchmark's rules.
_EPSILON = 2.0**-53
#: Norms have seven digits, rates five or two decimals.
_ROUNDED_RESIDUAL, _ROUNDED_RATE = 1e-4, 1e-3

_NUMBER = r"([-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,4})?|inf|nan))"
_INTEGER = r"([0-9]{1,9})"
_MARK = re.compile(r"^[ \t]{0,40}\*{3,20}[ \t]{1,20}HPL MxP Result[ \t]{1,20}\*{3,20}[ \t]{0,40}$", re.M)
_TITLE = re.compile(r"^[ \t]{0,80}(HPL-MxP(?:-NVIDIA)?\s+v?[0-9]\S{0,30})", re.M)
_DOTS = r"[ \t]{1,40}(?:\.[ \t]{0,4}){0,40}[ \t]{0,40}=[ \t]{0,40}"
_NORMS = {
    "EPS": r"EPS", "Threshold": r"Threshold", "||Ax-b||_oo": r"\|\|Ax-b\|\|_oo",
    "||A||_oo": r"\|\|A[ \t]{0,8}\|\|_oo", "||x||_oo": r"\|\|x[ \t]{0,8}\|\|_oo", "||b||_oo": r"\|\|b[ \t]{0,8}\|\|_oo",
}  # fmt: skip
_SCALED = re.compile(
    rf"^[ \t]{{0,40}}\|\|Ax-b\|\|_oo[ \t]{{0,8}}/[ \t]{{0,8}}\([^=\n]{{1,200}}\)[ \t]{{0,40}}=[ \t]{{0,40}}{_NUMBER}"
    r"[ \t]{0,40}\.{1,20}[ \t]{0,8}([A-Z]{1,20})[ \t]*$",
    re.M | re.I,
)
_PROBLEM = re.compile(
    rf"^[ \t]{{0,40}}N = {_INTEGER}, NB = {_INTEGER}, NPROW = {_INTEGER}, NPCOL = {_INTEGER}, "
    r"SLOPPY-TYPE = (\w{1,12})[ \t]*$",
    re.M,
)
_RATE = re.compile(rf"^[ \t]{{0,40}}(LU )?GFLOPS = {_NUMBER}, per GPU =[ \t]{{0,40}}{_NUMBER}", re.M)


@dataclass(frozen=True)
class Result:
    """One solved problem: rates in Gflop/s (10^9), scaled residual with the rules' eps, the program's verdict."""

    version: str
    n: int
    nb: int
    p: int
    q: int
    low: str
    gflops: float
    residual: float
    passed: bool
    #: Of the factorisation alone; AMD's prints none.
    lu_gflops: float | None = None


@naming_the_cause
def parse(text: str) -> Result:
    """Read an output; other lines are ignored. Raises HplFormatError if anything is missing or inconsistent."""
    text = plain(text)
    if solver := OTHER_SOLVER.search(text):
        if solver[1] != _AMDS_SOLVER:
            raise HplFormatError(f"solved by {solver[1]}, which does not state its format; required: HPL-MxP")
        return _of_amd(text)
    marks = list(_MARK.finditer(text))
    if len(marks) != 2:
        first = (text.strip().splitlines() or [""])[0][:80]
        raise HplFormatError(
            f"{len(marks)} lines 'HPL MxP Result', 2 are required: cut short, or several runs; the output begins "
            f"{first!r}"
        )
    block = text[marks[0].end() : marks[1].start()]
    norms = {name: _one(re.compile(rf"^[ \t]{{0,40}}{words}{_DOTS}{_NUMBER}", re.M), block, name) for name, words in
             _NORMS.items()}  # fmt: skip
    value = {name: float(found[1]) for name, found in norms.items()}
    problem = _one(_PROBLEM, block, "N, NB, NPROW, NPCOL and SLOPPY-TYPE")
    n, nb, p, q = (int(number) for number in problem.groups()[:4])
    low = _NAMES.get(problem[5].lower().replace("_", "").replace("-", ""), "")
    if not low:
        allowed = ", ".join(f"{number} ({name})" for number, name in SLOPPY.items())
        raise HplFormatError(f"SLOPPY-TYPE = {problem[5]}: allowed: {allowed}, or the name")
    if min(n, nb, p, q) < 1:
        raise HplFormatError(f"{problem[0].strip()!r}: none of them may be 0")
    scaled = _one(_SCALED, block, "the scaled residual")
    rates = {bool(found[1]): (float(found[2]), float(found[3])) for found in _RATE.finditer(block)}
    if set(rates) != {False, True} or len(_RATE.findall(block)) != 2:
        raise HplFormatError("a line GFLOPS and a line LU GFLOPS, each with 'per GPU', are required")
    _hold_rates(rates, p * q)
    return Result(
        " ".join(title[1].split()) if (title := _TITLE.search(text)) else "HPL-MxP, no version printed",
        n, nb, p, q, low, rates[False][0], _residual(value, float(scaled[1]), n), scaled[2].upper() == "PASSED",
        rates[True][0],
    )  # fmt: skip


def _of_amd(text: str) -> Result:
    results = section(text, foreign.LOW_PRECISION)
    if len(results) != 1:
        raise HplFormatError(f"{len(results)} results; one problem was requested, once (-it 1)")
    (one,) = results
    return Result(
        "rocHPL-MxP, no version printed", one.n, one.nb, one.p, one.q, "fp16", one.gflops, one.residual, one.passed
    )


def _one(pattern: re.Pattern[str], block: str, what: str) -> re.Match[str]:
    found = list(pattern.finditer(block))
    if len(found) != 1:
        raise HplFormatError(f"{what}: {len(found)} lines of it, 1 is required")
    return found[0]


def _hold_rates(rates: dict[bool, tuple[float, float]], gpus: int) -> None:
    for lu, (total, each) in rates.items():
        name = "LU GFLOPS" if lu else "GFLOPS"
        if not (math.isfinite(total) and total > 0):
            raise HplFormatError(f"{name} = {total}: not finite, or not above 0")
        if why := foreign.beyond(total / gpus, foreign.LOW_PRECISION, "GFLOPS per GPU"):
            raise HplFormatError(f"{name}: {why}")
        if not math.isclose(total, each * gpus, rel_tol=_ROUNDED_RATE):
            raise HplFormatError(f"{name} = {total:g} of {gpus} GPUs and {each:g} per GPU are inconsistent")
    if rates[True][0] < rates[False][0] * (1 - _ROUNDED_RATE):
        raise HplFormatError(
            f"GFLOPS = {rates[False][0]:g} is above LU GFLOPS = {rates[True][0]:g}, which is a part of it"
        )


def _residual(norms: dict[str, float], printed: float, n: int) -> float:
    """The scaled residual with the rules' eps, from the norms; infinity if one is NaN."""
    if not all(math.isfinite(norm) and norm >= 0 for norm in norms.values()) or not math.isfinite(printed):
        return math.inf
    beside = (norms["||A||_oo"] * norms["||x||_oo"] + norms["||b||_oo"]) * n
    if not (beside > 0 and norms["EPS"] > 0):
        raise HplFormatError("norms of A, x and b that are all 0, or an EPS of 0")
    if not math.isclose(printed, norms["||Ax-b||_oo"] / (norms["EPS"] * beside), rel_tol=_ROUNDED_RESIDUAL):
        raise HplFormatError(
            f"the scaled residual {printed:g} does not follow from its norms: "
            f"{norms['||Ax-b||_oo'] / (norms['EPS'] * beside):g}"
        )
    return norms["||Ax-b||_oo"] / (_EPSILON * beside)


def options(command: str, n: int, nb: int, p: int, q: int, low: str) -> str:
    """The arguments of a command: of AMD's program, or of NVIDIA's script with one GPU per rank in the order of the
    ranks of a node."""
    if "rochplmxp" in command:
        # its wrapper takes other names
        return f"-P {p} -Q {q} -N {n} {'--NB' if 'run_rochplmxp' in command else '-NB'} {nb}"
    sloppy = next(number for number, name in SLOPPY.items() if name == low)
    gpus = ":".join(str(gpu) for gpu in range(p * q))
    return f"--n {n} --nb {nb} --nprow {p} --npcol {q} --nporder row --sloppy-type {sloppy} --gpu-affinity {gpus}"


def document(
    result: Result | None, command: list[str], node: str, nodes: list[str], ranks: int, n: int, nb: int, p: int, q: int,
    low: str,
) -> dict[str, Any]:  # fmt: skip
    """A result document of hpl_mxp from the program's output; requested and solved problem must agree."""
    metrics, checks = [], []
    if result is not None:
        asked = {"N": n, "NB": nb, "P": p, "Q": q, "format": low}
        solved = {"N": result.n, "NB": result.nb, "P": result.p, "Q": result.q, "format": result.low}
        wrong = [f"{name} {solved[name]} (requested: {asked[name]})" for name in asked if solved[name] != asked[name]]
        if wrong:
            step = nb * math.lcm(p, q)
            rounded = result.lu_gflops is None and result.n == -(-n // step) * step
            why = f"; N was rounded up to a multiple of {step}: request such an N" if rounded and result.n != n else ""
            raise HplFormatError(f"another problem was solved: {', '.join(wrong)}{why}")
        at = {"grid": f"{p}x{q}", "low": low, "matrix": "own", "n": n, "nb": nb}
        subject = {"ranks": ranks}
        # a result below 16 bits is not called HPL-MxP
        rate = "lu_fp8" if low == "fp8" else "hpl_mxp"
        metrics.append(foreign.metric(rate, subject, "TFLOP/s", "higher", [result.gflops / 1e3], "median", **at))
        finite = math.isfinite(result.residual)
        if finite:
            metrics.append(foreign.metric("residual", subject, "1", "lower", [result.residual], "median", **at))
        checks.append(
            {
                "what": f"N {n}, NB {nb}, {p}x{q}, {low}: scaled residual as {result.version} says",
                "error": result.residual if finite else None,
                "tolerance": THRESHOLD,
                "passed": result.passed and result.residual <= THRESHOLD,
                "detail": "PASSED" if result.passed else "not PASSED",
            }
        )
    return foreign.document(
        "hpl_mxp", "xhpl_mxp", result.version if result else "none", command, node, nodes, ranks,
        {"n": n, "nb": nb, "grid": f"{p}x{q}", "low": low, "matrix": "own"}, metrics, checks, "xhpl_mxp reports none",
    )  # fmt: skip
