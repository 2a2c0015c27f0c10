"""docs/dependencies.md has exactly one complete row for each package that pyproject.toml requires."""

from __future__ import annotations

import re

import pytest

from tenken.paths import ROOT
from tests.docs import pages

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

PAGE = ROOT / "docs" / "dependencies.md"


def asked_for() -> set[str]:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [*whole["project"]["optional-dependencies"].values(), *whole["dependency-groups"].values()]
    listed = [*whole["project"]["dependencies"], *(one for group in groups for one in group)]
    return {re.split(r"[^\w.-]", one)[0].lower() for one in listed}


def rows(text: str) -> list[list[str]]:
    """The cells of every row of tables that begin with the column `package`."""
    found, inside = [], False
    for line in text.splitlines():
        inside = line.startswith("| package |") or (inside and line.startswith("|"))
        if inside and not line.startswith(("| package |", "|---")):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def problems(text: str) -> list[str]:
    listed: dict[str, list[str]] = {}
    for row in rows(text):
        for name in re.split(r", ?", re.sub(r"\([^)]*\)", "", row[0])):
            listed[name.strip().lower()] = row
    found = [f"{name} has no row" for name in sorted(asked_for() - set(listed))]
    # packages that ReFrame brings may have one
    found += [f"{name} is asked for by nothing" for name in sorted(set(listed) - asked_for() - {"lxml"})]
    found += [f"{name}: an empty cell" for name, row in listed.items() if len(row) != 4 or not all(row)]
    return found


def test_each_dependency_has_its_reason_health_and_replacement() -> None:
    assert problems(PAGE.read_text(encoding="utf-8")) == []
    assert PAGE in pages.pages()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("| tabulate |", "| tabular |", "tabulate has no row"),
        ("| jinja2 |", "| jinja2, mako |", "mako is asked for by nothing"),
        ("| a dozen lines |", "| |", "tabulate: an empty cell"),
    ],
)
def test_a_row_that_is_not_whole_is_found(before: str, after: str, said: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert before in text
    assert any(said in line for line in problems(text.replace(before, after, 1)))
