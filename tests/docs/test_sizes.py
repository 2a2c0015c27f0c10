"""The first pages of a newcomer stay short: README, changelog, the pages together, and the page of each of the four
ways."""

from __future__ import annotations

import re

import pytest

from tenken.paths import ROOT

#: Written by a command from data: apart.
GENERATED = ("publications.md", "verified.md")


def words(text: str) -> int:
    return len(text.split())


def cells(text: str) -> list[str]:
    rows = re.findall(r"^\|(.*)\|$", text, re.M)
    return [cell for row in rows for cell in row.split("|")]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def releases(text: str) -> dict[str, int]:
    """Bytes by the first word of each heading."""
    parts = re.split(r"^## ", text, flags=re.M)[1:]
    return {part.split()[0]: len(part.encode()) + 3 for part in parts}


def test_the_readme_has_900_words_and_no_cell_of_more_than_20() -> None:
    text = read("README.md")
    assert words(text) <= 900
    assert cells(text) and not [cell for cell in cells(text) if words(cell) > 20]


def test_the_changelog_of_a_release_has_what_a_user_notices() -> None:
    """Details are git's."""
    by = releases(read("CHANGELOG.md"))
    assert "0.2.0" in by and sum(size for name, size in by.items() if name != "0.1.0") <= 8000


def test_all_pages_have_45000_words() -> None:
    pages = [file for file in (ROOT / "docs").glob("*.md") if file.name not in GENERATED]
    assert len(pages) > 40
    assert sum(words(file.read_text(encoding="utf-8")) for file in pages) <= 45_000


@pytest.mark.parametrize("page", ["acceptance", "nightly", "node-check", "publications"])
def test_the_page_of_a_way_has_1200_words(page: str) -> None:
    assert words(read(f"docs/{page}.md")) <= 1200


def test_words_and_bytes_are_counted() -> None:
    assert cells("| a | b c |\n|---|---|\n") == [" a ", " b c ", "---", "---"]
    assert releases("# C\n\n## Unreleased\n\n- x\n\n## 0.1.0 - 2026\n\nabc\n") == {"Unreleased": 20, "0.1.0": 21}
