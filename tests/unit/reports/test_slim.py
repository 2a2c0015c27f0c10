"""What a page omits from its plots and tables, without a visible change."""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from lxml import etree, html
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.font_manager import FontProperties

from tenken.archive import packed
from tenken.model.catalogue import load_catalogue
from tenken.report import page, plots, session, signed
from tests.support import debian, kept

pytestmark = pytest.mark.xdist_group("slim")  # one worker renders the page that the module shares

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


def points(d: str) -> list[tuple[float, float]]:
    """The points of a path with absolute or relative lines, each to a tenth of a unit."""
    found, at = [], (0.0, 0.0)
    for command, said in re.findall(r"([MLHVlhvz])([^MLHVlhvz]*)", d):
        numbers = [float(one) for one in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", said)]
        if command in "ML":
            at = numbers[0], numbers[1]
        elif command in "HV":
            at = (numbers[0], at[1]) if command == "H" else (at[0], numbers[0])
        elif command != "z":
            step = (numbers[0], 0.0) if command == "h" else (0.0, numbers[0]) if command == "v" else numbers
            at = at[0] + step[0], at[1] + step[1]
        found.append((round(at[0], 1), round(at[1], 1)))
    return found


def test_steps_lead_to_the_same_points():
    numbers = random.Random(7)
    for _ in range(50):
        x = [numbers.choice([0.0, 5.0, round(numbers.uniform(-9, 900), 1)]) for _ in range(30)]
        y = [numbers.choice([0.0, 5.0, round(numbers.uniform(-9, 900), 1)]) for _ in range(30)]
        whole = "M" + "L".join(f"{a:g} {b:g}" for a, b in zip(x, y, strict=True)) + "z"
        short = re.sub(r'd="(.*)"', plots._relative, f'd="{whole}"')[3:-1]
        assert points(short) == points(whole) and len(short) <= len(whole)


def test_only_what_lies_within_its_clipping_loses_it():
    clip = '<defs><clipPath id="p1-0"><rect x="10" y="0" width="50" height="20"/></clipPath></defs>'
    within, beyond = (
        '<path d="M10 5L60 20" clip-path="url(#p1-0)"/>',
        '<path d="M10 5L61 20" clip-path="url(#p1-0)"/>',
    )
    assert plots._unclipped(within + clip) == '<path d="M10 5L60 20"/>'
    assert plots._unclipped(within + beyond + clip) == '<path d="M10 5L60 20"/>' + beyond + clip


def test_grid_lines_and_ticks_of_one_style_are_one_path_and_marks_of_data_stay():
    grey, data = 'style="fill: none; stroke: var(--line)"', 'style="stroke: var(--c0)"'
    body = (
        f'<path d="M1 9L1 0" {grey}/><defs><path id="m1" d="M0 0L0 3.5" style="stroke: var(--line); x: 1"/></defs>'
        f'<use href="#m1" x="1" y="9" {grey}/><text>a</text><path d="M2 9L2 0" {grey}/>'
        f'<use href="#m1" x="2" y="9" {grey}/>'
        f'<defs><path id="m2" d="M0 0L0 3.5" {data}/></defs><use href="#m2" x="5" y="9" {data}/>'
        f'<path d="M1 2L3 4" {data}/>'
    )
    joined = plots._joined(body)
    assert (
        f'<path d="M1 9L1 0M2 9L2 0" {grey}/><path d="M1 9L1 12.5M2 9L2 12.5" style="stroke: var(--line); x: 1"/>'
        in joined
    )
    assert joined.count("#m1") == 0 and joined.count('href="#m2"') == 1 and joined.count("M1 2L3 4") == 1


def test_a_page_without_optional_quotes_and_end_tags_reads_the_same():
    whole = (
        '<!DOCTYPE html><html lang="en"><head><style>a[b="c"]{}</style></head><body><table class="sortable metrics">'
        '<tr class="PASS"><th scope="row">a="b" x</th> <td data-v="0.5">it&#39;s</td></tr></table><dl class="pairs">'
        '<dt>a</dt><dd title="a &#34;b&#34;">1 &lt; 2</dd><dt>c</dt><dd>d</dd></dl><a href="#x-1">x</a>'
        '<svg class="plot">'
        '<path d="M1 2" style="x: y"/><use href="#a" x="1"/></svg><input value="">'
        '<script>if (a<b) c="d" </script></body></html>'
    )
    short = page.slim(whole)
    assert len(short) <= len(whole) - 30 and '<script>if (a<b) c="d" </script>' in short

    def seen(text: str) -> list[tuple[str, dict[str, str], str]]:
        styles = ("style", "class")
        return [
            (e.tag, {k: v for k, v in e.attrib.items() if k not in styles}, (e.text or "") if e.tag != "style" else "")
            for e in html.document_fromstring(text).iter()
        ]

    assert seen(short) == seen(whole)


def test_labels_are_neither_cut_off_nor_covered():
    figure, axes = plots._axes(6.0, rows=2, columns=2, gridspec_kw={"height_ratios": [1, 2]})
    for number, axis in enumerate(axes):
        axis.barh([0, 1], [1e3 * number + 1, 2e5 * number + 2])
        axis.set_yticks([0, 1], ["a label of some length", "two\nlines"])
        axis.set_xlabel("GB/s", loc="right")
        axis.set_ylabel("of all")
        axis.set_title("a title")
    axes[1].xaxis.tick_top()
    axes[1].xaxis.set_label_position("top")
    plots._legend(axes[0], [plots._key("bar", "a", "#010101"), plots._key("line", "b", "#010102")])
    renderer = RendererSVG(864, 432, io.StringIO(), image_dpi=72)

    def cut_or_covered() -> list[str]:
        boxes = [one.get_tightbbox(renderer) for one in axes] + [figure.legends[0].get_window_extent(renderer)]
        wrong = [f"{n} cut" for n, b in enumerate(boxes) if b.x0 < 0 or b.y0 < 0 or b.x1 > 864 or b.y1 > 432]
        pairs = [(m, n) for n in range(len(boxes)) for m in range(n)]
        return wrong + [f"{m} over {n}" for m, n in pairs if boxes[m].overlaps(boxes[n])]

    assert cut_or_covered()
    plots._arrange(figure, renderer)
    figure.draw(renderer)
    assert cut_or_covered() == []
    wide = [axis.bbox.width for axis in axes]
    assert max(wide) - min(wide) < 1 and axes[2].bbox.height == pytest.approx(2 * axes[0].bbox.height)


def test_sizes_of_texts_are_those_of_matplotlib():
    own = [kind(864, 432, io.StringIO(), image_dpi=72) for kind in (plots._renderer(), plots._renderer(), RendererSVG)]
    for text in ("0", "H200 GPU 0", "0"):
        for font in (FontProperties(size=9), FontProperties(size=11), FontProperties(size=11, weight="bold")):
            sizes = {one.get_text_width_height_descent(text, font, False) for one in own}
            assert len(sizes) == 1, (text, font, sizes)


@pytest.fixture(scope="module")
def largest() -> str:
    """The page of the largest kept session, `make run` on two GPUs."""
    loaded = session.load(packed.folder_of(kept.TWO_CLEAN), "20261123T015311Z-bcadd0")
    return page.render(loaded, load_catalogue())


@pytest.fixture(scope="module")
def tree(largest: str) -> html.HtmlElement:
    return html.document_fromstring(largest)


def test_the_page_of_the_largest_kept_session_keeps_its_bars(largest, tree):
    """0.8 MB; half of the elements of a page."""
    assert len(largest.encode()) <= 800_000
    drawings = tree.xpath("//svg[@class='plot']")
    assert len(drawings) == 40 and not tree.xpath("//svg[@class='plot']//*[@style]")
    assert len(tree.xpath("//*")) <= 38_000
    sheet = tree.findtext(".//style")
    used = {name for drawing in drawings for one in drawing.xpath(".//*/@class") for name in one.split()}
    assert used and all(f".{name}{{" in sheet for name in used)
    for table in tree.xpath("//table[contains(@class, 'metrics')]"):
        assert {len(row.xpath("./td|./th")) for row in table.xpath(".//tr")} == {14}
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:href=\"?|url\()#([^\")> /]+)", largest)) <= set(ids)


def test_a_ratio_has_no_unit_and_a_single_figure_no_statistic(tree):
    cells = tree.xpath("//table[contains(@class, 'metrics')]//tr/td[3]")
    units = {cell.text_content() for cell in cells}
    assert {"GB/s", ""} <= units and not any(unit == "1" or "total" in unit for unit in units)


@pytest.mark.browser
def test_it_loads_without_a_layout_of_all_sections(largest, tmp_path: Path):
    """0.35 to 0.5 s on two busy cores, 1.5 to 1.7 s if all sections are laid out at once."""
    debian.need(*debian.BROWSER)
    browser = signed.browser()
    assert browser
    bare = re.sub(r"<meta http-equiv=\"?Content-Security-Policy[^>]*>", "", largest)
    timer = (
        '<pre id="seen"></pre><script>addEventListener("load", () => { document.body.offsetHeight; const seen = '
        "{loaded: performance.now(), tall: document.documentElement.scrollHeight, lazy: "
        '[...document.querySelectorAll(".check")].filter(s => getComputedStyle(s).contentVisibility == "auto").length};'
        'document.getElementById("seen").textContent = JSON.stringify(seen); })</script>'
    )
    (tmp_path / "page.html").write_text(bare + timer)
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    (said,) = re.findall(r'<pre id="seen">(\{.*?\})</pre>', done.stdout)
    seen = json.loads(said)
    assert seen["lazy"] == largest.count("<section class=check ") >= 40 and seen["tall"] > 20_000
    assert seen["loaded"] <= 6_000
