"""Oracles: the correct values of a program, from the raw readings of its clock and numbers written by hand.

The documents hold rates. `recorder.c`, preloaded into a program, records every clock reading that the program got. A
person counts the work: that amount divided by the rate must be the span between two of those readings, to the
nanosecond. A program that counts another amount, or another unit, gives spans that were never measured.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import iter_unpack
from typing import Any

import numpy as np

from tenken.paths import ROOT
from tests.support.documents import completed

#: Nanoseconds for one unit of an amount over one unit of a figure, by unit.
NANOSECONDS = {
    "GB/s": 1.0, "GFLOP/s": 1.0, "Gcell/s": 1.0, "TFLOP/s": 1e-3, "messages/s": 1e9, "samples/s": 1e9,
}  # fmt: skip
TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0, "ps": 1e-3}
#: Maximum distance of a span computed from a value to a whole nanosecond: the rounding error of double precision.
APART = 0.02
#: Kinds of events recorded by gpu_double.c, and by recorder.c for an MPI rank, posix_fadvise (its advice) and fsync.
ELAPSED, COLLECTIVE, RANK, BY_CPU, ADVISED, SYNCED = -1, -2, -3, -4, -5, -6
#: Whether a span, by its number, may match two places of a process's readings.
Fits = Callable[[int, Sequence[int], int, int], bool]


def compiled(folder: Path, *sources: str, options: Sequence[str] = ()) -> Path:
    """The shared library made of C sources of tests/support."""
    library = folder / f"{Path(sources[0]).stem}.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), *options]
    subprocess.run([*command, *(str(ROOT / "tests" / "support" / source) for source in sources)], check=True)
    return library


def small_caches(folder: Path) -> dict[str, str]:
    """The environment in which programs find caches of 24 MiB."""
    (folder / "size").write_text("24576K\n")
    library = compiled(folder, "small_cache.c", options=["-ldl"])
    return {"LD_PRELOAD": str(library), "TENKEN_TEST_CACHE": str(folder / "size")}


@dataclass
class Clock:
    """The clock readings of the main threads of a run's processes, in ns; `events` are those that simulated libraries
    logged."""

    told: list[list[int]]
    events: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By kind: (number of earlier clock readings, value)."""

    @staticmethod
    def read(prefix: Path) -> Clock:
        told, events = [], {}
        for file in sorted(prefix.parent.glob(f"{prefix.name}.*")):
            main = int(file.suffix[1:])
            times = []
            for kind, value in iter_unpack("=qq", file.read_bytes()):
                if kind == main:
                    times.append(value)
                elif kind < 0:
                    events.setdefault(kind, []).append((len(times), value))
            told.append(times)
        return Clock(told, events)

    def places(
        self, spans: Sequence[float], after: int = 0, next_to: bool = True, fits: Fits = lambda *_: True
    ) -> list[tuple[int, int, int]]:
        """(process, first, last) of each span in turn: indices of readings, from the one numbered `after` on.

        `next_to`: the clock was not read within a span, and none begins before the previous one ended. `fits` may
        require more of a place: it gets the number of the span, the process's readings, and the two indices.
        AssertionError for the first span that was not measured, or if the spans match two sequences of places: with
        `next_to` that cannot be, as recorder.c makes the spans different; without, up to its first `unique` readings.
        """
        whole = [round(span) for span in spans]
        for span, number in zip(spans, whole, strict=True):
            assert number > 0 and abs(span - number) < max(APART, 1e-9 * number), f"{span} ns is no whole number"
        reasons, placed = [], []
        for process, times in enumerate(self.told):
            found = _in_turn(times, whole, after, next_to, fits)
            if len(found) == len(whole):
                placed.append([(process, first, last) for first, last in found])
            else:
                reasons.append(f"span {len(found)} of {len(whole)}, {whole[len(found)]} ns, was never measured")
        assert placed, "; ".join(reasons) or "the clock was never read"
        assert len(placed) == 1, f"{len(placed)} processes measured all of {whole} ns"
        return placed[0]

    def device(self, spans: Sequence[float], after: int = 0) -> int:
        """Each span is in turn an elapsed time of events that gpu_double.c made up; returns the index of the last one.

        They are whole multiples of 2^-10 ms. AssertionError for the first span without events."""
        events = [value for _, value in self.events.get(ELAPSED, [])]
        for number, span in enumerate(spans):
            ticks = span / 1e6 * 1024
            assert abs(ticks - round(ticks)) < 1e-6 * ticks, f"{span} ns is no whole number of 2^-10 ms"
            assert round(ticks) in events[after:], f"span {number} of {len(spans)}, {span / 1e6} ms, was never elapsed"
            after = events.index(round(ticks), after) + 1
        return after

    def anywhere(self, spans: Sequence[float]) -> None:
        """Each span is the difference of two readings of one process: the slowest rank.

        Two ranks may have measured the same span, which is equally good: no place is returned."""
        for span in spans:
            assert abs(span - round(span)) < max(APART, 1e-9 * span), f"{span} ns is no whole number"
            assert self._between(round(span)), f"{round(span)} ns were never measured by any process"

    def of_rank(self, rank: int) -> Clock:
        """The readings of one MPI rank."""
        ranks = [value for _, value in self.events[RANK]]
        assert len(ranks) == len(self.told), "each process says which rank it is"
        return Clock([times for number, times in zip(ranks, self.told, strict=True) if number == rank])

    def holds(self, spans: Sequence[float]) -> bool:
        """Whether anywhere() would succeed."""
        return all(abs(s - round(s)) < max(APART, 1e-9 * s) and self._between(round(s)) for s in spans)

    def _between(self, span: int) -> bool:
        return any(time + span in one for one in map(set, self.told) for time in one)


Timed = tuple[dict[str, Any], Clock]


class Clocked:
    """Runs programs with recorder.c preloaded; `stdout` is the output of the last one."""

    def __init__(self, programs: Path, library: Path, folder: Path) -> None:
        self.programs, self.library, self.folder = programs, library, folder
        self.stdout = ""

    def __call__(self, program: str, *arguments: str, **more: str) -> Timed:
        """The document of a run and the times that its clock returned."""
        for file in self.folder.glob("clock.*"):
            file.unlink()
        result = self.folder / "result.json"
        preloaded = " ".join([str(self.library), *filter(None, [os.environ.get("LD_PRELOAD")])])
        env = {**os.environ, "LD_PRELOAD": preloaded, "TENKEN_TEST_CLOCK": str(self.folder / "clock"), **more}
        command = [str(self.programs / program), "--json", str(result), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        self.stdout = done.stdout
        document = completed(result.read_text())
        statistics_follow(document)
        return document, Clock.read(self.folder / "clock")


def _in_turn(
    times: Sequence[int], spans: Sequence[int], after: int, next_to: bool, fits: Fits
) -> list[tuple[int, int]]:
    """The places of the spans, in their order: of all of them, or of those before the first that has none.

    A span alone may lie at several places by chance; all of them in their order lie at one. AssertionError if not."""
    index = {time: place for place, time in enumerate(times)}
    ways: list[list[tuple[int, int]]] = [[]]
    for number, span in enumerate(spans):
        further = []
        for first, last in ((first, index[time + span]) for first, time in enumerate(times) if time + span in index):
            if (last == first + 1 or not next_to) and fits(number, times, first, last):
                before = [way for way in ways if first >= _from(way, after, next_to)]
                further += [[*way, (first, last)] for way in before[:2]]
        if not further:
            return ways[0]
        ways = further
    assert len(ways) == 1, f"{len(spans)} spans lie at {len(ways)} places: {[way[0] for way in ways[:4]]}"
    return ways[0]


def _from(way: Sequence[tuple[int, int]], after: int, next_to: bool) -> int:
    """The first reading at which the span after those of `way` may begin."""
    if not way:
        return after
    return way[-1][1] if next_to else way[-1][0] + 1


def figures(document: Mapping[str, Any], name: str, **at: Any) -> list[dict[str, Any]]:
    """The metrics of a name, at these coordinates."""
    found = [m for m in document["metrics"] if m["name"] == name]
    found = [m for m in found if all(m.get("at", {}).get(key) == value for key, value in at.items())]
    assert found, f"no metric {name} {at}"
    return found


def figure(document: Mapping[str, Any], name: str, **at: Any) -> dict[str, Any]:
    """The one metric of a name, at these coordinates."""
    found = figures(document, name, **at)
    assert len(found) == 1, [m["id"] for m in found]
    return found[0]


def spans(metric: Mapping[str, Any], amount: float) -> list[float]:
    """Nanoseconds of each sample: `amount` (bytes, operations, cells, messages) over a rate, or a multiple of it."""
    if metric["unit"] in TIMES:
        return [sample * TIMES[metric["unit"]] * amount for sample in metric["samples"]]
    assert metric["unit"] in NANOSECONDS, (
        f"{metric['unit']!r} is neither in TIMES nor in NANOSECONDS (tests/support/oracles.py): add its value by hand"
    )
    return [amount / sample * NANOSECONDS[metric["unit"]] for sample in metric["samples"]]


def seconds(metric: Mapping[str, Any], amount: float) -> list[float]:
    return [span * 1e-9 for span in spans(metric, amount)]


def close(found: float, expected: float, within: float = 1e-9) -> None:
    assert math.isclose(found, expected, rel_tol=within), f"{found!r}, expected {expected!r}"


def tolerances(document: Mapping[str, Any], expected: Mapping[str, float]) -> None:
    """Each verification has the tolerance that `expected` states for what was compared."""
    told = {check["what"]: check["tolerance"] for check in document["verification"]["checks"]}
    assert told
    used = set()
    for what, tolerance in told.items():
        (words,) = [words for words in expected if words in what] or [""]
        assert words, f"no tolerance is expected of {what!r}"
        assert math.isclose(tolerance, expected[words], rel_tol=1e-9), f"{what}: {tolerance!r}, not {expected[words]!r}"
        used.add(words)
    assert used == set(expected), "each of them was compared"


def statistics_follow(document: Mapping[str, Any]) -> None:
    """Best, median, p5 and p95 of each metric, and its value, computed from its samples with numpy."""
    for metric in document["metrics"]:
        samples = np.array(metric["samples"])
        expected = {
            "best": samples.max() if metric["direction"] == "higher" else samples.min(),
            "median": np.percentile(samples, 50),
            "p5": np.percentile(samples, 5),
            "p95": np.percentile(samples, 95),
            "mean": samples.mean(),
            "total": samples[0],
        }
        for name in ("best", "median", "p5", "p95"):
            close(metric[name], float(expected[name]), 1e-12)
        close(metric["value"], float(expected[metric["statistic"]]), 1e-12)
        assert metric["count"] == len(samples)


def ramp(rates: Sequence[float]) -> tuple[int, float, float]:
    """(repetition from 1 on, rate before, plateau rate) of a series of rates.

    The plateau is the median of the last quarter; it begins where five rates in a row are at least 0.95 of it.
    """
    plateau = float(np.median(rates[len(rates) - max(1, len(rates) // 4) :]))
    ends = (i for i in range(len(rates)) if all(rate >= 0.95 * plateau for rate in rates[i : i + 5]))
    begin = next(ends, len(rates) - 1) + 1
    before = rates[0] if begin == 1 else float(np.median(rates[: begin - 1]))
    return begin, before, plateau


def rises(places: Iterable[tuple[int, int, int]]) -> int:
    """Index at or after the end of the last of these spans: the next ones begin there or later."""
    return max(last for _, _, last in places)
