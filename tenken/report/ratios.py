"""`tenken ratio`: the ratio of times on two machines, against a coordinate of a sweep.

For figures such as "time on P100 over time on K40 against the number of nonzeros": reads two sets of result
documents, writes one self-contained page and a table. Metrics are paired by name and coordinates.
"""

from __future__ import annotations

import argparse
import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenken import paths
from tenken.errors import RecordError, ResultError, TenkenError
from tenken.model import record, result
from tenken.model.result import Result
from tenken.model.verdicts import INVALID
from tenken.report import policy
from tenken.report.rows import Row
from tenken.report.writing import write


class RatioError(TenkenError):
    """There is nothing to compare: one line with the set and what it lacks."""


@dataclass(frozen=True)
class Point:
    """Time on the first machine over time on the second at one point of the sweep."""

    over: float
    at: Mapping[str, Any]
    ratio: float


def register(subparsers: Any) -> None:
    """Adds the subcommand `ratio` to the `tenken` command."""
    parser = subparsers.add_parser(
        "ratio",
        help="plot the ratio of times of two machines over a coordinate, from two sets of documents",
        description="Pairs the metrics of two sets of result documents by name and coordinates and draws time of FIRST "
        "over time of SECOND. A set is a result document, an archived record, or a folder of them.",
    )
    parser.add_argument("first", type=Path, metavar="FIRST")
    parser.add_argument("second", type=Path, metavar="SECOND")
    parser.add_argument("--metric", default="spmv.spmv", help="PROGRAM.METRIC (default: %(default)s)")
    parser.add_argument("--over", default="nnz", metavar="KEY", help="numeric coordinate (default: %(default)s)")
    parser.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE", help="only points with this coordinate"
    )
    parser.add_argument("--statistic", choices=("best", "median"), default="best", help="default: %(default)s")
    parser.add_argument("--names", nargs=2, metavar=("A", "B"), help="names of the two sets (default: file names)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="page (default: output/pages/ratio.html)")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """0, or 2 by a TenkenError."""
    program, _, metric = arguments.metric.partition(".")
    wanted = dict(item.partition("=")[::2] for item in arguments.where)
    first, second = (
        values(folder, program, metric, wanted, arguments.statistic) for folder in (arguments.first, arguments.second)
    )
    points = pair(first, second, arguments.over)
    names = arguments.names or [arguments.first.stem, arguments.second.stem]
    title = f"{arguments.metric}: time on {names[0]} over time on {names[1]}"
    print("\n".join(table(points, arguments.over, title)))
    target = arguments.output or paths.ROOT / "output" / "pages" / "ratio.html"
    write(target, page(points, arguments.over, title))
    print(f"\nPage: {target}")
    return 0


def documents(source: Path) -> Iterator[Result]:
    """The result documents of a set, as files or within records that are not INVALID. Raises RatioError if there are
    none."""
    files = sorted(source.rglob("*.json")) if source.is_dir() else [source]
    found = False
    for file in files:
        try:
            document = _result(file)
        except (OSError, ValueError, RecordError, ResultError) as error:
            if not source.is_dir():
                raise RatioError(f"{file}: no result document: {error}") from None
            continue  # a folder may contain other files
        if document is not None and document.status == "ok":
            found = True
            yield document
    if not found:
        raise RatioError(f"{source}: no valid result document with status ok")


def _result(file: Path) -> Result | None:
    """The result in a file, as such or within a record; None if a record has none, or is INVALID."""
    text = result.read_text(file)
    if '"record"' in text[:200]:
        found = record.parse(text, file)
        return None if found.verdict == INVALID else found.result
    return result.parse(text, file.name)


Key = tuple[tuple[str, Any], ...]


def values(
    source: Path, program: str, metric: str, wanted: Mapping[str, str], statistic: str
) -> dict[Key, tuple[float, str]]:
    """Value and direction by coordinates; the best of several GPUs or runs. Raises RatioError if there are none."""
    found: dict[Key, tuple[float, str]] = {}
    for document in documents(source):
        if document.program != program:
            continue
        for one in document.metrics:
            if one.name != metric or any(str(one.at.get(k)) != v for k, v in wanted.items()):
                continue
            figure = one.statistic_named(statistic)
            key = tuple(sorted(one.at.items()))
            before = found.get(key)
            better = before is None or (figure > before[0]) == (one.direction == "higher")
            if better and figure > 0:
                found[key] = (figure, one.direction)
    if not found:
        limits = "".join(f", {k}={v}" for k, v in wanted.items())
        raise RatioError(f"{source}: no metric {metric} of program {program}{limits}")
    return found


def pair(first: Mapping[Key, tuple[float, str]], second: Mapping[Key, tuple[float, str]], over: str) -> list[Point]:
    """Points with the same coordinates in both sets, by the coordinate `over`. Raises RatioError."""
    points = []
    for key in first.keys() & second.keys():
        at = dict(key)
        place = at.get(over)
        if isinstance(place, bool) or not isinstance(place, (int, float)):
            continue
        (a, direction), (b, _) = first[key], second[key]
        points.append(Point(float(place), at, b / a if direction == "higher" else a / b))
    if not points:
        raise RatioError(f"the two sets share no point with a number for {over!r}")
    return sorted(points, key=lambda p: (p.over, str(p.at)))


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def table(points: Sequence[Point], over: str, title: str) -> Iterator[str]:
    """The geometric mean of each decade, then of all."""
    yield title
    decades: dict[int, list[float]] = {}
    for point in points:
        decades.setdefault(math.floor(math.log10(point.over)) if point.over > 0 else 0, []).append(point.ratio)
    for decade, ratios in sorted(decades.items()):
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        yield f"  {over} from 1e{decade}: {geometric_mean(ratios):.3f} ({len(ratios)} points, {spread})"
    yield f"  all: {geometric_mean([p.ratio for p in points]):.3f} ({len(points)} points)"


def page(points: Sequence[Point], over: str, title: str) -> str:
    """The plot and every point as one HTML page."""
    from tenken.report import plots

    style = (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    svg, caption = plots.draw([_row(p, over) for p in points], "ratio")
    lines = "".join(
        f"<tr><td>{html.escape(', '.join(f'{k} {v}' for k, v in sorted(p.at.items())))}</td><td>{p.ratio:.4f}</td></tr>"
        for p in points
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{policy.meta()}<title>{html.escape(title)}</title>'
        f"<style>{style}</style><main><h1>{html.escape(title)}</h1><figure>{svg}<figcaption>{html.escape(caption)}"
        f"</figcaption></figure><table><tr><th>point</th><th>ratio</th></tr>{lines}</table></main></html>\n"
    )


def _row(point: Point, over: str) -> Row:
    """A point for the sweep plot: names of matrices label points, they do not define lines."""
    rest = {k: v for k, v in point.at.items() if k in (over, "variant")}
    return Row(
        id="ratio", name="ratio", title="time ratio", group="ratio", plot="sweep", subject="", ends=None, at=rest,
        unit="1", direction="lower", statistic="total", value=point.ratio, best=point.ratio, median=point.ratio,
        p5=point.ratio, p95=point.ratio, count=1, samples=[point.ratio], verdict="PASS",
    )  # fmt: skip
