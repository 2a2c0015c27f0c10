"""Every link of every page has a target: files, folders and headings of this repository; others are well formed."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tenken.paths import ROOT
from tests.docs import pages


def problem(page: Path, target: str) -> str | None:
    """The error of a link of `page`; None if it has a target."""
    split = urlsplit(target)
    if split.scheme:
        if split.scheme not in ("https", "mailto"):
            return f"{split.scheme}: only https and mailto leave this repository"
        known = split.scheme == "mailto" or re.fullmatch(r"[\w-]+(\.[\w-]+)+", split.netloc)
        return None if known else "names no host"
    file = page if not split.path else (page.parent / unquote(split.path)).resolve()
    if not file.is_relative_to(ROOT):
        return "leads out of the repository"
    if not file.exists():
        return "leads nowhere"
    if not split.fragment:
        return None
    if file.suffix != ".md":
        return "has an anchor, and is no page"
    known_anchors = pages.anchors(file)
    return None if split.fragment in known_anchors else f"no such heading; there are {', '.join(sorted(known_anchors))}"


def test_every_link_leads_somewhere() -> None:
    wrong, count = [], 0
    for page in pages.pages():
        for link in pages.links(page):
            count += 1
            reason = problem(page, link.text)
            if reason:
                wrong.append(f"{link}: {reason}")
    assert not wrong, "\n".join(wrong)
    assert count > 100


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nowhere.md", "leads nowhere"),
        ("#no-such-heading", "no such heading"),
        ("../../outside.md", "leads out of the repository"),
        ("../src/programs/stream/metrics.yaml#x", "is no page"),
        ("http://example.com", "only https"),
        ("https:///path", "names no host"),
    ],
)
def test_a_broken_link_is_found(target: str, reason: str) -> None:
    page = ROOT / "docs" / "history.md"
    assert reason in (problem(page, target) or "")


@pytest.mark.parametrize(
    "target", ["verdicts.md", "#columns", "../README.md", "../examples", "https://example.com/a#b"]
)
def test_a_good_link_passes(target: str) -> None:
    assert problem(ROOT / "docs" / "history.md", target) is None


def test_anchors_are_those_of_the_site(tmp_path: Path) -> None:
    """Both ways of generating the anchor of a heading agree: here, and in the parser of the site."""
    from myst_parser.mdit_to_docutils.base import default_slugify

    page = tmp_path / "page.md"
    titles = ["A `code` of 3.1, twice", "Same", "Same", "Was ist das? (ja)", "x_y: a-b"]
    page.write_text("".join(f"# {title}\n\n" for title in titles))
    assert pages.anchors(page) == {
        "a-code-of-31-twice", "same", "same-1", "was-ist-das-ja", "x_y-a-b",
    }  # fmt: skip
    for title in titles:
        assert default_slugify(title.replace("`", "")) in pages.anchors(page)
