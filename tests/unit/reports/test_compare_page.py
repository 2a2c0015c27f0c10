"""The page of a comparison: differences first, nothing left out, no name interpreted as markup."""

from __future__ import annotations

import contextlib
import math
from types import SimpleNamespace

import pytest
from lxml import html

from tenken.report import compare
from tenken.report.compare import Ratio


def ratio(metric, answer, value, low=None, high=None):
    low, high = value * 0.99 if low is None else low, value * 1.01 if high is None else high
    return Ratio(metric, "GB/s", "higher", 100.0, 100.0 * value, value, low, high, (8, 9), "nights", answer)


RATIOS = [
    ratio("same", "same", 1.001),
    ratio("unclear", "undecided", math.nan, math.nan, math.nan),
    ratio("slightly <b>slower</b>", "slower", 0.97),
    ratio("much slower", "slower", 0.5),
    ratio("faster", "faster", 1.2),
]


def test_what_differs_stands_first_and_all_is_there():
    tree = html.document_fromstring(compare.page(RATIOS, "driver=1", "driver=<2>", 0.01))
    rows = tree.xpath("//tbody/tr")
    names = [r.xpath("./th")[0].text_content() for r in rows]
    assert names == ["much slower", "slightly <b>slower</b>", "faster", "unclear", "same"]
    assert [r.xpath("./td")[0].text_content() for r in rows] == ["slower", "slower", "faster", "undecided", "same"]
    assert rows[0].xpath("./td")[5].text_content() == "0.4950 to 0.5050"
    assert rows[3].xpath("./td")[4].text_content() == "–" and len(rows[3].xpath(".//line")) == 1
    head = tree.xpath("//p[@class='overall']")[0].text_content()
    assert "2 slower, 1 faster, 1 the same, 1 undecided" in head
    assert tree.xpath("//h1")[0].text_content() == "driver=<2>"


def test_bars_have_one_scale_with_1_in_the_middle():
    assert compare._place(1.0, 0.5) == 50
    assert compare._place(math.exp(0.25), 0.5) == 75
    assert compare._place(0.0, 0.5) is None
    assert compare._place(1e9, 0.5) == 100
    with pytest.raises(ZeroDivisionError):
        compare._place(2.0, 0.0)
    assert "NaN" not in compare.page([ratio("one", "same", 1.0, 1.0, 1.0)], "a", "b", 0.01)


def of(place, *values):
    return [(place, "U", "", night, value) for night, value in enumerate(values)]


FOUR = [100.0] * 4


@pytest.mark.parametrize(("a", "b", "found"), [
    # by nights from four on, each place relative to its own level: a slow one that is missing makes no night faster
    (of("x", *FOUR) + of("y", *[50.0] * 4), of("x", *FOUR) + of("y", 50.0), (100, 100, 1, (4, 4), "nights")),
    (of("x", *FOUR[1:]) + of("y", *[50.0] * 3), of("x", *FOUR) + of("y", 50.0), (75, 75, 1, (2, 2), "places")),
    # only places of both sides, if there are any
    (of("x", 100.0) + of("z", 1.0), of("x", 80.0) + of("w", 9.0), (100, 80, 0.8, (1, 1), "places")),
    (of("x", 100.0) + of("z", 60.0), of("w", 40.0), (80, 40, 0.5, (2, 1), "places")),
    (of("x", *[8.0] * 4), of("w", *[4.0] * 5), (8, 4, 0.5, (4, 5), "nights")),
    (of("x", *[8.0] * 4), of("x", 4.0, 4.0, 4.0, 0.0), (8, 4, 0.5, (4, 4), "nights")),
    (of("x", 0.0), of("x", 4.0), (0, 4, None, (1, 1), "places")),
])  # fmt: skip
def test_sides_are_paired_by_place_and_counted_by_nights(a, b, found):
    one = compare._ratio(("C", "m", "", "", "gpu", "GB/s", "lower"), a, b, 0.01)
    told = None if math.isnan(one.ratio) else round(one.ratio, 9)
    assert (one.a, one.b, told, one.counts, one.unit_of_count) == found
    told = min(one.counts) >= 4 and all(row[4] for row in b)
    assert [one.low, one.high] == pytest.approx([one.ratio if told else math.nan] * 2, nan_ok=True)
    assert one.answer == ("undecided" if not told else "same" if found[2] == 1 else "faster")
    assert (one.metric, one.unit, one.direction) == ("C m (gpu)", "GB/s", "lower")
    assert compare._ratio(("C", "m", "n=1", "", "gpu", "GB/s", "lower"), a, b, 0.01).metric == "C m n=1 (gpu)"


@pytest.mark.parametrize(("count", "ends"), [(2, (9, 11)), (5, (8, 12))])
def test_the_interval_of_a_shift_by_hand(count, ends):
    """0, 1, ... and 10 more: of five each, the differences of ranks 3 from either end; of two, the outermost."""
    assert compare.shift_interval(range(count), range(10, 10 + count)) == (10, *ends)


@pytest.mark.parametrize(("direction", "answer"), [("higher", "faster"), ("lower", "slower")])
def test_the_interval_of_a_ratio_by_hand(direction, answer):
    """Sixteen ratios from 10 / 8 to 10 x 8; of four nights each the interval ends at the second from either end."""
    one = compare._ratio(
        ("C", "m", "", "", "gpu", "GB/s", direction), of("x", 1.0, 2.0, 4.0, 8.0), of("x", 10.0, 20.0, 40.0, 80.0), 0.01
    )
    assert (one.ratio, one.low, one.high) == pytest.approx((10, 2.5, 40))
    assert one.answer == answer


@pytest.mark.parametrize(("ends", "answer"), [
    ((0.99, 1.01), "same"), ((0.989, 1.01), "undecided"), ((0.99, 1.011), "undecided"), ((1.0001, 1.2), "faster"),
    ((1.0, 1.2), "undecided"), ((0.8, 0.9999), "slower"), ((0.8, 1.0), "undecided"), ((math.nan, 1.0), "undecided"),
    ((1.0, math.inf), "undecided"), ((-math.inf, 0.5), "undecided"),
])  # fmt: skip
def test_the_answer_is_that_of_the_whole_interval(ends, answer):
    other = {"faster": "slower", "slower": "faster"}.get(answer, answer)
    assert (compare.answer(*ends, True, 0.01), compare.answer(*ends, False, 0.01)) == (answer, other)


@pytest.mark.parametrize(("answers", "status"), [
    (["same"], 0), (["faster", "undecided"], 0), (["undecided"], 3), ([], 3), (["faster", "slower", "undecided"], 1),
])  # fmt: skip
def test_the_command_says_what_is_slower_and_writes_the_page(monkeypatch, tmp_path, capsys, answers, status):
    found = [ratio("m", answer, 0.5) for answer in answers]
    fakes = {"store_of": None, "require": None, "ingest": None, "open_store": contextlib.nullcontext()}
    for name, made in fakes.items():
        monkeypatch.setattr(compare, name, lambda *_, made=made: made)
    monkeypatch.setattr(compare, "compare", lambda *_: found)
    asked = SimpleNamespace(margin=0.01, archive=tmp_path, a="driver=1", b="driver=2", html=tmp_path / "page.html")
    assert compare.run(asked) == status
    assert asked.html.read_text().startswith("<!DOCTYPE html>") and f"Page: {asked.html}" in capsys.readouterr().out
    for margin in (0, 1):
        with pytest.raises(compare.CompareError, match=f"--margin is {margin}"):
            compare.run(SimpleNamespace(margin=margin))
