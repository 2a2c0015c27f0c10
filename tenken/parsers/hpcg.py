"""The vendor's or the site's HPCG instead of `hpcg`: the same check, their binary, a parser of its report.

The report is the file HPCG-Benchmark_3.1_<date>.txt of HPCG 3.1 (src/ReportResults.cpp, src/OutputFile.cpp): a title
`HPCG-Benchmark`, `version=3.1`, then lines `Section::Key=value`. Keys of a level below a section repeat, once per grid.
NVIDIA's, AMD's and ARM's implementations write it too; NVIDIA's prints it (unless --of=1), and is recognised by its
first lines. HPCG 3.0 (src/YAML_Doc.cpp), and Intel's, which is built from it and uses the run as its title (`n104-8p-1t
version: V3.0`), write the same keys as indented lines `Key: value`. Intel's 3.1 writes lines of 3.1, with that title,
`version=V3.1` and blanks around ` Final Summary `. Older versions are rejected by name.
"""

from __future__ import annotations

import math
import platform
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from tenken.errors import TenkenError
from tenken.parsers import foreign
from tenken.parsers.printed import naming_the_cause, plain

VALID = "Final Summary::HPCG result is VALID with a GFLOP/s rating of"
SYMMETRY = "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon"

#: Metric -> key of the report, factor to the metric's unit, unit, direction.
METRICS: dict[str, tuple[str, float, str, str]] = {
    "raw": ("GFLOP/s Summary::Raw Total", 1, "GFLOP/s", "higher"),
    "rating": (VALID, 1, "GFLOP/s", "higher"),
    "spmv": ("GFLOP/s Summary::Raw SpMV", 1, "GFLOP/s", "higher"),
    "mg": ("GFLOP/s Summary::Raw MG", 1, "GFLOP/s", "higher"),
    "setup": ("Setup Information::Setup Time", 1e3, "ms", "lower"),
    "optimise": ("Benchmark Time Summary::Optimization phase", 1e3, "ms", "lower"),
    "iterations": ("Iteration Count Information::Optimized CG iterations per set", 1, "1", "lower"),
}

#: Verification by HPCG -> the section with its Result.
TESTS = {
    "spectral convergence": "Spectral Convergence Tests",
    "symmetry of matrix and multigrid": SYMMETRY,
    "iterations to the reference's residual": "Iteration Count Information",
    "variance of norms": "Reproducibility Information",
}


#: Title of the reference implementation's report.
REFERENCE = "HPCG-Benchmark"
NVIDIA = "NVIDIA's HPCG"
_TITLE = re.compile(r"[A-Za-z][\w .+-]{0,60}", re.A)
#: The first line of a report in YAML, and Intel's title: points, processes and threads.
_YAML = re.compile(r"[ \t]{0,40}([A-Za-z][\w.+-]{0,60}) version: V?(\S{1,40})\s*", re.A)
_INTEL = re.compile(r"n\d+-\d+p-\d+t")
#: Before NVIDIA's report, whose title is the reference's (its src/main.cpp).
_NVIDIA = re.compile(r"^\s*Start of application \((?:GPU|CPU)|HPCG-NVIDIA", re.M)
#: Its runs without the reference (--b=1), whose tests have nothing to compare with.
_UNREFERENCED = re.compile(r"^[ |]{0,8}Benchmark Mode !!!! CPU reference code is not performed", re.M)
_VERSION = re.compile(r"[\w][\w .+-]{0,40}", re.A)

#: Rates that a report derives from its own operations and times, printed with six digits; they are stored under these
#: names too.
RATES = {"Raw DDOT": "DDOT", "Raw WAXPBY": "WAXPBY", "Raw SpMV": "SpMV", "Raw MG": "MG", "Raw Total": "Total"}
_PRINTED = 0.001
_SIX_DIGITS = 1.00001

#: Keys of a section that occur once for each part of the processes along z.
_OF_PARTS = ("Local Domain Dimensions::Lower ipz", "Local Domain Dimensions::Upper ipz", "Local Domain Dimensions::nz")


class HpcgFormatError(TenkenError):
    """The text is not a report of HPCG."""


@dataclass(frozen=True)
class Report:
    """The lines of one report by full key, and the title given by its implementation."""

    lines: dict[str, str]
    title: str = REFERENCE

    @property
    def version(self) -> str:
        """The implementation: "HPCG 3.1" is the reference (or built from its sources)."""
        return f"{'HPCG' if self.title == REFERENCE else self.title} {self.lines['version']}"

    def text(self, key: str) -> str:
        """The value of a key. Raises HpcgFormatError if it is missing."""
        if key not in self.lines:
            raise HpcgFormatError(f"the report has no line '{key}=': it is cut short or of another version")
        return self.lines[key]

    def number(self, key: str) -> float:
        """A finite number that is not negative. Raises HpcgFormatError."""
        word = self.text(key)
        try:
            value = float(word)
        except ValueError:
            raise HpcgFormatError(f"{key}={word[:40]}: not a number") from None
        if not math.isfinite(value) or value < 0:
            raise HpcgFormatError(f"{key}={word[:40]}: allowed: finite numbers, 0 or above")
        return value

    def count(self, key: str) -> int:
        """A whole number from 1 on. Raises HpcgFormatError."""
        value = self.number(key)
        if not (1 <= value < 2**31 and value == int(value)):
            raise HpcgFormatError(f"{key}={self.text(key)[:40]}: allowed: whole numbers, 1 or above")
        return int(value)

    @property
    def valid(self) -> bool:
        return VALID in self.lines

    @property
    def ranks(self) -> int:
        return self.count("Machine Summary::Distributed Processes")

    @property
    def local(self) -> tuple[int, int, int]:
        """Points of each rank. NVIDIA's report has no nz of a rank: it follows from the grid."""
        x, y = (self.count(f"Local Domain Dimensions::n{axis}") for axis in "xy")
        key, whole, parts = (
            "Local Domain Dimensions::nz", "Global Problem Dimensions::Global nz", "Processor Dimensions::npz",
        )  # fmt: skip
        if key in self.lines or self.title != NVIDIA:
            return x, y, self.count(key)
        if self.count(whole) % self.count(parts):
            raise HpcgFormatError(f"{whole}={self.count(whole)} is not a multiple of {parts}={self.count(parts)}")
        return x, y, self.count(whole) // self.count(parts)

    @property
    def seconds(self) -> float:
        return self.number("Benchmark Time Summary::Total")


@naming_the_cause
def parse(text: str) -> Report:
    """Read the lines of a report; other output around them is ignored. Raises HpcgFormatError."""
    text = plain(text)
    lines: dict[str, str] = {}
    titles: list[str] = []
    before = ""
    for line in _as_keys(text):
        key, equals, value = (part.strip() for part in line.strip().partition("="))
        key = "::".join(part.strip() for part in key.split("::"))
        # the symmetry section has no '=' in its name, and numbers have none in their text
        if equals and key == "version":
            titles.append(before if _TITLE.fullmatch(before) and _is_title(before) else "")
        if equals and ("::" in key or key in ("version", "Final Summary")):
            # below a section keys repeat, once per grid
            if key in lines and not (key.count("::") > 1 or (key in _OF_PARTS and _same_nz(key, lines[key], value))):
                raise HpcgFormatError(f"two lines '{key[:80]}=': two reports in one text; expected one")
            lines[key] = value
        if line.strip():
            before = "" if value else key
    if "version" not in lines or not any(key.startswith("Final Summary::") for key in lines):
        begin = (text.strip().splitlines() or [""])[0]
        raise HpcgFormatError(f"no report of HPCG, or one cut short before its Final Summary; it begins {begin[:80]!r}")
    version, title = lines["version"], titles[0]
    if not title or not _VERSION.fullmatch(version):
        raise HpcgFormatError(
            f"no title such as '{REFERENCE}' before the line 'version={version[:40]}': unknown implementation"
        )
    if title == REFERENCE and not version.startswith("3."):
        raise HpcgFormatError(f"a report of version {version}; allowed: 3.0 and 3.1")
    if _UNREFERENCED.search(text):
        raise HpcgFormatError("benchmark mode (--b=1): its tests had no reference; required: a run without it")
    if VALID in lines and any("INVALID" in value for key, value in lines.items() if key.startswith("Final Summary::")):
        raise HpcgFormatError("the Final Summary contains both VALID and INVALID")
    if _INTEL.fullmatch(title):
        title, lines["version"] = "Intel's HPCG", version.removeprefix("V")
    elif title == REFERENCE and _NVIDIA.search(text):
        title = NVIDIA
    found = Report(lines, title)
    _hold_rates(found)
    return found


def _is_title(words: str) -> bool:
    return "hpcg" in words.lower() or _INTEL.fullmatch(words) is not None


def _same_nz(key: str, first: str, value: str) -> bool:
    """Whether a repeated key of the processes along z is allowed: only their points must agree."""
    if key.endswith("::nz") and value != first:
        raise HpcgFormatError(f"{key}={first[:20]} and {value[:20]}: parts of different heights; expected one height")
    return True


def _as_keys(text: str) -> list[str]:
    """The lines of a text; those of a report in YAML are rewritten as `Section::Key=value`."""
    found: list[str] = []
    above: list[tuple[int, str]] | None = None
    for line in text.splitlines():
        if begin := _YAML.fullmatch(line):
            above = []
            found += [begin[1], f"version={begin[2]}"]
            continue
        key, colon, value = f"{line.strip()} ".partition(": ")
        if above is None or not colon:
            found.append(line)
            continue
        depth = len(line) - len(line.lstrip())
        above = [one for one in above if one[0] < depth]
        name = key.strip(" _") if key.startswith("__") else key
        found.append("::".join([*(one[1] for one in above), name]) + f"={value.strip()}")
        if not value.strip():
            above.append((depth, name))
    return found


def _hold_rates(report: Report) -> None:
    """Checks rates against operations and seconds, and processes against the grid, if a report has these lines."""
    for rate, name in RATES.items():
        operations = "Floating Point Operations Summary::" + ("Total" if name == "Total" else rate)
        keys = (f"GFLOP/s Summary::{rate}", operations, f"Benchmark Time Summary::{name}")
        if not all(key in report.lines for key in keys):
            continue
        said, counted, seconds = map(report.number, keys)
        if seconds > 0 and not math.isclose(said, counted / seconds / 1e9, rel_tol=_PRINTED):
            raise HpcgFormatError(
                f"{keys[0]}={said:g}; {counted:g} operations in {seconds:g} s are {counted / seconds / 1e9:.6g} GFLOP/s"
            )
    rating, raw = (report.number(key) if key in report.lines else None for key in (VALID, "GFLOP/s Summary::Raw Total"))
    iterations = report.lines.get("Iteration Count Information::Optimized CG iterations per set", "50")
    zero = next((key for key in (VALID, *(f"GFLOP/s Summary::{one}" for one in ("Raw SpMV", "Raw MG", "Raw Total")))
                 if key in report.lines and not report.number(key) > 0), None)  # fmt: skip
    if zero is not None:
        raise HpcgFormatError(f"{zero}={report.lines[zero][:40]}: allowed: numbers above 0")
    ranks = report.ranks if "Machine Summary::Distributed Processes" in report.lines else 1
    if why := foreign.beyond((raw or 0.0) / ranks, foreign.MEMORY, "GFLOP/s per process"):
        raise HpcgFormatError(f"GFLOP/s Summary::Raw Total: {why}")
    # the rating is the raw performance less overheads; only fewer than 50 iterations raise it
    if rating is not None and raw is not None and iterations.isdecimal():
        most = raw * max(1.0, 50 / max(1, int(iterations)))
        if rating > most * _SIX_DIGITS:
            raise HpcgFormatError(f"{VALID}={rating:g} is above the {most:g} GFLOP/s that the raw performance allows")
    # the rating is printed twice, and the rate before it follows from the iterations
    printed = (VALID, "GFLOP/s Summary::Total with convergence and optimization phase overhead")
    if all(key in report.lines for key in printed) and report.number(printed[0]) != report.number(printed[1]):
        raise HpcgFormatError(f"{VALID}={report.lines[VALID][:40]}; {printed[1]}={report.lines[printed[1]][:40]}")
    told = ("Reference CG", "Optimized CG")
    counts = [f"Iteration Count Information::{one} iterations per set" for one in told]
    after = "GFLOP/s Summary::Total with convergence overhead"
    if raw and all(key in report.lines for key in (after, *counts)):
        asked, needed = map(report.count, counts)
        if not math.isclose(report.number(after), raw * asked / needed, rel_tol=_PRINTED):
            raise HpcgFormatError(
                f"{after}={report.number(after):g}; Raw Total={raw:g} of {needed} iterations in place of {asked} are "
                f"{raw * asked / needed:.6g}"
            )
    sides = [f"Processor Dimensions::np{axis}" for axis in "xyz"]
    if all(key in report.lines for key in (*sides, "Machine Summary::Distributed Processes")):
        grid = math.prod(report.count(key) for key in sides)
        if grid != report.ranks:
            raise HpcgFormatError(f"Distributed Processes={report.ranks}; npx x npy x npz of its grid is {grid}")


def official(seconds: float) -> str:
    return "yes" if seconds >= 1800 else f"no: an official run takes 1800 s, this took {seconds:g} s"


def document(report: Report, node: str, nodes: list[str], command: str, asked: dict[str, Any]) -> dict[str, Any]:
    """A result document of `hpcg` from a report. Raises HpcgFormatError if a value is missing."""
    now = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    checks = []
    for what, section in TESTS.items():
        passed = report.text(f"{section}::Result") == "PASSED"
        checks.append({"what": what, "error": 0.0 if passed else 1.0, "tolerance": 0.0, "passed": passed})
    checks.append(
        {"what": "HPCG's own verdict", "error": float(not report.valid), "tolerance": 0.0, "passed": report.valid}
    )
    good = all(check["passed"] for check in checks)
    wrong = next((str(check["what"]) for check in checks if not check["passed"]), "")
    metrics, limits = [], {}
    for name, (key, factor, unit, direction) in METRICS.items():
        if name == "rating" and not report.valid:
            continue
        value = report.number(key) * factor
        ident = f"{name}.ranks{report.ranks}"
        figures = dict.fromkeys(("value", "best", "median", "p5", "p95"), value)
        metrics.append(
            {
                "id": ident, "name": name, "subject": {"ranks": report.ranks}, "unit": unit, "direction": direction,
                "statistic": "total", **figures, "count": 1, "clock": "host", "samples": [value],
            }
        )  # fmt: skip
        limits[ident] = {"unknown": "HPCG measures no bandwidth to compare with"}
    sides = report.local
    return {
        "schema": "tenken-result/1",
        "program": "hpcg",
        "version": report.version,
        "command": command.split(),
        "started": now,
        "finished": now,
        "host": {
            "name": node, "os": "", "kernel": "", "architecture": platform.machine(), "cpu": "", "sockets": None,
            "cores": None, "logical_cpus": 1, "numa_nodes": None, "memory_bytes": 1, "last_level_cache_bytes": None,
            "virtual_machine": None,
        },
        "build": {"compiler": "the site's", "flags": "", "type": "binary", "backends": ["xhpcg"]},
        "status": "ok" if good else "failed",
        "reason": "" if good else f"verification: {wrong}",
        "parameters": {**asked, "ranks": report.ranks, "nx": sides[0], "ny": sides[1], "nz": sides[2]},
        "placement": {
            "threads": report.count("Machine Summary::Threads per processes"), "allowed_cpus": [],
            "binding": "none", "places": "", "numa_nodes_of_memory": [], "ranks": report.ranks, "nodes": nodes,
        },
        "devices": [],
        "metrics": metrics,
        "limits": limits,
        "verification": {"passed": good, "checks": checks},
        "path": {
            "implementation": report.version,
            "total_seconds": report.seconds,
            "official_time": official(report.seconds),
        },
        "health": {"available": False, "reason": "HPCG's binaries do not watch the GPUs", "devices": []},
    }  # fmt: skip


def waived(nodes: list[str], ranks: int, asked: dict[str, Any]) -> dict[str, Any]:
    """The document for a machine without a binary."""
    empty = Report(
        {
            **{key: "0" for key, _, _, _ in METRICS.values()},
            **{f"{section}::Result": "PASSED" for section in TESTS.values()},
            **{f"Local Domain Dimensions::n{axis}": str(asked["nx"]) for axis in "xyz"},
            "version": "none", "Machine Summary::Distributed Processes": str(ranks),
            "Machine Summary::Threads per processes": "1", "Benchmark Time Summary::Total": "0",
        }
    )  # fmt: skip
    made = document(empty, nodes[0], nodes, "xhpcg", asked)
    made.update(
        status="waived", reason="library missing: no HPCG binary (xhpcg and TENKEN_XHPCG are unset)",
        metrics=[], limits={}, verification={"passed": False, "checks": []}, path={},
    )  # fmt: skip
    return made
