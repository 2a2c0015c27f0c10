"""Plots by plot kind as inline SVG. Generic: a plot depends on rows, units and coordinates, never on a benchmark.

matplotlib lays out a figure once with placeholder colours, which are then replaced by the page's CSS variables, so that
one drawing serves light, dark and print. Text stays text (svg.fonttype none) in the page's typeface.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tenken.report import formatting as words
from tenken.report.rows import Row

#: Role -> stand-in colour; the page's style sheet defines --role for light, dark and print.
ROLES = (
    "ink",
    "muted",
    "line",
    "paper",
    "PASS",
    "FAIL",
    "INVALID",
    "WAIVED",
    "limit",
    "reference",
    *(f"c{i}" for i in range(8)),
)
COLOURS = {role: f"#0101{i + 1:02x}" for i, role in enumerate(ROLES)}
SERIES = tuple(COLOURS[f"c{i}"] for i in range(8))

#: Maximum points drawn per line; beyond it each bucket keeps its minimum and maximum, so no dip is lost.
MAX_POINTS = 600
#: Number of bars beyond which the subjects of a bar plot become a strip of dots per metric.
MAX_BARS = 40
#: Maximum lines overlaid in one panel, panels in one plot, cells along a side of a heat map, labelled outliers in a
#: strip
MAX_LINES, MAX_PANELS, MAX_SIDE, MAX_LABELS = 16, 12, 24, 5
#: Number of texts whose sizes are cached.
MAX_SIZES = 10_000

WIDTH = 12.0  # inches at 72 units each; the page shows one unit as about one CSS pixel


#: Space around the decorations of axes, and below a title, in units.
PAD, TITLE_PAD = 3.0, 6.0


@functools.cache
def _matplotlib() -> Any:
    """matplotlib, imported when the first plot is drawn (it takes half a second; pyplot would double that)."""
    import matplotlib

    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "font.family": "DejaVu Sans",
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.titley": 1.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": COLOURS["line"],
            "axes.labelcolor": COLOURS["muted"],
            "axes.titlecolor": COLOURS["ink"],
            "axes.linewidth": 0.8,
            "axes.axisbelow": True,
            "text.color": COLOURS["ink"],
            "xtick.color": COLOURS["line"],
            "ytick.color": COLOURS["line"],
            "xtick.labelcolor": COLOURS["muted"],
            "ytick.labelcolor": COLOURS["muted"],
            "grid.color": COLOURS["line"],
            "grid.linewidth": 0.6,
            "grid.alpha": 0.7,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "legend.frameon": False,
            "legend.fontsize": 10,
            "figure.dpi": 72,
            "path.simplify": True,
            "axes.formatter.useoffset": False,
        }
    )
    return matplotlib


def draw(rows: Sequence[Row], ident: str) -> tuple[str, str]:
    """One group of rows of one plot kind as (SVG, caption). `ident` is unique on the page.

    Raises ImportError without matplotlib and ValueError if the rows contain nothing to draw.
    """
    kind = rows[0].plot
    if kind == "bars" and len(rows) > MAX_BARS:
        kind = "strip"
    if kind == "bars" and any(r.at for r in rows) and len(rows) > MAX_BARS // 2:
        kind = "sweep"
    drawers = {
        "bars": _bars,
        "strip": _strip,
        "series": _series,
        "sweep": _sweep,
        "matrix": _matrix,
        "phases": _phases,
    }
    figure, caption = drawers[kind](list(rows))
    return _svg(figure, ident, caption), caption


# ---- the drawing as markup -------------------------------------------------------------------------------


@functools.cache
def _renderer() -> Any:
    """matplotlib's renderer, which caches the sizes of texts for all plots of a page, since most of them repeat."""
    from matplotlib.backends.backend_svg import RendererSVG

    sizes: dict[Any, Any] = {}

    class Renderer(RendererSVG):
        def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> Any:
            key = s, hash(prop), ismath
            if key not in sizes:
                if len(sizes) >= MAX_SIZES:
                    sizes.clear()
                sizes[key] = super().get_text_width_height_descent(s, prop, ismath)
            return sizes[key]

    return Renderer


def _svg(figure: Any, ident: str, caption: str) -> str:
    sink = io.StringIO()
    width, height = (figure.get_size_inches() * 72).round().astype(int)
    with _matplotlib().rc_context({"svg.hashsalt": ident, "svg.id": None}):
        # one renderer for layout and drawing, so that every text is measured once
        hidden = {"Date": None, "Creator": None, "Format": None, "Type": None}
        renderer = _renderer()(width, height, sink, image_dpi=72, metadata=hidden)
        _arrange(figure, renderer)
        figure.draw(renderer)
        renderer.finalize()
    return themed(sink.getvalue(), ident, caption, int(width), int(height))


def _arrange(figure: Any, renderer: Any) -> None:
    """Places the axes of a grid so that no label is cut off or covered.

    matplotlib's constrained layout does this by laying out all ticks eight times. Here each axis is measured once,
    vertical ones first, since the remaining width determines the ticks of the others.
    """
    margins = _Margins(*([0.0] * len(figure.axes) for _ in range(4)))
    for measured in (_vertical, _horizontal):
        for axis in figure.axes:
            if axis.get_visible():
                margins.enclose(axis, measured(axis, renderer))
        _place(figure, margins, sum(one.get_window_extent(renderer).height + 2 * PAD for one in figure.legends))


@dataclass
class _Margins:
    """Space that the decorations of each column and row of axes take, in units."""

    left: list[float]
    right: list[float]
    above: list[float]
    below: list[float]

    def enclose(self, axis: Any, outer: Any) -> None:
        """Widens the margins of the cell of `axis` so that the box `outer` has room."""
        (row, column), inner = _cell(axis), axis.bbox
        self.left[column] = max(self.left[column], inner.x0 - outer.x0)
        self.right[column] = max(self.right[column], outer.x1 - inner.x1)
        self.above[row] = max(self.above[row], outer.y1 - inner.y1)
        self.below[row] = max(self.below[row], inner.y0 - outer.y0)


def _place(figure: Any, margins: _Margins, floor: float) -> None:
    """Positions of all axes between their margins, above `floor`; the sizes have the ratios of the grid."""
    width, height = figure.bbox.width, figure.bbox.height
    grid = figure.axes[0].get_subplotspec().get_gridspec()
    gap, ratios = 0.02 * width, grid.get_height_ratios()
    wide = (width - sum(margins.left) - sum(margins.right) - gap * (grid.ncols - 1) - 2 * PAD) / grid.ncols
    high = (height - floor - sum(margins.above) - sum(margins.below) - 2 * PAD * grid.nrows) / sum(ratios)
    if wide <= 0 or high <= 0:
        return  # no room for the axes: matplotlib's default is as good
    for axis in figure.axes:
        row, column = _cell(axis)
        x = PAD + sum(margins.left[: column + 1]) + sum(margins.right[:column]) + (wide + gap) * column
        top = height - PAD * (2 * row + 1) - sum(margins.above[: row + 1]) - sum(margins.below[:row])
        top, tall = top - high * sum(ratios[:row]), high * ratios[row]
        axis.set_position((x / width, (top - tall) / height, wide / width, tall / height))


def _cell(axis: Any) -> tuple[int, int]:
    """Row and column of axes in their grid."""
    spec = axis.get_subplotspec()
    return spec.rowspan.start, spec.colspan.start


def _vertical(axis: Any, renderer: Any) -> Any:
    """The box of axes with the ticks and the label of the y axis."""
    from matplotlib.transforms import Bbox

    inner, ticks = axis.bbox, _ticks(axis.yaxis, renderer)
    left = ticks.x0
    if axis.get_ylabel():
        left = min(ticks.x0, inner.x0) - axis.yaxis.labelpad
        left -= _beside(axis, axis.yaxis, left - inner.x0).get_window_extent(renderer).width
    return Bbox.from_extents(min(left, inner.x0), ticks.y0, ticks.x1, ticks.y1)


def _horizontal(axis: Any, renderer: Any) -> Any:
    """The box of axes with texts, ticks and label of the x axis, and title."""
    from matplotlib.transforms import Bbox

    inner, ticks = axis.bbox, _ticks(axis.xaxis, renderer)
    whole = Bbox.union([Bbox(inner.get_points()), ticks, *(one.get_window_extent(renderer) for one in axis.texts)])
    low, high = whole.y0, whole.y1
    if axis.get_xlabel() and axis.xaxis.get_label_position() == "top":
        high = max(ticks.y1, inner.y1) + axis.xaxis.labelpad
        high += _beside(axis, axis.xaxis, high - inner.y1).get_window_extent(renderer).height
    elif axis.get_xlabel():
        low = min(ticks.y0, inner.y0) - axis.xaxis.labelpad
        low -= _beside(axis, axis.xaxis, low - inner.y0).get_window_extent(renderer).height
    if axis.get_title(loc="left"):
        title = axis.set_title(axis.get_title(loc="left"), y=1.0, pad=high - inner.y1 + TITLE_PAD, loc="left")
        high += TITLE_PAD + title.get_window_extent(renderer).height
    return Bbox.from_extents(whole.x0, low, whole.x1, high)


def _ticks(side: Any, renderer: Any) -> Any:
    """The box of the ticks of an x or y axis, without its label, which would make matplotlib lay it out again."""
    side.label.set_visible(False)
    side.set_label_coords(*side.label.get_position())
    return side.get_tightbbox(renderer) or side.axes.bbox


def _beside(axis: Any, side: Any, distance: float) -> Any:
    """The label of an x or y axis, placed this far from the axes."""
    from matplotlib.transforms import ScaledTranslation

    x, y = side.label.get_position()
    inches = distance / 72
    at, shift = ((x, float(distance > 0)), (0.0, inches)) if side is axis.xaxis else ((0.0, y), (inches, 0.0))
    moved = ScaledTranslation(shift[0], shift[1], axis.figure.dpi_scale_trans)
    side.label.set_visible(True)
    side.set_label_coords(*at, transform=axis.transAxes + moved)
    return side.label


def themed(svg: str, ident: str, caption: str, width: int, height: int) -> str:
    """matplotlib's file as an HTML fragment: no prologue, name spaces, style, fixed colours or fonts."""
    body = svg[svg.index("<svg") :]
    body = body[body.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    body = body.replace("xlink:href", "href")
    # Names like figure_1 repeat in each drawing of a page; references use only hashed ones.
    body = re.sub(r'<g id="[^"]*">', "<g>", body)
    short: dict[str, str] = {}
    body = re.sub(
        r'(\bid="|href="#|url\(#)(\w+)', lambda m: f"{m[1]}{ident}-{short.setdefault(m[2], str(len(short)))}", body
    )
    for role, colour in COLOURS.items():
        body = body.replace(colour, f"var(--{role})")
    body = re.sub(r"font: (?:[a-z]+ |\d{3} )*([\d.]+)px [^;\"]*", r"font-size: \1px", body)
    body = re.sub(r"font-family: [^;\"]*;?", "", body)
    body = _without_groups(body)
    # Elements neither filled nor stroked, and the clipping of grid lines, which end at the axes.
    body = re.sub(r'<path [^>]*?style="fill: none"/>|<defs>\s*</defs>', "", body)
    body = re.sub(r'clip-path="[^"]*" (style="fill: none; stroke: var\(--line\))', r"\1", body)
    # Coordinates to a tenth of a unit, which is a tenth of a pixel; numbers in the text do not change.
    body = re.sub(r'\b(d|x|y|width|height|points|transform)="([^"]*)"', _coordinates, body)
    body = re.sub(r' transform="rotate\(0 [^)"]*\)"', "", body)
    body = _joined(_unclipped(re.sub(r">\s+<", "><", body.strip())))
    body = re.sub(r'\bd="(M[^"A-KN-Za-y]*z?)"', _relative, body)
    title = _escape(caption)
    return (
        f'<svg class="plot" viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img">'
        f"<title>{title}</title>{body}"
    )


def _coordinates(found: re.Match[str]) -> str:
    """An attribute of coordinates, as short as a tenth of a unit allows."""
    name, text = found[1], found[2]
    text = re.sub(r"-?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)", lambda one: f"{float(one[0]):.1f}".removesuffix(".0"), text)
    text = re.sub(r"(?<![\d.])-0(?![\d.])", "0", text)
    if name == "d":
        text = re.sub(r"\s*([A-Za-z])\s*", r"\1", re.sub(r"\s+", " ", text)).strip()
    return f'{name}="{text}"'


def _unclipped(body: str) -> str:
    """Removes the clipping of lines and bars that lie within it, as almost all do."""
    rectangle = r'<clipPath id="([^"]+)"><rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"/></clipPath>'
    clips = {name: tuple(map(float, sides)) for name, *sides in re.findall(rectangle, body)}

    def one(found: re.Match[str]) -> str:
        x, y, width, height = clips.get(found[2], (0.0, 0.0, 0.0, 0.0))
        numbers = [float(word) for word in re.findall(r"-?[\d.]+", found[1])]
        across, down = numbers[::2], numbers[1::2]
        inside = x <= min(across) and max(across) <= x + width and y <= min(down) and max(down) <= y + height
        return found[0].replace(f' clip-path="url(#{found[2]})"', "") if inside else found[0]

    body = re.sub(r'<path d="(M[^"A-KN-Za-y]*z?)" clip-path="url\(#([^)]+)\)"', one, body)
    unused = "|".join(name for name in clips if f"url(#{name})" not in body) or " "
    body = re.sub(rf'<clipPath id="(?:{unused})"><rect [^>]*/></clipPath>', "", body)
    return re.sub(r"<defs>\s*</defs>", "", body)


def _relative(found: re.Match[str]) -> str:
    """A path of lines in relative steps if these are shorter than coordinates, equally exact at each point."""
    text, at = [], (0, 0)
    for command, x, y in re.findall(r"([ML]|z)(?:(-?[\d.]+) (-?[\d.]+))?", found[1]):
        if command == "z":
            text.append("z")
            continue
        to = round(10 * float(x)), round(10 * float(y))
        across, down = (_tenths(end - start) for end, start in zip(to, at, strict=True))
        if command == "M":
            text.append(f"M{x} {y}")
        elif to[0] == at[0]:
            text.append(min(f"v{down}", f"V{y}", key=len))
        elif to[1] == at[1]:
            text.append(min(f"h{across}", f"H{x}", key=len))
        else:
            step = f"l{across}{down}" if down.startswith("-") else f"l{across} {down}"
            text.append(min(step, f"L{x} {y}", key=len))
        at = to
    return f'd="{"".join(text)}"'


def _tenths(count: int) -> str:
    """A number of tenths of a unit: 25 -> '2.5', -3 -> '-.3'."""
    whole, part = divmod(abs(count), 10)
    return ("-" if count < 0 else "") + (f"{whole or ''}.{part}" if part else str(whole))


def _joined(body: str) -> str:
    """Merges grid lines and spines of one style into one path, and ticks likewise; matplotlib draws them one by one.

    A path takes the place of the first of its lines: lines of other axes do not overlap it, so the order between
    them does not matter.
    """
    of_line = r'style="([^"]*stroke: var\(--line\)[^"]*)"'
    paths: dict[str, list[str]] = {}
    ticks: dict[str, tuple[float, float, str]] = {}

    def keep(style: str, path: str) -> str:
        paths.setdefault(style, []).append(path)
        return f"<joined {style}>" if len(paths[style]) == 1 else ""

    def tick(found: re.Match[str]) -> str:
        name, across, down, style = found.groups()
        ticks[name] = float(across), float(down), style
        return ""

    def mark(found: re.Match[str]) -> str:
        name, x, y = found.groups()
        if name not in ticks:
            return found[0]
        across, down, style = ticks[name]
        return keep(style, f"M{x} {y}L{float(x) + across:g} {float(y) + down:g}")

    def line(found: re.Match[str]) -> str:
        x, y, to_x, to_y, style = found.groups()
        return keep(style, f"M{x} {y}L{to_x} {to_y}")

    body = re.sub(rf'<defs><path id="([^"]+)" d="M0 0L(?=0 |\S+ 0")(\S+) ([^ "]+)" {of_line}/></defs>', tick, body)
    body = re.sub(r'<use href="#([^"]+)" x="([^"]+)" y="([^"]+)" [^>]*/>', mark, body)
    body = re.sub(rf'<path d="M([^ "]+) ([^ L"]+)L([^ "]+) ([^ ML"]+)" {of_line}/>', line, body)
    return re.sub(r"<joined ([^>]*)>", lambda one: f'<path d="{"".join(paths[one[1]])}" style="{one[1]}"/>', body)


def _without_groups(body: str) -> str:
    """Removes redundant groups: matplotlib creates one around every line and letter."""
    kept: list[bool] = []

    def one(found: re.Match[str]) -> str:
        if found[0] == "</g>":
            return found[0] if kept.pop() else ""
        if found[0].endswith("/>"):
            return ""
        kept.append(found[0] != "<g>")
        return found[0] if kept[-1] else ""

    return re.sub(r"<g\b[^>]*>|</g>", one, body)


def share_styles(page: str) -> str:
    """A page with the styles of its plots as classes in its style sheet, instead of at each line and letter."""
    known: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        style = re.sub(r"\s*([:;,])\s*", r"\1", found[1]).strip("; ")
        return f'class="{known.setdefault(style, f"s{len(known)}")}"'

    def drawing(found: re.Match[str]) -> str:
        return found[1] + re.sub(r'\bstyle="([^"]*)"', named, found[2])

    page = re.sub(r'(<svg class="plot"[^>]*>)(.*?</svg>)', drawing, page, flags=re.S)
    sheet = "\n".join(f".{name}{{{style}}}" for style, name in known.items())
    return page.replace("</style>", f"{sheet}\n</style>", 1) if known else page


def _escape(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(char, entity)
    return text


def _plain(text: str) -> str:
    """A label for matplotlib, which would interpret $...$ as mathematics; long ones are truncated."""
    text = text.replace("$", r"\$")
    return text if len(text) <= 44 else text[:42] + "…"


def _two_lines(text: str) -> str:
    """A label next to a bar: wrapped at a word if one line would be truncated."""
    lines = textwrap.wrap(text, 44, max_lines=2, placeholder=" …", break_on_hyphens=False) or [""]
    return "\n".join(_plain(line) for line in lines)


def _axes(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, list[Any]]:
    _matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    # close to where `_arrange` puts them: the number of ticks depends on the size
    units = 72 * height
    figure.subplots_adjust(0.08, 70 / units if units > 160 else 0.35, 0.98, 1 - min(0.2, 24 / units), hspace=0.35)
    return figure, list(axes.flat)


# ---- small helpers ---------------------------------------------------------------------------------------


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def _colour(row: Row, fallback: str) -> str:
    return COLOURS[row.verdict] if row.verdict in ("FAIL", "INVALID") else fallback


def _teller(rows: Sequence[Row]) -> Callable[[Row], str]:
    """The label of a row's subject: with the node if there are several."""
    if len({r.node for r in rows}) > 1:
        return lambda row: f"{row.node} {row.subject}".strip()
    return lambda row: row.subject


def _grouped(rows: Iterable[Row], name: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by name, in order; each row is evaluated once."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return groups


def _left_out(count: int, what: str) -> str:
    """The end of a caption, which states what was left out."""
    return f"; {count} more {what}{'' if count == 1 else 's'} left out" if count > 0 else ""


def thin(values: Sequence[float], points: int = MAX_POINTS) -> tuple[list[int], list[float]]:
    """At most `points` of `values` with their indices; each bucket keeps its minimum and its maximum."""
    if len(values) <= points:
        return list(range(len(values))), list(values)
    step = math.ceil(len(values) / (points // 2))
    keep: list[int] = []
    for start in range(0, len(values), step):
        bucket = range(start, min(start + step, len(values)))
        keep += sorted({min(bucket, key=values.__getitem__), max(bucket, key=values.__getitem__)})
    return keep, [values[i] for i in keep]


def _by_unit(rows: Sequence[Row]) -> list[list[Row]]:
    return list(_grouped(rows, lambda r: r.unit).values())


def _need(rows: list[Row], what: str) -> list[Row]:
    if not rows:
        raise ValueError(f"no {what} to draw")
    return rows


def _legend(axis: Any, handles: list[Any], columns: int | None = None) -> None:
    """Below the axes, outside the data, as one unobtrusive line."""
    if handles:
        axis.figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=columns or min(len(handles), 5),
            labelcolor=COLOURS["muted"],
            handlelength=1.6,
            columnspacing=1.6,
        )


def _key(kind: str, label: str, colour: str) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    styles: dict[str, dict[str, Any]] = {
        "bar": {"facecolor": colour},
        "whisker": {"color": colour, "linewidth": 1.2},
        "limit": {
            "color": colour,
            "marker": "|",
            "markersize": 12,
            "markeredgewidth": 2.4,
            "linestyle": "none",
        },
        "reference": {
            "color": colour,
            "marker": "|",
            "markersize": 12,
            "markeredgewidth": 2,
            "linestyle": "none",
        },
        "dot": {"color": colour, "marker": "o", "markersize": 5, "linestyle": "none"},
        "line": {"color": colour, "linewidth": 1.8},
        "dashed": {"color": colour, "linewidth": 1.4, "linestyle": (0, (5, 3))},
        "dotted": {"color": colour, "linewidth": 1.4, "linestyle": (0, (1, 2))},
    }
    style = styles[kind]
    return Patch(label=label, **style) if kind == "bar" else Line2D([], [], label=label, **style)


# ---- the plot kinds --------------------------------------------------------------------------------------


def _bars(rows: list[Row]) -> tuple[Any, str]:
    """A bar per metric and subject (GPUs side by side), whiskers p5-p95, marks for reference and limit."""
    rows = _need([r for r in rows if r.value is not None], "value")
    panels = _by_unit(rows)
    heights = [len(p) * 0.25 + len(_unique(r.label for r in p)) * 0.14 for p in panels]
    figure, axes = _axes(
        sum(heights) + 0.55 * len(panels) + 0.35,
        rows=len(panels),
        gridspec_kw={"height_ratios": [h + 0.3 for h in heights]},
    )
    who = _teller(rows)
    subjects = sorted(_unique(who(r) for r in rows), key=words.natural)
    shade = {s: SERIES[i % len(SERIES)] for i, s in enumerate(subjects)}
    name = _bar_names(rows)
    for axis, panel in zip(axes, panels, strict=True):
        _bar_panel(axis, panel, shade, who, name)
    handles = [_key("bar", s, shade[s]) for s in subjects] if 1 < len(subjects) <= len(SERIES) else []
    spread = any(r.p5 is not None and r.p95 is not None and r.p5 < r.p95 for r in rows)
    handles += [_key("whisker", "p5 to p95", COLOURS["ink"])] if spread else []
    handles += _limit_keys("limit", rows)
    handles += (
        [_key("reference", "reference and its bounds", COLOURS["reference"])]
        if any(r.reference is not None for r in rows)
        else []
    )
    _legend(axes[0], handles)
    return figure, f"{_names(rows)}: value by metric and subject"


def _bar_names(rows: list[Row]) -> dict[str, str]:
    """Label of a row -> the part that distinguishes its bars: without the title and coordinates common to all."""
    several = len({r.title for r in rows}) > 1
    differing = {k for k in _unique(k for r in rows for k in r.at) if len({str(r.at.get(k)) for r in rows}) > 1}
    names = {}
    for row in rows:
        at = [words.coordinate(k, v) for k, v in sorted(row.at.items()) if k in differing]
        names[row.label] = ", ".join(([row.title] if several or not at else []) + at)
    return names


def _limit_keys(kind: str, rows: Sequence[Row]) -> list[Any]:
    """The meaning of the limit's mark: a peak, or the attainable value of the same run."""
    names = []
    if any(r.limit for r in rows):
        names.append("peak")
    if any(r.of_attainable for r in rows):
        names.append("attainable in this run")
    return [_key(kind, " or ".join(names), COLOURS["limit"])] if names else []


def _bar_panel(
    axis: Any, panel: list[Row], shade: dict[str, str], who: Callable[[Row], str], name: dict[str, str]
) -> None:
    y, ticks, labels = 0.0, [], []
    top = max(max(r.value or 0, r.ceiling or 0, r.reference or 0, r.p95 or 0) for r in panel)
    several = len({who(r) for r in panel}) > 1
    for label, group in _grouped(panel, lambda r: r.label).items():
        members = sorted(group, key=lambda r: words.natural(who(r)))
        ticks.append(y + (len(members) - 1) / 2)
        labels.append(_two_lines(name[label]))
        for row in members:
            assert row.value is not None
            axis.barh(y, row.value, height=0.78, color=_colour(row, shade[who(row)]), alpha=0.88)
            if row.p5 is not None and row.p95 is not None and row.p5 < row.p95:
                axis.plot([row.p5, row.p95], [y, y], color=COLOURS["ink"], linewidth=1.2)
            low, high = row.bounds
            if row.reference is not None:
                # Adjacent bars with the same reference have one band behind their ends.
                if low is not None or high is not None:
                    left, right = (
                        row.reference if low is None else low,
                        row.reference if high is None else high,
                    )
                    axis.barh(y, right - left, left=left, height=1.0, color=COLOURS["reference"], alpha=0.2)
                axis.plot([row.reference] * 2, [y - 0.5, y + 0.5], color=COLOURS["reference"], linewidth=1.6)
            if row.ceiling:
                axis.plot([row.ceiling] * 2, [y - 0.5, y + 0.5], color=COLOURS["limit"], linewidth=2)
            flag = f"  {row.verdict}" if row.verdict in ("FAIL", "INVALID") else ""
            text = f"{who(row)}  {words.number(row.value)}{flag}" if several else f"{words.number(row.value)}{flag}"
            axis.annotate(
                _plain(text),
                (0, y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
                color=COLOURS["paper"] if row.value > 0.3 * top else COLOURS["ink"],
            )
            y += 1
        y += 0.55
    axis.set_yticks(ticks, labels)
    axis.tick_params(axis="y", length=0, labelcolor=COLOURS["ink"])
    axis.invert_yaxis()
    axis.set_xlim(0, top * 1.03 if top > 0 else 1)
    axis.set_xlabel(panel[0].unit, loc="right")
    axis.grid(axis="x")
    axis.spines["left"].set_visible(False)


def _strip(rows: list[Row]) -> tuple[Any, str]:
    """Many subjects: a row of dots per metric, outliers labelled, those within bounds thinned."""
    rows = _need([r for r in rows if r.value is not None], "value")
    who = _teller(rows)
    by_label = _grouped(rows, lambda r: (r.unit, r.label))
    labels = list(by_label)[:MAX_PANELS]
    figure, axes = _axes(0.72 * len(labels) + 0.75, rows=len(labels))
    for axis, (unit, label) in zip(axes, labels, strict=True):
        members = sorted(by_label[unit, label], key=lambda r: r.value or 0)
        bad = [r for r in members if r.verdict in ("FAIL", "INVALID")][:100]
        good = [r for r in members if r.verdict not in ("FAIL", "INVALID")]
        good = [good[i] for i in _spaced(len(good), 200)]
        for part, colour in ((good, COLOURS["c0"]), (bad, None)):
            for row, jitter in zip(part, itertools.cycle((0.0, 0.16, -0.16, 0.08, -0.08)), strict=False):
                axis.plot(
                    row.value,
                    jitter,
                    "o",
                    markersize=3.6,
                    markeredgewidth=0,
                    color=colour or COLOURS[row.verdict],
                    alpha=0.55 if colour else 1,
                )
        # Worst first: the low end if higher is better; labels that would overlap are only in the table.
        named = sorted(bad, key=lambda r: r.value or 0, reverse=bad[0].direction == "lower" if bad else False)
        span = (members[-1].value or 0) - (members[0].value or 0) or 1
        placed: list[float] = []
        for row in named:
            if len(placed) < MAX_LABELS and all(abs((row.value or 0) - p) > 0.16 * span for p in placed):
                placed.append(row.value or 0)
                axis.annotate(
                    _plain(who(row)),
                    (row.value, 0.22),
                    xytext=(0, 4),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                    color=COLOURS[row.verdict],
                )
        references = [r.reference for r in members if r.reference is not None]
        if references:
            axis.axvline(references[0], color=COLOURS["reference"], linewidth=1.4, linestyle=(0, (5, 3)))
        axis.set_ylim(-0.45, 0.8)
        axis.set_yticks([0], [_two_lines(label)])
        axis.tick_params(axis="y", length=0, labelcolor=COLOURS["ink"])
        axis.spines["left"].set_visible(False)
        axis.margins(x=0.06)
        axis.grid(axis="x")
        axis.set_xlabel(unit, loc="right")
    handles = [_key("dot", "within bounds", COLOURS["c0"])]
    handles += [_key("dot", v, COLOURS[v]) for v in ("FAIL", "INVALID") if any(r.verdict == v for r in rows)]
    handles += [_key("dashed", "reference", COLOURS["reference"])] if any(r.reference is not None for r in rows) else []
    _legend(axes[0], handles)
    cut = _left_out(len(by_label) - len(labels), "metric")
    return figure, f"{_names(rows)}: {len(rows)} values, at most 200 dots per metric within bounds{cut}"


def _spaced(count: int, most: int) -> list[int]:
    """At most `most` indices of `count`, evenly spaced, first and last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _series(rows: list[Row]) -> tuple[Any, str]:
    """Sample against repetition: a panel per metric and coordinate, subjects and trials overlaid."""
    rows = _need([r for r in rows if r.samples], "samples")

    def panel_of(row: Row) -> tuple[str, str]:
        at = ", ".join(words.coordinate(k, v) for k, v in sorted(row.at.items()) if k != "trial")
        return row.unit, f"{row.title}, {at}" if at else row.title

    who = _teller(rows)
    by_panel = _grouped(rows, panel_of)
    every = list(by_panel)
    names = every[:MAX_PANELS]
    columns = 1 if len(names) == 1 else 2
    lines = math.ceil(len(names) / columns)
    # A common scale for panels of similar range; a panel of 50 GB/s would be unreadable on the scale of one of 4000.
    middles = [abs(r.median or 0) for r in rows]
    alike = len({unit for unit, _ in names}) == 1 and min(middles) > 0.2 * max(middles)
    figure, axes = _axes(
        (2.9 if lines == 1 else 2.2 * lines) + 0.4,
        rows=lines,
        columns=columns,
        sharex=True,
        sharey=alike and len(names) > 1,
    )
    subjects = sorted(_unique(who(r) for r in rows), key=words.natural)
    shade = {s: SERIES[i % len(SERIES)] for i, s in enumerate(subjects)}
    cut_lines = 0
    for axis, panel in zip(axes, names, strict=False):
        members = by_panel[panel]
        cut_lines += max(0, len(members) - MAX_LINES)
        for row in _with_best(members, MAX_LINES, lambda r: [r]):
            x, y = thin(row.samples)
            trial = "trial" in row.at
            axis.plot(
                [i + 1 for i in x],
                y,
                color=_colour(row, shade[who(row)]),
                linewidth=1.0 if trial else 1.3,
                alpha=0.6 if trial else 0.95,
                marker="o" if len(x) <= 12 else None,
                markersize=3.5,
            )
        if len(members) == 1 and members[0].median is not None:
            axis.axhline(members[0].median, color=COLOURS["ink"], linewidth=1.1, linestyle=(0, (1, 2)))
        for reference in _unique(r.reference for r in members if r.reference is not None)[:3]:
            axis.axhline(reference, color=COLOURS["reference"], linewidth=1.4, linestyle=(0, (5, 3)))
        axis.set_title(_plain(panel[1]))
        axis.set_ylabel(panel[0])
        axis.grid(axis="y")
        axis.margins(x=0.015, y=0.14)
        _calm(axis, max(abs(r.median or 0) for r in members))
    for axis in axes[max(0, len(names) - columns) : len(names)]:
        axis.set_xlabel("repetition", loc="right")
        axis.tick_params(labelbottom=True)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    handles = [_key("line", s, shade[s]) for s in subjects[:MAX_LINES]] if len(subjects) > 1 else []
    if any(len(by_panel[p]) == 1 for p in names):
        handles.append(_key("dotted", "median", COLOURS["ink"]))
    if any(r.reference is not None for r in rows):
        handles.append(_key("dashed", "reference", COLOURS["reference"]))
    _legend(axes[0], handles)
    left = _left_out(len(every) - len(names), "panel") + _left_out(cut_lines, "line")
    return figure, f"{_names(rows)}: every sample in the order measured{left}"


def _calm(axis: Any, middle: float, share: float = 0.1) -> None:
    """Widens the y axis to `share` of the value, so that noise of a thousandth is not exaggerated."""
    low, high = axis.get_ylim()
    if high - low < share * middle:
        axis.set_ylim((low + high - share * middle) / 2, (low + high + share * middle) / 2)


def _sweep(rows: list[Row]) -> tuple[Any, str]:
    """Value against the coordinate with the largest variation, log axes, one line per metric, subject and the rest."""
    rows = _need([r for r in rows if r.value is not None and r.at], "points of a sweep")

    def figures(key: str) -> set[float]:
        return {float(r.at[key]) for r in rows if _numeric(r.at.get(key))}

    keys = _unique(k for r in rows for k in r.at if _numeric(r.at[k]))
    if not keys:
        raise ValueError("no coordinate of the sweep is a number")
    key = max(keys, key=lambda k: len(figures(k)))
    if len(figures(key)) == 1 and len(rows) <= MAX_BARS:
        return _bars(rows)  # lines need two points
    rows = [r for r in rows if _numeric(r.at.get(key))]

    names = _labels(rows, key)
    titled = len({r.title for r in rows}) > 1

    who = _teller(rows)
    several = len({who(r) for r in rows}) > 1

    def path_of(row: Row) -> str:
        rest = ", ".join(words.coordinate(k, v) for k, v in sorted(row.at.items()) if k != key and k not in names)
        parts = [x for x in (row.title if titled else "", who(row) if several else "", rest) if x]
        return ", ".join(parts or [row.title])

    panels = _by_unit(rows)
    figure, axes = _axes(3.5, columns=len(panels[:2]))
    lines = [_grouped(panel, path_of) for panel in panels[:2]]
    kept = [_with_best(list(of), MAX_LINES, of.__getitem__) for of in lines]
    paths = _unique(itertools.chain(*kept))
    shade = {p: SERIES[i % len(SERIES)] for i, p in enumerate(paths)}
    # colours repeat from the ninth line on; those lines are dotted
    kinds = {p: "line" if i < len(SERIES) else "dotted" for i, p in enumerate(paths)}
    style = {p: "solid" if kind == "line" else (0, (1, 2)) for p, kind in kinds.items()}
    for axis, panel, of, chosen in zip(axes, panels[:2], lines, kept, strict=True):
        marks: dict[Any, None] = {}
        for path in chosen:
            points = sorted(((float(r.at[key]), r) for r in of[path]), key=lambda p: p[0])
            x, y = [p[0] for p in points], [p[1].value or 0 for p in points]
            axis.plot(x, y, color=shade[path], marker="o", markersize=3.5, linewidth=1.6, linestyle=style[path])
            if all(r.p5 is not None and r.p95 is not None for _, r in points):
                axis.fill_between(
                    x,
                    [r.p5 for _, r in points],
                    [r.p95 for _, r in points],
                    color=shade[path],
                    alpha=0.16,
                    linewidth=0,
                )
            for at, row in points:
                if row.verdict in ("FAIL", "INVALID"):
                    axis.plot(at, row.value, "X", color=COLOURS[row.verdict], markersize=8)
            marks[tuple((at, r.ceiling) for at, r in points if r.ceiling)] = None
        for mark in filter(None, marks):
            axis.plot(
                [m[0] for m in mark],
                [m[1] for m in mark],
                color=COLOURS["limit"],
                linewidth=1.3,
                linestyle=(0, (5, 3)),
            )
        _log_axes(axis, key, panel)
    handles = [_key(kinds[p], _plain(p), shade[p]) for p in paths[:MAX_LINES]] if len(paths) > 1 else []
    handles += _limit_keys("dashed", rows)
    _legend(axes[0], handles, columns=3 if max(map(len, paths)) > 18 else None)
    cut = sum(len(of) - len(chosen) for of, chosen in zip(lines, kept, strict=True))
    left = _left_out(cut, "line") + _left_out(len(panels) - 2, "unit")
    return (
        figure,
        f"{_names(rows)} against {'size' if key == 'bytes' else key.replace('_', ' ')}; shaded p5 to p95{left}",
    )


def _with_best(names: Sequence[Any], most: int, rows_of: Callable[[Any], Sequence[Row]]) -> list[Any]:
    """At most `most` of the lines, in their order: those with a FAIL or INVALID and the best are never omitted."""
    if len(names) <= most:
        return list(names)

    def height(name: Any) -> float:
        return max((r.value or 0) if r.direction == "higher" else -(r.value or 0) for r in rows_of(name))

    def against(name: Any) -> bool:
        return any(r.verdict in ("FAIL", "INVALID") for r in rows_of(name))

    best = max(range(len(names)), key=lambda i: height(names[i]))
    first = sorted(range(len(names)), key=lambda i: (i != best, not against(names[i]), i))[:most]
    return [names[i] for i in sorted(first)]


def _labels(rows: Sequence[Row], key: str) -> set[str]:
    """Text coordinates that only label the points along `key`, one per point: they do not define separate lines."""
    found = set()
    for name in _unique(k for r in rows for k in r.at if k != key and not _numeric(r.at[k])):
        places = {(r.at.get(name), float(r.at[key])) for r in rows}
        if len(places) > 1 and len(places) == len({word for word, _ in places}) == len({at for _, at in places}):
            found.add(name)
    return found


def _numeric(value: Any) -> bool:
    try:
        return value is not None and not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def _log_axes(axis: Any, key: str, panel: list[Row]) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator

    in_bytes = key == "bytes" or key.endswith("_bytes")
    x = sorted({float(r.at[key]) for r in panel})
    y = [r.value or 0 for r in panel]
    if x[0] > 0 and x[-1] / x[0] >= 8:
        axis.set_xscale("log", base=2 if in_bytes else 10)
    if min(y) > 0 and max(y) / min(y) >= 8:
        axis.set_yscale("log")
        wide = max(y) / min(y) > 1e4
        axis.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=12))
        axis.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.minorticks_off()
    if in_bytes:
        ticks = x[:: math.ceil(len(x) / 8)]
        axis.set_xticks(ticks, [words.size(t) for t in ticks])
        axis.minorticks_off()
    elif x[-1] >= 1e5 and axis.get_xscale() == "linear":
        axis.xaxis.set_major_formatter(EngFormatter(sep="\u202f"))  # 200 M: a factor at the end would hide the label
    axis.set_xlabel(key.replace("_", " ") if not in_bytes else "size", loc="right")
    axis.set_ylabel(panel[0].unit)
    axis.grid(True)


def _matrix(rows: list[Row]) -> tuple[Any, str]:
    """From-to matrix as a heat map with numbers, a panel per metric; of several sizes only the last one."""
    rows = _need([r for r in rows if r.value is not None and r.ends], "pairs")
    panels = []
    for members in _grouped(rows, lambda r: (r.title, r.unit)).values():
        last = max(members, key=lambda r: [float(v) if _numeric(v) else 0.0 for _, v in sorted(r.at.items())]).at
        panels.append([r for r in members if r.at == last])
    cut = _left_out(len(panels) - 4, "matrix panel")
    panels = panels[:4]
    side = max(len({e for r in p for e in r.ends or ()}) for p in panels)
    columns = 1 if len(panels) == 1 or side > 8 else 2
    lines = math.ceil(len(panels) / columns)
    height = min(max(side * (0.42 if columns == 2 else 0.46), 1.3), 9.0) + 0.75
    figure, axes = _axes(height * lines, rows=lines, columns=columns)
    for axis, panel in zip(axes, panels, strict=False):
        _matrix_panel(axis, panel)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return (
        figure,
        f"{_names(rows)}: from row to column; stronger colour is better; a framed cell has a finding{cut}",
    )


def _matrix_panel(axis: Any, panel: list[Row]) -> None:
    from matplotlib.patches import Rectangle

    ends = sorted({e for r in panel for e in r.ends or ()})[:MAX_SIDE]
    place = {e: i for i, e in enumerate(ends)}
    cells = [r for r in panel if r.ends and r.ends[0] in place and r.ends[1] in place]
    values = [r.value or 0 for r in cells]
    low, high = min(values), max(values)
    better_low = cells[0].direction == "lower"
    for row in cells:
        assert row.ends and row.value is not None
        # Cells that differ only by noise must look alike: the scale spans at least a tenth of the best.
        span = max(high - low, 0.1 * max(abs(high), abs(low)), 1e-30)
        share = (row.value - low) / span if better_low else (high - row.value) / span
        x, y = place[row.ends[1]], place[row.ends[0]]
        axis.add_patch(
            Rectangle(
                (x - 0.5, y - 0.5),
                1,
                1,
                facecolor=COLOURS["c0"],
                alpha=0.92 - 0.8 * share,
                edgecolor=COLOURS["paper"],
                linewidth=1,
            )
        )
        if row.verdict in ("FAIL", "INVALID"):
            axis.add_patch(
                Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, fill=False, edgecolor=COLOURS[row.verdict], linewidth=2.6)
            )
        axis.text(
            x,
            y,
            words.number(row.value, 3 if len(ends) > 8 else 4),
            ha="center",
            va="center",
            fontsize=11 if len(ends) <= 8 else 8,
            color=COLOURS["paper"] if share < 0.45 else COLOURS["ink"],
        )
    axis.set_xlim(-0.5, len(ends) - 0.5)
    axis.set_ylim(len(ends) - 0.5, -0.5)
    axis.set_xticks(range(len(ends)), [str(e) for e in ends])
    axis.set_yticks(range(len(ends)), [str(e) for e in ends])
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set_xlabel("to GPU")
    axis.set_ylabel("from GPU")
    axis.tick_params(length=0, labelcolor=COLOURS["ink"])
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_title(_plain(f"{panel[0].label}, {panel[0].unit}"))


def _phases(rows: list[Row]) -> tuple[Any, str]:
    """One stacked bar per subject and coordinate, one segment per metric, the total at its end."""
    rows = _need([r for r in rows if r.value is not None], "value")
    panels = _by_unit(rows)

    who = _teller(rows)
    several = len({who(r) for r in rows}) > 1

    def bar_of(row: Row) -> str:
        parts = [words.coordinate(k, v) for k, v in sorted(row.at.items())]
        return ", ".join([*parts, *([who(row)] if several or not parts else [])])

    by_bar = [_grouped(p, bar_of) for p in panels]
    counts = [min(len(of), MAX_BARS) for of in by_bar]
    cut = _left_out(sum(len(of) for of in by_bar) - sum(counts), "bar")
    figure, axes = _axes(
        sum(0.34 * c + 0.5 for c in counts) + 0.45,
        rows=len(panels),
        gridspec_kw={"height_ratios": [c + 1 for c in counts]},
    )
    titles = _unique(r.title for r in rows)
    shade = {t: SERIES[i % len(SERIES)] for i, t in enumerate(titles)}
    for axis, panel, of in zip(axes, panels, by_bar, strict=True):
        bars = list(of)[:MAX_BARS]
        longest = max(sum(r.value or 0 for r in of[b]) for b in bars)
        for y, bar in enumerate(bars):
            left = 0.0
            for row in of[bar]:
                assert row.value is not None
                axis.barh(
                    y,
                    row.value,
                    left=left,
                    height=0.72,
                    color=shade[row.title],
                    edgecolor=COLOURS["FAIL"] if row.verdict == "FAIL" else COLOURS["paper"],
                    linewidth=1,
                )
                left += row.value
            axis.annotate(
                words.number(left),
                (left, y),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
            )
        axis.set_yticks(range(len(bars)), [_two_lines(b) for b in bars])
        axis.tick_params(axis="y", length=0, labelcolor=COLOURS["ink"])
        axis.invert_yaxis()
        axis.set_xlim(0, longest * 1.1 or 1)
        axis.set_xlabel(panel[0].unit, loc="right")
        axis.grid(axis="x")
        axis.spines["left"].set_visible(False)
    _legend(axes[0], [_key("bar", _plain(t), shade[t]) for t in titles])
    return figure, f"{_names(rows)}: stacked phases and their total{cut}"


def _names(rows: Sequence[Row]) -> str:
    names = _unique(r.title for r in rows)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
