"""What implementations of HPL print, read: netlib's xhpl, NVIDIA's, and the HPL part of hpcc.

The format is that of netlib's testing/ptest/HPL_pdtest.c and HPL_pdinfo.c (2.0 to 2.3), which NVIDIA's HPC Benchmarks
keep and extend by the rate of one GPU in brackets; hpcc 1.5 writes it between `Begin of HPL section.` and
`End of HPL section.` of hpccoutf.txt. A result is two lines: `W...  N NB P Q Time Gflops`, then the scaled residual
that ends in PASSED or FAILED; behind all of them `Finished N tests`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers import foreign

#: Above it a residual is wrong, by the benchmark's rules.
THRESHOLD = 16.0

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf|nan)"
_RESULT = re.compile(
    rf"^\s*(W[RC]\w*)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+({_NUMBER})\s+({_NUMBER})(?:\s+\(\s*{_NUMBER}\s*\))?\s*$", re.I
)
_RESIDUAL = re.compile(rf"^\s*\|\|Ax-b\|\|_oo\s*/.*=\s*({_NUMBER})\s*\.+\s*(\w+)\s*$", re.I)
_FINISHED = re.compile(r"^Finished\s+(\d+)\s+tests", re.M)
_NVIDIA = re.compile(r"^\s*(HPL-NVIDIA\s+\S+)", re.M)
_NETLIB = re.compile(r"^\s*(HPLinpack\s+\S+)", re.M)
_HPCC = re.compile(r"HPC Challenge Benchmark version (\S+)")


class HplFormatError(TenkenError):
    """The output is not what an HPL prints."""


@dataclass(frozen=True)
class Result:
    """One problem solved: time in s, rate in Gflop/s (10^9), scaled residual and what the program says of it."""

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
    """A whole output: "HPL-NVIDIA 24.03.0", "HPLinpack 2.3" or "HPCC 1.5.0, HPLinpack 2.0"."""

    version: str
    results: tuple[Result, ...]


def parse(text: str) -> Output:
    """Read an output; lines of launchers are passed over. Raises HplFormatError: what is missing or does not fit."""
    title = _NVIDIA.search(text) or _NETLIB.search(text)
    if title is None:
        words = text.strip().splitlines()
        raise HplFormatError(f"no title 'HPLinpack <version>'; the output begins {(words or [''])[0][:80]!r}")
    hpcc = _HPCC.search(text)
    if hpcc:
        begin, end = text.find("Begin of HPL section."), text.find("End of HPL section.")
        if begin < 0 or end < begin:
            raise HplFormatError("hpcc's output has no whole HPL section")
        text = text[begin:end]
    results: list[Result] = []
    pending: re.Match[str] | None = None
    for line in text.splitlines():
        found = _RESULT.match(line)
        if found and pending:
            raise HplFormatError(f"no residual behind the line {pending[0].strip()!r}")
        pending = found or pending
        residual = _RESIDUAL.match(line)
        if residual and pending:
            results.append(_result(pending, residual))
            pending = None
    if pending:
        raise HplFormatError(f"no residual behind the line {pending[0].strip()!r}: the output is cut short")
    if not results:
        raise HplFormatError("no result line (W... N NB P Q Time Gflops): nothing was solved")
    finished = _FINISHED.search(text)
    if finished is None or int(finished[1]) != len(results):
        said = f"'Finished {finished[1]} tests'" if finished else "no line 'Finished ... tests'"
        raise HplFormatError(f"{len(results)} results but {said}: the output is cut short")
    name = re.sub(r"\s+", " ", title[1])
    return Output(f"HPCC {hpcc[1]}, {name}" if hpcc else name, tuple(results))


def _result(line: re.Match[str], residual: re.Match[str]) -> Result:
    n, nb, p, q = (int(line[i]) for i in (2, 3, 4, 5))
    result = Result(line[1], n, nb, p, q, float(line[6]), float(line[7]), float(residual[1]), residual[2] == "PASSED")
    if not (math.isfinite(result.gflops) and result.gflops > 0):
        raise HplFormatError(f"the rate of N={n} is {line[7]}: not finite, or not above 0")
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
    """hpccinf.txt: the same lines, and no further sizes for its matrix transpose."""
    return dat(n, nb, p, q) + (
        "##### This line (no. 32) is ignored (it serves as a separator). ######\n"
        "0            Number of additional problem sizes for PTRANS\n1200         values of N\n"
        "0            number of additional blocking sizes for PTRANS\n40           values of NB\n"
    )


def document(
    output: Output, implementation: str, command: list[str], node: str, nodes: list[str], ranks: int, n: int, nb: int,
    p: int, q: int,
) -> dict[str, Any]:  # fmt: skip
    """A result document of hpl out of what another implementation printed; asked and solved must be the same."""
    metrics, checks = [], []
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
                "detail": "PASSED" if one.passed else "not PASSED",
            }
        )
        wrong = [
            f"{name} {found} (asked for {asked})"
            for name, found, asked in (("N", one.n, n), ("NB", one.nb, nb), ("P", one.p, p), ("Q", one.q, q))
            if found != asked
        ]
        if wrong:
            raise HplFormatError(f"another problem was solved: {', '.join(wrong)}")
    return foreign.document(
        "hpl", implementation, output.version, command, node, nodes, ranks, {"n": n, "nb": nb, "grid": f"{p}x{q}"},
        metrics, checks, f"{implementation} tells none",
    )  # fmt: skip
