"""`tenken compare A B`: two machines, dates or drivers, metric by metric: faster, slower, same, or undecided."""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tenken.errors import TenkenError
from tenken.history.ingest import add_archive, ingest, require, store_of
from tenken.history.store import Store, open_store
from tenken.paths import archive_root
from tenken.report.writing import write

TEMPLATES = Path(__file__).parent / "templates"

#: Keys of a side; a night may be a range, A..B.
KEYS = ("system", "partition", "environ", "node", "gpu", "session", "mode", "night", "driver", "cuda", "kernel",
        "firmware", "clocks", "revision", "compiler", "check", "metric")  # fmt: skip
#: Minimum number of values on a side.
LEAST = 4


class CompareError(TenkenError):
    """A side that is malformed or has no values."""


@dataclass(frozen=True)
class Ratio:
    """B / A of one metric with its 95 % interval; `unit_of_count` is the unit of the n values of a side."""

    metric: str
    unit: str
    direction: str
    a: float
    b: float
    ratio: float
    low: float
    high: float
    counts: tuple[int, int]
    unit_of_count: str
    answer: str


def register(subparsers: Any) -> None:
    """Adds the subcommand `compare` to the `tenken` command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two machines, two dates or two drivers metric by metric",
        description="Each side is KEY=VALUE[,KEY=VALUE...] with the keys " + ", ".join(KEYS) + "; a night may be a "
        "range, "
        "night=2026-11-01..2026-11-09. Exit status: 0 nothing is slower, 1 at least one metric is slower, 3 all "
        "undecided.",
    )
    parser.add_argument("a", metavar="A", help="the baseline: driver=580.95.05")
    parser.add_argument("b", metavar="B", help="the side to judge: driver=580.126.09")
    parser.add_argument(
        "--margin", type=float, default=0.01, help="a smaller difference is reported as `same` (default: 0.01)"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write the table as a page, significant differences first"
    )
    add_archive(parser)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs `tenken compare`; returns its exit status."""
    from tabulate import tabulate

    if not 0 < arguments.margin < 1:
        raise CompareError(f"--margin is {arguments.margin}; allowed: a fraction above 0 and below 1")
    archive = arguments.archive or archive_root()
    with open_store(store_of(arguments), require(archive)) as store:
        ingest(store, archive)
        ratios = compare(store, arguments.a, arguments.b, arguments.margin)
    table = [
        [r.metric, f"{r.a:.5g}", f"{r.b:.5g}", r.unit, _number(r.ratio), f"{_number(r.low)} to {_number(r.high)}",
         f"{r.counts[0]}, {r.counts[1]} {r.unit_of_count}", r.answer]
        for r in ratios
    ]  # fmt: skip
    heads = ["Metric", "A", "B", "Unit", "B / A", "95 % interval", "n", "B is"]
    print(tabulate(table, headers=heads, tablefmt="simple", disable_numparse=True))
    if arguments.html is not None:
        try:
            write(arguments.html, page(ratios, arguments.a, arguments.b, arguments.margin))
        except OSError as error:
            raise CompareError(f"{arguments.html}: cannot be written: {error.strerror}") from None
        print(f"\nPage: {arguments.html}")
    answers = {r.answer for r in ratios}
    if "slower" in answers:
        return 1
    return 3 if answers <= {"undecided"} else 0


#: Answers in the order of a page: significant differences first.
ORDER = ("slower", "faster", "undecided", "same")


def page(ratios: Sequence[Ratio], a: str, b: str, margin: float) -> str:
    """The comparison as one page: significant differences first, the largest ratio first; nothing is omitted."""
    import jinja2

    ordered = sorted(ratios, key=lambda r: (ORDER.index(r.answer), -_distance(r), r.metric))
    # one scale for all intervals: that of the widest one, leaving out intervals wider by an order of magnitude
    ends = [abs(math.log(x)) for r in ratios for x in (r.low, r.high, r.ratio) if math.isfinite(x) and x > 0]
    reach = min(max([*ends, margin]), math.log(10))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters.update(number=_number, value=lambda v: f"{v:.5g}")
    return environment.get_template("compare.html").render(
        ratios=ordered, a=a, b=b, margin=margin, counts={w: sum(r.answer == w for r in ratios) for w in ORDER},
        place=lambda ratio: _place(ratio, reach), style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
    )  # fmt: skip


def _distance(ratio: Ratio) -> float:
    return abs(math.log(ratio.ratio)) if math.isfinite(ratio.ratio) and ratio.ratio > 0 else 0.0


def _place(ratio: float, reach: float) -> float | None:
    """Position of a ratio on a bar from 0 to 100 with 1 in the middle; None for NaN."""
    if not math.isfinite(ratio) or ratio <= 0:
        return None
    return round(50 + 50 * max(-1.0, min(1.0, math.log(ratio) / reach)), 2)


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "–"


def side(text: str) -> tuple[str, list[Any]]:
    """A side as a condition on `history` with its values. Raises CompareError."""
    terms: list[str] = ["valid"]
    values: list[Any] = []
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in KEYS or not value:
            raise CompareError(f"{part!r}: expected KEY=VALUE; allowed keys: {', '.join(KEYS)}")
        if key != "night":
            terms.append(f'"{key}" = ?')
            values.append(value)
            continue
        first, _, last = value.partition("..")
        try:
            values += [date.fromisoformat(first), date.fromisoformat(last or first)]
        except ValueError:
            raise CompareError(f"{part!r}: expected a night like 2026-11-21, or two as A..B") from None
        terms.append("night BETWEEN ? AND ?")
    return " AND ".join(terms), values


def compare(store: Store, a: str, b: str, margin: float = 0.01) -> list[Ratio]:
    """Metrics of both sides. Raises CompareError if a side has no values, or they have none in common.

    Nodes measured by both sides are paired. A side counts by nights if both have at least LEAST of them, since the
    events of one night affect many GPUs together; otherwise by nodes and GPUs.
    """
    sides = []
    for name, text in (("A", a), ("B", b)):
        condition, values = side(text)
        rows = store.rows(
            'SELECT "check", metric, coordinates, parameters, kind, unit, direction, node, gpu, peer, night, '
            f"median(value) FROM history WHERE {condition} GROUP BY ALL",
            values,
        )
        if not rows:
            raise CompareError(f"side {name} ({text}) has no valid values")
        measures: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for row in rows:
            measures[row[:7]].append(row[7:])
        sides.append(measures)
    both = sorted(set(sides[0]) & set(sides[1]))
    if not both:
        raise CompareError("the two sides have no metric with the same parameters and unit in common")
    return [_ratio(key, sides[0][key], sides[1][key], margin) for key in both]


def _ratio(key: tuple[str, ...], a: list[tuple[Any, ...]], b: list[tuple[Any, ...]], margin: float) -> Ratio:
    import numpy as np

    common = {row[:3] for row in a} & {row[:3] for row in b}
    if common:
        a, b = [r for r in a if r[:3] in common], [r for r in b if r[:3] in common]
    nights = min(len({r[3] for r in a}), len({r[3] for r in b})) >= LEAST
    # the level of each location is removed first, so that a night on which a slow GPU is missing does not look faster
    levels: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in [*a, *b] if common else []:
        levels[row[:3]].append(row[4])
    means = {place: float(np.median(v)) for place, v in levels.items()}
    overall = float(np.median([r[4] for r in [*a, *b]]))

    def values(rows: list[tuple[Any, ...]]) -> np.ndarray:
        groups: dict[Any, list[float]] = defaultdict(list)
        for row in rows:
            scaled = row[4] * (overall / means[row[:3]] if nights and row[:3] in means and means[row[:3]] else 1.0)
            groups[row[3] if nights else row[:3]].append(scaled)
        return np.array([np.median(v) for v in groups.values()])

    one, two = values(a), values(b)
    counts = (len(one), len(two))
    name = f"{key[0]} {key[1]}" + (f" {key[2]}" if key[2] else "") + f" ({key[4]})"
    middle = (float(np.median(one)), float(np.median(two)))
    of = "nights" if nights else "places"
    ratio, low, high = math.nan, math.nan, math.nan
    if min(counts) >= LEAST and one.min() > 0 and two.min() > 0:
        shift, *ends = shift_interval(np.log(one), np.log(two))
        ratio, low, high = math.exp(shift), math.exp(ends[0]), math.exp(ends[1])
    elif middle[0]:
        ratio = middle[1] / middle[0]
    return Ratio(
        name, key[5], key[6], *middle, ratio, low, high, counts, of, answer(low, high, key[6] == "higher", margin)
    )


def shift_interval(one: Sequence[float] | Any, two: Sequence[float] | Any) -> tuple[float, float, float]:
    """Hodges-Lehmann shift of `two` relative to `one` with its 95 % interval (Mann-Whitney, normal approximation).

    The median of all differences. The interval ends at the differences whose rank is mn/2 -+ 1.96 sqrt(mn (m + n + 1) /
    12) (Hollander and Wolfe). Valid for any noise distribution, robust to outliers.
    """
    import numpy as np

    one, two = np.asarray(one, dtype=float), np.asarray(two, dtype=float)
    differences = np.sort((two[None, :] - one[:, None]).ravel())
    m, n = len(one), len(two)
    rank = max(0, math.floor(m * n / 2 - 1.96 * math.sqrt(m * n * (m + n + 1) / 12)))
    return float(np.median(differences)), float(differences[rank]), float(differences[-1 - rank])


def answer(low: float, high: float, higher_is_better: bool, margin: float) -> str:
    """faster, slower, same or undecided, from the interval of a ratio."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "undecided"
    if 1 - margin <= low and high <= 1 + margin:
        return "same"
    if low > 1:
        return "faster" if higher_is_better else "slower"
    if high < 1:
        return "slower" if higher_is_better else "faster"
    return "undecided"
