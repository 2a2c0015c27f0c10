"""The site of the documentation: `make site` builds it with Sphinx, from README, CONTRIBUTING, CHANGELOG and docs/.

The source folder is the root of the checkout, so that links work both here and in the repository's web view."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[1]
# the API is that of this checkout, whatever else is installed
sys.path.insert(0, str(ROOT))

project = "Tenken"
author = "The Tenken developers"
release = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)[0]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
# files that git ignores: archives and outputs of a site
exclude_patterns = [
    ".*", "perflogs/[!R]*", "campaigns/*/*", "stage", "output", "dist", "build", "kit*", "*.egg-info",
    "docs/site", "**/__pycache__",
]  # fmt: skip

# anchors as in the repository's web view
myst_heading_anchors = 4

# docstrings put code between single backticks, and `--option` is not a dash
default_role = "code"
smartquotes = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "furo"
html_title = f"Tenken {release}"
html_copy_source = False
# the first page is in docs/; a reader who opens the folder is redirected there
html_extra_path = ["site"]


def unlisted(index: str, pages: set[str]) -> str:
    """Pages that the index does not list by name, one line each."""
    return "\n".join(sorted(page for page in pages if not re.search(rf"^(.* <)?{re.escape(page)}>?$", index, re.M)))


def list_pages(_app: Any, docname: str, source: list[str]) -> None:
    """A new benchmark or page appears in the navigation automatically."""
    if docname != root_doc:
        return
    sections = (file.read_text(encoding="utf-8") for file in (ROOT / "src" / "programs").glob("*/metrics.yaml"))
    benchmarks = {name for text in sections for name in re.findall(r"^section: docs/([\w-]+)\.md", text, re.M)}
    pages = {file.stem for file in (ROOT / "docs").glob("*.md")} - {"index"}
    index = source[0]
    listed = index.replace("BENCHMARKS", unlisted(index, benchmarks))
    source[0] = listed.replace("OTHER-PAGES", unlisted(listed, pages))


def list_publications(_app: Any, docname: str, source: list[str]) -> None:
    """The rows of the publications are data; only the site shows them as a page."""
    if docname == "docs/publications":
        from tenken.commands.publications import markdown
        from tenken.machines.publications import load

        source[0] += "\n" + markdown(load())


def list_faults(_app: Any, docname: str, source: list[str]) -> None:
    """The tables of all tested faults and of reasons for which a job waits are too long for the pages; only the site
    shows them."""
    if docname != "docs/schedulers":
        return
    from tenken.reframe.schedulers import reasons
    from tests.cluster import matrix

    kinds = {reasons.Waiting.RUNS: "will run", reasons.Waiting.MENDED: "may never run"}
    kinds |= {reasons.Waiting.NEVER: "cannot run", reasons.NODES: "depends on nodes"}
    source[0] += f"\n## Every tested fault\n\n{matrix.counted()}\n\n{matrix.table()}\n"
    for name, table in (("Slurm", reasons.SLURM), ("PBS", reasons.PBS)):
        rows = "".join(f"| `{one.words}` | {kinds[one.waiting]} | {one.source} |\n" for one in table)
        source[0] += f"\n## Reasons of {name}\n\n| reason contains | kind | source |\n|---|---|---|\n{rows}"


def hide_declarations(_app: Any, _domain: str, _kind: str, content: Any) -> None:
    """A variable of ReFrame shows its default in its comment, not as the object that declares it."""
    for value in list(content.parent[0].findall(addnodes.desc_annotation)):
        if "TestVar(" in value.astext():
            value.parent.remove(value)


def setup(app: Any) -> None:
    app.connect("source-read", list_pages)
    app.connect("source-read", list_publications)
    app.connect("source-read", list_faults)
    app.connect("object-description-transform", hide_declarations)
