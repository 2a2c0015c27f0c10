"""What a page leaves out of its plots and tables, without a change of what is seen."""

from __future__ import annotations

import re

from lxml import etree, html

from tenken.model.catalogue import load_catalogue
from tenken.report import page, plots, session
from tests.support import kept

SVG = """<svg width="2"><g id="figure_1"><g id="patch_1"><path d="M 0 0
L 10.126 -0.04
z
" style="fill: none"/></g><g transform="translate(1.26 2)"><g id="line_1"><path d="M 145.834 32.87
L 1e-05 3.004
" clip-path="url(#pabc)" style="fill: none; stroke: #010103; stroke-width: 0.6"/></g></g>
<g id="a"/><text style="font: 11px 'X'; fill: #010101" x="0.05" transform="rotate(-0 1 2)">1.2345 a</text></g>
<defs><path id="m1"/><clipPath id="pabc"><rect x="0"/></clipPath></defs><use href="#m1"/></svg>"""


def test_a_drawing_keeps_every_line_and_letter():
    drawn = plots.themed(SVG, "p1", "a & b", 10, 20)
    tree = etree.fromstring(drawn)
    (line,) = [p for p in tree.iter("path") if p.get("d")]
    assert line.get("d") == "M145.8 32.9L0 3" and line.getparent().get("transform") == "translate(1.3 2)"
    (text,) = tree.iter("text")
    assert text.text == "1.2345 a" and text.get("transform") is None
    assert tree.findtext("title") == "a & b"
    names = {e.get("id") for e in tree.iter() if e.get("id")}
    assert {u.get("href")[1:] for u in tree.iter("use")} <= names and all(n.startswith("p1-") for n in names)


def test_styles_are_said_once_and_only_those_of_plots():
    one = '<svg class="plot" style="max-width:9px"><path style="fill: none; stroke-width: 2"/></svg>'
    shared = plots.share_styles(f'<style>a{{}}</style><p style="color: red">{one}{one}')
    assert shared.count("fill:none;stroke-width:2") == 1 and shared.count('class="s0"') == 2
    assert 'style="color: red"' in shared and shared.count('style="max-width:9px"') == 2
    assert plots.share_styles("<style></style><p>") == "<style></style><p>"


def test_a_kept_session_of_sweeps_stays_below_600_kb():
    loaded = session.load(kept.archive(), "20261122T210006Z-h200links")
    text = page.render(loaded, load_catalogue())
    assert len(text.encode()) <= 600_000
    tree = html.document_fromstring(text)
    drawings = tree.xpath("//svg[@class='plot']")
    assert len(drawings) == 40 and not tree.xpath("//svg[@class='plot']//*[@style]")
    sheet = tree.findtext(".//style")
    used = {name for drawing in drawings for one in drawing.xpath(".//*/@class") for name in one.split()}
    assert used and all(f".{name}{{" in sheet for name in used)
    for table in tree.xpath("//table[contains(@class, 'metrics')]"):
        assert {len(row.xpath("./td|./th")) for row in table.xpath(".//tr")} == {14}
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(ids)
