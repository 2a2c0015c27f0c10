"""The site of the documentation: it builds without a warning, offline, and has search, navigation and API."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tenken.paths import ROOT
from tests.docs import pages

#: What readers look for, and where it is in the navigation.
PATHS = ("Accept a machine", "Watch a machine", "Measure", "Extend")


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    # no host resolves: any request of the build would fail
    environment.update(http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9", PYTHONPATH=str(source))
    return subprocess.run(
        ["sh", "scripts/site.sh", str(target)], cwd=source, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.site
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_every_page_is_there_and_the_first_one_leads_to_all_paths(site: Path) -> None:
    for page in pages.pages():
        assert (site / page.relative_to(ROOT)).with_suffix(".html").is_file(), page
    assert 'url=docs/index.html"' in (site / "index.html").read_text()
    first = (site / "docs" / "index.html").read_text()
    navigation = re.findall(r'<p class="caption"[^>]*><span class="caption-text">([^<]+)', first)
    assert [name for name in navigation if name in PATHS] == list(PATHS)
    # pages of benchmarks follow from their metrics.yaml
    assert 'href="stream.html"' in first and "BENCHMARKS" not in first and "OTHER-PAGES" not in first


@pytest.mark.site
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_interface_is_that_of_the_docstrings(site: Path) -> None:
    text = (site / "docs" / "api.html").read_text()
    names = (
        "history.history", "history.samples", "reframe.base.TenkenCheck", "reframe.base.JudgedCheck.subjects",
        "reframe.foreign.ForeignCheck.command", "reframe.foreign.Figure.samples", "reframe.links.MpiBase",
    )  # fmt: skip
    for name in names:
        assert f'id="tenken.{name}"' in text, name
    assert "All values of an archive, oldest first" in text and "TestVar(" not in text


@pytest.mark.site
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_search_and_pages_need_no_network(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    terms = json.loads(index[index.index("{") : index.rindex("}") + 1])
    assert "docs/gate" in terms["docnames"] and {"acknowledg", "triad"} & set(terms["terms"])
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="([^"]*)"', page.read_text())
        loaded += re.findall(r'<link\b[^>]*rel="(?:stylesheet|preload|icon)"[^>]*href="([^"]*)"', page.read_text())
        assert not [address for address in loaded if "//" in address], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import ['\"]http", style.read_text()), style


@pytest.mark.site
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_a_page_that_is_wrong_stops_the_build(tmp_path: Path) -> None:
    """A link without target, and a page outside the navigation."""
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    for name in ("pyproject.toml", "docs/conf.py", "docs/site", "scripts/site.sh"):
        target = source / name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, target)
    (source / "docs" / "index.md").write_text("# First\n\n```{toctree}\ngood\n```\n")
    (source / "docs" / "good.md").write_text("# Good\n\n[first](index.md#first)\n")
    (source / "lost.md").write_text("# Lost\n\n[nowhere](nowhere.md)\n")
    done = build(source, tmp_path / "bad")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr and "toctree" in done.stderr
    # only the lost page is at fault
    assert "lost.md" in done.stderr and "good.md" not in done.stderr
