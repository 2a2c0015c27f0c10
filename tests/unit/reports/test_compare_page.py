"""The page of a comparison: differences first, nothing left out, no name interpreted as markup."""

from __future__ import annotations

import math

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
