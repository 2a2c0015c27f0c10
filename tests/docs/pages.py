"""The Markdown that a reader sees, read by the parser that builds the site: blocks, spans of code, links, anchors."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from tenken.paths import ROOT


@dataclass(frozen=True)
class Text:
    """A block or a span of code, or the target of a link, and its place."""

    page: Path
    line: int
    text: str
    #: Of a block its language, "" where it names none; of a span and a link None.
    language: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text.strip()}"


def pages() -> list[Path]:
    """All Markdown files that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    found = sorted({ROOT / name for name in listed if name and (ROOT / name).is_file()})
    assert ROOT / "README.md" in found
    return found


@cache
def tokens(page: Path) -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> Iterator[Text]:
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            words = token.info.split()
            yield Text(page, token.map[0] + 1, token.content, words[0] if words else "")


def spans(page: Path) -> Iterator[Text]:
    for token in tokens(page):
        if token.type == "inline":
            for child in token.children:
                if child.type == "code_inline":
                    yield Text(page, token.map[0] + 1, child.content)


def links(page: Path) -> Iterator[Text]:
    """Targets of links and images."""
    for token in tokens(page):
        if token.type == "inline":
            for child in token.children:
                target = child.attrGet("href") if child.type == "link_open" else None
                target = child.attrGet("src") if child.type == "image" else target
                if target is not None:
                    yield Text(page, token.map[0] + 1, str(target))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Of the headings, as hosts of repositories make them: small letters, blanks as hyphens, other signs gone, the
    second of a name with -1."""
    found: dict[str, int] = {}
    made = set()
    listed = tokens(page)
    for token, following in pairwise(listed):
        if token.type == "heading_open":
            plain = "".join(c.content for c in following.children if c.type in ("text", "code_inline"))
            name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            count = found.get(name, 0)
            found[name] = count + 1
            made.add(f"{name}-{count}" if count else name)
    return frozenset(made)
