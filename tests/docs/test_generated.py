"""Generated pages and pictures are up to date with their sources."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tenken.archive import packed
from tenken.model.catalogue import load_catalogue
from tenken.paths import ROOT
from tenken.report import page, session
from tests.docs import pages
from tools import pictures, verified


def digest_of_page() -> str:
    found = re.findall(r"^<!-- digest ([0-9a-f]{64}) -->$", verified.PAGE.read_text(encoding="utf-8"), re.M)
    assert len(found) == 1
    return str(found[0])


def test_the_page_of_what_ran_where_is_current() -> None:
    assert digest_of_page() == verified.digest(verified.sources()), "python -m tools.verified"


def test_its_rows_are_those_of_an_archive() -> None:
    """The smallest archive, read again."""
    smallest = min(verified.archives(), key=lambda file: file.stat().st_size)
    page = verified.PAGE.read_text(encoding="utf-8").splitlines()
    rows = [verified.in_table(seen) for seen in verified.sessions_of(smallest)]
    assert rows and not [row for row in rows if row not in page]


def test_the_verdict_in_the_readme_is_what_the_kept_session_prints() -> None:
    found = session.load(packed.folder_of(pictures.TWO_H200), pictures.SESSION)
    printed = page.on_terminal(found, load_catalogue()).splitlines()
    (shown,) = (block for block in pages.blocks(ROOT / "README.md") if block.language == "text")
    lines = [line for line in shown.text.splitlines() if line != "..."]
    assert len(lines) > 5 and not [line for line in lines if line not in printed]


def test_a_changed_archive_is_seen(tmp_path: Path) -> None:
    smallest = min(verified.archives(), key=lambda file: file.stat().st_size)
    copy = tmp_path / smallest.name
    shutil.copyfile(smallest, copy)
    before = verified.digest([copy])
    assert before == verified.digest([smallest])
    copy.write_bytes(copy.read_bytes() + b"x")
    assert verified.digest([copy]) != before


def test_the_pictures_are_of_today_s_templates() -> None:
    for picture in pictures.PICTURES:
        assert picture.digest() == pictures.kept().get(picture.name), f"{picture.name} has changed: make pictures"


@pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda one: one.name)
def test_pictures_are_small_and_shown(picture: pictures.Picture) -> None:
    for file in picture.files():
        assert file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size < 150_000
    shown = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    assert picture.files()[0].name in shown


def test_a_changed_template_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pictures.PICTURES[0]
    before = first.digest()
    shutil.copytree(pictures.TEMPLATES, tmp_path / "templates")
    monkeypatch.setattr(pictures, "TEMPLATES", tmp_path / "templates")
    assert first.digest() == before
    file = tmp_path / "templates" / first.templates[0]
    file.write_text(file.read_text() + "\n<p>more</p>\n")
    assert first.digest() != before
