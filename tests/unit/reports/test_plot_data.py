"""What each kind of plot draws, where, and what it leaves out: numbers read back from the axes."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from matplotlib.colors import to_hex

from tenken.report import plots
from tenken.report.rows import Row


def row(value: float | None = 10.0, subject: str = "GPU 0", **also: Any) -> Row:
    known: dict[str, Any] = {
        "id": "m", "name": "m", "title": "Triad", "group": "g", "plot": "bars", "ends": None, "at": {}, "unit": "GB/s",
        "direction": "higher", "statistic": "median", "best": None, "median": value, "p5": None, "p95": None,
        "count": 3, "samples": [], "verdict": "PASS", "node": "n1",
    }  # fmt: skip
    return Row(**{**known, "value": value, "subject": subject, **also})


def texts(axes: Any) -> list[str]:
    return [one.get_text() for one in axes.texts]


def lines(axes: Any, role: str) -> list[tuple[list[float], list[float]]]:
    """Points of the lines of a colour."""
    found = [one for one in axes.lines if to_hex(one.get_color()) == plots.COLOURS[role]]
    return [([float(x) for x in one.get_xdata()], [float(y) for y in one.get_ydata()]) for one in found]


def bars(axes: Any) -> list[tuple[float, float, float]]:
    """Left end, width and middle of each bar."""
    return [(p.get_x(), p.get_width(), p.get_y() + p.get_height() / 2) for p in axes.patches]


@pytest.mark.parametrize(("kind", "rows", "drawn"), [
    ("bars", 40, "bars"), ("bars", 41, "strip"), ("strip", 2, "strip"), ("series", 2, "series"),
    ("phases", 2, "phases"),
])  # fmt: skip
def test_many_bars_are_drawn_as_dots(monkeypatch: pytest.MonkeyPatch, kind: str, rows: int, drawn: str) -> None:
    seen = []
    for name in ("bars", "strip", "series", "sweep", "matrix", "phases"):
        monkeypatch.setattr(plots, f"_{name}", lambda of, name=name: seen.append(name) or ("figure", "caption"))
    monkeypatch.setattr(plots, "_svg", lambda figure, ident, caption: f"{figure} {ident} {caption}")
    assert plots.draw([row(plot=kind)] * rows, "p1") == ("figure p1 caption", "caption")
    plots.draw([row(plot=kind, at={"bytes": 8})] * rows, "p1")
    assert seen == [drawn, "sweep" if kind == "bars" and rows == 40 else drawn]
    seen.clear()
    for count in (20, 21):
        plots.draw([row(at={"bytes": 8})] * count, "p1")
    assert seen == ["bars", "sweep"]


def test_a_bar_has_its_value_its_spread_its_reference_and_its_limit() -> None:
    some = [
        row(20.0, "GPU 10", reference=18.0, bounds=(17.0, None), limit=30.0, p5=19.0, p95=21.0),
        row(10.0, "GPU 2", verdict="FAIL", p5=10.0, p95=10.0, attainable=25.0),
    ]  # fmt: skip
    figure, caption = plots._bars([*some, row(None, "GPU 3")])
    (axes,) = figure.axes
    assert caption == "Triad: value by metric and subject"
    assert bars(axes) == [(0, 10, 0), (0, 20, 1), (17, 1, 1)], "GPU 2 first, the band from the bound to the reference"
    assert lines(axes, "ink") == [([19, 21], [1, 1])]
    assert lines(axes, "reference") == [([18, 18], [0.5, 1.5])]
    assert lines(axes, "limit") == [([25, 25], [-0.5, 0.5]), ([30, 30], [0.5, 1.5])]
    assert texts(axes) == ["GPU 2  10.00  FAIL", "GPU 10  20.00"]
    assert to_hex(axes.patches[0].get_facecolor()) == plots.COLOURS["FAIL"]
    assert axes.get_xlim() == pytest.approx((0, 30 * 1.03)) and axes.get_xlabel() == "GB/s"
    assert list(axes.get_yticks()) == [0.5] and axes.get_ylim()[0] > axes.get_ylim()[1]
    alone = plots._bars([row(10.0, bounds=(None, 14.0), reference=12.0, p95=16.0)])[0].axes[0]
    assert bars(alone) == [(0, 10, 0), (12, 2, 0)] and texts(alone) == ["10.00"]
    assert alone.get_xlim() == pytest.approx((0, 16 * 1.03))
    assert plots._bars([row(0.0)])[0].axes[0].get_xlim() == (0, 1)
    with pytest.raises(ValueError, match="no value to draw"):
        plots._bars([row(None)])


@pytest.mark.parametrize(("value", "colour"), [(9.1, "paper"), (8.9, "ink")])
def test_words_are_readable_on_their_bar(value: float, colour: str) -> None:
    (text, _) = plots._bars([row(value), row(30.0, "GPU 1")])[0].axes[0].texts
    assert to_hex(text.get_color()) == plots.COLOURS[colour]


def test_units_have_panels_and_nodes_are_named_if_several() -> None:
    figure, _ = plots._bars([row(1.0), row(2.0, unit="s"), row(3.0, node="n2")])
    assert [axes.get_xlabel() for axes in figure.axes] == ["GB/s", "s"]
    assert texts(figure.axes[0]) == ["n1 GPU 0  1.000", "n2 GPU 0  3.000"]
    assert texts(figure.axes[1]) == ["2.000"]
    assert figure.axes[0].get_yticklabels()[0].get_text() == "Triad"


def test_bars_are_named_by_what_differs() -> None:
    some = [row(at={"bytes": 8, "kind": "a"}), row(at={"bytes": 16, "kind": "a"})]
    assert list(plots._bar_names(some).values()) == ["8\u202fB", "16\u202fB"]
    assert list(plots._bar_names([*some, row(title="Copy", at={"bytes": 8})]).values()) == [
        "Triad, 8\u202fB, a", "Triad, 16\u202fB, a", "Copy, 8\u202fB",
    ]  # fmt: skip
    assert list(plots._bar_names([row(), row()]).values()) == ["Triad"]


@pytest.mark.parametrize(("direction", "labelled"), [
    ("higher", ["GPU 1", "GPU 3", "GPU 5"]), ("lower", ["GPU 5", "GPU 3", "GPU 1"]),
])  # fmt: skip
def test_of_outliers_that_overlap_the_worst_is_labelled(direction: str, labelled: list[str]) -> None:
    """A range of 100, within 16 of which no other label fits."""
    values = {"GPU 1": 0.0, "GPU 2": 15.0, "GPU 3": 17.0, "GPU 5": 100.0}
    some = [row(value, who, direction=direction, verdict="FAIL") for who, value in values.items()]
    (axes,) = plots._strip([*some, row(90.0, "GPU 4", direction=direction)])[0].axes
    assert texts(axes) == labelled


def test_a_strip_has_a_dot_of_each_value_a_reference_and_at_most_five_labels() -> None:
    some = [row(float(i), f"GPU {i}", verdict="INVALID" if i % 10 == 0 else "PASS", reference=50.0) for i in range(100)]
    figure, caption = plots._strip(some)
    (axes,) = figure.axes
    assert sorted(x for (x,), _ in lines(axes, "c0")) == [i for i in range(100) if i % 10]
    assert [x for (x,), _ in lines(axes, "INVALID")] == [10 * i for i in range(10)]
    assert texts(axes) == ["GPU 0", "GPU 20", "GPU 40", "GPU 60", "GPU 80"]
    assert lines(axes, "reference") == [([50, 50], [0, 1])]
    assert caption == "Triad: 100 values, at most 200 dots per metric within bounds"
    many, caption = plots._strip([row(1.0, title=f"m{i}") for i in range(14)])
    assert len(many.axes) == 12 and caption.endswith("bounds; 2 more metrics left out")


@pytest.mark.parametrize(("count", "most", "expected"), [
    (3, 3, [0, 1, 2]), (5, 3, [0, 2, 4]), (101, 5, [0, 25, 50, 75, 100]), (0, 3, []),
])  # fmt: skip
def test_dots_that_are_left_out_are_spread_evenly(count: int, most: int, expected: list[int]) -> None:
    assert plots._spaced(count, most) == expected


@pytest.mark.parametrize(("values", "points", "expected"), [
    ([1, 2, 3], 3, ([0, 1, 2], [1, 2, 3])), ([5, 1, 3, 9, 9, 2], 4, ([0, 1, 3, 5], [5, 1, 9, 2])),
    ([1, 2, 3, 4, 5], 4, ([0, 2, 3, 4], [1, 3, 4, 5])),
])  # fmt: skip
def test_long_lines_keep_least_and_most_of_each_part_in_order(values: Any, points: int, expected: Any) -> None:
    assert plots.thin(values, points) == expected


@pytest.mark.parametrize(("count", "what", "text"), [
    (0, "line", ""), (-1, "line", ""), (1, "line", "; 1 more line left out"), (2, "bar", "; 2 more bars left out"),
])  # fmt: skip
def test_a_caption_says_what_is_left_out(count: int, what: str, text: str) -> None:
    assert plots._left_out(count, what) == text


def test_long_labels_are_cut_and_wrapped() -> None:
    assert plots._plain("x" * 44) == "x" * 44 and plots._plain("x" * 45) == "x" * 42 + "…"
    assert plots._plain("$5") == r"\$5" and plots._two_lines("") == ""
    first, second = plots._two_lines("word " * 30).splitlines()
    assert len(first) <= 44 and second.endswith("…")
    assert plots._names([row(title=t) for t in "abca"]) == "a, b, c"
    assert plots._names([row(title=t) for t in "abcde"]) == "a, b, c and 2 more"


def test_a_series_has_each_sample_at_its_repetition() -> None:
    some = [
        row(10.0, samples=[9.0, 10.0, 11.0], reference=12.0),
        row(20.0, title="Copy", samples=[20.0] * 13, at={"trial": 1}),
    ]
    figure, caption = plots._series([*some, row(5.0, "GPU 1")])
    triad, copy = figure.axes
    assert lines(triad, "c0") == [([1, 2, 3], [9, 10, 11])] and lines(triad, "reference") == [([0, 1], [12, 12])]
    assert lines(triad, "ink") == [([0, 1], [10, 10])], "the median"
    assert triad.lines[0].get_marker() == "o" and copy.lines[0].get_marker() == "None", "of up to 12 samples"
    assert (triad.get_title(loc="left"), copy.get_title(loc="left")) == ("Triad", "Copy")
    assert (triad.get_xlabel(), triad.get_ylabel()) == ("repetition", "GB/s")
    assert caption == "Triad, Copy: every sample in the order measured"
    with pytest.raises(ValueError, match="no samples to draw"):
        plots._series([row()])


def test_panels_of_a_series_are_named_by_their_coordinates_and_hold_all_trials() -> None:
    some = [row(1.0, samples=[1.0], at={"bytes": size, "trial": trial}) for size in (8, 16) for trial in (1, 2)]
    figure, _ = plots._series(some)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Triad, 8\u202fB", "Triad, 16\u202fB"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]


@pytest.mark.parametrize(("points", "kept"), [
    ("M1 1L9 9", False), ("M0 0L10 10", False), ("M-1 1L9 9", True), ("M1 1L11 9", True), ("M1 -1L9 9", True),
    ("M1 1L9 11", True),
])  # fmt: skip
def test_only_what_reaches_beyond_its_axes_is_clipped(points: str, kept: bool) -> None:
    clip = '<defs><clipPath id="c"><rect x="0" y="0" width="10" height="10"/></clipPath></defs>'
    found = plots._unclipped(f'{clip}<path d="{points}" clip-path="url(#c)"/>')
    assert found == (f'{clip}<path d="{points}" clip-path="url(#c)"/>' if kept else f'<path d="{points}"/>')


def test_a_series_of_many_panels_and_lines_says_what_it_leaves_out() -> None:
    panels = [row(1.0, title=f"m{i}", samples=[1.0, 2.0]) for i in range(14)]
    figure, caption = plots._series(panels)
    assert sum(axes.get_visible() for axes in figure.axes) == 12 and caption.endswith("; 2 more panels left out")
    devices = [row(float(i), f"GPU {i}", samples=[1.0 * i, 2.0 * i]) for i in range(18)]
    figure, caption = plots._series(devices)
    (axes,) = figure.axes
    assert caption.endswith("measured; 2 more lines left out") and len(axes.lines) == 16
    assert max(line.get_ydata()[1] for line in axes.lines) == 34, "the best is kept"
    odd, _ = plots._series(panels[:3])
    assert [axes.get_visible() for axes in odd.axes] == [True] * 3 + [False]
    assert [axes.get_xlabel() for axes in odd.axes] == ["", "repetition", "repetition", ""]


@pytest.mark.parametrize(("values", "shared"), [((50.0, 240.0), True), ((50.0, 260.0), False)])
def test_panels_of_similar_range_have_one_scale(values: tuple[float, float], shared: bool) -> None:
    first, second = plots._series([row(v, title=f"m{v}", samples=[v, v]) for v in values])[0].axes
    assert (first.get_ylim() == second.get_ylim()) == shared


@pytest.mark.parametrize(("low", "high", "middle", "expected"), [
    (99.0, 101.0, 100.0, (95.0, 105.0)), (90.0, 110.0, 100.0, (90.0, 110.0)), (90.0, 100.0, 100.0, (90.0, 100.0)),
])  # fmt: skip
def test_noise_is_not_exaggerated(low: float, high: float, middle: float, expected: tuple[float, float]) -> None:
    _, (axes,) = plots._axes(3.0)
    axes.set_ylim(low, high)
    plots._calm(axes, middle)
    assert axes.get_ylim() == pytest.approx(expected)


def sizes(*values: float, **also: Any) -> list[Row]:
    return [row(value, at={"bytes": 8**i, **also.pop("at", {})}, **also) for i, value in enumerate(values, 1)]


def test_a_sweep_has_its_values_by_size_its_spread_its_ceiling_and_its_failures() -> None:
    some = [
        row(v, at={"bytes": size}, p5=v - 1, p95=v + 2, limit=30.0, verdict=verdict)
        for v, size, verdict in ((20.0, 512, "PASS"), (10.0, 8, "FAIL"), (15.0, 64, "PASS"))
    ]
    figure, caption = plots._sweep(some)
    (axes,) = figure.axes
    assert lines(axes, "c0") == [([8, 64, 512], [10, 15, 20])]
    assert lines(axes, "FAIL") == [([8], [10])] and lines(axes, "limit") == [([8, 64, 512], [30, 30, 30])]
    (shaded,) = axes.collections
    bounds = shaded.get_datalim(axes.transData)
    assert (bounds.y0, bounds.y1, bounds.x0, bounds.x1) == (9, 22, 8, 512)
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "linear", "size")
    assert [one.get_text() for one in axes.get_xticklabels()] == ["8\u202fB", "64\u202fB", "512\u202fB"]
    assert caption == "Triad against size; shaded p5 to p95"


@pytest.mark.parametrize(("at", "values", "scales"), [
    ([{"n": 1}, {"n": 8}], [1.0, 8.0], ("log", "log")), ([{"n": 1}, {"n": 7}], [1.0, 7.0], ("linear", "linear")),
    ([{"n": 0}, {"n": 9}], [0.0, 9.0], ("linear", "linear")),
])  # fmt: skip
def test_a_range_of_eight_has_a_logarithmic_axis(at: Any, values: list[float], scales: tuple[str, str]) -> None:
    figure, caption = plots._sweep([row(v, at=one) for v, one in zip(values, at, strict=True)])
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == scales and axes.get_xlabel() == "n"
    assert caption == "Triad against n; shaded p5 to p95"


def test_a_sweep_is_along_the_coordinate_that_varies_most_and_has_a_line_for_each_rest() -> None:
    some = [row(float(n + way), at={"n": n, "way": way, "name": f"x{n}"}) for n in (1, 2, 3) for way in (1, 2)]
    figure, _ = plots._sweep(some)
    (axes,) = figure.axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[2, 3, 4], [3, 4, 5]]
    assert {t.get_text() for t in figure.legends[0].get_texts()} == {"way 1", "way 2"}
    single = plots._sweep([row(1.0, at={"n": 1}), row(2.0, "GPU 1", at={"n": 1})])[0].axes[0]
    assert bars(single) == [(0, 1, 0), (0, 2, 1)], "one point is no line"
    with pytest.raises(ValueError, match="no coordinate of the sweep is a number"):
        plots._sweep([row(at={"name": "a"})])
    with pytest.raises(ValueError, match="no points of a sweep to draw"):
        plots._sweep([row()])


def test_a_sweep_of_three_units_or_seventeen_lines_leaves_some_out() -> None:
    three = [row(1.0 * n, unit=unit, at={"n": n}) for unit in ("s", "W", "J") for n in (1, 2)]
    figure, caption = plots._sweep(three)
    assert [axes.get_ylabel() for axes in figure.axes] == ["s", "W"] and caption.endswith("; 1 more unit left out")
    many = [row(float(n), f"GPU {i}", at={"n": n}) for i in range(17) for n in (1, 2)]
    assert plots._sweep(many)[1].endswith("p95; 1 more line left out")
    figure, caption = plots._sweep(many[:32])
    assert caption.endswith("p95") and len(figure.axes[0].lines) == 16
    assert [line.get_linestyle() for line in figure.axes[0].lines].count("-") == 8, "others are dotted"


@pytest.mark.parametrize(("direction", "verdicts", "kept"), [
    ("higher", "PPPP", [0, 3]), ("lower", "PPPP", [0, 1]), ("higher", "PPFP", [2, 3]), ("lower", "PPIP", [0, 2]),
])  # fmt: skip
def test_the_best_line_and_those_with_findings_are_kept(direction: str, verdicts: str, kept: list[int]) -> None:
    names = {"P": "PASS", "F": "FAIL", "I": "INVALID"}
    of = [[row(1.0 + i, direction=direction, verdict=names[v])] for i, v in enumerate(verdicts)]
    assert plots._with_best(range(4), 2, of.__getitem__) == kept
    assert plots._with_best(range(4), 4, of.__getitem__) == [0, 1, 2, 3]


@pytest.mark.parametrize(("value", "number"), [
    (1, True), ("2.5", True), (True, False), (None, False), (math.inf, False), ("a", False), ([1], False),
])  # fmt: skip
def test_what_is_a_number_can_be_an_axis(value: Any, number: bool) -> None:
    assert plots._numeric(value) == number


def links(values: dict[tuple[int, int], float], **also: Any) -> list[Row]:
    return [row(value, ends=ends, **also) for ends, value in values.items()]


def shades(axes: Any) -> dict[tuple[int, int], float]:
    """Strength of each filled cell by (from, to)."""
    return {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)): p.get_alpha() for p in axes.patches if p.get_fill()}


@pytest.mark.parametrize(("direction", "expected"), [("higher", (0.12, 0.52, 0.92)), ("lower", (0.92, 0.52, 0.12))])
def test_a_matrix_is_strongest_where_it_is_best(direction: str, expected: Any) -> None:
    some = links({(0, 1): 100.0, (1, 0): 200.0, (1, 2): 300.0}, direction=direction)
    some[0].verdict = "FAIL"
    figure, caption = plots._matrix(some)
    (axes,) = figure.axes
    found = shades(axes)
    assert (found[0, 1], found[1, 0], found[1, 2]) == pytest.approx(expected)
    assert texts(axes) == ["100.0", "200.0", "300.0"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("to GPU", "from GPU")
    (frame,) = (p for p in axes.patches if not p.get_fill())
    assert (round(frame.get_y() + 0.45), round(frame.get_x() + 0.45)) == (0, 1), "from 0 to 1"
    assert axes.get_ylim() == (2.5, -0.5) and axes.get_xlim() == (-0.5, 2.5)
    assert caption == "Triad: from row to column; stronger colour is better; a framed cell has a finding"


def test_cells_that_differ_by_noise_look_alike_and_the_last_size_counts() -> None:
    some = [
        *links({(0, 1): 1.0, (1, 0): 2.0}, at={"bytes": 8}),
        *links({(0, 1): 100.0, (1, 0): 99.0}, at={"bytes": 64}),
    ]
    (axes,) = plots._matrix(some)[0].axes
    assert shades(axes) == {(0, 1): pytest.approx(0.92), (1, 0): pytest.approx(0.84)}, (
        "a tenth of the best is the least"
    )
    figure, caption = plots._matrix([one for i in range(5) for one in links({(0, 1): 1.0}, title=f"m{i}")])
    assert len(figure.axes) == 4 and caption.endswith("; 1 more matrix panel left out")


def test_phases_are_stacked_and_have_their_total() -> None:
    some = [row(1.0, title="a"), row(2.5, title="b", verdict="FAIL"), row(4.0, "GPU 1", title="a")]
    figure, caption = plots._phases(some)
    (axes,) = figure.axes
    assert bars(axes) == [(0, 1, 0), (1, 2.5, 0), (0, 4, 1)] and texts(axes) == ["3.500", "4.000"]
    assert axes.get_xlim() == pytest.approx((0, 4.4)) and caption == "a, b: stacked phases and their total"
    edges = [to_hex(p.get_edgecolor()) for p in axes.patches]
    assert edges == [plots.COLOURS[role] for role in ("paper", "FAIL", "paper")]
    assert [one.get_text() for one in axes.get_yticklabels()] == ["GPU 0", "GPU 1"]
    many, caption = plots._phases([row(1.0, f"GPU {i}") for i in range(42)])
    assert caption.endswith("; 2 more bars left out") and len(many.axes[0].patches) == 40
    assert plots._phases([row(0.0)])[0].axes[0].get_xlim() == (0, 1)


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (25, "2.5"), (-3, "-.3"), (-30, "-3"), (100, "10"), (7, ".7")])
def test_tenths_are_written_as_short_as_possible(count: int, text: str) -> None:
    assert plots._tenths(count) == text


@pytest.mark.parametrize(("path", "expected"), [
    ("M100 200L110.5 200L110.5 195L100 195z", "M100 200h10.5v-5H100z"), ("M1 1L2 2", "M1 1l1 1"),
    ("M900 900L1 1", "M900 900L1 1"), ("M900 900L900 1", "M900 900V1"), ("M900 900L1 900", "M900 900H1"),
    ("M0 0L5 -3", "M0 0l5-3"),
])  # fmt: skip
def test_paths_are_written_in_steps_if_these_are_shorter(path: str, expected: str) -> None:
    found = re.fullmatch(r'd="(.*)"', f'd="{path}"')
    assert found is not None and plots._relative(found) == f'd="{expected}"'
