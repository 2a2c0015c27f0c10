"""Parser of the output of HPL implementations: netlib's xhpl, NVIDIA's, Intel's, AMD's, and the HPL part of hpcc.

The format is that of netlib's testing/ptest/HPL_pdtest.c and HPL_pdinfo.c (2.0 to 2.3), which the vendors' keep;
NVIDIA's HPC Benchmarks extend it by the rate of one GPU in brackets, AMD's Zen HPL by the variant of the swap before N
(column SWP). A wrapper may indent all of it; hpcc 1.5 writes it between `Begin of HPL section.` and `End of HPL
section.` of hpccoutf.txt. A result is two lines: `W...  N NB P Q Time Gflops`, then the scaled residual that ends in
PASSED or FAILED; after all of them `Finished N tests`. HPL-MxP of AMD (src/hplmxp_ptest.cpp) and HPL-AI for CPUs write
the same, partly with HPL's title, but name their solver: `HPLMXP_pdgesv() start time`. NVIDIA's 25 rounds N down to a
multiple of NB and announces it: `[WARNING] Change Input N 92800 to 92160`; that of 2021 did not.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import naming_the_cause, plain

#: Threshold above which a residual is wrong, by the benchmark's rules.
THRESHOLD = 16.0

#: A printed time has two decimals, a rate four digits or more: they must agree with the operations to this precision.
_ROUNDED_SECONDS, _ROUNDED_RATE = 0.006, 0.02

_INTEGER = r"[0-9]{1,9}"
_NUMBER = r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,4})?|inf|nan)"
_RESULT = re.compile(
    rf"\s*(W[RC]\w{{0,30}})(?:\s+[0-9]{{3}})?\s+({_INTEGER})\s+({_INTEGER})\s+({_INTEGER})\s+({_INTEGER})"
    rf"\s+({_NUMBER})\s+({_NUMBER})(?:\s+\(\s*({_NUMBER})\s*\))?\s*",
    re.I | re.A,
)
#: A scaled residual is recognised by its division and its verdict; its parts, printed after a failure, have neither.
#: The header of every output describes the computation in the same words, without a value.
_EXPLAINED = re.compile(r"\s*\|\|Ax-b\|\|_oo\s*/\s*\([^=]*\)\s*")
_SCALED = re.compile(r"\s*\|\|Ax-b\|\|_oo\s*/")
_VERDICT = re.compile(rf"=\s*({_NUMBER})\s*\.+\s*([A-Za-z]+)\s*$", re.I)
_COLUMNS = re.compile(r"^\s*T/V\s+(?:SWP\s+)?N\s+NB\s+P\s+Q\s+Time\s+(\S+)", re.M)
_FINISHED = re.compile(rf"\s*Finished\s+({_INTEGER})\s+tests")
_COUNT = re.compile(
    rf"\s*({_INTEGER})\s+tests\s+(completed and passed|completed and failed|completed without checking|skipped)"
)
#: Before the title of the HPL from which it is derived.
_VENDOR = re.compile(r"^[ \t]{0,80}((?:HPL-NVIDIA|AMD Zen HPL)\s+v?[0-9]\S{0,40})", re.M)
#: HPL's is HPL_pdgesv. HPL-AI of NVIDIA, before its HPL-MxP, names only itself, before each result.
OTHER_SOLVER = re.compile(r"^[ \t]{0,80}(HPL[A-Za-z]\w{0,20}gesv(?=\(\))|HPL_AI(?=\s+W[RC]))", re.M)
#: Without a number it is the first line of an HPL.dat, which a job script may print.
_NETLIB = re.compile(r"^[ \t]{0,80}(HPLinpack\s+[0-9]\S{0,40})", re.M)
_HPCC = re.compile(r"HPC Challenge Benchmark version (\S{1,40})")
_SECTION = re.compile(r"^[ \t]{0,80}(Begin|End) of HPL section\.", re.M)
_CHANGED = re.compile(r"^[ \t]{0,80}\[WARNING\] Change Input N (\d{1,9}) to (\d{1,9})\s*$", re.M)
_SUCCESS = re.compile(r"^[ \t]{0,80}Success=(\S{0,40})", re.M)


class HplFormatError(TenkenError):
    """The output is not that of an HPL."""


@dataclass(frozen=True)
class Result:
    """One solved problem: time in s, rate in Gflop/s (10^9), scaled residual and the program's verdict."""

    variant: str
    n: int
    nb: int
    p: int
    q: int
    seconds: float
    gflops: float
    residual: float
    passed: bool


@dataclass(frozen=True)
class Output:
    """A whole output: "HPL-NVIDIA 24.03.0", "HPLinpack 2.3" or "HPCC 1.5.0, HPLinpack 2.0", and by requested N the one
    to which the program changed it, as announced."""

    version: str
    results: tuple[Result, ...]
    changed: tuple[tuple[int, int], ...] = ()


@naming_the_cause
def parse(text: str) -> Output:
    """Read an output; lines of launchers are ignored. Raises HplFormatError if anything is missing or inconsistent."""
    text = plain(text)
    if solver := OTHER_SOLVER.search(text):
        raise HplFormatError(f"solved by {solver[1]}, in mixed precision: its rate is that of HPL-MxP, not of HPL")
    title = _VENDOR.search(text) or _NETLIB.search(text)
    if title is None:
        words = text.strip().splitlines()
        raise HplFormatError(f"no title 'HPLinpack <version>'; the output begins {(words or [''])[0][:80]!r}")
    hpcc = _HPCC.search(text)
    version = " ".join(title[1].split())
    if not hpcc:
        return Output(version, section(text), tuple((int(old), int(new)) for old, new in _CHANGED.findall(text)))
    # a file to which a second run appended also has its sections
    results = tuple(result for part in _sections(text) for result in section(part))
    wrong = next((found[1] for found in _SUCCESS.finditer(text) if found[1] != "1"), None)
    if wrong is not None:
        raise HplFormatError(f"hpcc's own summary has Success={wrong}; allowed: 1")
    return Output(f"HPCC {hpcc[1]}, {version}", results)


def _sections(text: str) -> list[str]:
    """The text between each `Begin of HPL section.` and its end. Raises HplFormatError if one is incomplete."""
    marks = list(_SECTION.finditer(text))
    if not marks or len(marks) % 2 or any(m[1] != ("Begin", "End")[i % 2] for i, m in enumerate(marks)):
        raise HplFormatError("hpcc's output has no HPL section, or one that is cut short")
    return [text[begin.end() : end.start()] for begin, end in zip(marks[::2], marks[1::2], strict=True)]


def section(text: str, limit: float = foreign.FP64) -> tuple[Result, ...]:
    """Every result of one section, or of several outputs in sequence; `limit` is what no rank reaches, in Gflop/s.
    Raises HplFormatError."""
    results: list[Result] = []
    counted = 0
    unchecked = any(found[2].endswith("checking") and int(found[1]) for found in map(_COUNT.match, text.splitlines())
                    if found)  # fmt: skip
    other = next((unit for unit in _COLUMNS.findall(text) if unit != "Gflops"), None)
    if other is not None:
        raise HplFormatError(f"the last column is {other[:40]!r}; required: Gflops")
    line_of: re.Match[str] | None = None
    residuals: list[tuple[float, str]] = []
    said: dict[str, int] = {}

    def close() -> None:
        nonlocal line_of, residuals
        if line_of is not None:
            if not residuals:
                why = "the output is cut short"
                if unchecked:
                    why = "not checked: the threshold of its HPL.dat is 0 or less; required: 16.0"
                raise HplFormatError(f"no residual after the line {line_of[0].strip()!r}: {why}")
            results.append(_result(line_of, residuals, limit))
        line_of, residuals = None, []

    def sum_up() -> None:
        nonlocal said, counted
        if said:
            _hold_summary(said, results[counted:])
            counted = len(results)
        said = {}

    for line in text.splitlines():
        if found := _RESULT.fullmatch(line):
            close()
            sum_up()
            line_of = found
        elif _EXPLAINED.fullmatch(line):
            continue
        elif _SCALED.match(line):
            verdict = _VERDICT.search(line[-200:])
            if verdict is None or line_of is None:
                what = "cannot be read" if verdict is None else "belongs to no result line (W... N NB P Q Time Gflops)"
                raise HplFormatError(f"the residual {line.strip()[:100]!r} {what}")
            residuals.append((float(verdict[1]), verdict[2]))
        elif found := _FINISHED.match(line):
            close()
            sum_up()
            said = {"finished": int(found[1])}
        elif said and (found := _COUNT.match(line)):
            said[found[2].split()[-1]] = int(found[1])
    close()
    sum_up()
    if not results:
        raise HplFormatError("no result line (W... N NB P Q Time Gflops): no problem was solved")
    if counted != len(results):
        raise HplFormatError(
            f"{len(results) - counted} results but no line 'Finished ... tests': the output is cut short"
        )
    return tuple(results)


def _hold_summary(said: dict[str, int], results: list[Result]) -> None:
    """The lines after `Finished N tests` must not count fewer passes than the results show. Raises HplFormatError."""
    passed = sum(result.passed for result in results)
    lost = next((word for word in ("passed", "failed", "skipped") if word not in said and "checking" not in said), None)
    if lost is not None:
        raise HplFormatError(f"no line '... tests ... {lost}' after 'Finished': the output is cut short")
    if not results and said.get("skipped"):
        raise HplFormatError(f"{said['skipped']} tests skipped, none was solved")
    if said["finished"] != len(results) + (said.get("skipped", 0) if said["finished"] > len(results) else 0):
        raise HplFormatError(f"{len(results)} results but 'Finished {said['finished']} tests': the output is cut short")
    worse = {"passed": said.get("passed", passed) < passed, "failed": said.get("failed", 0) > len(results) - passed}
    for word in (*(word for word in worse if worse[word]), *(["skipped"] if said.get("skipped") else [])):
        shown = {"passed": passed, "failed": len(results) - passed, "skipped": 0}[word]
        raise HplFormatError(f"the summary counts {said[word]} tests {word}, the results show {shown}")


def _result(line: re.Match[str], residuals: list[tuple[float, str]], limit: float) -> Result:
    """One result, with the worst of its residuals: HPL 1 prints three, and each must pass."""
    n, nb, p, q = (int(line[i]) for i in (2, 3, 4, 5))
    worst = next((value for value, _ in residuals if not math.isfinite(value)), max(value for value, _ in residuals))
    passed = all(word == "PASSED" and not value < 0 for value, word in residuals)
    result = Result(line[1], n, nb, p, q, float(line[6]), float(line[7]), worst, passed)
    if not (math.isfinite(result.gflops) and result.gflops > 0):
        raise HplFormatError(f"the rate of N={n} is {line[7]}: not finite, or not above 0")
    if not (math.isfinite(result.seconds) and result.seconds > 0):
        raise HplFormatError(f"N={n} took {line[6]} s: too short to be measured; use a larger N")
    least, most = (
        (2 / 3 * n**3 + 1.5 * n**2)
        / 1e9
        / max(result.seconds + way * _ROUNDED_SECONDS, 1e-9)
        * (1 - way * _ROUNDED_RATE)
        for way in (1, -1)
    )
    if not least <= result.gflops <= most:
        raise HplFormatError(f"N={n} in {line[6]} s are {least:.4g} to {most:.4g} Gflops, but {line[7]} are printed")
    if why := foreign.beyond(result.gflops / (p * q), limit, "Gflops per rank"):
        raise HplFormatError(f"N={n}: {why}")
    # time and rate are interchangeable there; only the rate has an exponent in every implementation
    if "e" in line[6].lower() and "e" not in line[7].lower():
        raise HplFormatError(f"N={n}: the time {line[6]} has an exponent, the rate {line[7]} none: columns exchanged")
    if line[8] is not None and not math.isclose(float(line[8]) * p * q, result.gflops, rel_tol=_ROUNDED_RATE):
        raise HplFormatError(f"N={n}: {line[7]} Gflops of {p} x {q} GPUs and ({line[8]}) of one are inconsistent")
    return result


def dat(n: int, nb: int, p: int, q: int) -> str:
    """An HPL.dat for one problem, with the usual variants of the reference implementation."""
    lines = [
        "HPLinpack benchmark input file", "Written by Tenken",
        "HPL.out      output file name (if any)", "6            device out (6=stdout,7=stderr,file)",
        "1            # of problems sizes (N)", f"{n:<12} Ns", "1            # of NBs", f"{nb:<12} NBs",
        "0            PMAP process mapping (0=Row-,1=Column-major)", "1            # of process grids (P x Q)",
        f"{p:<12} Ps", f"{q:<12} Qs", "16.0         threshold", "1            # of panel fact",
        "2            PFACTs (0=left, 1=Crout, 2=Right)", "1            # of recursive stopping criterium",
        "4            NBMINs (>= 1)", "1            # of panels in recursion", "2            NDIVs",
        "1            # of recursive panel fact.", "1            RFACTs (0=left, 1=Crout, 2=Right)",
        "1            # of broadcast", "1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)",
        "1            # of lookahead depth", "1            DEPTHs (>=0)", "2            SWAP (0=bin-exch,1=long,2=mix)",
        "64           swapping threshold", "0            L1 in (0=transposed,1=no-transposed) form",
        "0            U  in (0=transposed,1=no-transposed) form", "1            Equilibration (0=no,1=yes)",
        "8            memory alignment in double (> 0)",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def hpcc_input(n: int, nb: int, p: int, q: int) -> str:
    """hpccinf.txt: the same lines, without further sizes for its matrix transpose."""
    return dat(n, nb, p, q) + (
        "##### This line (no. 32) is ignored (it serves as a separator). ######\n"
        "0            Number of additional problem sizes for PTRANS\n1200         values of N\n"
        "0            number of additional blocking sizes for PTRANS\n40           values of NB\n"
    )


def document(
    output: Output, implementation: str, command: list[str], node: str, nodes: list[str], ranks: int, n: int, nb: int,
    p: int, q: int,
) -> dict[str, Any]:  # fmt: skip
    """A result document of hpl from the output of another implementation; requested and solved problem must agree,
    but for an N that the program announced to have rounded down to a multiple of NB: the solved one counts."""
    metrics, checks = [], []
    rounded = n - n % nb if (n, n - n % nb) in output.changed else n
    if len(output.results) > 1:
        raise HplFormatError(f"{len(output.results)} results; one problem was requested")
    for one in output.results:
        at = {"grid": f"{one.p}x{one.q}", "n": one.n, "nb": one.nb}
        subject = {"ranks": ranks}
        metrics.append(foreign.metric("hpl", subject, "TFLOP/s", "higher", [one.gflops / 1e3], "median", **at))
        if math.isfinite(one.residual):
            metrics.append(foreign.metric("residual", subject, "1", "lower", [one.residual], "median", **at))
        checks.append(
            {
                "what": f"N {one.n}, NB {one.nb}, {one.p}x{one.q}: scaled residual as {output.version} says",
                "error": one.residual if math.isfinite(one.residual) else None,
                "tolerance": THRESHOLD,
                "passed": one.passed and one.residual <= THRESHOLD,
                "detail": ("PASSED" if one.passed else "not PASSED")
                + (f"; it changed N {n} to {rounded}" if rounded != n else ""),
            }
        )
        wrong = [
            f"{name} {found} (requested: {asked})"
            for name, found, asked in (("N", one.n, rounded), ("NB", one.nb, nb), ("P", one.p, p), ("Q", one.q, q))
            if found != asked
        ]
        if wrong:
            raise HplFormatError(f"another problem was solved: {', '.join(wrong)}")
    return foreign.document(
        "hpl", implementation, output.version, command, node, nodes, ranks, {"n": n, "nb": nb, "grid": f"{p}x{q}"},
        metrics, checks, f"{implementation} reports none",
    )  # fmt: skip
