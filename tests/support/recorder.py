"""The order in which a program measures, as recorded by recorder.c and gpu_double.c: its protocol, one line per step.

Each series of a document contains seconds; two clock readings (or two GPU events) that differ by these seconds delimit
its timed part. Launches, copies, reads and queries are within these parts or between them:

    fill_on_host x2
    copy_on_host x6                     what is timed later, untimed: the warm-up
    fill_on_host                        new data
    host_pageable{ copy_on_host } x4    four timed parts
    scan                                verified
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from struct import iter_unpack
from typing import Any

#: Kinds of events of recorder.c and gpu_double.c; for threads other than the main one they are lower by OTHER.
ELAPSED, COLLECTIVE, RANK, BY_CPU, ADVISED, SYNCED = -1, -2, -3, -4, -5, -6
LAUNCHED, READ, WROTE, LOOKED_UP, MOVED, COPIED, CLEARED = -7, -8, -9, -10, -11, -12, -13
RECORDED, ELAPSED_FROM, ELAPSED_TO, WAITED, CALLED, MESSAGE = -14, -15, -16, -17, -18, -19
SIZED, PREFETCHED, OPENED, CLOSED, REMOVED, OF_LIBRARY, PEERS = -20, -21, -22, -23, -24, -25, -26
REGISTERED, AWAITED, SLEPT, MET = -27, -28, -29, -30
OTHER = 100
#: Steps by which a file comes and goes: its data are neither moved nor compared.
OF_FILES = ("create", "open", "close", "unlink")
MEMORY = {0: "host", 1: "pinned", 2: "mapped", 3: "managed", **{16 + gpu: f"gpu{gpu}" for gpu in range(3)}}
MESSAGES = ("send", "recv", "waitall", "barrier", "allreduce", "alltoall", "bcast", "exchange")
#: Of cuBLAS and cuSOLVER.
SOLVERS = ("dgemm", "dgemm_batched", "sgemm", "gemm_ex", "dtrsm", "strsm", "dtrsv", "dgemv", "sgemv", "getrf", "getrs",
    "matmul", "multiprocessors")  # fmt: skip
CALLS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "recv")
ADVICE = {os.POSIX_FADV_DONTNEED: "drop", os.POSIX_FADV_SEQUENTIAL: "sequential", os.POSIX_FADV_RANDOM: "random"}
#: What a rate counts in a second, and samples of times in a second.
AMOUNTS = {
    "GB/s": (1e9, "bytes"), "GFLOP/s": (1e9, "operations"), "TFLOP/s": (1e12, "operations"), "Gcell/s": (1e9, "cells"),
    "messages/s": (1.0, "messages"), "samples/s": (1.0, "samples"),
}  # fmt: skip
#: Values that are no times and depend on the machine: on rounding, on free memory, on threads.
OF_THE_MACHINE = ("residual", "factor_error", "refinements", "memory_share", "waits")
SPANS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
#: Bytes of data that a program itself reads or writes, at least.
SMALLEST = 4096
#: Nanoseconds from one reading to the next, plus up to a tenth.
STEP = 100_000_000
#: Number of runs in a warm-up of this many seconds: five to six if each reads the clock once. Without warm-up they are
#: two.
WARMUP_SECONDS = 0.45

#: Rules that hold for any program, unless its case states a reason.
UNSEEN = "nothing is seen in its timed part"
DIFFER = "its timed parts differ"
COLD = "its first timed part is not warm"
UNVERIFIED = "nothing is verified after it"
LOST = "nothing is wrong if its timed parts do nothing"
ON_ANOTHER = "it was timed on another GPU"
BACKWARDS = "it copies another way than its pair"


@dataclass
class Process:
    """The trace of one process: its steps, and how many of them preceded each reading of its main thread's clock."""

    times: list[int] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    rank: int = 0
    #: For events on GPUs: how many steps preceded each, by its time; and what was between two of them.
    events: dict[int, int] = field(default_factory=dict)
    elapsed: list[tuple[int, int]] = field(default_factory=list)
    #: By step, how large it was each time.
    sizes: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def read(self, time: int) -> None:
        self.times.append(time)
        self.ahead.append(len(self.steps))

    def between(self, span: int) -> tuple[int, int] | None:
        """The numbers of the two readings that differ by this many nanoseconds; no two spans are alike."""
        index = {time: number for number, time in enumerate(self.times)}
        for first, time in enumerate(self.times):
            if time + span in index:
                return first, index[time + span]
        return None


def processes(prefix: Path, program: Path) -> list[Process]:
    """The traces of all processes of a run, by MPI rank."""
    found = []
    for file in prefix.parent.glob(f"{prefix.name}.*"):
        one, main, begin = Process(), int(file.suffix[1:]), 0
        size: list[int] = []
        for kind, value in iter_unpack("=qq", file.read_bytes()):
            if kind == main:
                one.read(value)
            elif kind == RANK:
                one.rank = value
            elif kind == RECORDED:
                one.events[value] = len(one.steps)
            elif kind == ELAPSED_FROM:
                begin = value
            elif kind == ELAPSED_TO:
                one.elapsed.append((begin, value))
            elif kind == SIZED:
                size.append(value)
                if len(size) == 2:
                    one.sizes.setdefault(one.steps[-1].lstrip("|"), []).append((size[0], size[1]))
                    size = []
            elif kind < 0 and (step := _step(kind % -OTHER, value, program)):
                one.steps.append(("|" if kind < -OTHER else "") + step)
        found.append(one)
    return sorted(found, key=lambda one: (one.rank, -len(one.steps)))


def _step(kind: int, value: int, program: Path) -> str | None:
    if kind == LAUNCHED:
        gpu, place = divmod(value, 1 << 48)
        return names_of(program)[place] + (f"@{gpu}" if gpu else "")
    if kind == COPIED:
        return f"{MEMORY[value % 256]}>{MEMORY[value // 256]}"
    if kind == MESSAGE:
        rank, call = divmod(value, 16)
        return MESSAGES[call] + (f" {rank - 1}" if rank > 0 else "")
    return {
        MOVED: "memcpy", ADVISED: ADVICE.get(value, f"advise{value}"), SYNCED: "fsync", READ: "read", WROTE: "write",
        LOOKED_UP: "mincore", OPENED: "create" if value else "open", CLOSED: "close", REMOVED: "unlink",
        CLEARED: f"clear {MEMORY.get(value)}", WAITED: "wait", PREFETCHED: f"prefetch {MEMORY.get(value)}",
        CALLED: CALLS[value % len(CALLS)], OF_LIBRARY: SOLVERS[value % len(SOLVERS)],
        PEERS: f"access gpu{value // 16} gpu{value % 16}", REGISTERED: f"register {MEMORY.get(value)}",
        AWAITED: "await", SLEPT: "sleep", MET: "meet",
    }.get(kind)  # fmt: skip


@cache
def names_of(program: Path) -> dict[int, str]:
    """Short names of a program's functions, by their address."""
    table = subprocess.run(["nm", "-C", str(program)], capture_output=True, text=True, check=True).stdout
    lines = (line.split(" ", 2) for line in table.splitlines())
    return {int(at, 16): short(name) for at, kind, name in lines if at and kind in "tTwWuV"}


def short(name: str) -> str:
    """scan<Backend::compare> of a region in tenken::scan<stream::Backend::compare(Array)::{lambda(int)#1}>(...)."""
    name = name.replace("(anonymous namespace)::", "").replace("operator()", "call")
    name = re.sub(r" \[clone [^]]*\]", "", name)
    while (less := re.sub(r"\([^()]*\)(?: const)?", "", name)) != name:
        name = less
    # compilers number the lambdas of a function differently
    name = re.sub(r"::\{lambda#\d+\}|::call", "", name)
    name = re.sub(r"\b[a-z]\w*::(?=\w)", "", name).replace("&", "")
    # template numbers depend on tuning
    name = re.sub(r"(?<=[<,])\s*(?:\(\w+\))?(?:\d+|true|false)[ul]*(?=[,> ])", "", name)
    name = re.sub(r"<,+", "<", re.sub(r",(?=[,>])", "", name.replace(", ", ","))).replace("<>", "")
    depth = 0
    for at in range(len(name) - 1, -1, -1):  # the return type ends at the last blank outside of <>
        depth += {">": 1, "<": -1}.get(name[at], 0)
        if name[at] == " " and depth == 0:
            return name[at + 1 :].replace(" ", "")
    return name.replace(" ", "")


@dataclass(frozen=True)
class Part:
    """A timed part of a series: the steps of a process from `begin` to `end` (exclusive).

    `first`, `last`: what it was timed by, two clock readings by number or two events by time."""

    name: str
    process: int
    begin: int
    end: int
    first: int
    last: int
    #: For a part between two events: their GPU, and the subject of its series.
    timed_on: int | None = None
    subject: int | None = None
    ends: tuple[int, int] | None = None
    mode: str = ""
    #: Samples in one span, and the series.
    times: int = 1
    series: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass
class Trace:
    """A document together with the traces of its processes."""

    document: Mapping[str, Any]
    processes: list[Process]
    #: The metrics of the completed document.
    metrics: Sequence[Mapping[str, Any]] = ()
    #: The timed parts of each series: the spans between two readings.
    parts: list[list[Part]] = field(init=False)
    #: Metrics whose samples are not such spans: sums, and shares of others.
    loose: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.parts, self.loose = [], set()
        for series in self.document["series"]:
            if not series.get("seconds"):
                continue
            of_device = series.get("clock") == "device"
            found = _by_events(series, self.processes) if of_device else _by_clock(series, self.processes)
            if found:
                self.parts.append(found)
            else:
                self.loose.add(series["metric"])

    def every(self) -> list[Part]:
        """All timed parts."""
        return [part for parts in self.parts for part in parts]

    def steps(self, part: Part) -> list[str]:
        return self.processes[part.process].steps[part.begin : part.end]

    def numbers(self, parts: Sequence[Part]) -> list[int]:
        """The steps of the timed parts of a series in the order of the main thread, as TENKEN_TEST_SKIPPED has them."""
        of_main = [n for n, step in enumerate(self.processes[0].steps) if not step.startswith("|")]
        place = {step: number for number, step in enumerate(of_main)}
        timed = (n for part in parts if part.process == 0 for n in range(part.begin, part.end))
        return sorted({place[n] for n in timed if n in place})

    def lines(self, process: int = 0, fold: Sequence[str] = (), others: bool = True) -> list[str]:
        """The steps of one process, compressed; followed by the metrics that are not spans between two readings.

        :param fold: prefixes; consecutive steps that begin with the same one count as one step
        :param others: include steps of other threads, if they do not run at the same time as the main one
        """
        marks: list[tuple[int, int, float, str]] = [
            (number, 2, 0, _folded(step, fold))
            for number, step in enumerate(self.processes[process].steps)
            if others or not step.startswith("|")
        ]
        for part in (part for part in self.every() if part.process == process):
            marks.append((part.begin, 1, part.first, part.name + "{"))
            # a part with steps ends before another begins; one without steps, after its own begin
            close = (0, part.last) if part.end > part.begin else (1, part.last - 0.5)
            marks.append((part.end, *close, "}"))
        tokens = [text for *_, text in sorted(marks)]
        tokens = [text for n, text in enumerate(tokens) if not (text in fold and n > 0 and tokens[n - 1] == text)]
        for longest in (1, 40, 40):
            tokens = [" ".join(row) + (f" x{times}" if times > 1 else "") for row, times in _repeated(tokens, longest)]
        return tokens + [f"no span: {name}" for name in sorted(self.loose)]

    def beside(self) -> list[str]:
        """The steps of other threads in each timed part, of which one works at a time, whatever the main one does."""
        lines = {}
        for part in self.every():
            of_others = [step.lstrip("|") for step in self.steps(part) if step.startswith("|")]
            if of_others:
                where = f"{part.name} mode={part.mode}" if part.mode else part.name
                told = [" ".join(row) + (f" x{times}" if times > 1 else "") for row, times in _repeated(of_others, 40)]
                lines[f"beside: {where}: {' '.join(told)}"] = None
        return sorted(lines)

    def sums(self) -> list[str]:
        """What is no span of the clock is a sum of spans: about how many steps of the clock it is."""
        lines = {}
        for series in self.document["series"]:
            if series["metric"] in self.loose and series.get("seconds") and series.get("clock") != "device":
                where = "".join(f" {key}={value}" for key, value in sorted(series.get("at", {}).items()))
                steps = dict.fromkeys(round(one * 1e9 / (1.05 * STEP)) for one in series["seconds"])
                lines[f"sum: {series['metric']}{where}: {' '.join(map(str, steps))} steps"] = None
        return list(lines)

    def monitored(self) -> list[str]:
        """For how many steps of the clock the health of each GPU was read: while it was timed."""
        seconds = {one["index"]: one["seconds"] for one in self.document.get("health", {}).get("devices", ())}
        return [f"monitored: gpu{gpu}: {round(time * 1e9 / (1.05 * STEP))} steps" for gpu, time in seconds.items()]

    def counted(self) -> list[str]:
        """What the samples of each series count, as rate times span; of times, how many are in a span; what is no time,
        as it is. Equal lines of several subjects stand once."""
        parts = {id(found[0].series): found[0] for found in self.parts}
        samples = {
            (m["name"], *sorted(m["subject"].items()), *sorted(m.get("at", {}).items())): (m["unit"], m["samples"])
            for m in self.metrics
        }
        lines: dict[str, None] = {}
        for series in self.document["series"]:
            at = sorted(series.get("at", {}).items())
            unit, values = samples.get((series["metric"], *sorted(series["subject"].items()), *at), ("", ()))
            where = "".join(f" {key}={value}" for key, value in at)
            if values and "seconds" not in series and series["metric"] not in OF_THE_MACHINE:
                told = " ".join(dict.fromkeys(f"{value:.9g}" for value in values))
                lines[f"counted: {series['metric']}{where}: {told}{'' if unit == '1' else ' ' + unit}"] = None
            both = [(value, one) for value, one in zip(values, series.get("seconds", ()), strict=False) if one > 0]
            said = []
            if not both:
                continue
            if unit in AMOUNTS:
                scale, word = AMOUNTS[unit]
                (amount,) = {f"{scale * value * one:.12g}" for value, one in both}
                said.append(f"{amount} {word}")
            elif unit in SPANS:
                assert {f"{value / one:.9g}" for value, one in both} <= {f"{SPANS[unit]:.9g}"}, series["metric"]
            else:
                raise AssertionError(f"{unit}: add what it counts to AMOUNTS by hand")
            if (part := parts.get(id(series))) and part.times > 1:
                said.append(f"{part.times} in a span")
            if said:
                lines[f"counted: {series['metric']}{where}: {', '.join(said)}"] = None
        return list(lines)

    def sizes(self) -> list[str]:
        """Launches as blocks x threads, products as m x n x k by an algorithm, calls of NCCL as elements of a type, to
        or from a rank, pauses in ms; all else in bytes."""
        lines: dict[str, None] = {}
        for process in self.processes:
            for step, sizes in process.sizes.items():
                # a library writes, reads and copies what describes its data in small pieces; names are broadcast
                least = SMALLEST if step in ("read", "write", "memcpy", "bcast") else 1
                told = dict.fromkeys(_size(step, *size) for size in sizes if size[0] >= least)
                if told:
                    lines[f"size: {step}: {' '.join(told)}"] = None
        return list(lines)

    def mistakes(self) -> dict[str, set[str]]:
        """Metrics by the rule that the order of their steps breaks, whatever the program is."""
        broken: dict[str, set[str]] = {}
        timed = {(part.process, number) for part in self.every() for number in range(part.begin, part.end)}
        known = {step for part in self.every() for step in self.steps(part)} | {
            "fsync",
            "find_placement",
            "wait",
            "hold",
            *OF_FILES,
        }
        for parts in self.parts:
            name, first, last = parts[0].name, parts[0], parts[-1]
            steps = set(self.steps(first)) - {"wait"}
            if not steps:
                broken.setdefault(UNSEEN, set()).add(name)
                continue
            if first.subject not in (None, first.timed_on):
                broken.setdefault(ON_ANOTHER, set()).add(name)
            if first.ends and not all(_along(step, *first.ends) for step in steps if _COPY.fullmatch(step)):
                broken.setdefault(BACKWARDS, set()).add(name)
            if any(Counter(self.steps(part)) != Counter(self.steps(first)) for part in parts):
                broken.setdefault(DIFFER, set()).add(name)
            before = self.processes[first.process].steps[: first.begin]
            untimed = Counter(step for n, step in enumerate(before) if (first.process, n) not in timed)
            if any(untimed[step] < 3 for step in steps):
                broken.setdefault(COLD, set()).add(name)
            if not set(self.processes[last.process].steps[last.end :]) - known:
                broken.setdefault(UNVERIFIED, set()).add(name)
        return broken


_COPY = re.compile(r"\|?\w+>\w+")


def _size(step: str, size: int, more: int) -> str:
    """Of calls and copies: which of the arrays of its GPU it reads and writes, and where in the latter if not at its
    begin."""
    called = step in CALLS
    if step in SOLVERS:
        told = "x".join(str(one) for one in (size % (1 << 32), size >> 32, more % (1 << 32)) if one)
        return told + (f" by {more >> 32}" if more >> 32 else "")
    if not called and not _COPY.fullmatch(step):
        shared = more >> 42
        return f"{_dimensions(size)}x{_dimensions(more)}" + (f"+{shared}" if shared else "") if more else str(size)
    peer, how = more >> 8 & 255, more >> 16 & 15
    told = f"{size} of type {more % 256}" + (f" by {peer - 1}" if peer else "") if called else str(size)
    arrays = [f" {word} {more >> bit & 15}" for word, bit in (("from", 20), ("to", 24)) if more >> bit & 15 < 15]
    return told + (f" as {how}" if how else "") + "".join(arrays) + (f" at {8 * (more >> 28)}" if more >> 28 else "")


def _dimensions(packed: int) -> str:
    three = [packed % (1 << 24), (packed >> 24) % (1 << 10), (packed >> 34) % (1 << 8)]
    while len(three) > 1 and three[-1] == 1:
        three.pop()
    return ",".join(map(str, three))


def _along(copy: str, source: int, target: int) -> bool:
    """Whether a copy goes from one GPU to another, or is part of such a copy through the host."""
    one, other = copy.lstrip("|").split(">")
    return one in (f"gpu{source}", "pinned", "host") and other in (f"gpu{target}", "pinned", "host")


def _ends(series: Mapping[str, Any]) -> tuple[int, int] | None:
    subject = series["subject"]
    return (subject["from"], subject["to"]) if "from" in subject else None


def _folded(step: str, fold: Sequence[str]) -> str:
    return next((beginning for beginning in fold if step.startswith(beginning)), step)


def _by_clock(series: Mapping[str, Any], of: Sequence[Process]) -> list[Part]:
    """Where the samples of a series were measured; a sample may be one of several operations of its timed part."""
    for times in range(1, 65):
        parts = []
        for seconds in series["seconds"]:
            span = seconds * 1e9 * times
            if span < 1 or abs(span - round(span)) > max(0.02, 1e-9 * span):
                break
            found = [(n, *where) for n, one in enumerate(of) if (where := one.between(round(span))) is not None]
            if len(found) != 1:
                break
            ((process, first, last),) = found
            ahead = of[process].ahead
            place = ahead[first], ahead[last], first, last
            mode = series.get("at", {}).get("mode", "")
            parts.append(
                Part(series["metric"], process, *place, ends=_ends(series), mode=mode, times=times, series=series)
            )
        if len(parts) == len(series["seconds"]):
            return parts
    return []


def _by_events(series: Mapping[str, Any], of: Sequence[Process]) -> list[Part]:
    """Like _by_clock(), for times from GPU events: each elapsed time belongs to one sample."""
    for times in range(1, 65):
        parts = []
        left = [list(one.elapsed) for one in of]
        for seconds in series["seconds"]:
            ticks = seconds * 1e3 * 1024 * times
            for process, elapsed in enumerate(left):
                fits = (at for at, (a, b) in enumerate(elapsed) if abs(b - a - ticks) < 1e-6 * ticks)
                if (at := next(fits, None)) is not None:
                    begin, end = elapsed[at]
                    del elapsed[: at + 1]
                    events = of[process].events
                    of_gpu = begin >> 40, series["subject"].get("gpu"), _ends(series)
                    place = events[begin], events[end], begin, end
                    parts.append(Part(series["metric"], process, *place, *of_gpu, times=times, series=series))
                    break
            else:
                break
        if len(parts) == len(series["seconds"]):
            return parts
    return []


def _repeated(tokens: Sequence[str], longest: int) -> Iterator[tuple[list[str], int]]:
    """Consecutive repetitions of a block, the block that covers the most first."""
    at = 0
    while at < len(tokens):
        best, times = 1, 1
        for length in range(1, min(longest, (len(tokens) - at) // 2) + 1):
            block, count = tokens[at : at + length], 1
            while tokens[at + count * length : at + (count + 1) * length] == block:
                count += 1
            if count > 1 and count * length > best * times:
                best, times = length, count
        yield list(tokens[at : at + best]), times
        at += best * times
